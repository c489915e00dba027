-- SPDX-License-Identifier: MIT
--- `ridge query`: rows of a sweep, filtered, grouped and sorted; or any SELECT.

local stored = require 'ridge.cli.stored'

local M = {}

M.summary = "rows of a sweep: ridge query widths 'width, median(fwd)' --group width"
M.usage = "ridge query SWEEP ['COLUMNS'] [options] | ridge query --sql 'SELECT ...'"

local SPEC = {
  about = [[
Columns are expressions over parameters, phases (fwd: the median in ns, fwd_lo, fwd_hi, fwd_p95 ...)
and metrics (fwd.gflops is fwd_gflops), by comma; `name := expression` names one. Aggregates: count,
min, max, sum, mean, median, p1 p5 p10 p25 p75 p90 p95 p99.

machine, cpu, commit, host, date and sweep say where a point comes from; one number of points of
unlike machines is refused unless a group, a condition or --mixed says how it is meant.

SWEEP may be several, 'mlp,mlp-2' or 'mlp*'.

    ridge query widths 'width, median(fwd)' --where 'batch >= 64' --group width --sort -2
    ridge query --sql 'SELECT width, fwd FROM "widths" WHERE grade <= "B"' --as csv]],
  rest = 'SWEEP [COLUMNS]', most = 2,
  { 'where', '', "condition: 'batch >= 64 and kind = \"linear\"'" },
  { 'group', '', 'columns that make a group, by comma' },
  { 'sort', '', 'a column by number or name; with - before it the largest first' },
  { 'limit', 0, 'rows at most; 0: all', integer = true, min = 0, short = 'n' },
  { 'mixed', false, 'also one number of points of unlike machines, as if they were of one' },
  { 'sql', '', 'a SELECT over the views, read-only; sweeps are views of their names' },
  stored.AS,
  stored.DB,
}

local function given(text) return text ~= '' and text or nil end

--- Print what is asked for.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('query', SPEC, argv, 'read', function(opt, rest, st)
    local query = require 'ridge.store.query'
    if opt.sql ~= '' then
      local more = rest[1]
      for _, name in ipairs { 'where', 'group', 'sort' } do
        if opt[name] ~= '' then more = more or '--' .. name end
      end
      if opt.mixed then more = more or '--mixed' end
      if opt.limit > 0 then more = more or '--limit' end
      if more then
        return stored.fail('query', ("--sql says all of it, and '%s' is not in it"):format(more))
      end
      stored.show(query.sql(st, opt.sql), opt)
      return 0
    end
    if not rest[1] then
      return stored.fail('query', 'a sweep is missing; ridge sweeps lists them')
    end
    local told = opt.mixed
      and require('ridge.sweep.unlike').told(st, query.several(st, rest[1]))
    if told then require('ridge.plain').note(told, '\n') end
    stored.show(query.ask(st, rest[1], { columns = rest[2], where = given(opt.where),
      group = given(opt.group), sort = given(opt.sort), mixed = opt.mixed,
      refuse = require('ridge.sweep.unlike').question,
      limit = opt.limit > 0 and opt.limit or nil }), opt)
  end)
end

return M

-- SPDX-License-Identifier: MIT
--- `ridge top`: the best points of a sweep.

local stored = require 'ridge.cli.stored'
local plain = require 'ridge.plain'

local M = {}

M.summary = 'the best points of a sweep: ridge top widths --by fwd.gflops'
M.usage = 'ridge top SWEEP --by NAME [-n 10] [options]'

local SPEC = {
  about = [[
The best points by a phase or metric, best first; points of grade D have no say.

    ridge top widths --by fwd.gflops -n 10 --where 'dtype = "f32"']],
  rest = 'SWEEP', most = 1,
  { 'by', '', 'phase or metric; the only phase when left out' },
  { 'n', 10, 'how many', integer = true, min = 1, short = 'n' },
  { 'where', '', 'condition on parameters and results' },
  stored.AS,
  stored.DB,
}

-- Which way is better, as whoever measured it said; times: less.
local function direction(st, sweep, by)
  local results = require 'ridge.store.results'
  local known = results.directions(st, sweep.id)
  if by == '' then
    local phases = {}
    for name in pairs(known) do
      if known[name .. '_lo'] and known[name .. '_p95'] then phases[#phases + 1] = name end
    end
    by = #phases == 1 and phases[1] or by
  end
  by = by:gsub('%.', '_')
  if known[by] and known[by] ~= 0 then return by, known[by] end
  local names = {}
  for name in pairs(known) do names[#names + 1] = name end
  table.sort(names)
  local near = require('ridge.near').hint(by, names)
  local text = 'nobody said which way %s is better%s'
  if by == '' then
    text = '--by NAME is missing'
  elseif not require('ridge.store.query').has(st, sweep, by) then
    text = 'the sweep ' .. sweep.name .. ' has no %s%s' -- letters, digits, dots and dashes
  end
  require('ridge.blame').raise(text:format(by, near), 'EARG')
end

--- Print the best points.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('top', SPEC, argv, 'read', function(opt, rest, st)
    local query = require 'ridge.store.query'
    if not rest[1] then
      return stored.fail('top', 'a sweep is missing; ridge sweeps lists them')
    end
    local sweep = query.sweep(st, rest[1])
    local by, better = direction(st, sweep, opt.by)
    local params = require('ridge.store.results').params(st, sweep.id)
    local columns = { 'trial' }
    for _, name in ipairs(params) do columns[#columns + 1] = name end
    columns[#columns + 1] = by
    if query.has(st, sweep, by .. '_lo') then
      columns[#columns + 1], columns[#columns + 2] = by .. '_lo', by .. '_hi'
    end
    columns[#columns + 1] = 'grade'
    -- alone first: what is wrong in it is said of what was typed, and brackets stay in it
    if opt.where ~= '' then require('ridge.store.expression').parse(opt.where) end
    local where = ("state = 'ok'%s"):format(
      opt.where ~= '' and (' and (%s)'):format(opt.where) or '')
    local found = query.ask(st, sweep.name, { columns = table.concat(columns, ', '), where = where,
      sort = (better > 0 and '-' or '') .. by })
    local best = {}
    for _, line in ipairs(found.lines) do
      -- what was not timed has no grade
      if line[#columns] ~= 'D' and #best < opt.n then best[#best + 1] = line end
    end
    local n = #found.lines
    found.lines = best
    stored.show(found, opt)
    if #best == 0 and n > 0 then
      plain.note(('all %d points are of grade D, disturbed; they have no say\n'):format(n))
    end
  end)
end

return M

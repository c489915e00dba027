-- SPDX-License-Identifier: MIT
--- What `ridge ab` and `ridge compare` have in common: `--fail-on`, statuses, the printed table.

local plain = require 'ridge.plain'
local ratio = require 'ridge.show.ratio'

local M = {}

--- 'slower>2%' as a function of a result.
---@param text string
---@return (fun(found: table): boolean)|nil condition
---@return string|nil reason
function M.condition(text)
  if text == '' then return function() return false end end
  local verdict, percent = text:match '^(%l+)>([%d.]+)%%$'
  verdict = verdict or text
  if verdict ~= 'slower' and verdict ~= 'faster' and verdict ~= 'equal' and verdict ~= 'open'
      or percent and not tonumber(percent) then
    return nil, ("--fail-on: '%s' is not like slower, slower>2%% or open"):format(text)
  end
  local least = percent and math.log(1 + tonumber(percent) / 100) or 0
  return function(found)
    return found.verdict == verdict and math.abs(math.log(found.ratio)) >= least
  end
end

--- The status for the shell: 3 when the condition holds for a result, 4 when strict and one is
--- open.
---@param results table[]
---@param condition fun(found: table): boolean
---@param strict boolean
---@return integer status
function M.status(results, condition, strict)
  local status = 0
  for _, found in ipairs(results) do
    if condition(found) then return 3 end
    if strict and found.verdict == 'open' then status = 4 end
  end
  return status
end

local function value_of(text)
  if text == 'true' or text == 'false' then return text == 'true' end
  return tonumber(text) or text
end

--- The parameters of one side: 'impl=naive,k=4'.
---@param list string[]
---@param flag string
---@return table|nil params
---@return string|nil reason
function M.params(list, flag)
  local out = {}
  for _, item in ipairs(list) do
    local name, text = item:match '^([^=]+)=(.*)$'
    if not name then return nil, ("--%s: '%s' is not name=value"):format(flag, item) end
    out[name] = value_of(text)
  end
  if next(out) == nil then return nil, ('--%s name=value is missing'):format(flag) end
  return out
end

--- A time in its unit: '20.23 us'.
---@param ns number
---@return string text
function M.time(ns)
  for _, unit in ipairs { { 1e9, 's' }, { 1e6, 'ms' }, { 1e3, 'us' } } do
    -- by size: the end of a wide interval may lie below zero; 999.96 us is written 1 ms
    if math.abs(ns) >= 0.99995 * unit[1] then return ('%.4g %s'):format(ns / unit[1], unit[2]) end
  end
  return ('%.4g ns'):format(ns)
end

--- Print results as a table on standard output.
---@param results table[]  each verdict, phase, ratio, ci_lo, ci_hi, a_ns, b_ns
---@param name fun(found: table): string  what was compared
---@param note fun(found: table): string  what is to be said of it
function M.print(results, name, note)
  local rows, widths = { { 'pair', 'phase', 'verdict', 'b/a', '95 %', 'a', 'b', 'note' } }, {}
  for _, found in ipairs(results) do
    local known = found.ratio == found.ratio
    rows[#rows + 1] = { name(found), found.phase .. (found.cache == 'cold' and ' cold' or ''),
      found.verdict,
      known and ratio.text(found.ratio) or '-',
      found.ci_lo and ratio.range(found.ci_lo, found.ci_hi) or '-',
      found.a_ns and M.time(found.a_ns) or '-', found.b_ns and M.time(found.b_ns) or '-',
      note(found) }
  end
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 0, #cell) end
  end
  for _, row in ipairs(rows) do
    local line = {}
    for i, cell in ipairs(row) do line[i] = cell .. (' '):rep(widths[i] - #cell) end
    plain.print((table.concat(line, '  '):gsub('%s+$', '')), '\n')
  end
end

return M

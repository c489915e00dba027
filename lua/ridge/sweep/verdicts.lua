-- SPDX-License-Identifier: MIT
--- Verdicts as they show at the prompt: how many of each, and the ratios farthest from 1.

local colour = require 'ridge.show.colour'
local columns = require 'ridge.show.columns'
local plain = require 'ridge.plain'
local ratio = require 'ridge.show.ratio'
local space = require 'ridge.sweep.space'
local unit = require 'ridge.show.unit'
local value = require 'ridge.show.value'

local M = {}

local ROWS = 9

local function counted(list, order)
  local n, parts = {}, {}
  for _, found in ipairs(list) do n[found.verdict] = (n[found.verdict] or 0) + 1 end
  for _, name in ipairs(order) do
    if n[name] then parts[#parts + 1] = ('%d %s'):format(n[name], name) end
  end
  return table.concat(parts, ', ')
end

local ORDER = { 'slower', 'faster', 'equal', 'open' }

-- A ratio of machines has in it all in which they differ.
local function between(list)
  local n, first, several = 0, nil, false
  for _, found in ipairs(list) do
    local both = found.machines
    if both then
      first, n = first or both, n + 1
      several = several or both.a ~= first.a or both.b ~= first.b
    end
  end
  if n == 0 then return '' end
  return (', %s of machines%s'):format(n == #list and 'all' or n, several and '' or
    (' (%s against %s)'):format(plain.line(tostring(first.b)), plain.line(tostring(first.a))))
end

local function line(list)
  if #list == 0 then return 'no comparisons' end
  return ('%s of b against a: %s%s'):format(plain.count(#list, 'verdict'), counted(list, ORDER),
    between(list))
end

-- The sweep is told where there are several.
local function label_of(list)
  local several = false
  for _, found in ipairs(list) do several = several or found.sweep ~= list[1].sweep end
  return function(found)
    local text = space.label(found.pair or found.match or {})
    return several and found.sweep and found.sweep .. ' ' .. text or text
  end
end

-- The farthest from 1 first, of those that say something.
local function by_weight(list)
  local out, at, rank = {}, {}, { slower = 1, faster = 1, equal = 2, open = 3 }
  for i, found in ipairs(list) do out[i], at[found] = found, i end
  local function size(found)
    local r = found.ratio
    return type(r) == 'number' and r == r and r > 0 and math.abs(math.log(r)) or 0
  end
  table.sort(out, function(a, b)
    local x, y = rank[a.verdict] or 4, rank[b.verdict] or 4
    if x ~= y then return x < y end
    if size(a) ~= size(b) then return size(a) > size(b) end
    return at[a] < at[b]
  end)
  return out
end

local function box(list)
  if #list == 0 then return line(list) end
  local rows, sorted, label = {}, by_weight(list), label_of(list)
  for i = 1, math.min(ROWS, #sorted) do
    local found = sorted[i]
    local known = found.ratio == found.ratio
    rows[i] = { label(found), (found.phase or '') .. (found.cache == 'cold' and ' cold' or ''),
      found.verdict, known and ratio.text(found.ratio)
      or '', found.ci_lo and found.ci_hi and ratio.range(found.ci_lo, found.ci_hi) or '',
      found.a_ns and unit.format('ns', found.a_ns) or '',
      found.b_ns and unit.format('ns', found.b_ns) or '',
      found.reason or found.aa_fail and 'AA_FAIL' or '' }
  end
  local text = line(list) .. '\n' .. columns.text({ 'pair', 'phase', 'verdict', 'b/a', '95 %', 'a',
    'b', '' }, rows, { right = { [4] = true, [6] = true, [7] = true } })
  if #sorted > #rows then
    text = text .. colour.paint('dim', ('\n... %d more: the farthest from 1 stand here'):format(
      #sorted - #rows))
  end
  return text
end

local Verdicts = value.class('verdicts', { line = line, box = box })

--- Let a list of results of a comparison show itself.
---@param list table[] as of ridge.compare or sw:ab
---@return table[] list
function M.verdicts(list) return setmetatable(list, Verdicts) end

return M

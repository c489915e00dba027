-- SPDX-License-Identifier: MIT
--- A calibration as it shows at the prompt: what computes, what moves bytes, the noise, and then
--- the rest as far as twelve lines go.

local colour = require 'ridge.show.colour'
local columns = require 'ridge.show.columns'
local plain = require 'ridge.plain'
local unit = require 'ridge.show.unit'
local value = require 'ridge.show.value'

local M = {}

local ROWS = 9

-- What a unit of a ceiling is here: how it is written, and the factor to it.
local UNITS = { ['flop/s'] = { 'gflops', 1e-9 }, ['B/s'] = { 'gbps', 1e-9 },
  ['1'] = { 'percent', 100 }, ns = { 'ns', 1 } }

local function written(row, v)
  local kind = UNITS[row.unit]
  if kind then return unit.format(kind[1], v * kind[2]) end
  if row.unit == 'Hz' then return ('%.3g GHz'):format(v / 1e9) end
  return ('%.4g %s'):format(v, row.unit or '')
end

-- What people look for first: what computes, what moves bytes, the noise of identical points.
local FIRST = { ['fma.f32'] = 1, ['fma.f64'] = 2, ['bw.l1'] = 3, ['bw.l2'] = 4, ['bw.llc'] = 5,
  ['bw.dram'] = 6, ['noise.aa'] = 7, clock = 8 }

local function line(list)
  local by, threads, n = {}, {}, 0
  for _, row in ipairs(list) do
    by[row.name] = by[row.name] or row
    if not threads[row.threads] then threads[row.threads], n = true, n + 1 end
  end
  local parts = {}
  if by['fma.f32'] then parts[1] = written(by['fma.f32'], by['fma.f32'].value) .. ' in f32' end
  if by['bw.dram'] then
    parts[#parts + 1] = written(by['bw.dram'], by['bw.dram'].value) .. ' from memory'
  end
  return ('calibration of %s%s%s'):format(plain.count(#list, 'row'),
    n > 1 and (', %d thread counts'):format(n) or '',
    #parts > 0 and ': ' .. table.concat(parts, ', ') or '')
end

local function box(list)
  if #list == 0 then return 'calibration: no row' end
  local sorted, at = {}, {}
  for i, row in ipairs(list) do sorted[i], at[row] = row, i end
  table.sort(sorted, function(a, b)
    local x, y = FIRST[a.name] or 99, FIRST[b.name] or 99
    if x ~= y then return x < y end
    return at[a] < at[b]
  end)
  local rows = {}
  for i = 1, math.min(ROWS, #sorted) do
    local row = sorted[i]
    rows[i] = { row.name, row.threads, written(row, row.value),
      row.ci_lo and row.ci_hi and written(row, row.ci_lo) .. ' .. ' .. written(row, row.ci_hi)
      or '' }
  end
  local text = line(list) .. '\n' .. columns.text({ 'name', 'threads', 'value',
    '95 %' }, rows, { right = { [3] = true } })
  if #list > #rows then
    text = text .. colour.paint('dim', ('\n... %d more: str(_) shows them'):format(#list - #rows))
  end
  return text
end

local Calibration = value.class('calibration', { line = line, box = box })

--- Let the rows of a calibration show themselves.
---@param list table[] as of measure.calibrate
---@return table[] list
function M.calibration(list) return setmetatable(list, Calibration) end

return M

-- SPDX-License-Identifier: MIT
--
-- Numbers as people read them: three digits, the fitting prefix, the unit.
--
-- A kind says what a number is: 'ns' and 'ms' times, 'bytes' and 'mb' sizes (KB and MB of 1024, as
-- the column peak_memory_mb counts them), 'count', 'integer', 'gflops', 'gbps', 'times' (a ratio),
-- 'percent', 'number'. Between number and unit stands a thin space.

local M = {}

local floor, abs, log10, max = math.floor, math.abs, math.log10, math.max

local THIN = '\226\128\175'
local MINUS = '−'

-- Each kind: what one of it is in the base unit, and the prefixes {size in the base unit, name}.
local TIME = { { 1, 'ns' }, { 1e3, 'µs' }, { 1e6, 'ms' }, { 1e9, 's' } }
local BYTES = { { 1, 'B' }, { 1024, 'KB' }, { 1024 ^ 2, 'MB' }, { 1024 ^ 3, 'GB' },
  { 1024 ^ 4, 'TB' } }
local COUNT = { { 1, '' }, { 1e3, 'k' }, { 1e6, 'M' }, { 1e9, 'G' }, { 1e12, 'T' } }
local KIND = {
  ns = { 1, TIME }, ms = { 1e6, TIME }, bytes = { 1, BYTES }, mb = { 1024 ^ 2, BYTES },
  count = { 1, COUNT },
  gflops = { 1, { { 1e-3, 'MFLOP/s' }, { 1, 'GFLOP/s' }, { 1e3, 'TFLOP/s' } } },
  gbps = { 1, { { 1e-3, 'MB/s' }, { 1, 'GB/s' }, { 1e3, 'TB/s' } } },
  times = { 1, { { 1, '×' } } }, percent = { 1, { { 1, '%' } } },
  integer = { 1, { { 1, '' } } }, number = { 1, { { 1, '' } } },
}

--- Digits of a number: at least `digits` significant ones, no exponent for everyday sizes.
---@param v number
---@param digits integer|nil significant digits, default 3
---@return string text
function M.number(v, digits)
  digits = digits or 3
  if v == 0 then return '0' end
  if v ~= v then return 'nan' end
  if abs(v) == math.huge then return v > 0 and '∞' or MINUS .. '∞' end
  -- Rounding first: 9.996 has three digits as 10.0, not as 9.996 cut.
  local rounded = tonumber(('%.' .. digits - 1 .. 'e'):format(v))
  local exponent = floor(log10(abs(rounded)) + 1e-9)
  local text
  if exponent >= 6 or exponent < -4 then
    local mantissa = ('%.' .. digits - 1 .. 'f'):format(rounded / 10 ^ exponent)
    if mantissa:find('%.') then mantissa = mantissa:gsub('%.?0+$', '') end
    text = ('%s×10^{%s}'):format(mantissa, (tostring(exponent):gsub('-', MINUS)))
  else
    text = ('%.' .. max(digits - 1 - exponent, 0) .. 'f'):format(rounded)
    if text:find('%.') then text = text:gsub('%.?0+$', '') end
  end
  return (text:gsub('^-', MINUS))
end

local function prefix(kind, v)
  local unit = KIND[kind] or KIND.number
  local base, best = abs(v) * unit[1], unit[2][1]
  for _, p in ipairs(unit[2]) do
    -- 999.6 of one prefix prints as 1 of the next.
    if base >= p[1] * 0.9995 then best = p end
  end
  return unit[1] / best[1], best[2]
end

local function joined(text, name)
  if name == '' then return text end
  if name == '×' or name == '%' then return text .. name end
  return text .. THIN .. name
end

--- A value with its unit: 1.25 ms, 98.3 k, 0.87×.
---@param kind string
---@param v number
---@param digits integer|nil significant digits, default 3
---@return string text
function M.format(kind, v, digits)
  if kind == 'integer' then return (('%d'):format(floor(v + 0.5)):gsub('^-', MINUS)) end
  local factor, name = prefix(kind, v)
  return joined(M.number(v * factor, digits), name)
end

--- One unit for a whole linear axis or for a table of cells, fitting its largest value.
---@param kind string
---@param largest number
---@return number factor to multiply values with
---@return string name of the unit, '' if there is none
function M.common(kind, largest)
  return prefix(kind, largest)
end

--- Labels of linear ticks: as many decimals as the step needs, the same for all.
---@param ticks table array of numbers, already in the axis' unit
---@return table labels array of strings
function M.decimals(ticks)
  local places = 0
  for _, v in ipairs(ticks) do
    for p = places, 6 do
      if abs(v * 10 ^ p - floor(v * 10 ^ p + 0.5)) < 1e-6 * max(1, abs(v) * 10 ^ p) then
        places = max(places, p)
        break
      end
    end
  end
  local out = {}
  for i, v in ipairs(ticks) do
    out[i] = (('%.' .. places .. 'f'):format(v):gsub('^-0(%.?0*)$', '0%1'):gsub('^-', MINUS))
  end
  for i = 2, #out do
    if out[i] == out[i - 1] then -- smaller steps than so many decimals tell apart
      for k, v in ipairs(ticks) do out[k] = M.number(v) end
      break
    end
  end
  return out
end

--- A whole number with thin spaces between the thousands.
---@param v number
---@return string text
function M.grouped(v)
  local whole = floor(v + 0.5)
  local digits = ('%d'):format(abs(whole)):reverse():gsub('(%d%d%d)', '%1 '):reverse()
  return (whole < 0 and MINUS or '') .. digits:gsub('^ ', ''):gsub(' ', THIN)
end

return M

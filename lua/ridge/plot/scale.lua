-- SPDX-License-Identifier: MIT
--
-- Scales: where a value lies on an axis, and which values get a tick.
--
-- A scale maps its domain to 0..1, linearly or by logarithm to base 2 or 10. The base decides the
-- ticks only: 64 128 256 for parameters that grow by doubling, 1 2 5 10 for measured quantities.
-- Ticks are values people can say; their number never exceeds what is asked for.

local blame = require 'ridge.blame'

local Scale = {}
Scale.__index = Scale

local M = {}

local floor, ceil, log, max, min = math.floor, math.ceil, math.log, math.max, math.min

-- A range whose ends differ by this factor is geometric: on a linear axis its lower half would
-- hold only a fifteenth of the values' doublings.
local GEOMETRIC = 8

local function finite(v)
  return type(v) == 'number' and v == v and v < math.huge and v > -math.huge
end

local function make(lo, hi, base)
  if not (finite(lo) and finite(hi)) then
    blame.raise(('a scale from %s to %s: both ends must be finite'):format(tostring(lo),
      tostring(hi)), 'EARG')
  end
  if base and lo <= 0 then
    blame.raise(('a logarithmic scale cannot start at %g'):format(lo), 'EARG')
  end
  if lo > hi then lo, hi = hi, lo end
  if hi - lo <= 1e-9 * max(math.abs(lo), math.abs(hi)) then
    -- One value only, but for rounding: make room around it, so that it lies in the middle.
    if base then lo, hi = lo / 2, hi * 2 else
      local room = lo == 0 and 1 or math.abs(lo) / 2
      lo, hi = lo - room, hi + room
    end
  end
  return setmetatable({ lo = lo, hi = hi, base = base,
    from = base and log(lo) or lo, span = base and log(hi) - log(lo) or hi - lo }, Scale)
end

--- A linear scale.
---@param lo number
---@param hi number
---@return table scale
function M.linear(lo, hi)
  return make(lo, hi, nil)
end

--- A logarithmic scale.
---@param lo number above 0
---@param hi number
---@param base integer 2 or 10
---@return table scale
function M.log(lo, hi, base)
  return make(lo, hi, base or 10)
end

--- The position of a value: 0 at the low end, 1 at the high end.
---@param v number
---@return number t
function Scale:at(v)
  if not self.base then return (v - self.from) / self.span end
  if v <= 0 then return -math.huge end
  return (log(v) - self.from) / self.span
end

--- The value at a position.
---@param t number
---@return number v
function Scale:value(t)
  local v = self.from + t * self.span
  return self.base and math.exp(v) or v
end

--- Is a value within the domain?
---@param v number
---@return boolean inside
function Scale:holds(v)
  local t = self:at(v)
  return t >= -1e-9 and t <= 1 + 1e-9
end

--- A scale around values, with room at both ends.
---@param values table array of finite numbers
---@param opt table|nil log: nil decides by the range, false linear, or the base; base (for nil,
--- default 10); pad: room at the ends as a part of the length (default 0.05); zero: start at 0
---@return table scale
function M.fit(values, opt)
  opt = opt or {}
  local lo, hi = math.huge, -math.huge
  for _, v in ipairs(values) do
    if not finite(v) then blame.raise('a scale around the value ' .. tostring(v), 'EARG') end
    lo, hi = min(lo, v), max(hi, v)
  end
  if lo > hi then blame.raise('a scale around no values', 'EARG') end
  local base = opt.log
  if base == nil then base = lo > 0 and hi / lo >= GEOMETRIC and (opt.base or 10) end
  if base and lo <= 0 then
    blame.raise(('a logarithmic axis cannot show %g'):format(lo), 'EARG')
  end
  local pad = opt.pad or 0.05
  if base then
    if lo == hi then return make(lo, hi, base) end
    local room = (hi / lo) ^ (pad / (1 - 2 * pad))
    return make(lo / room, hi * room, base)
  end
  if opt.zero and lo > 0 then return make(0, hi + hi * pad, nil) end
  local room = (hi - lo) * pad / (1 - 2 * pad)
  return make(lo - room, hi + room, nil)
end

-- Ticks ---------------------------------------------------------------------------------------

local function nice_step(span, n)
  local raw = span / max(n, 1)
  local power = 10 ^ floor(math.log10(raw) + 1e-12)
  for _, m in ipairs { 1, 2, 2.5, 5, 10 } do
    if raw <= m * power * (1 + 1e-9) then return m * power end
  end
  return 10 * power
end

-- Round multiples of `unit`: 20 KB is round, its 20480 bytes are not. `two`: at least two of them,
-- where n have room.
local function linear_ticks(lo, hi, n, unit, two)
  lo, hi = lo / unit, hi / unit
  local function from(step)
    local out
    repeat
      out = {}
      for i = ceil(lo / step - 1e-9), floor(hi / step + 1e-9) do
        out[#out + 1] = i * step * unit + 0 -- no -0
      end
      step = nice_step(step * 1.01, 1)
    until #out <= n
    return out
  end
  local out = from(nice_step(hi - lo, n - 1))
  -- few steps can miss their round numbers: of smaller ones there are more
  return (#out >= 2 or not two) and out or from(nice_step(hi - lo, n + 1))
end

local function power_ticks(self, n)
  -- Powers of two, every s-th of them.
  local first = ceil(log(self.lo) / log(2) - 1e-9)
  local last = floor(log(self.hi) / log(2) + 1e-9)
  local stride = max(1, ceil((last - first + 1) / n))
  local out = {}
  for i = ceil(first / stride) * stride, last, stride do out[#out + 1] = 2 ^ i end
  return out
end

local function mantissa_ticks(self, set)
  local out = {}
  for e = floor(math.log10(self.lo) - 1e-9), ceil(math.log10(self.hi)) do
    for _, m in ipairs(set) do
      -- Written out, so that 3e5 is the number 300000 and no neighbour of it.
      local v = tonumber(('%ge%d'):format(m, e))
      if self:holds(v) then out[#out + 1] = v end
    end
  end
  return out
end

local MANTISSAS = { { 1, 2, 5 }, { 1, 3 }, { 1 } }

local function decade_ticks(self, n)
  for _, set in ipairs(MANTISSAS) do
    local out = mantissa_ticks(self, set)
    if #out <= n then return out end
  end
  local first = ceil(math.log10(self.lo) - 1e-9)
  local last = floor(math.log10(self.hi) + 1e-9)
  local stride = ceil((last - first + 1) / n)
  local out = {}
  for e = ceil(first / stride) * stride, last, stride do
    out[#out + 1] = tonumber(('1e%d'):format(e))
  end
  return out
end

--- Values for ticks, at most n of them.
---@param n integer
---@param one number|nil what ticks are round multiples of, where they are not powers; default 1
---@return table ticks rising array
function Scale:ticks(n, one)
  n = max(n, 2)
  local out
  if self.base == 2 then out = power_ticks(self, n)
  elseif self.base then out = decade_ticks(self, n) end
  -- Less than about a decade: round numbers of a linear axis, at their logarithmic places.
  if not out or #out < 3 then
    local plain = linear_ticks(self.lo, self.hi, n, one or 1, not self.base)
    if not out or #plain > #out then out = plain end
  end
  return out
end

--- Values for unlabelled ticks between the labelled ones: 2..9 within each decade.
---@return table ticks rising array, empty unless the base is 10 and the range below five decades
function Scale:minor()
  if self.base ~= 10 or self.hi / self.lo > 1e5 then return {} end
  return mantissa_ticks(self, { 1, 2, 3, 4, 5, 6, 7, 8, 9 })
end

return M

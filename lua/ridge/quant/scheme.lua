-- SPDX-License-Identifier: MIT
--- What whole numbers of a type stand for: a range becomes a scale and a zero point.

local M = {}

local LIMITS = { u8 = { 0, 255 }, i8 = { -127, 127 } }

--- The smallest and the largest whole number that is used.
---@param dtype string 'u8' or 'i8'
---@return integer low
---@return integer high
function M.limits(dtype) return LIMITS[dtype][1], LIMITS[dtype][2] end

-- What f32 makes of a number: scales are kept so, and the zero point is to agree.
local ffi = require 'ffi'
local one = ffi.new 'float[1]'
local function single(x)
  one[0] = x
  return one[0]
end

local function near_even(v)
  local low = math.floor(v)
  local rest = v - low
  if rest ~= 0.5 then return rest < 0.5 and low or low + 1 end
  return low % 2 == 0 and low or low + 1
end

--- A scale and a zero point for a range. 0 is a whole number exactly, whatever the range, so that
--- padding and what ReLU leaves are; i8 is symmetric.
---@param lo number
---@param hi number
---@param dtype string 'u8' or 'i8'
---@return number scale
---@return integer zero
function M.of(lo, hi, dtype)
  lo, hi = math.min(lo, 0), math.max(hi, 0)
  if dtype == 'i8' then return math.max(single(math.max(-lo, hi) / 127), 2 ^ -126), 0 end
  local scale = math.max(single((hi - lo) / 255), 2 ^ -126)
  return scale, math.max(0, math.min(255, near_even(-lo / scale)))
end

return M

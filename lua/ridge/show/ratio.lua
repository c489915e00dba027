-- SPDX-License-Identifier: MIT
--- Ratios and their intervals as text, and ends of intervals that stay in the range of what they
--- are ends of.
--
-- A change of some per cent reads best as '+2.50 %', a factor of 22 as 'x22': '+2100 %' has to be
-- computed back, and nothing takes '-120 %' of a time.

local M = {}

-- From a factor of two on, either way.
local FACTOR = 2

local function is_ratio(x) return type(x) == 'number' and x >= 0 and x < math.huge end

local function factor(x) return ('x%.3g'):format(x) end
local function change(x) return ('%+.2f %%'):format(100 * (x - 1)) end
local function is_far(x) return x >= FACTOR or x <= 1 / FACTOR end

--- A ratio: a change in per cent, or a factor when it is far from one; 'any' where it has no upper
--- end, '?' when it is none.
---@param x number|nil
---@return string text
-- >> ratio.text(1.025) == '+2.50 %' and ratio.text(22) == 'x22'
function M.text(x)
  if x == math.huge then return 'any' end
  if not is_ratio(x) then return '?' end
  return is_far(x) and factor(x) or change(x)
end

--- An interval of ratios, both ends alike: '+1.00 % .. +3.00 %', 'x0.9 .. x22'.
---@param lo number|nil
---@param hi number|nil
---@param between string|nil  ' .. ' when left out
---@return string text
function M.range(lo, hi, between)
  local far = is_ratio(lo) and is_far(lo) or is_ratio(hi) and is_far(hi) or hi == math.huge
  local function show(x)
    if not is_ratio(x) then return M.text(x) end
    return far and factor(x) or change(x)
  end
  return show(lo) .. (between or ' .. ') .. show(hi)
end

--- The lower end of an interval of something that is above 0.
--
-- Rows of former versions hold ends below 0, of Student's interval without the logarithm: such an
-- end lies as many times below the value as the upper end lies above it.
---@param value number
---@param lo number|nil
---@param hi number|nil
---@return number|nil lo
-- >> ratio.lower(10, -5, 20) == 5
function M.lower(value, lo, hi)
  if lo and lo <= 0 and value > 0 and hi and hi >= value then return value * value / hi end
  return lo
end

return M

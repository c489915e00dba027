-- SPDX-License-Identifier: MIT
--- Shares of a count, such as an accuracy, with their intervals.

local interval = require 'ridge.measure.interval'

local M = {}

local LEVEL = 0.95

--- Wilson's interval of a share (Wilson 1927): it holds for few and for extreme counts too.
---@param hits number from 0
---@param n number above 0
---@param level number|nil 0.95 when left out
---@return number lo
---@return number hi
function M.interval(hits, n, level)
  local z = interval.normal_quantile(1 - (1 - (level or LEVEL)) / 2)
  local p = hits / n
  local middle = (p + z * z / (2 * n)) / (1 + z * z / n)
  local half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
  -- of none and of all its ends are 0 and 1, which rounding would miss
  return hits == 0 and 0 or math.max(0, middle - half),
    hits == n and 1 or math.min(1, middle + half)
end

--- The interval of the difference of two shares (Newcombe 1998, method 10), taken as independent:
--- of the same rows it is too wide, never too narrow, where both agree more often than by chance.
---@param hits_a number
---@param n_a number
---@param hits_b number
---@param n_b number
---@param level number|nil 0.95 when left out
---@return number lo of a - b
---@return number hi
function M.difference(hits_a, n_a, hits_b, n_b, level)
  local a, b = hits_a / n_a, hits_b / n_b
  local a_lo, a_hi = M.interval(hits_a, n_a, level)
  local b_lo, b_hi = M.interval(hits_b, n_b, level)
  return a - b - math.sqrt((a - a_lo) ^ 2 + (b_hi - b) ^ 2),
    a - b + math.sqrt((a_hi - a) ^ 2 + (b - b_lo) ^ 2)
end

return M

-- SPDX-License-Identifier: MIT
--- Two classifiers on the same rows: which answers changed decides, not two shares apart (McNemar
--- 1947).

local proportion = require 'ridge.measure.proportion'

local M = {}

local LEVEL = 0.95

--- The exact test: of the rows that only one has right, is it a coin which one?
---@param only_a integer rows that only the first has right
---@param only_b integer rows that only the second has right
---@return number p two-sided
-- >> mcnemar.exact(1, 9) --> 0.0215
function M.exact(only_a, only_b)
  local n, few = only_a + only_b, math.min(only_a, only_b)
  local log_share, tail = -n * math.log(2), 0 -- of k rows for one of them
  for k = 0, few do
    tail = tail + math.exp(log_share)
    log_share = log_share + math.log((n - k) / (k + 1))
  end
  return math.min(1, 2 * tail)
end

-- How much the two agree beyond chance, corrected for continuity (Newcombe 1998, method 10).
local function phi(both, only_a, only_b, neither)
  local n = both + only_a + only_b + neither
  local product = (both + only_a) * (only_b + neither) * (both + only_b) * (only_a + neither)
  if product == 0 then return 0 end
  local cross = both * neither - only_a * only_b
  if cross > 0 then cross = math.max(cross - n / 2, 0) end
  return cross / math.sqrt(product)
end

--- The interval of the difference of two shares of the same rows (Newcombe 1998, 'Improved
--- confidence intervals for the difference between binomial proportions based on paired data',
--- method 10).
---@param both integer rows that both have right
---@param only_a integer
---@param only_b integer
---@param neither integer
---@param level number|nil 0.95 when left out
---@return number lo of the second share less the first
---@return number hi
function M.difference(both, only_a, only_b, neither, level)
  level = level or LEVEL
  local n = both + only_a + only_b + neither
  local a, b = (both + only_a) / n, (both + only_b) / n
  local a_lo, a_hi = proportion.interval(both + only_a, n, level)
  local b_lo, b_hi = proportion.interval(both + only_b, n, level)
  local agree, d = phi(both, only_a, only_b, neither), b - a
  local function half(x, y) return math.sqrt(math.max(0, x * x - 2 * agree * x * y + y * y)) end
  return d - half(b - b_lo, a_hi - a), d + half(b_hi - b, a - a_lo)
end

return M

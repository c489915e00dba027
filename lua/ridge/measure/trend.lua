-- SPDX-License-Identifier: MIT
--- Does a series rise or fall, and how fast: Mann-Kendall and Theil-Sen.
--
-- Both are by ranks of pairs, so a spike counts once, however high it is.  The cost is n^2/2 pairs:
-- 20 000 for the longest point, milliseconds.

local statistics = require 'ridge.measure.statistics'

local M = {}

-- Complementary error function of a number from 0 on (Numerical Recipes erfcc, relative error below
-- 1.2e-7).
local function erfc(z)
  local t = 1 / (1 + 0.5 * z)
  local p = t * (1.00002368 + t * (0.37409196 + t * (0.09678418 + t * (-0.18628806
    + t * (0.27886807 + t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223
    + t * 0.17087277))))))))
  return t * math.exp(-z * z - 1.26551223 + p)
end

-- The number of permutations of n values with each count of pairs in order (Knuth 5.1.1, the
-- Mahonian numbers): the exact null distribution for the short series of a warm-up.
local function in_order_counts(n)
  local counts = { [0] = 1 }
  local top = 0
  for k = 2, n do
    local wider = {}
    for i = 0, top + k - 1 do
      local sum = 0
      for j = math.max(0, i - k + 1), math.min(i, top) do sum = sum + counts[j] end
      wider[i] = sum
    end
    counts, top = wider, top + k - 1
  end
  return counts, top
end

-- up to here the exact distribution, above it the normal one, which is then good to 0.002
local EXACT_MAX = 10

local function exact_p(n, s)
  local counts, pairs_total = in_order_counts(n)
  local needed = (pairs_total + math.abs(s)) / 2
  local total, tail = 0, 0
  for i = 0, pairs_total do
    total = total + counts[i]
    if i >= needed then tail = tail + counts[i] end
  end
  return math.min(1, 2 * tail / total)
end

--- Mann-Kendall test for a monotone trend (Mann 1945, Kendall 1975), two-sided, ties corrected.
---@param list number[]  in the order taken
---@return number p  probability of a trend at least as strong by chance
---@return number s  pairs that rise minus pairs that fall
-- >> trend.mann_kendall({1, 2, 3, 4, 5}) == 2 / 120
function M.mann_kendall(list)
  local n, s = #list, 0
  if n < 3 then return 1, 0 end
  for i = 1, n - 1 do
    local a = list[i]
    for j = i + 1, n do
      local b = list[j]
      if b > a then s = s + 1 elseif b < a then s = s - 1 end
    end
  end
  local sorted, ties, i = statistics.sorted(list), 0, 1
  while i <= n do
    local j = i
    while j < n and sorted[j + 1] == sorted[i] do j = j + 1 end
    local t = j - i + 1
    ties = ties + t * (t - 1) * (2 * t + 5)
    i = j + 1
  end
  if ties == 0 and n <= EXACT_MAX then return exact_p(n, s), s end
  local variance = (n * (n - 1) * (2 * n + 5) - ties) / 18
  if variance <= 0 then return 1, s end
  local z = math.max(0, math.abs(s) - 1) / math.sqrt(variance)
  return erfc(z / math.sqrt(2)), s
end

--- Theil-Sen slope: the median slope of all pairs (Theil 1950, Sen 1968).
---@param x number[]  positions, not all equal
---@param y number[]  values, as many
---@return number slope  y per x; 0 when there is no pair with different x
function M.theil_sen(x, y)
  local slopes, n = {}, 0
  for i = 1, #x - 1 do
    local xi, yi = x[i], y[i]
    for j = i + 1, #x do
      local dx = x[j] - xi
      if dx ~= 0 then
        n = n + 1
        slopes[n] = (y[j] - yi) / dx
      end
    end
  end
  if n == 0 then return 0 end
  table.sort(slopes)
  return statistics.quantile(slopes, 0.5)
end

--- How far a series moved over its whole length, relative to its median.
---@param at number[]    when each value was taken, ascending
---@param list number[]  values, as many, positive
---@return number drift  0.02: it rose by 2 %
---@return number p      Mann-Kendall
function M.drift(at, list)
  if #list < 3 then return 0, 1 end
  local moved = M.theil_sen(at, list) * (at[#at] - at[1])
  return moved / statistics.median(list), (M.mann_kendall(list))
end

return M

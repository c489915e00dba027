-- SPDX-License-Identifier: MIT
--- What one list of numbers says: quantiles, spread, correlation, clusters.
--
-- Nothing here assumes a normal distribution, because timings never have one: they have a floor and
-- a long tail (Hoefler and Belli 2015, "Scientific Benchmarking of Parallel Computing Systems").
-- Intervals are in ridge.measure.interval, trends in ridge.measure.trend.

local floor, sqrt, abs, min, max = math.floor, math.sqrt, math.abs, math.min, math.max

local M = {}

-- -- Location ------------------------------------------------------------------

--- A sorted copy.
---@param list number[]
---@return number[] sorted  ascending
function M.sorted(list)
  local copy = {}
  for i = 1, #list do copy[i] = list[i] end
  table.sort(copy)
  return copy
end

--- Quantile of a sorted list, linear between neighbours (type 7 of Hyndman and Fan 1996).
---@param sorted number[]  ascending, at least one
---@param q number         0 .. 1
---@return number value
-- >> statistics.quantile({1, 2, 3, 4}, 0.5) == 2.5
function M.quantile(sorted, q)
  local n = #sorted
  local h = (n - 1) * q + 1
  local i = floor(h)
  if i >= n then return sorted[n] end
  return sorted[i] + (h - i) * (sorted[i + 1] - sorted[i])
end

--- Median of a list in any order.
---@param list number[]  at least one
---@return number median
function M.median(list)
  return M.quantile(M.sorted(list), 0.5)
end

--- Arithmetic mean.
---@param list number[]  at least one
---@return number mean
function M.mean(list)
  local sum = 0
  for i = 1, #list do sum = sum + list[i] end
  return sum / #list
end

-- -- Spread --------------------------------------------------------------------

--- Standard deviation with n - 1; 0 for a single number.
---@param list number[]  at least one
---@return number sd
function M.sd(list)
  local n = #list
  if n < 2 then return 0 end
  local m, sum = M.mean(list), 0
  for i = 1, n do
    local d = list[i] - m
    sum = sum + d * d
  end
  return sqrt(sum / (n - 1))
end

--- Median absolute deviation from the median, not scaled to a standard deviation.
---@param list number[]  at least one
---@return number mad
function M.mad(list)
  local centre, away = M.median(list), {}
  for i = 1, #list do away[i] = abs(list[i] - centre) end
  return M.median(away)
end

--- Interquartile range of a sorted list.
---@param sorted number[]  ascending, at least one
---@return number iqr
function M.iqr(sorted)
  return M.quantile(sorted, 0.75) - M.quantile(sorted, 0.25)
end

-- -- Correlation ---------------------------------------------------------------

--- Lag-1 autocorrelation of a list in the order it was taken; 0 when nothing varies.
---@param list number[]
---@return number r1  -1 .. 1
function M.autocorrelation(list)
  local n = #list
  if n < 3 then return 0 end
  local m = M.mean(list)
  local before, product = list[1] - m, 0
  local square = before * before
  for i = 2, n do
    local d = list[i] - m
    square = square + d * d
    product = product + d * before
    before = d
  end
  -- a spread of rounding errors is no spread: it would come out as any correlation at all
  if square <= n * (1e-12 * m) ^ 2 then return 0 end
  return product / square
end

--- How many independent samples n correlated ones are worth, n (1 - r1) / (1 + r1).
--
-- Never more than n, so a negative r1 cannot narrow an interval, and never less than 4 (or n),
-- where the rank interval already spans the whole sample.
---@param n integer
---@param r1 number  lag-1 autocorrelation
---@return number n_eff
function M.effective_count(n, r1)
  local n_eff = r1 >= 1 and 0 or n * (1 - r1) / (1 + r1)
  if r1 <= -1 then n_eff = n end
  return max(min(n_eff, n), min(4, n))
end

-- -- Clusters ------------------------------------------------------------------

--- The best split into two clusters (2-means in one dimension, exact).
---@param sorted number[]  ascending
---@return number removed  share of the variance that the split explains, 0 .. 1
---@return number smaller  share of the numbers in the smaller cluster, 0 .. 0.5
---@return integer at      how many numbers are in the lower cluster; 0 when nothing varies
function M.two_means(sorted)
  local n = #sorted
  if n < 2 then return 0, 0, 0 end
  -- centred sums: squares of raw nanoseconds would cancel
  local centre, total, square = M.mean(sorted), 0, 0
  for i = 1, n do
    local d = sorted[i] - centre
    total = total + d
    square = square + d * d
  end
  if square <= n * (1e-12 * centre) ^ 2 then return 0, 0, 0 end
  local best, at, left = 0, 0, 0
  for i = 1, n - 1 do
    left = left + sorted[i] - centre
    local right = total - left
    local between = left * left / i + right * right / (n - i)
    if between > best then best, at = between, i end
  end
  return min(best / square, 1), min(at, n - at) / n, at
end

-- -- Groups --------------------------------------------------------------------

-- upper tail of the chi-squared distribution: regularised gamma, by series below the mode and by
-- Lentz's continued fraction above it (Press et al., Numerical Recipes, 6.2)
local function log_gamma(x)
  local tmp = x + 5.5
  tmp = tmp - (x + 0.5) * math.log(tmp)
  local sum = 1.000000000190015 + 76.18009172947146 / (x + 1) - 86.50532032941677 / (x + 2)
    + 24.01409824083091 / (x + 3) - 1.231739572450155 / (x + 4)
    + 0.1208650973866179e-2 / (x + 5) - 0.5395239384953e-5 / (x + 6)
  return -tmp + math.log(2.5066282746310005 * sum / x)
end

--- Probability that a chi-squared variable exceeds x.
---@param x number
---@param dof number  degrees of freedom, above 0
---@return number p
function M.chi_squared_tail(x, dof)
  if x <= 0 then return 1 end
  local a, y = dof / 2, x / 2
  local scale = math.exp(-y + a * math.log(y) - log_gamma(a))
  if y < a + 1 then
    local term, sum, k = 1 / a, 1 / a, a
    repeat
      k = k + 1
      term = term * y / k
      sum = sum + term
    until term < sum * 1e-14
    return max(0, 1 - sum * scale)
  end
  local b = y + 1 - a
  local c, d = 1e300, 1 / b
  local h = d
  for i = 1, 500 do
    local step = -i * (i - a)
    b = b + 2
    d = 1 / (step * d + b)
    c = b + step / c
    h = h * d * c
    if abs(d * c - 1) < 1e-14 then break end
  end
  return scale * h
end

--- Do groups come from one distribution?  Kruskal and Wallis 1952, with the correction for ties.
---@param groups number[][]  at least two, none empty
---@return number p       small when some group differs
---@return number effect  largest difference of group medians over the median of all
function M.kruskal_wallis(groups)
  local all = {}
  for g = 1, #groups do
    for i = 1, #groups[g] do all[#all + 1] = { groups[g][i], g } end
  end
  table.sort(all, function(a, b) return a[1] < b[1] end)
  local n, sums, ties = #all, {}, 0
  local i = 1
  while i <= n do
    local j = i
    while j < n and all[j + 1][1] == all[i][1] do j = j + 1 end
    for k = i, j do sums[all[k][2]] = (sums[all[k][2]] or 0) + (i + j) / 2 end
    ties = ties + (j - i + 1) ^ 3 - (j - i + 1)
    i = j + 1
  end
  local values = {}
  for k = 1, n do values[k] = all[k][1] end
  local h, low, high = 0, math.huge, -math.huge
  for g = 1, #groups do
    h = h + sums[g] ^ 2 / #groups[g]
    local centre = M.median(groups[g])
    low, high = min(low, centre), max(high, centre)
  end
  h = 12 / (n * (n + 1)) * h - 3 * (n + 1)
  local correction = 1 - ties / (n ^ 3 - n)
  if correction <= 0 then return 1, 0 end
  return M.chi_squared_tail(h / correction, #groups - 1), (high - low) / M.quantile(values, 0.5)
end

-- -- Everything ----------------------------------------------------------------

--- The numbers that are stored of a list: min p25 med p75 p95 p99 max mean sd mad n.
---@param list number[]  at least one
---@return table summary
function M.summary(list)
  local sorted = M.sorted(list)
  return {
    n = #sorted, min = sorted[1], max = sorted[#sorted],
    p25 = M.quantile(sorted, 0.25), med = M.quantile(sorted, 0.5), p75 = M.quantile(sorted, 0.75),
    p95 = M.quantile(sorted, 0.95), p99 = M.quantile(sorted, 0.99),
    mean = M.mean(sorted), sd = M.sd(sorted), mad = M.mad(sorted),
  }
end

return M

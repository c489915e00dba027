-- SPDX-License-Identifier: MIT
--- Confidence intervals that hold when the samples are correlated and come in rounds.
--
-- A rank interval alone believes that its samples are independent: with a slowly changing machine
-- it covers the true median in 44 to 65 % of the cases instead of 95 %.  Two corrections join: the
-- rank interval uses the effective count of samples, and the spread between rounds gives a t
-- interval of its own; the reported interval is the hull of both.  tests/lua/measure holds this to
-- its coverage by simulation.

local statistics = require 'ridge.measure.statistics'

local M = {}

--- Quantile of the standard normal distribution (Acklam 2003, relative error below 1.2e-9).
---@param p number  above 0, below 1
---@return number z
function M.normal_quantile(p)
  local a = { -3.969683028665376e+01, 2.209460984245205e+02, -2.759285104469687e+02,
              1.383577518672690e+02, -3.066479806614716e+01, 2.506628277459239e+00 }
  local b = { -5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02,
              6.680131188771972e+01, -1.328068155288572e+01 }
  local c = { -7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
              -2.549732539343734e+00, 4.374664141464968e+00, 2.938163982698783e+00 }
  local d = { 7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
              3.754408661907416e+00 }
  if p > 0.5 then return -M.normal_quantile(1 - p) end
  if p < 0.02425 then
    local q = math.sqrt(-2 * math.log(p))
    return (((((c[1] * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) * q + c[6])
      / ((((d[1] * q + d[2]) * q + d[3]) * q + d[4]) * q + 1)
  end
  local q = p - 0.5
  local r = q * q
  return (((((a[1] * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * r + a[6]) * q
    / (((((b[1] * r + b[2]) * r + b[3]) * r + b[4]) * r + b[5]) * r + 1)
end

-- Probability that |T| exceeds t, T with dof degrees of freedom: the finite sums for whole dof
-- (Abramowitz and Stegun 26.7.3 and 26.7.4).
local function t_two_tails(t, dof)
  local theta = math.atan(t / math.sqrt(dof))
  local cosine, sine = math.cos(theta), math.sin(theta)
  local sum, term
  if dof % 2 == 1 then
    sum, term = 0, cosine
    for k = 1, dof - 2, 2 do
      sum = sum + term
      term = term * cosine * cosine * (k + 1) / (k + 2)
    end
    return 1 - 2 / math.pi * (theta + sine * sum)
  end
  sum, term = 0, 1
  for k = 0, dof - 2, 2 do
    sum = sum + term
    term = term * cosine * cosine * (k + 1) / (k + 2)
  end
  return 1 - sine * sum
end

local t_cache = {}

--- The t that a two-sided interval of a level needs.
---@param level number  0.95
---@param dof integer   degrees of freedom, 1 or more
---@return number t
-- >> interval.t_factor(0.95, 4) --> 2.776
function M.t_factor(level, dof)
  local key = level * 1e6 + dof * 1e7
  local known = t_cache[key]
  if known then return known end
  local low, high = 0, 1
  while t_two_tails(high, dof) > 1 - level do high = high * 2 end
  for _ = 1, 80 do
    local middle = (low + high) / 2
    if t_two_tails(middle, dof) > 1 - level then low = middle else high = middle end
  end
  t_cache[key] = high
  return high
end

--- Rank interval of the median: order statistics at n/2 +- z sqrt(n)/2, rounded outwards
--- (Le Boudec 2010, "Performance Evaluation", 2.2), with n replaced by the effective count.
---@param sorted number[]  ascending
---@param n_eff number     effective count, at most #sorted
---@param level number     0.95
---@return number lo
---@return number hi
function M.of_median(sorted, n_eff, level)
  local n = #sorted
  local half = 0.5 * M.normal_quantile(0.5 + level / 2) / math.sqrt(n_eff)
  local first = math.floor(n * (0.5 - half))
  local last = math.ceil(n * (0.5 + half)) + 1
  return sorted[math.max(first, 1)], sorted[math.min(last, n)]
end

--- Student's interval of the mean of a few values, here the medians of rounds.
---@param values number[]  two or more
---@param level number     0.95
---@return number lo
---@return number hi
function M.student(values, level)
  local n = #values
  local half = M.t_factor(level, n - 1) * statistics.sd(values) / math.sqrt(n)
  local centre = statistics.mean(values)
  return centre - half, centre + half
end

--- Student's interval of the geometric mean of a few times or rates: on logarithms, so that no end
--- leaves their range.
---@param values number[]  two or more
---@param level number     0.95
---@return number lo
---@return number hi
function M.student_of_times(values, level)
  local logs, least, most = {}, math.huge, 0
  for i = 1, #values do
    logs[i] = math.log(values[i])
    least, most = math.min(least, values[i]), math.max(most, values[i])
  end
  if least <= 0 then return least, most end   -- a clock that did not move: nothing to compute with
  local lo, hi = M.student(logs, level)
  return math.exp(lo), math.exp(hi)
end

--- The interval that is reported: hull of the rank interval and of the interval between rounds.
---@param rounds number[][]  samples of each round in the order taken
---@param level number       0.95
---@return table ci  lo, hi, med, half (relative half-width), n, n_eff, r1, how ('rank+t' or 'rank')
function M.of_rounds(rounds, level)
  local all, medians = {}, {}
  for r = 1, #rounds do
    local round = rounds[r]
    for i = 1, #round do all[#all + 1] = round[i] end
    medians[r] = statistics.median(round)
  end
  local n, r1 = #all, statistics.autocorrelation(all)
  local n_eff = statistics.effective_count(n, r1)
  local sorted = statistics.sorted(all)
  local med = statistics.quantile(sorted, 0.5)
  local lo, hi = M.of_median(sorted, n_eff, level)
  local how = 'rank'
  if #medians > 1 then
    local t_lo, t_hi = M.student_of_times(medians, level)
    lo, hi, how = math.min(lo, t_lo), math.max(hi, t_hi), 'rank+t'
  end
  return { lo = lo, hi = hi, med = med, half = (hi - lo) / (2 * med),
           n = n, n_eff = n_eff, r1 = r1, how = how }
end

return M

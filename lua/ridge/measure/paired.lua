-- SPDX-License-Identifier: MIT
--- Statistics of paired differences: the estimate, its interval, its p value, many at once.
--
-- By signed ranks (Wilcoxon 1945; the estimate and interval are those of Hodges and Lehmann 1963):
-- a spike counts once, however high, and nothing is assumed but that a difference is as likely to
-- lie on either side of its centre.  The null distribution is counted, not approximated, up to 100
-- differences.

local bit = require 'bit'
local interval = require 'ridge.measure.interval'
local statistics = require 'ridge.measure.statistics'

local M = {}

local EXACT_MAX = 100

-- -- Null distribution ------------------------------------------------------------------

-- Probability of each sum of a random subset of weights: all 2^n sign flips, by counting.
local function subset_sums(weights)
  local chance, top = { [0] = 1 }, 0
  for _, weight in ipairs(weights) do
    for sum = top + 1, top + weight do chance[sum] = 0 end
    top = top + weight
    for sum = top, weight, -1 do chance[sum] = (chance[sum] + chance[sum - weight]) / 2 end
    for sum = weight - 1, 0, -1 do chance[sum] = chance[sum] / 2 end
  end
  return chance, top
end

local rank_tables = {}

-- cumulated[k]: P(W+ <= k) of n ranks without ties
local function cumulated(n)
  local known = rank_tables[n]
  if known then return known end
  local weights = {}
  for i = 1, n do weights[i] = i end
  local chance, top = subset_sums(weights)
  local sum, out = 0, {}
  for k = 0, top do
    sum = sum + chance[k]
    out[k] = sum
  end
  rank_tables[n] = out
  return out
end

--- How many of the smallest (and largest) averages of pairs lie outside the interval.
---@param n integer     differences
---@param level number  0.95
---@return integer k    -1 when n is too small for the level
-- >> paired.outside(12, 0.95) --> 13: the 14th and the 65th of 78 are its ends
function M.outside(n, level)
  local tail = (1 - level) / 2
  if n > EXACT_MAX then
    local sd = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    return math.floor(n * (n + 1) / 4 - interval.normal_quantile(1 - tail) * sd - 0.5)
  end
  local chance, k = cumulated(n), -1
  while chance[k + 1] <= tail do k = k + 1 end
  return k
end

-- -- Estimate and interval ----------------------------------------------------------------

--- The averages of all pairs, each value with itself too (Walsh averages), ascending.
---@param values number[]
---@return number[] averages  n (n + 1) / 2
function M.walsh(values)
  local out, n = {}, 0
  for i = 1, #values do
    for j = i, #values do
      n = n + 1
      out[n] = (values[i] + values[j]) / 2
    end
  end
  table.sort(out)
  return out
end

--- Estimate of the centre (Hodges-Lehmann) and its signed-rank interval.
---@param values number[]  one or more
---@param level number     0.95
---@return table found     estimate, lo, hi; attained = false when there are too few values for the
---  level: then lo and hi are the smallest and the largest
-- >> paired.location({0.01, 0.02, 0.03, 0.02, 0.01, 0.02}, 0.95).estimate
function M.location(values, level)
  local averages = M.walsh(values)
  local k = M.outside(#values, level)
  local attained = k >= 0
  k = math.max(k, 0)
  return { estimate = statistics.quantile(averages, 0.5), lo = averages[k + 1],
           hi = averages[#averages - k], attained = attained }
end

-- -- p value -------------------------------------------------------------------------------

-- Twice the ranks of the sizes (ties share the mean of theirs), and of those above 0.
local function doubled_ranks(values)
  local list = {}
  for _, v in ipairs(values) do
    if v ~= 0 then list[#list + 1] = v end
  end
  table.sort(list, function(a, b) return math.abs(a) < math.abs(b) end)
  local ranks, positive, i = {}, 0, 1
  while i <= #list do
    local j = i
    while j < #list and math.abs(list[j + 1]) == math.abs(list[i]) do j = j + 1 end
    for k = i, j do
      ranks[k] = i + j
      if list[k] > 0 then positive = positive + ranks[k] end
    end
    i = j + 1
  end
  return ranks, positive
end

-- Upper tail of the standard normal distribution (Abramowitz and Stegun 26.2.17, error 7.5e-8).
local function normal_tail(z)
  local t = 1 / (1 + 0.2316419 * z)
  return math.exp(-z * z / 2) / math.sqrt(2 * math.pi) * t * (0.319381530 + t * (-0.356563782
    + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
end

--- Probability of differences at least as one-sided when each sign is a coin: two-sided sign-flip
--- test of the signed ranks, exact up to 100 differences.
---@param values number[]
---@return number p
-- >> paired.sign_flips({1, 2, 3, 4, 5, 6}) == 2 / 64
function M.sign_flips(values)
  local ranks, positive = doubled_ranks(values)
  local n, total, squares = #ranks, 0, 0
  for _, rank in ipairs(ranks) do
    total, squares = total + rank, squares + rank * rank
  end
  if n == 0 then return 1 end
  local far = math.max(positive, total - positive)
  if n > EXACT_MAX then
    local z = (far - total / 2 - 1) / (math.sqrt(squares) / 2)
    return math.min(1, 2 * normal_tail(math.max(z, 0)))
  end
  local chance, tail = subset_sums(ranks), 0
  for sum = far, total do tail = tail + chance[sum] end
  return math.min(1, 2 * tail)
end

-- -- Many comparisons ------------------------------------------------------------------------

--- p values of many comparisons made into q values: calling all with q <= 0.05 makes 5 % of the
--- calls wrong at most, on average (Benjamini and Hochberg 1995).
---@param ps number[]
---@return number[] qs  in the same order
function M.benjamini_hochberg(ps)
  local order, qs = {}, {}
  for i = 1, #ps do order[i] = i end
  table.sort(order, function(i, j)
    if ps[i] ~= ps[j] then return ps[i] < ps[j] end
    return i < j
  end)
  local least = 1
  for place = #ps, 1, -1 do
    least = math.min(least, ps[order[place]] * #ps / place)
    qs[order[place]] = least
  end
  return qs
end

-- -- Designs -----------------------------------------------------------------------------------

local B_AT = { ABBA = { false, true, true, false }, BAAB = { true, false, false, true } }

--- Which slots of a block are the second candidate's.
---@param design string  'ABBA' or 'BAAB'
---@return boolean[] is_b  four
function M.slots(design) return B_AT[design] end

--- The effect of a block: the mean log time of B less that of A.  A drift along the block cancels.
---@param design string    'ABBA' or 'BAAB'
---@param times number[]   of the four slots
---@return number effect   0.05: B took 5.1 % longer
function M.effect(design, times)
  local is_b, sum = B_AT[design], 0
  for i = 1, 4 do sum = sum + (is_b[i] and 1 or -1) * math.log(times[i]) end
  return sum / 2
end

--- A design by a coin.
---@param random table  of ridge.measure.random
---@return string design
function M.coin(random)
  return bit.band(random:bits(), 1) == 0 and 'ABBA' or 'BAAB'
end

return M

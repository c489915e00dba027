-- SPDX-License-Identifier: MIT
--- What passes say: the interval of the median of pass medians, ratios paired by pass, the fast
--- state, and where the variation comes from.
--
-- The unit of inference is the pass, not the window: fifteen windows within half a second see one
-- state of the machine and one layout, so they are one observation.  Everything is computed on
-- logarithms, so no end of an interval can leave the range of a time or of a ratio.
--
-- The interval lies between two of the observations themselves (order statistics of the median),
-- which covers whatever the distribution is; t, BCa and a Bayesian shift were held against it on
-- recorded machine states, where they cover in 20 to 90 % instead of 95 (docs/why/passes.md,
-- scripts/compare_intervals.lua).

local blame = require 'ridge.blame'
local interval = require 'ridge.measure.interval'
local options = require 'ridge.options'
local plain = require 'ridge.plain'
local statistics = require 'ridge.measure.statistics'

local exp, log, max, min, sqrt = math.exp, math.log, math.max, math.min, math.sqrt

local M = {}

local LEVEL = 0.95

--- Passes below which there is no interval: of five, least and largest contain the median in 94 %
--- of cases, of four in 88 %, whatever the distribution is.
M.LEAST = 5

-- Beyond, the ranks come from the normal approximation: 0.5^n has no representation from 1075 on.
local EXACT_MAX = 500

local SPEC = {
  level = { 'number', default = LEVEL, min = 0.5, max = 0.999, doc = 'level of the interval' },
  windows = { 'list', doc = 'times of the windows of each pass, for the variance within passes' },
}

-- -- Checking ------------------------------------------------------------------

local function logs_of(values, what)
  if type(values) ~= 'table' then
    blame.raise(('%s: a list of times is expected, got %s'):format(what, blame.show(values)))
  end
  local out = {}
  for i = 1, #values do
    local v = values[i]
    if type(v) ~= 'number' or not (v > 0 and v < math.huge) then
      blame.raise(('%s: value %d is %s; times and ratios are finite and above 0'):format(what, i,
        blame.show(v)))
    end
    out[i] = log(v)
  end
  return out
end

-- -- The interval ----------------------------------------------------------------

-- How many observations lie outside on each side: the most for which the rest still covers.
local function outside(n, level)
  if n > EXACT_MAX then
    return max(0, math.floor((n - interval.normal_quantile(0.5 + level / 2) * sqrt(n)) / 2) - 1)
  end
  local tail, chance, k = 0, 0.5 ^ n, 0   -- tail: P(at most k - 1 observations below the median)
  while true do
    tail = tail + chance
    if 2 * tail > 1 - level or 2 * k + 2 > n then return max(0, k - 1) end
    chance = chance * (n - k) / (k + 1)
    k = k + 1
  end
end

--- The level that the range of n observations reaches.
---@param n integer
---@return number level  1 - 2^(1 - n)
function M.range_level(n)
  return 1 - 2 ^ (1 - n)
end

-- Of sorted values and their logarithms: ends, and how; nil when there are too few.
local function ends_of(sorted, logs, level)
  local n = #sorted
  if n < M.LEAST then return nil, nil, 'none' end
  local k = outside(n, level)
  local lo, hi = sorted[k + 1], sorted[n - k]
  if M.range_level(n) >= level then return lo, hi, 'order' end
  -- the range of five reaches 94 %: with Student's interval beside it the missing share is made up
  -- for, except where all five met the same of two states
  local t_lo, t_hi = interval.student(logs, level)
  return min(lo, exp(t_lo)), max(hi, exp(t_hi)), 'order+t'
end

-- Standard deviations of the logarithm: of single windows within their pass, and between passes
-- beyond what the median of so few windows varies by itself.
local function spread_of(logs, windows, what)
  local within, between
  local total = #logs > 1 and statistics.sd(logs) ^ 2 or nil
  if windows then
    local sum, dof, least = 0, 0, math.huge
    for i = 1, #windows do
      local each = logs_of(windows[i], ('%s: windows of pass %d'):format(what, i))
      if #each > 1 then
        sum, dof = sum + statistics.sd(each) ^ 2 * (#each - 1), dof + #each - 1
      end
      least = min(least, #each)
    end
    if dof > 0 then
      within = sqrt(sum / dof)
      -- variance of a median of n normal values: pi / 2 of that of their mean (n = 1: the value)
      local of_median = within ^ 2 * (least > 2 and math.pi / 2 or 1) / max(least, 1)
      between = total and sqrt(max(0, total - of_median))
    end
  end
  return between or total and sqrt(total), within
end

--- The median of pass medians, and its interval.
--
-- Below five passes there is no interval (`lo` and `hi` are nil): a verdict from them would be a
-- guess.  It narrows where one more observation may be left outside: at 9, 12, 15, 17, 20 ...
---@param medians number[]     one a pass, above 0
---@param given table|nil      level (0.95), windows (times of each pass)
---@return table found  med, lo, hi, n, level, method ('none', 'order+t', 'order'), half (half of
---  the width over med), between and within (standard deviations of the logarithm: between passes,
---  and of the windows within a pass, nil when not known)
-- >> passes.interval({ 10, 11, 10, 12, 10 }).med == 10
function M.interval(medians, given)
  local opt = options.check(SPEC, given, 'passes.interval')
  local logs = logs_of(medians, 'passes.interval')
  if #logs == 0 then blame.raise 'passes.interval: there is no pass' end
  if opt.windows and #opt.windows ~= #logs then
    blame.raise(('passes.interval: windows of %d passes, medians of %d'):format(#opt.windows,
      #logs))
  end
  local between, within = spread_of(logs, opt.windows, 'passes.interval')
  local sorted, n = statistics.sorted(medians), #logs
  local lo, hi, method = ends_of(sorted, logs, opt.level)
  -- of an even number the geometric mean of the middle two, as the median of the logarithms is
  local med = sorted[(n + 1) / 2] or sqrt(sorted[n / 2]) * sqrt(sorted[n / 2 + 1])
  return { med = med, lo = lo, hi = hi, n = n, level = opt.level, method = method,
           half = lo and (hi - lo) / (2 * med), between = between, within = within }
end

-- -- Ratios ----------------------------------------------------------------------

--- The ratio of two points that were measured side by side: formed within each pass, so that what
--- the machine did in a pass falls on both.
--
-- The lists are by pass: a pass that has only one of them (nil, false or NaN) does not count.
---@param a number[]      medians by number of the pass
---@param b number[]
---@param given table|nil level
---@return table|nil found  med (time of b over time of a), lo, hi, n, method, half, between; nil
---  when no pass has both
-- >> passes.ratio({ 10, 20 }, { 11, 22 }).med == 1.1
function M.ratio(a, b, given)
  if type(a) ~= 'table' or type(b) ~= 'table' then
    blame.raise('passes.ratio: two lists of pass medians are expected')
  end
  local opt = options.check({ level = SPEC.level }, given, 'passes.ratio')
  local ratios, numbers = {}, {}
  for pass in pairs(a) do numbers[#numbers + 1] = pass end
  table.sort(numbers)
  for _, pass in ipairs(numbers) do
    local x, y = a[pass], b[pass]
    if x and y and x == x and y == y then
      local pair = logs_of({ x, y }, 'passes.ratio')
      ratios[#ratios + 1] = exp(pair[2] - pair[1])
    end
  end
  if #ratios == 0 then return nil end
  return M.interval(ratios, { level = opt.level })
end

-- -- The fast state ----------------------------------------------------------------

-- Two states are told apart when the split explains more than this of the variance, as MODES does
-- (a normal distribution cut in the middle loses 64 %, a uniform one 75 %), when no side is a
-- handful of windows, and when the gap is wider than the lower side is and than the lower half of
-- the upper one (whose other half may be stalls).
local SPLIT, SHARE = 0.8, 0.1

-- Passes in which a state must have been seen to be one.
local SEEN = 3

local function passes_in(list, from, to)
  local seen, n = {}, 0
  for i = from, to do
    if not seen[list[i].pass] then seen[list[i].pass], n = true, n + 1 end
  end
  return n
end

-- Where the low half of the best split of list[1 .. n] ends; nil when there is one state.
local function split(list, n)
  local values = {}
  for i = 1, n do values[i] = list[i].log end
  local removed, _, at = statistics.two_means(values)
  if removed <= SPLIT then return nil end
  local gap, half = values[at + 1] - values[at], math.floor((n - at) / 2)
  local widest = max(values[at] - values[1], values[at + 1 + half] - values[at + 1])
  return gap > widest and at or nil
end

--- The time in the machine's fast state: the low mode over the windows of all passes.
--
-- Split in two as long as the two halves are far apart; what remains at the low end is the fast
-- state, and its medians of each pass have an interval as any others.  On a machine of one state
-- that is every window.
---@param windows (number|number[])[]  of each pass its windows, or its median
---@param given table|nil  level
---@return table|nil found  as of M.interval, n the passes that saw it; with share (of the windows
---  in it) and states (how many were told apart); nil while fewer than three passes saw it
-- >> passes.quiet({ {22, 37}, {22, 22}, {37, 22} }).med == 22
function M.quiet(windows, given)
  local opt = options.check({ level = SPEC.level }, given, 'passes.quiet')
  local list = {}
  for pass = 1, #windows do
    local each = type(windows[pass]) == 'table' and windows[pass] or { windows[pass] }
    for _, value in ipairs(logs_of(each, 'passes.quiet')) do
      list[#list + 1] = { log = value, pass = pass }
    end
  end
  table.sort(list, function(x, y) return x.log < y.log end)
  local n, states = #list, 1
  while n > 2 do
    local at = split(list, n)
    if not at or at < SHARE * n then break end
    if passes_in(list, 1, at) < SEEN then
      -- there, and not seen often enough; below a state already found it is that one's scatter
      if states == 1 then return nil end
      break
    end
    if n - at >= SHARE * n then states = states + 1 end   -- else stalls, which are no state
    n = at
  end
  if passes_in(list, 1, n) < SEEN then return nil end
  local by_pass, medians = {}, {}
  for i = 1, n do
    local entry = list[i]
    by_pass[entry.pass] = by_pass[entry.pass] or {}
    table.insert(by_pass[entry.pass], entry.log)
  end
  for pass = 1, #windows do
    if by_pass[pass] then medians[#medians + 1] = exp(statistics.median(by_pass[pass])) end
  end
  local found = M.interval(medians, { level = opt.level })
  found.share, found.states = n / #list, states
  return found
end

-- -- In words ----------------------------------------------------------------------

--- What the variation says about what would help.
---@param found table  of M.interval, with windows
---@return string|nil text  nil when the parts are not known
-- >> passes.sentence(found)
function M.sentence(found)
  local between, within = found.between, found.within
  if not between or not within then return nil end
  local parts = ('%s between passes, %s within'):format(plain.percent(between),
    plain.percent(within))
  if between > within then
    return parts .. ': most of it is between passes: more time, not more samples'
  end
  return parts .. ': most of it is within passes: more windows in each pass help'
end

return M

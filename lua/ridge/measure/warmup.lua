-- SPDX-License-Identifier: MIT
--- Before the samples: the first call, the size of a window, and the warm-up.
--
-- A warm-up is a test and not a count: fixed counts are wrong by a third on some machines, and some
-- programs never settle at all (Barrett et al. 2017, "Virtual machine warmup blows hot and cold").

local statistics = require 'ridge.measure.statistics'
local trend = require 'ridge.measure.trend'
local blame = require 'ridge.blame'

local M = {}

-- Steady: so many windows in a row close together, among so many without a trend.
local CLOSE, TRENDLESS, TREND_P = 3, 8, 0.05

-- What other work leaves in the last-level cache goes call by call: where 128 MB were read and
-- written beside as much of another point (L3 of 300 MB), the first two calls took 8.4 ms, the
-- third 5.8, and from the fifth on all took 4.3; the first two look settled. So a point calls on
-- until so many calls in a row were no faster than the fastest by this share, at most so many, and
-- no longer than it takes to stream through a large cache.
local SETTLE_FLAT, SETTLE_FALL, SETTLE_NS = 3, 0.02, 1.5e8

--- At most so many; a window of as many settles within itself.
M.SETTLE_CALLS = 8

-- 2^40 calls that together take no time are no calls
local MAX_CALLS = 2 ^ 40

--- Time of one window, in nanoseconds: by the device's own clock where it has one (`ns`).
---@param window table
---@return number ns
function M.duration(window)
  return window.ns or window.end_ns - window.begin_ns
end

--- The shortest window worth timing: 10^4 times what reading the clock costs, 10^3 of its steps,
--- and not below what the protocol says.
---@param protocol table
---@param clock table  overhead_ns, resolution_ns
---@return number ns
function M.shortest(protocol, clock)
  return math.max(protocol.window_ns, 1e4 * clock.overhead_ns, 1e3 * clock.resolution_ns)
end

--- Double the number of calls until a window is long enough.
---@param take fun(k: integer): table  takes one window of k calls
---@param shortest_ns number
---@param k integer|nil  where to begin
---@return integer k
---@return number per_call_ns
function M.size(take, shortest_ns, k)
  k = k or 1
  while true do
    local ns = M.duration(take(k))
    if ns >= shortest_ns then return k, ns / k end
    k = k * 2
    if k > MAX_CALLS then
      blame.raise(('measure: 2^40 calls take %g ns; there is nothing to time'):format(ns), 'EARG')
    end
  end
end

--- Do the last windows say that the time has settled?
---@param times number[]  time per call of each window
---@param limit number    how far three may lie apart, relative to their median
---@param enough integer  how many windows the trend is looked for in
---@return boolean
function M.is_steady(times, limit, enough)
  local n = #times
  if n < enough then return false end
  local last = statistics.sorted{ times[n], times[n - 1], times[n - 2] }
  if (last[CLOSE] - last[1]) / last[2] > limit then return false end
  local tail = {}
  for i = math.max(1, n - TRENDLESS + 1), n do tail[#tail + 1] = times[i] end
  return (trend.mann_kendall(tail)) > TREND_P
end

--- Warm up by a fixed number of calls, one at a time. A count says nothing of whether the time has
--- settled: that is looked at all the same, at the windows there are.
---@param take fun(k: integer): table  takes one window of k calls
---@param calls integer
---@param limit number        the steady limit
---@return table warm         as M.run gives it; per_call_ns is nil after no calls
function M.count(take, calls, limit)
  local times, spent = {}, 0
  for i = 1, calls do
    times[i] = M.duration(take(1))
    spent = spent + times[i]
  end
  local tail = {}
  for i = math.max(1, calls - CLOSE + 1), calls do tail[#tail + 1] = times[i] end
  local median = calls > 0 and statistics.median(tail) or nil
  local sorted = statistics.sorted(tail)
  return { steady = M.is_steady(times, limit, CLOSE), ns = spent, calls = calls,
           per_call_ns = median, spread = median and (sorted[#sorted] - sorted[1]) / median }
end

--- Warm up until steady.
---@param take fun(k: integer): table  takes one window of k calls
---@param per_call_ns number  from M.size
---@param protocol table
---@param limit number        the steady limit
---@return table warm  steady, ns, calls, per_call_ns (median of the last windows), spread (of them)
function M.run(take, per_call_ns, protocol, limit)
  local k = math.max(1, math.ceil(protocol.warm_window_ns / math.max(per_call_ns, 1e-3)))
  k = math.min(k, MAX_CALLS)
  local times, spent, calls = {}, 0, 0
  local steady
  repeat
    local ns = M.duration(take(k))
    times[#times + 1] = ns / k
    spent, calls = spent + ns, calls + k
    steady = spent >= protocol.warm_min_ns and M.is_steady(times, limit, TRENDLESS)
  until steady or spent >= protocol.warm_max_ns
  -- calls so long that the time ran out before eight windows: three that agree are what there is
  if not steady and #times < TRENDLESS then steady = M.is_steady(times, limit, CLOSE) end
  local tail = {}
  for i = math.max(1, #times - CLOSE + 1), #times do tail[#tail + 1] = times[i] end
  local sorted = statistics.sorted(tail)
  local median = statistics.quantile(sorted, 0.5)
  return { steady = steady, ns = spent, calls = calls, per_call_ns = median,
           spread = (sorted[#sorted] - sorted[1]) / median }
end

--- Call untimed until what another point left in the caches is gone: a window of `k` calls, and
--- more where that is fewer than eight.
---@param take fun(k: integer): table  takes one window of k calls
---@param k integer
---@return integer calls
function M.settle(take, k)
  local calls, spent, fastest, flat = 0, 0, math.huge, 0
  repeat
    local ns = M.duration(take(k))
    calls, spent = calls + k, spent + ns
    flat = ns < (1 - SETTLE_FALL) * fastest and 0 or flat + 1
    fastest = math.min(fastest, ns)
  until calls >= M.SETTLE_CALLS or flat >= SETTLE_FLAT or spent + ns > SETTLE_NS
  return calls
end

return M

-- SPDX-License-Identifier: MIT
--- What other minutes would say: the part of the noise that lies above the length of a sweep.
--
-- The clock of a processor moves over minutes (by 4 % on a quiet guest, results/kept).  Passes that
-- lie within less than ten of them have seen a part of that at most, so an interval between them
-- says what the same minutes would say again.  What the others differ by is a random effect: its
-- variance is that between minutes, as the machine has shown it, less what the passes have seen.
--
-- It belongs to times.  Two points of the same minutes moved together: ratios formed within passes
-- do not have it, and whatever holds points of one sweep against each other takes it out of their
-- intervals again (`own`, `ends`).

local interval = require 'ridge.measure.interval'
local passes = require 'ridge.measure.passes'
local shown = require 'ridge.show.minutes'
local statistics = require 'ridge.measure.statistics'
local variation = require 'ridge.measure.variation'

local M = {}

--- Seconds after which a machine has shown what its minutes differ by.
M.SPAN = variation.SEES_DRIFT

--- Seconds from which on a `ridge trust` has something to say of it: of less than ten minutes what
--- it saw, beside which what it did not see is assumed.
M.SHORT = 60

-- Groups of a shorter record: enough for a spread, each of some processes still.
local SHORT_GROUPS = 9

-- Passes that lie further apart are still two moments: what lies between them nobody saw.
local GAP = M.SPAN / (passes.LEAST - 1)

-- -- What passes have seen -----------------------------------------------------------------------

--- Seconds that moments cover: the time between neighbours, of which a gap counts for a quarter of
--- ten minutes at most, so that two clusters a day apart are two moments and not a day.
---@param times number[]  seconds, in any order
---@return number seconds
-- >> minutes.covered { 0, 10, 86400 } == 160
function M.covered(times)
  local sorted, sum = statistics.sorted(times), 0
  for i = 2, #sorted do sum = sum + math.min(GAP, sorted[i] - sorted[i - 1]) end
  return sum
end

-- The share of a standard deviation between minutes that so many seconds have not seen: what a
-- clock does is like a random walk, of which the variance seen grows with the time.
local function unseen(seconds)
  return math.sqrt(math.max(0, 1 - seconds / M.SPAN))
end

-- -- What minutes differ by ----------------------------------------------------------------

-- Variance of a median of n values over that of one of them.
local function of_median(n) return (n > 2 and math.pi / 2 or 1) / n end

--- How far groups of times lie apart, beyond what the scatter within them explains.
---@param groups table[]  each at (seconds) and logs (logarithms of times, or of clocks)
---@param seconds number|nil  how long they were taken one after the other; what their moments cover
---  when left out, which has to be ten minutes
---@return number|nil sd  of the logarithm, larger where few groups say it (half of Student's factor
---  times it: twice this is what 95 % differ by); nil below five groups, where they do not cover
---  ten minutes, or were taken for less than one
function M.spread(groups, seconds)
  if #groups < passes.LEAST then return nil end
  local meds, times, squares, dof = {}, {}, 0, 0
  for i, group in ipairs(groups) do
    meds[i], times[i] = statistics.median(group.logs), group.at
    if #group.logs > 1 then
      -- robust: one stall would hide what the minutes do
      squares = squares + (1.4826 * statistics.mad(group.logs)) ^ 2 * (#group.logs - 1)
      dof = dof + #group.logs - 1
    end
  end
  if seconds and seconds < M.SHORT or not seconds and M.covered(times) < M.SPAN then return nil end
  local within = dof > 0 and squares / dof or 0
  local noise = 0
  for _, group in ipairs(groups) do noise = noise + within * of_median(#group.logs) / #groups end
  local variance = math.max(0, statistics.sd(meds) ^ 2 - noise)
  return interval.t_factor(0.95, #groups - 1) / 2 * math.sqrt(variance)
end

--- How far a process lies from those of its own group, 95 %: beside M.spread what two processes of
--- any groups differ by, each part of it once.
---@param groups table[]  of M.groups
---@return number up      of the logarithm
---@return number down
-- >> minutes.near { { logs = { 0, 0, 1 } } }
function M.near(groups)
  local logs = {}
  for _, group in ipairs(groups) do
    local n, med = #group.logs, statistics.median(group.logs)
    -- a median of few lies too near to each of them
    local more = n > 1 and math.sqrt(n / (n - 1)) or 1
    for _, log in ipairs(group.logs) do logs[#logs + 1] = (log - med) * more end
  end
  local sorted = statistics.sorted(logs)
  return math.max(0, statistics.quantile(sorted, 0.975)),
    math.max(0, -statistics.quantile(sorted, 0.025))
end

--- How long a group of a record is: a minute, or a ninth of a record of less than ten.
---@param seconds number|nil  how long the record is
---@return number seconds
-- >> minutes.group_of(180) == 20
function M.group_of(seconds)
  return seconds and seconds < M.SPAN and seconds / SHORT_GROUPS or 60
end

--- Moments of a record as groups of a minute each, or of a ninth of a shorter one.
---@param moments table[]     each at (seconds from the beginning) and log
---@param seconds number|nil  how long the record is
---@return table[] groups     of M.spread
function M.groups(moments, seconds)
  local by, out, length = {}, {}, M.group_of(seconds)
  for _, moment in ipairs(moments) do
    local number = math.floor(moment.at / length)
    if not by[number] then
      by[number] = { at = length * number, logs = {} }
      out[#out + 1] = by[number]
    end
    table.insert(by[number].logs, moment.log)
  end
  return out
end

-- A trust shorter than ten minutes knows what it saw, as states that dwell; what it was too short
-- for is a random effect beside that.
local function beside(seen, rest) return math.sqrt(seen ^ 2 + rest ^ 2) end

--- What the minutes of a machine differ by, from the best that is known.
---@param calibration table|nil  of measure.calibration: a `ridge trust` of ten minutes has seen it,
---  a shorter one of a minute or more a part of it
---@param clocks table[]|nil     groups of M.spread: the clock in sweeps of this machine
---@return table source  sd (of the logarithm), kinds (by kind of work, where that is known), how:
---  'trust', 'short' (a shorter trust, beside the clock or what is assumed), 'clock' or 'assumed'
function M.source(calibration, clocks)
  local trust, kinds = calibration and calibration.trust, {}
  local sd = clocks and M.spread(clocks)
  local rest, how = sd or variation.DRIFT / 2, sd and 'clock' or 'assumed'
  local seconds = trust and trust.minutes and trust.seconds or 0
  if seconds < M.SHORT then return { sd = rest, kinds = kinds, how = how } end
  if variation.unseen(seconds) == 0 then rest = 0 end
  for _, kind in ipairs(variation.KINDS) do
    local seen = variation.found(trust, 'minutes', kind)
    kinds[kind] = seen and beside(seen, rest)
  end
  return { sd = beside(trust.minutes, rest), kinds = kinds, how = rest == 0 and 'trust' or 'short' }
end

-- -- In an interval ------------------------------------------------------------------------

--- What passes at these moments have not seen.
---@param source table|nil  of M.source; nil: a made-up machine, which has none
---@param kind string|nil   of ridge.measure.variation
---@param times number[]    of the passes, seconds
---@return number|nil sd    of the logarithm; 0 where they have seen all of it
function M.term(source, kind, times)
  if not source then return nil end
  return (kind and source.kinds[kind] or source.sd) * unseen(M.covered(times))
end

--- An interval between passes, widened to what other minutes would say: in squares on the
--- logarithm.
---@param med number
---@param lo number
---@param hi number
---@param sd number|nil  of M.term
---@return number lo
---@return number hi
-- >> minutes.widen(100, 100, 100, 0.02) --> 96.1, 104.1
function M.widen(med, lo, hi, sd)
  if not sd or sd == 0 then return lo, hi end
  return variation.widen(med, lo, hi, { up = 2 * sd, down = 2 * sd })
end

--- An interval between passes of what is a time, with what other minutes would say.
---@param found table       of ridge.measure.passes.interval
---@param source table|nil  of M.source
---@param times number[]    of the passes, seconds
---@return table found      another one: lo and hi with it, own_lo and own_hi without, sd_minutes
-- >> minutes.add(passes.interval(list), minutes.source(), moments).sd_minutes
function M.add(found, source, times)
  local out = {}
  for name, value in pairs(found) do out[name] = value end
  out.sd_minutes = M.term(source, nil, times)
  out.own_lo, out.own_hi = found.lo, found.hi
  if found.lo then
    out.lo, out.hi = M.widen(found.med, found.lo, found.hi, out.sd_minutes)
    out.half = (out.hi - out.lo) / (2 * out.med)
  end
  return out
end

-- Of rows, also for those who draw them.
M.own, M.ends, M.column = shown.own, shown.ends, shown.column
M.said, M.percent, M.rate, M.rate_of = shown.said, shown.percent, shown.rate, shown.rate_of

return M

-- SPDX-License-Identifier: MIT
--- One result of several: the same point measured in fresh processes.
--
-- What a process draws once (where memory lies, the order of pages) is the same in all its rounds,
-- so their interval knows nothing of it.  From five processes on the interval is that of their
-- medians (ridge.measure.passes); of fewer it is the hull of that of all rounds and of Student's
-- interval of the medians on the logarithm (Kalibera and Jones 2013: repeat at the level where the
-- variance is).

local flags = require 'ridge.measure.flags'
local device = require 'ridge.measure.device'
local interval = require 'ridge.measure.interval'
local minutes = require 'ridge.measure.minutes'
local passes = require 'ridge.measure.passes'
local statistics = require 'ridge.measure.statistics'
local variation = require 'ridge.measure.variation'

local M = {}

local function rounds_of(result)
  local rounds, each = {}, #result.samples / result.rounds
  for r = 1, result.rounds do
    local round = {}
    for i = 1, each do round[i] = result.samples[(r - 1) * each + i] end
    rounds[r] = round
  end
  return rounds
end

local function list_of(results, name)
  local list = {}
  for i, r in ipairs(results) do list[i] = r[name] end
  return list
end

-- The median where each of them has the number; nil where one does not know it.
local function median_of(results, name)
  for _, r in ipairs(results) do
    if r[name] == nil then return nil end
  end
  return statistics.median(list_of(results, name))
end

-- The largest by size; hidden ones (NaN) count only when all are.
local function worst(list)
  local out = 0 / 0
  for _, value in ipairs(list) do
    if value == value and not (math.abs(value) <= math.abs(out)) then out = value end
  end
  return out
end

local function append(out, results)
  out.samples, out.at, out.mark = {}, {}, {}
  local begin = results[1].t0_ns
  for _, r in ipairs(results) do
    for i, ns in ipairs(r.samples) do
      local n = #out.samples + 1
      out.samples[n], out.mark[n] = ns, r.mark[i]
      out.at[n] = r.t0_ns - begin + r.at[i]
    end
  end
end

local function hosts(results)
  local out, hidden = { hidden = {} }, {}
  for _, name in ipairs { 'foreign', 'steal', 'pressure', 'throttled' } do
    local list = {}
    for i, r in ipairs(results) do list[i] = r.host[name] end
    out[name] = worst(list)
  end
  for _, r in ipairs(results) do
    for _, name in ipairs(r.host.hidden) do hidden[name] = true end
  end
  for name in pairs(hidden) do out.hidden[#out.hidden + 1] = name end
  table.sort(out.hidden)
  return out
end

-- What the machine did meanwhile is in the interval between the processes.
local HELD = { FOREIGN = true, PRESSURE = true, STEAL = true, FREQ = true, SENTINEL = true }

-- Flags of any of them; whether it is precise is asked of the whole.
local function judge(results, half, target)
  local raised, names, undisturbed = {}, {}, 0
  for _, r in ipairs(results) do
    for _, name in ipairs(r.flags) do raised[name] = name ~= 'IMPRECISE' or nil end
    undisturbed = undisturbed + (r.undisturbed or 0)
  end
  raised.IMPRECISE = half > target or nil
  for _, name in ipairs(flags.names()) do
    if raised[name] then names[#names + 1] = name end
  end
  return names, flags.grade(names, flags.excused(undisturbed, HELD)), undisturbed
end

-- The processes as passes: what their medians say, and the fast state.
local function passes_of(results, level)
  local windows = list_of(results, 'samples')
  local found = passes.interval(list_of(results, 'med'), { level = level, windows = windows })
  local quiet = passes.quiet(windows, { level = level })
  found.quiet = quiet and quiet.med
  return found
end

-- What these processes have not seen of the minutes around them: nothing that they are judged by.
local function add_minutes(out, results, source)
  if not source or out.clock == device.CLOCK.name then return end
  local times = {}
  for i, r in ipairs(results) do times[i] = r.t0_ns / 1e9 end
  local sd = minutes.term(source, variation.kind_of(out.work), times)
  out.sd_minutes = sd
  if not sd or sd == 0 then return end
  out.ci_lo, out.ci_hi = minutes.widen(out.med, out.ci_lo, out.ci_hi, sd)
  out.ci_how = ('%s+%s'):format(out.ci_how, source.how)
end

--- Results of one point in several processes as one.
---@param results table[]  of measure.block, one a process; two or more
---@param protocol table   the one they were measured by
---@param source table|nil of ridge.measure.minutes: what minutes differ by
---@return table result    as of measure.block, with procs, between and within (standard deviations
---  of the logarithm), sd_minutes (the same of minutes that they have not seen: part of the
---  interval), quiet (the time in the fast state, where three processes saw it)
function M.processes(results, protocol, source)
  local rounds = {}
  for _, r in ipairs(results) do
    for _, round in ipairs(rounds_of(r)) do rounds[#rounds + 1] = round end
  end
  local ci = interval.of_rounds(rounds, protocol.ci_level)
  local found = passes_of(results, protocol.ci_level)
  local lo, hi = found.lo, found.hi
  if not lo then
    local t_lo, t_hi = interval.student_of_times(list_of(results, 'med'), protocol.ci_level)
    lo, hi = math.min(ci.lo, t_lo), math.max(ci.hi, t_hi)
  end
  local out = { label = results[1].label, procs = #results }
  append(out, results)
  for name, value in pairs(statistics.summary(out.samples)) do out[name] = value end
  -- from five processes on each of them is a pass, and the unit of what is said
  if found.lo then out.med = found.med end
  out.between, out.within, out.quiet = found.between, found.within, found.quiet
  out.precision = (hi - lo) / (2 * out.med)
  out.ci_lo, out.ci_hi, out.ci_how = lo, hi, found.method
  if not found.lo then
    -- what the intervals of the processes hold besides: how far the machine stood from its
    -- reference
    out.ci_lo = math.min(lo, statistics.median(list_of(results, 'ci_lo')))
    out.ci_hi = math.max(hi, statistics.median(list_of(results, 'ci_hi')))
    out.ci_how = results[1].ci_how
  end
  out.ci_level, out.ci_how = protocol.ci_level, out.ci_how .. '+processes'
  out.n_eff, out.r1, out.rounds, out.inner = ci.n_eff, ci.r1, #rounds, results[1].inner
  out.iqr = (out.p75 - out.p25) / out.med
  for _, name in ipairs { 'drift', 'sentinel', 'clock_spread', 'warm_spread', 'marked' } do
    out[name] = worst(list_of(results, name))
  end
  for _, name in ipairs { 'warm_ns', 'warm_calls', 'settle_calls' } do
    out[name] = 0
    for _, r in ipairs(results) do out[name] = out[name] + r[name] end
  end
  for _, name in ipairs { 'first_ns', 'clock_hz', 'cores', 'device_ns', 'issue_ns', 'host_ns',
                          'clock_mhz', 'held' } do
    out[name] = median_of(results, name)
  end
  out.device, out.simulated = results[1].device, results[1].simulated
  out.work = results[1].work
  out.state = results[1].state and { before = results[1].state.before,
                                     after = results[#results].state.after }
  out.cache, out.clock, out.t0_ns = results[1].cache, results[1].clock, results[1].t0_ns
  out.thresholds, out.host = results[1].thresholds, hosts(results)
  out.flags, out.grade, out.undisturbed = judge(results,
    (out.ci_hi - out.ci_lo) / (2 * out.med), protocol.precision)
  out.flag_bits = flags.bits(out.flags)
  out.stop = out.precision <= protocol.precision and 'precision' or 'budget'
  add_minutes(out, results, source)
  return out
end

return M

-- SPDX-License-Identifier: MIT
--- The result of one point: its samples summed up, what disturbed it, the flags and the grade.

local device = require 'ridge.measure.device'
local flags = require 'ridge.measure.flags'
local host = require 'ridge.measure.host'
local roof = require 'ridge.measure.roof'
local statistics = require 'ridge.measure.statistics'
local trend = require 'ridge.measure.trend'
local variation = require 'ridge.measure.variation'

local M = {}

-- -- The machine during the point --------------------------------------------------

local KINDS = { 'compute_ns', 'memory_ns' }

-- Time of each kind of reference work: the median over the passes in which the point took part.
local function reference_work(point, passes)
  local work = {}
  for _, kind in ipairs(KINDS) do
    local times = {}
    for i, number in ipairs(point.passes) do times[i] = passes[number].sentinel[kind] end
    work[kind] = statistics.median(times)
  end
  return work
end

-- How far the machine was from its reference: the kind that moved more, and the largest moves to
-- the slow and to the fast side (0 when there was none).
local function shift_of(work, reference)
  local worst, slow, fast = 0, 0, 0
  for _, kind in ipairs(KINDS) do
    local shift = work[kind] / reference[kind] - 1
    if math.abs(shift) > math.abs(worst) then worst = shift end
    slow, fast = math.max(slow, shift), math.min(fast, shift)
  end
  return worst, slow, fast
end

-- The clock during the point: its median, and how far the middle 80 % of its readings spread (one
-- reading takes half a millisecond, so that a single interruption would look like another clock).
local function clock_of(point, passes)
  local hz = {}
  for i, number in ipairs(point.passes) do hz[i] = passes[number].sentinel.clock_hz end
  local sorted = statistics.sorted(hz)
  local median = statistics.quantile(sorted, 0.5)
  local spread = statistics.quantile(sorted, 0.9) - statistics.quantile(sorted, 0.1)
  return median, spread / median
end

-- -- The order of the points ---------------------------------------------------------

-- Do rounds after one predecessor take another time than rounds after the others?  Only asked when
-- at least two predecessors have three rounds each: below that no ranks can say so at p < 0.01.
local function order_effect(point)
  local by_label, groups = {}, {}
  for r, round in ipairs(point.rounds) do
    local label = point.before[r]
    if label and label ~= point.label then
      by_label[label] = by_label[label] or {}
      table.insert(by_label[label], statistics.median(round))
    end
  end
  for _, group in pairs(by_label) do
    if #group >= 3 then groups[#groups + 1] = group end
  end
  if #groups < 2 then return 1, 0 end
  return statistics.kruskal_wallis(groups)
end

-- -- Rounds that nothing disturbed ------------------------------------------------------

-- No sample of it lost the processor, and in its pass the reference work stood where it should and
-- nobody waited for a processor.  What is hidden (NaN) disturbs nothing.
local function is_undisturbed(point, r, pass, reference, limits)
  local each = #point.rounds[r]
  local first = 0
  for i = 1, r - 1 do first = first + #point.rounds[i] end
  for i = first + 1, first + each do
    if point.mark[i] % 4 ~= 0 then return false end
  end
  for _, kind in ipairs(KINDS) do
    if math.abs(pass.sentinel[kind] / reference[kind] - 1) > limits.sentinel then return false end
  end
  return not (pass.pressure and pass.pressure > limits.pressure)
end

local function undisturbed_of(point, passes, reference, limits)
  local n = 0
  for r = 1, #point.rounds do
    if is_undisturbed(point, r, passes[point.passes[r]], reference, limits) then n = n + 1 end
  end
  return n
end

-- -- The result -------------------------------------------------------------------------

-- Samples in which the system took the processor away: the two lowest marks.
local function count_marked(marks)
  local n = 0
  for _, mark in ipairs(marks) do
    if mark % 4 ~= 0 then n = n + 1 end
  end
  return n
end

-- -- A device's side -----------------------------------------------------------------

local function median_of(list, name)
  local values = {}
  for _, each in ipairs(list) do values[#values + 1] = each[name] end
  return #values > 0 and statistics.median(values) or nil
end

-- How far the middle 80 % of the readings of its clock spread; nil where not reported.
local function spread_of(list)
  local mhz = {}
  for _, each in ipairs(list) do mhz[#mhz + 1] = each.clock_mhz end
  if #mhz == 0 then return nil end
  local sorted = statistics.sorted(mhz)
  return (statistics.quantile(sorted, 0.9) - statistics.quantile(sorted, 0.1))
    / statistics.quantile(sorted, 0.5)
end

-- What the windows said of the device beside their time: medians of a call, and for the flags the
-- share of samples in which it was held back, and for how much of its time the host was asking
-- where nothing kept it busy meanwhile.
local function device_side(point, out, calibration)
  if point.device == 0 then
    out.simulated = point.anywhere and device.any_simulated() or nil
    return { simulated = out.simulated }
  end
  local list, held, told = point.by_device, 0, 0
  for _, each in ipairs(list) do
    if each.held then told = told + 1 end
    if device.is_held_back(each.held) then held = held + 1 end
  end
  out.device, out.state = device.name(point.device), point.state
  out.simulated = device.is_simulated(point.device) or nil
  out.device_ns, out.issue_ns = median_of(list, 'ns'), median_of(list, 'issue_ns')
  out.host_ns = median_of(list, 'host_ns')
  out.clock_mhz = median_of(list, 'clock_mhz')
  out.held = told > 0 and held / told or nil
  out.device_clock_spread = spread_of(list)
  local reference = calibration and calibration.device_hz
  return {
    simulated = out.simulated, held = out.held,
    sustained = out.clock_mhz and reference and out.clock_mhz * 1e6 / reference or nil,
    waited = median_of(list, 'waited'),
  }
end

-- What a call costs; on a device that may round the factors of f32, by that ceiling.
local function cost_of(point)
  if point.device == 0 or not point.tf32 then return point.cost end
  return setmetatable({ tf32 = true }, { __index = point.cost })
end

-- The device's clock does not run faster or slower when the host does: what disturbs the host is no
-- fault of such a point, unless the device had to wait for it. The clock to be watched is its own.
local function spare_host(facts, limits, out)
  if not (facts.waited and facts.waited > limits.waited) then
    for _, name in ipairs { 'foreign', 'pressure', 'steal', 'throttled', 'sentinel', 'marked' } do
      facts[name] = nil
    end
  end
  facts.freq, facts.clock_shift = out.device_clock_spread, nil
end

-- What one process saw, in words: warm-up and windows, from the first to the last.
local function promise_of(point)
  local n = #point.samples
  local seconds = (point.warm.ns + point.at[n] + point.samples[n] * point.inner) / 1e9
  return ('%.2g s of this machine, in one process'):format(seconds)
end

--- Sum a point up.
--
-- `precision` is the half-width that the rounds reached; the interval itself is wider by how far
-- the reference work stood from its calibrated time, and where it is from one process by what
-- another would differ by.  The grade asks how wide the interval is, not how wide the rounds.
---@param point table    as ridge.measure.block keeps it
---@param protocol table
---@param around table   session, limits, calibration, between, passes, host (of ridge.measure.host)
---@return table result  see measure.block
function M.of(point, protocol, around)
  local out = statistics.summary(point.samples)
  local sorted = statistics.sorted(point.samples)
  local ci, limits, seen = point.ci, around.limits, around.host
  local calibration = around.calibration
  out.label = point.label
  out.n_eff, out.r1 = ci.n_eff, ci.r1
  out.ci_lo, out.ci_hi, out.ci_level, out.ci_how = ci.lo, ci.hi, protocol.ci_level, ci.how
  out.precision = ci.half
  out.rounds, out.inner, out.stop = #point.rounds, point.inner, point.stop
  out.warm_ns, out.warm_calls = point.warm.ns, point.warm.calls
  out.settle_calls = point.settle_calls
  out.cores = point.own_cpu / point.spent   -- processors kept busy: what the threads really did
  out.warm_spread, out.first_ns = point.warm.spread, point.first_ns
  out.samples, out.at, out.mark, out.t0_ns = point.samples, point.at, point.mark, point.t0
  local by_device = point.device > 0 and not point.lua
  out.cache, out.clock = point.cache, point.clock and point.clock.name
    or around.session.clock.name
  local side = device_side(point, out, calibration)
  local reference = calibration and calibration.reference or around.session.reference
  local slow, fast
  out.reference_work = reference_work(point, around.passes)
  out.sentinel, slow, fast = shift_of(out.reference_work, reference)
  local held = {}
  if not by_device and (calibration or math.abs(out.sentinel) > limits.sentinel) then
    -- the machine stood elsewhere than at its reference: the interval reaches to what the point
    -- would take there
    out.ci_lo, out.ci_hi = ci.lo / (1 + slow), ci.hi / (1 + fast)
    out.ci_how = ci.how .. '+shift'
    held.SENTINEL, held.FREQ = true, true
  end
  local between = variation.of_call(around.between or variation.NONE, point.work)
  if not by_device and between.how ~= 'none' then
    out.ci_lo, out.ci_hi = variation.widen(out.med, out.ci_lo, out.ci_hi, between)
    out.ci_how = out.ci_how .. '+' .. between.how
    out.promises = promise_of(point)
    held.FOREIGN, held.PRESSURE, held.STEAL, held.FREQ = true, true, true, true
  end
  out.undisturbed = undisturbed_of(point, around.passes, reference, limits)
  out.clock_hz, out.clock_spread = clock_of(point, around.passes)
  local drift_p, mode_variance, mode_share, order_p, order
  out.drift, drift_p = trend.drift(point.at, point.samples)
  mode_variance, mode_share = statistics.two_means(sorted)
  order_p, order = order_effect(point)
  out.iqr = (out.p75 - out.p25) / out.med
  local facts = {
    iqr = out.iqr, half = (out.ci_hi - out.ci_lo) / (2 * out.med), target = protocol.precision,
    steady = point.warm.steady, drift = out.drift, drift_p = drift_p, r1 = out.r1,
    mode_variance = mode_variance, mode_share = mode_share,
    marked = count_marked(point.mark) / out.n,
    foreign = seen.foreign, pressure = seen.pressure, steal = seen.steal,
    throttled = seen.throttled,
    freq = out.clock_spread, sentinel = out.sentinel,
    clock_shift = calibration and calibration.clock_hz and out.clock_hz / calibration.clock_hz - 1,
    order_p = order_p, order = order,
    roof = calibration and roof.share(cost_of(point), out.med, calibration.ceilings),
    debug = around.session.facts.debug_build or around.session.facts.debugger == 1,
    lua = point.lua, zeros = point.zeros,
    simulated = side.simulated, held = side.held, sustained = side.sustained,
    waited = side.waited, training = point.training, reduced = point.reduced,
  }
  out.marked, out.roof = facts.marked, facts.roof
  out.work = { flops = point.work.flops, bytes = point.work.bytes }
  if by_device then spare_host(facts, limits, out) end
  out.flags = flags.judge(facts, limits)
  out.flag_bits = flags.bits(out.flags)
  out.grade = flags.grade(out.flags, flags.excused(out.undisturbed, held))
  out.thresholds = 'fixed'
  out.host = { foreign = seen.foreign, pressure = seen.pressure, steal = seen.steal,
               throttled = seen.throttled, hidden = host.hidden(seen) }
  if point.migrations_hidden then table.insert(out.host.hidden, 'migrations') end
  if seen.pressure > limits.pressure then out.host.cause = flags.pressure_cause(facts, limits) end
  return out
end

return M

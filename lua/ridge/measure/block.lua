-- SPDX-License-Identifier: MIT
--- A block of points measured together: their rounds are shuffled, so that what the machine does in
--- these seconds falls on all of them alike.
--
-- first call -> size of a window -> warm-up -> rounds of all points in random order, until each is
-- precise or out of budget; after every pass over the points the reference work runs once, the
-- collector once, and the host's counters are read.  Nothing of that lies inside a window.

local blame = require 'ridge.blame'
local device = require 'ridge.measure.device'
local flags = require 'ridge.measure.flags'
local host = require 'ridge.measure.host'
local interval = require 'ridge.measure.interval'
local protocols = require 'ridge.measure.protocol'
local mode = require 'ridge.tensor.mode'
local random = require 'ridge.measure.random'
local ref = require 'ridge.ffi.ref'
local result = require 'ridge.measure.result'
local session_of = require('ridge.measure.session').of
local shown = require 'ridge.measure.shown'
local state = require 'ridge.state'
local variation = require 'ridge.measure.variation'
local warmup = require 'ridge.measure.warmup'

local M = {}

-- Marks of a sample.
local SWITCHED, MIGRATED, HELD = 1, 2, 4

-- A GPU takes longer than a processor until it is warm: 0.3 s where that has 0.1 (triton #2306).
local DEVICE_WARM = 3

local POINT_FIELDS = { plan = true, window = true, label = true, cost = true, zeros = true,
                       device = true }
local SETTINGS = { between = true, brief = true, calibration = true, progress = true,
                   services = true, taken = true }

-- -- Points ----------------------------------------------------------------------

local function check_point(given, i)
  if type(given) ~= 'table' then
    blame.raise(('measure.block: point %d is a %s, want a table with plan'):format(i, type(given)))
  end
  if type(given.handle) == 'function' then
    blame.raise(('measure.block: point %d is a plan itself, want a table with plan'):format(i))
  end
  for name in pairs(given) do
    if not POINT_FIELDS[name] then
      blame.raise(('measure.block: point %d has an unknown field %s; known: cost, device, label, '
        .. 'plan, window, zeros'):format(i, tostring(name)))
    end
  end
  if (given.plan == nil) == (given.window == nil) then
    blame.raise(('measure.block: point %d wants a plan (or a window), one of them'):format(i))
  end
  if given.cost ~= nil and type(given.cost) ~= 'table' then
    blame.raise(('measure.block: the cost of point %d is a %s, want a table with flops and bytes')
      :format(i, type(given.cost)))
  end
end

-- A plan says itself where it runs; of a function somebody has to say it. And whether that is all
-- that can be said: it may ask other devices too.
local function device_of(given)
  if type(given.plan) == 'table' and type(given.plan.handle) == 'function' then
    return device.of_plan(given.plan)
  end
  local number = device.number(given.device, 'measure.block')
  return number, type(given.plan) == 'function' and number == 0
end

-- What a call costs, to know which kind of work it is: as given, else as its plan counts.
local function work_of(given)
  local cost = given.cost or {}
  if cost.bytes then return cost end
  local plan = given.plan
  return type(plan) == 'table' and type(plan.facts) == 'function' and plan:facts() or cost
end

-- May factors of f32 be rounded? A plan goes on with what was set at its capture.
local function is_rounded(plan)
  local modes = type(plan) == 'table' and type(plan.facts) == 'function' and plan:facts().modes
  return (modes or device.modes()).tf32
end

local function new_point(given, i, cache)
  local number, anywhere = device_of(given)
  local windows = given.window or require('ridge.measure.native').windows(given.plan, number)
  local point = {
    label = given.label or tostring(i), cost = given.cost or {}, work = work_of(given),
    zeros = given.zeros,
    lua = type(given.plan) == 'function',
    training = type(given.plan) == 'table' and given.plan.training or false,
    reduced = type(given.plan) == 'table' and given.plan.reduced or false,
    tf32 = is_rounded(given.plan),
    rounds = {}, samples = {}, at = {}, mark = {}, spent = 0, own_cpu = 0, settle_calls = 0,
    before = {},   -- label of the point that ran before each round
    passes = {},   -- numbers of the passes it took part in
    device = number, anywhere = anywhere,
    by_device = {},   -- what a device's windows say beside their time
  }
  point.windows = windows
  point.take = function(k) return windows(k, 1, false)[1] end
  point.cache, point.cold = cache, cache == 'cold'
  if point.cold then point.label = point.label .. ' cold' end
  return point
end

-- The points of a block; a given one becomes two when both cache modes are asked for.
local function new_points(given, protocol)
  local points = {}
  local first = protocol.cache == 'cold' and 'cold' or 'warm'
  for i, each in ipairs(given) do
    check_point(each, i)
    points[#points + 1] = new_point(each, i, first)
    points[#points].index = i
    if protocol.cache == 'warm+cold' then
      points[#points + 1] = new_point(each, i, 'cold')
      points[#points].beside = points[#points - 1]
      points[#points].index = i
    end
  end
  return points
end

-- The first call alone: what a user meets who calls once.
local function first_call(point)
  local seen = {}
  point.first_ns = warmup.duration(mode.watch(seen, point.take, 1))
  point.training = point.training or seen.training
end

-- The clock that a point's windows are read from: a plan's on a device is the device's.
local function clock_of(point, session)
  return point.device > 0 and not point.lua and device.CLOCK or session.clock
end

local function longer(protocol)
  return setmetatable({ warm_min_ns = DEVICE_WARM * protocol.warm_min_ns,
    warm_max_ns = DEVICE_WARM * protocol.warm_max_ns }, { __index = protocol })
end

local function warmed(point, protocol, shortest, limits)
  if protocol.warm_calls then -- the user insists on a count
    return warmup.count(point.take, protocol.warm_calls, limits.steady)
  end
  local _, per_call = warmup.size(point.take, shortest)
  return warmup.run(point.take, per_call, point.device > 0 and longer(protocol) or protocol,
    limits.steady)
end

local function prepare(point, protocol, session, limits)
  point.clock = clock_of(point, session)
  local shortest = warmup.shortest(protocol, point.clock)
  local warm = warmed(point, protocol, shortest, limits)
  warm.per_call_ns = math.max(warm.per_call_ns or point.first_ns, 1e-3)
  -- the size was found cold: settle it with the warm time
  local k = 1
  while k * warm.per_call_ns < shortest do k = k * 2 end
  point.warm, point.inner = warm, point.cold and 1 or protocol.calls or k
  point.fixed = protocol.calls ~= nil
  -- calls so long that the least number of rounds would not fit take fewer samples in each
  local round_ns = protocol.budget_ns / protocol.min_rounds
  local fit = math.floor(round_ns / (point.inner * warm.per_call_ns))
  point.n_samples = math.max(1, math.min(protocol.samples, fit))
end

-- -- Rounds ----------------------------------------------------------------------

local function mark_of(window)
  return (window.involuntary > 0 and SWITCHED or 0) + (window.migrations > 0 and MIGRATED or 0)
    + (device.is_held_back(window.held) and HELD or 0)
end

-- What a device did in a window, per call.
local function keep_device(point, window)
  local list = point.by_device
  list[#list + 1] = { ns = window.device_ns / window.calls,
    issue_ns = window.issue_ns / window.calls,
    host_ns = (window.end_ns - window.begin_ns) / window.calls,
    held = window.held, clock_mhz = window.clock_mhz,
    -- of a single call the host's part is its launch, which is not waiting
    waited = window.filled == false and window.calls > 1 and window.issue_ns / window.device_ns
      or 0 }
end

-- Untimed calls in front of a round; a fixed number of calls is kept to.
local function settle(point)
  if not point.fixed then return warmup.settle(point.take, point.inner) end
  point.take(point.inner)
  return point.inner
end

local function take_round(point, previous, services, taken)
  if point.device > 0 and not point.state then
    point.state = { before = services.device_state(point.device) }
  end
  -- the point before left its own data in the caches, the collector too
  if not point.cold then
    point.settle_calls = point.settle_calls + settle(point)
  end
  local windows = point.windows(point.inner, point.n_samples, point.cold)
  local round = {}
  point.t0 = point.t0 or windows[1].begin_ns
  for i, window in ipairs(windows) do
    local ns = warmup.duration(window)
    round[i] = ns / window.calls
    local n = #point.samples + 1
    point.samples[n] = round[i]
    point.at[n] = window.begin_ns - point.t0
    point.mark[n] = mark_of(window)
    if window.migrations < 0 then point.migrations_hidden = true end
    if window.device_ns then keep_device(point, window) end
    if taken then
      taken(point.index, { cache = point.cache, clock = point.clock.name, inner = point.inner,
        t0 = point.t0, ns = round[i], at = point.at[n], mark = point.mark[n] })
    end
    point.spent, point.own_cpu = point.spent + ns, point.own_cpu + window.own_cpu_ns
  end
  point.rounds[#point.rounds + 1] = round
  point.before[#point.rounds] = previous or false
  if point.state then point.state.after = services.device_state(point.device) end
end

-- Precise, out of budget, or neither (nil).
local function verdict(point, protocol)
  local n = #point.rounds
  if n < 2 then return nil end
  if n >= protocol.min_rounds then
    point.ci = interval.of_rounds(point.rounds, protocol.ci_level)
    if point.ci.half <= protocol.precision then return 'precision' end
    if n >= protocol.max_rounds or point.spent >= protocol.budget_ns then return 'budget' end
  elseif point.spent >= 2 * protocol.budget_ns then
    -- calls far longer than the budget: two rounds are the least that has an interval
    point.ci = interval.of_rounds(point.rounds, protocol.ci_level)
    return 'budget'
  end
end

local function active_of(points)
  local active = {}
  for _, point in ipairs(points) do
    if not point.stop and not point.error then active[#active + 1] = point end
  end
  return active
end

-- What a point raises ends that point; an interrupt ends everything.
local function guarded(point, f, ...)
  local ok, err = pcall(f, ...)
  if ok then return end
  if blame.is_error(err) and err.code == 'EINTR' then error(err, 0) end
  point.error = err
end

-- A whole collection, after which none comes by itself: in LuaJIT it sets a new threshold, and so
-- takes an earlier 'stop' back.
local function collect()
  collectgarbage()
  ref.reap() -- not in the first call that is timed
  collectgarbage('stop')
end

-- -- The block ---------------------------------------------------------------------

local function run(points, protocol, setting)
  local services, session = setting.services, setting.session
  local shuffler = random.new(protocol.seed)
  local before = services.counters()
  local passes = {}
  for _, point in ipairs(points) do
    if not point.beside then guarded(point, first_call, point) end
  end
  for _, point in ipairs(points) do
    services.check()
    if not point.error then guarded(point, prepare, point, protocol, session, setting.limits) end
  end
  local previous
  while true do
    local active = active_of(points)
    if #active == 0 then break end
    local number = #passes + 1
    for _, point in ipairs(shuffler:shuffle(active)) do
      services.check()
      guarded(point, take_round, point, previous, services, setting.taken)
      point.passes[#point.passes + 1] = number
      previous = point.label
    end
    collect()
    local last = number > 1 and passes[number - 1].counters or before
    -- of a point that is one pass of many the reference work runs once
    local sentinel = setting.brief and passes[1] and passes[1].sentinel or services:sentinel()
    passes[number] = { sentinel = sentinel, counters = services.counters() }
    passes[number].pressure = host.delta(last, passes[number].counters).pressure
    for _, point in ipairs(active) do
      if not point.error then
        point.stop = verdict(point, protocol)
        if setting.progress then
          setting.progress(point.label, #point.rounds, point.ci and point.ci.half, point.stop)
        end
      end
    end
  end
  local results = {}
  for _, point in ipairs(points) do
    local found = { label = point.label, error = point.error }
    if not point.error then
      local last = passes[point.passes[#point.passes]].counters
      found = result.of(point, protocol, {
        session = session, limits = setting.limits, calibration = setting.calibration,
        between = setting.between, passes = passes, host = host.delta(before, last),
      })
    end
    if point.beside then
      local warm = results[#results]
      warm.cold, warm.error = found, warm.error or found.error
    else
      results[#results + 1] = found
    end
  end
  for _, found in ipairs(results) do shown.point(found) end
  return results
end

--- Measure several points together.
--
-- A point is { plan =, label =, cost = { flops =, bytes =, dtype = }, zeros = }; `plan` is a plan
-- of ridge.capture, or a Lua function (flagged LUA), with `device` where it asks one.  A plan of a
-- device is timed by the device's clock, a function by the host's, which waits for the device.
-- Four to eight points make a good block: with more, a round of a point comes back too late to be
-- compared with its neighbours.
--
-- With the protocol's cache = { 'warm', 'cold' } each result has its `cold` one beside it; their
-- rounds are shuffled together with all others.
--
-- What a point raises becomes the `error` of its result, and the others go on; an interrupt (EINTR)
-- ends the block.  All times are in nanoseconds of one call.
---@param given table[]              points
---@param protocol string|table|nil  see measure.protocol
---@param setting table|nil          calibration (of measure.calibration), between (what other
---  processes would differ by, of ridge.measure.variation; from the calibration when left out),
---  progress (a function of label, rounds, half-width, stop), services (a made-up machine, for
---  tests), brief (the reference work runs once, not after every round), taken (a function of the
---  point's number and a window, called as it ends: cache, clock, inner, t0, ns, at, mark)
---@return table[] results           one a point: n, n_eff, rounds, inner, warm_ns, warm_calls
---  (of the warm-up), settle_calls (untimed, one window before each round), first_ns, min, p25,
---  med, p75, p95, p99, max, mean, sd, mad, ci_lo, ci_hi, ci_level, ci_how, r1, drift, sentinel,
---  flags, flag_bits, grade, undisturbed (rounds), thresholds, stop, precision, samples, at, mark,
---  cores, host; promises (in words, what one process saw of the machine, where it is alone); on a
---  device also device, state (before, after), device_ns, issue_ns, host_ns
---  (medians of a call: by the device's clock, until the host had asked, until all was done)
-- >> measure.block({{ plan = p }, { plan = q }}, 'quick')[1].med
function M.block(given, protocol, setting)
  if type(given) ~= 'table' or #given == 0 then
    blame.raise('measure.block: a list of one or more points is expected')
  end
  protocol = protocols.protocol(protocol)
  setting = setting or {}
  for name in pairs(setting) do
    if not SETTINGS[name] then
      blame.raise(('measure.block: unknown setting %s; known: between, brief, calibration, '
        .. 'progress, services, taken')
        :format(tostring(name)))
    end
  end
  local points = new_points(given, protocol)
  local services = setting.services or require('ridge.measure.native').services()
  local calibration = setting.calibration
  local whole = {
    services = services, progress = setting.progress, calibration = calibration,
    brief = setting.brief, taken = setting.taken,
    session = session_of(services, protocol),
    limits = flags.thresholds(),
    between = setting.between or variation.of(calibration, setting.services),
  }
  collect()
  return state.with(state.UNCOLLECTED, {}, run, points, protocol, whole)
end

--- Measure one plan.
---@param plan table|function  a plan of ridge.capture, or a Lua function (flagged LUA)
---@param protocol string|table|nil  'quick', 'demo', 'default' or 'rigorous'; see measure.protocol
---@param setting table|nil    see measure.block
---@return table result        see measure.block
-- >> measure.point(ridge.capture(function() return x:matmul(w) end)).med
function M.point(plan, protocol, setting)
  local only = M.block({ { plan = plan } }, protocol, setting)[1]
  if only.error then error(only.error, 0) end
  return only
end

return M

-- SPDX-License-Identifier: MIT
--- What disturbs measuring on this machine, and what to do about it.
--
-- A signal that the machine hides is "unavailable": it was not looked at, which is not the same as
-- clean.

local device = require 'ridge.measure.device'
local host = require 'ridge.measure.host'
local options = require 'ridge.options'
local statistics = require 'ridge.measure.statistics'

local M = {}

local SPEC = {
  seconds = { 'number', default = 1, min = 0.1, max = 60, doc = 'how long to look' },
  noise = { 'table', doc = 'measured noise of this machine by name (measure.calibration)' },
  device = { 'string', doc = 'a GPU to look at too' },
  services = { 'table', doc = 'a made-up machine, for tests' },
}

local SENTINEL_RUNS = 7

-- The limits are those a session waits by, and those of the flags.
local FOREIGN_CPUS, PRESSURE, STEAL, MOVED = 0.25, 0.02, 0.005, 0.02

local function finding(list, name, state, value, advice)
  list[#list + 1] = { name = name, state = state, value = value, advice = advice }
end

local function percent(x) return ('%.1f %%'):format(100 * x) end

local function hidden(list, name)
  finding(list, name, 'unavailable', 'this machine does not report it',
    'nothing is known of it: no number here is called clean in this respect')
end

-- -- Settings -------------------------------------------------------------------------

local function settings(list, facts)
  if (facts.governor or '') == '' then
    hidden(list, 'governor')
  else
    local good = facts.governor == 'performance'
    finding(list, 'governor', good and 'good' or 'warning', facts.governor, not good
      and 'the clock follows the load: cpupower frequency-set -g performance' or nil)
  end
  local function switch(name, value, bad, on, off, advice)
    if value == nil or value ~= value or value < 0 then return hidden(list, name) end
    local is_bad = value == bad
    finding(list, name, is_bad and 'warning' or 'good', value == 0 and off or on,
      is_bad and advice or nil)
  end
  switch('turbo', facts.turbo, 1, 'on', 'off', 'the clock depends on heat and on other cores; for '
    .. 'steady numbers: echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo')
  switch('smt', facts.smt, 1, 'hardware threads share cores', 'one thread a core',
    'two threads of one core slow each other: bind one to each core with --affinity')
  switch('battery', facts.on_battery, 1, 'on battery', 'not on battery',
    'plug it in: on battery the clock is held back')
  switch('debugger', facts.debugger, 1, 'traced', 'not traced', 'end the debugger')
  finding(list, 'build', facts.debug_build and 'warning' or 'good',
    facts.debug_build and 'debug' or 'optimized',
    facts.debug_build and 'build with plain make; every number of this build is grade D' or nil)
  local quota = facts.quota_cpus
  if quota and quota < math.huge then
    finding(list, 'quota', 'warning', ('%.3g processors'):format(quota),
      'this group is stopped when it used its share: raise cpu.max, or use fewer threads')
  elseif quota == math.huge then
    finding(list, 'quota', 'good', 'none')
  else
    hidden(list, 'quota')
  end
  if (facts.thp or '') == '' then
    hidden(list, 'huge pages')
  else
    finding(list, 'huge pages', 'good', facts.thp)
  end
end

-- -- Who else runs ------------------------------------------------------------------------

-- Processor time of every process in steps of 10 ms: { [pid] = { steps, name } }; empty where /proc
-- cannot be listed.
local function processes()
  local program = package.loaded['ridge.host']
  local found = {}
  for _, entry in ipairs(program and program.directory and program.directory '/proc' or {}) do
    local pid = entry:match '^(%d+)/$'
    local file = pid and io.open('/proc/' .. pid .. '/stat')
    local text = file and file:read '*a'
    if file then file:close() end
    -- pid (name) state and ten fields more, then time in user and in system mode
    local name, rest = (text or ''):match '^%d+ %((.*)%) %S (.*)$'
    local fields = {}
    for field in (rest or ''):gmatch '%S+' do fields[#fields + 1] = tonumber(field) or 0 end
    if name then found[pid] = { (fields[11] or 0) + (fields[12] or 0), name } end
  end
  return found
end

-- The busiest others between two looks: 'cc1 (412) 0.98, ...', in processors.
local function busiest(before, after, wall_ns)
  local file = io.open '/proc/self/stat'
  local own = file and file:read '*n'
  if file then file:close() end
  local list, texts = {}, {}
  for pid, now in pairs(after) do
    local cpus = before[pid] and (now[1] - before[pid][1]) * 1e7 / wall_ns or 0
    if cpus > 0.02 and tonumber(pid) ~= own then
      list[#list + 1] = { cpus, ('%s (%s) %.2f'):format(now[2], pid, cpus) }
    end
  end
  table.sort(list, function(a, b) return a[1] > b[1] end)
  for i = 1, math.min(3, #list) do texts[i] = list[i][2] end
  return table.concat(texts, ', ')
end

-- -- What happens -------------------------------------------------------------------------

local function share(list, name, value, limit, text, advice)
  if value ~= value then return hidden(list, name) end
  local bad = value > limit
  finding(list, name, bad and 'warning' or 'good', text, bad and advice or nil)
end

local function events(list, delta, n_cpus, who)
  share(list, 'others', delta.foreign * n_cpus, FOREIGN_CPUS,
    ('other processes use %.2f of %d processors'):format(delta.foreign * n_cpus, n_cpus),
    ('end them, or wait: points measured beside them are grade D%s'):format(
      who ~= '' and '; ' .. who or ''))
  share(list, 'pressure', delta.pressure, PRESSURE,
    ('tasks waited %s of the time'):format(percent(delta.pressure)),
    'more threads want to run than there are processors')
  share(list, 'steal', delta.steal, STEAL,
    ('the hypervisor took %s'):format(percent(delta.steal)),
    'another guest runs here: only another machine, or another hour, helps')
  share(list, 'throttled', delta.throttled, 0, ('%d periods'):format(
    delta.throttled == delta.throttled and delta.throttled or 0),
    'the quota of this group is used up: raise cpu.max')
end

local WORK = { { 'compute_ns', 'compute', 'multiply-adds in L1' },
               { 'memory_ns', 'memory', 'a read of 64 MB' },
               { 'clock_ns', 'clock', 'a chain of additions' } }

local function reference(list, services)
  local times = {}
  for i = 1, SENTINEL_RUNS do
    services.check()
    times[i] = services:sentinel()
  end
  for _, kind in ipairs(WORK) do
    local values = {}
    for i, t in ipairs(times) do values[i] = t[kind[1]] end
    local sorted = statistics.sorted(values)
    local median = statistics.quantile(sorted, 0.5)
    local moved = (statistics.quantile(sorted, 0.9) - sorted[1]) / median
    local bad = moved > MOVED
    finding(list, kind[2], bad and 'warning' or 'good',
      ('%s takes %.3g ms, and moves by %s'):format(kind[3], median / 1e6, percent(moved)),
      bad and 'the same work takes different times: intervals will be as wide' or nil)
  end
end

-- -- A device ---------------------------------------------------------------------------------

-- By the driver's own advice a GPU slows down in the upper eighties.
local HOT = 80

local function look_at_device(list, name)
  local number = device.number(name, 'doctor')
  if device.is_simulated(number) then
    finding(list, name, 'warning', 'simulated', 'a program plays this device: what it computes is '
      .. 'right, what it takes says nothing of any GPU')
  end
  local s = device.state(number)
  if s.why then
    finding(list, name .. ' state', 'unavailable', s.why, 'nothing is known of its clock: no '
      .. 'number measured there is called clean in this respect')
    return
  end
  local function number_of(what, value, format, bad, advice)
    if not value then return hidden(list, name .. ' ' .. what) end
    finding(list, name .. ' ' .. what, bad and 'warning' or 'good', format:format(value),
      bad and advice or nil)
  end
  number_of('clock', s.clock_mhz, '%.0f MHz')
  number_of('memory', s.memory_mhz, '%.0f MHz')
  number_of('heat', s.celsius, '%.0f C', (s.celsius or 0) > HOT,
    'it slows down a few degrees above: let it cool')
  number_of('power', s.watts, s.limit_watts and ('%%.0f W of %.0f W'):format(s.limit_watts)
    or '%.0f W')
  local held = device.is_held_back(s.held)
  number_of('held by', s.words and (s.words == '' and 'nothing' or s.words), '%s', held,
    'it does less than it could: points measured now are flagged THROTTLE')
end

local function noise_floor(list, noise)
  if not (noise and noise.aa) then
    finding(list, 'noise', 'warning', 'not measured', 'ridge calibrate measures what identical '
      .. 'points differ by here')
    return
  end
  finding(list, 'noise', 'good', ('identical points differ by up to %s'):format(
    percent(noise.aa)))
end

--- Look at the machine for a second.
---@param given table|nil  seconds, noise, device (a GPU to look at too)
---@return table[] findings  each name, state ('good', 'warning', 'unavailable'), value, advice
-- >> measure.doctor()[1].name
function M.look(given)
  local opt = options.check(SPEC, given, 'measure.doctor')
  local services = opt.services or require('ridge.measure.native').services()
  local list = {}
  local clock = services.clock()
  finding(list, 'timer', 'good', ('%s, a reading takes %.3g ns, steps of %.3g ns'):format(
    clock.name, clock.overhead_ns, clock.resolution_ns))
  settings(list, services.facts())
  local before, running = services.counters(), processes()
  services:pause(opt.seconds * 1e9)
  local after = services.counters()
  local delta = host.delta(before, after)
  events(list, delta, after.n_cpus, busiest(running, processes(), delta.wall_ns))
  reference(list, services)
  if opt.device then look_at_device(list, opt.device) end
  noise_floor(list, opt.noise)
  return list
end

return M

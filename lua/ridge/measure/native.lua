-- SPDX-License-Identifier: MIT
--- Where the numbers come from: the core's windows, sentinel and host, as plain Lua tables.
--
-- The protocol (ridge.measure.block) sees only what is here, through a table of services, so that
-- tests put a made-up machine in its place.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local blame = require 'ridge.blame'
local device = require 'ridge.measure.device'

local M = {}

-- -- Windows --------------------------------------------------------------------

local flush_handles = {}   -- by device; taken once, by its first cold window

local function flush(number)
  if not flush_handles[number] then
    local slot = ffi.new('rg_flush *[1]')
    call.check(C.rg_flush_new(number, 0, slot))
    flush_handles[number] = ffi.gc(slot[0], C.rg_flush_release)
  end
  return flush_handles[number]
end

local function plain(w)
  local out = {
    begin_ns = tonumber(w.begin_ns), end_ns = tonumber(w.end_ns), calls = tonumber(w.calls),
    own_cpu_ns = tonumber(w.own_cpu_ns), involuntary = tonumber(w.n_involuntary),
    migrations = tonumber(w.n_migrations),
  }
  if w.device_ns == w.device_ns then -- not NaN: a device did it, and its clock is what counts
    out.ns, out.device_ns = w.device_ns, w.device_ns
    out.issue_ns = tonumber(w.issued_ns - w.begin_ns)
    out.held = w.held >= 0 and w.held or nil
    out.filled = w.filled ~= 0
    out.clock_mhz = w.clock_mhz == w.clock_mhz and w.clock_mhz or nil
  end
  return out
end

local function of_plan(plan)
  local room, capacity = nil, 0
  return function(k, n, cold)
    if n > capacity then
      room, capacity = ffi.new('rg_window[?]', n), n
    end
    local st = C.rg_measure_windows(plan:handle(), k, n,
      cold and flush(device.of_plan(plan)) or nil, room)
    if st ~= 0 then call.fail(st) end
    local out = {}
    for i = 1, n do out[i] = plain(room[i - 1]) end
    return out
  end
end

-- The clock is read when no device has anything left to do, before as after: a call that only asked
-- for work would otherwise look like one that did it.
local function of_function(f, number)
  local marks
  return function(k, n, cold)
    if cold then
      blame.raise('measure: a Lua function cannot be timed cold; capture it into a plan', 'ENOSUP')
    end
    if number > 0 and not marks then marks = device.marks(number) end
    local out = {}
    for i = 1, n do
      device.wait()
      local begin_ns = tonumber(C.rg_clock_ns())
      if marks then marks.begin() end
      for _ = 1, k do f() end
      if marks then marks.stop() end
      local issued_ns = tonumber(C.rg_clock_ns())
      device.wait()
      local end_ns = tonumber(C.rg_clock_ns())
      out[i] = { begin_ns = begin_ns, end_ns = end_ns, calls = k, own_cpu_ns = 0 / 0,
                 involuntary = 0, migrations = 0, device_ns = marks and marks.ns(),
                 issue_ns = marks and issued_ns - begin_ns }
    end
    return out
  end
end

--- A function that takes n windows of k calls.
--
-- A plan of a device is timed by the device's own clock (`ns`), a function by the host's, with a
-- wait for every device at both ends.
---@param plan table|function  a plan, or a Lua function (flagged LUA by who measures it)
---@param number integer|nil   the device that a function asks, to be timed beside the host; 0: none
---@return fun(k: integer, n: integer, cold: boolean): table[] windows  begin_ns, end_ns, calls,
---  involuntary, migrations of each; on a device ns, device_ns (by its clock), issue_ns (by the
---  host's, until the calls had returned), filled (the device never waited for the host), held
---  (bits), clock_mhz
function M.windows(plan, number)
  if type(plan) == 'function' then return of_function(plan, number or 0) end
  if type(plan) == 'table' and plan.is_external then return plan.window end
  if type(plan) ~= 'table' or type(plan.handle) ~= 'function' then
    blame.raise(('measure: a plan or a function is expected, got %s (ridge.capture makes plans)')
      :format(type(plan)))
  end
  return of_plan(plan)
end

-- -- Services --------------------------------------------------------------------

local function fields(cdata, names)
  local out = {}
  for i = 1, #names do
    local value = cdata[names[i]]
    out[names[i]] = type(value) == 'number' and value or tonumber(value)
  end
  return out
end

local COUNTERS = { 'at_ns', 'busy_ns', 'own_ns', 'steal_ns', 'pressure_ns', 'throttled_ns',
                   'n_throttled', 'n_cpus' }
local TIMES = { 'clock_ns', 'compute_ns', 'memory_ns', 'clock_hz' }
local NUMBERS = { 'turbo', 'smt', 'aslr', 'debugger', 'on_battery', 'n_cpus', 'quota_cpus', 'mhz' }

local Services = {}
Services.__index = Services

--- The time now, in nanoseconds of the clock that windows use.
function Services.now()
  return tonumber(C.rg_clock_ns())
end

--- What the clock can resolve: name, overhead_ns, resolution_ns.
function Services.clock()
  local facts = ffi.new('rg_clock_facts')
  call.check(C.rg_clock_facts_of(facts))
  return { name = ffi.string(facts.name), overhead_ns = facts.overhead_ns,
           resolution_ns = facts.resolution_ns }
end

--- One run of the reference work: clock_ns, compute_ns, memory_ns, clock_hz.
function Services:sentinel()
  if not self.handle then
    local slot = ffi.new('rg_sentinel *[1]')
    call.check(C.rg_sentinel_new(slot))
    self.handle = ffi.gc(slot[0], C.rg_sentinel_release)
  end
  local times = ffi.new('rg_sentinel_times')
  call.check(C.rg_sentinel_run(self.handle, times))
  return fields(times, TIMES)
end

--- The host's counters now.
function Services.counters()
  local counters = ffi.new('rg_host_counters')
  call.check(C.rg_host_counters_of(counters))
  local out, external = fields(counters, COUNTERS), package.loaded['ridge.measure.external']
  -- what runs in a child as a candidate is no foreign work
  if external then out.own_ns = out.own_ns + external.cpu_ns() end
  return out
end

--- The host's settings, and whether this is a debug build.
function Services.facts()
  local raw = ffi.new('rg_host_facts')
  call.check(C.rg_host_facts_of(raw))
  local facts = fields(raw, NUMBERS)
  facts.governor, facts.thp = ffi.string(raw.governor), ffi.string(raw.thp)
  facts.cpuset = ffi.string(raw.cpuset)
  facts.threads = tonumber(C.rg_threads())
  facts.debug_build = ffi.string(C.rg_build_facts()):find('"debug":true', 1, true) ~= nil
  return facts
end

--- How a device is now: see ridge.measure.device.
---@param number integer
---@return table state
function Services.device_state(number)
  return device.state(number)
end

--- Raise EINTR when a stop is asked for.
function Services.check()
  if C.rg_interrupt_pending() ~= 0 then blame.raise('measure: interrupted', 'EINTR') end
end

--- Let time pass, in steps short enough to be interrupted.
---@param ns number
function Services:pause(ns)
  local until_ns = self.now() + ns
  while self.now() < until_ns do
    self.check()
    M.sleep(math.min(2e7, math.max(0, until_ns - self.now())))
  end
end

ffi.cdef [[
typedef struct ridge_measure_pause { long seconds; long nanoseconds; } ridge_measure_pause;
int ridge_measure_sleep(const ridge_measure_pause *wanted, ridge_measure_pause *left)
  __asm__("nanosleep");
]]

--- Sleep; a signal ends it early.
---@param ns number
function M.sleep(ns)
  local seconds = math.floor(ns / 1e9)
  ffi.C.ridge_measure_sleep(ffi.new('ridge_measure_pause', seconds, ns - seconds * 1e9), nil)
end

local services

--- The machine this process runs on.
---@return table services
function M.services()
  services = services or setmetatable({}, Services)
  return services
end

-- -- Ceilings --------------------------------------------------------------------

--- A ceiling that can be measured, or nil and why not.
---@param kind integer  0 ..
---@param threads integer
---@return table|nil ceiling  name, unit, run(min_ns) -> rate, close()
---@return string|nil reason
function M.ceiling(kind, threads)
  local slot = ffi.new('rg_ceiling *[1]')
  local st = C.rg_ceiling_new(kind, threads, slot)
  if st == C.RG_ENOSUP or st == C.RG_ENOMEM then
    return nil, ffi.string(C.rg_error_message())
  end
  call.check(st)
  local handle = ffi.gc(slot[0], C.rg_ceiling_release)
  local rate = ffi.new('double[1]')
  return {
    name = ffi.string(C.rg_ceiling_name(kind)), unit = ffi.string(C.rg_ceiling_unit(kind)),
    run = function(min_ns)
      call.check(C.rg_ceiling_run(handle, min_ns, rate))
      return rate[0]
    end,
    close = function()
      C.rg_ceiling_release(ffi.gc(handle, nil))
    end,
  }
end

--- The name of a kind of ceiling.
---@param kind integer  0 ..
---@return string name
function M.ceiling_name(kind)
  return ffi.string(C.rg_ceiling_name(kind))
end

--- How many kinds of ceiling there are.
---@return integer n
function M.ceilings()
  return tonumber(C.RG_CEILING_COUNT)
end

return M

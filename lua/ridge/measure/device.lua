-- SPDX-License-Identifier: MIT
--- What measuring has to know of a device: what it is, how it is at this moment, and whether it is
--- one at all.
--
-- A simulated device (tests/sim) is a program on the CPU that plays a GPU. It computes what a GPU
-- would, and its times say nothing of any: whatever was measured on one is flagged SIMULATED.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local dtype = require 'ridge.tensor.dtype'
local worlds = require 'ridge.world'

local M = {}

--- The clock of a device's marks. Their documented tick is about half a microsecond; reading them
--- costs the timed work nothing.
M.CLOCK = { name = 'device events', overhead_ns = 0, resolution_ns = 500 }

--- A device's number; 0 for the CPU. It is opened where it was not.
---@param name string|nil 'cpu', 'cuda:0' ...
---@param what string the function asking, for the error
---@return integer
function M.number(name, what)
  return dtype.device(name, what)
end

--- The name of a device's number: 'cpu', 'cuda:0' ...
---@param number integer
---@return string
function M.name(number)
  return ffi.string(C.rg_device_name(number))
end

--- The device on which all steps of a plan run: 0 for the CPU, for several, and without any step.
---@param plan table of ridge.capture
---@return integer
---@return boolean several
function M.of_plan(plan)
  local facts = ffi.new 'rg_plan_facts'
  call.check(C.rg_plan_facts_of(plan:handle(), facts))
  if facts.n_steps == 0 then return 0, false end
  return math.max(facts.device, 0), facts.device < 0
end

local function known(x)
  x = tonumber(x)
  return x > 0 and x or nil
end

local function version(x)
  return x > 0 and ('%d.%d'):format(math.floor(x / 1000), x % 1000 / 10) or nil
end

--- What a device is. What not reported is left out.
---@param number integer
---@return table facts name, kind ('cpu', 'cuda', 'sim'), uuid, simulated (true or nil), mem, free,
---  cache (bytes), capability ('9.0'), units, driver and runtime (interface versions, '13.0')
function M.facts(number)
  local f = ffi.new 'rg_device_facts'
  call.check(C.rg_device_facts_of(number, f))
  return {
    name = ffi.string(f.name), kind = number == 0 and 'cpu' or ffi.string(C.rg_device_prefix()),
    uuid = ffi.string(f.uuid),
    simulated = f.simulated ~= 0 or nil, mem = known(f.memory_bytes), free = known(f.free_bytes),
    cache = known(f.cache_bytes), units = known(f.units),
    capability = f.capability > 0 and ('%d.%d'):format(math.floor(f.capability / 10),
      f.capability % 10) or nil,
    driver = version(f.driver), runtime = version(f.runtime),
  }
end

--- Does a program play this device?
---@param number integer
---@return boolean
function M.is_simulated(number)
  return number > 0 and M.facts(number).simulated == true
end

--- Is a simulated device, or network, in use? Asked of what may run anywhere: a function, a plan
--- of several devices.
---@return boolean
function M.any_simulated()
  if worlds.simulated() then return true end
  for number = 1, tonumber(C.RG_DEVICE_COUNT) - 1 do
    local memory = C.rg_memory_of(number)
    if memory == nil then return false end
    if memory.peak_reserved_bytes > 0 then return M.is_simulated(number) end
  end
  return false
end

local HELD = { { C.RG_HELD_POWER, 'power' }, { C.RG_HELD_HEAT, 'heat' },
  { C.RG_HELD_HARDWARE, 'hardware' }, { C.RG_HELD_BRAKE, 'brake' },
  { C.RG_HELD_SETTING, 'setting' }, { C.RG_HELD_OTHER, 'other' }, { C.RG_HELD_IDLE, 'idle' } }

--- What holds a clock back, in words: 'power', 'heat', 'hardware', 'brake', 'setting', 'other',
--- 'idle'; nil when not reported.
---@param held integer bits of rg_device_state
---@return string|nil words 'power heat'; empty when nothing does
function M.held(held)
  if held < 0 then return nil end
  local words = {}
  for _, pair in ipairs(HELD) do
    if bit.band(held, pair[1]) ~= 0 then words[#words + 1] = pair[2] end
  end
  return table.concat(words, ' ')
end

--- Does it do less than it could: by power, heat or the hardware's own protection?
---@param held integer|nil bits; -1 or nil: not reported
---@return boolean
function M.is_held_back(held)
  return held ~= nil and held > 0 and bit.band(held, C.RG_HELD_BACK) ~= 0
end

local function finite(x) return x == x and x or nil end

--- How a device is at this moment; what not reported is left out.
---@param number integer
---@return table state clock_mhz, memory_mhz, celsius, watts, limit_watts, held (bits), words,
---  driver ('580.95.05'), why (nothing can be told)
function M.state(number)
  local s = ffi.new 'rg_device_state'
  call.check(C.rg_device_state_of(number, s))
  local driver, why = ffi.string(s.driver), ffi.string(s.why)
  return {
    clock_mhz = finite(s.clock_mhz), memory_mhz = finite(s.memory_mhz),
    celsius = finite(s.celsius), watts = finite(s.watts), limit_watts = finite(s.limit_watts),
    held = s.held >= 0 and s.held or nil, words = M.held(s.held),
    driver = driver ~= '' and driver or nil, why = why ~= '' and why or nil,
  }
end

--- How a device's kernels are chosen, as it is recorded with every measurement on one.
---@return table modes vendor, autotune, deterministic, tf32 (booleans)
function M.modes()
  local m = C.rg_device_modes_now()
  return { vendor = m.vendor ~= 0, autotune = m.autotune ~= 0,
           deterministic = m.deterministic ~= 0, tf32 = m.tf32 ~= 0 }
end

--- The modes as words, 'autotune=1 deterministic=0 tf32=0 vendor=1', as they are stored; with
--- autotune=2 cuDNN's candidates are timed as well.
---@return string words
function M.modes_text()
  local words, m = {}, C.rg_device_modes_now()
  for name in pairs(M.modes()) do words[#words + 1] = ('%s=%d'):format(name, m[name]) end
  table.sort(words)
  return table.concat(words, ' ')
end

--- Wait until every device that is open is through with all it was asked for.
function M.wait()
  call.check(C.rg_device_wait(C.RG_EVERY_DEVICE))
end

--- Marks around what a device is asked for in between.
---@param number integer not 0
---@return table marks begin(), stop() (returns at once), ns() (waits)
function M.marks(number)
  local function event()
    local slot = ffi.new 'rg_event *[1]'
    call.check(C.rg_event_new(number, slot))
    return ffi.gc(slot[0], C.rg_event_release)
  end
  local from, to, ns = event(), event(), ffi.new 'double[1]'
  return {
    begin = function() call.check(C.rg_event_set(from)) end,
    stop = function() call.check(C.rg_event_set(to)) end,
    ns = function()
      call.check(C.rg_event_between(from, to, ns))
      return ns[0]
    end,
  }
end

--- A device where a number cannot be measured; nothing else is raised here.
---@param number integer
---@param what string the function asking
function M.refuse_simulated(number, what)
  if M.is_simulated(number) then
    blame.raise(('%s: %s is a simulated device, whose times say nothing of any GPU'):format(what,
      M.name(number)), 'ENOSUP', what)
  end
end

return M

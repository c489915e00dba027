-- SPDX-License-Identifier: MIT
--- Devices (F1, F202): which there are, what they are, their streams and marks in them (F209).
--
-- A stream is a queue: its work is done in the order in which it was asked for, beside that of
-- other streams.  Tensors need no care: a call that uses what another stream is still writing is
-- ordered after it by itself.  The CPU has streams and events too; its work is done when a call
-- returns.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local blame = require 'ridge.blame'
local guard = require 'ridge.guard'
local dtype = require 'ridge.tensor.dtype'
local place = require 'ridge.tensor.place'

local M = {}

-- -- Which there are ----------------------------------------------------------------------

--- How many GPUs there are: 0 where there is none, or no driver.
---@return number
-- >> ridge.device.count()
function M.count()
  local n = 0
  while n + 1 < C.RG_DEVICE_COUNT and C.rg_device_open(n + 1) == 0 do
    n = n + 1
    call.opened(n)
  end
  return n
end

--- Is there a GPU that can be used?  Where not, `why` says what is missing.
---@return boolean
---@return string|nil why
-- >> ridge.device.available()
function M.available()
  if dtype.best() ~= 0 then return true end
  return false, (ffi.string(C.rg_error_message()):gsub('^%l+:%d+: ', ''))
end

--- The names of all devices.
---@return table 'cpu', 'cuda:0' ...
-- >> ridge.device.names()
function M.names()
  local names = { 'cpu' }
  for i = 1, M.count() do names[i + 1] = ffi.string(C.rg_device_name(i)) end
  return names
end

--- The best device there is: 'cuda:0' if there is a GPU, else 'cpu'. It is what 'auto' means.
---@return string
-- >> ridge.device.best()
function M.best()
  return ffi.string(C.rg_device_name(dtype.best()))
end

-- '13.0' of 13000, '13.1.0' of 130100; nil of 0.
local function two(x)
  return x > 0 and ('%d.%d'):format(math.floor(x / 1000), x % 1000 / 10) or nil
end
local function three(x)
  return x > 0 and ('%d.%d.%d'):format(math.floor(x / 10000), math.floor(x / 100) % 100, x % 100)
    or nil
end

--- Versions of the libraries of its vendor that a device's kernels may use. What is not there is
--- left out.
---@param device string|nil the default device when left out
---@param open boolean|nil open what is opened late; else what nobody used yet is left out
---@return table cublaslt, cudnn ('9.19.0'), nvrtc ('13.0'), nccl; with open also why, a table of
--- sentences: why a library is not used, or what it failed at, by its name
-- >> ridge.device.libraries('auto', true).cublaslt
function M.libraries(device, open)
  local number = device and dtype.device(device, 'device.libraries') or place.default()
  local l = ffi.new('rg_device_libraries')
  call.check(C.rg_device_libraries_of(number, open and 1 or 0, l), 'device.libraries')
  local function sentence(chars)
    local text = ffi.string(chars)
    return text ~= '' and text or nil
  end
  return { cublaslt = three(l.blas), cudnn = three(l.dnn), nvrtc = two(l.compiler),
           nccl = three(l.comms), why = open and { cudnn = sentence(l.dnn_why),
             nvrtc = sentence(l.compiler_why), nccl = sentence(l.comms_why) } or nil }
end

--- What a device is: name, device, kind ('cpu', 'cuda', or 'sim' of a
--- simulated GPU), memory and free (bytes), units
--- (multiprocessors or processors); of a GPU also capability ('9.0'), the versions of driver and
--- runtime ('13.0') and cublaslt ('13.1.0'), those of cudnn and nvrtc once a call
--- wanted them.
---@param device string|nil the default device when left out
---@return table
-- >> ridge.device.facts('cpu').name
function M.facts(device)
  local number = device and dtype.device(device, 'device.facts') or place.default()
  local f = ffi.new('rg_device_facts')
  call.check(C.rg_device_facts_of(number, f), 'device.facts')
  local libraries = M.libraries(ffi.string(C.rg_device_name(number)))
  return { name = ffi.string(f.name), device = ffi.string(C.rg_device_name(number)),
           kind = number == 0 and 'cpu' or dtype.prefix(), memory = tonumber(f.memory_bytes),
           free = tonumber(f.free_bytes), units = f.units,
           capability = f.capability > 0 and ('%d.%d'):format(f.capability / 10, f.capability % 10)
             or nil,
           driver = two(f.driver), runtime = two(f.runtime), cublaslt = libraries.cublaslt,
           cudnn = libraries.cudnn, nvrtc = libraries.nvrtc }
end

--- The line of F1: device, name, and total memory in GB with one decimal.
---@param device string|nil the default device when left out
---@return string
-- >> ridge.device.describe('cpu')
function M.describe(device)
  local f = M.facts(device)
  return ('%s: %s, %.1f GB%s'):format(f.device, f.name, f.memory / 2 ^ 30,
    f.capability and (', capability %s, %d multiprocessors'):format(f.capability, f.units) or '')
end

--- Wait until everything that was asked of a device is done. What went wrong in it is an error
--- here.
---@param device string|nil the default device when left out
function M.wait(device)
  local number = device and dtype.device(device, 'device.wait') or place.default()
  call.check(C.rg_device_wait(number), 'device.wait')
end

-- -- The default device -------------------------------------------------------------------

--- The device of tensors and layers that are made without one.
---@return string 'cpu' unless it was set
function M.default()
  return ffi.string(C.rg_device_name(place.default()))
end

--- Make tensors and layers there from now on where no device is given. Data that is read from files
--- stays on the CPU.
---@param device string 'cpu', 'cuda:0' or 'auto'
---@return string the name of the device
-- >> ridge.set_default_device('auto')
function M.set_default(device)
  if type(device) ~= 'string' then
    blame.raise(('set_default_device: the name of a device is expected, got %s'):format(
      blame.show(device)))
  end
  place.set_default(dtype.device(device, 'set_default_device'))
  return M.default()
end

-- -- Streams ------------------------------------------------------------------------------

--- Call a function with its calls for a device on one of the device's streams; the stream of before
--- is back when it ends, also by an error.
---@param device string 'cpu', 'cuda:0', 'auto'
---@param stream number from 0; ridge.backend.cuda{streams =} says how many there are, 8 else
---@param f function
---@param ... any its arguments
---@return any what f returns
-- >> ridge.device.on_stream('auto', 1, function() return ridge.ones(2) + 1 end)
function M.on_stream(device, stream, f, ...)
  local number = dtype.device(device, 'device.on_stream')
  local last = place.streams(number) - 1
  if type(stream) ~= 'number' or stream ~= math.floor(stream) or stream < 0 or stream > last then
    blame.raise(('device.on_stream: there is no stream %s of %s; they go from 0 to %d'):format(
      blame.show(stream), ffi.string(C.rg_device_name(number)), last), 'EARG', 'device.on_stream')
  end
  if not blame.callable(f) then
    blame.raise('device.on_stream: a function is expected, got ' .. blame.show(f))
  end
  return place.on_stream(number, stream, f, ...)
end

--- The stream that calls for a device go to now.
---@param device string|nil the default device when left out
---@return number
function M.stream(device)
  return C.rg_stream_now(device and dtype.device(device, 'device.stream') or place.default())
end

-- -- Events -------------------------------------------------------------------------------

local Event = { __name = 'device.Event' }
Event.__index = Event

local event_slot = ffi.new('rg_event *[1]')
local ns_slot = ffi.new('double[1]')

local function need(event, what)
  if getmetatable(event) ~= Event then
    blame.raise(('%s: an event is expected, got %s'):format(what, blame.show(event)), 'EARG', what)
  end
  return event._e
end

--- An event of a stream, not recorded yet.
---@param device string|nil the default device when left out
---@return table event set, follow, wait, since
-- >> a, b = ridge.device.event(), ridge.device.event()
-- >> a:set(); y = ridge.ones(1000):sum(); b:set()
-- >> b:since(a)
function M.event(device)
  local number = device and dtype.device(device, 'device.event') or place.default()
  local st = C.rg_event_new(number, event_slot)
  if st ~= 0 then call.fail(st, 'device.event') end
  return setmetatable({ _e = ffi.gc(event_slot[0], C.rg_event_release), device = number }, Event)
end

--- Set the mark behind everything that this thread's stream of the device was asked for.
---@return table self
function Event:set()
  call.check(C.rg_event_set(need(self, 'event:set')), 'event:set')
  return self
end

--- Let this thread's stream wait for the mark; the caller does not wait. One that was not set holds
--- nobody up.
---@return table self
function Event:follow()
  call.check(C.rg_event_follow(need(self, 'event:follow')), 'event:follow')
  return self
end

--- Wait until the work before the mark is done.
---@return table self
function Event:wait()
  call.check(C.rg_event_wait(need(self, 'event:wait')), 'event:wait')
  return self
end

--- Seconds from another mark of the device to this one, by the device's clock; waits for both.
---@param earlier table event
---@return number s
function Event:since(earlier)
  call.check(C.rg_event_between(need(earlier, 'event:since'), need(self, 'event:since'), ns_slot),
    'event:since')
  return ns_slot[0] / 1e9
end

function Event:__tostring()
  return ('event of %s'):format(ffi.string(C.rg_device_name(self.device)))
end

require('ridge.types').register('Event', function(value) return getmetatable(value) == Event end, {
  methods = { set = 'set(): mark what was asked for until now',
              follow = 'follow(): this stream waits for the mark',
              wait = 'wait(): wait for the mark',
              since = 'since(earlier): seconds between two marks' },
})

guard.all(Event)

return M

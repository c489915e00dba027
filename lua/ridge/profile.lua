-- SPDX-License-Identifier: MIT
--- Where the time of a function goes: operations from the core's trace, lines of Lua by sampling;
--- and names for NVIDIA's profilers, which look on from outside.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local state = require 'ridge.state'

local M = {}

local CAPACITY = 2 ^ 17 -- calls the trace keeps, the last ones
local EVERY = 'li1'     -- LuaJIT's profiler: by line, each millisecond of processor time

-- -- Operations ------------------------------------------------------------------------

local traces = 0 -- started so far: the core keeps the last one

local TRACE = {}

function TRACE.on(entry)
  if not entry.number then
    call.check(C.rg_trace_start(CAPACITY))
    traces = traces + 1
    entry.number = traces
  elseif entry.number == traces then
    C.rg_trace_go_on()
  else
    blame.raise('profile: another one was made while this coroutine waited in its own', 'EARG')
  end
end

function TRACE.off() C.rg_trace_stop() end

--- Call a function while the core notes every operation.
---@param f function
---@param ... any its arguments
---@return any what f returns
function M.trace(f, ...)
  return state.with(TRACE, {}, f, ...)
end

--- Is a profiler attached that shows named ranges? NVIDIA's name their library in a variable.
---@return boolean
function M.attached()
  return (os.getenv 'NVTX_INJECTION64_PATH' or '') ~= ''
end

--- Name what a device is asked for after the operation that asks, for a profiler (NVTX ranges).
-- Off at first, and free then. Replays of plans are not operations: put them into a range.
---@param on boolean
---@return boolean before
-- >> ridge.profile_names(true)
function M.names(on)
  if type(on) ~= 'boolean' then
    blame.raise(('profile.names: true or false is expected, got %s'):format(blame.show(on)))
  end
  return C.rg_trace_names(on and 1 or 0) ~= 0
end

local RANGE = {
  on = function(entry) C.rg_device_named(C.RG_EVERY_DEVICE, entry.name) end,
  off = function() C.rg_device_named(C.RG_EVERY_DEVICE, nil) end,
}
local NAMED = state.exchange(function(on) return C.rg_trace_names(on) end)
local UNNAMED = state.exchange(function(on) return on end) -- as it is

--- Call a function inside a range with a name, for a profiler; ranges nest. Without a profiler, or
-- before a device was used, it is only the call.
---@param name string
---@param f function
---@param ... any its arguments
---@return any what f returns
-- >> ridge.profile_range('step', function() return 1 end)
function M.range(name, f, ...)
  if type(name) ~= 'string' or type(f) ~= 'function' then
    blame.raise(('profile.range: a name and a function are expected, got %s and %s'):format(
      type(name), type(f)))
  end
  return state.with(RANGE, { name = name }, f, ...)
end

--- The operations of the last trace, the oldest first; the same table is filled for each.
---@return fun(): table|nil next op, path, begin_ns, end_ns, flops, bytes, live_bytes (at its end),
---  device_ns (by its device's clock, for which it waits; nil on the CPU)
---@return boolean full earlier ones may be missing
function M.events()
  local n, i, event = tonumber(C.rg_trace_stop()), 0, ffi.new 'rg_traced'
  local out = {}
  return function()
    if i >= n then return nil end
    call.check(C.rg_trace_event(i, event))
    i = i + 1
    out.op = ffi.string(event.op)
    out.path = event.path ~= nil and ffi.string(event.path) or ''
    out.begin_ns, out.end_ns = tonumber(event.begin_ns), tonumber(event.end_ns)
    out.flops, out.bytes = event.flops, event.bytes
    out.live_bytes = tonumber(event.live_bytes)
    out.device_ns = event.device_ns == event.device_ns and event.device_ns or nil
    return out
  end, n >= CAPACITY
end

--- The operations of the last trace summed up by name and path, the longest first.
local function operations()
  local next_event, full = M.events()
  local list, by_key, sum, device_sum = {}, {}, 0, nil
  for event in next_event do
    local key = event.op .. ' ' .. event.path
    local entry = by_key[key]
    if not entry then
      entry = { op = event.op, path = event.path, calls = 0, ns = 0, flops = 0, bytes = 0 }
      by_key[key] = entry
      list[#list + 1] = entry
    end
    entry.calls, entry.ns = entry.calls + 1, entry.ns + event.end_ns - event.begin_ns
    entry.flops, entry.bytes = entry.flops + event.flops, entry.bytes + event.bytes
    sum = sum + event.end_ns - event.begin_ns
    if event.device_ns then
      entry.device_ns = (entry.device_ns or 0) + event.device_ns
      device_sum = (device_sum or 0) + event.device_ns
    end
  end
  table.sort(list, function(a, b) return (a.device_ns or a.ns) > (b.device_ns or b.ns) end)
  return list, sum, full, device_sum
end

-- -- Lines ------------------------------------------------------------------------------

local STATES = { N = 'compiled', I = 'interpreted', C = 'C', G = 'collector', J = 'compiler' }

--- The innermost line of a stack that is not ridge's own.
local function line_of(stack)
  local first
  for frame in stack:gmatch '[^;]+' do
    local line = frame:match '^(.+:%d+)$'
    first = first or line
    if line and not blame.is_own('@' .. frame) then return line end
  end
  return first or 'C'
end

--- Samples as text, a line each, summed up by line and by state.
local function sum_up(text)
  local lines, states, n = {}, {}, 0
  for samples, letter, stack in text:gmatch '(%d+) (%a) ([^\n]*)\n' do
    samples = tonumber(samples)
    local line = line_of(stack)
    lines[line] = (lines[line] or 0) + samples
    states[STATES[letter] or letter] = (states[STATES[letter] or letter] or 0) + samples
    n = n + samples
  end
  local list = {}
  for line, samples in pairs(lines) do list[#list + 1] = { line = line, share = samples / n } end
  table.sort(list, function(a, b)
    if a.share ~= b.share then return a.share > b.share end
    return a.line < b.line
  end)
  for name, samples in pairs(states) do states[name] = samples / n end
  return list, states, n
end

-- The entry's text: what the samples were, part by part.
local SAMPLES = {
  on = function(entry) entry.host.sample_start(EVERY) end,
  off = function(entry) entry.text = entry.text .. entry.host.sample_stop() end,
}

local function sampled(f, ...)
  local host = package.loaded['ridge.host']
  if not host or not host.sample_start then -- under plain luajit there is nobody to sample
    f(...)
    return {}, {}, 0
  end
  local entry = { host = host, text = '' }
  state.with(SAMPLES, entry, f, ...)
  return sum_up(entry.text)
end

--- Call a function once and see where its time goes.
--
-- Operations are timed one by one; replays of plans are not: time a plan with ridge.measure. On a
-- device `ns` is what the host spent on asking and `device_ns` what the device needed. Where a
-- profiler is attached, it sees the operations by their names. Lines of Lua are found by sampling
-- each millisecond, in the ridge program only; work below some tens of them says little.
---@param f function
---@param ... any its arguments
---@return table profile ns (all of it), operations { op, path, calls, ns, flops, bytes,
---  device_ns }, op_ns, device_ns (nil where only the CPU worked), full (earlier operations are
---  missing), lines { line, share }, states (shares), samples
-- >> ridge.profile(function() return ridge.ones(64, 64):matmul(ridge.ones(64, 64)) end).op_ns
function M.profile(f, ...)
  if type(f) ~= 'function' then
    blame.raise(('profile: a function is expected, got %s'):format(type(f)))
  end
  local began, names = C.rg_clock_ns(), M.attached() and NAMED or UNNAMED
  local lines, states, samples = state.with(names, { value = 1 }, M.trace, sampled, f, ...)
  call.check(C.rg_device_wait(C.RG_EVERY_DEVICE))
  local out = { ns = tonumber(C.rg_clock_ns() - began), lines = lines, states = states,
                samples = samples }
  out.operations, out.op_ns, out.full, out.device_ns = operations()
  return out
end

return M

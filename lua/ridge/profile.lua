-- SPDX-License-Identifier: MIT
--- Where the time of a function goes: operations and steps of plans from the core's events, lines
--- of Lua by sampling; and names for NVIDIA's profilers, which look on from outside.

local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local profile_text = require 'ridge.profile_text'
local ranges = require 'ridge.ranges'
local ring = require 'ridge.ring'
local state = require 'ridge.state'

local M = {}

local CAPACITY = 2 ^ 18 -- events that are kept, the last ones

-- -- Operations ------------------------------------------------------------------------

local last -- the reader of the last trace that ended

-- The entry's reader.
local TRACE = {}

function TRACE.on(entry)
  if entry.reader then
    entry.reader:hear(true)
  else
    entry.reader = ring.open('op step plan range', CAPACITY)
  end
  ranges.WANTED.on()
end

function TRACE.off(entry)
  entry.reader:hear(false)
  ranges.WANTED.off()
end

function TRACE.stop(entry)
  TRACE.off(entry)
  if last then last:close() end
  last = entry.reader
end

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
-- Off at first, and free then. Replays of plans are not named: put them into a range.
---@param on boolean
---@return boolean before
-- >> ridge.profile_names(true)
function M.names(on)
  if type(on) ~= 'boolean' then
    blame.raise(('profile.names: true or false is expected, got %s'):format(blame.show(on)))
  end
  return C.rg_call_names(on and 1 or 0) ~= 0
end

local RANGE = {}

function RANGE.on(entry)
  C.rg_device_named(C.RG_EVERY_DEVICE, entry.name)
  ranges.RANGE.on(entry)
end

function RANGE.off(entry)
  ranges.RANGE.off(entry)
  C.rg_device_named(C.RG_EVERY_DEVICE, nil)
end

local NAMED = state.exchange(function(on) return C.rg_call_names(on) end)
local UNNAMED = state.exchange(function(on) return on end) -- as it is

--- Call a function inside a range with a name, for ridge.profile and for an attached profiler;
-- ranges nest. Where nobody does, it is only the call.
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

--- The operations of the last trace, the oldest first, with the steps of plans; the same table is
--- filled for each.
---@return fun(): table|nil next op, path, begin_ns, end_ns, flops, bytes, live_bytes (at its end),
---  device_ns (by its device's clock, for which it waits; nil on the CPU), shapes, module, step
---@return boolean full earlier ones may be missing
function M.events()
  if not last then return function() end, false end
  local next_event = last:each()
  return function()
    local event = next_event()
    while event and not (event.end_ns and (event.kind == 'op' or event.kind == 'step')) do
      event = next_event()
    end
    if event then event.op = event.name end
    return event
  end, last:facts().dropped > 0
end

-- -- Sums -------------------------------------------------------------------------------

local function longest_first(list)
  table.sort(list, function(a, b) return (a.device_ns or a.ns) > (b.device_ns or b.ns) end)
  return list
end

-- Lists of sums by a key each.
local Sums = {}
Sums.__index = Sums

function Sums:add(key, event, fields)
  local entry = self.by_key[key]
  if not entry then
    entry = fields
    entry.calls, entry.ns, entry.flops, entry.bytes = 0, 0, 0, 0
    self.by_key[key] = entry
    table.insert(self.list, entry)
  end
  entry.calls, entry.ns = entry.calls + 1, entry.ns + event.end_ns - event.begin_ns
  entry.flops, entry.bytes = entry.flops + event.flops, entry.bytes + event.bytes
  if event.device_ns then entry.device_ns = (entry.device_ns or 0) + event.device_ns end
end

local function sums() return setmetatable({ list = {}, by_key = {} }, Sums) end

-- What the profile says of one operation or step.
local function add_call(p, event, plan)
  p.by_op:add(event.name .. ' ' .. event.path, event, { op = event.name, path = event.path })
  local step = event.kind == 'step' and event.step + 1 or nil
  local key = table.concat({ event.name, event.path, event.shapes, event.module or '',
    plan or '', step or '' }, '\0')
  p.by_call:add(key, event, { op = event.name, path = event.path, shapes = event.shapes,
    module = event.module, plan = plan, step = step })
  p.op_ns = p.op_ns + event.end_ns - event.begin_ns
  if event.device_ns then p.device_ns = (p.device_ns or 0) + event.device_ns end
end

-- The last trace summed up.
local function summed(out)
  local p = { by_op = sums(), by_call = sums(), by_range = sums(), op_ns = 0 }
  local plans = {} -- number of a plan by the serial of its replays
  for event in last:each() do
    if event.kind == 'plan' then
      plans[event.serial] = event.step
    elseif event.end_ns and event.kind == 'range' then
      p.by_range:add(event.name, event, { name = event.name })
    elseif event.end_ns then
      add_call(p, event, event.kind == 'step' and plans[event.parent] or nil)
    end
  end
  out.operations, out.calls = longest_first(p.by_op.list), p.by_call.list
  out.op_ns, out.device_ns, out.ranges = p.op_ns, p.device_ns, longest_first(p.by_range.list)
  out.steps = {}
  for _, entry in ipairs(out.calls) do
    if entry.step then table.insert(out.steps, entry) end
  end
  table.sort(out.steps, function(a, b)
    if a.plan ~= b.plan then return (a.plan or 0) < (b.plan or 0) end
    return a.step < b.step
  end)
  longest_first(out.calls)
  local facts = last:facts()
  out.full, out.dropped, out.graphs = facts.dropped > 0, facts.dropped, facts.graphs
  last:close()
  last = nil
  return out
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
  on = function(entry) entry.host.sample_start() end,
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

local Profile = { __tostring = function(p) return profile_text.text(p) end }

--- Call a function once and see where its time goes.
--
-- Operations are timed one by one, and so are the steps of plans that are replayed: a CUDA graph
-- goes step by step meanwhile (`graphs` says how many replays did), so time a plan with
-- ridge.measure. On a device `ns` is what the host spent on asking and `device_ns` what the device
-- needed. Where a profiler is attached, it sees the operations by their names. Lines of Lua are
-- found by sampling each millisecond, in the ridge program only; work below some tens of them says
-- little.
---@param f function
---@param ... any its arguments
---@return table profile ns (all of it), operations { op, path, calls, ns, flops, bytes,
---  device_ns }, op_ns, device_ns (nil where only the CPU worked), calls (the same by shapes,
---  module, plan and step too), steps (those of plans, in their order), ranges (modules,
---  profile_range, operations made of several) { name, calls, ns }, full (earlier events are
---  missing), dropped (how many), graphs, lines { line, share }, states (shares), samples; tostring
---  shows it as text
-- >> ridge.profile(function() return ridge.ones(64, 64):matmul(ridge.ones(64, 64)) end).op_ns
function M.profile(f, ...)
  if type(f) ~= 'function' then
    blame.raise(('profile: a function is expected, got %s'):format(type(f)))
  end
  local began, names -- when f did: memory for its events is no part of it
  local function run(...)
    began = C.rg_clock_ns()
    return f(...)
  end
  names = M.attached() and NAMED or UNNAMED
  local lines, states, samples = state.with(names, { value = 1 }, M.trace, sampled, run, ...)
  call.check(C.rg_device_wait(C.RG_EVERY_DEVICE))
  local out = { ns = tonumber(C.rg_clock_ns() - began), lines = lines, states = states,
                samples = samples }
  return setmetatable(summed(out), Profile)
end

return M

-- SPDX-License-Identifier: MIT
--- Where the time of a function goes: operations and steps of plans from the core's events, lines
--- of Lua by sampling; and names for NVIDIA's profilers, which look on from outside.

local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local kernels = require 'ridge.profile.kernels'
local options = require 'ridge.options'
local ranges = require 'ridge.ranges'
local recording = require 'ridge.profile.recording'
local result = require 'ridge.profile.result'
local ring = require 'ridge.ring'
local samples = require 'ridge.profile.samples'
local state = require 'ridge.state'
local sums = require 'ridge.profile.sums'

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

function RANGE.off() C.rg_device_named(C.RG_EVERY_DEVICE, nil) end

function RANGE.stop(entry)
  ranges.RANGE.stop(entry)
  RANGE.off()
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
  if type(name) ~= 'string' or not blame.callable(f) then
    blame.raise(('profile.range: a name and a function are expected, got %s and %s'):format(
      type(name), type(f)))
  end
  options.name(name, 'profile.range')
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

-- -- Profiles ---------------------------------------------------------------------------

local OPTIONS = {
  sort = { 'string', default = 'time', doc = 'order of the rows, the largest first',
    choices = { 'time', 'total', 'calls', 'flops', 'bytes', 'rate', 'traffic', 'name' } },
  rows = { 'integer', min = 1, doc = 'rows of each table that are shown; all when left out' },
  threshold = { 'number', default = 0.2, min = 0, max = 1,
    doc = 'share of the time from which something is a bottleneck' },
  top = { 'integer', default = 3, min = 1, doc = 'bottlenecks that are told' },
  roof = { 'string', default = 'stored', choices = { 'stored', 'measured', 'none' },
    doc = 'ceilings of this machine: those of the results database, or measured now' },
  wait = { 'integer', default = 0, min = 0, doc = 'steps of a cycle in which nothing is recorded' },
  warmup = { 'integer', default = 0, min = 0, doc = 'steps behind them that do not count' },
  active = { 'integer', min = 1, doc = 'and those that do; all of it when left out' },
  repeats = { 'integer', default = 1, min = 0, doc = 'cycles of those; 0: until it ends' },
  num_steps = { 'integer', min = 1, doc = 'call f so often, each call a step' },
  memory = { 'boolean', default = false, doc = 'note each block of memory taken or given back' },
  bytes = { 'integer', default = 48 * 2 ^ 20, min = 2 ^ 10, max = 2 ^ 26,
    doc = 'room for events, some 400 of them at least: the last ones are kept' },
  lines = { 'boolean', default = false,
    doc = 'sample lines of Lua: a step of training then takes some 3 to 5 % longer' },
  counters = { 'boolean', default = false,
    doc = 'count cycles, instructions, misses, where the machine lets them be counted' },
  kernels = { 'boolean',
    doc = 'each kernel of a GPU with its own times, by CUPTI; as counters when left out' },
  operation_counters = { 'boolean', default = false,
    doc = 'and for each operation: a call then takes some microseconds more' },
}

-- Options stand behind f alone, as a table of names.
local function options_of(...)
  local given = ...
  if select('#', ...) ~= 1 or type(given) ~= 'table' or getmetatable(given) ~= nil
      or given[1] ~= nil then
    return options.check(OPTIONS, nil, 'profile'), false
  end
  local opt = options.check(OPTIONS, given, 'profile')
  if opt.active == nil and (opt.wait > 0 or opt.warmup > 0 or given.repeats ~= nil) then
    blame.raise('profile: wait, warmup and repeats are parts of a cycle, which has active steps; '
      .. 'active is missing', 'EARG', 'profile')
  end
  return opt, true
end

local function drive(p, opt, f)
  for i = 1, opt.num_steps do
    local before = p.recording.taken
    f(p, i)
    if p.recording.taken == before then p.recording:step() end
  end
end

-- Run f with everything on; what pcall says.
local function run(p, opt, given, f, ...)
  local rec = p.recording
  local sampling, reason
  if opt.lines then sampling, reason = samples.new() else reason = 'lines = false' end
  local names = M.attached() and NAMED or UNNAMED
  rec.sampling = sampling
  local function counted(...)
    rec:begin()
    if opt.num_steps then return drive(p, opt, f) end
    if given then return f(p) end
    f(...)
  end
  local function begun(...)
    return state.with(recording.COUNTED, { recording = rec }, counted, ...)
  end
  local inner = begun
  if sampling then
    function inner(...) return state.with(samples.SAMPLING, sampling, begun, ...) end
  end
  state.enter(recording.HEARING, rec.hearing)
  local ok, err = pcall(state.with, names, { value = 1 }, inner, ...)
  if sampling and sampling.wanted and sampling.is_on then samples.SAMPLING.off(sampling) end
  p.unavailable.lua = reason or sampling and sampling.unavailable
  return ok, err, sampling
end

local kept -- the last profile that ended

local function fill(p, found, taken)
  p.ns, p.all_ns, p.notes, p.windows, p.copy = found.ns, found.all_ns, found.notes, found.windows,
    found.copy
  local lost = found.facts.dropped > 0 and found.windows[1]
  p.lines, p.states, p.samples = samples.shares(taken, lost and lost.from or nil)
  p.counters = found.counts
  for name, reason in pairs(found.uncounted or {}) do p.unavailable[name] = reason end
  p.unavailable.cupti = found.untraced
  p.notes[#p.notes + 1] = samples.note(taken)
  p.full, p.dropped, p.graphs = found.facts.dropped > 0, found.facts.dropped, found.facts.graphs
  p.recording = nil
  sums.fill(p, found.copy, found.windows, taken)
  if found.traced then kernels.fill(p, found.traced) end
  if p.counters and p.counters.operations then
    p.counters.classes = require('ridge.profile.counters').classes(p)
  end
  sums.sort(p.operations, p.options.sort)
  sums.sort(p.layers, p.options.sort)
  sums.sort(p.calls, p.options.sort)
  return p
end

--- Call a function once, or for some steps, and see where its time goes.
--
-- Operations are timed one by one, and so are the steps of plans that are replayed: a CUDA graph
-- goes step by step meanwhile (`graphs` says how many replays did), so time a plan with
-- ridge.measure. On a device `ns` is what the host spent on asking and `device_ns` what the device
-- needed. Where a profiler is attached, it sees the operations by their names. With `lines` those
-- of Lua are sampled, a hundred times in a second of processor time, in the ridge program only; of
-- work below some tenths of a second they say little, and LuaJIT compiles anew what it runs
-- meanwhile (3 to 5 % of a small training step; events cost some 2). The time between operations
-- is divided as those samples are that came then: tree, flame graph and stacks show under each
-- module and section the functions of Lua and what LuaJIT did: interpreted, compiled, C, collector,
-- compiler.
--
-- With a table of options f is called with the profile, which it tells of steps (p:step()) and of
-- sections (p:start 'forward', p:stop(), p:section(name, f)); loaders, the Trainer, backward passes
-- and optimizers tell of theirs: data_loading, forward, loss_computation, backward,
-- optimizer_step. With `active` steps are measured by a schedule: `wait` of them run unheard,
-- `warmup` are heard and left out, `active` count, and so on `repeats` times.
--
-- With `kernels` each kernel, copy and fill of a GPU is told too, as CUPTI saw it on the device:
-- its own time, and of a kernel registers, shared memory, blocks and theoretical occupancy (the
-- warps of it that a multiprocessor can hold at once, over the most that it can hold), with the
-- operation and the module that asked for it. Counters of the GPU itself (its caches, its
-- instructions) are not read. Calls take longer meanwhile, and may do so until the process ends.
--
-- Of an error what was measured until then is kept: ridge.last_profile().
---@param f function
---@param ... any its arguments; or a table with names alone: sort = 'time', rows =, threshold =
---  0.2, top = 3, roof = 'stored', wait = 0, warmup = 0, active =, repeats = 1, num_steps =,
---  memory = false, bytes = 48 MB, lines = false, counters = false, operation_counters = false,
---  kernels = counters
---@return table profile ns (all of it), operations { op, path, device, calls, ns, self_ns, share,
---  flops, bytes, gflops, gbps, device_ns }, op_ns, device_ns (nil where only the CPU worked),
---  calls (the same by shapes, module, plan and step too), steps (those of plans, in their order),
---  layers { name, module, calls, self_ns, total_ns, forward_ns, backward_ns, lua_ns, share, flops,
---  bytes, gflops, gbps }, whose own times add up to ns, sections { name, calls, ns, self_ns },
---  ranges (modules, sections, operations made of several) { name, calls, ns }, full (earlier
---  events are missing, and ns is the time of the others), dropped (how many), graphs, lines {
---  line, share }, states (shares), samples, between (where the time between operations went: rows
---  { name: function and line, state, ns, share, samples }), counters { cycles, instructions,
---  cache_misses, branch_misses, page_faults, context_switches, migrations, ipc, shares;
---  operations and classes, with operation_counters: rows with the same by operation, by class },
---  kernels { kind (kernel, copy, fill), name, op, path, module, device, calls, ns, min_ns, max_ns,
---  share, registers, static_bytes, dynamic_bytes, grid, block, occupancy, bytes, gbps, untimed },
---  unavailable (by name, why: counters, 'cupti', 'lua'), notes, failed; tostring shows it as text.
---  p:bottlenecks(), p:table(), p:trace(path), p:flame(path), p:folded(), p:speedscope(path),
---  p:plot(), p:roofline()
-- >> ridge.profile(function() return ridge.ones(64, 64):matmul(ridge.ones(64, 64)) end).op_ns
-- >> print(ridge.profile(function(p)
-- >>   p:section('data', function() x = ridge.randn(64, 64) end)
-- >>   x:matmul(x)
-- >> end, { rows = 5, num_steps = 30, wait = 5, warmup = 5, active = 20 }))
function M.profile(f, ...)
  if not blame.callable(f) then
    blame.raise(('profile: a function is expected, got %s'):format(blame.show(f)))
  end
  local opt, given = options_of(...)
  local p = result.new(opt, recording.new(opt))
  p.given = given
  local ok, err, taken = run(p, opt, given, f, ...)
  local whole, found = pcall(p.recording.finish, p.recording)
  if whole then
    kept = fill(p, found, taken)
    p.failed = not ok and tostring(blame.is_error(err) and err.message or err) or nil
  end
  if not ok then error(err, 0) end
  if not whole then error(found, 0) end
  return p
end

--- The profile that was made last, also one whose function raised: what it had measured until then.
---@return table|nil profile
-- >> pcall(ridge.profile, function() ridge.ones(9):exp() error 'on purpose' end)
-- >> print(ridge.last_profile())
function M.last() return kept end

return M

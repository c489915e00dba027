-- SPDX-License-Identifier: MIT
--- Memory of a device: how much is live, the peak, the limit; by line of Lua and over time; alarms;
--- and scopes, which give it back on time.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'
local blame = require 'ridge.blame'
local columns = require 'ridge.show.columns'
local dtype = require 'ridge.tensor.dtype'
local guard = require 'ridge.guard'
local options = require 'ridge.options'
local place = require 'ridge.tensor.place'
local state = require 'ridge.state'

local M = {}

-- What is loaded when it is first used.
local LATER = { lines = 'ridge.memory.lines', alarm = 'ridge.memory.alarm',
  system = 'ridge.memory.system', timeline = 'ridge.memory_timeline' }
local function later(name) return require(LATER[name]) end

-- A device's number; pinned memory is counted as if it were one more.
local function number_of(device, what)
  if device == 'pinned' then return place.pinned(what) end
  return dtype.device(device, what)
end

-- Bytes by tag, of the tags under which the device ever had something.
local function by_tag(number)
  local tags, counts, tag = {}, ffi.new('rg_tag_memory'), 1
  local name = C.rg_memory_tag_name(tag)
  while name ~= nil do
    call.check(C.rg_memory_tag_of(number, tag, counts))
    if counts.peak_bytes > 0 then
      tags[ffi.string(name)] = { live = tonumber(counts.live_bytes),
        peak = tonumber(counts.peak_bytes), blocks = tonumber(counts.n_blocks) }
    end
    tag = tag + 1
    name = C.rg_memory_tag_name(tag)
  end
  return tags
end

--- Bytes of a device now: live, peak, reserved (live and cached), cached, peak_reserved, limit (0:
--- none), blocks, tensors (of
--- all devices), the handles by which this Lua state knows tensors, and tags (by name: live, peak,
--- blocks of what was taken under a tag).
---@param device string|nil 'cpu' when left out; 'pinned' is the memory that a GPU's copies reach
---@return table
-- >> ridge.memory.stats().live
function M.stats(device)
  local number = number_of(device, 'memory.stats')
  local m = C.rg_memory_of(number)
  ref.reap()
  return {
    live = tonumber(m.live_bytes), peak = tonumber(m.peak_bytes),
    reserved = tonumber(m.reserved_bytes), peak_reserved = tonumber(m.peak_reserved_bytes),
    cached = math.max(0, tonumber(m.reserved_bytes) - tonumber(m.live_bytes)),
    limit = tonumber(m.limit_bytes), blocks = tonumber(m.n_blocks),
    tensors = tonumber(C.rg_live_tensors()), handles = ref.count(), tags = by_tag(number),
  }
end

--- Start a new peak: from now on the largest number of live bytes is kept.
---@param device string|nil 'cpu' when left out, or 'pinned'
function M.reset_peak(device)
  C.rg_memory_reset_peak(number_of(device, 'memory.reset_peak'))
end

--- Refuse allocations that would bring the live bytes above a limit.
---@param bytes number 0 takes the limit away
---@param device string|nil 'cpu' when left out, or 'pinned'
function M.set_limit(bytes, device)
  if type(bytes) ~= 'number' or not (bytes >= 0 and bytes <= 2 ^ 53) then -- nan is none
    blame.raise(('memory.set_limit: bytes are a finite number from 0, up to 2^53, got %s')
      :format(blame.show(bytes)))
  end
  call.check(C.rg_memory_set_limit(number_of(device, 'memory.set_limit'), bytes),
    'memory.set_limit')
  call.refit()
end

--- Bytes that a function needs at its highest point, above what is live before it; what it makes is
--- released again.
---@param f function
---@param device string|nil 'cpu' when left out, or 'pinned'
---@return number bytes
-- >> ridge.memory.peak_of(function() return ridge.ones(1000) + 1 end)
function M.peak_of(f, device)
  if not blame.callable(f) then
    blame.raise(('memory.peak_of: a function is expected, got %s'):format(blame.show(f)))
  end
  number_of(device, 'memory.peak_of')
  ref.collect()
  M.reset_peak(device)
  local before = M.stats(device).live
  M.scope(function() f() end)
  return M.stats(device).peak - before
end

--- Collect what is dead in Lua and give cached blocks back to the system.
---@param device string|nil 'cpu' when left out, or 'pinned'
---@return number bytes given back
function M.trim(device)
  ref.collect()
  return tonumber(C.rg_memory_trim(number_of(device, 'memory.trim')))
end

--- The line of F2: allocated, reserved and peak in GB with two decimals.
---@param device string|nil 'cpu' when left out, or 'pinned'
---@return string
function M.line(device)
  local s = M.stats(device)
  return ('allocated %.2f GB, reserved %.2f GB, max allocated %.2f GB'):format(
    s.live / 2 ^ 30, s.reserved / 2 ^ 30, s.peak / 2 ^ 30)
end

--- Print the line of F2; then the peak starts again.
---@param device string|nil 'cpu' when left out, or 'pinned'
---@return string
function M.print_stats(device)
  local line = M.line(device)
  M.reset_peak(device)
  print(line)
  return line
end

--- Print what is live and at its peak, in MB with one decimal, and Lua's own heap beside it (F8).
---@param device string|nil 'cpu' when left out, or 'pinned'
---@return string
function M.print(device)
  local s = M.stats(device)
  local line = ('%s: live %.1f MB, peak %.1f MB, cached %.1f MB; Lua %.1f MB'):format(
    device or 'cpu', s.live / 2 ^ 20, s.peak / 2 ^ 20, s.cached / 2 ^ 20,
    collectgarbage 'count' / 1024)
  print(line)
  return line
end

-- -- Stages -------------------------------------------------------------------------------

local STAGES = {
  model = { 'function', required = true, doc = 'makes the module' },
  input = { 'function', required = true, doc = 'makes its input' },
  forward = { 'function', doc = 'f(model, input); the call of the model when left out' },
  device = { 'string', default = 'cpu', doc = 'whose memory it is' },
}

local Stages = { __tostring = guard.text(function(self)
  local rows = {}
  for i, row in ipairs(self) do
    rows[i] = { row.stage, ('%.1f'):format(row.live), i > 1 and ('%+.1f'):format(row.delta) or '',
      ('%.1f'):format(row.peak) }
  end
  return columns.text({ 'after', 'live MB', 'more MB', 'peak MB' }, rows,
    { right = { [2] = true, [3] = true, [4] = true } })
end) }

-- A stage: what was live when it began is settled, and what it made is held.
local function stage(list, name, number, f, ...)
  local m = C.rg_memory_of(number)
  C.rg_memory_reset_peak(number)
  local value = f(...)
  call.check(C.rg_device_wait(number == C.RG_PINNED and 0 or number), 'memory.stages')
  local peak = tonumber(m.peak_bytes) / 2 ^ 20
  ref.collect()
  local live = tonumber(m.live_bytes) / 2 ^ 20
  list[#list + 1] = { stage = name, live = live, peak = peak,
    delta = list[1] and live - list[#list].live or 0 }
  list[name] = list[1].stage == name and live or list[#list].delta
  return value
end

--- What a model takes, stage by stage (F7): before it, for its parameters, for its input, and for
--- one forward pass, whose result is held, with what its backward pass would read: give
--- forward = ridge.inference for a pass that has none.
---@param opts table { model = f, input = f, forward = f(model, input), device = 'cpu' }
---@return table stages a list of { stage, live, delta, peak } in MB, with baseline, and what the
---  others added as model, input, forward; tostring shows it as a table
-- >> ridge.memory.stages { model = function() return ridge.nn.Linear(64, 8) end,
-- >>   input = function() return ridge.randn(32, 64) end }
function M.stages(opts)
  local o = options.check(STAGES, opts, 'memory.stages')
  local number = number_of(o.device, 'memory.stages')
  local list = {}
  stage(list, 'baseline', number, ref.collect_all)
  local model = stage(list, 'model', number, o.model)
  local input = stage(list, 'input', number, o.input)
  if not o.forward and not blame.callable(model) then
    blame.raise(('memory.stages: model makes %s, which cannot be called'):format(
      blame.show(model)), 'EARG')
  end
  stage(list, 'forward', number, o.forward or function(m, x) return m(x) end, model, input)
  return setmetatable(list, Stages)
end

-- -- By line ------------------------------------------------------------------------------

--- Count from now on what each line of Lua takes, in each module, as long as it lives: by_line,
--- mark and %mem tell. Lua runs uncompiled meanwhile.
---@param on boolean
---@return boolean before
-- >> ridge.memory.lines(false)
function M.lines(on) return later('lines').lines(on) end

--- What each line has of a device's memory, of what was taken while memory.lines was on: the most
--- first.
---@param device string|nil 'cpu' when left out, or 'pinned'
---@return table list of { line, module, live, peak, blocks }
function M.by_line(device) return later('lines').list(number_of(device, 'memory.by_line')) end

--- Note what is live now, by line where memory.lines is on; mark:grew() says later what grew since.
---@param device string|nil 'cpu' when left out, or 'pinned'
---@return table mark
-- >> mark = ridge.memory.mark()
-- >> mark:grew()
function M.mark(device)
  return later('lines').mark(number_of(device, 'memory.mark'), device or 'cpu')
end

--- Hunt a leak: call a function some times, and say what the calls leave, by line. The first
--- two are not counted: what they keep is kept once.
---@param f function
---@param n number|nil calls; 10 when left out
---@param device string|nil 'cpu' when left out, or 'pinned'
---@return table growth a list of { line, module, bytes, blocks }, with bytes, calls, device
-- >> ridge.memory.leaks(function() return ridge.ones(8) + 1 end).bytes
function M.leaks(f, n, device)
  if not blame.callable(f) then
    blame.raise(('memory.leaks: a function is expected, got %s'):format(blame.show(f)), 'EARG')
  end
  n = options.count(n, 'memory.leaks', 'n') or 10
  return later('lines').leaks(number_of(device, 'memory.leaks'), device or 'cpu', f, n)
end

--- Call a function and note each block that it takes and gives back: the curve of live bytes, and
--- who was alive at its peak.
---@param f function
---@param ... any its arguments
---@return table timeline peak, live, at_peak (a list of { line, module, bytes, blocks }), points;
---  `:plot()` draws it, tostring says who made the peak
---@return any ... what f returns
-- >> print((ridge.memory.timeline(function() return ridge.ones(64, 64) + 1 end)))
function M.timeline(f, ...) return later('timeline').record(f, ...) end

-- -- Alarms and the system ----------------------------------------------------------------

--- Set an alarm (F10 to F12): where a device has more than so many megabytes, live and cached
--- together, what is dead is collected, what is cached goes back to the system, and a line says
--- once what that freed.
---@param megabytes number|table|nil nil, or the options, where share or system_percent says where
---  it rings
---@param opts table|nil { device = 'cpu', share = 0.9, system_percent = 80, say = f, act = f }
---@return table alarm with rang (times), freed (bytes), check() and remove()
-- >> alarm = ridge.memory.alarm(8000)
-- >> alarm:remove()
function M.alarm(megabytes, opts)
  local alarm = later 'alarm'
  if type(megabytes) == 'table' and getmetatable(megabytes) == nil and opts == nil then
    megabytes, opts = nil, megabytes
  end
  local o = options.check(alarm.SPEC, opts, 'memory.alarm')
  return alarm.set(megabytes, o, number_of(o.device, 'memory.alarm'))
end

--- The alarms that are set.
---@return table list
-- >> ridge.memory.alarms()
function M.alarms() return later('alarm').list() end

--- The machine's memory and the process's, as document 001 names them (F9): system_total_gb,
--- system_used_gb, system_available_gb, system_percent, memory_usage_percent, process_rss_mb,
--- process_vms_mb, gpu_allocated_mb, gpu_reserved_mb, gpu_free_mb, gpu_memory_mb. What cannot be
--- read is left out, and system_why, process_why or gpu_why says why.
---@return table
-- >> ridge.memory.system().system_percent
function M.system()
  local best = dtype.best()
  return later('system').fields(best, best == 0 and
    (ffi.string(C.rg_error_message()):gsub('^%l+:%d+: ', '')) or nil)
end

-- -- Tags ---------------------------------------------------------------------------------

local tag_slot = ffi.new('int32_t[1]')

local TAG = state.exchange(C.rg_memory_tag_enter)

--- Call a function and count the memory it takes, on any device, under a name, for as long as that
--- memory lives: memory.stats().tags says how much. A tag inside another one counts for itself.
---@param name string up to 31 bytes; 63 names are possible
---@param f function
---@param ... any its arguments
---@return any what f returns
-- >> net = ridge.memory.tag('weights', ridge.nn.Linear, 64, 64)
-- >> ridge.memory.stats().tags.weights.live
function M.tag(name, f, ...)
  options.name(name, 'memory.tag')
  if not blame.callable(f) then
    blame.raise(('memory.tag: a function is expected, got %s'):format(blame.show(f)))
  end
  call.check(C.rg_memory_tag(name, tag_slot), 'memory.tag')
  return state.with(TAG, { value = tag_slot[0] }, f, ...)
end

-- -- Scopes -------------------------------------------------------------------------------

--- Let a tensor outlive the scope it was made in.
---@param x Tensor
---@return Tensor x
function M.keep(x)
  if ref.is(x) and x._t ~= nil then C.rg_scope_keep(x._t) end
  return x
end

local function keep_all(value, seen)
  if ref.is(value) then
    M.keep(value)
  elseif type(value) == 'table' and not seen[value] then
    seen[value] = true
    for _, inner in pairs(value) do keep_all(inner, seen) end
  end
end

local depth_slot = ffi.new('int32_t[1]')
local parked_slot = ffi.new('rg_parked *[1]')

-- The entry's depth; parked while a coroutine inside it waits.
local SCOPE = {}

function SCOPE.on(entry)
  if entry.parked then
    call.check(C.rg_scope_go_on(entry.parked, depth_slot), 'scope')
    ffi.gc(entry.parked, nil)
    entry.depth, entry.parked = depth_slot[0], nil
  else
    entry.depth = C.rg_scope_enter()
  end
end

function SCOPE.off(entry)
  if C.rg_scope_depth() < entry.depth then return end -- somebody has unwound it
  local st = C.rg_scope_park(parked_slot)
  if st ~= 0 then call.fail(st, 'scope') end
  entry.parked = ffi.gc(parked_slot[0], C.rg_scope_forget_parked)
end

function SCOPE.stop(entry)
  C.rg_scope_leave(entry.depth)
end

local function leave(entry, ok, ...)
  if ok then
    local seen = {}
    for i = 1, select('#', ...) do keep_all((select(i, ...)), seen) end
  end
  state.leave(entry)
  if not ok then error((...), 0) end
  return ...
end

--- Call a function and release every tensor made in it, except those it returns (tables are looked
--- through) and those given to ridge.keep.
---@param f function
---@param ... any its arguments
---@return any what it returns
-- >> ridge.scope(function() return ridge.ones(2):sum():item() end)
function M.scope(f, ...)
  if not blame.callable(f) then blame.raise('scope: a function is expected, got ' .. type(f)) end
  return leave(state.enter(SCOPE, {}), pcall(f, ...))
end

--- The depth of scopes now.
---@return number
function M.depth()
  return C.rg_scope_depth()
end

--- End the scopes that are deeper.
---@param depth number what depth() said before
function M.unwind(depth)
  if type(depth) ~= 'number' then
    blame.raise(('memory.unwind: a depth is a number, got %s'):format(blame.show(depth)))
  end
  if C.rg_scope_depth() > depth then C.rg_scope_leave(depth + 1) end
end

--- The process's memory as the system sees it: resident and virtual bytes, and the machine's share;
--- 0 where the system does not say.
---@return table rss, vms, total, available
function M.process()
  local system = later 'system'
  local process, machine = system.process() or {}, system.machine() or {}
  return { rss = process.rss or 0, vms = process.vms or 0, available = machine.available or 0,
           total = tonumber(C.rg_machine_facts().ram_bytes) }
end

return M

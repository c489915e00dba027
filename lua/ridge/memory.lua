-- SPDX-License-Identifier: MIT
--- Memory of a device: how much is live, the peak, the limit; and scopes, which give it back on
--- time.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'
local blame = require 'ridge.blame'
local dtype = require 'ridge.tensor.dtype'
local place = require 'ridge.tensor.place'
local state = require 'ridge.state'

local M = {}

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

--- Bytes of a device now: live, peak, reserved, peak_reserved, limit (0: none), blocks, tensors (of
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
    blame.raise(('memory.set_limit: bytes are a number from 0, got %s'):format(blame.show(bytes)))
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
  if type(f) ~= 'function' then
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
  if type(name) ~= 'string' then
    blame.raise(('memory.tag: a name is expected, got %s'):format(blame.show(name)))
  end
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
  call.check(C.rg_scope_park(parked_slot), 'scope')
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

--- The process's memory as the system sees it: resident and virtual bytes, and the machine's share.
---@return table rss, vms, total, available
function M.process()
  local file = io.open('/proc/self/statm')
  local pages, resident = 0, 0
  if file then
    pages, resident = file:read('*n', '*n')
    file:close()
  end
  local available = 0
  for line in io.lines('/proc/meminfo') do
    available = tonumber(line:match('^MemAvailable:%s+(%d+)')) or available
  end
  ffi.cdef 'long sysconf(int name);'
  local page = tonumber(ffi.C.sysconf(30))
  return { rss = resident * page, vms = pages * page, available = available * 1024,
           total = tonumber(C.rg_machine_facts().ram_bytes) }
end

return M

-- SPDX-License-Identifier: MIT
--- The tensor handle: one place makes handles, so that one place knows which have died.
--
-- A handle has no finalizer, which would cost more than a small operation (core/tensor/handle.c).
-- Each has a slot in a weak table instead; what the collector clears there is released together.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local new_table = require 'table.new'

local M = {}

-- What outlives this module in its Lua state, where package.loaded forgets it and it is loaded
-- again, as busted does between files. loaded: how often; reap: of the last one.
local state = debug.getregistry()['ridge handles'] or { loaded = 0 }
debug.getregistry()['ridge handles'] = state
state.loaded = state.loaded + 1

-- The type of this module's handles alone, with the fields of rg_ref. A type has its methods for
-- good, and busted's ffi.metatype does not refuse it others, but returns it as it is: methods of a
-- forgotten ridge would take a handle's slot for one of their own, and write there. The number is
-- for busted's ffi.typeof, which knows a declaration by its text. The fields are not an rg_ref
-- inside the struct: LuaJIT compiles no initializer of a nested one.
local declared = ffi.typeof(('struct { rg_tensor *_t; int32_t _slot; } /* %d */'):format(
  state.loaded))
local as_ref = ffi.typeof 'rg_ref *'

local ctype

--- Give handles their methods; called once by ridge.tensor, before the first tensor exists.
---@param meta table of the metatype
function M.finish(meta)
  if ctype then
    blame.raise('ridge.tensor: tensors keep the methods that they have; load it in a new process')
  end
  ctype = ffi.metatype(declared, meta)
  blame.is_tensor = M.is
end

-- -- Slots --------------------------------------------------------------------------------

local handles = ffi.new('rg_handles')
local weak = { __mode = 'v' }

-- By slot: the handle; nil when it has died since the last reaping; false when it is nobody's.
local alive = setmetatable({}, weak)

local reap_forgotten = state.reap

-- A hook that is called at each line makes garbage there: over thousands of slots that is the next
-- cycle of the collector, and with it the next reaping, one for every handle that is made.
local function without_hook(f)
  local hook, mask, count = debug.gethook()
  local is_lua = type(hook) == 'function'
  if is_lua then debug.sethook() end
  f()
  if is_lua and debug.gethook() == nil then debug.sethook(hook, mask, count) end -- else Ctrl-C's
end

-- A finalizer that runs where Lua allocates may make handles, and more slots for them: what was
-- read of `handles` holds until the next allocation.  Reading a pointer is one, a number is none.

local function scan()
  local size, free = handles._n, handles._free
  if handles._n ~= size then return scan() end
  local before = handles._n_free
  local n = before
  for slot = 1, handles._n do
    if alive[slot] == nil then
      alive[slot] = false
      free[n] = slot
      n = n + 1
    end
  end
  handles._n_free = n
  handles._due = 0
  if n > before then C.rg_handles_reap(handles, n - before) end
end

local function reap()
  if reap_forgotten then reap_forgotten() end
  without_hook(scan)
end
state.reap = reap

--- Release what died with its handle in the collector's last cycle; wrap does it by itself.
function M.reap()
  if handles._due ~= 0 then reap() end
end

--- Release all that nobody holds, before something is decided by what is held; a collector that was
--- stopped stays so.
function M.settle()
  local stopped = not collectgarbage 'isrunning'
  local ok, why = pcall(collectgarbage) -- anybody's finalizer may raise
  reap()
  if stopped then collectgarbage 'stop' end
  if not ok then error(why, 0) end
end

--- Collect everything that is dead, and release it now.
function M.collect()
  collectgarbage()
  collectgarbage() -- what the finalizers of the first let go
  reap()
end

--- The same, with what compiled code holds: LuaJIT's traces keep what they were compiled for, as a
--- network that the function of a step had as an upvalue, when nobody else has it any more. They
--- are thrown away, and what runs on is compiled anew.
function M.collect_all()
  jit.flush()
  M.collect()
end

--- More slots, for a new reference that is lost if there is no memory for them.
local function grow(t)
  local n = handles._n
  local more = math.max(64, 2 * n)
  local table = setmetatable(new_table(more, 0), weak)
  if handles._n ~= n then return end -- a finalizer's handle wanted slots, too
  for slot = 1, n do table[slot] = alive[slot] end
  for slot = n + 1, more do table[slot] = false end
  alive = table -- before its slots are: a scan takes one that has no entry for dead
  local status = C.rg_handles_grow(handles, more)
  if status ~= 0 then
    local message = ffi.string(C.rg_error_message())
    C.rg_tensor_release(t)
    blame.raise(message, 'ENOMEM')
  end
end

-- Overwrites the stack above its caller: what a call left there is held for as long as a frame
-- covers the slot without writing to it, as LuaJIT's do between a function and its arguments.
local function wipe()
  local _, _, _, _, _, _, _, _, _, _, _, _ -- luacheck: ignore 211 221 411
end

-- A userdata that nobody holds is finalized at the end of each cycle, after the weak tables were
-- cleared.  It only leaves word: nothing is compiled in a finalizer, and reap is a loop.  Were the
-- next one held by a stale slot of the stack, nothing would be released while that lasts.
do
  local first = newproxy(true) -- held until it has its finalizer: none is looked for later
  getmetatable(first).__gc = function(self)
    handles._due = 1
    newproxy(self) -- for the next cycle
    wipe()
  end
end

-- One that the state holds is finalized when the state ends.
local anchor = newproxy(true)
debug.getregistry()[anchor] = true
getmetatable(anchor).__gc = function()
  for slot = 1, handles._n do
    if alive[slot] then alive[slot]._t = nil end
  end
  C.rg_handles_close(handles)
end

--- Take over a new reference in a handle.
---@param t cdata rg_tensor pointer
---@return Tensor
function M.wrap(t)
  if handles._due ~= 0 then reap() end
  if handles._n_free == 0 then grow(t) end
  local size, free, tensors = handles._n, handles._free, handles._tensors
  local handle = ctype(t)
  if handles._n ~= size or handles._n_free == 0 then return M.wrap(t) end
  local n = handles._n_free - 1
  local slot = free[n]
  handles._n_free = n
  handle._slot = slot
  alive[slot] = handle
  tensors[slot] = t
  t._handles = t._handles + 1
  return handle
end

--- Handles of this Lua state that have a slot: those alive, and those not reaped yet.
---@return number
function M.count()
  return handles._n - handles._n_free
end

--- Is this value a tensor handle?
---@param value any
---@return boolean
function M.is(value)
  return ffi.istype(ctype, value)
end

-- What released handles held, so that errors can say it.
local released = setmetatable({}, { __mode = 'k' })

--- Empty a handle before it is collected.
---@param value Tensor one of this module's
---@param text string what it holds
function M.release(value, text)
  released[value] = text
  C.rg_handles_drop(handles, ffi.cast(as_ref, value))
end

--- Raise unless value is a tensor that still has one behind it: reading a field through an empty
--- handle would end the process.
---@param value any
---@param what string the function asking, for the error
---@return Tensor value
function M.need(value, what)
  if not M.is(value) then
    blame.raise(('%s: a tensor is expected, got %s'):format(what, blame.show(value)), 'EARG', what)
  end
  if value._t == nil then
    local text = released[value]
    blame.raise(('%s: the tensor %swas released'):format(what, text and text .. ' ' or ''),
      'ERELEASED', what)
  end
  return value
end

--- Let a tensor outlive every scope that is open, not only the one it was made in.
---@param x Tensor
---@return Tensor x
function M.outlive(x)
  for _ = 1, C.rg_scope_depth() do C.rg_scope_keep(x._t) end
  return x
end

--- A place for a C function to put a new tensor.  It is read once, by the function that called C,
--- and before it calls another one or allocates: there a finalizer may run and call an operation,
--- which puts its own there.  (Compiled code runs finalizers where it begins, and that may be any
--- function.)
M.slot = ffi.new('rg_tensor *[1]')

--- Places for several new tensors, of one call alone: the second is read when the first has a
--- handle.
M.slots = ffi.typeof 'rg_tensor *[3]'

return M

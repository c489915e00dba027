-- SPDX-License-Identifier: MIT
--- The only place that sees a status: failures become error objects at the user's line, memory
--- debt is paid before a call, and a call that ran out of memory is tried once more after a full
--- collection.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local ref = require 'ridge.ffi.ref'
local blame = require 'ridge.blame'

local M = {}

local ENOMEM = C.RG_ENOMEM
local mem = C.rg_memory_of(0)

-- -- Memory debt: the collector cannot see C memory, so bytes allocated there are owed to it.  The
-- debt of every device is in the one counter that is looked at before each call.

local MIN_BUDGET = 64 * 2 ^ 20
local ram_share = tonumber(C.rg_machine_facts().ram_bytes) / 8
local max_budget = math.max(MIN_BUDGET, ram_share)
local budget = MIN_BUDGET
local quantum = budget / 16
local watcher -- looks at what is live each time debt is paid

-- Since when the share of collecting is looked at, by the processor time of this thread: time that
-- a prompt, a worker or an idle process waits is no time that collecting may take a tenth of.
local since, spent, paid = tonumber(C.rg_clock_thread_ns()), 0, 0

-- A small Lua heap is collected often and fast: its handles then stand for tensors that are still
-- in the caches when they are used again (a fifth of the time of x + y on 64 floats).  A large heap
-- keeps LuaJIT's own pace, because each of its cycles is long.
local SMALL_HEAP_KB = 8192
local eager

local function pace(heap_kb)
  local want = heap_kb < SMALL_HEAP_KB
  if want ~= eager then
    eager = want
    collectgarbage('setpause', want and 130 or 200)
    collectgarbage('setstepmul', want and 600 or 200)
  end
end

pace(collectgarbage('count'))

-- Who watches wants to know soon, however large the budget has become.
local function settle_quantum()
  quantum = (watcher and MIN_BUDGET or budget) / 16
end

--- Have a function called each time debt is paid, after at most 4 MB were allocated, however much
--- of them was freed.
---@param f function|nil nil: nobody watches any more
function M.watch(f)
  watcher = f
  mem.is_watched, mem.freed_bytes = f and 1 or 0, 0
  settle_quantum()
end

local gpus = {} -- those that were opened: number, mem, capacity (bytes), since (bytes allocated)
local known = {}

-- What a GPU may hold: its memory, or less where there is a limit.
local function room_of(gpu)
  local limit = tonumber(gpu.mem.limit_bytes)
  return limit > 0 and math.min(limit, gpu.capacity) or gpu.capacity
end

--- Told when a GPU's limit is another one: the budget is at most an eighth of the smallest memory.
function M.refit()
  local share = ram_share
  for _, gpu in ipairs(gpus) do share = math.min(share, room_of(gpu) / 8) end
  max_budget = math.max(MIN_BUDGET, share)
  if budget > max_budget then
    budget = max_budget
    settle_quantum()
  end
end

--- Told when a GPU was opened: its memory may be small beside the machine's.
---@param number number of the device, from 1
function M.opened(number)
  if known[number] then return end
  known[number] = true
  local facts = ffi.new('rg_device_facts')
  local capacity = math.huge
  if C.rg_device_facts_of(number, facts) == 0 then capacity = tonumber(facts.memory_bytes) end
  gpus[#gpus + 1] = { number = number, mem = C.rg_memory_of(number), capacity = capacity,
    since = 0 }
  M.refit()
end

-- A GPU that is more than half full: everything that is dead goes before a quarter of what is left
-- has been taken; where hardly anything is left, still not at every turn.
local function make_room(owed)
  for _, gpu in ipairs(gpus) do
    local all = room_of(gpu)
    local live = tonumber(gpu.mem.live_bytes)
    gpu.since = gpu.since + owed
    if live > all / 2 and gpu.since > math.max((all - live) / 4, math.min(budget, all / 64)) then
      ref.collect()
      gpu.since = 0
    end
  end
end

-- The budget grows when collecting took more than a tenth of the time, cycle by cycle: what was
-- computed an hour ago says nothing of what is computed now.
local function grow(owed, took, now)
  spent, paid = spent + took, paid + owed
  if paid < budget then return end
  local is_much = spent > 0.10 * (now - since)
  since, spent, paid = now, 0, 0
  if is_much and budget < max_budget then
    budget = math.min(2 * budget, max_budget)
    settle_quantum()
  end
end

--- Let the collector work off the bytes allocated in C since it last did: one cycle for each
--- `budget` dead bytes.
local function pay()
  local owed = math.max(0, tonumber(mem.debt_bytes - mem.freed_bytes))
  mem.debt_bytes, mem.freed_bytes = 0, 0
  local before = tonumber(C.rg_clock_thread_ns())
  local heap_kb = collectgarbage('count')
  pace(heap_kb)
  collectgarbage('step', math.max(1, math.floor(heap_kb * owed / budget)))
  local now = tonumber(C.rg_clock_thread_ns())
  grow(owed, now - before, now)
  local limit = tonumber(mem.limit_bytes)
  ref.reap()
  if limit > 0 and tonumber(mem.live_bytes) > limit / 2 then ref.collect() end
  if gpus[1] then make_room(owed) end
  if watcher then watcher() end
end

--- Called first by every function that may allocate; costs one comparison.
function M.settle()
  if mem.debt_bytes > quantum then pay() end
end

-- -- Failures -----------------------------------------------------------------------------

--- The name of a status without RG_: 'ESHAPE'.
---@param status number
---@return string
function M.code(status)
  return (ffi.string(C.rg_status_name(status)):gsub('^RG_', ''))
end

--- Raise what the last C call said.
---@param status number the status it returned
---@param as string|nil the function the user called, where C knows it by another name
function M.fail(status, as)
  local message = ffi.string(C.rg_error_message())
  if as then message = message:gsub('^[%w_.]+:', as .. ':') end
  if message == '' then message = ffi.string(C.rg_status_text(status)) end
  blame.raise(message, M.code(status), message:match('^([%w_.]+):'))
end

-- A failed call once more if memory ran out and collecting may help, and once more without what
-- compiled code holds; else, or if it fails again, raise.
local function retry(as, status, f, ...)
  for _, collect in ipairs { ref.collect, ref.collect_all } do
    if status == ENOMEM then
      collect()
      C.rg_memory_trim(0)
      for _, gpu in ipairs(gpus) do C.rg_memory_trim(gpu.number) end
      status = f(...)
    end
  end
  if status ~= 0 then M.fail(status, as) end
end

--- After a failed call: once more if memory ran out and collecting may help, else raise.
---@param status number what the call returned
---@param f cdata the C function
---@param ... any its arguments
function M.again(status, f, ...)
  retry(nil, status, f, ...)
end

--- The same, raised as of the function the user called.
---@param as string
---@param status number what the call returned
---@param f cdata the C function
---@param ... any its arguments
function M.again_as(as, status, f, ...)
  retry(as, status, f, ...)
end

--- Call a function, once more if memory ran out, or raise.  What its pointers point to has to be in
--- variables of the caller, with no condition between them and the call: compiled code forgets a
--- variable at the first condition behind its last use.
---@param as string the function the user called
---@param f cdata the C function
---@param ... any its arguments
function M.run(as, f, ...)
  local status = f(...)
  if status ~= 0 then retry(as, status, f, ...) end
end

--- A tensor's pointer, NULL for nil.
---@param x Tensor|nil
---@return cdata|nil
function M.pointer(x)
  return x and x._t or nil
end

--- Raise where Ctrl-C asks for it: called by every loop of ridge that may take a second, since
--- compiled Lua code looks at no hook.
---@param what string the function the user called
function M.look(what)
  if C.rg_interrupt_pending() ~= 0 then blame.raise(what .. ': interrupted', 'EINTR', what) end
end

--- Elements of a loop in Lua between two looks at Ctrl-C.
M.STRETCH = 2 ^ 17

--- Go over 0 .. n - 1 in stretches, with a look at Ctrl-C before each.
---@param n number
---@param what string the function the user called
---@param f fun(first: number, last: number)
function M.stretches(n, what, f)
  for first = 0, n - 1, M.STRETCH do
    M.look(what)
    f(first, math.min(first + M.STRETCH, n) - 1)
  end
end

--- Raise unless the status is RG_OK.
---@param status number
---@param as string|nil see fail
function M.check(status, as)
  if status ~= 0 then M.fail(status, as) end
end

return M

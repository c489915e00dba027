-- SPDX-License-Identifier: MIT
-- The time of day and a clock that only goes forward, for bookkeeping; timing is core/measure's.

local ffi = require 'ffi'

ffi.cdef [[
typedef struct { long s, ns; } rg_store_time;
int rg_store_clock(int, rg_store_time *) __asm__("clock_gettime");
int rg_store_pid(void) __asm__("getpid");
int rg_store_sleep(const rg_store_time *, rg_store_time *) __asm__("nanosleep");
]]

local REALTIME, MONOTONIC = 0, 1
local slot = ffi.new 'rg_store_time'

local M = {}

--- Microseconds since 1970: below 2^53 for centuries, so a Lua number holds them exactly.
---@return number us
function M.now_us()
  ffi.C.rg_store_clock(REALTIME, slot)
  return tonumber(slot.s) * 1e6 + math.floor(tonumber(slot.ns) / 1000)
end

--- Seconds on a clock that nobody sets.
---@return number s
function M.seconds()
  ffi.C.rg_store_clock(MONOTONIC, slot)
  return tonumber(slot.s) + tonumber(slot.ns) * 1e-9
end

--- Has a moment of that clock come? nil never does.
---@param moment number|nil s
---@return boolean
function M.has_come(moment) return moment ~= nil and M.seconds() >= moment end

--- Do nothing for a while; a signal ends it early.
---@param s number seconds
function M.sleep(s)
  slot.s, slot.ns = math.floor(s), (s % 1) * 1e9
  ffi.C.rg_store_sleep(slot, nil)
end

--- This process's number.
---@return integer pid
function M.pid() return ffi.C.rg_store_pid() end

--- Bytes nobody can guess, for the names of workers.
---@param n integer
---@return string bytes
function M.random_bytes(n)
  local file = assert(io.open('/dev/urandom', 'rb'))
  local bytes = file:read(n)
  file:close()
  return bytes
end

--- Which start of the machine this is; '' where the kernel does not say.
---@return string id
function M.boot_id()
  local file = io.open '/proc/sys/kernel/random/boot_id'
  if not file then return '' end
  local id = file:read '*l'
  file:close()
  return id or ''
end

return M

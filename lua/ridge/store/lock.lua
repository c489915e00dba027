-- SPDX-License-Identifier: MIT
-- Advisory locks on files: who may write now, and which workers are alive.
--
-- The kernel drops a flock when its process ends, however it ends, so there is no heartbeat, no
-- clock and no grace period. Descriptors are O_CLOEXEC: a child does not keep its parent's lock.

local bit = require 'bit'
local blame = require 'ridge.blame'
local core = require 'ridge.ffi.lib'
local ffi = require 'ffi'

-- Own names for the C functions: other modules declare some of them too, with other types.
ffi.cdef [[
int rg_lock_open(const char *, int, ...) __asm__("open");
int rg_lock_close(int) __asm__("close");
int rg_lock_flock(int, int) __asm__("flock");
int64_t rg_lock_pwrite(int, const char *, size_t, int64_t) __asm__("pwrite");
int64_t rg_lock_pread(int, char *, size_t, int64_t) __asm__("pread");
int rg_lock_unlink(const char *) __asm__("unlink");
int rg_lock_chmod(int, unsigned) __asm__("fchmod");
char *rg_lock_strerror(int) __asm__("strerror");
]]

local C = ffi.C
local O_RDONLY, O_RDWR, O_CREAT, O_CLOEXEC = 0, 2, 64, 524288
local LOCK_SH, LOCK_EX, LOCK_NB, LOCK_UN = 1, 2, 4, 8
local EINTR, ENOENT = 4, 2

local M = {}

-- Locks this process holds, by path: a second one on the same file, taken while the first is held,
-- would wait for itself for ever. Weak, because an interrupted run cannot tidy up after itself: its
-- locks go with its objects.
local held = setmetatable({}, { __mode = 'v' })

local function held_here(path)
  if held[path] then collectgarbage() collectgarbage() end
  return held[path] ~= nil
end

local function reason() return ffi.string(C.rg_lock_strerror(ffi.errno())) end

-- A press of Ctrl-C ends a wait; one from before does not: whoever saves after a press waits too.
local function flock(fd, how, path)
  local asked = core.rg_interrupt_count()
  while true do
    if C.rg_lock_flock(fd, how) == 0 then return true end
    if ffi.errno() ~= EINTR then return false end
    if core.rg_interrupt_count() ~= asked then
      blame.raise(('interrupted while another process holds %s'):format(path), 'EINTR')
    end
  end
end

local Lock = {}
Lock.__index = Lock

local function new(path, fd)
  if fd < 0 then blame.raise(('cannot open %s: %s'):format(path, reason()), 'EIO') end
  -- a proxy, because LuaJIT's tables have no finalizer
  local anchor = ffi.gc(ffi.new('int[1]', fd), function(slot) C.rg_lock_close(slot[0]) end)
  return setmetatable({ path = path, fd = fd, anchor = anchor }, Lock)
end

--- Open a lock file, made when missing, without taking the lock.
---@param path string
---@return table lock take, try, drop, note, close
function M.open(path)
  return new(path, C.rg_lock_open(path, bit.bor(O_RDWR, O_CREAT, O_CLOEXEC), ffi.cast('int', 420)))
end

--- Open a lock file that users of a machine share; one that another user made is good too.
---@param path string
---@return table lock take, try, share, try_share, drop, close
function M.open_shared(path)
  -- made only when missing: in a sticky folder O_CREAT refuses other users' files
  local fd = C.rg_lock_open(path, bit.bor(O_RDONLY, O_CLOEXEC))
  if fd < 0 then
    fd = C.rg_lock_open(path, bit.bor(O_RDONLY, O_CREAT, O_CLOEXEC), ffi.cast('int', 438))
    if fd >= 0 then C.rg_lock_chmod(fd, 438) end -- 0666 whatever the umask
  end
  return new(path, fd)
end

--- Take the lock, waiting for whoever has it; Ctrl-C ends the wait (EINTR).
function Lock:take()
  if held_here(self.path) then
    blame.raise(self.path .. ': this process is writing already, through another connection',
      'EARG')
  end
  if not flock(self.fd, LOCK_EX, self.path) then
    blame.raise(('cannot lock %s: %s'):format(self.path, reason()), 'EIO')
  end
  held[self.path] = self
end

--- Take the lock if it is free.
---@return boolean taken
function Lock:try()
  if held_here(self.path) or not flock(self.fd, bit.bor(LOCK_EX, LOCK_NB)) then return false end
  held[self.path] = self
  return true
end

--- Take the lock together with others that share it, waiting for whoever has it alone; Ctrl-C ends
--- the wait (EINTR).
function Lock:share()
  if not flock(self.fd, LOCK_SH, self.path) then
    blame.raise(('cannot lock %s: %s'):format(self.path, reason()), 'EIO')
  end
end

--- The same, only if nobody has it alone.
---@return boolean taken
function Lock:try_share() return flock(self.fd, bit.bor(LOCK_SH, LOCK_NB)) end

--- Give the lock back.
function Lock:drop()
  flock(self.fd, LOCK_UN)
  if held[self.path] == self then held[self.path] = nil end
end

--- Write text at a place of the file; it outlives this process, though not the machine.
---@param text string
---@param at integer byte offset
function Lock:note(text, at) C.rg_lock_pwrite(self.fd, text, #text, at) end

--- What the file holds, at most 256 bytes.
---@return string text
function Lock:text()
  local buffer = ffi.new 'char[256]'
  local n = tonumber(C.rg_lock_pread(self.fd, buffer, 256, 0))
  return n > 0 and ffi.string(buffer, n) or ''
end

--- Close the file, which gives the lock back. Twice does nothing.
---@param remove boolean|nil take the file away too
function Lock:close(remove)
  if not self.anchor then return end
  if remove then C.rg_lock_unlink(self.path) end
  ffi.gc(self.anchor, nil)
  self.anchor = nil
  C.rg_lock_close(self.fd)
  if held[self.path] == self then held[self.path] = nil end
end

--- Ask whether somebody holds the lock of a file, and what was noted in it.
---@param path string
---@return boolean free true also when the file is gone
---@return string text what the file holds
function M.is_free(path)
  if held_here(path) then return false, '' end
  local fd = C.rg_lock_open(path, bit.bor(O_RDWR, O_CLOEXEC))
  if fd < 0 then
    if ffi.errno() == ENOENT then return true, '' end
    blame.raise(('cannot open %s: %s'):format(path, reason()), 'EIO')
  end
  local lock = setmetatable({ path = path, fd = fd, anchor = ffi.new 'int[1]' }, Lock)
  local free = flock(fd, bit.bor(LOCK_EX, LOCK_NB))
  local text = free and lock:text() or ''
  C.rg_lock_close(fd)
  return free, text
end

--- What is noted in a lock file now, whoever holds it.
---@param path string
---@return string|nil text nil when the file is gone
function M.peek(path)
  local fd = C.rg_lock_open(path, bit.bor(O_RDONLY, O_CLOEXEC))
  if fd < 0 then return nil end
  local text = Lock.text { fd = fd }
  C.rg_lock_close(fd)
  return text
end

--- Write into a lock file that another process holds.
---@param path string
---@param text string
---@param at integer byte offset
function M.note(path, text, at)
  local fd = C.rg_lock_open(path, bit.bor(O_RDWR, O_CLOEXEC))
  if fd < 0 then return end -- its process has just ended in good order
  Lock.note({ fd = fd }, text, at)
  C.rg_lock_close(fd)
end

--- Remove a lock file nobody needs any more; a missing one is fine.
---@param path string
function M.remove(path) C.rg_lock_unlink(path) end

return M

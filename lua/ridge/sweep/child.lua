-- SPDX-License-Identifier: MIT
--- Worker processes: started, watched, and what one has to do to be a good child.
--
-- Both output streams of a child go into memory that its parent keeps (memfd_create), so that the
-- last words of a process that died are there and nothing is left on disk. That a child has ended
-- is seen at once, because the channel of ridge.process closes however a process ends. It is killed
-- by its number without a race, because only its parent takes that number away.

local blame = require 'ridge.blame'
local clock = require 'ridge.store.clock'
local ffi = require 'ffi'

ffi.cdef [[
typedef struct { int fd; short events, revents; } rg_child_poll;
typedef struct { unsigned long soft, hard; } rg_child_limit;
int rg_child_kill(int, int) __asm__("kill");
int rg_child_close(int) __asm__("close");
int rg_child_poll_fds(rg_child_poll *, unsigned long, int) __asm__("poll");
int rg_child_memfd(const char *, unsigned) __asm__("memfd_create");
int rg_child_prctl(int, unsigned long, unsigned long, unsigned long, unsigned long)
  __asm__("prctl");
int rg_child_parent(void) __asm__("getppid");
int rg_child_fcntl(int, int, ...) __asm__("fcntl");
int rg_child_setrlimit(int, const rg_child_limit *) __asm__("setrlimit");
int rg_child_truncate(int, int64_t) __asm__("ftruncate");
int64_t rg_child_seek(int, int64_t, int) __asm__("lseek");
int64_t rg_child_pread(int, char *, size_t, int64_t) __asm__("pread");
char *rg_child_strerror(int) __asm__("strerror");
]]

local C = ffi.C
local POLLIN = 1
local SEEK_SET, SEEK_END = 0, 2
local EINTR = 4
local F_SETFD, FD_CLOEXEC = 2, 1
local PR_SET_PDEATHSIG = 1
local RLIMIT_DATA, RLIMIT_CORE = 2, 4
local MFD_CLOEXEC = 1

-- The channel's descriptor in the child (RG_PROCESS_CHANNEL).
local CHANNEL = 3

-- Bytes of what was printed that are kept.
local TAIL = 4000

local M = { SIGINT = 2, SIGKILL = 9 }

local function reason(code) return ffi.string(C.rg_child_strerror(code or ffi.errno())) end

-- This process --------------------------------------------------------------------------------

local function read_file(path)
  local file = io.open(path, 'rb')
  if not file then return nil end
  local text = file:read '*a'
  file:close()
  return text
end

--- The arguments with which this very process was started.
---@return table words without the program's name
function M.own_words()
  local words = {}
  for word in (read_file '/proc/self/cmdline' or ''):gmatch '(%Z*)%z' do
    words[#words + 1] = word
  end
  table.remove(words, 1)
  return words
end

--- Number of times that the kernel ended a process for want of memory: in our control group where
--- it counts, else on this machine; 0 where nobody says.
---@return integer n
function M.oom_kills()
  local group = (read_file '/proc/self/cgroup' or ''):match '0::(/[^\n]*)'
  local events = group and read_file('/sys/fs/cgroup' .. group .. '/memory.events')
  local n = events and events:match 'oom_kill (%d+)'
    or (read_file '/proc/vmstat' or ''):match 'oom_kill (%d+)'
  return tonumber(n) or 0
end

--- Become a child that its parent watches: it dies with its parent, leaves no core files, and keeps
--- the channel from its own children.
---@param parent integer process that started this one; not there any more: this process ends
function M.follow(parent)
  C.rg_child_prctl(PR_SET_PDEATHSIG, M.SIGKILL, 0, 0, 0)
  if C.rg_child_parent() ~= parent then C.rg_child_kill(clock.pid(), M.SIGKILL) end
  C.rg_child_fcntl(CHANNEL, F_SETFD, ffi.cast('int', FD_CLOEXEC))
  C.rg_child_setrlimit(RLIMIT_CORE, ffi.new 'rg_child_limit')
  io.stdout:setvbuf 'line'
end

--- Let allocations beyond so many bytes fail in this process.
---@param bytes number
function M.limit_memory(bytes)
  if C.rg_child_setrlimit(RLIMIT_DATA, ffi.new('rg_child_limit', bytes, bytes)) ~= 0 then
    blame.raise(('the memory limit of %.0f bytes was refused: %s'):format(bytes, reason()), 'ESYS')
  end
end

local function tail_of(fd)
  local size = tonumber(C.rg_child_seek(fd, 0, SEEK_END))
  if size <= 0 then return nil end
  local n = math.min(size, TAIL)
  local buffer = ffi.new('char[?]', n)
  n = tonumber(C.rg_child_pread(fd, buffer, n, size - n))
  local text = n > 0 and ffi.string(buffer, n):gsub('%z+', '') or ''
  return text ~= '' and text or nil
end

--- In a child: the end of what it printed so far; nil when it printed nothing.
---@return string|nil text
function M.own_tail()
  io.stdout:flush()
  return tail_of(2)
end

--- In a child: forget what it printed so far.
function M.forget_tail()
  io.stdout:flush()
  C.rg_child_truncate(2, 0)
  C.rg_child_seek(2, 0, SEEK_SET)
end

-- Children ------------------------------------------------------------------------------------

local Child = {}
Child.__index = Child

local function descriptor(fd)
  return ffi.gc(ffi.new('int[1]', fd), function(slot) C.rg_child_close(slot[0]) end)
end

--- Start this program again.
---@param words table its arguments
---@param env table variables besides this process's own
---@return table child pid; done, kill, printed, close
function M.spawn(words, env)
  local fd = C.rg_child_memfd('ridge-worker', MFD_CLOEXEC)
  if fd < 0 then blame.raise('no memory for the output of a worker: ' .. reason(), 'ESYS') end
  local output = descriptor(fd)
  local process = require('ridge.process').spawn { words = words, env = env, out = fd, err = fd }
  return setmetatable({ pid = process.pid, output = output, process = process }, Child)
end

--- Whether the child has ended, and how; asks once and does not wait.
---@return boolean ended
---@return integer|nil status its exit status
---@return integer|nil signal that ended it
function Child:done()
  local how = self.process:wait(0)
  if how.running then return false end
  return true, how.signal == 0 and how.code or nil, how.signal ~= 0 and how.signal or nil
end

--- Send a signal; nothing happens to a child that was seen to have ended.
---@param signal integer
function Child:kill(signal) self.process:kill(signal) end

--- The end of what the child printed.
---@return string|nil text
function Child:printed() return tail_of(self.output[0]) end

--- Release what is kept of a child that has ended.
function Child:close()
  C.rg_child_close(ffi.gc(self.output, nil)[0])
  self.process:close()
end

--- Wait until one of the children ends or a signal comes, at most so long.
---@param children table list
---@param seconds number
function M.wait(children, seconds)
  local n = #children
  local fds = ffi.new('rg_child_poll[?]', math.max(n, 1))
  for i, child in ipairs(children) do
    fds[i - 1].fd, fds[i - 1].events = child.process.channel.fd, POLLIN
  end
  if C.rg_child_poll_fds(fds, n, math.ceil(seconds * 1000)) < 0 and ffi.errno() ~= EINTR then
    blame.raise('waiting for workers failed: ' .. reason(), 'ESYS')
  end
end

return M

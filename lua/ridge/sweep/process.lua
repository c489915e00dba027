-- SPDX-License-Identifier: MIT
--- Child processes: started, watched, ended.
--
-- posix_spawn, because no process may fork once OpenMP's threads run. Both output streams of a
-- child go into memory that its parent keeps (memfd_create), so that the last words of a process
-- that died are there and nothing is left on disk. That a child has ended is seen at once: it holds
-- the writing end of a pipe that the parent polls; the kernel closes it however the child ends.
-- A child is killed by its number without a race, because only its parent takes that number away.

local blame = require 'ridge.blame'
local clock = require 'ridge.store.clock'
local ffi = require 'ffi'

ffi.cdef [[
typedef struct { int fd; short events, revents; } rg_process_poll;
typedef struct { unsigned long soft, hard; } rg_process_limit;
int rg_process_spawn(int *, const char *, const void *, const void *, char *const *,
  char *const *) __asm__("posix_spawn");
int rg_process_actions_init(void *) __asm__("posix_spawn_file_actions_init");
int rg_process_actions_dup2(void *, int, int) __asm__("posix_spawn_file_actions_adddup2");
int rg_process_actions_open(void *, int, const char *, int, unsigned)
  __asm__("posix_spawn_file_actions_addopen");
int rg_process_actions_destroy(void *) __asm__("posix_spawn_file_actions_destroy");
int rg_process_waitpid(int, int *, int) __asm__("waitpid");
int rg_process_kill(int, int) __asm__("kill");
int rg_process_pipe(int *, int) __asm__("pipe2");
int rg_process_close(int) __asm__("close");
int rg_process_poll_fds(rg_process_poll *, unsigned long, int) __asm__("poll");
int rg_process_memfd(const char *, unsigned) __asm__("memfd_create");
int rg_process_prctl(int, unsigned long, unsigned long, unsigned long, unsigned long)
  __asm__("prctl");
int rg_process_parent(void) __asm__("getppid");
int rg_process_fcntl(int, int, ...) __asm__("fcntl");
int rg_process_setrlimit(int, const rg_process_limit *) __asm__("setrlimit");
int rg_process_truncate(int, int64_t) __asm__("ftruncate");
int64_t rg_process_seek(int, int64_t, int) __asm__("lseek");
int64_t rg_process_pread(int, char *, size_t, int64_t) __asm__("pread");
char *rg_process_strerror(int) __asm__("strerror");
extern char **rg_process_environ __asm__("environ");
]]

local C = ffi.C
local O_RDONLY, O_CLOEXEC = 0, 524288
local WNOHANG, POLLIN = 1, 1
local SEEK_SET, SEEK_END = 0, 2
local EINTR = 4
local F_SETFD, FD_CLOEXEC = 2, 1
local PR_SET_PDEATHSIG = 1
local RLIMIT_DATA, RLIMIT_CORE = 2, 4
local MFD_CLOEXEC = 1

-- Where a child finds the pipe that tells its parent of its end.
local PIPE_FD = 3

-- Bytes of what was printed that are kept.
local TAIL = 4000

local M = { SIGINT = 2, SIGKILL = 9 }

local function reason(code) return ffi.string(C.rg_process_strerror(code or ffi.errno())) end

-- This process --------------------------------------------------------------------------------

local function read_file(path)
  local file = io.open(path, 'rb')
  if not file then return nil end
  local text = file:read '*a'
  file:close()
  return text
end

--- How this very process was started.
---@return table command path (the executable), argv (a list, its name first)
function M.command()
  local argv = {}
  for word in (read_file '/proc/self/cmdline' or ''):gmatch '(%Z*)%z' do argv[#argv + 1] = word end
  return { path = '/proc/self/exe', argv = argv }
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
--- the pipe from its own children.
---@param parent integer process that started this one; not there any more: this process ends
function M.follow(parent)
  C.rg_process_prctl(PR_SET_PDEATHSIG, M.SIGKILL, 0, 0, 0)
  if C.rg_process_parent() ~= parent then C.rg_process_kill(clock.pid(), M.SIGKILL) end
  C.rg_process_fcntl(PIPE_FD, F_SETFD, ffi.cast('int', FD_CLOEXEC))
  C.rg_process_setrlimit(RLIMIT_CORE, ffi.new 'rg_process_limit')
  io.stdout:setvbuf 'line'
end

--- Let allocations beyond so many bytes fail in this process.
---@param bytes number
function M.limit_memory(bytes)
  if C.rg_process_setrlimit(RLIMIT_DATA, ffi.new('rg_process_limit', bytes, bytes)) ~= 0 then
    blame.raise(('the memory limit of %.0f bytes was refused: %s'):format(bytes, reason()), 'ESYS')
  end
end

local function tail_of(fd)
  local size = tonumber(C.rg_process_seek(fd, 0, SEEK_END))
  if size <= 0 then return nil end
  local n = math.min(size, TAIL)
  local buffer = ffi.new('char[?]', n)
  n = tonumber(C.rg_process_pread(fd, buffer, n, size - n))
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
  C.rg_process_truncate(2, 0)
  C.rg_process_seek(2, 0, SEEK_SET)
end

-- Children ------------------------------------------------------------------------------------

local Child = {}
Child.__index = Child

local function descriptor(fd)
  return ffi.gc(ffi.new('int[1]', fd), function(slot) C.rg_process_close(slot[0]) end)
end

local function close(slot)
  C.rg_process_close(ffi.gc(slot, nil)[0])
end

local function strings(list)
  local array = ffi.new('const char *[?]', #list + 1)
  for i, text in ipairs(list) do array[i - 1] = text end
  return ffi.cast('char *const *', array), array
end

local function environment(extra)
  local list, i = {}, 0
  while C.rg_process_environ[i] ~= nil do
    local entry = ffi.string(C.rg_process_environ[i])
    if not extra[entry:match '^[^=]*'] then list[#list + 1] = entry end
    i = i + 1
  end
  for name, value in pairs(extra) do list[#list + 1] = name .. '=' .. value end
  return list
end

--- Start a program.
---@param command table path and argv
---@param extra table environment variables besides this process's own
---@return table child pid; done, kill, printed, close
function M.spawn(command, extra)
  local fd = C.rg_process_memfd('ridge-worker', MFD_CLOEXEC)
  if fd < 0 then blame.raise('no memory for the output of a worker: ' .. reason(), 'ESYS') end
  local output = descriptor(fd)
  local ends = ffi.new 'int[2]'
  if C.rg_process_pipe(ends, O_CLOEXEC) ~= 0 then
    blame.raise('no pipe for a worker: ' .. reason(), 'ESYS')
  end
  local reading, writing = descriptor(ends[0]), descriptor(ends[1])

  local actions = ffi.new 'int64_t[64]' -- posix_spawn_file_actions_t is 80 bytes
  C.rg_process_actions_init(actions)
  C.rg_process_actions_dup2(actions, fd, 1)
  C.rg_process_actions_dup2(actions, fd, 2)
  C.rg_process_actions_dup2(actions, writing[0], PIPE_FD)
  C.rg_process_actions_open(actions, 0, '/dev/null', O_RDONLY, 0)
  local argv, keep_argv = strings(command.argv)
  local names = environment(extra)
  local env, keep_env = strings(names)
  local slot = ffi.new 'int[1]'
  local code = C.rg_process_spawn(slot, command.path, actions, nil, argv, env)
  C.rg_process_actions_destroy(actions)
  close(writing)
  if code ~= 0 or keep_argv == nil or keep_env == nil then
    blame.raise(('a worker could not be started: %s'):format(reason(code)), 'ESYS')
  end
  return setmetatable({ pid = slot[0], output = output, reading = reading }, Child)
end

--- Whether the child has ended, and how; asks once and does not wait.
---@return boolean ended
---@return integer|nil status its exit status
---@return integer|nil signal that ended it
function Child:done()
  if self.ended then return true, self.status, self.signal end
  local status = ffi.new 'int[1]'
  if C.rg_process_waitpid(self.pid, status, WNOHANG) ~= self.pid then return false end
  local word = status[0]
  self.ended = true
  self.signal = word % 128 ~= 0 and word % 128 or nil
  self.status = not self.signal and math.floor(word / 256) % 256 or nil
  return true, self.status, self.signal
end

--- Send a signal; nothing happens to a child that was seen to have ended.
---@param signal integer
function Child:kill(signal)
  if not self.ended then C.rg_process_kill(self.pid, signal) end
end

--- The end of what the child printed.
---@return string|nil text
function Child:printed() return tail_of(self.output[0]) end

--- Let go of what is kept of a child that has ended.
function Child:close()
  close(self.output)
  close(self.reading)
end

--- Wait until one of the children ends or a signal comes, at most so long.
---@param children table list
---@param seconds number
function M.wait(children, seconds)
  local n = #children
  local fds = ffi.new('rg_process_poll[?]', math.max(n, 1))
  for i, child in ipairs(children) do
    fds[i - 1].fd, fds[i - 1].events = child.reading[0], POLLIN
  end
  if C.rg_process_poll_fds(fds, n, math.ceil(seconds * 1000)) < 0 and ffi.errno() ~= EINTR then
    blame.raise('waiting for workers failed: ' .. reason(), 'ESYS')
  end
end

return M

-- SPDX-License-Identifier: MIT
--- A program in a pseudo-terminal, driven by tests: send keys, expect output, wait for its end.

local ffi = require 'ffi'

ffi.cdef [[
  int forkpty(int *master, char *name, const void *termios, const void *winsize);
  int execve(const char *path, char *const argv[], char *const envp[]);
  long read(int fd, void *buffer, unsigned long count);
  long write(int fd, const void *buffer, unsigned long count);
  int close(int fd);
  int kill(int pid, int signal);
  int waitpid(int pid, int *status, int options);
  void _exit(int status);
  struct rg_test_pollfd { int fd; short events, revents; };
  int poll(struct rg_test_pollfd *fds, unsigned long n, int timeout_ms);
]]

local M = {}
local Terminal = {}
Terminal.__index = Terminal

local PATIENCE_MS = 120000 -- only so that a hanging program fails a test instead of stopping it

local function c_strings(list)
  local array = ffi.new('char *[?]', #list + 1)
  local anchors = {}
  for i, text in ipairs(list) do
    anchors[i] = ffi.new('char[?]', #text + 1, text)
    array[i - 1] = anchors[i]
  end
  array[#list] = nil
  return array, anchors
end

--- Start a program in a terminal of 80 x 24.
---@param argv string[] path and arguments
---@param env table variables; nothing else is set
---@return table terminal
function M.spawn(argv, env)
  local list = {}
  for name, value in pairs(env) do list[#list + 1] = name .. '=' .. value end
  local args, keep_args = c_strings(argv)
  local vars, keep_vars = c_strings(list)
  local size = ffi.new('unsigned short[4]', 24, 80, 0, 0)
  local master = ffi.new 'int[1]'
  local pid = ffi.C.forkpty(master, nil, nil, size)
  if pid == 0 then
    ffi.C.execve(argv[1], args, vars)
    ffi.C._exit(127)
  end
  assert(pid > 0, 'forkpty failed')
  return setmetatable({
    pid = pid, fd = master[0], output = '', anchors = { keep_args, keep_vars },
  }, Terminal)
end

--- Write keys.
function Terminal:send(text)
  assert(ffi.C.write(self.fd, text, #text) == #text, 'the terminal takes no keys')
end

-- Has something come, or does it within so many milliseconds?
local function has_come(self, ms)
  local poll = ffi.new('struct rg_test_pollfd[1]')
  poll[0].fd, poll[0].events = self.fd, 1
  return ffi.C.poll(poll, 1, ms) > 0
end

--- Read what is there, waiting for something; false when the program has closed the terminal.
function Terminal:pump()
  if not has_come(self, PATIENCE_MS) then
    error('nothing came; so far:\n' .. self.output, 2)
  end
  local buffer = ffi.new('char[4096]')
  local n = ffi.C.read(self.fd, buffer, 4096)
  if n <= 0 then return false end
  self.output = self.output .. ffi.string(buffer, n)
  return true
end

local function clean(text)
  return (text:gsub('\27%[[%d;?]*%a', ''):gsub('\r', ''))
end

--- Wait until a plain text has come since the last one; what came up to its end.
function Terminal:expect(wanted)
  while true do
    local text = clean(self.output)
    local _, last = text:find(wanted, 1, true)
    if last then
      self.output = text:sub(last + 1)
      return text:sub(1, last)
    end
    if not self:pump() then
      error(("ended before '%s' came; so far:\n%s"):format(wanted, text), 2)
    end
  end
end

--- Send keys until a text has come: what is typed while the line editor changes the terminal's mode
--- is lost, as it is for people.
function Terminal:insist(keys, wanted)
  for _ = 1, 20 do
    self:send(keys)
    while has_come(self, 3000) do
      if not self:pump() then error('ended before ' .. wanted .. ' came', 2) end
      local text = clean(self.output)
      local _, last = text:find(wanted, 1, true)
      if last then
        self.output = text:sub(last + 1)
        return
      end
    end
  end
  error(("'%s' never came; so far:\n%s"):format(wanted, self.output), 2)
end

--- Press Ctrl-D until the program ends, for one may be lost like any key: its exit status, or
--- -signal.
function Terminal:leave()
  for _ = 1, 20 do
    self:send '\4'
    while has_come(self, 3000) do
      if not self:pump() then return self:wait() end
    end
  end
  error('it does not end; so far:\n' .. self.output, 2)
end

--- Wait for the end: its exit status, or -signal.
function Terminal:wait()
  while self:pump() do end -- luacheck: ignore 542
  local status = ffi.new 'int[1]'
  ffi.C.waitpid(self.pid, status, 0)
  ffi.C.close(self.fd)
  self.pid = nil
  local low = bit.band(status[0], 127)
  return low ~= 0 and -low or bit.rshift(bit.band(status[0], 0xff00), 8)
end

--- End it if a test has left it running.
function Terminal:stop()
  if not self.pid then return end
  ffi.C.kill(self.pid, 9)
  self:wait()
end

return M

-- SPDX-License-Identifier: MIT
--- The line between a launcher and each of its ranks: lines of text over TCP, which neither MPI nor
--- mpirun has a part in. Who speaks first says a word that only the ranks of the job were told.

local blame = require 'ridge.blame'
local ffi = require 'ffi'

local M = {}

ffi.cdef [[
typedef struct { unsigned short family, port; unsigned char address[4]; char zero[8]; }
  ridge_line_address;
typedef struct { int fd; short events, revents; } ridge_line_poll;
int ridge_line_socket(int, int, int) __asm__("socket");
int ridge_line_two(int, int, int, int *) __asm__("socketpair");
int ridge_line_bind(int, const ridge_line_address *, unsigned) __asm__("bind");
int ridge_line_listen(int, int) __asm__("listen");
int ridge_line_accept(int, void *, void *, int) __asm__("accept4");
int ridge_line_connect(int, const ridge_line_address *, unsigned) __asm__("connect");
int ridge_line_name(int, ridge_line_address *, unsigned *) __asm__("getsockname");
int ridge_line_get(int, int, int, int *, unsigned *) __asm__("getsockopt");
long ridge_line_recv(int, void *, size_t, int) __asm__("recv");
long ridge_line_send(int, const void *, size_t, int) __asm__("send");
int ridge_line_close(int) __asm__("close");
int ridge_line_wait(ridge_line_poll *, unsigned long, int) __asm__("poll");
]]

local LOCAL, INET, STREAM, CLOEXEC, NONBLOCK = 1, 2, 1, 0x80000, 0x800
local NOSIGNAL, DONTWAIT = 0x4000, 0x40
local SOL_SOCKET, SO_ERROR = 1, 4
local IN, OUT = 1, 4
local EAGAIN, EINTR = 11, 4
local MOST = 2 ^ 16 -- bytes of a line: who sends more is no rank of ours
local MOST_UNSENT = 2 ^ 18 -- bytes that the other end has not taken yet

local C = ffi.C
local buffer = ffi.new 'char[4096]'

local function address_of(host, port)
  local a, b, c, d = host:match '^(%d+)%.(%d+)%.(%d+)%.(%d+)$'
  local to = ffi.new 'ridge_line_address'
  to.family = INET
  to.port = bit.bor(bit.lshift(bit.band(port, 255), 8), bit.rshift(port, 8))
  for i, byte in ipairs { a, b, c, d } do to.address[i - 1] = tonumber(byte) end
  return to
end

local function open()
  local fd = C.ridge_line_socket(INET, STREAM + CLOEXEC + NONBLOCK, 0)
  if fd < 0 then blame.raise('launch: the system gives no socket', 'ESYS') end
  return fd
end

-- -- A line -------------------------------------------------------------------------------------

local Line = {}
Line.__index = Line

local function line(fd, most)
  return setmetatable({ fd = fd, pending = '', at = 1, unsent = '', most = most or MOST }, Line)
end

--- Send one, without waiting: what the other end does not take yet is sent by `push`. A line that
--- is gone, or has taken nothing for long, is closed.
---@param text string
function Line:send(text)
  if not self.fd then return end
  self.unsent = self.unsent .. text .. '\n'
  self:push()
  if #self.unsent > MOST_UNSENT then self:close() end
end

--- Send on what was not taken before.
function Line:push()
  while self.fd and self.unsent ~= '' do
    local n = tonumber(C.ridge_line_send(self.fd, self.unsent, #self.unsent, NOSIGNAL + DONTWAIT))
    if n > 0 then
      self.unsent = self.unsent:sub(n + 1)
    elseif ffi.errno() == EAGAIN then
      return
    elseif ffi.errno() ~= EINTR then
      self:close()
    end
  end
end

--- What has come, one by one, without waiting; nil when there is no more of it. A line that was
--- closed at its other end has no `fd` then.
---@return string|nil text
function Line:receive()
  while true do
    local stop = self.pending:find('\n', self.at, true)
    if stop then
      local text = self.pending:sub(self.at, stop - 1)
      self.at = stop + 1
      return text
    end
    if not self.fd then return nil end
    local n = tonumber(C.ridge_line_recv(self.fd, buffer, 4096, DONTWAIT))
    if n > 0 then
      self.pending, self.at = self:rest() .. ffi.string(buffer, n), 1
      if #self.pending > self.most then self:close() end
    elseif n == 0 or ffi.errno() ~= EAGAIN and ffi.errno() ~= EINTR then
      self:close()
    else
      return nil
    end
  end
end

--- What has come of a line that has not ended.
---@return string
function Line:rest() return self.pending:sub(self.at) end

function Line:close()
  if self.fd then C.ridge_line_close(self.fd) end
  self.fd = nil
end

-- -- Both ends ----------------------------------------------------------------------------------

--- Two ends of a line within this machine: what a process writes to the descriptor of the other
--- one as if it were its standard error is read from the first.
---@return table line
---@return table other
function M.pair()
  local fds = ffi.new 'int[2]'
  if C.ridge_line_two(LOCAL, STREAM + CLOEXEC, 0, fds) ~= 0 then
    blame.raise('launch: the system gives no socket', 'ESYS')
  end
  return line(fds[0], math.huge), line(fds[1])
end

--- Wait until something comes on one of these descriptors, or one of others takes something.
---@param list number[] descriptors
---@param longest_ms number
---@param takers number[]|nil descriptors
---@return boolean whether there is one
function M.wait(list, longest_ms, takers)
  local n = #list
  local polls = ffi.new('ridge_line_poll[?]', n + #(takers or {}) + 1)
  for i, fd in ipairs(list) do polls[i - 1].fd, polls[i - 1].events = fd, IN end
  for _, fd in ipairs(takers or {}) do
    polls[n].fd, polls[n].events = fd, OUT
    n = n + 1
  end
  return C.ridge_line_wait(polls, n, longest_ms) > 0
end

--- Listen, on a port that the system gives.
---@param host string '127.0.0.1' for this machine alone, '0.0.0.0' for others too
---@return table listener accept(), close(), fd, port
function M.listen(host)
  local fd = open()
  local at, size = address_of(host, 0), ffi.new('unsigned[1]', 16)
  if C.ridge_line_bind(fd, at, 16) ~= 0 or C.ridge_line_listen(fd, 512) ~= 0
      or C.ridge_line_name(fd, at, size) ~= 0 then
    C.ridge_line_close(fd)
    blame.raise('launch: the system lets nobody listen on ' .. host, 'ESYS')
  end
  local port = bit.bor(bit.lshift(bit.band(at.port, 255), 8), bit.rshift(at.port, 8))
  return { fd = fd, port = port,
    accept = function()
      local new = C.ridge_line_accept(fd, nil, nil, CLOEXEC + NONBLOCK)
      return new >= 0 and line(new) or nil
    end,
    close = function() C.ridge_line_close(fd) end }
end

--- Connect to the first of some addresses that answers.
---@param hosts string[] numbers: '10.0.0.1'
---@param port number
---@param longest_ms number for each of them
---@return table|nil line send, receive, close, fd
function M.connect(hosts, port, longest_ms)
  for _, host in ipairs(hosts) do
    local fd = open()
    C.ridge_line_connect(fd, address_of(host, port), 16)
    local poll = ffi.new('ridge_line_poll[1]', { { fd = fd, events = OUT } })
    local code, size = ffi.new 'int[1]', ffi.new('unsigned[1]', 4)
    if C.ridge_line_wait(poll, 1, longest_ms) == 1
        and C.ridge_line_get(fd, SOL_SOCKET, SO_ERROR, code, size) == 0 and code[0] == 0 then
      return line(fd)
    end
    C.ridge_line_close(fd)
  end
end

--- A word that nobody guesses.
---@return string
function M.secret()
  local file = assert(io.open('/dev/urandom', 'rb'))
  local text = file:read(16):gsub('.', function(c) return ('%02x'):format(c:byte()) end)
  file:close()
  return text
end

return M

-- SPDX-License-Identifier: MIT
--- ZeroMQ: the sockets that Jupyter speaks over, by LuaJIT's ffi. The library is loaded when a
--- kernel starts; nothing else of ridge needs it.

local blame = require 'ridge.blame'
local ffi = require 'ffi'

local M = {}

ffi.cdef [[
typedef struct { unsigned char bytes[64] __attribute__((aligned(8))); } ridge_zmq_msg;
typedef struct { void *socket; int fd; short events; short revents; } ridge_zmq_item;
void *zmq_ctx_new(void);
int zmq_ctx_term(void *context);
void *zmq_socket(void *context, int type);
int zmq_close(void *socket);
int zmq_setsockopt(void *socket, int option, const void *value, size_t size);
int zmq_getsockopt(void *socket, int option, void *value, size_t *size);
int zmq_bind(void *socket, const char *endpoint);
int zmq_connect(void *socket, const char *endpoint);
int zmq_send(void *socket, const void *bytes, size_t size, int flags);
int zmq_msg_init(ridge_zmq_msg *message);
int zmq_msg_recv(ridge_zmq_msg *message, void *socket, int flags);
void *zmq_msg_data(ridge_zmq_msg *message);
size_t zmq_msg_size(const ridge_zmq_msg *message);
int zmq_msg_more(const ridge_zmq_msg *message);
int zmq_msg_close(ridge_zmq_msg *message);
int zmq_poll(ridge_zmq_item *items, int n, long timeout_ms);
int zmq_errno(void);
const char *zmq_strerror(int code);
]]

local TYPES = { PAIR = 0, PUB = 1, SUB = 2, REQ = 3, REP = 4, DEALER = 5, ROUTER = 6 }
local OPTIONS = { subscribe = 6, linger = 17, sndhwm = 23, rcvhwm = 24, maxmsgsize = 22,
  handover = 56, routing_id = 5 }
local LAST_ENDPOINT, DONTWAIT, SNDMORE = 32, 1, 2
local POLLIN = 1
local EINTR, EAGAIN = 4, 11

local NAMES = { 'libzmq.so.5', 'libzmq.so' }
local lib

--- The library; an error says what is missing.
local function load()
  if lib then return lib end
  local reason
  for _, name in ipairs(NAMES) do
    local ok, found = pcall(ffi.load, name)
    if ok then
      lib = found
      return lib
    end
    reason = reason or tostring(found):gsub('\n.*', '')
  end
  blame.raise(('a kernel speaks over ZeroMQ, which is not here (%s): apt-get install libzmq5')
    :format(reason), 'ENOSUP')
end

--- Whether the library is there.
---@return boolean
function M.found() return (pcall(load)) end

local function failed(what)
  local code = lib.zmq_errno()
  blame.raise(('%s: %s'):format(what, ffi.string(lib.zmq_strerror(code))), 'EIO')
end

--- A context; sockets of one context reach each other in the process.
---@return cdata context
function M.context()
  local context = load().zmq_ctx_new()
  if context == nil then failed 'ZeroMQ' end
  return context
end

--- The address of a context, for another Lua state.
---@param context cdata
---@return string address
function M.address(context)
  return (tostring(ffi.cast('uintptr_t', context)):gsub('ULL$', ''))
end

--- The context of an address.
---@param address string
---@return cdata context
function M.at(address)
  load()
  return ffi.cast('void *', ffi.cast('uintptr_t', assert(loadstring('return ' .. address
    .. 'ULL'))()))
end

--- End a context, when all its sockets are closed.
---@param context cdata
function M.finish(context) lib.zmq_ctx_term(context) end

local Socket = {}
Socket.__index = Socket

--- A socket.
---@param context cdata
---@param kind string 'ROUTER', 'PUB' ...
---@param options table|nil linger, sndhwm, rcvhwm ... whole numbers; subscribe a text
---@return table socket
function M.socket(context, kind, options)
  local handle = load().zmq_socket(context, TYPES[kind])
  if handle == nil then failed(kind) end
  local self = setmetatable({ handle = handle, kind = kind }, Socket)
  for name, value in pairs(options or {}) do
    local is_text = type(value) == 'string'
    local bytes = is_text and value or name == 'maxmsgsize' and ffi.new('int64_t[1]', value)
      or ffi.new('int[1]', value)
    if lib.zmq_setsockopt(handle, OPTIONS[name], bytes, is_text and #value or ffi.sizeof(bytes))
        ~= 0 then
      failed(name)
    end
  end
  return self
end

--- Listen at an address; where it really is, is returned (a port 0 is any that is free).
---@param endpoint string 'tcp://127.0.0.1:5555'
---@return string endpoint
function Socket:bind(endpoint)
  if lib.zmq_bind(self.handle, endpoint) ~= 0 then failed(endpoint) end
  local text, size = ffi.new 'char[256]', ffi.new('size_t[1]', 256)
  lib.zmq_getsockopt(self.handle, LAST_ENDPOINT, text, size)
  return ffi.string(text)
end

--- Reach one who listens.
---@param endpoint string
function Socket:connect(endpoint)
  if lib.zmq_connect(self.handle, endpoint) ~= 0 then failed(endpoint) end
end

--- Send a message of one or more frames.
---@param frames string[]
function Socket:send(frames)
  for i, frame in ipairs(frames) do
    while lib.zmq_send(self.handle, frame, #frame, i < #frames and SNDMORE or 0) < 0 do
      if lib.zmq_errno() ~= EINTR then failed(self.kind) end
    end
  end
end

--- Receive a message, if there is one now.
---@return string[]|nil frames
function Socket:receive()
  local message, frames = ffi.new 'ridge_zmq_msg', {}
  repeat
    lib.zmq_msg_init(message)
    while lib.zmq_msg_recv(message, self.handle, #frames == 0 and DONTWAIT or 0) < 0 do
      local code = lib.zmq_errno()
      if code == EAGAIN and #frames == 0 then return nil end
      if code ~= EINTR then failed(self.kind) end
    end
    frames[#frames + 1] = ffi.string(lib.zmq_msg_data(message), lib.zmq_msg_size(message))
    local more = lib.zmq_msg_more(message)
    lib.zmq_msg_close(message)
  until more == 0
  return frames
end

--- Close it; what was sent goes on its way for as long as its linger says.
function Socket:close()
  if self.handle then lib.zmq_close(self.handle) end
  self.handle = nil
end

--- Wait until something can be read.
---@param list table sockets, and numbers of files
---@param timeout integer milliseconds; -1 for ever
---@return table|nil ready by position in the list; nil where a signal ended the wait
function M.poll(list, timeout)
  local items = ffi.new('ridge_zmq_item[?]', #list)
  for i, each in ipairs(list) do
    if type(each) == 'table' then
      items[i - 1].socket = each.handle
    else
      items[i - 1].fd = each
    end
    items[i - 1].events = POLLIN
  end
  if load().zmq_poll(items, #list, timeout) < 0 then
    if lib.zmq_errno() == EINTR then return nil end
    failed 'poll'
  end
  local ready = {}
  for i = 1, #list do ready[i] = items[i - 1].revents ~= 0 end
  return ready
end

return M

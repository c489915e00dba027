-- SPDX-License-Identifier: MIT
--- The kernel's sockets, in a thread with a Lua state of its own, so that heartbeats, interrupts
--- and what is printed go on while Lua or the core computes.
--
-- The other state hears of requests, and says what to send, over a pair of sockets in the process,
-- each message one text: a channel's name, then the parts.  What the process prints comes through
-- two pipes; it is read to its end before anything the other state publishes behind it.

local canonical = require 'ridge.store.canonical'
local ffi = require 'ffi'
local utf8 = require 'ridge.utf8'
local wire = require 'ridge.kernel.wire'
local zmq = require 'ridge.kernel.zmq'

ffi.cdef [[
typedef struct { long seconds, nanoseconds; } ridge_kernel_time;
int clock_gettime(int clock, ridge_kernel_time *time);
int kill(int pid, int number);
int getpid(void);
int getppid(void);
int getpgid(int pid);
long read(int fd, void *buffer, size_t size);
long write(int fd, const void *buffer, size_t size);
]]

local SIGINT = 2
local CHUNK = 65536   -- bytes read at a time, and of one message
local SOON = 30       -- milliseconds for which what is printed may wait for more
local IDLE = 1000     -- milliseconds between two looks whether the parent is there
local APART = 2.1     -- seconds: presses closer than two of them, the third ends the process
local QUEUED = 10000  -- messages for one who reads slowly
local LARGEST = 2 ^ 30 -- bytes of one frame that is taken

local C = ffi.C

---@class ridge.kernel.Io
---@field config table
local Io = {}
Io.__index = Io

local function log(self, text)
  text = 'ridge kernel: ' .. text .. '\n'
  C.write(self.config.log, text, #text)
end

local MONOTONIC, now = 1, ffi.new 'ridge_kernel_time'

local function clock()
  C.clock_gettime(MONOTONIC, now)
  return tonumber(now.seconds) + tonumber(now.nanoseconds) * 1e-9
end

-- -- What is printed -----------------------------------------------------------------------

local function publish(self, kind, content, parent)
  self.iopub:send(wire.frames({ to = { kind }, header = wire.header(kind, self.config.session, 'i'),
    parent = parent, metadata = '{}', content = canonical.encode(content) }, self.sign))
end

-- Bytes at the end that begin a character of UTF-8 and are not all of it.
local function begun(text)
  for back = 1, math.min(3, #text) do
    local c = text:byte(-back)
    if c >= 0xc0 then
      local n = c >= 0xf0 and 4 or c >= 0xe0 and 3 or 2
      return back < n and back or 0
    end
    if c < 0x80 then return 0 end
  end
  return 0
end

-- Publish what one stream has waiting; `whole`: a character that has begun, too.
local function flush(self, stream, whole)
  local text = table.concat(stream.pieces)
  local rest = whole and 0 or begun(text)
  stream.pieces, stream.size = { rest > 0 and text:sub(-rest) or nil }, rest
  text = text:sub(1, #text - rest)
  if text ~= '' then
    publish(self, 'stream', { name = stream.name, text = utf8.clean(text) }, self.parent)
  end
end

local function flush_others(self, stream)
  for _, other in ipairs(self.streams) do
    if other ~= stream and other.size > 0 then flush(self, other) end
  end
end

-- Read what there is, `most` bytes of it at most.
local function drain(self, stream, most)
  while most > 0 do
    local n = tonumber(C.read(stream.fd, self.buffer, CHUNK))
    if n <= 0 then return end
    flush_others(self, stream)
    stream.pieces[#stream.pieces + 1] = ffi.string(self.buffer, n)
    stream.size = stream.size + n
    most = most - n
    if stream.size >= CHUNK then flush(self, stream) end
  end
end

-- All that was printed until now.
local function printed(self)
  for _, stream in ipairs(self.streams) do drain(self, stream, self.config.room) end
  for _, stream in ipairs(self.streams) do flush(self, stream, true) end
end

-- -- Requests --------------------------------------------------------------------------------

local function status(self, state, parent)
  publish(self, 'status', { execution_state = state }, parent)
end

-- Programs that the kernel has started get it, too, where it leads a group of its own, as Jupyter
-- starts it.
local function interrupt(self)
  local at = clock()
  if at - (self.pressed or -APART) < APART then return end
  self.pressed = at
  local pid = C.getpid()
  C.kill(C.getpgid(0) == pid and -pid or pid, SIGINT)
end

local function reply(self, socket, message, kind, content)
  socket:send(wire.frames({ to = message.to, parent = message.header, metadata = '{}',
    header = wire.header(kind, self.config.session, 'i'), content = canonical.encode(content) },
    self.sign))
end

local function hand_on(self, channel, message)
  self.pair:send { wire.pack { channel, message.header, message.parent, message.metadata,
    message.content, unpack(message.to) } }
end

-- Take one request; false where there is none.
local function request(self, channel, socket)
  local frames = socket:receive()
  if not frames then return false end
  local message, header = wire.read(frames, self.sign)
  if not message then
    log(self, ('a message of %s is dropped: %s'):format(channel, header))
    return true
  end
  if header.msg_type == 'interrupt_request' then
    status(self, 'busy', message.header)
    interrupt(self)
    reply(self, socket, message, 'interrupt_reply', { status = 'ok' })
    status(self, 'idle', message.header)
    return true
  end
  hand_on(self, channel, message)
  if header.msg_type == 'shutdown_request' then
    self.pressed = nil
    interrupt(self) -- what runs has to come to its end
  end
  return true
end

-- -- What the other state says -----------------------------------------------------------------

local SAYS = {}

-- Requests come from here on from another one: what is printed belongs to it.
function SAYS.parent(self, parts)
  printed(self)
  self.parent, self.pressed = parts[2], nil
end

-- What was said before is published: what is printed from here on stands behind it.
-- 'all': the requests that have come, too, are handed on.
function SAYS.settle(self, parts)
  while parts[3] == 'all' and request(self, 'shell', self.shell) do end
  self.pair:send { wire.pack { 'settled', parts[2] } }
end

function SAYS.finish(self)
  printed(self)
  for _, socket in ipairs(self.open) do socket:close() end
  self.pair:send { wire.pack { 'finished' } }
  self.pair:close()
  self.done = true
end

local function send(self, channel, parts)
  if channel == 'iopub' then printed(self) end
  self[channel]:send(wire.frames({ header = parts[2], parent = parts[3], metadata = parts[4],
    content = parts[5], to = { unpack(parts, 6) } }, self.sign))
end

local function handle(self, text)
  local parts = wire.unpack(text)
  if SAYS[parts[1]] then SAYS[parts[1]](self, parts) else send(self, parts[1], parts) end
end

local function hear(self)
  while not self.done do
    local frames = self.pair:receive()
    if not frames then return end
    -- where memory is full the other state is about to give some back
    local ok, reason = pcall(handle, self, frames[1])
    for _ = 1, 100 do
      if ok or not tostring(reason):find 'not enough memory' then break end
      collectgarbage()
      zmq.poll({}, 50)
      ok, reason = pcall(handle, self, frames[1])
    end
    if not ok then error(reason, 0) end
  end
end

-- -- The loop ------------------------------------------------------------------------------------

local function listen(self)
  local config = self.config
  local context = zmq.at(config.context)
  local function open(kind, channel, options)
    options.linger = 1000
    local socket = zmq.socket(context, kind, options)
    self.open[#self.open + 1] = socket
    socket:bind(config.ports[channel])
    return socket
  end
  self.pair = zmq.socket(context, 'PAIR', { linger = 1000, sndhwm = 0, rcvhwm = 0 })
  self.pair:connect(config.pair)
  local ok, reason = pcall(function()
    self.shell = open('ROUTER', 'shell', { handover = 1, maxmsgsize = LARGEST })
    self.control = open('ROUTER', 'control', { handover = 1, maxmsgsize = LARGEST })
    self.stdin = open('ROUTER', 'stdin', { handover = 1, maxmsgsize = LARGEST })
    self.beat = open('REP', 'hb', { maxmsgsize = LARGEST })
    self.iopub = open('PUB', 'iopub', { sndhwm = QUEUED })
  end)
  self.pair:send { wire.pack { ok and 'listening' or 'failed',
    ok and '' or tostring(reason.message or reason) } }
  if ok then return true end
  for _, socket in ipairs(self.open) do socket:close() end
  self.pair:close()
  return false
end

local function waits(self)
  local since = self.since
  if not since then return IDLE end
  return math.max(0, SOON - math.floor((clock() - since) * 1000))
end

local function orphaned(self)
  return self.config.watched and C.getppid() ~= self.config.watched
end

local function round(self, ready)
  if ready[1] then hear(self) end
  if self.done then return end
  if ready[2] then request(self, 'control', self.control) end
  if ready[3] then request(self, 'shell', self.shell) end
  if ready[4] then request(self, 'stdin', self.stdin) end
  if ready[5] then
    local frames = self.beat:receive()
    if frames then self.beat:send(frames) end
  end
  local any = false
  for i, stream in ipairs(self.streams) do
    if ready[5 + i] then drain(self, stream, CHUNK) end
    any = any or stream.size > 0
  end
  if any and self.since and waits(self) == 0 then
    for _, stream in ipairs(self.streams) do flush(self, stream) end
    self.since = nil
  else
    self.since = any and (self.since or clock()) or nil
  end
end

--- Serve until the other state says that it has finished.
---@param text string JSON: context, pair, ports, key, session, out, err, room, log, watched
return function(text)
  local config = canonical.decode(text)
  local self = setmetatable({ config = config, sign = wire.hmac(config.key), parent = '{}',
    open = {}, buffer = ffi.new('char[?]', CHUNK), streams = {
      { name = 'stdout', fd = config.out, pieces = {}, size = 0 },
      { name = 'stderr', fd = config.err, pieces = {}, size = 0 },
    } }, Io)
  if not listen(self) then return end
  local list = { self.pair, self.control, self.shell, self.stdin, self.beat, config.out,
    config.err }
  while not self.done do
    local ready = zmq.poll(list, waits(self))
    local ok, reason = pcall(round, self, ready or {})
    if not ok then log(self, tostring(type(reason) == 'table' and reason.message or reason)) end
    if orphaned(self) then
      log(self, 'who started this kernel is gone')
      C.kill(C.getpid(), 15)
    end
  end
end

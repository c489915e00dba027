-- SPDX-License-Identifier: MIT
--- A kernel of Jupyter: cells run in a session of the prompt, and what they print, show and get
--- wrong goes to a notebook.
--
-- The sockets are served by a thread (io.lua): this state takes one request after the other from
-- it, and tells it what to send.

local blame = require 'ridge.blame'
local bundle = require 'ridge.kernel.bundle'
local canonical = require 'ridge.store.canonical'
local colour = require 'ridge.show.colour'
local ffi = require 'ffi'
local host = require 'ridge.host'
local input = require 'ridge.kernel.input'
local requests = require 'ridge.kernel.requests'
local session = require 'ridge.repl.session'
local utf8 = require 'ridge.utf8'
local wire = require 'ridge.kernel.wire'
local zmq = require 'ridge.kernel.zmq'

ffi.cdef [[
int pipe(int fds[2]);
int dup(int fd);
int dup2(int from, int to);
int fcntl(int fd, int command, ...);
int getppid(void);
typedef struct { unsigned long soft, hard; } ridge_kernel_limit;
int getrlimit(int what, ridge_kernel_limit *limit);
int setrlimit(int what, const ridge_kernel_limit *limit);
]]

local M = {}

local PAIR = 'inproc://ridge'
local CHANNELS = { 'shell', 'control', 'stdin', 'iopub', 'hb' }
local F_SETFD, F_GETFL, F_SETFL, F_SETPIPE_SZ, F_GETPIPE_SZ = 2, 3, 4, 1031, 1032
local O_NONBLOCK, FD_CLOEXEC = 2048, 1
local RLIMIT_DATA = 2
local ROOM = 2 ^ 20 -- bytes of a pipe, where the system gives so many

local Kernel = {}
Kernel.__index = Kernel

-- -- The connection file --------------------------------------------------------------------

--- What a connection file says.
---@param path string
---@return table connection key, and an endpoint for each channel
function M.connection(path)
  local file, reason = io.open(path, 'rb')
  local text = file and file:read '*a'
  if file then file:close() end
  if not text then blame.raise(reason or (path .. ': it cannot be read'), 'EIO') end
  local ok, said = pcall(canonical.decode, text)
  if not ok or type(said) ~= 'table' then
    blame.raise(path .. ' is no connection file: it is not JSON', 'EFORMAT')
  end
  local function wrong(what) blame.raise(('%s: %s'):format(path, what), 'EFORMAT') end
  local scheme = said.signature_scheme or 'hmac-sha256'
  if type(said.key) ~= 'string' then wrong 'it has no key' end
  if scheme ~= 'hmac-sha256' and said.key ~= '' then
    wrong(("messages are signed by '%s'; hmac-sha256 is known"):format(tostring(scheme)))
  end
  local transport, ip = said.transport or 'tcp', said.ip or '127.0.0.1'
  if transport ~= 'tcp' and transport ~= 'ipc' then
    wrong(("its transport is '%s'; tcp and ipc are known"):format(tostring(transport)))
  end
  local ports = {}
  for _, channel in ipairs(CHANNELS) do
    local port = said[channel .. '_port']
    if type(port) ~= 'number' or port % 1 ~= 0 or port < 0 or port > 65535 then
      wrong(('it has no %s_port'):format(channel))
    end
    ports[channel] = ('%s://%s%s%d'):format(transport, ip, transport == 'ipc' and '-' or ':', port)
  end
  return { key = said.key, ports = ports }
end

-- -- Messages ---------------------------------------------------------------------------------

function Kernel:send(channel, kind, content, to, parent)
  self.pair:send { wire.pack { channel, wire.header(kind, self.id, 'k'), parent or self.parent,
    '{}', canonical.encode(content), unpack(to) } }
end

--- Tell everybody who listens.
---@param kind string 'status'
---@param content table
function Kernel:publish(kind, content)
  io.stdout:flush()
  self:send('iopub', kind, content, { kind })
end

-- The next thing the thread says; nil where a signal ended the wait.
function Kernel:hear(timeout)
  local frames = self.pair:receive()
  if not frames then
    local ready = zmq.poll({ self.pair }, timeout)
    if not ready or not ready[1] then return nil end
    frames = self.pair:receive()
  end
  return frames and wire.unpack(frames[1])
end

--- Wait until what was published is on its way: the thread may be behind, and would take what is
--- printed now for older than that.
---@param all? boolean requests that have come until now are in `waiting` afterwards
function Kernel:settle(all)
  self.settled = self.settled + 1
  local mark = tostring(self.settled)
  self.pair:send { wire.pack { 'settle', mark, all and 'all' or '' } }
  while true do
    local parts = self:hear(-1)
    if parts and parts[1] ~= 'settled' then
      self.waiting[#self.waiting + 1] = parts
    elseif parts and parts[2] == mark then
      return
    end
  end
end

--- Cells that were sent before this one failed are not run.
function Kernel:abort()
  self:settle(true)
  for _, parts in ipairs(self.waiting) do parts.aborted = true end
end

-- A line of whoever sits before the notebook. Requests that come meanwhile wait.
function Kernel:ask()
  if not self.allow_stdin then
    blame.raise('there is nobody who could be asked: this front end has no input', 'ENOSUP')
  end
  io.stdout:flush()
  self:send('stdin', 'input_request', { prompt = '', password = false }, self.from)
  while true do
    if host.interrupted() then error('interrupted', 0) end
    local parts = self:hear(-1)
    if parts and parts[1] == 'stdin' then
      local ok, content = pcall(canonical.decode, parts[5])
      if ok and type(content.value) == 'string' then return content.value end
    elseif parts then
      self.waiting[#self.waiting + 1] = parts
    end
  end
end

local function request(self, parts)
  -- an answer to what nobody asks any more
  if parts[1] == 'stdin' or parts[1] == 'settled' then return end
  local channel, header, content = parts[1], canonical.decode(parts[2]), canonical.decode(parts[5])
  local kind = header.msg_type
  self.parent, self.from = parts[2], { unpack(parts, 6) }
  self.pair:send { wire.pack { 'parent', self.parent } }
  self:publish('status', { execution_state = 'busy' })
  local reply
  if parts.aborted and kind == 'execute_request' then
    reply = { status = 'aborted', execution_count = self.count, payload = canonical.list {},
      user_expressions = {} }
  else
    local answer = requests[kind]
    if type(answer) == 'function' and kind ~= 'error_of' then
      local ok, failure = pcall(answer, self, content)
      reply = failure
      if not ok then -- the kernel's own mistake is answered, too
        local message = type(failure) == 'table' and failure.message or failure
        reply = requests.error_of { message = tostring(message), frames = {} }
        reply.status = 'error'
      end
    elseif kind:find '_request$' then
      reply = requests.error_of { message = ("this kernel knows no '%s'"):format(utf8.clean(kind)),
        frames = {} }
      reply.status = 'error'
    end
  end
  if reply then
    self:send(channel, utf8.clean((kind:gsub('_request$', '_reply'))), reply, self.from)
  end
  self:publish('status', { execution_state = 'idle' })
end

-- -- Its life ---------------------------------------------------------------------------------

local function pipe_for(fd)
  local fds = ffi.new 'int[2]'
  if ffi.C.pipe(fds) ~= 0 then blame.raise('no pipe can be made', 'EIO') end
  ffi.C.fcntl(fds[0], F_SETPIPE_SZ, ffi.cast('int', ROOM))
  ffi.C.fcntl(fds[0], F_SETFD, ffi.cast('int', FD_CLOEXEC))
  local flags = ffi.C.fcntl(fds[0], F_GETFL)
  ffi.C.fcntl(fds[0], F_SETFL, ffi.cast('int', flags + O_NONBLOCK))
  io.stdout:flush()
  ffi.C.dup2(fds[1], fd)
  if fds[1] ~= fd then ffi.C.fcntl(fds[1], F_SETFD, ffi.cast('int', FD_CLOEXEC)) end
  return fds[0], ffi.C.fcntl(fds[0], F_GETPIPE_SZ)
end

local function random_id()
  local file = assert(io.open('/dev/urandom', 'rb'))
  local bytes = file:read(16)
  file:close()
  return (bytes:gsub('.', function(c) return ('%02x'):format(c:byte()) end))
end

local function start(connection)
  local context = zmq.context()
  local self = setmetatable({ context = context, id = random_id(), count = 0, inputs = {},
    waiting = {}, parent = '{}', from = {}, settled = 0 }, Kernel)
  self.pair = zmq.socket(context, 'PAIR', { linger = 1000, sndhwm = 0, rcvhwm = 0 })
  self.pair:bind(PAIR)
  local log = ffi.C.dup(2) -- what is said of the kernel itself
  ffi.C.fcntl(log, F_SETFD, ffi.cast('int', FD_CLOEXEC))
  local out, room = pipe_for(1)
  local err = pipe_for(2)
  io.stdout:setvbuf 'line'
  local parent = tonumber(os.getenv 'JPY_PARENT_PID')
  host.thread('ridge.kernel.io', canonical.encode { context = zmq.address(context), pair = PAIR,
    ports = connection.ports, key = connection.key, session = self.id, out = out, err = err,
    room = room, log = log, watched = parent == ffi.C.getppid() and parent or false })
  local said = self:hear(-1)
  if said[1] ~= 'listening' then
    ffi.C.dup2(log, 2)
    self.pair:close()
    zmq.finish(context)
    blame.raise(said[2], 'EIO')
  end
  return self
end

-- Everything that was said is on its way, and the sockets are closed.
local function finish(self)
  if self.finished then return end
  self.finished = true
  io.stdout:flush()
  self.pair:send { wire.pack { 'finish' } }
  repeat
    local said = self:hear(-1)
  until said and said[1] == 'finished'
  self.pair:close()
  zmq.finish(self.context)
end

-- Where a cell takes more memory than there is, an allocation has to fail: the system would end the
-- kernel instead. Lua's own memory is not what ridge.memory counts, so the process has a limit.
local function limit_data(bytes)
  local limit = ffi.new 'ridge_kernel_limit'
  if ffi.C.getrlimit(RLIMIT_DATA, limit) ~= 0 or limit.soft <= bytes then return end
  limit.soft = bytes
  ffi.C.setrlimit(RLIMIT_DATA, limit)
end

local function prepare(self)
  colour.enabled = false
  self.session = session.new {
    cells = true,
    write = function(text) io.stdout:write(text) end,
    shown = function(n, values)
      if self.silent then return end
      local data, metadata
      if n == 1 then
        data, metadata = bundle.of(values[1])
      else
        data, metadata = bundle.texts(n, values), {}
      end
      self:publish('execute_result', { data = data, metadata = metadata,
        execution_count = self.session.count })
    end,
    failed = function(failure) self.failure = failure end,
  }
  host.settings.display = function(value)
    local data, metadata = bundle.of(value)
    self:publish('display_data', { data = data, metadata = metadata, transient = {} })
    self:settle()
  end
  host.settings.clear = function(wait)
    if self.silent then return end
    self:publish('clear_output', { wait = wait })
    self:settle() -- what is printed from here on is not taken away
  end
  input.install(function() return self:ask() end)
  local exit = os.exit
  os.exit = function(...) -- luacheck: ignore 122
    if not self.finished then
      self:publish('status', { execution_state = 'idle' })
      finish(self)
    end
    exit(...)
  end
  host.ignore_pipes()
  local _, _, _, ram = host.machine()
  if ram > 0 then
    host.limit_memory(0.9 * ram) -- as at the prompt
    limit_data(0.95 * ram)
  end
  host.call('session', function() end) -- a press of Ctrl-C while nothing runs is none
end

--- Serve until told to end.
---@param path string the connection file
---@return integer status
function M.run(path)
  local connection = M.connection(path)
  local self = start(connection)
  prepare(self)
  self:publish('status', { execution_state = 'starting' })
  while not self.ends do
    local parts = table.remove(self.waiting, 1) or self:hear(-1)
    if parts then
      local ok, reason = pcall(request, self, parts)
      if not ok then
        collectgarbage()
        io.stderr:write('ridge kernel: ', tostring(type(reason) == 'table' and reason.message
          or reason), '\n')
      end
      pcall(self.session.collect, self.session)
    end
  end
  finish(self)
  return 0
end

return M

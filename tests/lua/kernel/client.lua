-- SPDX-License-Identifier: MIT
-- A front end: starts a kernel in a process of its own and speaks Jupyter's protocol with it, over
-- the same binding of libzmq.

local canonical = require 'ridge.store.canonical'
local folders = dofile 'tests/lua/store/folder.lua'
local wire = require 'ridge.kernel.wire'
local zmq = require 'ridge.kernel.zmq'

local M = {}
local Client = {}
Client.__index = Client

local KEY = 'a key'
local NAME = 'front end'

M.found = zmq.found

local function alive(pid)
  return select(2, folders.run(("kill -0 %d && ! grep -q '^State:.Z' /proc/%d/status"):format(pid,
    pid))) == 0
end

--- Start a kernel, in a group of its own, as Jupyter does.
function M.start(options)
  options = options or {}
  local self = setmetatable({ folder = folders.new(), count = 0, sign = wire.hmac(KEY),
    has_parent = options.has_parent }, Client)
  self.file, self.log = self.folder .. '/connection.json', self.folder .. '/log'
  folders.put(self.file, canonical.encode { transport = 'ipc', ip = self.folder .. '/s', key = KEY,
    signature_scheme = 'hmac-sha256', shell_port = 1, iopub_port = 2, stdin_port = 3,
    control_port = 4, hb_port = 5 })
  -- in a group of its own; where it has a parent, that is a sleep whose number it is told
  folders.put(self.folder .. '/start', ([[
    cd '%s'
    %s setsid '%s/ridge' kernel '%s' >'%s' 2>&1 </dev/null &
    echo $$ $! >pids.new && mv pids.new pids
    %s]]):format(self.folder, options.has_parent and 'JPY_PARENT_PID=$$' or '', M.here, self.file,
      self.log, options.has_parent and 'exec sleep 100000' or ''))
  os.execute(("sh '%s/start' >/dev/null 2>&1 &"):format(self.folder))
  repeat local file = io.open(self.folder .. '/pids') until file
  self.parent, self.pid = folders.get(self.folder .. '/pids'):match '(%d+) (%d+)'
  self.pid = tonumber(self.pid)
  self.context = zmq.context()
  local function open(kind, port, more)
    more.linger = 0
    local socket = zmq.socket(self.context, kind, more)
    socket:connect(('ipc://%s/s-%d'):format(self.folder, port))
    return socket
  end
  self.shell = open('DEALER', 1, { routing_id = NAME })
  self.iopub = open('SUB', 2, { subscribe = '', rcvhwm = 0 })
  self.stdin = open('DEALER', 3, { routing_id = NAME })
  self.control = open('DEALER', 4, { routing_id = NAME })
  self.beat = open('REQ', 5, {})
  -- iopub listens when something of it has come
  repeat
    self:send('shell', 'kernel_info_request', {})
    assert(self:receive 'shell')
  until self:receive('iopub', 100)
  self:drop()
  return self
end

--- Frames as they are.
function Client:raw(channel, frames) self[channel]:send(frames) end

--- The frames of a message, and its id.
function Client:frames(kind, content)
  self.count = self.count + 1
  local id = 'm' .. self.count
  return wire.frames({ to = {}, parent = '{}', metadata = '{}', content = canonical.encode(content),
    header = canonical.encode { msg_id = id, msg_type = kind, session = 's', username = 'u',
      version = '5.3', date = '2026-11-26T00:00:00Z' } }, self.sign), id
end

function Client:send(channel, kind, content)
  local frames, id = self:frames(kind, content)
  self:raw(channel, frames)
  return id
end

--- The next message of a channel: header, content, parent. Without `wait` until there is one; an
--- error where the kernel is gone.
function Client:receive(channel, wait)
  while true do
    local frames = self[channel]:receive()
    if frames then
      local message, header, content = wire.read(frames, self.sign)
      assert(message, header)
      return { type = header.msg_type, content = content, header = header,
        parent = canonical.decode(message.parent), to = message.to }
    end
    local ready = zmq.poll({ self[channel] }, wait or 1000)
    if ready and not ready[1] then
      if wait then return nil end
      assert(alive(self.pid), 'the kernel is gone: ' .. folders.get(self.log))
    end
  end
end

--- What has come and nobody reads.
function Client:drop()
  for _, channel in ipairs { 'shell', 'control', 'iopub' } do
    while self:receive(channel, 200) do end
  end
end

--- What is published for a request, to its end: types and contents, without status.
function Client:published(id)
  local list, printed = {}, { stdout = {}, stderr = {} }
  while true do
    local message = self:receive 'iopub'
    if message.parent.msg_id == id then
      if message.type == 'status' and message.content.execution_state == 'idle' then
        list.stdout = table.concat(printed.stdout)
        list.stderr = table.concat(printed.stderr)
        return list
      elseif message.type == 'stream' then
        table.insert(printed[message.content.name], message.content.text)
      end
      if message.type ~= 'status' then list[#list + 1] = message end
    end
  end
end

--- Ask, and the answer.
function Client:ask(kind, content, channel)
  local id = self:send(channel or 'shell', kind, content)
  local reply = self:receive(channel or 'shell')
  assert(reply.parent.msg_id == id, 'the answer is to another message')
  return reply.content, id, reply
end

--- Run a cell: the reply, and what is published.
function Client:run(code, more)
  local content = { code = code, silent = false, store_history = true, allow_stdin = false,
    stop_on_error = true, user_expressions = {} }
  for name, value in pairs(more or {}) do content[name] = value end
  local reply, id = self:ask('execute_request', content)
  return reply, self:published(id)
end

--- Wait until the process has ended.
function Client:wait()
  while alive(self.pid) do folders.run 'sleep 0.02' end
end

function Client:close()
  for _, channel in ipairs { 'shell', 'iopub', 'stdin', 'control', 'beat' } do
    self[channel]:close()
  end
  zmq.finish(self.context)
  folders.run(('kill -9 -%d; kill -9 %d'):format(self.pid, self.pid))
  if self.has_parent then folders.run('kill -9 ' .. self.parent) end
  self:wait()
  folders.remove(self.folder)
end

return M

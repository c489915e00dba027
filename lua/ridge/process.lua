-- SPDX-License-Identifier: MIT
--- Child processes: another copy of this program that runs a Lua module, or another program, and
--- messages to and from it.
--
-- A message is one line of text.  The channel closes when either process ends, however it ends.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local options = require 'ridge.options'

local M = {}

local ROOM = 65536

-- -- Channel -------------------------------------------------------------------------

local Channel = {}
Channel.__index = Channel

local function channel(fd)
  return setmetatable({ fd = fd, buffer = ffi.new('char[?]', ROOM), got = ffi.new('int64_t[1]'),
                        pending = '' }, Channel)
end

function Channel:send(text)
  local line = text .. '\n'
  call.check(C.rg_channel_send(self.fd, line, #line))
end

-- The next line; nil and 'timeout' or 'closed' when none came.
function Channel:receive(longest_ns)
  local until_ns = tonumber(C.rg_clock_ns()) + longest_ns
  while true do
    local line, rest = self.pending:match '^([^\n]*)\n(.*)$'
    if line then
      self.pending = rest
      return line
    end
    local left = math.max(0, until_ns - tonumber(C.rg_clock_ns()))
    call.check(C.rg_channel_receive(self.fd, self.buffer, ROOM, left, self.got))
    local n = tonumber(self.got[0])
    if n <= 0 then return nil, n == 0 and 'closed' or 'timeout' end
    self.pending = self.pending .. ffi.string(self.buffer, n)
  end
end

-- -- Process ---------------------------------------------------------------------------

---@class ridge.Process
local Process = {}
Process.__index = Process

local FOREVER_NS = 9e18

local SPAWN = {
  module = { 'string', doc = 'Lua module whose main(channel) the child runs' },
  words = { 'list', doc = 'arguments of this program instead, without its name' },
  program = { 'list', doc = 'another program instead, by its path, and its arguments' },
  env = { 'table', doc = 'variables of its environment, name to text' },
  out = { 'integer', default = -1, doc = 'descriptor of its standard output' },
  err = { 'integer', default = 2, doc = 'descriptor of its standard error' },
  own_group = { 'boolean', default = false, doc = "out of reach of the terminal's Ctrl-C" },
}

--- This program: ridge, or the luajit that loaded the library.
---@return string path
function M.program()
  local buffer = ffi.new 'char[4096]'
  local n = tonumber(ffi.C.ridge_process_readlink('/proc/self/exe', buffer, 4095))
  if n <= 0 then blame.raise('process: /proc/self/exe cannot be read', 'ESYS') end
  local path = ffi.string(buffer, n)
  -- built again or updated meanwhile: the one that runs is still there, under this name alone
  return path:find ' %(deleted%)$' and '/proc/self/exe' or path
end

ffi.cdef 'ssize_t ridge_process_readlink(const char *, char *, size_t) __asm__("readlink");'

--- Where a program is on the PATH; nil where it is not.
---@param name string
---@return string|nil path
function M.find(name)
  for folder in (os.getenv 'PATH' or ''):gmatch '[^:]+' do
    local file = io.open(folder .. '/' .. name, 'rb')
    if file then
      file:close()
      return folder .. '/' .. name
    end
  end
end

local function strings(list)
  local array = ffi.new('const char *[?]', #list + 1)
  for i, text in ipairs(list) do array[i - 1] = text end
  return array
end

local CODE = "local m = require 'ridge.process' m.serve(%q)"

--- Start a copy of this program that runs `require(module).main(channel)`, where channel:send and
--- channel:receive are the other end of this process's; or that has other arguments; or another
--- program, which has the channel as descriptor 3.
---@param given table  module, words or program; env, out, err, own_group
---@return ridge.Process process
-- >> process.spawn{ words = { '-e', 'return 1' } }:wait().code
function M.spawn(given)
  local opt = options.check(SPAWN, given, 'process.spawn')
  local extra = { 'LUA_PATH=' .. package.path, 'LUA_CPATH=' .. package.cpath }
  for name, value in pairs(opt.env or {}) do extra[#extra + 1] = name .. '=' .. value end
  local given_one = (opt.module and 1 or 0) + (opt.words and 1 or 0) + (opt.program and 1 or 0)
  if given_one ~= 1 then
    blame.raise('process.spawn: one of module, words and program', 'EARG', 'process.spawn')
  end
  local words = opt.program or { M.program() }
  for _, word in ipairs(opt.program and {} or opt.words or { '-e', CODE:format(opt.module) }) do
    words[#words + 1] = word
  end
  local how = ffi.new('rg_process_options', { opt.out, opt.err, opt.own_group and 1 or 0 })
  local slot = ffi.new('rg_process *[1]')
  call.check(C.rg_process_new(strings(words), strings(extra), how, slot))
  local handle = ffi.gc(slot[0], C.rg_process_release)
  return setmetatable({ handle = handle, pid = tonumber(C.rg_process_id(handle)),
    channel = channel(C.rg_process_channel(handle)) }, Process)
end

--- Send a line of text.  EIO when the process is gone.
---@param text string
function Process:send(text) self.channel:send(text) end

--- The next line of text.
---@param longest_ns number|nil  how long to wait; without it until one comes or the process ends
---@return string|nil text
---@return string|nil why  'timeout' or 'closed'
function Process:receive(longest_ns) return self.channel:receive(longest_ns or FOREVER_NS) end

--- How the process ended, waiting for it.
---@param longest_ns number|nil  how long to wait; without it until it ends
---@return table how  running, code (-1 when a signal ended it), signal
function Process:wait(longest_ns)
  local how = ffi.new 'rg_process_end'
  call.check(C.rg_process_wait(self.handle, longest_ns or FOREVER_NS, how))
  return { running = how.running == 1, code = how.code, signal = how.signal }
end

--- Send a signal by its number.
---@param number integer
function Process:kill(number) call.check(C.rg_process_kill(self.handle, number)) end

--- Kill it if it still runs, and release it. Twice does nothing.
function Process:close()
  if not self.handle then return end
  C.rg_process_release(ffi.gc(self.handle, nil))
  self.handle = nil
end

-- -- In the child ------------------------------------------------------------------------

--- What a child runs: the module's main with the channel to its parent.
---@param name string
function M.serve(name)
  require(name).main(channel(C.RG_PROCESS_CHANNEL))
end

return M

-- SPDX-License-Identifier: MIT
--- What a rank prints, from its pipes to the launcher: whole lines over the keeper's own line.
--
-- mpirun and srun do not carry it. Open MPI reads a rank's output in parts, ends each of them with
-- a newline of its own, and leaves out what its buffer has no room for once numbers of ranks are
-- put before many short lines.
--
-- The launcher says how many bytes more it takes. Until then nothing more is read, the pipe fills,
-- and the rank waits in its write(), as behind any slow reader; what keepers have to tell passes
-- by.

local blame = require 'ridge.blame'
local ffi = require 'ffi'

local M = {}

ffi.cdef [[
int ridge_relay_pipe(int *, int) __asm__("pipe2");
long ridge_relay_read(int, void *, size_t) __asm__("read");
int ridge_relay_set(int, int, ...) __asm__("fcntl");
int ridge_relay_close(int) __asm__("close");
]]

local CLOEXEC, NONBLOCK, SETFL = 0x80000, 0x800, 4
local EAGAIN, EINTR = 11, 4
local CHUNK = 8192 -- bytes read at once
local LONGEST = 16384 -- bytes of a message: a longer line goes in parts

--- Bytes under way to the launcher, at most.
M.WINDOW = 65536

local C = ffi.C
local buffer = ffi.new('char[?]', CHUNK)

local Relay = {}
Relay.__index = Relay

local function pipe(name)
  local ends = ffi.new 'int[2]'
  if C.ridge_relay_pipe(ends, CLOEXEC) ~= 0 then
    blame.raise('launch: the system gives no pipe', 'ESYS')
  end
  C.ridge_relay_set(ends[0], SETFL, ffi.cast('int', NONBLOCK))
  return { name = name, fd = ends[0], other = ends[1], rest = '' }
end

--- Pipes for one rank.
---@param line table the keeper's line to the launcher
---@return table relay out and err: descriptors that the rank writes to
function M.new(line)
  local self = setmetatable({ line = line, under_way = 0 }, Relay)
  self.pipes = { pipe 'out', pipe 'err' }
  self.out, self.err = self.pipes[1].other, self.pipes[2].other
  return self
end

--- The rank has been started: its ends of the pipes are its own.
function Relay:started()
  for _, each in ipairs(self.pipes) do C.ridge_relay_close(each.other) end
end

local function shut(each)
  if each.fd then C.ridge_relay_close(each.fd) end
  each.fd = nil
end

-- What was read, as messages: a line each, and what has no end yet where it is long or the last.
local function messages(each, text, last)
  local list, from = {}, 1
  text = each.rest .. text
  while true do
    local stop = text:find('\n', from, true)
    if stop and stop - from <= LONGEST then
      list[#list + 1] = each.name .. ' ' .. text:sub(from, stop - 1)
      from = stop + 1
    elseif #text - from >= LONGEST then
      list[#list + 1] = each.name .. 'part ' .. text:sub(from, from + LONGEST - 1)
      from = from + LONGEST
    else
      break
    end
  end
  each.rest = text:sub(from)
  if last and each.rest ~= '' then
    list[#list + 1] = each.name .. ' ' .. each.rest
    each.rest = ''
  end
  return list
end

local function send(self, list)
  if #list == 0 then return end
  local text = table.concat(list, '\n')
  self.under_way = self.under_way + #text + 1
  self.line:send(text)
end

-- One part of what is there; false where nothing is.
local function read(self, each)
  local n = tonumber(C.ridge_relay_read(each.fd, buffer, CHUNK))
  if n > 0 then
    send(self, messages(each, ffi.string(buffer, n)))
    return true
  elseif n < 0 and ffi.errno() == EINTR then
    return true
  elseif n == 0 or ffi.errno() ~= EAGAIN then
    shut(each)
    send(self, messages(each, '', true))
    return true
  end
  each.dry = true
  return false
end

local function room(self) return M.WINDOW - self.under_way > CHUNK end

--- Pass on what is there, as far as the launcher takes it.
function Relay:pass()
  for _, each in ipairs(self.pipes) do
    each.dry = false
    while each.fd and room(self) and read(self, each) do end
  end
end

--- The launcher has printed some.
---@param bytes number
function Relay:more(bytes) self.under_way = self.under_way - bytes end

--- Has all been passed on? Either end of the pipes is closed, or, where nobody is to be waited for
--- who has them of the rank, nothing is in them.
---@param now boolean whether processes that the rank has started are left alone
---@return boolean
function Relay:over(now)
  if self.ended then return true end
  for _, each in ipairs(self.pipes) do
    if each.fd and not (now and each.dry) then return false end
  end
  for _, each in ipairs(self.pipes) do
    shut(each)
    send(self, messages(each, '', true))
  end
  self.ended = true
  return true
end

--- Add the descriptors that are to be waited for.
---@param list number[]
function Relay:wait_for(list)
  if not room(self) then return end
  for _, each in ipairs(self.pipes) do list[#list + 1] = each.fd end
end

return M

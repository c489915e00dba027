-- SPDX-License-Identifier: MIT
--- What ranks have printed, on the launcher's own standard output and error: line by line, each
--- behind its rank's number, and never so that the launcher waits for who reads it.
--
-- Whoever reads slowly, a pager say, holds up ranks by the bytes that keepers may send (see relay),
-- not the launcher: it goes on telling keepers that it lives.

local ffi = require 'ffi'
local host = require 'ridge.host'
local line = require 'ridge.launch.line'

local M = {}

ffi.cdef [[
long ridge_printer_write(int, const void *, size_t) __asm__("write");
char *ridge_printer_strerror(int) __asm__("strerror");
]]

local EAGAIN, EINTR = 11, 4
local CHUNK = 4096 -- PIPE_BUF: a pipe that is ready takes so much at once
local ENOUGH = 262144 -- bytes that wait to be printed: ranks send no more until they are fewer
local LONGEST = 4194304 -- bytes of a line: a longer one is parted
local FD = { out = 1, err = 2 }

local C = ffi.C

local Printer = {}
Printer.__index = Printer

--- A queue for both streams: lines keep their order, also where both are one file.
---@return table printer why: why something could not be written
function M.new()
  io.stdout:flush()
  io.stderr:flush()
  return setmetatable({ queue = {}, first = 1, last = 0, bytes = 0, at = 0, parts = {},
    gone = {} }, Printer)
end

--- Print some text.
---@param stream string 'out' or 'err'
---@param text string whole lines
function Printer:print(stream, text)
  if self.gone[FD[stream]] then return end
  self.last = self.last + 1
  self.queue[self.last] = { fd = FD[stream], text = text }
  self.bytes = self.bytes + #text
end

--- What a rank has printed.
---@param rank number
---@param stream string 'out' or 'err'
---@param text string
---@param whole boolean whether the line ends here
function Printer:take(rank, stream, text, whole)
  local key = stream .. rank
  local parts = self.parts[key]
  if whole and not parts then
    self:print(stream, ('[%d] %s\n'):format(rank, text))
    return
  end
  parts = parts or { size = 0 }
  self.parts[key] = parts
  parts[#parts + 1] = text
  parts.size = parts.size + #text
  if whole or parts.size >= LONGEST then
    self.parts[key] = nil
    self:print(stream, ('[%d] %s\n'):format(rank, table.concat(parts)))
  end
end

--- The last lines of ranks that have not ended them.
function Printer:last_lines()
  for key, parts in pairs(self.parts) do
    local stream, rank = key:match '^(%a+)(%d+)$'
    self.parts[key] = nil
    self:print(stream, ('[%s] %s\n'):format(rank, table.concat(parts)))
  end
end

-- The next bytes to write, all of one stream: many lines at once.
local function head(self)
  local first = self.queue[self.first]
  if self.at == 0 and #first.text < CHUNK then
    local list, size, i = {}, 0, self.first
    while i <= self.last and self.queue[i].fd == first.fd and size < CHUNK do
      list[#list + 1] = self.queue[i].text
      size = size + #list[#list]
      self.queue[i] = nil
      i = i + 1
    end
    self.first = i - 1
    first = { fd = first.fd, text = table.concat(list) }
    self.queue[self.first] = first
  end
  return first
end

local function drop(self, entry, n)
  self.at, self.bytes = self.at + n, self.bytes - n
  if self.at < #entry.text then return end
  self.queue[self.first] = nil
  self.first, self.at = self.first + 1, 0
end

--- Write what can be written at once.
function Printer:write()
  while self.first <= self.last do
    local entry = head(self)
    local left = #entry.text - self.at
    if self.gone[entry.fd] then
      drop(self, entry, left)
    elseif not line.wait({}, 0, { entry.fd }) then
      return
    else
      local from = ffi.cast('const char *', entry.text) + self.at
      local n = tonumber(C.ridge_printer_write(entry.fd, from, math.min(left, CHUNK)))
      if n >= 0 then
        drop(self, entry, n)
      elseif ffi.errno() == EAGAIN then
        return
      elseif ffi.errno() ~= EINTR then
        self.gone[entry.fd] = true -- a full disk, say: training goes on
        self.why = entry.fd == FD.out and host.closed and host.closed() and 'it is closed'
          or ffi.string(C.ridge_printer_strerror(ffi.errno()))
      end
    end
  end
end

--- Does something wait to be printed?
function Printer:waits() return self.bytes > 0 end

--- May ranks send more?
function Printer:has_room() return self.bytes < ENOUGH end

--- The descriptor that is to take something; nil where nothing waits.
function Printer:waits_for()
  return self.first <= self.last and self.queue[self.first].fd or nil
end

return M

-- SPDX-License-Identifier: MIT
--- Standard input in a notebook: who reads from it asks the one who sits before it, a line at a
--- time.

local blame = require 'ridge.blame'

local M = {}

-- What is read of `waiting`, a text with all that was typed and not read yet; nil: ask for more.
local READS = {}

function READS.l(waiting)
  local line, rest = waiting:match '^([^\n]*)\n(.*)$'
  return line, rest
end

function READS.L(waiting)
  local line, rest = waiting:match '^([^\n]*\n)(.*)$'
  return line, rest
end

function READS.n(waiting)
  local line, rest = waiting:match '^%s*([^\n%s]+)(%s.*)$'
  if not line then return nil end
  return tonumber(line) or false, rest
end

-- There is no end of what a person types: all of it is one answer.
function READS.a(waiting)
  if waiting == '' then return nil end
  return waiting, ''
end

local function bytes(waiting, n)
  if n == 0 then return '', waiting end
  if waiting == '' then return nil end
  return waiting:sub(1, n), waiting:sub(n + 1)
end

--- Let io.read, io.lines and io.stdin:read ask.
---@param ask fun(): string one line, without its end
function M.install(ask)
  local waiting = ''
  local function read(format)
    while true do
      local value, rest
      if type(format) == 'number' then
        value, rest = bytes(waiting, format)
      else
        local kind = READS[tostring(format):match '^%*?(.)' or '']
        if not kind then
          blame.raise(("read: '%s' is no format; known: *l, *L, *n, *a, a number of bytes")
            :format(tostring(format)), 'EARG')
        end
        value, rest = kind(waiting)
      end
      if rest then
        waiting = rest
        return value or nil
      end
      waiting = waiting .. ask() .. '\n'
    end
  end
  local function reads(...)
    local n = math.max(1, select('#', ...))
    local values = {}
    for i = 1, n do values[i] = read((select(i, ...)) or '*l') end
    return unpack(values, 1, n)
  end
  local of_file, of_io, lines_of_io = io.stdin.read, io.read, io.lines
  local methods = getmetatable(io.stdin).__index
  local lines_of_file = methods.lines
  function methods.read(file, ...)
    if file == io.stdin then return reads(...) end
    return of_file(file, ...)
  end
  function methods.lines(file, ...)
    if file == io.stdin then return function() return read '*l' end end
    return lines_of_file(file, ...)
  end
  function io.read(...) -- luacheck: ignore 122
    if io.input() == io.stdin then return reads(...) end
    return of_io(...)
  end
  function io.lines(...) -- luacheck: ignore 122
    if select('#', ...) == 0 and io.input() == io.stdin then return io.stdin:lines() end
    return lines_of_io(...)
  end
end

return M

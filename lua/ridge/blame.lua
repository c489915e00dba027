-- SPDX-License-Identifier: MIT
--- Errors at the user's line.
--
-- Counted levels break at each refactoring and at every tail call, so the line is found by walking
-- the stack to the first frame that is not ridge's own.

local near = require 'ridge.near'
local plain = require 'ridge.plain'

local M = {}

local Error = {}
Error.__index = Error

function Error:__tostring()
  return self.where and (self.where .. ': ' .. self.message) or self.message
end

function Error.__concat(a, b)
  return tostring(a) .. tostring(b)
end

--- Is this chunk one of ridge's own (embedded, or a file below lua/ridge)?
---@param source string what debug.getinfo calls the source
---@return boolean
function M.is_own(source)
  return source:find('^@ridge/') ~= nil or source:find('lua/ridge/', 1, true) ~= nil
end

--- The user's line, "file:line", or nil where there is none.
---@return string|nil
function M.where()
  local level = 2
  while true do
    local info = debug.getinfo(level, 'Sl')
    if not info then return nil end
    if info.what ~= 'C' and info.currentline > 0 and not M.is_own(info.source) then
      return info.short_src .. ':' .. info.currentline
    end
    level = level + 1
  end
end

--- Is this value one of ridge's error objects?
---@param value any
---@return boolean
function M.is_error(value)
  return getmetatable(value) == Error
end

--- Set by nn: where in a network the error was made, as text.
M.context = nil

--- Raise an error again where it is that of Ctrl-C: whoever tries something and goes on where it
--- fails goes on with nothing then.
---@param err any what pcall caught
function M.pass_interrupt(err)
  if M.is_error(err) and err.code == 'EINTR' then error(err, 0) end
end

-- What was typed or stored may hold escapes, which a terminal would act on; an address says
-- nothing.
local function printable(text)
  return plain.text((text:gsub('%f[%a](%a+): 0x%x+', 'a %1')))
end

--- An error object: code, message, op, where, traceback; tostring gives "file:line: message".
---@param message string one sentence with the facts
---@param code string|nil a status name without RG_, such as 'ESHAPE'; 'EARG' when left out
---@param op string|nil the operation it is about
---@return table
function M.object(message, code, op)
  local context = M.context and M.context()
  message = printable(message)
  return setmetatable({
    message = context and message .. '\n   ' .. context or message,
    code = code or 'EARG',
    op = op,
    where = M.where(),
    traceback = debug.traceback('', 3),
  }, Error)
end

--- Raise an error object at the user's line.
---@param message string one sentence with the facts
---@param code string|nil a status name without RG_
---@param op string|nil the operation it is about
function M.raise(message, code, op)
  error(M.object(message, code, op), 0)
end

local function renamed(name, ok, ...)
  if ok then return ... end
  local err = ...
  if M.is_error(err) then
    err.message = name .. ': ' .. err.message:gsub('^[%w_.%[%]{}]+: ', '')
    err.op = name
  end
  error(err, 0)
end

--- Call a function that is made of others: what they raise is about the whole, by its name.
---@param name string the function the user called
---@param f function
---@return any what f returns
function M.within(name, f)
  return renamed(name, pcall(f))
end

--- Can this value be called: a function, or a module?
---@param value any
---@return boolean
function M.callable(value)
  if type(value) == 'function' then return true end
  local meta = type(value) == 'table' and getmetatable(value)
  return type(meta) == 'table' and meta.__call ~= nil
end

--- Set by ridge.ffi.ref: is this value a tensor of the same loading of ridge?
M.is_tensor = nil

local LONGEST = 60 -- bytes shown of a value

--- A value in a few words, for messages: never its contents, never more than a line.
---@param value any
---@return string
function M.show(value)
  local kind = type(value)
  if kind == 'string' then
    local text = value:gsub('%c', ' ')
    return #text > LONGEST and ("'%s...'"):format(text:sub(1, LONGEST)) or ("'%s'"):format(text)
  end
  if kind == 'nil' or kind == 'number' or kind == 'boolean' then return tostring(value) end
  if kind == 'cdata' then
    local ok, text = pcall(function() return value:describe() end)
    if not ok then return 'a cdata' end
    local known = not M.is_tensor or M.is_tensor(value)
    return 'the tensor ' .. text .. (known and '' or ' of another loading of ridge')
  end
  if kind == 'table' then
    local meta = debug.getmetatable(value)
    local name = type(meta) == 'table' and rawget(meta, '__name')
    if type(name) ~= 'string' then return 'a table' end
    return (name:find '^[aeioAEIO]' and 'an ' or 'a ') .. name
  end
  return 'a ' .. kind
end

--- The name in a list that was probably meant, or nil.
---@param name any what was typed
---@param known table list of names
---@return string|nil
function M.near(name, known)
  return near.names(tostring(name), known, 1)[1]
end

return M

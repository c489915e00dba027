-- SPDX-License-Identifier: MIT
--- The border between users and ridge: what Lua itself says about a mistake inside ridge ("attempt
--- to index a nil value") becomes a sentence about what was handed over it, at the user's line.
--
-- A guarded function is called as it is; only where Lua raised an error is the call looked at: the
-- docstring says what each argument may be.

local blame = require 'ridge.blame'

local M = {}

local original = setmetatable({}, { __mode = 'k' })

--- The function behind a guarded one; any other value as it is.
---@param f any
---@return any
function M.original(f)
  return original[f] or f
end

local PLAIN = { number = 'number', integer = 'number', string = 'string', boolean = 'boolean',
  ['function'] = 'function', table = 'table', ['nil'] = 'nil' }

-- May a value be what a docstring calls 'number|table|nil'?  Names of types are more than Lua has.
local function may_be(value, kinds)
  for kind in kinds:gmatch '[^|]+' do
    local plain = PLAIN[kind]
    if plain and type(value) == plain then return true end
    if kind == 'function' and blame.callable(value) then return true end
    if not plain and value ~= nil and (kind == 'any' or kind:find '^table<' or kind:find '%[%]$'
      or type(value) == 'table' or type(value) == 'cdata' or type(value) == 'function') then
      return true
    end
  end
  return false
end

-- What was handed to the function at a level of the stack: its parameters, self among them.
local function handed(level)
  local list, i = {}, 1
  local info = debug.getinfo(level + 1, 'u')
  while i <= (info.nparams or 0) do
    local name, value = debug.getlocal(level + 1, i)
    list[i] = { name = name, value = value }
    i = i + 1
  end
  return list
end

--- Module and function that know the docstring of a function; set by ridge.
M.docs = nil

local function sentence(f, given, foreign)
  local entry = M.docs and require(M.docs[1])[M.docs[2]](f)
  local self = given[1] and given[1].name == 'self' and given[1]
  local class = self and type(self.value) == 'table' and getmetatable(self.value)
  local owner = type(class) == 'table' and rawget(class, '__name')
  local name = entry and (entry.method and entry.owner .. ':' .. entry.name or entry.name)
    or type(owner) == 'string' and owner or 'ridge'
  if self then
    local meta = debug.getmetatable(self.value)
    local index = type(meta) == 'table' and rawget(meta, '__index')
    if foreign or type(self.value) ~= 'table' or not index then
      return ('%s: it is called with a colon on an object of its class, got %s'):format(name,
        blame.show(self.value))
    end
  end
  local kinds = {}
  for _, p in ipairs(entry and entry.params or {}) do kinds[p.name] = p.type end
  local shown = {}
  for _, argument in ipairs(given) do
    local kind = kinds[argument.name]
    if argument ~= self then
      if kind and not may_be(argument.value, kind) then
        return ('%s: %s is %s; expected %s'):format(name, argument.name,
          blame.show(argument.value), (kind:gsub('|', ' or '):gsub('^any', 'a value')))
      end
      shown[#shown + 1] = argument.name .. ' = ' .. blame.show(argument.value)
    end
  end
  return ('%s: the arguments do not fit%s'):format(name,
    #shown > 0 and ': ' .. table.concat(shown, ', ') or '')
end

-- Not what the user called, but what stands before it.
local BEFORE = { ['ridge/guard.lua'] = true, ['ridge/class.lua'] = true,
  ['ridge/state.lua'] = true }

local function stands_before(source)
  return BEFORE[source:match 'ridge/[%w_/]+%.lua$']
end

--- A message handler for xpcall: an error of Lua's becomes a sentence. It runs where the error was
--- raised: the last function of ridge's before the user's is the one that the user called.
---@param e any
---@return any e, or an error object
function M.handler(e)
  if e == 'not enough memory' then return blame.object('no memory is left for Lua', 'ENOMEM') end
  if type(e) ~= 'string' or not e:find '^[^:]*ridge/[%w_/]+%.lua:%d+: ' then return e end
  local level, border = 2, nil
  while true do
    local info = debug.getinfo(level, 'Slf')
    if not info then break end
    if info.what ~= 'C' then
      if not blame.is_own(info.source) then break end
      if not stands_before(info.source) then border = level end
    end
    level = level + 1
  end
  if not border then return e end
  local f = debug.getinfo(border, 'f').func
  local err = blame.object(sentence(f, handed(border)), 'EARG')
  err.cause = e
  return err
end

-- The first arguments of a function that has ended, by the names of its docstring.
local function given_to(f, first, second, third)
  local entry = M.docs and require(M.docs[1])[M.docs[2]](f)
  local list, values = {}, { first, second, third }
  local shift = entry and entry.method and 1 or 0
  if shift == 1 then list[1] = { name = 'self', value = first } end
  for i, p in ipairs(entry and entry.params or {}) do
    if i + shift <= 3 then list[#list + 1] = { name = p.name, value = values[i + shift] } end
  end
  return list
end

-- What Lua itself says of a mistake, with the file of ridge's where it happened.
local function is_raw(e)
  return type(e) == 'string' and (e:find '^bad argument #%d+ to '
    or e:find '^[^:]*ridge/[%w_/]+%.lua:%d+: ') ~= nil
end

--- Is an error what Lua itself said, or a sentence that stands for it?
---@param e any
---@return boolean
function M.is_of_lua(e)
  return is_raw(e) or blame.is_error(e) and is_raw(e.cause)
end

-- Where f ends in a call of C or in a state (no_grad, scope), its frame is gone when the error
-- passes the border, and with it the line that the error would name.
local function finish(f, first, second, third, ok, ...)
  if ok then return ... end
  local e = ...
  if is_raw(e) then
    local err = blame.object(sentence(f, given_to(f, first, second, third)), 'EARG')
    err.cause = e
    error(err, 0)
  end
  error(e, 0)
end

--- The same function behind the border.
---@param f function
---@return function
function M.wrap(f)
  if original[f] then return f end
  local function guarded(...)
    local first, second, third = ...
    return finish(f, first, second, third, xpcall(f, M.handler, ...))
  end
  original[guarded] = f
  return guarded
end

--- A __tostring of what users may have changed: a field of a result that is none any more is told
--- as text, so that printing a table does not end what prints it.
---@param f function
---@return function
function M.text(f)
  if original[f] then return f end
  local function guarded(self)
    local ok, text = pcall(f, self)
    if ok then return text end
    if type(text) == 'table' and is_raw(text.cause) then text = text.cause end -- of a method's
    if not is_raw(text) then error(text, 0) end
    local class = debug.getmetatable(self)
    local name = type(class) == 'table' and rawget(class, '__name')
    return ('<%s: its fields were changed: %s>'):format(type(name) == 'string' and name or 'table',
      (text:gsub('^[^:]*ridge/[%w_/]+%.lua:%d+: ', '')))
  end
  original[guarded] = f
  return guarded
end

--- Is this a class, that one or one that descends from it?
---@param value any
---@param class table
---@return boolean
function M.descends(value, class)
  if value == class then return type(value) == 'table' end
  local c = type(value) == 'table' and rawget(value, '__parent') or nil
  if c == class then return c ~= nil end -- so far without a loop, which would end a trace
  while type(c) == 'table' do
    if c == class then return true end
    c = rawget(c, '__parent')
  end
  return false
end

--- Is this object of the class, or of one that descends from it?
---@param object any
---@param class table
---@return boolean
function M.is_of(object, class)
  return type(object) == 'table' and M.descends(debug.getmetatable(object), class)
end

--- A function of a class behind the border.  Where its first parameter is self, what is called on
--- an object of another class would leave its fields there and find none of its own, so that is
--- refused before it runs.
---@param f function
---@param class table
---@return function
function M.method(f, class)
  if original[f] then return f end
  if debug.getlocal(f, 1) ~= 'self' then return M.wrap(f) end
  local function guarded(self, ...)
    if not M.is_of(self, class) then
      error(blame.object(sentence(f, { { name = 'self', value = self } }, true), 'EARG'), 0)
    end
    local second, third = ...
    return finish(f, self, second, third, xpcall(f, M.handler, self, ...))
  end
  original[guarded] = f
  return guarded
end

--- Put every function of a table that users can call behind the border: those without underscores.
--- Those of a metatable are methods of its objects only.
---@param t table
---@return table t
function M.all(t)
  for name, f in pairs(t) do
    if type(f) == 'function' and type(name) == 'string' and name:sub(1, 1) ~= '_' then
      t[name] = rawget(t, '__index') and M.method(f, t) or M.wrap(f)
    end
  end
  return t
end

--- The methods and the text of a class of results, whose fields users may have changed.
---@param class table
---@return table class
function M.result(class)
  class.__tostring = class.__tostring and M.text(class.__tostring)
  return M.all(class)
end

return M

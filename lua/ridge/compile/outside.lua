-- SPDX-License-Identifier: MIT
--- What a function reads that it is not called with: its upvalues and globals, fields of tables
--- among them that it names, and the same of functions of the user's that it reaches so. A plan has
--- them as they were when it was recorded, so that they are looked at before each of its runs.
--
-- Not looked at: fields of modules and other objects, items of tables of more than 64, and what the
-- function itself has changed while it was recorded (a counter).

local blame = require 'ridge.blame'
local nn = require 'ridge.nn'
local ref = require 'ridge.ffi.ref'
local util = require 'jit.util'

local M = {}

local MOST, MOST_ITEMS = 256, 64 -- places of one function; items of one table
local NOTHING = {}
local GGET = bit.band(util.funcbc(assert(loadstring 'return a_global'), 1), 0xff)
local STANDARD = { '_G', 'string', 'table', 'math', 'bit', 'ffi', 'jit', 'io', 'os', 'debug',
  'coroutine', 'package' }

-- Names of globals that a function reads, and all texts in it, which may be names of fields; those
-- of functions that it makes too.
local function texts_of(f, globals, words)
  local pc, ins = 1, util.funcbc(f, 1)
  while ins do
    if bit.band(ins, 0xff) == GGET then
      globals[util.funck(f, -bit.rshift(ins, 16) - 1)] = true
    end
    pc = pc + 1
    ins = util.funcbc(f, pc)
  end
  local i, constant = -1, util.funck(f, -1)
  while constant ~= nil do
    if type(constant) == 'string' then words[constant] = true end
    if type(constant) == 'proto' then texts_of(constant, globals, words) end
    i = i - 1
    constant = util.funck(f, i)
  end
end

local function libraries()
  local met = {}
  for _, name in ipairs(STANDARD) do met[package.loaded[name] or NOTHING] = true end
  for name, value in pairs(package.loaded) do
    if name == 'ridge' or name:find '^ridge%.' then met[value] = true end
  end
  return met
end

local function read(place)
  if place.at then
    local _, value = debug.getupvalue(place.of, place.at)
    return value
  end
  return rawget(place.of, place.key)
end

local look_into

local function add(found, place, words)
  if #found.list == MOST then return end
  local value = read(place)
  found.list[#found.list + 1] = place
  found.values[#found.list] = value == nil and NOTHING or value
  look_into(found, value, place.name, words)
end

local function look_at_items(found, list, name, words)
  local n = 0
  for _ in next, list do n = n + 1 end
  for key in next, n <= MOST_ITEMS and list or {} do
    if type(key) == 'number' then
      add(found, { of = list, key = key, name = ('%s[%s]'):format(name, key) }, words)
    elseif words[key] then
      add(found, { of = list, key = key, name = name .. '.' .. key }, words)
    end
  end
end

local function look_at_function(found, f)
  local globals, words = {}, {}
  texts_of(f, globals, words)
  local at, name = 1, debug.getupvalue(f, 1)
  while name do
    add(found, { of = f, at = at, name = name ~= '' and name or 'upvalue ' .. at }, words)
    at = at + 1
    name = debug.getupvalue(f, at)
  end
  local names = {}
  for key in pairs(globals) do names[#names + 1] = key end
  table.sort(names)
  for _, key in ipairs(names) do
    if not found.met[rawget(getfenv(f), key) or NOTHING] then
      add(found, { of = getfenv(f), key = key, name = key }, words)
    end
  end
end

function look_into(found, value, name, words)
  local kind = type(value)
  if kind ~= 'function' and kind ~= 'table' or found.met[value] then return end
  found.met[value] = true
  if kind == 'function' then
    local info = debug.getinfo(value, 'S')
    if info.what ~= 'C' and not blame.is_own(info.source) then look_at_function(found, value) end
  elseif nn.is_module(value) then
    look_into(found, value.forward, name .. '.forward', words)
  elseif not getmetatable(value) then
    look_at_items(found, value, name, words)
  end
end

local function is_same(a, b) return rawequal(a, b) or (a ~= a and b ~= b) end

-- The first place that is not what it was.
local function changed(found)
  local values = found.values
  for i = 1, #found.list do
    local value = read(found.list[i])
    if value == nil then value = NOTHING end
    if not is_same(value, values[i]) then return i, value end
  end
end

--- What a function reads from outside, and what that is now.
---@param f function or a module
---@return table found
function M.of(f)
  -- who had a value alone may let it go: it is another one then
  local found = { list = {}, values = setmetatable({}, { __mode = 'v' }), met = libraries() }
  look_into(found, f, 'f', {})
  found.met = nil
  return found
end

--- The same without what has changed since: the function does that itself.
---@param found table
---@return table found
function M.steady(found)
  local list, values = {}, setmetatable({}, { __mode = 'v' })
  for i, place in ipairs(found.list) do
    local value = read(place)
    if value == nil then value = NOTHING end
    if is_same(value, found.values[i]) then
      list[#list + 1] = place
      values[#list] = value
    end
  end
  return { list = list, values = values }
end

local PLAIN = { number = true, string = true, boolean = true }

local function text_of(value)
  if value == NOTHING then return 'nil' end
  return PLAIN[type(value)] and blame.show(value) or nil
end

--- What has changed, in words.
---@param found table
---@return string|nil why
function M.changed(found)
  local i, value = changed(found)
  if not i then return nil end
  local name, old = found.list[i].name, found.values[i]
  local now, was = text_of(value), text_of(old)
  if now and was then return ('%s is %s, and was %s'):format(name, now, was) end
  return name .. (ref.is(value) and ' is another tensor' or ' was replaced')
end

return M

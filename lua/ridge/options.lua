-- SPDX-License-Identifier: MIT
--- Options tables, checked against a spec.
--
-- A spec is { key = { types, default =, required =, choices =, min =, max =, names =, doc = } };
-- types are Lua type names joined by '|', with 'integer' and 'list' besides; `nan` lets nan be a
-- number.  One spec serves checking, defaults, help and completion, for which `names` are words
-- that it may be.

local blame = require 'ridge.blame'

local M = {}

local NONE = {}

-- The names of a spec in a list, made once.  A loop over the spec itself that also writes into the
-- table of results went wrong about once in twenty processes when LuaJIT 2.1 of Debian 12 had
-- compiled it: a value that was given was taken for missing.
local lists = setmetatable({}, { __mode = 'k' })

local function names_of(spec)
  local list = lists[spec]
  if not list then
    list = {}
    for name in pairs(spec) do list[#list + 1] = name end
    table.sort(list) -- of two that are wrong the same one is told each time
    lists[spec] = list
  end
  return list
end

local function known(spec)
  local names = {}
  for name in pairs(spec) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local function is_a(value, wanted)
  if wanted == 'integer' then
    return type(value) == 'number' and value == math.floor(value) and math.abs(value) <= 2 ^ 53
  elseif wanted == 'list' then
    return type(value) == 'table'
  end
  return wanted == 'any' or type(value) == wanted
end

local function fits(value, types)
  for wanted in types:gmatch('[^|]+') do
    if is_a(value, wanted) then return true end
  end
  return false
end

local show = blame.show

local function check_value(name, value, rule, what)
  if not fits(value, rule[1]) then
    blame.raise(('%s: option %s is %s (%s); expected %s'):format(
      what, name, show(value), type(value), (rule[1]:gsub('|', ' or '))), 'EARG', what)
  end
  if rule.choices then
    local ok = false
    for _, choice in ipairs(rule.choices) do ok = ok or choice == value end
    if not ok then
      local list = {}
      for i, choice in ipairs(rule.choices) do list[i] = tostring(choice) end
      blame.raise(('%s: option %s is %s; it is one of %s'):format(
        what, name, show(value), table.concat(list, ', ')), 'EARG', what)
    end
  end
  if type(value) == 'number' then
    if value ~= value and not rule.nan and not rule.min and not rule.max then
      blame.raise(('%s: option %s is nan; it is a number'):format(what, name), 'EARG', what)
    end
    if value ~= value and not rule.nan or (rule.min and value < rule.min)
      or (rule.max and value > rule.max) then
      blame.raise(('%s: option %s is %s; it lies between %s and %s'):format(
        what, name, show(value), tostring(rule.min or '-inf'), tostring(rule.max or 'inf')),
        'EARG', what)
    end
  end
end

--- Raise unless a table is a list: named keys in it would be ignored, as what is behind a hole.
---@param list table
---@param what string the function's name, for errors
---@param of string|nil what it is of: 'numbers' when left out
---@return table list
function M.list(list, what, of)
  local n = #list
  for key in pairs(list) do
    if type(key) ~= 'number' or key > n or key < 1 or key % 1 ~= 0 then
      blame.raise(('%s: a list of %s is expected, and %s is no place in it'):format(what,
        of or 'numbers', show(key)), 'EARG', what)
    end
  end
  for i = 1, n do -- where Lua counts what is behind a hole
    if list[i] == nil then
      blame.raise(('%s: a list of %s is expected, and its place %d is nil'):format(what,
        of or 'numbers', i), 'EARG', what)
    end
  end
  return list
end

--- Raise unless a value is true, false or nil: Lua takes 0 for true.
---@param value any
---@param what string the function's name, for errors
---@param name string the argument
---@return boolean|nil value
function M.flag(value, what, name)
  if value ~= nil and value ~= true and value ~= false then
    blame.raise(('%s: %s is true or false, got %s'):format(what, name, show(value)), 'EARG', what)
  end
  return value
end

--- Raise unless a value says how many: a whole number from 1, or nil.
---@param value any
---@param what string the function's name, for errors
---@param name string the argument
---@return integer|nil value
function M.count(value, what, name)
  if value ~= nil and (type(value) ~= 'number' or value % 1 ~= 0 or value < 1) then
    blame.raise(('%s: %s is a whole number from 1, got %s'):format(what, name, show(value)), 'EARG',
      what)
  end
  return value
end

--- Raise unless a value is a text without a byte 0, where the names of the core end: what stands
--- behind it would be lost, and two names be one.
---@param value any
---@param what string the function's name, for errors
---@return string value
function M.name(value, what)
  if type(value) ~= 'string' then
    blame.raise(('%s: a name is expected, got %s'):format(what, show(value)), 'EARG', what)
  end
  if value:find '%z' then
    blame.raise(('%s: a name has no byte 0, got %s'):format(what, show(value)), 'EARG', what)
  end
  return value
end

local function check_table(given, what)
  if type(given) ~= 'nil' and type(given) ~= 'table' then -- NULL equals nil, and is none
    blame.raise(('%s: options are a table, got %s'):format(what, show(given)), 'EARG', what)
  end
end

--- Options that a function of ridge's gives, and over them the user's, which somebody else checks.
---@param own table is written to
---@param given table|nil what the user wrote
---@param what string the function's name, for errors
---@return table own
function M.over(own, given, what)
  check_table(given, what)
  for name, value in pairs(given or {}) do own[name] = value end
  return own
end

-- A function that makes a table of the defaults of a spec, kept as long as that; false where an
-- option is required. A table that is written as one is copied whole: where nothing is given, which
-- is the usual call, no loop keeps the calls around it from being compiled into one trace.
local makers = setmetatable({}, { __mode = 'k' })

local function maker_of(spec)
  local fields, values = {}, {}
  for _, name in ipairs(names_of(spec)) do
    local rule = spec[name]
    if rule.required then return false end
    if type(rule.default) == 'boolean' then
      fields[#fields + 1] = ('[%q] = %s'):format(name, tostring(rule.default))
    elseif rule.default ~= nil then
      values[#values + 1] = rule.default
      fields[#fields + 1] = ('[%q] = defaults[%d]'):format(name, #values)
    end
  end
  return loadstring(('local defaults = ... return function() return { %s } end'):format(
    table.concat(fields, ', ')), '@ridge/options.lua')(values) -- a line of ridge's, nobody else's
end

--- A copy of the given options with the defaults filled in.
---@param spec table { key = { types, default =, ... } }
---@param given table|nil what the user wrote
---@param what string the function's name, for errors
---@return table
function M.check(spec, given, what)
  check_table(given, what)
  if given == nil then
    local make = makers[spec]
    if make == nil then
      make = maker_of(spec)
      makers[spec] = make
    end
    if make then return make() end
    given = NONE
  end
  for name in pairs(given) do
    if not spec[name] then
      local names = known(spec)
      local near = blame.near(name, names)
      blame.raise(('%s: unknown option %s%s; known: %s'):format(what, show(name),
        near and (" (did you mean '%s'?)"):format(near) or '', table.concat(names, ', ')),
        'EARG', what)
    end
  end
  local out = {}
  local names = names_of(spec)
  for i = 1, #names do
    local name = names[i]
    local rule, value = spec[name], given[name]
    if value ~= nil then
      check_value(name, value, rule, what)
    elseif rule.required then
      blame.raise(('%s: option %s is missing%s'):format(what, name,
        rule.doc and ': ' .. rule.doc or ''), 'EARG', what)
    else
      value = rule.default
    end
    if value ~= nil then out[name] = value end
  end
  return out
end

return M

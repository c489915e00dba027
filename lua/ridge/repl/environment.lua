-- SPDX-License-Identifier: MIT
--- What free names mean: in a recipe, and in a session.
--
-- Both see Lua's globals and never write to them. In a recipe, reading or creating an undeclared
-- name is an error: a typo is not nil. In a session a new name is declared by assigning to it, and
-- `ridge` is there without being asked for; it is loaded when it is first named.

local near = require 'ridge.near'

local M = {}

-- Names that a session has without being asked for: module, or module and field.
local GIVEN = { ridge = { 'ridge' }, str = { 'ridge.repl.structure', 'str' },
  summary = { 'ridge.repl.structure', 'summary' } }

--- What a name means in every session; nil for other names. Modules are loaded when first named.
---@param name string
---@return any value
function M.given(name)
  local entry = GIVEN[name]
  if not entry then return nil end
  local module = require(entry[1])
  return entry[2] and module[entry[2]] or module
end

--- What a name means in an environment, read without calling anybody's code but ridge's own.
---@param env table|nil an environment
---@param name string
---@return any value
function M.lookup(env, name)
  local value = env and rawget(env, name)
  if value == nil then value = rawget(_G, name) end
  if value == nil then
    local ok, given = pcall(M.given, name) -- help works where the core cannot be loaded
    value = ok and given or nil
  end
  return value
end

--- Every name that is visible through an environment.
---@param env table an environment
---@return string[] names
function M.names(env)
  local list = {}
  for _, scope in ipairs { env, _G } do
    for name in next, scope do
      if type(name) == 'string' then list[#list + 1] = name end
    end
  end
  for name in pairs(GIVEN) do list[#list + 1] = name end
  return list
end

--- What is to be written where a script uses ridge without asking for it.
M.REQUIRE = "write `local ridge = require 'ridge'`"

-- What people type who come from other prompts.
local INSTEAD = { help = 'type ? for help, ?name for help on a name',
  exit = 'Ctrl-D ends the session', quit = 'Ctrl-D ends the session' }

local function unknown(env, name)
  local hint = name == 'ridge' and ': ' .. M.REQUIRE
    or INSTEAD[name] and '; ' .. INSTEAD[name] or near.hint(tostring(name), M.names(env))
  error(("undeclared variable '%s'%s"):format(tostring(name), hint), 3)
end

--- The environment of a recipe: strict.
---@param typed boolean|nil of a text that comes on standard input: what a session has is there too
---@return table env
function M.recipe(typed)
  return setmetatable({}, {
    __index = function(env, name)
      local value = rawget(_G, name)
      if value == nil and typed then value = M.given(name) end
      if value == nil then unknown(env, name) end
      return value
    end,
    __newindex = function(_, name)
      error(("assignment to undeclared variable '%s': write `local %s`")
        :format(tostring(name), tostring(name)), 2)
    end,
  })
end

--- The environment of a session: assigning declares.
---@return table env
function M.session()
  local declared = {}
  local env = {}
  return setmetatable(env, {
    __index = function(_, name)
      local value = rawget(_G, name)
      if value ~= nil then return value end
      if GIVEN[name] then
        value = M.given(name)
        rawset(env, name, value)
        return value
      end
      if not declared[name] then unknown(env, name) end
      return nil
    end,
    __newindex = function(_, name, value)
      declared[name] = true
      rawset(env, name, value)
    end,
  })
end

return M

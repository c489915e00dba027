-- SPDX-License-Identifier: MIT
--- What free names mean: in a recipe, and in a session.
--
-- Both see Lua's globals and never write to them. In a recipe, reading or creating an undeclared
-- name is an error: a typo is not nil. In a session a new name is declared by assigning to it, and
-- `ridge` is there without being asked for; it is loaded when it is first named.

local near = require 'ridge.near'

local M = {}

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
  return list
end

local function unknown(env, name)
  local hint = near.hint(tostring(name), M.names(env))
  error(("undeclared variable '%s'%s"):format(tostring(name), hint), 3)
end

--- The environment of a recipe: strict.
---@return table env
function M.recipe()
  return setmetatable({}, {
    __index = function(env, name)
      local value = rawget(_G, name)
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
      if name == 'ridge' then
        value = require 'ridge'
        rawset(env, 'ridge', value)
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

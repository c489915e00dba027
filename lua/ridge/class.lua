-- SPDX-License-Identifier: MIT
--- Classes: called to construct, one parent, methods by the metatable.

local blame = require 'ridge.blame'
local guard = require 'ridge.guard'

local M = {}

-- Methods of ridge's own that users call are behind the border.  What calls a module for its user
-- (nn/module.lua) takes the forward that stands behind it.
local function define(class, key, value)
  if type(value) == 'function' and type(key) == 'string' and key:sub(1, 1) ~= '_'
    and blame.is_own(debug.getinfo(value, 'S').source) then
    value = guard.method(value, class)
  end
  rawset(class, key, value)
end

--- A new class.  Calling it makes an object and runs its init.
---@param name string what tostring and errors call it
---@param parent table|nil
---@return table
function M.class(name, parent)
  local class = { __name = name, __parent = parent }
  class.__index = parent and type(parent.__index) == 'function' and parent.__index or class
  if parent then
    for key, value in pairs(parent) do
      if type(key) == 'string' and key:sub(1, 2) == '__' and key ~= '__index'
        and key ~= '__name' and key ~= '__parent' then
        class[key] = value
      end
    end
  end
  return setmetatable(class, {
    __index = parent,
    __newindex = define,
    __call = function(self, ...)
      local object = setmetatable({}, self)
      object:init(...)
      return object
    end,
    __tostring = function() return 'class ' .. name end,
  })
end

M.descends, M.is_a = guard.descends, guard.is_of

return M

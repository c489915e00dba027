-- SPDX-License-Identifier: MIT
--- Namespaces whose fields are loaded when they are first used: what a session does not touch takes
--- neither time nor memory.

local blame = require 'ridge.blame'
local guard = require 'ridge.guard'

local M = {}

--- What lies above and is asked from below, {module, field} by name; set by ridge.
M.above = {}

--- Make a table a namespace.
---@param namespace table what is there already
---@param late table name to module, or to {module, field}
---@param name string what errors call it
---@return table namespace
function M.namespace(namespace, late, name)
  -- what is in ridge itself is what is called in inner loops, and looks at its arguments
  if name ~= 'ridge' then guard.all(namespace) end
  return setmetatable(namespace, {
    late = late, -- completion and help offer these names before they are loaded
    __index = function(self, key)
      local place = late[key]
      if place then
        local value = type(place) == 'table' and require(place[1])[place[2]] or require(place)
        if type(value) == 'function' then
          value = guard.wrap(value)
        elseif not getmetatable(value) then
          value = guard.all(value)
        end
        rawset(self, key, value)
        return value
      end
      local names = {}
      for known in pairs(namespace) do names[#names + 1] = known end
      for known in pairs(late) do names[#names + 1] = known end
      local near = type(key) == 'string' and blame.near(key, names)
      blame.raise(('%s has no %s%s'):format(name, tostring(key),
        near and (" (did you mean '%s'?)"):format(near) or ''))
    end,
  })
end

return M

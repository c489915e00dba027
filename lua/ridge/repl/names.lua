-- SPDX-License-Identifier: MIT
--- The names under which users find what ridge has: `ridge.randn`, `ridge.nn.Linear`; found in any
--- case, by their last part, and near a misspelt one.

local near = require 'ridge.near'

local M = {}

local known -- list of names, made when first asked

local function each_field(value, fn)
  local meta = debug.getmetatable(value)
  local late = type(meta) == 'table' and rawget(meta, 'late') or {}
  for name in next, value do
    if type(name) == 'string' and not late[name] then fn(name, nil) end
  end
  for name, place in next, late do fn(name, place) end
end

--- Every public name, sorted.
---@param root table the library
---@return string[] names 'ridge.nn.Linear'
function M.all(root)
  if known then return known end
  known = {}
  each_field(root, function(name, place)
    known[#known + 1] = 'ridge.' .. name
    if type(place) ~= 'string' then return end
    local value = root[name] -- a module
    if type(value) ~= 'table' then return end
    each_field(value, function(field)
      if field:find '^[%w]' then known[#known + 1] = ('ridge.%s.%s'):format(name, field) end
    end)
  end)
  table.sort(known)
  return known
end

--- The public names that a topic means when its case does not count: 'linear' is ridge.nn.Linear.
---@param root table the library
---@param topic string
---@return string[] names
function M.meant(root, topic)
  local found, small = {}, topic:lower():gsub(':', '.')
  for _, name in ipairs(M.all(root)) do
    local lower = name:lower()
    if lower == small or lower:sub(-#small - 1) == '.' .. small then found[#found + 1] = name end
  end
  return found
end

--- The public names near a topic: below its owner, where that is one.
---@param root table the library
---@param topic string
---@param limit integer at most so many
---@return string[] names
function M.near(root, topic, limit)
  local owner, last = topic:lower():match '^(.*)[.:]([%w_]+)$'
  last = last or topic:lower()
  local lasts, full = {}, {}
  for _, name in ipairs(M.all(root)) do
    local above, below = name:match '^(.*)%.([%w_]+)$'
    if not owner or above:lower() == owner or above:lower() == 'ridge.' .. owner then
      if not full[below] then
        full[below] = name
        lasts[#lasts + 1] = below
      end
    end
  end
  local list = near.names(last, lasts, limit)
  for i, name in ipairs(list) do list[i] = full[name] end
  return list
end

return M

-- SPDX-License-Identifier: MIT
--- What values of ridge's own types can do: methods and properties with one line of help each.
-- Metatypes of cdata cannot be looked into from Lua, so completion and help read this.

local M = {}

local registered = {}

--- Register a type.
---@param name string what it is called, 'Tensor'
---@param test function value -> boolean
---@param entry table { methods = {name = doc}, properties = {name = doc} }
function M.register(name, test, entry)
  entry.name = name
  entry.methods = entry.methods or {}
  entry.properties = entry.properties or {}
  registered[#registered + 1] = { test = test, entry = entry }
end

--- The entry of the type a value has, or nil.
---@param value any
---@return table|nil
function M.of(value)
  for _, r in ipairs(registered) do
    if r.test(value) then return r.entry end
  end
  return nil
end

--- Bytes a value holds, as far as that can be known: strings, tensors, modules.
---@param value any
---@return number bytes 0 where it is not known
function M.bytes(value)
  if type(value) == 'string' then return #value end
  local entry = M.of(value)
  if not entry then return 0 end
  local ok, bytes = pcall(function()
    return entry.properties.bytes and value.bytes or entry.methods.num_bytes and value:num_bytes()
  end)
  return ok and tonumber(bytes) or 0
end

--- Every registered entry, for help.
---@return table list of entries
function M.all()
  local out = {}
  for i, r in ipairs(registered) do out[i] = r.entry end
  return out
end

return M

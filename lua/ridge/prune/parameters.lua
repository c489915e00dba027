-- SPDX-License-Identifier: MIT
--- Parameters of a net by name, and along which axes their modules can shrink.

local mode = require 'ridge.tensor.mode'

local M = {}

local BOTH, FIRST, SECOND = { true, true }, { true }, { false, true }

-- Axes by class and parameter. A layer normalisation of fewer elements is another one.
local AXES = {
  ['nn.Linear'] = { weight = BOTH, bias = FIRST },
  ['nn.Conv2d'] = { weight = BOTH, bias = FIRST },
  ['nn.BatchNorm'] = { weight = FIRST, bias = FIRST, running_mean = FIRST, running_var = FIRST },
  ['nn.GroupNorm'] = { weight = FIRST, bias = FIRST },
  ['nn.Embedding'] = { weight = SECOND },
}

--- Along which axes a parameter in its place can be cut.
---@param place table {module, own}
---@return table axis to true
function M.axes(place)
  local of = AXES[getmetatable(place.module).__name]
  local found, own = {}, place.own:gsub('_mask$', '')
  for axis, can in pairs(of and of[own] or {}) do found[axis] = can end
  return found
end

local function module_of(name, own)
  local prefix = name:sub(1, #name - #own)
  return prefix == '' and '' or prefix:sub(1, -2)
end

--- Parameters by the names that graphs give them.
---@param net table
---@return table params name to {tensor, places = {{module, own, module_name}}}; names of tied ones
---  have one
function M.of(net)
  local params, by_tensor = {}, {}
  for _, place in ipairs(mode.places(net)) do
    local key = tostring(place.tensor._t)
    local p = by_tensor[key] or { tensor = place.tensor, places = {}, name = place.name }
    by_tensor[key], params[place.name] = p, p
    p.places[#p.places + 1] = { module = place.module, own = place.own,
      module_name = module_of(place.name, place.own) }
  end
  return params
end

return M

-- SPDX-License-Identifier: MIT
--- Masks as parametrisations (ridge.nn.masked): set in all places that hold a weight, taken from
--- files, fixed.

local ffi = require 'ffi'
local in_no_grad = require('ridge.tensor.grad').no_grad
local masked = require 'ridge.nn.masked'
local nets = require 'ridge.quant.nets'
local parameter = require 'ridge.nn.parameter'

local M = {}

M.of, M.is_other = masked.of, masked.is_other

local function key_of(tensor) return tonumber(ffi.cast('intptr_t', tensor._t)) end

--- Who holds which tensor in a net: what is tied has several places.
---@param net table
---@return table places list of {module, name} by a tensor's key
---@return function key of a tensor
function M.places(net)
  local places = {}
  nets.each(net, function(module)
    for _, p in ipairs(module.params) do
      local key = key_of(p.tensor)
      places[key] = places[key] or {}
      table.insert(places[key], { module = module, name = p.name })
    end
  end)
  return places, key_of
end

--- Let a parameter be 0 where a mask is false, in all places that hold it, and where it was before.
---@param list table[] {module, name}: the places of one tensor
---@param mask Tensor bool, of the parameter's shape
function M.set(list, mask)
  local before = M.of(list[1].module, list[1].name)
  mask = before and mask:logical_and(before) or mask:clone() -- a part holds the larger one
  masked.write(parameter.entry(list[1].module, list[1].name).tensor, mask)
  for _, place in ipairs(list) do
    local held = M.of(place.module, place.name)
    if held then
      in_no_grad(function() held:copy_(mask) end)
    else
      place.module:parametrize(place.name, { forward = masked.forward, buffers = { mask = mask } })
    end
  end
end

--- Let a parameter be read through the mask that lies beside it, as a file has them.
---@param module table
---@param name any
---@return boolean is there such a mask?
function M.restore(module, name)
  if type(name) ~= 'string' or module._parametrizations and module._parametrizations[name] then
    return false
  end
  local own = name .. '_mask'
  local p, held, at = parameter.entry(module, name), parameter.entry(module, own)
  if not p or not held or held.tensor.dtype ~= 'bool'
    or table.concat(held.tensor:size(), ' ') ~= table.concat(p.tensor:size(), ' ') then
    return false
  end
  table.remove(module.params, at)
  module._tensors[own] = nil
  module:parametrize(name, { forward = masked.forward, buffers = { mask = held.tensor } })
  return true
end

--- Let what stands behind masks be 0 there as well, where training moved it: an optimizer with
--- moments of before does.
---@param net table
function M.settle(net)
  nets.each(net, function(module)
    for _, p in ipairs(module.params) do
      local held = M.of(module, p.name)
      if held then masked.write(p.tensor, held) end
    end
  end)
end

--- Let masked parameters be plain ones that are 0 there now; what trains them moves the zeros.
---@param net table
function M.bake(net)
  nets.each(net, function(module)
    for i = #module.params, 1, -1 do
      local p = module.params[i]
      if p then masked.off(module, p.name) end
    end
  end)
end

return M

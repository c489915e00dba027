-- SPDX-License-Identifier: MIT
--- Copies of a tree of modules: with parameters of their own, or on another device for one pass.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local class = require 'ridge.class'
local dtype = require 'ridge.tensor.dtype'
local in_no_grad = require('ridge.tensor.grad').no_grad
local ref = require 'ridge.ffi.ref'
local Module = require 'ridge.nn.module'

local M = {}

-- Fields of a module that are made, not copied.
local MADE = { params = true, _tensors = true, children = true, recomputes = true, _parts = true }

--- A copy of a module and of all that its fields hold; each tensor, table and module once, so that
--- what is shared stays shared.
---@param module table
---@param tensor_of function of a tensor, gives the copy; asked once for each
---@return table copy
---@return boolean again does it recompute: its parameters are read in the backward pass too
local function tree(module, tensor_of)
  local modules, tables, tensors, again = {}, {}, {}, false
  local copy

  local function copied(x)
    local key = tonumber(ffi.cast('intptr_t', x._t))
    if not tensors[key] then tensors[key] = tensor_of(x) end
    return tensors[key]
  end

  local function value_of(value)
    if ref.is(value) then return value._t ~= nil and copied(value) or value end
    if class.is_a(value, Module) then return copy(value) end
    if type(value) ~= 'table' or getmetatable(value) then return value end
    if not tables[value] then
      local made = {}
      tables[value] = made
      for key, inner in pairs(value) do made[key] = value_of(inner) end
    end
    return tables[value]
  end

  local function copy_params(m, made)
    local parts = rawget(m, '_parts')
    if parts then rawset(made, '_parts', value_of(parts)) end
    for i, p in ipairs(m.params) do
      local tensor = not (parts and p.name ~= 'bias') and copied(p.tensor) or nil
      made.params[i] = { name = p.name, tensor = tensor, trainable = p.trainable,
        frozen = p.frozen }
      if tensor and m._tensors[p.name] then made._tensors[p.name] = tensor end
      if tensor and m.marks_weights then C.rg_tensor_set_param(tensor._t, 1) end
    end
    if parts then made:take_views() end
  end

  function copy(m)
    if modules[m] then return modules[m] end
    local made = setmetatable({}, getmetatable(m))
    modules[m] = made
    rawset(made, 'params', {})
    rawset(made, '_tensors', {})
    rawset(made, 'children', {})
    for key, value in pairs(m) do
      if not MADE[key] then rawset(made, key, value_of(value)) end
    end
    copy_params(m, made)
    for i, c in ipairs(m.children) do
      made.children[i] = made:_entry(c.name, copy(c.module))
    end
    if m.recomputes then Module.recompute(made) end
    again = again or m.recomputes and true or m.segments and true or false
    return made
  end

  return copy(module), again
end

--- A module with copies of all tensors, which come from nothing and want gradients where the
--- originals do.
---@param module table
---@return table
function M.clone(module)
  local wants = {}
  for _, p in ipairs(module:parameters()) do
    if p.trainable and p.tensor.requires_grad then wants[p.name] = true end
  end
  local made = in_no_grad(tree, module, function(x)
    local own = x:detach():clone()
    C.rg_scope_keep(own._t) -- it outlives the scope it was made in
    return own
  end)
  for _, p in ipairs(made:parameters()) do
    if wants[p.name] then p.tensor:requires_grad_() end
  end
  return made
end

--- A module tree on another device for one pass: gradients go back to the parameters of the one
--- here.
---@param module table
---@param device string
---@param what string|nil who asks, for errors
---@return table
---@return function dispose releases its memory there as soon as only the backward pass needs it
function M.replica(module, device, what)
  what = what or getmetatable(module).__name
  local number, list = dtype.device(device, what), {}
  local made, again = tree(module, function(x) -- what has not changed since the last pass is there
    call.run(what, C.rg_mirror, x._t, number, ref.slot)
    list[#list + 1] = ref.wrap(ref.slot[0])
    return list[#list]
  end)
  return made, function()
    if again then return end -- the backward pass computes with it
    for _, p in ipairs(made:parameters()) do
      if p.tensor._t ~= nil then p.tensor:release() end
    end
    for _, x in ipairs(list) do
      if x._t ~= nil then x:release() end
    end
  end
end

return M

-- SPDX-License-Identifier: MIT
--- What follows a layer becomes part of it: batch normalisation goes into its weight and bias, an
--- activation into its epilogue, so that ranges are observed where values are rounded.

local ffi = require 'ffi'
local BatchNorm = require('ridge.nn.batchnorm').BatchNorm
local Module = require 'ridge.nn.module'
local Sequential = require 'ridge.nn.sequential'
local activation = require 'ridge.nn.activation'
local apart = require 'ridge.quant.apart'
local class = require('ridge.class').class
local in_no_grad = require('ridge.tensor.grad').no_grad
local base = require 'ridge.nn.layer'
local nets = require 'ridge.quant.nets'

local M = {}

-- -- What stays in the place ----------------------------------------------------------------------

local Folded = class('quant.Folded', Module)

--- Nothing: what stood here is part of another module. Names of the others stay as they were.
---@param class_name string of the module that stood here
---@param into string the name of the module that it is part of
function Folded:init(class_name, into)
  Module.init(self)
  self.was, self.into, self.training = class_name, into, false
end

--- x as it is.
---@param x Tensor
---@return Tensor
function Folded.forward(_, x) return x end

function Folded:__tostring()
  return ('quant.Folded(%s, part of %s)'):format(self.was, self.into)
end

M.Folded = Folded

-- -- Folding --------------------------------------------------------------------------------------

local ACTIVATIONS = {}
for name, kind in pairs(activation) do
  if name ~= 'Dropout' then ACTIVATIONS[kind] = true end
end

local function is_layer(module)
  local kind = getmetatable(module)
  return kind == nets.Linear or kind == nets.Conv2d
end

-- The activation that a module is, as layers name theirs.
local function activation_of(module)
  if not ACTIVATIONS[getmetatable(module)] then return nil end
  local name = module.method:gsub('_$', '')
  return base.ACT[name] and name or nil
end

local function set_activation(layer, name)
  layer.activation = name
  if getmetatable(layer) == nets.Conv2d then
    layer.options = ffi.new('rg_conv2d_options', layer.options) -- a copy shares it with the net
    layer.options.act = base.ACT[name]
  else
    layer.act = base.ACT[name]
  end
end

-- Does a normalisation see the channels that a layer makes? Behind a dense layer they are the last
-- axis, and channels first are the second: the same where there are two.
local function fits(layer, norm, axes)
  if getmetatable(norm) ~= BatchNorm or norm.n ~= layer.n_out or layer.activation ~= 'none' then
    return false
  end
  if getmetatable(layer) == nets.Conv2d then return layer.layout == norm.layout end
  return norm.layout == 'nhwc' or axes == 2
end

-- y = (w x + b - mean) g / sqrt(var + eps) + beta.
local function fold_norm(layer, norm)
  for name in pairs(layer._parametrizations or {}) do layer:remove_parametrization(name) end
  in_no_grad(function()
    local factor = (norm.running_var + norm.eps):rsqrt()
    if norm.weight then factor = factor * norm.weight end
    local bias = norm.running_mean:neg()
    if layer.bias then bias = bias + layer.bias end
    bias = bias * factor
    if norm.bias then bias = bias + norm.bias end
    local shape = { layer.n_out }
    for i = 2, layer.weight.ndim do shape[i] = 1 end
    layer:param('weight', (layer.weight * factor:reshape(shape)):detach())
    layer:param('bias', bias:detach())
  end)
end

local function fold_into(s, at, name, uses, axes)
  local layer, next_at = s[at], at + 1
  local prefix = name == '' and '' or name .. '.'
  local function take()
    s[next_at] = Folded(getmetatable(s[next_at]).__name, prefix .. at)
    next_at = next_at + 1
  end
  local norm = s[next_at]
  if norm and uses[norm] == 1 and fits(layer, norm,
      not axes and 2 or axes[prefix .. next_at]) then
    fold_norm(layer, norm)
    take()
  end
  local follows = s[next_at]
  local act = follows and uses[follows] == 1 and layer.activation == 'none'
    and activation_of(follows)
  if act then
    set_activation(layer, act)
    take()
  end
end

-- How often each module is a child: what is used twice has more than one follower.
local function uses_of(net)
  local uses = {}
  nets.each(net, function(module)
    for _, c in ipairs(module.children) do uses[c.module] = (uses[c.module] or 0) + 1 end
  end)
  return uses
end

--- Fold, in a net that is a copy, what follows layers directly in a Sequential.
---@param net table
---@param taken table|nil names of Sequentials that are left, of ridge.quant.apart
---@param axes table|nil of what comes into modules, by their names, from there too; 2 without it
---@return string[] notes what could not be folded
function M.fold(net, taken, axes)
  local uses, notes = uses_of(net), {}
  nets.each(net, function(module, name)
    if taken and taken[name] then
      notes[#notes + 1] = apart.told_of(name, getmetatable(module).__name)
    elseif getmetatable(module) == Sequential then
      for at = 1, #module.children do
        if is_layer(module[at]) and uses[module[at]] == 1 then
          fold_into(module, at, name, uses, axes)
        end
      end
    end
  end)
  nets.each(net, function(module, name)
    if getmetatable(module) == BatchNorm then
      notes[#notes + 1] = ('%s (nn.BatchNorm) stays f32: it does not follow a layer directly in a '
        .. 'Sequential'):format(name == '' and 'the net' or name)
    end
  end)
  return notes
end

--- Modules that hand their input on, in another shape at most.
---@param module table
---@return boolean
function M.hands_on(module)
  local kind = getmetatable(module)
  return kind == Folded or kind == activation.Dropout
    or kind == require('ridge.nn.image').Flatten
end

M.uses_of, M.activation_of = uses_of, activation_of

return M

-- SPDX-License-Identifier: MIT
--- Parameters that are read as themselves where a mask is true and as 0 elsewhere, whatever an
--- optimizer, an average or a checkpoint made of the tensor behind it.
---
--- The mask chooses and does not multiply: nan times 0 is nan, -1 times 0 is -0, and a gradient
--- that is infinite would come through.

local in_no_grad = require('ridge.tensor.grad').no_grad
local parameter = require 'ridge.nn.parameter'
local where = require('ridge.tensor.choose').where

local M = {}

--- What masked parameters are computed by.
---@param w Tensor
---@param held table mask
---@return Tensor
function M.forward(w, held) return where(held.mask, w, 0) end

--- The mask of a parameter, or nil where it has none, or is computed by something else besides.
---@param module table
---@param name string
---@return Tensor|nil bool
function M.of(module, name)
  local way = module._parametrizations and module._parametrizations[name]
  if not way or way.forward ~= M.forward then return nil end
  return parameter.entry(module, way.buffers.mask).tensor
end

--- Is a parameter computed by something else than a mask?
---@param module table
---@param name string
---@return boolean
function M.is_other(module, name)
  local way = module._parametrizations and module._parametrizations[name]
  return way ~= nil and way.forward ~= M.forward
end

--- Let the tensor behind a mask be 0 where the mask is false: a file of it compresses, and no one
--- who reads the tensor itself sees a weight that is none.
---@param tensor Tensor
---@param mask Tensor bool
function M.write(tensor, mask)
  in_no_grad(function() tensor:copy_(where(mask, tensor:detach(), 0)) end)
end

--- Take the mask off a parameter, which is 0 there from here on. Its tensor stays the one that it
--- is, for other modules may hold it too.
---@param module table
---@param name string
---@return Tensor|nil mask that was taken off
function M.off(module, name)
  local mask = M.of(module, name)
  if not mask then return nil end
  local tensor = parameter.entry(module, name).tensor
  M.write(tensor, mask)
  module:remove_parametrization(name)
  module[name] = tensor
  return mask
end

return M

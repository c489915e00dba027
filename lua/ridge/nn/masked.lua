-- SPDX-License-Identifier: MIT
--- Parameters that are read as themselves where a mask is true and as 0 elsewhere, whatever an
--- optimizer, an average or a checkpoint made of the tensor behind it.
---
--- The mask chooses and does not multiply: nan times 0 is nan, -1 times 0 is -0, and a gradient
--- that is infinite would come through.

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

return M

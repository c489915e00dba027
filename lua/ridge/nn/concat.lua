-- SPDX-License-Identifier: MIT
--- Branches side by side (Szegedy et al., Going Deeper with Convolutions, 2015).

local blame = require 'ridge.blame'
local class = require('ridge.class').class
local concat = require('ridge.tensor.ops').concat
local Module = require 'ridge.nn.module'

local Concat = class('nn.Concat', Module)

--- x through each module, and what they give joined along an axis.
---@param axis integer along which, from 1, or from the end below 0
---@param ... table modules
-- >> ridge.nn.Concat(2, ridge.nn.Linear(4, 3), ridge.nn.Linear(4, 2))(ridge.ones(1, 4)).shape
function Concat:init(axis, ...)
  Module.init(self)
  if type(axis) ~= 'number' or axis % 1 ~= 0 or axis == 0 or math.abs(axis) > 8 then
    blame.raise(('nn.Concat: the axis is a whole number from 1, got %s'):format(blame.show(axis)),
      'EARG')
  end
  if select('#', ...) == 0 then blame.raise('nn.Concat: a module is expected', 'EARG') end
  self.axis = axis
  for i = 1, select('#', ...) do self:child(tostring(i), (select(i, ...))) end
end

--- Apply it.
---@param x Tensor
---@return Tensor
function Concat:forward(x)
  local parts = {}
  for i, c in ipairs(self.children) do parts[i] = c.module(x) end
  return concat(parts, self.axis)
end

return { Concat = Concat }

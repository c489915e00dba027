-- SPDX-License-Identifier: MIT
--- Modules one after the other.

local class = require('ridge.class').class
local blame = require 'ridge.blame'
local Module = require 'ridge.nn.module'

local Sequential = class('nn.Sequential', Module)

--- Modules one after the other: nn.Sequential(a, b) or nn.Sequential():add(a):add(b).
---@param ... table modules
function Sequential:init(...)
  Module.init(self)
  for i = 1, select('#', ...) do self:add((select(i, ...))) end
end

--- Put a module behind the last one.
---@param module table
---@return table self
function Sequential:add(module)
  if type(module) ~= 'table' or type(module.forward) ~= 'function' then
    blame.raise(('nn.Sequential: a module is expected, got %s'):format(type(module)))
  end
  self:child(#self.children + 1, module)
  return self
end

--- Each module applied to what the one before gave.
---@param x Tensor
---@return Tensor
function Sequential:forward(x)
  local children = self.children
  for i = 1, #children do x = children[i].module(x) end
  return x
end

--- How many modules there are.
---@return number
function Sequential:len()
  return #self.children
end

return Sequential

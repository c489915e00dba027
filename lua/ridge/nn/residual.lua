-- SPDX-License-Identifier: MIT
--- A way around modules (He et al., Deep Residual Learning, 2016).

local class = require('ridge.class').class
local blame = require 'ridge.blame'
local Module = require 'ridge.nn.module'
local Sequential = require 'ridge.nn.sequential'

local Residual = class('nn.Residual', Module)

--- y = x + f(x), where f is one module, or several one after the other; with another one on the way
--- around where shapes differ.
---@param ... table modules; a table {around = module} may stand at the end
-- >> ridge.nn.Residual(ridge.nn.Linear(4, 4), ridge.nn.ReLU())(ridge.ones(2, 4)).shape
function Residual:init(...)
  Module.init(self)
  local list = { ... }
  local last = list[#list]
  if type(last) == 'table' and type(last.around) == 'table' and not last.forward then
    self.around = self:child('around', last.around)
    list[#list] = nil
  end
  if #list == 0 then blame.raise 'nn.Residual: a module is expected' end
  self.inner = self:child('inner', #list == 1 and list[1] or Sequential(unpack(list)))
end

--- Apply it.
---@param x Tensor
---@return Tensor
function Residual:forward(x)
  return (self.around and self.around(x) or x) + self.inner(x)
end

return { Residual = Residual }

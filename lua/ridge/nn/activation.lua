-- SPDX-License-Identifier: MIT
--- Activations and dropout as modules, for containers.

local class = require('ridge.class').class
local options = require 'ridge.options'
local Module = require 'ridge.nn.module'

local M = {}

local SPEC = { inplace = { 'boolean', default = false, doc = 'write into the input' } }

for name, method in pairs { ReLU = 'relu', GELU = 'gelu', SiLU = 'silu', Tanh = 'tanh',
                            Sigmoid = 'sigmoid', Softplus = 'softplus' } do
  local Activation = class('nn.' .. name, Module)
  function Activation:init(opts)
    Module.init(self)
    opts = options.check(SPEC, opts, 'nn.' .. name)
    self.method = opts.inplace and method .. '_' or method
  end
  function Activation:forward(x)
    return x[self.method](x)
  end
  M[name] = Activation
end

local Dropout = class('nn.Dropout', Module)

--- Zeros with probability p while training; nothing in evaluation mode.
---@param p number|nil 0.5 when left out
function Dropout:init(p)
  Module.init(self)
  self.p = p or 0.5
end

--- Apply it.
---@param x Tensor
---@return Tensor
function Dropout:forward(x)
  return self.training and self.p > 0 and x:dropout(self.p) or x
end

function Dropout:__tostring()
  return ('nn.Dropout(%g)'):format(self.p)
end

M.Dropout = Dropout

return M

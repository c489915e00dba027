-- SPDX-License-Identifier: MIT
--- Activations and dropout as modules, for containers.

local class = require('ridge.class').class
local blame = require 'ridge.blame'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
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
    return ref.need(x, 'nn.' .. name)[self.method](x)
  end
  Activation.__doc = ('%s({inplace = false}): %s of each element.'):format(name, method)
  M[name] = Activation
end

local Dropout = class('nn.Dropout', Module)

--- Zeros with probability p while training; nothing in evaluation mode.
---@param p number|nil 0.5 when left out
function Dropout:init(p)
  Module.init(self)
  p = p or 0.5
  if type(p) ~= 'number' or not (p >= 0 and p < 1) then
    blame.raise(('nn.Dropout: p lies from 0 to 1, 1 excluded; got %s'):format(blame.show(p)))
  end
  self.p = p
end

--- Apply it.
---@param x Tensor
---@return Tensor
function Dropout:forward(x)
  ref.need(x, 'nn.Dropout')
  return self.training and self.p > 0 and x:dropout(self.p) or x
end

function Dropout:__tostring()
  return ('nn.Dropout(%g)'):format(self.p)
end

M.Dropout = Dropout

return M

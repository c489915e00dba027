-- SPDX-License-Identifier: MIT
--- Activations and dropout as modules, for containers.

local class = require('ridge.class').class
local blame = require 'ridge.blame'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local Module = require 'ridge.nn.module'

local M = {}

local SPEC = { inplace = { 'boolean', default = false, doc = 'write into the input' } }

for name, method in pairs { ReLU = 'relu', ReLU6 = 'relu6', GELU = 'gelu', SiLU = 'silu',
                            Tanh = 'tanh', Sigmoid = 'sigmoid', Softplus = 'softplus' } do
  local Activation = class('nn.' .. name, Module)
  function Activation:init(opts)
    Module.init(self)
    opts = options.check(SPEC, opts, 'nn.' .. name)
    self.method = opts.inplace and method .. '_' or method
  end
  Activation.methods = { [method] = true, [method .. '_'] = true } -- of which a file names one
  function Activation:forward(x)
    return ref.need(x, 'nn.' .. name)[self.method](x)
  end
  Activation.__doc = ('%s({inplace = false}): %s of each element.'):format(name, method)
  M[name] = Activation
end

local Dropout = class('nn.Dropout', Module)

local DROPOUT = {
  p = { 'number', default = 0.5, min = 0, max = 1, doc = 'the share of zeros' },
  inplace = SPEC.inplace,
}

--- Zeros with probability p while training; nothing in evaluation mode.
---@param p number|table|nil 0.5 when left out; or the options
---@param opts table|nil {p = 0.5, inplace = false}
-- >> ridge.nn.Dropout(0.1, {inplace = true})
function Dropout:init(p, opts)
  Module.init(self)
  if type(p) == 'table' and opts == nil then p, opts = nil, p end
  opts = options.check(DROPOUT, opts, 'nn.Dropout')
  if p == nil then p = opts.p end
  if type(p) ~= 'number' or not (p >= 0 and p < 1) then
    blame.raise(('nn.Dropout: p lies from 0 to 1, 1 excluded; got %s'):format(blame.show(p)))
  end
  self.p, self.inplace = p, opts.inplace
end

--- Apply it.
---@param x Tensor
---@return Tensor
function Dropout:forward(x)
  ref.need(x, 'nn.Dropout')
  if not self.training or self.p == 0 then return x end
  return self.inplace and x:dropout_(self.p) or x:dropout(self.p)
end

function Dropout:__tostring()
  return ('nn.Dropout(%g)'):format(self.p)
end

M.Dropout = Dropout

return M

-- SPDX-License-Identifier: MIT
--- Layers and containers under PyTorch's names.

local activation = require 'ridge.nn.activation'
local class = require('ridge.class')
local layer = require 'ridge.nn.layer'
local types = require 'ridge.types'
local Module = require 'ridge.nn.module'

local M = {
  Module = Module,
  Sequential = require 'ridge.nn.sequential',
  Linear = layer.Linear, LowRankLinear = layer.LowRankLinear, SKLinear = layer.SKLinear,
  break_even = layer.break_even, round_for_tensor_cores = layer.round_for_tensor_cores,
}
for _, part in ipairs { activation, require 'ridge.nn.image', require 'ridge.nn.loss',
                       require 'ridge.nn.norm', require 'ridge.nn.attention' } do
  for name, value in pairs(part) do M[name] = value end
end

--- Is this value a module?
---@param value any
---@return boolean
function M.is_module(value)
  return class.is_a(value, Module)
end

types.register('Module', M.is_module, {
  methods = {
    parameters = 'parameters(): list of {name, tensor, trainable}',
    num_parameters = 'num_parameters(): trained and stored numbers',
    num_bytes = 'num_bytes(): bytes of what is stored',
    train = 'train(on): training mode', eval = 'eval(): evaluation mode',
    to = "to('bf16'): convert in place",
  },
})

return M

-- SPDX-License-Identifier: MIT
--- Layers and containers under PyTorch's names.

local activation = require 'ridge.nn.activation'
local class = require('ridge.class')
local late = require 'ridge.late'
local layer = require 'ridge.nn.layer'
local types = require 'ridge.types'
local Module = require 'ridge.nn.module'

local M = {
  Module = Module,
  Sequential = require 'ridge.nn.sequential',
  Linear = layer.Linear, LowRankLinear = layer.LowRankLinear, SKLinear = layer.SKLinear,
  break_even = layer.break_even, round_for_tensor_cores = layer.round_for_tensor_cores,
}
for name, value in pairs(activation) do M[name] = value end

--- Where the others are, loaded when they are first used.
local LATE = {}
for part, names in pairs {
  image = { 'Conv2d', 'MaxPool2d', 'AvgPool2d', 'Flatten' },
  loss = { 'cross_entropy', 'bce_with_logits', 'mse_loss', 'l1_loss', 'huber_loss',
           'CrossEntropyLoss', 'BCEWithLogitsLoss', 'MSELoss', 'L1Loss', 'HuberLoss' },
  batchnorm = { 'BatchNorm' },
  norm = { 'LayerNorm', 'RMSNorm', 'Embedding' },
  attention = { 'attention', 'MultiHeadAttention', 'TransformerBlock' },
} do
  for _, name in ipairs(names) do LATE[name] = { 'ridge.nn.' .. part, name } end
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

return late.namespace(M, LATE, 'nn')

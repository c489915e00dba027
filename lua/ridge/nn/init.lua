-- SPDX-License-Identifier: MIT
--- Layers and containers under PyTorch's names.

local activation = require 'ridge.nn.activation'
local blame = require 'ridge.blame'
local class = require 'ridge.class'
local late = require 'ridge.late'
local linear = require 'ridge.nn.dense'
local options = require 'ridge.options'
local types = require 'ridge.types'
local Module = require 'ridge.nn.module'

local M = {
  Module = Module,
  Sequential = require 'ridge.nn.sequential',
  Linear = linear.Linear, LowRankLinear = linear.LowRankLinear,
}
for name, value in pairs(activation) do M[name] = value end

--- Where the others are, loaded when they are first used.
local LATE = {}
for part, names in pairs {
  sketched = { 'SKLinear', 'break_even', 'round_for_tensor_cores' },
  image = { 'Conv2d', 'MaxPool2d', 'AvgPool2d', 'Flatten' },
  image_transposed = { 'ConvTranspose2d' },
  loss = { 'cross_entropy', 'distillation_loss', 'bce_with_logits', 'mse_loss', 'l1_loss',
           'huber_loss',
           'CrossEntropyLoss', 'BCEWithLogitsLoss', 'MSELoss', 'L1Loss', 'HuberLoss' },
  sketched_image = { 'SKConv2d', 'SeparableConv2d' },
  recurrent = { 'LSTM', 'GRU' }, residual = { 'Residual' }, concat = { 'Concat' },
  batchnorm = { 'BatchNorm' },
  norm = { 'LayerNorm', 'RMSNorm', 'GroupNorm', 'Embedding' },
  feature_attention = { 'feature_attention', 'random_features' },
  attention = { 'attention', 'MultiHeadAttention', 'TransformerBlock' },
  parallel = { 'DataParallel' },
} do
  for _, name in ipairs(names) do LATE[name] = { 'ridge.nn.' .. part, name } end
end

LATE.load = { 'ridge.model_file', 'load' }

--- Is this value a module?
---@param value any
---@return boolean
function M.is_module(value)
  return class.is_a(value, Module)
end

--- A new kind of layer. Give it a function init, which makes parameters (self:param), buffers and
--- children, and a function forward; the rest (gradients, saving, converting, summary) follows.
---@param name string what tostring and errors call it
---@param parent table|nil a module class; nn.Module when left out
---@return table class
-- >> local Scale = ridge.nn.class 'Scale'
-- >> function Scale:init(n) self:param('weight', ridge.ones(n)) end
-- >> function Scale:forward(x) return x * self.weight end
-- >> return Scale(3)(ridge.ones(2, 3))
function M.class(name, parent)
  options.name(name, 'nn.class')
  if parent ~= nil and not class.descends(parent, Module) then
    blame.raise('nn.class: a parent is a class of modules, got ' .. blame.show(parent), 'EARG')
  end
  local made = class.class(name, parent or Module)
  getmetatable(made).__call = function(self, ...)
    local object = setmetatable({}, self)
    Module.init(object) -- before the user's own init, which need not know of it
    object:init(...)
    return object
  end
  return made
end

types.register('Module', M.is_module, {
  methods = {
    parameters = 'parameters(): list of {name, tensor, trainable}',
    num_parameters = 'num_parameters(): trained and stored numbers',
    num_bytes = 'num_bytes(): bytes of what is stored',
    describe = 'describe(): a line for each module in it, as text',
    train = 'train(on): training mode', eval = 'eval(): evaluation mode',
    to = "to('bf16') or to('cuda:0'): convert or move in place",
    clone = 'clone(): a module with copies of the parameters',
    parametrize = "parametrize('weight', {forward =, right_inverse =}): compute it from others",
    remove_parametrization = 'remove_parametrization(name): let it be what is computed now',
    param = "param('weight', tensor): make a tensor a parameter of this module",
    buffer = "buffer('mean', tensor): make a tensor part of its state",
    freeze = 'freeze(on): out of training, or back into it',
    save = "save('net.safetensors'): a file from which ridge.nn.load makes it again",
    analyze = 'analyze(x): parameters, memory, FLOPs and time of each layer',
  },
})

return late.namespace(M, LATE, 'nn')

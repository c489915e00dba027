-- SPDX-License-Identifier: MIT
--- A dense layer whose product is one of whole numbers of 8 bits.

local blame = require 'ridge.blame'
local class = require('ridge.class').class
local in_no_grad = require('ridge.tensor.grad').no_grad
local ref = require 'ridge.ffi.ref'
local scaled_linear = require('ridge.tensor.scaled').scaled_linear
local base = require 'ridge.quant.layer'
local fixed = require 'ridge.quant.fixed'
local int8 = require 'ridge.quant.int8'
local products = require 'ridge.quant.products'

local M = {}

local Linear = class('quant.Linear', base.Layer)

M.MOST_IN = 131071 -- sums of more products of i8 may not fit into i32 (ridge/op.h)

--- A dense layer with weights in i8. Where no range of its input is known, rows are rounded to i8
--- as they come, each by its largest. Made by quant.dynamic and quant.static of a layer that is
--- there.
---@param dense table nn.Linear
---@param opts table {per = 'channel' or 'tensor', name = the layer's, for errors, lo =, hi =,
---  dtype = range and type of what comes in}
function Linear:init(dense, opts)
  base.Layer.init(self)
  self.n_in, self.n_out = dense.n_in, dense.n_out
  self.activation = dense.activation
  if opts.lo then
    self.why = fixed.fill(self, dense, opts)
    return
  end
  local weight, scale = int8.of_weight(dense.weight, opts.per, opts.name)
  self:buffer('weight', weight)
  self:buffer('weight_scale', scale)
  local bias = dense.bias
  if bias then
    self:buffer('bias', in_no_grad(function() return bias:detach():to('f32'):clone() end))
  else
    self:without('bias')
  end
end

local given = {} -- options of the product

--- Apply the layer to the last axis.
---@param x Tensor [... x n_in]
---@return Tensor [... x n_out], f32, or bf16 or f16 as x is
function Linear:forward(x)
  ref.need(x, 'quant.Linear')
  self:no_gradient(x)
  if x.ndim == 0 or x:size(-1) ~= self.n_in then
    blame.raise(('quant.Linear: x is %s, and its last axis is to have %d elements'):format(
      x:describe(), self.n_in), 'ESHAPE')
  end
  if self.x_dtype then
    return products.dense(self, base.bytes_of(self, x), base.answer(self, x))
  end
  local tensors = self._tensors
  given.bias, given.activation, given.dtype = tensors.bias, self.activation,
    base.answer(self, x)
  local scale
  if x.device ~= 'cpu' then x, scale = int8.of_rows(x:to 'f32') end -- the CPU rounds in the product
  return scaled_linear(x, tensors.weight, scale, tensors.weight_scale, given)
end

Linear.conversions = fixed.conversions

--- Counts of the weights, for facts.
---@param f table
function Linear:measure(f)
  f.stored_count = self.n_in * self.n_out
  f.trainable_count = 0
end

--- The matrix the layer multiplies by, [n_out x n_in].
---@return Tensor
function Linear:effective_weight()
  return self.weight:to 'f32' * self.weight_scale:reshape(-1, 1)
end

function Linear:__tostring()
  return ('quant.Linear(%d -> %d%s, i8, %s%s)'):format(self.n_in, self.n_out,
    self.activation ~= 'none' and ', ' .. self.activation or '',
    self.weight_scale.count == 1 and 'one scale' or 'a scale for each output',
    base.range_text(self))
end

M.Linear = Linear

return M

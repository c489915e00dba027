-- SPDX-License-Identifier: MIT
--- A dense layer with weights of a few bits, which are opened as they are multiplied.

local blame = require 'ridge.blame'
local class = require('ridge.class').class
local in_no_grad = require('ridge.tensor.grad').no_grad
local ref = require 'ridge.ffi.ref'
local base = require 'ridge.quant.layer'
local codes = require 'ridge.quant.codes'
local groups = require 'ridge.quant.groups'
local padding = require 'ridge.quant.padding'

local M = {}

local PackedLinear = class('quant.PackedLinear', base.Layer)

--- A dense layer with weights of a few bits in groups that share a scale. Made by quant.weights
--- of a layer that is there.
---@param dense table nn.Linear
---@param found table what its weight was rounded to: code, scale, min, factor
---@param opts table bits, group, padding (features of zeros behind those of x)
function PackedLinear:init(dense, found, opts)
  base.Layer.init(self)
  self.n_in, self.n_out, self.activation = dense.n_in, dense.n_out, dense.activation
  self.bits, self.group, self.padding = opts.bits, opts.group, opts.padding
  self:buffer('weight', codes.keep(found.code, opts.bits))
  self:buffer('scale', found.scale)
  if found.min then self:buffer('min', found.min) end
  if found.factor then self:buffer('factor', found.factor) end
  local bias = dense.bias
  if bias then
    self:buffer('bias', in_no_grad(function() return bias:detach():to('f32'):clone() end))
  else
    self:without('bias')
  end
end

--- Apply the layer to the last axis.
---@param x Tensor [... x n_in]
---@return Tensor [... x n_out], f32, or bf16 or f16 as x is
function PackedLinear:forward(x)
  ref.need(x, 'quant.PackedLinear')
  self:no_gradient(x)
  if x.ndim == 0 or x:size(-1) ~= self.n_in then
    blame.raise(('quant.PackedLinear: x is %s, and its last axis is to have %d elements'):format(
      x:describe(), self.n_in), 'ESHAPE')
  end
  local answer, factor = base.answer(self, x), self._tensors.factor
  x = padding.behind(x, self.padding, x.ndim)
  if factor then x = x / factor end
  return codes.product(self, x, answer)
end

--- What comes in is read as numbers.
---@return integer
function PackedLinear:conversions() return 0 end -- luacheck: no self

--- Counts of the weights, for facts.
---@param f table
function PackedLinear:measure(f)
  f.stored_count = self.n_in * self.n_out
  f.trainable_count = 0
end

--- The matrix the layer multiplies by, [n_out x n_in].
---@return Tensor
function PackedLinear:effective_weight()
  local w, factor = codes.values(self), self._tensors.factor
  if factor then w = w / factor end
  return self.padding > 0 and w:narrow(2, 1, self.n_in) or w
end

function PackedLinear:__tostring()
  return ('quant.PackedLinear(%d -> %d%s, %d bits in groups of %d, %.3g bits a weight)'):format(
    self.n_in, self.n_out, self.activation ~= 'none' and ', ' .. self.activation or '', self.bits,
    self.group, groups.bits_of { bits = self.bits, group = self.group,
      minimum = self._tensors.min ~= nil })
end

M.PackedLinear = PackedLinear

return M

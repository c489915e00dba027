-- SPDX-License-Identifier: MIT
--- What layers with a known range share: the scale of their input, a bias that is counted in whole
--- numbers, and bytes that stay bytes for the layer behind.

local in_no_grad = require('ridge.tensor.grad').no_grad
local make = require 'ridge.tensor.make'
local int8 = require 'ridge.quant.int8'
local scheme = require 'ridge.quant.scheme'

local M = {}

local MOST = 2 ^ 31 - 1

--- A weight, its scales, an input's scale and a bias, as buffers of a layer; the bias is in units
--- of both scales, so that it is added to sums of whole numbers.
---@param self table layer
---@param from table float layer
---@param opts table per, name, lo, hi (range of the input), dtype ('u8' or 'i8')
---@return string|nil why the layer cannot be one
function M.fill(self, from, opts)
  local weight, scale = int8.of_weight(from.weight, opts.per, opts.name)
  local x_scale, x_zero = scheme.of(opts.lo, opts.hi, opts.dtype)
  self.x_zero, self.x_dtype = x_zero, opts.dtype
  self:buffer('weight', weight)
  self:buffer('weight_scale', scale)
  self:buffer('x_scale', make.full(x_scale, 1, { device = weight.device }))
  self:buffer('x_zero_point', make.full(x_zero, 1, { device = weight.device, dtype = opts.dtype }))
  local bias = from.bias
  if not bias then
    self:without('bias')
    return nil
  end
  local whole = in_no_grad(function()
    return (bias:detach():to 'f64' / (scale:to 'f64' * x_scale)):round()
  end)
  local most = whole:abs():max():item()
  -- the sums take their part of i32: each product is at most 255 * 127
  local room = MOST - 255 * 127 * (weight.count / weight:size(1))
  if not (most <= room) then
    return ('its bias is %.3g steps of the scales of input and weight, and sums in i32 have room '
      .. 'for %.3g'):format(most, math.max(room, 0))
  end
  self:buffer('bias', whole:to 'i32')
  return nil
end

--- Let a layer give bytes for the one behind it.
---@param self table layer
---@param behind table layer that takes bytes
function M.chain(self, behind)
  self.out = { dtype = behind.x_dtype, zero = behind.x_zero }
  self:buffer('y_scale', behind.x_scale:clone())
  behind.fed = true
end

--- How often numbers change between f32 and bytes in a call.
---@param self table layer
---@return integer
function M.conversions(self)
  return (self.fed and 0 or 1) + (self.out and 0 or 1)
end

return M

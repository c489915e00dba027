-- SPDX-License-Identifier: MIT
--- Numbers to bytes and products of bytes, as layers whose ranges are known need them. All of what
--- they are told lies in the layers, so that a call makes no tensor but its results.

local quantize = require('ridge.tensor.quantize').quantize
local scaled = require 'ridge.tensor.scaled'

local M = {}

local bytes_of = {} -- options of quantize

--- What comes into a layer as bytes: round(x / scale) + zero, ties to even, saturated.
---@param self table layer: x_scale, x_zero_point, x_dtype
---@param x Tensor floats
---@return Tensor
function M.quantize(self, x)
  local t = self._tensors
  bytes_of.type = self.x_dtype
  return quantize(x, t.x_scale, t.x_zero_point, bytes_of)
end

local linear, conv = {}, {}

--- A dense layer over bytes.
---@param self table layer: weight, weight_scale, x_scale, x_zero, bias, activation, and out
---@param bytes Tensor
---@param dtype string of the result, where it is no bytes
---@return Tensor
function M.dense(self, bytes, dtype)
  local t = self._tensors
  local out = self.out
  linear.bias, linear.activation, linear.x_zero = t.bias, self.activation, self.x_zero
  linear.dtype, linear.y_scale, linear.y_zero = out and out.dtype or dtype, out and t.y_scale,
    out and out.zero or 0
  return scaled.scaled_linear(bytes, t.weight, t.x_scale, t.weight_scale, linear)
end

--- A convolution over bytes.
---@param self table layer
---@param bytes Tensor
---@param dtype string
---@return Tensor
function M.convolve(self, bytes, dtype)
  local t = self._tensors
  for name, value in pairs(self.conv) do conv[name] = value end
  conv.bias, conv.activation, conv.x_zero = t.bias, self.activation, self.x_zero
  local out = self.out
  conv.dtype, conv.y_scale, conv.y_zero = out and out.dtype or dtype, out and t.y_scale,
    out and out.zero or 0
  return scaled.scaled_conv2d(bytes, t.weight, t.x_scale, t.weight_scale, conv)
end

return M

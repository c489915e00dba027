-- SPDX-License-Identifier: MIT
--- Codes of a few bits as a layer keeps them, what they stand for, and products with them.

local packed = require 'ridge.tensor.packed'
local ACT = require('ridge.tensor.schema').ACT
local code_of = require('ridge.tensor.dtype').code

local M = {}

local bits_of = {}

--- Codes side by side.
---@param code Tensor f32 [n_out x n_in], whole numbers
---@param bits integer
---@return Tensor u8 [n_out x n_in bits / 8]
function M.keep(code, bits)
  bits_of.bits = bits
  return packed.pack_bits(code:to 'u8', bits_of)
end

--- What the codes of a layer stand for.
---@param self table layer: weight, scale, min, bits, group, n_out
---@return Tensor f32 [n_out x n_in and padding]
function M.values(self)
  local t, rows = self._tensors, self.n_out
  bits_of.bits = self.bits
  local codes = packed.unpack_bits(t.weight, bits_of):to('f32'):reshape(rows, -1, self.group)
  local scale = t.scale:to('f32'):reshape(rows, -1, 1)
  local w = t.min and codes * scale + t.min:to('f32'):reshape(rows, -1, 1)
    or (codes - 2 ^ (self.bits - 1)) * scale
  return w:reshape(rows, -1)
end

--- The layer's product, with codes opened as they are multiplied.
---@param self table layer
---@param x Tensor [... x n_in and padding]
---@param answer string type of the result
---@return Tensor
function M.product(self, x, answer)
  local t = self._tensors
  return packed.product(x, t.weight, t.scale, t.min, t.bias, nil, self.bits, self.group,
    ACT[self.activation], code_of(answer))
end

return M

-- SPDX-License-Identifier: MIT
--- Codes of a few bits as a layer keeps them, what they stand for, and products with them.

local M = {}

--- Codes as they are kept.
---@param code Tensor f32 [n_out x n_in], whole numbers
---@return Tensor u8
function M.keep(code) return code:to 'u8' end

--- What the codes of a layer stand for.
---@param self table layer: weight, scale, min, bits, group, n_out
---@return Tensor f32 [n_out x n_in and padding]
function M.values(self)
  local t, rows = self._tensors, self.n_out
  local code = t.weight:to('f32'):reshape(rows, -1, self.group)
  local scale = t.scale:to('f32'):reshape(rows, -1, 1)
  local w = t.min and code * scale + t.min:to('f32'):reshape(rows, -1, 1)
    or (code - 2 ^ (self.bits - 1)) * scale
  return w:reshape(rows, -1)
end

--- The layer's product.
---@param self table layer
---@param x Tensor [... x n_in and padding]
---@param dtype string of the result
---@return Tensor
function M.product(self, x, dtype)
  local y, bias = x:to('f32'):matmul(M.values(self):t()), self._tensors.bias
  if bias then y = y + bias end
  if self.activation ~= 'none' then y = y[self.activation](y) end
  return y:to(dtype)
end

return M

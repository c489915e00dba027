-- SPDX-License-Identifier: MIT
--- ONNX's conversions between element types.

local kit = require 'ridge.onnx.ops.kit'

local M = {}

-- The largest number of the 8-bit floats: what lies beyond becomes that where a cast saturates.
local LARGEST = { f8e4m3 = 448, f8e5m2 = 57344 }

--- Convert to a type (no operator: it has no capital).
---@param x Tensor
---@param to string
---@param saturate boolean
---@return Tensor
function M.to(x, to, saturate)
  if x.dtype == to then return x end
  local most = LARGEST[to]
  if most and kit.kind[x.dtype] == 'stored' then x = x:to 'f32' end
  if most and saturate then
    if not kit.is_float(x) then x = x:to 'f32' end
    x = x:minimum(most):maximum(-most)
  end
  return x:to(to)
end

-- Whole numbers that a smaller type has not keep their lowest bits.
local SPAN = { u8 = { 0, 2 ^ 8 }, i8 = { 2 ^ 7, 2 ^ 8 }, i32 = { 2 ^ 31, 2 ^ 32 } }

local function lowest(x, to)
  local span, from = SPAN[to], x.dtype
  if not span or kit.kind[from] ~= 'whole' or from == to then return x end
  return (x:to 'i64' + span[1]):remainder(span[2]) - span[1]
end

function M.Cast(n, x)
  local to = kit.type_of(n, n:int 'to')
  return M.to(lowest(x, to), to, n:int('saturate', 1) == 1)
end

M.CastLike = { of = 1, run = function(n, x, y)
  return M.to(lowest(x, y.dtype), y.dtype, n:int('saturate', 1) == 1)
end }

return M

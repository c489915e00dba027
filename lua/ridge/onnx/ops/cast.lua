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

function M.Cast(n, x)
  return M.to(x, kit.type_of(n, n:int 'to'), n:int('saturate', 1) == 1)
end

M.CastLike = { of = 1, run = function(n, x, y)
  return M.to(x, y.dtype, n:int('saturate', 1) == 1)
end }

return M

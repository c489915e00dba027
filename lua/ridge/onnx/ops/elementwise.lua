-- SPDX-License-Identifier: MIT
--- ONNX's unary elementwise functions, and arithmetic.

local kit = require 'ridge.onnx.ops.kit'

local M = {}

-- -- One element --------------------------------------------------------------------------------

for name, method in pairs {
  Abs = 'abs', Neg = 'neg', Sign = 'sign', Floor = 'floor', Ceil = 'ceil', Round = 'round',
  Sqrt = 'sqrt', Exp = 'exp', Log = 'log', Erf = 'erf', Reciprocal = 'reciprocal',
  Sin = 'sin', Cos = 'cos', Tan = 'tan', Asin = 'asin', Acos = 'acos', Atan = 'atan',
  Sinh = 'sinh', Cosh = 'cosh', Asinh = 'asinh', Acosh = 'acosh', Atanh = 'atanh',
  BitwiseNot = 'bitwise_not',
} do
  M[name] = function(_, x) return x[method](x) end
end

function M.Identity(_, x) return x end

-- -- Two ----------------------------------------------------------------------------------------

function M.Add(_, x, y) return x + y end
function M.Sub(_, x, y) return x - y end
function M.Mul(_, x, y) return x * y end

-- The quotient of whole numbers, without what is behind the point.
function M.Div(_, x, y)
  return kit.is_float(x) and x / y or x:trunc_divide(y)
end

function M.Pow(_, x, y)
  if kit.is_float(x) then
    if y.count == 1 and x.ndim >= y.ndim then y = y:reshape {} end
    return x:pow(y:to(x.dtype))
  end
  return x:to('f64'):pow(y:to 'f64'):to(x.dtype)
end

-- What is left of a division: with the sign of the divisor, or of the dividend.
function M.Mod(n, x, y)
  return n:int('fmod', 0) == 1 and x:fmod(y) or x:remainder(y)
end

local function all(name, method, finish)
  M[name] = function(_, ...)
    local x = ...
    for i = 2, select('#', ...) do
      local y = select(i, ...)
      x = x[method](x, y)
    end
    return finish and finish(x, select('#', ...)) or x
  end
end

all('Max', 'maximum')
all('Min', 'minimum')
all('Sum', 'add')
all('Mean', 'add', function(x, n) return x / n end)

-- -- Bits ---------------------------------------------------------------------------------------

for name, method in pairs { BitwiseAnd = 'bitwise_and', BitwiseOr = 'bitwise_or',
                            BitwiseXor = 'bitwise_xor' } do
  M[name] = function(_, x, y) return x[method](x, y) end
end

function M.BitShift(n, x, y)
  local direction = n:string 'direction'
  if direction == 'LEFT' then return x:bitwise_left_shift(y) end
  if direction ~= 'RIGHT' then n:fail("there is no direction '%s'", direction) end
  return x:bitwise_right_shift(y)
end

return M

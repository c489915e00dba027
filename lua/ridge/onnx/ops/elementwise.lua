-- SPDX-License-Identifier: MIT
--- ONNX's unary elementwise functions, and arithmetic.

local kit = require 'ridge.onnx.ops.kit'

local M = {}

-- -- One element --------------------------------------------------------------------------------

for name, method in pairs {
  Abs = 'abs', Neg = 'neg', Sign = 'sign', Floor = 'floor', Ceil = 'ceil', Round = 'round',
  Sqrt = 'sqrt', Exp = 'exp', Log = 'log', Sin = 'sin', Cos = 'cos', Erf = 'erf',
} do
  M[name] = function(_, x) return x[method](x) end
end

function M.Reciprocal(_, x) return x:reciprocal() end

function M.Identity(_, x) return x end

-- Where ridge has the function itself that is taken, else the formula.
local function own(name, method, formula)
  M[name] = function(_, x)
    if kit.has(method) then return x[method](x) end
    return formula(x)
  end
end

own('Tan', 'tan', function(x) return x:sin() / x:cos() end)
own('Sinh', 'sinh', function(x) return (x:exp() - x:neg():exp()) * 0.5 end)
own('Cosh', 'cosh', function(x) return (x:exp() + x:neg():exp()) * 0.5 end)
own('Asinh', 'asinh', function(x)
  local a = x:abs()
  return x:sign() * (a + a:square():add(1):sqrt()):log()
end)
own('Acosh', 'acosh', function(x) return (x + (x:square() - 1):sqrt()):log() end)
own('Atanh', 'atanh', function(x) return (x:log1p() - x:neg():log1p()) * 0.5 end)

-- The arc tangent by a table of nothing: two halvings of the argument, then its series.
local function atan(x)
  local a = x:abs()
  local inverse = a:gt(1)
  local t = a:minimum(a:reciprocal())
  for _ = 1, 3 do t = t / (t:square():add(1):sqrt() + 1) end
  local square, sum = t:square(), t * 0
  for k = 9, 0, -1 do sum = sum * square + (k % 2 == 0 and 1 or -1) / (2 * k + 1) end
  local y = t * sum * 8
  local f = inverse:to(x.dtype)
  return x:sign() * (f * (math.pi / 2) + y * (1 - f * 2))
end

own('Atan', 'atan', atan)
own('Asin', 'asin', function(x)
  return atan(x / (1 - x:square()):sqrt())
end)
own('Acos', 'acos', function(x)
  return atan(x / (1 - x:square()):sqrt()):neg() + math.pi / 2
end)

-- -- Two ----------------------------------------------------------------------------------------

function M.Add(_, x, y) return x + y end
function M.Sub(_, x, y) return x - y end
function M.Mul(_, x, y) return x * y end

-- The quotient of whole numbers, without what is behind the point.
function M.Div(_, x, y)
  if kit.is_float(x) then return x / y end
  return kit.trunc(x:to 'f64' / y:to 'f64'):to(x.dtype)
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
  local like_x = n:int('fmod', 0) == 1
  local a, b = x, y
  if not kit.is_float(x) then a, b = x:to 'f64', y:to 'f64' end
  local q = a / b
  q = like_x and kit.trunc(q) or q:floor()
  return (a - q * b):to(x.dtype)
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

function M.BitShift(n, x, y)
  local left = n:string 'direction' == 'LEFT'
  local by = (y:to 'f64' * math.log(2)):exp():round()
  local z = left and x:to 'f64' * by or (x:to 'f64' / by):floor()
  local most = kit.RANGE[x.dtype]
  if most and most[1] == 0 then -- what is pushed out is gone
    z = z - (z / (most[2] + 1)):floor() * (most[2] + 1)
  end
  return z:to(x.dtype)
end

return M

-- SPDX-License-Identifier: MIT
--- ONNX's activations.

local kit = require 'ridge.onnx.ops.kit'
local outside = require 'ridge.onnx.outside'

local M = {}

for name, method in pairs { Relu = 'relu', Tanh = 'tanh', Sigmoid = 'sigmoid', Mish = 'mish',
                            Softplus = 'softplus', Softsign = 'softsign',
                            HardSwish = 'hardswish' } do
  M[name] = function(_, x) return x[method](x) end
end

function M.LeakyRelu(n, x)
  return x:prelu(n:float('alpha', 0.01))
end

function M.PRelu(_, x, slope)
  return x:prelu(slope)
end

function M.Elu(n, x) return x:elu(n:float('alpha', 1)) end

function M.Selu(n, x)
  local alpha, gamma = 1.67326319217681884765625, 1.05070102214813232421875
  if not n:has 'alpha' and not n:has 'gamma' then return x:selu() end
  return x:elu(n:float('alpha', alpha)) * n:float('gamma', gamma)
end

function M.Celu(n, x) return x:celu(n:float('alpha', 1)) end

function M.ThresholdedRelu(n, x) return x:threshold(n:float('alpha', 1)) end

function M.HardSigmoid(n, x)
  return (x * n:float('alpha', 0.2) + n:float('beta', 0.5)):clamp(0, 1)
end

function M.Swish(n, x)
  local alpha = n:float('alpha', 1)
  return alpha == 1 and x:silu() or x * (x * alpha):sigmoid()
end

function M.Gelu(n, x)
  if n:string('approximate', 'none') == 'none' then return x:gelu() end
  local inner = (x + x * x:square() * 0.044715) * math.sqrt(2 / math.pi)
  return x * 0.5 * (inner:tanh() + 1)
end

function M.Shrink(n, x)
  local bias, lambd = n:float('bias', 0), n:float('lambd', 0.5)
  local above, below = x:gt(lambd):to(x.dtype), x:lt(-lambd):to(x.dtype)
  return ((x:to 'f64' - bias) * above:to 'f64' + (x:to 'f64' + bias) * below:to 'f64'):to(x.dtype)
end

-- The number that an input is, where it is known beforehand.
local function number(n, i, x)
  return x and x.count == 1 and n.known and n.known[n.inputs[i]] and outside.numbers(x)[1] or nil
end

function M.Clip(n, x, low, high)
  if n.opset < 11 then
    low = n:has 'min' and n:float 'min' or nil
    high = n:has 'max' and n:float 'max' or nil
    if low == 0 and high == 6 then return x:relu6() end
  elseif number(n, 2, low) == 0 and number(n, 3, high) == 6 then
    return x:relu6()
  end
  if low then x = x:maximum(low) end
  return high and x:minimum(high) or x
end

-- -- Along an axis ------------------------------------------------------------------------------

-- Before 13 what lies behind the axis is one axis.
local function flattened(n, x, f)
  if n.opset >= 13 then
    return f(x, kit.axis(n, n:int('axis', -1), x.ndim))
  end
  local axis = kit.axis(n, n:int('axis', 1), x.ndim)
  local flat = x:reshape(kit.product(x.shape, 1, axis - 1), kit.product(x.shape, axis))
  return f(flat, 2):reshape(x.shape)
end

function M.Softmax(n, x)
  return flattened(n, x, function(y, axis) return y:softmax(axis) end)
end

--- The logarithm of softmax.
---@param x Tensor
---@param axis number from 1
---@return Tensor
local function log_softmax(x, axis)
  if x.count == 0 then return x end
  local away = x - x:max(axis, true)
  return away - away:exp():sum(axis, true):log()
end

function M.LogSoftmax(n, x) return flattened(n, x, log_softmax) end

function M.Hardmax(n, x)
  return flattened(n, x, function(y, axis)
    local shape = {}
    for i = 1, y.ndim do shape[i] = i == axis and y.shape[i] or 1 end
    local place = kit.counting(y.shape[axis]):reshape(shape)
    return y:argmax(axis, true):eq(place):to(x.dtype)
  end)
end

return M

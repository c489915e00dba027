-- SPDX-License-Identifier: MIT
--- ONNX's operators on quantized numbers.

local ridge = require 'ridge'
local kit = require 'ridge.onnx.ops.kit'
local cast = require 'ridge.onnx.ops.cast'
local Conv = require 'ridge.onnx.ops.conv'.Conv

local M = {}

-- Scales or zero points as they stand beside x: one, one a channel, or one a block of an axis.
local function spread(n, v, x)
  if v.count == 1 then return v:reshape {} end
  local axis, block = kit.axis(n, n:int('axis', 1), x.ndim), n:int('block_size', 0)
  if block == 0 then return kit.along(v, axis, x.ndim) end
  local apart, whole, out = {}, {}, {}
  for i, size in ipairs(v.shape) do
    apart[#apart + 1], whole[#whole + 1] = size, size
    if i == axis then apart[#apart + 1], whole[#whole + 1] = 1, block end
    out[i] = x.shape[i]
  end
  local wide = v:reshape(apart):expand(whole)
  local shape = v.shape
  shape[axis] = shape[axis] * block
  wide = wide:reshape(shape)
  return shape[axis] > out[axis] and wide:narrow(axis, 1, out[axis]) or wide
end

local function bounded(x, name)
  local range = kit.RANGE[name]
  return x:maximum(range[1]):minimum(range[2]):to(name)
end

-- Rounded, moved by a zero point, and cut to what a type holds.
local function quantized(x, scale, zero, name)
  local y = (x / scale):round()
  if zero then y = y + zero:to(y.dtype) end
  return bounded(y, name)
end

-- One scale, and a zero point of bytes or none: what ridge has as one call.
local function is_single(scale, zero, name)
  return (name == 'u8' or name == 'i8') and scale.count == 1 and scale.dtype == 'f32'
    and (not zero or zero.count == 1 and zero.dtype == name)
end

local function single(v) return v and v:reshape(1) end

function M.QuantizeLinear(n, x, scale, zero)
  local code = n:int('output_dtype', 0)
  local name = zero and zero.dtype or code ~= 0 and kit.type_of(n, code) or 'u8'
  if is_single(scale, zero, name) and kit.is_float(x) and x.dtype ~= 'f64' then
    return ridge.quantize(x, single(scale), single(zero), { type = name })
  end
  x = x:to 'f32'
  local y = spread(n, scale, x):to 'f32'
  if kit.kind[name] == 'stored' then
    y = x / y
    if zero then y = y + spread(n, zero:to 'f32', x) end
    return cast.to(y, name, n:int('saturate', 1) == 1)
  end
  return quantized(x, y, zero and spread(n, zero, x), name)
end

function M.DequantizeLinear(n, x, scale, zero)
  local code = n:int('output_dtype', 0)
  local name = code ~= 0 and kit.type_of(n, code) or scale.dtype
  if is_single(scale, zero, x.dtype) and name == 'f32' then
    return ridge.dequantize(x, single(scale), single(zero))
  end
  local y = x:to 'f32'
  if zero then y = y - spread(n, zero:to 'f32', x) end
  return (y * spread(n, scale, x):to 'f32'):to(name)
end

function M.DynamicQuantizeLinear(_, x)
  local high, low = x:max():maximum(0), x:min():minimum(0)
  local scale = (high - low) / 255
  local zero = bounded((low / scale):neg():round(), 'u8')
  return quantized(x, scale, zero, 'u8'), scale, zero
end

-- -- Products -----------------------------------------------------------------------------------

-- Whole numbers less their zero point, in a type in which sums of products are exact.
local function apart(x, zero, shape)
  local y = x:to 'f64'
  if not zero then return y end
  zero = zero:to 'f64'
  return y - (zero.count == 1 and zero:reshape {} or zero:reshape(shape(zero)))
end

local function rows(zero) return zero.ndim == 1 and { zero.count, 1 } or zero.shape end
local function columns(zero) return zero.shape end

function M.MatMulInteger(_, a, b, a_zero, b_zero)
  return apart(a, a_zero, rows):matmul(apart(b, b_zero, columns)):to 'i32'
end

function M.QLinearMatMul(_, a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero)
  local y = apart(a, a_zero, rows):matmul(apart(b, b_zero, columns))
  local function scale(s, shape)
    s = s:to 'f64'
    return s.count == 1 and s:reshape {} or s:reshape(shape(s))
  end
  local factor = scale(a_scale, rows) * scale(b_scale, columns)
  return quantized(y * factor, scale(y_scale, columns), y_zero.count == 1 and y_zero:reshape {}
    or y_zero, y_zero.dtype)
end

local function channels(rank)
  return function(zero)
    local shape = { zero.count }
    for i = 2, rank do shape[i] = 1 end
    return shape
  end
end

function M.ConvInteger(n, x, w, x_zero, w_zero)
  return Conv(n, apart(x, x_zero, columns), apart(w, w_zero, channels(w.ndim))):round():to 'i32'
end

function M.QLinearConv(n, x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias)
  local y = Conv(n, apart(x, x_zero, columns), apart(w, w_zero, channels(w.ndim)),
    bias and bias:to 'f64'):round()
  local factor = x_scale:to 'f64':reshape {} * kit.along(w_scale:to 'f64', 2, y.ndim)
  return quantized(y * factor, y_scale:to 'f64':reshape {}, y_zero:reshape {}, y_zero.dtype)
end

return M

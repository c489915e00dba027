-- SPDX-License-Identifier: MIT
--- ONNX's normalisations.

local kit = require 'ridge.onnx.ops.kit'
local record = require 'ridge.onnx.ops.record'
local window = require 'ridge.onnx.ops.window'

local M = {}

local function f32(x) return (x.dtype == 'f16' or x.dtype == 'bf16') and x:to 'f32' or x end

-- Mean 0 and variance 1 over axes; what is subtracted, what it is multiplied by.
local function normal(x, axes, eps)
  local mean = x:mean(axes, true)
  local away = x - mean
  local scale = (away:square():mean(axes, true) + eps):sqrt():reciprocal()
  return away * scale, mean, scale
end

local function axes_from(first, last)
  local axes = {}
  for axis = first, last do axes[#axes + 1] = axis end
  return axes
end

function M.BatchNormalization(n, x, weight, bias, mean, var)
  local eps, rank = n:float('epsilon', 1e-5), x.ndim
  local z = f32(x)
  if n:int('training_mode', 0) == 0 and not (n.opset < 14 and n:wants(2)) then
    if rank >= 2 and record.alike(x, weight, bias, mean, var) then
      return record.batch_norm(x, weight, bias, mean, var, eps)
    end
    local a = f32(weight) * (f32(var) + eps):rsqrt()
    local b = f32(bias) - f32(mean) * a
    return (z * kit.along(a, 2, rank) + kit.along(b, 2, rank)):to(x.dtype)
  end
  local axes, keep = { 1 }, n:float('momentum', 0.9)
  for axis = 3, rank do axes[#axes + 1] = axis end
  local y, now, _ = normal(z, axes, eps)
  local spread = (z - now):square():mean(axes)
  y = y * kit.along(f32(weight), 2, rank) + kit.along(f32(bias), 2, rank)
  return y:to(x.dtype), (mean * keep + now:reshape(-1) * (1 - keep)):to(mean.dtype),
    (var * keep + spread * (1 - keep)):to(var.dtype)
end

function M.InstanceNormalization(n, x, weight, bias)
  local y = normal(x, axes_from(3, x.ndim), n:float('epsilon', 1e-5))
  return y * kit.along(weight, 2, x.ndim) + kit.along(bias, 2, x.ndim)
end

-- Is it over the last axis, with a number for each of its elements?
local function is_row(x, axis, weight, bias)
  return axis == x.ndim and weight.ndim == 1 and weight.count == x.shape[axis]
    and (not bias or bias.ndim == 1 and bias.count == x.shape[axis])
    and record.alike(x, weight, bias)
end

function M.LayerNormalization(n, x, weight, bias)
  local axis = kit.axis(n, n:int('axis', -1), x.ndim)
  if is_row(x, axis, weight, bias) and not n:wants(2) and not n:wants(3) then
    return record.layer_norm(x, weight, bias, n:float('epsilon', 1e-5), false)
  end
  local y, mean, scale = normal(f32(x), axes_from(axis, x.ndim), n:float('epsilon', 1e-5))
  y = y:to(x.dtype) * weight
  if bias then y = y + bias end
  return y, mean, scale
end

function M.RMSNormalization(n, x, weight)
  local axis = kit.axis(n, n:int('axis', -1), x.ndim)
  if is_row(x, axis, weight) then
    return record.layer_norm(x, weight, nil, n:float('epsilon', 1e-5), true)
  end
  local z = f32(x)
  local scale = (z:square():mean(axes_from(axis, x.ndim), true) + n:float('epsilon', 1e-5))
    :sqrt():reciprocal()
  return (z * scale):to(x.dtype) * weight
end

function M.GroupNormalization(n, x, weight, bias)
  local groups, eps = n:int 'num_groups', n:float('epsilon', 1e-5)
  if n.opset >= 21 and x.ndim >= 3 and record.alike(x, weight, bias) then
    return record.group_norm(x, weight, bias, groups, eps)
  end
  local z = f32(x)
  local y = normal(z:reshape(x.shape[1], groups, -1), { 3 }, eps)
  if n.opset < 21 then -- a number for each group
    y = y * kit.along(f32(weight), 2, 3) + kit.along(f32(bias), 2, 3)
    return y:reshape(x.shape):to(x.dtype)
  end
  y = y:reshape(x.shape)
  return (y * kit.along(f32(weight), 2, x.ndim) + kit.along(f32(bias), 2, x.ndim)):to(x.dtype)
end

function M.LpNormalization(n, x)
  local axis, p = kit.axis(n, n:int('axis', -1), x.ndim), n:int('p', 2)
  local size = p == 1 and x:abs():sum(axis, true) or x:square():sum(axis, true):sqrt()
  return x / size
end

function M.MeanVarianceNormalization(n, x)
  local axes = kit.axes(n, n:ints 'axes' or { 0, 2, 3 }, x.ndim)
  local away = x - x:mean(axes, true)
  return away / (away:square():mean(axes, true):sqrt() + 1e-9)
end

-- In training the mask is drawn; what is left stands for all.
M.Dropout = { reads = { 2, 3 }, draws = true, run = function(n, x, ratio, training)
  local p = n.opset < 12 and n:float('ratio', 0.5) or ratio and ratio[1] or 0.5
  local on = n.opset < 12 and n.training or training and training[1] ~= 0
    or not training and n.training
  if not on or p == 0 then
    return x, n:wants(2) and kit.full(1, x.shape, x):to 'bool' or nil
  end
  local mask = kit.full(1, x.shape, x):dropout(p)
  return x * mask, mask:ne(0)
end }

-- Each element by those of the channels beside it.
function M.LRN(n, x)
  local size, channels = n:int 'size', x.shape[2]
  if size < 1 or x.ndim < 3 then n:fail('size is %d, of %s', size, x:describe()) end
  local before = math.floor((size - 1) / 2)
  local after, far = size - 1 - before, math.max(channels - 1, 0) -- beyond that there are none
  before, after = math.min(before, far), math.min(after, far)
  local squares, sum = window.padded(x:square(), 2, before, after), nil
  for k = 1, before + 1 + after do
    local part = squares:narrow(2, k, channels)
    sum = sum and sum + part or part
  end
  return x / (sum * (n:float('alpha', 1e-4) / size) + n:float('bias', 1)):pow(n:float('beta', 0.75))
end

return M

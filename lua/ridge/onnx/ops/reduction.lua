-- SPDX-License-Identifier: MIT
--- ONNX's reductions, sums along an axis, and the places of extremes.

local ridge = require 'ridge'
local kit = require 'ridge.onnx.ops.kit'

local M = {}

local function squared(x) return x * x end

-- By name: the last version in which axes are an attribute, and the function of x, axes and keep.
local REDUCE = {
  ReduceSum = { 12, function(x, axes, keep) return x:sum(axes, keep) end },
  ReduceMean = { 17, function(x, axes, keep) return x:mean(axes, keep) end },
  ReduceProd = { 17, function(x, axes, keep) return x:prod(axes, keep) end },
  ReduceL1 = { 17, function(x, axes, keep) return x:abs():sum(axes, keep) end },
  ReduceL2 = { 17, function(x, axes, keep)
    if kit.is_float(x) then return squared(x):sum(axes, keep):sqrt() end
    return squared(x:to 'f64'):sum(axes, keep):sqrt()
  end },
  ReduceSumSquare = { 17, function(x, axes, keep) return squared(x):sum(axes, keep) end },
  ReduceLogSum = { 17, function(x, axes, keep) return x:sum(axes, keep):log() end },
  ReduceLogSumExp = { 17, function(x, axes, keep)
    if x.count == 0 then return x:exp():sum(axes, keep):log() end
    local most = x:max(axes, true)
    most = most:maximum(-1e38):minimum(1e38) -- infinity less itself is no number
    local y = (x - most):exp():sum(axes, keep):log()
    return y + most:reshape(y.shape)
  end },
}

-- The largest of nothing.
local function extreme(method, sign)
  return function(x, axes, keep)
    if x.count > 0 then return x[method](x, axes, keep) end
    local range = kit.RANGE[x.dtype]
    local value = range and range[sign > 0 and 1 or 2] or -sign * math.huge
    local shape, out = x.shape, {}
    local gone = {}
    for _, axis in ipairs(axes) do gone[axis] = true end
    for i = 1, #shape do
      if not gone[i] then
        out[#out + 1] = shape[i]
      elseif keep then
        out[#out + 1] = 1
      end
    end
    return kit.full(value, out, x)
  end
end

REDUCE.ReduceMax = { 17, extreme('max', 1) }
REDUCE.ReduceMin = { 17, extreme('min', -1) }

for name, rule in pairs(REDUCE) do
  M[name] = { reads = { 2 }, run = function(n, x, axes)
    axes = n.opset <= rule[1] and n:ints 'axes' or axes
    if not axes or #axes == 0 then
      if n:int('noop_with_empty_axes', 0) == 1 and n.opset > rule[1] then
        -- of a single element, without leaving an axis out
        if name == 'ReduceL1' or name == 'ReduceL2' then return x:abs() end
        if name == 'ReduceSumSquare' then return squared(x) end
        if name == 'ReduceLogSum' then return x:log() end
        return x
      end
      axes = {}
      for i = 1, x.ndim do axes[i] = i - 1 end
    end
    if x.ndim == 0 then return rule[2](x:reshape(1), { 1 }, false):to(x.dtype) end
    return rule[2](x, kit.axes(n, axes, x.ndim), n:int('keepdims', 1) == 1):to(x.dtype)
  end }
end

-- -- Places -------------------------------------------------------------------------------------

for name, method in pairs { ArgMax = 'argmax', ArgMin = 'argmin' } do
  M[name] = function(n, x)
    local axis, keep = kit.axis(n, n:int('axis', 0), x.ndim), n:int('keepdims', 1) == 1
    if n:int('select_last_index', 0) == 0 then return x[method](x, axis, keep) end
    local size = x.shape[axis]
    local back = kit.range(x, axis, size - 1, size, -1)
    return back[method](back, axis, keep) * -1 + (size - 1)
  end
end

-- -- Along an axis ------------------------------------------------------------------------------

M.CumSum = { reads = { 2 }, run = function(n, x, axes)
  local axis = kit.axis(n, axes[1], x.ndim)
  local reverse = n:int('reverse', 0) == 1
  local y = x:cumsum(axis, reverse):to(x.dtype)
  if n:int('exclusive', 0) == 0 then return y end
  local size = x.shape[axis] -- what is before each: one further on
  if size == 0 then return y end
  local nothing = kit.full(0, x:narrow(axis, 1, 1).shape, x)
  if reverse then return ridge.concat({ y:narrow(axis, 2, size - 1), nothing }, axis) end
  return ridge.concat({ nothing, y:narrow(axis, 1, size - 1) }, axis)
end }

return M

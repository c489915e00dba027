-- SPDX-License-Identifier: MIT
--- ONNX's Resize and Upsample: along each axis a choice of elements or a product with a matrix of
--- weights, which is made when the sizes are known.

local ridge = require 'ridge'
local kit = require 'ridge.onnx.ops.kit'
local outside = require 'ridge.onnx.outside'

local M = {}

-- -- Where a position of the result lies --------------------------------------------------------

-- Each of the position, the sizes, the scale, and what is resized of the axis.
local COORDINATES = {
  asymmetric = function(i, a) return i / a.scale end,
  half_pixel = function(i, a) return (i + 0.5) / a.scale - 0.5 end,
  align_corners = function(i, a)
    return a.width == 1 and 0 or i * (a.size - 1) / (a.width - 1)
  end,
  pytorch_half_pixel = function(i, a)
    return a.width == 1 and -0.5 or (i + 0.5) / a.scale - 0.5
  end,
  half_pixel_symmetric = function(i, a)
    return a.size / 2 * (1 - a.out / a.width) + (i + 0.5) / a.scale - 0.5
  end,
  tf_crop_and_resize = function(i, a)
    local part = (a.last - a.first) * (a.size - 1)
    return a.first * (a.size - 1) + (a.width == 1 and part / 2 or i * part / (a.width - 1))
  end,
}

-- -- Weights of neighbours ----------------------------------------------------------------------

local NEAREST = {
  round_prefer_floor = function(x) return math.ceil(x - 0.5) end,
  round_prefer_ceil = function(x) return math.floor(x + 0.5) end,
  floor = math.floor,
  ceil = math.ceil,
}

local function cubic(x, a)
  x = math.abs(x)
  if x <= 1 then return ((a + 2) * x - (a + 3)) * x * x + 1 end
  return x < 2 and ((a * x - 5 * a) * x + 8 * a) * x - 4 * a or 0
end

-- Weights of the neighbours around a place whose fraction is `ratio`, in (0, 1]; half of them, less
-- or more, stand on each side. Averaging over what becomes one element makes more of them.
local function weights_of(o, ratio, scale)
  local reach = o.mode == 'cubic' and 2 or 1
  scale = o.antialias and math.min(scale, 1) or 1
  local first, list, sum = math.floor(-reach / scale) + 1, {}, 0
  for i = first, 1 - first do
    local x = scale * (i - ratio)
    local w = o.mode == 'cubic' and cubic(x, o.a) or math.max(0, 1 - math.abs(x))
    list[#list + 1] = w
    sum = sum + w
  end
  if o.antialias then
    for i = 1, #list do list[i] = list[i] / sum end
  end
  return list, first
end

-- The neighbours of a place, as numbers in the axis, and their weights; one beyond the border is
-- the last one before it.
local function neighbours(o, a, x)
  local base = math.ceil(x) - 1
  local list, first = weights_of(o, x - base, a.scale)
  local places, sum = {}, 0
  for k = 1, #list do
    local at = base + first + k - 1
    if o.exclude and (at < 0 or at >= a.size) then list[k] = 0 end
    places[k], sum = math.min(math.max(at, 0), a.size - 1), sum + list[k]
  end
  for k = 1, o.exclude and #list or 0 do list[k] = list[k] / sum end
  return places, list
end

-- -- One axis -----------------------------------------------------------------------------------

local function constant(list, name)
  return outside.call(ridge.tensor, list, { dtype = name })
end

local FEW = 4 -- neighbours of which each is gathered; more are a product with a matrix

-- Weighted sums of neighbours: rows are { places, weights }.
local function blended(x, axis, a, rows)
  local taps = #rows[1][1]
  if taps > FEW then
    local matrix = {}
    for i, row in ipairs(rows) do
      matrix[i] = {}
      for k = 1, a.size do matrix[i][k] = 0 end
      for k, at in ipairs(row[1]) do matrix[i][at + 1] = matrix[i][at + 1] + row[2][k] end
    end
    matrix = constant(matrix, x.dtype)
    return x:transpose(axis, x.ndim):matmul(matrix:t()):transpose(axis, x.ndim)
  end
  local y
  for k = 1, taps do
    local places, weights = {}, {}
    for i, row in ipairs(rows) do places[i], weights[i] = row[1][k], row[2][k] end
    local part = kit.rows(x, axis, constant(places, 'i64'))
      * kit.along(constant(weights, x.dtype), axis, x.ndim)
    y = y and y + part or part
  end
  return y
end

local function resized(x, axis, a, o)
  local rows, places, beyond, any = {}, {}, {}, false
  local where = COORDINATES[o.coordinates]
  for i = 0, a.out - 1 do
    local at = where(i, a)
    local out = o.coordinates == 'tf_crop_and_resize' and (at < 0 or at > a.size - 1)
    beyond[i + 1], any = out and 1 or 0, any or out
    if o.mode == 'nearest' then
      places[i + 1] = out and 0
        or math.min(math.max(NEAREST[o.nearest](at), 0), a.size - 1)
    else
      rows[i + 1] = { neighbours(o, a, out and 0 or at) }
    end
  end
  local y
  if a.out == 0 then
    y = x:narrow(axis, 1, 0)
  elseif o.mode == 'nearest' then
    y = kit.rows(x, axis, constant(places, 'i64'))
  else
    y = blended(x, axis, a, rows)
  end
  if not any then return y end
  local out = kit.along(constant(beyond, y.dtype), axis, y.ndim)
  return y * (1 - out) + out * o.extrapolation
end

local MOST = 2 ^ 24 -- positions of an axis

-- Sizes and scales of the axes that are named, by axis.
local function axes_of(n, x, scales, sizes, roi)
  local axes, list = n:ints 'axes', {}
  local count = scales and #scales or #sizes
  for i = 1, count do
    local axis = axes and kit.axis(n, axes[i], x.ndim) or i
    local size = x.shape[axis]
    local a = { axis = axis, size = size, first = roi and roi[i] or 0,
      last = roi and roi[i + count] or 1 }
    a.scale = scales and scales[i] or sizes[i] / size
    a.out = scales and math.floor(size * a.scale) or sizes[i]
    list[i] = a
  end
  local policy = n:string('keep_aspect_ratio_policy', 'stretch')
  if sizes and policy ~= 'stretch' then
    local scale = list[1].scale
    for _, a in ipairs(list) do
      scale = (policy == 'not_larger' and math.min or math.max)(scale, a.scale)
    end
    for _, a in ipairs(list) do a.scale, a.out = scale, math.floor(scale * a.size + 0.5) end
  end
  for _, a in ipairs(list) do
    a.width = a.scale * a.size
    if not (a.out >= 0 and a.out <= MOST) or a.size == 0 and a.out > 0 then
      n:fail('an axis of %d cannot become one of %.0f', a.size, a.out)
    end
  end
  return list
end

local function resize(x, o, list)
  local y = o.mode ~= 'nearest' and x.dtype ~= 'f64' and x:to 'f32' or x
  for _, a in ipairs(list) do
    local same = a.out == a.size and a.scale == 1 and o.coordinates ~= 'tf_crop_and_resize'
    if not same then y = resized(y, a.axis, a, o) end
  end
  return kit.is_float(x) and y:to(x.dtype) or y.dtype ~= x.dtype and y:round():to(x.dtype) or y
end

local function checked(n, o)
  if not COORDINATES[o.coordinates] then
    n:fail("coordinate_transformation_mode '%s' is none", o.coordinates)
  end
  if not NEAREST[o.nearest] then n:fail("nearest_mode '%s' is none", o.nearest) end
  return o
end

M.Resize = { reads = { 2, 3, 4 }, run = function(n, x, roi, scales, sizes)
  if n.opset < 11 then
    return resize(x, { mode = n:string('mode', 'nearest'), coordinates = 'asymmetric',
      nearest = 'floor', extrapolation = 0, a = -0.75 }, axes_of(n, x, roi))
  end
  if scales and #scales == 0 then scales = nil end
  if not scales and not sizes then n:fail 'neither scales nor sizes are there' end
  if roi and #roi == 0 then roi = nil end
  return resize(x, checked(n, { mode = n:string('mode', 'nearest'),
    coordinates = n:string('coordinate_transformation_mode', 'half_pixel'),
    nearest = n:string('nearest_mode', 'round_prefer_floor'),
    a = n:float('cubic_coeff_a', -0.75), exclude = n:int('exclude_outside', 0) == 1,
    antialias = n:int('antialias', 0) == 1, extrapolation = n:float('extrapolation_value', 0) }),
    axes_of(n, x, scales, not scales and sizes or nil, roi))
end }

M.Upsample = { reads = { 2 }, run = function(n, x, scales)
  return resize(x, { mode = n:string('mode', 'nearest'), coordinates = 'asymmetric',
    nearest = 'floor', extrapolation = 0 }, axes_of(n, x, scales or n:floats 'scales'))
end }

return M

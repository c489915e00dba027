-- SPDX-License-Identifier: MIT
--- ONNX's Resize and Upsample: ridge's resize, an axis after the other. Numbers that are not
--- interpolated are gathered, so that large whole ones stay what they are.

local ridge = require 'ridge'
local kit = require 'ridge.onnx.ops.kit'
local outside = require 'ridge.onnx.outside'

local M = {}

local COORDINATES, NEAREST, MODES = {}, {}, {}
for _, name in ipairs { 'half_pixel', 'pytorch_half_pixel', 'align_corners', 'asymmetric',
  'half_pixel_symmetric', 'tf_crop_and_resize' } do
  COORDINATES[name] = true
end
for _, name in ipairs { 'round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil' } do
  NEAREST[name] = true
end
for _, name in ipairs { 'nearest', 'linear', 'cubic' } do MODES[name] = true end

local COMPUTED = { f32 = true, f64 = true, f16 = true, bf16 = true } -- what is interpolated

local MOST = 2 ^ 30 -- positions of an axis

local function by_policy(n, policy, list)
  local pick = policy == 'not_larger' and math.min or policy == 'not_smaller' and math.max
  if not pick then n:fail("keep_aspect_ratio_policy '%s' is none", policy) end
  local scale = list[1] and list[1].scale
  for _, a in ipairs(list) do scale = pick(scale, a.scale) end
  for _, a in ipairs(list) do
    a.scale, a.ratio, a.out = scale, false, math.floor(scale * a.size + 0.5)
  end
end

-- Sizes and scales of the axes that are named, by axis. A scale that is the ratio of the sizes is
-- worked out from them.
local function axes_of(n, x, scales, sizes, roi)
  local named, list, met = n:ints 'axes', {}, {}
  local count = named and #named or x.ndim
  kit.listed(n, scales and 'scales' or 'sizes', scales or sizes, count)
  if roi then kit.listed(n, 'roi', roi, 2 * count) end
  for i = 1, count do
    local axis = named and kit.axis(n, named[i], x.ndim) or i
    if met[axis] then n:fail('axis %d is named twice', named[i]) end
    met[axis] = true
    local size = x.shape[axis]
    local a = { axis = axis, size = size, first = roi and roi[i], last = roi and roi[i + count] }
    a.ratio = not scales
    a.scale = scales and scales[i] or sizes[i] / size
    a.out = scales and math.floor(size * a.scale) or sizes[i]
    list[i] = a
  end
  local policy = n:string('keep_aspect_ratio_policy', 'stretch')
  if sizes and policy ~= 'stretch' then by_policy(n, policy, list) end
  for _, a in ipairs(list) do
    if not (a.out >= 0 and a.out <= MOST) or a.size == 0 and a.out > 0 then
      n:fail('an axis of %d cannot become one of %.0f', a.size, a.out)
    end
  end
  return list
end

-- What Tensor:resize takes. A crop's place is not that of the axis, whatever its size.
local function options_of(o, list)
  local sizes, opts = {}, { mode = o.mode, coordinates = o.coordinates, rounding = o.nearest,
    antialias = o.antialias, exclude_outside = o.exclude, cubic = o.a, value = o.extrapolation,
    axes = {}, scales = {}, crop = {} }
  for i, a in ipairs(list) do
    sizes[i], opts.axes[i], opts.scales[i] = a.out, a.axis, a.ratio and 0 or a.scale
    opts.crop[i] = { a.first or 0, a.last or 1 }
  end
  return sizes, opts
end

-- Which elements of an axis are the nearest ones, and where there is none (a crop).
local function places(size, out, opts)
  local at = kit.counting(size):to 'f64':resize({ out }, opts)
  return at:maximum(0):to 'i64', at:lt(0)
end

local function gathered(x, o, list)
  for _, a in ipairs(list) do
    local _, opts = options_of(o, { a })
    opts.axes, opts.value = { 1 }, -1
    local at, beyond = outside.call(places, a.size, a.out, opts)
    x = a.out == 0 and x:narrow(a.axis, 1, 0) or kit.rows(x, a.axis, at)
    if o.coordinates == 'tf_crop_and_resize' and a.out > 0 then
      local value = kit.full(o.extrapolation, {}, x)
      x = ridge.where(kit.along(beyond, a.axis, x.ndim), value, x)
    end
  end
  return x
end

local function resize(x, o, list)
  if #list == 0 then return x end
  if o.mode == 'nearest' and not COMPUTED[x.dtype] then return gathered(x, o, list) end
  local y = o.mode ~= 'nearest' and x.dtype ~= 'f64' and x:to 'f32' or x
  y = y:resize(options_of(o, list))
  return kit.is_float(x) and y:to(x.dtype) or y.dtype ~= x.dtype and y:round():to(x.dtype) or y
end

local function checked(n, o)
  if not MODES[o.mode] then n:fail("mode '%s' is none", o.mode) end
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
  local o = checked(n, { mode = n:string('mode', 'nearest'),
    coordinates = n:string('coordinate_transformation_mode', 'half_pixel'),
    nearest = n:string('nearest_mode', 'round_prefer_floor'),
    a = n:float('cubic_coeff_a', -0.75), exclude = n:int('exclude_outside', 0) == 1,
    antialias = n:int('antialias', 0) == 1, extrapolation = n:float('extrapolation_value', 0) })
  roi = o.coordinates == 'tf_crop_and_resize' and roi and #roi > 0 and roi or nil
  return resize(x, o, axes_of(n, x, scales, not scales and sizes or nil, roi))
end }

M.Upsample = { reads = { 2 }, run = function(n, x, scales)
  return resize(x, { mode = n:string('mode', 'nearest'), coordinates = 'asymmetric',
    nearest = 'floor', extrapolation = 0 }, axes_of(n, x, scales or n:floats 'scales'))
end }

return M

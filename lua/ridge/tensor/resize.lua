-- SPDX-License-Identifier: MIT
--- Another size of axes by interpolation, as a method.

local blame = require 'ridge.blame'
local indexing = require 'ridge.tensor.indexing'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local run = require 'ridge.tensor.run'

local M = { methods = {}, docs = {} }

local methods, docs = M.methods, M.docs
local surplus = require('ridge.tensor.elementwise').surplus
local resample = run.of 'resample'

local MODES = { nearest = 0, linear = 1, cubic = 2 }
local COORDINATES = { half_pixel = 0, pytorch_half_pixel = 1, align_corners = 2, asymmetric = 3,
  half_pixel_symmetric = 4, tf_crop_and_resize = 5 }
local ROUNDING = { round_prefer_floor = 0, round_prefer_ceil = 1, floor = 2, ceil = 3 }

local SPEC = {
  mode = { 'string', default = 'nearest', choices = { 'nearest', 'linear', 'cubic' },
    doc = 'what lies between elements' },
  coordinates = { 'string', default = 'half_pixel', choices = { 'half_pixel',
    'pytorch_half_pixel', 'align_corners', 'asymmetric', 'half_pixel_symmetric',
    'tf_crop_and_resize' }, doc = 'where elements of the result lie, in the words of ONNX' },
  rounding = { 'string', default = 'round_prefer_floor', choices = { 'round_prefer_floor',
    'round_prefer_ceil', 'floor', 'ceil' }, doc = 'which one is the nearest' },
  axes = { 'table', doc = 'which axes; as many of the last as there are sizes when left out' },
  scales = { 'table', doc = 'new size over old, exactly, where sizes were rounded' },
  antialias = { 'boolean', default = false,
    doc = 'a wider kernel where an axis becomes shorter' },
  exclude_outside = { 'boolean', default = false,
    doc = 'what is outside has no weight; else the edge goes on' },
  cubic = { 'number', default = -0.75, doc = 'coefficient of the cubic kernel' },
  crop = { 'table', doc = '{first, last} of each axis, as shares of it, for tf_crop_and_resize' },
  value = { 'number', default = 0, doc = 'what a crop has outside' },
}

-- Types that are not computed with go through one that holds them.
local WIDE = { bool = 'f32', i8 = 'f32', u8 = 'f32', i32 = 'f64', i64 = 'f64' }

local function check(x, sizes, opts)
  options.list(sizes, 'resize')
  local axes = opts.axes or {}
  for i = 1, opts.axes and 0 or #sizes do axes[i] = i - #sizes - 1 end
  if #sizes < 1 or #sizes > x.ndim or #axes ~= #sizes then
    blame.raise(('resize: %d sizes for %d axes of %s'):format(#sizes, #axes, x:describe()), 'EARG',
      'resize')
  end
  for i, size in ipairs(sizes) do
    if type(size) ~= 'number' or size ~= math.floor(size) or size < 0 or size > 2 ^ 30 then
      blame.raise(('resize: a size is a whole number from 0, got %s'):format(blame.show(size)),
        'EARG', 'resize')
    end
    local scale = opts.scales and opts.scales[i]
    if opts.scales and type(scale) ~= 'number' then
      blame.raise('resize: scales are a list of numbers, one for each size', 'EARG', 'resize')
    end
    local crop = opts.crop and opts.crop[i]
    if opts.crop and (type(crop) ~= 'table' or type(crop[1]) ~= 'number'
      or type(crop[2]) ~= 'number') then
      blame.raise('resize: crop is a list of {first, last}, one for each size', 'EARG', 'resize')
    end
  end
  return axes
end

docs.resize = "resize({h, w}, {mode = 'nearest', coordinates = 'half_pixel'}): other sizes of the "
  .. 'last axes, by interpolation'
--- Other sizes of axes by interpolation, as ONNX's Resize has them.  PyTorch's interpolate is
--- 'half_pixel' with linear and cubic modes, 'align_corners' where that is asked for, and for
--- nearest 'asymmetric' with rounding 'floor'.
---@param x Tensor
---@param sizes table of the last axes
---@param opts table|nil {mode = 'nearest', 'linear' or 'cubic', coordinates = 'half_pixel',
---  rounding = 'round_prefer_floor', axes =, scales =, antialias = false, exclude_outside = false,
---  cubic = -0.75, crop =, value = 0}
---@return Tensor
-- >> ridge.arange(1, 4):reshape(1, 1, 2, 2):resize({ 4, 4 }, { mode = 'linear' })
function methods.resize(x, sizes, opts, extra)
  if extra ~= nil then surplus('resize', 'sizes, opts', extra) end
  ref.need(x, 'resize')
  opts = options.check(SPEC, opts, 'resize')
  if type(sizes) ~= 'table' then
    blame.raise('resize: sizes are a list, got ' .. blame.show(sizes), 'EARG', 'resize')
  end
  local axes, dtype = check(x, sizes, opts), x.dtype
  local steps = {}
  for i, axis in ipairs(axes) do
    axis = indexing.axis(x, axis, 'resize')
    local crops = opts.coordinates == 'tf_crop_and_resize'
    local scale = opts.scales and opts.scales[i] or 0
    -- what keeps its size keeps its elements, unless it is cropped or moved
    if sizes[i] ~= x:size(axis) or crops or scale ~= 0 and scale ~= 1 then
      local crop = opts.crop and opts.crop[i] or { 0, 1 }
      steps[#steps + 1] = { axis = axis - 1, size = sizes[i], mode = MODES[opts.mode],
        coordinates = COORDINATES[opts.coordinates], rounding = ROUNDING[opts.rounding],
        antialias = opts.antialias and 1 or 0, exclude = opts.exclude_outside and 1 or 0,
        scale = scale, cubic = opts.cubic, first = crop[1], last = crop[2], value = opts.value,
        growth = sizes[i] / math.max(1, x:size(axis)) }
    end
  end
  -- what becomes smaller comes first, so that there is less left to do
  table.sort(steps, function(a, b)
    if a.growth ~= b.growth then return a.growth < b.growth end
    return a.axis > b.axis
  end)
  local y = WIDE[dtype] and x:to(WIDE[dtype]) or x
  for _, step in ipairs(steps) do y = resample({ y }, step) end
  return y.dtype ~= dtype and y:to(dtype) or y
end

return M

-- SPDX-License-Identifier: MIT
--- ONNX's operators that read an image at places between its elements.

local ridge = require 'ridge'
local kit = require 'ridge.onnx.ops.kit'
local window = require 'ridge.onnx.ops.window'

local M = {}

-- -- Places -------------------------------------------------------------------------------------

local function clamped(x, size) return x:maximum(0):minimum(size - 1) end

-- Mirrored at both borders until it lies between them.
local function reflected(x, low, high)
  local range = high - low
  if range == 0 then return x * 0 + low end
  local away = (x - low):abs()
  local times = (away / range):floor()
  local rest = away - times * range
  local odd = times - (times * 0.5):floor() * 2
  return rest * (1 - odd * 2) + odd * range + low
end

-- By padding: the place of an element in an axis, and 1 where it is one, as weights.
local function element(at, axis)
  if axis.padding == 'zeros' then
    return clamped(at, axis.size), at:ge(0):to(at.dtype) * at:le(axis.size - 1):to(at.dtype)
  end
  if axis.padding == 'reflection' then at = reflected(at, axis.low, axis.high):trunc() end
  return clamped(at, axis.size)
end

-- -- Neighbours ---------------------------------------------------------------------------------

local CUBIC = -0.75

local function cubic_weights(t)
  local a = CUBIC
  local function near(x) return ((x * (a + 2) - (a + 3)) * x) * x + 1 end
  local function far(x) return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a end
  return { far(t + 1), near(t), near(1 - t), far(2 - t) }
end

-- The neighbours of places along one axis: lists of places and of weights.
local function neighbours(x, axis, mode)
  if mode == 'nearest' then
    local at, on = element(x:round(), axis)
    return { at }, { on or false }
  end
  local base = x:floor()
  local t = x - base
  local weights = mode == 'cubic' and cubic_weights(t) or { 1 - t, t }
  local first, places = mode == 'cubic' and -1 or 0, {}
  for k = 1, #weights do
    local at, on = element(base + (first + k - 1), axis)
    places[k], weights[k] = at, on and weights[k] * on or weights[k]
  end
  return places, weights
end

--- The elements of images at places between them.
---@param x Tensor [n x c x sizes...]
---@param places table for each axis of the image a tensor [n x l], in elements from 0
---@param mode string 'nearest', 'linear' or 'cubic'
---@param axes table for each { size, padding, low, high }
---@return Tensor [n x c x l]
local function sampled(x, places, mode, axes)
  local batch, channels = x.shape[1], x.shape[2]
  local whole = kit.product(x.shape, 3)
  local rows = x:reshape(batch, channels, whole):transpose(2, 3):reshape(batch * whole, channels)
  local length = places[1].shape[2]
  local start = kit.counting(batch, 0, whole):reshape(batch, 1)
  local rank, sum = #axes, nil
  local function walk(i, at, weight)
    if i > rank then
      local part = rows:take((at:to 'i64' + start):reshape(-1))
        :reshape(batch, length, channels)
      if weight then part = part * weight:unsqueeze(3):to(x.dtype) end
      sum = sum and sum + part or part
      return
    end
    for k, place in ipairs(axes[i].places) do
      local w = axes[i].weights[k]
      if w and weight then w = weight * w end
      walk(i + 1, at and at * axes[i].size + place or place, w or weight)
    end
  end
  for i, axis in ipairs(axes) do
    axis.places, axis.weights = neighbours(places[i], axis, mode)
  end
  walk(1, nil, nil)
  return sum:transpose(2, 3)
end

local MODES = { bilinear = 'linear', bicubic = 'cubic', linear = 'linear', cubic = 'cubic',
  nearest = 'nearest' }

function M.GridSample(n, x, grid)
  local mode = MODES[n:string('mode', n.opset < 20 and 'bilinear' or 'linear')]
  if not mode then n:fail("mode '%s' is none", n:string 'mode') end
  local padding, corners = n:string('padding_mode', 'zeros'), n:int('align_corners', 0) == 1
  local rank, places, axes = x.ndim - 2, {}, {}
  local points = grid:reshape(grid.shape[1], -1, rank)
  if points.dtype == 'f16' or points.dtype == 'bf16' then points = points:to 'f32' end
  for i = 1, rank do
    local size = x.shape[2 + i]
    local axis = { size = size, padding = padding, low = corners and 0 or -0.5,
      high = corners and size - 1 or size - 0.5 }
    local at = points:select(3, rank + 1 - i) + 1
    at = corners and at * ((size - 1) / 2) or (at * size - 1) * 0.5
    if mode == 'nearest' then at = at:round() end
    if padding == 'border' then -- a place up to half an element outside stays where it is
      local inside = at:ge(axis.low):minimum(at:le(axis.high))
      at = ridge.where(inside, at, clamped(at, size))
    elseif padding == 'reflection' then
      at = reflected(at, axis.low, axis.high)
    end
    places[i], axes[i] = at, axis
  end
  local shape = { x.shape[1], x.shape[2] }
  for i = 2, grid.ndim - 1 do shape[i + 1] = grid.shape[i] end
  if kit.product(shape) == 0 then return kit.full(0, shape, x) end
  return sampled(x, places, mode, axes):reshape(shape)
end

M.AffineGrid = { reads = { 2 }, run = function(n, theta, size)
  local rank, corners = #size - 2, n:int('align_corners', 0) == 1
  local shape, list = {}, {}
  for i = 1, rank do shape[i] = size[2 + i] end
  local function column(x)
    return x:expand(shape):reshape(-1, 1)
  end
  for i = rank, 1, -1 do
    local s, sizes = shape[i], {}
    for k = 1, rank do sizes[k] = k == i and s or 1 end
    local at = kit.counting(s):to(theta.dtype)
    if corners then
      at = s > 1 and at * (2 / (s - 1)) - 1 or at - 1
    else
      at = (at * 2 + 1) / s - 1
    end
    list[#list + 1] = column(at:reshape(sizes))
  end
  list[#list + 1] = kit.full(1, { kit.product(shape), 1 }, theta)
  local grid = ridge.concat(list, 2):matmul(theta:transpose(2, 3))
  table.insert(shape, 1, size[1])
  shape[rank + 2] = rank
  return grid:reshape(shape)
end }

-- -- Deformed windows ---------------------------------------------------------------------------

function M.DeformConv(n, x, w, offset, bias, mask)
  if x.ndim ~= 4 then n:fail('of %d axes; images have 4', x.ndim) end
  local groups, parts = n:int('group', 1), n:int('offset_group', 1)
  local strides, dilations = n:ints 'strides' or { 1, 1 }, n:ints 'dilations' or { 1, 1 }
  local pads = n:ints 'pads' or { 0, 0, 0, 0 }
  local b, c, kh, kw = x.shape[1], x.shape[2], w.shape[3], w.shape[4]
  local oh, ow = offset.shape[3], offset.shape[4]
  local cells, length = kh * kw, oh * ow
  window.few(n, cells)
  -- each part of the channels has offsets of its own: parts are taken for images
  local images = x:reshape(b * parts, c / parts, x.shape[3], x.shape[4])
  local moves = offset:reshape(b * parts, cells, 2, oh, ow)
  local share = mask and mask:reshape(b * parts, 1, cells, length)
  local columns = {}
  for cell = 0, cells - 1 do
    local places, axes = {}, {}
    for i = 1, 2 do
      local k = i == 1 and math.floor(cell / kw) or cell % kw
      local size = i == 1 and oh or ow
      local grid = kit.counting(size, k * dilations[i] - pads[i], strides[i]):to(x.dtype)
      local at = moves:select(2, cell + 1):select(2, i)
        + grid:reshape(i == 1 and oh or 1, i == 2 and ow or 1)
      places[i] = at:reshape(b * parts, length)
      axes[i] = { size = x.shape[2 + i], padding = 'zeros' }
    end
    local part = sampled(images, places, 'linear', axes)
    if share then part = part * share:select(3, cell + 1) end
    columns[cell + 1] = part:unsqueeze(3)
  end
  local all = ridge.concat(columns, 3):reshape(b, groups, c / groups * cells, length)
  local kernel = w:reshape(1, groups, w.shape[1] / groups, c / groups * cells)
  local y = kernel:matmul(all):reshape(b, w.shape[1], oh, ow)
  return bias and y + kit.along(bias, 2, 4) or y
end

return M

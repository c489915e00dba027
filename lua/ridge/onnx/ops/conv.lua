-- SPDX-License-Identifier: MIT
--- ONNX's convolutions, in one, two and three dimensions, and what goes the other way.

local ridge = require 'ridge'
local kit = require 'ridge.onnx.ops.kit'
local window = require 'ridge.onnx.ops.window'

local M = {}

local each, spatial = window.each, window.spatial

function M.Conv(n, x, w, bias)
  local rank = x.ndim - 2
  local strides, dilations = each(n, 'strides', rank, 1), each(n, 'dilations', rank, 1)
  local before, after = window.padding(n, spatial(x), spatial(w), strides, dilations)
  return window.conv(n, x, w, bias, { strides = strides, dilations = dilations,
    before = before, after = after, groups = n:int('group', 1) })
end

-- -- Transposed ---------------------------------------------------------------------------------

-- Zeros between the elements of an axis.
local function stretched(x, axis, stride)
  if stride == 1 or x.shape[axis] <= 1 then return x end
  local shape, size = x.shape, x.shape[axis]
  local apart, gaps = {}, {}
  for i, each_size in ipairs(shape) do
    apart[#apart + 1], gaps[#gaps + 1] = each_size, each_size
    if i == axis then apart[#apart + 1], gaps[#gaps + 1] = 1, stride - 1 end
  end
  local y = ridge.concat({ x:reshape(apart), kit.full(0, gaps, x) }, axis + 1)
  shape[axis] = size * stride
  return y:reshape(shape):narrow(axis, 1, (size - 1) * stride + 1)
end

-- Paddings of a transposed convolution: given, or what makes the shape that is asked for.
local function paddings(n, sizes, kernel, o)
  local rank, auto, pads = #sizes, n:string('auto_pad', 'NOTSET'), n:ints 'pads'
  local wanted = n:ints 'output_shape'
  local before, after = {}, {}
  for i = 1, rank do
    local whole = o.strides[i] * (sizes[i] - 1) + o.more[i] + (kernel[i] - 1) * o.dilations[i] + 1
    if wanted or auto == 'SAME_UPPER' or auto == 'SAME_LOWER' then
      local size = wanted and wanted[#wanted - rank + i] or sizes[i] * o.strides[i]
      local all = whole - size
      local less, much = math.floor(all / 2), math.ceil(all / 2)
      if auto == 'SAME_UPPER' then
        before[i], after[i] = less, much
      else
        before[i], after[i] = much, less
      end
    else
      before[i], after[i] = pads and pads[i] or 0, pads and pads[i + rank] or 0
    end
  end
  return before, after
end

-- As the convolution of the stretched input with the kernel reversed.
function M.ConvTranspose(n, x, w, bias)
  local rank, groups = x.ndim - 2, n:int('group', 1)
  local o = { strides = each(n, 'strides', rank, 1), dilations = each(n, 'dilations', rank, 1),
    more = each(n, 'output_padding', rank, 0) }
  local kernel = spatial(w)
  local before, after = paddings(n, spatial(x), kernel, o)
  local inner, outer = w.shape[1], w.shape[2]
  local shape, order, flat = { groups, inner / groups, outer }, { 1, 3, 2 },
    { groups * outer, inner / groups }
  for i, size in ipairs(kernel) do
    shape[3 + i], order[3 + i], flat[2 + i] = size, 3 + i, size
  end
  local reversed = w:reshape(shape):permute(order):reshape(flat)
  local pads = { strides = {}, dilations = o.dilations, before = {}, after = {}, groups = groups }
  for i = 1, rank do
    reversed = kit.range(reversed, 2 + i, kernel[i] - 1, kernel[i], -1)
    x = stretched(x, 2 + i, o.strides[i])
    local reach = (kernel[i] - 1) * o.dilations[i]
    local low, high = reach - before[i], reach - after[i] + o.more[i]
    if low < 0 or high < 0 then
      local size = x.shape[2 + i]
      x = x:narrow(2 + i, 1 + math.max(-low, 0), size - math.max(-low, 0) - math.max(-high, 0))
    end
    pads.strides[i], pads.before[i], pads.after[i] = 1, math.max(low, 0), math.max(high, 0)
  end
  return window.conv(n, x:contiguous(), reversed:contiguous(), bias, pads)
end

-- -- Columns ------------------------------------------------------------------------------------

-- Blocks added up where they lay in an image: each place of the kernel is stretched and shifted.
M.Col2Im = { reads = { 2, 3 }, run = function(n, x, image, kernel)
  local rank = #image
  local strides, dilations = each(n, 'strides', rank, 1), each(n, 'dilations', rank, 1)
  local pads = n:ints 'pads' or {}
  local batch, cells = x.shape[1], kit.product(kernel)
  local channels, out = x.shape[2] / cells, {}
  for i = 1, rank do
    out[i] = math.floor((image[i] + (pads[i] or 0) + (pads[i + rank] or 0)
      - dilations[i] * (kernel[i] - 1) - 1) / strides[i]) + 1
  end
  local blocks = x:reshape(batch, channels, cells, kit.product(out))
  local sum
  for cell = 0, cells - 1 do
    local part = blocks:select(3, cell + 1):reshape(batch, channels, unpack(out))
    local rest = cell
    for i = rank, 1, -1 do
      local k = rest % kernel[i]
      rest = math.floor(rest / kernel[i])
      part = stretched(part, 2 + i, strides[i])
      local first = k * dilations[i] - (pads[i] or 0)
      local behind = image[i] - first - part.shape[2 + i]
      if first < 0 or behind < 0 then
        local less = math.max(-first, 0)
        part = part:narrow(2 + i, 1 + less, part.shape[2 + i] - less - math.max(-behind, 0))
      end
      part = window.padded(part, 2 + i, math.max(first, 0), math.max(behind, 0))
    end
    sum = sum and sum + part or part
  end
  return sum
end }

return M

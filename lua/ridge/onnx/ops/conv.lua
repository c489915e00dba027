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
  return x:conv(w, { stride = strides, dilation = dilations, bias = bias,
    padding = window.pairs(before, after), groups = n:int('group', 1) })
end

-- -- Transposed ---------------------------------------------------------------------------------

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

function M.ConvTranspose(n, x, w, bias)
  local rank = x.ndim - 2
  local o = { strides = each(n, 'strides', rank, 1), dilations = each(n, 'dilations', rank, 1),
    more = each(n, 'output_padding', rank, 0) }
  local before, after = paddings(n, spatial(x), spatial(w), o)
  local front = {}
  for i = 1, rank do -- a larger result than what is given: zeros around it
    front[i], before[i] = math.max(-before[i], 0), math.max(before[i], 0)
    o.more[i], after[i] = o.more[i] + math.max(-after[i], 0), math.max(after[i], 0)
  end
  local y = x:conv_transpose(w, { stride = o.strides, dilation = o.dilations,
    groups = n:int('group', 1), padding = window.pairs(before, after), output_padding = o.more })
  for i = 1, rank do y = window.padded(y, 2 + i, front[i], 0) end
  return bias and y + kit.along(bias, 2, y.ndim) or y
end

-- -- Columns ------------------------------------------------------------------------------------

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

-- Blocks added up where they lay in an image: each place of the kernel is stretched and shifted.
M.Col2Im = { reads = { 2, 3 }, run = function(n, x, image, kernel)
  local rank = #image
  local strides, dilations = each(n, 'strides', rank, 1), each(n, 'dilations', rank, 1)
  local pads = n:ints 'pads' or {}
  local batch, cells = x.shape[1], kit.product(kernel)
  window.few(n, cells)
  local channels, out = x.shape[2] / cells, {}
  if not (channels >= 1 and channels % 1 == 0) then
    n:fail('%s holds no blocks of %d elements', x:describe(), cells)
  end
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

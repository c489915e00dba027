-- SPDX-License-Identifier: MIT
--- ONNX's operators that rearrange: join, split, slice, pad, tile, blocks to depth and back.

local ridge = require 'ridge'
local kit = require 'ridge.onnx.ops.kit'

local M = {}

-- An axis of a list as ridge counts it; met: those before it in the list.
local function own_axis(n, axis, rank, met)
  local at = kit.axis(n, axis, rank)
  if met[at] then n:fail('axis %d is named twice', axis) end
  met[at] = true
  return at
end

function M.Concat(n, ...)
  local list = {}
  for i = 1, select('#', ...) do list[i] = (select(i, ...)) end
  return ridge.concat(list, kit.axis(n, n:int('axis', 1), list[1].ndim))
end

M.Split = { reads = { 2 }, run = function(n, x, given)
  local axis = kit.axis(n, n:int('axis', 0), x.ndim)
  local size = x.shape[axis]
  local lengths = n.opset < 13 and n:ints 'split' or given
  if not lengths then
    local parts = n.opset >= 18 and n:int('num_outputs', #n.outputs) or #n.outputs
    if parts < 1 or parts > #n.outputs then
      n:fail('it has %d outputs, and makes %d', #n.outputs, parts)
    end
    local each = math.ceil(size / parts)
    lengths = {}
    for i = 1, parts do lengths[i] = math.max(0, math.min(each, size - (i - 1) * each)) end
  end
  if #lengths > #n.outputs then
    n:fail('it has %d outputs, and makes %d', #n.outputs, #lengths)
  end
  local list, at = {}, 1
  for i, length in ipairs(lengths) do
    list[i] = length > 0 and x:narrow(axis, at, length) or x:narrow(axis, 1, 0)
    at = at + length
  end
  return unpack(list, 1, #lengths)
end }

-- -- Slices -------------------------------------------------------------------------------------

-- Where a slice of an axis begins, and how many elements it has. One that goes backwards begins
-- at the first element where it would begin before it (NumPy's is empty), and ends behind it.
local function window(first, last, step, size)
  local high = step < 0 and size - 1 or size
  local function place(at, low)
    if at < 0 then at = at + size end
    return math.min(math.max(at, low), high)
  end
  first, last = place(first, 0), place(last, step < 0 and -1 or 0)
  return first, math.max(0, math.ceil((last - first) / step))
end

M.Slice = { reads = { 2, 3, 4, 5 }, run = function(n, x, starts, ends, axes, steps)
  if n.opset < 10 then starts, ends, axes = n:ints 'starts', n:ints 'ends', n:ints 'axes' end
  local many = #kit.listed(n, 'starts', starts)
  kit.listed(n, 'ends', ends, many)
  if axes then kit.listed(n, 'axes', axes, many) end
  if steps then kit.listed(n, 'steps', steps, many) end
  local met = {}
  for i = 1, #starts do
    local axis = own_axis(n, axes and axes[i] or i - 1, x.ndim, met)
    local step = steps and steps[i] or 1
    if step == 0 then n:fail 'a step is 0' end
    local first, length = window(starts[i], ends[i], step, x.shape[axis])
    if length == 0 then
      x = x:narrow(axis, 1, 0)
    elseif not (step == 1 and first == 0 and length == x.shape[axis]) then
      x = kit.range(x, axis, first, length, step)
    end
  end
  return x
end }

-- -- Padding ------------------------------------------------------------------------------------

local function block(x, axis, size, value)
  local shape = x.shape
  shape[axis] = size
  if type(value) == 'number' then return kit.full(value, shape, x) end
  return value:reshape {}:to(x.dtype):expand(shape)
end

local FROM_X = { edge = true, wrap = true, reflect = true } -- modes by which x goes on

--- Pad one axis; a negative amount takes away.
---@param n table node
---@param x Tensor
---@param axis number from 1
---@param before number
---@param after number
---@param mode string
---@param value number|Tensor
---@return Tensor
local function padded(n, x, axis, before, after, mode, value)
  if before < 0 or after < 0 then
    local length = x.shape[axis] + math.min(before, 0) + math.min(after, 0)
    x = x:narrow(axis, 1 - math.min(before, 0), math.max(length, 0))
    before, after = math.max(before, 0), math.max(after, 0)
  end
  if before == 0 and after == 0 then return x end
  if mode == 'constant' then
    local list = { x }
    if before > 0 then table.insert(list, 1, block(x, axis, before, value)) end
    if after > 0 then list[#list + 1] = block(x, axis, after, value) end
    return ridge.concat(list, axis)
  end
  if not FROM_X[mode] or x.shape[axis] == 0 then
    n:fail("%d elements around %s by mode '%s' cannot be had", before + after, x:describe(), mode)
  end
  local amounts = {}
  for i = axis, x.ndim do amounts[#amounts + 1] = i == axis and { before, after } or 0 end
  return x:pad(amounts, { mode = mode })
end

M.Pad = { reads = { 2, 4 }, run = function(n, x, pads, value, axes)
  local mode = n:string('mode', 'constant')
  if n.opset < 11 then pads, value = n:ints 'pads', n:float('value', 0) end
  local half, met = axes and #axes or x.ndim, {}
  kit.listed(n, 'pads', pads, 2 * half)
  for i = 1, half do
    local axis = own_axis(n, axes and axes[i] or i - 1, x.ndim, met)
    x = padded(n, x, axis, pads[i], pads[i + half], mode, value or 0)
  end
  return x
end }

M.CenterCropPad = { reads = { 2 }, run = function(n, x, shape)
  local axes, met = n:ints 'axes', {}
  kit.listed(n, 'shape', shape, axes and #axes or x.ndim)
  for i, size in ipairs(shape) do
    local axis = own_axis(n, axes and axes[i] or i - 1, x.ndim, met)
    local more = size - x.shape[axis]
    local before = more < 0 and -math.floor(-more / 2) or math.floor(more / 2)
    x = padded(n, x, axis, before, more - before, 'constant', 0)
  end
  return x
end }

-- -- Copies -------------------------------------------------------------------------------------

M.Tile = { reads = { 2 }, run = function(n, x, repeats)
  local apart, whole, out, shape = {}, {}, {}, x.shape
  kit.listed(n, 'repeats', repeats, x.ndim)
  for i, times in ipairs(repeats) do
    local size = shape[i]
    apart[2 * i - 1], apart[2 * i] = 1, size
    whole[2 * i - 1], whole[2 * i] = times, size
    out[i] = size * times
  end
  if 2 * x.ndim <= 8 then return x:reshape(apart):expand(whole):reshape(out) end
  for i, times in ipairs(repeats) do -- one axis after the other
    local before, after = kit.product(shape, 1, i - 1), kit.product(shape, i)
    if times ~= 1 then x = x:reshape(before, 1, after):expand(before, times, after) end
    shape[i] = out[i]
    x = x:reshape(shape)
  end
  return x
end }

-- Batch, channels and two axes of an image.
local function image(n, x)
  if x.ndim ~= 4 then n:fail('images have 4 axes, got %s', x:describe()) end
  return unpack(x.shape)
end

function M.DepthToSpace(n, x)
  local b, c, h, w = image(n, x)
  local size = n:int 'blocksize'
  local depth = c / (size * size)
  if n:string('mode', 'DCR') == 'DCR' then
    x = x:reshape(b, size, size, depth, h, w):permute(1, 4, 5, 2, 6, 3)
  else
    x = x:reshape(b, depth, size, size, h, w):permute(1, 2, 5, 3, 6, 4)
  end
  return x:reshape(b, depth, h * size, w * size)
end

function M.SpaceToDepth(n, x)
  local b, c, h, w = image(n, x)
  local size = n:int 'blocksize'
  return x:reshape(b, c, h / size, size, w / size, size):permute(1, 4, 6, 2, 3, 5)
    :reshape(b, c * size * size, h / size, w / size)
end

M.Trilu = { reads = { 2 }, run = function(n, x, k)
  k = k and k[1] or 0
  local rows, columns = x.shape[x.ndim - 1], x.shape[x.ndim]
  local row = kit.counting(rows):reshape(rows, 1) + k
  local column = kit.counting(columns):reshape(1, columns)
  local stays = n:int('upper', 1) == 1 and column:ge(row) or column:le(row)
  return ridge.where(stays, x, kit.full(0, {}, x))
end }

-- The first of a sequence in reverse order, of a length for each.
M.ReverseSequence = { reads = { 2 }, run = function(n, x, lengths)
  local batch = kit.axis(n, n:int('batch_axis', 1), x.ndim)
  local time = kit.axis(n, n:int('time_axis', 0), x.ndim)
  local list = {}
  for i, length in ipairs(lengths) do
    local one = x:narrow(batch, i, 1)
    local turned = kit.range(one:narrow(time, 1, length), time, length - 1, length, -1)
    local rest = x.shape[time] - length
    list[i] = rest == 0 and turned
      or ridge.concat({ turned, one:narrow(time, length + 1, rest) }, time)
  end
  return ridge.concat(list, batch)
end }

return M

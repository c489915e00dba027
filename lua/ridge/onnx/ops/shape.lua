-- SPDX-License-Identifier: MIT
--- ONNX's operators on shapes: sizes, other shapes of the same elements, constants.

local ridge = require 'ridge'
local kit = require 'ridge.onnx.ops.kit'

local M = {}

-- -- Sizes --------------------------------------------------------------------------------------

local function sizes(list)
  if #list == 0 then return ridge.zeros(0, { dtype = 'i64' }) end
  return ridge.tensor(list, { dtype = 'i64' })
end

M.Shape = { of_shape = true, run = function(n, x)
  local rank, list = x.ndim, {}
  local first, last = n:int('start', 0), n:int('end', rank)
  if first < 0 then first = first + rank end
  if last < 0 then last = last + rank end
  for axis = math.max(first, 0), math.min(last, rank) - 1 do list[#list + 1] = x.shape[axis + 1] end
  return sizes(list)
end }

M.Size = { of_shape = true, run = function(_, x)
  return ridge.tensor(x.count, { dtype = 'i64' })
end }

-- -- The same elements --------------------------------------------------------------------------

M.Reshape = { reads = { 2 }, run = function(n, x, shape)
  local zero_is_zero, sized = n:int('allowzero', 0) == 1, {}
  local at, known = nil, 1
  for i, size in ipairs(shape) do
    if size == 0 and not zero_is_zero then
      size = x.shape[i]
      if not size then n:fail('size %d is that of the input, which has no such axis', i) end
    end
    if size == -1 then at = i else known = known * size end
    sized[i] = size
  end
  if at then sized[at] = known == 0 and 0 or x.count / known end
  return x:reshape(sized)
end }

function M.Flatten(n, x)
  local axis = n:int('axis', 1)
  if axis < 0 then axis = axis + x.ndim end
  if axis < 0 or axis > x.ndim then n:fail('there is no axis %d in %s', axis, x:describe()) end
  return x:reshape(kit.product(x.shape, 1, axis), kit.product(x.shape, axis + 1))
end

M.Squeeze = { reads = { 2 }, run = function(n, x, axes)
  axes = n.opset < 13 and n:ints 'axes' or axes
  local gone, shape = {}, {}
  for _, axis in ipairs(axes or {}) do gone[kit.axis(n, axis, x.ndim)] = true end
  for i, size in ipairs(x.shape) do
    if gone[i] and size ~= 1 then n:fail('axis %d has %d positions, not one', i - 1, size) end
    if not (axes and gone[i] or not axes and size == 1) then shape[#shape + 1] = size end
  end
  return x:reshape(shape)
end }

M.Unsqueeze = { reads = { 2 }, run = function(n, x, axes)
  axes = n.opset < 13 and n:ints 'axes' or axes or {}
  local rank, new, shape, at = x.ndim + #axes, {}, {}, 1
  for _, axis in ipairs(kit.axes(n, axes, rank)) do new[axis] = true end
  for i = 1, rank do
    if new[i] then
      shape[i] = 1
    else
      shape[i] = x.shape[at]
      at = at + 1
    end
  end
  return x:reshape(shape)
end }

function M.Transpose(n, x)
  local order, axes = n:ints 'perm', {}
  if order and #order ~= x.ndim then
    n:fail('perm has %d axes, and the tensor is %s', #order, x:describe())
  end
  for i = 1, x.ndim do axes[i] = order and order[i] + 1 or x.ndim + 1 - i end
  return x.ndim > 0 and x:permute(axes) or x
end

M.Expand = { reads = { 2 }, run = function(n, x, shape)
  return x:expand(kit.broadcast(n, x.shape, shape))
end }

-- -- Constants ----------------------------------------------------------------------------------

function M.Constant(n)
  local t = n:tensor 'value'
  if t then return t end
  if n:has 'value_float' then return ridge.tensor(n:float 'value_float') end
  if n:has 'value_int' then return ridge.tensor(n:int 'value_int', { dtype = 'i64' }) end
  if n:has 'value_ints' then return sizes(n:ints 'value_ints') end
  if n:has 'value_floats' then
    local list = n:floats 'value_floats'
    return #list == 0 and ridge.zeros(0) or ridge.tensor(list)
  end
  local kinds = {}
  for name in pairs(n.attributes) do kinds[#kinds + 1] = name end
  n:fail('a constant given as %s is none that ridge has', kinds[1] or 'nothing')
end

M.ConstantOfShape = { reads = { 1 }, run = function(n, shape)
  local value = n:tensor 'value'
  if not value then return ridge.zeros(shape) end
  return value:reshape {}:expand(shape):contiguous()
end }

M.Range = { reads = { 1, 2, 3 }, run = function(n, start, limit, delta)
  local first, step = start[1], delta[1]
  if not (first and step and limit[1]) then n:fail 'a number is missing' end
  if step == 0 then n:fail 'its step is 0' end
  local count = math.max(math.ceil((limit[1] - first) / step), 0)
  local type_of = n.given[1].dtype
  if count == 0 then return ridge.zeros(0, { dtype = type_of }) end
  return ridge.arange(first, first + (count - 0.5) * step, step, { dtype = type_of })
end }

function M.EyeLike(n, x)
  local name = n:has 'dtype' and kit.type_of(n, n:int 'dtype') or x.dtype
  local rows, columns, k = x.shape[1], x.shape[2], n:int('k', 0)
  local row = kit.counting(rows):reshape(rows, 1)
  return (row + k):eq(kit.counting(columns):reshape(1, columns)):to(name)
end

return M

-- SPDX-License-Identifier: MIT
--- What operators of many families need: axes as ONNX counts them, whole numbers, choices.

local ridge = require 'ridge'
local dtype = require 'ridge.tensor.dtype'

local M = {}

M.kind = dtype.kind

--- Is it of a type of real numbers that is computed with?
---@param x Tensor
---@return boolean
function M.is_float(x)
  return dtype.kind[x.dtype] == 'float'
end

--- Element types by ONNX's numbers for them.
M.TYPES = { [1] = 'f32', [2] = 'u8', [3] = 'i8', [6] = 'i32', [7] = 'i64', [9] = 'bool',
  [10] = 'f16', [11] = 'f64', [16] = 'bf16', [17] = 'f8e4m3', [19] = 'f8e5m2' }

local OTHERS = { [4] = 'u16', [5] = 'i16', [8] = 'string', [12] = 'u32', [13] = 'u64',
  [14] = 'complex64', [15] = 'complex128', [18] = 'f8e4m3fnuz', [20] = 'f8e5m2fnuz', [21] = 'u4',
  [22] = 'i4', [23] = 'f4e2m1', [24] = 'f8e8m0' }

--- The element type of one of ONNX's numbers.
---@param n table node
---@param code number
---@return string that of the net, where it was converted and this is of real numbers
function M.type_of(n, code)
  local name = M.TYPES[code]
  if not name then n:fail('there is no element type %s in ridge', OTHERS[code] or code) end
  return n.float_type and dtype.kind[name] == 'float' and n.float_type or name
end

--- The smallest and largest number of a whole type.
M.RANGE = { u8 = { 0, 255 }, i8 = { -128, 127 }, i32 = { -2 ^ 31, 2 ^ 31 - 1 },
  i64 = { -2 ^ 63, 2 ^ 63 - 1024 }, bool = { 0, 1 } }

--- An axis as ridge counts it, from 1.
---@param n table node
---@param axis number from 0, or negative from the end
---@param rank number
---@return number
function M.axis(n, axis, rank)
  local at = axis < 0 and axis + rank or axis
  if at < 0 or at >= math.max(rank, 1) then
    n:fail('there is no axis %d in a tensor of %d axes', axis, rank)
  end
  return at + 1
end

--- A list of numbers that has to be there, of so many.
---@param n table node
---@param name string of the input or attribute
---@param list table|nil
---@param count number|nil any, where it is nil
---@return table list
function M.listed(n, name, list, count)
  if not list then n:fail('it has no %s', name) end
  if count and #list ~= count then
    n:fail('%s has %d numbers; expected %d', name, #list, count)
  end
  return list
end

--- A list of axes as ridge counts them, ascending.
---@param n table node
---@param axes table
---@param rank number
---@return table
function M.axes(n, axes, rank)
  local list, met = {}, {}
  for i, axis in ipairs(axes) do
    list[i] = M.axis(n, axis, rank)
    if met[list[i]] then n:fail('axis %d is named twice', axis) end
    met[list[i]] = true
  end
  table.sort(list)
  return list
end

--- The product of sizes first to last.
---@param shape table
---@param first number
---@param last number
---@return number
function M.product(shape, first, last)
  local product = 1
  for i = first or 1, last or #shape do product = product * shape[i] end
  return product
end

--- The shape that two broadcast to.
---@param n table node
---@param a table
---@param b table
---@return table
function M.broadcast(n, a, b)
  local shape, rank = {}, math.max(#a, #b)
  for i = 1, rank do
    local p, q = a[i - rank + #a] or 1, b[i - rank + #b] or 1
    if p ~= q and p ~= 1 and q ~= 1 then n:fail('sizes %d and %d do not broadcast', p, q) end
    shape[i] = p == 1 and q or p
  end
  return shape
end

--- A vector over one axis of a tensor of more, to broadcast with it.
---@param v Tensor [c]
---@param axis number from 1
---@param rank number
---@return Tensor
function M.along(v, axis, rank)
  if v.ndim == 0 or v.count == 1 and v.ndim == 1 then return v:reshape {} end
  local shape = {}
  for i = 1, rank do shape[i] = i == axis and v.count or 1 end
  return v:reshape(shape)
end

--- 0, 1 ... n - 1 as i64.
---@param n number
---@param first number|nil
---@param step number|nil
---@return Tensor
function M.counting(n, first, step)
  local x = ridge.empty(n, { dtype = 'i64' })
  first, step = first or 0, step or 1
  if n == 0 then return x end
  return ridge.arange(first, first + (n - 1) * step, step, { dtype = 'i64' })
end

--- A whole tensor of one number, of the type of another.
---@param value number
---@param shape table
---@param like Tensor
---@return Tensor
function M.full(value, shape, like)
  return ridge.full(value, shape, { dtype = like.dtype, device = like.device })
end

--- Indices that may count from the end, from the beginning.
---@param index Tensor whole
---@param size number
---@return Tensor i64
function M.positions(index, size)
  index = index:to 'i64'
  return index + index:lt(0):to 'i64' * size
end

--- Along an axis in reverse order, or every step-th of a range.
---@param x Tensor
---@param axis number from 1
---@param first number from 0
---@param length number
---@param step number
---@return Tensor
function M.range(x, axis, first, length, step)
  if step > 0 or length == 0 then return x:narrow(axis, first + 1, length, math.max(step, 1)) end
  if length == 1 then return x:narrow(axis, first + 1, 1) end
  local moved = axis == 1 and x or x:transpose(1, axis)
  moved = moved:take(M.counting(length, first, step))
  return axis == 1 and moved or moved:transpose(1, axis)
end

--- Rows of one axis by index.
---@param x Tensor
---@param axis number from 1
---@param index Tensor [k] i64, from 0
---@return Tensor
function M.rows(x, axis, index)
  if axis == 1 then return x:take(index) end
  return x:transpose(1, axis):take(index):transpose(1, axis)
end

--- Places of elements in row-major order: along an axis those of an index, else the index's own.
---@param shape table of what is indexed
---@param index Tensor i64, from 0
---@param axis number from 1
---@return Tensor i64 [count of index]
function M.flat_places(shape, index, axis)
  local rank, strides, step = #shape, {}, 1
  for i = rank, 1, -1 do
    strides[i] = step
    step = step * shape[i]
  end
  local at = index * strides[axis]
  for i = 1, rank do
    if i ~= axis then
      local sizes = {}
      for k = 1, rank do sizes[k] = k == i and index.shape[i] or 1 end
      at = at + M.counting(index.shape[i], 0, strides[i]):reshape(sizes)
    end
  end
  return at:reshape(-1)
end

return M

-- SPDX-License-Identifier: MIT
--- ONNX's operators that take elements by their places.

local ridge = require 'ridge'
local kit = require 'ridge.onnx.ops.kit'
local outside = require 'ridge.onnx.outside'

local M = {}

function M.Gather(n, x, index)
  local axis = kit.axis(n, n:int('axis', 0), x.ndim)
  local at = n:apart(2, kit.positions, index, x.shape[axis])
  at = at:reshape(-1)
  local shape = {}
  for i = 1, axis - 1 do shape[i] = x.shape[i] end
  for _, size in ipairs(index.shape) do shape[#shape + 1] = size end
  for i = axis + 1, x.ndim do shape[#shape + 1] = x.shape[i] end
  local flat = x:reshape(kit.product(x.shape, 1, axis - 1), x.shape[axis],
    kit.product(x.shape, axis + 1))
  return kit.rows(flat, 2, at):reshape(shape)
end

function M.GatherElements(n, x, index)
  local axis = kit.axis(n, n:int('axis', 0), x.ndim)
  local at = n:apart(2, function()
    return kit.flat_places(x.shape, kit.positions(index, x.shape[axis]), axis)
  end)
  return x:reshape(-1):take(at):reshape(index.shape)
end

M.GatherND = function(n, x, index)
  local batch = n:int('batch_dims', 0)
  local depth = index.shape[index.ndim]
  local rest = kit.product(x.shape, batch + depth + 1)
  local groups = kit.product(x.shape, 1, batch)
  local each = kit.product(x.shape, batch + 1, batch + depth)
  local shape = {}
  for i = 1, index.ndim - 1 do shape[i] = index.shape[i] end
  for i = batch + depth + 1, x.ndim do shape[#shape + 1] = x.shape[i] end
  index = index:reshape(groups, -1, depth)
  local at, stride = nil, 1
  for k = depth, 1, -1 do
    local part = kit.positions(index:select(3, k), x.shape[batch + k]) * stride
    at = at and at + part or part
    stride = stride * x.shape[batch + k]
  end
  at = at + kit.counting(groups, 0, each):reshape(groups, 1)
  return x:reshape(groups * each, rest):take(at:reshape(-1)):reshape(shape)
end

M.OneHot = { reads = { 2 }, run = function(n, index, depth, values)
  depth = depth[1]
  local rank = index.ndim + 1
  local axis = kit.axis(n, n:int('axis', -1), rank)
  local shape, wide = {}, {}
  for i = 1, rank do
    shape[i] = i == axis and depth or 1
    wide[i] = i < axis and index.shape[i] or i == axis and 1 or index.shape[i - 1]
  end
  local at = index:to 'i64':reshape(wide)
  at = at + at:lt(0):to 'i64' * depth
  local hot = at:eq(kit.counting(depth):reshape(shape))
  return ridge.where(hot, values:select(1, 2), values:select(1, 1))
end }

M.Compress = { reads = { 2 }, run = function(n, x, condition)
  local places = {}
  local axis = n:has 'axis' and kit.axis(n, n:int 'axis', x.ndim)
  if not axis then x, axis = x:reshape(-1), 1 end
  for i = 1, math.min(#condition, x.shape[axis]) do
    if condition[i] ~= 0 then places[#places + 1] = i - 1 end
  end
  if #places == 0 then return x:narrow(axis, 1, 0) end
  return kit.rows(x, axis, outside.call(ridge.tensor, places, { dtype = 'i64' }))
end }

-- Places of what is not 0: as many as there are, so it is read.
M.NonZero = { looks = { 1 }, run = function(n, numbers)
  local shape, lists = n.given[1].shape, {}
  local rank = #shape
  for k = 1, rank do lists[k] = {} end
  for i, value in ipairs(numbers) do
    if value ~= 0 then
      local at = i - 1
      for k = rank, 1, -1 do
        table.insert(lists[k], at % shape[k])
        at = math.floor(at / shape[k])
      end
    end
  end
  if rank == 0 or #lists[1] == 0 then
    return ridge.zeros(rank, rank == 0 and numbers[1] ~= 0 and 1 or 0, { dtype = 'i64' })
  end
  return ridge.tensor(lists, { dtype = 'i64' })
end }

return M

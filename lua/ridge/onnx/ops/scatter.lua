-- SPDX-License-Identifier: MIT
--- ONNX's operators that write elements to places, and those that sort.

local ridge = require 'ridge'
local kit = require 'ridge.onnx.ops.kit'
local outside = require 'ridge.onnx.outside'

local M = {}

-- -- Scatter ------------------------------------------------------------------------------------

local function elements(n, x, index, updates)
  local axis = kit.axis(n, n:int('axis', 0), x.ndim)
  return x:scatter(axis, n:apart(2, kit.positions, index, x.shape[axis]), updates,
    { reduce = n:string('reduction', 'none') })
end
M.ScatterElements, M.Scatter = elements, elements

function M.ScatterND(n, x, index, updates)
  local places = n:apart(2, function()
    local depth, at = index.shape[index.ndim], {}
    for k = 1, depth do at[k] = kit.positions(index:narrow(-1, k, 1), x.shape[k]) end
    return depth == 1 and at[1] or ridge.concat(at, -1)
  end)
  return x:scatter_nd(places, updates,
    { reduce = n:string('reduction', 'none') })
end

-- Rows of a cache, from a place on for each batch.
function M.TensorScatter(n, x, update, places)
  local axis = kit.axis(n, n:int('axis', -2), x.ndim)
  local size, length = x.shape[axis], update.shape[axis]
  local shape, batch = {}, {}
  for i = 1, x.ndim do
    shape[i], batch[i] = i == axis and length or 1, i == 1 and x.shape[1] or 1
  end
  local at = kit.counting(length):reshape(shape)
  if places then at = at + places:to 'i64':reshape(batch) end
  if n:string('mode', 'linear') == 'circular' then
    at = at - (at:to 'f64' / size):floor():to 'i64' * size
  end
  return x:scatter(axis, at:expand(update.shape):contiguous(), update)
end

M.MaxUnpool = { reads = { 3 }, run = function(n, x, index, wanted)
  local rank, kernel = x.ndim - 2, n:ints 'kernel_shape'
  local strides, pads = n:ints 'strides' or {}, n:ints 'pads' or {}
  if rank < 1 then n:fail('it takes at least three axes, got %s', x:describe()) end
  kit.listed(n, 'kernel_shape', kernel, rank)
  if wanted then kit.listed(n, 'output_shape', wanted, x.ndim) end
  local shape = { x.shape[1], x.shape[2] }
  for i = 1, rank do
    shape[2 + i] = (x.shape[2 + i] - 1) * (strides[i] or 1) + kernel[i] - (pads[i] or 0)
      - (pads[i + rank] or 0)
  end
  local y = kit.full(0, { kit.product(shape) }, x)
    :scatter(1, index:to 'i64':reshape(-1), x:reshape(-1)):reshape(shape)
  for i = 1, wanted and x.ndim or 0 do
    local rest = wanted[i] - y.shape[i]
    if rest > 0 then
      local more = y.shape
      more[i] = rest
      y = ridge.concat({ y, kit.full(0, more, y) }, i)
    end
  end
  return y
end }

-- -- Sorted -------------------------------------------------------------------------------------

M.TopK = { reads = { 2 }, run = function(n, x, k)
  local axis = kit.axis(n, n:int('axis', -1), x.ndim)
  return x:topk(n.opset < 10 and n:int 'k' or k[1], axis,
    { largest = n:int('largest', 1) == 1, sorted = n:int('sorted', 1) == 1 })
end }

-- -- Different ones -----------------------------------------------------------------------------

-- Order of two parts of a list of numbers.
local function order(numbers, size, stride, count)
  return function(a, b)
    for i = 0, size - 1 do
      local p = numbers[math.floor(i / stride) * stride * count + a * stride + i % stride + 1]
      local q = numbers[math.floor(i / stride) * stride * count + b * stride + i % stride + 1]
      if p ~= q then return p < q and -1 or 1 end
    end
    return 0
  end
end

-- How many there are depends on the numbers, so they are read.
M.Unique = { looks = { 1 }, run = function(n, numbers)
  local x = n.given[1]
  local axis = n:has 'axis' and kit.axis(n, n:int 'axis', x.ndim)
  if not axis then x, axis = x:reshape(-1), 1 end
  local count = x.shape[axis]
  local compare = order(numbers, x.count / math.max(count, 1), kit.product(x.shape, axis + 1),
    count)
  local list = {}
  for i = 1, count do list[i] = i - 1 end
  table.sort(list, function(a, b)
    local c = compare(a, b)
    return c < 0 or c == 0 and a < b
  end)
  local groups, of = {}, {}
  for _, at in ipairs(list) do
    local group = groups[#groups]
    if not group or compare(group.first, at) ~= 0 then
      group = { first = at, count = 0 }
      groups[#groups + 1] = group
    end
    group.count, of[at] = group.count + 1, group
  end
  if n:int('sorted', 1) == 0 then
    table.sort(groups, function(a, b) return a.first < b.first end)
  end
  local first, back, counts = {}, {}, {}
  for i, group in ipairs(groups) do
    group.number, first[i], counts[i] = i - 1, group.first, group.count
  end
  for i = 1, count do back[i] = of[i - 1].number end
  local function whole(values)
    if #values == 0 then return ridge.zeros(0, { dtype = 'i64' }) end
    return outside.call(ridge.tensor, values, { dtype = 'i64' })
  end
  local places = whole(first)
  return kit.rows(x, axis, places), places, whole(back), whole(counts)
end }

return M

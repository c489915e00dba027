-- SPDX-License-Identifier: MIT
--- ONNX's pooling, over windows of one, two and three axes.

local ridge = require 'ridge'
local kit = require 'ridge.onnx.ops.kit'
local outside = require 'ridge.onnx.outside'
local window = require 'ridge.onnx.ops.window'

local M = {}

local each, spatial = window.each, window.spatial

-- How a node's windows lie: { kernel, strides, dilations, before, after, out }; after reaches to
-- the end of the last window.
local function geometry(n, x)
  local rank = x.ndim - 2
  local g = { node = n, rank = rank, kernel = n:ints 'kernel_shape', out = {}, given = {},
    strides = each(n, 'strides', rank, 1), dilations = each(n, 'dilations', rank, 1) }
  if not g.kernel or #g.kernel ~= rank or rank < 1 then
    n:fail('attribute kernel_shape is missing, or is not for %s', x:describe())
  end
  local sizes = spatial(x)
  g.before, g.given = window.padding(n, sizes, g.kernel, g.strides, g.dilations)
  g.after = {}
  for i = 1, rank do
    local reach = g.dilations[i] * (g.kernel[i] - 1) + 1
    local room = (sizes[i] + g.before[i] + g.given[i] - reach) / g.strides[i]
    if n:int('ceil_mode', 0) == 1 and n:string('auto_pad', 'NOTSET') == 'NOTSET' then
      g.out[i] = math.ceil(room) + 1
      if (g.out[i] - 1) * g.strides[i] >= sizes[i] + g.before[i] then g.out[i] = g.out[i] - 1 end
    else
      g.out[i] = math.floor(room) + 1
    end
    if g.kernel[i] < 1 or g.out[i] < 1 then
      n:fail('a window of %d does not fit into %s', g.kernel[i], x:describe())
    end
    local last = (g.out[i] - 1) * g.strides[i] + reach - sizes[i] - g.before[i]
    g.after[i] = math.max(last, 0)
    g.whole = (g.whole == nil or g.whole) and g.dilations[i] == 1
    g.exact = (g.exact == nil or g.exact) and g.after[i] <= g.given[i]
  end
  return g
end

-- Calls f with the elements of each place of the window, all windows at once.
local function places(x, g, value, f)
  local cells = kit.product(g.kernel)
  window.few(g.node, cells)
  for i = 1, g.rank do x = window.padded(x, 2 + i, g.before[i], g.after[i], value) end
  for cell = 0, cells - 1 do
    local part, rest = x, cell
    for i = g.rank, 1, -1 do
      local k = rest % g.kernel[i]
      rest = math.floor(rest / g.kernel[i])
      part = part:narrow(2 + i, 1 + k * g.dilations[i], g.out[i], g.strides[i])
    end
    f(part, cell)
  end
end

local function lowest(x)
  local range = kit.RANGE[x.dtype]
  return range and range[1] or -math.huge
end

local function flat_options(g, after)
  return { stride = g.strides, padding = { g.before[1], g.before[2], after[1], after[2] } }
end

-- May ridge's own pooling do it: images, and no window of padding alone.
local function is_flat(x, g, of_bytes)
  if g.rank ~= 2 or not g.whole or not (of_bytes or kit.is_float(x)) then return false end
  for i = 1, 2 do
    if g.before[i] >= g.kernel[i] or g.after[i] >= g.kernel[i] then return false end
  end
  return true
end

-- The number of each element in row-major order, or with the first axis of an image fastest.
local function numbers(x, column_major)
  local rank, step, at = x.ndim - 2, 1, nil
  for k = 1, rank do
    local i = column_major and k or rank + 1 - k
    local shape = {}
    for axis = 1, x.ndim do shape[axis] = axis == 2 + i and x.shape[axis] or 1 end
    local part = kit.counting(x.shape[2 + i], 0, step):reshape(shape)
    at = at and at + part or part
    step = step * x.shape[2 + i]
  end
  local shape = { x.shape[1], x.shape[2] }
  for axis = 3, x.ndim do shape[axis] = 1 end
  return at + kit.counting(x.shape[1] * x.shape[2], 0, step):reshape(shape)
end

function M.MaxPool(n, x)
  local g = geometry(n, x)
  local bytes = (x.dtype == 'u8' or x.dtype == 'i8') and x.device == 'cpu'
  if not n:wants(2) and is_flat(x, g, bytes) then
    if bytes then return ridge.scaled_pool2d(x, g.kernel, flat_options(g, g.after)) end
    return x:max_pool2d(g.kernel, flat_options(g, g.after))
  end
  if not n:wants(2) then
    local best
    places(x, g, lowest(x), function(part) best = best and best:maximum(part) or part end)
    return best
  end
  local parts, best, index = {}, nil, nil
  places(numbers(x, n:int('storage_order', 0) == 1), g, 0, function(part, cell)
    parts[cell] = part
  end)
  places(x, g, lowest(x), function(part, cell)
    if not best then
      best, index = part, parts[cell]
    else
      local more = part:gt(best)
      best = ridge.where(more, part, best)
      index = ridge.where(more, parts[cell], index)
    end
  end)
  return best, index
end

-- How many elements each window has: of the image, or of its padding too.
local function counted(x, g, with_padding)
  return outside.call(function()
    local shape = { 1, 1 }
    for i = 1, g.rank do shape[2 + i] = x.shape[2 + i] end
    local ones, sum, rest = ridge.ones(shape, { dtype = x.dtype }), nil, nil
    if with_padding then
      for i = 1, g.rank do
        ones = window.padded(ones, 2 + i, g.before[i], g.given[i], 1)
      end
      rest = { before = {}, after = {} }
      for i = 1, g.rank do
        rest.before[i], rest.after[i] = 0, math.max(0, g.after[i] - g.given[i])
      end
      setmetatable(rest, { __index = g })
    end
    places(ones, rest or g, 0, function(part) sum = sum and sum + part or part end)
    return sum
  end)
end

local function average(x, g, with_padding)
  if is_flat(x, g) and (g.exact or not with_padding) then
    local o = flat_options(g, g.after)
    o.skip_padding = not with_padding
    return x:avg_pool2d(g.kernel, o)
  end
  local sum
  places(x, g, 0, function(part) sum = sum and sum + part or part end)
  return sum / counted(x, g, with_padding)
end

-- The average of bytes, where padding is the one that stands for 0; nil: it is none of one call.
local function average_of_bytes(x, g, with_padding, zero)
  if not is_flat(x, g, true) or with_padding and not g.exact then return nil end
  local o = flat_options(g, g.after)
  o.average, o.x_zero, o.skip_padding = true, zero, not with_padding
  return ridge.scaled_pool2d(x, g.kernel, o)
end

function M.AveragePool(n, x)
  local g, with_padding = geometry(n, x), n:int('count_include_pad', 0) == 1
  if n.byte then return average_of_bytes(x, g, with_padding, n.byte) end -- qdq_moves.lua
  return average(x, g, with_padding)
end

function M.LpPool(n, x)
  local p, g, sum = n:int('p', 2), geometry(n, x), nil
  places(p == 2 and x:square() or x:abs():pow(p), g, 0, function(part)
    sum = sum and sum + part or part
  end)
  return p == 2 and sum:sqrt() or sum:pow(1 / p)
end

-- -- All at once --------------------------------------------------------------------------------

local function behind(x)
  local axes = {}
  for axis = 3, x.ndim do axes[#axes + 1] = axis end
  return axes
end

function M.GlobalAveragePool(_, x) return x:mean(behind(x), true) end
function M.GlobalMaxPool(_, x) return x:max(behind(x), true) end

function M.GlobalLpPool(n, x)
  local p = n:int('p', 2)
  if p == 2 then return x:square():sum(behind(x), true):sqrt() end
  return x:abs():pow(p):sum(behind(x), true):pow(1 / p)
end

return M

-- SPDX-License-Identifier: MIT
--- Views, joining and taking as operators of ONNX; sizes that follow a dynamic axis.

local make = require('ridge.tensor.make').here
local axis_of = require('ridge.onnx.emit_elementwise').axis
local emit = require 'ridge.onnx.emit'
local same = require('ridge.onnx.sizes').same

local M = {}

local records = emit.records
local END = 2 ^ 53 -- of an axis, whatever its size

-- -- Sizes as values ----------------------------------------------------------------------------

-- A size that follows a dynamic axis, as a list of one number.
local function size_of(e, size)
  if size.mixed then
    e:refuse(e.at, size.mixed)
  end
  local key = ('size %g %g %s'):format(size.a, size.b, size.name)
  if e.lists[key] then return e.lists[key] end
  local place = e.sizes:place(size.name)
  local shape = e:node('Shape', { e.graph.inputs[place.input].name })
  local name = e:node('Gather', { shape, e:ints { place.axis - 1 } }, { axis = 0 })
  if size.a ~= 1 then name = e:node('Mul', { name, e:ints { size.a } }) end
  if size.b ~= 0 then name = e:node('Add', { name, e:ints { size.b } }) end
  e.lists[key] = name
  return name
end

-- A list of sizes as a value.
local function vector(e, list)
  local follows = false
  for _, size in ipairs(list) do follows = follows or type(size) == 'table' end
  if not follows then return e:ints(list) end
  local parts = {}
  for i, size in ipairs(list) do
    parts[i] = type(size) == 'table' and size_of(e, size) or e:ints { size }
  end
  return #parts == 1 and parts[1] or e:node('Concat', parts, { axis = 0 })
end

-- A tensor without elements: a 0 in a Reshape would be the size that the axis had.
local function nothing(e, shape)
  return e:node('ConstantOfShape', { vector(e, shape) }, { value = { name = '',
    value = make.full(0, 1, { dtype = e.at.outputs[1].dtype }) } })
end

--- Write a Reshape that runs at every size of the dynamic axes: 0 keeps an axis of the input, -1 is
--- what is left.
---@param e table
---@param x string
---@param from table sizes of x
---@param to table sizes
---@return string
function M.reshape(e, x, from, to)
  local list, open = {}, 0
  for i, size in ipairs(to) do
    if type(size) ~= 'table' then
      if size == 0 and from[i] ~= 0 then return nothing(e, to) end
      list[i] = size
    elseif from[i] and same(from[i], size) then
      list[i] = 0
    else
      open = open + 1
      list[i] = -1
    end
  end
  if open > 1 then
    for i, size in ipairs(to) do list[i] = size end
    return e:node('Reshape', { x, vector(e, list) })
  end
  return e:node('Reshape', { x, e:ints(list) })
end

-- -- Views ----------------------------------------------------------------------------------------

local function reshape(e, node, names)
  return M.reshape(e, names[1], e:shape(node.inputs[1]), e:shape(node.outputs[1]))
end

records.reshape, records.view = reshape, reshape

function records.unsqueeze(e, node, names)
  local axis = node.args.axis
  return e:node('Unsqueeze', { names[1], e:ints { axis > 0 and axis - 1 or axis } })
end

function records.squeeze(e, node, names)
  if #node.outputs[1].shape == #node.inputs[1].shape then return names[1] end
  return e:node('Squeeze', { names[1], e:ints { axis_of(node.args.axis) } })
end

function records.permute(e, node, names)
  local perm = {}
  for i, axis in ipairs(node.args.order) do perm[i] = axis - 1 end
  return e:node('Transpose', { names[1] }, { perm = perm })
end

--- The order of n axes with two exchanged, from 0.
---@param n number
---@param a number from 1, or below 0
---@param b number
---@return number[]
function M.exchanged(n, a, b)
  local perm = {}
  for i = 1, n do perm[i] = i - 1 end
  a, b = a > 0 and a or a + n + 1, b > 0 and b or b + n + 1
  perm[a], perm[b] = b - 1, a - 1
  return perm
end

function records.transpose(e, node, names)
  local n = #node.inputs[1].shape
  if n < 2 then return names[1] end
  return e:node('Transpose', { names[1] }, { perm = M.exchanged(n, node.args.a, node.args.b) })
end

-- Where an axis begins or ends: a number, or one that follows a dynamic axis.
local function plus(x, y, times)
  times = times or 1
  if type(x) ~= 'table' and type(y) ~= 'table' then return x + times * y end
  for _, size in ipairs { x, y } do
    if type(size) == 'table' and size.mixed then return size end
  end
  if type(x) == 'table' and type(y) == 'table' then
    if x.name ~= y.name then return { mixed = 'a size follows two dynamic axes at once' } end
    local a = x.a + times * y.a
    return a ~= 0 and { a = a, b = x.b + times * y.b, name = x.name } or x.b + times * y.b
  end
  if type(x) == 'table' then return { a = x.a, b = x.b + times * y, name = x.name } end
  return { a = times * y.a, b = x + times * y.b, name = y.name }
end

local function slice(e, x, axis, size, from, length, step)
  local last = plus(from, length, step)
  local upto = plus(last, 1 - step) -- behind the last element
  if same(upto, size) then upto = END end
  return e:node('Slice', { x, vector(e, { from }), vector(e, { upto }), e:ints { axis },
    e:ints { step } })
end

function records.narrow(e, node, names)
  local axis = axis_of(node.args.axis)
  if axis < 0 then axis = axis + #node.inputs[1].shape end
  local from = plus(e.sizes:arg(node, 'start'), -1)
  return slice(e, names[1], axis, e:shape(node.inputs[1])[axis + 1], from,
    e.sizes:arg(node, 'length'), node.args.step or 1)
end

function records.select(e, node, names)
  local axis = axis_of(node.args.axis)
  if axis < 0 then axis = axis + #node.inputs[1].shape end
  local at = plus(e.sizes:arg(node, 'index'), -1)
  if type(at) ~= 'table' then
    return e:node('Gather', { names[1], e:number(at, 'i64') }, { axis = axis })
  end
  local one = e:node('Gather', { names[1], size_of(e, at) }, { axis = axis })
  return e:node('Squeeze', { one, e:ints { axis } })
end

function records.expand(e, node, names)
  return e:node('Expand', { names[1], vector(e, e:shape(node.outputs[1])) })
end

function records.detach(_, _, names) return names[1] end

function records.copy(e, node, names)
  if not node.inputs[1] then return nil end
  return e:cast(names[1], node.inputs[1].dtype, node.outputs[1].dtype)
end

-- -- Making, joining, taking ----------------------------------------------------------------------

function records.fill(e, node)
  local value = node.outputs[1]
  if node.inputs[1] then e:refuse(node, 'it fills a part of a tensor') end
  local shape = e:shape(value)
  for _, size in ipairs(shape) do
    if type(size) == 'table' then
      return e:node('ConstantOfShape', { vector(e, shape) },
        { value = { name = '', value = make.full(node.args.value, 1, { dtype = value.dtype }) } })
    end
  end
  local sizes = { unpack(shape) }
  sizes[#sizes + 1] = { dtype = value.dtype }
  return e:weight(e.prefix .. 'fill', make.full(node.args.value, unpack(sizes)))
end

function records.arange(e, node)
  local value = node.outputs[1]
  local n = e:shape(value)[1]
  if #value.shape ~= 1 or type(n) == 'table' then
    e:refuse(node, 'its length follows a dynamic axis')
  end
  local numbers = {}
  for i = 1, n do numbers[i] = node.args.start + (i - 1) * node.args.step end
  return e:weight(e.prefix .. 'arange', n > 0 and make.tensor(numbers, { dtype = 'f64' })
    :to(value.dtype) or make.empty(0, { dtype = value.dtype }))
end

function records.concat(e, node, names)
  local kind, list = node.outputs[1].dtype, {}
  for i, name in ipairs(names) do list[i] = e:cast(name, node.inputs[i].dtype, kind) end
  return e:node('Concat', list, { axis = axis_of(node.args.axis) })
end

-- Indices as i64 or i32.
local function index_of(e, node, i, names)
  local kind = node.inputs[i].dtype
  return kind == 'i32' and names[i] or e:cast(names[i], kind, 'i64')
end

function records.take(e, node, names)
  return e:node('Gather', { names[1], index_of(e, node, 2, names) }, { axis = 0 })
end

function records.gather(e, node, names)
  return e:node('GatherElements', { names[1], index_of(e, node, 2, names) },
    { axis = axis_of(node.args.axis) })
end

local REDUCTION = { [1] = 'add', [2] = 'mul', [3] = 'max', [4] = 'min' }

function records.scatter(e, node, names)
  local how = REDUCTION[node.args.reduce]
  local since = how == nil and 13 or node.args.reduce <= 2 and 16 or 18
  if e.opset < since then
    e:refuse(node, ('ScatterElements with %s needs opset = %d'):format(how, since))
  end
  return e:node('ScatterElements', { names[1], index_of(e, node, 2, names), names[3] },
    { axis = axis_of(node.args.axis), reduction = how })
end

-- -- Order ----------------------------------------------------------------------------------------

local function top(e, node, x, k, largest)
  local kind = node.outputs[2] and node.outputs[2].dtype or 'i64'
  local outputs = { e:name(e.prefix .. 'TopK'),
    kind == 'i64' and e:wanted(node.outputs[2]) or e:name(e.prefix .. 'TopK_index') }
  e:node('TopK', { x, k }, { axis = axis_of(node.args.axis), largest = largest and 1 or 0 },
    outputs)
  return outputs[1], e:cast(outputs[2], 'i64', kind)
end

function records.topk(e, node, names)
  return top(e, node, names[1], e:ints { node.args.k }, node.args.largest)
end

function records.sort(e, node, names)
  local shape, axis = e:shape(node.inputs[1]), axis_of(node.args.axis)
  if axis < 0 then axis = axis + #shape end
  return top(e, node, names[1], vector(e, { shape[axis + 1] }), node.args.descending)
end

-- -- Edges ----------------------------------------------------------------------------------------

local MODE = { [0] = 'constant', 'reflect', 'edge', 'wrap' }

-- Elements of the other end in front of and behind an axis, by cutting and joining.
local function wrapped(e, node, x)
  for i, size in ipairs(e:shape(node.inputs[1])) do
    local low, high = node.args.low[i], node.args.high[i]
    if low ~= 0 or high ~= 0 then
      if type(size) == 'table' or low > size or high > size then
        e:refuse(node, 'it wraps around an axis of any size, or more than once')
      end
      local cut, parts = math.max(0, -low), {}
      local left = size - cut - math.max(0, -high)
      if low > 0 then parts[1] = slice(e, x, i - 1, size, size - low, low, 1) end
      parts[#parts + 1] = left == size and x or slice(e, x, i - 1, size, cut, left, 1)
      if high > 0 then parts[#parts + 1] = slice(e, x, i - 1, size, 0, high, 1) end
      x = #parts == 1 and parts[1] or e:node('Concat', parts, { axis = i - 1 })
    end
  end
  return x
end

function records.pad(e, node, names)
  local pads, args = {}, node.args
  for i = 1, #node.inputs[1].shape do
    pads[i], pads[i + #node.inputs[1].shape] = args.low[i], args.high[i]
  end
  local mode = MODE[args.mode]
  if mode == 'wrap' then return wrapped(e, node, names[1]) end
  return e:node('Pad', { names[1], e:ints(pads), mode == 'constant'
    and e:number(args.value, node.outputs[1].dtype) or '' }, { mode = mode })
end

-- -- Another size ---------------------------------------------------------------------------------

local RESAMPLE = { [0] = 'nearest', 'linear', 'cubic' }
local COORDINATES = { [0] = 'half_pixel', 'pytorch_half_pixel', 'align_corners', 'asymmetric',
  'half_pixel_symmetric' } -- then a crop
local NEAREST = { [0] = 'round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil' }

function records.resample(e, node, names)
  local args, mode = node.args, RESAMPLE[node.args.mode]
  local coordinates = COORDINATES[args.coordinates]
  local axis = args.axis > 0 and args.axis or args.axis + #node.inputs[1].shape + 1
  local ratio = node.outputs[1].shape[axis] / node.inputs[1].shape[axis]
  if not coordinates or args.scale ~= 0 and math.abs(args.scale - ratio) > 1e-12 * ratio then
    e:refuse(node, 'a crop, or a scale that is not the ratio of the sizes')
  end
  local since = coordinates == 'half_pixel_symmetric' and 19 or args.antialias and 18 or 13
  if e.opset < since then e:refuse(node, ('Resize so needs opset = %d'):format(since)) end
  return e:node('Resize', { names[1], '', '', vector(e, e:shape(node.outputs[1])) },
    { mode = mode, coordinate_transformation_mode = coordinates,
      nearest_mode = mode == 'nearest' and NEAREST[args.rounding] or nil,
      exclude_outside = args.exclude and 1 or nil, antialias = args.antialias and 1 or nil,
      cubic_coeff_a = mode == 'cubic' and args.cubic or nil })
end

for op, upper in pairs { tril = 0, triu = 1 } do
  records[op] = function(e, node, names)
    if e.opset < 14 then e:refuse(node, 'Trilu needs opset = 14') end
    return e:node('Trilu', { names[1], e:number(node.args.diagonal, 'i64') }, { upper = upper })
  end
end

return M

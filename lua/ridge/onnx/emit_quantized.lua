-- SPDX-License-Identifier: MIT
--- Products of bytes and of a few bits as operators of ONNX: QuantizeLinear and DequantizeLinear
--- (QDQ) around the operator in f32, which whoever runs the file makes one of whole numbers.

local elementwise = require 'ridge.onnx.emit_elementwise'
local emit = require 'ridge.onnx.emit'
local fields = require 'ridge.onnx.fields'
local layers = require 'ridge.onnx.emit_layers'
local make = require('ridge.tensor.make').here
local packed = require 'ridge.tensor.packed'
local shapes = require 'ridge.onnx.emit_shape'

local records = emit.records

-- -- Scales and zero points ---------------------------------------------------------------------

-- A scale as the operators take it: without axes where it is one number, else with one.
local function scale_of(e, node, name)
  local x = e:known(name)
  if not x then e:refuse(node, 'a scale is not known when the file is written') end
  if x.count == 1 then
    return x.ndim == 0 and name or e:derived(name, '.scalar', function(s) return s:reshape {} end)
  end
  return x.ndim == 1 and name or e:derived(name, '.flat', function(s) return s:reshape(s.count) end)
end

local function single(e, name) return e:known(name).ndim == 0 end

local function zero_of(e, value, dtype) return e:number(value, dtype) end

local function dequantized(e, node, name, scale, zero, axis)
  scale = scale_of(e, node, scale)
  return e:node('DequantizeLinear', { name, scale, zero or '' },
    { axis = not single(e, scale) and axis or nil })
end

-- A result in f32 as the type that was asked for; bytes get their scale and zero point.
local function result(e, node, y, scale)
  local dtype = node.outputs[1].dtype
  if dtype ~= 'i8' and dtype ~= 'u8' then return e:cast(y, 'f32', dtype) end
  return e:node('QuantizeLinear', { y, scale_of(e, node, scale),
    zero_of(e, node.args.y_zero, dtype) })
end

-- -- Conversions --------------------------------------------------------------------------------

-- Scales along an axis, or of groups of it, which came with version 21.
local function along(e, node, names, op, more)
  local scale, args = e:known(names[2]), node.args
  if not scale then e:refuse(node, 'its scale is not known when the file is written') end
  local zero = names[3] or ''
  local x = node.inputs[1]
  if scale.count == 1 then
    local one = function(v) return v:reshape {} end
    return e:node(op, { names[1], e:derived(names[2], '.scalar', one),
      zero ~= '' and e:derived(zero, '.scalar', one) or '' }, more)
  end
  local axis = args.axis < 0 and args.axis + #x.shape or args.axis - 1
  local attributes = { axis = axis }
  for name, value in pairs(more or {}) do attributes[name] = value end
  local list = { names[1], names[2], zero }
  if args.group > 0 then
    if e.opset < 21 then
      e:refuse(node, 'scales of groups need operators of version 21 (opset = 21)')
    end
    attributes.block_size = args.group
    local shape = {}
    for i, size in ipairs(x.shape) do
      shape[i] = i == axis + 1 and math.ceil(size / args.group) or size
    end
    for i = 2, 3 do
      if list[i] ~= '' then
        list[i] = e:derived(list[i], '.groups', function(v) return v:expand(shape):contiguous() end)
      end
    end
  else
    for i = 2, 3 do
      if list[i] ~= '' and e:known(list[i]).ndim ~= 1 then
        list[i] = e:derived(list[i], '.flat', function(v) return v:reshape(v.count) end)
      end
    end
  end
  return e:node(op, list, attributes)
end

function records.quantize(e, node, names)
  local x = e:cast(names[1], node.inputs[1].dtype, 'f32')
  local list = { x, names[2], names[3] or '' }
  if list[3] == '' then -- the type of the result is that of the zero point
    list[3] = e:weight(e.prefix .. 'zero', make.zeros(e:known(names[2]) and e:known(names[2]).shape
      or {}, { dtype = node.outputs[1].dtype }))
  end
  return along(e, node, list, 'QuantizeLinear')
end

function records.dequantize(e, node, names)
  return e:cast(along(e, node, names, 'DequantizeLinear'), 'f32', node.outputs[1].dtype)
end

-- Rows in i8, each by its largest: as numbers, and their scales.
local function by_rows(e, x)
  local most = elementwise.reduce(e, 'ReduceMax', e:node('Abs', { x }), { -1 }, true)
  local least = e:node('Max', { most, e:number(2 ^ -126, 'f32') }) -- of a row of zeros
  local scale = e:node('Div', { least, e:number(127, 'f32') })
  return e:node('Round', { e:node('Div', { x, scale }) }), scale
end

-- -- Products -----------------------------------------------------------------------------------

-- The product in f32 of what bytes stand for; an i32 bias is in units of both scales.
local function bias_of(e, node, name, x_scale, w_scale)
  if not name or name == '' then return '' end
  local b = e:known(name)
  if not b then e:refuse(node, 'its bias is not known when the file is written') end
  if b.dtype ~= 'i32' then return e:cast(name, b.dtype, 'f32') end
  local x = e:known(x_scale)
  if not x or x.count ~= 1 then e:refuse(node, 'its bias is in units of a scale of every row') end
  local scale = e:derived(w_scale, '.bias', function(s)
    return (s:to 'f64' * x:to('f64'):reshape(1)):to('f32'):reshape(s.count)
  end)
  return dequantized(e, node, name, scale, nil, 0)
end

local function need_weight(e, node, name)
  if not e:known(name) then e:refuse(node, 'its weight is not known when the file is written') end
  if e:known(name).dtype ~= 'i8' then
    e:refuse(node, ('ONNX has no product of %s with scales'):format(e:known(name).dtype))
  end
end

-- Rows with scales of their own: sums in i32, and both scales behind them.
local function rows_product(e, node, names)
  local kind, x, scale = node.inputs[1].dtype, names[1]
  if node.args.x_zero ~= 0 then e:refuse(node, 'rows with their own scales have a zero point') end
  if names[3] == '' then
    x, scale = by_rows(e, e:cast(x, kind, 'f32'))
    x = e:node('Cast', { x }, { to = fields.type.i8 })
  else
    local shape = e:shape(node.inputs[1])
    local sizes = { unpack(shape) }
    sizes[#sizes] = 1
    scale = shapes.reshape(e, names[3], e:shape(node.inputs[3]), sizes)
  end
  local sums = e:node('MatMulInteger', { x, layers.transposed(e, names[2], 2) })
  local y = e:node('Mul', { e:node('Cast', { sums }, { to = fields.type.f32 }), scale })
  y = e:node('Mul', { y, scale_of(e, node, names[4]) })
  local bias = names[5] or ''
  if bias == '' then return y end
  if e:known(bias) and e:known(bias).dtype == 'i32' then
    e:refuse(node, 'its bias is in units of a scale of every row')
  end
  return e:node('Add', { y, e:cast(bias, node.inputs[5].dtype, 'f32') })
end

function records.scaled_linear(e, node, names)
  need_weight(e, node, names[2])
  local y
  if names[3] == '' or not e:known(names[3]) or e:known(names[3]).count ~= 1 then
    y = rows_product(e, node, names)
  else
    local kind = node.inputs[1].dtype
    local x = dequantized(e, node, names[1], names[3], zero_of(e, node.args.x_zero, kind))
    local bias = bias_of(e, node, names[5], names[3], names[4])
    if #node.inputs[1].shape == 2 then
      y = e:node('Gemm', { x, dequantized(e, node, names[2], names[4], nil, 0), bias },
        { transB = 1 })
    else
      local w = layers.transposed(e, names[2], 2)
      y = e:node('MatMul', { x, dequantized(e, node, w, names[4], nil, 1) })
      if bias ~= '' then y = e:node('Add', { y, bias }) end
    end
  end
  return result(e, node, elementwise.activation(e, node.args.act, y, 'f32'), names[6])
end

function records.scaled_conv2d(e, node, names)
  need_weight(e, node, names[2])
  local args, w = node.args, node.inputs[2].shape
  return layers.first(e, node, names[1], function(bytes)
    local x = dequantized(e, node, bytes, names[3], zero_of(e, args.x_zero, node.inputs[1].dtype))
    local y = e:node('Conv', { x, dequantized(e, node, names[2], names[4], nil, 0),
      bias_of(e, node, names[5], names[3], names[4]) }, { kernel_shape = { w[3], w[4] },
      strides = args.stride, dilations = args.dilation, pads = layers.pads(args),
      group = args.groups })
    return result(e, node, elementwise.activation(e, args.act, y, 'f32'), names[6])
  end)
end

-- -- Sums and pooling ---------------------------------------------------------------------------

function records.scaled_add(e, node, names)
  local args = node.args
  local y = dequantized(e, node, names[1], names[2], zero_of(e, args.a_zero, node.inputs[1].dtype))
  if (names[3] or '') ~= '' then
    y = e:node('Add', { y, dequantized(e, node, names[3], names[4],
      zero_of(e, args.b_zero, node.inputs[3].dtype)) })
  end
  return result(e, node, elementwise.activation(e, args.act, y, 'f32'), names[5])
end

function records.scaled_pool2d(e, node, names)
  local args, dtype = node.args, node.inputs[1].dtype
  local attributes = { kernel_shape = args.size, strides = args.stride, pads = layers.pads(args) }
  return layers.first(e, node, names[1], function(x)
    if not args.average then return e:node('MaxPool', { x }, attributes) end
    attributes.count_include_pad = args.skip_pad and 0 or 1
    local one, zero = e:number(1, 'f32'), zero_of(e, args.x_zero, dtype)
    local y = e:node('AveragePool', { e:node('DequantizeLinear', { x, one, zero }) }, attributes)
    return e:node('QuantizeLinear', { y, one, zero })
  end)
end

-- -- Few bits -----------------------------------------------------------------------------------

function records.packed_linear(e, node, names)
  local w, scale = e:known(names[2]), e:known(names[3])
  local min = (names[4] or '') ~= '' and names[4] or nil
  if not w or not scale or min and not e:known(min) then
    e:refuse(node, 'its weight is not known when the file is written')
  end
  if (names[6] or '') ~= '' then e:refuse(node, 'x comes with a scale of every row') end
  local bits, group, rows = node.args.bits, node.args.group, node.outputs[1].shape
  local n_out = rows[#rows]
  local grouped = e:derived(names[2], '.codes', function(v)
    return packed.unpack_bits(v, { bits = bits }):reshape(-1, group):contiguous()
  end)
  local flat = e:derived(names[3], '.flat', function(s) return s:to('f32'):reshape(s.count) end)
  local zero = min and '' or e:weight(names[2] .. '.zero',
    make.full(2 ^ (bits - 1), scale.count, { dtype = 'u8' }))
  local y = e:node('DequantizeLinear', { grouped, flat, zero }, { axis = 0 })
  if min then
    y = e:node('Add', { y, e:derived(min, '.column', function(m)
      return m:to('f32'):reshape(m.count, 1)
    end) })
  end
  y = e:node('Reshape', { y, e:ints { n_out, scale.count * group / n_out } })
  y = e:node('Transpose', { y }, { perm = { 1, 0 } })
  local kind = node.inputs[1].dtype
  y = e:node('MatMul', { e:cast(names[1], kind, 'f32'), y })
  if (names[5] or '') ~= '' then
    y = e:node('Add', { y, e:cast(names[5], node.inputs[5].dtype, 'f32') })
  end
  y = elementwise.activation(e, node.args.act, y, 'f32')
  return e:cast(y, 'f32', node.outputs[1].dtype)
end

-- SPDX-License-Identifier: MIT
--- Products, convolutions, pooling, normalisation and attention as operators of ONNX.

local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local code = require('ridge.tensor.dtype').code
local ref = require 'ridge.ffi.ref'
local concat = require('ridge.tensor.ops').concat
local make = require('ridge.tensor.make').here
local elementwise = require 'ridge.onnx.emit_elementwise'
local emit = require 'ridge.onnx.emit'
local shapes = require 'ridge.onnx.emit_shape'

local records = emit.records
local activation = elementwise.activation

-- -- Products -----------------------------------------------------------------------------------

-- All inputs in the type of the result.
local function same_type(e, node, names)
  local kind, list = node.outputs[1].dtype, {}
  for i, name in ipairs(names) do
    list[i] = name ~= '' and e:cast(name, node.inputs[i].dtype, kind) or ''
  end
  return list, kind
end

local function transposed(e, name, ndim)
  if e:known(name) then
    return e:derived(name, '.transposed', function(x)
      return x:transpose(-2, -1):contiguous()
    end)
  end
  return e:node('Transpose', { name }, { perm = shapes.exchanged(ndim, -2, -1) })
end

local function plus_bias(e, y, bias)
  return bias ~= '' and bias and e:node('Add', { y, bias }) or y
end

function records.matmul(e, node, names)
  if node.args.compute ~= -1 then e:refuse(node, 'its result is of a type of its own') end
  return e:node('MatMul', (same_type(e, node, names)))
end

function records.linear(e, node, names)
  local list, kind = same_type(e, node, names)
  local y
  if #node.inputs[1].shape == 2 then
    y = e:node('Gemm', { list[1], list[2], list[3] or '' }, { transB = 1 })
  else
    y = plus_bias(e, e:node('MatMul', { list[1], transposed(e, list[2], 2) }), list[3])
  end
  return activation(e, node.args.act, y, kind)
end

function records.lowrank_linear(e, node, names)
  local list, kind = same_type(e, node, names)
  local y = e:node('MatMul', { e:node('MatMul', { list[1], list[2] }), list[3] })
  return activation(e, node.args.act, plus_bias(e, y, list[4]), kind)
end

-- A weight times 1 / (2 T).
local function scaled(e, name, terms, kind)
  local by = 1 / (2 * terms)
  if e:known(name) then
    return e:derived(name, ('.scaled_%d'):format(2 * terms), function(x) return x:mul(by) end)
  end
  return e:node('Mul', { name, e:number(by, kind) })
end

function records.sketched_linear(e, node, names)
  if node.args.p > 0 then e:refuse(node, 'it drops out, as in training') end
  local list, kind = same_type(e, node, names)
  local z = e:node('MatMul', { list[1], list[2] })
  local y = e:node('MatMul', { z, scaled(e, list[3], node.args.n_terms, kind) })
  return activation(e, node.args.act, plus_bias(e, y, list[4]), kind)
end

-- The signs that a sketch keeps as bits, as numbers: +-1/sqrt(R).
local function expanded(bits, cols, rank, dtype)
  call.run('onnx.export', C.rg_expand_signs, bits._t, cols, rank ^ -0.5, code(dtype, 'onnx.export'),
    ref.slot)
  return ref.wrap(ref.slot[0])
end

local function drawn(seed, matrix, rows, cols)
  call.run('onnx.export', C.rg_sign_bits, seed._t, matrix, rows, cols, ref.slot)
  return ref.wrap(ref.slot[0])
end

-- Both sketches of a layer from the bits of both.
local function signs(node, s1, s2, bits)
  local width = s1:size(2)
  local rank = width / node.args.n_terms
  return expanded(bits[1], s2:size(2), rank, s1.dtype), expanded(bits[2], width, rank, s1.dtype)
end

local function sketched(e, node, names, s1, u1, u2, s2, bias)
  local left = e:weight(e.prefix .. 'left', concat({ s1, u2 }, 2))
  local right = e:weight(e.prefix .. 'right', concat({ u1, s2 }, 1):mul(1 / (2
    * node.args.n_terms)))
  local kind = node.outputs[1].dtype
  local x = e:cast(names[1], node.inputs[1].dtype, kind)
  local y = e:node('MatMul', { e:node('MatMul', { x, left }), right })
  return activation(e, node.args.act, plus_bias(e, y, bias), kind)
end

local function constant(e, node, name)
  return e:known(name) or e:refuse(node, 'its signs are not known when the file is written')
end

function records.sketched_linear_bits(e, node, names)
  if node.args.p > 0 then e:refuse(node, 'it drops out, as in training') end
  local s1, s2 = constant(e, node, names[2]), constant(e, node, names[5])
  local u1, u2 = signs(node, s1, s2, { constant(e, node, names[3]), constant(e, node, names[4]) })
  return sketched(e, node, names, s1, u1, u2, s2, names[6])
end

function records.sketched_linear_seed(e, node, names)
  if node.args.p > 0 then e:refuse(node, 'it drops out, as in training') end
  local s1, s2 = constant(e, node, names[2]), constant(e, node, names[4])
  local seed = constant(e, node, names[3])
  local width = s1:size(2)
  local u1, u2 = signs(node, s1, s2, { drawn(seed, 1, width, s2:size(2)),
    drawn(seed, 2, s1:size(1), width) })
  return sketched(e, node, names, s1, u1, u2, s2, names[5])
end

-- -- Images -------------------------------------------------------------------------------------

local TO_LAST, TO_FIRST = { 0, 2, 3, 1 }, { 0, 3, 1, 2 }

-- An image with channels first, and f's result back.
local function first(e, node, x, f)
  if node.args.layout ~= 'nhwc' then return f(x) end
  return e:node('Transpose', { f(e:node('Transpose', { x }, { perm = TO_FIRST })) },
    { perm = TO_LAST })
end

local function pads(args)
  return { args.pad_low[1], args.pad_low[2], args.pad_high[1], args.pad_high[2] }
end

function records.conv2d(e, node, names)
  local list, kind = same_type(e, node, names)
  local args, w = node.args, node.inputs[2].shape
  return first(e, node, list[1], function(x)
    local y = e:node('Conv', { x, list[2], list[3] or '' }, { kernel_shape = { w[3], w[4] },
      strides = args.stride, dilations = args.dilation, pads = pads(args), group = args.groups })
    return activation(e, args.act, y, kind)
  end)
end

-- A transposed convolution: the gradient of one for its images.
function records.conv2d_back_data(e, node, names)
  local list, kind = same_type(e, node, names)
  local args, w = node.args, node.inputs[2].shape
  local nhwc = args.layout == 'nhwc'
  local extra = {}
  for i = 1, 2 do
    local at = nhwc and i + 1 or i + 2
    local least = (node.inputs[1].shape[at] - 1) * args.stride[i]
      + args.dilation[i] * (w[i + 2] - 1) + 1 - args.pad_low[i] - args.pad_high[i]
    extra[i] = node.outputs[1].shape[at] - least
    if type(e:shape(node.outputs[1])[at]) == 'table' then
      e:refuse(node, 'the size of its images follows a dynamic axis')
    end
  end
  return first(e, node, list[1], function(x)
    local y = e:node('ConvTranspose', { x, list[2] }, { kernel_shape = { w[3], w[4] },
      strides = args.stride, dilations = args.dilation, pads = pads(args), group = args.groups,
      output_padding = extra })
    return activation(e, args.act, y, kind)
  end)
end

local function pool(op)
  return function(e, node, names)
    local args = node.args
    local strides = args.stride[1] > 0 and args.stride or args.size
    return first(e, node, names[1], function(x)
      return e:node(op, { x }, { kernel_shape = args.size, strides = strides, pads = pads(args),
        count_include_pad = op == 'AveragePool' and (args.skip_pad and 0 or 1) or nil })
    end)
  end
end

records.max_pool2d, records.avg_pool2d = pool 'MaxPool', pool 'AveragePool'

-- -- Normalisation ------------------------------------------------------------------------------

-- A weight of all the same numbers, where a layer has none.
local function or_full(e, name, n, value, kind)
  return name ~= '' and name or e:weight(e.prefix .. (value == 1 and 'ones' or 'zeros'),
    make.full(value, n, { dtype = kind }))
end

function records.batch_norm(e, node, names)
  local args, x = node.args, node.inputs[1]
  if args.batch or args.keep then e:refuse(node, 'it normalises by the batch, as in training') end
  if args.axis ~= 2 and args.axis ~= 2 - #x.shape - 1 then return nil end
  local n = x.shape[2]
  for i = 2, 5 do
    if node.inputs[i] and node.inputs[i].dtype ~= x.dtype then return nil end
  end
  return e:node('BatchNormalization', { names[1], or_full(e, names[2], n, 1, x.dtype),
    or_full(e, names[3], n, 0, x.dtype), names[4], names[5] }, { epsilon = args.eps })
end

function records.layer_norm(e, node, names)
  local list, kind = same_type(e, node, names)
  local shape, args = node.inputs[1].shape, node.args
  local n = shape[#shape]
  if e.opset >= 17 and not args.rms then
    return e:node('LayerNormalization', { list[1], or_full(e, list[2] or '', n, 1, kind),
      list[3] or '' }, { axis = -1, epsilon = args.eps })
  end
  local x = list[1]
  if not args.rms then
    x = e:node('Sub', { x, elementwise.reduce(e, 'ReduceMean', x, { -1 }, true) })
  end
  local power = elementwise.reduce(e, 'ReduceMean', e:node('Mul', { x, x }), { -1 }, true)
  local root = e:node('Sqrt', { e:node('Add', { power, e:number(args.eps, kind) }) })
  local y = e:node('Div', { x, root })
  if list[2] and list[2] ~= '' then y = e:node('Mul', { y, list[2] }) end
  return plus_bias(e, y, list[3])
end

-- Groups as channels of another image, each normalised by itself.
function records.group_norm(e, node, names)
  local list, kind = same_type(e, node, names)
  local shape, groups = e:shape(node.inputs[1]), node.args.groups
  local channels = node.inputs[1].shape[2]
  local rest, follows = channels / groups, false
  for i = 3, #shape do
    follows = follows or type(shape[i]) == 'table'
    rest = follows and -1 or rest * shape[i]
  end
  -- of no images -1 is no size
  local flat = e:node('Reshape', { list[1], e:ints { 0, groups, rest } })
  local y = e:node('InstanceNormalization', { flat, or_full(e, '', groups, 1, kind),
    or_full(e, '', groups, 0, kind) }, { epsilon = node.args.eps })
  if follows then
    y = e:node('Reshape', { y, e:node('Shape', { list[1] }) })
  else
    y = shapes.reshape(e, y, { shape[1], groups }, shape)
  end
  for i, op in ipairs { 'Mul', 'Add' } do
    local name = list[i + 1]
    if name and name ~= '' then
      local sizes = { channels }
      for _ = 3, #shape do sizes[#sizes + 1] = 1 end
      y = e:node(op, { y, e:node('Reshape', { name, e:ints(sizes) }) })
    end
  end
  return y
end

-- -- Attention ----------------------------------------------------------------------------------

-- 0 where a query sees a key, else -infinity; nil where each sees all.
local function unseen(e, node, mask, n, m, kind)
  local block = node.args.block > 0 and node.args.block or 64
  local causal = node.args.causal
  if not causal and not mask then return nil end
  if type(n) == 'table' or type(m) == 'table' then
    e:refuse(node, 'its mask follows a dynamic axis')
  end
  local seen = mask and mask:to('f32'):tolist()
  local rows = {}
  for i = 1, n do
    local row, any = {}, false
    for j = 1, m do
      local visible = (not causal or j <= i)
        and (not seen or seen[math.ceil(i / block)][math.ceil(j / block)] ~= 0)
      row[j] = visible and 0 or -math.huge
      any = any or visible
    end
    if not any then e:refuse(node, ('query %d sees no key'):format(i)) end
    rows[i] = row
  end
  return e:weight(e.prefix .. 'unseen', make.tensor(rows, { dtype = 'f32' }):to(kind))
end

function records.attention(e, node, names)
  local kind = node.outputs[1].dtype
  local function of(i) return e:cast(names[i], node.inputs[i].dtype, kind) end
  local q, k = node.inputs[1].shape, e:shape(node.inputs[2])
  local ndim = #q
  local scale = node.args.scale ~= 0 and node.args.scale or q[ndim] ^ -0.5
  local mask = node.inputs[4] and constant(e, node, names[4])
  local keys = e:node('Transpose', { of(2) }, { perm = shapes.exchanged(ndim, -2, -1) })
  local query = e:node('Mul', { of(1), e:number(scale, kind) })
  local scores = e:node('MatMul', { query, keys })
  local hidden = unseen(e, node, mask, e:shape(node.inputs[1])[ndim - 1], k[ndim - 1], kind)
  if hidden then scores = e:node('Add', { scores, hidden }) end
  return e:node('MatMul', { e:node('Softmax', { scores }, { axis = -1 }), of(3) })
end

-- -- What a file cannot hold --------------------------------------------------------------------

for _, op in ipairs { 'uniform', 'normal', 'signs', 'randint', 'dropout', 'linear_dropout',
  'attention_dropout' } do
  records[op] = function(e, node)
    e:refuse(node, 'it draws random numbers: a file is for evaluation')
  end
end

-- -- Recurrent layers ---------------------------------------------------------------------------

-- ONNX's gates: i o f c and z r h; ridge's, as PyTorch's: i f c o and r z h.
local LSTM, GRU = tonumber(C.RG_CELL_LSTM), tonumber(C.RG_CELL_GRU)
local GATES = { [LSTM] = { 1, 4, 2, 3 }, [GRU] = { 2, 1, 3 } }

local function gates(x, order)
  local n, list = x:size(1) / #order, {}
  for i, at in ipairs(order) do list[i] = x:narrow(1, (at - 1) * n + 1, n) end
  return concat(list, 1)
end

local function identity(n, kind)
  local rows = {}
  for i = 1, n do
    rows[i] = {}
    for j = 1, n do rows[i][j] = i == j and 1 or 0 end
  end
  return make.tensor(rows, { dtype = 'f32' }):to(kind)
end

function records.recurrent(e, node, names)
  local is_lstm = node.args.cell == LSTM
  local order = GATES[node.args.cell]
  local kind = node.outputs[1].dtype
  local w, b = e:known(names[4]), names[5] ~= '' and e:known(names[5])
  local wx, bx = (names[6] or '') ~= '' and e:known(names[6]), (names[7] or '') ~= ''
    and e:known(names[7])
  local missing = names[5] ~= '' and not b or (names[6] or '') ~= '' and not wx
    or (names[7] or '') ~= '' and not bx
  if not order or not w or missing or node.inputs[1].dtype ~= kind or w.dtype ~= kind then
    return nil
  end
  local n = w:size(2)
  local rows = w:size(1)
  wx = wx or identity(rows, kind)
  local none = make.zeros(rows, { dtype = kind })
  local function as(name, x) return e:weight(e.prefix .. name, x:unsqueeze(1):contiguous()) end
  local inputs = { e:node('Transpose', { names[1] }, { perm = { 1, 0, 2 } }),
    as('W', gates(wx, order)), as('R', gates(w, order)),
    as('B', concat({ gates(bx or none, order), gates(b or none, order) }, 1)), '', names[2],
    is_lstm and names[3] or nil }
  local attributes = { hidden_size = n, direction = node.args.backwards and 'reverse' or 'forward',
    linear_before_reset = not is_lstm and 1 or nil }
  local op = is_lstm and 'LSTM' or 'GRU'
  local function state(i, letter)
    return e:wanted(node.outputs[i]) or e:name(e.prefix .. op .. letter)
  end
  local outputs = { e:name(e.prefix .. op), state(2, '_h'), is_lstm and state(3, '_c') or nil }
  e:node(op, inputs, attributes, outputs)
  local y = e:node('Squeeze', { outputs[1], e:ints { 1 } })
  return e:node('Transpose', { y }, { perm = { 1, 0, 2 } }), outputs[2], outputs[3]
end

return { transposed = transposed, first = first, pads = pads }

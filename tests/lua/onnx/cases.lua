-- SPDX-License-Identifier: MIT
--- Operators of ONNX as models of one node: what each gives, written by hand after ONNX's text, and
--- what it refuses (borders_spec.lua, variants_spec.lua).

local ridge = require 'ridge'

local function f(list, dtype) return ridge.tensor(list, { dtype = dtype or 'f32' }) end
local function i64(list) return f(list, 'i64') end
-- 0, 1 ... in a shape
local function count(...)
  local n = 1
  for _, size in ipairs { ... } do n = n * size end
  return ridge.arange(0, n - 1, 1, { dtype = 'f32' }):reshape { ... }
end

local KIND = { number = 'int', string = 'string', table = 'ints' }
local function attributes(list)
  local out = {}
  for name, value in pairs(list or {}) do
    if type(value) == 'table' and value.f then
      out[name] = { type = 'float', value = value.f }
    elseif type(value) == 'table' and type(value[1]) == 'string' then
      out[name] = { type = 'strings', value = value }
    else
      out[name] = { type = KIND[type(value)], value = value }
    end
  end
  return out
end

-- A model of one node; inputs behind the first are in the file where `held` is.
local function model_of(op, version, given, inputs, outputs, held)
  local graph = { name = 'g', nodes = {}, inputs = {}, outputs = {}, values = {},
    initializers = {} }
  local names, made = {}, {}
  for i = 1, inputs.n or #inputs do
    local x = inputs[i]
    names[i] = x and 'i' .. i or ''
    if x and held and i > 1 then
      table.insert(graph.initializers, { name = names[i], value = x })
    elseif x then
      table.insert(graph.inputs, { name = names[i], type = x.dtype })
    end
  end
  for i = 1, outputs or 1 do
    made[i] = 'o' .. i
    graph.outputs[i] = { name = made[i] }
  end
  graph.nodes[1] = { op = op, domain = '', name = 'n', inputs = names, outputs = made,
    attributes = attributes(given) }
  return { opset = { [''] = version }, graph = graph, functions = {}, metadata = {} }
end

local function run(op, version, given, inputs, outputs, held)
  local m = require('ridge.onnx.load').of(model_of(op, version, given, inputs, outputs, held), 'g')
  local args = {}
  for i = 1, inputs.n or #inputs do
    if inputs[i] and not (held and i > 1) then args[#args + 1] = inputs[i] end
  end
  return { m(unpack(args)) }
end

-- 'f32[2] 1 2.5'; -0 is 0
local function text(x)
  local list = { x:describe() }
  if x.count == 0 then return list[1] end
  for _, value in ipairs(x:reshape(-1):tolist()) do
    list[#list + 1] = type(value) == 'boolean' and (value and '1' or '0')
      or ('%.6g'):format(value + 0)
  end
  return table.concat(list, ' ')
end

local x23, x4 = count(2, 3), count(4)
local image = count(1, 1, 3, 3)

local GRU = { f { { { 1 } } }, f { { { 0 }, { 0 }, { 1 } } }, f { { { 0 }, { 0 }, { 1 } } },
  f { { 0, 0, 0, 0, 0, 2 } }, false, f { { { 0.5 } } }, n = 6 }

-- op, version, attributes, inputs, results
local CASES = {
  -- axes from both ends, and what is taken where none is told
  { 'Softmax', 13, {}, { f { { 0, 0 }, { 99, 99 } } }, 'f32[2,2] 0.5 0.5 0.5 0.5' },
  { 'Softmax', 12, {}, { ridge.zeros(2, 2, 2) },
    'f32[2,2,2] 0.25 0.25 0.25 0.25 0.25 0.25 0.25 0.25' },
  { 'Softmax', 12, { axis = 2 }, { ridge.zeros(1, 2, 2) }, 'f32[1,2,2] 0.5 0.5 0.5 0.5' },
  { 'Hardmax', 13, {}, { f { { 1, 3 }, { 0, 4 } } }, 'f32[2,2] 0 1 0 1' },
  { 'Hardmax', 13, { axis = 0 }, { f { { 1, 3 }, { 2, 2 } } }, 'f32[2,2] 0 1 1 0' },
  { 'Hardmax', 13, { axis = 0 }, { f { { 1, 3 }, { 0, 4 } } }, 'f32[2,2] 1 0 0 1' },
  { 'Flatten', 13, {}, { count(2, 1, 2) }, 'f32[2,2] 0 1 2 3' },
  { 'Flatten', 13, { axis = 0 }, { count(2, 2) }, 'f32[1,4] 0 1 2 3' },
  { 'Flatten', 13, { axis = 2 }, { count(2, 2) }, 'f32[4,1] 0 1 2 3' },
  { 'Flatten', 13, { axis = -1 }, { count(2, 1, 2) }, 'f32[2,2] 0 1 2 3' },
  { 'Gather', 13, {}, { x23, i64 { -1 } }, 'f32[1,3] 3 4 5' },
  { 'Gather', 13, { axis = -1 }, { x23, i64 { 2, 0 } }, 'f32[2,2] 2 0 5 3' },
  { 'GatherElements', 13, {}, { x23, i64 { { 1, 0, -1 } } }, 'f32[1,3] 3 1 5' },
  { 'GatherND', 13, {}, { x23, i64 { { 1, -1 }, { 0, 0 } } }, 'f32[2] 5 0' },
  { 'GatherND', 13, { batch_dims = 1 }, { x23, i64 { { 2 }, { 0 } } }, 'f32[2] 2 3' },
  { 'ArgMax', 13, {}, { f { { 1, 3 }, { 1, 2 } } }, 'i64[1,2] 0 0' },
  { 'ArgMax', 13, { select_last_index = 1 }, { f { { 1, 3 }, { 1, 2 } } }, 'i64[1,2] 1 0' },
  { 'ArgMin', 13, { axis = -1, keepdims = 0, select_last_index = 1 }, { f { { 1, 1, 2 } } },
    'i64[1] 1' },
  { 'CumSum', 14, {}, { f { 1, 2, 3 }, i64 { 0 } }, 'f32[3] 1 3 6' },
  { 'CumSum', 14, { exclusive = 1 }, { f { 1, 2, 3 }, i64 { 0 } }, 'f32[3] 0 1 3' },
  { 'CumSum', 14, { reverse = 1 }, { f { 1, 2, 3 }, i64 { -1 } }, 'f32[3] 6 5 3' },
  { 'CumSum', 14, { exclusive = 1, reverse = 1 }, { f { 1, 2, 3 }, i64 { 0 } }, 'f32[3] 5 3 0' },
  { 'TopK', 11, {}, { f { 3, 1, 2 }, i64 { 2 } }, 'f32[2] 3 2', 'i64[2] 0 2' },
  { 'TopK', 11, { largest = 0 }, { f { 3, 1, 2 }, i64 { 2 } }, 'f32[2] 1 2', 'i64[2] 1 2' },
  { 'TopK', 11, { axis = 0 }, { f { { 1, 4 }, { 2, 3 } }, i64 { 1 } }, 'f32[1,2] 2 4',
    'i64[1,2] 1 0' },
  { 'Unique', 11, {}, { f { 2, 1, 2, 0 } }, 'f32[3] 0 1 2', 'i64[3] 3 1 0', 'i64[4] 2 1 2 0',
    'i64[3] 1 1 2' },
  { 'Unique', 11, { sorted = 0 }, { f { 2, 1, 2, 0 } }, 'f32[3] 2 1 0', 'i64[3] 0 1 3',
    'i64[4] 0 1 0 2', 'i64[3] 2 1 1' },
  { 'Unique', 11, { axis = 1 }, { f { { 1, 0, 1 }, { 2, 3, 2 } } }, 'f32[2,2] 0 1 3 2',
    'i64[2] 1 0', 'i64[3] 1 0 1', 'i64[2] 1 2' },
  { 'NonZero', 13, {}, { f { { 1, 0 }, { 0, 2 } } }, 'i64[2,2] 0 1 0 1' },
  { 'NonZero', 13, {}, { f { 0, 0 } }, 'i64[1,0]' },
  { 'NonZero', 13, {}, { f(0) }, 'i64[0,0]' }, { 'NonZero', 13, {}, { f(5) }, 'i64[0,1]' },
  { 'OneHot', 11, {}, { i64 { 1, -1 }, i64 { 3 }, f { 5, 7 } }, 'f32[2,3] 5 7 5 5 5 7' },
  { 'OneHot', 11, { axis = 0 }, { i64 { 1, 2 }, i64 { 3 }, f { 0, 1 } },
    'f32[3,2] 0 0 1 0 0 1' },
  { 'Compress', 11, {}, { x23, f({ 0, 1, 1 }, 'bool') }, 'f32[2] 1 2' },
  { 'Compress', 11, { axis = 0 }, { x23, f({ 0, 1 }, 'bool') }, 'f32[1,3] 3 4 5' },
  { 'Compress', 11, { axis = 1 }, { x23, f({ 0, 0, 0 }, 'bool') }, 'f32[2,0]' },
  { 'Gather', 13, { axis = 1 }, { count(2, 2, 2), i64 { { 1 } } }, 'f32[2,1,1,2] 2 3 6 7' },
  { 'Gather', 13, {}, { x4, f(2, 'i64') }, 'f32[] 2' },
  -- reductions
  { 'ReduceSum', 13, {}, { x23 }, 'f32[1,1] 15' },
  { 'ReduceSum', 13, { keepdims = 0 }, { x23, i64 { -1 } }, 'f32[2] 3 12' },
  { 'ReduceSum', 13, { noop_with_empty_axes = 1 }, { x23 }, 'f32[2,3] 0 1 2 3 4 5' },
  { 'ReduceSum', 13, { noop_with_empty_axes = 1 }, { x23, i64 { 0 } }, 'f32[1,3] 3 5 7' },
  { 'ReduceSum', 11, { axes = { 1 } }, { x23 }, 'f32[2,1] 3 12' },
  { 'ReduceMax', 18, {}, { x23, i64 { 0 } }, 'f32[1,3] 3 4 5' },
  { 'ReduceMax', 17, { axes = { 0 }, keepdims = 0 }, { x23 }, 'f32[3] 3 4 5' },
  { 'ReduceMax', 18, { noop_with_empty_axes = 1 }, { x23 }, 'f32[2,3] 0 1 2 3 4 5' },
  { 'ReduceMin', 18, {}, { f { 4, -2 } }, 'f32[1] -2' },
  { 'ReduceMean', 18, {}, { x23, i64 { 1 } }, 'f32[2,1] 1 4' },
  { 'ReduceProd', 18, {}, { f { 2, 3, 4 } }, 'f32[1] 24' },
  { 'ReduceL1', 18, {}, { f { -3, 4 } }, 'f32[1] 7' },
  { 'ReduceL2', 18, {}, { f { -3, 4 } }, 'f32[1] 5' },
  { 'ReduceSumSquare', 18, {}, { f { -3, 4 } }, 'f32[1] 25' },
  { 'ReduceLogSum', 18, {}, { f { 0.25, 0.75 } }, 'f32[1] 0' },
  { 'ReduceLogSumExp', 18, {}, { f { 1000, -1 / 0 } }, 'f32[1] 1000' },
  { 'ReduceLogSumExp', 18, {}, { f { -1 / 0, -1 / 0 } }, 'f32[1] -inf' },
  { 'ReduceSum', 13, {}, { ridge.zeros(0, 2), i64 { 0 } }, 'f32[1,2] 0 0' },
  { 'ReduceProd', 18, {}, { ridge.zeros(0, 2), i64 { 0 } }, 'f32[1,2] 1 1' },
  { 'ReduceMax', 20, {}, { ridge.zeros(0, 1), i64 { 0 } }, 'f32[1,1] -inf' },
  { 'ReduceMin', 20, { keepdims = 0 }, { ridge.zeros(0, 1), i64 { 0 } }, 'f32[1] inf' },
  -- slices and pieces
  { 'Slice', 13, {}, { x4, i64 { 1 }, i64 { 3 } }, 'f32[2] 1 2' },
  { 'Slice', 13, {}, { x4, i64 { -9 }, i64 { 9 } }, 'f32[4] 0 1 2 3' },
  { 'Slice', 13, {}, { x4, i64 { 0 }, i64 { 4 }, i64 { 0 }, i64 { 3 } }, 'f32[2] 0 3' },
  { 'Slice', 13, {}, { x4, i64 { 3 }, i64 { -9 }, i64 { 0 }, i64 { -1 } }, 'f32[4] 3 2 1 0' },
  { 'Slice', 13, {}, { x4, i64 { 9 }, i64 { 0 }, i64 { 0 }, i64 { -2 } }, 'f32[2] 3 1' },
  -- backwards a start before the first element is the first one, which is not NumPy's rule
  { 'Slice', 13, {}, { x4, i64 { -9 }, i64 { -9 }, i64 { 0 }, i64 { -1 } }, 'f32[1] 0' },
  { 'Slice', 13, {}, { x4, i64 { -5 }, i64 { -2147483648 }, i64 { 0 }, i64 { -2 } }, 'f32[1] 0' },
  { 'Slice', 13, {}, { x4, i64 { -9 }, i64 { 9 }, i64 { 0 }, i64 { -1 } }, 'f32[0]' },
  { 'Slice', 13, {}, { count(0), i64 { -9 }, i64 { -9 }, i64 { 0 }, i64 { -1 } }, 'f32[0]' },
  { 'Slice', 13, {}, { x4, i64 { 2 }, i64 { 1 } }, 'f32[0]' },
  { 'Slice', 13, {}, { x4, i64 { 2 }, i64 { 1 }, i64 { -1 }, i64 { -1 } }, 'f32[1] 2' },
  { 'Slice', 9, { starts = { 1 }, ends = { 3 }, axes = { 1 } }, { x23 }, 'f32[2,2] 1 2 4 5' },
  { 'Split', 18, { num_outputs = 2 }, { count(3) }, 'f32[2] 0 1', 'f32[1] 2' },
  { 'Split', 18, { num_outputs = 3 }, { count(4) }, 'f32[2] 0 1', 'f32[2] 2 3', 'f32[0]' },
  { 'Split', 13, { axis = -1 }, { x23, i64 { 1, 2 } }, 'f32[2,1] 0 3', 'f32[2,2] 1 2 4 5' },
  { 'Split', 11, { split = { 0, 4 } }, { x4 }, 'f32[0]', 'f32[4] 0 1 2 3' },
  { 'Trilu', 14, {}, { count(2, 2) }, 'f32[2,2] 0 1 0 3' },
  { 'Trilu', 14, { upper = 0 }, { count(2, 2) }, 'f32[2,2] 0 0 2 3' },
  { 'Trilu', 14, {}, { count(2, 2), i64 { 1 } }, 'f32[2,2] 0 1 0 0' },
  { 'Trilu', 14, { upper = 0 }, { count(2, 2), i64 { 1 } }, 'f32[2,2] 0 1 2 3' },
  { 'ReverseSequence', 10, {}, { count(3, 2), i64 { 2, 3 } }, 'f32[3,2] 2 5 0 3 4 1' },
  { 'ReverseSequence', 10, { batch_axis = 0, time_axis = 1 }, { x23, i64 { 1, 2 } },
    'f32[2,3] 0 1 2 4 3 5' },
  { 'Tile', 13, {}, { x23, i64 { 1, 2 } }, 'f32[2,6] 0 1 2 0 1 2 3 4 5 3 4 5' },
  { 'Tile', 13, {}, { count(2), i64 { 0 } }, 'f32[0]' },
  { 'Tile', 13, {}, { count(1, 1, 1, 1, 2), i64 { 1, 1, 1, 2, 2 } },
    'f32[1,1,1,2,4] 0 1 0 1 0 1 0 1' },
  { 'Pad', 13, {}, { count(2), i64 { 1, 2 } }, 'f32[5] 0 0 1 0 0' },
  { 'Pad', 13, {}, { count(2), i64 { 1, 0 }, f(7) }, 'f32[3] 7 0 1' },
  { 'Pad', 13, {}, { x4, i64 { -1, 1 } }, 'f32[4] 1 2 3 0' },
  { 'Pad', 13, {}, { x4, i64 { -2, -1 } }, 'f32[1] 2' },
  { 'Pad', 13, { mode = 'edge' }, { x4, i64 { 1, 2 } }, 'f32[7] 0 0 1 2 3 3 3' },
  { 'Pad', 13, { mode = 'reflect' }, { count(3), i64 { 2, 1 } }, 'f32[6] 2 1 0 1 2 1' },
  { 'Pad', 13, { mode = 'reflect' }, { count(1), i64 { 0, 1 } }, 'f32[2] 0 0' },
  { 'Pad', 19, { mode = 'wrap' }, { count(3), i64 { 1, 2 } }, 'f32[6] 2 0 1 2 0 1' },
  { 'Pad', 18, {}, { x23, i64 { 1, 0 }, f(9), i64 { -1 } }, 'f32[2,4] 9 0 1 2 9 3 4 5' },
  { 'Pad', 7, { pads = { 0, 1 }, value = { f = 3 } }, { count(1) }, 'f32[2] 0 3' },
  { 'Pad', 13, { mode = 'edge' }, { x4, i64 { -1, 2 } }, 'f32[5] 1 2 3 3 3' },
  { 'Pad', 13, { mode = 'edge' }, { x4, i64 { 2, -1 } }, 'f32[5] 0 0 0 1 2' },
  { 'CenterCropPad', 18, {}, { count(5), i64 { 2 } }, 'f32[2] 1 2' },
  { 'CenterCropPad', 18, {}, { count(4), i64 { 1 } }, 'f32[1] 1' },
  { 'CenterCropPad', 18, {}, { count(2), i64 { 5 } }, 'f32[5] 0 0 1 0 0' },
  { 'CenterCropPad', 18, { axes = { 1 } }, { x23, i64 { 1 } }, 'f32[2,1] 1 4' },
  { 'DepthToSpace', 13, { blocksize = 2 }, { count(1, 4, 1, 1) }, 'f32[1,1,2,2] 0 1 2 3' },
  { 'DepthToSpace', 13, { blocksize = 2 }, { count(1, 8, 1, 1) }, 'f32[1,2,2,2] 0 2 4 6 1 3 5 7' },
  { 'DepthToSpace', 13, { blocksize = 2, mode = 'CRD' }, { count(1, 8, 1, 1) },
    'f32[1,2,2,2] 0 1 2 3 4 5 6 7' },
  { 'SpaceToDepth', 13, { blocksize = 2 }, { count(1, 2, 2, 2) },
    'f32[1,8,1,1] 0 4 1 5 2 6 3 7' },
  { 'Slice', 13, {}, { count(2, 2), i64 { 2 }, i64 { 2 }, i64 { 1 } }, 'f32[2,0]' },
  { 'Split', 13, { axis = 1 }, { count(2, 2), i64 { 0, 2 } }, 'f32[2,0]', 'f32[2,2] 0 1 2 3' },
  { 'Tile', 13, {}, { count(1, 1, 1, 1, 2), i64 { 1, 1, 1, 2, 0 } }, 'f32[1,1,1,2,0]' },
  { 'Tile', 13, {}, { count(1, 1, 1, 1, 2), i64 { 1, 1, 1, 0, 2 } }, 'f32[1,1,1,0,4]' },
  { 'SpaceToDepth', 13, { blocksize = 2 }, { count(1, 1, 2, 4) },
    'f32[1,4,1,2] 0 2 1 3 4 6 5 7' },
  { 'DepthToSpace', 13, { blocksize = 2 }, { count(1, 4, 1, 2) },
    'f32[1,1,2,4] 0 2 1 3 4 6 5 7' },
  -- shapes
  { 'Shape', 15, { start = 1 }, { x23 }, 'i64[1] 3' },
  { 'Shape', 15, { ['end'] = -1 }, { x23 }, 'i64[1] 2' },
  { 'Shape', 15, { start = -1, ['end'] = 9 }, { x23 }, 'i64[1] 3' },
  { 'Shape', 15, { start = -9 }, { x23 }, 'i64[2] 2 3' },
  { 'Shape', 15, { start = 2 }, { x23 }, 'i64[0]' },
  { 'Reshape', 14, {}, { x23, i64 { 0, -1, 1 } }, 'f32[2,3,1] 0 1 2 3 4 5' },
  { 'Reshape', 14, { allowzero = 1 }, { ridge.zeros(0, 3), i64 { 3, 0 } }, 'f32[3,0]' },
  { 'Squeeze', 13, {}, { count(1, 2, 1) }, 'f32[2] 0 1' },
  { 'Squeeze', 13, {}, { count(1, 2, 1), i64 { -1 } }, 'f32[1,2] 0 1' },
  { 'Squeeze', 11, { axes = { 0 } }, { count(1, 2, 1) }, 'f32[2,1] 0 1' },
  { 'Unsqueeze', 13, {}, { count(2), i64 { 0, -1 } }, 'f32[1,2,1] 0 1' },
  { 'Unsqueeze', 11, { axes = { 1 } }, { count(2) }, 'f32[2,1] 0 1' },
  { 'Unsqueeze', 13, {}, { x23, i64 { 0 } }, 'f32[1,2,3] 0 1 2 3 4 5' },
  { 'Squeeze', 13, {}, { count(1, 2, 1, 3), i64 { 0, 2 } }, 'f32[2,3] 0 1 2 3 4 5' },
  { 'Transpose', 13, {}, { x23 }, 'f32[3,2] 0 3 1 4 2 5' },
  { 'Expand', 13, {}, { count(2, 1), i64 { 2 } }, 'f32[2,2] 0 0 1 1' },
  { 'Range', 11, {}, { f(1), f(4), f(2) }, 'f32[2] 1 3' },
  { 'Range', 11, {}, { f(1), f(5), f(2) }, 'f32[2] 1 3' },
  { 'Range', 11, {}, { f(3), f(0), f(-1) }, 'f32[3] 3 2 1' },
  { 'Range', 11, {}, { f(3), f(3), f(1) }, 'f32[0]' },
  { 'EyeLike', 9, {}, { x23 }, 'f32[2,3] 1 0 0 0 1 0' },
  { 'EyeLike', 9, { k = 1, dtype = 7 }, { x23 }, 'i64[2,3] 0 1 0 0 0 1' },
  { 'EyeLike', 9, { k = -1 }, { x23 }, 'f32[2,3] 0 0 0 1 0 0' },
  { 'ConstantOfShape', 9, {}, { i64 { 2 } }, 'f32[2] 0 0' },
  -- elements
  { 'LeakyRelu', 16, {}, { f { -1, 2 } }, 'f32[2] -0.01 2' },
  { 'ThresholdedRelu', 10, {}, { f { 1, 1.5 } }, 'f32[2] 0 1.5' },
  { 'HardSigmoid', 7, {}, { f { -4, 0, 1, 4 } }, 'f32[4] 0 0.5 0.7 1' },
  { 'Shrink', 9, {}, { f { -1, -0.5, 0.5, 2 } }, 'f32[4] -1 0 0 2' },
  { 'Shrink', 9, { bias = { f = 1 }, lambd = { f = 2 } }, { f { -3, 2, 5 } }, 'f32[3] -2 0 4' },
  { 'Clip', 13, {}, { x4 }, 'f32[4] 0 1 2 3' },
  { 'Clip', 13, {}, { x4, f(1) }, 'f32[4] 1 1 2 3' },
  { 'Clip', 13, {}, { x4, false, f(1), n = 3 }, 'f32[4] 0 1 1 1' },
  { 'Clip', 7, { min = { f = 2 } }, { x4 }, 'f32[4] 2 2 2 3' },
  { 'Clip', 7, { min = { f = 0 }, max = { f = 6 } }, { f { -1, 5, 7 } }, 'f32[3] 0 5 6' },
  { 'Clip', 7, { min = { f = 0 }, max = { f = 5 } }, { f { -1, 5, 7 } }, 'f32[3] 0 5 5' },
  { 'Clip', 13, {}, { f { -1, 5, 7 }, f(0), f(6) }, 'f32[3] 0 5 6' },
  { 'Clip', 13, {}, { i64 { -1, 5, 7 }, i64(0), i64(6) }, 'i64[3] 0 5 6' },
  { 'Elu', 7, { alpha = { f = 2 } }, { f { 0, 1 } }, 'f32[2] 0 1' },
  { 'IsInf', 20, {}, { f { -1 / 0, 1, 1 / 0 } }, 'bool[3] 1 0 1' },
  { 'IsInf', 20, { detect_negative = 0 }, { f { -1 / 0, 1, 1 / 0 } }, 'bool[3] 0 0 1' },
  { 'IsInf', 20, { detect_positive = 0 }, { f { -1 / 0, 1, 1 / 0 } }, 'bool[3] 1 0 0' },
  { 'IsInf', 20, { detect_positive = 0, detect_negative = 0 }, { f { -1 / 0, 0 / 0, 1 } },
    'bool[3] 0 0 0' },
  { 'Mod', 13, {}, { i64 { -3, 3 }, i64 { 2, -2 } }, 'i64[2] 1 -1' },
  { 'Mod', 13, { fmod = 1 }, { i64 { -3, 3 }, i64 { 2, -2 } }, 'i64[2] -1 1' },
  { 'Mean', 13, {}, { f { 1 }, f { 2 }, f { 6 } }, 'f32[1] 3' },
  { 'BitShift', 11, { direction = 'LEFT' }, { f({ 3 }, 'u8'), f({ 2 }, 'u8') }, 'u8[1] 12' },
  { 'BitShift', 11, { direction = 'RIGHT' }, { f({ 12 }, 'u8'), f({ 2 }, 'u8') }, 'u8[1] 3' },
  { 'Cast', 13, { to = 2 }, { i64 { 257, -1 } }, 'u8[2] 1 255' },
  { 'Cast', 13, { to = 3 }, { i64 { 128, -129 } }, 'i8[2] -128 127' },
  { 'Cast', 13, { to = 6 }, { i64 { 2 ^ 31, 5 } }, 'i32[2] -2.14748e+09 5' },
  { 'Cast', 19, { to = 17, saturate = 0 }, { f({ 1.0625 + 1e-12, 1.0625 }, 'f64') },
    'f8e4m3[2] 1.125 1' },
  { 'Cast', 19, { to = 17 }, { f { 1000, -1000, 2 } }, 'f8e4m3[3] 448 -448 2' },
  -- windows
  { 'MaxPool', 12, { kernel_shape = { 2, 2 } }, { image }, 'f32[1,1,2,2] 4 5 7 8' },
  { 'MaxPool', 12, { kernel_shape = { 2, 2 }, strides = { 2, 2 }, ceil_mode = 1 }, { image },
    'f32[1,1,2,2] 4 5 7 8' },
  { 'MaxPool', 12, { kernel_shape = { 2, 2 }, strides = { 2, 2 } }, { image }, 'f32[1,1,1,1] 4' },
  { 'MaxPool', 12, { kernel_shape = { 1, 2 } }, { image }, 'f32[1,1,3,2] 1 2 4 5 7 8',
    'i64[1,1,3,2] 1 2 4 5 7 8' },
  { 'MaxPool', 12, { kernel_shape = { 1, 2 }, storage_order = 1 }, { image },
    'f32[1,1,3,2] 1 2 4 5 7 8', 'i64[1,1,3,2] 3 6 4 7 5 8' },
  { 'MaxPool', 12, { kernel_shape = { 2 }, auto_pad = 'SAME_LOWER' }, { count(1, 1, 3) },
    'f32[1,1,3] 0 1 2' },
  { 'MaxPool', 12, { kernel_shape = { 2 }, auto_pad = 'SAME_UPPER' }, { count(1, 1, 3) },
    'f32[1,1,3] 1 2 2' },
  { 'MaxPool', 12, { kernel_shape = { 2 }, dilations = { 2 } }, { count(1, 1, 4) },
    'f32[1,1,2] 2 3' },
  { 'MaxPool', 12, { kernel_shape = { 3 }, pads = { 1, 1 }, strides = { 3 }, ceil_mode = 1 },
    { count(1, 1, 2) }, 'f32[1,1,1] 1' },
  { 'MaxPool', 12, { kernel_shape = { 2 } }, { f({ { { 3, 1, 2 } } }, 'i8') }, 'i8[1,1,2] 3 2' },
  { 'AveragePool', 12, { kernel_shape = { 2 }, pads = { 1, 0 } }, { f { { { 2, 4 } } } },
    'f32[1,1,2] 2 3' },
  { 'AveragePool', 12, { kernel_shape = { 2 }, pads = { 1, 0 }, count_include_pad = 1 },
    { f { { { 2, 4 } } } }, 'f32[1,1,2] 1 3' },
  { 'AveragePool', 19, { kernel_shape = { 2 }, strides = { 2 }, ceil_mode = 1,
    count_include_pad = 1 }, { f { { { 2, 4, 6 } } } }, 'f32[1,1,2] 3 6' },
  { 'LpPool', 18, { kernel_shape = { 2 } }, { f { { { 3, 4, 0 } } } }, 'f32[1,1,2] 5 4' },
  { 'LpPool', 18, { kernel_shape = { 2 }, p = 1 }, { f { { { 3, -4, 0 } } } }, 'f32[1,1,2] 7 4' },
  { 'GlobalLpPool', 7, {}, { f { { { 3, 4 } } } }, 'f32[1,1,1] 5' },
  { 'GlobalLpPool', 7, { p = 1 }, { f { { { 3, -4 } } } }, 'f32[1,1,1] 7' },
  { 'Conv', 11, { auto_pad = 'VALID' }, { count(1, 1, 3), f { { { 1, 10 } } } },
    'f32[1,1,2] 10 21' },
  { 'Conv', 11, { auto_pad = 'SAME_UPPER' }, { count(1, 1, 3), f { { { 1, 10 } } } },
    'f32[1,1,3] 10 21 2' },
  { 'Conv', 11, { pads = { 1, 0 }, strides = { 2 } }, { count(1, 1, 3), f { { { 1, 10 } } } },
    'f32[1,1,2] 0 21' },
  { 'ConvTranspose', 11, { strides = { 2 } }, { f { { { 1, 2 } } }, f { { { 1, 10 } } } },
    'f32[1,1,4] 1 10 2 20' },
  { 'ConvTranspose', 11, { strides = { 2 }, output_shape = { 3 } },
    { f { { { 1, 2 } } }, f { { { 1, 10 } } } }, 'f32[1,1,3] 10 2 20' },
  { 'ConvTranspose', 11, { strides = { 2 }, output_shape = { 3 }, auto_pad = 'SAME_UPPER' },
    { f { { { 1, 2 } } }, f { { { 1, 10 } } } }, 'f32[1,1,3] 1 10 2' },
  { 'ConvTranspose', 11, { strides = { 2 }, output_padding = { 1 } },
    { f { { { 1, 2 } } }, f { { { 1 } } } }, 'f32[1,1,4] 1 0 2 0' },
  { 'Conv', 11, { strides = { 1, 2 }, dilations = { 2, 1 } }, { image, ridge.ones(1, 1, 2, 1) },
    'f32[1,1,1,2] 6 10' },
  { 'ConvTranspose', 11, { dilations = { 1, 2 } }, { ridge.ones(1, 1, 1, 1),
    f { { { { 1, 2 } } } } }, 'f32[1,1,1,3] 1 0 2' },
  { 'ConvTranspose', 11, { strides = { 2 }, auto_pad = 'SAME_LOWER' },
    { f { { { 1, 2 } } }, f { { { 1, 10, 100 } } } }, 'f32[1,1,4] 10 102 20 200' },
  { 'ConvTranspose', 11, { strides = { 1 }, output_shape = { 5 } },
    { f { { { 1, 2 } } }, f { { { 1 } } } }, 'f32[1,1,5] 0 1 2 0 0' },
  { 'ConvTranspose', 11, { pads = { 1, 0 } }, { f { { { 1, 2 } } }, f { { { 1, 10 } } },
    f { 3 } }, 'f32[1,1,2] 15 23' },
  { 'Col2Im', 18, { strides = { 2 } }, { f { { { 1, 2 }, { 3, 4 } } }, i64 { 4 }, i64 { 2 } },
    'f32[1,1,4] 1 3 2 4' },
  { 'Col2Im', 18, { dilations = { 2 } }, { f { { { 1, 2 }, { 3, 4 } } }, i64 { 4 }, i64 { 2 } },
    'f32[1,1,4] 1 2 3 4' },
  { 'Col2Im', 18, { strides = { 2 } }, { f { { { 1 }, { 3 }, { 5 }, { 7 } } }, i64 { 2 },
    i64 { 2 } }, 'f32[1,2,2] 1 3 5 7' },
  { 'GlobalLpPool', 7, { p = 3 }, { f { { { 3, 4, 5 } } } }, 'f32[1,1,1] 6' },
  { 'LpPool', 18, { kernel_shape = { 3 }, p = 3 }, { f { { { 3, -4, 5 } } } }, 'f32[1,1,1] 6' },
  { 'GlobalAveragePool', 7, {}, { count(1, 2, 2) }, 'f32[1,2,1] 0.5 2.5' },
  { 'GlobalMaxPool', 7, {}, { count(1, 2, 2) }, 'f32[1,2,1] 1 3' },
  { 'Col2Im', 18, { pads = { 1, 0 } }, { f { { { 1, 2 }, { 3, 4 } } }, i64 { 2 }, i64 { 2 } },
    'f32[1,1,2] 5 4' },
  { 'MaxUnpool', 11, { kernel_shape = { 2 }, strides = { 2 } },
    { f { { { 5, 7 } } }, i64 { { { 1, 2 } } } }, 'f32[1,1,4] 0 5 7 0' },
  { 'MaxUnpool', 11, { kernel_shape = { 2 } },
    { f { { { 5, 7 } } }, i64 { { { 1, 2 } } }, i64 { 1, 1, 4 } }, 'f32[1,1,4] 0 5 7 0' },
  -- other sizes
  { 'Resize', 13, {}, { f { 1, 2 }, false, f { 2 }, n = 3 }, 'f32[4] 1 1 2 2' },
  { 'Resize', 13, { mode = 'linear' }, { f { 0, 4 }, false, f { 2 }, n = 3 }, 'f32[4] 0 1 3 4' },
  { 'Resize', 13, { mode = 'linear', coordinate_transformation_mode = 'align_corners' },
    { f { 0, 3 }, false, f { 2 }, n = 3 }, 'f32[4] 0 1 2 3' },
  { 'Resize', 13, { mode = 'linear', coordinate_transformation_mode = 'asymmetric' },
    { f { 0, 4 }, false, f { 2 }, n = 3 }, 'f32[4] 0 2 4 4' },
  { 'Resize', 13, { mode = 'linear', coordinate_transformation_mode = 'pytorch_half_pixel' },
    { f { 3, 5, 7, 9 }, false, false, i64 { 1 }, n = 4 }, 'f32[1] 3' },
  { 'Resize', 13, { mode = 'cubic', coordinate_transformation_mode = 'pytorch_half_pixel' },
    { f { 3, 5, 7, 9 }, false, false, i64 { 1 }, n = 4 }, 'f32[1] 3' },
  { 'Resize', 13, { coordinate_transformation_mode = 'tf_crop_and_resize',
    extrapolation_value = { f = 9 }, mode = 'linear' },
    { f { 0, 2 }, f { 0, 2 }, false, i64 { 3 }, n = 4 }, 'f32[3] 0 2 9' },
  { 'Resize', 13, { nearest_mode = 'floor', coordinate_transformation_mode = 'asymmetric' },
    { count(3), false, false, i64 { 2 }, n = 4 }, 'f32[2] 0 1' },
  { 'Resize', 13, { nearest_mode = 'ceil', coordinate_transformation_mode = 'asymmetric' },
    { count(3), false, false, i64 { 2 }, n = 4 }, 'f32[2] 0 2' },
  { 'Resize', 13, { nearest_mode = 'round_prefer_floor',
    coordinate_transformation_mode = 'asymmetric' }, { count(3), false, false, i64 { 2 }, n = 4 },
    'f32[2] 0 1' },
  { 'Resize', 13, { nearest_mode = 'round_prefer_ceil',
    coordinate_transformation_mode = 'asymmetric' }, { count(3), false, false, i64 { 2 }, n = 4 },
    'f32[2] 0 2' },
  { 'Resize', 18, { keep_aspect_ratio_policy = 'not_larger', axes = { 0, 1 } },
    { count(2, 1), false, false, i64 { 4, 3 }, n = 4 }, 'f32[4,2] 0 0 0 0 1 1 1 1' },
  { 'Resize', 18, { keep_aspect_ratio_policy = 'not_smaller' },
    { count(2, 1), false, false, i64 { 2, 2 }, n = 4 }, 'f32[4,2] 0 0 0 0 1 1 1 1' },
  { 'Resize', 10, {}, { f { 1, 2 }, f { 1.5 } }, 'f32[3] 1 1 2' },
  { 'Upsample', 9, {}, { f { 1, 2 }, f { 2 } }, 'f32[4] 1 1 2 2' },
  -- writing to places
  { 'ScatterElements', 18, {}, { f { 1, 2, 3 }, i64 { -1, 0 }, f { 7, 8 } }, 'f32[3] 8 2 7' },
  { 'ScatterElements', 18, { reduction = 'add' }, { f { 1, 2 }, i64 { 0, 0 }, f { 7, 8 } },
    'f32[2] 16 2' },
  { 'ScatterND', 18, {}, { x23, i64 { { 1, -1 } }, f { 9 } }, 'f32[2,3] 0 1 2 3 4 9' },
  { 'ScatterND', 18, {}, { x23, i64 { { -1 } }, f { { 7, 8, 9 } } }, 'f32[2,3] 0 1 2 7 8 9' },
  { 'TensorScatter', 24, {}, { ridge.zeros(1, 3, 1), f { { { 5 } } }, i64 { 1 } },
    'f32[1,3,1] 0 5 0' },
  { 'TensorScatter', 24, { mode = 'circular' },
    { ridge.zeros(1, 3, 1), f { { { 5 }, { 6 } } }, i64 { 2 } }, 'f32[1,3,1] 6 0 5' },
  -- products
  { 'Gemm', 13, {}, { f { { 1, 2 } }, f { { 1, 2 }, { 3, 4 } } }, 'f32[1,2] 7 10' },
  { 'Gemm', 13, { transB = 1 }, { f { { 1, 2 } }, f { { 1, 2 }, { 3, 4 } }, f { 1, 2 } },
    'f32[1,2] 6 13' },
  { 'Gemm', 13, { transA = 1 }, { f { { 1 }, { 2 } }, f { { 1, 2 }, { 3, 4 } } },
    'f32[1,2] 7 10' },
  { 'Gemm', 13, { transB = 1, alpha = { f = 2 }, beta = { f = 3 } },
    { f { { 1, 2 } }, f { { 1, 2 }, { 3, 4 } }, f { 1, 2 } }, 'f32[1,2] 13 28' },
  { 'Gemm', 13, { transB = 1, beta = { f = 3 } },
    { f { { 1, 2 } }, f { { 1, 2 }, { 3, 4 } }, f { 1, 2 } }, 'f32[1,2] 8 17' },
  { 'Gemm', 13, { transB = 1 }, { f { { 1, 2 } }, f { { 1, 2 }, { 3, 4 } }, f { 7 } },
    'f32[1,2] 12 18' },
  { 'Det', 11, {}, { f { { 1, 2 }, { 3, 4 } } }, 'f32[] -2' },
  { 'Det', 11, {}, { f { { { 2, 0, 1 }, { 0, 3, 0 }, { 1, 0, 2 } } } }, 'f32[1] 9' },
  { 'Einsum', 12, { equation = 'ij,jk->ik' }, { f { { 1, 2 } }, f { { 1, 2 }, { 3, 4 } } },
    'f32[1,2] 7 10' },
  { 'Einsum', 12, { equation = 'ij,jk -> ki' }, { f { { 1, 2 } }, f { { 1, 2 }, { 3, 4 } } },
    'f32[2,1] 7 10' },
  { 'Einsum', 12, { equation = 'ij,jk' }, { count(2, 2), count(2, 3) },
    'f32[2,3] 3 4 5 9 14 19' },
  { 'Einsum', 12, { equation = 'ij,jk->ik' }, { count(2, 2), count(2, 3) },
    'f32[2,3] 3 4 5 9 14 19' },
  { 'Einsum', 12, { equation = 'bij,bjk->bik' }, { count(2, 1, 2), count(2, 2, 3) },
    'f32[2,1,3] 3 4 5 39 44 49' },
  { 'Einsum', 12, { equation = 'ii->i' }, { count(2, 2) }, 'f32[2] 0 3' },
  { 'Einsum', 12, { equation = 'ii' }, { count(2, 2) }, 'f32[] 3' },
  { 'Einsum', 12, { equation = 'ba' }, { x23 }, 'f32[3,2] 0 3 1 4 2 5' },
  { 'Einsum', 12, { equation = '...i->i...' }, { x23 }, 'f32[3,2] 0 3 1 4 2 5' },
  { 'Einsum', 12, { equation = 'i...,...->...' }, { x23, f { 1, 2, 3 } }, 'f32[3] 3 10 21' },
  { 'Einsum', 12, { equation = 'i,i' }, { f { 1, 2 }, f { 3, 4 } }, 'f32[] 11' },
  { 'Einsum', 12, { equation = 'i,j->ij' }, { f { 1, 2 }, f { 3, 4 } }, 'f32[2,2] 3 4 6 8' },
  -- a GRU that resets before or after its product, on the way that has no record of ridge's
  { 'GRU', 14, { hidden_size = 1, linear_before_reset = 1, clip = { f = 99 } }, GRU,
    'f32[1,1,1,1] 0.739013' },
  { 'GRU', 14, { hidden_size = 1, clip = { f = 99 } }, GRU, 'f32[1,1,1,1] 0.748499' },
  { 'GRU', 14, { hidden_size = 1, linear_before_reset = 1 }, GRU, 'f32[1,1,1,1] 0.739013' },
  -- losses, norms, quantized numbers
  { 'NegativeLogLikelihoodLoss', 13, {}, { f { { 1, 2 }, { 3, 4 } }, i64 { 0, 1 } }, 'f32[] -2.5' },
  -- what is left out may be infinite
  { 'NegativeLogLikelihoodLoss', 13, { ignore_index = 0 },
    { f { { -1 / 0, 2 }, { 3, 4 } }, i64 { 0, 1 } }, 'f32[] -4' },
  { 'NegativeLogLikelihoodLoss', 13, { reduction = 'sum' },
    { f { { 1, 2 }, { 3, 4 } }, i64 { 0, 1 } }, 'f32[] -5' },
  { 'NegativeLogLikelihoodLoss', 13, { reduction = 'none', ignore_index = 0 },
    { f { { 1, 2 }, { 3, 4 } }, i64 { 0, 1 } }, 'f32[2] 0 -4' },
  { 'NegativeLogLikelihoodLoss', 13, {},
    { f { { 1, 2 }, { 3, 4 } }, i64 { 0, 1 }, f { 3, 1 } }, 'f32[] -1.75' },
  { 'LpNormalization', 7, {}, { f { { 3, 4 } } }, 'f32[1,2] 0.6 0.8' },
  { 'LpNormalization', 7, { p = 1, axis = 0 }, { f { { 1, 4 }, { 3, -4 } } },
    'f32[2,2] 0.25 0.5 0.75 -0.5' },
  { 'LRN', 13, { size = 2, alpha = { f = 2 }, beta = { f = 1 } },
    { f { { { 1 }, { 2 }, { 0 } } } }, 'f32[1,3,1] 0.166667 0.4 0' },
  { 'Dropout', 13, {}, { f { 1, 2 } }, 'f32[2] 1 2', 'bool[2] 1 1' },
  { 'QuantizeLinear', 13, {}, { f { -1, 1, 1.5, 300 }, f(0.5) }, 'u8[4] 0 2 3 255' },
  { 'QuantizeLinear', 13, {}, { f { -1, 1, 300 }, f(0.5), f(-3, 'i8') }, 'i8[3] -5 -1 127' },
  { 'DequantizeLinear', 13, { axis = 0 }, { f({ { 1, 3 }, { 5, 7 } }, 'u8'), f { 1, 10 },
    f({ 1, 2 }, 'u8') }, 'f32[2,2] 0 2 30 50' },
  { 'DequantizeLinear', 21, { axis = 0, block_size = 2 }, { f({ 1, 2, 3 }, 'u8'), f { 1, 10 } },
    'f32[3] 1 2 30' },
  { 'DynamicQuantizeLinear', 11, {}, { f { 0, 51, 255 } }, 'u8[3] 0 51 255', 'f32[] 1', 'u8[] 0' },
  { 'DynamicQuantizeLinear', 11, {}, { f { -255, 0 } }, 'u8[2] 0 255', 'f32[] 1', 'u8[] 255' },
  { 'MatMulInteger', 10, {}, { f({ { 3, 5 } }, 'u8'), f({ { 1 }, { 2 } }, 'u8'), f(1, 'u8') },
    'i32[1,1] 10' },
}

-- op, version, attributes, inputs, the refusal
local REFUSED = {
  { 'Gather', 13, { axis = 2 }, { x23, i64 { 0 } }, 'there is no axis 2 in a tensor of 2 axes' },
  { 'Gather', 13, { axis = -3 }, { x23, i64 { 0 } }, 'there is no axis -3 in a tensor of 2 axes' },
  { 'Flatten', 13, { axis = 3 }, { x23 }, 'there is no axis 3 in f32[2,3]' },
  { 'Flatten', 13, { axis = -3 }, { x23 }, 'there is no axis -1 in f32[2,3]' },
  { 'Unsqueeze', 13, {}, { x23, i64 { 1, -3 } }, 'axis -3 is named twice' },
  { 'Squeeze', 13, {}, { x23, i64 { 1 } }, 'axis 1 has 3 positions, not one' },
  { 'Transpose', 13, { perm = { 0 } }, { x23 }, 'perm has 1 axes, and the tensor is f32[2,3]' },
  { 'Expand', 13, {}, { x23, i64 { 4 } }, 'sizes 3 and 4 do not broadcast' },
  { 'Reshape', 14, {}, { x4, i64 { 4, 0 } },
    'size 2 is that of the input, which has no such axis' },
  { 'Slice', 13, {}, { x4, i64 { 0 }, i64 { 1 }, i64 { 0 }, i64 { 0 } }, 'a step is 0' },
  { 'Range', 11, {}, { f(0), f(1), f(0) }, 'its step is 0' },
  { 'Range', 11, {}, { f(0), ridge.zeros(0), f(1) }, 'a number is missing' },
  { 'Split', 18, { num_outputs = 2 }, { x4 }, 'it has 1 outputs, and makes 2' },
  { 'Split', 18, { num_outputs = 0 }, { x4 }, 'it has 1 outputs, and makes 0' },
  { 'Pad', 13, { mode = 'middle' }, { x4, i64 { 1, 1 } },
    "2 elements around f32[4] by mode 'middle' cannot be had" },
  { 'Pad', 13, { mode = 'edge' }, { ridge.zeros(0), i64 { 1, 0 } },
    "1 elements around f32[0] by mode 'edge' cannot be had" },
  { 'DepthToSpace', 13, { blocksize = 2 }, { x23 }, 'images have 4 axes, got f32[2,3]' },
  { 'DepthToSpace', 13, {}, { count(1, 4, 1, 1) }, 'attribute blocksize is missing' },
  { 'BitShift', 11, { direction = 'UP' }, { f({ 1 }, 'u8'), f({ 1 }, 'u8') },
    "there is no direction 'UP'" },
  { 'MaxPool', 12, {}, { image }, 'attribute kernel_shape is missing, or is not for f32[1,1,3,3]' },
  { 'MaxPool', 12, { kernel_shape = { 2 } }, { image },
    'attribute kernel_shape is missing, or is not for f32[1,1,3,3]' },
  { 'MaxPool', 12, { kernel_shape = { 4, 1 } }, { image },
    'a window of 4 does not fit into f32[1,1,3,3]' },
  { 'MaxPool', 12, { kernel_shape = { 0, 1 } }, { image },
    'a window of 0 does not fit into f32[1,1,3,3]' },
  { 'MaxPool', 12, { kernel_shape = { 1, 1 }, strides = { 0, 1 } }, { image },
    'strides is 0, and 1 at least' },
  { 'Col2Im', 18, {}, { count(1, 3, 1), i64 { 2 }, i64 { 2 } },
    'f32[1,3,1] holds no blocks of 2 elements' },
  { 'Resize', 13, {}, { x4, n = 1 }, 'neither scales nor sizes are there' },
  { 'Resize', 13, { nearest_mode = 'up' }, { x4, false, f { 2 }, n = 3 },
    "nearest_mode 'up' is none" },
  { 'Resize', 13, { coordinate_transformation_mode = 'up' }, { x4, false, f { 2 }, n = 3 },
    "coordinate_transformation_mode 'up' is none" },
  { 'Resize', 13, {}, { ridge.zeros(0), false, false, i64 { 1 }, n = 4 },
    'an axis of 0 cannot become one of 1' },
  { 'Resize', 13, {}, { x4, false, f { -1 }, n = 3 }, 'an axis of 4 cannot become one of -4' },
  { 'Einsum', 12, { equation = 'i,j' }, { x4 }, '2 terms for 1 inputs' },
  { 'Einsum', 12, { equation = 'ij' }, { x4 }, "'ij' does not fit a tensor of 1 axes" },
  { 'Det', 11, {}, { ridge.zeros(7, 7) }, 'of matrices with 7 rows; at most 6 are computed' },
  { 'LRN', 13, { size = 0 }, { image }, 'size is 0, of f32[1,1,3,3]' },
  { 'LRN', 13, { size = 1 }, { x23 }, 'size is 1, of f32[2,3]' },
  { 'Cast', 13, { to = 8 }, { x4 }, 'there is no element type string in ridge' },
  { 'Cast', 13, { to = 99 }, { x4 }, 'there is no element type 99 in ridge' },
  { 'Cast', 13, { to = 'f32' }, { x4 }, 'attribute to is of type string; expected int' },
  { 'RandomNormal', 7, {}, {}, 'attribute shape is missing' },
}

return { CASES = CASES, REFUSED = REFUSED, model_of = model_of, run = run, text = text,
  attributes = attributes, f = f, i64 = i64, count = count }

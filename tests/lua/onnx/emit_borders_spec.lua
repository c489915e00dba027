-- SPDX-License-Identifier: MIT
--- What export writes of single operations, in every version of the operators: nodes, their inputs
--- and attributes, as approved; and from which version on there is an operator for it.

local approved = dofile 'tests/lua/approved.lua'
local ridge = require 'ridge'
local file = require 'ridge.onnx.file'
local emit = require 'ridge.onnx.emit'
local nn = ridge.nn

local PATH = os.tmpname()

local function number(x) return type(x) == 'number' and ('%.6g'):format(x) or tostring(x) end

local function numbers(x)
  local list = {}
  for i, value in ipairs(x:reshape(-1):tolist()) do list[i] = number(value) end
  return table.concat(list, ' ')
end

-- A node in one line: attributes by name, small weights with their values.
local function line_of(node, weights)
  local inputs, attributes = {}, {}
  for i, name in ipairs(node.inputs) do
    local x = weights[name]
    inputs[i] = x and x.count <= 16 and ('%s{%s}'):format(x:describe(), numbers(x))
      or x and x:describe() or name == '' and '-' or name
  end
  for name, a in pairs(node.attributes) do
    local value = a.value
    if a.type == 'tensor' then
      value = file.tensor(value)
      value = value:describe() .. '{' .. numbers(value) .. '}'
    elseif type(value) == 'table' then
      local list = {}
      for i = 1, #value do list[i] = number(tonumber(value[i])) end
      value = table.concat(list, ' ')
    elseif type(value) ~= 'string' then
      value = number(tonumber(value))
    end
    attributes[#attributes + 1] = ('%s=%s'):format(name, value)
  end
  table.sort(attributes)
  return ('  %s(%s) %s'):format(node.op, table.concat(inputs, ', '), table.concat(attributes, ' '))
end

local function text_of(f, x, opset, dynamic)
  local ok, err = pcall(ridge.onnx.export, f, PATH, { x = x, opset = opset,
    dynamic = dynamic or {} })
  if not ok then
    return '  ' .. tostring(err.message or err):gsub('%([^()]-:%d+%)', '(...)')
  end
  local model, weights, lines = file.read(PATH), {}, {}
  for _, t in ipairs(model.graph.initializers) do weights[t.name] = file.tensor(t) end
  for i, node in ipairs(model.graph.nodes) do lines[i] = line_of(node, weights) end
  return #lines > 0 and table.concat(lines, '\n') or '  nothing'
end

local VERSIONS = { 13, 14, 15, 16, 17, 18, 19, 20, 21 }
local ROWS = { input = { 'N' } }

local function ramp(...)
  local n = 1
  for _, size in ipairs { ... } do n = n * size end
  return (ridge.arange(1, n, 1, { dtype = 'f32' }) * 0.25):reshape { ... }
end

local function of(name, ...)
  local args, n = { ... }, select('#', ...)
  return function(x) return x[name](x, unpack(args, 1, n)) end
end

local square, row, image = ramp(3, 3), ramp(2, 3), ramp(2, 2, 4, 4)
local one = { ridge.tensor { 1, 2, 3 } }
local places = ridge.tensor({ 1, 0 }, { dtype = 'i64' })
local bytes = ridge.tensor({ 1, 0 }, { dtype = 'u8' })
local columns = ridge.tensor({ { 1 }, { 0 } }, { dtype = 'i64' })

-- name, function, input, dynamic axes
local CASES = {
  { 'tril', of('tril'), square }, { 'triu 1', of('triu', 1), square },
  { 'reshape', of('reshape', -1), row }, { 'reshape N', of('reshape', -1, 1, 3), row, ROWS },
  { 'reshape 2 N', function(x) return x:reshape(x:size(1) * 3) end, row, ROWS },
  { 'unsqueeze', of('unsqueeze', 1), row }, { 'unsqueeze -1', of('unsqueeze', -1), row },
  { 'squeeze', of('squeeze', 1), ramp(1, 3) },
  { 'transpose', of('transpose', 1, 2), row }, { 'permute', of('permute', 2, 3, 1),
    ramp(2, 1, 3) },
  { 'narrow', of('narrow', 2, 2, 2), row }, { 'narrow to the end', of('narrow', -1, 1, 3), row },
  { 'narrow in steps', of('narrow', 2, 1, 2, 2), row },
  { 'narrow N', function(x) return x:narrow(1, 2, x:size(1) - 1) end, row, ROWS },
  { 'narrow N - 1', function(x) return x:narrow(1, 1, x:size(1) - 1) end, row, ROWS },
  { 'select', of('select', 2, 3), row }, { 'select -1', of('select', -1, 1), row },
  { 'select N', function(x) return x:select(1, x:size(1)) end, row, ROWS },
  { 'expand', function(x) return x:expand(2, 2, 3) end, row },
  { 'expand N', function(x) return x:unsqueeze(2):expand(x:size(1), 2, 3) end, row, ROWS },
  { 'full', function(x) return x + ridge.full(2, { 1, 3 }) end, row },
  { 'full N', function(x) return x * 1, ridge.full(2, { x:size(1), 2 }) end, row, ROWS },
  { 'arange', function(x) return x + ridge.arange(1, 5, 2) end, row },
  { 'arange of one', function(x) return x + ridge.arange(3, 3) end, row },
  { 'concat', function(x) return ridge.concat({ x, x }, -1) end, row },
  { 'take', function(x) return x:take(places) end, row },
  { 'take of u8', function(x) return x:take(bytes) end, row },
  { 'gather', function(x) return x:gather(2, columns) end, row },
  { 'scatter', function(x) return x:scatter(2, columns, x:narrow(2, 1, 1)) end, row },
  { 'scatter add', function(x)
    return x:scatter(2, columns, x:narrow(2, 1, 1), { reduce = 'add' })
  end, row },
  { 'scatter max', function(x)
    return x:scatter(2, columns, x:narrow(2, 1, 1), { reduce = 'max' })
  end, row },
  { 'topk', of('topk', 2), row }, { 'topk of the smallest', of('topk', 2, 1, { largest = false }),
    row },
  { 'sort', of('sort'), row }, { 'sort N', of('sort', 1), row, ROWS },
  { 'pad', of('pad', { { 1, 2 } }), row }, { 'pad 2', of('pad', { { 1, 0 } }, { value = 2 }), row },
  { 'pad edge', of('pad', { { 1, 2 } }, { mode = 'edge' }), row },
  { 'pad reflect', of('pad', { { 1, 2 } }, { mode = 'reflect' }), row },
  { 'pad wrap', of('pad', { { 1, 2 } }, { mode = 'wrap' }), row },
  { 'pad wrap less', of('pad', { { 2, -1 } }, { mode = 'wrap' }), row },
  { 'pad wrap N', of('pad', { { 1, 0 }, { 0, 0 } }, { mode = 'wrap' }), row, ROWS },
  { 'roll', of('roll', 1, 2), row }, { 'flip', of('flip', 2), row },
  { 'cumsum', of('cumsum', 2), row },
  { 'resize', of('resize', { 8, 2 }), image },
  { 'resize linear', of('resize', { 8, 8 }, { mode = 'linear' }), image },
  { 'resize corners', of('resize', { 8, 8 }, { mode = 'linear', coordinates = 'align_corners' }),
    image },
  { 'resize symmetric', of('resize', { 8, 8 }, { mode = 'linear',
    coordinates = 'half_pixel_symmetric' }), image },
  { 'resize antialias', of('resize', { 2, 2 }, { mode = 'linear', antialias = true }), image },
  { 'resize cubic', of('resize', { 8, 8 }, { mode = 'cubic' }), image },
  { 'sum', of('sum', 2), row }, { 'mean, kept', of('mean', -1, true), row },
  { 'max', of('max', 1), row }, { 'norm 1', of('norm', 1, 2), row },
  { 'norm 2', of('norm', 2, 2), row }, { 'argmax', of('argmax', 2), row },
  { 'softmax', of('softmax', 2), row }, { 'prod', of('prod', 1), row },
  { 'gelu', of('gelu'), row }, { 'mish', of('mish'), row }, { 'hardswish', of('hardswish'), row },
  { 'silu', of('silu'), row }, { 'relu6', of('relu6'), row }, { 'softplus', of('softplus'), row },
  { 'elu', of('elu', 0.5), row }, { 'celu', of('celu', 0.5), row },
  { 'selu', of('selu'), row }, { 'clamp', of('clamp', 0, 1), row },
  { 'where', function(x) return ridge.where(x:gt(1), x, 0) end, row },
  { 'comparisons', function(x) return x:eq(1), x:ne(1), x:lt(1), x:le(1), x:ge(1) end, row },
  { 'isfinite', of('isfinite'), row }, { 'to i32', of('to', 'i32'), row },
  { 'remainder', of('remainder', 2), row }, { 'fmod', of('fmod', 2), row },
  { 'remainder of whole numbers', of('remainder', 2), places },
  { 'floor of a quotient', of('floor_divide', 2), row },
  { 'floor of a quotient of whole numbers', of('floor_divide', 2), places },
  { 'whole part of a quotient', of('trunc_divide', 2), row },
  { 'whole part of a quotient of whole numbers', of('trunc_divide', 2), places },
  { 'and, or, xor of bits', function(x)
    return x:bitwise_and(2), x:bitwise_or(2), x:bitwise_xor(2)
  end, places },
  { 'and, or, xor of bits of truth', function(x)
    local a, b = x:lt(2), x:gt(1)
    return a:bitwise_and(b), a:bitwise_or(b), a:bitwise_xor(b)
  end, row },
  { 'logic', function(x)
    local a = x:lt(2)
    return a:logical_and(x), a:logical_or(x), a:logical_xor(x), x:logical_not()
  end, row },
  { 'shifts', function(x) return x:bitwise_left_shift(1), x:bitwise_right_shift(1) end, bytes },
  { 'bits inverted', of('bitwise_not'), bytes },
  { 'nan and infinities', function(x) return x:isnan(), x:isinf(), x:isposinf(), x:isneginf() end,
    row },
  { 'a comparison with half of whole numbers', of('lt', 0.5), places },
  { 'a comparison of two types', function(x) return x:to('i32'):lt(x), x:gt(1) end, row },
  { 'rounded', function(x) return x:floor(), x:ceil(), x:round(), x:trunc() end, row },
  { 'rounded whole numbers', function(x) return x:floor() + x:trunc() end, places },
  { 'maximum, minimum', function(x) return x:maximum(1), x:minimum(1) end, row },
  { 'two less x, two by x', function(x) return 2 - x, 2 / x, x ^ 2 end, row },
  { 'norm of the largest', of('norm', math.huge, 2), row },
  { 'min, argmin, kept', function(x) return x:min(1, true), x:argmin(2, true) end, row },
  { 'cumsum from behind', of('cumsum', 1, true), row },
  { 'svd', function(x) return (select(2, x:svd())) end, row },
  { 'dropout', of('dropout', 0.5), row },
  { 'a layer norm', nn.LayerNorm(3):eval(), row },
  { 'an RMS norm', nn.RMSNorm(3):eval(), row },
  { 'a group norm', nn.GroupNorm(2, 2):eval(), image },
  { 'a batch norm', nn.BatchNorm(2):eval(), image },
  { 'a batch norm of rows', nn.BatchNorm(3):eval(), row },
  { 'a batch norm of rows, channels last', nn.BatchNorm(3, { layout = 'nhwc' }):eval(), row },
  { 'a batch norm, channels last', nn.BatchNorm(4, { layout = 'nhwc' }):eval(), image },
  { 'a batch norm without weights', nn.BatchNorm(2, { affine = false, eps = 0.5 }):eval(), image },
  { 'max pooling', nn.MaxPool2d(2):eval(), image },
  { 'average pooling', nn.AvgPool2d(3, { stride = 1, padding = 1 }):eval(), image },
  { 'a vector', function(x) return x * one[1] + 1 end, row },
}

describe('what export writes of an operation', function()
  teardown(function() os.remove(PATH) end)

  it('is as approved, in every version', function()
    local out = {}
    for _, case in ipairs(CASES) do
      local first, last = VERSIONS[1], VERSIONS[#VERSIONS]
      local before, newest = text_of(case[2], case[3], first, case[4]),
        text_of(case[2], case[3], last, case[4])
      out[#out + 1] = ('%s, from %d on\n%s'):format(case[1], first, before)
      for i = 2, before ~= newest and #VERSIONS or 0 do -- where both ends agree, all do
        local text = VERSIONS[i] == last and newest
          or text_of(case[2], case[3], VERSIONS[i], case[4])
        if text ~= before then
          out[#out + 1] = ('%s, from %d on\n%s'):format(case[1], VERSIONS[i], text)
        end
        before = text
      end
    end
    approved.check('onnx/emit', table.concat(out, '\n'))
  end)

  it('is of the version of the format that came with its operators', function()
    local list = {}
    for opset = 12, 22 do list[#list + 1] = tostring(emit.ir_version(opset)) end
    assert.equal('nil 7 7 8 8 8 8 9 9 10 nil', table.concat(list, ' '))
  end)
end)

-- SPDX-License-Identifier: MIT
--- Rules of ONNX's graphs on graphs that are told: how many inputs operators take, the order of
--- nodes, names that are made twice or never, attributes of the wrong kind, records of weights that
--- are computed when a file is written.

local ridge = require 'ridge'
local arity = require 'ridge.onnx.arity'
local check = require 'ridge.onnx.check'
local fold = require 'ridge.onnx.fold'
local node_of = require('ridge.onnx.node').of
local sizes = require 'ridge.onnx.sizes'

local function failure(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return err.message or err
end

describe('inputs of operators', function()
  -- least and most of each, from ONNX's documentation of its operators
  local BY_HAND = { Constant = { 0, 0 }, RandomUniform = { 0, 0 }, Relu = { 1, 1 },
    Shape = { 1, 1 }, Transpose = { 1, 1 }, ReduceSum = { 1, 2 }, Split = { 1, 2 },
    TopK = { 1, 2 }, Trilu = { 1, 2 }, Clip = { 1, 3 }, Dropout = { 1, 3 }, Pad = { 1, 4 },
    Resize = { 1, 4 }, Slice = { 1, 5 }, Add = { 2, 2 }, MatMul = { 2, 2 }, Gather = { 2, 2 },
    Conv = { 2, 3 }, Gemm = { 2, 3 }, LayerNormalization = { 2, 3 }, QuantizeLinear = { 2, 3 },
    MatMulInteger = { 2, 4 }, Where = { 3, 3 }, OneHot = { 3, 3 }, RotaryEmbedding = { 3, 4 },
    DeformConv = { 3, 5 }, GRU = { 3, 6 }, RNN = { 3, 6 }, Attention = { 3, 7 },
    LSTM = { 3, 8 }, BatchNormalization = { 5, 5 }, QLinearMatMul = { 8, 8 },
    QLinearConv = { 8, 9 } }

  local function of(op, n, hole)
    local inputs = {}
    for i = 1, n do inputs[i] = i == hole and '' or 'x' .. i end
    return pcall(arity.check, 'f.onnx', node_of({ op = op, inputs = inputs, outputs = { 'y' } }, 1))
  end

  it('are as many as they take', function()
    for op, range in pairs(BY_HAND) do
      for n = 0, 10 do
        assert.equal(n >= range[1] and n <= range[2], (of(op, n)), op .. ' ' .. n)
      end
      if range[1] > 0 then assert.is_false((of(op, range[2], range[1])), op) end
      if range[2] > range[1] then assert.is_true((of(op, range[2], range[2])), op) end
    end
    for n = 1, 20 do assert.is_true((of('Concat', n))) end
    assert.is_false((of('Concat', 0)))
    assert.is_true((of('Unheard', 20)))
  end)

  it('are told in words', function()
    local function why(...) return select(2, of(...)).message end
    assert.equal("f.onnx: Relu 'y' has no input 1; it takes 1 input", why('Relu', 0))
    assert.equal("f.onnx: Add 'y' has no input 2; it takes 2 inputs", why('Add', 1))
    assert.equal("f.onnx: Conv 'y' has no input 1; it takes at least 2 inputs", why('Conv', 3, 1))
    assert.equal("f.onnx: Clip 'y' has no input 1; it takes at least 1 input", why('Clip', 0))
    assert.equal("f.onnx: Relu 'y' has 2 inputs; it takes 1 input", why('Relu', 2))
    assert.equal("f.onnx: Conv 'y' has 4 inputs; it takes at most 3 inputs", why('Conv', 4))
  end)
end)

-- least and most inputs of each operator that export writes, from ONNX's documentation
local WRITTEN = {
  ['1 1'] = 'Abs Acos Acosh ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BitwiseNot Cast Ceil '
    .. 'Celu ConstantOfShape Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity IsInf '
    .. 'IsNaN LeakyRelu Log MaxPool Mish Neg Not Reciprocal Relu Round Selu Shape Sigmoid Sign Sin '
    .. 'Sinh Softmax Softplus Softsign Sqrt Tan Tanh Transpose',
  ['1 2'] = 'ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Squeeze Trilu',
  ['1 3'] = 'Clip', ['1 4'] = 'Resize', ['1 2147483648'] = 'Concat Max Min',
  ['2 2'] = 'Add And BitShift BitwiseAnd BitwiseOr BitwiseXor CumSum Div Equal Expand Gather '
    .. 'GatherElements Greater GreaterOrEqual Less LessOrEqual MatMul Mod Mul Or PRelu Pow Reshape '
    .. 'Sub TopK Unsqueeze Xor',
  ['2 3'] = 'Conv ConvTranspose DequantizeLinear Gemm LayerNormalization Pad QuantizeLinear',
  ['2 4'] = 'MatMulInteger', ['3 3'] = 'InstanceNormalization ScatterElements Where',
  ['3 5'] = 'Slice', ['3 6'] = 'GRU', ['3 8'] = 'LSTM', ['5 5'] = 'BatchNormalization',
}

it('operators that export writes have the inputs that ONNX gives them', function()
  local left = {}
  for name, entry in pairs(require 'ridge.onnx.operators') do
    left[name] = ('%d %d'):format(entry.least, entry.most)
  end
  for range, names in pairs(WRITTEN) do
    for name in names:gmatch '%S+' do
      assert.equal(range, left[name], name)
      left[name] = nil
    end
  end
  assert.same({}, left)
end)

describe('a graph', function()
  local function node(op, inputs, outputs, attributes)
    return { op = op, name = '', inputs = inputs, outputs = outputs,
      attributes = attributes or {} }
  end
  local function graph(nodes, outputs, more)
    local g = { inputs = { { name = 'x' } }, initializers = {}, nodes = nodes, outputs = {} }
    for i, name in ipairs(outputs or {}) do g.outputs[i] = { name = name } end
    for key, value in pairs(more or {}) do g[key] = value end
    return g
  end
  local function order(g, functions)
    check.order({ graph = g, functions = functions }, function(text)
      error({ message = text }, 0)
    end)
    local list = {}
    for i, n in ipairs(g.nodes) do list[i] = n.op end
    return table.concat(list, ' ')
  end

  it('stays in its order where that works, else as near to it as goes', function()
    assert.equal('A B C', order(graph({ node('A', { 'x' }, { 'a' }), node('B', { 'x' }, { 'b' }),
      node('C', { 'b', 'a' }, { 'c' }) }, { 'c' })))
    assert.equal('B C A D', order(graph({ node('A', { 'c' }, { 'a' }), node('B', { 'x' }, { 'b' }),
      node('C', { 'b' }, { 'c' }), node('D', { 'a', 'x' }, { 'd' }) }, { 'd' })))
    -- one that waits for two
    assert.equal('C B A', order(graph({ node('A', { 'b', 'c' }, { 'a' }),
      node('B', { 'c' }, { 'b' }), node('C', { 'x' }, { 'c' }) }, { 'a' })))
  end)

  it('makes each name once, and reads what is made', function()
    local function why(...) return failure(order, ...) end
    assert.equal("node 2 (B) makes 'a', which is made already", why(graph {
      node('A', { 'x' }, { 'a' }), node('B', { 'x' }, { 'a' }) }))
    assert.equal("node 1 (A) makes 'x', which is made already", why(graph {
      node('A', { 'x' }, { 'x' }) }))
    local named = node('A', { 'z' }, { 'a' })
    named.name = 'first'
    assert.equal("node 1 (A 'first') reads 'z', which nothing makes", why(graph { named }))
    assert.equal("node 1 (A) waits for itself: the graph has a cycle", why(graph {
      node('A', { 'b' }, { 'a' }), node('B', { 'a' }, { 'b' }), node('C', { 'x' }, { 'c' }) }))
    assert.equal("output 'z' is made by nothing", why(graph({ node('A', { 'x' }, { 'a' }) },
      { 'a', 'z' })))
    -- names left out are none
    assert.equal('A B', order(graph({ node('A', { 'x', '' }, { 'a', '' }),
      node('B', { 'a' }, { '', 'b' }) }, { 'b', 'x' })))
    assert.equal('an input has no name', why(graph({}, {}, { inputs = { { name = '' } } })))
    assert.equal("input 'x' is there twice", why(graph({}, {}, { inputs = { { name = 'x' },
      { name = 'x' } } })))
    assert.equal('an initializer has no name', why(graph({}, {}, { initializers = {
      { name = '' } } })))
    assert.equal("initializer 'w' is there twice", why(graph({}, {}, { initializers = {
      { name = 'w' } }, sparse = { { name = 'w' } } })))
    -- the value of an input when none is given
    assert.equal('', order(graph({}, { 'x' }, { initializers = { { name = 'x' } } })))
  end)

  it('reads what is around it, and hides none of that from others', function()
    local function inner(nodes, outputs)
      return graph(nodes, outputs, { inputs = {} })
    end
    local body = { type = 'graph', value = inner({ node('C', { 'b' }, { 'c' }) }, { 'c' }) }
    local g = graph({ node('If', { 'x' }, { 'y' }, { then_branch = body }),
      node('B', { 'x' }, { 'b' }) }, { 'y' })
    assert.same({ b = true, x = true }, check.reads(g.nodes[1]))
    assert.equal('B If', order(g))
    local several = node('If', { '' }, { 'y' }, { g = { type = 'graphs', value = { body.value,
      inner({ node('D', { 'e' }, { 'd' }) }, { 'd', 'f' }) } }, n = { type = 'int', value = 3 } })
    assert.same({ b = true, e = true, f = true }, check.reads(several))
    assert.equal(2, #check.graphs(several))
    assert.equal(0, #check.graphs(node('A', {}, {}, { g = { type = 'graph' },
      h = { type = 'graphs' } })))
    -- a name of the graph inside is none of that around it
    local own = { type = 'graph', value = inner({ node('C', { 'x' }, { 'c' }) }, { 'c' }) }
    assert.equal("output 'c' is made by nothing", failure(order, graph({ node('If', { 'x' },
      { 'y' }, { then_branch = own }) }, { 'y', 'c' })))
  end)

  it('has functions that are graphs of their own', function()
    local function f(more)
      local fn = { domain = 'd', name = 'f', inputs = { 'a' }, outputs = { 'b' },
        nodes = { node('A', { 'a' }, { 'b' }) } }
      for key, value in pairs(more or {}) do fn[key] = value end
      return fn
    end
    local function why(...) return failure(order, graph({}), { ... }) end
    assert.equal('', order(graph({}), { f(), f { overload = '2' }, f { domain = 'e' } }))
    assert.equal("function 'f' is there twice", why(f(), f()))
    assert.equal("function 'f' has 'a' twice", why(f { inputs = { 'a', 'a' } }))
    assert.equal("output 'c' of function 'f' is made by nothing", why(f { outputs = { 'c' } }))
    assert.equal("node 1 (A) reads 'x', which nothing makes", why(f { nodes = {
      node('A', { 'x' }, { 'b' }) } }))
    local fn = f { nodes = { node('B', { 'c' }, { 'b' }), node('A', { 'a' }, { 'c' }) } }
    order(graph({}), { fn })
    assert.equal('A', fn.nodes[1].op)
  end)
end)

describe('attributes of a node', function()
  local n = node_of({ op = 'Op', inputs = {}, outputs = { '', 'y' }, attributes = {
    i = { type = 'int', value = 3LL }, f = { type = 'float', value = 0.5 },
    s = { type = 'string', value = 'word' }, l = { type = 'ints', value = { 1LL, 2LL } },
    m = { type = 'floats', value = { 0.5 } }, t = { type = 'strings', value = { 'a' } } } }, 7)

  it('are of their kind, or their default', function()
    assert.same({ 3, 0.5, 'word', { 1, 2 }, { 0.5 }, { 'a' } }, { n:int 'i', n:float 'f',
      n:string 's', n:ints 'l', n:floats 'm', n:strings 't' })
    assert.same({ 9, 1.5, 'else' }, { n:int('none', 9), n:float('none', 1.5),
      n:string('none', 'else') })
    assert.equal(3, n:int('i', 9))
    assert.is_nil(n:ints 'none')
    assert.is_nil(n:tensor 'none')
    assert.equal('Op: attribute none is missing', failure(n.int, n, 'none'))
    assert.equal('Op: attribute f is of type float; expected int', failure(n.int, n, 'f'))
    assert.equal('Op: attribute i is of type int; expected ints', failure(n.ints, n, 'i'))
    assert.same({ true, false }, { n:has 'i', n:has 'none' })
    assert.same({ false, true, false }, { n:wants(1), n:wants(2), n:wants(3) })
    assert.same({ 7, '', '' }, { n.opset, n.domain, n.name })
  end)

  it('belong to a node that has a name, that of its first output, or none', function()
    local function label(name, outputs)
      return node_of({ op = 'Op', name = name, inputs = {}, outputs = outputs }, 1):label()
    end
    assert.same({ "Op 'a'", "Op 'y'", 'Op' }, { label('a', { 'y' }), label('', { 'y' }),
      label(nil, {}) })
  end)
end)

describe('a record of weights', function()
  local x, y = ridge.tensor { { 1, 4 }, { 9, 16 } }, ridge.tensor { { 2, 2 }, { 3, 4 } }
  local function of(op, args, shape, ...)
    local got = fold.compute({ op = op, args = args or {}, outputs = { { dtype = 'f32',
      shape = shape } } }, { ... })
    return got and got:tolist()
  end

  it('is computed where it can be', function()
    local two = { 2, 2 }
    assert.same({ { 1, 2 }, { 3, 4 } }, of('sqrt', {}, two, x))
    assert.same({ { 3, 6 }, { 12, 20 } }, of('add', {}, two, x, y))
    assert.same({ { -1, 2 }, { 6, 12 } }, of('sub', { scalar = 0 }, two, x, y))
    assert.same({ { -1, 2 }, { 7, 14 } }, of('sub', { scalar = 1, value = 2 }, two, x, false))
    assert.same({ { 1, -2 }, { -7, -14 } }, of('sub', { scalar = 1, value = 2, reversed = 1 }, two,
      x))
    assert.same({ 1, 4, 9, 16 }, of('reshape', { shape = { 4 } }, { 4 }, x))
    assert.same({ { 1, 9 }, { 4, 16 } }, of('transpose', { a = 1, b = 2 }, two, x))
    assert.same({ { 4 }, { 16 } }, of('narrow', { axis = 2, start = 2, length = 1, step = 1 },
      { 2, 1 }, x))
    assert.same({ 9, 16 }, of('select', { axis = 1, index = 2 }, { 2 }, x))
    assert.same({ { 1, 4, 2, 2 }, { 9, 16, 3, 4 } }, of('concat', { axis = 2 }, { 2, 4 }, x, y))
    assert.same({ { 14, 18 }, { 66, 82 } }, of('matmul', {}, two, x, y))
    assert.same({ { 1, 4 }, { 9, 16 } }, of('detach', {}, two, x))
  end)

  it('is left to the file where it is another', function()
    assert.is_nil(of('softmax', {}, { 2, 2 }, x))
    assert.is_nil(of('sqrt', {}, { 4 }, x))
    assert.is_nil(of('sqrt', {}, { 2, 3 }, x))
    assert.is_nil(of('add', {}, { 2, 2 }, x, false))
    assert.is_nil(of('sqrt', {}, { 2, 2 }, x:to 'f64'))
    assert.is_nil(fold.compute({ op = 'sqrt', args = {}, outputs = { { dtype = 'f32',
      shape = { 2, 2 } }, {} } }, { x }))
  end)
end)

describe('two sizes', function()
  it('are the same where they follow one axis alike', function()
    local a = { a = 2, b = 1, name = 'N' }
    assert.is_true(sizes.same(3, 3))
    assert.is_false(sizes.same(3, 4))
    assert.is_false(sizes.same(3, a))
    assert.is_false(sizes.same(a, 3))
    assert.is_true(sizes.same(a, { a = 2, b = 1, name = 'N' }))
    for _, other in ipairs { { a = 1, b = 1, name = 'N' }, { a = 2, b = 0, name = 'N' },
      { a = 2, b = 1, name = 'M' } } do
      assert.is_false(sizes.same(a, other))
    end
    assert.is_false(sizes.same({ mixed = 'x' }, { mixed = 'x' }))
    assert.is_false(sizes.same(a, { mixed = 'x', a = 2, b = 1, name = 'N' }))
  end)
end)

describe('a recurrent layer', function()
  require 'ridge.onnx.export'
  local recurrent = require('ridge.onnx.emit').records.recurrent
  local C = require 'ridge.ffi.lib'
  local LSTM, GRU = tonumber(C.RG_CELL_LSTM), tonumber(C.RG_CELL_GRU)

  -- Is it written as one node? Of the names w b wx bx those in `known` are weights.
  local function written(cell, names, known, kinds)
    local list, gates = {}, cell == GRU and 3 or 4
    local weights = { w = ridge.ones(2 * gates, 2), b = ridge.ones(2 * gates),
      wx = ridge.ones(2 * gates, 3), bx = ridge.ones(2 * gates) }
    kinds = kinds or {}
    if kinds.w then weights.w = weights.w:to(kinds.w) end
    local e = { prefix = '', known = function(_, name)
      return known:find(' ' .. name .. ' ', 1, true) and weights[name] or nil
    end, weight = function(_, name) return name end, ints = function() return 'ints' end,
      name = function(_, name) return name end, wanted = function() end,
      node = function(_, op)
        list[#list + 1] = op
        return op
      end }
    local node = { args = { cell = cell }, inputs = { { dtype = kinds.x or 'f32' } },
      outputs = { { dtype = 'f32' } } }
    recurrent(e, node, names)
    return table.concat(list, ' ')
  end

  it('is one node where its weights are known, whichever it has', function()
    local lstm, gru = 'Transpose LSTM Squeeze Transpose', 'Transpose GRU Squeeze Transpose'
    local all = { 'x', 'h', 'c', 'w', 'b', 'wx', 'bx' }
    assert.equal(lstm, written(LSTM, all, ' w b wx bx '))
    assert.equal(gru, written(GRU, all, ' w b wx bx '))
    assert.equal('', written(-1, all, ' w b wx bx '))
    for _, lacks in ipairs { ' b wx bx ', ' w wx bx ', ' w b bx ', ' w b wx ' } do
      assert.equal('', written(LSTM, all, lacks))
    end
    assert.equal(lstm, written(LSTM, { 'x', 'h', 'c', 'w', '', '', '' }, ' w '))
    assert.equal(lstm, written(LSTM, { 'x', 'h', 'c', 'w', '' }, ' w '))
    assert.equal(lstm, written(LSTM, { 'x', 'h', 'c', 'w', 'b', '', 'bx' }, ' w b bx '))
    assert.equal('', written(LSTM, { 'x', 'h', 'c', 'w', '', '', 'bx' }, ' w '))
    assert.equal('', written(LSTM, { 'x', 'h', 'c', 'w', '', 'wx', '' }, ' w '))
    assert.equal('', written(LSTM, all, ' w b wx bx ', { x = 'f16' }))
    assert.equal('', written(LSTM, all, ' w b wx bx ', { w = 'f16' }))
  end)
end)

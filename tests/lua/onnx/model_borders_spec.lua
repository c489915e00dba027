-- SPDX-License-Identifier: MIT
--- Models of a few nodes at the borders of what loading decides: constants or buffers, parameters
--- or statistics, names of fields, branches, names that are there twice, inputs that do not fit.

local ridge = require 'ridge'
local arity = require 'ridge.onnx.arity'
local check = require 'ridge.onnx.check'

local function i64(...) return ridge.tensor({ ... }, { dtype = 'i64' }) end
local function whole(n) return ridge.zeros(n, { dtype = 'i64' }) end

-- nodes { op, inputs, outputs, attributes }; inputs { name, type, shape }; weights { name, tensor }
local function graph_of(nodes, inputs, outputs, weights)
  local g = { name = 'g', nodes = {}, inputs = {}, outputs = {}, values = {}, initializers = {} }
  for i, n in ipairs(nodes) do
    g.nodes[i] = { op = n[1], domain = '', name = '', inputs = n[2], outputs = n[3],
      attributes = n[4] or {} }
  end
  for i, v in ipairs(inputs or {}) do g.inputs[i] = { name = v[1], type = v[2], shape = v[3] } end
  for i, name in ipairs(outputs or {}) do g.outputs[i] = { name = name } end
  for i, w in ipairs(weights or {}) do g.initializers[i] = { name = w[1], value = w[2] } end
  return g
end

local function model(...)
  return { opset = { [''] = 17 }, graph = graph_of(...), functions = {}, metadata = {} }
end

local function load(m, opts) return require('ridge.onnx.load').of(m, 'g.onnx', opts) end

local function refused(text, f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok, text)
  assert.matches(text, type(err) == 'table' and err.message or tostring(err), 1, true)
end

describe('a small model', function()
  it('has up to 1,024 whole numbers as constants, more as a buffer', function()
    for _, case in ipairs { { 1024, 'fixed' }, { 1025, 'held' } } do
      local m = load(model({ { 'Add', { 'x', 'w' }, { 'y' } } }, { { 'x', 'i64' } }, { 'y' },
        { { 'w', whole(case[1]) } }))
      assert.not_nil(m[case[2]].w)
      assert.is_nil(m[case[2] == 'fixed' and 'held' or 'fixed'].w)
      assert.equal(0, (m:num_parameters()))
      assert.equal(case[1], m(whole(1)).count)
    end
  end)

  it('trains real numbers, but for running statistics and what says a shape', function()
    local m = load(model({ { 'BatchNormalization', { 'x', 'a', 'b', 'c', 'd' }, { 'y' } },
      { 'Reshape', { 'y', 's' }, { 'z' } }, { 'Clip', { 'z', 'low' }, { 'u' } } },
      { { 'x', 'f32' } }, { 'u' }, { { 'a', ridge.ones(2) }, { 'b', ridge.ones(2) },
        { 'c', ridge.ones(2) }, { 'd', ridge.ones(2) }, { 's', whole(1) },
        { 'low', ridge.tensor(0.5) } }))
    local names = {}
    for _, p in ipairs(m:parameters()) do
      if p.trainable then names[#names + 1] = p.name end
    end
    table.sort(names)
    assert.same({ 'a', 'b', 'low' }, names)
    assert.same({ c = 'c', d = 'd', a = 'a', b = 'b', low = 'low' }, m.held)
    assert.not_nil(m.fixed.s)
  end)

  it('names what it holds as Lua can, each once, and none of its own', function()
    local m = load(model({ { 'Sum', { 'x', 'a.b', 'a/b', '1', 'forward', 'held' }, { 'y' } } },
      { { 'x', 'f32' } }, { 'y' }, { { 'a.b', ridge.ones(1) }, { 'a/b', ridge.ones(1) },
        { '1', ridge.ones(1) }, { 'forward', ridge.ones(1) }, { 'held', ridge.ones(1) } }))
    assert.same({ ['a.b'] = 'a_b', ['a/b'] = 'a_b_2', ['1'] = '_1', forward = 'forward_2',
      held = 'held_2' }, m.held)
    assert.equal('g.onnx: 1 nodes, 1 inputs, 1 outputs, 5 parameters', tostring(m))
  end)

  it('computes what is constant once, and forgets what nobody reads', function()
    local m = load(model({ { 'Add', { 'a', 'a' }, { 'b' } }, { 'Mul', { 'x', 'b' }, { 'y' } } },
      { { 'x', 'i64' } }, { 'y', 'b' }, { { 'a', ridge.tensor({ 3 }, { dtype = 'i64' }) },
        { 'nobody', whole(1) } }))
    assert.equal(1, #m.nodes)
    assert.same({ 6 }, m.fixed.b:tolist())
    assert.is_nil(m.fixed.a)
    assert.is_nil(m.fixed.nobody)
    local _, b = m(whole(1))
    b:fill_(0) -- a copy
    assert.same({ 6 }, (select(2, m(whole(1))):tolist()))
  end)

  it('knows what a branch knows, and no more', function()
    local function branch(nodes, output)
      return { type = 'graph', value = graph_of(nodes, {}, { output }) }
    end
    local function of(then_nodes, output)
      return load(model({ { 'Shape', { 'x' }, { 's' } }, { 'Equal', { 's', 's' }, { 'all' } },
        { 'ReduceMin', { 'n' }, { 'm' }, { keepdims = { type = 'int', value = 0 } } },
        { 'Cast', { 'm' }, { 'c' }, { to = { type = 'int', value = 9 } } },
        { 'If', { 'c' }, { 'r' }, { then_branch = branch(then_nodes, output),
          else_branch = branch({ { 'Neg', { 'x' }, { 'e' } } }, 'e') } },
        { 'Reshape', { 'x', 'r' }, { 'y' } } }, { { 'x', 'f32' } }, { 'y' },
        { { 'n', ridge.ones(1, { dtype = 'i64' }) }, { 'one', i64(-1) } }))
    end
    local x = ridge.ones(2, 3)
    local known = of({ { 'Identity', { 's' }, { 't' } } }, 't')
    assert.same({ 2, 3 }, known(x).shape)
    assert.same({ 2, 3 }, ridge.graph(known, x):plan()().shape)
    local data = of({ { 'ReduceSum', { 'x' }, { 'u' } }, { 'Cast', { 'u' }, { 'v' },
      { to = { type = 'int', value = 7 } } }, { 'Reshape', { 'v', 'one' }, { 't' } } }, 't')
    refused('they are not known when a plan is made', ridge.graph, data, x)
  end)

  it('has 64 functions in each other, or 64 branches, and no more', function()
    local function functions(n)
      local m = model({ { 'f1', { 'x' }, { 'y' } } }, { { 'x', 'f32' } }, { 'y' })
      m.graph.nodes[1].domain = 'd'
      for i = 1, n do
        local inner = graph_of({ { i < n and 'f' .. i + 1 or 'Neg', { 'a' }, { 'b' } } })
        inner.nodes[1].domain = i < n and 'd' or ''
        m.functions[i] = { name = 'f' .. i, domain = 'd', inputs = { 'a' }, outputs = { 'b' },
          nodes = inner.nodes }
      end
      return load(m)
    end
    local function branches(n)
      local nodes, output = { { 'Neg', { 'x' }, { 'y0' } } }, 'y0'
      for i = 1, n do
        local inside = { type = 'graph', value = graph_of(nodes, {}, { output }) }
        output = 'y' .. i
        nodes = { { 'If', { 'c' }, { output }, { then_branch = inside, else_branch = {
          type = 'graph', value = graph_of({ { 'Abs', { 'x' }, { 'e' .. i } } }, {},
            { 'e' .. i }) } } } }
      end
      return load(model(nodes, { { 'x', 'f32' } }, { output },
        { { 'c', ridge.ones(1):to('bool') } }))
    end
    for _, of in ipairs { functions, branches } do
      assert.equal(-2, of(64)(ridge.full(2, 1)):item())
      refused('stand in each other more than 64 deep', of, 65)
    end
  end)

  it('takes inputs that fit', function()
    local m = load(model({ { 'Relu', { 'x' }, { 'y' } } }, { { 'x', 'f32', { 'N', 3 } } }, { 'y' }))
    assert.same({ 5, 3 }, m(ridge.ones(5, 3)).shape)
    refused("g.onnx: input 1, 'x': it is f32[N,3], got f32[5,4]", m, ridge.ones(5, 4))
    refused("g.onnx: input 1, 'x': it is f32[N,3], got f32[3]", m, ridge.ones(3))
    refused("g.onnx: input 1, 'x': it is f32, got f64[5,3]", m, ridge.ones(5, 3):to 'f64')
    refused("g.onnx: input 1, 'x': a tensor is expected, got 3", m, 3)
    refused('g.onnx: it takes 1 input (x), got 2', m, ridge.ones(5, 3), 1)
    refused('onnx graph: the size N of input', m.graph, m)
    assert.same({ 2, 3 }, m:graph { N = 2 }:inputs()[1].shape)
    m = load(model({ { 'Add', { 'a', 'b' }, { 'y' } } }, { { 'a', 'f32' }, { 'b', 'f32' } },
      { 'y' }))
    refused('g.onnx: it takes 2 inputs (a, b), got 1', m, ridge.ones(1))
    refused("onnx.load: values has 'c', and the inputs are a, b", load, model({ { 'Add',
      { 'a', 'b' }, { 'y' } } }, { { 'a', 'f32' }, { 'b', 'f32' } }, { 'y' }),
      { values = { c = ridge.ones(1) } })
  end)
end)

describe('the order of a model', function()
  local function said(...)
    local why
    local ok = pcall(check.order, ..., function(sentence)
      why = sentence
      error 'said'
    end)
    return not ok and why or nil
  end
  local function relu(from, to) return { 'Relu', { from }, { to } } end
  local x = { { 'x', 'f32' } }

  it('is mended where it can be', function()
    local m = check.order(model({ relu('b', 'c'), relu('a', 'b'), relu('x', 'a') }, x, { 'c' }),
      error)
    local ops = {}
    for i, n in ipairs(m.graph.nodes) do ops[i] = n.outputs[1] end
    assert.same({ 'a', 'b', 'c' }, ops)
    m = check.order(model({ relu('x', 'a'), relu('x', 'b'), relu('d', 'c'), relu('x', 'd') }, x,
      { 'c' }), error)
    for i, n in ipairs(m.graph.nodes) do ops[i] = n.outputs[1] end
    assert.same({ 'a', 'b', 'd', 'c' }, ops) -- as near to the file as that goes
  end)

  it('says what is wrong', function()
    local one = ridge.ones(1)
    for _, case in ipairs {
      { "node 1 (Relu) makes 'x', which is made already", { relu('x', 'x') }, x, { 'x' } },
      { "node 2 (Relu) makes 'a', which is made already", { relu('x', 'a'), relu('x', 'a') }, x,
        { 'a' } },
      { "node 1 (Relu) reads 'b', which nothing makes", { relu('b', 'a') }, x, { 'a' } },
      { 'node 1 (Relu) waits for itself: the graph has a cycle', { relu('b', 'a'),
        relu('a', 'b') }, x, { 'a' } },
      { "output 'z' is made by nothing", { relu('x', 'a') }, x, { 'z' } },
      { "input 'x' is there twice", {}, { x[1], x[1] }, { 'x' } },
      { 'an input has no name', {}, { { '', 'f32' } }, {} },
      { 'an initializer has no name', {}, x, { 'x' }, { { '', one } } },
      { "initializer 'w' is there twice", {}, x, { 'x' }, { { 'w', one }, { 'w', one } } },
    } do
      assert.equal(case[1], said(model(case[2], case[3], case[4], case[5])))
    end
    assert.is_nil(said(model({}, x, { 'x' }, { { 'x', one } }))) -- the value when none is given
  end)

  it('is that of functions, too', function()
    local function of(...)
      local m = model({}, x, { 'x' })
      m.functions = { ... }
      return said(m)
    end
    local function f(name, inputs, outputs, nodes, domain)
      return { name = name, domain = domain or 'd', inputs = inputs, outputs = outputs,
        nodes = graph_of(nodes or {}).nodes }
    end
    assert.is_nil(of(f('f', { 'a' }, { 'a' }), f('g', { 'a' }, { 'a' }),
      f('f', { 'a' }, { 'a' }, nil, 'e')))
    assert.equal("function 'f' is there twice", of(f('f', {}, {}), f('f', {}, {})))
    assert.equal("function 'f' has 'a' twice", of(f('f', { 'a', 'a' }, { 'a' })))
    assert.equal("output 'b' of function 'f' is made by nothing", of(f('f', { 'a' }, { 'b' })))
    assert.equal("node 1 (Relu) makes 'a', which is made already",
      of(f('f', { 'a' }, { 'a' }, { relu('a', 'a') })))
    assert.equal("node 2 (Relu) makes 'b', which is made already",
      of(f('f', { 'a' }, { 'b' }, { relu('a', 'b'), relu('a', 'b') })))
  end)
end)

describe("an operator's inputs", function()
  it('are counted', function()
    local function node(op, ...)
      return { op = op, inputs = { ... }, label = function() return op end }
    end
    for _, case in ipairs {
      { 'f: Relu has no input 1; it takes 1 input', 'Relu' },
      { 'f: Relu has no input 1; it takes 1 input', 'Relu', '' },
      { 'f: Relu has 2 inputs; it takes 1 input', 'Relu', 'a', 'b' },
      { 'f: Conv has no input 2; it takes at least 2 inputs', 'Conv', 'a' },
      { 'f: Conv has 4 inputs; it takes at most 3 inputs', 'Conv', 'a', 'b', 'c', 'd' },
      { 'f: Concat has no input 1; it takes at least 1 input', 'Concat' },
      { 'f: Constant has 1 inputs; it takes 0 inputs', 'Constant', 'a' },
    } do
      refused(case[1], arity.check, 'f', node(unpack(case, 2)))
    end
    for _, fits in ipairs { { 'Conv', 'a', 'b' }, { 'Conv', 'a', 'b', 'c' }, { 'Constant' },
      { 'Clip', 'a', '', 'b' }, { 'Sum', 'a', 'b', 'c', 'd', 'e', 'f', 'g' }, { 'Nobody' } } do
      assert.is_nil(arity.check('f', node(unpack(fits))))
    end
  end)
end)

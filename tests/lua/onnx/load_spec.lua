-- SPDX-License-Identifier: MIT
--- ridge.onnx.load: small files, each with its inputs and what ONNX Runtime made of them, called
--- and as plans; and what a loaded file is as a module.

local ridge = require 'ridge'
local file = require 'ridge.onnx.file'

local FOLDER = 'tests/fixtures/onnx/ops/'

local function names()
  local list, pipe = {}, assert(io.popen('ls -1 ' .. FOLDER))
  for line in pipe:lines() do list[#list + 1] = line:match '^(.*)%.onnx$' end
  pipe:close()
  return list
end

-- The inputs and results that a file keeps beside its weights.
local function case_of(name)
  local path, inputs, results = FOLDER .. name .. '.onnx', {}, {}
  for _, t in ipairs(file.read(path).graph.initializers) do
    local kind, i = t.name:match '^([<>])(%d+)$'
    if kind then (kind == '<' and inputs or results)[tonumber(i)] = file.tensor(t) end
  end
  return path, inputs, results
end

-- Close, where a number is near zero to what f32 gives; nan equals nan.
local function same(got, wanted, what)
  assert.equal(wanted:describe(), got:describe(), what)
  local a, b = got:to('f64'):reshape(-1), wanted:to('f64'):reshape(-1)
  if a.count == 0 then return end
  a, b = a:tolist(), b:tolist()
  for i = 1, #a do
    local p, q = a[i], b[i]
    assert.is_true(p == q or p ~= p and q ~= q or math.abs(p - q) <= 2e-5 + 1e-4 * math.abs(q),
      ('%s: element %d is %.9g, expected %.9g'):format(what, i, p, q))
  end
end

local function all_same(results, wanted, what)
  for i, y in ipairs(wanted) do same(results[i], y, what .. ', output ' .. i) end
end

-- A model out of nodes: { op, inputs, outputs, attributes }.
local function model_of(nodes, inputs, outputs, weights, opset)
  local graph = { name = 'g', nodes = {}, inputs = {}, outputs = {}, values = {},
    initializers = {} }
  for i, n in ipairs(nodes) do
    graph.nodes[i] = { op = n[1], domain = '', name = 'n' .. i, inputs = n[2], outputs = n[3],
      attributes = n[4] or {} }
  end
  for i, v in ipairs(inputs) do graph.inputs[i] = { name = v[1], type = v[2], shape = v[3] } end
  for i, name in ipairs(outputs) do graph.outputs[i] = { name = name } end
  for name, x in pairs(weights or {}) do
    table.insert(graph.initializers, { name = name, value = x })
  end
  return { opset = { [''] = opset or 17 }, graph = graph, functions = {}, metadata = {} }
end

local function module_of(...)
  return require('ridge.onnx.load').of(model_of(...), 'g.onnx')
end

local function error_of(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

describe('a loaded ONNX file', function()
  for _, name in ipairs(names()) do
    it('computes what is stored of ' .. name, function()
      local path, inputs, wanted = case_of(name)
      local m = ridge.onnx.load(path)
      all_same({ m(unpack(inputs)) }, wanted, name)
      all_same({ m(unpack(inputs)) }, wanted, name .. ' again')
    end)
  end

  it('is recorded: plans of the files give the same', function()
    local planned = 0
    for _, name in ipairs(names()) do
      local path, inputs, wanted = case_of(name)
      local m = ridge.onnx.load(path)
      local ok, graph = pcall(ridge.graph, m, unpack(inputs))
      if ok then
        planned = planned + 1
        local plan = graph:plan()
        all_same({ plan() }, wanted, name .. ' as a plan')
      else
        assert.matches('computes nothing', tostring(graph), name)
      end
    end
    assert.is_true(planned >= 45, planned)
  end)

  it('has no calls in its graph for what is known beforehand', function()
    local path, inputs = case_of 'flatten_by_shape'
    local graph = ridge.onnx.load(path):graph(unpack(inputs))
    local ops = {}
    for _, node in ipairs(graph:nodes()) do ops[#ops + 1] = node.op end
    assert.same({ 'reshape', 'matmul' }, ops)
  end)

  it('makes another plan of another shape that is given as an input', function()
    local path, inputs = case_of 'reshape_by_input'
    local m, shape = ridge.onnx.load(path), ridge.tensor({ 4, 3 }, { dtype = 'i64' })
    local first = ridge.graph(m, inputs[1], inputs[2]):plan()
    local second = ridge.graph(m, inputs[1], shape):plan()
    assert.same({ 3, 4 }, first().shape)
    assert.same({ 4, 3 }, second().shape)
    local held = ridge.onnx.load(path, { values = { s = shape } })
    assert.equal(1, #held.inputs)
    assert.same({ 4, 3 }, held(inputs[1]).shape)
  end)

  it('says which input has no value that a plan could know', function()
    local m = module_of({ { 'NonZero', { 'x' }, { 'i' } }, { 'Relu', { 'x' }, { 'r' } },
      { 'Cast', { 'r' }, { 'c' }, { to = { type = 'int', value = 7 } } },
      { 'ReduceSum', { 'c' }, { 's' }, { keepdims = { type = 'int', value = 1 } } },
      { 'Expand', { 'x', 's' }, { 'y' } } }, { { 'x', 'f32', { 2 } } }, { 'y' })
    assert.same({ 2 }, m(ridge.ones(2)).shape)
    local two = ridge.ones(2, { dtype = 'f32' })
    assert.matches("NonZero 'n1': the numbers of input 1, 'x', .-not known",
      error_of(ridge.graph, m, two))
  end)

  it('takes its weights out of state, and gives them gradients in training', function()
    local w = ridge.tensor { { 1, 2 }, { 3, 4 } }
    local m = module_of({ { 'MatMul', { 'x', 'layer.0/w' }, { 'h' } },
      { 'Relu', { 'h' }, { 'y' } } }, { { 'x', 'f32', { 'N', 2 } } }, { 'y' },
      { ['layer.0/w'] = w })
    assert.is_false(m.training)
    assert.is_nil(next(m:state(), next(m:state())))
    assert.same({ 2, 2 }, m:state().layer_0_w.shape)
    m:load_state { layer_0_w = ridge.tensor { { 2, 0 }, { 0, 2 } } }
    assert.same({ { 2, 2 } }, m(ridge.ones(1, 2)):tolist())
    m:train()
    m(ridge.ones(1, 2)):sum():backward()
    assert.same({ { 1, 1 }, { 1, 1 } }, m.layer_0_w.grad:tolist())
  end)

  it('may be a part of a net, twice', function()
    local m = module_of({ { 'MatMul', { 'x', 'w' }, { 'h' } }, { 'Tanh', { 'h' }, { 'y' } } },
      { { 'x', 'f32', { 'N', 3 } } }, { 'y' }, { w = ridge.randn(3, 3) })
    local net = ridge.nn.Sequential(m, ridge.nn.ReLU(), m)
    local x = ridge.randn(4, 3)
    net:eval()
    same(net(x), m(m(x):relu()), 'twice')
    assert.equal(1, #net:parameters())
    same(ridge.graph(net, x):plan()(), m(m(x):relu()), 'twice, as a plan')
  end)

  it('is cloned, and converted with its constants', function()
    local path, inputs, wanted = case_of 'resize_cubic'
    local m = ridge.onnx.load(path)
    all_same({ m:clone()(unpack(inputs)) }, wanted, 'clone')
    m = module_of({ { 'MatMul', { 'x', 'w' }, { 'h' } },
      { 'Constant', {}, { 'c' }, { value_float = { type = 'float', value = 3 } } },
      { 'Mul', { 'h', 'c' }, { 'y' } } }, { { 'x', 'f64', { 'N', 2 } } }, { 'y' },
      { w = ridge.ones(2, 1) })
    assert.equal('f64', m:clone():to 'f64'(ridge.ones(1, 2, { dtype = 'f64' })).dtype)
    assert.equal('bf16', m:to('bf16').fixed.c.dtype)
  end)

  it('takes u8 for bool, and tensors without elements', function()
    local m = module_of({ { 'Not', { 'b' }, { 'n' } }, { 'Where', { 'n', 'x', 'w' }, { 'y' } } },
      { { 'b', 'bool', { 'N' } }, { 'x', 'f32', { 'N' } } }, { 'y' }, { w = ridge.tensor { 9 } })
    local b = ridge.tensor({ 0, 3 }, { dtype = 'u8' })
    assert.same({ 1, 9 }, m(b, ridge.tensor { 1, 2 }):tolist())
    assert.same({ 0 }, m(ridge.zeros(0, { dtype = 'bool' }), ridge.zeros(0)).shape)
  end)

  it('drops elements in training, not in evaluation', function()
    local m = module_of({ { 'Dropout', { 'x' }, { 'y' } } }, { { 'x', 'f32', { 'N' } } }, { 'y' })
    local x = ridge.ones(1000)
    assert.is_true(m(x):equal(x))
    local dropped = m:train()(x):eq(0):to('f32'):mean():item()
    assert.is_true(dropped > 0.4 and dropped < 0.6, dropped)
  end)

  it('draws anew at each call, and in each run of a plan', function()
    local m = module_of({ { 'RandomNormalLike', { 'x' }, { 'r' } },
      { 'Bernoulli', { 'p' }, { 'b' } }, { 'Mul', { 'r', 'b' }, { 'y' } } },
      { { 'x', 'f32', { 'N' } }, { 'p', 'f32', { 'N' } } }, { 'y' })
    local x, p = ridge.zeros(500), ridge.full(0.25, 500)
    local share = m(x, p):ne(0):to('f32'):mean():item()
    assert.is_true(share > 0.15 and share < 0.35, share)
    assert.is_false(m(x, p):equal(m(x, p)))
    local bounds = { low = { type = 'float', value = 3 }, high = { type = 'float', value = 5 } }
    local u = module_of({ { 'RandomUniformLike', { 'x' }, { 'y' }, bounds } },
      { { 'x', 'f32', { 'N' } } }, { 'y' })(x)
    assert.is_true(u:min():item() >= 3 and u:min():item() < 3.5)
    assert.is_true(u:max():item() < 5 and u:max():item() > 4.5)
    local plan = ridge.graph(m, x, p):plan()
    local first = plan():clone()
    assert.is_false(first:equal(plan()))
  end)

  it('makes examples of the sizes in the file', function()
    local m = module_of({ { 'Relu', { 'x' }, { 'y' } } }, { { 'x', 'f32', { 'N', 3 } } }, { 'y' })
    assert.matches('size N of input', error_of(m.graph, m))
    assert.equal(1, #m:graph({ N = 2 }):nodes())
  end)
end)

describe('a file that cannot be run', function()
  it('names all operators that are not known, with counts', function()
    local text = error_of(module_of, { { 'Foo', { 'x' }, { 'a' } }, { 'Bar', { 'a' }, { 'b' } },
      { 'Foo', { 'b' }, { 'y' } } }, { { 'x', 'f32', { 2 } } }, { 'y' })
    assert.matches('3 nodes of 2 operators that ridge has not: Bar %(1%), Foo %(2%)', text)
    assert.matches('load_spec.lua:%d+', text)
  end)

  it('names loops', function()
    assert.matches('Scan %(1%): loops are not run', error_of(module_of,
      { { 'Scan', { 'x' }, { 'y' } } }, { { 'x', 'f32', { 2 } } }, { 'y' }))
    local nodes = { { 'Scan', { 'x' }, { 'a' } }, { 'Loop', { 'a' }, { 'b' } },
      { 'Loop', { 'b' }, { 'y' } } }
    for i = 1, 9 do -- by name, however many others there are
      assert.matches(': Loop %(2%), Scan %(1%): loops are not run', error_of(module_of, nodes,
        { { 'x', 'f32', { 2 } } }, { 'y' }))
      nodes[#nodes + 1] = { 'Foo' .. i, { 'x' }, { 'n' .. i } }
    end
  end)

  it('says what a value is that nothing makes, that is made twice or from itself', function()
    local x, y = { { 'x', 'f32', { 2 } } }, { 'y' }
    assert.matches("Relu 'n1' reads 'z', which nothing makes",
      error_of(module_of, { { 'Relu', { 'z' }, { 'y' } } }, x, y))
    assert.matches("'y' is made twice", error_of(module_of,
      { { 'Relu', { 'x' }, { 'y' } }, { 'Abs', { 'x' }, { 'y' } } }, x, y))
    assert.matches('cycle', error_of(module_of,
      { { 'Add', { 'x', 'y' }, { 'a' } }, { 'Relu', { 'a' }, { 'y' } } }, x, y))
    assert.matches("output 'y' is made by nothing", error_of(module_of, {}, x, y))
  end)

  it('is refused where its operators are newer or older', function()
    assert.matches('opset 25; 7 to 24 are read', error_of(module_of, {}, {}, {}, {}, 25))
    assert.matches('opset 0; 7 to 24 are read', error_of(module_of, {}, {}, {}, {}, 0))
  end)

  it('is read before version 7 where its operators were what they are in 7', function()
    local x = { { 'x', 'f32', { 2 } } }
    local function of(op, version)
      return module_of({ { op, { 'x' }, { 'y' } } }, x, { 'y' }, {}, version)
    end
    local values = ridge.tensor { 1, -2 }
    assert.same({ 1, 0 }, of('Relu', 6)(values):tolist())
    assert.same({ 1, -2 }, of('Identity', 1)(values):tolist())
    assert.matches('g.onnx: it is of opset 5, in which Relu was another operator or none; 7 to 24 '
      .. 'are read', error_of(of, 'Relu', 5), 1, true)
    assert.matches('opset 6, in which Dropout was another operator', error_of(of, 'Dropout', 6))
    assert.matches('opset 6, in which Sin was another operator or none', error_of(of, 'Sin', 6))
    assert.matches('has not: Nonsense', error_of(of, 'Nonsense', 6))
  end)

  it('tells the input that does not fit, and the node that failed', function()
    local m = module_of({ { 'Reshape', { 'x', 's' }, { 'y' } } }, { { 'x', 'f32', { 'N', 3 } } },
      { 'y' }, { s = ridge.tensor({ 2, 2 }, { dtype = 'i64' }) })
    assert.matches("input 1, 'x': it is f32%[N,3%], got f32%[2%]", error_of(m, ridge.ones(2)))
    assert.matches("input 1, 'x': it is f32, got i64", error_of(m,
      ridge.ones(2, 3, { dtype = 'i64' })))
    assert.matches('takes 1 input %(x%), got 2', error_of(m, ridge.ones(2), ridge.ones(2)))
    assert.matches("%(Reshape 'n1'%)", error_of(m, ridge.ones(2, 3)))
  end)

  it('tells which list of numbers is missing, or has too few', function()
    local function ints(...) return { type = 'ints', value = { ... } } end
    local function said(op, inputs, attributes, opset, shape)
      local weights, values = {}, { a = { 0, 0 }, b = { 1 }, p = { 1, 1, 1 } }
      for name, list in pairs(values) do weights[name] = ridge.tensor(list, { dtype = 'i64' }) end
      weights.i = ridge.zeros(1, 1, 2, 2, { dtype = 'i64' })
      local m = module_of({ { op, inputs, { 'y' }, attributes } },
        { { 'x', 'f32', shape or { 2, 3 } } }, { 'y' }, weights, opset or 17)
      return error_of(m, ridge.ones(shape or { 2, 3 }))
    end
    assert.matches('it has no starts', said('Slice', { 'x' }))
    assert.matches('it has no ends', said('Slice', { 'x', 'a' }))
    assert.matches('ends has 1 numbers; expected 2', said('Slice', { 'x', 'a', 'b' }))
    assert.matches('axes has 1 numbers; expected 2', said('Slice', { 'x', 'a', 'a', 'b' }))
    assert.matches('steps has 1 numbers; expected 2', said('Slice', { 'x', 'a', 'a', 'a', 'b' }))
    assert.matches('it has no starts', said('Slice', { 'x' }, { ends = ints(1) }, 9))
    assert.matches('it has no pads', said('Pad', { 'x' }))
    assert.matches('pads has 3 numbers; expected 4', said('Pad', { 'x', 'p' }))
    assert.matches('it has no pads', said('Pad', { 'x' }, {}, 10))
    assert.matches('shape has 1 numbers; expected 2', said('CenterCropPad', { 'x', 'b' }, {}, 18))
    local images = { 1, 1, 2, 2 }
    assert.matches('it has no kernel_shape', said('MaxUnpool', { 'x', 'i' }, {}, 17, images))
    assert.matches('kernel_shape has 1 numbers; expected 2', said('MaxUnpool', { 'x', 'i' },
      { kernel_shape = ints(2) }, 17, images))
  end)

  it('has no error of Lua itself, whatever a file says', function()
    local m = module_of({ { 'CumSum', { 'x', 'n' }, { 'y' } } }, { { 'x', 'f32', { 2 } } },
      { 'y' }, { n = ridge.zeros(0, { dtype = 'i64' }) })
    local text = error_of(m, ridge.ones(2))
    assert.matches("CumSum 'n1': its inputs and attributes do not fit each other in opset 17", text)
    assert.is_nil(text:find 'attempt')
  end)

  it('refuses options and values that are none', function()
    local path = FOLDER .. 'softmax.onnx'
    assert.matches("unknown option 'value'", error_of(ridge.onnx.load, path, { value = {} }))
    assert.matches('values has \'y\', and the inputs are x', error_of(ridge.onnx.load, path,
      { values = { y = ridge.ones(1) } }))
    assert.matches('a path is expected', error_of(ridge.onnx.load, 3))
  end)

  it('does not run a branch on data', function()
    local inner = { nodes = { { op = 'Abs', domain = '', name = 'a', inputs = { 'x' },
      outputs = { 'z' }, attributes = {} } }, inputs = {}, outputs = { { name = 'z' } },
      initializers = {}, values = {} }
    local branches = { then_branch = { type = 'graph', value = inner },
      else_branch = { type = 'graph', value = inner } }
    local nodes = { { 'ReduceSum', { 'x' }, { 's' }, { keepdims = { type = 'int', value = 0 } } },
      { 'Greater', { 's', 'w' }, { 'c' } }, { 'If', { 'c' }, { 'y' }, branches } }
    local m = module_of(nodes, { { 'x', 'f32', { 2 } } }, { 'y' }, { w = ridge.tensor(1) })
    assert.matches("If 'n3': its condition 'c' depends on data", error_of(m, ridge.ones(2)))
  end)

  it('names weights in as many steps, whether there are 100 or 3,000 alike', function()
    local x = ridge.ones(1)
    local function loaded(n)
      local weights, nodes = {}, {}
      for i = 1, n do
        local name = ('%06d'):format(i):gsub('%d', function(d) return string.char(33 + d) end)
        weights[name] = x -- six signs that no name in Lua has
        nodes[i] = { 'Add', { 'x', name }, { 'y' .. i } }
      end
      local model = model_of(nodes, { { 'x', 'f32', { 1 } } }, { 'y' .. n }, weights)
      local count, hook, mask, every = 0, debug.gethook()
      local compiles = jit.status()
      jit.off()
      jit.flush()
      debug.sethook(function() count = count + 1 end, 'l')
      local ok, m = pcall(require('ridge.onnx.load').of, model, 'g.onnx')
      debug.sethook(hook, mask, every)
      if compiles then jit.on() end
      assert.is_true(ok, tostring(m))
      assert.is_not_nil(m['_______' .. n]) -- ______, _______2, _______3, ...
      return count
    end
    assert.is_true(loaded(3000) < 33 * loaded(100))
  end)

  it('shows no control character of a name', function()
    local odd = 'a\tb\27[2J\nc' -- a terminal would act on it
    local x = { { 'x', 'f32', { 2 } } }
    local zero = { type = 'int', value = 0 }
    for where, case in pairs {
      ['an operator'] = function() return module_of({ { odd, { 'x' }, { 'y' } } }, x, { 'y' }) end,
      ['one with a domain'] = function()
        local model = model_of({ { 'Abs', { 'x' }, { 'y' } } }, x, { 'y' })
        model.graph.nodes[1].domain = odd
        return require('ridge.onnx.load').of(model, 'g.onnx')
      end,
      ['a value that nothing makes'] = function()
        return module_of({ { 'Abs', { odd }, { 'y' } } }, x, { 'y' })
      end,
      ['one that is made twice'] = function()
        return module_of({ { 'Abs', { 'x' }, { odd } }, { 'Neg', { 'x' }, { odd } } }, x, { odd })
      end,
      ['an output'] = function() return module_of({ { 'Abs', { 'x' }, { 'y' } } }, x, { odd }) end,
      ['a node'] = function()
        local model = model_of({ { 'Abs', { 'x', 'x' }, { 'y' } } }, x, { 'y' })
        model.graph.nodes[1].name = odd
        return require('ridge.onnx.load').of(model, 'g.onnx')
      end,
      ['an input'] = function()
        module_of({ { 'Abs', { odd }, { 'y' } } }, { { odd, 'f32', { 2 } } }, { 'y' })()
      end,
      ['an input of another shape'] = function()
        module_of({ { 'Abs', { odd }, { 'y' } } }, { { odd, 'f32', { 2, odd } } }, { 'y' })(
          ridge.ones(3))
      end,
      ['a size'] = function()
        module_of({ { 'Abs', { 'x' }, { 'y' } } }, { { 'x', 'f32', { odd } } }, { 'y' }):graph()
      end,
      ['a size that is not the one asked for'] = function()
        require('ridge.onnx.draw').inputs(module_of({ { 'Abs', { 'x' }, { 'y' } } },
          { { 'x', 'f32', { odd } } }, { 'y' }), { N = 2 })
      end,
      ['an input that is not given'] = function()
        require('ridge.onnx.load').of(model_of({ { 'Abs', { odd }, { 'y' } } },
          { { odd, 'f32', { 2 } } }, { 'y' }), 'g.onnx', { values = { z = ridge.ones(2) } })
      end,
      ['a condition'] = function()
        local inner = { nodes = {}, inputs = {}, outputs = { { name = 'x' } }, initializers = {},
          values = {} }
        local branches = { then_branch = { type = 'graph', value = inner },
          else_branch = { type = 'graph', value = inner } }
        module_of({ { 'ReduceSum', { 'x' }, { 's' }, { keepdims = zero } },
          { 'Greater', { 's', 'w' }, { odd } }, { 'If', { odd }, { 'y' }, branches } }, x, { 'y' },
          { w = ridge.tensor(1) })(ridge.ones(2))
      end,
      ['a text in an attribute'] = function()
        module_of({ { 'Resize', { 'x', '', 's' }, { 'y' }, { mode = { type = 'string',
          value = odd } } } }, x, { 'y' }, { s = ridge.ones(1) }, 20)(ridge.ones(2))
      end,
    } do
      local text = error_of(case):match '^[^\n]*'
      assert.is_nil(text:find '%c', where .. ': ' .. text:gsub('%c', '?'))
      assert.is_not_nil(text:find('a b [2J c', 1, true), where .. ': ' .. text)
    end
  end)

  it('has no branches without a condition, nor in another domain', function()
    local inner = { nodes = {}, inputs = {}, outputs = { { name = 'x' } }, initializers = {},
      values = {} }
    local branches = { then_branch = { type = 'graph', value = inner },
      else_branch = { type = 'graph', value = inner } }
    local model = model_of({ { 'If', {}, { 'y' }, branches } }, { { 'x', 'f32', { 2 } } }, { 'y' })
    local of = require('ridge.onnx.load').of
    assert.matches("If 'n1' has no input 1; it takes 1 input", error_of(of, model, 'g.onnx'))
    model.graph.nodes[1].domain = 'other'
    assert.matches('1 node of 1 operator that ridge has not: other:If', error_of(of, model,
      'g.onnx'))
  end)

  it('reads a shape anew where somebody wrote to it', function()
    local m = module_of({ { 'Reshape', { 'x', 's' }, { 'y' } },
      { 'Reshape', { 'x', 'w' }, { 'z' } } },
      { { 'x', 'f32', { 6 } }, { 's', 'i64', { 2 } } }, { 'y', 'z' },
      { w = ridge.tensor({ 1, 6 }, { dtype = 'i64' }) })
    local x, s = ridge.ones(6), ridge.tensor({ 2, 3 }, { dtype = 'i64' })
    local function shapes()
      local y, z = m(x, s)
      return { y.shape, z.shape }
    end
    assert.same({ { 2, 3 }, { 1, 6 } }, shapes())
    s:copy_(ridge.tensor({ 3, 2 }, { dtype = 'i64' }))
    assert.same({ { 3, 2 }, { 1, 6 } }, shapes())
    m.fixed.w:copy_(ridge.tensor({ 6, -1 }, { dtype = 'i64' }))
    assert.same({ { 3, 2 }, { 6, 1 } }, shapes())
    assert.same({ { 3, 2 }, { 6, 1 } }, shapes())
    s = ridge.tensor({ 1, 6 }, { dtype = 'i64' })
    assert.same({ { 1, 6 }, { 6, 1 } }, shapes())
  end)

  it('says which size it cannot take', function()
    local m = module_of({ { 'Abs', { 'x' }, { 'y' } } }, { { 'x', 'f32', { 'N', 3 } } }, { 'y' })
    for _, wrong in ipairs { 2.5, -1, 0 / 0, '3', false } do
      local text = error_of(m.graph, m, { N = wrong })
      assert.matches(wrong == false and 'the size N of input' or 'onnx graph: N is a whole number',
        text)
    end
    assert.is_true(#m:graph({ N = 0 }):nodes() > 0)
  end)
end)

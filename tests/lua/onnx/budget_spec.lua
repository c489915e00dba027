-- SPDX-License-Identifier: MIT
-- Files of a few bytes that ask for gigabytes: what is computed when they are loaded is bounded,
-- the rest is left to the call, where the memory's limit holds.
local ridge = require 'ridge'
local load = require 'ridge.onnx.load'

-- A model out of nodes: { op, inputs, outputs, attributes }, and whole numbers by name.
local function model_of(nodes, outputs, numbers)
  local graph = { name = 'g', nodes = {}, inputs = {}, outputs = {}, values = {},
    initializers = {} }
  for i, n in ipairs(nodes) do
    graph.nodes[i] = { op = n[1], domain = '', name = 'n' .. i, inputs = n[2], outputs = n[3],
      attributes = n[4] or {} }
  end
  for i, name in ipairs(outputs) do graph.outputs[i] = { name = name } end
  for name, list in pairs(numbers) do
    local x = type(list) == 'table' and ridge.tensor(list, { dtype = 'i64' }) or list
    table.insert(graph.initializers, { name = name, value = x })
  end
  return { opset = { [''] = 17 }, graph = graph, functions = {}, metadata = {} }
end

local MOST = 2 ^ 27 -- bytes that a load may take here, and more than the files have

-- Loads a model, and says what it took at the most.
local function loaded(...)
  collectgarbage()
  collectgarbage()
  ridge.memory.reset_peak()
  local before = ridge.memory.stats().peak
  local m = load.of(model_of(...), 'g.onnx')
  return m, ridge.memory.stats().peak - before
end

local function failure(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

-- What asks for 8 GB: nodes and numbers. Expand and Tile make views, which take nothing by
-- themselves.
local CASES = {
  { 'ConstantOfShape', { { 'ConstantOfShape', { 's' }, { 'y' } } }, { s = { 2 ^ 16, 2 ^ 15 } } },
  { 'Expand', { { 'ConstantOfShape', { 'one' }, { 'x' } }, { 'Expand', { 'x', 's' }, { 'v' } },
    { 'Exp', { 'v' }, { 'y' } } }, { one = { 1, 1 }, s = { 2 ^ 16, 2 ^ 15 } } },
  { 'Tile', { { 'ConstantOfShape', { 'one' }, { 'x' } }, { 'Tile', { 'x', 's' }, { 'v' } },
    { 'Exp', { 'v' }, { 'y' } } },
    { one = { 1, 1 }, s = { 2 ^ 16, 2 ^ 15 } } },
  { 'MatMul', { { 'ConstantOfShape', { 'c' }, { 'a' } }, { 'ConstantOfShape', { 'r' }, { 'b' } },
    { 'MatMul', { 'a', 'b' }, { 'y' } } }, { c = { 2 ^ 16, 1 }, r = { 1, 2 ^ 15 } } },
  { 'Range', { { 'Range', { 'from', 'to', 'by' }, { 'y' } } },
    { from = ridge.tensor(0, { dtype = 'i64' }), to = ridge.tensor(2 ^ 30, { dtype = 'i64' }),
      by = ridge.tensor(1, { dtype = 'i64' }) } },
}

describe('a small ONNX file that asks for gigabytes', function()
  for _, case in ipairs(CASES) do
    it('loads without them, and says at the call which node wants them: ' .. case[1], function()
      local m, most = loaded(case[2], { 'y' }, case[3])
      assert.is_true(most <= MOST, most)
      ridge.memory.set_limit(ridge.memory.stats().live + MOST)
      local said = failure(m)
      ridge.memory.set_limit(0)
      assert.matches('memory: .* MB more would pass the limit', said)
      assert.matches(case[2][#case[2]][1], said)
    end)
  end

  it('loads though each node takes little and all of them much', function()
    local nodes, outputs = {}, {}
    for i = 1, 64 do
      nodes[i] = { 'ConstantOfShape', { 's' }, { 'y' .. i } }
      outputs[i] = 'y' .. i
    end
    local m, most = loaded(nodes, outputs, { s = { 2 ^ 20 } }) -- 4 MB each
    assert.is_true(most > 0 and most <= MOST, most)
    local list = { m() } -- what was computed and what is computed now
    assert.equal(64, #list)
    for i = 1, 64, 9 do assert.equal(0, list[i]:abs():max():item()) end
  end)

  it('is computed when it is loaded where that is little', function()
    local m = loaded({ { 'ConstantOfShape', { 's' }, { 'x' } }, { 'Exp', { 'x' }, { 'y' } } },
      { 'y' }, { s = { 3, 4 } })
    assert.equal(0, #m.nodes)
    assert.equal(12, m():sum():item())
  end)

  it('is told where numbers that say how something is computed are too many', function()
    assert.matches("input 2, 'x', say what is computed, and there are 16777217", failure(loaded,
      { { 'Expand', { 'd', 's' }, { 'x' } }, { 'Tile', { 'd', 'x' }, { 'y' } } },
      { 'y' }, { s = { 2 ^ 24 + 1 }, d = { 1 } }))
  end)
end)

describe('functions of an ONNX file', function()
  -- Each calls the one before it twice: 2 ^ depth nodes.
  local function model(depth, bytes)
    local m = model_of({ { 'F' .. depth, { 'x' }, { 'y' } } }, { 'y' }, {})
    m.graph.inputs[1], m.bytes, m.functions = { name = 'x', type = 'f32' }, bytes, {}
    for k = 0, depth do
      local op = k == 0 and 'Neg' or 'F' .. k - 1
      m.functions[k + 1] = { name = 'F' .. k, domain = '', inputs = { 'a' }, outputs = { 'b' },
        nodes = { { op = op, inputs = { 'a' }, outputs = { 'c' }, attributes = {} },
          { op = op, inputs = { 'c' }, outputs = { 'b' }, attributes = {} } } }
    end
    return m
  end

  it('are written out as often as the size of the file allows', function()
    assert.equal(2 ^ 9, #load.of(model(8, 1000), 'g.onnx').nodes)
    assert.matches('g.onnx: its functions are called more than 65661 times, too often for its '
      .. 'size', failure(load.of, model(16, 1000), 'g.onnx'), 1, true)
    local many = model(15, 1000) -- 65,535 calls
    table.insert(many.functions[1].nodes, { op = 'Neg', inputs = { 'b' }, outputs = { 'd' },
      attributes = {} })
    assert.matches('g.onnx: it has more than 65661 nodes where its functions are written out, too '
      .. 'many for its size', failure(load.of, many, 'g.onnx'), 1, true)
  end)
end)

describe('an ONNX file with values of types that no tensor has', function()
  it('is refused by their names when it is loaded', function()
    for _, kind in ipairs { 'string', 'sequence', 'optional', 'map', 'complex64', 'complex128',
      'opaque' } do
      for _, list in ipairs { 'inputs', 'outputs' } do
        local m = model_of({ { 'Identity', { 'x' }, { 'y' } } }, { 'y' }, {})
        m.graph.inputs[1] = { name = 'x', type = 'f32' }
        m.graph[list][1].type = kind
        assert.matches(("g.onnx: %s '%s' is of type %s, which ridge has not"):format(
          list:sub(1, -2), list == 'inputs' and 'x' or 'y', kind), failure(load.of, m, 'g.onnx'), 1,
          true)
      end
    end
  end)
end)

describe('a net out of an ONNX file', function()
  local function net(nodes, numbers, kind, shape)
    local m = model_of(nodes, { 'y' }, numbers)
    m.graph.inputs[1] = { name = 'x', type = kind or 'f32', shape = shape }
    return load.of(m, 'g.onnx')
  end

  it('refuses inputs of another shape than the file says', function()
    local m = net({ { 'Neg', { 'x' }, { 'y' } } }, {}, 'f32', { 'N', 3 })
    assert.same({ 5, 3 }, m(ridge.ones(5, 3)).shape)
    for _, x in ipairs { ridge.ones(5, 4), ridge.ones(3), ridge.ones(1, 5, 3) } do
      assert.matches("g.onnx: input 1, 'x': it is f32[N,3], got f32[", failure(m, x), 1, true)
    end
  end)

  it('draws at each call what nothing else is read for', function()
    local m = net({ { 'RandomNormal', {}, { 'r' }, { shape = { type = 'ints', value = { 64 } } } },
      { 'Add', { 'x', 'r' }, { 'y' } } }, {})
    local x = ridge.zeros(64)
    assert.equal(0, m(x):eq(m(x)):to('f32'):sum():item())
  end)

  it('has bounds of a Clip for constants where they are those of ReLU6 alone', function()
    for _, case in ipairs { { 0, 6, 0 }, { -1, 6, 2 }, { 0, 5, 2 } } do
      local m = net({ { 'Clip', { 'x', 'lo', 'hi' }, { 'y' } } },
        { lo = ridge.full(case[1], {}), hi = ridge.full(case[2], {}) })
      assert.equal(case[3], (m:num_parameters()))
    end
  end)

  it('has running statistics for buffers, scale and shift for parameters', function()
    local m = net({ { 'BatchNormalization', { 'x', 's', 'b', 'mean', 'var' }, { 'y' } } },
      { s = ridge.ones(3), b = ridge.zeros(3), mean = ridge.zeros(3), var = ridge.ones(3) })
    for name, is_parameter in pairs { s = true, b = true, mean = false, var = false } do
      assert.equal(is_parameter, m[name].requires_grad, name)
    end
  end)

  it('hands out a constant that nobody can change', function()
    local m = net({ { 'Shape', { 'k' }, { 'y' } }, { 'Neg', { 'x' }, { 'z' } } },
      { k = ridge.ones(2, 5) })
    local x = ridge.ones(3)
    m(x):fill_(9)
    assert.same({ 2, 5 }, m(x):tolist())
  end)
end)

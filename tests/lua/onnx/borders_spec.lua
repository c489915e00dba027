-- SPDX-License-Identifier: MIT
--- Operators of ONNX at their borders, each as one node: what an attribute that is left out stands
--- for, the last position that an axis has and the first it has not, and each refusal in full.
--- Results are written by hand, after ONNX's text.

local ridge = require 'ridge'
local kit = require 'ridge.onnx.ops.kit'
local window = require 'ridge.onnx.ops.window'
local cases = dofile 'tests/lua/onnx/cases.lua'

local CASES, REFUSED, run, text = cases.CASES, cases.REFUSED, cases.run, cases.text
local f, i64, attributes = cases.f, cases.i64, cases.attributes
local x23 = cases.count(2, 3)

local function refused(f_, ...)
  local ok, err = pcall(f_, ...)
  assert.is_false(ok)
  return (tostring(err):gsub('^[^:]+:%d+: ', ''))
end

describe('an operator of ONNX at its borders', function()
  for i, case in ipairs(CASES) do
    it(('gives what ONNX says: %s, case %d'):format(case[1], i), function()
      for _, held in ipairs { false, true } do
        local got = run(case[1], case[2], case[3], case[4], #case - 4, held)
        for k = 5, #case do
          assert.equal(case[k], text(got[k - 4]), held and 'inputs of the file' or 'inputs given')
        end
      end
    end)
  end

  it('Clip is relu6 by the numbers of the file, not by those that come with a call', function()
    for _, given in ipairs { 2, 3 } do -- the one that comes with a call; the other is in the file
      local model = cases.model_of('Clip', 13, {}, { f { -2, 3, 9 }, f(0), f(6) }, 1, true)
      local graph = model.graph
      graph.initializers = {}
      table.insert(graph.inputs, { name = 'i' .. given, type = 'f32' })
      table.insert(graph.nodes, 1, { op = 'Constant', domain = '', name = 'c', inputs = {},
        outputs = { 'i' .. 5 - given }, attributes = { value_float = { type = 'float',
          value = given == 2 and 6 or 0 } } })
      local net = require('ridge.onnx.load').of(model, 'g')
      local wanted = { [2] = { [0] = 'f32[3] 0 3 6', 'f32[3] 1 3 6', 'f32[3] 4 4 6' },
        [3] = { [0] = 'f32[3] 0 3 6', 'f32[3] 0 1 1', 'f32[3] 0 3 4' } }
      for k, number in pairs { [0] = given == 2 and 0 or 6, 1, 4 } do
        assert.equal(wanted[given][k], text(net(f { -2, 3, 9 }, f(number))))
      end
      local graph_of = ridge.graph(net, f { -2, 3, 9 }, f(given == 2 and 0 or 6))
      assert.equal(wanted[given][2], text(graph_of:plan():run { f { -2, 3, 9 }, f(4) }))
    end
  end)

  it('is refused in full', function()
    for _, case in ipairs(REFUSED) do
      local why = refused(run, case[1], case[2], case[3], case[4])
      assert.equal(('%s: %s'):format(case[1], case[5]), why:match '^(.-) %(' or why,
        case[1] .. ': ' .. case[5])
    end
  end)
end)

-- What a node is asked by the tools that operators share.
local function node(given, version)
  return require('ridge.onnx.node').of({ op = 'Op', inputs = {}, outputs = { 'y' },
    attributes = attributes(given) }, version or 17)
end

describe('a recurrent layer of ONNX', function()
  it('has the activations that it names, each in its place', function()
    local sigmoid = function(x) return 1 / (1 + math.exp(-x)) end
    local tanh = function(x) return (math.exp(2 * x) - 1) / (math.exp(2 * x) + 1) end
    local BY = { Sigmoid = sigmoid, Tanh = tanh }
    -- one step of one unit: gates are i o f c of 1, the state before is 0
    for _, acts in ipairs { { 'Sigmoid', 'Tanh', 'Tanh' }, { 'Tanh', 'Sigmoid', 'Tanh' },
      { 'Tanh', 'Tanh', 'Sigmoid' }, { 'Sigmoid', 'Sigmoid', 'Tanh' },
      { 'Sigmoid', 'Tanh', 'Sigmoid' } } do
      local a, g, h = BY[acts[1]], BY[acts[2]], BY[acts[3]]
      local y = run('LSTM', 14, { hidden_size = 1, activations = acts }, { f { { { 1 } } },
        f { { { 1 }, { 1 }, { 1 }, { 1 } } }, f { { { 0 }, { 0 }, { 0 }, { 0 } } } }, 1, true)[1]
      assert.near(a(1) * h(a(1) * g(1)), y:item(), 1e-6, table.concat(acts, ' '))
    end
  end)
end)

describe('what operators of ONNX share', function()
  it('knows windows by their padding', function()
    local function padding(given, size, kernel, stride, dilation)
      local before, after = window.padding(node(given), { size }, { kernel }, { stride },
        { dilation })
      return { before[1], after[1] }
    end
    assert.same({ 0, 0 }, padding({}, 5, 3, 1, 1))
    assert.same({ 2, 1 }, padding({ pads = { 2, 1 } }, 5, 3, 1, 1))
    assert.same({ 0, 0 }, padding({ auto_pad = 'VALID', pads = { 2, 1 } }, 5, 3, 1, 1))
    assert.same({ 1, 2 }, padding({ auto_pad = 'SAME_UPPER' }, 5, 4, 1, 1))
    assert.same({ 2, 1 }, padding({ auto_pad = 'SAME_LOWER' }, 5, 4, 1, 1))
    assert.same({ 2, 2 }, padding({ auto_pad = 'SAME_UPPER' }, 5, 3, 1, 2))
    assert.same({ 0, 1 }, padding({ auto_pad = 'SAME_UPPER' }, 5, 2, 2, 1))
    assert.same({ 0, 0 }, padding({ auto_pad = 'SAME_UPPER' }, 4, 1, 3, 1)) -- and not less
    assert.same({ 3, 1, 1 }, window.each(node { strides = { 3 } }, 'strides', 3, 1))
    assert.same({ { 1, 3 }, { 2, 4 } }, window.pairs({ 1, 2 }, { 3, 4 }))
  end)

  it('knows axes, shapes and places', function()
    local n = node {}
    assert.same({ 1, 3 }, { kit.axis(n, 0, 3), kit.axis(n, -1, 3) })
    assert.equal(1, kit.axis(n, 0, 0))
    assert.same({ 1, 2, 3 }, kit.axes(n, { 2, 0, 1 }, 3))
    assert.same({ 24, 6, 12, 1 }, { kit.product { 2, 3, 4 }, kit.product({ 2, 3, 4 }, 1, 2),
      kit.product({ 2, 3, 4 }, 2), kit.product {} })
    assert.same({ 2, 3, 4 }, kit.broadcast(n, { 3, 1 }, { 2, 1, 4 }))
    assert.same({ 0 }, kit.broadcast(n, { 1 }, { 0 }))
    assert.same({ 1, 2, 1 }, kit.along(f { 1, 2 }, 2, 3).shape)
    assert.same({}, kit.along(f { 7 }, 2, 3).shape)
    assert.equal('i64[3] 5 3 1', text(kit.counting(3, 5, -2)))
    assert.equal('i64[0]', text(kit.counting(0)))
    assert.equal('i64[3] 0 3 2', text(kit.positions(f({ 0, -1, 2 }, 'i32'), 4)))
    assert.equal('f32[2,2] 2 0 5 3', text(kit.range(x23, 2, 2, 2, -2)))
    assert.equal('f32[1,3] 3 4 5', text(kit.range(x23, 1, 1, 1, -1)))
    assert.equal('f32[2,2] 0 2 3 5', text(kit.range(x23, 2, 0, 2, 2)))
    assert.equal('f32[2,0]', text(kit.range(x23, 2, 1, 0, -1)))
    assert.equal('i64[4] 2 1 5 4', text(kit.flat_places({ 2, 3 }, i64 { { 2, 1 }, { 2, 1 } }, 2)))
    assert.equal('i64[2] 3 1', text(kit.flat_places({ 2, 3 }, i64 { { 1, 0 } }, 1)))
  end)

  it('has types of the net where it was converted', function()
    local n = node {}
    assert.same({ 'f32', 'i64' }, { kit.type_of(n, 1), kit.type_of(n, 7) })
    n.float_type = 'bf16'
    assert.same({ 'bf16', 'bf16', 'i64', 'bool' },
      { kit.type_of(n, 1), kit.type_of(n, 11), kit.type_of(n, 7), kit.type_of(n, 9) })
  end)

  it('asks a node for its attributes', function()
    local n = node { i = 3, s = 'a', l = { 1, 2 }, r = { f = 0.5 } }
    assert.same({ 3, 'a', 0.5, 9, 'b', 0.25 }, { n:int 'i', n:string 's', n:float 'r',
      n:int('j', 9), n:string('t', 'b'), n:float('q', 0.25) })
    assert.same({ 1, 2 }, n:ints 'l')
    assert.is_nil(n:ints 'm')
    assert.same({ true, false }, { n:has 'i', n:has 'j' })
    assert.same({ true, false }, { n:wants(1), n:wants(2) })
    n:ints 'l'[1] = 7
    assert.equal(1, n:ints 'l'[1]) -- a copy
    assert.equal("Op 'y'", n:label())
    assert.equal('Op: attribute i is of type int; expected ints', refused(n.ints, n, 'i'))
    assert.equal('Op: attribute j is missing', refused(n.int, n, 'j'))
  end)
end)

-- SPDX-License-Identifier: MIT
-- Products between DequantizeLinear and QuantizeLinear are computed in whole numbers again: the
-- bits of the quantized net that a file was written of, and one step at most from its nodes one by
-- one.
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'
local load = require 'ridge.onnx.load'
local nn = ridge.nn

local path = os.tmpname()

local function rows(...)
  local sizes = { ... }
  sizes[#sizes + 1] = { generator = ridge.generator(3) }
  return ridge.randn(unpack(sizes))
end

local function static(net, x, more)
  local opts = { calibrate = ridge.data.Loader({ x }, { batch = 8 }), rows = false }
  for name, value in pairs(more or {}) do opts[name] = value end
  return ridge.quant.static(net, opts)
end

-- The operators that a loaded file runs, in their order.
local function ops(m)
  local list = {}
  for i, n in ipairs(m.in_bytes or m.nodes) do list[i] = n.op end
  return table.concat(list, ' ')
end

local function written(q, x)
  ridge.onnx.export(q, path, { x = x, test = false })
  return ridge.onnx.load(path), ridge.onnx.load(path, { bytes = false })
end

local function image_net()
  return nn.Sequential(nn.Conv2d(2, 4, 3, { padding = 1, activation = 'relu', seed = 1 }),
    nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, { groups = 2, stride = 2, seed = 2 }), nn.Flatten(),
    nn.Linear(4, 3, { seed = 3 })):eval()
end

local function rows_net()
  return nn.Sequential(nn.Linear(32, 32, { activation = 'relu', seed = 1 }),
    nn.Linear(32, 32, { bias = false, seed = 2 }), nn.Linear(32, 8, { seed = 3 })):eval()
end

describe('a QDQ file', function()
  teardown(function() os.remove(path) end)

  it('has the bits of the quantized net that it was written of', function()
    for _, case in ipairs {
      { image_net(), rows(8, 2, 8, 8) + 0.3, 'QuantizeLinear Conv MaxPool Conv Reshape Gemm' },
      { rows_net(), rows(8, 32), 'QuantizeLinear Gemm Gemm Gemm' },
      { rows_net(), rows(8, 3, 32), 'QuantizeLinear MatMul MatMul MatMul' },
    } do
      for _, more in ipairs { { activations = 'u8' }, { activations = 'i8' },
        { backend = 'qnnpack' } } do
        local q = static(case[1], case[2], more)
        local m, plain = written(q, case[2])
        assert.equal(case[3], ops(m))
        assert.is_nil(plain.in_bytes)
        local y = q(case[2])
        assert.same(bits.all(y), bits.all(m(case[2])))
        assert.is_true((plain(case[2]) - y):abs():max():item() < 1e-5 * y:abs():max():item())
        local graph = ridge.graph(m, case[2])
        assert.same(bits.all(y), bits.all(graph:optimize('standard'):plan():run { case[2] }))
      end
    end
  end)

  it('is one step at most from its nodes where its result is bytes', function()
    local net, x = image_net(), rows(8, 2, 8, 8)
    local q = static(net, x)
    local m, plain = written(function(v) return q[3](q[2](q[1](v))) end, x)
    local a, b = m(x), plain(x)
    assert.same({ 'u8', 'u8' }, { a.dtype, b.dtype })
    assert.is_true((a:to 'f32' - b:to 'f32'):abs():max():item() <= 1)
    assert.is_true(a:to('f32'):max():item() > 100) -- it says something
  end)

  it('sums bytes where two values meet', function()
    local function f(x)
      local a = ridge.quantize(x, 0.25, 7, { type = 'u8' })
      local b = ridge.quantize(x:neg(), 0.5, 1, { type = 'u8' })
      return ridge.scaled_add(a, b, 0.25, 0.5, { activation = 'relu', dtype = 'i8', y_scale = 0.3,
        a_zero = 7, b_zero = 1, y_zero = -3 })
    end
    local x = rows(4, 6) * 20
    local m = written(f, x)
    assert.equal('QuantizeLinear Neg QuantizeLinear Add', ops(m))
    assert.same(bits.all(f(x)), bits.all(m(x)))
  end)

  it('is computed node by node where somebody trains or asks for a gradient', function()
    local q, x = static(rows_net(), rows(8, 32)), rows(8, 32)
    local m, plain = written(q, x)
    assert.same(bits.all(plain:train()(x)), bits.all(m:train()(x)))
    m:eval()
    plain:eval()
    local y = x:clone():requires_grad_()
    assert.same(bits.all(plain(y)), bits.all(m(y)))
    assert.same(bits.all(q(x)), bits.all(ridge.inference(m, x)))
  end)

  it('follows weights and scales that are written to', function()
    for _, x in ipairs { rows(8, 32), rows(8, 3, 32) } do
      local q = static(rows_net(), x)
      local m, plain = written(q, x)
      m(x)
      for _, net in ipairs { m, plain } do
        for _, p in ipairs(net:parameters()) do
          if p.name:find 'weight$' then
            ridge.no_grad(function() p.tensor:copy_(p.tensor:neg():maximum(-127)) end)
          elseif p.name:find '1_weight_scale' then
            ridge.no_grad(function() p.tensor:mul_(0.5) end)
          end
        end
      end
      local a, b = ridge.inference(m, x), ridge.inference(plain, x)
      assert.is_true((a - b):abs():max():item() < 0.02 * b:abs():max():item())
      assert.is_true((a - q(x)):abs():max():item() > 0.1 * b:abs():max():item())
    end
  end)
end)

-- -- Nodes that are no products of bytes --------------------------------------------------------

local function int(value) return { type = 'int', value = value } end
local function t(list, dtype) return ridge.tensor(list, { dtype = dtype or 'f32' }) end

-- x in u8 [2 x 3] times a weight: what is different, and the operators that are run.
local function gemm(change)
  local given = { x_scale = t(0.5), x_zero = t(3, 'u8'), w = t({ { 1, 2, 3 }, { -4, 5, 6 } }, 'i8'),
    w_scale = t { 0.25, 0.5 }, w_zero = t({ 0, 0 }, 'i8'), b = t({ 7, -9 }, 'i32'),
    b_scale = t { 0.125, 0.25 }, y_scale = t(0.75), y_zero = t(-2, 'i8') }
  local attributes = { transB = int(1) }
  local graph = { name = 'g', inputs = { { name = 'x', type = 'u8', shape = { 2, 3 } } },
    outputs = { { name = 'y' } }, values = {}, initializers = {}, nodes = {
      { op = 'DequantizeLinear', inputs = { 'x', 'x_scale', 'x_zero' }, outputs = { 'xf' } },
      { op = 'DequantizeLinear', inputs = { 'w', 'w_scale', 'w_zero' }, outputs = { 'wf' },
        attributes = { axis = int(0) } },
      { op = 'DequantizeLinear', inputs = { 'b', 'b_scale' }, outputs = { 'bf' },
        attributes = { axis = int(0) } },
      { op = 'Gemm', inputs = { 'xf', 'wf', 'bf' }, outputs = { 'p' }, attributes = attributes },
      { op = 'Relu', inputs = { 'p' }, outputs = { 'r' } },
      { op = 'QuantizeLinear', inputs = { 'r', 'y_scale', 'y_zero' }, outputs = { 'y' } } } }
  if change then change(given, graph, attributes) end
  for name, value in pairs(given) do
    table.insert(graph.initializers, { name = name, value = value })
  end
  for _, n in ipairs(graph.nodes) do
    n.domain, n.name, n.attributes = '', n.outputs[1], n.attributes or {}
  end
  local model = { opset = { [''] = 17 }, graph = graph, functions = {}, metadata = {} }
  return load.of(model, 'g'), load.of(model, 'g', { bytes = false })
end

local x = t({ { 0, 100, 255 }, { 7, 3, 9 } }, 'u8')

describe('nodes of a QDQ file', function()
  it('are one where they say a product of bytes', function()
    local m, plain = gemm()
    assert.equal('Gemm', ops(m))
    assert.same(bits.all(plain(x)), bits.all(m(x)))
    assert.same({ 'i8', { 127, 127, 3, 2 } }, { m(x).dtype, m(x):reshape(-1):tolist() })
  end)

  it('are refused when they are computed where their attributes are none', function()
    for why, change in pairs {
      ['there is no axis 1 in a tensor of 1 axes'] = function(_, graph)
        graph.nodes[3].attributes = nil -- of a bias the default is no axis
      end,
      ['there is no axis 9 in a tensor of 2 axes'] = function(_, graph)
        graph.nodes[2].attributes.axis = int(9)
      end,
      ['attribute transA is of type float; expected int'] = function(_, _, a)
        a.transA = { type = 'float', value = 1 }
      end,
    } do
      for _, m in ipairs { gemm(change) } do
        local ok, err = pcall(m, x)
        assert.is_false(ok)
        assert.truthy(tostring(err):find(why, 1, true), tostring(err))
      end
    end
  end)

  for name, case in pairs {
    ['a weight around another number'] = { 'Gemm', function(g)
      g.w_zero = t({ 0, 1 }, 'i8')
    end },
    ['a weight around a number too far away'] = { 'DequantizeLinear DequantizeLinear '
      .. 'DequantizeLinear Gemm Relu QuantizeLinear', function(g)
        g.w_zero = t({ 0, 125 }, 'i8')
      end },
    ['a weight of u8'] = { 'Gemm', function(g)
      g.w, g.w_zero = t({ { 129, 130, 131 }, { 6, 15, 16 } }, 'u8'), t({ 128, 10 }, 'u8')
    end },
    ['a weight of u8 around one number'] = { 'Gemm', function(g)
      g.w, g.w_zero = t({ { 255, 0, 131 }, { 6, 15, 16 } }, 'u8'), t(128, 'u8')
    end },
    ['a weight of u8 in columns'] = { 'Gemm', function(g, graph, a)
      g.w, g.w_zero = t({ { 1, 12 }, { 2, 7 }, { 3, 0 } }, 'u8'), t({ 0, 9 }, 'u8')
      a.transB, graph.nodes[2].attributes.axis = int(0), int(1)
    end },
    ['a weight of u8 without a zero point'] = { 'Gemm', function(g, graph)
      g.w, g.w_zero = t({ { 1, 2, 127 }, { 6, 15, 16 } }, 'u8'), nil
      graph.nodes[2].inputs[3] = nil
    end },
    ['a weight of u8 that is no i8'] = { 'DequantizeLinear DequantizeLinear DequantizeLinear '
      .. 'Gemm Relu QuantizeLinear', function(g, graph)
        g.w, g.w_zero = t({ { 1, 2, 128 }, { 6, 15, 16 } }, 'u8'), nil
        graph.nodes[2].inputs[3] = nil
      end },
    ['scales of another axis'] = { 'DequantizeLinear DequantizeLinear DequantizeLinear Gemm Relu '
      .. 'QuantizeLinear', function(g, graph)
        g.w, g.w_scale, g.w_zero = t({ { 1, 2 }, { -4, 5 } }, 'i8'), t { 0.25, 0.5 },
          t({ 0, 0 }, 'i8')
        graph.nodes[2].attributes.axis = int(1)
        graph.inputs[1].shape = { 3, 2 }
      end, t({ { 0, 100 }, { 7, 3 }, { 1, 2 } }, 'u8') },
    ['a product that is scaled'] = { 'DequantizeLinear DequantizeLinear DequantizeLinear Gemm Relu '
      .. 'QuantizeLinear', function(_, _, a) a.alpha = { type = 'float', value = 2 } end },
    ['a product that somebody else reads'] = { 'Gemm Relu QuantizeLinear Neg',
      function(_, graph)
        table.insert(graph.nodes, { op = 'Neg', inputs = { 'p' }, outputs = { 'z' } })
        graph.outputs[2] = { name = 'z' }
      end },
    ['a product that is a result'] = { 'Gemm Relu QuantizeLinear', function(_, graph)
      graph.outputs[2] = { name = 'p' }
    end },
    ['a bias in other units'] = { 'Gemm', function(g) g.b_scale = t { 0.5, 0.25 } end },
    ['a bias that may not fit into i32 with the sums'] = { 'Gemm', function(g)
      g.b, g.y_scale = t({ 2147450000, -9 }, 'i32'), t(2 ^ 24)
    end },
    ['a bias in f32'] = { 'Gemm', function(g, graph)
      g.bf, g.b, g.b_scale = t { 0.5, -30 }, nil, nil
      table.remove(graph.nodes, 3)
    end },
    ['a weight of columns'] = { 'Gemm', function(g, graph, a)
      g.w = t({ { 1, -4 }, { 2, 5 }, { 3, 6 } }, 'i8')
      a.transB, graph.nodes[2].attributes.axis = int(0), int(1)
    end },
    ['a result that is not rounded'] = { 'Gemm', function(_, graph)
      graph.nodes[6] = nil
      graph.outputs[1].name = 'r'
    end },
  } do
    it('give what they gave one by one: ' .. name, function()
      local m, plain = gemm(case[2])
      assert.equal(case[1], ops(m))
      local a, b = { m(case[3] or x) }, { plain(case[3] or x) }
      assert.equal(#b, #a)
      for i = 1, #a do
        assert.same({ b[i].dtype, b[i].shape }, { a[i].dtype, a[i].shape })
        assert.is_true((a[i]:to 'f32' - b[i]:to 'f32'):abs():max():item() < 1e-4)
      end
    end)
  end
end)

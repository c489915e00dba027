-- SPDX-License-Identifier: MIT
--- ONNX's operators that ridge has as layers: a file gives the bits of the layer with its weights.

local ridge = require 'ridge'
local load = require 'ridge.onnx.load'
local nn = ridge.nn

-- A model of one node over x.
local function module_of(op, inputs, attributes, weights, outputs)
  local graph = { name = 'g', inputs = { { name = 'x', type = 'f32' } }, values = {},
    outputs = {}, initializers = {}, nodes = { { op = op, domain = '', name = 'n',
      inputs = inputs, outputs = outputs or { 'y' }, attributes = {} } } }
  for i, name in ipairs(outputs or { 'y' }) do graph.outputs[i] = { name = name } end
  for name, value in pairs(attributes) do
    local kind = type(value) == 'string' and 'string' or value % 1 == 0 and 'int' or 'float'
    graph.nodes[1].attributes[name] = { type = kind, value = value }
  end
  for name, x in pairs(weights) do table.insert(graph.initializers, { name = name, value = x }) end
  return load.of({ opset = { [''] = 21 }, graph = graph, functions = {} }, 'g.onnx')
end

-- Rows of gates in another order.
local function gates(x, order)
  local n, list = x.shape[1] / #order, {}
  for i, gate in ipairs(order) do list[i] = x:narrow(1, (gate - 1) * n + 1, n) end
  return ridge.concat(list, 1)
end

local function same_bits(got, wanted)
  assert.equal(wanted:describe(), got:describe())
  assert.is_true(got:equal(wanted))
end

describe('a file of one node has the bits of', function()
  before_each(function() ridge.seed(3) end)

  it('a dense layer', function()
    for _, size in ipairs { { 5, 17, 9 }, { 2, 400, 10 } } do
      local layer, x = nn.Linear(size[2], size[3]), ridge.randn(size[1], size[2])
      local m = module_of('Gemm', { 'x', 'w', 'b' }, { transB = 1 },
        { w = layer.weight:detach():clone(), b = layer.bias:detach():clone() })
      same_bits(m(x), layer(x):detach())
      assert.same('linear', m:graph(x):nodes()[1].op)
    end
  end)

  it('normalisations', function()
    local x = ridge.randn(4, 8, 5)
    local weights = { w = ridge.randn(5), b = ridge.randn(5) }
    local layer = nn.LayerNorm(5, { eps = 0.25 })
    layer:load_state { weight = weights.w, bias = weights.b }
    same_bits(module_of('LayerNormalization', { 'x', 'w', 'b' }, { epsilon = 0.25 }, weights)(x),
      layer(x):detach())
    local rms = nn.RMSNorm(5, { eps = 0.25 })
    rms:load_state { weight = weights.w }
    same_bits(module_of('RMSNormalization', { 'x', 'w' }, { epsilon = 0.25 },
      { w = weights.w })(x), rms(x):detach())
    local eight = { w = ridge.randn(8), b = ridge.randn(8) }
    local group = nn.GroupNorm(4, 8)
    group:load_state { weight = eight.w, bias = eight.b }
    same_bits(module_of('GroupNormalization', { 'x', 'w', 'b' }, { num_groups = 4 }, eight)(x),
      group(x):detach())
  end)

  it('batch normalisation', function()
    local x, layer = ridge.randn(4, 3, 2, 5), nn.BatchNorm(3)
    layer(ridge.randn(6, 3, 4, 4) * 3 + 1)
    layer:eval()
    local s = layer:state()
    same_bits(module_of('BatchNormalization', { 'x', 'w', 'b', 'm', 'v' }, {},
      { w = s.weight:detach(), b = s.bias:detach(), m = s.running_mean, v = s.running_var })(x),
      layer(x):detach())
  end)

  it('recurrent layers', function()
    local x = ridge.randn(6, 2, 5) -- time first
    for _, kind in ipairs { 'LSTM', 'GRU' } do
      local layer = nn[kind](5, 3)
      local s = layer:state()
      local order = kind == 'LSTM' and { 1, 4, 2, 3 } or { 2, 1, 3 } -- i f g o, r z n
      local weights = { w = gates(s['1.input.weight']:detach(), order):unsqueeze(1),
        r = gates(s['1.recurrent.weight']:detach(), order):unsqueeze(1),
        b = ridge.concat({ gates(s['1.input.bias']:detach(), order),
          gates(s['1.recurrent.bias']:detach(), order) }, 1):unsqueeze(1) }
      local outputs = kind == 'LSTM' and { 'y', 'h', 'c' } or { 'y', 'h' }
      local m = module_of(kind, { 'x', 'w', 'r', 'b' },
        { hidden_size = 3, linear_before_reset = kind == 'GRU' and 1 or nil }, weights, outputs)
      local y, h, c = m(x)
      local wanted, last, last_c = layer(x:transpose(1, 2))
      same_bits(y:squeeze(2), wanted:transpose(1, 2):detach())
      same_bits(h, last:detach())
      if c then same_bits(c, last_c:detach()) end
    end
  end)

  it('attention', function()
    local x = ridge.randn(2, 3, 7, 4)
    local m = module_of('Attention', { 'x', 'x', 'x' }, { is_causal = 1 }, {})
    same_bits(m(x), nn.attention(x, x, x, { causal = true }))
  end)
end)

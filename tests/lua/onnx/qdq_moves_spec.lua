-- SPDX-License-Identifier: MIT
-- What moves, averages or joins bytes between DequantizeLinear and QuantizeLinear gives the bits of
-- its nodes one by one, and is computed on bytes where scales allow it.
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'
local load = require 'ridge.onnx.load'

local function int(value) return { type = 'int', value = value } end
local function ints(value) return { type = 'ints', value = value } end
local function t(list, dtype) return ridge.tensor(list, { dtype = dtype or 'f32' }) end

-- The operators that a loaded file runs, in their order.
local function ops(m)
  local list = {}
  for i, n in ipairs(m.in_bytes or m.nodes) do list[i] = n.op end
  return table.concat(list, ' ')
end

-- A model of x (bytes) -> DequantizeLinear -> nodes -> QuantizeLinear, fused and node by node.
-- given: s, z in front of the nodes, s2, z2 behind them, and other weights; shape of x.
local function pair_of(nodes, given, shape, inputs)
  local graph = { name = 'g', inputs = {}, outputs = { { name = 'y' } }, values = {},
    initializers = {}, nodes = {} }
  for i, name in ipairs(inputs or { 'x' }) do
    graph.inputs[i] = { name = name, type = given.z.dtype, shape = shape }
    table.insert(graph.nodes, { op = 'DequantizeLinear', outputs = { name .. 'f' },
      inputs = { name, i == 1 and 's' or 's' .. i, i == 1 and 'z' or 'z' .. i } })
  end
  for _, n in ipairs(nodes) do
    table.insert(graph.nodes, { op = n[1], inputs = n[2], outputs = n[3], attributes = n[4] })
  end
  table.insert(graph.nodes, { op = 'QuantizeLinear', inputs = { nodes[#nodes] and
    nodes[#nodes][3][1] or 'xf', 'sy', 'zy' }, outputs = { 'y' } })
  for name, value in pairs(given) do
    table.insert(graph.initializers, { name = name, value = value })
  end
  for _, n in ipairs(graph.nodes) do
    n.domain, n.name, n.attributes = '', n.outputs[1], n.attributes or {}
  end
  local model = { opset = { [''] = 17 }, graph = graph, functions = {}, metadata = {} }
  return load.of(model, 'g'), load.of(model, 'g', { bytes = false })
end

local function bytes(dtype, ...)
  local x = ridge.randn({ ... }, { generator = ridge.generator(4) }) * 80
  return (x:maximum(-128):minimum(127) + (dtype == 'u8' and 128 or 0)):floor():to(dtype)
end

local function given_of(dtype, zero, more)
  local given = { s = t(0.25), z = t(zero, dtype), sy = t(0.25), zy = t(zero, dtype) }
  for name, value in pairs(more or {}) do given[name] = value end
  return given
end

local CASES = {
  MaxPool = { ints { 2, 2 }, { kernel_shape = ints { 2, 2 }, strides = ints { 1, 2 } } },
  AveragePool = { 0, { kernel_shape = ints { 3, 2 }, strides = ints { 2, 1 } } },
  ['AveragePool with padding'] = { 0, { kernel_shape = ints { 3, 3 },
    pads = ints { 1, 0, 1, 2 } } },
  ['AveragePool that counts padding'] = { 0, { kernel_shape = ints { 3, 3 },
    pads = ints { 1, 0, 1, 2 }, count_include_pad = int(1) } },
  ['AveragePool beyond the end'] = { 0, { kernel_shape = ints { 2, 2 }, strides = ints { 2, 2 },
    ceil_mode = int(1) } },
  ['AveragePool beyond the end that counts padding'] = { 0, { kernel_shape = ints { 2, 2 },
    strides = ints { 2, 2 }, ceil_mode = int(1), pads = ints { 1, 1, 0, 0 },
    count_include_pad = int(1) } },
  ['AveragePool with gaps'] = { 0, { kernel_shape = ints { 2, 2 }, dilations = ints { 2, 1 } } },
  GlobalAveragePool = { 0, {} },
  Transpose = { 0, { perm = ints { 0, 2, 3, 1 } } },
  Flatten = { 0, { axis = int(2) } },
  Identity = { 0, {} },
  DepthToSpace = { 0, { blocksize = int(2) } },
  SpaceToDepth = { 0, { blocksize = int(1) } },
  Reshape = { 0, {}, { shape = t({ 2, -1 }, 'i64') } },
  Unsqueeze = { 0, {}, { shape = t({ 1 }, 'i64') } },
  Slice = { 0, {}, { shape = t({ 1, 2 }, 'i64'), ends = t({ 3, 9 }, 'i64'),
    axes = t({ 1, 2 }, 'i64') } },
}

describe('bytes between conversions', function()
  for name, case in pairs(CASES) do
    for _, kind in ipairs { { 'u8', 128 }, { 'u8', 7 }, { 'i8', -3 } } do
      it(('stay what nodes one by one give: %s of %s around %d'):format(name, kind[1], kind[2]),
        function()
          local op, more = name:match '^%a+', type(case[3]) == 'table' and case[3] or {}
          local nodes = { { op, { 'xf', more.shape and 'shape', more.ends and 'ends',
            more.axes and 'axes' }, { 'p' }, case[2] } }
          local x = bytes(kind[1], 2, 4, 7, 6)
          local m, plain = pair_of(nodes, given_of(kind[1], kind[2], more), { 2, 4, 7, 6 })
          assert.equal(op, ops(m))
          local y = plain(x)
          assert.same({ y.dtype, y.shape }, { m(x).dtype, m(x).shape })
          local got = m(x)
          if op:find 'Average' and kind[2] % 2 ~= 0 then -- halves go to the even byte
            local off = (y:to 'f32' - got:to 'f32'):abs()
            assert.is_true(off:max():item() <= 1 and off:mean():item() < 0.5)
          else
            assert.same(bits.all(y), bits.all(got))
          end
          assert.same(bits.all(got),
            bits.all(ridge.graph(m, x):optimize('standard'):plan():run { x }))
          -- another scale behind it: one by one
          local given = given_of(kind[1], kind[2], more)
          given.sy = t(0.375)
          m, plain = pair_of(nodes, given, { 2, 4, 7, 6 })
          assert.same(bits.all(plain(x)), bits.all(m(x)))
          given.sy, given.zy = t(0.25), t(kind[2] + 1, kind[1])
          m, plain = pair_of(nodes, given, { 2, 4, 7, 6 })
          assert.same(bits.all(plain(x)), bits.all(m(x)))
        end)
    end
  end

  it('are computed as bytes where scales are one number, also when one is written to', function()
    local m, plain = pair_of({ { 'MaxPool', { 'xf' }, { 'p' }, CASES.MaxPool[2] } },
      given_of('u8', 9), { 1, 1, 4, 4 })
    local x, called = bytes('u8', 1, 1, 4, 4), {}
    local function calls(name)
      called[name] = 0
      local before = ridge[name]
      return function(...)
        called[name] = called[name] + 1
        return before(...)
      end
    end
    local names, kept = { 'quantize', 'dequantize' }, {}
    for _, name in ipairs(names) do kept[name], ridge[name] = ridge[name], calls(name) end
    m(x)
    local first = called.quantize + called.dequantize
    for _, net in ipairs { m, plain } do
      ridge.no_grad(function() net.sy:copy_(t(0.5)) end)
    end
    local ok, y = pcall(m, x)
    for _, name in ipairs(names) do ridge[name] = kept[name] end
    assert.is_true(ok, tostring(y))
    assert.same({ 0, 1, 1 }, { first, called.quantize, called.dequantize })
    assert.same(bits.all(plain(x)), bits.all(y))
  end)

  it('are joined, each with its own scale', function()
    local x, z = bytes('u8', 2, 3, 4), bytes('u8', 2, 3, 4):flip(3)
    for _, case in ipairs {
      { 0.25, 128, t(0.25), t(128, 'u8') }, { 0.5, 128, t(0.25), t(128, 'u8') },
      { 0.25, 120, t(0.25), t(128, 'u8') }, { 0.5, 3, t(0.125), t(-5, 'i8') },
    } do
      for _, act in ipairs { false, 'Relu' } do
        local given = given_of('u8', 128, { s2 = t(case[1]), z2 = t(case[2], 'u8') })
        given.sy, given.zy = case[3], case[4]
        local nodes = { { 'Concat', { 'xf', 'bf' }, { 'p' }, { axis = int(-2) } } }
        nodes[2] = act and { act, { 'p' }, { 'r' } } or nil
        local m, plain = pair_of(nodes, given, { 2, 3, 4 }, { 'x', 'b' })
        assert.equal('Concat', ops(m))
        local y = plain(x, z)
        assert.same({ case[4].dtype, { 2, 6, 4 } }, { m(x, z).dtype, m(x, z).shape })
        assert.same(bits.all(y), bits.all(m(x, z)))
        assert.same(bits.all(y),
          bits.all(ridge.graph(m, x, z):optimize('standard'):plan():run { x, z }))
      end
    end
  end)

  it('get another scale in one call', function()
    local x = bytes('i8', 5, 7)
    for _, act in ipairs { false, 'Relu' } do
      local given = given_of('i8', 4)
      given.sy, given.zy = t(0.5), t(100, 'u8')
      local m, plain = pair_of(act and { { 'Relu', { 'xf' }, { 'p' } } } or {}, given, { 5, 7 })
      assert.equal(act or 'QuantizeLinear', ops(m))
      assert.same(bits.all(plain(x)), bits.all(m(x)))
    end
  end)

  it('have weights of u8, which may be written to', function()
    local given = given_of('u8', 128, { w = bytes('u8', 4, 2, 3, 3), wz = t(128, 'u8'),
      ws = t { 0.5, 0.25, 0.125, 1 } })
    given.sy = t(64)
    local nodes = { { 'DequantizeLinear', { 'w', 'ws', 'wz' }, { 'wf' }, { axis = int(0) } },
      { 'Conv', { 'xf', 'wf' }, { 'p' }, { pads = ints { 1, 1, 1, 1 } } } }
    local x = bytes('u8', 1, 2, 5, 5)
    local m, plain = pair_of(nodes, given, { 1, 2, 5, 5 })
    assert.equal('Conv', ops(m))
    assert.same(bits.all(plain(x)), bits.all(m(x)))
    for _, change in ipairs { function(w) return w:maximum(200) end,
      function(w) return w:minimum(0) end } do
      given.w:copy_(change(given.w))
      local y = plain(x)
      assert.same(bits.all(y), bits.all(m(x)))
    end
    given.wz = t(0, 'u8') -- what is no i8 around 0 stays as it is
    given.w:copy_(bytes('u8', 4, 2, 3, 3))
    m, plain = pair_of(nodes, given, { 1, 2, 5, 5 })
    assert.equal('DequantizeLinear DequantizeLinear Conv QuantizeLinear', ops(m))
    assert.same(bits.all(plain(x)), bits.all(m(x)))
    given.w:copy_(given.w:minimum(127)) -- is one, and then again not
    m, plain = pair_of(nodes, given, { 1, 2, 5, 5 })
    assert.equal('Conv', ops(m))
    given.w:copy_(given.w:maximum(250))
    assert.same(bits.all(plain(x)), bits.all(m(x)))
  end)
end)

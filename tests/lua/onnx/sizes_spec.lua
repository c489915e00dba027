-- SPDX-License-Identifier: MIT
--- Sizes that follow dynamic axes, of graphs that are written by hand: lines, what lies on none,
--- names, and what makes two recordings another net.

local sizes = require 'ridge.onnx.sizes'

-- A node with one value of a shape.
local function node(id, op, shape, args, more)
  local n = { id = id, op = op, args = args or {}, inputs = {}, body = {},
    outputs = { { id = 100 + id, shape = shape } } }
  for key, value in pairs(more or {}) do n[key] = value end
  return n
end

local function graph(nodes, inputs)
  return { nodes = function() return nodes end, inputs = function() return inputs or {} end }
end

-- Sizes of one value: of the base, and of each variant { axis, size, shape }.
local function of(base, shape, variants, args)
  local axes, by = {}, {}
  for _, v in ipairs(variants) do
    if not by[v[1]] then
      by[v[1]] = { name = v[1], variants = {} }
      axes[#axes + 1] = by[v[1]]
    end
    table.insert(by[v[1]].variants, { size = v[2],
      graph = graph { node(1, 'relu', v[3], args and args(v[2])) } })
  end
  local first = node(1, 'relu', shape, args and args(base.N))
  return sizes.new(graph { first }, axes, base, {}, {}), first
end

local function refused(pattern, f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(pattern, tostring(err), 1, true)
end

describe('a size', function()
  it('follows an axis on a line, or is a number', function()
    local s, n = of({ N = 4 }, { 4, 11, 5 }, { { 'N', 2, { 2, 7, 5 } }, { 'N', 3, { 3, 9, 5 } },
      { 'N', 7, { 7, 17, 5 } } })
    assert.same({ { a = 1, b = 0, name = 'N' }, { a = 2, b = 3, name = 'N' }, 5 },
      s:shape(n.outputs[1]))
    assert.same({ 'N', '2*N+3', 5 }, s:names(n.outputs[1]))
  end)

  it('may be less than its axis, and a part of it', function()
    local s, n = of({ N = 4 }, { 3, 2 }, { { 'N', 2, { 1, 1 } }, { 'N', 6, { 5, 3 } } })
    assert.same({ 'N-1', '0.5*N' }, s:names(n.outputs[1]))
  end)

  it('lies on no line where one point does not, that of the base too', function()
    for _, case in ipairs {
      { 4, { { 2, 2 }, { 3, 3 }, { 7, 8 } }, '4 at 4, 2 at 2, 3 at 3, 8 at 7' },
      { 9, { { 2, 2 }, { 3, 3 }, { 7, 7 } }, '9 at 4, 2 at 2, 3 at 3, 7 at 7' },
    } do
      local variants = {}
      for i, p in ipairs(case[2]) do variants[i] = { 'N', p[1], { p[2] } } end
      local s, n = of({ N = 4 }, { case[1] }, variants)
      assert.same({ { mixed = 'a size follows N on no line: ' .. case[3] } },
        s:shape(n.outputs[1]))
      assert.same({ false }, s:names(n.outputs[1]))
    end
  end)

  it('follows one of two axes, not both', function()
    local s, n = of({ N = 4, M = 5 }, { 4, 5, 9 }, { { 'N', 2, { 2, 5, 7 } },
      { 'N', 3, { 3, 5, 8 } }, { 'M', 2, { 4, 2, 6 } }, { 'M', 3, { 4, 3, 7 } } })
    assert.same({ { a = 1, b = 0, name = 'N' }, { a = 1, b = 0, name = 'M' },
      { mixed = 'a size follows two dynamic axes at once' } }, s:shape(n.outputs[1]))
  end)

  it('is the same as another for every size of an axis, or is not', function()
    local function line(a, b, name) return { a = a, b = b, name = name } end
    for _, case in ipairs { { 3, 3, true }, { 3, 4, false }, { 3, line(1, 3, 'N'), false },
      { line(1, 0, 'N'), line(1, 0, 'N'), true }, { line(1, 0, 'N'), line(2, 0, 'N'), false },
      { line(1, 0, 'N'), line(1, 1, 'N'), false }, { line(1, 0, 'N'), line(1, 0, 'M'), false },
      { { mixed = 'a' }, { mixed = 'a' }, false }, { { mixed = 'a' }, line(1, 0, 'N'), false },
      { line(1, 0, 'N'), { mixed = 'a' }, false } } do
      assert.equal(case[3], sizes.same(case[1], case[2]))
    end
  end)

  it('may be an argument, or one of a list', function()
    local s, n = of({ N = 4 }, { 4 }, { { 'N', 2, { 2 } }, { 'N', 3, { 3 } } },
      function(size) return { length = size + 1, shape = { 1, 2 * size }, eps = 0 / 0 } end)
    assert.same({ a = 1, b = 1, name = 'N' }, s:arg(n, 'length'))
    assert.same({ a = 2, b = 0, name = 'N' }, s:arg(n, 'shape', 2))
    assert.equal(1, s:arg(n, 'shape', 1))
  end)

  it('is tried at sizes that do not broadcast', function()
    assert.same({ 2, 3, 7 }, sizes.TRIED)
  end)

  it('has a place, and inputs that nothing reads have names', function()
    local s = sizes.new(graph {}, {}, {}, { N = { input = 1, axis = 2 } },
      { N = { { input = 1, axis = 2 }, { input = 2, axis = 1 } }, M = { { input = 2, axis = 3 } } })
    assert.same({ input = 1, axis = 2 }, s:place 'N')
    assert.same({ [2] = 'N' }, s:open(1))
    assert.same({ 'N', [3] = 'M' }, s:open(2))
    assert.same({}, s:open(3))
  end)
end)

describe('a recording of another size', function()
  local function paired(mine, other, inputs)
    return sizes.new(graph(mine, inputs), { { name = 'N', variants = { { size = 2,
      graph = graph(other, inputs) } } } }, { N = 4 }, {}, {})
  end

  it('is refused where it is another net', function()
    local x = { id = 9, shape = { 4 } }
    refused('relu: where N is 2 the net computes something else (tanh)', paired,
      { node(1, 'relu', { 4 }) }, { node(1, 'tanh', { 2 }) })
    refused('relu: where N is 2 the net computes something else (relu)', paired,
      { node(1, 'relu', { 4 }, {}, { inputs = { x } }) }, { node(1, 'relu', { 2 }) }, { x })
    refused('relu (a.lua:3): where N is 2 the net computes something else (nothing)', paired,
      { node(1, 'relu', { 4 }, {}, { line = 'a.lua:3' }) }, {})
    refused('tanh: where N is 2 there is more than where it is 4', paired,
      { node(1, 'relu', { 4 }) }, { node(1, 'relu', { 2 }), node(2, 'tanh', { 2 }) })
    refused('sum: axis is 1 where N is 4, and 2 where it is 2', paired,
      { node(1, 'sum', { 4 }, { axis = 1 }) }, { node(1, 'sum', { 2 }, { axis = 2 }) })
  end)

  it('may differ in what follows an axis, in lists, and in numbers that are none', function()
    local function args(n)
      return { start = n, length = n, index = n, shape = { n }, axes = { n }, eps = 0 / 0 }
    end
    assert.truthy(paired({ node(1, 'narrow', { 4 }, args(4)) },
      { node(1, 'narrow', { 2 }, args(2)) }))
  end)

  it('passes over parts that differ in number, and goes on behind them', function()
    local function whole(id, parts)
      local n = node(id, 'lstm', { 4 })
      for i = 1, parts do n.body[i] = i end
      return n
    end
    local mine = { whole(1, 2), node(2, 'a', { 4 }), node(3, 'b', { 4 }), node(4, 'relu', { 4 }) }
    local s = paired(mine, { whole(1, 1), node(2, 'c', { 2 }), node(3, 'relu', { 2 }) })
    assert.is_nil(s.whole[4])
    assert.equal('N', s.whole[1].name)
    assert.equal('relu', s.axes[1].variants[1].nodes[4].op)
  end)
end)

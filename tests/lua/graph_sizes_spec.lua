-- SPDX-License-Identifier: MIT
-- Graphs recorded with a size that may change: the same as recorded at each size, and numbers that
-- are on no line are an error.
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'
local nn = ridge.nn

local function net()
  return nn.Sequential(nn.Conv2d(2, 4, 3, { seed = 1, padding = 1 }), nn.BatchNorm(4), nn.ReLU(),
    nn.MaxPool2d(2)):eval()
end

describe('a graph whose batch may change', function()
  it('is the graph that is recorded at each size, and runs', function()
    local model = net()
    local function f(x)
      local y = ridge.no_grad(model, x)
      return y:reshape(x.shape[1], -1), ridge.concat({ y, y }, 1)
    end
    local g = ridge.graph(f, ridge.randn(4, 2, 6, 6), { sizes = { { 'N', 2, 6, 6 } } })
    for _, n in ipairs { 1, 2, 5, 16 } do
      local x = ridge.randn(n, 2, 6, 6)
      local h = g:at(n):check()
      if n > 1 then assert.is_true(h:same(ridge.graph(f, x))) end
      for _, graph in ipairs { h, h:optimize 'standard' } do
        local a, b = graph:plan():run { x }
        assert.same(bits.all(f(x)), bits.all(a, b))
      end
    end
    local shapes = g:sizes()
    assert.equal('N', shapes.name)
    assert.same({ 'N', 2, 6, 6 }, shapes[1].shape)
    assert.equal('input', shapes[1].value.kind)
    assert.same({ '2*N', 4, 3, 3 }, shapes[#shapes].shape)
  end)

  it('may be any axis, of several arguments', function()
    local g = ridge.graph(function(x, y) return x:matmul(y) end, ridge.ones(3, 4), ridge.ones(4, 5),
      { sizes = { { 3, 'K' }, { 'K', 5 } } })
    local x, y = ridge.randn(3, 9), ridge.randn(9, 5)
    assert.same(bits.all(x:matmul(y)), bits.all(g:at(9):plan():run { x, y }))
  end)

  it('has sizes that are more than a multiple', function()
    local extra = ridge.randn(3, 4)
    local function f(x) return ridge.concat({ x, x, extra }, 1):exp() end
    local g = ridge.graph(f, ridge.ones(5, 4), { sizes = { { 'N', 4 } } })
    local shapes = g:sizes()
    assert.same({ '2*N+3', 4 }, shapes[#shapes].shape)
    local x = ridge.randn(9, 4)
    assert.same(bits.all(f(x)), bits.all(g:at(9):check():plan():run { x }))
  end)

  it('has sizes that are less than their axis, and prints them', function()
    local g = ridge.graph(function(x) return x:narrow(1, 2, x.shape[1] - 1):exp() end,
      ridge.ones(5, 4), { sizes = { { 'N', 4 } } })
    local shapes = g:sizes()
    assert.same({ 'N-1', 4 }, shapes[#shapes].shape)
    assert.matches('f32[<N-1>,4]', tostring(g), 1, true)
    assert.is_true(ridge.graph.parse(tostring(g)):at(9):same(g:at(9)))
  end)

  it('prints what it is after it was edited', function()
    local g = ridge.graph(function(x) return x:relu():exp() end, ridge.ones(5, 4),
      { sizes = { { 'N', 4 } } })
    local node = g:nodes()[1]
    g:replace(node.outputs[1], node.inputs[1])
    g:remove(node)
    assert.is_nil(tostring(g):find('relu', 1, true))
    assert.is_true(ridge.graph.parse(tostring(g)):same(g))
  end)

  it('is one of a range in a text too', function()
    local g = ridge.graph(function(a) return a * 2 end, ridge.ones(4, 3),
      { sizes = { { 'N', 3 } } })
    local text = tostring(g)
    for _, n in ipairs { '0', '2147483649', '99999999999999999999' } do
      local ok, err = pcall(ridge.graph.parse, (text:gsub('N = 4', 'N = ' .. n)))
      assert.is_false(ok)
      assert.truthy(tostring(err):find(('graph.parse: line 1: N is %s, and has to be a whole '
        .. 'number from 1 to 2147483648'):format(n), 1, true), tostring(err))
    end
    assert.matches('N = 1\n', tostring(ridge.graph.parse((text:gsub('N = 4', 'N = 1')))), 1, true)
  end)

  it('is one of a range, which is told', function()
    local sizes = { sizes = { { 'N', 3 } } }
    local g = ridge.graph(function(a) return a * 2 end, ridge.ones(4, 3), sizes)
    for _, n in ipairs { 0, -1, 0.5, 2 ^ 31 + 1, 1e15, 1 / 0, 0 / 0 } do
      local ok, err = pcall(g.at, g, n)
      assert.is_false(ok)
      assert.truthy(err.message:find('N is a whole number from 1 to 2147483648, got', 1, true),
        err.message)
    end
    assert.same({ 2 ^ 31, 3 }, g:at(2 ^ 31):values()[1].shape)
  end)

  it('draws no more random numbers than one recording', function()
    local function f(x) return x:dropout(0.5) end
    local x, after = ridge.ones(5, 4), {}
    for i, opts in ipairs { false, { sizes = { { 'N', 4 } } } } do
      ridge.seed(7)
      if opts then ridge.graph(f, x, opts) else ridge.graph(f, x) end
      after[i] = ridge.rand(3):tolist()
    end
    assert.same(after[1], after[2])
  end)

  it('has costs that grow with the square', function()
    -- x:matmul(x:t()): 2 * N * 4 * N flops, and it reads x twice and writes N * N
    local g = ridge.graph(function(x) return x:matmul(x:t()) + x:sum() end, ridge.ones(5, 4),
      { sizes = { { 'N', 4 } } })
    for _, n in ipairs { 2, 9, 40 } do
      local found
      for _, node in ipairs(g:at(n):nodes()) do found = node.op == 'matmul' and node or found end
      assert.same({ 8 * n * n, 4 * (8 * n + n * n) }, { found.flops, found.bytes })
    end
  end)

  it('is refused where a number is on no line, or the function another one', function()
    local function refused(text, ...)
      local ok, err = pcall(ridge.graph, ...)
      assert.is_false(ok)
      assert.truthy(tostring(err):find(text, 1, true), tostring(err))
    end
    local x = ridge.ones(4, 3)
    local sizes = { sizes = { { 'N', 3 } } }
    refused('has a number that is 0.5, 0.33333333333333331 and 0.14285714285714285 where N is 2, 3 '
      .. 'and 7: no a * N + b', function(a) return a * (1 / a.shape[1]) end, x, sizes)
    refused('mul at tests/lua/graph_sizes_spec.lua:', function(a) return a * a.shape[1] ^ 2 end, x,
      sizes)
    refused('it computes something else where N is 2, 3 and 7', function(a)
      return a.shape[1] > 5 and a:exp() or a:sin()
    end, x, sizes)
    -- a line through all three that this size is not on
    refused('where N is 4 it computes something else', function(a)
      return a * (a.shape[1] == 4 and 5 or 1)
    end, x, sizes)
    refused('writes to what was there before', function(a) return a:add_(1) end, x, sizes)
    refused('one size may change, and N and M are two', function(a) return a * 1 end, x,
      { sizes = { { 'N', 'M' } } })
    refused('sizes[1] has 1 sizes', function(a) return a * 1 end, x, { sizes = { { 'N' } } })
    refused('axis 2 is 5, and 3 in the argument', function(a) return a * 1 end, x,
      { sizes = { { 'N', 5 } } })
    refused('sizes[2]: there is no such argument', function(a) return a * 1 end, x,
      { sizes = { { 'N', 3 }, { 'N', 3 } } })
    for _, name in ipairs { '', 'N ', 'N"', '2' } do
      refused('is no name', function(a) return a * 1 end, x, { sizes = { { name, 3 } } })
    end
    refused('sizes name no size', function(a) return a * 1 end, x, { sizes = { { 4, 3 } } })
    -- the size of the call would do, and one of the three does not
    refused('where H is 2 it fails, and it is recorded at 2, 3 and 7: conv2d: ',
      nn.Conv2d(2, 3, 5):eval(), ridge.ones(1, 2, 8, 8), { sizes = { { 1, 2, 'H', 8 } } })
    refused("there is no option 'size' (did you mean sizes?)", function(a) return a * 1 end, x,
      { size = { { 'N', 3 } } })
    -- a table that a function takes is none of these
    for _, taken in ipairs { { size = { 4, 3 } }, { size = { { 4, 3 } } }, { sized = 'N' },
      { size = { { 'N', 3 } }, more = 1 }, { names = { { 'N', 3 } } } } do
      assert.truthy(ridge.graph(function(a) return a * 1 end, x, taken))
    end
    local g = ridge.graph(function(a) return a * 1 end, x, sizes)
    refused('this is a copy of the graph where N is 4; g:at(n) first, then passes', g.at,
      g:optimize 'standard', 9)
    for _, n in ipairs { 0, 1.5, 'x' } do
      assert.is_false((pcall(function() return g:at(n) end)))
    end
    assert.is_false((pcall(function()
      return ridge.graph(function(a) return a * 1 end, x):at(2)
    end)))
  end)

  it('sees a branch at another size where it is asked to look', function()
    local calls = 0
    local function f(a)
      calls = calls + 1
      if a.shape[1] > 20 then return a:sum(1) end
      if a.shape[1] == 9 then error 'nine is none' end
      if a.shape[1] == 11 then return (a * 3):exp() end
      return (a * 2):exp()
    end
    local g = ridge.graph(f, ridge.ones(4, 3), { sizes = { { 'N', 3 } } })
    local before = calls
    g:at(30) -- what nobody asked for is not run
    assert.equal(before, calls)
    local h = g:at(12, { check = true })
    assert.equal(before + 1, calls)
    assert.same(bits.all(f(ridge.ones(12, 3))),
      bits.all(h:plan():run { input = ridge.ones(12, 3) }))
    for n, text in pairs {
      [30] = 'where N is 30 the function computes something else than a * N + b says',
      [11] = 'where N is 11 the function computes something else',
      [9] = 'where N is 9 the function fails: ',
    } do
      local ok, err = pcall(g.at, g, n, { check = true })
      assert.is_false(ok)
      assert.truthy(tostring(err):find(text, 1, true), tostring(err))
      assert.truthy(tostring(err):find('graph_sizes_spec.lua:', 1, true), tostring(err))
    end
    local read = ridge.graph.parse(tostring(g))
    local ok, err = pcall(read.at, read, 5, { check = true })
    assert.is_false(ok)
    assert.truthy(tostring(err):find('has no function to compare it with', 1, true))
  end)

  it('compares what comes out at 1, where views and copies are others', function()
    local mha = nn.MultiHeadAttention(4, { heads = 2, causal = true, seed = 1 }):eval()
    for i, case in ipairs {
      { { 1, 'N', 4 }, function(x) return mha(x) end },
      { { 'N', 1 }, function(x) return x + x:t() end },
      { { 'N', 3 }, function(x) return x:roll(1, 1) end },
      { { 'N', 3 }, function(x)
        local n = x.shape[1]
        local at = ridge.arange(0, n - 1)
        return ridge.where(at:reshape(-1, 1):ge(at:reshape(1, -1)), x:matmul(x:t()), ridge.zeros {})
      end },
    } do
      local shape = {}
      for k, size in ipairs(case[1]) do shape[k] = size == 'N' and 4 or size end
      local g = ridge.graph(case[2], ridge.randn(shape), { sizes = { case[1] } })
      for _, n in ipairs { 1, 2, 9 } do
        for k, size in ipairs(case[1]) do shape[k] = size == 'N' and n or size end
        local x = ridge.randn(shape)
        local got = g:at(n, { check = true }):plan():run { x }
        assert.same(bits.all(case[2](x)), bits.all(got), ('case %d at %d'):format(i, n))
      end
    end
    local g = ridge.graph(function(x)
      return x.shape[1] == 1 and x * 2 or x * 3
    end, ridge.ones(4, 3), { sizes = { { 'N', 3 } } })
    local ok, err = pcall(g.at, g, 1, { check = true })
    assert.is_false(ok)
    assert.matches('where N is 1 the function computes something else', tostring(err))
  end)
end)

-- SPDX-License-Identifier: MIT
-- recover: layer normalisation and GELU out of their pieces, in the ways they are written.
local ridge = require 'ridge'

local PASSES = { 'recover', 'dead_code_elimination' }

local function ops(graph)
  local list = {}
  for _, node in ipairs(graph:nodes()) do list[#list + 1] = node.op end
  return table.concat(list, ' ')
end

local function recovered(f, x)
  local h = ridge.graph(f, x):optimize(PASSES):check()
  local plan = h:plan()
  for _ = 1, 2 do
    x:copy_(ridge.randn(unpack(x.shape)) * 3)
    local want = f(x)
    local off = (plan:run() - want):abs():max():item() / want:abs():max():item()
    assert.is_true(off < 1e-5, ('off by %g: %s'):format(off, ops(h)))
  end
  return ops(h), h
end

local function mean(x) return x:mean(-1, true) end

describe('recover', function()
  it('finds GELU however its products stand', function()
    local x = ridge.randn(4, 6)
    local root = math.sqrt(2)
    local function e(a) return (a / root):erf() + 1 end
    for i, f in ipairs {
      function(a) return a * e(a) * 0.5 end,
      function(a) return a * 0.5 * e(a) end,
      function(a) return e(a) * (a * 0.5) end,
      function(a) return a * (e(a) * 0.5) end,
      function(a) return 0.5 * (a * ((a * math.sqrt(0.5)):erf() + 1)) end,
    } do
      assert.equal('gelu', recovered(f, x), i)
    end
  end)

  it('finds layer normalisation, with weight and bias', function()
    local x = ridge.randn(4, 6)
    local w, b = ridge.rand(6) + 0.5, ridge.randn(6)
    local function norm(a, square)
      local d = a - mean(a)
      return d / (mean(square(d)) + 1e-5):sqrt()
    end
    local squares = { function(d) return d:square() end, function(d) return d * d end,
      function(d) return d:pow(2) end }
    for i, square in ipairs(squares) do
      assert.equal('layer_norm', recovered(function(a) return norm(a, square) end, x), i)
      local ran, h = recovered(function(a) return norm(a, square) * w + b end, x)
      assert.equal('layer_norm', ran)
      assert.equal(3, #h:nodes()[1].inputs)
    end
    assert.equal('layer_norm', (recovered(function(a)
      local d = a - mean(a)
      return b + w * (d * (mean(d:square()) + 1e-3):rsqrt())
    end, x)))
  end)

  it('leaves what only looks like them', function()
    local x = ridge.randn(4, 6)
    local y = ridge.randn(4, 6)
    local function untouched(f)
      local ran = recovered(f, x)
      assert.is_nil(ran:find 'gelu', ran)
      assert.is_nil(ran:find 'layer_norm', ran)
    end
    untouched(function(a) return a * ((a / 1.5):erf() + 1) * 0.5 end) -- another root
    untouched(function(a) return a * ((a / math.sqrt(2)):erf() + 2) * 0.5 end)
    untouched(function(a) return y * ((a / math.sqrt(2)):erf() + 1) * 0.5 end) -- of another tensor
    untouched(function(a) -- another axis
      local d = a - a:mean(1, true)
      return d / (d:square():mean(1, true) + 1e-5):sqrt()
    end)
    untouched(function(a) -- not its own mean
      local d = a - mean(y)
      return d / (mean(d:square()) + 1e-5):sqrt()
    end)
    untouched(function(a) return (a - mean(a)) / (mean(a:square()) + 1e-5):sqrt() end)
  end)

  it('leaves pieces to whom reads them, and writes where they are', function()
    local x = ridge.randn(4, 6)
    local ran = recovered(function(a)
      local d = a - mean(a)
      return d / (mean(d:square()) + 1e-5):sqrt() + d
    end, x)
    assert.equal('mean sub layer_norm add', ran)
    local g = ridge.graph(function(a)
      local b = a * 1
      local e = (b / math.sqrt(2)):erf() + 1
      b:add_(1) -- another x by then
      return b * e * 0.5
    end, x)
    assert.is_nil(ops(g:optimize(PASSES):check()):find 'gelu')
  end)
end)

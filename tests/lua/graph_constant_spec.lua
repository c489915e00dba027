-- SPDX-License-Identifier: MIT
-- Constant folding: what is computed from numbers is computed once, and what must not be folded
-- stays.
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'

local function ops(graph)
  local list = {}
  for i, node in ipairs(graph:nodes()) do list[i] = node.op end
  return table.concat(list, ' ')
end

-- The operations behind the pass; the plan has the bits of the eager run for each content of x.
local function folded(f, x)
  local g = ridge.graph(f, x)
  local h = g:optimize { 'constant_folding' }:check()
  local plan = h:plan()
  for round = 1, 3 do
    x:copy_(round == 2 and ridge.full(0 / 0, unpack(x.shape)) or ridge.randn(unpack(x.shape)))
    assert.same(bits.all(f(x)), bits.all(plan:run()), ops(h))
  end
  return ops(h), h
end

describe('constant folding', function()
  it('computes what numbers alone decide, through views', function()
    local x = ridge.randn(3, 4)
    assert.equal('add', folded(function(a)
      return a + (ridge.arange(1, 12):to('f32'):reshape(3, 4) * 2):exp():sin()
    end, x))
    assert.equal('matmul', folded(function(a)
      return a:matmul(ridge.ones(5, 4):cumsum(1):t())
    end, x))
    local ran, h = folded(function(a)
      local mask = ridge.arange(0, 3):to('f32'):lt(2):to 'f32'
      return a * mask, a + mask
    end, x)
    assert.equal('mul add', ran)
    local kinds = {}
    for _, value in ipairs(h:values()) do kinds[value.kind] = (kinds[value.kind] or 0) + 1 end
    assert.equal(1, kinds.constant)
  end)

  it('leaves what is written to, handed out, drawn or read from outside', function()
    local x = ridge.randn(3)
    assert.equal('fill add', folded(function(a)
      local sum = ridge.zeros(3)
      sum:add_(a)
      return sum
    end, x))
    assert.equal('fill', (folded(function() return ridge.full(2, 3) end, x)))
    local g = ridge.graph(function(a) return a + ridge.rand(3) end, x)
    assert.equal(ops(g), ops(g:optimize { 'constant_folding' }))
    local outside = ridge.ones(3)
    assert.equal('add mul', (folded(function(a) return a * (outside + 1) end, x)))
  end)

  -- x * 0 is nan where x is, and x - x, x / x
  it('folds nothing that a nan could change', function()
    local x = ridge.randn(4)
    for _, f in ipairs { function(a) return a * 0 end, function(a) return a - a end,
      function(a) return a / a end, function(a) return a * ridge.zeros(4) end,
      function(a) return a:pow(0) * 1 end } do
      local g = ridge.graph(f, x)
      for _, level in ipairs { 'standard', 'aggressive' } do
        local plan = g:optimize(level):plan()
        for _, number in ipairs { 0 / 0, 1 / 0, -1 / 0, 0, 2 } do
          x:fill_(number)
          assert.same(bits.all(f(x)), bits.all(plan:run()), ('%g %s'):format(number, tostring(g)))
        end
      end
    end
  end)

  it('keeps clones of plans apart, and runs the same each time', function()
    local x = ridge.ones(3)
    local plan = ridge.graph(function(a) return a * ridge.arange(1, 3):to 'f32' end, x)
      :optimize { 'constant_folding' }:plan()
    local clone = plan:clone()
    clone:run { ridge.full(2, 3) }
    assert.same({ 1, 2, 3 }, { plan:run()[1]:item(), plan:run()[2]:item(), plan:run()[3]:item() })
    assert.equal(6, clone:run()[3]:item())
  end)
end)

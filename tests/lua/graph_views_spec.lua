-- SPDX-License-Identifier: MIT
-- view_folding and concat_folding: what they join, what they leave alone, the same bits.
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'

local function ops(graph)
  local list = {}
  for i, node in ipairs(graph:nodes()) do list[i] = node.op end
  return table.concat(list, ' ')
end

-- The operations behind passes; plans have the bits of the eager run.
local function left(f, x, passes)
  local h = ridge.graph(f, x):optimize(passes or { 'view_folding', 'dead_code_elimination' })
    :check()
  local plan = h:plan()
  for _ = 1, 2 do
    x:copy_(ridge.randn(unpack(x.shape)))
    local before = x:clone()
    local want = bits.all(f(x), x)
    x:copy_(before)
    assert.same(want, bits.all(plan:run(), x), ops(h))
  end
  return ops(h), h
end

describe('view_folding', function()
  it('takes transposes away that undo each other, and joins others', function()
    local x = ridge.randn(2, 3, 4)
    assert.equal('exp', left(function(a) return a:transpose(1, 3):transpose(3, 1):exp() end, x))
    assert.equal('permute exp', left(function(a)
      return a:transpose(1, 2):transpose(2, 3):exp()
    end, x))
    assert.equal('exp', left(function(a) return a:permute(3, 1, 2):permute(2, 3, 1):exp() end, x))
    assert.equal('exp', left(function(a)
      return a:transpose(1, 2):transpose(2, 3):permute(3, 1, 2):exp()
    end, x))
    local _, h = left(function(a) return a:permute(3, 1, 2):transpose(1, 2):exp() end, x)
    assert.same({ 1, 3, 2 }, h:nodes()[1].args.order)
  end)

  it('joins reshapes, squeezes and unsqueezes', function()
    local x = ridge.randn(2, 3, 4)
    assert.equal('view exp', left(function(a)
      return a:reshape(6, 4):unsqueeze(1):reshape(24):exp()
    end, x))
    assert.equal('exp', left(function(a) return a:unsqueeze(2):squeeze(2):exp() end, x))
    assert.equal('exp', left(function(a) return a:reshape(2, 3, 4):narrow(2, 1, 3):exp() end, x))
    assert.equal('narrow exp', left(function(a) return a:narrow(2, 1, 2):exp() end, x))
  end)

  it('leaves a view that somebody else reads, and what writes come between', function()
    local x = ridge.randn(3, 4)
    assert.equal('transpose exp sum add', left(function(a)
      local t = a:t()
      return t:t():exp() + t:sum()
    end, x))
    -- a write between the two views is read behind it
    assert.equal('transpose mul transpose exp', left(function(a)
      local b = a:t()
      a:mul_(2)
      return b:t():exp()
    end, x):gsub('fill ', ''))
    -- a view that is written through
    left(function(a)
      local b = a:t():t()
      b:add_(1)
      return a * 1
    end, x)
  end)

  it('keeps a view that is handed out', function()
    local x = ridge.randn(3, 4)
    left(function(a) return a:t():t(), a:reshape(12):reshape(2, 6) end, x)
    left(function(a) return a:exp():t():t() end, x)
  end)

  it('keeps copies that a reshape makes', function()
    local x = ridge.randn(3, 4)
    local ran = left(function(a) return a:t():reshape(12):reshape(6, 2):exp() end, x)
    assert.matches('copy', ran)
  end)
end)

describe('concat_folding', function()
  local PASS = { 'concat_folding' }

  it('makes one of several along one axis', function()
    local x = ridge.randn(2, 3)
    local ran, h = left(function(a)
      return ridge.concat({ ridge.concat({ a, a * 2 }, 2), ridge.concat({ a, a }, 2), a }, 2)
    end, x, PASS)
    assert.equal('mul concat', ran)
    assert.equal(5, #h:nodes()[2].inputs)
    assert.equal('exp concat', (left(function(a)
      return ridge.concat({ a, ridge.concat({ ridge.concat({ a, a:exp() }, 1), a }, 1) }, 1)
    end, x, PASS)))
  end)

  it('leaves other axes, and what is read twice or written to', function()
    local x = ridge.randn(2, 2)
    assert.equal('concat concat', (left(function(a)
      return ridge.concat({ ridge.concat({ a, a }, 1), ridge.ones(4, 1) * 0 + 1 }, 2)
    end, x, PASS):gsub('fill ', ''):gsub('mul ', ''):gsub('add ', '')))
    assert.equal('concat concat sum add', (left(function(a)
      local inner = ridge.concat({ a, a }, 1)
      return ridge.concat({ inner, a }, 1) + inner:sum()
    end, x, PASS)))
    left(function(a)
      local inner = ridge.concat({ a, a }, 1)
      a:mul_(2)
      return ridge.concat({ inner, a }, 1)
    end, x, PASS)
  end)
end)

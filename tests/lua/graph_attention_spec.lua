-- SPDX-License-Identifier: MIT
-- recover: attention out of its pieces, as exporters write them; and each of its conditions left
-- out once.
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'

local PASSES = { 'constant_folding', 'view_folding', 'recover', 'dead_code_elimination' }

local function ops(graph)
  local list = {}
  for _, node in ipairs(graph:nodes()) do list[#list + 1] = node.op end
  return table.concat(list, ' ')
end

-- What recover makes of f, which still computes the same; gives its operations and the graph.
local function recovered(f, ...)
  local inputs = { ... }
  local h = ridge.graph(f, ...):optimize(PASSES):check()
  local plan = h:plan()
  for _ = 1, 2 do
    for _, x in ipairs(inputs) do x:copy_(ridge.randn(unpack(x.shape)) * 2) end
    local want, got = f(...), plan:run()
    local off = (got - want):abs():max():item() / want:abs():max():item()
    assert.is_true(off < 1e-5, ('off by %g: %s'):format(off, ops(h)))
  end
  return ops(h), h
end

local function qkv(n, m, d, dtype)
  local shape = dtype and { dtype = dtype } or nil
  local function r(...)
    local sizes = { 2, 3, ... }
    sizes[#sizes + 1] = shape
    return ridge.randn(unpack(sizes))
  end
  return r(n or 5, d or 4), r(m or 7, d or 4), r(m or 7, d or 4)
end

describe('recover finds attention', function()
  it('however the scale is written, and k transposed', function()
    local q, k, v = qkv()
    local root = math.sqrt(0.5)
    for i, f in ipairs {
      function(a, b, c) return (a:matmul(b:transpose(-1, -2)) * 0.5):softmax(-1):matmul(c) end,
      function(a, b, c) return (a:matmul(b:transpose(3, 4)) / 2):softmax(4):matmul(c) end,
      function(a, b, c) return (a * 0.5):matmul(b:transpose(-1, -2)):softmax(-1):matmul(c) end,
      function(a, b, c) -- PyTorch's exporter
        return (a * root):matmul(b:transpose(-1, -2) * root):softmax(-1):matmul(c)
      end,
      function(a, b, c) return a:matmul(b:permute(1, 2, 4, 3)):softmax(-1):matmul(c) end,
    } do
      local ran, h = recovered(f, q, k, v)
      assert.truthy(ran:find 'attention', i .. ': ' .. ran)
      assert.is_nil(ran:find 'softmax', ran)
      local scale = h:nodes()[#h:nodes()].args.scale
      assert.is_true(math.abs(scale - (i == 5 and 1 or 0.5)) < 1e-12, scale)
    end
  end)

  it('with heads out of one projection, and where the number is a constant of a file', function()
    local x, w = ridge.randn(2, 5, 12), ridge.randn(12, 36)
    local half = ridge.ones(1) * 0.5
    local function f(a)
      local qkvs = a:matmul(w):reshape(2, 5, 3, 3, 4):permute(3, 1, 4, 2, 5)
      local q, k, v = qkvs:select(1, 1), qkvs:select(1, 2), qkvs:select(1, 3)
      return (q:matmul(k:transpose(-1, -2)) * (ridge.ones(1) * 0.5)):softmax(-1):matmul(v)
        :permute(1, 3, 2, 4):reshape(2, 5, 12)
    end
    local ran = recovered(f, x)
    assert.truthy(ran:find 'attention', ran)
    assert.is_nil(ran:find 'softmax', ran)
    -- what is read anew is no number
    ran = recovered(function(a)
      return ((a:matmul(a:transpose(-1, -2)) * half):softmax(-1):matmul(a))
    end, x)
    assert.is_nil(ran:find 'attention', ran)
  end)

  it('in f64, and computes what eager attention does', function()
    local q, k, v = qkv(3, 3, 4, 'f64')
    local function f(a, b, c)
      return (a:matmul(b:transpose(-1, -2)) * 0.5):softmax(-1):matmul(c)
    end
    local plan = ridge.graph(f, q, k, v):optimize(PASSES):plan()
    assert.same(bits.all(ridge.nn.attention(q, k, v, { scale = 0.5 })), bits.all(plan:run()))
  end)

  it('only where each condition holds', function()
    local q, k, v = qkv(5, 5)
    local kept
    local function t(a) return a:transpose(-1, -2) end
    for what, f in pairs {
      ['softmax over queries'] = function(a, b, c)
        return a:matmul(t(b)):softmax(3):matmul(c)
      end,
      ['a scale below 0'] = function(a, b, c)
        return (a:matmul(t(b)) * -1):softmax(-1):matmul(c)
      end,
      ['a scale of 0'] = function(a, b, c) return (a:matmul(t(b)) * 0):softmax(-1):matmul(c) end,
      ['a number divided by the scores'] = function(a, b, c)
        return (2 / (a:matmul(t(b)):abs() + 1)):softmax(-1):matmul(c)
      end,
      ['a mask that is added'] = function(a, b, c)
        return (a:matmul(t(b)) + c:select(2, 1):matmul(t(c:select(2, 1))):unsqueeze(2))
          :softmax(-1):matmul(c)
      end,
      ['no softmax'] = function(a, b, c) return a:matmul(t(b)):sigmoid():matmul(c) end,
      ['values before the weights'] = function(a, b, c)
        return t(c):matmul(a:matmul(t(b)):softmax(-1))
      end,
      ['no product'] = function(a, b, c) return (a:matmul(t(b)):softmax(-1)) * c:sum() end,
      ['weights that somebody reads'] = function(a, b, c)
        local p = a:matmul(t(b)):softmax(-1)
        return p:matmul(c) + p:sum()
      end,
      ['scores that somebody reads'] = function(a, b, c)
        local s = a:matmul(t(b))
        return (s * 0.5):softmax(-1):matmul(c) + s:sum()
      end,
      ['scaled scores that somebody reads'] = function(a, b, c)
        local s = a:matmul(t(b)) * 0.5
        return s:softmax(-1):matmul(c) + s:sum()
      end,
      ['scores that somebody reads between two scales'] = function(a, b, c)
        local s = a:matmul(t(b)) * 0.25
        return (s * 2):softmax(-1):matmul(c) + s:sum()
      end,
      ['values that broadcast'] = function(a, b, c)
        return a:matmul(t(b)):softmax(-1):matmul(c:narrow(2, 1, 1))
      end,
      ['keys that broadcast'] = function(a, b, c)
        return a:matmul(t(b:narrow(1, 1, 1))):softmax(-1):matmul(c)
      end,
      ['a query that is written to'] = function(a, b, c)
        local own = a * 1.5
        local s = own:matmul(t(b))
        own:add_(1)
        return s:softmax(-1):matmul(c) + own:sum()
      end,
      ['keys that are written to'] = function(a, b, c)
        local own = b * 1.5
        local s = a:matmul(t(own))
        own:add_(1)
        return s:softmax(-1):matmul(c) + own:sum()
      end,
      ['values that are written to'] = function(a, b, c)
        local own = c * 1.5
        local y = a:matmul(t(b)):softmax(-1):matmul(own)
        own:add_(1)
        return y + own:sum()
      end,
    } do
      local ran = recovered(f, q, k, v)
      assert.is_nil(ran:find 'attention', what .. ': ' .. ran)
    end
    -- results that are outputs, too
    local h = ridge.graph(function(a, b, c)
      kept = a:matmul(t(b)):softmax(-1)
      return kept:matmul(c), kept
    end, q, k, v):optimize(PASSES)
    assert.is_nil(ops(h):find 'attention')
    -- and rounding in between: types that are narrow, autocast
    local half = ridge.graph(function(a, b, c) return a:matmul(t(b)):softmax(-1):matmul(c) end,
      q:to 'bf16', k:to 'bf16', v:to 'bf16'):optimize(PASSES)
    assert.is_nil(ops(half):find 'attention')
    local cast = ridge.autocast('bf16', function()
      return ridge.graph(function(a, b, c) return a:matmul(t(b)):softmax(-1):matmul(c) end, q, k, v)
    end):optimize(PASSES)
    assert.is_nil(ops(cast):find 'attention')
  end)
end)

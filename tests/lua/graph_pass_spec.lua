-- SPDX-License-Identifier: MIT
local ridge = require 'ridge'

local function ops(graph)
  local list = {}
  for i, node in ipairs(graph:nodes()) do list[i] = node.op end
  return table.concat(list, ' ')
end

local ALL = { 'arithmetic_identities', 'constant_folding', 'view_folding', 'concat_folding',
  'reduction_folding', 'common_subexpression_elimination', 'dead_code_elimination' }

-- What is left of a function's graph behind passes.
local function left(passes, f, ...)
  local g = ridge.graph(f, ...)
  local before = g:json()
  local h = g:optimize(passes):check()
  assert.equal(before, g:json(), 'the graph that is optimized stays as it is')
  return ops(h), h
end

describe('passes of the core', function()
  it('are listed in their order, with what they do', function()
    local list = ridge.graph.passes()
    local exact = {}
    for i = 1, #ALL + 7 do
      assert.truthy(#list[i].does > 10)
      if list[i].exactness == 'exact' then exact[#exact + 1] = list[i].name end
    end
    assert.same(ALL, exact)
    ridge.graph.pass('mine', function() end, { exactness = 'reassociates', does = 'nothing yet' })
    local found
    for _, pass in ipairs(ridge.graph.passes()) do
      if pass.name == 'mine' then found = pass end
    end
    assert.same({ name = 'mine', exactness = 'reassociates', does = 'nothing yet' }, found)
    local function refused(text, ...)
      local ok, e = pcall(ridge.graph.pass, ...)
      assert.is_false(ok)
      assert.truthy(tostring(e):find(text, 1, true), tostring(e))
    end
    refused('is a pass of the core', 'dead_code_elimination', function() end)
    local _, of_core = pcall(ridge.graph.pass, 'dead_code_elimination', function() end)
    assert.same({ 'EARG', 'graph' }, { of_core.code, of_core.op })
    refused("a name and a function are expected, got 1 and nil", 1)
    refused("a name and a function are expected, got 'mine' and 'x'", 'mine', 'x')
    refused('exactness', 'mine', function() end, { exactness = 'exactly' })
  end)

  -- Results of a function stay two however many values are computed once: who writes to one of
  -- them does not change the other.
  it('merge one result at most into each value', function()
    local x = ridge.randn(2, 3)
    local function f(n, results)
      return function(a)
        local y, out = {}, {}
        for i = 1, n do y[i] = a:exp() end
        for i, k in ipairs(results) do out[i] = y[k] end
        out[#out + 1] = y[1] + 1
        return unpack(out)
      end
    end
    for results, n in pairs { [{ 2 }] = 1, [{ 2, 3 }] = 2, [{ 3, 2 }] = 2, [{ 1, 2, 3 }] = 3,
      [{ 1, 4 }] = 2, [{ 2, 3, 4 }] = 3 } do
      local ran, h = left(ALL, f(4, results), x)
      local about = table.concat(results, ' ')
      assert.equal(n, select(2, ran:gsub('exp', '')), about)
      local out = { h:plan():run() }
      for i = 1, #results do out[i]:fill_(i) end
      for i = 1, #results do assert.equal(i, out[i]:sum():item() / 6, about) end
    end
  end)

  it('run by name beside those in Lua', function()
    ridge.graph.pass('gelu away', function(graph)
      for _, node in ipairs(graph:nodes()) do
        if node.op == 'gelu' then graph:replace(node.outputs[1], node.inputs[1]) end
      end
    end)
    assert.equal('neg', (left({ 'gelu away', 'dead_code_elimination' },
      function(x) return x:gelu():neg() end, ridge.ones(2, 3))))
    for near, name in pairs { dead_code = 'dead_code_elimination', fuse_chian = 'fuse_chain',
        operator_fusin = 'operator_fusion', ['gelu awya'] = 'gelu away' } do
      local ok, e = pcall(function()
        return ridge.graph(function(x) return x:neg() end, ridge.ones(2)):optimize { near }
      end)
      assert.is_false(ok)
      assert.truthy(tostring(e):find(("did you mean '%s'"):format(name), 1, true), tostring(e))
    end
    -- each name by itself: what is near is looked for among them all
    local g = ridge.graph(function(x) return x:neg() end, ridge.ones(2))
    for _, names in ipairs { ridge.graph.passes(), ridge.graph.aliases() } do
      for name in pairs(names) do
        if type(name) == 'string' then
          local _, err = pcall(function() return g:optimize { name .. 'x' } end)
          assert.truthy(tostring(err):find('did you mean', 1, true), tostring(err))
        end
      end
    end
  end)

  it('leave one step of a * 3 that nobody reads and x * 4', function()
    assert.equal('mul', (left({ 'dead_code_elimination' }, function(x)
      local _ = x * 3
      return x * 4
    end, ridge.ones(2, 3))))
  end)

  it('keep draws, running means, gradients and optimizer steps', function()
    local norm = ridge.nn.BatchNorm(3)
    local layer = ridge.nn.Linear(3, 4)
    local optimizer = ridge.optim.SGD(layer, { lr = 0.1, momentum = 0.9 })
    local text, h = left(ALL, function(x)
      local _ = x:dropout(0.5)
      _ = norm(x)
      layer(x):gelu():sum():backward()
      optimizer:step()
      return x:sum()
    end, ridge.randn(5, 3))
    for _, word in ipairs { 'dropout', 'batch_norm', 'matmul', 'sgd_step' } do
      assert.truthy(text:find(word, 1, true), text)
    end
    assert.equal(3, #h:outputs(), 'the sum and two gradients')
    local states = {}
    for _, value in ipairs(h:states()) do states[value.name or ''] = true end
    assert.truthy(states['layer.weight'] and states['layer.bias'], 'parameters are written to')
  end)

  it('see that a random tensor is another one each time', function()
    assert.equal('normal normal add', (left(ALL, function()
      return ridge.randn(4) + ridge.randn(4)
    end)))
  end)

  it('see writes through views between two calls', function()
    assert.equal('exp neg narrow fill neg add', (left(ALL, function(x)
      local y = x:exp()
      local a = y:neg()
      y:narrow(1, 1, 1):fill_(0)
      return a + y:neg()
    end, ridge.ones(2, 3))))
  end)

  it('merge no two results of the graph, also where one is merged already', function()
    assert.equal('mul neg mul', (left(ALL, function(x)
      local a = x * 3
      return a:neg(), x * 3, x * 3
    end, ridge.ones(2, 3))))
  end)

  it('keep calls under autocast apart', function()
    local w = ridge.randn(3, 3)
    local text = left(ALL, function(x)
      return x:matmul(w) + ridge.autocast('bf16', function() return x:matmul(w) end)
    end, ridge.randn(2, 3))
    local _, n = text:gsub('matmul', '')
    assert.equal(2, n, text)
  end)

  it('keep what is computed again for a backward pass', function()
    local layer = ridge.nn.Linear(3, 3)
    local function count(f)
      local text, h = left(ALL, f, ridge.randn(4, 3))
      local again = 0
      for _, node in ipairs(h:nodes()) do again = again + (node.recomputed and 1 or 0) end
      return select(2, text:gsub('linear', '')), again
    end
    local n, again = count(function(x) layer(x):tanh():sum():backward() end)
    assert.equal(1, n)
    assert.equal(0, again)
    n, again = count(function(x)
      local loss = ridge.recompute(function(y) return layer(y):tanh() end, x):sum()
      loss:backward()
      return loss
    end)
    assert.equal(2, n)
    assert.truthy(again >= 2, 'linear and tanh are marked')
  end)

  it('do the same on 20,000 nodes as on a few', function()
    local g = ridge.graph(function(x)
      local y = x
      for _ = 1, 4000 do y = (y * 1 + y:exp() + y:exp()) end
      return y
    end, ridge.ones(2))
    assert.equal(20000, #g:nodes())
    local text = ops(g:optimize(ALL))
    assert.equal(4000, select(2, text:gsub('exp', '')))
    assert.equal(8000, select(2, text:gsub('add', '')))
    assert.falsy(text:find('mul', 1, true), 'nothing is multiplied by 1')
  end)
end)

-- SPDX-License-Identifier: MIT
-- fuse_dropout: dropout behind a linear function becomes a part of its call, and drops the same
-- elements. The path of products is set: what dropout costs may make another one the fastest.
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'
local nn, optim = ridge.nn, ridge.optim

local FUSE = { 'fuse_dropout' }
local path

local function ops(graph)
  local list = {}
  for i, node in ipairs(graph:nodes()) do list[i] = node.op end
  return table.concat(list, ' ')
end

local function count(graph, op)
  local n = 0
  for _, node in ipairs(graph:nodes()) do n = n + (node.op == op and 1 or 0) end
  return n
end

-- The bits of four runs, each from the same random numbers as its like of other plans.
local function runs(run)
  local list = {}
  for i = 1, 4 do
    ridge.seed(40 + i)
    list[i] = bits.all(run())
  end
  return list
end

-- A linear layer as a function that no gradient is wanted of.
local function linear(opts)
  opts.seed = 3
  local l = nn.Linear(16, 24, opts)
  return function(x) return ridge.no_grad(l, x) end, l
end

-- f behind the pass: its operations, and that it gives f's bits.
local function behind(f, x)
  local g = ridge.graph(f, x)
  local h = g:optimize(FUSE):check()
  local plan = h:plan()
  assert.same(runs(function() return f(x) end), runs(function() return plan:run() end), ops(h))
  return ops(h), ops(g), h
end

describe('dropout behind a product', function()
  setup(function()
    path = ridge.backend.now().gemm
    ridge.backend.set_gemm 'own'
  end)
  teardown(function() ridge.backend.set_gemm(path) end)

  it('becomes a part of its call, and gives the same bits', function()
    local x = ridge.randn(40, 16)
    local bare, whole = linear { bias = false }, linear {}
    for _, p in ipairs { 0.1, 0.5, 0.9 } do
      local after, before = behind(function(a) return (whole(a):dropout(p)) end, x)
      assert.equal('linear dropout', before)
      assert.equal('linear_dropout', after)
    end
    local acted = linear { activation = 'gelu' }
    assert.equal('exp linear_dropout sin', (behind(function(a)
      return acted(a:exp()):dropout(0.3):sin()
    end, x)))
    local w = ridge.randn(16, 24)
    assert.equal('transpose linear_dropout', (behind(function(a)
      return a:matmul(w):dropout(0.3)
    end, x)))
    assert.equal('linear_dropout linear_dropout', (behind(function(a) -- one draws behind the other
      return bare(a):dropout(0.3), whole(a):dropout(0.6)
    end, x)))
    local b = ridge.randn(24)
    assert.equal('linear_dropout', (behind(function(a)
      return (bare(a) + b):dropout(0.25)
    end, x)))
  end)

  it('is where the product was, and costs what it did', function()
    local net = nn.Sequential(nn.Linear(16, 24, { seed = 3 }), nn.Dropout(0.5)):train()
    local w = ridge.randn(16, 24)
    for _, f in ipairs { function(a)
      local y = a:matmul(w)
      return (y:dropout(0.3))
    end, function(a) return ridge.no_grad(net, a) end } do
      local _, _, h = behind(f, ridge.randn(40, 16))
      local product
      for _, node in ipairs(ridge.graph(f, ridge.randn(40, 16)):nodes()) do
        if node.op == 'matmul' or node.op == 'linear' then product = node end
      end
      for _, node in ipairs(h:nodes()) do
        if node.op == 'linear_dropout' then
          assert.same({ product.line, product.module or 'none', 2 * 40 * 16 * 24, product.bytes },
            { node.line, node.module or 'none', node.flops, node.bytes })
        end
      end
    end
  end)

  it('leaves a training step the bits of eager ones', function()
    local function make()
      local net = nn.Sequential(nn.Linear(16, 32, { seed = 1 }), nn.Dropout(0.25), nn.GELU(),
        nn.Residual(nn.Sequential(nn.Linear(32, 32, { seed = 2 }), nn.Dropout(0.4))),
        nn.Linear(32, 8, { seed = 3 })):train()
      local optimizer = optim.AdamW(net, { lr = 0.01 })
      local x = ridge.randn(24, 16, { generator = ridge.generator(5) })
      local function step()
        optimizer:zero_grad()
        local loss = net(x):square():mean()
        loss:backward()
        optimizer:step()
        return loss
      end
      return net, step
    end
    local net, step = make()
    local fused_net, fused_step = make()
    ridge.seed(9)
    step() -- as the recording runs once
    ridge.seed(9)
    local g = ridge.graph(fused_step)
    local h = g:optimize(FUSE):check()
    assert.equal(2, count(g, 'dropout'))
    assert.equal(0, count(h, 'dropout'))
    assert.equal(2, count(h, 'linear_dropout'))
    assert.equal(2, count(h, 'dropout_back')) -- from the same draws
    local plan = h:plan()
    ridge.seed(10)
    for _ = 1, 20 do step() end
    ridge.seed(10)
    for _ = 1, 20 do plan:run() end
    assert.same(bits.all(net:state()), bits.all(fused_net:state()))
  end)

  it('drops the same elements of types that are rounded once', function()
    for _, dtype in ipairs { 'f16', 'bf16', 'f64' } do
      local x, l = ridge.randn(9, 16):to(dtype), nn.Linear(16, 24, { seed = 3 }):to(dtype)
      local function f(a) return ridge.no_grad(l, a):dropout(0.5) end
      local h = ridge.graph(f, x):optimize(FUSE):check()
      assert.equal('linear_dropout', ops(h))
      local plan = h:plan()
      ridge.seed(3)
      local want = f(x)
      ridge.seed(3)
      local got = plan:run()
      assert.same(bits.of(want:eq(0)), bits.of(got:eq(0)), dtype)
      local off = (got:to 'f64' - want:to 'f64'):abs():max():item()
      local most = want:to 'f64':abs():max():item()
      assert.is_true(off <= (dtype == 'f64' and 1e-15 or 0.02) * most, off)
    end
  end)

  it('stays where somebody reads what lies between, or draws it again', function()
    local l, x = linear {}, ridge.randn(40, 16)
    local kept = {
      function(a)
        local y = l(a)
        return y:dropout(0.5), y
      end,
      function(a) return l(a):exp():dropout(0.5) end,
      function(a) return l(a):dropout_(0.5) end, -- writes
      function(a) -- what the product reads is written to before dropout runs
        local z = a:exp()
        local y = l(z)
        z:add_(1)
        return y:dropout(0.5), z
      end,
    }
    for i, f in ipairs(kept) do
      local after = behind(f, x)
      assert.is_nil(after:find('linear_dropout', 1, true), i)
    end
    local net = nn.Sequential(nn.Linear(16, 24, { seed = 1 }), nn.Dropout(0.5), nn.Tanh()):train()
    net:recompute(1)
    local g = ridge.graph(function()
      local loss = net(x):square():mean()
      loss:backward()
      return loss
    end)
    assert.equal(2, count(g, 'dropout'))
    assert.equal(2, count(g:optimize(FUSE):check(), 'dropout'))
  end)
end)

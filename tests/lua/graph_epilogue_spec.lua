-- SPDX-License-Identifier: MIT
-- Bias and activation behind a product or a convolution as arguments of its call.
local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local ridge = require 'ridge'
local nn = ridge.nn

local FUSE = { 'epilogue_fusion' }
local ACTS = { 'relu', 'gelu', 'silu', 'tanh', 'sigmoid', 'relu6' }

local function ops(graph)
  local list = {}
  for i, node in ipairs(graph:nodes()) do list[i] = node.op end
  return table.concat(list, ' ')
end

-- The largest difference, by the largest result.
local function distance(a, b)
  a, b = a:to 'f32', b:to 'f32'
  return (a - b):abs():max():item() / b:abs():max():item()
end

-- f's plan with the nodes `want`, and its results for three contents of x.
local function becomes(want, f, x, most)
  local g = ridge.graph(f, x)
  local h = g:optimize(FUSE):check()
  assert.equal(want, ops(h), ops(g))
  local plan = h:plan()
  for _ = 1, 3 do
    x:copy_(ridge.randn(unpack(x.shape)))
    local a, b = { f(x) }, { plan:run() }
    for i = 1, #a do
      local d = distance(b[i], a[i])
      assert.truthy(d <= (most or 1e-6), ('%s: off by %g'):format(want, d))
    end
  end
  return h, g, plan
end

local function stays(f, x, why)
  local g = ridge.graph(f, x)
  assert.equal(ops(g), ops(g:optimize(FUSE):check()), why)
end

local function quiet(f)
  return function(x) return ridge.inference(f, x) end
end

describe('bias and activation as an epilogue', function()
  -- oneDNN computes these as matrix products and would apply an activation one by one
  it('costs small groups of a convolution no multiple of what they take', function()
    ridge.seed(21)
    local conv = nn.Conv2d(24, 112, 1, { groups = 4 }):eval()
    local x = ridge.randn(1, 24, 40, 40)
    local function least(plan)
      local best = math.huge
      plan:run()
      for _ = 1, 7 do
        local began = os.clock()
        for _ = 1, 4 do plan:run() end
        best = math.min(best, os.clock() - began)
      end
      return best
    end
    for _, act in ipairs(ACTS) do
      local function f(y)
        y = conv(y)
        return y[act](y)
      end
      local _, g, plan = becomes('conv2d', quiet(f), x)
      if act == 'relu' then assert.is_true(least(plan) < 3 * least(g:plan())) end
    end
    for _, dtype in ipairs { 'f32', 'bf16' } do -- called
      local acted = nn.Conv2d(24, 112, 1, { groups = 4, activation = 'tanh' }):eval()
      acted.weight, acted.bias = conv.weight, conv.bias
      acted, conv = acted:to(dtype), conv:to(dtype)
      local y = x:to(dtype)
      local d = distance(ridge.inference(acted, y), ridge.inference(conv, y):tanh())
      assert.is_true(d < (dtype == 'f32' and 1e-6 or 0.01), dtype)
    end
  end)

  it('gives the same results but for rounding', function()
    ridge.seed(1)
    for _, act in ipairs(ACTS) do
      for _, size in ipairs { { 1, 64, 48 }, { 7, 33, 65 }, { 40, 130, 64 } } do
        local w, b = ridge.randn(size[2], size[3]), ridge.randn(size[3])
        local linear = nn.Linear(size[2], size[3])
        local x = ridge.randn(size[1], size[2])
        becomes('transpose linear', quiet(function(y)
          y = y:matmul(w) + b
          return y[act](y)
        end), x)
        becomes('linear', quiet(function(y)
          y = linear(y)
          return y[act](y)
        end), x)
      end
      local conv, same = nn.Conv2d(3, 8, 3), nn.Conv2d(3, 8, 3, { bias = false })
      local b = ridge.randn(8)
      becomes('conv2d', quiet(function(y)
        y = conv(y)
        return y[act](y)
      end), ridge.randn(2, 3, 9, 9))
      becomes('reshape view conv2d', quiet(function(y)
        y = b:reshape(8, 1, 1) + same(y)
        return y[act](y)
      end), ridge.randn(2, 3, 9, 9))
    end
  end)

  it('does so in other types, rounded once', function()
    ridge.seed(2)
    for _, dtype in ipairs { 'bf16', 'f16', 'f64' } do
      local w, b = ridge.randn(20, 24):to(dtype), ridge.randn(24):to(dtype)
      becomes('transpose linear', quiet(function(x) return (x:matmul(w) + b):gelu() end),
        ridge.randn(6, 20):to(dtype), dtype == 'bf16' and 2 ^ -7 or dtype == 'f16' and 2 ^ -10
        or 1e-14)
    end
  end)

  it('does so for 8-bit factors', function()
    ridge.seed(3)
    local b = ridge.randn(24)
    local x = ridge.randn(6, 32)
    for _, dtype in ipairs { 'i8', 'f8e4m3' } do
      local w, scale = (ridge.randn(24, 32) * 20):to(dtype), ridge.rand(24)
      local h = becomes('mul cast fill scaled_linear', quiet(function(y)
        return (ridge.scaled_linear((y * 20):to(dtype), w, 0.5, scale) + b):relu()
      end), x)
      assert.equal(5, #h:nodes()[4].inputs)
    end
  end)

  it('does so for two factors', function()
    local layer, b = nn.LowRankLinear(32, 24, { rank = 4, bias = false }), ridge.randn(24)
    becomes('lowrank_linear', quiet(function(y) return (layer(y) + b):silu() end),
      ridge.randn(6, 32))
  end)

  it('finds the channels of a layout', function()
    local x = ridge.randn(2, 5, 5, 5)
    local first, last = nn.Conv2d(5, 3, 3), nn.Conv2d(5, 3, 3, { bias = false, layout = 'nhwc' })
    local plain = nn.Conv2d(5, 3, 3, { bias = false })
    local b = ridge.randn(3)
    becomes('conv2d', quiet(function(y) return (last(y) + b):relu() end), x)
    -- 3 columns, and 3 channels
    stays(quiet(function(y) return plain(y) + b end), x, 'a bias for each column')
    stays(quiet(function(y) return last(y) + b:reshape(3, 1, 1) end), x, 'one for each row')
    stays(quiet(function(y) return first(y) + b:reshape(3, 1, 1) end), x, 'there is one')
  end)

  it('leaves what is no bias', function()
    local x, w = ridge.randn(3, 4), ridge.randn(4, 3)
    for why, b in pairs { ['of another type'] = ridge.ones(3, { dtype = 'f64' }),
        ['a row each'] = ridge.randn(3, 1), ['a matrix'] = ridge.randn(3, 3),
        ['one for all'] = ridge.randn(1), ['of more axes'] = ridge.randn(2, 1, 3) } do
      stays(quiet(function(y) return y:matmul(w) + b end), x, why)
    end
    stays(quiet(function(y) return y:matmul(w) + 2 end), x, 'a number')
    stays(quiet(function(y) return y:matmul(w) - w:narrow(1, 1, 1) end), x, 'it is taken away')
    stays(quiet(function(y) return y:matmul(w):exp() end), x, 'no activation')
    stays(quiet(function(y) return y:reshape(3, 2, 2):matmul(w:reshape(3, 2, 2)):relu() end), x,
      'a product of batches')
    local i = ridge.ones(3, 4, { dtype = 'i32' })
    stays(quiet(function() return i:matmul(i:t()):relu() end), x, 'integers')
    local layer = nn.Linear(4, 3, { activation = 'tanh', bias = false })
    stays(quiet(function(y) return layer(y):relu() end), x, 'there is an activation')
    stays(quiet(function(y) return layer(y) + ridge.ones(3) end), x, 'a sum behind it')
    becomes('transpose linear', quiet(function(y) return y:matmul(w):relu() end), x)
    local b = ridge.randn(1, 3)
    becomes('transpose view linear', quiet(function(y) return y:matmul(w) + b end), x)
    becomes('transpose linear', quiet(function(y) return y:matmul(w):relu() end), ridge.randn(4))
  end)

  it('leaves what others read', function()
    local x, layer = ridge.randn(3, 4), nn.Linear(4, 3)
    stays(quiet(function(y)
      local z = layer(y)
      return z:relu(), z
    end), x, 'a result')
    stays(quiet(function(y)
      local z = layer(y)
      return z:relu() + z:exp()
    end), x, 'another call')
    stays(quiet(function(y)
      local z = layer(y)
      return z:relu(), z:narrow(1, 1, 1)
    end), x, 'a view of it')
    stays(function(y)
      layer(y):gelu():sum():backward()
    end, x, 'the backward pass of gelu')
    -- what is computed again for the backward pass
    local h = ridge.graph(function(y)
      local loss = ridge.recompute(function(z) return layer(z):relu() end, y):sum()
      loss:backward()
      return loss
    end, x):optimize(FUSE):check()
    local again = {}
    for _, node in ipairs(h:nodes()) do
      if node.recomputed and (node.op == 'linear' or node.op == 'relu') then
        again[#again + 1] = node.op
      end
    end
    assert.same({ 'linear', 'relu' }, again)
  end)

  it('does not move a product across a write', function()
    local x = ridge.randn(3, 4)
    local function with(change)
      local w, b = ridge.randn(4, 3), ridge.randn(3)
      return quiet(function(y)
        local z = y:matmul(w)
        change(w, b, y)
        return (z + b):relu()
      end)
    end
    stays(with(function(w) w:mul_(2) end), x, 'the weight')
    stays(with(function(w) w:t():narrow(1, 1, 1):fill_(0) end), x, 'the weight, through a view')
    -- the bias is read behind its write, and so it stays
    local scale = ridge.randn(3)
    local h = ridge.graph(with(function(_, b) b:copy_(scale) end), x):optimize(FUSE):check()
    assert.equal('copy transpose linear', ops(h))
    -- one that comes later does not matter
    local w = ridge.randn(4, 3)
    h = ridge.graph(quiet(function(y)
      local z = y:matmul(w):relu()
      w:mul_(0.5)
      return z
    end), x):optimize(FUSE):check()
    assert.equal('transpose linear mul', ops(h))
    local want = x:matmul(w):relu()
    assert.truthy(distance(h:plan():run(), want) < 1e-6)
  end)

  it('keeps what comes of an autocast apart', function()
    ridge.seed(5)
    local x, layer = ridge.randn(3, 4), nn.Linear(4, 3)
    stays(quiet(function(y)
      return ridge.autocast('bf16', function() return layer(y) end):relu()
    end), x, 'one of two')
    becomes('linear', quiet(function(y)
      return ridge.autocast('bf16', function() return layer(y):relu() end)
    end), x, 2 ^ -7)
    local b = ridge.randn(3)
    local w = ridge.randn(4, 3)
    stays(quiet(function(y)
      return ridge.autocast('bf16', function() return y:matmul(w) + b end)
    end), x, 'a sum in f32 of a product in bf16')
  end)

  it('goes on where the result is viewed and written over', function()
    local layer, x = nn.Linear(4, 3), ridge.randn(3, 4)
    becomes('linear narrow fill transpose copy', quiet(function(y)
      local z = layer(y):relu()
      z:narrow(2, 1, 1):fill_(2)
      return z:transpose(1, 2):contiguous()
    end), x)
  end)

  it('trains as the step that was recorded', function()
    local function make()
      ridge.seed(7)
      local net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(),
        nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 1))
      local optimizer = ridge.optim.SGD(net, { lr = 0.05, momentum = 0.9 })
      local x, y = ridge.randn(12, 6), ridge.randn(12, 1)
      return function()
        optimizer:zero_grad()
        local loss = (net(x) - y):pow(2):mean()
        loss:backward()
        optimizer:step()
        return loss
      end
    end
    local eager = make()
    local g = ridge.graph(make())
    local h = g:optimize(FUSE):check()
    local function count(graph, op)
      local n = 0
      for _, node in ipairs(graph:nodes()) do n = n + (node.op == op and 1 or 0) end
      return n
    end
    assert.same({ 0, 0, 1 }, { count(h, 'relu'), count(h, 'tanh'), count(h, 'gelu') })
    local plan = h:plan()
    eager()
    for _ = 2, 5 do
      local want = eager():item()
      assert.near(want, plan:run():item(), 1e-5 * math.abs(want))
    end
  end)

  it('says what is left: nodes fewer, the products of each FLOP that was counted', function()
    local net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8), nn.Sigmoid())
    local h, g, plan = becomes('linear linear', quiet(function(x) return net(x) end),
      ridge.randn(16, 64))
    assert.equal(4, #g:nodes())
    local function flops(graph)
      local sum = 0
      for _, node in ipairs(graph:nodes()) do sum = sum + node.flops end
      return sum
    end
    local products = 2 * 16 * 64 * (64 + 8)
    assert.equal(products, flops(h))
    assert.truthy(flops(g) > products)
    local facts = plan:facts()
    assert.equal(products, facts.flops)
    assert.equal(2, facts.n_steps)
    assert.equal('1', h:nodes()[1].module)
  end)

  it('is no exact pass', function()
    for _, pass in ipairs(ridge.graph.passes()) do
      if pass.name == FUSE[1] then return assert.equal('reassociates', pass.exactness) end
    end
    error 'it is not there'
  end)

  it('costs what the product does, and the bytes of the bias', function()
    local x, w, b = ridge.randn(3, 4), ridge.randn(4, 5), ridge.randn(5)
    local h = ridge.graph(quiet(function(y) return (y:matmul(w) + b):relu() end), x):optimize(FUSE)
    local list = h:nodes()
    local node = list[#list]
    assert.equal('linear', node.op)
    assert.equal(4 * (3 * 4 + 4 * 5 + 3 * 5 + 5), node.bytes)
    assert.equal(2 * 3 * 4 * 5, node.flops)
  end)

  it('says so where there is no memory, and changes nothing', function()
    local w, b, conv = ridge.randn(4, 3), ridge.randn(1, 3), nn.Conv2d(3, 4, 3)
    local g = ridge.graph(quiet(function(x)
      return (x:matmul(w) + b):relu(), conv(ridge.ones(1, 3, 5, 5)):tanh()
    end), ridge.randn(2, 4))
    local before, names, slot = g:json(), ffi.new('const char *[1]', FUSE), ffi.new 'rg_graph *[1]'
    local n, status = 0
    repeat
      n = n + 1
      C.rg_alloc_fail_at(n)
      status = tonumber(C.rg_graph_optimize(g._p, names, 1, slot))
      C.rg_alloc_fail_at(0)
      assert.truthy(status == 0 or status == C.RG_ENOMEM, tostring(status))
    until status == 0
    assert.truthy(n > 20, n)
    C.rg_graph_release(slot[0])
    assert.equal(before, g:json())
  end)
end)

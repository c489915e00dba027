-- SPDX-License-Identifier: MIT
-- The kinds of attention: by tiles, with a mask of blocks, by random features; and what a module
-- owns itself.

local ridge = require 'ridge'
local nn = ridge.nn

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

local function error_of(x, y) return (x - y):norm():item() / y:norm():item() end

describe('attention by tiles', function()
  it('lets a nan go to its own query, and that of a key to all', function()
    for _, kind in ipairs { 'f32', 'bf16', 'f64' } do
      local function made(n) return ridge.randn(n, 8):to(kind) end
      local q, k, v = made(40), made(300), made(300)
      q:narrow(1, 3, 1):fill_(0 / 0)
      local function bad(y) return y:ne(y):to('f32'):sum(2):tolist() end
      local rows = bad(nn.attention(q, k, v))
      for i = 1, 40 do assert.are.equal(i == 3 and 8 or 0, rows[i]) end
      k:narrow(1, 280, 1):fill_(0 / 0)
      rows = bad(nn.attention(made(40), k, v))
      for i = 1, 40 do assert.are.equal(8, rows[i]) end
    end
  end)

  it('is what the whole matrix gives, with its gradients', function()
    for _, causal in ipairs { false, true } do
      local tiles = nn.MultiHeadAttention(24, { heads = 3, causal = causal, seed = 4 }):train()
      local matrix = nn.MultiHeadAttention(24, { heads = 3, causal = causal, seed = 4,
        kind = 'matrix' }):train()
      local x = ridge.randn(2, 90, 24)
      local a, b = x:clone():requires_grad_(), x:clone():requires_grad_()
      local ya, yb = tiles(a), matrix(b)
      assert.is_true(ya:allclose(yb, 1e-5, 1e-5))
      local dy = ridge.randn(2, 90, 24)
      ya:backward(dy)
      yb:backward(dy)
      assert.is_true(error_of(a.grad, b.grad) < 1e-5)
      assert.is_true(error_of(tiles.qkv.weight.grad, matrix.qkv.weight.grad) < 1e-5)
    end
  end)

  it('in halves is what the whole matrix gives, causal or not', function()
    for dtype, most in pairs { bf16 = 0.02, f16 = 0.003 } do
      for _, causal in ipairs { false, true } do
        local y = {}
        for _, kind in ipairs { 'tiles', 'matrix' } do
          local layer = nn.MultiHeadAttention(24, { heads = 3, causal = causal, seed = 4,
            kind = kind }):to(dtype)
          ridge.seed(7)
          y[kind] = layer(ridge.randn(2, 50, 24):to(dtype)):to 'f32'
        end
        local e = error_of(y.matrix, y.tiles)
        assert.is_true(e < most, ('%s: %g'):format(dtype, e))
      end
    end
  end)

  it('with dropout drops what the whole matrix drops, forward and back', function()
    for _, causal in ipairs { false, true } do
      local results = {}
      for _, kind in ipairs { 'tiles', 'matrix' } do
        local layer = nn.MultiHeadAttention(24, { heads = 3, causal = causal, seed = 4, kind = kind,
          dropout = 0.4 }):train()
        ridge.seed(7)
        local x = ridge.randn(2, 90, 24):requires_grad_()
        local dy = ridge.randn(2, 90, 24)
        ridge.rand(3) -- numbers do not begin at a multiple of four
        local y = layer(x)
        y:backward(dy)
        results[kind] = { y:detach(), x.grad, layer.qkv.weight.grad, ridge.rand(1) }
      end
      for i = 1, 3 do
        assert.is_true(error_of(results.tiles[i], results.matrix[i]) < 1e-5, i)
      end
      assert.is_true(results.tiles[4]:equal(results.matrix[4])) -- so many were taken
    end
  end)

  it('with dropout takes a mask, a generator, and memory as the length', function()
    local q = ridge.randn(1, 128, 8)
    local mask = ridge.tensor({ { 1, 0 }, { 1, 1 } }):to 'bool'
    local opts = { mask = mask, dropout = 0.5, generator = ridge.generator(5) }
    local y = nn.attention(q, q, q, opts)
    local weights = ridge.ones(1, 128, 128):dropout(0.5, ridge.generator(5))
    local scores = q:matmul(q:transpose(2, 3)) / math.sqrt(8)
    scores:narrow(2, 1, 64):narrow(3, 65, 64):fill_(-math.huge)
    assert.is_true(y:allclose((scores:softmax() * weights):matmul(q), 1e-5, 1e-5))
    assert.is_false(y:equal(nn.attention(q, q, q, opts))) -- the stream goes on
    local function peak(length)
      local x = ridge.randn(1, length, 16):requires_grad_()
      return ridge.memory.peak_of(function()
        nn.attention(x, x, x, { dropout = 0.1 }):sum():backward()
      end)
    end
    local grown = peak(4096) / peak(1024)
    assert.is_true(grown < 5, ('it grew by %g'):format(grown))
  end)

  it('with dropout draws anew in each replay of a plan', function()
    local q = ridge.randn(1, 40, 8)
    local function f() return nn.attention(q, q, q, { dropout = 0.5 }) end
    local plan = ridge.capture(f)
    ridge.seed(3)
    plan:run()
    local first = plan.results[1]:clone()
    plan:run()
    local second = plan.results[1]:clone()
    ridge.seed(3)
    assert.is_true(first:equal(f()))
    assert.is_true(second:equal(f()))
    assert.is_false(first:equal(second))
  end)

  it('takes memory as the length, not as its square', function()
    local function peak(kind, length)
      local layer = nn.MultiHeadAttention(16, { heads = 1, kind = kind, seed = 1 })
      local x = ridge.randn(1, length, 16)
      return ridge.no_grad(ridge.memory.peak_of, function() layer(x) end)
    end
    local tiles = peak('tiles', 4096) / peak('tiles', 1024)
    local matrix = peak('matrix', 4096) / peak('matrix', 1024)
    assert.is_true(tiles < 5, ('tiles grew by %g'):format(tiles))
    assert.is_true(matrix > 9, ('the matrix grew by %g'):format(matrix))
  end)

  it('does not touch blocks that a mask leaves out', function()
    -- a nan among the values would show in every query that multiplies it, even by 0
    local q, k, v = ridge.randn(1, 256, 8), ridge.randn(1, 256, 8), ridge.randn(1, 256, 8)
    v:narrow(2, 129, 64):fill_(0 / 0)
    local mask = ridge.ones(4, 4)
    mask:narrow(2, 3, 1):fill_(0)
    local y = nn.attention(q, k, v, { mask = mask:to 'bool' })
    local some = ridge.concat({ k:narrow(2, 1, 128), k:narrow(2, 193, 64) }, 2)
    local values = ridge.concat({ v:narrow(2, 1, 128), v:narrow(2, 193, 64) }, 2)
    assert.is_true(y:allclose(nn.attention(q, some, values), 1e-5, 1e-5))
    local all = nn.attention(q, k, v):sum():item()
    assert.is_true(all ~= all)
  end)

  it('says what does not go together', function()
    local mask = ridge.ones(1, 1):to 'bool'
    assert.matches("goes with kind = 'tiles', not 'matrix'", message(nn.MultiHeadAttention, 8,
      { kind = 'matrix', mask = mask }))
    assert.matches('exclude each other', message(nn.MultiHeadAttention, 8,
      { kind = 'features', dropout = 0.1 }))
    assert.matches('wanted %[1,1%] for 5 queries', message(nn.attention, ridge.ones(5, 4),
      ridge.ones(5, 4), ridge.ones(5, 4), { mask = ridge.ones(2, 2):to 'bool' }))
    assert.matches('a tensor is expected, got nil', message(nn.attention, ridge.ones(5, 4)))
  end)
end)

describe('attention by random features', function()
  it('has directions of whole numbers, counted in the order they are given in', function()
    assert.matches('size 1 is 0', message(nn.random_features, 0, 4))
    assert.matches('size 2 is 1.5', message(nn.random_features, 8, 1.5))
  end)

  local function inputs()
    ridge.seed(3)
    return ridge.randn(2, 300, 16) * 0.5, ridge.randn(2, 300, 16) * 0.5, ridge.randn(2, 300, 8)
  end

  it('comes nearer with more features, causal or not', function()
    for _, causal in ipairs { false, true } do
      local q, k, v = inputs()
      local exact = nn.attention(q, k, v, { causal = causal })
      local last = 1
      for _, n in ipairs { 16, 256, 4096 } do
        local y = nn.feature_attention(q, k, v, nn.random_features(n, 16, 1), { causal = causal })
        local e = error_of(y, exact)
        assert.is_true(e < 0.75 * last, ('%d features: %g'):format(n, e))
        last = e
      end
      assert.is_true(last < 0.08)
    end
  end)

  it('is causal to the bit, across its chunks', function()
    local q, k, v = inputs()
    local omega = nn.random_features(32, 16, 1)
    for _, kernel in ipairs { 'softmax', 'relu' } do
      local opts = { causal = true, kernel = kernel }
      local x = v:clone():requires_grad_()
      nn.feature_attention(q, k, x, omega, opts):narrow(2, 150, 1):sum():backward()
      local reach = x.grad:abs():sum({ 1, 3 }):tolist()
      for i = 1, 300 do assert.are.equal(i <= 150, reach[i] > 0) end
    end
  end)

  it('is the same before a place whatever stands behind it, in every type', function()
    local omega = nn.random_features(32, 16, 1)
    for _, dtype in ipairs { 'f32', 'f64', 'bf16' } do
      for _, kernel in ipairs { 'softmax', 'relu' } do
        local opts = { causal = true, kernel = kernel }
        local given = { inputs() }
        for i, x in ipairs(given) do given[i] = x:to(dtype) end
        local w = omega:to(dtype)
        local before = nn.feature_attention(given[1], given[2], given[3], w, opts)
        for which = 1, 3 do
          for _, place in ipairs { 1, 100, 128, 129, 299 } do -- chunks are 128 places long
            local changed = { unpack(given) }
            changed[which] = given[which]:clone()
            -- a key of this length has exponents that dwarf those of all others
            changed[which]:narrow(2, place + 1, 300 - place):mul_(20)
            local now = nn.feature_attention(changed[1], changed[2], changed[3], w, opts)
            local what = ('%s %s input %d place %d'):format(dtype, kernel, which, place)
            assert.is_true(now:narrow(2, 1, place):equal(before:narrow(2, 1, place)), what)
            assert.is_false(now:narrow(2, place + 1, 1):equal(before:narrow(2, place + 1, 1)), what)
          end
        end
      end
    end
  end)

  it('is, where the last place sees all, what it is without being causal', function()
    local q, k, v = inputs()
    local omega = nn.random_features(64, 16, 1)
    for _, kernel in ipairs { 'softmax', 'relu' } do
      local all = nn.feature_attention(q, k, v, omega, { kernel = kernel })
      local causal = nn.feature_attention(q, k, v, omega, { kernel = kernel, causal = true })
      local last, last_causal = all:narrow(2, 300, 1), causal:narrow(2, 300, 1)
      assert.is_true(last:allclose(last_causal, 2e-3, 2e-3))
    end
  end)

  it('keeps what came before keys that count next to nothing', function()
    local q, k, v = inputs()
    local omega = nn.random_features(64, 16, 1)
    for _, from in ipairs { 128, 200 } do -- a chunk is 128 places long
      local early = nn.feature_attention(q, k:narrow(2, 1, from), v:narrow(2, 1, from), omega)
      local longer = k:clone()
      longer:narrow(2, from + 1, 300 - from):mul_(50)
      local y = nn.feature_attention(q, longer, v, omega, { causal = true })
      local late = y:narrow(2, from + 1, 300 - from)
      assert.is_true(late:allclose(early:narrow(2, from + 1, 300 - from), 2e-3, 2e-3))
    end
  end)

  it('has the gradients of finite differences, where keys are of very different lengths', function()
    ridge.seed(5)
    local omega = nn.random_features(8, 4, 1):to 'f64'
    local lengths = ridge.rand(1, 140, 1, { dtype = 'f64' }) * 3
    local list = { ridge.randn(1, 140, 4, { dtype = 'f64' }),
      ridge.randn(1, 140, 4, { dtype = 'f64' }) * lengths,
      ridge.randn(1, 140, 3, { dtype = 'f64' }) }
    local weight = ridge.randn(1, 140, 3, { dtype = 'f64' })
    local function loss()
      return (nn.feature_attention(list[1], list[2], list[3], omega, { causal = true }) * weight)
        :sum()
    end
    for _, x in ipairs(list) do x:requires_grad_() end
    loss():backward()
    for which, x in ipairs(list) do
      local direction = ridge.randn(unpack(x.shape)):to 'f64'
      local wanted = (x.grad * direction):sum():item()
      local h = 1e-5
      local found = ridge.no_grad(function()
        local here = x:clone()
        x:copy_(here + direction * h)
        local up = loss():item()
        x:copy_(here - direction * h)
        local down = loss():item()
        x:copy_(here)
        return (up - down) / (2 * h)
      end)
      -- what is subtracted from the exponents counts as a constant, and eps is added behind it
      assert.is_true(math.abs(found - wanted) < 2e-3 * math.abs(wanted) + 1e-2,
        ('input %d: %g and %g'):format(which, found, wanted))
    end
  end)

  it('has features that are orthogonal in blocks, of a seed of their own', function()
    ridge.seed(9)
    local before = ridge.randn(4):tolist()
    ridge.seed(9)
    local omega = nn.random_features(10, 4, 5)
    assert.same(before, ridge.randn(4):tolist()) -- the default stream did not move
    assert.is_true(omega:equal(nn.random_features(10, 4, 5)))
    local dots = omega:narrow(1, 5, 4):matmul(omega:narrow(1, 5, 4):t()):tolist()
    for i = 1, 4 do
      for j = 1, 4 do
        assert.is_true(i == j and dots[i][j] > 0 or i ~= j and math.abs(dots[i][j]) < 1e-5)
      end
    end
  end)

  it('says what does not fit', function()
    assert.matches('wanted .*with n = m', message(nn.feature_attention, ridge.ones(3, 4),
      ridge.ones(5, 4), ridge.ones(5, 4), nn.random_features(4, 4), { causal = true }))
  end)
end)

describe('a module', function()
  it('of ten lines has parameters that train, save and convert', function()
    local Scale = ridge.nn.class 'Scale'
    function Scale:init(n)
      self:param('weight', ridge.ones(n))
      self:buffer('calls', ridge.zeros(1))
    end
    function Scale:forward(x)
      self.calls:add_(1)
      return x * self.weight
    end
    local net = nn.Sequential(nn.Linear(3, 4, { seed = 1 }), Scale(4)):train()
    local names = {}
    for _, p in ipairs(net:parameters()) do names[#names + 1] = p.name end
    assert.same({ '1.weight', '1.bias', '2.weight', '2.calls' }, names)
    net(ridge.randn(2, 3)):sum():backward()
    assert.is_true(net.children[2].module.weight.grad ~= nil)
    net:to 'bf16'
    assert.are.equal('bf16', net.children[2].module.weight.dtype)
  end)

  it('is frozen and thawed', function()
    local net = nn.Sequential(nn.Linear(3, 4, { seed = 1 }), nn.Linear(4, 2, { seed = 2 })):train()
    net.children[1].module:freeze()
    net(ridge.randn(2, 3)):sum():backward()
    assert.is_nil(net.children[1].module.weight.grad)
    assert.is_true(net.children[2].module.weight.grad ~= nil)
    assert.are.equal(10, (net:num_parameters()))
    net:to 'bf16'
    assert.is_false(net.children[1].module:parameters()[1].trainable)
    net:freeze(false)
    assert.are.equal(26, (net:num_parameters()))
  end)

  it('that is used twice is trained once', function()
    local shared = nn.Linear(3, 3, { seed = 1 })
    local net = nn.Sequential(shared, nn.ReLU(), shared):train()
    assert.are.equal(2, #net:parameters())
    assert.are.equal(12, (net:num_parameters()))
    local optimizer = ridge.optim.SGD(net, { lr = 1 })
    local before = shared.weight:clone()
    net(ridge.ones(1, 3)):sum():backward()
    local grad = shared.weight.grad:clone()
    optimizer:step()
    assert.is_true((before - shared.weight):detach():allclose(grad, 1e-6, 1e-6))
  end)
end)

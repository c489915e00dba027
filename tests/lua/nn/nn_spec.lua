-- SPDX-License-Identifier: MIT
local ridge = require 'ridge'
local nn = ridge.nn

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return e
end

describe('nn.Linear', function()
  it('is y = x W\' + b, and the same for the same seed', function()
    local layer, x = nn.Linear(5, 3, { seed = 4 }), ridge.randn(7, 5)
    local expected = x:matmul(layer.weight:t()) + layer.bias
    assert.is_true(layer(x):allclose(expected, 1e-5, 1e-5))
    assert.is_true(layer.weight:equal(nn.Linear(5, 3, { seed = 4 }).weight))
    assert.is_false(layer.weight:equal(nn.Linear(5, 3, { seed = 5 }).weight))
    assert.is_nil(nn.Linear(5, 3, { bias = false }).bias)
  end)

  it('begins with numbers as evenly spread as 1 / sqrt(inputs) goes, and so does a convolution',
    function()
      local function spread(x, bound, what)
        local flat = x:view(-1)
        assert.is_true(flat:max():item() <= bound and flat:min():item() >= -bound, what)
        assert.is_true(flat:max():item() > 0.9 * bound and flat:min():item() < -0.9 * bound, what)
        assert.near(0, flat:mean():item(), 0.1 * bound)
        assert.near(bound / math.sqrt(3), flat:norm(2):item() / math.sqrt(x.count), 0.05 * bound)
      end
      local wide, conv = nn.Linear(64, 500, { seed = 1 }), nn.Conv2d(16, 500, 2, { seed = 1 })
      spread(wide.weight, 1 / 8, 'weight')
      spread(wide.bias, 1 / 8, 'bias')
      spread(conv.weight, 1 / 8, 'weight of a convolution') -- 16 channels of 2 x 2
    end)

  it('fuses an activation', function()
    local a = nn.Linear(5, 3, { seed = 4, activation = 'relu' })
    local x = ridge.randn(7, 5)
    assert.is_true(a(x):allclose(nn.Linear(5, 3, { seed = 4 })(x):relu(), 1e-5, 1e-6))
  end)

  it('does not touch the default stream when it has a seed', function()
    ridge.seed(1)
    local before = ridge.randn(3)
    ridge.seed(1)
    nn.Linear(5, 3, { seed = 4 })
    assert.is_true(before:equal(ridge.randn(3)))
  end)

  it('names the wrong size and the place in the network', function()
    local net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(9, 2))
    local e = failure(net, ridge.ones(1, 4))
    assert.equal('ESHAPE', e.code)
    assert.matches('nn.Linear%(9 %-> 2', tostring(e))
    assert.matches('%[1,8%]', e.message)
    assert.matches('sizes are whole numbers', failure(nn.Linear, 0, 3).message)
    assert.matches('unknown option', failure(nn.Linear, 4, 3, { bais = true }).message)
  end)
end)

describe('parameters', function()
  it('are counted as document 004 says (F221)', function()
    local function mlp(...)
      local sizes, net = { ... }, nn.Sequential()
      for i = 2, #sizes do net:add(nn.Linear(sizes[i - 1], sizes[i], { bias = false })) end
      return net
    end
    assert.equal(8388608, (mlp(1024, 2048, 2048, 1024):num_parameters()))
    assert.equal(589824, (mlp(1024, 256, 256, 1024):num_parameters()))
  end)
end)

describe('nn.SKLinear', function()
  it('trains T R (I + O) numbers and stores twice as many (F76, F77, F82)', function()
    local s = nn.SKLinear(64, 32, { num_terms = 2, low_rank = 8, seed = 1, bias = false,
                                    warn = false })
    local trained, stored = s:num_parameters()
    assert.equal(2 * 8 * (64 + 32), trained)
    assert.equal(2 * 2 * 8 * (64 + 32), stored)
    assert.same({ 2, 64, 8 }, s.S1s.shape)
    assert.same({ 2, 8, 32 }, s.U1s.shape)
    assert.same({ 2, 64, 8 }, s.U2s.shape)
    assert.same({ 2, 8, 32 }, s.S2s.shape)
  end)

  it('computes the sum over terms divided by 2T (F78, F80)', function()
    local s = nn.SKLinear(24, 16, { num_terms = 3, low_rank = 4, seed = 2, warn = false })
    local x = ridge.randn(5, 24)
    local sum = ridge.zeros(5, 16)
    for t = 1, 3 do
      sum:add_(x:matmul(s.S1s[t]):matmul(s.U1s[t]) + x:matmul(s.U2s[t]):matmul(s.S2s[t]))
    end
    assert.is_true(s(x):allclose(sum / 6 + s.bias, 1e-4, 1e-5))
    local W = ridge.zeros(24, 16)
    for t = 1, 3 do W:add_(s.S1s[t]:matmul(s.U1s[t]) + s.U2s[t]:matmul(s.S2s[t])) end
    assert.is_true(s:effective_weight():t():allclose(W / 6, 1e-4, 1e-5))
  end)

  it('has fixed signs of 1/sqrt(R) that make U U\' the identity on average (F77)', function()
    local s = nn.SKLinear(32, 32, { num_terms = 1, low_rank = 16, seed = 3, warn = false })
    assert.is_true(s.U1s:abs():allclose(ridge.full(0.25, { 1, 16, 32 })))
    local plus = s.U1s:gt(0):sum():item()
    assert.is_true(plus > 180 and plus < 332)
  end)

  it('keeps signs as bits with the same result', function()
    local dense, x = nn.Linear(48, 40, { seed = 1 }), ridge.randn(6, 48)
    local opts = { num_terms = 2, low_rank = 8, seed = 9, warn = false }
    opts.form = 'stored'
    local a = nn.SKLinear.from(dense, opts)
    opts.form = 'bits'
    local b = nn.SKLinear.from(dense, opts)
    assert.is_true(a(x):allclose(b(x), 1e-4, 1e-5))
    assert.is_true(b:facts().stored_bytes < a:facts().stored_bytes)
  end)

  it('knows where it breaks even and warns when it stores more', function()
    assert.near(341.33, nn.break_even(1024, 512), 0.01)
    assert.is_true(nn.SKLinear(64, 32, { num_terms = 4, low_rank = 16, seed = 1, warn = false })
      :facts().exceeds_dense)
    assert.is_false(nn.SKLinear(1024, 512, { num_terms = 2, low_rank = 16, seed = 1 })
      :facts().exceeds_dense)
  end)

  it('drops only while training (F69)', function()
    local s = nn.SKLinear(32, 64, { num_terms = 1, low_rank = 4, seed = 1, dropout = 0.5,
                                    warn = false })
    local x = ridge.randn(8, 32)
    local y = s(x)
    assert.is_false(y:equal(s(x)))
    local zeros = y:eq(0):sum():item()
    assert.is_true(zeros > 150 and zeros < 362)
    s:eval()
    assert.is_true(s(x):equal(s(x)))
  end)

  it('rounds sizes for tensor cores as document 002 does (F83)', function()
    assert.same({ 1000, 504, 8, 64 }, { nn.round_for_tensor_cores(1000, 500, 8, 60) })
    -- 10 would become 16, more than 1.2 times as much
    assert.same({ 256, 10, 4, 32 }, { nn.round_for_tensor_cores(250, 10, 4, 32) })
  end)

  it('stacks with sizes rounded for tensor cores (F84)', function()
    local net, width = nn.Sequential(), 1000
    for _, size in ipairs { { 1000, 500, 8, 64 }, { 500, 250, 6, 48 }, { 250, 10, 4, 32 } } do
      local _, n_out, terms, rank = nn.round_for_tensor_cores(unpack(size))
      net:add(nn.SKLinear(width, n_out, { num_terms = terms, low_rank = rank, seed = 1,
                                          warn = false }))
      net:add(nn.ReLU())
      width = n_out
    end
    local y = net(ridge.randn(4, 1000))
    assert.same({ 4, 10 }, y.shape)
    assert.is_true(y:min():item() >= 0)
  end)
end)

describe('nn.LowRankLinear', function()
  it('from a dense layer is as near as its rank allows', function()
    local dense = nn.Linear(40, 30, { seed = 2 })
    local W = dense.weight
    local last = math.huge
    for _, rank in ipairs { 1, 5, 15, 30 } do
      local off = (nn.LowRankLinear.from(dense, { rank = rank }):effective_weight() - W):norm()
        :item()
      assert.is_true(off < last)
      last = off
    end
    assert.is_true(last < 1e-4)
    local _, s = W:svd()
    local off5 = (nn.LowRankLinear.from(dense, { rank = 5 }):effective_weight() - W):norm():item()
    local tail = s[{ { 6, 30 } }]:norm():item()
    assert.near(tail, off5, 1e-3)
    assert.matches('rank', failure(nn.LowRankLinear.from, dense, { rank = 31 }).message)
  end)

  it('refuses rows of another width, as every linear layer does', function()
    local sizes = { warn = false, low_rank = 2, num_terms = 3 }
    local layers = { nn.Linear(6, 4), nn.LowRankLinear(6, 4, { rank = 2 }) }
    for i, form in ipairs { 'stored', 'bits', 'seed' } do
      sizes.form = form
      layers[2 + i] = nn.SKLinear(6, 4, sizes)
    end
    for _, layer in ipairs(layers) do
      assert.same({ 3, 4 }, layer(ridge.ones(3, 6)).shape)
      assert.equal('ESHAPE', failure(layer, ridge.ones(3, 5)).code, tostring(layer))
    end
  end)

  it('computes the same where memory had run out and what nobody holds makes room', function()
    local x = ridge.randn(96, 16)
    for _, form in ipairs { 'stored', 'bits', 'seed' } do
      local layer = nn.SKLinear(16, 2048, { num_terms = 3, low_rank = 2, form = form, warn = false,
        activation = 'relu' })
      local wanted = ridge.no_grad(layer, x)
      require('ridge.ffi.ref').collect()
      collectgarbage 'stop'
      local ok, y = pcall(function()
        ridge.no_grad(layer, x) -- 768 KiB that nobody holds
        ridge.memory.set_limit(ridge.memory.stats().live + 2 ^ 18)
        return ridge.no_grad(layer, x)
      end)
      collectgarbage 'restart'
      ridge.memory.set_limit(0)
      assert(ok, y)
      assert.is_true(y:equal(wanted), form)
    end
  end)

  it('warns of a sketch that stores more than the dense layer, and of no other', function()
    local said, stderr = {}, io.stderr
    io.stderr = { write = function(_, text) said[#said + 1] = text end } -- luacheck: ignore 122
    local ok, err = pcall(function()
      nn.SKLinear(6, 4, { num_terms = 1, low_rank = 1 }) -- 2 * 1 * 10 numbers instead of 24
      assert.same({}, said)
      nn.SKLinear(6, 4, { num_terms = 2, low_rank = 8 }) -- 2 * 16 * 10
    end)
    io.stderr = stderr -- luacheck: ignore 122
    assert(ok, err)
    assert.equal(1, #said)
    assert.matches('2 terms of rank 8 store more than the dense layer 6 -> 4', said[1], 1, true)
  end)
end)

describe('an activation in the pass of a layer', function()
  it('trains at no higher peak than a layer of its own', function()
    local x = ridge.randn(512, 64)
    local function peak(net)
      net:train()
      local function step()
        local loss = net(x):sum()
        require('ridge.ffi.ref').collect() -- results that nobody asks for any more
        loss:backward()
      end
      ridge.scope(step) -- gradients are there from here on
      for _, p in ipairs(net:parameters()) do p.tensor:zero_grad() end
      ridge.memory.trim()
      ridge.memory.reset_peak()
      local before = ridge.memory.stats().live
      ridge.scope(step)
      return ridge.memory.stats().peak - before
    end
    for name, act in pairs { ReLU = 'relu', Tanh = 'tanh', Sigmoid = 'sigmoid', GELU = 'gelu',
      SiLU = 'silu', ReLU6 = 'relu6' } do
      for at = 1, 6 do
        local layers = at <= 3 and 1 or 4
        local kind = ({ 'Linear', 'LowRankLinear', 'SKLinear' })[at % 3 + 1]
        local one, two, width = nn.Sequential(), nn.Sequential(), 64
        local function layer(n_in, seed, activation)
          return nn[kind](n_in, 256, { seed = seed, activation = activation,
            rank = kind == 'LowRankLinear' and 8 or nil,
            low_rank = kind == 'SKLinear' and 8 or nil })
        end
        for i = 1, layers do
          one:add(layer(width, i, act))
          two:add(layer(width, i)):add(nn[name]())
          width = 256
        end
        local fused, apart = peak(one), peak(two)
        assert.is_true(fused <= apart + 4096, ('%s, %d of %s: %d and %d bytes'):format(name,
          layers, kind, fused, apart))
        for i, p in ipairs(one:parameters()) do
          local g, wanted = p.tensor.grad, two:parameters()[i].tensor.grad
          assert.are.equal(wanted ~= nil, g ~= nil)
          assert.is_true(not g or (g - wanted):abs():max():item()
            <= 1e-4 * wanted:abs():max():item(), kind)
        end
      end
    end
  end)
end)

describe('dropout in place', function()
  it('has the numbers and the gradient of dropout, and writes into its input', function()
    for _, dtype in ipairs { 'f32', 'f64', 'bf16', 'f16' } do
      ridge.seed(3)
      local wanted = ridge.ones(7, 50, { dtype = dtype }):dropout(0.3)
      ridge.seed(3)
      local x = ridge.ones(7, 50, { dtype = dtype }):requires_grad_()
      local inner = x * 1
      local y = nn.Dropout(0.3, { inplace = true }):train()(inner)
      assert.is_true(rawequal(y, inner) and inner:equal(wanted))
      y:sum():backward()
      assert.is_true(x.grad:equal(wanted))
    end
    local turned = ridge.ones(4, 6):t()
    ridge.seed(3)
    assert.is_true(rawequal(turned, turned:dropout_(0.5, ridge.generator(2))))
    assert.is_true(turned:equal(ridge.ones(6, 4):dropout(0.5, ridge.generator(2))))
    local layer, x = nn.Dropout { p = 0.5, inplace = true }, ridge.ones(8)
    assert.is_true(layer:eval()(x):equal(ridge.ones(8)))
    local apart = nn.Dropout(0.5):train()
    assert.is_false(rawequal(apart(x), x))
    for _, name in ipairs { 'dropout', 'dropout_' } do
      assert.matches(name .. ': p is nan', failure(function() return ridge.ones(3)[name](
        ridge.ones(3), 0 / 0) end), 1, true)
    end
    assert.matches('dropout_: .*requires a gradient', failure(function()
      return ridge.ones(3):requires_grad_():dropout_()
    end).message)
    assert.matches('unknown option', failure(nn.Dropout, 0.5, { inplaces = true }).message)
  end)
end)

describe('a mistaken call of a module', function()
  -- The error is ours, and blames the line that called.
  local function said(f)
    local e = failure(f)
    assert.equal('table', type(e), tostring(e))
    assert.matches('nn_spec%.lua:%d+$', e.where)
    return e.message
  end

  it('has a sentence where forward is called by name too', function()
    local layers = { nn.Linear(4, 2), nn.GroupNorm(2, 4), nn.LayerNorm(4), nn.ReLU(),
      nn.Sequential(nn.ReLU()), nn.GRU(2, 3), nn.Conv2d(1, 1, 3), nn.Dropout(0.5),
      nn.MaxPool2d(2) }
    for i, layer in ipairs(layers) do
      for _, wrong in ipairs { 256, { 1, 2 }, 'x', false } do
        local function call() layer.forward(wrong, ridge.ones(2, 4)) end
        if i <= 3 or not pcall(call) then said(call) end -- some need nothing of themselves
      end
      said(function() layer:forward { foo = 1 } end)
      said(function() layer:forward() end)
    end
    assert.equal(4, nn.Linear(4, 4):forward(ridge.ones(1, 4)).count)
  end)

  it('makes no module its own child, at any depth', function()
    local inner, outer = nn.Sequential(nn.ReLU()), nn.Sequential()
    outer:add(inner)
    for _, child in ipairs { inner, outer } do
      assert.matches('child of itself', said(function() inner:child('x', child) end))
    end
    outer:train():eval()
    assert.equal(1, #inner.children)
  end)

  it('takes a class of modules for parent alone', function()
    for _, wrong in ipairs { 5, 'x', {}, ridge.optim.SGD, nn.ReLU() } do
      assert.matches('a parent is a class of modules', said(function() nn.class('X', wrong) end))
    end
    assert.equal(2, nn.class('X', nn.Linear)(3, 2)(ridge.ones(1, 3)).count)
  end)
end)

describe('what a module looks like', function()
  it('has parameters whose names can follow a dot', function()
    for _, name in ipairs { 'a b', '1st', '', 'a.b' } do
      local ok, err = pcall(function() nn.Linear(2, 2):param(name, ridge.ones(1)) end)
      assert.is_false(ok)
      assert.matches('a parameter has a name such as weight', tostring(err), 1, true)
    end
    assert.is_false((pcall(function() nn.Linear(2, 2):buffer(nil, ridge.ones(1)) end)))
    assert.equal(1, nn.Linear(2, 2):param('_mine2', ridge.ones(1)):get(1))
  end)

  it('is counted in numbers and bytes', function()
    local net = nn.Sequential(nn.Linear(3, 7), nn.BatchNorm(7), nn.Linear(7, 2, { bias = false }))
    local numbers = 3 * 7 + 7 + 2 * 7 + 7 * 2
    assert.equal(numbers, net:num_parameters())
    assert.equal(4 * (numbers + 2 * 7), net:num_bytes()) -- mean and variance are stored too
    assert.equal(2 * 15, nn.Linear(4, 3):to('bf16'):num_bytes())
  end)

  it('has counts and children, and tells plain fields from them', function()
    assert.equal('nn.Sequential(45 parameters)\n  (1) nn.Linear(3 -> 7, f32, 28 parameters)\n'
      .. '  (2) nn.ReLU\n  (3) nn.Linear(7 -> 2, f32, 16 parameters)\n  (4) Scale(1 parameters)',
      tostring((function()
        local Scale = nn.class 'Scale'
        function Scale:init() self:param('weight', ridge.ones(1)) end
        function Scale:forward(x) return x * self.weight end
        return nn.Sequential(nn.Linear(3, 7), nn.ReLU(), nn.Linear(7, 2), Scale())
      end)()))
    local Mine = nn.class 'Mine'
    function Mine:init()
      self.part = self:child('part', nn.Linear(2, 2))
      self.steps = { nn.ReLU(), nn.Linear(4, 2) }
      self.head = nn.Sequential(nn.Linear(2, 1))
    end
    assert.equal([[
Mine(6 parameters)
  (part) nn.Linear(2 -> 2, f32, 6 parameters)
  head = nn.Sequential(3 parameters)
  steps[1] = nn.ReLU
  steps[2] = nn.Linear(4 -> 2, f32, 10 parameters)
  what stands behind = is a plain field, not trained, saved or moved with it: ]]
      .. "self:child('head', ...) makes it a part", tostring(Mine()))
  end)

  it('says what is stored beside parameters, trained or frozen', function()
    local net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm(3))
    local head = 'nn.Sequential(15 parameters and %d in buffers)'
    local buffers = select(2, net:num_parameters()) - 15
    assert.truthy(buffers >= 6) -- means and variances
    assert.equal(head:format(buffers), tostring(net):match '^[^\n]*')
    local half = ridge.quant.half(nn.Sequential(nn.Linear(2, 3)):eval(), 'bf16')
    assert.equal('nn.Sequential(9 parameters)', tostring(half):match '^[^\n]*')
    local packed = ridge.quant.weights(nn.Sequential(nn.Linear(64, 32)):eval(),
      { bits = 4, group = 32, rows = false })
    -- 64 x 32 weights in bytes of two, a scale for 32 of them, bias
    assert.equal('nn.Sequential(0 parameters and 1120 in buffers)',
      tostring(packed):match '^[^\n]*')
  end)
end)

describe('autocast', function()
  it('computes products in bf16 and ends with the function, error or not', function()
    local layer, x = nn.Linear(64, 32, { seed = 1 }), ridge.randn(8, 64)
    local y = ridge.autocast('bf16', function() return layer(x) end)
    assert.equal('bf16', y.dtype)
    assert.equal('f32', layer(x).dtype)
    assert.is_true(y:to('f32'):allclose(layer(x), 0.05, 0.05))
    failure(ridge.autocast, 'bf16', function() error('x') end)
    assert.equal('f32', layer(x).dtype)
    assert.matches('bf16', failure(ridge.autocast, 'f64', function() end).message)
  end)
end)

describe('a layer', function()
  it('without a seed draws one, which a capture would freeze', function()
    assert.has_error(function()
      ridge.capture(function() return ridge.nn.Linear(3, 2)(ridge.ones(1, 3)) end)
    end)
    local plan = ridge.capture(function()
      return ridge.nn.Linear(3, 2, { seed = 1 })(ridge.ones(1, 3))
    end)
    assert.same({ 1, 2 }, plan:run(1):size())
  end)

  it('says of an input that it was released', function()
    local x = ridge.ones(1, 3)
    x:release()
    for _, dropout in ipairs { 0, 0.5 } do
      local ok, problem = pcall(ridge.nn.Linear(3, 2, { dropout = dropout }), x)
      assert.is_false(ok)
      assert.equal('ERELEASED', problem.code)
      assert.matches('the tensor f32%[1,3%] was released', tostring(problem))
    end
  end)
end)

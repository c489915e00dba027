-- SPDX-License-Identifier: MIT
-- Recurrent layers, sketched and separable convolutions, group normalisation: shapes, states, what
-- they learn, what does not fit. Their numbers are held against PyTorch's in fixtures_spec.lua.
local ridge = require 'ridge'
local nn = ridge.nn

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

describe('a recurrent layer', function()
  it('goes on from the state it gave', function()
    for _, class in ipairs { nn.LSTM, nn.GRU } do
      local layer = class(3, 4, { layers = 2, seed = 1 })
      local x = ridge.randn(2, 6, 3)
      local whole, h, c = layer(x)
      local first, h1, c1 = layer(x:narrow(2, 1, 4))
      local rest, h2, c2 = layer(x:narrow(2, 5, 2), c1 and { h1, c1 } or { h1 })
      assert.is_true(ridge.concat({ first, rest }, 2):allclose(whole, 1e-6, 1e-6))
      assert.same({ 2, 2, 4 }, h:size())
      assert.is_true(h2:allclose(h, 1e-6, 1e-6))
      if c then assert.is_true(c2:allclose(c, 1e-6, 1e-6)) end
    end
  end)

  it('sees the future only when it goes both ways', function()
    for _, both in ipairs { false, true } do
      local layer = nn.GRU(2, 3, { bidirectional = both, seed = 1 })
      local x = ridge.randn(1, 5, 2):requires_grad_()
      layer(x):narrow(2, 2, 1):sum():backward()
      local reach = x.grad:abs():sum({ 1, 3 }):tolist()
      assert.is_true(reach[1] > 0)
      assert.are.equal(both, reach[5] > 0)
    end
  end)

  it('remembers: the first of five symbols', function()
    ridge.seed(3)
    local net = nn.LSTM(4, 16, { seed = 1 })
    local out = nn.Linear(16, 4, { seed = 2 })
    local all = nn.Sequential(net, out):train()
    local optimizer = ridge.optim.Adam(all, { lr = 0.02 })
    local one_hot = nn.Embedding(4, 4)
    for i = 0, 3 do
      for j = 0, 3 do
        ridge.no_grad(function()
          one_hot.weight:narrow(1, i + 1, 1):narrow(2, j + 1, 1):fill_(i == j and 1 or 0)
        end)
      end
    end
    local loss
    for _ = 1, 250 do
      local symbols = ridge.randint(0, 4, 32, 5)
      local y = net(one_hot(symbols)):narrow(2, 5, 1):reshape(32, 16)
      optimizer:zero_grad()
      loss = nn.cross_entropy(out(y), symbols:narrow(2, 1, 1):reshape(32):contiguous())
      loss:backward()
      optimizer:step { scale = optimizer:clip(1) }
    end
    assert.is_true(loss:item() < 0.1, tostring(loss:item()))
  end)

  it('as a plan gives the same', function()
    local layer = nn.LSTM(3, 4, { seed = 1 })
    local x = ridge.randn(2, 5, 3)
    local plan = ridge.capture(function() return (layer(x)) end)
    x:copy_(ridge.randn(2, 5, 3))
    assert.is_true(plan():equal((layer(x))))
  end)

  it('counts its parameters, and says what does not fit', function()
    -- PyTorch's numbers
    assert.are.equal(4 * 5 * (3 + 5) + 2 * 4 * 5, (nn.LSTM(3, 5):num_parameters()))
    assert.are.equal(3 * 5 * (3 + 5) + 2 * 3 * 5, (nn.GRU(3, 5):num_parameters()))
    assert.matches('wanted %[batch, length, 3%]', message(nn.LSTM(3, 5), ridge.ones(2, 3)))
    assert.matches('state 1 is f32%[1,2,4%].*wanted %[1,2,5%]', message(nn.GRU(3, 5),
      ridge.ones(2, 4, 3), ridge.ones(1, 2, 4)))
    assert.matches('the sequence is empty', message(nn.GRU(3, 5), ridge.ones(2, 0, 3)))
  end)
end)

describe('a sketched convolution', function()
  it('is the convolution with its effective weight', function()
    local layer = nn.SKConv2d(3, 8, 3, { num_terms = 2, low_rank = 4, stride = 2, padding = 1,
      seed = 1, warn = false })
    local x = ridge.randn(2, 3, 9, 7)
    local plain = x:conv2d(layer:effective_weight(), { bias = layer.bias, stride = 2,
      padding = 1 })
    assert.is_true(layer(x):allclose(plain, 1e-4, 1e-4))
    local trained, stored = layer:num_parameters()
    assert.are.equal(16 * 3 * 9 + 8, trained) -- S1s and the bias, not the signs
    assert.are.equal(16 * 3 * 9 + 8 + 16 * 8, stored)
  end)

  it('of a dense one errs as the formula says, without bias', function()
    local dense = nn.Conv2d(4, 64, 3, { seed = 1 })
    local sum = 0
    for seed = 1, 5 do
      local w = nn.SKConv2d.from(dense, { num_terms = 2, low_rank = 16, seed = seed,
        warn = false }):effective_weight()
      sum = sum + ((w - dense.weight:detach()):norm():item() / dense.weight:norm():item()) ^ 2
    end
    local wanted = math.sqrt(63 / (16 * 4)) -- sqrt((c_out - 1) / (2 T R))
    assert.is_true(math.abs(math.sqrt(sum / 5) / wanted - 1) < 0.15)
  end)

  it('trains its sketch and leaves the signs', function()
    local layer = nn.SKConv2d(2, 3, 3, { num_terms = 1, low_rank = 2, seed = 1, warn = false })
      :train()
    layer(ridge.randn(1, 2, 5, 5)):sum():backward()
    assert.is_true(layer.S1s.grad:abs():sum():item() > 0)
    assert.is_nil(layer.U1s.grad)
    assert.is_false(layer.U1s.requires_grad)
    assert.matches('has groups', message(nn.SKConv2d.from, nn.Conv2d(4, 4, 3, { groups = 2 })))
  end)

  it('is of a convolution alone', function()
    for _, other in ipairs { false, 'conv', 3, {}, { weight = 'text' }, { weight = 4 },
        { weight = { 1, 2, 3, 4 } }, { weight = ridge.ones(2, 2, 2) },
        { weight = ridge.ones(2, 2, 2, 2, 2) }, nn.Linear(4, 4), nn.ReLU() } do
      assert.matches('nn.SKConv2d.from: a convolution is expected, got ',
        message(nn.SKConv2d.from, other))
    end
    assert.matches('a convolution is expected, got nil', message(nn.SKConv2d.from))
  end)
end)

describe('a separable convolution', function()
  it('has the parameters that document 004 counts (F222)', function()
    assert.are.equal(294912, (nn.Conv2d(128, 256, 3, { bias = false }):num_parameters()))
    assert.are.equal(33920, (nn.SeparableConv2d(128, 256, 3, { bias = false }):num_parameters()))
  end)

  it('mixes channels in its second part alone', function()
    local layer = nn.SeparableConv2d(3, 5, 3, { padding = 1, seed = 1 })
    local x = ridge.randn(2, 3, 6, 6)
    assert.same({ 2, 5, 6, 6 }, layer(x):size())
    local one = x:clone():requires_grad_()
    layer.depthwise(one):narrow(2, 1, 1):sum():backward()
    assert.are.equal(0, one.grad:narrow(2, 2, 2):abs():sum():item())
  end)
end)

describe('group normalisation', function()
  it('of one group is over all, of as many as channels over each', function()
    local x = ridge.randn(2, 4, 3, 3) * 3 + 1
    local y = nn.GroupNorm(4, 4)(x):reshape(8, 9)
    assert.is_true(y:mean(2):abs():max():item() < 1e-5)
    y = nn.GroupNorm(1, 4)(x):reshape(2, 36)
    assert.is_true((y:square():mean(2) - 1):abs():max():item() < 1e-3)
    for _, none in ipairs { ridge.zeros(0, 4), ridge.zeros(0, 4, 3, 3) } do
      assert.same(none:size(), nn.GroupNorm(2, 4)(none):size())
    end
    assert.matches('5 channels do not fall into 2 groups', message(nn.GroupNorm, 2, 5))
  end)
end)

describe('distillation', function()
  local labels = ridge.tensor({ 2, 0 }, { dtype = 'i64' })

  -- KL of softened softmax by hand.
  local function by_hand(s, t, temperature)
    local sum = 0
    for i = 1, #s do
      local function soft(row)
        local list, all = {}, 0
        for k, v in ipairs(row) do
          list[k] = math.exp(v / temperature)
          all = all + list[k]
        end
        for k in ipairs(list) do list[k] = list[k] / all end
        return list
      end
      local p, q = soft(t[i]), soft(s[i])
      for k in ipairs(p) do sum = sum + p[k] * math.log(p[k] / q[k]) end
    end
    return sum / #s
  end

  it('is the formula, and not 0 (F60)', function()
    local s, t = ridge.randn(2, 3), ridge.randn(2, 3)
    local kl = by_hand(s:tolist(), t:tolist(), 4)
    assert.is_true(kl > 1e-3)
    local ce = nn.cross_entropy(s, labels):item()
    local got = nn.distillation_loss(s, t, labels, { temperature = 4, alpha = 0.3 }):item()
    assert.is_true(math.abs(got - (0.3 * 16 * kl + 0.7 * ce)) < 1e-5)
    assert.is_true(math.abs(nn.distillation_loss(s, s, nil, { alpha = 1 }):item()) < 1e-6)
  end)

  it('has T^2 (softmax(s/T) - softmax(t/T)) / (n T) as gradient, none for the teacher', function()
    local s, t = ridge.randn(2, 3):requires_grad_(), ridge.randn(2, 3):requires_grad_()
    nn.distillation_loss(s, t, nil, { temperature = 2, alpha = 1 }):backward()
    local wanted = ((s / 2):softmax() - (t / 2):softmax()):detach() -- 2^2 / (2 * 2) = 1
    assert.is_true(s.grad:allclose(wanted, 1e-5, 1e-6))
    assert.is_nil(t.grad)
  end)

  it('stays finite for large scores, and wants one shape', function()
    local s, t = ridge.tensor { { 1e4, 0, -1e4 } }, ridge.tensor { { -1e4, 0, 1e4 } }
    local loss = nn.distillation_loss(s, t, nil, { alpha = 1 }):item()
    assert.is_true(loss > 0 and loss < math.huge)
    assert.matches('they have one shape', message(nn.distillation_loss, s, ridge.ones(1, 2)))
  end)

  it('leaves out classes that never come, a score of -inf, whatever the student says', function()
    local inf, few = math.huge, { temperature = 2, alpha = 1 }
    local s = ridge.tensor({ { 0.3, -1, 1 }, { 0.2, 0.5, 4 } }):requires_grad_()
    local masked = ridge.tensor({ { 0.3, -inf, 1 }, { 0.2, 0.5, -inf } }):requires_grad_()
    local t = ridge.tensor { { 0.5, -inf, 2 }, { 0.2, -1, -inf } }
    -- by hand, from what is left of each row
    local function kl(a, b)
      local p, q = 1 / (1 + math.exp(-a / 2)), 1 / (1 + math.exp(-b / 2))
      return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
    end
    local loss = nn.distillation_loss(masked, t, nil, few)
    assert.near(4 * (kl(1.5, 0.7) + kl(-1.2, 0.3)) / 2, loss:item(), 1e-6)
    loss:backward()
    local wanted = ((masked / 2):softmax() - (t / 2):softmax()):detach()
    assert.is_true(masked.grad:allclose(wanted, 1e-5, 1e-6))
    loss = nn.distillation_loss(s, t, nil, few)
    assert.is_true(loss:item() < math.huge)
    loss:backward()
    assert.is_true(s.grad:allclose(((s / 2):softmax() - (t / 2):softmax()):detach(), 1e-5, 1e-6))
    local none = nn.distillation_loss(s, ridge.full(-inf, 2, 3), nil, few):item()
    assert.is_true(none ~= none)
  end)
end)

describe('a dense layer with dropout', function()
  it('is the three one after the other, from the same draws (F67)', function()
    local fused = nn.Linear(20, 30, { seed = 1, activation = 'relu', dropout = 0.5 })
    local plain = nn.Linear(20, 30, { seed = 1, activation = 'relu' })
    local x = ridge.randn(8, 20)
    assert.is_true(fused:eval()(x):equal(plain(x))) -- nothing in evaluation mode
    fused:train()
    local a, b = x:clone():requires_grad_(), x:clone():requires_grad_()
    ridge.seed(4)
    local y = fused(a)
    ridge.seed(4)
    local z = plain(b):dropout(0.5)
    assert.is_true(y:equal(z))
    local zeros = y:eq(0):to('f32'):mean():item()
    assert.is_true(zeros > 0.6 and zeros < 0.9) -- half by dropout, half of the rest by relu
    local dy = ridge.randn(8, 30)
    y:backward(dy)
    z:backward(dy)
    assert.is_true(a.grad:allclose(b.grad, 1e-6, 1e-6))
    assert.is_true(fused.weight.grad:allclose(plain.weight.grad, 1e-6, 1e-6))
    assert.is_false(fused(x):equal(fused(x)))
  end)
end)

describe('a residual', function()
  it('adds what came in, or what another module makes of it', function()
    local inner = nn.Linear(3, 3, { seed = 1 })
    local x = ridge.randn(2, 3)
    assert.is_true(nn.Residual(inner)(x):equal(x + inner(x)))
    local wide = nn.Linear(3, 5, { seed = 2 })
    local net = nn.Residual(nn.Linear(3, 5, { seed = 3 }), nn.ReLU(), { around = wide })
    assert.is_true(net(x):equal(wide(x) + net.inner(x)))
    assert.are.equal(4, #net:parameters())
    assert.matches('a module is expected', message(nn.Residual))
  end)
end)

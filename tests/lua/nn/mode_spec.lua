-- SPDX-License-Identifier: MIT
-- Training mode, in which modules begin, and what is for running: eval(), ridge.inference, the note
-- TRAINING.
local ridge = require 'ridge'
local nn = ridge.nn

local function net_of()
  return nn.Sequential(nn.Linear(6, 5, { seed = 1, dropout = 0.5 }), nn.BatchNorm(5),
    nn.SKLinear(5, 4, { seed = 2, low_rank = 2, dropout = 0.5, warn = false }), nn.Dropout(0.5))
end

local function modes(net)
  local list = { net.training }
  for _, c in ipairs(net.children) do list[#list + 1] = c.module.training end
  return list
end

describe('a module begins in training mode', function()
  it('of every kind, made by every way, and its parameters want gradients', function()
    local dense = nn.Linear(6, 5, { seed = 1 })
    for name, module in pairs { linear = dense, conv = nn.Conv2d(2, 3, 3), norm = nn.LayerNorm(4),
      batch = nn.BatchNorm(4), group = nn.GroupNorm(2, 4), embedding = nn.Embedding(3, 2),
      lstm = nn.LSTM(3, 2), attention = nn.MultiHeadAttention(4), block = nn.TransformerBlock(4),
      lowrank = nn.LowRankLinear(6, 5, { rank = 2 }), cut = nn.LowRankLinear.from(dense,
      { rank = 2 }), sketch = nn.SKLinear.from(dense, { low_rank = 2, warn = false }),
      images = nn.SKConv2d(2, 3, 3, { warn = false }), copy = dense:clone(), act = nn.ReLU() } do
      assert.is_true(module.training, name)
      for _, p in ipairs(module:parameters()) do
        assert.is_true(not p.trainable or p.tensor.requires_grad, name .. '.' .. p.name)
      end
    end
  end)

  it('so a bare forward can go back, dropout drops, and batches are seen', function()
    local net, x = net_of(), ridge.randn(8, 6)
    local y = net(x)
    assert.is_true(y.requires_grad)
    assert.is_false(y:equal(net(x)))
    y:sum():backward()
    assert.truthy(net.children[1].module.weight.grad)
    assert.is_false(net.children[2].module.running_mean:equal(ridge.zeros(5)))
  end)

  it('and what is made of one that evaluates, evaluates', function()
    local dense = nn.Linear(6, 5, { seed = 1 }):eval()
    assert.is_false(dense:clone().training)
    assert.is_false(nn.LowRankLinear.from(dense, { rank = 2 }).training)
    assert.is_false(nn.SKLinear.from(dense, { low_rank = 2, warn = false }).training)
    local conv = nn.Conv2d(2, 3, 3):eval()
    assert.is_false(nn.SKConv2d.from(conv, { warn = false }).training)
  end)

  it('and a child stays in its own', function()
    local teacher = nn.Linear(3, 2):eval()
    local both = nn.Sequential(teacher, nn.Linear(2, 2))
    assert.same({ true, false, true }, modes(both))
    assert.same({ false, false, false }, modes(both:eval()))
    both:add(nn.ReLU())
    assert.is_true(both.children[3].module.training)
  end)

  it('and only floats are parameters', function()
    local Shift = nn.class 'Shift'
    function Shift:init() self:param('by', ridge.ones(2):to 'i64') end
    local ok, e = pcall(Shift)
    assert.is_false(ok)
    assert.matches('parameter by is i64%[2%], and only float types are trained; buffer keeps',
      e.message)
  end)
end)

describe('ridge.inference', function()
  it('remembers nothing, computes as in evaluation mode, and leaves the modes alone', function()
    local net, x = net_of(), ridge.randn(8, 6)
    net.children[4].module:eval()
    local before = modes(net)
    local y = ridge.inference(net, x)
    assert.is_false(y.requires_grad)
    assert.same(before, modes(net))
    assert.is_true(net.children[2].module.running_mean:equal(ridge.zeros(5)))
    assert.is_true(y:equal(ridge.inference(function() return net(x) end)))
    net:eval()
    assert.is_true(y:equal(net(x)))
  end)

  it('also behind an error, in a coroutine that waits, and inside itself', function()
    local net, x = net_of(), ridge.randn(8, 6)
    local ok = pcall(ridge.inference, function()
      net(x)
      assert.is_false(net.training)
      error 'x'
    end)
    assert.is_false(ok)
    assert.same({ true, true, true, true, true }, modes(net))
    local wanted = ridge.inference(net, x)
    local co = coroutine.wrap(function()
      return ridge.inference(function()
        local first = net(x)
        coroutine.yield(first)
        return ridge.inference(net, x)
      end)
    end)
    assert.is_true(co():equal(wanted))
    assert.is_true(net.training)
    assert.is_true(net(x).requires_grad)
    net.children[2].module.running_mean:zero_()
    ridge.no_grad(function() net.children[2].module.running_var:fill_(1) end)
    assert.is_true(co():equal(wanted))
    assert.is_true(net.training)
  end)
end)

describe('the note TRAINING', function()
  local function notes(f, ...)
    return table.concat(ridge.capture(f, ...):facts().notes, ' '):match 'TRAINING' or ''
  end

  it('is on a plan of a module in training mode without a backward pass', function()
    local net, x = net_of(), ridge.randn(8, 6)
    assert.equal('TRAINING', notes(net, x))
    assert.equal('TRAINING', notes(ridge.no_grad, net, x))
    assert.matches('TRAINING$', tostring(ridge.capture(net, x)))
    assert.equal('', notes(function() net(x):sum():backward() end))
    local weight = net.children[1].module.weight
    assert.equal('', notes(function() return ridge.grad(net(x):sum(), weight) end))
    assert.equal('', notes(ridge.inference, net, x))
    assert.equal('', notes(function() return x:relu() end))
    net:eval()
    assert.equal('', notes(net, x))
    net.children[4].module:train()
    assert.equal('TRAINING', notes(net, x))
  end)

  it('is a flag of what was timed: a plan, and a function', function()
    local layer, x = nn.Linear(8, 8), ridge.randn(2, 8)
    local function flagged(plan)
      local text = ' ' .. table.concat(ridge.measure.point(plan, 'quick').flags, ' ') .. ' '
      return text:find(' TRAINING ', 1, true) ~= nil
    end
    assert.is_true(flagged(ridge.capture(layer, x)))
    assert.is_true(flagged(function() layer(x) end))
    assert.is_false(flagged(ridge.capture(ridge.inference, layer, x)))
    assert.is_false(flagged(function() layer(x):sum():backward() end))
    layer:eval()
    assert.is_false(flagged(function() layer(x) end))
    assert.equal('B', ridge.measure.flag 'TRAINING'.grade)
  end)
end)

describe('a module that was frozen', function()
  it('wants gradients again in training mode, else with it', function()
    local net = ridge.nn.Linear(3, 2)
    assert.is_false(net:freeze().weight.requires_grad)
    assert.is_true(net:freeze(false).weight.requires_grad)
    net:eval():freeze():freeze(false)
    assert.is_false(net.weight.requires_grad)
    assert.is_true(net:train().weight.requires_grad)
  end)
end)

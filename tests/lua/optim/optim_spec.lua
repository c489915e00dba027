-- SPDX-License-Identifier: MIT
-- Optimizers as a user has them; the steps themselves are checked in tests/op.
local ridge = require 'ridge'
local nn, optim = ridge.nn, ridge.optim

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

-- Loss of a small net before and after some steps of an optimizer.
local function trained(make, steps)
  ridge.seed(3)
  local net = nn.Sequential(nn.Linear(4, 16, { seed = 1 }), nn.Tanh(),
    nn.Linear(16, 3, { seed = 2 }))
  local x = ridge.randn(64, 4)
  local labels = x:argmax(2):minimum(2)
  local optimizer, first, last = make(net:train()), nil, nil
  for _ = 1, steps do
    optimizer:zero_grad()
    local loss = nn.cross_entropy(net(x), labels)
    loss:backward()
    optimizer:step()
    last = loss:item()
    first = first or last
  end
  return first, last, net, optimizer
end

describe('an optimizer', function()
  it('brings the loss down, whichever it is', function()
    for name, opts in pairs { SGD = { lr = 0.5, momentum = 0.9, nesterov = true },
        Adam = { lr = 0.02, amsgrad = true }, AdamW = { lr = 0.02 }, Lion = { lr = 0.01 } } do
      local first, last, _, optimizer = trained(function(net) return optim[name](net, opts) end, 60)
      assert.is_true(last < 0.4 * first, ('%s: %g to %g'):format(name, first, last))
      assert.equal(60, optimizer:steps())
    end
  end)

  it('steps every parameter that has a gradient once, and no other', function()
    local a, b = ridge.ones(2), ridge.ones(3)
    local optimizer = optim.SGD({ a, b, a }, { lr = 0.25 })
    a:sum():backward()
    optimizer:step()
    assert.same({ 0.75, 0.75 }, a:tolist())
    assert.same({ 1, 1, 1 }, b:tolist())
    assert.equal('optim.SGD(lr 0.25, 5 parameters)', tostring(optimizer))
  end)

  it('has groups with options of their own', function()
    local a, b = ridge.ones(1), ridge.ones(1)
    local optimizer = optim.SGD({ { params = a, lr = 0.5 }, { params = { b } } }, { lr = 0.25 });
    (a + b):sum():backward()
    optimizer:step()
    assert.equal(0.5, a:item())
    assert.equal(0.75, b:item())
    optimizer:lr(0.125)
    optimizer:step()
    assert.equal(0.375, a:item())
  end)

  it('has each parameter in one group', function()
    local a, b = ridge.ones(1), ridge.ones(2)
    local ok, err = pcall(optim.SGD, { { params = { b, a } }, { params = a, lr = 1 } })
    assert.is_false(ok)
    assert.matches('optim.SGD: f32%[1%] is in group 1 and in group 2', err.message)
    assert.equal(1, #optim.SGD({ a, a }).groups[1].params) -- tied in one, it is stepped once
  end)

  it('clips the norm of all gradients together', function()
    local a, b = ridge.zeros(1), ridge.zeros(1)
    local optimizer = optim.SGD({ a, b }, { lr = 1 });
    (a * 3 + b * 4):sum():backward()
    local scale, norm = optimizer:clip(1)
    assert.near(5, norm:item(), 1e-9)
    optimizer:step { scale = scale }
    assert.near(-0.6, a:item(), 1e-5)
    assert.near(-0.8, b:item(), 1e-5)
    assert.near(1, optimizer:clip(10):item(), 1e-9) -- what is short enough stays
  end)

  it('clips gradients whose squares overflow, by the largest of them', function()
    local a, b = ridge.zeros(2, { dtype = 'f64' }), ridge.zeros(1)
    local optimizer = optim.SGD({ a, b }, { lr = 1 })
    local function arrive(large)
      optimizer:zero_grad();
      (a * large):sum():backward();
      (b * 2):sum():backward()
    end
    arrive(ridge.tensor({ 3e200, -4e200 }, { dtype = 'f64' }))
    local scale, norm = optimizer:clip(1)
    assert.near(5, norm:item() / 1e200, 1e-9)
    optimizer:step { scale = scale }
    assert.near(-0.6, a:get(1), 1e-9)
    assert.near(0.8, a:get(2), 1e-9)
    arrive(ridge.tensor({ 3e200, -4e200 }, { dtype = 'f64' }))
    optim.Clip({ kind = 'norm', max_norm = 10 }):apply(optimizer)
    assert.near(6, a.grad:get(1), 1e-9)
    assert.near(-8, a.grad:get(2), 1e-9)
    for _, bad in ipairs { 1 / 0, -1 / 0 } do -- what is infinite stays so, and is no largest one
      arrive(ridge.tensor({ 3e200, bad }, { dtype = 'f64' }))
      assert.equal(1 / 0, select(2, optimizer:clip(1)):item())
    end
    arrive(ridge.tensor({ 3e200, 0 / 0 }, { dtype = 'f64' }))
    local none = select(2, optimizer:clip(1)):item()
    assert.is_true(none ~= none)
  end)

  it('leaves out a step whose gradients are not finite, moments included (SKIP skips)', function()
    for _, bad in ipairs { 1 / 0, 0 / 0 } do
      local a = ridge.ones(2)
      local optimizer = optim.Adam({ a }, { lr = 0.5 })
      a:sum():backward()
      optimizer:step { scale = optimizer:clip(1) }
      local kept = a:tolist()
      optimizer:zero_grad();
      (a * ridge.tensor { 1, bad }):sum():backward()
      optimizer:step { scale = optimizer:clip(1) }
      assert.same(kept, a:tolist())
      assert.equal(1, optimizer:steps())
    end
  end)

  it('gives the same weights when its step is replayed from a plan', function()
    local function step_of(net, optimizer, x, y)
      return function()
        optimizer:zero_grad()
        local loss = nn.mse_loss(net(x), y)
        loss:backward()
        optimizer:step { scale = optimizer:clip(0.5) }
        return loss
      end
    end
    local x, y = ridge.randn(8, 4), ridge.randn(8, 2)
    local nets = {}
    for i = 1, 2 do
      nets[i] = nn.Sequential(nn.Linear(4, 8, { seed = 1 }), nn.ReLU(),
        nn.Linear(8, 2, { seed = 2 }))
      local step = step_of(nets[i]:train(), optim.AdamW(nets[i], { lr = 0.05 }), x, y)
      if i == 1 then
        for _ = 1, 20 do step() end
      else
        local plan = ridge.capture(step) -- runs once
        plan:run(19)
      end
    end
    for i, p in ipairs(nets[1]:parameters()) do
      assert.is_true(p.tensor:equal(nets[2]:parameters()[i].tensor), p.name)
    end
  end)

  it('leaves no memory behind', function()
    local before
    local first, last, net, optimizer = trained(function(n) return optim.Adam(n) end, 3)
    assert.is_true(last <= first)
    local x, labels = ridge.randn(8, 4), ridge.zeros(8):to 'i64'
    for i = 1, 400 do
      ridge.scope(function()
        optimizer:zero_grad()
        nn.cross_entropy(net(x), labels):backward()
        optimizer:step { scale = optimizer:clip(1) }
      end)
      if i == 100 then
        collectgarbage()
        collectgarbage()
        before = ridge.memory.stats().live_bytes
      end
    end
    collectgarbage()
    collectgarbage()
    assert.equal(before, ridge.memory.stats().live_bytes)
  end)

  it('calls what asked for it behind each step', function()
    local a, calls = ridge.ones(1), {}
    local optimizer = optim.SGD({ a }, { lr = 0.5 })
    optimizer:after_step('one', function() calls[#calls + 1] = a:item() end)
    a:sum():backward()
    optimizer:step():step()
    optimizer:after_step('one')
    optimizer:step()
    assert.same({ 0.5, 0 }, calls)
    assert.matches('a key and a function', message(optimizer.after_step, optimizer))
    assert.matches('a key and a function', message(optimizer.after_step, optimizer, 'x', 3))
  end)

  it('has the rates and decays that its description tells', function()
    -- one step from 1 with a gradient of 1: Adam's moments are corrected to 1, Lion takes the sign
    local wanted = { SGD = 1 - 1e-3, Adam = 1 - 1e-3, AdamW = (1 - 1e-3 * 0.01) - 1e-3,
      Lion = 1 - 1e-4 }
    for name, value in pairs(wanted) do
      local a = ridge.ones({ 1 }, { dtype = 'f64' })
      local optimizer = optim[name] { a }
      a:sum():backward()
      optimizer:step()
      assert.near(value, a:item(), 1e-10, name)
    end
  end)

  it('says what is wrong', function()
    local net = nn.Linear(2, 2)
    assert.matches('lr is nan', message(optim.SGD, net, { lr = 0 / 0 }))
    assert.matches('lr is %-1', message(optim.Adam, net, { lr = -1 }))
    assert.matches('betas are two numbers in %[0, 1%), got 1', message(optim.Adam, net,
      { betas = { 0.9, 1 } }))
    assert.matches('no parameters to train', message(optim.SGD, nn.ReLU()))
    assert.matches('parameters are a module', message(optim.SGD, 3))
    for percent, wanted in pairs { [0] = true, [100] = true, [-1] = false, [101] = false } do
      local ok, e = pcall(optim.Clip, { kind = 'percentile', percentile_threshold = percent })
      assert.equal(wanted, ok, percent)
      if not ok then assert.matches('percentile_threshold is', e.message) end
    end
    assert.matches('wants a momentum', message(optim.SGD, net, { nesterov = true }))
    assert.matches('a finite number from 0', message(optim.SGD(net).lr, optim.SGD(net), 0 / 0))
    -- what a factor would leave behind cannot even be shown
    for _, factor in ipairs { 'x', -1, 0 / 0, 1 / 0, 5LL, ridge.ones(1) } do
      local optimizer = optim.SGD(net, { lr = 0.5 })
      assert.matches('a factor is a finite number from 0',
        message(optimizer.scale_lr, optimizer, factor))
      assert.equal(0.5, optimizer:lr())
      assert.matches('0%.5', tostring(optimizer))
    end
    assert.matches('a factor is a finite number from 0', message(function()
      optim.SGD(net):scale_lr()
    end))
    local whole = optim.SGD(net, { lr = 0.25 })
    assert.matches('parameters are a module', message(whole.init, whole, 2))
    assert.equal(0.25, whole:lr()) -- what failed changed nothing
    assert.matches('0%.25', tostring(whole))
    assert.matches('largest norm is a number above 0', message(optim.SGD(net).clip,
      optim.SGD(net), 0))
  end)

  it('takes nothing that it would ignore', function()
    local optimizer = optim.SGD(nn.Linear(2, 2))
    for what, call in pairs {
      ['SGD:step: options are a table, got 5'] = function() optimizer:step(5) end,
      ["SGD:step: unknown option 'scal' .did you mean 'scale'"] = function()
        optimizer:step { scal = 1 }
      end,
      ['SGD:step: it takes one table of options, got 2 arguments'] = function()
        optimizer:step(nil, 1)
      end,
      ['SGD:zero_grad: options are a table, got true'] = function() optimizer:zero_grad(true) end,
      ["SGD:zero_grad: unknown option 'sets'"] = function() optimizer:zero_grad { sets = 1 } end,
      ['SGD:zero_grad: it takes one table'] = function() optimizer:zero_grad({}, 1) end,
    } do
      assert.matches(what, message(call))
    end
    for _, given in ipairs { {}, nn.Linear(2, 2) } do
      assert.matches('has no step: use ridge.optim.SGD, Adam, AdamW or Lion',
        message(optim.Optimizer, given))
    end
    optimizer:zero_grad({ set = true }):step({})
  end)
end)

describe('an optimizer', function()
  it('has moments only where momentum asks for them', function()
    local net = ridge.nn.Linear(3, 2)
    local function moments(options)
      local n = 0
      for name in pairs(ridge.optim.SGD(net, options):state()) do
        if tostring(name):match '^%d+%.%d+%.%d+$' then n = n + 1 end
      end
      return n
    end
    assert.equal(0, moments { lr = 0.1 })
    assert.equal(2, moments { lr = 0.1, momentum = 0.9 })
  end)

  it('steps parameters that were replaced since, without zero_grad before', function()
    local net = ridge.nn.Linear(3, 2)
    local optimizer = ridge.optim.SGD(net, { lr = 0.1 })
    net:to 'f64'
    local before = net.weight:detach():clone()
    net(ridge.ones(1, 3):to 'f64'):sum():backward()
    optimizer:step()
    assert.is_true((before - net.weight:detach() - 0.1):abs():max():item() < 1e-12)
  end)
end)

-- SPDX-License-Identifier: MIT
-- ridge.advise where losses are not finite: that comes before all that would only make it faster,
-- with the cure of its cause.

local ridge = require 'ridge'
local finite = require 'ridge.advise.finite'
local subject = require 'ridge.advise.subject'

local nn = ridge.nn

local function net_of() -- tanh never dies, as ReLU does where a step was too large
  return nn.Sequential(nn.Linear(8, 8, { seed = 1 }), nn.Tanh(), nn.Linear(8, 1, { seed = 2 }))
end

local function trainer_of(net, lr)
  return ridge.Trainer(net, { optimizer = ridge.optim.SGD(net, { lr = lr }), loss = nn.mse_loss,
    batch = 16, say = function() end, log_every = 0 })
end

local function data(n)
  local drawn = ridge.generator(4)
  return ridge.randn(n, 8, { generator = drawn }), ridge.randn(n, 1, { generator = drawn })
end

local QUICK = { seconds = 0.5, roof = 'none' }

describe('advice on losses that are not finite', function()
  it('begins with them, and finds the batch that is the cause', function()
    local x, y = data(64)
    x:narrow(1, 40, 1):fill_(0 / 0) -- not in the first batch
    local trainer = trainer_of(net_of(), 1e-3)
    local ok, err = pcall(trainer.fit, trainer, { x, y }, { epochs = 2 })
    assert.is_false(ok)
    assert.matches('is nan', tostring(err))
    local a = ridge.advise(trainer, QUICK)
    local first = a.findings[1]
    assert.equal('divergence', first.name)
    assert.is_true(first.urgent)
    assert.matches('8 values are not either, in 1 of 4 batches', first.why)
    assert.matches('replace what is not finite', first.try[1].what)
    local text = tostring(a)
    assert.is_true(text:find('divergence:', 1, true) < text:find('plan (compilation)', 1, true))
    for i = 2, #a.findings do
      assert.is_true(not a.findings[i].urgent or a.findings[i - 1].urgent, a.findings[i].name)
    end
    -- the order of the others is what it was
    local names = {}
    for _, each in ipairs(a.findings) do
      if not each.urgent then names[#names + 1] = each.name end
    end
    assert.same({ 'mixed_precision', 'compile', 'batch_size' }, { unpack(names, 1, 3) })
    trainer:fit({ data(64) }, { epochs = 1 })
    assert.is_nil(trainer.lost)
  end)

  it('has the loss that ended a training behind those of its curve, or alone', function()
    for _, at in ipairs { 1, 40 } do
      local x, y = data(64)
      x:narrow(1, at, 1):fill_(0 / 0)
      local net = net_of()
      local trainer = ridge.Trainer(net, { optimizer = ridge.optim.SGD(net, { lr = 1e-3 }),
        loss = nn.mse_loss, batch = 16, shuffle = false, say = function() end, log_every = 1 })
      assert.is_false(pcall(trainer.fit, trainer, { x, y }, { epochs = 1 }))
      assert.same({ batch = at == 1 and 1 or 3, epoch = 1 }, trainer.lost)
      local before = #trainer.curve
      assert.equal(at == 1, before == 0)
      local s = subject.of_trainer(trainer)
      assert.equal(before + 1, #s.losses)
      assert.is_true(s.losses[#s.losses] ~= s.losses[#s.losses])
      for i = 1, before do assert.equal(trainer.curve[i].loss, s.losses[i]) end
      assert.is_true(s.is_lost)
    end
  end)

  it('of a function that raises is told, with what it raised', function()
    local x, y = data(32)
    local net = net_of()
    local function loop()
      local optimizer = ridge.optim.SGD(net, { lr = 1e20 })
      for _ = 1, 40 do
        optimizer:zero_grad()
        local loss = nn.mse_loss(net(x), y)
        loss:backward()
        optimizer:step()
        if loss:item() ~= loss:item() then error 'the loss is nan' end
      end
    end
    local a = ridge.advise(loop, QUICK)
    assert.equal('divergence', a.findings[1].name)
    assert.matches('it raised: .-the loss is nan', tostring(a))
    local ok, err = pcall(ridge.advise, function() error 'of another kind' end, QUICK)
    assert.is_false(ok)
    assert.matches('of another kind', tostring(err))
  end)

  it('of parameters wants to begin anew, of a rate a smaller one', function()
    local x, y = data(16)
    local net = net_of()
    local s = subject.of_net(net, x, { target = y, loss = nn.mse_loss })
    local why, cures = finite.cause(s, { { rate = 1, falls = false },
      { rate = 0.1, falls = true } })
    assert.matches('at a rate of 0.1, they are', why)
    assert.same({ 'smaller_rate', 'anomaly' }, cures)
    why, cures = finite.cause(s, {}, true)
    assert.matches('were finite, rose', why)
    assert.equal('begin_anew', cures[1])
    why, cures = finite.cause(s, {})
    assert.matches('though batches and parameters are', why)
    assert.same({ 'anomaly', 'smaller_rate' }, cures)
    ridge.no_grad(function() net:parameters()[2].tensor:narrow(1, 3, 1):fill_(1 / 0) end)
    why, cures = finite.cause(s, { { rate = 1, falls = true } })
    assert.matches('neither are 1 of 4 parameter tensors', why)
    assert.same({ 'begin_anew', 'smaller_rate', 'anomaly' }, cures)
    y:narrow(1, 2, 1):fill_(-1 / 0)
    why, cures = finite.cause(s, {})
    assert.matches('one value is not either, in 1 of 1 batches', why)
    assert.equal('clean_batch', cures[1])
  end)

  it('finds the cause of gradients that are not finite where no losses are known', function()
    local x = data(16)
    x:narrow(1, 2, 1):fill_(0 / 0)
    local a = ridge.advise(nn.Linear(8, 2, { seed = 1 }), x, { seconds = 0.3, roof = 'none',
      target = ridge.zeros(16, { dtype = 'i64' }) })
    local first = a.findings[1]
    assert.equal('loss_scale', first.name)
    assert.matches('without a scale: it is not of that; .- 8 values are not either', first.why)
    assert.matches('replace what is not finite', first.try[1].what)
  end)

  it('leaves the loader where it was', function()
    local x, y = data(64)
    local loader = ridge.data.Loader({ x, y }, { batch = 16, shuffle = true, seed = 3 })
    local function order()
      local list = {}
      for batch in loader:each() do list[#list + 1] = batch:narrow(1, 1, 1):tolist() end
      return list
    end
    local before = loader:state()
    local wanted = order()
    loader:load_state(before)
    finite.cause({ loader = loader }, {})
    assert.same(wanted, order())
  end)
end)

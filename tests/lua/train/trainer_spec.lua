-- SPDX-License-Identifier: MIT
-- The trainer: what it learns, when it stops, and that a break leaves no trace.
local ridge = require 'ridge'
local nn = ridge.nn
local folders = dofile 'tests/lua/store/folder.lua'

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

local function silent() end

describe('a trainer', function()
  local folder, x, y

  before_each(function()
    folder = folders.new()
    ridge.seed(7)
    x = ridge.randn(90, 6)
    y = x:argmax(2)
  end)
  after_each(function() folders.remove(folder) end)

  local function make(opts)
    local net = nn.Sequential(nn.Linear(6, 16, { seed = 1 }), nn.ReLU(), nn.Dropout(0.1),
      nn.Linear(16, 6, { seed = 2 }))
    local given = { optimizer = ridge.optim.AdamW(net, { lr = 0.01 }), say = silent }
    for key, value in pairs(opts or {}) do given[key] = value end
    if type(given.schedule) == 'function' then given.schedule = given.schedule(given.optimizer) end
    return ridge.Trainer(net, given), net
  end

  local function loader(batch)
    return ridge.data.Loader({ x:narrow(1, 1, 70), y:narrow(1, 1, 70) }, { batch = batch or 16,
      seed = 5 })
  end

  local function rest()
    return ridge.data.Loader({ x:narrow(1, 71, 20), y:narrow(1, 71, 20) }, { shuffle = false })
  end

  local function same(a, b)
    for i, p in ipairs(a:parameters()) do
      assert.is_true(p.tensor:equal(b:parameters()[i].tensor), p.name)
    end
  end

  it('learns, and keeps a row for each epoch (F123, F125)', function()
    local lines = {}
    local trainer = make { clip = 1, say = function(line) lines[#lines + 1] = line end }
    local history, stopped = trainer:fit(loader(), { epochs = 80, validate = rest() })
    assert.equal(80, #history)
    assert.is_nil(stopped)
    assert.is_true(history[80].loss < 0.4 * history[1].loss, history[80].loss)
    assert.is_true(history[80].accuracy > 0.5, history[80].accuracy)
    assert.is_true(history[80].rows_per_s > 0 and history[80].peak_bytes > 0)
    assert.matches('^epoch 80/80  loss 0%.%d%d%d%d  test %d%.%d+  accuracy %d%.%d+', lines[80])
  end)

  it('goes on after a break with the same bits, dropout and schedule included', function()
    local function schedule(o) return ridge.optim.CosineLR(o, { steps = 40 }) end
    local opts = { folder = folder, accumulate = 2, clip = 1, schedule = schedule }
    ridge.seed(11)
    local whole, net = make { accumulate = 2, clip = 1, schedule = schedule }
    whole:fit(loader(), { epochs = 6, validate = rest() })
    ridge.seed(11)
    make(opts):fit(loader(), { epochs = 2, validate = rest() })
    ridge.seed(99)
    local second, again = make(opts)
    local data = loader()
    assert.is_true(second:resume(data))
    local history = second:fit(data, { epochs = 6, validate = rest() })
    assert.equal(6, #history)
    assert.equal(whole.history[6].loss, history[6].loss)
    -- the curve goes on where the first part left it
    assert.equal(whole.curve[#whole.curve].step, second.curve[#second.curve].step)
    assert.equal(whole.curve[#whole.curve].loss, second.curve[#second.curve].loss)
    assert.is_true(second.curve[1].seconds > 0 and second:summary().total_steps == 18)
    same(net, again)
    assert.is_false((make { folder = folder .. '/none' }:resume()))
  end)

  it('counts each batch of a step alike, and steps for the last few too (F108, F109)', function()
    local function weights(batch, accumulate)
      local trainer, net = make { accumulate = accumulate }
      net.children[3].module.p = 0
      trainer.options.optimizer = ridge.optim.SGD(net, { lr = 0.1 })
      trainer.optimizer = trainer.options.optimizer
      local data = ridge.data.Loader({ x:narrow(1, 1, 64), y:narrow(1, 1, 64) }, { batch = batch,
        shuffle = false })
      trainer:fit(data, { epochs = 1 })
      return net, trainer.optimizer:steps()
    end
    local one, steps = weights(32, 1)
    local two, more = weights(8, 4)
    assert.equal(2, steps)
    assert.equal(2, more)
    for i, p in ipairs(one:parameters()) do
      assert.is_true(p.tensor:allclose(two:parameters()[i].tensor, 1e-5, 1e-6), p.name)
    end
    assert.equal(3, select(2, weights(8, 3))) -- 8 batches in threes: the last two make a step
  end)

  it('stops when the loss has not fallen for a while, and keeps the best', function()
    local trainer, net = make { folder = folder, patience = 2 }
    trainer.optimizer:lr(0)
    net.children[3].module.p = 0
    local history, stopped = trainer:fit(loader(), { epochs = 20, validate = rest() })
    assert.equal('patience', stopped)
    assert.equal(3, #history)
    assert.equal('best.safetensors last.safetensors', folders.list(folder))
    assert.is_true(trainer:resume(nil, 'best'))
    assert.equal(1, trainer.epoch)
  end)

  it('says what is wrong with a checkpoint, and changes nothing', function()
    local trainer, net = make { folder = folder }
    trainer:fit(loader(), { epochs = 1 })
    local wide = nn.Sequential(nn.Linear(6, 17, { seed = 3 }), nn.ReLU(), nn.Linear(17, 6))
    local before = wide.children[1].module.weight:clone()
    local other = ridge.Trainer(wide, { optimizer = ridge.optim.AdamW(wide), folder = folder })
    assert.matches('the tensors are of another model', message(other.resume, other))
    assert.is_true(before:equal(wide.children[1].module.weight))
    local sgd = ridge.Trainer(net, { optimizer = ridge.optim.SGD(net), folder = folder })
    assert.matches('the state is of another optimizer', message(sgd.resume, sgd))
    local path = folder .. '/last.safetensors'
    folders.run(('truncate -s -5 %s'):format(path))
    assert.matches('is cut off', message(trainer.resume, trainer))
    ridge.save(path, { a = ridge.ones(1) })
    assert.matches('is no checkpoint of a trainer', message(trainer.resume, trainer))
  end)

  it('stops at a loss that is nan before it reaches the parameters', function()
    local trainer, net = make()
    local before = net.children[1].module.weight:clone()
    x[{ 3, 1 }] = 0 / 0
    assert.matches('the loss of batch %d in epoch 1 is nan', message(trainer.fit, trainer,
      loader(70), { epochs = 1 }))
    assert.is_true(before:equal(net.children[1].module.weight))
  end)

  it('says what is wrong', function()
    assert.matches('a module is expected', message(ridge.Trainer, 3, {}))
    assert.matches('optimizer', message(ridge.Trainer, nn.Linear(2, 2), {}))
    local trainer = make()
    assert.matches('a loader is expected', message(trainer.fit, trainer, 3, { epochs = 1 }))
    assert.matches('epochs', message(trainer.fit, trainer, loader(), {}))
    assert.matches('save wants a folder', message(trainer.save, trainer, 'last'))
  end)
end)

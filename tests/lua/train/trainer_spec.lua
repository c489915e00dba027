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
    assert.are.equal(160, #lines)
    assert.matches('^epoch 80/80  loss 0%.%d%d%d%d  test %d%.%d+  accuracy %d%.%d+ .* %d+%.%d s, ',
      lines[159])
    assert.matches('^allocated %d+%.%d%d GB, reserved %d+%.%d%d GB, max allocated %d+%.%d%d GB$',
      lines[160]) -- F2, each epoch
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

  -- Losses that are what the data say: the model gives x back, the loss is its mean.
  local function given(losses, opts, sizes)
    local net = nn.class 'Given'()
    net:param('w', ridge.ones(1))
    net.forward = function(self, batch) return batch * self.w end
    local list = { optimizer = ridge.optim.SGD(net, { lr = 0 }), say = silent,
      loss = function(out) return out:mean() end }
    for key, value in pairs(opts or {}) do list[key] = value end
    if type(list.schedule) == 'function' then list.schedule = list.schedule(list.optimizer) end
    local trainer = ridge.Trainer(net, list)
    local epoch = 0
    local data = { len = function() return #losses[1] end, each = function()
      epoch = epoch + 1
      local at = 0
      return function()
        at = at + 1
        local value = losses[math.min(epoch, #losses)][at]
        if value == nil then return nil end
        local rows = sizes and sizes[at] or 2
        return ridge.full(value, rows, 1), ridge.zeros(rows)
      end
    end }
    return trainer, data, net
  end

  local INF, NAN = math.huge, 0 / 0

  it('has the mean over batches whose loss is finite, and says how many are not', function()
    for _, bad in ipairs { NAN, INF, -INF } do
      local lines = {}
      local t, data = given({ { 4, bad, 2, 3 }, { 3, 1, 1, 1 } }, { folder = folder, patience = 2,
        stability = { guard = { kind = 'skip' } },
        say = function(l) lines[#lines + 1] = l end })
      local history, stopped = t:fit(data, { epochs = 2 })
      assert.same({ 3, 1 }, { history[1].loss, history[1].not_finite })
      assert.same({ 1.5, 0 }, { history[2].loss, history[2].not_finite })
      assert.is_nil(stopped)
      assert.are.equal(1.5, t.best)
      assert.matches('loss 3.0000 %(1 batches had a loss that is not finite%)', lines[1])
      assert.are.equal('best.safetensors last.safetensors', folders.list(folder))
    end
    -- a loss scale leaves such a batch out as well
    local t, data = given({ { 4, NAN, 2 } }, { scaler = ridge.optim.GradScaler { scale = 2 },
      folder = folder })
    local history = t:fit(data, { epochs = 3 })
    assert.are.equal(3, history[3].loss)
    assert.are.equal(3, t.best)
    assert.are.equal(3, t.options.scaler.skipped)
    -- where none is finite there is no mean, and no better epoch
    t, data = given({ { 2, 2 }, { NAN, NAN } }, { patience = 2, scaler = ridge.optim.GradScaler() })
    local stopped
    history, stopped = t:fit(data, { epochs = 9 })
    assert.is_true(history[2].loss ~= history[2].loss)
    assert.same({ 3, 'patience', 2 }, { #history, stopped, t.best })
  end)

  it('counts rows, not batches, in an epoch and in a step', function()
    local t, data = given({ { 1, 2, 4, 8, 16 } }, { accumulate = 2 }, { 4, 4, 4, 2, 1 })
    local history = t:fit(data, { epochs = 1 })
    assert.are.equal((4 + 8 + 16 + 16 + 16) / 15, history[1].loss)
    local found = {}
    for i, row in ipairs(t.curve) do found[i] = row.loss end
    assert.same({ 1.5, 32 / 6, 16 }, found) -- of all parts of each step
    t, data = given({ { 1, 2, 4, 8, 16 } }, { accumulate = 2, stability = {} }, { 4, 4, 4, 2, 1 })
    t:fit(data, { epochs = 1 })
    for i, row in ipairs(t.stability.history) do found[i] = row.loss end
    assert.same({ 1.5, 32 / 6, 16 }, found)
  end)

  it('makes one step of a ragged group that is the step of the big batch', function()
    local function weights(batch, opts)
      local net = nn.Sequential(nn.Linear(6, 16, { seed = 1 }), nn.ReLU(),
        nn.Linear(16, 6, { seed = 2 }))
      local o = ridge.optim.SGD(net, { lr = 0.5, momentum = 0.9 })
      local list = { optimizer = o, say = silent }
      for key, value in pairs(opts) do list[key] = value end
      local source = ridge.data.Loader({ x:narrow(1, 1, 67), y:narrow(1, 1, 67) },
        { batch = batch, shuffle = false })
      local given_to = source
      if list.mute then -- a loader that does not say how many batches it has
        given_to = { each = function() return source:each() end }
        list.mute = nil
      end
      ridge.Trainer(net, list):fit(given_to, { epochs = 4 })
      assert.are.equal(12, o:steps())
      return net
    end
    -- 67 rows: groups of 16 + 16, 16 + 16 and 3; in eights 8 x 4, 8 x 4 and 3
    local big = weights(32, {})
    for name, opts in pairs { sixteens = { 16, 2 }, eights = { 8, 4 } } do
      for _, more in ipairs { {}, { compile = true }, { clip = 1e9 }, { mute = true },
        { stability = {} }, { scaler = ridge.optim.GradScaler { scale = 8 } } } do
        more.accumulate = opts[2]
        local net = weights(opts[1], more)
        for i, p in ipairs(big:parameters()) do
          assert.is_true(p.tensor:allclose(net:parameters()[i].tensor, 1e-4, 1e-5), name)
        end
      end
    end
    -- 67 rows in one step of batches of 10, the last of 7
    local function whole(batch, accumulate)
      local net = nn.Linear(6, 6, { seed = 1 })
      ridge.Trainer(net, { optimizer = ridge.optim.SGD(net, { lr = 1 }), say = silent,
        accumulate = accumulate }):fit(ridge.data.Loader({ x:narrow(1, 1, 67),
        y:narrow(1, 1, 67) }, { batch = batch, shuffle = false }), { epochs = 1 })
      return net
    end
    local one, many = whole(67, 1), whole(10, 7)
    assert.is_true(one.weight:allclose(many.weight, 1e-5, 1e-6))
  end)

  it('steps over the rows there were, whatever a feed says of its length', function()
    local function weights(sizes, len, loss)
      local net, target = nn.Linear(6, 6, { seed = 1 }), loss and x or y
      local feed = { len = function() return len end, each = function()
        local i, at = 0, 1
        return function()
          i = i + 1
          if not sizes[i] then return nil end
          at = at + sizes[i]
          return x:narrow(1, at - sizes[i], sizes[i]), target:narrow(1, at - sizes[i], sizes[i])
        end
      end }
      local o = ridge.optim.SGD(net, { lr = 1 })
      ridge.Trainer(net, { optimizer = o, say = silent, accumulate = 3,
        loss = loss }):fit(feed, { epochs = 1 })
      return net.weight, o:steps()
    end
    local big = weights({ 15 }, 1)
    for _, len in ipairs { 0, -1, 3, 3.5, 7, 0 / 0, 1 / 0 } do
      local small, steps = weights({ 8, 6, 1 }, len)
      assert.are.equal(1, steps)
      assert.is_true(big:allclose(small, 1e-5, 1e-6), tostring(len))
    end
    local _, steps = weights({ 8, 6, 1 }, 1)
    assert.are.equal(2, steps)
    local found = weights({ 8, 6, 1 }, 1)
    assert.are.equal(0, (found * 0):sum():item())
    local few = weights({ 8, 7 }, 7, nn.mse_loss) -- fewer than a step has, and weighed by rows
    assert.is_true(weights({ 15 }, 1, nn.mse_loss):allclose(few, 1e-5, 1e-6))
  end)

  it('waits again behind each epoch that is better', function()
    local t, data = given({ { 5 }, { 6 }, { 4 }, { 6 }, { 7 }, { 1 } }, { patience = 2 })
    local history, stopped = t:fit(data, { epochs = 6 })
    assert.same({ 5, 'patience', 4, 2 }, { #history, stopped, t.best, t.waited })
  end)

  it('has ended for want of patience also where it goes on from its checkpoint', function()
    local losses = { { 5 }, { 6 }, { 6 }, { 6 } }
    local t, data = given(losses, { patience = 2, folder = folder })
    assert.are.equal('patience', select(2, t:fit(data, { epochs = 4 })))
    for _, epochs in ipairs { 3, 4 } do
      local again = given(losses, { patience = 2, folder = folder })
      assert.is_true(again:resume(data))
      local history, stopped = again:fit(data, { epochs = epochs })
      assert.same({ 3, 'patience' }, { #history, stopped })
    end
    local more = given(losses, { patience = 3, folder = folder }) -- it may wait longer now
    more:resume(data)
    assert.are.equal(4, #more:fit(data, { epochs = 4 }))
  end)

  it('has the loss of a batch in parts that are not alike, and its step', function()
    local function fit(parts)
      local net = nn.Linear(6, 6, { seed = 1 })
      local t = ridge.Trainer(net, { optimizer = ridge.optim.SGD(net, { lr = 1 }), say = silent })
      t.batch.parts = parts
      local data = ridge.data.Loader({ x:narrow(1, 1, 5), y:narrow(1, 1, 5) }, { batch = 5,
        shuffle = false })
      return t:fit(data, { epochs = 1 })[1].loss, net.weight
    end
    local whole, weight = fit(1)
    for _, parts in ipairs { 2, 3, 4, 5, 9 } do
      local loss, found = fit(parts)
      assert.is_true(math.abs(loss - whole) < 1e-5, parts)
      assert.is_true(weight:allclose(found, 1e-5, 1e-6), parts)
    end
  end)

  it('counts the time of a step from where it went on', function()
    local t = make()
    t:fit(loader(), { epochs = 1 })
    local state = t:state()
    state.seconds = 1e6
    local again = make()
    again:load_state(state)
    again:fit(loader(), { epochs = 2 })
    local s = again:summary()
    assert.is_true(s.max_step_time < 1e5 and s.min_step_time <= s.max_step_time)
    assert.are.equal(10, s.total_steps)
  end)

  it('refuses a batch without rows', function()
    local net = nn.Linear(6, 6, { seed = 1 })
    local before = net.weight:detach():clone()
    local t = ridge.Trainer(net, { optimizer = ridge.optim.SGD(net, { lr = 1 }), say = silent })
    local ok, err = pcall(t.fit, t, { each = function()
      return function() return ridge.zeros(0, 6), ridge.zeros(0, 6) end
    end }, { epochs = 1 })
    assert.is_false(ok)
    assert.matches('a batch without rows, f32%[0,6%]', err.message)
    assert.is_true(before:allclose(net.weight, 0, 0))
  end)

  it('leaves a step out of which any part has a nan', function()
    for part = 1, 3 do
      local losses = { { 1, 1, 1 } }
      losses[1][part] = NAN
      for _, opts in ipairs { { stability = {} }, { stability = { guard = { kind = 'skip' } } },
        { scaler = ridge.optim.GradScaler() } } do
        opts.accumulate = 3
        local t, data, net = given(losses, opts)
        t.optimizer:lr(0.5)
        t:fit(data, { epochs = 1 })
        assert.same({ 1 }, net.w:tolist(), part)
        assert.are.equal(0, t.optimizer:steps())
        assert.is_true(t.curve[1].loss ~= t.curve[1].loss)
      end
      local t, data, net = given(losses, { accumulate = 3 })
      t.optimizer:lr(0.5)
      assert.matches(('the loss of batch %d in epoch 1 is nan'):format(part),
        message(t.fit, t, data, { epochs = 1 }))
      assert.same({ 1 }, net.w:tolist())
    end
  end)

  it('leaves a step out of which any part has an infinite loss', function()
    for part = 1, 3 do
      for _, value in ipairs { math.huge, -math.huge } do
        local losses = { { 1, 1, 1 }, { 1, 1, 1 } }
        losses[1][part] = value
        for _, opts in ipairs { {}, { clip = 1 }, { stability = {} },
          { scaler = ridge.optim.GradScaler() } } do
          opts.accumulate = 3
          local t, data, net = given(losses, opts)
          local history = t:fit(data, { epochs = 1 })
          assert.same({ 1 }, net.w:tolist(), part)
          assert.are.equal(1, history[1].not_finite)
          assert.are.equal(value, t.curve[1].loss)
          t:fit(data, { epochs = 2 })
          assert.are.equal(1, t.optimizer:steps())
        end
      end
    end
  end)

  it('steps PlateauLR once an epoch, with the loss of the validation where there is one', function()
    local function rates(losses, validate)
      local t, data = given(losses, { schedule = function(o)
        o:lr(1e-20) -- too small to change what the model gives
        return ridge.optim.PlateauLR(o, { patience = 1, factor = 0.5 })
      end })
      local found = {}
      for i, row in ipairs(t:fit(data, { epochs = 6, validate = validate })) do
        found[i] = row.lr
      end
      return found, t.optimizer:lr()
    end
    -- the rate is that of the epoch's own steps: it falls behind the second bad one
    local found, last = rates { { 3, 1 }, { 1, 1 }, { 1, 1 }, { 2, 2 }, { 5, 5 }, { 7, 7 } }
    assert.same({ 1e-20, 1e-20, 1e-20, 1e-20, 5e-21, 5e-21 }, found)
    assert.are.equal(2.5e-21, last)
    -- validation does not get better, whatever the training does
    local _, flat = given { { 2 } }
    found, last = rates({ { 9 }, { 8 }, { 7 }, { 6 }, { 5 }, { 4 } }, flat)
    assert.same({ 1e-20, 1e-20, 1e-20, 5e-21, 5e-21, 2.5e-21 }, found)
    assert.are.equal(2.5e-21, last)
  end)

  it('validates in evaluation mode, over rows of uneven batches', function()
    local net = nn.Sequential(nn.Linear(6, 16, { seed = 1 }), nn.Dropout(0.9), nn.BatchNorm(16),
      nn.Linear(16, 6, { seed = 2 }))
    local t = ridge.Trainer(net, { optimizer = ridge.optim.SGD(net, { lr = 0.01 }), say = silent })
    local test = ridge.data.Loader({ x:narrow(1, 1, 23), y:narrow(1, 1, 23) }, { batch = 10,
      shuffle = false })
    t:fit(loader(), { epochs = 1 }) -- leaves the model in training mode
    assert.is_true(net.training)
    local mean = net.children[3].module:state().running_mean
    local before = mean and mean:detach():clone()
    local loss, accuracy = t:validate(test)
    assert.same({ loss, accuracy }, { t:validate(test) })
    if before then assert.is_true(before:equal(mean)) end
    local hits, wanted = 0, 0
    net:eval()
    ridge.no_grad(function()
      local out = net(x:narrow(1, 1, 23))
      for i, label in ipairs(out:argmax(2):tolist()) do
        if label == y:tolist()[i] then hits = hits + 1 end
      end
      wanted = nn.cross_entropy(out, y:narrow(1, 1, 23)):item()
    end)
    assert.is_true(math.abs(accuracy - hits / 23) < 1e-12, accuracy)
    assert.is_true(math.abs(loss - wanted) < 1e-5, loss)
    local history = t:fit(loader(), { epochs = 2, validate = test })
    assert.is_true(history[2].accuracy * 23 % 1 < 1e-9 or history[2].accuracy * 23 % 1 > 1 - 1e-9)
  end)

  it('keeps every field over a break: patience, best, rates, scale, record', function()
    local function make_one()
      return (make { folder = folder, patience = 3, scaler = ridge.optim.GradScaler { scale = 64,
        interval = 4 }, schedule = function(o) return ridge.optim.StepLR(o, { every = 2 }) end })
    end
    local t = make_one()
    t.optimizer:lr(0.003) -- the base that the schedule multiplies
    t:record { custom = 0.25 }
    t:fit(loader(), { epochs = 1 })
    t.best, t.waited, t.options.scaler.skipped, t.batch.parts = 0.125, 2, 7, 3
    t:save('last', loader())
    local u = make_one()
    assert.is_true(u:resume())
    assert.same({ 0.125, 2, 1, 3 }, { u.best, u.waited, u.epoch, u.batch.parts })
    assert.same({ t.metrics, t.trained_s, #t.curve }, { u.metrics, u.trained_s, u.steps_before })
    assert.same(t.history, u.history)
    assert.same(t.options.scaler:state(), u.options.scaler:state())
    assert.are.equal(7, u.options.scaler.skipped)
    assert.are.equal(t.options.schedule.t, u.options.schedule.t)
    assert.same({ t.optimizer:lr(), 0.003 }, { u.optimizer:lr(), u.optimizer.groups[1].base })
    assert.are.equal(t.options.schedule:step(), u.options.schedule:step())
    local _, stopped = u:fit(loader(), { epochs = 9 }) -- one bad epoch more ends it
    assert.same({ 'patience', 2 }, { stopped, u.epoch })
  end)

  it('makes the folder for checkpoints before it trains, or says why not', function()
    local deep = folder .. '/a/b'
    local t = make { folder = deep .. '/' }
    assert.are.equal('', folders.list(deep))
    t:fit(loader(), { epochs = 1 })
    assert.are.equal('best.safetensors last.safetensors', folders.list(deep))
    folders.run('touch ' .. folder .. '/file')
    assert.matches('cannot make the folder .*/file/in: Not a directory', message(make,
      { folder = folder .. '/file/in' }))
    assert.matches('cannot write into the folder .*/file: Not a directory', message(make,
      { folder = folder .. '/file' }))
    assert.matches('is not the name of a folder', message(make, { folder = '' }))
  end)

  it('goes on with the orders of the loader that fit is given', function()
    local function part(epochs, resume)
      local t = make { folder = folder }
      t.model.children[3].module.p = 0
      if resume == 'with' then
        local data = loader()
        assert.is_true(t:resume(data))
        return t:fit(data, { epochs = epochs }), t
      end
      if resume then assert.is_true(t:resume()) end
      return t:fit(loader(), { epochs = epochs }), t
    end
    local whole = part(5)
    for _, way in ipairs { 'with', 'without' } do
      part(2)
      local history, t = part(5, way)
      for i = 1, 5 do assert.are.equal(whole[i].loss, history[i].loss, way .. i) end
      -- that was for the first loader; another call goes on from there
      assert.are.equal(7, #t:fit(loader(), { epochs = 7 }))
    end
    local t = make { folder = folder }
    t:resume()
    local plain = { each = function() return loader():each() end }
    assert.matches('the loader has no load_state', message(t.fit, t, plain, { epochs = 9 }))
  end)

  it('goes on with the same bits where a loader draws its seed behind resume', function()
    local function start()
      ridge.seed(21)
      return (make { folder = folder })
    end
    local function any() -- seeds of the default stream, from which dropout draws as well
      return ridge.data.Loader({ x:narrow(1, 1, 70), y:narrow(1, 1, 70) }, { batch = 16 })
    end
    local whole = start()
    local wanted = whole:fit(any(), { epochs = 4, validate = any() })
    start():fit(any(), { epochs = 2, validate = any() })
    ridge.seed(5)
    local t = make { folder = folder }
    assert.is_true(t:resume())
    local found = t:fit(any(), { epochs = 4, validate = any() })
    for i = 1, 4 do
      assert.same({ wanted[i].loss, wanted[i].val_loss }, { found[i].loss, found[i].val_loss })
    end
    same(whole.model, t.model)
    -- and where the trainer makes the loader
    local again = start()
    wanted = again:fit({ x, y }, { epochs = 4 })
    start():fit({ x, y }, { epochs = 2 })
    ridge.seed(5)
    t = make { folder = folder }
    t:resume()
    t:fit({ x, y }, { epochs = 3 })
    found = t:fit({ x, y }, { epochs = 4 }) -- the same tensors: the same loader
    for i = 1, 4 do assert.are.equal(wanted[i].loss, found[i].loss) end
    -- saving by hand keeps the orders of the last fit too
    t:save 'hand'
    local u = make { folder = folder }
    assert.is_true(u:resume(nil, 'hand'))
    wanted = t:fit({ x, y }, { epochs = 5 })
    assert.are.equal(wanted[5].loss, u:fit({ x, y }, { epochs = 5 })[5].loss)
  end)

  it('leaves a model that is where it should be to its optimizer', function()
    local t = make { device = 'cpu' }
    local before = t.model.children[1].module.weight:detach():clone()
    t:fit(loader(), { epochs = 1 })
    assert.is_false(before:equal(t.model.children[1].module.weight))
  end)

  it('says a line every so many batches, of the losses so far (F125)', function()
    local function lines_of(opts, n)
      local lines, losses = {}, { {} }
      for i = 1, n do losses[1][i] = i end
      opts.say = function(l) lines[#lines + 1] = l end
      local t, data = given(losses, opts)
      t:fit(data, { epochs = 1 })
      return lines
    end
    local lines = lines_of({}, 120)
    assert.are.equal(4, #lines)
    assert.matches('^epoch 1/1  batch 50/120  loss 25.5000  %d+%.%d s$', lines[1])
    assert.matches('^epoch 1/1  batch 100/120  loss 50.5000  %d+%.%d s$', lines[2])
    assert.matches('^epoch 1/1  loss 60.5000  ', lines[3])
    assert.are.equal(2 + 6, #lines_of({ log_every = 20 }, 120))
    assert.are.equal(2, #lines_of({ log_every = 0 }, 120))
  end)

  it('says what is wrong', function()
    assert.matches('a module is expected', message(ridge.Trainer, 3, {}))
    assert.matches('optimizer', message(ridge.Trainer, nn.Linear(2, 2), {}))
    local trainer = make()
    assert.matches('a loader is expected', message(trainer.fit, trainer, 3, { epochs = 1 }))
    assert.matches('gives batches of inputs and targets, this one gives',
      message(trainer.fit, trainer, ridge.data.Loader({ x }, { batch = 9 }), { epochs = 1 }))
    assert.matches('epochs', message(trainer.fit, trainer, loader(), {}))
    assert.matches('Trainer:save: checkpoints are in a folder', message(trainer.save, trainer,
      'last'))
    assert.matches('Trainer:resume: checkpoints are in a folder', message(trainer.resume, trainer))
    for _, bad in ipairs { 3, {}, true } do
      assert.matches('a loader is expected', message(trainer.validate, trainer, bad))
      assert.matches('a loader is expected', message(trainer.load_state, trainer,
        trainer:state(bad), bad))
    end
    local none = { each = function() return function() end end }
    assert.matches('the loader gives no batch', message(trainer.validate, trainer, none))
    assert.matches('the loader gives no batch', message(trainer.fit, trainer, none, { epochs = 1 }))
    assert.matches('validate: a loader is expected', message(trainer.fit, trainer, loader(),
      { epochs = 1, validate = {} }))
    trainer = make { folder = folder }
    for _, bad in ipairs { 'a/b', '', 3, {} } do
      assert.matches('a checkpoint has a name', message(trainer.save, trainer, bad))
      assert.matches('a checkpoint has a name', message(trainer.resume, trainer, nil, bad))
    end
  end)
end)

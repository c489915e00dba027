-- SPDX-License-Identifier: MIT
-- Levels that switch what they name, batches as plans, batches in parts.
local ridge = require 'ridge'
local nn = ridge.nn
local ref = require 'ridge.ffi.ref'

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

local function silent() end

local function blocks(kind)
  local net = nn.Sequential()
  for i = 1, 3 do
    net:add(nn.TransformerBlock(8, { heads = 2, causal = true, kind = kind, seed = i }))
  end
  return net
end

describe('a level', function()
  it('switches what it names, and says what it could not', function()
    local lines = {}
    local net = blocks 'matrix'
    local out, report = ridge.level(net, 'ULTRA', nil, function(l) lines[#lines + 1] = l end)
    local on = {}
    for _, r in ipairs(report) do on[r.name] = r.on end
    assert.is_true(on.compile and on.recompute and on.flash_attention and on.accumulate)
    assert.is_false(on.memory_format)
    assert.are.equal(8, out.accumulate)
    assert.are.equal(8, out.workers)
    assert.is_true(out.compile)
    for _, c in ipairs(net.children) do
      assert.are.equal('tiles', c.module.attention.kind)
      assert.is_function(c.module.recomputes)
    end
    assert.matches('memory_format +off +not switched: the model has no images',
      table.concat(lines, '\n'))
  end)

  it('basic switches nothing, custom what is given', function()
    local net = blocks 'matrix'
    local out, report = ridge.level(net, 'basic', nil, silent)
    assert.same({}, out)
    assert.same({}, report)
    out, report = ridge.level(net, 'custom', { accumulate = 4 }, silent)
    assert.same({ accumulate = 4 }, out)
    assert.are.equal(1, #report)
    out = ridge.level(net, 'ultra', { compile = false, recompute = false }, silent)
    assert.is_nil(out.compile)
    assert.is_nil(net.children[1].module.recomputes)
    local _, none = ridge.level(nn.Linear(2, 2), 'ultra', nil, silent)
    for _, r in ipairs(none) do
      if r.name == 'recompute' or r.name == 'flash_attention' then assert.is_false(r.on) end
    end
    assert.matches('say is a function', message(ridge.level, net, 'basic', nil, 5))
    assert.matches("'best' is none; there are basic, advanced", message(ridge.level, net, 'best'))
  end)

  it('says from measured bytes whether recomputing pays (F38)', function()
    local function chain(depth) -- two blocks
      local net = nn.Sequential()
      for _ = 1, 2 do
        local block = nn.Sequential()
        for _ = 1, depth do block:add(nn.Tanh()) end
        net:add(block)
      end
      return net
    end
    local x = ridge.randn(1024, 32):requires_grad_() -- 131,072 bytes, as every result
    ridge.recompute(nn.Tanh(), x):release() -- what recomputing makes once and keeps
    for depth, wanted in pairs {
      [1] = 'recompute: a batch of 1024 rows holds 0.262 MB for the backward pass, 0.262 MB '
        .. 'without recomputing: it does not pay',
      [4] = 'recompute: a batch of 1024 rows holds 0.262 MB for the backward pass, 1.05 MB without '
        .. 'recomputing: it pays where memory is short, for one more pass forward',
    } do
      local net, lines = chain(depth), {}
      net.children[1].module:eval()
      ref.collect()
      local live = ridge.memory.stats().live
      -- dead tensors that the collector finds during a pass are not what the pass let go
      local tanh, calls = net.children[1].module.children[1].module, 0
      function tanh.forward(self, ...)
        calls = calls + 1
        if calls == 3 then collectgarbage() end
        return nn.Tanh.forward(self, ...)
      end
      for _ = 1, 40 do local _ = ridge.zeros(64) end
      ridge.level(net, 'custom', { recompute = true, sample = x }, function(l)
        lines[#lines + 1] = l
      end)
      assert.are.equal(wanted, lines[2])
      ref.collect()
      assert.are.equal(live, ridge.memory.stats().live)
      assert.is_false(net.children[1].module.training)
      assert.is_true(net.children[2].module.training)
      assert.are.equal(1, net.children[1].module.segments)
    end
    local lines = {}
    local function say(l) lines[#lines + 1] = l end
    ridge.memory.set_limit(ridge.memory.stats().live + 600000)
    local ok, err = pcall(ridge.level, chain(4), 'custom', { recompute = true, sample = x }, say)
    ridge.memory.set_limit(0)
    assert.is_true(ok, tostring(err))
    assert.matches('without recomputing it has no room: it pays', lines[2])
    assert.matches('level: sample', message(ridge.level, chain(1), 'custom',
      { recompute = true, sample = 5 }, silent))
  end)

  it('knows the profiles of document 000', function()
    assert.are.equal(256, ridge.profiles('fast_training').batch)
    assert.are.equal(1, ridge.profiles('fast_training').clip)
    assert.is_false(ridge.profiles('memory_constrained').amp)
    assert.are.equal(8, ridge.profiles('high_throughput').workers)
    assert.matches('there are fast_training', message(ridge.profiles, 'slow'))
  end)
end)

describe('a trainer', function()
  local x, y

  before_each(function()
    ridge.seed(7)
    x = ridge.randn(70, 6)
    y = x:argmax(2)
  end)

  local function fit(opts, batch, epochs)
    local net = nn.Sequential(nn.Linear(6, 16, { seed = 1 }), nn.ReLU(),
      nn.Linear(16, 6, { seed = 2 }))
    local given = { optimizer = ridge.optim.SGD(net, { lr = 0.1, momentum = 0.9 }), say = silent }
    for key, value in pairs(opts or {}) do given[key] = value end
    local trainer = ridge.Trainer(net, given)
    trainer:fit(ridge.data.Loader({ x, y }, { batch = batch or 16, seed = 5 }), {
      epochs = epochs or 5 })
    return net, trainer
  end

  local function near(a, b)
    for i, p in ipairs(a:parameters()) do
      assert.is_true(p.tensor:detach():allclose(b:parameters()[i].tensor:detach(), 1e-4, 1e-5),
        p.name)
    end
  end

  it('as plans learns what it learns without, bit for bit', function()
    for _, accumulate in ipairs { 1, 3 } do
      local plain = fit { accumulate = accumulate }
      local planned, trainer = fit { accumulate = accumulate, compile = true }
      local n = 0
      for _ in trainer.batch.plans:each() do n = n + 1 end
      assert.is_true(n >= 1)
      for i, p in ipairs(plain:parameters()) do
        assert.is_true(p.tensor:equal(planned:parameters()[i].tensor), p.name)
      end
    end
  end)

  it('weighs recomputing with its first batch, which leaves no trace', function()
    local function run(weighed)
      ridge.seed(3)
      local net = nn.Sequential()
      for i = 1, 2 do
        net:add(nn.Sequential(nn.Linear(6, 6, { seed = i }), nn.BatchNorm(6), nn.Dropout(0.5)))
      end
      local lines = {}
      local trainer = ridge.Trainer(net, { optimizer = ridge.optim.SGD(net, { lr = 0.1 }),
        recompute = weighed, say = function(l) lines[#lines + 1] = l end })
      if not weighed then
        for _, c in ipairs(net.children) do c.module:recompute(1) end
      end
      trainer:fit(ridge.data.Loader({ x, y }, { batch = 35, seed = 5 }), { epochs = 2 })
      local _, said = table.concat(lines, '\n'):gsub('recompute: a batch of 4 rows holds ', '')
      assert.are.equal(weighed and 1 or 0, said)
      return net, trainer.history
    end
    run(nil) -- what is made once and kept
    local plain, before = run(nil)
    local weighed, after = run(true)
    collectgarbage()
    assert.is_true(after[1].peak_bytes < before[1].peak_bytes * 1.5)
    for i, p in ipairs(plain:parameters()) do
      assert.is_true(p.tensor:equal(weighed:parameters()[i].tensor), p.name)
    end
    local mean = plain.children[1].module.children[2].module.running_mean
    assert.is_true(mean:equal(weighed.children[1].module.children[2].module.running_mean))
    assert.is_true(mean:abs():sum():item() > 0)
  end)

  it('drops the plans of old shapes, and their memory (F127)', function()
    local Batch = require 'ridge.train.batch'
    local function reserved()
      ridge.memory.trim()
      return ridge.memory.stats().reserved
    end
    local function run(compile, sizes, times)
      local net = nn.Sequential(nn.Linear(6, 512, { seed = 1 }), nn.ReLU(),
        nn.Linear(512, 6, { seed = 2 })):train()
      local batch = Batch(net, nn.cross_entropy, { compile = compile, say = silent })
      local at = {}
      for i, n in ipairs(sizes) do
        for _ = 1, times do
          batch:run(ridge.ones(n, 6) * i, ridge.zeros(n, { dtype = 'i64' }),
            { share = 1, labels = n, alone = true }, function() end)
        end
        at[i] = { kept = 0, reserved = reserved() }
        for _ in batch.plans:each() do at[i].kept = at[i].kept + 1 end
      end
      return net, at, batch
    end
    local sizes = {}
    for i = 1, 60 do sizes[i] = 100 + i end
    local plain = run(false, sizes, 3)
    local planned, at, batch = run(true, sizes, 3)
    for i, p in ipairs(plain:parameters()) do
      assert.is_true(p.tensor.grad:equal(planned:parameters()[i].tensor.grad), p.name)
    end
    for i = 1, 60 do assert.are.equal(math.min(i, 8), at[i].kept) end
    -- the last eight are little larger than the first eight
    assert.is_true(batch:plan_bytes() > 8 * 100 * 512 * 4)
    assert.is_true(at[60].reserved < 1.8 * at[8].reserved,
      ('%d bytes with 60 shapes, %d with 8'):format(at[60].reserved, at[8].reserved))
    -- the oldest is made again once it is used twice; the newest are still there
    local before = batch.plans:get(batch.plans.order[8].key)
    batch:run(ridge.ones(160, 6), ridge.zeros(160, { dtype = 'i64' }),
      { share = 1, labels = 160, alone = true }, function() end)
    assert.are.equal(before, batch.plans.order[8].made)
    -- more shapes in turn than plans are kept for: none is made in vain
    local turns = {}
    for i = 1, 30 do turns[i] = 200 + i % 10 end
    local _, in_turn = run(true, turns, 1)
    assert.are.equal(0, in_turn[30].kept)
  end)

  it('as plans follows a loss scale that changes', function()
    local plain = fit { scaler = ridge.optim.GradScaler { scale = 64, interval = 4 } }
    local scaler = ridge.optim.GradScaler { scale = 64, interval = 4 }
    local planned = fit { scaler = scaler, compile = true }
    assert.is_true(scaler.factor > 64)
    near(plain, planned)
  end)

  it('says why there is no plan', function()
    local lines = {}
    local net = nn.Sequential(nn.Linear(6, 6, { seed = 1 }))
    local trainer = ridge.Trainer(net, { optimizer = ridge.optim.SGD(net), compile = true,
      loss = function(o, t)
        if o:sum():item() > 1e9 then error('never') end
        return nn.cross_entropy(o, t)
      end, say = function(l) lines[#lines + 1] = l end })
    local history = trainer:fit(ridge.data.Loader({ x, y }, { batch = 10 }), { epochs = 1 })
    assert.are.equal(1, #history) -- it went on without
    assert.matches('no plan of the step', table.concat(lines, '\n'))
  end)

  it('goes on without a plan in the middle of a step, with what came before it', function()
    local function learnt(loss, compile)
      local net = nn.Linear(6, 6, { seed = 1 })
      local lines = {}
      ridge.Trainer(net, { optimizer = ridge.optim.SGD(net, { lr = 0.1 }), accumulate = 4,
        compile = compile, loss = loss, say = function(l) lines[#lines + 1] = l end }):fit(
        ridge.data.Loader({ x, y }, { batch = 10, seed = 5 }), { epochs = 2 })
      return net, table.concat(lines, '\n')
    end
    local plain = learnt(nn.cross_entropy)
    -- it fails behind the backward pass of a part: gradients have been added already
    local net, text = learnt(function(o, t)
      nn.mse_loss(o, ridge.zeros(o:size(1), 6)):backward { retain = true }
      for _, p in ipairs { o } do
        if p:sum():item() > 1e9 then error 'never' end
      end
      return nn.cross_entropy(o, t)
    end, true)
    assert.matches('no plan of the step', text)
    local same = learnt(function(o, t)
      nn.mse_loss(o, ridge.zeros(o:size(1), 6)):backward { retain = true }
      return nn.cross_entropy(o, t)
    end)
    assert.is_true(same.weight:allclose(net.weight, 1e-6, 1e-7))
    assert.is_false(plain.weight:allclose(net.weight, 1e-6, 1e-7))
  end)

  it('in parts takes the gradients of the whole batch', function()
    local plain = fit()
    for at = 1, 3 do -- the first batch does not fit, its first half does not, its second half
      local lines, calls = {}, 0
      local net = nn.Sequential(nn.Linear(6, 16, { seed = 1 }), nn.ReLU(),
        nn.Linear(16, 6, { seed = 2 }))
      local trainer = ridge.Trainer(net, { split = true,
        optimizer = ridge.optim.SGD(net, { lr = 0.1, momentum = 0.9 }),
        loss = function(o, t)
          calls = calls + 1
          if calls == 1 or calls == at then
            ridge.memory.set_limit(ridge.memory.stats().live + 64)
            local ok, err = pcall(function() return ridge.zeros(100000) end)
            ridge.memory.set_limit(0)
            if not ok then error(err, 0) end
          end
          return nn.cross_entropy(o, t)
        end, say = function(l) lines[#lines + 1] = l end })
      trainer:fit(ridge.data.Loader({ x, y }, { batch = 16, seed = 5 }), { epochs = 5 })
      assert.are.equal(at == 1 and 2 or 4, trainer.batch.parts)
      assert.matches('out of memory: batches are worked off in 2 parts', lines[1])
      near(plain, net)
    end
  end)

  it('cuts a batch no further than into rows, and says each time how far', function()
    local said, calls = {}, 0
    local net = nn.Linear(3, 2, { seed = 1 })
    local trainer = ridge.Trainer(net, { split = true,
      optimizer = ridge.optim.SGD(net, { lr = 0.1 }), loss = function()
        calls = calls + 1
        require('ridge.blame').raise('no memory for it', 'ENOMEM')
      end, say = function(line) said[#said + 1] = line end })
    local rows = ridge.randn(4, 3)
    local ok, err = pcall(trainer.fit, trainer, { rows, ridge.zeros(4, { dtype = 'i64' }) },
      { epochs = 1 })
    assert.is_false(ok)
    assert.matches('no memory for it', tostring(err))
    assert.are.equal(3, calls) -- whole, in halves, row by row
    assert.same({ 2, 4 }, { tonumber(said[1]:match 'in (%d+) parts'),
      tonumber(said[2]:match 'in (%d+) parts') })
    assert.are.equal(2, #said)
    -- nor where something else is wrong
    said, calls = {}, 0
    trainer = ridge.Trainer(net, { split = true,
      optimizer = ridge.optim.SGD(net, { lr = 0.1 }), loss = function()
        calls = calls + 1
        error('another fault', 0)
      end, say = function(line) said[#said + 1] = line end })
    assert.matches('another fault', message(trainer.fit, trainer,
      { rows, ridge.zeros(4, { dtype = 'i64' }) }, { epochs = 1 }))
    assert.same({ 1, 0 }, { calls, #said })
  end)

  it('lets the manager take the steps', function()
    local _, trainer = fit({ stability = { clip = { max_norm = 1 }, guard = { kind = 'skip' } } })
    assert.are.equal(25, trainer.stability.steps)
    assert.is_true(trainer.stability:summary().mean_score > 0.8)
    assert.matches('clipping is an option of it', message(fit, { stability = {}, clip = 1 }))
  end)

  it('says what is in force and how long steps take (F153, F155 to F157)', function()
    local _, trainer = fit { compile = true }
    trainer:record({ custom_metric = 0.95 }):record({ custom_metric = 0.97 }, 100)
    assert.are.equal(0.97, trainer.metrics[2].custom_metric)
    assert.are.equal(100, trainer.metrics[2].step)
    local s = trainer:summary()
    assert.are.equal(25, s.total_steps)
    assert.is_true(s.min_step_time > 0 and s.min_step_time <= s.average_step_time)
    assert.is_true(s.average_step_time <= s.max_step_time)
    assert.is_true(math.abs(s.average_step_time * 25 - s.total_time) < 1e-9)
    local c = trainer:status().config
    assert.is_true(c.compile_enabled)
    assert.is_true(c.plans > 0)
    assert.is_false(c.mixed_precision)
    assert.matches('25 steps in 5 epochs', trainer:report())
    assert.matches('compile_enabled +true', trainer:report())
    assert.matches('names and numbers are expected', message(trainer.record, trainer, { a = 'b' }))
  end)

  it('says when accuracy falls (F161)', function()
    local lines = {}
    local _, trainer = fit { say = function(l) lines[#lines + 1] = l end }
    local net = trainer.model
    ridge.no_grad(function() for _, p in ipairs(net:parameters()) do p.tensor:mul_(-1) end end)
    trainer.history[1].accuracy = 0.99
    trainer:fit(ridge.data.Loader({ x, y }, { batch = 70, seed = 5 }), { epochs = 6,
      validate = ridge.data.Loader({ x, y }, { batch = 70 }) })
    assert.matches('%(0%.%d+ below epoch 1%)', lines[#lines - 1]) -- the memory's line is last
  end)

  it('names the first of the best epochs', function()
    local history, epoch = {}, require('ridge.train.log').epoch
    for i, accuracy in ipairs { 0.5, 0.9, 0.9, 0.7, 0.895 } do
      history[i] = { epoch = i, loss = 1, not_finite = 0, accuracy = accuracy, seconds = 2,
        rows_per_s = 30, peak_bytes = 2 ^ 21 }
    end
    assert.equal('epoch 4/9  loss 1.0000  accuracy 0.7000 (0.2000 below epoch 2)  2.0 s, '
      .. '30 rows/s, peak 2.0 MB', epoch(history[4], 9, history))
    assert.is_nil(epoch(history[5], 9, history):find('below', 1, true)) -- by less than 0.01
  end)

  it('keeps the loss of every step with the seconds', function()
    local _, trainer = fit({}, 16, 2)
    assert.are.equal(10, #trainer.curve)
    assert.is_true(trainer.curve[10].seconds > trainer.curve[1].seconds)
    assert.are.equal(10, trainer.curve[10].step)
  end)
end)

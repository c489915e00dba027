-- SPDX-License-Identifier: MIT
-- Training on a simulated device beside training on the CPU, step by step.
local ffi = require 'ffi'
local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local nn, optim = ridge.nn, ridge.optim
local folders = dofile 'tests/lua/store/folder.lua'
local simulated = dofile 'tests/lua/simulated.lua'

local GPU = 'sim:0'

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

local function silent() end

local function data(rows)
  local g = ridge.generator(3)
  local x = ridge.randn(rows or 32, 6, { generator = g })
  return x, x:argmax(2)
end

local function network(dropout)
  return nn.Sequential(nn.Linear(6, 16, { seed = 1, activation = 'gelu' }), nn.LayerNorm(16),
    nn.Dropout(dropout or 0), nn.Linear(16, 6, { seed = 2 }))
end

local function near(a, b, what, rtol, atol)
  assert.is_true(b:to('cpu'):allclose(a:to('cpu'), rtol or 1e-3, atol or 1e-5), what)
end

local function same(a, b, what, rtol, atol)
  local list = b:parameters()
  for i, p in ipairs(a:parameters()) do
    near(p.tensor, list[i].tensor, what .. ' ' .. p.name, rtol, atol)
  end
end

describe('training on a device', function()
  if not simulated.open() then
    return it('is nothing here', function() pending 'no nvcc: no simulated device was built' end)
  end

  local OPTIMIZERS = {
    { 'SGD', { lr = 0.1 } }, { 'SGD', { lr = 0.1, momentum = 0.9, nesterov = true } },
    { 'SGD', { lr = 0.1, momentum = 0.5, dampening = 0.1, weight_decay = 0.01 } },
    { 'Adam', { lr = 0.01, weight_decay = 0.01 } }, { 'AdamW', { lr = 0.01, amsgrad = true } },
    { 'Lion', { lr = 0.001, weight_decay = 0.1 } },
  }

  -- n steps with a rule; after each of them each(net, optimizer, loss).
  local function steps(device, make, n, each)
    local x, y = data()
    local net = network(0.1):train():to(device)
    x, y = x:to(device), y:to(device)
    local optimizer, rule = make(net)
    ridge.seed(9)
    for i = 1, n do
      optimizer:zero_grad()
      local loss = nn.cross_entropy(net(x), y)
      loss:backward()
      if rule then rule() else optimizer:step() end
      if each then each(i, net, loss) end
    end
    return net, optimizer
  end

  for _, case in ipairs(OPTIMIZERS) do
    local name, opts = case[1], case[2]
    it(('by %s gives what the CPU gives, step by step'):format(name), function()
      local function make(net) return optim[name](net, opts) end
      local losses = {}
      local here = steps('cpu', make, 8, function(i, _, loss) losses[i] = loss:item() end)
      local there, optimizer = steps(GPU, make, 8, function(i, _, loss)
        assert.equal(GPU, loss.device)
        assert.near(losses[i], loss:item(), 1e-3)
      end)
      same(here, there, name, 1e-2, 1e-4)
      assert.equal(8, optimizer:steps())
      for key, value in pairs(optimizer:state()) do
        assert.equal(key:match 'base' and 'cpu' or GPU, value.device, key)
      end
    end)
  end

  it('takes schedules, each way of clipping and each way with what is not finite', function()
    for _, kind in ipairs { 'norm', 'value', 'adaptive', 'layer_wise', 'percentile',
      'exponential' } do
      local function make(net)
        local o = optim.SGD(net, { lr = 0.1 })
        local clip, schedule = optim.Clip { kind = kind, max_norm = 0.2, max_value = 0.01,
          percentile_threshold = 80 }, optim.CosineLR(o, { steps = 6, warmup = 2 })
        return o, function()
          clip:apply(o)
          o:step()
          schedule:step()
        end
      end
      same(steps('cpu', make, 5), steps(GPU, make, 5), kind)
    end
    for _, kind in ipairs { 'detect', 'replace', 'skip', 'restore', 'gradient_zeroing', 'adaptive',
      'gradient_scaling' } do
      local function make(net)
        local o, i = optim.Adam(net, { lr = 0.01 }), 0
        local guard = optim.Guard { kind = kind }
        return o, function()
          i = i + 1
          if i == 3 then net.children[1].module.bias.grad[2] = kind == 'detect' and 5 or 1 / 0 end
          if guard:apply(o).step then o:step() end
        end
      end
      same(steps('cpu', make, 4), steps(GPU, make, 4), kind)
    end
  end)

  it('clips gradients of several devices together, in each way', function()
    for _, kind in ipairs { 'norm', 'value', 'adaptive', 'layer_wise', 'percentile',
      'exponential' } do
      local function run(device, other)
        local a = nn.Linear(6, 8, { seed = 1 }):to(device):train()
        local b = nn.Linear(8, 6, { seed = 2 }):to(other):train()
        local list = a:parameters()
        for _, p in ipairs(b:parameters()) do list[#list + 1] = p end
        local o = optim.SGD(list, { lr = 0.5 })
        local clip = optim.Clip { kind = kind, max_norm = 0.2, max_value = 0.01,
          adaptive_threshold = 0.1, adaptive_factor = 0.9, percentile_threshold = 80 }
        local x, y = data(8)
        local found
        for _ = 1, 4 do
          o:zero_grad()
          nn.cross_entropy(b(a(x:to(device)):to(other)), y:to(other)):backward()
          found = clip:apply(o)
          o:step()
        end
        return nn.Sequential(a, b), found
      end
      local one, wanted = run('cpu', 'cpu')
      for _, pair in ipairs { { GPU, 'sim:1' }, { 'sim:1', GPU }, { 'cpu', GPU } } do
        local two, found = run(pair[1], pair[2])
        same(one, two, kind)
        for _, name in ipairs { 'gradient_norm', 'clipped_norm', 'clipping_ratio' } do
          assert.near(wanted[name], found[name], 1e-4, kind .. name)
        end
      end
    end
  end)

  it('clips by a scale that stays on the device', function()
    local function make(net)
      local o = optim.SGD(net, { lr = 0.5 })
      return o, function()
        local scale, norm = o:clip(0.1)
        assert.equal(norm.device, scale.device)
        o:step { scale = scale }
      end
    end
    same(steps('cpu', make, 5), steps(GPU, make, 5), 'clip')
  end)

  it('steps parameters of several devices as one group', function()
    local function make(device, other)
      local a, b = nn.Linear(6, 8, { seed = 1 }):to(device), nn.Linear(8, 6, { seed = 2 }):to(other)
      a:train()
      b:train()
      local list = a:parameters()
      for _, p in ipairs(b:parameters()) do list[#list + 1] = p end
      local o = optim.AdamW(list, { lr = 0.01, amsgrad = true })
      local schedule = optim.StepLR and optim.StepLR(o, { every = 2, factor = 0.5 })
      local x, y = data(8)
      for _ = 1, 4 do
        o:zero_grad()
        nn.cross_entropy(b(a(x:to(device)):to(other)), y:to(other)):backward()
        o:step { scale = o:clip(0.5) }
        if schedule then schedule:step() end
      end
      return nn.Sequential(a, b), o
    end
    local one, o1 = make('cpu', 'cpu')
    for _, pair in ipairs { { GPU, 'cpu' }, { 'cpu', GPU }, { GPU, 'sim:1' } } do
      local two, o2 = make(pair[1], pair[2])
      same(one, two, pair[1])
      assert.near(o1:grad_norm():item(), o2:grad_norm():item(), 1e-5)
      assert.equal(4, o2:steps())
      local o3 = optim.AdamW(two:parameters(), { lr = 1, amsgrad = true })
      o3:load_state(o1:state()) -- a state finds its places, rate and count on each device
      o1:step()
      o3:step()
      same(one, two, pair[1] .. ' after a state')
      one, o1 = make('cpu', 'cpu')
    end
  end)

  -- -- Mixed precision ---------------------------------------------------------------------------

  it('under autocast in bf16 and f16 is near f32, with weights in f32 (F26, F27, F32)', function()
    local x, y = data()
    local plain = network():train()
    nn.cross_entropy(plain(x), y):backward()
    for _, dtype in ipairs { 'bf16', 'f16' } do
      local net = network():train():to(GPU)
      local out = ridge.autocast(dtype, net, x:to(GPU))
      assert.equal(dtype, out.dtype)
      nn.cross_entropy(out, y:to(GPU)):backward()
      for i, p in ipairs(net:parameters()) do
        assert.equal('f32', p.tensor.grad.dtype)
        near(plain:parameters()[i].tensor.grad, p.tensor.grad, dtype .. p.name, 0.1, 0.02)
      end
      local evaluated = ridge.no_grad(ridge.autocast, dtype, net:eval(), x:to(GPU))
      near(plain:eval()(x), evaluated:to 'f32', dtype, 0.05, 0.05)
      plain:train()
    end
  end)

  it('scales losses and decides there whether a step is taken (F28 to F30)', function()
    local function run(device, unscale)
      local a = ridge.ones(2, { device = device }):requires_grad_()
      local o = optim.SGD({ a }, { lr = 0.5 })
      local scaler = optim.GradScaler { scale = 8, interval = 2 }
      local seen = {}
      for i = 1, 7 do
        o:zero_grad()
        local loss = (a * ridge.tensor({ 3, i == 3 and 1 / 0 or 4 }, { device = device })):sum()
        scaler:scale(loss):backward()
        if i == 1 then
          assert.same({ 24, 32 }, a.grad:tolist())
        end
        if unscale then
          scaler:unscale(o)
          if i == 1 then assert.same({ 3, 4 }, a.grad:tolist()) end
          assert.matches('taken off already', failure(scaler.unscale, scaler, o))
        end
        scaler:step(o, { clip = (i == 2 or i == 3) and 1 or nil })
        seen[i] = { scaler.factor, scaler.good, scaler.skipped, o:steps(), unpack(a:tolist()) }
      end
      return seen
    end
    local wanted = run('cpu', false)
    assert.same({ 8, 1, 0, 1, -0.5, -1 }, wanted[1])
    assert.equal(16, wanted[2][1])
    assert.equal(8, wanted[3][1])      -- it fell
    assert.equal(1, wanted[3][3])
    assert.equal(2, wanted[3][4])      -- and the step was left out
    assert.same({ 16, 0, 1, 4 }, { unpack(wanted[5], 1, 4) })
    for _, unscale in ipairs { false, true } do
      for _, device in ipairs { 'cpu', GPU } do
        for i, row in ipairs(run(device, unscale)) do
          for k, value in ipairs(row) do
            assert.near(wanted[i][k], value, 1e-5, ('%s step %d, %d'):format(device, i, k))
          end
        end
      end
    end
  end)

  it('lets one scale serve two optimizers, which falls once for both', function()
    local a = ridge.ones(1, { device = GPU }):requires_grad_()
    local b = ridge.ones(1, { device = GPU }):requires_grad_()
    local first, second = optim.SGD({ a }, { lr = 1 }), optim.SGD({ b }, { lr = 1 })
    local scaler = optim.GradScaler { scale = 4 }
    scaler:scale((a * (1 / 0) + b * 2):sum()):backward()
    scaler:step(first, { update = false }):step(second, { update = false }):update()
    assert.same({ 1, -1 }, { a:item(), b:item() })
    assert.same({ 2, 1, 0 }, { scaler.factor, scaler.skipped, scaler.good })
    assert.matches('clip', failure(scaler.step, scaler, first, { clip = 0 }))
    assert.matches('is a number', failure(function() scaler.factor = 'x' end))
  end)

  -- -- Memory for time, and plans ----------------------------------------------------------------

  it('recomputes with the same random numbers', function()
    local function run(device, recomputes)
      local net = nn.Sequential()
      for i = 1, 4 do
        net:add(nn.Linear(6, 6, { seed = i })):add(nn.Dropout(0.3)):add(nn.Tanh())
      end
      net:train():to(device)
      if recomputes then net:recompute(3) end
      ridge.seed(4)
      local x = data(8)
      x = x:to(device):requires_grad_()
      net(x):square():sum():backward()
      return net, x.grad
    end
    local plain, dx = run 'cpu'
    for _, recomputes in ipairs { false, true } do
      local net, found = run(GPU, recomputes)
      near(dx, found, 'dx')
      for i, p in ipairs(net:parameters()) do
        near(plain:parameters()[i].tensor.grad, p.tensor.grad, p.name)
      end
    end
  end)

  it('replays a whole step as a plan, with and without random numbers', function()
    for _, dropout in ipairs { 0, 0.2 } do
      local function make(device)
        local x, y = data()
        local net = network(dropout):train():to(device)
        local o = optim.AdamW(net, { lr = 0.01 })
        local scaler = optim.GradScaler { scale = 128, interval = 5 }
        x, y = x:to(device), y:to(device)
        return net, o, function()
          o:zero_grad { set = true }
          local loss = nn.cross_entropy(net(x), y)
          scaler:scale(loss):backward()
          scaler:step(o, { clip = 1 })
          return loss
        end, scaler
      end
      ridge.seed(6)
      local eager, _, step, s1 = make(GPU)
      local loss
      for _ = 1, 52 do loss = step() end
      ridge.seed(6)
      local planned, o, again, s2 = make(GPU)
      again() -- the first one makes the gradients, which a plan then writes into
      local plan = ridge.capture(again)
      for _ = 1, 50 do plan:run() end
      assert.equal(52, o:steps())
      assert.equal(s1.factor, s2.factor)
      assert.equal(loss:item(), plan.results[1]:item())
      for i, p in ipairs(eager:parameters()) do
        assert.is_true(p.tensor:equal(planned:parameters()[i].tensor), dropout .. p.name)
      end
      ridge.seed(6)
      local here, _, stepped = make 'cpu'
      for _ = 1, 52 do stepped() end
      same(here, planned, 'beside the CPU', 0.05, 1e-2)
      plan:release()
    end
  end)

  -- -- The trainer -------------------------------------------------------------------------------

  local function trainer(device, opts)
    local net = network(0.1):to(device)
    local given = { optimizer = optim.AdamW(net, { lr = 0.01 }), say = silent }
    for key, value in pairs(opts or {}) do given[key] = value end
    if given.schedule then given.schedule = given.schedule(given.optimizer) end
    return ridge.Trainer(net, given), net
  end

  local function loaders()
    local x, y = data(90)
    return ridge.data.Loader({ x:narrow(1, 1, 70), y:narrow(1, 1, 70) }, { batch = 16, seed = 5 }),
      ridge.data.Loader({ x:narrow(1, 71, 20), y:narrow(1, 71, 20) }, { shuffle = false })
  end

  local function fit(device, opts, epochs)
    ridge.seed(11)
    local t, net = trainer(device, opts)
    local train, rest = loaders()
    return t:fit(train, { epochs = epochs or 3, validate = rest }), net, t
  end

  it('goes through the trainer: losses, accuracy, curve, with every switch', function()
    local function schedule(o) return optim.CosineLR(o, { steps = 20 }) end
    local last = {}
    for name, opts in pairs { plain = {}, clip = { clip = 1, schedule = schedule },
      accumulate = { accumulate = 2 }, compile = { compile = true },
      scaler = { scaler = true, clip = 1, compile = true },
      stability = { stability = { guard = { kind = 'skip' }, clip = { kind = 'norm' } } },
      bf16 = { autocast = 'bf16' } } do
      local function given()
        local o = {}
        for key, value in pairs(opts) do o[key] = value end
        if o.scaler then o.scaler = optim.GradScaler { scale = 64, interval = 4 } end
        return o
      end
      local wanted, net, one = fit('cpu', given())
      local found, other, two = fit(GPU, given())
      local rough = name == 'bf16' and 0.1 or 2e-3
      for i, row in ipairs(wanted) do
        assert.near(row.loss, found[i].loss, rough, name)
        assert.near(row.val_loss, found[i].val_loss, rough, name)
        assert.near(row.accuracy, found[i].accuracy, 0.101, name)
        assert.is_true(found[i].peak_bytes > 0)
      end
      assert.equal(#one.curve, #two.curve)
      for i, row in ipairs(one.curve) do assert.near(row.loss, two.curve[i].loss, 10 * rough) end
      same(net, other, name, 0.2, name == 'bf16' and 0.1 or 5e-3)
      if name == 'plain' or name == 'bf16' then last[name] = found[3].loss end
    end
    assert.is_true(last.plain ~= last.bf16) -- near, but not the same numbers
  end)

  it('counts labels that are not ignored, in every part of a step', function()
    local x, y = data(64)
    for i = 1, 64 do -- the more, the later; the last batch but one of a step of eight has none
      if i % 16 < i / 8 or i > 48 and i <= 56 then y[i] = 3 end
    end
    local function weights(device, batch, opts)
      local net = network(0):to(device)
      local o = optim.SGD(net, { lr = 0.5 })
      local given = { optimizer = o, say = silent, loss = nn.CrossEntropyLoss { ignore = 3 } }
      for key, value in pairs(opts) do given[key] = value end
      local loader = ridge.data.Loader({ x, y }, { batch = batch, shuffle = false })
      local t = ridge.Trainer(net, given)
      local history = t:fit(loader, { epochs = 3, validate = loader })
      return net, history[3], t.curve[#t.curve].loss
    end
    local big, row, last = weights('cpu', 64, {})
    for name, opts in pairs { plain = {}, compile = { compile = true }, clip = { clip = 1e9 },
      stability = { stability = {} } } do
      opts.accumulate = 8
      local net, found, at_last = weights(GPU, 8, opts)
      same(big, net, name, 1e-3, 1e-4)
      assert.near(row.loss, found.loss, 1e-4, name)
      assert.near(last, at_last, 1e-4, name)
      assert.near(row.val_loss, found.val_loss, 1e-4, name)
      assert.near(row.accuracy, found.accuracy, 1e-6, name)
    end
    -- a step where every label is ignored does not even move what has a momentum
    local net = network(0):to(GPU)
    local o = optim.AdamW(net, { lr = 0.1 })
    local t = ridge.Trainer(net, { optimizer = o, say = silent, accumulate = 2,
      loss = nn.CrossEntropyLoss { ignore = 3 } })
    local before = net.children[1].module.weight:tolist()
    assert.matches('the loss of batch 2 in epoch 1 is nan', failure(t.fit, t, ridge.data.Loader(
      { x:narrow(1, 1, 16), (y * 0 + 3):narrow(1, 1, 16) }, { batch = 8, shuffle = false }),
      { epochs = 1 }))
    assert.same(before, net.children[1].module.weight:tolist())
  end)

  it('stops at a loss that is nan before it reaches the parameters', function()
    for _, accumulate in ipairs { 1, 3 } do
      local t, net = trainer(GPU, { accumulate = accumulate })
      local x, y = data(64)
      x[{ 20, 1 }] = 0 / 0 -- in the second batch of 16
      local before = {}
      local seen = t.optimizer.step
      function t.optimizer:step(opts)
        seen(self, opts)
        before[#before + 1] = net.children[1].module.weight:tolist()
      end
      local loader = ridge.data.Loader({ x, y }, { batch = 16, shuffle = false })
      assert.matches('the loss of batch 2 in epoch 1 is nan', failure(t.fit, t, loader,
        { epochs = 1 }))
      local now = net.children[1].module.weight:to 'cpu'
      assert.equal(0, now:ne(now):to('f32'):sum():item())
      if accumulate == 1 then
        assert.equal(2, #before) -- the second one was asked for, and left out there
        assert.same(before[1], before[2])
      end
    end
  end)

  it('works a batch off in parts when memory does not suffice', function()
    local function run(device, limit)
      local net = nn.Sequential(nn.Linear(6, 400, { seed = 1 }), nn.Tanh(), nn.Linear(400, 6,
        { seed = 2 })):to(device)
      local said = {}
      local t = ridge.Trainer(net, { optimizer = optim.SGD(net, { lr = 0.1 }), split = true,
        say = function(line) said[#said + 1] = line end })
      local x, y = data(256)
      if limit then
        ridge.memory.trim(device)
        ridge.memory.set_limit(ridge.memory.stats(device).live + 1.2e6, device)
      end
      local ok, err = pcall(t.fit, t, ridge.data.Loader({ x, y }, { batch = 256, shuffle = false }),
        { epochs = 2 })
      if limit then ridge.memory.set_limit(0, device) end
      assert.is_true(ok, tostring(err))
      return net, table.concat(said, '\n')
    end
    local net, said = run(GPU, true)
    assert.matches('out of memory: batches are worked off in %d parts', said)
    same(run 'cpu', net, 'in parts')
  end)

  it('goes on after a break, here or there, with the same numbers', function()
    for _, pair in ipairs { { GPU, 'cpu' }, { 'cpu', GPU }, { GPU, GPU } } do
      local folder = folders.new()
      local whole = fit(pair[2], {}, 4)
      fit(pair[1], { folder = folder }, 2)
      ridge.seed(99) -- the checkpoint says where the stream was
      local t, net = trainer(pair[2], { folder = folder })
      local train, rest = loaders()
      assert.is_true(t:resume(train))
      local history = t:fit(train, { epochs = 4, validate = rest })
      assert.near(whole[4].loss, history[4].loss, 2e-3)
      assert.near(whole[4].val_loss, history[4].val_loss, 2e-3)
      local _, end_net = fit(pair[2], {}, 4)
      same(end_net, net, pair[1] .. ' to ' .. pair[2], 0.05, 5e-3)
      assert.equal(pair[2], net:parameters()[1].tensor.device)
      folders.remove(folder)
    end
  end)

  it('writes tensors of a device into files, and reads files into them', function()
    local path = os.tmpname()
    for _, dtype in ipairs { 'f64', 'f32', 'f16', 'bf16', 'i64', 'i32', 'i8', 'u8', 'bool',
      'f8e4m3', 'f8e5m2' } do
      local x = ridge.tensor({ { 1, 0, 3 }, { 4, 5, 0 } }, { dtype = dtype })
      ridge.save(path, { x = x:to(GPU):t() })
      assert.is_true(ridge.load(path).x:equal(x:t()), dtype)
    end
    local one, two = network():to(GPU), nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16),
      nn.Dropout(0), nn.Linear(16, 6)):to 'sim:1'
    ridge.save(path, one:state())
    two:load_state(ridge.load(path))
    same(one, two, 'from a file', 0, 0)
    os.remove(path)
  end)

  it('keeps a scale over a break', function()
    local folder = folders.new()
    local function opts() return { folder = folder, scaler = optim.GradScaler { scale = 64,
      interval = 3 } } end
    local _, _, one = fit(GPU, opts(), 2)
    local two = trainer('cpu', opts())
    two:resume()
    assert.equal(one.options.scaler.factor, two.options.scaler.factor)
    assert.equal(one.options.scaler.good, two.options.scaler.good)
    folders.remove(folder)
  end)

  it('switches levels by what the device can', function()
    local function said(device)
      local lines = {}
      ridge.level(nn.Sequential(nn.Linear(2, 2), nn.MultiHeadAttention(2, { kind = 'matrix' }))
        :to(device), 'ultra', nil, function(line) lines[#lines + 1] = line end)
      return table.concat(lines, '\n')
    end
    assert.matches('amp +on', said(GPU))
    assert.matches('1 layers of attention go by tiles', said(GPU))
    local heads = nn.MultiHeadAttention(2, { kind = 'matrix' })
    local function kernels()
      return table.concat(ridge.capture(heads, ridge.ones(1, 3, 2)):facts().steps, ' ')
    end
    assert.matches('softmax', kernels())
    ridge.level(heads, 'ultra', nil, silent)
    assert.matches('attention', kernels())
  end)

  it('goes over several devices in the trainer', function()
    local x, y = data(70)
    local said = {}
    local function run(wrap, compile)
      local net = wrap(network())
      local t = ridge.Trainer(net, { optimizer = optim.AdamW(net, { lr = 0.01 }),
        compile = compile, say = function(line) said[#said + 1] = line end })
      return t:fit(ridge.data.Loader({ x, y }, { batch = 16, seed = 5 }), { epochs = 3 }), net
    end
    local one, a = run(function(net) return net end)
    local two, b = run(function(net)
      return nn.DataParallel(net, { devices = { GPU, 'sim:1', 'cpu' } })
    end, true)
    assert.matches('it goes on without: to: a plan stays on one device', table.concat(said, '\n'))
    for i, row in ipairs(one) do assert.near(row.loss, two[i].loss, 1e-3) end
    same(a, b, 'data parallel', 0.05, 2e-3)
  end)

  it('goes on any stream, and from one to another', function()
    local wanted, net = fit(GPU, { clip = 1 }, 2)
    local before = ffi.new 'int32_t[1]'
    for _, streams in ipairs { { 3, 3 }, { 2, 5 } } do
      ridge.seed(11)
      assert.equal(0, C.rg_stream_enter(1, streams[1], before))
      local t, other = trainer(GPU, { clip = 1 })
      local train, rest = loaders()
      t:fit(train, { epochs = 1, validate = rest })
      assert.equal(0, C.rg_stream_enter(1, streams[2], nil))
      local found = t:fit(train, { epochs = 2, validate = rest })
      assert.equal(0, C.rg_stream_enter(1, before[0], nil))
      assert.equal(wanted[2].loss, found[2].loss)
      same(net, other, 'streams', 0, 0)
    end
  end)

  it('refuses an optimizer that was made before the model was moved', function()
    local net = nn.Linear(2, 2)
    local o = optim.SGD(net)
    net:to(GPU)
    assert.matches('make it behind the moves', failure(ridge.Trainer, net, { optimizer = o }))
  end)

  it('leaves nothing behind', function()
    local function live()
      for _ = 1, 4 do ridge.memory.trim(GPU) end -- layers and their tensors die one after the other
      return ridge.memory.stats(GPU).live
    end
    -- what earlier tests left, and a compiled trace keeps of it, may die meanwhile and hide a leak:
    -- twice the same is without it, and where there is less afterwards than before, once more
    local last, before, after, calls
    for _ = 1, 9 do
      ridge.scope(function() fit(GPU, { clip = 1 }, 1) end)
      last, before, calls = before, live(), ridge.grad_stats().calls
      if last == before then
        for _ = 1, 3 do fit(GPU, { clip = 1 }, 1) end
        after = live()
        if after >= before then break end
      end
    end
    assert.same({ before, calls }, { after, ridge.grad_stats().calls })
  end)
end)

-- SPDX-License-Identifier: MIT
-- What the options of a trainer make: levels and profiles as they are given, rates, batches of a
-- step; and what is looked at while debugging.
local ridge = require 'ridge'
local canonical = require 'ridge.store.canonical'
local folders = dofile 'tests/lua/store/folder.lua'
local nn, optim = ridge.nn, ridge.optim

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

local function silent() end

local function dense(seed)
  return nn.Sequential(nn.Linear(6, 8, { seed = seed or 1 }), nn.ReLU(),
    nn.Linear(8, 6, { seed = 2 }))
end

local function data(rows)
  local x = ridge.randn(rows, 6, { generator = ridge.generator(3) })
  return x, x:argmax(2)
end

local function made(opts, net)
  local lines = {}
  local list = { say = function(l) lines[#lines + 1] = l end }
  for key, value in pairs(opts) do list[key] = value end
  net = net or dense()
  if not list.lr and not list.optimizer then list.optimizer = optim.SGD(net, { lr = 0.1 }) end
  return ridge.Trainer(net, list), lines, net
end

describe('a trainer of nothing', function()
  it('says so, with a code', function()
    for _, given in ipairs { { nn.ReLU(), { lr = 0.1 }, 'the model has no parameters to train' },
      { dense(), {}, 'option optimizer is missing' } } do
      local ok, e = pcall(ridge.Trainer, given[1], given[2])
      assert.is_false(ok)
      assert.equal('EARG', e.code)
      assert.matches('Trainer: ' .. given[3], e.message, 1, true)
    end
  end)
end)

describe('a level in a trainer', function()
  it('gives way to what the user says, and tells what is in force (F212, F213)', function()
    local t, lines = made { level = 'advanced', compile = false }
    assert.is_false(t:status().config.compile_enabled)
    assert.matches('compile +off  not switched: so it was given', table.concat(lines, '\n'))
    t, lines = made { level = 'ultra', accumulate = 2, workers = 0, autocast = 'f16' }
    assert.are.equal(2, t:status().config.accumulate)
    assert.are.equal('f16', t:status().config.mixed_precision)
    local text = table.concat(lines, '\n')
    assert.matches('accumulate +on   2 batches make one step', text)
    assert.matches('amp +on   products in f16, as given', text)
    assert.matches('compile +on ', text)
    t = made { level = 'ultra' }
    assert.are.equal(8, t:status().config.accumulate)
    assert.is_true(t:status().config.compile_enabled)
    t, lines = made { level = 'advanced', amp = false }
    assert.is_false(t:status().config.mixed_precision)
    assert.matches('amp +off  not switched: so it was given', table.concat(lines, '\n'))
    -- without a level nothing is switched, and nothing said
    t, lines = made {}
    assert.same({ false, false, 0 }, { t:status().config.compile_enabled,
      t:status().config.mixed_precision, #lines })
  end)

  it('is advanced where none is named (F212)', function()
    local names = {}
    local out, report = ridge.level(dense(), nil, nil, silent)
    for _, r in ipairs(report) do names[#names + 1] = r.name end
    assert.same({ 'amp', 'compile', 'recompute', 'memory_format' }, names)
    assert.is_true(out.compile)
    assert.matches('settings are a table', message(ridge.level, dense(), 'basic', 3))
  end)

  -- Bytes that the backward pass keeps, beside what level says.
  it('says of blocks that they keep their input alone only where they do', function()
    local function kept(net)
      net:train()
      local x = ridge.randn(32, 8, { generator = ridge.generator(1) })
      ridge.memory.trim()
      local before = ridge.memory.stats().live
      local y = net(x)
      ridge.memory.trim() -- what lives is kept
      local bytes = ridge.memory.stats().live - before
      y:sum():backward()
      return bytes
    end
    local function chain(make)
      local net = nn.Sequential()
      for i = 1, 8 do net:add(make(i)) end
      return net
    end
    local function two(i)
      return nn.Sequential(nn.Linear(8, 64, { seed = i }), nn.GELU(), nn.Linear(64, 8))
    end
    local cases = {
      sequential = chain(two),
      residual = chain(function(i) return nn.Residual(two(i)) end),
      -- a chain in a chain: the blocks are those inside
      nested = nn.Sequential(nn.Linear(8, 8), chain(two), nn.Linear(8, 8)),
    }
    for name, net in pairs(cases) do
      local plain = kept(net)
      local _, report = ridge.level(net, 'custom', { recompute = true }, silent)
      assert.same({ true, '8 blocks keep their input alone' }, { report[1].on, report[1].text })
      local bytes = kept(net)
      -- 32 rows of 8 numbers for each block and the result, and what surrounds them
      assert.is_true(bytes <= 14 * 32 * 8 * 4, ('%s: %d of %d bytes'):format(name, bytes, plain))
      assert.is_true(bytes < 0.2 * plain, ('%s: %d of %d bytes'):format(name, bytes, plain))
    end
    local _, report = ridge.level(nn.Sequential(two(1)), 'custom', { recompute = true }, silent)
    assert.is_false(report[1].on) -- one block behind none
  end)

  it('says what it cannot switch', function()
    local net = dense():to 'f64'
    local _, report = ridge.level(net, 'custom', { amp = true }, silent)
    assert.is_false(report[1].on)
    local features = nn.MultiHeadAttention(8, { heads = 2, kind = 'features' })
    _, report = ridge.level(features, 'custom', { flash_attention = true }, silent)
    assert.same({ false, 'the attention of the model goes by random features' },
      { report[1].on, report[1].text })
    local x, y = data(40)
    local t, lines = made { level = 'custom', workers = 3 }
    t:fit(ridge.data.Loader({ x, y }, { batch = 8, workers = 2 }), { epochs = 2 })
    local n = 0
    for _, line in ipairs(lines) do
      if line == '2 threads load data, as the loader has them, not 3' then n = n + 1 end
    end
    assert.are.equal(1, n)
  end)
end)

describe('a profile', function()
  -- F217 to F219, as document 000 has them.
  local PROFILES = {
    fast_training = { lr = 0.001, meta_learning_rate = 0.0001, amp = true, compile = true, clip = 1,
      batch = 256, device = 'auto' },
    memory_constrained = { lr = 0.001, amp = false, compile = false, recompute = true, width = 64,
      layers = 2, device = 'cpu', infer = 'i8' },
    high_throughput = { lr = 0.001, amp = true, compile = true, batch = 1024, workers = 8,
      shuffle = false, device = 'auto' },
  }

  for name, wanted in pairs(PROFILES) do
    it('is taken whole by a trainer: ' .. name, function()
      assert.same(wanted, ridge.profiles(name))
      local x, y = data(1100)
      local net = nn.Sequential(nn.Sequential(nn.Linear(6, 64, { seed = 1 }), nn.ReLU()),
        nn.Sequential(nn.Linear(64, 6, { seed = 2 }), nn.ReLU()))
      local opts, lines = ridge.profiles(name), {}
      opts.say = function(l) lines[#lines + 1] = l end
      local t = ridge.Trainer(net, opts)
      local c = t:status().config
      assert.are.equal(net, t.model)
      assert.matches('^optim%.Adam%(lr 0%.001,', tostring(t.optimizer))
      assert.are.equal(wanted.compile, c.compile_enabled)
      assert.are.equal(wanted.clip or false, c.clip)
      assert.are.equal(wanted.recompute or false, net.children[1].module.segments == 1)
      t:fit({ x, y }, { epochs = 2 })
      assert.are.equal(wanted.batch or 64, t:status().config.mini_batch_size)
      local text = table.concat(lines, '\n')
      assert.are.equal(wanted.amp, text:match 'amp +on' ~= nil or text:match 'amp +off' ~= nil)
      assert.are.equal(wanted.width ~= nil, text:match 'width and layers are of the model' ~= nil)
      assert.are.equal(wanted.meta_learning_rate ~= nil,
        text:match 'meta_learning_rate 0.0001 is the rate of no parameter' ~= nil)
      assert.are.equal(wanted.workers or 0, t.made.pool and t.made.pool.workers or 0)
      assert.are.equal(wanted.shuffle == nil, t.made.generator ~= nil)
    end)
  end

  it('infers in 8 bits where memory is short (F218)', function()
    local function kinds(net)
      local list = {}
      for i, row in ipairs(ridge.quant.report(net).layers) do list[i] = row.kind end
      return table.concat(list, ' ')
    end
    local x, y = data(64)
    local opts = ridge.profiles 'memory_constrained'
    opts.say = function() end
    local net = nn.Sequential(nn.Sequential(nn.Linear(6, 64, { seed = 1 }), nn.ReLU()),
      nn.Sequential(nn.Linear(64, 6, { seed = 2 }), nn.ReLU()))
    local t = ridge.Trainer(net, opts)
    t:fit({ x, y }, { epochs = 1 })
    local before = net(x):tolist()
    for _, q in ipairs { t:inference(), t:inference(ridge.data.Loader({ x }, { batch = 16 })) } do
      assert.equal('i8 i8', kinds(q))
      assert.is_false(q.training)
      assert.is_true((ridge.inference(q, x) - ridge.inference(net, x)):abs():max():item() < 0.05)
    end
    assert.is_true(net.training)
    assert.same(before, net(x):tolist())
    opts.infer = nil
    local plain = ridge.Trainer(net, opts):inference()
    assert.same(ridge.inference(net, x):tolist(), ridge.inference(plain, x):tolist())
    assert.is_nil(plain._quant)
    assert.is_false(plain.training)
    assert.matches('infer is .i4.*one of i8', message(ridge.Trainer, net, { infer = 'i4' }))
    assert.matches('Trainer:inference: ', message(t.inference, t, 3))
  end)

  it('has a rate of its own for the parameters that meta names (F118)', function()
    local x, y = data(8)
    local t, _, net = made { lr = 0.5, meta_learning_rate = 0.25, meta = '^1%.', batch = 8 }
    assert.are.equal(0.5, t.optimizer.groups[1].options.lr)
    assert.are.equal(0.25, t.optimizer.groups[2].options.lr)
    assert.same({ '3.weight', '3.bias' }, t.optimizer.groups[1].names)
    assert.same({ '1.weight', '1.bias' }, t.optimizer.groups[2].names)
    local first, last = net.children[1].module.bias:tolist(), net.children[3].module.bias:tolist()
    t:fit({ x, y }, { epochs = 1 })
    -- the first step of Adam is of the size of the rate, where a gradient is not 0
    local moved = 0
    for i, v in ipairs(net.children[3].module.bias:tolist()) do
      assert.near(0.5, math.abs(v - last[i]), 1e-3)
    end
    for i, v in ipairs(net.children[1].module.bias:tolist()) do
      if v ~= first[i] then
        moved = moved + 1
        assert.near(0.25, math.abs(v - first[i]), 1e-3)
      end
    end
    assert.is_true(moved > 0)
    assert.matches('meta names no parameter', message(made, { lr = 1, meta = 'zork' }))
    local frozen = dense()
    frozen.children[1].module:freeze()
    assert.matches('meta names no parameter', message(made, { lr = 1, meta = '^1%.' }, frozen))
    assert.are.equal(1, #made({ lr = 1, meta = '^3%.' }, frozen).optimizer.groups)
    assert.matches('meta is no pattern', message(made, { lr = 1, meta = '%' }))
    local own = dense()
    assert.matches('meta is for the optimizer', message(made, { optimizer = optim.SGD(own),
      meta = '1' }, own))
    assert.matches('lr is 0.5, and that of the optimizer is 0.25', message(made, { lr = 0.5,
      optimizer = optim.SGD(own, { lr = 0.25 }) }, own))
    assert.is_not_nil(made({ lr = 0.25, optimizer = optim.SGD(own, { lr = 0.25 }) }, own))
    assert.matches('option optimizer is missing', message(ridge.Trainer, own, {}))
    assert.matches('an optimizer of ridge.optim', message(ridge.Trainer, own, { optimizer = {} }))
  end)
end)

describe('rows that make a step (F110)', function()
  it('are as many batches as they need', function()
    local x, y = data(64)
    local t = made { effective_batch_size = 32, mini_batch_size = 8 }
    t:fit(ridge.data.Loader({ x, y }, { batch = 8 }), { epochs = 1 })
    assert.are.equal(2, t.optimizer:steps())
    local c = t:status().config
    assert.same({ 4, 8, 32 }, { c.accumulate, c.mini_batch_size, c.effective_batch_size })
    -- the rows of a batch are those of the loader, where they are not said
    t = made { effective_batch_size = 32, level = 'ultra', workers = 0 }
    t:fit(ridge.data.Loader({ x, y }, { batch = 16 }), { epochs = 1 })
    assert.are.equal(2, t.optimizer:steps())
    -- and tensors are cut into them
    t = made { effective_batch_size = 64, mini_batch_size = 4 }
    t:fit({ x, y }, { epochs = 2 })
    assert.same({ 2, 16 }, { t.optimizer:steps(), t:status().config.accumulate })
    assert.are.equal(4, t.made.batch)
  end)

  it('are what a line is said of, also for sketched models (F88)', function()
    local x, y = data(240)
    local net = nn.Sequential(nn.SKLinear(6, 32, { num_terms = 1, low_rank = 2, seed = 1 }),
      nn.ReLU(), nn.Linear(32, 6, { seed = 2 }))
    local t, lines = made({ lr = 0.001, autocast = 'bf16', batch = 2 }, net)
    local history = t:fit({ x, y }, { epochs = 5 })
    assert.are.equal(5 * 4, #lines)
    assert.matches('^epoch 5/5  batch 50/120  loss %d%.%d%d%d%d  %d+%.%d s$', lines[17])
    assert.matches('^epoch 5/5  batch 100/120  loss %d%.%d%d%d%d  %d+%.%d s$', lines[18])
    assert.matches('^epoch 5/5  loss %d%.%d%d%d%d  %d+%.%d s, ', lines[19])
    assert.matches('^allocated %d+%.%d%d GB', lines[20])
    assert.is_true(history[5].loss < history[1].loss)
    assert.are.equal(0.001, t.optimizer:lr())
  end)

  it('say what does not go together', function()
    local x, y = data(64)
    assert.matches('no multiple of the 24 rows', message(made, { effective_batch_size = 64,
      mini_batch_size = 24 }))
    assert.matches('and so does accumulate', message(made, { effective_batch_size = 64,
      mini_batch_size = 32, accumulate = 2 }))
    local t = made { mini_batch_size = 8 }
    assert.matches("mini_batch_size is 8, and the loader's batches have 16", message(t.fit, t,
      ridge.data.Loader({ x, y }, { batch = 16 }), { epochs = 1 }))
    t = made { effective_batch_size = 24 }
    assert.matches('no multiple of the 16 rows', message(t.fit, t,
      ridge.data.Loader({ x, y }, { batch = 16 }), { epochs = 1 }))
    local lines
    t, lines = made { batch = 8 }
    t:fit(ridge.data.Loader({ x, y }, { batch = 16 }), { epochs = 1 })
    assert.are.equal('batches of 16 rows, as the loader has them, not 8', lines[1])
    local source = ridge.data.Loader({ x, y }, { batch = 16 })
    t = made { effective_batch_size = 32 }
    assert.matches('wants to know the rows of a batch', message(t.fit, t,
      { each = function() return source:each() end }, { epochs = 1 }))
  end)
end)

describe('ridge.optimize_training (F117)', function()
  it('gives a trainer of that very net, and says what it switched', function()
    local x, y = data(64)
    local net = dense()
    local o = optim.Adam(net, { lr = 0.01 })
    local loader = ridge.data.Loader({ x, y }, { batch = 16, seed = 1 })
    local before = net.children[1].module.weight:detach():clone()
    local t, summary = ridge.optimize_training(net, loader, o, nn.cross_entropy, { say = silent })
    assert.are.equal(net, t.model)
    assert.are.equal(o, t.optimizer)
    assert.are.equal('advanced', summary.level)
    local switched = {}
    for _, s in ipairs(summary.switched) do switched[s.name] = s.on end
    assert.same({ true, false, false }, { switched.compile, switched.recompute,
      switched.memory_format })
    assert.is_true(summary.config.compile_enabled)
    local history = t:fit(loader, { epochs = 20 })
    assert.is_true(history[20].loss < history[1].loss)
    assert.is_false(before:equal(net.children[1].module.weight)) -- the user's own net has learnt
    assert.is_true(t:status().config.plans > 0)
    t, summary = ridge.optimize_training(net, loader, o, nil, { level = 'ultra', say = silent })
    assert.same({ 'ultra', 8, 128 }, { summary.level, summary.config.accumulate,
      summary.config.effective_batch_size })
    assert.are.equal(8, loader.pool.workers)
    assert.are.equal('ultra', t.options.level)
    assert.matches('a loader is expected', message(ridge.optimize_training, net, 3, o))
    assert.matches('options are a table', message(ridge.optimize_training, net, loader, o, nil, 3))
    assert.matches('option optimizer is 3', message(ridge.optimize_training, net, loader, 3))
  end)
end)

describe('debugging (F114)', function()
  local folder

  before_each(function() folder = folders.new() end)
  after_each(function() folders.remove(folder) end)

  local function fit(debug, opts, net)
    local x, y = data(64)
    local list = { debug = debug, log_every = 0 }
    for key, value in pairs(opts or {}) do list[key] = value end
    local t, lines
    t, lines, net = made(list, net)
    t:fit(ridge.data.Loader({ x, y }, { batch = 8, seed = 1 }), { epochs = 2 })
    return t, lines, net
  end

  local function read(path)
    local file = assert(io.open(path))
    local text = file:read '*a'
    file:close()
    return canonical.decode(text)
  end

  it('finds gradients as finite differences have them, and changes nothing', function()
    ridge.seed(5)
    local net = nn.Sequential(nn.Linear(6, 8, { seed = 1 }), nn.BatchNorm(8), nn.Dropout(0.2),
      nn.Tanh(), nn.Linear(8, 6, { seed = 2 }))
    local t, lines = fit({ grad_check = true }, {}, net)
    assert.are.equal(6, #t.debug.checks)
    for _, c in ipairs(t.debug.checks) do
      assert.is_true(c.gradient > 1e-5 and math.abs(c.difference / c.gradient - 1) < 0.05
        or c.gradient < 1e-5, ('%s: %g, %g'):format(c.name, c.gradient, c.difference))
    end
    assert.matches('gradient of 1.weight: norm 0%.%d+, by differences 0%.%d+', lines[1])
    ridge.seed(5)
    local plain = nn.Sequential(nn.Linear(6, 8, { seed = 1 }), nn.BatchNorm(8), nn.Dropout(0.2),
      nn.Tanh(), nn.Linear(8, 6, { seed = 2 }))
    fit(nil, {}, plain)
    for name, p in pairs(plain:state()) do assert.is_true(p:equal(net:state()[name]), name) end
    -- large weights are moved far enough to show in f32: a thousandth of their norm
    local layer = nn.Linear(6, 6, { bias = false, seed = 1 })
    ridge.no_grad(function() layer.weight:mul_(1e6) end)
    local large = fit({ grad_check = true, max_iterations = 1 }, { lr = 1e-9,
      loss = function(out) return (out * 1e-6):square():mean() end }, nn.Sequential(layer))
    local found = large.debug.checks[1]
    assert.is_true(math.abs(found.difference / found.gradient - 1) < 0.05,
      ('%g, %g'):format(found.gradient, found.difference))
    -- a gradient that is wrong shows
    local wrong = ridge.Function { forward = function(_, v) return v:square() end,
      backward = function(_, dy) return dy end }
    net = dense()
    t = fit({ grad_check = true, max_iterations = 1 }, { loss = function(out, labels)
      return nn.cross_entropy(wrong(out), labels)
    end }, net)
    local far = 0
    for _, c in ipairs(t.debug.checks) do
      if math.abs(c.difference / c.gradient - 1) > 0.2 then far = far + 1 end
    end
    assert.is_true(far > 0)
  end)

  it('names the operation that made a nan, and writes that down', function()
    local net = dense()
    local err = message(fit, { anomaly = true, output_dir = folder .. '/found' }, {
      loss = function(out, labels) return nn.cross_entropy((out - 100):log(), labels) end }, net)
    assert.matches('log', err)
    assert.matches('setup_spec.lua:%d+', err)
    assert.matches('log', read(folder .. '/found/debug.json').failed)
  end)

  it('keeps bytes of each step, profiles a batch, and ends', function()
    local t, lines = fit({ memory = true, profile = true, synchronize = true, level = 'debug',
      memory_fraction = 0.75, max_iterations = 11, output_dir = folder }, { compile = true })
    local found = read(folder .. '/debug.json')
    assert.are.equal(11, found.batches)
    assert.are.equal(11, #found.memory) -- the step of the last batch as well
    assert.is_true(t.curve[3].live_bytes > 0 and t.curve[3].peak_bytes >= t.curve[3].live_bytes)
    assert.is_nil(t.curve[12].live_bytes)
    assert.is_true(#found.operations > 2 and found.operations[1].ms >= found.operations[2].ms)
    local text = table.concat(lines, '\n')
    assert.matches('debugging has ended after 11 batches', text)
    assert.matches('step 11  %d+%.%d+ s  loss %d', text)
    assert.is_nil(text:match 'step 12 ')
    assert.are.equal(0, ridge.memory.stats().limit)
    assert.is_true(t:status().config.plans > 0) -- plans begin behind it
    t = fit { timeout = 0 }
    assert.are.equal(1, t.debug.batches)
  end)

  it('profiles the second batch: the first one makes what stays', function()
    local profile = require 'ridge.profile'
    local real, done, at = profile.profile, 0, {}
    profile.profile = function(...)
      at[#at + 1] = done
      return real(...)
    end
    local ok, err = pcall(fit, { profile = true }, { loss = function(out, labels)
      done = done + 1
      return nn.cross_entropy(out, labels)
    end })
    profile.profile = real
    assert.is_true(ok, tostring(err))
    assert.same({ 1 }, at)
  end)

  it('writes what it found when the training is done before it ends', function()
    local calls = 0
    fit({ memory = true, grad_check = true, output_dir = folder }, { stability = {},
      loss = function(out, labels)
        calls = calls + 1
        local loss = nn.cross_entropy(out, labels)
        return calls == 3 and loss / 0 or loss -- a difference that is infinite
      end })
    local found = read(folder .. '/debug.json')
    assert.same({ 16, 16 }, { found.batches, #found.memory })
    local missing = 0
    for _, c in ipairs(found.checks) do
      missing = missing + (type(c.difference) == 'number' and 0 or 1)
    end
    assert.same({ 4, 1 }, { #found.checks, missing })
  end)

  it('limits each batch, also one that is worked off in parts', function()
    local x, y = data(4096)
    local t, lines = made { split = true, debug = { memory_fraction = 1 }, log_every = 0 }
    local all, set, lifted = nil, ridge.memory.set_limit, {}
    ridge.memory.set_limit = function(bytes) -- as if there were so much memory and no more
      all = all or bytes
      if bytes ~= all then lifted[#lifted + 1] = bytes end
      return set(bytes == all and ridge.memory.stats().live + 200000 or bytes)
    end
    local ok, err = pcall(t.fit, t, ridge.data.Loader({ x, y }, { batch = 4096 }), { epochs = 2 })
    ridge.memory.set_limit = set
    set(0)
    assert.is_true(ok, tostring(err))
    assert.matches('out of memory: batches are worked off in', table.concat(lines, '\n'))
    assert.is_true(#lifted > 4)
    for _, bytes in ipairs(lifted) do assert.are.equal(0, bytes) end
  end)

  it('lets no more memory be taken than its share, while it lasts', function()
    local net = dense()
    local err = message(fit, { memory_fraction = 1e-9 }, {}, net)
    assert.matches('memory', err)
    assert.are.equal(0, ridge.memory.stats().limit)
    assert.matches('option memory_fraction is 2', message(fit, { memory_fraction = 2 }))
    assert.matches("unknown option 'zork'", message(fit, { zork = true }))
  end)
end)

describe('what a user records', function()
  local folder
  before_each(function() folder = folders.new() end)
  after_each(function() folders.remove(folder) end)

  it('has its folder before any work, also where that went in between', function()
    local x, y = data(20)
    local loader = ridge.data.Loader({ x, y }, { batch = 5 })
    local path = folder .. '/runs/one'
    local t = made { folder = path }
    os.rename(folder .. '/runs', folder .. '/a')
    t:fit(loader, { epochs = 1 })
    assert.is_true(t:resume())
    os.rename(folder .. '/runs', folder .. '/b')
    io.open(folder .. '/runs', 'w'):close()
    assert.matches('cannot make the folder .*/runs/one: Not a directory',
      message(t.fit, t, loader, { epochs = 2 }))
    assert.equal(1, t.epoch) -- nothing was trained
  end)

  it('stands at the steps taken so far, those before a break included', function()
    local x, y = data(20)
    local function trained(epochs)
      local t = made { folder = folder }
      t:resume()
      t:fit(ridge.data.Loader({ x, y }, { batch = 5, seed = 1 }), { epochs = epochs })
      return t
    end
    assert.equal(0, made({}):record({ custom = 1 }).metrics[1].step)
    assert.equal(8, trained(2):record({ custom = 1 }).metrics[1].step)
    local t = made { folder = folder }
    assert.is_true(t:resume())
    assert.equal(8, t:record({ custom = 1 }).metrics[1].step)
    t = trained(3):record { custom = 2 }
    assert.equal(12, t.metrics[1].step)
    assert.equal(7, t:record({ custom = 3 }, 7).metrics[2].step)
    for _, at in ipairs { 'x', 0 / 0, math.huge } do
      assert.matches('the step is a number', message(t.record, t, { custom = 1 }, at))
    end
    for _, name in ipairs { 'step', 'seconds' } do
      assert.matches(name .. ' is what each row has', message(t.record, t, { [name] = 1 }))
    end
    assert.equal(2, #t.metrics)
  end)
end)

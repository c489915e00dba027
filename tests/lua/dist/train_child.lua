-- SPDX-License-Identifier: MIT
--- Trainers on ranks: train_child.lua WHAT [FOLDER].

local ridge = require 'ridge'
local nn, dist = ridge.nn, ridge.dist
local worlds = require 'ridge.world'

local what, folder = arg[1], arg[2]
local world = dist.init { timeout = 120 }
local rank, size = world.rank, world.size
local BATCH = 12 -- rows of all ranks: of 1, 2, 3 and 4 of them

local function say(...) print(table.concat({ ... }, ' ')) end

-- -- Nets and data --------------------------------------------------------------------------------

local NETS = {}

function NETS.mlp()
  return nn.Sequential(nn.Linear(20, 16, { seed = 1 }), nn.ReLU(), nn.Linear(16, 5, { seed = 3 })),
    { 20 }
end

function NETS.lenet()
  return nn.Sequential(nn.Conv2d(1, 4, 3, { seed = 1 }), nn.BatchNorm(4), nn.ReLU(),
    nn.MaxPool2d(2), nn.Conv2d(4, 6, 3, { seed = 2 }), nn.BatchNorm(6), nn.ReLU(), nn.Flatten(),
    nn.Linear(24, 5, { seed = 3 })), { 1, 10, 10 }
end

function NETS.block()
  local Block = nn.class 'Block'
  function Block:init()
    self.norm = self:child('norm', nn.LayerNorm(8))
    self.attention = self:child('attention', nn.MultiHeadAttention(8, { heads = 2, seed = 1 }))
    self.up = self:child('up', nn.Linear(8, 16, { seed = 2 }))
    self.down = self:child('down', nn.Linear(16, 8, { seed = 3 }))
    self.head = self:child('head', nn.Linear(8, 5, { seed = 4 }))
  end
  function Block:forward(x)
    x = x + self.attention(self.norm(x))
    x = x + self.down(self.up(x):gelu())
    return self.head(x:mean { 2 })
  end
  return Block(), { 6, 8 }
end

-- 51 rows: the last batch of an epoch has 3 of BATCH 12, so that one of 4 ranks has none.
local function data(shape, rows)
  local draws = ridge.generator(3)
  local n = rows or 51
  local x = ridge.randn({ n, unpack(shape) }, { generator = draws })
  return x, ridge.randint(0, 5, n, { generator = draws })
end

local function loader_of(x, y, opts)
  opts = opts or {}
  return ridge.data.Loader({ x, y }, { batch = opts.batch or math.ceil(BATCH / size), seed = 4,
    world = world, shuffle = opts.shuffle })
end

-- A trainer of a net, and its loader.
local function trainer_of(name, opts, dtype)
  local net, shape = NETS[name]()
  if dtype then net:to(dtype) end
  local x, y = data(shape)
  if dtype then x = x:to(dtype) end
  opts.world, opts.log_every = world, opts.log_every or 0
  opts.optimizer = ridge.optim.SGD(net, { lr = 0.05, momentum = 0.9 })
  local all = dist.DataParallel(net, { sync_batch_norm = true, bucket_mb = 0.002 })
  opts.say = opts.say or function() end
  return ridge.Trainer(all, opts), loader_of(x, y), net, x, y
end

local function number(x) return ('%.17g'):format(x) end

-- What a training came to: the same on all ranks, and kept for a look from outside.
local function report(name, trainer, net)
  local same, why = dist.same(net)
  local last = trainer.history[#trainer.history]
  say(name, tostring(same), why or '', #trainer.curve, number(last.loss),
    last.val_loss and number(last.val_loss) or '-', last.accuracy and number(last.accuracy) or '-',
    last.accuracy_n or '-', number(trainer.curve[#trainer.curve].loss), 'of', #trainer.history)
  if rank == 0 then ridge.save(('%s/%s%d'):format(folder, name, size), net:state()) end
end

local RUN = {}

-- -- As one rank on the whole batch ---------------------------------------------------------------

-- Some epochs of each, validated on what is not shared out evenly.
function RUN.steps()
  for _, each in ipairs {
    { 'mlp', 'mlp', {}, 20 }, { 'lenet', 'lenet', {}, 6 }, { 'block', 'block', { clip = 0.2 }, 6 },
    { 'gather', 'mlp', { accumulate = 2, clip = 0.5 }, 10 },
    { 'plan', 'mlp', { accumulate = 2, compile = true }, 10 },
    { 'rows', 'mlp', { loss = function(out, y) -- a mean over rows that does not say so
      return (out:softmax() - ridge.one_hot(y, 5)):square():sum({ 2 }):mean()
    end, accumulate = 3 }, 6 },
    { 'plateau', 'mlp', { patience = 4, schedule = function(optimizer)
      return ridge.optim.PlateauLR(optimizer, { patience = 1 })
    end }, 60 },
    { 'ignored', 'mlp', { accumulate = 2, loss = function(out, y)
      return nn.cross_entropy(out, y, { ignore = 2 })
    end }, 6 },
  } do
    local name, net_name, opts, epochs = unpack(each)
    local trainer, loader, net, x, y = trainer_of(net_name, opts)
    if name == 'plateau' then x = -x end -- which it does not learn: the loss rises soon
    trainer:fit(loader, { epochs = epochs, validate = loader_of(x:narrow(1, 1, 7),
      y:narrow(1, 1, 7), { shuffle = false, batch = 1 }) })
    report(name, trainer, net)
    if opts.compile then
      local config = trainer:status().config
      say('plans', tostring(config.compile_enabled), tostring(config.plans > 0))
    end
  end
  local trainer, loader, net = trainer_of('mlp', {}, 'bf16')
  trainer:fit(loader, { epochs = 4 })
  report('bf16', trainer, net)
end

-- -- Decisions ------------------------------------------------------------------------------------

-- Batches that each rank makes for itself: f(step) gives x and y.
local function made(n, f)
  return { len = function() return n end, batch = 4, each = function()
    local i = 0
    return function()
      i = i + 1
      if i <= n then return f(i) end
    end
  end }
end

-- The last rank's second batch is bad; that step is left out everywhere.
local function spoiled(value)
  return made(3, function(i)
    local x = ridge.randn(4, 20, { generator = ridge.generator(10 * i + rank) })
    local y = ridge.randint(0, 5, 4, { generator = ridge.generator(i) })
    if value == math.huge then y = y:to 'f32' end
    if i == 2 and rank == size - 1 then
      if value == math.huge then y[1] = value else x[1][1] = value end
    end
    return x, y
  end)
end

local function finite(net)
  for _, p in ipairs(net:parameters()) do
    local sum = p.tensor:abs():sum():item()
    if sum - sum ~= 0 then return false end
  end
  return true
end

function RUN.spoiled()
  for _, name in ipairs { 'guard', 'scaler', 'nothing' } do
    for _, word in ipairs { 'nan', 'inf' } do
      local value = word == 'nan' and 0 / 0 or math.huge
      local scaler = name == 'scaler' and ridge.optim.GradScaler { scale = 1024 } or nil
      local trainer, _, net = trainer_of('mlp', { scaler = scaler,
        stability = name == 'guard' and { guard = { kind = 'skip' } } or nil,
        -- the loss is infinite, and its gradients are not
        loss = word == 'inf' and function(out, y) return (out:square():sum({ 2 }) + y):mean() end
          or nil })
      local ok, err = pcall(trainer.fit, trainer, spoiled(value), { epochs = 1 })
      say('spoiled', name, word, tostring(ok), tostring(dist.same(net)), tostring(finite(net)),
        trainer.optimizer:steps(), scaler and scaler.factor or '-',
        ok and trainer.history[1].not_finite or (tostring(err):gsub('\n.*', '')))
    end
  end
end

-- Going on from a checkpoint: with dropout, running statistics of rank 0, moments, and a rate that
-- the losses decide. The net is bare: the trainer lets all ranks train it.
local function dropping(opts)
  ridge.seed(9)
  local net = nn.Sequential(nn.Linear(20, 16, { seed = 1 }), nn.BatchNorm(16), nn.ReLU(),
    nn.Dropout(0.3), nn.Linear(16, 5, { seed = 2 }))
  local optimizer = ridge.optim.Adam(net, { lr = 0.02 })
  local x, y = data({ 20 }, 54) -- two rows at least for each of three: one has no variance
  local lines = {}
  local trainer = ridge.Trainer(net, { optimizer = optimizer, world = world, folder = opts.folder,
    schedule = ridge.optim.PlateauLR(optimizer, { patience = 0, factor = 0.5 }),
    patience = opts.patience, log_every = 2, monitor = opts.monitor,
    say = function(line) lines[#lines + 1] = line end })
  return trainer, loader_of(x, y), net, loader_of(x:narrow(1, 1, 11), y:narrow(1, 1, 11),
    { batch = 2 }), lines
end

local function equal(a, b)
  a, b = a:state(), b:state()
  for name, x in pairs(a) do
    if not x:equal(b[name]) then return false end
  end
  return true
end

function RUN.resume()
  local checkpoint = require 'ridge.train.checkpoint'
  local save, writes = checkpoint.save, 0
  checkpoint.save = function(...)
    writes = writes + 1
    return save(...)
  end
  local whole, loader, net, val = dropping {}
  whole:fit(loader, { epochs = 5, validate = val })
  local path = ('%s/resumed%d'):format(folder, size)
  local first, loader1, _, val1, lines = dropping { folder = path,
    monitor = ridge.monitor { every = 0.1, tensorboard = path .. '/board' } }
  first:fit(loader1, { epochs = 2, validate = val1 })
  first:save 'first'
  say('lines', #lines, writes, tostring(first.options.monitor ~= nil),
    tostring((lines[1] or ''):find('ranks: a step takes 12 rows', 1, true) ~= nil))
  local second, loader2, net2, val2 = dropping { folder = path }
  say('found', tostring(second:resume(loader2)), second.epoch)
  second:fit(loader2, { epochs = 5, validate = val2 })
  say('resumed', tostring(equal(net, net2)), tostring(dist.same(net2)),
    tostring(number(whole.history[5].val_loss) == number(second.history[5].val_loss)),
    tostring(whole.optimizer:lr() == second.optimizer:lr()), second.optimizer:lr())
  local kept = net2[4]:train()(ridge.ones(64))
  local all = dist.all_gather(kept)
  say('drawn', tostring(size == 1 or not all[1]:equal(all[2])))
end

-- What two ranks have kept is gone on from by any number of them.
function RUN.fewer()
  local trainer, loader, net = dropping { folder = folder .. '/resumed2' }
  local found = trainer:resume(loader, 'first')
  local before = trainer.epoch
  trainer.options.folder = nil
  trainer:fit(loader, { epochs = 3 }) -- its end makes running statistics the same
  say('fewer', tostring(found and dist.same(net)), before)
end

-- A training of fewer epochs than asked for ends on all ranks.
function RUN.ends()
  local trainer, loader, _, val = dropping { patience = 2 }
  local _, why = trainer:fit(loader, { epochs = 60, validate = val })
  say('patience', why, trainer.epoch, trainer.epoch < 60 and 'early' or 'late')
  trainer, loader, _, val = dropping { folder = ('%s/stopped%d'):format(folder, size) }
  local each = loader.each
  function loader.each(self) -- pressed on one rank in the second epoch
    if trainer.epoch == 1 and rank == size - 1 then require('ridge.host').interrupt() end
    return each(self)
  end
  _, why = trainer:fit(loader, { epochs = 5, validate = val })
  say('stopped', why, trainer.epoch)
  local again, loader2 = dropping { folder = ('%s/stopped%d'):format(folder, size) }
  say('kept', tostring(again:resume(loader2)), again.epoch)
end

-- -- Refusals -------------------------------------------------------------------------------------

function RUN.refused()
  local last = rank == size - 1
  local x, y = data { 20 }
  local function trainer(opts)
    local net = NETS.mlp()
    opts.optimizer = ridge.optim.SGD(net, { lr = opts.rate or 0.1 })
    opts.rate, opts.world, opts.log_every = nil, opts.world or world, 0
    local lines = {}
    opts.say = function(line) lines[#lines + 1] = line end
    return ridge.Trainer(net, opts), lines
  end
  local function fit(opts, loader, given)
    return function()
      trainer(opts or {}):fit(loader or loader_of(x, y), given or { epochs = 1 })
    end
  end
  for i, f in ipairs {
    function() trainer { rate = last and 0.2 or 0.1 } end,
    function() trainer { clip = last and 1 or nil } end,
    function() trainer { accumulate = last and 2 or 1 } end,
    function() trainer { stability = { guard = { kind = last and 'skip' or 'detect' } } } end,
    fit(nil, nil, { epochs = last and 2 or 1 }),
    fit(nil, ridge.data.Loader({ x, y }, { batch = 4 })),
    fit(nil, nil, { epochs = 1, validate = ridge.data.Loader({ x, y }, { batch = 4 }) }),
    function() trainer { split = true } end,
    function() trainer { debug = {} } end,
    function() trainer { world = {} } end,
    function() trainer { effective_batch_size = 10, mini_batch_size = 4 } end,
    fit(nil, { each = function() end }),
    function() -- rank 0 cannot write
      local checkpoint = require 'ridge.train.checkpoint'
      local save = checkpoint.save
      checkpoint.save = function() error('no space left', 0) end
      local ok, err = pcall(fit { folder = folder .. '/full' })
      checkpoint.save = save
      if not ok then error(err, 0) end
    end,
  } do
    local ok, err = pcall(f)
    say('refused', i, tostring(ok), (tostring(err):gsub('\n.*', '')))
  end
  local t, lines
  local ok, err = pcall(function() -- a loader that ends too early
    local short = made(2, function() return ridge.randn(4, 20), ridge.zeros(4):to 'i64' end)
    function short.len() return 3 end
    trainer {}:fit(short, { epochs = 1 })
  end)
  say('refused 14', tostring(ok), (tostring(err):gsub('\n.*', '')))
  t, lines = trainer {}
  t:fit(made(last and 4 or 3, function(i)
    return ridge.randn(4, 20), ridge.zeros(4):to 'i64' + i
  end), { epochs = 1 })
  say('least', #t.curve, rank == 0 and tostring(lines[1]:find '3 to 4 batches' ~= nil) or #lines)
  local start, sums = worlds.start, 0 -- gradients go once a step
  function worlds.start(w, name, fields, ...)
    sums = sums + (name == 'dist.DataParallel' and fields.op == 3 and 1 or 0)
    return start(w, name, fields, ...)
  end
  local gathered, said = trainer { effective_batch_size = 24, mini_batch_size = BATCH / size }
  gathered:fit(loader_of(x, y), { epochs = 1 })
  say('effective', gathered.options.accumulate, gathered:status().config.effective_batch_size,
    sums, #gathered.curve, #said)
  local whole, spoken = trainer {} -- 51 rows in one batch, 26 of them on rank 0
  whole:fit({ x, y }, { epochs = 1 })
  say('whole', #whole.curve, rank == 0 and tostring(spoken[1]:match 'a step takes %d+ rows') or '')
end

RUN[what]()

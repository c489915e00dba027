-- SPDX-License-Identifier: MIT
-- ridge.advise: every line of the documents is evaluated, on numbers that were measured; everything
-- is as it was behind it; what applies to one run does not to another.

local ridge = require 'ridge'
local checklists = require 'ridge.advise.checklists'
local run_of = require 'ridge.advise.run'
local subject = require 'ridge.advise.subject'
local trial_of = require 'ridge.advise.trial'

local function quiet() end

local function fails(text, f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(text, tostring(err), 1, true)
end

-- Rows that belong to classes: what is learned from them is no chance.
local function classes(n, width, k)
  local centres = ridge.randn(k, width, { generator = ridge.generator(5) }) * 3
  local labels = {}
  for i = 1, n do labels[i] = (i - 1) % k end
  local y = ridge.tensor(labels, { dtype = 'i64' })
  return centres:take(y) + ridge.randn(n, width, { generator = ridge.generator(6) }) * 0.1, y
end

local function small(width, k, more)
  return ridge.nn.Sequential(ridge.nn.Linear(width, 32, { seed = 1 }), ridge.nn.ReLU(),
    unpack(more or { ridge.nn.Linear(32, k, { seed = 2 }) }))
end

local function trainer_of(net, opts)
  opts = opts or {}
  opts.say, opts.log_every = quiet, 0
  opts.lr = not opts.optimizer and (opts.lr or 1e-2) or nil
  return ridge.Trainer(net, opts)
end

local QUICK = { seconds = 2, roof = 'none' }

describe('advice', function()
  local x, y, trainer, a

  setup(function()
    ridge.seed(3)
    x, y = classes(64, 16, 4)
    trainer = trainer_of(small(16, 4))
    trainer:fit({ x, y }, { epochs = 20 })
    a = ridge.advise(trainer, QUICK)
  end)

  it('evaluates every line of every document', function()
    local of = {}
    for _, source in ipairs(checklists.SOURCES) do of[source.name] = #source.lines end
    assert.same({ ['000 starting order'] = 5, ['000 checklist'] = 8, ['000 pitfalls'] = 5,
      ['001 troubles'] = 3, ['002 memory'] = 8, ['002 performance'] = 10, ['003 troubles'] = 11,
      ['004 checklist'] = 10 }, of)
    assert.equal(60, #a.lines)
    assert.equal(60, a.counts.applies + a.counts.no + a.counts.unknown)
    for _, line in ipairs(a.lines) do
      local found = line.finding
      assert.equal(found, a.by_name[found.name])
      assert.truthy(found.why and #found.why > 4, found.name)
      assert.is_true(found.state ~= 'applies' or found.measured and #found.try > 0, found.name)
      assert.is_true(found.state ~= 'no' or found.measured ~= nil, found.name)
      for _, try in ipairs(found.try) do assert.truthy(try.what and try.measure) end
    end
    for _, found in ipairs(a.findings) do assert.is_true(#found.lines > 0, found.name) end
  end)

  it('begins in the order of document 000 (F220)', function()
    local names = {}
    for i = 1, 4 do names[i] = a.findings[i].name end
    assert.same({ 'mixed_precision', 'compile', 'batch_size', 'bottlenecks' }, names)
  end)

  it('could tell all that can be told of a small training', function()
    local none = { smaller_net = true, schedule = true, loading = true } -- 20 losses are few
    for _, found in ipairs(a.findings) do
      if found.state == 'unknown' and not none[found.name] then
        -- of what is close, or too long, on a loud machine
        assert.is_true(found.why:find 'interval' ~= nil or found.why:find 'do not fit' ~= nil,
          found.why)
      end
    end
    assert.matches('%d+ parameters are of 8 bits', a.by_name.quantized_accuracy.measured)
    assert.matches('of 64 rows needs', a.by_name.memory.measured)
    assert.equal('no', a.by_name.divergence.state)
    assert.matches('20 losses of the run at a rate of 0.01', a.by_name.divergence.measured)
    assert.equal('no', a.by_name.noise.state)
    assert.equal('no', a.by_name.loss_scale.state)
    assert.equal('applies', a.by_name.watched.state)
  end)

  it('prints what applies first, and the lines', function()
    local text = tostring(a)
    assert.matches('^the trainer of nn.Sequential on cpu, 64 rows: of 60 lines %d+ apply, ', text)
    assert.matches('\nWhat applies, in the order to begin with:\n', text)
    assert.matches('\n    measured: ', text)
    assert.matches('\n    try watch it: .-\n      measured by ridge watch runs/one\n', text)
    assert.matches('\n    %(000 pitfalls 4%)', text)
    local rows = select(2, tostring(a.lines):gsub('\n', '\n'))
    assert.equal(60, rows)
    assert.matches('000 pitfalls 5 +does not apply +scale of the loss', tostring(a.lines))
  end)

  it('is of what is one', function()
    fails('a Trainer, a net and an input, or a function is expected, got 3', ridge.advise, 3)
    fails('an input is expected behind the net', ridge.advise, small(4, 2))
    fails("seconds", ridge.advise, trainer, { seconds = 0 })
    fails("did you mean 'seconds'?", ridge.advise, small(4, 2), ridge.randn(2, 4), { secnds = 1 })
    fails('has not fitted yet', ridge.advise, trainer_of(small(4, 2)))
    fails('a loader or tensors', ridge.advise, trainer, 5)
  end)
end)

describe('after advice', function()
  it('everything is as it was', function()
    ridge.seed(9)
    local x, y = classes(32, 8, 2)
    local net = ridge.nn.Sequential(ridge.nn.Linear(8, 16, { seed = 1 }), ridge.nn.BatchNorm(16),
      ridge.nn.Dropout(0.5), ridge.nn.Linear(16, 2, { seed = 2 }))
    local optimizer = ridge.optim.Adam(net, { lr = 1e-2 })
    local scaler = ridge.optim.GradScaler { scale = 2 ^ 30 }
    local loader = ridge.data.Loader({ x, y }, { batch = 16, seed = 4 })
    local trainer = trainer_of(net, { optimizer = optimizer, scaler = scaler, autocast = 'f16' })
    trainer:fit(loader, { epochs = 2 })
    net:eval()
    local still = require('ridge.train.checkpoint').still
    local function state_of()
      local out = {}
      local function add(name, value)
        if ridge.is_tensor(value) then
          out[name] = value:to('f64'):reshape(-1):tolist()
        elseif type(value) == 'table' then
          for key, inner in pairs(value) do add(name .. '.' .. tostring(key), inner) end
        else
          out[name] = value
        end
      end
      add('net', still(net:state()))
      add('optimizer', still(optimizer:state()))
      add('scaler', scaler:state())
      add('loader', loader:state())
      add('rate', optimizer:lr())
      for _, p in ipairs(net:parameters()) do
        add('grad.' .. p.name, p.tensor.grad and p.tensor.grad:clone())
      end
      return out
    end
    local before, curve = state_of(), #trainer.curve
    local stream = ridge.generator(1):state()
    ridge.seed(1)
    ridge.advise(trainer, QUICK)
    local draw = ridge.rand(4):tolist()
    ridge.seed(1)
    assert.same(ridge.rand(4):tolist(), draw)
    assert.same(ridge.generator(1):state(), stream)
    assert.same(before, state_of())
    assert.is_false(net.training)
    assert.equal(curve, #trainer.curve)
  end)
end)

describe('a line', function()
  -- One finding alone; with what was profiled where it asks for that.
  local function look(s, room, name, profiled)
    local trial = trial_of.new(s, 2)
    local run = run_of.new(s, trial, {})
    return trial:inside(function()
      if profiled then run.profile = trial:observe { roof = 'none', lines = false } end
      return require('ridge.advise.' .. room)[name](run)
    end)
  end

  local function of_trainer(trainer, data, room, name, profiled)
    return look(subject.of_trainer(trainer, data), room, name, profiled)
  end

  local function fit_of(trainer, x, y)
    return of_trainer(trainer, { x, y }, 'training', 'loss_scale')
  end

  it('of a scale that overflows wants a smaller one, and says which fits', function()
    local x, y = classes(32, 8, 2)
    local function scaled(scale)
      return trainer_of(small(8, 2), { optimizer = nil, autocast = 'f16',
        scaler = ridge.optim.GradScaler { scale = scale } })
    end
    local found = fit_of(scaled(2 ^ 60), x, y)
    assert.equal('applies', found.state)
    assert.matches('a smaller scale, not a larger one', found.why)
    assert.matches('GradScaler { scale', found.try[1].what, 1, true)
    assert.matches('gradients are not finite', found.measured)
    local fits = tonumber(found.measured:match 'at ([%d.e+]+) they are finite')
    assert.is_true(fits < 2 ^ 60 and fits >= 1, found.measured)
    assert.equal('no', fit_of(scaled(fits), x, y).state)
    assert.equal('applies', fit_of(scaled(4 * fits), x, y).state)
    local without = trainer_of(small(8, 2), { autocast = 'f16' })
    assert.matches('vanish in f16', fit_of(without, x, y).why)
  end)

  it('of a loss that is nan without a scale is not of that', function()
    local x, y = classes(32, 8, 2)
    local net = small(8, 2)
    ridge.no_grad(function() net:parameters()[1].tensor:fill_(0 / 0) end)
    local function of(name) return of_trainer(trainer_of(net), { x, y }, 'training', name) end
    assert.matches('it is not of that', of('loss_scale').why)
    local found = of 'divergence'
    assert.equal('applies', found.state)
    assert.matches('16 of them not finite', found.measured)
    assert.equal('unknown', of('noise').state)
  end)

  it('of a rate that is too high tells what smaller ones do', function()
    local x = classes(32, 8, 2)
    local net = ridge.nn.Linear(8, 1, { seed = 1 })
    local target = x:narrow(2, 1, 1) * 2
    local function with(rate)
      return look(subject.of_net(net, x, { loss = ridge.nn.mse_loss, target = target,
        optimizer = ridge.optim.SGD(net, { lr = rate }) }), 'training', 'divergence')
    end
    local found = with(0.06)
    assert.equal('applies', found.state, found.measured)
    assert.matches('rises beyond chance', found.why)
    local first, last = found.measured:match 'at 0.006 (%S+) to ([%d.e-]+)'
    assert.is_true(tonumber(last) < tonumber(first), found.measured)
    found = with(0.005)
    assert.equal('no', found.state, found.measured)
    assert.matches('falls beyond chance', found.why)
  end)

  it('of losses that are not finite tells of smaller rates where one can be tried', function()
    local training = require 'ridge.advise.training'
    local function told(descent)
      return training.divergence { s = { optimizer = { lr = function() return 1 end } },
        losses = function() return { 1, 1, 1, 1, 0 / 0, 1, 1, 1 }, nil, true end,
        trial = { descent = descent } }.measured
    end
    assert.matches('; 1 of them not finite; from here on one batch, at 0%.1 not finite, '
      .. 'at 0%.01 not finite$',
      told(function() return { 0 / 0, 0 / 0, 0 / 0, 0 / 0 } end))
    assert.matches('; 1 of them not finite$', told(function() error 'no memory' end))
  end)

  it('of processors is of as many as there are', function()
    local backend, machine = require 'ridge.backend', require 'ridge.advise.machine'
    local now, facts, best = backend.now, backend.machine, machine.best_isa
    local function state_of(isa, threads)
      backend.now = function() return { isa = isa, threads = threads } end
      backend.machine = function() return { cores = 8 } end
      machine.best_isa = function() return 'avx512' end
      local ok, found = pcall(machine.hardware, { s = { device = 'cpu' } })
      backend.now, backend.machine, machine.best_isa = now, facts, best
      assert(ok, found)
      assert.matches(('%s of avx512, %d threads on 8 processors'):format(isa, threads),
        found.measured)
      return found.state .. ': ' .. found.why
    end
    assert.equal('no: all is in use', state_of('avx512', 8))
    assert.equal('applies: processors are not used', state_of('avx512', 7))
    assert.equal('applies: instructions that this processor has are not used', state_of('avx2', 8))
  end)

  it('of instructions knows the best that there are, on whatever processor this is', function()
    local backend, machine = require 'ridge.backend', require 'ridge.advise.machine'
    local before = backend.now()
    local function told() return machine.hardware { s = { device = 'cpu' } } end
    local ok, err = pcall(function()
      for _, level in ipairs { 'amx', 'avx512_bf16', 'avx512', 'avx2' } do
        if pcall(backend.set_isa, level) then -- the first one is the highest here
          ridge.set_num_threads(backend.machine().cores)
          assert.equal('no: all is in use', told().state .. ': ' .. told().why)
          assert.matches(('%s of %s,'):format(level, level), told().measured, 1, true)
          break
        end
      end
      if pcall(backend.set_isa, 'base') and before.isa ~= 'base' then
        assert.equal('instructions that this processor has are not used', told().why)
      end
    end)
    backend.set_isa(before.isa)
    ridge.set_num_threads(before.threads)
    assert(ok, err)
  end)

  it('of noisy gradients knows a batch of equal rows from one of chance', function()
    local one = ridge.randn(1, 8)
    local x, y = one:expand(32, 8):clone(), ridge.zeros(32):to 'i64'
    local found = of_trainer(trainer_of(small(8, 2)), { x, y }, 'training', 'noise')
    assert.equal('no', found.state, found.measured)
    assert.matches('noise scale is 0 rows', found.measured)
    ridge.seed(1)
    local net = ridge.nn.Linear(8, 1, { seed = 1 })
    for _, p in ipairs(net:parameters()) do ridge.no_grad(p.tensor.fill_, p.tensor, 0) end
    found = look(subject.of_net(net, ridge.randn(32, 8), { loss = ridge.nn.mse_loss,
      target = ridge.randn(32, 1) }), 'training', 'noise') -- nothing is to be learned
    assert.equal('applies', found.state, found.measured)
  end)

  it('of larger batches has the time of a row, not of a batch', function()
    local asked = {}
    local r = run_of.new({ rows = 8, device = 'cpu' }, { peak = function() return 1000 end,
      pair_passes = function(_, _, how)
        asked[#asked + 1] = how.rows
        return { ratio = 1.6, lo = 1.2, hi = 1.8, a_ns = 100, b_ns = 160 }
      end }, {})
    local list = r:batches()
    assert.same({ 16, 32 }, asked)
    assert.same({ 0.8, 0.6, 0.9 }, { list[1].ratio, list[1].lo, list[1].hi })
    assert.same({ 0.4, 0.3, 0.45 }, { list[2].ratio, list[2].lo, list[2].hi })
    assert.equal('applies', require('ridge.advise.speed').batch_size(r).state)
  end)

  it('of larger batches are of those that could be timed, with the reason where none could',
    function()
      local function tried(without)
        local r = run_of.new({ rows = 8, device = 'cpu' }, { peak = function() return 1000 end,
          pair_passes = function(_, _, how)
            if how.rows == without then return nil, ('no time of %d rows'):format(without) end
            return { ratio = 1.5, lo = 1.5, hi = 1.5, a_ns = 1, b_ns = 1 }
          end }, {})
        local list, why = r:batches()
        local rows = list and {}
        for i, each in ipairs(list or {}) do rows[i] = each.rows end
        return { rows or 'none', why }
      end
      assert.same({ 'none', 'no time of 16 rows' }, tried(16))
      assert.same({ { 16 } }, tried(32))
      assert.same({ { 16, 32 } }, tried(64))
    end)

  it('of larger batches knows that twice none is none', function()
    local r = run_of.new({ rows = 0, device = 'cpu' }, { peak = function() return 1000 end,
      pair_passes = function() return { ratio = 0.8, lo = 0.8, hi = 0.8, a_ns = 1, b_ns = 1 } end },
      {})
    for _, name in ipairs { 'batch_size', 'throughput' } do
      local found = require('ridge.advise.speed')[name](r)
      assert.same({ 'unknown', 'the input has no rows' }, { found.state, found.why })
    end
  end)

  it('of larger batches are of those alone that leave a fifth of the memory free', function()
    local function tried(room)
      local asked = {}
      local r = run_of.new({ rows = 8, device = 'cpu' }, { peak = function() return 1000 end,
        pair_passes = function(_, _, how)
          asked[#asked + 1] = how.rows
          return { ratio = 1, lo = 1, hi = 1, a_ns = 1, b_ns = 1 }
        end }, {})
      function r.room() return room end
      local list, why = r:batches()
      return asked, list, why
    end
    assert.same({ 16, 32 }, (tried(5000)))
    assert.same({ 16 }, (tried(4999)))
    assert.same({ 16 }, (tried(2500)))
    local asked, list, why = tried(2499)
    assert.same({}, asked)
    assert.is_nil(list)
    assert.equal('twice the batch does not fit into memory', why)
    assert.same({ 16, 32 }, (tried(nil)))
  end)

  it('of data loading waits, or does not', function()
    local x, y = classes(64, 8, 2)
    local function loader(s)
      return { len = function() return 4 end, each = function()
        local i = 0
        return function()
          return require('ridge.ranges').section('data_loading', function()
            local till = ridge.clock() + s
            while ridge.clock() < till do end
            i = i + 1
            if i <= 4 then return x:narrow(1, 1, 16), y:narrow(1, 1, 16) end
          end)
        end
      end }
    end
    local trainer = trainer_of(small(8, 2))
    local found = of_trainer(trainer, loader(0.02), 'speed', 'loading', true)
    assert.equal('applies', found.state)
    assert.matches('workers = 2', found.try[1].what, 1, true)
    -- a loader that takes no time of its own waits where others have the processors
    for _ = 1, 5 do
      found = of_trainer(trainer, loader(0), 'speed', 'loading', true)
      if found.state == 'no' then break end
    end
    assert.equal('no', found.state, found.measured)
  end)

  it('of memory is told from what is free', function()
    local x, y = classes(64, 32, 4)
    local net = ridge.nn.Sequential()
    for i = 1, 8 do
      net:add(ridge.nn.Sequential(ridge.nn.Linear(32, 32, { seed = i }), ridge.nn.ReLU()))
    end
    local trainer = trainer_of(net)
    for _, name in ipairs { 'memory', 'splitting', 'recompute', 'accumulation' } do
      assert.equal('no', of_trainer(trainer, { x, y }, 'memory', name).state, name)
    end
    local need = of_trainer(trainer, { x, y }, 'memory', 'recompute').measured
    assert.matches('kept for the backward pass; recomputed .-, in %S+ of the time', need)
    local find = require 'ridge.advise.memory'
    local function with(share)
      local r = run_of.new({ rows = 64, device = 'cpu', net = net }, {}, {})
      function r:peak() return share * 1e9 end -- luacheck: no self
      function r:room() return 1e9 end -- luacheck: no self
      function r:noise() return 1000 end -- luacheck: no self
      return r
    end
    assert.equal('applies', find.memory(with(0.9)).state)
    assert.matches('90.0 %% of it', find.memory(with(0.9)).why)
    assert.equal('no', find.memory(with(0.7)).state)
    assert.equal('applies', find.splitting(with(0.7)).state)
    assert.equal('no', find.splitting(with(0.5)).state)
    assert.equal('applies', find.accumulation(with(0.5)).state)
    assert.equal('no', find.accumulation(with(0.3)).state)
  end)

  it('of a plan that cannot be made says why', function()
    local Reads = ridge.nn.class 'Reads'
    function Reads.forward(_, input) return input * input:sum():item() end
    local x, y = classes(16, 8, 2)
    local net = small(8, 2, { Reads(), ridge.nn.Linear(32, 2, { seed = 2 }) })
    local function of(name) return of_trainer(trainer_of(net), { x, y }, 'speed', name) end
    local found = of 'compile_fails'
    assert.equal('applies', found.state)
    assert.matches("mode = 'auto'", found.try[1].what, 1, true)
    assert.equal('unknown', of('compile').state)
    assert.matches('^no plan can be made of it: .+', of('compile').why)
    net = small(8, 2)
    assert.equal('no', of('compile_fails').state)
  end)

  it('of a monitor that is there does not apply', function()
    local x, y = classes(16, 8, 2)
    local trainer = trainer_of(small(8, 2), { monitor = ridge.monitor() })
    local found = of_trainer(trainer, { x, y }, 'memory', 'watched')
    assert.equal('no', found.state)
  end)
end)

describe('what a comparison says', function()
  local speed = require 'ridge.advise.speed'

  local function run_with(lo, hi, s)
    local c = { ratio = (lo + hi) / 2, lo = lo, hi = hi, a_ns = 2e6, b_ns = 1e6, kind = 'bf16',
      peak_a = 2, peak_b = 1, loss_a = 1, loss_b = 1, steps = 3 }
    return { s = s or { device = 'cpu' }, smaller_type = function() return c end,
      plan = function() return c end }
  end

  it('is what its interval says', function()
    for name, f in pairs { bf16 = speed.mixed_precision, plan = speed.compile } do
      assert.equal('applies', f(run_with(0.4, 0.6)).state, name)
      assert.equal('unknown', f(run_with(0.8, 1.01)).state, name)
      assert.equal('no', f(run_with(0.98, 1.3)).state, name)
      assert.equal('no', f(run_with(0.4, 0.6, { device = 'cpu', autocast = 'bf16',
        compile = true })).state, name)
    end
  end)

  it('of larger batches is of the time of a row', function()
    local function with(hi)
      return speed.batch_size { s = { rows = 8 }, batches = function()
        return { { rows = 16, ratio = hi - 0.05, lo = hi - 0.1, hi = hi, a_ns = 1e6, peak = 1 } }
      end }
    end
    assert.equal('applies', with(0.8).state)
    assert.equal('unknown', with(0.95).state)
    assert.equal('no', with(1.1).state)
  end)

  it('is real: what takes four times as long is told as such', function()
    local net, sleep = ridge.nn.Linear(4, 4), require('ridge.store.clock').sleep
    local trial = trial_of.new({ net = net, args = { n = 1, ridge.randn(2, 4) }, device = 'cpu' },
      8)
    local c = trial:pair(function() sleep(0.01) end, function() sleep(0.04) end)
    assert.is_true(c.lo > 1.3 and c.hi < 8, ('%.2f [%.2f .. %.2f]'):format(c.ratio, c.lo, c.hi))
    assert.is_true(c.pairs >= 6)
    local none, why = trial:pair(function() sleep(0.3) end, quiet)
    assert.is_nil(none)
    assert.matches('do not fit into an eighth of seconds = 8', why)
  end)
end)

-- SPDX-License-Identifier: MIT
-- F104-F107: the best batch size of real models: memory as the allocator counts it, out of memory
-- and back, what is kept.

local bench = require 'ridge.bench'
local blame = require 'ridge.blame'
local folders = dofile 'tests/lua/store/folder.lua'
local ridge = require 'ridge'
local store = require 'ridge.store'

-- nobody else on this machine is waited for
local LAB = setmetatable({ lease = function() end }, { __index = require 'ridge.sweep.lab' })
local FEW = { level = 'quick', quiet_ns = 0, warm_min_ns = 0, warm_max_ns = 1e6, window_ns = 1,
  samples = 2 }

describe('the best batch size', function()
  local folder, db
  before_each(function()
    folder = folders.new()
    db = folder .. '/b.db'
  end)
  after_each(function() folders.remove(folder) end)

  local function sweep_row(name)
    local st = store.open(db)
    local row = st.db:row('SELECT args, state FROM sweep WHERE name = ?', name)
    local trials = st.db:query([[SELECT t.state, c.params, a.message FROM trial t
      JOIN config c ON c.id = t.config_id JOIN attempt a ON a.id = t.best_attempt]])
    st:close()
    return require('ridge.store.canonical').decode(row.args), row.state, trials
  end

  it('for inference is the largest whose pass stays within 0.9 of the memory', function()
    local I, O = 64, 32
    local net = ridge.nn.Linear(I, O, { seed = 1 })
    net(ridge.ones(1, I)) -- whatever it packs it has packed
    collectgarbage()
    collectgarbage()
    local live, total = ridge.memory.stats().live, ridge.memory.stats().live + 2 ^ 20
    local found = bench.batch_size(net, { memory = total, db = db })
    assert.equal(math.floor(0.9 * total), found.budget)
    -- each sample needs its input and its output
    local expected = math.floor((found.budget - live) / (4 * (I + O)))
    assert.is_true(math.abs(found.best - expected) <= 2, found.best .. ' is not ' .. expected)
    assert.equal('memory', found.stop)
    assert.truthy(found.reason:find(('a batch of %d '):format(found.best + 1), 1, true))
    local refused = 0
    for _, try in ipairs(found.tries) do
      assert.equal(try.batch <= found.best, try.fits)
      if try.oom then refused = refused + 1 else assert.is_true(try.peak <= found.budget) end
    end
    assert.is_true(refused > 0)
  end)

  it('leaves limit and memory as they were, and works after an out-of-memory', function()
    local net = ridge.nn.Linear(64, 32, { seed = 1 })
    net(ridge.ones(1, 64))
    collectgarbage()
    collectgarbage()
    local before, depth = ridge.memory.stats(), ridge.memory.depth()
    ridge.memory.set_limit(before.live + 2 ^ 22)
    bench.batch_size(net, { memory = before.live + 2 ^ 19, db = db })
    assert.equal(before.live + 2 ^ 22, ridge.memory.stats().limit)
    assert.equal(depth, ridge.memory.depth())
    ridge.memory.set_limit(before.limit)
    collectgarbage()
    collectgarbage()
    assert.is_true(ridge.memory.stats().live <= before.live)
    assert.equal(2, net(ridge.ones(2, 64)).shape[1])
  end)

  it('is kept with every try, the limit, and the reason it stopped', function()
    local found = bench.batch_size('linear{64,32}', { memory = ridge.memory.stats().live + 2 ^ 18,
      db = db, share = 0.5 })
    local args, state, trials = sweep_row(found.kept.name)
    assert.equal('done', state)
    assert.equal(#found.tries, #trials)
    assert.same({ found.best, found.reason, 'inference', 'linear{64,32}', 0.5, found.budget, 'f32',
      ridge.backend.threads(), 'memory', found.total }, { args.best, args.reason, args.kind,
      args.model, args.share, args.budget, args.dtype, args.threads, args.stop, args.memory })
    local oom = 0
    for _, trial in ipairs(trials) do
      if trial.state == 'oom' then
        oom = oom + 1
        assert.truthy(trial.message:find 'limit')
      end
    end
    assert.is_true(oom > 0)
    local st = store.open(db) -- who kept it has ended, so that nobody takes it for dead
    assert.equal(0, st.db:value "SELECT count(*) FROM worker WHERE how IS NOT 'done'")
    st:close()
    -- another search is another generation
    local again = bench.batch_size('linear{64,32}', { max = 4, db = db, dtype = 'bf16' })
    assert.equal(found.kept.name .. '-2', again.kept.name)
    args = sweep_row(again.kept.name)
    assert.same({ 'bf16', 'max', 4 }, { args.dtype, args.stop, args.best })
  end)

  it('is not searched for where it could not be kept', function()
    local calls = 0
    local function model(x)
      calls = calls + 1
      return x * 2
    end
    local ok, err = pcall(bench.batch_size, model, { db = '/dev/null/x.db', max = 4,
      input_shape = { 3 } })
    assert.is_false(ok)
    assert.matches('/dev/null', tostring(err))
    assert.equal(0, calls)
  end)

  it('for throughput is measured, with samples that are kept', function()
    local found = bench.batch_size('linear{16,8}', { kind = 'throughput', max = 4, protocol = FEW,
      db = db, lab = LAB })
    assert.equal(3, #found.tries)
    local st = store.open(db)
    assert.equal(3, st.db:value 'SELECT count(*) FROM samples')
    local med = st.db:value [[SELECT g.med FROM timing g JOIN attempt a ON a.id = g.attempt_id
      JOIN trial t ON t.id = a.trial_id JOIN config c ON c.id = t.config_id
      WHERE g.cache <> 'first' AND json_extract(c.params, '$.batch') = 4]]
    -- less memory is better, more rows a second are
    assert.equal('avg_bytes byte -1; peak_bytes byte -1; samples_per_s 1/s 1', st.db:value [[
      SELECT group_concat(text, '; ') FROM (SELECT DISTINCT name || ' ' || unit || ' ' || better
        AS text FROM metric WHERE name IN ('avg_bytes', 'peak_bytes', 'samples_per_s')
        ORDER BY 1)]])
    st:close()
    assert.equal(med, found.tries[3].result.med)
    assert.equal(4e9 / med, found:rows()[3].samples_per_s)
    assert.truthy(tostring(found):find 'best throughput: %d+[^\n]*\nstopped because ')
    found.rows = function()
      return { { batch = 8, peak_bytes = 2 ^ 20, samples_per_s = 9, samples_per_s_lo = 8,
        samples_per_s_hi = 10, verdict = 'best', grade = 'A' },
      { batch = 1024, peak_bytes = 2 ^ 30, samples_per_s = 12345, samples_per_s_lo = 12000,
        samples_per_s_hi = 12500, fits = true, grade = 'B' }, { batch = 2048, state = 'oom' } }
    end
    assert.equal([[
batch     peak  samples/s        95 % interval                 grade
    8     1 MB          9              8 .. 10  best           A
 1024  1024 MB  1.235e+04  1.2e+04 .. 1.25e+04  fits           B
 2048                                           out of memory
]], tostring(found):match '^(.-\n)best throughput')
  end)

  it('for training counts gradients and the state of the optimizer, and changes nothing', function()
    local net = ridge.nn.Linear(256, 256, { seed = 1 }):eval()
    net.weight:requires_grad_(false)
    local weight, own = net.weight:clone(), net:num_bytes()
    local most = ridge.memory.stats().live + 2 ^ 22
    local found = {}
    for _, optimizer in ipairs { 'sgd', 'adam' } do
      found[optimizer] = bench.batch_size(net, { kind = 'training', optimizer = optimizer,
        memory = most, db = db })
    end
    found.inference = bench.batch_size(net, { memory = most, db = db })
    local live = ridge.memory.stats().live
    local function first(kind) return found[kind].tries[1].peak - live end
    -- beside the weights: gradients, and one momentum or two moments
    assert.is_true(first 'sgd' > 1.9 * own and first 'sgd' < 2.5 * own, first 'sgd' / own)
    assert.near(own, first 'adam' - first 'sgd', 0.2 * own)
    assert.is_true(found.adam.best < found.sgd.best and found.sgd.best < found.inference.best)
    assert.truthy(tostring(found.adam):find 'stopped because a batch of %d+ ran out of memory')
    assert.is_true(weight:equal(net.weight))
    assert.is_false(net.weight.requires_grad)
    assert.is_true(net.bias.requires_grad)
    assert.is_false(net.training)
    assert.is_nil(net.weight.grad)
  end)

  it('for training runs the module as it trains', function()
    local net = ridge.nn.Linear(8, 8):eval()
    local forward, seen = net.forward, {}
    net.forward = function(self, x)
      seen[#seen + 1] = self.training
      return forward(self, x)
    end
    bench.batch_size(net, { kind = 'training', max = 1, input_shape = 8, db = db })
    assert.same({ true }, { seen[#seen] })
    assert.is_false(net.training)
  end)

  it('for training needs a module', function()
    local ok, err = pcall(bench.batch_size, function(x) return x end, { kind = 'training',
      input_shape = 4, db = db })
    assert.is_false(ok)
    assert.truthy(tostring(err):find 'needs a module')
    assert.equal('', folders.list(folder))
  end)

  it('raises what is not a lack of memory', function()
    local ok, err = pcall(bench.batch_size, ridge.nn.Linear(16, 8), { input_shape = 3, db = db })
    assert.is_false(ok)
    assert.is_true(blame.is_error(err))
    assert.equal(0, ridge.memory.stats().limit)
    -- what a module of one's own says stays as it is
    local Stubborn = ridge.nn.class 'Stubborn'
    function Stubborn.forward() error('not today', 0) end
    ok, err = pcall(bench.batch_size, Stubborn(), { input_shape = 3, db = db })
    assert.is_false(ok)
    assert.is_nil(tostring(err):find('batch_size.lua', 1, true), err)
    assert.truthy(tostring(err):find('not today', 1, true))
  end)

  it('is drawn as a curve that can be drawn again', function()
    local found = bench.batch_size('linear{64,32}', { memory = ridge.memory.stats().live + 2 ^ 18,
      db = db })
    local path = folder .. '/fit.png'
    found:plot({ device = 'a machine' }):save(path, { scale = 1 })
    local again = ridge.plot.replot(path)
    assert.equal('batch', again.kind)
    assert.equal(#found.tries, #again.rows)
    assert.truthy(again.finding:find(found.reason, 1, true))
    assert.equal(found.best, again.opt.best)
    local timed = bench.batch_size('linear{16,8}', { kind = 'throughput', max = 2, protocol = FEW,
      db = db, lab = LAB })
    timed:plot():save(folder .. '/t.png', { scale = 1, theme = 'dark' })
    assert.has_error(function() ridge.plot.batch({ { batch = 1, state = 'oom' } }) end)
  end)
end)

-- SPDX-License-Identifier: MIT
-- A benchmark as a sweep: its space, its identity, and the report from what is stored.

local bench = require 'ridge.bench'
local folders = dofile 'tests/lua/store/folder.lua'
local statistics = require 'ridge.measure.statistics'

-- nobody else on this machine is waited for
local LAB = setmetatable({ lease = function() end }, { __index = require 'ridge.sweep.lab' })
local FEW = { level = 'quick', quiet_ns = 0, warm_min_ns = 0, warm_max_ns = 1e6, window_ns = 1,
  samples = 2 }

describe('a benchmark as a sweep', function()
  local folder
  before_each(function() folder = folders.new() end)
  after_each(function() folders.remove(folder) end)

  local function run(texts, given)
    given.protocol = given.protocol or FEW
    local sw = bench.sweep(texts, given)
    local summary = sw:run { db = folder .. '/b.db', progress = false, calibrate = false,
      lab = LAB }
    return sw, summary
  end

  it('measures every batch size of every model, parameters only where they are used', function()
    local sw = bench.sweep({ 'linear{8,4}', 'sketched{8,4,T,R}', 'linear{8,R}' },
      { space = { T = { 1, 2 }, R = { 2, 3 }, batch = { 1, 4 } } })
    local counts = {}
    for _, trial in ipairs(sw.plan.trials) do
      local model = trial.params.model
      counts[model] = (counts[model] or 0) + 1
    end
    assert.same({ ['linear{8,4}'] = 2, ['sketched{8,4,T,R}'] = 8, ['linear{8,R}'] = 4 }, counts)
    assert.same({ 1, 8, 32, 64 }, bench.sweep 'linear{8,4}'.spec.space.batch)
    assert.same({ 16 }, bench.sweep('linear{8,4}', { space = { batch = 16 } }).spec.space.batch)
  end)

  it('has a name that says what it measures, the same for the same', function()
    local function name(text, given) return bench.sweep(text, given).name end
    assert.equal(name 'linear{8,4}', name 'linear{8,4}')
    assert.truthy(name('linear{8,4}'):find '^bench%-linear%-8%-4%-%x+$')
    local seen = {}
    for _, given in ipairs { {}, { seed = 2 }, { cache = 'cold' }, { dtype = 'bf16' },
        { protocol = 'quick' }, { space = { batch = { 1 } } }, { num_iterations = 10 } } do
      local own = name('linear{8,4}', given)
      assert.is_nil(seen[own])
      seen[own] = true
    end
  end)

  it('says which parameter is missing, or belongs to no model', function()
    local ok, err = pcall(bench.sweep, 'linear{width,4}', { space = { widht = { 8 } } })
    assert.is_false(ok)
    assert.truthy(tostring(err):find "'width' is no number and no parameter %(did you mean 'widht'")
    ok, err = pcall(bench.sweep, 'linear{8,4}', { space = { bach = { 8 } } })
    assert.is_false(ok)
    assert.truthy(tostring(err):find "did you mean 'batch'")
  end)

  it('is reported from the samples that are stored', function()
    local sw, summary = run({ 'linear{16,8}', 'lowrank{16,8,r}' },
      { space = { batch = { 1, 4 }, r = 2 }, num_iterations = 10, warmup_iterations = 2 })
    assert.equal(4, summary.counts.ok)
    local report, missing = bench.report(sw)
    assert.same({}, missing)
    assert.same({ 'linear{16,8}', 'lowrank{16,8,r} r=2' }, report.names)
    for _, row in ipairs(sw:results()) do
      local name = row.model == 'linear{16,8}' and row.model or 'lowrank{16,8,r} r=2'
      local m = report.models[name][row.batch]
      local kept = sw:samples(row, 'fwd').dur
      assert.equal(10, #kept)
      assert.same({ 10, 2 }, { m.config.num_iterations, m.config.warmup_iterations })
      assert.equal(statistics.mean(kept) * 1e-6, m.latency.mean_ms)
      assert.equal(row.peak_bytes / 2 ^ 20, m.memory.peak_mb)
      assert.is_true(m.memory.avg_mb <= m.memory.peak_mb)
      assert.equal(row.trial, m.config.trial)
    end
    local st = require('ridge.store').open(sw.db, 'read')
    assert.same({ { warm_calls = 2 } }, st.db:query [[SELECT DISTINCT warm_calls FROM timing
      WHERE cache <> 'first']])
    st:close()
    assert.equal(2, #report.comparison)
    assert.equal('lowrank{16,8,r} r=2', report.comparison[1].model_name)
  end)

  it('is held against the first model with its least parameters', function()
    local sw = run('linear{16,w}', { space = { w = { 16, 8, 128 }, batch = { 1 } },
      num_iterations = 10, warmup_iterations = 0 })
    assert.same({ 'linear{16,w} w=8', 'linear{16,w} w=16', 'linear{16,w} w=128' },
      bench.report(sw).names)
  end)

  it('lists what failed with its reason', function()
    local sw, summary = run('sequential{linear{8,w},linear{4,2}}',
      { space = { w = { 4, 5 }, batch = { 1 } } })
    assert.equal(1, summary.failed)
    local report, missing = bench.report(sw)
    assert.equal(1, #report.entries)
    assert.truthy(missing[1].reason:find 'takes 4 numbers')
  end)
end)

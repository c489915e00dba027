-- SPDX-License-Identifier: MIT
-- What other minutes differ by, in a sweep: in the intervals of its times, and nowhere else.
-- Nothing that is decided within the sweep may change by it, however large it is; what is said of
-- two sweeps may.

local analysis = require 'ridge.sweep.analysis'
local best = require 'ridge.sweep.best'
local cheap_lab = dofile 'tests/lua/sweep/cheap_lab.lua'
local columns_of = require 'ridge.store.columns'
local compare = require 'ridge.sweep.compare'
local device = require 'ridge.measure.device'
local drift = require 'ridge.sweep.drift'
local folders = dofile 'tests/lua/store/folder.lua'
local front = require 'ridge.sweep.front'
local minutes = require 'ridge.measure.minutes'
local of_sweeps = require 'ridge.sweep.minutes'
local pack = require 'ridge.store.pack'
local passes = require 'ridge.measure.passes'
local program = require 'tests.lua.repl.program'
local query = require 'ridge.store.query'
local results = require 'ridge.store.results'
local rows_of = require 'ridge.plot.rows'
local series = require 'ridge.sweep.series'
local sqlite = require 'ridge.store.sqlite'
local store = require 'ridge.store'
local sweep = require 'ridge.sweep'

local MEDS, RATIOS = { 1000, 1012, 990, 1004, 996 }, { 1.031, 1.03, 1.029, 1.03, 1.032 }

local function near(want, got) assert.is_true(math.abs(want / got - 1) < 1e-7, got) end

-- The fifth pass joined to four before it, that many seconds apart.
local function joined(apart, source, over)
  local earlier = {}
  for i = 1, 4 do
    earlier[i] = { pass = i, worker_id = i, began = 1e6 * apart * (i - 1), timings = {
      ['fwd warm'] = { med = MEDS[i], ratio = RATIOS[i], dur = { MEDS[i] }, flags = '' } } }
  end
  local r = { med = MEDS[5], ratio = RATIOS[5], samples = { MEDS[5] }, flags = {} }
  for name, value in pairs(over or {}) do r[name] = value end
  return series.join(r, 'fwd', earlier, 5, { precision = 0.02 },
    { now_s = 4 * apart, minutes = source })
end

describe('passes of a point', function()
  local SOURCE = { sd = 0.02, kinds = { small = 0.001 }, how = 'assumed' }

  it('have what they have not seen in the interval of their time, not in that of their ratio',
    function()
      local own, ratio = passes.interval(MEDS), passes.interval(RATIOS)
      local none = joined(6, nil)
      near(own.lo, none.ci_lo)
      assert.is_nil(none.sd_minutes)
      local r = joined(6, SOURCE)
      near(0.02 * math.sqrt(1 - 24 / 600), r.sd_minutes)
      local lo, hi = minutes.widen(own.med, own.lo, own.hi, r.sd_minutes)
      near(lo, r.ci_lo)
      near(hi, r.ci_hi)
      assert.is_true(r.ci_hi / r.ci_lo > 1.08)
      assert.equal(none.ci_how .. '+assumed', r.ci_how)
      near(ratio.lo, r.ratio_lo)
      near(ratio.hi, r.ratio_hi)
      assert.is_true(r.ratio_lo > 1)
      assert.is_true(r.quiet_hi / r.quiet_lo > 1.08)
      -- how many passes are enough, and the grade
      for _, name in ipairs { 'med', 'precision', 'stop', 'grade', 'sd_between', 'sd_within' } do
        assert.equal(none[name], r[name], name)
      end
      assert.equal('precision', r.stop)
      assert.equal('A', r.grade)
    end)

  it('have less of it the more minutes they cover, and none from ten on', function()
    local last = math.huge
    for _, apart in ipairs { 0, 30, 75, 149 } do
      local r = joined(apart, SOURCE)
      assert.is_true(r.sd_minutes < last and r.sd_minutes > 0)
      last = r.sd_minutes
    end
    for _, apart in ipairs { 150, 4000 } do
      local r = joined(apart, SOURCE)
      assert.equal(0, r.sd_minutes)
      near(passes.interval(MEDS).lo, r.ci_lo)
      assert.equal('passes order+t', r.ci_how)
    end
  end)

  it('have that of their kind of work', function()
    assert.is_true(joined(1, SOURCE, { work = { flops = 64, bytes = 512 } }).sd_minutes < 0.0011)
    assert.is_true(joined(1, SOURCE, { work = { flops = 1e9, bytes = 1e6 } }).sd_minutes > 0.019)
  end)

  it('have none by a device, and none below five passes', function()
    local r = joined(6, SOURCE, { clock = device.CLOCK.name })
    assert.is_nil(r.sd_minutes)
    near(passes.interval(MEDS).lo, r.ci_lo)
    r = series.join({ med = 10, samples = { 10 }, flags = {} }, 'fwd', {}, 1, { precision = 0.1 },
      { now_s = 5, minutes = SOURCE })
    assert.is_nil(r.sd_minutes)
    assert.is_nil(r.ci_lo)
  end)
end)

-- -- Sweeps --------------------------------------------------------------------------------

describe('a sweep', function()
  local folder
  before_each(function() folder = folders.new() end)
  after_each(function() folders.remove(folder) end)

  -- Ten points, of which neighbours lie 1 % apart, in passes that scatter by 0.2 %; with a term of
  -- so much. Each pass moves each point otherwise, so that ratios within passes decide nothing.
  local function measured(name, sd, over)
    over = over or {}
    local lab, n = cheap_lab.new(), 0
    if sd then lab.minutes = function() return { sd = sd, kinds = {}, how = 'assumed' } end end
    local block = lab.block
    lab.block = function(...)
      n = n + 1
      return block(...)
    end
    local db = folder .. '/' .. name .. '.db'
    local sw = sweep(over.sweep or 'steps') {
      space = { k = sweep.range(1, over.last or 10) },
      anchor = over.anchor and { k = 5 } or nil,
      protocol = { passes = 5, max_passes = over.most or 5, precision = over.precision or 0.01 },
      measure = function(p, _, m)
        local off = ({ 0, 1, -1, 0.5, -0.5 })[(m.pass * p.k) % 5 + 1] * 0.002
        local ns = (over.times or 1) * (1000 + (over.step or 10) * p.k)
        m:time('fwd', function() return ns * (1 + off) end)
        m:cost('fwd', { flops = 1e6, bytes = 1e6 })
      end,
    }
    sw:run { db = db, lab = lab, progress = false, calibrate = false }
    return sw, db, n
  end

  it('stores it beside the interval that holds it, also in SQL', function()
    local sw, db = measured('a', 0.02)
    local plain = measured('b', nil)
    local rows, own = sw:results(), plain:results()
    for i, row in ipairs(rows) do
      local sd = row.fwd_between_minutes
      assert.is_true(sd > 0.015 and sd <= 0.02) -- less where the machine is busy
      assert.is_true(row.fwd_hi / row.fwd_lo > 1.08)
      local lo, hi = minutes.ends(row, 'fwd')
      for _, other in ipairs(own) do
        if other.k == row.k then
          near(other.fwd_lo, lo)
          near(other.fwd_hi, hi)
          assert.equal(other.grade, row.grade)
          assert.is_nil(other.fwd_between_minutes)
        end
      end
      assert.equal(rows[i].fwd_passes, 5)
    end
    local st = store.open(db)
    local row = st.db:row 'SELECT max(sd_minutes) AS most FROM result'
    assert.is_true(row.most > 0.015 and row.most <= 0.02)
    st:close()
    local _, text = program.run { 'query', 'steps', 'k, fwd_between_minutes', '--db', db }
    assert.matches('0%.0[12]%d', text)
  end)

  it('takes as many passes with it as without', function()
    local precision = 0.0015   -- less than the passes scatter by: the best has more of them
    local _, _, without = measured('c', nil, { most = 12, precision = precision })
    local _, _, with = measured('d', 0.2, { most = 12, precision = precision })
    assert.is_true(without >= 50)
    assert.equal(without, with)
    -- three that may each be the best, and are as precise as was asked for
    _, _, with = measured('r', 0.2, { most = 12, last = 3, step = 1 })
    assert.equal(3 * 5, with)
  end)

  it('decides within itself as without it', function()
    local function decided(sw)
      -- without what lies within passes, so that intervals have to answer
      local rows = {}
      for i, row in ipairs(sw:results()) do
        rows[i] = row
        row.fwd_by_pass = nil
      end
      table.sort(rows, function(a, b) return a.k < b.k end)
      local out = {}
      local goal = best.goal('min fwd', { fwd = -1 }, rows, 'the sweep')
      local set = best.set(rows, goal)
      for _, each in ipairs(set.set) do out[#out + 1] = 'best ' .. each.row.k end
      out[#out + 1] = 'behind ' .. set.behind
      for _, row in ipairs(analysis.pareto(rows, { min = { 'fwd' } })) do
        out[#out + 1] = 'front ' .. row.k
      end
      for i = 2, #rows do
        out[#out + 1] = rows_of.verdict(rows[i - 1], rows[i], 'fwd')
      end
      local points = {}
      for i, row in ipairs(rows) do
        local lo, hi = rows_of.own_interval(row, 'fwd')
        points[i] = ('%.3f %.3f'):format(lo, hi)
      end
      out[#out + 1] = table.concat(points, ' ')
      return out, set
    end
    local without = decided((measured('e', nil)))
    local with, set = decided((measured('f', 0.2)))
    assert.same(without, with)
    assert.equal('best 1', without[1])
    assert.equal('behind 9', without[2])
    assert.equal('lower', without[4])
    -- and shows what other minutes would say
    assert.is_true(set.set[1].hi / set.set[1].lo > 2)
    assert.is_true(set.set[1].own_hi / set.set[1].own_lo < 1.01)
  end)

  it('decides so by its columns, too, where no passes are shared', function()
    for _, sd in ipairs { 0.2, false } do
      local _, db = measured('p' .. tostring(sd), sd or nil)
      local raw = sqlite.open(db, 'write')
      raw:run 'UPDATE timing SET pass_med = NULL'
      raw:close()
      store.with(db, 'write', function(st) pack.update(st, 1) end)
      store.with(db, 'read', function(st)
        local own = query.sweep(st, 'steps')
        local columns = assert(columns_of.of(st, own))
        local goal = best.goal('min fwd', results.directions(st, own.id), columns, 'the sweep')
        local found = front.set(columns, goal)
        assert.same({ 1, 9 }, { found.n, found.behind })
        local width = found.set[1].hi / found.set[1].lo
        assert.equal(sd and true or false, width > 2, width)
        assert.is_true(found.set[1].own_hi / found.set[1].own_lo < 1.01)
        local row = columns:row(0)
        assert.equal(sd and true or false, row.fwd_between_minutes ~= nil)
      end)
    end
  end)

  it('holds the fast states of its points against each other without it', function()
    for _, sd in ipairs { 0.2, false } do
      local _, db = measured('q' .. tostring(sd), sd or nil)
      store.with(db, 'read', function(st)
        local found = compare.inside(st, 'steps', { a = { k = 1 }, b = { k = 9 }, time = 'quiet' })
        assert.equal('slower', found[1].verdict)
        assert.equal('unpaired', found[1].design)
      end)
    end
  end)

  it('ranks its points as without it, and says what their intervals hold', function()
    local _, with = measured('g', 0.2)
    local _, without = measured('h', nil)
    local function standing(db)
      local _, text, said = program.run { 'top', 'steps', '--by', 'fwd', '--db', db }
      local out = {}
      for word in text:gmatch '%f[%a](%l+)\n' do out[#out + 1] = word end
      return out, text .. said
    end
    local a, text = standing(with)
    local b = standing(without)
    assert.same(b, a)
    assert.is_true(#a >= 10, text)
    assert.is_nil(text:find 'between_minutes')
    assert.matches('up to 4%d%.%d %% for what other minutes differ by', text)
  end)

  it('knows its rates as well as its times, in top, in maps and on a front', function()
    local sw, db = measured('u', 0.02)
    local _, by_rate = program.run { 'top', 'steps', '--by', 'fwd.gflops', '--db', db }
    local _, by_time = program.run { 'top', 'steps', '--by', 'fwd', '--db', db }
    local function standing(text)
      local out = {}
      for word in text:gmatch '%f[%a](%l+)\n' do out[#out + 1] = word end
      return out
    end
    assert.is_true(#standing(by_rate) >= 10, by_rate)
    assert.same(standing(by_time), standing(by_rate))
    assert.matches('fwd_gflops_lo +fwd_gflops_hi +grade +standing', by_rate)
    local rows = sw:results()
    local a, b = rows[1], rows[2]
    local lo, hi = minutes.ends(a, 'fwd_gflops')
    local t_lo, t_hi = minutes.ends(a, 'fwd')
    near(a.fwd_flops / t_hi, lo)
    near(a.fwd_flops / t_lo, hi)
    for _, row in ipairs { a, b } do row.fwd_lo, row.fwd_hi = 500, 2000 end
    assert.equal('open', rows_of.verdict(a, b, 'fwd_gflops'))
    assert.equal(2, #analysis.pareto({ a, b }, { max = 'fwd_gflops' }))
    -- and not at all in too few passes
    for _, row in ipairs { a, b } do row.fwd_lo, row.fwd_hi = nil, nil end
    assert.equal('open', rows_of.verdict(a, b, 'fwd_gflops'))
    assert.equal(2, #analysis.pareto({ a, b }, { max = 'fwd_gflops' }))
    assert.equal(2, #analysis.pareto({ a, b }, { min = 'fwd' }))
  end)

  it('tells a drift of its anchor from points that carry it', function()
    local points = {}
    for i = 1, 6 do
      local t = 100 * (1 + 0.1 * (i % 2))
      local lo, hi = minutes.widen(t, 0.999 * t, 1.001 * t, 0.2)
      points[i] = { began = i, fwd = t, fwd_lo = lo, fwd_hi = hi, fwd_between_minutes = 0.2 }
    end
    local found = drift.of(points, points, 'fwd')
    assert.is_true(found.apart)
    assert.equal(6, found.moved)
  end)

  it('is held against another one with it', function()
    local function verdict(sd)
      local _, a = measured('i' .. tostring(sd), sd)
      local _, b = measured('j' .. tostring(sd), sd, { times = 1.05 })
      return compare.databases(a, b)[1]
    end
    assert.equal('open', verdict(0.02).verdict)
    assert.equal('the intervals are too wide', verdict(0.02).reason)
  end)

  it('is equal to its own copy, which is of the same minutes', function()
    local _, db = measured('k', 0.2)
    for _, found in ipairs(compare.databases(db, db)) do assert.equal('equal', found.verdict) end
  end)

  it('says in show how much of an interval it is, and what is left', function()
    local sw, db = measured('l', 0.02)
    local _, text = program.run { 'show', tostring(sw:results()[1].trial), '--db', db }
    assert.matches('of the interval [34]%.%d %% is drift, assumed: what other minutes differ by',
      text)
    local _, plain = measured('m', nil)
    local _, other = program.run { 'show', '1', '--db', plain }
    assert.matches('passes', other)
    assert.is_nil(other:find 'other minutes')
  end)
end)

-- -- The clock in stored sweeps ----------------------------------------------------------

describe('the clock of stored sweeps', function()
  local folder
  before_each(function() folder = folders.new() end)
  after_each(function() folders.remove(folder) end)

  local function stored_source(db)
    local st = store.open(db)
    local env = st.db:value 'SELECT max(env_id) FROM attempt'
    local last = st.db:value 'SELECT max(id) FROM sweep'
    local source = of_sweeps.source(st, env, last, nil)
    st:close()
    return source
  end

  -- Sweeps that far apart, each with the clock of its turn, in a database; the last one is new.
  local function source_of(clocks, apart_s, change)
    local db = folder .. '/clock.db'
    for i, hz in ipairs(clocks) do
      local lab = cheap_lab.new()
      local block, n = lab.block, 0
      lab.block = function(...)
        local list = block(...)
        n = n + 1
        for _, r in ipairs(list) do r.clock_hz = hz and hz * (1 + 1e-4 * (n % 3)) end
        return list
      end
      sweep('s' .. i) { space = { k = { 1, 2, 3 } }, protocol = { passes = 5, max_passes = 5 },
        measure = function(_, _, m) m:time('fwd', function() return 10 * m.pass end) end,
      }:run { db = db, lab = lab, progress = false, calibrate = false }
    end
    local raw = sqlite.open(db, 'write')
    for i = 1, #clocks do
      raw:run([[UPDATE attempt SET began = ?1 WHERE trial_id IN (SELECT t.id FROM trial t
        JOIN sweep s ON s.id = t.sweep_id WHERE s.name = ?2)]], 1e15 + 1e6 * i * apart_s, 's' .. i)
    end
    if change then change(raw) end
    raw:close()
    return stored_source(db)
  end

  -- Another environment, like the first one but for one thing.
  local function other_env(raw, change)
    raw:run [[INSERT INTO env(fp, machine_id, build_id, device_id, governor, turbo, smt, cpuset,
      cpu_quota, vars) SELECT x'77', machine_id, build_id, device_id, governor, turbo, smt, cpuset,
      cpu_quota, vars FROM env LIMIT 1]]
    raw:run('UPDATE env SET ' .. change .. ' WHERE id = (SELECT max(id) FROM env)')
  end

  local CLOCKS = { 3e9, 3.06e9, 2.97e9, 3.03e9, 2.94e9, 3e9, 3.05e9, 9e9 }

  it('is what their minutes differ by; that of the sweep itself does not count', function()
    local source = source_of(CLOCKS, 300)
    assert.equal('clock', source.how)
    -- 1.4 % by Student's factor of six over two
    assert.is_true(source.sd > 0.013 and source.sd < 0.022, source.sd)
  end)

  it('is known to ranks that are started here, too, and what ridge trust saw before it', function()
    local lab, db = cheap_lab.new(), folder .. '/clock.db'
    assert.equal('assumed', of_sweeps.here(db, lab).how)
    local own = source_of({ unpack(CLOCKS, 1, 7) }, 300)
    local source = of_sweeps.here(db, lab)
    assert.equal('clock', source.how)
    -- one sweep more: that which source_of leaves out
    assert.is_true(math.abs(source.sd / own.sd - 1) < 0.3 and source.sd ~= own.sd, source.sd)
    local other = cheap_lab.new()
    function other.threads() return 17 end
    assert.equal('assumed', of_sweeps.here(db, other).how)
    local facts = lab.facts()
    store.with(db, 'write', function(st)
      local rows = {}
      for name, value in pairs { up = 0.1, down = 0.1, seconds = 600, minutes = 0.007 } do
        rows[#rows + 1] = { name = 'trust.' .. name, threads = lab.threads(), unit = '1',
          value = value }
      end
      st:add_ceilings(st:find_device(facts.machine, facts.device), rows, 1e15)
    end)
    source = of_sweeps.here(db, lab)
    assert.same({ 'trust', 0.007 }, { source.how, source.sd })
    assert.equal('assumed', of_sweeps.here(db, other).how)
  end)

  it('is assumed where it was not measured', function()
    assert.equal('assumed', source_of({ false, false, false, false, false, false }, 300).how)
  end)

  it('is assumed where all lie within minutes', function()
    assert.equal('assumed', source_of(CLOCKS, 30).how)
  end)

  it('is assumed where it is one number for all, which nobody measured', function()
    assert.equal('assumed', source_of(CLOCKS, 300, function(raw)
      raw:run 'UPDATE timing SET clock_hz = 3e9'
    end).how)
  end)

  it('is assumed where others were of another environment', function()
    assert.equal('assumed', source_of(CLOCKS, 300, function(raw)
      other_env(raw, "governor = 'powersave'")
      raw:run [[UPDATE attempt SET env_id = (SELECT max(id) FROM env) WHERE trial_id IN
        (SELECT t.id FROM trial t WHERE t.sweep_id = (SELECT max(id) FROM sweep))]]
    end).how)
  end)

  it('is of one governor, one set of processors, one number of threads', function()
    -- the columns of a build are not asked for: its clock is the same
    assert.equal('clock', source_of(CLOCKS, 300, function(raw)
      other_env(raw, 'build_id = build_id')
      raw:run [[UPDATE attempt SET env_id = (SELECT max(id) FROM env) WHERE trial_id IN
        (SELECT t.id FROM trial t WHERE t.sweep_id = (SELECT max(id) FROM sweep))]]
    end).how)
    for _, change in ipairs { { 'turbo', '7' }, { 'smt', '7' }, { 'cpuset', "'5-6'" },
        { 'cpu_quota', '1.5' }, { 'vars', [['{"threads":77}']] }, { 'vars', "'{}'" } } do
      local name, value = unpack(change)
      local raw = sqlite.open(folder .. '/clock.db', 'write')
      local last = ' WHERE id = (SELECT max(id) FROM env)'
      raw:run('UPDATE env SET ' .. name .. ' = ' .. value .. last)
      raw:close()
      assert.equal('assumed', stored_source(folder .. '/clock.db').how, name)
      raw = sqlite.open(folder .. '/clock.db', 'write')
      raw:run('UPDATE env SET ' .. name .. ' = (SELECT ' .. name .. ' FROM env LIMIT 1)' .. last)
      raw:close()
    end
    assert.equal('clock', stored_source(folder .. '/clock.db').how)
  end)

  it('is of passes; times of an older ridge that had none have none', function()
    assert.equal('assumed', source_of(CLOCKS, 300, function(raw)
      raw:run 'UPDATE timing SET pass_med = NULL'
    end).how)
  end)

  it('was measured where one sweep has another one, be it the second newest alone', function()
    for _, name in ipairs { 's6', 's1' } do
      folders.remove(folder)
      folder = folders.new()
      assert.equal('clock', source_of(CLOCKS, 300, function(raw)
        raw:run [[UPDATE timing SET clock_hz = 3e9]]
        raw:run([[UPDATE timing SET clock_hz = 3.3e9 WHERE attempt_id IN (SELECT a.id FROM attempt a
          JOIN trial t ON t.id = a.trial_id JOIN sweep s ON s.id = t.sweep_id WHERE s.name = ?1)]],
          name)
      end).how, name)
    end
  end)

  it('is to what is no sweep that of the environment met last', function()
    local lab, db = cheap_lab.new(), folder .. '/clock.db'
    source_of(CLOCKS, 300, function(raw) other_env(raw, "governor = 'powersave'") end)
    assert.equal('assumed', of_sweeps.here(db, lab).how)
  end)
end)

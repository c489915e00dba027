-- SPDX-License-Identifier: MIT
-- Sweeps in passes, in a laboratory in which a plan is a Lua function that says its time: what a
-- pass stores, what the passes of a point come to, what goes wrong between them.

local cheap_lab = dofile 'tests/lua/sweep/cheap_lab.lua'
local folders = dofile 'tests/lua/store/folder.lua'
local passes = require 'ridge.measure.passes'
local results = require 'ridge.store.results'
local store = require 'ridge.store'
local sweep = require 'ridge.sweep'

-- Times of passes, not in order of size.
local TIMES = { 1.00, 1.10, 0.97, 1.30, 1.02, 1.01, 1.04, 0.99 }

describe('a sweep in passes', function()
  local folder, db, lab, calls

  before_each(function()
    folder = folders.new()
    db, lab, calls = folder .. '/s.db', cheap_lab.new(), {}
  end)
  after_each(function() folders.remove(folder) end)

  local function measure(p, _, m)
    calls[#calls + 1] = { k = p.k, pass = m.pass }
    m:time('fwd', function() return p.k * 10 * TIMES[m.pass] end)
  end

  local function declare(over)
    local spec = { space = { k = sweep.range(1, 6) }, measure = measure,
      protocol = { passes = 5, max_passes = 5 } }
    for key, value in pairs(over or {}) do spec[key] = value end
    return sweep 'land'(spec)
  end

  local function run(sw, over)
    local opt = { db = db, lab = lab, progress = false }
    for key, value in pairs(over or {}) do opt[key] = value end
    return sw:run(opt)
  end

  local function query(sql)
    local st = store.open(db)
    local rows = st.db:query(sql)
    st:close()
    return rows
  end

  local function row_of(sw, k)
    for _, row in ipairs(sw:results()) do if row.k == k then return row end end
  end

  it('visits all points in each pass, in another order', function()
    run(declare { space = { k = sweep.range(1, 12) } })
    assert.equal(60, #calls)
    local orders = {}
    for pass = 1, 5 do
      local seen, order = {}, {}
      for i = 1, 12 do
        local call = calls[(pass - 1) * 12 + i]
        assert.equal(pass, call.pass)
        assert.is_nil(seen[call.k])
        seen[call.k], order[i] = true, call.k
      end
      orders[table.concat(order, ' ')] = true
    end
    local n = 0
    for _ in pairs(orders) do n = n + 1 end
    assert.equal(5, n)
    -- each in memory that lies elsewhere, and not so afterwards
    local shifts = {}
    for _, seed in ipairs(lab.shifts) do shifts[seed] = true end
    n = 0
    for seed in pairs(shifts) do n = n + (seed ~= 0 and 1 or 0) end
    assert.equal(60, n)
    assert.equal(0, lab.shifts[#lab.shifts])
    -- and in another order of a point's plans
    local drawn
    drawn, n = {}, 0
    for _, seed in ipairs(lab.orders) do
      n = n + (drawn[seed] and 0 or 1)
      drawn[seed] = true
    end
    assert.equal(60, n)
  end)

  it('counts a point as done behind its last pass', function()
    local progress = require 'ridge.sweep.progress'
    local new, seen, counted = progress.new, nil, {}
    progress.new = function(...)
      seen = new(...)
      return seen
    end
    local ok, err = pcall(run, declare { measure = function(p, c, m)
      counted[#counted + 1] = seen.done
      measure(p, c, m)
    end })
    progress.new = new
    assert(ok, err)
    -- six points, five passes: none is done before the fifth, and then one after the other
    for i, n in ipairs(counted) do assert.equal(math.max(0, i - 25), n, i) end
    assert.same({ 30, 6 }, { #counted, seen.done })
  end)

  it('asks the allocator for other places, after the free memory went back', function()
    local lib, asked = package.loaded['ridge.ffi.lib'], {}
    package.loaded['ridge.ffi.lib'] = {
      rg_memory_trim = function(device) asked[#asked + 1] = { 'trim', device } end,
      rg_memory_shift = function(seed) asked[#asked + 1] = { 'shift', seed } end,
    }
    local ok, err = pcall(require('ridge.sweep.lab').shift, 4711)
    package.loaded['ridge.ffi.lib'] = lib
    assert(ok, err)
    assert.same({ { 'trim', 0 }, { 'shift', 4711 } }, asked)
  end)

  it('counts what a setup leaves in Lua as memory, too', function()
    local memory = require('ridge.sweep.lab').memory
    collectgarbage()
    local before = memory()
    local kept = {}
    for i = 1, 2 ^ 18 do kept[i] = i end
    collectgarbage()
    assert.is_true(memory() - before >= 2 ^ 20, #kept)
  end)

  it('is graded by the width of the interval, whatever the machine varies by', function()
    -- half-widths of 0.9 and 1.1 % beside a precision of 1 %, of passes 0.8 % apart
    for half, expected in pairs { [0.009] = { 'A', '' }, [0.011] = { 'C', 'IMPRECISE' } } do
      db = ('%s/%g.db'):format(folder, half)
      local sw = declare { space = { k = { 1 } }, measure = function(_, _, m)
        m:time('fwd', function() return 1000 * (1 + ({ 0, 1, -1, 0.5, -0.5 })[m.pass] * half) end)
      end }
      run(sw)
      local row = row_of(sw, 1)
      local width = (row.fwd_hi - row.fwd_lo) / (2 * row.fwd)
      assert.equal(half > 0.01, width > 0.01, width)
      assert.is_true(width < 0.012, width)
      assert.same(expected, { row.grade, row.flags })
    end
  end)

  it('keeps what each pass found, and what all come to', function()
    local sw = declare()
    run(sw)
    local row = row_of(sw, 3)
    local medians = {}
    for i = 1, 5 do medians[i] = 30 * TIMES[i] end
    local expected = passes.interval(medians)
    assert.near(expected.med, row.fwd, 1e-9)
    assert.near(expected.lo, row.fwd_lo, 1e-9)
    assert.near(expected.hi, row.fwd_hi, 1e-9)
    assert.near(expected.between, row.fwd_between, 0.01)
    assert.same({ 5, 5, 1, 100 }, { row.passes, row.fwd_passes, row.fwd_procs, row.fwd_n })
    assert.equal('ok', row.state)
    local stored = query(([[SELECT a.pass, a.turn, a.outcome, g.pass_med FROM attempt a
      JOIN timing g ON g.attempt_id = a.id AND g.cache = 'warm' WHERE a.trial_id = %d
      ORDER BY a.id]]):format(row.trial))
    for i = 1, 5 do
      assert.same({ i, 'ok' }, { stored[i].pass, stored[i].outcome })
      assert.near(medians[i], stored[i].pass_med, 1e-9)
    end
    assert.equal(100, #sw:samples(row, 'fwd').dur)
    assert.equal(5, sw:samples(row, 'fwd').passes[100])
    assert.same({ { version = 2 } }, query 'SELECT version FROM protocol')
    assert.equal(2, query('SELECT DISTINCT protocol FROM result')[1].protocol)
  end)

  it('shows a coarse result after the first pass, without an interval', function()
    local sw = declare { measure = function(p, c, m)
      if m.pass == 2 then error('interrupted', 0) end
      measure(p, c, m)
    end }
    local ok, err = pcall(run, sw)
    assert.is_false(ok)
    assert.matches('0 of 6 points, 6 of 30 passes are saved', err.message, 1, true)
    for _, row in ipairs(sw:results { db = db }) do
      assert.same({ 'ok', 1, row.k * 10 }, { row.state, row.passes, row.fwd })
      assert.is_nil(row.fwd_lo)
    end
    assert.same({ { state = 'ok', n = 6 } },
      query 'SELECT state, count(*) AS n FROM "land" GROUP BY 1')
    calls = {}
    assert.same({ ok = 6, total = 6 }, run(declare()).counts)
  end)

  it('goes on after an end as if there had been none', function()
    local sw = declare()
    run(sw)
    local whole = sw:results()
    db = folder .. '/other.db'
    local n = 0
    local function broken(p, c, m)
      n = n + 1
      if n % 7 == 0 then error('interrupted', 0) end
      measure(p, c, m)
    end
    local other
    repeat
      other = declare { measure = broken }
      local ok = pcall(run, other)
    until ok
    for i, row in ipairs(other:results()) do
      for _, name in ipairs { 'k', 'fwd', 'fwd_lo', 'fwd_hi', 'fwd_p95', 'fwd_passes', 'grade',
          'flags', 'passes' } do
        assert.equal(whole[i][name], row[name])
      end
    end
    assert.equal(30, query("SELECT count(*) AS n FROM attempt WHERE outcome='ok'")[1].n)
  end)

  -- Run a sweep; what it said on the way.
  local function told(sw, over)
    local said, progress = {}, require 'ridge.sweep.progress'
    local new = progress.new
    progress.new = function(name, counts, options)
      options.out = { write = function(_, ...) said[#said + 1] = table.concat { ... } end,
        flush = function() end }
      return new(name, counts, options)
    end
    over = over or {}
    over.progress = 'plain'
    local ok, err = pcall(run, sw, over)
    progress.new = new
    assert(ok, err)
    return table.concat(said)
  end

  it('says that a budget ended within the first pass, and gives no interval', function()
    local clock = require 'ridge.store.clock'
    local text = told(declare { space = { k = sweep.range(1, 60) }, measure = function(p, c, m)
      clock.sleep(0.02)
      measure(p, c, m)
    end }, { budget = 0.3 })
    assert.matches('within the first pass: of %d+ points there is one median each, without an '
      .. 'interval', text)
    assert.equal(0, query('SELECT count(*) AS n FROM timing WHERE ci_lo IS NOT NULL')[1].n)
  end)

  it('begins no point after the end of its budget, set up once or not', function()
    local clock = require 'ridge.store.clock'
    for _, reuse_setup in ipairs { false, true } do
      calls, db = {}, ('%s/%s.db'):format(folder, reuse_setup)
      -- six points are claimed at once; the first of them takes all of it
      run(declare { reuse_setup = reuse_setup or nil, measure = function(p, c, m)
        clock.sleep(0.3)
        measure(p, c, m)
      end }, { budget = 0.2 })
      assert.equal(1, #calls)
      assert.same({ { state = 'lost', n = 5 }, { state = 'ok', n = 1 } },
        query 'SELECT outcome AS state, count(*) AS n FROM attempt GROUP BY 1')
      assert.equal(6, query("SELECT count(*) AS n FROM trial WHERE state = 'pending'")[1].n)
    end
  end)

  it('takes a point that fails in its third pass only for failed, and says so', function()
    local sw = declare { measure = function(p, c, m)
      if p.k == 2 and m.pass == 3 then error 'bang' end
      measure(p, c, m)
    end }
    assert.same({ ok = 5, error = 1, total = 6 }, run(sw).counts)
    local row = row_of(sw, 2)
    assert.equal('error', row.state)
    assert.matches('^pass 3: measure: .*bang', row.reason)
    assert.is_nil(row.fwd)
    assert.equal(2, query [[SELECT count(*) AS n FROM attempt a JOIN timing g ON g.attempt_id = a.id
      AND g.cache = 'warm' WHERE a.trial_id IN (SELECT id FROM trial WHERE state = 'error')]][1].n)
  end)

  it('refuses a setup that makes other data in another pass', function()
    local n = 0
    local function setup(p)
      n = n + 1
      return { inputs = p.k == 2 and 'draw ' .. n or 'the same' }
    end
    local sw = declare { setup = setup }
    assert.same({ ok = 5, error = 1, total = 6 }, run(sw).counts)
    assert.matches('^pass 2: setup: it made other data than in pass 1.*reuse_setup',
      row_of(sw, 2).reason)
    -- where it is meant, a point is set up once and lives through its passes
    n, db = 0, folder .. '/kept.db'
    local kept = declare { setup = setup, reuse_setup = true }
    assert.same({ ok = 6, total = 6 }, run(kept).counts)
    assert.equal(6, n)
    assert.same({ 5, 1 }, { row_of(kept, 2).fwd_passes, row_of(kept, 2).fwd_procs })
  end)

  it('tells of a setup that leaves memory behind in every pass', function()
    local sw = declare { setup = function(p)
      if p.k == 4 then lab.live = lab.live + 3 * 2 ^ 20 end
    end }
    assert.matches('the setup of 1 point leaves memory behind in every pass', told(sw))
    assert.equal('every pass leaves 3.0 MB behind', row_of(sw, 4).reason)
    assert.is_nil(row_of(sw, 3).reason)
  end)

  it('times a partner beside each point and keeps their ratio', function()
    local sw = declare { space = { k = { 1, 4 } }, partner = function(p)
      return p.k ~= 1 and { k = 1 } or nil
    end, measure = function(p, _, m)
      -- the machine is in another state in every pass: the ratio does not see it
      m:time('fwd', function() return p.k * 10 * TIMES[m.pass] end)
    end }
    run(sw)
    local row = row_of(sw, 4)
    assert.near(4, row.fwd_ratio, 1e-9)
    assert.near(4, row.fwd_ratio_lo, 1e-9)
    assert.near(4, row.fwd_ratio_hi, 1e-9)
    assert.is_true(row.fwd_hi / row.fwd_lo > 1.2)
    assert.is_nil(row_of(sw, 1).fwd_ratio)
  end)

  it('forms the ratio of a pass that was broken off from all pairs of its windows', function()
    -- the point and its partner: 4 times as long in the first process, 2 in the second; the last
    -- window of the first process has no pair
    local FIRST, REST, block = { { 4, 4, 9 }, { 1, 1 } }, { { 6 }, { 3 } }, lab.block
    local broken, wanted = nil, {}
    local function windows(list, at) return { list[1][at] and list[1][at] * 10,
      list[2][at] and list[2][at] * 10 } end
    function lab.block(points, protocol, ceilings, tick, taken)
      local found = block(points, protocol, ceilings, tick)
      if #points == 1 then return found end
      wanted[#wanted + 1] = protocol.windows
      if not broken then
        broken = true
        for i = 1, 3 do
          for which, ns in pairs(windows(FIRST, i)) do
            taken(which, { cache = 'warm', clock = 'monotonic_raw', inner = 4, t0 = 5e12, ns = ns,
              at = i * 1e6, mark = 0 })
          end
        end
        error('interrupted', 0)
      end
      for which, r in ipairs(found) do
        r.samples, r.at, r.mark = { REST[which][1] * 10 }, { 1e6 }, { 0 }
      end
      return found
    end
    local function sw()
      return declare { space = { k = { 1, 4 } }, partner = function(p)
        return p.k ~= 1 and { k = 1 } or nil
      end, protocol = { passes = 5, max_passes = 5, windows = 4 } }
    end
    assert.is_false((pcall(run, sw())))
    assert.same({ { n = 3 }, { n = 2 } }, query [[SELECT s.n FROM timing g JOIN samples s
      ON s.timing_id = g.id JOIN attempt a ON a.id = g.attempt_id WHERE a.outcome = 'lost'
      ORDER BY g.phase]])
    local whole = sw()
    run(whole)
    -- of 4, 4 and 2 the median; of the new window alone it were 2
    -- and of 40, 40, 90 and 60 ns
    assert.same({ { pass = 1, pass_ratio = 4, pass_med = 50 },
      { pass = 2, pass_ratio = 2, pass_med = 40 * TIMES[2] } },
      query [[SELECT a.pass, g.pass_ratio, g.pass_med FROM timing g
        JOIN attempt a ON a.id = g.attempt_id
        WHERE g.pass_ratio IS NOT NULL AND a.outcome = 'ok' AND a.pass < 3 ORDER BY 1]])
    -- of four windows three are there; one alone would have no median
    assert.same({ 4, 2, 4, 4, 4, 4 }, wanted)
    -- among the rows of the sweep there is nothing of the partner's windows
    assert.is_nil(row_of(whole, 4)['fwd of its partner'])
  end)

  it('says why a point has no ratio, and is measured all the same', function()
    local sw = declare { space = { k = { 1, 4 } }, partner = function(p)
      return p.k ~= 1 and { k = 1, broken = true } or nil
    end, setup = function(p) if p.broken then error 'no such layer' end end }
    local text = told(sw)
    local row = row_of(sw, 4)
    assert.same({ 'ok', 5 }, { row.state, row.passes })
    assert.is_nil(row.fwd_ratio)
    assert.matches('1 x no ratio: its partner [^\n]*no such layer[^\n]* · ridge show %d+\n', text)
    assert.matches('^no ratio: its partner .*k=1.*: setup: .*no such layer', row.reason)
    assert.is_nil(row_of(sw, 1).reason)
  end)

  it('leaks what every one of several passes did not free, if that is a megabyte', function()
    local leak = require('ridge.sweep.series').leak
    local MB = 2 ^ 20
    local function left(...)
      local list = {}
      for i = 1, select('#', ...) do list[i] = { left_bytes = (select(i, ...)) } end
      return list
    end
    assert.is_nil(leak(left(), 5 * MB)) -- one pass alone may have filled a cache
    assert.equal(3 * MB, leak(left(3 * MB), 5 * MB))
    assert.equal(MB, leak(left(9 * MB, MB), 5 * MB))
    assert.equal(2 * MB, leak(left(9 * MB, 8 * MB), 2 * MB))
    assert.is_nil(leak(left(9 * MB, MB - 1), 5 * MB))
    assert.is_nil(leak(left(9 * MB, 0), 5 * MB))
    assert.is_nil(leak(left(9 * MB, nil), 5 * MB))
    assert.is_nil(leak(left(9 * MB), nil))
  end)

  it('says why a point has no ratio where the recipe names no partner that could be', function()
    local odd = { 'no table', { [1] = 4 }, { k = {} }, false, 'raises' }
    local sw = declare { space = { k = sweep.range(1, 5) }, partner = function(p)
      if p.k == 5 then error 'no such size' end
      return odd[p.k]
    end }
    local text = told(sw)
    assert.same({ ok = 5, total = 5 }, run(sw).counts)
    assert.equal(3, select(2, text:gsub('1 x no ratio: partner: ', ''))) -- the commonest
    local said = {}
    for k = 1, 5 do said[k] = row_of(sw, k).reason or '' end
    assert.equal("no ratio: partner: it is 'no table'; a table of parameters is expected, or nil",
      said[1]:gsub('"', "'"))
    assert.matches('^no ratio: partner: 1 = .* is no parameter and its value', said[2])
    assert.matches('^no ratio: partner: .*k.* = .* is no parameter and its value', said[3])
    assert.equal('', said[4])
    assert.matches('^no ratio: partner: .*no such size', said[5])
    assert.equal(0, query('SELECT count(*) AS n FROM timing WHERE ratio IS NOT NULL')[1].n)
  end)

  it('has more passes of points whose intervals leave something undecided', function()
    local sw = declare { space = { k = { 1, 2 }, kind = { 'a', 'b' } },
      protocol = { passes = 5, max_passes = 8 }, measure = function(p, _, m)
        -- at k = 1 a and b cross from pass to pass, at k = 2 b is twice as slow
        local cross = p.k == 1 and (m.pass % 2 == 0) == (p.kind == 'a') and 1.05 or 1
        m:time('fwd', function() return 10 * cross * (p.k == 2 and p.kind == 'b' and 2 or 1) end)
      end }
    run(sw)
    for _, row in ipairs(sw:results()) do assert.equal(row.k == 1 and 8 or 5, row.passes) end
  end)

  it('lets points that differ in words only stand next to each other in a pass', function()
    local order = {}
    run(declare { space = { k = sweep.range(1, 8), kind = { 'a', 'b', 'c' } },
      measure = function(p, _, m)
        order[#order + 1] = p.k
        m:time('fwd', function() return p.k end)
      end })
    for i = 25, #order, 3 do assert.same({ order[i], order[i] }, { order[i + 1], order[i + 2] }) end
  end)

  it('draws ratios by the passes, where the intervals of the points themselves overlap', function()
    local sw = declare { space = { k = { 1, 2 }, n = { 1, 2 }, kind = { 'a', 'b' } },
      measure = function(p, _, m)
        m:time('fwd', function() return 100 * TIMES[m.pass] * (p.kind == 'b' and 1.1 or 1) end)
      end }
    run(sw)
    local a, b
    for _, row in ipairs(sw:results()) do
      if row.k == 1 and row.n == 1 then
        if row.kind == 'a' then a = row else b = row end
      end
    end
    assert.is_true(a.fwd_hi > b.fwd_lo)
    local figure = sw:plot('ratio', { x = 'k', y = 'n', a = 'kind=b', b = 'kind=a' })
    assert.equal('kind=a wins in 4 cells, kind=b in 0; 0 are undecided.', figure.finding)
    assert.matches('medians of the ratios within each pass', figure:text())
    assert.matches('n = 100 samples a point in 5 passes', figure:text())
  end)

  it('is drawn over numbers, sample by sample at its time', function()
    local sw = declare { space = { k = { 1, 2, 3 }, kind = { 'a', 'b', 'c', 'd' } } }
    run(sw)
    local ok, err = pcall(sw.plot, sw, 'map', { z = 'fwd' })
    assert.is_false(ok) -- words are no axis that anybody wants unasked
    assert.matches('needs two parameters with several numbers', tostring(err.message or err))
    package.path = 'tests/lua/plot/?.lua;' .. package.path
    local rec = require('recorder').of(sw:plot('samples', { y = 'fwd' }))
    assert.equal(1, #rec:said 'seconds')
  end)

  it('is shown pass by pass, and while it runs', function()
    local program = require 'tests.lua.repl.program'
    local sw = declare { measure = function(p, c, m)
      if m.pass == 4 and #calls > 20 then error('interrupted', 0) end
      measure(p, c, m)
    end }
    pcall(run, sw)
    local _, out = program.run { 'watch', 'land', '--once', '--db', db }
    assert.matches('land  pass 4 of 5 %d/6', out)
    _, out = program.run { 'show', '1', '--db', db }
    assert.matches('warm +[%d.]+ ns  no interval  p95', out)
    assert.matches('; too few for an interval', out)
    run(declare())
    _, out = program.run { 'show', '1', '--db', db }
    assert.matches('med over 5 passes in 2 processes, 100 windows of 4 calls', out)
    assert.matches('%% between passes, .* within: most of it is between passes', out)
    assert.matches('passes  [%d.]+ ns  [%d.]+ ns  [%d.]+ ns  [%d.]+ ns  [%d.]+ ns\n', out)
    assert.matches('try 6, pass 5    ok', out)
  end)

  it('keeps metrics of the first pass, and needs no second one where nothing is timed', function()
    local sw = declare { measure = function(p, c, m)
      if m.pass == 1 then m:metric('size', p.k * p.k) end
      measure(p, c, m)
    end }
    run(sw)
    assert.equal(16, row_of(sw, 4).size)
    db, calls = folder .. '/untimed.db', {}
    local untimed = declare { measure = function(p, _, m)
      calls[#calls + 1] = p.k
      m:metric('size', p.k)
    end }
    assert.same({ ok = 6, total = 6 }, run(untimed).counts)
    assert.equal(6, #calls)
  end)

  it('does not join passes of two environments', function()
    local facts = lab.facts
    local sw = declare { measure = function(p, c, m)
      if m.pass == 3 then error('interrupted', 0) end
      measure(p, c, m)
    end }
    pcall(run, sw)
    function lab.facts()
      local out = facts()
      out.env = { governor = 'other', vars = { threads = 1 } }
      return out
    end
    sw = declare()
    run(sw)
    assert.equal(5, row_of(sw, 1).fwd_passes)
    assert.equal(6 * 7, query("SELECT count(*) AS n FROM attempt WHERE outcome='ok'")[1].n)
    assert.equal(0, query([[SELECT count(*) AS n FROM (SELECT 1 FROM attempt WHERE outcome = 'ok'
      GROUP BY series HAVING count(DISTINCT env_id) > 1)]])[1].n)
  end)

  it('has samples on one clock, whatever each pass began at', function()
    local sw = declare()
    run(sw)
    local row = row_of(sw, 1)
    local st = store.open(db, 'write')
    st.db:exec [[UPDATE samples SET t0 = 7e9 + (SELECT 1e9 * (a.pass - 1) FROM timing g
      JOIN attempt a ON a.id = g.attempt_id WHERE g.id = samples.timing_id)]]
    local s = results.samples(st, row.trial, 'fwd')
    st:close()
    assert.equal(7e9, s.t0)
    for i = 1, 100 do
      assert.near((s.passes[i] - 1) * 1e9 + s.at[(i - 1) % 20 + 1], s.at[i], 1e-3)
    end
    assert.is_true(s.at[20] < 1e9)
  end)

  it('survives a merge between its passes', function()
    local sw = declare { measure = function(p, c, m)
      if m.pass == 3 then error('interrupted', 0) end
      measure(p, c, m)
    end }
    pcall(run, sw)
    local all = folder .. '/all.db'
    require('ridge').merge(all, db)
    db = all
    sw = declare()
    run(sw)
    assert.equal(30, query("SELECT count(*) AS n FROM attempt WHERE outcome='ok'")[1].n)
    assert.equal(5, row_of(sw, 1).fwd_passes)
    local st = store.open(all)
    assert.equal(5, #results.passes(st, row_of(sw, 1).trial))
    st:close()
  end)
end)

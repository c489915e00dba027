-- SPDX-License-Identifier: MIT
-- Sweeps from end to end, with a laboratory in which a plan is a Lua function that says its time.

local cheap_lab = dofile 'tests/lua/sweep/cheap_lab.lua'
local folders = dofile 'tests/lua/store/folder.lua'
local store = require 'ridge.store'
local sweep = require 'ridge.sweep'

local function by_k(rows)
  local out = {}
  for _, row in ipairs(rows) do out[row.k] = row end
  return out
end

describe('a sweep', function()
  local folder, db, lab, calls

  before_each(function()
    folder = folders.new()
    db = folder .. '/s.db'
    lab, calls = cheap_lab.new(), {}
  end)
  after_each(function() folders.remove(folder) end)

  local function measure(p, _, m)
    calls[#calls + 1] = p.k
    m:time('fwd', function() return p.k * 10 end)
  end

  local function declare(over)
    local spec = { space = { k = sweep.range(1, 20) }, measure = measure }
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

  it('measures every point once, each by itself', function()
    local sw = declare()
    local summary = run(sw)
    assert.same({ ok = 20, total = 20 }, summary.counts)
    assert.equal(0, summary.failed)
    assert.equal(20, #calls)
    assert.equal(('1'):rep(20), table.concat(lab.blocks))
    for k, row in pairs(by_k(sw:results())) do
      assert.equal(k * 10, row.fwd)
      assert.equal('ok', row.state)
      assert.equal(k * 30, row.fwd_first)
      -- one pass is one observation: no interval, so nothing to lean on
      assert.is_nil(row.fwd_lo)
      assert.same({ 'C', 1 }, { row.grade, row.passes })
    end
  end)

  it('has nothing to do when it is complete, and no worker for that', function()
    run(declare())
    calls = {}
    assert.equal(20, run(declare()).counts.ok)
    assert.equal(0, #calls)
    assert.equal(1, query('SELECT count(*) AS n FROM worker')[1].n)
    assert.equal('done', query('SELECT state FROM sweep')[1].state)
  end)

  it('sets a point up, times it and lets it go before the next', function()
    local order = {}
    local sw = declare { measure = function(p, _, m)
      order[#order + 1] = 'm'
      m:time('fwd', function() order[#order + 1] = 't' return p.k end)
    end }
    lab.scoped = function(fn)
      fn()
      order[#order + 1] = '.'
    end
    run(sw)
    assert.equal(('mt.'):rep(20), table.concat(order))
  end)

  it('keeps a failing point with its reason and traceback, and goes on', function()
    local sw = declare { measure = function(p, c, m)
      if p.k == 3 then error 'bang' end
      if p.k == 4 then error { code = 'EARG', message = 'a table' } end
      measure(p, c, m)
    end }
    local summary = run(sw)
    assert.same({ ok = 18, error = 2, total = 20 }, summary.counts)
    assert.equal(2, summary.failed)
    local row = by_k(sw:results())[3]
    assert.equal('error', row.state)
    assert.matches('measure: .*sweep_spec.lua:%d+: bang', row.reason)
    assert.is_nil(row.fwd)
    local trace = query("SELECT trace FROM attempt WHERE message LIKE '%bang%'")[1].trace
    assert.matches('stack traceback', trace, 1, true)
  end)

  it('keeps what is infeasible apart from what failed', function()
    local sw = declare { measure = function(p, c, m)
      m:metric('full_rank', p.k)
      if p.k > 15 then m:infeasible('rank ' .. p.k .. ' is more than full') end
      measure(p, c, m)
    end }
    local summary = run(sw)
    assert.same({ ok = 15, infeasible = 5, total = 20 }, summary.counts)
    assert.equal(0, summary.failed)
    local row = by_k(sw:results())[17]
    assert.equal('rank 17 is more than full', row.reason)
    assert.equal(17, row.full_rank)
  end)

  it('has the memory of no other point beside that of a point', function()
    local alive, most = 0, 0
    lab.scoped = function(fn)
      fn()
      alive = 0
    end
    local sw = declare { setup = function(p)
      alive = alive + p.k
      most = math.max(most, alive)
      if alive > 25 then error({ code = 'ENOMEM', message = 'out of memory' }, 0) end
    end, space = { k = { 1, 2, 3, 4, 22, 24, 30 } } }
    local summary = run(sw)
    assert.same({ ok = 6, oom = 1, total = 7 }, summary.counts)
    assert.equal('oom', by_k(sw:results())[30].state)
    assert.equal(1, by_k(sw:results())[24].tries)
  end)

  it('keeps a point whose plan fails as such', function()
    local sw = declare { measure = function(p, _, m)
      m:time('fwd', function()
        if p.k == 5 then error 'a bad plan' end
        return p.k
      end)
    end }
    assert.same({ ok = 19, error = 1, total = 20 }, run(sw).counts)
    local row = by_k(sw:results())[5]
    assert.matches('time: .*a bad plan', row.reason)
    assert.equal(20, query('SELECT count(*) AS n FROM attempt')[1].n)
  end)

  it('takes the error of one result for that point only', function()
    local real = lab.block
    lab.block = function(points, ...)
      local results = real(points, ...)
      for i, point in ipairs(points) do
        if point.label:find 'k=7 ' then
          results[i] = { error = { code = 'ENOSUP', message = 'no' } }
        end
      end
      return results
    end
    assert.same({ ok = 19, error = 1, total = 20 }, run(declare()).counts)
  end)

  it('refuses a wrong answer before timing it', function()
    local sw = declare { setup = function(p) return { good = p.k ~= 2 and p.k ~= 3 } end,
      check = function(p, c)
        if p.k == 2 then return false end
        if p.k == 4 then return end -- says nothing, as a check by assert does
        if p.k == 5 then return nil, 'no reference' end
        return c.good, 'off by 0.5'
      end }
    assert.same({ ok = 17, error = 3, total = 20 }, run(sw).counts)
    assert.equal('check: no reference', by_k(sw:results())[5].reason)
    assert.equal('check: off by 0.5', by_k(sw:results())[3].reason)
    assert.equal('check: the result is wrong', by_k(sw:results())[2].reason)
  end)

  it('saves what is done at Ctrl-C and goes on from there', function()
    local n = 0
    local function stop_at(err, at)
      n = 0
      return declare { measure = function(p, c, m)
        n = n + 1
        if n == at then error(err, 0) end
        measure(p, c, m)
      end }
    end
    local sw = stop_at({ code = 'EINTR' }, 10)
    local ok, err = pcall(run, sw)
    assert.is_false(ok)
    assert.equal('EINTR', err.code)
    assert.matches('9 of 20 points are saved', err.message, 1, true)
    assert.same({ { state = 'ok', n = 9 }, { state = 'pending', n = 11 } },
      query 'SELECT state, count(*) AS n FROM trial GROUP BY state ORDER BY 1')
    assert.equal('interrupted', query('SELECT how FROM worker')[1].how)
    -- plain luajit's and the program's own text
    assert.equal('EINTR', select(2, pcall(run, stop_at('x.lua:3: interrupted!', 1))).code)
    assert.equal('EINTR', select(2, pcall(run, stop_at('interrupted', 1))).code)
    calls = {}
    assert.equal(20, run(stop_at(nil, 1e9)).counts.ok)
    assert.equal(11, #calls)
    assert.equal(20, query("SELECT count(*) AS n FROM attempt WHERE outcome='ok'")[1].n)
  end)

  it('leaves between windows when a stop is asked for', function()
    local asked = false
    lab.stopping = function() return asked end
    local real = lab.block
    lab.block = function(points, protocol, ceilings, tick)
      asked = #lab.blocks == 7
      return real(points, protocol, ceilings, tick)
    end
    local ok, err = pcall(run, declare())
    assert.is_false(ok)
    assert.equal('EINTR', err.code)
    assert.equal(7, query("SELECT count(*) AS n FROM trial WHERE state='ok'")[1].n)
  end)

  it('refuses to go on with something else under the same name', function()
    run(declare())
    for _, over in ipairs { { seed = 1 }, { args = { threads = 1 } },
        { protocol = { precision = 0.5 } }, { space = { k = sweep.range(1, 21) } } } do
      local ok, err = pcall(run, declare(over))
      assert.is_false(ok)
      assert.matches('made with something else', err.message, 1, true)
      assert.matches('--new', err.message, 1, true)
    end
    local sw = declare { space = { k = sweep.range(1, 21) } }
    assert.equal('land-2', run(sw, { new = true }).name)
    assert.equal(21, #sw:results())
    calls = {}
    assert.equal('land-2', run(sw).name)
    assert.equal(0, #calls)
  end)

  it('takes one more pass of what is of grade D, at the end', function()
    lab.flags = { 'THROTTLE', 'FREQ' }
    local sw = declare()
    run(sw)
    assert.equal(40, #calls)
    local rows = sw:results()
    assert.equal('FREQ IMPRECISE THROTTLE', rows[1].flags)
    assert.same({ 2, 2, 'D' }, { rows[1].tries, rows[1].passes, rows[1].grade })
    run(sw)
    assert.equal(40, #calls)
  end)

  it('calibrates a machine once', function()
    run(declare())
    run(declare { seed = 1 }, { new = true })
    assert.equal(1, lab.calibrations)
    lab.threads = function() return 1 end
    run(declare { seed = 2 }, { new = true })
    assert.equal(2, lab.calibrations)
    run(declare { seed = 3 }, { new = true, calibrate = false })
    assert.equal(2, lab.calibrations)
    local sw = declare { seed = 4 }
    run(sw, { new = true })
    assert.same({ 'fma.f32', 1, 1e11 }, { sw:ceilings()[1].name, sw:ceilings()[1].threads,
      sw:ceilings()[1].value })
  end)

  it('calibrates again where other processes were in the way, once they are not', function()
    lab.busy = true
    run(declare())
    assert.equal(1, lab.calibrations)
    run(declare { seed = 1 }, { new = true })
    assert.equal(1, lab.calibrations)
    lab.busy = false
    local sw = declare { seed = 2 }
    run(sw, { new = true })
    assert.equal(2, lab.calibrations)
    assert.equal(2, #sw:ceilings())
    lab.busy = true -- what is known stays known
    run(declare { seed = 3 }, { new = true })
    assert.equal(2, lab.calibrations)
  end)

  it('calibrates where nothing is known, and where it is told to, however busy', function()
    local calibrated, st = require 'ridge.sweep.calibrated', store.open(db, 'write')
    local facts = lab.facts()
    local id = st:device(st:machine(facts.machine), facts.device)
    local said = {}
    local function rows(again)
      local list, measured = calibrated.rows(st, id, lab, function(text) said[#said + 1] = text end,
        { again = again })
      return #list, measured
    end
    lab.busy = true
    assert.same({ 1, true }, { rows() })
    assert.same({ 1, false }, { rows() })
    assert.matches('not now: other processes run', said[#said])
    assert.same({ 1, true }, { rows(true) })
    lab.busy = false
    assert.same({ 2, true }, { rows() })
    assert.same({ 2, false }, { rows() })
    st:close()
  end)

  it('keeps what was timed with cold caches beside the warm', function()
    local before = lab.block
    lab.block = function(...)
      local results = before(...)
      for _, r in ipairs(results) do
        local cold = {}
        for name, value in pairs(r) do cold[name] = value end
        cold.cache, cold.med, cold.first_ns = 'cold', 2 * r.med, nil
        r.cold = cold
      end
      return results
    end
    local sw = declare { protocol = { passes = 5 } }
    run(sw)
    for _, row in ipairs(sw:results()) do
      assert.equal(2 * row.fwd, row.fwd_cold)
      assert.truthy(row.fwd_cold_lo and row.fwd_first)
    end
    local st = require('ridge.store').open(sw.db, 'read')
    assert.equal(0, st.db:value(('SELECT count(*) FROM "%s" WHERE fwd_cold <> 2 * fwd')
      :format(sw.name)))
    st:close()
  end)

  it('computes rates from costs', function()
    local sw = declare { measure = function(p, _, m)
      m:time('fwd', function() return 100 end)
      m:cost('fwd', { flops = 2000 * p.k, bytes = 100 })
      m:time('bwd', function() return 200 end)
    end }
    run(sw)
    local row = by_k(sw:results())[3]
    assert.equal(60, row.fwd_gflops)
    assert.equal(1, row.fwd_gbps)
    assert.equal(6000, row.fwd_flops)
    assert.equal(200, row.bwd)
    assert.is_nil(row.bwd_gflops)
    assert.same({ 20, 19 }, { sw:best('fwd.gflops', 2)[1].k, sw:best('fwd.gflops', 2)[2].k })
  end)

  it('measures the peak of a point as its own, whoever else is alive', function()
    lab.live, lab.peak = 1e6, 300
    local sw = declare { setup = function(p) lab.live = lab.live + 1000 * p.k end,
      measure = function(p, c, m)
        assert.equal(1000 * p.k + 300, m:peak('fwd', function() end))
        measure(p, c, m)
      end }
    assert.equal(20, run(sw).counts.ok)
    assert.equal(5300, by_k(sw:results())[5].fwd_peak_bytes)
    assert.equal(5300, query('SELECT peak_dev FROM attempt WHERE peak_dev=5300')[1].peak_dev)
  end)

  it('looks at the memory only when somebody asks for a peak', function()
    local looks = 0
    lab.live_bytes = function()
      looks = looks + 1
      return 0
    end
    run(declare())
    assert.equal(0, looks)
  end)

  it('seeds each point by itself', function()
    local seeds = {}
    local sw = declare { setup = function(p) seeds[p.k] = lab.seeds[#lab.seeds] end }
    run(sw)
    local first = seeds
    seeds = {}
    db = folder .. '/other.db'
    run(sw)
    assert.same(first, seeds)
    assert.not_equal(seeds[1], seeds[2])
  end)

  it('sets anchors apart from points', function()
    local sw = declare { anchor = { k = 7 } }
    assert.equal(22, run(sw).counts.ok)
    assert.equal(20, #sw:results())
    assert.equal(2, #sw:results { role = 'anchor' })
  end)

  it('gives the recipe copies of the parameters', function()
    local sw = declare { setup = function(p) p.k = 99 end }
    run(sw)
    assert.equal(20, sw:best('fwd', 20)[20].k)
  end)

  it('leaves points of grade D out of the best', function()
    local sw = declare()
    local real = lab.block
    lab.block = function(points, ...)
      local results = real(points, ...)
      for i, point in ipairs(points) do
        if point.label:find 'k=1 ' then results[i].flags = { 'ROOF' } end
      end
      return results
    end
    run(sw)
    assert.equal(2, sw:best('fwd')[1].k)
    assert.has_error(function() sw:best 'fwdd' end)
    assert.has_error(function() sw:best() end)
    for _, bad in ipairs { 0, -1, 1.5, -1e300, 0 / 0, '2' } do
      local ok, err = pcall(sw.best, sw, 'fwd', bad)
      assert.is_false(ok)
      assert.matches('sw:best: how many is a whole number from 1, got ', err.message, 1, true)
    end
  end)

  it('gives back the samples of a point', function()
    local sw = declare()
    run(sw)
    local samples = sw:samples(by_k(sw:results())[10], 'fwd')
    assert.equal(20, #samples.dur)
    assert.equal(100, samples.dur[10])
    assert.equal(5e12, samples.t0)
    assert.is_nil(sw:samples(by_k(sw:results())[10], 'bwd'))
  end)

  it('says what is wrong with a recipe', function()
    local function refused(pattern, fn)
      local ok, err = pcall(fn)
      assert.is_false(ok)
      assert.matches(pattern, tostring(err), 1, true)
    end
    refused('option measure is missing', function() sweep 'a' { space = { k = 1 } } end)
    refused("did you mean 'setup'", function()
      sweep 'a' { space = { k = 1 }, measure = measure, setu = measure }
    end)
    refused('name of a table', function() sweep 'trial' end)
    refused('unknown option', function() run(declare(), { worker = 4 }) end)
    local function reason(body)
      db = os.tmpname()
      local sw = declare { space = { k = 1 }, measure = body }
      run(sw)
      local row = sw:results()[1]
      os.execute('rm -f ' .. db .. '*')
      return row.reason
    end
    assert.matches('registered nothing', reason(function() end), 1, true)
    assert.matches('has a plan already', reason(function(p, c, m)
      measure(p, c, m)
      measure(p, c, m)
    end), 1, true)
    assert.matches('"k" is taken by a parameter', reason(function(_, _, m) m:metric('k', 1) end),
      1, true)
    assert.matches('"fwd_lo" is taken', reason(function(p, c, m)
      measure(p, c, m)
      m:metric('fwd_lo', 1)
    end), 1, true)
    assert.matches('taken by a field', reason(function(_, _, m) m:metric('state', 1) end), 1, true)
    assert.matches('expected a number', reason(function(_, _, m) m:metric('x', '1') end), 1, true)
    assert.matches('no plan', reason(function(_, _, m) m:time('fwd') end), 1, true)
    assert.matches("did you mean 'flops'", reason(function(_, _, m)
      m:cost('fwd', { flop = 1 })
    end), 1, true)
  end)

  it('keeps a metric that is not a number as such', function()
    local sw = declare { space = { k = 1 }, measure = function(_, _, m)
      m:metric('loss', 0 / 0)
    end }
    run(sw)
    local loss = sw:results()[1].loss
    assert.is_true(loss ~= loss)
    assert.equal('ok', sw:results()[1].state)
  end)

  it('keeps curves, which pictures and merged files have too', function()
    local function rows(scale)
      local list = {}
      for i = 1, 5 do
        list[i] = { step = i, seconds = i * 0.5, loss = i == 3 and 0 / 0 or scale / i }
      end
      return list
    end
    local sw = declare { space = { k = { 1, 2 } }, measure = function(p, _, m)
      m:curve('loss', rows(p.k))
    end }
    run(sw)
    assert.equal(10, query('SELECT count(*) AS n FROM curve')[1].n)
    assert.equal(2, query('SELECT count(*) AS n FROM curve WHERE value IS NULL')[1].n)
    local finding = sw:plot('training', { y = 'loss' }).finding
    assert.matches('Least in the end: 0%.2 %(k=1%)', finding)
    local all = folder .. '/all.db'
    require('ridge').merge(all, db)
    local st = store.open(all)
    assert.equal(10, st.db:value 'SELECT count(*) FROM curve')
    st:close()
    local function reason(list)
      local bad = declare { space = { k = 1 }, measure = function(_, _, m)
        m:curve('loss', list)
      end }
      run(bad, { new = true })
      return bad:results()[1].reason
    end
    assert.matches('loss has no steps', reason {})
    assert.matches('row 2 of loss wants a rising step', reason {
      { step = 2, seconds = 0, loss = 1 }, { step = 1, seconds = 1, loss = 1 } })
  end)

  it('reads its own results only', function()
    local ok, err = pcall(declare().results, declare(), { db = db })
    assert.is_false(ok)
    assert.matches('no results database', err.message, 1, true)
    run(declare())
    ok, err = pcall(function() return (sweep 'other' { space = { k = 1 }, measure = measure })
      :results { db = db } end)
    assert.is_false(ok)
    assert.matches('no sweep other', err.message, 1, true)
  end)
end)

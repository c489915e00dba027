-- SPDX-License-Identifier: MIT
--- A small sweep as a whole: every row it leaves in its database, read with SQL, beside a model of
--- it: which points, in which order, which passes, what each came to.

local canonical = require 'ridge.store.canonical'
local cheap_lab = dofile 'tests/lua/sweep/cheap_lab.lua'
local drift = require 'ridge.sweep.drift'
local folders = dofile 'tests/lua/store/folder.lua'
local sqlite = require 'ridge.store.sqlite'
local statistics = require 'ridge.measure.statistics'
local sweep = require 'ridge.sweep'
local window = require 'ridge.store.window'

local PASSES = 5

-- Nanoseconds of a call in a pass: half a per cent more in each.
local function time_of(p, pass) return 1000 * p.k * (1 + (pass - 3) / 200) end

-- The twenty windows of a pass, as the made-up laboratory has them.
local function windows_of(p, pass)
  local list = {}
  for i = 1, 20 do list[i] = time_of(p, pass) * (1 + (i - 10) / 1000) end
  return list
end

local function near(want, got, what)
  if type(want) ~= 'number' or type(got) ~= 'number' then return assert.equal(want, got, what) end
  assert.is_true(math.abs(want - got) <= 1e-9 * math.max(1, math.abs(want)),
    ('%s: want %.15g, got %.15g'):format(what, want, got))
end

-- Every column of a row: no more than expected, no less; ANY where it is of this run alone.
local ANY = {}
local function same_row(want, row, what)
  for name, value in pairs(row) do
    if want[name] == nil then error(('%s: %s = %s'):format(what, name, tostring(value))) end
  end
  for name, value in pairs(want) do
    if value == ANY then
      assert.is_truthy(row[name] ~= nil, what .. ': ' .. name)
    else
      near(value, row[name], what .. ': ' .. name)
    end
  end
end

describe('a sweep as a whole', function()
  local folder, file, said, made

  setup(function()
    folder = folders.new()
    local path = folder .. '/w.db'
    said, made = {}, {}
    local lab = cheap_lab.new()
    sweep 'whole' {
      space = { k = { 1, 2, 3 }, impl = { 'x', 'y' } }, anchor = { k = 1, impl = 'x' }, seed = 5,
      where = function(p) return not (p.k == 3 and p.impl == 'y') end,
      protocol = { passes = PASSES, max_passes = PASSES, precision = 0.02 },
      setup = function(p, m)
        made[#made + 1] = { k = p.k, impl = p.impl, pass = m.pass }
        return { inputs = 'sum of ' .. p.k }
      end,
      check = function(p)
        said[#said + 1] = p.k .. p.impl
        if p.k == 2 and p.impl == 'y' then return false, 'wrong by 3' end
        return true
      end,
      measure = function(p, _, m)
        if p.k == 1 and p.impl == 'y' then m:infeasible 'there is none' end
        m:time('fwd', function() return time_of(p, m.pass) end)
        m:cost('fwd', { flops = 8000 * p.k, bytes = 4000 * p.k })
        if m.pass == 1 then
          m:metric('loss', p.k == 2 and 0 / 0 or 1 / p.k, { better = 'lower', unit = 'nat' })
        end
        if p.k == 3 then
          m:curve('train', { { train = 0.5, seconds = 1 }, { train = 0 / 0, seconds = 2.5 },
            { train = 0.25, seconds = 4, step = 9 } })
        end
      end,
    }:run { db = path, lab = lab, progress = false, calibrate = false }
    file = sqlite.open(path, 'read')
  end)
  teardown(function()
    file:close()
    folders.remove(folder)
  end)

  local function rows(sql, ...) return file:query(sql, ...) end

  -- Which trials there are, by number: the anchor first and last, coarse points before fine ones
  -- (the middle of three is among the coarse), each once.
  local function trials()
    return rows [[SELECT t.*, c.params, hex(c.sha) AS sha FROM trial t
      JOIN config c ON c.id = t.config_id ORDER BY t.ord]]
  end

  local STATE = { ['1x'] = 'ok', ['1y'] = 'infeasible', ['2x'] = 'ok', ['2y'] = 'error',
    ['3x'] = 'ok' }

  it('is the row of what was declared', function()
    local list = rows 'SELECT * FROM sweep'
    assert.equal(1, #list)
    same_row({ id = 1, uuid = ANY, name = 'whole', base = 'whole', generation = 1, recipe_id = 1,
      protocol_id = 1, args = ANY, space = ANY, strategy = 'grid', seed = 5, n_rejected = 1,
      rules = '{"tries":{"crashed":2,"error":1,"lost":5,"oom":1,"timeout":1}}', state = 'done',
      created = ANY }, list[1], 'sweep')
    local space = canonical.decode(list[1].space)
    assert.same({ params = { impl = { 'x', 'y' }, k = { 1, 2, 3 } }, conditional = {}, points = 5,
      anchor = { impl = 'x', k = 1 }, digest = space.digest }, space)
    assert.same({ { version = 2, json = '{"max_passes":5,"passes":5,"precision":0.02,"version":2}' }
      }, rows 'SELECT version, json FROM protocol')
    assert.equal('whole_spec.lua', rows('SELECT name FROM recipe')[1].name)
  end)

  it('has its trials in their order, each with what became of it', function()
    local list, seen = trials(), {}
    assert.equal(7, #list)
    for i, t in ipairs(list) do
      local p = canonical.decode(t.params)
      local name = p.k .. p.impl
      local anchor = i == 1 or i == 7
      local state = STATE[name]
      local done = state == 'ok' and PASSES or 0
      if not anchor then
        assert.is_nil(seen[name])
        seen[name] = true
      end
      same_row({ id = i, uuid = ANY, sweep_id = 1, config_id = ANY, rep = i == 7 and 1 or 0,
        role = anchor and 'anchor' or 'point', state = state, ord = i, prio = 0,
        tries = math.max(done, 1), crashes = 0, again = 0, best_attempt = ANY,
        shard = tonumber(t.sha:sub(1, 8), 16), reused = 0, passes = done, turn = ANY,
        params = t.params, sha = ANY }, t, name)
      assert.equal(anchor and '1x' or name, name)
    end
    local n = 0
    for name in pairs(seen) do
      n = n + 1
      assert.is_truthy(STATE[name], name)
    end
    assert.equal(5, n)
  end)

  it('takes each pass of each, in passes over all, and checks in the first', function()
    local list = rows [[SELECT a.*, c.params, hex(a.series) AS own FROM attempt a
      JOIN trial t ON t.id = a.trial_id JOIN config c ON c.id = t.config_id ORDER BY a.id]]
    assert.equal(5 * PASSES + 2, #list) -- three points and two anchors; and two that fail at once
    local last, series, seed, orders = 1, {}, {}, {}
    for i, a in ipairs(list) do
      local p = canonical.decode(a.params)
      local name = p.k .. p.impl
      local state = STATE[name]
      local half = a.pass < PASSES -- of fewer than five passes there is no interval
      same_row({ id = i, uuid = ANY, trial_id = a.trial_id, n = a.pass, worker_id = 1, env_id = 1,
        began = ANY, ended = ANY, outcome = state, seed = ANY, pass = a.pass, series = ANY,
        turn = i, inputs = name ~= '2y' and 'sum of ' .. p.k or 'sum of 2', left_bytes = 0,
        flags = state == 'ok' and half and 'IMPRECISE' or '',
        grade = state == 'ok' and (half and 'C' or 'A') or nil, message = state == 'error'
          and 'check: wrong by 3' or state == 'infeasible' and 'there is none' or nil,
        trace = state == 'error' and ANY or nil, params = a.params, own = ANY }, a, name)
      assert.is_true(a.pass == last or a.pass == last + 1) -- nobody is a pass ahead
      last = a.pass
      assert.is_true(a.began <= a.ended)
      series[a.trial_id] = series[a.trial_id] or a.own
      assert.equal(series[a.trial_id], a.own)
      seed[name] = seed[name] or a.seed -- of the point, the same in each pass
      assert.equal(seed[name], a.seed)
      orders[a.pass] = (orders[a.pass] or '') .. a.trial_id
    end
    local distinct, different = {}, 0
    for _, value in pairs(seed) do
      assert.is_nil(distinct[value])
      distinct[value] = true
    end
    for pass = 3, PASSES do
      different = different + (orders[pass] ~= orders[2] and 1 or 0)
      assert.equal(5, #orders[pass])
    end
    assert.is_true(different > 0)
    -- the anchor's three namesakes, and every other once; set up as often as taken
    table.sort(said)
    assert.same({ '1x', '1x', '1x', '1y', '2x', '2y', '3x' }, said)
    assert.equal(#list, #made)
    for i, a in ipairs(list) do
      local p = canonical.decode(a.params)
      assert.same({ k = p.k, impl = p.impl, pass = a.pass }, made[i])
    end
  end)

  it('has of each pass what it and those before it came to', function()
    local list = rows [[SELECT g.*, a.pass, c.params, s.enc, s.n AS samples, s.t0, s.dur, s.at
      FROM timing g JOIN attempt a ON a.id = g.attempt_id JOIN trial t ON t.id = a.trial_id
      JOIN config c ON c.id = t.config_id LEFT JOIN samples s ON s.timing_id = g.id ORDER BY g.id]]
    assert.equal(2 * 5 * PASSES, #list)
    for _, g in ipairs(list) do
      local p = canonical.decode(g.params)
      local what = ('%s pass %d %s'):format(g.params, g.pass, g.cache)
      local want = { id = g.id, attempt_id = g.attempt_id, phase = 'fwd', clock = 'monotonic_raw',
        cache = g.cache, pass = g.pass, params = g.params, flags = '' }
      if g.cache == 'first' then
        local first = 3 * time_of(p, g.pass)
        for _, name in ipairs { 'min', 'med', 'max', 'mean' } do want[name] = first end
        want.n, want.inner = 1, 1
        same_row(want, g, what)
      else
        local all, meds, logs, within = {}, {}, {}, 0
        for pass = 1, g.pass do
          meds[pass], logs[pass] = time_of(p, pass), math.log(time_of(p, pass))
          local own = {}
          for i, ns in ipairs(windows_of(p, pass)) do
            -- what is read back of the passes before is in floats of 32 bits
            all[#all + 1], own[i] = ns, math.log(ns)
          end
          within = within + statistics.sd(own) ^ 2
        end
        local s = statistics.summary(all)
        for _, name in ipairs { 'min', 'p25', 'p75', 'p95', 'p99', 'max', 'mean', 'sd', 'mad' } do
          assert.near(s[name], g[name], 1e-6 * s[name] + 1e-3, what .. ' ' .. name)
          want[name] = ANY
        end
        table.sort(meds)
        local n, half = g.pass, nil
        want.med = n % 2 == 1 and meds[(n + 1) / 2] or math.sqrt(meds[n / 2] * meds[n / 2 + 1])
        if n == PASSES then -- the range, and Student's interval of the logarithms
          local t = 2.7764451052 * statistics.sd(logs) / math.sqrt(n)
          want.ci_lo = math.min(meds[1], math.exp(statistics.mean(logs) - t))
          want.ci_hi = math.max(meds[n], math.exp(statistics.mean(logs) + t))
          half = (want.ci_hi - want.ci_lo) / 2 / want.med
          assert.is_true(half < 0.02)
        end
        want.ci_how = half and 'passes order+t' or 'passes none'
        want.flags, want.grade = half and '' or 'IMPRECISE', half and 'A' or 'C'
        want.stop = half and 'precision' or 'passes'
        want.sd_within = ANY
        assert.near(math.sqrt(within / n), g.sd_within, 1e-6, what)
        if n > 1 then
          want.sd_between = ANY
          assert.near(math.sqrt(math.max(0, statistics.sd(logs) ^ 2
            - math.pi / 2 * within / n / 20)), g.sd_between, 1e-6, what)
        end
        want.n, want.n_eff, want.rounds, want.inner = 20 * n, n, n, 4
        want.warm_ns, want.warm_calls, want.ci_level, want.r1 = 1e8, 100, 0.95, 0.1
        want.drift, want.sentinel, want.thresholds = 0, 0, 'fixed'
        want.passes, want.procs, want.pass_med, want.pass_flags = n, 1, time_of(p, g.pass), ''
        if n >= 3 then want.quiet = ANY end -- seen by three passes
        if n >= 5 then want.quiet_lo, want.quiet_hi = ANY, ANY end
        want.enc, want.samples, want.t0 = 'dur:f32ns at:f64ns mark:u8', 20, 5e12
        want.dur, want.at = ANY, ANY
        same_row(want, g, what)
        assert.same({ 80, 160 }, { #g.dur, #g.at })
      end
    end
  end)

  it('keeps numbers of the first pass in each, and curves step by step', function()
    local list = rows [[SELECT m.*, a.pass, c.params FROM metric m
      JOIN attempt a ON a.id = m.attempt_id JOIN trial t ON t.id = a.trial_id
      JOIN config c ON c.id = t.config_id WHERE m.name = 'loss']]
    assert.equal(5 * PASSES, #list)
    for _, m in ipairs(list) do
      local k = canonical.decode(m.params).k
      same_row({ attempt_id = m.attempt_id, name = 'loss', unit = 'nat', better = -1,
        value = k ~= 2 and 1 / k or nil, how = k == 2 and 'nan' or nil, pass = m.pass,
        params = m.params }, m, m.params)
    end
    list = rows 'SELECT * FROM curve ORDER BY attempt_id, step'
    assert.equal(3 * PASSES, #list)
    for i, c in ipairs(list) do
      local at = (i - 1) % 3 + 1
      same_row({ attempt_id = c.attempt_id, name = 'train', step = ({ 1, 2, 9 })[at],
        value = ({ 0.5, nil, 0.25 })[at], t_ns = ({ 1e9, 2.5e9, 4e9 })[at] }, c, 'curve')
    end
  end)

  it('is one worker that ended', function()
    same_row({ n = 1, how = 'done', late = 0 }, rows [[SELECT count(*) AS n, how,
      ended < started AS late FROM worker]][1], 'worker')
  end)
end)

describe('points that stay set up', function()
  -- Broken off at each of their fifteen passes: what was claimed is free again, and the next run
  -- takes what is missing and no more.
  it('are given back when they are broken off, and taken up again', function()
    local folder, queue, returned = folders.new(), require 'ridge.store.queue', {}
    local start = queue.start
    finally(function() queue.start = start end)
    function queue.start(...)
      local worker = start(...)
      function worker:give_back(claims, why)
        for _, claim in ipairs(claims) do returned[#returned + 1] = claim.attempt end
        return getmetatable(self).__index.give_back(self, claims, why)
      end
      return worker
    end
    for at = 1, 15 do
      local path, taken, setups = ('%s/%d.db'):format(folder, at), {}, 0
      local function run()
        return pcall(function()
          return sweep 'kept' {
            space = { k = { 1, 2, 3 } }, reuse_setup = true,
            protocol = { passes = PASSES, max_passes = PASSES },
            setup = function()
              setups = setups + 1
              return {}
            end,
            measure = function(p, _, m)
              m:time('fwd', function()
                taken[#taken + 1] = p.k
                if #taken == at then error('interrupted!', 0) end
                return 0.5 + m.pass / 100
              end)
            end,
          }:run { db = path, lab = cheap_lab.new(), progress = false, calibrate = false }
        end)
      end
      returned = {}
      local ok, err = run()
      assert.is_false(ok)
      assert.equal('EINTR', err.code)
      assert.equal(math.min(at, 3), setups)
      local file = sqlite.open(path, 'read')
      -- every attempt that has no end, once, and none that has one
      local open = {}
      for _, row in ipairs(file:query "SELECT id FROM attempt WHERE outcome = 'lost'") do
        open[#open + 1] = row.id
      end
      table.sort(returned)
      table.sort(open)
      assert.same(open, returned)
      assert.equal(0, file:value "SELECT count(*) FROM trial WHERE state = 'running'")
      assert.equal(0, file:value "SELECT count(*) FROM attempt WHERE outcome = 'running'")
      assert.equal(at - 1, file:value "SELECT count(*) FROM attempt WHERE outcome = 'ok'")
      file:close()
      assert.is_true((run()))
      assert.equal(16, #taken)
      file = sqlite.open(path, 'read')
      assert.equal(15, file:value "SELECT count(*) FROM attempt WHERE outcome = 'ok'")
      assert.equal(3, file:value "SELECT count(*) FROM trial WHERE state = 'ok' AND passes = 5")
      file:close()
    end
    folders.remove(folder)
  end)
end)

describe('a time below a nanosecond', function()
  it('has the ends of its interval as they are', function()
    local folder = folders.new()
    local sw = sweep 'short' { space = { k = { 1 } }, protocol = { passes = 5, max_passes = 5 },
      measure = function(_, _, m) m:time('fwd', function() return 0.5 + m.pass / 100 end) end }
    sw:run { db = folder .. '/s.db', lab = cheap_lab.new(), progress = false, calibrate = false }
    local row = sw:results()[1]
    assert.near(0.53, row.fwd, 1e-9)
    assert.is_true(row.fwd_lo > 0.49 and row.fwd_lo <= 0.51)
    assert.is_true(row.fwd_hi < 0.57 and row.fwd_hi >= 0.55)
    folders.remove(folder)
  end)
end)

describe('a curve', function()
  it('of rows that are none is refused in a sentence', function()
    local Point = require 'ridge.sweep.point'
    local nan, many = 0 / 0, math.huge
    for _, list in ipairs { { 0.5 }, { 'x' }, { { loss = 1 } }, { { seconds = 1 } },
        { { loss = '1', seconds = 1 } }, { { loss = 1, seconds = nan } },
        { { loss = 1, seconds = many } }, { { loss = 1, seconds = -many } },
        { { loss = 1, seconds = 1, step = nan } }, { { loss = 1, seconds = 1, step = many } },
        { { loss = 1, seconds = 1, step = 0 } }, { { loss = 1, seconds = 1, step = 'x' } } } do
      local m = Point.new({}, cheap_lab.new(), nil, 1)
      local ok, err = pcall(m.curve, m, 'loss', list)
      assert.is_false(ok)
      assert.equal('m:curve: row 1 of loss wants a rising step, seconds and loss', err.message)
    end
    local m = Point.new({}, cheap_lab.new(), nil, 1)
    local ok, err = pcall(m.curve, m, 'loss', { { loss = 1, seconds = 1, step = 3 },
      { loss = 1, seconds = 2, step = 3 } })
    assert.is_false(ok)
    assert.equal('m:curve: row 2 of loss wants a rising step, seconds and loss', err.message)
  end)
end)

-- -- Two rules on their own ------------------------------------------------------------------

describe('what an anchor says', function()
  local function anchor(at, t, half) return { began = at, fwd = t, fwd_lo = t - half,
    fwd_hi = t + half } end

  it('is beyond its intervals where two of them lie apart, not where they touch', function()
    for _, case in ipairs { { 5, false }, { 4.999, true }, { 6, false } } do
      local found = drift.of({}, { anchor(0, 100, case[1]), anchor(10, 110, case[1]) }, 'fwd')
      assert.equal(case[2], found.apart)
      assert.near(1.1, found.ratio, 1e-12)
    end
  end)

  it('is a line between two of them, and level beyond', function()
    local anchors = { anchor(10, 80, 1), anchor(20, 100, 1), anchor(40, 120, 1) } -- usually 100
    for at, factor in pairs { [0] = 0.8, [10] = 0.8, [15] = 0.9, [20] = 1, [25] = 1.05, [30] = 1.1,
        [40] = 1.2, [99] = 1.2 } do
      local found = drift.of({ { began = at, fwd = 50, fwd_lo = 45, fwd_hi = 55, grade = 'A' } },
        anchors, 'fwd')
      assert.near(factor, found.rows[1].fwd_drift, 1e-12)
      assert.near(50 / factor, found.rows[1].fwd_steady, 1e-9)
      local steady = 50 / factor
      assert.equal((steady < 45 or steady > 55) and 1 or 0, found.moved)
      assert.same({ 1, 3, true }, { found.points, found.n, found.best_stays })
    end
  end)
end)

describe('windows of lost attempts', function()
  local folder, st
  setup(function() folder = folders.new() end)
  teardown(function()
    st:close()
    folders.remove(folder)
  end)

  it('are those since the last that ended, by the clock of the first', function()
    local queue, identity = require 'ridge.store.queue', require 'ridge.store.identity'
    st = require('ridge.store').open(folder .. '/k.db', 'write')
    local own = identity.ensure(st, { name = 'q', recipe_name = 'r.lua', recipe = 'code',
      args = '{}', space = '{"params":{"k":[1]},"points":1}', protocol = '{"precision":0.01}',
      seed = 1, n_rejected = 0, trials = { { params = { k = 1 }, role = 'point', rep = 0,
        ord = 1 } } })
    local machine = st:machine { cpu = 'c' }
    local env = st:env { machine_id = machine, build_id = st:build { ridge = '1' },
      device_id = st:device(machine, { kind = 'cpu', uuid = 'cpu', name = 'c' }) }
    local worker = queue.start(st, machine)
    local function lost(list)
      local claim = worker:claim(own, 1, env)[1]
      local text = {}
      for i, w in ipairs(list) do
        text[i] = window.line(claim.attempt, { phase = w[5] or 'fwd', cache = 'warm',
          clock = 'monotonic_raw', inner = 4, t0 = w[1], at = w[2], ns = w[3], mark = w[4],
          partner = w[6] })
      end
      st:within(function() window.keep(st.db, worker.id, table.concat(text)) end)
      worker:give_back({ claim }, 'gone')
    end
    lost { { 5e12, 0, 100, 0 }, { 5e12, 8e6, 101, 1 }, { 5e12, 9e6, 50, 0, 'fwd', true } }
    lost { { 6e12, 1e6, 102, 3 }, { 6e12, 2e6, 7, 0, 'bwd' } }
    local claim = worker:claim(own, 1, env)[1]
    local kept = window.kept(st.db, claim, env)
    assert.same({
      ['fwd warm'] = { t0 = 5e12, dur = { 100, 101, 102 }, at = { 0, 8e6, 1e12 + 1e6 },
        mark = { 0, 1, 3 } },
      ['fwd of its partner warm'] = { t0 = 5e12, dur = { 50 }, at = { 9e6 }, mark = { 0 } },
      ['bwd warm'] = { t0 = 6e12, dur = { 7 }, at = { 2e6 }, mark = { 0 } },
    }, kept)
    assert.same({}, window.kept(st.db, claim, env + 1))
    worker:finish 'done'
  end)
end)

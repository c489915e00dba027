-- SPDX-License-Identifier: MIT
-- A sweep that two unlike machines share: how far they are apart by its anchor, and what is refused
-- of its rows unless it is asked for.

local anchors = require 'ridge.sweep.anchors'
local cheap_lab = dofile 'tests/lua/sweep/cheap_lab.lua'
local compare = require 'ridge.sweep.compare'
local extra = require 'ridge.sweep.extra'
local folders = dofile 'tests/lua/store/folder.lua'
local program = require 'tests.lua.repl.program'
local ridge = require 'ridge'
local store = require 'ridge.store'
local sweep = require 'ridge.sweep'
local unlike = require 'ridge.sweep.unlike'

local OFF = { 0, 0.01, -0.01, 0.005, -0.005 } -- of a pass

-- A laboratory on a machine; all takes `slower` times as long there.
local function lab_of(cpu, slower)
  local lab = cheap_lab.new()
  local facts = lab.facts
  lab.slower = slower
  lab.facts = function()
    local out = facts()
    out.machine.cpu = cpu
    return out
  end
  return lab
end

local function declared(lab, name, without)
  return sweep(name or 'shared') {
    space = { k = sweep.range(1, 12), impl = { 'x', 'y' } },
    anchor = not without and { k = 1, impl = 'x' } or nil,
    protocol = { passes = 5, max_passes = 5 },
    measure = function(p, _, m)
      m:time('fwd', function()
        return 1000 * p.k * (p.impl == 'y' and 1.2 or 1) * (1 + OFF[m.pass]) * lab.slower
      end)
    end,
  }
end

local function run(lab, path, shard, name, without)
  declared(lab, name, without):run { db = path, lab = lab, progress = false, calibrate = false,
    shard = shard }
end

describe('a sweep of two unlike machines', function()
  local folder, all, fast, slow, nodes, plain
  setup(function()
    folder = folders.new()
    local function path(name) return ('%s/%s.db'):format(folder, name) end
    all, fast, slow, nodes, plain = path 'all', path 'fast', path 'slow', path 'nodes', path 'plain'
    run(lab_of('Fast 1', 1), path 'part-0', '1/2')
    run(lab_of('Slow 2', 1.5), path 'part-1', '2/2')
    ridge.merge(all, path 'part-0', path 'part-1')
    run(lab_of('Fast 1', 1), fast)
    run(lab_of('Slow 2', 1.5), slow)
    for i = 1, 2 do -- of one kind
      run(lab_of('Fast 1', 1), path('node-' .. i), ('%d/2'):format(i))
      store.with(path('node-' .. i), 'write', function(st)
        st.db:run('UPDATE worker SET boot_id = ?', 'boot of node ' .. i)
      end)
    end
    ridge.merge(nodes, path 'node-1', path 'node-2')
    run(lab_of('Fast 1', 1), path 'plain-0', '1/2', 'plain', true)
    run(lab_of('Slow 2', 1.5), path 'plain-1', '2/2', 'plain', true)
    ridge.merge(plain, path 'plain-0', path 'plain-1')
  end)
  teardown(function() folders.remove(folder) end)

  local function told(path, name)
    return store.with(path, 'read', function(st)
      return unlike.told(st, { require('ridge.store.query').sweep(st, name or 'shared') })
    end)
  end

  it('says by its anchor how far they are apart', function()
    store.with(all, 'read', function(st)
      local kinds = unlike.kinds(st, { { id = 1 } })
      local list = anchors.observed(st, { { id = 1 } })
      local found = anchors.ratios(list, kinds[1].key, list, kinds[2].key)
      assert.equal(1, #found)
      local wanted = kinds[1].cpu == 'Fast 1' and 1.5 or 1 / 1.5
      assert.near(wanted, found[1].ratio, 1e-9)
      -- three anchors (24 points), five passes each, on both: attempts of one trial that merged
      assert.same({ 'fwd', 3, 3, 15, 15 }, { found[1].phase, found[1].a, found[1].b,
        found[1].a_passes, found[1].b_passes })
      -- each end against the far end: the passes are within 1 %
      assert.is_true(found[1].lo < wanted and wanted < found[1].hi)
      assert.is_true(found[1].lo > wanted * 0.979 and found[1].hi < wanted * 1.021)
    end)
    local text = told(all)
    assert.matches('the anchor takes x[%d.]+ %([%d.]+ to [%d.]+%) in fwd by 3 anchors each, 15 and '
      .. '15 passes on %S+ %d beside %S+ %d$', text)
    assert.is_truthy(text:find('x1.5 (', 1, true) or text:find('x0.667 (', 1, true), text)
    assert.is_nil(told(fast))
    assert.is_nil(told(nodes))
    assert.matches(anchors.NONE .. '$', told(plain, 'plain'))
  end)

  it('has no say for anchors that were disturbed, and no interval below five passes', function()
    local list = {}
    local function observe(key, med, series, grade)
      list[#list + 1] = { base = 's', version = 2, params = '{}', phase = 'f', med = med,
        series = series, key = key, grade = grade }
    end
    for i = 1, 4 do observe('a', 100 + i, 'p') end
    for i = 1, 6 do observe('b', 200 + i, 'q') end
    local found = anchors.ratios(list, 'a', list, 'b')[1]
    assert.near(203.5 / 102.5, found.ratio, 0.01)
    assert.is_nil(found.lo)
    assert.matches('^x1.99 %(no interval: fewer than five passes%) in f by 1 anchor each, 6 and 4 '
      .. 'passes$', anchors.words { found })
    assert.same({}, anchors.ratios(list, 'a', list, 'c'))
    -- each side at 97.5 %, so that both hold at 95: an interval at 95 % is narrower
    local many = {}
    for i = 1, 9 do
      many[#many + 1] = { base = 's', version = 2, params = '{}', phase = 'f', med = 100 + i,
        series = 'p', key = 'a' }
      many[#many + 1] = { base = 's', version = 2, params = '{}', phase = 'f', med = 100 + i,
        series = 'q', key = 'b' }
    end
    local meds = {}
    for i = 1, 9 do meds[i] = 100 + i end
    local side = require('ridge.measure.passes').interval(meds, { level = 0.975 })
    local ratio = anchors.ratios(many, 'a', many, 'b')[1]
    assert.near(side.lo / side.hi, ratio.lo, 1e-12)
    assert.not_equal(side.lo, require('ridge.measure.passes').interval(meds, { level = 0.95 }).lo)
    local path = folder .. '/disturbed.db'
    ridge.merge(path, all)
    store.with(path, 'write', function(st)
      st.db:exec [[UPDATE timing SET grade = 'D' WHERE attempt_id IN (SELECT a.id FROM attempt a
        JOIN trial t ON t.id = a.trial_id JOIN env e ON e.id = a.env_id
        JOIN machine m ON m.id = e.machine_id WHERE t.role = 'anchor' AND m.cpu = 'Slow 2'
        AND a.pass = 5)]]
    end)
    assert.matches(anchors.NONE .. '$', told(path))
  end)

  -- A file of the fast machine alone, with a second machine that no point is of yet; then some SQL.
  local function with_other(name, sql)
    local path = ('%s/%s.db'):format(folder, name)
    ridge.merge(path, fast)
    store.with(path, 'write', function(st)
      st.db:exec [[INSERT INTO machine SELECT 90, x'b0b1b2b3b4b5b6b7', 'node2', 'Slow 2', sockets,
          cores, threads, isa, l1d, l2, l3, ram, os, kernel, virt, facts FROM machine WHERE id = 1;
        INSERT INTO device SELECT 90, 90, kind, uuid, name, mem, facts FROM device WHERE id = 1;
        INSERT INTO env SELECT 90, x'e0', 90, build_id, 90, governor, turbo, smt, aslr, thp, cpuset,
          cpu_quota, vars FROM env WHERE id = 1]]
      st.db:exec(sql)
    end)
    return path
  end

  it('may share a point: it is of both, and of the machine of its last pass', function()
    for cpu, passes in pairs { ['Fast 1'] = 'pass < 3', ['Slow 2'] = 'pass > 3' } do
      local path = with_other('passes ' .. cpu, ([[UPDATE attempt SET env_id = 90 WHERE %s
        AND trial_id IN (SELECT id FROM trial WHERE role = 'point')]]):format(passes))
      store.with(path, 'read', function(st)
        local found = unlike.kinds(st, { { id = 1 } })
        assert.same({ 2, 24, 24 }, { #found, found[1].points, found[2].points })
      end)
      local rows = ridge.open(path):sweep 'shared':results()
      assert.equal(24, #rows)
      for _, row in ipairs(rows) do
        assert.equal(cpu, row.cpu)
        assert.equal(cpu, unlike.place(row).cpu)
        assert.equal(cpu == 'Slow 2', row.machine == 'mb0b1b2b')
      end
    end
  end)

  it('takes warm caches of an anchor where it has cold ones, too, else the cold ones', function()
    local COLD = [[INSERT INTO timing(attempt_id, phase, clock, cache, n, inner, med, pass_med,
        grade)
      SELECT a.id, 'fwd', 'wall', 'cold', 1, 1, %d, %d, 'A' FROM attempt a
      JOIN trial t ON t.id = a.trial_id WHERE t.role = 'anchor' AND a.outcome = 'ok']]
    local cold = COLD:format(7e6, 7e6)
    local without = "; DELETE FROM timing WHERE cache = 'warm'"
    for name, each in pairs { both = { cold, 1000 }, cold = { cold .. without, 7e6 } } do
      store.with(with_other(name, each[1]), 'read', function(st)
        local list = anchors.observed(st, { { id = 1 } })
        assert.equal(15, #list)
        for _, row in ipairs(list) do
          assert.is_true(math.abs(row.med / each[2] - 1) < 0.02, row.med)
        end
      end)
    end
  end)

  local SIDES = { a = { impl = 'x' }, b = { impl = 'y' } }
  local function inside(path, more)
    local given = { a = SIDES.a, b = SIDES.b }
    for name, value in pairs(more or {}) do given[name] = value end
    local list, apart
    store.with(path, 'read', function(st) list, apart = compare.inside(st, 'shared', given) end)
    return list, apart
  end

  local function refused(what, f, ...)
    local ok, e = pcall(f, ...)
    assert.is_false(ok, 'not refused')
    assert.equal('EARG', e.code)
    for _, part in ipairs { what, 'of unlike machines', 'Fast 1', 'Slow 2', 'the anchor takes' } do
      assert.is_truthy(e.message:find(part, 1, true), part .. ' is not in ' .. e.message)
    end
    return e.message
  end

  it('has no verdicts between its points unless asked', function()
    assert.matches('mixed', refused('compare: points of shared are', inside, all))
    local list, text = inside(all, { mixed = true })
    assert.equal(12, #list)
    assert.matches('the anchor takes', text)
    local n = {}
    for _, found in ipairs(list) do
      n[found.design] = (n[found.design] or 0) + 1
      if found.design == 'of machines' then
        -- a ratio of its two machines, by intervals that nothing paired
        assert.is_true(found.ratio > 1.7 or found.ratio < 0.9, found.ratio)
        assert.is_true(found.machines.a ~= found.machines.b)
        assert.is_true(found.ci_lo < 0.99 * found.ratio and found.ci_hi > 1.01 * found.ratio)
      else
        assert.near(1.2, found.ratio, 1e-9)
        assert.is_nil(found.machines)
      end
    end
    assert.is_true(n['of machines'] > 2 and n['paired by pass'] > 2)
    local machine = ridge.query('shared', 'machine, cpu', { db = all, where = "cpu = 'Slow 2'" })
    local of_one, nothing = inside(all, { where = ("machine = '%s'"):format(machine[1].machine) })
    assert.is_true(#of_one > 1 and #of_one < 12)
    assert.is_nil(nothing)
    for _, found in ipairs(of_one) do
      assert.same({ 'paired by pass', 'slower' }, { found.design, found.verdict })
    end
    assert.equal(12, #inside(fast))
  end)

  it('compares passes only where one machine took them', function()
    local n = {}
    for _, found in ipairs(inside(nodes)) do
      n[found.design] = (n[found.design] or 0) + 1
      assert.near(1.2, found.ratio, 1e-9)
    end
    assert.is_true(n['unpaired'] > 2 and n['paired by pass'] > 2 and n['of machines'] == nil)
  end)

  it('has none against another file either, but a file a machine has', function()
    refused('compare: points of shared in ' .. all, compare.databases, all, fast)
    refused('compare: points of shared in ' .. all, compare.databases, slow, all)
    local list, _, apart = compare.databases(all, fast, { mixed = true })
    assert.equal(24, #list)
    assert.matches('the anchor takes x', apart)
    list, _, apart = compare.databases(fast, slow) -- two files, two machines: it was asked
    assert.equal('of machines', list[1].design)
    assert.matches('the anchor takes x1.5 %(1.4%d+ to 1.5%d*%) in fwd by 3 anchors each, 15 and 15 '
      .. 'passes on Slow 2 beside Fast 1', apart)
    list, _, apart = compare.databases(all, all) -- each point beside itself
    assert.equal(24, #list)
    assert.is_nil(apart)
    assert.is_nil((select(3, compare.databases(fast, nodes))))
    local of_all, of_fast = ridge.open(all):sweep 'shared', ridge.open(fast):sweep 'shared'
    refused('compare: points of shared in ', of_all.compare, of_all, of_fast)
    assert.equal(24, #of_all:compare(of_fast, { mixed = true }))
  end)

  it('gives rows that make no number and no picture together, unless asked', function()
    local sw = ridge.open(all):sweep 'shared'
    local rows = sw:results()
    local machine = rows:where { cpu = 'Slow 2' }[1].machine
    local function both(f, asked, of_one)
      refused('points of shared are', f, rows)
      f(sw:results { mixed = true })
      f(ridge.open(fast):sweep 'shared':results())
      f(ridge.open(nodes):sweep 'shared':results())
      if of_one ~= false then f(rows:where { machine = machine }) end
      if asked then asked(rows) end
    end
    both(function(list) return list:agg { t = 'median fwd' } end, function(list)
      assert.same({ 'Fast 1', 'Slow 2' }, { list:group 'cpu':agg { t = 'median fwd' }:sort 'cpu'[1]
        .cpu, list:group 'cpu':agg { t = 'median fwd' }:sort 'cpu'[2].cpu })
      assert.equal(24, list:agg { n = 'count fwd' }[1].n)
    end)
    both(function(list) return list:pivot { rows = 'k', cols = 'impl', cell = 'fwd' } end,
      function(list) list:pivot { rows = 'k', cols = 'machine', cell = 'fwd' } end)
    local function map(list, more)
      local opt = { x = 'k', y = 'fwd', by = 'impl' }
      for name, value in pairs(more or {}) do opt[name] = value end
      return ridge.plot.draw('slices', list, opt)
    end
    both(map, function(list) map(list, { facet = 'machine' }) end)
    for name, f in pairs {
      ['sw:pareto'] = function(opt) return sw:pareto { min = 'fwd', mixed = opt } end,
      ['sw:exponent'] = function(opt) return sw:exponent('fwd', 'k', { mixed = opt }) end } do
      refused(name .. ': points of shared', f)
      f(true)
    end
    assert.equal(2, #sw:exponent('fwd', 'k', { by = 'cpu' }))
    assert.equal(1, #sw:exponent('fwd', 'k', { where = { cpu = 'Fast 1' } }))
    refused('sw:drift: points of shared', sw.drift, sw, 'fwd')
    refused('sw:best: points of shared', sw.best, sw, 'fwd')
    assert.is_truthy(ridge.open(fast):sweep 'shared':drift 'fwd')
    -- what is of one machine has no further columns
    assert.is_nil(ridge.open(fast):sweep 'shared':results()[1].machine)
  end)

  it('has no pass more of a point that another machine has measured', function()
    store.with(all, 'write', function(st)
      local ids = st.db:query [[SELECT DISTINCT a.env_id AS id, m.cpu FROM trial t
        JOIN attempt a ON a.id = t.best_attempt JOIN env e ON e.id = a.env_id
        JOIN machine m ON m.id = e.machine_id WHERE t.role = 'point']]
      assert.equal(2, #ids)
      -- whatever was beside a point may be faster or slower: each is undecided
      st.db:exec "UPDATE timing SET ratio = 1, ratio_lo = 0.5, ratio_hi = 2"
      local function points(env_id)
        return extra.points { store = st, sweep = { id = 1 }, env_id = env_id,
          spec = { protocol = { passes = 5, max_passes = 7, precision = 0.001 } } }
      end
      local n = {}
      for i, env in ipairs(ids) do
        n[i] = #points(env.id)
        for _, trial in ipairs(points(env.id)) do
          assert.equal(env.id, st.db:value([[SELECT a.env_id FROM trial t JOIN attempt a
            ON a.id = t.best_attempt WHERE t.id = ?]], trial))
        end
      end
      assert.is_true(n[1] > 0 and n[2] > 0)
      assert.equal(24, n[1] + n[2])
      st.db:exec "UPDATE timing SET ratio = NULL, ratio_lo = NULL, ratio_hi = NULL"
    end)
  end)

  it('has no single number in a question, unless it is said how it is meant', function()
    local function ask(columns, more)
      local opt = { db = all }
      for name, value in pairs(more or {}) do opt[name] = value end
      return ridge.query('shared', columns, opt)
    end
    refused('query: points of shared', ask, 'median(fwd)')
    refused('query: points of shared', ask, 'impl, max(fwd)', { group = 'impl' })
    assert.equal(1, #ask('median(fwd)', { mixed = true }))
    assert.equal(2, #ask('cpu, median(fwd)', { group = 'cpu' }))
    assert.equal(1, #ask('median(fwd)', { where = "cpu = 'Slow 2'" }))
    assert.equal(24, ask('n := count(fwd)')[1].n)
    assert.equal(24, #ask 'k, fwd')
    assert.equal(1, #ridge.query('shared', 'median(fwd)', { db = nodes }))
    local status, out, err = program.run { 'query', 'shared', 'median(fwd)', '--db', all }
    assert.equal(1, status, out)
    assert.matches('^ridge query: points of shared are of unlike machines: .*%-%-mixed', err)
    status, out, err = program.run { 'query', 'shared', 'median(fwd)', '--mixed', '--db', all }
    assert.equal(0, status, out)
    assert.matches('^points of shared are of unlike machines: .*the anchor takes', err)
  end)

  it('is refused by the program, which says how to ask', function()
    local status, out, err = program.run { 'compare', 'shared', '--a', 'impl=x', '--b', 'impl=y',
      '--db', all }
    assert.equal(1, status, out)
    assert.matches('ridge compare: points of shared are of unlike machines: .*'
      .. '%-%-where.*%-%-mixed', err)
    assert.equal('', out)
    status, out, err = program.run { 'compare', 'shared', '--a', 'impl=x', '--b', 'impl=y', '--db',
      all, '--mixed', '--fail-on', 'faster' }
    assert.equal(3, status, err)
    assert.matches('of machines, med: %S+ %d against %S+ %d', out)
    assert.matches('points of shared are of unlike machines: .* the anchor takes', err)
    status, out, err = program.run { 'compare', fast, slow, '--match-all' }
    assert.equal(0, status, out)
    assert.matches('the anchor takes x1.5 ', err)
  end)
end)

-- SPDX-License-Identifier: MIT
-- Stored results against stored results: when a verdict is allowed, and what forbids it.

local cheap_lab = dofile 'tests/lua/sweep/cheap_lab.lua'
local compare = require 'ridge.sweep.compare'
local folders = dofile 'tests/lua/store/folder.lua'
local program = require 'tests.lua.repl.program'
local sqlite = require 'ridge.store.sqlite'
local sweep = require 'ridge.sweep'

describe('stored results', function()
  local folder
  before_each(function() folder = folders.new() end)
  after_each(function() folders.remove(folder) end)

  -- A database of two points whose time is `time`; `change` may alter the lab that measured it.
  local function measured(name, time, change)
    local lab = cheap_lab.new()
    lab.sentinel = 0
    if change then change(lab) end
    local block = lab.block
    lab.block = function(...)
      local results = block(...)
      for _, r in ipairs(results) do r.sentinel = lab.sentinel end
      return results
    end
    local path = folder .. '/' .. name .. '.db'
    sweep 'both' {
      space = { k = lab.points or { 1, 2 }, impl = { 'x' } },
      protocol = { passes = 5, max_passes = 5, seed = lab.version or 2 },
      measure = function(p, _, m)
        local half = lab.half and lab.half < 1 and lab.half or 0.005
        local off = ({ 0, 1, -1, 0.5, -0.5 })[m.pass] * half
        m:time('fwd', function() return time * p.k * (1 + off) end)
      end,
    }:run { db = path, lab = lab, progress = false, calibrate = false }
    local db = sqlite.open(path, 'write')
    if lab.half and lab.half >= 1 then -- as rows of protocol 1 may say
      db:run('UPDATE timing SET ci_lo = med * (1 - ?1), ci_hi = med * (1 + ?1)', lab.half)
    end
    if lab.version then db:run('UPDATE protocol SET version = ?', lab.version) end
    db:close()
    return path
  end

  local function verdict(time, change, opt)
    local results = compare.databases(measured('a', 1000), measured('b', time, change), opt)
    assert.equal(2, #results)
    return results[1].verdict, results[1]
  end

  it('of the same environment may be called', function()
    local said, found = verdict(1100)
    assert.equal('slower', said)
    assert.equal('unpaired', found.design)
    assert.is_true(math.abs(found.ratio - 1.1) < 1e-9)
    assert.is_true(found.ci_lo < 1.1 and 1.1 < found.ci_hi)
    assert.same({ k = 1, impl = 'x' }, found.match)
    assert.is_nil(found.reason)
  end)

  it('of another build may, too: that is what is compared', function()
    assert.equal('faster', (verdict(900, function(lab)
      local facts = lab.facts
      lab.facts = function()
        local out = facts()
        out.build = { ridge = '0', git = 'another', debug = false }
        return out
      end
    end)))
  end)

  it('are equal when both intervals say so, and open when they are wide', function()
    assert.equal('equal', (verdict(1001)))
    folders.remove(folder)
    folder = folders.new()
    local said, found = verdict(1050, function(lab) lab.half = 0.1 end)
    assert.equal('open', said)
    assert.truthy(found.reason:find 'too wide')
  end)

  it('are open where the intervals only touch', function()
    local function between(path, lo, hi)
      local db = sqlite.open(path, 'write')
      db:run('UPDATE timing SET ci_lo = ?1, ci_hi = ?2', lo, hi)
      db:close()
      return path
    end
    local a = between(measured('a', 1000), 900, 1100)
    local b = between(measured('b', 1200), 1100, 1300)
    for _, found in ipairs { compare.databases(a, b)[1], compare.databases(b, a)[1] } do
      assert.equal('open', found.verdict)
      assert.equal('the intervals are too wide', found.reason)
    end
    assert.equal('slower', compare.databases(a, between(b, 1101, 1300))[1].verdict)
    assert.equal('faster', compare.databases(b, a)[1].verdict)
  end)

  it('have a ratio and no interval where one side has none, or half of one', function()
    local function with(path, lo, hi)
      local db = sqlite.open(path, 'write')
      db:run('UPDATE timing SET ci_lo = ?1, ci_hi = ?2', lo, hi)
      db:close()
      return path
    end
    local a, b = measured('a', 1000), measured('b', 1200)
    for _, ends in ipairs { {}, { 990 }, { nil, 1010 } } do
      local lo, hi = ends[1], ends[2]
      for _, found in ipairs { compare.databases(with(a, lo, hi), with(b, 1190, 1210))[1],
          compare.databases(with(a, 990, 1010), with(b, lo, hi))[1] } do
        assert.same({ verdict = 'open', reason = 'no interval is stored' },
          { verdict = found.verdict, reason = found.reason, lo = found.ci_lo, hi = found.ci_hi })
        assert.near(1.2, found.ratio, 1e-2)
      end
    end
  end)

  -- Two sweeps of one file, and one of another: each side is the sweep that was named, not the
  -- first of its file, and the first of two generations is not the second.
  it('of two sweeps are of these two, in one database too', function()
    local db, other = folder .. '/one.db', folder .. '/other.db'
    local function run(name, time, path, new)
      local sw = sweep(name) {
        space = { k = { 1, 2, 3 } }, protocol = { passes = 5, max_passes = 5 },
        measure = function(p, _, m)
          m:time('fwd', function() return time * p.k * (1 + (m.pass - 3) * 1e-3) end)
        end,
      }
      sw:run { db = path, lab = cheap_lab.new(), progress = false, calibrate = false, new = new }
      return sw
    end
    local first, second = run('widths', 1000, db), run('widths', 1500, db, true)
    local slim, far = run('slim', 500, db), run('slim', 250, other)
    local stored = require('ridge').open(db)
    assert.equal('widths-2', second.stored_as)
    for _, case in ipairs { { first, second, 1.5, 'slower' }, { second, first, 1 / 1.5, 'faster' },
        { first, slim, 0.5, 'faster' }, { slim, second, 3, 'slower' }, { slim, far, 0.5, 'faster' },
        { first, far, 0.25, 'faster' }, { far, second, 6, 'slower' },
        { stored:sweep 'widths', stored:sweep 'widths-2', 1.5, 'slower' },
        { stored:sweep 'widths-2', slim, 1 / 3, 'faster' } } do
      local results = case[1]:compare(case[2])
      assert.equal(3, #results)
      for k, found in ipairs(results) do
        assert.same({ { k = k }, { k = k }, { k = k } }, { found.match, found.a, found.b })
        assert.near(case[3], found.ratio, 1e-9)
        -- the cheap interval of five passes is theirs: 1 -+ 2 thousandths at most
        assert.is_true(found.ci_lo < case[3] and case[3] < found.ci_hi)
        assert.near(case[3], found.b_ns / found.a_ns, 1e-9)
      end
    end
    for _, pair in ipairs { { first, first }, { first, stored:sweep 'widths' },
        { stored:sweep 'slim', slim } } do
      local ok, err = pcall(pair[1].compare, pair[1], pair[2])
      assert.is_false(ok)
      assert.equal(('compare: both are the sweep %s in %s; nothing is to be compared'):format(
        pair[1].name, db), err.message)
    end
    local odd = sweep 'odd' { space = { q = { 1 } }, protocol = { passes = 1 },
      measure = function(_, _, m) m:time('fwd', function() return 1 end) end }
    odd:run { db = db, lab = cheap_lab.new(), progress = false, calibrate = false }
    local ok, err = pcall(first.compare, first, odd)
    assert.is_false(ok)
    assert.equal(('compare: widths in %s and odd in %s have no point in common'):format(db, db),
      err.message)
  end)

  it('are open where a sweep took the points of the other', function()
    local db = folder .. '/taken.db'
    local function run(values)
      local sw = sweep 'grown' { space = { k = values }, protocol = { passes = 5, max_passes = 5 },
        measure = function(p, _, m)
          m:time('fwd', function() return 100 * p.k * (1 + (m.pass - 3) * 1e-3) end)
        end }
      sw:run { db = db, lab = cheap_lab.new(), progress = false, calibrate = false,
        new = #values > 2 }
      return sw
    end
    local small, large = run { 1, 2 }, run { 1, 2, 3 }
    local results = small:compare(large)
    assert.equal(2, #results)
    for _, found in ipairs(results) do
      assert.same({ 'open', 1, 'both are one and the same measurement' },
        { found.verdict, found.ratio, found.reason })
    end
    -- of a file against itself nothing else is asked
    assert.equal('equal', compare.databases(db, db)[1].verdict)
  end)

  it('are told by top: what is undecided, also where everything was disturbed', function()
    local function top(path, n)
      return select(2, program.run { 'top', 'both', '--by', 'fwd', '-n', n, '--as', 'csv', '--db',
        path })
    end
    local text = top(measured('apart', 1000), '5')
    assert.matches('standing', text)
    assert.matches('A,best\n.*A,behind\n', text)
    text = top(measured('near', 1000, function(lab) lab.half = 0.6 end), '5')
    assert.matches('C,undecided\n.*C,undecided\n', text)
    text = top(measured('busy', 1000, function(lab) lab.flags = { 'ROOF' } end), '5')
    assert.matches('D,undecided\n.*D,undecided\n', text)
  end)

  it('are open across environments, speeds and disturbances', function()
    local function because(text, change)
      local said, found = verdict(1500, change)
      assert.equal('open', said)
      assert.truthy(found.reason:find(text, 1, true), found.reason)
      folders.remove(folder)
      folder = folders.new()
    end
    because('governor: none -> fast', function(lab)
      local facts = lab.facts
      lab.facts = function()
        local out = facts()
        out.env.governor = 'fast'
        return out
      end
    end)
    -- of machines it is a verdict, and called so
    local said, machines = verdict(1500, function(lab)
      local facts = lab.facts
      lab.facts = function()
        local out = facts()
        out.machine.cpu = 'other'
        return out
      end
    end)
    assert.same({ 'slower', 'of machines', 'other' }, { said, machines.design,
      machines.machines.b })
    folders.remove(folder)
    folder = folders.new()
    because('moved by +3.0 %', function(lab) lab.sentinel = 0.03 end)
    because('moved by -3.0 %', function(lab) lab.sentinel = -0.03 end) -- faster is no better
    because('nobody watched', function(lab) lab.sentinel = nil end)
    because('measured by protocol 2 and 1', function(lab) lab.version = 1 end)
    because('grade D', function(lab) lab.flags = { 'ROOF' } end)
  end)

  it('are those of one version of the protocol where a file has several; no picture mixes them',
    function()
      local a = measured('a', 1000)
      local b = measured('b', 1300, function(l) l.version = 1 end)
      local _, out = program.run { 'merge', b, measured('c', 1100) }
      assert.matches('c.db: its sweep both is another one than the both that is here, and is '
        .. 'called both%-2\n', out)
      assert.matches('both%-2 was measured by protocol 2, others of the name both by 1', out)
      assert.near(1.1, compare.databases(a, b)[1].ratio, 1e-6)
      assert.near(1 / 1.1, compare.databases(b, a)[1].ratio, 1e-6)
      _, out = program.run { 'merge', b, folder .. '/c.db' }
      assert.matches('c.db: nothing new\n$', out)
      local st = require('ridge.store').open(b)
      for name, ns in pairs { both = 1300, ['both-2'] = 1100 } do
        local sw = require('ridge.store.query').sweep(st, name)
        local figure = require('ridge.sweep.picture').figure('history', st, sw)
        assert.equal(2, #figure.rows)
        assert.near(ns, figure.rows[1].fwd / figure.rows[1].k, 1e-6)
        assert.matches('Left out: 1 of this name that another version', figure:text())
      end
      st:close()
    end)

  it('are matched in all or in some parameters, and nothing is matched twice', function()
    local a, b = measured('a', 1000), measured('b', 1000)
    assert.equal(2, #compare.databases(a, b, { match = { 'k' } }))
    assert.equal(0, (select(2, compare.databases(a, b, { match = { 'k' } }))))
    local ok, err = pcall(compare.databases, a, b, { match = { 'impl' } })
    assert.is_false(ok)
    assert.truthy(tostring(err):find 'several points of')
    ok, err = pcall(compare.databases, a, b, { sweep = 'none' })
    assert.is_false(ok)
    assert.truthy(tostring(err):find 'no point in common')
  end)

  it('are open where an interval reaches below zero: the ratio has no upper end', function()
    local said, found = verdict(1500, function(lab) lab.half = 1.2 end)
    assert.equal('open', said)
    assert.equal(0, found.ci_lo)
    folders.remove(folder)
    folder = folders.new()
    local a = measured('a', 1000, function(lab) lab.half = 1.2 end)
    local b = measured('b', 1500, function(lab) lab.half = 1.2 end)
    found = compare.databases(a, b)[1]
    assert.equal('open', found.verdict)
    assert.same({ 0, math.huge }, { found.ci_lo, found.ci_hi })
    local status, out = program.run { 'compare', a, b, '--match-all' }
    assert.equal(0, status)
    assert.truthy(out:find('x0 .. any', 1, true), out)
    status, out = program.run { 'compare', a, b, '--match-all', '--as', 'json' }
    assert.equal(0, status)
    assert.is_nil(out:find('ci_hi', 1, true))
  end)

  it('are not matched in what nobody varies', function()
    local function three(lab) lab.points = { 1, 2, 3 } end
    local a, b = measured('a', 1000, three), measured('b', 1000, three)
    local ok, err = pcall(compare.databases, a, b, { match = { 'k', 'imp' } })
    assert.is_false(ok)
    assert.matches("no parameter imp %(did you mean 'impl'%?%); it has impl, k$", err.message)
    local status, _, text = program.run { 'compare', a, b, '--match', 'zork' }
    assert.equal(1, status)
    assert.truthy(text:find('^ridge compare: %S+a.db has no parameter zork'), text)
  end)

  it('fail a run for what it was told to fail for, whatever else is open', function()
    local status = require('ridge.cli.verdicts').status
    local function is_slower(found) return found.verdict == 'slower' end
    local open, slower, equal = { verdict = 'open' }, { verdict = 'slower' }, { verdict = 'equal' }
    assert.equal(3, status({ open, slower }, is_slower, true))
    assert.equal(3, status({ slower, open }, is_slower, true))
    assert.equal(4, status({ open, equal }, is_slower, true))
    assert.equal(0, status({ open, equal }, is_slower, false))
    assert.equal(0, status({}, is_slower, true))
  end)

  it('fail for a verdict, or for one of at least so many percent', function()
    local condition = require('ridge.cli.verdicts').condition
    for _, word in ipairs { 'slower', 'faster', 'equal', 'open' } do
      for text, least in pairs { [word] = 1, [word .. '>2%'] = 1.02,
          [word .. '>0.5%'] = 1.005 } do
        local holds = condition(text)
        for _, ratio in ipairs { 1, 1.004, 1.006, 1.019, 1.021, 3 } do
          assert.equal(ratio >= least, holds { verdict = word, ratio = ratio }, text)
          assert.equal(ratio >= least, holds { verdict = word, ratio = 1 / ratio }, text)
          assert.is_false(holds { verdict = 'none', ratio = ratio })
        end
      end
    end
    assert.is_false(condition '' { verdict = 'slower', ratio = 9 })
    for _, text in ipairs { 'worse', 'slower>', 'slower>2', 'slower>1.2.3%', 'slower<2%' } do
      local none, reason = condition(text)
      assert.is_nil(none)
      assert.matches("'" .. text .. "' is not like slower", reason, 1, true)
    end
  end)

  it('are printed by ridge compare, with its statuses', function()
    local a, b = measured('a', 1000), measured('b', 1100)
    local status, out = program.run { 'compare', a, b, '--match-all' }
    assert.equal(0, status)
    assert.truthy(out:find 'both impl=x k=1%s+fwd%s+slower%s+%+10.00 %%')
    assert.truthy(out:find 'unpaired')
    assert.equal(3, (program.run { 'compare', a, b, '--match-all', '--fail-on', 'slower>5%' }))
    assert.equal(0, (program.run { 'compare', a, b, '--match-all', '--fail-on', 'slower>15%' }))
    assert.equal(0, (program.run { 'compare', a, a, '--match', 'k', '--strict' }))
    local status_wrong, _, err = program.run { 'compare', a, b }
    assert.equal(1, status_wrong)
    assert.truthy(err:find '%-%-match%-all')
    assert.equal(1, (program.run { 'compare', a, '--match-all' }))
    assert.equal(1, (program.run { 'compare', a, folder .. '/none.db', '--match-all' }))
  end)
end)

describe('points of one sweep', function()
  local folder, db, lab
  before_each(function()
    folder = folders.new()
    db, lab = folder .. '/p.db', cheap_lab.new()
  end)
  after_each(function() folders.remove(folder) end)

  -- A pass is up to twice as slow as another; `y` takes so many times what `x` takes in each.
  local function measured(factor, passes)
    sweep 'inside' {
      space = { k = { 1, 2 }, impl = { 'x', 'y' } },
      protocol = { passes = passes or 5, max_passes = passes or 5 },
      measure = function(p, _, m)
        local state = ({ 1, 2, 1.1, 1.5, 1.05 })[m.pass]
        m:time('fwd', function()
          return 1000 * p.k * state * (p.impl == 'y' and factor or 1)
        end)
      end,
    }:run { db = db, lab = lab, progress = false, calibrate = false }
  end

  local function inside(given)
    given.a, given.b = given.a or { impl = 'x' }, given.b or { impl = 'y' }
    local st = require('ridge.store').open(db, 'read')
    local ok, found = pcall(compare.inside, st, 'inside', given)
    st:close()
    if not ok then error(found, 0) end
    return found
  end

  it('are compared by the ratios of their passes: their intervals overlap and the pairs tell',
    function()
      measured(1.05)
      local found = inside {}
      assert.equal(2, #found)
      for i, each in ipairs(found) do
        assert.same({ k = i }, each.match)
        assert.equal('slower', each.verdict)
        assert.equal('paired by pass', each.design)
        assert.is_true(math.abs(each.ratio - 1.05) < 1e-6)
        assert.is_true(each.ci_lo > 1.04 and each.ci_hi < 1.06)
        assert.equal(5, each.passes)
        assert.equal('med', each.time)
      end
      assert.equal('open', inside({ margin = 0.1 })[1].verdict)
      assert.same(found, inside { phases = { 'fwd' } })
      for name, said in pairs { fwb = "fwb (did you mean 'fwd'?)", loss = 'loss' } do
        local ok, err = pcall(inside, { phases = { 'fwd', name } })
        assert.is_false(ok)
        assert.equal(('compare: inside has no phase %s; it has fwd'):format(said), err.message)
      end
    end)

  it('are equal, or open with too few passes', function()
    measured(1.001)
    assert.equal('equal', inside({})[1].verdict)
    db = folder .. '/few.db'
    measured(1.5, 3)
    local few = inside({})[1]
    assert.same({ 'open', 'fewer than five passes: no interval' }, { few.verdict, few.reason })
  end)

  it('are pairs of a picture where they agree in all that its sides do not name', function()
    db = folder .. '/five.db'
    sweep 'five' {
      space = { k = { 1, 2 }, n = 1, impl = { 'x', 'y' }, mode = { 1, 2 }, form = { 1, 2 } },
      protocol = { passes = 5, max_passes = 5 },
      measure = function(p, _, m)
        m:time('fwd', function()
          return 10 * (p.form == 2 and 100 or 1) * (p.impl == 'y' and 1.5 or 1)
        end)
      end,
    }:run { db = db, lab = lab, progress = false, calibrate = false }
    local st = require('ridge.store').open(db, 'read')
    local found = require('ridge.store.query').sweep(st, 'five')
    for a, b in pairs { x = 'y', y = 'x' } do
      local figure = require('ridge.sweep.picture').figure('ratio', st, found, { x = 'k', y = 'n',
        facet = 'mode', a = 'impl=' .. a, b = 'impl=' .. b })
      assert.matches('impl=x [^;]-in 4.*; 0 are undecided', figure.finding)
      assert.matches('impl=y [^;]-in 0', figure.finding)
    end
    st:close()
  end)

  it('may be compared by the fast state, which is not paired and says so', function()
    measured(1.5)
    local st = sqlite.open(db, 'write')
    st:exec [[UPDATE timing SET quiet = med * 0.9, quiet_lo = med * 0.89, quiet_hi = med * 0.91;
      UPDATE timing SET quiet = NULL WHERE attempt_id = (SELECT best_attempt FROM trial t
        JOIN config c ON c.id = t.config_id WHERE c.params = '{"impl":"y","k":2}')]]
    st:close()
    local found = inside { time = 'quiet' }
    assert.same({ 'slower', 'unpaired', 'quiet' },
      { found[1].verdict, found[1].design, found[1].time })
    assert.is_true(math.abs(found[1].ratio - 1.5) < 1e-6)
    assert.matches('fast state was not seen', found[2].reason)
    -- an interval that ends at 1 holds it, from either side
    local function at(lo, hi, other_lo, other_hi)
      local db_ = sqlite.open(db, 'write')
      for side, list in pairs { x = { 1000, lo, hi }, y = { 1100, other_lo, other_hi } } do
        db_:run(([[UPDATE timing SET quiet = ?1, quiet_lo = ?2, quiet_hi = ?3 WHERE attempt_id =
          (SELECT best_attempt FROM trial t JOIN config c ON c.id = t.config_id
            WHERE c.params = '{"impl":"%s","k":1}')]]):format(side), unpack(list))
      end
      db_:close()
      local one, other = inside { time = 'quiet' }, inside { time = 'quiet', a = { impl = 'y' },
        b = { impl = 'x' } }
      return one[1].verdict .. ' ' .. other[1].verdict
    end
    assert.equal('open open', at(990, 1050, 1050, 1150))
    assert.equal('slower faster', at(990, 1050, 1051, 1150))
    local _, out = program.run { 'compare', 'inside', '--a', 'impl=x', '--b', 'impl=y', '--quiet',
      '--db', db }
    assert.matches('unpaired, quiet', out)
    assert.matches('the fast state was not seen', out)
    _, out = program.run { 'top', 'inside', '--quiet', '--db', db, '--as', 'csv' }
    assert.matches('^trial,impl,k,fwd_quiet,fwd_quiet_lo,fwd_quiet_hi,grade,standing\n', out)
    assert.is_nil(out:find '\n%d+,y,2,')
    local _, _, err = program.run { 'top', 'inside', '--db', db }
    assert.matches('by fwd: the median', err or '')
    assert.equal('unpaired', compare.databases(db, db, { time = 'quiet' })[1].design)
    -- and so are pictures of the sweep
    local path = folder .. '/q.png'
    local ratio = { 'plot', 'ratio', 'inside', '-x', 'k', '-y', 'fwd_n', '--a', 'impl=y', '--b',
      'impl=x', '--db', db, '-o', path }
    local texts = require 'ridge.plot.png'.read_texts
    assert.equal(0, (program.run(ratio)))
    assert.matches('within each pass', texts(path).Description)
    ratio[#ratio + 1] = '--quiet'
    assert.equal(0, (program.run(ratio)))
    assert.matches('unpaired.- 1 fast state not seen', texts(path).Description)
    local status, _, text = program.run { 'plot', 'samples', 'inside', '--quiet', '--db', db }
    assert.equal(1, status)
    assert.matches('^ridge plot: samples draws no medians, so there is none of the fast', text)
  end)

  it('say what is wrong in what was asked', function()
    measured(1)
    for _, given in ipairs { { b = { imp = 'y' } }, { b = { impl = 'z' } }, { match = {} } } do
      local ok, err = pcall(inside, given)
      assert.is_false(ok)
      local text = tostring(err)
      assert.truthy(text:find 'did you mean' or text:find 'has a partner'
        or text:find 'several points', text)
    end
  end)
end)

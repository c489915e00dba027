-- SPDX-License-Identifier: MIT
-- The set of points that cannot be told from the best: by pairs of passes, by intervals, by plain
-- values; what is looked for; what limits a point. Rows and expected sets are by hand.

local best = require 'ridge.sweep.best'
local expression = require 'ridge.store.expression'
local settle = require 'ridge.sweep.settle'

local DIRECTIONS = { fwd = -1, fwd_lo = -1, fwd_hi = -1, fwd_p95 = -1, fwd_min = -1, side = 1,
  odd = 0 }

-- A row: trial, time with its interval, by pass, and more.
local function row(trial, fwd, lo, hi, more)
  local r = { trial = trial, state = 'ok', grade = 'B', fwd = fwd, fwd_lo = lo, fwd_hi = hi,
    fwd_p95 = hi }
  for name, value in pairs(more or {}) do r[name] = value end
  return r
end

local function goal(text, rows)
  return best.goal(text, DIRECTIONS, rows, 'the sweep s')
end

local function set(text, rows)
  local found, names = best.set(rows, goal(text, rows)), {}
  for i, each in ipairs(found.set) do names[i] = each.row.trial end
  return table.concat(names, ' '), found
end

describe('what is best', function()
  local rows = { row(1, 10, 9, 11, { batch = 4, side = 2, odd = 1 }),
    row(2, 20, 18, 22, { batch = 16, side = 3, odd = 1 }) }

  it('is a column with a direction, or min and max of an expression', function()
    for _, case in ipairs { { 'fwd', -1, 'fwd', true }, { 'min fwd', -1, 'fwd', true },
        { 'max fwd', 1, 'fwd', true }, { 'max batch / fwd', 1, 'fwd', false },
        { 'side', 1, nil, false }, { 'max odd', 1, nil, false },
        { 'min side * batch', -1, nil, false } } do
      local found = goal(case[1], rows)
      assert.same({ case[2], case[3], case[4] }, { found.better, found.measured, found.is_plain })
    end
    -- a column may be called as the words are
    assert.equal('maximum', best.goal('min maximum', {}, { row(1, 1, 1, 1, { maximum = 3 }) },
      'the sweep s').text)
  end)

  it('says what there is where it is not clear', function()
    for text, message in pairs {
      [''] = "--for 'max NAME' or 'min NAME' is missing; the sweep s has fwd, odd, side",
      ['max zork'] = 'there is no zork; the sweep s has fwd, odd, side',
      ['max fwt'] = "there is no fwt (did you mean 'fwd'?); the sweep s has fwd, odd, side",
      odd = "nobody said which way odd is better; write 'max odd' or 'min odd'; the sweep s has "
        .. 'fwd, odd, side',
      ['fwd * 2'] = "nobody said which way fwd * 2 is better; write 'max fwd * 2' or 'min fwd * "
        .. "2'; the sweep s has fwd, odd, side",
    } do
      local ok, err = pcall(goal, text, rows)
      assert.is_false(ok)
      assert.equal(message, err.message)
    end
    local two = { row(1, 10, 9, 11, { bwd = 3, bwd_lo = 2, bwd_hi = 4 }) }
    local ok, err = pcall(goal, 'min fwd + bwd', two)
    assert.is_false(ok)
    assert.equal('fwd + bwd holds fwd and bwd, which both have intervals: one at most', err.message)
    ok, err = pcall(best.goal, '', {}, { { trial = 1, state = 'error' } }, 'the sweep s')
    assert.is_false(ok)
    assert.equal('the sweep s has no measured point yet; 1 of 1 failed (ridge sweeps says how)',
      err.message)
    ok, err = pcall(best.goal, 'fwd', {}, { { trial = 1, state = 'pending' } }, 'the sweep s')
    assert.is_false(ok)
    assert.equal('the sweep s has no measured point yet', err.message)
  end)

  it('is the only measure when nothing is said', function()
    local one = { fwd = -1, fwd_lo = -1, fwd_p95 = -1, fwd_first = -1 }
    assert.same({ 'fwd', -1 }, { best.goal('', one, rows, 's').text,
      best.goal(' ', one, rows, 's').better })
    -- what has no way that is better is not meant where something has
    one.odd = 0
    assert.equal('fwd', best.goal('', one, rows, 's').text)
  end)

  it('says what there is instead, where nothing can be looked for', function()
    local function message(text, directions, list)
      local ok, err = pcall(best.goal, text, directions, list, 'the sweep s')
      assert.is_false(ok)
      return err.message
    end
    assert.equal('no point of the sweep s has a v that is a number',
      message('', { v = -1 }, { row(1, 1, 1, 1, { v = 0 / 0 }) }))
    assert.equal("nobody said which way odd is better; write 'max odd' or 'min odd'; the sweep s "
      .. 'has odd', message('', { odd = 0 }, rows))
  end)
end)

describe('the set', function()
  it('is what no interval tells from the first', function()
    local rows = { row(1, 10, 9, 11), row(2, 12, 10.9, 13), row(3, 12, 11.1, 13),
      row(4, 40, 5, 50) }
    local names, found = set('fwd', rows)
    assert.same({ '1 2 4', 1 }, { names, found.behind })
    -- the other way round
    assert.same({ '4 2 3 1' }, { (set('max fwd', rows)) })
    rows[4].fwd_lo = 39
    assert.same({ '4' }, { (set('max fwd', rows)) })
  end)

  it('goes by the ratio within passes where both have five of them', function()
    -- the machine was twice as slow in two passes: the intervals overlap, each pair says 10 %
    local slow = { 10, 20, 10.1, 20.2, 10.2 }
    local function by(factor)
      local words = {}
      for i, t in ipairs(slow) do words[i] = ('%.6g'):format(t * factor) end
      return { fwd_by_pass = table.concat(words, ' ') }
    end
    local rows = { row(1, 10.2, 10, 20.2, by(1)), row(2, 11.2, 11, 22.2, by(1.1)) }
    assert.same({ '1' }, { (set('fwd', rows)) })
    -- at four passes nothing is known but the intervals
    rows[2].fwd_by_pass = '11 22 11.1 22.2 -'
    assert.same({ '1 2' }, { (set('fwd', rows)) })
    -- and pairs that go both ways are no difference
    rows[2].fwd_by_pass = '9 22 9 22 11'
    local names, found = set('fwd', rows)
    assert.equal('1 2', names)
    assert.is_true(found.set[2].pair.lo < 1 and found.set[2].pair.hi > 1)
    -- of rates the same ratio the other way
    rows[2].fwd_by_pass = by(1.1).fwd_by_pass
    assert.equal('1', (set('max 8 / fwd', rows)))
  end)

  it('takes the interval of an expression from that of its time', function()
    local rows = { row(1, 10, 9, 11, { batch = 10 }), row(2, 20, 16, 22, { batch = 18 }) }
    local _, found = set('max batch / fwd', rows)
    local a = found.set[1]
    assert.same({ 1, 1, 10 / 11, 10 / 9 }, { a.row.trial, a.v, a.lo, a.hi })
    assert.equal(2, #found.set)
    rows[2].fwd_lo = 20
    assert.equal('1', (set('max batch / fwd', rows))) -- 18 / 20 is below 10 / 11
  end)

  it('compares what has no interval as it stands, and leaves out what has no value', function()
    local rows = { row(1, 1, 1, 1, { side = 5 }), row(2, 1, 1, 1, { side = 5 }),
      row(3, 1, 1, 1, { side = 4 }), row(4, 1, 1, 1), row(5, 1, 1, 1, { side = 0 / 0 }),
      { trial = 6, state = 'oom' }, row(7, 1, 1, 1, { side = math.huge }) }
    local names, found = set('side', rows)
    assert.same({ '1 2', 1, 3, 1 }, { names, found.behind, found.without, found.open })
  end)

  it('keeps a time without an interval', function()
    local rows = { row(1, 10, 9, 11), row(2, 1e9), row(3, 40, 39, 41) }
    assert.equal('1 2', (set('fwd', rows)))
  end)

  it('is not known of times in few passes: no interval in any row, and no verdict', function()
    for _, text in ipairs { 'min fwd', 'max batch / fwd', 'max fwd.gflops' } do
      local rows = {}
      for i = 1, 3 do
        rows[i] = row(i, 10 ^ i, nil, nil, { batch = 4, fwd_by_pass = ('%d %d'):format(10 ^ i,
          10 ^ i), fwd_flops = 1e6, fwd_gflops = 1e6 / 10 ^ i })
        rows[i].fwd_p95 = 10 ^ i
      end
      assert.equal('1 2 3', (set(text, rows)))
      assert.equal('fwd', goal(text, rows).measured)
    end
    -- two of them have none either, and may stand in one expression
    local rows = { row(1, 10, nil, nil, { bwd = 5 }), row(2, 20, nil, nil, { bwd = 9 }) }
    local both = { fwd = -1, fwd_p95 = -1, bwd = -1, bwd_p95 = -1 }
    assert.equal(2, best.set(rows, best.goal('min fwd + bwd', both, rows, 'the sweep s')).n)
  end)

  it('is as well known as rate as the time is', function()
    local rows = {}
    for i, v in ipairs { { 10, 9, 12, 1000 }, { 11, 10, 12, 1000 }, { 10, 9.9, 10.1, 100 } } do
      rows[i] = row(i, v[1], v[2], v[3], { fwd_flops = v[4], fwd_bytes = 2 * v[4], fwd_gflops =
        v[4] / v[1], fwd_gbps = 2 * v[4] / v[1], batch = 2 })
    end
    for text, factor in pairs { ['max fwd.gflops'] = 1, ['max fwd_gbps'] = 2,
        ['max fwd_gflops / batch'] = 0.5 } do
      local names, found = set(text, rows)
      assert.equal('1 2', names)
      assert.equal(1, found.behind)
      assert.near(100 * factor, found.set[1].v, 1e-9)
      assert.near(1000 / 12 * factor, found.set[1].lo, 1e-9)
      assert.near(1000 / 9 * factor, found.set[1].hi, 1e-9)
    end
    -- of a metric that is only called so there is nothing to be known
    local own = { row(1, 10, 9, 12, { x_gflops = 7 }), row(2, 11, 10, 12, { x_gflops = 6 }) }
    assert.is_nil(best.goal('max x_gflops', { fwd_p95 = -1, x_gflops = 1 }, own, 's').measured)
  end)

  it('does not ask disturbed points, unless there are no others', function()
    local rows = { row(1, 5, 4, 6, { grade = 'D' }), row(2, 10, 9, 11), row(3, 20, 19, 21) }
    local names, found = set('fwd', rows)
    assert.same({ '2', 1, 1, false }, { names, found.behind, found.left_out, found.disturbed })
    rows[2].grade, rows[3].grade = 'D', 'D'
    names, found = set('fwd', rows)
    assert.same({ '1 2 3', 0, 0, true }, { names, found.behind, found.left_out, found.disturbed })
  end)

  it('has rows that fulfil a condition, with units of time', function()
    local rows = { row(1, 1e6, 1, 1), row(2, 1e6 - 1, 1, 1), row(3, 4e9, 1, 1) }
    local function kept(text)
      local names = {}
      for i, r in ipairs(best.where(rows, expression.parse(text), 's')) do names[i] = r.trial end
      return table.concat(names, ' ')
    end
    assert.equal('2', kept 'fwd < 1ms')
    assert.equal('1 2', kept 'fwd <= 1000us')
    assert.equal('3', kept 'fwd = 4s')
    assert.equal('1', kept 'fwd = 1000000ns')
    assert.has_error(function() kept 'fwd < 1min' end)
    assert.has_error(function() kept 'zork < 1' end)
  end)
end)

describe('why', function()
  local machine = { l1d = 2 ^ 15, l2 = 2 ^ 20, l3 = 2 ^ 24, threads = 1, ceilings = {
    ['fma.f32'] = { value = 1e11 }, ['bw.l1'] = { value = 1e11 }, ['bw.l2'] = { value = 5e10 },
    ['bw.llc'] = { value = 2e10 }, ['bw.dram'] = { value = 1e10 } } }

  local function limit(ns, flops, bytes)
    return best.limit({ fwd = ns, fwd_flops = flops, fwd_bytes = bytes }, 'fwd', machine)
  end

  it('is arithmetic, a cache, memory, or the call itself', function()
    assert.same({ 'arithmetic', 0.5 }, { limit(2e6, 1e8, 8) })
    local name, share = limit(1e3, 10, 2 ^ 15)
    assert.same({ 'L1', 0.33 }, { name, math.floor(share * 100 + 0.5) / 100 })
    assert.equal('L2', (limit(1e5, 10, 2 ^ 20)))
    assert.equal('last cache', (limit(1e6, 10, 2 ^ 23)))
    assert.equal('memory', (limit(1e7, 10, 2 ^ 27)))
    assert.equal('calls', (limit(9e3, 100, 8)))
    -- as far from its roof, but no short call
    assert.equal('arithmetic', (limit(2e4, 100, 8)))
    assert.is_nil(limit(2e4, nil, nil))
    assert.is_nil(best.limit({ fwd = 5, fwd_flops = 3, fwd_bytes = 3 }, 'fwd', { ceilings = {},
      threads = 1 }))
  end)

  it('names the parameter whose medians lie farthest apart', function()
    local rows = {}
    for _, width in ipairs { 1, 2, 4 } do
      for _, batch in ipairs { 1, 2 } do
        local t = 100 * width + 10 * batch
        rows[#rows + 1] = row(#rows + 1, t, t, t, { width = width, batch = batch })
      end
    end
    rows[#rows + 1] = row(9, 1e9, 1, 1, { width = 1, batch = 1, grade = 'D' })
    -- one that is tried again has numbers still, and no say
    rows[#rows + 1] = row(10, 1e9, 1, 1, { width = 4, batch = 1, state = 'pending' })
    local found = best.effects(rows, goal('fwd', rows), { 'batch', 'width' })
    assert.same({ 'width', 1, 'batch', 1 }, { found[1].name, found[1].best, found[2].name,
      found[2].best })
    assert.is_true(math.abs(found[1].reach - 415 / 115) < 1e-12)
    assert.equal(4, best.effects(rows, goal('max fwd', rows), { 'width' })[1].best)
  end)

  it('says by how much values differ where none is above 0, and nothing where none differs',
    function()
      local rows = { row(1, 1, 1, 1, { side = -3, a = 1, b = 1 }),
        row(2, 1, 1, 1, { side = -9, a = 2, b = 1 }), row(3, 1, 1, 1, { side = -3, a = 1, b = 2 }),
        row(4, 1, 1, 1, { side = -9, a = 2, b = 2 }) }
      assert.same({ { name = 'a', reach = 6, best = 1, is_difference = true } },
        best.effects(rows, goal('max side', rows), { 'a', 'b' }))
    end)
end)

describe('two points by their passes', function()
  it('stay together where the interval of their ratio holds 1, whichever way is better', function()
    local passes = require 'ridge.measure.passes'
    local before, pair = passes.ratio, nil
    passes.ratio = function() return pair end -- luacheck: ignore 122
    local a, b = { passes = {} }, { passes = {} }
    local found = {}
    for i, ends in ipairs { { 0.8, 0.9 }, { 0.9, 1.1 }, { 1.1, 1.2 } } do
      pair = { lo = ends[1], hi = ends[2] }
      found[i] = { (best.is_behind({ better = 1 }, a, b)), (best.is_behind({ better = -1 }, a, b)) }
    end
    passes.ratio = before -- luacheck: ignore 122
    assert.same({ { true, false }, { false, false }, { false, true } }, found)
  end)
end)

describe('finalists timed side by side', function()
  local function run(rows, answers, text)
    local ab, n = require 'ridge.sweep.ab', 0
    local before = ab.run
    ab.run = function() -- luacheck: ignore 122
      n = n + 1
      if answers[n].code then error(answers[n], 0) end
      return { answers[n] }
    end
    local g, list = goal(text or 'min fwd', rows), {}
    for i, each in ipairs(rows) do list[i] = { row = each, v = each.fwd } end
    local ok, found = pcall(settle.run, {}, g, list, { 'batch' }, { seconds = 10,
      now = function() return n end })
    ab.run = before -- luacheck: ignore 122
    if not ok then return nil, found end
    local names = {}
    for i, each in ipairs(found.set) do names[i] = each.row.trial end
    return table.concat(names, ' '), found
  end

  it('stand against the first in what is looked for, not in time alone', function()
    local rows = { row(1, 10, 9, 20, { batch = 8 }), row(2, 12, 9, 20, { batch = 2 }) }
    local twice = { ratio = 2, ci_lo = 1.6, ci_hi = 2.5, verdict = 'slower', a_ns = 10,
      margin = 0.01 }
    local left, found = run(rows, { twice }, 'max batch / fwd')
    assert.equal('1', left)
    local pair = found.behind[1].pair
    -- a quarter of the batch in twice the time
    assert.near(1 / 8, pair.ratio, 1e-12)
    assert.near(1 / 10, pair.lo, 1e-12)
    assert.near(1 / 6.4, pair.hi, 1e-12)
  end)

  it('keep what was told apart when Ctrl-C ends it; other errors go on', function()
    local rows, stop = {}, { code = 'EINTR', message = 'interrupted' }
    for i = 1, 4 do rows[i] = row(i, 10 + i, 9, 20, { batch = i }) end
    local slower = { ratio = 2, ci_lo = 1.9, ci_hi = 2.1, verdict = 'slower', a_ns = 10,
      margin = 0.01 }
    local left, found = run(rows, { slower, stop })
    assert.equal('1 3 4', left)
    assert.same({ 1, 2, stop }, { found.pairs, found.untried, found.stopped })
    assert.equal(2, found.behind[1].row.trial)
    left, found = run(rows, { slower, slower, slower })
    assert.same({ '1', 3, 0 }, { left, found.pairs, found.untried })
    assert.is_nil(found.stopped)
    -- who is found to be better is first, and stands in no ratio to the one before
    local faster = { ratio = 0.5, ci_lo = 0.4, ci_hi = 0.6, verdict = 'faster', a_ns = 10,
      margin = 0.01 }
    left, found = run({ rows[1], rows[2] }, { faster })
    assert.equal('2', left)
    assert.is_nil(found.set[1].pair)
    assert.same({ code = 'EIO' }, select(2, run(rows, { slower, { code = 'EIO' } })))
  end)
end)

describe('a pair timed side by side', function()
  local rows = { row(1, 10, 9, 11, { batch = 1 }), row(2, 20, 19, 21, { batch = 4 }) }
  local a, b = { row = rows[1] }, { row = rows[2] }

  local function word(text, found)
    found.a_ns, found.margin = 10, found.margin or 0.01
    local pair = settle.pair(goal(text, rows), found, a, b)
    return pair.word, pair.ratio
  end

  it('says how the value stands, not the time', function()
    local slower = { ratio = 2, ci_lo = 1.9, ci_hi = 2.1, verdict = 'slower' }
    assert.equal('behind', (word('min fwd', slower)))
    assert.equal('better', (word('max fwd', slower)))
    assert.same({ 'better', 2 }, { word('max batch / fwd', slower) }) -- four times as many rows
    assert.equal('better', (word('min fwd', { ratio = 0.5, ci_lo = 0.4, ci_hi = 0.6,
      verdict = 'faster' })))
    assert.equal('equal', (word('min fwd', { ratio = 1, ci_lo = 0.999, ci_hi = 1.001,
      verdict = 'equal' })))
  end)

  it('is not equal by times that are, where a parameter is part of the value', function()
    local same = { ratio = 1, ci_lo = 0.999, ci_hi = 1.001, verdict = 'equal' }
    assert.equal('equal', (word('fwd', same)))
    assert.same({ 'better', 4 }, { word('max batch / fwd', same) })
  end)

  it('is open within the margin, across one, or where the control failed', function()
    assert.equal('open', (word('min fwd', { ratio = 1.02, ci_lo = 0.99, ci_hi = 1.05,
      verdict = 'open' })))
    assert.equal('open', (word('min fwd', { ratio = 1.02, ci_lo = 1.01, ci_hi = 1.03,
      verdict = 'open', margin = 0.05 })))
    assert.equal('open', (word('min fwd', { ratio = 2, ci_lo = 1.9, ci_hi = 2.1, verdict = 'open',
      aa_fail = true })))
  end)
end)

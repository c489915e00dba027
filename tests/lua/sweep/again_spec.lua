-- SPDX-License-Identifier: MIT
--- What is measured again, and what is held against what is stored: a replayed point, ceilings kept
--- in a database, and the points that have one more pass than all others.

local fixed = dofile 'tests/lua/cli/fixed_rows.lua'
local folders = dofile 'tests/lua/store/folder.lua'
local calibrated = require 'ridge.sweep.calibrated'
local canonical = require 'ridge.store.canonical'
local device = require 'ridge.sweep.device'
local extra = require 'ridge.sweep.extra'
local replay = require 'ridge.sweep.replay'
local results = require 'ridge.store.results'
local sqlite = require 'ridge.store.sqlite'
local store = require 'ridge.store'

local function failure(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return err.message
end

-- A sweep that was called with these.
local function called(args)
  return { arguments = function() return args end }
end

describe('a point that is replayed', function()
  local folder, path, st

  setup(function()
    folder = folders.new()
    path = folder .. '/a.db'
    fixed.make(path)
    local db = sqlite.open(path, 'write')
    db:exec [[DELETE FROM timing WHERE attempt_id = (SELECT best_attempt FROM trial WHERE id = 12);
      UPDATE attempt SET seed = 77 WHERE trial_id = 1;
      INSERT INTO timing(attempt_id, phase, cache, clock, n, inner, med)
        SELECT best_attempt, 'bwd', 'warm', 'cpu', 4, 1, 2000 FROM trial WHERE id = 1]]
    db:close()
    st = store.open(path, 'read')
  end)
  teardown(function()
    st:close()
    folders.remove(folder)
  end)

  it('is one that was timed', function()
    local trial = replay.trial(st, 1)
    assert.same({ 1, 'widths', 'widths.lua', 'return 1', 77, 1, 'Test CPU 9000', '4f2a91c', 5 },
      { trial.id, trial.sweep, trial.recipe, trial.source, trial.draw, trial.seed, trial.cpu,
        trial.git, #trial.ceilings })
    assert.same({ 1000, 990, 1010 }, { trial.timings.fwd.med, trial.timings.fwd.ci_lo,
      trial.timings.fwd.ci_hi }) -- the warm one
    assert.equal('there is no trial 99 in ' .. path, failure(replay.trial, st, 99))
    assert.equal('trial 21 is oom; there is nothing to compare with', failure(replay.trial, st, 21))
    assert.equal('trial 12 was not timed; its metrics say what they were',
      failure(replay.trial, st, 12))
  end)

  -- The machine of the rows.
  local function here()
    return { machine = { cpu = 'Test CPU 9000', cores = 2, threads = 4, isa = 'avx2' },
      device = { kind = 'cpu', name = 'Test CPU 9000' } }
  end

  it('agrees unless the intervals lie apart', function()
    local given
    local function of(now, names)
      local trial, said = replay.trial(st, 1), {}
      local found = replay.run(trial, { name = 'r.lua' }, called {}, {
        progress = function(text) said[#said + 1] = text end,
        lab = { facts = here, fresh = function(source, protocol, ceilings, tick)
          given = { source, protocol, ceilings }
          tick(1, 3)
          tick(2)
          return names or { 'none', 'fwd' }, { { med = 1 }, now }
        end } })
      assert.same({ 'process 1 of 3', 'process 2 of ?' }, said)
      assert.equal(1, #found)
      return found[1]
    end
    for _, case in ipairs { { 'agrees', 1100, 1010, 1200 }, { 'slower', 1100, 1010.1, 1200 },
        { 'agrees', 900, 880, 990 }, { 'faster', 900, 880, 989.9 }, { 'agrees', 1000, 1, 9999 },
        { 'open', 2000, 1990, 2010, 'D' }, { 'slower', 2000, 1990, 2010, 'C' }, { 'open', 500 } } do
      local found = of { med = case[2], ci_lo = case[3], ci_hi = case[4], grade = case[5] }
      assert.same({ case[1], case[2] / 1000, 'fwd', case[5], 1000, case[2] }, { found.verdict,
        found.ratio, found.phase, found.grade, found.before.med, found.now.med })
    end
    assert.same({ { batch = 8, kind = 'linear', width = 64 }, 77, 'r.lua' }, (function(spec)
      return { spec.point, spec.seed, spec.origin.name }
    end)(canonical.decode(given[1].spec)))
    assert.same({ { passes = 5, version = 2, processes = 3 }, 5 }, { given[2], #given[3] })
    assert.equal('the recipe times nothing that trial 1 has',
      failure(of, { med = 1 }, { 'none', 'other' }))
    assert.equal('the recipe was called with other arguments: {} then, {"n":3} now; give them '
      .. 'after --', failure(replay.run, replay.trial(st, 1), {}, called { n = 3 },
      {}))
  end)

  it('has as many processes as its protocol, where that says more', function()
    local trial = replay.trial(st, 1)
    for processes, want in pairs { [2] = 3, [3] = 3, [7] = 7 } do
      trial.protocol = canonical.encode { processes = processes }
      trial.draw = nil
      replay.run(trial, {}, called {}, { lab = { facts = here, fresh = function(source, protocol)
        assert.equal(want, protocol.processes)
        assert.equal(trial.seed, canonical.decode(source.spec).seed)
        return { 'bwd' }, { { med = 1 } }
      end } })
    end
  end)
end)

describe('ceilings in a database', function()
  local folder, path, lab, calls, original
  local WHOLE = { { name = 'fma.f32', value = 1e11, unit = 'flop/s' },
    { name = 'noise.aa', value = 0.01, unit = '1' } }

  before_each(function()
    folder, calls = folders.new(), {}
    path = folder .. '/c.db'
    original = device.lab
    local real = original()
    local backend = require 'ridge.backend'
    lab = { facts = real.facts, quiet = true, found = WHOLE, lease = function() return nil end,
      threads = function() return backend.threads() end,
      is_quiet = function() return lab.quiet end,
      calibrate = function(say, quick)
        say 'now'
        local rows = {}
        for i, row in ipairs(lab.found) do
          rows[i] = { threads = backend.threads(), name = row.name, value = row.value + #calls,
            unit = row.unit }
        end
        calls[#calls + 1] = { backend.threads(), quick }
        return rows
      end }
    device.lab = function() return lab end
  end)
  after_each(function()
    device.lab = original
    folders.remove(folder)
  end)

  local function rows(opt)
    local st, said = store.open(path, 'write'), {}
    local facts = lab.facts()
    local found, measured, whole = calibrated.rows(st,
      st:device(st:machine(facts.machine), facts.device), lab,
      function(text) said[#said + 1] = text end, opt or {})
    st:close()
    return { #found, measured, whole or false, #calls, table.concat(said, '|') }
  end

  it('are measured once, with their noise as soon as nothing disturbs it', function()
    lab.found = { WHOLE[1] }
    assert.same({ 1, true, false, 1, 'now' }, rows())
    lab.quiet = false
    assert.same({ 1, false, false, 1, 'not now: other processes run, so the noise of this machine '
      .. 'stays unknown' }, rows())
    assert.same({ 1, true, false, 2, 'now' }, rows { again = true })
    lab.quiet, lab.found = true, WHOLE
    assert.same({ 2, true, true, 3, 'now' }, rows { quick = true })
    assert.same({ 2, false, false, 3, '' }, rows())
    assert.same({ 2, true, true, 4, 'now' }, rows { again = true, quick = false })
    assert.same({ nil, nil, true, false }, { calls[1][2], calls[2][2], calls[3][2], calls[4][2] })
    lab.simulated = true
    assert.same({ 0, false, false, 4, '' }, rows { again = true })
  end)

  it('of each number of threads are its own', function()
    local backend = require 'ridge.backend'
    local before = backend.threads()
    assert.is_nil(calibrated.stored(folder .. '/none.db'))
    assert.is_nil(io.open(folder .. '/none.db'))
    calibrated.may_keep(path)
    assert.is_nil(calibrated.stored(path))
    assert.same({}, calibrated.all(path))
    local said = {}
    local found, disturbed = calibrated.measure { db = path, threads = { 1, 2 }, quick = true,
      say = function(text) said[#said + 1] = text end }
    assert.same({ 4, 0, before, 'now|now' }, { #found, #disturbed, backend.threads(),
      table.concat(said, '|') })
    assert.same({ { 1, true }, { 2, true } }, calls)
    for n = 1, 2 do
      backend.set_threads(n)
      local own = calibrated.stored(path)
      assert.same({ 2, 'fma.f32', 1e11 + n - 1, n }, { #own, own[1].name, own[1].value,
        own[1].threads })
    end
    backend.set_threads(3)
    assert.is_nil(calibrated.stored(path))
    backend.set_threads(before)
    lab.found = { WHOLE[1] }
    found, disturbed = calibrated.measure { db = path, threads = { 2, 1 }, say = function() end }
    assert.same({ 4, { 2, 1 } }, { #found, disturbed }) -- the noise of the first time is kept
    assert.equal(false, calls[3][2])
    calibrated.keep({ { name = 'trust.up', threads = 7, value = 0.5, unit = '1' } }, path)
    assert.equal(5, #calibrated.all(path))
    lab.simulated = true
    assert.equal('calibrate: cuda:0 is simulated: its ceilings would be those of a program',
      failure(calibrated.measure, { db = path, device = 'cuda:0' }))
  end)

  it('are there before a sweep', function()
    local written, stderr = {}, io.stderr
    local function write(_, ...) written[#written + 1] = table.concat { ... } end
    io.stderr = { write = write } -- luacheck: ignore 122
    local ok, first = pcall(calibrated.ensure, { db = path })
    local again = calibrated.ensure { db = path, quick = false }
    local third = calibrated.ensure { db = path, again = true, quick = false }
    io.stderr = stderr -- luacheck: ignore 122
    assert(ok, first)
    assert.same({ true, 2, false, 2, true, 2 }, { first.measured, #first.list, again.measured,
      #again.list, third.measured, #third.list })
    assert.equal(lab, first.lab)
    assert.same({ true, false }, { calls[1][2], calls[2][2] })
    assert.same({ 'calibrating: now\n', 'calibrating: now\n' }, written)
  end)
end)

describe('one more pass', function()
  local P = 1 / 128 -- so that sums are exact

  -- Which trials have it, of rows { trial, more ... } of one phase; all else is usual.
  local function of(list, protocol, phases)
    local rows, original, params_of = {}, results.rows, results.params
    for i, more in ipairs(list) do
      rows[i] = { trial = i, state = 'ok', grade = 'A', reused = 0, passes = 5, n = i }
      for name, value in pairs(more) do rows[i][name] = value end
    end
    results.rows = function() return rows end
    results.params = function() return { 'n', 'w' } end
    local p = { passes = 5, max_passes = 10, precision = P }
    for name, value in pairs(protocol or {}) do p[name] = value end
    local ok, found = pcall(extra.points, { spec = { protocol = p }, sweep = { id = 1 },
      store = { db = { query = function() return phases or { { name = 'f' } } end } } })
    results.rows, results.params = original, params_of
    return ok and table.concat(found, ' ') or found
  end

  it('is of points whose ratio to their partner may lie on either side', function()
    local open = { f_ratio = 1, f_ratio_lo = 1 - 2 * P, f_ratio_hi = 1 + P }
    local function but(more)
      local row = {}
      for name, value in pairs(open) do row[name] = value end
      for name, value in pairs(more) do row[name] = value end
      return row
    end
    assert.equal('1 3', of { open, {}, open })
    assert.equal('', of { but { f_ratio_lo = 1 - P } }) -- as precise as is asked for
    assert.equal('', of { but { f_ratio = 2 } }) -- half as wide beside it
    assert.equal('1', of { but { f_ratio_lo = 1, f_ratio_hi = 1 + 3 * P } })
    assert.equal('1', of { but { f_ratio_lo = 1 - 3 * P, f_ratio_hi = 1 } })
    assert.equal('', of { but { f_ratio_lo = 1 + P / 8, f_ratio_hi = 1 + 4 * P } })
    assert.equal('', of { but { f_ratio_lo = 1 - 4 * P, f_ratio_hi = 1 - P / 8 } })
    for name, value in pairs { grade = 'D', state = 'error', reused = 1, passes = 10 } do
      assert.equal('2', of { but { [name] = value }, but { passes = 9, grade = 'C' } }, name)
    end
    assert.equal('', of({ open }, { max_passes = 5 }))
    assert.equal('', of({ open }, { passes = 4 }))
    assert.equal('1', of({ open }, { max_passes = 6 }))
    assert.equal('', of({ open }, nil, { { name = 'g' } }))
    assert.equal('1', of({ open }, nil, { { name = 'g' }, { name = 'f' } }))
  end)

  it('is of points that differ in words only and cannot be told apart', function()
    local level, rough = '100 100 100 100 100 100', '90 110 95 105 120 80'
    local function row(n, w, text) return { n = n, w = w, f_by_pass = text } end
    assert.equal('1 2', of { row(1, 'a', level), row(1, 'b', rough) })
    assert.equal('', of { row(1, 'a', level), row(2, 'b', rough) })
    assert.equal('', of { row(1, 'a', level), row(1, 'b', level) })
    assert.equal('', of { row(1, 'a', level), row(1, 'b', '200 210 190 205 195 215') })
    assert.equal('1 3', of { row(1, 'a', level), row(2, 'a', level), row(1, 'b', rough) })
    assert.equal('', of { row(1, 'a', level), row(1, 'b', nil) })
    local many = {}
    for i = 1, 10 do many[i] = row(1, 'w' .. i, level) end
    many[9].f_by_pass = rough -- of the first nine one is held against each of the eight behind it
    assert.equal('1 2 3 4 5 6 7 8 9 10', of(many))
    many[9].f_by_pass, many[10].f_by_pass = level, rough
    assert.equal('2 3 4 5 6 7 8 9 10', of(many))
  end)

  it('is of what may be the fastest, if that is not a crowd', function()
    local function row(rate, lo, hi, more)
      local r = { f_gflops = rate, f = 100, f_lo = lo, f_hi = hi }
      for name, value in pairs(more or {}) do r[name] = value end
      return r
    end
    -- the best is at least 10 * 100 / 110 = 9.09; 9 may be 9 * 100 / 90 = 10
    assert.equal('1 2', of { row(10, 95, 110), row(9, 90, 105) })
    assert.equal('1 3', of { row(9, 90, 105), row(5, 90, 110), row(10, 95, 110) })
    assert.equal('', of { row(10, 95, 110), row(8, 90, 105) })
    assert.equal('', of { row(10, 95, 110), row(9, 99.5, 105) }) -- 9.05
    assert.equal('1 2', of { row(10, 95, 125), row(8, 100, 105) }) -- 8 of 8
    assert.equal('', of { row(10, 95, 110), row(9, 90, 91.5) }) -- one alone is wide enough
    assert.equal('', of { row(10, 95, nil), row(9, 90, 105) })
    assert.equal('', of { row(nil, 95, 110), row(nil, 90, 105) })
    assert.equal('1 2', of { row(10, 95, 110), row(9, 90, 105), row(99, 95, 110, { grade = 'D' }) })
    local many = {}
    for i = 1, 8 do many[i] = row(10, 95, 110) end
    assert.equal('1 2 3 4 5 6 7 8', of(many))
    many[9] = row(10, 95, 110)
    assert.equal('', of(many))
  end)
end)

describe('points of one group', function()
  it('agree in all their numbers', function()
    local function same(a, b) return extra.group_of(a) == extra.group_of(b) end
    assert.is_true(same({ n = 1, w = 'a' }, { n = 1, w = 'b' }))
    assert.is_true(same({ n = 1, w = 'a', on = true }, { n = 1 }))
    assert.is_false(same({ n = 1 }, { n = 2 }))
    assert.is_false(same({ n = 1 }, { m = 1 }))
    assert.is_false(same({ n = 1, m = 2 }, { n = 1 }))
  end)
end)

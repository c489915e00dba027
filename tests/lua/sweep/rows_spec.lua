-- SPDX-License-Identifier: MIT
-- Rows as a value, fronts, exponents, and stored sweeps without their recipe.

local analysis = require 'ridge.sweep.analysis'
local cheap_lab = dofile 'tests/lua/sweep/cheap_lab.lua'
local folders = dofile 'tests/lua/store/folder.lua'
local rows_of = require 'ridge.sweep.rows'
local sweep = require 'ridge.sweep'

local function some()
  local list = {}
  for _, kind in ipairs { 'a', 'b' } do
    for _, batch in ipairs { 1, 8, 64 } do
      list[#list + 1] = { trial = #list + 1, kind = kind, batch = batch, state = 'ok', grade = 'A',
        fwd = batch * (kind == 'a' and 10 or 20), fwd_lo = 1, fwd_hi = 2, fwd_gflops = 5 }
    end
  end
  list[3].fwd = nil
  return rows_of.new(list)
end

local function column(rows, name)
  local out = {}
  for i, row in ipairs(rows) do out[i] = row[name] or 'none' end
  return out
end

describe('rows', function()
  it('are filtered by values, lists, limits, texts and functions', function()
    local rows = some()
    assert.same({ 1, 2, 3 }, column(rows:where { kind = 'a' }, 'trial'))
    assert.same({ 2, 3, 5, 6 }, column(rows:where { batch = { ge = 8 } }, 'trial'))
    assert.same({ 2, 5 }, column(rows:where { batch = { gt = 1, lt = 64 } }, 'trial'))
    assert.same({ 1, 3 }, column(rows:where { kind = 'a', batch = { 1, 64 } }, 'trial'))
    assert.same({ 5, 6 }, column(rows:where 'batch >= 8 and kind = "b"', 'trial'))
    assert.same({ 1 }, column(rows:where(function(r) return r.fwd == 10 end), 'trial'))
    assert.equal(6, #rows)
    for wrong, pattern in pairs { ['batsh > 1'] = "did you mean 'batch'",
        ['batch >'] = 'character', ['kind > 3'] = 'kind is text and 3 is a number',
        ['batch = "64"'] = 'a number stands without quotes' } do
      local ok, err = pcall(rows.where, rows, wrong)
      assert.is_false(ok)
      assert.matches(pattern, err.message)
    end
    for _, wrong in ipairs { { batch = '64' }, { kind = { gt = 3 } }, { kind = { 'a', 3 } } } do
      local ok, err = pcall(rows.where, rows, wrong)
      assert.is_false(ok)
      assert.matches('they cannot be compared', err.message)
    end
    assert.has_error(function() rows:where { batch = { above = 3 } } end)
    assert.has_error(function() rows:where(3) end)
  end)

  it('are sorted, what has no value last, and cut', function()
    assert.same({ 10, 20, 80, 160, 1280, 'none' }, column(some():sort 'fwd', 'fwd'))
    assert.same({ 1280, 160, 80, 20, 10, 'none' }, column(some():sort '-fwd', 'fwd'))
    assert.same({ 6, 5 }, column(some():sort '-fwd':head(2), 'trial'))
    assert.equal(6, #some():head(99))
    assert.equal(1, #some():head(1))
    for _, bad in ipairs { 0, -1, 1.5, -1e300, 0 / 0, '2' } do
      local ok, err = pcall(function() some():head(bad) end)
      assert.is_false(ok)
      assert.matches('rows:head: how many is a whole number from 1, got ', err.message, 1, true)
    end
  end)

  it('are printed without what only says how they came about', function()
    local text = tostring(rows_of.new { { width = 7, state = 'ok', role = 'grid', rep = 1,
      tries = 2, began = 3, implied_by = 4 } })
    for name, shown in pairs { width = true, state = true, role = false, rep = false,
        tries = false, began = false, implied_by = false } do
      assert.equal(shown, text:find(name, 1, true) ~= nil, name)
    end
  end)

  it('are printed with the interval and rate of a phase, and none of its other columns', function()
    local text = tostring(rows_of.new { { width = 7, fwd = 5, fwd_lo = 4, fwd_hi = 6, fwd_p25 = 4.5,
      fwd_gflops = 8, fwd_n = 9, low_rank = 3 }, { width = 8, low = 1 } })
    local names = {}
    for name in text:match '^[^\n]*':gmatch '%S+' do names[#names + 1] = name end
    assert.same({ 'fwd', 'fwd_gflops', 'fwd_hi', 'fwd_lo', 'low', 'low_rank', 'width' }, names)
  end)

  it('are printed by name, how each ended behind the rest', function()
    local text = tostring(rows_of.new { { trial = 7, state = 'ok', grade = 'B', flags = 'SHORT',
      reason = 'why', width = 3, act = 'relu', fwd = 5 } })
    local names = {}
    for name in text:match '^[^\n]*':gmatch '%S+' do names[#names + 1] = name end
    assert.same({ 'act', 'fwd', 'width', 'trial', 'state', 'grade', 'flags', 'reason' }, names)
  end)

  it('are grouped and aggregated', function()
    local rows = some():group 'kind':agg { t = 'median fwd', n = 'count fwd', g = 'max fwd.gflops' }
    assert.same({ 'a', 'b' }, column(rows, 'kind'))
    assert.same({ 45, 160 }, column(rows, 't'))
    assert.same({ 2, 3 }, column(rows, 'n'))
    assert.same({ 1280 }, column(some():agg { most = 'max fwd' }, 'most'))
    local ok, err = pcall(function() some():group 'kind':agg { t = 'medium fwd' } end)
    assert.is_false(ok)
    assert.matches("did you mean 'median'", err.message)
    assert.has_error(function() some():group 'kind':agg { t = 'fwd' } end)
  end)

  it('are printed without what is kept of a phase by pass, cold or quiet', function()
    local text = tostring(rows_of.new { { width = 7, fwd = 5, fwd_lo = 4, fwd_hi = 6, fwd_p95 = 8,
      fwd_by_pass = '5 6', fwd_cold = 9, fwd_cold_lo = 8, fwd_cold_hi = 10, fwd_quiet = 3,
      fwd_quiet_lo = 2, fwd_ratio_hi = 1, fwd_left_out = 1, a_by_pass = 'mine', ratio_hi = 3,
      grade = 'B' } })
    assert.equal('a_by_pass  fwd [ns]  fwd_hi [ns]  fwd_lo [ns]  ratio_hi  width  grade',
      text:match '^[^\n]*')
  end)

  it('print units where a column is a time, also what was made of one', function()
    local list = {}
    for i = 1, 3 do
      list[i] = { width = i, fwd = 10 * i, fwd_lo = 9, fwd_p95 = 12, fwd_gflops = 4, loss_max = 1 }
    end
    local rows = rows_of.new(list)
    assert.equal('fwd [ns]  fwd_gflops  fwd_lo [ns]  loss_max  width',
      tostring(rows):match '^[^\n]*')
    assert.matches('^fwd %[ns%]', tostring(rows:where 'width > 1':sort '-fwd':head(1)))
    local made = rows:group 'width':agg { t = 'median fwd', p = 'max fwd_p95', n = 'count fwd',
      rate = 'max fwd.gflops' }
    assert.equal('width  n  p [ns]  rate  t [ns]', tostring(made):match '^[^\n]*')
    assert.matches('^width  n  p %[ns%]  rate  t %[ns%]\n    3', tostring(made:sort '-t':head(2)))
    assert.matches('^fwd %[ns%]  n\n', tostring(rows:group 'fwd':agg { n = 'count width' }))
  end)

  it('print as a table, the first twenty', function()
    local text = tostring(some())
    assert.matches('batch', text)
    assert.matches('%f[%d]1280%f[%D]', text)
    assert.is_nil(text:find '\27')
    local many = {}
    for i = 1, 50 do many[i] = { k = i } end
    assert.matches('%.%.%. 30 rows more$', tostring(rows_of.new(many)))
    assert.equal('no rows', tostring(rows_of.new {}))
  end)

  it('stand against each other in a table', function()
    local pivot = some():pivot { rows = 'kind', cols = 'batch', cell = 'fwd' }
    assert.same({ 'a', 'b' }, pivot.rows)
    assert.same({ 20, 160, 1280 }, pivot.cells[2])
    assert.is_nil(pivot.cells[1][3])
    assert.matches('a +10 +80 +%-', pivot:text())
    assert.truthy(pivot:text 'true':find '\27%[38;2;')
  end)
end)

describe('a front', function()
  it('keeps what nothing beats beyond doubt', function()
    local rows = {
      { n = 1, t = 10, t_lo = 9, t_hi = 11, acc = 0.9 },
      { n = 2, t = 10.5, t_lo = 9.5, t_hi = 11.5, acc = 0.8 }, -- worse, but the intervals touch
      { n = 3, t = 20, t_lo = 19, t_hi = 21, acc = 0.8 },
      { n = 4, t = 30, t_lo = 29, t_hi = 31, acc = 0.95 },
      { n = 5, t = 5, t_lo = 4, t_hi = 6, acc = 0.99, grade = 'D' } }
    assert.same({ 1, 2, 4 }, column(analysis.pareto(rows, { min = { 't' }, max = { 'acc' } }), 'n'))
    assert.same({ 1, 2 }, column(analysis.pareto(rows, { min = 't' }), 'n'))
    assert.has_error(function() analysis.pareto(rows, {}) end)
  end)
end)

describe('an exponent', function()
  local function grown(power, noise)
    local rows = {}
    for i = 4, 13 do
      local x = 2 ^ i
      rows[#rows + 1] = { x = x, fwd = 3 * x ^ power(x) * (1 + (noise or 0) * (-1) ^ i),
        fwd_bytes = 4 * x * x, b = 1 }
    end
    return rows
  end

  it('is that of a power law, with its error', function()
    local found = analysis.exponent(grown(function() return 2 end, 0.03), 'fwd', 'x')[1]
    assert.near(2, found.exponent, 0.02)
    assert.is_true(found.err > 0.005 and found.err < 0.05)
    assert.is_nil(found.at)
    assert.matches('^%d%.%d%d ± %d%.%d%d on 16%.%.8192$', analysis.words(found))
    local by = analysis.exponent(grown(function() return 2 end), 'fwd', 'x', { by = 'b' })
    assert.equal(1, by[1].by)
  end)

  it('breaks where it changes, and says which cache is left there', function()
    local rows = grown(function() return 1 end)
    for _, row in ipairs(rows) do
      if row.x > 256 then row.fwd = 3 * 256 * (row.x / 256) ^ 2.5 end
    end
    local found = analysis.exponent(rows, 'fwd', 'x', { l1d = 1000, l2 = 4 * 300 * 300 })[1]
    assert.near(1, found.before, 0.05)
    assert.near(2.5, found.after, 0.1)
    assert.is_true(found.at > 200 and found.at < 600)
    assert.equal('L2', found.cause)
    -- a cache that held everything, or nothing, is not what changed
    assert.is_nil(analysis.exponent(rows, 'fwd', 'x', { l1d = 1, l2 = 2 ^ 60 })[1].cause)
    assert.equal('L2', analysis.exponent(rows, 'fwd', 'x', { l1d = 2 ^ 60,
      l2 = 4 * 300 * 300 })[1].cause)
    assert.matches('working set = L2', analysis.words(found))
  end)

  it('leaves out what has no logarithm, and what was disturbed', function()
    local rows = grown(function() return 2 end)
    rows[#rows + 1] = { x = 1, fwd = 0 }
    rows[#rows + 1] = { x = 0, fwd = 7 }
    rows[#rows + 1] = { x = 2, fwd = -3 }
    rows[#rows + 1] = { x = 3, fwd = 1e9, grade = 'D' }
    local found = analysis.exponent(rows, 'fwd', 'x')[1]
    assert.near(2, found.exponent, 1e-9)
    assert.same({ 16, 8192, 10 }, { found.from, found.to, found.n })
  end)

  it('needs three points', function()
    assert.has_error(function() analysis.exponent({ { x = 1, fwd = 1 } }, 'fwd', 'x') end)
  end)

  it('needs points that lie apart: of equal ones there is none', function()
    for x = 1, 20 do
      local rows = {}
      for i = 1, 3 + x % 4 do rows[i] = { x = x, fwd = 10 + i } end
      assert.is_false((pcall(analysis.exponent, rows, 'fwd', 'x')), x)
    end
  end)
end)

describe('a stored sweep', function()
  it('is read without its recipe', function()
    local folder = folders.new()
    local db = folder .. '/s.db'
    local sw = sweep 'land' { space = { k = sweep.geom(1, 64) }, measure = function(p, _, m)
      m:time('fwd', function() return p.k * 10 end)
      m:metric('error', 1 / p.k, { better = 'lower' })
    end, protocol = { passes = 5, max_passes = 5 } }
    sw:run { db = db, lab = cheap_lab.new(), progress = false }
    assert.equal(7, #sw:results { grade = 'A' })
    assert.equal(7, #sw:pareto { min = { 'fwd', 'error' } })
    assert.near(1, sw:exponent('fwd', 'k')[1].exponent, 1e-6)
    local stored = require('ridge').open(db)
    assert.equal('land', stored:sweeps()[1].sweep)
    local old = stored:sweep 'land'
    assert.equal(7, #old:results())
    assert.equal(1, old:best('fwd')[1].k)
    assert.equal('samples', old:plot('samples', { y = 'fwd' }).kind)
    assert.error_matches(function() old:compare(sw) end, 'both are the sweep land in ')
    local ok, err = pcall(function() old:run() end)
    assert.is_false(ok)
    assert.matches('needs the recipe', err.message)
    ok, err = pcall(stored.sweep, stored, 'lend')
    assert.is_false(ok)
    assert.matches("did you mean 'land'", err.message)
    assert.has_error(function() require('ridge').open(folder .. '/none.db') end)
    assert.has_error(function() require('ridge').open(3) end)
    folders.remove(folder)
  end)

  it('of many parameters is drawn in pairs that agree in all others', function()
    local folder = folders.new()
    local sw = sweep 'many' {
      space = { a = { 1, 2 }, b = { 1, 2 }, dtype = { 'f32', 'bf16' }, impl = { 'x', 'y' },
        t = { 1, 10 } }, protocol = { passes = 5, max_passes = 5 },
      measure = function(p, _, m)
        local time = (p.dtype == 'f32' and 100 or 50) * (p.impl == 'x' and 1 or 4) * p.t
        m:time('fwd', function() return time end)
      end }
    sw:run { db = folder .. '/s.db', lab = cheap_lab.new(), progress = false }
    local function drawn(kind, opt) return sw:plot(kind, opt) end
    local axes = { x = 'a', y = 'b', a = 'dtype=f32', b = 'dtype=bf16' }
    local figure = drawn('ratio', axes)
    assert.equal('dtype=bf16 wins in 8 cells, dtype=f32 in 0; 0 are undecided.', figure.finding)
    assert.matches('Up to 2 points lie in a cell; the middle one of them is drawn', figure:text())
    -- a side may name what is drawn across
    figure = drawn('ratio', { x = 'a', y = 'b', a = 'a=1', b = 'a=2' })
    assert.equal('a=2 wins in 0 cells, a=1 in 0; 4 are undecided.', figure.finding)
    -- a map has a panel for each value of what else varies, and says where points share a cell
    figure = drawn('map', { x = 'a', y = 'b' })
    assert.matches('Up to 4 points lie in a cell', figure:text())
    assert.is_nil(drawn('map', { x = 'a', y = 't', facet = 'b' }):text():find('Up to 1', 1, true))
    for text, opt in pairs { ['a and b are the same'] = { x = 'a', y = 'b', a = 'dtype=f32',
        b = 'dtype=f32' }, ['two sides are compared'] = { a = 'dtype=f32' } } do
      local ok, err = pcall(drawn, 'ratio', opt)
      assert.is_false(ok)
      assert.matches(text, err.message)
    end
    local ok, err = pcall(drawn, 'samples', { trials = '1,a' })
    assert.is_false(ok)
    assert.matches("trials: 'a' is no number of a trial", err.message)
    folders.remove(folder)
  end)

  it('has lines of points that agree in all but what is drawn across', function()
    local folder = folders.new()
    local factor = 1
    local function measured(new)
      local sw = sweep 'lines' {
        space = { threads = { 1, 2, 4 }, width = { 1, 10 }, dtype = { 'f32', 'bf16' } },
        protocol = { passes = 5, max_passes = 5 },
        measure = function(p, _, m)
          local slow = p.width == 10 and p.dtype == 'f32' and p.threads == 4 and factor or 1
          local time = 1000 * p.width * (p.dtype == 'f32' and 3 or 1) / p.threads * slow
          m:time('fwd', function() return time end)
        end }
      sw:run { db = folder .. '/s.db', lab = cheap_lab.new(), progress = false, new = new }
      return sw
    end
    local sw = measured(false)
    for _, by in ipairs { 'width', 'dtype', false } do
      local figure = sw:plot('threads', { by = by or nil })
      assert.matches('At most 4.00 times faster, with 4 threads', figure.finding)
      assert.matches('dtype=%w+ width=%d+', figure.finding)
    end
    for _, kind in ipairs { 'slices', 'steps' } do
      sw:plot(kind, { x = 'threads', y = 'fwd' }):render { scale = 1 }:close()
    end
    -- the same points measured again: one of twelve moved, and is among those that are shown
    assert.matches('^1 run; 0 times a point moved', sw:plot('history', {}).finding)
    factor = 2
    local figure = measured(true):plot('history', {})
    assert.matches('^2 runs; 1 time a point moved', figure.finding)
    assert.matches('4 more points are not shown', figure:text())
    folders.remove(folder)
  end)

  it('is drawn with the unit of a time, whatever its phase is called, and the way that is better',
    function()
      local folder = folders.new()
      local sw = sweep 'step' { space = { a = { 1, 2, 4 }, b = { 8, 16 } },
        measure = function(p, _, m)
          m:time('step', function() return 1e6 * p.a * p.b end)
          m:metric('right', p.a * p.b, { better = 'higher' })
        end }
      sw:run { db = folder .. '/s.db', lab = cheap_lab.new(), progress = false }
      local map = sw:plot('map', {})
      assert.same({ 'ns', 'cells in ms' }, { map.data.kind, map.data.z_label })
      assert.equal('Landscape of time of step', map.title)
      assert.equal('ns', sw:plot('map', { z = 'step_p25' }).data.kind)
      assert.equal('number', sw:plot('map', { z = 'right' }).data.kind)
      local about = require('ridge.plot.column').about
      local rows = sw:results()
      assert.equal('time of step, 95th percentile', about('step_p95', rows).label)
      assert.equal('ns', require('ridge.plot.series').axis(rows, 'step').kind)
      assert.equal('number', about('step').kind)
      -- more is better of the one, less of the other: no point is beaten in both
      local found = sw:plot('pareto', { x = 'step', y = 'right' }).finding
      assert.matches('0 are beaten in both', found)
      found = sw:plot('pareto', { x = 'step', y = 'right', better_y = 'lower' }).finding
      assert.matches('5 are beaten in both', found)
      folders.remove(folder)
    end)
end)

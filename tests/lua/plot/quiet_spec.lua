-- SPDX-License-Identifier: MIT
-- Pictures by the time in the machine's fast state: the values, which points have none, what the
-- figure says, and that its file draws it again either way.

local folders = dofile 'tests/lua/store/folder.lua'
local kinds = require 'ridge.plot.kinds'
local plot = require 'ridge.plot'
local quiet = require 'ridge.plot.quiet'
local rows_of = require 'ridge.plot.rows'

-- In the fast state a takes 60 of its 100 ns; b, as slow as a on the whole, has none below 100.
local function point(trial, width, kind, more)
  local row = { trial = trial, state = 'ok', grade = 'A', flags = '', width = width, batch = 1,
    kind = kind, fwd = 100, fwd_lo = 95, fwd_hi = 140, fwd_p95 = 150, fwd_n = 15, fwd_passes = 5,
    fwd_flops = 1000, fwd_bytes = 500, fwd_gflops = 10, fwd_gbps = 5,
    fwd_quiet = kind == 'a' and 60 or 100,
    fwd_quiet_lo = kind == 'a' and 58 or 98, fwd_quiet_hi = kind == 'a' and 63 or 103 }
  for name, value in pairs(more or {}) do row[name] = value end
  return row
end

local function grid()
  local rows = {}
  for i, width in ipairs { 64, 128 } do
    for k, batch in ipairs { 1, 2 } do
      local n = 4 * i + 2 * k
      rows[#rows + 1] = point(n, width, 'a', { batch = batch })
      -- within the passes they were the same
      rows[#rows + 1] = point(n + 1, width, 'b', { batch = batch, partner = n, fwd_ratio = 1,
        fwd_ratio_lo = 0.99, fwd_ratio_hi = 1.01 })
    end
  end
  return rows
end

local MAP = { x = 'width', y = 'batch', z = 'fwd', facet = 'kind' }
local function map_of(rows, time)
  local opt = { time = time }
  for name, value in pairs(MAP) do opt[name] = value end
  return plot.map(rows, opt)
end

describe('rows by the fast state', function()
  it('have its time, its interval and the rates that follow, and no paired ratio', function()
    local rows = grid()
    local a, b = quiet.rows(rows, 'fwd')[1], quiet.rows(rows, { 'fwd_gflops' })[2]
    assert.same({ 60, 58, 63 }, { a.fwd, a.fwd_lo, a.fwd_hi })
    assert.is_true(math.abs(a.fwd_gflops - 1000 / 60) < 1e-9)
    assert.is_true(math.abs(a.fwd_gbps - 500 / 60) < 1e-9)
    assert.same({ 100, 98, 103 }, { b.fwd, b.fwd_lo, b.fwd_hi })
    assert.is_nil(rows_of.paired(b, a, 'fwd'))
    assert.equal(100, rows[1].fwd, 'the rows that were given stay')
    assert.equal(rows[1], a.of)
    -- by the passes nothing was to be told apart; by the fast state it is
    assert.equal('open', rows_of.verdict(rows[1], rows[2], 'fwd'))
    assert.equal('lower', rows_of.verdict(a, b, 'fwd'))
  end)

  it('without it are a cell of their own, and decide nothing', function()
    local rows = grid()
    rows[1].fwd_quiet, rows[1].fwd_quiet_lo, rows[1].fwd_quiet_hi = nil, nil, nil
    local unseen = quiet.rows(rows, 'fwd')[1]
    assert.same({ 'unseen', nil }, { unseen.state, unseen.fwd })
    assert.is_nil(unseen.fwd_gflops)
    assert.matches('1 fast state not seen %(.-fewer than three passes%)',
      map_of(rows, 'quiet'):text())
    rows[1].fwd_quiet = 60 -- seen in three passes: no interval yet
    assert.equal('open', rows_of.verdict(quiet.rows(rows, 'fwd')[1],
      quiet.rows(rows, 'fwd')[2], 'fwd'))
    rows[2].fwd_quiet_lo, rows[2].fwd_quiet_hi = nil, nil
    assert.equal('open', rows_of.verdict(rows[1], rows[2], 'fwd_quiet'))
  end)

  it('are refused where a column is no time, or no point has any', function()
    local ok, err = pcall(quiet.rows, grid(), 'width')
    assert.is_false(ok)
    assert.matches('width is no time of a phase', tostring(err))
    local rows = grid()
    for _, row in ipairs(rows) do row.fwd_quiet = nil end
    ok, err = pcall(map_of, rows, 'quiet')
    assert.is_false(ok)
    assert.matches('plot.map: no point has a time of .- three passes', tostring(err))
  end)
end)

describe('a figure of the fast state', function()
  it('says so, and one of medians says that', function()
    local med, fast = map_of(grid(), nil), map_of(grid(), 'quiet')
    assert.matches('med is the median of these', med:text())
    assert.is_nil((med.subtitle .. med:text()):find('quiet', 1, true))
    assert.matches("times of the machine's fast state %(quiet%)", fast.subtitle)
    assert.matches('quiet is the median of those', fast:text())
    assert.is_nil(fast:text():find('med is', 1, true))
    assert.same({ 60, 100 }, { fast.data.lo, fast.data.hi })
  end)

  it('says so behind what it was measured on', function()
    local opt = { x = 'width', y = 'batch', z = 'fwd', time = 'quiet', device = 'a device' }
    local said = "times of the machine's fast state (quiet)"
    local before = plot.draw('map', grid(), { x = 'width', y = 'batch', z = 'fwd',
      device = 'a device' }).subtitle
    local behind = plot.draw('map', grid(), opt).subtitle
    assert.matches('a device$', before)
    assert.equal(before .. '  ·  ' .. said, behind)
  end)

  it('compares without the ratios within passes, and says that', function()
    local given = { x = 'width', y = 'batch', z = 'fwd', a = 'kind=b', b = 'kind=a' }
    local figure = plot.draw('ratio', grid(), given)
    assert.matches('wins in 0 cells, .- in 0; 4 are undecided', figure.finding)
    assert.matches('within each pass', figure:text())
    given.time = 'quiet'
    figure = plot.draw('ratio', grid(), given)
    assert.matches('kind=a wins in 4 cells', figure.finding)
    assert.matches('unpaired', figure:text())
  end)

  it('is drawn again from its file, which has both times', function()
    local folder = folders.new()
    local path = folder .. '/q.png'
    map_of(grid(), 'quiet'):save(path, { scale = 1 })
    local again, med = plot.replot(path), plot.replot(path, { time = 'med' })
    folders.remove(folder)
    assert.equal(60, again.data.facets[1].cells['1:1'].value)
    assert.matches('quiet', again.subtitle)
    assert.equal(100, med.data.facets[1].cells['1:1'].value)
    assert.is_nil(med.subtitle:find('quiet', 1, true))
  end)

  it('is there for each kind that draws a time of points, and refused by the others', function()
    local given = { map = { x = 'width', y = 'batch', z = 'fwd' }, uncertainty = { x = 'width',
      y = 'batch', z = 'fwd' }, slices = { x = 'width', y = 'fwd', by = 'kind' },
      steps = { x = 'width', y = 'fwd_gflops' }, effects = { y = 'fwd', params = 'kind,width' },
      roofline = { y = 'fwd' }, pareto = { x = 'fwd', y = 'fwd_gbps' },
      threads = { x = 'width', y = 'fwd', by = 'kind' }, history = { y = 'fwd', by = 'kind' } }
    for _, name in ipairs(kinds.NAMES) do
      local opt = given[name]
      if opt then
        local rows = grid()
        for i, row in ipairs(rows) do row.began, row.run = 1.7e15 + i, 'r' .. i end
        if name == 'roofline' then
          rows[#rows + 1] = { roof = 'fma.f32', value = 5e11, state = 'ceiling' }
          rows[#rows + 1] = { roof = 'bw.dram', value = 3e10, state = 'ceiling' }
        end
        opt.time = 'quiet'
        local figure = plot.draw(name, rows, opt)
        assert.matches('quiet', figure.subtitle, nil, name)
        figure:render { scale = 1 }:close()
      elseif not kinds.options(name).time then
        local ok, err = pcall(plot.draw, name, grid(), { time = 'quiet' })
        assert.is_false(ok)
        assert.matches("'?time'?", tostring(err), nil, name)
      end
    end
  end)
end)

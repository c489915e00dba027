-- SPDX-License-Identifier: MIT
-- Every kind of picture: drawn in both looks, again from its own file, and from ugly rows; and what
-- each says of its rows.

local folders = dofile 'tests/lua/store/folder.lua'
local blame = require 'ridge.blame'
local kinds = require 'ridge.plot.kinds'
local plot = require 'ridge.plot'
local png = require 'ridge.plot.png'

-- Rows of a grid in which bf16 takes a third of the time, and at width 64 just as long.
local function grid()
  local rows, trial = {}, 0
  for _, dtype in ipairs { 'f32', 'bf16' } do
    for _, width in ipairs { 64, 128, 256, 512 } do
      for _, batch in ipairs { 1, 8, 64 } do
        trial = trial + 1
        local share = dtype == 'bf16' and width > 64 and 1 / 3 or 1
        local ns = 300 * width * width / 4096 * batch ^ 0.9 * share
        local flops = 2 * batch * width * width
        rows[trial] = { trial = trial, state = 'ok', grade = trial % 5 == 0 and 'D' or 'A',
          flags = '',
          dtype = dtype, width = width, batch = batch, fwd = ns, fwd_lo = ns * 0.97,
          fwd_hi = ns * 1.03, fwd_flops = flops, fwd_bytes = 4 * width * width + 8 * batch * width,
          fwd_gflops = flops / ns, error = 1 / width, fwd_roof = 50,
          fwd_bound = batch > 8 and 'compute' or 'DRAM', began = 1.7e15 + trial * 1e6,
          fwd_n = 50 }
      end
    end
  end
  rows[7].state, rows[7].fwd, rows[7].reason = 'oom', nil, 'needs 9 GB'
  rows[7].fwd_gflops, rows[7].fwd_roof, rows[7].fwd_flops = nil, nil, nil
  return rows
end

local function ceilings(rows)
  for name, value in pairs { ['fma.f32'] = 5e11, ['amx.bf16'] = 5e12, ['bw.l2'] = 3e11,
      ['bw.dram'] = 3e10 } do
    rows[#rows + 1] = { roof = name, value = value, value_lo = value * 0.98,
      value_hi = value * 1.02, state = 'ceiling', threads = 2 }
  end
  return rows
end

local function samples(n)
  local rows = {}
  for i = 1, n or 60 do
    rows[i] = { trial = 3, point = 'batch=1', sample = i, ns = 1000 + (i % 7) * 10
      + (i == 30 and 4000 or 0), at = i * 1e5 + (i > 30 and 1e9 or 0), disturbed = i == 30,
      grade = 'B', flags = 'SWITCH', state = 'ok' }
  end
  return rows
end

local function sizes()
  local rows = {}
  for n = 1, 130 do
    local rate = 100 * n / (math.ceil(n / 32) * 32) -- tiles of 32
    rows[n] = { trial = n, state = 'ok', n = n, rate = rate, rate_lo = rate * 0.99,
      rate_hi = rate * 1.01 }
  end
  return rows
end

local function threads()
  local rows = {}
  for i, n in ipairs { 1, 2, 4, 8 } do
    local ns = 1e6 * (0.1 + 0.9 / n) -- a tenth is serial
    rows[i] = { trial = i, state = 'ok', threads = n, fwd = ns, fwd_lo = ns * 0.99,
      fwd_hi = ns * 1.01, grade = 'A' }
  end
  return rows
end

local function history()
  local rows = {}
  for run = 1, 4 do
    for _, width in ipairs { 64, 128 } do
      local ns = 100 * width * (run == 3 and width == 64 and 1.5 or 1)
      rows[#rows + 1] = { trial = #rows + 1, state = 'ok', run = 'r' .. run, width = width,
        fwd = ns, fwd_lo = ns * 0.98, fwd_hi = ns * 1.02, began = 1.7e15 + run * 8.64e10,
        grade = 'A',
        commit = run > 2 and 'bbbbbbbbb' or 'aaaaaaaaa', env = run == 4 and 'other' or 'one' }
    end
  end
  return rows
end

local function compared()
  local rows = {}
  for i, ratio in ipairs { 0.5, 1.01, 1.4 } do
    rows[i] = { pair = 'width=' .. i, a = 'impl=a', b = 'impl=b', ratio = ratio,
      ratio_lo = ratio * 0.97, ratio_hi = ratio * 1.03, margin = 0.03, floor = 0.02, state = 'ok',
      verdict = ratio < 0.9 and 'faster' or ratio > 1.1 and 'slower' or 'equal', phase = 'fwd' }
  end
  return rows
end

-- Two networks: one that falls fast to 0.5, one that takes longer and comes to 0.1.
local function curves()
  local rows = {}
  for _, line in ipairs { { 'small', 0.01, 0.5 }, { 'large', 0.04, 0.1 } } do
    for step = 1, 300 do
      local noise = (step * 7919 % 100) / 1000
      rows[#rows + 1] = { trial = #rows + 1, point = line[1], step = step, state = 'ok',
        seconds = step * line[2], loss = line[3] + 2 * math.exp(-step / 40) + noise * line[3] }
    end
  end
  return rows
end

local MAP = { x = 'width', y = 'batch', z = 'fwd', facet = 'dtype', device = 'a device',
  commit = 'abc', date = '2026-01-02', sweep = 's' }
local function with(base, more)
  local out = {}
  for name, value in pairs(base) do out[name] = value end
  for name, value in pairs(more or {}) do out[name] = value end
  return out
end

local function spans()
  return { { name = 'copy', device = 'cuda:0', stream = 1, begin_s = 5.0, end_s = 5.004 },
    { name = 'linear', device = 'cuda:0', stream = 0, begin_s = 5.003, end_s = 5.009 },
    { name = 'relu', device = 'cuda:0', stream = 0, begin_s = 5.009, end_s = 5.010 },
    { name = 'copy', device = 'cuda:0', stream = 1, begin_s = 5.004, end_s = 5.007 } }
end

-- Two rows have all three columns, so that each check of a column has its row 2.
local function memory()
  return { { at_s = 1, live = 2 ^ 20, line = 'train.lua:7', module = '1', bytes = 6 * 2 ^ 20 },
    { at_s = 5, live = 8 * 2 ^ 20, line = 'train.lua:9', bytes = 2 ^ 20 },
    { at_s = 6, live = 0 } }
end

local CASES = {
  map = { grid, MAP }, efficiency = { grid, MAP }, uncertainty = { grid, MAP },
  ratio = { grid, with(MAP, { a = 'dtype=f32', b = 'dtype=bf16' }) },
  winner = { grid, { x = 'width', y = 'batch', z = 'fwd', of = 'dtype' } },
  slices = { grid, { x = 'width', y = 'fwd', by = 'batch', facet = 'dtype', l2 = 65536 } },
  steps = { sizes, { x = 'n', y = 'rate', better = 'higher' } },
  effects = { grid, { y = 'fwd', params = 'width,batch,dtype' } },
  roofline = { function() return ceilings(grid()) end, { y = 'fwd', from = 'dtype=f32',
    to = 'dtype=bf16' } },
  pareto = { grid, { x = 'fwd', y = 'error', label = 'width,batch' } },
  forest = { compared, {} }, samples = { samples, { y = 'fwd' } },
  distribution = { samples, { y = 'fwd' } },
  threads = { threads, { x = 'threads', y = 'fwd' } },
  history = { history, { y = 'fwd', by = 'width' } },
  training = { curves, { y = 'loss', by = 'point' } },
  timeline = { spans, {} }, memory = { memory, {} },
  landscape = { function() return dofile('tests/lua/plot/fixture.lua').rows() end,
    { dtype = 'f32' } },
  batch = { function()
    local rows = {}
    for i = 0, 4 do
      rows[i + 1] = { batch = 2 ^ i, peak_bytes = 1e6 * 2 ^ i, samples_per_s = 1e5 * i + 1e4,
        samples_per_s_lo = 1e5 * i + 9e3, samples_per_s_hi = 1e5 * i + 1.1e4, state = 'ok',
        grade = 'A', n = 30 }
    end
    return rows
  end, { best = 16, budget = 2e7 } },
  stability = { function()
    local rows = {}
    for i = 1, 30 do
      rows[i] = { step = i, gradient_norm = 1 + i % 7, clipping_ratio = i % 3 / 10, nan = i == 9
        and 2 or 0, inf = 0, overflow = 0, stepped = i ~= 9, state = 'ok' }
    end
    return rows
  end, {} },
  trust = { function()
    local rows = {}
    for i = 1, 40 do
      rows[i] = { kind = i % 2 == 0 and 'windows' or i % 4 == 1 and 'small' or 'linear', at_s = i,
        ratio = i % 7 == 0 and 1.5 or 1 + i % 3 / 50 }
    end
    return rows
  end, { text = 'Within 5 %.' } },
}

-- All there are, by hand: one that is missing in the product's list would not be drawn at all.
local KINDS = { 'map', 'efficiency', 'ratio', 'winner', 'uncertainty', 'slices', 'steps',
  'effects', 'roofline', 'pareto', 'forest', 'samples', 'distribution', 'threads', 'history',
  'landscape', 'batch', 'training', 'timeline', 'memory', 'stability', 'trust' }

describe('the picture', function()
  local folder
  setup(function() folder = folders.new() end)
  teardown(function() folders.remove(folder) end)

  it('is one of those that help lists', function() assert.same(KINDS, kinds.NAMES) end)

  for _, kind in ipairs(KINDS) do
    local case = CASES[kind]
    do
      it(kind .. ' is drawn in both looks, and again from its own file, to the pixel', function()
        for _, theme in ipairs { 'light', 'dark' } do
          local path = ('%s/%s-%s.png'):format(folder, kind, theme)
          local figure = plot.draw(kind, case[1](), with(case[2], { theme = theme }))
          figure:save(path, { scale = 1 })
          local texts = png.read_texts(path)
          assert.equal(kind, texts['ridge:figure'])
          assert.is_true(#texts.Description > 20)
          local again = plot.replot(path)
          local one, two = figure:render { scale = 1 }, again:render { scale = 1 }
          local a, b = one:rgb(), two:rgb()
          assert.is_true(a == b or require('ffi').string(a, 3000) == require('ffi').string(b, 3000))
          one:close()
          two:close()
        end
      end)

      -- what was disturbed enough has an interval that reaches below zero
      it(kind .. ' draws intervals that no logarithm has', function()
        local rows = case[1]()
        for _, row in ipairs(rows) do
          for name in pairs(with(row)) do
            local whole = name:match '^(.*)_lo$'
            if whole and row.state == 'ok' then row[name] = -0.01 * row[whole] end
          end
        end
        plot.draw(kind, rows, case[2]):render { scale = 1 }:close()
      end)

      it(kind .. ' draws one row, and says so where nothing was measured', function()
        local one = { case[1]()[1] }
        local ok, err = pcall(function() plot.draw(kind, one, case[2]):render { scale = 1 } end)
        -- one row may be too little; then one sentence says what is missing
        assert.is_true(ok or type(err) == 'table' and #err.message > 10, tostring(err))
        local none = case[1]()
        for _, row in ipairs(none) do
          if row.state == 'ok' then row.state = 'error' end
        end
        ok, err = pcall(function() plot.draw(kind, none, case[2]):render { scale = 1 } end)
        assert.is_true(ok or type(err) == 'table' and #err.message > 10, tostring(err))
        ok, err = pcall(plot.draw, kind, {}, case[2])
        assert.is_false(ok)
        assert.equal('EARG', err.code)
      end)
    end
  end

  -- The columns that are drawn as numbers, by hand: text in one of them is told, with its row.
  local NUMBERS = { map = 'fwd', uncertainty = 'fwd', ratio = 'fwd', slices = 'width fwd',
    steps = 'n rate', effects = 'fwd', pareto = 'fwd error', forest = 'ratio', samples = 'ns',
    distribution = 'ns', threads = 'threads fwd', history = 'fwd', timeline = 'begin_s end_s',
    memory = 'at_s live bytes',
    batch = 'batch peak_bytes samples_per_s', stability = 'step', trust = 'ratio at_s' }
  for _, kind in ipairs(KINDS) do
    for name in (NUMBERS[kind] or ''):gmatch '%S+' do
      it(kind .. ' refuses text in ' .. name .. ', and what is not finite', function()
        for text, wanted in pairs { fast = "= 'fast', which is not a number",
            [1 / 0] = '= inf; a measured value must be finite' } do
          local rows = CASES[kind][1]()
          rows[2][name] = text
          local ok, err = pcall(plot.draw, kind, rows, CASES[kind][2])
          assert.is_false(ok)
          assert.equal('EARG', err.code)
          assert.matches(('row 2 has %s %s'):format(name, wanted), err.message, 1, true)
        end
      end)
    end
  end

  it('of a kind that is none names the near one', function()
    local ok, err = pcall(plot.draw, 'slice', {}, {})
    assert.is_false(ok)
    assert.matches("did you mean 'slices'", err.message)
  end)

  it('says which option is missing without which there is none', function()
    for kind, names in pairs { effects = 'y', efficiency = 'z', history = 'y', ratio = 'z',
        roofline = 'y', slices = 'x y', steps = 'x y', threads = 'y', uncertainty = 'z',
        winner = 'z of' } do
      for name in names:gmatch '%S+' do
        local opt = with(CASES[kind][2])
        opt[name] = nil
        local ok, err = pcall(plot.draw, kind, CASES[kind][1](), opt)
        assert.is_false(ok, kind .. ' ' .. name)
        assert.equal(('plot.%s: option %s is missing'):format(kind, name),
          err.message:match '^[^:]*:[^:]*')
      end
    end
  end)

  it('ratio is grey where intervals touch, and counts who wins', function()
    local figure = plot.draw('ratio', grid(), CASES.ratio[2])
    -- width 64 is undecided in three cells, in three others one of the two was disturbed, and one
    -- cell was not measured
    assert.equal('dtype=bf16 wins in 5 cells, dtype=f32 in 0; 6 are undecided.', figure.finding)
    local t = require('ridge.plot.theme').get 'light'
    local canvas, grey, blue = figure:render { scale = 1 }, 0, 0
    for y = 150, 600, 3 do
      for x = 60, 640, 3 do
        local p = canvas:pixel(x, y)
        local r, b = p[1], p[3]
        if math.abs(r - t.neutral[1]) < 0.01 and math.abs(b - t.neutral[3]) < 0.01 then
          grey = grey + 1
        end
        if b > r + 0.25 and b > 0.4 then blue = blue + 1 end
      end
    end
    assert.is_true(grey > 500 and blue > 1500, grey .. ' ' .. blue)
    canvas:close()
  end)

  it('contrast is that of WCAG 2: (lighter + 0.05) / (darker + 0.05) of linear light', function()
    local color = require 'ridge.plot.color'
    local black, white = { 0, 0, 0 }, { 1, 1, 1 }
    assert.near(21, color.contrast(black, white), 1e-9)
    for k, weight in ipairs { 0.2126, 0.7152, 0.0722 } do
      local c = { 0, 0, 0 }
      c[k] = 1
      assert.near((weight + 0.05) / 0.05, color.contrast(c, black), 1e-9)
    end
    -- sRGB: dark values are 12.92 times the light, others ((v + 0.055) / 1.055) ^ 2.4
    assert.near(0.04 / 12.92 / 0.05 + 1, color.contrast({ 0.04, 0.04, 0.04 }, black), 1e-9)
    assert.near(1.05 / 0.26404, color.contrast({ 0.5, 0.5, 0.5 }, white), 1e-4)
  end)

  it('uncertainty is half the interval in percent', function()
    assert.near(3, require('ridge.plot.uncertainty').half_width({ fwd = 100, fwd_lo = 97,
      fwd_hi = 103 }, 'fwd'), 1e-9)
    assert.equal('Half of the 23 cells with an interval are known to 3 %, the worst to 3 %.',
      plot.draw('uncertainty', grid(), MAP).finding)
  end)

  it('slices fits exponents with their error, and none where none fits', function()
    local fit = require('ridge.plot.slices').fit
    local points = {}
    for i = 1, 8 do points[i] = { x = 2 ^ i, y = 3 * (2 ^ i) ^ 2 * (1 + 0.02 * (-1) ^ i) } end
    local slope, err, residual = fit(points)
    assert.near(2, slope, 0.02)
    assert.is_true(err > 0 and err < 0.02 and residual < 0.05)
    assert.is_nil(fit { points[1], points[2], points[3] })
    -- logarithms at -3, -1, 1, 3 that are 1, -1, -1, 1: no slope, squares of 4 in all, of 20 those
    -- of x, and two of the four are free
    for i, y in ipairs { 1, -1, -1, 1 } do
      points[i] = { x = math.exp(2 * i - 5), y = math.exp(y) }
    end
    slope, err, residual = fit { unpack(points, 1, 4) }
    assert.near(0, slope, 1e-12)
    assert.near(math.sqrt(0.1), err, 1e-12)
    assert.near(math.sqrt(2), residual, 1e-12)
  end)

  it('steps finds the tile', function()
    local figure = plot.draw('steps', sizes(), CASES.steps[2])
    assert.matches('multiple of 32 costs', figure.finding)
    local flat = sizes()
    for _, row in ipairs(flat) do row.rate, row.rate_lo, row.rate_hi = 100, 99, 101 end
    assert.equal('No size of tile stands out.', plot.draw('steps', flat, CASES.steps[2]).finding)
  end)

  it('effects puts first what moves the median most', function()
    local rows = grid()
    for _, row in ipairs(rows) do row.grade = 'A' end   -- what is of grade D has no say
    local effects = require('ridge.plot.effects').effects(rows, { 'dtype', 'batch', 'width' },
      'fwd')
    assert.equal('dtype', effects[3].name)
    assert.is_true(effects[1].reach >= effects[2].reach and effects[2].reach > effects[3].reach)
    assert.near(3, effects[3].reach, 1)
  end)

  it('effects are of what was not disturbed', function()
    local rows = {}
    for i, grade in ipairs { 'A', 'A', 'D', 'C' } do
      rows[i] = { a = i % 2, fwd = grade == 'D' and 1000 or 10 * (i % 2 + 1), grade = grade }
    end
    local found = require('ridge.plot.effects').effects(rows, { 'a' }, 'fwd')
    assert.equal(2, found[1].reach)
    for _, row in ipairs(rows) do row.grade = 'D' end
    assert.same({}, require('ridge.plot.effects').effects(rows, { 'a' }, 'fwd'))
  end)

  it('a time of too few passes, which has no interval, decides nothing', function()
    local rows_of = require 'ridge.plot.rows'
    local few, known = { fwd = 1, fwd_p95 = 1 }, { fwd = 9, fwd_lo = 8, fwd_hi = 10, fwd_p95 = 10 }
    assert.equal('open', rows_of.verdict(few, known, 'fwd'))
    assert.equal('open', rows_of.verdict(known, few, 'fwd'))
    assert.equal('lower', rows_of.verdict({ fwd = 1, fwd_lo = 1, fwd_hi = 2 }, known, 'fwd'))
    assert.equal('lower', rows_of.verdict({ error = 1 }, { error = 2 }, 'error'))
    assert.same({ 5, 20 }, { rows_of.interval({ fwd = 10, fwd_lo = -3, fwd_hi = 20 }, 'fwd') })
  end)

  it('roofline says which points no roof allows', function()
    local rows = ceilings(grid())
    assert.is_nil(plot.draw('roofline', rows, { y = 'fwd' }).finding)
    rows[1].fwd, rows[1].fwd_lo, rows[1].fwd_hi = 0.001, 0.001, 0.001
    assert.matches('^1 point lies above every roof', plot.draw('roofline', rows,
      { y = 'fwd' }).finding)
  end)

  it('pareto calls dominated only what is beaten beyond doubt', function()
    local rows = {
      { state = 'ok', a = 1, a_lo = 0.9, a_hi = 1.1, e = 1 },
      { state = 'ok', a = 1.05, a_lo = 0.95, a_hi = 1.15, e = 2 }, -- worse, but intervals touch
      { state = 'ok', a = 3, a_lo = 2.9, a_hi = 3.1, e = 2 },
      { state = 'ok', a = 4, a_lo = 3.9, a_hi = 4.1, e = 0.5 } }
    assert.equal('2 of 4 points are on the front; 1 is beaten in both beyond doubt.',
      plot.draw('pareto', rows, { x = 'a', y = 'e' }).finding)
    assert.matches('^3 of 4', plot.draw('pareto', rows, { x = 'a', y = 'e',
      better_y = 'higher' }).finding:gsub('^2', '3'))
    -- what begins where the better one ends is not beyond doubt
    local function beaten(lo)
      return plot.draw('pareto', { { state = 'ok', a = 1, a_lo = 0.9, a_hi = 1.25, e = 1 },
        { state = 'ok', a = 2, a_lo = lo, a_hi = 3, e = 2 } }, { x = 'a', y = 'e' }).finding
    end
    assert.matches('; 0 are beaten', beaten(1.25))
    assert.matches('; 1 is beaten', beaten(1.2500001))
  end)

  it('threads fits the serial share', function()
    local points = {}
    for i, n in ipairs { 1, 2, 4, 8 } do points[i] = { x = n, y = 1 / (0.1 + 0.9 / n) } end
    assert.near(0.1, require('ridge.plot.threads').serial(points), 1e-9)
    assert.matches('At most 4.71 times faster, with 8 threads',
      plot.draw('threads', threads(), CASES.threads[2]).finding)
  end)

  it('history marks moves beyond the intervals, and none across machines', function()
    -- width 64 moves up at run 3; what run 4 does was on another machine
    assert.equal('4 runs; 1 time a point moved by more than its interval.',
      plot.draw('history', history(), CASES.history[2]).finding)
  end)

  it('training means neighbouring steps, and says who is first where the last one ends', function()
    local training = require 'ridge.plot.training'
    local list = {}
    for i = 1, 10 do list[i] = { seconds = i, loss = i == 4 and 0 / 0 or i } end
    local points = training.smoothed(list, 'loss', 5)
    assert.equal(2, #points)
    assert.equal((1 + 2 + 3 + 5) / 4, points[1].y) -- the nan is left out
    assert.same({ 6, 10, 8 }, { points[2].lo, points[2].hi, points[2].y })
    local falling = { { x = 1, y = 3 }, { x = 2, y = 1 }, { x = 3, y = 2 }, { x = 4, y = 1 } }
    assert.equal(4, training.reaches(falling, 1.5)) -- not at 2, where it did not stay
    assert.is_nil(training.reaches(falling, 0.5))
    local finding = plot.draw('training', curves(), CASES.training[2]).finding
    assert.matches('Least in the end: 0%.10%d* %(large%)', finding)
    assert.matches('First to be at 0%.5%d* or less, where the last one ends, and to '
      .. 'stay there: %a+, after %d', finding)
  end)

  it('memory names the line that has most of the peak, and keeps peaks when thinned', function()
    local fig = plot.draw('memory', memory(), {})
    assert.equal('At most 8 MB, 4 s after the beginning: 75 % of it by train.lua:7  in 1.',
      (fig.finding:gsub('\226\128\175', ' ')))
    local points = {}
    for i = 1, 50000 do points[i] = { at_s = i / 1e3, live = i % 5 } end
    points[33333].live = 1e9
    local few, most = require('ridge.plot.memory').thinned(points, 100), 0
    assert.is_true(#few <= 404 and #few >= 200, #few)
    local last
    for _, p in ipairs(few) do
      most = math.max(most, p.live)
      assert.is_false(rawequal(p, last)) -- none of them twice
      last = p
    end
    assert.equal(1e9, most)
    -- of each tenth its first, least, most and last, in their order
    local rising, at = {}, {}
    for i = 1, 41 do rising[i] = { at_s = i, live = i } end
    for i, p in ipairs(require('ridge.plot.memory').thinned(rising, 10)) do at[i] = p.at_s end
    assert.equal('1 4 5 8 9 12 13 16 17 20 21 24 25 28 29 32 33 36 37 40 41',
      table.concat(at, ' '))
  end)

  it('timeline counts what ran beside what, in lanes', function()
    local finding = plot.draw('timeline', spans(), {}).finding
    assert.equal('Of 10 ms with something under way, two streams or more were busy in 4 ms (40 %).',
      (finding:gsub('\226\128\175', ' ')))
    assert.matches('^One stream', require('ridge').timeline(function()
      return require('ridge').ones(3):sum()
    end):plot { theme = 'dark' }:save(folder .. '/own.png').finding)
    local ok, err = pcall(plot.draw, 'timeline', spans(), { from = 2, to = 1 })
    assert.is_false(ok)
    assert.matches('from 2 to 1 seconds is no part', err.message)
  end)

  it('each name the option that they need, and the row that is none', function()
    for _, name in ipairs(kinds.NAMES) do
      for _, given in ipairs { {}, { x = 'width' }, { y = 'batch' }, { a = 'x=1', b = 'x=2' } } do
        local opt = {}
        for key, value in pairs(given) do
          if kinds.options(name)[key] then opt[key] = value end
        end
        for _, rows in ipairs { grid(), {}, { {} } } do
          local ok, err = pcall(plot.draw, name, rows, opt)
          assert.is_true(ok or blame.is_error(err), name .. ': ' .. tostring(err))
          assert.is_nil(not ok and err.cause or nil, name)
          assert.is_truthy(ok or err.message:find('plot.' .. name, 1, true), name)
        end
      end
      local ok, err = pcall(plot.draw, name, { 1 }, { x = 'a', y = 'b', z = 'c' })
      assert.is_false(ok)
      assert.is_nil(err.cause, name)
    end
    local _, err = pcall(plot.draw, 'slices', grid(), { y = 'fwd' })
    assert.equal('plot.slices: option x is missing: column across', err.message)
    _, err = pcall(plot.draw, 'map', { 1 }, { x = 'a', y = 'b', z = 'c' })
    assert.equal('plot.map: row 1 is 1; a row is a table of columns', err.message)
  end)

  it('distribution bins hold every sample', function()
    local list = {}
    for i = 1, 500 do list[i] = 100 + i end
    local bins_of = require('ridge.plot.distribution').bins
    local bins, n = bins_of(list), 0
    for _, bin in ipairs(bins) do n = n + bin.n end
    assert.equal(500, n)
    -- and reach from the shortest to the longest, however close together these are
    assert.near(101, bins[1].from, 1e-9)
    assert.near(600, bins[#bins].to, 1e-9)
    bins = bins_of { 1e9, 1e9 + 500, 1e9 + 600, 1e9 + 1200 }
    assert.near(1e9 + 1200, bins[#bins].to, 1e-3)
    bins = bins_of { 7, 7, 7 }
    assert.same({ 1, 3 }, { #bins, bins[1].n })
    plot.draw('distribution', samples(), { y = 'fwd', histogram = true }):render { scale = 1 }
  end)

  it('of many points stays one of a second or so', function()
    plot.draw('samples', samples(100000), { y = 'fwd' }):render { scale = 1 }
    plot.draw('distribution', samples(100000), { y = 'fwd' }):render { scale = 1 }
    local rows = {}
    for i = 1, 10000 do
      rows[i] = { trial = i, state = 'ok', a = i % 100 + 1, b = math.ceil(i / 100), fwd = i,
        fwd_lo = i * 0.9, fwd_hi = i * 1.1, grade = 'A' }
    end
    plot.draw('map', rows, { x = 'a', y = 'b', z = 'fwd' }):render { scale = 1 }
  end)
end)

describe('what stands below the title of a search', function()
  it('is the net, and what it was measured on', function()
    local batch = require 'ridge.plot.batch'
    local function subtitle(opt)
      return batch.make({ { batch = 1, peak_bytes = 1e6 } }, opt).subtitle
    end
    assert.equal('a net', subtitle { model = 'a net' })
    assert.equal('a device', subtitle { device = 'a device' })
    assert.equal('a net  ·  a device  ·  today', subtitle { model = 'a net', device = 'a device',
      date = 'today' })
    assert.equal('', subtitle {})
  end)
end)

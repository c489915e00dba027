-- SPDX-License-Identifier: MIT
-- What a picture says in its headline is true of the numbers it shows, by arithmetic done here.

local plot = require 'ridge.plot'
local rounded = require 'ridge.plot.rounded'
local training = require 'ridge.plot.training'

local NAN, INF = 0 / 0, math.huge

-- A row: columns by name, with an interval of so much to each side of the first.
local function row(name, v, more, part)
  local out = { state = 'ok', grade = 'A', [name] = v, [name .. '_lo'] = v * (1 - (part or 0.01)),
    [name .. '_hi'] = v * (1 + (part or 0.01)) }
  for key, value in pairs(more or {}) do out[key] = value end
  return out
end

local function finding(kind, rows, opt) return plot.draw(kind, rows, opt or {}).finding end

describe('a bound in few digits', function()
  it('holds for what it shows, whatever the number', function()
    local generator = require('ridge.measure.random').new(7)
    for i = 1, 2000 do
      local v = (generator:integer(2000001) - 1000001) * 10 ^ (i % 25 - 12)
      for digits = 1, 4 do
        local up, shown = rounded.up(v, digits)
        assert.equal(tonumber(up), shown)
        assert.is_true(shown >= v - 1e-12 * math.abs(v), up)
        -- a unit of the last digit at most
        assert.is_true(shown - v <= 10 ^ (1 - digits) * math.abs(v), up)
        local down, less = rounded.down(v, digits)
        assert.equal(tonumber(down), less)
        assert.is_true(less <= v + 1e-12 * math.abs(v), down)
        assert.is_true(v - less <= 10 ^ (1 - digits) * math.abs(v), down)
      end
    end
    assert.same({ '1.235', '1.23', '1.24', '1000', '3', '-1.23', '0' }, { (rounded.up(1.2346)),
      (rounded.down(1.2346)), (rounded.up(1.2346, 2)), (rounded.up(999.96)),
      (rounded.up(3 + 1e-15)), (rounded.up(-1.23456)), (rounded.up(0)) })
    -- a power of ten from a million on
    assert.same({ '1000000', '1e+06', '-1e+06' }, { (rounded.up(999999.9)), (rounded.up(1e6)),
      (rounded.down(-1e6)) })
  end)
end)

describe('the headline of a training', function()
  local function said(lines, opt)
    local rows = {}
    for name, values in pairs(lines) do
      for i, v in ipairs(values) do
        rows[#rows + 1] = { point = name, seconds = i, step = i, state = 'ok',
          [opt and opt.y or 'loss'] = v ~= false and v or nil }
      end
    end
    local all = { y = 'loss', by = 'point', smooth = 1 }
    for key, value in pairs(opt or {}) do all[key] = value end
    return finding('training', rows, all)
  end

  it('calls nothing the least that ends without a number', function()
    assert.equal('Least in the end: 1.5 (b). a ends without a number.',
      said { a = { 2, 1, NAN }, b = { 3, 2, 1.5 } })
    assert.equal('Least in the end: 1.5 (b). a and c end without a number.',
      said { a = { 2, 1, INF }, b = { 3, 2, 1.5 }, c = { 1, 1, -INF } })
    -- a database keeps nan as nothing at all
    assert.equal('Least in the end: 1.5 (b). a ends without a number.',
      said { a = { 2, 1, false }, b = { 3, 2, 1.5 } })
    assert.equal('a ends without a number.', said { a = { 2, 1, NAN } })
  end)

  it('calls nothing there that had no number meanwhile', function()
    assert.matches('stay there: b, after 3 s', said { a = { 2, 1, NAN, 1 }, b = { 3, 2, 1, 1.5 } })
    -- steps that one point of a line is the mean of; and a whole such point without a number
    local list = { { x = 1, y = 1 }, { x = 2, y = 1, bad = 1 }, { x = 3, y = 1 } }
    assert.equal(3, training.reaches(list, 1))
    list = { { x = 1, y = 1 }, { x = 3, y = 1, gap = true }, { x = 4, y = 1 } }
    assert.equal(3, training.reaches(list, 1))
    local rows = {}
    for i, v in ipairs { 4, 2, NAN, INF, NAN, 1, 3 } do rows[i] = { seconds = i, loss = v } end
    local points = training.smoothed(rows, 'loss', 2)
    assert.same({ { 3, 0, false }, { 1, 1, true }, { 3, 0, false } }, {
      { points[1].y, points[1].bad, points[1].gap }, { points[2].y, points[2].bad, points[2].gap },
      { points[3].y, points[3].bad, points[3].gap } })
  end)

  it('names all that are equal', function()
    assert.equal('Least in the end: 1 (a and b). First to be at 1 or less, where the last one '
      .. 'ends, and to stay there: b, after 1 s.', said { a = { 2, 1 }, b = { 1, 1 } })
    assert.matches('^Least in the end: 0 %(a, b and c%)%. .*: a, b and c, after 1 s%.$',
      said { a = { 0 }, b = { 0 }, c = { 0 } })
    assert.matches('%(a, b and 2 more%)', said { a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 } })
  end)

  it('says it of what rises, where higher is better', function()
    local lines = { a = { 0.1, 0.5, 0.91, 0.92 }, b = { 0.2, 0.88, 0.87, 0.9 } }
    local expected = 'Highest in the end: 0.92 (a). First to be at 0.9 or more, where the last one '
      .. 'ends, and to stay there: a, after 3 s.'
    assert.equal(expected, said(lines, { y = 'accuracy' }))
    assert.equal(expected, said(lines, { y = 'gain', better = 'higher' }))
    -- what is shown is not above what is meant
    assert.matches('be at 0%.8765 or more, .*: b, after 2 s', said({ a = { 0, 0, 1 },
      b = { 0, 0.87654, 0.87654 } }, { better = 'higher' }))
    -- a loss that rises is below where it ends from the first step on
    assert.equal('Least in the end: 1 (b). First to be at 3 or less, where the last one ends, and '
      .. 'to stay there: b and a, after 1 s.', said { a = { 1, 2, 3 }, b = { 1, 1, 1 } })
  end)

  it('says when one line has the steps of several trainings', function()
    local rows = {}
    for trial = 1, 2 do
      for i = 1, 3 do
        rows[#rows + 1] = { trial = trial, dtype = 'f32', width = 8 * trial, seconds = i,
          loss = i * trial }
      end
    end
    local function caption(by)
      return table.concat(plot.draw('training', rows, { by = by }).caption, ' ')
    end
    assert.matches('Steps of several trainings are in one line%.', caption 'dtype')
    assert.is_nil(caption('width'):find('several', 1, true))
  end)
end)

describe('the headline of a distribution', function()
  local function said(list)
    local rows = {}
    for i, ns in ipairs(list) do
      rows[i] = { trial = 1, point = 'p', sample = i, ns = ns, state = 'ok' }
    end
    return finding('distribution', rows)
  end

  it('is true of samples that lie to one side', function()
    -- quarters at 90 and 140: half of their distance is 25 %, within which four of ten lie
    assert.equal('p: half within 40 % of the median, the longest at most 2 times it.',
      said { 50, 50, 60, 90, 100, 140, 140, 200, 200, 200 })
    assert.equal('p: half within 0 % of the median, the longest at most 1 times it.',
      said { 7, 7, 7 })
    assert.equal('p: half within 0 % of the median, the longest at most 1.004 times it.',
      said { 1000, 1000, 1000, 1004 })
  end)

  it('holds for random ones', function()
    local generator = require('ridge.measure.random').new(3)
    for n = 1, 250, 7 do
      local list = {}
      for i = 1, n do list[i] = math.exp(6 * (generator:integer(1000) / 1000) ^ 3) end
      local half, which, most = said(list)
        :match 'within (%S+) %% of the median, (.+) at most (%S+) '
      table.sort(list)
      local median, near, below = list[math.ceil(n / 2)], 0, 0
      for _, v in ipairs(list) do
        if math.abs(v / median - 1) <= half / 100 + 1e-12 then near = near + 1 end
        if v / median <= most + 1e-12 then below = below + 1 end
      end
      assert.is_true(near * 2 >= n)
      assert.equal(n >= 100 and '99 of 100' or 'the longest', which)
      assert.is_true(below >= (n >= 100 and 0.99 or 1) * n)
    end
  end)
end)

describe('the headline of effects', function()
  local function said(values)
    local rows = {}
    for i, v in ipairs(values) do rows[i] = row('gain', v, { k = i }) end
    return plot.draw('effects', rows, { y = 'gain', params = 'k' })
  end

  it('says times only of what is above 0', function()
    assert.equal('k moves the median by 3 times.', said { 1, 2, 3 }.finding)
    assert.equal('k moves the median by 4.', said { -1, 2, 3 }.finding)
    assert.equal('k moves the median by 3.', said { 0, 2, 3 }.finding)
    assert.matches('sorted by largest less smallest', said { 0, 2, 3 }.caption[1])
    assert.equal('Nothing moves the median.', said { 2, 2 }.finding)
    assert.equal('Nothing moves the median.', said { 0, 0 }.finding)
  end)

  it('orders all of them by one measure', function()
    local rows = {}
    for i, v in ipairs { -1, 1, 100, 102 } do
      rows[i] = row('gain', v, { a = i % 2, b = i > 2 and 2 or 1 })
    end
    -- b: 0 and 101; a: 49.5 and 51.5. As a ratio a would be 1.04, and b has none
    assert.equal('b moves the median by 101, a by 2.',
      finding('effects', rows, { y = 'gain', params = 'a,b' }))
  end)
end)

describe('headlines of maps', function()
  local MAP = { x = 'x', y = 'y', z = 'fwd' }
  local function at(x, y, more, part)
    more.x, more.y = x, y
    return row('fwd', more.fwd or 100, more, part)
  end

  it('are about the cells that are drawn', function()
    -- a dense layer beside sketched ones is in no cell, and of three in one the middle one is drawn
    local rows = { at(1, 1, { layer = 'dense', fwd_roof = 95 }, 0.4),
      at(1, 1, { layer = 'sketched', fwd_roof = 40 }, 0.03),
      at(2, 1, { layer = 'sketched', fwd_roof = 20 }, 0.01),
      at(2, 1, { layer = 'sketched', fwd_roof = 30 }, 0.01),
      at(2, 1, { layer = 'sketched', fwd_roof = 90 }, 0.01),
      at(3, 1, { layer = 'sketched', fwd_roof = 99, grade = 'D' }, 0.2) }
    assert.equal('The best cell reaches 40 % of what this machine was measured to do.',
      finding('efficiency', rows, MAP))
    assert.equal('Half of the 3 cells with an interval are known to 3 %, the worst to 20 %.',
      finding('uncertainty', rows, MAP))
    rows[6].fwd_lo, rows[6].fwd_hi = nil, nil
    assert.equal('Half of the 2 cells with an interval are known to 1 %, the worst to 3 %.',
      finding('uncertainty', rows, MAP))
  end)

  it('round what they call the worst upwards', function()
    assert.equal('Half of the 1 cells with an interval are known to 13 %, the worst to 13 %.',
      finding('uncertainty', { at(1, 1, {}, 0.1234) }, MAP))
    assert.equal('Half of the 1 cells with an interval are known to 1.24 %, the worst to 1.24 %.',
      finding('uncertainty', { at(1, 1, {}, 0.01234) }, MAP))
  end)

  it('count cells of every kind of layer where layers compete', function()
    local rows = { at(1, 1, { layer = 'dense', fwd = 100 }), at(1, 1, { layer = 'sketched',
      fwd = 200 }), at(2, 1, { layer = 'dense', fwd = 300 }), at(2, 1, { layer = 'sketched',
      fwd = 200 }) }
    for i, each in ipairs(rows) do each.trial = i end
    local figure = plot.draw('winner', rows, { x = 'x', y = 'y', z = 'fwd', of = 'layer' })
    assert.equal('dense wins in 1, sketched in 1 of 2 cells; 0 are undecided.', figure.finding)
    local drawn = 0
    for _, cell in pairs(figure.data.facets[1].cells) do
      drawn = drawn + (cell.value and 1 or 0)
    end
    assert.equal(2, drawn)
  end)

  it('count pairs within a panel', function()
    local rows = {}
    for _, kind in ipairs { 'one', 'two' } do
      for _, side in ipairs { 'a', 'b' } do
        rows[#rows + 1] = at(1, 1, { kind = kind, side = side,
          fwd = (kind == 'one') == (side == 'a') and 200 or 100 })
      end
    end
    assert.equal('side=b wins in 1 cell, side=a in 1; 0 are undecided.', finding('ratio', rows,
      { x = 'x', y = 'y', z = 'fwd', facet = 'kind', a = 'side=a', b = 'side=b' }))
  end)

  it('say how many cells of a ratio stood side by side', function()
    local rows, n = {}, 0
    for x = 1, 3 do
      for _, side in ipairs { 'a', 'b' } do
        n = n + 1
        rows[n] = at(x, 1, { side = side, fwd = side == 'a' and 200 or 100, trial = n })
      end
    end
    local function caption()
      return plot.draw('ratio', rows, { x = 'x', y = 'y', z = 'fwd', a = 'side=a',
        b = 'side=b' }):text()
    end
    local function pair(i)
      rows[i].partner, rows[i].fwd_ratio = rows[i - 1].trial, 0.5
      rows[i].fwd_ratio_lo, rows[i].fwd_ratio_hi = 0.4, 0.6
    end
    assert.matches('Cells are ratios of medians of .* unpaired%.', caption())
    pair(2)
    assert.matches('1 of 3 cells are medians of the ratios within each pass, of [^;]* where '
      .. 'their 95 %% confidence interval leaves out 1; the others are ratios of medians, '
      .. 'unpaired, and have one where the 95 %% confidence intervals do not touch%.', caption())
    pair(4)
    assert.matches('2 of 3 cells', caption())
    pair(6)
    assert.matches('Cells are medians of the ratios within each pass, ', caption())
    assert.is_nil(caption():find('unpaired', 1, true))
    -- a pair one of whose sides failed is no cell
    rows[3].state, rows[4].partner = 'oom', nil
    assert.matches('Cells are medians of the ratios within each pass, ', caption())
  end)
end)

describe('the headline of a forest', function()
  it('counts pairs that have no room, too', function()
    local rows = {}
    for i = 1, 70 do
      rows[i] = { a = 'x', b = 'y', pair = 'n=' .. i, ratio = i <= 60 and 0.5 or 2, state = 'ok',
        verdict = i <= 60 and 'faster' or 'slower' }
    end
    local figure = plot.draw('forest', rows, {})
    assert.equal('60 faster, 10 slower.', figure.finding)
    assert.matches('10 more pairs are not shown, and counted above', figure:text())
  end)
end)

describe('the band of a forest', function()
  it('is the widest of the margins there are', function()
    local recorder = dofile 'tests/lua/plot/recorder.lua'
    local function band(margins)
      local rows = {}
      for i, margin in ipairs(margins) do
        rows[i] = { a = 'x', b = 'y', pair = 'n=' .. i, ratio = 0.5 * i, ratio_lo = 0.4,
          ratio_hi = 3, state = 'ok', verdict = 'open', margin = margin, floor = 0 }
      end
      local rec = recorder.of(plot.draw('forest', rows, {}))
      local list = rec:all('rect', function(r) return math.abs(r.h - rec.panels[1].h) < 0.01 end)
      assert.equal(1, #list)
      return list[1].w
    end
    assert.near(band { 0.05, 0.05 }, band { 0.05, 0.01 }, 0.01)
    assert.near(band { 0.05, 0.05 }, band { 0.01, 0.05 }, 0.01)
    assert.is_true(band { 0.01, 0.01 } < band { 0.05, 0.01 } - 1)
  end)
end)

describe('the headline of a roofline', function()
  it('calls impossible only what lies above a roof with its whole interval', function()
    local function said(part)
      -- 1e6 operations in 9090 ns: 110 GFLOP/s
      return finding('roofline', { row('fwd', 9090, { fwd_flops = 1e6, fwd_bytes = 1 }, part),
        { roof = 'fma.f32', value = 1e11, value_lo = 1e11, value_hi = 1e11, state = 'ceiling' } },
        { y = 'fwd' })
    end
    assert.is_nil(said(0.2))
    assert.equal('1 point lies above every roof: wrong counts, or wrong ceilings.', said(0.01))
  end)

  it('leaves two hundredths to the ceilings, of arithmetic and of memory', function()
    local function said(ns, intensity, value)
      return finding('roofline', {
        row('fwd', ns, { fwd_flops = 1e6, fwd_bytes = 1e6 / intensity }, 0),
        { roof = 'fma.f32', value = value, value_lo = value, value_hi = value, state = 'ceiling' },
        { roof = 'bw.dram', value = 1e10, state = 'ceiling' } }, { y = 'fwd' })
    end
    local wrong = '1 point lies above every roof: wrong counts, or wrong ceilings.'
    -- 1e6 operations in 1e4 ns: 100 GFLOP/s. A roof of 100 / 1.02 = 98.04 is the border
    assert.is_nil(said(1e4, 1000, 98.1e9))
    assert.equal(wrong, said(1e4, 1000, 97.9e9))
    -- 10 GB/s times the operations a byte: the border is 9.804 of these
    assert.is_nil(said(1e4, 9.81, 1e12))
    assert.equal(wrong, said(1e4, 9.79, 1e12))
  end)
end)

describe('the headline of sketched layers against dense', function()
  it('counts no point whose dense layer was disturbed', function()
    local function said(grade)
      local rows = { row('fwd', 100, { layer = 'dense', grade = grade, param_count = 4,
        peak_memory_mb = 1 }), row('fwd', 50, { layer = 'sketched', num_terms = 1, low_rank = 2,
        param_count = 2, peak_memory_mb = 1 }) }
      return finding('landscape', rows)
    end
    assert.equal('Sketched is faster than dense at 1 of 1 points; intervals that touch do not '
      .. 'count.', said 'A')
    assert.is_nil(said 'D')
  end)
end)

describe('the headline of a pareto front', function()
  local function point(x, y, part, more)
    local out = row('cost', x, more, part)
    out.err, out.err_lo, out.err_hi = y, y * (1 - part), y * (1 + part)
    return out
  end
  local function said(rows) return finding('pareto', rows, { x = 'cost', y = 'err' }) end

  it('counts what is beaten by any point, on the front or off it', function()
    -- the wide one is on the front; the narrow one, just off it, is what beats the last
    assert.equal('1 of 3 points are on the front; 1 is beaten in both beyond doubt.',
      said { point(100, 100, 0.9), point(101, 101, 0.001), point(150, 150, 0.01) })
    assert.equal('1 of 3 points are on the front; 0 are beaten in both beyond doubt.',
      said { point(100, 100, 0.9), point(101, 101, 0.001, { grade = 'D' }),
        point(150, 150, 0.01) })
    assert.equal('1 of 3 points are on the front; 0 are beaten in both beyond doubt.',
      said { point(100, 100, 0.001, { grade = 'D' }), point(101, 101, 0.001),
        point(150, 150, 0.01, { grade = 'D' }) })
  end)

  it('has points on the front that are as good as another', function()
    assert.equal('2 of 3 points are on the front; 0 are beaten in both beyond doubt.',
      said { point(1, 2, 0.9), point(1, 2, 0.9), point(1, 3, 0.9) })
  end)

  it('is what comparing each with each says', function()
    local generator = require('ridge.measure.random').new(11)
    for _ = 1, 60 do
      local rows, front, beaten = {}, 0, 0
      for i = 1, generator:integer(25) do
        rows[i] = point(generator:integer(9), generator:integer(9), generator:integer(40) / 100,
          { grade = generator:integer(5) == 1 and 'D' or 'A' })
      end
      for _, p in ipairs(rows) do
        local off, lost = p.grade == 'D', false
        for _, q in ipairs(p.grade ~= 'D' and rows or {}) do
          if q.grade ~= 'D' then
            off = off or q.cost <= p.cost and q.err <= p.err and (q.cost < p.cost
              or q.err < p.err)
            lost = lost or q.cost_hi < p.cost_lo and q.err_hi < p.err_lo
          end
        end
        front, beaten = front + (off and 0 or 1), beaten + (lost and 1 or 0)
      end
      assert.equal(('%d of %d points are on the front; %d %s beaten in both beyond doubt.'):format(
        front, #rows, beaten, beaten == 1 and 'is' or 'are'), said(rows))
    end
  end)
end)

describe('the headline of steps', function()
  local function said(list, opt, more)
    local rows = {}
    for i, p in ipairs(list) do rows[i] = row('rate', p[2], { n = p[1], grade = p[3] }) end
    for _, each in ipairs(more or {}) do rows[#rows + 1] = each end
    local all = { x = 'n', y = 'rate' }
    for key, value in pairs(opt or {}) do all[key] = value end
    return finding('steps', rows, all)
  end
  local TEETH = { { 8, 100 }, { 9, 80 }, { 16, 100 }, { 17, 80 }, { 24, 100 }, { 25, 80 } }

  it('is about the tile that is drawn', function()
    assert.equal('One more than a multiple of 8 costs 20 % of the rate on average.', said(TEETH))
    assert.equal('No size was measured beside the multiple of a tile below it.',
      said(TEETH, { tile = 5 }))
    local up = { { 10, 100 }, { 11, 110 }, { 20, 100 }, { 21, 110 } }
    assert.equal('One more than a multiple of 10 gains 10 % of the rate on average.',
      said(up, { tile = 10 }))
  end)

  it('is not of what was disturbed, and says of which line it is', function()
    local list = {}
    for i, p in ipairs(TEETH) do list[i] = { p[1], p[2], p[2] == 80 and 'D' or 'A' } end
    assert.equal('No size was measured beside the multiple of a tile below it.', said(list))
    list = { { 8, 100 }, { 9, 100 }, { 16, 100 }, { 17, 100 } }
    assert.equal('No size of tile stands out.', said(list))
    local other = {}
    for i, p in ipairs(TEETH) do other[i] = row('rate', p[2], { n = p[1], kind = 'b' }) end
    for _, p in ipairs(list) do other[#other + 1] = row('rate', p[2], { n = p[1], kind = 'a' }) end
    assert.equal('No size of tile stands out (kind a).', said({}, { by = 'kind' }, other))
  end)
end)

describe('the headline of threads', function()
  local function said(list, opt)
    local rows = {}
    for i, p in ipairs(list) do
      rows[i] = row(opt and opt.y or 'fwd', p[2], { threads = p[1], grade = p[3], of = p[4] })
    end
    local all = { y = 'fwd' }
    for key, value in pairs(opt or {}) do all[key] = value end
    return finding('threads', rows, all)
  end

  it('has no ratio to what was disturbed', function()
    assert.is_nil(said { { 1, 400, 'D' }, { 2, 100 } })
    assert.equal('At most 1.50 times faster, with 2 threads (of b).', said({ { 1, 400, 'D', 'a' },
      { 2, 100, 'A', 'a' }, { 1, 300, 'A', 'b' }, { 2, 200, 'A', 'b' } }, { by = 'of' }))
  end)

  it('says nothing of one number of threads, nor calls slower faster', function()
    assert.is_nil(said { { 4, 400 } })
    assert.equal('More threads are not faster.', said { { 1, 100 }, { 2, 130 } })
  end)

  it('has a serial share between none and all', function()
    local serial = require('ridge.plot.threads').serial
    assert.equal(0, serial { { x = 1, y = 1 }, { x = 2, y = 3 } })
    assert.equal(1, serial { { x = 1, y = 1 }, { x = 2, y = 0.5 } })
    assert.near(0.25, serial { { x = 1, y = 1 }, { x = 2, y = 1.6 } }, 1e-12)
    assert.is_nil(serial { { x = 4, y = 1 } })
  end)

  it('takes a rate for what it is', function()
    assert.equal('At most 2.00 times faster, with 2 threads (fwd_gflops).',
      said({ { 1, 10 }, { 2, 20 } }, { y = 'fwd_gflops' }))
  end)
end)

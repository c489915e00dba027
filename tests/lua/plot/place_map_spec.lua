-- SPDX-License-Identifier: MIT
--- Where maps draw what: every cell, value, label, mark and line, and the colours against the bar.

package.path = 'tests/lua/plot/?.lua;' .. package.path
local color = require 'ridge.plot.color'
local plot = require 'ridge.plot'
local recorder = require 'recorder'
local terminal = require 'ridge.plot.terminal'

local near, same = recorder.near, recorder.same

-- width, batch, nanoseconds, grade or state
local function rows(list, more)
  local out = {}
  for i, given in ipairs(list) do
    local ns, word = given[3], given[4] or 'A'
    local row = { trial = i, width = given[1], batch = given[2], state = ns and 'ok' or word,
      fwd = ns, fwd_lo = ns and ns * 0.95, fwd_hi = ns and ns * 1.05, fwd_n = ns and 30,
      grade = ns and word or nil }
    for name, value in pairs(more or {}) do row[name] = value end
    out[i] = row
  end
  return out
end

-- In no order, and uneven: a column or a row that is off by one cannot look right.
local LIST = { { 256, 8, nil, 'oom' }, { 64, 1, 1000 }, { 128, 8, 6000, 'B' }, { 256, 1, 600, 'D' },
  { 64, 8, 2000, 'C' }, { 128, 1, 3000 } }
local MAP = { x = 'width', y = 'batch', z = 'fwd' }

local function with(base, more)
  local out = {}
  for name, value in pairs(base) do out[name] = value end
  for name, value in pairs(more or {}) do out[name] = value end
  return out
end

-- The places of the columns' and rows' names of one facet: those right of `from`, left of `to`.
local function grid(rec, xs, ys, from, to)
  local out = { x = {}, y = {} }
  local function inside(s) return s.x > (from or 0) and s.x < (to or math.huge) end
  for _, name in ipairs(xs) do
    out.x[name] = rec:one('text', function(s)
      return s.text == name and s.style.align == 'center' and s.style.valign == 'top' and inside(s)
    end, 'the name of column ' .. name).x
  end
  for _, name in ipairs(ys) do
    out.y[name] = rec:one('text', function(s)
      return s.text == name and s.style.align == 'right' and s.style.valign == 'middle'
        and inside(s)
    end, 'the name of row ' .. name).y
  end
  return out
end

-- The ground of the cell that stands above a column's name and beside a row's.
local function cell(rec, g, x, y)
  return rec:one('rect', function(s)
    return near(s.x + s.w / 2, g.x[x]) and near(s.y + s.h / 2, g.y[y])
  end, ('a cell at %s, %s'):format(x, y))
end

local function hatch(rec, at)
  local found = rec:all('hatch', function(s)
    return near(s.x, at.x) and near(s.y, at.y) and near(s.w, at.w) and near(s.h, at.h)
  end)
  assert.is_true(#found < 2)
  return found[1]
end

-- What is written in the middle of a cell.
local function written(rec, at)
  local found = rec:all('text', function(s)
    return near(s.x, at.x + at.w / 2) and near(s.y, at.y + at.h / 2)
      and s.style.valign == 'middle' and s.style.align == 'center'
  end)
  assert.is_true(#found < 2)
  return found[1] and found[1].text
end

-- The colour bar: its colour at a value, by the labels beside it.
local function bar(rec, kind)
  local parts = rec:all('rect', function(s) return s.w == 16 and s.h < 10 end)
  assert.equal(160, #parts)
  local x, top, bottom = parts[1].x, math.huge, -math.huge
  for _, s in ipairs(parts) do
    assert.equal(x, s.x)
    top, bottom = math.min(top, s.y), math.max(bottom, s.y + s.h)
  end
  local labels = rec:all('text', function(s)
    return near(s.x, x + 24) and s.style.valign == 'middle' and recorder.number(s.text)
  end)
  assert.is_true(#labels >= 3, 'labels of the bar')
  local function scaled(v) return kind == 'log' and math.log(v) or v end
  local a, b = labels[1], labels[#labels]
  local va, vb = scaled(recorder.number(a.text)), scaled(recorder.number(b.text))
  for _, s in ipairs(labels) do
    assert.near(a.y + (scaled(recorder.number(s.text)) - va) / (vb - va) * (b.y - a.y), s.y, 0.02)
    assert.is_true(s.y >= top - 0.1 and s.y <= bottom + 0.1)
    rec:one('line', function(l) return near(l.x1, x + 16) and near(l.y1, s.y, 0.51) end, 'its mark')
  end
  return function(v)
    local y = a.y + (scaled(v) - va) / (vb - va) * (b.y - a.y)
    y = math.max(top + 0.1, math.min(bottom - 0.1, y))
    local hit
    for _, s in ipairs(parts) do
      if y >= s.y and y <= s.y + s.h then hit = s end -- the later one lies above
    end
    return hit.color
  end, a.y > b.y and 1 or -1, x
end

-- Near enough: neighbours on the bar differ by less than this.
local function like(a, b) return color.distance(a, b) < 3 end

describe('the map', function()
  it('has every cell above its column and beside its row, in its colour, with its value', function()
    local figure = plot.map(rows(LIST), MAP)
    local rec = recorder.of(figure)
    local g = grid(rec, { '64', '128', '256' }, { '1', '8' })
    local column, line = g.x['128'] - g.x['64'], g.y['1'] - g.y['8']
    assert.is_true(column > 50 and line > 50) -- to the right and upwards
    assert.near(column, g.x['256'] - g.x['128'], 0.01)
    -- shares of the way from the fastest, 600, to the slowest, 6000, in logarithms: pale is fast
    local WANTED = { { '64', '1', 1000, '1' }, { '128', '1', 3000, '3' },
      { '256', '1', 600, '0.6' }, { '64', '8', 2000, '2' }, { '128', '8', 6000, '6' } }
    local at_value = bar(rec, 'log')
    for _, want in ipairs(WANTED) do
      local c = cell(rec, g, want[1], want[2])
      assert.near(column - 2, c.w, 0.01)
      assert.near(line - 2, c.h, 0.01)
      assert.equal(want[4], written(rec, c))
      local share = math.log(want[3] / 600) / math.log(10)
      assert.is_true(same(color.magnitude(1 - share, 'light'), c.color), want[3])
      assert.is_true(like(at_value(want[3]), c.color), want[3] .. ' has another colour on the bar')
    end
    assert.equal(1, #rec:said 'cells in µs')
    assert.equal(1, #rec:said 'width')
    assert.equal(1, #rec:said 'batch')
    -- the names of the axes stand at the end of the one and over the other
    assert.is_true(rec:said 'width'[1].y > g.y['1'] and rec:said 'batch'[1].y < g.y['8'])
  end)

  it('runs its bar upwards from little to much', function()
    for _, z in ipairs { 'fwd', 'fwd_gflops' } do
      local list = rows(LIST)
      for _, row in ipairs(list) do row.fwd_gflops = row.fwd and 6000 / row.fwd end
      local rec = recorder.of(plot.map(list, with(MAP, { z = z })))
      local at, upwards = bar(rec, 'log')
      assert.equal(1, upwards)
      -- what is better is pale: little time, much rate
      local low, high = color.lab(at(z == 'fwd' and 600 or 1)), color.lab(at(z == 'fwd' and 6000
        or 10))
      assert.is_true(z == 'fwd' and low > high or z == 'fwd_gflops' and high > low, z)
    end
  end)

  it('marks grades and what is missing on their own cells only', function()
    local rec = recorder.of(plot.map(rows(LIST), MAP))
    local g = grid(rec, { '64', '128', '256' }, { '1', '8' })
    local t = rec.theme
    local disturbed, missing = cell(rec, g, '256', '1'), cell(rec, g, '256', '8')
    assert.equal('crossed', hatch(rec, disturbed).kind)
    assert.is_true(hatch(rec, disturbed).at > disturbed.at) -- over its ground, not under it
    assert.is_true(same(t.blank, missing.color))
    assert.equal('crossed', hatch(rec, missing).kind)
    assert.is_true(same(t.hatch, hatch(rec, missing).color))
    assert.is_nil(written(rec, missing))
    for _, at in ipairs { { '64', '1' }, { '128', '1' }, { '64', '8' }, { '128', '8' } } do
      assert.is_nil(hatch(rec, cell(rec, g, at[1], at[2])))
    end
    -- two in cells, two in the key
    assert.equal(4, #rec:all 'hatch')
    local c = cell(rec, g, '64', '8')
    assert.equal('circle', rec:mark(c.x + c.w - 7, c.y + 7).shape)
    assert.equal(2, #rec:all 'marker') -- in its cell and in the key
    for _, word in ipairs { 'grade C', 'grade D, disturbed', 'out of memory', 'best',
        'best of each column' } do
      assert.equal(1, #rec:said(word), word)
    end
    assert.equal(0, #rec:said 'undecided')
  end)

  it('frames the best and joins the best of each column, what is disturbed left out', function()
    local rec = recorder.of(plot.map(rows(LIST), MAP))
    local g = grid(rec, { '64', '128', '256' }, { '1', '8' })
    local best = cell(rec, g, '64', '1')
    local frames = rec:all('frame', function(s) return s.w > 20 end)
    assert.equal(2, #frames)
    for _, s in ipairs(frames) do
      assert.is_true(near(s.x, best.x + 1) and near(s.y, best.y + 1) and near(s.w, best.w - 2)
        and near(s.h, best.h - 2))
    end
    local bottom = best.y + best.h - 5
    -- the column of 256 has a disturbed cell and none
    local lines = rec:all('polyline')
    assert.equal(2, #lines)
    for _, s in ipairs(lines) do
      assert.equal(2, #s.xs)
      assert.is_true(near(s.xs[1], g.x['64']) and near(s.xs[2], g.x['128']))
      assert.is_true(near(s.ys[1], bottom) and near(s.ys[2], bottom))
    end
    -- where more is better it goes along the other cells
    rec = recorder.of(plot.map(rows(LIST), with(MAP, { better = 'higher' })))
    g = grid(rec, { '64', '128', '256' }, { '1', '8' })
    best = cell(rec, g, '128', '8')
    assert.equal(2, #rec:all('frame', function(s) return near(s.x, best.x + 1)
      and near(s.y, best.y + 1) end))
    assert.is_true(near(rec:all 'polyline'[2].ys[1], best.y + best.h - 5))
    -- in one row: column and row are not to be mixed up
    rec = recorder.of(plot.map(rows { { 64, 1, 500 }, { 128, 1, 400 }, { 256, 1, 300 },
      { 64, 8, 900 }, { 128, 8, 800 }, { 256, 8, 700 } }, MAP))
    g = grid(rec, { '64', '128', '256' }, { '1', '8' })
    best = cell(rec, g, '256', '1')
    assert.equal(2, #rec:all('frame', function(s) return near(s.x, best.x + 1)
      and near(s.y, best.y + 1) end))
  end)

  it('has a pattern and a word for every cause', function()
    local CAUSES = { { 'oom', 'crossed', 'out of memory', 'M' }, { 'timeout', 'level', 'timed out',
      'T' }, { 'error', 'falling', 'failed', 'E' }, { 'crashed', 'falling', 'crashed', 'C' },
      { 'infeasible', 'rising', 'infeasible', '/' }, { 'implied', 'upright',
      'implied by a neighbour', 'm' }, { 'pending', 'dots', 'not measured yet', '·' },
      { 'running', 'dots', 'being measured', '·' } }
    for _, cause in ipairs(CAUSES) do
      local figure = plot.map(rows { { 64, 1, 100 }, { 128, 1, nil, cause[1] } }, MAP)
      local rec = recorder.of(figure)
      local g = grid(rec, { '64', '128' }, { '1' })
      assert.equal(cause[2], hatch(rec, cell(rec, g, '128', '1')).kind)
      assert.is_nil(hatch(rec, cell(rec, g, '64', '1')))
      local word = rec:said(cause[3])
      assert.equal(1, #word, cause[3])
      -- the sample in the key stands left of its word, on its line
      rec:one('hatch', function(s)
        return s.kind == cause[2] and s.x + s.w < word[1].x and near(s.y + s.h / 2, word[1].y)
      end, 'a sample of ' .. cause[1])
      assert.matches('1 ' .. cause[3], figure:text())
      local text = terminal.lines(figure, { depth = 'none' })
      assert.equal('1 ==' .. cause[4]:rep(2), text[2])
    end
    -- a place that no row has
    local rec = recorder.of(plot.map(rows { { 64, 1, 100 }, { 128, 8, 200 } }, MAP))
    local g = grid(rec, { '64', '128' }, { '1', '8' })
    assert.equal('dots', hatch(rec, cell(rec, g, '64', '8')).kind)
    assert.equal(1, #rec:said 'not in the sweep')
  end)

  it('puts each facet over its own cells, on one scale of colours', function()
    local both = rows(LIST, { dtype = 'f32' })
    for _, row in ipairs(rows(LIST, { dtype = 'bf16' })) do
      row.fwd = row.fwd and row.fwd * 10
      both[#both + 1] = row
    end
    local rec = recorder.of(plot.map(both, MAP))
    local left, right = rec:said 'f32', rec:said 'bf16'
    assert.equal(1, #left)
    assert.is_true(left[1].x < right[1].x and left[1].y == right[1].y)
    local at_value, _, x = bar(rec, 'log')
    local one = grid(rec, { '64', '128', '256' }, { '1', '8' }, left[1].x, right[1].x)
    local two = grid(rec, { '64', '128', '256' }, { '1', '8' }, right[1].x, x)
    assert.equal('3', written(rec, cell(rec, one, '128', '1')))
    assert.equal('30', written(rec, cell(rec, two, '128', '1')))
    assert.is_true(like(at_value(3000), cell(rec, one, '128', '1').color))
    assert.is_true(like(at_value(30000), cell(rec, two, '128', '1').color))
    assert.near(cell(rec, one, '64', '1').w, cell(rec, two, '64', '1').w, 1)
  end)

  it('takes the median of several rows for one place', function()
    local rec = recorder.of(plot.map(rows { { 64, 1, 500 }, { 64, 1, 100 }, { 64, 1, 9000 },
      { 128, 1, 100 }, { 64, 1, nil, 'error' } }, MAP))
    assert.equal('500', written(rec, cell(rec, grid(rec, { '64', '128' }, { '1' }), '64', '1')))
  end)
end)

describe('against dense', function()
  -- in 512, out 512: a sketch of 2 T R = 256 computes as much
  local function layers(more)
    local out = {}
    local function add(layer, batch, ns, lo, hi, terms, rank, grade)
      out[#out + 1] = { trial = #out + 1, layer = layer, batch = batch, in_features = 512,
        out_features = 512, fwd = ns, fwd_lo = lo, fwd_hi = hi, num_terms = terms,
        low_rank = rank, state = 'ok', grade = grade or 'A', dtype = 'f32', param_count = 1000,
        peak_memory_mb = 1 }
    end
    add('dense', 1, 10, 9.9, 10.1)
    add('dense', 128, 1000, 980, 1020)
    add('dense', 2, 1e6, 0.99e6, 1.01e6)
    add('sketched', 128, 500, 490, 510, 4, 16)
    add('sketched', 128, 900, 850, 990, 8, 16) -- the median is lower, the intervals touch
    add('sketched', 128, 1100, 1010, 1150, 16, 16) -- higher, and they touch
    add('sketched', 128, 2000, 1900, 2100, 4, 32)
    add('sketched', 128, 250, 240, 260, 8, 32, 'D')
    add('sketched', 128, 4000, 3900, 4100, 16, 32)
    for _, row in ipairs(more or {}) do out[#out + 1] = row end
    return out
  end

  it('has a colour where intervals lie apart, of the dense layer of the same batch', function()
    local figure = plot.map(layers(), { ratio = true })
    local rec = recorder.of(figure)
    local g = grid(rec, { '4', '8', '16' }, { '16', '32' })
    local t = rec.theme
    for _, want in ipairs { { '4', '16', '2×' }, { '8', '16', '1.1×' }, { '16', '16', '0.91×' },
        { '4', '32', '0.5×' }, { '8', '32', '4×' }, { '16', '32', '0.25×' } } do
      assert.equal(want[3], written(rec, cell(rec, g, want[1], want[2])))
    end
    -- a quarter to four times: blue at four, rust at a quarter
    assert.is_true(same(color.ratio(0.25, 'light'), cell(rec, g, '4', '16').color))
    assert.is_true(same(color.ratio(0.75, 'light'), cell(rec, g, '4', '32').color))
    assert.is_true(same(color.ratio(1, 'light'), cell(rec, g, '16', '32').color))
    for _, at in ipairs { { '8', '16' }, { '16', '16' }, { '8', '32' } } do
      assert.is_true(same(t.neutral, cell(rec, g, at[1], at[2]).color), at[1] .. ' ' .. at[2])
    end
    assert.equal('crossed', hatch(rec, cell(rec, g, '8', '32')).kind)
    local blue, rust = cell(rec, g, '4', '16').color, cell(rec, g, '16', '32').color
    assert.is_true(blue[3] > blue[1] and rust[1] > rust[3])
    local at_value, upwards = bar(rec, 'log')
    assert.equal(1, upwards)
    assert.is_true(like(at_value(2), blue) and like(at_value(0.25), rust))
    -- as far up as down, whatever was measured
    local small = recorder.of(plot.map(layers { { layer = 'sketched', num_terms = 4, low_rank = 64,
      batch = 128, in_features = 512, out_features = 512, dtype = 'f32', state = 'ok', grade = 'A',
      fwd = 16000, fwd_lo = 15000, fwd_hi = 17000 } }, { ratio = true }))
    local parts = small:all('rect', function(s) return s.w == 16 and s.h < 10 end)
    local one = small:one('text', function(s) return s.text == '1×' and s.x > parts[1].x end, '1×')
    assert.near((parts[1].y + parts[1].h + parts[160].y) / 2, one.y, 1)
    assert.equal(1, #rec:said 'undecided')
    -- the best is not the disturbed one
    local best = cell(rec, g, '4', '16')
    assert.equal(2, #rec:all('frame', function(s) return near(s.x, best.x + 1)
      and near(s.y, best.y + 1) end))
  end)

  it('draws the break-even through the cells where 2 T R is what dense computes', function()
    local rec = recorder.of(plot.map(layers(), { ratio = true }))
    local g = grid(rec, { '4', '8', '16' }, { '16', '32' })
    local t = rec.theme
    local line = rec:one('polyline', function(s) return s.dash and same(s.color, t.warn) end,
      'the break-even')
    -- T = 4 and R = 32, T = 8 and R = 16: through the middle of these cells
    local px, py = g.x['8'] - g.x['4'], g.y['16'] - g.y['32']
    for i = 1, #line.xs do
      local terms = 4 * 2 ^ ((line.xs[i] - g.x['4']) / px)
      local rank = 16 * 2 ^ ((g.y['16'] - line.ys[i]) / py)
      assert.near(256, 2 * terms * rank, 0.5)
    end
    local from, to = math.min(unpack(line.xs)), math.max(unpack(line.xs))
    assert.is_true(from <= g.x['4'] and to >= g.x['8'])
    local area = line.clip
    assert.near(g.x['4'] - px / 2, area.x, 0.01)
    assert.near(3 * px, area.w, 0.01)
    assert.near(2 * py, area.h, 0.01)
    assert.equal(1, #rec:said '2·T·R = 256: computes as much as dense')
    assert.equal(0, #recorder.of(plot.map(rows(LIST), MAP)):all('polyline',
      function(s) return s.dash end))
  end)

  it('the 2x2 figure counts points against the dense layer of their sizes, none disturbed',
    function()
      local function finding(more)
        return plot.landscape(layers(more), {}).finding
      end
      assert.equal('Sketched is faster than dense at 1 of 5 points; intervals that touch do not '
        .. 'count.', finding())
      -- one of batch 1, where dense takes 10: slower, though much faster than any other dense
      assert.equal('Sketched is faster than dense at 1 of 6 points; intervals that touch do not '
        .. 'count.', finding { { layer = 'sketched', batch = 1, in_features = 512,
          out_features = 512, fwd = 20, fwd_lo = 19, fwd_hi = 21, num_terms = 4, low_rank = 16,
          state = 'ok', dtype = 'f32', grade = 'A', param_count = 10, peak_memory_mb = 1 } })
      -- one of a size that has no dense layer is not compared
      assert.equal('Sketched is faster than dense at 1 of 5 points; intervals that touch do not '
        .. 'count.', finding { { layer = 'sketched', batch = 128, in_features = 64,
          out_features = 512, fwd = 20, fwd_lo = 19, fwd_hi = 21, num_terms = 4, low_rank = 16,
          state = 'ok', dtype = 'f32', grade = 'A', param_count = 10, peak_memory_mb = 1 } })
    end)

  it('says by what it was decided: ratios within passes, or intervals', function()
    local list = layers()
    local function said()
      local text = table.concat(plot.map(list, { ratio = true }).caption, ' ')
      return { text:find 'intervals do not touch' ~= nil, text:find 'within each pass' ~= nil }
    end
    local function finding() return plot.landscape(list, {}).finding end
    assert.same({ true, false }, said())
    local function pair(row) -- intervals that touch, a ratio that is below 1
      row.partner, row.fwd_ratio, row.fwd_ratio_lo, row.fwd_ratio_hi = 2, 0.9, 0.85, 0.95
    end
    pair(list[5])
    assert.same({ true, true }, said())
    assert.equal('Sketched is faster than dense at 2 of 5 points; ratios whose interval holds 1, '
      .. 'and without ratios intervals that touch, do not count.', finding())
    for i = 4, #list do if list[i].layer == 'sketched' then pair(list[i]) end end
    assert.same({ false, true }, said())
    assert.equal('Sketched is faster than dense at 5 of 5 points; ratios whose interval holds 1 '
      .. 'do not count.', finding())
  end)

  it('is of the type of the row, and of a clean dense layer before a disturbed one', function()
    local list = layers { { layer = 'dense', batch = 128, in_features = 512, out_features = 512,
      dtype = 'bf16', fwd = 1, fwd_lo = 1, fwd_hi = 1, state = 'ok', grade = 'A' },
      { layer = 'dense', batch = 128, in_features = 512, out_features = 512, dtype = 'f32',
        fwd = 2, fwd_lo = 2, fwd_hi = 2, state = 'ok', grade = 'D' },
      { layer = 'dense', batch = 128, in_features = 512, out_features = 512, dtype = 'f32',
        state = 'oom' } }
    local rec = recorder.of(plot.map(list, { ratio = true }))
    local g = grid(rec, { '4', '8', '16' }, { '16', '32' })
    assert.equal('2×', written(rec, cell(rec, g, '4', '16')))
  end)
end)

describe('the map of', function()
  -- f32 and bf16 by width and batch: nanoseconds; bf16 wins at 128, loses at 256
  local function two()
    local list = rows({ { 64, 1, 1000 }, { 128, 1, 2000 }, { 256, 1, 3000 }, { 64, 8, 4000 },
      { 128, 8, 5000, 'D' }, { 256, 8, 6000 } }, { dtype = 'f32' })
    for _, row in ipairs(rows({ { 256, 8, nil, 'timeout' }, { 256, 1, 6000 }, { 128, 1, 500 },
        { 64, 1, 1040 }, { 128, 8, 1000 } }, { dtype = 'bf16' })) do
      list[#list + 1] = row
    end
    return list
  end

  it('a ratio divides the one side by the other at every place', function()
    local figure = plot.draw('ratio', two(), with(MAP, { a = 'dtype=f32', b = 'dtype=bf16' }))
    local rec = recorder.of(figure)
    local g = grid(rec, { '64', '128', '256' }, { '1', '8' })
    local t = rec.theme
    assert.equal('0.96×', written(rec, cell(rec, g, '64', '1')))
    assert.equal('4×', written(rec, cell(rec, g, '128', '1')))
    assert.equal('0.5×', written(rec, cell(rec, g, '256', '1')))
    assert.is_true(same(t.neutral, cell(rec, g, '64', '1').color))
    assert.is_true(same(t.neutral, cell(rec, g, '128', '8').color))
    -- a fifth to five: log 4 and log 2 of log 5
    assert.is_true(same(color.ratio(0.5 - math.log(4) / math.log(5) / 2, 'light'),
      cell(rec, g, '128', '1').color))
    assert.is_true(same(color.ratio(0.5 + math.log(2) / math.log(5) / 2, 'light'),
      cell(rec, g, '256', '1').color))
    -- what the other side lacks, and why
    assert.equal('dots', hatch(rec, cell(rec, g, '64', '8')).kind)
    assert.equal('level', hatch(rec, cell(rec, g, '256', '8')).kind)
    assert.equal('dtype=bf16 wins in 1 cell, dtype=f32 in 1; 2 are undecided.', figure.finding)
  end)

  -- Three implementations: times by hand at each place, and who is told apart from whom.
  local function three()
    local list = {}
    for impl, times in pairs {
      a = { { 64, 1, 1000 }, { 64, 8, 5000 }, { 128, 1, 2000 }, { 128, 8, 900 }, { 256, 1, 70 } },
      b = { { 64, 1, 3000 }, { 64, 8, 2500 }, { 128, 1, 2060 }, { 128, 8, 300, 'D' },
        { 256, 1, nil, 'oom' } },
      c = { { 64, 1, 1500 }, { 64, 8, 2000 }, { 128, 1, 4000 }, { 128, 8, 1000 },
        { 256, 1, nil, 'oom' }, { 256, 8, nil, 'timeout' },
        { 32, 1, 40 } },
    } do
      for _, row in ipairs(rows(times, { impl = impl })) do
        row.trial = row.trial + 100 * impl:byte()
        list[#list + 1] = row
      end
    end
    return list
  end

  it('winners has the colour of the best, told apart from all others, and by how much', function()
    local figure = plot.draw('winner', three(), with(MAP, { of = 'impl' }))
    local rec = recorder.of(figure)
    local g = grid(rec, { '32', '64', '128', '256' }, { '1', '8' })
    local t = rec.theme
    local function of(i) return color.mix(t.paper, (color.category(i, 'light')), 0.75) end
    for _, want in ipairs { { '64', '1', '1.5×', of(1) }, { '64', '8', '1.25×', of(3) },
        { '128', '1', '1.03×', t.neutral }, { '128', '8', '3×', t.neutral } } do
      local c = cell(rec, g, want[1], want[2])
      assert.equal(want[3], written(rec, c))
      assert.is_true(same(want[4], c.color), want[1] .. ' ' .. want[2])
    end
    -- one value alone, and none: no winner, and why
    assert.equal('crossed', hatch(rec, cell(rec, g, '256', '1')).kind)
    assert.equal('level', hatch(rec, cell(rec, g, '256', '8')).kind)
    assert.equal('dots', hatch(rec, cell(rec, g, '32', '1')).kind)
    assert.equal('crossed', hatch(rec, cell(rec, g, '128', '8')).kind)
    -- whose colour is which, in order
    local last = -math.huge
    for i, name in ipairs { 'a', 'b', 'c' } do
      local said = rec:one('text', function(s) return s.text == name end, name)
      rec:one('rect', function(s)
        return same(s.color, of(i)) and near(s.y + s.h / 2, said.y) and s.x < said.x
      end, 'its colour')
      assert.is_true(said.y > last)
      last = said.y
    end
    assert.equal('a wins in 1, b in 0, c in 1 of 7 cells; 2 are undecided, 2 had one value.',
      figure.finding)
  end)

  it('winners goes by the ratio within the passes, and by what is better', function()
    local list = three()
    for _, row in ipairs(list) do -- b over a at 128, 1: for certain, and c is far away
      if row.impl == 'b' and row.width == 128 and row.batch == 1 then
        for _, other in ipairs(list) do
          if other.impl == 'a' and other.width == 128 and other.batch == 1 then
            row.partner, row.fwd_ratio, row.fwd_ratio_lo, row.fwd_ratio_hi = other.trial, 1.02,
              1.01, 1.04
          end
        end
      end
    end
    local rec = recorder.of(plot.draw('winner', list, with(MAP, { of = 'impl' })))
    local g = grid(rec, { '64', '128', '256' }, { '1', '8' })
    local c = cell(rec, g, '128', '1')
    assert.equal('1.02×', written(rec, c))
    assert.is_false(same(rec.theme.neutral, c.color))
    -- a rate: the highest wins
    for _, row in ipairs(list) do
      row.rate, row.rate_lo, row.rate_hi = row.fwd, row.fwd_lo, row.fwd_hi
    end
    local figure = plot.draw('winner', list,
      { x = 'width', y = 'batch', z = 'rate', of = 'impl', better = 'higher' })
    rec = recorder.of(figure)
    g = grid(rec, { '64', '128', '256' }, { '1', '8' })
    c = cell(rec, g, '64', '1')
    assert.equal('2×', written(rec, c))
    assert.is_true(same(color.mix(rec.theme.paper, (color.category(2, 'light')), 0.75), c.color))
    assert.equal('Which impl is highest', figure.title)
  end)

  it('a ratio has what is better in the numerator of a rate', function()
    local list = two()
    for _, row in ipairs(list) do
      if row.fwd then
        row.rate_gflops, row.rate_gflops_lo, row.rate_gflops_hi = 1e6 / row.fwd, 1e6 / row.fwd_hi,
          1e6 / row.fwd_lo
      end
    end
    local figure = plot.draw('ratio', list, with(MAP, { z = 'rate_gflops', a = 'dtype=f32',
      b = 'dtype=bf16' }))
    local rec = recorder.of(figure)
    local g = grid(rec, { '64', '128', '256' }, { '1', '8' })
    assert.equal('4×', written(rec, cell(rec, g, '128', '1')))
    local c = cell(rec, g, '128', '1').color
    assert.is_true(c[3] > c[1])
    assert.equal('dtype=bf16 wins in 1 cell, dtype=f32 in 1; 2 are undecided.', figure.finding)
  end)

  it('efficiency is in percent of the roof, with a line where the bound changes', function()
    local list = rows { { 64, 1, 10 }, { 128, 1, 10 }, { 256, 1, 10 }, { 64, 8, 10 },
      { 128, 8, 10 }, { 256, 8, 10, 'D' } }
    local SHARE = { 10, 25, 50, 60, 80, 90 }
    local BOUND = { 'DRAM', 'DRAM', 'compute', 'LLC', 'compute', 'compute' }
    for i, row in ipairs(list) do row.fwd_roof, row.fwd_bound = SHARE[i], BOUND[i] end
    local figure = plot.draw('efficiency', list, MAP)
    local rec = recorder.of(figure)
    local g = grid(rec, { '64', '128', '256' }, { '1', '8' })
    local at_value, upwards = bar(rec, 'linear')
    assert.equal(1, upwards)
    assert.is_true(#rec:said '0%' == 1 and #rec:said '100%' == 1)
    for i, want in ipairs(list) do
      local c = cell(rec, g, tostring(want.width), tostring(want.batch))
      assert.equal(SHARE[i] .. '%', written(rec, c))
      assert.is_true(same(color.magnitude(SHARE[i] / 100, 'light'), c.color))
      assert.is_true(like(at_value(SHARE[i]), c.color))
    end
    assert.equal('The best cell reaches 80 % of what this machine was measured to do.',
      figure.finding)
    -- between 128 and 256 below, between 64 and 128 above, and under the cell of 128 and 8
    local t, px, py = rec.theme, g.x['128'] - g.x['64'], g.y['1'] - g.y['8']
    local edges = rec:all('line', function(s)
      return same(s.color, t.warn) and s.y1 > g.y['8'] - py / 2 - 1
    end)
    local function edge(x1, y1, x2, y2)
      rec:one('line', function(s)
        return same(s.color, t.warn) and near(s.x1, x1) and near(s.x2, x2) and near(s.y1, y1)
          and near(s.y2, y2)
      end, 'an edge')
    end
    local middle, bottom = (g.y['1'] + g.y['8']) / 2, g.y['1'] + py / 2
    edge(g.x['128'] + px / 2, middle, g.x['128'] + px / 2, bottom)
    edge(g.x['64'] + px / 2, middle - py, g.x['64'] + px / 2, middle)
    edge(g.x['64'] + px / 2, middle, g.x['128'] + px / 2, middle)
    assert.equal(3, #edges)
  end)

  it('uncertainty is half the interval, and what has none is no narrow one', function()
    local list = rows { { 64, 1, 100 }, { 128, 1, 200 }, { 256, 1, 300 } }
    list[1].fwd_lo, list[1].fwd_hi = 99, 101
    list[2].fwd_lo, list[2].fwd_hi = 180, 260
    list[3].fwd_lo, list[3].fwd_hi = nil, nil
    local figure = plot.draw('uncertainty', list, MAP)
    local rec = recorder.of(figure)
    local g = grid(rec, { '64', '128', '256' }, { '1' })
    assert.equal('1%', written(rec, cell(rec, g, '64', '1')))
    assert.equal('20%', written(rec, cell(rec, g, '128', '1')))
    local none = cell(rec, g, '256', '1')
    assert.equal('dots', hatch(rec, none).kind)
    assert.is_nil(written(rec, none))
    assert.equal(1, #rec:said 'without an interval')
    local best = cell(rec, g, '64', '1')
    assert.equal(2, #rec:all('frame', function(s) return near(s.x, best.x + 1) end))
    assert.equal(1, #rec:said 'narrowest')
    assert.is_true(color.lab(best.color) > color.lab(cell(rec, g, '128', '1').color))
  end)
end)

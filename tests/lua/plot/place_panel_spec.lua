-- SPDX-License-Identifier: MIT
--- Where pictures with axes draw what: every point, interval, line, band and name, by the labels of
--- the ticks. Figures of samples and of time are in place_sample_spec.lua.

package.path = 'tests/lua/plot/?.lua;' .. package.path
local color = require 'ridge.plot.color'
local plot = require 'ridge.plot'
local recorder = require 'recorder'

local near, same = recorder.near, recorder.same

local function with(base, more)
  local out = {}
  for name, value in pairs(base) do out[name] = value end
  for name, value in pairs(more or {}) do out[name] = value end
  return out
end

-- Rows from lists of values under names; fwd with an interval of a fifth to both sides.
local function rows(names, list, more)
  local out = {}
  for i, values in ipairs(list) do
    local row = with({ trial = i, state = 'ok', grade = 'A' }, more)
    for k, name in ipairs(names) do
      if values[k] ~= false then row[name] = values[k] end
    end
    if row.fwd then row.fwd_lo, row.fwd_hi = row.fwd * 0.8, row.fwd * 1.2 end
    out[i] = row
  end
  return out
end

-- The place of a category's name below a panel.
local function category(rec, panel, name)
  for _, label in ipairs(rec:labels(rec.panels[panel], 'x')) do
    if label.text == name then return label.place end
  end
  error('no label ' .. name, 2)
end

-- The band around points: over the upper ends to the right, back over the lower ones.
local function band(rec, xs, lows, highs)
  rec:one('polygon', function(s)
    if #s.xs ~= 2 * #xs then return false end
    for i = 1, #xs do
      local back = 2 * #xs + 1 - i
      if not (near(s.xs[i], xs[i], 0.05) and near(s.ys[i], highs[i], 0.05)
        and near(s.xs[back], xs[i], 0.05) and near(s.ys[back], lows[i], 0.05)) then
        return false
      end
    end
    return true
  end, 'a band')
end

local function edge_name(rec, panel, text, y)
  local s = rec:one('text', function(s) return s.text == text end, 'the name ' .. text)
  assert.is_true(s.x > rec.panels[panel].x + rec.panels[panel].w, text)
  if y then assert.near(y, s.y, 0.05) end
  return s
end

describe('slices', function()
  it('of more lines than there is room for names names some, and says how many more', function()
    local list = {}
    for batch = 1, 60 do
      for k = 0, 3 do list[#list + 1] = { 64 * 2 ^ k, batch, 1000 * 2 ^ k + batch } end
    end
    local rec = recorder.of(plot.draw('slices', rows({ 'width', 'batch', 'fwd' }, list),
      { x = 'width', y = 'fwd', by = 'batch' }))
    local panel = rec.panels[1]
    local names, ys, more = {}, {}, nil
    for _, s in ipairs(rec:all('text', function(s) return s.x > panel.x + panel.w + 1 end)) do
      assert.is_true(s.y > panel.y and s.y < panel.y + panel.h, s.text)
      local batch, left = s.text:match '^(%d+)  ∝', s.text:match '^and (%d+) more$'
      if batch then names[#names + 1] = { n = tonumber(batch) } end
      more = more or tonumber(left)
      ys[#ys + 1] = s.y
    end
    assert.equal(60, #names + more)
    assert.is_true(#names > 10)
    table.sort(names, function(a, b) return a.n < b.n end)
    assert.equal(1, names[1].n)
    assert.equal(60, names[#names].n)
    local step = 59 / (#names - 1)
    for i, name in ipairs(names) do
      assert.is_true(math.abs(name.n - 1 - (i - 1) * step) <= 0.51)
    end
    table.sort(ys)
    assert.near(panel.y + panel.h - 2, ys[#ys], 0.05)
    for i = 2, #ys do assert.is_true(ys[i] - ys[i - 1] >= rec.theme.size.note, 'names touch') end
  end)

  local LIST = { { 64, 8, 8000 }, { 512, 1, 80000, 'D' }, { 128, 1, 5000 }, { 64, 1, 1000 },
    { 256, 8, 128000 }, { 256, 1, 20000 }, { 512, 8, 512000 }, { 128, 8, 32000 } }

  local function list()
    local out = rows({ 'width', 'batch', 'fwd' }, LIST)
    for i, row in ipairs(out) do
      row.grade, row.fwd_bytes = LIST[i][4] or 'A', row.width * 1024
    end
    out[#out + 1] = { state = 'error', width = 1024, batch = 1, grade = nil }
    return out
  end

  it('has each point on its value, on the line and in the colour of its kind', function()
    local rec = recorder.of(plot.draw('slices', list(), { x = 'width', y = 'fwd', by = 'batch' }))
    local x, y = rec:axis(1, 'x', 'log'), rec:axis(1, 'y', 'log')
    local colors = color.ordered(2, 'light')
    for k, values in ipairs { { 1000, 5000, 20000, 80000 }, { 8000, 32000, 128000, 512000 } } do
      local xs, ys, lows, highs = {}, {}, {}, {}
      for i, v in ipairs(values) do
        xs[i], ys[i], lows[i], highs[i] = x(32 * 2 ^ i), y(v), y(v * 0.8), y(v * 1.2)
        local mark = rec:mark(xs[i], ys[i], 'circle')
        assert.is_true(mark.r < rec.theme.marker) -- a line joins them: no mark stands for itself
        rec:bar(xs[i], lows[i], highs[i])
        if k == 1 and i == 4 then -- of grade D: an outline
          assert.is_nil(mark.fill)
          assert.is_true(same(colors[1], mark.edge))
        else
          assert.is_true(same(colors[k], mark.fill))
        end
      end
      assert.is_true(same(colors[k], rec:through(xs, ys).color))
      band(rec, xs, lows, highs)
    end
    -- 1.2 of 512 and 0.8 of 1000 are inside as well: no interval is cut
    local panel = rec.panels[1]
    assert.is_true(y(512000 * 1.2) > panel.y and y(800) < panel.y + panel.h)
    edge_name(rec, 1, '8  ∝ 2.00 ± 0.00', y(512000))
    assert.equal(8, #rec:all('marker', function(s) return s.edge ~= nil end))
    assert.equal(1, #rec:said 'forward time')
    assert.equal(1, #rec:said 'width')
  end)

  it('says where the working set leaves a cache, between the points', function()
    local rec = recorder.of(plot.draw('slices', list(), { x = 'width', y = 'fwd', by = 'batch',
      l2 = 64 * 2 ^ 1.5 * 1024 }))
    local x = rec:axis(1, 'x', 'log')
    local line = rec:one('line', function(s) return s.dash and s.dash[1] == 2 end, 'a hair line')
    assert.near(x(64 * 2 ^ 1.5), line.x1, 0.51)
    assert.equal(line.x1, line.x2)
    assert.near(x(64 * 2 ^ 1.5) + 4, rec:said 'L2'[1].x, 0.05)
  end)

  it('has a panel for each value, with the same axes side by side', function()
    local both = rows({ 'width', 'fwd', 'dtype' }, { { 64, 100, 'f32' }, { 128, 400, 'f32' },
      { 64, 3000, 'bf16' }, { 128, 9000, 'bf16' } })
    local rec = recorder.of(plot.draw('slices', both, { x = 'width', y = 'fwd', facet = 'dtype' }))
    assert.equal(2, #rec.panels)
    local a, b = rec.panels[1], rec.panels[2]
    assert.is_true(a.y == b.y and a.w == b.w and a.h == b.h and b.x > a.x + a.w)
    assert.is_true(near(rec:said 'dtype bf16'[1].x, a.x, 80) and
      rec:said 'dtype f32'[1].x > a.x + a.w)
    local y1, y2 = rec:axis(1, 'y', 'log'), rec:axis(2, 'y', 'log')
    assert.near(y1(500), y2(500), 0.02)
    rec:mark(rec:axis(1, 'x', 'linear')(64), y1(3000))
    rec:mark(rec:axis(2, 'x', 'linear')(128), y2(400))
  end)
end)

describe('steps', function()
  local function list()
    local out = {}
    for n = 20, 70 do
      local share = n / (math.ceil(n / 16) * 16)
      out[#out + 1] = { state = 'ok', grade = 'A', size = n, rate = 100 * share,
        rate_lo = 99 * share, rate_hi = 101 * share }
    end
    return out
  end

  it('has hair lines at multiples of the tile and the rates from zero', function()
    local rec = recorder.of(plot.draw('steps', list(), { x = 'size', y = 'rate',
      better = 'higher' }))
    local x, y = rec:axis(1, 'x', 'linear'), rec:axis(1, 'y', 'linear')
    local panel = rec.panels[1]
    assert.near(panel.y + panel.h, y(0), 0.05) -- the rate begins at the bottom
    local at = {}
    for _, s in ipairs(rec:all('line', function(s) return s.dash and s.x1 == s.x2 end)) do
      at[#at + 1] = s.x1
    end
    assert.equal(3, #at) -- 32, 48, 64
    for i, n in ipairs { 32, 48, 64 } do assert.near(x(n), at[i], 0.51) end
    rec:mark(x(33), y(100 * 33 / 48))
    rec:mark(x(64), y(100))
    assert.equal(51, #rec:all('marker', function(s) return s.edge end))
  end)

  it('has a line and a name for each kind', function()
    local both = rows({ 'size', 'kind', 'rate' }, { { 1, 'a', 10 }, { 2, 'a', 20 }, { 1, 'b', 30 },
      { 2, 'b', 40 } })
    local rec = recorder.of(plot.draw('steps', both, { x = 'size', y = 'rate', by = 'kind' }))
    local x, y = rec:axis(1, 'x', 'linear'), rec:axis(1, 'y', 'linear')
    rec:through({ x(1), x(2) }, { y(10), y(20) })
    rec:through({ x(1), x(2) }, { y(30), y(40) })
    edge_name(rec, 1, 'a', y(20))
    edge_name(rec, 1, 'b', y(40))
  end)
end)

describe('pareto', function()
  -- time and error: a front of three, one beaten beyond doubt, one within its interval, and one
  -- that was disturbed
  local LIST = { { 'c', 4000, 1 }, { 'beaten', 9000, 20 }, { 'a', 1000, 16 }, { 'b', 2000, 4 },
    { 'near', 2100, 4 }, { 'broken', 500, 0.5 } }

  local function list()
    local out = rows({ 'name', 'fwd', 'error' }, LIST)
    out[6].grade = 'D'
    return out
  end

  it('joins the front by steps and fades what is beaten beyond doubt', function()
    local figure = plot.draw('pareto', list(), { x = 'fwd', y = 'error', label = 'name' })
    local rec = recorder.of(figure)
    local x, y = rec:axis(1, 'x', 'log'), rec:axis(1, 'y', 'log')
    local t = rec.theme
    local front = rec:through({ x(1000), x(2000), x(2000), x(4000), x(4000) },
      { y(16), y(16), y(4), y(4), y(1) })
    assert.is_true(same(t.accent, front.color))
    for _, at in ipairs { { 1000, 16 }, { 2000, 4 }, { 4000, 1 } } do
      assert.is_true(same(t.accent, rec:mark(x(at[1]), y(at[2])).fill))
    end
    assert.is_true(same(color.alpha(t.muted, 0.45), rec:mark(x(9000), y(20)).fill))
    assert.is_true(same(t.muted, rec:mark(x(2100), y(4)).fill))
    assert.is_nil(rec:mark(x(500), y(0.5)).fill) -- disturbed: open, on no front, and beats nothing
    assert.equal('3 of 6 points are on the front; 1 is beaten in both beyond doubt.',
      figure.finding)
    -- intervals across
    for _, p in ipairs(LIST) do
      rec:one('line', function(s)
        return near(s.x1, x(p[2] * 0.8), 0.05) and near(s.x2, x(p[2] * 1.2), 0.05)
          and near(s.y1, y(p[3]), 0.05) and near(s.y2, y(p[3]), 0.05)
      end, 'the interval of ' .. p[1])
    end
    for _, name in ipairs { 'a', 'c' } do assert.equal(1, #rec:said(name), name) end
    assert.is_true(math.abs(rec:said 'a'[1].y - y(16)) < 30)
  end)

  it('has the front on the other side where more is better', function()
    local list_of = rows({ 'fwd', 'rate' }, { { 1000, 1 }, { 2000, 8 }, { 3000, 2 } })
    local rec = recorder.of(plot.draw('pareto', list_of, { x = 'fwd', y = 'rate',
      better_y = 'higher' }))
    local x, y = rec:axis(1, 'x', 'linear'), rec:axis(1, 'y', 'log')
    rec:through({ x(1), x(2), x(2) }, { y(1), y(1), y(8) }) -- in microseconds
  end)
end)

describe('the forest', function()
  local function list(more)
    return { with({ pair = 'slow', a = 'x', b = 'y', ratio = 1.5, ratio_lo = 1.4, ratio_hi = 1.7,
      verdict = 'slower', margin = 0.1, floor = 0.05, state = 'ok' }, more),
    with({ pair = 'fast', a = 'x', b = 'y', ratio = 0.5, ratio_lo = 0.4, ratio_hi = 0.6,
      verdict = 'faster', margin = 0.1, floor = 0.05, state = 'ok' }, more),
    with({ pair = 'none', a = 'x', b = 'y', ratio = 0.98, ratio_lo = 0.8, ratio_hi = 1.2,
      verdict = 'open', margin = 0.1, floor = 0.05, state = 'ok' }, more) }
  end

  it('has each ratio with its interval beside its name, the fastest on top', function()
    local rec = recorder.of(plot.draw('forest', list(), {}))
    local x, t, panel = rec:axis(1, 'x', 'log'), rec.theme, rec.panels[1]
    local last = panel.y
    for _, want in ipairs { { 'fast', 0.4, 0.5, 0.6, t.sketched, '0.500×  faster' },
        { 'none', 0.8, 0.98, 1.2, t.muted, '0.980×  open' },
        { 'slow', 1.4, 1.5, 1.7, t.lowrank, '1.500×  slower' },
        { 'the same against itself', 1 / 1.05, 1, 1.05, t.axis, '± 5.0 %' } } do
      local name = rec:one('text', function(s) return s.text == want[1] end, want[1])
      local y = name.y
      assert.is_true(y > last and y < panel.y + panel.h and name.x < panel.x)
      last = y
      assert.is_true(same(want[5], rec:mark(x(want[3]), y, 'square').fill))
      rec:one('line', function(s)
        return near(s.x1, x(want[2]), 0.05) and near(s.x2, x(want[4]), 0.05) and near(s.y1, y)
      end, 'the interval of ' .. want[1])
      for _, v in ipairs { want[2], want[4] } do rec:bar(x(v), y - 4, y + 4) end
      local said = rec:one('text', function(s) return s.text == want[6] end, want[6])
      assert.is_true(said.y == y and said.x > panel.x + panel.w)
    end
    local ground = rec:one('rect', function(s) return near(s.y, panel.y) and near(s.h, panel.h) end,
      'the band')
    assert.near(x(1 / 1.1), ground.x, 0.05)
    assert.near(x(1.1), ground.x + ground.w, 0.05)
    rec:one('line', function(s) return same(s.color, t.ink) and near(s.x1, x(1), 0.51) end, 'at 1')
  end)

  it('keeps a wide band inside', function()
    local rec = recorder.of(plot.draw('forest', list { margin = 9, floor = 0 }, {}))
    local panel = rec.panels[1]
    local ground = rec:one('rect', function(s) return near(s.y, panel.y) and near(s.h, panel.h) end,
      'the band')
    assert.near(panel.x, ground.x, 0.05)
    assert.near(panel.w, ground.w, 0.05)
    assert.equal(3, #rec:all('marker', function(s) return s.shape == 'square' end))
  end)

  it('leaves long names two fifths of the width and cuts them', function()
    local found, long = list(), ('a name of many words '):rep(30)
    found[1].pair = long
    local rec = recorder.of(plot.draw('forest', found, {}))
    local panel = rec.panels[1]
    assert.is_true(panel.w > panel.x) -- with the labels on the right
    local name = rec:one('text', function(s) return s.text:find '^a name of many' end, 'the name')
    assert.is_true(#name.text < #long)
  end)
end)

describe('effects', function()
  it('has median, middle half and range over each value, the larger effect first', function()
    local list = rows({ 'width', 'kind', 'fwd' }, { { 64, 'a', 100 }, { 64, 'b', 200 },
      { 64, 'a', 300 }, { 64, 'b', 400 }, { 64, 'a', 500 }, { 512, 'a', 1000 }, { 512, 'b', 2000 },
      { 512, 'a', 3000 }, { 512, 'b', 4000 }, { 512, 'a', 5000 } })
    local rec = recorder.of(plot.draw('effects', list, { y = 'fwd', params = 'kind,width' }))
    assert.equal(2, #rec.panels)
    assert.is_true(rec.panels[1].x < rec.panels[2].x)
    assert.is_true(rec:said 'width  10×'[1].x < rec:said 'kind  1.6×'[1].x)
    local y, t = rec:axis(1, 'y', 'log'), rec.theme
    local a, b = category(rec, 1, '64'), category(rec, 1, '512')
    assert.is_true(a < b)
    for _, want in ipairs { { a, 100, 200, 300, 400, 500 }, { b, 1000, 2000, 3000, 4000, 5000 } } do
      rec:bar(want[1], y(want[2]), y(want[6]))
      rec:one('rect', function(s)
        return near(s.x + s.w / 2, want[1]) and near(s.y, y(want[5]), 0.05)
          and near(s.y + s.h, y(want[3]), 0.05)
      end, 'the middle half')
      assert.is_true(same(t.sketched, rec:mark(want[1], y(want[4])).fill))
    end
    rec:through({ a, b }, { y(300), y(3000) })
    rec:through({ category(rec, 2, 'a'), category(rec, 2, 'b') }, { y(750), y(1200) })
  end)
end)

describe('threads', function()
  it('has speed-up and efficiency, the ideal, and the law through them', function()
    -- a quarter does not run in parallel: 1, 1.6, 16/7
    local list = rows({ 'threads', 'fwd' }, { { 4, 437500 }, { 1, 1e6 }, { 2, 625000 } })
    local rec = recorder.of(plot.draw('threads', list, { x = 'threads', y = 'fwd' }))
    local x, y = rec:axis(1, 'x', 'log'), rec:axis(1, 'y', 'log')
    local x2, e = rec:axis(2, 'x', 'log'), rec:axis(2, 'y', 'linear')
    assert.near(x(4), x2(4), 0.02)
    local t, blue = rec.theme, (color.category(1, 'light'))
    local ideal = rec:through({ x(1), x(2), x(4) }, { y(1), y(2), y(4) })
    assert.is_true(same(t.axis, ideal.color) and ideal.dash[1] == 6)
    assert.is_true(same(blue, rec:through({ x(1), x(2), x(4) }, { y(1), y(1.6), y(16 / 7) }).color))
    rec:through({ x2(1), x2(2), x2(4) }, { e(1), e(0.8), e(4 / 7) })
    -- from the interval of both: 0.8 / 1.2 and 1.2 / 0.8
    rec:bar(x(2), y(1.6 * 0.8 / 1.2), y(1.6 * 1.2 / 0.8))
    rec:bar(x2(2), e(0.8 * 0.8 / 1.2), e(0.8 * 1.2 / 0.8))
    local law = rec:one('polyline', function(s) return s.dash and s.dash[1] == 2 end, 'the law')
    for i = 1, #law.xs do
      local n = math.exp((law.xs[i] - x(1)) / (x(4) - x(1)) * math.log(4))
      assert.near(y(1 / (0.25 + 0.75 / n)), law.ys[i], 0.05)
    end
    assert.near(x(4), law.xs[#law.xs], 0.05)
    rec:one('line', function(s) return s.dash and near(s.y1, e(1), 0.05) end, 'the whole')
    edge_name(rec, 2, 'serial 25.0 %', e(4 / 7))
    edge_name(rec, 1, 'fwd  from 1\226\128\175ms', y(16 / 7))
  end)

  it('has the efficiency of a line over its own fewest threads', function()
    -- half as long with twice the threads, but the first of b has 2
    local list = rows({ 'threads', 'fwd', 'of' }, { { 1, 1e6, 'a' }, { 2, 5e5, 'a' },
      { 4, 2.5e5, 'a' }, { 2, 8e5, 'b' }, { 4, 4e5, 'b' } })
    local rec = recorder.of(plot.draw('threads', list, { y = 'fwd', by = 'of' }))
    local x2, e = rec:axis(2, 'x', 'log'), rec:axis(2, 'y', 'linear')
    for i, points in ipairs { { 1, 2, 4 }, { 2, 4 } } do
      local xs, ys = {}, {}
      for k, n in ipairs(points) do xs[k], ys[k] = x2(n), e(1) end
      assert.is_true(same((color.category(i, 'light')), rec:through(xs, ys).color))
    end
    -- all of it runs in parallel: the law of b is the ideal from 2 on
    local x, y = rec:axis(1, 'x', 'log'), rec:axis(1, 'y', 'log')
    local laws = rec:all('polyline', function(s) return s.dash and s.dash[1] == 2 end)
    assert.equal(2, #laws)
    assert.near(x(2), laws[2].xs[1], 0.05)
    assert.near(y(1), laws[2].ys[1], 0.05)
    assert.near(y(2), laws[2].ys[#laws[2].ys], 0.05)
  end)

  it('says the largest speed-up, wherever it is', function()
    local list = rows({ 'threads', 'fwd' }, { { 1, 1e6 }, { 2, 5e5 }, { 4, 8e5 }, { 8, 1e5, 'D' } })
    list[4].grade = 'D'
    assert.equal('At most 2.00 times faster, with 2 threads (fwd).',
      plot.draw('threads', list, { x = 'threads', y = 'fwd' }).finding)
  end)
end)

describe('history', function()
  it('has runs in their order, cut where the machine changed, with rings where it moved', function()
    local list, n = {}, 0
    for run, ns in ipairs { 1000, 1010, 2000, 500, 3000 } do
      n = n + 1
      list[n] = { state = 'ok', grade = run == 5 and 'D' or 'A', run = 'r' .. run, width = 64,
        fwd = ns, fwd_lo = ns * 0.9, fwd_hi = ns * 1.1, began = 1.7e15 + run * 8.64e10,
        commit = (run > 1 and 'b' or 'a'):rep(9), env = run > 3 and 'two' or 'one' }
    end
    list[1], list[4] = list[4], list[1] -- in no order
    local figure = plot.draw('history', list, { y = 'fwd', by = 'width' })
    local rec = recorder.of(figure)
    local y, t = rec:axis(1, 'y', 'linear'), rec.theme
    local x = {}
    for i, day in ipairs { '11-15 aaaaaaa', '11-16 bbbbbbb', '11-17 bbbbbbb', '11-18 bbbbbbb',
        '11-19 bbbbbbb' } do
      x[i] = category(rec, 1, day)
    end
    rec:through({ x[1], x[2], x[3] }, { y(1), y(1.01), y(2) }) -- microseconds
    rec:through({ x[4], x[5] }, { y(0.5), y(3) })
    rec:bar(x[3], y(1.8), y(2.2))
    local rings = rec:all('marker', function(s) return same(s.edge, t.warn) end)
    assert.equal(1, #rings)
    assert.is_true(near(rings[1].x, x[3]) and near(rings[1].y, y(2)))
    local function upright(ink)
      local found = rec:all('line', function(s) return s.x1 == s.x2 and same(s.color, ink)
        and near(s.y1, rec.panels[1].y) end)
      assert.equal(1, #found)
      return found[1].x1
    end
    assert.near((x[3] + x[4]) / 2, upright(t.warn), 0.6)
    assert.near((x[1] + x[2]) / 2, upright(t.rule), 0.6)
    edge_name(rec, 1, 'width 64', y(3))
    assert.equal('5 runs; 1 time a point moved by more than its interval.', figure.finding)
  end)
end)

describe('the roofline', function()
  -- operations, bytes, nanoseconds: 0.5 a byte and 10 GFLOP/s, 50 a byte and 400
  local function list(more)
    local out = rows({ 'impl', 'fwd_flops', 'fwd_bytes', 'fwd' }, { { 'naive', 1e6, 2e6, 1e5 },
      { 'own', 1e6, 2e4, 2500 }, more })
    for name, value in pairs { ['fma.f32'] = 5e11, ['bw.dram'] = 3e10, ['bw.l2'] = 2e11 } do
      out[#out + 1] = { roof = name, value = value, value_lo = value, value_hi = value,
        state = 'ceiling' }
    end
    return out
  end

  it('has points at their intensity and rate, under roofs where they were measured', function()
    local rec = recorder.of(plot.draw('roofline', list(), { y = 'fwd', by = 'impl' }))
    local x, y = rec:axis(1, 'x', 'log'), rec:axis(1, 'y', 'log')
    local panel = rec.panels[1]
    rec:mark(x(0.5), y(10), 'circle')
    rec:mark(x(50), y(400), 'diamond')
    rec:bar(x(50), y(400 / 1.2), y(400 / 0.8))
    assert.is_true(rec:mark(x(0.5), y(10)).r > rec:mark(x(50), y(400)).r) -- it takes longer
    local function roof(x1, y1, x2, y2)
      rec:one('polyline', function(s)
        return #s.xs == 2 and near(s.xs[1], x1, 0.6) and near(s.ys[1], y1, 0.6)
          and near(s.xs[2], x2, 0.6) and near(s.ys[2], y2, 0.6)
      end, 'a roof')
    end
    local right = panel.x + panel.w
    roof(x(2.5), y(500), right, y(500))
    -- the slanted ones end where they meet the flat one: 500 / 30 and 500 / 200
    for _, rate in ipairs { 30, 200 } do
      local line = rec:one('polyline', function(s)
        return #s.xs == 2 and near(s.xs[2], x(500 / rate), 0.05) and near(s.ys[2], y(500), 0.05)
      end, 'the roof of memory')
      assert.is_true(line.xs[1] >= panel.x - 0.05 and line.ys[1] <= panel.y + panel.h + 0.05)
      local from = math.exp(math.log(0.5) + (line.xs[1] - x(0.5)) / (x(50) - x(0.5))
        * math.log(100))
      assert.near(y(from * rate), line.ys[1], 0.05)
    end
    assert.equal(1, #rec:said 'FMA f32 500\226\128\175GFLOP/s')
    assert.equal(1, #rec:said 'DRAM 30\226\128\175GB/s')
    assert.is_true(edge_name(rec, 1, 'naive').y < edge_name(rec, 1, 'own').y)
    assert.equal(0, #rec:all('marker', function(s) return same(s.edge, rec.theme.warn) end))
  end)

  it('allows what lies under the roof of the fastest memory, by its interval', function()
    -- at 1 FLOP a byte: 200 GB/s are 200 GFLOP/s, the lower end is the rate divided by 1.2
    local function said(ns)
      return plot.draw('roofline', list { 'odd', 1e6, 1e6, ns }, { y = 'fwd' }).finding
    end
    assert.is_nil(said(1e6 / 200 / 1.2))
    assert.matches('^1 point lies above every roof', said(1e6 / 200 / 1.2 / 1.3))
  end)

  it('rings what no roof allows, and points arrows at the second one', function()
    local figure = plot.draw('roofline', list { 'odd', 1e9, 1e9, 1e4 }, { y = 'fwd',
      from = 'impl=naive', to = 'impl=own' })
    local rec = recorder.of(figure)
    local x, y = rec:axis(1, 'x', 'log'), rec:axis(1, 'y', 'log')
    local rings = rec:all('marker', function(s) return same(s.edge, rec.theme.warn) end)
    assert.equal(1, #rings)
    assert.is_true(near(rings[1].x, x(1), 0.05) and near(rings[1].y, y(1e5), 0.05))
    assert.matches('^1 point lies above every roof', figure.finding)
    local head = rec:one('polygon', function() return true end, 'the head of an arrow')
    assert.is_true(near(head.xs[1], x(50), 0.05) and near(head.ys[1], y(400), 0.05))
    rec:one('line', function(s)
      return near(s.x1, x(0.5), 0.05) and near(s.y1, y(10), 0.05) and near(s.x2, x(50), 0.05)
        and near(s.y2, y(400), 0.05)
    end, 'the arrow')
  end)
end)

describe('intervals that reach below zero', function()
  it('are drawn as far below the value as the upper end lies above it', function()
    local list = rows({ 'width', 'fwd' }, { { 64, 1000 }, { 128, 3000 }, { 256, 100000 } })
    list[2].fwd_lo, list[2].fwd_hi = -5, 4000
    local rec = recorder.of(plot.draw('slices', list, { x = 'width', y = 'fwd' }))
    local x, y = rec:axis(1, 'x', 'linear'), rec:axis(1, 'y', 'log')
    local low = 3000 * 3000 / 4000 -- by factors, as the axis is
    rec:bar(x(128), y(low), y(4000))
    local function caps(at)
      return rec:all('line', function(s)
        return s.y1 == s.y2 and near(s.x1, at - 3, 0.05) and near(s.x2, at + 3, 0.05)
      end)
    end
    -- the lower end is near the point; its cap is where the marker leaves room for it
    assert.is_true(#caps(x(128)) >= 1)
    assert.near(y(4000), caps(x(128))[1].y1, 0.05)
    for _, row in ipairs(list) do row.fwd_flops, row.fwd_bytes = 1e6 * row.width, 1e6 end
    rec = recorder.of(plot.draw('roofline', list, { y = 'fwd' }))
    x, y = rec:axis(1, 'x', 'log'), rec:axis(1, 'y', 'log')
    rec:bar(x(128), y(128e6 / 4000), y(128e6 / low))
  end)
end)

describe('panels in lines and columns', function()
  it('fill their box, with a gap only between them', function()
    local axes, series = require 'ridge.plot.axes', require 'ridge.plot.series'
    local t = require('ridge.plot.theme').get 'light'
    local c = require('ridge.plot.canvas').new { width = 600, height = 400 }
    for n = 1, 4, 3 do
      local specs = {}
      for i = 1, n do
        specs[i] = { x = series.axis({ { a = 1 }, { a = 2 } }, 'a'),
          y = series.axis({ { a = 1 }, { a = 2 } }, 'a') }
      end
      local panels = series.grid(c, t, { x = 10, y = 20, w = 500, h = 300 }, specs)
      local above, below = axes.margins(t, specs[n])
      assert.near(20 + above, panels[1].y, 1e-9)
      assert.near(320 - below, panels[n].y + panels[n].h, 1e-9)
    end
  end)
end)

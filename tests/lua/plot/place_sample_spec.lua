-- SPDX-License-Identifier: MIT
--- Where pictures of samples, of time and of training draw what; the 2x2 figure; maps in
--- terminals.

package.path = 'tests/lua/plot/?.lua;' .. package.path
local color = require 'ridge.plot.color'
local plot = require 'ridge.plot'
local recorder = require 'recorder'
local terminal = require 'ridge.plot.terminal'

local near, same = recorder.near, recorder.same

local function samples(list, more)
  local out = {}
  for i, ns in ipairs(list) do
    out[i] = { trial = 3, point = 'p', sample = i, ns = ns, grade = 'B', state = 'ok' }
    for name, value in pairs(more and more(i) or {}) do out[i][name] = value end
  end
  return out
end

describe('samples', function()
  local LIST = { 1000, 1400, 1200, 5000, 1100, 1300, 1500, 1250, 1050, 1350 }

  it('are dots in order, the disturbed ones in another colour, with their running median',
    function()
      local list = samples(LIST, function(i) return { disturbed = i == 4 } end)
      list[1], list[7] = list[7], list[1]
      local rec = recorder.of(plot.draw('samples', list, { y = 'fwd' }))
      local x, y, t = rec:axis(1, 'x', 'linear'), rec:axis(1, 'y', 'linear'), rec.theme
      for i, ns in ipairs(LIST) do
        local mark = rec:mark(x(i), y(ns / 1000))
        assert.is_true(same(color.alpha(i == 4 and t.warn or t.sketched, 0.75), mark.fill))
      end
      assert.equal(#LIST, #rec:all 'marker')
      -- of nine, at the ends of as many as there are
      local middle = { 1200, 1250, 1300, 1275, 1250, 1300, 1275, 1300, 1275, 1300 }
      local xs, ys = {}, {}
      for i, v in ipairs(middle) do xs[i], ys[i] = x(i), y(v / 1000) end
      rec:through(xs, ys)
    end)

  it('have the seconds below them where they are known, and no line across a pause', function()
    local list = samples(LIST, function(i) return { at = (i > 5 and 40 or 0) * 1e9 + i * 1e9 } end)
    local rec = recorder.of(plot.draw('samples', list, { y = 'fwd' }))
    local x, y = rec:axis(1, 'x', 'linear'), rec:axis(1, 'y', 'linear')
    rec:mark(x(1), y(1))
    rec:mark(x(46), y(1.3))
    local lines = rec:all 'polyline'
    assert.equal(2, #lines)
    assert.is_true(near(lines[1].xs[5], x(5)) and near(lines[2].xs[1], x(46)))
    assert.equal(1, #rec:said 'seconds')
  end)

  it('of several points have a panel each, below one another, with point and grade', function()
    local list = samples { 10, 20, 30 }
    for i, ns in ipairs { 400, 500, 600 } do
      list[#list + 1] = { trial = 4, point = 'q', sample = i, ns = ns, grade = 'D',
        flags = 'DRIFT' }
    end
    local rec = recorder.of(plot.draw('samples', list, { y = 'fwd' }))
    assert.equal(2, #rec.panels)
    assert.is_true(rec.panels[1].y + rec.panels[1].h < rec.panels[2].y)
    assert.is_true(rec:said 'p   grade B'[1].y < rec.panels[1].y)
    local said = rec:said 'q   grade D, DRIFT'[1].y
    assert.is_true(said > rec.panels[1].y + rec.panels[1].h and said < rec.panels[2].y)
    rec:mark(rec:axis(1, 'x', 'linear')(3), rec:axis(1, 'y', 'linear')(30))
    rec:mark(rec:axis(2, 'x', 'linear')(1), rec:axis(2, 'y', 'linear')(400))
  end)
end)

describe('the distribution', function()
  it('rises by its share at every sample', function()
    local rec = recorder.of(plot.draw('distribution', samples { 4000, 1000, 2000, 8000 },
      { y = 'fwd' }))
    local x, y = rec:axis(1, 'x', 'log'), rec:axis(1, 'y', 'linear')
    rec:through({ x(1000), x(1000), x(1000), x(2000), x(2000), x(4000), x(4000), x(8000), x(8000),
      x(8000) }, { y(0), y(0), y(0.25), y(0.25), y(0.5), y(0.5), y(0.75), y(0.75), y(1), y(1) })
    local panel = rec.panels[1]
    assert.near(panel.y, y(1), 0.05)
    for _, ns in ipairs { 1000, 2000, 4000, 8000 } do -- the rug
      rec:one('line', function(s)
        return s.x1 == s.x2 and near(s.x1, x(ns), 0.05) and s.y1 > panel.y + panel.h - 20
          and s.y2 <= panel.y + panel.h
      end, 'a sample in the rug')
    end
  end)

  it('has bars over their bins that hold every sample', function()
    local list = {}
    for i = 1, 64 do list[i] = 1000 * 2 ^ ((i - 1) % 16 / 4) end
    local rec = recorder.of(plot.draw('distribution', samples(list), { y = 'fwd',
      histogram = true }))
    local x, y = rec:axis(1, 'x', 'log'), rec:axis(1, 'y', 'linear')
    local panel, total, last = rec.panels[1], 0, x(1000)
    local bars = rec:all('rect', function(s) return near(s.y + s.h, panel.y + panel.h) end)
    for _, s in ipairs(bars) do
      assert.near(last, s.x, 0.05)
      local from = 1000 * math.exp((s.x - x(1000)) / (x(2000) - x(1000)) * math.log(2))
      local to = 1000 * math.exp((s.x + s.w + 0.6 - x(1000)) / (x(2000) - x(1000)) * math.log(2))
      local n = 0
      for _, ns in ipairs(list) do
        if ns >= from * 0.9999 and (ns < to * 0.9999 or s == bars[#bars]) then n = n + 1 end
      end
      assert.near(y(n / 64), s.y, 0.05)
      total, last = total + n, s.x + s.w + 0.6
    end
    assert.equal(64, total)
    assert.near(x(1000 * 2 ^ (15 / 4)), last, 0.05)
  end)

  it('names each point by its own sign', function()
    local list = samples { 1000, 2000 }
    for i, ns in ipairs { 3000, 4000 } do
      list[#list + 1] = { trial = 4, point = 'q', sample = i, ns = ns }
    end
    local rec = recorder.of(plot.draw('distribution', list, { y = 'fwd' }))
    for i, point in ipairs { 'p', 'q' } do
      local ink, shape = color.category(i, 'light')
      local name = rec:said(point)[1]
      assert.is_true(same(ink, rec:mark(name.x - 10, name.y, shape).fill))
      local x, y = rec:axis(1, 'x', 'log'), rec:axis(1, 'y', 'linear')
      local a, b = i == 1 and 1000 or 3000, i == 1 and 2000 or 4000
      assert.is_true(same(ink, rec:through({ x(a), x(a), x(a), x(b), x(b), x(b) }, { y(0), y(0),
        y(0.5), y(0.5), y(1), y(1) }).color))
    end
  end)
end)

describe('training', function()
  local function curve(point, seconds, losses)
    local out = {}
    for i, v in ipairs(losses) do
      out[i] = { point = point, step = i, seconds = seconds * i, loss = v, state = 'ok' }
    end
    return out
  end

  it('has each line through its means at their seconds, and its name at its end', function()
    local list = curve('slow', 10, { 4, 3, 2, 1 })
    for _, row in ipairs(curve('fast', 2, { 3, 2.5, 2, 2 })) do list[#list + 1] = row end
    local rec = recorder.of(plot.draw('training', list, { y = 'loss', by = 'point', smooth = 1 }))
    local x, y = rec:axis(1, 'x', 'linear'), rec:axis(1, 'y', 'linear')
    rec:through({ x(10), x(20), x(30), x(40) }, { y(4), y(3), y(2), y(1) })
    rec:through({ x(2), x(4), x(6), x(8) }, { y(3), y(2.5), y(2), y(2) })
    rec:mark(x(40), y(1))
    rec:mark(x(8), y(2))
    local names = { slow = y(1), fast = y(2) }
    for name, place in pairs(names) do
      local s = rec:said(name)[1]
      assert.is_true(s.x > rec.panels[1].x + rec.panels[1].w and near(s.y, place, 0.05), name)
    end
    -- in twos, each at the middle of its seconds
    rec = recorder.of(plot.draw('training', list, { y = 'loss', by = 'point', smooth = 2 }))
    x, y = rec:axis(1, 'x', 'linear'), rec:axis(1, 'y', 'linear')
    rec:through({ x(15), x(35) }, { y(3.5), y(1.5) })
  end)

  it('begins at no time trained, wherever its lines begin', function()
    local rec = recorder.of(plot.draw('training', curve('late', 40, { 4, 3, 2 }), { y = 'loss',
      by = 'point', smooth = 1 }))
    assert.is_true(near(rec:axis(1, 'x', 'linear')(0), rec.panels[1].x, 1))
  end)

  it('leaves out a line without a single number', function()
    local list = curve('good', 1, { 3, 2, 1 })
    for _, row in ipairs(curve('lost', 1, { 0 / 0, 0 / 0 })) do list[#list + 1] = row end
    local figure = plot.draw('training', list, { y = 'loss', by = 'point' })
    local rec = recorder.of(figure)
    assert.equal(0, #rec:said 'lost')
    assert.equal(1, #rec:said 'good')
    local ok, err = pcall(plot.draw, 'training', curve('lost', 1, { 0 / 0 }), { y = 'loss' })
    assert.is_false(ok)
    assert.matches('no curve has a number', err.message)
  end)
end)

describe('the timeline', function()
  it('has each call in its lane from its begin to its end', function()
    local list = { { name = 'copy', device = 'cuda:0', stream = 1, begin_s = 5, end_s = 5.004 },
      { name = 'linear', device = 'cuda:0', stream = 0, begin_s = 5.003, end_s = 5.009 },
      { name = 'relu', device = 'cuda:0', stream = 0, begin_s = 5.009, end_s = 5.010 } }
    local function check(opt, wanted)
      local rec = recorder.of(plot.draw('timeline', list, opt))
      local x, panel = rec:axis(1, 'x', 'linear'), rec.panels[1]
      local last = 0
      for i, lane in ipairs { 'cuda:0 stream 0', 'cuda:0 stream 1' } do
        local name = rec:said(lane)[1]
        assert.is_true(name.y > last and name.x < panel.x)
        last = name.y
        for _, want in ipairs(wanted[i]) do
          local bar = rec:one('rect', function(s)
            return near(s.y + s.h / 2, name.y) and near(s.x, x(want[1]), 0.05)
              and near(s.x + s.w, x(want[2]), 0.05)
          end, want[3])
          local word = rec:all('text', function(s)
            return s.text == want[3] and s.y == name.y
          end)[1]
          assert.is_true(near(word.x, bar.x + bar.w / 2))
          local key = rec:all('rect', function(s) return s.w == 12 and same(s.color, bar.color) end)
          assert.equal(1, #key)
          assert.is_true(rec:all('text', function(s)
            return near(s.x, key[1].x + 18) and s.text:find(want[3], 1, true) ~= nil
          end)[1] ~= nil)
        end
      end
      assert.equal(#wanted[1] + #wanted[2], #rec:all('rect', function(s) return s.h > 20 end))
    end
    check({}, { { { 3, 9, 'linear' }, { 9, 10, 'relu' } }, { { 0, 4, 'copy' } } })
    -- a part: what reaches out of it ends at its edges
    check({ from = 0.002, to = 0.006 }, { { { 3, 6, 'linear' } }, { { 2, 4, 'copy' } } })
  end)

  it('has colours for the seven names that ran longest, and one for all others', function()
    local list = {}
    for i = 1, 9 do -- the first lasts 9 ms, the last 1 ms
      list[i] = { name = 'call' .. i, device = 'cuda:0', stream = 0, begin_s = i, end_s = i
        + (10 - i) * 1e-3 }
    end
    local rec = recorder.of(plot.draw('timeline', list, {}))
    local keys = {}
    for _, key in ipairs(rec:all('rect', function(s) return s.w == 12 end)) do
      keys[#keys + 1] = key
    end
    assert.equal(8, #keys)
    for i, key in ipairs(keys) do
      for k = 1, i - 1 do assert.is_false(same(key.color, keys[k].color), i .. ' ' .. k) end
    end
    assert.is_true(same(keys[8].color, rec.theme.neutral))
    assert.equal(1, #rec:all('text', function(s) return s.text:find '2 others  3' end))
  end)
end)

describe('the batch size', function()
  it('has memory and rate over the batch, the best, the budget and what did not fit', function()
    local list = { { batch = 4, peak_bytes = 4096, samples_per_s = 400, samples_per_s_lo = 300,
      samples_per_s_hi = 500, state = 'ok', grade = 'D' },
      { batch = 1, peak_bytes = 1024, samples_per_s = 100, samples_per_s_lo = 90,
        samples_per_s_hi = 110, state = 'ok', grade = 'A', n = 20 },
      { batch = 16, state = 'oom' },
      { batch = 2, peak_bytes = 2048, samples_per_s = 900, samples_per_s_lo = 800,
        samples_per_s_hi = 1000, state = 'ok', grade = 'A', n = 20 } }
    local figure = plot.batch(list, { best = 2, budget = 8192 })
    local rec = recorder.of(figure)
    local x, rate = rec:axis(1, 'x', 'log'), rec:axis(1, 'y', 'log')
    local x2, bytes = rec:axis(2, 'x', 'log'), rec:axis(2, 'y', 'log')
    local t = rec.theme
    rec:through({ x(1), x(2), x(4) }, { rate(100), rate(900), rate(400) })
    rec:through({ x2(1), x2(2), x2(4) }, { bytes(1024), bytes(2048), bytes(4096) })
    rec:bar(x(2), rate(800), rate(1000))
    assert.is_nil(rec:mark(x(4), rate(400)).fill)
    assert.is_true(same(t.dense, rec:mark(x2(4), bytes(4096)).fill))
    assert.is_true(same(t.warn, rec:mark(x2(16), bytes(8192), 'diamond').edge))
    rec:one('line', function(s)
      return s.y1 == s.y2 and near(s.y1, bytes(8192), 0.05) and s.dash
    end, 'the budget')
    rec:one('line', function(s) return s.x1 == s.x2 and near(s.x1, x(2), 0.51) and s.dash end,
      'the best')
    assert.matches('n = 20 samples a point', figure:text())
    assert.matches('Open circles were disturbed', figure:text())
    rec = recorder.of(plot.batch(list, { best = 1 })) -- above, to the right of its line
    local label = rec:said 'best 1'[1]
    assert.near(rec:axis(1, 'x', 'log')(1) + 6, label.x, 0.05)
    assert.is_true(label.y < rec.panels[1].y + rec.panels[1].h / 4)
    assert.equal('a net  ·  a device', plot.batch(list, { model = 'a net',
      device = 'a device' }).subtitle)
    assert.equal('a net', plot.batch(list, { model = 'a net' }).subtitle)
  end)

  it('marks what ran and took more than it may, too', function()
    local list = { { batch = 1, peak_bytes = 1024, state = 'ok', fits = true },
      { batch = 2, peak_bytes = 2048, state = 'ok', fits = true },
      { batch = 4, peak_bytes = 4096, state = 'ok', fits = false } }
    local rec = recorder.of(plot.batch(list, { best = 2, budget = 3000 }))
    local x, bytes = rec:axis(1, 'x', 'log'), rec:axis(1, 'y', 'log')
    assert.is_true(same(rec.theme.warn, rec:mark(x(4), bytes(3000), 'diamond').edge))
    assert.is_false((pcall(rec.mark, rec, x(2), bytes(3000), 'diamond')))
  end)
end)

describe('what a machine can promise', function()
  it('has windows as dots of the first panel, each about its place', function()
    local list = { { kind = 'windows', at_s = 10, ratio = 1 },
      { kind = 'windows', at_s = 30, ratio = 2 }, { kind = 'linear', at_s = 20, ratio = 1.5 } }
    local rec = recorder.of(plot.draw('trust', list, {}))
    local x, y = rec:axis(1, 'x', 'linear'), rec:axis(1, 'y', 'log')
    for i = 1, 2 do
      rec:one('rect', function(s)
        return s.w < 2 and s.h == s.w and near(s.x + s.w / 2, x(list[i].at_s), 0.05)
          and near(s.y + s.h / 2, y(list[i].ratio), 0.05)
      end, 'a window')
    end
  end)
end)

describe('the 2x2 figure', function()
  local function list()
    local out = { { layer = 'dense', fwd = 1000, fwd_lo = 900, fwd_hi = 1100, param_count = 600,
      peak_memory_mb = 4 } }
    for _, p in ipairs { { 2, 16, 200, 10, 1 }, { 4, 16, 500, 20, 2 }, { 2, 64, 800, 40, 4 },
        { 4, 64, 3000, 80, 8 } } do
      out[#out + 1] = { layer = 'sketched', num_terms = p[1], low_rank = p[2], fwd = p[3],
        fwd_lo = p[3] * 0.8, fwd_hi = p[3] * 1.2, param_count = p[4], peak_memory_mb = p[5] }
    end
    out[#out + 1] = { layer = 'lowrank', num_terms = 2, low_rank = 16, fwd = 150, fwd_lo = 120,
      fwd_hi = 180, param_count = 25, peak_memory_mb = 3 }
    for _, row in ipairs(out) do
      row.state, row.grade, row.dtype, row.fwd_n = 'ok', 'A', 'f32', 40
      row.batch, row.in_features, row.out_features = 8, 64, 64
    end
    out[3].grade = 'D'
    return out
  end

  it('has every layer at its parameters, time and memory, and the lines over T and R', function()
    local figure = plot.landscape(list(), {})
    local rec = recorder.of(figure)
    local p = rec.panels
    assert.is_true(p[1].x < p[2].x and p[3].y > p[1].y + p[1].h and p[4].x > p[3].x + p[3].w)
    -- two fill a row: on the right there is as much room as on the left without the labels
    assert.is_true(p[2].x + p[2].w > 0.9 * rec.width and p[1].x < 0.15 * rec.width)
    local rule = rec:one('line', function(s)
      return near(s.x1, 34) and near(s.x2, rec.width - 34) and same(s.color, rec.theme.rule)
    end, 'the rule over the caption')
    assert.is_true(p[3].y + p[3].h < rule.y1 and p[4].y + p[4].h < rule.y1)
    local x, y = rec:axis(1, 'x', 'log'), rec:axis(1, 'y', 'log')
    local x2, mb = rec:axis(2, 'x', 'log'), rec:axis(2, 'y', 'log')
    local terms, time = rec:axis(3, 'x', 'linear'), rec:axis(3, 'y', 'log')
    local ranks, time4 = rec:axis(4, 'x', 'linear'), rec:axis(4, 'y', 'log')
    assert.near(y(500) - p[1].y, time(500) - p[3].y, 12) -- one scale of time
    local t, inks = rec.theme, color.ordered(2, 'light')
    for _, want in ipairs { { 2, 16, 200, 10, 1 }, { 4, 16, 500, 20, 2, 'D' },
        { 2, 64, 800, 40, 4 }, { 4, 64, 3000, 80, 8 } } do
      local ink = inks[want[2] == 16 and 1 or 2]
      local mark = rec:mark(x(want[4]), y(want[3]), 'circle')
      assert.is_true(same(ink, want[6] and mark.edge or mark.fill))
      assert.equal(want[6] ~= nil, mark.fill == nil)
      rec:mark(x2(want[4]), mb(want[5] * 2 ^ 20), 'circle')
      rec:mark(terms(want[1]), time(want[3]), 'circle')
      rec:mark(ranks(want[2]), time4(want[3]), 'circle')
      rec:bar(x(want[4]), y(want[3] * 0.8), y(want[3] * 1.2))
    end
    assert.is_true(same(t.lowrank, rec:mark(x(25), y(150), 'diamond').edge))
    rec:mark(x2(25), mb(3 * 2 ^ 20), 'diamond')
    assert.is_true(same(inks[1], rec:through({ terms(2), terms(4) }, { time(200),
      time(500) }).color))
    assert.is_true(same(inks[2], rec:through({ terms(2), terms(4) }, { time(800),
      time(3000) }).color))
    rec:through({ ranks(16), ranks(64) }, { time4(200), time4(800) })
    rec:through({ ranks(16), ranks(64) }, { time4(500), time4(3000) })
    for _, name in ipairs { 'R 16', 'R 64' } do
      local said = rec:said(name)[1]
      assert.is_true(said.x > p[3].x + p[3].w and said.x < p[4].x, name)
      assert.near(name == 'R 16' and time(500) or time(3000), said.y, 0.05)
    end
    -- dense runs across all panels, with its interval as a band
    for i, at in ipairs { { y, 1000, 900, 1100 }, { mb, 4 * 2 ^ 20 }, { time, 1000, 900, 1100 },
        { time4, 1000, 900, 1100 } } do
      rec:one('line', function(s)
        return s.dash and near(s.x1, p[i].x) and near(s.x2, p[i].x + p[i].w)
          and near(s.y1, at[1](at[2]), 0.05) and near(s.y2, s.y1)
      end, 'dense')
      if at[3] then
        rec:one('rect', function(s)
          return near(s.x, p[i].x) and near(s.w, p[i].w) and near(s.y, at[1](at[4]), 0.05)
            and near(s.y + s.h, at[1](at[3]), 0.05)
        end, 'its band')
      end
    end
    assert.matches('n = 40 samples a point', figure:text())
    assert.matches('Open circles were disturbed', figure:text())
  end)

  it('has a line for the dense layer of each batch', function()
    local both = list()
    for _, row in ipairs(list()) do
      row.batch, row.fwd, row.fwd_lo, row.fwd_hi = 64, row.fwd * 4, row.fwd_lo * 4, row.fwd_hi * 4
      both[#both + 1] = row
    end
    local rec = recorder.of(plot.landscape(both, {}))
    local y = rec:axis(1, 'y', 'log')
    for batch, ns in pairs { [8] = 1000, [64] = 4000 } do
      rec:one('line', function(s)
        return s.dash and near(s.x1, rec.panels[1].x) and near(s.y1, y(ns), 0.05)
      end, 'dense')
      assert.is_true(#rec:all('text', function(s)
        return s.text:find('dense batch ' .. batch .. ' ', 1, true)
          and near(s.y, y(ns), 26) and s.x < rec.panels[2].x
      end) > 0, batch)
      -- nothing is in the way at the right end, above the line
      rec:one('text', function(s)
        return s.text:find('dense batch ' .. batch .. ' ', 1, true) and near(s.y, y(ns) - 10, 0.05)
          and s.x > rec.panels[1].x + rec.panels[1].w / 2
      end, 'its name')
    end
  end)
end)

describe('a map in a terminal', function()
  local function rows()
    local out = {}
    for _, p in ipairs { { 64, 1, 100 }, { 128, 1, 1000 }, { 256, 1, 10000 }, { 64, 8, 200 },
        { 128, 8, 3000 } } do
      out[#out + 1] = { width = p[1], batch = p[2], fwd = p[3], fwd_lo = p[3], fwd_hi = p[3],
        state = 'ok', grade = 'A' }
    end
    out[6] = { width = 256, batch = 8, state = 'oom' }
    return out
  end
  local function map() return plot.map(rows(), { x = 'width', y = 'batch', z = 'fwd' }) end

  it('has each character in its row and column', function()
    -- of a hundred times: shares 1, 0.5, 0 below; 0.849, 0.261 above, in tenths of ' .:-=+*#%@'
    local lines = terminal.lines(map(), { depth = 'none' })
    assert.equal('batch upwards, width across', lines[1]:match '  (.*)$')
    assert.equal('8 %%::MM', lines[2])
    assert.equal('1 @@++  ', lines[3])
    assert.equal('  64  256', lines[4])
    assert.equal("' ' is worst, '@' best, of 100\226\128\175ns to 10\226\128\175µs", lines[5])
    local list = rows()
    for _, row in ipairs(list) do row.fwd, row.work = nil, row.fwd and row.fwd * 1e4 end
    lines = terminal.lines(plot.map(list, { x = 'width', y = 'batch', z = 'work' }), {})
    assert.truthy(lines[5]:find('of 1×10^6 to 1×10^8', 1, true), lines[5])
  end)

  -- The pixels of a line of half blocks: upper and lower colour, and the character.
  local function pixels(line)
    local out, at, fg, bg = {}, 1, nil, nil
    while at <= #line do
      local codes, after = line:match('^\27%[([%d;]*)m()', at)
      if codes then
        fg, bg = codes:match '^3(8;2;%d+;%d+;%d+);4(.*)$'
        at = after
      else
        local char
        char, at = line:match('^([%z\1-\127\194-\244][\128-\191]*)()', at)
        out[#out + 1] = { char = char, fg = fg, bg = bg }
      end
    end
    return out
  end

  it('has each cell in its colour, row and column, and the best and the missing marked', function()
    local lines = terminal.lines(map(), { depth = 'true', columns = 80, lines = 8 })
    -- 8 by 8 pixels a cell: four lines of eight characters
    local function code(share)
      local c = color.magnitude(share, 'dark')
      return ('8;2;%d;%d;%d'):format(c[1] * 255 + 0.5, c[2] * 255 + 0.5, c[3] * 255 + 0.5)
    end
    local blank = require('ridge.plot.theme').get('dark').blank
    local none = ('8;2;%d;%d;%d'):format(blank[1] * 255 + 0.5, blank[2] * 255 + 0.5,
      blank[3] * 255 + 0.5)
    local WANTED = { { code(1 - math.log(2) / math.log(100)),
      code(1 - math.log(30) / math.log(100)), none }, { code(1), code(0.5), code(0) } }
    local over = {}
    for line = 1, 8 do
      local row = pixels(lines[1 + line])
      assert.equal(2 + 24, #row)
      for column = 1, 24 do
        local want, got = WANTED[line > 4 and 2 or 1][math.ceil(column / 8)], row[2 + column]
        if got.char == '▀' then
          assert.equal(want, got.fg, line .. ':' .. column)
          assert.equal(want, got.bg)
        else
          assert.equal(want, got.bg)
          over[#over + 1] = got.char .. ' ' .. (line > 4 and 2 or 1) .. ' ' .. math.ceil(column / 8)
        end
      end
      local name = row[1].char
      assert.equal((line == 2 or line == 6) and (line == 2 and '8' or '1') or ' ', name)
    end
    assert.same({ 'M 1 3', '◆ 2 1' }, over)
    local below = lines[10]
    for i, name in ipairs { '64', '128', '256' } do
      local at = below:find(name, 1, true) - 2
      assert.is_true(at > (i - 1) * 8 and at + #name - 1 <= i * 8, name)
    end
    -- the bar below runs from the least to the most in the same colours
    local words = lines[11]
    local from, to = words:find '100\226\128\175ns .*10\226\128\175µs'
    assert.is_true(from == 1 and to ~= nil)
    local strip = {}
    for _, p in ipairs(pixels(words)) do if p.char == '▀' then strip[#strip + 1] = p end end
    assert.equal(24, #strip)
    assert.equal(code(1 - 0.5 / 24), strip[1].fg)
    assert.equal(code(0.5 / 24), strip[24].fg)
  end)

  it('of a ratio is grey where nothing is claimed', function()
    local list = rows()
    for _, row in ipairs(rows()) do
      row.kind = 'b'
      row.fwd = row.fwd and row.fwd * (row.width == 64 and 1 or 0.5)
      row.fwd_lo, row.fwd_hi = row.fwd, row.fwd
      list[#list + 1] = row
    end
    for i = 1, 6 do list[i].kind = 'a' end
    local figure = plot.draw('ratio', list, { x = 'width', y = 'batch', z = 'fwd', a = 'kind=a',
      b = 'kind=b' })
    local neutral = require('ridge.plot.theme').get('dark').neutral
    local grey = ('8;2;%d;%d;%d'):format(neutral[1] * 255 + 0.5, neutral[2] * 255 + 0.5,
      neutral[3] * 255 + 0.5)
    local row = pixels(terminal.lines(figure, { depth = 'true', columns = 80, lines = 8 })[9])
    assert.equal(grey, row[3].bg)
    assert.is_true(row[12].bg ~= grey)
  end)
end)

describe('the headline of a panel', function()
  it('ends on the page, whatever a point is called and however many flags it has', function()
    local axes, canvas = require 'ridge.plot.axes', require 'ridge.plot.canvas'
    local c = canvas.new { width = 300, height = 100, scale = 1, background = { 1, 1, 1, 1 } }
    local style = { size = 14, bold = true }
    local long = ('batch = 256, '):rep(20) .. 'width = 2   grade D, DRIFT'
    local text = axes.fitting(c, long, 280, style)
    assert.is_true(c:measure(text, 14, style) <= 280, text)
    assert.matches('^batch = 256.* %.%.%.$', text)
    assert.equal('short   grade A', axes.fitting(c, 'short   grade A', 280, style))
    c:close()
  end)
end)

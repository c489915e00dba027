-- SPDX-License-Identifier: MIT
--- What rows of a sweep say, beside the same rules written out plainly, over random rows: drift,
--- fronts, exponents, pairs by pass, passes as one result, and which points have another pass.

local analysis = require 'ridge.sweep.analysis'
local drift = require 'ridge.sweep.drift'
local extra = require 'ridge.sweep.extra'
local flags = require 'ridge.measure.flags'
local pairing = require 'ridge.sweep.pairing'
local passes = require 'ridge.measure.passes'
local results = require 'ridge.store.results'
local series = require 'ridge.sweep.series'
local statistics = require 'ridge.measure.statistics'

local from_one = dofile 'tests/lua/seeded.lua'
local quantile = dofile('tests/lua/measure/ranks.lua').quantile

-- Whole numbers from 0 to n - 1.
local function seeded(seed)
  local draw = from_one(seed)
  return function(n) return draw(n) - 1 end
end

local function median(list) return quantile(list, 0.5) end

local function close(want, got, what)
  if want == nil or got == nil then return assert.is_true(want == got, what) end
  assert.is_true(math.abs(want - got) <= 1e-9 * math.max(1, math.abs(want)),
    ('%s: want %.15g, got %.15g'):format(what, want, got))
end

-- -- Drift ---------------------------------------------------------------------------------------

-- Times at which passes were taken and what they took, as text; a pass may be missing.
local function passes_text(draw, n)
  local meds, times, at = {}, {}, 0
  for i = 1, n do
    at = at + 1 + draw(40)
    local there = draw(5) > 0
    meds[i], times[i] = there and tostring(100 + draw(30)) or '-', there and tostring(at) or '-'
  end
  return table.concat(meds, ' '), table.concat(times, ' ')
end

local function random_row(draw, k)
  local row = { k = k, began = draw(9) > 0 and draw(200) or nil, grade = ({ 'A', 'B', 'D' })[1
    + draw(3)] }
  if draw(12) > 0 then
    row.fwd = 100 + draw(30)
    if draw(5) > 0 then row.fwd_lo, row.fwd_hi = row.fwd - draw(8), row.fwd + draw(8) end
  end
  local kind = draw(4)
  if kind > 0 then
    row.fwd_by_pass, row.pass_began = passes_text(draw, kind == 1 and 1 or 2 + draw(4))
    row.fwd_within = draw(2) == 0 and draw(20) / 1000 or nil
  end
  return row
end

local function words_of(text)
  local list = {}
  for word in (text or ''):gmatch '%S+' do list[#list + 1] = tonumber(word) or false end
  return list
end

-- The anchor's measurements by time: { at, ns, lo, hi }.
local function anchors_of(rows)
  local list = {}
  for i, row in ipairs(rows) do
    local meds, times = words_of(row.fwd_by_pass), words_of(row.pass_began)
    if #meds >= 2 and #times >= #meds then
      local factor = math.exp(2 * (row.fwd_within or 0))
      for k, ns in ipairs(meds) do
        if ns and times[k] then
          list[#list + 1] = { at = times[k], ns = ns, lo = ns / factor, hi = ns * factor,
            place = #list }
        end
      end
    elseif row.fwd and row.began then
      list[#list + 1] = { at = row.began, ns = row.fwd, lo = row.fwd_lo or row.fwd,
        hi = row.fwd_hi or row.fwd, place = #list + i / 100 }
    end
  end
  table.sort(list, function(a, b) return a.at < b.at end)
  return list
end

-- What the anchor took at a time: on the line between its neighbours.
local function anchor_at(list, at)
  if at <= list[1].at then return list[1].ns end
  if at >= list[#list].at then return list[#list].ns end
  for i = 1, #list - 1 do
    local a, b = list[i], list[i + 1]
    if a.at <= at and at <= b.at then
      return a.ns + (b.ns - a.ns) * (at - a.at) / (b.at - a.at)
    end
  end
end

local function distinct_times(list)
  local seen = {}
  for _, each in ipairs(list) do
    if seen[each.at] then return false end
    seen[each.at] = true
  end
  return true
end

describe('the drift of a sweep', function()
  it('is that of the anchor, pass by pass, on a line between them', function()
    local compared = 0
    for seed = 1, 900 do
      local draw = seeded(seed)
      local points, anchors = {}, {}
      for i = 1, 1 + draw(6) do points[i] = random_row(draw, i) end
      for i = 1, 1 + draw(4) do anchors[i] = random_row(draw, i) end
      local list = anchors_of(anchors)
      local found = drift.of(points, anchors, 'fwd')
      if #list < 2 then
        assert.is_nil(found)
      elseif distinct_times(list) then
        compared = compared + 1
        local ns, lo, hi = {}, {}, {}
        for i, each in ipairs(list) do ns[i], lo[i], hi[i] = each.ns, each.lo, each.hi end
        local usual = median(ns)
        close(quantile(ns, 1) / quantile(ns, 0), found.ratio, 'ratio')
        assert.same({ 'fwd', #list, quantile(lo, 1) > quantile(hi, 0) }, { found.phase, found.n,
          found.apart })
        local n, moved, best, best_steady = 0, 0, nil, nil
        local by_key = {}
        for _, row in ipairs(found.rows) do by_key[row.k] = row end
        for _, row in ipairs(points) do
          if row.fwd and row.began then
            n = n + 1
            local times = {}
            for _, at in ipairs(words_of(row.pass_began)) do
              if at then times[#times + 1] = anchor_at(list, at) / usual end
            end
            local factor = #times >= 2 and median(times) or anchor_at(list, row.began) / usual
            local steady, got = row.fwd / factor, by_key[row.k]
            close(factor, got.fwd_drift, 'factor of seed ' .. seed)
            close(steady, got.fwd_steady, 'steady of seed ' .. seed)
            assert.equal(row.fwd, got.fwd)
            if row.fwd_lo and not (row.fwd_lo <= steady and steady <= row.fwd_hi) then
              moved = moved + 1
            end
            if row.grade ~= 'D' then
              best = math.min(best or math.huge, row.fwd)
              best_steady = math.min(best_steady or math.huge, steady)
            end
          end
        end
        assert.same({ n, moved, n }, { found.points, found.moved, #found.rows })
        for i = 2, n do assert.is_true(found.rows[i - 1].began <= found.rows[i].began) end
        if best then
          local stays, ties = false, 0 -- of several that are as fast any may be the one
          for _, row in ipairs(found.rows) do
            local now = row.grade ~= 'D' and row.fwd == best
            local steady = row.grade ~= 'D' and math.abs(row.fwd_steady / best_steady - 1) < 1e-12
            ties = ties + (now and 1 or 0) + (steady and 1 or 0)
            stays = stays or now and steady
          end
          if ties == 2 then assert.equal(stays, found.best_stays, 'seed ' .. seed) end
        else
          assert.is_nil(found.best_stays)
        end
      end
    end
    assert.is_true(compared > 300, compared)
  end)
end)

-- -- Fronts --------------------------------------------------------------------------------------

describe('a front', function()
  -- Is p at least as good as q in all measures, beyond doubt or exactly equal, and better in one?
  local function beats(p, q, measures)
    local better = false
    for _, m in ipairs(measures) do
      local a, b = p[m.name], q[m.name]
      if m.more then a, b = { -a[2], -a[1] }, { -b[2], -b[1] } end
      local exact = a[1] == a[2] and b[1] == b[2] and a[1] == b[1]
      if not (a[2] <= b[1] or exact) then return false end
      better = better or a[2] < b[1]
    end
    return better
  end

  it('is what none beats beyond doubt', function()
    local measures = { { name = 't' }, { name = 'mem_gb' }, { name = 'acc', more = true } }
    for seed = 1, 300 do
      local draw = seeded(seed)
      local rows, points = {}, {}
      for i = 1, 2 + draw(7) do
        local row, point = { n = i, grade = ({ 'A', 'C', 'D' })[1 + draw(3)] }, { n = i }
        for _, m in ipairs(measures) do
          local v = 10 + draw(6)
          row[m.name], point[m.name] = v, { v, v }
          if draw(2) == 0 then
            local lo, hi = v - draw(3), v + draw(3)
            row[m.name .. '_lo'], row[m.name .. '_hi'] = lo, hi
            point[m.name] = { lo, hi }
          end
        end
        if draw(9) == 0 then row.acc, point = ({ 0 / 0, 'many' })[1 + draw(2)], nil end
        if row.grade == 'D' then point = nil end
        rows[i] = row
        points[#points + 1] = point
      end
      local want, got = {}, {}
      for _, q in ipairs(points) do
        local beaten = false
        for _, p in ipairs(points) do beaten = beaten or p ~= q and beats(p, q, measures) end
        if not beaten then want[#want + 1] = q.n end
      end
      for _, row in ipairs(analysis.pareto(rows, { min = { 't', 'mem.gb' }, max = 'acc' })) do
        got[#got + 1] = row.n
      end
      assert.same(want, got, 'seed ' .. seed)
    end
  end)
end)

-- -- Exponents -----------------------------------------------------------------------------------

-- The slope of a line through points by the mean of products, its error, and what it leaves.
local function line(points)
  local n, mx, my, xx, xy = #points, 0, 0, 0, 0
  for _, p in ipairs(points) do mx, my = mx + math.log(p.x) / n, my + math.log(p.y) / n end
  for _, p in ipairs(points) do
    local dx = math.log(p.x) - mx
    xx, xy = xx + dx * dx, xy + dx * (math.log(p.y) - my)
  end
  local slope, rest = xy / xx, 0
  for _, p in ipairs(points) do
    rest = rest + (math.log(p.y) - my - slope * (math.log(p.x) - mx)) ^ 2
  end
  return slope, math.sqrt(math.max(rest, 1e-12) / (n - 2) / xx), rest
end

describe('an exponent', function()
  it('is the slope of least squares, with two errors; two lines where they are worth it', function()
    local broken = 0
    for seed = 1, 300 do
      local draw = seeded(seed)
      local n, points, rows = 3 + draw(8), {}, {}
      local turn, after = 2 + draw(6), draw(2) == 0 and 1 + draw(20) / 10 or 1
      for i = 1, n do
        local x = 16 * 2 ^ i
        local y = 5 * x * (1 + draw(20) / 1000)
        if i > turn then y = y * (2 ^ (i - turn)) ^ (after - 1) end
        points[i] = { x = x, y = y, bytes = 1000 * 2 ^ i }
        rows[i] = { x = x, fwd = y, fwd_bytes = points[i].bytes }
      end
      for i = n, 2, -1 do -- in any order
        local k = 1 + draw(i)
        rows[i], rows[k] = rows[k], rows[i]
      end
      rows[#rows + 1] = { x = 3, fwd = 1e9, grade = 'D' }
      local opt = { l1d = 1000, l2 = 1000 * 2 ^ 5 + draw(2), l3 = 1000 * 2 ^ 7 }
      local found = analysis.exponent(rows, 'fwd', 'x', opt)[1]
      local slope, err, rest = line(points)
      close(slope, found.exponent, 'slope')
      close(2 * err, found.err, 'error')
      assert.same({ points[1].x, points[n].x, n }, { found.from, found.to, found.n })
      local best
      for cut = 3, n - 3 do
        local a, b = {}, {}
        for i, p in ipairs(points) do table.insert(i <= cut and a or b, p) end
        local sa, ea, ra = line(a)
        local sb, eb, rb = line(b)
        if not best or ra + rb < best.rest - 1e-9 then
          best = { rest = ra + rb, cut = cut, a = sa, b = sb, ea = ea, eb = eb }
        end
      end
      if best and best.rest <= rest / 4
        and math.abs(best.a - best.b) >= 3 * (best.ea + best.eb) + 0.05 then
        broken = broken + 1
        close(math.sqrt(points[best.cut].x * points[best.cut + 1].x), found.at, 'seed ' .. seed)
        close(best.a, found.before, 'before')
        close(best.b, found.after, 'after')
        close(2 * best.ea, found.before_err, 'before')
        close(2 * best.eb, found.after_err, 'after')
        local below, above, cause = points[best.cut].bytes, points[best.cut + 1].bytes, nil
        for _, level in ipairs { { opt.l3, 'LLC' }, { opt.l2, 'L2' }, { opt.l1d, 'L1' } } do
          if below <= level[1] and above > level[1] then cause = level[2] end
        end
        assert.equal(cause, found.cause)
      else
        assert.is_nil(found.at, 'seed ' .. seed)
      end
    end
    assert.is_true(broken > 20, broken)
  end)

  it('is one for each value of a column, in its order', function()
    local rows = {}
    for _, by in ipairs { 10, 9, 'b', '5x', true, false } do
      for i = 1, 3 do
        rows[#rows + 1] = { g = by, x = 2 ^ i, fwd = 2 ^ i, fwd_lo = 1, fwd_hi = 9 }
      end
    end
    rows[#rows + 1] = { g = 7, x = 4, fwd = 4 } -- fewer than three
    rows[#rows + 1] = { g = 7, x = 4, fwd = 5 }
    rows[#rows + 1] = { g = 10, x = -4, fwd = 5 }
    rows[#rows + 1] = { g = 10, x = 4, fwd = 0 }
    local order = {}
    for i, found in ipairs(analysis.exponent(rows, 'fwd', 'x', { by = 'g' })) do
      order[i] = tostring(found.by)
      assert.equal(3, found.n)
    end
    assert.same({ '9', '10', '5x', 'b', 'false', 'true' }, order)
  end)
end)

-- -- Pairs ---------------------------------------------------------------------------------------

describe('two rows', function()
  it('are compared by the passes that both have', function()
    local a = { trial = 1, fwd_by_pass = '10 - 20 30 40 50 60' }
    local b = { trial = 2, fwd_by_pass = '20 5 44 - 80 110 126' }
    local want = passes.interval { 2, 2.2, 2, 2.2, 2.1 }
    for _, name in ipairs { 'med', 'lo', 'hi' } do
      close(want[name], pairing.ratio(a, b, 'fwd')[name], name)
    end
    assert.is_nil(pairing.ratio(a, { fwd = 3 }, 'fwd'))
    assert.is_nil(pairing.ratio({ fwd = 3 }, b, 'fwd'))
    assert.is_nil(pairing.ratio({ fwd_by_pass = '- 1' }, { fwd_by_pass = '1 -' }, 'fwd'))
    pairing.join(b, a, 'fwd')
    assert.equal(1, b.partner)
    for from, to in pairs { med = 'fwd_ratio', lo = 'fwd_ratio_lo', hi = 'fwd_ratio_hi' } do
      close(want[from], b[to], to)
    end
    b.fwd_ratio = 7 -- what it was timed beside stays
    pairing.join(b, a, 'fwd')
    assert.equal(7, b.fwd_ratio)
    pairing.join(b, { trial = 3, fwd_by_pass = '20 5 44 - 80 110 126' }, 'fwd')
    assert.same({ 3, 1 }, { b.partner, b.fwd_ratio })
    pairing.join(b, { trial = 4 }, 'fwd') -- of which nothing is known
    assert.same({ 3, 1 }, { b.partner, b.fwd_ratio })
    local c = { trial = 5, partner = 1, fwd_by_pass = '10 20' } -- its partner, and no ratio yet
    pairing.join(c, a, 'fwd')
    assert.equal(1, c.fwd_ratio)
  end)
end)

-- -- Passes as one result ------------------------------------------------------------------------

describe('a pass joined to those before', function()
  local function random_pass(draw, number, with_ratio)
    local dur = {}
    for i = 1, draw(4) do dur[i] = 100 + draw(20) end
    local own = { med = #dur > 0 and median(dur) or 105, dur = dur,
      ratio = with_ratio and draw(4) > 0 and 1 + draw(9) / 10 or nil,
      flags = ({ '', 'WIDE', 'FOREIGN WIDE', 'ZEROS' })[1 + draw(4)] }
    return { pass = number, worker_id = draw(3), own = own, timings = draw(8) > 0
      and { ['fwd warm'] = own, ['bwd warm'] = { med = 1, dur = {}, flags = 'LUA' } } or {} }
  end

  it('is what all of them come to', function()
    for seed = 1, 300 do
      local draw = seeded(seed)
      local earlier, with_ratio = {}, draw(2) == 0
      for i = 1, draw(9) do earlier[i] = random_pass(draw, i, with_ratio) end
      local last = random_pass(draw, #earlier + 1, with_ratio)
      local precision, process = draw(20) / 100, draw(3)
      local list = {}
      for _, pass in ipairs(earlier) do
        if pass.timings['fwd warm'] then list[#list + 1] = pass end
      end
      list[#list + 1] = last
      last.worker_id = process
      local meds, windows, lists, all, ratios, workers, n_workers = {}, {}, {}, {}, {}, {}, 0
      for i, pass in ipairs(list) do
        meds[i], windows[i], lists[i] = pass.own.med, pass.own.dur, {}
        if pass == last and #windows[i] == 0 then windows[i] = { 105 } end
        for word in pass.own.flags:gmatch '%S+' do table.insert(lists[i], word) end
        for _, ns in ipairs(windows[i]) do all[#all + 1] = ns end
        ratios[#ratios + 1] = pass.own.ratio
        if not workers[pass.worker_id] then
          workers[pass.worker_id], n_workers = true, n_workers + 1
        end
      end
      local r = { med = last.own.med, samples = last.own.dur, ratio = last.own.ratio,
        flags = lists[#lists], cache = draw(2) == 0 and 'warm' or nil }
      local got = series.join(r, 'fwd', earlier, process, { precision = precision })
      assert.equal(r, got)
      local want = passes.interval(meds, { windows = windows })
      local quiet = passes.quiet(windows) or {}
      local sum = statistics.summary(all)
      local ratio = #ratios > 0 and passes.interval(ratios) or {}
      local names, grade = flags.of_passes(lists, want.half, precision)
      for name, value in pairs { med = want.med, pass_med = last.own.med, passes = #list,
          procs = n_workers, rounds = #list, n_eff = #list, n = #all,
          iqr = (sum.p75 - sum.p25) / sum.med, ci_how = 'passes ' .. want.method,
          grade = grade, pass_flags = table.concat(lists[#lists], ' '),
          stop = want.half and want.half <= precision and 'precision' or 'passes' } do
        assert.equal(value, got[name], name .. ' of seed ' .. seed)
      end
      for name, value in pairs { ci_lo = want.lo or 0, ci_hi = want.hi or 0,
          precision = want.half or 0, sd_between = want.between or 0, sd_within = want.within or 0,
          quiet = quiet.med or 0, quiet_lo = quiet.lo or 0, quiet_hi = quiet.hi or 0,
          ratio = ratio.med or 0, ratio_lo = ratio.lo or 0, ratio_hi = ratio.hi or 0,
          pass_ratio = last.own.ratio or 0 } do
        close(value, got[name] or 0, name .. ' of seed ' .. seed)
      end
      for _, name in ipairs { 'min', 'p25', 'p75', 'p95', 'p99', 'max', 'mean', 'sd', 'mad' } do
        close(sum[name], got[name], name)
      end
      assert.same(names, got.flags)
    end
  end)
end)

describe('a point in passes', function()
  it('is precise where its interval is as wide as was asked for', function()
    local function stop(precision)
      local earlier = {}
      for i, ns in ipairs { 998, 1000, 1000, 1000, 1002 } do
        earlier[i] = { pass = i, worker_id = 1, timings = { ['fwd warm'] = { med = ns,
          dur = { ns }, flags = '' } } }
      end
      local r = series.join({ med = 1000, samples = { 1000 }, flags = {} }, 'fwd', earlier, 1,
        { precision = precision })
      return { r.stop, r.grade }
    end
    assert.same({ 'precision', 'A' }, stop(0.002))
    assert.same({ 'passes', 'C' }, stop(0.0019999))
  end)
end)

-- -- One more pass -------------------------------------------------------------------------------

describe('points that have one more pass', function()
  local function by_pass(draw, base, wide)
    local list = {}
    for i = 1, 5 + draw(3) do
      list[i] = ('%.6g'):format(base * (1 + (draw(9) - 4) * (wide and 0.02 or 0.001)))
    end
    return table.concat(list, ' ')
  end

  local function numbers(text)
    local list = {}
    for word in text:gmatch '%S+' do list[#list + 1] = tonumber(word) end
    return list
  end

  local function open(med, lo, hi, precision)
    return lo and hi and lo <= 1 and 1 <= hi and (hi - lo) / 2 / med > precision
  end

  local function wanted(rows, precision)
    local found, best = {}, nil
    for _, r in ipairs(rows) do
      if open(r.fwd_ratio, r.fwd_ratio_lo, r.fwd_ratio_hi, precision) then found[r.trial] = true end
      for _, other in ipairs(rows) do
        if other ~= r and other.width == r.width then
          local a, b = numbers(r.fwd_by_pass), numbers(other.fwd_by_pass)
          if other.trial < r.trial then a, b = b, a end
          local ratios = {}
          for i = 1, math.min(#a, #b) do ratios[i] = b[i] / a[i] end
          local ratio = passes.interval(ratios)
          if open(ratio.med, ratio.lo, ratio.hi, precision) then found[r.trial] = true end
        end
      end
      if r.fwd_gflops and (not best or r.fwd_gflops > best.fwd_gflops) then best = r end
    end
    if best and best.fwd_hi then
      local least, list = best.fwd_gflops * best.fwd / best.fwd_hi, {}
      for _, r in ipairs(rows) do
        if r.fwd_gflops and r.fwd_lo and r.fwd_gflops * r.fwd / r.fwd_lo >= least
          and (r.fwd_hi - r.fwd_lo) / 2 / r.fwd > precision then
          list[#list + 1] = r.trial
        end
      end
      if #list >= 2 and #list <= 8 then
        for _, trial in ipairs(list) do found[trial] = true end
      end
    end
    return found
  end

  local function replaced(rows)
    local saved = { results.rows, results.params }
    finally(function() results.rows, results.params = saved[1], saved[2] end)
    function results.rows() return rows end
    function results.params() return { 'impl', 'width' } end
  end

  local function run_of(protocol)
    return { spec = { protocol = protocol }, sweep = { id = 1 },
      store = { db = { query = function() return { { name = 'fwd' } } end } } }
  end

  it('are those whose interval still decides something', function()
    local some, none = 0, 0
    for seed = 1, 400 do
      local draw = seeded(seed)
      local rows, measured = {}, {}
      for i = 1, 2 + draw(12) do
        local wide = draw(2) == 0
        local base = 100 + 10 * draw(3)
        local row = { trial = i, state = 'ok', grade = 'A', reused = 0, passes = 5 + draw(3),
          width = 64 * (1 + draw(4)), impl = ('abc'):sub(1 + i % 3, 1 + i % 3), fwd = base,
          fwd_by_pass = by_pass(draw, base, wide) }
        local half = draw(12) / 1000
        if draw(6) > 0 then row.fwd_lo, row.fwd_hi = base * (1 - half), base * (1 + half) end
        if draw(3) > 0 then row.fwd_gflops = 1e4 / base end
        if draw(3) == 0 then
          row.fwd_ratio = 1 + (draw(9) - 4) / 100
          if draw(5) > 0 then
            row.fwd_ratio_lo = row.fwd_ratio - draw(5) / 100
            row.fwd_ratio_hi = row.fwd_ratio + draw(5) / 100
          end
        end
        local what = draw(12)
        if what == 0 then row.state = 'failed' end
        if what == 1 then row.grade = 'D' end
        if what == 2 then row.reused = 1 end
        rows[i] = row
        if what > 2 and row.passes < 7 then measured[#measured + 1] = row end
      end
      replaced(rows)
      local want = wanted(measured, 0.01)
      local list = {}
      for _, row in ipairs(measured) do
        if want[row.trial] then list[#list + 1] = row.trial end
      end
      local got = extra.points(run_of { passes = 5, max_passes = 7, precision = 0.01 })
      assert.same(list, got, 'seed ' .. seed)
      some, none = some + (#list > 0 and 1 or 0), none + (#list == 0 and 1 or 0)
    end
    assert.is_true(some > 100 and none > 10, some .. ' ' .. none)
  end)

  it('are none where no passes are left, or too few say nothing', function()
    replaced { { trial = 1, state = 'ok', grade = 'A', reused = 0, passes = 4, fwd_ratio = 1,
      fwd_ratio_lo = 0.5, fwd_ratio_hi = 1.5, width = 1, impl = 'a' } }
    local function points(n, most)
      return extra.points(run_of { passes = n, max_passes = most, precision = 0.01 })
    end
    assert.same({ 1 }, points(5, 6))
    assert.same({}, points(5, 5))
    assert.same({}, points(4, 6))
  end)

  it('have their numbers in common', function()
    assert.equal(extra.group_of { width = 8, impl = 'a', fast = true },
      extra.group_of { width = 8, impl = 'b' })
    assert.are_not.equal(extra.group_of { width = 8 }, extra.group_of { width = 9 })
    assert.are_not.equal(extra.group_of { width = 8 }, extra.group_of { width = 8, n = 8 })
  end)
end)

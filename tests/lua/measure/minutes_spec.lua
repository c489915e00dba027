-- SPDX-License-Identifier: MIT
-- What other minutes would say: rules of the term, and whether intervals of short sweeps hold the
-- median of another run where the clock drifts, by recorded processes under a clock that does.

local minutes = require 'ridge.measure.minutes'
local passes = require 'ridge.measure.passes'
local random = require 'ridge.measure.random'
local states = dofile 'tests/lua/measure/states.lua'
local statistics = require 'ridge.measure.statistics'
local variation = require 'ridge.measure.variation'

local function near(want, got, by) assert.is_true(math.abs(want - got) <= (by or 1e-12), got) end

describe('what passes have seen of ten minutes', function()
  it('is the time between them, of a gap a quarter of ten minutes at most', function()
    assert.equal(0, minutes.covered { 100 })
    assert.equal(30, minutes.covered { 0, 30, 10, 20 })
    assert.equal(600, minutes.covered { 0, 150, 300, 450, 600 })
    assert.equal(600, minutes.covered { 0, 86400, 3e5, 4e5, 5e5 })
    -- two clusters a day apart are two moments
    assert.equal(150 + 3, minutes.covered { 0, 1, 2, 86400, 86401 })
  end)

  it('leaves the rest of the variance, of a kind of work where that is known', function()
    local source = { sd = 0.02, kinds = { linear = 0.03 }, how = 'trust' }
    near(0.02, minutes.term(source, nil, { 0, 0 }))
    near(0.02 * math.sqrt(0.75), minutes.term(source, 'small', { 0, 150 }))
    near(0.03, minutes.term(source, 'linear', { 5 }))
    assert.equal(0, minutes.term(source, nil, { 0, 150, 300, 450, 600 }))
    assert.equal(0, minutes.term(source, nil, { 0, 150, 300, 450, 600, 750 }))
    assert.is_nil(minutes.term(nil, nil, { 0 }))
  end)
end)

describe('the interval with it', function()
  it('is wider in squares, on both sides, and undone by own', function()
    local lo, hi = minutes.widen(100, 97, 105, 0.02)
    near(math.sqrt(math.log(100 / 97) ^ 2 + 0.04 ^ 2), math.log(100 / lo))
    near(math.sqrt(math.log(105 / 100) ^ 2 + 0.04 ^ 2), math.log(hi / 100))
    local own_lo, own_hi = minutes.own(100, lo, hi, 0.02)
    near(97, own_lo, 1e-9)
    near(105, own_hi, 1e-9)
  end)

  it('of passes leaves beside it what they say themselves', function()
    local own = passes.interval { 100, 103, 98, 101, 99 }
    local found = minutes.add(own, { sd = 0.02, kinds = {} }, { 0, 6, 12, 18, 24 })
    assert.same({ own.lo, own.hi, own.med }, { found.own_lo, found.own_hi, found.med })
    near(0.02 * math.sqrt(1 - 24 / 600), found.sd_minutes)
    local lo, hi = minutes.widen(own.med, own.lo, own.hi, found.sd_minutes)
    assert.same({ lo, hi, (hi - lo) / (2 * own.med) }, { found.lo, found.hi, found.half })
    assert.is_true(own.lo > lo and own.hi < hi)
  end)

  it('stays what it is without a term, and of rows that cannot have one', function()
    for _, sd in ipairs { 0, false } do
      local lo, hi = minutes.widen(100, 97, 105, sd or nil)
      assert.equal(97, lo)
      assert.equal(105, hi)
      lo, hi = minutes.own(100, 97, 105, sd or nil)
      assert.equal(97, lo)
      assert.equal(105, hi)
    end
    -- ends of an old row below zero, and an end that somebody edited to within the term
    assert.equal(-3, (minutes.own(100, -3, 105, 0.02)))
    assert.equal(0, (minutes.own(100, 0, 105, 0.02)))
    near(100, (minutes.own(100, 99, 105, 0.02)))
  end)

  it('of a row is its own by the column of its phase', function()
    local lo, hi = minutes.widen(100, 97, 105, 0.02)
    local row = { fwd = 100, fwd_lo = lo, fwd_hi = hi, fwd_between_minutes = 0.02,
      fwd_quiet = 100, fwd_quiet_lo = lo, fwd_quiet_hi = hi, loss = 1, loss_lo = 0.5, loss_hi = 2 }
    near(97, (minutes.ends(row, 'fwd')), 1e-9)
    near(97, (minutes.ends(row, 'fwd_quiet')), 1e-9)
    assert.equal(0.5, (minutes.ends(row, 'loss')))
    row.fwd_between_minutes = nil   -- a row of before
    assert.equal(lo, (minutes.ends(row, 'fwd')))
    row.fwd_between_minutes = 'text'   -- a parameter of such a name
    assert.equal(lo, (minutes.ends(row, 'fwd')))
    assert.is_nil(minutes.ends({ fwd = 100 }, 'fwd'))
  end)
end)

describe('what minutes differ by', function()
  -- n groups, apart_s after each other, whose level and scatter are known
  local function groups(r, n, apart_s, between, within)
    local out = {}
    for i = 1, n do
      local level, logs = between * r:normal(), {}
      for k = 1, 15 do logs[k] = level + within * r:normal() end
      out[i] = { at = i * apart_s, logs = logs }
    end
    return out
  end

  it('is found beside the scatter within them', function()
    local r, found, none = random.new(8), {}, {}
    for i = 1, 400 do
      found[i] = minutes.spread(groups(r, 12, 300, 0.02, 0.03))
      none[i] = minutes.spread(groups(r, 12, 300, 0, 0.03))
    end
    -- Student's factor of 11 over twice: 1.10
    assert.is_true(math.abs(statistics.median(found) / (0.02 * 1.10) - 1) < 0.12,
      statistics.median(found))
    assert.is_true(statistics.median(none) < 0.006, statistics.median(none))
  end)

  it('is their variance less that of medians of so few, by hand', function()
    local levels, list = { 0, 0.03, -0.01, 0.02, 0.01 }, {}   -- variance 2.5e-4, mean 0.01
    local function spread(n, d)
      for i, level in ipairs(levels) do
        list[i] = { at = 300 * i, logs = n == 1 and { level } or n == 2 and { level - d, level + d }
          or { level - d, level, level + d } }
      end
      return minutes.spread(list)
    end
    local t = 2.776445105 / 2   -- of four degrees of freedom
    near(t * math.sqrt(2.5e-4), spread(1), 1e-8)
    -- the robust variance of d and d is (1.4826 d)^2; of a median of three pi / 2 of a third of it
    near(t * math.sqrt(2.5e-4 - (1.4826 * 0.01) ^ 2 * math.pi / 2 / 3), spread(3, 0.01), 1e-8)
    near(t * math.sqrt(2.5e-4 - (1.4826 * 0.005) ^ 2 / 2), spread(2, 0.005), 1e-8)
    assert.equal(0, spread(3, 0.05))
  end)

  it('is of whole minutes of a record', function()
    local found = minutes.groups { { at = 0, log = 1 }, { at = 59.9, log = 2 },
      { at = 60, log = 3 }, { at = 185, log = 4 }, { at = 61, log = 5 } }
    assert.same({ { at = 0, logs = { 1, 2 } }, { at = 60, logs = { 3, 5 } },
      { at = 180, logs = { 4 } } }, found)
  end)

  it('is of ninths of a record of less than ten minutes', function()
    assert.equal(20, minutes.group_of(180))
    assert.equal(60, minutes.group_of(600))
    assert.equal(60, minutes.group_of())
    assert.same({ { at = 0, logs = { 1, 2 } }, { at = 20, logs = { 3 } },
        { at = 160, logs = { 4 } } },
      minutes.groups({ { at = 0, log = 1 }, { at = 19.9, log = 2 }, { at = 20, log = 3 },
        { at = 179, log = 4 } }, 180))
  end)

  it('leaves what processes of one group differ by, each side by itself', function()
    local r, list = random.new(12), {}
    for i = 1, 400 do
      local logs = {}
      for k = 1, 40 do logs[k] = math.abs(0.1 * r:normal()) + (i % 2) end
      list[i] = { at = 60 * i, logs = logs }
    end
    local high, low = minutes.near(list)
    -- of a folded normal: median 0.0674, quantiles 0.224 and 0.0031; the two levels are not in it
    near(0.224 - 0.0674, high, 0.05)
    near(0.0674 - 0.0031, low, 0.05)
    -- two of a group stand half of what they differ by from their middle: times the root of two
    high, low = minutes.near { { logs = { 1, 3 } }, { logs = { 7 } } }
    near(math.sqrt(2) * 0.95, high, 1e-12)
    near(math.sqrt(2) * 0.95, low, 1e-12)
    assert.same({ 0, 0 }, { minutes.near { { logs = { 7 } } } })
  end)

  it('does not take a stall for a minute', function()
    local list = groups(random.new(9), 12, 300, 0, 0.01)
    for _, group in ipairs(list) do group.logs[3] = 2 end
    assert.is_true(minutes.spread(list) < 0.006)
  end)

  it('is not known from few sweeps, nor from a quarter of an hour of them', function()
    local r = random.new(10)
    assert.is_nil(minutes.spread(groups(r, 4, 3600, 0.02, 0.01)))
    assert.is_nil(minutes.spread(groups(r, 9, 60, 0.02, 0.01)))
    assert.is_number(minutes.spread(groups(r, 11, 60, 0.02, 0.01)))
    assert.is_number(minutes.spread(groups(r, 9, 60, 0.02, 0.01), 600))
    -- taken one after the other: a minute says a part of it
    assert.is_number(minutes.spread(groups(r, 9, 7, 0.02, 0.01), 60))
    assert.is_nil(minutes.spread(groups(r, 9, 6, 0.02, 0.01), 59))
  end)

  it('comes from the best that is known', function()
    local r = random.new(11)
    local clocks = groups(r, 8, 300, 0.01, 0.001)
    local trust = { up = 0.1, down = 0.1, minutes = 0.007, ['minutes.small'] = 0.002 }
    for _, seconds in ipairs { 59, false } do
      trust.seconds = seconds or nil
      assert.equal('clock', minutes.source({ trust = trust }, clocks).how)
      assert.equal('assumed', minutes.source({ trust = trust }).how)
    end
    trust.seconds = 600
    local source = minutes.source({ trust = trust }, clocks)
    assert.equal('trust', source.how)
    assert.equal(0.007, source.sd)
    assert.equal(0.002, source.kinds.small)
    assert.is_nil(source.kinds.linear)
    -- a shorter one: what it saw, beside what it was too short for, by the clock or assumed
    for _, seconds in ipairs { 60, 599 } do
      trust.seconds = seconds
      local short = minutes.source { trust = trust }
      local clock = minutes.source({ trust = trust }, clocks)
      assert.same({ 'short', 'short' }, { short.how, clock.how })
      near(math.sqrt(0.007 ^ 2 + 0.02 ^ 2), short.sd)
      near(math.sqrt(0.002 ^ 2 + 0.02 ^ 2), short.kinds.small)
      near(math.sqrt(0.007 ^ 2 + minutes.spread(clocks) ^ 2), clock.sd)
      assert.is_nil(short.kinds.linear)
    end
    -- of caches that an older one did not measure: what it knows of a softmax
    assert.is_nil(source.kinds.l2)
    trust.seconds, trust['minutes.softmax'] = 600, 0.003
    assert.same({ 0.003, 0.003 }, { minutes.source({ trust = trust }).kinds.l2,
      minutes.source({ trust = trust }).kinds.l3 })
    trust.minutes = nil   -- of an older ridge
    assert.equal('clock', minutes.source({ trust = trust }, clocks).how)
    assert.equal(variation.DRIFT / 2, minutes.source({}, { clocks[1] }).sd)
    assert.equal(variation.DRIFT / 2, minutes.source().sd)
  end)
end)

-- -- Coverage ------------------------------------------------------------------------------

-- Of a clock that drifts: two moments five minutes apart differ by 4 % (95 %), later ones by up to
-- 6. A random walk that returns.
local STEP_S, DAY_S, REACH_S = 15, 7200, 600

local function clock_of(r, drift)
  local kept, sd = math.exp(-STEP_S / REACH_S), drift / 2
  -- of a process that forgets so, moments 300 s apart differ by sd
  local whole = sd / math.sqrt(2 * (1 - math.exp(-300 / REACH_S)))
  local levels, level = {}, whole * r:normal()
  for i = 0, DAY_S / STEP_S do
    levels[i] = level
    level = kept * level + math.sqrt(1 - kept ^ 2) * whole * r:normal()
  end
  return function(at)
    local i = math.floor(at / STEP_S)
    local share = at / STEP_S - i
    return levels[i] + (levels[i + 1] - levels[i]) * share
  end
end

-- Pass medians of a sweep of so many seconds from a moment on: recorded processes under that clock.
-- The recording is of a loaded guest, the drift of a quiet one, whose processes scatter less.
local SCATTER = 0.3

local function sweep_of(r, clock, name, from, seconds)
  local list, times, meds = states.series.passes[name], {}, {}
  for i = 1, 5 do
    times[i] = from + seconds * (i - 1) / 4
    meds[i] = math.exp(list[r:integer(#list)] * SCATTER + clock(times[i]))
  end
  return meds, times
end

-- Share of pairs of sweeps, five minutes to two hours apart, of which one holds the other's median.
local function coverage(name, seconds, with, drift)
  local r, hits, n = random.new(31), 0, 2000
  local source = with and minutes.source() or nil
  for _ = 1, n do
    local clock = clock_of(r, drift or 0.04)
    local meds, times = sweep_of(r, clock, name, 0, seconds)
    local other = sweep_of(r, clock, name, 300 + (DAY_S - 900 - seconds) * r:uniform(), seconds)
    local found = passes.interval(meds)
    local lo, hi = minutes.widen(found.med, found.lo, found.hi, minutes.term(source, nil, times))
    local med = passes.interval(other).med
    if lo <= med and med <= hi then hits = hits + 1 end
  end
  return hits / n
end

describe('coverage of another run, under a clock that drifts by 4 % in five minutes', function()
  local NAMES = { 'small', 'linear', 'softmax' }

  for _, name in ipairs(NAMES) do
    it('is what it should be for sweeps of half a minute to eight: ' .. name, function()
      for _, seconds in ipairs { 30, 120, 300, 450 } do
        local got = coverage(name, seconds, true)
        assert.is_true(got >= 0.82 and got <= 0.93, ('%d s: %.3f'):format(seconds, got))
      end
    end)
  end

  it('falls without the term', function()
    assert.is_true(coverage('linear', 30, false) < 0.77)
    assert.is_true(coverage('softmax', 30, false) < 0.75)
  end)

  it('needs no term where the clock stands still', function()
    for _, name in ipairs(NAMES) do
      assert.is_true(coverage(name, 30, false, 0) > 0.88)
    end
  end)
end)

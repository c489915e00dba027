-- SPDX-License-Identifier: MIT
-- Passes: intervals of their medians, ratios within a pass, the fast state.  By hand, and by
-- simulation: of N intervals of level 95 % the share that covers may fall below 0.95 by no more
-- than three standard deviations of N draws.

local interval = require 'ridge.measure.interval'
local passes = require 'ridge.measure.passes'
local random = require 'ridge.measure.random'
local statistics = require 'ridge.measure.statistics'

local states = dofile(debug.getinfo(1, 'S').source:match('^@(.*/)') .. 'states.lua')

local N = 2000
local FLOOR = 0.95 - 3 * math.sqrt(0.95 * 0.05 / N)

local function near(want, got) assert.is_true(math.abs(want - got) < 1e-9 * math.abs(want)) end

describe('the interval of pass medians', function()
  it('is none of fewer than five', function()
    for n = 1, 4 do
      local list = {}
      for i = 1, n do list[i] = 10 + i end
      local found = passes.interval(list)
      assert.is_nil(found.lo)
      assert.is_nil(found.hi)
      assert.is_nil(found.half)
      assert.equal('none', found.method)
      assert.equal(n, found.n)
    end
    assert.is_nil(passes.interval({ 10 }).between)
  end)

  it('of five is their range, or that of Student on the logarithms where it is wider', function()
    local found = passes.interval { 16, 1, 4, 2, 8 }
    -- logarithms in units of log 2: 0 .. 4, mean 2, sd sqrt 2.5, t of 4 is 2.7764451: +-1.96
    assert.same({ 1, 4, 16, 'order+t' }, { found.lo, found.med, found.hi, found.method })
    -- 0 0 2 4 4: sd 2, +-2.48
    found = passes.interval { 16, 1, 4, 1, 16 }
    local half = 2.7764451051977987 * 2 / math.sqrt(5) * math.log(2)
    near(4 * math.exp(-half), found.lo)
    near(4 * math.exp(half), found.hi)
    -- one far away: the range is the wider on that side only
    found = passes.interval { 10, 10, 10, 10, 1000 }
    assert.equal(10, found.med)
    assert.equal(1000, found.hi)
    assert.is_true(found.lo < 10)
  end)

  -- ranks k and n + 1 - k with 2 P(Binomial(n, 1/2) < k) <= 0.05, from tables of the sign test
  it('of more lies between the observations that the sign test leaves', function()
    local k_of = { [6] = 1, [7] = 1, [8] = 1, [9] = 2, [10] = 2, [11] = 2, [12] = 3, [13] = 3,
                   [15] = 4, [17] = 5, [20] = 6, [25] = 8, [30] = 10, [50] = 18, [100] = 40 }
    for n, k in pairs(k_of) do
      local list = {}
      for i = 1, n do list[i] = 100 + i end
      local found = passes.interval(random.new(n):shuffle(list))
      assert.equal('order', found.method)
      assert.same({ n, 100 + k, 101 + n - k }, { n, found.lo, found.hi })
    end
  end)

  it('of very many is that of the normal approximation', function()
    local list = {}
    for i = 1, 1000 do list[i] = i end
    local found = passes.interval(list)
    -- 500.5 -+ 1.96 sqrt(1000) / 2 = 469.5 .. 531.5, rounded outwards
    assert.is_true(found.lo <= 469.5 and found.lo >= 468)
    assert.is_true(found.hi >= 531.5 and found.hi <= 533)
  end)

  it('has another level when asked', function()
    local list = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }
    assert.equal(2, passes.interval(list).lo)
    assert.equal(3, passes.interval(list, { level = 0.8 }).lo)
    assert.equal(1, passes.interval(list, { level = 0.99 }).lo)
  end)

  it('of an even number has the geometric mean in the middle, and scales with its unit', function()
    near(math.sqrt(6), passes.interval({ 1, 2, 3, 4 }).med)
    local list = { 3, 5, 4, 9, 7 }
    local a, tiny = passes.interval(list), {}
    for i, v in ipairs(list) do tiny[i] = v * 1e-300 end
    local b = passes.interval(tiny)
    near(a.med, b.med * 1e300)
    near(a.lo, b.lo * 1e300)
    near(a.hi, b.hi * 1e300)
  end)

  it('never leaves the range of a time, however far apart the passes are', function()
    local r = random.new(3)
    for _ = 1, 500 do
      local list = {}
      for i = 1, 5 + r:integer(8) do list[i] = math.exp(8 * r:normal()) end
      local found = passes.interval(list)
      assert.is_true(found.lo > 0 and found.lo <= found.med and found.med <= found.hi)
      assert.is_true(found.hi < math.huge)
    end
  end)

  it('refuses what is no time', function()
    for _, bad in ipairs { 0, -1, 0 / 0, math.huge, 'x' } do
      assert.error_matches(function() passes.interval { 1, 2, bad } end, 'value 3')
    end
    assert.error_matches(function() passes.interval {} end, 'no pass')
    assert.error_matches(function() passes.interval(7) end, 'list of times')
    assert.error_matches(function() passes.interval({ 1 }, { windows = { { 1 }, { 2 } } }) end,
      'windows of 2 passes, medians of 1')
    assert.error_matches(function() passes.interval({ 1 }, { levl = 1 }) end, 'levl')
  end)

  it('takes its parts apart: between passes and within', function()
    local windows, medians, r = {}, {}, random.new(12)
    for pass = 1, 400 do
      local state = 0.08 * r:normal()
      windows[pass] = {}
      for i = 1, 3 do windows[pass][i] = math.exp(state + 0.02 * r:normal()) end
      medians[pass] = statistics.median(windows[pass])
    end
    local found = passes.interval(medians, { windows = windows })
    assert.is_true(math.abs(found.between - 0.08) < 0.01)
    assert.is_true(math.abs(found.within - 0.02) < 0.002)
    assert.matches('between passes: more time, not more samples', passes.sentence(found))
    assert.is_nil(passes.sentence(passes.interval(medians)))
    found = passes.interval({ 1, 1, 1, 1, 1 }, { windows = { { 1, 2, 0.5 }, { 1, 3, 0.3 },
      { 1, 2, 0.6 }, { 1, 1.5, 0.4 }, { 1, 2, 0.5 } } })
    assert.equal(0, found.between)
    assert.matches('more windows in each pass help', passes.sentence(found))
  end)
end)

describe('the parts of the variance', function()
  it('are those of the pass with the fewest windows, whichever it is', function()
    -- of one window a median varies as much as a window does
    local logs, windows, meds = { 0.3, 0, -0.2, 0.1, -0.3 }, {}, {}
    for i, x in ipairs(logs) do
      meds[i] = math.exp(x)
      windows[i] = i == 2 and { meds[i] } or { math.exp(x - 0.1), meds[i], math.exp(x + 0.1) }
    end
    local found = passes.interval(meds, { windows = windows })
    near(0.1, found.within)
    near(math.sqrt(statistics.sd(logs) ^ 2 - 0.01), found.between)
  end)
end)

describe('coverage of passes', function()
  local function share(of, generator, n)
    local r, hits = random.new(4711 + n), 0
    for _ = 1, N do
      local times = {}
      for i, x in ipairs(generator.draw(r, n)) do times[i] = math.exp(x) end
      local lo, hi = of(times)
      local truth = math.exp(generator.truth)
      if lo <= truth and truth <= hi then hits = hits + 1 end
    end
    return hits / N
  end

  local function kept(times)
    local found = passes.interval(times)
    return found.lo, found.hi
  end

  local function student(times)
    local logs = {}
    for i, v in ipairs(times) do logs[i] = math.log(v) end
    local lo, hi = interval.student(logs, 0.95)
    return math.exp(lo), math.exp(hi)
  end

  for _, name in ipairs(states.names) do
    it('is not below nominal: ' .. name, function()
      for _, n in ipairs { 5, 6, 7, 8, 9, 10, 11, 12 } do
        -- all five in the same of two equal states happens in one of sixteen, and cannot be seen
        local floor = n == 5 and name:find '^two states' and FLOOR - 0.0125 or FLOOR
        local got = share(kept, states.all[name], n)
        assert.is_true(got >= floor, ('%d passes: %.3f'):format(n, got))
      end
    end)
  end

  it('of t on logarithms falls on recorded states and in two states', function()
    assert.is_true(share(student, states.all['windows small'], 12) < 0.85)
    assert.is_true(share(student, states.all['two states, 40 % slow'], 12) < 0.6)
  end)

  it('of a single process with many windows falls', function()
    -- twelve windows in a row of the recorded series, as one process sees them
    local list, hits, r = states.series.windows.small, 0, random.new(9)
    for _ = 1, N do
      local i, times = r:integer(#list - 12), {}
      for j = 1, 12 do times[j] = math.exp(list[i + j]) end
      local lo, hi = kept(times)
      if lo <= 1 and 1 <= hi then hits = hits + 1 end
    end
    assert.is_true(hits / N < 0.85)
  end)

  it('of ratios, where both saw the same state', function()
    local r, hits, narrow = random.new(21), 0, 0
    for _ = 1, N do
      local a, b = {}, {}
      for i = 1, 6 do
        local state = r:uniform() < 0.5 and 0.4 or 0
        a[i] = math.exp(state + 0.02 * r:normal())
        b[i] = math.exp(state + math.log(1.05) + 0.02 * r:normal())
      end
      local found = passes.ratio(a, b)
      if found.lo <= 1.05 and 1.05 <= found.hi then hits = hits + 1 end
      if found.half < 0.1 then narrow = narrow + 1 end
    end
    assert.is_true(hits / N >= FLOOR)
    assert.is_true(narrow / N > 0.95)
  end)
end)

describe('ratios', function()
  it('are formed within the passes that have both', function()
    local found = passes.ratio({ 10, 20, 40, 10, 5 }, { 11, 22, 44, 11, 5.5 })
    near(1.1, found.med)
    near(1.1, found.lo)
    near(1.1, found.hi)
    assert.equal(5, found.n)
    found = passes.ratio({ 10, false, 0 / 0, [7] = 2 }, { 20, 7, 8, [7] = 8 })
    assert.equal(2, found.n)
    near(math.sqrt(8), found.med)
    assert.is_nil(found.lo)
    assert.is_nil(passes.ratio({ 1, 2 }, {}))
  end)

  it('inverted are one over the ratio, ends and all', function()
    local a, b, r = {}, {}, random.new(5)
    for i = 1, 9 do a[i], b[i] = math.exp(r:normal()), math.exp(r:normal()) end
    local one, other = passes.ratio(a, b), passes.ratio(b, a)
    near(1 / one.med, other.med)
    near(1 / one.lo, other.hi)
    near(1 / one.hi, other.lo)
  end)
end)

describe('the fast state', function()
  it('is the low mode over all passes', function()
    local found = passes.quiet { { 22, 37 }, { 22, 22.1 }, { 37, 22.2 }, { 37, 37 } }
    assert.equal(3, found.n)
    assert.equal(2, found.states)
    assert.is_true(found.med > 21.9 and found.med < 22.3)
    near(0.5, found.share)
    assert.is_nil(found.lo)
    found = passes.quiet { { 22 }, { 22.1 }, { 22.2 }, { 22.1 }, { 22 }, { 37 }, { 37.1 } }
    assert.is_true(found.lo >= 21.5 and found.hi <= 22.6)
  end)

  it('is not there while fewer than three passes saw it', function()
    assert.is_nil(passes.quiet { { 22, 37 }, { 37, 37.1 }, { 37.2, 22 }, { 37, 37 } })
    assert.is_nil(passes.quiet { 10, 10.1 })
    assert.is_nil(passes.quiet {})
  end)

  it('is no handful of windows, however fast, in however many passes', function()
    local windows = {}
    for i = 1, 10 do windows[i] = { 100 + i / 10, 101 - i / 10, 99 + i / 20, 100.5 } end
    for i = 1, 3 do windows[i][2] = 50 + i / 100 end   -- 7.5 % of them
    local found = passes.quiet(windows)
    assert.equal(1, found.share)
    assert.equal(1, found.states)
    assert.is_true(found.med > 99 and found.med < 101)
    windows[4][2], windows[5][2] = 50, 50.01   -- an eighth are a state
    found = passes.quiet(windows)
    assert.is_true(found.med < 51)
    near(5 / 40, found.share)
    assert.equal(2, found.states)
  end)

  it('is everything on a machine of one state, stalls or not', function()
    local r, list = random.new(8), {}
    for pass = 1, 12 do
      list[pass] = {}
      for i = 1, 3 do list[pass][i] = 100 * math.exp(0.01 * r:normal()) end
    end
    local found = passes.quiet(list)
    assert.equal(1, found.states)
    assert.equal(1, found.share)
    list[3][2], list[7][1] = 2000, 1500
    found = passes.quiet(list)
    assert.equal(1, found.states)
    assert.is_true(math.abs(found.med - 100) < 1)
  end)

  it('is found between a slow state and stalls, and rarely where there is none', function()
    local r, right, false_split = random.new(31), 0, 0
    for _ = 1, 300 do
      local one, two = {}, {}
      for pass = 1, 8 do
        local layout = 0.03 * r:normal()
        one[pass], two[pass] = {}, {}
        for i = 1, 3 do
          one[pass][i] = math.exp(layout + 0.01 * r:normal())
          two[pass][i] = one[pass][i] * (r:uniform() < 0.5 and 1.5 or 1)
            * (r:uniform() < 0.03 and 10 or 1)
        end
      end
      local alone = passes.quiet(one)
      if not alone or alone.states > 1 then false_split = false_split + 1 end
      local found = passes.quiet(two)
      if found and math.abs(math.log(found.med)) < 0.06 then right = right + 1 end
    end
    assert.is_true(right >= 0.95 * 300, right)
    assert.is_true(false_split <= 0.05 * 300, false_split)
  end)
end)

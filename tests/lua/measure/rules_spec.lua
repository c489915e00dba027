-- SPDX-License-Identifier: MIT
--- The rules of measuring, on both sides of each of their boundaries: flags and grades, the kinds
--- of work, the ranks of intervals, protocols, passes as one result.

local approved = dofile 'tests/lua/approved.lua'
local flags = require 'ridge.measure.flags'
local passes = require 'ridge.measure.passes'
local protocol = require 'ridge.measure.protocol'
local series = require 'ridge.sweep.series'
local variation = require 'ridge.measure.variation'
local verdict = require 'ridge.measure.verdict'
local warmup = require 'ridge.measure.warmup'

local function join(list) return table.concat(list, ' ') end

describe('a flag', function()
  -- What raises each, what is just not enough, by hand.
  local LIMITS = {
    { 'WIDE', { iqr = 0.1001 }, { iqr = 0.1 } }, { 'WIDE', { iqr = 0.25 }, { iqr = 0.05 } },
    { 'GROSS', { iqr = 0.2501 }, {} }, { 'IMPRECISE', { half = 0.0201, target = 0.02 },
      { half = 0.02, target = 0.02 } }, { 'IMPRECISE', { half = 1e-9 }, { half = 0 } },
    { 'UNSTEADY', { steady = false }, { steady = true } },
    { 'DRIFT', { drift = 0.0201, drift_p = 0.0099 }, { drift = 0.02, drift_p = 0.0099 } },
    { 'DRIFT', { drift = -0.03, drift_p = 0 }, { drift = -0.03, drift_p = 0.01 } },
    { 'AUTOCORR', { r1 = 0.301 }, { r1 = 0.3 } },
    { 'MODES', { mode_variance = 0.81, mode_share = 0.11 }, { mode_variance = 0.8,
      mode_share = 0.5 } },
    { 'MODES', { mode_variance = 0.9, mode_share = 0.5 }, { mode_variance = 0.9,
      mode_share = 0.1 } },
    { 'SWITCHED', { marked = 0.11 }, { marked = 0.1 } },
    { 'FOREIGN', { foreign = 0.051 }, { foreign = 0.05 } },
    { 'PRESSURE', { pressure = 0.021 }, { pressure = 0.02 } },
    { 'STEAL', { steal = 0.0051 }, { steal = 0.005 } },
    { 'FREQ', { freq = 0.031 }, { freq = 0.03 } },
    { 'FREQ', { clock_shift = -0.051 }, { clock_shift = -0.05 } },
    { 'FREQ', { clock_shift = 0.051 }, { clock_shift = 0.05 } },
    { 'THROTTLE', { throttled = 1 }, { throttled = 0 } },
    { 'THROTTLE', { held = 0.001 }, { held = 0 } },
    { 'THROTTLE', { sustained = 0.7499 }, { sustained = 0.75 } },
    { 'SENTINEL', { sentinel = -0.021 }, { sentinel = -0.02 } },
    { 'SENTINEL', { sentinel = 0.021 }, { sentinel = 0.02 } },
    { 'ORDER', { order = 0.021, order_p = 0.0099 }, { order = 0.02, order_p = 0 } },
    { 'ORDER', { order = 1, order_p = 0 }, { order = 1, order_p = 0.01 } },
    { 'ROOF', { roof = 1.051 }, { roof = 1.05 } }, { 'DEBUG', { debug = true }, { debug = false } },
    { 'LUA', { lua = true }, {} }, { 'ZEROS', { zeros = true }, {} },
    { 'AA_FAIL', { aa_fail = true }, {} }, { 'SIMULATED', { simulated = true }, {} },
    { 'WAITED', { waited = 0.91 }, { waited = 0.9 } }, { 'TRAINING', { training = true }, {} },
    { 'REDUCED', { reduced = true }, {} },
  }

  it('is raised above its limit, alone, and not at it', function()
    local limits = flags.thresholds()
    local nan = 0 / 0
    for _, case in ipairs(LIMITS) do
      assert.equal(case[1], join(flags.judge(case[2], limits)))
      assert.equal('', join(flags.judge(case[3], limits)), case[1])
      local hidden = {}
      for name, value in pairs(case[2]) do hidden[name] = type(value) == 'number' and nan or nil end
      assert.equal('', join(flags.judge(hidden, limits)), case[1]) -- what is hidden raises nothing
    end
    limits.wide = 5
    assert.equal(0.1, flags.thresholds().wide) -- a copy
  end)

  it('has the bit of its place, and the grade that was approved', function()
    local out = {}
    for i, name in ipairs(flags.names()) do
      local about = flags.describe(name)
      assert.equal(2 ^ (i - 1), about.bit)
      assert.same({ name }, flags.from_bits(about.bit))
      assert.equal(about.bit, flags.bits { name })
      assert.equal(about.grade, flags.grade { name })
      out[i] = ('%s %s: %s'):format(about.grade, name, about.text)
    end
    assert.same(flags.names(), flags.from_bits(flags.bits(flags.names())))
    assert.equal(2 ^ #out - 1, flags.bits(flags.names()))
    assert.is_nil(flags.describe 'NONE')
    approved.check('measure/flags', table.concat(out, '\n'))
  end)

  it('of the machine is excused by five rounds, or held by the interval', function()
    assert.equal('A', flags.grade {})
    assert.equal('C', flags.grade { 'WIDE', 'ORDER' })
    assert.equal('D', flags.grade { 'FOREIGN', 'WIDE' })
    assert.equal('B', flags.grade({ 'FOREIGN', 'WIDE' }, { FOREIGN = 'spared' }))
    assert.equal('C', flags.grade({ 'FOREIGN', 'WIDE' }, { FOREIGN = 'held' }))
    assert.equal('B', flags.grade({ 'WIDE' }, { WIDE = 'held' })) -- which was no D
    local all = { FOREIGN = 'spared', PRESSURE = 'spared', STEAL = 'spared', FREQ = 'spared',
      SENTINEL = 'spared' }
    assert.same(all, flags.excused(5, {}))
    assert.same(all, flags.excused(6, { FREQ = true, DEBUG = true }))
    assert.same({ FREQ = 'held' }, flags.excused(4, { FREQ = true, DEBUG = true }))
  end)

  it('counts where half of the passes have it', function()
    local function of(lists, half) return { flags.of_passes(lists, half, 0.02) } end
    assert.same({ { 'ZEROS' }, 'C' }, of({ { 'ZEROS' }, {}, {}, { 'ZEROS' } }, 0.01))
    assert.same({ { 'ZEROS' }, 'A' }, of({ { 'ZEROS' }, {}, {}, {}, { 'ZEROS' } }, 0.02))
    assert.same({ { 'IMPRECISE' }, 'C' }, of({ {}, {} }, 0.0201))
    assert.same({ { 'IMPRECISE' }, 'C' }, of({ {}, {} }, nil))
    assert.same({ { 'IMPRECISE', 'DEBUG' }, 'D' }, of({ { 'DEBUG' } }, nil))
    -- a pass is too short for these; what the machine did is between passes
    local spared = { 'UNSTEADY', 'DRIFT', 'FOREIGN', 'PRESSURE', 'STEAL', 'FREQ', 'SENTINEL',
      'ORDER' }
    assert.same({ spared, 'A' }, of({ spared, spared }, 0.01))
    assert.same({ { 'WIDE', 'THROTTLE' }, 'D' }, of({ { 'THROTTLE' }, { 'WIDE' } }, 0.01))
  end)

  it('of pressure has a cause', function()
    local limits = flags.thresholds()
    for want, facts in pairs { quota = { throttled = 1, steal = 1, foreign = 1 },
        hypervisor = { throttled = 0, steal = 0.006, foreign = 0 },
        own = { throttled = 0, steal = 0.005, foreign = 0.05 },
        neighbour = { throttled = 0, steal = 0, foreign = 0.051 } } do
      assert.equal(want, flags.pressure_cause(facts, limits))
    end
    assert.equal('neighbour', flags.pressure_cause({}, limits))
  end)
end)

describe('a protocol', function()
  it('has the fields of its level that were approved', function()
    local out = {}
    for _, level in ipairs { 'quick', 'demo', 'default', 'rigorous' } do
      for _, way in ipairs { { level, protocol.protocol(level) },
          { 'a pass of ' .. level, protocol.of_pass(protocol.protocol(level)) } } do
        local names = {}
        for name in pairs(way[2]) do names[#names + 1] = name end
        table.sort(names)
        for i, name in ipairs(names) do
          local v = way[2][name]
          names[i] = name .. ' ' .. (type(v) == 'number' and ('%.6g'):format(v) or v)
        end
        out[#out + 1] = way[1] .. ': ' .. table.concat(names, ', ')
      end
    end
    approved.check('measure/protocols', table.concat(out, '\n'))
    assert.same(protocol.protocol(), protocol.protocol 'default')
  end)

  it('has ends that are not below their beginnings, and its own caches', function()
    local p = protocol.protocol { min_rounds = 30, warm_min_ns = 5e9, passes = 40 }
    assert.same({ 30, 5e9, 40 }, { p.max_rounds, p.warm_max_ns, p.max_passes })
    for _, case in ipairs { { { 'warm' }, 'warm' }, { { 'cold' }, 'cold' },
        { { 'cold', 'warm' }, 'warm+cold' }, { { 'warm', 'cold', 'cold' }, 'warm+cold' } } do
      assert.equal(case[2], protocol.protocol({ cache = case[1] }).cache)
    end
    p = protocol.of_pass(protocol.protocol { warm_min_ns = 1e6, warm_max_ns = 1e7,
      warm_window_ns = 1e6, windows = 7 })
    assert.same({ 1e6, 1e7, 1e6, 7, 7, 1, 0 }, { p.warm_min_ns, p.warm_max_ns, p.warm_window_ns,
      p.min_rounds, p.max_rounds, p.samples, p.quiet_ns })
  end)
end)

describe('what another run would differ by', function()
  it('is that of the kind of work', function()
    local KB, MB = 1024, 2 ^ 20
    for _, case in ipairs { { 32 * KB, nil, 'small' }, { 32 * KB + 1, nil, 'l2' },
        { 32 * KB, 1e12, 'small' }, { MB, 2 * MB, 'linear' }, { MB, 2 * MB - 1, 'softmax' },
        { 16 * MB, nil, 'streaming' }, { 16 * MB - 1, 8 * MB, 'softmax' },
        { MB, MB / 2, 'softmax' }, { MB, MB / 2 - 1, 'l2' }, { MB + 1, nil, 'l3' },
        { 16 * MB - 1, 0, 'l3' }, { 16 * MB, 8 * MB, 'streaming' }, { 16 * MB, 32 * MB, 'linear' },
        { 0, 5, nil }, { nil, 5, nil }, { 1, nil, 'small' } } do
      assert.equal(case[3], variation.kind_of { bytes = case[1], flops = case[2] })
    end
    assert.is_nil(variation.kind_of(nil))
  end)

  it('is what trust found, else the prior, and nothing for a made-up machine', function()
    local trust = { up = 0.1, down = 0.2, ['up.small'] = 0.3, ['down.small'] = 0.4,
      ['up.linear'] = 0.5, seconds = 600 }
    local known = variation.of({ trust = trust }, {})
    assert.same({ up = 0.1, down = 0.2, how = 'trust', kinds = { small = { up = 0.3, down = 0.4,
      how = 'trust.small' } } }, known)
    assert.equal(known.kinds.small, variation.of_call(known, { bytes = 8 }))
    assert.equal(known, variation.of_call(known, { bytes = 2 ^ 25 }))
    assert.equal(known, variation.of_call(known, nil))
    assert.equal('prior', variation.of(nil).how)
    assert.equal('prior', variation.of({ trust = { up = 1 } }).how)
    assert.equal('prior', variation.of({ trust = { down = 1 } }).how)
    assert.equal('none', variation.of(nil, {}).how)
    assert.same({ 0, 0 }, { variation.NONE.up, variation.NONE.down })
  end)

  it('has what changes within ten minutes beside it, where trust ran for less', function()
    for _, seconds in ipairs { 599.9, false } do
      local known = variation.of({ trust = { up = 0.03, down = 0.1, ['up.small'] = 0.3,
        ['down.small'] = 0.03, seconds = seconds or nil } }, {})
      assert.near(0.05, known.up, 1e-12)
      assert.near((0.1 ^ 2 + 0.04 ^ 2) ^ 0.5, known.down, 1e-12)
      assert.near((0.3 ^ 2 + 0.04 ^ 2) ^ 0.5, known.kinds.small.up, 1e-12)
      assert.near(0.05, known.kinds.small.down, 1e-12)
      assert.same({ 'trust', 'trust.small' }, { known.how, known.kinds.small.how })
    end
  end)

  it('is of the minutes that trust saw, on both sides, beside processes within them', function()
    local trust = { up = 0.1, down = 0.2, seconds = 600, ['up.small'] = 0.1, ['down.small'] = 0.2,
      ['near_up.small'] = 0.06, ['near_down.small'] = 0.15, ['minutes.small'] = 0.04 }
    local known = variation.of { trust = trust }
    -- 3 4 5, and 8 15 17: 0.08 are two standard deviations
    assert.near(0.1, known.kinds.small.up, 1e-12)
    assert.near(0.17, known.kinds.small.down, 1e-12)
    assert.equal('trust.small', known.kinds.small.how)
    assert.same({ 0.1, 0.2 }, { known.up, known.down })
    trust['minutes.small'] = 0.4   -- what nobody knows is like the kind that differs most
    known = variation.of { trust = trust }
    assert.near((0.06 ^ 2 + 0.8 ^ 2) ^ 0.5, known.up, 1e-12)
    assert.near((0.15 ^ 2 + 0.8 ^ 2) ^ 0.5, known.down, 1e-12)
    for _, name in ipairs { 'minutes.small', 'near_up.small', 'near_down.small' } do
      local kept = trust[name]   -- a trust of less than a minute, or of before: as it said it
      trust[name] = nil
      assert.same({ 0.1, 0.2, 0.1, 0.2 }, { variation.of({ trust = trust }).kinds.small.up,
        variation.of({ trust = trust }).kinds.small.down, variation.of({ trust = trust }).up,
        variation.of({ trust = trust }).down })
      trust[name] = kept
    end
  end)

  it('is of a softmax for caches that an older trust did not measure', function()
    local trust = { up = 0.9, down = 0.9, seconds = 600, ['up.softmax'] = 0.1,
      ['down.softmax'] = 0.2, ['minutes.softmax'] = 0.03 }
    for _, kind in ipairs { 'l2', 'l3' } do
      assert.same({ up = 0.1, down = 0.2, how = 'trust.' .. kind },
        variation.of({ trust = trust }).kinds[kind])
      assert.equal(0.03, variation.found(trust, 'minutes', kind))
    end
    assert.is_nil(variation.of({ trust = trust }).kinds.linear)
    trust['up.l2'], trust['down.l2'] = 0.3, 0.4
    assert.same({ 0.3, 0.4, 0.1 }, { variation.of({ trust = trust }).kinds.l2.up,
      variation.of({ trust = trust }).kinds.l2.down, variation.of({ trust = trust }).kinds.l3.up })
    assert.is_nil(variation.found(trust, 'minutes', 'l2'))
  end)

  it('assumes more of memory, and of calls without a known cost, before trust has run', function()
    for _, case in ipairs { { 0.24, { bytes = 2 ^ 10 } }, { 0.24, { bytes = 2 ^ 20 } },
        { 0.24, { bytes = 2 ^ 25, flops = 2 ^ 30 } }, { 0.34, { bytes = 2 ^ 25 } },
        { 0.34, { flops = 8 } } } do
      local between = variation.of_call(variation.of(nil), case[2])
      assert.same({ case[1], case[1], 'prior' }, { between.up, between.down, between.how })
    end
    assert.equal(0.34, variation.of_call(variation.PRIOR, nil).down)
    -- no kinds: a table without them
    assert.equal(variation.NONE, variation.of_call(variation.NONE, { bytes = 8 }))
  end)

  it('widens each side by itself, in squares', function()
    local function widened(...)
      local lo, hi = variation.widen(...)
      return { math.floor(lo * 100 + 0.5) / 100, math.floor(hi * 100 + 0.5) / 100 }
    end
    -- e^-0.3 = 0.7408, e^0.4 = 1.4918; with log(100 / 67.03) = 0.4 and 0.3: 0.5, e^-0.5 = 0.6065
    assert.same({ 74.08, 149.18 }, widened(100, 100, 100, { up = 0.3, down = 0.4 }))
    assert.same({ 60.65, 100 }, widened(100, 100 * math.exp(-0.4), 100, { up = 0.3, down = 0 }))
    assert.same({ 100, 164.87 }, widened(100, 100, 100 * math.exp(0.4), { up = 0, down = 0.3 }))
  end)
end)

-- Of n values, those of rank k + 1 and n - k hold the median with 1 - 2 P(at most k below it).
local function ranks(n, level)
  local best = 0
  for k = 0, math.floor((n - 1) / 2) do
    local tail, chance = 0, 0.5 ^ n
    for i = 0, k do
      tail = tail + chance
      chance = chance * (n - i) / (i + 1)
    end
    if 1 - 2 * tail >= level then best = k end
  end
  return best
end

describe('the interval of passes', function()
  it('reaches its level exactly where the ranks do', function()
    -- of six, the second least and second largest hold the median but for 2 * 7 / 64
    local found = passes.interval({ 1, 2, 3, 4, 5, 6 }, { level = 1 - 14 / 64 })
    assert.same({ 2, 5 }, { found.lo, found.hi })
    found = passes.interval({ 1, 2, 3, 4, 5, 6 }, { level = 1 - 14 / 64 + 1e-9 })
    assert.same({ 1, 6 }, { found.lo, found.hi })
  end)

  it('counts a state of a tenth of the windows, and a pass that lacks either side not', function()
    local windows = {}
    for i = 1, 9 do windows[i] = 100 + i / 10 end
    windows[10] = 200
    local found = passes.quiet(windows)
    assert.same({ 2, 9 }, { found.states, found.n })
    windows[11] = 100.5   -- one of eleven is a stall
    assert.equal(1, passes.quiet(windows).states)
    assert.equal(1, passes.ratio({ 10, 10 }, { 20, 0 / 0 }).n)
    assert.equal(1, passes.ratio({ 10, 0 / 0 }, { 20, 20 }).n)
  end)

  it('leaves out as many on each side as its level lets it', function()
    for n = 6, 60 do
      for _, level in ipairs { 0.5, 0.8, 0.9, 0.95, 0.99 } do
        local list = {}
        for i = 1, n do list[i] = 1000 + (i * 7) % n end -- in no order
        table.sort(list)
        local sorted = {}
        for i, v in ipairs(list) do sorted[i] = v end
        local found = passes.interval(list, { level = level })
        if found.method == 'order' then
          local k = ranks(n, level)
          assert.same({ sorted[k + 1], sorted[n - k] }, { found.lo, found.hi }, n .. ' ' .. level)
        else
          assert.is_true(1 - 2 ^ (1 - n) < level)
        end
      end
    end
  end)

  it('of a point is joined, and leaves bytes behind where each pass does', function()
    local M = series.LEAK
    assert.equal(2 ^ 20, M)
    for _, case in ipairs { { {}, M, nil }, { { M }, M, M }, { { M }, M - 1, nil },
        { { M - 1 }, M, nil }, { { 3 * M, 2 * M }, 5 * M, 2 * M }, { { 3 * M, 2 * M }, M, M },
        { { M }, nil, nil }, { { false, M }, M, nil } } do
      local earlier = {}
      for i, n in ipairs(case[1]) do earlier[i] = { left_bytes = n or nil } end
      assert.equal(case[3], series.leak(earlier, case[2]))
    end
    assert.equal(4, series.other_inputs({ { inputs = 'a', pass = 4 }, { inputs = 'b', pass = 5 } },
      'b'))
    assert.is_nil(series.other_inputs({ { inputs = 'a', pass = 4 } }, 'a'))
    assert.is_nil(series.other_inputs({ { pass = 4 } }, 'a'))
    assert.is_nil(series.other_inputs({ { inputs = 'a', pass = 4 } }, nil))
    assert.is_nil(series.other_inputs({}, 'a'))
    local function settled(timings, pass, earlier)
      local outcome = { timings = timings }
      series.settle(outcome, { pass = pass }, earlier, { passes = 5 })
      return { outcome.more, outcome.carry }
    end
    assert.same({ true }, settled({ 1 }, 4, {}))
    assert.same({ false }, settled({ 1 }, 5, {}))
    assert.same({ false }, settled({}, 1, {}))
    assert.same({ true, 8 }, settled({ 1 }, 3, { { id = 7 }, { id = 8 } }))
  end)
end)

describe('a warm-up', function()
  local function steady(list, limit, enough)
    return warmup.is_steady(list, limit or 0.01, enough or 3)
  end

  it('is steady where three lie close and eight have no trend', function()
    assert.is_false(steady { 100, 100 })
    assert.is_true(steady { 100, 100, 100 })
    assert.is_true(steady { 101, 100, 100 }) -- a hundredth apart
    assert.is_false(steady { 101.1, 100, 100 })
    assert.is_true(steady { 5000, 100, 100, 100 }) -- only the last three
    assert.is_false(steady({ 100, 100, 100 }, 0.01, 4))
    -- of eight that fall all the way the chance is 2 / 8!, of three 2 / 6
    assert.is_false(steady { 108, 107, 106, 105, 104, 103, 102, 101.9, 101.8 })
    assert.is_true(steady({ 100.3, 100.2, 100.1 }, 0.01))
    -- the ninth from the end does not count
    assert.is_true(steady { 1, 100, 100.1, 100, 100.1, 100, 100.1, 100, 100.1 })
  end)

  it('sizes a window by doubling, to the longest of three limits', function()
    local p, took = { window_ns = 1000 }, {}
    assert.equal(1000, warmup.shortest(p, { overhead_ns = 0.1, resolution_ns = 1 }))
    assert.equal(20000, warmup.shortest(p, { overhead_ns = 2, resolution_ns = 1 }))
    assert.equal(30000, warmup.shortest(p, { overhead_ns = 2, resolution_ns = 30 }))
    local function take(k)
      took[#took + 1] = k
      return { begin_ns = 50, end_ns = 50 + 10 * k }
    end
    assert.same({ 8, 10 }, { warmup.size(take, 80) })
    assert.same({ 1, 2, 4, 8 }, took)
    assert.same({ 12, 10 }, { warmup.size(take, 81, 3) })
    assert.equal(7, warmup.duration { ns = 7, begin_ns = 1, end_ns = 2 })
  end)

  it('of so many calls says what they came to', function()
    local times = { 900, 100, 101, 100 }
    local function take() return { ns = table.remove(times, 1) } end
    local warm = warmup.count(take, 4, 0.02)
    assert.same({ true, 1201, 4, 100, 0.01 }, { warm.steady, warm.ns, warm.calls, warm.per_call_ns,
      warm.spread })
    assert.same({ steady = false, ns = 0, calls = 0 }, warmup.count(take, 0, 0.02))
  end)
end)

describe('a verdict', function()
  local function of(effects, aa, margin, looks)
    return verdict.of({ { effects = effects, aa = aa or {} } }, margin or 0.01, looks or 1)
  end
  local function many(value, n)
    local list = {}
    for i = 1, n do list[i] = value + (i % 2 == 0 and 1 or -1) * 1e-4 * i / n end
    return list
  end

  it('is called beyond the margin and what identical ones show, equal within both', function()
    assert.equal('slower', of(many(0.02, 12)).verdict)
    assert.equal('faster', of(many(-0.02, 12)).verdict)
    assert.equal('equal', of(many(0.001, 12)).verdict)
    assert.equal('open', of(many(0.04, 12), nil, 0.05).verdict) -- equal is at most 3 %
    assert.equal('equal', of(many(0.02, 12), nil, 0.05).verdict)
    assert.equal('open', of(many(0.02, 3)).verdict) -- too few blocks
    assert.equal('open', of(many(0.001, 3)).verdict) -- also for being equal
    -- who looks four times has four chances to be wrong
    local once, often = of(many(0.02, 12)), of(many(0.02, 12), nil, nil, 4)
    assert.near(2 / 2 ^ 12, once.p, 1e-9)
    assert.near(8 / 2 ^ 12, often.p, 1e-9)
    assert.equal(1, of(many(0.02, 3), nil, nil, 9).p)
    local found = of(many(0.02, 12), many(0, 12), 0.01)
    assert.same({ 'slower', false }, { found.verdict, found.aa_fail })
    found = of(many(0.2, 12), many(0.1, 12), 0.01)
    assert.same({ true, 'open' }, { found.aa_fail, found.verdict })
    assert.near(0.1, found.margin, 1e-3)
    assert.near(math.exp(0.2), found.ratio, 1e-3)
  end)

  it('of processes that do not agree in sign is open', function()
    local found = verdict.of({ { effects = many(0.05, 12), aa = {} }, { effects = many(-0.01, 12),
      aa = {} } }, 0.01, 1)
    assert.equal('open', found.verdict)
    assert.same({ 24, 2 }, { found.blocks, found.procs })
    assert.equal('signed rank+t', found.ci_how)
    assert.is_true(found.needed > 12)
  end)
end)

-- SPDX-License-Identifier: MIT
-- The protocol on a made-up machine: what each kind of noise does to the numbers, flags and grades.

local here = debug.getinfo(1, 'S').source:match('^@(.*/)')
local made_up = dofile(here .. 'machine.lua')
local block = require 'ridge.measure.block'
local variation = require 'ridge.measure.variation'
local blame = require 'ridge.blame'
local random = require 'ridge.measure.random'

local CALL_NS = 2e5

local function has(result, flag)
  for _, name in ipairs(result.flags) do
    if name == flag then return true end
  end
  return false
end

-- Measure one point with a given noise on a machine with given signals.
local function measure(noise, setup)
  setup = setup or {}
  local machine = made_up.new(setup.signals)
  local point = { label = 'x', cost = setup.cost, zeros = setup.zeros,
                  window = machine:window(setup.call_ns or CALL_NS, noise or machine:quiet(),
                                          setup.event) }
  local results = block.block({ point }, setup.protocol or 'default',
                              { services = machine:services(), calibration = setup.calibration,
                                between = setup.between })
  return results[1], machine
end

describe('a quiet point', function()
  local r = measure()

  it('is precise, clean, and grade A', function()
    assert.same({}, r.flags)
    assert.equal('A', r.grade)
    assert.equal(0, r.flag_bits)
    assert.equal('precision', r.stop)
    assert.is_true(r.precision <= 0.01)
    assert.equal('fixed', r.thresholds)
  end)

  it('has its time inside its interval, in ns of one call', function()
    assert.is_true(math.abs(r.med / CALL_NS - 1) < 1e-3)
    assert.is_true(r.ci_lo <= r.med and r.med <= r.ci_hi)
    assert.is_true(r.min <= r.p25 and r.p25 <= r.med and r.med <= r.p75 and r.p75 <= r.p95
                   and r.p95 <= r.p99 and r.p99 <= r.max)
    assert.is_true(math.abs(r.first_ns / CALL_NS - 1) < 0.01)
  end)

  it('took five rounds of ten samples of at least half a millisecond', function()
    assert.equal(5, r.rounds)
    assert.equal(50, r.n)
    assert.equal(50, #r.samples)
    assert.equal(50, #r.at)
    assert.equal(50, #r.mark)
    assert.equal(4, r.inner)   -- 4 x 0.2 ms, the first power of two above 0.5 ms
    assert.equal(0, r.at[1])
    for i = 2, 50 do assert.is_true(r.at[i] > r.at[i - 1]) end
    assert.is_true(r.n_eff <= 50 and r.n_eff >= 4)
  end)

  it('knows how many processors the point kept busy', function()
    assert.is_true(math.abs(r.cores - 1) < 1e-9)
    assert.is_true(math.abs(measure(nil, { signals = { cores = 1.9 } }).cores - 1.9) < 1e-9)
  end)

  it('was warm for at least a tenth of a second', function()
    assert.is_true(r.warm_ns >= 1e8 and r.warm_ns < 1e9)
    assert.is_true(r.warm_calls * CALL_NS > 1e8)
  end)
end)

describe('a window', function()
  it('grows for a call of 50 ns until it is worth timing', function()
    local r = measure(nil, { call_ns = 50 })
    assert.is_true(r.inner * 50 >= 5e5 and r.inner * 50 < 1e6 * 1.01)
    assert.is_true(math.abs(r.med / 50 - 1) < 0.01)
  end)

  it('grows with a clock that is slow to read', function()
    local machine = made_up.new()
    machine.clock_facts.overhead_ns = 1000
    local r = block.block({ { window = machine:window(CALL_NS, machine:quiet()) } }, 'default',
                          { services = machine:services() })[1]
    assert.is_true(r.inner * CALL_NS >= 1e7)
  end)

  it('is one call when that is long, and then the budget holds', function()
    local r = measure(nil, { call_ns = 1e9 })
    assert.equal(1, r.inner)
    assert.equal(5, r.rounds)
    assert.is_true(r.n <= 15, r.n)
  end)

  it('of nothing is an error of that point alone', function()
    local machine = made_up.new()
    local results = block.block({
      { label = 'nothing', window = machine:window(0, function() return 0 end) },
      { label = 'something', window = machine:window(CALL_NS, machine:quiet()) },
    }, 'quick', { services = machine:services() })
    assert.truthy(tostring(results[1].error):find('nothing to time', 1, true))
    assert.equal('A', results[2].grade)
  end)
end)

describe('noise', function()
  it('that is plain and large ends at the budget, and says so', function()
    local machine = made_up.new()
    local r = measure(machine:quiet(0.08))
    assert.equal('budget', r.stop)
    assert.equal(20, r.rounds)
    assert.equal(200, r.n)
    assert.is_true(has(r, 'IMPRECISE'))
    assert.equal('C', r.grade)
  end)

  it('that never settles is UNSTEADY after the longest warm-up', function()
    local r = measure(function(i) return i % 2 == 0 and 0.02 or -0.02 end)
    assert.is_true(has(r, 'UNSTEADY'))
    assert.is_true(r.warm_ns >= 3e9 and r.warm_ns < 3.1e9)
    assert.equal('C', r.grade)
  end)

  it('that is wide but centred is WIDE, and GROSS when it is very wide', function()
    local rng = random.new(2)
    local r = measure(function() return 0.10 * rng:normal() end, { protocol = {
      precision = 0.2, warm_max_ns = 2e8 } })
    assert.is_true(has(r, 'WIDE') and not has(r, 'GROSS'))
    r = measure(function() return 0.9 * rng:uniform() end, { protocol = { precision = 0.9 } })
    assert.is_true(has(r, 'GROSS') and not has(r, 'WIDE'))
    assert.equal('C', r.grade)
  end)

  it('that rises is DRIFT', function()
    local machine = made_up.new()
    local quiet = machine:quiet()
    -- the warm-up's windows pass first: 20 ms each, and eight of them
    local r = measure(function(i) return 0.001 * math.max(0, i - 12) + quiet() end)
    assert.is_true(has(r, 'DRIFT'))
    assert.is_true(r.drift > 0.02)
    assert.equal('C', r.grade)
  end)

  it('that remembers is AUTOCORR, and counts for fewer samples', function()
    local rng, x = random.new(8), 0
    local r = measure(function()
      x = 0.9 * x + 0.44 * 0.003 * rng:normal()
      return x
    end)
    assert.is_true(has(r, 'AUTOCORR'))
    assert.is_true(r.r1 > 0.3)
    assert.is_true(r.n_eff < r.n / 2)
    assert.equal('B', r.grade)
  end)

  it('of two kinds is MODES', function()
    local rng = random.new(8)
    local quiet = made_up.new():quiet()
    -- the warm-up passes first, or it would never be steady
    local r = measure(function(i)
      return quiet() + (i > 20 and rng:uniform() < 0.3 and 0.05 or 0)
    end, { protocol = { precision = 0.05 } })
    assert.is_true(has(r, 'MODES'))
    assert.equal('B', r.grade)
  end)

  it('keeps a spike: it is marked and in the numbers', function()
    local machine = made_up.new()
    local quiet = machine:quiet()
    local r = measure(function(i) return quiet() + (i == 30 and 3 or 0) end,
                      { event = function(i) return i == 30 and { involuntary = 2 } or nil end })
    assert.is_true(r.max > 3.5 * CALL_NS)
    local marked = 0
    for i = 1, r.n do
      if r.mark[i] == 1 then
        marked = marked + 1
        assert.is_true(r.samples[i] > 3.5 * CALL_NS)
      end
    end
    assert.equal(1, marked)
    assert.is_false(has(r, 'SWITCHED'))
  end)
end)

describe('the machine', function()
  it('that takes the processor away is SWITCHED', function()
    local r = measure(nil, { event = function(i)
      return i % 5 == 0 and { migrations = 1 } or nil
    end })
    assert.is_true(has(r, 'SWITCHED'))
    assert.equal('B', r.grade)
  end)

  local disturbed = {
    FOREIGN = { busy_cpus = 0.3 },
    STEAL = { steal = 0.02 },
    PRESSURE = { pressure = 0.05 },
    THROTTLE = { throttled = 20 },
    SENTINEL = { sentinel = function(run) return run > 6 and 1.05 or 1 end },
    FREQ = { hz = function(run) return run % 2 == 0 and 3e9 or 3.2e9 end },
    DEBUG = { debug_build = true },
  }
  -- FOREIGN, STEAL and FREQ are seen over the whole only: no round was disturbed by them
  local grades = { FOREIGN = 'A', STEAL = 'A', FREQ = 'A', PRESSURE = 'D', SENTINEL = 'C',
                   THROTTLE = 'D', DEBUG = 'D' }
  for flag, signals in pairs(disturbed) do
    it(('that is disturbed is %s, grade %s'):format(flag, grades[flag]), function()
      local r = measure(nil, { signals = signals })
      assert.is_true(has(r, flag), table.concat(r.flags, ' '))
      assert.equal(grades[flag], r.grade)
    end)
  end

  it('is D where no round is left and the interval knows nothing of it', function()
    local function event() return { involuntary = 1 } end
    for _, flag in ipairs { 'FOREIGN', 'STEAL' } do
      local r = measure(nil, { signals = disturbed[flag], event = event })
      assert.equal(0, r.undisturbed)
      assert.equal('D', r.grade, flag)
      r = measure(nil, { signals = disturbed[flag], event = event, between = variation.PRIOR })
      assert.equal('C', r.grade, flag)
    end
  end)

  it('that was elsewhere for some of the rounds costs those', function()
    -- the reference work of the first three passes is slow, six runs come before
    local r = measure(nil, { signals = { sentinel = function(run)
      return run > 6 and run <= 9 and 1.3 or 1
    end }, protocol = { min_rounds = 8 } })
    assert.equal(r.rounds - 3, r.undisturbed)
    assert.equal('A', r.grade)
  end)

  it('seen from one process is as wide as processes differ', function()
    local alone, known = measure(), measure(nil, { between = { up = 0.3, down = 0.1,
                                                               how = 'trust' } })
    assert.is_true(known.ci_lo < alone.med * math.exp(-0.299))
    assert.is_true(known.ci_hi > alone.med * math.exp(0.099) and known.ci_hi < 1.12 * alone.med)
    assert.equal('rank+t+trust', known.ci_how)
    assert.is_true(has(known, 'IMPRECISE') and known.grade == 'C')
    assert.is_true(known.precision < 0.01, 'what the rounds reached stays what it is')
    local trust = { up = 0.3, down = 0.1 }
    local calibrated = measure(nil, { calibration = { ceilings = {}, trust = trust } })
    assert.is_true(calibrated.ci_lo < alone.med * math.exp(-0.299))
  end)

  it('under a debugger is DEBUG too', function()
    assert.is_true(has(measure(nil, { signals = { debugger = 1 } }), 'DEBUG'))
  end)

  it('says whose fault pressure is', function()
    assert.equal('own', measure(nil, { signals = { pressure = 0.05 } }).host.cause)
    assert.equal('neighbour',
                 measure(nil, { signals = { pressure = 0.05, busy_cpus = 0.5 } }).host.cause)
    assert.equal('hypervisor',
                 measure(nil, { signals = { pressure = 0.05, steal = 0.02 } }).host.cause)
    assert.equal('quota',
                 measure(nil, { signals = { pressure = 0.05, throttled = 20 } }).host.cause)
    assert.is_nil(measure().host.cause)
  end)

  it('that hides its signals is not called clean', function()
    local r = measure(nil, { signals = {
      hidden = { 'busy_ns', 'steal_ns', 'pressure_ns', 'n_throttled' } } })
    assert.same({ 'foreign', 'pressure', 'steal', 'throttled' }, r.host.hidden)
    assert.is_true(r.host.foreign ~= r.host.foreign)
    assert.is_true(r.host.steal ~= r.host.steal)
    assert.same({}, r.flags)
    assert.same({}, measure().host.hidden)
  end)

  it('runs the reference work after every pass, five times before', function()
    local r, machine = measure()
    assert.equal(1 + 5 + r.rounds, machine.sentinel_runs)
  end)
end)

describe('a calibration', function()
  local function calibrated(noise)
    return { ceilings = {}, noise = noise, clock_hz = 3e9 }
  end

  it('moves no limit: the same samples have the same flags and grade', function()
    local shifted = { sentinel = function(run) return run > 6 and 1.05 or 1 end }
    local r = measure(nil, { signals = shifted, calibration = calibrated({ sentinel = 0.06 }) })
    assert.is_true(has(r, 'SENTINEL'))
    assert.equal('fixed', r.thresholds)
    assert.equal('C', r.grade)
    local noisy = { wide = 0.3, precision = 0.3, drift = 0.2, steady = 0.3 }
    local plain = measure(made_up.new():quiet(0.08))
    local known = measure(made_up.new():quiet(0.08), { calibration = calibrated(noisy) })
    assert.same({ plain.flags, plain.grade }, { known.flags, known.grade })
    assert.is_true(has(known, 'IMPRECISE'))
  end)

  it('widens the interval to the reference speed of the machine', function()
    local function with(factor)
      return measure(nil, { signals = { sentinel = function() return factor end },
                            calibration = { ceilings = {}, noise = { sentinel = 0.05 },
                                            reference = { compute_ns = 7e6, memory_ns = 4e6 } } })
    end
    local still, slow, fast = with(1), with(1.05), with(0.95)
    assert.equal('rank+t+shift', still.ci_how)
    assert.is_true((still.ci_hi - still.ci_lo) / still.med < 0.01)
    assert.is_true(slow.ci_lo < 0.96 * slow.med and slow.ci_hi < 1.01 * slow.med)
    assert.is_true(fast.ci_hi > 1.04 * fast.med and fast.ci_lo > 0.99 * fast.med)
    assert.is_true(slow.precision < 0.01, 'what the rounds reached stays what it is')
    assert.is_true(math.abs(slow.sentinel - 0.05) < 1e-9)
    assert.equal('rank+t', measure().ci_how)
  end)

  it('knows the clock', function()
    local r = measure(nil, { calibration = { ceilings = {}, noise = {}, clock_hz = 3.5e9 } })
    assert.is_true(has(r, 'FREQ'))
  end)

  it('knows the roofs', function()
    local roofs = { ceilings = { ['fma.f32'] = { value = 1e11, ci_hi = 1.1e11 },
                                 ['bw.l1'] = { value = 1e11, ci_hi = 1e11 } } }
    local function roof(cost)
      return has(measure(nil, { calibration = roofs, cost = cost }), 'ROOF')
    end
    -- 0.2 ms at 1.1e11 a second are 2.2e7 operations
    assert.is_true(roof({ flops = 2.4e7, bytes = 1, dtype = 'f32' }))
    assert.is_false(roof({ flops = 2.2e7, bytes = 1, dtype = 'f32' }))
    assert.is_true(roof({ flops = 1, bytes = 2.2e7, dtype = 'f32' }))
    assert.is_false(roof({ flops = 2.4e7, bytes = 1, dtype = 'f64' }))
    assert.is_false(roof({}))
  end)
end)

-- Three megabytes of garbage that the compiler cannot optimise away.
local function litter()
  local list = {}
  for i = 1, 40000 do list[i] = { i } end
  return list
end

describe('a block', function()
  local function many(n, protocol, noise)
    local machine, points, log = made_up.new(), {}, {}
    for i = 1, n do
      local take = machine:window(CALL_NS * i, noise or machine:quiet())
      points[i] = { label = 'p' .. i, window = function(k, count)
        if count > 1 then log[#log + 1] = i end
        return take(k, count)
      end }
    end
    local results = block.block(points, protocol or 'default', { services = machine:services() })
    return results, log
  end

  it('shuffles the rounds of its points together', function()
    local results, log = many(4)
    assert.equal(20, #log)
    local orders = {}
    for pass = 0, 4 do
      local seen = {}
      for i = 1, 4 do seen[log[pass * 4 + i]] = true end
      for i = 1, 4 do assert.is_true(seen[i], 'every point in every pass') end
      orders[table.concat(log, ' ', pass * 4 + 1, pass * 4 + 4)] = true
    end
    local n = 0
    for _ in pairs(orders) do n = n + 1 end
    assert.is_true(n >= 3, 'the order changes from pass to pass')
    for i, r in ipairs(results) do
      assert.is_true(math.abs(r.med / (CALL_NS * i) - 1) < 1e-2)
      assert.equal('p' .. i, r.label)
    end
  end)

  it('takes the same order for the same seed, another for another', function()
    local _, a = many(4, { seed = 5 })
    local _, b = many(4, { seed = 5 })
    local _, c = many(4, { seed = 6 })
    assert.same(a, b)
    assert.is_false(table.concat(a) == table.concat(c))
  end)

  it('goes on with those that are not precise yet', function()
    local machine = made_up.new()
    local results = block.block({
      { window = machine:window(CALL_NS, machine:quiet()) },
      { window = machine:window(CALL_NS, machine:quiet(0.08)) },
    }, 'default', { services = machine:services() })
    assert.equal(5, results[1].rounds)
    assert.equal(20, results[2].rounds)
  end)

  it('sees that a point depends on what ran before it', function()
    local machine, last = made_up.new(), nil
    local quiet = machine:quiet()
    local function window(name, slow_after)
      local take = machine:window(CALL_NS, function()
        return quiet() + (last == slow_after and 0.05 or 0)
      end)
      return function(k, n)
        local out = take(k, n)
        if n > 1 then last = name end
        return out
      end
    end
    local function measured(rounds, label)
      return block.block({
        { label = 'a', window = window('a', 'b') },
        { label = label or 'b', window = window('b', 'none') },
        { label = 'c', window = window('c', 'none') },
      }, { min_rounds = rounds, max_rounds = rounds }, { services = machine:services() })
    end
    local results = measured(40)
    assert.is_true(has(results[1], 'ORDER'))
    assert.is_false(has(results[2], 'ORDER'))
    assert.is_false(has(results[3], 'ORDER'))
    -- four rounds are not three after each of two others
    assert.is_false(has(measured(4)[1], 'ORDER'))
    -- what has its own name before it says nothing of another: one group is left
    assert.is_false(has(measured(40, 'a')[1], 'ORDER'))
  end)

  it('tells how it gets on', function()
    local machine, told = made_up.new(), {}
    block.block({ { label = 'x', window = machine:window(CALL_NS, machine:quiet()) } }, 'quick',
                { services = machine:services(), progress = function(label, rounds, half, stop)
                  told[#told + 1] = { label, rounds, half ~= nil, stop }
                end })
    assert.same({ { 'x', 1, false }, { 'x', 2, false }, { 'x', 3, true, 'precision' } }, told)
  end)

  it('keeps the collector out of the windows and sets it going again', function()
    local machine = made_up.new()
    local take, inside, collected = machine:window(CALL_NS, machine:quiet()), false, false
    block.block({ { window = function(k, n)
      inside = true
      for _ = 1, n > 1 and 5 or 0 do
        getmetatable(newproxy(true)).__gc = function() collected = collected or inside end
        litter()
      end
      inside = false
      return take(k, n)
    end } }, { level = 'quick', min_rounds = 10 }, { services = machine:services() })
    assert.is_false(collected)
    -- something dead is found without being asked for; the heap of a long run of tests is large, so
    -- that a cycle needs much litter
    local found = false
    getmetatable(newproxy(true)).__gc = function() found = true end
    for _ = 1, 2000 do
      if found then break end
      litter()
    end
    assert.is_true(found, 'it collects again')
  end)
end)

describe('an interrupt', function()
  it('ends the block with EINTR, wherever it comes', function()
    for at = 1, 8 do
      local machine = made_up.new({ interrupt_at = at })
      local ok, err = pcall(block.block, { { window = machine:window(CALL_NS, machine:quiet()) } },
                            'default', { services = machine:services() })
      -- the first look is in the wait for a quiet machine, the later ones before warm-up and rounds
      if at <= 6 then
        assert.is_false(ok)
        assert.is_true(blame.is_error(err))
        assert.equal('EINTR', err.code)
      end
    end
  end)

  it('from inside a window is not taken for a failure of the point', function()
    local machine, n = made_up.new(), 0
    local take = machine:window(CALL_NS, machine:quiet())
    local ok, err = pcall(block.block, { { window = function(k, count)
      n = n + 1
      if n == 15 then blame.raise('measure: interrupted', 'EINTR') end
      return take(k, count)
    end } }, 'default', { services = machine:services() })
    assert.is_false(ok)
    assert.equal('EINTR', err.code)
  end)

  it('while a failure of one point is its own', function()
    local machine = made_up.new()
    local results = block.block({
      { label = 'bad', window = function() blame.raise('no memory', 'ENOMEM') end },
      { label = 'good', window = machine:window(CALL_NS, machine:quiet()) },
    }, 'default', { services = machine:services() })
    assert.equal('ENOMEM', results[1].error.code)
    assert.is_nil(results[1].med)
    assert.equal('A', results[2].grade)
  end)
end)

describe('wrong arguments', function()
  local function fails(text, ...)
    local ok, err = pcall(...)
    assert.is_false(ok)
    assert.truthy(tostring(err):find(text, 1, true), tostring(err))
  end

  it('are errors with the facts', function()
    local services = made_up.new():services()
    local function window() end
    fails('one or more points', block.block, {})
    fails('one or more points', block.block, 3)
    fails('point 1 is a number', block.block, { 3 })
    fails('unknown field plam', block.block, { { plam = 1 } })
    fails('wants a plan', block.block, { {} })
    fails('one of them', block.block, { { plan = {}, window = window } })
    fails('cost of point 1', block.block, { { window = window, cost = 3 } })
    fails("'precision'", block.block, { { window = window } }, { precison = 0.1 })
    fails('unknown setting speed', block.block, { { window = window } }, 'quick',
          { speed = 1, services = services })
  end)
end)

describe('both cache modes', function()
  local function both(protocol)
    local machine = made_up.new()
    local warm, cold = machine:window(CALL_NS, machine:quiet()),
      machine:window(3 * CALL_NS, machine:quiet())
    local asked = { warm = 0, cold = 0, inner = {} }
    local function window(k, n, is_cold)
      asked[is_cold and 'cold' or 'warm'] = asked[is_cold and 'cold' or 'warm'] + 1
      if is_cold then asked.inner[k] = true end
      return (is_cold and cold or warm)(k, n)
    end
    local results = block.block({ { label = 'x', window = window } }, protocol,
                                { services = machine:services() })
    return results, asked
  end

  it('are results of their own, cold with one call a sample', function()
    local results, asked = both { cache = { 'cold', 'warm' } }
    assert.equal(1, #results)
    local r = results[1]
    assert.same({ 'warm', 'cold' }, { r.cache, r.cold.cache })
    assert.is_true(math.abs(r.med / CALL_NS - 1) < 1e-3)
    assert.is_true(math.abs(r.cold.med / (3 * CALL_NS) - 1) < 1e-3)
    assert.is_true(r.inner > 1)
    assert.equal(1, r.cold.inner)
    assert.same({ [1] = true }, asked.inner)
    assert.is_truthy(r.first_ns)
    assert.is_nil(r.cold.first_ns)
    assert.is_nil(both('default')[1].cold)
    assert.equal('cold', both({ cache = 'cold' })[1].cache)
  end)

  it('are one word in the protocol', function()
    local protocol = require 'ridge.measure.protocol'.protocol
    assert.equal('warm+cold', protocol({ cache = { 'cold', 'warm' } }).cache)
    assert.equal('warm+cold', protocol({ cache = { 'warm', 'cold', 'warm' } }).cache)
    assert.equal('cold', protocol({ cache = { 'cold' } }).cache)
    assert.has_error(function() protocol { cache = { 'lukewarm' } } end)
    assert.has_error(function() protocol { cache = {} } end)
  end)
end)

describe('fixed numbers of calls', function()
  local function counted(over)
    local protocol = { warm_calls = 7, calls = 1, samples = 4, min_rounds = 5, max_rounds = 5,
                       precision = 1e-4, budget_ns = 1e13 }
    for name, value in pairs(over or {}) do protocol[name] = value end
    local asked, machine = {}, made_up.new()
    local window = machine:window(CALL_NS, machine:quiet())
    local r = block.block({ { label = 'x', window = function(k, n, cold)
      asked[#asked + 1] = k * n
      return window(k, n, cold)
    end } }, protocol, { services = machine:services() })[1]
    local sum = 0
    for _, n in ipairs(asked) do sum = sum + n end
    return r, sum
  end

  it('are kept to: the first call, the warm-up, one call before a round, the samples', function()
    local r, calls = counted()
    assert.same({ 20, 1, 5 }, { r.n, r.inner, r.rounds })
    assert.same({ 7, 5 }, { r.warm_calls, r.settle_calls })
    assert.equal(1 + 7 + 5 + 20, calls)
    r, calls = counted { warm_calls = 0, calls = 3 }
    assert.same({ 20, 3, 0, 5 * 3 }, { r.n, r.inner, r.warm_calls, r.settle_calls })
    assert.equal(1 + 15 + 60, calls)
  end)

  it('say UNSTEADY when the warm-up was too short to know', function()
    assert.is_true(has(counted { warm_calls = 2 }, 'UNSTEADY'))
    assert.is_false(has(counted { warm_calls = 20 }, 'UNSTEADY'))
  end)
end)

describe('migrations that the machine hides', function()
  it('are unavailable, not absent', function()
    local r = measure(nil, { event = function() return { migrations = -1 } end })
    assert.same({ 'migrations' }, r.host.hidden)
    assert.same({}, measure(nil).host.hidden)
    assert.same({}, r.flags)
  end)
end)

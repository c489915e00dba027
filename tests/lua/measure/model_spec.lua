-- SPDX-License-Identifier: MIT
--- Results of points, of processes and of calibrations beside the same rules written out plainly,
--- over random samples, marks, clocks and hosts, some of them hidden.

local calibrate = require 'ridge.measure.calibrate'
local device = require 'ridge.measure.device'
local flags = require 'ridge.measure.flags'
local interval = require 'ridge.measure.interval'
local merge = require 'ridge.measure.merge'
local passes = require 'ridge.measure.passes'
local result = require 'ridge.measure.result'
local statistics = require 'ridge.measure.statistics'
local trend = require 'ridge.measure.trend'
local variation = require 'ridge.measure.variation'

local quantile = dofile('tests/lua/measure/ranks.lua').quantile

local NAN = 0 / 0

local plainly = dofile 'tests/lua/measure/plainly.lua'
local seeded, median = plainly.seeded, plainly.median
local same, column = plainly.same, plainly.column

-- The largest by size of those that are known.
local function worst(list)
  local best
  for _, v in ipairs(list) do
    if v == v and (not best or math.abs(v) > math.abs(best)) then best = v end
  end
  return best or NAN
end

-- -- One point -----------------------------------------------------------------------------------

local LIMITS = flags.thresholds()

-- A point of a few rounds, and what was seen around it.
local function random_point(draw, where)
  local point = { label = 'x', cost = { flops = 1e3 * draw(50), dtype = 'f32' },
    work = { bytes = 2 ^ (10 + draw(18)), flops = 1e6 }, device = where or 0, rounds = {},
    samples = {}, at = {}, mark = {}, before = {}, passes = {}, by_device = {},
    inner = 1 + draw(3), stop = 'budget', t0 = 7e9, settle_calls = draw(9), first_ns = 900,
    warm = { ns = 1e6 * draw(9), calls = draw(99), steady = draw(3) > 0, spread = draw(9) / 500 },
    own_cpu = 1000 * (1 + draw(4)), spent = 2000, lua = draw(4) == 0, zeros = draw(5) == 0,
    cache = 'warm', training = draw(7) == 0, reduced = draw(7) == 0, anywhere = draw(2) == 0,
    migrations_hidden = draw(4) == 0 or nil }
  if draw(2) == 0 then point.clock = { name = 'its own' } end
  local seen, shaken = {}, draw(3)
  for r = 1, 2 + draw(9) do
    local round = {}
    for i = 1, 1 + draw(3) do
      local n = #point.samples + 1
      round[i] = 1000 + draw(40) + 150 * (draw(8) == 0 and 1 or 0)
      point.samples[n], point.at[n] = round[i], 3e6 * n + draw(1e6)
      point.mark[n] = shaken == 0 and draw(8) or 4 * draw(2)
      if point.device > 0 then
        point.by_device[n] = { ns = round[i], issue_ns = draw(500), host_ns = 2000 + draw(50),
          waited = draw(20) / 10, clock_mhz = draw(4) > 0 and 1500 + draw(90) or nil }
        if draw(3) > 0 then point.by_device[n].held = draw(4) end
      end
    end
    point.rounds[r], point.passes[r] = round, r + draw(2)
    point.before[r] = draw(4) > 0 and ({ 'a', 'b', 'x' })[1 + draw(3)]
  end
  for p = 1, #point.rounds + 1 do
    local slow = 1 + (draw(3) - 1) * (shaken == 1 and 0.03 or 0.0005)
    seen[p] = { sentinel = { compute_ns = 7e6 * slow, memory_ns = 4e6 * (2 - slow),
      clock_hz = 3e9 + 1e7 * draw(20) }, pressure = draw(6) == 0 and 0.03 or draw(5) == 0 and NAN
      or draw(4) == 0 and 0.02 or nil }
  end
  return point, seen
end

local function random_around(draw, seen)
  local function share(top) return draw(4) == 0 and NAN or draw(2) * draw(10) / 10 * top end
  local around = { limits = LIMITS, passes = seen,
    session = { clock = { name = 'the clock' }, reference = { compute_ns = 7e6, memory_ns = 4e6 },
      facts = { debug_build = draw(9) == 0, debugger = draw(9) == 0 and 1 or 0 } },
    host = { foreign = share(0.1), pressure = share(0.04), steal = share(0.01),
      throttled = draw(5) == 0 and 1 or 0 } }
  if draw(2) == 0 then
    around.calibration = { ceilings = { ['fma.f32'] = { value = 2e10, ci_hi = 2.5e10 } },
      reference = { compute_ns = 7.1e6, memory_ns = 3.9e6 },
      clock_hz = draw(2) > 0 and 3.1e9 or nil, device_hz = draw(2) > 0 and 1.6e9 or nil }
  end
  if draw(2) == 0 then
    around.between = { up = 0.1, down = 0.05, how = 'trust', kinds = { small = { up = 0.3,
      down = 0.2, how = 'trust.small' } } }
  end
  return around
end

-- What a result says of a point, rule by rule.
local function of_point(point, protocol, around)
  local seen, calibration = around.passes, around.calibration
  local out = statistics.summary(point.samples)
  local ci, on_device = point.ci, point.device > 0
  for key, value in pairs { label = 'x', n_eff = ci.n_eff, r1 = ci.r1, ci_lo = ci.lo,
      ci_hi = ci.hi, ci_level = 0.95, ci_how = ci.how, precision = ci.half, rounds = #point.rounds,
      inner = point.inner, stop = 'budget', warm_ns = point.warm.ns, warm_calls = point.warm.calls,
      settle_calls = point.settle_calls, cores = point.own_cpu / 2000, first_ns = 900,
      warm_spread = point.warm.spread, samples = point.samples, at = point.at, mark = point.mark,
      t0_ns = 7e9, cache = 'warm', thresholds = 'fixed',
      work = { flops = point.work.flops, bytes = point.work.bytes },
      clock = point.clock and 'its own' or 'the clock' } do
    out[key] = value
  end
  -- the reference work in the passes it took part in
  local work, hz = { compute_ns = {}, memory_ns = {} }, {}
  for _, p in ipairs(point.passes) do
    table.insert(work.compute_ns, seen[p].sentinel.compute_ns)
    table.insert(work.memory_ns, seen[p].sentinel.memory_ns)
    table.insert(hz, seen[p].sentinel.clock_hz)
  end
  out.reference_work = { compute_ns = median(work.compute_ns), memory_ns = median(work.memory_ns) }
  local reference = calibration and calibration.reference or around.session.reference
  local a = out.reference_work.compute_ns / reference.compute_ns - 1
  local b = out.reference_work.memory_ns / reference.memory_ns - 1
  out.sentinel = math.abs(b) > math.abs(a) and b or a
  out.clock_hz = median(hz)
  out.clock_spread = (quantile(hz, 0.9) - quantile(hz, 0.1)) / out.clock_hz
  local by_device, held = on_device and not point.lua, {}
  if not by_device and (calibration or math.abs(out.sentinel) > 0.02) then
    out.ci_lo, out.ci_hi = ci.lo / (1 + math.max(0, a, b)), ci.hi / (1 + math.min(0, a, b))
    out.ci_how, held.SENTINEL, held.FREQ = ci.how .. '+shift', true, true
  end
  if not by_device and around.between then
    local small = point.work.bytes <= 2 ^ 15
    local way = small and around.between.kinds.small or around.between
    out.ci_lo, out.ci_hi = variation.widen(out.med, out.ci_lo, out.ci_hi, way)
    out.ci_how = out.ci_how .. (small and '+trust.small' or '+trust')
    local n = #point.samples
    out.promises = ('%.2g s of this machine, in one process'):format((point.warm.ns + point.at[n]
      + point.samples[n] * point.inner) / 1e9)
    for _, name in ipairs { 'FOREIGN', 'PRESSURE', 'STEAL', 'FREQ' } do held[name] = true end
  end
  -- rounds without a lost processor, in passes of the usual speed without pressure
  local n, marked = 0, 0
  out.undisturbed = 0
  for r, round in ipairs(point.rounds) do
    local s, good = seen[point.passes[r]], true
    for _ = 1, #round do
      n = n + 1
      local lost = point.mark[n] % 4 > 0
      good, marked = good and not lost, marked + (lost and 1 or 0)
    end
    good = good and math.abs(s.sentinel.compute_ns / reference.compute_ns - 1) <= 0.02
      and math.abs(s.sentinel.memory_ns / reference.memory_ns - 1) <= 0.02
      and not (s.pressure and s.pressure > 0.02)
    out.undisturbed = out.undisturbed + (good and 1 or 0)
  end
  -- the time after each predecessor with three rounds or more
  local after, groups = {}, {}
  for r, round in ipairs(point.rounds) do
    local name = point.before[r]
    if name and name ~= 'x' then
      after[name] = after[name] or {}
      table.insert(after[name], median(round))
    end
  end
  for _, name in ipairs { 'a', 'b' } do
    if after[name] and #after[name] >= 3 then groups[#groups + 1] = after[name] end
  end
  local order_p, order = 1, 0
  if #groups == 2 then order_p, order = statistics.kruskal_wallis(groups) end
  local drift, drift_p = trend.drift(point.at, point.samples)
  local mode_variance, mode_share = statistics.two_means(statistics.sorted(point.samples))
  local sd = around.session.facts
  out.drift, out.iqr, out.marked = drift, (out.p75 - out.p25) / out.med, marked / #point.samples
  out.roof = calibration and point.cost.flops / 2.5e10 * 1e9 / out.med or nil
  local facts = { iqr = out.iqr, half = (out.ci_hi - out.ci_lo) / 2 / out.med,
    target = protocol.precision, steady = point.warm.steady, drift = drift, drift_p = drift_p,
    r1 = ci.r1, mode_variance = mode_variance, mode_share = mode_share, marked = out.marked,
    foreign = around.host.foreign, pressure = around.host.pressure, steal = around.host.steal,
    throttled = around.host.throttled, freq = out.clock_spread, sentinel = out.sentinel,
    order_p = order_p, order = order, roof = out.roof, lua = point.lua, zeros = point.zeros,
    debug = sd.debug_build or sd.debugger == 1, training = point.training,
    reduced = point.reduced }
  if calibration and calibration.clock_hz then facts.clock_shift = out.clock_hz / 3.1e9 - 1 end
  if not on_device then
    out.simulated = point.anywhere and true or nil
  else
    local list, told, back = point.by_device, 0, 0
    for _, w in ipairs(list) do
      told = told + (w.held and 1 or 0)
      back = back + ((w.held or 0) >= 2 and 1 or 0)
    end
    local mhz = column(list, 'clock_mhz')
    out.device, out.state, out.simulated = 'gpu 2', point.state, nil
    out.device_ns, out.issue_ns = median(column(list, 'ns')), median(column(list, 'issue_ns'))
    out.host_ns = median(column(list, 'host_ns'))
    out.held = told > 0 and back / told or nil
    facts.held, facts.waited = out.held, median(column(list, 'waited'))
    if #mhz > 0 then
      out.clock_mhz = median(mhz)
      out.device_clock_spread = (quantile(mhz, 0.9) - quantile(mhz, 0.1)) / out.clock_mhz
      if calibration and calibration.device_hz then
        facts.sustained = out.clock_mhz / 1600
      end
    end
  end
  facts.simulated = out.simulated
  if by_device then
    facts.freq, facts.clock_shift = out.device_clock_spread, nil
    if facts.waited <= 0.9 then
      for _, name in ipairs { 'foreign', 'pressure', 'steal', 'throttled', 'sentinel', 'marked' } do
        facts[name] = nil
      end
    end
  end
  out.flags = flags.judge(facts, LIMITS)
  out.flag_bits = flags.bits(out.flags)
  out.grade = flags.grade(out.flags, flags.excused(out.undisturbed, held))
  local h = around.host
  out.host = { foreign = h.foreign, pressure = h.pressure, steal = h.steal, throttled = h.throttled,
    hidden = {} }
  for _, name in ipairs { 'foreign', 'pressure', 'steal', 'throttled' } do
    if h[name] ~= h[name] then table.insert(out.host.hidden, name) end
  end
  if point.migrations_hidden then table.insert(out.host.hidden, 'migrations') end
  if h.pressure > 0.02 then out.host.cause = flags.pressure_cause(facts, LIMITS) end
  return out
end

describe('the result of a point', function()
  local function compare(where, n, expected)
    local saved = { name = device.name, simulated = device.is_simulated,
      any = device.any_simulated, back = device.is_held_back, modes = device.modes }
    finally(function()
      device.name, device.is_simulated, device.any_simulated = saved.name, saved.simulated,
        saved.any
      device.is_held_back, device.modes = saved.back, saved.modes
    end)
    function device.name(number) return 'gpu ' .. number end
    function device.is_simulated() return false end
    function device.any_simulated() return true end
    function device.is_held_back(held) return held ~= nil and held >= 2 end
    function device.modes() return { tf32 = false } end
    local grades = {}
    for seed = 1, n do
      local draw = seeded(seed)
      local point, seen = random_point(draw, where)
      local around = random_around(draw, seen)
      local protocol = { ci_level = 0.95, precision = draw(2) == 0 and 0.01 or 0.5 }
      point.ci = interval.of_rounds(point.rounds, 0.95)
      local want, got = of_point(point, protocol, around), result.of(point, protocol, around)
      same(want, got, 'seed ' .. seed)
      grades[got.grade] = (grades[got.grade] or 0) + 1
    end
    for grade in expected:gmatch '%a' do assert.is_truthy(grades[grade], grade) end
  end

  it('on the CPU is that of the rules', function() compare(0, 300, 'BCD') end)

  it('on a device is that of the rules', function() compare(2, 200, 'CD') end)

  it('asks for three rounds of a predecessor, and tells an order of three beside twelve', function()
    for few, want in pairs { [2] = 0, [3] = 0.5 } do
      local draw = seeded(5)
      local point, seen = random_point(draw, 0)
      point.rounds, point.samples, point.at, point.mark, point.before = {}, {}, {}, {}, {}
      point.passes = {}
      for r = 1, few + 12 do
        local ns = r % 5 == 3 and r / 5 < few and 1500 or 1000 + r
        point.rounds[r], point.samples[r], point.at[r], point.mark[r] = { ns }, ns, 1e6 * r, 0
        point.before[r], point.passes[r] = ns == 1500 and 'slow' or 'fast', 1
      end
      local around = random_around(draw, seen)
      point.ci = interval.of_rounds(point.rounds, 0.95)
      local got = result.of(point, { ci_level = 0.95, precision = 0.5 }, around)
      local found = false
      for _, name in ipairs(got.flags) do found = found or name == 'ORDER' end
      assert.equal(want > 0, found, few)
    end
  end)

  it('on a device that rounds f32 is held against that ceiling', function()
    local draw = seeded(5)
    local point, seen = random_point(draw, 2)
    local around = random_around(draw, seen)
    point.ci, around.calibration = interval.of_rounds(point.rounds, 0.95), { reference =
      around.session.reference, ceilings = { ['product.f32'] = { value = 1e10 },
      ['product.tf32'] = { value = 4e10 } } }
    local simulated = device.is_simulated
    finally(function() device.is_simulated = simulated end)
    function device.is_simulated() return true end
    for tf32, rate in pairs { [true] = 4e10, [false] = 1e10 } do
      point.tf32 = tf32
      local got = result.of(point, { ci_level = 0.95, precision = 0.1 }, around)
      same(point.cost.flops / rate * 1e9 / got.med, got.roof, 'roof')
      assert.is_true(got.simulated)
    end
  end)
end)

-- -- Several processes ---------------------------------------------------------------------------

local function random_process(draw, i, all)
  local each = 1 + draw(3)
  local r = { label = 'x', rounds = 1 + draw(3), samples = {}, at = {}, mark = {},
    t0_ns = 5e9 + i * 1e7 + draw(1e6), flags = {}, undisturbed = draw(4), inner = 3, cache = 'warm',
    clock = 'tsc', thresholds = 'fixed', ci_how = 'rank+t', warm_ns = draw(100),
    warm_calls = draw(50), settle_calls = draw(20), first_ns = 1000 + draw(90),
    clock_hz = 3e9 + draw(100), cores = 1 + draw(3), drift = (draw(9) - 4) / 100,
    sentinel = draw(5) == 0 and NAN or (draw(9) - 4) / 100, clock_spread = draw(9) / 100,
    warm_spread = draw(3) == 0 and NAN or draw(9) / 100, marked = draw(5) / 10,
    host = { foreign = draw(3) == 0 and NAN or draw(9) / 100, steal = NAN,
      pressure = draw(9) / 100, throttled = draw(2), hidden = draw(2) == 0 and { 'steal' }
      or { 'steal', 'foreign' } } }
  for k = 1, each * r.rounds do
    r.samples[k], r.at[k], r.mark[k] = 1000 + draw(30), 1e5 * k, draw(8)
  end
  r.med = median(r.samples)
  r.ci_lo, r.ci_hi = r.med - 5 - draw(60), r.med + 5 + draw(60)
  for _, name in ipairs { 'FOREIGN', 'IMPRECISE', 'WIDE', 'PRESSURE', 'STEAL', 'FREQ', 'SENTINEL',
      'DRIFT' } do
    if draw(6) == 0 then table.insert(r.flags, name) end
  end
  if all.device then
    r.device, r.simulated, r.device_ns = 'cuda:0', draw(2) == 0 or nil, 900 + draw(20)
    r.issue_ns, r.host_ns = draw(20), 1000 + draw(9)
    r.clock_mhz = draw(5) > 0 and 1500 + draw(9) or nil
    r.held, r.state = draw(3) / 2, { before = { i }, after = { -i } }
  end
  return r
end

local function of_processes(results, protocol)
  local first, rounds, all = results[1], {}, { label = 'x', procs = #results, samples = {}, at = {},
    mark = {} }
  for _, r in ipairs(results) do
    local each = #r.samples / r.rounds
    for k, ns in ipairs(r.samples) do
      if (k - 1) % each == 0 then rounds[#rounds + 1] = {} end
      table.insert(rounds[#rounds], ns)
      table.insert(all.samples, ns)
      table.insert(all.at, r.t0_ns - first.t0_ns + r.at[k])
      table.insert(all.mark, r.mark[k])
    end
  end
  for name, value in pairs(statistics.summary(all.samples)) do all[name] = value end
  local ci = interval.of_rounds(rounds, protocol.ci_level)
  local windows, meds = column(results, 'samples'), column(results, 'med')
  local between = passes.interval(meds, { level = protocol.ci_level, windows = windows })
  local quiet = passes.quiet(windows, { level = protocol.ci_level })
  all.between, all.within, all.quiet = between.between, between.within, quiet and quiet.med
  if #results >= 5 then
    all.med, all.ci_lo, all.ci_hi = between.med, between.lo, between.hi
    all.ci_how = between.method .. '+processes'
    all.precision = (between.hi - between.lo) / 2 / all.med
  else
    local lo, hi = interval.student_of_times(meds, protocol.ci_level)
    lo, hi = math.min(lo, ci.lo), math.max(hi, ci.hi)
    all.precision = (hi - lo) / 2 / all.med
    all.ci_lo = math.min(lo, median(column(results, 'ci_lo')))
    all.ci_hi = math.max(hi, median(column(results, 'ci_hi')))
    all.ci_how = 'rank+t+processes'
  end
  all.ci_level, all.n_eff, all.r1 = protocol.ci_level, ci.n_eff, ci.r1
  all.rounds, all.inner, all.cache, all.clock = #rounds, 3, 'warm', 'tsc'
  all.thresholds, all.t0_ns = 'fixed', first.t0_ns
  all.iqr = (all.p75 - all.p25) / all.med
  for _, name in ipairs { 'drift', 'sentinel', 'clock_spread', 'warm_spread', 'marked' } do
    all[name] = worst(column(results, name))
  end
  for _, name in ipairs { 'warm_ns', 'warm_calls', 'settle_calls' } do
    all[name] = 0
    for _, r in ipairs(results) do all[name] = all[name] + r[name] end
  end
  for _, name in ipairs { 'first_ns', 'clock_hz', 'cores', 'device_ns', 'issue_ns', 'host_ns',
      'clock_mhz', 'held' } do
    if #column(results, name) == #results then all[name] = median(column(results, name)) end
  end
  all.device, all.simulated = first.device, first.simulated
  if first.state then all.state = { before = { 1 }, after = { -#results } } end
  local raised, names, undisturbed, hidden = {}, {}, 0, false
  all.host = { hidden = {} }
  for _, r in ipairs(results) do
    for _, name in ipairs(r.flags) do raised[name] = true end
    undisturbed, hidden = undisturbed + r.undisturbed, hidden or #r.host.hidden == 2
  end
  if hidden then table.insert(all.host.hidden, 'foreign') end
  table.insert(all.host.hidden, 'steal')
  for _, name in ipairs { 'foreign', 'steal', 'pressure', 'throttled' } do
    all.host[name] = worst(column(column(results, 'host'), name))
  end
  raised.IMPRECISE = (all.ci_hi - all.ci_lo) / 2 / all.med > protocol.precision
  local grade = 'A'
  for _, name in ipairs(flags.names()) do
    if raised[name] then
      names[#names + 1] = name
      local own = flags.describe(name).grade
      if own == 'D' then own = undisturbed >= 5 and 'A' or 'C' end -- all that there are here
      if own > grade then grade = own end
    end
  end
  all.flags, all.grade, all.undisturbed, all.flag_bits = names, grade, undisturbed,
    flags.bits(names)
  all.stop = all.precision <= protocol.precision and 'precision' or 'budget'
  return all
end

describe('the result of several processes', function()
  it('is that of the rules', function()
    for seed = 1, 150 do
      local draw = seeded(seed)
      local results, all = {}, { device = draw(2) == 0 }
      for i = 1, 2 + draw(6) do results[i] = random_process(draw, i, all) end
      local protocol = { ci_level = 0.95, precision = ({ 0.01, 0.02, 0.1 })[1 + draw(3)] }
      same(of_processes(results, protocol), merge.processes(results, protocol), 'seed ' .. seed)
    end
  end)

  it('is precise where it is as wide as was asked for', function()
    local results = {}
    for i, ns in ipairs { 998, 1000, 1000, 1000, 1002, 1000 } do
      results[i] = random_process(seeded(1), i, {})
      results[i].samples, results[i].rounds, results[i].med = { ns }, 1, ns
      results[i].flags = { 'IMPRECISE' }
    end
    -- the least and the largest of six are its ends: 2 of 1000 to each side
    local at = merge.processes(results, { ci_level = 0.95, precision = 0.002 })
    assert.same({ 'precision', {}, 'A', 998, 1002 }, { at.stop, at.flags, at.grade, at.ci_lo,
      at.ci_hi })
    local below = merge.processes(results, { ci_level = 0.95, precision = 0.0019999 })
    assert.same({ 'budget', { 'IMPRECISE' }, 'C' }, { below.stop, below.flags, below.grade })
  end)
end)

-- -- Calibration ---------------------------------------------------------------------------------

describe('the noise of a machine', function()
  it('is what all but 2.5 % of identical points stay below', function()
    for seed = 1, 20 do
      local draw = seeded(seed)
      local blocks, all, aa = {}, {}, {}
      for b = 1, 2 + draw(3) do
        blocks[b] = {}
        for i = 1, 4 do
          local r = { iqr = draw(90) / 1000, warm_spread = draw(4) == 0 and NAN or draw(9) / 100,
            drift = (draw(99) - 50) / 1000, clock_spread = draw(99) / 1000, med = 1000 + draw(99),
            host = { steal = NAN, pressure = draw(99) / 1000 }, precision = draw(99) / 1000,
            clock_hz = 3e9 + draw(1e6), reference_work = { compute_ns = 7e6 + draw(1e5),
            memory_ns = 4e6 + draw(1e5) } }
          blocks[b][i], all[#all + 1] = r, r
          for k = 1, i - 1 do aa[#aa + 1] = math.abs(math.log(r.med / blocks[b][k].med)) end
        end
      end
      local function known(f)
        local list = {}
        for _, r in ipairs(all) do
          local v = f(r)
          if v == v then list[#list + 1] = v end
        end
        return list
      end
      local work = { clock_hz = median(column(all, 'clock_hz')),
        compute_ns = median(known(function(r) return r.reference_work.compute_ns end)),
        memory_ns = median(known(function(r) return r.reference_work.memory_ns end)) }
      local shifts = known(function(r)
        return math.abs(r.reference_work.compute_ns / work.compute_ns - 1)
      end)
      for _, r in ipairs(all) do
        shifts[#shifts + 1] = math.abs(r.reference_work.memory_ns / work.memory_ns - 1)
      end
      local noise, state = calibrate.noise_of(blocks)
      same(work, state, 'state')
      local function upper(list) return #list > 0 and quantile(list, 0.975) or nil end
      same({ aa = upper(aa), wide = upper(column(all, 'iqr')),
        steady = upper(known(function(r) return r.warm_spread end)),
        drift = upper(known(function(r) return math.abs(r.drift) end)), sentinel = upper(shifts),
        freq = upper(column(all, 'clock_spread')),
        pressure = upper(known(function(r) return r.host.pressure end)),
        precision = math.max(upper(aa), median(column(all, 'precision'))) }, noise, 'noise')
    end
  end)
end)

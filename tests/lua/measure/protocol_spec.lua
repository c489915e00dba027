-- SPDX-License-Identifier: MIT
local protocols = require 'ridge.measure.protocol'
local flags = require 'ridge.measure.flags'
local host = require 'ridge.measure.host'

local function fails(text, ...)
  local ok, err = pcall(...)
  assert.is_false(ok)
  assert.truthy(tostring(err):find(text, 1, true), tostring(err))
end

it('a session ends where the machine is set otherwise, and not by its clock', function()
  local session = require 'ridge.measure.session'
  local machine = dofile('tests/lua/measure/machine.lua').new()
  local services, protocol = machine:services(), { quiet_ns = 0 }
  local first = session.of(services, protocol)
  machine:advance(1e9) -- what its facts call the frequency
  assert.equal(first, session.of(services, protocol))
  machine.signals.governor = 'powersave'
  assert.not_equal(first, session.of(services, protocol))
end)

describe('a protocol', function()
  it('is a level with the fields that differ', function()
    local p = protocols.protocol()
    assert.equal('default', p.level)
    assert.same({ 5, 20, 10, 0.01, 5e5, 1e8, 3e9 },
                { p.min_rounds, p.max_rounds, p.samples, p.precision, p.window_ns, p.warm_min_ns,
                  p.warm_max_ns })
    p = protocols.protocol('quick')
    assert.same({ 3, 3, 5, 0.03 }, { p.min_rounds, p.max_rounds, p.samples, p.precision })
    p = protocols.protocol({ level = 'quick', samples = 8 })
    assert.same({ 3, 8, 0.03 }, { p.min_rounds, p.samples, p.precision })
    p = protocols.protocol('rigorous')
    assert.is_true(p.precision < protocols.protocol().precision)
    assert.same({ 12, 24, 5 }, { p.passes, p.max_passes, p.processes })
  end)

  it('is whole: taken again it is the same', function()
    for _, level in ipairs{ 'quick', 'demo', 'default', 'rigorous' } do
      local once = protocols.protocol(level)
      assert.same(once, protocols.protocol(once))
      for name, value in pairs(once) do
        assert.is_true(type(value) == 'number' or type(value) == 'string', name)
      end
    end
  end)

  it('keeps its bounds in order', function()
    assert.equal(30, protocols.protocol({ min_rounds = 30 }).max_rounds)
  end)

  it('refuses what it does not know', function()
    fails('quick, demo, default, rigorous', protocols.protocol, 'fast')
    fails('samples', protocols.protocol, { sampels = 3 })
    fails('got number', protocols.protocol, 3)
    -- rows say by which version they were measured: nothing is measured by another one
    fails('version is 1, and what is measured now is of version 2', protocols.protocol,
      { version = 1 })
    assert.equal(2, protocols.protocol({ version = 2 }).version)
    fails('min_rounds', protocols.protocol, { min_rounds = 1 })
    fails('precision', protocols.protocol, { precision = 0 / 0 })
  end)
end)

describe('flags', function()
  it('have a bit each, and come back from them', function()
    local all = flags.names()
    assert.equal(2 ^ #all - 1, flags.bits(all))
    assert.same(all, flags.from_bits(flags.bits(all)))
    assert.same({ 'GROSS', 'STEAL' }, flags.from_bits(flags.bits({ 'STEAL', 'GROSS' })))
    assert.same({}, flags.from_bits(0))
  end)

  it('lead to the worst grade among them', function()
    assert.equal('A', flags.grade({}))
    assert.equal('B', flags.grade({ 'WIDE', 'MODES', 'AUTOCORR', 'SWITCHED' }))
    assert.equal('C', flags.grade({ 'WIDE', 'DRIFT' }))
    assert.equal('D', flags.grade({ 'WIDE', 'DRIFT', 'STEAL' }))
    assert.equal('C', flags.grade({ 'SENTINEL', 'FREQ' }, { SENTINEL = 'held', FREQ = 'held' }))
    assert.equal('D', flags.grade({ 'SENTINEL', 'FREQ' }, { SENTINEL = 'held' }))
    assert.equal('A', flags.grade({ 'SENTINEL', 'FREQ' }, { SENTINEL = 'spared', FREQ = 'spared' }))
    assert.equal('B', flags.grade({ 'WIDE', 'STEAL' }, { STEAL = 'spared' }))
    for _, name in ipairs{ 'GROSS', 'IMPRECISE', 'UNSTEADY', 'DRIFT', 'ORDER', 'LUA', 'ZEROS' } do
      assert.equal('C', flags.describe(name).grade, name)
    end
    for _, name in ipairs{ 'THROTTLE', 'FREQ', 'SENTINEL', 'FOREIGN', 'PRESSURE', 'STEAL', 'ROOF',
                           'DEBUG' } do
      assert.equal('D', flags.describe(name).grade, name)
    end
    assert.is_nil(flags.describe('NONE'))
  end)

  it('of the machine cost the rounds they fell on, and nothing excuses the others', function()
    local all = { 'FOREIGN', 'PRESSURE', 'STEAL', 'FREQ', 'SENTINEL' }
    assert.equal('A', flags.grade(all, flags.excused(5, {})))
    assert.equal('D', flags.grade(all, flags.excused(4, {})))
    local held = {}
    for _, name in ipairs(all) do held[name] = true end
    assert.equal('C', flags.grade(all, flags.excused(4, held)))
    for _, name in ipairs { 'THROTTLE', 'ROOF', 'DEBUG', 'SHARED' } do
      assert.equal('D', flags.grade({ name }, flags.excused(100, { [name] = true })), name)
    end
  end)

  it('of passes: the width of the interval decides, and what half of them had', function()
    local names, grade = flags.of_passes({ {}, { 'FOREIGN', 'UNSTEADY' }, {}, {}, {} }, 0.01, 0.02)
    assert.same({ 'UNSTEADY', 'FOREIGN' }, names)
    assert.equal('A', grade)
    local busy = { 'FOREIGN', 'STEAL', 'SENTINEL', 'DRIFT' }
    names, grade = flags.of_passes({ busy, busy, busy, busy, busy }, 0.3, 0.02)
    assert.same({ 'IMPRECISE', 'DRIFT', 'FOREIGN', 'STEAL', 'SENTINEL' }, names)
    assert.equal('C', grade)
    names, grade = flags.of_passes({ {} }, nil, 0.02)
    assert.same({ 'IMPRECISE' }, names)
    assert.equal('C', grade)
    assert.equal('D', select(2, flags.of_passes({ { 'DEBUG' }, { 'DEBUG' } }, 0.01, 0.02)))
    assert.equal('A', select(2, flags.of_passes({ { 'WIDE' }, {}, {} }, 0.01, 0.02)))
    assert.equal('B', select(2, flags.of_passes({ { 'WIDE' }, { 'WIDE' }, {} }, 0.01, 0.02)))
    -- each pass is imprecise by itself, the whole is not
    names = flags.of_passes({ { 'IMPRECISE' }, { 'IMPRECISE' } }, 0.01, 0.02)
    assert.same({}, names)
  end)

  it('are judged by the same limits on every machine', function()
    local one = flags.thresholds()
    one.wide = 7
    assert.equal(0.1, flags.thresholds({ wide = 0.3, precision = 0.1 }).wide)
    assert.same({ 'IMPRECISE' }, flags.judge({ half = 0.03, target = 0.02 }, flags.thresholds()))
  end)

  it('are raised by nothing that is unknown', function()
    local nan = 0 / 0
    assert.same({}, flags.judge({ target = 0.01, foreign = nan, steal = nan, pressure = nan,
                                  sentinel = nan, freq = nan, roof = nan }, flags.thresholds()))
  end)

  it('say ORDER where the effect is large and beyond chance, and not for one of the two', function()
    local limits = flags.thresholds()
    local function raised(order, p)
      return table.concat(flags.judge({ order = order, order_p = p }, limits), ' ')
    end
    assert.equal('ORDER', raised(0.03, 0.009))
    assert.equal('', raised(0.03, 0.011))
    assert.equal('', raised(0.019, 0.0001))
    assert.equal('', raised(0 / 0, 0.0001))
    assert.equal('', raised(nil, nil))
  end)

  it('of a point given as constant inputs or as Lua', function()
    local limits = flags.thresholds()
    assert.same({ 'LUA', 'ZEROS' },
                flags.judge({ target = 0.01, lua = true, zeros = true }, limits))
  end)
end)

describe('flags of a device', function()
  local limits = flags.thresholds()
  local function raised(facts)
    facts.target = 0.01
    return flags.judge(facts, limits)
  end

  it('are raised by one sample in which it was held back', function()
    assert.same({ 'THROTTLE' }, raised { held = 0.01 })
    assert.same({}, raised { held = 0 })
  end)

  it('are raised far below the clock that it keeps up', function()
    assert.same({ 'THROTTLE' }, raised { sustained = 0.74 })
    assert.same({}, raised { sustained = 0.76 })
  end)

  it('say that it waited, that its clock moved, and that it is none', function()
    assert.same({ 'WAITED' }, raised { waited = 0.95 })
    assert.same({}, raised { waited = 0.85 })
    assert.same({ 'FREQ' }, raised { freq = 0.04 })
    assert.same({ 'SIMULATED' }, raised { simulated = true })
    assert.equal('D', flags.grade { 'SIMULATED' })
    assert.equal('B', flags.grade { 'WAITED' })
  end)
end)

describe('the host between two readings', function()
  local function reading(at, busy, own, steal, pressure, throttled)
    return { at_ns = at, busy_ns = busy, own_ns = own, steal_ns = steal, pressure_ns = pressure,
             n_throttled = throttled, n_cpus = 2 }
  end

  it('gives shares', function()
    local d = host.delta(reading(0, 0, 0, 0, 0, 1), reading(1e9, 1.2e9, 1e9, 2e7, 3e7, 4))
    assert.is_true(math.abs(d.foreign - 0.1) < 1e-12)
    assert.is_true(math.abs(d.steal - 0.01) < 1e-12)
    assert.is_true(math.abs(d.pressure - 0.03) < 1e-12)
    assert.equal(3, d.throttled)
    assert.same({}, host.hidden(d))
    assert.is_false(host.is_quiet(d, 2))
    assert.is_true(host.is_quiet(host.delta(reading(0, 0, 0, 0, 0, 0),
                                            reading(1e9, 1.1e9, 1e9, 0, 0, 0)), 2))
  end)

  it('does not report what it cannot know', function()
    local nan = 0 / 0
    local d = host.delta(reading(0, nan, 0, nan, nan, nan), reading(1e9, nan, 1e9, nan, nan, nan))
    assert.same({ 'foreign', 'pressure', 'steal', 'throttled' }, host.hidden(d))
    assert.is_true(host.is_quiet(d, 2))
    -- 0.1 s on two processors are 20 steps of the counter
    d = host.delta(reading(0, 0, 0, 0, 0, 0), reading(1e8, 2e8, 1e8, 0, 0, 0))
    assert.same({ 'foreign', 'steal' }, host.hidden(d))
  end)

  it('takes a counter that ran behind for nobody', function()
    local d = host.delta(reading(0, 0, 0, 0, 0, 0), reading(1e9, 0.9e9, 1e9, 0, 0, 0))
    assert.equal(0, d.foreign)
  end)
end)

describe('shares of the host over several processes', function()
  it('count each process as own in its own steps', function()
    local function reading(at, busy, own)
      return { at_ns = at, busy_ns = busy, own_ns = own, steal_ns = 0, pressure_ns = 0 / 0,
               n_throttled = 0, n_cpus = 2 }
    end
    local steps = {}
    for i = 1, 2 do
      steps[i] = host.step(reading(5e9 * i, 9e9, 100 * i), reading(5e9 * i + 1e9, 9e9 + 1.1e9,
        100 * i + 1e9))
    end
    local delta = host.over(steps)
    assert.equal(2e9, delta.wall_ns)
    assert.is_true(math.abs(delta.foreign - 0.2e9 / 4e9) < 1e-9)
    assert.same({ 'pressure' }, host.hidden(delta))
  end)
end)

-- The flags of a device's point, whose own signals no made-up host has.
describe('what disturbs the host', function()
  local function local_of(f, name)
    for i = 1, math.huge do
      local found, value = debug.getupvalue(f, i)
      assert(found, 'there is no ' .. name)
      if found == name then return value end
    end
  end

  it('is told beside how far the readings of a device\'s own clock spread', function()
    local spread_of = local_of(local_of(require('ridge.measure.result').of, 'device_side'),
      'spread_of')
    local function of(...)
      local list = {}
      for i, mhz in ipairs { ... } do list[i] = { clock_mhz = mhz or nil } end
      return spread_of(list)
    end
    assert.is_nil(of())
    assert.is_nil(of(false, false))
    assert.equal(0, of(1500))
    assert.equal(0, of(false, 1500, false))
    assert.near(0.8 * 500 / 1500, of(1250, 1750), 1e-12)
    assert.near(80 / 150, of(200, 190, 180, 170, 160, 150, 140, 130, 120, 110, 100), 1e-12)
  end)

  it('is no fault of a device that did not wait for it', function()
    local spare_host = local_of(require('ridge.measure.result').of, 'spare_host')
    local HOST = { 'foreign', 'pressure', 'steal', 'throttled', 'sentinel', 'marked' }
    for waited, spared in pairs { [0] = true, [0.1] = true, [0.2] = false } do
      local facts = { waited = waited, freq = 0.3, clock_shift = 0.4, other = 1 }
      for _, name in ipairs(HOST) do facts[name] = 0.5 end
      spare_host(facts, { waited = 0.1 }, { device_clock_spread = 0.01 })
      for _, name in ipairs(HOST) do assert.equal(not spared and 0.5 or nil, facts[name], name) end
      assert.same({ 0.01, 1 }, { facts.freq, facts.other })
      assert.is_nil(facts.clock_shift)
    end
  end)
end)

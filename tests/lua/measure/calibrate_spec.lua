-- SPDX-License-Identifier: MIT
-- What a calibration makes of results, and that its own blocks then pass its own limits.

local here = debug.getinfo(1, 'S').source:match('^@(.*/)')
local made_up = dofile(here .. 'machine.lua')
local block = require 'ridge.measure.block'
local calibrate = require 'ridge.measure.calibrate'

-- Identical points on a machine whose speed wanders by some per cent, as a shared guest's does.
local function guest(wander)
  local machine = made_up.new()
  local mood, left = 0, 0
  local function state()
    if left == 0 then
      left = 25
      mood = wander * machine.random:normal()
    end
    left = left - 1
    return mood
  end
  machine.signals.sentinel = function() return 1 + mood end
  machine.signals.hz = function() return 3e9 * (1 - mood / 2) end
  local function points(n)
    local list = {}
    for i = 1, n do
      list[i] = { label = 'A/A ' .. i,
                  window = machine:window(1e6, function()
                    return state() + 0.003 * machine.random:normal()
                  end) }
    end
    return list
  end
  return machine, points
end

local function blocks_of(wander, n, calibration)
  local machine, points = guest(wander)
  local blocks = {}
  for b = 1, n do
    blocks[b] = block.block(points(4), { level = 'demo', seed = b },
                            { services = machine:services(), calibration = calibration })
  end
  return blocks
end

local function share_of_grade(blocks, grade)
  local n, all = 0, 0
  for _, results in ipairs(blocks) do
    for _, r in ipairs(results) do
      all = all + 1
      if r.grade == grade then n = n + 1 end
    end
  end
  return n / all
end

describe('the noise of identical points', function()
  it('is small on a still machine ', function()
    local noise, state = calibrate.noise_of(blocks_of(0, 3))
    assert.is_true(noise.aa < 0.005 and noise.sentinel < 0.001 and noise.freq < 0.001)
    assert.is_true(math.abs(state.clock_hz / 3e9 - 1) < 1e-3)
    assert.is_true(math.abs(state.compute_ns / 7e6 - 1) < 1e-3)
  end)

  it('goes with wide intervals on a machine that wanders, not with D', function()
    local before = blocks_of(0.03, 6)
    assert.is_true(share_of_grade(before, 'D') < 0.1, 'the intervals say that the machine moved')
    local noise, state = calibrate.noise_of(before)
    local calibration = { ceilings = {}, noise = noise, clock_hz = state.clock_hz,
                          reference = state }
    local after = blocks_of(0.03, 6, calibration)
    assert.is_true(share_of_grade(after, 'D') < 0.1)
    -- and the intervals hold what the points would take at the reference speed, 1 ms
    local held, all = 0, 0
    for _, results in ipairs(after) do
      for _, r in ipairs(results) do
        all = all + 1
        if r.ci_lo <= 1e6 and 1e6 <= r.ci_hi then held = held + 1 end
      end
    end
    assert.is_true(held / all >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / all), held / all)
  end)

  it('is not measured by hidden signals', function()
    local machine, points = guest(0)
    machine.signals.hidden = { 'steal_ns', 'pressure_ns' }
    local noise = calibrate.noise_of({ block.block(points(4), 'demo',
                                                   { services = machine:services() }) })
    assert.is_nil(noise.steal)
    assert.is_nil(noise.pressure)
    assert.is_true(noise.aa >= 0)
  end)
end)

describe('rows of a calibration', function()
  local rows = {
    { name = 'fma.f32', threads = 2, value = 4e11, ci_hi = 4.2e11 },
    { name = 'fma.f32', threads = 1, value = 2e11 },
    { name = 'noise.aa', threads = 2, value = 0.01 },
    { name = 'clock', threads = 2, value = 3e9 },
    { name = 'sentinel.compute', threads = 2, value = 7e6 },
    { name = 'sentinel.memory', threads = 2, value = 4e6 },
  }

  it('come back by name, of one thread count', function()
    local c = calibrate.calibration(rows, 2)
    assert.equal(4e11, c.ceilings['fma.f32'].value)
    assert.same({ aa = 0.01 }, c.noise)
    assert.equal(3e9, c.clock_hz)
    assert.same({ compute_ns = 7e6, memory_ns = 4e6 }, c.reference)
    c = calibrate.calibration(rows, 1)
    assert.equal(2e11, c.ceilings['fma.f32'].value)
    assert.is_nil(c.noise)
    assert.is_nil(calibrate.calibration(rows, 4))
    assert.is_nil(calibrate.calibration({}, 1))
  end)
end)

describe('a calibration', function()
  local ridge = require 'ridge'

  -- asked to come to an end after so many looks; how often it looked
  local function stopped_after(looks, given)
    local before, seen = ridge.stopping, 0
    ridge.stopping = function()
      seen = seen + 1
      return seen > looks
    end
    local ok, err = pcall(calibrate.calibrate, given)
    ridge.stopping = before
    assert.is_false(ok)
    assert.equal('EINTR', err.code)
    return seen
  end

  it('ends where it is when it is asked to: among ceilings', function()
    assert.equal(2, stopped_after(1, { quick = true, noise = false, kinds = { 'fma.f32' },
                                       threads = 1 }))
    assert.equal(4, stopped_after(3, { quick = true, noise = false, kinds = { 'fma.f32.base' },
                                       threads = 1 }))
  end)

  it('says what it is at', function()
    local said = {}
    calibrate.calibrate { quick = true, noise = false, kinds = { 'fma.f32.base' }, threads = 1,
      progress = function(text) said[#said + 1] = text end }
    assert.equal('ceilings, threads = 1', said[1])
  end)

  it('and inside a block of the noise', function()
    local machine, points = guest(0)
    assert.equal(6, stopped_after(5, { quick = true, ceilings = false, points = points,
                                       services = machine:services() }))
    assert.is_true(machine.time < 3e10)
  end)

  it('takes its noise from blocks that nothing disturbed, or says that there are none', function()
    local function noise_of(signals)
      local machine, points = guest(0)
      for name, value in pairs(signals) do machine.signals[name] = value end
      local said, names = {}, {}
      for _, row in ipairs(calibrate.calibrate { quick = true, ceilings = false, points = points,
          services = machine:services(), progress = function(text) said[#said + 1] = text end }) do
        names[row.name] = row.value
      end
      return names, said[#said]
    end
    local still, all = noise_of({}), {}
    assert.is_true(still['noise.aa'] < 0.005)
    for name in pairs(still) do all[#all + 1] = name end
    table.sort(all)
    assert.equal('clock noise.aa noise.drift noise.freq noise.precision noise.pressure '
      .. 'noise.sentinel noise.steady noise.steal noise.wide sentinel.compute sentinel.memory',
      table.concat(all, ' '))
    assert.same({ 3e9, 7e6, 4e6 }, { still.clock, still['sentinel.compute'],
      still['sentinel.memory'] })
    local names, said = noise_of { busy_cpus = 1 }
    assert.is_nil(next(names))
    assert.matches('other processes ran in 6 of 6 blocks', said)
  end)
end)

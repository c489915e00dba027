-- SPDX-License-Identifier: MIT
local here = debug.getinfo(1, 'S').source:match('^@(.*/)')
local made_up = dofile(here .. 'machine.lua')
local protocols = require 'ridge.measure.protocol'
local warmup = require 'ridge.measure.warmup'

describe('steady', function()
  it('is three windows close together', function()
    assert.is_true(warmup.is_steady({ 9, 3, 5, 8, 2, 100, 100.5, 101 }, 0.01, 8))
    assert.is_false(warmup.is_steady({ 9, 3, 5, 8, 2, 100, 100.5, 101.1 }, 0.01, 8))
  end)

  it('is not fewer than eight windows', function()
    assert.is_false(warmup.is_steady({ 1, 1, 1, 1, 1, 1, 1 }, 0.01, 8))
    assert.is_true(warmup.is_steady({ 1, 1, 1, 1, 1, 1, 1, 1 }, 0.01, 8))
  end)

  it('is not a slow fall, however close the last three are', function()
    local falling = {}
    for i = 1, 20 do falling[i] = 100 - 0.1 * i end
    assert.is_false(warmup.is_steady(falling, 0.01, 8))
  end)

  it('looks at the last eight only', function()
    local times = { 900, 800, 700, 600, 500, 400, 300, 200 }
    for _, t in ipairs{ 100, 101, 100, 101, 100, 101, 100, 100.5 } do times[#times + 1] = t end
    assert.is_true(warmup.is_steady(times, 0.01, 8))
  end)
end)

describe('a warm-up', function()
  local function warm(noise, fields)
    local machine = made_up.new()
    local take = machine:window(1e6, noise)
    return warmup.run(function(k) return take(k, 1)[1] end, 1e6, protocols.protocol(fields), 0.01)
  end

  it('lasts as long as the protocol says at least', function()
    local w = warm(function() return 0 end, { warm_min_ns = 1e9 })
    assert.is_true(w.steady and w.ns >= 1e9 and w.ns < 1.03e9)
    w = warm(function() return 0 end, { warm_min_ns = 0 })
    assert.is_true(w.steady and w.ns >= 8 * 2e7 and w.ns < 9 * 2e7)
  end)

  it('waits until a slow start is over', function()
    local w = warm(function(i) return i < 30 and 1 - i / 30 or 0 end)
    assert.is_true(w.steady)
    assert.is_true(w.calls > 30 * 20)
    assert.is_true(math.abs(w.per_call_ns / 1e6 - 1) < 0.01)
    assert.is_true(w.spread < 0.01)
  end)

  it('gives up at its limit, and says so', function()
    local w = warm(function(i) return i % 2 end, { warm_max_ns = 1e9 })
    assert.is_false(w.steady)
    assert.is_true(w.ns >= 1e9 and w.ns < 1.1e9)
  end)

  it('takes three windows that agree when calls are too long for eight', function()
    local machine = made_up.new()
    local take = machine:window(1e9, function() return 0 end)
    local w = warmup.run(function(k) return take(k, 1)[1] end, 1e9, protocols.protocol(), 0.01)
    assert.is_true(w.steady)
    assert.equal(3, w.calls)
  end)
end)

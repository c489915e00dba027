-- SPDX-License-Identifier: MIT
local here = debug.getinfo(1, 'S').source:match('^@(.*/)')
local block = require 'ridge.measure.block'
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

describe('what another point left in the caches', function()
  -- times of the calls in turn, the last one for ever
  local function settled(times, k)
    local i, asked = 0, {}
    local calls = warmup.settle(function(n)
      i = i + 1
      asked[i] = n
      return { ns = n * (times[i] or times[#times]) }
    end, k or 1)
    local sum = 0
    for _, n in ipairs(asked) do sum = sum + n end
    assert.equal(sum, calls)
    return calls
  end

  it('goes with the calls, of which the first two may be alike', function()
    -- 128 MB read and written beside as much of another point, ms: an L3 of 300 MB
    assert.equal(7, settled { 8.374e6, 7.957e6, 5.823e6, 4.481e6, 4.49e6, 4.5e6, 4.48e6 })
    assert.equal(7, settled { 8.357e6, 8.330e6, 6.317e6, 4.545e6, 4.54e6, 4.55e6, 4.54e6 })
  end)

  it('is gone behind three calls that were no faster', function()
    assert.equal(4, settled { 5e6 })
    assert.equal(4, settled { 5e6, 5.5e6, 4.95e6, 6e6 })
  end)

  it('is waited for eight calls at most', function()
    local falling = {}
    for i = 1, 20 do falling[i] = 1e6 * 0.9 ^ i end
    assert.equal(8, settled(falling))
    assert.equal(9, settled(falling, 3))
  end)

  it('is gone within a window of many calls', function()
    assert.equal(8, settled({ 1e5 }, 8))
    assert.equal(1000, settled({ 1e3 }, 1000))
  end)

  it('takes no longer than a cache takes to be filled', function()
    assert.equal(1, settled { 1e9, 1e8 })
    assert.equal(2, settled { 6e7 })
    assert.equal(3, settled { 5e7 })
  end)
end)

describe('points that take a cache from each other', function()
  -- a call takes twice its time, where the two before it were not of the same point
  it('are timed as if each were alone, in whatever order', function()
    for seed = 1, 10 do
      local machine, last, run = made_up.new(), nil, 0
      local points = {}
      for i = 1, 2 do
        points[i] = { label = tostring(i), window = function(k, n)
          local out = {}
          for w = 1, n do
            local ns = 0
            for _ = 1, k do
              run = last == i and run + 1 or 1
              last = i
              ns = ns + (run <= 2 and 4e6 or run == 3 and 3e6 or 2e6)
            end
            out[w] = machine:window(ns / k, function() return 0 end)(k, 1)[1]
          end
          return out
        end }
      end
      local protocol = protocols.of_pass(protocols.protocol { seed = seed })
      for _, r in ipairs(block.block(points, protocol, { services = machine:services() })) do
        assert.same({ 2e6, 2e6, 2e6 }, r.samples)
      end
    end
  end)
end)

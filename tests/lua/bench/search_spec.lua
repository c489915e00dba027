-- SPDX-License-Identifier: MIT
-- F104-F107: the searches for the best batch size, on made-up machines.

local fit = require 'ridge.bench.fit'
local throughput = require 'ridge.bench.throughput'

local function batches(found)
  local out = {}
  for i, try in ipairs(found.tries) do out[i] = try.batch end
  return out
end

describe('the largest batch that fits', function()
  -- 100 bytes a sample, 50 for the model; above `hard` the allocator refuses
  local function machine(hard)
    return function(batch)
      local need = 50 + 100 * batch
      if need > hard then return { oom = true, message = 'no room' } end
      return { peak = need }
    end
  end

  it('is doubled and then bisected, to the sample', function()
    local found = fit.search(machine(1e9), { min = 1, max = 1000, budget = 2450 })
    assert.equal(24, found.best)
    assert.equal('memory', found.stop)
    assert.same({ 1, 2, 4, 8, 16, 32, 24, 28, 26, 25 }, batches(found))
    assert.equal('a batch of 25 needs 0.002432 MB, more than 0.002337 MB', found.reason)
    for _, try in ipairs(found.tries) do assert.equal(try.batch <= 24, try.fits) end
  end)

  it('is found by real tries whatever the limit', function()
    for limit = 150, 4000, 37 do
      local best = math.floor((limit - 50) / 100)
      assert.equal(best, fit.search(machine(1e9), { min = 1, max = 64, budget = limit }).best)
      assert.equal(best, fit.search(machine(limit), { min = 1, max = 64, budget = 1e9 }).best)
    end
  end)

  it('goes on after an out-of-memory, and says what it said', function()
    local found = fit.search(machine(1000), { min = 1, max = 1000, budget = 1e9 })
    assert.equal(9, found.best)
    assert.equal('a batch of 10 ran out of memory: no room', found.reason)
  end)

  it('tries the largest batch itself, and no larger one', function()
    local found = fit.search(machine(1e9), { min = 3, max = 20, budget = 1e9 })
    assert.same({ 3, 6, 12, 20 }, batches(found))
    assert.same({ 20, 'max' }, { found.best, found.stop })
    assert.equal(20, fit.search(machine(1e9), { min = 20, max = 20, budget = 1e9 }).best)
  end)

  it('is none when not even the least fits', function()
    local found = fit.search(machine(100), { min = 1, max = 20, budget = 1e9 })
    assert.is_nil(found.best)
    assert.equal(1, #found.tries)
    assert.truthy(found.reason:find 'not even a batch of 1 fits: it ran out of memory')
  end)
end)

describe('the best throughput', function()
  -- rate(batch) samples a second, known to a relative half-width
  local function machine(rate, width, over)
    local pairs_seen = {}
    local function result(batch)
      local ns = batch * 1e9 / rate(batch)
      return { med = ns, ci_lo = ns * (1 - width), ci_hi = ns * (1 + width), flags = {},
               grade = over and over.grade and over.grade(batch) or 'A' }
    end
    return function(best, batch)
      pairs_seen[#pairs_seen + 1] = ('%s:%d'):format(best or '-', batch)
      if over and over.oom and batch >= over.oom then return { oom = true, message = 'no room' } end
      return { result = result(batch), peak = 10 * batch }, best and result(best) or nil
    end, pairs_seen
  end
  local function search(measure, over)
    local opt = { min = 1, max = 256, budget = 1e9, least = 0.01 }
    for name, value in pairs(over or {}) do opt[name] = value end
    return throughput.search(measure, opt)
  end
  local function saturating(batch) return 1e6 * math.min(batch, 16) end

  it('stops when the intervals rule a gain out twice in a row', function()
    local measure, seen = machine(saturating, 0.002)
    local found = search(measure)
    assert.equal(16, found.best)
    assert.equal('no gain', found.stop)
    assert.same({ 1, 2, 4, 8, 16, 32, 64 }, batches(found))
    assert.equal('batches up to 64 gain at most +0.4 % over 16, and +1.0 % is the least that '
      .. 'counts', found.reason)
    -- each is measured in one block with the best so far
    assert.same({ '-:1', '1:2', '2:4', '4:8', '8:16', '16:32', '16:64' }, seen)
  end)

  it('does not stop where the noise hides a gain: a wide interval rules nothing out', function()
    local found = search((machine(saturating, 0.05)))
    assert.equal('max', found.stop)
    assert.equal(256, found.tries[#found.tries].batch)
    assert.truthy(found.reason:find '4 batches were too noisy to tell')
    -- and gives no batch credit for a gain that is not shown
    found = search((machine(function(b) return 1e6 * (1 + 0.01 * math.log(b)) end, 0.05)))
    assert.equal(1, found.best)
  end)

  it('says what is lost where larger batches only lose', function()
    local function falling(batch) return batch == 2 and 2e6 or 1e6 end
    local found = search((machine(falling, 0.002)))
    -- at most 1e6 / 0.998 over at least 2e6 / 1.002: 1.002 / 1.996 - 1 = -0.49800
    assert.equal('batches up to 8 gain at most -49.8 % over 2, and +1.0 % is the least that counts',
      found.reason)
  end)

  it('gets over a single dip', function()
    local function dip(batch) return batch == 8 and 1e6 or 1e6 * math.min(batch, 32) end
    assert.equal(32, search((machine(dip, 0.002))).best)
  end)

  it('holds a batch against the best as it is now, not as it was', function()
    local slow = 1
    local function slowing(batch) return 1e6 * batch ^ 0.5 / slow end
    local measure = machine(slowing, 0.002)
    local found = search(function(best, batch)
      slow = slow * 2 -- the machine is half as fast each time
      return measure(best, batch)
    end)
    assert.same({ 256, 'max' }, { found.best, found.stop })
    assert.equal('256 is the largest batch that was asked for', found.reason)
    assert.is_false(found.unsure)
  end)

  it('lets disturbed points decide nothing', function()
    local found = search((machine(saturating, 0.002, { grade = function() return 'D' end })))
    assert.same({ 1, 'max', 16, true }, { found.best, found.stop, found.highest, found.unsure })
    found = search((machine(saturating, 0.002, { grade = function(b)
      return b == 4 and 'D' or 'A'
    end })))
    assert.equal('disturbed', found.tries[3].verdict)
    assert.equal(16, found.best)
  end)

  it('stops at the share of the memory, measured or refused', function()
    local found = search((machine(function(b) return b * 1e6 end, 0.002)), { budget = 100 })
    assert.same({ 8, 'memory', 16 }, { found.best, found.stop, found.tries[#found.tries].batch })
    found = search((machine(function(b) return b * 1e6 end, 0.002, { oom = 64 })))
    assert.same({ 32, 'memory' }, { found.best, found.stop })
    assert.equal('a batch of 64 ran out of memory: no room', found.reason)
  end)

  it('goes by a step, and to the largest exactly', function()
    local found = search((machine(function(b) return b * 1e6 end, 0.002)),
      { min = 8, max = 30, step = 8 })
    assert.same({ 8, 16, 24, 30 }, batches(found))
    assert.same({ 30, 'max' }, { found.best, found.stop })
  end)

  it('ends when its time is over', function()
    local now = 0
    local found = search((machine(function(b) return b * 1e6 end, 0.002)), { seconds = 3,
      now = function()
        now = now + 1
        return now
      end })
    assert.equal('time', found.stop)
    assert.equal(3, #found.tries)
  end)

  it('bounds nothing by an interval that reaches below 0', function()
    local rate = throughput.rate(4, { med = 1e6, ci_lo = -1, ci_hi = 2e6 })
    assert.same({ 4000, 2000, math.huge }, { rate.value, rate.lo, rate.hi })
    local verdict = throughput.verdict({ lo = 1, hi = 2 }, rate, 0.01)
    assert.equal('gain', verdict)
    assert.equal('open', (throughput.verdict({ lo = 1900, hi = 2100 }, rate, 0.01)))
  end)
end)

describe('a rate', function()
  it('is bounded where its time is above nothing', function()
    for _, case in ipairs { { 2, 1, 4, 1e9 }, { 0.5, 0.25, 1, 4e9 }, { 1, 0, 2, math.huge },
        { 1, -3, 2, math.huge } } do
      local rate = throughput.rate(1, { med = case[1], ci_lo = case[2], ci_hi = case[3] })
      assert.same({ value = 1e9 / case[1], lo = 1e9 / case[3], hi = case[4] }, rate)
    end
    assert.same({ value = 8e9, lo = 4e9, hi = 16e9 },
      throughput.rate(16, { med = 2, ci_lo = 1, ci_hi = 4 }))
  end)
end)

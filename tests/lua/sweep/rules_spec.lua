-- SPDX-License-Identifier: MIT
--- Parts of sweeps, the order of their points, lists of values, and the search for what fits: over
--- their whole input, by second implementations.

local ffi = require 'ffi'
local canonical = require 'ridge.store.canonical'
local coarse = require 'ridge.sweep.coarse'
local fit = require 'ridge.bench.fit'
local metrics = require 'ridge.bench.metrics'
local part = require 'ridge.sweep.part'
local values = require 'ridge.sweep.values'

ffi.cdef 'int setenv(const char *, const char *, int); int unsetenv(const char *);'

local function failure(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return err.message
end

describe('a part of a sweep', function()
  it('lasts as long as it is told', function()
    for text, seconds in pairs { ['90s'] = 90, ['15m'] = 900, ['2h'] = 7200, ['1h30m'] = 5400,
        ['1d'] = 86400, ['1.5h'] = 5400, ['2 h 5 s'] = 7205, ['7'] = 7, ['0.5'] = 0.5 } do
      assert.equal(seconds, part.seconds(text), text)
    end
    assert.equal(12, part.seconds(12))
    assert.is_nil(part.seconds(nil))
    for _, bad in ipairs { '', '0', 0, -1, '5x', 'h', '1h x', '1..5h', 'inf', 1 / 0, '-2h',
        '1h-' } do
      assert.matches("is no duration; expected seconds, '90s'", failure(part.seconds, bad), 1, true)
    end
  end)

  it('is one of n', function()
    assert.same({ i = 1, n = 8 }, part.shard '2/8')
    assert.same({ i = 0, n = 1 }, part.shard '1/1')
    assert.same({ i = 7, n = 8 }, part.shard '8/8')
    assert.same({ i = 0, n = 1e6 }, part.shard '1/1000000')
    for _, bad in ipairs { '0/8', '9/8', '1/1000001', '1', '/8', '1/', 'a/b', '1/2/3', '-1/8',
        '1.0/8' } do
      assert.matches('is not like 2/8, the second of eight', failure(part.shard, bad))
    end
  end)

  it('is that of a task of an array job', function()
    local function of(id, n, first, last)
      local given = { ID = id, COUNT = n, MIN = first, MAX = last }
      for _, name in ipairs { 'ID', 'COUNT', 'MIN', 'MAX' } do
        local full = 'SLURM_ARRAY_TASK_' .. name
        if given[name] then ffi.C.setenv(full, tostring(given[name]), 1)
        else ffi.C.unsetenv(full) end
      end
      local ok, found = pcall(part.shard, nil)
      for name in pairs(given) do ffi.C.unsetenv('SLURM_ARRAY_TASK_' .. name) end
      if not ok then return found.message end
      return found and ('%d of %d'):format(found.i, found.n) or 'everything'
    end
    assert.equal('everything', of(nil, nil))
    assert.matches('SLURM_ARRAY_TASK_ID is 1, and nothing says of how many', of(1, nil))
    assert.equal('everything', of(nil, 4))
    assert.matches('nothing says of how many tasks', of(1, 0))
    assert.equal('0 of 1', of(5, 1, 5, 5))
    assert.equal('1 of 4', of(5, 4)) -- by its remainder
    assert.equal('1 of 4', of(5, 4, nil, 8))
    assert.equal('1 of 4', of(5, 4, 2, nil))
    assert.equal('1 of 4', of(5, 4, 2, 5))
    assert.equal('0 of 4', of(8, 4, 5, 8))
    for k = 0, 3 do assert.equal(k .. ' of 4', of(10 + 5 * k, 4, 10, 25)) end
    assert.matches('the tasks 1 to 9 of this array job are 3 in uneven steps, so 4 says nothing',
      of(4, 3, 1, 9))
  end)
end)

describe('coarse points', function()
  -- The first rung on which position i of n is one of the cuts of the row into 2 ^ rung parts.
  local function rung_of(i, n)
    for rung = 1, 20 do
      local parts = 2 ^ rung
      for j = 0, parts do
        if math.floor(j * (n - 1) / parts + 0.5) + 1 == i then return rung end
      end
    end
  end

  it('are the ends and the middle, then what halves the gaps', function()
    for n = 1, 33 do
      local axis, points = { name = 'x', values = {} }, {}
      for i = 1, n do
        axis.values[i] = i * i
        points[i] = { params = { x = i * i } }
      end
      coarse.rank({ axis }, points)
      for i = 1, n do assert.equal(rung_of(i, n), points[i].rung, i .. ' of ' .. n) end
    end
  end)

  it('are as fine as their finest coordinate; words and random ones come at once', function()
    local axes = { { name = 'x', values = { 1, 2, 3, 4, 5 } }, { name = 'y', values = { 1, 2, 3 } },
      { name = 'w', values = { 'a', 'b', 'c', 'd' } }, { name = 'r', values = {} } }
    local points = {}
    for x = 1, 5 do
      for y = 1, 3 do
        points[#points + 1] = { params = { x = x, y = y, w = ('abcd'):sub(y, y), r = x / 7 } }
      end
    end
    points[#points + 1] = { params = { y = 2 } } -- x does not apply
    coarse.rank(axes, points)
    for i = 1, 15 do
      local x = points[i].params.x
      assert.equal((x == 2 or x == 4) and 2 or 1, points[i].rung)
    end
    assert.equal(1, points[16].rung)
  end)
end)

describe('lists of values', function()
  it('are what their names say', function()
    assert.same({ 1, 2, 3, 4 }, values.range(1, 4))
    assert.same({ 1, 4, 7 }, values.range(1, 7, 3))
    assert.same({ 1, 4, 7 }, values.range(1, 9, 3))
    assert.same({ 2, 4, 8, 16 }, values.geom(2, 16))
    assert.same({ 2, 6, 18 }, values.geom(2, 20, 3))
    assert.same({ 0, 0.25, 0.5, 0.75, 1 }, values.between(0, 1, 5))
    assert.same({ 3, 7 }, values.between(3, 7, 2))
    assert.same({ 0.001, 0.01, 0.1, 1 }, values.logs(1e-3, 1, 4))
    -- 1, 2, 4, 8, 16 and 3, 6, 12 with their neighbours, and odd ones behind 8 and 12
    assert.same({ 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16 }, values.probe(1, 16))
    assert.same({ 20, 23, 24, 25, 29, 30 }, values.probe(20, 30))
    for _, bad in ipairs { { values.between, 1, 1, 3 }, { values.between, 1, 2, 1 },
        { values.between, 1, 2, 2.5 }, { values.logs, 0, 1, 3 }, { values.logs, 2, 1, 3 },
        { values.logs, 1, 2, 1 }, { values.probe, 0, 5 }, { values.probe, 5, 5 },
        { values.probe, 1.5, 5 }, { values.probe, 1, 5.5 }, { values.random, 2, 2 },
        { values.random, 0, 2, { log = true } } } do
      assert.matches('goes up', failure(bad[1], bad[2], bad[3], bad[4]))
    end
  end)

  it('at random are as likely in each part', function()
    local r = values.random(3, 5)
    assert.same({ 3, 3, 4, 5, 5 }, { r:at(0), r:at(0.33), r:at(0.34), r:at(0.67), r:at(0.9999999) })
    assert.equal(5, r:at(1)) -- were a share ever rounded up
    r = values.random(0.5, 2.5)
    assert.same({ 0.5, 1.5 }, { r:at(0), r:at(0.5) })
    r = values.random(1, 99, { log = true })
    assert.same({ 1, 10 }, { r:at(0), r:at(0.5) }) -- 1 * 100 ^ 0.5
    r = values.random(1e-4, 1.5, { log = true })
    assert.equal(0.0122474, r:at(0.5))
    assert.equal('~log:0.0001..1.5', tostring(r))
    assert.equal('~3..5', tostring(values.random(3, 5)))
    assert.is_true(values.is_random(r))
    assert.is_false(values.is_random { 1 })
  end)
end)

describe('the search for what fits', function()
  it('finds the largest, whatever the limit, and tries none twice', function()
    for most = 1, 40 do
      for _, min in ipairs { 1, 3, 8 } do
        for capacity = 0, 42 do
          local max, tried = math.max(min, most), {}
          local found = fit.search(function(b)
            assert.is_nil(tried[b])
            tried[b] = true
            return { peak = b }
          end, { min = min, max = max, budget = capacity })
          local best = math.min(capacity, max)
          assert.equal(best >= min and best or nil, found.best)
          assert.equal(capacity >= max and 'max' or 'memory', found.stop)
          for _, try in ipairs(found.tries) do
            assert.is_true(try.batch >= min and try.batch <= max)
            assert.equal(try.batch <= capacity, try.fits)
          end
        end
      end
    end
  end)

  it('says why it stopped', function()
    local function reason(limit, opt)
      return fit.search(function(b)
        if b > limit then return { oom = true, message = 'no room' } end
        return { peak = b * 2 ^ 20 }
      end, opt).reason
    end
    assert.equal('8 is the largest batch that was asked for, and it fits',
      reason(100, { min = 1, max = 8, budget = 2 ^ 30 }))
    assert.equal('a batch of 6 needs 6 MB, more than 5 MB',
      reason(100, { min = 1, max = 64, budget = 5 * 2 ^ 20 }))
    assert.equal('a batch of 4 ran out of memory: no room',
      reason(3, { min = 1, max = 64, budget = 2 ^ 30 }))
    assert.equal('not even a batch of 2 fits: it needs 2 MB, more than 1 MB',
      reason(9, { min = 2, max = 64, budget = 2 ^ 20 }))
  end)
end)

describe('a point against a baseline', function()
  local function point(ms, lo, hi, grade)
    return { latency = { median_ms = ms, ci_lo_ms = lo, ci_hi_ms = hi }, memory = { peak_mb = ms },
      quality = { grade = grade or 'A' } }
  end

  it('has the verdict of intervals that lie apart', function()
    local base = point(10, 9, 11)
    for _, case in ipairs { { point(5, 4, 6), 2, 1.5, 2.75, 'faster' },
        { point(20, 18, 22), 0.5, 9 / 22, 11 / 18, 'slower' },
        { point(9, 8, 9), 10 / 9, 1, 11 / 8, 'open' },
        { point(11, 11, 12), 10 / 11, 0.75, 1, 'open' },
        { point(5, 4, 6, 'D'), 2, 1.5, 2.75, 'disturbed' },
        { point(5, -1, 6), 2, 1.5, nil, 'faster' }, { point(5, 0, 6), 2, 1.5, nil, 'faster' },
        { point(5), 2, nil, nil, 'open' } } do
      local found = metrics.against(base, case[1])
      assert.same({ case[2], case[5], (1 - case[1].memory.peak_mb / 10) * 100 }, { found.speedup,
        found.verdict, found.memory_savings_percent })
      assert.equal(case[3], found.speedup_lo)
      assert.equal(case[4], found.speedup_hi)
    end
    assert.equal('disturbed', metrics.against(point(10, 9, 11, 'D'), point(5, 4, 6)).verdict)
    local found = metrics.against(point(10, -3, 11), point(5, 4, 6))
    assert.same({ 0, 2.75, 'open' }, { found.speedup_lo, found.speedup_hi, found.verdict })
  end)

  it('has latency and throughput from its samples', function()
    local latency = metrics.latency { 3e6, 1e6, 2e6, 4e6, 5e6 }
    assert.same({ 3, 3, 3, 1, 5, 5 }, { latency.mean_ms, latency.median_ms, latency.p50_ms,
      latency.min_ms, latency.max_ms, latency.samples })
    assert.near(4.8, latency.p95_ms, 1e-9) -- between the 4th and the 5th of five: 0.95 * 4 = 3.8
    assert.near(4.96, latency.p99_ms, 1e-9)
    assert.near(math.sqrt(2.5), latency.std_ms, 1e-9)
    assert.equal(0, metrics.latency({ 7 }).std_ms)
    local t = metrics.throughput(8, 2e9, 1e9, 4e9)
    assert.same({ 4, 0.5, 2, 8 }, { t.samples_per_sec, t.batches_per_sec, t.samples_per_sec_lo,
      t.samples_per_sec_hi })
    assert.is_nil(metrics.throughput(8, 2e9, 0, 4e9).samples_per_sec_hi)
    assert.is_nil(metrics.throughput(8, 2e9).samples_per_sec_lo)
  end)
end)

describe('text of JSON', function()
  it('has each escape as the letter that it is', function()
    for json, text in pairs { ['"\\u0041b"'] = 'Ab', ['"a\\u00e9\\u20acz"'] = 'aé€z',
        ['"\\ud83d\\ude00!"'] = '😀!', ['"\\"\\\\\\/\\b\\f\\n\\r\\t"'] = '"\\/\b\f\n\r\t',
        ['"\\u007f\\u0080\\u07ff\\u0800\\uffff"'] =
          '\127\194\128\223\191\224\160\128\239\191\191' } do
      assert.equal(text, canonical.decode(json))
    end
  end)
end)

describe('what a point leaves behind', function()
  local leak = require('ridge.sweep.series').leak

  it('is the least of its passes: what one of them did not leave is no leak', function()
    local function passes(...)
      local list = {}
      for i, bytes in ipairs { ... } do list[i] = { left_bytes = bytes or nil } end
      return list
    end
    assert.equal(2 ^ 21, leak(passes(2 ^ 22, 2 ^ 21), 2 ^ 23))
    assert.is_nil(leak(passes(2 ^ 22, 10), 2 ^ 23))
    assert.is_nil(leak(passes(2 ^ 22, 2 ^ 22), 10))
    assert.is_nil(leak(passes(), 2 ^ 23)) -- one pass says nothing
    assert.is_nil(leak(passes(2 ^ 22, false), 2 ^ 23)) -- nobody looked
    assert.is_nil(leak(passes(2 ^ 22), nil))
  end)
end)

-- SPDX-License-Identifier: MIT
-- F130-F133, F6: what samples say, against numbers worked out by hand.

local metrics = require 'ridge.bench.metrics'

local function near(expected, value)
  assert.is_true(math.abs(value - expected) <= 1e-9 * math.abs(expected),
    ('%.17g is not %.17g'):format(value, expected))
end

-- 1 to 100 ms in a mixed order
local function hundred()
  local out = {}
  for i = 1, 100 do out[i] = (i * 37 % 101) * 1e6 end
  return out
end

local function entry(over)
  local e = { model = 'm', batch = 4, samples = { 2e6, 2e6, 2e6, 2e6, 12e6 }, inner = 3,
    ci_lo = 1.9e6, ci_hi = 2.1e6, first_ns = 5e6, peak = 3 * 2 ^ 20, average = 2 ^ 20,
    flops = 4e6, grade = 'A' }
  for name, value in pairs(over or {}) do e[name] = value end
  return e
end

describe('latency', function()
  it('is mean, median, percentiles, extremes and deviation of the samples', function()
    local l = metrics.latency(hundred())
    near(50.5, l.mean_ms)
    near(50.5, l.median_ms)
    near(50.5, l.p50_ms)
    near(95.05, l.p95_ms)
    near(99.01, l.p99_ms)
    near(1, l.min_ms)
    near(100, l.max_ms)
    near(29.011491975882016, l.std_ms)
    assert.equal(100, l.samples)
  end)
end)

describe('metrics', function()
  it('are in the groups of the document', function()
    local m = metrics.of(entry())
    near(4, m.latency.mean_ms)
    near(2, m.latency.median_ms)
    assert.equal(3, m.memory.peak_mb)
    assert.equal(1, m.memory.avg_mb)
    assert.equal(0.75, m.memory.peak_mb_per_sample)
    assert.equal(4, m.config.batch_size)
    assert.equal(15, m.config.num_iterations) -- five samples of three calls
    near(2, m.quality.gflops)
  end)

  it('take the throughput from the median: one slow sample does not halve it', function()
    local t = metrics.of(entry()).throughput
    near(2000, t.samples_per_sec)
    near(500, t.batches_per_sec)
    near(4e9 / 2.1e6, t.samples_per_sec_lo)
    near(4e9 / 1.9e6, t.samples_per_sec_hi)
    assert.is_nil(metrics.of(entry { ci_lo = -1 }).throughput.samples_per_sec_hi)
  end)

  it('say nothing of a GPU that nothing ran on, and what one said that did (F133)', function()
    assert.is_nil(metrics.of(entry()).gpu)
    assert.same({ memory_mb = 3, clock_mhz = 1410, celsius = 40, watts = 300 },
      metrics.of(entry { gpu = { clock_mhz = 1410, celsius = 40, watts = 300 } }).gpu)
    assert.same({ memory_mb = 3 }, metrics.of(entry { gpu = {} }).gpu)
  end)

  it('know the machine, and of GPUs the one that was measured', function()
    local machine = { cpu = 'a cpu', threads = 4, ram = 8 * 2 ^ 30 }
    local here = { cpu = 'a cpu', cpu_count = 4, cpu_freq_mhz = 2000, total_memory_gb = 8 }
    assert.same(here, metrics.hardware({ machine = machine, device = { kind = 'cpu' } }, 2e9))
    here.gpu_available, here.gpu_count = true, require('ridge.device').count()
    here.gpu_name, here.gpu_memory_gb = 'a gpu', 80
    assert.same(here, metrics.hardware({ machine = machine,
      device = { kind = 'cuda', name = 'a gpu', mem = 80 * 2 ^ 30 } }, 2e9))
  end)
end)

describe('a comparison', function()
  local base = metrics.of(entry())
  local function against(over) return metrics.against(base, metrics.of(entry(over))) end
  local half = { 1e6, 1e6, 1e6 }

  it('is faster or slower only when the intervals lie apart', function()
    local c = against { samples = half, ci_lo = 0.9e6, ci_hi = 1.1e6 }
    near(2, c.speedup)
    near(1.9 / 1.1, c.speedup_lo)
    near(2.1 / 0.9, c.speedup_hi)
    assert.equal('faster', c.verdict)
    assert.equal('slower', against({ samples = { 4e6 }, ci_lo = 3e6, ci_hi = 5e6 }).verdict)
    assert.equal('open', against({ samples = half, ci_lo = 1.5e6, ci_hi = 3e6 }).verdict)
    -- where they touch they do not lie apart: that of the base is 1.9 to 2.1 ms
    assert.equal('open', against({ samples = { 2.2e6 }, ci_lo = 2.1e6, ci_hi = 3e6 }).verdict)
    assert.equal('open', against({ samples = half, ci_lo = 1e6, ci_hi = 1.9e6 }).verdict)
    assert.equal('open', against({ samples = half, ci_lo = 0.5e6, ci_hi = 2e6 }).verdict)
  end)

  it('bounds nothing by an interval that reaches below 0', function()
    local c = against { samples = half, ci_lo = -1e6, ci_hi = 1.1e6 }
    assert.is_nil(c.speedup_hi)
    assert.is_true(c.speedup_lo > 0)
  end)

  it('has no verdict for disturbed points', function()
    assert.equal('disturbed', against({ samples = half, ci_lo = 0.9e6, ci_hi = 1.1e6,
      grade = 'D' }).verdict)
    local bad = metrics.of(entry { grade = 'D' })
    local good = metrics.of(entry { ci_lo = 1, ci_hi = 2 })
    assert.equal('disturbed', metrics.against(bad, good).verdict)
  end)

  it('counts saved memory as (1 - other / standard) * 100, negative for more', function()
    near(75, metrics.savings(4, 1))
    near(-50, metrics.savings(2, 3))
    near(-100, against({ peak = 6 * 2 ^ 20 }).memory_savings_percent)
  end)
end)

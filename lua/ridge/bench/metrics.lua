-- SPDX-License-Identifier: MIT
--- What the samples of a point say, in the groups and under the names of document 003 (F130-F138):
-- latency, throughput, memory, gpu, config.
--
-- Every statistic comes from the samples themselves. A sample is one window of `calls_per_sample`
-- calls, so the percentiles are those of windows; with fixed iterations a window is one call.

local minutes = require 'ridge.measure.minutes'
local statistics = require 'ridge.measure.statistics'

local M = {}

local MS, MB = 1e-6, 1 / 2 ^ 20

--- Latency from samples.
---@param samples table nanoseconds of one call, in any order
---@return table latency mean_ms, median_ms, p50_ms, p95_ms, p99_ms, min_ms, max_ms, std_ms, samples
-- >> metrics.latency({ 1e6, 2e6, 3e6 }).median_ms
function M.latency(samples)
  local sorted = statistics.sorted(samples)
  local function at(q) return statistics.quantile(sorted, q) * MS end
  return {
    mean_ms = statistics.mean(samples) * MS, median_ms = at(0.5), p50_ms = at(0.5),
    p95_ms = at(0.95), p99_ms = at(0.99), min_ms = sorted[1] * MS, max_ms = sorted[#sorted] * MS,
    std_ms = #samples > 1 and statistics.sd(samples) * MS or 0, samples = #samples,
  }
end

--- Throughput of a batch from the median, with its interval: the mean of a shared machine is that
--- of its neighbours.
---@param batch integer
---@param ns number median of one call
---@param lo number|nil its interval
---@param hi number|nil
---@return table throughput samples_per_sec, batches_per_sec, and the interval of the former
function M.throughput(batch, ns, lo, hi)
  return {
    samples_per_sec = batch * 1e9 / ns, batches_per_sec = 1e9 / ns,
    samples_per_sec_lo = hi and batch * 1e9 / hi,
    samples_per_sec_hi = lo and lo > 0 and batch * 1e9 / lo or nil, -- else nothing bounds it
    from = 'median',
  }
end

-- What is known of the GPU that a point ran on: its memory as the allocator counted it, and what
-- the device said after the last round. How busy its units were nobody counts, so it is not here.
local function gpu_of(entry)
  if not entry.gpu then return nil end
  return { memory_mb = entry.peak * MB, clock_mhz = entry.gpu.clock_mhz,
    celsius = entry.gpu.celsius, watts = entry.gpu.watts }
end

--- All groups of one point.
---@param entry table model, batch, samples (ns), inner, ci_lo, ci_hi, med and sd_minutes (what
---  other minutes differ by, as a part of that interval), first_ns, peak and average (bytes),
---  flops, grade, flags (text), stop, rounds, warm_calls, config (what else belongs into
---  its group), gpu (where it ran on one: clock_mhz, celsius, watts, as far as they were told)
---@return table metrics latency, throughput, memory, config, quality; gpu where it ran on one
function M.of(entry)
  local latency = M.latency(entry.samples)
  local median = statistics.median(entry.samples)
  latency.ci_lo_ms, latency.ci_hi_ms = entry.ci_lo and entry.ci_lo * MS,
    entry.ci_hi and entry.ci_hi * MS
  if entry.sd_minutes and entry.ci_lo then
    local lo, hi = minutes.own(entry.med, entry.ci_lo, entry.ci_hi, entry.sd_minutes)
    latency.own_lo_ms, latency.own_hi_ms = lo * MS, hi * MS
  end
  latency.first_ms = entry.first_ns and entry.first_ns * MS
  latency.calls_per_sample = entry.inner
  local config = { batch_size = entry.batch, num_iterations = #entry.samples * entry.inner,
    warmup_iterations = entry.warm_calls, device = 'cpu' }
  for name, value in pairs(entry.config or {}) do config[name] = value end
  return {
    latency = latency,
    throughput = M.throughput(entry.batch, median, entry.ci_lo, entry.ci_hi),
    memory = { peak_mb = entry.peak * MB, avg_mb = entry.average * MB,
               peak_mb_per_sample = entry.peak * MB / entry.batch },
    gpu = gpu_of(entry),
    config = config,
    quality = { grade = entry.grade, flags = entry.flags or '', rounds = entry.rounds,
                stop = entry.stop, gflops = entry.flops and entry.flops / median },
  }
end

--- What is saved against a standard (F6); negative where more is needed.
---@param standard number
---@param other number
---@return number percent
function M.savings(standard, other) return (1 - other / standard) * 100 end

--- How a point stands to a baseline at the same batch. Points of grade D have no verdict.
---@param base table metrics.of
---@param other table metrics.of
---@return table comparison speedup with lo and hi, memory_savings_percent, verdict 'faster',
---  'slower', 'open' or 'disturbed'
function M.against(base, other)
  local a, b = base.latency, other.latency
  local out = { speedup = a.median_ms / b.median_ms, verdict = 'open',
    memory_savings_percent = M.savings(base.memory.peak_mb, other.memory.peak_mb) }
  if a.ci_lo_ms and b.ci_lo_ms then
    -- few rounds that lie far apart have an interval that reaches below 0: then nothing bounds it
    -- both are of the same minutes: what others differ by is no part of it
    local a_lo, a_hi = a.own_lo_ms or a.ci_lo_ms, a.own_hi_ms or a.ci_hi_ms
    local b_lo, b_hi = b.own_lo_ms or b.ci_lo_ms, b.own_hi_ms or b.ci_hi_ms
    local lo, hi = math.max(a_lo, 0) / b_hi, math.huge
    if b_lo > 0 then hi = a_hi / b_lo end
    out.speedup_lo, out.speedup_hi = lo, hi < math.huge and hi or nil
    out.verdict = lo > 1 and 'faster' or hi < 1 and 'slower' or 'open'
  end
  if base.quality.grade == 'D' or other.quality.grade == 'D' then out.verdict = 'disturbed' end
  return out
end

--- The machine in the words of 003. What is said of a GPU is asked of the one that was measured; a
--- benchmark of the CPU opens none, and says nothing of any.
---@param facts table of ridge.sweep.lab
---@param clock_hz number|nil as measured
---@return table hardware_info
function M.hardware(facts, clock_hz)
  local m, device = facts.machine, facts.device
  local info = { cpu = m.cpu, cpu_count = m.threads, cpu_freq_mhz = clock_hz and clock_hz / 1e6,
    total_memory_gb = m.ram and m.ram / 2 ^ 30 }
  if device and device.kind ~= 'cpu' then
    info.gpu_available, info.gpu_count = true, require('ridge.device').count()
    info.gpu_name, info.gpu_memory_gb = device.name, device.mem and device.mem / 2 ^ 30
  end
  return info
end

return M

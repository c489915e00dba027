-- SPDX-License-Identifier: MIT
-- F6, F128-F136, F138: models measured and compared through ridge.measure.

local bench = require 'ridge.bench'
local canonical = require 'ridge.store.canonical'
local folders = dofile 'tests/lua/store/folder.lua'
local ridge = require 'ridge'
local statistics = require 'ridge.measure.statistics'

local FEW = { level = 'quick', quiet_ns = 0, warm_min_ns = 0, warm_max_ns = 1e6, window_ns = 1,
  samples = 2 }

local function fixed(over)
  local config = { batch_sizes = { 2 }, protocol = FEW, num_iterations = 20, warmup_iterations = 4 }
  for name, value in pairs(over or {}) do config[name] = value end
  return config
end

describe('a configuration', function()
  it('has the batch sizes and counts of the document', function()
    local config = bench.config()
    assert.same({ 1, 8, 32, 64 }, config.batch_sizes)
    assert.is_nil(config.num_iterations) -- until it is precise
    config = bench.config { fixed = true }
    assert.same({ 1000, 100 }, { config.num_iterations, config.warmup_iterations })
    local p = config.protocol
    assert.same({ 1, 1000, 100 }, { p.calls, p.min_rounds * p.samples, p.warm_calls })
    assert.equal(p.min_rounds, p.max_rounds)
  end)

  it('cuts any number of iterations into equal rounds, or says which number it can', function()
    for _, n in ipairs { 2, 4, 5, 10, 97, 100, 1000, 12345, 1e6 } do
      local p = bench.config { num_iterations = n }.protocol
      assert.equal(n, p.min_rounds * p.samples)
    end
    for n, passes in pairs { [2] = 1, [3] = 1, [7] = 1, [10] = 5, [14] = 7, [20] = 5, [97] = 1,
        [1000] = 5, [1994] = 2, [1e6] = 1000 } do
      local p = bench.config { num_iterations = n }.protocol
      assert.same({ passes, passes, n / passes }, { p.passes, p.max_passes, p.windows })
    end
    assert.has_error(function() bench.config { num_iterations = 99991 } end)
  end)

  it('refuses what it does not know or cannot do', function()
    for _, given in ipairs { { num_iteration = 3 }, { batch_sizes = {} }, { batch_sizes = { 0 } },
        { batch_sizes = { 2, 2 } }, { batch_sizes = { 1.5 } }, { num_iterations = 1 },
        { cache = 'hot' } } do
      assert.is_false((pcall(bench.config, given)))
    end
  end)
end)

describe('a model', function()
  it('is called exactly as often as asked, beside the first call and one before a round', function()
    local net = ridge.nn.Linear(6, 3, { seed = 1 })
    local report = bench.model(net, fixed())
    local m = report.results[2]
    assert.same({ 20, 1 }, { m.latency.samples, m.latency.calls_per_sample })
    assert.equal(20, m.config.num_iterations)
    -- not the call at the beginning of each of 5 rounds, nor the first of all
    assert.equal(4, m.config.warmup_iterations)
    local config = bench.model(net, fixed { warmup_iterations = 0 }).results[2].config
    assert.equal(0, config.warmup_iterations)
  end)

  it('has metrics by batch size that come from its samples', function()
    local report = bench.model('linear{16,8}', { batch_sizes = { 1, 4 }, protocol = FEW })
    assert.same({ 'linear{16,8}' }, report.names)
    for _, entry in ipairs(report.entries) do
      local l = report.results[entry.batch].latency
      assert.equal(statistics.median(entry.samples) * 1e-6, l.median_ms)
      assert.equal(statistics.mean(entry.samples) * 1e-6, l.mean_ms)
      assert.equal(#entry.samples, l.samples)
      assert.truthy(entry.grade)
    end
    assert.truthy(tostring(report):find 'samples/s')
  end)

  it('may be a function of its input, whose shape must be said', function()
    local report = bench.model(function(x) return x:relu() end, fixed { input_shape = { 3, 5 } })
    assert.equal(20, report.results[2].latency.samples)
    assert.has_error(function() bench.model(function(x) return x end, fixed()) end)
  end)

  it('raises what its call raises, and leaves nothing live', function()
    local before = ridge.memory.stats().live
    local ok, err = pcall(bench.model, ridge.nn.Linear(6, 3), fixed { input_shape = 7 })
    assert.is_false(ok)
    assert.truthy(tostring(err):find '7')
    collectgarbage()
    collectgarbage()
    assert.is_true(ridge.memory.stats().live <= before)
  end)
end)

describe('memory', function()
  it('is what the allocator counts: parameters, input, and what the call adds', function()
    local I, O, B = 64, 32, 16
    local net = ridge.nn.Linear(I, O, { seed = 1, bias = false })
    local row = bench.memory(net, { batch_sizes = { B } })[1]
    local held = 4 * I * O + net:facts().packed_bytes + 4 * B * I
    assert.equal((held + 4 * B * O) / 2 ^ 20, row.peak_mb)
    assert.equal(row.peak_mb / B, row.mb_per_sample)
    assert.is_true(row.avg_mb <= row.peak_mb and row.avg_mb >= held / 2 ^ 20)
  end)

  it('of a chain is on average less than at its highest', function()
    local chain = function(x) return x:relu():sum() end
    local row = bench.memory(chain, { batch_sizes = { 8 }, input_shape = 4096 })[1]
    assert.is_true(row.avg_mb < row.peak_mb)
  end)

  it('is listed for 32 to 256 samples, with what is saved against the first', function()
    local rows = bench.memory { 'linear{64,64}', 'sketched{64,64,1,4}' }
    local batches = {}
    for i, row in ipairs(rows) do batches[i] = row.batch end
    assert.same({ 32, 32, 64, 64, 128, 128, 256, 256 }, batches)
    for i = 1, 8, 2 do
      assert.equal(0, rows[i].savings_percent)
      assert.equal((1 - rows[i + 1].peak_mb / rows[i].peak_mb) * 100, rows[i + 1].savings_percent)
    end
  end)
end)

describe('models compared', function()
  it('stand in the order they are given in, those with names behind them by name', function()
    local given, wanted = { 'linear{4,2}' }, { 'linear{4,2}' }
    for name in ('e b g a d c f'):gmatch '%a' do given[name] = 'linear{4,3}' end
    for name in ('a b c d e f g'):gmatch '%a' do wanted[#wanted + 1] = name end
    assert.same(wanted, bench.compare(given, fixed { batch_sizes = { 1 } }).names)
  end)

  it('share one block: no model is measured before another has begun', function()
    local block = require 'ridge.measure.block'
    local measure = require 'ridge.measure'
    local sizes, real = {}, measure.block
    measure.block = function(points, ...)
      sizes[#sizes + 1] = #points
      return block.block(points, ...)
    end
    local ok, report = pcall(bench.compare, { 'linear{16,8}', 'lowrank{16,8,2}' },
      fixed { batch_sizes = { 1, 4 } })
    measure.block = real
    assert.is_true(ok, tostring(report))
    assert.same({ 2, 2 }, sizes)
    assert.equal(2, #report.comparison)
    local c = report.comparison[1]
    assert.same({ 'lowrank{16,8,2}', 'linear{16,8}', 1 },
      { c.model_name, c.baseline, c.batch_size })
    assert.truthy(c.verdict)
    assert.truthy(tostring(report):find('against linear{16,8}', 1, true))
    for _, entry in ipairs(report.entries) do entry.flags, entry.inner = '', 2 end
    assert.matches('\npercentiles of samples[^\n]+\nagainst linear', tostring(report))
    -- a field with a comma or quotes stands in quotes
    report.entries[1].model = 'say "a", b'
    assert.truthy(report:csv():find('"say ""a"", b"', 1, true))
  end)

  it('may have names', function()
    local report = bench.compare({ b = 'linear{4,4}', a = ridge.nn.Linear(4, 2) }, fixed())
    assert.same({ 'a', 'b' }, report.names)
  end)
end)

describe('a report', function()
  it('is written as one file for each batch size, from whose samples it can be worked out again',
    function()
      local folder = folders.new()
      local report = bench.model('linear{16,8}', fixed { batch_sizes = { 1, 4 } })
      local paths = report:save(folder)
      assert.equal('linear_16_8_b1.json linear_16_8_b4.json', folders.list(folder))
      for i, path in ipairs(paths) do
        local file = assert(io.open(path))
        local document = canonical.decode(file:read '*a')
        file:close()
        local result = document.results[1]
        assert.same({ 'ridge-bench', 1, 1 }, { document.format, document.version,
          #document.results })
        assert.equal(report.entries[i].batch, result.batch_size)
        assert.equal(20, #result.samples_ns)
        assert.equal(statistics.median(result.samples_ns) * 1e-6,
          result.metrics.latency.median_ms)
        for _, group in ipairs { 'latency', 'throughput', 'memory', 'config' } do
          assert.equal('table', type(result.metrics[group]))
        end
        assert.is_nil(result.metrics.gpu)
        for name in pairs(document.hardware_info) do assert.not_matches('gpu', name) end
      end
      folders.remove(folder)
      assert.has_error(function() report:save(folder) end)
    end)

  it('has a line of comma-separated values for each point', function()
    local csv = bench.model('linear{16,8}', fixed { batch_sizes = { 1, 4 } }):csv()
    local lines = {}
    for line in csv:gmatch '[^\n]+' do lines[#lines + 1] = line end
    assert.equal(3, #lines)
    assert.truthy(lines[1]:find '^model,batch,mean_ms,median_ms,')
    assert.truthy(lines[3]:find '^"linear{16,8}",4,')
  end)
end)

describe('a benchmark of a simulated GPU', function()
  local SIMULATED = 'build/libridge_gpusim.so'

  it('says which GPU it was and what its allocator counted, and not how busy it was (F133)',
    function()
      local file = io.open(SIMULATED)
      if not file then return pending 'no nvcc: the simulated GPU was not built' end
      file:close()
      local pipe = io.popen(('RIDGE_GPU=%s ./ridge -e %q'):format(SIMULATED, [[
        local given = { device = 'auto', batch_sizes = { 2 }, num_iterations = 20,
          warmup_iterations = 0, protocol = { level = 'quick', quiet_ns = 0 } }
        local report = ridge.bench.compare({ a = 'linear{16,8}', b = 'linear{16,4}' }, given)
        local rows = ridge.bench.memory({ a = 'linear{16,8}' }, { device = 'sim:0',
          batch_sizes = { 2 } })
        print(rows[1].peak_mb * 2 ^ 20)
        print(report:json())]]))
      local text = pipe:read '*a'
      pipe:close()
      -- weight and bias, input, output
      local bytes = 4 * (16 * 8 + 8 + 2 * 16 + 2 * 8)
      assert.equal(bytes, tonumber(text:match '^%d+'), text)
      local document = canonical.decode(text:match '\n(.*)')
      local info = document.hardware_info
      assert.same({ true, 'simulated device 0' }, { info.gpu_available, info.gpu_name })
      assert.is_true(info.gpu_count >= 1 and info.gpu_memory_gb > 0)
      local gpu = document.results[1].metrics.gpu
      assert.equal(bytes / 2 ^ 20, gpu.memory_mb)
      assert.is_nil(gpu.utilization_percent)
      assert.equal('sim:0', document.results[2].metrics.config.device)
    end)
end)

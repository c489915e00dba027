-- SPDX-License-Identifier: MIT
--- Ceilings over a made-up machine and a made-up device: which are measured, how often, what their
--- rows say, and what is released.

local calibrate = require 'ridge.measure.calibrate'
local device = require 'ridge.measure.device'
local device_ceiling = require 'ridge.measure.device_ceiling'
local native = require 'ridge.measure.native'
local ridge = require 'ridge'

local replaced = dofile 'tests/lua/measure/replaced.lua'
local replace = replaced.replace

after_each(replaced.restore)

-- Kinds of a machine, each with its rate; nil: it has none. What was run and closed is kept.
local function made_up(kinds)
  local log = { runs = {}, closed = {}, order = {}, ns = {} }
  replace(native, {
    ceilings = function() return #kinds end,
    ceiling_name = function(kind) return kinds[kind + 1][1] end,
    ceiling = function(kind, threads)
      local name, rate = unpack(kinds[kind + 1])
      if not rate then return nil, 'this processor has no such instructions' end
      local unit = name:find '^bw' and 'B/s' or 'flop/s'
      return { name = name, unit = unit, run = function(ns)
        log.runs[name] = (log.runs[name] or 0) + 1
        log.order[#log.order + 1], log.ns[ns] = name, true
        assert.equal(threads, ridge.num_threads())
        -- rates around the true one, more with each thread
        return threads * rate * (1 + 0.001 * (log.runs[name] % 3 - 1))
      end, close = function() log.closed[#log.closed + 1] = name end }
    end,
  })
  return log
end

local KINDS = { { 'fma.f32.base', 1e9 }, { 'fma.f32.avx2', 2e9 }, { 'fma.f32.avx512', 4e9 },
  { 'fma.f64.base', 5e8 }, { 'fma.f64.avx2', 1e9 }, { 'fma.f64.avx512' }, { 'bw.l2', 3e10 },
  { 'amx.bf16' } }

local function by_name(list)
  local out = {}
  for _, row in ipairs(list) do
    assert.is_nil(out[row.name], row.name)
    out[row.name] = row
  end
  return out
end

local function names_of(list)
  local names = {}
  for i, row in ipairs(list) do names[i] = row.name end
  table.sort(names)
  return table.concat(names, ' ')
end

describe('ceilings of a machine', function()
  it('have the widest instructions under the name of their type, the others with theirs', function()
    local log = made_up(KINDS)
    local list = calibrate.calibrate { noise = false, threads = 1 }
    assert.equal('bw.l2 fma.f32 fma.f32.avx2 fma.f32.base fma.f64 fma.f64.base', names_of(list))
    local rows = by_name(list)
    for name, rate in pairs { ['fma.f32'] = 4e9, ['fma.f32.avx2'] = 2e9, ['fma.f64'] = 1e9,
        ['fma.f64.base'] = 5e8, ['bw.l2'] = 3e10 } do
      assert.near(rate, rows[name].value, 1e-9 * rate)
      assert.is_true(rows[name].ci_lo >= 0.998 * rate and rows[name].ci_lo <= rate)
      assert.is_true(rows[name].ci_hi <= 1.002 * rate and rows[name].ci_hi >= rate)
      assert.same({ 1, name == 'bw.l2' and 'B/s' or 'flop/s' }, { rows[name].threads,
        rows[name].unit })
    end
    -- ten rounds of three, one after the other in another order each; all are closed
    for _, kind in ipairs(KINDS) do assert.equal(kind[2] and 30, log.runs[kind[1]] or nil) end
    assert.same({ [1e7] = true }, log.ns)
    assert.equal(6, #log.closed)
    local first, same = table.concat(log.order, ' ', 1, 18), 0
    for round = 1, 9 do
      same = same + (table.concat(log.order, ' ', 18 * round + 1, 18 * round + 18) == first and 1
        or 0)
    end
    assert.is_true(same < 9)
  end)

  it('are of the widest alone when quick, and the others are closed unmeasured', function()
    local log = made_up(KINDS)
    local list = calibrate.calibrate { noise = false, threads = 1, quick = true }
    assert.equal('bw.l2 fma.f32 fma.f64', names_of(list))
    assert.same({ ['fma.f32.avx512'] = 15, ['fma.f64.avx2'] = 15, ['bw.l2'] = 15 }, log.runs)
    assert.same({ [5e6] = true }, log.ns)
    assert.equal(6, #log.closed)
  end)

  it('with AVX2 beside wider ones, or base alone, are the one there is', function()
    made_up { { 'fma.f32.avx2', 2e9 }, { 'fma.f32.avx512', 4e9 }, { 'fma.f64.base', 1e9 } }
    local rows = by_name(calibrate.calibrate { noise = false, threads = 1, quick = true })
    assert.near(4e9, rows['fma.f32'].value, 1)
    assert.near(1e9, rows['fma.f64'].value, 1)
    assert.is_nil(rows['fma.f32.avx2'])
  end)

  it('are those whose names begin as they were asked for, of each number of threads', function()
    local log = made_up(KINDS)
    local before = ridge.num_threads()
    local list = calibrate.calibrate { noise = false, threads = { 1, 2 },
      kinds = { 'bw', 'fma.f64' } }
    assert.equal('bw.l2 bw.l2 fma.f64 fma.f64 fma.f64.base fma.f64.base', names_of(list))
    assert.equal(60, log.runs['bw.l2'])
    assert.is_nil(log.runs['fma.f32.base'])
    local rates = {}
    for _, row in ipairs(list) do
      if row.name == 'bw.l2' then rates[row.threads] = row.value end
    end
    assert.near(3e10, rates[1], 1)
    assert.near(6e10, rates[2], 1)
    assert.equal(before, ridge.num_threads())
  end)

  it('are closed where one fails', function()
    local log = made_up(KINDS)
    local ceiling = native.ceiling
    replace(native, { ceiling = function(kind, threads)
      local made = ceiling(kind, threads)
      if made and kind == 6 then made.run = function() error('it broke', 0) end end
      return made
    end })
    local ok, err = pcall(calibrate.calibrate, { noise = false, threads = 1 })
    assert.same({ false, 'it broke', 6 }, { ok, tostring(err), #log.closed })
  end)

  it('of a device are rows of no threads, with the clock that it held', function()
    local closed, asked = 0, nil
    local function made(name, rate, mhz)
      return { name = name, unit = 'B/s', run = function() return rate end, clock_mhz = mhz,
        close = function() closed = closed + 1 end }
    end
    replace(device_ceiling, { open = function(where, opt)
      asked = { where, opt.kinds }
      return { made('bw.l2', 5, 1500), made('bw.dram', 3, nil), made('product.f32', 7, 1700),
        made('product.f16', 8, 1900) }
    end })
    local list = calibrate.calibrate { noise = false, device = 'cuda:0', kinds = { 'bw' },
      quick = true }
    assert.same({ 'cuda:0', { 'bw' } }, asked)
    assert.equal(4, closed)
    local rows = by_name(list)
    assert.same({ name = 'device.clock', threads = 0, unit = 'Hz', value = 1.7e9 },
      rows['device.clock'])
    assert.equal(0, rows['product.f32'].threads)
    for _, name in ipairs { 'value', 'ci_lo', 'ci_hi' } do
      assert.near(7, rows['product.f32'][name], 1e-9)
    end
    assert.equal(5, #list)
    local read = calibrate.calibration(list, 0)
    assert.same({ 1.7e9, 3 }, { read.device_hz, read.ceilings['bw.dram'].value })
    assert.is_nil(calibrate.calibration(list, 1))
  end)
end)

describe('identical points', function()
  it('are products of 128 x 512 x 512, and nobody else draws other numbers for them', function()
    ridge.seed(3)
    local want = ridge.rand(1):item()
    ridge.seed(3)
    local points = calibrate.matrix_points(2, 'cpu')
    points[3] = calibrate.matrix_points(1)[1]
    assert.equal(want, ridge.rand(1):item())
    assert.same({ 3, 'A/A 1', 'A/A 2' }, { #points, points[1].label, points[2].label })
    for _, point in ipairs(points) do
      local facts = point.plan:facts()
      assert.equal(2 * 128 * 512 * 512, facts.flops)
    end
  end)
end)

-- -- A device ------------------------------------------------------------------------------------

-- A device whose calls take so long: `ns` of a side of a product, or of bytes of a copy.
local function made_up_device(facts, ns_of, log)
  replace(device, { number = function() return 3 end, facts = function(number)
    assert.equal(3, number)
    return facts
  end })
  local function tensor(dims, dtype)
    local self = { dims = dims, dtype = dtype or 'f32', bytes = 4 * dims[1] * (dims[2] or 1) }
    function self.to(_, name) return tensor(dims, name) end
    function self.matmul(_, other) return { 'product', self, other } end
    function self.clone() return { 'copy', self } end
    return self
  end
  replace(ridge, {
    generator = function(seed) return { seed = seed } end,
    randn = function(...)
      local dims = { ... }
      local opt = table.remove(dims)
      assert.same({ 'cuda:2', 1 }, { opt.device, opt.generator.seed })
      return tensor(dims)
    end,
    capture = function(f)
      local made = f()
      local plan = { kind = made[1], x = made[2], y = made[3], tf32 = device.modes().tf32 }
      function plan.release() log[#log + 1] = ('release %d'):format(plan.x.dims[1]) end
      return plan
    end,
  })
  replace(native, { windows = function(plan)
    return function(k, n, cold)
      assert.same({ 1, false }, { n, cold })
      log[#log + 1] = ('%d calls'):format(k)
      return { { ns = k * ns_of(plan), clock_mhz = facts.mhz } }
    end
  end })
end

describe('ceilings of a device', function()
  local function sizes(facts, opt)
    local log = {}
    made_up_device(facts, function(plan) return plan.x.bytes / 1e3 end, log)
    opt.kinds = { 'bw.' }
    local out = {}
    for _, c in ipairs(device_ceiling.open('cuda:2', opt)) do
      -- a copy reads its bytes and writes them
      assert.near(2e12, c.run(1), 1)
      assert.equal('B/s', c.unit)
      c.close()
      out[c.name] = tonumber(log[#log]:match 'release (%d+)') * 8
    end
    return out
  end

  it('copy within its cache and far beyond it, where there is room', function()
    local MB, GB = 2 ^ 20, 2 ^ 30
    assert.same({ ['bw.l2'] = 10 * MB, ['bw.dram'] = 320 * MB }, sizes({ cache = 40 * MB,
      free = 16 * GB }, {}))
    assert.same({ ['bw.l2'] = MB, ['bw.dram'] = 256 * MB }, sizes({ cache = 4 * MB,
      free = 16 * GB }, {}))
    assert.same({ ['bw.l2'] = MB, ['bw.dram'] = 64 * MB }, sizes({ cache = 4 * MB,
      free = 512 * MB }, {}))
    assert.same({ ['bw.l2'] = 16 * MB, ['bw.dram'] = 128 * MB }, sizes({}, {}))
    assert.same({ ['bw.l2'] = 64, ['bw.dram'] = 8 }, sizes({}, { l2_bytes = 64, dram_bytes = 1 }))
  end)

  it('double their calls until a window is long, by eight at most', function()
    local log, facts = {}, { mhz = 1200 }
    made_up_device(facts, function() return 100 end, log)
    local c = device_ceiling.open('cuda:2', { kinds = { 'bw.l2' } })
    assert.equal(1, #c)
    local bytes = 2 * 4 * 2 ^ 21
    assert.near(bytes / 100 * 1e9, c[1].run(100000), 1)
    assert.same({ '1 calls', '8 calls', '64 calls', '512 calls', '1200 calls' }, log)
    assert.equal(1200, c[1].clock_mhz)
    facts.mhz = nil -- not reported: what it was stays
    c[1].run(100)
    assert.same({ '1200 calls', 1200 }, { log[6], c[1].clock_mhz })
    c[1].run(120000) -- as long as wanted is long enough
    assert.same({ '1200 calls', 7 }, { log[7], #log })
    c[1].run(120001)
    assert.same({ '1200 calls', '1441 calls' }, { log[8], log[9] })
  end)

  it('are products of 4096, and of 8192 where those are over in 5 ms', function()
    for _, case in ipairs { { 5.0001e6, 4096 }, { 4.9999e6, 8192 } } do
      local log, dtypes = {}, {}
      made_up_device({}, function(plan)
        dtypes[plan.x.dtype] = plan.y.dtype
        return case[1] * (plan.x.dims[1] / 4096) ^ 3
      end, log)
      local list = device_ceiling.open('cuda:2', { kinds = { 'product' } })
      assert.equal('product.bf16 product.f16 product.f32 product.f64 product.tf32', names_of(list))
      for _, c in ipairs(list) do
        local rate = 2 * 4096 ^ 3 / case[1] * 1e9
        assert.near(rate, c.run(1), 1e-6 * rate)
        assert.equal('flop/s', c.unit)
        c.close()
        assert.equal('release ' .. case[2], log[#log])
      end
      assert.same({ f64 = 'f64', f32 = 'f32', f16 = 'f16', bf16 = 'bf16' }, dtypes)
      local small = 0
      for _, line in ipairs(log) do small = small + (line == 'release 4096' and 1 or 0) end
      assert.equal(5, small) -- those that were too short are released at once
    end
  end)

  it('are of a side that was given, captured with and without rounded factors', function()
    local log, tf32 = {}, {}
    made_up_device({}, function(plan)
      tf32[#tf32 + 1] = plan.tf32
      return plan.x.dims[1] * 10
    end, log)
    local list = device_ceiling.open('cuda:2', { kinds = { 'product.f32', 'product.tf32' },
      side = 64 })
    assert.equal(2, #list)
    assert.same({}, tf32)
    for i, c in ipairs(list) do
      assert.near(2 * 64 ^ 3 / 640 * 1e9, c.run(1), 1e3)
      assert.equal(({ 'product.f32', 'product.tf32' })[i], c.name)
    end
    assert.same({ false, true }, tf32)
    assert.is_false(device.modes().tf32)
  end)
end)

-- SPDX-License-Identifier: MIT
-- The protocol over the real core.  No test here says how fast anything is.

local C = require 'ridge.ffi.lib'
local ridge = require 'ridge'
local measure = require 'ridge.measure'
local native = require 'ridge.measure.native'
local blame = require 'ridge.blame'

-- As short as a protocol can be.
local SHORT = { level = 'quick', window_ns = 1e4, warm_min_ns = 0, warm_max_ns = 1e6,
                warm_window_ns = 1e5, quiet_ns = 0, samples = 3 }

local function with(fields)
  local protocol = {}
  for name, value in pairs(SHORT) do protocol[name] = value end
  for name, value in pairs(fields) do protocol[name] = value end
  return protocol
end

local function has(result, flag)
  for _, name in ipairs(result.flags) do
    if name == flag then return true end
  end
  return false
end

local function plan(n)
  local x = ridge.ones(n)
  return ridge.capture(function() return x + 1 end)
end

describe('windows of the core', function()
  it('time a plan', function()
    local windows = native.windows(plan(1000))(5, 4, false)
    assert.equal(4, #windows)
    for _, w in ipairs(windows) do
      assert.equal(5, w.calls)
      assert.is_true(w.end_ns > w.begin_ns)
      assert.is_true(w.involuntary >= 0 and w.migrations <= 1)
    end
  end)

  it('time a Lua function call by call', function()
    local n = 0
    local windows = native.windows(function() n = n + 1 end)(7, 2, false)
    assert.equal(14, n)
    assert.equal(2, #windows)
  end)

  it('refuse what is neither', function()
    local ok, err = pcall(native.windows, 3)
    assert.is_false(ok)
    assert.truthy(tostring(err):find('ridge.capture makes plans', 1, true))
  end)

  it('flush the caches before each cold one, and before no other', function()
    local seen = {}
    local watched = setmetatable({ rg_measure_windows = function(measured, k, n, flush, room)
      seen[#seen + 1] = flush ~= nil and tonumber(C.rg_flush_bytes(flush)) or 0
      return C.rg_measure_windows(measured, k, n, flush, room)
    end }, { __index = C })
    package.loaded['ridge.ffi.lib'], package.loaded['ridge.measure.native'] = watched, nil
    local fresh = require 'ridge.measure.native'
    package.loaded['ridge.ffi.lib'], package.loaded['ridge.measure.native'] = C, native
    local take = fresh.windows(plan(10))
    take(1, 1, true)
    take(1, 1, false)
    take(1, 1, true)
    assert.is_true(seen[1] >= 2 ^ 20) -- more than the caches next to the core
    assert.same({ seen[1], 0, seen[1] }, seen)
  end)

  it('say EINTR when a stop is asked for', function()
    local take = native.windows(plan(10))
    C.rg_interrupt_set()
    local ok, err = pcall(take, 1, 1, false)
    C.rg_interrupt_clear()
    assert.is_false(ok)
    assert.is_true(blame.is_error(err))
    assert.equal('EINTR', err.code)
  end)
end)

describe('a point', function()
  it('is measured from its first call to its grade', function()
    local r = measure.point(plan(1000), SHORT)
    assert.is_true(r.med > 0 and r.ci_lo <= r.med and r.med <= r.ci_hi)
    assert.equal(9, r.n)
    assert.equal(3, r.rounds)
    assert.equal('CLOCK_MONOTONIC_RAW', r.clock)
    assert.equal('warm', r.cache)
    assert.truthy(r.grade:match('^[ABCD]$'))
    assert.equal(r.flag_bits, require('ridge.measure.flags').bits(r.flags))
    assert.is_true(r.first_ns > 0)
  end)

  it('that is a Lua function is flagged LUA', function()
    local r = measure.point(function() end, SHORT)
    assert.is_true(has(r, 'LUA'))
    assert.is_true(r.grade >= 'C')
  end)

  it('with cold caches is one call a sample', function()
    local r = measure.point(plan(1000), with{ cache = 'cold' })
    assert.equal(1, r.inner)
    assert.equal('cold', r.cache)
    local results = measure.block({ { plan = function() end } }, with{ cache = 'cold' })
    assert.equal('ENOSUP', results[1].error.code)
  end)

  it('ends with EINTR when a stop is asked for, and the next one runs', function()
    local n = 0
    local ok, err = pcall(measure.point, function()
      n = n + 1
      if n == 3 then C.rg_interrupt_set() end
    end, SHORT)
    C.rg_interrupt_clear()
    assert.is_false(ok)
    assert.equal('EINTR', err.code)
    assert.is_true(measure.point(plan(10), SHORT).med > 0)
  end)

  it('leaves the collector running', function()
    pcall(measure.point, function() error('no') end, SHORT)
    local before, falls = collectgarbage('count'), false
    for _ = 1, 200 do
      local litter = {}
      for i = 1, 2000 do litter[i] = { i } end
      assert.equal(2000, #litter)
      falls = falls or collectgarbage('count') < before
      before = collectgarbage('count')
    end
    assert.is_true(falls)
  end)
end)

describe('a calibration', function()
  local here = debug.getinfo(1, 'S').source:match('^@(.*/)')
  local made_up = dofile(here .. 'machine.lua')

  -- The noise is that of a made-up machine: this one may be busy with other tests.
  local function calibrate(signals)
    local machine, said = made_up.new(signals), {}
    local list = measure.calibrate{ quick = true, ceilings = false, services = machine:services(),
      progress = function(line) said[#said + 1] = line end,
      points = function(n)
        local points = {}
        for i = 1, n do points[i] = { window = machine:window(1e6, machine:quiet(0.01)) } end
        return points
      end }
    return list, table.concat(said, '\n')
  end

  it('has the noise of identical points and the state of the machine', function()
    local threads, seen, list = ridge.num_threads(), {}, calibrate()
    for _, row in ipairs(list) do
      assert.equal(threads, row.threads)
      assert.is_true(row.value == row.value and row.value >= 0, row.name)
      seen[row.name] = true
    end
    for _, name in ipairs{ 'noise.aa', 'noise.sentinel', 'noise.precision', 'clock',
                           'sentinel.compute', 'sentinel.memory' } do
      assert.is_true(seen[name], name)
    end
    local calibration = measure.calibration(list, threads)
    local r = measure.block({ { plan = plan(100) } }, SHORT, { calibration = calibration })[1]
    assert.equal('fixed', r.thresholds)
  end)

  it('does not take other processes for the noise of the machine', function()
    local list, said = calibrate({ busy_cpus = 1 })
    assert.same({}, list)
    assert.truthy(said:find('other processes ran in 6 of 6 blocks', 1, true), said)
  end)

  it('measures products of matrices unless told otherwise', function()
    local points = require('ridge.measure.calibrate').matrix_points(2)
    local results = measure.block(points, SHORT)
    assert.is_nil(results[1].error)
    assert.is_true(results[1].med > 0 and results[2].med > 0)
  end)

  it('names the widest instruction set by its type alone', function()
    local list = measure.calibrate{ quick = true, noise = false, kinds = { 'fma.f64' } }
    assert.equal(1, #list)
    assert.equal('fma.f64', list[1].name)
    assert.is_true(list[1].value > 1e6 and list[1].ci_lo <= list[1].value
                   and list[1].value <= list[1].ci_hi)
    local whole, names = measure.calibrate{ noise = false, kinds = { 'fma.f64' } }, {}
    for _, row in ipairs(whole) do names[row.name] = true end
    assert.is_true(names['fma.f64'])
    local n = 0
    for _ in pairs(names) do n = n + 1 end
    assert.equal(#whole, n, 'no name twice')
  end)

  it('does not wait where a stop is asked for', function()
    local services = native.services()
    C.rg_interrupt_set()
    local ok, err = pcall(services.pause, services, 1e8)
    C.rg_interrupt_clear()
    assert.is_false(ok)
    assert.equal('EINTR', err.code)
    local before = services.now()
    services:pause(3e7)
    assert.is_true(services.now() - before >= 3e7)
  end)

  it('gives the thread count back, whatever happens', function()
    local before = ridge.num_threads()
    local ok = pcall(measure.calibrate, { quick = true, ceilings = false, threads = 1,
                                          points = function() error('no points') end })
    assert.is_false(ok)
    assert.equal(before, ridge.num_threads())
    ok = pcall(measure.calibrate, { quikc = true })
    assert.is_false(ok)
  end)
end)

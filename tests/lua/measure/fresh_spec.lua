-- SPDX-License-Identifier: MIT
-- Comparisons whose candidates are made again in fresh processes.

local ab = require 'ridge.measure.ab'

local SHORT = { level = 'quick', quiet_ns = 0, warm_min_ns = 1e6, warm_max_ns = 2e7 }

local function compare(setup, more)
  local given = { setup = setup, looks = 1, protocol = SHORT }
  for name, value in pairs(more or {}) do given[name] = value end
  return ab.ab(given)
end

local function message(setup)
  local ok, err = pcall(compare, setup)
  assert.is_false(ok)
  return tostring(err), err
end

describe('a comparison in fresh processes', function()
  it('has blocks from each of them, of candidates a factor apart', function()
    local found = compare(function()
      local ridge = require 'ridge'
      local x = ridge.ones(16, 16)
      local function chain(n)
        return ridge.graph(function()
          local y
          for _ = 1, n do y = x:exp() end
          return y
        end):plan()
      end
      return chain(10), chain(40)
    end)
    assert.equal(6, found.procs)
    assert.equal(36, found.blocks)
    assert.is_true(found.ratio > 1.5, found.ratio)
    for _, process in ipairs(found.processes) do
      assert.equal(6, #process.effects)
      assert.equal(2, #process.aa)
    end
  end)

  it('has two processes when told, and this process\'s thread count', function()
    local threads = require('ridge').num_threads()
    require('ridge').set_num_threads(1)
    local ok, found = pcall(compare, function()
      local ridge = require 'ridge'
      assert(ridge.num_threads() == 1)
      local x = ridge.ones(4)
      local p = ridge.capture(function() return x + 1 end)
      return p, p
    end, { processes = 2 })
    require('ridge').set_num_threads(threads)
    assert.is_true(ok, tostring(found))
    assert.equal(2, found.procs)
  end)

  it('makes its candidates again for each block', function()
    -- in one process: once, for each of six blocks, and two copies for each of two of A/A
    local function outcome(last)
      local text = ('return %s'):format([[function()
        local counted = package.loaded.counted_by_the_test or 1
        package.loaded.counted_by_the_test = counted + 1
        if counted == LAST then error('made ' .. counted .. ' times') end
        local ridge = require 'ridge'
        local x = ridge.ones(4)
        local p = ridge.capture(function() return x + 1 end)
        return p, p
      end]]):gsub('LAST', tostring(last))
      local ok, err = pcall(compare, loadstring(text)(), { processes = 1, blocks = 6 })
      return ok or tostring(err)
    end
    assert.matches('made 11 times', outcome(11))
    assert.is_true(outcome(12))
  end)

  it('tells an error, a wrong result, and an end', function()
    assert.is_truthy(message(function() error 'nothing works' end):find 'nothing works')
    assert.is_truthy(message(function()
      local ridge = require 'ridge'
      local x = ridge.ones(4)
      return ridge.capture(function() return x + 1 end), ridge.capture(function() return x end)
    end):find 'off by')
    assert.is_truthy(message(function() os.exit(3) end):find 'ended %(status 3%)')
    assert.is_truthy(message(function() return 1 end):find 'setup returns two')
  end)

  it('tells why a process did not even hear what to make', function()
    local process, closed = require 'ridge.process', false
    local spawn, why = process.spawn, { code = 'ESYS', message = 'it is gone' }
    process.spawn = function()
      return { send = function() error(why, 0) end, close = function() closed = true end }
    end
    local ok, err = pcall(require('ridge.measure.fresh').start, { module = 'm', spec = 's' }, {}, 1)
    process.spawn = spawn
    assert.is_false(ok)
    assert.equal(why, err)
    assert.is_true(closed)
  end)

  it('does not take a function with surroundings', function()
    local outside = 5
    assert.is_truthy(message(function() return outside end):find 'local outside from outside')
  end)

  it('measures one point in several processes, too', function()
    local fresh, protocols = require 'ridge.measure.fresh', require 'ridge.measure.protocol'
    local protocol = protocols.protocol { level = 'quick', processes = 2, quiet_ns = 0,
      warm_min_ns = 1e6, warm_max_ns = 2e7, cache = { 'warm', 'cold' } }
    local seen = {}
    local names, results = fresh.points(fresh.source(function()
      local ridge = require 'ridge'
      local x = ridge.ones(16, 16)
      return ridge.capture(function() return x:exp() end)
    end), protocol, nil, function(i, n) seen[#seen + 1] = i .. '/' .. n end)
    assert.same({ 'ab' }, names)
    assert.same({ '1/2', '2/2' }, seen)
    assert.same({ 2, 30, 6, 'warm' }, { results[1].procs, results[1].n, results[1].rounds,
                                        results[1].cache })
    assert.same({ 2, 'cold' }, { results[1].cold.procs, results[1].cold.cache })
    assert.is_truthy(results[1].first_ns)
    local one = require('ridge.measure').fresh(function()
      local ridge = require 'ridge'
      local x = ridge.ones(4)
      return ridge.capture(function() return x + 1 end)
    end, { level = 'quick', quiet_ns = 0, warm_min_ns = 1e6, warm_max_ns = 1e7 })
    assert.equal(15, one.n)
  end)

  it('chooses the kernels of devices there as here', function()
    local modes = require('ridge.ffi.lib').rg_device_modes_now()
    modes.tf32, modes.vendor = 1, 0
    local ok, err = pcall(require('ridge.measure').fresh, function()
      local ridge = require 'ridge'
      local now = require('ridge.measure.device').modes_text()
      if now ~= 'autotune=1 deterministic=0 tf32=1 vendor=0' then error(now, 0) end
      local x = ridge.ones(4)
      return ridge.capture(function() return x + 1 end)
    end, { level = 'quick', quiet_ns = 0, warm_min_ns = 1e6, warm_max_ns = 1e7 })
    modes.tf32, modes.vendor = 0, 1
    assert.is_true(ok, tostring(err))
  end)

  it('leaves no process behind', function()
    -- without what a sanitizer preloads, under which ps itself may lock up
    local command = "LD_PRELOAD= ps --no-headers --ppid %s -o pid,args | grep -c '[s]erve'"
    local children = io.popen(command:format(io.open('/proc/self/stat'):read('*n')))
    assert.equal('0\n', children:read '*a')
    children:close()
  end)
end)

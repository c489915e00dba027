-- SPDX-License-Identifier: MIT
-- What a point keeps beside a time: the counts of its plan, and those of its recipe in their place.

local folders = dofile 'tests/lua/store/folder.lua'
local point = require 'ridge.sweep.point'
local ridge = require 'ridge'

local function metrics_of(declare)
  local m = point.new({}, {}, nil)
  declare(m)
  local timed = m:plans 'p'
  local results = {}
  for i in ipairs(timed) do results[i] = { med = 1000, flags = {} } end
  local out, how = {}, {}
  for _, metric in ipairs(m:outcome(results).metrics) do
    out[metric.name], how[metric.name] = metric.value, metric.how
  end
  return out, how, timed
end

describe('a metric of its own', function()
  it('is a number with a name', function()
    local m = point.new({}, {}, nil)
    for _, wrong in ipairs { { 'k', 'x' }, { 'k' }, { 5, 5 }, { '', 5 }, { 'a"b', 5 } } do
      local ok, e = pcall(m.metric, m, unpack(wrong, 1, 2))
      assert.is_false(ok)
      assert.same({ 'EARG', 'm:metric' }, { e.code, e.op })
      assert.matches('^m:metric: ', e.message)
    end
    m:metric('k', 5)
  end)
end)

describe('a timed plan', function()
  -- 32 x 64 times 64 x 16: 2 * 32 * 64 * 16 operations; three matrices of f32
  local a, b = ridge.randn(32, 64), ridge.randn(64, 16)
  local plan = ridge.capture(function() return a:matmul(b) end)

  it('keeps its operations and bytes, and the rates', function()
    local found, how, timed = metrics_of(function(m) m:time('fwd', plan) end)
    assert.equal(65536, found.fwd_flops)
    assert.equal(4 * (2048 + 1024 + 512), found.fwd_bytes)
    assert.equal(65.536, found.fwd_gflops)
    assert.equal(14.336, found.fwd_gbps)
    assert.equal('plan', how.fwd_flops)
    assert.equal('plan', how.fwd_bytes)
    assert.equal(65536, timed[1].cost.flops)
    assert.is_nil(timed[1].cost.bytes)
  end)

  it('among several gives the point the worst grade of all, and the flags of each', function()
    local m = point.new({}, {}, nil)
    for _, phase in ipairs { 'one', 'two', 'three' } do m:time(phase, plan) end
    m:plans 'p'
    local out = m:outcome { { med = 1, grade = 'B', flags = {} },
      { med = 1, grade = 'C', flags = { 'DRIFT' }, cold = { med = 2, grade = 'B', flags = {} } },
      { med = 1, grade = 'A', flags = { 'NOISY' } } }
    assert.equal('C', out.grade)
    assert.matches('DRIFT', out.flags)
    assert.matches('NOISY', out.flags)
  end)

  it('gives way to the counts of the recipe, each by itself, before or after', function()
    for _, first in ipairs { true, false } do
      local found, how, timed = metrics_of(function(m)
        if first then m:cost('fwd', { flops = 7 }) end
        m:time('fwd', plan)
        if not first then m:cost('fwd', { flops = 7 }) end
      end)
      assert.equal(7, found.fwd_flops)
      assert.equal('cost', how.fwd_flops)
      assert.equal(14336, found.fwd_bytes)
      assert.equal('plan', how.fwd_bytes)
      assert.equal(7, timed[1].cost.flops)
      found, how, timed = metrics_of(function(m)
        if first then m:cost('fwd', { bytes = 9 }) end
        m:time('fwd', plan)
        if not first then m:cost('fwd', { bytes = 9 }) end
      end)
      assert.equal(9, found.fwd_bytes)
      assert.equal('cost', how.fwd_bytes)
      assert.equal(65536, found.fwd_flops)
      assert.equal(9, timed[1].cost.bytes)
    end
  end)

  it('has no rate where it computes nothing, and a function knows nothing', function()
    local copy = ridge.capture(function() return a:t():contiguous() end)
    local found = metrics_of(function(m)
      m:time('copy', copy)
      m:time('lua', function() end)
    end)
    assert.is_nil(found.copy_flops)
    assert.is_nil(found.copy_gflops)
    assert.equal(16384, found.copy_bytes)
    assert.is_nil(found.lua_flops)
    assert.is_nil(found.lua_bytes)
  end)
end)

describe('a sweep that says no cost', function()
  it('has a roofline all the same', function()
    local folder = folders.new()
    local path = folder .. '/widths.lua'
    local file = io.open(path, 'w')
    file:write [[
      local ridge = require 'ridge'
      ridge.sweep 'widths' { space = { width = { 16, 32 } }, protocol = 'quick',
        setup = function(p)
          return { layer = ridge.nn.Linear(p.width, p.width), x = ridge.randn(8, p.width) }
        end,
        measure = function(_, c, m)
          m:time('fwd', ridge.capture(function() return c.layer(c.x) end))
        end }:run { calibrate = false } ]]
    file:close()
    local function shell(words)
      local pipe = io.popen(('RIDGE_DB=%s/w.db ./ridge %s 2>&1; echo "status $?"'):format(folder,
        words))
      local text = pipe:read '*a'
      pipe:close()
      return text
    end
    assert.matches('status 0\n$', shell(path))
    assert.matches('status 0\n$', shell(('plot roofline widths -o %s/r.png'):format(folder)))
    -- 2 * 8 * 16 * 16 operations; weight, bias, input, output
    local text = shell "query widths 'width, fwd.flops, fwd.bytes' --where 'width = 16' --as csv"
    assert.matches('\n16,4096,2112\n', text)
    folders.remove(folder)
  end)
end)

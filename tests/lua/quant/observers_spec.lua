-- SPDX-License-Identifier: MIT
-- Observers: what ranges they make of values, beside formulas and searches by hand.
local ridge = require 'ridge'
local histogram = require 'ridge.quant.histogram'
local observers = require 'ridge.quant.observers'
local ranges = require 'ridge.quant.ranges'
local scheme = require 'ridge.quant.scheme'

local function observed(kind, batches, dtype, percentile)
  local o = observers.new(kind, { dtype = dtype or 'u8', percentile = percentile or 99 }, 'layer')
  for _, x in ipairs(batches) do o:add(ridge.is_tensor(x) and x or ridge.tensor(x)) end
  return o:range()
end

describe('a range', function()
  it('has its zero at a whole number, ties to even', function()
    for at, zero in ipairs { 0, 2, 2, 4 } do -- 0.5, 1.5, 2.5, 3.5
      assert.same({ 1, zero }, { scheme.of(0.5 - at, 255.5 - at, 'u8') })
    end
    assert.same({ 1, 255 }, { scheme.of(-255, -3, 'u8') })
    assert.same({ 1, 0 }, { scheme.of(3, 255, 'u8') })
    assert.same({ 1, 0 }, { scheme.of(-127, 4, 'i8') })
  end)
end)

describe('observers', function()
  it('minmax takes the outermost of all batches', function()
    assert.same({ -3, 5 }, { observed('minmax', { { -1, 5 }, { -3, 2 } }) })
  end)

  it('average moves by a hundredth of the way to each batch', function()
    local lo, hi = observed('average', { { -1, 4 }, { -3, 2 }, { 0, 8 } })
    local a, b = -1 + 0.01 * (-3 + 1), 4 + 0.01 * (2 - 4)
    a, b = a + 0.01 * (0 - a), b + 0.01 * (8 - b)
    assert.near(a, lo, 1e-6)
    assert.near(b, hi, 1e-6)
  end)

  it('percentile leaves the outermost out on both sides', function()
    local x = ridge.linspace(-1, 1, 2001)
    local lo, hi = observed('percentile', { x, x }, 'u8', 90)
    assert.near(-0.9, lo, 0.002)
    assert.near(0.9, hi, 0.002)
    lo, hi = observed('percentile', { x }, 'u8', 100)
    assert.is_true(lo <= -1 and hi >= 1 and hi < 1.001)
  end)

  it('mse is the best of the ranges that are parts of all', function()
    local x = ridge.randn(4000, { generator = ridge.generator(3) })
    x:narrow(1, 1, 2):fill_(12)
    for _, dtype in ipairs { 'u8', 'i8' } do
      local lo, hi = observed('mse', { x }, dtype)
      local values = x:tolist()
      local function loss(a, b)
        local scale, zero = scheme.of(a, b, dtype)
        local low, high = scheme.limits(dtype)
        local sum = 0
        for _, v in ipairs(values) do
          local q = math.max(low, math.min(high, math.floor(v / scale + 0.5) + zero))
          sum = sum + (v - (q - zero) * scale) ^ 2
        end
        return sum
      end
      local found = loss(lo, hi)
      assert.is_true(found <= 1.02 * loss(x:min():item(), x:max():item()))
      for _, part in ipairs { 0.1, 0.25, 0.5, 0.75, 0.9 } do
        assert.is_true(found <= 1.02 * loss(x:min():item() * part, x:max():item() * part), part)
      end
    end
  end)

  it('entropy gives up a few far away for steps where most are', function()
    local x = ridge.randn(20000, { generator = ridge.generator(3) })
    x:narrow(1, 1, 1):fill_(60)
    local lo, hi = observed('entropy', { x }, 'i8')
    assert.is_true(hi < 30 and hi > 2, hi)
    assert.is_true(lo < 0)
    local even = ridge.rand(20000, { generator = ridge.generator(3) })
    local _, all = observed('entropy', { even }, 'u8')
    assert.is_true(all > 0.9, all)
  end)

  -- 0 is a whole number whatever the range: half of all values there are no reason for another one.
  it('entropy takes behind a ReLU the range it takes of what is not 0', function()
    local x = ridge.randn(20000, { generator = ridge.generator(3) }):relu()
    local n = x:gt(0):to('i64'):sum():item()
    local above = x:sort(1):narrow(1, 20001 - n, n):contiguous()
    for _, dtype in ipairs { 'u8', 'i8' } do
      local _, hi = observed('entropy', { x }, dtype)
      local _, wanted = observed('entropy', { above }, dtype)
      assert.equal(wanted, hi)
      assert.is_true(hi > 3, hi)
      -- also where bins are joined after zeros were counted
      _, wanted = observed('entropy', { above * 0.25, above }, dtype)
      assert.equal(wanted, (select(2, observed('entropy', { x * 0.25, x }, dtype))))
    end
  end)

  it('a range becomes a scale with 0 on a step', function()
    local scale, zero = scheme.of(0.5, 2, 'u8')
    assert.near(2 / 255, scale, 1e-9)
    assert.equal(0, zero)
    scale, zero = scheme.of(-1, 3, 'u8')
    assert.near(4 / 255, scale, 1e-9)
    assert.equal(64, zero)
    assert.equal(255, select(2, scheme.of(-3, -1, 'u8')))
    scale, zero = scheme.of(-4, 2, 'i8')
    assert.near(4 / 127, scale, 1e-9)
    assert.equal(0, zero)
  end)
end)

describe('the histogram', function()
  it('counts every value, whatever comes later', function()
    local h, all = histogram.new(), {}
    for i, size in ipairs { 0.001, 1, 0.5, 300, 2 } do
      local x = ridge.randn(500, { generator = ridge.generator(i) }) * size
      h:add(x, x:abs():max():item())
      for _, v in ipairs(x:tolist()) do all[#all + 1] = v end
    end
    local middles, counts, width = h:filled()
    assert.equal(2500, h.n)
    local at = {}
    for i, m in ipairs(middles) do at[math.floor(m / width)] = counts[i] end
    local want = {}
    for _, v in ipairs(all) do
      local bin = math.floor(v / width)
      want[bin] = (want[bin] or 0) + 1
    end
    assert.same(want, at)
    assert.is_nil((ranges.percentile(histogram.new(), 0.9)))
  end)
end)

-- SPDX-License-Identifier: MIT
-- Signed ranks, sign flips and false discoveries, against tables and against counting by hand.

local paired = require 'ridge.measure.paired'
local random = require 'ridge.measure.random'

describe('the ranks of an interval', function()
  it('are those of the tables (Hollander and Wolfe, A.4)', function()
    for n, ranks in pairs { [6] = { 1, 21 }, [8] = { 4, 33 }, [12] = { 14, 65 },
                            [24] = { 82, 219 } } do
      local k = paired.outside(n, 0.95)
      assert.equal(ranks[1], k + 1)
      assert.equal(ranks[2], n * (n + 1) / 2 - k)
    end
    assert.equal(-1, paired.outside(5, 0.95))
  end)

  it('go on smoothly where counting ends', function()
    local exact, normal = paired.outside(100, 0.95), paired.outside(101, 0.95)
    assert.is_true(normal - exact > 30 and normal - exact < 50)
  end)
end)

describe('the centre', function()
  it('is the median of the averages of pairs', function()
    local found = paired.location({ 1, 2, 10 }, 0.5)
    -- 1 1.5 2 5.5 6 10
    assert.equal(3.75, found.estimate)
  end)

  it('of twelve values lies between the 14th and the 65th average', function()
    local values, r = {}, random.new(8)
    for i = 1, 12 do values[i] = r:normal() end
    local averages, found = paired.walsh(values), paired.location(values, 0.95)
    assert.equal(78, #averages)
    assert.same({ averages[14], averages[65] }, { found.lo, found.hi })
  end)

  it('of too few values has their range, and says so', function()
    local found = paired.location({ 3, 1, 2 }, 0.95)
    assert.is_false(found.attained)
    assert.same({ 1, 3 }, { found.lo, found.hi })
    assert.is_true(paired.location({ 1, 2, 3, 4, 5, 6 }, 0.95).attained)
  end)

  it('is not moved by a spike', function()
    local list = {}
    for i = 1, 12 do list[i] = 0.01 * (i % 3) end
    local before = paired.location(list, 0.95)
    list[2] = 100
    local after = paired.location(list, 0.95)
    assert.is_true(math.abs(after.estimate - before.estimate) <= 0.005)
  end)
end)

-- By hand: all 2^n flips of the signs of the ranks.
local function flips_by_hand(values)
  local n, order = #values, {}
  for i = 1, n do order[i] = i end
  table.sort(order, function(i, j) return math.abs(values[i]) < math.abs(values[j]) end)
  local function rank(i)   -- mean rank of the ties of value i
    local sum, count = 0, 0
    for place, k in ipairs(order) do
      if math.abs(values[k]) == math.abs(values[i]) then sum, count = sum + place, count + 1 end
    end
    return sum / count
  end
  local ranks, total, seen = {}, 0, 0
  for i = 1, n do
    ranks[i] = rank(i)
    total = total + ranks[i]
    if values[i] > 0 then seen = seen + ranks[i] end
  end
  local far, hits = math.abs(seen - total / 2), 0
  for code = 0, 2 ^ n - 1 do
    local sum, rest = 0, code
    for i = 1, n do
      if rest % 2 == 1 then sum = sum + ranks[i] end
      rest = math.floor(rest / 2)
    end
    if math.abs(sum - total / 2) >= far - 1e-9 then hits = hits + 1 end
  end
  return hits / 2 ^ n
end

describe('sign flips', function()
  it('are counted exactly, ties too', function()
    local r = random.new(5)
    for n = 2, 11 do
      local list = {}
      for i = 1, n do
        list[i] = math.floor(10 * (r:normal() + 0.7))
        if list[i] == 0 then list[i] = 1 end
      end
      assert.is_true(math.abs(paired.sign_flips(list) - flips_by_hand(list)) < 1e-12)
    end
    assert.equal(2 / 64, paired.sign_flips { 1, 2, 3, 4, 5, 6 })
    assert.equal(1, paired.sign_flips { 0, 0 })
    assert.equal(1, paired.sign_flips { 1, -1 })
  end)

  it('of many values are those of the normal distribution', function()
    local list = {}
    for i = 1, 100 do list[i] = i % 7 - 2.7 + i * 0.001 end
    local exact = paired.sign_flips(list)
    list[101] = -0.5
    assert.is_true(math.abs(paired.sign_flips(list) - exact) < 0.05)
  end)
end)

describe('many comparisons', function()
  it('have the q values of Benjamini and Hochberg', function()
    local qs = paired.benjamini_hochberg { 0.04, 0.01, 0.03, 0.5 }
    for i, q in ipairs { 0.16 / 3, 0.04, 0.16 / 3, 0.5 } do
      assert.is_true(math.abs(qs[i] - q) < 1e-12, ('%d: %g'):format(i, qs[i]))
    end
    assert.same({ 0.2 }, paired.benjamini_hochberg { 0.2 })
    assert.same({}, paired.benjamini_hochberg {})
  end)
end)

describe('a block', function()
  it('cancels a drift along it, in both designs', function()
    for _, design in ipairs { 'ABBA', 'BAAB' } do
      local times, is_b = {}, paired.slots(design)
      for i = 1, 4 do times[i] = math.exp(0.1 * i) * (is_b[i] and 1.05 or 1) end
      assert.is_true(math.abs(paired.effect(design, times) - math.log(1.05)) < 1e-12)
    end
  end)

  it('gets its design by a fair coin', function()
    local r, n = random.new(3), 0
    for _ = 1, 2000 do
      if paired.coin(r) == 'ABBA' then n = n + 1 end
    end
    assert.is_true(math.abs(n - 1000) < 3 * math.sqrt(500))
  end)
end)

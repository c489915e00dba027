-- SPDX-License-Identifier: MIT
-- Intervals of shares: published values, and that they cover as often as they say.

local proportion = require 'ridge.measure.proportion'
local random = require 'ridge.measure.random'

describe('the interval of a share', function()
  it("is Wilson's", function()
    -- Newcombe 1998, Statistics in Medicine 17, 857-872, table I, method 3
    for _, case in ipairs { { 81, 263, 0.2553, 0.3662 }, { 15, 148, 0.0624, 0.1605 },
      { 0, 20, 0, 0.1611 }, { 1, 29, 0.0061, 0.1718 } } do
      local lo, hi = proportion.interval(case[1], case[2])
      assert.near(case[3], lo, 6e-5)
      assert.near(case[4], hi, 6e-5)
    end
    local lo, hi = proportion.interval(20, 20)
    assert.near(1 - 0.1611, lo, 6e-5)
    assert.equal(1, hi)
    for n = 1, 200 do -- of none and of all one end is exact
      assert.equal(0, (proportion.interval(0, n)))
      assert.equal(1, select(2, proportion.interval(n, n)))
    end
  end)

  it("of a difference is Newcombe's", function()
    -- Newcombe 1998, Statistics in Medicine 17, 873-890, table II, method 10
    for _, case in ipairs { { 56, 70, 48, 80, 0.0524, 0.3339 }, { 9, 10, 3, 10, 0.1705, 0.8090 },
      { 5, 56, 0, 29, -0.0381, 0.1926 }, { 10, 10, 0, 20, 0.6791, 1 } } do
      local lo, hi = proportion.difference(case[1], case[2], case[3], case[4])
      assert.near(case[5], lo, 6e-5)
      assert.near(case[6], hi, 6e-5)
    end
  end)

  it('covers the share as often as it says', function()
    local r, covered, trials = random.new(5), 0, 2000
    for _ = 1, trials do
      local hits = 0
      for _ = 1, 60 do hits = hits + (r:uniform() < 0.9 and 1 or 0) end
      local lo, hi = proportion.interval(hits, 60)
      covered = covered + (lo <= 0.9 and 0.9 <= hi and 1 or 0)
    end
    assert.is_true(covered / trials > 0.93 and covered / trials < 0.985, covered / trials)
  end)
end)

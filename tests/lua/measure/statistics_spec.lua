-- SPDX-License-Identifier: MIT
local statistics = require 'ridge.measure.statistics'
local trend = require 'ridge.measure.trend'
local interval = require 'ridge.measure.interval'
local random = require 'ridge.measure.random'

local function near(want, got, tolerance)
  assert.is_true(math.abs(want - got) <= (tolerance or 1e-9),
                 ('want %.12g, got %.12g'):format(want, got))
end

describe('statistics of one list', function()
  it('interpolates quantiles as type 7 does', function()
    local list = { 1, 2, 3, 4 }
    near(2.5, statistics.quantile(list, 0.5))
    near(1.75, statistics.quantile(list, 0.25))
    near(1, statistics.quantile(list, 0))
    near(4, statistics.quantile(list, 1))
    near(7, statistics.quantile({ 7 }, 0.95))
  end)

  it('leaves the given list alone', function()
    local list = { 3, 1, 2 }
    near(2, statistics.median(list))
    statistics.summary(list)
    assert.same({ 3, 1, 2 }, list)
  end)

  it('knows sd, mad and iqr of a textbook list', function()
    local list = { 2, 4, 4, 4, 5, 5, 7, 9 }
    near(2.138089935299395, statistics.sd(list))
    near(0.5, statistics.mad(list))
    near(1.5, statistics.iqr(statistics.sorted(list)))
    near(0, statistics.sd({ 3 }))
  end)

  it('finds the autocorrelation of an AR(1) series', function()
    local r, series, x = random.new(3), {}, 0
    for i = 1, 20000 do
      x = 0.6 * x + r:normal()
      series[i] = 1000 + x
    end
    near(0.6, statistics.autocorrelation(series), 0.02)
    local white = {}
    for i = 1, 20000 do white[i] = 1000 + r:normal() end
    near(0, statistics.autocorrelation(white), 0.02)
    near(0, statistics.autocorrelation({ 5, 5, 5, 5, 5 }))
    assert.is_true(statistics.autocorrelation({ 1, 2, 1, 2, 1, 2, 1, 2 }) < -0.8)
  end)

  it('never counts more samples than there are, nor fewer than four', function()
    near(50, statistics.effective_count(50, -0.5))
    near(50, statistics.effective_count(50, -1))
    near(50, statistics.effective_count(50, -1 - 1e-9)) -- a rounding error beyond its range
    near(50, statistics.effective_count(50, 0))
    near(50 / 3, statistics.effective_count(50, 0.5))
    near(4, statistics.effective_count(50, 0.99))
    near(4, statistics.effective_count(50, 1))
    near(3, statistics.effective_count(3, 0.9))
  end)

  it('splits two clusters and does not split one', function()
    local two, one, r = {}, {}, random.new(5)
    for i = 1, 60 do two[i] = (i <= 20 and 100 or 130) + r:normal() end
    for i = 1, 60 do one[i] = 100 + r:normal() end
    local removed, share = statistics.two_means(statistics.sorted(two))
    assert.is_true(removed > 0.95)
    near(1 / 3, share)
    assert.is_true(statistics.two_means(statistics.sorted(one)) < 0.8)
    -- the smaller cluster, whichever side it is on
    for _, list in ipairs { { 1, 1, 1, 10 }, { 1, 10, 10, 10 } } do
      removed, share = statistics.two_means(list)
      near(1, removed)
      near(0.25, share)
    end
    removed, share = statistics.two_means({ 4, 4, 4 })
    near(0, removed)
    near(0, share)
  end)

  it('tests groups as Kruskal and Wallis do', function()
    -- H = 7.2 for three groups in full order; chi-squared with 2 degrees gives exp(-3.6)
    local groups = { { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 } }
    near(math.exp(-3.6), (statistics.kruskal_wallis(groups)), 1e-9)
    local p, effect = statistics.kruskal_wallis({ { 5, 5 }, { 5, 5 } })
    near(1, p)
    near(0, effect)
    near(0.05, statistics.chi_squared_tail(3.841459, 1), 1e-6)
    -- below the mode: 1 - erf(1 / sqrt 2) and 2 exp(-1) in closed form, a value of the tables
    near(0.3173105, statistics.chi_squared_tail(1, 1), 1e-6)
    near(2 * math.exp(-1), statistics.chi_squared_tail(2, 4), 1e-9)
    near(0.95, statistics.chi_squared_tail(3.940299, 10), 1e-6)
    near(0.01, statistics.chi_squared_tail(23.209251, 10), 1e-6)
  end)
end)

describe('trends', function()
  it('gives the exact p of short series', function()
    near(2 / 120, (trend.mann_kendall({ 1, 2, 3, 4, 5 })))
    near(2 / 120, (trend.mann_kendall({ 5, 4, 3, 2, 1 })))
    near(1, (trend.mann_kendall({ 1, 1, 1, 1 })))
    -- one exchange in six: 2 (1 + 5) / 720
    near(12 / 720, (trend.mann_kendall({ 1, 2, 4, 3, 5, 6 })))
  end)

  it('is right in 5 % of the cases without a trend', function()
    for _, n in ipairs{ 8, 30 } do
      local r, hits = random.new(n), 0
      for _ = 1, 4000 do
        local list = {}
        for i = 1, n do list[i] = r:normal() end
        if trend.mann_kendall(list) <= 0.05 then hits = hits + 1 end
      end
      -- nominal 5 %, discrete and so below it; three standard deviations of 4000 draws
      assert.is_true(hits / 4000 < 0.05 + 0.0104, hits / 4000)
      assert.is_true(hits / 4000 > 0.025, hits / 4000)
    end
  end)

  it('finds the slope in spite of spikes', function()
    local x, y = {}, {}
    for i = 1, 40 do
      x[i], y[i] = i * 10, 100 + 0.5 * i * 10
      if i % 7 == 0 then y[i] = y[i] + 5000 end
    end
    near(0.5, trend.theil_sen(x, y), 0.05)
    near(0, trend.theil_sen({ 1, 1 }, { 2, 3 }))
    local drift, p = trend.drift({ 0, 1, 2, 3, 4, 5, 6, 7 },
                                 { 100, 101, 102, 103, 104, 105, 106, 107 })
    near(7 / 103.5, drift)
    assert.is_true(p < 0.001)
  end)
end)

describe('interval factors', function()
  it('are those of the tables', function()
    for dof, t in pairs{ [1] = 12.7062, [2] = 4.3027, [4] = 2.7764, [9] = 2.2622, [19] = 2.0930,
                         [100] = 1.9840 } do
      near(t, interval.t_factor(0.95, dof), 5e-5)
    end
    near(5.8409, interval.t_factor(0.99, 3), 5e-5)
    near(1.959964, interval.normal_quantile(0.975), 1e-6)
    near(-3.090232, interval.normal_quantile(0.001), 1e-6)
  end)

  it('take the ranks that the binomial distribution gives', function()
    local sorted = {}
    for i = 1, 50 do sorted[i] = i end
    local lo, hi = interval.of_median(sorted, 50, 0.95)
    assert.same({ 18, 33 }, { lo, hi })
    lo, hi = interval.of_median(sorted, 4, 0.95)
    assert.same({ 1, 50 }, { lo, hi })
  end)
end)

describe('the generator', function()
  it('gives the same numbers for the same seed', function()
    local a, b, c = random.new(42), random.new(42), random.new(43)
    local same, other = true, false
    for _ = 1, 100 do
      local x = a:bits()
      same = same and x == b:bits()
      other = other or x ~= c:bits()
    end
    assert.is_true(same and other)
  end)

  it('shuffles into every order equally often', function()
    local r, seen = random.new(9), {}
    for _ = 1, 6000 do
      local key = table.concat(r:shuffle({ 1, 2, 3 }))
      seen[key] = (seen[key] or 0) + 1
    end
    local n = 0
    for _, count in pairs(seen) do
      n = n + 1
      assert.is_true(math.abs(count - 1000) < 4 * math.sqrt(1000 * 5 / 6), count)
    end
    assert.equal(6, n)
  end)
end)

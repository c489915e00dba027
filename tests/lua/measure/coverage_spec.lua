-- SPDX-License-Identifier: MIT
-- The intervals are held to what they promise, by simulation: of N intervals of level 95 %, the
-- share that covers the true median may fall below 0.95 by no more than three standard deviations
-- of N draws.  More is not a failure.  The noise is that of the design's measurement page.

local interval = require 'ridge.measure.interval'
local statistics = require 'ridge.measure.statistics'
local random = require 'ridge.measure.random'

local env = dofile(debug.getinfo(1, 'S').source:match('^@(.*/)') .. 'noise.lua').env

local N = 4000
local FLOOR = 0.95 - 3 * math.sqrt(0.95 * 0.05 / N)

local CASES = {
  white = { drift = 0, rho = 0, sigma = 0.01, spike = 0 },
  drifting = { drift = 0.03, rho = 0, sigma = 0.003, spike = 0 },
  autocorrelated = { drift = 0, rho = 0.95, sigma = 0.01, spike = 0 },
  everything = { drift = 0.03, rho = 0.95, sigma = 0.01, spike = 0.03 },
}

local function truth(c, n)
  local r, all = random.new(1), {}
  for _ = 1, 20000 do
    for _, v in ipairs(env(r, n, c)) do all[#all + 1] = v end
  end
  return statistics.median(all)
end

-- Share of intervals that cover the truth; of says how an interval is made of rounds.
local function coverage(c, plan, of)
  local r, covered, target = random.new(20240607), 0, truth(c, plan.samples)
  for _ = 1, N do
    local rounds, ci = {}, nil
    for i = 1, plan.max do
      rounds[i] = env(r, plan.samples, c)
      if i >= plan.min then
        ci = (of or interval.of_rounds)(rounds, 0.95)
        if ci.half <= (plan.precision or 0) then break end
      end
    end
    if ci.lo <= target and target <= ci.hi then covered = covered + 1 end
  end
  return covered / N
end

local function naive(rounds, level)
  local all = {}
  for _, round in ipairs(rounds) do
    for _, v in ipairs(round) do all[#all + 1] = v end
  end
  local sorted = statistics.sorted(all)
  local lo, hi = interval.of_median(sorted, #sorted, level)
  return { lo = lo, hi = hi, half = (hi - lo) / (2 * statistics.quantile(sorted, 0.5)) }
end

local function only_n_eff(rounds, level)
  local all = {}
  for _, round in ipairs(rounds) do
    for _, v in ipairs(round) do all[#all + 1] = v end
  end
  local sorted = statistics.sorted(all)
  local n_eff = statistics.effective_count(#all, statistics.autocorrelation(all))
  local lo, hi = interval.of_median(sorted, n_eff, level)
  return { lo = lo, hi = hi, half = (hi - lo) / (2 * statistics.quantile(sorted, 0.5)) }
end

local FIXED = { min = 5, max = 5, samples = 10 }
local STOPPING = { min = 5, max = 20, samples = 10, precision = 0.01 }

describe('a 95 % interval covers', function()
  for name, c in pairs(CASES) do
    it(('the median of %s noise, five rounds'):format(name), function()
      local share = coverage(c, FIXED)
      assert.is_true(share >= FLOOR, share)
    end)
    it(('the median of %s noise, stopping when precise'):format(name), function()
      local share = coverage(c, STOPPING)
      assert.is_true(share >= FLOOR, share)
    end)
    it(('the median of %s noise, demo level'):format(name), function()
      local share = coverage(c, { min = 5, max = 40, samples = 10, precision = 0.02 })
      assert.is_true(share >= FLOOR, share)
    end)
    it(('the median of %s noise, quick level'):format(name), function()
      local share = coverage(c, { min = 3, max = 3, samples = 5 })
      assert.is_true(share >= FLOOR, share)
    end)
  end

  it('with the stopping rule as often as the design found: 94.8 %', function()
    local share = coverage(CASES.autocorrelated, STOPPING)
    -- both are simulations, of 3000 draws there: three standard deviations of the difference
    local tolerance = 3 * math.sqrt(0.05 * 0.95 * (1 / N + 1 / 3000))
    assert.is_true(math.abs(share - 0.948) < tolerance, share)
  end)
end)

-- What the test is for: these mistakes must not pass it.
describe('the simulation sees', function()
  it('an interval that takes correlated samples for independent ones', function()
    local share = coverage(CASES.autocorrelated, FIXED, naive)
    assert.is_true(share < 0.70, share)
    assert.is_true(share < FLOOR)
  end)

  it('that more samples in a round make that worse', function()
    local few = coverage(CASES.autocorrelated, { min = 3, max = 3, samples = 10 }, naive)
    local many = coverage(CASES.autocorrelated, { min = 3, max = 3, samples = 30 }, naive)
    assert.is_true(many < few - 0.1, ('%g and %g'):format(few, many))
  end)

  it('an interval that knows the samples but not the rounds', function()
    local share = coverage(CASES.autocorrelated, { min = 3, max = 3, samples = 10 }, only_n_eff)
    assert.is_true(share < FLOOR, share)
  end)

  it('a rule that stops as soon as it may, from two rounds on', function()
    local share = coverage(CASES.autocorrelated,
                           { min = 2, max = 20, samples = 10, precision = 0.01 })
    assert.is_true(share < FLOOR, share)
  end)
end)

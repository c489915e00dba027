-- SPDX-License-Identifier: MIT
--- Which interval of the median of a few passes covers?  Every method on every generator of
--- tests/lua/measure/states.lua: the share of 95 % intervals that contain the true median, and half
--- their median width in per cent.  docs/why/passes.md keeps what it printed.
--
--     ./ridge scripts/compare_intervals.lua [--trials 2000] [--passes 5,6,9,12]

local interval = require 'ridge.measure.interval'
local passes = require 'ridge.measure.passes'
local random = require 'ridge.measure.random'
local ridge = require 'ridge'
local states = dofile 'tests/lua/measure/states.lua'
local statistics = require 'ridge.measure.statistics'

local opt = ridge.args {
  { 'trials', 2000, 'intervals of each kind', min = 10, integer = true },
  { 'passes', { '3', '5', '6', '9', '12' }, 'numbers of passes' },
}

local LEVEL = 0.95
local METHODS = { 'kept', 'order', 'interpolated', 't', 'BCa', 'Bayes' }
local of = {}

-- -- Order statistics ------------------------------------------------------------------

-- Coverage of the interval from the k-th smallest to the k-th largest of n.
local function order_level(n, k)
  local chance, tail = 0.5 ^ n, 0
  for i = 0, k - 1 do
    tail = tail + chance
    chance = chance * (n - i) / (i + 1)
  end
  return 1 - 2 * tail
end

local function rank(n)
  local k = 1
  while k + 1 <= n / 2 and order_level(n, k + 1) >= LEVEL do k = k + 1 end
  return k
end

function of.order(x)
  local k = rank(#x)
  return x[k], x[#x + 1 - k]
end

-- Hettmansperger and Sheather 1986: between that interval and the next one inside.
function of.interpolated(x)
  local n, k = #x, rank(#x)
  local outer = order_level(n, k)
  if outer < LEVEL or k + 1 > n / 2 then return of.order(x) end
  local share = (outer - LEVEL) / (outer - order_level(n, k + 1))
  local inward = (n - k) * share / (k + (n - 2 * k) * share)
  return x[k] + inward * (x[k + 1] - x[k]), x[n + 1 - k] + inward * (x[n - k] - x[n + 1 - k])
end

-- -- Student, BCa, Bayes ------------------------------------------------------------------

function of.t(x) return interval.student(x, LEVEL) end

local function normal_cdf(z)
  local t = 1 / (1 + 0.2316419 * math.abs(z))
  local tail = math.exp(-z * z / 2) / math.sqrt(2 * math.pi) * t * (0.319381530 + t * (-0.356563782
    + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
  return z >= 0 and 1 - tail or tail
end

local RESAMPLES = 500
local draws = random.new(99)

-- Efron 1987: the bootstrap of the median, corrected for bias and acceleration.
function of.BCa(x)
  local n, at, below, boot = #x, statistics.quantile(x, 0.5), 0, {}
  for b = 1, RESAMPLES do
    local y = {}
    for i = 1, n do y[i] = x[draws:integer(n)] end
    boot[b] = statistics.median(y)
    below = below + (boot[b] < at and 1 or boot[b] == at and 0.5 or 0)
  end
  table.sort(boot)
  local bias = interval.normal_quantile(math.max(0.001, math.min(0.999, below / RESAMPLES)))
  local without, cubes, squares = {}, 0, 0
  for i = 1, n do
    local y = {}
    for j = 1, n do if j ~= i then y[#y + 1] = x[j] end end
    without[i] = statistics.median(y)
  end
  local mean = statistics.mean(without)
  for i = 1, n do
    local d = mean - without[i]
    cubes, squares = cubes + d ^ 3, squares + d ^ 2
  end
  local bend = squares > 0 and cubes / (6 * squares ^ 1.5) or 0
  local function quantile(p)
    local z = bias + interval.normal_quantile(p)
    local place = normal_cdf(bias + z / (1 - bend * z))
    return boot[math.max(1, math.min(RESAMPLES, math.floor(place * RESAMPLES + 0.5)))]
  end
  return quantile((1 - LEVEL) / 2), quantile((1 + LEVEL) / 2)
end

-- A shift with a prior on the variance between passes: 5 %, worth three observations.
function of.Bayes(x)
  local n, weight, prior = #x, 3, 0.05
  local v = (weight * prior ^ 2 + (n - 1) * statistics.sd(x) ^ 2) / (weight + n - 1)
  local half = interval.t_factor(LEVEL, weight + n - 1) * math.sqrt(v / n)
  local centre = statistics.mean(x)
  return centre - half, centre + half
end

function of.kept(x)
  local times = {}
  for i = 1, #x do times[i] = math.exp(x[i]) end
  local found = passes.interval(times)
  if not found.lo then return nil end
  return math.log(found.lo), math.log(found.hi)
end

-- -- The table -----------------------------------------------------------------------------

local function row(generator, n, seed)
  local r, cells = random.new(seed), {}
  local hits, halves = {}, {}
  for _, m in ipairs(METHODS) do hits[m], halves[m] = 0, {} end
  for _ = 1, opt.trials do
    local x = statistics.sorted(generator.draw(r, n))
    for _, m in ipairs(METHODS) do
      local lo, hi = of[m](x)
      if lo then
        if lo <= generator.truth and generator.truth <= hi then hits[m] = hits[m] + 1 end
        table.insert(halves[m], (hi - lo) / 2)
      end
    end
  end
  for i, m in ipairs(METHODS) do
    local half = #halves[m] > 0 and statistics.median(halves[m])
    cells[i] = half and ('%5.1f (%5.1f)'):format(100 * hits[m] / opt.trials, 100 * half) or 'none'
  end
  return cells
end

for _, n in ipairs(opt.passes) do
  print(('\n%-2s passes                  %s'):format(n, ('%14s'):rep(#METHODS):format(
    unpack(METHODS))))
  for i, name in ipairs(states.names) do
    local cells = row(states.all[name], tonumber(n), 1000 + i)
    print(('%-25s %s'):format(name, ('%14s'):rep(#METHODS):format(unpack(cells))))
  end
end

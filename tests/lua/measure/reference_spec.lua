-- SPDX-License-Identifier: MIT
--- Statistics beside a second implementation of each, by its definition and not by its formula, on
--- some hundred small samples: few values, many ties, even and odd numbers of them.

local agree = require 'ridge.measure.agree'
local interval = require 'ridge.measure.interval'
local paired = require 'ridge.measure.paired'
local passes = require 'ridge.measure.passes'
local statistics = require 'ridge.measure.statistics'
local trend = require 'ridge.measure.trend'
local verdict = require 'ridge.measure.verdict'

local function near(want, got, what)
  if want ~= want then return assert.is_true(got ~= got, what) end
  assert.is_true(math.abs(want - got) <= 1e-9 * math.max(1, math.abs(want)),
    ('%s: want %.15g, got %.15g'):format(what or '', want, got))
end

-- Samples of 1 to 12 whole numbers out of few, so that most have ties: the same on every machine.
local function samples(least)
  local list, state = {}, 12345
  local function draw(n)
    state = (state * 16807) % 2147483647
    return state % n
  end
  for n = least or 1, 12 do
    for _, kinds in ipairs { 2, 5, 50 } do
      for _ = 1, 6 do
        local own = {}
        for i = 1, n do own[i] = 10 + draw(kinds) end
        list[#list + 1] = own
      end
    end
  end
  return list
end

local function text(list) return '{' .. table.concat(list, ' ') .. '}' end

local function total(list, f)
  local sum = 0
  for i, v in ipairs(list) do sum = sum + (f and f(v, i) or v) end
  return sum
end

local ranks = dofile 'tests/lua/measure/ranks.lua'
local ranked, quantile = ranks.ranked, ranks.quantile

local function median(list) return quantile(list, 0.5) end

local function mapped(list, f)
  local out = {}
  for i, v in ipairs(list) do out[i] = f(v, i) end
  return out
end

local function log(v) return math.log(v) end -- takes a base besides

describe('of one list', function()
  it('quantiles, spread and summary are those of the definitions', function()
    for _, list in ipairs(samples()) do
      local what, n = text(list), #list
      local mean = total(list) / n
      local sd = n > 1 and math.sqrt(total(list, function(v) return (v - mean) ^ 2 end) / (n - 1))
        or 0
      local middle = median(list)
      local mad = median(mapped(list, function(v) return math.abs(v - middle) end))
      local sorted = statistics.sorted(list)
      for _, q in ipairs { 0, 0.05, 0.25, 1 / 3, 0.5, 0.75, 0.95, 0.99, 1 } do
        near(quantile(list, q), statistics.quantile(sorted, q), what .. ' at ' .. q)
      end
      near(middle, statistics.median(list), what)
      near(mean, statistics.mean(list), what)
      near(sd, statistics.sd(list), what)
      near(mad, statistics.mad(list), what)
      near(quantile(list, 0.75) - quantile(list, 0.25), statistics.iqr(sorted), what)
      local found = statistics.summary(list)
      local want = { n = n, min = ranked(list, 1), max = ranked(list, n),
        p25 = quantile(list, 0.25), med = middle, p75 = quantile(list, 0.75),
        p95 = quantile(list, 0.95),
        p99 = quantile(list, 0.99), mean = mean, sd = sd, mad = mad }
      for name, value in pairs(want) do near(value, found[name], what .. ' ' .. name) end
      for name in pairs(found) do assert.is_truthy(want[name], name) end
    end
  end)

  it('the autocorrelation is the sum of products over that of squares', function()
    for _, list in ipairs(samples()) do
      local n, mean = #list, total(list) / #list
      local squares, products = 0, 0
      for i = 1, n do
        squares = squares + (list[i] - mean) ^ 2
        if i < n then products = products + (list[i] - mean) * (list[i + 1] - mean) end
      end
      near((n < 3 or squares < 1e-9) and 0 or products / squares, statistics.autocorrelation(list),
        text(list))
    end
  end)

  it('the best two clusters are those of all splits', function()
    for _, list in ipairs(samples()) do
      local sorted = statistics.sorted(list)
      local n = #sorted
      local function rest(from, to)
        local own = {}
        for i = from, to do own[#own + 1] = sorted[i] end
        local mean = total(own) / #own
        return total(own, function(v) return (v - mean) ^ 2 end)
      end
      local all, least, share = rest(1, n), math.huge, 0
      for cut = 1, n - 1 do
        local left = rest(1, cut) + rest(cut + 1, n)
        if left < least - 1e-9 then least, share = left, math.min(cut, n - cut) / n end
      end
      local removed, smaller, at = statistics.two_means(sorted)
      if all < 1e-9 or n < 2 then
        assert.same({ 0, 0, 0 }, { removed, smaller, at }, text(list))
      else
        near(1 - least / all, removed, text(list))
        -- of two splits that explain as much either may be said
        local left = rest(1, at) + rest(at + 1, n)
        near(least, left, text(list))
        near(math.min(at, n - at) / n, smaller, text(list))
        assert.is_true(share > 0)
      end
    end
  end)

  it('ranks of groups are those of Kruskal and Wallis, with ties', function()
    local lists = samples(2)
    for i = 1, #lists - 2, 3 do
      local groups = { lists[i], lists[i + 1], lists[i + 2] }
      local all = {}
      for _, g in ipairs(groups) do for _, v in ipairs(g) do all[#all + 1] = v end end
      local n, h = #all, 0
      local function rank(v)
        local below, equal = 0, 0
        for _, w in ipairs(all) do
          below, equal = below + (w < v and 1 or 0), equal + (w == v and 1 or 0)
        end
        return below + (equal + 1) / 2
      end
      local squares = total(all, function(v) return (rank(v) - (n + 1) / 2) ^ 2 end)
      for _, g in ipairs(groups) do
        h = h + #g * (total(g, rank) / #g - (n + 1) / 2) ^ 2
      end
      local p, effect = statistics.kruskal_wallis(groups)
      if squares == 0 then
        assert.same({ 1, 0 }, { p, effect })
      else -- of two degrees of freedom the tail is an exponential
        near(math.exp(-(n - 1) * h / squares / 2), p)
        local meds = mapped(groups, median)
        near((ranked(meds, 3) - ranked(meds, 1)) / median(all), effect)
      end
    end
  end)
end)

-- Every order of n different numbers, by exchanging.
local function orders(n, f)
  local list = {}
  for i = 1, n do list[i] = i end
  local function from(k)
    if k > n then return f(list) end
    for i = k, n do
      list[k], list[i] = list[i], list[k]
      from(k + 1)
      list[k], list[i] = list[i], list[k]
    end
  end
  from(1)
end

local function rising(list)
  local s = 0
  for i = 1, #list do
    for j = i + 1, #list do
      s = s + (list[j] > list[i] and 1 or 0) - (list[j] < list[i] and 1 or 0)
    end
  end
  return s
end

describe('of a series', function()
  it('the chance of a trend is the share of all orders that rise or fall as much', function()
    for n = 3, 7 do
      local counts, all = {}, 0
      orders(n, function(list)
        local s = math.abs(rising(list))
        counts[s], all = (counts[s] or 0) + 1, all + 1
      end)
      local seen = {}
      orders(n, function(list)
        local s = rising(list)
        if seen[s] then return end
        seen[s] = true
        local as_strong = 0
        for other, count in pairs(counts) do
          if other >= math.abs(s) then as_strong = as_strong + count end
        end
        local p, found = trend.mann_kendall(list)
        assert.equal(s, found)
        near(math.min(1, as_strong / all), p, n .. ' with ' .. s)
      end)
    end
    assert.same({ 1, 0 }, { trend.mann_kendall { 1, 2 } })
  end)

  it('with ties it is that of the normal distribution, a step nearer to none', function()
    for _, list in ipairs(samples(3)) do
      local n, s, equal = #list, rising(list), {}
      for _, v in ipairs(list) do equal[v] = (equal[v] or 0) + 1 end
      local variance, tied = n * (n - 1) * (2 * n + 5), false
      for _, t in pairs(equal) do
        variance, tied = variance - t * (t - 1) * (2 * t + 5), tied or t > 1
      end
      local p, found = trend.mann_kendall(list)
      assert.equal(s, found)
      if tied then
        local z = variance > 0 and math.max(0, math.abs(s) - 1) / math.sqrt(variance / 18) or 0
        -- both tails, by Simpson's rule
        local steps, sum = 2000, 0
        for i = 0, steps do
          local x = z * i / steps
          sum = sum + math.exp(-x * x / 2) * ((i == 0 or i == steps) and 1 or i % 2 == 1 and 4 or 2)
        end
        local want = 1 - 2 * sum * z / steps / 3 / math.sqrt(2 * math.pi)
        assert.near(want, p, 1e-6)
      end
    end
  end)

  it('its slope is the median of those of all pairs, its drift that over its length', function()
    for _, list in ipairs(samples(3)) do
      local at = mapped(list, function(_, i) return i * i end)
      local slopes = {}
      for i = 1, #list do
        for j = 1, i - 1 do slopes[#slopes + 1] = (list[i] - list[j]) / (at[i] - at[j]) end
      end
      near(median(slopes), trend.theil_sen(at, list), text(list))
      local drift, p = trend.drift(at, list)
      near(median(slopes) * (at[#at] - 1) / median(list), drift, text(list))
      near((trend.mann_kendall(list)), p)
    end
    assert.same({ 0, 1 }, { trend.drift({ 1, 2 }, { 5, 9 }) })
  end)
end)

-- -- Intervals -----------------------------------------------------------------------------------

-- Probability that |T| > t by the density of Student's distribution and Simpson's rule.
local function student_tails(t, dof)
  local function density(x) return (1 + x * x / dof) ^ (-(dof + 1) / 2) end
  local function area(to)
    local steps, sum = 4000, 0
    for i = 0, steps do
      sum = sum + density(to * i / steps) * ((i == 0 or i == steps) and 1 or i % 2 == 1 and 4 or 2)
    end
    return sum * to / steps / 3
  end
  -- the whole half: gamma(1 / 2) gamma(dof / 2) / gamma((dof + 1) / 2) sqrt(dof) / 2
  local beta = dof % 2 == 0 and 2 or math.pi
  for k = dof % 2 == 0 and 2 or 1, dof - 2, 2 do beta = beta * k / (k + 1) end
  return 1 - area(t) / (beta * math.sqrt(dof) / 2)
end

describe('an interval', function()
  it("of Student leaves out what the area under his curve says", function()
    for dof = 1, 12 do
      for _, level in ipairs { 0.5, 0.8, 0.95, 0.99 } do
        assert.near(1 - level, student_tails(interval.t_factor(level, dof), dof), 1e-5,
          dof .. ' ' .. level)
      end
    end
    for _, list in ipairs(samples(2)) do
      local n, mean = #list, total(list) / #list
      local half = interval.t_factor(0.9, n - 1) * statistics.sd(list) / math.sqrt(n)
      local lo, hi = interval.student(list, 0.9)
      near(mean - half, lo, text(list))
      near(mean + half, hi, text(list))
      local logs = mapped(list, log)
      lo, hi = interval.student_of_times(list, 0.9)
      local t_lo, t_hi = interval.student(logs, 0.9)
      near(math.exp(t_lo), lo, text(list))
      near(math.exp(t_hi), hi, text(list))
    end
    assert.same({ 0, 7 }, { interval.student_of_times({ 5, 0, 7 }, 0.95) })
  end)

  it('of rounds is the hull of ranks and of the medians of rounds', function()
    local lists = samples(4)
    for i = 1, #lists - 1, 2 do
      local rounds = { lists[i], lists[i + 1] }
      local all = {}
      for _, round in ipairs(rounds) do for _, v in ipairs(round) do all[#all + 1] = v end end
      local n, r1 = #all, statistics.autocorrelation(all)
      local n_eff = math.max(math.min(n, n * (1 - r1) / (1 + r1)), 4)
      local half = 1.9599639845 / 2 / math.sqrt(n_eff)
      local lo = ranked(all, math.max(1, math.floor(n * (0.5 - half))))
      local hi = ranked(all, math.min(n, math.ceil(n * (0.5 + half)) + 1))
      local found = interval.of_rounds({ all }, 0.95)
      assert.equal('rank', found.how)
      near(lo, found.lo, text(all))
      near(hi, found.hi, text(all))
      found = interval.of_rounds(rounds, 0.95)
      local t_lo, t_hi = interval.student_of_times(mapped(rounds, median), 0.95)
      assert.equal('rank+t', found.how)
      near(math.min(lo, t_lo), found.lo)
      near(math.max(hi, t_hi), found.hi)
      near(median(all), found.med)
      near((found.hi - found.lo) / 2 / found.med, found.half)
      near(n_eff, found.n_eff)
      assert.same({ n, r1 }, { found.n, found.r1 })
    end
  end)

  it('of passes knows what lies between them beyond their windows', function()
    local lists = samples(5)
    for i = 1, #lists - 5, 6 do
      local windows = { unpack(lists, i, i + 5) }
      local meds = mapped(windows, median)
      local found = passes.interval(meds, { windows = windows })
      local sum, dof, least = 0, 0, math.huge
      for _, list in ipairs(windows) do
        sum = sum + statistics.sd(mapped(list, log)) ^ 2 * (#list - 1)
        dof, least = dof + #list - 1, math.min(least, #list)
      end
      near(math.sqrt(sum / dof), found.within)
      near(math.sqrt(math.max(0, statistics.sd(mapped(meds, log)) ^ 2
        - math.pi / 2 * sum / dof / least)), found.between)
      near(math.sqrt(ranked(meds, 3) * ranked(meds, 4)), found.med)
      near((found.hi - found.lo) / 2 / found.med, found.half)
      assert.same({ ranked(meds, 1), ranked(meds, 6), 'order', 6, 0.95 },
        { found.lo, found.hi, found.method, found.n, found.level })
    end
    local ratio = passes.ratio({ 10, false, 20, 0 / 0, 40, 50 }, { 5, 1, 40, 1, false, 50 })
    assert.same({ 3, 'none' }, { ratio.n, ratio.method })
    near(1, ratio.med)
    assert.is_nil(passes.ratio({ 1, false }, { false, 1 }))
  end)
end)

-- -- Pairs ---------------------------------------------------------------------------------------

describe('of paired differences', function()
  local function differences()
    return mapped(samples(), function(list)
      local centre = 12
      return mapped(list, function(v) return v - centre end)
    end)
  end

  it('p is the share of all signs that give as much', function()
    for _, list in ipairs(differences()) do
      local own = {}
      for _, v in ipairs(list) do if v ~= 0 then own[#own + 1] = v end end
      local n = #own
      local sizes = mapped(own, math.abs)
      local by_size = mapped(sizes, function(v)
        local below, equal = 0, 0
        for _, w in ipairs(sizes) do
          below, equal = below + (w < v and 1 or 0), equal + (w == v and 1 or 0)
        end
        return below + (equal + 1) / 2
      end)
      local all = total(by_size)
      local positive = total(by_size, function(r, i) return own[i] > 0 and r or 0 end)
      local far, hits = math.max(positive, all - positive), 0
      if n <= 10 then
        for signs = 0, 2 ^ n - 1 do
          local sum = total(by_size, function(r, i)
            return math.floor(signs / 2 ^ (i - 1)) % 2 == 1 and r or 0
          end)
          if sum >= far then hits = hits + 1 end
        end
        near(n == 0 and 1 or math.min(1, 2 * hits / 2 ^ n), paired.sign_flips(list), text(list))
      end
    end
  end)

  -- Beyond 100 differences p is that of the normal distribution; the exact one, by the number of
  -- sets of ranks with each sum, lies within some thousandths.
  it('p of many is near the share of all signs', function()
    for _, n in ipairs { 101, 130 } do
      local counts, top = { [0] = 1 }, 0
      for rank = 1, n do
        for sum = top + rank, 0, -1 do
          counts[sum] = ((counts[sum] or 0) + (counts[sum - rank] or 0)) / 2
        end
        top = top + rank
      end
      for _, below in ipairs { 20, 35, 45 } do -- so many of the ranks are negative, every third
        local list, positive = {}, 0
        for i = 1, n do
          list[i] = i % 3 == 0 and i <= 3 * below and -i or i
          positive = positive + math.max(list[i], 0)
        end
        local tail = 0
        for sum = math.max(positive, top - positive), top do tail = tail + counts[sum] end
        assert.near(math.min(1, 2 * tail), paired.sign_flips(list), 2e-3)
      end
      -- about as many on either side: p is large, where a wrong scale shows most
      local list, positive = {}, 0
      for i = 1, n do
        list[i] = i % 4 < 2 and i * (i % 8 < 7 and 1 or -1) or -i
        positive = positive + math.max(list[i], 0)
      end
      local tail = 0
      for sum = math.max(positive, top - positive), top do tail = tail + counts[sum] end
      assert.is_true(tail > 0.01)
      assert.near(math.min(1, 2 * tail), paired.sign_flips(list), 3e-3)
    end
  end)

  it('the centre is the median of all averages, and its ends lie k from theirs', function()
    for _, list in ipairs(differences()) do
      local averages = {}
      for i, v in ipairs(list) do
        for j = 1, i do averages[#averages + 1] = (v + list[j]) / 2 end
      end
      local n = #list
      -- P(W <= k) over all sets of the ranks 1 .. n
      local best
      if n <= 10 then
        local counts = {}
        for set = 0, 2 ^ n - 1 do
          local sum = 0
          for i = 1, n do if math.floor(set / 2 ^ (i - 1)) % 2 == 1 then sum = sum + i end end
          counts[sum] = (counts[sum] or 0) + 1
        end
        local below, k = 0, -1
        while below + (counts[k + 1] or 0) <= 0.05 * 2 ^ n do
          k = k + 1
          below = below + counts[k]
        end
        best = k
        assert.equal(best, paired.outside(n, 0.9), n)
        local found = paired.location(list, 0.9)
        near(median(averages), found.estimate, text(list))
        assert.equal(best >= 0, found.attained)
        near(ranked(averages, math.max(best, 0) + 1), found.lo, text(list))
        near(ranked(averages, #averages - math.max(best, 0)), found.hi, text(list))
      end
    end
  end)

  it('q of many is the least share of false calls that calls it', function()
    for _, list in ipairs(samples()) do
      local ps = mapped(list, function(v) return (v - 9) / 51 end)
      local qs = paired.benjamini_hochberg(ps)
      for i, p in ipairs(ps) do
        local least = 1
        for _, limit in ipairs(ps) do
          local called = 0
          for _, other in ipairs(ps) do called = called + (other <= limit and 1 or 0) end
          if limit >= p then least = math.min(least, limit * #ps / called) end
        end
        near(least, qs[i], text(ps))
      end
    end
  end)

  it('a block takes a drift along it out', function()
    for _, design in ipairs { 'ABBA', 'BAAB' } do
      local times = {}
      for i = 1, 4 do
        local is_b = design:sub(i, i) == 'B'
        assert.equal(is_b, paired.slots(design)[i])
        times[i] = 100 * math.exp(0.01 * i + (is_b and 0.3 or 0))
      end
      near(0.3, paired.effect(design, times))
    end
  end)

  it('the verdict asks for as many blocks as would decide', function()
    local effects = {}
    for i = 1, 12 do effects[i] = 0.02 + (i % 2 == 0 and 1 or -1) * 0.005 * i end
    local found = verdict.of({ { effects = effects, aa = {} } }, 0.01, 1)
    local at = paired.location(effects, 0.95)
    assert.equal('open', found.verdict)
    local half = math.max(at.hi - at.estimate, at.estimate - at.lo)
    assert.equal(math.max(13, math.ceil(12 * (half / at.estimate) ^ 2)), found.needed)
    assert.same({ at.estimate, at.lo, at.hi }, { found.log.estimate, found.log.lo, found.log.hi })
    assert.same({ math.exp(at.estimate), math.exp(at.lo), math.exp(at.hi), 12, 1, 0, 0.01 },
      { found.ratio, found.ci_lo, found.ci_hi, found.blocks, found.procs, found.floor,
        found.margin })
    -- two looks share the error; p is that of both
    local twice = verdict.of({ { effects = effects, aa = {} } }, 0.01, 2)
    near(math.min(1, 2 * paired.sign_flips(effects)), twice.p)
    local wider = paired.location(effects, 0.975)
    assert.same({ wider.lo, wider.hi }, { twice.log.lo, twice.log.hi })
  end)
end)

-- -- Results -------------------------------------------------------------------------------------

describe('what two candidates return', function()
  local ridge = require 'ridge'
  local function differ(a, b, tolerance)
    return agree.differ({ n = #a, unpack(a) }, { n = #b, unpack(b) }, tolerance)
  end

  it('agrees, or is told apart in a sentence', function()
    local x = ridge.tensor { 3, 4 } -- of size 5
    local off = ridge.tensor { 3, 4.01 }
    local nan, zero = 0 / 0, ridge.zeros(2)
    for _, case in ipairs {
      { { 2 }, { 2 } }, { { 2, x }, { 2, x } }, { { 0 }, { 0 } }, { { -3 }, { -3 } },
      { { 100 }, { 101 }, 0.01 }, { { -100 }, { -101 }, 0.01 },
      { { 100 }, { 101.1 }, 0.01, 'result 1 is 100 for a and 101.1 for b' },
      { { 1 }, { 1.0011 }, nil, 'result 1 is 1 for a and 1.0011 for b' }, { { 1 }, { 1.0009 } },
      { { 1 }, { nan }, nil, 'result 1 is 1 for a and nan for b' },
      { { 0 }, { 1e-9 }, nil, 'result 1 is 0 for a and 1e-09 for b' },
      { { x }, { off }, 0.0021 },
      { { x }, { off }, 0.0019, 'result 1 of b is off by 0.002 of the size of a (at most 0.0019 is '
        .. 'rounding)' },
      { { zero }, { zero } },
      { { zero }, { x }, 1, 'result 1 of b is off by 5 of the size of a (at most 1 is rounding)' },
      { { x, x }, { x }, nil, 'a returns 2 results and b 1' },
      { {}, {}, nil, 'a and b return nothing that could be compared: return the result from the '
        .. 'captured function' },
      { {}, { 1 }, nil, 'a returns 0 results and b 1' },
      { { x }, { 1 }, nil, 'result 1 is a userdata for a and a number for b, which nobody can '
        .. 'compare' },
      { { 1 }, { 'one' }, nil, 'result 1 is a number for a and a string for b, which nobody can '
        .. 'compare' },
      { { 1, x }, { 1, ridge.zeros(2, 1) }, nil, 'result 2 is 2 for a and 2 x 1 for b' },
    } do
      local want = case[4]
      local got = differ(case[1], case[2], case[3])
      if want then want = want:gsub('userdata', type(x)) end
      assert.equal(want, got)
    end
    assert.is_truthy(differ({ x }, { ridge.tensor { 3, nan } }))
    -- what bf16 rounds away is a difference for f32 alone
    assert.is_nil(differ({ x:to 'bf16' }, { off:to 'f32' }))
    assert.is_truthy(differ({ x }, { off }))
  end)

  it('comes from a function as it is, and from a plan by one run', function()
    local found = agree.results(function() return 1, nil, 3 end)
    assert.same({ 3, 1, 3 }, { found.n, found[1], found[3] })
    local x = ridge.tensor { 1, 2 }
    found = agree.results(ridge.capture(function() return x + 1 end))
    assert.equal(1, found.n)
    assert.same({ 2, 3 }, found[1]:tolist())
  end)
end)

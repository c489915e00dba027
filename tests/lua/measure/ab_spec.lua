-- SPDX-License-Identifier: MIT
-- Comparisons: how often they are wrong, how often they see what is there, and what they refuse.
--
-- The simulations have fixed seeds; a share may miss what it is held to by three standard
-- deviations of that many draws.

local here = debug.getinfo(1, 'S').source:match('^@(.*/)')
local ab = require 'ridge.measure.ab'
local interval = require 'ridge.measure.interval'
local made_up = dofile(here .. 'machine.lua')
local noise = dofile(here .. 'noise.lua')
local paired = require 'ridge.measure.paired'
local random = require 'ridge.measure.random'
local ridge = require 'ridge'
local statistics = require 'ridge.measure.statistics'
local verdict = require 'ridge.measure.verdict'

local N = 2000
local function tolerance(share, n) return 3 * math.sqrt(share * (1 - share) / (n or N)) end

local CASES = {
  white = { drift = 0, rho = 0, sigma = 0.01, spike = 0 },
  drifting = { drift = 0.03, rho = 0, sigma = 0.003, spike = 0 },
  autocorrelated = { drift = 0, rho = 0.95, sigma = 0.01, spike = 0 },
  everything = { drift = 0.03, rho = 0.95, sigma = 0.01, spike = 0.03 },
}

-- Effects of n blocks whose slots are consecutive samples of one stretch of noise; B takes (1 +
-- slower) times as long. A fourth of the blocks besides are A/A.
local function process(r, n, c, slower)
  local total = n + math.floor(n / 3)
  local e, at, out = noise.env(r, 4 * total, c), 0, { effects = {}, aa = {} }
  for i = 1, total do
    local control = i % 4 == 0
    local design, times = paired.coin(r), {}
    local is_b = paired.slots(design)
    for slot = 1, 4 do
      at = at + 1
      times[slot] = e[at] * (is_b[slot] and not control and 1 + slower or 1)
    end
    table.insert(control and out.aa or out.effects, paired.effect(design, times))
  end
  return out
end

-- Shares of N comparisons of one process in one look: interval without 0, interval with the truth.
local function shares(c, slower)
  local r, without, covered = random.new(20240608), 0, 0
  for _ = 1, N do
    local found = verdict.of({ process(r, 12, c, slower) }, 0, 1).log
    if found.lo > 0 or found.hi < 0 then without = without + 1 end
    local truth = math.log(1 + slower)
    if found.lo <= truth and truth <= found.hi then covered = covered + 1 end
  end
  return without / N, covered / N
end

it('an open verdict needs blocks until its interval, shrunk by their root, decides', function()
  local effects = {}
  for i = 1, 12 do effects[i] = 0.02 + 0.03 * (i % 2 == 0 and i or -i) / 6 end
  local found = verdict.of({ { effects = effects, aa = {} } }, 0.01, 1)
  assert.equal('open', found.verdict)
  local log = found.log
  local half, distance = math.max(log.hi - log.estimate, log.estimate - log.lo), log.estimate
  assert.is_true(found.needed > 13)
  assert.is_true(half * math.sqrt(12 / found.needed) <= distance)
  assert.is_true(half * math.sqrt(12 / (found.needed - 1)) > distance)
end)

describe('the interval of twelve blocks', function()
  for name, c in pairs(CASES) do
    it(('of identical candidates keeps to 5 %% under %s noise, and covers'):format(name),
       function()
      local false_positives, covered = shares(c, 0)
      assert.is_true(false_positives <= 0.05 + tolerance(0.05), false_positives)
      assert.is_true(covered >= 0.95 - tolerance(0.05), covered)
    end)
    it(('covers a difference of 1 %% under %s noise'):format(name), function()
      local _, covered = shares(c, 0.01)
      assert.is_true(covered >= 0.95 - tolerance(0.05), covered)
    end)
  end

  it('sees 1 % through drift, autocorrelation and spikes as often as the design found: 92 %',
     function()
    local seen = shares({ drift = 0.03, rho = 0.95, sigma = 0.01, spike = 0.02 }, 0.01)
    assert.is_true(seen >= 0.92 - 3 * math.sqrt(0.92 * 0.08 * (1 / N + 1 / 3000)), seen)
  end)
end)

-- A whole comparison, with looks, as measure.ab does it: `how` has how many processes, blocks of
-- each in a look, looks; apart: by how much processes differ.
local ONE, SIX = { 1, 12, 5 }, { 6, 6, 10 }

local function compare(r, c, slower, how, apart)
  local processes, procs, blocks, looks = {}, unpack(how)
  for i = 1, procs do processes[i] = { effects = {}, aa = {}, off = (apart or 0) * r:normal() } end
  local found
  for look = 1, looks do
    for _, p in ipairs(processes) do
      local more = process(r, blocks, c, slower + p.off)
      for _, name in ipairs { 'effects', 'aa' } do
        for _, d in ipairs(more[name]) do table.insert(p[name], d) end
      end
    end
    found = verdict.of(processes, 0.01, looks)
    if found.verdict ~= 'open' then return found, look end
  end
  return found, looks
end

local function verdicts(c, slower, how, n, apart)
  local r, count = random.new(77), { faster = 0, slower = 0, equal = 0, open = 0, aa_fail = 0 }
  for _ = 1, n do
    local found = compare(r, c, slower, how, apart)
    count[found.verdict] = count[found.verdict] + 1
    if found.aa_fail then count.aa_fail = count.aa_fail + 1 end
  end
  return count
end

describe('a comparison with its looks', function()
  for name, c in pairs(CASES) do
    it(('calls at most 5 %% of identical candidates under %s noise'):format(name), function()
      for _, how in ipairs { ONE, SIX } do
        local n = 200
        local count = verdicts(c, 0, how, n)
        assert.is_true((count.faster + count.slower) / n <= 0.05)
        assert.is_true(count.equal / n >= 0.80, ('equal %d'):format(count.equal))
      end
    end)
    it(('calls 5 %% in at least 80 of 100 and never with the wrong sign, %s noise'):format(name),
       function()
      for _, how in ipairs { ONE, SIX } do
        local count = verdicts(c, 0.05, how, 100)
        assert.equal(0, count.faster)
        assert.is_true(count.slower >= 80, count.slower)
      end
    end)
  end

  it('finds 5 % in 70 of 100 where processes differ by 3 %, and calls at most 12 identical ones',
     function()
    local same, apart = verdicts(CASES.white, 0, SIX, 100, 0.03), verdicts(CASES.white, 0.05, SIX,
      100, 0.03)
    assert.is_true(same.faster + same.slower <= 12, same.faster + same.slower)
    assert.is_true(apart.slower >= 70 and apart.faster == 0, apart.slower)
    -- of three processes, which were the default, fewer are found for as many blocks
    assert.is_true(verdicts(CASES.white, 0.05, { 3, 12, 5 }, 100, 0.03).slower < 70)
  end)

  it('has intervals that all five hold the truth together, in 95 %', function()
    local r, missed, n = random.new(41), 0, 1000
    for _ = 1, n do
      local all = { effects = {}, aa = {} }
      for _ = 1, 5 do
        for _, d in ipairs(process(r, 12, CASES.white, 0).effects) do
          table.insert(all.effects, d)
        end
        local found = verdict.of({ all }, 0, 5).log
        if found.lo > 0 or found.hi < 0 then
          missed = missed + 1
          break
        end
      end
    end
    assert.is_true(missed / n <= 0.05 + tolerance(0.05, n), missed / n)
  end)

  it('does not take what differs between processes for a difference of the candidates', function()
    -- in each process memory lies elsewhere, which is worth 2 % one way or the other
    local r, called, n = random.new(99), 0, 300
    for _ = 1, n do
      local processes = {}
      for i = 1, 3 do processes[i] = process(r, 24, CASES.white, 0.02 * r:normal()) end
      local found = verdict.of(processes, 0.01, 1).verdict
      if found == 'faster' or found == 'slower' then called = called + 1 end
    end
    assert.is_true(called / n <= 0.05 + tolerance(0.05, n), called / n)
  end)
end)

describe('a verdict', function()
  -- n effects of about `size`: half of them 0.001 above it, half below
  local function about(size, n)
    local list = {}
    for i = 1, n or 12 do list[i] = size + (i % 2 == 0 and 0.001 or -0.001) end
    return list
  end
  local QUIET = { 0.002, -0.002, 0.001, -0.001, 0.0015, -0.0015 }
  local function of(effects, aa, margin)
    return verdict.of({ { effects = effects, aa = aa or QUIET } }, margin or 0.01, 1)
  end

  it('is called where every condition holds', function()
    assert.equal('slower', of(about(0.05)).verdict)
    assert.equal('faster', of(about(-0.05)).verdict)
    assert.equal('equal', of(about(0)).verdict)
  end)

  it('is open below the floor, which is the far end of the interval of a against itself', function()
    -- its estimate is 0, and it scatters by 9 %
    local found = of(about(0.05), { -0.09, 0.09, -0.08, 0.08, -0.07, 0.07 })
    assert.is_true(math.abs(found.aa - 1) < 1e-9)
    assert.is_true(found.floor > 0.05, found.floor)
    assert.is_true(found.ci_lo > 1)
    assert.equal('open', found.verdict)
    assert.equal('slower', of(about(0.15), { -0.09, 0.09, -0.08, 0.08, -0.07, 0.07 }).verdict)
    -- and nothing is equal within 9 %
    assert.equal('open', of(about(0.04), { -0.09, 0.09, -0.08, 0.08, -0.07, 0.07 }).verdict)
  end)

  it('is open where a differs from itself, however large the difference', function()
    local found = of(about(0.5), about(0.01, 6))
    assert.is_true(found.aa_fail)
    assert.equal('open', found.verdict)
  end)

  it('is open below the margin, and equal only where the whole interval is within it', function()
    assert.equal('open', of(about(0.05), nil, 0.06).verdict)
    assert.equal('equal', of(about(0.005)).verdict)
    assert.equal('open', of({ -0.02, 0.02, -0.02, 0.02, -0.02, 0.02, -0.02, 0.02, -0.02, 0.02,
      -0.02, 0.02 }).verdict)
  end)

  it('is equal where an end is exactly at the margin, not where only one end is within', function()
    local function all(size) return { size, size, size, size, size, size } end
    for _, size in ipairs { 0.01, -0.01 } do
      local found = of(all(size))
      assert.same({ size, size }, { found.log.lo, found.log.hi })
      assert.equal('equal', found.verdict)
      -- the cap of 3 % holds whatever the floor is
      found = of(all(3 * size), { -0.09, 0.09, -0.08, 0.08, -0.07, 0.07 })
      assert.same({ 'equal', true }, { found.verdict, found.margin > 0.03 })
      assert.equal('open', of(all(3.1 * size), { -0.09, 0.09, -0.08, 0.08, -0.07, 0.07 }).verdict)
      assert.equal('open', of({ 0, 3 * size, 0, 3 * size, 0, 3 * size, 0, 3 * size }).verdict)
    end
  end)

  it('has a p that pays for each look', function()
    local list = { { effects = { 0.03, 0.02, 0.05, -0.01, 0.04, 0.02, 0.06 }, aa = QUIET } }
    local once = verdict.of(list, 0.01, 1).p -- one sign of seven, of the least rank: 4 of 128
    assert.near(4 / 128, once, 1e-12)
    assert.near(3 * once, verdict.of(list, 0.01, 3).p, 1e-12)
    assert.equal(1, verdict.of(list, 0.01, 1000).p)
  end)

  it('is open where so few blocks have no interval of the level', function()
    assert.equal('open', of(about(0.05, 5)).verdict)
    assert.equal('open', of(about(0, 5)).verdict)
    assert.equal('equal', of(about(0, 6)).verdict)
    assert.equal('slower', of(about(0.05, 6)).verdict)
  end)

  it('is open where one process of twelve says the opposite', function()
    local function processes(last)
      local list = {}
      for i = 1, 12 do list[i] = { effects = about(i == 12 and last or 0.05), aa = QUIET } end
      return verdict.of(list, 0.01, 1)
    end
    assert.equal('slower', processes(0.04).verdict)
    local found = processes(-0.01)
    -- nothing else is in the way
    assert.is_true(found.ci_lo > 1 and found.ratio > 1.03 and found.p < 0.05)
    assert.equal('open', found.verdict)
  end)
end)

-- What the simulation is for: these mistakes must not pass it.
describe('the simulation sees', function()
  local function share_called(c, of)
    local r, called = random.new(4), 0
    for _ = 1, 500 do
      if of(noise.env(r, 48, c), r) then called = called + 1 end
    end
    return called / 500
  end

  it('that two medians taken one after the other differ on a machine that drifts', function()
    local share = share_called(CASES.drifting, function(e)
      local a, b = {}, {}
      for i = 1, 24 do a[i], b[i] = e[i], e[24 + i] end
      local a_lo, a_hi = interval.of_median(statistics.sorted(a), 24, 0.95)
      local b_lo, b_hi = interval.of_median(statistics.sorted(b), 24, 0.95)
      return a_hi < b_lo or b_hi < a_lo
    end)
    assert.is_true(share > 0.5, share)
  end)

  it('that AB, AB, AB takes the place in the pair for a difference', function()
    local share = share_called(CASES.white, function(e)
      local d = {}
      for i = 1, 24 do d[i] = math.log(e[2 * i] * 1.01) - math.log(e[2 * i - 1]) end
      local found = paired.location(d, 0.95)
      return found.lo > 0 or found.hi < 0
    end)
    assert.is_true(share > 0.5, share)
  end)

  it('looks that each spend the whole error', function()
    local r, called, n = random.new(12), 0, 600
    for _ = 1, n do
      local all = { effects = {}, aa = {} }
      for _ = 1, 5 do
        for _, d in ipairs(process(r, 12, CASES.white, 0).effects) do
          table.insert(all.effects, d)
        end
        local found = verdict.of({ all }, 0, 1).log   -- as if each look were the only one
        if found.lo > 0 or found.hi < 0 then
          called = called + 1
          break
        end
      end
    end
    assert.is_true(called / n > 0.05 + tolerance(0.05, n), called / n)
  end)
end)

-- -- The protocol -------------------------------------------------------------------------------

-- Two candidates on a made-up machine; slower: how much longer b takes.
local function candidates(slower, amount, signals)
  local machine = made_up.new(signals)
  local quiet = machine:quiet(amount)
  return { a = { window = machine:window(1e5, quiet) },
           b = { window = machine:window(1e5 * (1 + slower), quiet) },
           services = machine:services() }, machine
end

local function run(slower, more, signals, amount)
  local given = candidates(slower, amount, signals)
  for name, value in pairs(more or {}) do given[name] = value end
  return ab.ab(given)
end

describe('measure.ab', function()
  it('calls a difference at the first look, with ratio and interval', function()
    local found = run(0.05)
    assert.equal('slower', found.verdict)
    assert.is_true(math.abs(found.ratio - 1.05) < 0.002)
    assert.is_true(found.ci_lo <= 1.05 and 1.05 <= found.ci_hi)
    assert.equal(1, found.looks)
    assert.equal(12, found.blocks)
    assert.equal(1, found.procs)
    assert.equal(4, #found.processes[1].aa)
    assert.is_true(math.abs(found.b_ns / 1.05e5 - 1) < 0.01)
    assert.is_true(tostring(found):find('^slower: b takes 1%.0%d+ of a\'s time') ~= nil)
    assert.equal('faster', run(-0.05).verdict)
    assert.equal('equal', run(0).verdict)
    assert.equal('equal', run(0.003).verdict)
  end)

  it('looks again while it is open, and then says how many blocks would decide', function()
    local found = run(0.05, { margin = 0.08, seed = 2 }, nil, 0.02)
    assert.equal('open', found.verdict)
    assert.equal(5, found.looks)
    assert.equal(60, found.blocks)
    assert.is_true(found.needed > 60)
    assert.is_true(tostring(found):find('blocks in each process would decide', 1, true) ~= nil)
    assert.equal(2, run(0.05, { margin = 0.08, looks = 2, seed = 2 }, nil, 0.02).looks)
  end)

  it('is not moved by a processor that is taken away in one window of eight', function()
    local machine = made_up.new()
    local function noise_of()
      return machine.random:uniform() < 0.125 and 6 or 1e-3 * machine.random:normal()
    end
    local found = ab.ab { a = { window = machine:window(1e5, noise_of) },
                          b = { window = machine:window(1.05e5, noise_of) },
                          services = machine:services() }
    assert.equal('slower', found.verdict)
    assert.is_true(math.abs(found.ratio - 1.05) < 0.01)
    assert.is_true(found.ci_hi / found.ci_lo < 1.05, found.ci_hi / found.ci_lo)
  end)

  it('takes the same coins for the same seed, and both designs', function()
    local function designs(seed)
      local out = {}
      for i, b in ipairs(run(0.05, { seed = seed }).processes[1].blocks) do out[i] = b.design end
      return table.concat(out, ' ')
    end
    assert.equal(designs(3), designs(3))
    assert.not_equal(designs(3), designs(4))
    assert.is_truthy(designs(3):find 'ABBA' and designs(3):find 'BAAB')
  end)

  it('withholds the verdict when a candidate differs from itself', function()
    -- what the same candidate takes depends on the place in the block: A/A sees it
    local found = verdict.of({ { effects = { 0.1, 0.11, 0.12, 0.1, 0.11, 0.12, 0.13 },
      aa = { 0.02, 0.021, 0.022, 0.02, 0.023, 0.024, 0.02 } } }, 0.01, 1)
    assert.is_true(found.aa_fail)
    assert.equal('open', found.verdict)
    found = verdict.of({ { effects = { 0.1, 0.11, 0.12, 0.1, 0.11, 0.12, 0.13 },
      aa = { 0.02, -0.021, 0.022, -0.02, 0.023, -0.024, 0.02 } } }, 0.01, 1)
    assert.is_false(found.aa_fail)
    assert.equal('slower', found.verdict)
  end)

  it('has its margin from the estimate of A/A, not from single blocks of it', function()
    local aa = {}
    for i = 1, 24 do aa[i] = (i % 2 == 0 and 1 or -1) * 0.05 + 0.001 * (i % 5 - 2) end
    local found = verdict.of({ { effects = { 0.06, 0.061, 0.059, 0.06, 0.062, 0.058 },
                                 aa = aa } }, 0.01, 1)
    assert.is_true(found.floor < 0.052, found.floor)
    assert.equal('slower', found.verdict)
    -- and does not call equal what is only drowned in noise
    local wild = {}
    for i = 1, 24 do wild[i] = (i % 2 == 0 and 1 or -1) * 0.3 + 0.01 * (i % 5) end
    assert.equal('open', verdict.of({ { effects = wild, aa = wild } }, 0.01, 1).verdict)
  end)

  it('refuses candidates that compute something else, unless told', function()
    local x = ridge.randn(8, 8)
    local function plan(f) return ridge.capture(f) end
    local a = plan(function() return x:exp() end)
    local function refused(b, why)
      local ok, err = pcall(ab.ab, { a = a, b = b, looks = 1 })
      assert.is_false(ok)
      assert.is_truthy(tostring(err):find(why, 1, true), tostring(err))
      assert.is_truthy(tostring(err):find('check = false', 1, true))
    end
    refused(plan(function() return x:relu() end), 'off by')
    refused(plan(function() return x:exp():sum(1) end), '8 x 8 for a and 8 for b')
    refused(plan(function() return x:exp(), x:exp() end), 'a returns 1 results and b 2')
    refused(plan(function() return (x:exp() * (0 / 0)) end), 'off by')
    assert.is_not_nil(ab.ab { a = a, b = plan(function() return x:relu() end), check = false,
                              looks = 1, protocol = { level = 'quick', quiet_ns = 0 } }.verdict)
    local ok, err = pcall(ab.ab, { a = plan(function() x:copy_(x + 1) end),
                                   b = plan(function() x:copy_(x + 1) end) })
    assert.is_false(ok)
    assert.is_truthy(tostring(err):find('nothing that could be compared', 1, true))
  end)

  it('says which numbers differ, and of which they are', function()
    local differ = require('ridge.measure.agree').differ
    assert.equal('result 2 is 3 for a and 4 for b', differ({ n = 2, 1, 3 }, { n = 2, 1, 4 }))
    assert.is_nil(differ({ n = 1, 3 }, { n = 1, 3.002 })) -- f32 keeps a thousandth
  end)

  it('says that Lua was timed, in a column too', function()
    local found = ab.ab { a = function() return 1 end, b = function() return 1 end, looks = 1,
                          protocol = { level = 'quick', quiet_ns = 0 } }
    assert.is_truthy(table.concat(found.flags, ' '):find 'LUA')
    found.ratio, found.ci_lo, found.ci_hi, found.flags = 0.611, 0.599, 0.618, { 'PRESSURE', 'LUA' }
    found.verdict = 'faster'
    assert.equal('0.61 [0.60 .. 0.62] faster (PRESSURE LUA)', found:short())
    found.verdict, found.flags = 'open', {}
    assert.equal('0.61 [0.60 .. 0.62] undecided', found:short())
  end)

  it('is ended by an interrupt', function()
    local ok, err = pcall(run, 0, nil, { interrupt_at = 6 })
    assert.is_false(ok)
    assert.equal('EINTR', err.code)
  end)

  it('says what is wrong with its options', function()
    local function message(given)
      local ok, err = pcall(ab.ab, given)
      assert.is_false(ok)
      return tostring(err)
    end
    assert.is_truthy(message({ a = 1 }):find 'expected table or function')
    assert.is_truthy(message({ a = print }):find 'two candidates are needed')
    assert.is_truthy(message({ a = {}, b = {} }):find 'neither a plan nor a function')
    assert.is_truthy(message({ a = print, b = print, processes = 3 }):find 'give setup')
    assert.is_truthy(message({ lookz = 3 }):find "did you mean 'looks'")
  end)
end)

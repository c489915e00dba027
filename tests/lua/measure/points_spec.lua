-- SPDX-License-Identifier: MIT
--- Points and comparisons over made-up windows, on a made-up device too, and the borders of smaller
--- rules: quiet machines, pauses, results that agree, ranks of many blocks.

local ab = require 'ridge.measure.ab'
local agree = require 'ridge.measure.agree'
local block = require 'ridge.measure.block'
local calibrate = require 'ridge.measure.calibrate'
local device = require 'ridge.measure.device'
local host = require 'ridge.measure.host'
local interval = require 'ridge.measure.interval'
local made_up = dofile 'tests/lua/measure/machine.lua'
local native = require 'ridge.measure.native'
local paired = require 'ridge.measure.paired'
local ridge = require 'ridge'
local trust = require 'ridge.measure.trust'
local verdict = require 'ridge.measure.verdict'
local warmup = require 'ridge.measure.warmup'

local PROTOCOL = { level = 'quick', warm_min_ns = 1e6, warm_max_ns = 2e7, quiet_ns = 0 }

local replaced = dofile 'tests/lua/measure/replaced.lua'
local replace = replaced.replace

after_each(replaced.restore)

local function has(list, name)
  for _, each in ipairs(list) do
    if each == name then return true end
  end
  return false
end

it('windows with and without data in the caches are told as those of their point', function()
  local machine, told = made_up.new {}, {}
  local protocol = { cache = 'warm+cold' }
  for name, value in pairs(PROTOCOL) do protocol[name] = value end
  local points = {}
  for i = 1, 2 do
    points[i] = { label = 'x' .. i, window = machine:window(1e5 * i, machine:quiet()) }
  end
  local results = block.block(points, protocol, { services = machine:services(),
    taken = function(i, w)
      local key = tostring(i) .. ' ' .. w.cache
      told[key] = (told[key] or 0) + 1
    end })
  local want = {}
  for i, r in ipairs(results) do
    assert.is_true(r.n > 0 and r.cold.n > 0)
    want[i .. ' warm'], want[i .. ' cold'] = r.n, r.cold.n
  end
  assert.same(want, told)
end)

describe('a point on a device', function()
  -- Windows whose device takes 1 us a call: the host asks for `issue` of that, and is back later.
  local function measured(more, issue, calls)
    replace(device, { number = function(name) return name == 'cuda:1' and 2 or 0 end,
      name = function(number) return 'cuda:' .. number - 1 end,
      is_simulated = function() return false end,
      is_held_back = function(held) return held == 4 end,
      modes = function() return { tf32 = false } end })
    local machine, looks = made_up.new {}, 0
    local services = machine:services()
    function services.device_state(number)
      looks = looks + 1
      return { look = looks, number = number }
    end
    local function window(k, n)
      local out = {}
      for i = 1, n do
        local begin_ns = machine.time
        machine:advance(1500 * k)
        out[i] = { begin_ns = begin_ns, end_ns = machine.time, calls = k, own_cpu_ns = 0,
          involuntary = 0, migrations = 0, ns = 1000 * k, device_ns = 1000 * k,
          issue_ns = issue * 1000 * k, filled = false, held = 0, clock_mhz = 1500 }
        for name, value in pairs(more) do out[i][name] = value end
      end
      return out
    end
    local taken = {}
    local protocol = { calls = calls }
    for name, value in pairs(PROTOCOL) do protocol[name] = value end
    local found = block.block({ { window = window, device = 'cuda:1', label = 'x' } }, protocol,
      { services = services, taken = function(i, w) taken[#taken + 1] = { i, w } end })[1]
    return found, taken, looks
  end

  it('has the times of its clock, of asking and of all, and its state before and after', function()
    local found, taken, looks = measured({}, 0.25)
    assert.same({ 1000, 1000, 250, 1500, 'cuda:1', 1500, 0 }, { found.med, found.device_ns,
      found.issue_ns, found.host_ns, found.device, found.clock_mhz, found.held })
    assert.same({ before = { look = 1, number = 2 }, after = { look = looks, number = 2 } },
      found.state)
    assert.equal(found.rounds + 1, looks)
    assert.equal('device events', found.clock)
    assert.same({}, found.flags)
    -- each window as it ended
    assert.equal(found.n, #taken)
    for i, each in ipairs(taken) do
      assert.same({ 1, { cache = 'warm', clock = 'device events', inner = found.inner,
        t0 = found.t0_ns, ns = 1000, at = found.at[i], mark = 0 } }, each)
    end
    -- 1e3 of the steps of 500 ns of that clock: windows of 1 us are 512 calls
    assert.equal(512, found.inner)
  end)

  it('waited where the host asked for most of its time, call after call', function()
    assert.is_true(has(measured({}, 0.91).flags, 'WAITED'))
    assert.is_false(has(measured({}, 0.89).flags, 'WAITED'))
    assert.is_false(has(measured({ filled = true }, 0.91).flags, 'WAITED'))
    assert.is_false(has(measured({}, 0.91, 1).flags, 'WAITED'))
  end)

  it('that was held back is marked', function()
    local found = measured({ held = 4 }, 0.25)
    assert.equal(1, found.held)
    assert.is_true(has(found.flags, 'THROTTLE'))
    for _, mark in ipairs(found.mark) do assert.equal(4, mark) end
    assert.is_nil(measured({ held = false }, 0.25).held)
  end)
end)

describe('a function that is measured', function()
  it('may have asked a simulated device, and a window has not', function()
    replace(device, { any_simulated = function() return true end })
    local function flags_of(point)
      local machine = made_up.new {}
      if point.window then point.window = machine:window(1e5, machine:quiet()) end
      return block.block({ point }, PROTOCOL, { services = machine:services() })[1].flags
    end
    assert.is_true(has(flags_of { plan = function() return 1 end }, 'SIMULATED'))
    assert.is_false(has(flags_of { window = true }, 'SIMULATED'))
  end)

  it('is flagged in a comparison too, whichever of the two it is', function()
    local function flags_of(a, b)
      local machine = made_up.new {}
      local function candidate(plan)
        return { plan = plan, window = machine:window(1e5, machine:quiet()) }
      end
      return ab.ab { a = candidate(a), b = candidate(b), blocks = 6, looks = 1, check = false,
        protocol = PROTOCOL, services = machine:services() }.flags
    end
    local function f() return 1 end
    assert.same({ 'LUA' }, flags_of(f, nil))
    assert.same({ 'LUA' }, flags_of(nil, f))
    assert.same({}, flags_of(nil, nil))
  end)

  it('stands in a setup or beside another one, not both', function()
    local function refused(given)
      local ok, err = pcall(ab.ab, given)
      assert.is_false(ok)
      return err.message
    end
    local outside = 1
    local function setup() return outside end
    local function f() return 1 end
    for _, given in ipairs { { setup = setup, a = f }, { setup = setup, b = f },
        { setup = setup, a = f, b = f } } do
      assert.equal('measure.ab: give a and b, or setup, which makes both', refused(given))
    end
    assert.matches('must not use the local outside from outside', refused { setup = setup })
    for _, given in ipairs { { a = f }, { b = f }, {} } do
      assert.equal('measure.ab: two candidates are needed, a and b', refused(given))
    end
  end)
end)

describe('results of two candidates', function()
  it('may be off by what their types round', function()
    for name, case in pairs { f64 = { 1e9, 1e9 + 1, 1e9 + 2 }, f32 = { 1000, 1001, 1002 },
        f16 = { 100, 103, 104 }, bf16 = { 100, 106, 107 }, f8e4m3 = { 8, 9, 10 },
        f8e5m2 = { 4, 5, 6 } } do
      local function of(v) return { n = 1, ridge.tensor({ v }, { dtype = 'f64' }):to(name) } end
      assert.is_nil(agree.differ(of(case[1]), of(case[2])), name)
      assert.is_truthy(agree.differ(of(case[1]), of(case[3])), name)
    end
  end)
end)

describe('a machine', function()
  it('is quiet up to each of its limits', function()
    local function quiet(foreign, pressure, steal)
      return host.is_quiet({ foreign = foreign, pressure = pressure, steal = steal }, 2)
    end
    local nan = 0 / 0
    assert.is_true(quiet(0.125, 0.02, 0.005))
    assert.is_false(quiet(0.126, 0, 0))
    assert.is_false(quiet(0, 0.021, 0))
    assert.is_false(quiet(0, 0, 0.0051))
    assert.is_true(quiet(nan, nan, nan))
    assert.is_false(quiet(nan, nan, 1))
  end)

  it('lets time pass in steps of 20 ms, and not a step more', function()
    local services = setmetatable({}, { __index = native.services() })
    local now, steps, checks = 5e9, {}, 0
    function services.now() return now end
    function services.check() checks = checks + 1 end
    replace(native, { sleep = function(ns)
      steps[#steps + 1] = ns
      now = now + ns
    end })
    services:pause(5e7)
    assert.same({ 2e7, 2e7, 1e7 }, steps)
    assert.equal(3, checks)
    services:pause(0)
    assert.equal(3, #steps)
  end)

  it('is waited for until it is quiet, and no longer than it was told', function()
    local session = require 'ridge.measure.session'
    local function waited(quiet_ns, busy_looks)
      local machine, looks = made_up.new { busy_cpus = 1 }, 0
      local services = machine:services()
      function services.pause(_, ns)
        if looks >= busy_looks then machine.signals.busy_cpus = 0 end
        looks = looks + 1
        machine:advance(ns)
      end
      local found = session.of(services, { quiet_ns = quiet_ns })
      assert.equal(found, session.of(services, { quiet_ns = quiet_ns })) -- found out once
      return found.quiet, looks
    end
    assert.same({ true, 1 }, { waited(2e9, 0) })
    assert.same({ true, 3 }, { waited(2e9, 2) })
    assert.same({ false, 4 }, { waited(2e9, 9) }) -- looks of half a second
    assert.same({ true, 1 }, { waited(1e8, 9) }) -- too short to tell who else ran
    assert.same({ true, 0 }, { waited(0, 9) })
  end)

  it('says whether ridge is a debug build, and its ceilings are rates', function()
    local facts = require('ridge.store.canonical').decode(require('ffi').string(
      require('ridge.ffi.lib').rg_build_facts()))
    assert.equal(facts.debug, native.services().facts().debug_build)
    local list = calibrate.calibrate { quick = true, noise = false, kinds = { 'fma.f32.base' },
      threads = 1 }
    assert.equal(1, #list)
    assert.is_true(list[1].value > 1e7 and list[1].value < 1e14, list[1].value)
  end)

  it('is trusted by 3 to 1000 processes in up to ten hours', function()
    for _, given in ipairs { { least = 2 }, { least = 1001 }, { minutes = 601 }, { minutes = 0 },
        { window_ns = 9999 }, { window_ns = 1.1e9 }, { seed = -1 } } do
      assert.is_false((pcall(trust.measure, given)))
    end
  end)
end)

describe('ranks of many blocks', function()
  -- P(W <= k) of n ranks: the number of sets with each sum, halved for each rank.
  local function chances(n)
    local chance, top = { [0] = 1 }, 0
    for rank = 1, n do
      for sum = top + rank, 0, -1 do
        chance[sum] = ((chance[sum] or 0) + (chance[sum - rank] or 0)) / 2
      end
      top = top + rank
    end
    return chance, top
  end

  it('leave out as many as the exact ones, nearly', function()
    for _, n in ipairs { 99, 100, 101, 130 } do
      local chance = chances(n)
      for _, level in ipairs { 0.9, 0.95, 0.99 } do
        local sum, k = 0, -1
        while sum + chance[k + 1] <= (1 - level) / 2 do
          k = k + 1
          sum = sum + chance[k]
        end
        -- beyond a hundred a normal distribution, whose tails are wider
        local off = k - paired.outside(n, level)
        assert.is_true(math.abs(off) <= (n <= 100 and 0 or level < 0.99 and 1 or 5),
          ('%d at %g: %d, not %d'):format(n, level, paired.outside(n, level), k))
      end
    end
  end)

  it('are exact up to a hundred', function()
    local chance, top = chances(100)
    local list, positive = {}, 0
    for i = 1, 100 do
      list[i] = i % 3 == 0 and -i or i
      positive = positive + math.max(list[i], 0)
    end
    local tail = 0
    for sum = positive, top do tail = tail + chance[sum] end
    assert.near(1, 2 * tail / paired.sign_flips(list), 1e-9)
  end)
end)

describe('a verdict', function()
  local function of(effects, aa) return verdict.of({ { effects = effects, aa = aa } }, 0.01, 1) end

  it('is withheld within what a single A/A block shows', function()
    local list = {}
    for i = 1, 12 do list[i] = 0.02 + 1e-4 * i end
    assert.equal('slower', of(list, {}).verdict)
    local found = of(list, { -0.025 })
    assert.same({ 0.025, 0.025, 'equal', false }, { found.floor, found.margin, found.verdict,
      found.aa_fail })
  end)

  it('is none where the interval ends at 1', function()
    -- 15 of the 78 averages of these are 0, more than the 13 that lie outside
    local list = { 0, 0, 0, 0, 0 }
    for i = 6, 12 do list[i] = -0.05 - 1e-4 * i end
    local down = of(list, {})
    assert.same({ 'open', 0 }, { down.verdict, down.log.hi })
    assert.is_true(down.p <= 0.05 and down.log.estimate < -0.02)
    for i, v in ipairs(list) do list[i] = -v end
    assert.equal('open', of(list, {}).verdict)
  end)
end)

describe('a warm-up', function()
  it('takes windows until eight are steady, or until its time is over', function()
    for seed = 1, 60 do
      local draw = dofile 'tests/lua/seeded.lua'(seed)
      local all, at, k = {}, 0, nil
      for i = 1, 200 do
        all[i] = 100 + draw(seed % 3 == 0 and 9 or 2) / 2 + (i < draw(30) and 9 or 0)
      end
      local protocol = { warm_window_ns = 100 * draw(5), warm_min_ns = 100 * draw(60),
        warm_max_ns = 6000 + 100 * draw(90) }
      local warm = warmup.run(function(calls)
        k, at = calls, at + 1
        return { ns = all[at] * calls }
      end, 100, protocol, 0.01)
      assert.equal(math.ceil(protocol.warm_window_ns / 100), k)
      local spent, n, steady = 0, 0
      repeat
        n = n + 1
        spent = spent + all[n] * k
        steady = spent >= protocol.warm_min_ns and warmup.is_steady({ unpack(all, 1, n) }, 0.01, 8)
      until steady or spent >= protocol.warm_max_ns
      if not steady and n < 8 then steady = warmup.is_steady({ unpack(all, 1, n) }, 0.01, 3) end
      local last = { unpack(all, math.max(1, n - 2), n) }
      table.sort(last)
      local middle = #last == 2 and (last[1] + last[2]) / 2 or last[math.ceil(#last / 2)]
      assert.same({ steady = steady, ns = spent, calls = n * k, per_call_ns = middle,
        spread = (last[#last] - last[1]) / middle }, warm, 'seed ' .. seed)
    end
  end)

  it('of calls longer than all its time is one window', function()
    local warm = warmup.run(function(k) return { ns = 1e9 * k } end, 1e9, { warm_window_ns = 1e7,
      warm_min_ns = 1e8, warm_max_ns = 3e8 }, 0.01)
    assert.same({ steady = false, ns = 1e9, calls = 1, per_call_ns = 1e9, spread = 0 }, warm)
  end)
end)

describe('factors of Student', function()
  it('are of their level and freedom, whatever was asked before', function()
    local first = {}
    for dof = 1, 30 do
      for _, level in ipairs { 0.5, 0.9, 0.95, 0.951, 0.99 } do
        first[dof .. ' ' .. level] = interval.t_factor(level, dof)
      end
    end
    for dof = 30, 1, -1 do
      local last = math.huge
      for _, level in ipairs { 0.99, 0.951, 0.95, 0.9, 0.5 } do
        local t = interval.t_factor(level, dof)
        assert.equal(first[dof .. ' ' .. level], t)
        assert.is_true(t < last)
        last = t
      end
    end
  end)
end)

describe('slots', function()
  -- What each candidate is asked for: 'a 5x3' are three windows of five calls.
  local function asked(slot_ns, cache, n)
    local machine, log = made_up.new {}, {}
    local function candidate(name)
      local window = machine:window(1e5, function() return 0 end)
      return { window = function(k, count)
        log[#log + 1] = ('%s %dx%d'):format(name, k, count)
        return window(k, count)
      end }
    end
    local protocol = require('ridge.measure.protocol').protocol { level = 'quick', cache = cache,
      warm_min_ns = 1e6, warm_max_ns = 2e7 }
    local taken = require('ridge.measure.slots').new(candidate 'a', candidate 'b', protocol,
      slot_ns, machine:services())
    for i = #log, 1, -1 do log[i] = nil end
    return taken:take(n or 1, 4), log
  end

  it('are an odd number of windows of half a millisecond, behind at least eight calls', function()
    for slot_ns, want in pairs { [1e5] = '5x1', [1e6] = '5x1', [1.5e6] = '5x3', [2e6] = '5x3',
        [2.5e6] = '5x5', [5e6] = '10x5' } do
      local blocks, log = asked(slot_ns, 'warm')
      -- of ten calls the first window settles by itself
      local settles = want == '10x5' and { '1x1' } or { '5x1', '5x1' }
      assert.equal(4 * (#settles + 1), #log)
      for i = 1, 4 do
        local name, at = (blocks[1].design:sub(i, i)):lower(), (i - 1) * (#settles + 1)
        for j, each in ipairs(settles) do assert.equal(name .. ' ' .. each, log[at + j]) end
        assert.equal(name .. ' ' .. want, log[at + #settles + 1])
        assert.near(1e5, blocks[1].times[i], 1e-6)
      end
    end
    local blocks, log = asked(2.5e6, 'cold')
    for i = 1, 4 do assert.equal(blocks[1].design:sub(i, i):lower() .. ' 1x5', log[i]) end
    assert.equal(4, #log)
  end)

  it('hold one of the two against itself after every third, either of them', function()
    local blocks, log = asked(1e5, 'warm', 60)
    local kinds, both = {}, {}
    for i, each in ipairs(blocks) do
      kinds[i] = each.kind
      if each.kind == 'aa' then
        local name = log[12 * i]:sub(1, 1) -- four slots of two windows to settle, and one
        both[name] = true
        for k = 12 * i - 11, 12 * i do assert.equal(name, log[k]:sub(1, 1)) end
      end
    end
    assert.equal(('ab ab ab aa '):rep(20), table.concat(kinds, ' ') .. ' ')
    assert.same({ a = true, b = true }, both)
  end)
end)

-- SPDX-License-Identifier: MIT
--- Small modules whose answers are worked out by hand: how the operations of calls divide, choices
--- of plans that are kept, how busy and how warm processors are, lines to ranks, measured points as
--- text.

local ridge = require 'ridge'
local heat = require 'ridge.monitor.heat'
local plan_choices = require 'ridge.plan_choices'
local products = require 'ridge.products'
local shown = require 'ridge.measure.shown'
local usage = require 'ridge.monitor.usage'
local value = require 'ridge.show.value'

describe('the multiply-adds of a call', function()
  local function of(name, flops, shapes)
    return products.of { name = name, flops = flops, shapes = shapes }
  end

  it('are all of a product, and none of what is none', function()
    for _, name in ipairs { 'matmul', 'linear', 'linear_dropout', 'lowrank_linear',
      'sketched_linear', 'sketched_linear_bits', 'packed_linear', 'conv2d', 'conv2d_back_data',
      'conv2d_back_weight' } do
      assert.equal(48, of(name, 48), name)
    end
    for _, name in ipairs { 'softmax', 'gelu', 'mean', 'max_pool2d', 'rand' } do
      assert.equal(0, of(name, 48))
    end
    assert.equal(0, of('attention', 0))
  end)

  it('are a part of what does more', function()
    -- d = 4, e = 6, and 6 queries: 2 (d + e) of 2 (d + e) + 14, and back 6 d + 4 e of 15 more,
    -- behind one operation of each number of the result, and back two
    local shapes = 'f32[2,3,4] f32[2,5,4] f32[2,5,6] -> f32[2,3,6]'
    assert.near(30 * 20, of('attention', 30 * 34 + 36, shapes), 1e-9)
    assert.near(30 * 48, of('attention_back', 30 * 63 + 72, shapes), 1e-9)
    -- 26 more with dropout, and back 27
    assert.near(30 * 20, of('attention_dropout', 30 * 60 + 36, shapes), 1e-9)
    assert.near(30 * 48, of('attention_dropout_back', 30 * 90 + 72, shapes), 1e-9)
    -- 100/128 of each sign: of 2 * 3 and 4 * 5
    assert.near(1000 - 26 * 100 / 128, of('sketched_linear_seed', 1000,
      'f32[9] f32[2,3] f32[9] f32[4,5] -> f32[7]'), 1e-9)
    assert.near(80 * 7 / 8, of('scaled_linear', 80, 'i8[2,7] i8[3,7] -> f32[2,3]'), 1e-9)
    assert.near(250 * 24 / 25, of('scaled_conv2d', 250, 'u8[1,2,9,9] i8[5,2,3,4] -> f32[1]'), 1e-9)
  end)
end)

describe('choices of plans', function()
  before_each(plan_choices.forget)
  after_each(plan_choices.forget)

  it('are kept by operation and problem, with times in nanoseconds', function()
    assert.equal(('f t%d %s'):format(ridge.backend.threads(), ridge.backend.now().isa),
      plan_choices.problem 'f')
    assert.is_nil(plan_choices.get('passes', 'p'))
    local before = os.time()
    plan_choices.put('passes', 'p', 'x', 'y', { x = 1.5, y = 2 }, 7)
    plan_choices.put('epilogue', 'q', 'z', 'z', {}, 1)
    plan_choices.put('epilogue', 'a', 'w', 'z', {}, 1)
    assert.equal('x', plan_choices.get('passes', 'p'))
    assert.is_nil(plan_choices.get('epilogue', 'p'))
    local list = plan_choices.all()
    assert.same({ 'epilogue a', 'epilogue q', 'passes p' }, { list[1].operation .. ' '
      .. list[1].problem, list[2].operation .. ' ' .. list[2].problem, list[3].operation .. ' '
      .. list[3].problem })
    local row = list[3]
    assert.same({ 'x', 'y', 7, { x = { ns = 1.5e6 }, y = { ns = 2e6 } } },
      { row.path, row.standard, row.rounds, row.times })
    assert.is_true(row.at >= before * 1e6 and row.at <= os.time() * 1e6)
    -- of since when: whole seconds count
    assert.equal(3, #plan_choices.all(row.at))
    assert.equal(3, #plan_choices.all(row.at + 999999))
    assert.equal(0, #plan_choices.all((os.time() + 1) * 1e6))
  end)

  it('of before give way to what was measured later', function()
    local function row(problem, path, at, times)
      return { problem = problem, path = path, standard = 's', rounds = 3, at = at,
        times = times }
    end
    assert.equal(2, plan_choices.take('passes', { row('p', 'old', 100), row('q', 'x', 100,
      function() return { x = { ns = 1 } } end) }))
    assert.equal(0, plan_choices.take('passes', { row('p', 'same', 100), row('q', 'y', 99) }))
    assert.equal('old', plan_choices.get('passes', 'p'))
    assert.equal(1, plan_choices.take('passes', { row('p', 'new', 101) }))
    assert.equal('new', plan_choices.get('passes', 'p'))
    local list = plan_choices.all()
    assert.same({ 'p', 'passes', {}, 101, 's', 3 }, { list[1].problem, list[1].operation,
      list[1].times, list[1].at, list[1].standard, list[1].rounds })
    assert.same({ x = { ns = 1 } }, list[2].times)
    plan_choices.put('passes', 'p', 'mine', 's', {}, 1)
    assert.equal(0, plan_choices.take('passes', { row('p', 'newer', 102) }))
    assert.equal('mine', plan_choices.get('passes', 'p'))
  end)
end)

describe('how busy processors are', function()
  local function between(wall, busy, own, n)
    return usage.between({ at_ns = 1e9, busy_ns = 5e9, own_ns = 1e9 },
      { at_ns = 1e9 + wall, busy_ns = 5e9 + busy, own_ns = 1e9 + own, n_cpus = n or 2 })
  end

  it('is the share of all between two readings', function()
    assert.same({ cpu_percent = 75, process_percent = 25 }, between(1e9, 1.5e9, 0.5e9))
    assert.same({ cpu_percent = 100, process_percent = 0 }, between(1e9, 2.5e9, -1))
    assert.same({ cpu_percent = 50, process_percent = 50 }, between(1e8, 5e7, 5e7, 1))
    assert.same({ why = 'unavailable: less than 0.1 s have passed' }, between(1e8 - 1, 5e7, 5e7))
    assert.same({ process_percent = 50, why = 'unavailable: /proc/stat cannot be read' },
      between(1e9, 0 / 0, 1e9))
  end)

  it('is not known of one reading', function()
    local reading, counters = usage.read(nil)
    assert.equal('unavailable: nothing was read before', reading.why)
    assert.is_true(counters.n_cpus >= 1 and counters.busy_ns > 0)
    assert.same({}, reading.gpus)
  end)
end)

describe('how warm processors are', function()
  local root = os.tmpname()
  local was = heat.ROOT
  local function put(path, text)
    os.execute(('mkdir -p %s/%s'):format(root, path:match '^(.*)/'))
    local file = assert(io.open(root .. '/' .. path, 'w'))
    file:write(text, '\n')
    file:close()
  end
  setup(function()
    os.remove(root)
    put('a/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq', '1000000')
    put('a/sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq', '3000000')
    put('a/sys/devices/system/cpu/cpu3/cpufreq/scaling_cur_freq', '9000000') -- behind a gap
    put('a/sys/class/thermal/thermal_zone0/type', 'acpitz')
    put('a/sys/class/thermal/thermal_zone0/temp', '11000')
    put('a/sys/class/thermal/thermal_zone1/type', 'x86_pkg_temp')
    put('a/sys/class/thermal/thermal_zone1/temp', '45500')
    put('a/sys/class/hwmon/hwmon2/name', 'k10temp')
    put('a/sys/class/hwmon/hwmon2/temp1_input', '60000')
    put('last/sys/class/thermal/thermal_zone63/type', 'x86_pkg_temp')
    put('last/sys/class/thermal/thermal_zone63/temp', '33000')
    put('behind/sys/class/thermal/thermal_zone64/type', 'x86_pkg_temp')
    put('behind/sys/class/thermal/thermal_zone64/temp', '44000')
    put('b/sys/class/hwmon/hwmon0/name', 'nvme')
    put('b/sys/class/hwmon/hwmon0/temp1_input', '30000')
    put('b/sys/class/hwmon/hwmon1/name', 'coretemp')
    put('b/sys/class/hwmon/hwmon1/temp1_input', '51000')
  end)
  teardown(function()
    heat.ROOT = was
    os.execute('rm -rf ' .. root)
  end)

  it('is what the kernel tells: the mean of clocks, one temperature', function()
    heat.ROOT = root .. '/a'
    assert.same({ clock_mhz = 2000, celsius = 45.5 }, heat.read())
    os.remove(root .. '/a/sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq') -- it went away
    assert.same({ clock_mhz = 1000, celsius = 45.5 }, heat.read())
    heat.ROOT = root .. '/b'
    assert.same({ celsius = 51 }, heat.read())
    heat.ROOT = root .. '/last' -- of 64 zones
    assert.same({ celsius = 33 }, heat.read())
    heat.ROOT = root .. '/behind'
    assert.same({}, heat.read())
    heat.ROOT = root .. '/none'
    assert.same({}, heat.read())
  end)
end)

describe('a line to ranks', function()
  it('is there where nothing else is open, by the number 0', function()
    local pipe = assert(io.popen([[LUA_PATH='lua/?.lua;lua/?/init.lua;;' luajit -e '
      local line = require "ridge.launch.line"
      local listener = line.listen "127.0.0.1"
      local to = line.connect({ "127.0.0.1" }, listener.port, 5000)
      print(listener.fd, to ~= nil)' <&- 2>&1]]))
    assert.equal('0\ttrue\n', pipe:read '*a')
    pipe:close()
  end)
end)

describe('a measured point as text', function()
  -- A thin space stands before units; colours are off where nobody asked for them.
  local function plain(s) return (s:gsub('\226\128\175', ' '):gsub('\27%[[%d;]*m', '')) end
  local function point(more)
    local p = { med = 2e6, ci_lo = 1e6, ci_hi = 3e6, ci_level = 0.95, grade = 'B', flags = {},
      n = 5, inner = 1 }
    for key, given in pairs(more or {}) do p[key] = given end
    return p
  end
  local function box(more, width)
    return (plain(value.box(shown.point(point(more)), width or 100)))
  end

  it('is left as it is where it has an error', function()
    local p = point { error = 'x' }
    assert.is_nil(getmetatable(shown.point(p)))
    assert.is_nil(getmetatable(shown.point {}))
    local cold = { med = 1, ci_lo = 1, ci_hi = 1, grade = 'A' }
    assert.is_truthy(getmetatable(shown.point(point { cold = cold }).cold))
    assert.is_nil(getmetatable(shown.point(point { cold = { error = 'x' } }).cold))
  end)

  it('has time, interval, grade, and how it was sampled', function()
    assert.equal('median 2 ms   95 % 1 ms .. 3 ms   grade B\n5 samples of 1 call, warm\n'
      .. 'str(_) shows every field', box())
    assert.matches('5 samples of 2 calls, cold, 3 processes  ', box { inner = 2, cache = 'cold',
      procs = 3, samples = { 1, 2 } }, 1, true)
    assert.matches('warm  first call 4 ms\n', box { first_ns = 4e6 }, 1, true)
    assert.matches('\ncold caches: median 5 ms   4 ms .. 6 ms   grade C\n', box { cold = {
      med = 5e6, ci_lo = 4e6, ci_hi = 6e6, grade = 'C' } }, 1, true)
    assert.matches('\n4 M FLOP, 2 GFLOP/s, 1 GB/s: 50 % of the roof\n', box { work = {
      flops = 4e6, bytes = 2e6 }, roof = 0.5 }, 1, true)
    assert.not_matches('FLOP', box { work = { flops = 0, bytes = 0 } })
    assert.matches('\na promise\nstr', box { promises = 'a promise' }, 1, true)
    assert.equal('median 2 ms [1 ms .. 3 ms], grade B', plain(value.line(shown.point(point()))))
  end)

  it('has the words of its flags, those first that weigh most, as many as fit', function()
    local head = 'median 2 ms   95 % 1 ms .. 3 ms   grade B'
    local function told(width, ...)
      return (box({ flags = { ... } }, width):match '^(.-)\n%d+ samples')
    end
    local wide = 'the middle half of the samples is wide'
    local modes = 'the samples fall into two clusters'
    local drift = 'the time rose or fell over the rounds'
    assert.equal(head .. ': ' .. wide, told(100, 'WIDE'))
    -- by grade, then by their place in the list
    assert.equal(head .. ': ' .. drift .. '; ' .. wide .. '; ' .. modes,
      told(200, 'MODES', 'WIDE', 'DRIFT'))
    -- 40 columns are enough to stand behind the head
    assert.equal(head .. ': ' .. wide, told(#head + 42, 'WIDE'))
    assert.equal(head .. '\n  ' .. wide, told(#head + 41, 'WIDE'))
    local both = #drift + #wide + 2
    assert.equal(head .. '\n  ' .. drift .. '; ' .. wide, told(2 + both, 'WIDE', 'DRIFT'))
    assert.equal(head .. '\n  ' .. drift .. ' and 1 more', told(1 + both, 'WIDE', 'DRIFT'))
    assert.equal(head .. '\n  ' .. drift .. ' and 2 more', told(2 + both, 'WIDE', 'DRIFT', 'MODES'))
    assert.equal(head:gsub('   ', '\n  ') .. '\n  WIDE DRIFT', told(20, 'WIDE', 'DRIFT'))
  end)
end)

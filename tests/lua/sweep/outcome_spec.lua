-- SPDX-License-Identifier: MIT
--- What a point keeps: the numbers of its phases beside their time, of a device too, its curves,
--- peaks and grade, beside the same rules written out plainly.

local cheap_lab = dofile 'tests/lua/sweep/cheap_lab.lua'
local point = require 'ridge.sweep.point'

local function failure(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return err.message
end

-- A plan that knows what it costs.
local function plan(flops, bytes, left_out)
  return { facts = function()
    return { flops = flops, bytes = bytes, recorded = { left_out = left_out or 0, flops = 99 } }
  end }
end

-- 'name value unit better how' of each metric, in order.
local function metrics(outcome)
  local out = {}
  for i, m in ipairs(outcome.metrics) do
    out[i] = ('%s %g %s %s %s'):format(m.name, m.value, tostring(m.unit), tostring(m.better),
      tostring(m.how))
  end
  return out
end

describe('a point', function()
  local lab = cheap_lab.new()
  local function new(params) return point.new(params or { k = 1 }, lab, 1000) end

  it('keeps what its plan counts, what the recipe says in its place, and rates', function()
    local m = new()
    m:time('fwd', plan(200, 50, 3), { zeros = true })
    m:cost('fwd', { bytes = 40, sign_flops = 7, dtype = 'f32' })
    m:time('copy', plan(0, 80))
    m:time('raw', function() end)
    m:cost('only', { flops = 5 })
    m:metric('err', 0.5, { unit = '1', better = 'lower' })
    m:metric('acc', 0.25, { better = 'higher' })
    m:metric('any', 3)
    local plans = m:plans 'k=1'
    assert.equal(3, #plans)
    assert.same({ 'k=1 fwd', true, { flops = 200, bytes = 40, sign_flops = 7, dtype = 'f32' } },
      { plans[1].label, plans[1].zeros, plans[1].cost })
    assert.same({ 'k=1 copy', { bytes = nil } }, { plans[2].label, plans[2].cost })
    local before = metrics(m:outcome(nil))
    assert.equal('fwd_flops 200 flop nil plan', before[1])
    assert.is_nil(table.concat(before, ' '):find('gflops', 1, true))
    local outcome = m:outcome { { med = 4, grade = 'A', flags = { 'WIDE' } },
      { med = 8, grade = 'C', flags = { 'ZEROS', 'WIDE' }, cold = { med = 16, grade = 'B',
        flags = { 'LUA' } } }, { med = 2, grade = 'B' } }
    assert.same({ 'fwd_flops 200 flop nil plan', 'fwd_sign_flops 7 flop nil cost',
      'fwd_bytes 40 byte nil cost', 'fwd_left_out 3 calls nil plan',
      'fwd_recorded_flops 99 flop nil plan', 'fwd_gflops 50 GFLOP/s 1 flops/median',
      'fwd_gbps 10 GB/s 1 bytes/median', 'copy_bytes 80 byte nil plan',
      'copy_gbps 10 GB/s 1 bytes/median', 'only_flops 5 flop nil cost', 'err 0.5 1 -1 nil',
      'acc 0.25 nil 1 nil', 'any 3 nil nil nil' }, metrics(outcome))
    assert.same({ 'C', 'LUA WIDE ZEROS' }, { outcome.grade, outcome.flags })
    local timings = {}
    for i, t in ipairs(outcome.timings) do timings[i] = t.phase .. ' ' .. t.result.med end
    assert.same({ 'fwd 4', 'copy 8', 'copy 16', 'raw 2' }, timings)
    assert.is_nil(outcome.peak)
  end)

  it('keeps what a device said', function()
    local m = new()
    m:time('fwd', function() end)
    local outcome = m:outcome { { med = 4, device = 'cuda:0', device_ns = 4, issue_ns = 1,
      host_ns = 6, clock_mhz = 1500, held = 0.25, state = { before = { held = 1 },
      after = { held = 2, memory_mhz = 2600, celsius = 50, watts = 300 } } } }
    assert.same({ 'fwd_device_ns 4 ns nil device events',
      'fwd_issue_ns 1 ns nil host clock, until the calls had returned',
      'fwd_host_ns 6 ns nil host clock, until the device was through',
      'fwd_device_mhz 1500 MHz nil nvml, while it worked',
      'fwd_held_share 0.25 1 nil nvml, while it worked', 'fwd_held_before 1 bits nil nvml',
      'fwd_held_after 2 bits nil nvml', 'fwd_memory_mhz 2600 MHz nil nvml, after',
      'fwd_celsius 50 C nil nvml, after', 'fwd_watts 300 W nil nvml, after' }, metrics(outcome))
    assert.same({}, metrics(m:outcome { { med = 4 } }))
    assert.same({ 'fwd_host_ns 6 ns nil host clock, until the device was through' },
      metrics(m:outcome { { med = 4, device = 'cuda:0', host_ns = 6 } }))
  end)

  it('has the peak of what it added, the highest of its phases', function()
    local m = new()
    lab.live, lab.peak = 1500, 300
    assert.equal(800, m:peak('fwd', function() end))
    lab.peak = 100
    assert.equal(600, m:peak('bwd', function() end))
    lab.live, lab.peak = 0, 10
    assert.equal(0, m:peak('none', function() end))
    local outcome = m:outcome(nil)
    assert.equal(800, outcome.peak)
    assert.same({ 'fwd_peak_bytes 800 byte -1 allocator', 'bwd_peak_bytes 600 byte -1 allocator',
      'none_peak_bytes 0 byte -1 allocator' }, metrics(outcome))
    local unseen = point.new({}, lab, nil)
    local ok, err = pcall(unseen.peak, unseen, 'fwd', function() end)
    assert.same({ false, true }, { ok, err == point.LOOK_FIRST })
    assert.equal('memory was not looked at', tostring(err))
    assert.equal('m:peak: expected a function, got nil', failure(m.peak, m, 'x'))
    ok, err = pcall(m.peak, m, 'x')
    assert.same({ false, 'EARG', 'm:peak' }, { ok, err.code, err.op })
  end)

  it('keeps curves of rising steps', function()
    local m = new()
    m:curve('loss', { { step = 2, loss = 5, seconds = 0.5 }, { step = 4, loss = 0 / 0,
      seconds = 1.25 } })
    m:curve('acc', { { acc = 1, seconds = 0 }, { acc = 2, seconds = 2e-9 } })
    local curves = m:outcome(nil).curves
    assert.same({ 'loss', 2, { step = 2, value = 5, t_ns = 5e8 } }, { curves[1].name,
      #curves[1].points, curves[1].points[1] })
    assert.same({ 4, 1.25e9 }, { curves[1].points[2].step, curves[1].points[2].t_ns })
    assert.same({ { step = 1, value = 1, t_ns = 0 }, { step = 2, value = 2, t_ns = 2 } },
      curves[2].points)
    assert.equal('m:curve: there is a curve loss already', failure(m.curve, m, 'loss', { 1 }))
    assert.equal('m:curve: x has no steps', failure(m.curve, m, 'x', {}))
    assert.equal('m:curve: 1x cannot be the name of a curve', failure(m.curve, m, '1x', { 1 }))
    for i, bad in ipairs { { { step = 1, x = 1, seconds = 0 }, { step = 1, x = 1, seconds = 0 } },
        { { step = 1, x = 1, seconds = 0 }, { step = 2, seconds = 0 } },
        { { x = 1, seconds = 0 }, { x = 1, seconds = 1 / 0 } },
        { { x = 1, seconds = 0 }, { x = 1 } }, { { x = 1, seconds = 0 }, 3 },
        { { x = 1, seconds = 0 }, { step = 1 / 0, x = 1, seconds = 0 } } } do
      assert.equal('m:curve: row 2 of x wants a rising step, seconds and x',
        failure(m.curve, m, 'x', bad), i)
    end
  end)

  it('refuses two things of one name, and what is no name', function()
    local m = new { k = 1, Width = 2 }
    m:time('fwd', plan(1, 1))
    m:metric('err', 1)
    for name, by in pairs { k = 'a parameter', width = 'a parameter', WIDTH = 'a parameter',
        ERR = 'another metric', fwd = 'a phase', fwd_lo = 'a phase', fwd_gflops = 'a phase',
        FWD_left_out = 'a phase', trial = 'a field of every row', grade = 'a field of every row' }
    do
      assert.equal(('m:metric: the name %q is taken by %s'):format(name, by),
        failure(m.metric, m, name, 1))
    end
    assert.equal('m:time: the name "err" is taken by another metric', failure(m.time, m, 'err',
      plan(1, 1)))
    assert.equal('m:time: the phase fwd has a plan already', failure(m.time, m, 'fwd', plan(1, 1)))
    assert.equal('m:time: no plan for the phase bwd', failure(m.time, m, 'bwd'))
    assert.equal('m:time: a phase is named by letters, digits and "_", not "b-d"',
      failure(m.time, m, 'b-d', plan(1, 1)))
    assert.equal('m:cost: a phase is named by letters, digits and "_", not number',
      failure(m.cost, m, 3, {}))
    assert.equal('m:metric: x is 1 (string); expected a number', failure(m.metric, m, 'x', '1'))
    for _, name in ipairs { '', 'a"b', 'a\nb', ('x'):rep(61) } do
      assert.matches('cannot be the name of a metric', failure(m.metric, m, name, 1))
    end
    m:metric(('x'):rep(60), 1)
  end)

  it('may be infeasible, for a reason', function()
    local m = new()
    local ok, err = pcall(m.infeasible, m, 'too large')
    assert.same({ false, 'too large', 'infeasible: too large' }, { ok, point.infeasible(err),
      tostring(err) })
    assert.is_falsy(point.infeasible 'infeasible')
    for _, bad in ipairs { '', 3, false } do
      assert.equal('m:infeasible: say the reason', failure(m.infeasible, m, bad))
    end
  end)
end)

-- SPDX-License-Identifier: MIT
-- One result of those of several processes: what varies between them is in its interval.

local here = debug.getinfo(1, 'S').source:match('^@(.*/)')
local block = require 'ridge.measure.block'
local literal = require 'ridge.measure.literal'
local made_up = dofile(here .. 'machine.lua')
local merge = require 'ridge.measure.merge'
local protocols = require 'ridge.measure.protocol'

-- Results of processes whose point takes these times.
local function processes(times, signals)
  local results = {}
  for i, ns in ipairs(times) do
    local machine = made_up.new(signals)
    machine.random = require('ridge.measure.random').new(i)
    results[i] = block.block({ { label = 'x', window = machine:window(ns, machine:quiet()) } },
                             'default', { services = machine:services() })[1]
  end
  return results
end

describe('processes that differ', function()
  it('widen the interval, though each of them was sure', function()
    local times = { 2e5, 2.04e5, 1.96e5, 2.03e5, 1.98e5 }
    local results = processes(times)
    local out = merge.processes(results, protocols.protocol())
    for i, r in ipairs(results) do
      assert.is_true(r.precision < 0.01)
      assert.is_true(out.ci_lo < times[i] * 1.011 and out.ci_hi > times[i] * 0.989)
    end
    assert.is_true(out.precision > 0.015, out.precision)
    assert.equal(5, out.procs)
    assert.equal('budget', out.stop)
    assert.is_truthy(table.concat(out.flags, ' '):find 'IMPRECISE')
    assert.equal('C', out.grade)
    assert.equal('order+t+processes', out.ci_how)
    local meds = {}
    for i, r in ipairs(results) do meds[i] = r.med end
    local want = require('ridge.measure.passes').interval(meds)
    assert.same({ want.lo, want.med, want.hi }, { out.ci_lo, out.med, out.ci_hi })
    assert.is_true(out.between > 0.01 and out.within < 0.005)
    assert.is_true(out.quiet > 1.9e5 and out.quiet < 2.1e5)
  end)

  it('are not made up for by many rounds: two of them 1 % apart say little', function()
    local out = merge.processes(processes { 2e5, 2.02e5 }, protocols.protocol())
    -- Student's factor of one degree of freedom is 12.7
    assert.is_true(math.abs(out.precision - 12.706 * 0.005 / 1.005) < 0.005, out.precision)
  end)

  it('and that agree are one clean result with all samples in order', function()
    local results = processes { 2e5, 2e5, 2e5 }
    local out = merge.processes(results, protocols.protocol())
    assert.same({ 'A', 'precision', 150, 15 }, { out.grade, out.stop, out.n, out.rounds })
    assert.same({}, out.flags)
    assert.equal(150, #out.samples)
    assert.equal(150, #out.mark)
    assert.equal(results[2].samples[1], out.samples[51])
    assert.equal(results[2].t0_ns - results[1].t0_ns, out.at[51])
    assert.is_true(out.ci_lo <= out.med and out.med <= out.ci_hi)
    assert.is_true(math.abs(out.first_ns / 2e5 - 1) < 0.01)
  end)

  it('keep what disturbed any of them, and what is hidden', function()
    local good, bad = processes { 2e5, 2e5 }, processes({ 2e5 }, { steal = 0.1 })
    local out = merge.processes({ good[1], bad[1], good[2] }, protocols.protocol())
    assert.same({ 'STEAL' }, out.flags)
    assert.equal('A', out.grade)   -- of rounds enough that nothing fell on
    for _, r in ipairs { good[1], bad[1], good[2] } do r.undisturbed = 1 end
    assert.equal('C', merge.processes({ good[1], bad[1], good[2] }, protocols.protocol()).grade)
    bad[1].flags = { 'THROTTLE' }
    assert.equal('D', merge.processes({ good[1], bad[1], good[2] }, protocols.protocol()).grade)
    assert.is_true(math.abs(out.host.steal - 0.1) < 0.01)
    local hidden = processes({ 2e5, 2e5 }, { hidden = { 'steal_ns' } })
    out = merge.processes(hidden, protocols.protocol())
    assert.is_true(out.host.steal ~= out.host.steal)
    assert.same({ 'steal' }, out.host.hidden)
  end)
end)

describe('plain tables as text', function()
  it('come back as they were', function()
    local given = { 1, 0.1, 'a\nb\r"\\', true, { x = 1e300, [3] = false }, inf = math.huge,
                    minus = -math.huge }
    local text = literal.encode(given)
    assert.is_nil(text:find '[\r\n]')
    assert.same(given, literal.decode(text))
    local nan = literal.decode(literal.encode { 0 / 0 })[1]
    assert.is_true(nan ~= nan)
  end)
end)

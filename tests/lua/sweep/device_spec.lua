-- SPDX-License-Identifier: MIT
--- A sweep's lab on a device: what it hands to what measures, without a device.

local measure = require 'ridge.measure'

describe('the lab of a device', function()
  it('hands over what is to be timed as it got it, with the ceilings of that device', function()
    local device, fresh = require 'ridge.measure.device', require 'ridge.measure.fresh'
    local saved = { number = device.number, name = device.name, simulated = device.is_simulated,
      points = fresh.points, block = measure.block, calibration = measure.calibration,
      calibrate = measure.calibrate }
    finally(function()
      device.number, device.name, device.is_simulated = saved.number, saved.name, saved.simulated
      fresh.points, measure.block = saved.points, saved.block
      measure.calibration, measure.calibrate = saved.calibration, saved.calibrate
    end)
    function device.number(name) return name == 'cuda:1' and 2 or 0 end
    function device.name(number) return 'cuda:' .. number - 1 end
    function device.is_simulated() return false end
    local got
    local function note(...)
      got = { n = select('#', ...), ... }
      return 'found'
    end
    function measure.calibration(ceilings, threads) return { of = ceilings, threads = threads } end
    fresh.points, measure.block, measure.calibrate = note, note, note

    local lab = require('ridge.sweep.device').lab 'cuda:1'
    assert.same({ 'cuda:1', 0, false }, { lab.device, lab.threads(), lab.simulated })
    local protocol = require('ridge.measure.protocol').protocol { passes = 5 }
    local function tick() end
    local source, ceilings, points = { module = 'm' }, { { name = 'copy' } }, { {} }
    assert.equal('found', lab.fresh(source, protocol, ceilings, tick))
    assert.same({ n = 4, source, protocol, { of = ceilings, threads = 0 }, tick }, got)
    local taken = {}
    assert.equal('found', lab.block(points, protocol, ceilings, tick, taken))
    assert.equal(points, got[1])
    assert.same({ calibration = { of = ceilings, threads = 0 }, progress = tick, brief = true,
      taken = taken, between = require('ridge.measure.variation').NONE }, got[3])
    assert.equal('found', lab.calibrate(tick, true))
    assert.same({ n = 1, { device = 'cuda:1', quick = true, progress = tick } }, got)
    -- the processor's own lab is that of every sweep
    assert.equal(require 'ridge.sweep.lab', require('ridge.sweep.device').lab 'cpu')
  end)
end)

-- SPDX-License-Identifier: MIT
-- Models as text in passes: five fresh processes, short ones, and results of the median of them.

local fresh = require 'ridge.bench.fresh'
local in_passes = require('ridge.measure.fresh').in_passes
local protocols = require 'ridge.measure.protocol'
local bench = require 'ridge.bench'

describe('models as text', function()
  it('take about as long in five passes as in one process', function()
    local p = protocols.protocol 'demo'
    local pass = in_passes(p)
    assert.same({ 5, 2, 8 }, { pass.processes, pass.min_rounds, pass.max_rounds })
    assert.equal(p.budget_ns, 5 * pass.budget_ns)
    assert.is_true(pass.warm_max_ns >= p.warm_min_ns)
    assert.equal(9, in_passes(protocols.protocol { processes = 9 }).processes)
    assert.equal(5, p.min_rounds)
  end)

  it('are made again in each of them', function()
    local few = protocols.protocol { level = 'quick', quiet_ns = 0, warm_min_ns = 1e6,
      warm_max_ns = 1e7, window_ns = 1e5 }
    local results = fresh.results({ 'linear{16,8}', 'linear{8,8}' }, 4, { protocol = few,
      seed = 1 })
    assert.equal(2, #results)
    for _, r in ipairs(results) do
      assert.equal(5, r.procs)
      -- what other minutes differ by is assumed where no ridge trust has seen it
      assert.matches('^order%+t%+processes%+%l+$', r.ci_how)
      assert.is_true(r.sd_minutes > 0)
      assert.is_true(r.ci_lo > 0 and r.ci_lo <= r.med and r.med <= r.ci_hi)
      assert.is_number(r.between)
    end
    local report = bench.model('linear{16,8}', { batch_sizes = { 2 }, protocol = few })
    assert.equal(10, report.entries[1].rounds)
    -- what cannot be made elsewhere is measured here
    local here = bench.model(require('ridge').nn.Linear(16, 8), { batch_sizes = { 2 },
      protocol = few })
    assert.equal(3, here.entries[1].rounds)
  end)
end)

-- SPDX-License-Identifier: MIT
-- What an anchor says of the machine: on rows whose drift is known, and after a sweep.
local drift = require 'ridge.sweep.drift'
local folders = dofile 'tests/lua/store/folder.lua'

-- Points of true times, measured on a machine that slows down by `rate` from the first to the last.
local function rows(times, rate, half, from, to)
  local list = {}
  for i, true_time in ipairs(times) do
    local at = from + (to - from) * (i - 1) / math.max(#times - 1, 1)
    local t = true_time * (1 + rate * at / 1000)
    list[i] = { k = i, fwd = t, fwd_lo = t * (1 - half), fwd_hi = t * (1 + half), began = at,
      grade = 'A' }
  end
  return list
end

describe('the drift of a sweep', function()
  local times = { 100, 110, 105, 130, 120, 95.5 }

  it('is what the anchor moved by, and is taken out of the points', function()
    local found = drift.of(rows(times, 0.2, 0.01, 0, 1000),
      rows({ 50, 50, 50, 50, 50 }, 0.2, 0.01, 0, 1000), 'fwd')
    assert.near(1.2, found.ratio, 1e-9)
    assert.is_true(found.apart)
    assert.equal(5, found.n)
    for i, row in ipairs(found.rows) do -- at the speed of the middle of the sweep
      assert.near(times[i] * 1.1, row.fwd_steady, 0.2)
    end
    assert.is_true(found.moved >= 4)
    -- the last point is the fastest, and the drift had hidden it
    assert.is_false(found.best_stays)
    assert.matches('fwd of the anchor moved by 20.0 %% over 5 measurements, beyond their intervals',
      found.text)
    assert.matches('another point is the fastest', found.text)
  end)

  it('of a steady machine changes nothing', function()
    local found = drift.of(rows(times, 0, 0.01, 0, 1000),
      rows({ 50, 50.2, 49.9 }, 0, 0.01, 0, 1000), 'fwd')
    assert.is_false(found.apart)
    assert.equal(0, found.moved)
    assert.is_true(found.best_stays)
    assert.matches('within their intervals; without it none of 6 points leave their intervals, and '
      .. 'the fastest stays the fastest', found.text)
  end)

  it('names no fastest where all points are of grade D', function()
    local points = rows(times, 0, 0.01, 0, 1000)
    for _, row in ipairs(points) do row.grade = 'D' end
    local found = drift.of(points, rows({ 50, 50.2 }, 0, 0.01, 0, 1000), 'fwd')
    assert.is_nil(found.best_stays)
    assert.matches('and no point but those of grade D could be the fastest$', found.text)
  end)

  it('reads the single passes of an anchor, whose summaries lie over the whole run', function()
    local anchor = { fwd = 110, fwd_lo = 100, fwd_hi = 120, fwd_within = 0.001, began = 400,
      fwd_by_pass = '100 105 - 115 120', pass_began = '0 100 200 300 400', grade = 'A' }
    local point = { fwd = 55, fwd_lo = 54.9, fwd_hi = 55.1, began = 390,
      fwd_by_pass = '55', pass_began = '390', grade = 'A' }
    local early = { fwd = 50, fwd_lo = 49.9, fwd_hi = 50.1, began = 390, grade = 'A',
      fwd_by_pass = '50 50', pass_began = '0 10' }
    local found = drift.of({ point, early }, { anchor }, 'fwd')
    assert.equal(4, found.n)
    assert.near(1.2, found.ratio, 1e-9)
    assert.is_true(found.apart)
    assert.near(119.5 / 110, found.rows[1].fwd_drift, 0.01)
    -- of passes that lay early, not of when the last one began
    assert.near(100.25 / 110, found.rows[2].fwd_drift, 0.01)
  end)

  it('reads an anchor of two passes by each, and one of a single pass as a whole', function()
    local function anchor(meds, began)
      return { fwd = 110, fwd_lo = 109, fwd_hi = 111, fwd_within = 0.001, began = 400,
        fwd_by_pass = meds, pass_began = began, grade = 'A' }
    end
    local points = { { fwd = 55, fwd_lo = 54.9, fwd_hi = 55.1, began = 390, grade = 'A' } }
    local found = drift.of(points, { anchor('100 120', '0 400') }, 'fwd')
    assert.equal(2, found.n)
    assert.near(1.2, found.ratio, 1e-9)
    local first, last = anchor('100', '0'), anchor('200', '400')
    first.began = 0
    found = drift.of(points, { first, last }, 'fwd')
    assert.near(1, found.ratio, 1e-9)
  end)

  it('is of phases, not of their columns', function()
    assert.same({ 'bwd', 'fwd' }, drift.phases { { fwd = 1, fwd_lo = 1, fwd_quiet = 1,
      fwd_quiet_lo = 1, fwd_ratio = 1, fwd_ratio_lo = 1, fwd_cold = 1, fwd_cold_lo = 1, bwd = 1,
      bwd_lo = 1 } })
  end)

  it('wants an anchor that was measured twice', function()
    assert.is_nil(drift.of(rows(times, 0, 0.01, 0, 1), rows({ 50 }, 0, 0.01, 0, 1), 'fwd'))
  end)

  it('is said at the end of a sweep that has an anchor, and is a call', function()
    local folder = folders.new()
    local file = io.open(folder .. '/adds.lua', 'w')
    file:write [[
      local ridge = require 'ridge'
      local sw = ridge.sweep 'adds' {
        space = { n = ridge.range(64, 1024, 64) }, anchor = { n = 512 }, protocol = 'quick',
        setup = function(p) return { x = ridge.randn(p.n) } end,
        measure = function(_, c, m) m:time('fwd', ridge.capture(function() return c.x + 1 end)) end,
      }
      sw:run { calibrate = false, progress = 'plain' }
      local found = sw:drift 'fwd'
      print(found.n, #found.rows, found.rows[1].fwd_steady > 0)
    ]]
    file:close()
    local text, status = folders.run(('RIDGE_LOCKS=%s/locks RIDGE_DB=%s/s.db ./ridge %s/adds.lua')
      :format(folder, folder, folder))
    assert.equal(0, status, text)
    assert.matches('fwd of the anchor moved by %d+%.%d %% over 10 measurements', text)
    assert.matches('10\t16\ttrue', text)
    folders.remove(folder)
  end)
end)

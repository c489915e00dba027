-- SPDX-License-Identifier: MIT
-- What a point produced, read back column by column: each field of its own value, so that no two
-- can change places.
local folders = dofile 'tests/lua/store/folder.lua'
local record = require 'ridge.store.record'
local schema = require 'ridge.store.schema'
local sqlite = require 'ridge.store.sqlite'

-- Field of a timing's result, its column, its value.
local FIELDS = {
  { 'n', 'n', 101 }, { 'n_eff', 'n_eff', 102.5 }, { 'rounds', 'rounds', 103 },
  { 'inner', 'inner', 104 }, { 'warm_ns', 'warm_ns', 105.5 }, { 'warm_calls', 'warm_calls', 106 },
  { 'min', 'min', 107.5 }, { 'p25', 'p25', 108.5 }, { 'med', 'med', 109.5 },
  { 'p75', 'p75', 110.5 }, { 'p95', 'p95', 111.5 }, { 'p99', 'p99', 112.5 },
  { 'max', 'max', 113.5 }, { 'mean', 'mean', 114.5 }, { 'sd', 'sd', 115.5 },
  { 'mad', 'mad', 116.5 }, { 'ci_lo', 'ci_lo', 117.5 }, { 'ci_hi', 'ci_hi', 118.5 },
  { 'ci_level', 'ci_level', 0.75 }, { 'ci_how', 'ci_how', 'order' }, { 'r1', 'r1', 119.5 },
  { 'drift', 'drift', 120.5 }, { 'sentinel', 'sentinel', 121.5 },
  { 'clock_hz', 'clock_hz', 122.5 }, { 'grade', 'grade', 'B' },
  { 'thresholds', 'thresholds', 'fixed' }, { 'stop', 'stop', 'precision' },
  { 'passes', 'passes', 123 }, { 'procs', 'procs', 124 }, { 'sd_between', 'sd_between', 125.5 },
  { 'sd_within', 'sd_within', 126.5 }, { 'quiet', 'quiet', 127.5 },
  { 'quiet_lo', 'quiet_lo', 128.5 }, { 'quiet_hi', 'quiet_hi', 129.5 }, { 'ratio', 'ratio', 130.5 },
  { 'ratio_lo', 'ratio_lo', 131.5 }, { 'ratio_hi', 'ratio_hi', 132.5 },
  { 'pass_med', 'pass_med', 133.5 }, { 'pass_ratio', 'pass_ratio', 134.5 },
  { 'pass_flags', 'pass_flags', 'DRIFT' }, { 'clock', 'clock', 'device' },
  { 'cache', 'cache', 'cold' },
}
local HOST = { { 'foreign', 'foreign_share', 0.125 }, { 'steal', 'steal_share', 0.25 },
  { 'pressure', 'pressure_share', 0.375 }, { 'throttled', 'throttled', 7 } }

describe('what an attempt produced', function()
  local folder, db
  setup(function()
    folder = folders.new()
    db = sqlite.open(folder .. '/r.db', 'write')
    db:transaction(function() schema.create(db, '0') end)
    db:exec('PRAGMA foreign_keys = OFF', 'only what an attempt produced is looked at')
  end)
  teardown(function()
    db:close()
    folders.remove(folder)
  end)

  it('is one row a timing, each field in its column', function()
    local r = { host = {}, flags = { 'ZEBRA', 'ANT' }, first_ns = 201.5, samples = { 0.5, 1.5 },
      at = { 1e12 + 1, 1e12 + 2 }, mark = { false, true }, t0_ns = 5e12 }
    for _, f in ipairs(FIELDS) do r[f[1]] = f[3] end
    for _, f in ipairs(HOST) do r.host[f[1]] = f[3] end
    db:transaction(function()
      record.attempt(db, 8, { timings = { { phase = 'fwd', result = r } } })
    end)
    local row = db:row "SELECT * FROM timing WHERE attempt_id = 8 AND cache <> 'first'"
    for _, list in ipairs { FIELDS, HOST } do
      for _, f in ipairs(list) do assert.equal(f[3], row[f[2]], f[2]) end
    end
    assert.equal('fwd', row.phase)
    assert.equal('ANT ZEBRA', row.flags)
    -- no column is left that this test does not give a value of its own
    local seen, columns = {}, 0
    for _ in pairs(row) do columns = columns + 1 end
    for _, list in ipairs { FIELDS, HOST } do
      for _, f in ipairs(list) do
        assert.is_nil(seen[f[3]], f[2])
        seen[f[3]] = true
      end
    end
    assert.equal(#FIELDS + #HOST + 4, columns) -- id, attempt_id, phase, flags

    local first = db:row "SELECT * FROM timing WHERE attempt_id = 8 AND cache = 'first'"
    assert.same({ 'fwd', 'device', 1, 1, 201.5, 201.5, 201.5, 201.5 }, { first.phase, first.clock,
      first.n, first.inner, first.min, first.med, first.max, first.mean })

    local kept = db:row('SELECT * FROM samples WHERE timing_id = ?', row.id)
    assert.same({ 2, 5e12, record.ENCODING }, { kept.n, kept.t0, kept.enc })
    assert.same({ 0.5, 1.5 }, record.unpack('dur', kept.dur))
    assert.same({ 1e12 + 1, 1e12 + 2 }, record.unpack('at', kept.at))
    assert.same({ 0, 1 }, record.unpack('mark', kept.mark))
  end)

  it('is of the usual clock and a warm cache where nothing else is said', function()
    local function attempt(number, result)
      return record.attempt(db, number, { timings = { { phase = 'fwd', result = result } } })
    end
    attempt(9, { med = 1, n = 2, inner = 3 })
    local row = db:row 'SELECT * FROM timing WHERE attempt_id = 9'
    assert.same({ 'monotonic_raw', 'warm', '' }, { row.clock, row.cache, row.flags })
    assert.equal(1, db:value 'SELECT count(*) FROM timing WHERE attempt_id = 9')
    for _, lacks in ipairs { 'med', 'n', 'inner' } do
      local r = { med = 1, n = 2, inner = 3 }
      r[lacks] = nil
      local ok, err = pcall(attempt, 10, r)
      assert.is_false(ok)
      assert.matches('the timing of fwd has no median, count or inner count', err.message)
    end
  end)

  it('is metrics and curves, of which the newer stand over those that are carried', function()
    record.attempt(db, 20, { metrics = {
      { name = 'loss', value = 2.5, unit = 'nat', better = -1, how = 'told' },
      { name = 'odd', value = 0 / 0, how = 'told' }, { name = 'old', value = 7, better = 1 } },
      curves = { { name = 'c', points = { { step = 1, value = 0.5, t_ns = 11 },
        { step = 2, value = math.huge, t_ns = 12 }, { step = 3, value = 0 / 0, t_ns = 13 } } } } })
    local function metrics(attempt)
      local out = {}
      for i, m in ipairs(db:query('SELECT * FROM metric WHERE attempt_id = ? ORDER BY name',
        attempt)) do
        out[i] = { m.name, m.value or 'none', m.unit or 'none', m.better or 'none',
          m.how or 'none' }
      end
      return out
    end
    local function curves(attempt)
      local out = {}
      for i, p in ipairs(db:query('SELECT * FROM curve WHERE attempt_id = ? ORDER BY step',
        attempt)) do out[i] = { p.name, p.step, p.value or 'none', p.t_ns } end
      return out
    end
    assert.same({ { 'loss', 2.5, 'nat', -1, 'told' }, { 'odd', 'none', 'none', 'none', 'nan' },
      { 'old', 7, 'none', 1, 'none' } }, metrics(20))
    assert.same({ { 'c', 1, 0.5, 11 }, { 'c', 2, 'none', 12 }, { 'c', 3, 'none', 13 } },
      curves(20))

    record.attempt(db, 21, { carry = 20, metrics = { { name = 'loss', value = 1.5 } } })
    assert.same({ { 'loss', 1.5, 'none', 'none', 'none' },
      { 'odd', 'none', 'none', 'none', 'nan' }, { 'old', 7, 'none', 1, 'none' } }, metrics(21))
    assert.same(curves(20), curves(21))

    record.attempt(db, 22, { carry = 20, curves = { { name = 'd',
      points = { { step = 5, value = 9.5, t_ns = 14 } } } } })
    assert.same({ { 'd', 5, 9.5, 14 } }, curves(22))
  end)
end)

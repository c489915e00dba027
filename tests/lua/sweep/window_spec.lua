-- SPDX-License-Identifier: MIT
-- kill -9 in the middle of a pass: the windows that it had timed are there, and the attempt that
-- takes the pass again begins with them.

local folders = require 'tests.lua.store.folder'
local record = require 'ridge.store.record'
local sqlite = require 'ridge.store.sqlite'
local window = require 'ridge.store.window'

local function sample(i, phase)
  return { phase = phase or 'fwd', cache = 'warm', clock = 'monotonic_raw', inner = 8, t0 = 5e12,
    ns = 100 + i, at = 1e6 * i, mark = i % 2 }
end

describe('a window as a line', function()
  it('comes back', function()
    local w = window.parse(window.line(7, sample(1)) .. window.line(7, sample(2, 'bwd_1')))
    assert.equal(2, #w)
    local first = sample(1)
    first.attempt = 7
    assert.same(first, w[1])
    assert.same({ 'bwd_1', 102, 2e6, 0 }, { w[2].phase, w[2].ns, w[2].at, w[2].mark })
    local beside = sample(3)
    beside.partner = true
    w = window.parse(window.line(7, sample(1)) .. window.line(7, beside))
    assert.same({ nil, true }, { w[1].partner, w[2].partner })
    assert.equal('fwd', w[2].phase)
  end)

  it('is whole or none', function()
    local line = window.line(7, sample(1))
    for n = 0, #line - 1 do assert.same({}, window.parse(line:sub(1, n))) end
    -- what a shorter line left of a longer one
    for n = 1, #line - 1 do
      local short = window.line(8, sample(3))
      local found = window.parse(short .. line:sub(n + 1))
      assert.equal(8, found[1].attempt)
      assert.equal(1, #found, line:sub(n + 1))
    end
  end)
end)

local RECIPE = [[
local ridge = require 'ridge'
local native = require 'ridge.measure.native'
local sw = ridge.sweep 'slow' {
  space = { k = { 1, 2 } },
  protocol = { level = 'quick', passes = 2, max_passes = 2, windows = 5, warm_calls = 0,
    quiet_ns = 0 },
  setup = function(p) return { x = ridge.randn(8) } end,
  measure = function(p, c, m)
    m:time('fwd', function() native.sleep(1.2e8) end)
    m:time('bwd', function() native.sleep(0.7e8) end)
  end,
}
sw:run { db = arg[1], calibrate = false, progress = 'off' }
]]

describe('a pass that is killed', function()
  local folder, db
  before_each(function()
    folder = folders.new()
    db = folder .. '/w.db'
    local f = assert(io.open(folder .. '/slow.lua', 'w'))
    f:write(RECIPE)
    f:close()
  end)
  after_each(function() folders.remove(folder) end)

  local function command() return ('./build/ridge %s/slow.lua %s'):format(folder, db) end

  -- Windows noted by the worker at work: those of the last attempt.
  local function noted()
    local n, text = 0, folders.run(('cat %s.worker-*.lock 2>/dev/null'):format(db))
    for _, w in ipairs(window.parse(text)) do n = n + (w.phase == 'fwd' and 1 or 0) end
    return n
  end

  it('goes on behind the windows that it had', function()
    local pipe = io.popen(("exec setsid sh -c 'echo $$; exec %s >/dev/null 2>&1'"):format(
      command()))
    local pid = pipe:read '*n'
    repeat folders.run 'sleep 0.02' until noted() >= 2
    folders.run(('kill -9 -%d'):format(pid))
    pipe:close()
    local text, status = folders.run(command())
    assert.equal(0, status, text)
    local st = sqlite.open(db, 'read')
    local lost = st:query [[SELECT a.trial_id, a.pass, g.phase, s.n, s.dur FROM attempt a
      JOIN timing g ON g.attempt_id = a.id JOIN samples s ON s.timing_id = g.id
      WHERE a.outcome = 'lost' ORDER BY g.phase]]
    assert.equal(2, #lost)
    assert.same({ 'bwd', 'fwd' }, { lost[1].phase, lost[2].phase })
    assert.is_true(lost[2].n >= 2)
    local least = math.min(lost[1].n, lost[2].n)
    for _, each in ipairs(lost) do
      local own = st:row([[SELECT s.n, s.dur, s.at, g.pass_med FROM attempt a
        JOIN timing g ON g.attempt_id = a.id
        JOIN samples s ON s.timing_id = g.id WHERE a.trial_id = ? AND a.pass = ?
        AND a.outcome = 'ok' AND g.phase = ?]], each.trial_id, each.pass, each.phase)
      local before, all = record.unpack('dur', each.dur), record.unpack('dur', own.dur)
      for i, ns in ipairs(before) do assert.equal(ns, all[i]) end
      -- those that were missing and no more (two at least: one window has no median)
      assert.equal(each.n + math.max(2, 5 - least), own.n)
      local at = record.unpack('at', own.at)
      for i = 2, #at do assert.is_true(at[i] > at[i - 1]) end
      table.sort(all)
      assert.is_true(own.pass_med >= all[1] and own.pass_med <= all[#all])
    end
    -- every other pass has what it should
    for _, row in ipairs(st:query [[SELECT a.trial_id, a.pass, s.n FROM attempt a
        JOIN timing g ON g.attempt_id = a.id JOIN samples s ON s.timing_id = g.id
        WHERE a.outcome = 'ok']]) do
      if row.trial_id ~= lost[1].trial_id or row.pass ~= lost[1].pass then
        assert.equal(5, row.n)
      end
    end
    assert.equal(4, st:value "SELECT count(*) FROM attempt WHERE outcome = 'ok'")
    st:close()
  end)
end)

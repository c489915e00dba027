-- SPDX-License-Identifier: MIT
--- The columns that phases have in a sweep's view, and the time that a sweep still needs: of a
--- database whose every row is written by hand (tests/lua/cli/fixed_rows.lua).

local fixed = dofile 'tests/lua/cli/fixed_rows.lua'
local folders = dofile 'tests/lua/store/folder.lua'
local query = require 'ridge.store.query'
local sqlite = require 'ridge.store.sqlite'
local store = require 'ridge.store'

describe('a sweep that is asked', function()
  local folder, path

  local function change(sql)
    local db = sqlite.open(path, 'write')
    db:exec(sql)
    db:close()
  end

  local function ask(name, columns, more)
    local st, opt = store.open(path, 'read'), { columns = columns, sort = '1' }
    for key, value in pairs(more or {}) do opt[key] = value end
    local ok, found = pcall(query.ask, st, name, opt)
    st:close()
    if not ok then return found.message end
    return found
  end

  setup(function()
    folder = folders.new()
    path = folder .. '/a.db'
    fixed.make(path)
    -- of trial 2 only cold times of bwd; of trial 3 cold ones of "its", whose warm ones 1 has
    change [[INSERT INTO timing(attempt_id, phase, clock, cache, n, inner, med, ci_lo, ci_hi)
        SELECT best_attempt, 'bwd', 'cpu', 'cold', 4, 1, 7000, 6000, 8000 FROM trial WHERE id = 2;
      INSERT INTO timing(attempt_id, phase, clock, cache, n, inner, med, ci_lo, ci_hi)
        SELECT best_attempt, 'its', 'cpu', 'cold', 4, 1, 70, -60, 80 FROM trial WHERE id = 3;
      INSERT INTO timing(attempt_id, phase, clock, cache, n, inner, med, ci_lo, ci_hi)
        SELECT best_attempt, 'its', 'cpu', 'warm', 4, 1, 50, -40, 60 FROM trial WHERE id = 1;
      INSERT INTO timing(attempt_id, phase, clock, cache, n, inner, med, ci_lo, ci_hi)
        SELECT best_attempt, 'x_cold', 'cpu', 'warm', 4, 1, 5, 4, 6 FROM trial WHERE id = 1]]
  end)
  teardown(function() folders.remove(folder) end)

  it('has cold columns of what was timed cold and warm', function()
    local st = store.open(path, 'read')
    require('ridge.store.schema').views(st.db)
    local cold = {}
    for _, name in ipairs(query.columns(st, 'widths')) do
      if name:find '_cold' then cold[#cold + 1] = name end
    end
    st:close()
    local own, wanted = {}, { 'fwd_cold', 'fwd_cold_between_minutes', 'fwd_cold_hi',
      'fwd_cold_lo', 'its_cold', 'its_cold_between_minutes', 'its_cold_hi', 'its_cold_lo' }
    for _, name in ipairs(cold) do
      if not name:find '^x_cold' then own[#own + 1] = name end
    end
    table.sort(own)
    assert.same(wanted, own)
    local found = ask('widths', 'trial, fwd_cold, fwd_cold_lo, fwd_cold_hi, bwd, bwd_lo, bwd_hi')
    assert.same({ 1, 5000, 4500, 5500 }, found.lines[1])
    assert.same({ [1] = 2, [5] = 7000, [6] = 6000, [7] = 8000 }, found.lines[2])
    assert.same({ [1] = 3 }, found.lines[3])
    assert.same({ [2] = 'ns', [3] = 'ns', [4] = 'ns', [5] = 'ns', [6] = 'ns', [7] = 'ns' },
      found.units)
    found = ask('widths', 'trial, x_cold, x_cold_lo, x_cold_p95, grade', { limit = '1' })
    assert.same({ 1, 5, 4, nil, 'A' }, found.lines[1])
    assert.same({ [2] = 'ns', [3] = 'ns', [4] = 'ns' }, found.units)
  end)

  it('shows no end of an interval below nothing', function()
    local st = store.open(path, 'read')
    require('ridge.store.schema').views(st.db)
    local rows = st.db:query [[SELECT "its_lo" AS lo, "its_hi" AS hi, "its_cold" AS cold,
      "its_cold_lo" AS cold_lo, "its_cold_hi" AS cold_hi FROM "widths" WHERE trial IN (1, 3)
      ORDER BY trial]]
    st:close()
    assert.same({ { lo = 0, hi = 60 }, { lo = 0, hi = 80, cold = 70, cold_lo = 0, cold_hi = 80 } },
      { rows[1], rows[2] })
  end)

  it('names its usual columns, without the small print of its phases', function()
    local found = ask('widths', nil)
    assert.same({ 'batch', 'kind', 'width', 'bwd', 'fwd', "its", 'x_cold', 'fwd_cold',
      "its_cold", 'fwd_gflops', 'loss', 'grade' }, found.titles)
  end)
end)

describe('a sweep under way', function()
  local folder, path

  setup(function()
    folder = folders.new()
    path = folder .. '/a.db'
    fixed.make(path)
  end)
  teardown(function() folders.remove(folder) end)

  local function left(sql)
    local db = sqlite.open(path, 'write')
    db:exec(sql)
    db:close()
    local st = store.open(path, 'read')
    local found = require('ridge.store.sweeps').list(st)
    st:close()
    for _, line in ipairs(found.lines) do if line[1] == 'half' then return line end end
  end

  it('is listed from the moment on that it was made at, where no point was tried', function()
    local sweeps = require 'ridge.store.sweeps'
    local at = sweeps.moment('2026-11-20', os.time())
    for by, listed in pairs { [-1] = false, [0] = true, [1] = true } do
      local db = sqlite.open(path, 'write')
      db:exec(([[INSERT OR REPLACE INTO sweep(id, uuid, name, base, generation, recipe_id,
        protocol_id, args, space, strategy, seed, state, created)
        SELECT 99, randomblob(16), 'untried', 'untried', 1, recipe_id, protocol_id, args, space,
          strategy, seed, state, %d FROM sweep WHERE id = 1]])
        :format(at + by))
      db:close()
      local st = store.open(path, 'read')
      local found = false
      for _, line in ipairs(sweeps.list(st, { since = '2026-11-20' }).lines) do
        found = found or line[1] == 'untried'
      end
      st:close()
      assert.equal(listed, found, by)
    end
  end)

  it('tells what is left in hours, minutes and seconds', function()
    -- four points of five passes, one of which took so long: nineteen are left
    for seconds, text in pairs { [1] = '0:00:19', [3] = '0:00:57', [4] = '0:01:16',
        [60] = '0:19:00', [200] = '1:03:20', [1000] = '5:16:40', [10000] = '52:46:40',
        [0.5] = '0:00:10', [0] = '' } do
      local line = left(('UPDATE attempt SET ended = began + %d WHERE trial_id = 31'):format(
        seconds * 1e6))
      assert.same({ 'half', 0, 4, 1, text }, { line[1], line[2], line[3], line[4], line[5] })
    end
    assert.equal('', left([[UPDATE attempt SET ended = began + 1000000 WHERE trial_id = 31;
      UPDATE trial SET state = 'pending' WHERE id = 32]])[5]) -- nobody works on it
    -- five that took two seconds each, with two between them, from the first begin to the last end:
    -- 18 s for five, and as many as run are left at least
    assert.equal('0:00:54', left([[UPDATE trial SET state = 'running' WHERE id = 32;
      UPDATE attempt SET ended = began + 2000000 WHERE trial_id = 31;
      INSERT INTO attempt(uuid, trial_id, n, worker_id, env_id, began, ended, outcome, pass)
        SELECT randomblob(16), 31, v.n, worker_id, env_id, began + 4000000 * (v.n - 1),
          ended + 4000000 * (v.n - 1), 'ok', v.n FROM attempt a
        JOIN (SELECT 2 AS n UNION SELECT 3 UNION SELECT 4 UNION SELECT 5) v
        WHERE a.trial_id = 31 AND a.n = 1;
      UPDATE trial SET state = 'ok', passes = 5 WHERE id = 31]])[5])
  end)
end)

-- SPDX-License-Identifier: MIT
-- Merging where names are taken, and where a file has rows that have no place.

local cheap_lab = dofile 'tests/lua/sweep/cheap_lab.lua'
local folders = dofile 'tests/lua/store/folder.lua'
local merge = require 'ridge.store.merge'
local store = require 'ridge.store'
local sweep = require 'ridge.sweep'

describe('a merge', function()
  local folder
  before_each(function() folder = folders.new() end)
  after_each(function() folders.remove(folder) end)

  local function measure(file, name, values, opt)
    local all = { db = folder .. '/' .. file, lab = cheap_lab.new(), progress = false }
    for key, value in pairs(opt or {}) do all[key] = value end
    return sweep(name) { space = { k = values }, measure = function(p, _, m)
      m:time('fwd', function() return p.k end)
    end }:run(all)
  end

  local function sweeps_of(st)
    local out = {}
    for _, row in ipairs(st.db:query [[SELECT s.name, s.base, s.generation, count(t.id) AS n
        FROM sweep s LEFT JOIN trial t ON t.sweep_id = s.id AND t.state = 'ok' GROUP BY s.id
        ORDER BY s.id]]) do
      out[#out + 1] = ('%s = %s.%d of %d'):format(row.name, row.base, row.generation, row.n)
    end
    return out
  end

  it('gives names that are free: somebody calls a sweep as the next one would be', function()
    measure('a.db', 'land', { 1 })
    measure('a.db', 'land-2', { 1, 2 })
    measure('b.db', 'land', { 1, 2, 3 })
    local st = store.open(folder .. '/a.db', 'write')
    assert.matches('is called land%-3', merge.take(st, folder .. '/b.db').notes[1])
    assert.same({ 'land = land.1 of 1', 'land-2 = land-2.1 of 2', 'land-3 = land.3 of 3' },
      sweeps_of(st))
    assert.same({}, merge.take(st, folder .. '/b.db').notes) -- the second time there is nothing
    assert.equal(3, #sweeps_of(st))
    st:close()
  end)

  it('gives no name that another sweep of the same file brings along', function()
    measure('a.db', 'land', { 1 })
    measure('b.db', 'land', { 1, 2, 3 })
    measure('b.db', 'land-2', { 1, 2 })
    local st = store.open(folder .. '/a.db', 'write')
    merge.take(st, folder .. '/b.db')
    assert.same({ 'land = land.1 of 1', 'land-3 = land.3 of 3', 'land-2 = land-2.1 of 2' },
      sweeps_of(st))
    st:close()
  end)

  -- A sweep of one point, and the same file again, each changed by hand.
  local function twice(here, there)
    measure('a.db', 'land', { 1 })
    os.execute(('cp %s/a.db %s/b.db'):format(folder, folder))
    for file, sql in pairs { ['a.db'] = here, ['b.db'] = there } do
      local st = store.open(folder .. '/' .. file, 'write')
      st.db:exec(sql)
      st:close()
    end
  end

  local function merged()
    local st = store.open(folder .. '/a.db', 'write')
    merge.take(st, folder .. '/b.db')
    local row = st.db:row [[SELECT t.state, t.passes, t.best_attempt AS best, a.outcome, a.ended
      FROM trial t JOIN attempt a ON a.trial_id = t.id]]
    st:close()
    return row
  end

  it('goes on from more passes there, never back to fewer', function()
    local pending = "UPDATE trial SET state = 'pending', passes = %d"
    twice(pending:format(3), pending:format(1))
    assert.equal(3, merged().passes)
    os.execute(('rm %s/*.db*'):format(folder))
    twice(pending:format(1), pending:format(3))
    assert.equal(3, merged().passes)
  end)

  it('takes what ran elsewhere as lost, and its point as waiting', function()
    measure('b.db', 'land', { 1 })
    local st = store.open(folder .. '/b.db', 'write')
    st.db:exec [[UPDATE trial SET state = 'running', best_attempt = NULL;
      UPDATE attempt SET outcome = 'running', ended = NULL; UPDATE worker SET ended = NULL]]
    st:close()
    local row = merged()
    assert.same({ 'pending', 'lost' }, { row.state, row.outcome })
  end)

  it('says of points that were measured for another sweep that they were', function()
    measure('b.db', 'land', { 1, 2 })
    measure('b.db', 'land', { 1, 2, 3 }, { new = true })
    local st = store.open(folder .. '/a.db', 'write')
    merge.take(st, folder .. '/b.db')
    assert.same({ { reused = 0, n = 3 }, { reused = 1, n = 2 } },
      st.db:query 'SELECT reused, count(*) AS n FROM trial GROUP BY reused')
    st:close()
  end)

  it('is undone whole where rows would be lost', function()
    measure('a.db', 'land', { 1 })
    measure('b.db', 'other', { 1, 2, 3 })
    -- an attempt of no trial: no program of ours makes it, a hand with sqlite3 does
    local other = store.open(folder .. '/b.db', 'write')
    other.db:exec('PRAGMA foreign_keys = OFF')
    other.db:run 'DELETE FROM trial WHERE id = 2'
    other:close()
    local st = store.open(folder .. '/a.db', 'write')
    local ok, err = pcall(merge.take, st, folder .. '/b.db')
    assert.is_false(ok)
    assert.equal('EFORMAT', err.code)
    assert.matches('1 rows of the table attempt have no place here; nothing was merged',
      err.message)
    assert.same({ 'land = land.1 of 1' }, sweeps_of(st))
    st:close()
  end)

  it('leaves room for --new beside a sweep that is called as the next one would be', function()
    measure('a.db', 'land', { 1 })
    measure('a.db', 'land-2', { 1, 2 })
    assert.equal('land-3', measure('a.db', 'land', { 1, 5 }, { new = true }).name)
    assert.equal('land-4', measure('a.db', 'land', { 1, 5 }, { new = true }).name)
    assert.equal('land-4', measure('a.db', 'land', { 1, 5 }).name)
  end)
end)

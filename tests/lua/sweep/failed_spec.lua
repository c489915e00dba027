-- SPDX-License-Identifier: MIT
-- Whether a point of a sweep has failed: asked before each block, and of what is new only.

local cheap_lab = dofile 'tests/lua/sweep/cheap_lab.lua'
local folders = dofile 'tests/lua/store/folder.lua'
local pool = require 'ridge.sweep.pool'
local store = require 'ridge.store'
local sweep = require 'ridge.sweep'

describe('a failed point', function()
  local folder, st, run
  before_each(function()
    folder = folders.new()
    local sw = sweep 'land' { space = { k = sweep.range(1, 6) }, measure = function(p, _, m)
      m:metric('v', p.k)
    end }
    sw:run { db = folder .. '/s.db', lab = cheap_lab.new(), progress = false }
    st = store.open(folder .. '/s.db', 'write')
    run = { store = st, sweep = { id = st.db:value 'SELECT id FROM sweep' } }
  end)
  after_each(function()
    st:close()
    folders.remove(folder)
  end)

  local function set(attempt, outcome, signal)
    st.db:transaction(function()
      st.db:run('UPDATE attempt SET outcome=?, signal=? WHERE id=?', outcome, signal, attempt)
    end)
  end

  it('is seen by its outcome or by the signal that ended it', function()
    assert.is_false(pool.has_failed(run))
    for _, how in ipairs { { 'crashed' }, { 'oom' }, { 'timeout' }, { 'lost', 11 } } do
      local fresh = { store = st, sweep = run.sweep }
      set(3, unpack(how))
      assert.is_true(pool.has_failed(fresh))
      set(3, 'ok')
    end
    set(3, 'error')
    assert.is_false(pool.has_failed { store = st, sweep = run.sweep })
  end)

  it('is seen when it fails after others behind it were done', function()
    set(2, 'running')
    assert.is_false(pool.has_failed(run))
    assert.is_false(pool.has_failed(run))
    set(2, 'crashed')
    assert.is_true(pool.has_failed(run))
    set(2, 'ok')
    assert.is_true(pool.has_failed(run)) -- from now on, whatever becomes of it
  end)

  it('of another sweep is none of this one', function()
    set(2, 'crashed')
    assert.is_false(pool.has_failed { store = st, sweep = { id = run.sweep.id + 1 } })
  end)

  it('is looked for among what is new', function()
    pool.has_failed(run)
    assert.equal(st.db:value 'SELECT max(id) + 1 FROM attempt', run.settled)
    set(4, 'running')
    pool.has_failed(run)
    assert.equal(4, run.settled)
  end)
end)

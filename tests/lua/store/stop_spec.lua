-- SPDX-License-Identifier: MIT
-- Ctrl-C while a database is merged, copied or checked: what was there stays as it was, nothing
-- half is left, and the same again is done to its end.

local C = require 'ridge.ffi.lib'
local folders = dofile 'tests/lua/store/folder.lua'
local merge = require 'ridge.store.merge'
local place = require 'ridge.store.place'
local store = require 'ridge.store'

describe('Ctrl-C', function()
  local folder, from
  local N = 100000

  setup(function()
    folder = folders.new()
    from = folder .. '/from.db'
    local st = store.open(from, 'write')
    st.db:exec(([[INSERT INTO config(sha, params) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL
      SELECT i + 1 FROM n WHERE i < %d) SELECT randomblob(32), '{}' FROM n]]):format(N))
    st:close()
  end)
  teardown(function() folders.remove(folder) end)

  --- Call while the request to stop stands: it ends as one that was stopped.
  local function pressed(f, ...)
    C.rg_interrupt_set()
    local ok, err = pcall(f, ...)
    C.rg_interrupt_clear()
    assert.is_false(ok)
    assert.equal('EINTR', err.code)
  end

  local function count(st) return st.db:value 'SELECT count(*) FROM main.config' end

  it('ends a merge, of which nothing stays; the next one takes all', function()
    local st = store.open(folder .. '/into.db', 'write')
    pressed(merge.take, st, from)
    assert.equal(0, count(st))
    merge.take(st, from)
    assert.equal(N, count(st))
    st:close()
  end)

  it('ends a copy, of which nothing stays', function()
    local st, copy = store.open(from, 'read'), folder .. '/copy.db'
    local own = assert(io.open(copy .. '.part', 'w')) -- a user's file of such a name stays
    own:write 'mine'
    own:close()
    pressed(st.db.copy, st.db, copy)
    assert.is_false(place.exists(copy))
    st.db:copy(copy)
    assert.equal('copy.db.part', folders.list(folder):match '%S+%.part')
    assert.is_nil(folders.list(folder):find 'ridge%-')
    for line in io.lines(copy .. '.part') do assert.equal('mine', line) end
    st:close()
    local other = store.open(copy, 'read')
    assert.equal(N, count(other))
    other:close()
  end)

  it('ends the check of a database, which is answered afterwards', function()
    local main = require('ridge.cli.db').main
    pressed(main, { 'check', from })
    local print, text = io.stdout, {}
    -- luacheck: push ignore
    io.stdout = { write = function(_, ...) text[#text + 1] = table.concat { ... } end }
    local status = main { 'check', from }
    io.stdout = print
    -- luacheck: pop
    assert.equal(0, status)
    assert.equal(from .. ': ok\n', table.concat(text))
  end)

  it('ends the wait for a lock, and shortens those of what is saved behind it', function()
    assert.equal(1, C.rg_sql_wait(nil, 0))
    C.rg_interrupt_set()
    assert.equal(0, C.rg_sql_wait(nil, 1))
    C.rg_interrupt_clear()
    -- looks are 50 ms apart: 20 of them, where the wait of others has 600
    local tries = 0
    while C.rg_sql_wait(nil, tries) == 1 do tries = tries + 1 end
    assert.is_true(tries > 3 and tries < 100, tries)
  end)
end)

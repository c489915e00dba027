-- SPDX-License-Identifier: MIT
-- The SQLite binding: values, errors, transactions, and that nothing is left open.

local folders = dofile 'tests/lua/store/folder.lua'
local sqlite = require 'ridge.store.sqlite'

local function open_files()
  local pipe = io.popen 'ls -l /proc/$PPID/fd 2>/dev/null'
  local n = select(2, pipe:read '*a':gsub('ridge_test_', ''))
  pipe:close()
  return n
end

describe('sqlite', function()
  local folder, path, db

  before_each(function()
    folder = folders.new()
    path = folder .. '/t.db'
    db = sqlite.open(path, 'write')
    db:exec 'CREATE TABLE t(i INTEGER, r REAL, s TEXT, b BLOB) STRICT'
  end)

  after_each(function()
    db:close()
    folders.remove(folder)
  end)

  it('gives back what it took', function()
    db:insert('t', { i = 2 ^ 53 - 1, r = 0.1, s = 'a\0b\'"ü', b = sqlite.blob '\0\1\255' })
    assert.same({ { i = 2 ^ 53 - 1, r = 0.1, s = 'a\0b\'"ü', b = '\0\1\255' } },
      db:query 'SELECT * FROM t')
    db:insert('t', { s = '', b = sqlite.blob '' })
    assert.same({ s = '', b = '' }, db:row 'SELECT * FROM t WHERE i IS NULL')
    assert.is_nil(db:row 'SELECT * FROM t WHERE i = 5')
    assert.is_nil(db:value('SELECT i FROM t WHERE s = ?', ''))
  end)

  it('stores integers as INTEGER and others as REAL', function()
    assert.equal('integer', db:value('SELECT typeof(?)', 3))
    assert.equal('real', db:value('SELECT typeof(?)', 3.5))
    assert.equal('real', db:value('SELECT typeof(?)', 2 ^ 60))
    assert.equal('integer', db:value('SELECT typeof(?)', true))
    assert.equal('null', db:value('SELECT typeof(?)', nil))
    assert.has_error(function() db:value('SELECT ?', {}) end)
  end)

  it('binds text, so that quotes in it are no SQL', function()
    db:run('INSERT INTO t(s) VALUES(?)', "x'); DROP TABLE t; --")
    assert.equal(1, db:value 'SELECT count(*) FROM t')
  end)

  it('names file, statement and code in errors', function()
    local _, err = pcall(db.run, db, '/* put it in */ INSERT INTO t(i) VALUES(?)', 'text')
    assert.equal('EARG', err.code)
    assert.matches('put it in', err.message, 1, true)
    assert.matches('SQLITE_CONSTRAINT', err.message, 1, true)
    assert.matches(path, err.message, 1, true)
    _, err = pcall(db.query, db, 'SELECT nope FROM t')
    assert.matches('no such column: nope', err.message, 1, true)
    assert.has_error(function() db:run('INSERT INTO t(i) VALUES(?)') end)
    assert.has_error(function() db:run 'SELECT 1; SELECT 2' end)
    -- a failed statement can be used again
    db:run('/* put it in */ INSERT INTO t(i) VALUES(?)', 7)
    assert.equal(7, db:value 'SELECT i FROM t')
  end)

  it('rolls a failed transaction back and passes its error on', function()
    local mine = {}
    local ok, err = pcall(db.transaction, db, function()
      db:insert('t', { i = 1 })
      error(mine, 0)
    end)
    assert.is_false(ok)
    assert.equal(mine, err)
    assert.equal(0, db:value 'SELECT count(*) FROM t')
    assert.same({ 1, nil, 3 }, { db:transaction(function() return 1, nil, 3 end) })
    assert.has_error(function()
      db:transaction(function() db:transaction(function() end) end)
    end)
  end)

  it('refuses a second writer of this process instead of waiting for ever', function()
    local other = sqlite.open(path, 'write')
    db:transaction(function()
      assert.has_error(function() other:transaction(function() end) end)
    end)
    other:transaction(function() other:insert('t', { i = 5 }) end)
    other:close()
    assert.equal(5, db:value 'SELECT i FROM t')
  end)

  it('makes another process wait for the lock', function()
    local pipe
    db:transaction(function()
      pipe = io.popen(("flock -n %s.lock echo free || echo busy"):format(path))
      assert.equal('busy', pipe:read '*l')
      pipe:close()
    end)
    pipe = io.popen(("flock -n %s.lock echo free || echo busy"):format(path))
    assert.equal('free', pipe:read '*l')
    pipe:close()
  end)

  it('writes the log into the file after 64 commits, not when others close', function()
    db:exec 'PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0'
    local function size(name)
      local file = assert(io.open(name, 'rb'))
      local n = file:seek 'end'
      file:close()
      return n
    end
    local before = size(path)
    local reader = sqlite.open(path, 'read')
    local fill = ('x'):rep(4000)
    for _ = 1, 63 do db:transaction(function() db:insert('t', { s = fill }) end) end
    assert.equal(63, reader:value 'SELECT count(*) FROM t')
    reader:close()
    assert.equal(before, size(path))
    db:transaction(function() db:insert('t', { s = fill }) end)
    assert.is_true(size(path) > before + 64 * 4000)
  end)

  it('leaves no log behind a good end', function()
    db:exec 'PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0'
    db:transaction(function() db:insert('t', { i = 1 }) end)
    db:close()
    db:close()
    local file = assert(io.open(path .. '-wal', 'rb'))
    assert.equal(0, file:seek 'end')
    file:close()
    assert.has_error(function() db:query 'SELECT 1' end)
  end)

  it('keeps no more than a bounded number of statements', function()
    for i = 1, 450 do assert.equal(i, db:value('SELECT ' .. i)) end
    local n = 0
    for _ in pairs(db.statements) do n = n + 1 end
    assert.is_true(n <= 200)
  end)

  it('closes what was dropped without closing', function()
    collectgarbage()
    collectgarbage()
    local before = open_files()
    for _ = 1, 20 do
      local dropped = sqlite.open(path, 'write')
      dropped:value 'SELECT 1'
    end
    for _ = 1, 3 do collectgarbage() end
    assert.equal(before, open_files())
  end)
end)

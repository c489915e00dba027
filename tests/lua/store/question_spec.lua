-- SPDX-License-Identifier: MIT
-- A question that Ctrl-C, an error or want of memory ends: the connection it was asked in is as it
-- was before, or closed as one that the user closed.

local C = require 'ridge.ffi.lib'
local folders = dofile 'tests/lua/store/folder.lua'
local sqlite = require 'ridge.store.sqlite'

-- One step of SQLite's machine, in a function that looks at nothing for hours.
local HOURS = "SELECT instr(hex(zeroblob(8000000)), hex(zeroblob(3000000)) || '1')"

describe('a question that is ended', function()
  local folder, path, db
  local n = 0

  setup(function() folder = folders.new() end)
  teardown(function() folders.remove(folder) end)
  before_each(function()
    n = n + 1
    path = ('%s/q%d.db'):format(folder, n)
    db = sqlite.open(path, 'write')
    db:exec 'CREATE TABLE t(x); INSERT INTO t VALUES(1), (2), (3)'
  end)
  after_each(function() db:close() end)

  local function pressed(f, ...)
    C.rg_interrupt_set()
    local ok, err = pcall(f, ...)
    C.rg_interrupt_clear()
    assert.is_false(ok)
    assert.equal('EINTR', err.code)
    return err
  end

  it('between two rows says that it was interrupted', function()
    local err = pressed(db.ask, db, 'SELECT x FROM t')
    assert.matches('interrupted', err.message)
    assert.not_matches('row available', err.message)
    assert.equal(3, #db:ask 'SELECT x FROM t')
  end)

  it('leaves nothing prepared behind, whatever ended it', function()
    collectgarbage()
    collectgarbage()
    collectgarbage 'stop'
    local lib = require('ridge.ffi.library').open('libsqlite3.so.0', 'sqlite3')
    local ways = {
      ['between rows'] = function() pressed(db.ask, db, 'SELECT x FROM t') end,
      ['in an expression'] = function()
        assert.has_error(function() db:ask 'SELECT abs(-9223372036854775807 - x) FROM t' end)
      end,
      ['two at once'] = function()
        assert.has_error(function() db:ask 'SELECT 1; SELECT 2' end)
      end,
      ['a value that is missing'] = function()
        assert.has_error(function() db:ask 'SELECT ?' end)
      end,
      ['a script'] = function()
        assert.has_error(function() db:exec 'SELECT abs(-9223372036854775807 - x) FROM t' end)
      end,
    }
    local left = {}
    for name, way in pairs(ways) do
      for sql, kept in pairs(db.statements) do
        lib.sqlite3_finalize(require('ffi').gc(kept.handle, nil))
        db.statements[sql] = nil
      end
      db.n_statements = 0
      local ok, err = pcall(way)
      if not ok then left[#left + 1] = name .. ': ' .. tostring(err) end
      if lib.sqlite3_next_stmt(db.handle, nil) ~= nil then left[#left + 1] = name end
    end
    collectgarbage 'restart'
    assert.same({}, left)
  end)

  it('inside a transaction is an error like others; the lock is given back', function()
    for _, name in ipairs { 'transaction', 'snapshot', 'stops' } do
      local own = sqlite.open(('%s/%s.db'):format(folder, name), 'write')
      own:exec 'CREATE TABLE t(x)'
      pressed(own[name], own, function()
        if name == 'transaction' then own:run 'INSERT INTO t VALUES(4)' end
        own:ask(HOURS)
      end)
      assert.is_nil(own.handle)
      assert.error_matches(function() own:snapshot(function() end) end, 'was closed')
      own:close()
      assert.is_nil(own.lock.anchor)
      own = sqlite.open(('%s/%s.db'):format(folder, name), 'read')
      assert.equal(0, own:value 'SELECT count(*) FROM t')
      own:close()
    end
  end)

  it('and reads for hours does not hold up whoever closes the database', function()
    local store = require 'ridge.store'
    local st = store.open(folder .. '/ridge.db', 'write')
    st.db:insert('meta', { key = 'a', value = 'b' })
    st:close()
    local reader = store.open(folder .. '/ridge.db', 'read')
    pressed(reader.db.ask, reader.db, HOURS .. ' FROM meta')
    reader:close()
    st = store.open(folder .. '/ridge.db', 'write')
    st.db:insert('meta', { key = 'c', value = 'd' })
    local begin = C.rg_clock_ns()
    st:close()
    assert.is_true(C.rg_clock_ns() - begin < 20e9) -- writers wait for one another 30 s
    reader = store.open(folder .. '/ridge.db', 'read')
    assert.equal('d', reader.db:value "SELECT value FROM meta WHERE key = 'c'")
    reader:close()
  end)

  it('between two functions that take long goes on with no more of them', function()
    local function threads()
      local pipe = io.popen 'ls /proc/$PPID/task | wc -l'
      local number = pipe:read '*n'
      pipe:close()
      return number
    end
    local before = threads()
    pressed(db.ask, db, 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE '
      .. 'i < 10000) SELECT instr(hex(zeroblob(2000000)), hex(zeroblob(2000)) || i) FROM n')
    assert.is_nil(db.handle)
    local tries = 0
    while threads() > before and tries < 1000 do
      os.execute 'sleep 0.05'
      tries = tries + 1
    end
    assert.equal(before, threads())
  end)

  it('for want of memory is an error, and the connection is closed', function()
    for at = 1, 4 do
      C.rg_alloc_fail_at(at)
      local ok, err = pcall(db.ask, db, 'SELECT x FROM t')
      C.rg_alloc_fail_at(0)
      assert.is_false(ok)
      assert.equal('ENOMEM', err.code)
      db:close()
      local pipe = io.popen 'ls -l /proc/$PPID/fd'
      local text = pipe:read '*a'
      pipe:close()
      assert.is_nil(text:find(path .. '\n', 1, true))
      db = sqlite.open(path, 'write')
    end
    assert.equal(3, #db:ask 'SELECT x FROM t')
  end)

  it('wakes no compute threads', function()
    local text, status = folders.run(([[RIDGE_DB=%s/r.db ./ridge -e '
      require("ridge.store").open("%s/r.db", "write"):close()
      ridge.backend.set_threads(2)
      ridge.sql "SELECT 1"
      for i = 1, 100 do -- its thread may still be going
        local pipe = io.popen "ls /proc/$PPID/task | wc -l"
        local n = pipe:read "*n"
        pipe:close()
        if n == 1 then print "alone" return end
        os.execute "sleep 0.05"
      end
      print "others"']]):format(folder, folder))
    assert.equal(0, status, text)
    assert.equal('alone\n', text)
  end)
end)

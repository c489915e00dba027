-- SPDX-License-Identifier: MIT
-- Questions that somebody types: what reads is answered, whatever else SQLite knows is refused by
-- SQLite itself, in `ridge query --sql`, ridge.sql and %sql.

local folders = dofile 'tests/lua/store/folder.lua'
local ask = require 'ridge.store.ask'
local sqlite = require 'ridge.store.sqlite'

describe('a question in SQL', function()
  local folder, db, other

  setup(function()
    folder = folders.new()
    db, other = folder .. '/s.db', folder .. '/other.db'
    local file = io.open(folder .. '/tiny.lua', 'w')
    file:write [[require('ridge').sweep 'tiny' { space = { a = { 1, 2, 3 } }, protocol = 'quick',
      setup = function() return require('ridge').ones(4) end,
      measure = function(p, x, m)
        m:metric('square', p.a * p.a)
        m:time('fwd', function() return x + 1 end)
      end }:run { calibrate = false, progress = 'off' }]]
    file:close()
    local text, status = folders.run(('RIDGE_DB=%s ./ridge %s/tiny.lua'):format(db, folder))
    assert.equal(0, status, text)
    local made = sqlite.open(other, 'write')
    made:exec 'CREATE TABLE t(x); INSERT INTO t VALUES(1)'
    made:close()
  end)
  teardown(function() folders.remove(folder) end)

  local function sum()
    local pipe = io.popen(('cd %s && sha256sum s.db other.db && ls -A'):format(folder))
    local text = pipe:read '*a'
    pipe:close()
    return text
  end

  it('is answered when it reads, in all the ways there are to read', function()
    for sql, want in pairs {
      ['SELECT a, square FROM tiny WHERE a = 2'] = { { a = 2, square = 4 } },
      ['WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) '
        .. 'SELECT sum(i) AS s FROM n'] = { { s = 6 } },
      ['SELECT a, row_number() OVER (ORDER BY a DESC) AS r FROM tiny ORDER BY a LIMIT 1']
        = { { a = 1, r = 3 } },
      ["SELECT json_extract('{\"x\":7}', '$.x') AS x"] = { { x = 7 } },
      ["SELECT value FROM json_each('[5]')"] = { { value = 5 } },
      ['SELECT count(*) AS n FROM main.trial'] = { { n = 3 } },
      ['SELECT upper(\'a\') || printf(\'%d\', 3) AS t'] = { { t = 'A3' } },
      ['VALUES(1)'] = { { column1 = 1 } },
    } do
      assert.same(want, ask.sql(sql, { db = db }), sql)
    end
    for _, sql in ipairs { 'PRAGMA table_info(trial)', 'PRAGMA integrity_check',
        'PRAGMA user_version', "SELECT name FROM pragma_table_info('trial')",
        'EXPLAIN QUERY PLAN SELECT * FROM tiny', 'SELECT * FROM tiny', 'SELECT * FROM result',
        'SELECT name FROM sqlite_schema' } do
      assert.is_true(#ask.sql(sql, { db = db }) > 0, sql)
    end
  end)

  it('is refused when it does anything else, and nothing is changed or made', function()
    local before = sum()
    local function refused(sql)
      local ok, err = pcall(ask.sql, sql:gsub('OTHER', other):gsub('FOLDER', folder), { db = db })
      assert.is_false(ok, sql)
      assert.matches('read%-only', err.message, sql)
      assert.equal('EARG', err.code)
    end
    for _, sql in ipairs { "VACUUM INTO 'FOLDER/copy.db'", "EXPLAIN ATTACH 'OTHER' AS o",
        "ATTACH 'OTHER' AS o", "ATTACH 'FOLDER/made.db' AS o", "ATTACH ':memory:' AS o",
        "ATTACH DATABASE 'file:OTHER?mode=rwc' AS o", 'DETACH main', 'DELETE FROM trial',
        "UPDATE trial SET state = 'x'", "INSERT INTO meta VALUES('a', 'b')", 'DROP TABLE trial',
        'CREATE TABLE x(y)', 'CREATE TEMP TABLE x(y)', 'CREATE TEMP VIEW x AS SELECT 1',
        'CREATE TEMP TABLE x AS SELECT * FROM trial', 'DROP VIEW temp.tiny', 'ALTER TABLE trial '
          .. 'ADD COLUMN z', 'REINDEX', 'ANALYZE', 'BEGIN', 'BEGIN IMMEDIATE', 'SAVEPOINT s',
        'CREATE VIRTUAL TABLE temp.f USING fts5(x)', 'PRAGMA user_version = 9',
        'PRAGMA journal_mode = DELETE', 'PRAGMA writable_schema = 1', 'PRAGMA wal_checkpoint',
        'PRAGMA optimize', 'PRAGMA query_only = 0', "PRAGMA temp_store_directory = 'FOLDER'",
        'PRAGMA foreign_keys = 0', 'PRAGMA application_id = 3', 'PRAGMA mmap_size = 0',
        "SELECT load_extension('x')", "WITH w AS (SELECT 1) DELETE FROM trial",
        "SELECT fts3_tokenizer('simple')" } do
      refused(sql)
    end
    for _, sql in ipairs { "UPDATE sqlite_master SET sql = ''", 'DELETE FROM sqlite_master' } do
      assert.is_false((pcall(ask.sql, sql, { db = db })))
    end
    assert.has_error(function() ask.sql('SELECT 1; DROP TABLE trial', { db = db }) end)
    assert.equal(before, sum())
    -- what was refused left nothing behind in the connection: the store's own words still work
    local st = require('ridge.store').open(db, 'write')
    pcall(st.db.ask, st.db, 'DELETE FROM trial')
    assert.equal(3, st.db:value 'SELECT count(*) FROM trial')
    assert.equal(0, st.db:run 'UPDATE trial SET state = state WHERE 0')
    st:close()
  end)

  it('is refused in every place where it can be typed', function()
    local before = sum()
    local copy = folder .. '/copy.db'
    for _, words in ipairs { ("query --sql \"VACUUM INTO '%s'\""):format(copy),
        ("-e 'ridge.sql([[VACUUM INTO \"%s\"]])'"):format(copy),
        ("< %s/typed"):format(folder) } do
      local file = io.open(folder .. '/typed', 'w')
      file:write(("%%sql VACUUM INTO '%s'\n"):format(copy))
      file:close()
      local text, status = folders.run(('RIDGE_DB=%s ./ridge %s'):format(db, words))
      os.remove(folder .. '/typed')
      assert.equal(1, status, words)
      assert.matches('read%-only', text)
    end
    assert.equal(before, sum())
  end)

  it('makes no text that would take longer than anybody waits', function()
    local function first(sql) return ask.sql(sql, { db = db })[1] end
    for _, sql in ipairs { "SELECT length(printf('%.17000000d', 1)) AS n",
      "SELECT length(printf('%*s', 17000000, 'x')) AS n" } do
      assert.is_nil(first(sql).n) -- SQLite's answer to want of room
    end
    for sql, what in pairs { ['SELECT length(zeroblob(17000000)) AS n'] = '16 MB in a question',
      ["SELECT length(replace(hex(zeroblob(4000000)), '0', 'xyz')) AS n"] = '16 MB in a question',
      ["SELECT 'x' LIKE hex(zeroblob(3000)) AS n"] = 'too complex' } do
      local ok, err = pcall(first, sql)
      assert.is_false(ok)
      assert.matches(what, err.message)
    end
    assert.equal(16000000, tonumber(first("SELECT length(printf('%16000000d', 1)) AS n").n))
    assert.equal(1, tonumber(first("SELECT 'abc' LIKE 'a%' AS n").n))
    -- what ridge itself writes is not bounded
    local st = require('ridge.store.sqlite').open(db, 'write')
    st:ask 'SELECT 1'
    assert.equal(17000000, st:value '/* long */ SELECT length(zeroblob(17000000))')
    st:close()
  end)

  it('comes in pieces, all of whose rows are there', function()
    local rows = ask.sql('WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n '
      .. "WHERE i < 140001) SELECT i, i || 'x' AS t, CASE i % 2 WHEN 0 THEN i / 2.0 END AS h "
      .. 'FROM n',
      { db = db })
    assert.equal(140001, #rows)
    for i, row in ipairs(rows) do
      if row.i ~= i or row.t ~= i .. 'x' or row.h ~= (i % 2 == 0 and i / 2 or nil) then
        error(('row %d is %s %s %s'):format(i, row.i, row.t, tostring(row.h)))
      end
    end
  end)

  it('names a missing text', function()
    assert.error_matches(function() ask.sql() end, 'sql: a SELECT is expected, got nil')
  end)

  it('gives all digits of a whole number, in every form', function()
    local sql = 'SELECT 9007199254740993 AS n, -9223372036854775808 AS least, '
      .. '9007199254740992 AS exact, -9007199254740993 AS minus'
    local row = ask.sql(sql, { db = db })[1]
    assert.is_true(row.n == 9007199254740993LL and row.minus == -9007199254740993LL)
    assert.is_true(row.least == -9223372036854775807LL - 1)
    assert.equal(2 ^ 53, row.exact)
    assert.equal('number', type(row.exact))
    for _, form in ipairs { 'table', 'csv', 'json', 'jsonl', 'md' } do
      local text, status = folders.run(('RIDGE_DB=%s ./ridge query --sql "%s" --as %s'):format(db,
        sql, form))
      assert.equal(0, status, text)
      for _, digits in ipairs { '9007199254740993', '-9223372036854775808', '-9007199254740993' } do
        assert.truthy(text:find('[^%d-]' .. digits:gsub('%-', '%%-') .. '[^%dL]'), form .. text)
      end
    end
    local file = io.open(folder .. '/typed', 'w')
    file:write(('%%sql --db %s %s\n_[1].n - 1\n'):format(db, sql))
    file:close()
    local text = folders.run(('./ridge < %s/typed'):format(folder))
    os.remove(folder .. '/typed')
    assert.matches('9007199254740993 ', text)
    assert.matches('9007199254740992LL', text)
  end)

  it('that does not end is ended by a request to stop', function()
    local C = require 'ridge.ffi.lib'
    C.rg_interrupt_set()
    local ok, err = pcall(ask.sql, 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 '
      .. 'FROM n) SELECT count(*) FROM n', { db = db })
    C.rg_interrupt_clear()
    assert.is_false(ok)
    assert.equal('EINTR', err.code)
    assert.same({ { n = 3 } }, ask.sql('SELECT count(*) AS n FROM tiny', { db = db }))
  end)

  it('of many rows that somebody waits for is ended too, and nothing else is', function()
    local C = require 'ridge.ffi.lib'
    local own = require('ridge.store.sqlite').open(':memory:')
    local text = 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) '
      .. 'SELECT count(*) AS n FROM n'
    C.rg_interrupt_set()
    local ok, err = pcall(own.look, own, text, 10 ^ 6)
    local whole, rows = pcall(own.query, own, text, 10 ^ 6) -- as saving does
    C.rg_interrupt_clear()
    assert.is_false(ok)
    assert.equal('EINTR', err.code)
    assert.is_true(whole)
    assert.same({ { n = 10 ^ 6 } }, rows)
    assert.same({ { n = 10 ^ 6 } }, own:look(text, 10 ^ 6))
    own:close()
  end)

  it('of many timings that somebody waits to see is ended, and not where a run needs them',
    function()
      local C = require 'ridge.ffi.lib'
      local compare = require 'ridge.sweep.compare'
      local results = require 'ridge.store.results'
      local store = require 'ridge.store'
      local many = folder .. '/many.db'
      os.execute(("cp '%s' '%s'"):format(db, many))
      local made, names = sqlite.open(many, 'write'), {}
      for _, row in ipairs(made:query 'PRAGMA table_info(timing)') do
        if row.name ~= 'id' and row.name ~= 'clock' then names[#names + 1] = row.name end
      end
      local list = table.concat(names, ', ')
      made:exec(([[WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
        INSERT INTO timing(clock, %s) SELECT 'c' || i, %s FROM n, (SELECT * FROM timing WHERE
        attempt_id = (SELECT best_attempt FROM trial WHERE best_attempt IS NOT NULL LIMIT 1)
        AND cache = 'warm' LIMIT 1)]]):format(list, list))
      made:close()
      local st = store.open(many, 'read')
      local trial = st.db:query [[SELECT t.id, t.sweep_id FROM trial t JOIN timing g
        ON g.attempt_id = t.best_attempt WHERE g.clock = 'c1']][1]
      local show = require 'ridge.cli.show'
      for name, read in pairs {
        rows = function() return results.rows(st, trial.sweep_id) end,
        directions = function() return results.directions(st, trial.sweep_id) end,
        compare = function()
          return compare.databases(many, many, { sweep = 'tiny', match = { 'a' } })
        end,
        show = function() return show.main { tostring(trial.id), '--db', many } end,
      } do
        C.rg_interrupt_set()
        local ok, err = pcall(read)
        C.rg_interrupt_clear()
        assert.is_false(ok, name)
        assert.equal('EINTR', type(err) == 'table' and err.code or err, name)
      end
      C.rg_interrupt_set()
      local ok, rows = pcall(results.rows_of_run, st, trial.sweep_id)
      C.rg_interrupt_clear()
      st:close()
      assert.is_true(ok)
      assert.equal(3, #rows)
    end)
end)

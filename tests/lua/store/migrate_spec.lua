-- SPDX-License-Identifier: MIT
-- Files of older schemas: what was in them is still there, and a step that fails changes nothing.

local folders = dofile 'tests/lua/store/folder.lua'
local schema = require 'ridge.store.schema'
local sqlite = require 'ridge.store.sqlite'
local store = require 'ridge.store'

describe('a file of schema 1', function()
  local folder, path

  before_each(function()
    folder = folders.new()
    path = folder .. '/old.db'
    local db = sqlite.open(path, 'write')
    local file = assert(io.open 'tests/lua/store/schema_v1.sql')
    db:exec(file:read '*a', 'schema 1')
    file:close()
    db:exec [[
      INSERT INTO recipe VALUES(1, x'01', 'r', 'code');
      INSERT INTO protocol VALUES(1, x'02', '{}');
      INSERT INTO config VALUES(1, x'fe0102030405060708090a0b0c0d0e0f', '{"k":3}');
      INSERT INTO param VALUES(1, 'k', 3, NULL);
      INSERT INTO sweep(id, uuid, name, base, recipe_id, protocol_id, args, space, strategy, seed,
        created) VALUES(1, x'03', 's', 's', 1, 1, '{}', '{}', 'grid', 0, 0);
      INSERT INTO trial(id, uuid, sweep_id, config_id, ord) VALUES(1, x'04', 1, 1, 1)]]
    db:close()
  end)
  after_each(function() folders.remove(folder) end)

  it('is brought up when it is opened for writing, and kept as it was', function()
    local ok, err = pcall(store.open, path)
    assert.is_false(ok)
    assert.matches('older ridge (schema 1', err.message, 1, true)
    store.open(path, 'write'):close()
    local st = store.open(path)
    assert.equal(schema.VERSION, st.db:value 'PRAGMA user_version')
    assert.equal(0xfe010203, st.db:value 'SELECT shard FROM trial')
    assert.same({ { k = 3, state = 'pending', reused = 0 } },
      st.db:query 'SELECT k, state, reused FROM "s"')
    assert.equal('ok', st.db:value 'PRAGMA integrity_check')
    st:close()
    local copy = sqlite.open(path .. '.v1.bak', 'read')
    assert.equal(1, copy:value 'PRAGMA user_version')
    assert.equal(1, copy:value 'SELECT count(*) FROM trial')
    copy:close()
  end)

  -- What lies beside the file that is not SQLite's.
  local function kept()
    return (folders.list(folder):match 'old%.db%.v.*$')
  end

  it('is kept whole, and without litter, after a migration that was killed while it copied',
    function()
      for _, name in ipairs { '.v1.bak.ridge.part', '.v1.bak.ridge.part-journal' } do
        local file = assert(io.open(path .. name, 'wb'))
        file:write(('x'):rep(5000))
        file:close()
      end
      store.open(path, 'write'):close()
      assert.equal('old.db.v1.bak', kept())
      local copy = sqlite.open(path .. '.v1.bak', 'read')
      assert.equal('ok', copy:value 'PRAGMA integrity_check')
      copy:close()
    end)

  it('is kept beside the copy of another file of its name; one of itself is enough', function()
    os.execute(('cp %s %s/first.db'):format(path, folder))
    store.open(path, 'write'):close()
    os.execute(('cp %s/first.db %s'):format(folder, path)) -- killed before the first step
    store.open(path, 'write'):close()
    assert.equal('old.db.v1.bak', kept())
    os.execute(('cp %s/first.db %s'):format(folder, path))
    local db = sqlite.open(path, 'write')
    db:exec "UPDATE sweep SET uuid = x'33', name = 'another'"
    db:close()
    store.open(path, 'write'):close()
    for name, wanted in pairs { ['.v1.bak'] = 's', ['.v1-2.bak'] = 'another' } do
      local copy = sqlite.open(path .. name, 'read')
      assert.equal(wanted, copy:value 'SELECT name FROM sweep')
      assert.equal(1, copy:value 'PRAGMA user_version')
      copy:close()
    end
  end)

  it('keeps every sample and what it said, as of protocol 1', function()
    local db = sqlite.open(path, 'write')
    db:exec [[
      INSERT INTO machine(id, fp, cpu) VALUES(1, x'05', 'c');
      INSERT INTO worker(id, uuid, machine_id, boot_id, pid, lock, started)
        VALUES(1, x'06', 1, 'b', 1, 'l', 0);
      INSERT INTO attempt(id, uuid, trial_id, n, worker_id, began, outcome)
        VALUES(1, x'07', 1, 1, 1, 0, 'ok');
      INSERT INTO timing(id, attempt_id, phase, clock, cache, n, inner, med, ci_lo, ci_hi)
        VALUES(1, 1, 'fwd', 'raw', 'warm', 2, 1, 2.5, 2, 3);
      INSERT INTO samples(timing_id, enc, n, t0, dur)
        VALUES(1, 'dur:f32ns', 2, 7, x'0000204100003041');
      UPDATE trial SET state = 'ok', best_attempt = 1]]
    local function samples(from)
      return from:query [[SELECT s.timing_id, s.enc, s.n, s.t0, hex(s.dur) AS dur, g.med, g.ci_lo,
        g.ci_hi FROM samples s JOIN timing g ON g.id = s.timing_id]]
    end
    local was = samples(db)
    db:close()
    store.open(path, 'write'):close()
    local st = store.open(path)
    assert.same(was, samples(st.db))
    assert.equal(1, st.db:value 'SELECT version FROM protocol')
    assert.equal(0, st.db:value 'SELECT count(*) FROM attempt WHERE pass IS NOT NULL')
    assert.same({ { fwd = 2.5, fwd_lo = 2, state = 'ok', passes = 0 } },
      st.db:query 'SELECT fwd, fwd_lo, state, passes FROM "s"')
    assert.same({ 10, 11 }, require('ridge.store.results').samples(st, 1, 'fwd').dur)
    st:close()
  end)

  it('has the tables that a new file has', function()
    store.open(path, 'write'):close()
    store.open(folder .. '/new.db', 'write'):close()
    local function columns(file)
      local db = sqlite.open(file, 'read')
      local rows = db:query [[SELECT m.name || '.' || c.name || ' ' || c.type || ' ' || c."notnull"
        || ' ' || coalesce(c.dflt_value, '') AS c FROM sqlite_schema m, pragma_table_info(m.name) c
        WHERE m.type = 'table' ORDER BY 1]]
      db:close()
      return rows
    end
    assert.same(columns(folder .. '/new.db'), columns(path))
  end)

  it('stays as it is when a step fails half-way', function()
    local good = schema.STEPS[2]
    schema.STEPS[2] = good .. 'INSERT INTO no_such_table VALUES(1);'
    local ok = pcall(store.open, path, 'write')
    schema.STEPS[2] = good
    assert.is_false(ok)
    local db = sqlite.open(path, 'read')
    assert.equal(1, db:value 'PRAGMA user_version')
    assert.equal(0, db:value "SELECT count(*) FROM pragma_table_info('trial') WHERE name='shard'")
    db:close()
    store.open(path, 'write'):close()
    db = sqlite.open(path, 'read')
    assert.equal(schema.VERSION, db:value 'PRAGMA user_version')
    db:close()
  end)
end)

describe('a file of schema 5', function()
  local folder, path

  -- With what version 5 wrote, and a sweep that is called as a table of today.
  before_each(function()
    folder = folders.new()
    path = folder .. '/old.db'
    local db = sqlite.open(path, 'write')
    local file = assert(io.open 'tests/lua/store/schema_v5.sql')
    db:exec(file:read '*a', 'schema 5')
    file:close()
    db:exec [[
      INSERT INTO machine(id, fp, cpu) VALUES(1, x'05', 'c');
      INSERT INTO recipe VALUES(1, x'01', 'r', 'code');
      INSERT INTO protocol VALUES(1, x'02', '{}', 2);
      INSERT INTO config VALUES(1, x'fe0102030405060708090a0b0c0d0e0f', '{"k":3}');
      INSERT INTO param VALUES(1, 'k', 3, NULL);
      INSERT INTO sweep(id, uuid, name, base, recipe_id, protocol_id, args, space, strategy, seed,
        created) VALUES(1, x'03', 'choice', 'choice', 1, 1, '{}', '{}', 'grid', 0, 0);
      INSERT INTO trial(id, uuid, sweep_id, config_id, ord) VALUES(1, x'04', 1, 1, 1)]]
    db:close()
  end)
  after_each(function() folders.remove(folder) end)

  -- All rows of all tables, one text each.
  local function rows_of(file, tables)
    local db, out = sqlite.open(file, 'read'), {}
    for _, name in ipairs(tables) do
      for _, row in ipairs(db:query(('SELECT * FROM main.%s'):format(name))) do
        local words = {}
        for key, value in pairs(row) do words[#words + 1] = key .. '=' .. tostring(value) end
        table.sort(words)
        out[#out + 1] = name .. ' ' .. table.concat(words, ' ')
      end
    end
    db:close()
    return out
  end

  local function tables_of(file)
    local db, out = sqlite.open(file, 'read'), {}
    for i, row in ipairs(db:query "SELECT name FROM sqlite_schema WHERE type = 'table'") do
      out[i] = row.name
    end
    db:close()
    return out
  end

  it('gets a table of choices, and everything else stays as it was', function()
    local ok, err = pcall(store.open, path)
    assert.is_false(ok)
    assert.matches('older ridge (schema 5', err.message, 1, true)
    local tables = tables_of(path)
    local was = rows_of(path, tables)
    assert.is_true(#was >= 7)
    store.open(path, 'write'):close()
    assert.same(was, rows_of(path, tables))
    assert.same(was, rows_of(path .. '.v5.bak', tables))
    local st = store.open(path)
    assert.equal(schema.VERSION, st.db:value 'PRAGMA user_version')
    assert.equal('ok', st.db:value 'PRAGMA integrity_check')
    assert.equal(0, st.db:value 'SELECT count(*) FROM main.choice')
    -- there is a table of that name now: the view of the sweep is called otherwise
    assert.same({ { k = 3, state = 'pending' } },
      st.db:query 'SELECT k, state FROM "choice-points"')
    local choices = require 'ridge.store.choices'
    assert.same({}, (choices.newest(st, 1, { own = '1' }, 'product')))
    st:close()
    st = store.open(path, 'write')
    assert.equal(1, choices.add(st, 1, { own = '1' }, { { operation = 'product', problem = 'p',
      path = 'own', standard = 'own', rounds = 15, times = {}, at = 1 } }))
    assert.equal('p', choices.newest(st, 1, { own = '1' }, 'product')[1].problem)
    st:close()
  end)

  it('has the objects that a new file has', function()
    store.open(path, 'write'):close()
    store.open(folder .. '/new.db', 'write'):close()
    local function objects(file)
      local db = sqlite.open(file, 'read')
      local rows = db:query [[SELECT type, name, tbl_name FROM sqlite_schema ORDER BY 1, 2]]
      db:close()
      return rows
    end
    assert.same(objects(folder .. '/new.db'), objects(path))
  end)
end)

-- SPDX-License-Identifier: MIT
-- A copy of a database for others: views that any SQLite finds, nothing that says who measured.
local folders = dofile 'tests/lua/store/folder.lua'
local canonical = require 'ridge.store.canonical'
local publish = require 'ridge.store.publish'
local ridge = require 'ridge'
local sqlite = require 'ridge.store.sqlite'
local store = require 'ridge.store'

local SECRET = { 'bench', 'other<host>', '/home/ann', 'hidden.lua', 'return 1', 'new BIOS',
  'none.lock', 'it printed this', 'ann@', 'typed=by-ann', 'its trace' }

describe('a published database', function()
  local folder, path

  setup(function()
    folder = folders.new()
    path = folder .. '/m.db'
    dofile('tests/lua/store/two_machines.lua').make(folder .. '/a.db', folder .. '/b.db')
    ridge.merge(path, folder .. '/a.db', folder .. '/b.db')
    local db = sqlite.open(path, 'write')
    db:exec([[
      UPDATE worker SET argv = 'ridge /home/ann/hidden.lua';
      UPDATE attempt SET printed = 'it printed this', trace = 'its trace',
        message = 'cannot open "/home/ann/x.bin": no';
      UPDATE env SET vars = '{"threads":2,"LD_PRELOAD":"/home/ann/lib.so"}';
      UPDATE sweep
        SET args = '{"again":"/home/ann/x.bin","data":"~/ann@work/x.csv","rate":"rows/s"}'
        WHERE name = 'widths';
      UPDATE sweep SET rules = '{"tries":{"oom":1},"typed":["-P","typed=by-ann"]}';
      UPDATE config SET params = '{"file":"/home/ann/x.bin","width":64}' WHERE id = 1]], 'secrets')
    db:close()
    assert(require('ridge.cli.note').main { 'widths', 'new BIOS', '--db', path } == 0)
  end)
  teardown(function() folders.remove(folder) end)

  local function made(name, anonymous)
    local to = folder .. '/' .. name
    return to, store.with(path, 'read', function(st) return publish.write(st, to, anonymous) end)
  end

  local function bytes_of(file_path)
    local file = assert(io.open(file_path, 'rb'))
    local text = file:read '*a'
    file:close()
    return text
  end

  it('has a view for each sweep that a plain connection finds', function()
    local to, found = made 'open.db'
    assert.equal(10, #found.sweeps)
    assert.same({ 'bench', 'other<host>' }, found.hosts)
    assert.same({ 'Other CPU 7', 'Test CPU 9000' }, found.processors)
    assert.equal(1, found.recipes)
    assert.equal(1, found.notes)
    assert.is_true(found.commands > 0 and found.printed > 0)
    local db = sqlite.open(to, 'read')
    local rows = db:query [[SELECT width, fwd, machine, host FROM "widths-2"
      WHERE role = 'point' AND kind = 'linear' AND width = 128]]
    assert.equal(1, #rows)
    assert.equal(2000, rows[1].fwd)
    assert.equal('other<host>', rows[1].host)
    assert.equal('delete', db:value 'PRAGMA journal_mode')
    assert.equal('ok', db:value 'PRAGMA integrity_check')
    db:close()
    -- by any name
    local other = sqlite.open(folder .. '/empty.db', 'write')
    other:run('ATTACH ? AS share', to)
    assert.equal(6, other:value "SELECT count(*) FROM share.widths WHERE role = 'point'")
    other:close()
    -- and ridge reads it as any other, and publishes it again
    assert.equal(6, #ridge.query('widths', { db = to }))
    store.with(to, 'read', function(st)
      assert.equal(10, #publish.write(st, folder .. '/again.db').sweeps)
    end)
  end)

  it('says nothing of who measured, if that is wanted', function()
    local before = bytes_of(path)
    for _, secret in ipairs(SECRET) do
      assert.truthy(before:find(secret, 1, true), secret)
    end
    local to, found = made('anonymous.db', true)
    local text = bytes_of(to)
    for _, secret in ipairs(SECRET) do assert.is_nil(text:find(secret, 1, true), secret) end
    assert.same({ {}, 0, 0, 0, 0, {} }, { found.hosts, found.recipes, found.commands,
      found.printed, found.notes, found.still })
    assert.equal(3, found.paths) -- x.bin, lib.so, x.csv
    local db = sqlite.open(to, 'read')
    assert.equal('{"again":"path-N","data":"path-N","rate":"rows/s"}',
      (db:value "SELECT args FROM sweep WHERE name = 'widths'":gsub('path%-%d', 'path-N')))
    -- one path has one name everywhere
    local of_args = db:value "SELECT json_extract(args, '$.again') FROM sweep WHERE name = 'widths'"
    assert.equal(of_args, db:value "SELECT json_extract(params, '$.file') FROM config WHERE id = 1")
    assert.equal(0, db:value [[SELECT count(*) FROM config a JOIN config b
      ON a.sha = b.sha AND a.id <> b.id]])
    db:close()
    -- what was made from a secret is drawn anew
    local here, there = sqlite.open(path, 'read'), sqlite.open(to, 'read')
    for _, of in ipairs { 'sha AS v FROM recipe', 'fp AS v FROM machine', 'uuid AS v FROM sweep',
        'fp AS v FROM env' } do
      local known = {}
      for _, row in ipairs(here:query('SELECT ' .. of)) do known[row.v] = true end
      for _, row in ipairs(there:query('SELECT ' .. of)) do assert.is_nil(known[row.v], of) end
    end
    here:close()
    there:close()
    assert.equal(2, #ridge.query('widths,widths-2', 'machine', { db = to, group = 'machine' }))
    assert.equal(before, bytes_of(path))
  end)

  it('leaves no path in any text, wherever it stands and however it is written', function()
    local db = sqlite.open(path, 'write')
    db:exec([[
      UPDATE build SET flags = '-O2 -I/home/ZORK/inc -isystem/ZORK/inc -L/ZORK/lib',
        compiler = 'cc @/home/ZORK/x <file:///ZORK/y> `/ZORK z`', libs = '{"blas":"/ZORK/b.so"}';
      UPDATE sweep SET rules = '{"a":["/home/ZORK/r"]}', strategy = 'grid of ~ZORK/grid',
        args = '{"a":"/home/Ann ZORK/d.csv","b":"x\nin /ZORK/x","c":"/é/ZORK","d":"../ZORK/e",'
          || '"e":"//srv/ZORK","f":"a|/ZORK;/ZORK","/ZORK":1,"rate":0.5}' WHERE name = 'widths';
      UPDATE attempt SET message = 'ZORK.lua:12: ''/home/Ann ZORK/f'': no, 3 rows/s, a / b',
        flags = 'X:/ZORK', signal = '/ZORK';
      UPDATE worker SET how = 'ZORK';
      UPDATE device SET uuid = 'ZORK', name = 'CPU /ZORK', facts = '{"at":"/ZORK/bus"}';
      UPDATE protocol SET json = '{"at":"/ZORK/p"}';
      INSERT INTO metric SELECT min(id), 'm /ZORK', 1, '/ZORK', 1, '/ZORK' FROM attempt;
      INSERT INTO meta VALUES('origin', '/ZORK'), ('host', 'ZORK');
      CREATE TABLE mine(t TEXT); INSERT INTO mine VALUES('/ZORK/of another table')]], 'paths')
    -- one that could get the name of another
    local function config(text)
      return db:insert('config', { params = text, sha = sqlite.blob(canonical.address(text)) })
    end
    for i = 1, 60 do config(('{"f":"path-%d"}'):format(i)) end
    db:insert('param', { config_id = config '{"f":"/home/Ann ZORK/g"}', name = 'f',
      txt = '/home/Ann ZORK/g' })
    db:close()
    local to = made('paths.db', true)
    assert.is_nil(bytes_of(to):find 'ZORK')
    db = sqlite.open(to, 'read')
    assert.matches('^path%-%d+:12: \'path%-%d+\': no, 3 rows/s, a / b$',
      db:value 'SELECT message FROM attempt')
    assert.equal(0.5, db:value [[SELECT json_extract(args, '$.rate') FROM sweep
      WHERE name = 'widths']])
    -- parameters are found by what is in them, and their copies say the same
    for _, row in ipairs(db:query [[SELECT sha, params FROM config
        WHERE params GLOB '*path-*']]) do
      assert.equal(canonical.address(row.params), row.sha)
    end
    assert.equal(0, db:value [[SELECT count(*) FROM param p JOIN config c ON c.id = p.config_id
      WHERE p.name = 'f' AND p.txt <> json_extract(c.params, '$.f')]])
    assert.equal('ok', db:value 'PRAGMA integrity_check')
    db:close()
  end)

  it('says which host name is in it still', function()
    local db = sqlite.open(path, 'write')
    db:exec([[UPDATE sweep SET name = 'on-bench' WHERE name = 'old']], 'a name that says it')
    db:close()
    collectgarbage()
    collectgarbage 'stop' -- what is closed is closed by hand
    finally(function() collectgarbage 'restart' end)
    local _, found = made('said.db', true)
    assert.same({ 'bench' }, found.still)
    local self = assert(io.open '/proc/self/stat')
    local pipe = assert(io.popen(('ls -l /proc/%d/fd'):format(self:read '*n')))
    assert.is_nil(pipe:read('*a'):find('said.db', 1, true))
    pipe:close()
    self:close()
  end)

  it('is given up at once where Ctrl-C is pressed, and nothing stays of it', function()
    local C = require 'ridge.ffi.lib'
    local function left()
      local list = io.popen('ls -a ' .. folder)
      local text = list:read '*a'
      list:close()
      return text:find 'ridge%.part' or text:find 'pressed%.db'
    end
    -- before it, and at the first of its texts: no second one is read
    for _, first in ipairs { 'copy', 'address' } do
      local of = first == 'copy' and getmetatable(sqlite.open(path, 'read')).__index or canonical
      local real, n = of[first], 0
      of[first] = function(...)
        n = n + 1
        local result = real(...)
        C.rg_interrupt_set()
        return result
      end
      local ok, err = pcall(made, 'pressed.db', true)
      C.rg_interrupt_clear()
      of[first] = real
      assert.is_false(ok)
      assert.equal('EINTR', err.code)
      assert.equal(1, n)
      assert.is_nil(left())
    end
    made('pressed.db', true)
    assert.is_truthy(left())
  end)

  it('is written whole or not at all, over nothing', function()
    local to = folder .. '/taken.db'
    local file = assert(io.open(to, 'w'))
    file:write 'mine'
    file:close()
    local ok, err = pcall(made, 'taken.db')
    assert.is_false(ok)
    assert.matches('is there already', err.message, 1, true)
    assert.equal('mine', bytes_of(to))
    ok, err = pcall(made, 'none/there.db') -- of the copy, not of the file that is read
    assert.is_false(ok)
    assert.equal(folder .. '/none/there.db cannot be written: it cannot be opened there',
      err.message)
    local list = io.popen('ls -a ' .. folder)
    assert.is_nil(list:read '*a':find 'ridge%.part')
    list:close()
  end)
end)

describe('sweeps whose name SQLite has already', function()
  local folder, path

  setup(function()
    folder = folders.new()
    path = folder .. '/m.db'
    dofile('tests/lua/store/two_machines.lua').make(path, folder .. '/b.db')
    local db = sqlite.open(path, 'write')
    -- as files that were merged before names were looked at have them
    for i, name in ipairs { 'WIDTHS', 'trial', 'Result', 'sqlite_x', 'widths-points' } do
      db:exec(([[INSERT INTO sweep(uuid, name, base, recipe_id, protocol_id, args, space, strategy,
        seed, created) SELECT randomblob(16), '%s', '%s', recipe_id, protocol_id, args, space,
        strategy, seed, created FROM sweep WHERE name = 'widths']]):format(name, name), name)
      db:exec(([[INSERT INTO trial(uuid, sweep_id, config_id, role, state, ord, best_attempt)
        SELECT randomblob(16), (SELECT id FROM sweep WHERE name = '%s'), config_id, role, state,
        ord, best_attempt FROM trial WHERE best_attempt IS NOT NULL AND role = 'point'
        AND sweep_id = (SELECT id FROM sweep WHERE name = 'widths') LIMIT %d]]):format(name, i),
        name)
    end
    db:close()
  end)
  teardown(function() folders.remove(folder) end)

  it('are read, each under its own name', function()
    local function points(name)
      return #ridge.query(name, { columns = 'trial, width, fwd', db = path })
    end
    assert.equal(1, points 'WIDTHS')
    assert.is_true(points 'widths' > 1)
    assert.equal(2, points 'trial')
    assert.equal(3, points 'Result')
    assert.equal(4, points 'sqlite_x')
    assert.equal(5, points 'widths-points')
    assert.is_true(#ridge.sweeps { db = path } > 5)
    assert.equal(1, #ridge.sql('SELECT width FROM "WIDTHS-points-2"', { db = path }))
    for _, name in ipairs { 'WIDTHS', 'trial' } do
      local at = folder .. '/' .. name .. '.csv'
      assert.equal(0, require('ridge.cli.export').main { name, '-o', at, '--db', path })
      assert.matches('^trial,', folders.get(at))
    end
  end)

  it('are published, under views whose names are told', function()
    local to = folder .. '/p.db'
    for round = 1, 2 do -- of a published file, too
      local found = store.with(round == 1 and path or to, 'read', function(st)
        return publish.write(st, round == 1 and to or to .. '2', true)
      end)
      local views = {}
      for _, other in ipairs(found.views) do views[other.name] = other.view end
      assert.same({ WIDTHS = 'WIDTHS-points-2', trial = 'trial-points', Result = 'Result-points',
        sqlite_x = 'x-points' }, views)
    end
    local db = sqlite.open(to .. '2', 'read')
    assert.equal(3, db:value 'SELECT count(*) FROM "Result-points"')
    assert.equal(4, db:value 'SELECT count(*) FROM "x-points"')
    assert.equal(2, db:value 'SELECT count(*) FROM "trial-points"')
    db:close()
  end)
end)

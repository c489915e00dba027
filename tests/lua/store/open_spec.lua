-- SPDX-License-Identifier: MIT
-- Opening a results database: whose file it is, where it lies, and what is said when it is bad.

local folders = dofile 'tests/lua/store/folder.lua'
local place = require 'ridge.store.place'
local schema = require 'ridge.store.schema'
local sqlite = require 'ridge.store.sqlite'
local store = require 'ridge.store'

local LUAJIT = "LUA_PATH='lua/?.lua;lua/?/init.lua;;' luajit "

-- Run as somebody who is not root, for whom permissions count; the sources are copied to where
-- that somebody can read them.
local function as_nobody(folder, code)
  local who = folders.run 'id -u'
  local drop = who:match '^0' and 'setpriv --reuid=65534 --regid=65534 --clear-groups ' or ''
  return folders.run(("LUA_PATH='%s/lua/?.lua;%s/lua/?/init.lua;;' %sluajit -e '%s'")
    :format(folder, folder, drop, code))
end

local function write_file(path, bytes)
  local file = assert(io.open(path, 'wb'))
  file:write(bytes)
  file:close()
end

local function read_file(path)
  local file = assert(io.open(path, 'rb'))
  local bytes = file:read '*a'
  file:close()
  return bytes
end

local function refused(code, pattern, path, mode)
  local ok, err = pcall(store.open, path, mode)
  assert.is_false(ok)
  assert.equal(code, err.code)
  assert.matches(pattern, err.message, 1, true)
end

describe('opening a database', function()
  local folder, path

  before_each(function()
    folder = folders.new()
    path = folder .. '/r.db'
  end)
  after_each(function() folders.remove(folder) end)

  local function make()
    local st = store.open(path, 'write')
    st:within(function()
      for i = 1, 300 do st:config { width = i, text = ('x'):rep(200) } end
    end)
    st:close()
  end

  it('makes a new one with our mark, and opens it again', function()
    make()
    local db = sqlite.open(path, 'read')
    assert.equal(schema.APPLICATION_ID, db:value 'PRAGMA application_id')
    assert.equal(schema.VERSION, db:value 'PRAGMA user_version')
    assert.equal('wal', db:value 'PRAGMA journal_mode')
    assert.equal('ok', db:value 'PRAGMA integrity_check')
    db:close()
    local st = store.open(path)
    assert.equal(300, st.db:value 'SELECT count(*) FROM config')
    st:close()
  end)

  it('sets what keeps results through a power cut', function()
    local st = store.open(path, 'write')
    assert.equal(2, st.db:value 'PRAGMA synchronous')
    assert.equal(1, st.db:value 'PRAGMA foreign_keys')
    assert.equal(0, st.db:value 'PRAGMA wal_autocheckpoint')
    assert.has_error(function() st.db:insert('trial', { sweep_id = 1 }) end)
    st:close()
  end)

  it('makes the folder when only that is missing', function()
    store.open(folder .. '/new/r.db', 'write'):close()
    assert.is_true(place.exists(folder .. '/new/r.db'))
    refused('EIO', 'cannot make the folder', folder .. '/a/b/r.db', 'write')
    refused('EARG', 'not the name', folder .. '/', 'write')
    refused('EIO', 'no results database', folder .. '/none.db', 'read')
    assert.is_false(place.exists(folder .. '/none.db'))
  end)

  it('refuses a file that is no database and leaves it as it was', function()
    for _, bytes in ipairs { 'hello', ('text '):rep(1000), 'SQLite format 3' } do
      write_file(path, bytes)
      refused('EFORMAT', 'no SQLite file', path, 'write')
      refused('EFORMAT', 'no SQLite file', path, 'read')
      assert.equal(bytes, read_file(path))
    end
    refused('EARG', 'not a file', folder, 'read')
  end)

  it('takes an empty file for a new database, but not for reading', function()
    write_file(path, '')
    refused('EFORMAT', 'is empty', path, 'read')
    store.open(path, 'write'):close()
    store.open(path):close()
  end)

  it("refuses another program's database and leaves it as it was", function()
    local db = sqlite.open(path, 'write')
    db:exec 'CREATE TABLE songs(name TEXT)'
    db:close()
    local before = read_file(path)
    refused('EFORMAT', 'another program', path, 'write')
    refused('EFORMAT', 'another program', path, 'read')
    assert.equal(before, read_file(path))
    db = sqlite.open(path, 'write')
    db:exec 'PRAGMA application_id=12345'
    db:close()
    refused('EFORMAT', '0x00003039', path, 'write')
  end)

  it('reads a newer schema and does not write it', function()
    make()
    local db = sqlite.open(path, 'write')
    local newer = schema.VERSION + 1
    db:exec(('PRAGMA user_version=%d'):format(newer))
    db:close()
    refused('ENOSUP', ('newer ridge (schema %d'):format(newer), path, 'write')
    local st = store.open(path)
    assert.equal(300, st.db:value 'SELECT count(*) FROM config')
    st:close()
  end)

  it('says of a cut file that it is cut', function()
    make()
    local whole = read_file(path)
    os.remove(path .. '-wal')
    os.remove(path .. '-shm')
    for _, missing in ipairs { 1, 4095, 4096 } do
      write_file(path, whole:sub(1, #whole - missing))
      assert.is_true(place.header(path).short, missing)
    end
    write_file(path, whole)
    assert.is_false(place.header(path).short)
    write_file(path, whole:sub(1, #whole / 2))
    refused('EFORMAT', 'cut off', path, 'write')
    refused('EFORMAT', ('%d bytes of %d'):format(#whole / 2, #whole), path, 'read')
  end)

  it('says of a damaged file that it is damaged', function()
    make()
    local whole = read_file(path)
    write_file(path, whole:sub(1, 4096) .. ('\255'):rep(#whole - 4096))
    local ok, err = pcall(function()
      local st = store.open(path)
      return st.db:query 'SELECT * FROM config'
    end)
    assert.is_false(ok)
    assert.equal('EFORMAT', err.code)
    assert.matches('SQLITE_CORRUPT', err.message, 1, true)
    assert.matches('.recover', err.message, 1, true)
  end)

  it('refuses to write a read-only file, and reads it', function()
    make()
    os.remove(path .. '-wal')
    os.remove(path .. '-shm')
    folders.run(('mkdir %s/build; cp build/libridge.so %s/build; cp -r lua %s; ' ..
      'chmod -R a+rX %s/lua %s/build; chmod 444 %s; chmod 555 %s'):format(folder, folder, folder,
      folder, folder, path, folder))
    local text = as_nobody(folder, ([[print(pcall(require("ridge.store").open, "%s", "write"))]])
      :format(path))
    assert.matches('read-only for this user', text, 1, true)
    text = as_nobody(folder, ([[local st = require("ridge.store").open("%s")
      print(st.db:value "SELECT count(*) FROM config")]]):format(path))
    assert.equal('300\n', text)
    folders.run(('chmod 777 %s'):format(folder)) -- the file alone is read-only
    text = as_nobody(folder, ([[print(pcall(require("ridge.store").open, "%s", "write"))]])
      :format(path))
    assert.matches(path .. ' is read-only for this user; make it writable', text, 1, true)
    folders.run(('chmod 755 %s; chmod 644 %s'):format(folder, path))
    text = as_nobody(folder, ([[print(pcall(require("ridge.store").open, "%s", "write"))]])
      :format(path))
    assert.matches('read-only for this user', text, 1, true)
  end)

  it('never changes a database opened for reading', function()
    make()
    local st = store.open(path)
    local ok, err = pcall(st.db.run, st.db, 'DELETE FROM config')
    assert.is_false(ok)
    assert.matches('SQLITE_READONLY', err.message, 1, true)
    assert.has_error(function() st.db:transaction(function() end) end)
    st:close()
    assert.equal('r.db r.db-shm r.db-wal r.db.lock', folders.list(folder))
  end)

  it('knows the file systems on which sharing is not safe', function()
    -- statfs(2) and linux/magic.h
    for magic, name in pairs { [0x6969] = 'NFS', [0xFF534D42] = 'CIFS', [0xFE534D42] = 'SMB2',
        [0x517B] = 'SMB', [0x65735546] = 'FUSE', [0x01021997] = '9p', [0x0BD00BD0] = 'Lustre',
        [0x00C36400] = 'Ceph', [0x5346414F] = 'AFS', [0x47504653] = 'GPFS' } do
      assert.equal(name, place.refused(magic))
    end
    for _, magic in ipairs { 0xEF53, 0x01021994, 0x58465342, 0x9123683E, 0x794C7630, 0xF2F52010 } do
      assert.is_nil(place.refused(magic)) -- ext4, tmpfs, xfs, btrfs, overlayfs, f2fs
    end
    place.check_filesystem(path)
  end)

  it('refuses to write on a network file system, before any file is made', function()
    local real, asked = place.refused, {}
    finally(function() place.refused = real end)
    place.refused = function(magic)
      asked[#asked + 1] = magic
      return 'NFS'
    end
    local err = select(2, pcall(store.open, path, 'write'))
    assert.matches('is on a NFS file system', tostring(err))
    assert.equal('ENOSUP', err.code)
    assert.is_false(place.exists(path))
    -- what was asked about is the file system that the folder is on, by its whole number
    local said = folders.run(('stat -f -c %%t %s'):format(folder))
    assert.same({ tonumber(said:match '%x+', 16) }, asked)
  end)

  it('follows links, so that two names have one lock', function()
    make()
    folders.run(('ln -s %s %s/link.db'):format(path, folder))
    local st = store.open(folder .. '/link.db', 'write')
    assert.equal(place.real(path), st.path)
    st:close()
    assert.is_false(place.exists(folder .. '/link.db.lock'))
  end)

  it('shares a folder of locks among users: sticky, and locks that all may open', function()
    local function mode(name) return (folders.run(('stat -c %%a %s/%s'):format(folder, name))) end
    local code = ('local place, lock = require "ridge.store.place", require "ridge.store.lock" '
      .. 'place.shared_folder("%s/locks") lock.open_shared("%s/locks/cpu"):close()'):format(folder,
      folder)
    local text, status = folders.run(("umask 077; %s -e '%s'"):format(LUAJIT, code))
    assert.equal(0, status, text)
    assert.equal('1777\n', mode 'locks')
    assert.equal('666\n', mode 'locks/cpu')
    -- one that is there is taken as it is, by whoever may use it
    folders.run(('cd %s && mkdir -m 755 own && touch own/cpu && chmod 444 own/cpu'):format(folder))
    place.shared_folder(folder .. '/own')
    require('ridge.store.lock').open_shared(folder .. '/own/cpu'):close()
    assert.equal('755\n', mode 'own')
    assert.equal('444\n', mode 'own/cpu')
  end)

  it('says why a lock cannot be had', function()
    local lock = require('ridge.store.lock').open(folder .. '/some.lock')
    local fd = lock.fd
    for _, how in ipairs { 'take', 'share' } do
      lock.fd = -1
      local ok, err = pcall(lock[how], lock)
      lock.fd = fd
      assert.is_false(ok, how)
      assert.matches(('cannot lock %s/some.lock: Bad file descriptor$'):format(folder),
        err.message)
      assert.equal('EIO', err.code)
      lock[how](lock)
      lock:drop()
    end
    lock:close()
  end)

  it('has SQLite only once a database is opened', function()
    local text = folders.run(LUAJIT .. [[-e 'require "ridge.store" require "ridge.sweep"
      for line in io.lines "/proc/self/maps" do
        if line:find "sqlite" then print "loaded" end
      end']])
    assert.equal('', text)
  end)
end)

describe('a database that is open here', function()
  local folder, path, st
  before_each(function()
    folder = folders.new()
    path = folder .. '/s.db'
    st = store.open(path, 'write')
  end)
  after_each(function()
    st:close()
    folders.remove(folder)
  end)

  -- Another program looks at it and takes the log along where it finds nobody else there, as
  -- SQLite does unless it is told otherwise; what it sees.
  local function visit()
    write_file(folder .. '/visit.lua', [[
      local db = require('ridge.store.sqlite').open(arg[1], 'write')
      local lib = require('ridge.ffi.library').open('libsqlite3.so.0', 'sqlite3')
      lib.sqlite3_db_config(db.handle, 1006, require('ffi').cast('int', 0), nil)
      io.write(db:value "SELECT group_concat(key) FROM meta WHERE key < 'c'")
      db:close()]])
    return (folders.run(LUAJIT .. ('%s/visit.lua %s'):format(folder, path)))
  end

  local ways = {
    ['looked at'] = function() store.open(path, 'read'):close() end,
    ['looked at through a link'] = function()
      os.execute(('ln -s s.db %s/link.db'):format(folder))
      store.open(folder .. '/link.db', 'read'):close()
    end,
    ['written by a second connection'] = function() store.open(path, 'write'):close() end,
    ['asked what a run would do'] = function()
      require 'ridge.sweep' 'w' { space = { k = { 1 } }, measure = function() end }:dry_run {
        db = path, lab = dofile('tests/lua/sweep/cheap_lab.lua').new() }
    end,
    ['merged into another'] = function()
      local all = store.open(folder .. '/all.db', 'write')
      require('ridge.store.merge').take(all, path)
      all:close()
    end,
  }
  for what, way in pairs(ways) do
    it('stays so for other programs when it is ' .. what, function()
      st.db:insert('meta', { key = 'a', value = '1' })
      way()
      assert.equal('a', visit())
      st.db:insert('meta', { key = 'b', value = '2' })
      assert.equal('a,b', visit()) -- without the log it would be seen by this process alone
    end)
  end

  it('is looked at again when it was closed: what lies there may be another file', function()
    st:close()
    write_file(path, ('x'):rep(5000))
    local ok, err = pcall(store.open, path, 'read')
    assert.is_false(ok)
    assert.matches('no SQLite file', err.message)
  end)
end)

describe('rows by content', function()
  local folder, st

  before_each(function()
    folder = folders.new()
    st = store.open(folder .. '/r.db', 'write')
  end)
  after_each(function()
    st:close()
    folders.remove(folder)
  end)

  it('are one row for equal things and two for others', function()
    local a = st:config { width = 64, kind = 'linear' }
    assert.equal(a, (st:config { kind = 'linear', width = 64.0 }))
    assert.not_equal(a, (st:config { kind = 'linear', width = 65 }))
    assert.same({ { name = 'kind', txt = 'linear' }, { name = 'width', num = 64 } },
      st.db:query('SELECT name, num, txt FROM param WHERE config_id = ? ORDER BY name', a))
    assert.equal(st:protocol { a = 1, b = 2 }, (st:protocol { b = 2, a = 1 }))
    assert.equal(st:recipe('x.lua', 'code'), (st:recipe('y.lua', 'code')))
  end)

  it('know a machine by its hardware, not by its name or its kernel', function()
    local facts = { cpu = 'c', cores = 2, hostname = 'a', kernel = '1', ram = 1e9 }
    local id = st:machine(facts)
    facts.hostname, facts.kernel, facts.ram = 'b', '2', 1.01e9
    assert.equal(id, st:machine(facts))
    facts.cores = 4
    assert.not_equal(id, st:machine(facts))
  end)

  it('make another environment of anything that changes a number', function()
    local machine = st:machine { cpu = 'c' }
    local device = st:device(machine, { kind = 'cpu', uuid = 'cpu', name = 'c' })
    assert.equal(device, st:device(machine, { kind = 'cpu', uuid = 'cpu', name = 'c' }))
    local build = st:build { ridge = '1', debug = false }
    local function env(over)
      local facts = { machine_id = machine, device_id = device, build_id = build, turbo = 1,
        vars = { threads = 2 } }
      for key, value in pairs(over) do facts[key] = value end
      return st:env(facts)
    end
    local first = env {}
    assert.equal(first, env {})
    assert.not_equal(first, env { turbo = 0 })
    assert.not_equal(first, env { vars = { threads = 1 } })
    assert.not_equal(first, env { build_id = st:build { ridge = '1', debug = true } })
  end)

  it('keep the newest ceilings apart from the history', function()
    local device = st:device(st:machine { cpu = 'c' }, { kind = 'cpu', uuid = 'cpu', name = 'c' })
    st:add_ceilings(device, { { name = 'fma.f32', threads = 2, value = 1, unit = 'flop/s' } }, 1)
    st:add_ceilings(device, { { name = 'fma.f32', threads = 2, value = 2, unit = 'flop/s' },
      { name = 'fma.f32', threads = 1, value = 3, unit = 'flop/s' } }, 2)
    local list = st:ceilings(device)
    assert.equal(2, #list)
    assert.equal(3, list[1].value)
    assert.equal(2, list[2].value)
    assert.equal(3, st.db:value 'SELECT count(*) FROM ceiling')
  end)

  it('is no device, and leaves no lock beside one', function()
    for _, mode in ipairs { 'read', 'write' } do
      for _, path in ipairs { '/dev/null', '/dev/zero', '/dev/full' } do
        local ok, err = pcall(store.open, path, mode)
        assert.is_false(ok)
        assert.matches('is not a file', err.message)
        assert.is_nil(io.open(path .. '.lock'))
      end
    end
  end)
end)

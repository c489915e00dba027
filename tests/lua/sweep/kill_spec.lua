-- SPDX-License-Identifier: MIT
-- kill -9 in mid-sweep, the same command again, and nothing is lost and nothing done twice; the
-- same for a disk that fills up. The long form is scripts/soak_sweep.sh.

local folders = dofile 'tests/lua/store/folder.lua'
local kill_runs = dofile 'tests/lua/sweep/kill_runs.lua'
local sqlite = require 'ridge.store.sqlite'

local CHILD = "LUA_PATH='lua/?.lua;lua/?/init.lua;;' luajit tests/lua/sweep/kill_child.lua "

describe('a sweep that is killed', function()
  it('ends with the rows of one that was not', function()
    local facts = kill_runs.run(12, 2024, 120)
    assert.is_true(facts.kills >= 12)
    assert.is_true(facts.lost > 0)
  end)
end)

describe('a sweep with four workers', function()
  it('ends with the same rows when the whole group is killed', function()
    local facts = kill_runs.run(6, 7, 100, 'group')
    assert.is_true(facts.kills >= 6)
    assert.is_true(facts.lost > 0)
  end)

  it('ends with the same rows when its workers are killed', function()
    local facts = kill_runs.run(8, 11, 100, 'worker')
    assert.is_true(facts.kills >= 8)
    assert.is_true(facts.lost > 0)
  end)
end)

describe('a sweep in passes', function()
  it('ends with the same rows of every pass when the whole group is killed', function()
    local facts = kill_runs.run(6, 5, 30, 'passes')
    assert.is_true(facts.kills >= 6)
    assert.is_true(facts.lost > 0)
  end)

  it('ends with the same rows of every pass when its workers are killed', function()
    local facts = kill_runs.run(6, 5, 12, 'brothers')
    assert.is_true(facts.kills >= 6)
    assert.is_true(facts.lost > 0)
  end)
end)

describe('a sweep on a full disk', function()
  local folder

  before_each(function() folder = folders.new() end)
  after_each(function() folders.remove(folder) end)

  local function complete(path)
    local text, status = folders.run(CHILD .. path .. ' 400 0')
    assert.equal('400 of 400\n', text)
    assert.equal(0, status)
    local db = sqlite.open(path, 'read')
    assert.equal('ok', db:value 'PRAGMA integrity_check')
    assert.equal(400, db:value "SELECT count(*) FROM trial WHERE state <> 'pending'")
    assert.equal(0, db:value([[SELECT count(*) FROM (SELECT 1 FROM attempt
      WHERE outcome <> 'lost' GROUP BY trial_id HAVING count(*) <> 1)]]))
    local saved = db:value "SELECT count(*) FROM attempt WHERE outcome <> 'lost' AND worker_id = 1"
    db:close()
    return saved
  end

  it('stops with the reason and loses nothing (file size limit)', function()
    local path = folder .. '/s.db'
    -- 600 KB a file; without the trap the signal would end the process
    local text, status = folders.run(("trap '' XFSZ; ulimit -f 1200; %s %s 400 0")
      :format(CHILD, path))
    assert.equal(1, status)
    assert.matches('reading or writing failed', text, 1, true)
    assert.matches('SQLITE_IOERR', text, 1, true)
    assert.is_true(complete(path) > 0)
  end)

  it('stops with the reason and loses nothing (a small file system)', function()
    local _, status = folders.run(('mount -t tmpfs -o size=700k none %s'):format(folder))
    if status ~= 0 then
      pending 'mounting a small file system needs root'
      return
    end
    local ok, err = pcall(function()
      local path = folder .. '/s.db'
      local text, failed = folders.run(('%s %s 400 0'):format(CHILD, path))
      assert.equal(1, failed)
      assert.matches('the disk is full', text, 1, true)
      folders.run(('mount -o remount,size=20m %s'):format(folder))
      assert.is_true(complete(path) > 0)
    end)
    folders.run(('umount -l %s'):format(folder))
    if not ok then error(err, 0) end
  end)
end)

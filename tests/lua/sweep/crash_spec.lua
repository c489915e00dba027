-- SPDX-License-Identifier: MIT
-- A point that kills its process by itself: twice, and it is given up; the rest is measured.

local folders = dofile 'tests/lua/store/folder.lua'
local sqlite = require 'ridge.store.sqlite'

local ENV = "LUA_PATH='lua/?.lua;lua/?/init.lua;;' "

-- The cheap laboratory with the real last word; the third point reads where nothing is.
local CHILD = [[
  local lab = dofile 'tests/lua/sweep/cheap_lab.lua'.new()
  lab.crash_note = require('ridge.sweep.lab').crash_note
  local sweep = require 'ridge.sweep'
  sweep 'crash' {
    space = { k = sweep.range(1, 10) },
    measure = function(p, _, m)
      if p.k == 3 then require('ffi').cast('int *', 8)[0] = 1 end
      m:time('fwd', function() return p.k end)
    end,
  }:run { db = arg[1], lab = lab, progress = false }
]]

describe('a point that crashes', function()
  local folder

  before_each(function() folder = folders.new() end)
  after_each(function() folders.remove(folder) end)

  it('is crashed after two tries, and costs the others nothing', function()
    if not pcall(require, 'ridge.ffi.lib') then
      pending 'the core library is not built'
      return
    end
    local file = assert(io.open(folder .. '/child.lua', 'w'))
    file:write(CHILD)
    file:close()
    local path = folder .. '/c.db'
    local function run()
      local _, status = folders.run(('ulimit -c 0; %sluajit %s/child.lua %s'):format(ENV, folder,
        path))
      return status
    end
    assert.equal(139, run()) -- 128 + SIGSEGV
    assert.equal(139, run())
    assert.equal(0, run())
    local db = sqlite.open(path, 'read')
    assert.same({ { k = 3, crashes = 2, tries = 2, message = 'died of SIGSEGV in measure' } },
      db:query [[SELECT json_extract(params, '$.k') AS k, crashes, tries, message FROM trial t
        JOIN config c ON c.id = config_id JOIN attempt a ON a.id = best_attempt
        WHERE state = 'crashed']])
    assert.equal(9, db:value "SELECT count(*) FROM trial WHERE state = 'ok' AND crashes = 0")
    assert.equal('ok', db:value 'PRAGMA integrity_check')
    db:close()
    assert.equal('c.db c.db-shm c.db-wal c.db.lock child.lua', folders.list(folder))
  end)
end)

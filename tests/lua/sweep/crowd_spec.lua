-- SPDX-License-Identifier: MIT
-- Eight processes write into one database while two read it: nobody is told that it is locked, and
-- no row is lost.

local folders = dofile 'tests/lua/store/folder.lua'
local sqlite = require 'ridge.store.sqlite'

local LUAJIT = "LUA_PATH='lua/?.lua;lua/?/init.lua;;' luajit tests/lua/sweep/"
local POINTS = dofile('tests/op/due.lua').setting('RIDGE_CROWD', 400)

describe('a crowd at one database', function()
  it('loses nothing and waits for nobody in vain', function()
    local folder = folders.new()
    local path, done = folder .. '/c.db', folder .. '/done'
    local lines = {}
    for i = 1, 2 do
      lines[#lines + 1] = ('%scrowd_child.lua %s %s & r%d=$!'):format(LUAJIT, path, done, i)
    end
    for i = 1, 8 do
      lines[#lines + 1] = ('%skill_child.lua %s %d 0 & w%d=$!'):format(LUAJIT, path, POINTS, i)
    end
    for i = 1, 8 do lines[#lines + 1] = ('wait $w%d || echo "writer %d failed"'):format(i, i) end
    lines[#lines + 1] = 'touch ' .. done
    for i = 1, 2 do lines[#lines + 1] = ('wait $r%d || echo "reader %d failed"'):format(i, i) end
    local text = folders.run(table.concat(lines, '\n'))
    assert.not_matches('locked', text)
    assert.not_matches('failed', text)
    assert.equal(8, select(2, text:gsub(('%d of %d\n'):format(POINTS, POINTS), '')))
    assert.equal(2, select(2, text:gsub('read %d+ times', '')))
    local db = sqlite.open(path, 'read')
    assert.equal('ok', db:value 'PRAGMA integrity_check')
    assert.equal(POINTS, db:value "SELECT count(*) FROM trial WHERE state <> 'pending'")
    assert.equal(POINTS, db:value "SELECT count(*) FROM attempt WHERE outcome <> 'lost'")
    assert.equal(0, db:value [[SELECT count(*) FROM (SELECT 1 FROM attempt
      WHERE outcome <> 'lost' GROUP BY trial_id HAVING count(*) <> 1)]])
    db:close()
    folders.remove(folder)
  end)
end)

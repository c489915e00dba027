-- SPDX-License-Identifier: MIT
--- What several commands say of one sweep under way is the same: its points by state, anchors left
--- out, and the state of a point that has passes to come.

local cheap_lab = dofile 'tests/lua/sweep/cheap_lab.lua'
local folders = dofile 'tests/lua/store/folder.lua'
local program = require 'tests.lua.repl.program'
local sqlite = require 'ridge.store.sqlite'
local sweep = require 'ridge.sweep'

describe('a sweep under way', function()
  local folder, db
  setup(function()
    folder = folders.new()
    db = folder .. '/s.db'
    sweep 'tiny' {
      space = { k = { 1, 2, 3, 4, 5 } }, anchor = { k = 1 },
      protocol = { passes = 5, max_passes = 5 },
      measure = function(p, _, m) m:time('fwd', function() return 1000 * p.k end) end,
    }:run { db = db, lab = cheap_lab.new(), progress = false, calibrate = false }
  end)
  teardown(function() folders.remove(folder) end)

  local function run(...)
    local status, out, err = program.run { ... }
    assert.equal(0, status, err)
    return out
  end

  -- Points by number, as rows that a run leaves behind: 1 and 2 have all passes, 3 has two of
  -- them, 4 is in its third, 5 was never tried; the anchors are done but one.
  local function arrange()
    local file = sqlite.open(db, 'write')
    local points, anchors = {}, {}
    for _, row in ipairs(file:query [[SELECT t.id, t.role, c.params FROM trial t
        JOIN config c ON c.id = t.config_id ORDER BY t.id]]) do
      if row.role == 'anchor' then
        anchors[#anchors + 1] = row.id
      else
        points[tonumber(row.params:match '"k":(%d)')] = row.id
      end
    end
    file:run("UPDATE trial SET state = 'pending', passes = 2 WHERE id = ?", points[3])
    file:run("UPDATE trial SET state = 'running', passes = 2 WHERE id = ?", points[4])
    file:run("UPDATE trial SET state = 'pending', passes = 0, best_attempt = NULL WHERE id = ?",
      points[5])
    file:run("UPDATE trial SET state = 'pending', passes = 4 WHERE id = ?", anchors[1])
    file:close()
    return points, #anchors
  end

  it('is counted in points by watch and sweeps, and a point has one state', function()
    local points, anchors = arrange()
    assert.is_true(anchors >= 1)
    -- the pass under way is the first: of five points, four have it
    assert.equal('tiny  pass 1 of 5 4/5, 2 ok, 1 running, 2 pending of 5   grades 4 A\n',
      run('watch', 'tiny', '--once', '--db', db))
    local line = run('sweeps', '--as', 'csv', '--db', db):match '\n([^\n]+)'
    assert.matches('^tiny,2,5,1,', line)
    local asked = run('query', 'tiny', 'k, state', '--sort', '1', '--as', 'csv', '--db', db)
    assert.equal('k,state\n1,ok\n2,ok\n3,ok\n4,ok\n5,pending\n', asked)
    for k, said in pairs { 'ok', 'ok', 'ok, and another pass is pending',
        'ok, and another pass is running', 'pending' } do
      local first = run('show', tostring(points[k]), '--db', db):match '[^\n]*'
      assert.equal(('trial            %d of tiny, %s'):format(points[k], said), first)
    end
  end)

  it('is not over while an anchor is pending', function()
    local st = require('ridge.store').open(db, 'read')
    local query, live = require 'ridge.store.query', require 'ridge.sweep.live'
    local _, counts = live.summary(st, query.sweep(st, 'tiny'))
    st:close()
    assert.equal(3, counts.pending) -- two points and an anchor
  end)
end)

describe('a dry run', function()
  it('of the landscape measures and writes nothing', function()
    local folder = folders.new()
    local db = folder .. '/none.db'
    for _, more in ipairs { {}, { '--', '--rigorous' } } do
      local status, out, err = program.run { 'sweep', 'recipes/landscape.lua', '--dry-run', '--db',
        db, unpack(more) }
      assert.equal(0, status, err)
      assert.matches('^landscape%-[%w%-]+: %d+ in the grid, .*%d+ to run', out)
      assert.is_nil((out .. (err or '')):find 'calibrating')
      assert.is_nil(io.open(db))
    end
    folders.remove(folder)
  end)
end)

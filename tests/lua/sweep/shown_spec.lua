-- SPDX-License-Identifier: MIT
--- How a declared sweep shows: before it runs, behind it, and where it was begun anew under another
--- name.

local cheap_lab = dofile 'tests/lua/sweep/cheap_lab.lua'
local folders = dofile 'tests/lua/store/folder.lua'
local sweep = require 'ridge.sweep'

describe('a declared sweep shows', function()
  local folder
  before_each(function() folder = folders.new() end)
  after_each(function() folders.remove(folder) end)

  local function shown(sw)
    return (tostring(sw):gsub('%s*\n%s*', ' '):gsub(folder:gsub('%p', '%%%0'), 'FOLDER')
      :gsub('; last .*$', '; last MOMENT'))
  end

  local function declared(times)
    return sweep 'land' { space = { k = { 1, 2, 3 }, kind = { 'a', 'b' } },
      where = function(p) return p.k < 3 or p.kind == 'a' end,
      measure = function(p, _, m) m:time('fwd', function() return p.k * (times or 1) end) end }
  end

  it('its space, and what it would do', function()
    assert.equal('sweep land of 5 points k 1, 2, 3; kind a, b '
      .. 'where leaves out 1 of the grid not run yet: _:dry_run() says what it would do',
      shown(declared()))
  end)

  it('how far it is, in which file, and as what', function()
    local run = { db = folder .. '/s.db', lab = cheap_lab.new(), progress = false }
    local sw = declared()
    sw:run(run)
    assert.equal('sweep land of 5 points k 1, 2, 3; kind a, b '
      .. 'where leaves out 1 of the grid in FOLDER/s.db: 5 of 5 points done; grades: 5 C; '
      .. 'last MOMENT', shown(sw))
    local again = declared(2)
    run.new = true
    again:run(run)
    assert.matches('in FOLDER/s%.db as land[^:]+: 5 of 5 points done', shown(again))
    assert.matches('in FOLDER/s%.db: 5 of 5 points done', shown(sw))
  end)
end)

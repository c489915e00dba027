-- SPDX-License-Identifier: MIT
-- What a model predicts is kept, and shown by `ridge query`, and has no say in anything else.

local folders = dofile 'tests/lua/store/folder.lua'

local RECIPE = [[
return require('ridge').sweep 'mixed' { space = { k = { 1, 2, 3, 4 }, j = { 1, 2 } },
  measure = function(p, _, m)
    m:metric('guess', 0.001 * p.k, { better = 'lower', how = 'model', unit = 'us' })
    m:metric('took', 100 + p.k + p.j, { better = 'lower', unit = 'us' })
    -- measured of one, predicted of the others
    m:metric('both', p.k == 4 and 50 or p.k, { better = 'lower',
      how = p.k ~= 4 and 'model' or nil })
  end }
]]

describe('what a model predicts', function()
  local folder
  setup(function()
    folder = folders.new()
    folders.put(folder .. '/mixed.lua', RECIPE)
    local text, status = folders.run(('RIDGE_LOCKS=%s RIDGE_PROGRESS=off ./ridge sweep '
      .. '%s/mixed.lua --no-calibrate --db %s/m.db'):format(folder, folder, folder))
    assert.equal(0, status, text)
  end)
  teardown(function() folders.remove(folder) end)

  local function ridge(words)
    return folders.run(('./ridge %s --db %s/m.db'):format(words, folder))
  end
  local function refused(words, pattern)
    local text, status = ridge(words)
    assert.equal(1, status, text)
    assert.matches(pattern, text)
  end

  local function is_left_out()
    refused('top mixed --by guess', 'guess was predicted by a model, not measured: it has no rank')
    refused('best mixed --for guess', 'guess')
    refused("best mixed --for 'max 1 / guess'", 'guess')
    local text = ridge 'best mixed --for both'
    assert.matches('2 of 2 points cannot be told apart, all 50\n', text)
    assert.matches('6 measured points without a value', text)
    refused('top mixed --by both', 'both was predicted by a model')
    for _, kind in ipairs { 'landscape', 'ratio' } do
      refused(('plot %s mixed -x k -z guess -o %s/x.png'):format(kind, folder), '.')
    end
    local st = require('ridge.store').open(folder .. '/m.db', 'read')
    local results = require 'ridge.store.results'
    local sweep = require('ridge.store.query').sweep(st, 'mixed')
    for _, row in ipairs(results.rows(st, sweep.id)) do
      assert.is_nil(row.guess)
      assert.equal(row.k == 4 and 50 or nil, row.both)
      assert.equal(100 + row.k + row.j, row.took)
    end
    local directions = results.directions(st, sweep.id)
    assert.same({ both = -1, took = -1 }, directions)
    assert.equal('both', results.first(st, sweep.id))
    st:close()
  end

  it('is stored as such, and shown to who asks', function()
    local text = ridge 'query mixed "k, guess, took" --where "j = 1" --sort k --as csv'
    assert.matches('\n1,0.001,102\n2,0.002,103\n', text)
    text = ridge [[query --sql "SELECT DISTINCT name, how FROM main.metric ORDER BY 1, 2" --as csv]]
    assert.matches('both,\nboth,model\nguess,model\ntook,\n', text)
  end)

  it('is in no ranking, no best points, no picture, no rows', is_left_out)

  it('is in none of them where they are read by columns either', function()
    local pack = require 'ridge.store.pack'
    local st = require('ridge.store').open(folder .. '/m.db', 'write')
    pack.update(st, 1)
    local head = pack.head(st, 1)
    st:close()
    assert.is_truthy(head)
    is_left_out()
  end)
end)

-- SPDX-License-Identifier: MIT
-- `ridge sweep` as typed: other values, conditions, workers and shards than the recipe's own.

local folders = dofile 'tests/lua/store/folder.lua'

local RECIPE = [[
local ridge = require 'ridge'
local opt = ridge.args { { 'power', 2, 'of k' } }
return ridge.sweep 'powers' {
  space = { k = { 1, 2, 3, 4 }, kind = { 'a', 'b' } },
  args = { power = opt.power },
  measure = function(p, _, m)
    if p.k == 99 then error('not this one') end
    m:metric('value', p.k ^ opt.power, { better = 'lower' })
  end,
}
]]

describe('ridge sweep', function()
  local folder, db

  local function ridge(words, env)
    return folders.run(('%s RIDGE_DB=%s RIDGE_PROGRESS=off ./ridge %s'):format(env or '', db,
      words))
  end
  local function sweep(words, env)
    return ridge(('sweep %s/powers.lua --no-calibrate %s'):format(folder, words), env)
  end
  local function values()
    return (ridge "query powers 'k, kind, value' --where \"state = 'ok'\" --sort k --as csv"
      :gsub('\n', ' '))
  end

  before_each(function()
    folder = folders.new()
    db = folder .. '/s.db'
    local file = io.open(folder .. '/powers.lua', 'w')
    file:write(RECIPE)
    file:close()
  end)
  after_each(function() folders.remove(folder) end)

  it('runs a sweep that a recipe returns, with values, a condition and arguments', function()
    local text, status = sweep "-P k=1..8*2 -P kind=a --where 'k <> 4' -- --power 3"
    assert.equal(0, status, text)
    assert.equal('k,kind,value 1,a,1 2,a,8 8,a,512 ', values())
    assert.same({ '', 0 }, { sweep "-P k=1..8*2 -P kind=a --where 'k <> 4' -- --power 3" })
    -- the page has the command that runs the same
    ridge(('report powers -o %s/p.html'):format(folder))
    local page = io.open(folder .. '/p.html'):read '*a'
    assert.is_truthy(page:find('powers.lua -P &#39;k=1..8*2&#39; -P kind=a --where &#39;k &lt;&gt; '
      .. '4&#39; -- --power 3\n', 1, true), page:match '<h2>Again</h2>.-</pre>')
  end)

  it('says what it would do, and does not', function()
    local text, status = sweep "--dry-run --where \"kind = 'a'\""
    assert.equal(0, status)
    assert.matches('powers: 8 in the grid, 4 removed by where, 4 to run', text)
    assert.is_nil((io.open(db)))
  end)

  it('runs with several workers, that know what was typed', function()
    local text, status = sweep '-j 3 -P k=1..40 -P kind=b'
    assert.equal(0, status, text)
    assert.equal('40\n', (ridge 'query powers "count(k)" --as csv':match '\n(%d+\n)'))
  end)

  it('refuses another space under the name, and starts it beside with --new', function()
    sweep '-P kind=a'
    local text, status = sweep '-P kind=a -P k=5,6'
    assert.equal(1, status)
    assert.matches('changed: the space %(k: %[1,2,3,4%] %-> %[5,6%]%)', text)
    text, status = sweep '-P kind=a -P k=4,5 --new'
    assert.equal(0, status, text)
    assert.matches('powers%-2 +2', (ridge 'sweeps'))
  end)

  it('ends with one sentence and status 1 for what is wrong, with 2 for points that failed',
  function()
    for words, pattern in pairs {
      ['-P kk=3'] = "no parameter of that name %(did you mean 'k'%?%)",
      ['-P kind=3'] = "3 is a number; the recipe's values are strings, as a",
      ['-P k=3..1'] = 'empty', ['-P k'] = 'is not like batch',
      ["--where 'k > 9'"] = 'none of 8 combinations', ["--where 'j > 9'"] = 'has no j',
      ["--where 'kind > 3'"] = 'kind is text and 3 is a number',
      ["--where \"k = '2'\""] = 'a number stands without quotes',
      ["--where 'k >'"] = 'at character', ['-P k=~1..9'] = 'samples says how many',
      ['--shard 9/8'] = 'shard', ['--budget soon'] = 'no duration', ['extra'] = 'too much',
      ['--quick --rigorous'] = 'one of', ['-- --pwer 3'] = 'pwer',
    } do
      local text, status = sweep(words)
      assert.equal(1, status, words)
      assert.matches(pattern, text)
      assert.is_nil(text:find 'traceback', words)
    end
    assert.is_nil((io.open(db)))
    local text, status = sweep '-P k=1,99 -P kind=a'
    assert.equal(2, status, text)
    text, status = ridge('sweep ' .. folder .. '/nothing.lua')
    assert.equal(1, status)
    assert.matches('there is no file', text)
  end)

  it('leaves to the recipe what nobody typed', function()
    local file = io.open(folder .. '/own.lua', 'w')
    file:write(([[
      local ridge = require 'ridge'
      local sw = ridge.sweep 'own' { space = { k = { 1, 2 } },
        measure = function(p, _, m) m:metric('value', p.k) end }
      local seen = require('ridge.sweep.run')
      local run = seen.run
      function seen.run(what, wanted, opt)
        print(('calibrate %%s, workers %%d, isolate %%s, reuse %%s, new %%s'):format(
          tostring(opt.calibrate), opt.workers, opt.isolate, tostring(opt.reuse),
          tostring(opt.new)))
        opt.workers, opt.isolate, opt.calibrate = 1, 'never', false
        return run(what, wanted, opt)
      end
      sw:run { db = %q, calibrate = false, workers = 3, isolate = 'always', reuse = false,
        new = true }
      print(#sw:results { db = %q } .. ' rows')
    ]]):format(db, db))
    file:close()
    local command = ('sweep %s/own.lua '):format(folder)
    local text, status = ridge(command)
    assert.equal(0, status, text)
    assert.matches('calibrate false, workers 3, isolate always, reuse false, new true', text)
    text = ridge(command .. '--no-calibrate -j 1 --isolate auto --no-new --reuse')
    assert.matches('calibrate false, workers 1, isolate auto, reuse true, new false', text)
    -- rows are read where they went
    text, status = ridge(command .. ('--db %s/else.db'):format(folder))
    assert.equal(0, status, text)
    assert.matches('\n2 rows', text)
    -- and what is typed stands above it
    assert.matches('calibrate true', (ridge(command .. '--calibrate')))
  end)

  it('says what goes on after Ctrl-C, and it does: with --new another one than the same', function()
    local file = io.open(folder .. '/cut.lua', 'w')
    file:write [[
      local ffi, n = require 'ffi', 0
      ffi.cdef 'int raise(int);'
      if os.getenv 'CUT' == '0' then -- asked once the sweep is stored, before its first point
        local reuse = require 'ridge.store.reuse'
        local take = reuse.take
        function reuse.take(...)
          ffi.C.raise(2)
          return take(...)
        end
      end
      return require('ridge').sweep 'cut' { space = { k = { 1, 2, 3, 4, 5, 6 } },
        measure = function(p, _, m)
          n = n + 1
          if os.getenv 'CUT' and n == 3 then ffi.C.raise(2) end
          m:metric('value', p.k)
        end }]]
    file:close()
    local command = ('sweep %s/cut.lua --no-calibrate '):format(folder)
    local text, status = ridge(command, 'CUT=0')
    assert.equal(130, status)
    assert.matches('0 of 6 points, 0 of 30 passes are saved in', text)
    assert.matches('run the same command to go on', text)
    text, status = ridge(command, 'CUT=1')
    assert.equal(130, status)
    assert.matches('run the same command to go on', text)
    assert.equal(0, (select(2, ridge(command))))
    text, status = ridge(command .. '--new', 'CUT=1')
    assert.equal(130, status)
    assert.matches('run the same command without %-%-new to go on', text)
    assert.equal(0, (select(2, ridge(command))))
    local list = ridge 'sweeps --as csv'
    assert.matches('\ncut%-2,6,6,', list)
    assert.matches('\ncut,6,6,', list)
    assert.is_nil(list:find 'cut%-3')
  end)
end)

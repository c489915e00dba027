-- SPDX-License-Identifier: MIT
-- `ridge ab` as a user runs it: fresh processes, statuses, what is printed and kept.

local canonical = require 'ridge.store.canonical'
local folders = dofile 'tests/lua/store/folder.lua'
local program = require 'tests.lua.repl.program'

local RECIPE = [[
--- Short and long chains of calls.
local ridge = require 'ridge'
local opt = ridge.args { { 'rows', 8, 'rows' } }
print 'the recipe talks'
local sw = ridge.sweep 'chains' {
  space = { impl = { 'short', 'long' }, k = { 1 } },
  args = { rows = opt.rows },
  setup = function() return { x = ridge.randn(opt.rows, 16) } end,
  measure = function(p, c, m)
    m:time('fwd', ridge.graph(function()
      local y
      for _ = 1, p.impl == 'long' and 40 or 10 do y = c.x:exp() end
      return y
    end):plan())
  end,
}
sw:run { db = '%s', calibrate = false }
error 'nothing behind the sweep is run'
]]

describe('ridge ab', function()
  local folder, recipe, db
  setup(function()
    folder = folders.new()
    recipe, db = folder .. '/chains.lua', folder .. '/chains.db'
    local file = assert(io.open(recipe, 'w'))
    file:write((RECIPE:format(db)))
    file:close()
  end)
  teardown(function() folders.remove(folder) end)

  local function ab(...)
    return program.run { 'ab', recipe, '--db', db, '--looks', '1', '--blocks', '6', ... }
  end

  it('compares in three processes, prints rows, keeps them', function()
    local status, out, err = ab('--a', 'impl=short', '--b', 'impl=long', '--as', 'json',
      '--fail-on', 'slower>20%', '--processes', '2')
    local row = canonical.decode(out:match '{.*').comparisons[1]
    assert.equal(row.verdict == 'slower' and 3 or 0, status, err)
    assert.equal(2, row.procs)
    assert.equal(12, row.blocks)
    assert.is_true(row.ratio > 1.5)
    assert.same({ impl = 'long', k = 1 }, row.b)
    assert.truthy(err:find 'k=1 fwd: look 1 of 1')
  end)

  it('ends with 0, or with 4 when it is strict and nothing was decided', function()
    for _, margin in ipairs { '0.01', '1' } do
      local status, out = ab('--a', 'impl=long', '--b', 'impl=short', '--fail-on', 'slower',
        '--strict', '--processes', '1', '--no-keep', '--margin', margin)
      local verdict = out:match 'k=1%s+fwd%s+(%l+)%s+[-x]'
      assert.truthy(verdict, out)
      assert.equal(verdict == 'open' and 4 or 0, status)
    end
  end)

  it('has the fresh processes that the passes of a sweep have, too', function()
    local path = folder .. '/rigorous.lua'
    local file = assert(io.open(path, 'w'))
    file:write(([[
local ridge = require 'ridge'
local sw = ridge.sweep 'rigorous' {
  space = { k = { 1, 2 } },
  protocol = { level = 'quick', passes = 2, quiet_ns = 0, warm_min_ns = 1e6, warm_max_ns = 1e7 },
  setup = function(p) return { x = ridge.ones(p.k, 16) } end,
  measure = function(_, c, m) m:time('fwd', ridge.capture(function() return c.x:exp() end)) end,
}
sw:run { db = '%s', calibrate = false, progress = false }
for _, row in ipairs(sw:results()) do print(row.k, row.state, row.fwd_n, row.fwd_procs)
end
]]):format(folder .. '/rigorous.db'))
    file:close()
    local status, out, err = program.run { path }
    assert.equal(0, status, err)
    assert.truthy(out:find '1\tok\t6\t2' and out:find '2\tok\t6\t2', out)
    -- where a recipe cannot be run again all passes are of this process, and the row says so
    status, out = program.run { '-e', ([[local sw = ridge.sweep 'here' { space = { k = { 1 } },
      protocol = { level = 'quick', passes = 2, quiet_ns = 0 },
      measure = function(_, _, m) local x = ridge.ones(2)
        m:time('f', ridge.capture(function() return x + 1 end)) end }
      sw:run { db = '%s', calibrate = false, progress = false }
      print(sw:results()[1].f_passes, sw:results()[1].f_procs)]])
      :format(folder .. '/here.db') }
    assert.equal(0, status)
    assert.truthy(out:find('2\t1', 1, true), out)
  end)

  it('says what is wrong, with status 1', function()
    local function wrong(...)
      local status, _, err = program.run { 'ab', ... }
      assert.equal(1, status)
      return err
    end
    assert.truthy(wrong():find 'a recipe or a sweep is missing')
    for _, option in ipairs { '--size=N=2', '--program=true', '--passes=aggressive' } do
      assert.truthy(wrong(recipe, '--a', 'impl=short', '--b', 'impl=long', option)
        :find 'are of ONNX files')
    end
    assert.truthy(wrong(recipe, '--a', 'impl'):find "'impl' is not name=value")
    assert.truthy(wrong(recipe, '--a', 'impl=short'):find '%-%-b name=value is missing')
    assert.truthy(wrong(recipe, '--a', 'imp=1', '--b', 'impl=1'):find "did you mean 'impl'")
    assert.truthy(wrong(recipe, '--a', 'impl=1', '--b', 'impl=2', '--fail-on', 'worse')
      :find "'worse' is not like slower")
    assert.truthy(wrong(folder .. '/none.lua', '--a', 'k=1', '--b', 'k=2', '--db', db)
      :find 'no sweep of that name')
    assert.truthy(wrong(recipe, '--a', 'impl=short', '--b', 'impl=long', '--', '--row', '3')
      :find '%-%-row')
  end)
end)

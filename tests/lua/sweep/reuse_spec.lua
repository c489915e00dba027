-- SPDX-License-Identifier: MIT
-- What was measured before under the same conditions is not measured again, and is seen to be so.

local cheap_lab = dofile 'tests/lua/sweep/cheap_lab.lua'
local folders = dofile 'tests/lua/store/folder.lua'
local store = require 'ridge.store'
local sweep = require 'ridge.sweep'

describe('another space of a recipe', function()
  local folder, db, lab, calls

  before_each(function()
    folder = folders.new()
    db, lab, calls = folder .. '/s.db', cheap_lab.new(), {}
  end)
  after_each(function() folders.remove(folder) end)

  local function measure(p, _, m)
    calls[#calls + 1] = p.k
    m:time('fwd', function() return p.k * 10 end)
  end

  local function declare(space, over)
    local spec = { space = space, measure = measure }
    for key, value in pairs(over or {}) do spec[key] = value end
    return sweep 'land'(spec)
  end

  local function run(sw, over)
    local opt = { db = db, lab = lab, progress = false }
    for key, value in pairs(over or {}) do opt[key] = value end
    return sw:run(opt)
  end

  it('takes the points that both have', function()
    run(declare { k = { 1, 2, 3 } })
    calls = {}
    local sw = declare { k = { 2, 3, 4 } }
    local facts = sw:dry_run { db = db, lab = lab, new = true }
    assert.same({ 3, 2, 1 }, { facts.points, facts.reused, facts.to_run })
    assert.is_number(facts.seconds)
    assert.same({ ok = 3, total = 3 }, run(sw, { new = true }).counts)
    assert.same({ 4 }, calls)
    local reused = {}
    for _, row in ipairs(sw:results()) do
      reused[row.k] = row.reused
      assert.equal(row.k * 10, row.fwd)
    end
    assert.same({ [2] = 1, [3] = 1, [4] = 0 }, reused)
  end)

  it('takes nothing of a sweep of another name, which measures something else', function()
    run(declare { k = { 1, 2 } })
    calls = {}
    local sw = sweep 'other' { space = { k = { 2, 1 } }, measure = function(p, _, m)
      calls[#calls + 1] = p.k
      m:metric('twice', 2 * p.k)
    end }
    assert.equal(0, sw:dry_run { db = db, lab = lab }.reused)
    run(sw)
    assert.equal(2, #calls)
    for _, row in ipairs(sw:results()) do
      assert.same({ 2 * row.k, 0 }, { row.twice, row.reused })
      assert.is_nil(row.fwd)
    end
    -- one that says that its parameters are all there is to know
    sw = declare({ k = { 1, 2 } }, { any_name = true })
    sw.name = 'same'
    assert.equal(2, sw:dry_run { db = db, lab = lab }.reused)
    assert.equal(0, sw:dry_run { db = db, lab = lab, reuse = false }.reused)
  end)

  it('measures again where it is told to, or where the same space is started again', function()
    run(declare { k = { 1, 2 } })
    calls = {}
    run(declare { k = { 1, 2 } }, { new = true })
    assert.equal(2, #calls)
    run(declare { k = { 2, 3 } }, { new = true, reuse = false })
    assert.equal(4, #calls)
  end)

  it('tells functions without a text apart by what they do', function()
    local function compiled(factor)
      return loadstring(([[local calls = ... return function(p, _, m)
        calls[#calls + 1] = p.k
        m:time('fwd', function() return p.k * %d end)
      end]]):format(factor), '=compiled')(calls)
    end
    local space = { k = { 1, 2 } }
    run(declare(space, { measure = compiled(10) }))
    run(declare(space, { measure = compiled(10) })) -- goes on with the first, which is done
    assert.equal(2, #calls)
    local ok, err = pcall(run, declare(space, { measure = compiled(20) }))
    assert.is_false(ok)
    assert.matches('changed: the recipe %(compiled%)', err.message)
  end)

  it('measures again where another space, which took of the first, lies between', function()
    run(declare { k = { 1, 2 } })
    calls = {}
    run(declare { k = { 1, 2, 3 } }, { new = true })
    assert.same({ 3 }, calls)
    calls = {}
    local sw = declare { k = { 1, 2 } }
    assert.equal(2, sw:dry_run { db = db, lab = lab, new = true }.to_run)
    assert.equal('land-3', run(sw, { new = true }).name)
    table.sort(calls)
    assert.same({ 1, 2 }, calls)
    calls = {}
    run(declare({ k = { 1, 2, 3 } }, { seed = 7 }), { new = true }) -- other draws, the same space
    table.sort(calls)
    assert.same({ 1, 2, 3 }, calls)
    calls = {}
    run(declare { k = { 2, 3, 4 } }, { new = true })
    assert.same({ 4 }, calls)
  end)

  it('takes the newest attempt, not that of the file merged last', function()
    local value, old = 10, folder .. '/old.db'
    local function timed(p, _, m)
      calls[#calls + 1] = p.k
      m:time('fwd', function() return value end)
    end
    local function declared(space) return declare(space, { measure = timed }) end
    run(declared { k = { 1, 2 } }, { db = old })
    value = 20
    run(declared { k = { 1, 3 } })
    local st = store.open(db, 'write')
    require('ridge.store.merge').take(st, old)
    st:close()
    value, calls = 30, {}
    local sw = declared { k = { 1, 4 } }
    run(sw, { new = true })
    assert.same({ 4 }, calls)
    for _, row in ipairs(sw:results()) do
      assert.same(row.k == 1 and { 20, 1 } or { 30, 0 }, { row.fwd, row.reused })
    end
  end)

  it('measures again under another protocol, other arguments, another environment', function()
    run(declare { k = { 1, 2 } })
    calls = {}
    run(declare({ k = { 1, 3 } }, { protocol = { precision = 0.02 } }), { new = true })
    run(declare({ k = { 1, 4 } }, { args = { n = 1 } }), { new = true })
    local facts = lab.facts
    function lab.facts()
      local out = facts()
      out.env = { governor = 'other', vars = { threads = 1 } }
      return out
    end
    run(declare { k = { 2, 5 } }, { new = true })
    table.sort(calls)
    assert.same({ 1, 1, 2, 3, 4, 5 }, calls)
  end)

  it('takes the newest attempt that fits', function()
    local value = 10
    local function timed(p, _, m)
      calls[#calls + 1] = p.k
      m:time('fwd', function() return value end)
    end
    local function measured(space, over)
      local sw = declare(space, { measure = timed })
      run(sw, over)
      for _, row in ipairs(sw:results()) do
        if row.k == 1 then return row.fwd, row.reused end
      end
    end
    measured { k = { 1, 2 } }
    value = 20
    measured({ k = { 1, 3 } }, { new = true, reuse = false })
    value, calls = 30, {}
    assert.same({ 20, 1 }, { measured({ k = { 1, 4 } }, { new = true }) })
    assert.same({ 4 }, calls)
    -- a newer one that was disturbed is no help: the one before it is
    value, lab.flags = 40, { 'ROOF' }
    measured({ k = { 1, 5 } }, { new = true, reuse = false })
    value, lab.flags = 50, nil
    assert.same({ 20, 1 }, { measured({ k = { 1, 6 } }, { new = true }) })
  end)

  it('leaves points alone that were disturbed', function()
    lab.flags = { 'ROOF' }
    run(declare { k = { 1, 2 } })
    lab.flags, calls = nil, {}
    run(declare { k = { 1, 3 } }, { new = true })
    table.sort(calls)
    assert.same({ 1, 3 }, calls)
  end)

  it('is looked at without a trace', function()
    local facts = declare({ k = { 1, 2, 3, 4 } }, { where = 'k <> 2' }):dry_run { db = db,
      lab = lab }
    assert.same({ 4, 1, 3 }, { facts.grid, facts.removed, facts.to_run })
    assert.matches('^4 in the grid, 1 removed by where, 3 to run, for how long nobody knows',
      facts.text)
    assert.is_nil((io.open(db)))
    run(declare { k = { 1, 2 } })
    assert.equal('2 in the grid, 2 measured, 0 to run',
      declare { k = { 1, 2 } }:dry_run({ db = db, lab = lab }).text)
    declare { k = { 3 } }:dry_run { db = db, lab = lab, new = true }
    local st = store.open(db)
    assert.equal(1, st.db:value 'SELECT count(*) FROM sweep')
    st:close()
    local ok, err = pcall(function() declare { k = { 3 } }:dry_run { db = db, lab = lab } end)
    assert.is_false(ok)
    assert.matches('Give %-%-new', err.message)
  end)
end)

-- SPDX-License-Identifier: MIT
--- Sweeps that take the table of measured paths: which, in which processes, when not, and what is
--- said where a sweep goes on by others.

local ridge = require 'ridge'
local choices = require 'ridge.choices'
local folders = dofile 'tests/lua/store/folder.lua'
local lab = require 'ridge.sweep.lab'
local rows = require 'ridge.store.choices'
local store = require 'ridge.store'

-- How many choices each point sees, as a number of its own.
local RECIPE = [[
local ridge = require 'ridge'
return ridge.sweep 'seen' {
  space = { k = { 1, 2, 3, 4 } }, protocol = { passes = 2 },
  measure = function(p, _, m)
    m:metric('n', #ridge.backend.choices())
    if p.k ~= 4 then m:time('fwd', ridge.capture(function() return ridge.ones(7, 8):exp() end)) end
  end,
}
]]

describe('a sweep and the table of measured paths', function()
  local folder, db, isa

  before_each(function()
    folder = folders.new()
    db = folder .. '/s.db'
    isa = ridge.backend.now().isa
    local file = io.open(folder .. '/seen.lua', 'w')
    file:write(RECIPE)
    file:close()
  end)
  after_each(function() folders.remove(folder) end)

  local function add(n, changed)
    local st = store.open(db, 'write')
    local list = {}
    for i = 1, n do
      local t = { ns = 10, lo = 9, hi = 11 }
      list[i] = { operation = 'product', problem = ('7x8x%d f32 f32*f32=f32 t1 %s'):format(i, isa),
        path = 'onednn', standard = 'own', rounds = 15, times = { own = t, onednn = t }, at = 1e15 }
      for name, value in pairs(changed or {}) do list[i][name] = value end
    end
    rows.add(st, st:machine(lab.facts().machine), choices.versions(), list)
    st:close()
  end

  local function sweep(words, env)
    local text, status = folders.run(
      ('%s RIDGE_DB=%s RIDGE_PROGRESS=plain ./ridge sweep %s/seen.lua --no-calibrate %s')
      :format(env or '', db, folder, words or ''))
    assert.equal(0, status, text)
    return text
  end

  local function seen(name)
    local st = store.open(db)
    local list = st.db:query(([[SELECT v.k, v.n, json_extract(e.vars, '$.choices') AS text
      FROM "%s" v JOIN trial t ON t.id = v.trial JOIN attempt a ON a.id = t.best_attempt
      JOIN env e ON e.id = a.env_id ORDER BY v.k]]):format(name or 'seen'))
    st:close()
    return list
  end

  local function all(n, name)
    local list = seen(name)
    assert.equal(4, #list)
    for _, row in ipairs(list) do
      assert.equal(n, row.n, name)
      assert.equal(n, select(2, (row.text or ''):gsub('onednn', '')), name)
    end
  end

  it('has it in force in every process, says so once, and stores it with its points', function()
    assert.is_nil(sweep():find 'choice') -- no table
    all(0)
    add(5)
    add(1, { problem = 'nonsense' })
    local text = sweep '--new'
    assert.matches('seen%-2: 5 choices of paths for this machine %(ridge autotune%), 1 more that '
      .. 'this ridge does not know\n', text)
    assert.equal(1, select(2, text:gsub('choices', '')))
    all(5, 'seen-2')
    sweep '--new -j 2'
    all(5, 'seen-3')
  end)

  it('leaves it where that is asked for, or nothing may be chosen', function()
    add(2)
    for i, how in ipairs { { '--no-choices' }, { '', 'RIDGE_CHOICES=off' },
        { '', 'RIDGE_GEMM=own' } } do
      assert.is_nil(sweep('--new ' .. how[1], how[2]):find 'choice')
      all(0, i == 1 and 'seen' or 'seen-' .. i)
    end
    sweep('--new --choices', 'RIDGE_CHOICES=off') -- what is typed stands above it
    all(2, 'seen-4')
  end)

  it('says where points were measured by others, and that those under way begin again', function()
    sweep()
    local st = store.open(db, 'write')
    st.db:run "UPDATE trial SET state = 'pending', passes = 1 WHERE id = 1"
    st.db:run "UPDATE trial SET state = 'pending', passes = 0, best_attempt = NULL WHERE id = 2"
    st.db:run "UPDATE sweep SET state = 'open'"
    st:close()
    add(3)
    local text = sweep()
    assert.matches('seen: the choices of paths are others now than before: 2 points stay as they '
      .. 'were measured, 1 point under way begin again; --new measures all by the same\n', text, 1,
      true)
    local by = {}
    for _, row in ipairs(seen()) do by[row.n] = (by[row.n] or 0) + 1 end
    assert.same({ [0] = 2, [3] = 2 }, by)
    assert.is_nil(sweep():find 'others') -- nothing is left to measure
  end)

  it('says nothing of it where the same are in force', function()
    add(3)
    sweep()
    local st = store.open(db, 'write')
    st.db:run "UPDATE trial SET state = 'pending', passes = 1 WHERE id = 1"
    st.db:run "UPDATE sweep SET state = 'open'"
    st:close()
    add(1, { problem = 'of another kind', operation = 'convolution' })
    assert.is_nil(sweep():find 'others')
    all(3)
  end)

  it('goes on in its processes by what its parent saw, whatever is added meanwhile', function()
    add(3)
    local file = io.open(folder .. '/seen.lua', 'w')
    file:write((RECIPE:gsub('measure = function%(p, _, m%)\n', '%0' .. ([[
      if not io.open '%s/added' then
        assert(io.open('%s/added', 'w')):close()
        assert(os.execute "./ridge '%s/add.lua'" == 0)
      end
    ]]):format(folder, folder, folder):gsub('%%', '%%%%'))))
    file:close()
    file = io.open(folder .. '/add.lua', 'w')
    file:write(([[
      local st = require('ridge.store').open('%s', 'write')
      local rows, choices = require 'ridge.store.choices', require 'ridge.choices'
      local t = { ns = 10, lo = 9, hi = 11 }
      rows.add(st, st:machine(require('ridge.sweep.lab').facts().machine), choices.versions(), { {
        operation = 'product', problem = '7x8x99 f32 f32*f32=f32 t1 %s', path = 'onednn',
        standard = 'own', rounds = 15, times = { own = t, onednn = t }, at = 1e15 } })
      st:close()]]):format(db, isa))
    file:close()
    sweep()
    all(3)
    sweep '--new'
    all(4, 'seen-2')
  end)

  it('compares points of other choices by saying so', function()
    sweep()
    os.execute(('cp %s %s/before.db'):format(db, folder))
    add(3)
    sweep '--new'
    local st = store.open(db, 'write')
    st.db:exec [[UPDATE sweep SET name = 'old' WHERE id = 1;
      UPDATE sweep SET name = 'seen' WHERE id = 2]]
    st:close()
    local text = folders.run(('./ridge compare %s/before.db %s --sweep seen --match-all')
      :format(folder, db))
    assert.matches('other choices of paths %(0, and 3 here%)', text)
    assert.is_nil(text:find('7x8x1', 1, true))
  end)
end)

-- SPDX-License-Identifier: MIT
--- The table of measured paths in a file: what is kept, what is taken of it and by whom, and what
--- rows that are none, or another's, change: nothing.

local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local choices = require 'ridge.choices'
local folders = dofile 'tests/lua/store/folder.lua'
local lab = require 'ridge.sweep.lab'
local merge = require 'ridge.store.merge'
local rows = require 'ridge.store.choices'
local store = require 'ridge.store'

local backend = ridge.backend

local function path_of(f, ...)
  for _, row in ipairs(ridge.profile(f, ...).operations) do
    if row.op == 'linear' or row.op == 'matmul' then return row.path end
  end
end

describe('a table of measured paths', function()
  local before, folder, db, isa
  local standard, other, third -- paths of the product: what is taken without a table, and others

  before_each(function()
    before = backend.now()
    backend.set_threads(1)
    isa = before.isa
    folder = folders.new()
    db = folder .. '/c.db'
    standard = path_of(function() return ridge.ones(7, 8):matmul(ridge.ones(8, 9)) end)
    other = standard == 'onednn' and 'own' or 'onednn'
    third = standard == 'openblas' and 'own' or 'openblas'
  end)

  after_each(function()
    C.rg_device_modes_now().deterministic = 0
    backend.forget_choices()
    backend.apply(before)
    folders.remove(folder)
  end)

  local function product() return ridge.ones(7, 8):matmul(ridge.ones(8, 9)) end

  local function problem(more) return ('7x8x9 f32 f32*f32=f32 t1 %s'):format(more or isa) end

  local function times()
    local function t(ns, ratio)
      return { ns = ns, lo = ns * 0.9, hi = ns * 1.1, ratio = ratio, ratio_lo = ratio * 0.9,
        ratio_hi = ratio * 1.1 }
    end
    return { [standard] = t(20, 1), [other] = t(10, 0.5), [third] = t(15, 0.75) }
  end

  -- A row as it is kept; what is given stands in place of it.
  local function row(changed)
    local out = { operation = 'product', problem = problem(), path = other, standard = standard,
      rounds = 15, times = times(), at = 1.7e15 }
    for name, value in pairs(changed or {}) do out[name] = value end
    return out
  end

  -- Rows of this machine, or of what is given.
  local function write(list, machine, versions, path)
    local st = store.open(path or db, 'write')
    local n = rows.add(st, st:machine(machine or lab.facts().machine),
      versions or choices.versions(), list)
    st:close()
    return n
  end

  local function load() return backend.load_choices { db = db } end

  it('keeps what was measured, once, and gives it back as it was', function()
    local found = ridge.autotune(product)
    assert.equal(1, #found)
    assert.equal(1, backend.save_choices { db = db })
    assert.equal(0, backend.save_choices { db = db })
    assert.same({ put = 0, fitted = 0, known = 1, skipped = 0 }, load())
    backend.forget_choices()
    assert.same({ put = 1, fitted = 0, known = 0, skipped = 0 }, load())
    assert.same(found[1], backend.choices()[1])
    assert.is_true(math.abs(found[1].at / 1e6 - os.time()) < 100)
    local why = backend.why(product)
    assert.equal('measured', why[1].by)
    assert.equal(found[1].at, why[1].at)
    assert.matches('\nmeasured ' .. os.date('%Y-%m-%d %H:%M', found[1].at / 1e6),
      tostring(why), 1, true)
    assert.equal(0, #ridge.autotune(product))
    assert.equal(0, backend.save_choices { db = db })
    -- a copy elsewhere is the same row
    assert.equal(1, backend.save_choices { db = folder .. '/other.db' })
    local st = store.open(db, 'write')
    merge.take(st, folder .. '/other.db')
    assert.equal(1, st.db:value 'SELECT count(*) FROM choice')
    st:close()
  end)

  it('keeps nothing of what another process had as text', function()
    backend.apply { choices = problem() .. ': ' .. other }
    assert.equal(0, backend.save_choices { db = db })
    assert.equal('given', backend.why(product)[1].by)
  end)

  it('is obeyed by another process, which knows the gain', function()
    write { row() }
    local text, status = folders.run(([[RIDGE_DB=%s ./ridge --threads 1 -e '
      print(ridge.backend.load_choices().put)
      local function f() return ridge.ones(7, 8):matmul(ridge.ones(8, 9)) end
      for _, o in ipairs(ridge.profile(f).operations) do print(o.op, o.path) end
      print(ridge.backend.choices()[1]) print(ridge.backend.now().choices)']]):format(db))
    assert.equal(0, status, text)
    assert.matches('^1\n', text)
    assert.matches('\nmatmul\t' .. other .. '\n', text)
    assert.matches('taken, gain 2.00 [1.82 .. 2.22]\n', text, 1, true)
    assert.matches('\n' .. problem() .. ': ' .. other .. '\n', text, 1, true)
  end)

  it('counts the newest of a product, whatever order they came in', function()
    write { row { at = 3e14, path = third }, row { at = 4e14, path = other },
      row { at = 2e14, path = standard } }
    assert.same({ put = 1, fitted = 0, known = 0, skipped = 0 }, load())
    assert.equal(other, path_of(product))
    write { row { at = 5e14, path = third } }
    assert.same({ put = 1, fitted = 0, known = 0, skipped = 0 }, load())
    assert.equal(third, path_of(product))
    -- rows up to one of them stay what they were
    backend.forget_choices()
    local st = store.open(db)
    assert.equal(4, rows.last(st))
    assert.equal(1, require('ridge.sweep.choices').take(st, { last = 3 }).put)
    st:close()
    assert.equal(other, path_of(product))
  end)

  it('gives way to what was measured here later, and has more to say than a text', function()
    local found = ridge.autotune(product)
    write { row { path = found[1].path == other and third or other } }
    assert.same({ put = 0, fitted = 0, known = 1, skipped = 0 }, load())
    assert.same(found[1], backend.choices()[1])
    backend.forget_choices()
    backend.apply { choices = problem() .. ': ' .. third }
    assert.same({ put = 1, fitted = 0, known = 0, skipped = 0 }, load())
    assert.equal('measured', backend.why(product)[1].by)
  end)

  it('is of one machine and of the versions of what computes', function()
    local versions = choices.versions()
    for _, path in ipairs { 'own', 'onednn', 'openblas' } do
      assert.matches('^%d+%.%d+%.%d+', versions[path])
      local older = choices.versions()
      older[path] = older[path] .. '.1'
      write({ row() }, nil, older)
    end
    local facts = lab.facts().machine
    facts.cpu = facts.cpu .. ' II'
    write({ row() }, facts)
    assert.same({ put = 0, fitted = 0, known = 0, skipped = 0 }, load())
    assert.equal(0, #backend.choices())
    write { row() }
    assert.same({ put = 1, fitted = 0, known = 0, skipped = 0 }, load())
    local text = folders.run(('ONEDNN_MAX_CPU_ISA=AVX2 ./ridge -e "print(ridge.backend'
      .. '.load_choices{ db = [[%s]] }.put)"'):format(db))
    assert.equal('0\n', text) -- the library is another one under that
  end)

  it('unites machines in a merge, each with its own', function()
    local facts = lab.facts().machine
    facts.cpu = facts.cpu .. ' II'
    write({ row { path = third, at = 1.71e15 }, row { problem = problem 'base' } }, facts, nil,
      folder .. '/b.db')
    write { row() }
    local st = store.open(db, 'write')
    for _ = 1, 2 do merge.take(st, folder .. '/b.db') end
    assert.same({ { cpu = lab.facts().machine.cpu, n = 1 }, { cpu = facts.cpu, n = 2 } },
      st.db:query [[SELECT m.cpu, count(*) AS n FROM choice c JOIN machine m ON m.id = c.machine_id
        GROUP BY m.id ORDER BY n]])
    st:close()
    assert.same({ put = 1, fitted = 0, known = 0, skipped = 0 }, load())
    assert.equal(other, path_of(product))
  end)

  it('skips and counts what this ridge does not know, and what is none', function()
    local bad = { row { problem = problem 'avx4096' }, row { problem = problem(), path = 'mkl' },
      row { problem = '8x8x9 f31 f32*f32=f32 t1 base' }, row { problem = '\27[2J\27]0;x\7' },
      row { problem = problem 'base', standard = 'x' },
      row { problem = problem 'base' .. '\n' }, row { problem = '1' .. problem 'base', rounds = 0 },
      row { problem = '2' .. problem 'base', rounds = 1000 },
      row { problem = '3' .. problem 'base', at = -5 },
      row { problem = '4' .. problem 'base', at = 0 },
      row { problem = ('9'):rep(300) .. problem 'base' },
      row { problem = "'; os.exit(7) --: own" }, row { problem = '' },
      row { operation = 'convolution' }, row { problem = '5' .. problem 'base', at = 8e15 } }
    assert.equal(#bad, write(bad))
    assert.same({ put = 0, fitted = 0, known = 0, skipped = #bad }, load())
    assert.equal(0, #backend.choices())
    write { row { at = 1.71e15 } }
    -- newer than the one by mkl
    assert.same({ put = 1, fitted = 0, known = 0, skipped = #bad - 1 }, load())
  end)

  it('takes a choice whose times nobody can read without them', function()
    local st = store.open(db, 'write')
    local id = st:machine(lab.facts().machine)
    st:close()
    local nested = ('['):rep(300) .. (']'):rep(300)
    for i, text in ipairs { 'x', '{', '[]', '3', '"\27[2J"', nested, '{"own":3,"openblas":{}}',
      '{"own":{"ns":-1,"lo":1,"hi":1}}', '{"own":{"ns":1e999,"lo":1,"hi":1}}',
      '{"own":{"ns":"\27[2J","lo":1,"hi":1}}', '{"\27[2J":{"ns":1,"lo":1,"hi":1}}' } do
      st = store.open(db, 'write')
      st.db:exec 'PRAGMA ignore_check_constraints = ON; DELETE FROM choice'
      st.db:run([[INSERT INTO choice(uuid, machine_id, versions, operation, problem, path, standard,
        rounds, times, at) VALUES(x'01', ?, ?, 'product', ?, ?, ?, 15, ?, ?)]], id,
        require('ridge.store.canonical').encode(choices.versions()), problem(), other, standard,
        text, 1e14 + i)
      st:close()
      assert.same({ put = 1, fitted = 0, known = 0, skipped = 0 }, load(), text)
      assert.same({}, backend.choices()[1].paths, text)
      local shown = tostring(backend.choices()[1]) .. tostring(backend.choices())
        .. tostring(backend.why(product))
      assert.is_nil(shown:find '\27', text)
      assert.equal(other, path_of(product))
    end
  end)

  it('says what is wrong with a file, as everybody who reads one does', function()
    for file, said in pairs { ['none.db'] = 'no results database at',
      ['text.db'] = 'is not a results database' } do
      local f = file == 'text.db' and assert(io.open(folder .. '/text.db', 'w'))
      if f then
        f:write(('no database '):rep(100))
        f:close()
      end
      local ok, err = pcall(backend.load_choices, { db = folder .. '/' .. file })
      assert.is_false(ok)
      assert.matches(said, tostring(err), 1, true)
    end
    local ok, err = pcall(backend.save_choices, { path = db })
    assert.is_false(ok)
    assert.matches("backend.save_choices: unknown option 'path'", tostring(err))
  end)

  it('is taken in f32 by a library that has no instructions for bf16 here', function()
    local text, status = folders.run(([[ONEDNN_MAX_CPU_ISA=AVX2 ./ridge --threads 1 -e '
      ridge.backend.apply { choices = "7x8x9 bf16 bf16*bf16=bf16 t1 %s: onednn" }
      local a, b = ridge.ones(7, 8):to "bf16", ridge.ones(8, 9):to "bf16"
      local function f() return a:matmul(b) end
      for _, o in ipairs(ridge.profile(f).operations) do
        if o.op == "matmul" then print(o.path) end
      end
      print(f():to "f32":sum():item())
      ridge.backend.apply { choices = "" }
      ridge.backend.set_gemm "onednn"
      print(f():to "f32":sum():item())']]):format(isa))
    assert.equal(0, status, text)
    assert.equal('onednn:f32\n504\n504\n', text)
  end)

  it('is not taken where results must not depend on a clock', function()
    write { row() }
    load()
    assert.equal(other, path_of(product))
    ridge.set_default_backend(backend.cpu { deterministic = true })
    assert.equal(standard, path_of(product))
    assert.same({ true, nil }, { backend.now().deterministic, backend.now().choices })
    assert.equal('expected', backend.why(product)[1].by)
    backend.apply(backend.now())
    assert.equal(1, #backend.choices())
    local a = ridge.ones(4, 4)
    assert.equal(0, #ridge.autotune(function() return a:matmul(a) end))
    ridge.set_default_backend(backend.cpu { threads = 1 }) -- which says nothing of it
    assert.equal(standard, path_of(product))
    ridge.set_default_backend(backend.cpu { deterministic = false })
    assert.is_nil(backend.now().deterministic)
    assert.equal(other, path_of(product))
  end)

  it('is left by plans, too, where results must not depend on a clock', function()
    local a, b = ridge.randn(20, 3000), ridge.randn(3000, 33)
    local function f() return a:matmul(b) end
    local usual = path_of(f)
    local exact, path = f(), nil
    for _, each in ipairs { 'own', 'onednn', 'openblas' } do -- one that rounds otherwise
      backend.set_gemm(each)
      if each ~= usual and (f() - exact):abs():max():item() > 0 then path = each end
    end
    backend.set_gemm 'auto'
    assert.is_not_nil(path)
    backend.apply { choices = ('20x3000x33 f32 f32*f32=f32 t1 %s: %s'):format(isa, path) }
    local plan = ridge.capture(f)
    local function apart() return (plan:run(1) - exact):abs():max():item() end
    assert.is_true(apart() > 0)
    ridge.set_default_backend(backend.cpu { deterministic = true })
    for _ = 1, 2 do assert.equal(0, apart()) end
    local pinned = ridge.capture(f)
    ridge.set_default_backend(backend.cpu { deterministic = false })
    assert.is_true(apart() > 0)
    assert.equal(0, (pinned:run(1) - exact):abs():max():item()) -- as it was captured
  end)
end)

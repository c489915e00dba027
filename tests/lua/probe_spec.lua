-- SPDX-License-Identifier: MIT
--- What products take by each path, fitted to a few that are measured: the fit, what it decides and
--- for whom, that it is kept and taken, and the command.

local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local choices = require 'ridge.choices'
local fitted = require 'ridge.fitted'
local folders = dofile 'tests/lua/store/folder.lua'
local store = require 'ridge.store'

local backend = ridge.backend
local PATHS = { 'onednn', 'openblas', 'own' }

describe('what products take', function()
  local before, folder, db

  before_each(function()
    before = backend.now()
    backend.set_threads(1)
    folder = folders.new()
    db = folder .. '/p.db'
  end)

  after_each(function()
    C.rg_device_modes_now().deterministic = 0
    backend.forget_choices()
    backend.apply(before)
    folders.remove(folder)
  end)

  -- A product of plain factors, and the row that says by what it was computed.
  local function why(m, k, n, dtype)
    local a, b = ridge.ones(m, k):to(dtype or 'f32'), ridge.ones(k, n):to(dtype or 'f32')
    return backend.why(function() return a:matmul(b) end)[1]
  end

  -- Numbers that say nothing but which path is the fastest.
  local function text(path, kind)
    local parts = {}
    for i, name in ipairs(PATHS) do
      parts[i] = ('%s %d 0 0 0 0 0 0 0 0'):format(name, name == path and 1 or 9)
    end
    return ('costs %s: %s'):format(kind or 'f32 t1 ' .. before.isa, table.concat(parts, ', '))
  end

  local function other_than(path) return path == 'openblas' and 'onednn' or 'openblas' end

  it('is found again from times that are sums of terms, some of them disturbed', function()
    local true_costs = { onednn = { 300, 0.02, 0.04, 0.01, 0.02, 0.5, 0.4, 0, 0 },
      openblas = { 50, 0.03, 0.03, 0.02, 0.02, 1, 0, 0, 0 },
      own = { 10, 0.018, 0.1, 0, 0.09, 0, 0.4, 4, 0.6 } }
    local rows = {}
    local sizes = { 1, 3, 8, 17, 33, 64, 90, 128, 200, 333, 512, 700 }
    for i = 1, 60 do
      local m, k, n = sizes[i % 12 + 1], sizes[i * 5 % 11 + 1], sizes[i * 7 % 10 + 2]
      local row = { m = m, k = k, n = n, compute = 'f32', isa = before.isa, standard = 'own',
        paths = {} }
      for path, x in pairs(true_costs) do
        local terms, sum = require('ffi').new('double[9]'), 0
        C.rg_path_terms(m, n, k, C.RG_F32, path == 'own' and C.RG_GEMM_OWN or C.RG_GEMM_ONEDNN,
          terms)
        for j = 1, 9 do sum = sum + x[j] * terms[j - 1] end
        row.paths[path] = { ns = sum }
      end
      row.best = fitted.path(true_costs, row)
      rows[i] = row
    end
    local picked = {}
    for _, row in ipairs(rows) do picked[row.best] = true end
    assert.same({ onednn = true, openblas = true, own = true }, picked)
    for i = 7, 60, 15 do -- one in fifteen met somebody else's work
      rows[i].paths.own.ns, rows[i].paths.onednn.ns = rows[i].paths.own.ns * 5,
        rows[i].paths.onednn.ns * 3
    end
    local costs = fitted.fit(rows)
    local wrong = 0
    for _, row in ipairs(rows) do
      if fitted.path(costs, row) ~= row.best then wrong = wrong + 1 end
      for path, x in pairs(costs) do
        for j = 1, 9 do
          assert.is_true(x[j] >= 0 and x[j] == tonumber(('%.3g'):format(x[j])), path)
        end
      end
    end
    assert.is_true(wrong <= 3, wrong .. ' of 60 by another path')
    assert.is_true(math.abs(costs.own[2] / 0.018 - 1) < 0.1, costs.own[2])
    rows[3].paths.openblas = nil -- a path that not all were measured by is not judged
    assert.is_nil(fitted.fit(rows).openblas)
    assert.same({}, fitted.fit {})
  end)

  it('is measured by every path, told, and put in force; nothing else changes', function()
    local said = {}
    ridge.seed(5)
    local expected = ridge.rand(3):tolist()
    ridge.seed(5)
    local found = backend.probe { shapes = 16, progress = function(s) said[#said + 1] = s end }
    assert.equal('1 thread, f32, weight kept packed', said[1])
    assert.equal(#said, #found)
    local taken, kinds = 0, {}
    for _, r in ipairs(found) do
      assert.equal(16, r.products)
      assert.same({ 1, before.isa }, { r.threads, r.isa })
      assert.is_true(r.standard.mean >= 1 and r.standard.most >= r.standard.mean)
      assert.is_true(r.fitted.mean >= 1 and r.fitted.most >= r.fitted.mean)
      assert.is_true((r.taken or false) == (r.reason == nil))
      if r.taken then assert.is_true(r.fitted.mean < r.standard.mean) end
      kinds[fitted.kind(r)], taken = r.taken or false, taken + (r.taken and 1 or 0)
    end
    assert.equal(taken, #fitted.all())
    for _, r in ipairs(fitted.all()) do
      assert.is_true(kinds[fitted.kind(r)])
      assert.equal(16, r.products)
    end
    assert.equal(0, #backend.choices()) -- no product of them is remembered
    assert.equal(1, C.rg_tuning_keeps(1))
    assert.equal(0, C.rg_tuning(0))
    assert.equal(1, backend.threads())
    assert.matches('^type%s+weight%s+threads%s+products%s+built in%s+fitted\n', tostring(found))
    assert.matches(taken .. ' fitted and taken$', tostring(found))
    assert.same(expected, ridge.rand(3):tolist()) -- nothing was drawn by others' generator
  end)

  it('is measured for one thread and for all, each in force where it is of', function()
    backend.set_threads(2)
    local found, threads = backend.probe { shapes = 16 }, {}
    for _, r in ipairs(found) do threads[r.threads] = (threads[r.threads] or 0) + 1 end
    assert.is_true(threads[1] > 0)
    assert.equal(threads[1], threads[2])
    assert.equal(2, backend.threads())
    local ok = pcall(backend.probe, { shapes = 16, progress = function() error 'mine' end })
    assert.is_false(ok)
    assert.equal(2, backend.threads())
    assert.equal(0, C.rg_paths_watch(0))
  end)

  it('decides for products that were not measured, and for no others', function()
    local standard = why(13, 40, 50).path
    local other = other_than(standard)
    assert.equal('expected', why(13, 40, 50).by)
    backend.apply { choices = text(other) }
    assert.same({ other, 'probed', standard },
      { why(13, 40, 50).path, why(13, 40, 50).by, why(13, 40, 50).standard })
    local a, b = ridge.randn(13, 40), ridge.randn(40, 50)
    local exact = a:to 'f64':matmul(b:to 'f64')
    assert.is_true((a:matmul(b):to 'f64' - exact):abs():max():item() < 1e-4)
    -- one that was measured itself
    local exact_choice = ('13x40x50 f32 f32*f32=f32 t1 %s: own'):format(before.isa)
    backend.apply { choices = exact_choice .. '; ' .. text 'onednn' }
    assert.same({ 'own', 'given' }, { why(13, 40, 50).path, why(13, 40, 50).by })
    assert.equal('onednn', why(13, 40, 51).path)
    -- another kind
    assert.equal('expected', why(13, 40, 50, 'bf16').by)
    backend.set_threads(2)
    assert.is_nil(why(300, 300, 300).by == 'probed' or nil)
  end)

  it('is left out where `deterministic` is on, also by plans that there are', function()
    local standard = why(13, 40, 50).path
    local other = other_than(standard)
    backend.apply { choices = text(other) }
    local a, b = ridge.ones(13, 40), ridge.ones(40, 50)
    local plan = ridge.capture(function() return a:matmul(b) end)
    local function path()
      for _, row in ipairs(ridge.profile(function() plan:run(1) end).operations) do
        if row.op == 'matmul' then return row.path end
      end
    end
    plan:run(1)
    assert.equal(other, path())
    C.rg_device_modes_now().deterministic = 1
    assert.equal(standard, why(13, 40, 50).path)
    assert.is_nil(backend.now().choices)
    assert.same({ 40 }, { plan:run(1):to('f32')[1][1]:item() })
    assert.error_matches(function() backend.probe() end, 'nothing to choose')
    C.rg_device_modes_now().deterministic = 0
    backend.set_gemm 'own'
    assert.error_matches(function() backend.probe() end, 'nothing to choose')
    backend.set_gemm 'auto'
    assert.equal(other, why(13, 40, 50).path)
    backend.forget_choices()
    assert.equal(standard, why(13, 40, 50).path)
  end)

  it('is text, and the text is the same again; what is none is refused whole', function()
    local first, second = text 'openblas', text('own', 'bf16 k t3 ' .. before.isa)
    backend.apply { choices = first .. '; ' .. second }
    local all = second .. '; ' .. first
    assert.equal(all, backend.now().choices)
    backend.apply(backend.now())
    assert.equal(all, backend.now().choices)
    local isa = before.isa
    for _, bad in ipairs { 'costs', 'costs f32 t1 ' .. isa, 'costs f32 t1 ' .. isa .. ': ',
      'costs f16 t1 ' .. isa .. ': own 1 2 3 4 5 6 7 8 9', 'costs f32 t0 ' .. isa
      .. ': own 1 2 3 4 5 6 7 8 9', 'costs f32 t9999 ' .. isa .. ': own 1 2 3 4 5 6 7 8 9',
      'costs f32 t1 z80: own 1 2 3 4 5 6 7 8 9', 'costs f32 t1 ' .. isa .. ': own 1 2 3 4 5 6 7 8',
      'costs f32 t1 ' .. isa .. ': own 1 2 3 4 5 6 7 8 9 10',
      'costs f32 t1 ' .. isa .. ': own 1 2 3 4 5 6 7 8 -9',
      'costs f32 t1 ' .. isa .. ': own 1 2 3 4 5 6 7 8 nan',
      'costs f32 t1 ' .. isa .. ': own 0 0 0 0 0 0 0 0 0',
      'costs f32 t1 ' .. isa .. ': best 1 2 3 4 5 6 7 8 9',
      'costs f32 kk t1 ' .. isa .. ': own 1 2 3 4 5 6 7 8 9',
      'costs f32 t1 ' .. isa .. ': own 1 2 3 4 5 6 7 8 9, own 1 2 3 4 5 6 7 8 9' } do
      assert.error_matches(function() backend.apply { choices = first .. '; ' .. bad } end,
        'is no choice of a path', nil, false)
      assert.equal(all, backend.now().choices, bad)
    end
  end)

  it('goes to fresh processes', function()
    local standard = why(13, 40, 50).path
    local other = other_than(standard)
    backend.apply { choices = text(other) }
    local code = ("ridge.backend.apply{ threads = 1, choices = '%s' } "):format(
      backend.now().choices)
      .. 'print(ridge.backend.why(function() return ridge.ones(13, 40):matmul(ridge.ones(40, 50)) '
      .. 'end)[1].path)'
    assert.equal(other .. '\n', assert(io.popen('./ridge -e "' .. code .. '"')):read '*a')
  end)

  it('is kept in a database, once, and taken from there', function()
    local found = backend.probe { shapes = 16 }
    local all = backend.now().choices
    assert.equal(#found, backend.save_choices { db = db })
    assert.equal(0, backend.save_choices { db = db })
    local taken = 0
    for _, r in ipairs(found) do taken = taken + (r.taken and 1 or 0) end
    local function load()
      local t = backend.load_choices { db = db }
      return { t.put, t.fitted, t.known, t.skipped }
    end
    assert.same({ 0, 0, #found, 0 }, load())
    backend.forget_choices()
    assert.is_nil(backend.now().choices)
    assert.same({ 0, taken, #found - taken, 0 }, load())
    assert.equal(all, backend.now().choices)
    -- rows that are none
    store.with(db, 'write', function(st)
      st.db:run [[UPDATE choice SET times = '{"own":[1,2]}' WHERE path = 'fitted']]
      st.db:run [[UPDATE choice SET problem = problem || 'x' WHERE path = 'built in']]
    end)
    backend.forget_choices()
    assert.same({ 0, 0, 0, #found }, load())
    assert.is_nil(backend.now().choices)
  end)

  it('is measured before a sweep that asks for it, once for a machine', function()
    local kept = require 'ridge.sweep.choices'
    local lab = require('ridge.sweep.device').lab 'cpu'
    local lines = {}
    local function probe(wanted)
      return store.with(db, 'write', function(st)
        return kept.probe(st, lab, wanted, { shapes = 16,
          say = function(line) lines[#lines + 1] = line end })
      end)
    end
    assert.is_nil(probe(false))
    local found = probe(true)
    assert.is_true(#found > 0)
    assert.equal('which library multiplies fastest', lines[1])
    assert.is_nil(probe(true))
    backend.forget_choices()
    assert.is_nil(probe(true))
    backend.set_threads(2)
    assert.is_true(#probe(true) > 0) -- for these threads nobody did
    assert.is_nil(probe(true))
  end)

  it('is a command', function()
    local function shell(command)
      local pipe = assert(io.popen(command .. ' 2>&1; echo $?'))
      return pipe:read '*a'
    end
    assert.matches('a recipe is missing, or %-%-probe', shell './ridge autotune')
    assert.matches('the path own is forced', shell 'RIDGE_GEMM=own ./ridge autotune --probe')
    assert.matches('cannot make .*1\n$', shell('./ridge autotune --probe --db /dev/null/x.db'))
    assert.matches('plain factors', choices and shell(
      ('OMP_NUM_THREADS=1 ./ridge autotune --probe --db %s'):format(db)))
    local list = shell(('./ridge choices --db %s --as csv'):format(db))
    assert.matches('costs,f32 t%d+ ' .. before.isa, list)
    assert.matches('built in', list)
  end)
end)

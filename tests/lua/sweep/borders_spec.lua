-- SPDX-License-Identifier: MIT
--- Smaller rules of sweeps at their borders: what lists of values refuse, what a command line
--- changes, which points there are and in which order, and what many comparisons come to.

local ab = require 'ridge.sweep.ab'
local approved = dofile 'tests/lua/approved.lua'
local canonical = require 'ridge.store.canonical'
local coarse = require 'ridge.sweep.coarse'
local comparison = require 'ridge.store.comparison'
local folders = dofile 'tests/lua/store/folder.lua'
local inputs = require 'ridge.sweep.inputs'
local measure = require 'ridge.measure.ab'
local override = require 'ridge.sweep.override'
local ridge = require 'ridge'
local sha256 = require 'ridge.store.sha256'
local space = require 'ridge.sweep.space'
local store = require 'ridge.store'
local sweep = require 'ridge.sweep'
local told = dofile 'tests/lua/told.lua'
local values = require 'ridge.sweep.values'

local function failure(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return err.message
end

describe('lists of values', function()
  it('refuse what makes none, as approved', function()
    local env = { inf = math.huge, nan = 0 / 0 }
    for name, f in pairs(values) do env[name] = f end
    approved.check('sweep/values', told.all([[
range(1, 3, 0)
range(1, 3, -1)
range(3, 1)
range(3, 3)
range('1', 3)
range(1, inf)
range(1, nan)
range(1, 3, inf)
range(0, 1e6)[1000001]
range(0, 1000001)
range(-1e308, 1e308)
range(0, 1, 0.1)
range(0, 0.9999999999, 0.1)
range(0, 0.99, 0.1)
geom(1, 8)
geom(8, 8)
geom(8, 1)
geom(0, 8)
geom(-1, 8)
geom(1, 8, 1)
geom(1, 8, 0.5)
geom(nil, 8)
geom(1, inf)
geom(1, 8, nan)
geom(1e-300, 1e300, 1e100)
geom(1e-320, 1e300, 2)
geom(5e-324, 1, 1.1)
geom(1, 2, 1.0000001)
geom(1, 1.21, 1.1)
geom(1, 7.9999999999)
geom(1, 7.9999)
between(0, 1, 2)
between(0, 1, 1)
between(0, 1, 2.5)
between(1, 1, 2)
between(2, 1, 2)
between(0, 1, 1000001)
between(0, nan, 3)
between(nan, 1, 3)
between(0, 1, '3')
between(-1e308, 1e308, 3)
logs(1, 100, 3)
logs(0, 1, 2)
logs(2, 1, 2)
logs(1, 1, 2)
logs(1, 2, 1)
logs(1, 2, 2.5)
logs(1, 2, 1000001)
logs(inf, 1, 2)
logs(1, inf, 2)
logs(1, 2, nan)
logs(1e-300, 1e300, 3)
probe(1, 2)
probe(0, 2)
probe(2, 2)
probe(1, 2.5)
probe(1.5, 3)
probe(1, 2 ^ 41)
probe(1, inf)
probe(40, 50)
random(1, 2)
random(2, 2)
random(2, 1)
random(0, 1, { log = true })
random(-1, 1)
random(1, inf)
random(nan, 1)
random(-1e308, 1e308)
random(1e-300, 1e300, { log = true })
]], env))
  end)
end)

describe('what a command line changes', function()
  local function with(given, spec)
    override.given = given
    local ok, found = pcall(override.apply, spec)
    override.given = nil
    if not ok then error(found, 0) end
    return found
  end

  local function recipe(more)
    local spec = { space = { width = { 64, 128 }, act = { 'relu', 'tanh' } }, samples = 3,
      protocol = { passes = 7 } }
    for name, value in pairs(more or {}) do spec[name] = value end
    return spec
  end

  it('is put over a copy of what the recipe declares', function()
    local spec = recipe()
    local made = with({ space = { width = { 8 } }, samples = 9, level = 'quick' }, spec)
    assert.same({ width = { 8 }, act = { 'relu', 'tanh' } }, made.space)
    assert.same({ 9, { passes = 7, level = 'quick' } }, { made.samples, made.protocol })
    assert.same(recipe(), spec)
    assert.equal(spec, with(nil, spec))
    local same = with({}, spec)
    assert.same(recipe(), same)
    assert.same({ level = 'demo' },
      with({ level = 'demo' }, recipe { protocol = 'quick' }).protocol)
  end)

  it('is a condition beside that of the recipe, as text too', function()
    local function keeps(spec, width, act)
      return spec.where { width = width, act = act or 'relu' }
    end
    local own = recipe { where = function(p) return p.width > 64 end }
    local both = with({ where = 'act = "relu"' }, own)
    assert.is_true(keeps(both, 128))
    assert.is_false(keeps(both, 64))
    assert.is_false(keeps(both, 128, 'tanh'))
    local text = with(nil, recipe { where = 'width <= 64' })
    assert.is_true(keeps(text, 64))
    assert.is_false(keeps(text, 65))
    local alone = with({ where = 'width <= 64 and act = "tanh"' }, recipe())
    assert.is_true(keeps(alone, 64, 'tanh'))
    assert.is_false(keeps(alone, 64))
  end)

  it('is refused where the recipe has nothing like it', function()
    assert.equal("-P widht: the sweep has no parameter of that name (did you mean 'width'?)",
      failure(with, { space = { widht = { 1 } } }, recipe()))
    assert.equal('-P qqqqqq: the sweep has no parameter of that name; it has act, width',
      failure(with, { space = { qqqqqq = { 1 } } }, recipe()))
    assert.equal("-P width: wide is a string; the recipe's values are numbers, as 64",
      failure(with, { space = { width = { 8, 'wide' } } }, recipe()))
    assert.equal("-P act: 3 is a number; the recipe's values are strings, as relu",
      failure(with, { space = { act = { 3 } } }, recipe()))
    assert.matches('width is a number and "a" is text', (failure(with, { where = 'width = "a"' },
      recipe()):gsub("'", '"')))
  end)
end)

describe('the points of a space', function()
  it('are its grid, coarse ones first, then by a hash; an anchor after each 20', function()
    for seed = 1, 5 do
      local given = { width = { 1, 2, 3, 4, 5, 6, 7 }, depth = { 1, 2, 3 },
        act = { 'relu', 'tanh' }, beta = space.when(function(p) return p.act == 'tanh' end,
          { 0.5, 1 }) }
      local function where(p) return p.width ~= 3 or p.depth == 2 end
      local anchor = { width = 4, depth = 2, act = 'relu' }
      local plan = space.expand(given, where, seed, anchor)
      local points, removed = {}, 0
      for _, width in ipairs(given.width) do
        for _, depth in ipairs(given.depth) do
          for _, act in ipairs(given.act) do
            for _, beta in ipairs(act == 'tanh' and { 0.5, 1 } or { false }) do
              local params = { width = width, depth = depth, act = act, beta = beta or nil }
              if where(params) then
                local json = canonical.encode(params)
                points[#points + 1] = { params = params, json = json,
                  key = sha256.digest(seed .. '\n' .. json) }
              else
                removed = removed + 1
              end
            end
          end
        end
      end
      assert.same({ #points, removed }, { plan.n_points, plan.n_rejected })
      coarse.rank(space.axes(given), points)
      table.sort(points, function(a, b)
        if a.rung ~= b.rung then return a.rung < b.rung end
        return a.key < b.key
      end)
      local at, anchors = 0, 0
      for i, trial in ipairs(plan.trials) do
        assert.equal(i, trial.ord)
        if trial.role == 'anchor' then
          assert.same({ anchor, anchors }, { trial.params, trial.rep })
          assert.equal(math.min(20 * anchors, #points), at)
          anchors = anchors + 1
        else
          at = at + 1
          assert.same({ points[at].params, 'point', 0 }, { trial.params, trial.role, trial.rep })
        end
      end
      assert.same({ #points, math.ceil(#points / 20) + 1 }, { at, anchors })
      -- what the sweep is does not depend on the order
      assert.equal(plan.text, space.expand(given, where, seed + 1, anchor).text)
      assert.are_not.equal(plan.text, space.expand(given, nil, seed, anchor).text)
      assert.are_not.equal(plan.text, space.expand(given, where, seed).text)
    end
  end)

  it('of a grid are its first by that hash, of ranges so many draws', function()
    local grid = { width = { 1, 2, 3, 4, 5, 6, 7, 8 }, depth = { 1, 2, 3 } }
    local keys = {}
    for _, width in ipairs(grid.width) do
      for _, depth in ipairs(grid.depth) do
        keys[#keys + 1] = sha256.digest('3\n' .. canonical.encode { width = width, depth = depth })
      end
    end
    table.sort(keys)
    local plan = space.expand(grid, nil, 3, nil, 10)
    assert.equal(10, #plan.trials)
    for _, trial in ipairs(plan.trials) do
      assert.is_true(sha256.digest('3\n' .. canonical.encode(trial.params)) <= keys[10])
    end
    -- each draw by a hash of the seed, its number and the name; the same for more of them
    local function share(i, name)
      local a, b, c, d = sha256.digest(('3\n%d\n%s'):format(i, name)):byte(1, 4)
      return (a * 2 ^ 24 + b * 2 ^ 16 + c * 2 ^ 8 + d) / 2 ^ 32
    end
    local drawn = { lr = ridge.random(1e-4, 1.5, { log = true }), width = ridge.random(1, 4),
      act = { 'a', 'b', 'c' } }
    local function where(p) return p.act ~= 'b' end
    local want, refused, i, n = {}, 0, 0, 0
    while n < 12 do
      i = i + 1
      local params = { lr = tonumber(('%.6g'):format(1e-4 * 15000 ^ share(i, 'lr'))),
        width = 1 + math.floor(4 * share(i, 'width')),
        act = drawn.act[1 + math.floor(3 * share(i, 'act'))] }
      if params.act == 'b' then
        refused = refused + 1
      else
        n, want[canonical.encode(params)] = n + 1, true
      end
    end
    plan = space.expand(drawn, where, 3, nil, 12)
    assert.same({ 12, refused }, { plan.n_points, plan.n_rejected })
    for _, trial in ipairs(plan.trials) do assert.is_true(want[canonical.encode(trial.params)]) end
    assert.matches('4 of 5 different points, where refused',
      failure(space.expand, { k = ridge.random(1, 5) }, function(p) return p.k > 1 end, 1, nil, 5))
  end)
end)

describe('the checksum of what a setup made', function()
  it("looks at no results of a graph's plan, which hold nothing before its first run", function()
    local x = ridge.ones(3)
    local graph = ridge.graph(function(a) return a + 1 end, x)
    local before, after = graph:plan(), graph:plan()
    after()
    assert.equal(inputs.checksum { plan = before }, inputs.checksum { plan = after })
    assert.are_not.equal(inputs.checksum { x, plan = before }, inputs.checksum { x * 2,
      plan = before })
  end)

  it('looks four tables deep, at 64 tensors, at numbers before names', function()
    local function deep(n, x)
      local t = x
      for _ = 1, n do t = { a = t } end
      return t
    end
    local x, y = ridge.ones(2), ridge.zeros(2)
    for n = 0, 4 do
      assert.is_truthy(inputs.checksum(deep(n, x)), n)
      assert.are_not.equal(inputs.checksum(deep(n, x)), inputs.checksum(deep(n, y)))
    end
    assert.is_nil(inputs.checksum(deep(5, x)))
    local many, more = {}, {}
    for i = 1, 64 do many[i], more[i] = x, x end
    more[65] = y
    assert.equal(inputs.checksum(many), inputs.checksum(more))
    more[65], more[64] = nil, y
    assert.are_not.equal(inputs.checksum(many), inputs.checksum(more))
    local ring = { x = x }
    ring.ring = ring
    assert.equal(inputs.checksum { x = x }, inputs.checksum(ring))
    assert.are_not.equal(inputs.checksum { x, a = y }, inputs.checksum { y, a = x })
    assert.equal(inputs.checksum { b = x, a = y, [2] = x, [1] = y },
      inputs.checksum { [1] = y, [2] = x, a = y, b = x })
  end)
end)

describe('comparisons of many pairs', function()
  -- Stands in for what measures: each pair has the p value and verdict of its k.
  local function run(ps, more, verdict)
    local said, asked, leased = {}, {}, {}
    local saved = { measure.with_candidates, measure.with_source, measure.compare,
      ab.candidates }
    local now
    function measure.with_candidates(list, opt, f)
      now, asked[#asked + 1] = list[1].k, opt
      return f({ { names = function() return { 'fwd' } end } }, {})
    end
    function measure.with_source(source, opt, f)
      now, asked[#asked + 1] = canonical.decode(source.spec).a.k, opt
      asked.source = source
      return f({ { names = function() return { 'fwd' } end } }, {})
    end
    function measure.compare(_, name, opt)
      if opt.progress then opt.progress('look at ' .. name) end
      if ps[now] == 'broken' then error('it broke', 0) end
      return { p = ps[now], verdict = verdict or 'faster', blocks = 36, procs = 6, ratio = 0.5,
        ci_lo = 0.4, ci_hi = 0.6, processes = {}, labels = { a = 'a', b = 'b' }, flags = {},
        design = 'ABBA', cache = 'warm', floor = 0, margin = 0.01, looks = 1, host = {} }
    end
    function ab.candidates(_, pair) return { { k = pair.a.k } } end
    local ks = {}
    for i in ipairs(ps) do ks[i] = i end
    local lab = { lease = function()
      return { try_shared = function() return #leased % 2 == 0 end,
        exclusive = function() leased[#leased + 1] = 'exclusive' end,
        drop = function() leased[#leased + 1] = 'drop' end,
        close = function() leased[#leased + 1] = 'close' end }
    end }
    local sw = sweep 'many' { space = { k = ks, impl = { 'a', 'b' } },
      measure = function() end }
    local opt = { a = { impl = 'a' }, b = { impl = 'b' }, keep = false, lab = lab,
      progress = function(text) said[#said + 1] = text end }
    for name, value in pairs(more or {}) do opt[name] = value end
    local ok, found = pcall(ab.run, sw, opt)
    measure.with_candidates, measure.with_source, measure.compare, ab.candidates = unpack(saved)
    return ok and found or { err = found }, said, asked, leased
  end

  it('are called up to a share of 5 % of wrong calls', function()
    -- q of the rank i of n is p n / i, and of no larger p more
    local found = run { 0.04, 0.001, 0.03, 0.2 }
    local want = { 0.16 / 3, 0.004, 0.16 / 3, 0.2 }
    for i, each in ipairs(found) do
      assert.near(want[i], each.q, 1e-12)
      local open = want[i] > 0.05
      assert.same({ open and 'open' or 'faster', open and 12 or nil }, { each.verdict,
        each.needed })
      assert.same({ { k = i }, 'fwd', { k = i, impl = 'a' }, { k = i, impl = 'b' } },
        { each.pair, each.phase, each.params.a, each.params.b })
    end
    assert.equal('faster', run({ 0.05 })[1].verdict)
    assert.equal('open', run({ 0.0501 }, nil, 'slower')[1].verdict)
    assert.equal('equal', run({ 0.9 }, nil, 'equal')[1].verdict)
  end)

  it('say what they are at, and have the machine alone pair by pair', function()
    local _, said, _, leased = run { 0.01, 0.01 }
    assert.same({ 'k=1 fwd: look at fwd', 'k=2 fwd: look at fwd' }, said)
    assert.same({ 'exclusive', 'drop', 'exclusive', 'drop', 'close' }, leased)
  end)

  it('go with the options that are for measuring, in other processes with the pair', function()
    local _, _, asked = run({ 0.01 }, { processes = 3, rigorous = true, blocks = 9, looks = 4,
      margin = 0.02, slot_ns = 1e5, check = false, tolerance = 0.1, protocol = 'demo', seed = 8 })
    local got = {}
    for _, name in ipairs { 'processes', 'rigorous', 'blocks', 'looks', 'margin', 'slot_ns',
        'check', 'tolerance', 'protocol', 'seed' } do
      got[#got + 1] = tostring(asked[1][name])
    end
    assert.equal('3 true 9 4 0.02 100000 false 0.1 demo 8', table.concat(got, ' '))
    _, _, asked = run({ 0.01, 0.02 }, { origin = { recipe = 'r.lua' }, phases = { 'fwd' } })
    assert.equal('ridge.cli.remote', asked.source.module)
    assert.same({ origin = { recipe = 'r.lua' }, sweep = 'many', a = { k = 2, impl = 'a' },
      b = { k = 2, impl = 'b' }, phases = { 'fwd' } }, canonical.decode(asked.source.spec))
    -- of several names that are none the first is told
    local wrong = { impl = 'a' }
    for c in ('qrstuvwxyz'):gmatch '.' do wrong[c .. c .. c] = 1 end
    assert.matches('sw:ab: a names qqq, which is no parameter; known: impl, k',
      tostring(run({ 0.01 }, { a = wrong }).err), 1, true)
    assert.matches('agree in impl: impl=a k=1 and impl=a k=2; say more in a or match',
      tostring(run({ 0.01, 0.02 }, { match = { 'impl' } }).err))
  end)

  it('are kept, a single one too, and those before one that breaks', function()
    local folder = folders.new()
    finally(function() folders.remove(folder) end)
    local facts = dofile('tests/lua/sweep/cheap_lab.lua').new().facts
    for i, case in ipairs { { { 0.01 }, 1 }, { { 0.01, 0.02 }, 2 }, { { 0.01, 'broken' }, 1 } } do
      local path = ('%s/%d.db'):format(folder, i)
      local found = run(case[1], { keep = true, db = path, lab = { facts = facts,
        lease = function() end } })
      assert.equal(i == 3 and 'it broke' or nil, found.err)
      local st = store.open(path, 'read')
      local rows = comparison.rows(st, 'many')
      assert.equal(case[2], #rows)
      for _, row in ipairs(rows) do
        assert.same({ 'a', 'b', 'faster', 0.5 }, { row.a.impl, row.b.impl, row.verdict, row.ratio })
      end
      st:close()
    end
  end)
end)

describe('points that failed', function()
  it('are told with their reasons in one line, so many of them at most', function()
    local folder = folders.new()
    finally(function() folders.remove(folder) end)
    local fixed = dofile 'tests/lua/cli/fixed_rows.lua'
    local live = require 'ridge.sweep.live'
    fixed.make(folder .. '/a.db')
    local db = require('ridge.store.sqlite').open(folder .. '/a.db', 'write')
    db:exec "UPDATE attempt SET message = 'it  broke\n\n  twice' WHERE message IS NOT NULL"
    db:close()
    local st = store.open(folder .. '/a.db', 'read')
    local query = require 'ridge.store.query'
    for _, name in ipairs { 'broken', 'half', 'widths' } do
      local sw, want = query.sweep(st, name), {}
      for _, row in ipairs(require('ridge.store.results').rows(st, sw.id)) do
        if not ({ ok = 1, pending = 1, running = 1, implied = 1 })[row.state] then
          want[#want + 1] = ('trial %d: %s: %s'):format(row.trial, row.state,
            row.reason and 'it broke twice' or '')
        end
      end
      assert.same(want, live.failures(st, sw, 99))
      assert.is_true(name ~= 'broken' or #want > 3)
      assert.same({ want[1], want[2] }, live.failures(st, sw, 2))
    end
    st:close()
  end)
end)

describe('the facts of a machine', function()
  it('are those of the core, where it knows them', function()
    local C, ffi = require 'ridge.ffi.lib', require 'ffi'
    local found, known = require('ridge.sweep.lab').facts(), C.rg_machine_facts()
    for name, field in pairs { sockets = 'n_sockets', cores = 'n_cores', threads = 'n_threads',
        l1d = 'l1d_bytes', l2 = 'l2_bytes', l3 = 'l3_bytes', ram = 'ram_bytes' } do
      local value = tonumber(known[field])
      assert.equal(value > 0 and value or nil, found.machine[name], name)
    end
    assert.is_truthy(found.machine.threads and found.machine.ram)
    assert.equal(ffi.string(known.cpu), found.machine.cpu)
    assert.same({ kind = 'cpu', uuid = 'cpu', name = found.machine.cpu, mem = found.machine.ram },
      found.device)
  end)
end)

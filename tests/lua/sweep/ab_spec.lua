-- SPDX-License-Identifier: MIT
-- Pairs of points of a sweep: which there are, how they are set up, compared and kept.

local ab = require 'ridge.sweep.ab'
local comparison = require 'ridge.store.comparison'
local folders = dofile 'tests/lua/store/folder.lua'
local ridge = require 'ridge'
local store = require 'ridge.store'
local sweep = require 'ridge.sweep'

-- the laboratory without its lease: whoever else measures on this machine is not waited for
local lab = {}
for name, value in pairs(require 'ridge.sweep.lab') do lab[name] = value end
lab.lease = function() return nil end

local SHORT = { level = 'quick', quiet_ns = 0, warm_min_ns = 1e6, warm_max_ns = 1e7 }

-- Chains of calls: `long` has four times as many.
local function declare(more)
  local given = {
    space = { impl = { 'short', 'long' }, k = { 4, 8 } },
    setup = function(p) return { x = ridge.ones(p.k, 16) } end,
    measure = function(p, c, m)
      m:time('fwd', ridge.graph(function()
        local y
        for _ = 1, p.impl == 'long' and 40 or 10 do y = c.x:exp() end
        return y
      end):plan())
      m:metric('k2', p.k * p.k)
    end,
  }
  for name, value in pairs(more or {}) do given[name] = value end
  return sweep 'pairs' (given)
end

local function message(fn, ...)
  local ok, err = pcall(fn, ...)
  assert.is_false(ok)
  return tostring(err)
end

describe('the pairs of a sweep', function()
  it('agree in what is matched', function()
    local pairs_found = ab.pairs(declare(), { impl = 'short' }, { impl = 'long' }, { 'k' })
    assert.equal(2, #pairs_found)
    for i, k in ipairs { 4, 8 } do
      assert.same({ k = k }, pairs_found[i].match)
      assert.same({ impl = 'short', k = k }, pairs_found[i].a)
      assert.same({ impl = 'long', k = k }, pairs_found[i].b)
    end
  end)

  it('agree in all other parameters when nothing is said', function()
    assert.equal(2, #ab.pairs(declare(), { impl = 'short' }, { impl = 'long' }))
    local one = ab.pairs(declare(), { impl = 'short', k = 4 }, { impl = 'long', k = 8 })
    assert.equal(1, #one)
    assert.same({}, one[1].match)
  end)

  it('stand in the order of their sizes', function()
    local many = declare { space = { impl = { 'short', 'long' }, k = { 16, 4, 128 } } }
    local found = ab.pairs(many, { impl = 'short' }, { impl = 'long' })
    for i, k in ipairs { 4, 16, 128 } do assert.same({ k = k }, found[i].match) end
    -- by the second parameter where the first is the same
    many = declare { space = { impl = { 'short', 'long' }, k = { 16, 4 }, n = { 9, 10 },
      way = { 'b', 'a' } } }
    found = ab.pairs(many, { impl = 'short' }, { impl = 'long' }, { 'k', 'way', 'n' })
    local order = {}
    for i, pair in ipairs(found) do
      order[i] = ('%d%s%d'):format(pair.match.k, pair.match.way, pair.match.n)
    end
    assert.equal('4a9 4a10 4b9 4b10 16a9 16a10 16b9 16b10', table.concat(order, ' '))
  end)

  it('leave out what has no partner', function()
    local sw = declare { where = function(p) return p.k == 4 or p.impl == 'short' end }
    assert.equal(1, #ab.pairs(sw, { impl = 'short' }, { impl = 'long' }))
  end)

  it('are refused where one of the lists names what is no parameter', function()
    for what, lists in pairs { a = { { imple = 'short' }, { impl = 'long' } },
        b = { { impl = 'short' }, { imple = 'long' } },
        match = { { impl = 'short' }, { impl = 'long' }, { 'imple' } } } do
      local ok, err = pcall(ab.pairs, declare(), unpack(lists))
      assert.is_false(ok)
      assert.matches(what .. ' names imple, which is no parameter', tostring(err), 1, true)
    end
  end)

  it('are refused when they are not pairs', function()
    local sw = declare()
    assert.truthy(message(ab.pairs, sw, { imp = 1 }, {}):find "did you mean 'impl'")
    assert.truthy(message(ab.pairs, sw, { impl = 'short' }, { impl = 'long' }, { 'kk' })
      :find 'match names kk')
    assert.truthy(message(ab.pairs, sw, { impl = 'short' }, { impl = 'none' })
      :find 'has a partner')
    assert.truthy(message(ab.pairs, sw, { impl = 'short' }, { impl = 'long' }, {})
      :find 'several points of a agree')
  end)
end)

describe('sw:ab', function()
  local folder, db
  before_each(function()
    folder = folders.new()
    db = folder .. '/ab.db'
  end)
  after_each(function() folders.remove(folder) end)

  local function run(sw, more)
    local opt = { a = { impl = 'short' }, b = { impl = 'long' }, db = db, processes = 1, lab = lab,
                  looks = 1, blocks = 6, protocol = SHORT }
    for name, value in pairs(more or {}) do opt[name] = value end
    return sw:ab(opt)
  end

  it('compares each pair, and keeps every slot', function()
    local results = run(declare())
    assert.equal(2, #results)
    for i, found in ipairs(results) do
      assert.equal('fwd', found.phase)
      assert.same({ k = 4 * i }, found.pair)
      assert.is_true(found.ratio > 1.5, found.ratio)
      assert.is_true(found.q >= found.p)
    end
    local st = store.open(db, 'read')
    local rows = comparison.rows(st, 'pairs')
    assert.equal(2, #rows)
    assert.equal(0, #comparison.rows(st, 'others'))
    local row = rows[2]
    assert.same({ impl = 'short', k = 4 }, row.a)
    assert.equal(results[1].ratio, row.ratio)
    assert.equal(results[1].verdict, row.verdict)
    assert.truthy(row.env_id)
    local blocks, given = comparison.blocks(row), results[1].processes[1].blocks
    assert.same(given, blocks)
    st:close()
  end)

  it('takes the paths that were measured on this machine, and keeps which', function()
    local choices, rows = require 'ridge.choices', require 'ridge.store.choices'
    local backend, t = ridge.backend, { ns = 10, lo = 9, hi = 11 }
    local before = backend.now()
    local st = store.open(db, 'write')
    rows.add(st, st:machine(lab.facts().machine), choices.versions(), { { operation = 'product',
      problem = '7x8x9 f32 f32*f32=f32 t1 base', path = 'onednn', standard = 'own', rounds = 15,
      times = { own = t, onednn = t }, at = 1e15 } })
    st:close()
    local said = {}
    local opt = { a = { impl = 'short', k = 4 }, b = { impl = 'long', k = 4 },
      progress = function(text) said[#said + 1] = text end }
    opt.choices = false
    run(declare(), opt)
    assert.is_nil(said[1]:find 'choice')
    opt.choices = nil
    said = {}
    run(declare(), opt)
    backend.forget_choices()
    backend.apply(before)
    assert.equal('1 choice of paths for this machine (ridge autotune)', said[1])
    st = store.open(db, 'read')
    local kept = st.db:query [[SELECT json_extract(e.vars, '$.choices') AS text FROM comparison c
      JOIN env e ON e.id = c.env_id ORDER BY c.id]]
    assert.same({ {}, { text = '7x8x9 f32 f32*f32=f32 t1 base: onednn' } }, kept)
    st:close()
  end)

  it('sets both up anew for each block, and checks them once', function()
    local n, checks, phases = {}, 0, {}
    local sw = declare {
      setup = function(p)
        n[p.impl] = (n[p.impl] or 0) + 1
        return { x = ridge.ones(p.k, 16) }
      end,
      check = function() checks = checks + 1 end,
      measure = function(_, c, m)
        for _, name in ipairs { 'fwd', 'again' } do
          m:time(name, ridge.capture(function() return c.x:exp() end))
        end
      end,
    }
    for _, found in ipairs(ab.run(sw, { a = { impl = 'short', k = 4 }, b = { impl = 'long', k = 4 },
        lab = lab, keep = false, blocks = 6, looks = 1, slot_ns = 1e5, protocol = SHORT })) do
      phases[#phases + 1] = found.phase
    end
    assert.same({ 'fwd', 'again' }, phases)
    -- once, and of each phase six blocks and two of A/A with two copies
    assert.same({ short = 1 + 2 * (6 + 2 * 2), long = 1 + 2 * (6 + 2 * 2) }, n)
    assert.equal(2, checks)
  end)

  it('says before any work that the database cannot be written', function()
    local set_up = 0
    local sw = sweep 'unkept' { space = { k = { 1, 2 } }, measure = function(_, _, m)
      set_up = set_up + 1
      m:time('fwd', function() end)
    end }
    local ok, err = pcall(sw.ab, sw, { a = { k = 1 }, b = { k = 2 }, db = '/dev/null/x.db',
      processes = 1 })
    assert.is_false(ok)
    assert.matches('/dev/null', tostring(err))
    assert.equal(0, set_up)
  end)

  it('keeps nothing when told', function()
    run(declare(), { keep = false })
    assert.is_nil(io.open(db))
  end)

  it('sets both up with the same draws, and refuses what computes something else', function()
    local function random(p, wrong)
      return { setup = function() return { x = ridge.randn(8, 8) } end,
               measure = function(q, c, m)
                 m:time('fwd', ridge.capture(function()
                   return q.impl == 'long' and wrong and c.x:relu() or c.x:exp()
                 end))
               end, space = { impl = { 'short', 'long' }, k = { p } } }
    end
    assert.equal(1, #run(declare(random(1, false))))
    assert.truthy(message(run, declare(random(1, true))):find 'fwd: result 1 of b is off by')
    assert.equal(1, #run(declare(random(1, true)), { check = false }))
  end)

  it('says which point cannot be compared, and why', function()
    assert.truthy(message(run, declare { setup = function(p, m)
      if p.impl == 'long' then m:infeasible 'too long' end
      return { x = ridge.ones(2) }
    end }):find('impl=long k=4: infeasible: too long', 1, true))
    assert.truthy(message(run, declare { check = function() return false, 'is wrong' end })
      :find 'impl=short k=4: check: is wrong')
    assert.truthy(message(run, declare(), { phases = { 'bwd' } }):find 'share no phase of bwd')
    assert.truthy(message(run, declare(), { lookz = 1 }):find 'unknown option')
  end)

  it('calls nothing by chance among many', function()
    -- 40 identical pairs with p values as chance makes them: the smallest is not a discovery
    local paired = require 'ridge.measure.paired'
    local ps = {}
    for i = 1, 40 do ps[i] = i / 41 end
    assert.is_true(paired.benjamini_hochberg(ps)[1] > 0.05)
  end)
end)

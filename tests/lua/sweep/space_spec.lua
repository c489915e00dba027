-- SPDX-License-Identifier: MIT
-- Spaces: values, conditions, the grid and its order.

local space = require 'ridge.sweep.space'

local function ks(plan)
  local out = {}
  for i, trial in ipairs(plan.trials) do out[i] = trial.params.k end
  return out
end

describe('values', function()
  it('of a range include the end that the step meets', function()
    assert.same({ 1, 2, 3 }, space.range(1, 3))
    assert.same({ 128, 256, 384 }, space.range(128, 500, 128))
    assert.same({ 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1 }, space.range(0, 1, 0.1))
    assert.same({ 5 }, space.range(5, 5))
  end)

  it('of a geometric range include the end', function()
    assert.same({ 1, 2, 4, 8 }, space.geom(1, 8))
    assert.same({ 1, 10, 100, 1000 }, space.geom(1, 1000, 10))
    assert.same({ 0.001, 0.01, 0.1 }, space.geom(1e-3, 0.1, 10))
    assert.same({ 3, 6 }, space.geom(3, 11))
    local most = space.geom(2 ^ 1021, (2 - 2 ^ -52) * 2 ^ 1023) -- behind the last comes infinity
    assert.equal(3, #most)
  end)

  it('in equal distances or ratios are as many as wanted', function()
    assert.same({ 0, 0.25, 0.5, 0.75, 1 }, space.between(0, 1, 5))
    assert.same({ 0.0001, 0.001, 0.01, 0.1 }, space.logs(1e-4, 1e-1, 4))
    for _, bad in ipairs { { 1, 1, 3 }, { 0, 1, 1 }, { 0, 1, 2.5 }, { 0, 1, 1e9 } } do
      assert.has_error(function() space.between(bad[1], bad[2], bad[3]) end)
      assert.has_error(function() space.logs(bad[1] + 1, bad[2], bad[3]) end)
    end
    assert.has_error(function() space.logs(0, 1, 3) end)
  end)

  it('name the number that is none', function()
    local named = { 'the first number', 'the last number', 'the number of values' }
    for _, name in ipairs { 'between', 'logs' } do
      for i, what in ipairs(named) do
        for _, none in ipairs { 0 / 0, 1 / 0, 'x' } do
          local given = { 1, 2, 3 }
          given[i] = none
          local ok, err = pcall(space[name], unpack(given))
          assert.is_false(ok, name .. ', ' .. what)
          assert.truthy(err.message:find(what, 1, true), err.message)
        end
      end
    end
  end)

  it('that probe stand on the edges of tiles and beside them', function()
    local list, seen = space.probe(60, 300), {}
    for i, k in ipairs(list) do
      seen[k] = true
      assert.is_true(i == 1 or k > list[i - 1])
    end
    for _, k in ipairs { 60, 63, 64, 65, 95, 96, 97, 127, 128, 129, 255, 256, 257, 300 } do
      assert.is_true(seen[k], k)
    end
    local odd = 0
    for _, k in ipairs(list) do
      if k % 2 == 1 and k % 16 ~= 1 and k % 16 ~= 15 then odd = odd + 1 end
    end
    assert.is_true(odd >= 3, 'odd ones between the edges')
    assert.has_error(function() space.probe(0, 8) end)
    assert.has_error(function() space.probe(8, 8) end)
    assert.has_error(function() space.probe(1.5, 8) end)
    assert.has_error(function() space.probe(1, 1e300) end)
  end)

  it('that make no list are refused', function()
    for _, bad in ipairs { { 3, 1 }, { 1, 3, 0 }, { 1, 3, -1 }, { 1, 1 / 0 }, { 0 / 0, 1 },
        { '1', 2 }, { 1, 1e9, 1e-3 } } do
      assert.has_error(function() space.range(bad[1], bad[2], bad[3]) end)
    end
    for _, bad in ipairs { { 0, 8 }, { 8, 1 }, { 1, 8, 1 }, { -1, 8 }, { 1, 8, 0.5 } } do
      assert.has_error(function() space.geom(bad[1], bad[2], bad[3]) end)
    end
    for _, name in ipairs { 'logs', 'between', 'random', 'geom', 'range' } do -- of finite numbers
      local a = (name == 'between' or name == 'random' or name == 'range') and -1e308 or 1e-320
      local ok, err = pcall(space[name], a, 1e308, name ~= 'random' and 5 or nil)
      assert.is_false(ok, name)
      assert.matches(name .. ': .* are too far apart', err.message)
    end
    -- 1.2 times the smallest number there is, is that number
    local ok, err = pcall(space.geom, 2 ^ -1074, 2 ^ -1072, 1.2)
    assert.is_false(ok)
    assert.matches('geom: .*is rounded to itself', (err.message:gsub('^geom%(.-%)', 'geom')))
    assert.has_error(function() space.any {} end)
    assert.has_error(function() space.any { 1, 1 } end)
    assert.has_error(function() space.any 'x' end)
    assert.has_error(function() space.when(true, { 1 }) end)
  end)
end)

describe('a space', function()
  local function refused(pattern, given, where, anchor)
    local ok, err = pcall(space.expand, given, where, 0, anchor)
    assert.is_false(ok)
    assert.matches(pattern, err.message, 1, true)
  end

  it('is every combination of its values', function()
    local plan = space.expand({ k = { 1, 2, 3 }, kind = { 'a', 'b' }, n = 64,
      on = { true, false } }, nil, 0)
    assert.equal(12, #plan.trials)
    local seen = {}
    for i, trial in ipairs(plan.trials) do
      assert.equal(i, trial.ord)
      assert.equal(64, trial.params.n)
      seen[space.label(trial.params)] = true
    end
    assert.is_true(seen['k=2 kind=b n=64 on=false'])
    assert.equal(0, plan.n_rejected)
  end)

  it('adds up with what where removed', function()
    local plan = space.expand({ a = space.range(1, 10), b = space.range(1, 10) },
      function(p) return p.a * p.b <= 20 end, 0)
    assert.equal(100, #plan.trials + plan.n_rejected)
    assert.equal(plan.n_points, #plan.trials)
    for _, trial in ipairs(plan.trials) do assert.is_true(trial.params.a * trial.params.b <= 20) end
  end)

  it('has parameters only where their condition holds', function()
    local plan = space.expand({ kind = { 'dense', 'sketched' },
      k = space.when(function(p) return p.kind == 'sketched' end, { 2, 4, 8 }) }, nil, 0)
    assert.equal(4, #plan.trials)
    for _, trial in ipairs(plan.trials) do
      assert.equal(trial.params.kind == 'sketched', trial.params.k ~= nil)
    end
  end)

  it('is in random order, the same for a seed and another for another', function()
    local given = { k = space.range(1, 50) }
    local a, b, c = space.expand(given, nil, 1), space.expand(given, nil, 1),
      space.expand(given, nil, 2)
    assert.same(ks(a), ks(b))
    assert.not_same(ks(a), ks(c))
    assert.not_same(space.range(1, 50), ks(a))
    table.sort(a.trials, function(x, y) return x.params.k < y.params.k end)
    assert.same(space.range(1, 50), ks(a))
    -- what it is does not depend on the order in which it is measured
    assert.equal(a.text, c.text)
  end)

  it('is measured coarsely first: wherever it stops, the whole of it has been seen', function()
    local list = ks(space.expand({ k = space.range(1, 65) }, nil, 3))
    local function first(n)
      local part = { unpack(list, 1, n) }
      table.sort(part)
      return part
    end
    assert.same({ 1, 33, 65 }, first(3))
    assert.same({ 1, 17, 33, 49, 65 }, first(5))
    assert.same({ 1, 9, 17, 25, 33, 41, 49, 57, 65 }, first(9))
    -- of two parameters: ends and middles of both, words all at once
    local plan = space.expand({ a = space.geom(1, 64), b = space.range(1, 9),
      kind = { 'x', 'y' } }, nil, 0)
    local seen = {}
    for i = 1, 18 do
      local p = plan.trials[i].params
      assert.truthy((p.a == 1 or p.a == 8 or p.a == 64) and (p.b == 1 or p.b == 5 or p.b == 9))
      seen[space.label(p)] = true
    end
    assert.is_true(seen['a=64 b=5 kind=y'])
    assert.not_same({ 1, 33, 65 }, { unpack(list, 1, 3) }) -- within a rung the order is random
  end)

  it('is as many random points as are wanted, the same for a seed', function()
    local given = { lr = space.random(1e-4, 1e-1, { log = true }), k = space.random(1, 8),
      kind = { 'a', 'b' } }
    local plan = space.expand(given, nil, 5, nil, 300)
    assert.equal(300, #plan.trials)
    local below, ks_seen = 0, {}
    for _, trial in ipairs(plan.trials) do
      local p = trial.params
      assert.is_true(p.lr >= 1e-4 and p.lr <= 1e-1)
      if p.lr < 10 ^ -2.5 then below = below + 1 end
      ks_seen[p.k] = (ks_seen[p.k] or 0) + 1
    end
    assert.is_true(below > 110 and below < 190, 'half of them lie in the lower half of the decades')
    for k = 1, 8 do assert.is_true(ks_seen[k] > 15, 'whole numbers, the ends as often') end
    assert.is_nil(ks_seen[9])
    assert.equal(plan.text, space.expand(given, nil, 5, nil, 300).text)
    assert.not_equal(plan.text, space.expand(given, nil, 6, nil, 300).text)
    -- a part of a grid has no point twice
    local part = space.expand({ k = space.range(1, 50) }, nil, 0, nil, 20)
    local once = {}
    for _, k in ipairs(ks(part)) do once[k] = (once[k] or 0) + 1 end
    assert.equal(20, #part.trials)
    for _, n in pairs(once) do assert.equal(1, n) end
    refused('samples says how many', { k = space.random(1, 8) })
    local ok, err = pcall(space.expand, { k = space.random(1, 8) }, nil, 0, nil, 9)
    assert.is_false(ok)
    assert.matches('only 8 of 9', err.message, 1, true)
    local function never() return false end
    ok, err = pcall(space.expand, { k = space.random(1, 8) }, never, 0, nil, 3)
    assert.is_false(ok)
    assert.matches('where refused 8', err.message, 1, true)
  end)

  it('is described by its points: another where with the same source is another space', function()
    local without = 3
    local function where(p) return p.k ~= without end
    local a = space.expand({ k = { 1, 2, 3, 4 } }, where, 0)
    without = 2
    assert.not_equal(a.text, space.expand({ k = { 1, 2, 3, 4 } }, where, 0).text)
  end)

  it('measures an anchor before the first point, after every 20, and at the end', function()
    local plan = space.expand({ k = space.range(1, 45) }, nil, 0, { k = 7 })
    local at, reps = {}, {}
    for i, trial in ipairs(plan.trials) do
      if trial.role == 'anchor' then
        at[#at + 1], reps[#reps + 1] = i, trial.rep
        assert.equal(7, trial.params.k)
      end
    end
    assert.same({ 1, 22, 43, 49 }, at)
    assert.same({ 0, 1, 2, 3 }, reps)
    refused('says nothing of the parameter k', { k = { 1 }, n = { 2 } }, nil, { n = 2 })
    refused("a parameter 'j' that", { k = { 1 } }, nil, { k = 1, j = 1 })
    refused('parameter k has the value nan', { k = { 1 } }, nil, { k = 0 / 0 })
    refused('parameter k has the value inf', { k = { 1 } }, nil, { k = math.huge })
    refused('(table)', { k = { 1 } }, nil, { k = { 1 } })
  end)

  it('says what is wrong with it', function()
    refused('no parameters', {})
    refused('no values', { k = {} })
    refused('twice', { k = { 1, 1 } })
    refused('(table)', { k = { {} } })
    refused('(function)', { k = print })
    refused('nan', { k = { 0 / 0 } })
    refused('sweep: "a b" cannot be the name', { ['a b'] = { 1 } })
    refused('sweep: number cannot be the name', { { 1 } })
    refused('field of that name', { state = { 1 } })
    refused('differ only in case', { k = { 1 }, K = { 1 } })
    refused('none of 2 combinations', { k = { 1, 2 } }, function() return false end)
    refused('list with holes', { k = { 1, nil, 3 } })
    refused("the key 'b'", { k = { b = 2 } })
    refused('more than 1000000', { a = space.range(1, 2000), b = space.range(1, 2000) })
  end)
end)

-- SPDX-License-Identifier: MIT
-- Random functions with what passes look for in them, behind each pass and each level: the bits of
-- the eager run where passes keep them, else no further off than rounding goes.
-- RIDGE_RANDOM_GRAPHS says how many (12), RIDGE_RANDOM_FIRST which is the first;
-- scripts/graph_random.lua prints figures of many.
local ridge = require 'ridge'
local near = require 'tests.lua.graph_near'

local MANY = dofile('tests/op/due.lua').setting('RIDGE_RANDOM_GRAPHS', 12)
local FIRST = dofile('tests/op/due.lua').setting('RIDGE_RANDOM_FIRST', 1)

ridge.graph.lines(false)

describe('random functions behind passes', function()
  it('give the same, or the same but for rounding where passes say so', function()
    local changed = {}
    for seed = FIRST, FIRST + MANY - 1 do
      local subject = near.subject(seed)
      for _, pass in ipairs(ridge.graph.passes()) do
        if pass.does then
          local verdict, _, where = subject:behind { pass.name }
          changed[pass.name] = (changed[pass.name] or 0) + (verdict ~= 'idle' and 1 or 0)
          local good = verdict == 'idle' or verdict == 'same'
            or pass.exactness ~= 'exact' and verdict ~= 'off'
          assert.is_true(good, ('function %d behind %s: %s, %s'):format(seed, pass.name, verdict,
            tostring(where)))
        end
      end
      assert.not_equal('off', (subject:behind 'aggressive'), 'aggressive, function ' .. seed)
    end
    for _, name in ipairs { 'recover', 'epilogue_fusion', 'fold_affine', 'elementwise_fusion' } do
      assert.is_true(changed[name] > 0, name)
    end
  end)

  it('say nothing of a norm of equal numbers, which is what rounding left', function()
    for _, seed in ipairs { 40488, 40606 } do
      assert.equal('open', (near.subject(seed):behind { 'recover' }), seed)
    end
  end)

  it('are told from others', function()
    local x = ridge.tensor { 1, 2, 0 / 0, 4 }
    assert.same({ 0.25, false }, { near.distance(x, ridge.tensor { 1, 3, 0 / 0, 4 }) })
    assert.same({ 0, true }, { near.distance(x, ridge.tensor { 1, 2, 3, 4 }) })
    assert.same({ math.huge, false }, { near.distance(x, ridge.tensor { 1, 0 / 0, 0 / 0, 4 }) })
    assert.same({ math.huge, false }, { near.distance(x, ridge.tensor { 1, 1 / 0, 0 / 0, 4 }) })
    assert.same({ math.huge, false }, { near.distance(x, ridge.ones(3)) })
    local function wrong(graph) -- a pass that is off by a fifth in one place
      for _, node in ipairs(graph:nodes()) do
        if node.op == 'linear' and not node.parent and not node.recomputed then
          local plain = graph:insert('linear', node.inputs, { before = node, args = node.args })
          local times = graph:insert('mul', { plain.outputs[1] }, { before = node,
            args = { scalar = 1, value = 1.2 } })
          graph:replace(node.outputs[1], times.outputs[1])
          return graph:remove(node)
        end
      end
    end
    local found = 0
    ridge.graph.pass('near_spec wrong', wrong, { exactness = 'reassociates' })
    for seed = 1, 12 do
      found = found + (near.subject(seed):behind { 'near_spec wrong' } == 'off' and 1 or 0)
    end
    assert.is_true(found > 2, found)
  end)
end)

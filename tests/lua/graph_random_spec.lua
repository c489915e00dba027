-- SPDX-License-Identifier: MIT
-- Graphs of random functions: recorded, checked, emitted and replayed three times with other
-- contents, they have the bits of the eager run; behind exact passes, each alone and all together,
-- the same ones. RIDGE_RANDOM_GRAPHS says how many (200), and RIDGE_RANDOM_FIRST which is the
-- first: one that failed runs again by its number.
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'
local functions = require 'tests.lua.graph_functions'

local MANY = tonumber(os.getenv 'RIDGE_RANDOM_GRAPHS' or 200)
local FIRST = tonumber(os.getenv 'RIDGE_RANDOM_FIRST' or 1)

local WAYS, ALL = { {} }, {}
for _, pass in ipairs(ridge.graph.passes()) do
  if pass.exactness == 'exact' and pass.does then
    ALL[#ALL + 1] = pass.name
    WAYS[#WAYS + 1] = { pass.name }
  end
end
WAYS[#WAYS + 1] = ALL

-- What each round of a function gave, and what was there after it; with `way` by a plan behind
-- these passes.
local function rounds(seed, way)
  ridge.seed(seed)
  local world = functions.world(seed)
  local f, plan = functions.of(world), nil
  local out = {}
  for round = 0, 3 do
    ridge.seed(100 + round)
    functions.refill(world, round)
    ridge.seed(200 + round)
    local results
    if not way then
      results = f()
    elseif round == 0 then
      plan = ridge.graph(f):check():optimize(way):check():plan()
    else
      results = plan:run()
    end
    out[round] = { results and bits.all(results), functions.bits(world) }
  end
  return out, plan and plan.graph
end

local function same(seed)
  local want = rounds(seed)
  for _, way in ipairs(WAYS) do
    local got, graph = rounds(seed, way)
    for round = 0, 3 do
      for part = round == 0 and 2 or 1, 2 do
        local a, b = want[round][part], got[round][part]
        local equal = #a == #b
        for i = 1, #a do equal = equal and a[i] == b[i] end
        assert.is_true(equal, ('function %d, passes %s, round %d: %s\n%s'):format(seed,
          table.concat(way, ' '), round, part == 1 and 'results' or 'what was there',
          tostring(graph)))
      end
    end
  end
end

describe('graphs of random functions', function()
  it('have the bits of the eager run, behind each exact pass and all of them', function()
    for seed = FIRST, FIRST + MANY - 1 do same(seed) end
  end)
end)

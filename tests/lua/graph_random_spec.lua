-- SPDX-License-Identifier: MIT
-- Graphs of random functions: recorded, checked, emitted and replayed three times with other
-- contents, they have the bits of the eager run; behind exact passes, each alone and all together,
-- and as plans of ridge.capture the same ones. RIDGE_RANDOM_GRAPHS says how many (200), and
-- RIDGE_RANDOM_FIRST which is the first: one that failed runs again by its number.
local ridge = require 'ridge'
local functions = require 'tests.lua.graph_functions'

ridge.graph.lines(false) -- they are no subject here, and would take most of the time

local MANY = dofile('tests/op/due.lua').setting('RIDGE_RANDOM_GRAPHS', 200)
local FIRST = dofile('tests/op/due.lua').setting('RIDGE_RANDOM_FIRST', 1)

local WAYS, ALL = { {} }, {}
for _, pass in ipairs(ridge.graph.passes()) do
  if pass.exactness == 'exact' and pass.does then
    ALL[#ALL + 1] = pass.name
    WAYS[#WAYS + 1] = { pass.name }
  end
end
WAYS[#WAYS + 1] = ALL
WAYS[#WAYS + 1] = 'captured'

local function way_name(way) return type(way) == 'table' and table.concat(way, ' ') or way end

local function same(seed)
  local want = functions.rounds(seed)
  for _, way in ipairs(WAYS) do
    local got, graph = functions.rounds(seed, way)
    for round = 0, 3 do
      for part = 1, 2 do
        local a, b = want[round][part], got[round][part]
        local equal = #a == #b
        for i = 1, #a do equal = equal and a[i] == b[i] end
        assert.is_true(equal, ('function %d, passes %s, round %d: %s\n%s'):format(
          seed, way_name(way), round, part == 1 and 'results' or 'what was there',
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

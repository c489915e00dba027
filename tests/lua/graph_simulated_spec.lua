-- SPDX-License-Identifier: MIT
-- Plans of graphs on a simulated GPU, where neighbours become one kernel and all of a plan a CUDA
-- graph: they have the bits of the eager run there.
local simulated = dofile 'tests/lua/simulated.lua'
local there = simulated.open()
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'
local functions = require 'tests.lua.graph_functions'
local nn, optim = ridge.nn, ridge.optim

local MANY = dofile('tests/op/due.lua').setting('RIDGE_RANDOM_GRAPHS', 30)
local ALL = {}
for _, pass in ipairs(ridge.graph.passes()) do
  if pass.exactness == 'exact' and pass.does then ALL[#ALL + 1] = pass.name end
end

local function case(name, f)
  it(name, function()
    if not there then return pending 'no nvcc: the simulated GPU was not built' end
    ridge.set_default_backend(ridge.backend.cuda {})
    f()
  end)
end

describe('plans of graphs on a GPU', function()
  case('leave out the second input of x + 1', function()
    local x = ridge.randn(5)
    local f = function() return (x + 1) * 2 - x, x:exp():pow(2) end
    local plan = ridge.graph(f):optimize { 'elementwise_fusion' }:plan()
    assert.same({ 'fused' }, plan:facts().steps)
    for _ = 1, 3 do
      x:copy_(ridge.randn(5))
      assert.same(bits.all(f()), bits.all(plan:run()))
    end
  end)

  case('train as the eager step does', function()
    local function run(planned)
      ridge.seed(1)
      local net = nn.Sequential(nn.Linear(6, 8, { seed = 1 }), nn.GELU(), nn.LayerNorm(8),
        nn.Dropout(0.25), nn.Linear(8, 1, { seed = 2 }))
      local x, y = ridge.randn(4, 6), ridge.randn(4, 1)
      local optimizer = optim.AdamW(net, { lr = 0.01 })
      local function step()
        optimizer:zero_grad()
        local loss = (net(x) - y):pow(2):mean()
        loss:backward()
        optimizer:step()
        return loss
      end
      local plan = planned and ridge.graph(step):optimize(ALL):plan() or not planned and step()
      local losses = {}
      for i = 1, 4 do losses[i] = bits.of(planned and plan:run() or step()) end
      return losses, bits.all(net:state())
    end
    local losses, state = run(false)
    local got, left = run(true)
    assert.same(losses, got)
    assert.same(state, left)
  end)

  case('are those of random functions', function()
    local function texts(...)
      local list = bits.flat((functions.rounds(...)))
      for i, text in ipairs(list) do list[i] = bits.settled(text) end
      return table.concat(list)
    end
    for seed = 1, MANY do
      local want = texts(seed)
      for _, way in ipairs { {}, ALL, 'captured' } do
        assert.is_true(want == texts(seed, way),
          ('function %d, %s'):format(seed, way == 'captured' and way or table.concat(way, ' ')))
      end
    end
  end)
end)

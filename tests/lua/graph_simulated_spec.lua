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

  -- Five steps with random numbers, call by call or replayed in a way.
  local function trained(recomputes, make, around)
    ridge.seed(1)
    local net = nn.Sequential()
    for i = 1, 3 do
      net:add(nn.Sequential(nn.Linear(8, 32, { seed = i, dropout = 0.2 }), nn.GELU(),
        nn.Dropout(0.25), nn.Linear(32, 8, { seed = 3 + i })))
    end
    net:train():recompute(recomputes and 3 or false)
    local x, y = ridge.randn(4, 8), ridge.randn(4, 8)
    local optimizer = optim.AdamW(net, { lr = 0.01 })
    local function step()
      optimizer:zero_grad()
      local loss = (net(x) - y):pow(2):mean()
      loss:backward()
      optimizer:step()
      return loss
    end
    local plan, losses = make and make(step) or not make and step() and nil, {}
    for i = 1, 5 do
      local function go() losses[i] = bits.of(plan and plan:run() or step()) end
      if around and i % 2 == 0 then around(go) else go() end
    end
    if plan then assert.is_true(plan:facts().device_graph, plan:facts().why) end
    return losses, bits.all(net:state(), ridge.rand(1))
  end

  case('draw for what is computed again what its first run drew', function()
    local want, left = trained(false)
    for i, make in ipairs { ridge.capture, -- nothing was computed again before
      function(f) return ridge.graph(f):plan() end,
      function(f) return ridge.graph(f):optimize(ALL):plan() end, false } do
      -- every second replay goes step by step, because somebody hears them
      for _, around in ipairs { false, ridge.profile, ridge.timeline } do
        local losses, after = trained(true, make, around)
        assert.same(want, losses, 'way ' .. i)
        assert.same(left, after, 'way ' .. i)
      end
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

  case('run recurrent layers, a node for each layer and direction', function()
    for _, class in ipairs { nn.LSTM, nn.GRU } do
      local layer = class(3, 4, { bidirectional = true })
      local x, h, c = ridge.randn(2, 3, 3), ridge.randn(2, 2, 4), ridge.randn(2, 2, 4)
      local function f() return layer(x, { h, class == nn.LSTM and c or nil }) end
      local g, n = ridge.graph(f), 0
      for _, node in ipairs(g:nodes()) do n = node.op == 'recurrent' and n + 1 or n end
      assert.equal(2, n)
      for _, plan in ipairs { g:plan(), g:optimize(ALL):plan(), ridge.capture(f) } do
        for _ = 1, 3 do
          for _, each in ipairs { x, h, c } do each:copy_(ridge.randn(unpack(each.shape))) end
          assert.same(bits.all(f()), bits.all(plan:run()))
        end
      end
    end
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

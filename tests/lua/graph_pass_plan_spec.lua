-- SPDX-License-Identifier: MIT
-- Plans of graphs on which passes ran: each pass alone, and all together, bits of the eager run.
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'
local nn, optim = ridge.nn, ridge.optim

local ALL = {}
for _, pass in ipairs(ridge.graph.passes()) do
  if pass.exactness == 'exact' and pass.does then ALL[#ALL + 1] = pass.name end
end

local function each_way()
  local ways = { ALL }
  for i, name in ipairs(ALL) do ways[i + 1] = { name } end
  return ways
end

-- The bits of f's plans behind passes are those of f, with other contents of x each time.
local function runs_as(f, x, contents)
  local g = ridge.graph(f, x)
  for _, way in ipairs(each_way()) do
    local plan = g:optimize(way):check():plan()
    for round = 1, 2 do
      x:copy_(contents and contents(round) or ridge.randn(unpack(x.shape)))
      ridge.seed(round)
      local want = bits.all(f(x))
      ridge.seed(round)
      assert.same(want, bits.all(plan:run()),
        ('%s, round %d\n%s'):format(table.concat(way, ' '), round, tostring(g)))
    end
  end
end

-- The same of a training step, of two equal nets: `make` gives a step of one, and its parameters.
local function trains_as(make)
  for _, way in ipairs(each_way()) do
    ridge.seed(5)
    local eager, eager_net = make()
    ridge.seed(5)
    local recorded, net = make()
    ridge.seed(6)
    local want = {}
    for i = 1, 4 do want[i] = bits.all(eager()) end
    ridge.seed(6)
    local plan = ridge.graph(recorded):optimize(way):check():plan()
    for i = 2, 4 do
      assert.same(want[i], bits.all(plan:run()), ('%s, step %d'):format(table.concat(way, ' '), i))
    end
    assert.same(bits.all(eager_net:state()), bits.all(net:state()), table.concat(way, ' '))
  end
end

-- Numbers of which arithmetic is not what one expects.
local function odd(n)
  local some = { 0, -0.0, 1 / 0, -1 / 0, 0 / 0, 1, -1, 1e-42, 3.4e38, 0.1 }
  local list = {}
  for i = 1, n do list[i] = some[i % #some + 1] end
  return list
end

-- A function of x drawn at random: calls, twice at times, views, writes in place, draws.
local function random_function(seed)
  local draw = seed
  local function pick(n)
    draw = (draw * 1103515245 + 12345) % 2147483648
    return math.floor(draw / 65536) % n + 1
  end
  local program = {}
  for i = 1, 6 + pick(10) do
    program[i] = { pick(18), pick(1000), pick(1000), pick(4) }
  end
  return function(x)
    local values, own = { x }, {}
    local function at(i) return values[i % #values + 1] end
    local function square(i)
      local y = at(i)
      return #y.shape == 2 and y.shape[1] == 4 and y.shape[2] == 4 and y or x
    end
    local calls = {
      function(a) return a:exp() end,
      function(a) return a:neg() end,
      function(a) return a * 1 end,
      function(a) return a - 0 end,
      function(a) return a / 1 end,
      function(a) return a + 0 end,
      function(a) return a * ridge.ones(4, 4) end,
      function(a, b) return a + b end,
      function(a, b) return a * b end,
      function(a) return a:transpose(1, 2) end,
      function(a, _, n)
        local y = a * 2
        y:narrow(1, n, 1):fill_(n)
        return y
      end,
      function(a, b)
        local y = a:neg()
        local view = y:transpose(1, 2)
        view:add_(b)
        return y
      end,
      function(a) return a:dropout(0.5) end,
      function() return ridge.rand(4, 4) end,
      function(a, b) return a:matmul(b) end,
      function(a) return a:softmax(1) end,
      -- what was read before is written over, itself or through a view, but for x
      function(a, b)
        if not own[a] then return a:exp() end
        a:mul_(b)
        return a
      end,
      function(a, _, n)
        if not own[a] then return a:exp() end
        a:transpose(1, 2):narrow(1, n, 1):mul_(n)
        return a:neg()
      end,
    }
    for _, step in ipairs(program) do
      local a = square(step[2])
      local y = calls[step[1]](a, square(step[3]), step[4])
      own[y] = y._t._storage ~= x._t._storage
      values[#values + 1] = y
    end
    local n = #values
    return values[n], values[math.max(1, n - 2)] + 1, values[math.max(1, n - 4)]:sum()
  end
end

describe('plans behind passes', function()
  it('have the bits of the eager run', function()
    ridge.seed(1)
    local net = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))
    runs_as(net, ridge.randn(4, 6))
    local conv = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm(4), nn.ReLU(), nn.MaxPool2d(2))
    runs_as(conv:eval(), ridge.randn(2, 3, 8, 8))
    runs_as(nn.LSTM(6, 4), ridge.randn(2, 5, 6))
    runs_as(nn.MultiHeadAttention(6, { heads = 2 }), ridge.randn(2, 5, 6))
    runs_as(nn.Dropout(0.5), ridge.randn(4, 6))
  end)

  it('have them for -0, inf, nan and what is denormal', function()
    for _, f in ipairs {
      function(x) return (x:neg() * 1):abs(), x:neg() * 1 end,
      function(x) return (x:neg() - 0):neg(), x:relu() - 0 end,
      function(x) return (x:neg() / 1):exp(), 1 / (x:neg() / 1) end,
      function(x) return 1 / (x:neg() + 0), 1 / (x:neg() - -0.0) end,
      function(x) return (x * x) + (x * x), (x:exp() * 1):matmul((x:exp() - 0):t()) end,
    } do
      runs_as(f, ridge.randn(4, 5), function() return ridge.tensor(odd(20)):reshape(4, 5) end)
    end
  end)

  it('train as the eager step does', function()
    for _, kind in ipairs { 'SGD', 'AdamW' } do
      trains_as(function()
        local net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))
        local x, y = ridge.randn(4, 6), ridge.randn(4, 1)
        local optimizer = optim[kind](net, { lr = 0.01 })
        return function()
          optimizer:zero_grad()
          local loss = (net(x) * 1 - y):pow(2):mean()
          loss:backward()
          optimizer:step()
          return loss
        end, net
      end)
    end
  end)

  it('are those of 200 functions drawn at random', function()
    for seed = 1, 200 do
      runs_as(random_function(seed), ridge.randn(4, 4))
    end
  end)

  it('write to what a caller may write to, and nothing else', function()
    local x = ridge.ones(2, 2)
    local plan = ridge.graph(function() return x * 1, x:exp(), x:exp() end):optimize(ALL):plan()
    local a, b, c = plan:run()
    b:fill_(7)
    a:fill_(8)
    assert.same({ { 1, 1 }, { 1, 1 } }, x:tolist())
    assert.are_not.same(b:tolist(), c:tolist())
  end)
end)

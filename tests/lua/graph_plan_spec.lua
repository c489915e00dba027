-- SPDX-License-Identifier: MIT
-- g:plan(): what a graph computes when it runs has the bits of the eager run.
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'
local nn, optim = ridge.nn, ridge.optim

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

-- The bits of a plan's runs are those of f's, with other contents of its inputs each time.
local function runs_as(f, ...)
  local inputs = { ... }
  local g = ridge.graph(f, ...)
  local plan = g:plan()
  for round = 1, 3 do
    for _, x in ipairs(inputs) do
      if x.dtype == 'f32' then x:copy_(ridge.randn(unpack(x.shape))) end
    end
    ridge.seed(round)
    local want = bits.all(f(...))
    ridge.seed(round)
    assert.same(want, bits.all(plan:run()), 'round ' .. round)
  end
  return g, plan
end

-- The same of a training step, of two equal nets: `make` gives a step of one, and its parameters.
local function trains_as(make)
  ridge.seed(5)
  local eager, eager_net = make()
  ridge.seed(5)
  local recorded, net = make()
  ridge.seed(6)
  local want = { bits.all(eager()) }
  for i = 2, 4 do want[i] = bits.all(eager()) end
  ridge.seed(6)
  local plan = ridge.graph(recorded):plan()
  for i = 2, 4 do assert.same(want[i], bits.all(plan:run()), 'step ' .. i) end
  assert.same(bits.all(eager_net:state()), bits.all(net:state()))
end

describe('a plan of a graph', function()
  it('has the bits of the eager run, whatever the inputs hold', function()
    ridge.seed(1)
    local x = ridge.randn(4, 6)
    local net = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))
    runs_as(net, x)
    net:eval()
    runs_as(net, x)
    local image = ridge.randn(2, 3, 8, 8)
    local conv = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm(4), nn.ReLU(), nn.MaxPool2d(2))
    runs_as(conv:eval(), image)
    local sequence = ridge.randn(2, 5, 6)
    runs_as(nn.LSTM(6, 4), sequence)
    runs_as(nn.GRU(6, 4), sequence)
    runs_as(nn.MultiHeadAttention(6, { heads = 2 }), sequence)
    runs_as(nn.Dropout(0.5), x)
    runs_as(function(a) return { a:transpose(1, 2):reshape(24), list = { a:t() + 1, 7 } } end, x)
  end)

  it('does what an optimizer\'s step does', function()
    for _, kind in ipairs { 'SGD', 'Adam', 'AdamW', 'Lion' } do
      trains_as(function()
        local net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))
        local x, y = ridge.randn(4, 6), ridge.randn(4, 1)
        local optimizer = optim[kind](net, { lr = 0.01 })
        return function()
          optimizer:zero_grad()
          local loss = (net(x) - y):pow(2):mean()
          loss:backward()
          optimizer:step()
          return loss
        end, net
      end)
    end
    trains_as(function()
      local net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm(3), nn.GELU(), nn.Flatten(),
        nn.Linear(108, 4))
      local x, y = ridge.randn(5, 1, 8, 8), ridge.tensor({ 0, 1, 2, 3, 0 }, { dtype = 'i64' })
      local optimizer = optim.SGD(net, { lr = 0.1, momentum = 0.9 })
      return function()
        optimizer:zero_grad()
        local loss = ridge.autocast('bf16', function() return nn.CrossEntropyLoss()(net(x), y) end)
        loss:backward()
        optimizer:step()
        return loss
      end, net
    end)
  end)

  it('runs nothing before it is run', function()
    local x, counter = ridge.ones(3), ridge.zeros(3)
    local g = ridge.graph(function() counter:add_(1); return counter + ridge.rand(3) * x end)
    assert.same({ 1, 1, 1 }, counter:tolist())
    ridge.seed(3)
    local plan = g:plan()
    assert.same({ 1, 1, 1 }, counter:tolist())
    local first = plan:run():tolist()
    ridge.seed(3)
    assert.same((ridge.rand(3) + 2):tolist(), first)
    assert.same({ 2, 2, 2 }, counter:tolist())
  end)

  it('counts no write before it is run, so that a backward pass of before goes on', function()
    local layer, sum = nn.Linear(3, 2), ridge.zeros(4, 2)
    local optimizer = optim.Adam(layer, { lr = 0.1 })
    local x = ridge.randn(4, 3):requires_grad_()
    local g = ridge.graph(function()
      optimizer:zero_grad()
      layer(x:detach()):sum():backward()
      optimizer:step()
      sum:add_(1)
    end)
    local y = (layer(x) * sum):sum()
    local plan = g:plan()
    y:backward()
    y = (layer(x) * sum):sum()
    plan:run()
    assert.matches('was written to since', failure(y.backward, y))
  end)

  it('writes to what requires a gradient, as the calls did that remembered none', function()
    local net, x = nn.Linear(3, 2, { seed = 1 }), ridge.randn(4, 3)
    local plan = ridge.graph(function()
      ridge.no_grad(function() net.weight:select(1, 1):fill_(0.5) end)
      return net(x)
    end):plan()
    ridge.no_grad(function() net.weight:fill_(2) end)
    local got = plan()
    assert.same({ { 0.5, 0.5, 0.5 }, { 2, 2, 2 } }, net.weight:tolist())
    assert.is_true(got:equal(net(x)))
  end)

  it('is made after passes have edited the graph', function()
    local blocks = nn.Sequential()
    for i = 1, 3 do
      blocks:add(nn.Sequential(nn.Linear(4, 4, { seed = i }), nn.GELU()))
    end
    local x = ridge.randn(2, 4)
    ridge.graph.pass('relu in block 2', function(graph)
      for _, node in ipairs(graph:nodes()) do
        if node.op == 'gelu' and node.module:match '^2' then
          local relu = graph:insert('relu', node.inputs, { after = node })
          graph:replace(node.outputs[1], relu.outputs[1])
          graph:remove(node)
        end
      end
    end)
    local g = ridge.graph(blocks, x)
    local h = g:optimize { 'relu in block 2' }
    local plan = h:plan()
    assert.same({ 'linear', 'gelu', 'linear', 'relu', 'linear', 'gelu' }, plan:facts().steps)
    assert.equal(g, plan.graph)
    assert.equal(h, plan.emitted)
    for _ = 1, 3 do
      x:copy_(ridge.randn(2, 4))
      local y = blocks[1](x)
      local want = blocks[3](blocks[2][1](y):relu())
      assert.equal(bits.of(want), bits.of(plan:run()))
      assert.equal(bits.of(blocks(x)), bits.of(g:plan():run()))
    end
  end)

  it('of a file gets its tensors by name', function()
    local net = nn.Sequential(nn.Linear(6, 4), nn.ReLU())
    local x = ridge.randn(3, 6)
    local g = ridge.graph.parse(ridge.graph(net, x):json())
    assert.matches('parameter 1.weight, %%1 %(f32%[4,6%]%) has no tensor; give it one',
      failure(g.plan, g))
    local constant = ridge.graph.parse((g:json():gsub('"parameter"', '"constant"')))
    assert.matches('constant 1.weight, %%1 .* has no tensor', failure(constant.plan, constant))
    assert.matches("the graph has no '1.wieght' %(did you mean '1.weight'%?%)",
      failure(g.plan, g, { tensors = { ['1.wieght'] = x } }))
    assert.matches('graph:plan: node %d+ %(linear, 1, [^ ]*graph_plan_spec%.lua:%d+%): '
      .. 'parameter 1.weight', failure(g.plan, g))
    assert.matches('1.weight: .* has the shape %[4,6%] and not that of',
      failure(g.plan, g, { tensors = { ['1.weight'] = x } }))
    assert.matches('graph:plan: a tensor is expected, got 5$',
      failure(g.plan, g, { tensors = { ['1.weight'] = 5 } }))
    local gone = ridge.ones(4, 6)
    gone:release()
    assert.matches('graph:plan: the tensor f32%[4,6%] was released$',
      failure(g.plan, g, { tensors = { ['1.weight'] = gone } }))
    local plan = g:plan { tensors = net:state() }
    assert.equal(bits.of(net(ridge.zeros(3, 6))), bits.of(plan:run()))
    assert.equal(bits.of(net(x)), bits.of(plan:run { input = x }))
    assert.equal(bits.of(net(x * 2)), bits.of(plan:run { x * 2 }))
    assert.matches("there is no input 'inputs' %(did you mean 'input'%?%)",
      failure(plan.run, plan, { inputs = x }))
    assert.matches('input input is the tensor f32%[3,6%], got the tensor f32%[2,6%]',
      failure(plan.run, plan, { input = ridge.zeros(2, 6) }))
    local captured = ridge.capture(net, x)
    assert.matches('have no names', failure(captured.run, captured, { input = x }))
  end)

  it('with tensors of its own does not ask the module that was recorded for its', function()
    local layer, other, x = nn.Linear(3, 2), nn.Linear(3, 2), ridge.randn(4, 3)
    local g = ridge.graph(ridge.inference, layer, x)
    local own, plan = g:plan(), g:plan { tensors = other:state() }
    local part = g:plan { tensors = { x, bias = other.bias } } -- but for those it has not
    layer.bias = ridge.ones(2)
    assert.matches('bias was replaced', failure(own.run, own))
    assert.same(bits.all { ridge.inference(other, x) }, bits.all { plan:run() })
    assert.is_true(part:is_current())
    layer.weight = ridge.ones(2, 3)
    assert.matches('weight was replaced', failure(part.run, part))

    local tied = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    tied[2].weight = tied[1].weight
    g = ridge.graph(ridge.inference, tied, x)
    plan = g:plan { tensors = { ['1.weight'] = ridge.ones(3, 3) } }
    tied[2].weight = ridge.zeros(3, 3)
    plan:run()
    tied[2].bias = ridge.ones(3)
    assert.matches('2.bias was replaced', failure(plan.run, plan))
  end)

  it('copies an output that a pass made another one or an input, and no other', function()
    local x = ridge.randn(2, 3)
    ridge.graph.pass('merge two', function(graph)
      local nodes = graph:nodes()
      graph:replace(nodes[2].outputs[1], nodes[1].outputs[1])
      graph:remove(nodes[2])
    end)
    local g = ridge.graph(function() return x + 1, x + 1 end)
    local plan = g:optimize { 'merge two' }:plan()
    local y, z = plan:run()
    assert.same({ 'add', 'copy' }, plan:facts().steps)
    assert.is_false(y:same_storage(z))
    assert.equal(bits.of(y), bits.of(z))
    ridge.graph.pass('nothing left', function(graph)
      local node = graph:nodes()[1]
      graph:replace(node.outputs[1], node.inputs[1])
      graph:remove(node)
    end)
    y = ridge.graph(function() return x * 1 end):optimize { 'nothing left' }:plan():run()
    assert.is_false(y:same_storage(x))
    assert.equal(bits.of(x), bits.of(y))
    assert.is_true(ridge.graph(function() return x end):plan():run():same_storage(x))
    plan = ridge.graph(function() local a = x + 1; return a, a:t() end):plan()
    y, z = plan:run()
    assert.same({ 'add' }, plan:facts().steps)
    assert.is_true(y:same_storage(z))
  end)

  it('takes inputs that lie in each other', function()
    local a, b = ridge.zeros(3), ridge.ones(3)
    local plan = ridge.graph(function(x, y) return x * 2 + y end, a, b):plan()
    for _ = 1, 4 do
      local x, y = a:clone(), b:clone()
      assert.same((y * 2 + x):tolist(), plan:run({ b, a }):tolist())
      assert.same({ y:tolist(), x:tolist() }, { a:tolist(), b:tolist() })
    end
    local y = plan:run()
    assert.same((y * 2 + b):tolist(), plan:run({ y }):tolist())
  end)

  it('is not made where a tensor is two of its inputs and one is written to', function()
    local function f(x, y)
      local before = y:exp()
      x:add_(1)
      return before + y:exp()
    end
    local g = ridge.graph(f, ridge.ones(3), ridge.ones(3))
    local x, y = ridge.zeros(3), ridge.zeros(3)
    for _, h in ipairs { g, g:optimize { 'common_subexpression_elimination' } } do
      assert.matches('input.1 and %%%d+ input.2 are written to apart from each other',
        failure(h.plan, h, { tensors = { ['input.1'] = x, ['input.2'] = x:narrow(1, 1, 3) } }))
      assert.same({ 2, 2, 2 }, h:plan({ tensors = { ['input.1'] = x, ['input.2'] = y } }):run()
        :tolist())
    end
    g = ridge.graph(function(a, b) return a + b end, ridge.ones(3), ridge.ones(3))
    assert.same({ 0, 0, 0 }, g:plan({ tensors = { ['input.1'] = y, ['input.2'] = y } }):run()
      :tolist())
    local whole = ridge.zeros(4) -- views of one storage are one value in the graph
    local left, right = whole:narrow(1, 1, 3), whole:narrow(1, 2, 3)
    runs_as(function() return left:mul_(2) * right end)
  end)

  it('needs memory for what is read later and nothing else', function()
    local x = ridge.randn(64, 64)
    local plan = ridge.graph(function()
      local y = x
      for _ = 1, 10 do y = (y + 1) * (y:tanh() + x) end
      return y
    end):plan()
    assert.is_true(plan:facts().buffer_bytes <= 4 * x.bytes, plan:facts().buffer_bytes / x.bytes)
    plan = ridge.graph(function()
      local y = x
      for _ = 1, 10 do
        local z = ridge.zeros(64, 64)
        z:add_(y)
        y = z
      end
      return y
    end):plan()
    assert.is_true(plan:facts().buffer_bytes <= 3 * x.bytes, plan:facts().buffer_bytes / x.bytes)
  end)

  it('gives tables as they were returned, one that is there twice as one', function()
    local x = ridge.ones(2)
    local plan = ridge.graph(function()
      local inner, outer = { x + 1 }, {}
      outer.a, outer.b, outer.self = inner, inner, outer
      return outer, inner
    end):plan()
    x:fill_(4)
    local outer, inner = plan:run()
    assert.equal(inner, outer.a)
    assert.equal(inner, outer.b)
    assert.equal(outer, outer.self)
    assert.same({ 5, 5 }, inner[1]:tolist())
  end)

  it('writes gradients into the tensors that parameters hold', function()
    local layer, x = nn.Linear(3, 2), ridge.randn(4, 3)
    local plan = ridge.graph(function() layer(x):mean():backward() end):plan()
    local grad = layer.weight.grad
    for _ = 1, 3 do
      x:copy_(ridge.randn(4, 3))
      plan:run()
      local other = layer:clone()
      other(x):mean():backward()
      assert.equal(bits.of(other.weight.grad), bits.of(grad))
      assert.equal(bits.of(other.bias.grad), bits.of(layer.bias.grad))
    end
  end)

  it('refuses what cannot be, and leaves no capture open', function()
    local layer, x = nn.Linear(3, 2), ridge.randn(4, 3)
    local g = ridge.graph(layer, x)
    assert.matches('another one is under way', failure(ridge.capture, function()
      g:plan()
      return x + 1
    end))
    layer.weight = ridge.ones(2, 3)
    local plan = g:plan()
    assert.matches('weight was replaced', failure(plan.run, plan))
    g = ridge.graph(function() return x + 1 end)
    x:release()
    assert.is_true(#g:plan():facts().steps == 1) -- the graph holds its inputs
    assert.same({ 2 }, ridge.capture(function() return layer.bias:select(1, 1):unsqueeze(1) * 0 + 2
    end):run():tolist())
  end)
end)

-- SPDX-License-Identifier: MIT
-- ridge.graph(f, ...): what a function computes, recorded.
local ridge = require 'ridge'
local nn, optim = ridge.nn, ridge.optim

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

-- The nodes that are in no body, by name.
local function ops(graph)
  local list = {}
  for _, node in ipairs(graph:nodes()) do
    if not node.parent then list[#list + 1] = node.op end
  end
  return table.concat(list, ' ')
end

local function bodies(node)
  local list = {}
  for _, inner in ipairs(node.body) do
    if inner.parent == node then list[#list + 1] = inner.op end
  end
  return table.concat(list, ' ')
end

local function names(values)
  local list = {}
  for i, value in ipairs(values) do list[i] = value.name or '?' end
  return table.concat(list, ' ')
end

describe('ridge.graph', function()
  it('has a node for each view and for each compound, with its body', function()
    local x = ridge.ones(2, 3)
    local g = ridge.graph(function(t) return t:transpose(1, 2):reshape(6) end, x)
    assert.equal('transpose reshape', ops(g))
    assert.same({ a = 1, b = 2 }, g:nodes()[1].args)
    assert.equal('copy view', bodies(g:nodes()[2]))
    g = ridge.graph(nn.BatchNorm(2), ridge.ones(4, 2, 3, 3))
    assert.equal('batch_norm', ops(g))
    assert.is_true(#g:nodes()[1].body > 2)
    g = ridge.graph(nn.LSTM(3, 4), ridge.ones(2, 5, 3))
    assert.equal('recurrent', ops(g):match 'recurrent')
    assert.is_nil(ops(g):find 'recurrent.*recurrent')
  end)

  it('knows inputs, parameters and outputs by their names, and the module of a node', function()
    local net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    local g = ridge.graph(net, ridge.ones(5, 3))
    assert.equal('linear relu linear', ops(g))
    assert.equal('input', names(g:inputs()))
    local read = {}
    for _, v in ipairs(g:values()) do
      if v.kind == 'parameter' then read[#read + 1] = v.name end
    end
    assert.same({ '1.weight', '1.bias', '3.weight', '3.bias' }, read)
    assert.equal('3', g:nodes()[3].module:match '3$')
    assert.equal('input', g:inputs()[1].kind)
    assert.same({ 5, 2 }, g:outputs()[1].value.shape)
    local two = ridge.graph(function(a, b) return { sum = a + b, list = { a * b, 7 } } end,
      ridge.ones(2), ridge.ones(2))
    assert.equal('input.1 input.2', names(two:inputs()))
    local out = {}
    for i, o in ipairs(two:outputs()) do out[i] = o.name end
    assert.same({ 'list.1', 'sum' }, out)
  end)

  it('holds a training step: gradients are outputs, what is written outside is a state', function()
    local net = nn.Linear(3, 2)
    local optimizer = optim.SGD(net, { lr = 0.1 })
    local x = ridge.ones(4, 3)
    local g = ridge.graph(function()
      local loss = net(x):mean()
      loss:backward()
      return loss
    end)
    local kinds = {}
    for _, o in ipairs(g:outputs()) do kinds[#kinds + 1] = o.kind .. ' ' .. (o.name or '') end
    assert.same({ 'returned ', 'gradient weight.grad', 'gradient bias.grad' }, kinds)
    -- a gradient that was there before and that nothing touches is none of it
    local forward = ridge.graph(net, x)
    assert.equal(1, #forward:outputs())
    assert.equal('input', names(forward:inputs()))
    -- nor is one that is only read
    local read = ridge.graph(function() return net(x):sum() + net.weight.grad:sum() end)
    assert.equal(1, #read:outputs())
    assert.matches('computes nothing that is seen outside',
      failure(ridge.graph, function() local _ = net(x) end))
    -- one that is added to is a state
    local again = ridge.graph(function() net(x):mean():backward() end)
    assert.equal(2, #again:states())
    optimizer:zero_grad()
    local step = ridge.graph(function()
      local loss = net(x):mean()
      loss:backward()
      optimizer:step()
    end)
    assert.is_true(#step:states() >= 2)
    local counter = ridge.zeros(3)
    local adds = ridge.graph(function() counter:add_(1) end)
    assert.equal(1, #adds:states())
    assert.equal('add', ops(adds))
  end)

  it('has a tensor that is given twice once, and what the function found by itself', function()
    local x, y = ridge.ones(3), ridge.ones(3)
    local g = ridge.graph(function(a, b) return a * b + y end, x, x)
    assert.equal('input.1 ?', names(g:inputs()))
    assert.equal('input.1 input.2', names(ridge.graph(function(a) return a + 1 end, x, y):inputs()))
  end)

  it('is the same for the same function, with and without the compiler', function()
    local net = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.LayerNorm(4))
    local x = ridge.ones(5, 3)
    local first = ridge.graph(net, x)
    for i = 1, 100 do
      if i == 50 then jit.off() end
      local g = ridge.graph(net, x)
      assert.is_true(g:same(first), i)
      if i % 10 == 0 then collectgarbage() end
    end
    jit.on()
    assert.is_false(first:same(ridge.graph(net, ridge.ones(6, 3))))
  end)

  it('has its draws, and what stands in no output too', function()
    local x = ridge.ones(4)
    local g = ridge.graph(function() local _ = x * 3; return x * 4 end)
    assert.equal('mul mul', ops(g))
    g = ridge.graph(function() return ridge.randn(3) + ridge.rand(3) end)
    assert.equal('normal uniform add', ops(g))
  end)

  it('has a tied parameter once, by the name that the state of its module has', function()
    local net = nn.Sequential(nn.Linear(3, 3, { bias = false }), nn.Linear(3, 3, { bias = false }))
    net[2].weight = net[1].weight
    local g = ridge.graph(function(x) net(x):sum():backward() end, ridge.randn(2, 3))
    local list = {}
    for _, value in ipairs(g:values()) do
      if value.kind == 'parameter' then list[#list + 1] = value.name end
    end
    for _, output in ipairs(g:outputs()) do list[#list + 1] = output.name end
    assert.same({ '1.weight', '1.weight.grad' }, list)
    assert.is_truthy(net:state()['1.weight'])
  end)

  it('has what is written to tensors without elements', function()
    for _, shape in ipairs { { 0 }, { 5, 0 }, { 0, 3, 2 } } do
      local x, y = ridge.zeros(shape), ridge.zeros(shape)
      local function f()
        x:add_(1):mul_(y)
        x:copy_(y + 2)
        y:fill_(3):neg_()
        return x * y, x:sum()
      end
      local g = ridge.graph(f):check()
      assert.is_true(ridge.graph.parse(g:json()):check():same(g))
      assert.equal(0, select(2, ridge.capture(f)()):item())
    end
  end)

  it('has arguments without elements as inputs', function()
    local net = nn.Sequential(nn.Linear(3, 4), nn.ReLU()):eval()
    local x, y = ridge.zeros(0, 3), ridge.zeros(1, 0)
    local g = ridge.graph(net, x)
    assert.equal('linear relu', ops(g))
    assert.same({ 0, 4 }, g:plan():run({ x }).shape)
    assert.same({ 0, 4 }, g:optimize 'aggressive':plan():run({ x }).shape)
    g = ridge.graph(function(a, b) return a + b end, y, ridge.zeros(0))
    assert.equal('add', ops(g))
    assert.equal(2, #g:inputs())
    g = ridge.graph(function(a) return a:mul_(2) end, y)
    assert.equal('mul', ops(g))
    assert.equal(1, #g:states())
    assert.same({ 1, 0 }, g:plan():run().shape)
  end)

  it('is written, read and edited like one from a file', function()
    local blocks = nn.Sequential()
    for i = 1, 3 do blocks:add(nn.Linear(4, 4, { seed = i })):add(nn.GELU()) end
    local g = ridge.graph(blocks, ridge.ones(2, 4))
    assert.is_true(ridge.graph.parse(g:json()):same(g))
    ridge.graph.pass('relu for the second gelu', function(graph)
      local n = 0
      for _, node in ipairs(graph:nodes()) do
        n = n + (node.op == 'gelu' and 1 or 0)
        if node.op == 'gelu' and n == 2 then
          local relu = graph:insert('relu', node.inputs, { after = node })
          graph:replace(node.outputs[1], relu.outputs[1])
          graph:remove(node)
        end
      end
    end)
    assert.equal('linear gelu linear relu linear gelu', ops(g:optimize {
      'relu for the second gelu' }))
    assert.equal('linear gelu linear gelu linear gelu', ops(g))
  end)

  it('says what cannot be recorded, and leaves nothing behind', function()
    local x = ridge.ones(3)
    assert.matches('a function is expected, got 5', failure(ridge.graph, 5))
    assert.matches('computes nothing that is seen outside', failure(ridge.graph, function() end))
    assert.matches('computes nothing that is seen outside',
      failure(ridge.graph, function() local _ = x + 1 end))
    assert.matches('oops', failure(ridge.graph, function() error 'oops' end))
    assert.matches('a plan is being captured', failure(ridge.graph, function()
      return x:tolist()
    end))
    assert.matches('another one is under way', failure(ridge.graph, function()
      return ridge.graph(function() return x + 1 end)
    end))
    assert.matches('under way', failure(ridge.capture, function()
      ridge.graph(function() return x + 1 end)
      return x
    end))
    local gone = ridge.ones(2)
    gone:release()
    assert.matches('was released', failure(ridge.graph, function(t) return t + 1 end, gone))
    require('ridge.ffi.ref').collect()
    local live = ridge.memory.stats().live
    for _ = 1, 20 do
      pcall(ridge.graph, function() local _ = x * 2; error 'oops' end)
    end
    require('ridge.ffi.ref').collect()
    assert.equal(live, ridge.memory.stats().live)
    assert.equal('add', ops(ridge.graph(function() return x + 1 end)))
    assert.same({ 2, 2, 2 }, ridge.capture(function() return x + 1 end)():tolist())
  end)

  it('records what a coroutine of its own does, and nothing that others do meanwhile', function()
    local x = ridge.ones(3)
    local graph
    local co = coroutine.create(function()
      graph = ridge.graph(function()
        local y = x + 1
        coroutine.yield()
        return y * 2
      end)
    end)
    assert(coroutine.resume(co))
    assert.same({ 0, 0, 0 }, (x - 1):tolist())
    assert.same({ 3, 3, 3 }, ridge.capture(function() return x * 3 end)():tolist())
    assert(coroutine.resume(co))
    assert.equal('add mul', ops(graph))
    -- one that is never resumed
    local left = coroutine.create(function()
      ridge.graph(function() coroutine.yield() return x end)
    end)
    assert(coroutine.resume(left))
    left = nil
    collectgarbage()
    collectgarbage()
    assert.equal('sub', ops(ridge.graph(function() return x - 1 end)))
    assert.is_nil(left)
  end)
end)

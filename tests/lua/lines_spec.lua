-- SPDX-License-Identifier: MIT
--- The line that makes a call: in graphs, and in what ridge.anomaly says of a gradient.
local ridge = require 'ridge'
local nn = ridge.nn

local function line() return debug.getinfo(2, 'l').currentline end

-- { 'mul:12', ... }: lines of this file, as offsets from `first`
local function lines_of(graph, first)
  local list = {}
  for i, node in ipairs(graph:nodes()) do
    local file, number = (node.line or ''):match '([^/]*):(%d+)$'
    list[i] = node.op .. (file == 'lines_spec.lua' and ' ' .. number - first or ' ' .. tostring(
      node.line))
  end
  return list
end

describe('a line', function()
  local first = line()
  local function f(x)
    for _ = 1, 2 do
      x = x * 2
      x = x + 1
    end
    return x:exp()
  end
  local WANTED = { 'mul 3', 'add 4', 'mul 3', 'add 4', 'exp 6' }

  it('stands at each node of a graph', function()
    assert.same(WANTED, lines_of(ridge.graph(f, ridge.ones(3)), first))
  end)

  it('is the same where the function had been compiled', function()
    local x = ridge.ones(3)
    for _ = 1, 300 do f(x) end
    assert.same(WANTED, lines_of(ridge.graph(f, x), first))
    for _ = 1, 300 do f(x) end -- and the compiler is on again
    assert.is_true((jit.status()))
    assert.same(WANTED, lines_of(ridge.graph(f, x), first))
  end)

  it('is that of the user, whatever of ridge lies between', function()
    local net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    local here = line()
    local graph = ridge.graph(function(x)
      local h = net(x)
      return ridge.no_grad(function()
        return h * 2
      end)
    end, ridge.ones(2, 3))
    assert.same({ 'linear 2', 'relu 2', 'mul 4' }, lines_of(graph, here))
    assert.equal('1', graph:nodes()[1].module)
  end)

  it('is that of the recording where the recorded function is none of the user\'s', function()
    local net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    local here = line()
    local graph = ridge.graph(net, ridge.ones(2, 3))
    assert.same({ 'linear 1', 'relu 1' }, lines_of(graph, here))
  end)

  it('is still there when a coroutine goes on in the middle of it', function()
    local here = line()
    local go_on = coroutine.wrap(function()
      return ridge.graph(function(x)
        return x:exp() * coroutine.yield()
      end, ridge.ones(2))
    end)
    go_on()
    f(ridge.ones(3)) -- at lines of its own, which nobody asks for
    local graph = go_on(2)
    assert.same({ 'exp 3', 'mul 3' }, lines_of(graph, here))
  end)

  it('of a gradient is that of the call whose gradient it is', function()
    local x = ridge.ones(3):requires_grad_()
    local here = line()
    local graph = ridge.graph(function()
      local y = x:exp()
      local z = y:sum()
      z:backward()
    end)
    local found = {}
    for _, text in ipairs(lines_of(graph, here)) do found[text] = true end
    assert.is_true(found['exp 2'] and found['sum 3'])
    assert.is_true(found['mul 2']) -- dy * exp(x)
    assert.is_true(found['expand 3'])
    assert.is_nil(found['mul 4'])
  end)

  it('of what is kept is that of the call that made it', function()
    local kept
    local here = line()
    local graph = ridge.graph(function(x)
      kept = x * 3
      return x * 4
    end, ridge.ones(2))
    local outputs = graph:outputs()
    assert.equal(2, #outputs)
    assert.equal('returned', outputs[1].kind)
    assert.is_nil(outputs[1].line)
    assert.equal('kept', outputs[2].kind)
    assert.matches('lines_spec%.lua:' .. here + 2 .. '$', outputs[2].line)
    assert.is_truthy(kept)
    assert.equal(outputs[2].line, graph:plan():facts().kept[1].line)
  end)

  it('is written to a file and read, and is no difference between two graphs', function()
    local kept
    local graph = ridge.graph(function(x)
      kept = x * 3
      return x:exp()
    end, ridge.ones(2))
    local read = ridge.graph.parse(graph:json())
    assert.same(lines_of(graph, 0), lines_of(read, 0))
    assert.equal(graph:outputs()[2].line, read:outputs()[2].line)
    local other = ridge.graph(f, ridge.ones(3))
    assert.is_true(other:same(ridge.graph(f, ridge.ones(3))))
    local first_line = other:nodes()[1].line
    assert.is_true(other:same(ridge.graph.parse((other:json():gsub(first_line:gsub('%p', '%%%0'),
      'elsewhere.lua:1')))))
    assert.is_truthy(kept)
  end)

  it('is what ridge.anomaly names, also of what had been compiled', function()
    local here = line()
    local function g(x)
      for _ = 1, 3 do
        x = x * 2
      end
      local root = x:sqrt()
      return root:sum()
    end
    local x = ridge.ones(3):requires_grad_()
    for _ = 1, 300 do g(x) end
    local zero = ridge.zeros(3):requires_grad_()
    local ok, err = pcall(ridge.anomaly, function()
      local y
      for _ = 1, 50 do
        g(x)
        y = g(zero)
      end
      y:backward()
    end)
    assert.is_false(ok)
    assert.matches('the gradient of the call at [^ ]*lines_spec%.lua:' .. here + 5 .. ':',
      err.message)
  end)

  it('is that of the call which keeps something for its gradient', function()
    local x = ridge.ones(3):requires_grad_()
    assert.is_nil(ridge.grad_saved(x:exp())[1].line)
    local here = line()
    local saved = ridge.anomaly(function()
      local y = x:exp()
      return ridge.grad_saved(y * 2)
    end)
    assert.equal('exp', saved[1].op)
    assert.matches('lines_spec%.lua:' .. here + 2 .. '$', saved[1].line)
  end)

  it('is told in a graph within ridge.anomaly, and goes on being told behind it', function()
    local here = line()
    local ok, err = pcall(ridge.anomaly, function()
      assert.same(WANTED, lines_of(ridge.graph(f, ridge.ones(3)), first))
      local zero = ridge.zeros(1):requires_grad_()
      local root = zero:sqrt()
      root:sum():backward()
    end)
    assert.is_false(ok)
    assert.matches('lines_spec%.lua:' .. here + 4 .. ':', err.message)
    assert.is_nil((debug.gethook()))
  end)

  it('leaves the hook that was there, which is called meanwhile', function()
    local counted = {}
    local function count(_, number)
      if debug.getinfo(2, 'S').source:find 'lines_spec' then counted[number] = true end
    end
    local compiles = jit.status()
    jit.off()
    debug.sethook(count, 'l')
    local graph = ridge.graph(f, ridge.ones(3))
    local found, mask = debug.gethook()
    debug.sethook()
    if compiles then jit.on() end
    assert.equal(count, found)
    assert.equal('l', mask)
    assert.is_true(counted[first + 3] and counted[first + 4] and counted[first + 6])
    assert.same(WANTED, lines_of(graph, first))
  end)

  -- What looks for handles that died goes over all slots there ever were.
  it('is called at no line of the search for dead handles, however many there were', function()
    local lines = 0
    collectgarbage 'stop' -- all of them are there at once
    for _ = 1, 3000 do ridge.ones(1) end
    collectgarbage 'restart'
    local compiles = jit.status()
    jit.off()
    debug.sethook(function()
      if debug.getinfo(2, 'S').source:find 'ffi/ref' then lines = lines + 1 end
    end, 'l')
    for _ = 1, 3 do
      collectgarbage()
      ridge.ones(1)
    end
    local left = debug.gethook()
    debug.sethook()
    if compiles then jit.on() end
    assert.equal('function', type(left))
    assert.truthy(lines > 0 and lines < 300, lines)
  end)

  it('is left out where nobody wants it', function()
    assert.is_true(ridge.graph.lines(false))
    local compiles
    local graph = ridge.graph(function(x)
      compiles = jit.status()
      return f(x)
    end, ridge.ones(3))
    assert.is_false(ridge.graph.lines(true))
    assert.is_true(compiles)
    for _, node in ipairs(graph:nodes()) do assert.is_nil(node.line) end
    assert.same(WANTED, lines_of(ridge.graph(f, ridge.ones(3)), first))
    for _, bad in ipairs { 0, 'no', {} } do
      assert.is_false((pcall(ridge.graph.lines, bad)))
    end
    assert.is_false((pcall(ridge.graph.lines)))
  end)

  it('is nobody\'s when f fails, and the compiler stays off where it was off', function()
    jit.off()
    local ok = pcall(ridge.graph, function() error 'x' end)
    local on = jit.status()
    jit.on()
    assert.is_false(ok)
    assert.is_false(on)
    assert.is_nil((debug.gethook()))
  end)
end)

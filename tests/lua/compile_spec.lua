-- SPDX-License-Identifier: MIT
-- ridge.compile: the results and bits of the function, plans by size, what happens where a mode
-- fails, training steps, what it says of its cost.
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'
local nn, optim = ridge.nn, ridge.optim

local MODES = { 'default', 'reduce-overhead', 'max-autotune', 'auto' }

-- A compiled function and the lines it says.
local function compiled(f, opts)
  local lines = {}
  opts = opts or {}
  opts.say = function(line) lines[#lines + 1] = line end
  return ridge.compile(f, opts), lines
end

local function mlp(seed)
  return nn.Sequential(nn.Linear(6, 16, { seed = seed }), nn.GELU(),
    nn.Linear(16, 4, { seed = seed + 1 })):eval()
end

-- An element as a number.
local function at(x, i) return x[i]:item() end

local function close(a, b) return (a - b):abs():max():item() < 1e-5 end

describe('ridge.compile', function()
  it('has a plan of its own inside ridge.inference, where modules evaluate', function()
    local net = nn.Sequential(nn.Linear(6, 4, { seed = 1 }), nn.BatchNorm(4))
    for _ = 1, 3 do net(ridge.randn(8, 6) + 2) end -- means that are not those of x
    local f, x = compiled(net, { mode = 'default' }), ridge.randn(5, 6)
    local trained = ridge.no_grad(f, x):clone()
    local inferred = ridge.inference(f, x):clone()
    assert.is_true(close(inferred, ridge.inference(net, x)))
    assert.is_false(close(trained, inferred))
    assert.equal(2, #f:report())
    ridge.inference(f, x)
    assert.equal(2, #f:report())
    assert.is_false(close(ridge.no_grad(f, x), inferred))
  end)

  it('gives what the function gives, in each mode and at each size', function()
    local net = mlp(1)
    for _, mode in ipairs(MODES) do
      local f = compiled(net, { mode = mode })
      for round = 1, 3 do
        for _, rows in ipairs { 2, 5 } do
          local x = ridge.randn(rows, 6)
          assert.is_true(close(f(x), net(x)), ('%s, round %d'):format(mode, round))
        end
      end
      local report = f:report()
      assert.equal(2, #report)
      assert.equal(3, report[1].calls)
      if report[1].mode ~= 'eager' then
        for _, key in ipairs { 'record_ms', 'passes_ms', 'emit_ms', 'first_ms', 'steady_ms',
          'eager_ms', 'cost_ms' } do
          assert.is_true(report[1][key] > 0, key)
        end
        assert.is_true(report[1].cost_ms > report[1].record_ms)
      end
      assert.matches('f32%[2,6%]', tostring(report))
    end
  end)

  it('takes what was found of the same graph without looking again', function()
    local x = ridge.randn(7, 11)
    local function f(y) return (y * 2):relu() + 1 end
    local first = compiled(f, { mode = 'max-autotune' })
    local again = compiled(f, { mode = 'max-autotune' })
    assert.is_true(first(x):equal(again(x)))
    assert.is_number(first:report()[1].tuned_ms)
    assert.is_nil(again:report()[1].tuned_ms)
    assert.same(first:report()[1].passes, again:report()[1].passes)
  end)

  it('hands out new tensors, or with reduce-overhead the same ones', function()
    local f = compiled(function(x) return x * 2 end)
    local a, b = f(ridge.ones(2)), f(ridge.ones(2) * 3)
    assert.same({ 2, 6 }, { at(a, 1), at(b, 1) })
    f = compiled(function(x) return x * 2 end, { mode = 'reduce-overhead' })
    f(ridge.ones(2))
    a, b = f(ridge.ones(2)), f(ridge.ones(2) * 3)
    assert.is_true(a:same_storage(b))
    assert.equal(6, at(a, 1))
      end)

  it('returns tables and numbers as the function does', function()
    local f = compiled(function(x, n, word) return { y = x * n, twice = { x + n } }, n, word end)
    for round = 1, 2 do
      local t, n, word = f(ridge.ones(2), round, 'a')
      assert.same({ round, 1 + round, round, 'a' }, { at(t.y, 1), at(t.twice[1], 1), n, word })
      t = f(ridge.ones(2) * 5, round, 'a')
      assert.equal(5 * round, at(t.y, 1))
    end
    assert.equal(2, #f:report())
    local ok, err = pcall(f, { ridge.ones(2) })
    assert.is_false(ok)
    assert.matches('argument 1 is a table', tostring(err))
  end)

  it('keeps so many sizes; the one that was used longest ago goes', function()
    local f, lines = compiled(function(x) return x:exp() end, { plans = 2 })
    for _, n in ipairs { 1, 2, 3, 1 } do f(ridge.ones(n)) end
    assert.equal(2, #f:report())
    assert.equal(4, #lines) -- each new plan says its cost
    assert.matches('^compile: f32%[1%]: a new plan in mode default, [%d.]+ ms %(record', lines[4])
    f(ridge.ones(1))
    f(ridge.ones(3))
    assert.equal(4, #lines)
  end)

  it('sees other contents of parameters, and compiles anew for others', function()
    local net = mlp(3)
    local f, lines = compiled(net)
    local x = ridge.randn(2, 6)
    f(x)
    net[1].weight:detach():mul_(2)
    assert.is_true(close(f(x), net(x)))
    net[1].weight = ridge.randn(16, 6)
    assert.is_true(close(f(x), net(x)))
    assert.matches('1.weight was replaced; it is compiled again', lines[2])
    net = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm(6)):eval()
    f, lines = compiled(net)
    f(x)
    net:train()
    local before = net[2].running_mean:clone()
    f(x)
    assert.matches('training mode now; it is compiled again', lines[2])
    assert.is_false(before:equal(net[2].running_mean))
  end)

  it('takes the function itself where it cannot be recorded, with one line', function()
    local f, lines = compiled(function(x) return x * x:sum():item() end)
    for _ = 1, 3 do assert.equal(2, at(f(ridge.ones(2)), 1)) end
    assert.equal(1, #lines)
    assert.matches('frozen in it; now the function as it is', lines[1])
    assert.equal('eager', f:report()[1].mode)
    assert.matches('frozen', f:report()[1].why)
    f = compiled(function(x) return x * x:sum():item() end, { fallback = false })
    for _ = 1, 2 do
      local ok, err = pcall(f, ridge.ones(2))
      assert.is_false(ok)
      assert.matches('frozen', tostring(err))
    end
    local own = compiled(function() error 'mine' end)
    local ok, err = pcall(own, ridge.ones(2))
    assert.is_false(ok)
    assert.matches('mine', tostring(err))
  end)

  it('does not call what failed halfway and had written once more', function()
    local count = ridge.zeros(1)
    local f, lines = compiled(function(x)
      count:add_(1)
      return x * x:sum():item()
    end)
    local ok, err = pcall(f, ridge.ones(2))
    assert.is_false(ok)
    assert.matches('had written to what was there before', tostring(err))
    assert.equal(1, at(count, 1))
    assert.equal(2, at(f(ridge.ones(2)), 1))
    assert.equal(2, at(count, 1))
    assert.equal(1, #lines)
  end)

  it('finds a plan that computes something else, and takes the next mode', function()
    local wrong = 0
    ridge.graph.pass('relu for tanh', function(graph)
      wrong = wrong + 1
      for _, node in ipairs(graph:nodes()) do
        if node.op == 'tanh' then
          local relu = graph:insert('relu', node.inputs, { after = node })
          graph:replace(node.outputs[1], relu.outputs[1])
          graph:remove(node)
        end
      end
    end)
    local f, lines = compiled(function(x) return x:tanh() end,
      { mode = 'reduce-overhead', passes = { 'relu for tanh' } })
    local x = ridge.randn(8)
    for _ = 1, 2 do assert.is_true(x:tanh():equal(f(x))) end
    assert.equal(3, #lines)
    assert.matches('mode reduce%-overhead: its plan computes something else: off by .*; now mode '
      .. 'max%-autotune$', lines[1])
    assert.matches('mode max%-autotune: .*; now mode default$', lines[2])
    assert.matches('mode default: .*; now the function as it is$', lines[3])
    assert.is_true(wrong >= 3)
    f, lines = compiled(function(y) return y:tanh() end, { mode = 'auto',
      passes = { 'relu for tanh' } })
    assert.is_true(x:tanh():equal(f(x)))
    assert.equal(4, #lines)
    f = compiled(function(y) return y:tanh() end, { passes = { 'relu for tanh' },
      fallback = false })
    assert.is_false((pcall(f, x)))
  end)

  it('writes to arguments as the function does', function()
    local f = compiled(function(x) return x:add_(1) * 2 end)
    local x = ridge.zeros(2)
    for round = 1, 3 do
      assert.equal(2 * round, at(f(x), 1))
      assert.equal(round, at(x, 1))
    end
    assert.matches('writes to its argument 1', f:report()[1].why)
  end)

  it('draws as the function does', function()
    local f = compiled(function(x) return x:dropout(0.5) + ridge.rand(4) end)
    local x = ridge.ones(4)
    for round = 1, 3 do
      ridge.seed(round)
      local want = bits.all(x:dropout(0.5) + ridge.rand(4))
      ridge.seed(round)
      assert.same(want, bits.all(f(x)))
    end
  end)

  it('refuses what requires a gradient', function()
    local f = compiled(function(x) return x * 2 end)
    local x = ridge.ones(2):requires_grad_()
    f(x):sum():backward()
    assert.equal(2, at(x.grad, 1))
    assert.matches('requires a gradient', f:report()[1].why)
  end)

  it('is a part of what is captured around it', function()
    local f = compiled(function(x) return x * 2 end)
    local x = ridge.ones(2)
    f(x)
    local plan = ridge.capture(function() return f(x) + 1 end)
    x:fill_(4)
    assert.equal(9, at(plan(), 1))
  end)

  it('runs under inference', function()
    local net = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5))
    local f, lines = compiled(net)
    local x = ridge.randn(2, 6)
    for _ = 1, 3 do
      assert.is_true(close(ridge.inference(net, x), ridge.inference(f, x)))
    end
    assert.equal(1, #lines)
  end)
end)

-- A training step on what it is called with, and all that it changes.
local MAKE = {
  ['a perceptron with dropout, by Adam'] = function()
    local net = nn.Sequential(nn.Linear(6, 8, { seed = 1 }), nn.GELU(), nn.Dropout(0.25),
      nn.Linear(8, 4, { seed = 2 }))
    local opt = optim.Adam(net:parameters(), { lr = 0.01 })
    return net, function(x)
      opt:zero_grad()
      local loss = net(x):square():mean()
      loss:backward()
      opt:step()
      return loss
    end, { 3, 6 }
  end,
  ['a convolution with batch norm, by SGD'] = function()
    local net = nn.Sequential(nn.Conv2d(2, 3, 3, { seed = 1, padding = 1 }), nn.BatchNorm(3),
      nn.ReLU())
    local opt = optim.SGD(net:parameters(), { lr = 0.01, momentum = 0.9 })
    return net, function(x)
      opt:zero_grad()
      local loss = (net(x) - 0.5):square():mean()
      loss:backward()
      opt:step()
      return loss
    end, { 2, 2, 5, 5 }
  end,
}

describe('a compiled training step', function()
  for name, make in pairs(MAKE) do
    it('has the bits of 1,000 eager ones: ' .. name, function()
      local want
      for way = 1, 2 do
        ridge.seed(3)
        local net, step, shape = make()
        local lines = {}
        if way == 2 then step, lines = compiled(step) end
        local losses = {}
        for i = 1, 1000 do
          losses[i] = bits.of(step(ridge.randn(unpack(shape))))
        end
        local now = { losses, bits.all(net:state()) }
        if way == 1 then
          want = now
        else
          assert.same(want, now)
          assert.equal(1, #lines)
          local row = step:report()[1]
          assert.same({ 'default', true, 1000 }, { row.mode, row.same, row.calls })
          assert.is_true(row.eager_ms > 0)
          assert.equal(bits.of(net:parameters()[1].tensor.grad):sub(1, 4), 'f32[')
        end
      end
    end)
  end

  it('is compared with the function itself at its second call', function()
    local of = setmetatable({ rate = 1 }, {}) -- fields of objects are not looked at
    local x = ridge.zeros(2)
    local f, lines = compiled(function(y)
      x:add_(y * of.rate)
      return x * 1
    end)
    f(ridge.ones(2))
    of.rate = 3 -- a number of Lua, which the plan has as it was
    assert.equal(4, at(f(ridge.ones(2)), 1))
    assert.matches('computes something else than the function: .*; now the function as it is',
      lines[2])
    assert.equal(7, at(f(ridge.ones(2)), 1))
    assert.equal(7, at(x, 1))
  end)
end)

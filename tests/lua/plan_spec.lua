-- SPDX-License-Identifier: MIT
local ridge = require 'ridge'

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return e
end

describe('plans', function()
  it('replay what was captured with what lies in the inputs now', function()
    local x, w = ridge.randn(4, 8), ridge.randn(8, 3)
    local plan = ridge.capture(function() return (x:matmul(w) + 1):relu() end)
    assert.is_true(plan:run():equal((x:matmul(w) + 1):relu()))
    x:copy_(ridge.randn(4, 8))
    assert.is_true(plan():equal((x:matmul(w) + 1):relu()))
    w:mul_(2)
    assert.is_true(plan:run(3):equal((x:matmul(w) + 1):relu()))
    assert.equal('matmul fused', table.concat(plan:facts().steps, ' '))
  end)

  it('of steps alone know what their modules held, too', function()
    local net = ridge.nn.Sequential(ridge.nn.Linear(3, 2), ridge.nn.Linear(2, 1))
    local x = ridge.ones(1, 3)
    local function body() return ridge.inference(net, x) end
    local plan = require('ridge.plan').steps(body) -- as %bench makes them
    assert.is_true(plan:is_current())
    assert.equal(body():item(), plan():item())
    net[2].bias = ridge.ones(1)
    assert.same({ false, '2.bias' }, { plan:is_current() })
    assert.matches('plan: 2.bias was replaced after the capture', tostring(failure(plan)))
    assert.equal(body():item(), require('ridge.plan').steps(body)():item())
  end)

  it('keep reads before the writes that follow, where both share memory but no places', function()
    local n = 100003 -- many pieces of one loop, for several threads
    for shift = -1, 1 do
      local begun = ridge.arange(0, n):to('f32') - n / 2
      local x, wanted = begun:clone(), begun:clone()
      local function part(of, from) return of:narrow(1, from, n - 2) end
      local function calls(of)
        local z = part(of, 2):neg()
        part(of, 2 + shift):relu_()
        return z
      end
      local z = calls(wanted)
      local plan = ridge.capture(function() return calls(x) end)
      x:copy_(begun) -- what is captured has run too
      assert.is_true(plan():equal(z), shift)
      assert.is_true(x:equal(wanted), shift)
      plan:release()
    end
  end)

  -- one walk over the steps, not one for each of them: 20,000 took 95 s
  it('give the names of all their steps in a number of calls that is always the same', function()
    local x = ridge.ones(1)
    local function calls_of(n)
      local plan = ridge.capture(function() for _ = 1, n do x:fill_(1) end end)
      local facts = require('ridge.guard').original(getmetatable(plan).facts)
      local n_calls, at, C = 0, 1
      while true do
        local name, value = debug.getupvalue(facts, at)
        if name == 'C' then C = value break end
        assert(name, 'facts calls the core')
        at = at + 1
      end
      debug.setupvalue(facts, at, setmetatable({}, { __index = function(_, name)
        n_calls = n_calls + 1
        return C[name]
      end }))
      local ok, f = pcall(facts, plan)
      debug.setupvalue(facts, at, C)
      assert(ok, f)
      assert.equal(n, #f.steps)
      assert.equal('fill', f.steps[n])
      return n_calls
    end
    assert.equal(calls_of(10), calls_of(20000))
  end)

  it('see a weight that was written to, packed or not', function()
    local layer, x = ridge.nn.Linear(64, 32, { seed = 1 }), ridge.randn(16, 64)
    local plan = ridge.capture(function() return layer(x) end)
    local before = plan():clone()
    ridge.no_grad(function() layer.weight:mul_(2) end)
    local after = plan()
    assert.is_false(after:allclose(before))
    assert.is_true(after:allclose(layer(x), 1e-5, 1e-5))
  end)

  it('draw fresh numbers at every replay', function()
    local x = ridge.ones(1000)
    local plan = ridge.capture(function() return x:dropout(0.5) end)
    local a = plan():clone()
    assert.is_false(plan():equal(a))
    ridge.seed(3)
    local eager = x:dropout(0.5)
    ridge.seed(3)
    assert.is_true(plan():equal(eager))
  end)

  it('refuse what cannot be replayed, at the line of the user', function()
    local x = ridge.ones(3)
    local line
    local e = failure(ridge.capture, function()
      line = debug.getinfo(1, 'l').currentline + 1
      if x:sum():item() > 1 then return x end
    end)
    assert.equal('ECAPTURE', e.code)
    assert.matches('plan_spec%.lua:' .. line, e.where)
    assert.equal('ECAPTURE', failure(ridge.capture, function()
      return x + ridge.tensor { 1, 2, 3 }
    end).code)
    -- and afterwards everything works again
    assert.equal(3, x:sum():item())
  end)

  it('survive an error inside, and refuse to nest', function()
    assert.matches('oops', tostring(failure(ridge.capture, function() error('oops') end)))
    assert.equal('ECAPTURE', failure(ridge.capture, function()
      ridge.capture(function() end)
    end).code)
    assert.is_not_nil(ridge.capture(function() return ridge.ones(2) end))
    assert.matches('function', failure(ridge.capture, nil).message)
  end)

  it('allocate nothing at replay', function()
    local x = ridge.randn(32, 64)
    local net = ridge.nn.Sequential(ridge.nn.Linear(64, 128), ridge.nn.ReLU(),
      ridge.nn.Linear(128, 64))
    local plan = ridge.capture(function() return net(x):softmax() end)
    local mem = require('ridge.ffi.lib').rg_memory_of(0)
    local before = tonumber(mem.n_requests)
    plan:run(100)
    assert.equal(before, tonumber(mem.n_requests))
  end)

  it('give their buffers back', function()
    collectgarbage()
    collectgarbage()
    local before = ridge.memory.stats()
    local plan = ridge.capture(function() return ridge.zeros(2 ^ 18) + 1 end)
    plan:release()
    collectgarbage()
    collectgarbage()
    assert.equal(before.live, ridge.memory.stats().live)
    for _, use in ipairs { plan.run, plan.facts } do
      assert.matches('plan: it was released', failure(use, plan).message)
    end
    assert.equal('EARG', failure(plan.run, plan).code)
  end)

  it('run a whole number of times that can be counted', function()
    local plan = ridge.capture(function() return ridge.ones(2) + 1 end)
    for _, n in ipairs { 1e300, -1, 0.5, 0 / 0, 1 / 0, 'x' } do
      assert.matches('it runs a whole number of times', failure(plan.run, plan, n).message)
    end
    assert.equal(4, plan.run(plan, 0):sum():item())
  end)

  it('take nothing that they would ignore', function()
    local plan = ridge.capture(function() return ridge.ones(2) + 1 end)
    for _, call in ipairs { function() plan:run(1, 2) end, function() plan(1, nil) end,
      function() plan:run(nil, ridge.ones(2)) end } do
      assert.matches('nothing behind it; got 2 arguments', failure(call).message)
    end
    assert.equal(4, plan:run():sum():item())
  end)

  it('have a line of help for each method', function()
    local plan = ridge.capture(function() return ridge.ones(2) + 1 end)
    local known = require('ridge.types').of(plan).methods
    for name, method in pairs(getmetatable(plan)) do
      if type(method) == 'function' and not name:find '^__' then
        assert.truthy(known[name], name)
      end
    end
    for name in pairs(known) do assert.is_function(plan[name], name) end
  end)

  it('stand on a shelf, from which the one goes that was used longest ago', function()
    local shelf = require('ridge.plan').shelf(2)
    assert.is_nil(shelf:put('a', 'first'))
    assert.is_nil(shelf:put('b', 'second'))
    assert.are.equal('first', shelf:get 'a')
    assert.are.equal('second', shelf:put('c', 'third'))
    assert.is_nil(shelf:get 'b')
    local left = {}
    for made in shelf:each() do left[#left + 1] = made end
    assert.same({ 'first', 'third' }, left)
  end)
end)

-- SPDX-License-Identifier: MIT
-- plan:clone(): the same plan again, over the same parameters.
local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'
local nn = ridge.nn

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

describe('a clone of a plan', function()
  it('has inputs and outputs of its own, and the parameters in common', function()
    ridge.seed(1)
    local net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm(4), nn.ReLU(), nn.Flatten(),
      nn.Linear(64, 8), nn.GELU(), nn.LayerNorm(8)):eval()
    local x = ridge.randn(2, 3, 6, 6)
    local plan = ridge.graph(function(a)
      local y = ridge.inference(net, a)
      return { y = y, list = { y * 2 } }
    end, x):plan()
    local clone = plan:clone()
    assert.not_equal(plan:handle(), clone:handle())
    local before = bits.all(plan:run())
    assert.same(before, bits.all(clone:run()), 'it begins with what the inputs held')
    local a, b = ridge.randn(2, 3, 6, 6), ridge.randn(2, 3, 6, 6)
    local function want(input)
      local y = ridge.inference(net, input)
      return bits.all { y = y, list = { y * 2 } }
    end
    for _ = 1, 3 do -- both sets of results are read behind both runs
      a:copy_(ridge.randn(2, 3, 6, 6))
      b:copy_(ridge.randn(2, 3, 6, 6))
      local p, q = plan:run { input = a }, clone:run { input = b }
      assert.same(want(a), bits.all(p))
      assert.same(want(b), bits.all(q))
    end
    for _, value in pairs(net:state()) do value:detach():mul_(0.5) end
    assert.same(want(a), bits.all(plan:run()))
    assert.same(want(b), bits.all(clone:run()))
    plan:release()
    assert.same(want(a), bits.all(clone:run { a }))
    assert.same(clone:facts().steps, clone:clone():facts().steps)
  end)

  it('runs in coroutines that take turns', function()
    local net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
    local plan = ridge.graph(function(x) return ridge.inference(net, x) end,
      ridge.zeros(3, 6)):plan()
    local done = 0
    local function worker(own)
      return coroutine.wrap(function()
        for _ = 1, 20 do
          local x = ridge.randn(3, 6)
          local y = own:run { input = x }
          coroutine.yield()
          assert.same(bits.all { ridge.inference(net, x) }, bits.all { y })
          done = done + 1
        end
      end)
    end
    local workers = { worker(plan), worker(plan:clone()), worker(plan:clone()) }
    for _ = 1, 21 do
      for _, step in ipairs(workers) do step() end
    end
    assert.equal(60, done)
  end)

  it('draws from a stream of its own', function()
    local function plans()
      ridge.seed(4)
      local plan = ridge.graph(function(x) return x:dropout(0.5), ridge.rand(4) end,
        ridge.ones(40)):plan()
      return plan, plan:clone(), plan:clone()
    end
    local plan, one, two = plans()
    local a, b = bits.all { one:run() }, bits.all { two:run() }
    assert.are_not.same(a, b)
    assert.are_not.same(bits.all { plan:run() }, a)
    assert.are_not.same(bits.all { one:run() }, a, 'it moves on')
    local _, same = plans()
    assert.same(a, bits.all { same:run() }, 'and is the same after the same seed')
    ridge.seed(9)
    local want = bits.all { ridge.rand(3) }
    ridge.seed(9)
    one:run()
    assert.same(want, bits.all { ridge.rand(3) }, 'that of the others stays where it is')
  end)

  it('has what is held outside and gradients for itself', function()
    local held
    local layer = nn.Linear(4, 2)
    local x = ridge.randn(3, 4)
    local plan = ridge.graph(function(a)
      held = a:exp()
      layer(a):sum():backward()
      return a * 2
    end, x):plan()
    plan:run()
    local clone = plan:clone()
    local before = bits.all { held, layer.weight.grad }
    local y = clone:run { input = ridge.ones(3, 4) }
    assert.equal(2, y:tolist()[1][1])
    assert.same(before, bits.all { held, layer.weight.grad })
  end)

  it('is refused where there can be none', function()
    local x = ridge.ones(3)
    local total = ridge.zeros(3)
    assert.truthy(failure(function() return ridge.capture(function() return x * 2 end):clone() end)
      :find('from a graph', 1, true))
    local message = failure(function()
      return ridge.graph(function(a) total:add_(a) end, x):plan():clone()
    end)
    assert.truthy(message:find('f32[3]', 1, true), message)
    local layer = nn.Linear(3, 2)
    local plan = ridge.graph(layer, ridge.ones(1, 3)):plan()
    local clone = plan:clone():clone()
    layer.weight = ridge.ones(2, 3)
    assert.truthy(failure(plan.clone, plan):find('was replaced', 1, true))
    assert.truthy(failure(clone.run, clone):find('was replaced', 1, true))
    plan:release()
    assert.truthy(failure(plan.clone, plan):find('released', 1, true))
  end)

  it('says so where there is no memory, and leaves the plan as it is', function()
    local layer, w = nn.Linear(4, 3), ridge.randn(3, 3)
    local x = ridge.randn(2, 4)
    local plan = ridge.graph(function(a)
      return ridge.inference(layer, a):matmul(w):dropout(0.5)
    end, x):plan()
    local slot = ffi.new 'rg_plan *[1]'
    local n, status = 0
    repeat
      n = n + 1
      C.rg_alloc_fail_at(n)
      status = tonumber(C.rg_plan_clone(plan:handle(), slot))
      C.rg_alloc_fail_at(0)
      assert.truthy(status == 0 or status == C.RG_ENOMEM, tostring(status))
    until status == 0
    assert.truthy(n > 40, n)
    assert.equal(0, tonumber(C.rg_plan_replay(slot[0], 2)))
    C.rg_plan_release(slot[0])
    plan:run()
  end)
end)

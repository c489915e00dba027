-- SPDX-License-Identifier: MIT
-- Plans of graphs in memory that is laid out by lifetimes: little more than what lives at one time;
-- results stay when the plan is gone.
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'
local functions = require 'tests.lua.graph_functions'
local nn = ridge.nn

-- Bytes that outputs take beside: blocks of their own, rounded up by an eighth.
local ROUNDING = 16 * 1024

local function within(g, what)
  local memory = g:memory()
  assert.is_true(memory.plan <= 1.1 * memory.live + ROUNDING,
    ('%s: %d of %d'):format(what, memory.plan, memory.live))
  assert.is_true(memory.bound <= memory.peak and memory.peak <= memory.live)
end

describe('the memory of a plan', function()
  it('is at most 1.1 times what lives at the peak', function()
    local function block(n)
      return nn.Residual(nn.Sequential(nn.Conv2d(n, n, 3, { padding = 1 }), nn.ReLU(),
        nn.Conv2d(n, n, 3, { padding = 1 })))
    end
    local nets = {
      lenet = { nn.Sequential(nn.Conv2d(1, 6, 5, { padding = 2 }), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 10)),
        ridge.ones(8, 1, 28, 28) },
      residual = { nn.Sequential(nn.Conv2d(3, 16, 3, { padding = 1 }), block(16), block(16),
        nn.AvgPool2d(4), block(16)), ridge.ones(4, 3, 32, 32) },
      -- attention has room of its own beside, which no value of the graph is
      transformer = { nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 256), nn.GELU(),
        nn.Linear(256, 64)), ridge.ones(4, 32, 64) },
    }
    for name, net in pairs(nets) do
      local g = ridge.inference(ridge.graph, net[1]:eval(), net[2])
      within(g, name)
      within(g:optimize 'aggressive', name)
    end
  end)

  it('has derived weights beside, and room for kernels', function()
    local conv = nn.Conv2d(16, 32, 3, { padding = 1, seed = 1 })
    local net = nn.Sequential(conv, nn.BatchNorm(32), nn.ReLU()):eval()
    local g = ridge.inference(ridge.graph, net, ridge.ones(1, 16, 48, 48))
    local plain, folded = g:memory(), g:optimize('aggressive'):memory()
    local weights = 32 * (16 * 9 + 1) * 4
    assert.same({ 0, 0 }, { plain.derived, plain.replaced })
    assert.is_true(folded.derived >= weights and folded.derived <= 2 * weights, folded.derived)
    assert.is_true(folded.replaced >= weights and folded.replaced <= 2 * weights, folded.replaced)
    assert.is_true(folded.plan - folded.derived <= 1.1 * folded.live + ROUNDING)
    assert.is_true(folded.peak <= plain.peak and folded.bound <= folded.peak)
    assert.matches('derived weights +1[89]', tostring(folded))

    local block = nn.TransformerBlock(64, { heads = 4 }):eval()
    local m = ridge.inference(ridge.graph, block, ridge.ones(2, 64, 64)):memory()
    assert.is_true(m.live > 1.1 * m.peak) -- attention's kernel
    assert.is_true(m.plan <= 1.1 * m.live, m.plan / m.live)
    local was = m.plan
    assert.equal(was, ridge.inference(ridge.graph, block, ridge.ones(2, 64, 64)):plan():facts()
      .buffer_bytes)
  end)

  -- Images in oneDNN's layouts, which steps work in, lie where the plan's buffers are free.
  it('is what the allocator gives for it, kernels and all, and is told before it runs', function()
    local function branch(n, kernel)
      return nn.Residual(nn.Sequential(nn.Conv2d(n, 2 * n, kernel, { padding = 'same', seed = 2 }),
        nn.ReLU(), nn.Conv2d(2 * n, n, 1, { seed = 3 })))
    end
    local net = nn.Sequential(nn.Conv2d(3, 32, 3, { padding = 1, seed = 1 }), branch(32, 3),
      nn.MaxPool2d(2), branch(32, 5), branch(32, 3), nn.Conv2d(32, 8, 3, { seed = 4 })):eval()
    local x = ridge.randn(1, 3, 56, 56)
    local want = ridge.inference(net, x)
    for _, passes in ipairs { false, 'standard', 'aggressive' } do
      local g = ridge.inference(ridge.graph, net, x)
      if passes then g = g:optimize(passes) end
      local told = g:memory()
      if not passes then assert.is_true(told.live > 1.1 * told.peak) end -- there is what to look at
      collectgarbage()
      collectgarbage()
      ridge.memory.trim()
      local before = ridge.memory.stats().reserved
      local plan = g:plan()
      local y
      for _ = 1, 3 do -- in the second run a step meets what others worked in
        y = plan:run()
        assert.is_true(y:allclose(want, 1e-4, 1e-5), tostring(passes))
      end
      local facts = plan:facts()
      assert.is_true(facts.buffer_bytes <= 1.02 * told.plan, ('%s: %d bytes, told %d'):format(
        tostring(passes), facts.buffer_bytes, told.plan))
      assert.is_true(facts.buffer_bytes - facts.kept_bytes <= 1.1 * facts.live_bytes + ROUNDING)
      assert.is_true(told.live >= told.peak)
      ridge.memory.trim()
      local taken = ridge.memory.stats().reserved - before
      local packed = taken - facts.buffer_bytes -- weights for the kernels, of the module's
      assert.is_true(packed >= 0 and packed < 1e6, packed)
      plan:release()
    end
  end)

  it('is shared by blocks of other sizes, which a pool would keep apart', function()
    local g = ridge.graph(function(a)
      for i = 1, 12 do a = ridge.concat({ a, a:narrow(1, 1, 3000 * i) }, 1):exp():sin() end
      return a:sum()
    end, ridge.ones(50000))
    local memory = g:memory()
    assert.is_true(memory.plan <= 1.1 * memory.peak, memory.plan / memory.peak)
  end)

  it('gives random functions the bits they have, and keeps results when it is gone', function()
    ridge.graph.lines(false)
    for seed = 31, 45 do
      local want, got = functions.rounds(seed), functions.rounds(seed, {})
      for round = 1, 3 do assert.same(want[round], got[round], seed) end
    end
    ridge.graph.lines(true)
    local x = ridge.randn(64, 64)
    local function f(a) return a:exp():sin() * 2 end
    local plan = ridge.graph(f, x):plan()
    local y = plan:run()
    local was = bits.all(y)
    plan:release()
    plan = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    for _ = 1, 4 do ridge.graph(f, x * 0):plan():run() end
    assert.same(was, bits.all(y))
  end)
end)

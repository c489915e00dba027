-- SPDX-License-Identifier: MIT
-- Plans as graphs of a simulated device: when they become one, on which stream, in which modes, and
-- what they give when others are set since.
local ffi = require 'ffi'
local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local nn, optim = ridge.nn, ridge.optim
local simulated = dofile 'tests/lua/simulated.lua'
local counted = dofile 'tests/lua/counted.lua'

local GPU = 'sim:0'
local FASTEST = 4 -- of the stand-in's algorithms: the heuristic names it last

describe('a plan on a device', function()
  if not simulated.open() then
    return it('is nothing here', function() pending 'no nvcc: no simulated device was built' end)
  end
  ffi.C.setenv('RG_SIM_BLAS_FAST', tostring(FASTEST), 1)

  local modes = C.rg_device_modes_now()

  local function reset()
    modes.vendor, modes.autotune, modes.deterministic, modes.tf32 = 1, 1, 0, 0
  end
  after_each(function()
    reset()
    ffi.C.setenv('RG_SIM_GRAPHS', '1', 1)
  end)

  local function on(stream, f, ...) return ridge.device.on_stream(GPU, stream, f, ...) end

  -- Each test has a shape of its own, so that no other has run its products.
  local size = 0
  local function product(rows)
    size = size + 1
    local x = ridge.randn(rows or 5, 11 + size):to(GPU)
    local w = ridge.randn(11 + size, 6):to(GPU)
    return function() return x:matmul(w) end, x, w
  end

  local function stream_of(plan)
    local facts = ffi.new 'rg_plan_facts'
    assert.equal(0, C.rg_plan_facts_of(plan:handle(), facts))
    return facts.stream
  end

  it('is a graph from the first replay on where it ran so before', function()
    local f = product()
    local plan = ridge.capture(f)
    assert.is_false(plan:facts().device_graph)
    local did = counted.during(plan.run, plan)
    assert.is_true(plan:facts().device_graph)
    assert.same({ 1, 0, 0, 0 }, { did.graphs, did.launches, did.waits, did.asked })
    assert.is_true(plan.results[1]:equal(f()))
  end)

  it('runs a chain that was made behind the capture before it is captured', function()
    local f = product()
    local plan = ridge.capture(function() return f():tanh() + 1 end)
    plan:run()
    assert.is_false(plan:facts().device_graph)
    plan:run()
    assert.is_true(plan:facts().device_graph)
    assert.is_true(plan.results[1]:equal(f():tanh() + 1))
  end)

  it('runs once on a stream where it has not run, and is captured there', function()
    local f = product()
    local plan = ridge.capture(f)
    on(5, plan.run, plan)
    assert.is_false(plan:facts().device_graph)
    assert.is_nil(plan:facts().why)
    on(5, plan.run, plan)
    assert.is_true(plan:facts().device_graph, plan:facts().why)
    assert.equal(5, stream_of(plan))
    local wanted = f()
    for stream = 0, 6, 2 do -- from elsewhere it goes on there
      local got = on(stream, plan.run, plan)
      assert.is_true(got:equal(wanted))
      assert.equal(5, stream_of(plan))
    end
  end)

  it('never notes what would have to be started, allocated or timed', function()
    for stream = 0, 7 do
      for _, mode in ipairs { 'tf32', 'deterministic', 'vendor', 'autotune' } do
        modes[mode] = 1 - modes[mode]
        local f = product()
        local plan = ridge.capture(function() return f():softmax() end)
        reset()
        on(stream, plan.run, plan)
        assert.equal(stream == 0, plan:facts().device_graph, mode)
        local did = counted.during(function() on(stream, plan.run, plan) end)
        local what = ('%s on stream %d: %s'):format(mode, stream, plan:facts().why or '')
        assert.is_true(plan:facts().device_graph, what)
        assert.same({ 0, 0, 0 }, { did.asked, did.allocations, did.waits }, what)
      end
    end
  end)

  it('has the algorithm that was the fastest in its own modes', function()
    modes.tf32 = 1
    local plan = ridge.capture(product())
    modes.tf32 = 0
    on(2, plan.run, plan, 2)
    assert.is_true(plan:facts().device_graph)
    assert.equal(FASTEST, counted.algorithm())
  end)

  it('keeps the modes it was captured in, whatever is set since', function()
    local multiply, x = product(40)
    local function f() return multiply():softmax() end
    x:copy_(x + 2 ^ -12) -- digits that tf32 has not
    local plans, wanted = {}, {}
    for tf32 = 0, 1 do
      modes.tf32 = tf32
      plans[tf32], wanted[tf32] = ridge.capture(f), f()
    end
    assert.is_false(wanted[0]:equal(wanted[1]))
    for i = 1, 12 do
      modes.tf32, modes.vendor = i % 2, i % 3 == 0 and 0 or 1
      for tf32 = 0, 1 do
        local did = counted.during(on, i < 3 and 1 or i % 4, plans[tf32].run,
          plans[tf32])
        assert.is_true(plans[tf32].results[1]:equal(wanted[tf32]), i)
        assert.equal(i == 1 and 0 or 1, did.graphs, i)
        assert.equal(i == 2, did.captured > 0, i)
      end
    end
  end)

  it('runs as often as it was asked to, whatever it is at that', function()
    local f = product()
    local n = ridge.zeros(1, { device = GPU })
    local plan = ridge.capture(function()
      n:add_(1)
      return f()
    end)
    local wanted = 1
    for i, each in ipairs { { 3, 5 }, { 3, 0 }, { 0, 1 }, { 1, 2 }, { 1, 7 } } do
      on(each[1], plan.run, plan, each[2])
      modes.tf32 = i % 2
      wanted = wanted + each[2]
      assert.equal(wanted, n:item())
    end
  end)

  it('draws the next numbers, as a graph or not', function()
    local x, w = ridge.ones(40, 30):to(GPU), ridge.randn(30, 8):to(GPU)
    local function f() return x:dropout(0.4):matmul(w) + ridge.rand(40, 8, { device = GPU }) end
    local turns = { { 0, 0, 1 }, { 4, 0, 3 }, { 4, 1, 1 }, { 4, 1, 2 }, { 4, 0, 1 }, { 2, 0, 2 },
      { 2, 1, 3 } }
    ridge.seed(3)
    local wanted = {}
    local function eager()
      wanted[#wanted + 1] = f()
    end
    eager()
    for _, turn in ipairs(turns) do
      for _ = 1, turn[3] do eager() end
    end
    ridge.seed(3)
    local plan = ridge.capture(f)
    local at = 1
    for i, turn in ipairs(turns) do
      modes.tf32 = turn[2]
      for _ = 1, turn[3] do
        at = at + 1
        on(turn[1], plan.run, plan)
        assert.is_true(plan.results[1]:equal(wanted[at]), i)
      end
    end
  end)

  it('that cannot be a CUDA graph says why, and is tried again only after a change', function()
    local f, x = product()
    local function drawn() return f() + ridge.rand(5, 6, { device = GPU }) end
    ridge.seed(2)
    local wanted = {}
    for i = 1, 8 do
      x:fill_(i)
      wanted[i] = drawn()
    end
    ridge.seed(2)
    x:fill_(1)
    local plan = ridge.capture(drawn)
    ffi.C.setenv('RG_SIM_GRAPHS', '0', 1)
    local tries = {}
    for i = 2, 8 do
      x:fill_(i)
      if i == 5 then modes.tf32 = 1 end -- no change for the plan
      if i == 7 then ffi.C.setenv('RG_SIM_GRAPHS', '1', 1) end
      local did = counted.during(on, i >= 5 and 3 or 0, plan.run, plan)
      tries[i] = did.captured > 0
      assert.is_true(plan.results[1]:equal(wanted[i]), i)
      assert.is_false(plan:facts().device_graph)
      assert.matches('no memory left', plan:facts().why)
    end
    assert.same({ nil, true, false, false, false, true, false, false }, tries)
    on(0, plan.run, plan, 2)
    assert.is_true(plan:facts().device_graph)
    assert.is_nil(plan:facts().why)
  end)

  it('gives in any order of streams and modes what the calls give in its own', function()
    local w = ridge.randn(9, 7):to(GPU)
    local x = ridge.zeros(3, 9):to(GPU)
    local a = ridge.zeros(3, 7):to(GPU)
    local function f() return a:add_((x:matmul(w) * 0.5):tanh()):sum(2) end
    local plan = ridge.capture(f)
    local state = 7
    local function pick(n)
      state = (state * 1103515245 + 12345) % 2147483648
      return math.floor(state / 65536) % n
    end
    local noted = 0
    for i = 1, 120 do
      modes.tf32, modes.vendor, modes.autotune = pick(2), pick(2), pick(3)
      local stream, before = pick(6) < 4 and 1 or pick(3), a:clone()
      x:copy_(ridge.randn(3, 9))
      local got = on(stream, plan.run, plan):clone()
      local sum = a:clone()
      a:copy_(before)
      reset()
      local wanted = f()
      assert.is_true(got:equal(wanted) and sum:equal(a), i)
      noted = noted + (plan:facts().device_graph and 1 or 0)
    end
    assert.is_true(noted > 100 and noted < 120, noted)
  end)

  it('trains on from stream to stream, whatever modes are set', function()
    local g = ridge.generator(3)
    local x = ridge.randn(16, 6, { generator = g })
    local y = x:argmax(2):to(GPU)
    x = x:to(GPU)
    local function make()
      local net = nn.Sequential(nn.Linear(6, 16, { seed = 1, activation = 'gelu' }),
        nn.Dropout(0.1), nn.Linear(16, 6, { seed = 2 })):train():to(GPU)
      local o = optim.AdamW(net, { lr = 0.01 })
      return net, function()
        o:zero_grad { set = true }
        local loss = nn.cross_entropy(net(x), y)
        loss:backward()
        o:step { scale = o:clip(1) }
        return loss
      end
    end
    local turns = { { 0, 1 }, { 3, 3 }, { 3, 2, tf32 = 1 }, { 1, 3, tf32 = 1 }, { 0, 2 } }
    local function run(step, planned)
      ridge.seed(6)
      step()
      local plan = planned and ridge.capture(step)
      if plan then step = function() plan:run() end else step() end
      for _, turn in ipairs(turns) do
        modes.tf32 = plan and turn.tf32 or 0
        for _ = 1, turn[2] do on(turn[1], step) end
      end
      reset()
    end
    local one, step = make()
    run(step, false)
    local two, other = make()
    run(other, true)
    for i, p in ipairs(one:parameters()) do
      assert.is_true(p.tensor:equal(two:parameters()[i].tensor), p.name)
    end
  end)
end)

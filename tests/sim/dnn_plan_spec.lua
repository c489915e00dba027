-- SPDX-License-Identifier: MIT
-- dnn_plan_spec: convolutions and attention in plans that became graphs of the simulated GPU, by
-- the stand-in for cuDNN: the same bits as the calls themselves, nothing that a capture forbids.
--
--   RIDGE_GPU=build/libridge_gpusim.so RIDGE_TEST_DEVICE=1 RIDGE_CUDNN=simulated

local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local nn, optim = ridge.nn, ridge.optim
local counted = dofile 'tests/lua/counted.lua'

local GPU = 'sim:0'
local STATIONS = 4 -- streams of a device that cuDNN works on

describe('cuDNN in a plan', function()
  local modes = C.rg_device_modes_now()

  modes.autotune = 2 -- else what comes once is our own kernels' (dnn_due_spec.lua)

  after_each(function()
    modes.vendor, modes.autotune, modes.deterministic, modes.tf32 = 1, 2, 0, 0
  end)

  local function on(stream, f, ...) return ridge.device.on_stream(GPU, stream, f, ...) end

  local size = 4 -- each network has a shape of its own, which no other test has planned

  local function image(dtype, opts)
    size = size + 1
    local x = ridge.randn(2, 3, size, 6):to(GPU):to(dtype)
    local w = ridge.randn(4, 3, 3, 3):to(GPU):to(dtype)
    local b = ridge.randn(4):to(GPU):to(dtype)
    return { x, w, b }, function(list)
      return list[1]:conv2d(list[2], { bias = list[3], padding = opts and opts.padding or 1 })
    end
  end

  local function heads(dtype, opts)
    size = size + 1
    local list = {}
    for i = 1, 3 do list[i] = ridge.randn(2, 2, size, 16):to(GPU):to(dtype) end
    return list, function(t) return nn.attention(t[1], t[2], t[3], opts) end
  end

  -- What f gives, and the gradients of what it was given, as one list.
  local function there_and_back(list, f)
    local leaves = {}
    for i, x in ipairs(list) do leaves[i] = x:detach():requires_grad_() end
    local y = f(leaves)
    local out = { y:detach() }
    local dy = y:detach() * 0.5
    for i, g in ipairs { ridge.grad(y, leaves, { dy = dy }) } do out[i + 1] = g end
    return out
  end

  local function same(a, b, what)
    for i, x in ipairs(a) do assert.is_true(x:equal(b[i]), what .. ' ' .. i) end
  end

  -- Replay on a stream until the plan is a graph: what the capturing replay asked for, and the
  -- replays before.
  local function noting(plan, stream)
    for before = 0, 1 do
      local did = counted.during(function() on(stream, plan.run, plan) end)
      if plan:facts().device_graph then return did, before end
    end
    error(plan:facts().why or 'it was not captured', 0)
  end

  local KINDS = {
    { 'a convolution', image, { 'f32', 'bf16', 'f16' } },
    { 'attention', heads, { 'bf16', 'f16' } },
    { 'causal attention', heads, { 'bf16' }, { causal = true } },
  }

  for _, kind in ipairs(KINDS) do
    it(('gives the same bits in a graph: %s and its gradients'):format(kind[1]), function()
      for _, dtype in ipairs(kind[3]) do
        for stream = 0, 1 do
          for deterministic = 0, 1 do
            local what = ('%s on stream %d, %d'):format(dtype, stream, deterministic)
            local list, f = kind[2](dtype, kind[4])
            modes.deterministic = deterministic
            local plan = ridge.capture(there_and_back, list, f)
            modes.deterministic = 0 -- which is nothing to the plan
            local did = noting(plan, stream) -- behind a replay that plans, compiles and times
            modes.deterministic = deterministic
            assert.same({ 0, 0, 0 }, { did.allocations, did.waits, did.launches }, what)
            ridge.no_grad(function() list[1]:copy_(ridge.randn(unpack(list[1]:size()))) end)
            on(stream, plan.run, plan)
            same(on(stream, there_and_back, list, f), plan.results[1], what)
            local eager = counted.during(function() on(stream, there_and_back, list, f) end)
            assert.is_true(eager.dnn >= 2, what)
            assert.equal(eager.dnn, did.dnn, what) -- all of it is cuDNN's in the graph too
          end
        end
      end
    end)
  end

  it('keeps its place in a workspace that grows behind it', function()
    local list, f = image 'f32'
    local plan = ridge.capture(there_and_back, list, f)
    plan:run(2)
    assert.is_true(plan:facts().device_graph)
    local wanted = there_and_back(list, f)
    local turned = ridge.randn(2, 3, 9, 11):to(GPU):transpose(3, 4)
    there_and_back({ turned, list[2], list[3] }, f) -- is copied into it
    plan:run(2)
    same(wanted, plan.results[1], 'after it')
  end)

  it('is left to our own kernels on streams that it does not work on, in a graph too', function()
    local list, f = image 'f32'
    local plan = ridge.capture(there_and_back, list, f)
    for stream = 1, 7 do on(stream, f, list) end -- whoever comes first has a place
    local with = 0
    for stream = 0, 7 do
      local wanted, dnn
      local did = counted.during(function() wanted = on(stream, there_and_back, list, f) end)
      dnn = did.dnn
      with = with + (dnn > 0 and 1 or 0)
      local other = ridge.capture(function() return unpack(there_and_back(list, f)) end)
      assert.equal(dnn, noting(other, stream).dnn, stream)
      same(wanted, other.results, stream)
      other:release()
    end
    assert.equal(STATIONS, with)
    plan:release()
  end)

  it('trains a network of both, the whole step in one graph', function()
    local x = ridge.randn(4, 3, 8, 8, { generator = ridge.generator(2) })
    local y = ridge.tensor({ 0, 1, 2, 1 }, { dtype = 'i64' }):to(GPU)
    x = x:to(GPU)
    local Net = nn.class 'Net'
    function Net:init()
      self.conv = self:child('conv', nn.Conv2d(3, 16, 3, { padding = 1, stride = 2, seed = 1 }))
      self.att = self:child('att', nn.MultiHeadAttention(16, { heads = 2, seed = 2 }))
      self.out = self:child('out', nn.Linear(16, 3, { seed = 3 }))
    end
    function Net:forward(v)
      v = self.conv(v):relu():reshape(4, 16, 16):transpose(2, 3)
      return self.out((v + self.att(v)):mean(2))
    end
    local function make(dtype)
      local net = Net():train():to(GPU)
      local o = optim.AdamW(net, { lr = 0.01 })
      local scaler = optim.GradScaler { scale = 64, interval = 3 }
      return net, function()
        o:zero_grad { set = true }
        local loss = nn.cross_entropy(ridge.autocast(dtype, net, x), y)
        scaler:scale(loss):backward()
        scaler:step(o, { clip = 1 })
        return loss
      end
    end
    for stream, dtype in pairs { [0] = 'bf16', [1] = 'f16' } do
      local eager, step = make(dtype)
      for _ = 1, 8 do on(stream, step) end
      local calls = counted.during(function() on(stream, step) end)
      assert.is_true(calls.dnn >= 4, calls.dnn) -- conv, its weight's gradient, attention twice
      local planned, again = make(dtype)
      on(stream, again)
      local plan = on(stream, ridge.capture, again)
      local did, before = noting(plan, stream)
      assert.equal(calls.dnn, did.dnn)
      assert.same({ 1, 0, 0, 0 }, { did.graphs, did.launches, did.allocations, did.waits })
      did = counted.during(function() on(stream, plan.run, plan, 6 - before) end)
      assert.same({ 6 - before, 0, 0, 0, 0 },
        { did.graphs, did.launches, did.allocations, did.waits, did.dnn })
      for i, p in ipairs(eager:parameters()) do
        assert.is_true(p.tensor:equal(planned:parameters()[i].tensor), dtype .. ' ' .. p.name)
      end
    end
  end)
end)

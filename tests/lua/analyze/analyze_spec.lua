-- SPDX-License-Identifier: MIT
-- net:analyze: every moment and every operation in one layer, or outside; and the net is as before.

local ridge = require 'ridge'
local nn = ridge.nn
local layers_of = require 'ridge.analyze.layers'
local step = require 'ridge.analyze.step'
local times = require 'ridge.analyze.times'
local watch = require 'ridge.analyze.watch'

local COUNTED = { rounds = 0, roof = false }

local function cnn()
  return nn.Sequential(nn.Conv2d(2, 4, 3, { padding = 1 }), nn.BatchNorm(4), nn.ReLU(),
    nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 4 * 4, 3))
end

local function transformer()
  local function block() return nn.TransformerBlock(8, { heads = 2, causal = true }) end
  return nn.Sequential(block(), block(), nn.LayerNorm(8))
end

local NETS = { { 'a CNN', cnn, { 3, 2, 8, 8 } }, { 'a transformer', transformer, { 2, 5, 8 } } }

local function refused(f, pattern)
  local ok, err = pcall(f)
  assert.is_false(ok)
  assert.matches(pattern, tostring(err))
  assert.matches('analyze_spec', tostring(err)) -- the user's line
end

local function by_name(a)
  local by = {}
  for _, layer in ipairs(a.layers) do by[layer.name] = layer end
  return by
end

describe('the account of a step', function()
  for _, case in ipairs(NETS) do
    it('of ' .. case[1] .. ' holds each moment once', function()
      local net, x = case[2](), ridge.randn(case[3])
      local job = { net = net, args = { n = 1, x }, backward = true, device = 'cpu' }
      local layers = layers_of.of(net)
      local watched = watch.run(function() return step.run(job) end, function(path, module)
        layers:hear(path, module, 0)
      end)
      local at = watched.at
      local found = watch.read(watched, layers)
      local sum, of_layers = 0, 0
      for row, of in pairs(found.rows) do
        for _, phase in pairs(of) do
          assert.is_true(phase.ns >= 0)
          sum = sum + phase.ns
          of_layers = of_layers + (row ~= found.outside and phase.ns or 0)
        end
      end
      assert.equal(at[3] - at[0], sum)
      assert.is_true(of_layers > 0)
      assert.equal(at[1] - at[0], found.ns.forward)
    end)

    it('of ' .. case[1] .. ' holds each operation once', function()
      local net, x = case[2](), ridge.randn(case[3])
      local a = net:analyze(x, COUNTED)
      -- the same step by another way: as a graph, whose nodes are counted by the core
      local function facts(f, ...)
        local plan = ridge.graph(f, ...):plan()
        local flops = plan:facts().flops
        plan:release()
        return flops
      end
      assert.equal(facts(ridge.no_grad, net, x), a.flops + a.other_flops)
      local whole = facts(function()
        local y = net(x):sum()
        y:backward()
        return y
      end)
      local out = a.outside
      assert.equal(whole, a.flops + a.other_flops + a.backward_flops + a.backward_other_flops
        + out.other_flops + out.backward_other_flops)
      for _, p in ipairs(net:parameters()) do p.tensor:zero_grad() end
    end)

    it('of ' .. case[1] .. ' adds up as it is told', function()
      local a = case[2]():analyze(ridge.randn(case[3]), { rounds = 3, roof = false })
      local ms, share, back = 0, 0, 0
      for _, layer in ipairs(a.layers) do
        ms, share = ms + layer.ms + layer.backward_ms, share + layer.share
      end
      assert.near(a.watched_ms, ms + a.outside.ms + a.outside.backward_ms, 1e-9)
      assert.near(1, share + (a.outside.ms + a.outside.backward_ms) / a.watched_ms, 1e-9)
      assert.equal(3, a.rounds)
      assert.is_true(a.step_ms > 0 and a.ms > 0 and a.backward_ms > 0 and a.ms < a.step_ms)
      for _, layer in ipairs(a.layers) do
        if layer.flops > 0 then
          assert.near((layer.flops + layer.other_flops) / layer.ms / 1e6, layer.gflops, 1e-9)
        end
        if layer.backward_flops > 0 then
          assert.near((layer.backward_flops + layer.backward_other_flops) / layer.backward_ms / 1e6,
            layer.backward_gflops, 1e-9)
          back = back + 1
        end
      end
      assert.is_true(back > 0)
    end)
  end

  it('has shares of a step below a millisecond, and none of one that takes nothing', function()
    local was = times.of
    for _, case in ipairs { { 1e-3, 1 }, { 0, 0 } } do
      times.of = function(...)
        local told = was(...)
        for _, row in pairs(told.rows) do row[1], row[2] = row[1] * case[1], row[2] * case[1] end
        return told
      end
      local ok, a = pcall(function()
        return nn.Sequential(nn.Linear(4, 4), nn.ReLU()):analyze(ridge.randn(2, 4),
          { rounds = 3, roof = false })
      end)
      times.of = was
      assert(ok, a)
      local share = 0
      for _, layer in ipairs(a.layers) do share = share + layer.share end
      local outside = a.outside.ms + a.outside.backward_ms
      assert.near(case[2] > 0 and 1 - outside / a.watched_ms or 0, share, 1e-9)
      local told = tostring(a):match '\noutside[^\n]-([%d.]+)[^%d\n]*%%'
      assert.near(case[2] > 0 and 100 * outside / a.watched_ms or 0, tonumber(told), 0.051)
    end
  end)

  it('says what each layer gave, which its gradient does not', function()
    local by = by_name(cnn():analyze(ridge.randn(3, 2, 8, 8), COUNTED))
    local want = { [1] = 'f32[3,4,8,8]', [4] = 'f32[3,4,4,4]', [6] = 'f32[3,3]' }
    for i, shape in pairs(want) do assert.equal(shape, by[tostring(i)].out) end
  end)

  it('names what each layer keeps for the backward pass, once', function()
    local net = nn.Sequential(nn.Linear(5, 3), nn.ReLU(), nn.Linear(3, 2))
    local a = net:analyze(ridge.randn(4, 5), COUNTED)
    local by = by_name(a)
    assert.equal(4 * 5 * 4, by['1'].saved_bytes) -- x
    assert.equal(4 * 3 * 4, by['2'].saved_bytes + by['3'].saved_bytes) -- what both read: once
    assert.equal(4 * 5 * 4 + 4 * 3 * 4, a.saved_bytes)
    local y = net(ridge.randn(4, 5))
    local kept = 0
    for _, s in ipairs(ridge.grad_saved(y)) do kept = kept + (s.param and 0 or s.bytes) end
    assert.equal(kept, a.saved_bytes)
  end)

  it('counts steps of a plan that a forward replays', function()
    local inner = nn.Linear(6, 6):eval()
    local x = ridge.randn(4, 6)
    local plan = ridge.capture(ridge.inference, inner, x)
    local Replays = nn.class 'Replays'
    function Replays.forward() return plan() end
    local a = Replays():analyze(x, { rounds = 0, roof = false, backward = false })
    assert.equal(2 * 4 * 6 * 6, a.flops)
  end)
end)

describe('layers of an analysis', function()
  it('that are called twice have their parameters once, FLOPs and calls twice', function()
    local layer = nn.Linear(6, 6)
    local a = nn.Sequential(layer, nn.ReLU(), layer):analyze(ridge.randn(4, 6), COUNTED)
    assert.equal(6 * 6 + 6, a.params)
    local by = by_name(a)
    assert.same({ 2, 42, 2 * 2 * 4 * 36 }, { by['1'].calls, by['1'].params, by['1'].flops })
    assert.is_nil(by['3'])
    assert.equal(2 * 2 * 4 * 36, a.flops)
  end)

  it('of two parents have one row', function()
    local shared = nn.Linear(6, 6)
    local net = nn.Sequential(nn.Sequential(shared), nn.Sequential(shared))
    local a = net:analyze(ridge.randn(4, 6), COUNTED)
    local by = by_name(a)
    assert.same({ 2, 42 }, { by['1.1'].calls, by['1.1'].params })
    assert.is_nil(by['2.1'])
    assert.equal(42, a.params)
  end)

  it('with tied weights count them where they are first', function()
    local first, second = nn.Linear(6, 6), nn.Linear(6, 6)
    second.weight = first.weight
    local a = nn.Sequential(first, second):analyze(ridge.randn(4, 6), COUNTED)
    local by = by_name(a)
    assert.same({ 42, 6, 48 }, { by['1'].params, by['2'].params, a.params })
    assert.same({ { name = 'weight', to = '1.weight' } }, by['2'].tied)
    assert.matches('weight of 2 is 1.weight', tostring(a))
  end)

  it('that are no part of the net are told, and their parameters not counted', function()
    local Holds = nn.class 'Holds'
    function Holds:init() self.list = { nn.Linear(6, 6) } end
    function Holds:forward(x) return self.list[1](x) end
    local a = Holds():analyze(ridge.randn(4, 6), COUNTED)
    assert.same({ 0, 2 * 4 * 36 }, { a.params, a.flops })
    assert.matches('nn.Linear.- no part of the net', table.concat(a.notes, '\n'))
  end)

  it('that were never called are there with what they hold', function()
    local Half = nn.class 'Half'
    function Half:init()
      self.used = self:child('used', nn.Linear(6, 6))
      self:child('unused', nn.Linear(6, 5))
    end
    function Half:forward(x) return self.used(x) end
    local a = Half():analyze(ridge.randn(4, 6), COUNTED)
    local by = by_name(a)
    assert.same({ 0, 35, 0 }, { by.unused.calls, by.unused.params, by.unused.flops })
    assert.equal(42 + 35, a.params)
  end)

  it('hold the bytes of their own type', function()
    for dtype, bytes in pairs { f64 = 8, f32 = 4, bf16 = 2, f16 = 2 } do
      local net = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3)):to(dtype)
      local a = net:analyze(ridge.randn(4, 6):to(dtype), COUNTED)
      local by = by_name(a)
      assert.same({ 35 * bytes, 18 * bytes, 53 * bytes, 35 * bytes / 2 ^ 20 },
        { by['1'].bytes, by['2'].bytes, a.bytes, by['1'].mb }, dtype)
    end
  end)

  it('that are frozen have parameters, and no gradients', function()
    local net = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 2))
    net[1]:freeze()
    local a = net:analyze(ridge.randn(4, 6), COUNTED)
    assert.same({ 42 + 14, 14 }, { a.params, a.trainable })
    assert.equal(2 * 4 * 6 * 2, a.backward_flops)
    net:freeze()
    a = net:analyze(ridge.randn(4, 6), COUNTED)
    assert.is_false(a.backward)
    refused(function()
      net:analyze(ridge.randn(4, 6), { rounds = 0, backward = true })
    end, 'no gradient flows')
  end)

  it('stand below so many names of their paths', function()
    local a = transformer():analyze(ridge.randn(2, 5, 8), COUNTED)
    local text = a:text { depth = 1 }
    assert.matches('\n1 +872 ', text)
    assert.is_nil(text:find('attention', 1, true))
    assert.matches('1%.attention%.qkv', a:text())
    assert.matches('and %d+ layers more', a:text { rows = 2 })
    assert.matches('2 for each of %S+ multiply%-adds of products', text)
  end)
end)

describe('what a net is called with', function()
  it('may be several tensors, or tables of them', function()
    local Two = nn.class 'Two'
    function Two:init() self.layer = self:child('layer', nn.Linear(6, 6)) end
    function Two:forward(x, y) return { sum = self.layer(x) + y, { y } } end
    local x, y = ridge.randn(4, 6), ridge.randn(4, 6)
    local net = Two()
    assert.equal(2 * 4 * 36, net:analyze(x, { more = { y }, rounds = 0 }).flops)
    local Table = nn.class 'Table'
    function Table:init() self.layer = self:child('layer', nn.Linear(6, 6)) end
    function Table:forward(given) return self.layer(given.x) * given.scale end
    local a = Table():analyze({ x = x, scale = 2 }, COUNTED)
    assert.same({ 4, 2 * 4 * 36 }, { a.batch, a.flops })
    local lines = a:what_if { batch = { 8 }, measure = true }
    assert.same({ 2 * 8 * 36, 2 * 8 * 36 }, { lines[1].flops, lines[2].flops })
    local lstm = nn.LSTM(4, 5):analyze(ridge.randn(2, 3, 4), COUNTED) -- returns two things
    assert.is_true(lstm.backward_flops > 0)
    assert.same({ 1, 4 * 5 * (4 + 5) + 2 * 4 * 5 }, { lstm.layers[1].calls, lstm.layers[1].params })
    assert.equal(1, #lstm.layers) -- what holds its weights is called by nobody
  end)

  it('is refused where it cannot be', function()
    local net, x = nn.Linear(6, 6), ridge.randn(4, 6)
    local gone = ridge.randn(4, 6)
    gone:release()
    refused(function() net:analyze(gone) end, 'released')
    refused(function() net:analyze({ 1, gone }) end, 'released')
    refused(function() net:analyze(ridge.randn(4, 5)) end, 'nn.Linear')
    refused(function() net:analyze(ridge.zeros(4, 6, { dtype = 'i64' })) end, 'linear')
    refused(function() net:analyze(x, { round = 3 }) end, "did you mean 'rounds'")
    refused(function() net:analyze(x, { roof = { 3 } }) end, 'rows of ridge.measure.calibrate')
    refused(function() net:analyze(x, { roof = { a = 1 } }) end, 'a list of')
    refused(function()
      net:analyze(x, { loss = function(y) return y end })
    end, 'one element')
    local a = net:analyze(x, COUNTED)
    refused(function() a:find_bottlenecks() end, 'nothing was timed')
    refused(function() a:what_if { batch = { 0 } } end, 'whole number from 1')
    refused(function() a:what_if { dtype = 'i8' } end, 'floats')
    refused(function()
      ridge.capture(function() return net:analyze(x, COUNTED) and x + 1 end)
    end, 'capture is under way')
    local b = nn.Linear(6, 6):to('bf16'):analyze(x:to 'bf16', COUNTED)
    assert.same({ 'bf16', 2 * 42 }, { b.dtype, b.bytes })
  end)
end)

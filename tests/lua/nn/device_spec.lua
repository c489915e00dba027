-- SPDX-License-Identifier: MIT
-- Every module on a simulated device beside the CPU: outputs, gradients, running statistics, and
-- what becomes of a module that is moved.
local ridge = require 'ridge'
local nn = ridge.nn
local simulated = dofile 'tests/lua/simulated.lua'

local GPU = 'sim:0'

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

-- Random numbers, the same each time.
local function numbers(...)
  local shape = { ... }
  shape[#shape + 1] = { generator = ridge.generator(3) }
  return ridge.randn(unpack(shape))
end

local function labels(high, ...)
  local shape = { ... }
  shape[#shape + 1] = { generator = ridge.generator(4) }
  return ridge.randint(0, high, unpack(shape))
end

-- By name: a function that makes the module, and one that makes its inputs, on the CPU.
local CASES = {
  Linear = { function() return nn.Linear(5, 4, { seed = 1, activation = 'gelu' }) end, 3, 5 },
  LowRankLinear = { function() return nn.LowRankLinear(6, 4, { rank = 2, seed = 1 }) end, 3, 6 },
  SKLinear = { function()
    return nn.Sequential(nn.SKLinear(6, 8, { num_terms = 2, low_rank = 2, seed = 1, warn = false,
      form = 'stored', activation = 'relu' }),
      nn.SKLinear(8, 5, { num_terms = 1, low_rank = 3, seed = 2, form = 'bits', warn = false }),
      nn.SKLinear(5, 4, { num_terms = 2, low_rank = 3, seed = 2, form = 'seed', warn = false }))
  end, 3, 6 },
  Sequential = { function() return nn.Sequential(nn.Linear(5, 4, { seed = 1 }), nn.ReLU()) end, 3,
    5 },
  Concat = { function()
    return nn.Concat(2, nn.Linear(5, 3, { seed = 1 }), nn.Linear(5, 2, { seed = 2 }))
  end, 3, 5 },
  Residual = { function() return nn.Residual(nn.Linear(5, 5, { seed = 1 })) end, 3, 5 },
  Conv2d = { function() return nn.Conv2d(2, 3, 3, { seed = 1, padding = 1 }) end, 2, 2, 5, 4 },
  ConvTranspose2d = { function() return nn.ConvTranspose2d(2, 3, 3, { seed = 1, stride = 2 }) end,
    2, 2, 5, 4 },
  MaxPool2d = { function() return nn.MaxPool2d(2) end, 2, 2, 4, 6 },
  AvgPool2d = { function() return nn.AvgPool2d(2) end, 2, 2, 4, 6 },
  Flatten = { function() return nn.Flatten() end, 2, 2, 3 },
  SKConv2d = { function()
    return nn.SKConv2d(2, 3, 3, { seed = 1, num_terms = 1, low_rank = 2, warn = false })
  end, 2, 2, 5, 4 },
  SeparableConv2d = { function() return nn.SeparableConv2d(2, 3, 3, { seed = 1 }) end, 2, 2, 5, 4 },
  LSTM = { function()
    return nn.LSTM(3, 4, { seed = 1, layers = 2, bidirectional = true, dropout = 0.3 })
  end, 2, 4, 3 },
  GRU = { function() return nn.GRU(3, 4, { seed = 1 }) end, 2, 4, 3 },
  BatchNorm = { function() return nn.BatchNorm(3) end, 4, 3, 2, 2 },
  LayerNorm = { function() return nn.LayerNorm(6) end, 3, 6 },
  RMSNorm = { function() return nn.RMSNorm(6) end, 3, 6 },
  GroupNorm = { function() return nn.GroupNorm(2, 4) end, 3, 4, 2, 2 },
  Embedding = { function() return nn.Embedding(9, 4, { seed = 1 }) end,
    inputs = function() return labels(9, 3, 2) end },
  MultiHeadAttention = { function()
    return nn.Sequential(nn.MultiHeadAttention(8, { heads = 2, seed = 1, causal = true }),
      nn.MultiHeadAttention(8, { heads = 2, seed = 2, kind = 'matrix', dropout = 0.2 }),
      nn.MultiHeadAttention(8, { heads = 2, seed = 3, kind = 'features', features = 16 }),
      nn.MultiHeadAttention(8, { seed = 4, block = 4,
        mask = ridge.tensor({ { 1, 0 }, { 1, 1 } }, { dtype = 'bool' }) }))
  end, 2, 6, 8 },
  TransformerBlock = { function()
    return nn.TransformerBlock(8, { heads = 2, seed = 1, causal = true, dropout = 0.1 })
  end, 2, 5, 8 },
  Dropout = { function() return nn.Dropout(0.4) end, 5, 7 },
  DataParallel = false, -- parallel_spec
  Module = false, Layer = false,
}
for _, name in ipairs { 'ReLU', 'ReLU6', 'GELU', 'SiLU', 'Tanh', 'Sigmoid', 'Softplus' } do
  CASES[name] = { function() return nn[name]() end, 3, 5 }
end

local LOSSES = {
  CrossEntropyLoss = function()
    return { weight = ridge.tensor { 1, 2, 3, 4 }, smoothing = 0.1 }, labels(4, 5)
  end,
  BCEWithLogitsLoss = function()
    return { pos_weight = ridge.tensor { 1, 2, 3, 4 } }, labels(2, 5, 4):to 'f32'
  end,
  MSELoss = function() return {}, numbers(5, 4) * 2 end,
  L1Loss = function() return { reduction = 'sum' }, numbers(5, 4) * 2 end,
  HuberLoss = function() return { delta = 0.5 }, numbers(5, 4) * 2 end,
}

local function inputs_of(case)
  return case.inputs and case.inputs() or numbers(unpack(case, 2))
end

-- Result, gradients and state of one pass in training, on the CPU again.
local function pass(module, x, device)
  module:train()
  if device ~= 'cpu' then module:to(device) end
  x = x:to(device)
  if x.dtype == 'f32' then x = x:detach():clone():requires_grad_() end
  ridge.seed(5)
  local y, more = module(x)
  local dy = numbers(unpack(y:size())):to(device)
  local sum = (y * dy):sum()
  if ridge.is_tensor(more) then sum = sum + more:sum() end
  if sum.requires_grad then sum:backward() end
  local found = { result = y:detach() }
  if x.requires_grad then found.input = x.grad end
  for _, p in ipairs(module:parameters()) do
    if p.trainable then found['gradient of ' .. p.name] = p.tensor.grad end
    found[p.name] = p.tensor:detach()
  end
  for name, value in pairs(found) do
    assert.equal(device, value.device, name)
    found[name] = value:to 'cpu'
  end
  return found
end

describe('on a device', function()
  if not simulated.open() then
    return it('is nothing here', function() pending 'no nvcc: no simulated device was built' end)
  end

  local names = {}
  for name in pairs(getmetatable(nn).late) do names[name] = true end
  for name, value in pairs(nn) do names[name] = type(value) == 'table' or nil end

  for name in pairs(names) do
    if name:match '^%u' and not LOSSES[name] and CASES[name] ~= false then
      it(name .. ' computes, goes back and keeps what it does on the CPU', function()
        local case = CASES[name]
        assert.is_truthy(case, 'no entry in CASES')
        local wanted = pass(case[1](), inputs_of(case), 'cpu')
        local found = pass(case[1](), inputs_of(case), GPU)
        for what, value in pairs(wanted) do
          assert.is_truthy(found[what], what)
          assert.is_true(found[what]:allclose(value, 1e-3, 1e-5), what)
        end
      end)
    end
  end

  for name, make in pairs(LOSSES) do
    it('nn.' .. name .. ' is what it is on the CPU, its weights move with it', function()
      local opts, y = make()
      local x = numbers(5, 4):requires_grad_()
      local loss = nn[name](opts)
      local here = loss(x, y)
      here:backward()
      local there = x:detach():to(GPU):requires_grad_()
      local moved = loss:to(GPU)(there, y:to(GPU))
      moved:backward()
      assert.equal(GPU, moved.device)
      assert.near(here:item(), moved:item(), 1e-4)
      assert.is_true(there.grad:to('cpu'):allclose(x.grad, 1e-4, 1e-6))
      for _, value in pairs(opts) do
        if ridge.is_tensor(value) then assert.equal('cpu', value.device) end -- those given stay
      end
    end)
  end

  it('distillation is what it is on the CPU', function()
    local s, t, y = numbers(5, 4), numbers(5, 4) * 2, labels(4, 5)
    assert.near(nn.distillation_loss(s, t, y):item(),
      nn.distillation_loss(s:to(GPU), t:to(GPU), y:to(GPU)):item(), 1e-5)
  end)

  for _, device in ipairs { 'cpu', GPU } do
    it('what is made from a layer in training is where that is, and trains by itself: ' .. device,
      function()
        local dense = nn.Linear(6, 5, { seed = 1 }):train():to(device)
        local conv = nn.Conv2d(2, 3, 3, { seed = 1 }):train():to(device)
        local x, image = numbers(4, 6):to(device), numbers(1, 2, 5, 5):to(device)
        local SK = { num_terms = 1, low_rank = 2, seed = 1, warn = false }
        assert.is_true(dense.weight.requires_grad)
        for _, made in ipairs { dense:clone(), nn.SKLinear.from(dense, SK),
          nn.LowRankLinear.from(dense, { rank = 2 }), nn.SKConv2d.from(conv, SK) } do
          made:train()(made.kernel and image or x):sum():backward()
          for _, p in ipairs(made:parameters()) do
            assert.equal(device, p.tensor.device)
            assert.is_true(not p.trainable or p.tensor.grad ~= nil, tostring(made) .. p.name)
          end
          assert.is_nil(dense.weight.grad)
          assert.is_nil(conv.weight.grad)
        end
        local here = nn.Linear(6, 5, { seed = 1 })
        assert.is_true(nn.SKLinear.from(dense, SK)(x):to('cpu'):allclose(
          nn.SKLinear.from(here, SK)(x:to 'cpu'), 1e-4, 1e-5))
      end)
  end

  it('shared parameters stay shared, frozen ones frozen, and all of it comes back', function()
    local Plus = nn.class 'Plus'
    function Plus:init(b) self:param('b', b) end
    function Plus:forward(x) return x + self.b end
    local Tied = nn.class 'Tied'
    function Tied:init()
      self:param('a', ridge.ones(3))
      self.plus = self:child('plus', Plus(self.a))
    end
    function Tied:forward(x) return self.plus(x * self.a) end
    local net = Tied():train()
    net:to(GPU)
    assert.equal(1, #net:parameters())
    net:to 'cpu'
    assert.equal(1, #net:parameters())
    local layer = nn.Linear(3, 3, { seed = 1 }):train():freeze():to(GPU)
    assert.is_false(layer.weight.requires_grad)
    local before = nn.Linear(3, 3, { seed = 1 })
    assert.is_true(layer:to('cpu').weight:equal(before.weight))
  end)

  it('what is made of a layer is where that one is, whatever the default device', function()
    finally(function() ridge.set_default_device 'cpu' end)
    for _, case in ipairs { { 'cpu', GPU }, { GPU, 'cpu' } } do
      local where, default = unpack(case)
      local dense, conv = nn.Linear(8, 6):to(where), nn.Conv2d(2, 3, 3):to(where)
      ridge.set_default_device(default)
      for name, made in pairs { LowRankLinear = nn.LowRankLinear.from(dense, { rank = 2 }),
          SKLinear = nn.SKLinear.from(dense, { low_rank = 2, warn = false }),
          SKConv2d = nn.SKConv2d.from(conv, { warn = false }), clone = dense:clone() } do
        for _, p in ipairs(made:parameters()) do
          assert.equal(where, p.tensor.device, name .. ' ' .. p.name)
        end
      end
    end
  end)

  it('a sketch in half types reads no column behind the last of its rows', function()
    for _, dtype in ipairs { 'bf16', 'f16' } do
      for _, form in ipairs { 'bits', 'seed' } do
        for _, n in ipairs { 33, 37, 39 } do -- of rows that lie 40 apart
          local layer = nn.SKLinear(n, 48, { num_terms = 1, low_rank = 16, seed = 1, form = form,
            warn = false }):eval()
          local wide = ridge.full(0 / 0, 16, 40)
          local x = wide:narrow(2, 1, n)
          x:copy_(numbers(16, n))
          local want = ridge.inference(layer, x)
          local there = wide:to(GPU):to(dtype):narrow(2, 1, n)
          local got = ridge.inference(layer:to(GPU):to(dtype), there):to('cpu'):to 'f32'
          assert.is_true((got - want):abs():max():item() < 0.1, dtype .. form .. n)
        end
      end
    end
  end)

  it('two devices in one call are refused with both names', function()
    local net = nn.Linear(3, 3):to(GPU)
    assert.matches('tensors on cpu and on sim:0', failure(net, ridge.ones(2, 3)))
    assert.matches('tensors on sim:0 and on cpu', failure(nn.cross_entropy,
      ridge.ones(2, 3, { device = GPU }), labels(3, 2)))
  end)
end)

-- SPDX-License-Identifier: MIT
-- The calls that layers of several operations are made of, forth and back, as approved: shapes,
-- costs and the memory that lives behind each. What a layer computes for nothing, keeps for too
-- long or forgets to give back changes no number that it hands out.

require 'jit.opt'.start('-sink') -- see tests/op/op_spec.lua

local ridge = require 'ridge'
local approved = dofile 'tests/lua/approved.lua'
local C = require 'ridge.ffi.lib'
local choices = require 'ridge.choices'
local ring = require 'ridge.ring'
local nn = ridge.nn

local function live() return tonumber(C.rg_memory_of(0).live_bytes) end

-- A line for each call while something runs.
local function heard(out, what)
  local reader, before = ring.open('op copy range', 8192, C.RG_READ_FIRST), live()
  local results = { what() }
  for e in reader:each() do
    out[#out + 1] = ('    %s %s: %g flops, %g bytes; %d'):format(e.name, e.shapes, e.flops, e.bytes,
      e.live_bytes - before)
  end
  reader:close()
  return unpack(results)
end

local seed

-- The same numbers in each run.
local function numbers(...)
  seed = seed + 1
  ridge.seed(seed)
  return ridge.rand(...) - 0.5
end

local LAYERS = {
  { 'LSTM(3, 4)', function() return nn.LSTM(3, 4, { seed = 1 }), numbers(2, 2, 3) end },
  { 'GRU(3, 4)', function() return nn.GRU(3, 4, { seed = 1 }), numbers(2, 2, 3) end },
  { 'LSTM, two layers both ways', function()
    return nn.LSTM(3, 4, { layers = 2, bidirectional = true, seed = 1 }), numbers(2, 2, 3)
  end },
  { 'GRU, both ways', function()
    return nn.GRU(3, 4, { bidirectional = true, seed = 1 }), numbers(1, 2, 3)
  end },
  { 'GroupNorm', function() return nn.GroupNorm(2, 4), numbers(3, 4, 5) end },
  { 'BatchNorm', function() return nn.BatchNorm(3), numbers(4, 3, 2, 2) end },
  { 'LayerNorm', function() return nn.LayerNorm(6), numbers(4, 6) end },
  { 'RMSNorm', function() return nn.RMSNorm(6), numbers(4, 6) end },
  { 'SKLinear', function()
    return nn.SKLinear(32, 32, { num_terms = 2, low_rank = 2, seed = 1 }), numbers(3, 32)
  end },
  { 'SKLinear, dropout', function()
    return nn.SKLinear(32, 16, { num_terms = 1, low_rank = 2, seed = 1, dropout = 0.5,
      activation = 'tanh' }), numbers(3, 32)
  end },
  { 'LowRankLinear', function()
    return nn.LowRankLinear(7, 5, { rank = 2, seed = 1 }), numbers(3, 7)
  end },
  { 'SKConv2d', function()
    return nn.SKConv2d(8, 16, 3, { num_terms = 1, low_rank = 2, padding = 1, seed = 1 }),
      numbers(1, 8, 4, 4)
  end },
  { 'SeparableConv2d', function()
    return nn.SeparableConv2d(3, 5, 3, { padding = 1, seed = 1 }), numbers(1, 3, 4, 4)
  end },
  { 'Conv2d, relu', function()
    return nn.Conv2d(3, 5, 3, { padding = 1, activation = 'relu', seed = 1 }), numbers(2, 3, 4, 4)
  end },
  { 'MultiHeadAttention', function()
    return nn.MultiHeadAttention(8, { heads = 2, seed = 1 }), numbers(2, 5, 8)
  end },
  { 'MultiHeadAttention, causal', function()
    return nn.MultiHeadAttention(8, { heads = 2, causal = true, seed = 1 }), numbers(2, 5, 8)
  end },
  { 'MultiHeadAttention, dropout', function()
    return nn.MultiHeadAttention(8, { heads = 2, dropout = 0.25, seed = 1 }), numbers(2, 5, 8)
  end },
  { 'MultiHeadAttention, features', function()
    return nn.MultiHeadAttention(8, { heads = 2, kind = 'features', seed = 1 }), numbers(2, 5, 8)
  end },
  { 'TransformerBlock', function()
    return nn.TransformerBlock(8, { heads = 2, causal = true, seed = 1 }), numbers(2, 5, 8)
  end },
}
for _, kernel in ipairs { 'softmax', 'relu' } do
  for _, causal in ipairs { false, true } do
    LAYERS[#LAYERS + 1] = { ('feature_attention, %s%s'):format(kernel, causal and ', causal' or ''),
      function()
        local q, k, v = numbers(1, 5, 4), numbers(1, 5, 4), numbers(1, 5, 3)
        local omega = nn.random_features(8, 4, 1)
        return function(x)
          return nn.feature_attention(x, k, v, omega, { causal = causal, kernel = kernel })
        end, q
      end }
  end
end

-- Which tensors ask for a gradient, and in which mode.
local WAYS = { 'evaluating, nothing asks', 'training, all ask', 'training, the input asks' }

local function told(out, name, make)
  for way, title in ipairs(WAYS) do
    local layer, x = make()
    local is_layer = type(layer) == 'table'
    if is_layer and way == 1 then layer:eval() elseif is_layer then layer:train() end
    if is_layer and way == 3 then layer:freeze() end
    if way > 1 then x:requires_grad_() end
    out[#out + 1] = name .. ', ' .. title
    local y = heard(out, function() return (layer(x)) end)
    if way > 1 then
      local dy = ridge.ones(y:size(), { dtype = y.dtype })
      out[#out + 1] = '   back'
      heard(out, function() y:backward(dy) end)
    end
    layer, x, y = nil, nil, nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
  end
end

local function all()
  local out = {}
  seed = 0
  for _, each in ipairs(LAYERS) do told(out, each[1], each[2]) end
  return table.concat(out, '\n')
end

describe('a layer', function()
  -- What the other ways keep packed of a weight depends on the instruction set, and so does the way
  -- that a convolution is expected to be the fastest by: each goes in place.
  local before
  before_each(function()
    before = ridge.backend.now()
    ridge.backend.set_threads(1)
    local lines = {}
    for _, row in ipairs(ridge.backend.why(all)) do
      if row.images then lines[#lines + 1] = choices.problem(row) .. ': plain' end
    end
    ridge.backend.apply { choices = table.concat(lines, '; '), gemm = 'openblas' }
  end)
  after_each(function()
    ridge.backend.forget_choices()
    ridge.backend.apply(before)
  end)

  it('computes what it has to, forth and back, and keeps it no longer than that', function()
    approved.check('nn/calls', all())
  end)
end)

describe('a network that nobody holds any more', function()
  -- Tensors that there are behind a function which alone was given a network.
  local function behind(f)
    local function run()
      f(nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2)), ridge.ones(3, 6))
    end
    run()
    select('#', unpack({}, 1, 200)) -- over what calls have left on the stack
    ridge.memory.trim()
    return ridge.memory.stats().tensors
  end

  -- More of them than where a network was called last that has none.
  local function left(f)
    local none = behind(function(_, x) nn.Sequential(nn.ReLU())(x) end)
    return behind(f) - none
  end

  it('is not held for having been called last', function()
    assert.equal(0, left(function(net, x) net(x) end))
    assert.equal(0, left(function(net, x) ridge.inference(net, x) end))
    assert.equal(0, left(function(net, x) net(x):sum():backward() end))
  end)

  it('is not held by the place that its error was told with', function()
    assert.equal(0, left(function(net)
      local ok, err = pcall(net, ridge.ones(3, 5))
      assert.is_false(ok)
      assert.matches('in nn.Sequential > ', tostring(err), 1, true)
    end))
  end)

  it('is not held by a coroutine that has called it', function()
    local calls = coroutine.wrap(function(net, x)
      while true do
        net(x)
        net, x = nil, nil -- luacheck: ignore 311
        net, x = coroutine.yield()
      end
    end)
    assert.equal(0, left(calls))
    assert.equal(0, left(calls))
  end)
end)

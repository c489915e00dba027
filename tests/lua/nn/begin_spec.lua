-- SPDX-License-Identifier: MIT
--- How the parameters of every layer begin, and what a layer says of itself, by formula; results
--- where memory runs out at first; what layers refuse and how classes are described, as approved.

local approved = dofile 'tests/lua/approved.lua'
local told = dofile 'tests/lua/told.lua'
local ridge = require 'ridge'
local nn = ridge.nn

-- Largest absolute value, mean and variance of a tensor.
local function shape_of(x)
  x = x:detach():to 'f64'
  local mean = x:mean():item()
  return x:abs():max():item(), mean, (x - mean):square():mean():item()
end

local function uniform(bound) return { 'uniform', bound } end
local function normal(deviation) return { 'normal', deviation } end
local function filled(value) return { 'filled', value } end
local function signs(value) return { 'signs', value } end

-- A layer, and how each of its parameters begins, in their order.
local BEGIN = {
  { 'Linear', function(s) return nn.Linear(400, 100, { seed = s }) end,
    { 'weight', uniform(1 / 20), 'bias', uniform(1 / 20) } },
  { 'Linear without bias', function(s) return nn.Linear(25, 1000, { seed = s, bias = false }) end,
    { 'weight', uniform(1 / 5) } },
  { 'LowRankLinear', function(s) return nn.LowRankLinear(400, 100, { rank = 48, seed = s }) end,
    { 'A', uniform(1 / 20), 'B', uniform(1 / 4), 'bias', uniform(1 / 20) } },
  { 'LowRankLinear the other way', function(s)
    return nn.LowRankLinear(100, 400, { rank = 48, seed = s, bias = false })
  end, { 'A', uniform(1 / 10), 'B', uniform(1 / 4) } },
  { 'Conv2d', function(s) return nn.Conv2d(6, 80, { 2, 3 }, { seed = s, groups = 2 }) end,
    { 'weight', uniform(18 ^ -0.5), 'bias', uniform(18 ^ -0.5) } },
  { 'SeparableConv2d', function(s) return nn.SeparableConv2d(100, 100, { 3, 4 }, { seed = s }) end,
    { 'depthwise.weight', uniform(12 ^ -0.5), 'pointwise.weight', uniform(1 / 10),
      'pointwise.bias', uniform(1 / 10) } },
  { 'Embedding', function(s) return nn.Embedding(100, 50, { seed = s }) end,
    { 'weight', normal(1) } },
  { 'LSTM', function(s) return nn.LSTM(7, 25, { seed = s }) end,
    { '1.input.weight', uniform(1 / 5), '1.input.bias', uniform(1 / 5),
      '1.recurrent.weight', uniform(1 / 5), '1.recurrent.bias', uniform(1 / 5) } },
  { 'GRU', function(s)
    return nn.GRU(40, 16, { seed = s, layers = 2, bidirectional = true, bias = false })
  end, { '1.input.weight', uniform(1 / 4), '1.recurrent.weight', uniform(1 / 4),
    '1b.input.weight', uniform(1 / 4), '1b.recurrent.weight', uniform(1 / 4),
    '2.input.weight', uniform(1 / 4), '2.recurrent.weight', uniform(1 / 4),
    '2b.input.weight', uniform(1 / 4), '2b.recurrent.weight', uniform(1 / 4) } },
  { 'MultiHeadAttention', function(s) return nn.MultiHeadAttention(64, { heads = 4, seed = s }) end,
    { 'qkv.weight', uniform(1 / 8), 'qkv.bias', uniform(1 / 8), 'out.weight', uniform(1 / 8),
      'out.bias', uniform(1 / 8) } },
  { 'MultiHeadAttention by features', function(s)
    return nn.MultiHeadAttention(64, { heads = 2, kind = 'features', features = 48, seed = s,
      bias = false })
  end, { 'omega', normal(1), 'qkv.weight', uniform(1 / 8), 'out.weight', uniform(1 / 8) } },
  { 'TransformerBlock', function(s) return nn.TransformerBlock(64, { seed = s, hidden = 100 }) end,
    { 'norm1.weight', filled(1), 'norm1.bias', filled(0), 'attention.qkv.weight', uniform(1 / 8),
      'attention.qkv.bias', uniform(1 / 8), 'attention.out.weight', uniform(1 / 8),
      'attention.out.bias', uniform(1 / 8), 'norm2.weight', filled(1), 'norm2.bias', filled(0),
      'up.weight', uniform(1 / 8), 'up.bias', uniform(1 / 8), 'down.weight', uniform(1 / 10),
      'down.bias', uniform(1 / 10) } },
  { 'LayerNorm', function() return nn.LayerNorm(5) end,
    { 'weight', filled(1), 'bias', filled(0) } },
  { 'LayerNorm without bias', function() return nn.LayerNorm(5, { bias = false }) end,
    { 'weight', filled(1) } },
  { 'LayerNorm alone', function() return nn.LayerNorm(5, { affine = false }) end, {} },
  { 'RMSNorm', function() return nn.RMSNorm(5) end, { 'weight', filled(1) } },
  { 'GroupNorm', function() return nn.GroupNorm(2, 6) end,
    { 'weight', filled(1), 'bias', filled(0) } },
  { 'GroupNorm alone', function() return nn.GroupNorm(2, 6, { affine = false }) end, {} },
  { 'BatchNorm', function() return nn.BatchNorm(5) end, { 'weight', filled(1), 'bias', filled(0),
    'running_mean', filled(0), 'running_var', filled(1) } },
  { 'BatchNorm alone', function() return nn.BatchNorm(5, { affine = false }) end,
    { 'running_mean', filled(0), 'running_var', filled(1) } },
  { 'SKConv2d', function(s)
    return nn.SKConv2d(3, 50, 3, { num_terms = 2, low_rank = 16, seed = s, warn = false })
  end, { 'S1s', nil, 'bias', uniform(27 ^ -0.5), 'U1s', signs(1 / 4) } },
}

-- A few numbers say less of where they end than many: 3 in n are expected in the last 3 / n.
local function check(x, how, where)
  local most, mean, variance = shape_of(x)
  local n, kind, value = x.count, how[1], how[2]
  if kind == 'filled' then
    assert.same({ math.abs(value), value, 0 }, { most, mean, variance }, where)
    return
  elseif kind == 'signs' then
    assert.same({ value, true }, { most, math.abs(variance - value ^ 2) < value ^ 2 * 0.05 }, where)
    return
  end
  local v = kind == 'uniform' and value ^ 2 / 3 or value ^ 2
  if kind == 'uniform' then
    assert.is_true(most <= value and most > value * (1 - 12 / n), where .. ': ' .. most)
  end
  assert.is_true(math.abs(mean) < 5 * math.sqrt(v / n), where .. ': mean ' .. mean)
  assert.is_true(math.abs(variance / v - 1) < 8 / math.sqrt(n), where .. ': variance ' .. variance)
end

describe('parameters', function()
  it('begin as their layer says, each part with draws of its own', function()
    for _, case in ipairs(BEGIN) do
      local layer, at = case[2](3), 0
      local names, drawn = {}, {}
      for i = 1, #case[3] > 0 and math.huge or 0, 2 do
        if not case[3][i] then break end
        names[#names + 1] = case[3][i]
      end
      for i, p in ipairs(layer:parameters()) do
        at = at + 2
        local where = case[1] .. ', ' .. p.name
        assert.equal(names[i], p.name, where)
        local how = case[3][at]
        if how then check(p.tensor, how, where) end
        if how and how[1] ~= 'filled' then
          -- no two parts begin alike
          local few = p.tensor:reshape(p.tensor.count):narrow(1, 1, 8):to('f64')
          few = few / few:abs():max():item()
          for other, x in pairs(drawn) do
            assert.is_false(few:allclose(x, 1e-3, 1e-3), where .. ' is ' .. other)
          end
          drawn[p.name] = few
        end
        local again = case[2](3):parameters()[i].tensor
        assert.is_true(p.tensor:equal(again), where)
        if how and how[1] ~= 'filled' then
          assert.is_false(p.tensor:equal(case[2](4):parameters()[i].tensor), where)
        end
      end
      assert.equal(#names, #layer:parameters(), case[1])
    end
  end)

  -- Whoever keeps a seed keeps the numbers: they do not change from version to version.
  it('are the draws of their seed that were approved', function()
    local out = {}
    for _, case in ipairs(BEGIN) do
      for _, p in ipairs(case[2](3):parameters()) do
        local x = p.tensor:detach():reshape(p.tensor.count)
        out[#out + 1] = ('%s %s %s: %.5f .. %.5f'):format(case[1], p.name, p.tensor:describe(),
          x[1]:item(), x[-1]:item())
      end
    end
    for form, names in pairs { stored = 'S1s U2s', bits = 'S1s S2s', seed = 'S1s S2s' } do
      local layer = nn.SKLinear(64, 64, { num_terms = 2, low_rank = 2, seed = 3, form = form })
      for name in names:gmatch '%S+' do
        local x = layer[name]:detach():contiguous():reshape(layer[name].count)
        out[#out + 1] = ('SKLinear %s %s: %.5f .. %.5f'):format(form, name, x[1]:item(),
          x[-1]:item())
      end
    end
    table.sort(out)
    approved.check('nn/draws', table.concat(out, '\n'))
  end)

  it('begin otherwise each time where no seed is given, and with ridge.seed the same', function()
    for _, make in ipairs { function() return nn.Linear(4, 3).weight end,
        function() return nn.Embedding(4, 3).weight end,
        function() return nn.SKLinear(64, 64, { low_rank = 2 }).S1s end,
        function() return nn.SKConv2d(3, 8, 3, { num_terms = 1, warn = false }).U1s end,
        function() return nn.MultiHeadAttention(4).qkv.weight end } do
      ridge.seed(5)
      local first, second = make(), make()
      assert.is_false(first:equal(second))
      ridge.seed(5)
      assert.is_true(first:equal(make()))
      assert.is_true(second:equal(make()))
    end
  end)
end)

describe('a layer', function()
  it('says what it stores and computes, by formula', function()
    local function facts(layer, more)
      local f, wanted = layer:facts(), { num_terms = 0, low_rank = 0, form = 'none', dtype = 'f32',
        activation = 'none', packed_bytes = 0, exceeds_dense = false }
      for name, value in pairs(more) do wanted[name] = value end
      assert.same(wanted, f)
    end
    facts(nn.Linear(7, 5), { n_in = 7, n_out = 5, stored_count = 40, trainable_count = 40,
      stored_bytes = 160, flops_per_row = 70 })
    facts(nn.Linear(7, 5, { bias = false, activation = 'relu' }):to 'f64', { n_in = 7, n_out = 5,
      stored_count = 35, trainable_count = 35, stored_bytes = 280, flops_per_row = 70,
      dtype = 'f64', activation = 'relu' })
    -- a rank of 35 / 12 stores as much: 2 less and 3 more
    facts(nn.LowRankLinear(7, 5, { rank = 2 }), { n_in = 7, n_out = 5, low_rank = 2,
      stored_count = 29, trainable_count = 29, stored_bytes = 116, flops_per_row = 48 })
    facts(nn.LowRankLinear(7, 5, { rank = 3, bias = false }):to 'f64', { n_in = 7, n_out = 5,
      low_rank = 3, stored_count = 36, trainable_count = 36, stored_bytes = 288,
      flops_per_row = 72, exceeds_dense = true, dtype = 'f64' })
    -- as much as the dense one is no more: 4 x 12 = 6 x (4 + 4)
    facts(nn.LowRankLinear(8, 8, { rank = 4 }), { n_in = 8, n_out = 8, low_rank = 4,
      stored_count = 72, trainable_count = 72, stored_bytes = 288, flops_per_row = 128 })
    facts(nn.SKLinear(8, 8, { num_terms = 1, low_rank = 2, form = 'stored' }), { n_in = 8,
      n_out = 8, num_terms = 1, low_rank = 2, form = 'stored', stored_count = 72,
      trainable_count = 40, stored_bytes = 288, flops_per_row = 128 })
    facts(nn.SKLinear(8, 8, { num_terms = 1, low_rank = 3, form = 'stored', warn = false }),
      { n_in = 8, n_out = 8, num_terms = 1, low_rank = 3, form = 'stored', stored_count = 104,
        trainable_count = 56, stored_bytes = 416, flops_per_row = 192, exceeds_dense = true })
    facts(nn.LayerNorm(6), { n_in = 6, n_out = 6, stored_count = 12, trainable_count = 12,
      stored_bytes = 48, flops_per_row = 48 })
    facts(nn.RMSNorm(6, { affine = false }), { n_in = 6, n_out = 6, stored_count = 0,
      trainable_count = 0, stored_bytes = 0, flops_per_row = 48 })
    facts(nn.Embedding(9, 4), { n_in = 9, n_out = 4, stored_count = 36, trainable_count = 36,
      stored_bytes = 144, flops_per_row = 0 })
    facts(nn.Conv2d(4, 6, { 2, 3 }, { groups = 2 }), { n_in = 4, n_out = 6, stored_count = 78,
      trainable_count = 78, stored_bytes = 312, flops_per_row = 144 })
  end)

  it('of a transformer is its formula', function()
    local block = nn.TransformerBlock(6, { heads = 2, hidden = 5, seed = 2 })
    local x = ridge.randn(2, 4, 6)
    local function norm(v) -- with a weight of 1 and a bias of 0
      local mean = v:mean(3, true)
      return (v - mean) / ((v - mean):square():mean(3, true) + 1e-5):sqrt()
    end
    local function linear(layer, v) return v:matmul(layer.weight:t()) + layer.bias end
    local qkv = linear(block.attention.qkv, norm(x))
    local heads = {}
    for h = 1, 2 do
      local q, k, v = qkv:narrow(3, 3 * h - 2, 3), qkv:narrow(3, 6 + 3 * h - 2, 3),
        qkv:narrow(3, 12 + 3 * h - 2, 3)
      heads[h] = (q:matmul(k:transpose(2, 3)) * 3 ^ -0.5):softmax(3):matmul(v)
    end
    local y = x + linear(block.attention.out, ridge.concat(heads, 3))
    y = y + linear(block.down, linear(block.up, norm(y)):gelu())
    assert.is_true(block(x):allclose(y, 1e-4, 1e-5))
  end)

  it('keeps the size of an image with padding same, and its copy outlives a scope', function()
    for _, kernel in ipairs { 3, { 3, 5 }, { 5, 1 } } do
      local layer = nn.Conv2d(1, 2, kernel, { padding = 'same' })
      assert.same({ 1, 2, 9, 8 }, layer(ridge.zeros(1, 1, 9, 8)):size())
    end
    local net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm(4))
    local copy
    ridge.memory.scope(function() copy = net:clone() end)
    local x = ridge.randn(5, 3)
    assert.is_true(copy(x):equal(net(x)))
    assert.is_false(rawequal(copy[1].weight, net[1].weight))
    assert.equal(#net:parameters(), #copy:parameters())
    ridge.no_grad(function() net[1].weight:fill_(0) end)
    assert.is_false(copy(x):equal(net(x)))
  end)

  it('collects what nobody holds where memory runs out, and goes on', function()
    local x, image = ridge.randn(6, 16), ridge.randn(2, 4, 6, 6)
    local index = ridge.tensor({ 1, 0, 2 }, { dtype = 'i64' })
    local labels = ridge.tensor({ 1, 0, 2, 3, 3, 1 }, { dtype = 'i64' })
    local q = ridge.randn(2, 5, 16)
    local function sketch(form)
      return nn.SKLinear(16, 16, { low_rank = 2, form = form, seed = 1, warn = false })
    end
    local cases = {
      { nn.Linear(16, 9, { seed = 1, activation = 'relu' }), x },
      { nn.Linear(16, 9, { seed = 1, activation = 'relu', dropout = 0.5 }):train(), x },
      { nn.LowRankLinear(16, 9, { seed = 1, rank = 3, activation = 'tanh' }), x },
      { sketch 'stored', x }, { sketch 'bits', x }, { sketch 'seed', x },
      { nn.Conv2d(4, 3, 3, { seed = 1 }), image },
      { nn.SKConv2d(4, 8, 3, { seed = 1, num_terms = 1, low_rank = 2, warn = false }), image },
      { nn.LayerNorm(16), x }, { nn.RMSNorm(16), x }, { nn.GroupNorm(2, 4), image },
      { nn.Embedding(3, 8, { seed = 1 }), index },
      { function(a) return nn.cross_entropy(a, labels, { reduction = 'none' }) end, x },
      { nn.MultiHeadAttention(16, { heads = 2, seed = 1 }), q },
      { nn.LSTM(16, 4, { seed = 1 }), q }, { nn.MaxPool2d(2), image }, { nn.AvgPool2d(2), image },
    }
    local memory = ridge.memory
    finally(function()
      memory.set_limit(0)
      collectgarbage 'restart'
    end)
    for i, case in ipairs(cases) do
      ridge.seed(i)
      local wanted = (case[1](case[2])):tolist()
      for _ = 1, 2 do
        collectgarbage()
        collectgarbage()
        memory.trim()
        collectgarbage 'stop'
        -- dead, and not yet known to be
        do local _ = ridge.zeros(2 ^ 18) end
        memory.set_limit(memory.stats().live)
        ridge.seed(i)
        local ok, y = pcall(function() return (case[1](case[2])):tolist() end)
        memory.set_limit(0)
        collectgarbage 'restart'
        assert.is_true(ok, ('%d: %s'):format(i, tostring(y)))
        assert.same(wanted, y)
      end
    end
  end)
end)

describe('what layers refuse', function()
  it('is what was approved', function()
    local out = {}
    local x, image = ridge.zeros(2, 4), ridge.zeros(1, 4, 5, 5)
    local index = ridge.zeros(3, { dtype = 'i64' })
    local env = setmetatable({ x = x, image = image, index = index, ridge = ridge,
      q = ridge.zeros(2, 3, 4), mask = ridge.ones(1, 1, { dtype = 'bool' }) }, { __index = nn })
    for line in ([[
      class(3) class('A', 3) class('A', {}) class('A', nil)
      Module()(x) class('A')()(x) class('A')():child('b', 3) class('A')():child('b')
      class('A')():param(3, x) class('A')():param('', x) class('A')():param('w', 3)
      class('A')():param('w', index) class('A')():buffer('w', index)
      Linear(4,2)(3) Linear(4,2)() Linear(4,2)(index) Linear(4,2):to('f32',3) Linear(4,2):to('zork')
      Linear(4,2,{dropout=0.5}):train()(3) Linear(5,2,{dropout=0.5}):train()(x)
      Linear(2^40+1,1) Linear(1,2^41) Linear(0/0,1) Linear(4,2):load_state(3)
      Linear(4,2):load_state({}) Linear(4,2):load_state({weight=x})
      Linear(4,2):load_state({weight=3})
      Linear(4,2,{bias=false}):load_state({weight=ridge.zeros(2,4),bias=x})
      Linear(4,2,{bias=false}):load_state({weight=ridge.zeros(2,4)})
      LowRankLinear(0,2,{rank=1}) LowRankLinear(2,0,{rank=1}) Linear(2,0) Conv2d(2,0,3)
      SKLinear(2,0) GroupNorm(0,4) GroupNorm(2,0) Embedding(2,0) GRU(0,2) SKConv2d(0,2,3)
      SKConv2d(2,0,3)
      break_even(1,0) random_features(4,0) LowRankLinear(4,2)
      LowRankLinear(4,2,{rank=0}) LowRankLinear(5,2,{rank=1})(x)
      LowRankLinear(4,2,{rank=1})(3) LowRankLinear.from(3,{rank=1})
      LowRankLinear.from(ReLU(),{rank=1})
      LowRankLinear.from(Linear(4,2),{rank=3}) SKLinear.from(3) SKLinear.from(ReLU())
      SKLinear(4,4,{low_rank=1,form='stored'})(3) SKLinear(5,4,{low_rank=1,warn=false})(x)
      SKLinear(64,64,{low_rank=1,form='bits'})(x) SKLinear(64,64,{low_rank=1,form='seed'})(x)
      Conv2d(4,2,3,{groups=3}) Conv2d(3,2,3,{groups=2}) Conv2d(2,3,3,{groups=2})
      Conv2d(3,2,3)(image) Conv2d(4,2,3)(3) Conv2d(4,2,6)(image) Conv2d(4,2)
      SKConv2d(3,2,3,{warn=false})(image) SKConv2d(4,2,3,{warn=false})(3)
      MaxPool2d(0) MaxPool2d() MaxPool2d(2)(x) MaxPool2d(6)(image) MaxPool2d({2,3}) AvgPool2d(2)(3)
      Flatten()(3) Flatten()(image) Flatten()(ridge.full(1)) Flatten()(ridge.zeros(0,3))
      BatchNorm(3)(image) BatchNorm(4)(3) BatchNorm(4)(ridge.full(1)) BatchNorm(4):train()(image)
      LayerNorm(3)(x) LayerNorm(4)(3) LayerNorm(4,{affine=false}):effective_weight()
      RMSNorm(4,{affine=false}):effective_weight() RMSNorm(3)(x) GroupNorm(3,4) GroupNorm(2,4)(x)
      GroupNorm(2,4)(ridge.zeros(4)) GroupNorm(2,6)(x) GroupNorm(2,4)(3)
      Embedding(3,2)(x) Embedding(3,2)(3) Embedding(3,2)(index+5) Dropout(1) Dropout(-1)
      Dropout('a')
      MultiHeadAttention(4,{heads=3}) MultiHeadAttention(4)(x) MultiHeadAttention(5)(q)
      MultiHeadAttention(4)(3) MultiHeadAttention(4,{mask=mask,kind='matrix'})
      MultiHeadAttention(4,{mask=mask,dropout=0.5})
      MultiHeadAttention(4,{kind='features',dropout=0.5})
      MultiHeadAttention(4,{mask=mask}) MultiHeadAttention(4,{mask=3}) MultiHeadAttention(0)
      MultiHeadAttention(4,{heads=2,causal=true,kind='matrix'}) TransformerBlock(0)
      TransformerBlock(4)(x) TransformerBlock(4)(3) TransformerBlock(5)(q)
      attention(3,q,q) attention(q,3,q) attention(q,q,3) attention(q,q,x) attention(q,q,q,{mask=3})
      attention(q,x,q) feature_attention(3,q,q) feature_attention(q,q,q) random_features(0,4)
      LSTM(4,0) LSTM(4,3)(x) LSTM(5,3)(q) LSTM(4,3)(3) LSTM(4,3)(ridge.zeros(2,0,4)) LSTM(4,3)(q,3)
      LSTM(4,3)(q,{q}) LSTM(4,3)(q,q) GRU(4,3)(q,ridge.zeros(1,2,4)) GRU(4,3)(q,ridge.zeros(1,2))
      GRU(4,3)(q,ridge.zeros(2,2,3)) GRU(4,3)(q,ridge.zeros(1,3,3)) GRU(4,3)(q,{3})
      LSTM(4,3,{layers=2,bidirectional=true}) GRU(4,3)
      Residual(3) Residual() Residual(Linear(4,4))(3) Sequential(3) Sequential(Linear(4,3),3)
      mse_loss(x,index) mse_loss(3,x) mse_loss(x,3) mse_loss(x,q) l1_loss(x,q) huber_loss(x,q)
      bce_with_logits(x,q) cross_entropy(x,3) cross_entropy(3,index) cross_entropy(x,index)
      cross_entropy(x,x) cross_entropy(x,index,{weight=3}) cross_entropy(x,index,{reduction='zork'})
      distillation_loss(x,q,index) distillation_loss(x,x,x) CrossEntropyLoss({zork=1})
      MSELoss()(x,q)
      DataParallel(3,{devices={'cpu'}}) DataParallel(Linear(4,2),{devices={}})
      DataParallel(Linear(4,2),{devices={'cpu'}})() DataParallel(Linear(4,2),{devices={3}})
      break_even(0,1) break_even(1024,512) round_for_tensor_cores(0,1,1,1)
      round_for_tensor_cores(1,2,3,4,0) round_for_tensor_cores(1000,500,8,60)
      round_for_tensor_cores(1000,500,8,60,64) is_module(3) is_module(ReLU())
    ]]):gmatch '[^\n]+' do
      local at = 1
      while true do -- calls stand one behind the other, with blanks between
        local from, to = line:find('[%w_.]+%b()[%w_.:]*', at)
        if not from then break end
        while line:sub(to + 1, to + 1) == '(' do
          to = select(2, line:find('^%b()[%w_.:]*', to + 1))
        end
        local text = line:sub(from, to)
        at = to + 1
        local made = assert(loadstring('return ' .. text))
        setfenv(made, env)
        local ok, found = pcall(made)
        if ok then found = ridge.is_tensor(found) and found:describe() or tostring(found) end
        out[#out + 1] = text .. ': ' .. (ok and found or told.failure(found))
      end
    end
    local names = {}
    for _, name in ipairs { 'MaxPool2d', 'AvgPool2d', 'Flatten', 'LayerNorm', 'RMSNorm', 'ReLU',
        'GELU', 'SiLU', 'Tanh', 'Sigmoid', 'ReLU6', 'LSTM', 'GRU', 'CrossEntropyLoss',
        'BCEWithLogitsLoss', 'MSELoss', 'L1Loss', 'HuberLoss' } do
      names[#names + 1] = rawget(nn[name], '__doc')
    end
    out[#out + 1] = table.concat(names, '\n')
    local text = table.concat(out, '\n'):gsub('_spec%.lua:%d+', '_spec.lua')
    approved.check('nn/refused', (text:gsub('0x%x+', '0x')))
  end)
end)

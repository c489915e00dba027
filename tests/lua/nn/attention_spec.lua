-- SPDX-License-Identifier: MIT
-- Normalisation, embeddings, attention and the transformer block, against their formulas.
local ridge = require 'ridge'
local nn = ridge.nn

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

describe('normalisation', function()
  it('takes off the mean and divides by the deviation, then scales and shifts', function()
    local layer, x = nn.LayerNorm(6), ridge.randn(4, 6) * 3 + 2
    local centred = x - x:mean(2, true)
    local plain = centred / (centred:square():mean(2, true) + 1e-5):sqrt()
    assert.is_true(layer(x):allclose(plain, 1e-5, 1e-5))
    ridge.no_grad(function()
      layer.weight:fill_(2)
      layer.bias:fill_(-1)
    end)
    assert.is_true(layer(x):allclose(plain * 2 - 1, 1e-5, 1e-5))
    assert.equal(12, (layer:num_parameters()))
    assert.equal(0, (nn.LayerNorm(6, { affine = false }):num_parameters()))
    assert.equal(6, (nn.RMSNorm(6):num_parameters()))
  end)

  it('by the root of the mean square keeps the mean', function()
    local x = ridge.randn(3, 5) + 4
    local wanted = x / (x:square():mean(2, true) + 1e-5):sqrt()
    assert.is_true(nn.RMSNorm(5)(x):allclose(wanted, 1e-5, 1e-5))
  end)

  it('clones, converts and names itself', function()
    local layer = nn.LayerNorm(4, { eps = 0.5 })
    local copy = layer:clone()
    ridge.no_grad(function() copy.weight:zero_() end)
    assert.same({ 1, 1, 1, 1 }, layer.weight:tolist())
    assert.equal('nn.LayerNorm(4, eps 0.5)', tostring(copy:to 'bf16'))
    assert.equal('bf16', copy.weight.dtype)
    assert.matches('the weight is f32%[4%], wanted %[3%] for rows of f32%[2,3%]', message(layer,
      ridge.ones(2, 3)))
    assert.matches('eps is %-1', message(nn.RMSNorm, 4, { eps = -1 }))
  end)
end)

describe('batch normalisation', function()
  it('is by the batch while training, and keeps what it saw for evaluation', function()
    local layer, x = nn.BatchNorm(3):train(), ridge.randn(5, 3, 2, 4) * 2 + 7
    local y = layer(x)
    for c = 1, 3 do
      local channel = y:select(2, c)
      assert.near(0, channel:mean():item(), 1e-5)
      assert.near(1, channel:square():mean():item(), 1e-4)
      local of = x:select(2, c)
      local mean = of:mean():item()
      assert.near(0.1 * mean, layer.running_mean:tolist()[c], 1e-5)
      local var = (of - mean):square():sum():item() / (40 - 1)
      assert.near(0.9 + 0.1 * var, layer.running_var:tolist()[c], 1e-4)
    end
    layer:eval()
    local kept = layer.running_mean:clone()
    local wanted = (x - kept:reshape(1, 3, 1, 1)) / (layer.running_var:reshape(1, 3, 1, 1) + 1e-5)
      :sqrt()
    assert.is_true(layer(x):allclose(wanted, 1e-4, 1e-4))
    assert.is_true(kept:equal(layer.running_mean))
  end)

  it('gives gradients, takes rows and channels last, and says what does not fit', function()
    local layer = nn.BatchNorm(4):train()
    local x = ridge.randn(6, 4):requires_grad_();
    (layer(x) * ridge.randn(6, 4)):sum():backward()
    -- what is the same for all rows of a channel has no effect
    assert.is_true(x.grad:sum(1):abs():max():item() < 1e-5)
    assert.same({ 6, 6, 6, 6 }, (function()
      layer.bias:zero_grad()
      layer(x):sum():backward()
      return layer.bias.grad:tolist()
    end)())
    local last = nn.BatchNorm(4, { layout = 'nhwc' }):train()
    local y = last(x:detach():reshape(2, 3, 1, 4)):reshape(6, 4)
    assert.is_true(y:allclose(layer(x), 1e-5, 1e-5))
    assert.matches('wanted 4 channels on axis 2', message(layer, ridge.ones(3, 5)))
    assert.matches('a channel in f32%[1,4%] has no variance', message(layer, ridge.ones(1, 4)))
    assert.equal(8, (layer:num_parameters()))
    assert.equal(4, #layer:parameters())
  end)
end)

describe('an embedding', function()
  it('looks rows up, and its gradient adds up at them', function()
    local table_ = nn.Embedding(5, 2, { seed = 1 }):train()
    local y = table_(ridge.tensor({ { 1, 1 }, { 4, 0 } }, { dtype = 'i64' }))
    assert.same({ 2, 2, 2 }, y:size())
    assert.same(table_.weight:tolist()[5], y:tolist()[2][1])
    y:sum():backward()
    assert.same({ { 1, 1 }, { 2, 2 }, { 0, 0 }, { 0, 0 }, { 1, 1 } }, table_.weight.grad:tolist())
    assert.matches('number 5 at place 1 is no row; they go from 0 to 4', message(table_,
      ridge.tensor({ 5 }, { dtype = 'i64' })))
  end)
end)

describe('attention', function()
  -- The same by the formula, one head and one sequence after the other.
  local function plain(layer, x, causal)
    local batch, length, n = unpack(x:size())
    local size = n / layer.heads
    local all = layer.qkv(x)
    local out = {}
    for b = 1, batch do
      local heads = {}
      for h = 1, layer.heads do
        local function part(k)
          return all:select(1, b):narrow(2, (k - 1) * n + (h - 1) * size + 1, size)
        end
        local scores = part(1):matmul(part(2):t()) / math.sqrt(size)
        local list = scores:tolist()
        for i = 1, length do
          for j = i + 1, length do
            if causal then list[i][j] = -math.huge end
          end
        end
        heads[h] = ridge.tensor(list):softmax():matmul(part(3))
      end
      out[b] = ridge.concat(heads, 2):reshape(1, length, n)
    end
    return layer.out(ridge.concat(out, 1))
  end

  it('is softmax(q k\' / sqrt(size)) v in each head, and sees nothing behind if causal', function()
    for _, causal in ipairs { false, true } do
      local layer = nn.MultiHeadAttention(12, { heads = 3, causal = causal, seed = 2 })
      local x = ridge.randn(2, 5, 12)
      assert.is_true(layer(x):allclose(plain(layer, x, causal), 1e-5, 1e-5))
    end
  end)

  it('has weights as exact as f32', function()
    local n, m, e = 8, 96, 16
    local q, k, v = ridge.zeros(n, 1), ridge.zeros(m, 1), ridge.zeros(m, e)
    for i = 1, n do q[{ i, 1 }] = i / 4 end
    for j = 1, m do k[{ j, 1 }], v[{ j, j % e + 1 }] = -j / 64, 1 end
    local y = nn.attention(q, k, v):tolist()
    for i = 1, n do
      local sums, all = {}, 0
      for j = 1, m do
        local weight = math.exp(-i * j / 256)
        sums[j % e + 1] = (sums[j % e + 1] or 0) + weight
        all = all + weight
      end
      for c = 1, e do assert.near(1, y[i][c] / (sums[c] / all), 3e-6) end
    end
  end)

  -- A score that is taken for the largest and is not overflows the exponential of the one that is.
  it('finds the largest score wherever it stands', function()
    local keys = 64
    local v = ridge.eye(keys):reshape(1, 1, keys, keys)
    for at = 1, keys do
      local q, k = ridge.ones(1, 1, 1, 1), ridge.zeros(1, 1, keys, 1)
      k:select(3, at):fill_(200)
      local y = nn.attention(q, k, v):reshape(keys):tolist()
      for j = 1, keys do assert.equal(j == at and 1 or 0, y[j]) end
    end
  end)

  it('has no gradient from places behind', function()
    local layer = nn.MultiHeadAttention(8, { heads = 2, causal = true, seed = 1 })
    local x = ridge.randn(1, 4, 8):requires_grad_()
    layer(x):narrow(2, 2, 1):sum():backward()
    local reach = x.grad:abs():sum({ 1, 3 }):tolist()
    assert.is_true(reach[1] > 0 and reach[2] > 0)
    assert.same({ 0, 0 }, { reach[3], reach[4] })
  end)

  -- The last query alone sees the first key of another tile: 64 keys under a mask, 256 without, 128
  -- in the gradients; with one more query the next key is still hidden from it.
  it('sees the key that a tile begins with, where the queries end there', function()
    for _, n in ipairs { 32, 33, 34, 64, 65, 66, 128, 129, 130, 256, 257, 258 } do
      local blocks = math.ceil(n / 64)
      local all = ridge.ones(blocks, blocks):to 'bool'
      for _, opts in ipairs { { causal = true }, { causal = true, mask = all } } do
        local given, plain_of = {}, {}
        for i = 1, 3 do
          given[i] = ridge.randn(n, 4):requires_grad_()
          plain_of[i] = given[i]:detach():clone():requires_grad_()
        end
        local behind = ridge.ones(n, n):triu(1) * -1e9
        local q, k, v = unpack(plain_of)
        local wanted = (q:matmul(k:t()) / 2 + behind):softmax():matmul(v)
        local y = nn.attention(given[1], given[2], given[3], opts)
        assert.is_true(y:allclose(wanted, 1e-5, 1e-5), n)
        wanted:square():sum():backward()
        y:square():sum():backward()
        for i = 1, 3 do
          assert.is_true(given[i].grad:allclose(plain_of[i].grad, 1e-4, 1e-5), n .. ' ' .. i)
        end
      end
    end
  end)

  it('keeps its mask beyond the scope of a call', function()
    local layer = nn.MultiHeadAttention(8, { causal = true })
    for _ = 1, 3 do ridge.scope(function() layer(ridge.randn(1, 4, 8)) end) end
  end)

  it('in a block begins by its seed, and differently each time without one', function()
    local function all(opts)
      local list = {}
      for _, p in ipairs(nn.TransformerBlock(4, opts):parameters()) do
        list[#list + 1] = p.tensor:tolist()
      end
      return list
    end
    assert.same(all { seed = 3 }, all { seed = 3 })
    assert.not_same(all { seed = 3 }, all { seed = 4 })
    assert.not_same(all(), all())
  end)

  it('says what does not fit', function()
    assert.matches('10 numbers do not fall into 3 heads', message(nn.MultiHeadAttention, 10,
      { heads = 3 }))
    assert.matches('wanted %[batch, length, 8%]', message(nn.MultiHeadAttention(8),
      ridge.randn(2, 8)))
  end)

  it('in a block learns to copy what came before', function()
    ridge.seed(1)
    local places = nn.Embedding(12, 32, { seed = 5 })
    local words = nn.Embedding(8, 32, { seed = 6 })
    local block = nn.TransformerBlock(32, { heads = 4, causal = true, seed = 7 })
    local out = nn.Linear(32, 8, { seed = 8 })
    local all = nn.Sequential(places, words, block, out):train()
    local optimizer = ridge.optim.AdamW(all, { lr = 3e-3 })
    local where = ridge.arange(0, 11):to 'i64'
    local first, last
    for _ = 1, 150 do
      local x = ridge.randint(0, 8, 16, 12)
      optimizer:zero_grad()
      local y = out(block(words(x) + places(where)))
      local loss = nn.cross_entropy(y:narrow(2, 2, 11), x:narrow(2, 1, 11):contiguous())
      loss:backward()
      optimizer:step { scale = optimizer:clip(1) }
      last = loss:item()
      first = first or last
    end
    assert.is_true(first > 1.8 and last < 0.3, ('%g to %g'):format(first, last))
  end)
end)

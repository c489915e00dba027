-- SPDX-License-Identifier: MIT
-- Masks: which weights go in each pattern, and that they stay 0 whatever training does.
local ridge = require 'ridge'
local nn = ridge.nn

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

local function count(flag) return flag:to('i64'):sum():item() end
local function zeros(x) return count(x:eq(0)) end

local function mlp()
  ridge.seed(3)
  return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 10))
end

local function weight_of(rows)
  local layer = nn.Linear(#rows[1], #rows)
  layer.weight = ridge.tensor(rows)
  return layer
end

local function train(net, optimizer, steps)
  local clip = ridge.optim.Clip { max_norm = 0.1 }
  for _ = 1, steps do
    optimizer:zero_grad()
    local y = net(ridge.randn(8, 20))
    ;(y - 1):square():mean():backward()
    clip:apply(optimizer)
    optimizer:step()
  end
end

describe('prune.magnitude', function()
  it('prunes the smallest weights of all layers together, or of each', function()
    local net = nn.Sequential(weight_of { { 1, -2 }, { 3, -4 } }, weight_of { { 10, 0.5 } })
    local m = ridge.prune.magnitude(net, { sparsity = 0.5 })
    assert.same({ { 0, 0 }, { 3, -4 } }, m[1].weight:tolist())
    assert.same({ { 10, 0 } }, m[2].weight:tolist())
    m = ridge.prune.magnitude(net, { sparsity = 0.75, scope = 'layer', skip = { '2' } })
    assert.same({ { 0, 0 }, { 0, -4 } }, m[1].weight:tolist())
    assert.same({ { 10, 0.5 } }, m[2].weight:tolist())
    assert.same({ { 1, -2 }, { 3, -4 } }, net[1].weight:tolist())
    assert.is_nil(net[1].weight_mask)
    -- of equals the first, so that the same net is pruned alike everywhere
    local equal = nn.Sequential(weight_of { { 2, -2, 2 }, { -2, 2, 1 } })
    assert.same({ { 0, 0, 2 }, { -2, 2, 0 } },
      ridge.prune.magnitude(equal, { sparsity = 0.5 })[1].weight:tolist())
  end)

  it('knows l1 from l2 where weights go together', function()
    local net = weight_of { { 3, 3, 3 }, { 6, 0, 0 }, { 9, 9, 9 } }
    local one = nn.Sequential(net, nn.Linear(3, 2))
    local l1 = ridge.prune.magnitude(one, { sparsity = 0.3, pattern = 'row', skip = { '2' } })
    local l2 = ridge.prune.magnitude(one, { sparsity = 0.3, pattern = 'row', method = 'l2',
      skip = { '2' } })
    assert.same({ 3, 0, 9 }, l1[1].weight:max(2):tolist())
    assert.same({ 0, 6, 9 }, l2[1].weight:max(2):tolist()) -- squares: 27, 36, 243
  end)

  it('prunes 16 outputs of one input together, the rest of the last ones too', function()
    local m = ridge.prune.magnitude(nn.Linear(8, 20), { sparsity = 0.5, pattern = 'block' })
    local w = m.weight:eq(0):to 'i32'
    local heads, rest = w:narrow(1, 1, 16):sum(1):tolist(), w:narrow(1, 17, 4):sum(1):tolist()
    local n = 0
    for i = 1, 8 do
      assert.is_true(heads[i] == 0 or heads[i] == 16)
      assert.is_true(rest[i] == 0 or rest[i] == 4)
      n = n + heads[i] + rest[i]
    end
    assert.is_true(math.abs(n - 80) <= 8, n .. ' of 160')
  end)

  it('counts weights and not units, which are not all as large', function()
    local net = nn.Sequential(nn.Linear(40, 32, { seed = 2 }), nn.Linear(32, 2, { seed = 11 }))
    ridge.inference(function() net[2].weight:mul_(0.001) end) -- blocks of 2 weights go first
    local m = ridge.prune.magnitude(net, { sparsity = 0.5, pattern = 'block', scope = 'layer' })
    assert.equal(640, zeros(m[1].weight))
    assert.equal(32, zeros(m[2].weight))
    ridge.inference(function()
      net[1].weight:narrow(2, 1, 1):mul_(1e-6)
      net[2].weight:narrow(2, 1, 1):mul_(1e3)
    end)
    m = ridge.prune.magnitude(net, { sparsity = 0.1, pattern = 'block' })
    -- 134.4 weights of 1344: 31 blocks of 2, and 5 of 16 come closest
    assert.equal(62 + 5 * 16, zeros(m[2].weight) + zeros(m[1].weight))
  end)

  it('lets n of m stay', function()
    local m = ridge.prune.magnitude(weight_of { { 1, -5, 2, 3, 0.1, 0.2, -0.3, 0.4 } },
      { pattern = '2:4' })
    assert.same({ { 0, -5, 0, 3 } }, m.weight:narrow(2, 1, 4):tolist())
    assert.same({ 0, 0, 1, 1 }, m.weight:narrow(2, 5, 4):ne(0):to('i32'):tolist()[1])
    assert.truthy(failure(ridge.prune.magnitude, nn.Linear(8, 4), { pattern = '2:4',
      sparsity = 0.7 }):find('is a sparsity of 0.5', 1, true))
    assert.truthy(failure(ridge.prune.magnitude, nn.Linear(6, 4), { pattern = '2:4' })
      :find('groups of 4 do not divide its 6 inputs', 1, true))
  end)

  it('takes bias and batch normalisation with a filter, and leaves the last layer', function()
    local net = nn.Sequential(nn.Conv2d(2, 8, 3), nn.BatchNorm(8), nn.ReLU(), nn.Flatten(),
      nn.Linear(8, 4))
    for _ = 1, 3 do net(ridge.randn(4, 2, 3, 3)) end
    net[2].bias = ridge.ones(8)
    net:eval()
    local m = ridge.prune.magnitude(net, { sparsity = 0.5, pattern = 'filter' })
    local y = m[2](m[1](ridge.randn(2, 2, 5, 5)))
    local dead = y:abs():max({ 1, 3, 4 }):eq(0)
    assert.equal(4, count(dead))
    assert.same(dead:tolist(), m[1].weight_mask:any({ 2, 3, 4 }):logical_not():tolist())
    assert.equal(0, zeros(m[5].weight))
    assert.truthy(tostring(ridge.prune.analyze(m)):find('5 is left: the last layer', 1, true))
  end)

  it('draws what it prunes, the same with the same seed', function()
    local function drawn(seed)
      return ridge.prune.magnitude(mlp(), { sparsity = 0.5, method = 'random', seed = seed })[1]
        .weight_mask:to('i32'):tolist()
    end
    assert.same(drawn(1), drawn(1))
    assert.are_not.same(drawn(1), drawn(2))
  end)
end)

describe('a mask', function()
  local SGD, AdamW, Lion = ridge.optim.SGD, ridge.optim.AdamW, ridge.optim.Lion
  for name, make in pairs {
    SGD = function(p) return SGD(p, { lr = 0.1, momentum = 0.9, weight_decay = 0.1 }) end,
    AdamW = function(p) return AdamW(p, { lr = 0.01, weight_decay = 0.1 }) end,
    Lion = function(p) return Lion(p, { lr = 0.01, weight_decay = 0.1 }) end,
  } do
    it('holds through steps of ' .. name, function()
      local m = ridge.prune.magnitude(mlp(), { sparsity = 0.7 })
      local before = m[1].weight:clone()
      train(m, make(m), 10)
      assert.equal(672, zeros(m[1].weight) + zeros(m[3].weight))
      assert.equal(672, zeros(m:state()['1.weight']) + zeros(m:state()['3.weight']))
      assert.is_true((m[1].weight - before):abs():max():item() > 1e-3, 'the others are trained')
    end)
  end

  it('holds where an optimizer has moments of before', function()
    local net = mlp()
    local optimizer = AdamW(net, { lr = 0.01 })
    train(net, optimizer, 5)
    require('ridge.prune.mask').set({ { module = net[1], name = 'weight' } },
      ridge.rand(32, 20):gt(0.5))
    local n = zeros(net[1].weight)
    train(net, optimizer, 5)
    assert.is_true(n > 200)
    assert.equal(n, zeros(net[1].weight))
    assert.is_true(zeros(net[1]:state().weight) < n, 'moments moved what is behind the mask')
  end)

  it('holds through averages, checkpoints, copies and types, with nan behind it', function()
    local m = ridge.prune.magnitude(mlp(), { sparsity = 0.7 })
    local average = {}
    for name, x in pairs(mlp():state()) do average[name] = x:mul(0.5) end
    for name, x in pairs(m:state()) do
      average[name] = average[name] and average[name] + x * 0.5 or x
    end
    local c = m:clone()
    c:load_state(average)
    assert.equal(672, zeros(c[1].weight) + zeros(c[3].weight))
    assert.truthy(failure(m.load_state, m, mlp():state()):find('weight_mask is missing', 1, true))
    c:state()['1.weight']:detach():fill_(0 / 0)
    assert.equal(zeros(m[1].weight), zeros(c[1].weight))
    assert.equal(0, count(ridge.tensor { 1 }:div(c[1].weight):eq(-1 / 0)
      :logical_and(c[1].weight_mask:logical_not())), 'no -0')
    local half = m:clone():to 'bf16'
    assert.equal('bool', half[1].weight_mask.dtype)
    assert.equal(672, zeros(half[1].weight) + zeros(half[3].weight))
  end)

  it('is one for a weight that two layers share', function()
    local net = nn.Sequential(nn.Embedding(12, 6), nn.Linear(6, 12))
    net[2].weight = net[1].weight
    local m = ridge.prune.magnitude(net, { sparsity = 0.5 })
    assert.equal(36, zeros(m[2].weight))
    assert.equal(36, zeros(m[1].weight))
    assert.equal(m[1].weight_mask._t, m[2].weight_mask._t)
    m:state()['1.weight']:detach():fill_(1)
    assert.equal(36, zeros(m[1].weight))
    local c = m:clone()
    assert.equal(c[1].weight_mask._t, c[2].weight_mask._t)
  end)

  it('keeps what was pruned when more is', function()
    local m = ridge.prune.magnitude(mlp(), { sparsity = 0.5, method = 'random' })
    train(m, AdamW(m, { lr = 0.05 }), 3)
    local n = ridge.prune.magnitude(m, { sparsity = 0.75 })
    assert.equal(480, count(n[1].weight_mask:logical_not():logical_and(m[1].weight_mask
      :logical_not())) + count(n[3].weight_mask:logical_not():logical_and(m[3].weight_mask
      :logical_not())))
    assert.equal(720, ridge.prune.analyze(n).zeros)
    assert.equal(480, ridge.prune.analyze(m).zeros)
  end)
end)

describe('a second mask', function()
  -- What is pruned is worth less than weights that are 0 and trained.
  it('takes what the first one took before zeros that it left', function()
    local net = nn.Sequential(nn.Linear(4, 2))
    net[1].weight:detach():copy_(ridge.tensor { { 0, 0, 5, 6 }, { 7, 8, 9, 10 } })
    require('ridge.prune.mask').set({ { module = net[1], name = 'weight' } },
      ridge.tensor({ { 1, 1, 0, 0 }, { 1, 1, 1, 1 } }):ne(0))
    local m = ridge.prune.magnitude(net, { sparsity = 0.25 })
    assert.same({ { true, true, false, false }, { true, true, true, true } },
      m[1].weight_mask:tolist())
  end)

  it('counts what the first one took, also where weights are drawn', function()
    for _, pattern in ipairs { 'element', 'block' } do
      local function drawn(net, sparsity, seed)
        return ridge.prune.magnitude(net, { sparsity = sparsity, method = 'random', seed = seed,
          pattern = pattern })
      end
      local net = nn.Sequential(nn.Linear(64, 32, { seed = 1 }), nn.Linear(32, 16, { seed = 2 }))
      local a = ridge.prune.analyze(drawn(drawn(net, 0.5, 3), 0.75, 4))
      assert.equal(0.75 * a.weights, a.zeros, pattern)
    end
  end)

  it('brings back nothing that the first one took, in any pattern', function()
    local first = ridge.prune.magnitude(mlp(), { sparsity = 0.5, method = 'random' })
    for _, opts in ipairs { { pattern = '2:4' }, { pattern = 'block', sparsity = 0.2 },
      { pattern = 'row', sparsity = 0.2 }, { sparsity = 0.1 } } do
      local second = ridge.prune.magnitude(first, opts)
      for _, at in ipairs { 1, 3 } do
        assert.equal(0, count(second[at].weight_mask:logical_and(first[at].weight_mask
          :logical_not())), opts.pattern)
      end
      assert.is_true(ridge.prune.analyze(second).zeros >= 480)
    end
  end)
end)

describe('prune.magnitude refuses', function()
  it('what is no share of weights', function()
    for _, bad in ipairs { 0, 1, 0 / 0, 70, -0.1 } do
      local text = failure(ridge.prune.magnitude, mlp(), { sparsity = bad })
      assert.truthy(text:find('more than 0 and less than 1', 1, true), text)
      assert.truthy(text:find('magnitude_spec', 1, true), text)
    end
    assert.truthy(failure(ridge.prune.magnitude, mlp(), { sparsity = 70 }):find('0.7 for 70 %', 1,
      true))
  end)

  it('all of a layer, by its name', function()
    local net = nn.Sequential(weight_of { { 10, 20 }, { 30, 40 } }, weight_of { { 1, 2 } })
    assert.truthy(failure(ridge.prune.magnitude, net, { sparsity = 0.34 })
      :find('all 2 weights of 2 would be 0', 1, true))
  end)

  it('nan, names that are nowhere, quantized nets, and nets of which all is left', function()
    local net = mlp()
    net[3].weight:detach():fill_(0 / 0)
    assert.truthy(failure(ridge.prune.magnitude, net, { sparsity = 0.5 })
      :find('3 has weights that are nan', 1, true))
    assert.truthy(failure(ridge.prune.magnitude, nn.Sequential(weight_of { { 1, 2, 0 / 0, 4 } }),
      { pattern = '2:4' }):find('1 has weights that are nan', 1, true))
    local named = nn.Sequential(nn.Linear(4, 4))
    assert.truthy(failure(ridge.prune.magnitude, named, { sparsity = 0.5, skip = { '12' } })
      :find('no such module', 1, true))
    assert.truthy(failure(ridge.prune.magnitude, named, { sparsity = 0.5, skip = { '1' } })
      :find('no layer is left', 1, true))
    assert.truthy(failure(ridge.prune.magnitude, ridge.quant.half(named:eval()), { sparsity = 0.5 })
      :find('is quantized already', 1, true))
  end)
end)

describe('prune.analyze', function()
  it('counts zeros, rows, blocks and bytes', function()
    local net = nn.Sequential(nn.Linear(8, 32))
    local w = ridge.ones(32, 8)
    w:narrow(1, 1, 16):narrow(2, 3, 1):fill_(0) -- a block
    w:narrow(1, 32, 1):fill_(0) -- a row
    net[1].weight = w
    local a = ridge.prune.analyze(net)
    local row = a.layers[1]
    assert.equal(24, a.zeros)
    assert.equal(1, row.zero_rows)
    assert.equal(1, row.zero_blocks)
    assert.equal(16, row.blocks)
    assert.is_false(row.masked)
    -- half of sixteen inputs are behind the last: 8:16, with 8 numbers and 4 bytes of places
    assert.same({ kept = 1024, dense = 1024, sparse = 232 * 8 + 33 * 4, block = 15 * 68 + 3 * 4,
      n_of_m = 32 * (8 * 4 + 4) },
      row.bytes)
    assert.equal('24 of 256 weights are 0: 9.38 %\n'
      .. 'layer class weights zeros % rows % blocks % masked MB MB in rows MB in blocks '
      .. 'MB in n:m\n'
      .. '1 nn.Linear 256 9.4 3.1 6.3 no 0.0010 0.0019 0.0010 '
      .. '0.0011 (8:16)', (tostring(a):gsub(' +', ' ')))
  end)
end)

describe('a parametrisation with buffers', function()
  it('has them saved, copied and moved, and gives them back', function()
    local layer = nn.Linear(3, 2)
    local twice = ridge.full(2, 1)
    layer:parametrize('weight', { forward = function(w, held) return w * held.factor end,
      buffers = { factor = twice } })
    local w = layer:state().weight
    assert.equal(0, (layer.weight - w * 2):abs():max():item())
    assert.equal(twice._t, layer:state().weight_factor._t)
    local c = layer:clone()
    c.weight_factor:fill_(3)
    assert.equal(0, (layer.weight - w * 2):abs():max():item())
    assert.equal(0, (c.weight - w * 3):abs():max():item())
    c:remove_parametrization 'weight'
    assert.is_nil(c:state().weight_factor)
    assert.is_nil(c.weight_factor)
    assert.truthy(failure(layer.parametrize, layer, 'bias', { forward = function(b) return b end,
      buffers = { 3 } }):find('has a name such as mask', 1, true))
    assert.truthy(failure(layer.parametrize, layer, 'bias', { forward = function(b) return b end,
      buffers = { mask = 3 } }):find('a tensor is expected', 1, true))
    assert.same({ 'bias' }, { layer.params[#layer.params].name == 'bias' and 'bias'
      or layer.params[2].name })
  end)
end)

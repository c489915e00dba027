-- SPDX-License-Identifier: MIT
-- recover: layer normalisation, GELU and batch normalisation out of their pieces, in the ways they
-- are written.
local ridge = require 'ridge'

local PASSES = { 'recover', 'dead_code_elimination' }

local function ops(graph)
  local list = {}
  for _, node in ipairs(graph:nodes()) do list[#list + 1] = node.op end
  return table.concat(list, ' ')
end

local function recovered(f, x)
  local h = ridge.graph(f, x):optimize(PASSES):check()
  local plan = h:plan()
  for _ = 1, 2 do
    x:copy_(ridge.randn(unpack(x.shape)) * 3)
    local want = f(x)
    local off = (plan:run() - want):abs():max():item() / want:abs():max():item()
    assert.is_true(off < 1e-5, ('off by %g: %s'):format(off, ops(h)))
  end
  return ops(h), h
end

local function mean(x) return x:mean(-1, true) end

describe('recover', function()
  it('finds GELU however its products stand', function()
    local x = ridge.randn(4, 6)
    local root = math.sqrt(2)
    local function e(a) return (a / root):erf() + 1 end
    for i, f in ipairs {
      function(a) return a * e(a) * 0.5 end,
      function(a) return a * 0.5 * e(a) end,
      function(a) return e(a) * (a * 0.5) end,
      function(a) return a * (e(a) * 0.5) end,
      function(a) return 0.5 * (a * ((a * math.sqrt(0.5)):erf() + 1)) end,
    } do
      assert.equal('gelu', recovered(f, x), i)
    end
  end)

  it('finds layer normalisation, with weight and bias', function()
    local x = ridge.randn(4, 6)
    local w, b = ridge.rand(6) + 0.5, ridge.randn(6)
    local function norm(a, square)
      local d = a - mean(a)
      return d / (mean(square(d)) + 1e-5):sqrt()
    end
    local squares = { function(d) return d:square() end, function(d) return d * d end,
      function(d) return d:pow(2) end }
    for i, square in ipairs(squares) do
      assert.equal('layer_norm', recovered(function(a) return norm(a, square) end, x), i)
      local ran, h = recovered(function(a) return norm(a, square) * w + b end, x)
      assert.equal('layer_norm', ran)
      assert.equal(3, #h:nodes()[1].inputs)
    end
    assert.equal('layer_norm', (recovered(function(a)
      local d = a - mean(a)
      return b + w * (d * (mean(d:square()) + 1e-3):rsqrt())
    end, x)))
  end)

  it('leaves what only looks like them', function()
    local x = ridge.randn(4, 6)
    local y = ridge.randn(4, 6)
    local function untouched(f)
      local ran = recovered(f, x)
      assert.is_nil(ran:find 'gelu', ran)
      assert.is_nil(ran:find 'layer_norm', ran)
    end
    untouched(function(a) return a * ((a / 1.5):erf() + 1) * 0.5 end) -- another root
    untouched(function(a) return a * ((a / math.sqrt(2)):erf() + 2) * 0.5 end)
    untouched(function(a) return a * ((a / math.sqrt(2)):erf() + 1) * 0.25 end) -- no half
    untouched(function(a) return a * 0.25 * ((a / math.sqrt(2)):erf() + 1) end)
    untouched(function(a) return a * (((a / math.sqrt(2)):erf() + 1) * 0.25) end)
    untouched(function(a) return y * ((a / math.sqrt(2)):erf() + 1) * 0.5 end) -- of another tensor
    untouched(function(a) -- another axis
      local d = a - a:mean(1, true)
      return d / (d:square():mean(1, true) + 1e-5):sqrt()
    end)
    untouched(function(a) -- not its own mean
      local d = a - mean(y)
      return d / (mean(d:square()) + 1e-5):sqrt()
    end)
    untouched(function(a) return (a - mean(a)) / (mean(a:square()) + 1e-5):sqrt() end)
  end)

  it('takes one weight and one bias, of norms that nobody else reads', function()
    local x = ridge.randn(4, 6)
    local w, b = ridge.rand(6) + 0.5, ridge.randn(6)
    local function norm(a)
      local d = a - mean(a)
      return d / (mean(d:square()) + 1e-5):sqrt()
    end
    for want, f in pairs {
      ['layer_norm mul'] = function(a) return norm(a) * w * b end,
      ['layer_norm add'] = function(a) return norm(a) + w + b end,
      ['layer_norm mul add'] = function(a)
        local y = norm(a)
        return y + y * w
      end,
    } do
      assert.equal(want, (recovered(f, x)))
    end
  end)

  it('leaves pieces to whom reads them, and writes where they are', function()
    local x = ridge.randn(4, 6)
    local ran = recovered(function(a)
      local d = a - mean(a)
      return d / (mean(d:square()) + 1e-5):sqrt() + d
    end, x)
    assert.equal('mean sub layer_norm add', ran)
    local g = ridge.graph(function(a)
      local b = a * 1
      local e = (b / math.sqrt(2)):erf() + 1
      b:add_(1) -- another x by then
      return b * e * 0.5
    end, x)
    assert.is_nil(ops(g:optimize(PASSES):check()):find 'gelu')
  end)
end)

describe('recover of ReLU6', function()
  local nan = 0 / 0
  local values = { -1 / 0, -7, -1e-40, -0.0, 0, 1e-40, 3, 5.999, 6, 6.001, 1 / 0, nan }

  -- Of each type the operations that are left, whose results are f's, to the sign of 0 if `bits`.
  local function left(f, bits, dtypes, passes)
    local ran
    for _, dtype in ipairs(dtypes or { 'f32', 'f64', 'bf16', 'f16' }) do
      local x = ridge.tensor(values):to(dtype)
      local h = ridge.graph(f, x):optimize(passes or PASSES):check()
      local got, want = h:plan():run():to('f64'):tolist(), f(x):to('f64'):tolist()
      for i = 1, #values do
        assert.is_true(got[i] == want[i] or got[i] ~= got[i] and want[i] ~= want[i], dtype .. i)
        if bits and want[i] == 0 then assert.equal(1 / want[i], 1 / got[i], i) end
      end
      assert.equal(ran or ops(h), ops(h), dtype)
      ran = ops(h)
    end
    return ran
  end

  it('finds it in either order', function()
    assert.equal('relu6', left(function(x) return x:relu():minimum(6) end, true))
    assert.equal('relu6', left(function(x) return x:minimum(6):relu() end, true))
    assert.equal('relu6', left(function(x) return x:clamp(0, 6) end))
    assert.equal('relu6', left(function(x) return x:minimum(6):maximum(0) end))
    assert.equal('relu6', left(function(x) -- files have numbers as tensors
      return x:maximum(ridge.full(0, {})):minimum(ridge.full(6, 1))
    end, false, { 'f32' }, { 'constant_folding', unpack(PASSES) }))
  end)

  it('leaves what only looks like it', function()
    local many, wide = ridge.full(6, 12), ridge.full(6, 1, 12)
    for i, f in ipairs {
      function(x) return x:relu():minimum(5) end,
      function(x) return x:clamp(0.5, 6) end,
      function(x) return x:clamp(-6, 6) end,
      function(x) return x:relu():maximum(6) end,
      function(x) return x:minimum(0):minimum(6) end,
      function(x) return x:minimum(6):minimum(6) end,
      function(x) return x:relu():relu() end,
      function(x) return x:neg():minimum(6) end,
      function(x) return x:relu():minimum(many:to(x.dtype)) end,
      function(x) return x:relu():minimum(wide:to(x.dtype)) end,
    } do
      local x = ridge.tensor(values)
      assert.is_nil(ops(ridge.graph(f, x):optimize(PASSES):check()):find 'relu6', i)
    end
  end)

  it('leaves what somebody reads between, and what is written to', function()
    local x = ridge.randn(4, 6) * 5
    assert.equal('relu minimum add', (recovered(function(a)
      local b = a:relu()
      return b:minimum(6) + b
    end, x)))
    assert.is_nil(ops(ridge.graph(function(a)
      local b = a:relu()
      return b:minimum(6), b
    end, x):optimize(PASSES):check()):find 'relu6')
    assert.is_nil(ops(ridge.graph(function(a)
      local b = a * 1
      local c = b:relu()
      b:add_(1)
      return c:minimum(6)
    end, x):optimize(PASSES):check()):find 'relu6')
    x:requires_grad_() -- the backward pass reads it
    local g = ridge.graph(function(a)
      a:zero_grad()
      a:relu():minimum(6):sum():backward()
      return a.grad * 1
    end, x)
    assert.is_nil(ops(g:optimize(PASSES):check()):find 'relu6')
  end)

  it('is one call with the convolution or linear function before it', function()
    local nn = ridge.nn
    for _, layer in ipairs { nn.Conv2d(3, 8, 3, { padding = 1 }), nn.Linear(9, 8) } do
      local function f(a)
        return ridge.inference(function() return layer(a):relu():minimum(6) end)
      end
      local x = ridge.randn(2, 3, 9, 9)
      local h = ridge.graph(f, x):optimize { 'recover', 'epilogue_fusion' }:check()
      assert.equal(1, #h:nodes(), ops(h))
      assert.equal('relu6', h:nodes()[1].args.act)
      x:copy_(x * 30)
      local got = h:plan():run()
      assert.equal(0, (got - f(x)):abs():max():item())
      assert.equal(6, got:max():item())
    end
  end)
end)

describe('recover of batch norms', function()
  local nn = ridge.nn
  local NORM = 'batch_norm view sub add rsqrt view mul view mul view add'
  local bn, shape

  -- A norm of six channels that has seen something, and its numbers beside an image.
  before_each(function()
    bn, shape = nn.BatchNorm(6):eval(), { 1, 6, 1, 1 }
    for name, x in pairs(bn:state()) do
      x:detach():copy_(ridge.rand(6) + (name:find 'var' and 0.5 or -0.3))
    end
  end)
  local function along(name) return bn[name]:reshape(unpack(shape)) end
  local function centred(a) return a - along 'running_mean' end
  local function var() return along 'running_var' + 1e-3 end
  local function whole(a) return centred(a) / var():sqrt() * along 'weight' + along 'bias' end

  it('finds them however they are written', function()
    for i, f in ipairs { whole,
      function(a) return along 'bias' + along 'weight' * (var():rsqrt() * centred(a)) end,
      function(a)
        local scale = bn.weight * (bn.running_var + 1e-3):rsqrt()
        return centred(a) * scale:reshape(6, 1, 1) + along 'bias'
      end,
      function(a) return centred(a) * (along 'weight' / var():sqrt()) + along 'bias' end,
      function(a) return centred(a) * (1 / var():sqrt()) * along 'weight' + along 'bias' end,
      function(a)
        return along 'bias' + centred(a) * (var():sqrt():reciprocal() * along 'weight')
      end,
    } do
      local ran, h = recovered(f, ridge.randn(2, 6, 4, 4))
      assert.equal(NORM, ran, i)
      assert.is_true(math.abs(h:nodes()[1].args.eps - 1e-3) < 1e-12)
      assert.is_true(ridge.graph.parse(tostring(h)):same(h))
    end
    assert.equal('batch_norm view sub add rsqrt view mul', (recovered(function(a)
      return centred(a) / var():sqrt()
    end, ridge.randn(2, 6, 4, 4))))
    shape = { 6 } -- of rows
    assert.equal(NORM, (recovered(whole, ridge.randn(5, 6))))
    shape = { 6, 1 } -- and between other axes
    assert.equal(NORM, (recovered(whole, ridge.randn(2, 3, 6, 5))))
  end)

  it('is folded, and reads parameters anew', function()
    local conv = nn.Conv2d(3, 6, 3, { bias = false })
    local x = ridge.randn(2, 3, 6, 6)
    local function f(a) return whole(conv(a)):relu() end
    local h = ridge.inference(function() return ridge.graph(f, x) end):optimize 'aggressive'
    local plan = h:check():plan()
    local n = 0
    for _, node in ipairs(h:nodes()) do
      assert.is_nil(node.op:match '^batch_norm', tostring(h))
      n = n + (node.op == 'conv2d' and 1 or 0)
    end
    assert.equal(1, n)
    for _, name in ipairs { 'weight', 'bias', 'running_mean', 'running_var', 'weight' } do
      local want = ridge.inference(f, x)
      local off = (plan:run() - want):abs():max():item() / want:abs():max():item()
      assert.is_true(off < 1e-5, ('%s: off by %g'):format(name, off))
      bn[name]:detach():mul_(1.5)
    end
  end)

  it('leaves what only looks like them, each condition once', function()
    local x, other = ridge.randn(2, 6, 4, 4), ridge.randn(2, 6, 4, 4)
    for i, f in ipairs {
      function(a) return (a - a:mean({ 1, 3, 4 }, true)) / var():rsqrt() end,
      function(a) return (a + along 'running_mean') / var():sqrt() end,
      function(a) return var():sqrt() / centred(a) end,
      function(a) return (along 'running_mean' - a) / var():sqrt() end,
      function(a) return centred(a) / (bn.running_var + 1e-3):sqrt():reshape(6, 1, 1):exp() end,
      function(a) return centred(a) / (along 'running_var' * 2):sqrt() end,
      function(a) return centred(a) * var():sqrt() end,
      function(a) return centred(a) * (2 / var():sqrt()) end,
      function(a) return centred(a) / (other:square() + 1e-3):sqrt() end, -- of no channel
      function(a) return (a - other) / var():sqrt() end,
      function(a) -- two axes
        return centred(a) / (ridge.ones(4) + 1e-3):sqrt()
      end,
    } do
      local ran = ops(ridge.graph(f, x):optimize(PASSES):check())
      assert.is_nil(ran:find 'batch_norm', i .. ': ' .. ran)
    end
    -- weight and bias that are none: of another axis, as large as x, read by others, given twice
    local function n_views(f) return select(2, string.gsub((recovered(f, x)), 'view', '')) end
    local function norm(a) return centred(a) / var():sqrt() end
    local w = ridge.rand(4)
    assert.equal(2, n_views(function(a) return norm(a) * w end))
    assert.equal(2, n_views(function(a) return norm(a) + other end))
    assert.equal(3, n_views(function(a) return (norm(a) + along 'bias') * along 'weight' end))
    local y, z = ridge.graph(function(a)
      local b = norm(a)
      return b, b * along 'weight'
    end, x):optimize(PASSES):check():plan():run()
    assert.is_true((y * along 'weight' - z):abs():max():item() == 0)
  end)

  it('takes no weight and no bias that run in other modes than their norm', function()
    local before = ridge.backend.now().gemm
    finally(function() ridge.backend.set_gemm(before) end)
    for name, f in pairs {
      weight = function(y) return y * along 'weight' end,
      bias = function(y) return y + along 'bias' end,
    } do
      for second, n in pairs { own = 3, openblas = 2 } do -- views: one more where it is taken
        local ran = recovered(function(a)
          ridge.backend.set_gemm 'own'
          local y = centred(a) / var():sqrt()
          ridge.backend.set_gemm(second)
          return f(y)
        end, ridge.randn(2, 6, 4, 4))
        assert.equal(n, select(2, ran:gsub('view', '')), name .. ', ' .. second .. ': ' .. ran)
      end
    end
  end)

  it('leaves what is written to behind its pieces', function()
    local x = ridge.randn(2, 6, 4, 4)
    for _, late in ipairs { 'running_mean', 'running_var' } do
      local held = ridge.ones(1, 6, 1, 1)
      local g = ridge.graph(function(a)
        local middle = late == 'running_mean' and held or along 'running_mean'
        local v = late == 'running_var' and held or along 'running_var'
        local d, s = a - middle, (v + 1e-3):sqrt()
        held:add_(1)
        return d / s
      end, x):optimize(PASSES):check()
      assert.is_nil(ops(g):find 'batch_norm', late)
    end
  end)

  it('takes away pieces that would keep a product from its activation', function()
    local layer = nn.Linear(6, 6)
    local h = ridge.inference(function()
      return ridge.graph(function(a)
        local y = layer(a)
        return y * ((y / math.sqrt(2)):erf() + 1) * 0.5
      end, ridge.randn(4, 6))
    end):optimize { 'recover', 'epilogue_fusion' }:check()
    assert.equal('linear', ops(h))
    assert.equal('gelu', h:nodes()[1].args.act)
  end)
end)

-- SPDX-License-Identifier: MIT
--- What operations cost, counted by hand: every roofline, every GFLOP/s and the choice what to
--- recompute begin with these numbers.

local ridge = require 'ridge'
local nn = ridge.nn

local x, y = ridge.rand(3, 5) + 0.5, ridge.rand(3, 5) + 0.5
local N = 15 -- elements of x

local function facts(f)
  local plan = ridge.graph(f):plan() -- what nobody needs is counted, too
  local found = plan:facts()
  plan:release()
  return found
end

-- Flops of a function's only step, of which there are so many for each element.
local EACH = { neg = 1, abs = 1, sign = 1, square = 1, relu = 1, floor = 1, ceil = 1, round = 1,
  sqrt = 1, rsqrt = 2, reciprocal = 1, exp = 10, log = 10, log1p = 10, sin = 10, cos = 10,
  tanh = 10, erf = 10, sigmoid = 12, gelu = 14, silu = 12, softplus = 22,
  trunc = 1, exp2 = 10, expm1 = 10, log2 = 10, tan = 10, asin = 10, acos = 10, atan = 10, sinh = 10,
  cosh = 10, asinh = 10, acosh = 10, atanh = 10, selu = 15, mish = 20, softsign = 3,
  hardsigmoid = 4, hardswish = 5, relu6 = 2 }
local PAIRS = { add = 1, sub = 1, mul = 1, div = 1, pow = 21, maximum = 1, minimum = 1,
  remainder = 4, fmod = 3, floor_divide = 5, trunc_divide = 2, atan2 = 11, prelu = 2, elu = 12,
  celu = 13, threshold = 1 }
local FOLDS = { sum = 1, prod = 1, mean = 1, max = 1, min = 1 }

describe('the cost of an operation', function()
  it('is a number of operations for each element', function()
    for name, each in pairs(EACH) do
      local cost = facts(function() return x[name](x) end)
      assert.same({ name, each * N, 4 * 2 * N }, { name, cost.flops, cost.bytes })
    end
    for name, each in pairs(PAIRS) do
      local cost = facts(function() return x[name](x, y) end)
      assert.same({ name, each * N, 4 * 3 * N }, { name, cost.flops, cost.bytes })
    end
    for name, each in pairs(FOLDS) do
      local cost = facts(function() return x[name](x, 2) end)
      assert.same({ name, each * N, 4 * (N + 3) }, { name, cost.flops, cost.bytes })
    end
    local function flops(f) return facts(f).flops end
    assert.equal(N, flops(function() return x:lt(y) end))
    assert.equal(N, flops(function() return x:argmax(2) end))
    assert.equal(N, flops(function() return x:cumsum(2) end))
    assert.equal(N, flops(function() return x:to 'bf16' end))
    assert.equal(14 * N, flops(function() return x:softmax(2) end))
    for p, each in pairs { [1] = 2, [2] = 2, [1 / 0] = 2, [3] = 23 } do
      assert.equal(each * N, flops(function() return x:norm(p) end))
    end
    assert.equal(0, flops(function() return x:clone() end))
    assert.equal(0, flops(function() return ridge.zeros(3, 5) end))
    assert.equal(0, flops(function() return ridge.concat({ x, y }, 1) end))
    assert.equal(2 * 10, flops(function() return ridge.arange(0, 9) end))
  end)

  it('has 25 for each random number, wherever one is drawn', function()
    assert.equal(25 * N, facts(function() return ridge.rand(3, 5) end).flops)
    local draw = facts(function() return ridge.randn(3, 5) end).flops
    assert.equal(25 * 16, draw) -- they come in pairs
    assert.equal((1 + 25) * N, facts(function() return x:dropout(0.5) end).flops)
  end)

  it('has two for each element of the result and of the inner axis in products', function()
    local w = ridge.rand(7, 5)
    assert.equal(2 * 3 * 7 * 5, facts(function() return x:matmul(w:t()) end).flops)
    local linear = nn.Linear(5, 7):eval()
    local cost = facts(function() return linear(x) end)
    assert.same({ 2 * 3 * 7 * 5, 4 * (3 * 5 + 7 * 5 + 7 + 3 * 7) }, { cost.flops, cost.bytes })
    local bytes, eight = ridge.zeros(3, 5, { dtype = 'i8' }), ridge.zeros(7, 5, { dtype = 'i8' })
    assert.equal(2 * 3 * 7 * 5 + 2 * 3 * 7, -- and two scales for each element of the result
      facts(function() return ridge.scaled_linear(bytes, eight, 1, 1) end).flops)
    local low = nn.LowRankLinear(5, 7, { rank = 2 }):eval()
    assert.equal(2 * 3 * 2 * (5 + 7), facts(function() return low(x) end).flops)
    local images = ridge.rand(2, 4, 6, 5)
    local conv = nn.Conv2d(4, 6, 3, { groups = 2 }):eval()
    -- images x channels out x channels in of a group x window x places
    assert.equal(2 * 2 * 6 * 2 * 9 * (4 * 3), facts(function() return conv(images) end).flops)
    assert.equal(2 * 4 * 3 * 2 * 4, facts(function() return images:max_pool2d(2) end).flops)
    assert.equal(2 * 4 * 3 * 2 * 4, facts(function() return images:avg_pool2d(2) end).flops)
    assert.equal(6 * 5 * 9 + 20 * 27, facts(function() return x:svd() end).flops)
    assert.equal(8 * N, facts(function() return nn.LayerNorm(5):eval()(x) end).flops)
  end)

  it('of sums of bytes is by what is moved and scaled, added and made bytes again', function()
    local a, b = ridge.zeros(3, 5, { dtype = 'i8' }), ridge.zeros(3, 5, { dtype = 'u8' })
    local function each(...)
      local args = { ... }
      return facts(function() return ridge.scaled_add(unpack(args, 1, 5)) end).flops / N
    end
    assert.equal(3, each(a, b, 0.5, 1))
    assert.equal(1, each(a, nil, 0.5))
    assert.equal(5, each(a, b, 0.5, 1, { a_zero = 1, b_zero = 2 }))
    assert.equal(4, each(a, b, 0.5, 1, { b_zero = 2 }))
    assert.equal(1 + 1 + 1, each(a, nil, 0.5, nil, { a_zero = 3, activation = 'relu' }))
    assert.equal(3 + 4, each(a, b, 0.5, 1, { dtype = 'i8', y_scale = 2 }))
    assert.equal(3 + 14 + 5,
      each(a, b, 0.5, 1, { activation = 'gelu', dtype = 'u8', y_scale = 2, y_zero = 1 }))
  end)

  it('of sums over replicas has a division where they become means', function()
    local function each(mean)
      local three = { ridge.rand(3, 5), ridge.rand(3, 5), ridge.rand(3, 5) }
      return ridge.profile(function() ridge.all_reduce_(three, { mean = mean }) end,
        { roof = 'none' }).operations[1].flops / N
    end
    assert.same({ 2, 3 }, { each(false), each(true) })
  end)

  it('of attention is that of the weights that a causal one sees', function()
    local function flops(n, m, opts)
      local q, k, v = ridge.rand(2, n, 4), ridge.rand(2, m, 4), ridge.rand(2, m, 5)
      return facts(function() return nn.attention(q, k, v, opts) end).flops
    end
    local each = 2 * (4 + 5) + 14 -- operations of one weight
    -- and one of each number of the result
    assert.equal(2 * 3 * 6 * each + 2 * 3 * 5, flops(3, 6))
    assert.equal(2 * (1 + 2 + 3) * each + 2 * 3 * 5, flops(3, 6, { causal = true }))
    assert.near(2 * (1 + 2 + 3 + 3 + 3 + 3) * each + 2 * 6 * 5, flops(6, 3, { causal = true }),
      1e-9)
  end)

  it('is counted of the backward pass too', function()
    local numbers = ridge.tensor({ 1, 2, 3 }, { dtype = 'i64' })
    local two = ridge.tensor({ 1, 2 }, { dtype = 'i64' })
    -- Flops behind those of the forward pass.
    local function back(shape, f)
      local input = ridge.rand(shape):requires_grad_()
      local ones = ridge.ones(f(input):size())
      local forward = facts(function() return ridge.no_grad(f, input) end).flops
      return facts(function()
        f(input):backward(ones)
        return input.grad
      end).flops - forward
    end
    local norm, conv = nn.LayerNorm(5), nn.Conv2d(4, 6, 3, { groups = 2 })
    local k, v = ridge.rand(2, 6, 4), ridge.rand(2, 6, 5)
    assert.equal(2 * N, back({ 3, 5 }, function(z) return z:relu() end))
    assert.equal(29 * N, back({ 3, 5 }, function(z) return z:gelu() end))
    assert.equal(4 * N, back({ 3, 5 }, function(z) return z:softmax(2) end))
    assert.equal(13 * N, back({ 3, 5 }, norm))
    assert.equal((1 + 25) * N, back({ 3, 5 }, function(z) return z:dropout(0.5) end))
    assert.equal(12 * N, back({ 3, 5 }, function(z) return nn.cross_entropy(z, numbers) end))
    assert.equal(2 * 5, back({ 7, 5 }, function(z) return z:take(two) end))
    assert.equal(2 * 3 * 6 * (6 * 4 + 4 * 5 + 15) + 2 * 2 * 3 * 5, back({ 2, 3, 4 }, function(z)
      return nn.attention(z, k, v)
    end))
    local images, window = { 2, 4, 6, 5 }, 2 * 4 * 3 * 2
    assert.equal(window, back(images, function(z) return z:max_pool2d(2) end))
    assert.equal(window * 4, back(images, function(z) return z:avg_pool2d(2) end))
    assert.equal(2 * 2 * 2 * 6 * 2 * 9 * (4 * 3), back(images, conv))
  end)
end)

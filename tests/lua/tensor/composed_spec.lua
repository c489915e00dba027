-- SPDX-License-Identifier: MIT
--- Functions that are made of others: values, gradients, ends.

local ridge = require 'ridge'

local NAN, INF = 0 / 0, math.huge

local function same(wanted, x) assert.same(wanted, x:tolist()) end

describe('clamp', function()
  it('keeps numbers between two, either of which may be missing', function()
    local x = ridge.tensor { -2, 0.5, 3, INF, -INF }
    same({ -1, 0.5, 1, 1, -1 }, x:clamp(-1, 1))
    same({ -1, 0.5, 3, INF, -1 }, x:clamp(-1))
    same({ -2, 0.5, 1, 1, -INF }, x:clamp(nil, 1))
    same({ 1, 1, 1, 1, 1 }, x:clamp(2, 1)) -- the highest wins
    same({ -2, 0, 2, 2, -2 },
      x:clamp(ridge.tensor { -2, -2, -2, -2, -2 }, ridge.tensor { 2, 0, 2, 2, 2 }))
    local i = ridge.tensor({ -7, 7 }, { dtype = 'i8' }):clamp(-3, 3)
    assert.same({ 'i8', { -3, 3 } }, { i.dtype, i:tolist() })
    local nan = ridge.tensor({ NAN }):clamp(0, 1):item()
    assert.is_true(nan ~= nan)
    assert.error_matches(function() x:clamp() end, 'clamp: a lowest or a highest value is expected')
    assert.error_matches(function() x:clamp('a') end, 'clamp: a tensor or a number is expected')
  end)
end)

describe('leaky_relu', function()
  it('has its slope below 0', function()
    local x = ridge.tensor({ -2, 0, 3 }):requires_grad_()
    local y = x:leaky_relu(0.25)
    same({ -0.5, 0, 3 }, y)
    y:backward(ridge.tensor { 4, 5, 6 })
    same({ 1, 5, 6 }, x.grad)
    assert.is_true(ridge.tensor({ -1 }):leaky_relu():allclose(ridge.tensor { -0.01 }))
    assert.error_matches(function() x:leaky_relu('a') end, "leaky_relu: slope is a number, got 'a'")
  end)
end)

describe('any and all', function()
  it('answer over axes, of every type, and of nothing', function()
    local x = ridge.tensor { { 0, 0, 0 }, { 0, 2, 0 }, { 1, NAN, -1 } }
    for _, dtype in ipairs { 'f32', 'f16', 'f64' } do
      same({ false, true, true }, x:to(dtype):any(2))
      same({ { false, false, true } }, x:to(dtype):all(2, true):t())
    end
    for _, dtype in ipairs { 'i64', 'i32', 'i8', 'bool' } do
      local whole = ridge.tensor({ { 0, 0, 0 }, { 0, 2, 0 }, { 1, 5, 1 } }, { dtype = dtype })
      same({ true, true, true }, whole:any(1))
      same({ false, false, false }, whole:all(1))
      same({ false, false, true }, whole:all(-1))
      same(true, whole:any())
      same(false, whole:all { 1, 2 })
    end
    local none = ridge.zeros(2, 0)
    same({ false, false }, none:any(2))
    same({ true, true }, none:all(2))
    same({}, none:any(1))
    assert.equal('bool', none:any(2).dtype)
    assert.error_matches(function() x:any(3) end, 'any: there is no axis 3')
  end)
end)

describe('logsumexp', function()
  it('is that of its softmax, without numbers that are too large', function()
    local x = ridge.tensor { { 1000, 1000 }, { -1000, -1001 }, { 0, 1 } }
    local wanted = ridge.tensor { 1000 + math.log(2), -1000 + math.log(1 + math.exp(-1)),
      math.log(1 + math.exp(1)) }
    assert.is_true(x:logsumexp(2):allclose(wanted, 1e-6))
    assert.same({ 3, 1 }, x:logsumexp(2, true):size())
    assert.same({}, x:logsumexp():size())
    same({ INF, -INF, INF }, ridge.tensor({ { INF, 0 }, { -INF, -INF }, { INF, -INF } })
      :logsumexp(2))
    same({ -INF, -INF }, ridge.zeros(2, 0):logsumexp(2))
    local leaf = ridge.randn(4, 7):requires_grad_()
    leaf:logsumexp({ 1, 2 }):backward()
    local wanted_slope = leaf:detach():reshape(-1):softmax():reshape(4, 7)
    assert.is_true(leaf.grad:allclose(wanted_slope, 1e-5, 1e-6))
  end)
end)

describe('what is made', function()
  it('has ones where numbers say', function()
    local i = ridge.tensor({ { 2, 0 }, { -1, 5 } }, { dtype = 'i32' })
    same({ { { 0, 0, 1 }, { 1, 0, 0 } }, { { 0, 0, 0 }, { 0, 0, 0 } } }, ridge.one_hot(i, 3))
    assert.equal('i64', ridge.one_hot(i, 3).dtype)
    assert.equal('f16', ridge.one_hot(i, 3, { dtype = 'f16' }).dtype)
    assert.same({ 2, 2, 6 }, ridge.one_hot(i):size())
    assert.same({ 0, 4 }, ridge.one_hot(ridge.zeros(0, { dtype = 'i64' }), 4):size())
    assert.error_matches(function() ridge.one_hot(ridge.ones(2), 3) end,
      'one_hot: whole numbers are expected, got f32%[2%]')
    assert.error_matches(function() ridge.one_hot(i, -1) end, 'one_hot: n is a whole number')
  end)

  it('lies on a diagonal, or on a line', function()
    same({ { 1, 0, 0 }, { 0, 1, 0 } }, ridge.eye(2, 3))
    same({ { 1, 0 }, { 0, 1 }, { 0, 0 } }, ridge.eye(3, 2, { dtype = 'i8' }))
    same({ { true, false }, { false, true } }, ridge.eye(2, { dtype = 'bool' }))
    assert.same({ 0, 0 }, ridge.eye(0):size())
    same({ 0, 0.25, 0.5, 0.75, 1 }, ridge.linspace(0, 1, 5))
    same({ 3 }, ridge.linspace(3, 4, 1))
    same({}, ridge.linspace(3, 4, 0))
    local x = ridge.linspace(0.1, 0.7, 8, { dtype = 'f64' })
    assert.equal(0.7, x:get(8))
    assert.error_matches(function() ridge.linspace(0, 1, 1.5) end, 'linspace: n is a whole number')
    assert.error_matches(function() ridge.eye(-1) end, 'eye: size 1 is %-1')
    assert.error_matches(function() ridge.eye() end, 'composed_spec%.lua:%d+: eye: the number of')
  end)
end)

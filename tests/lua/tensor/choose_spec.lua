-- SPDX-License-Identifier: MIT
--- Choosing between tensors: what a condition may be, numbers in the place of tensors, gradients.

local ridge = require 'ridge'

local NAN, INF = 0 / 0, math.huge

describe('where', function()
  it('takes bool and u8 conditions, of any strides, and broadcasts all three', function()
    local x, y = ridge.tensor { { 1, 2, 3 }, { 4, 5, 6 } }, ridge.tensor { 10, 20, 30 }
    local bytes = ridge.tensor({ { 0, 200, 1 } }, { dtype = 'u8' })
    assert.same({ { 10, 2, 3 }, { 10, 5, 6 } }, ridge.where(bytes, x, y):tolist())
    assert.same({ { 10, 2, 3 }, { 10, 5, 6 } }, x:where(bytes:to 'bool', y):tolist())
    local turned = ridge.tensor({ { 1, 0 }, { 0, 0 }, { 1, 1 } }, { dtype = 'bool' }):t()
    assert.same({ { 1, 20, 3 }, { 10, 20, 6 } }, ridge.where(turned, x, y):tolist())
    local wide = ridge.zeros(2, 100, { dtype = 'u8' })
    wide:narrow(2, 1, 50, 2):fill_(255) -- every other one, in rows long enough for loops
    local on, off = ridge.arange(1, 100), ridge.arange(1, 200, 2)
    local got = ridge.where(wide, on, off)
    for i = 1, 100 do
      assert.equal(i % 2 == 1 and i or 2 * i - 1, got:get(2, i))
    end
    assert.same({ 2, 0 }, ridge.where(ridge.ones(2, 1):eq(1), ridge.ones(0), 1):size())
  end)

  it('takes numbers, in the type of the tensor beside them where that holds them', function()
    local c = ridge.tensor({ 1, 0 }, { dtype = 'bool' })
    local function made(x, y)
      local z = ridge.where(c, x, y)
      return { z.dtype, z:tolist() }
    end
    local i8 = ridge.tensor({ 7, 8 }, { dtype = 'i8' })
    assert.same({ 'i8', { 7, -1 } }, made(i8, -1))
    assert.same({ 'i64', { 300, 8 } }, made(300, i8))
    assert.same({ 'f32', { 7, 0.5 } }, made(i8, 0.5))
    for sign = -1, 1, 2 do -- 64 bits hold what is below 2^63
      assert.same({ 'i64', { 7, sign * (2 ^ 63 - 1024) } }, made(i8, sign * (2 ^ 63 - 1024)))
      for _, large in ipairs { 2 ^ 63, 2 ^ 64, 2 ^ 80 } do
        assert.same({ 'f32', { 7, sign * large } }, made(i8, sign * large))
      end
    end
    assert.same({ 'f32', { -INF, 8 } }, made(-INF, i8))
    assert.same({ 'f16', { 0.5, 8 } }, made(0.5, i8:to 'f16'))
    assert.same({ 'f64', { 7, 0.1 } }, made(i8:to 'f64', 0.1))
    assert.same({ 'bool', { true, false } }, made(i8:to 'bool', 0))
    assert.same({ 'f32', { 1, 2 } }, made(1, 2))
  end)

  it('gives a gradient to what it took, and 0 to what it did not, whatever stands there', function()
    local x = ridge.tensor({ { 1, NAN, -INF }, { INF, 2, 3 } }):requires_grad_()
    local y = ridge.tensor({ NAN, INF, 5 }):requires_grad_()
    local c = ridge.tensor({ { 1, 0, 0 }, { 0, 1, 1 } }, { dtype = 'bool' })
    local dy = ridge.tensor { { 10, 20, 30 }, { 40, 50, 60 } }
    ridge.where(c, x, y):backward(dy)
    assert.same({ { 10, 0, 0 }, { 0, 50, 60 } }, x.grad:tolist())
    assert.same({ 40, 20, 30 }, y.grad:tolist())
  end)

  it('says at the line what it cannot take', function()
    local x, c = ridge.ones(2), ridge.ones(2):eq(1)
    local function told(...)
      local ok, err = pcall(ridge.where, ...)
      assert.is_false(ok)
      assert.matches('choose_spec.lua:%d+: where: ', tostring(err))
      return tostring(err)
    end
    assert.matches('a condition is bool or u8, got f32%[2%]', told(x, x, x))
    assert.matches("a tensor or a number is expected, got 'no'", told(c, x, 'no'))
    assert.matches('shapes .* do not broadcast', told(c, ridge.ones(3), x))
    assert.matches('where: a tensor is expected', told(1, x, x))
  end)
end)

describe('questions about numbers', function()
  it('are answered in bool, of every type', function()
    local x = ridge.tensor { 1, NAN, INF, -INF, 0, -0.0 }
    for _, dtype in ipairs { 'f32', 'f64', 'f16', 'bf16' } do
      local v = x:to(dtype)
      local function of(name) return v[name](v):to('i64'):tolist() end
      assert.same({ 0, 1, 0, 0, 0, 0 }, of 'isnan')
      assert.same({ 0, 0, 1, 1, 0, 0 }, of 'isinf')
      assert.same({ 0, 0, 1, 0, 0, 0 }, of 'isposinf')
      assert.same({ 0, 0, 0, 1, 0, 0 }, of 'isneginf')
      assert.same({ 1, 0, 0, 0, 1, 1 }, of 'isfinite')
      assert.same({ 0, 0, 0, 0, 1, 1 }, of 'logical_not')
    end
    local i = ridge.tensor({ 0, -3 }, { dtype = 'i64' })
    assert.same({ false, false }, i:isnan():tolist())
    assert.same({ true, true }, i:isfinite():tolist())
    assert.same({ true, false }, i:logical_not():tolist())
    assert.same({ true, false }, (i:to 'bool'):logical_not_():tolist())
  end)
end)

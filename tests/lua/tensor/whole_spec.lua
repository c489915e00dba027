-- SPDX-License-Identifier: MIT
--- Whole numbers at the ends of their types: division and remainders, bits, shifts. And remainders
--- of floats that a quotient in their own type would get wrong.

local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'

local WHOLE = { 'i64', 'i32', 'i8', 'u8' }
local LEAST = { i64 = -2 ^ 63, i32 = -2 ^ 31, i8 = -128, u8 = 0 }
local MOST = { i32 = 2 ^ 31 - 1, i8 = 127, u8 = 255 }

describe('whole numbers', function()
  it('are divided by 0 and by -1 without a fault', function()
    for _, dtype in ipairs(WHOLE) do
      local least = ridge.full(LEAST[dtype], 40, { dtype = dtype })
      local zero = ridge.zeros(40, { dtype = dtype })
      for _, name in ipairs { 'remainder', 'fmod', 'floor_divide', 'trunc_divide' } do
        assert.equal(0, least[name](least, zero):get(40), name .. dtype)
        assert.equal(0, least[name](least, 0):get(1), name .. dtype)
        assert.equal(0, (least[name](7, zero)):get(1), name .. dtype)
      end
      if dtype ~= 'u8' then
        local minus = ridge.full(-1, 40, { dtype = dtype })
        assert.equal(0, least:remainder(minus):get(3), dtype)
        assert.equal(0, least:fmod(minus):get(3), dtype)
        assert.equal(LEAST[dtype], least:trunc_divide(minus):get(3), dtype) -- it wraps around
        assert.equal(LEAST[dtype], least:floor_divide(minus):get(3), dtype)
      end
      if MOST[dtype] then
        local most = ridge.full(MOST[dtype], 40, { dtype = dtype })
        assert.equal(MOST[dtype] % 7, most:remainder(7):get(1), dtype)
        assert.equal(1, most:floor_divide(most):get(1), dtype)
        assert.equal(0, most:fmod(most):get(1), dtype)
      end
    end
  end)

  it('round to the side that the name says', function()
    local x = ridge.tensor({ 7, -7, 7, -7 }, { dtype = 'i32' })
    local y = ridge.tensor({ 2, 2, -2, -2 }, { dtype = 'i32' })
    for _, dtype in ipairs { 'i32', 'i64', 'i8', 'f32', 'f16' } do
      local a, b = x:to(dtype), y:to(dtype)
      assert.same({ 1, 1, -1, -1 }, a:remainder(b):tolist())
      assert.same({ 1, -1, 1, -1 }, a:fmod(b):tolist())
      assert.same({ 3, -4, -4, 3 }, a:floor_divide(b):tolist())
      assert.same({ 3, -3, -3, 3 }, a:trunc_divide(b):tolist())
    end
  end)

  it('are moved by more places than they have', function()
    for dtype, bits in pairs { i64 = 64, i32 = 32, i8 = 8, u8 = 8 } do
      local x = ridge.tensor({ 1, 3, dtype == 'u8' and 200 or -5 }, { dtype = dtype })
      local out = dtype == 'u8' and 0 or -1
      for _, by in ipairs { bits, bits + 1, 100 } do
        assert.same({ 0, 0, 0 }, x:bitwise_left_shift(by):tolist(), dtype)
        assert.same({ 0, 0, out }, x:bitwise_right_shift(by):tolist(), dtype)
      end
      assert.equal(LEAST[dtype] < 0 and LEAST[dtype] or 128,
        x:bitwise_left_shift(bits - 1):get(1), dtype)
      assert.same({ 0, 1, dtype == 'u8' and 100 or -3 }, x:bitwise_right_shift(1):tolist(), dtype)
    end
    local x = ridge.tensor({ 170 }, { dtype = 'u8' })
    assert.same({ 85 }, x:bitwise_not():tolist())
    assert.same({ 85 }, x:bitwise_xor(255):tolist())
    assert.same({ false, true }, ridge.tensor({ 1, 0 }, { dtype = 'bool' }):bitwise_not():tolist())
  end)
end)

describe('remainders of floats', function()
  it('are exact, however large the quotient', function()
    for _, dtype in ipairs { 'f32', 'f64' } do
      local x = ridge.tensor({ 2 ^ 100, 1e30, 16777217, -1e10 }, { dtype = dtype })
      local got = x:fmod(7)
      -- exact in f64: powers of two modulo 7, and what the type made of the others
      assert.equal(2 ^ (100 % 3), got:get(1), dtype)
      for i = 2, 4 do
        assert.equal(math.fmod(x:get(i), 7), got:get(i), dtype)
        assert.equal(math.fmod(x:get(i), 7) % 7, x:remainder(7):get(i), dtype)
      end
    end
  end)

  it('of f32 are those of the C library, by way of f64 or not, on every instruction set', function()
    -- quotients up to 2^40, half of them as near to a whole number as f32 comes
    local y = ridge.rand(3000, { generator = ridge.generator(1) }) + 0.5
    local up = ridge.linspace(0, 40, 3000):floor():exp2()
    local x = (ridge.rand(3000, { generator = ridge.generator(2) }) + 1) * up
    local near = (x:floor() * y):clone()
    local a, b = ridge.concat({ x, near, near * (1 - 2 ^ -24), -near * (1 + 2 ^ -23) }),
      ridge.concat { y, y, -y, y }
    local wanted = {}
    for i = 1, a.count do wanted[i] = math.fmod(a:get(i), b:get(i)) end
    local most = C.rg_machine_facts().isa_level
    for level = 0, most do
      assert(C.rg_set_isa(level) == 0)
      local got = a:fmod(b):tolist()
      assert(C.rg_set_isa(most) == 0)
      assert.same(wanted, got)
    end
  end)

  it('do not count a quotient that is rounded up', function()
    local tenth = ridge.tensor { 1 } -- 1 / 0.1 is 10 once it is rounded, and 0.1 a bit more
    assert.equal(9, tenth:floor_divide(ridge.tensor { 0.1 }):get(1))
  end)
end)

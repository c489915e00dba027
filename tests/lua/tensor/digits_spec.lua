-- SPDX-License-Identifier: MIT
-- digits_spec: one row of f32 times weights of four and two bits, in digits of whole numbers
-- (core/cpu/packed_digits.c), beside sums in f64; and what no digit can stand for.

local ridge = require 'ridge'

local function made(bits, group, n, k, min)
  local codes = (ridge.rand(n, k) * (2 ^ bits - 0.01)):floor()
  local w = { packed = ridge.pack_bits(codes:to 'u8', { bits = bits }), options = { bits = bits,
    group = group } }
  w.scale = (ridge.rand(n, k / group) * 0.1 + 0.01):to 'f16'
  if min then w.options.min = (ridge.rand(n, k / group) - 0.5):to 'f16' end
  local full = codes:to 'f64'
  if not min then full = full - 2 ^ (bits - 1) end
  full = full:reshape(n, k / group, group) * w.scale:to 'f64':reshape(n, k / group, 1)
  if min then full = full + w.options.min:to 'f64':reshape(n, k / group, 1) end
  w.full = full:reshape(n, k)
  return w
end

local function product(w, x) return ridge.packed_linear(x, w.packed, w.scale, w.options) end

-- How far it is off, in parts of the sum of all sizes; x and w are of f64 for the reference.
local function off(w, x)
  local x64 = x:to 'f64'
  local wanted, sizes = x64:matmul(w.full:t()), x64:abs():matmul(w.full:abs():t())
  return ((product(w, x):to 'f64' - wanted):abs() / (sizes + 1e-300)):max():item()
end

local function path(w, x)
  return ridge.profile(function() product(w, x) end).operations[1].path
end

local HAS = path(made(4, 32, 32, 64), ridge.ones(1, 64)) == 'own:digits'

describe('a row times weights of few bits', function()
  before_each(function() ridge.seed(7) end)

  it('is within the rounding of f32 of the sum, at every number of groups and rows', function()
    for _, bits in ipairs { 4, 2 } do
      for _, group in ipairs { 32, 64, 128 } do
        for _, groups in ipairs { 1, 2, 3, 7, 8, 9, 17 } do
          for n = 31, 37, 2 do
            local w = made(bits, group, n, group * groups, groups % 2 == 0)
            local x = ridge.randn(1, group * groups) * 10 ^ (groups - 8)
            local err = off(w, x)
            assert.is_true(err < 4e-7, ('%d bits, %d x %d: %g'):format(bits, groups, group, err))
          end
        end
      end
    end
  end)

  -- Digits are of 8 bits with a sign: the numbers about which one is carried, and the largest.
  it('has the numbers at which a digit is carried', function()
    for _, bits in ipairs { 4, 2 } do
      local w = made(bits, 32, 35, 320)
      local list = {}
      for i, q in ipairs { 0, 1, 127, 128, 129, 255, 256, 32639, 32640, 32641, 32767, 32768, 32896,
          65535, 65536, 4194303, 4194304, 8355000, 8355001, 8355071, 8355072, 8388607 } do
        list[2 * i - 1], list[2 * i] = q, -q
      end
      for shift = 0, 31 do
        local x = ridge.zeros(1, 320)
        for i, q in ipairs(list) do x[{ 1, (i * 7 + shift) % 320 + 1 }] = q end
        assert.is_true(off(w, x) < 4e-7)
        -- a block of a single number is exact where that has few bits
        local alone = ridge.zeros(1, 320)
        alone[{ 1, shift * 10 + 1 }] = -3 * 2 ^ (shift - 16)
        assert.equal(0, off(w, alone))
      end
    end
  end)

  it('has blocks of unlike sizes each for itself', function()
    local w = made(4, 32, 38, 256)
    local x = ridge.randn(1, 256)
    for b = 0, 7 do x:narrow(2, 32 * b + 1, 32):mul_(1000 ^ (b - 4)) end
    for b = 0, 7 do
      local own = ridge.zeros(1, 256)
      own:narrow(2, 32 * b + 1, 32):copy_(x:narrow(2, 32 * b + 1, 32))
      assert.is_true(off(w, own) < 4e-7, b)
    end
    assert.is_true(off(w, x) < 4e-7)
  end)

  it('is what it is by floats where a number is none, or too small for digits', function()
    local w = made(4, 32, 33, 96)
    for _, value in ipairs { 1 / 0, -1 / 0, 0 / 0, 1e-31, 1e-40 } do
      for _, at in ipairs { 1, 40, 96 } do
        local x = value < 1e-30 and value > 0 and ridge.zeros(1, 96) or ridge.randn(1, 96)
        x[{ 1, at }] = value
        local one, two = product(w, x), product(w, ridge.concat({ x, x }, 1))
        for j = 1, 33 do
          local a, b = one[{ 1, j }]:item(), two[{ 1, j }]:item()
          assert.is_true(a == b or a ~= a and b ~= b or math.abs(a - b) <= 1e-6 * math.abs(b),
            ('%g at %d: %g, %g'):format(value, at, a, b))
        end
      end
    end
    assert.equal(0, product(w, ridge.zeros(1, 96)):abs():max():item())
    assert.equal('own:dots', path(w, ridge.ones(1, 96) / 0)) -- and says so
  end)

  -- A weight of 0 hides the largest number of a block, and not what it does to the others.
  it('is off by 2^-23 of the largest number of a block at most', function()
    local w = made(4, 32, 64, 32)
    local x = ridge.randn(1, 32)
    for _, most in ipairs { 1e3, 1e10, 3e37 } do
      x[{ 1, 5 }] = most
      local err = (product(w, x):to 'f64' - x:to 'f64':matmul(w.full:t())):abs()
      local bound = w.full:abs():sum(2):reshape(1, 64) * (most * 2 ^ -23)
      assert.is_true((err / bound):max():item() < 1)
    end
  end)

  it('of bytes goes by bytes, the same on every instruction set that multiplies some', function()
    local C = require 'ridge.ffi.lib'
    local most, found = C.rg_machine_facts().isa_level, nil
    for level = tonumber(C.RG_ISA_AVX2), most do
      assert.equal(0, C.rg_set_isa(level))
      for _, bits in ipairs { 2, 3, 4, 6, 8 } do
        ridge.seed(bits)
        local w = made(bits, 64, 37, 320)
        local x, scale = ridge.quantize_rows(ridge.randn(3, 320))
        w.options.x_scale = scale
        assert.matches(level < C.RG_ISA_AVX512 and 'own:pairs' or 'own:[pv][an]', path(w, x))
        found = found or {}
        local y = product(w, x)
        found[bits] = found[bits] or y
        assert.equal(0, (y - found[bits]):abs():max():item())
      end
    end
    assert.equal(0, C.rg_set_isa(most))
  end)

  it('goes by digits with four and two bits, where bytes can be multiplied', function()
    for _, bits in ipairs { 2, 3, 4, 6, 8 } do
      local w = made(bits, 32, 32, 64)
      local one = path(w, ridge.ones(1, 64))
      assert.equal(HAS and (bits == 4 or bits == 2) and 'own:digits' or 'own:dots', one)
      assert.equal('own:dots', path(w, ridge.ones(2, 64)))
      assert.equal('own:dots', path(made(bits, 32, 31, 64), ridge.ones(1, 64)))
    end
  end)
end)

-- SPDX-License-Identifier: MIT
--- A small seeded generator for the order of rounds and for simulations.
--
-- math.random has one state for the whole process, and a measurement must neither disturb nor be
-- disturbed by what a user does with it: so each order has its own xoshiro128** (Blackman and Vigna
-- 2021, ACM TOMS 47), small enough that LuaJIT keeps it in registers.

local bit = require 'bit'
local bxor, lshift, rol, tobit = bit.bxor, bit.lshift, bit.rol, bit.tobit

local Random = {}
Random.__index = Random

-- 32-bit product modulo 2^32; a plain Lua product of two 32-bit numbers loses low bits
local function mul32(a, b)
  local low = bit.band(b, 0xffff)
  local high = bit.rshift(b, 16)
  return tobit(tobit(a * low) + lshift(tobit(a * high), 16))
end

-- splitmix32: spreads a small seed over the four words of the state
local function spread(seed)
  local s = tobit(seed)
  return function()
    s = tobit(s + 0x9e3779b9)
    local z = s
    z = mul32(bxor(z, bit.rshift(z, 16)), 0x21f0aaad)
    z = mul32(bxor(z, bit.rshift(z, 15)), 0x735a2d97)
    return bxor(z, bit.rshift(z, 15))
  end
end

--- The next 32 random bits, as a number in 0 .. 2^32 - 1.
---@return number bits
function Random:bits()
  local s1 = self.s1
  local result = tobit(rol(tobit(s1 * 5), 7) * 9)
  local s2, s3 = bxor(self.s2, self.s0), bxor(self.s3, s1)
  self.s1 = bxor(s1, s2)
  self.s0 = bxor(self.s0, s3)
  self.s2 = bxor(s2, lshift(s1, 9))
  self.s3 = rol(s3, 11)
  return result % 4294967296
end

--- A number in [0, 1), in steps of 2^-32.
---@return number u
function Random:uniform()
  return self:bits() / 4294967296
end

--- A whole number in 1 .. n.
---@param n integer  at most 2^31
---@return integer i
function Random:integer(n)
  return math.floor(self:uniform() * n) + 1
end

--- A normally distributed number, mean 0, variance 1 (Box and Muller).
---@return number z
function Random:normal()
  return math.sqrt(-2 * math.log(1 - self:uniform())) * math.cos(2 * math.pi * self:uniform())
end

--- Put a list in random order, in place (Fisher and Yates).
---@param list any[]
---@return any[] list  the same list
function Random:shuffle(list)
  for i = #list, 2, -1 do
    local j = self:integer(i)
    list[i], list[j] = list[j], list[i]
  end
  return list
end

local M = {}

--- A generator that always gives the same numbers for the same seed.
---@param seed integer
---@return table generator  with bits, uniform, integer, normal, shuffle
-- >> require 'ridge.measure.random'.new(7):integer(6)
function M.new(seed)
  local next_word = spread(seed)
  return setmetatable({ s0 = next_word(), s1 = next_word(), s2 = next_word(), s3 = next_word() },
                      Random)
end

return M

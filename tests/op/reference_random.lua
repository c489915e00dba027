-- SPDX-License-Identifier: MIT
-- reference_random: what random numbers mean, in plain loops over Lua numbers.  See reference.lua
-- for what a tensor is here.

local bit = require 'bit'

-- High and low half of a 32 x 32 bit product: each product of 32 by 16 bits is exact.
local function product(a, b)
  local low = a * (b % 65536)
  local middle = a * math.floor(b / 65536) + math.floor(low / 65536)
  return math.floor(middle / 65536), middle % 65536 * 65536 + low % 65536
end

local function xor(a, b, c) return bit.bxor(bit.bxor(a, b), c) % 2 ^ 32 end

return function(M) -- M: the rest of the reference
  local block = {} -- the last one computed

  --- Number i (from 0) of the stream of a seed: Philox4x32-10 (Salmon et al., SC11); third: the
  --- third word of its counter, 0 for streams.
  function M.philox(seed, i, third)
    local n = math.floor(i / 4)
    if block.seed == seed and block.n == n and block.third == third then return block[i % 4 + 1] end
    local c0, c1, c2, c3 = n % 2 ^ 32, math.floor(n / 2 ^ 32), third or 0, 0
    local k0, k1 = seed % 2 ^ 32, math.floor(seed / 2 ^ 32)
    for _ = 1, 10 do
      local h0, l0 = product(0xD2511F53, c0)
      local h1, l1 = product(0xCD9E8D57, c2)
      c0, c1, c2, c3 = xor(h1, c1, k0), l1, xor(h0, c3, k1), l0
      k0, k1 = (k0 + 0x9E3779B9) % 2 ^ 32, (k1 + 0xBB67AE85) % 2 ^ 32
    end
    block = { c0, c1, c2, c3, seed = seed, n = n, third = third }
    return block[i % 4 + 1]
  end

  -- [0, 1) for element i, from one number, or for f64 from two.
  local function unit(args, i, dtype)
    if dtype ~= 'f64' then
      return math.floor(M.philox(args.seed, args.offset + i) / 256) / 2 ^ 24
    end
    local a = math.floor(M.philox(args.seed, args.offset + 2 * i) / 32)
    local b = math.floor(M.philox(args.seed, args.offset + 2 * i + 1) / 64)
    return (a * 2 ^ 26 + b) / 2 ^ 53
  end

  --- Uniform in [lo, hi).
  function M.uniform(inputs, args)
    local y = M.new(inputs[1].shape, inputs[1].dtype)
    y.magnitude = {}
    for i = 1, M.count(y.shape) do
      y[i] = args.lo + (args.hi - args.lo) * unit(args, i - 1, y.dtype)
      y.magnitude[i] = math.abs(args.lo) + math.abs(args.hi)
    end
    return { y }
  end

  --- Normal, by the method of Box and Muller on pairs of elements.
  function M.normal(inputs, args)
    local y = M.new(inputs[1].shape, inputs[1].dtype)
    y.magnitude = {}
    for i = 1, M.count(y.shape) do
      local pair = math.floor((i - 1) / 2)
      local u, turn
      if y.dtype == 'f64' then
        local x = {}
        for j = 0, 3 do x[j] = M.philox(args.seed, args.offset + 4 * pair + j) end
        u = (x[0] * 2 ^ 21 + math.floor(x[1] / 2 ^ 11) + 0.5) / 2 ^ 53
        turn = (x[2] + x[3] / 2 ^ 32) / 2 ^ 32
      else
        u = (M.philox(args.seed, args.offset + 2 * pair) + 0.5) / 2 ^ 32
        turn = M.philox(args.seed, args.offset + 2 * pair + 1) / 2 ^ 32
      end
      local r, angle = math.sqrt(-2 * math.log(u)), 2 * math.pi * turn
      y[i] = args.mean + args.std * r * (i % 2 == 1 and math.cos(angle) or math.sin(angle))
      -- near 1 a single u is rounded by 2^-25, and its logarithm off by as much
      y.magnitude[i] = math.abs(args.mean) + args.std * (r + (y.dtype == 'f64' and 0 or 0.1 / r))
    end
    return { y }
  end

  --- Is bit i % 32 of a number set?
  function M.is_set(x, i) return math.floor(x / 2 ^ (i % 32)) % 2 == 1 end

  --- +scale where bit i % 32 of number i / 32 is set, else -scale.
  function M.signs(inputs, args)
    local y = M.new(inputs[1].shape, inputs[1].dtype)
    for i = 1, M.count(y.shape) do
      local set = M.is_set(M.philox(args.seed, args.offset + math.floor((i - 1) / 32)), i - 1)
      y[i] = M.convert(set and args.scale or -args.scale, y.dtype)
    end
    return { y }
  end

  --- lo + floor(r (hi - lo)), r in [0, 1) from 64 bits; here from the upper 53 or fewer of them.
  function M.randint(inputs, args)
    local y = M.new(inputs[1].shape, inputs[1].dtype)
    for i = 1, M.count(y.shape) do
      local n = args.offset + 2 * (i - 1)
      local r = (M.philox(args.seed, n) + M.philox(args.seed, n + 1) / 2 ^ 32) / 2 ^ 32
      y[i] = args.lo + math.floor(r * (args.hi - args.lo))
    end
    return { y }
  end

  --- 0 where the number is below p 2^32, else x / (1 - p).
  function M.dropout(inputs, args)
    local x = inputs[1]
    local y = M.new(x.shape, x.dtype)
    for i = 1, M.count(x.shape) do
      local kept = args.p == 0
        or M.philox(args.seed, args.offset + i - 1) >= math.floor(args.p * 2 ^ 32)
      y[i] = kept and x[i] / (1 - args.p) or 0
    end
    return { y }
  end
end

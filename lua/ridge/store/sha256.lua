-- SPDX-License-Identifier: MIT
-- SHA-256 in LuaJIT's bit operations (FIPS 180-4, section 6.2): content addresses are hashes of a
-- few hundred bytes, for which one more library would be a dependency without need.

local bit = require 'bit'
local ffi = require 'ffi'

local band, bnot, bxor = bit.band, bit.bnot, bit.bxor
local ror, rshift, bswap, tobit = bit.ror, bit.rshift, bit.bswap, bit.tobit

local M = {}

-- The first 32 bits of the fractions of the cube roots (K) and square roots (START) of the first
-- primes; computed, because a table of 64 numbers typed by hand would be harder to trust.
local K = ffi.new('int32_t[64]')
local START = ffi.new('int32_t[8]')

local function fraction_bits(x)
  return tobit(math.floor((x - math.floor(x)) * 2 ^ 32))
end

do
  local n, candidate = 0, 2
  while n < 64 do
    local prime = true
    for d = 2, math.floor(math.sqrt(candidate)) do
      if candidate % d == 0 then prime = false break end
    end
    if prime then
      -- pow() is off by an ulp at times: one Newton step brings the root to full precision
      local root = candidate ^ (1 / 3)
      root = root - (root * root * root - candidate) / (3 * root * root)
      K[n] = fraction_bits(root)
      if n < 8 then START[n] = fraction_bits(math.sqrt(candidate)) end
      n = n + 1
    end
    candidate = candidate + 1
  end
end

local function compress(h, w)
  for i = 16, 63 do
    local x, y = w[i - 15], w[i - 2]
    local s0 = bxor(ror(x, 7), ror(x, 18), rshift(x, 3))
    local s1 = bxor(ror(y, 17), ror(y, 19), rshift(y, 10))
    w[i] = tobit(w[i - 16] + s0 + w[i - 7] + s1)
  end
  local a, b, c, d, e, f, g, hh = h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]
  for i = 0, 63 do
    local s1 = bxor(ror(e, 6), ror(e, 11), ror(e, 25))
    local choice = bxor(band(e, f), band(bnot(e), g))
    local t1 = hh + s1 + choice + K[i] + w[i]
    local s0 = bxor(ror(a, 2), ror(a, 13), ror(a, 22))
    local majority = bxor(band(a, b), band(a, c), band(b, c))
    hh, g, f, e = g, f, e, tobit(d + t1)
    d, c, b, a = c, b, a, tobit(t1 + s0 + majority)
  end
  h[0], h[1], h[2], h[3] = tobit(h[0] + a), tobit(h[1] + b), tobit(h[2] + c), tobit(h[3] + d)
  h[4], h[5], h[6], h[7] = tobit(h[4] + e), tobit(h[5] + f), tobit(h[6] + g), tobit(h[7] + hh)
end

--- The SHA-256 digest of a string.
-- >> sha256.hex(sha256.digest '')
---@param text string any bytes
---@return string digest 32 bytes
function M.digest(text)
  local length = #text
  -- one bit, zeros, and the length in bits as a 64-bit number fill the last block
  local total = math.floor((length + 8) / 64) * 64 + 64
  local bytes = ffi.new('uint8_t[?]', total)
  ffi.copy(bytes, text, length)
  bytes[length] = 0x80
  local words = ffi.cast('int32_t *', bytes)
  words[total / 4 - 2] = bswap(tobit(math.floor(length / 2 ^ 29)))
  words[total / 4 - 1] = bswap(tobit(length * 8 % 2 ^ 32))

  local h, w = ffi.new('int32_t[8]'), ffi.new('int32_t[64]')
  for i = 0, 7 do h[i] = START[i] end
  for block = 0, total / 4 - 16, 16 do
    for i = 0, 15 do w[i] = bswap(words[block + i]) end
    compress(h, w)
  end
  for i = 0, 7 do h[i] = bswap(h[i]) end
  return ffi.string(h, 32)
end

--- Bytes as hexadecimal digits.
---@param bytes string
---@return string digits two for each byte, lower case
function M.hex(bytes)
  return (bytes:gsub('.', function(c) return ('%02x'):format(c:byte()) end))
end

return M

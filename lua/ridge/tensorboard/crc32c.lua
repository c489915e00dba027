-- SPDX-License-Identifier: MIT
--- CRC-32C (Castagnoli), as records of event files are guarded by.

local bit = require 'bit'
local ffi = require 'ffi'

local bxor, band, rshift, lshift, bor = bit.bxor, bit.band, bit.rshift, bit.lshift, bit.bor

local M = {}

local POLYNOMIAL = 0x82f63b78 -- of the reflected form
local DELTA = 0xa282ead8      -- of masks

local byte_table = ffi.new 'uint32_t[256]'
for i = 0, 255 do
  local c = i
  for _ = 1, 8 do
    c = bxor(rshift(c, 1), band(c, 1) ~= 0 and POLYNOMIAL or 0)
  end
  byte_table[i] = c
end

-- A signed number of 32 bits as an unsigned one.
local function unsigned(x) return x % 2 ^ 32 end

--- The checksum of a text.
---@param text string
---@return number from 0 to 2^32 - 1
-- >> crc32c.of '123456789' -- 0xe3069283
function M.of(text)
  local bytes, c = ffi.cast('const uint8_t *', text), bit.bnot(0)
  for i = 0, #text - 1 do
    c = bxor(rshift(c, 8), bit.tobit(byte_table[band(bxor(c, bytes[i]), 255)]))
  end
  return unsigned(bit.bnot(c))
end

--- The checksum as records hold it: a checksum of bytes that hold checksums would tell little.
---@param text string
---@return number
function M.masked(text)
  local c = bit.tobit(M.of(text))
  return unsigned(unsigned(bor(rshift(c, 15), lshift(c, 17))) + DELTA)
end

return M

-- SPDX-License-Identifier: MIT
--- A second implementation, for tests: event files read back, record by record and field by field.
-- Checksums are computed bit by bit, numbers taken from their bytes by hand.

local bit = require 'bit'

local M = {}

-- CRC-32C by polynomial division, a bit at a time.
function M.crc32c(text)
  local c = bit.bnot(0)
  for i = 1, #text do
    c = bit.bxor(c, text:byte(i))
    for _ = 1, 8 do
      local low = bit.band(c, 1)
      c = bit.rshift(c, 1)
      if low == 1 then c = bit.bxor(c, 0x82f63b78) end
    end
  end
  return bit.bnot(c) % 2 ^ 32
end

function M.unsigned(text, at, n)
  local x = 0
  for i = n - 1, 0, -1 do x = x * 256 + text:byte(at + i) end
  return x
end

-- The mask undone: what the checksum was before it.
local function unmasked(x)
  local rotated = bit.tobit((x - 0xa282ead8) % 2 ^ 32)
  return bit.bor(bit.lshift(rotated, 15), bit.rshift(rotated, 17)) % 2 ^ 32
end

--- The records of a file; an error where a length, a checksum or the end is wrong.
function M.records(bytes)
  local list, at = {}, 1
  while at <= #bytes do
    local head = bytes:sub(at, at + 7)
    assert(#head == 8, 'a torn length')
    local n = M.unsigned(head, 1, 8)
    assert(unmasked(M.unsigned(bytes, at + 8, 4)) == M.crc32c(head), 'checksum of a length')
    local data = bytes:sub(at + 12, at + 11 + n)
    assert(#data == n and #bytes >= at + 15 + n, 'a torn record')
    assert(unmasked(M.unsigned(bytes, at + 12 + n, 4)) == M.crc32c(data), 'checksum of a record')
    list[#list + 1] = data
    at = at + 16 + n
  end
  return list
end

-- A number of IEEE 754 from its bytes.
local function float(text, at, n, exponent_bits)
  local mantissa_bits = n * 8 - 1 - exponent_bits
  local bits = {}
  for i = 0, n - 1 do
    for b = 0, 7 do bits[i * 8 + b] = math.floor(text:byte(at + i) / 2 ^ b) % 2 end
  end
  local mantissa, exponent = 0, 0
  for i = 0, mantissa_bits - 1 do mantissa = mantissa + bits[i] * 2 ^ (i - mantissa_bits) end
  for i = 0, exponent_bits - 1 do exponent = exponent + bits[mantissa_bits + i] * 2 ^ i end
  local bias, sign = 2 ^ (exponent_bits - 1) - 1, bits[n * 8 - 1] == 1 and -1 or 1
  if exponent == 2 * bias + 1 then return mantissa == 0 and sign * math.huge or 0 / 0 end
  if exponent == 0 then return sign * mantissa * 2 ^ (1 - bias) end
  return sign * (1 + mantissa) * 2 ^ (exponent - bias)
end

-- Ten bytes are a negative number: two's complement of 64 bits.
local function varint(text, at)
  local last = text:find('[%z\1-\127]', at)
  local negative, x = last - at == 9, 0
  for i = negative and last - 1 or last, at, -1 do
    local b = text:byte(i) % 128
    x = x * 128 + (negative and 127 - b or b)
  end
  return negative and -x - 1 or x, last + 1
end

--- The fields of a message: by number a list of values; bytes stay bytes.
function M.fields(text)
  local out, at = {}, 1
  while at <= #text do
    local key, value
    key, at = varint(text, at)
    local number, wire = math.floor(key / 8), key % 8
    if wire == 0 then
      value, at = varint(text, at)
    elseif wire == 1 then
      value, at = float(text, at, 8, 11), at + 8
    elseif wire == 5 then
      value, at = float(text, at, 4, 8), at + 4
    else
      assert(wire == 2, 'wire type ' .. wire)
      local n
      n, at = varint(text, at)
      value, at = text:sub(at, at + n - 1), at + n
      assert(#value == n, 'a torn field')
    end
    out[number] = out[number] or {}
    table.insert(out[number], value)
  end
  return out
end

function M.doubles(text)
  local list = {}
  for i = 1, #text, 8 do list[#list + 1] = float(text, i, 8, 11) end
  return list
end

--- The values of a file: { tag, step, at, fields } each, behind the version.
function M.values(path)
  local file = assert(io.open(path, 'rb'))
  local records = M.records(file:read '*a')
  file:close()
  local list = {}
  for i, record in ipairs(records) do
    local event = M.fields(record)
    if i == 1 then
      assert(event[3][1] == 'brain.Event:2', 'the version comes first')
    else
      for _, value in ipairs(M.fields(event[5][1])[1]) do
        local fields = M.fields(value)
        list[#list + 1] = { tag = fields[1][1], step = event[2] and event[2][1] or 0,
          at = event[1][1], fields = fields }
      end
    end
  end
  return list
end

return M

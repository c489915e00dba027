-- SPDX-License-Identifier: MIT
--- Protocol buffers, as far as they are written here: fields of a message as bytes.
--
-- https://protobuf.dev/programming-guides/encoding says what each of them is.

local bit = require 'bit'
local ffi = require 'ffi'
local utf8 = require 'ridge.utf8'

local M = {}

local VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

local as_double, as_float = ffi.new 'double[1]', ffi.new 'float[1]'

--- A whole number from 0, or a negative one as two's complement of 64 bits: seven bits a byte.
---@param n number
---@return string
function M.varint(n)
  local v, out = ffi.cast('uint64_t', ffi.cast('int64_t', n)), {}
  while v >= 128 do
    out[#out + 1] = string.char(tonumber(bit.band(v, 127)) + 128)
    v = v / 128
  end
  out[#out + 1] = string.char(tonumber(v))
  return table.concat(out)
end

local function key(field, wire) return M.varint(field * 8 + wire) end

--- A field that is a whole number or a boolean.
---@param field number
---@param value number|boolean|nil nothing is written of nil
---@return string
function M.int(field, value)
  if value == nil then return '' end
  if value == true then value = 1 elseif value == false then value = 0 end
  return key(field, VARINT) .. M.varint(value)
end

--- A field of eight bytes.
---@param field number
---@param value number|nil
---@return string
function M.double(field, value)
  if value == nil then return '' end
  as_double[0] = value
  return key(field, FIXED64) .. ffi.string(as_double, 8)
end

--- A field of four bytes.
---@param field number
---@param value number|nil
---@return string
function M.float(field, value)
  if value == nil then return '' end
  as_float[0] = value
  return key(field, FIXED32) .. ffi.string(as_float, 4)
end

--- A field that is bytes, or a message.
---@param field number
---@param text string|nil
---@return string
function M.bytes(field, text)
  if text == nil then return '' end
  return key(field, BYTES) .. M.varint(#text) .. text
end

--- A field that is text for people: UTF-8, whatever the bytes are, since readers refuse the whole
--- file for a field of text that is none.
---@param field number
---@param text string
---@return string
function M.text(field, text)
  return M.bytes(field, utf8.clean(text))
end

--- A field that is a list of doubles, packed.
---@param field number
---@param list table
---@return string
function M.doubles(field, list)
  if #list == 0 then return '' end
  local all = ffi.new('double[?]', #list)
  for i, v in ipairs(list) do all[i - 1] = v end
  return M.bytes(field, ffi.string(all, 8 * #list))
end

return M

-- SPDX-License-Identifier: MIT
--- IDX files, the format of MNIST (yann.lecun.com/exdb/mnist): two zero bytes, a type, the number
--- of axes, the sizes as big-endian 32-bit numbers, then the elements, big-endian.

local ffi = require 'ffi'
local bit = require 'bit'
local blame = require 'ridge.blame'
local file = require 'ridge.data.file'

local M = {}

-- Type byte: name of the element type, bytes, and whether they have to be byte-swapped.
local TYPE = { [0x08] = { 'u8', 1 }, [0x09] = { 'i8', 1 }, [0x0C] = { 'i32', 4 },
  [0x0D] = { 'f32', 4 }, [0x0E] = { 'f64', 8 } }
local MOST = 2 ^ 36 -- bytes: more in a header is a damaged one

local function wrong(f, text, ...)
  blame.raise(('%s: %s %s'):format(f.what, f.path, text:format(...)), 'EFORMAT', f.what)
end

--- The sizes and the type that a header says; the elements come next.
---@param f table open file (ridge.data.file)
---@return table shape
---@return number count of elements
---@return table kind {element type, bytes}
function M.header(f)
  local start = ffi.new 'uint8_t[4]'
  if f:read(start, 4) < 4 then wrong(f, 'is cut off in its header') end
  if start[0] ~= 0 or start[1] ~= 0 then
    wrong(f, 'is no IDX file: it begins with %02x %02x, not with 00 00', start[0], start[1])
  end
  local kind = TYPE[start[2]]
  if not kind then wrong(f, 'has elements of type %02x, which ridge does not read', start[2]) end
  local ndim = start[3]
  if ndim < 1 or ndim > 8 then wrong(f, 'has %d axes; 1 to 8 are possible', ndim) end
  local raw = ffi.new('uint8_t[?]', 4 * ndim)
  if f:read(raw, 4 * ndim) < 4 * ndim then wrong(f, 'is cut off in its header') end
  local shape, count = {}, 1
  for i = 1, ndim do
    local at = raw + 4 * (i - 1)
    shape[i] = ((at[0] * 256 + at[1]) * 256 + at[2]) * 256 + at[3]
    count = count * shape[i]
  end
  if count * kind[2] > MOST then
    wrong(f, 'says that it holds %s elements', table.concat(shape, ' x '))
  end
  return shape, count, kind
end

local function turn(buffer, n, size)
  if size == 4 then
    local words = ffi.cast('uint32_t *', buffer)
    for i = 0, n / 4 - 1 do words[i] = bit.bswap(words[i]) end
  elseif size == 8 then
    local words = ffi.cast('uint64_t *', buffer)
    for i = 0, n / 8 - 1 do words[i] = bit.bswap(words[i]) end
  end
end

--- The tensor that an open file holds.
---@param f table open file (ridge.data.file)
---@return Tensor
function M.tensor(f)
  local shape, count, kind = M.header(f)
  return f:tensor(shape, kind[1], count * kind[2], kind[2] > 1 and function(buffer, bytes)
    turn(buffer, bytes, kind[2])
  end or nil)
end

--- The tensor an IDX file holds; plain or packed by gzip.
---@param path string
---@return Tensor u8, i8, i32, f32 or f64
function M.read(path)
  return file.with(path, 'data.idx', M.tensor)
end

return M

-- SPDX-License-Identifier: MIT
-- tensors: between reference tensors (see reference.lua) and those of the library, by the C
-- interface
-- alone, in several layouts; and everything made is released again.

local ffi = require 'ffi'

local C = package.loaded['ridge.ffi.lib'] -- where the ridge program itself runs the specs
if not C then
  ffi.cdef 'const char *rg_cdef(void);'
  C = ffi.load(os.getenv('RIDGE_LIB') or 'build/libridge.so')
  ffi.cdef(ffi.string(C.rg_cdef()))
end

local M = { C = C }

--- Where the operations run: the CPU, or the device that RIDGE_TEST_DEVICE numbers.
M.DEVICE = tonumber(os.getenv('RIDGE_TEST_DEVICE') or 0)

M.NAMES = { [0] = 'f32', 'f64', 'f16', 'bf16', 'i64', 'i32', 'i8', 'u8', 'bool', 'f8e4m3',
  'f8e5m2' }
M.CODES = {}
for code, name in pairs(M.NAMES) do M.CODES[name] = code end
M.FLOATS = { 'f32', 'f64', 'f16', 'bf16' }
M.INTEGERS = { 'i64', 'i32', 'i8', 'u8' }
M.ALL = { 'f32', 'f64', 'f16', 'bf16', 'i64', 'i32', 'i8', 'u8', 'bool' }
M.STORED = { 'f8e4m3', 'f8e5m2' } -- and not computed with
M.EVERY = { 'f32', 'f64', 'f16', 'bf16', 'i64', 'i32', 'i8', 'u8', 'bool', 'f8e4m3', 'f8e5m2' }

local C_TYPES = { f32 = 'float', f64 = 'double', f16 = 'uint16_t', bf16 = 'uint16_t',
  i64 = 'int64_t', i32 = 'int32_t', i8 = 'int8_t', u8 = 'uint8_t', bool = 'uint8_t',
  f8e4m3 = 'uint8_t', f8e5m2 = 'uint8_t' }

-- -- Letting go ---------------------------------------------------------------------------------

local held = {}

--- Take over a new reference.
function M.hold(x)
  held[#held + 1] = x
  return x
end

--- Release everything taken over since.
function M.release_all()
  for i = #held, 1, -1 do
    C.rg_tensor_release(held[i])
    held[i] = nil
  end
end

--- No longer hold the last n: they were released.
function M.forget(n)
  for _ = 1, n do held[#held] = nil end
end

--- The library's message for a status; nil for success.
function M.failure(status)
  if status ~= 0 then return ffi.string(C.rg_error_message()) end
end

--- Raise unless a status is success.
function M.check(status)
  local message = M.failure(status)
  if message then error(message, 2) end
end

-- -- To the library -----------------------------------------------------------------------------

local slot = ffi.new('rg_tensor *[1]')

local function taken()
  return M.hold(slot[0])
end

local function sizes(shape)
  return ffi.new('int64_t[?]', math.max(#shape, 1), shape)
end

--- A list of axes as the interface takes it.
function M.axes(list)
  return ffi.new('int32_t[?]', math.max(#list, 1), list), #list
end

--- A new tensor with these elements that is not release: what many cases share.
function M.constant(values, shape, dtype)
  local n = #values
  local buffer = ffi.new('double[?]', math.max(n, 1))
  for i = 1, n do buffer[i - 1] = values[i] end -- compiled, as an initializer is not
  M.check(C.rg_tensor_from_doubles(buffer, n, M.CODES[dtype], sizes(shape), #shape, slot))
  if M.DEVICE == 0 then return slot[0] end
  local here = slot[0]
  local status = C.rg_to_device(here, M.DEVICE, slot)
  C.rg_tensor_release(here)
  M.check(status)
  return slot[0]
end

--- A new tensor with these elements.
function M.make(values, shape, dtype)
  return M.hold(M.constant(values, shape, dtype))
end

--- A new tensor with undefined elements.
function M.empty(shape, dtype)
  M.check(C.rg_empty(M.CODES[dtype], M.DEVICE, sizes(shape), #shape, slot))
  return taken()
end

local function transposed(x)
  local n = #x.shape
  local rows, columns = x.shape[n - 1], x.shape[n]
  local shape = { unpack(x.shape) }
  shape[n - 1], shape[n] = columns, rows
  local values, matrix = {}, rows * columns
  for i = 0, #x - 1 do
    local m, at = math.floor(i / matrix) * matrix, i % matrix
    values[m + at % columns * rows + math.floor(at / columns) + 1] = x[i + 1]
  end
  M.check(C.rg_transpose(M.make(values, shape, x.dtype), -1, -2, slot))
  return taken()
end

-- Every second element of rows that begin and end with something else.
local function stepped(x)
  local n = #x.shape
  local row = x.shape[n]
  local shape = { unpack(x.shape) }
  shape[n] = 2 * row + 1
  local values, wide, total = {}, 2 * row + 1, 1
  for _, size in ipairs(shape) do total = total * size end
  for i = 1, total do values[i] = 77 end
  for i = 0, #x - 1 do
    values[math.floor(i / row) * wide + i % row * 2 + 2] = x[i + 1]
  end
  M.check(C.rg_narrow(M.make(values, shape, x.dtype), -1, 1, row, 2, slot))
  return taken()
end

-- Side by side, but not from the beginning of memory on: no vector of elements is aligned.
local function offset(x)
  local values = { 77 }
  for i = 1, #x do values[i + 1] = x[i] end
  local base = M.make(values, { #x + 1 }, x.dtype)
  M.check(C.rg_narrow(base, 0, 1, #x, 1, slot))
  M.check(C.rg_view(taken(), sizes(x.shape), #x.shape, slot))
  return taken()
end

-- Rows with gaps between them, all of them beginning at a multiple of 16 elements.
local function padded(x)
  local n = #x.shape
  local row = x.shape[n]
  local wide = 32 + math.ceil(row / 16) * 16
  local shape = { unpack(x.shape) }
  local values = {}
  shape[n] = wide
  for i = 1, row > 0 and #x / row * wide or 0 do values[i] = 77 end
  for i = 0, #x - 1 do values[math.floor(i / row) * wide + i % row + 17] = x[i + 1] end
  M.check(C.rg_narrow(M.make(values, shape, x.dtype), -1, 16, row, 1, slot))
  return taken()
end

-- The first slice of the first axis, repeated; x is changed to say so.
local function expanded(x)
  local shape = { unpack(x.shape) }
  local slice = #x / shape[1]
  shape[1] = 1
  for i = slice + 1, #x do x[i] = x[(i - 1) % slice + 1] end
  local values = {}
  for i = 1, slice do values[i] = x[i] end
  local base = M.make(values, shape, x.dtype)
  M.check(C.rg_expand(base, sizes(x.shape), #x.shape, slot))
  return taken()
end

--- Layouts an input can come in: which shapes have them, and how they are made.
M.LAYOUTS = {
  { name = 'contiguous', fits = function() return true end,
    make = function(x) return M.make(x, x.shape, x.dtype) end },
  { name = 'transposed', fits = function(shape) return #shape >= 2 end, make = transposed },
  { name = 'stepped', fits = function(shape) return #shape >= 1 end, make = stepped },
  { name = 'offset', fits = function(shape) return #shape >= 1 end, make = offset },
  { name = 'padded', make = padded,
    fits = function(shape) return #shape >= 2 and shape[#shape] > 8 end },
  { name = 'expanded', reads_only = true, make = expanded,
    fits = function(shape)
      local n = 1
      for _, size in ipairs(shape) do n = n * size end
      return #shape >= 1 and n > 0 and shape[1] > 1
    end },
}

-- -- From the library ---------------------------------------------------------------------------

local function half(bits)
  local sign = bits >= 0x8000 and -1 or 1
  local e, m = math.floor(bits / 1024) % 32, bits % 1024
  if e == 31 then return m == 0 and sign * math.huge or 0 / 0 end
  return sign * (e == 0 and m * 2 ^ -24 or (1024 + m) * 2 ^ (e - 25))
end

-- LuaJIT takes a NaN with other bits than its own for a value that is no number (lj_cconv.c loads
-- them as they are), and CUDA's has others: so the bits are looked at first.
local word = ffi.new('union { uint32_t bits; float value; }')
local function single(bits)
  if bits % 2 ^ 31 > 0x7f800000 then return 0 / 0 end
  word.bits = bits
  return tonumber(word.value)
end

local function brain(bits) return single(bits * 65536) end

local long = ffi.new('union { uint32_t bits[2]; double value; }')
local function double(low, high)
  local top = high % 2 ^ 31
  if top > 0x7ff00000 or (top == 0x7ff00000 and low > 0) then return 0 / 0 end
  long.bits[0], long.bits[1] = low, high
  return long.value
end

-- The OCP standard's numbers: so many bits of fraction, 2^least the smallest; from n on none.
local function eight(fraction, least, n)
  return function(bits)
    local rest = bits % 128
    local e, m = math.floor(rest / 2 ^ fraction), rest % 2 ^ fraction
    local sign = bits >= 128 and -1 or 1
    if rest >= n then return fraction == 2 and rest == n and sign * math.huge or 0 / 0 end
    return sign * (e == 0 and m or (2 ^ fraction + m) * 2 ^ (e - 1)) * 2 ^ least
  end
end

local DECODE = { f32 = single, f16 = half, bf16 = brain, f8e4m3 = eight(3, -9, 127),
  f8e5m2 = eight(2, -16, 124) }
local READ_AS = { f32 = 'uint32_t', f64 = 'uint32_t' } -- two words of an f64

-- One buffer for all: the system clears what it hands out anew, page by page.
local buffer, room = ffi.new 'char[1]', 1

--- The bytes of a tensor in row-major order, whatever its strides.
function M.bytes(x)
  M.check(C.rg_clone(x, slot))
  local copy = slot[0]
  local n = tonumber(C.rg_tensor_bytes(copy))
  if n > room then buffer, room = ffi.new('char[?]', n), n else ffi.fill(buffer, n) end
  local status = C.rg_tensor_read(copy, buffer, n)
  C.rg_tensor_release(copy)
  M.check(status)
  return ffi.string(buffer, n)
end

--- A reference tensor with what a tensor of the library holds.
function M.read(x)
  local dtype = M.NAMES[x._dtype]
  local y = { shape = {}, dtype = dtype }
  for i = 1, x._ndim do y.shape[i] = tonumber(x._shape[i - 1]) end
  local bytes = M.bytes(x)
  local elements = ffi.cast('const ' .. (READ_AS[dtype] or C_TYPES[dtype]) .. ' *', bytes)
  local decode = DECODE[dtype] or tonumber
  for i = 1, tonumber(x._count) do
    y[i] = dtype == 'f64' and double(elements[2 * i - 2], elements[2 * i - 1]) or
      decode(elements[i - 1])
  end
  return y
end

--- Is this one of the types an operation is tried with?
---@param entry table of cases.lua
---@param dtype string
---@return boolean
function M.takes(entry, dtype)
  for _, candidate in ipairs(entry.dtypes) do
    if candidate == dtype then return true end
  end
  return false
end

--- The number of an operation by its name, from 0.
function M.index_of(name)
  local facts = ffi.new 'rg_op_facts'
  for i = 0, C.rg_op_count() - 1 do
    M.check(C.rg_op_facts_of(i, facts))
    if ffi.string(facts.name) == name then return i end
  end
  error('there is no operation ' .. name, 0)
end

--- The calls of operations while f runs: a list of { name, path }.
function M.events(f)
  local reader, at, event = ffi.new 'int32_t[1]', ffi.new 'int64_t[1]', ffi.new 'rg_happening'
  local list = {}
  M.check(C.rg_reader_open(2 ^ C.RG_EVENT_OP, 0, 4096, reader))
  f()
  repeat
    M.check(C.rg_reader_next(reader[0], at, event))
    if event.name ~= nil then
      list[#list + 1] = { ffi.string(event.name), ffi.string(event.path) }
    end
  until event.name == nil
  C.rg_reader_close(reader[0])
  return list
end

return M

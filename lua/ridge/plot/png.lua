-- SPDX-License-Identifier: MIT
--
-- PNG files with a memory: the pixels as zlib packs them, the text chunks say where they come from.
--
-- Written here and not by libpng, which is one call of ten seconds for a sheet of 10 000 x 10 000
-- that nothing can end, and which reports errors by longjmp. A PNG is a list of chunks {length,
-- name, bytes, CRC}, and zlib packs a stream piece by piece. Level 3 without filters: within a
-- fifth of the time and size of level 1 without filters on our figures. Source: PNG (Third
-- Edition) 2025-06-24, sections 5.3 (chunks), 10 (compression), 11.3.2.5 (sRGB), 11.3.3 (iTXt,
-- tEXt), 11.3.4 (pHYs).

local ffi = require 'ffi'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local library = require 'ridge.ffi.library'

local M = {}

local ZLIB_DECLARATIONS = [[
unsigned long crc32(unsigned long crc, const unsigned char *data, unsigned int size);
unsigned long compressBound(unsigned long size);
int compress2(unsigned char *to, unsigned long *to_size, const unsigned char *from,
              unsigned long size, int level);
int uncompress(unsigned char *to, unsigned long *to_size, const unsigned char *from,
               unsigned long size);
typedef struct {
  const unsigned char *next_in;
  unsigned int avail_in;
  unsigned long total_in;
  unsigned char *next_out;
  unsigned int avail_out;
  unsigned long total_out;
  const char *msg;
  void *state, *zalloc, *zfree, *opaque;
  int data_type;
  unsigned long adler, reserved;
} ridge_z_stream;
const char *zlibVersion(void);
int deflateInit_(ridge_z_stream *stream, int level, const char *version, int size);
int deflate(ridge_z_stream *stream, int flush);
int deflateEnd(ridge_z_stream *stream);
]]

local Z_NO_FLUSH, Z_FINISH = 0, 4
local Z_OK, Z_STREAM_END, Z_BUF_ERROR = 0, 1, -5
local LEVEL = 3
local PIECE = 2 ^ 18 -- bytes packed between two looks at Ctrl-C, and of a chunk of pixels
local SIGNATURE = '\137PNG\r\n\26\n'
-- Units of 1/96 inch to pixels a metre.
local PER_METRE = 96 / 0.0254
-- A compressed text may not grow beyond this when read: a small file could claim terabytes.
local MAX_TEXT = 256 * 1024 * 1024

local zlib

local function load_zlib()
  if zlib then return zlib end
  ffi.cdef(ZLIB_DECLARATIONS)
  local why
  zlib, why = library.open 'libz.so.1'
  return zlib or blame.raise(('writing PNG needs the library libz.so.1, which did not load (%s); '
    .. 'on Debian: apt-get install zlib1g'):format(why), 'ENOSUP')
end

-- Chunks --------------------------------------------------------------------------------------

local function big_endian(v)
  return string.char(math.floor(v / 16777216) % 256, math.floor(v / 65536) % 256,
    math.floor(v / 256) % 256, v % 256)
end

local function number_at(bytes, at)
  local a, b, c, d = bytes:byte(at, at + 3)
  return ((a * 256 + b) * 256 + c) * 256 + d
end

local function crc(bytes)
  return tonumber(load_zlib().crc32(0, bytes, #bytes))
end

local function chunk(name, bytes)
  return big_endian(#bytes) .. name .. bytes .. big_endian(crc(name .. bytes))
end

local function deflate(text)
  local z = load_zlib()
  local size = ffi.new('unsigned long[1]', z.compressBound(#text))
  local out = ffi.new('unsigned char[?]', size[0])
  if z.compress2(out, size, text, #text, 9) ~= Z_OK then
    blame.raise('png: compressing a text chunk failed', 'ENOMEM')
  end
  return ffi.string(out, size[0])
end

local function inflate(bytes, path)
  local z = load_zlib()
  local room = math.max(4 * #bytes, 4096)
  while room <= MAX_TEXT do
    local size = ffi.new('unsigned long[1]', room)
    local out = ffi.new('unsigned char[?]', room)
    local code = z.uncompress(out, size, bytes, #bytes)
    if code == Z_OK then return ffi.string(out, size[0]) end
    if code ~= Z_BUF_ERROR then break end
    room = room * 4
  end
  blame.raise(path .. ': a compressed text chunk is damaged', 'EFORMAT')
end

local function plain_ascii(text)
  return not text:find('[^\10\32-\126]')
end

-- tEXt for short plain text, which every viewer shows; iTXt for UTF-8, compressed when it is long.
local function text_chunk(key, text)
  if #key < 1 or #key > 79 or key:find('[^\32-\126]') or key:find('^ ') or key:find(' $') then
    blame.raise(("png: the text keyword '%s' must be 1 to 79 printable ASCII characters")
      :format(key), 'EARG')
  end
  if text:find('%z') then
    blame.raise(("png: the text '%s' holds a zero byte"):format(key), 'EARG')
  end
  if plain_ascii(text) and #text <= 1024 then return chunk('tEXt', key .. '\0' .. text) end
  local packed = #text > 1024
  return chunk('iTXt', key .. '\0' .. (packed and '\1' or '\0') .. '\0' .. '\0' .. '\0'
    .. (packed and deflate(text) or text))
end

-- Writing -------------------------------------------------------------------------------------

-- Pixels as chunks IDAT, put behind the others: each row begins with the number of its filter, 0.
local function pack(parts, rgb, width, height)
  local z = load_zlib()
  local stream = ffi.new 'ridge_z_stream'
  if z.deflateInit_(stream, LEVEL, z.zlibVersion(), ffi.sizeof(stream)) ~= Z_OK then
    blame.raise('png: zlib has no memory to begin', 'ENOMEM')
  end
  ffi.gc(stream, z.deflateEnd)
  local stride = width * 3
  local most = math.max(1, math.floor(PIECE / (stride + 1))) -- rows
  local raw, out = ffi.new('uint8_t[?]', most * (stride + 1)), ffi.new('uint8_t[?]', PIECE)
  stream.next_out, stream.avail_out = out, PIECE
  for first = 0, height - 1, most do
    call.look 'figure:save'
    local rows = math.min(most, height - first)
    for k = 0, rows - 1 do
      raw[k * (stride + 1)] = 0
      ffi.copy(raw + k * (stride + 1) + 1, rgb + (first + k) * stride, stride)
    end
    stream.next_in, stream.avail_in = raw, rows * (stride + 1)
    local flush = first + rows == height and Z_FINISH or Z_NO_FLUSH
    repeat
      local code = z.deflate(stream, flush)
      if code ~= Z_OK and code ~= Z_STREAM_END and code ~= Z_BUF_ERROR then
        blame.raise('png: zlib cannot pack the pixels', 'ESYS')
      end
      local is_end = code == Z_STREAM_END
      if stream.avail_out == 0 or is_end then
        parts[#parts + 1] = chunk('IDAT', ffi.string(out, PIECE - stream.avail_out))
        stream.next_out, stream.avail_out = out, PIECE
      end
    until is_end or (flush == Z_NO_FLUSH and stream.avail_in == 0)
  end
  z.deflateEnd(ffi.gc(stream, nil))
end

--- Encode an image; Ctrl-C ends it.
---@param rgb ffi.cdata* packed bytes red, green, blue
---@param width integer pixels
---@param height integer pixels
---@param opt table|nil texts: array of {key, value}; scale: pixels a unit of 1/96 inch
---@return string bytes of a PNG file
function M.encode(rgb, width, height, opt)
  opt = opt or {}
  local per_metre = math.floor((opt.scale or 1) * PER_METRE + 0.5)
  local parts = { SIGNATURE, -- 8 bits of red, green, blue, not interlaced
    chunk('IHDR', big_endian(width) .. big_endian(height) .. '\8\2\0\0\0'),
    chunk('sRGB', '\0'), chunk('pHYs', big_endian(per_metre) .. big_endian(per_metre) .. '\1') }
  for _, pair in ipairs(opt.texts or {}) do parts[#parts + 1] = text_chunk(pair[1], pair[2]) end
  pack(parts, rgb, width, height)
  parts[#parts + 1] = chunk('IEND', '')
  return table.concat(parts)
end

-- Reading -------------------------------------------------------------------------------------

--- The chunks of a PNG, each with its checksum verified.
---@param bytes string
---@param path string for messages
---@return table chunks array of {name=, data=}
function M.chunks(bytes, path)
  if bytes:sub(1, 8) ~= SIGNATURE then blame.raise(path .. ' is not a PNG file', 'EFORMAT') end
  local out, at = {}, 9
  while true do
    if at + 11 > #bytes then
      blame.raise(path .. ': the file ends in the middle of a chunk', 'EFORMAT')
    end
    local size, name = number_at(bytes, at), bytes:sub(at + 4, at + 7)
    if at + 11 + size > #bytes then
      blame.raise(('%s: the file ends inside chunk %s'):format(path, name), 'EFORMAT')
    end
    local data = bytes:sub(at + 8, at + 7 + size)
    if crc(name .. data) ~= number_at(bytes, at + 8 + size) then
      blame.raise(('%s: the checksum of chunk %s is wrong'):format(path, name), 'EFORMAT')
    end
    out[#out + 1] = { name = name, data = data }
    at = at + 12 + size
    if name == 'IEND' then return out end
  end
end

local function read_text(item, path)
  if item.name == 'tEXt' then return item.data:match('^([^%z]+)%z(.*)$') end
  local key, packed, method, rest = item.data:match('^([^%z]+)%z(.)(.)[^%z]*%z[^%z]*%z(.*)$')
  if not key then blame.raise(path .. ': an iTXt chunk is damaged', 'EFORMAT') end
  if packed == '\1' and method ~= '\0' then
    blame.raise(path .. ': an iTXt chunk is packed in an unknown way', 'EFORMAT')
  end
  return key, packed == '\1' and inflate(rest, path) or rest
end

--- The texts in a PNG file.
---@param path string
---@return table texts by keyword
---@return table info width, height, bits of the image
function M.read_texts(path)
  local file, why = io.open(path, 'rb')
  if not file then blame.raise('cannot read ' .. why, 'EIO') end -- which names the path
  local bytes = file:read('*a')
  file:close()
  if not bytes then blame.raise('cannot read ' .. path, 'EIO') end
  local texts, info = {}, nil
  for _, item in ipairs(M.chunks(bytes, path)) do
    if item.name == 'IHDR' then
      info = { width = number_at(item.data, 1), height = number_at(item.data, 5),
        bits = item.data:byte(9) }
    elseif item.name == 'tEXt' or item.name == 'iTXt' then
      local key, text = read_text(item, path)
      if key then texts[key] = text end
    end
  end
  if not info then blame.raise(path .. ': no IHDR chunk', 'EFORMAT') end
  return texts, info
end

return M

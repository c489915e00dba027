-- SPDX-License-Identifier: MIT
--
-- PNG files with a memory: libpng encodes the pixels, the text chunks say where they come from.
--
-- libpng reports errors by longjmp out of its own frames. Over LuaJIT's FFI nobody can call setjmp
-- for it, and without one libpng ends the process. Its simplified interface (png_image_*) catches
-- its errors itself and returns a code, so it is what encodes here, into memory. That interface
-- offers one switch instead of level and filter: FAST, which is level 3 without filters, measured
-- within a fifth of the time and size of level 1 without filters on our figures. It writes no
-- text; but a PNG is a list of chunks {length, name, bytes, CRC}, so the pHYs and text chunks are
-- put in here, in front of the pixels, with zlib's CRC. Reading the texts back needs no decoder
-- either. Source: PNG (Third Edition) 2025-06-24, sections 5.3 (chunks), 11.3.3 (iTXt, tEXt),
-- 11.3.4 (pHYs).

local ffi = require 'ffi'
local blame = require 'ridge.blame'
local library = require 'ridge.ffi.library'

local M = {}

local PNG_DECLARATIONS = [[
typedef struct {
  void *opaque;
  uint32_t version, width, height, format, flags, colormap_entries, warning_or_error;
  char message[64];
} png_image;
int png_image_write_to_memory(png_image *image, void *memory, size_t *bytes, int to_8_bit,
                              const void *buffer, int32_t row_stride, const void *colormap);
void png_image_free(png_image *image);
]]

local ZLIB_DECLARATIONS = [[
unsigned long crc32(unsigned long crc, const unsigned char *data, unsigned int size);
unsigned long compressBound(unsigned long size);
int compress2(unsigned char *to, unsigned long *to_size, const unsigned char *from,
              unsigned long size, int level);
int uncompress(unsigned char *to, unsigned long *to_size, const unsigned char *from,
               unsigned long size);
]]

local PNG_IMAGE_VERSION, FORMAT_RGB, FLAG_FAST = 1, 2, 4
local Z_OK, Z_BUF_ERROR = 0, -5
local SIGNATURE = '\137PNG\r\n\26\n'
-- Units of 1/96 inch to pixels a metre.
local PER_METRE = 96 / 0.0254
-- A compressed text may not grow beyond this when read: a small file could claim terabytes.
local MAX_TEXT = 256 * 1024 * 1024

local png, zlib

local function open(name, debian)
  local lib, why = library.open(name)
  return lib or blame.raise(('writing PNG needs the library %s, which did not load (%s); on '
    .. 'Debian: apt-get install %s'):format(name, why, debian), 'ENOSUP')
end

local function load_png()
  if png then return png end
  if not pcall(ffi.typeof, 'png_image') then ffi.cdef(PNG_DECLARATIONS) end
  png = open('libpng16.so.16', 'libpng16-16')
  return png
end

local function load_zlib()
  if zlib then return zlib end
  ffi.cdef(ZLIB_DECLARATIONS)
  zlib = open('libz.so.1', 'zlib1g')
  return zlib
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

--- Encode an image.
---@param rgb ffi.cdata* packed bytes red, green, blue
---@param width integer pixels
---@param height integer pixels
---@param opt table|nil texts: array of {key, value}; scale: pixels a unit of 1/96 inch
---@return string bytes of a PNG file
function M.encode(rgb, width, height, opt)
  opt = opt or {}
  local lib = load_png()
  local image = ffi.new('png_image')
  image.version, image.width, image.height = PNG_IMAGE_VERSION, width, height
  image.format, image.flags = FORMAT_RGB, FLAG_FAST
  -- Room for deflate's worst case (stored blocks), the filter byte a row and all chunk heads.
  local raw = (width * 3 + 1) * height
  local size = ffi.new('size_t[1]', raw + math.ceil(raw / 8192) * 16 + 4096)
  local out = ffi.new('uint8_t[?]', size[0])
  local ok = lib.png_image_write_to_memory(image, out, size, 0, rgb, 0, nil)
  local message = ffi.string(image.message)
  lib.png_image_free(image)
  if ok == 0 then blame.raise('png: ' .. message, 'ESYS') end
  local bytes = ffi.string(out, size[0])

  -- Signature and IHDR are the first 33 bytes; what describes the image goes right behind.
  local parts = { bytes:sub(1, 33) }
  local per_metre = math.floor((opt.scale or 1) * PER_METRE + 0.5)
  parts[2] = chunk('pHYs', big_endian(per_metre) .. big_endian(per_metre) .. '\1')
  for _, pair in ipairs(opt.texts or {}) do parts[#parts + 1] = text_chunk(pair[1], pair[2]) end
  parts[#parts + 1] = bytes:sub(34)
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
  if not file then blame.raise(('cannot read %s: %s'):format(path, why), 'EIO') end
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

-- SPDX-License-Identifier: MIT
--- Bytes of a file, plain or packed by gzip, through zlib; never more than is asked for.

local ffi = require 'ffi'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local library = require 'ridge.ffi.library'
local make = require('ridge.tensor.make').here
local pieces = require 'ridge.tensor.pieces'

ffi.cdef [[
typedef struct gzFile_s *gzFile;
gzFile gzopen(const char *path, const char *mode);
int gzread(gzFile file, void *buf, unsigned len);
int gzdirect(gzFile file);
const char *gzerror(gzFile file, int *errnum);
int gzclose(gzFile file);
unsigned long crc32(unsigned long crc, const uint8_t *buf, unsigned len);
int inflateInit2_(void *strm, int bits, const char *version, int size);
int inflate(void *strm, int flush);
int inflateEnd(void *strm);
]]

-- zlib's z_stream. It has no name: the file may be loaded twice, and a struct declared only once.
local z_stream = ffi.typeof [[struct {
  const uint8_t *next_in; unsigned avail_in; unsigned long total_in;
  uint8_t *next_out; unsigned avail_out; unsigned long total_out;
  const char *msg; void *state; void *zalloc; void *zfree; void *opaque;
  int data_type; unsigned long adler; unsigned long reserved;
}]]

local M = {}

local lib
local code = ffi.new 'int[1]'
local TRUNCATED = -5 -- Z_BUF_ERROR: the end came too early

local function zlib()
  lib = lib or library.open('libz.so.1', 'z')
  return lib or blame.raise('data: zlib is not installed (Debian: zlib1g)', 'ENOSUP')
end

--- Can a file be opened?  Ctrl-C ends the wait for whoever writes a FIFO.
---@param path string
---@param what string the function asking, for errors
---@return boolean
function M.exists(path, what)
  local f = io.open(path, 'rb')
  if f then f:close() else call.look(what) end
  return f ~= nil
end

local File = {}
File.__index = File
M.File = File -- what reads bytes otherwise inherits how tensors are made of them

--- Open a file for reading; gzip is recognised by its content.
---@param path string
---@param what string the function asking, for errors
---@return table file
function M.open(path, what)
  if type(path) ~= 'string' then
    blame.raise(('%s: a path is expected, got %s'):format(what, blame.show(path)), 'EARG', what)
  end
  local plain, why = io.open(path, 'rb')
  if not plain then blame.raise(('%s: %s'):format(what, why), 'EIO', what) end
  local size = plain:seek 'end'
  -- a folder opens, and cannot be read
  local readable = size == 0 or (plain:seek 'set' and plain:read(0))
  plain:close()
  if not readable then blame.raise(('%s: %s is no file'):format(what, path), 'EIO', what) end
  local handle = zlib().gzopen(path, 'rb')
  if handle == nil then blame.raise(('%s: %s cannot be opened'):format(what, path), 'EIO', what) end
  return setmetatable({ path = path, what = what, handle = ffi.gc(handle, lib.gzclose), at = 0,
    size = lib.gzdirect(handle) == 1 and size or nil }, File)
end

--- So many bytes, fewer at the end; a damaged gzip file is an error.
---@param buffer any where to, uint8_t *
---@param n number
---@return number read
function File:read(buffer, n)
  local done = 0
  while done < n do
    local asked = math.min(n - done, 2 ^ 24) -- a tenth of a second of unpacking
    call.look(self.what)
    local got = lib.gzread(self.handle, buffer + done, asked)
    if got < asked then -- what came before the damage is given out first, without a word
      local text = ffi.string(lib.gzerror(self.handle, code))
      if got < 0 or (code[0] < 0 and code[0] ~= TRUNCATED) then
        blame.raise(('%s: %s is damaged: %s'):format(self.what, self.path, text), 'EFORMAT',
          self.what)
      end
      self.truncated = code[0] == TRUNCATED
    end
    if got <= 0 then break end
    done = done + got
  end
  self.at = self.at + done
  return done
end

-- Who reads to the end, whatever there is, does not see that a packed file was cut.
local function check_end(self)
  if self.truncated then
    blame.raise(('%s: %s is cut off: the end of what gzip packed is missing'):format(self.what,
      self.path), 'EFORMAT', self.what)
  end
end

--- The sum (CRC-32) of what came before and n more bytes.
---@param sum number 0 at the start
---@param buffer cdata
---@param n number
---@return number
function M.sum(sum, buffer, n)
  return tonumber(zlib().crc32(sum, buffer, n))
end

--- A reader of bytes that are packed by deflate (RFC 1951), without a header around them.
---@param more fun(): string the packed bytes that come next, '' at their end
---@param damaged fun(why: string) raises
---@return fun(buffer: cdata, n: number): number fills, says how many bytes: 0 at the end
function M.inflater(more, damaged)
  local z, stream = zlib(), z_stream()
  if z.inflateInit2_(stream, -15, '1.2', ffi.sizeof(stream)) ~= 0 then
    blame.raise('data: zlib does not unpack', 'ENOSUP')
  end
  local held = ffi.gc(stream, z.inflateEnd)
  local text, ended = '', false
  return function(buffer, n)
    if ended then return 0 end
    held.next_out, held.avail_out = buffer, n
    while held.avail_out == n and not ended do
      if held.avail_in == 0 then
        text = more()
        if text == '' then damaged 'it ends too early' end
        held.next_in, held.avail_in = ffi.cast('const uint8_t *', text), #text
      end
      local status = z.inflate(held, 0)
      ended = status == 1
      if status < 0 then damaged(held.msg ~= nil and ffi.string(held.msg) or 'no deflated data') end
    end
    return n - held.avail_out
  end
end

local CHUNK = 2 ^ 20
local LONGEST_LINE = 2 ^ 28 -- bytes: what C does with it at once is done in a second

--- The bytes that come next, at most so many. Room grows with what is really there: a damaged
--- header takes no memory.
---@param most number
---@return table parts {uint8_t[?], bytes} each
---@return number bytes of all
function File:parts(most)
  local parts, got = {}, 0
  while got < most do
    local n = most - got
    if n > CHUNK + 1 then n = CHUNK end
    local part = ffi.new('uint8_t[?]', n)
    local read = self:read(part, n)
    got = got + read
    parts[#parts + 1] = { part, read }
    if read < n then
      check_end(self)
      break
    end
  end
  return parts, got
end

--- Fill a tensor with the bytes of parts.
---@param parts table as from File:parts
---@param x Tensor
---@param what string the function asking, for errors
---@param turn (fun(buffer: cdata, bytes: number))|nil done to each piece of whole elements
function M.pour(parts, x, what, turn)
  local i, from = 1, 0
  pieces.write(x, what, function(buffer, bytes)
    local at = 0
    while at < bytes do
      local part = parts[i]
      local n = math.min(part[2] - from, bytes - at)
      ffi.copy(buffer + at, part[1] + from, n)
      at, from = at + n, from + n
      if from == part[2] then i, from = i + 1, 0 end
    end
    if turn then turn(buffer, bytes) end
  end)
end

--- A tensor of the bytes that come next, behind which the file ends. It has no other copy but where
--- the file is packed: nobody knows then how long it is.
---@param sizes table
---@param dtype string
---@param bytes number of all of them
---@param turn (fun(buffer: cdata, bytes: number))|nil done to each piece of whole elements
---@return Tensor
function File:tensor(sizes, dtype, bytes, turn)
  local what = self.what
  local function new()
    return blame.within(what, function() return make.empty(sizes, { dtype = dtype }) end)
  end
  local function cut(got)
    blame.raise(('%s: %s is cut off: %.0f of %.0f bytes are there'):format(what, self.path, got,
      bytes), 'EFORMAT', what)
  end
  local x
  local more = 0
  if self.size then
    local there = self.size - self.at
    if there < bytes then cut(there) end
    x = new()
    pieces.write(x, what, function(buffer, n)
      if self:read(buffer, n) < n then cut(there) end
      if turn then turn(buffer, n) end
    end)
  else
    -- one more than there are, at once with the last of them: asked for that alone, zlib says that
    -- the file ends, and not always that its sum was cut
    local parts, got = self:parts(bytes + 1)
    if got < bytes then cut(got) end
    more = got - bytes
    x = new()
    M.pour(parts, x, what, turn)
  end
  if more > 0 or self:read(ffi.new 'uint8_t[1]', 1) > 0 then
    blame.raise(('%s: %s goes on behind its %.0f elements'):format(what, self.path,
      x.count), 'EFORMAT', what)
  end
  check_end(self)
  return x
end

-- The next megabyte, '' at the end.
local function chunk_of(self, buffer)
  local n = self:read(buffer, CHUNK)
  if n == 0 then check_end(self) end
  return ffi.string(buffer, n)
end

--- The lines that come next, without what ends them. One of more than 256 MB is an error.
---@return fun(): string|nil
function File:lines()
  local buffer = ffi.new('uint8_t[?]', CHUNK)
  local text, from = chunk_of(self, buffer), 1
  if text:sub(1, 3) == '\239\187\191' then from = 4 end -- the mark of UTF-8
  local number = 0
  return function()
    number = number + 1
    local at = text:find('\n', from, true)
    local line
    if at and at - from <= LONGEST_LINE then -- most lines lie in one piece
      line, from = text:sub(from, at - 1), at + 1
      return line:byte(-1) == 13 and line:sub(1, -2) or line
    end
    local parts, bytes = {}, 0
    at = nil
    while text ~= '' and not at do
      at = text:find('\n', from, true)
      parts[#parts + 1] = text:sub(from, at and at - 1)
      bytes = bytes + #parts[#parts]
      if bytes > LONGEST_LINE then
        blame.raise(('%s: %s line %d has more than %d bytes'):format(self.what, self.path, number,
          LONGEST_LINE), 'EFORMAT', self.what)
      end
      if at then from = at + 1 else text, from = chunk_of(self, buffer), 1 end
    end
    if #parts == 0 then return nil end
    line = table.concat(parts)
    return line:byte(-1) == 13 and line:sub(1, -2) or line
  end
end

--- Call f with an open file, which is closed whatever happens.
---@param path string
---@param what string the function asking, for errors
---@param f function
---@return any what f returns
function M.with(path, what, f)
  local file = M.open(path, what)
  local function finish(ok, ...)
    file:close()
    if not ok then error((...), 0) end
    return ...
  end
  return finish(pcall(f, file))
end

--- Close it.
function File:close()
  lib.gzclose(ffi.gc(self.handle, nil))
  self.handle = nil
end

return M

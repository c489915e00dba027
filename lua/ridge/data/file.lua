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
]]

local M = {}

local lib
local code = ffi.new 'int[1]'
local TRUNCATED = -5 -- Z_BUF_ERROR: the end came too early, which the reader sees by itself

local function zlib()
  lib = lib or library.open('libz.so.1', 'z')
  return lib or blame.raise('data: zlib is not installed (Debian: zlib1g)', 'ENOSUP')
end

local File = {}
File.__index = File

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
    end
    if got <= 0 then break end
    done = done + got
  end
  self.at = self.at + done
  return done
end

local CHUNK = 2 ^ 20

--- The bytes that come next, at most so many. Room grows with what is really there: a damaged
--- header takes no memory.
---@param most number
---@return table parts {uint8_t[?], bytes} each
---@return number bytes of all
function File:parts(most)
  local parts, got = {}, 0
  while got < most do
    local n = math.min(CHUNK, most - got)
    local part = ffi.new('uint8_t[?]', n)
    local read = self:read(part, n)
    got = got + read
    parts[#parts + 1] = { part, read }
    if read < n then break end
  end
  return parts, got
end

--- Fill a tensor with the bytes of parts.
---@param x Tensor
---@param parts table as from File:parts
---@param turn (fun(buffer: cdata, bytes: number))|nil done to each piece of whole elements
function File:pour(x, parts, turn)
  local i, from = 1, 0
  pieces.write(x, self.what, function(buffer, bytes)
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
  if self.size then
    local there = self.size - self.at
    if there < bytes then cut(there) end
    x = new()
    pieces.write(x, what, function(buffer, n)
      if self:read(buffer, n) < n then cut(there) end
      if turn then turn(buffer, n) end
    end)
  else
    local parts, got = self:parts(bytes)
    if got < bytes then cut(got) end
    x = new()
    self:pour(x, parts, turn)
  end
  if self:read(ffi.new 'uint8_t[1]', 1) > 0 then
    blame.raise(('%s: %s goes on behind its %.0f elements'):format(what, self.path,
      x.count), 'EFORMAT', what)
  end
  return x
end

--- Everything there is, as a string; more than `most` bytes is an error.
---@param most number
---@return string
function File:text(most)
  local buffer, parts, got = ffi.new('uint8_t[?]', CHUNK), {}, 0
  repeat
    local n = self:read(buffer, CHUNK)
    got = got + n
    if got > most then
      blame.raise(('%s: %s has more than %d bytes'):format(self.what, self.path, most), 'EFORMAT',
        self.what)
    end
    parts[#parts + 1] = ffi.string(buffer, n)
  until n < CHUNK
  local ok, all = pcall(table.concat, parts)
  if not ok then
    blame.raise(('%s: there is no memory for the %d bytes of %s'):format(self.what, got, self.path),
      'ENOMEM', self.what)
  end
  return all
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

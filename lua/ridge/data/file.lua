-- SPDX-License-Identifier: MIT
--- Bytes of a file, plain or packed by gzip, through zlib; never more than is asked for.

local ffi = require 'ffi'
local blame = require 'ridge.blame'
local library = require 'ridge.ffi.library'

ffi.cdef [[
typedef struct gzFile_s *gzFile;
gzFile gzopen(const char *path, const char *mode);
int gzread(gzFile file, void *buf, unsigned len);
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
  local readable = plain:read(0) or plain:seek 'end' == 0 -- a folder opens, and cannot be read
  plain:close()
  if not readable then blame.raise(('%s: %s is no file'):format(what, path), 'EIO', what) end
  local handle = zlib().gzopen(path, 'rb')
  if handle == nil then blame.raise(('%s: %s cannot be opened'):format(what, path), 'EIO', what) end
  return setmetatable({ path = path, what = what, handle = ffi.gc(handle, lib.gzclose) }, File)
end

--- So many bytes, fewer at the end; a damaged gzip file is an error.
---@param buffer any where to, uint8_t *
---@param n number
---@return number read
function File:read(buffer, n)
  local done = 0
  while done < n do
    local asked = math.min(n - done, 2 ^ 28)
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
  return done
end

local CHUNK = 2 ^ 20

--- Exactly so many bytes, and then the end of the file. Room grows with what is really there: a
--- damaged header takes no memory.
---@param bytes number
---@param elements string what they are, for errors: 'its 12 elements'
---@return any buffer uint8_t[?]
function File:exactly(bytes, elements)
  local parts, got = {}, 0
  while got < bytes do
    local n = math.min(CHUNK, bytes - got)
    local part = ffi.new('uint8_t[?]', n)
    local read = self:read(part, n)
    got = got + read
    parts[#parts + 1] = { part, read }
    if read < n then
      blame.raise(('%s: %s is cut off: %d of %d bytes are there'):format(self.what, self.path, got,
        bytes), 'EFORMAT', self.what)
    end
  end
  if self:read(ffi.new 'uint8_t[1]', 1) > 0 then
    blame.raise(('%s: %s goes on behind %s'):format(self.what, self.path, elements), 'EFORMAT',
      self.what)
  end
  local all, at = ffi.new('uint8_t[?]', math.max(bytes, 1)), 0
  for _, part in ipairs(parts) do
    ffi.copy(all + at, part[1], part[2])
    at = at + part[2]
  end
  return all
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
  return table.concat(parts)
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

-- SPDX-License-Identifier: MIT
-- Where a database may live, and what can be told about a file before SQLite sees it.
--
-- SQLite's write-ahead log needs shared memory and honest locks, which network and user-space
-- file systems do not promise; writing is refused there (statfs(2), magic numbers of statfs(2) and
-- linux/magic.h). The header of a database file is described in sqlite.org/fileformat2.html, 1.3.

local blame = require 'ridge.blame'
local ffi = require 'ffi'

ffi.cdef [[
int rg_place_statfs(const char *, void *) __asm__("statfs");
int rg_place_access(const char *, int) __asm__("access");
int rg_place_mkdir(const char *, unsigned int) __asm__("mkdir");
int rg_place_chmod(const char *, unsigned int) __asm__("chmod");
char *rg_place_realpath(const char *, char *) __asm__("realpath");
void rg_place_free(void *) __asm__("free");
char *rg_place_strerror(int) __asm__("strerror");
int rg_place_open(const char *, int, ...) __asm__("open");
long rg_place_lseek(int, long, int) __asm__("lseek");
int rg_place_close(int) __asm__("close");
]]

local C = ffi.C
local F_OK, W_OK = 0, 2

-- f_type of file systems whose locks or shared memory cannot be trusted.
local REFUSED = {
  [0x6969]     = 'NFS',
  [0xFF534D42] = 'CIFS',
  [0xFE534D42] = 'SMB2',
  [0x517B]     = 'SMB',
  [0x65735546] = 'FUSE',
  [0x01021997] = '9p',
  [0x0BD00BD0] = 'Lustre',
  [0x00C36400] = 'Ceph',
  [0x5346414F] = 'AFS',
  [0x47504653] = 'GPFS',
}

local M = {}

local function reason() return ffi.string(C.rg_place_strerror(ffi.errno())) end

--- The kind of a refused file system by its statfs number, nil for one that is fine.
---@param magic integer f_type
---@return string|nil name
function M.refused(magic) return REFUSED[magic] end

--- A path without links and dots; the last part may be missing yet.
---@param path string
---@return string|nil real nil when its folder is not there
function M.real(path)
  local whole = C.rg_place_realpath(path, nil)
  if whole ~= nil then
    local text = ffi.string(whole)
    C.rg_place_free(whole)
    return text
  end
  local folder, name = path:match '^(.*/)([^/]+)$'
  if not folder then folder, name = '.', path end
  local base = C.rg_place_realpath(folder, nil)
  if base == nil then return nil end
  local text = ffi.string(base)
  C.rg_place_free(base)
  return (text == '/' and '' or text) .. '/' .. name
end

--- Whether a file is there.
---@param path string
---@return boolean
function M.exists(path) return C.rg_place_access(path, F_OK) == 0 end

--- Whether this user may write to a file or into a folder.
---@param path string
---@return boolean
function M.writable(path) return C.rg_place_access(path, W_OK) == 0 end

--- The folder a path is in.
---@param path string a real path
---@return string folder
function M.folder(path) return path:match '^(.*)/[^/]*$':gsub('^$', '/') end

--- A folder in which all users of a machine may make files; made when it is missing.
---@param path string
---@return string path
function M.shared_folder(path)
  -- 01777, as /tmp: only its owner takes a file away; chmod, because mkdir minds the umask
  if C.rg_place_mkdir(path, 1023) == 0 then
    C.rg_place_chmod(path, 1023)
  elseif not M.exists(path) then
    blame.raise(('cannot make the folder %s: %s'):format(path, reason()), 'EIO')
  end
  return path
end

--- A folder that this user may write into; made, with those above it, where it is missing.
---@param path string
---@return string path
function M.make_folder(path)
  if path == '' or path:find '%z' then
    blame.raise(('%q is not the name of a folder'):format(path), 'EARG')
  end
  local at = 1
  repeat
    local slash = path:find('/', at + 1, true)
    local part = path:sub(1, (slash or #path + 1) - 1)
    if not M.exists(part) and C.rg_place_mkdir(part, 511) ~= 0 and not M.exists(part) then
      blame.raise(('cannot make the folder %s: %s'):format(part, reason()), 'EIO')
    end
    at = slash or at
  until not slash
  -- a slash behind it finds a file that is no folder
  if not M.writable(path .. '/') then
    blame.raise(('cannot write into the folder %s: %s'):format(path, reason()), 'EIO')
  end
  return path
end

--- Make the folder of a database when only that last part is missing, and return the real path.
---@param path string
---@return string real
function M.prepare(path)
  if path:find '%z' or path == '' or path:sub(-1) == '/' then
    blame.raise(('%q is not the name of a database file'):format(path), 'EARG')
  end
  local real = M.real(path)
  if real then return real end
  local folder = path:match '^(.*)/[^/]+$'
  if C.rg_place_mkdir(folder, 493) ~= 0 then
    blame.raise(('cannot make the folder %s for the database: %s'):format(folder, reason()), 'EIO')
  end
  return M.real(path)
end

--- Refuse file systems on which several processes cannot share a database.
---@param path string a real path
function M.check_filesystem(path)
  local buffer = ffi.new 'long[64]' -- struct statfs is 120 bytes; f_type comes first
  if C.rg_place_statfs(M.folder(path), buffer) ~= 0 then
    blame.raise(('cannot examine the file system of %s: %s'):format(path, reason()), 'EIO')
  end
  local name = M.refused(tonumber(buffer[0]) % 2 ^ 32)
  if name then
    blame.raise(('%s is on a %s file system, where a database that several processes write is not '
      .. 'safe; keep it on a local disk and copy it afterwards'):format(path, name), 'ENOSUP')
  end
end

local function number(bytes, at)
  local a, b, c, d = bytes:byte(at + 1, at + 4)
  return ((a * 256 + b) * 256 + c) * 256 + d
end

local WITHOUT_WAITING = 0x80800 -- O_RDONLY, O_NONBLOCK, O_CLOEXEC
local SEEK_CUR = 1

-- A FIFO, which has no places and whose opening waits for somebody who writes; a device has places
-- and no end.
local function is_special(path)
  if path:find '^/dev/' and not path:find '^/dev/shm/' then return true end
  local fd = C.rg_place_open(path, WITHOUT_WAITING)
  if fd < 0 then return false end
  local at = C.rg_place_lseek(fd, 0, SEEK_CUR)
  C.rg_place_close(fd)
  return at < 0
end

-- Connections of this process to files, by their real paths. A process that closes any descriptor
-- of a file gives up all locks it has on it (fcntl(2)): another program would take the log away
-- from under a connection that is open, and with it what is written from then on.
local connected = setmetatable({}, { __mode = 'k' })

--- Note a connection; it counts until it has no `handle` any more.
---@param db table
---@param path string
function M.connect(db, path) connected[db] = M.real(path) end

local function is_connected(path)
  local real = M.real(path)
  for db, its in pairs(connected) do
    if its == real and db.handle ~= nil then return true end
  end
  return false
end

--- What the header of a file says, without SQLite; of one that is open here, only its kind.
-- `empty`, `foreign` (not SQLite at all), or `database`; `short` tells a file that ends before the
-- pages its header counts, when no log holds the rest.
---@param path string
---@return table facts kind, short, size, expected
function M.header(path)
  if is_connected(path) then return { kind = 'database', short = false } end
  if is_special(path) then blame.raise(path .. ' is not a file', 'EARG') end
  local file, err = io.open(path, 'rb')
  if not file then blame.raise(('cannot read the database: %s'):format(err), 'EIO') end
  local bytes = file:read(100)
  local size = file:seek 'end'
  file:close()
  if not bytes then
    -- a folder can be opened but not read
    if size ~= 0 then blame.raise(path .. ' is not a file', 'EARG') end
    return { kind = 'empty', size = 0 }
  end
  if #bytes < 100 or bytes:sub(1, 16) ~= 'SQLite format 3\0' then
    return { kind = 'foreign', size = size }
  end
  local page = bytes:byte(17) * 256 + bytes:byte(18)
  if page == 1 then page = 65536 end
  local expected = page * number(bytes, 28)
  local log = io.open(path .. '-wal', 'rb')
  local log_size = log and log:seek 'end' or 0
  if log then log:close() end
  -- the page count holds only if the change counter equals the number it was valid for
  local counted = number(bytes, 24) == number(bytes, 92)
  return { kind = 'database', size = size, expected = expected,
    short = counted and log_size == 0 and size < expected }
end

--- Copy an open database: what has no place is told as the copy's, not as that of what is read.
---@param db table
---@param to string path of the copy
---@param name string|nil how it is called in errors, where it is moved to its place later
function M.copy(db, to, name)
  local ok, err = pcall(db.copy, db, to)
  if ok then return end
  local text = type(err) == 'table' and type(err.message) == 'string' and err.message or ''
  local why = text:find('SQLITE_FULL', 1, true) and 'the disk is full'
    or text:find('SQLITE_CANTOPEN', 1, true) and 'it cannot be opened there'
  if why then blame.raise(('%s cannot be written: %s'):format(name or to, why), 'EIO') end
  error(err, 0)
end

return M

-- SPDX-License-Identifier: MIT
--- A file that grows by whole records: others read it meanwhile. Where one cannot be written, the
--- file ends behind the record before it, what is missing is kept, and the next write begins with
--- it. It is locked as long as it is written: who reads it is told when its process is gone.

local ffi = require 'ffi'
local blame = require 'ridge.blame'
local lock = require 'ridge.store.lock'

ffi.cdef [[
int rg_events_open(const char *, int, ...) __asm__("open");
long rg_events_write(int, const void *, size_t) __asm__("write");
int rg_events_truncate(int, long) __asm__("ftruncate");
int rg_events_close(int) __asm__("close");
char *rg_events_strerror(int) __asm__("strerror");
]]

local C = ffi.C
local O_CREAT_EXCL_APPEND_WRONLY, O_CLOEXEC, MODE = 64 + 128 + 1024 + 1, 524288, 438 -- 0666
local EINTR, EEXIST = 4, 17

local M = {}

local File = {}
File.__index = File

local function reason() return ffi.string(C.rg_events_strerror(ffi.errno())) end

--- A new file; nil where there is one of that name.
---@param path string
---@return table|nil file
function M.create(path)
  local fd = C.rg_events_open(path, O_CREAT_EXCL_APPEND_WRONLY + O_CLOEXEC, ffi.cast('int', MODE))
  if fd < 0 then
    if ffi.errno() == EEXIST then return nil end
    blame.raise(('tensorboard: cannot make %s: %s'):format(path, reason()), 'EIO')
  end
  local self = setmetatable({ path = path, fd = fd, size = 0, waiting = {}, n_waiting = 0 }, File)
  self.handle = ffi.gc(ffi.new('int[1]', fd), function(p) C.rg_events_close(p[0]) end)
  self.lock = lock.open_shared(path)
  self.lock:try() -- there are file systems without locks
  return self
end

--- Add a record, which `flush` writes.
---@param record string
function File:add(record)
  self.waiting[#self.waiting + 1] = record
  self.n_waiting = self.n_waiting + #record
end

-- Write all of a text; false where the system refuses a part.
local function write_all(fd, text)
  local at, p = 0, ffi.cast('const char *', text)
  while at < #text do
    local n = tonumber(C.rg_events_write(fd, p + at, #text - at))
    if n > 0 then
      at = at + n
    elseif n == 0 or ffi.errno() ~= EINTR then
      return false
    end
  end
  return true
end

--- Write what was added, record by record.
function File:flush()
  if not self.fd then blame.raise('tensorboard: the writer is closed', 'EARG') end
  local text = table.concat(self.waiting)
  if text == '' then return end
  if not write_all(self.fd, text) then
    local why = reason()
    C.rg_events_truncate(self.fd, self.size)
    self.waiting = { text }
    blame.raise(('tensorboard: %s cannot be written: %s; %d bytes wait for the next try'):format(
      self.path, why, #text), 'EIO')
  end
  self.size, self.waiting, self.n_waiting = self.size + #text, {}, 0
end

--- Write what was added and close the file.
function File:close()
  if not self.fd then return end
  self:flush()
  C.rg_events_close(ffi.gc(self.handle, nil)[0])
  self.lock:close()
  self.fd, self.handle = nil, nil
end

--- Is somebody writing to a file that `create` made?
---@param path string
---@return boolean|nil written nil where that cannot be told
function M.is_written(path)
  local ok, free = pcall(lock.is_free, path)
  if ok then return not free end
end

return M

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
  local self = setmetatable({ path = path, fd = fd, size = 0, waiting = {}, first = 1, last = 0,
    n_waiting = 0 }, File)
  self.handle = ffi.gc(ffi.new('int[1]', fd), function(p) C.rg_events_close(p[0]) end)
  self.lock = lock.open_shared(path)
  self.lock:try() -- there are file systems without locks
  return self
end

--- Add a record, which `flush` writes.
---@param record string
function File:add(record)
  self.last = self.last + 1
  self.waiting[self.last] = record
  self.n_waiting = self.n_waiting + #record
end

local PIECE = 8192 -- bytes that are written at once, where so many wait

-- The records that come next, as one text: whole ones, and not many more than there is room for in
-- a piece. They are joined once, so that a full disk costs each try the same, however much waits.
local function next_piece(self)
  local at, n, size = self.first, 0, 0
  while self.waiting[at + n] and (n == 0 or size < PIECE) do
    size, n = size + #self.waiting[at + n], n + 1
  end
  if n > 1 then
    local text = table.concat(self.waiting, '', at, at + n - 1)
    for i = at, at + n - 2 do self.waiting[i] = nil end
    at = at + n - 1
    self.waiting[at], self.first = text, at
  end
  return self.waiting[at]
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
  while self.first <= self.last do
    local text = next_piece(self)
    if not write_all(self.fd, text) then
      local why = reason()
      C.rg_events_truncate(self.fd, self.size)
      blame.raise(('tensorboard: %s cannot be written: %s; %d bytes wait for the next try'):format(
        self.path, why, self.n_waiting), 'EIO')
    end
    self.size, self.n_waiting = self.size + #text, self.n_waiting - #text
    self.waiting[self.first] = nil
    self.first = self.first + 1
  end
  self.first, self.last = 1, 0
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

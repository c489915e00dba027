-- SPDX-License-Identifier: MIT
--- The scalars of an event file that somebody else is still writing: whole records only, from where
--- the last look ended.

local ffi = require 'ffi'
local blame = require 'ridge.blame'
local clock = require 'ridge.store.clock'
local crc32c = require 'ridge.tensorboard.crc32c'
local files = require 'ridge.tensorboard.file'

local M = {}

local Reader = {}
Reader.__index = Reader

local MOST = 2 ^ 30 -- bytes of a record: a longer one is no length

local function unsigned(text, at, n)
  local x = 0
  for i = n - 1, 0, -1 do x = x * 256 + text:byte(at + i) end
  return x
end

--- Open one.
---@param path string
---@return table reader
-- Raises EIO where it cannot be read.
function M.open(path)
  local file, why = io.open(path, 'rb')
  if not file then blame.raise('watch: cannot read ' .. why, 'EIO') end
  return setmetatable({ path = path, file = file, at = 0 }, Reader)
end

--- Close it.
function Reader:close()
  if self.file then self.file:close() end
  self.file = nil
end

local function damaged(self)
  blame.raise(('%s is damaged at byte %d: a checksum is wrong'):format(self.path, self.at),
    'EFORMAT')
end

--- Does its process go on writing it?
---@return boolean|nil written nil where that cannot be told: of files that ridge did not make
function Reader:is_written()
  if not self.path:match('[^/]*$'):find('.ridge.', 1, true) then return nil end
  return files.is_written(self.path)
end

--- Is it this process that made it?
---@return boolean
function Reader:is_own()
  return tonumber(self.path:match '%.ridge%.(%d+)%.%d+$') == clock.pid()
end

-- The next whole record; nil where there is none yet.
local function next_record(self)
  self.file:seek('set', self.at)
  local head = self.file:read(12)
  if not head or #head < 12 then return nil end
  local n = unsigned(head, 1, 8)
  if unsigned(head, 9, 4) ~= crc32c.masked(head:sub(1, 8)) or n > MOST then damaged(self) end
  local data = self.file:read(n + 4)
  if not data or #data < n + 4 then return nil end
  if unsigned(data, n + 1, 4) ~= crc32c.masked(data:sub(1, n)) then damaged(self) end
  self.at = self.at + 16 + n
  return data:sub(1, n)
end

-- -- Messages -----------------------------------------------------------------------------

local function varint(text, at)
  local v, shift = 0ULL, 0
  for i = at, #text do
    local b = text:byte(i)
    v = v + ffi.cast('uint64_t', b % 128) * 2ULL ^ shift
    if b < 128 then return tonumber(ffi.cast('int64_t', v)), i + 1 end
    shift = shift + 7
  end
  error('a torn number', 0)
end

local slots = { [1] = ffi.new 'double[1]', [5] = ffi.new 'float[1]' }
local BYTES = { [1] = 8, [5] = 4 }

-- Calls f(field, value) for each field of a message.
local function each(text, f)
  local at = 1
  while at <= #text do
    local key, value
    key, at = varint(text, at)
    local wire = key % 8
    if wire == 0 then
      value, at = varint(text, at)
    elseif wire == 2 then
      local n
      n, at = varint(text, at)
      value, at = text:sub(at, at + n - 1), at + n
    elseif BYTES[wire] then
      ffi.copy(slots[wire], text:sub(at, at + BYTES[wire] - 1), BYTES[wire])
      value, at = slots[wire][0], at + BYTES[wire]
    else
      error('a field of a kind that is none', 0)
    end
    f(math.floor(key / 8), value)
  end
end

--- What was added since the last look.
---@param found fun(tag: string, step: number, value: number|nil, at_s: number) called for each
---  value; that of what is no scalar is nil
---@return number n records
-- Raises EFORMAT where the file is damaged.
function Reader:more(found)
  local n = 0
  while true do
    local record = next_record(self)
    if not record then return n end
    n = n + 1
    local at_s, step, summary = 0, 0, nil
    each(record, function(field, value)
      if field == 1 then at_s = value elseif field == 2 then step = value
      elseif field == 5 then summary = value end
    end)
    if not summary then found('', step, nil, at_s) end
    each(summary or '', function(_, entry)
      local tag, number
      each(entry, function(field, value)
        if field == 1 then tag = value elseif field == 2 then number = value end
      end)
      if tag then found(tag, step, number, at_s) end
    end)
  end
end

-- -- Folders ------------------------------------------------------------------------------

ffi.cdef [[
typedef struct rg_events_entry {
  uint64_t inode; int64_t offset; unsigned short length; unsigned char type; char name[256];
} rg_events_entry;
void *rg_events_opendir(const char *) __asm__("opendir");
rg_events_entry *rg_events_readdir(void *) __asm__("readdir");
int rg_events_closedir(void *) __asm__("closedir");
]]

-- Is a name of a later file than another one? Numbers in it are compared as such: of the files that
-- were begun within a second the tenth follows the ninth.
local function is_later(name, other)
  local a, b = name:gmatch '(%D*)(%d*)', other:gmatch '(%D*)(%d*)'
  while true do
    local text, digits = a()
    local text_2, digits_2 = b()
    if not text or not text_2 then return text ~= nil end
    if text ~= text_2 then return text > text_2 end
    local x, y = tonumber(digits) or -1, tonumber(digits_2) or -1
    if x ~= y then return x > y end
    if digits == '' and digits_2 == '' then return false end -- both have ended
  end
end

--- The newest event file of a folder, or the file itself; nil where there is none.
---@param path string
---@return string|nil path
function M.find(path)
  local name = path:match '[^/]*$'
  if name:find 'tfevents' then return path end
  local folder = ffi.C.rg_events_opendir(path)
  if folder == nil then return nil end
  local newest
  while true do
    local entry = ffi.C.rg_events_readdir(folder)
    if entry == nil then break end
    local found = ffi.string(entry.name)
    if found:find('tfevents', 1, true) and (not newest or is_later(found, newest)) then
      newest = found
    end
  end
  ffi.C.rg_events_closedir(folder)
  return newest and ('%s/%s'):format((path:gsub('(.)/+$', '%1')), newest)
end

return M

-- SPDX-License-Identifier: MIT
--- NumPy's .npz files: a zip archive (APPNOTE.TXT 6.3.10) of .npy files, stored or deflated. The
--- list at the archive's end is believed only as far as the file goes.

local ffi = require 'ffi'
local blame = require 'ridge.blame'
local file = require 'ridge.data.file'
local npy = require 'ridge.data.npy'

local M = {}

local MOST_LIST = 2 ^ 24 -- bytes of the list of members: more is a damaged one
local END, MEMBER, LOCAL = 'PK\5\6', 'PK\1\2', 'PK\3\4'
local END64, END64_AT = 'PK\6\6', 'PK\6\7'

local function wrong(archive, text, ...)
  blame.raise(('%s: %s %s'):format(archive.what, archive.path, text:format(...)), 'EFORMAT',
    archive.what)
end

-- Numbers of n bytes, the lowest first; what is cut off is 0, and found out by what it leads to.
local function number(text, at, n)
  local value = 0
  for i = n - 1, 0, -1 do value = value * 256 + (text:byte(at + i) or 0) end
  return value
end

-- -- The list of members ------------------------------------------------------------------------

local function read_at(archive, at, n)
  if at < 0 or n < 0 or at + n > archive.size then return '' end
  archive.handle:seek('set', at)
  return n > 0 and archive.handle:read(n) or ''
end

-- Where the list is, its bytes, and how many members it has.
local function find_list(archive)
  local n = math.min(archive.size, 65557) -- the end's record, and the longest remark behind it
  local tail = read_at(archive, archive.size - n, n)
  local at
  for i = #tail - 21, 1, -1 do
    if tail:byte(i) == 80 and tail:sub(i, i + 3) == END then
      at = i
      break
    end
  end
  if not at then wrong(archive, 'is cut off: the list at its end is missing') end
  local count, bytes, start = number(tail, at + 10, 2), number(tail, at + 12, 4),
    number(tail, at + 16, 4)
  if count == 0xffff or bytes == 0xffffffff or start == 0xffffffff then
    if tail:sub(at - 20, at - 17) ~= END64_AT then wrong(archive, 'has no list of its members') end
    local record = read_at(archive, number(tail, at - 20 + 8, 8), 56)
    if record:sub(1, 4) ~= END64 then wrong(archive, 'has no list of its members') end
    count, bytes, start = number(record, 33, 8), number(record, 41, 8), number(record, 49, 8)
  end
  if bytes > MOST_LIST or start + bytes > archive.size then
    wrong(archive, 'has a list of its members that it has no room for')
  end
  return start, bytes, count
end

-- Sizes and place that did not fit into 32 bits stand behind the name.
local function widen(member, extra)
  local at = 1
  while at + 3 <= #extra do
    local id, n = number(extra, at, 2), number(extra, at + 2, 2)
    if id == 1 then
      local from = at + 4
      for _, key in ipairs { 'bytes', 'packed', 'at' } do
        if member[key] == 0xffffffff then
          member[key] = number(extra, from, 8)
          from = from + 8
        end
      end
      return
    end
    at = at + 4 + n
  end
end

local function check(archive, member)
  if member.flags % 2 == 1 then wrong(archive, 'has %q behind a password', member.name) end
  if member.method ~= 0 and member.method ~= 8 then
    wrong(archive, 'has %q packed by method %d', member.name, member.method)
  end
  local head = read_at(archive, member.at, 30)
  if head:sub(1, 4) ~= LOCAL then wrong(archive, 'has no %q where it says', member.name) end
  member.start = member.at + 30 + number(head, 27, 2) + number(head, 29, 2)
  if member.start + member.packed > archive.size
    or member.method == 0 and member.packed ~= member.bytes then
    wrong(archive, 'is cut off in %q', member.name)
  end
end

local function read_list(archive)
  local start, bytes, count = find_list(archive)
  local text, at, packed, seen = read_at(archive, start, bytes), 1, 0, {}
  archive.members = {}
  for i = 1, count do
    if text:sub(at, at + 3) ~= MEMBER then
      wrong(archive, 'lists %.0f members and has %d', count, i - 1)
    end
    local n, extra, remark = number(text, at + 28, 2), number(text, at + 30, 2),
      number(text, at + 32, 2)
    local member = { flags = number(text, at + 8, 2), method = number(text, at + 10, 2),
      sum = number(text, at + 16, 4), packed = number(text, at + 20, 4),
      bytes = number(text, at + 24, 4), at = number(text, at + 42, 4),
      name = text:sub(at + 46, at + 45 + n) }
    widen(member, text:sub(at + 46 + n, at + 45 + n + extra))
    if seen[member.name] then wrong(archive, 'has %q twice', member.name) end
    seen[member.name] = true
    check(archive, member)
    packed = packed + member.packed
    archive.members[i] = member
    at = at + 46 + n + extra + remark
  end
  if packed > archive.size then wrong(archive, 'has members that lie in each other') end
end

-- -- Members as files ---------------------------------------------------------------------------

local Member = setmetatable({}, { __index = file.File })
Member.__index = Member

local PIECE = 2 ^ 16

-- The next packed bytes of a member, '' at its end.
local function packed_piece(self)
  local n = math.min(PIECE, self.left)
  self.left = self.left - n
  local text = n > 0 and self.archive.handle:read(n) or ''
  if #text < n then wrong(self.archive, 'is cut off in %q', self.member.name) end
  return text
end

--- So many bytes, fewer at the end, where the sum is looked at.
---@param buffer any where to, uint8_t *
---@param n number
---@return number read
function Member:read(buffer, n)
  local done = 0
  while done < n do
    local got = self.next(buffer + done, math.min(n - done, 2 ^ 20))
    if got == 0 then break end
    self.sum = file.sum(self.sum, buffer + done, got)
    done = done + got
  end
  self.at = self.at + done
  if done < n and (self.at ~= self.member.bytes or self.sum ~= self.member.sum) then
    wrong(self.archive, 'is damaged: %q is not what was put in', self.member.name)
  end
  return done
end

-- A member's bytes from its first on.
local function open_member(archive, member)
  local self = setmetatable({ archive = archive, member = member, at = 0, sum = 0,
    left = member.packed, what = archive.what,
    path = ('%s (%s)'):format(archive.path, member.name) }, Member)
  archive.handle:seek('set', member.start)
  if member.method == 0 then
    self.size = member.bytes
    self.next = function(buffer, n)
      if self.left == 0 then return 0 end
      local text = self.archive.handle:read(math.min(n, self.left))
      if not text then wrong(archive, 'is cut off in %q', member.name) end
      self.left = self.left - #text
      ffi.copy(buffer, text, #text)
      return #text
    end
  else
    self.next = file.inflater(function() return packed_piece(self) end, function(why)
      wrong(archive, 'is damaged in %q: %s', member.name, why)
    end)
  end
  return self
end

--- Call f with each array of an archive: its name, what its header says, a function that reads it.
---@param path string
---@param what string the function the user called, for errors
---@param f fun(name: string, facts: table, read: function)
function M.each(path, what, f)
  local handle, why = io.open(path, 'rb')
  if not handle then blame.raise(('%s: %s'):format(what, why), 'EIO', what) end
  local archive = { path = path, what = what, handle = handle, size = handle:seek 'end' }
  local ok, e = pcall(function()
    read_list(archive)
    for _, member in ipairs(archive.members) do
      local name = member.name:match '^(.*)%.npy$'
      if not name then wrong(archive, 'has %q, which is no array of NumPy', member.name) end
      local open = open_member(archive, member)
      local facts = npy.header(open)
      f(name, facts, function() return npy.tensor(open, facts) end)
    end
  end)
  handle:close()
  if not ok then error(e, 0) end
end

return M

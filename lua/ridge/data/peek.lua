-- SPDX-License-Identifier: MIT
--- What a file of tensors holds, by its headers alone: names, types, shapes, bytes.

local blame = require 'ridge.blame'
local guard = require 'ridge.guard'
local options = require 'ridge.options'
local columns = require 'ridge.show.columns'
local file = require 'ridge.data.file'
local idx = require 'ridge.data.idx'
local kinds = require 'ridge.data.kind'
local npy = require 'ridge.data.npy'
local npz = require 'ridge.data.npz'
local plain = require 'ridge.plain'
local safetensors = require 'ridge.data.safetensors'
local summary = require 'ridge.show.summary'
local value = require 'ridge.show.value'

local M = {}

local NAMES = { safetensors = 'safetensors', index = 'an index of safetensors files', npy = 'npy',
  npz = 'npz', idx = 'IDX' }

-- -- What it says ---------------------------------------------------------------------------------

local function head_of(self)
  local unknown = 0
  for _, entry in ipairs(self) do unknown = unknown + (entry.unknown and 1 or 0) end
  return ('%s: %s, %d tensor%s, %s%s'):format(plain.line(self.path), NAMES[self.kind], #self,
    #self == 1 and '' or 's', summary.bytes(self.bytes), unknown > 0
    and (', %d of types that ridge does not have'):format(unknown) or '')
end

-- All of it as text: a line for each tensor, and the notes, at most so many of each.
local function text_of(self, most)
  local rows = {}
  for i, entry in ipairs(self) do
    if i > (most or math.huge) then break end
    rows[i] = { entry.name, entry.dtype, summary.shape(entry.shape), summary.bytes(entry.bytes),
      self.kind == 'index' and entry.path:match '[^/]*$' or nil }
  end
  local heads = { 'name', 'type', 'shape', 'bytes', self.kind == 'index' and 'file' or nil }
  local lines = { head_of(self) }
  if #rows > 0 then lines[2] = columns.text(heads, rows, { right = { [4] = true } }) end
  if #rows < #self then lines[#lines + 1] = ('... %d more'):format(#self - #rows) end
  local notes = {}
  for name in pairs(self.notes) do notes[#notes + 1] = name end
  table.sort(notes)
  for i, name in ipairs(notes) do
    if i > (most or math.huge) then break end
    lines[#lines + 1] = columns.cut(plain.line(('note %s: %s'):format(name, self.notes[name])), 100)
  end
  return table.concat(lines, '\n')
end

local Peeked = value.class('peeked', { line = head_of,
  box = function(self) return text_of(self, 8) end })
Peeked.__index = guard.all { text = function(self, most)
  return text_of(self, options.count(most, 'peeked:text', 'the number of lines'))
end }

-- -- Reading --------------------------------------------------------------------------------------

-- An entry of one that stands alone.
local function entry_of(name, dtype, shape, count, bytes, unknown)
  return { name = name, dtype = dtype, shape = shape, count = count, bytes = bytes,
    unknown = unknown or false }
end

local function of_npy(name, facts)
  local kind, letter, n = facts.kind, facts.name:match '^(%w)(%d+)$'
  return entry_of(name, kind and kind[1] or facts.name, facts.shape, facts.count,
    -- NumPy's name ends in the bytes of an element, of texts in its letters of four bytes
    facts.count * (kind and kind[2] or tonumber(n) * (letter == 'U' and 4 or 1)), not kind)
end

local READ = {}

function READ.safetensors(path, what, other) return safetensors.read(path, what, other) end

function READ.index(path, what) return safetensors.read_index(path, what) end

function READ.npy(path, what)
  return { of_npy('', file.with(path, what, npy.header)) }, {}
end

function READ.idx(path, what)
  local shape, count, kind = file.with(path, what, idx.header)
  return { entry_of('', kind[1], shape, count, count * kind[2]) }, {}
end

function READ.npz(path, what)
  local list = {}
  npz.each(path, what, function(name, facts) list[#list + 1] = of_npy(name, facts) end)
  return list, {}
end

--- What a file holds that ridge.load reads, without reading it: a list of { name, dtype, shape,
--- count, bytes, unknown = ridge has no such type }, in the order of the file, with kind
--- ('safetensors', 'index', 'npy', 'npz', 'idx'), path, bytes of all and notes. Printed it is a
--- table; `:text()` has every line.
---@param path string
---@return table
-- >> ridge.save('/tmp/x.safetensors', {w = ridge.ones(2)})
-- >> ridge.peek '/tmp/x.safetensors'
function M.peek(path)
  if type(path) ~= 'string' then
    blame.raise(('peek: a path is expected, got %s'):format(blame.show(path)), 'EARG', 'peek')
  end
  local kind, other = kinds.of(path, 'peek')
  local list, notes = READ[kind or 'safetensors'](path, 'peek', other)
  local self = { path = path, kind = kind or 'safetensors', notes = notes, bytes = 0 }
  for i, entry in ipairs(list) do
    self.bytes = self.bytes + entry.bytes
    -- without what holds the file open
    self[i] = entry_of(entry.name, entry.dtype, entry.shape, entry.count, entry.bytes,
      entry.unknown)
    self[i].path = entry.path
  end
  return setmetatable(self, Peeked)
end

return M

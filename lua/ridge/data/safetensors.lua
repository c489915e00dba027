-- SPDX-License-Identifier: MIT
--- Files in the safetensors format, and indexes of several of them: headers are read in C
--- (core/io/safetensors.c), tensors come at once, when they are used, or are pages of the file.

local bit = require 'bit'
local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local dtype = require 'ridge.tensor.dtype'
local pieces = require 'ridge.tensor.pieces'
local ref = require 'ridge.ffi.ref'

local M = {}

local slot = ffi.new 'rg_safetensors *[1]'

local function wrong(what, path, text, ...)
  blame.raise(('%s: %s %s'):format(what, path, text:format(...)), 'EFORMAT', what)
end

local function text_of(t) return ffi.string(t.data, t.bytes) end

-- -- Opening --------------------------------------------------------------------------------------

-- What is wrong with a file; where its first bytes are those of another kind, that.
local function refuse(what, path, status, other)
  if call.code(status) ~= 'EFORMAT' then call.fail(status, what) end
  local text = ffi.string(C.rg_error_message())
  local none = 'is no safetensors file'
  if other and (text:sub(1, #none) == none or text:find 'of its header are there$'
      or text:find 'it has no header$') then
    text = none .. ', but ' .. other
  end
  wrong(what, path, '%s', text)
end

local function open(path, what, reader, other)
  local status = reader(path, slot)
  if status ~= 0 then refuse(what, path, status, other) end
  return ffi.gc(slot[0], C.rg_safetensors_release)
end

local function notes_of(file)
  local notes = {}
  for i = 0, tonumber(file.n_notes) - 1 do
    notes[text_of(file.notes[2 * i])] = text_of(file.notes[2 * i + 1])
  end
  return notes
end

-- What a header says of its tensors, in the order of their places.
local function entries_of(file, path)
  local list = {}
  for i = 1, tonumber(file.n) do
    local e = file.entries[i - 1]
    local shape = {}
    for axis = 1, e.ndim do shape[axis] = tonumber(e.shape[axis - 1]) end
    local known = e.dtype < C.RG_DTYPE_COUNT
    list[i] = { name = text_of(e.name), shape = shape, count = tonumber(e.count),
      bytes = tonumber(e.bytes), at = tonumber(e.at), file = file, i = i - 1, path = path,
      dtype = known and dtype.names[e.dtype + 1] or ffi.string(e.type), unknown = not known }
  end
  return list
end

--- What a file says of itself.
---@param path string
---@param what string the function the user called, for errors
---@param other string|nil what it is if it is no safetensors file (ridge.data.kind)
---@return table[] entries name, dtype, shape, count, bytes, path, unknown (ridge has no such type)
---@return table notes texts by name
function M.read(path, what, other)
  local file = open(path, what, C.rg_safetensors_open, other)
  return entries_of(file, path), notes_of(file)
end

-- A file of an index stands beside it. Links are followed: caches of models are made of them.
local function beside(what, path, name)
  if name == '' or name == '.' or name == '..' or name:find '[/%z]' then
    wrong(what, path, 'names %s, which is no file beside it', blame.show(name))
  end
  return (path:match '^(.*/)[^/]*$' or '') .. name
end

--- The same of all files that an index names.
---@param path string
---@param what string
---@return table[] entries those that the index names
---@return table notes of the files, the first one's where several have it
---@return table[] others that stand in the files, and not in the index
function M.read_index(path, what)
  local index = open(path, what, C.rg_safetensors_index)
  local entries, notes, others, left = {}, {}, {}, {}
  for name, file in pairs(notes_of(index)) do
    left[file] = left[file] or {}
    left[file][name] = true
  end
  local sorted = {}
  for file in pairs(left) do sorted[#sorted + 1] = file end
  table.sort(sorted)
  for _, file in ipairs(sorted) do
    call.look(what)
    local at = beside(what, path, file)
    local list, own = M.read(at, what)
    for _, entry in ipairs(list) do
      local mine = left[file][entry.name]
      left[file][entry.name] = nil
      table.insert(mine and entries or others, entry)
    end
    local missing = next(left[file])
    if missing then
      wrong(what, path, 'says that %s is in %s, where it is not', blame.show(missing), file)
    end
    for name, text in pairs(own) do notes[name] = notes[name] or text end
  end
  return entries, notes, others
end

-- -- Tensors --------------------------------------------------------------------------------------

--- The tensor of an entry.
---@param entry table as `read` gives it
---@param how number C.RG_SAFETENSORS_NOW, _LATER or _MAPPED
---@param what string the function the user called, for errors
---@return Tensor
function M.tensor(entry, how, what)
  call.settle()
  call.look(what)
  call.run(what, C.rg_safetensors_tensor, entry.file, entry.i, how, ref.slot)
  return ref.wrap(ref.slot[0])
end

-- -- Writing --------------------------------------------------------------------------------------

-- Texts as C sees them; they have to be held by whoever calls.
local function texts_of(list)
  local out = ffi.new('rg_header_text[?]', math.max(#list, 1))
  for i, text in ipairs(list) do
    out[i - 1].data, out[i - 1].bytes = ffi.cast('const char *', text), #text
  end
  return out
end

--- Write the header and all elements.
---@param out table as ridge.ffi.output gives it
---@param tensors table name to tensor
---@param names string[] sorted
---@param notes table texts by name
function M.write(out, tensors, names, notes)
  local list, pairs_ = ffi.new('rg_tensor *[?]', math.max(#names, 1)), {}
  for i, name in ipairs(names) do list[i - 1] = tensors[name]._t end
  local keys = {}
  for name in pairs(notes) do keys[#keys + 1] = name end
  table.sort(keys)
  for _, name in ipairs(keys) do
    pairs_[#pairs_ + 1], pairs_[#pairs_ + 2] = name, notes[name]
  end
  local texts, noted = texts_of(names), texts_of(pairs_)
  out:by(C.rg_safetensors_head, texts, list, #names, noted, #keys)
  for _, name in ipairs(names) do
    local x = tensors[name]
    if x._t._device == 0 and bit.band(x._t._flags, C.RG_TENSOR_CONTIGUOUS) ~= 0 then
      out:by(C.rg_safetensors_put, x._t)
    else
      pieces.read(x, 'save', function(buffer, bytes) out:write_bytes(buffer, bytes) end)
    end
  end
end

return M

-- SPDX-License-Identifier: MIT
--- Tensors in a file, in the safetensors format (github.com/huggingface/safetensors): eight bytes
--- with the length of a header, the header as JSON (name to dtype, shape and place), the elements.
--- Reading one runs nothing, and takes no more memory than the file has bytes.

local ffi = require 'ffi'
local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'
local dtype = require 'ridge.tensor.dtype'
local npy = require 'ridge.data.npy'
local make = require('ridge.tensor.make').here
local output = require 'ridge.ffi.output'
local pieces = require 'ridge.tensor.pieces'
local ref = require 'ridge.ffi.ref'

ffi.cdef [[
size_t rg_train_fread(void *, size_t, size_t, void *) __asm__("fread");
const char *rg_train_strerror(int) __asm__("strerror");
]]

local M = {}

-- The format's names are ours in capitals, but for these.
local NAME, DTYPE, SIZE = { f8e4m3 = 'F8_E4M3', f8e5m2 = 'F8_E5M2' }, {}, {}
for _, name in ipairs(dtype.names) do
  NAME[name] = NAME[name] or name:upper()
  DTYPE[NAME[name]], SIZE[NAME[name]] = name, dtype.bytes[name]
end

local LONGEST = 2 ^ 24 -- bytes of a header: more is a damaged one

-- -- Writing --------------------------------------------------------------------------------------

local function sorted(tensors)
  local names = {}
  for name, x in pairs(tensors) do
    if type(name) ~= 'string' or name == '__metadata__' then
      blame.raise(('save: a tensor is named by a text, not %s'):format(blame.show(name)), 'EARG')
    end
    ref.need(x, 'save')
    names[#names + 1] = name
  end
  table.sort(names)
  return names
end

local function header_of(tensors, names, notes)
  local header, at = {}, 0
  for _, name in ipairs(names) do
    local x = tensors[name]
    local bytes = tonumber(x.bytes)
    header[name] = { dtype = NAME[x.dtype], shape = canonical.list(x:size()),
      data_offsets = canonical.list { at, at + bytes } }
    at = at + bytes
  end
  if notes and next(notes) then header.__metadata__ = notes end
  local text = canonical.encode(header)
  return text .. (' '):rep(-(#text + 8) % 8) -- the elements begin at a multiple of 8
end

-- What the system said last.
local function reason()
  return ffi.string(ffi.C.rg_train_strerror(ffi.errno()))
end

local function write_all(out, tensors, names, header)
  local length = ffi.new('uint64_t[1]', #header)
  out:write(ffi.string(length, 8)):write(header)
  for _, name in ipairs(names) do
    pieces.read(tensors[name], 'save', function(buffer, bytes) out:write_bytes(buffer, bytes) end)
  end
end

-- Endings that promise something else than what save writes, to people and to programs.
local OTHER = {}
for name in ('npz csv tsv txt json lua pt pth ckpt pkl h5 hdf5 onnx gguf mat png db gz zip xz zst')
  :gmatch '%S+' do
  OTHER[name] = true
end

-- The one tensor of a .npy file: by itself, or alone in a table.
local function single(tensors, notes)
  if next(notes or {}) then
    blame.raise('save: a .npy file has no place for notes; .safetensors has', 'EARG', 'save')
  end
  if ref.is(tensors) then return ref.need(tensors, 'save') end
  local name, x = next(tensors)
  if name == nil or next(tensors, name) ~= nil then
    blame.raise('save: a .npy file holds one tensor; .safetensors holds many by name', 'EARG',
      'save')
  end
  return ref.need(x, 'save')
end

--- Write tensors to a file: either all of it is there under its name, or what was there before.
--- It is a safetensors file; a path that ends in .npy is one of NumPy, of one tensor.
---@param path string
---@param tensors table|Tensor name to tensor; a tensor where the path ends in .npy
---@param notes table|nil texts by name, kept in the header
-- >> ridge.save('/tmp/x.safetensors', {w = ridge.ones(2)})
-- >> ridge.save('/tmp/x.npy', ridge.ones(2, 3))
function M.save(path, tensors, notes)
  local is_one = ref.is(tensors)
  if type(path) ~= 'string' or not (is_one or type(tensors) == 'table') then
    blame.raise('save: a path and a table of tensors are expected', 'EARG', 'save')
  end
  if notes ~= nil and type(notes) ~= 'table' then
    blame.raise(('save: notes are texts by name, got %s'):format(blame.show(notes)), 'EARG', 'save')
  end
  local ending = path:match '%.([^./]*)$'
  ending = ending and ending:lower()
  if ending == 'npy' then return npy.write(path, single(tensors, notes), 'save') end
  if OTHER[ending] then
    blame.raise(('save: %s would be a safetensors file, whatever .%s says: end it in .safetensors, '
      .. 'or in .npy for one tensor'):format(blame.show(path), ending), 'EARG', 'save')
  end
  if is_one then
    blame.raise("save: a tensor in a file has a name there: ridge.save(path, {x = x})", 'EARG',
      'save')
  end
  for name, text in pairs(notes or {}) do
    if type(name) ~= 'string' or type(text) ~= 'string' then
      blame.raise('save: notes are texts by name', 'EARG', 'save')
    end
  end
  local names = sorted(tensors)
  local header = header_of(tensors, names, notes)
  output.write(path, 'save', function(out) write_all(out, tensors, names, header) end)
end

-- -- Reading --------------------------------------------------------------------------------------

local function wrong(path, text, ...)
  blame.raise(('load: %s %s'):format(path, text:format(...)), 'EFORMAT', 'load')
end

-- What a file that begins like this is; nil: who knows.
local function other_of(first)
  for start, text in pairs {
    ['\31\139'] = 'packed by gzip: unpack it', ['PK\3\4'] = 'a zip archive, as .npz and .pt are',
    ['SQLite'] = "a database: ridge.query and ridge.sql with db = its path ask it",
    ['\137PNG'] = 'a picture (PNG)', ['\128\2'] = "a pickle of Python's, which can run anything",
    ['\128\4'] = "a pickle of Python's, which can run anything",
    ['\137HDF'] = 'an HDF5 file', ['GGUF'] = 'a GGUF file', ['\127ELF'] = 'a program' } do
    if first:sub(1, #start) == start then return text end
  end
  if first:sub(1, 2) == '\0\0' and first:byte(3) >= 8 and first:byte(3) <= 14
    and first:byte(4) <= 8 then
    return 'an IDX file, as MNIST is: ridge.data.idx reads it'
  end
  -- UTF-8, of which the last letter may be cut
  local ascii = first:gsub('[\194-\244][\128-\191]+', ''):gsub('[\194-\244]$', '')
  if not ascii:find '[%z\1-\8\14-\31\127-\255]' then
    return 'text: ridge.data.csv reads numbers, ridge.data.text characters'
  end
end

local function read_header(file, path, size)
  local first = file:read(8)
  if not first or #first < 8 then wrong(path, 'is cut off: it has no header') end
  if first:sub(1, 6) == '\147NUMPY' then
    wrong(path, "is a file of NumPy: ridge.data.npy '%s' reads it", path)
  end
  local length = ffi.new 'uint64_t[1]'
  ffi.copy(length, first, 8)
  local n = tonumber(length[0])
  local other = other_of(first)
  local none = 'is no safetensors file' .. (other and ', but ' .. other or '')
  if n > LONGEST then wrong(path, '%s', none) end
  if n + 8 > size then
    if other then wrong(path, '%s', none) end
    wrong(path, 'is cut off: %d of %d bytes of its header are there', size - 8, n)
  end
  local text = n > 0 and file:read(n) or ''
  local ok, header = pcall(canonical.decode, text)
  if not ok or type(header) ~= 'table' then
    wrong(path, '%s', other and none or none .. ': its header is no JSON')
  end
  return header, n + 8
end

-- Places of the tensors, in their order; every byte belongs to one.
local function places_of(header, path, bytes)
  local list = {}
  for name, entry in pairs(header) do
    if name ~= '__metadata__' then
      local offsets = type(entry) == 'table' and entry.data_offsets
      local shape = type(entry) == 'table' and entry.shape
      if type(offsets) ~= 'table' or type(shape) ~= 'table' or not SIZE[entry.dtype] then
        wrong(path, 'has no tensor that ridge can read under %q', tostring(name))
      end
      local count = SIZE[entry.dtype]
      for i = 1, #shape do
        if type(shape[i]) ~= 'number' or shape[i] < 0 or shape[i] ~= math.floor(shape[i]) then
          wrong(path, 'has a size that is none in %q', name)
        end
        count = count * shape[i]
      end
      if #shape > 8 or type(offsets[1]) ~= 'number' or offsets[2] ~= offsets[1] + count then
        wrong(path, 'says of %q a place that is not that of its shape', name)
      end
      list[#list + 1] = { name = name, dtype = DTYPE[entry.dtype], shape = shape, at = offsets[1],
        bytes = count }
    end
  end
  table.sort(list, function(a, b) return a.at < b.at or a.at == b.at and a.bytes < b.bytes end)
  local at = 0
  for _, place in ipairs(list) do
    if place.at ~= at then wrong(path, 'has a gap or an overlap before %q', place.name) end
    at = at + place.bytes
  end
  if at > bytes then wrong(path, 'is cut off: %.0f of %.0f bytes are there', bytes, at) end
  if at < bytes then wrong(path, 'has %.0f bytes behind its last tensor', bytes - at) end
  return list
end

local function read_tensor(file, place, path)
  local sizes = {}
  for i = 1, #place.shape do sizes[i] = place.shape[i] end
  sizes[#sizes + 1] = { dtype = place.dtype }
  local x = blame.within('load', function() return make.empty(unpack(sizes)) end)
  pieces.write(x, 'load', function(buffer, bytes)
    ffi.errno(0)
    if ffi.C.rg_train_fread(buffer, 1, bytes, file) < bytes then
      if ffi.errno() ~= 0 then
        blame.raise(('load: %s cannot be read: %s'):format(path, reason()), 'EIO', 'load')
      end
      wrong(path, 'is cut off in %q', place.name)
    end
  end)
  return x
end

--- The tensors of a file, and its notes.
---@param path string
---@return table tensors name to tensor
---@return table notes texts by name
-- >> ridge.save('/tmp/x.safetensors', {w = ridge.ones(2)})
-- >> ridge.load('/tmp/x.safetensors').w
function M.load(path)
  if type(path) ~= 'string' then
    blame.raise(('load: a path is expected, got %s'):format(blame.show(path)), 'EARG', 'load')
  end
  local file, why = io.open(path, 'rb')
  if not file then blame.raise('load: ' .. why, 'EIO', 'load') end
  local ok, tensors, notes = pcall(function()
    local size = file:seek 'end'
    if not size or size > 2 ^ 62 or not file:seek 'set' then wrong(path, 'is no file') end
    local header, start = read_header(file, path, size)
    local out = {}
    for _, place in ipairs(places_of(header, path, size - start)) do
      out[place.name] = read_tensor(file, place, path)
    end
    local found = {}
    for name, text in pairs(type(header.__metadata__) == 'table' and header.__metadata__ or {}) do
      if type(text) == 'string' then found[name] = text end
    end
    return out, found
  end)
  file:close()
  if not ok then error(tensors, 0) end
  return tensors, notes
end

return M

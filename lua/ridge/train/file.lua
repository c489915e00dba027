-- SPDX-License-Identifier: MIT
--- Tensors in a file: written in the safetensors format (github.com/huggingface/safetensors), read
--- out of every format that ridge knows by its content. Reading one runs nothing, and takes no more
--- memory than the file has bytes.

local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local data = require 'ridge.data.file'
local idx = require 'ridge.data.idx'
local kinds = require 'ridge.data.kind'
local npy = require 'ridge.data.npy'
local npz = require 'ridge.data.npz'
local options = require 'ridge.options'
local output = require 'ridge.ffi.output'
local plain = require 'ridge.plain'
local ref = require 'ridge.ffi.ref'
local safetensors = require 'ridge.data.safetensors'

local M = {}

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
  output.write(path, 'save', function(out) safetensors.write(out, tensors, names, notes or {}) end)
end

-- -- Reading --------------------------------------------------------------------------------------

local SPEC = {
  lazy = { 'boolean', default = false,
    doc = 'tensors of more than `over` elements come when they are used first' },
  over = { 'number', default = 1e6, min = 0, doc = 'elements from which on lazy and map count' },
  map = { 'boolean', default = false,
    doc = 'compute on private pages of the file: cut meanwhile, it ends the process by SIGBUS' },
}

local NOT_NAMED = 'not in the index'

-- Say once what of a file was left out.
local function say_left_out(path, left_out)
  local names, lacking = {}, false
  for name, why in pairs(left_out) do
    names[#names + 1] = ('%s (%s)'):format(name, why)
    lacking = lacking or why ~= NOT_NAMED
  end
  if #names == 0 then return end
  table.sort(names)
  local where, more = blame.where(), #names > 3 and (' and %d more'):format(#names - 3) or ''
  io.stderr:write(plain.line(('%sload: left out of %s%s: %s%s'):format(
    where and where .. ': ' or '', path, lacking and ', as ridge has no such types' or '',
    table.concat(names, ', ', 1, math.min(3, #names)), more)), '\n')
end

-- When the elements of a tensor come.
local function time_of(entry, opts)
  if not (opts.lazy or opts.map) or entry.count <= opts.over then return C.RG_SAFETENSORS_NOW end
  return opts.map and C.RG_SAFETENSORS_MAPPED or C.RG_SAFETENSORS_LATER
end

local function tensors_of(entries, opts)
  local out, left_out = {}, {}
  for _, entry in ipairs(entries) do
    if entry.unknown then
      left_out[entry.name] = entry.dtype
    else
      out[entry.name] = safetensors.tensor(entry, time_of(entry, opts), 'load')
    end
  end
  return out, left_out
end

local READ = {}

function READ.safetensors(path, opts, other)
  local entries, notes = safetensors.read(path, 'load', other)
  local out, left_out = tensors_of(entries, opts)
  return out, notes, left_out
end

function READ.index(path, opts)
  local entries, notes, others = safetensors.read_index(path, 'load')
  local out, left_out = tensors_of(entries, opts)
  for _, entry in ipairs(others) do left_out[entry.name] = NOT_NAMED end
  return out, notes, left_out
end

function READ.npy(path) return data.with(path, 'load', npy.tensor), {}, {} end

function READ.idx(path) return data.with(path, 'load', idx.tensor), {}, {} end

function READ.npz(path)
  local out, left_out = {}, {}
  npz.each(path, 'load', function(name, facts, read)
    if facts.kind then out[name] = read() else left_out[name] = facts.name end
  end)
  if not next(out) and next(left_out) then
    blame.raise(('load: %s has no array that ridge can read: %s is of type %s'):format(path,
      next(left_out)), 'EFORMAT', 'load')
  end
  return out, {}, left_out
end

--- The tensors of a file, and its notes. What the file is, its content says: safetensors or an
--- index of several (model.safetensors.index.json), NumPy's npz and npy, IDX; the last two hold one
--- tensor, which comes by itself. What is of a type that ridge lacks is named and left out.
---
--- With lazy = true only the header of a safetensors file is read, and the tensors up to `over`
--- elements; the others come when they are used first, copied: a file that was cut or changed
--- meanwhile is an error then. With map = true they are never copied, but private pages of the file
--- (what is written to them stays here): a file that is cut while they are used ends the process
--- with SIGBUS, and one that is changed in place changes them.
---@param path string
---@param opts table|nil {lazy = false, over = 1e6, map = false}
---@return table|Tensor tensors name to tensor; the tensor of npy and IDX
---@return table notes texts by name
---@return table left_out name to the type that ridge does not have, or 'not in the index'
-- >> ridge.save('/tmp/x.safetensors', {w = ridge.ones(2)})
-- >> ridge.load('/tmp/x.safetensors').w
-- >> ridge.load('/tmp/x.safetensors', {lazy = true}).w
function M.load(path, opts)
  if type(path) ~= 'string' then
    blame.raise(('load: a path is expected, got %s'):format(blame.show(path)), 'EARG', 'load')
  end
  local given = opts
  opts = options.check(SPEC, opts, 'load')
  if given and given.over and not (opts.lazy or opts.map) then
    blame.raise('load: over says which tensors come later, with lazy = true or map = true', 'EARG',
      'load')
  end
  local kind, other = kinds.of(path, 'load')
  if (opts.lazy or opts.map) and kind and kind ~= 'safetensors' and kind ~= 'index' then
    blame.raise(('load: lazy and map are for safetensors files; %s is %s'):format(path, kind),
      'EARG', 'load')
  end
  local tensors, notes, left_out = READ[kind or 'safetensors'](path, opts, other)
  say_left_out(path, left_out)
  return tensors, notes, left_out
end

return M

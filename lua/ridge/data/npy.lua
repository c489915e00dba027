-- SPDX-License-Identifier: MIT
--- NumPy's .npy files (numpy.org, NEP 1): a magic word, a header that is a Python dictionary with
--- the type, the order and the shape, then the elements. The header is read as text, never run.

local ffi = require 'ffi'
local blame = require 'ridge.blame'
local file = require 'ridge.data.file'
local output = require 'ridge.ffi.output'
local pieces = require 'ridge.tensor.pieces'

local M = {}

-- NumPy's name without its byte order: element type and bytes.
local TYPE = { f2 = { 'f16', 2 }, f4 = { 'f32', 4 }, f8 = { 'f64', 8 }, i1 = { 'i8', 1 },
  i4 = { 'i32', 4 }, i8 = { 'i64', 8 }, u1 = { 'u8', 1 }, b1 = { 'bool', 1 } }
local MOST = 2 ^ 36 -- bytes: more in a header is a damaged one
local DESCR = {} -- element type: NumPy's name with its byte order
for name, kind in pairs(TYPE) do DESCR[kind[1]] = (kind[2] > 1 and '<' or '|') .. name end

local function wrong(f, text, ...)
  blame.raise(('%s: %s %s'):format(f.what, f.path, text:format(...)), 'EFORMAT', f.what)
end

--- What a header says; the elements come next.
---@param f table open file (ridge.data.file)
---@return table facts name (NumPy's, of the type), kind ({element type, bytes}, nil where ridge has
---  no such type), shape, count, fortran
function M.header(f)
  local start = ffi.new 'uint8_t[12]'
  if f:read(start, 10) < 10 then wrong(f, 'is cut off in its header') end
  if ffi.string(start, 6) ~= '\147NUMPY' then wrong(f, 'is no .npy file') end
  if start[6] < 1 or start[6] > 3 then
    wrong(f, 'is of version %d of .npy; 1 to 3 are known', start[6])
  end
  local length = start[8] + 256 * start[9]
  if start[6] >= 2 then
    if f:read(start + 10, 2) < 2 then wrong(f, 'is cut off in its header') end
    length = length + 65536 * start[10] + 16777216 * start[11]
  end
  if length > 65536 then wrong(f, 'has a header of %d bytes', length) end
  local raw = ffi.new('uint8_t[?]', length)
  if f:read(raw, length) < length then wrong(f, 'is cut off in its header') end
  local text = ffi.string(raw, length)
  local order, name = text:match "'descr'%s*:%s*'([<>|=])(%w%d*)'"
  if not name and text:find "'descr'%s*:%s*%[" then name = 'record' end
  local fortran = text:match "'fortran_order'%s*:%s*(%a+)"
  local sizes = text:match "'shape'%s*:%s*%(([%d%s,]*)%)"
  local kind = name and TYPE[name]
  if not (sizes and name) or fortran ~= 'True' and fortran ~= 'False' then
    wrong(f, 'has a header that says: %s', text:sub(1, 80))
  end
  if kind and order == '>' and kind[2] > 1 then
    wrong(f, 'is big-endian; save it as little-endian')
  end
  local shape, count = {}, 1
  for n in sizes:gmatch '%d+' do
    shape[#shape + 1] = tonumber(n)
    count = count * tonumber(n)
  end
  if kind and #shape > 8 then wrong(f, 'has %d axes; 8 are the most', #shape) end
  if kind and count * kind[2] > MOST then wrong(f, 'says that it holds (%s) elements', sizes) end
  return { name = name, kind = kind, shape = shape, count = count, fortran = fortran == 'True' }
end

-- What reads masks takes a byte for a number, and there are two.
local function need_bools(f, x, count)
  local data = ffi.cast('const uint8_t *', x._t._data)
  for i = 0, count - 1 do
    if data[i] > 1 then wrong(f, 'has %d as element %d, and a bool is 0 or 1', data[i], i + 1) end
  end
end

--- The tensor that an open file holds.
---@param f table open file (ridge.data.file)
---@param facts table|nil what M.header said, where it was read already
---@return Tensor
function M.tensor(f, facts)
  facts = facts or M.header(f)
  local shape, kind = facts.shape, facts.kind
  if facts.name == 'O' then
    wrong(f, 'holds objects of Python as a pickle, which can run anything: in Python, '
      .. 'np.save(path, np.load(path, allow_pickle=True).astype(float)) makes numbers of them')
  end
  if not kind then wrong(f, 'has elements of type %s, which ridge does not have', facts.name) end
  -- column by column: the axes the other way round
  local stored = {}
  for i, n in ipairs(shape) do stored[facts.fortran and #shape + 1 - i or i] = n end
  local x = f:tensor(stored, kind[1], facts.count * kind[2])
  if kind[1] == 'bool' then need_bools(f, x, facts.count) end
  if not facts.fortran or #shape < 2 then return x end
  local axes = {}
  for i = 1, #shape do axes[i] = #shape + 1 - i end
  return x:permute(unpack(axes)):contiguous()
end

--- The tensor a .npy file holds; plain or packed by gzip.
---@param path string
---@return Tensor f16, f32, f64, i8, i32, i64, u8 or bool
function M.read(path)
  return file.with(path, 'data.npy', M.tensor)
end

--- Write a tensor as a .npy file of version 1.0, row by row.
---@param path string
---@param x Tensor of a type that NumPy has
---@param what string the function the user called, for errors
function M.write(path, x, what)
  if not DESCR[x.dtype] then
    blame.raise(("%s: NumPy has no %s, so .npy cannot hold it: x:to 'f32', or a file of another "
      .. 'name, which keeps every type'):format(what, x.dtype), 'EDTYPE', what)
  end
  local sizes = x:size()
  for i, n in ipairs(sizes) do sizes[i] = ('%.0f'):format(n) end
  local head = ("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }"):format(DESCR[x.dtype],
    table.concat(sizes, ', ') .. (#sizes == 1 and ',' or ''))
  head = head .. (' '):rep(-(10 + #head + 1) % 64) .. '\n' -- the elements begin at a multiple of 64
  output.write(path, what, function(out)
    out:write('\147NUMPY\1\0' .. string.char(#head % 256, math.floor(#head / 256)) .. head)
    pieces.read(x, what, function(buffer, bytes) out:write_bytes(buffer, bytes) end)
  end)
end

return M

-- SPDX-License-Identifier: MIT
--- What a file is, by its first bytes: names of files say what somebody wanted.

local ffi = require 'ffi'
local blame = require 'ridge.blame'
local file = require 'ridge.data.file'

local M = {}

local LONGEST = 2 ^ 24 -- bytes of a safetensors header (RG_LONGEST_HEADER)
local TORCH = "in Python, safetensors.torch.save_file(torch.load('x.pt', weights_only=True), "
  .. "'x.safetensors') makes of its tensors a file that ridge.load reads"

-- What begins like this, and what to do with it.
local OTHER = {
  ['\31\139'] = 'packed by gzip: unpack it', ['PK\3\4'] = 'a zip archive, as .npz and .pt are',
  ['PK\5\6'] = 'a zip archive with nothing in it',
  ['SQLite'] = "a database: ridge.query and ridge.sql with db = its path ask it",
  ['\137PNG'] = 'a picture (PNG)', ['\137HDF'] = 'an HDF5 file', ['GGUF'] = 'a GGUF file',
  ['\127ELF'] = 'a program', BZh = 'packed by bzip2: unpack it', PAR1 = 'a Parquet file',
  ['\253' .. '7zXZ\0'] = 'packed by xz: unpack it', ['(\181/\253'] = 'packed by zstd: unpack it',
  ['7z\188\175'] = 'a 7-Zip archive',
}
local PICKLE = "a pickle of Python's, which can run anything: " .. TORCH
for version = 2, 5 do OTHER['\128' .. string.char(version)] = PICKLE end
-- The first protocols have no mark: what begins a dictionary, a list or an object of a class.
local OLD_PICKLES = { '^%([dl]p%d+\n', '^c[%a_][%w_.]*\n[%a_][%w_.]*\n', '^[%]}]q.' }

local function is_idx(first)
  return first:sub(1, 2) == '\0\0' and #first >= 4 and first:byte(3) >= 8 and first:byte(3) <= 14
    and first:byte(4) <= 8
end

-- The length that a safetensors file begins with.
local function length_of(first)
  local n = 0
  for i = 8, 1, -1 do n = n * 256 + first:byte(i) end
  return n
end

-- What a packed file is inside: NumPy's or IDX, which their readers unpack.
local function inside(path, what)
  local start = ffi.new 'uint8_t[8]'
  local ok, text = pcall(file.with, path, what, function(f)
    return ffi.string(start, f:read(start, 8))
  end)
  if not ok then return nil end
  return text:sub(1, 6) == '\147NUMPY' and 'npy' or is_idx(text) and 'idx' or nil
end

-- A zip archive by its first member.
local function archive(first)
  local n = (first:byte(27) or 0) + 256 * (first:byte(28) or 0)
  local name = first:sub(31, 30 + n)
  if name:find '%.npy$' then return 'npz' end
  if name:find '/data%.pkl$' or name:find '/%.format_version$' or name:find '/version$' then
    return nil, "a file of PyTorch's, whose pickle can run anything: " .. TORCH
  end
end

--- What a file that is no safetensors file is, as a sentence goes on behind "but"; nil: who knows.
---@param first string its first bytes
---@return string|nil
function M.other(first)
  for start, text in pairs(OTHER) do
    if first:sub(1, #start) == start then return text end
  end
  for _, pattern in ipairs(OLD_PICKLES) do
    if first:find(pattern) then return PICKLE end
  end
  -- UTF-8, of which the last letter may be cut
  local ascii = first:gsub('[\194-\244][\128-\191]+', ''):gsub('[\194-\244]$', '')
  if first ~= '' and not ascii:find '[%z\1-\8\14-\31\127-\255]' then
    return 'text: ridge.data.csv reads numbers, ridge.data.text characters'
  end
end

--- The kind of a file.
---@param path string
---@param what string the function the user called, for errors
---@return string|nil kind 'safetensors', 'index', 'npy', 'npz', 'idx'; nil: none of them
---@return string|nil other what it is instead, as M.other says it
function M.of(path, what)
  local f, why = io.open(path, 'rb')
  if not f then blame.raise(('%s: %s'):format(what, why), 'EIO', what) end
  local size = f:seek 'end'
  local first = size and size < 2 ^ 62 and f:seek 'set' and f:read(512) or size == 0 and ''
  f:close()
  if not first then blame.raise(('%s: %s is no file'):format(what, path), 'EFORMAT', what) end
  -- no other kind has this: a length that is none of theirs, and JSON behind it
  if #first > 8 and first:byte(9) == 123 and length_of(first) <= LONGEST then
    return 'safetensors'
  end
  if first:sub(1, 6) == '\147NUMPY' and #first > 8 then return 'npy' end
  if is_idx(first) then return 'idx' end
  if first:find '^%s*{' and #first >= 8 then return 'index' end
  if first:sub(1, 4) == 'PK\3\4' then
    local kind, other = archive(first)
    if kind or other then return kind, other end
  end
  local kind = first:sub(1, 2) == '\31\139' and inside(path, what)
  if kind then return kind end
  return nil, M.other(first)
end

return M

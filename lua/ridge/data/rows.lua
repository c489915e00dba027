-- SPDX-License-Identifier: MIT
--- Rows that stay in their file, mapped into memory, and are read when a batch wants them: data
--- sets larger than memory.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local class = require 'ridge.class'
local dtype = require 'ridge.tensor.dtype'
local guard = require 'ridge.guard'
local options = require 'ridge.options'

local M = {}

local slot = ffi.new('rg_map *[1]')

local Rows = class.class 'data.rows'

local SPEC = {
  dtype = { 'string', default = 'f32', doc = 'of the numbers in the file' },
  shape = { 'table', required = true, doc = 'sizes of a row, {} for one number' },
  offset = { 'integer', default = 0, min = 0, doc = 'bytes before the first row' },
  rows = { 'integer', min = 0, doc = 'how many; all that are there when left out' },
  to = { 'string', choices = { 'f32' }, doc = 'converted to f32 as it is read' },
  scale = { 'number', default = 1, doc = 'times, as it is converted' },
  shift = { 'number', default = 0, doc = 'plus, as it is converted' },
}

-- The file as memory, which goes when nobody holds it any more.
local function map(path)
  local st = C.rg_map_open(path, slot)
  if st ~= 0 then call.fail(st, 'data.rows') end
  return ffi.gc(slot[0], C.rg_map_release)
end

--- Rows of numbers in a file, side by side, in this machine's byte order.
---@param path string
---@param opts table {shape = {...}, dtype = 'f32', offset = 0, rows =, to = 'f32', scale = 1,
---  shift = 0}
-- >> images = ridge.data.rows('images.bin', {shape = {28, 28}, dtype = 'u8', to = 'f32',
-- >>   scale = 1 / 255})
function Rows:init(path, opts)
  if type(path) ~= 'string' then
    blame.raise('data.rows: a path is expected, got ' .. blame.show(path))
  end
  opts = options.check(SPEC, opts, 'data.rows')
  dtype.code(opts.dtype, 'data.rows')
  local numbers = 1
  for _, n in ipairs(options.list(opts.shape, 'data.rows')) do
    if type(n) ~= 'number' or n < 1 or n ~= math.floor(n) then
      blame.raise('data.rows: sizes of a row are whole numbers from 1, got ' .. blame.show(n))
    end
    numbers = numbers * n
  end
  self.map = map(path)
  local bytes = tonumber(self.map._bytes) - opts.offset
  local one = numbers * dtype.bytes[opts.dtype]
  local there = math.floor(bytes / one)
  if bytes < 0 or not opts.rows and bytes % one ~= 0 or opts.rows and there < opts.rows then
    blame.raise(('data.rows: %s has %d bytes behind the first %d: that is %g rows of %d bytes%s')
      :format(path, math.max(0, bytes), opts.offset, math.max(0, bytes) / one, one,
      opts.rows and (', and %d are wanted'):format(opts.rows) or ''), 'EFORMAT')
  end
  self.path, self.shape, self.numbers = path, opts.shape, numbers
  self.rows, self.dtype, self.offset = opts.rows or there, opts.dtype, opts.offset
  self.out, self.scale, self.shift = opts.to or opts.dtype, opts.scale, opts.shift
  if (opts.scale ~= 1 or opts.shift ~= 0) and self.out ~= 'f32' then
    blame.raise("data.rows: scale and shift need to = 'f32'")
  end
end

function Rows:__tostring()
  return ('data.rows(%s: %d of %s[%s]%s)'):format(self.path, self.rows, self.dtype,
    table.concat(self.shape, ','), self.out ~= self.dtype and ' as ' .. self.out or '')
end
Rows.__tostring = guard.text(Rows.__tostring)

--- Is this value one of them?
---@param value any
---@return boolean
function M.is(value)
  return class.is_a(value, Rows)
end

M.rows = Rows

return M

-- SPDX-License-Identifier: MIT
--- The loader's threads: sources, what is done to each row, and the ring of batches under way.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local class = require 'ridge.class'
local dtype = require 'ridge.tensor.dtype'
local make = require('ridge.tensor.make').here
local ref = require 'ridge.ffi.ref'

local Pool = class.class 'data.pool'

local slot = ffi.new('rg_loader *[1]')
local transform_slot = ffi.new('rg_transform *[1]')
local out_t = ffi.typeof 'rg_tensor *[8]'

-- One source as the core sees it.  The core holds what it reads: when a Lua state ends, its handles
-- are empty before the loader is released, and a thread may be at work for longer than that.
local function fill(field, x)
  if ref.is(x) then
    local flat = x:detach():contiguous()
    C.rg_scope_keep(flat._t)
    local shape = flat:size()
    field.tensor = flat._t
    field.data, field.rows = flat._t._data, shape[1]
    field.numbers = shape[1] > 0 and flat.count / shape[1] or 0
    field.dtype, field.out, field.file = flat._t._dtype, flat._t._dtype, -1
    field.scale, field.shift = 1, 0
    return { dtype = flat.dtype, shape = { unpack(shape, 2) } }, flat
  end
  field.map = x.map
  field.data, field.file, field.offset = x.map._data + x.offset, x.map._file, x.offset
  field.rows, field.numbers = x.rows, x.numbers
  field.dtype, field.out = dtype.code(x.dtype, 'data.rows'), dtype.code(x.out, 'data.rows')
  field.scale, field.shift = x.scale, x.shift
  return { dtype = x.out, shape = x.shape }
end

-- A function as bytecode that needs nothing of this state.
local function bytecode(f)
  local name = debug.getupvalue(f, 1)
  if name then
    blame.raise(('data.Loader: the transform uses %s from outside; each thread has a Lua state of '
      .. 'its own: write the value into the function, or require what it needs there'):format(name))
  end
  return string.dump(f)
end

--- Start the threads.
---@param sources table list of Tensor and data.rows
---@param workers number
---@param prefetch number batches ahead, for each thread
---@param transform function|nil
function Pool:init(sources, workers, prefetch, transform)
  local n = #sources
  if n > 8 then blame.raise(('data.Loader: %d tensors; 8 are the most'):format(n)) end
  local fields = ffi.new('rg_field[?]', n)
  local types = {}
  self.of, self.workers = {}, workers
  self.room = math.max(1, workers * prefetch)
  self.most, self.owners = self.room, {}
  local flat = {} -- until the loader holds them
  for i, x in ipairs(sources) do
    self.of[i], flat[i] = fill(fields[i - 1], x)
    types[i] = ('%s %d;'):format(dtype.stored[self.of[i].dtype], tonumber(fields[i - 1].numbers))
  end
  local given
  if transform then
    local code = bytecode(transform)
    call.check(C.rg_transform_new(code, #code, table.concat(types), transform_slot))
    given = transform_slot[0]
  end
  local st = C.rg_loader_new(fields, n, workers, self.room, given, slot)
  if st ~= 0 and given then C.rg_transform_release(given) end
  call.check(st, 'data.Loader')
  self.loader = ffi.gc(slot[0], C.rg_loader_release)
  self.flat = flat
end

--- May another batch be ordered?
---@return boolean
function Pool:has_room()
  return C.rg_loader_waiting(self.loader) < self.room
end

--- Order a batch.
---@param owner table who gets it, for `oldest`
---@param order cdata|nil int64_t numbers of rows; the rows in their order when left out
---@param first number where it begins, from 0
---@param n number rows
---@param tensors table|nil to gather into; new ones when left out
function Pool:order(owner, order, first, n, tensors)
  if not tensors then
    tensors = {}
    for i, each in ipairs(self.of) do
      local sizes = { n, unpack(each.shape) }
      sizes[#sizes + 1] = { dtype = each.dtype }
      tensors[i] = make.empty(unpack(sizes))
      C.rg_scope_keep(tensors[i]._t)
    end
  end
  local out = out_t()
  for i, x in ipairs(tensors) do out[i - 1] = x._t end
  local index = order and order + first or ffi.new('int64_t[?]', n)
  if not order then
    for i = 0, n - 1 do index[i] = first + i end
  end
  call.check(C.rg_loader_order(self.loader, index, n, out), 'data.Loader')
  self.owners[#self.owners + 1] = owner
end

--- Wait until the oldest batch that was ordered is gathered, and take it. What went wrong with it
--- is for its owner.
---@return table owner as `order` was told
---@return function take returns its tensors, one for each source, or raises what went wrong
function Pool:oldest()
  call.settle()
  local out = out_t()
  local st = C.rg_loader_next(self.loader, out)
  if st == C.RG_EINTR then call.fail(st, 'data.Loader') end -- it is still to come
  local owner = table.remove(self.owners, 1)
  if st ~= 0 then
    local message = ffi.string(C.rg_error_message()):gsub('^[%w_.]+:', 'data.Loader:')
    return owner, function() blame.raise(message, call.code(st), 'data.Loader') end
  end
  local list = {}
  for i = 1, #self.of do list[i] = ref.wrap(out[i - 1]) end
  return owner, function() return unpack(list) end
end

return Pool

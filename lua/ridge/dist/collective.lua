-- SPDX-License-Identifier: MIT
--- Collectives: what all ranks do together, each with a tensor of its own.

local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local make = require('ridge.tensor.make').here
local ref = require 'ridge.ffi.ref'
local worlds = require 'ridge.world'

local M = {}

local OPS = { sum = C.RG_GROUP_SUM, mean = C.RG_GROUP_MEAN, max = C.RG_GROUP_MAX,
  min = C.RG_GROUP_MIN, prod = C.RG_GROUP_PROD }
local NAMES = { 'max', 'mean', 'min', 'prod', 'sum' }

-- The tensor as memory that a library may read.
local function memory(x, what)
  ref.need(x, what)
  worlds.reach(worlds.here(), what, x)
  return x:detach():contiguous()
end

local function op_of(op, what)
  if op == nil then return C.RG_GROUP_SUM end
  if not OPS[op] then
    local near = blame.near(op, NAMES)
    blame.raise(('%s: %s is none of %s%s'):format(what, blame.show(op), table.concat(NAMES, ', '),
      near and (" (did you mean '%s'?)"):format(near) or ''), 'EARG', what)
  end
  return OPS[op]
end

local function like(x, shape)
  return make.empty(shape, { dtype = x.dtype, device = x.device })
end

-- Do a call from x to out.
local function run(what, world, x, out, fields)
  fields.dtype, fields.count = x._t._dtype, x._t._count
  fields.device = x._t._device
  fields['in'], fields.out = x._t._data, out._t._data
  worlds.run(world, what, fields, x, out)
  return out
end

--- The sum, mean, largest, smallest or product of what all ranks have. On the CPU it is added up
--- and multiplied in the order of the ranks, in f32 for f16 and bf16, and rounded once, so all have
--- the same bits; on GPUs sums and products are NCCL's, those of f16 and bf16 rounded at each
--- rank. The largest and the smallest are nan where one is nan. No gradient flows through it.
---@param x Tensor of one shape and type everywhere; of true and false there are 'max' and 'min'
---@param op string|nil 'sum', 'mean' (of floats), 'max', 'min' or 'prod'; 'sum' when left out
---@return Tensor result
-- >> ridge.dist.all_reduce(ridge.tensor {1, 2}, 'mean')
function M.all_reduce(x, op)
  local what = 'dist.all_reduce'
  x = memory(x, what)
  return run(what, worlds.here(), x, like(x, x:size()), { kind = C.RG_GROUP_ALL_REDUCE,
    op = op_of(op, what) })
end

--- What one rank has, on all.
---@param x Tensor of one shape and type everywhere
---@param root number|nil the rank, from 0; 0 when left out
---@return Tensor result
-- >> ridge.dist.broadcast(ridge.ones(3))
function M.broadcast(x, root)
  local what = 'dist.broadcast'
  x = memory(x, what)
  local world = worlds.here()
  if root ~= nil and (type(root) ~= 'number' or root % 1 ~= 0 or root < 0
      or root >= world.size) then
    blame.raise(('%s: there is no rank %s; ranks are 0 to %d'):format(what, blame.show(root),
      world.size - 1), 'EARG', what)
  end
  return run(what, world, x, like(x, x:size()), { kind = C.RG_GROUP_BROADCAST, root = root or 0 })
end

--- What all ranks have, along a new first axis: the place of a rank is its number and 1.
---@param x Tensor of one shape and type everywhere
---@return Tensor result one axis more, of as many as there are ranks
-- >> ridge.dist.all_gather(ridge.ones(3)).shape
function M.all_gather(x)
  local what = 'dist.all_gather'
  x = memory(x, what)
  local world = worlds.here()
  return run(what, world, x, like(x, { world.size, unpack(x:size()) }), {
    kind = C.RG_GROUP_ALL_GATHER })
end

--- This rank's rows of what all_reduce gives: in the order of the ranks, and where they do not go
--- up evenly, one more on each of the first.
---@param x Tensor of one shape and type everywhere, with at least one axis
---@param op string|nil 'sum', 'mean' (of floats), 'max', 'min' or 'prod'; 'sum' when left out
---@return Tensor result
-- >> ridge.dist.reduce_scatter(ridge.ones(4, 2)).shape
function M.reduce_scatter(x, op)
  local what = 'dist.reduce_scatter'
  x = memory(x, what)
  if x._t._ndim == 0 then
    blame.raise(('%s: %s has no rows to part'):format(what, x:describe()), 'ESHAPE', what)
  end
  local world = worlds.here()
  local shape = x:size()
  local rows = shape[1]
  local unit = 1
  for i = 2, #shape do unit = unit * shape[i] end
  local base = math.floor(rows / world.size)
  shape[1] = base + (world.rank < rows % world.size and 1 or 0)
  return run(what, world, x, like(x, shape), { kind = C.RG_GROUP_REDUCE_SCATTER,
    op = op_of(op, what), unit = math.max(1, unit) })
end

--- Wait until all ranks have come here.
-- >> ridge.dist.barrier()
function M.barrier()
  worlds.run(worlds.here(), 'dist.barrier', { kind = C.RG_GROUP_BARRIER })
end

return M

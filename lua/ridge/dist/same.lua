-- SPDX-License-Identifier: MIT
--- Do all ranks hold the same numbers?

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local class = require 'ridge.class'
local ref = require 'ridge.ffi.ref'
local Module = require 'ridge.nn.module'
local worlds = require 'ridge.world'

local M = {}

-- A list of {name =, tensor =} of what somebody gives.
local function named(params, what)
  if class.is_a(params, Module) then return params:parameters() end
  if ref.is(params) then params = { params } end
  if type(params) ~= 'table' then
    blame.raise(('%s: a module or a list of tensors is expected, got %s'):format(what,
      blame.show(params)), 'EARG', what)
  end
  local list = {}
  for i, p in ipairs(params) do
    if ref.is(p) then p = { name = tostring(i), tensor = p } end
    ref.need(type(p) == 'table' and p.tensor, what)
    list[i] = p
  end
  return list
end

--- What is there, a line for each tensor: what ranks have to agree on before they send any.
---@param list table of {name =, tensor =}
---@return string[] lines
function M.lines(list)
  local lines = { ('there are %d tensors'):format(#list) }
  for i, p in ipairs(list) do
    lines[i + 1] = ('tensor %d is %s, %s'):format(i, p.name, p.tensor:describe())
  end
  return lines
end

--- Do all ranks hold the same bits? Different names, types or shapes are an error that says the
--- first difference; of different numbers the name of the first tensor is given.
---@param params any a module, or a list of tensors
---@return boolean same on every rank the same answer
---@return string|nil why which tensor differs, and on which rank
-- >> ridge.dist.same(ridge.nn.Linear(3, 2))
function M.same(params)
  local what = 'dist.same'
  local world = worlds.here()
  local list = named(params, what)
  worlds.agree(world, what, M.lines(list))
  local n = #list
  local mine = ffi.new('int64_t[?]', math.max(1, n))
  local all = ffi.new('int64_t[?]', math.max(1, n * world.size))
  for i, p in ipairs(list) do
    local x = p.tensor:detach():to('cpu'):contiguous()
    mine[i - 1] = C.rg_group_digest(x._t._data, x.bytes)
  end
  worlds.run(world, what, { kind = C.RG_GROUP_ALL_GATHER, dtype = C.RG_I64, count = n,
    ['in'] = mine, out = all }, mine, all)
  for i = 1, n do
    for r = 1, world.size - 1 do
      if all[r * n + i - 1] ~= all[i - 1] then
        return false, ('%s has other numbers on rank %d than on rank 0'):format(list[i].name, r)
      end
    end
  end
  return true
end

return M

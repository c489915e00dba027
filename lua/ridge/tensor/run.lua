-- SPDX-License-Identifier: MIT
--- Calls of records that have no function of their own in C, by the names of their arguments: for
--- operations that are written out as methods because what they are given is not regular.

local C = require 'ridge.ffi.lib'
local arguments = require 'ridge.tensor.arguments'
local call = require 'ridge.ffi.call'
local make = require 'ridge.tensor.make'
local ref = require 'ridge.ffi.ref'
local schema = require 'ridge.tensor.schema'

local M = {}

local slot = ref.slot

--- An input that may be given as a number, which becomes a tensor of one where x is.
---@param value Tensor|number
---@param x Tensor
---@param what string for errors: the operation
---@return Tensor
function M.number(value, x, what)
  if type(value) == 'number' then return make.full(value, 1, { device = x.device }) end
  return ref.need(value, what)
end

--- What calls a record.
---@param name string 'gather'
---@return fun(inputs: Tensor[], args: table|nil): Tensor, Tensor|nil gives the results; arguments
---  are C's (axes count from 0), those that are left out have their defaults
function M.of(name)
  local record = schema.of(name)
  local n_in, index, results = #record.inputs, record.index, #record.results
  local take, args = arguments.of(record), {}
  for i, arg in ipairs(record.args) do
    args[i] = { name = arg.name, type = arg.type, default = arg.default, at = 'at_' .. arg.name }
  end
  local function call_once(set, list, made)
    local inputs = set.inputs
    for i = 1, n_in do inputs[i - 1] = list[i] and list[i]._t or nil end
    return C.rg_op_call(index, inputs, n_in, set.bytes, nil, made)
  end
  return function(list, values)
    for i = 1, n_in do
      if list[i] ~= nil then ref.need(list[i], name) end
    end
    call.settle()
    local set, made = take(), results > 1 and ref.slots() or slot
    for _, arg in ipairs(args) do
      local value = values and values[arg.name]
      if value == nil then value = arg.default end
      arguments.put(set[arg.at], arg.type, value)
    end
    local st = call_once(set, list, made)
    if st ~= 0 then call.again(st, call_once, set, list, made) end
    set.taken = false
    local first = ref.wrap(made[0])
    if results > 1 then return first, ref.wrap(made[1]) end
    return first
  end
end

return M

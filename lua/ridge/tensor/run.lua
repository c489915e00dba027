-- SPDX-License-Identifier: MIT
--- Calls of records that have no function of their own in C, by the names of their arguments: for
--- operations that are written out as methods because what they are given is not regular.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local make = require 'ridge.tensor.make'
local ref = require 'ridge.ffi.ref'
local schema = require 'ridge.tensor.schema'

local M = {}

local C_TYPE = { i32 = 'int32_t *', i64 = 'int64_t *', f64 = 'double *', i64x2 = 'int64_t *',
  sizes = 'rg_sizes *' }

local slot = ref.slot

-- One argument into its place: a number, two, or a list.
local function put(at, type, value)
  if type == 'sizes' then
    at.n = #value
    for i, v in ipairs(value) do at.at[i - 1] = v end
  elseif type == 'i64x2' then
    at[0], at[1] = value[1], value[2]
  else
    at[0] = value
  end
end

--- An input that may be given as a number, which becomes a tensor of one where x is.
---@param value Tensor|number
---@param x Tensor
---@param what string for errors: the operation
---@return Tensor
function M.number(value, x, what)
  if type(value) == 'number' then return make.full(value, 1, { device = x.device }) end
  return ref.need(value, what)
end

--- A record whose caller fills in what C reads, for calls that are to cost little.
---@param name string 'packed_linear'
---@return table inputs C array of rg_tensor pointers or NULL
---@return table args by name, C pointers, with the defaults in them
---@return fun(): integer status of the call, whose first result lies in ridge.ffi.ref's slot
function M.filled(name)
  local record = schema.of(name)
  local index, n_in = record.index, #record.inputs
  local inputs = ffi.new('const rg_tensor *[?]', math.max(1, n_in))
  local bytes = ffi.new('double[?]', math.max(1, math.ceil(record.args_bytes / 8)))
  local args = {}
  for _, arg in ipairs(record.args) do
    args[arg.name] = ffi.cast(C_TYPE[arg.type], ffi.cast('char *', bytes) + arg.offset)
    if arg.default ~= nil then put(args[arg.name], arg.type, arg.default) end
  end
  return inputs, args, function() return C.rg_op_call(index, inputs, n_in, bytes, nil, slot) end
end

--- What calls a record.
---@param name string 'gather'
---@return fun(inputs: Tensor[], args: table|nil): Tensor, Tensor|nil gives the results; arguments
---  are C's (axes count from 0), those that are left out have their defaults
function M.of(name)
  local record = schema.of(name)
  local n_in, index, results = #record.inputs, record.index, #record.results
  local inputs = ffi.new('const rg_tensor *[?]', math.max(1, n_in))
  local bytes = ffi.new('double[?]', math.max(1, math.ceil(record.args_bytes / 8)))
  local args = {}
  for i, arg in ipairs(record.args) do
    args[i] = { name = arg.name, type = arg.type, default = arg.default,
      at = ffi.cast(C_TYPE[arg.type], ffi.cast('char *', bytes) + arg.offset) }
  end
  local function call_once(list)
    for i = 1, n_in do inputs[i - 1] = list[i] and list[i]._t or nil end
    return C.rg_op_call(index, inputs, n_in, bytes, nil, slot)
  end
  return function(list, values)
    for i = 1, n_in do
      if list[i] ~= nil then ref.need(list[i], name) end
    end
    call.settle()
    for _, arg in ipairs(args) do
      local value = values and values[arg.name]
      if value == nil then value = arg.default end
      put(arg.at, arg.type, value)
    end
    local st = call_once(list)
    if st ~= 0 then call.again(st, call_once, list) end
    local first = ref.wrap(slot[0])
    if results > 1 then return first, ref.wrap(slot[1]) end
    return first
  end
end

return M

-- SPDX-License-Identifier: MIT
--- Arguments of records as C reads them: inputs in a list, the others in a struct.
--
-- Calls share one set of them.  Whoever fills it in reads tensors, and where Lua reads a pointer it
-- allocates, so that a finalizer may run and call the same operation: a call that begins in the
-- middle of another one finds the set taken, and makes one of its own.

local ffi = require 'ffi'

local M = {}

local C_TYPE = { i32 = 'int32_t *', i64 = 'int64_t *', f64 = 'double *', i64x2 = 'int64_t *',
  sizes = 'rg_sizes *' }

---@class ridge.tensor.Arguments
---@field inputs cdata array of rg_tensor pointers or NULL
---@field bytes cdata the struct
---@field taken boolean a call is under way; false again when it has returned
---@field at_NAME cdata where the argument NAME lies in the struct

local function make(record)
  local bytes = ffi.new('double[?]', math.max(1, math.ceil(record.args_bytes / 8)))
  local set = { taken = false, bytes = bytes,
    inputs = ffi.new('const rg_tensor *[?]', math.max(1, #record.inputs)) }
  for _, arg in ipairs(record.args) do
    set['at_' .. arg.name] = ffi.cast(C_TYPE[arg.type], ffi.cast('char *', bytes) + arg.offset)
  end
  return set
end

--- What gives the arguments of a record to one call at a time.  A call that fails may leave them
--- taken: the next one makes others.
---@param record ridge.tensor.Record
---@return fun(): ridge.tensor.Arguments each argument's place is `at_` and its name
function M.of(record)
  local set = make(record)
  return function()
    if set.taken then set = make(record) end
    set.taken = true
    return set
  end
end

--- Write an argument: a number, two, or a list.
---@param at cdata
---@param type string
---@param value number|number[]
function M.put(at, type, value)
  if type == 'sizes' then
    at.n = #value
    for i, v in ipairs(value) do at.at[i - 1] = v end
  elseif type == 'i64x2' then
    at[0], at[1] = value[1], value[2]
  else
    at[0] = value
  end
end

return M

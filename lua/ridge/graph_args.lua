-- SPDX-License-Identifier: MIT
--- Arguments of nodes as one gives them, out of the structs of operations and into them.

local ffi = require 'ffi'
local blame = require 'ridge.blame'
local dtype = require 'ridge.tensor.dtype'
local links_of = require 'ridge.graph_links'
local schema = require 'ridge.tensor.schema'

local M = {}

local ARG_TYPES = { i32 = 'int32_t', u32 = 'uint32_t', i64 = 'int64_t', f64 = 'double',
  i64x2 = 'int64_t' }

-- An argument as one gives it: axes count from 1, words for what has names.
local function arg_of(arg, args)
  local at = ffi.cast('const char *', args) + arg.offset
  local ctype = ARG_TYPES[arg.type]
  if arg.type == 'sizes' then
    local sizes, list = ffi.cast('const rg_sizes *', at), {}
    local from = arg.kind == 'order' and 1 or 0
    for i = 1, tonumber(sizes.n) do list[i] = tonumber(sizes.at[i - 1]) + from end
    return list
  end
  if arg.type == 'links' then return links_of(at) end
  if not ctype then return nil end
  local numbers = ffi.cast('const ' .. ctype .. ' *', at)
  if arg.type == 'i64x2' then return { tonumber(numbers[0]), tonumber(numbers[1]) } end
  local value = tonumber(numbers[0])
  if arg.kind == 'position' then return value + 1 end
  if arg.kind == 'axis' then return value < 0 and value or value + 1 end
  if arg.kind == 'axes' then
    local list = {}
    for i = 0, 31 do
      if bit.band(bit.rshift(value, i), 1) == 1 then list[#list + 1] = i + 1 end
    end
    return list
  end
  if arg.kind == 'flag' then return value ~= 0 end
  if arg.kind == 'dtype' then return dtype.name(value) end
  if schema.WORDS[arg.kind] then return schema.WORDS[arg.kind][value] end
  return value
end

--- The arguments of a node by name.
---@param facts cdata rg_graph_node
---@return table
function M.of(facts)
  local out = {}
  local records = schema.records()
  local record = facts.op >= 0
    and (records[facts.op + 1] or schema.others()[facts.op + 1 - #records])
  for _, arg in ipairs(record and record.args or {}) do out[arg.name] = arg_of(arg, facts.args) end
  return out
end

local function axis_code(op, value, ndim)
  if type(value) ~= 'number' or value == 0 or math.abs(value) > ndim
    or value ~= math.floor(value) then
    blame.raise(('graph: %s: there is no axis %s of %d'):format(op, blame.show(value), ndim),
      'EAXIS', 'graph')
  end
  return value > 0 and value - 1 or value + ndim
end

-- A value of an argument as C has it.
local function code_of(op, arg, value, ndim)
  if arg.kind == 'axis' then return axis_code(op, value, ndim) end
  if arg.kind == 'axes' then
    if value == 0 then return 2 ^ ndim - 1 end -- the default: all
    local bits = 0
    for _, axis in ipairs(type(value) == 'table' and value or { value }) do
      bits = bit.bor(bits, bit.lshift(1, axis_code(op, axis, ndim)))
    end
    return bits
  end
  if arg.kind == 'position' and type(value) == 'number' then return value - 1 end
  if arg.kind == 'dtype' then return dtype.code(value, 'graph') end
  if arg.kind == 'flag' then return value and 1 or 0 end
  for code, word in pairs(schema.WORDS[arg.kind] or {}) do
    if word == value then return code end
  end
  if type(value) ~= 'number' then
    blame.raise(('graph: %s: %s is %s'):format(op, arg.name, blame.show(value)), 'EARG', 'graph')
  end
  return value
end

--- The struct of a call's arguments.
---@param record ridge.tensor.Record
---@param given table by name
---@param ndim number axes of the first input
---@return cdata bytes
function M.struct(record, given, ndim)
  local bytes = ffi.new('double[?]', math.max(1, math.ceil(record.args_bytes / 8)))
  local left = {}
  for name in pairs(given) do left[name] = true end
  for _, arg in ipairs(record.args) do
    local value = given[arg.name]
    if value == nil and arg.kind ~= 'found' then value = schema.default(arg) end
    if value == nil and arg.kind == 'found' then value = arg.default or 0 end
    if value == nil or not ARG_TYPES[arg.type] then
      blame.raise(('graph: %s: %s has to be given'):format(record.name, arg.name), 'EARG', 'graph')
    end
    left[arg.name] = nil
    local at = ffi.cast(ARG_TYPES[arg.type] .. ' *', ffi.cast('char *', bytes) + arg.offset)
    if arg.type == 'i64x2' then
      local pair = type(value) == 'table' and value or { value, value }
      at[0], at[1] = code_of(record.name, arg, pair[1]), code_of(record.name, arg, pair[2])
    else
      at[0] = code_of(record.name, arg, value, ndim)
    end
  end
  for name in pairs(left) do
    blame.raise(('graph: %s has no argument %s'):format(record.name, blame.show(name)), 'EARG',
      'graph')
  end
  return bytes
end

return M

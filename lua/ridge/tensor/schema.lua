-- SPDX-License-Identifier: MIT
--- The records of the core as Lua tables: inputs with their roles, arguments with their kinds and
--- defaults, results.  Methods (method.lua), help and tests are made from them.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local dtype = require 'ridge.tensor.dtype'

local M = {}

---@class ridge.tensor.Record
---@field name string 'softmax'
---@field doc string one line
---@field inputs table[] {name =, role =, types =, optional =, list =}
---@field args table[] {name =, doc =, kind =, type =, default =}: default is a number of C's, nil
---  where it has to be given
---@field results string[] names
---@field hidden string[] results that only gradients read
---@field amp string 'none', 'lower', 'f32' or 'widest': what autocast does
---@field draws boolean takes random numbers
---@field into boolean as a method it writes into its tensor
---@field method boolean it is a method of tensors
---@field differentiable boolean
---@field runs string 'kernel', 'view' or 'compound': what a call of it is

-- Names of an enum's constants, in lower case, by their values.
local function enum(prefix, names)
  local by_value = {}
  for name in names:gmatch '%S+' do by_value[C[prefix .. name]] = name:lower() end
  return by_value
end

local ROLES = enum('RG_ROLE_', 'INPUT WEIGHT BIAS NATIVE INDEX BITS STATE')
local TYPES = enum('RG_TYPES_', 'ANY FLOAT WHOLE STORED')
local KINDS = enum('RG_ARG_',
  'NUMBER WHOLE SHARE PART FROM0 FLAG AXIS AXES DTYPE ACT LAYOUT REDUCTION POSITION SHAPE ORDER '
  .. 'STRIDES FOUND')
local FIELDS = enum('RG_ARG_', 'i32 u32 i64 f64 i64x2 meta sizes links')
local RUNS = enum('RG_RECORD_', 'KERNEL VIEW COMPOUND')
local AMPS = enum('RG_AMP_', 'NONE LOWER F32 WIDEST')

--- What may follow a product: names by RG_ACT_..., the list of them, and RG_ACT_... by name.
M.ACTS, M.ACT_NAMES, M.ACT = {}, {}, {}
for code = 0, C.RG_ACT_COUNT - 1 do
  M.ACTS[code] = ffi.string(C.rg_act_name(code))
  M.ACT_NAMES[code + 1] = M.ACTS[code]
  M.ACT[M.ACTS[code]] = code
end

-- Words for the numbers of a kind.
local WORDS = { act = M.ACTS, layout = enum('RG_', 'NCHW NHWC'),
  reduction = enum('RG_LOSS_', 'MEAN SUM NONE') }
M.WORDS = WORDS

local function inputs_of(facts)
  local list = {}
  for i = 1, facts.n_inputs do
    local input = facts.input[i - 1]
    list[i] = { name = ffi.string(input.name), role = ROLES[input.role],
                types = TYPES[input.types], optional = input.optional, list = input.list }
  end
  return list
end

local function args_of(facts)
  local list = {}
  for i = 1, facts.n_args do
    local arg = facts.arg[i - 1]
    local default = arg.fallback
    list[i] = { name = ffi.string(arg.name), doc = ffi.string(arg.doc), kind = KINDS[arg.kind],
                type = FIELDS[arg.type], offset = arg.offset,
                default = default == default and default or nil }
  end
  return list
end

local function names_of(list, first, n)
  local names = {}
  for i = 1, n do names[i] = ffi.string(list[first + i - 1]) end
  return names
end

-- Kept only while somebody reads them: the collector goes through the whole heap to find dead
-- handles of tensors, so what lies in it is paid for by every small operation.  Weak: what is read
-- back may be gone, so a caller is given the local.
local cache = setmetatable({}, { __mode = 'v' })

local function read(first, behind)
  local records = {}
  local facts = ffi.new 'rg_op_facts'
  for i = first, behind - 1 do
    call.check(C.rg_op_facts_of(i, facts))
    records[#records + 1] = { index = i, name = ffi.string(facts.name), doc = ffi.string(facts.doc),
      inputs = inputs_of(facts), args = args_of(facts),
      results = names_of(facts.result, 0, facts.n_results),
      hidden = names_of(facts.result, facts.n_results, facts.n_hidden),
      args_bytes = facts.args_bytes, amp = AMPS[facts.amp], draws = facts.draws == 1,
      into = facts.into == 1, method = facts.method == 1, differentiable = facts.has_grad == 1,
      runs = RUNS[facts.kind] }
  end
  return records
end

--- Every record that has kernels, in the order of the core's list.
---@return ridge.tensor.Record[]
function M.records()
  local records = cache.records or read(0, C.rg_op_count())
  cache.records = records
  return records
end

--- The records without kernels: views, and operations made of several.
---@return ridge.tensor.Record[]
function M.others()
  local others = cache.others or read(C.rg_op_count(), C.rg_record_count())
  cache.others = others
  return others
end

--- A default as one gives it: axes count from 1, words for what has names, true and false.
---@param arg table of a record
---@return any nil where it has to be given
function M.default(arg)
  local value = arg.default
  if value == nil then return nil end
  if arg.kind == 'axis' then return value < 0 and value or value + 1 end
  if arg.kind == 'flag' then return value ~= 0 end
  if arg.kind == 'dtype' then return dtype.name(value) end
  if WORDS[arg.kind] then return WORDS[arg.kind][value] end
  return value
end

--- The same as text.
---@param arg table of a record
---@return string|nil nil where it has to be given
function M.default_text(arg)
  local value = M.default(arg)
  if value == nil then return nil end
  if arg.kind == 'axes' then return 'all' end
  return type(value) == 'number' and ('%.14g'):format(value) or tostring(value)
end

--- The arguments that somebody names; the others are found.
---@param record ridge.tensor.Record
---@return table[]
function M.named(record)
  local list = {}
  for _, arg in ipairs(record.args) do
    if arg.kind ~= 'found' then list[#list + 1] = arg end
  end
  return list
end

--- A record by its name.
---@param name string 'softmax'
---@return ridge.tensor.Record
function M.of(name)
  for _, records in ipairs { M.records(), M.others() } do
    for _, record in ipairs(records) do
      if record.name == name then return record end
    end
  end
  error('there is no operation ' .. name)
end

--- The signature: 'softmax(x, axis = -1) -> y'.
---@param record ridge.tensor.Record
---@return string
function M.signature(record)
  local list = record.into and { 'x' } or {}
  for _, input in ipairs(record.inputs) do
    list[#list + 1] = input.optional and input.name .. ' = nil' or input.name
  end
  for _, arg in ipairs(M.named(record)) do
    local default = M.default_text(arg)
    list[#list + 1] = default and arg.name .. ' = ' .. default or arg.name
  end
  if record.draws then list[#list + 1] = 'generator = nil' end
  local results = #record.results > 0 and table.concat(record.results, ', ') or 'nothing'
  return ('%s%s(%s) -> %s'):format(record.name, record.into and '_' or '', table.concat(list, ', '),
    results)
end

return M

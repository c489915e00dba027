-- SPDX-License-Identifier: MIT
--- Whether layers of a file have in their fields what their code takes from there.

local ffi = require 'ffi'
local schema = require 'ridge.tensor.schema'

local M = {}

-- -- What a field may be ------------------------------------------------------------------------

local function whole(least, most)
  return function(v) return type(v) == 'number' and v % 1 == 0 and v >= least and v <= most end
end

local function one_of(list)
  return function(v)
    for _, each in ipairs(list) do
      if v == each then return true end
    end
    return false
  end
end

local function kind(name) return function(v) return type(v) == name end end

local function callable(v)
  return type(v) == 'table' and getmetatable(v) ~= nil and type(v.forward) == 'function'
end

local COUNT, TYPES = whole(0, 2 ^ 31), one_of { 'u8', 'i8' }

local function zero_of(dtype)
  return dtype == 'u8' and whole(0, 255) or whole(-128, 127)
end

local function pair(v) return type(v) == 'table' and COUNT(v[1]) and COUNT(v[2]) end

-- Sizes of a convolution, as quant.Conv2d hands them on.
local function convolution(v)
  if type(v) ~= 'table' or not (pair(v.stride) and pair(v.dilation)) then return false end
  if type(v.padding) ~= 'table' then return false end
  for i = 1, 4 do
    if not COUNT(v.padding[i]) then return false end
  end
  return COUNT(v.groups) and (v.layout == 'nchw' or v.layout == 'nhwc')
end

local function struct(name) return function(v) return ffi.istype(name, v) end end

local DENSE = { n_in = COUNT, n_out = COUNT, activation = one_of(schema.ACT_NAMES) }

local FIELDS = {
  ['quant.Linear'] = { DENSE, tensors = { 'weight', 'weight_scale' } },
  ['quant.Conv2d'] = { DENSE, { kernel = pair, conv = convolution },
    tensors = { 'weight', 'weight_scale', 'x_scale', 'x_zero_point' } },
  ['quant.PackedLinear'] = { DENSE, { bits = one_of { 2, 3, 4, 6, 8 },
    group = one_of { 32, 64, 128 }, padding = whole(0, 127) }, tensors = { 'weight', 'scale' } },
  ['quant.MaxPool2d'] = { { rows = COUNT, columns = COUNT, bytes = kind 'table',
    options = struct 'rg_pool2d_options' } },
  ['prune.SparseLinear'] = { DENSE, { format = one_of { 'rows', 'blocks', 'n:m' },
    pattern = function(v) return v == nil or type(v) == 'string' end }, tensors = { 'values' },
    by = { field = 'format', rows = { 'offset', 'column' }, blocks = { 'offset', 'column' },
      ['n:m'] = { 'index' } } },
  ['quant.Residual'] = { { activation = DENSE.activation, a_zero = whole(-128, 255),
    b_zero = whole(-128, 255), inner = callable, answers = one_of { 'f32', 'bf16', 'f16' },
    around = function(v) return v == nil or callable(v) end }, tensors = { 'a_scale', 'b_scale' } },
  ['quant.Concat'] = { { axis = whole(-8, 8), again = kind 'table', out = kind 'table' },
    tensors = { 'y_scale' } },
  ['quant.Folded'] = { { was = kind 'string', into = kind 'string' } },
}

local function number(least, most)
  return function(v) return type(v) == 'number' and v >= least and v <= most end
end

-- What goes to C from fields of floating layers, by its name in whichever class.
local PLAIN = {
  activation = one_of(schema.ACT_NAMES), p = number(0, 1), eps = number(0, math.huge),
  momentum = number(0, 1), n_in = COUNT, n_out = COUNT, rank = COUNT, n = COUNT, groups = COUNT,
  hidden = COUNT, layers = COUNT, heads = COUNT, rms = one_of { 0, 1 },
  layout = one_of { 'nchw', 'nhwc' },
}

local ACTS = { 'n_in', 'n_out', 'activation' }
local NEEDED = {
  ['nn.Linear'] = { 'p', unpack(ACTS) }, ['nn.LowRankLinear'] = ACTS, ['nn.Conv2d'] = ACTS,
  ['nn.SKLinear'] = ACTS, ['nn.BatchNorm'] = { 'n', 'eps', 'momentum', 'layout' },
  ['nn.LayerNorm'] = { 'eps', 'rms' }, ['nn.RMSNorm'] = { 'eps', 'rms' },
  ['nn.GroupNorm'] = { 'eps', 'groups' }, ['nn.Dropout'] = { 'p' },
}
-- Structs that go to C as they are, and tensors that no such layer is without.
local STRUCTS = {
  ['nn.Conv2d'] = { kernel = pair, options = struct 'rg_conv2d_options' },
  ['nn.MaxPool2d'] = { options = struct 'rg_pool2d_options' },
  ['nn.AvgPool2d'] = { options = struct 'rg_pool2d_options' },
  ['nn.MultiHeadAttention'] = { of = struct 'rg_heads_options' },
}
local WEIGHT = { 'weight' }
local TENSORS = { ['nn.Linear'] = WEIGHT, ['nn.Conv2d'] = WEIGHT, ['nn.Embedding'] = WEIGHT,
  ['nn.BatchNorm'] = { 'running_mean', 'running_var' } }
-- The number of the activation beside its name.
local WITH_ACT = { ['nn.Linear'] = true, ['nn.LowRankLinear'] = true, ['nn.SKLinear'] = true }

-- -- Checks -------------------------------------------------------------------------------------

local function wrong_field(module, specs)
  for _, spec in ipairs(specs) do
    for name, fits in pairs(spec) do
      if not fits(rawget(module, name)) then return 'field ' .. name end
    end
  end
  for _, list in ipairs { specs.tensors or {}, specs.by and specs.by[module[specs.by.field]] } do
    for _, name in ipairs(list) do
      if not module._tensors[name] then return 'tensor ' .. name end
    end
  end
end

local function wrong_plain(module, name)
  if not name:find '^nn%.' then return nil end
  for field, fits in pairs(PLAIN) do
    local value = rawget(module, field)
    if value ~= nil and not fits(value) then return 'field ' .. field end
  end
  for _, field in ipairs(NEEDED[name] or {}) do
    if rawget(module, field) == nil then return 'field ' .. field end
  end
  for field, fits in pairs(STRUCTS[name] or {}) do
    if not fits(rawget(module, field)) then return 'field ' .. field end
  end
  -- one that is read through a mask is made when it is asked for
  for _, own in ipairs(TENSORS[name] or {}) do
    if not (module._tensors[own] or module._wrapped and module[own]) then
      return 'tensor ' .. own
    end
  end
  local act = rawget(module, 'act')
  if (act ~= nil or WITH_ACT[name]) and act ~= schema.ACT[rawget(module, 'activation')] then
    return 'field act'
  end
end

-- A known range of what comes in, and bytes for what follows.
local function wrong_range(module)
  local dtype, out = rawget(module, 'x_dtype'), rawget(module, 'out')
  if dtype ~= nil then
    if not TYPES(dtype) then return 'field x_dtype' end
    if not zero_of(dtype)(rawget(module, 'x_zero')) then return 'field x_zero' end
    for _, name in ipairs { 'x_scale', 'x_zero_point' } do
      local x = module._tensors[name]
      if not x or x.count ~= 1 then return 'tensor ' .. name end
    end
  end
  if out == nil then return nil end
  if type(out) ~= 'table' or not TYPES(out.dtype) or not zero_of(out.dtype)(out.zero) then
    return 'field out'
  end
  return not module._tensors.y_scale and 'tensor y_scale' or nil
end

-- Parts of a concat that are rounded once more, with the scale that they come with.
local function wrong_parts(module)
  for name, part in pairs(rawget(module, 'again')) do
    if type(part) ~= 'table' or not whole(-128, 255)(part.zero) then return 'field again' end
    if not module._tensors['scale_' .. tostring(name)] then return 'tensor scale_' .. name end
  end
end

local function wrong_report(about)
  if type(about) ~= 'table' or type(about.method) ~= 'string' or type(about.rows) ~= 'table'
    or type(about.notes) ~= 'table' then
    return true
  end
  if about.method == 'half' and about.dtype ~= 'bf16' and about.dtype ~= 'f16' then return true end
  for _, row in pairs(about.rows) do
    if type(row) ~= 'table' or type(row.name) ~= 'string' or type(row.class) ~= 'string'
      or type(row.kind) ~= 'string' or row.why ~= nil and type(row.why) ~= 'string' then
      return true
    end
  end
  for _, note in pairs(about.notes) do
    if type(note) ~= 'string' then return true end
  end
end

--- What is wrong in a module that a file made, or nil.
---@param module table
---@return string|nil why
function M.wrong(module)
  local name, about = getmetatable(module).__name, rawget(module, '_quant')
  local specs = FIELDS[name]
  local found = wrong_plain(module, name)
    or specs and (wrong_field(module, specs) or wrong_range(module))
    or name == 'quant.Concat' and wrong_parts(module)
    or about ~= nil and wrong_report(about) and 'field _quant'
  if found then
    return ('the %s of a %s is missing or none that it can have'):format(found, name)
  end
  if (specs or about ~= nil) and module.training then
    return ('a %s that is %s is in training mode'):format(name,
      name:find '^prune' and 'sparse' or 'quantized')
  end
end

return M

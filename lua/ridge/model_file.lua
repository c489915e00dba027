-- SPDX-License-Identifier: MIT
--- Nets as files: safetensors with the parameters, and in its metadata a tree of classes with their
--- fields as JSON. Classes are found by name among ridge's own, and nothing in a file is executed.

local ffi = require 'ffi'
local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'
local claimed = require 'ridge.prune.claimed'
local class = require 'ridge.class'
local file = require 'ridge.train.file'
local in_no_grad = require('ridge.tensor.grad').no_grad
local mask = require 'ridge.prune.mask'
local mode = require 'ridge.tensor.mode'
local quant_fields = require 'ridge.quant.fields'
local half = require 'ridge.quant.half'
local report = require 'ridge.quant.report'
local Module = require 'ridge.nn.module'
local Sequential = require 'ridge.nn.sequential'

local M = {}

local NOTE, FORMAT = 'ridge.model', 1
local MASKS = '_masks' -- a field of a file: names of parameters that are read through masks

-- Fields that a module is rebuilt with by other ways.
local MADE = { params = true, _tensors = true, children = true, _wrapped = true,
  _parametrizations = true }

-- Structs of C that layers keep, and their numbers.
local STRUCTS = {
  rg_conv2d_options = { pair = { 'stride', 'dilation', 'pad_low', 'pad_high' },
    one = { 'groups', 'layout', 'act' } },
  rg_heads_options = { pair = {}, one = { 'heads', 'kind', 'causal', 'block', 'kernel' } },
  rg_pool2d_options = { pair = { 'size', 'stride', 'pad_low', 'pad_high' },
    one = { 'layout', 'skip_pad' } },
}

local SPACES = { nn = 'ridge.nn', quant = 'ridge.quant.layers',
  prune = 'ridge.prune.sparse_layer' }

-- The class of a name among ridge's own, or nil.
local function class_of(name)
  local space, short = tostring(name):match '^(%l+)%.(%u%w*)$'
  if not SPACES[space] then return nil end
  local ok, found = pcall(function() return require(SPACES[space])[short] end)
  return ok and class.descends(found, Module) and found.__name == name and found or nil
end

-- -- Writing -------------------------------------------------------------------------------------

local function refuse(module, why)
  blame.raise(('save: %s %s'):format(getmetatable(module).__name, why), 'EARG')
end

local value_of

local function struct_of(value)
  for name, fields in pairs(STRUCTS) do
    if ffi.istype(name, value) then
      local out = { ['$struct'] = name }
      for _, f in ipairs(fields.pair) do
        out[f] = canonical.list { tonumber(value[f][0]), tonumber(value[f][1]) }
      end
      for _, f in ipairs(fields.one) do out[f] = tonumber(value[f]) end
      return out
    end
  end
end

local function table_of(value, number, module, name)
  local out = {}
  if #value > 0 then
    for i = 1, #value do out[i] = value_of(value[i], number, module, name) end
    return canonical.list(out)
  end
  for key, each in pairs(value) do
    if type(key) ~= 'string' then refuse(module, ('keeps a table by %s in %s, which has no form '
      .. 'in a file'):format(blame.show(key), name)) end
    -- an object of no module is memory of how the net was made, such as the rows that it has seen
    if type(each) ~= 'table' or getmetatable(each) == nil or number[each] then
      out[key] = value_of(each, number, module, name)
    end
  end
  return out
end

-- A field as JSON.
function value_of(value, number, module, name)
  local kind = type(value)
  if kind == 'string' or kind == 'boolean' then return value end
  if kind == 'number' and value == value and math.abs(value) < math.huge then return value end
  if kind == 'table' and number[value] then return { ['$module'] = number[value] } end
  if kind == 'table' and not getmetatable(value) then
    return table_of(value, number, module, name)
  end
  local struct = kind == 'cdata' and struct_of(value)
  if struct then return struct end
  refuse(module, ('has %s in its field %s, which has no form in a file; ridge.save(path, '
    .. 'net:state()) keeps its parameters, and load_state takes them'):format(blame.show(value),
    name))
end

-- Is a field a part of the net, and no way to compute or memory of how it was made?
local function is_kept(module, name, value)
  if type(name) ~= 'string' or MADE[name] then return false end
  return not ((name == 'train' or name == 'forward') and type(value) == 'function'
    and rawget(module, '_quant'))
end

-- The parameters that have masks: of all parametrisations these alone are no functions of yours.
local function masked_of(module)
  local list = {}
  for name in pairs(module._parametrizations or {}) do
    if not mask.of(module, name) then
      refuse(module, 'has parametrised parameters, which are functions: remove_parametrization '
        .. 'makes them what they are now')
    end
    list[#list + 1] = name
  end
  table.sort(list)
  return list[1] and canonical.list(list) or nil
end

local function fields_of(module, number)
  local out = { [MASKS] = masked_of(module) }
  for name, value in next, module do
    if is_kept(module, name, value) then out[name] = value_of(value, number, module, name) end
  end
  return out
end

-- All modules, numbered from the net on.
local function numbered(net)
  local list, number = {}, {}
  local function walk(module)
    if number[module] then return end
    list[#list + 1] = module
    number[module] = #list
    for _, c in ipairs(module.children) do walk(c.module) end
  end
  walk(net)
  return list, number
end

local function key_of(tensor) return tonumber(ffi.cast('intptr_t', tensor._t)) end

-- What a module's JSON says of its parameters, by the names of their tensors in the file.
local function params_of(module, names)
  local out = {}
  for i, p in ipairs(module.params) do
    out[i] = { name = p.name, tensor = names[key_of(p.tensor)], trainable = p.trainable == true,
      frozen = p.frozen == true }
  end
  return canonical.list(out)
end

local function children_of(module, number)
  local out = {}
  for i, c in ipairs(module.children) do out[i] = { name = c.name, module = number[c.module] } end
  return canonical.list(out)
end

--- Write a net to a file: its parameters, and which modules of ridge's own it is made of. Modules
--- of your own are refused; ridge.save(path, net:state()) and load_state keep theirs.
---@param net table module
---@param path string a safetensors file
function M.save(net, path)
  if type(path) ~= 'string' then
    blame.raise(('save: a path is expected, got %s'):format(blame.show(path)), 'EARG')
  end
  local list, number = numbered(net)
  local names, tensors = {}, {}
  for _, place in ipairs(mode.places(net)) do
    local key = key_of(place.tensor)
    if not names[key] then
      names[key] = place.name
      tensors[place.name] = place.tensor
    end
  end
  local modules = {}
  for i, module in ipairs(list) do
    local name = getmetatable(module).__name
    if class_of(name) ~= getmetatable(module) then
      refuse(module, 'is no class of ridge\'s own, which a file could name; ridge.save(path, '
        .. 'net:state()) keeps its parameters, and load_state takes them')
    end
    modules[i] = { class = name, fields = fields_of(module, number),
      params = params_of(module, names), children = children_of(module, number) }
  end
  return file.save(path, tensors, { [NOTE] = canonical.encode { format = FORMAT,
    modules = canonical.list(modules) } })
end

-- -- Reading -------------------------------------------------------------------------------------

local function wrong(path, why, ...)
  blame.raise(('nn.load: %s: %s'):format(path, why:format(...)), 'EFORMAT')
end

local function need(path, value, kind, what)
  if type(value) ~= kind then
    wrong(path, '%s is %s, wanted a %s', what, blame.show(value), kind)
  end
  return value
end

local read_value

local function read_struct(path, value)
  local fields = STRUCTS[value['$struct']]
  if not fields then wrong(path, 'there is no struct %s', blame.show(value['$struct'])) end
  local out = ffi.new(value['$struct'])
  local function whole(x, name)
    if type(x) ~= 'number' or x % 1 ~= 0 or math.abs(x) > 2 ^ 31 - 1 then
      wrong(path, '%s is %s, wanted a whole number', name, blame.show(x))
    end
    return x
  end
  for _, f in ipairs(fields.pair) do
    local two = need(path, value[f], 'table', f)
    for i = 0, 1 do out[f][i] = whole(two[i + 1], f) end
  end
  for _, f in ipairs(fields.one) do out[f] = whole(value[f], f) end
  return out
end

function read_value(path, value, modules)
  if type(value) ~= 'table' then return value end
  if value['$module'] then
    return modules[value['$module']]
      or wrong(path, 'there is no module %s', blame.show(value['$module']))
  end
  if value['$struct'] then return read_struct(path, value) end
  local out = {}
  for key, each in pairs(value) do out[key] = read_value(path, each, modules) end
  return out
end

-- Modules of their classes, without anything in them.
local function make_all(path, list)
  local modules = {}
  for i, record in ipairs(list) do
    need(path, record, 'table', 'a module')
    local kind = class_of(record.class)
    if not kind then wrong(path, 'there is no class %s in ridge', blame.show(record.class)) end
    modules[i] = setmetatable({}, kind)
    Module.init(modules[i])
  end
  return modules
end

local function fill_fields(path, module, record, modules)
  local kind = getmetatable(module)
  for name, value in pairs(need(path, record.fields, 'table', 'fields')) do
    if type(name) ~= 'string' or MADE[name] or name:find '^__' or name == 'recomputes'
      or type(kind[name]) == 'function' then
      wrong(path, '%s has no field %s', kind.__name, blame.show(name))
    end
    if name == 'training' and type(value) ~= 'boolean' then
      wrong(path, 'training of %s is %s', kind.__name, blame.show(value))
    end
    rawset(module, name, read_value(path, value, modules))
  end
  if kind.methods and not kind.methods[rawget(module, 'method')] then
    wrong(path, '%s has no method %s', kind.__name, blame.show(rawget(module, 'method')))
  end
end

local function fill_params(path, module, record, tensors)
  for _, p in ipairs(need(path, record.params, 'table', 'params')) do
    need(path, p, 'table', 'a parameter')
    local tensor = tensors[p.tensor]
    if not tensor then wrong(path, 'there is no tensor %s', blame.show(p.tensor)) end
    module:buffer(need(path, p.name, 'string', 'the name of a parameter'), tensor)
    local entry = module.params[#module.params]
    if p.trainable == true and (tensor.dtype:find '^b?f%d+$') then entry.trainable = true end
    entry.frozen = p.frozen == true or nil
    if entry.trainable and module.training then tensor:requires_grad_() end
  end
end

-- A module in which it is itself, by children or fields, would be called and shown without an end.
local function need_no_cycle(path, list)
  local ON_THE_WAY, DONE, state = 1, 2, {}
  local visit
  local function each(value)
    if type(value) ~= 'table' then return end
    if value['$module'] then return visit(value['$module']) end
    for _, inner in pairs(value) do each(inner) end
  end
  function visit(number)
    local record = list[number]
    if not record or state[number] == DONE then return end
    if state[number] == ON_THE_WAY then
      wrong(path, '%s is in itself', blame.show(record.class))
    end
    state[number] = ON_THE_WAY
    each(record.fields)
    for _, c in ipairs(type(record.children) == 'table' and record.children or {}) do
      if type(c) == 'table' then visit(c.module) end
    end
    state[number] = DONE
  end
  for number in ipairs(list) do visit(number) end
end

local function restore_masks(path, module)
  local names = rawget(module, MASKS)
  rawset(module, MASKS, nil)
  for _, name in ipairs(names == nil and {} or need(path, names, 'table', MASKS)) do
    if not mask.restore(module, name) then
      wrong(path, '%s has no mask for %s', getmetatable(module).__name, blame.show(name))
    end
  end
end

local function fill_children(path, module, record, modules)
  for i, c in ipairs(need(path, record.children, 'table', 'children')) do
    local child = modules[need(path, c, 'table', 'a child').module]
    if not child then wrong(path, 'there is no module %s', blame.show(c.module)) end
    if getmetatable(module) == Sequential and c.name ~= tostring(i) then
      wrong(path, 'child %d of a Sequential is called %s', i, blame.show(c.name))
    end
    module:child(need(path, c.name, 'string', 'the name of a child'), child)
  end
end

-- What numbers of a pattern are kept in is computed with: what a file says of it is not believed.
local function need_patterns(path, modules, list)
  local record_of = {}
  for i, module in ipairs(modules) do record_of[module] = list[i] end
  for _, module in ipairs(modules) do
    local holder, name, pattern, why = claimed.broken(module)
    for _, p in ipairs(holder and record_of[holder].params or {}) do
      if p.name == name then
        wrong(path, 'tensor %s of a %s has not the pattern %s: %s', p.tensor,
          getmetatable(holder).__name, pattern, why)
      end
    end
  end
end

--- A net from a file that net:save wrote: modules of ridge's own classes with the parameters of the
--- file, each in the mode it was in. Nothing in the file is executed. Parameters of a module of
--- your own are loaded by ridge.load and load_state.
---@param path string
---@return table net
-- >> ridge.nn.Sequential(ridge.nn.Linear(3, 2), ridge.nn.ReLU()):save '/tmp/net.safetensors'
-- >> return ridge.nn.load '/tmp/net.safetensors'
function M.load(path)
  local tensors, notes = file.load(path)
  if not notes[NOTE] then
    wrong(path, 'it holds tensors and no net; ridge.load reads them, and load_state of a module '
      .. 'takes them')
  end
  local ok, tree = pcall(canonical.decode, notes[NOTE])
  if not ok or type(tree) ~= 'table' then wrong(path, 'the tree of its modules is damaged') end
  if tree.format ~= FORMAT then
    wrong(path, 'its tree of modules has format %s, and %d is read', blame.show(tree.format),
      FORMAT)
  end
  local list = need(path, tree.modules, 'table', 'the list of modules')
  if #list == 0 then wrong(path, 'it has no module') end
  local modules = make_all(path, list)
  need_no_cycle(path, list)
  local filled, err = pcall(in_no_grad, function()
    for i, module in ipairs(modules) do fill_fields(path, module, list[i], modules) end
    for i, module in ipairs(modules) do
      fill_params(path, module, list[i], tensors)
      restore_masks(path, module)
    end
    for i = #modules, 1, -1 do fill_children(path, modules[i], list[i], modules) end
  end)
  if not filled then -- what a module says of itself knows of no file
    if not blame.is_error(err) or tostring(err.message):find(path, 1, true) then error(err, 0) end
    wrong(path, '%s', err.message)
  end
  for _, module in ipairs(modules) do
    local about, why = rawget(module, '_quant'), quant_fields.wrong(module)
    if why then wrong(path, '%s', why) end
    if about ~= nil then
      report.keep_evaluating(module)
      if about.method == 'half' then
        half.take_floats(module, about.dtype)
      end
    end
  end
  need_patterns(path, modules, list)
  return modules[1]
end

return M

-- SPDX-License-Identifier: MIT
--- Nets as quantization sees them: which layers they have, by which names, and copies of them in
--- which some layers are other ones.

local ffi = require 'ffi'
local blame = require 'ridge.blame'
local copy = require 'ridge.nn.copy'
local dense = require 'ridge.nn.dense'
local image = require 'ridge.nn.image'
local recurrent = require 'ridge.nn.recurrent'

local M = {}

M.Linear, M.Conv2d = dense.Linear, image.Conv2d

-- -- What can be quantized ------------------------------------------------------------------------

local function is_module(value)
  return type(value) == 'table' and type(rawget(value, 'children')) == 'table'
    and type(rawget(value, 'params')) == 'table' and getmetatable(value) ~= nil
end

M.is_module = is_module

local function class_of(module) return getmetatable(module).__name end

local function each(module, name, f, seen)
  if seen[module] then return end
  seen[module] = true
  f(module, name)
  local prefix = name == '' and '' or name .. '.'
  for _, c in ipairs(module.children) do each(c.module, prefix .. c.name, f, seen) end
end

--- Call f(module, name) for the net and every module below it, once each; the net's name is ''.
---@param net table
---@param f function
function M.each(net, f) each(net, '', f, {}) end

--- Raise unless it is a net in evaluation mode that nothing has quantized.
---@param net any
---@param what string the function's name, for errors
---@param training boolean|nil it may be in training mode
function M.need(net, what, training)
  if not is_module(net) then
    blame.raise(('%s: a net (module) is expected, got %s'):format(what, blame.show(net)), 'EARG')
  end
  M.each(net, function(module, name)
    local where = name == '' and 'the net' or name
    if module._quant then
      blame.raise(('%s: %s is quantized already (by quant.%s); begin with the net it was made from')
        :format(what, where, module._quant.method), 'EARG')
    end
    if module.training and not training then
      blame.raise(('%s: %s is in training mode, where batch statistics and dropout move what is '
        .. 'measured; call net:eval() first'):format(what, where), 'EARG')
    end
  end)
end

--- Why a module's product is not a call of its own: an LSTM reads the weight of what goes from
--- place to place.
local function read_by_parent(net)
  local found = {}
  M.each(net, function(module)
    if getmetatable(module) == recurrent.LSTM or getmetatable(module) == recurrent.GRU then
      for _, cell in ipairs(module.cells) do
        local name = class_of(module):gsub('^nn%.', '')
        found[cell.recurrent] = ('it multiplies the state of %s %s, which stays f32'):format(
          name == 'LSTM' and 'an' or 'a', name)
      end
    end
  end)
  return found
end

-- Has a module a matrix, or more, that is trained?
local function has_matrix(module)
  for _, p in ipairs(module.params) do
    if (p.trainable or p.frozen) and p.tensor.ndim >= 2 then return true end
  end
  return false
end

-- Why a layer that prune.compact made stays as it is, or nil: no sparse product is of bytes.
local function why_sparse(module)
  if class_of(module) ~= 'prune.SparseLinear' then return nil end
  return ('its weights are kept in %s, for which there are products in f32%s and none in fewer '
    .. 'bits: begin with the net that prune.compact was given, whose zeros become numbers of few '
    .. 'bits'):format(module.pattern or module.format, module.pattern and ' and bf16' or '')
end

--- The layers with weights, in order: {name, module, class, why}; why says that a layer cannot be
--- another one.
---@param net table
---@return table list
function M.layers(net)
  local list, reasons = {}, read_by_parent(net)
  M.each(net, function(module, name)
    local why = why_sparse(module)
    if why or has_matrix(module) then
      list[#list + 1] = { name = name == '' and class_of(module) or name, module = module,
        class = class_of(module), why = why or reasons[module] }
    end
  end)
  return list
end

--- Modules that hold a tensor which lies in the memory of another module's: what is written into
--- one of them changes the other.
---@param net table
---@return table shared module to true
function M.shared(net)
  local holder, shared = {}, {}
  M.each(net, function(module)
    for _, p in ipairs(module.params) do
      local key = tonumber(ffi.cast('intptr_t', ffi.cast('void *', p.tensor._t._storage)))
      local other = holder[key]
      if other and other ~= module then shared[module], shared[other] = true, true end
      holder[key] = other or module
    end
  end)
  return shared
end

-- -- Names that are left out ----------------------------------------------------------------------

local function check_name(name, known, what)
  for _, each_known in ipairs(known) do
    if each_known == name then return end
  end
  local near = blame.near(name, known)
  blame.raise(("%s: skip names %s, and there is no such module%s"):format(what, blame.show(name),
    near and (" (did you mean '%s'?)"):format(near) or ''), 'EARG')
end

--- What says whether a layer was named in skip, by itself or by a module that it is in.
---@param net table
---@param skip table|nil names
---@param what string the function's name, for errors
---@return function of a name
function M.skipped(net, skip, what)
  local known = {}
  M.each(net, function(module, name)
    known[#known + 1] = name == '' and class_of(module) or name
  end)
  for key in pairs(skip or {}) do
    if type(key) ~= 'number' then
      blame.raise(("%s: option skip is a list of names, and %s is no place in it"):format(what,
        blame.show(key)), 'EARG')
    end
  end
  for i = 1, #(skip or {}) do check_name(skip[i], known, what) end
  return function(name)
    for _, head in ipairs(skip or {}) do
      if name == head or name:sub(1, #head + 1) == head .. '.' then return true end
    end
    return false
  end
end

-- -- Exchanging ----------------------------------------------------------------------------------

local exchange

-- A field, or a list in a field, that holds a module which becomes another one.
local function exchange_table(t, map, seen)
  if seen[t] then return end
  seen[t] = true
  for key, value in pairs(t) do
    if map[value] then
      rawset(t, key, map[value])
    elseif type(value) == 'table' and not getmetatable(value) then
      exchange_table(value, map, seen)
    end
  end
end

function exchange(module, map, seen)
  if seen[module] then return end
  seen[module] = true
  for _, c in ipairs(module.children) do
    local standing = c.module
    if map[standing] and not c.net then c.module = map[standing] end
  end
  for key, value in pairs(module) do
    if map[value] then
      rawset(module, key, map[value])
    elseif key ~= 'children' and key ~= 'params' and type(value) == 'table'
      and not getmetatable(value) then
      exchange_table(value, map, seen)
    end
  end
  for _, c in ipairs(module.children) do exchange(c.module, map, seen) end
end

--- Let modules be other ones, in every field and child that holds them.
---@param net table
---@param map table module to module
---@return table net, or what stands for it
function M.exchange(net, map)
  if map[net] then return map[net] end
  local seen = {}
  for _, new in pairs(map) do seen[new] = true end -- it may hold what it stands for
  exchange(net, map, seen)
  return net
end

--- A copy of a net in evaluation mode that asks for no gradient, and where each module of the net
--- is in it.
---@param net table
---@return table made
---@return table twin module of the net to module of the copy
function M.copy(net)
  local made, twin = copy.clone(net), {}
  local function pair(a, b)
    if twin[a] then return end
    twin[a] = b
    for i, c in ipairs(a.children) do pair(c.module, b.children[i].module) end
  end
  pair(net, made)
  return made:eval():freeze(), twin
end

return M

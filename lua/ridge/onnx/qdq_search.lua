-- SPDX-License-Identifier: MIT
--- What stands between DequantizeLinear and QuantizeLinear (QDQ), as its nodes say it: bytes with a
--- scale, weights, biases, what is behind a product.
--
-- Scales stay tensors that are read at each call. What is worked out from weights and scales when
-- a file is loaded is worked out again where one of them was written to.

local C = require 'ridge.ffi.lib'
local no_grad = require('ridge.tensor.grad').no_grad
local outside = require 'ridge.onnx.outside'
local walk = require 'ridge.onnx.walk'

local M = {}

local BYTES = { u8 = true, i8 = true }
-- -- What is known of values ------------------------------------------------------------------

-- The nodes that make and read each value; an output of the file has one reader more.
function M.links(nodes, outputs)
  local makers, readers = {}, {}
  local function reads(name, n)
    readers[name] = readers[name] or {}
    table.insert(readers[name], n)
  end
  for _, n in ipairs(nodes) do
    for _, name in ipairs(n.reads) do reads(name, n) end
    for _, name in ipairs(n.outputs) do makers[name] = n end
  end
  for _, output in ipairs(outputs) do reads(output.name, false) end
  return makers, readers
end

local Search = {}
Search.__index = Search
M.Search = Search

-- The tensor of a name, where it is of the file.
function Search:tensor(name)
  local model = self.model
  return name and model.fixed[name] or model.held[name] and model[model.held[name]] or nil
end

-- What all numbers of a constant are; nil where they differ or may change; 0 where there is none.
function Search:number(name)
  if not name or name == '' then return 0 end
  local x = self.model.fixed[name]
  if not x or x.count == 0 then return nil end
  local list = outside.numbers(x)
  for i = 2, #list do
    if list[i] ~= list[1] then return nil end
  end
  return list[1]
end

-- A scale in f32: its name, where it has so many numbers or one.
function Search:scale(name, count)
  local x = self:tensor(name)
  if not x or x.dtype ~= 'f32' then return nil end
  return (x.count == 1 or count and x.count == count and x.ndim == 1) and x or nil
end

-- An attribute, or what stands for it where it is left out; nil where it is of another type: that
-- is said when the node is computed.
local function attribute(n, name, kind, default)
  local a = n.attributes[name]
  if not a then return default end
  return a.type == kind and (kind == 'ints' and a.value or tonumber(a.value)) or nil
end

M.attribute = attribute

local function is_plain(n)
  local code = attribute(n, 'output_dtype', 'int', 0)
  return n.domain == '' and attribute(n, 'block_size', 'int', 0) == 0
    and (code == 0 or n.op == 'DequantizeLinear' and code == 1)
end

-- Do the numbers of a scale stand along an axis of so many?
local function is_along(n, axis, rank)
  local at = attribute(n, 'axis', 'int', 1)
  return at == axis - 1 or at == axis - 1 - rank
end

-- The bytes that a value is made of with one scale: { x, scale, zero, dtype, node }.
function Search:bytes(name)
  local n = self.makers[name]
  if not n or n.op ~= 'DequantizeLinear' or not is_plain(n) then return nil end
  local zero = n.inputs[3]
  local tensor = zero and zero ~= '' and self.model.fixed[zero]
  local value = tensor and tensor.count == 1 and self:number(zero)
  local scale = self:scale(n.inputs[2])
  if not value or not BYTES[tensor.dtype] or not scale or scale.count ~= 1 then return nil end
  return { x = n.inputs[1], scale = n.inputs[2], zero = value, dtype = tensor.dtype, node = n }
end

-- The node that alone reads a value, where it is of that kind.
function Search:only(name, op)
  local list = self.readers[name] or {}
  local n = #list == 1 and list[1]
  return n and n.op == op and n.domain == '' and n or nil
end

-- -- What is worked out ------------------------------------------------------------------------

local function version_of(x) return tonumber(C.rg_tensor_version(x._t)) end

-- A function of tensors that is called again where they are others, or were written to.
local function derived(f)
  local of, versions, value = {}, {}, nil
  return function(...)
    local same = value ~= nil
    for i = 1, select('#', ...) do
      local x = select(i, ...)
      same = same and of[i] == x and versions[i] == version_of(x)
    end
    if same then return value end
    of = { ... }
    for i, x in ipairs(of) do versions[i] = version_of(x) end
    value = outside.call(no_grad, f, ...)
    return value
  end
end

-- Weights that stay as they are are packed once.
local function marked(x)
  C.rg_tensor_set_param(x._t, 1)
  return x
end

M.marked = marked

-- A weight of bytes around other numbers than 0, or of u8, as i8 around 0; none where a difference
-- is no number of i8.
local function around_zero(axis)
  local kept = derived(function(w, zero)
    local x = w:to 'i32'
    if zero then
      local shape = {}
      for i = 1, w.ndim do shape[i] = i == axis and zero.count or 1 end
      x = x - zero:to('i32'):reshape(zero.count == 1 and {} or shape)
    end
    if x.count == 0 or x:min():item() < -128 or x:max():item() > 127 then return {} end
    return { weight = marked(x:to 'i8') }
  end)
  return function(w, zero)
    if zero == nil then return kept(w) end
    return kept(w, zero)
  end
end

-- The weight that a value is made of, with a scale for each place of an axis: { name, scale, zero
-- (of its own: the name), tensor, rows, node, shifted(w, zero) }.
function Search:weight(name, axis_of)
  local n = self.makers[name]
  if not n or n.op ~= 'DequantizeLinear' or not is_plain(n) then return nil end
  local w = self:tensor(n.inputs[1])
  if not w or not BYTES[w.dtype] or w.ndim < 2 then return nil end
  local axis = axis_of(w)
  local found = { name = n.inputs[1], scale = n.inputs[2], zero = '', tensor = w,
    rows = w.shape[axis], node = n }
  local scale = self:scale(found.scale, found.rows)
  if not scale or scale.count > 1 and not is_along(n, axis, w.ndim) then return nil end
  if w.dtype == 'i8' and self:number(n.inputs[3]) == 0 then return found end
  found.zero = n.inputs[3] or ''
  local zero = found.zero ~= '' and self:tensor(found.zero) or nil
  if found.zero ~= '' and not (zero and zero.dtype == w.dtype and (zero.count == 1
    or zero.ndim == 1 and zero.count == found.rows and is_along(n, axis, w.ndim))) then
    return nil
  end
  found.shifted = around_zero(axis)
  return found.shifted(w, zero).weight and found or nil
end

function M.by_rows()
  local kept = derived(function(w) return marked(w:t():contiguous()) end)
  return function(w) -- a plan derives its own, and remakes it
    return outside.is_captured() and w:t():contiguous() or kept(w)
  end
end

-- Are scales of bytes one number?
function M.same()
  return derived(function(a, b)
    return { yes = a:reshape(-1):equal(b:reshape(-1)) }
  end)
end

local LARGEST = 255 * 128 -- product of bytes

-- Is a bias in whole numbers in units of both scales, and fits into i32 with a sum of so many
-- products? Then it is added to the sums.
function M.in_units(products)
  return derived(function(scale, x_scale, w_scale, b)
    local both = (w_scale:to 'f64' * x_scale:to('f64'):reshape(1)):to 'f32':reshape(-1)
    return { yes = scale:reshape(-1):equal(both)
      and b:to('f64'):abs():max():item() + products * LARGEST < 2 ^ 31 }
  end)
end

-- -- Nodes -------------------------------------------------------------------------------------

-- A bias: the name of a tensor for each output; of whole numbers with their scale, or of floats.
function Search:bias(name, rows)
  if not name or name == '' then return { name = '', scale = '' } end
  local n = self.makers[name]
  if n and n.op == 'DequantizeLinear' and is_plain(n) then
    local b = self:tensor(n.inputs[1])
    local scale = self:scale(n.inputs[2], rows)
    if b and b.dtype == 'i32' and b.ndim == 1 and b.count == rows and scale
      and self:number(n.inputs[3]) == 0 and (scale.count == 1 or is_along(n, 1, 1)) then
      return { name = n.inputs[1], scale = n.inputs[2], node = n }
    end
  end
  local b = self:tensor(name)
  if not b or b.dtype ~= 'f32' or b.ndim ~= 1 or b.count ~= rows then return nil end
  return { name = name, scale = '' }
end

-- What is behind a product: an activation, and bytes again. Gives the name of the last value.
function Search:behind(name, gone, found, parts)
  local relu = self:only(name, 'Relu')
  if relu then
    gone[relu], found.act, name = true, 'relu', relu.outputs[1]
    table.insert(parts, relu)
  end
  local q = self:only(name, 'QuantizeLinear')
  local zero = q and q.inputs[3]
  if not q or q.inputs[1] ~= name or not is_plain(q) then return name end
  local scale, tensor = self:scale(q.inputs[2]), zero and zero ~= '' and self.model.fixed[zero]
  if not scale or scale.count ~= 1 or zero and zero ~= '' and not (tensor and tensor.count == 1
    and BYTES[tensor.dtype]) then
    return name
  end
  gone[q], found.y_scale, found.y_zero = true, q.inputs[2], self:number(zero)
  found.dtype = tensor and tensor.dtype or 'u8'
  table.insert(parts, q)
  return q.outputs[1]
end

-- A node in the place of those that are gone.
function M.node(n, inputs, output, run)
  local made = setmetatable({}, getmetatable(n))
  for key, value in pairs(n) do made[key] = value end
  made.inputs, made.outputs, made.entry, made.reads = inputs, { output }, run, {}
  for _, name in ipairs(inputs) do
    if name ~= '' then table.insert(made.reads, name) end
  end
  return made
end

-- What nodes give one by one, where what stands in their place cannot: the last value of them.
local function one_by_one(fixed, parts, own, values)
  local env, known = setmetatable({}, { __index = fixed }), {}
  for i, name in ipairs(own.inputs) do
    if name ~= '' then env[name] = own.given and own.given[i] or values[i] end
  end
  setmetatable(known, { __index = function(_, name)
    return fixed[name] ~= nil or own.known and own.known[name]
  end })
  walk.walk(parts, env, known)
  return env[own.outputs[1]]
end

--- A node in the place of several: what it computes, or what they do where that gives nothing.
---@param n table the node whose attributes it has
---@param inputs string[]
---@param parts table the nodes, in their order
---@param fixed table constants of the model
---@param run function(own, ...)
---@return table
function M.either(n, inputs, parts, fixed, run)
  local last = parts[#parts].outputs[1]
  local function entry(own, ...)
    local y = run(own, ...)
    if y ~= nil then return y end
    return one_by_one(fixed, parts, own, { ... })
  end
  local of = n.entry
  return M.node(n, inputs, last, type(of) == 'table' and { run = entry, reads = of.reads } or entry)
end

return M

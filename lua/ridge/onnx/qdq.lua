-- SPDX-License-Identifier: MIT
--- DequantizeLinear -> Conv, Gemm, MatMul or Add -> QuantizeLinear (QDQ) as one product or sum of
--- bytes: what ridge.quant writes in this form, and other programs do, is whole numbers again.
--- Sums are exact, in i32; what is rounded behind them may be one step from what the nodes give one
--- by one, which round in f32 at each.
--
-- Scales stay tensors that are read at each call. What is worked out from weights and scales when
-- a file is loaded is worked out again where one of them was written to.

local C = require 'ridge.ffi.lib'
local kit = require 'ridge.onnx.ops.kit'
local no_grad = require('ridge.tensor.grad').no_grad
local outside = require 'ridge.onnx.outside'
local window = require 'ridge.onnx.ops.window'

local M = {}

local BYTES = { u8 = true, i8 = true }
local MOST = 65793 -- products of bytes whose sum fits into i32

-- -- What is known of values ------------------------------------------------------------------

-- The nodes that make and read each value; an output of the file has one reader more.
local function links(nodes, outputs)
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

-- The bytes that a value is made of with one scale: { x, scale, zero }.
function Search:bytes(name)
  local n = self.makers[name]
  if not n or n.op ~= 'DequantizeLinear' or not is_plain(n) then return nil end
  local zero = n.inputs[3]
  local tensor = zero and zero ~= '' and self.model.fixed[zero]
  local value = tensor and tensor.count == 1 and self:number(zero)
  local scale = self:scale(n.inputs[2])
  if not value or not BYTES[tensor.dtype] or not scale or scale.count ~= 1 then return nil end
  return { x = n.inputs[1], scale = n.inputs[2], zero = value }
end

-- The weight that a value is made of, in i8 around 0, with a scale for each place of an axis.
function Search:weight(name, axis_of)
  local n = self.makers[name]
  if not n or n.op ~= 'DequantizeLinear' or not is_plain(n) then return nil end
  local w = self:tensor(n.inputs[1])
  if not w or w.dtype ~= 'i8' or w.ndim < 2 or self:number(n.inputs[3]) ~= 0 then return nil end
  local axis = axis_of(w)
  local scale = self:scale(n.inputs[2], w.shape[axis])
  if not scale then return nil end
  if scale.count > 1 and not is_along(n, axis, w.ndim) then return nil end
  return { name = n.inputs[1], scale = n.inputs[2], tensor = w, rows = w.shape[axis] }
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

local function by_rows()
  local kept = derived(function(w) return marked(w:t():contiguous()) end)
  return function(w) -- a plan derives its own, and remakes it
    return outside.is_captured() and w:t():contiguous() or kept(w)
  end
end

-- Is a bias in whole numbers in units of both scales? Then it is added to the sums.
local function in_units()
  return derived(function(scale, x_scale, w_scale)
    local both = (w_scale:to 'f64' * x_scale:to('f64'):reshape(1)):to 'f32':reshape(-1)
    return scale:reshape(-1):equal(both) and { yes = true } or { yes = false }
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
      return { name = n.inputs[1], scale = n.inputs[2] }
    end
  end
  local b = self:tensor(name)
  if not b or b.dtype ~= 'f32' or b.ndim ~= 1 or b.count ~= rows then return nil end
  return { name = name, scale = '' }
end

-- What is behind a product: an activation, and bytes again. Gives the name of the last value.
function Search:behind(name, gone, found)
  local relu = self:only(name, 'Relu')
  if relu then
    gone[relu], found.act, name = true, 'relu', relu.outputs[1]
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
  return q.outputs[1]
end

-- A node in the place of those that are gone.
local function node(n, inputs, output, run)
  local made = setmetatable({}, getmetatable(n))
  for key, value in pairs(n) do made[key] = value end
  made.inputs, made.outputs, made.entry, made.reads = inputs, { output }, run, {}
  for _, name in ipairs(inputs) do
    if name ~= '' then table.insert(made.reads, name) end
  end
  return made
end

-- The options of a product of bytes, the bias that it takes, as its inputs are.
local function ends(found)
  local fits = in_units()
  return function(opts, x_scale, w_scale, b, b_scale, y_scale)
    opts.activation, opts.x_zero = found.act, found.x.zero
    if b_scale and not fits(b_scale, x_scale, w_scale).yes then
      b = b:to 'f32' * b_scale
    end
    opts.bias, opts.dtype = b, found.dtype or 'f32'
    opts.y_scale, opts.y_zero = y_scale, y_scale and found.y_zero or nil
    return opts
  end
end

function Search:product(n, found, w, bias, name, gone, run)
  local last = self:behind(name, gone, found)
  local inputs = { found.x.x, w.name, found.x.scale, w.scale, bias.name, bias.scale,
    found.y_scale or '' }
  return node(n, inputs, last, run(ends(found)))
end

local ridge -- what is loaded when a file is

local function vector(scale) return scale.count == 1 and scale:reshape(1) or scale end

local KINDS = {}

function KINDS.Conv(search, n, gone)
  local x = search:bytes(n.inputs[1])
  local w = x and search:weight(n.inputs[2], function() return 1 end)
  if not w or w.tensor.ndim ~= 4 or w.tensor.count / w.rows > MOST then return nil end
  local bias = search:bias(n.inputs[3], w.rows)
  if not bias then return nil end
  local pads = attribute(n, 'pads', 'ints', {})
  if not pads then return nil end
  for i = 1, #pads do
    if pads[i] < 0 then return nil end
  end
  marked(w.tensor)
  return search:product(n, { x = x, act = 'none' }, w, bias, n.outputs[1], gone, function(options)
    return function(own, bytes, weight, x_scale, w_scale, ...)
      local strides = window.each(own, 'strides', 2, 1)
      local dilations = window.each(own, 'dilations', 2, 1)
      local before, after = window.padding(own, window.spatial(bytes), window.spatial(weight),
        strides, dilations)
      return ridge.scaled_conv2d(bytes, weight, vector(x_scale), vector(w_scale), options({
        stride = strides, dilation = dilations, groups = own:int('group', 1),
        padding = { before[1], before[2], after[1], after[2] } }, x_scale, w_scale, ...))
    end
  end)
end

-- A product of rows; by_columns: the weight has a column for each output.
local function dense(search, n, gone, by_columns, bias_name, name)
  local x = search:bytes(n.inputs[1])
  local w = x and search:weight(n.inputs[2], function(t) return by_columns and t.ndim or 1 end)
  if not w or w.tensor.ndim ~= 2 or w.tensor.count / w.rows > MOST then return nil end
  local bias = search:bias(bias_name, w.rows)
  if not bias then return nil end
  local transpose = by_columns and by_rows()
  if not by_columns then marked(w.tensor) end
  return search:product(n, { x = x, act = 'none' }, w, bias, name, gone, function(options)
    return function(_, bytes, weight, x_scale, w_scale, ...)
      return ridge.scaled_linear(bytes, transpose and transpose(weight) or weight, vector(x_scale),
        vector(w_scale), options({}, x_scale, w_scale, ...))
    end
  end)
end

function KINDS.Gemm(search, n, gone)
  local has_bias = (n.inputs[3] or '') ~= ''
  local turns = attribute(n, 'transB', 'int', 0)
  if attribute(n, 'transA', 'int', 0) ~= 0 or attribute(n, 'alpha', 'float', 1) ~= 1 or not turns
    or has_bias and attribute(n, 'beta', 'float', 1) ~= 1 then
    return nil
  end
  return dense(search, n, gone, turns ~= 1, n.inputs[3], n.outputs[1])
end

function KINDS.MatMul(search, n, gone)
  local name = n.outputs[1]
  local add = search:only(name, 'Add')
  if add then
    local other = add.inputs[1] == name and add.inputs[2] or add.inputs[1]
    local trial = { [add] = true }
    local made = dense(search, n, trial, true, other, add.outputs[1])
    if made then
      for each in pairs(trial) do gone[each] = true end
      return made
    end
  end
  return dense(search, n, gone, true, nil, name)
end

function KINDS.Add(search, n, gone)
  local a, b = search:bytes(n.inputs[1]), search:bytes(n.inputs[2])
  local found, trial = { act = 'none' }, {}
  local last = a and b and search:behind(n.outputs[1], trial, found)
  if not last or not found.dtype then return nil end
  for each in pairs(trial) do gone[each] = true end
  return node(n, { a.x, a.scale, b.x, b.scale, found.y_scale }, last,
    function(_, x, x_scale, y, y_scale, scale)
      local opts = { activation = found.act, dtype = found.dtype, y_scale = scale:reshape(1),
        y_zero = found.y_zero, a_zero = a.zero, b_zero = b.zero }
      local shape = kit.broadcast(n, x.shape, y.shape)
      return ridge.scaled_add(x:expand(shape):contiguous(), y:expand(shape):contiguous(),
        x_scale:reshape(1), y_scale:reshape(1), opts)
    end)
end

-- Conversions that nobody reads any more.
local function read(nodes, outputs)
  local wanted, list = {}, {}
  for _, output in ipairs(outputs) do wanted[output.name] = true end
  for i = #nodes, 1, -1 do
    local n, used = nodes[i], nodes[i].op ~= 'DequantizeLinear'
    for _, name in ipairs(n.outputs) do used = used or wanted[name] end
    if used then
      table.insert(list, 1, n)
      for _, name in ipairs(n.reads) do wanted[name] = true end
    end
  end
  return list
end

--- The nodes of a model with products and sums of bytes where it has them in f32 between
--- conversions.
---@param model table of load: fixed, held, the tensors of the file
---@param nodes table
---@param outputs table
---@return table|nil nodes nil where there is nothing of that kind
function M.fused(model, nodes, outputs)
  local search = setmetatable({ model = model }, Search)
  search.makers, search.readers = links(nodes, outputs)
  ridge = require 'ridge'
  local gone, list, found = {}, {}, false
  for _, n in ipairs(nodes) do
    if not gone[n] then
      local kind = n.domain == '' and not n.graphs and KINDS[n.op]
      local made = kind and kind(search, n, gone)
      found = found or made
      list[#list + 1] = made or node(n, n.inputs, n.outputs[1], n.entry)
      if not made then list[#list].outputs, list[#list].reads = n.outputs, n.reads end
    end
  end
  return found and read(list, outputs) or nil
end

return M

-- SPDX-License-Identifier: MIT
--- DequantizeLinear -> Conv, Gemm, MatMul or Add -> QuantizeLinear (QDQ) as one product or sum of
--- bytes: what ridge.quant writes in this form, and other programs do, is whole numbers again.
--- Sums are exact, in i32; what is rounded behind them may be one step from what the nodes give one
--- by one, which round in f32 at each.
--
-- Scales stay tensors that are read at each call. What is worked out from weights and scales when
-- a file is loaded is worked out again where one of them was written to.

local moves = require 'ridge.onnx.qdq_moves'
local kit = require 'ridge.onnx.ops.kit'
local qdq = require 'ridge.onnx.qdq_search'
local window = require 'ridge.onnx.ops.window'

local M = {}

local MOST = 65793 -- products of bytes whose sum fits into i32

local Search, attribute, node = qdq.Search, qdq.attribute, qdq.node

-- The options of a product of bytes, the bias that it takes, as its inputs are.
local function ends(found)
  local fits = qdq.in_units(found.products)
  return function(opts, x_scale, w_scale, b, b_scale, y_scale)
    opts.activation, opts.x_zero = found.act, found.x.zero
    if b_scale and not fits(b_scale, x_scale, w_scale, b).yes then
      b = b:to 'f32' * b_scale
    end
    opts.bias, opts.dtype = b, found.dtype or 'f32'
    opts.y_scale, opts.y_zero = y_scale, y_scale and found.y_zero or nil
    return opts
  end
end

-- parts: nodes behind the product that are part of it
function Search:product(n, found, w, bias, name, gone, parts, run)
  for _, each in ipairs { found.x.node, w.node, bias.node } do table.insert(parts, 1, each) end
  self:behind(name, gone, found, parts)
  local inputs = { found.x.x, w.name, found.x.scale, w.scale, bias.name, bias.scale,
    found.y_scale or '', w.zero }
  found.products = w.tensor.count / w.rows
  local compute, shifted = run(ends(found)), w.shifted
  return qdq.either(n, inputs, parts, self.model.fixed,
    function(own, x, weight, x_scale, w_scale, b, b_scale, y_scale, zero)
      if shifted then weight = shifted(weight, zero).weight end
      return weight and compute(own, x, weight, x_scale, w_scale, b, b_scale, y_scale)
    end)
end

local ridge -- what is loaded when a file is

local KINDS = {}

-- How a convolution lies, which follows from the sizes of its image.
local function options_of(n, bytes, weight)
  local strides, dilations = window.each(n, 'strides', 2, 1), window.each(n, 'dilations', 2, 1)
  local before, after = window.padding(n, window.spatial(bytes), window.spatial(weight), strides,
    dilations)
  return { stride = strides, dilation = dilations, groups = n:int('group', 1),
    padding = { before[1], before[2], after[1], after[2] } }
end

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
  if not w.shifted then qdq.marked(w.tensor) end
  return search:product(n, { x = x, act = 'none' }, w, bias, n.outputs[1], gone, { n },
    function(options)
    local opts, seen, kernel = nil, nil, nil
    return function(own, bytes, weight, x_scale, w_scale, ...)
      local shape = bytes.shape
      if not opts or shape[3] ~= seen[3] or shape[4] ~= seen[4] or weight ~= kernel then
        opts, seen, kernel = options_of(own, bytes, weight), shape, weight
      end
      return ridge.scaled_conv2d(bytes, weight, x_scale, w_scale,
        options(opts, x_scale, w_scale, ...))
    end
  end)
end

-- A product of rows; by_columns: the weight has a column for each output.
local function dense(search, n, gone, by_columns, bias_name, name, parts)
  local x = search:bytes(n.inputs[1])
  local w = x and search:weight(n.inputs[2], function(t) return by_columns and t.ndim or 1 end)
  if not w or w.tensor.ndim ~= 2 or w.tensor.count / w.rows > MOST then return nil end
  local bias = search:bias(bias_name, w.rows)
  if not bias then return nil end
  local transpose = by_columns and qdq.by_rows()
  if not by_columns and not w.shifted then qdq.marked(w.tensor) end
  return search:product(n, { x = x, act = 'none' }, w, bias, name, gone, parts, function(options)
    local opts = {}
    return function(_, bytes, weight, x_scale, w_scale, ...)
      return ridge.scaled_linear(bytes, transpose and transpose(weight) or weight, x_scale, w_scale,
        options(opts, x_scale, w_scale, ...))
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
  return dense(search, n, gone, turns ~= 1, n.inputs[3], n.outputs[1], { n })
end

function KINDS.MatMul(search, n, gone)
  local name = n.outputs[1]
  local add = search:only(name, 'Add')
  if add then
    local other = add.inputs[1] == name and add.inputs[2] or add.inputs[1]
    local trial = { [add] = true }
    local made = dense(search, n, trial, true, other, add.outputs[1], { n, add })
    if made then
      for each in pairs(trial) do gone[each] = true end
      return made
    end
  end
  return dense(search, n, gone, true, nil, name, { n })
end

function KINDS.Add(search, n, gone)
  local a, b = search:bytes(n.inputs[1]), search:bytes(n.inputs[2])
  local found, trial = { act = 'none' }, {}
  local last = a and b and search:behind(n.outputs[1], trial, found, {})
  if not last or not found.dtype then return nil end
  for each in pairs(trial) do gone[each] = true end
  return node(n, { a.x, a.scale, b.x, b.scale, found.y_scale }, last,
    function(_, x, x_scale, y, y_scale, scale)
      local opts = { activation = found.act, dtype = found.dtype, y_scale = scale,
        y_zero = found.y_zero, a_zero = a.zero, b_zero = b.zero }
      local shape = kit.broadcast(n, x.shape, y.shape)
      return ridge.scaled_add(x:expand(shape):contiguous(), y:expand(shape):contiguous(),
        x_scale, y_scale, opts)
    end)
end

for name, kind in pairs(moves) do KINDS[name] = kind end

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
  search.makers, search.readers = qdq.links(nodes, outputs)
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

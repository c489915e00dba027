-- SPDX-License-Identifier: MIT
--- ridge.onnx.load(path): an ONNX file as a module.

local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local class = require 'ridge.nn'.class
local draw = require 'ridge.onnx.draw'
local dtype = require 'ridge.tensor.dtype'
local file = require 'ridge.onnx.file'
local guard = require 'ridge.guard'
local grad = require 'ridge.tensor.grad'
local Module = require 'ridge.nn.module'
local node = require 'ridge.onnx.node'
local options = require 'ridge.options'
local outside = require 'ridge.onnx.outside'
local prepare = require 'ridge.onnx.prepare'
local qdq = require 'ridge.onnx.qdq'
local ref = require 'ridge.ffi.ref'
local walk = require 'ridge.onnx.walk'

local M = {}

local OPTIONS = {
  bytes = { 'boolean', default = true, doc = 'products and sums between DequantizeLinear and '
    .. 'QuantizeLinear are computed in whole numbers; false: node by node, in f32' },
  values = { 'table', doc = 'inputs that stay the same, tensors by name: they are no arguments' },
}

local Model = class 'onnx.Model'
Model.marks_weights = true -- packed copies of them are kept, as layers do: other bits

-- -- Initializers -------------------------------------------------------------------------------

-- A name for what a module holds.
local function field_of(self, name)
  local field = name:gsub('[^%w_]', '_')
  if not field:match '^[%a_]' then field = '_' .. field end
  local own, n = field, self._alike[field] or 1
  while self.fields[own] or Model[own] ~= nil or rawget(self, own) ~= nil do
    n = n + 1
    own = field .. '_' .. n
  end
  self.fields[own], self._alike[field] = name, n
  return own
end

-- Running statistics are written by nobody who trains.
local function statistics_of(nodes)
  local set = {}
  for _, n in ipairs(nodes) do
    if n.op == 'BatchNormalization' then
      for i = 4, 5 do set[n.inputs[i] or ''] = true end
    end
  end
  return set
end

local FEW = 1024 -- whole numbers that are constants: positions, zero points

-- Bounds of ReLU6, which files have as a Clip from 0 to 6: no parameters, whose numbers may change.
local function bounds_of(graph)
  local by_name, set = {}, {}
  for _, t in ipairs(graph.initializers) do by_name[t.name] = t end
  local function is(name, number)
    local x = name and by_name[name] and file.tensor(by_name[name])
    return x and x.count == 1 and x:item() == number
  end
  for _, n in ipairs(graph.nodes) do
    if n.op == 'Clip' and is(n.inputs[2], 0) and is(n.inputs[3], 6) then
      set[n.inputs[2]], set[n.inputs[3]] = true, true
    end
  end
  return set
end

-- Initializers become parameters where they are real numbers, buffers where they are many whole
-- ones; what says a shape or an axis is a constant.
local function hold(self, graph, demanded)
  local statistics, bounds = statistics_of(graph.nodes), bounds_of(graph)
  for _, t in ipairs(graph.initializers) do
    call.look 'onnx.load'
    if self.values[t.name] == nil then
      local x = file.tensor(t)
      local float = dtype.kind[x.dtype] == 'float'
      if self.asked[t.name] or demanded[t.name] and (not float or x.ndim <= 1)
        or bounds[t.name] or not float and x.count <= FEW then
        self.fixed[t.name] = x
      else
        local name = field_of(self, t.name)
        if float and not statistics[t.name] then
          self:param(name, x)
        else
          self:buffer(name, x)
        end
        self.held[t.name] = name
      end
    end
  end
end

-- The error of a node says which one it was; what Lua says of a mistake in a file is none.
local function placed(err)
  local n = walk.at
  walk.at = nil
  if n and guard.is_of_lua(err) then
    return blame.object(('%s: its inputs and attributes do not fit each other in opset %d'):format(
      n:label(), n.opset), 'EFORMAT', n.op)
  end
  if n and blame.is_error(err) and not err.message:find(n:label(), 1, true) then
    local first, rest = err.message:match '^([^\n]*)(.*)$'
    err.message = ('%s (%s)%s'):format(first, n:label(), rest)
  end
  return err
end

-- -- Constants ----------------------------------------------------------------------------------

-- A few bytes of a file can ask for any number of gigabytes (a constant of some shape, Expand,
-- Tile, a product of a row and a column). What is computed when a file is loaded may take so much
-- of memory: types grow eightfold at most, from bytes to f64, and small files need some room.
local ROOM, TIMES = 2 ^ 26, 8

local function budget_of(model)
  local bytes = model.bytes or 0 -- of the file; none where a model was made here
  for _, t in ipairs(model.graph.initializers) do
    bytes = bytes + (t.external and t.external.bytes or t.value and t.value.bytes or 0)
  end
  return ROOM + TIMES * bytes
end

-- A node computed under a budget. Returns what is left of it, and whether the node was computed.
local function compute(n, env, known, budget)
  local before = C.rg_memory_budget(budget)
  local ok, err = pcall(walk.walk, { n }, env, known)
  local left = tonumber(C.rg_memory_budget(before))
  if ok then return left, true end
  if not (blame.is_error(err) and err.code == 'ENOMEM') then error(placed(err), 0) end
  walk.at = nil
  return budget, false
end

-- Nodes of constants alone are computed now; the others stay, and so do those that take too much.
local function fold(self, nodes, budget)
  local env, known, rest = setmetatable({}, { __index = self.fixed }), {}, {}
  for name in pairs(self.fixed) do known[name] = true end
  for _, n in ipairs(nodes) do
    local constant = not (type(n.entry) == 'table' and n.entry.draws)
    for _, name in ipairs(n.reads) do constant = constant and known[name] end
    if constant then budget, constant = compute(n, env, known, budget) end
    if constant then
      for _, name in ipairs(n.outputs) do self.fixed[name] = env[name] end
    else
      rest[#rest + 1] = n
    end
  end
  return rest
end

-- Constants that nobody reads any more go.
local function sweep(self, nodes, outputs)
  local read = {}
  for _, n in ipairs(nodes) do
    for _, name in ipairs(n.reads) do read[name] = true end
  end
  for _, output in ipairs(outputs) do read[output.name] = true end
  for name in pairs(self.fixed) do
    if not read[name] then self.fixed[name] = nil end
  end
end

-- -- The module ---------------------------------------------------------------------------------

-- The inputs that are arguments: those of the file without initializers and without given values.
local function inputs_of(self, graph)
  local initialized, list = {}, {}
  for _, t in ipairs(graph.initializers) do initialized[t.name] = true end
  for _, input in ipairs(graph.inputs) do
    if not initialized[input.name] and self.values[input.name] == nil then
      list[#list + 1] = input
    end
  end
  return list
end

-- Inputs and outputs of types that no tensor has are refused by name.
local NEVER = { string = true, complex64 = true, complex128 = true, sequence = true, map = true,
  optional = true, opaque = true }

local function check_types(what, graph)
  for kind, list in pairs { input = graph.inputs, output = graph.outputs } do
    for _, value in ipairs(list) do
      if NEVER[value.type] then
        blame.raise(("%s: %s '%s' is of type %s, which ridge has not"):format(what, kind,
          node.told(value.name), value.type), 'ENOSUP', 'onnx.load')
      end
    end
  end
end

-- What the file says of an input, against what was given; a net of another type takes that.
local function check(input, x, what, float)
  ref.need(x, what)
  if input.type == 'bool' and x.dtype == 'u8' then x = x:ne(0) end
  local kind = float and dtype.kind[input.type] == 'float' and float or input.type
  if dtype.kind[kind] and x.dtype ~= kind then
    blame.raise(('%s: it is %s, got %s'):format(what, kind, x:describe()), 'EDTYPE')
  end
  local shape, sizes = input.shape, x.shape
  local fits = not shape or #shape == #sizes
  for axis = 1, fits and shape and #shape or 0 do
    local size = shape[axis]
    fits = fits and (type(size) ~= 'number' or size == sizes[axis])
  end
  if not fits then
    local list = {}
    for axis, size in ipairs(shape) do
      list[axis] = size and node.told(tostring(size)) or '?'
    end
    blame.raise(('%s: it is %s[%s], got %s'):format(what, kind or 'any', table.concat(list, ','),
      x:describe()), 'ESHAPE')
  end
  return x
end

-- Given values are inputs of the file.
local function values_of(self, graph, given)
  local names, by_name = {}, {}
  for i, input in ipairs(graph.inputs) do
    names[i], by_name[input.name] = node.told(input.name), input
  end
  for name, x in pairs(given or {}) do
    if not by_name[name] then
      local near = blame.near(name, names)
      blame.raise(('onnx.load: values has %s, and the inputs are %s%s'):format(blame.show(name),
        table.concat(names, ', '), near and (" (did you mean '%s'?)"):format(near) or ''))
    end
    self.values[name] = check(by_name[name], x, 'onnx.load: values.' .. name)
    self.fixed[name] = self.values[name]
  end
end

-- What each call asks for, in lists: loops over them are compiled, walks over names are not.
local function note(self)
  local known, weights, told = {}, {}, {}
  for name in pairs(self.fixed) do known[name] = true end
  for name, field in pairs(self.held) do weights[#weights + 1] = { name, field } end
  for i, input in ipairs(self.inputs) do
    told[i] = ("%s: input %d, '%s'"):format(self.what, i, node.told(input.name))
  end
  self._calls = { known = { __index = known }, weights = weights, told = told }
end

function Model:init(model, what, given, bytes)
  local graph = prepare.model(model, what)
  check_types(what, graph)
  self.what, self.opset = what, model.opset
  self.fields, self.held, self.fixed, self.values = {}, {}, {}, {}
  self._alike = {} -- by field: the last number behind it
  self._calls = {} -- what each call asks for (note)
  local demanded
  demanded, self.asked = walk.demanded(graph.nodes)
  values_of(self, graph, given)
  self.inputs, self.outputs = inputs_of(self, graph), graph.outputs
  hold(self, graph, demanded)
  self.read_inputs = {}
  for i, input in ipairs(self.inputs) do
    local whole = dtype.kind[input.type] ~= 'float' -- what is computed of others is data
    self.read_inputs[i] = (self.asked[input.name] or demanded[input.name] and whole) and true
      or false
  end
  self.nodes = fold(self, graph.nodes, budget_of(model))
  sweep(self, self.nodes, self.outputs)
  note(self)
  self.in_bytes = bytes and qdq.fused(self, self.nodes, self.outputs) or nil
  for _, nodes in ipairs { self.nodes, self.in_bytes } do walk.last_uses(nodes, self.outputs) end
  self:eval()
end

-- The nodes to run: in whole numbers, through which no gradient goes, where nobody trains or asks
-- for one, and nothing is of another type or elsewhere.
local function nodes_for(self, ...)
  if not self.in_bytes or self.training or self.float_type then return self.nodes end
  local recording = grad.recording()
  for i = 1, select('#', ...) do
    local x = select(i, ...)
    if x.device ~= 'cpu' or recording and x.requires_grad then return self.nodes end
  end
  return self.in_bytes
end

local function run(self, nodes, env, known)
  walk.walk(nodes, env, known)
  local results = {}
  for i, output in ipairs(self.outputs) do
    local x = env[output.name]
    local constant = x ~= nil and rawequal(x, self.fixed[output.name])
    results[i] = constant and x:clone() or x -- who writes into it changes no constant
  end
  return results
end

--- Convert or move the module, constants with it (nn.Module:to). What is of real numbers in the
--- file is of the other type then: inputs, and what it makes of whole numbers.
---@param name string 'f32', 'bf16', 'cpu', 'cuda:0' ...
---@param made table|nil what was converted already
---@return table self
function Model:to(name, made)
  local device = dtype.is_device(name)
  for key, x in pairs(self.fixed) do
    if device or dtype.kind[x.dtype] == 'float' and not self.asked[key] then
      self.fixed[key] = grad.no_grad(x.to, x, name)
    end
  end
  Module.to(self, name, made)
  if not device then self.float_type = name end
  return self
end

--- Compute the file's outputs.
---@param ... Tensor its inputs, in order
---@return Tensor ... all outputs
function Model:forward(...)
  local n = select('#', ...)
  if n ~= #self.inputs then
    local names = {}
    for i, input in ipairs(self.inputs) do names[i] = node.told(input.name) end
    blame.raise(('%s: it takes %d input%s (%s), got %d'):format(self.what, #names,
      #names == 1 and '' or 's', table.concat(names, ', '), n))
  end
  local calls = self._calls
  local env, known = setmetatable({}, { __index = self.fixed }), setmetatable({}, calls.known)
  for _, weight in ipairs(calls.weights) do env[weight[1]] = self[weight[2]] end
  for i, input in ipairs(self.inputs) do
    local x = select(i, ...)
    if x ~= nil then
      x = check(input, x, calls.told[i], self.float_type)
    end
    env[input.name] = x
    if self.read_inputs[i] then known[input.name] = true end
  end
  local nodes = nodes_for(self, ...)
  for _, each in ipairs(nodes) do
    each.training, each.float_type = self.training, self.float_type
  end
  local ok, results = pcall(run, self, nodes, env, known)
  if not ok then error(placed(results), 0) end
  return unpack(results, 1, #self.outputs)
end

-- Inputs of the shapes in the file.
local function examples(self, sizes)
  local list = {}
  draw.check(self, sizes)
  for i, input in ipairs(self.inputs) do
    local shape = {}
    for axis, size in ipairs(input.shape or {}) do
      local given = sizes[size]
      shape[axis] = type(size) == 'number' and size or given
      if not shape[axis] then
        blame.raise(("onnx graph: the size %s of input '%s' is not known; give it, { %s = 2 }, or "
          .. 'the inputs themselves'):format(node.told(tostring(size or axis)),
          node.told(input.name), node.told(size or 'N')))
      end
      if given ~= nil and not (type(given) == 'number' and given >= 0 and given % 1 == 0) then
        blame.raise(('onnx graph: %s is a whole number from 0, got %s'):format(node.told(size),
          blame.show(given)))
      end
    end
    list[i] = require('ridge').zeros(shape, { dtype = self.float_type
      and dtype.kind[input.type] == 'float' and self.float_type or input.type })
  end
  return list
end

--- The graph of what the module computes: ridge.graph(self, ...).
---@param ... Tensor|table inputs; or sizes by their names in the file, for inputs of zeros
---@return table graph
function Model:graph(...)
  local ridge = require 'ridge'
  local first = ...
  if select('#', ...) == 0 or type(first) == 'table' then
    return ridge.graph(self, unpack(examples(self, first or {})))
  end
  return ridge.graph(self, ...)
end

function Model:__tostring()
  local _, stored = self:num_parameters()
  return ('%s: %d nodes, %d inputs, %d outputs, %d parameters'):format(self.what, #self.nodes,
    #self.inputs, #self.outputs, stored)
end

--- A module of a model that is at hand already.
---@param model table as ridge.onnx.file reads it
---@param what string its name in errors
---@param opts table|nil as load takes them
---@return table module
function M.of(model, what, opts)
  opts = options.check(OPTIONS, opts, 'onnx.load')
  return grad.no_grad(outside.call, Model, model, what, opts.values, opts.bytes)
end

--- Read an ONNX file as a module: it is called with the file's inputs, in their order, and returns
--- all outputs. It is in evaluation mode. Initializers are its parameters, named as in the file
--- with _ for what stands in no name; what says a shape or an axis, and up to 1,024 whole numbers,
--- are constants of it. In training Dropout drops elements; the running statistics of
--- BatchNormalization stay as they are.
---
--- In evaluation, on a CPU, what stands between DequantizeLinear and QuantizeLinear (QDQ) is
--- computed in whole numbers, as nets of ridge.quant are, at most one step from what the nodes give
--- one by one; no gradient goes through it. { bytes = false } leaves the nodes.
---
--- An input that gives a shape or an axis is read when it is called, and in a plan when that is
--- made: another value makes another plan.
---@param path string
---@param opts table|nil { values = { shape = t }, bytes = true }: inputs that stay what is given
---  here; products of QDQ in whole numbers
---@return table module
function M.load(path, opts)
  if type(path) ~= 'string' then
    blame.raise('onnx.load: a path is expected, got ' .. blame.show(path), 'EARG', 'onnx.load')
  end
  return M.of(file.read(path), path:match '[^/]*$', opts)
end

return M

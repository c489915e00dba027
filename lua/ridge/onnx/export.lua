-- SPDX-License-Identifier: MIT
--- ridge.onnx.export: a net as an ONNX file, and what is known of it.

local blame = require 'ridge.blame'
local emit = require 'ridge.onnx.emit'
local file = require 'ridge.onnx.file'
local graphs = require 'ridge.graph'
local guard = require 'ridge.guard'
local no_grad = require('ridge.tensor.grad').no_grad
local options = require 'ridge.options'
local plain = require 'ridge.plain'
local ref = require 'ridge.ffi.ref'
local sizes = require 'ridge.onnx.sizes'
local validate = require 'ridge.onnx.validate'
require 'ridge.onnx.emit_elementwise'
require 'ridge.onnx.emit_shape'
require 'ridge.onnx.emit_layers'
require 'ridge.onnx.emit_quantized'
require 'ridge.onnx.emit_sparse'

local M = {}

local WHAT = 'onnx.export'

local SPEC = {
  x = { 'cdata|table', required = true, doc = 'an example of its input, or a list of them' },
  opset = { 'integer', default = 14, min = 13, max = 21, doc = 'version of the operators' },
  inputs = { 'table', doc = "names of the inputs; 'input', or 'input_1' ..." },
  outputs = { 'table', doc = "names of the outputs; 'output', or 'output_1' ..." },
  dynamic = { 'table', doc = 'names of axes that may have any size, by input' },
  optimize = { 'boolean', default = true, doc = 'run passes that are for inference' },
  validate = { 'boolean', default = true, doc = 'read the file back and check it' },
  test = { 'boolean', default = true, doc = 'load the file and compare results' },
  external = { 'number', min = 0,
    doc = 'bytes of weights above which they are in a file of their own' },
}

--- Passes of optimize, in their order.
M.PASSES = { 'arithmetic_identities', 'batch_norm_folding', 'common_subexpression_elimination',
  'dead_code_elimination' }

--- The largest difference that passes the test, of the largest value: with half types what rounding
--- between two nodes may make of it, with bytes a step of the last layer and what those before it
--- add up to.
M.TOLERANCE = { f32 = 1e-5, f16 = 2 ^ -8, bf16 = 2 ^ -5, bytes = 2 ^ -6 }

local ROUNDS = { quantize = true, quantize_rows = true, scaled_linear = true, scaled_conv2d = true,
  scaled_add = true }

-- -- What was given -----------------------------------------------------------------------------

local function refuse(text, ...)
  blame.raise(('%s: %s'):format(WHAT, text:format(...)), 'EARG', WHAT)
end

local function example(x)
  if ref.is(x) then return { ref.need(x, WHAT) } end
  if type(x) ~= 'table' or #x == 0 then refuse 'x is a tensor, or a list of tensors' end
  local list = {}
  local seen = {}
  for i, tensor in ipairs(x) do
    tensor = ref.need(tensor, WHAT)
    local place = tostring(tensor._t)
    list[i] = seen[place] and tensor:clone() or tensor -- a recording would take two for one
    seen[place] = true
  end
  return list
end

-- What protobuf takes for a text: UTF-8.
local function is_name(name)
  if type(name) ~= 'string' or name == '' or name:find '%z' then return false end
  local rest = name:gsub('[\194-\223][\128-\191]', ' '):gsub('[\224-\239][\128-\191][\128-\191]',
    ' '):gsub('[\240-\244][\128-\191][\128-\191][\128-\191]', ' ')
  return not rest:find '[\128-\255]'
end

local function names_of(given, n, word)
  local names, seen = {}, {}
  if given and #given ~= n then
    refuse('%d names for %d %ss', #given, n, word)
  end
  for i = 1, n do
    local name = given and given[i] or n == 1 and word or ('%s_%d'):format(word, i)
    if not is_name(name) or seen[name] then
      refuse('%s is no name for %s %d', blame.show(name), word, i)
    end
    names[i], seen[name] = name, true
  end
  return names
end

-- Dynamic axes by name: where each is, first of all.
local function axes_of(dynamic, inputs, outputs, xs)
  local places, order, index = {}, {}, {}
  for i, name in ipairs(inputs) do index[name] = i end
  for _, name in ipairs(outputs or {}) do index[name] = index[name] or false end
  for input, axes in pairs(dynamic) do
    if index[input] == nil then
      local near = blame.near(input, inputs)
      refuse('dynamic: there is no input %s%s', blame.show(input),
        near and (" (did you mean '%s'?)"):format(near) or '')
    end
    if type(axes) ~= 'table' then refuse('dynamic.%s is a list of names', input) end
    for axis, name in pairs(index[input] and axes or {}) do
      local x = xs[index[input]]
      if name ~= false then
        if type(name) ~= 'string' or type(axis) ~= 'number' then
          refuse('dynamic.%s is a list of names, one an axis', input)
        end
        if not is_name(name) then
          refuse('dynamic.%s: %s is no name for an axis', input, blame.show(name))
        end
        if axis < 1 or axis > x.ndim or axis % 1 ~= 0 then
          refuse('dynamic: %s has no axis %g (%s)', input, axis, x:describe())
        end
        local place = { input = index[input], axis = axis }
        if not places[name] then
          places[name] = { place }
          order[#order + 1] = name
        else
          table.insert(places[name], place)
        end
        if xs[places[name][1].input]:size(places[name][1].axis) ~= x:size(axis) then
          refuse('dynamic: %s is two sizes in the example', name)
        end
      end
    end
  end
  for output, axes in pairs(dynamic) do
    if not index[output] and #order == 0 and next(axes) then
      refuse('dynamic.%s: sizes of outputs follow those of inputs, and no axis of an input has a '
        .. 'name', output)
    end
  end
  table.sort(order)
  return order, places
end

-- -- Recording ----------------------------------------------------------------------------------

-- The example with another size of an axis: what is there once, as often as it takes.
local function at_size(xs, places, size)
  local list = { unpack(xs) }
  for _, place in ipairs(places) do
    local x = list[place.input]
    local parts, left = {}, size
    if x:size(place.axis) == 0 then refuse('x has a dynamic axis of size 0') end
    while left > 0 do
      local n = math.min(left, x:size(place.axis))
      parts[#parts + 1] = x:narrow(place.axis, 1, n)
      left = left - n
    end
    list[place.input] = #parts > 1 and require('ridge.tensor.ops').concat(parts, place.axis)
      or parts[1]:contiguous()
  end
  return list
end

local function record(net, xs, optimize)
  local graph = no_grad(function() return graphs(net, unpack(xs)) end)
  local made = graph._made
  if made and made.training then
    refuse 'the net is in training mode, where it computes something else: net:eval() first'
  end
  if #graph:states() > 0 then
    refuse('the net writes to %s, which a file cannot say', tostring(graph:states()[1]))
  end
  return optimize and graph:optimize(M.PASSES) or graph
end

local function recordings(net, xs, order, places, optimize)
  local graph, base, axes, where, tried = record(net, xs, optimize), {}, {}, {}, {}
  for _, name in ipairs(order) do
    local first = places[name][1]
    base[name], where[name] = xs[first.input]:size(first.axis), first
    if base[name] == 0 then refuse('dynamic: %s is 0 in the example', name) end
    local function variants(list)
      local out, inputs = {}, {}
      for _, size in ipairs(list) do
        if size ~= base[name] then
          inputs[#inputs + 1] = at_size(xs, places[name], size)
          out[#out + 1] = { size = size, graph = record(net, inputs[#inputs], optimize) }
        end
      end
      for _, other in ipairs(inputs) do tried[#tried + 1] = other end
      return out
    end
    local ok, list = pcall(variants, sizes.TRIED)
    if not ok then -- an image of 2 rows is too small for most nets
      if not blame.is_error(list) or list.code == 'EINTR' then error(list, 0) end
      ok, list = pcall(variants, { 2 * base[name], 3 * base[name], 7 * base[name] })
      if not ok and blame.is_error(list) and list.code ~= 'EINTR' then
        refuse('dynamic: %s cannot be another size than %d: %s', name, base[name],
          list.message:match '^[^\n]*')
      end
      if not ok then error(list, 0) end
    end
    axes[#axes + 1] = { name = name, variants = list }
  end
  return graph, sizes.new(graph, axes, base, where, places), tried
end

-- -- What came of it ----------------------------------------------------------------------------

local Result = { __name = 'ONNXExport' }
Result.__index = Result

local function shape_text(shape)
  local parts = {}
  for i, size in ipairs(shape) do parts[i] = size and tostring(size) or '?' end
  return '[' .. table.concat(parts, ', ') .. ']'
end

local function shapes_text(list)
  local parts = {}
  for i, v in ipairs(list) do
    parts[i] = plain.line(('%s %s%s'):format(v.name, v.type, shape_text(v.shape)))
  end
  return table.concat(parts, ', ')
end

local function verdict(passed)
  if passed == nil then return 'not asked for' end
  return passed and 'passed' or 'FAILED'
end

function Result:__tostring()
  local lines = {
    ('file         %s, %.3f MB, operators of version %d (IR %d)'):format(self.onnx_path,
      self.model_size_mb, self.opset_version, self.ir_version),
    ('inputs       %s'):format(shapes_text(self.inputs)),
    ('outputs      %s'):format(shapes_text(self.outputs)),
    ('parameters   %d'):format(self.num_parameters),
    ('nodes        %d'):format(self.nodes),
    ('passes       %s'):format(#self.passes > 0 and table.concat(self.passes, ', ') or 'none'),
    ('validation   %s%s'):format(verdict(self.validation_passed),
      self.validation_error and ': ' .. self.validation_error or ''),
    ('inference    %s%s'):format(verdict(self.inference_test_passed), self.max_difference
      and (', largest difference %.3g of the largest value, bound %.1g, at %d size%s'):format(
        self.max_difference, self.tolerance, self.sizes_tested,
        self.sizes_tested == 1 and '' or 's') or '')
      .. ((self.nan_values or 0) > 0 and (', of which %d values are nan in both'):format(
        self.nan_values) or ''),
  }
  if self.external then
    table.insert(lines, 2, ('weights      %s, %.3f MB: more than %s'):format(self.external,
      self.external_bytes / 2 ^ 20, self.external_above and ('%.0f bytes, as external says'):format(
      self.external_above) or 'a protobuf file holds'))
  end
  return table.concat(lines, '\n')
end
guard.result(Result)

--- Print all of it.
function Result:print()
  print(tostring(self))
end

-- The largest difference of two lists of results, of the largest finite value. The same infinities,
-- and nan in both, differ by nothing; another one is further than any bound. And how many are nan:
-- of these nothing is known.
local function difference(a, b)
  local worst, nan = 0, 0
  for i, x in ipairs(a) do
    if x.count > 0 then
      local y = b[i]
      x = x:to 'cpu'
      if not y or x:describe() ~= y:describe() then return math.huge end
      x, y = x:to 'f64', y:to 'f64'
      local same = x:eq(y):logical_or(x:isnan():logical_and(y:isnan()))
      local off = (x - y):abs():where(same:logical_not(), 0)
      nan = nan + x:isnan():to('f64'):sum():item()
      if off:isfinite():to('f64'):min():item() == 0 then return math.huge end
      local d = off:max():item()
      local top = x:abs():where(x:isfinite(), 0):max():item()
      worst = math.max(worst, d == 0 and 0 or d / math.max(top, 1e-300))
    end
  end
  return worst, nan
end

local function flat(value, into)
  if ref.is(value) then
    into[#into + 1] = value
  elseif type(value) == 'table' then
    local keys = {}
    for key in pairs(value) do keys[#keys + 1] = key end
    table.sort(keys, function(p, q) return tostring(p) < tostring(q) end)
    for _, key in ipairs(keys) do flat(value[key], into) end
  end
  return into
end

local function results_of(f, xs)
  return no_grad(function()
    local out = {}
    local results = { f(unpack(xs)) }
    for i = 1, #results do flat(results[i], out) end
    return out
  end)
end

local function test(net, path, inputs)
  local loaded = require('ridge.onnx.load').load(path)
  local worst, n_nan = 0, 0
  for _, xs in ipairs(inputs) do
    local here = {}
    for i, x in ipairs(xs) do here[i] = x:to 'cpu' end
    local off, nan = difference(results_of(net, xs), results_of(loaded, here))
    worst, n_nan = math.max(worst, off), n_nan + (nan or 0)
  end
  return worst, n_nan
end

local function shapes_of(list)
  local out = {}
  for i, v in ipairs(list) do out[i] = v.shape end
  return out
end

local function tolerance_of(graph)
  local most = M.TOLERANCE.f32
  for _, value in ipairs(graph:values()) do
    most = math.max(most, M.TOLERANCE[value.dtype] or 0)
  end
  for _, node in ipairs(graph:nodes()) do
    if ROUNDS[node.op] then most = math.max(most, M.TOLERANCE.bytes) end
  end
  return most
end

-- Numbers that the net holds: a module's, or what a function reads of modules.
local function parameters_of(net, graph)
  if type(net) == 'table' and net.num_parameters then return (select(2, net:num_parameters())) end
  local n = 0
  for _, value in ipairs(graph:values()) do
    local count = value.kind == 'parameter' and 1 or 0
    for _, size in ipairs(value.shape) do count = count * size end
    n = n + count
  end
  return n
end

-- -- Exporting ----------------------------------------------------------------------------------

--- Write a net in evaluation mode as an ONNX file, by what it computes for an example.
---
--- A dynamic axis may have any size when the file is run: the net is recorded at sizes 2, 3 and 7
--- besides, or at 2, 3 and 7 times the example's where it cannot be that small, and what follows
--- the axis in all of them is written so that it does.
---@param net function|table a module, or a function of tensors
---@param path string
---@param opts table {x =, opset = 14, inputs = {'input'}, outputs = {'output'}, dynamic = {input =
---  {'batch_size'}}, optimize = true, validate = true, test = true, external =}
---@return table result: onnx_path, opset_version, num_parameters, model_size_mb, input_shapes,
---  output_shapes, validation_passed, inference_test_passed, max_difference, nan_values (in
---  both: nothing is known of these), tolerance, nodes, passes; r:print()
-- >> r = ridge.onnx.export(ridge.nn.Linear(3, 2):eval(), '/tmp/x.onnx', {x = ridge.ones(1, 3)})
function M.export(net, path, opts)
  if not blame.callable(net) then
    refuse('a module or a function is expected, got %s', blame.show(net))
  end
  if type(path) ~= 'string' or path == '' then
    refuse('a path is expected, got %s', blame.show(path))
  end
  opts = options.check(SPEC, opts or {}, WHAT)
  if type(net) == 'table' and net.training then
    refuse 'the net is in training mode, where it computes something else: net:eval() first'
  end
  local xs = example(opts.x)
  local inputs = names_of(opts.inputs, #xs, 'input')
  local order, places = axes_of(opts.dynamic or {}, inputs, opts.outputs, xs)
  local graph, known, tried = recordings(net, xs, order, places, opts.optimize)
  local outputs = names_of(opts.outputs, #graph:outputs(), 'output')
  for i, name in ipairs(inputs) do
    for k, other in ipairs(outputs) do
      if name == other then refuse('%s names input %d and output %d', blame.show(name), i, k) end
    end
  end
  local model = emit.model(graph, { opset = opts.opset, inputs = inputs, outputs = outputs,
    sizes = known, xs = xs, order = places })
  local written = file.write(path, model, { inline = opts.external }, WHAT)
  local result = setmetatable({ onnx_path = path, opset_version = opts.opset,
    ir_version = model.ir_version, num_parameters = parameters_of(net, graph),
    model_size_mb = (written.bytes + (written.external_bytes or 0)) / 2 ^ 20,
    external = written.external, external_bytes = written.external_bytes,
    external_above = written.external and opts.external or nil,
    inputs = model.graph.inputs, outputs = model.graph.outputs,
    input_shapes = shapes_of(model.graph.inputs), output_shapes = shapes_of(model.graph.outputs),
    nodes = #model.graph.nodes, passes = opts.optimize and M.PASSES or {} }, Result)
  if opts.validate then
    result.validation_error = validate.fault(path)
    result.validation_passed = result.validation_error == nil
  end
  if opts.test then
    table.insert(tried, 1, xs)
    result.max_difference, result.nan_values = test(net, path, tried)
    result.tolerance = tolerance_of(graph)
    result.inference_test_passed = result.max_difference <= result.tolerance
    result.sizes_tested = #tried
  end
  return result
end

return M

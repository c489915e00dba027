-- SPDX-License-Identifier: MIT
--- Models as ONNX files. Weights are written piece by piece behind what says where they are; where
--- they are more than a protobuf file can hold, into a file of their own beside the model.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local dtype = require 'ridge.tensor.dtype'
local fields = require 'ridge.onnx.fields'
local file = require 'ridge.onnx.file'
local output = require 'ridge.ffi.output'
local pieces = require 'ridge.tensor.pieces'

local M = {}

--- Bytes of weights that a file holds itself: protobuf ends at 2 GB, and there is more in a file
--- than weights.
M.INLINE = 2 ^ 31 - 2 ^ 26

local ALIGNED = 4096 -- weights in a file of their own begin at pages, so that others can map them
local LEAST = 1024   -- bytes below which a tensor stays in the model, as shapes and axes do

local F = fields.field

local Writer = {}
Writer.__index = Writer

local function check(w, status)
  if status ~= 0 then
    blame.raise(('%s: %s: %s'):format(w.what, w.path, ffi.string(C.rg_error_message())),
      call.code(status), w.what)
  end
end

function Writer:text(field, s)
  if type(s) ~= 'string' then
    blame.raise(('%s: a text is expected in the model, got %s'):format(self.what, blame.show(s)),
      'EARG', self.what)
  end
  check(self, C.rg_onnx_put_text(self.handle, field, s, #s))
end

function Writer:given(field, s)
  if s ~= nil and s ~= '' then self:text(field, s) end
end

function Writer:int(field, n)
  check(self, C.rg_onnx_put_int(self.handle, field, n))
end

function Writer:ints(field, list)
  local values = ffi.new('int64_t[?]', math.max(1, #list))
  for i, n in ipairs(list) do values[i - 1] = n end
  check(self, C.rg_onnx_put_ints(self.handle, field, values, #list))
end

function Writer:floats(field, list)
  local values = ffi.new('float[?]', math.max(1, #list))
  for i, n in ipairs(list) do values[i - 1] = n end
  check(self, C.rg_onnx_put_floats(self.handle, field, values, #list))
end

-- A message, and what f puts into it.
function Writer:message(field, f, ...)
  check(self, C.rg_onnx_begin(self.handle, field))
  f(self, ...)
  check(self, C.rg_onnx_end(self.handle))
end

function Writer:entry(field, key, value)
  self:message(field, function(w)
    w:text(F.entry.key, key)
    w:text(F.entry.value, value)
  end)
end

local function sorted(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys)
  return keys
end

-- -- Tensors ------------------------------------------------------------------------------------

local function number_of(w, name)
  return fields.type[name] or blame.raise(('%s: ONNX has no element type %s'):format(w.what,
    blame.show(name)), 'EDTYPE', w.what)
end

-- The elements come later: in the file, or in the one beside it.
function Writer:elements(t, bytes)
  if self.beside and bytes >= LEAST then
    local at = math.ceil(self.beside.bytes / ALIGNED) * ALIGNED
    self:entry(F.tensor.external_data, 'location', self.beside.name)
    self:entry(F.tensor.external_data, 'offset', ('%.0f'):format(at))
    self:entry(F.tensor.external_data, 'length', ('%.0f'):format(bytes))
    self:int(F.tensor.data_location, 1)
    table.insert(self.beside.tensors, { at = at, t = t, bytes = bytes })
    self.beside.bytes = at + bytes
  else
    check(self, C.rg_onnx_put_gap(self.handle, F.tensor.raw_data, bytes))
    table.insert(self.gaps, t)
  end
end

-- A tensor of another file: its elements are read when they are written, one tensor after the
-- other. What ridge has no type for stands as it stood there.
function Writer:tensor(t)
  if not t.value and not dtype.bytes[t.type] and not t.external then
    check(self, C.rg_onnx_put_message(self.handle, t._file.map._data + t._at, t._bytes))
    self:text(F.tensor.name, t.name)
    return
  end
  if not t.value and not dtype.bytes[t.type] then
    blame.raise(("%s: %s: tensor '%s' of type %s is in another file"):format(self.what, self.path,
      t.name, t.type), 'EDTYPE', self.what)
  end
  local sizes = t.value and t.value:size() or t.shape
  if #sizes > 0 then self:ints(F.tensor.dims, sizes) end
  self:int(F.tensor.data_type, number_of(self, t.value and t.value.dtype or t.type))
  self:given(F.tensor.name, t.name)
  self:elements(t, t.value and t.value.bytes or t.bytes)
end

-- -- Types --------------------------------------------------------------------------------------

function Writer:shape(shape)
  for _, size in ipairs(shape) do
    self:message(F.shape.dim, function(w)
      if type(size) == 'number' then w:int(F.dimension.dim_value, size) end
      if type(size) == 'string' then w:text(F.dimension.dim_param, size) end
    end)
  end
end

function Writer:tensor_type(t, of)
  self:int(of.elem_type, number_of(self, t.type))
  if t.shape then self:message(of.shape, self.shape, t.shape) end
end

function Writer:type(t)
  if t.type == 'sequence' then
    self:message(F.type.sequence_type, function(w)
      w:message(F.sequence_type.elem_type, w.type, t.of or {})
    end)
  elseif t.type == 'optional' then
    self:message(F.type.optional_type, function(w)
      w:message(F.optional_type.elem_type, w.type, t.of or {})
    end)
  elseif t.type == 'map' then
    self:message(F.type.map_type, function(w)
      w:int(F.map_type.key_type, number_of(w, t.key))
      w:message(F.map_type.value_type, w.type, t.of or {})
    end)
  elseif t.sparse then
    self:message(F.type.sparse_tensor_type, self.tensor_type, t, F.sparse_type)
  elseif t.type == 'opaque' then
    self:message(F.type.opaque_type, function() end)
  elseif t.type then
    self:message(F.type.tensor_type, self.tensor_type, t, F.tensor_type)
  end
end

function Writer:value(v)
  self:text(F.value.name, v.name)
  if v.type then self:message(F.value.type, self.type, v) end
end

-- -- Nodes --------------------------------------------------------------------------------------

function Writer:sparse(t)
  self:message(F.sparse_tensor.values, self.tensor, t.values)
  self:message(F.sparse_tensor.indices, self.tensor, t.indices)
  self:ints(F.sparse_tensor.dims, t.shape)
end

local A = F.attribute

local function each(field, f)
  return function(w, list)
    for _, value in ipairs(list) do w:message(field, f, value) end
  end
end

-- What puts the value of each kind of attribute.
local PUT = {
  float = function(w, v) check(w, C.rg_onnx_put_float(w.handle, A.f, v)) end,
  int = function(w, v) w:int(A.i, v) end,
  string = function(w, v) w:text(A.s, v) end,
  tensor = function(w, v) w:message(A.t, w.tensor, v) end,
  graph = function(w, v) w:message(A.g, w.graph, v) end,
  floats = function(w, v) w:floats(A.floats, v) end,
  ints = function(w, v) w:ints(A.ints, v) end,
  strings = function(w, v)
    for _, s in ipairs(v) do w:text(A.strings, s) end
  end,
  tensors = function(w, v) each(A.tensors, w.tensor)(w, v) end,
  graphs = function(w, v) each(A.graphs, w.graph)(w, v) end,
  sparse_tensor = function(w, v) w:message(A.sparse_tensor, w.sparse, v) end,
  sparse_tensors = function(w, v) each(A.sparse_tensors, w.sparse)(w, v) end,
  type_proto = function(w, v) w:message(A.tp, w.type, v) end,
  type_protos = function(w, v) each(A.type_protos, w.type)(w, v) end,
}

local KIND = {}
for number, kind in ipairs(fields.ATTRIBUTE) do KIND[kind] = number end

function Writer:attribute(name, a)
  self:text(A.name, name)
  if a.ref then self:text(A.ref_attr_name, a.ref) end
  if a.type then
    if not KIND[a.type] then
      blame.raise(("%s: attribute '%s' is of type %s, which is none"):format(self.what, name,
        blame.show(a.type)), 'EARG', self.what)
    end
    self:int(A.type, KIND[a.type])
    if a.value ~= nil then PUT[a.type](self, a.value) end
  end
end

function Writer:node(node)
  for _, name in ipairs(node.inputs) do self:text(F.node.input, name) end
  for _, name in ipairs(node.outputs) do self:text(F.node.output, name) end
  self:given(F.node.name, node.name)
  self:text(F.node.op_type, node.op)
  for _, name in ipairs(sorted(node.attributes or {})) do
    self:message(F.node.attribute, self.attribute, name, node.attributes[name])
  end
  self:given(F.node.domain, node.domain)
  self:given(F.node.overload, node.overload)
end

function Writer:list(field, f, list)
  for _, value in ipairs(list or {}) do
    call.look(self.what)
    self:message(field, f, value)
  end
end

function Writer:graph(graph)
  local G = F.graph
  self:list(G.node, self.node, graph.nodes)
  self:text(G.name, graph.name or 'graph')
  self:list(G.initializer, self.tensor, graph.initializers)
  self:given(G.doc_string, graph.doc)
  self:list(G.input, self.value, graph.inputs)
  self:list(G.output, self.value, graph.outputs)
  self:list(G.value_info, self.value, graph.values)
  self:list(G.sparse_initializer, self.sparse, graph.sparse)
end

-- -- The model ----------------------------------------------------------------------------------

function Writer:opset(field, list)
  for _, domain in ipairs(sorted(list)) do
    self:message(field, function(w)
      w:text(F.opset.domain, domain)
      w:int(F.opset.version, list[domain])
    end)
  end
end

Writer['function'] = function(self, f)
  local N = F['function']
  self:text(N.name, f.name)
  for _, name in ipairs(f.inputs) do self:text(N.input, name) end
  for _, name in ipairs(f.outputs) do self:text(N.output, name) end
  for _, name in ipairs(f.attributes) do self:text(N.attribute, name) end
  for _, name in ipairs(sorted(f.defaults or {})) do
    self:message(N.attribute_proto, self.attribute, name, f.defaults[name])
  end
  self:list(N.node, self.node, f.nodes)
  self:opset(N.opset_import, f.opset)
  self:given(N.domain, f.domain)
  self:given(N.overload, f.overload)
end

function Writer:model(model)
  local N = F.model
  self:int(N.ir_version, model.ir_version or 8)
  self:given(N.producer_name, model.producer)
  self:given(N.producer_version, model.producer_version)
  self:given(N.domain, model.domain)
  if model.model_version then self:int(N.model_version, model.model_version) end
  self:given(N.doc_string, model.doc)
  self:message(N.graph, self.graph, model.graph)
  self:opset(N.opset_import, model.opset)
  for _, key in ipairs(sorted(model.metadata or {})) do
    self:entry(N.metadata_props, key, model.metadata[key])
  end
  self:list(N.functions, self['function'], model.functions)
end

-- -- Files --------------------------------------------------------------------------------------

-- Bytes of the weights: what decides where they go.
local function weights(graph)
  local bytes = 0
  for _, t in ipairs(graph.initializers or {}) do
    bytes = bytes + (t.value and t.value.bytes or t.bytes or 0)
  end
  return bytes
end

local function put_elements(self, out, t)
  pieces.read(t.value or file.tensor(t, self.what), self.what, function(buffer, bytes)
    out:write_bytes(buffer, bytes)
  end)
end

local function write_beside(self, path)
  output.write(path, self.what, function(out)
    local at = 0
    for _, t in ipairs(self.beside.tensors) do
      out:write(('\0'):rep(t.at - at))
      put_elements(self, out, t.t)
      at = t.at + t.bytes
    end
  end)
end

local function write_model(self, path)
  local w = ffi.new 'rg_onnx_written'
  C.rg_onnx_written_of(self.handle, w)
  local whole = tonumber(w.whole)
  if whole >= 2 ^ 31 then
    blame.raise(('%s: %s would have %.0f bytes beside its weights; ONNX files end at 2 GB')
      :format(self.what, path, whole), 'EARG', self.what)
  end
  output.write(path, self.what, function(out)
    local at = 0
    for i, x in ipairs(self.gaps) do
      local upto = tonumber(w.gaps[i - 1])
      out:write_bytes(w.data + at, upto - at)
      put_elements(self, out, x)
      at = upto
    end
    out:write_bytes(w.data + at, tonumber(w.bytes) - at)
  end)
  return whole
end

--- Write a model.
---@param path string
---@param model table as file.read gives it; new tensors are { name =, value = Tensor }
---@param opts table|nil { inline = bytes of weights up to which they stand in the file itself }
---@param what string|nil the function the user called
---@return table { bytes =, external = name of the file beside it, external_bytes = }
function M.write(path, model, opts, what)
  what = what or 'onnx.write'
  if type(path) ~= 'string' or path == '' or path:find '%z' then
    blame.raise(('%s: a path is expected, got %s'):format(what, blame.show(path)), 'EARG', what)
  end
  if type(model) ~= 'table' or type(model.graph) ~= 'table' or type(model.opset) ~= 'table' then
    blame.raise(('%s: a model is expected (onnx.file.read), got %s'):format(what,
      blame.show(model)), 'EARG', what)
  end
  local slot = ffi.new 'rg_onnx_writer *[1]'
  local self = setmetatable({ path = path, what = what, gaps = {} }, Writer)
  check(self, C.rg_onnx_writer_new(slot))
  self.handle = ffi.gc(slot[0], C.rg_onnx_writer_release)
  local inline = opts and opts.inline or M.INLINE
  if weights(model.graph) > inline then
    self.beside = { name = path:match '[^/]*$' .. '.data', bytes = 0, tensors = {} }
  end
  self:model(model)
  local folder = path:match '^(.*/)[^/]*$' or ''
  local beside = self.beside and #self.beside.tensors > 0 and self.beside
  if beside then write_beside(self, folder .. beside.name) end
  local bytes = write_model(self, path)
  return { bytes = bytes, external = beside and beside.name or nil,
    external_bytes = beside and beside.bytes or nil }
end

return M

-- SPDX-License-Identifier: MIT
--- The messages of ONNX and their fields by name: core/ridge/onnx.h has the list.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'

local M = {}

--- Number of a message by its name.
M.message = {}

--- Number of a field by the names of message and field: field.graph.node.
M.field = {}

--- Kinds of attributes in the order of their numbers in files.
M.ATTRIBUTE = { 'float', 'int', 'string', 'tensor', 'graph', 'floats', 'ints', 'strings',
  'tensors', 'graphs', 'sparse_tensor', 'sparse_tensors', 'type_proto', 'type_protos' }

--- Number of an element type by its name.
M.type = {}

for i = 0, C.RG_ONNX_MESSAGE_COUNT - 1 do
  local name = ffi.string(C.rg_onnx_message_name(i))
  M.message[name], M.field[name] = i, {}
end
for i = 0, C.RG_ONNX_FIELD_COUNT - 1 do
  local f = C.rg_onnx_field_of(i)
  M.field[ffi.string(C.rg_onnx_message_name(f.message))][ffi.string(f.name)] = i
end
for i = 1, 64 do
  local t = C.rg_onnx_type_of(i)
  if t ~= nil then M.type[ffi.string(t.name)] = i end
end

return M

-- SPDX-License-Identifier: MIT
--- ONNX files: ridge.onnx.

local late = require 'ridge.late'

return late.namespace({}, {
  load = { 'ridge.onnx.load', 'load' }, export = { 'ridge.onnx.export', 'export' },
}, 'ridge.onnx')

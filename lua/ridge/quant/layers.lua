-- SPDX-License-Identifier: MIT
--- The classes of quantized layers, by the names that files have of them.

local late = require 'ridge.late'

return late.namespace({}, {
  Linear = { 'ridge.quant.linear', 'Linear' }, Conv2d = { 'ridge.quant.conv', 'Conv2d' },
  PackedLinear = { 'ridge.quant.packed', 'PackedLinear' },
  MaxPool2d = { 'ridge.quant.pool', 'MaxPool2d' }, Folded = { 'ridge.quant.fold', 'Folded' },
  Residual = { 'ridge.quant.join', 'Residual' }, Concat = { 'ridge.quant.join', 'Concat' },
}, 'quant.layers')

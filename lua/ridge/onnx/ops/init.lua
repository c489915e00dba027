-- SPDX-License-Identifier: MIT
--- ONNX operators by name: 'Conv', or 'domain:Name' outside of ONNX's own domain.
--
-- An entry is a function of the node and its inputs, nil where an optional one is not there, that
-- returns the node's outputs; or a table of
--   run       that function
--   reads     places of inputs that it takes as lists of numbers: what says a shape, an axis ...
--   looks     the same of what is data: there is no plan of it unless it is known
--   of        the only input whose elements it reads: of the others it takes type and shape
--   of_shape  what it computes is known from the shapes of its inputs
--   draws     it draws random numbers

local M = {}

for _, family in ipairs { 'elementwise', 'activation', 'logic', 'reduction', 'shape', 'rearrange',
                          'index', 'scatter', 'product', 'conv', 'pool', 'norm', 'loss', 'step',
                          'cast', 'recurrent', 'quantized', 'attention', 'resize',
                          'sample', 'random' } do
  for name, entry in pairs(require('ridge.onnx.ops.' .. family)) do
    assert(not M[name], name)
    M[name] = entry
  end
end

return M

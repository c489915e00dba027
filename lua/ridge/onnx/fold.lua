-- SPDX-License-Identifier: MIT
--- Records of weights alone, computed when a file is written.

local concat = require('ridge.tensor.ops').concat
local make = require('ridge.tensor.make').here
local no_grad = require('ridge.tensor.grad').no_grad

local M = {}

local COMPUTE = {}

for _, op in ipairs { 'neg', 'abs', 'sign', 'square', 'relu', 'relu6', 'sqrt', 'rsqrt',
  'reciprocal', 'exp', 'log', 'log1p', 'sin', 'cos', 'tanh', 'erf', 'sigmoid', 'gelu', 'silu',
  'softplus' } do
  COMPUTE[op] = function(_, x) return x[op](x) end
end
for _, op in ipairs { 'add', 'sub', 'mul', 'div', 'pow', 'maximum', 'minimum' } do
  COMPUTE[op] = function(args, x, y)
    if args.scalar == 0 or args.scalar == nil then return y and x[op](x, y) end
    if args.reversed ~= 1 then return x[op](x, args.value) end
    local number = make.full(args.value, { dtype = x.dtype })
    return number[op](number, x)
  end
end
COMPUTE.reshape = function(args, x) return x:reshape(args.shape) end
COMPUTE.view = COMPUTE.reshape
COMPUTE.permute = function(args, x) return x:permute(unpack(args.order)) end
COMPUTE.transpose = function(args, x) return x:transpose(args.a, args.b) end
COMPUTE.unsqueeze = function(args, x) return x:unsqueeze(args.axis) end
COMPUTE.narrow = function(args, x)
  return x:narrow(args.axis, args.start, args.length, args.step)
end
COMPUTE.select = function(args, x) return x:select(args.axis, args.index) end
COMPUTE.expand = function(args, x) return x:expand(args.shape) end
COMPUTE.cast = function(args, x) return x:to(args.dtype) end
COMPUTE.copy = function(_, x) return x end
COMPUTE.detach = COMPUTE.copy
COMPUTE.concat = function(args, ...) return concat({ ... }, args.axis) end
COMPUTE.matmul = function(_, x, y) return x:matmul(y) end

--- What a node makes of tensors; nil where it is left to the file.
---@param node table of a graph
---@param inputs table tensors, false where one is left out
---@return Tensor|nil
function M.compute(node, inputs)
  local f = COMPUTE[node.op]
  if not f or #node.outputs ~= 1 then return nil end
  local x = no_grad(f, node.args, unpack(inputs))
  local value = node.outputs[1]
  if not x or x.dtype ~= value.dtype or #x:size() ~= #value.shape then return nil end
  for i, size in ipairs(value.shape) do
    if x:size(i) ~= size then return nil end
  end
  return x:contiguous()
end

return M

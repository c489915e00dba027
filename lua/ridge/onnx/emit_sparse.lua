-- SPDX-License-Identifier: MIT
--- Products with weights most of which are 0 as operators of ONNX, which has none for them: the
--- weight is written dense, with its zeros, and multiplied by MatMul.

local elementwise = require 'ridge.onnx.emit_elementwise'
local emit = require 'ridge.onnx.emit'
local sparse = require 'ridge.tensor.sparse'

local records = emit.records

-- act(x W' + b), where dense(known) is W' of the tensors that the weight is kept as.
local function product(e, node, names, n, dense)
  local known = {}
  for i = 1, n do
    known[i] = e:known(names[i + 1])
    if not known[i] then e:refuse(node, 'its weight is not known when the file is written') end
  end
  local x, b = node.inputs[1], names[n + 2] or ''
  local w = e:derived(names[n + 1], '.dense', function() return dense(unpack(known)) end)
  local y = e:node('MatMul', { e:cast(names[1], x.dtype, 'f32'), w })
  if b ~= '' then y = e:node('Add', { y, e:cast(b, node.inputs[n + 2].dtype, 'f32') }) end
  y = elementwise.activation(e, node.args.act, y, 'f32')
  return e:cast(y, 'f32', node.outputs[1].dtype)
end

local function across(w) return w:to('f32'):t():contiguous() end

local function last(value) return value.shape[#value.shape] end

function records.sparse_linear(e, node, names)
  return product(e, node, names, 3, function(offset, column, values)
    return across(sparse.dense { offset = offset, column = column, values = values,
      columns = last(node.inputs[1]) })
  end)
end

function records.n_of_m_linear(e, node, names)
  return product(e, node, names, 2, function(index, values)
    return across(sparse.dense { index = index, values = values, rows = last(node.outputs[1]),
      columns = last(node.inputs[1]) })
  end)
end

-- SPDX-License-Identifier: MIT
--- An alternative of single nodes: the activation of a product or convolution as a call behind it,
--- in the place of its epilogue.

local alternative = require 'ridge.compile.alternative'

local metas = alternative.metas

-- What a node is, for who looks for others like it: nil where it has no activation to take out.
local function kind_of(node)
  local args = node.args
  if not args.act or args.act == 'none' or node.parent or node.recomputed
    or #node.outputs ~= 1 then
    return nil
  end
  return ('%s %s %s'):format(node.op, metas(node.inputs), alternative.words(args))
end

local function take_apart(graph, node)
  local args, out = {}, node.outputs[1]
  for name, value in pairs(node.args) do args[name] = value end
  args.act = 'none'
  local plain = graph:insert(node.op, node.inputs, { before = node, args = args })
  local act = graph:insert(node.args.act, { plain.outputs[1] }, { before = node })
  graph:replace(out, act.outputs[1])
  graph:remove(node)
end

return alternative.of { choice = 'epilogue', heavy = 'flops', kind_of = kind_of,
  take_apart = take_apart }

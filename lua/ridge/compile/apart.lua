-- SPDX-License-Identifier: MIT
--- An alternative of single nodes: the activation of a product or convolution as a call behind it,
--- in the place of its epilogue.

local choices = require 'ridge.plan_choices'

local M = {}

local MOST = 12 -- kinds of nodes that are tried in one graph, those of most operations first

local function metas(values)
  local list = {}
  for i, value in ipairs(values) do
    list[i] = value and ('%s[%s]'):format(value.dtype, table.concat(value.shape, ',')) or '-'
  end
  return table.concat(list, ' ')
end

-- What a node is, for who looks for others like it: nil where it has no activation to take out.
local function kind_of(node)
  local args = node.args
  if not args.act or args.act == 'none' or node.parent or node.recomputed
    or #node.outputs ~= 1 then
    return nil
  end
  local names, words = {}, {}
  for name, value in pairs(args) do
    names[#names + 1] = name
    words[name] = type(value) == 'table' and table.concat(value, 'x') or tostring(value)
  end
  table.sort(names)
  for i, name in ipairs(names) do names[i] = name .. '=' .. words[name] end
  return ('%s %s %s'):format(node.op, metas(node.inputs), table.concat(names, ' '))
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

--- Kinds of nodes of a graph that have the alternative.
---@param graph table
---@return string[] kinds those of most operations first
function M.kinds(graph)
  local flops, list = {}, {}
  for _, node in ipairs(graph:nodes()) do
    local kind = kind_of(node)
    if kind then
      if not flops[kind] then list[#list + 1] = kind end
      flops[kind] = (flops[kind] or 0) + node.flops
    end
  end
  table.sort(list, function(a, b)
    if flops[a] ~= flops[b] then return flops[a] > flops[b] end
    return a < b
  end)
  for i = #list, MOST + 1, -1 do list[i] = nil end
  return list
end

--- A function that takes the activations of some kinds of nodes of a graph apart, and of those that
--- were found to be faster so.
---@param more table<string, boolean>|nil kinds
---@return function edit
function M.edit(more)
  return function(graph)
    for _, node in ipairs(graph:nodes()) do
      local kind = kind_of(node)
      if kind and (more and more[kind]
          or choices.get('epilogue', choices.problem(kind)) == 'apart') then
        take_apart(graph, node)
      end
    end
  end
end

return M

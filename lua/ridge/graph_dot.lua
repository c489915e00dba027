-- SPDX-License-Identifier: MIT
--- A graph as a picture for Graphviz: g:dot 'net.dot'.

local M = {}

local function quoted(text)
  return '"' .. text:gsub('\\', '\\\\'):gsub('"', '\\"'):gsub('\n', '\\n') .. '"'
end

local function label_of(value)
  return ('%s[%s]'):format(value.dtype, table.concat(value.shape, ','))
end

-- Bodies are drawn, their compounds are frames around them.
local function put_node(lines, node, inside)
  local body = node.body
  if #body > 0 then
    lines[#lines + 1] = ('subgraph cluster_%d { label=%s;'):format(node.id,
      quoted(node.op .. (node.module and ' ' .. node.module or '')))
    for _, inner in ipairs(body) do
      if inner.parent and inner.parent.id == node.id then put_node(lines, inner, inside) end
    end
    lines[#lines + 1] = '}'
    return
  end
  inside[node.id] = true
  lines[#lines + 1] = ('n%d [shape=box, label=%s];'):format(node.id,
    quoted(node.op .. (node.module and '\n' .. node.module or '')))
end

-- Where an edge from a value begins.
local function from(value)
  return value.producer and 'n' .. value.producer.id or 'v' .. value.id
end

local function put_edges(lines, node)
  for _, value in ipairs(node.inputs) do
    if value then
      lines[#lines + 1] = ('%s -> n%d [label=%s];'):format(from(value), node.id,
        quoted(label_of(value)))
    end
  end
end

--- The text of a graph's picture.
---@param graph table
---@return string
function M.picture(graph)
  local lines, drawn = { 'digraph ridge {', 'node [fontname="sans"];' }, {}
  for _, value in ipairs(graph:values()) do
    if not value.producer then
      lines[#lines + 1] = ('v%d [shape=%s, label=%s];'):format(value.id,
        value.kind == 'input' and 'ellipse' or 'note',
        quoted((value.name or value.kind) .. '\n' .. label_of(value)))
    end
  end
  for _, node in ipairs(graph:nodes()) do
    if not node.parent then put_node(lines, node, drawn) end
  end
  for _, node in ipairs(graph:nodes()) do
    if drawn[node.id] then put_edges(lines, node) end
  end
  for i, output in ipairs(graph:outputs()) do
    lines[#lines + 1] = ('out%d [shape=ellipse, label=%s];'):format(i,
      quoted(output.name or output.kind))
    lines[#lines + 1] = ('%s -> out%d;'):format(from(output.value), i)
  end
  lines[#lines + 1] = '}\n'
  return table.concat(lines, '\n')
end

return M

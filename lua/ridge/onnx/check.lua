-- SPDX-License-Identifier: MIT
--- What is true of every graph of an ONNX file: each value is made once, before it is read. Nodes
--- that stand in another order are put into one that works.

local show = require('ridge.blame').show

local M = {}

-- A node in a sentence.
local function shown(node, i)
  return ('node %d (%s%s)'):format(i, node.op:sub(1, 60),
    node.name ~= '' and ' ' .. show(node.name) or '')
end

--- The graphs inside a node.
---@param node table
---@return table list
function M.graphs(node)
  local list = {}
  for _, a in pairs(node.attributes) do
    if a.type == 'graph' and a.value then list[#list + 1] = a.value end
    if a.type == 'graphs' then
      for _, g in ipairs(a.value or {}) do list[#list + 1] = g end
    end
  end
  return list
end

-- Names that a graph reads from around it, into a set.
local function free_of(graph, into)
  local own = {}
  for _, list in ipairs { graph.inputs, graph.initializers, graph.sparse or {} } do
    for _, v in ipairs(list) do own[v.name] = true end
  end
  for _, node in ipairs(graph.nodes) do
    for _, name in ipairs(node.outputs) do own[name] = true end
  end
  local inner = {}
  for _, node in ipairs(graph.nodes) do
    for _, name in ipairs(node.inputs) do inner[name] = true end
    for _, g in ipairs(M.graphs(node)) do free_of(g, inner) end
  end
  for _, v in ipairs(graph.outputs) do inner[v.name] = true end
  for name in pairs(inner) do
    if name ~= '' and not own[name] then into[name] = true end
  end
  return into
end

--- Names that a node reads, those of the graphs inside it too.
---@param node table
---@return table set
function M.reads(node)
  local set = {}
  for _, name in ipairs(node.inputs) do
    if name ~= '' then set[name] = true end
  end
  for _, g in ipairs(M.graphs(node)) do free_of(g, set) end
  return set
end

-- Topological order, as near to the order of the file as that goes.
local function sorted(nodes, maker, reads, fail)
  local waits, readers, out = {}, {}, {}
  for i = 1, #nodes do
    waits[i] = 0
    for name in pairs(reads[i]) do
      local from = maker[name]
      if from then
        waits[i] = waits[i] + 1
        readers[from] = readers[from] or {}
        table.insert(readers[from], i)
      end
    end
  end
  local ready = {}
  for i = #nodes, 1, -1 do
    if waits[i] == 0 then ready[#ready + 1] = i end
  end
  while #ready > 0 do
    local i = table.remove(ready)
    out[#out + 1] = nodes[i]
    for _, reader in ipairs(readers[i] or {}) do
      waits[reader] = waits[reader] - 1
      if waits[reader] == 0 then ready[#ready + 1] = reader end
    end
  end
  if #out < #nodes then
    for i, n in ipairs(waits) do
      if n > 0 then fail(shown(nodes[i], i) .. ' waits for itself: the graph has a cycle') end
    end
  end
  return out
end

local order_graph

-- Nodes with what is there before them: checked, and put in order.
local function order_nodes(nodes, there, fail)
  local maker, reads, made, in_order = {}, {}, {}, true
  for i, node in ipairs(nodes) do
    for _, name in ipairs(node.outputs) do
      if name ~= '' then
        if maker[name] or rawget(there, name) then
          fail(('%s makes %s, which is made already'):format(shown(node, i), show(name)))
        end
        maker[name] = i
      end
    end
  end
  for i, node in ipairs(nodes) do
    reads[i] = M.reads(node)
    for name in pairs(reads[i]) do
      if not maker[name] and not there[name] then
        fail(('%s reads %s, which nothing makes'):format(shown(node, i), show(name)))
      end
      in_order = in_order and (made[name] or not maker[name])
    end
    for _, name in ipairs(node.outputs) do made[name] = true end
  end
  if not in_order then nodes = sorted(nodes, maker, reads, fail) end
  for name in pairs(maker) do there[name] = true end
  for _, node in ipairs(nodes) do
    for _, g in ipairs(M.graphs(node)) do order_graph(g, there, fail) end
  end
  return nodes
end

-- there: names of the graphs around it.
function order_graph(graph, around, fail)
  local there = setmetatable({}, { __index = around })
  for _, v in ipairs(graph.inputs) do
    if v.name == '' then fail 'an input has no name' end
    if rawget(there, v.name) then fail(('input %s is there twice'):format(show(v.name))) end
    there[v.name] = true
  end
  local weights = {}
  for _, list in ipairs { graph.initializers, graph.sparse or {} } do
    for _, t in ipairs(list) do
      if t.name == '' then fail 'an initializer has no name' end
      if weights[t.name] then fail(('initializer %s is there twice'):format(show(t.name))) end
      weights[t.name], there[t.name] = true, true -- of an input: its value when none is given
    end
  end
  graph.nodes = order_nodes(graph.nodes, there, fail)
  for _, v in ipairs(graph.outputs) do
    if not there[v.name] then fail(('output %s is made by nothing'):format(show(v.name))) end
  end
end

--- Check a model's graphs and functions, and put their nodes in order.
---@param model table
---@param fail fun(sentence: string) raises
---@return table model
function M.order(model, fail)
  order_graph(model.graph, {}, fail)
  local known = {}
  for _, f in ipairs(model.functions or {}) do
    local name = ('%s.%s.%s'):format(f.domain, f.name, f.overload or '')
    if known[name] then fail(('function %s is there twice'):format(show(f.name))) end
    known[name] = true
    local there = {}
    for _, input in ipairs(f.inputs) do
      if there[input] then fail(('function %s has %s twice'):format(show(f.name), show(input))) end
      there[input] = true
    end
    f.nodes = order_nodes(f.nodes, there, fail)
    for _, output in ipairs(f.outputs) do
      if not there[output] then
        fail(('output %s of function %s is made by nothing'):format(show(output), show(f.name)))
      end
    end
  end
  return model
end

return M

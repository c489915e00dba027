-- SPDX-License-Identifier: MIT
--- An ONNX graph prepared for running: its functions written out, operators found, every value made
--- once and before it is read.

local arity = require 'ridge.onnx.arity'
local blame = require 'ridge.blame'
local node = require 'ridge.onnx.node'
local older = require 'ridge.onnx.older'
local ops = require 'ridge.onnx.ops'

local told = node.told

local M = {}

local DEEPEST = 64       -- functions and graphs inside each other
local MOST = 1000000     -- nodes after functions were written out, in a large file
local FEWEST = 65536     -- ... and that any file may have
local BYTES_EACH = 8     -- and one for each so many of its bytes
local NEWEST = 24
local NEVER = { Loop = true, Scan = true }

local function standard(domain)
  return domain == 'ai.onnx' and '' or domain or ''
end

-- -- Functions ----------------------------------------------------------------------------------

-- An attribute of a function's node as it is where the function is called.
local function resolved(attributes, given)
  local out = {}
  for name, a in pairs(attributes or {}) do
    if a.ref then
      if given[a.ref] then out[name] = given[a.ref] end
    else
      out[name] = a
    end
  end
  return out
end

local renamed_graph

-- Nodes of a function with names of their own, and with the attributes of the call.
local function renamed_node(raw, name, given)
  local inputs, outputs, attributes = {}, {}, resolved(raw.attributes, given)
  for i, input in ipairs(raw.inputs) do inputs[i] = name(input) end
  for i, output in ipairs(raw.outputs) do outputs[i] = name(output) end
  for key, a in pairs(attributes) do
    if a.type == 'graph' and raw.attributes[key] == a then
      attributes[key] = { type = 'graph', value = renamed_graph(a.value, name, given) }
    end
  end
  return { op = raw.op, domain = raw.domain, name = raw.name, inputs = inputs, outputs = outputs,
    attributes = attributes }
end

local function with_names(list, name)
  local out = {}
  for i, entry in ipairs(list or {}) do
    out[i] = setmetatable({ name = name(entry.name) }, { __index = entry })
  end
  return out
end

function renamed_graph(graph, name, given)
  local nodes = {}
  for i, raw in ipairs(graph.nodes) do nodes[i] = renamed_node(raw, name, given) end
  return { name = graph.name, nodes = nodes, inputs = with_names(graph.inputs, name),
    outputs = with_names(graph.outputs, name), values = {},
    initializers = with_names(graph.initializers, name) }
end

-- What stands for a call of a function: its nodes.
local function body_of(raw, f, number)
  local known = { [''] = '' }
  for i, formal in ipairs(f.inputs) do known[formal] = raw.inputs[i] or '' end
  for i, formal in ipairs(f.outputs) do
    local out = raw.outputs[i]
    known[formal] = out ~= '' and out or nil
  end
  local function name(value)
    if not known[value] then known[value] = ('%s.%d/%s'):format(f.name, number, value) end
    return known[value]
  end
  local given = {}
  for key, a in pairs(f.defaults or {}) do given[key] = a end
  for key, a in pairs(raw.attributes or {}) do given[key] = a end
  local nodes, passed = {}, {}
  for i, formal in ipairs(f.inputs) do passed[formal] = raw.inputs[i] or '' end
  for i, inner in ipairs(f.nodes) do nodes[i] = renamed_node(inner, name, given) end
  for i, formal in ipairs(f.outputs) do -- an input that is handed on
    if passed[formal] and raw.outputs[i] and raw.outputs[i] ~= '' then
      nodes[#nodes + 1] = { op = 'Identity', inputs = { passed[formal] },
        outputs = { raw.outputs[i] }, attributes = {} }
    end
  end
  return nodes
end

-- -- Nodes --------------------------------------------------------------------------------------

-- Walks a list of nodes and writes functions out.
local function add_nodes(state, raws, opsets, list, depth)
  if depth > DEEPEST then
    blame.raise(('%s: functions stand in each other more than %d deep'):format(state.what, DEEPEST))
  end
  for _, raw in ipairs(raws) do
    local domain = standard(raw.domain)
    local f = state.functions[domain .. ':' .. raw.op]
    if f then
      state.calls = state.calls + 1
      if state.calls > state.most then
        blame.raise(('%s: its functions are called more than %d times, too often for its size')
          :format(state.what, state.most))
      end
      add_nodes(state, body_of(raw, f, state.calls), f.opset or opsets, list, depth + 1)
    else
      state.nodes = state.nodes + 1
      if state.nodes > state.most then
        blame.raise(('%s: it has more than %d nodes where its functions are written out, too many '
          .. 'for its size'):format(state.what, state.most))
      end
      local opset = opsets[domain] or domain == '' and opsets['ai.onnx'] or nil
      local n = node.of(raw, opset or 1)
      n.domain = domain
      local key = domain == '' and raw.op or domain .. ':' .. raw.op
      n.entry = ops[key]
      local is_if = domain == '' and raw.op == 'If'
      if domain == '' then
        if n.entry or is_if then older.check(state.what, raw.op, opset) end
        arity.check(state.what, n)
      end
      if not n.entry and not is_if then state.unknown[key] = (state.unknown[key] or 0) + 1 end
      for name, a in pairs(n.attributes) do
        if a.type == 'graph' and is_if then
          n.graphs = n.graphs or {}
          n.graphs[name] = M.graph(state, a.value, opsets, depth + 1)
        end
      end
      list[#list + 1] = n
    end
  end
end

-- Values that a graph inside another one reads from it.
local function outer_of(inner, defined, add)
  for _, n in ipairs(inner.nodes) do
    for _, input in ipairs(n.inputs) do
      if input ~= '' and not inner.defined[input] then add(input) end
    end
    for _, g in pairs(n.graphs or {}) do
      outer_of(g, defined, function(name)
        if not inner.defined[name] then add(name) end
      end)
    end
  end
  for _, output in ipairs(inner.outputs) do
    if not inner.defined[output.name] then add(output.name) end
  end
end

local function reads_of(n)
  local reads = {}
  for _, input in ipairs(n.inputs) do
    if input ~= '' then reads[#reads + 1] = input end
  end
  for _, g in pairs(n.graphs or {}) do
    outer_of(g, {}, function(name) reads[#reads + 1] = name end)
  end
  return reads
end

-- The nodes in an order in which every value is made before it is read: that of the file where it
-- is one.
local function ordered(state, list, defined)
  local made = {}
  for i, n in ipairs(list) do
    n.reads = reads_of(n)
    for _, output in ipairs(n.outputs) do
      if output ~= '' then
        if made[output] or defined[output] then
          blame.raise(("%s: the value '%s' is made twice"):format(state.what, told(output)))
        end
        made[output] = i
      end
    end
  end
  local waits, readers, ready = {}, {}, {}
  for i, n in ipairs(list) do
    waits[i] = 0
    for _, input in ipairs(n.reads) do
      local maker = made[input]
      if maker then
        waits[i] = waits[i] + 1
        readers[maker] = readers[maker] or {}
        table.insert(readers[maker], i)
      elseif not defined[input] and not state.outer then
        blame.raise(("%s: %s reads '%s', which nothing makes"):format(state.what, n:label(),
          told(input)))
      end
    end
  end
  local done, order, at = {}, {}, 1
  local function finish(i)
    order[#order + 1], done[i] = list[i], true
    for _, reader in ipairs(readers[i] or {}) do
      waits[reader] = waits[reader] - 1
      if waits[reader] == 0 and reader < at then ready[#ready + 1] = reader end
    end
  end
  while at <= #list do
    local i = at
    at = at + 1
    if waits[i] == 0 then finish(i) end
    while #ready > 0 do finish(table.remove(ready)) end
  end
  if #order < #list then
    for i, n in ipairs(list) do
      if not done[i] then
        blame.raise(('%s: %s reads what is made from its own result: the graph has a cycle'):format(
          state.what, n:label()))
      end
    end
  end
  for name in pairs(made) do defined[name] = true end
  return order, made
end

--- A graph of a file, prepared.
---@param state table
---@param graph table
---@param opsets table
---@param depth number
---@return table { nodes, inputs, outputs, initializers, defined }
function M.graph(state, graph, opsets, depth)
  local list, defined = {}, {}
  for _, input in ipairs(graph.inputs) do defined[input.name] = true end
  for _, t in ipairs(graph.initializers) do defined[t.name] = true end
  add_nodes(state, graph.nodes, opsets, list, depth)
  local outer = state.outer
  state.outer = depth > 0
  local nodes = ordered(state, list, defined)
  for _, output in ipairs(graph.outputs) do
    if not defined[output.name] and not state.outer then
      blame.raise(("%s: the output '%s' is made by nothing"):format(state.what, told(output.name)))
    end
  end
  state.outer = outer
  return { nodes = nodes, inputs = graph.inputs, outputs = graph.outputs,
    initializers = graph.initializers, defined = defined }
end

-- What is not known, as one list.
local function refuse(state)
  local names, never, total = {}, {}, 0
  for name, count in pairs(state.unknown) do
    total = total + count
    local list = NEVER[name] and never or names
    list[#list + 1] = ('%s (%d)'):format(told(name), count)
  end
  if #never > 0 then
    table.sort(never)
    blame.raise(('%s: %s: loops are not run; ridge runs nodes one after the other'):format(
      state.what, table.concat(never, ', ')), 'ENOSUP', 'onnx.load')
  end
  if #names > 0 then
    table.sort(names)
    blame.raise(('%s: %d %s of %d operator%s that ridge has not: %s'):format(state.what, total,
      total == 1 and 'node' or 'nodes', #names, #names == 1 and '' or 's',
      table.concat(names, ', ')), 'ENOSUP', 'onnx.load')
  end
end

--- A model of a file, prepared for running.
---@param model table as ridge.onnx.file reads it
---@param what string for errors
---@return table graph
function M.model(model, what)
  local version = model.opset[''] or model.opset['ai.onnx']
  if version and (version < 1 or version > NEWEST) then
    blame.raise(('%s: it is of opset %d; %d to %d are read'):format(what, version, older.ALL,
      NEWEST), 'ENOSUP', 'onnx.load')
  end
  local most = math.min(MOST, FEWEST + math.floor((model.bytes or MOST * BYTES_EACH) / BYTES_EACH))
  local state = { what = what, functions = {}, unknown = {}, nodes = 0, calls = 0, outer = false,
    most = most }
  for _, f in ipairs(model.functions or {}) do
    state.functions[standard(f.domain) .. ':' .. f.name] = f
  end
  local graph = M.graph(state, model.graph, model.opset, 0)
  refuse(state)
  return graph
end

return M

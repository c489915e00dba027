-- SPDX-License-Identifier: MIT
--- The nodes of an ONNX graph, called one after the other.
--
-- What is known before anything runs (constants, sizes, what is computed from those) is computed
-- beside a capture, so that the graph has none of it, and so that an operator that reads a shape or
-- an axis knows it when a plan is made.

local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local node = require 'ridge.onnx.node'
local outside = require 'ridge.onnx.outside'

local M = {}

local MOST_TOLD = 2 ^ 24 -- numbers that an operator is told: each takes eight bytes of Lua's

local WEAK = { __mode = 'v' } -- a tensor that a call made is not held for the next
local FEW = 64 -- numbers of an input that are kept from one call to the next

-- The numbers of a tensor as they were, where nobody has written to it; who gets them may write to
-- the list.
local function numbers_of(n, i, x)
  if x.count > FEW then return outside.numbers(x) end
  local version = tonumber(C.rg_tensor_version(x._t))
  local kept = n.kept[i]
  if not kept or not rawequal(kept.of[1], x) or kept.version ~= version then
    kept = { of = setmetatable({ x }, WEAK), version = version, list = outside.numbers(x) }
    n.kept[i] = kept
  end
  local list = {}
  for k = 1, #kept.list do list[k] = kept.list[k] end
  return list
end

-- The numbers of an input that says how: nil where it is not there.
local function told(n, env, known, i)
  local name = n.inputs[i]
  if not name or name == '' then return nil end
  if outside.is_captured() and not known[name] then
    blame.raise(("%s: the numbers of input %d, '%s', say what is computed, and they are not known "
      .. 'when a plan is made'):format(n:label(), i, node.told(name)), 'ECAPTURE', n.op)
  end
  if env[name].count > MOST_TOLD then
    blame.raise(("%s: the numbers of input %d, '%s', say what is computed, and there are %d of "
      .. 'them; at most %d are read'):format(n:label(), i, node.told(name), env[name].count,
      MOST_TOLD), 'ENOSUP', n.op)
  end
  return numbers_of(n, i, env[name])
end

-- The inputs of a node in their places.
local function arguments(n, env, known)
  local list, entry = {}, n.entry
  n.known = known
  for i, name in ipairs(n.inputs) do list[i] = name ~= '' and env[name] or nil end
  local reads = type(entry) == 'table' and (entry.reads or entry.looks)
  if reads then
    n.given = {}
    for _, i in ipairs(reads) do
      n.given[i], list[i] = list[i], told(n, env, known, i)
    end
  end
  return list
end

local function is_known(n, known)
  if type(n.entry) == 'table' then
    if n.entry.draws then return false end
    if n.entry.of_shape then return true end
    if n.entry.of then return known[n.inputs[n.entry.of]] end
  end
  for _, name in ipairs(n.inputs) do
    if name ~= '' and not known[name] then return false end
  end
  return true
end

local function keep(n, env, count, ...)
  if select('#', ...) < count then
    for i = select('#', ...) + 1, count do
      if n:wants(i) then n:fail('there is no output %d of it', i) end
    end
  end
  for i = 1, count do
    if n:wants(i) then env[n.outputs[i]] = (select(i, ...)) end
  end
end

--- Compute one node.
---@param n table
---@param env table tensors by name
---@param known table names of what is known beforehand
local function compute(n, env, known)
  local run = type(n.entry) == 'table' and n.entry.run or n.entry
  local list = arguments(n, env, known)
  if is_known(n, known) then
    n.float_type = nil -- sizes keep their type: halves have no 257
    keep(n, env, #n.outputs, outside.call(run, n, unpack(list, 1, #n.inputs)))
    for _, output in ipairs(n.outputs) do known[output] = true end
  else
    keep(n, env, #n.outputs, run(n, unpack(list, 1, #n.inputs)))
  end
  n.given, n.known = nil, nil -- nothing is held that a recording made
end

-- One of two graphs, which has to be known.
local function branch(n, env, known, walk)
  local condition = n.inputs[1]
  if not known[condition] then
    blame.raise(("%s: its condition '%s' depends on data, and branches are not run; one that is "
      .. 'constant is left out'):format(n:label(), node.told(condition)), 'ENOSUP', 'If')
  end
  local graph = n.graphs[outside.numbers(env[condition])[1] ~= 0 and 'then_branch' or 'else_branch']
  if not graph then n:fail('it has no branch for this condition') end
  for _, inside in ipairs(graph.nodes) do
    inside.training, inside.float_type = n.training, n.float_type
  end
  local inner = setmetatable({}, { __index = env })
  local inner_known = setmetatable({}, { __index = known })
  for _, t in ipairs(graph.initializers) do
    inner[t.name] = require('ridge.onnx.file').tensor(t)
    inner_known[t.name] = true
  end
  walk(graph.nodes, inner, inner_known)
  for i, output in ipairs(graph.outputs) do
    if n:wants(i) then
      env[n.outputs[i]] = inner[output.name]
      known[n.outputs[i]] = inner_known[output.name]
    end
  end
end

--- Compute nodes in their order.
---@param nodes table
---@param env table tensors by name, filled
---@param known table names of what is known beforehand, filled
function M.walk(nodes, env, known)
  for i = 1, #nodes do
    local n = nodes[i]
    M.at = n
    if n.graphs then
      branch(n, env, known, M.walk)
    else
      compute(n, env, known)
    end
    for _, name in ipairs(n.drop or {}) do env[name] = nil end
  end
  M.at = nil
end

--- Note in each node which names nobody reads behind it.
---@param nodes table
---@param outputs table
function M.last_uses(nodes, outputs)
  local kept, seen = {}, {}
  for _, output in ipairs(outputs) do kept[output.name] = true end
  for i = #nodes, 1, -1 do
    local n, list = nodes[i], {}
    for _, names in ipairs { n.reads, n.outputs } do
      for _, name in ipairs(names) do
        if name ~= '' and not seen[name] and not kept[name] then
          seen[name] = true
          list[#list + 1] = name
        end
      end
    end
    n.drop = list
  end
end

-- Operators that are computed on sizes: what they are given says a shape where their result does.
local LIGHT = {}
for name in ([[Cast CastLike Gather Concat Slice Squeeze Unsqueeze Add Sub Mul Div Mod Range Reshape
  Identity ConstantOfShape Where Equal Less Greater LessOrEqual GreaterOrEqual Min Max Abs Neg Floor
  Ceil ReduceProd ReduceSum ReduceMax ReduceMin Expand Tile ScatterND ScatterElements Not And Or
  CumSum Split Flatten]]):gmatch '%a+' do
  LIGHT[name] = true
end

-- Goes through nodes from the last to the first.
local function demand(nodes, set, asked)
  for i = #nodes, 1, -1 do
    local n = nodes[i]
    local entry = type(n.entry) == 'table' and n.entry or {}
    for _, at in ipairs(entry.reads or {}) do
      local name = n.inputs[at]
      if name and name ~= '' then set[name], asked[name] = true, true end
    end
    local wanted = false
    for k, output in ipairs(n.outputs) do
      wanted = wanted or set[output]
      for _, g in pairs(set[output] and n.graphs or {}) do
        if g.outputs[k] then set[g.outputs[k].name] = true end
      end
    end
    if n.graphs then
      set[n.inputs[1]] = true
      for _, g in pairs(n.graphs) do demand(g.nodes, set, asked) end
    end
    if LIGHT[n.op] and wanted then
      for k, name in ipairs(n.inputs) do
        if not entry.of or k == entry.of then set[name] = true end
      end
    end
  end
  return set, asked
end

--- Values that say a shape, an axis or how something is computed, in operators or through others.
---@param nodes table
---@return table set of names
---@return table set of names that operators ask for themselves
function M.demanded(nodes)
  return demand(nodes, {}, {})
end

return M

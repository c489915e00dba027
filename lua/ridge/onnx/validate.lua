-- SPDX-License-Identifier: MIT
--- Is a file what the specification asks for?  It is read back, and each node compared with what is
--- known of its operator.

local blame = require 'ridge.blame'
local file = require 'ridge.onnx.file'
local operators = require 'ridge.onnx.operators'
local types = require 'ridge.onnx.types'

local M = {}

local function node_fault(node, i, opset)
  local entry = operators[node.op]
  local about = ('node %d (%s)'):format(i, node.op)
  if node.domain ~= '' or not entry then return about .. ' is of no operator that export writes' end
  if entry.since > opset then
    return ('%s is there since version %d; the file is of %d'):format(about, entry.since, opset)
  end
  if #node.inputs < entry.least or #node.inputs > entry.most then
    return ('%s has %d inputs'):format(about, #node.inputs)
  end
  for k = 1, entry.least do
    if node.inputs[k] == '' then return ('%s has no input %d'):format(about, k) end
  end
  if #node.outputs < 1 or #node.outputs > entry.outputs then
    return ('%s has %d outputs'):format(about, #node.outputs)
  end
  for name, a in pairs(node.attributes) do
    if entry.attributes[name] ~= a.type then
      return ('%s has the attribute %s of type %s'):format(about, name, tostring(a.type))
    end
  end
  -- what moved from attributes to inputs
  if node.op:find '^Reduce' and node.op ~= 'ReduceSum'
    and (opset >= 18) ~= (node.attributes.axes == nil) then
    return about .. ' has its axes where this version has them not'
  end
end

-- The types of a node's inputs against its operator; notes those of its outputs.
local function type_fault(node, i, opset, known)
  local kinds = {}
  for k, name in ipairs(node.inputs) do kinds[k] = known[name] end
  local about = ('node %d (%s)'):format(i, node.op)
  local kind = types.of(node.op, kinds)
  if kind and not types.takes(node.op, kind, opset) then
    return ('%s takes no %s in version %d'):format(about, kind, opset)
  end
  local first, other = types.clash(node.op, kinds, #node.inputs)
  if first then return ('%s is of %s and %s at once'):format(about, first, other) end
  for k, name in ipairs(node.outputs) do
    known[name] = types.gives(node.op, kinds, node.attributes, k)
  end
end

local function value_fault(v, what)
  if not v.type then return ('%s %s has no type'):format(what, blame.show(v.name)) end
  if not v.shape then return ('%s %s has no shape'):format(what, blame.show(v.name)) end
end

--- What is wrong with a file that export wrote; nil where nothing is.
---@param path string
---@return string|nil sentence
function M.fault(path)
  local ok, model = pcall(file.read, path, 'onnx.export')
  if not ok then
    if not blame.is_error(model) then error(model, 0) end
    blame.pass_interrupt(model)
    return model.message
  end
  local opset, made, known = model.opset[''], {}, {}
  for _, list in ipairs { model.graph.inputs, model.graph.initializers } do
    for _, v in ipairs(list) do known[v.name] = v.type end
  end
  for i, node in ipairs(model.graph.nodes) do
    local fault = node_fault(node, i, opset) or type_fault(node, i, opset, known)
    if fault then return fault end
    for _, name in ipairs(node.outputs) do made[name] = true end
  end
  for what, list in pairs { input = model.graph.inputs, output = model.graph.outputs,
    value = model.graph.values } do
    for _, v in ipairs(list) do
      local fault = value_fault(v, what)
      if not fault and what == 'value' and not made[v.name] then
        fault = ('value %s is made by nothing'):format(blame.show(v.name))
      end
      if not fault and known[v.name] and known[v.name] ~= v.type then
        fault = ('%s %s is of %s, and made as %s'):format(what, blame.show(v.name), v.type,
          known[v.name])
      end
      if fault then return fault end
    end
  end
  for _, t in ipairs(model.graph.initializers) do
    if made[t.name] then return ('weight %s is made by a node'):format(blame.show(t.name)) end
  end
end

return M

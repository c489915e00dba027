-- SPDX-License-Identifier: MIT
--- Follows the graph of a net: which places along the axes of its parameters can only go together
--- (Fang et al., DepGraph, 2023), and which outputs are 0 whatever comes in.
---
--- Each axis of a value has a label for each place, or none at all, where nothing can go. Rules
--- (ridge.prune.rules) say what an operation does with them; what has no rule lets nothing go that
--- comes into it.

local Labels = require 'ridge.prune.labels'
local class = require('ridge.class').class
local nets = require 'ridge.quant.nets'
local parameters = require 'ridge.prune.parameters'

local Follow = class 'prune.Follow'

--- Begin, with the parameters of a net.
---@param net table
---@param skipped function of a layer's name: is it to stay as it is?
function Follow:init(net, skipped)
  self.labels, self.state, self.uses = Labels(), {}, {}
  self.params, self.modules, self.skipped = parameters.of(net), {}, skipped
  nets.each(net, function(module, name)
    self.modules[name == '' and getmetatable(module).__name or name] = module
  end)
end

-- -- Values ---------------------------------------------------------------------------------------

-- Labels of a parameter: of those axes along which its module can shrink, and of all its modules
-- where it is tied.
local function begin(self, value)
  local s = { axes = {}, zero = {}, param = self.params[value.name] }
  for _, place in ipairs(s.param and s.param.places or {}) do
    local can = self.skipped(place.module_name) and {} or parameters.axes(place)
    s.can = s.can or can
    for axis in pairs(s.can) do s.can[axis] = s.can[axis] and can[axis] end
    s.skipped = s.skipped or self.skipped(place.module_name)
  end
  for axis = 1, #value.shape do
    if s.can and s.can[axis] then s.axes[axis] = self.labels:fresh(value.shape[axis]) end
  end
  if s.param then s.param.state = s end
  return s
end

--- What is known of a value: axes (labels by axis), zero (which places along an axis are 0).
---@param value table
---@return table
function Follow:of(value)
  local s = self.state[value.id]
  if not s then
    s = value.producer and { axes = {}, zero = {} } or begin(self, value)
    self.state[value.id] = s
  end
  return s
end

--- The labels of an axis, all fixed where it has none.
---@param value table
---@param axis integer
---@return integer[]
function Follow:labels_of(value, axis)
  local found = self:of(value).axes[axis]
  if found then return found end
  found = {}
  for i = 1, value.shape[axis] do found[i] = Labels.FIXED end
  return found
end

--- Which places along an axis are 0, or an empty table.
---@param value table
---@param axis integer
---@return table
function Follow:zeros_of(value, axis) return self:of(value).zero[axis] or {} end

--- Let an axis of a value have these labels.
---@param value table
---@param axis integer
---@param labels integer[]|nil
---@param zero table|nil
function Follow:put(value, axis, labels, zero)
  local s = self:of(value)
  s.axes[axis], s.zero[axis] = labels, zero
end

-- -- What rules do --------------------------------------------------------------------------------

--- What the operation at hand is, for reasons.
---@return string
function Follow:where()
  return self.node.op .. (self.node.module and (' (%s)'):format(self.node.module) or '')
end

--- Let two lists of labels go together, one by one.
---@param a integer[]
---@param b integer[]
function Follow:join(a, b)
  local why = ('%s brings it together with what cannot shrink'):format(self:where())
  for i = 1, #a do self.labels:join(a[i], b[i], why) end
end

--- Let nothing go along an axis of a value, or along any.
---@param value table|false
---@param why string
---@param axis integer|nil
function Follow:freeze(value, why, axis)
  if not value then return end
  for at, labels in pairs(self:of(value).axes) do
    if not axis or at == axis then
      for _, label in ipairs(labels) do self.labels:freeze(label, why) end
    end
  end
end

--- Places along an axis are summed up here: those that are 0 can go and change nothing.
---@param labels integer[]
---@param zero table
---@param without table|nil places whose weights are 0
---@param in_weight boolean is what they are multiplied by a parameter?
function Follow:use(labels, zero, without, in_weight)
  for i, label in ipairs(labels) do
    self.uses[#self.uses + 1] = { label = label, in_weight = in_weight,
      zero = zero[i] or without and without[i] or false }
  end
end

--- Follow all nodes of a graph.
---@param graph table
---@param rules table by operation
---@return table self
function Follow:run(graph, rules)
  for _, node in ipairs(graph:nodes()) do
    if not node.parent then
      self.node = node
      local rule = rules[node.op]
      if not rule or rule(self, node, unpack(node.inputs)) == false then
        local why = ('%s cannot be followed'):format(self:where())
        for _, value in ipairs(node.inputs) do self:freeze(value, why) end
      end
    end
  end
  for _, out in ipairs(graph:outputs()) do self:freeze(out.value, 'it is what the net answers') end
  for _, state in ipairs(graph:states()) do self:freeze(state, 'the net writes to it') end
  return self
end

return Follow

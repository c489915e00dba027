-- SPDX-License-Identifier: MIT
--- Labels of places along axes: places that can only go together have one label (union-find;
--- Tarjan, 1975).

local class = require('ridge.class').class

local Labels = class 'prune.Labels'

--- Label 1 is that of all places that cannot go.
Labels.FIXED = 1

--- No labels but FIXED.
function Labels:init() self.parent, self.why, self.n = { 1 }, {}, 1 end

--- Labels for an axis, each its own.
---@param n integer
---@return integer[]
function Labels:fresh(n)
  local list = {}
  for i = 1, n do
    self.n = self.n + 1
    self.parent[self.n] = self.n
    list[i] = self.n
  end
  return list
end

--- The label that stands for all that go together with this one.
---@param label integer
---@return integer
function Labels:find(label)
  local parent = self.parent
  while parent[label] ~= label do
    parent[label] = parent[parent[label]]
    label = parent[label]
  end
  return label
end

--- Why a label cannot go, or nil.
---@param label integer
---@return string|nil
function Labels:frozen(label)
  if label == Labels.FIXED then return 'it is no part of a layer that can shrink' end
  return self.why[self:find(label)]
end

--- Say that a label cannot go.
---@param label integer
---@param why string
function Labels:freeze(label, why)
  if label == Labels.FIXED then return end
  local root = self:find(label)
  self.why[root] = self.why[root] or why
end

--- Let two labels go together.
---@param a integer
---@param b integer
---@param why string why the other one cannot go, where one of them is fixed
function Labels:join(a, b, why)
  if a == Labels.FIXED or b == Labels.FIXED then
    return self:freeze(a == Labels.FIXED and b or a, why)
  end
  a, b = self:find(a), self:find(b)
  if a == b then return end
  self.parent[b] = a
  self.why[a] = self.why[a] or self.why[b]
  self.why[b] = nil
end

return Labels

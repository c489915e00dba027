-- SPDX-License-Identifier: MIT
--- What can go from a net, as units: a unit is all places along axes of parameters that can only go
--- together. Units of the same axes are a group, as the channels between two layers are.

local Follow = require 'ridge.prune.follow'
local graph = require 'ridge.graph'
local parameters = require 'ridge.prune.parameters'
local rules = require 'ridge.prune.rules'

local M = {}

-- Every parameter once, sorted by name.
local function sorted(params)
  local list, seen = {}, {}
  for _, p in pairs(params) do
    if not seen[p] and p.state then list[#list + 1] = p end
    seen[p] = true
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

-- Units by the label that stands for them.
local function collect(f, list)
  local units = {}
  for number, p in ipairs(list) do
    for axis, labels in pairs(p.state.axes) do
      for at, label in ipairs(labels) do
        local root = f.labels:find(label)
        if not f.labels:frozen(root) then
          local unit = units[root] or { members = {}, at = {}, root = root, axes = {} }
          units[root] = unit
          local key = ('%04d:%d'):format(number, axis)
          if not unit.at[key] then
            unit.at[key] = { param = p, axis = axis, index = {} }
            unit.axes[#unit.axes + 1] = key
            unit.members[#unit.members + 1] = unit.at[key]
          end
          table.insert(unit.at[key].index, at)
        end
      end
    end
  end
  return units
end

-- Which units are summed up somewhere, and what is known of them there.
local function note_uses(f, units)
  for _, use in ipairs(f.uses) do
    local unit = units[f.labels:find(use.label)]
    if unit then
      unit.used = true
      unit.alive = unit.alive or not use.zero
      unit.unseen = unit.unseen or not use.in_weight
    end
  end
end

local function grouped(units)
  local groups, by = {}, {}
  local roots = {}
  for root in pairs(units) do roots[#roots + 1] = root end
  table.sort(roots)
  for _, root in ipairs(roots) do
    local unit = units[root]
    if unit.used then
      table.sort(unit.axes)
      local key = table.concat(unit.axes, ' ')
      if not by[key] then
        by[key] = { units = {}, key = key }
        groups[#groups + 1] = by[key]
      end
      table.insert(by[key].units, unit)
    end
  end
  for _, group in ipairs(groups) do -- in the order that they have in the first of their axes
    local first = group.units[1].axes[1]
    table.sort(group.units, function(a, b) return a.at[first].index[1] < b.at[first].index[1] end)
  end
  table.sort(groups, function(a, b) return a.key < b.key end)
  return groups
end

local ONE = 'its outputs can only go all together'

-- Units alone in their group are all of it: without them nothing would be left.
local function without_single(f, groups)
  local found = {}
  for _, group in ipairs(groups) do
    if #group.units > 1 then
      found[#found + 1] = group
    else
      f.labels:freeze(group.units[1].root, ONE)
    end
  end
  return found
end

-- Why no output of a layer can go.
local function why_whole(f, p)
  if p.state.skipped then return 'named in skip' end
  local table_of_rows = getmetatable(p.places[1].module).__name == 'nn.Embedding'
  local labels = p.state.axes[table_of_rows and 2 or 1]
  if not labels then return 'its outputs are no part of what can shrink' end
  local found
  for _, label in ipairs(labels) do
    local why = f.labels:frozen(label)
    if not why then return nil end
    found = found or why
  end
  return found
end

-- Layers whose outputs stay as many as they are, each with its reason.
local function whole(f, list)
  local left = {}
  for _, p in ipairs(list) do
    local place = p.places[1]
    if p.tensor.ndim >= 2 and not place.own:find '_mask$' then
      local why = why_whole(f, p)
      if why then
        left[#left + 1] = { name = place.module_name, why = why,
          class = getmetatable(place.module).__name }
      end
    end
  end
  return left
end

--- The units of a net, by groups.
---@param net table module in evaluation mode
---@param inputs table tensors that it is called with
---@param skipped function of a layer's name
---@return table groups {units {members {param, axis, index}, alive, unseen}}: alive units do
---  something; unseen ones are multiplied by no parameter
---@return table left layers that stay whole {name, class, why}
function M.of(net, inputs, skipped)
  local f = Follow(net, skipped):run(graph(net, unpack(inputs)), rules)
  local list = sorted(f.params)
  local units = collect(f, list)
  note_uses(f, units)
  local groups = without_single(f, grouped(units))
  return groups, whole(f, list)
end

--- The same units in a copy of their net.
---@param net table
---@param list table[] units
---@return table[]
function M.same(net, list)
  local params, out = parameters.of(net), {}
  for i, unit in ipairs(list) do
    local members = {}
    for k, m in ipairs(unit.members) do
      members[k] = { param = params[m.param.name], axis = m.axis, index = m.index }
    end
    out[i] = { members = members }
  end
  return out
end

return M

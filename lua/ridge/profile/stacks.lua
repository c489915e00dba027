-- SPDX-License-Identifier: MIT
--- The tree of a profile as stacks: folded, as flamegraph.pl reads them, and for speedscope.

local escape = require 'ridge.profile.escape'

local M = {}

--- What a node is called: operations as they are, what holds others by what it is.
---@param node table
---@return string
function M.label(node)
  if node.kind == 'module' and node.name:find '^%d' then return 'module ' .. node.name end
  return node.name
end

-- Each stack with time of its own: f(list of labels, node).
local function each(root, f)
  local stack = {}
  local function visit(node, depth)
    stack[depth] = M.label(node)
    stack[depth + 1] = nil
    if node.self_ns > 0 then f(stack, node) end
    for _, inner in ipairs(node.within) do visit(inner, depth + 1) end
    stack[depth] = nil
  end
  visit(root, 1)
end

-- A frame cannot hold what divides frames and lines.
local function frame(label) return (label:gsub('[;%c]', '_')) end

--- A line a stack: frames by semicolons, then nanoseconds that were its own.
---@param p table profile
---@return string
function M.folded(p)
  local lines = {}
  each(p.tree, function(stack, node)
    local frames = {}
    for i, label in ipairs(stack) do frames[i] = frame(label) end
    lines[#lines + 1] = ('%s %.0f\n'):format(table.concat(frames, ';'), node.self_ns)
  end)
  return table.concat(lines)
end

--- A file of speedscope: one sample a stack, its weight the nanoseconds that were its own.
---@param p table profile
---@return string
function M.speedscope(p)
  local frames, index, samples, weights, sum = {}, {}, {}, {}, 0
  each(p.tree, function(stack, node)
    local list = {}
    for i, label in ipairs(stack) do
      if not index[label] then
        frames[#frames + 1] = ('{"name":%s}'):format(escape.json(label))
        index[label] = #frames - 1
      end
      list[i] = index[label]
    end
    samples[#samples + 1] = '[' .. table.concat(list, ',') .. ']'
    local ns = math.floor(node.self_ns + 0.5) -- samples divide times: they are not whole
    weights[#weights + 1] = ('%d'):format(ns)
    sum = sum + ns
  end)
  return ('{"$schema":"https://www.speedscope.app/file-format-schema.json","exporter":"ridge",'
    .. '"name":"ridge.profile","activeProfileIndex":0,"shared":{"frames":[%s]},"profiles":[{'
    .. '"type":"sampled","name":"operations","unit":"nanoseconds","startValue":0,"endValue":%.0f,'
    .. '"samples":[%s],"weights":[%s]}]}\n'):format(table.concat(frames, ','), sum,
    table.concat(samples, ','), table.concat(weights, ','))
end

return M

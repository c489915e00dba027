-- SPDX-License-Identifier: MIT
--- Where the time between operations goes: samples of Lua in the tree of events. What lay in an
--- operation is known exactly and stays as it is; the own time of what holds operations (a section,
--- a module, all of it) is that of Lua and of what Lua called there, and is divided as the samples
--- that were taken in it are: by functions and lines, and by what LuaJIT did. Where none was taken
--- it stays whole.

local samples = require 'ridge.profile.samples'
local tree = require 'ridge.profile.tree'

local M = {}

local HOLDS = { all = true, section = true, module = true, plan = true, compound = true }

-- -- When ---------------------------------------------------------------------------------------

-- The node that a moment was in, moments one after the other; nil: in an operation, or in nothing
-- that counts. Events are read in the order they began, and lie in each other.
local function finder(copy, t, windows)
  local at, open, depth = 0, {}, 0
  return function(ns)
    while at < copy.n and tonumber(copy.events[at].begin_ns) <= ns do
      local event, node = copy.events[at], t.nodes[at] or t.meanwhile[at]
      if node and event.end_ns >= 0 then
        local from, to = tonumber(event.begin_ns), tonumber(event.end_ns)
        while depth > 0 and open[depth].to <= from do depth = depth - 1 end
        depth = depth + 1
        open[depth] = open[depth] or {}
        open[depth].to, open[depth].node = to, node
      end
      at = at + 1
    end
    while depth > 0 and open[depth].to <= ns do depth = depth - 1 end
    if not tree.window(windows, ns) then return nil end
    local node = depth > 0 and open[depth].node or t.root
    return HOLDS[node.kind] and node or nil
  end
end

-- -- What ---------------------------------------------------------------------------------------

-- Frames that every call over a border has, and that say nothing of it.
local BORDERS = { ['ridge/guard.lua'] = true, ['ridge/class.lua'] = true,
  ['ridge/state.lua'] = true }
-- What calls what is in a section, a module, the profile: frames from there on are those of the
-- node, whose place in the tree says it.
local CALLERS = { ['ridge/ranges.lua'] = true, ['ridge/profile/init.lua'] = true }

local function source_of(frame) return frame.place:match 'ridge/[%w_/]+%.lua' end

local function label_of(frame)
  if frame.name:find ':%d+$' then return frame.place end -- it has no name but its first line
  return ('%s %s'):format(frame.name, frame.place)
end

-- The frames of a stack that are within a node, the outermost first. Kept with the stack.
local function path_of(stack)
  if stack.path then return stack.path end
  local path = {}
  for _, frame in ipairs(stack) do
    local source = source_of(frame)
    if source and CALLERS[source] then break end
    if frame.is_lua and not (source and BORDERS[source]) then
      table.insert(path, 1, label_of(frame))
    end
  end
  stack.path = path
  return path
end

local function node_below(above, name, kind)
  local node = tree.below(above, name, kind, above.module)
  node.layer, node.section = above.layer, above.section
  return node
end

-- Divide the own time of a node by the stacks seen in it.
local function divide(node, seen)
  local each = node.self_ns / seen.n
  node.between_ns, node.self_ns = node.self_ns, 0
  for _, stack in ipairs(seen) do
    local n = seen.stacks[stack]
    local at, ns = node, each * n
    for _, label in ipairs(path_of(stack)) do
      at = node_below(at, label, 'lua')
      at.ns = at.ns + ns
    end
    at = node_below(at, stack.state, 'state')
    at.ns, at.self_ns, at.samples = at.ns + ns, at.self_ns + ns, (at.samples or 0) + n
  end
end

-- Rows of a table: where and what LuaJIT did there, and its time, all of them together what lay
-- between operations and was sampled.
local function rows_of(root)
  local by, list = {}, {}
  tree.walk(root, function(node)
    if node.kind ~= 'state' then return end
    local line = node.above.kind == 'lua' and node.above.name or 'C'
    local key = line .. '\0' .. node.name
    local row = by[key]
    if not row then
      row = { name = line, state = node.name, ns = 0, self_ns = 0, samples = 0, calls = 0,
        flops = 0, bytes = 0 }
      by[key] = row
      list[#list + 1] = row
    end
    row.ns, row.self_ns = row.ns + node.self_ns, row.self_ns + node.self_ns
    row.samples = row.samples + node.samples
  end)
  table.sort(list, function(a, b)
    if a.ns ~= b.ns then return a.ns > b.ns end
    return a.name .. a.state < b.name .. b.state
  end)
  return list
end

--- Put samples into a tree.
---@param t table as ridge.profile.tree gives it
---@param copy table events, as ridge.ring copies them
---@param windows table what of them counts
---@param taken table|nil samples (ridge.profile.samples)
---@return table rows name (function and line), state, ns, samples
function M.join(t, copy, windows, taken)
  local find, by_node = finder(copy, t, windows), {}
  samples.each(taken, function(ns, stack)
    local node = find(ns)
    if not node then return end
    local seen = by_node[node]
    if not seen then
      seen = { n = 0, stacks = {} }
      by_node[node] = seen
    end
    if not seen.stacks[stack] then seen[#seen + 1] = stack end
    seen.n, seen.stacks[stack] = seen.n + 1, (seen.stacks[stack] or 0) + 1
  end)
  for node, seen in pairs(by_node) do
    if node.self_ns > 0 then divide(node, seen) end
  end
  return rows_of(t.root)
end

return M

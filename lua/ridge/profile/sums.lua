-- SPDX-License-Identifier: MIT
--- What events come to: time, arithmetic and traffic by operation, by call, by layer, by section.

local between = require 'ridge.profile.between'
local tree = require 'ridge.profile.tree'

local M = {}

-- -- Lists of sums by a key each --------------------------------------------------------------

local Sums = {}
Sums.__index = Sums

local function sums() return setmetatable({ list = {}, by_key = {} }, Sums) end

function Sums:of(key, fields)
  local entry = self.by_key[key]
  if not entry then
    entry = fields
    entry.calls, entry.ns, entry.self_ns, entry.flops, entry.bytes = 0, 0, 0, 0, 0
    self.by_key[key] = entry
    table.insert(self.list, entry)
  end
  return entry
end

-- Events of one kind of call; ns is what of its time counts: none in which its coroutine waited.
local function add(entry, event, ns, own)
  entry.calls, entry.ns = entry.calls + 1, entry.ns + ns
  entry.self_ns = entry.self_ns + own
  entry.flops, entry.bytes = entry.flops + event.flops, entry.bytes + event.bytes
  if event.device_ns then entry.device_ns = (entry.device_ns or 0) + event.device_ns end
end

-- -- Orders -----------------------------------------------------------------------------------

local function time_of(e) return e.device_ns or e.self_ns or e.ns end

--- What tables can be sorted by, the largest first; names the other way round.
M.ORDERS = {
  time = time_of,
  total = function(e) return e.total_ns or e.ns end,
  calls = function(e) return e.calls end,
  flops = function(e) return e.flops end,
  bytes = function(e) return e.bytes end,
  rate = function(e) return e.flops / math.max(1, time_of(e)) end,
  traffic = function(e) return e.bytes / math.max(1, time_of(e)) end,
  name = false,
}

--- Sort a list of sums in place.
---@param list table
---@param order string|nil a name of ORDERS, 'time' when left out
---@return table list
function M.sort(list, order)
  local value = M.ORDERS[order or 'time']
  local place = {}
  for i, e in ipairs(list) do place[e] = i end -- equal ones stay as they are
  table.sort(list, function(a, b)
    local x, y = value and value(a) or a.op or a.name, value and value(b) or b.op or b.name
    if x == y then return place[a] < place[b] end
    if value then return x > y end
    return x < y
  end)
  return list
end

-- -- Layers and sections ----------------------------------------------------------------------

-- Whose time a node's own is: a module's, or outside of all that of a section.
local function layer_of(node)
  return node.module or node.section and '(' .. node.section .. ')' or '(outside)'
end

-- What is no operation's own is Lua's, and of what Lua calls.
local KINDS_OF_TIME = { module = 'lua_ns', section = 'lua_ns', all = 'lua_ns', plan = 'lua_ns',
  compound = 'lua_ns', wait = 'lua_ns', lua = 'lua_ns', state = 'lua_ns' }

-- What has arithmetic and traffic of its own; what holds others has theirs.
local COUNTED = { op = true, step = true, copy = true, view = true }

-- One row a module, and for what is in none one a section: together they are all of the time.
local function layers_of(root)
  local by, above = sums(), {}
  tree.walk(root, function(node)
    local entry = by:of(layer_of(node), { name = layer_of(node), module = node.module,
      forward_ns = 0, backward_ns = 0, lua_ns = 0 })
    local part = KINDS_OF_TIME[node.kind]
      or (node.section == 'backward' and 'backward_ns' or 'forward_ns')
    entry[part] = entry[part] + node.self_ns
    entry.self_ns = entry.self_ns + node.self_ns
    if node.kind == 'module' then
      entry.calls = entry.calls + node.calls
      above[entry] = above[entry] or node.above.layer and by.by_key[node.above.layer]
    elseif COUNTED[node.kind] then
      entry.flops, entry.bytes = entry.flops + node.flops, entry.bytes + node.bytes
      if node.device_ns then entry.device_ns = (entry.device_ns or 0) + node.device_ns end
    end
  end)
  for _, entry in ipairs(by.list) do entry.ns, entry.total_ns = entry.self_ns, 0 end
  for _, entry in ipairs(by.list) do
    local at, seen = entry, {}
    while at and not seen[at] do
      seen[at] = true
      at.total_ns = at.total_ns + entry.self_ns
      at = above[at]
    end
  end
  return by.list
end

local function sections_of(root)
  local by = sums()
  tree.walk(root, function(node)
    if node.kind ~= 'section' then return end
    local entry = by:of(node.name, { name = node.name })
    entry.self_ns = entry.self_ns + (node.between_ns or node.self_ns)
    if not tree.repeats(node) then -- the user's 'backward' has the tape's in it: one call, one time
      entry.calls, entry.ns = entry.calls + node.calls, entry.ns + node.ns
      entry.flops, entry.bytes = entry.flops + node.flops, entry.bytes + node.bytes
    end
  end)
  return by.list
end

-- What is done inside a section counts for it: sums go up the tree.
local function carry_up(root)
  local function visit(node)
    for _, inner in ipairs(node.within) do
      visit(inner)
      if node.kind ~= 'plan' and node.kind ~= 'compound' then -- these have their own counts
        node.flops, node.bytes = node.flops + inner.flops, node.bytes + inner.bytes
      end
    end
  end
  visit(root)
end

-- -- All of it --------------------------------------------------------------------------------

-- What the profile says of one operation or step.
local function add_call(p, event, plan, ns, own, layer)
  local step = event.kind == 'step' and event.step + 1 or nil
  add(p.by_op:of(event.name .. ' ' .. event.path, { op = event.name, path = event.path,
    device = event.device }), event, ns, own)
  local key = table.concat({ event.name, event.path, event.shapes, event.module or '',
    plan or '', step or '', event.device }, '\0')
  local function fields()
    return { op = event.name, path = event.path, shapes = event.shapes, module = event.module,
      plan = plan, step = step, device = event.device, threads = event.n_threads }
  end
  add(p.by_call:of(key, fields()), event, ns, own)
  p.parts[layer] = p.parts[layer] or sums()
  add(p.parts[layer]:of(key, fields()), event, ns, own)
  p.op_ns = p.op_ns + own
  if event.device_ns then p.device_ns = (p.device_ns or 0) + event.device_ns end
end

-- Time of a range within one of the same name is in that one's already: recursion is timed once.
local function add_range(p, event, ns, own, node)
  local entry = p.by_range:of(event.name, { name = event.name })
  local before = entry.ns
  add(entry, event, ns, own)
  if tree.repeats(node) then entry.ns = before end
end

local function shares(list, ns)
  for _, e in ipairs(list) do
    local seconds = time_of(e) / 1e9
    e.share = ns > 0 and time_of(e) / ns or 0
    if seconds > 0 then e.gflops, e.gbps = e.flops / seconds / 1e9, e.bytes / seconds / 1e9 end
  end
  return list
end

--- Fill a profile: operations, calls, steps, ranges, layers, sections, op_ns, device_ns, wait_ns.
---@param out table the profile; ns: all of its time
---@param copy table events, as ridge.ring copies them
---@param windows table what of them counts, as ridge.profile.tree takes it
---@param taken table|nil samples of Lua
---@return table out
function M.fill(out, copy, windows, taken)
  local t = tree.of(copy, windows, out.ns)
  out.between = between.join(t, copy, windows, taken)
  local p = { by_op = sums(), by_call = sums(), by_range = sums(), parts = {},
    op_ns = 0 }
  local plans = {} -- number of a plan by the serial of its replays
  local wait_ns, copy_ns = 0, 0
  for event, i in copy:each() do
    if event.kind == 'plan' then plans[event.serial] = event.step end
    if t.nodes[i] and event.end_ns then
      if event.kind == 'range' then
        add_range(p, event, t.ns[i], t.own[i], t.nodes[i])
      elseif event.kind == 'wait' then
        wait_ns = wait_ns + t.own[i]
      elseif event.kind == 'copy' then
        copy_ns = copy_ns + t.own[i]
      elseif event.kind ~= 'plan' then
        add_call(p, event, event.kind == 'step' and plans[event.parent] or nil, t.ns[i],
          t.own[i], layer_of(t.nodes[i]))
      end
    end
  end
  out.tree = t.root
  out.layers = M.sort(shares(layers_of(t.root), out.ns))
  shares(out.between, out.ns)
  for _, layer in ipairs(out.layers) do
    layer.parts = p.parts[layer.name] and p.parts[layer.name].list or {}
  end
  carry_up(t.root)
  out.sections = M.sort(shares(sections_of(t.root), out.ns), 'total')
  out.operations, out.calls = M.sort(shares(p.by_op.list, out.ns)), shares(p.by_call.list, out.ns)
  out.op_ns, out.device_ns, out.ranges = p.op_ns, p.device_ns, M.sort(p.by_range.list, 'total')
  out.wait_ns, out.copy_ns = wait_ns, copy_ns
  out.steps = {}
  for _, entry in ipairs(out.calls) do
    if entry.step then table.insert(out.steps, entry) end
  end
  table.sort(out.steps, function(a, b)
    if a.plan ~= b.plan then return (a.plan or 0) < (b.plan or 0) end
    return a.step < b.step
  end)
  M.sort(out.calls)
  return out
end

return M

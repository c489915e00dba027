-- SPDX-License-Identifier: MIT
--- Events as a tree: what each was in, and the time that was its own, nobody's within it. Those of
--- one name in one place are one node. Own times of all nodes add up to what was measured.

local ffi = require 'ffi'
local ranges = require 'ridge.ranges'

local M = {}

local CONTAINERS = { range = true, plan = true }

--- Kinds of events that others are in.
M.HOLDS = CONTAINERS

local MOMENTS = { alloc = true, free = true }
local SECTION, MODULE, COMPOUND = 'section', 'module', 'compound'

-- What an event is to people: a call of a module is a range that has its own path, an operation
-- made of several one that has shapes.
local function kind_of(event)
  if event.kind ~= 'range' then return event.kind end
  if event.shapes ~= '' then return COMPOUND end
  return event.module == event.name and MODULE or SECTION
end

local function new_node(name, kind, above)
  return { name = name, kind = kind, above = above, calls = 0, ns = 0, self_ns = 0, flops = 0,
    bytes = 0, within = {}, by_key = {} }
end

--- The node of a name and a kind right below another one, a new one where there is none.
---@param above table
---@param name string
---@param kind string
---@param module string|nil whose it is
---@return table node
function M.below(above, name, kind, module)
  local key = kind .. ' ' .. name .. ' ' .. (module or '')
  local node = above.by_key[key]
  if not node then
    node = new_node(name, kind, above)
    node.module = module
    node.section = kind == SECTION and name or above.section
    node.layer = kind == MODULE and name or above.layer
    above.by_key[key] = node
    above.within[#above.within + 1] = node
  end
  return node
end

-- The node of an event. What is a module's and not in its call, as in backward passes and plans, is
-- in a node of the module's.
local function node_of(above, event)
  local kind, module = kind_of(event), event.module
  if kind ~= MODULE and module and module ~= above.layer then
    above = M.below(above, module, MODULE, module)
  end
  return M.below(above, event.name, kind, module)
end

local function search(windows, value, from, behind)
  local low, high = 1, #windows
  while low <= high do
    local at = math.floor((low + high) / 2)
    if value < windows[at][from] then
      high = at - 1
    elseif value >= windows[at][behind] then
      low = at + 1
    else
      return at
    end
  end
end

--- In which of some windows a time lies; nil: in none.
---@param windows table list of {from =, to =} in nanoseconds, one after the other
---@param ns number
---@return integer|nil which
function M.window(windows, ns) return search(windows, ns, 'from', 'to') end

--- In which of them an event began, by its serial: events have a clock of their own, which may say
--- some nanoseconds less than the one that windows are opened by.
---@param windows table list of {first =, behind =}, one after the other
---@param serial number
---@return integer|nil which
function M.window_of(windows, serial) return search(windows, serial, 'first', 'behind') end

-- The host's time before an event, since what came before it in a backward pass or a plan: there it
-- is the tape's, or the plan's, and for this event's sake. So it counts for the event's module.
local function gap_before(t, copy, i, parent, event)
  local above = t.nodes[parent]
  if event.module == nil or event.module == above.layer or kind_of(event) == MODULE
      or not (above.kind == 'plan' or above.kind == SECTION and above.name == 'backward') then
    return 0
  end
  local before = t.last[parent] > 0 and t.last[parent] or tonumber(copy.events[parent].begin_ns)
  return math.max(0, tonumber(copy.events[i].begin_ns) - before)
end

-- The time between two moments that lies in windows, from that on in which it began.
local function counted(windows, at, from, to)
  local ns = math.min(to, windows[at].to) - from
  for i = at + 1, #windows do
    if windows[i].from >= to then break end
    ns = ns + math.min(to, windows[i].to) - windows[i].from
  end
  return math.max(0, ns)
end

-- What is in nothing of its own coroutine's is in what that was resumed in: the range that began
-- last of those that go on, and whose coroutine does not wait.
local function around(running, ns)
  while running[#running] and running[#running].to <= ns do running[#running] = nil end
  for k = #running, 1, -1 do
    local range = running[k]
    if range.to > ns and range.waits_to <= ns then return range.i end
  end
end

-- The coroutine of a range waits, and that of the ranges around it.
local function wait(t, by_index, i, to)
  while i >= 0 and by_index[i] do
    by_index[i].waits_to = to
    i = t.resumed[i] == 0 and t.parent[i] or -1
  end
end

-- The node that is around all ranges of a coroutine, of which one is given.
local function outside_of(t, i)
  while i >= 0 and t.resumed[i] == 0 do i = t.parent[i] end
  return i >= 0 and t.nodes[t.parent[i]] or t.root
end

-- Which event each is in. One that began while a call was under way on this thread is in the call.
local function parents(copy, windows, t)
  local containers, open, depth = {}, {}, 0 -- index by serial; calls under way, their ends
  local running, by_index = {}, {}          -- ranges that go on, and all of them
  for event, i in copy:each() do
    local at = not MOMENTS[event.kind] and M.window_of(windows, event.serial)
    local parent = containers[event.parent]
    if event.kind == 'range' and event.name == ranges.YIELD then
      t.parent[i] = parent or -1
      local to = event.end_ns or math.huge
      t.waits[i] = at and counted(windows, at, event.begin_ns, to) or 0
      wait(t, by_index, t.parent[i], to)
      t.meanwhile[i] = outside_of(t, t.parent[i])
    elseif at then -- what lies in no window has no node
      while depth > 0 and event.begin_ns >= open[depth].to do depth = depth - 1 end
      if depth > 0 then parent = open[depth].i end
      if not parent then
        parent = around(running, event.begin_ns)
        t.resumed[i] = parent and 1 or 0
      end
      t.parent[i] = parent or -1
      local to = event.end_ns and math.min(event.end_ns, windows[at].to)
      t.ns[i] = to and counted(windows, at, event.begin_ns, event.end_ns) or 0
      t.known[i] = event.end_ns and 1 or 0
      if CONTAINERS[event.kind] then
        containers[event.serial] = i
        by_index[i] = { i = i, to = event.end_ns or -1, waits_to = -1 }
        running[#running + 1] = by_index[i]
      elseif to then
        depth = depth + 1
        open[depth] = open[depth] or {}
        open[depth].i, open[depth].to = i, to
      end
      local node = node_of(parent and t.nodes[parent] or t.root, event)
      t.nodes[i] = node
      if parent then
        t.gap[i] = gap_before(t, copy, i, parent, event)
        t.last[parent] = math.max(t.last[parent], to or 0)
      end
      node.calls, node.flops = node.calls + 1, node.flops + event.flops
      node.bytes = node.bytes + event.bytes
      if event.device_ns then node.device_ns = (node.device_ns or 0) + event.device_ns end
    end
  end
end

--- Call a function with each node, those above before those within.
---@param root table
---@param f fun(node: table)
function M.walk(root, f)
  f(root)
  for _, node in ipairs(root.within) do M.walk(node, f) end
end

--- The own times of a node and of all within it.
---@param node table
---@return number ns
function M.sum(node)
  local ns = node.self_ns
  for _, inner in ipairs(node.within) do ns = ns + M.sum(inner) end
  return ns
end

-- Children have higher places than their parents: from the end, each one's are complete.
local function own_times(copy, t, ns)
  local within, top = ffi.new('double[?]', copy.n), 0
  for i = copy.n - 1, 0, -1 do
    local node = t.nodes[i]
    if node then
      if t.known[i] == 0 then t.ns[i] = within[i] end -- it failed, or went on: what it held
      local waited = t.known[i] == 1 and t.waits[i] or 0
      t.ns[i] = math.max(0, t.ns[i] - waited)
      if t.parent[i] >= 0 and t.resumed[i] == 0 then
        t.waits[t.parent[i]] = t.waits[t.parent[i]] + waited
      end
      local own = math.max(0, t.ns[i] - within[i])
      node.ns, node.self_ns = node.ns + t.ns[i], node.self_ns + own
      t.own[i] = own
      if t.parent[i] >= 0 then
        within[t.parent[i]] = within[t.parent[i]] + t.ns[i] + t.gap[i]
        if t.gap[i] > 0 then node.above.self_ns = node.above.self_ns + t.gap[i] end
      else
        top = top + t.ns[i]
      end
    elseif t.waits[i] > 0 and t.parent[i] >= 0 then -- a yield
      t.waits[t.parent[i]] = t.waits[t.parent[i]] + t.waits[i]
    end
  end
  M.walk(t.root, function(node)
    if node.calls == 0 then node.ns = M.sum(node) end
  end)
  t.root.ns, t.root.self_ns, t.root.calls = ns, math.max(0, ns - top), 1
end

--- The tree of events that were copied.
---@param copy table ridge.ring's
---@param windows table list of {from =, to =} on the host's clock, {first =, behind =} of serials:
---  what lies outside is left out
---@param ns number how long the windows are together
---@return table tree root (name, kind, calls, ns, self_ns, flops, bytes, device_ns, section, layer,
---  module, above, within: nodes), nodes (by event: nil where it is in no window), parent (event by
---  event, -1: none), ns, own (of each event), meanwhile (by event, of yields: where others were)
function M.of(copy, windows, ns)
  local t = { root = new_node('all', 'all'), nodes = {}, meanwhile = {},
    parent = ffi.new('int32_t[?]', copy.n),
    ns = ffi.new('double[?]', copy.n), own = ffi.new('double[?]', copy.n),
    known = ffi.new('uint8_t[?]', copy.n), gap = ffi.new('double[?]', copy.n),
    last = ffi.new('double[?]', copy.n), waits = ffi.new('double[?]', copy.n),
    resumed = ffi.new('uint8_t[?]', copy.n) }
  parents(copy, windows, t)
  own_times(copy, t, ns)
  return t
end

--- Is a node within one of the same name and kind? Its time is in that one's already.
---@param node table
---@return boolean
function M.repeats(node)
  local above = node.above
  while above do
    if above.name == node.name and above.kind == node.kind then return true end
    above = above.above
  end
  return false
end

return M

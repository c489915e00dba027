-- SPDX-License-Identifier: MIT
--- What memory a graph needs: g:memory().

local blame = require 'ridge.blame'
local ffi = require 'ffi'
local call = require 'ridge.ffi.call'
local dtype = require 'ridge.tensor.dtype'
local guard = require 'ridge.guard'
local unit = require 'ridge.show.unit'

local C = require 'ridge.ffi.lib'
local M = {}

local Memory = {}
Memory.__index = Memory

local function bytes_of(value)
  local n = dtype.bytes[value.dtype]
  for _, size in ipairs(value.shape) do n = n * size end
  return n
end

local function text(bytes) return unit.format('bytes', bytes) end

function Memory:__tostring()
  local lines = {
    ('live at the peak  %s, at node %s'):format(text(self.peak),
      self.at and ('%d (%s)'):format(self.at.id, self.at.op) or 'none'),
    ('lower bound       %s, of what one node reads and makes'):format(text(self.bound)),
    ('read from outside %s'):format(text(self.outside)),
  }
  if self.plan then
    local run = self.plan - self.derived -- what serves each run anew
    table.insert(lines, 2, ('a plan takes      %s, %.2f of the peak'):format(text(run),
      self.peak > 0 and run / self.peak or 1))
    if self.live > 0 then
      table.insert(lines, 3, ('                  %.2f of what its kernels need at one time, %s')
        :format(run / self.live, text(self.live)))
    end
    if self.derived > 0 then
      lines[#lines + 1] = ('derived weights   %s, which a plan makes once and keeps, of %s that '
        .. 'nothing else reads'):format(text(self.derived), text(self.replaced))
    end
  else
    table.insert(lines, 2, 'a plan takes      nobody knows: ' .. self.why)
  end
  return table.concat(lines, '\n')
end
Memory.__tostring = guard.text(Memory.__tostring)

-- Whose results a plan keeps: true by the number of a node.
local function kept_of(graph, nodes)
  local facts, kept = ffi.new 'rg_graph_facts', {}
  C.rg_graph_facts_of(graph._p, facts)
  local flags = ffi.new('uint8_t[?]', math.max(1, facts.n_node_ids))
  call.check(C.rg_graph_kept(graph._p, flags), 'graph:memory')
  for _, node in ipairs(nodes) do kept[node.id] = flags[node.id] ~= 0 end
  return kept
end

-- A node needs a storage: who does so only to derive weights needs it once. Views show it to
-- others, and bodies stand for their compounds.
local function note_reader(s, node, kept)
  if #node.body > 0 then return end
  for _, value in ipairs(node.outputs) do
    if value and value.storage == s.number then return end
  end
  s.derived_from = s.derived_from or kept[node.id]
  s.read = s.read or not kept[node.id]
end

-- The storages: bytes, where they begin and where they are needed last; outside (no node makes
-- it), kept (a plan makes it once), derived_from (what is kept is made of it), read (other nodes
-- need it).
local function storages_of(graph, nodes, kept)
  local position, list, by = {}, {}, {}
  for i, node in ipairs(nodes) do position[node.id] = i end
  for _, value in ipairs(graph:values()) do
    local producer = value.producer
    local at = producer and position[producer.id] or 0
    local s = by[value.storage]
    if not s then
      s = { number = value.storage, bytes = 0, from = math.huge, to = 0, outside = false,
        kept = false, derived_from = false, read = false, values = 0 }
      by[value.storage], list[#list + 1] = s, s
    end
    s.values = s.values + 1
    s.outside = s.outside or not producer
    s.kept = s.kept or producer ~= nil and kept[producer.id]
    s.read = s.read or value.version > 0
    s.bytes, s.from = math.max(s.bytes, bytes_of(value)), math.min(s.from, at)
    s.to = math.max(s.to, at)
    for _, node in ipairs(value.uses) do
      s.to = math.max(s.to, position[node.id])
      note_reader(s, node, kept)
    end
  end
  for _, output in ipairs(graph:outputs()) do
    local s = by[output.value.storage]
    s.to, s.read = #nodes + 1, true
  end
  return list, by
end

-- Whose result is made in the memory of an input that ends there: the input's number.
local OVER = { conv2d_add = 3 }

-- That input's storage; nil where the result has one of its own (rg_emit_over in
-- core/graph/emit_aliases.c).
local function made_over(node, at, by)
  local x = OVER[node.op] and node.inputs[OVER[node.op]]
  local s, n = x and by[x.storage], 0
  if not s or s.outside or s.kept or s.to ~= at or s.values > 1 then return nil end
  for _, value in ipairs(node.inputs) do
    n = n + (value and value.storage == s.number and 1 or 0)
  end
  return n == 1 and s or nil
end

-- Bytes of the storages that a node reads and makes, but for what is there in every run, and for
-- what it makes in the memory of an input.
local function touched_by(node, by, over)
  local sum, met = 0, {}
  for _, list in ipairs { node.inputs, node.outputs } do
    for _, value in ipairs(list) do
      local s = value and by[value.storage]
      if s and not s.outside and not s.kept and not met[s] then
        met[s] = true
        sum = sum + s.bytes
      end
    end
  end
  return sum - (over and over.bytes or 0)
end

-- What a plan takes of that, into m.
local function ask_plan(graph, m)
  local ok, plan = pcall(graph.plan, graph)
  if not ok then
    blame.pass_interrupt(plan)
    m.why = tostring(plan):match '^[^\n]*'
    return
  end
  local facts = plan:facts()
  m.plan, m.live, m.derived = facts.buffer_bytes, facts.live_bytes, facts.kept_bytes
  plan:release()
end

--- The memory of a graph.
---@param graph table
---@return table memory {peak, at, bound, outside, plan, live, derived, replaced, why}
function M.of(graph)
  local nodes = graph:nodes()
  local list, by = storages_of(graph, nodes, kept_of(graph, nodes))
  local memory = setmetatable({ peak = 0, bound = 0, outside = 0, live = 0, derived = 0,
    replaced = 0 }, Memory)
  local change = {}
  for _, s in ipairs(list) do
    if s.outside then
      memory.outside = memory.outside + s.bytes
      if s.derived_from and not s.read then memory.replaced = memory.replaced + s.bytes end
    elseif not s.kept then
      change[s.from] = (change[s.from] or 0) + s.bytes
      change[s.to + 1] = (change[s.to + 1] or 0) - s.bytes
    end
  end
  local live = change[0] or 0
  for i, node in ipairs(nodes) do
    local over = made_over(node, i, by)
    live = live + (change[i] or 0)
    local now = live - (over and over.bytes or 0)
    if now > memory.peak then memory.peak, memory.at = now, node end
    if #node.body == 0 then memory.bound = math.max(memory.bound, touched_by(node, by, over)) end
  end
  ask_plan(graph, memory)
  return memory
end

return M

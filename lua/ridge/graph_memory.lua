-- SPDX-License-Identifier: MIT
--- What memory a graph needs: g:memory().

local dtype = require 'ridge.tensor.dtype'
local guard = require 'ridge.guard'
local unit = require 'ridge.show.unit'

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
    table.insert(lines, 2, ('a plan takes      %s, %.2f of the peak'):format(text(self.plan),
      self.peak > 0 and self.plan / self.peak or 1))
  else
    table.insert(lines, 2, 'a plan takes      nobody knows: ' .. self.why)
  end
  return table.concat(lines, '\n')
end
Memory.__tostring = guard.text(Memory.__tostring)

-- The storages that nodes make: bytes, where they begin and where they are needed last.
local function storages_of(graph, nodes)
  local position, list, by = {}, {}, {}
  for i, node in ipairs(nodes) do position[node.id] = i end
  for _, value in ipairs(graph:values()) do
    local at = value.producer and position[value.producer.id] or 0
    local s = by[value.storage]
    if not s then
      s = { bytes = 0, from = math.huge, to = 0, outside = false }
      by[value.storage], list[#list + 1] = s, s
    end
    s.outside = s.outside or not value.producer
    s.bytes, s.from = math.max(s.bytes, bytes_of(value)), math.min(s.from, at)
    s.to = math.max(s.to, at)
    for _, node in ipairs(value.uses) do s.to = math.max(s.to, position[node.id]) end
  end
  for _, output in ipairs(graph:outputs()) do by[output.value.storage].to = #nodes + 1 end
  return list, by
end

-- Bytes of the storages that a node reads and makes, but for what is outside.
local function touched_by(node, by)
  local sum, met = 0, {}
  for _, list in ipairs { node.inputs, node.outputs } do
    for _, value in ipairs(list) do
      local s = value and by[value.storage]
      if s and not s.outside and not met[s] then
        met[s] = true
        sum = sum + s.bytes
      end
    end
  end
  return sum
end

--- The memory of a graph.
---@param graph table
---@return table memory {peak, at, bound, outside, plan, why}
function M.of(graph)
  local nodes = graph:nodes()
  local list, by = storages_of(graph, nodes)
  local memory = setmetatable({ peak = 0, bound = 0, outside = 0 }, Memory)
  local change = {}
  for _, s in ipairs(list) do
    if s.outside then
      memory.outside = memory.outside + s.bytes
    else
      change[s.from] = (change[s.from] or 0) + s.bytes
      change[s.to + 1] = (change[s.to + 1] or 0) - s.bytes
    end
  end
  local live = change[0] or 0
  for i, node in ipairs(nodes) do
    live = live + (change[i] or 0)
    if live > memory.peak then memory.peak, memory.at = live, node end
    if #node.body == 0 then memory.bound = math.max(memory.bound, touched_by(node, by)) end
  end
  local ok, plan = pcall(graph.plan, graph)
  if ok then
    memory.plan = plan:facts().buffer_bytes
    plan:release()
  else
    memory.why = tostring(plan):match '^[^\n]*'
  end
  return memory
end

return M

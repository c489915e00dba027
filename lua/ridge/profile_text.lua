-- SPDX-License-Identifier: MIT
--- A profile as text: operations, steps of plans, lines of Lua.

local columns = require 'ridge.show.columns'
local plain = require 'ridge.plain'
local unit = require 'ridge.show.unit'

local M = {}

local LINES = 10 -- lines of Lua shown
local STEPS = 40 -- steps of plans shown

local function percent(share) return ('%.1f %%'):format(100 * share) end

-- Time, share, rate and traffic of something that was done.
local function costs(p, entry)
  local ns = entry.device_ns or entry.ns -- of a device its own time: asking it is not doing
  local seconds = ns / 1e9
  return unit.format('ns', ns), percent(ns / p.ns),
    entry.flops > 0 and unit.format('gflops', entry.flops / seconds / 1e9) or '',
    entry.bytes > 0 and unit.format('gbps', entry.bytes / seconds / 1e9) or ''
end

local function operations(p)
  local rows = {}
  for i, op in ipairs(p.operations) do rows[i] = { op.op, op.path, op.calls, costs(p, op) } end
  rows[#rows + 1] = { 'everything else', '', nil, unit.format('ns', math.max(0, p.ns - p.op_ns)),
    percent(math.max(0, 1 - p.op_ns / p.ns)) }
  return columns.text({ 'operation', 'path', 'calls', 'time', 'share', 'rate', 'traffic' }, rows,
    { right = { [4] = true, [5] = true, [6] = true, [7] = true } })
end

local function steps(p)
  local rows, several = {}, p.steps[1].plan ~= p.steps[#p.steps].plan
  for i = 1, math.min(STEPS, #p.steps) do
    local s = p.steps[i]
    local number = several and ('%d.%d'):format(s.plan or 0, s.step) or tostring(s.step)
    rows[i] = { number, s.op, s.module or '', s.calls, (costs(p, s)), s.shapes }
  end
  local text = columns.text({ 'step', 'operation', 'module', 'calls', 'time', 'shapes' }, rows,
    { right = { [1] = true, [5] = true } })
  if #p.steps <= STEPS then return text end
  return ('%s\n(and %s more)'):format(text, plain.count(#p.steps - STEPS, 'step'))
end

local function lines_of_lua(p)
  local rows, parts = {}, {}
  for i = 1, math.min(LINES, #p.lines) do
    rows[i] = { p.lines[i].line, percent(p.lines[i].share) }
  end
  for state, share in pairs(p.states) do parts[#parts + 1] = state .. ' ' .. percent(share) end
  table.sort(parts)
  local head = ('line of Lua (%s)'):format(plain.count(p.samples, 'sample'))
  return columns.text({ head, 'share' }, rows,
    { right = { [2] = true } }) .. '\n' .. table.concat(parts, ', ')
end

--- A profile as text.
---@param p table as ridge.profile gives it
---@return string
function M.text(p)
  local parts = { operations(p) }
  if #p.steps > 0 then parts[#parts + 1] = steps(p) end
  if p.full then
    parts[#parts + 1] = ('(the first operations are missing: there were too many, %d %s gone)')
      :format(p.dropped, p.dropped == 1 and 'is' or 'are')
  end
  if p.graphs > 0 then
    parts[#parts + 1] = ('(%s of CUDA graphs went step by step for this; alone %s '
      .. 'faster)'):format(plain.count(p.graphs, 'replay'), p.graphs == 1 and 'it is'
      or 'they are')
  end
  if p.samples > 0 then parts[#parts + 1] = lines_of_lua(p) end
  return table.concat(parts, '\n')
end

return M

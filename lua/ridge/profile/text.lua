-- SPDX-License-Identifier: MIT
--- A profile as text: operations, steps of plans, lines of Lua.

local columns = require 'ridge.show.columns'
local kernels = require 'ridge.profile.kernels'
local plain = require 'ridge.plain'
local tries = require 'ridge.profile.tries'
local unit = require 'ridge.show.unit'

local M = {}

local LINES = 10 -- lines of Lua shown
local STEPS = 40 -- steps of plans shown

local function percent(share) return ('%.1f %%'):format(100 * share) end

-- A time as a share of all; nothing of a profile in which no step was measured.
local function share_of(p, ns) return p.ns > 0 and percent(ns / p.ns) or '' end

-- Time, share, rate and traffic of something that was done.
local function costs(p, entry)
  local ns = entry.device_ns or entry.ns -- of a device its own time: asking it is not doing
  local seconds = ns / 1e9
  return unit.format('ns', ns), share_of(p, ns),
    entry.flops > 0 and unit.format('gflops', entry.flops / seconds / 1e9) or '',
    entry.bytes > 0 and unit.format('gbps', entry.bytes / seconds / 1e9) or ''
end

local RIGHT = { right = { [4] = true, [5] = true, [6] = true, [7] = true, [8] = true,
  [9] = true } }

-- The first rows of a list, and how many are left.
local function first(list, n)
  local out = {}
  for i = 1, math.min(n or #list, #list) do out[i] = list[i] end
  return out, #list - #out
end

local function more(text, left, what)
  if left == 0 then return text end
  return ('%s\n(and %s more)'):format(text, plain.count(left, what))
end

-- Share of the roof of some entries, where one is known; roofs are asked for with options only.
local function roof_of(p, parts)
  local roofs = p.options and p.given and p:roofs()
  if not roofs then return nil end
  local _, _, share = require('ridge.profile.roof').of(roofs, parts)
  return share and ('%.0f %%'):format(100 * share)
end

local function parts_of(p, op)
  local parts = {}
  for _, entry in ipairs(p.calls or {}) do
    if entry.op == op.op and entry.path == op.path then parts[#parts + 1] = entry end
  end
  return parts
end

local function operations(p, list, limit)
  local shown, left = first(list, limit)
  local rows, roofs = {}, false
  for i, op in ipairs(shown) do
    local time, share, rate, traffic = costs(p, op)
    local roof = roof_of(p, parts_of(p, op))
    roofs = roofs or roof ~= nil
    rows[i] = { op.op, op.path, op.calls, time, share, rate, traffic, roof }
  end
  rows[#rows + 1] = { 'everything else', '', nil, unit.format('ns', math.max(0, p.ns - p.op_ns)),
    share_of(p, math.max(0, p.ns - p.op_ns)) }
  local heads = { 'operation', 'path', 'calls', 'time', 'share', 'rate', 'traffic' }
  if roofs then heads[8] = 'of roof' end
  return more(columns.text(heads, rows, RIGHT), left, 'operation')
end

local function calls(p, list, limit)
  local shown, left = first(list, limit)
  local rows, roofs = {}, false
  for i, e in ipairs(shown) do
    local time, share, rate, traffic = costs(p, e)
    rows[i] = { e.op, e.module or '', e.calls, time, share, rate, traffic, roof_of(p, { e }) or '' }
    roofs = roofs or rows[i][8] ~= ''
  end
  local heads = { 'operation', 'module', 'calls', 'time', 'share', 'rate', 'traffic' }
  if roofs then heads[8] = 'of roof' end
  for i, e in ipairs(shown) do rows[i][#heads + 1] = e.shapes end
  heads[#heads + 1] = 'shapes'
  return more(columns.text(heads, rows, { right = { [4] = true, [5] = true, [6] = true, [7] = true,
    [8] = roofs } }), left, 'row')
end

local function time_or_not(ns) return ns > 0 and unit.format('ns', ns) or '' end

-- What each layer took itself, forward and back and in Lua, and with the layers in it.
local function layers(p, list, limit)
  local shown, left = first(list, limit)
  local rows, roofs = {}, false
  for i, e in ipairs(shown) do
    local _, _, rate = costs(p, e)
    rows[i] = { e.name, e.calls > 0 and e.calls or nil, unit.format('ns', e.device_ns or e.self_ns),
      percent(e.share), time_or_not(e.forward_ns), time_or_not(e.backward_ns),
      time_or_not(e.lua_ns), unit.format('ns', e.total_ns), rate, roof_of(p, e.parts) or '' }
    roofs = roofs or rows[i][10] ~= ''
  end
  local heads = { 'layer', 'calls', 'time', 'share', 'forward', 'backward', 'Lua', 'total', 'rate' }
  if roofs then heads[10] = 'of roof' end
  return more(columns.text(heads, rows, { right = { [3] = true, [4] = true, [5] = true, [6] = true,
    [7] = true, [8] = true, [9] = true, [10] = true } }), left, 'layer')
end

local function sections(p, list, limit)
  local shown, left = first(list, limit)
  local rows = {}
  for i, e in ipairs(shown) do
    rows[i] = { e.name, e.calls, unit.format('ns', e.ns), share_of(p, e.ns),
      unit.format('ns', e.ns / e.calls), unit.format('ns', e.self_ns) }
  end
  return more(columns.text({ 'section', 'calls', 'time', 'share', 'each', 'Lua' }, rows,
    { right = { [3] = true, [4] = true, [5] = true, [6] = true } }), left, 'section')
end

-- Lua between operations.
local function between(p, list, limit)
  local shown, left = first(list, limit or LINES)
  local rows = {}
  for i, e in ipairs(shown) do
    rows[i] = { plain.line(e.name), e.state, e.samples, unit.format('ns', e.ns),
      share_of(p, e.ns) }
  end
  return more(columns.text({ 'between operations', 'state', 'samples', 'time', 'share' }, rows,
    { right = { [4] = true, [5] = true } }), left, 'line')
end

local function bottlenecks(p)
  local lines = {}
  for i, found in ipairs(p:bottlenecks()) do
    local what = found.kind == 'layer' and 'layer ' .. plain.line(found.what)
      or plain.line(found.what)
    lines[#lines + 1] = ('%d. %s: %s, %s; bound by %s: %s'):format(i, what,
      unit.format('ns', found.ns), percent(found.share), tries.REASONS[found.reason], found.why)
    for _, try in ipairs(found.try) do
      lines[#lines + 1] = ('   try %s\n     measured by %s'):format(try.what, try.measure)
    end
  end
  if #lines == 0 then
    return ('no layer or operation takes more than %s'):format(percent(p.options.threshold))
  end
  return table.concat(lines, '\n')
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

-- Calls whose shapes the core had no room for.
local function shapeless(p)
  local n = 0
  for _, each in ipairs(p.calls or {}) do
    if each.shapes == '(too many shapes)' then n = n + each.calls end
  end
  return n
end

--- What there is to say of how it was measured.
---@param p table
---@param parts string[]|nil what they are put behind
---@return string[] parts
function M.remarks(p, parts)
  parts = parts or {}
  if p.full then
    parts[#parts + 1] = ('(the first operations are missing: there were too many, %d %s gone)')
      :format(p.dropped, p.dropped == 1 and 'is' or 'are')
    if p.all_ns and p.all_ns > p.ns then
      parts[#parts + 1] = ('(this is the last %s of %s)'):format(unit.format('ns', p.ns),
        unit.format('ns', p.all_ns))
    end
  end
  local n = shapeless(p)
  if n > 0 then
    parts[#parts + 1] = ('(shapes of %s are not told: a process remembers 8,192 combinations)')
      :format(plain.count(n, 'call'))
  end
  if p.graphs > 0 then
    parts[#parts + 1] = ('(%s of CUDA graphs went step by step for this; alone %s '
      .. 'faster)'):format(plain.count(p.graphs, 'replay'), p.graphs == 1 and 'it is'
      or 'they are')
  end
  for _, note in ipairs(p.notes or {}) do parts[#parts + 1] = '(' .. note .. ')' end
  return parts
end

-- What could not be measured, where it was asked for. (Counters tell of CUPTI with theirs.)
local function unavailable(p, parts)
  local untraced = p.unavailable and p.unavailable.cupti
  if untraced and not p.counters then
    parts[#parts + 1] = ('(cupti: unavailable: %s)'):format(untraced)
  end
  local reason = p.unavailable and p.unavailable.lua
  if reason and p.options.lines then
    parts[#parts + 1] = ('(lines of Lua: unavailable: %s)'):format(reason)
  end
end

local TABLES = {
  operation = function(p) return p.operations, operations end,
  call = function(p) return p.calls, calls end,
  layer = function(p) return p.layers, layers end,
  section = function(p) return p.sections, sections end,
  lua = function(p) return p.between, between end,
  kernel = function(p) return p.kernels or {}, kernels.told end,
}

--- One table of a profile.
---@param p table
---@param by string operation, call, layer, section, lua or kernel
---@param order string what it is sorted by
---@param limit integer|nil rows
---@return string
function M.table(p, by, order, limit)
  local list, draw = TABLES[by](p)
  return draw(p, require('ridge.profile.sums').sort({ unpack(list) }, order), limit)
end

local function has_modules(list)
  for _, entry in ipairs(list) do
    if entry.module then return true end
  end
  return false
end

--- A profile as text.
---@param p table as ridge.profile gives it
---@return string
function M.text(p)
  if p.recording then return 'a profile that is being made' end
  local limit, parts = p.options and p.options.rows, {}
  if p.failed then
    parts[1] = ('it raised: %s\n(this is what was measured until then)'):format(
      plain.text(p.failed))
  end
  parts[#parts + 1] = operations(p, p.operations, limit)
  if p.layers and has_modules(p.layers) then parts[#parts + 1] = layers(p, p.layers, limit) end
  if p.sections and #p.sections > 0 then
    parts[#parts + 1] = sections(p, p.sections, limit)
  end
  if #p.steps > 0 then parts[#parts + 1] = steps(p) end
  if p.kernels and #p.kernels > 0 then parts[#parts + 1] = kernels.told(p, p.kernels, limit) end
  M.remarks(p, parts)
  if p.given and p.ns > 0 then parts[#parts + 1] = bottlenecks(p) end
  if p.between and #p.between > 0 then parts[#parts + 1] = between(p, p.between) end
  if p.samples > 0 then parts[#parts + 1] = lines_of_lua(p) end
  if p.counters then parts[#parts + 1] = require('ridge.profile.counters').told(p) end
  unavailable(p, parts)
  return table.concat(parts, '\n')
end

return M

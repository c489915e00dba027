-- SPDX-License-Identifier: MIT
--- A profile at the prompt: its whole text where that is short, else how long it took, what took
--- most of it, and what to try first.

local colour = require 'ridge.show.colour'
local plain = require 'ridge.plain'
local text = require 'ridge.profile.text'
local tries = require 'ridge.profile.tries'
local unit = require 'ridge.show.unit'
local value = require 'ridge.show.value'

local M = {}

local LINES = 12 -- of a box
local OPERATIONS, REMARKS = 4, 2

local function line(p)
  if p.recording then return 'a profile that is being made' end
  local calls = 0
  for _, op in ipairs(p.operations) do calls = calls + op.calls end
  return ('profile of %s: %s of %s'):format(unit.format('ns', p.ns), plain.count(calls, 'call'),
    plain.count(#p.operations, 'operation'))
end

-- What takes most, where somebody asked for a profile whose time is known.
local function worst(p)
  local found = p.given and p.ns > 0 and p:bottlenecks({ top = 1 })[1]
  if not found then return nil end
  return ('most in %s %s: %.0f %%, bound by %s'):format(found.kind, plain.line(found.what),
    100 * found.share, tries.REASONS[found.reason])
end

-- What a table of operations does not say.
local function elsewhere(p)
  local parts = {}
  if #p.steps > 0 then parts[#parts + 1] = plain.count(#p.steps, 'step') .. ' of plans' end
  if p.layers and #p.layers > 0 then parts[#parts + 1] = plain.count(#p.layers, 'layer') end
  if p.sections and #p.sections > 0 then
    parts[#parts + 1] = plain.count(#p.sections, 'section')
  end
  if p.samples > 0 then parts[#parts + 1] = plain.count(p.samples, 'sample') .. ' of Lua' end
  return ('_:text() shows all of it%s'):format(#parts > 0 and ': ' .. table.concat(parts, ', ')
    or '')
end

local function box(p)
  local whole = text.text(p)
  if select(2, whole:gsub('\n', '')) < LINES then return whole end
  local lines = { line(p) }
  if p.failed then lines[#lines + 1] = ('it raised: %s'):format(plain.line(p.failed)) end
  lines[#lines + 1] = text.table(p, 'operation', p.options and p.options.sort or 'time', OPERATIONS)
  local remarks = text.remarks(p)
  for i = 1, math.min(REMARKS, #remarks) do lines[#lines + 1] = remarks[i] end
  lines[#lines + 1] = worst(p)
  lines[#lines + 1] = colour.paint('dim', elsewhere(p))
  return table.concat(lines, '\n')
end

--- Let profiles of a class show themselves.
---@param class table
function M.profiles(class)
  value.ways(class, { line = line, box = box, png = function(p) return p:plot():png() end })
end

return M

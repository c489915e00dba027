-- SPDX-License-Identifier: MIT
--- A measured point as text: what it takes with its interval, how it was sampled, what limits it.

local chart = require 'ridge.show.chart'
local colour = require 'ridge.show.colour'
local flags = require 'ridge.measure.flags'
local plain = require 'ridge.plain'
local summary = require 'ridge.show.summary'
local unit = require 'ridge.show.unit'
local value = require 'ridge.show.value'

local M = {}

local function time(ns) return unit.format('ns', ns) end

local function interval(p) return ('%s .. %s'):format(time(p.ci_lo), time(p.ci_hi)) end

local BARS, FEWEST = 24, 5 -- how many; fewer say nothing

-- Samples in the order they were taken: the bars say how far above the fastest each is.
local function bars(samples, n)
  local low, high = math.huge, 0
  for _, ns in ipairs(samples) do low, high = math.min(low, ns), math.max(high, ns) end
  local heights = {}
  for i, ns in ipairs(chart.thin(samples, n)) do
    heights[i] = high > low and 0.1 + 0.9 * (ns - low) / (high - low) or 0.1
  end
  return summary.spark(heights)
end

-- Those that weigh most first.
local function by_grade(names)
  local list = { unpack(names) }
  local function rank(name) return flags.describe(name).grade end
  table.sort(list, function(a, b)
    if rank(a) ~= rank(b) then return rank(a) > rank(b) end
    return flags.describe(a).bit < flags.describe(b).bit
  end)
  return list
end

-- The words of flags, as many as fit; the rest is counted.
local function reasons(p, room)
  local text, left = '', #p.flags
  for _, name in ipairs(by_grade(p.flags)) do
    local more = (text == '' and '' or '; ') .. flags.describe(name).text
    local behind = left > 1 and (' and %d more'):format(left - 1) or ''
    if colour.width(text .. more .. behind) > room then break end
    text, left = text .. more, left - 1
  end
  if left == 0 then return text end
  return text == '' and table.concat(p.flags, ' ') or ('%s and %d more'):format(text, left)
end

local function rates(p)
  local work, parts = p.work or {}, {}
  if (work.flops or 0) > 0 then
    parts[#parts + 1] = ('%s FLOP, %s'):format(unit.format('count', work.flops),
      unit.format('gflops', work.flops / p.med))
  end
  if (work.bytes or 0) > 0 then parts[#parts + 1] = unit.format('gbps', work.bytes / p.med) end
  local text = table.concat(parts, ', ')
  if p.roof then
    text = ('%s: %s of the roof'):format(text, plain.percent(p.roof))
  end
  return text
end

-- Beside each other, or below where the terminal is too narrow: what is cut of a line of these is
-- what says how good the number is.
local function beside(parts, width)
  local lines = { parts[1] }
  for i = 2, #parts do
    local line = lines[#lines] .. '   ' .. parts[i]
    if colour.width(line) <= width then
      lines[#lines] = line
    else
      lines[#lines + 1] = '  ' .. parts[i]
    end
  end
  return lines
end

local function box(p, width)
  local lines = beside({ 'median ' .. colour.paint('bold', time(p.med)),
    ('%.4g %% %s'):format(100 * p.ci_level, interval(p)), 'grade ' .. p.grade }, width)
  if #p.flags > 0 then
    local room = #lines == 1 and width - colour.width(lines[1]) - 2 or 0
    if room >= 40 then
      lines[1] = lines[1] .. ': ' .. reasons(p, room)
    else
      lines[#lines + 1] = '  ' .. reasons(p, width - 2)
    end
  end
  local how = ('%d samples of %d call%s, %s'):format(p.n, p.inner, p.inner == 1 and '' or 's',
    p.cache or 'warm')
  if p.procs then how = ('%s, %d processes'):format(how, p.procs) end
  -- the caches are cold before every call of the cold one
  local first = p.first_ns and '  first call ' .. time(p.first_ns) or ''
  -- bars may be fewer where the line is short; a number that is cut is none
  local room = math.min(BARS, width - colour.width(how .. first) - 2)
  if p.samples and room >= FEWEST then how = how .. '  ' .. bars(p.samples, room) end
  lines[#lines + 1] = how .. first
  if p.cold then
    lines[#lines + 1] = ('cold caches: median %s   %s   grade %s'):format(time(p.cold.med),
      interval(p.cold), p.cold.grade)
  end
  local rate = rates(p)
  if rate ~= '' then lines[#lines + 1] = rate end
  if p.promises then lines[#lines + 1] = colour.paint('dim', p.promises) end
  lines[#lines + 1] = colour.paint('dim', 'str(_) shows every field')
  return table.concat(lines, '\n')
end

local function line(p)
  return ('median %s [%s], grade %s'):format(time(p.med), interval(p), p.grade)
end

local Point = value.class('point', { line = line, box = box })

--- Let a result of a measurement show itself.
---@param result table of measure.block; what has an error stays as it is
---@return table result
function M.point(result)
  if result.error or not result.med then return result end
  if result.cold and not result.cold.error then setmetatable(result.cold, Point) end
  return setmetatable(result, Point)
end

return M

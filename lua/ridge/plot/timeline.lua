-- SPDX-License-Identifier: MIT
--
-- The timeline of streams (F209): a lane for each, a bar for each call, so that one sees what ran
-- beside what and where a stream waited.

local axes = require 'ridge.plot.axes'
local blame = require 'ridge.blame'
local color = require 'ridge.plot.color'
local column = require 'ridge.plot.column'
local figure = require 'ridge.plot.figure'
local rows_of = require 'ridge.plot.rows'
local scale = require 'ridge.plot.scale'
local unit = require 'ridge.show.unit'

local M = { summary = 'what ran on each stream, and when (ridge.timeline)' }

M.OPTIONS = { from = { 'number', doc = 'seconds after the first call where the picture begins' },
  to = { 'number', doc = 'and ends' },
  unrecorded = { 'number', default = 0, min = 0,
    doc = 'seconds between the calls in which nobody noted any' } }

local LANE, LANES = 62, 24
-- Names that have a colour of their own; the others share one.
local NAMED = 7

local function lane_of(row)
  return ('%s stream %d'):format(row.device, row.stream)
end

-- Lanes by device and stream, spans by their beginning.
local function lanes_of(rows)
  local lanes, by_key = {}, {}
  for _, row in ipairs(rows) do
    local key = lane_of(row)
    local lane = by_key[key]
    if not lane then
      lane = { key = key, device = row.device, stream = row.stream, spans = {} }
      by_key[key], lanes[#lanes + 1] = lane, lane
    end
    lane.spans[#lane.spans + 1] = row
  end
  table.sort(lanes, function(a, b)
    if a.device ~= b.device then return a.device < b.device end
    return a.stream < b.stream
  end)
  for _, lane in ipairs(lanes) do
    table.sort(lane.spans, function(a, b) return a.begin_s < b.begin_s end)
  end
  return lanes
end

--- Seconds in which at least one lane was busy, and in which at least two were.
---@param lanes table
---@return number any
---@return number several
function M.busy(lanes)
  local edges = {}
  for _, lane in ipairs(lanes) do
    local covered = -math.huge
    for _, span in ipairs(lane.spans) do -- the calls of a lane as one, where they touch
      local from = math.max(span.begin_s, covered)
      if span.end_s > from then
        edges[#edges + 1], edges[#edges + 2] = { from, 1 }, { span.end_s, -1 }
        covered = span.end_s
      end
    end
  end
  table.sort(edges, function(a, b) return a[1] < b[1] end)
  local any, several, last, n = 0, 0, 0, 0
  for _, edge in ipairs(edges) do
    local length = edge[1] - last
    if n > 0 then any = any + length end
    if n > 1 then several = several + length end
    last, n = edge[1], n + edge[2]
  end
  return any, several
end

-- The names by how long they ran, the longest first, and a colour for each.
local function inks(rows, t)
  local names, time, ink = {}, {}, {}
  for _, row in ipairs(rows) do
    if not time[row.name] then names[#names + 1], time[row.name] = row.name, 0 end
    time[row.name] = time[row.name] + row.end_s - row.begin_s
  end
  table.sort(names, function(a, b)
    if time[a] ~= time[b] then return time[a] > time[b] end
    return a < b
  end)
  for i, name in ipairs(names) do
    ink[name] = i <= NAMED and (color.category(i, t.name)) or t.neutral
  end
  return names, time, ink
end

-- Bars of one lane: a call is never thinner than a hair, and has its name where that fits.
local function draw_lane(panel, lane, y, height, ink, data)
  local c, t = panel.canvas, panel.theme
  for _, span in ipairs(lane.spans) do
    local from, to = (span.begin_s - data.first) * 1e9, (span.end_s - data.first) * 1e9
    if to >= data.from and from <= data.to then
      local x = panel:px_end(from)
      local w = math.max(panel:px_end(to) - x, t.hair)
      c:rect(x, y - height / 2, w, height, ink[span.name], w > 6 and 2 or nil)
      local room = w - 8
      if room > 14 and c:measure(span.name, t.size.note) <= room then
        c:text(x + w / 2, y, span.name, { size = t.size.note, align = 'center', valign = 'middle',
          color = color.readable(ink[span.name], t.name == 'light' and t.ink or t.paper,
            t.name == 'light' and t.paper or t.ink) })
      end
    end
  end
end

-- What the colours mean, below the lanes.
local function draw_legend(c, t, box, y, names, time, ink)
  local x, rest = box.x, 0
  for i, name in ipairs(names) do
    if i > NAMED then rest = rest + time[name] else
      local text = ('%s  %s'):format(name, unit.format('ns', time[name] * 1e9))
      local w = 18 + c:measure(text, t.size.note) + 18
      if x + w > box.x + box.w then x, y = box.x, y + 20 end
      c:rect(x, y - 6, 12, 12, ink[name], 2)
      c:text(x + 18, y, text, { size = t.size.note, color = t.text, valign = 'middle' })
      x = x + w
    end
  end
  if rest > 0 then
    local text = ('%d other%s  %s'):format(#names - NAMED, #names - NAMED == 1 and '' or 's',
      unit.format('ns', rest * 1e9))
    if x + 36 + c:measure(text, t.size.note) > box.x + box.w then x, y = box.x, y + 20 end
    c:rect(x, y - 6, 12, 12, t.neutral, 2)
    c:text(x + 18, y, text, { size = t.size.note, color = t.text, valign = 'middle' })
  end
end

local function draw(data)
  return function(c, t, box)
    local names, time, ink = inks(data.rows, t)
    local left = 0
    for _, lane in ipairs(data.lanes) do
      left = math.max(left, c:measure(lane.key, t.size.tick))
    end
    local area = { x = box.x + left + 16, y = box.y + 8, w = box.w - left - 28, h = box.h - 108 }
    local panel = axes.panel(c, t, area, {
      x = { scale = scale.linear(data.from, data.to), kind = 'ns', label = 'since the first call' },
      y = { scale = scale.linear(0.5, #data.lanes + 0.5), ticks = {}, minor = false } })
    panel:frame()
    local height = math.min(30, area.h / #data.lanes * 0.62)
    for i, lane in ipairs(data.lanes) do
      local y = panel:py(#data.lanes - i + 1)
      c:line(area.x, c:crisp(y), area.x + area.w, c:crisp(y), t.grid, t.hair)
      c:text(area.x - 10, y, lane.key, { size = t.size.tick, color = t.text, align = 'right',
        valign = 'middle' })
      draw_lane(panel, lane, y, height, ink, data)
    end
    draw_legend(c, t, box, box.y + box.h - 32, names, time, ink)
  end
end

--- The timeline.
---@param rows table one a call: name, device, stream, begin_s, end_s
---@param opt table checked options
---@return table figure
function M.make(rows, opt)
  local who = 'plot.timeline'
  rows_of.check(rows, who)
  for _, name in ipairs { 'name', 'device', 'stream', 'begin_s', 'end_s' } do
    column.require(rows, name, who)
  end
  for _, name in ipairs { 'stream', 'begin_s', 'end_s' } do
    rows_of.check_numbers(rows, name, who, true)
  end
  local first, last = math.huge, -math.huge
  for _, row in ipairs(rows) do
    first, last = math.min(first, row.begin_s), math.max(last, row.end_s)
  end
  if not (last > first) then blame.raise(who .. ': no time passed in these calls', 'EARG') end
  local from, to = opt.from or 0, opt.to or last - first
  if not (from >= 0 and to > from) then
    blame.raise(('%s: from %g to %g seconds is no part of the timeline'):format(who, from, to),
      'EARG')
  end
  local lanes = lanes_of(rows)
  local any, several = M.busy(lanes)
  local more = math.max(0, #lanes - LANES)
  for i = #lanes, LANES + 1, -1 do lanes[i] = nil end
  local text = { 'Bars are calls, from the moment their stream came to them until it was done with '
    .. 'them; the marks for that take time themselves: this shows what ran beside what, it is no '
    .. 'measurement.' }
  if more > 0 then text[2] = ('%d more streams are not shown.'):format(more) end
  local recorded = last - first - opt.unrecorded
  if opt.unrecorded > 0 then
    text[#text + 1] = ('For %s between them nothing was recorded: what ran then is not here.')
      :format(unit.format('ns', opt.unrecorded * 1e9))
  end
  local parts = {}
  for _, name in ipairs { 'device', 'commit', 'date' } do parts[#parts + 1] = opt[name] end
  return figure.new { kind = 'timeline', rows = rows, opt = opt,
    natural = { 1080, math.max(420, 310 + LANE * #lanes) }, title = 'What ran when',
    subtitle = table.concat(parts, '  ·  '),
    finding = #lanes == 1 and ('One stream, busy for %s of %s%s.'):format(
      unit.format('ns', any * 1e9), unit.format('ns', recorded * 1e9),
      opt.unrecorded > 0 and ' that were recorded' or '')
      or ('Of %s with something under way, two streams or more were busy in %s (%.0f %%).'):format(
        unit.format('ns', any * 1e9), unit.format('ns', several * 1e9),
        any > 0 and 100 * several / any or 0),
    caption = text, draw = draw { rows = rows, lanes = lanes, first = first, from = from * 1e9,
      to = to * 1e9 } }
end

return M

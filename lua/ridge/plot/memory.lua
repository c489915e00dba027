-- SPDX-License-Identifier: MIT
--
-- Live bytes over time, and the peak explained: which lines, in which modules, had what was alive
-- when it was highest (ridge.memory.timeline).

local axes = require 'ridge.plot.axes'
local blame = require 'ridge.blame'
local color = require 'ridge.plot.color'
local column = require 'ridge.plot.column'
local figure = require 'ridge.plot.figure'
local rows_of = require 'ridge.plot.rows'
local scale = require 'ridge.plot.scale'
local unit = require 'ridge.show.unit'

local M = { summary = 'live memory over time, and who made its peak (ridge.memory.timeline)' }

local BARS, BAR = 10, 24 -- lines that are named, and the height of each
local COLUMNS = 1000     -- of the curve: each shows the most and the least within it

--- A curve with at most so many columns: of each the first, the least, the most and the last point
--- stay, so that no peak is lost.
---@param points table each at_s, live, in order
---@param n integer columns
---@return table points
function M.thinned(points, n)
  if #points <= 4 * n then return points end
  local first, last = points[1].at_s, points[#points].at_s
  local width = (last - first) / n
  local out, i = {}, 1
  while i <= #points do
    local at = width > 0 and math.floor((points[i].at_s - first) / width) or 0
    local least, most, k = i, i, i
    while k < #points and (width <= 0 or math.floor((points[k + 1].at_s - first) / width) == at) do
      k = k + 1
      if points[k].live < points[least].live then least = k end
      if points[k].live > points[most].live then most = k end
    end
    local picks = { i, math.min(least, most), math.max(least, most), k }
    for j, pick in ipairs(picks) do
      if j == 1 or pick ~= picks[j - 1] then out[#out + 1] = points[pick] end
    end
    i = k + 1
  end
  return out
end

-- Points of the curve, and those who were alive at the peak, the most first.
local function parts(rows)
  local points, alive = {}, {}
  for _, row in ipairs(rows) do
    if row.at_s ~= nil then points[#points + 1] = row end
    if row.bytes ~= nil then alive[#alive + 1] = row end
  end
  table.sort(alive, function(a, b)
    if a.bytes ~= b.bytes then return a.bytes > b.bytes end
    return tostring(a.line) < tostring(b.line)
  end)
  return points, alive
end

local function name_of(row)
  return row.module and ('%s  in %s'):format(row.line, row.module) or tostring(row.line)
end

local function draw_curve(panel, data, t)
  local xs, ys, px, py = {}, {}, {}, {}
  for _, p in ipairs(data.shown) do -- what is live stays so until the next block
    if #ys > 0 then xs[#xs + 1], ys[#ys + 1] = p.at_s * 1e9, ys[#ys] end
    xs[#xs + 1], ys[#ys + 1] = p.at_s * 1e9, p.live
  end
  for i = 1, #xs do px[i], py[i] = panel:px(xs[i]), panel:py(ys[i]) end
  local ink = color.category(1, t.name)
  local foot = panel:py(0)
  px[#px + 1], py[#py + 1] = px[#px], foot
  px[#px + 1], py[#py + 1] = px[1], foot
  panel.canvas:polygon(px, py, { ink[1], ink[2], ink[3], t.band })
  panel:path(xs, ys, ink, 1.5)
  panel:point('circle', data.peak.at_s * 1e9, data.peak.live, nil, nil,
    { color = color.category(2, t.name), radius = t.marker })
end

-- Who was alive, a bar each: its length is its share of the peak.
local function draw_alive(c, t, box, y, data)
  c:text(box.x, y, ('alive at the peak of %s'):format(unit.format('bytes', data.peak.live)),
    { size = t.size.tick, color = t.text, valign = 'middle', bold = true })
  local ink = color.category(2, t.name)
  local room = box.w * 0.32
  for i, row in ipairs(data.bars) do
    local at = y + i * BAR
    c:rect(box.x, at - 7, math.max(t.hair, room * math.min(1, row.bytes / data.peak.live)), 14,
      ink, 2)
    c:text(box.x + room + 76, at, unit.format('bytes', row.bytes), { size = t.size.note,
      color = t.text, align = 'right', valign = 'middle' })
    c:text(box.x + room + 92, at, axes.fitting(c, name_of(row), box.w - room - 96,
      { size = t.size.note }), { size = t.size.note, color = t.text, valign = 'middle' })
  end
end

local function draw(data)
  return function(c, t, box)
    local below = (#data.bars + 1) * BAR + 8
    local area = { x = box.x + 70, y = box.y + 8, w = box.w - 86, h = box.h - below - 64 }
    local panel = axes.panel(c, t, area, {
      x = { scale = scale.linear(data.from * 1e9, data.to * 1e9), kind = 'ns',
        label = 'since the beginning' },
      y = { scale = scale.linear(0, data.peak.live * 1.06), kind = 'bytes', label = 'live' } })
    panel:frame()
    draw_curve(panel, data, t)
    draw_alive(c, t, box, box.y + box.h - below + 10, data)
  end
end

--- Live memory over time.
---@param rows table points of the curve (at_s, live), and who was alive at the peak (line, module,
---  bytes)
---@param opt table checked options
---@return table figure
function M.make(rows, opt)
  local who = 'plot.memory'
  rows_of.check(rows, who)
  for _, name in ipairs { 'at_s', 'live' } do
    column.require(rows, name, who)
    rows_of.check_numbers(rows, name, who)
  end
  for _, row in ipairs(rows) do
    if row.bytes ~= nil then
      rows_of.check_numbers(rows, 'bytes', who)
      break
    end
  end
  local points, alive = parts(rows)
  for i, p in ipairs(points) do
    if type(p.live) ~= 'number' then
      blame.raise(('%s: point %d has no column live'):format(who, i), 'EARG')
    end
  end
  table.sort(points, function(a, b) return a.at_s < b.at_s end)
  local peak, from, to = points[1], points[1].at_s, points[#points].at_s
  for _, p in ipairs(points) do if p.live > peak.live then peak = p end end
  if not (to > from) then blame.raise(who .. ': no time passed between its points', 'EARG') end
  if not (peak.live > 0) then blame.raise(who .. ': no memory was live', 'EARG') end
  local bars, rest, n = {}, 0, 0
  for i, row in ipairs(alive) do
    if i < BARS or #alive == BARS then bars[i] = row else rest, n = rest + row.bytes, n + 1 end
  end
  if n > 0 then bars[#bars + 1] = { line = ('(%d more)'):format(n), bytes = rest } end
  local subtitle = {}
  for _, name in ipairs { 'device', 'commit', 'date' } do subtitle[#subtitle + 1] = opt[name] end
  return figure.new { kind = 'memory', rows = rows, opt = opt,
    natural = { 1080, 560 + BAR * #bars }, title = 'Live memory over time',
    subtitle = table.concat(subtitle, '  ·  '),
    finding = ('At most %s, %s after the beginning%s.'):format(unit.format('bytes', peak.live),
      unit.format('ns', (peak.at_s - from) * 1e9),
      alive[1] and (': %.0f %% of it by %s'):format(100 * alive[1].bytes / peak.live,
        name_of(alive[1])) or ''),
    caption = { 'Bytes that tensors and scratch memory hold, after each block that was taken or '
      .. 'given back; what is cached is not counted.' },
    draw = draw { shown = M.thinned(points, COLUMNS), peak = peak, from = from, to = to,
      bars = bars } }
end

return M

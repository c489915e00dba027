-- SPDX-License-Identifier: MIT
--
-- The comparison forest: a ratio with its interval for each pair, sorted, beside the band of what
-- is too small to matter; at the bottom what the same candidate against itself came to.

local axes = require 'ridge.plot.axes'
local blame = require 'ridge.blame'
local color = require 'ridge.plot.color'
local figure = require 'ridge.plot.figure'
local landscape = require 'ridge.plot.landscape'
local rows_of = require 'ridge.plot.rows'
local scale = require 'ridge.plot.scale'
local series = require 'ridge.plot.series'

local M = { summary = 'what was compared: ratios with intervals, sorted' }

M.OPTIONS = {}

local LINE, MOST = 24, 60
local SELF = 'the same against itself'

local function ink(verdict, t)
  if verdict == 'faster' then return t.sketched end
  if verdict == 'slower' then return t.lowrank end
  return t.muted
end

local function name_of(row)
  local pair = row.pair ~= '' and row.pair or nil
  local sides = ('%s : %s'):format(row.b ~= '' and row.b or 'b', row.a ~= '' and row.a or 'a')
  return pair and ('%s   %s'):format(pair, sides) or sides
end

local function draw(data)
  return function(c, t, box)
    local names, widest = {}, 0
    for i, row in ipairs(data.rows) do
      names[i] = data.same and row.pair ~= '' and row.pair or name_of(row)
      widest = math.max(widest, c:measure(names[i], t.size.tick))
    end
    if data.floor then widest = math.max(widest, c:measure(SELF, t.size.tick)) end
    widest = math.min(widest, box.w * 0.4)
    local lines = #data.rows + (data.floor and 1 or 0)
    local ys = scale.linear(0.5, lines + 0.5)
    local panel = axes.panel(c, t, { x = box.x + widest + 16, y = box.y + 8,
      w = box.w - widest - 16 - 120, h = box.h - 52 }, {
      x = { scale = scale.fit(data.values, { log = 2, pad = 0.06 }), kind = 'times',
        label = 'time of the second over the first, below 1 is faster' },
      y = { scale = ys, ticks = {}, minor = false } })
    if data.margin then
      local x1, x2 = (panel:px_end(1 / (1 + data.margin))), (panel:px_end(1 + data.margin))
      c:rect(x1, panel.y, x2 - x1, panel.h, color.alpha(t.neutral, 0.28))
    end
    panel:frame()
    panel:upright(1, t.ink)
    local function line(i, name, ratio, lo, hi, paint, text)
      local v = lines - i + 1
      local y, x1, starts = panel:py(v), panel:px_end(lo)
      local x2, ends = panel:px_end(hi)
      c:text(panel.x - 10, y, c:fit(name, widest, t.size.tick), { size = t.size.tick,
        color = t.text, align = 'right', valign = 'middle' })
      c:line(x1, y, x2, y, paint, 2)
      -- an end that the axis does not reach has no cap
      if starts then c:line(x1, y - 4, x1, y + 4, paint, 1.4) end
      if ends then c:line(x2, y - 4, x2, y + 4, paint, 1.4) end
      c:marker('square', panel:px(ratio), y, t.marker, paint, t.paper, 1)
      c:text(panel.x + panel.w + 12, y, text, { size = t.size.tick, color = paint,
        valign = 'middle' })
    end
    for i, row in ipairs(data.rows) do
      line(i, names[i], row.ratio, row.ratio_lo or row.ratio, row.ratio_hi or row.ratio,
        ink(row.verdict, t), ('%.3f×  %s'):format(row.ratio, row.verdict))
    end
    if data.floor then
      line(lines, SELF, 1, 1 / (1 + data.floor), 1 + data.floor, t.axis,
        ('± %.1f %%'):format(data.floor * 100))
    end
  end
end

--- The comparison forest.
---@param rows table pair, a, b (words), ratio with _lo and _hi, verdict, margin, floor
---@param opt table checked options
---@return table figure
function M.make(rows, opt)
  local who = 'plot.forest'
  rows_of.check(rows, who)
  rows_of.check_numbers(rows, 'ratio', who, true)
  local shown, counts, values, margin, floor = {}, {}, { 1 }, nil, nil
  local same = rows_of.common(rows, 'a') ~= nil and rows_of.common(rows, 'b') ~= nil
  for _, row in ipairs(rows) do
    if row.ratio > 0 then
      shown[#shown + 1] = row
      counts[row.verdict or 'open'] = (counts[row.verdict or 'open'] or 0) + 1
    end
  end
  table.sort(shown, function(x, y) return x.ratio < y.ratio end)
  if #shown == 0 then blame.raise(who .. ': nothing was compared', 'EARG') end
  local left_out = math.max(0, #shown - MOST)
  for i = #shown, MOST + 1, -1 do shown[i] = nil end
  for _, row in ipairs(shown) do
    series.reach(values, { y = row.ratio, lo = row.ratio_lo or row.ratio,
      hi = row.ratio_hi or row.ratio }, true)
    margin, floor = math.max(margin or 0, row.margin or 0), math.max(floor or 0, row.floor or 0)
  end
  if floor and floor > 0 then
    values[#values + 1], values[#values + 2] = 1 / (1 + floor), 1 + floor
  else
    floor = nil
  end
  local parts = {}
  for _, verdict in ipairs { 'faster', 'slower', 'equal', 'open' } do
    if counts[verdict] then parts[#parts + 1] = ('%d %s'):format(counts[verdict], verdict) end
  end
  local text = { 'Squares are ratios of times in paired blocks, lines their 95 % confidence '
    .. 'intervals; inside the band a difference is too small to matter.' }
  if left_out > 0 then
    text[2] = ('%d more pair%s not shown, and counted above.'):format(left_out,
      left_out == 1 and ' is' or 's are')
  end
  local title = same and ('%s against %s'):format(rows_of.common(rows, 'b'),
    rows_of.common(rows, 'a')) or 'What was compared'
  return figure.new { kind = 'forest', rows = rows, opt = opt,
    natural = { 1080, math.max(440, 290 + LINE * (#shown + 1)) }, title = title,
    subtitle = landscape.subtitle(opt, rows), finding = table.concat(parts, ', ') .. '.',
    caption = text, draw = draw { rows = shown, values = values, same = same,
      margin = margin and margin > 0 and margin or nil, floor = floor } }
end

return M

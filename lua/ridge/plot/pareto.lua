-- SPDX-License-Identifier: MIT
--
-- Two measures of the same points: what lies on the front, what is dominated. A point is dominated
-- only where another is better in both by more than their intervals.

local blame = require 'ridge.blame'
local color = require 'ridge.plot.color'
local column = require 'ridge.plot.column'
local figure = require 'ridge.plot.figure'
local landscape = require 'ridge.plot.landscape'
local rows_of = require 'ridge.plot.rows'
local series = require 'ridge.plot.series'

local M = { summary = 'two measures: the front, and what it dominates' }

M.OPTIONS = { x = 'measure across', y = 'measure upwards', label = 'columns that name a point',
  better_x = { 'string', choices = { 'lower', 'higher' }, doc = 'which way is better across' },
  better_y = { 'string', choices = { 'lower', 'higher' }, doc = 'which way is better upwards' } }

local LABELS = 8

-- A point with both measures as costs: less is better.
local function points_of(rows, opt, signs)
  local out = {}
  for _, row in ipairs(rows) do
    local x, y = row[opt.x], row[opt.y]
    if rows_of.measured(row) and type(x) == 'number' and type(y) == 'number' and x == x and y == y
    then
      local x_lo, x_hi = rows_of.interval(row, opt.x)
      local y_lo, y_hi = rows_of.interval(row, opt.y)
      local p = { row = row, x = x, y = y, x_lo = x_lo, x_hi = x_hi, y_lo = y_lo, y_hi = y_hi }
      p.cx, p.cy = signs.x * x, signs.y * y
      -- drawn as what other minutes would say, held against each other as what these do
      x_lo, x_hi = rows_of.own_interval(row, opt.x)
      y_lo, y_hi = rows_of.own_interval(row, opt.y)
      p.best_x, p.worst_x = math.min(signs.x * x_lo, signs.x * x_hi),
        math.max(signs.x * x_lo, signs.x * x_hi)
      p.best_y, p.worst_y = math.min(signs.y * y_lo, signs.y * y_hi),
        math.max(signs.y * y_lo, signs.y * y_hi)
      out[#out + 1] = p
    end
  end
  table.sort(out, function(a, b)
    if a.cx ~= b.cx then return a.cx < b.cx end
    return a.cy < b.cy
  end)
  return out
end

--- Mark what another point beats in both measures beyond doubt, and find the front of the medians.
---@param points table sorted by cost across
---@return table front points
function M.front(points)
  local front, least, last, by_worst = {}, math.huge, nil, {}
  for _, p in ipairs(points) do
    local counts = p.row.grade ~= 'D' -- what was disturbed beats nothing
    local same = last and p.cx == last.cx and p.cy == last.cy -- as good in both
    if counts and (p.cy < least or same) then
      front[#front + 1], least, last = p, p.cy, p
      p.front = true
    end
    if counts then by_worst[#by_worst + 1] = p end
  end
  -- any point may be the one that beats: its interval may be narrower than those on the front
  table.sort(by_worst, function(a, b) return a.worst_x < b.worst_x end)
  local worst_y, lowest = {}, math.huge -- the lowest upper end upwards of the first so many
  for i, q in ipairs(by_worst) do
    lowest = math.min(lowest, q.worst_y)
    worst_y[i] = lowest
  end
  for _, p in ipairs(points) do
    local n, over = 0, #by_worst + 1 -- the first n end below where p begins
    while over - n > 1 do
      local i = math.floor((n + over) / 2)
      if by_worst[i].worst_x < p.best_x then n = i else over = i end
    end
    p.dominated = p.row.grade ~= 'D' and n > 0 and worst_y[n] < p.best_y
  end
  return front
end

-- Where the front turns most: its ends, and what stands furthest off the line between them.
local function knees(front, panel)
  local chosen = { [1] = true, [#front] = true }
  local function split(i, k, left)
    if left == 0 or k - i < 2 then return end
    local x1, y1 = panel:px(front[i].x), panel:py(front[i].y)
    local x2, y2 = panel:px(front[k].x), panel:py(front[k].y)
    local long, best, far = math.max(1, math.sqrt((x2 - x1) ^ 2 + (y2 - y1) ^ 2)), nil, 14
    for j = i + 1, k - 1 do
      local x, y = panel:px(front[j].x), panel:py(front[j].y)
      local off = math.abs((x2 - x1) * (y1 - y) - (x1 - x) * (y2 - y1)) / long
      if off > far then best, far = j, off end
    end
    if best then
      chosen[best] = true
      split(i, best, left - 1)
      split(best, k, left - 1)
    end
  end
  split(1, #front, 3)
  return chosen
end

-- A name that is one column of text says by itself what it is.
local function name_of(row, names)
  if type(row[names]) == 'string' then return row[names] end
  local parts = {}
  for name in names:gmatch '[^,%s]+' do
    if row[name] ~= nil then
      parts[#parts + 1] = ('%s %s'):format(name, type(row[name]) == 'number'
        and ('%.6g'):format(row[name]) or tostring(row[name]))
    end
  end
  return table.concat(parts, ', ')
end

local function draw(data)
  return function(c, t, box)
    local spec = { x = series.axis(data.rows, data.opt.x), y = series.axis(data.rows, data.opt.y),
      right = 16 }
    local panel = series.grid(c, t, box, { spec }, 1)[1]
    local xs, ys = {}, {}
    for i, p in ipairs(data.front) do -- a step: nothing between two points was measured
      if i > 1 then xs[#xs + 1], ys[#ys + 1] = p.x, data.front[i - 1].y end
      xs[#xs + 1], ys[#ys + 1] = p.x, p.y
    end
    if #xs > 1 then panel:path(xs, ys, t.accent, 2) end
    for _, p in ipairs(data.points) do
      local ink = p.front and t.accent or p.dominated and color.alpha(t.muted, 0.45) or t.muted
      local x1, x2, y = (panel:px_end(p.x_lo)), (panel:px_end(p.x_hi)), panel:py(p.y)
      if x2 - x1 > 1 then c:line(x1, y, x2, y, ink, 1.2) end
      panel:point('circle', p.x, p.y, p.y_lo, p.y_hi, { color = ink,
        radius = p.front and t.marker or t.marker * 0.75, open = p.row.grade == 'D' })
    end
    local chosen, left = knees(data.front, panel), LABELS
    for i, p in ipairs(data.front) do
      local name = chosen[i] and left > 0 and data.opt.label and name_of(p.row, data.opt.label)
      if name and name ~= '' then
        left = left - 1
        local x, y = panel:px(p.x), panel:py(p.y)
        panel:note(name, { { x + 9, y - 9 }, { x - 9, y - 9, 'right' }, { x + 9, y + 11 },
          { x - 9, y + 11, 'right' }, { x + 12, y - 22 }, { x - 6, y + 24, 'right' },
          { x + 6, y + 26 } }, { color = t.text })
      end
    end
  end
end

--- Two measures of the same points.
---@param rows table
---@param opt table checked options: x, y, label
---@return table figure
function M.make(rows, opt)
  local who = 'plot.pareto'
  rows_of.check(rows, who)
  for _, name in ipairs { 'x', 'y' } do
    if not opt[name] then
      blame.raise(('%s: %s names no column; x and y are the two measures'):format(who, name),
        'EARG')
    end
    rows_of.check_numbers(rows, opt[name], who)
  end
  local function sign(name, given)
    return (given or column.about(name, rows).better or 'lower') == 'higher' and -1 or 1
  end
  local points = points_of(rows, opt, { x = sign(opt.x, opt.better_x),
    y = sign(opt.y, opt.better_y) })
  if #points == 0 then blame.raise(who .. ': no row was measured in both', 'EARG') end
  local front, dominated = M.front(points), 0
  for _, p in ipairs(points) do if p.dominated then dominated = dominated + 1 end end
  return figure.new { kind = 'pareto', rows = rows, opt = opt, natural = { 980, 700 },
    title = ('%s against %s'):format(column.about(opt.x, rows).label:gsub('^%l', string.upper),
      column.about(opt.y, rows).label),
    subtitle = landscape.subtitle(opt, rows),
    finding = ('%d of %d points are on the front; %d %s beaten in both beyond doubt.'):format(
      #front, #points, dominated, dominated == 1 and 'is' or 'are'),
    caption = landscape.caption(rows, opt.x, 'Points are medians of %s with 95 %% confidence '
      .. 'intervals where there are any; faded ones are beaten in both measures by intervals that '
      .. 'do not touch.'),
    draw = draw { rows = rows, points = points, front = front, opt = opt } }
end

return M

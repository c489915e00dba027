-- SPDX-License-Identifier: MIT
--
-- A panel: two scales over a rectangle, with grid, ticks, names, and notes that hide no data.
--
-- The name of the vertical axis stands level above it, where it can be read, instead of rotated
-- along it. Labels are thinned until none touches another. Everything drawn through a panel is
-- remembered as an obstacle; a note is then put at the first of its wished places that is free.

local unit = require 'ridge.show.unit'
local guard = require 'ridge.guard'

local Panel = {}
Panel.__index = Panel

local M = {}

local floor, max, min, abs, huge = math.floor, math.max, math.min, math.abs, math.huge

local TICK, GAP = 5, 5
-- Room between neighbouring tick labels along x, and the least height a tick label needs along y.
local LABEL_SPACE, LABEL_HEIGHT = 12, 30

-- Axes ----------------------------------------------------------------------------------------

--- Ticks and their texts for an axis.
---@param axis table scale, kind (unit.lua), ticks (optional array of values)
---@param n integer at most so many
---@return table ticks array of {value=, text=}
---@return string|nil name of the unit, if the texts do not carry it
function M.ticks(axis, n)
  local values, out, kind = {}, {}, axis.kind or 'number'
  local factor, name = unit.common(kind, max(abs(axis.scale.lo), abs(axis.scale.hi)))
  for _, v in ipairs(axis.ticks or axis.scale:ticks(n, 1 / factor)) do
    -- where only whole numbers are, 22.5 is no place to name
    local named = kind ~= 'integer' or v % 1 == 0
    if named and axis.scale:holds(v) then values[#values + 1] = v end
  end
  if axis.categories then
    for _, v in ipairs(values) do out[#out + 1] = { value = v, text = axis.categories[v] } end
    return out
  end
  if kind == 'integer' or (axis.scale.base and kind ~= 'number') then
    for i, v in ipairs(values) do out[i] = { value = v, text = unit.format(kind, v) } end
    return out
  end
  if axis.scale.base then
    for i, v in ipairs(values) do out[i] = { value = v, text = unit.number(v) } end
    return out
  end
  local scaled = {}
  for i, v in ipairs(values) do scaled[i] = v * factor end
  for i, text in ipairs(unit.decimals(scaled)) do out[i] = { value = values[i], text = text } end
  return out, name ~= '' and name or nil
end

local function vertical_count(height)
  return max(2, floor(height / LABEL_HEIGHT))
end

--- Room the tick labels of a vertical axis need beside a panel.
---@param canvas table
---@param theme table
---@param axis table
---@param height number of the plotting area
---@return number width
function M.gutter(canvas, theme, axis, height)
  local widest = 0
  for _, tick in ipairs(M.ticks(axis, vertical_count(height))) do
    widest = max(widest, canvas:measure(tick.text, theme.size.tick))
  end
  return widest + GAP + 3
end

--- Room above and below the plotting area of a panel.
---@param theme table
---@param opt table title, y.label, x.label as for M.panel
---@return number above
---@return number below
function M.margins(theme, opt)
  local above = 6
  if opt.title then above = above + theme.size.panel * 1.45 end
  if opt.y and opt.y.label then above = above + theme.size.label * 1.6 end
  local below = TICK + GAP + theme.size.tick * 1.1
  if opt.x and opt.x.label then below = below + theme.size.label * 1.65 end
  return above, below
end

--- A line of text that ends where there is no more room, with dots; between two words.
---@param canvas table
---@param text string
---@param room number
---@param style table size, bold
---@return string text
function M.fitting(canvas, text, room, style)
  local kept, shown = text, text
  while canvas:measure(shown, style.size, style) > room do
    local shorter = kept:match '^(.-)[,;]?%s+%S+$'
    if not shorter then break end
    kept, shown = shorter, shorter .. ' ...'
  end
  return shown
end

--- Make a panel whose plotting area is the given rectangle.
---@param canvas table
---@param theme table
---@param area table x, y, w, h
---@param opt table title, x and y: axes {scale, kind, label, ticks, categories, reach}
---@return table panel
function M.panel(canvas, theme, area, opt)
  return setmetatable({ canvas = canvas, theme = theme, x = area.x, y = area.y, w = area.w,
    h = area.h, opt = opt, obstacles = {} }, Panel)
end

--- Horizontal position of a value.
---@param v number
---@return number x
function Panel:px(v)
  return self.x + self.w * self.opt.x.scale:at(v)
end

--- Vertical position of a value.
---@param v number
---@return number y
function Panel:py(v)
  return self.y + self.h * (1 - self.opt.y.scale:at(v))
end

local function held(v, lo, hi)
  local at = max(lo, min(hi, v))
  return at, at == v
end

--- Horizontal position of the end of an interval: one that the axis does not reach, infinity or on
--- a logarithmic axis a number below zero, lies at the panel's edge.
---@param v number
---@return number x
---@return boolean inside
function Panel:px_end(v)
  return held(self:px(v), self.x, self.x + self.w)
end

--- The same, vertically.
---@param v number
---@return number y
---@return boolean inside
function Panel:py_end(v)
  return held(self:py(v), self.y, self.y + self.h)
end

-- Of ticks at rising positions, those whose labels keep apart; the last one wins over its
-- neighbour, because a reader looks for the end of the range.
local function thinned(canvas, ticks, at, size)
  local kept = {}
  local function left(tick) return at(tick.value) - canvas:measure(tick.text, size) / 2 end
  local function right(tick) return at(tick.value) + canvas:measure(tick.text, size) / 2 end
  for i, tick in ipairs(ticks) do
    if #kept == 0 or left(tick) >= right(kept[#kept]) + LABEL_SPACE then
      kept[#kept + 1] = tick
    elseif i == #ticks then
      while #kept > 1 and left(tick) < right(kept[#kept]) + LABEL_SPACE do kept[#kept] = nil end
      if left(tick) >= right(kept[#kept]) + LABEL_SPACE then kept[#kept + 1] = tick end
    end
  end
  return kept
end

--- The ticks along x whose labels fit.
---@return table ticks array of {value=, text=}
---@return string|nil unit name
function Panel:x_ticks()
  local axis, size = self.opt.x, self.theme.size.tick
  -- Fewer and fewer round values until all labels keep apart; given ticks are thinned instead.
  local at = function(v) return self:px(v) end
  if axis.ticks then
    local ticks, name = M.ticks(axis, huge)
    return thinned(self.canvas, ticks, at, size), name
  end
  for n = max(2, floor(self.w / 45)), 2, -1 do
    local ticks, name = M.ticks(axis, n)
    if #thinned(self.canvas, ticks, at, size) == #ticks then return ticks, name end
  end
  local ticks, name = M.ticks(axis, 2)
  return thinned(self.canvas, ticks, at, size), name
end

--- The ticks along y.
---@return table ticks
---@return string|nil unit name
function Panel:y_ticks()
  local ticks, name = M.ticks(self.opt.y, vertical_count(self.h))
  local kept = {}
  -- Given ticks may stand closer than their labels are high.
  for _, tick in ipairs(ticks) do
    local last = kept[#kept]
    if not last or self:py(last.value) - self:py(tick.value) >= self.theme.size.tick * 1.25 then
      kept[#kept + 1] = tick
    end
  end
  return kept, name
end

local function named(label, name)
  if not label or not name then return label end
  return label .. ', ' .. name
end

--- Draw the grid, the ticks with their labels, and the names.
---@param style table|nil grid = false for none
function Panel:frame(style)
  local c, t, opt = self.canvas, self.theme, self.opt
  local xs, x_unit = self:x_ticks()
  local ys, y_unit = self:y_ticks()
  local bottom = self.y + self.h
  if not (style and style.grid == false) then
    for _, v in ipairs(opt.y.scale:minor()) do
      local y = c:crisp(self:py(v))
      c:line(self.x, y, self.x + self.w, y, t.minor, t.hair)
    end
    for _, tick in ipairs(ys) do
      local y = c:crisp(self:py(tick.value))
      c:line(self.x, y, self.x + self.w, y, t.grid, t.hair)
    end
    for _, tick in ipairs(xs) do
      local x = c:crisp(self:px(tick.value))
      c:line(x, self.y, x, bottom, t.grid, t.hair)
    end
    c:line(self.x, c:crisp(bottom), self.x + self.w, c:crisp(bottom), t.axis, t.hair)
  end
  for _, v in ipairs(opt.x.scale:minor()) do
    if opt.x.minor ~= false then
      local x = c:crisp(self:px(v))
      c:line(x, bottom, x, bottom + TICK * 0.6, t.axis, t.hair)
    end
  end
  for _, tick in ipairs(xs) do
    local x = self:px(tick.value)
    c:line(c:crisp(x), bottom, c:crisp(x), bottom + TICK, t.axis, t.hair)
    c:text(x, bottom + TICK + GAP, tick.text,
      { size = t.size.tick, color = t.text, align = 'center', valign = 'top' })
  end
  for _, tick in ipairs(ys) do
    c:text(self.x - GAP - 2, self:py(tick.value), tick.text,
      { size = t.size.tick, color = t.text, align = 'right', valign = 'middle' })
  end
  local left = self.x - (opt.gutter or 0)
  local top = self.y - 6
  if opt.y.label then
    top = top - 4
    c:text(left, top, named(opt.y.label, y_unit), { size = t.size.label, color = t.muted })
    top = top - t.size.label * 1.6 + 2
  end
  if opt.title then
    local bold = { size = t.size.panel, color = t.ink, bold = true }
    c:text(left, top, M.fitting(c, opt.title, c.width - left - 8, bold), bold)
  end
  if opt.x.label then
    c:text(self.x + self.w, bottom + TICK + GAP + t.size.tick * 1.1 + t.size.label * 1.15,
      named(opt.x.label, x_unit), { size = t.size.label, color = t.muted, align = 'right' })
  end
end

-- Data ----------------------------------------------------------------------------------------

--- Remember that a rectangle is taken.
---@param x number
---@param y number
---@param w number
---@param h number
function Panel:occupy(x, y, w, h)
  self.obstacles[#self.obstacles + 1] = { x, y, w, h }
end

--- Draw a measured point with its interval.
---@param shape string
---@param vx number
---@param v number
---@param lo number|nil
---@param hi number|nil
---@param style table color, radius, open (outline only), shift (units to the right)
function Panel:point(shape, vx, v, lo, hi, style)
  local c, t = self.canvas, self.theme
  local x, y, r = self:px(vx) + (style.shift or 0), self:py(v), style.radius or t.marker
  if lo and hi and lo < hi then
    local y1, top = self:py_end(hi)
    local y2, bottom = self:py_end(lo)
    c:line(x, y1, x, y2, style.color, 1.3)
    -- Caps only where the interval ends in the panel and they reach out of the marker.
    if top and y - y1 > r + 1 then c:line(x - 3, y1, x + 3, y1, style.color, 1.3) end
    if bottom and y2 - y > r + 1 then c:line(x - 3, y2, x + 3, y2, style.color, 1.3) end
  end
  if style.open then
    c:marker(shape, x, y, r, t.paper, nil)
    c:marker(shape, x, y, r, nil, style.color, 1.5)
  else
    c:marker(shape, x, y, r, style.color, t.paper, 1.1)
  end
  self:occupy(x - r, y - r, 2 * r, 2 * r)
end

--- Draw a line through values and remember it as an obstacle.
---@param vxs table
---@param vys table
---@param color table
---@param width number|nil
---@param dash table|nil
function Panel:path(vxs, vys, color, width, dash)
  local xs, ys = {}, {}
  for i = 1, #vxs do xs[i], ys[i] = self:px(vxs[i]), self:py(vys[i]) end
  self.canvas:polyline(xs, ys, color, width or self.theme.stroke, dash)
  for i = 2, #xs do
    local n = max(1, floor(max(abs(xs[i] - xs[i - 1]), abs(ys[i] - ys[i - 1])) / 6))
    for k = 0, n do
      self:occupy(xs[i - 1] + (xs[i] - xs[i - 1]) * k / n - 1.5,
        ys[i - 1] + (ys[i] - ys[i - 1]) * k / n - 1.5, 3, 3)
    end
  end
end

--- Draw a level line across the panel with its interval as a band.
---@param v number
---@param lo number|nil
---@param hi number|nil
---@param color table
---@param dash table|nil
function Panel:level(v, lo, hi, color, dash)
  local c, t = self.canvas, self.theme
  if lo and hi and hi > lo then
    local y1, y2 = max(self:py(hi), self.y), min(self:py(lo), self.y + self.h)
    c:rect(self.x, y1, self.w, y2 - y1, { color[1], color[2], color[3], t.band })
  end
  local y = self:py(v)
  c:line(self.x, y, self.x + self.w, y, color, 1.4, dash)
  self:occupy(self.x, y - 1.5, self.w, 3)
end

--- Draw an upright hair line.
---@param v number
---@param color table
---@param dash table|nil
function Panel:upright(v, color, dash)
  local x = self.canvas:crisp(self:px(v))
  self.canvas:line(x, self.y, x, self.y + self.h, color, 1.2, dash)
  self:occupy(x - 1.5, self.y, 3, self.h)
end

-- Notes ---------------------------------------------------------------------------------------

local function overlap(obstacles, x, y, w, h)
  local area = 0
  for i = 1, #obstacles do
    local o = obstacles[i]
    local ox = min(x + w, o[1] + o[3]) - max(x, o[1])
    local oy = min(y + h, o[2] + o[4]) - max(y, o[2])
    if ox > 0 and oy > 0 then area = area + ox * oy end
  end
  return area
end

--- Write a note at the first of its places that hides nothing, else where it hides least.
---@param text string
---@param places table array of {x, y [, align]}: anchor of the text, middle of its height
---@param style table color, size, bold
---@return table place the one taken: {x, y, w, h}
function Panel:note(text, places, style)
  local c, t = self.canvas, self.theme
  local size = style.size or t.size.note
  local w, h = c:measure(text, size, style), size * 1.25
  local best, least
  for _, place in ipairs(places) do
    local align = place[3] or 'left'
    local x = place[1] - (align == 'right' and w or align == 'center' and w / 2 or 0)
    local y = place[2] - h / 2
    local outside = x < self.x or y < self.y or x + w > self.x + self.w + 0.5
      or y + h > self.y + self.h
    local cost = overlap(self.obstacles, x - 3, y - 1, w + 6, h + 2) + (outside and 1e6 or 0)
    if not least or cost < least then best, least = { x, y, w, h, place[2] }, cost end
    if cost == 0 then break end
  end
  c:text(best[1], best[5], text, { size = size, color = style.color, bold = style.bold,
    valign = 'middle', halo = t.paper })
  self:occupy(best[1], best[2], best[3], best[4])
  return best
end

--- Positions along a line for labels that want certain places and need a distance.
---@param wanted table array of positions
---@param gap number least distance
---@param lo number
---@param hi number
---@return table positions in the order of wanted
function M.spread(wanted, gap, lo, hi)
  local order = {}
  for i = 1, #wanted do order[i] = i end
  table.sort(order, function(a, b)
    if wanted[a] == wanted[b] then return a < b end
    return wanted[a] < wanted[b]
  end)
  -- Groups of touching labels, each centred on what its members want.
  local groups = {}
  for _, i in ipairs(order) do
    groups[#groups + 1] = { sum = wanted[i], n = 1, members = { i } }
    while true do
      local b, a = groups[#groups], groups[#groups - 1]
      local function start(g)
        return max(lo, min(hi - (g.n - 1) * gap, g.sum / g.n - (g.n - 1) * gap / 2))
      end
      b.at = start(b)
      if not a or a.at + a.n * gap <= b.at + 1e-9 then break end
      for _, m in ipairs(b.members) do a.members[#a.members + 1] = m end
      a.sum, a.n = a.sum + b.sum, a.n + b.n
      groups[#groups] = nil
      a.at = start(a)
    end
  end
  local out = {}
  for _, g in ipairs(groups) do
    for k, i in ipairs(g.members) do out[i] = g.at + (k - 1) * gap end
  end
  return out
end

-- So many of them, from the first to the last as evenly as that goes, and how many are left out.
local function some_of(labels, most, bottom, color)
  local out = {}
  for k = 0, most - 2 do
    out[k + 1] = labels[1 + floor(k * (#labels - 1) / max(most - 2, 1) + 0.5)]
  end
  out[most] = { y = bottom, text = ('and %d more'):format(#labels - most + 1), color = color,
    alone = true }
  return out
end

--- Write names at the right ends of lines, pushed apart where they would touch. Where there is no
--- room for all of them, some are named.
---@param labels table array of {y =, text =, color =} (y in units)
function Panel:ends(labels)
  local c, t = self.canvas, self.theme
  local wanted, gap, lo, hi = {}, t.size.note * 1.22, self.y + 4, self.y + self.h - 2
  local most = max(1, floor((hi - lo) / gap) + 1)
  if #labels > most then labels = some_of(labels, most, hi, t.muted) end
  for i, label in ipairs(labels) do wanted[i] = label.y end
  local places = M.spread(wanted, gap, lo, hi)
  local x = self.x + self.w
  for i, label in ipairs(labels) do
    local y = places[i]
    if not label.alone and (abs(y - label.y) > 2 or label.leader) then
      c:polyline({ label.x + 8, x + 2, x + 7 }, { label.y, y, y }, t.rule, 1)
    end
    c:text(x + 10, y, label.text, { size = t.size.note, color = label.color or t.text,
      valign = 'middle', bold = label.bold })
  end
end

guard.all(Panel)

return M

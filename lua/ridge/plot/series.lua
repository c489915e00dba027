-- SPDX-License-Identifier: MIT
--
-- A series in a panel: measured points, always drawn, joined by a line where it may be, with the
-- band of their intervals; and a grid of panels that share their axes.

local axes = require 'ridge.plot.axes'
local column = require 'ridge.plot.column'
local rows_of = require 'ridge.plot.rows'
local scale = require 'ridge.plot.scale'

local M = {}

local GAP_X, GAP_Y = 34, 26

-- More points than this in a series are drawn as a line with its band; marks would hide each other.
local MARKED = 80

--- The points of a series: rows that were measured and have both columns, by x.
---@param rows table
---@param x string column
---@param y string column
---@return table points each x, y, lo, hi, grade, row
function M.points(rows, x, y)
  local out = {}
  for _, row in ipairs(rows) do
    if rows_of.measured(row) and type(row[x]) == 'number' and type(row[y]) == 'number'
        and row[y] == row[y] then
      local lo, hi = rows_of.interval(row, y)
      out[#out + 1] = { x = row[x], y = row[y], lo = lo, hi = hi, grade = row.grade, row = row }
    end
  end
  table.sort(out, function(a, b) return a.x < b.x end)
  return out
end

--- Add what an axis has to hold for a point: its value, and the ends of its interval that are on
--- such an axis. A disturbed measurement can have an interval that reaches zero, and what is
--- divided by it one without end.
---@param values table
---@param p table y, lo, hi
---@param log boolean|nil is the axis logarithmic?
function M.reach(values, p, log)
  values[#values + 1] = p.y
  if p.lo > (log and 0 or -math.huge) then values[#values + 1] = p.lo end
  if p.hi < math.huge then values[#values + 1] = p.hi end
end

--- Draw points with their band.
---@param panel table of ridge.plot.axes
---@param points table of M.points
---@param style table color, shape ('circle'), dash, radius, line (false: points only)
function M.draw(panel, points, style)
  local t, xs, ys = panel.theme, {}, {}
  local band_x, low, high = {}, {}, {}
  for i, p in ipairs(points) do
    xs[i], ys[i] = p.x, p.y
    band_x[i] = panel:px(p.x)
    low[i], high[i] = panel:py_end(p.lo), panel:py_end(p.hi)
  end
  if style.line ~= false and #points > 1 then
    local bx, by = {}, {}
    for i = 1, #points do bx[i], by[i] = band_x[i], high[i] end
    for i = #points, 1, -1 do bx[#bx + 1], by[#by + 1] = band_x[i], low[i] end
    local c = style.color
    panel.canvas:polygon(bx, by, { c[1], c[2], c[3], t.band * 1.8 })
    panel:path(xs, ys, style.color, style.width, style.dash)
  end
  for _, p in ipairs(#points <= MARKED and points or {}) do
    panel:point(style.shape or 'circle', p.x, p.y, p.lo, p.hi, {
      color = style.color, radius = style.radius or t.marker * 0.75, open = p.grade == 'D' })
  end
end

--- An axis that holds the values of a column in rows, intervals included.
---@param rows table
---@param name string column
---@param opt table|nil label, log (as for scale.fit), zero, kind
---@return table axis
function M.axis(rows, name, opt)
  opt = opt or {}
  local about, values = column.about(name, rows), {}
  for _, row in ipairs(rows) do
    if rows_of.measured(row) and type(row[name]) == 'number' and row[name] == row[name] then
      local lo, hi = rows_of.interval(row, name)
      values[#values + 1] = row[name]
      if lo > 0 or row[name] <= 0 then values[#values + 1] = lo end
      values[#values + 1] = hi
    end
  end
  return { scale = scale.fit(values, { log = opt.log, base = about.base, zero = opt.zero }),
    kind = opt.kind or about.kind, label = opt.label or about.label }
end

--- The axis of a parameter: logarithmic to base 2 where it grows by factors, ticks at its values.
---@param rows table
---@param name string column
---@return table axis
function M.parameter(rows, name)
  local values, whole = rows_of.distinct(rows, name), true
  for i = #values, 1, -1 do
    if type(values[i]) ~= 'number' then table.remove(values, i) end
  end
  for _, v in ipairs(values) do whole = whole and v % 1 == 0 end
  local geometric = #values > 1 and values[1] > 0 and values[#values] / values[1] >= 8
  return { scale = scale.fit(values, { log = geometric and 2 or false, pad = 0.05 }),
    kind = whole and 'integer' or 'number', ticks = #values <= 16 and values or nil,
    label = column.about(name).label, minor = false }
end

--- Panels in rows and columns; left labels where a row begins, x names where a column ends.
---@param c table canvas
---@param t table theme
---@param box table x, y, w, h
---@param specs table of axes.panel, each with `right`: room for names of lines
---@param columns integer|nil
---@return table panels with their frames drawn
function M.grid(c, t, box, specs, columns)
  columns = columns or math.ceil(math.sqrt(#specs))
  local lines = math.ceil(#specs / columns)
  local width = (box.w - GAP_X * (columns - 1)) / columns
  local height = (box.h - GAP_Y * (lines - 1)) / lines
  local gutter = 0
  for _, spec in ipairs(specs) do
    gutter = math.max(gutter, axes.gutter(c, t, spec.y, height))
  end
  local panels = {}
  for i, spec in ipairs(specs) do
    local above, below = axes.margins(t, spec)
    spec.gutter = gutter
    panels[i] = axes.panel(c, t, { x = box.x + (i - 1) % columns * (width + GAP_X) + gutter,
      y = box.y + math.floor((i - 1) / columns) * (height + GAP_Y) + above,
      w = width - gutter - (spec.right or 6), h = height - above - below }, spec)
    panels[i]:frame()
  end
  return panels
end

return M

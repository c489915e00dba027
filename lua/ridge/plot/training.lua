-- SPDX-License-Identifier: MIT
--
-- Training against time: the loss over the seconds that were trained, one line for each
-- configuration. A slow accurate one and a fast sloppy one stand on one axis.

local blame = require 'ridge.blame'
local color = require 'ridge.plot.color'
local column = require 'ridge.plot.column'
local figure = require 'ridge.plot.figure'
local landscape = require 'ridge.plot.landscape'
local rows_of = require 'ridge.plot.rows'
local scale = require 'ridge.plot.scale'
local series = require 'ridge.plot.series'

local M = { summary = 'loss over the seconds trained, a line for each configuration' }

M.OPTIONS = { y = { 'string', doc = 'the curve: its name' }, by = 'what a line stands for',
  smooth = { 'integer', min = 1,
    doc = 'steps that one point of the line is the mean of; a sixtieth when left out' } }

local PARTS = 60  -- points of a smoothed line
local LINES = 10  -- more would not be told apart

--- Means over neighbouring steps, each at the time of its middle: what one batch happened to be
--- does not show, and a line that ends early ends early.
---@param list table rows in the order of their steps
---@param y string
---@param width integer steps of one mean
---@return table points each x, y, lo, hi (the least and the largest of them)
function M.smoothed(list, y, width)
  local out = {}
  for first = 1, #list, width do
    local sum, n, lo, hi, at = 0, 0, math.huge, -math.huge, 0
    for i = first, math.min(#list, first + width - 1) do
      local v = list[i][y]
      if v == v and math.abs(v) < math.huge then
        sum, n, at = sum + v, n + 1, at + list[i].seconds
        lo, hi = math.min(lo, v), math.max(hi, v)
      end
    end
    if n > 0 then out[#out + 1] = { x = at / n, y = sum / n, lo = lo, hi = hi, n = n } end
  end
  return out
end

--- When a line first gets to a level and stays there, in seconds; nil where it does not.
---@param points table of smoothed
---@param level number
---@return number|nil seconds
function M.reaches(points, level)
  local at
  for i = #points, 1, -1 do
    if points[i].y > level then break end
    at = points[i].x
  end
  return at
end

local function lines_of(rows, opt)
  local lines, by = {}, {}
  for _, row in ipairs(rows) do
    if type(row[opt.y]) == 'number' and type(row.seconds) == 'number' then
      local name = tostring(row[opt.by] or '')
      local line = by[name]
      if not line then
        line = { name = name, rows = {} }
        by[name] = line
        lines[#lines + 1] = line
      end
      line.rows[#line.rows + 1] = row
    end
  end
  for _, line in ipairs(lines) do
    table.sort(line.rows, function(a, b) return a.seconds < b.seconds end)
    line.points = M.smoothed(line.rows, opt.y,
      opt.smooth or math.max(1, math.ceil(#line.rows / PARTS)))
    line.last = line.points[#line.points] and line.points[#line.points].y
  end
  for i = #lines, 1, -1 do -- a line without a single number has no place
    if not lines[i].last then table.remove(lines, i) end
  end
  table.sort(lines, function(a, b) return a.last < b.last end)
  return lines
end

local function draw(data)
  return function(c, t, box)
    local xs, ys, positive = {}, {}, true
    for _, line in ipairs(data.lines) do
      for _, p in ipairs(line.points) do
        xs[#xs + 1], ys[#ys + 1], positive = p.x, p.y, positive and p.y > 0
      end
    end
    local spread = positive and #ys > 0 and math.max(unpack(ys, 1, math.min(#ys, 4000)))
      / math.min(unpack(ys, 1, math.min(#ys, 4000)))
    local panel = series.grid(c, t, box, { { right = 170,
      x = { scale = scale.fit(xs, { log = false, zero = true }), kind = 'number',
        label = 'seconds trained' },
      y = { scale = scale.fit(ys, { log = spread and spread > 8 and 10 or false }),
        kind = 'number', label = column.about(data.y).label } } }, 1)[1]
    local labels = {}
    for i, line in ipairs(data.lines) do
      local ink = color.category(i, t.name)
      local px, py = {}, {}
      for k, p in ipairs(line.points) do px[k], py[k] = p.x, p.y end
      if #px > 1 then panel:path(px, py, ink, 2) end
      local last = line.points[#line.points]
      panel:point('circle', last.x, last.y, last.y, last.y, { color = ink, radius = t.marker })
      labels[i] = { x = panel:px(last.x), y = panel:py(last.y), color = ink, text = line.name }
    end
    panel:ends(labels)
  end
end

-- A level as text with so many digits that what it says is not below the level: the headline is
-- about the number it shows.
local function at_least(level)
  for digits = 3, 17 do
    local text = ('%.' .. digits .. 'g'):format(level)
    if tonumber(text) >= level then return text, tonumber(text) end
  end
end

--- Training against time.
---@param rows table each with seconds, the curve's value and what its line is called
---@param opt table checked options
---@return table figure
function M.make(rows, opt)
  local who = 'plot.training'
  rows_of.check(rows, who)
  opt.y = opt.y or 'loss'
  opt.by = opt.by or 'point'
  column.require(rows, opt.y, who)
  column.require(rows, 'seconds', who)
  local lines = lines_of(rows, opt)
  local more = math.max(0, #lines - LINES)
  for i = #lines, LINES + 1, -1 do lines[i] = nil end
  if #lines == 0 then blame.raise(who .. ': no curve has a number', 'EARG') end
  local best = lines[1]
  local shown, level = at_least(lines[#lines].last)
  local first
  for _, line in ipairs(lines) do
    local at = M.reaches(line.points, level)
    if at and (not first or at < first.at) then first = { at = at, name = line.name } end
  end
  local text = landscape.caption(rows, opt.y, 'Each point of a line is the mean of %s over '
    .. 'neighbouring steps; time without looking at test data and without saving.')
  if more > 0 then text[#text + 1] = ('%d more lines are not shown.'):format(more) end
  return figure.new { kind = 'training', rows = rows, opt = opt, natural = { 1080, 640 },
    title = ('%s over the time trained'):format(column.about(opt.y).label:gsub('^%l',
      string.upper)),
    subtitle = landscape.subtitle(opt, rows),
    finding = ('Least in the end: %.4g (%s).%s'):format(best.last, best.name,
      #lines > 1 and (' First to come to %s, where the last one %sends, and to stay there: %s, '
      .. 'after %.3g s.'):format(shown, more > 0 and 'shown ' or '', first.name, first.at) or ''),
    caption = text, draw = draw { lines = lines, y = opt.y } }
end

return M

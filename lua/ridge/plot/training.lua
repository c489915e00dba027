-- SPDX-License-Identifier: MIT
--
-- Training against time: the loss over the seconds that were trained, one line for each
-- configuration. A slow accurate one and a fast sloppy one stand on one axis.

local blame = require 'ridge.blame'
local color = require 'ridge.plot.color'
local column = require 'ridge.plot.column'
local figure = require 'ridge.plot.figure'
local landscape = require 'ridge.plot.landscape'
local rounded = require 'ridge.plot.rounded'
local rows_of = require 'ridge.plot.rows'
local scale = require 'ridge.plot.scale'
local series = require 'ridge.plot.series'

local M = { summary = 'loss over the seconds trained, a line for each configuration' }

M.OPTIONS = { y = { 'string', doc = 'the curve: its name' }, by = 'what a line stands for',
  smooth = { 'integer', min = 1,
    doc = 'steps that one point of the line is the mean of; a sixtieth when left out' } }

local PARTS = 60  -- points of a smoothed line
local LINES = 10  -- more would not be told apart

-- NULL in a database is a step without a number, as nan is.
local function is_finite(v) return type(v) == 'number' and v == v and math.abs(v) < math.huge end

--- Means over neighbouring steps, each at the time of its middle: what one batch happened to be
--- does not show, and a line that ends early ends early. What is not finite is in no mean.
---@param list table rows in the order of their steps
---@param y string
---@param width integer steps of one mean
---@return table points each x, y, lo, hi (the least and the largest of them), bad (how many were
---  not finite), gap (none was finite in the steps before)
function M.smoothed(list, y, width)
  local out, gap = {}, false
  for first = 1, #list, width do
    local sum, n, lo, hi, at, bad = 0, 0, math.huge, -math.huge, 0, 0
    for i = first, math.min(#list, first + width - 1) do
      local v = list[i][y]
      if is_finite(v) then
        sum, n, at = sum + v, n + 1, at + list[i].seconds
        lo, hi = math.min(lo, v), math.max(hi, v)
      else
        bad = bad + 1
      end
    end
    if n > 0 then
      out[#out + 1] = { x = at / n, y = sum / n, lo = lo, hi = hi, n = n, bad = bad, gap = gap }
    end
    gap = n == 0
  end
  return out
end

--- When a line first gets to a level and stays there, in seconds; nil where it does not. A step
--- without a number is not there.
---@param points table of smoothed
---@param level number
---@param higher boolean|nil is there to be at the level or above it; at it or below when left out
---@return number|nil seconds
function M.reaches(points, level, higher)
  local at
  for i = #points, 1, -1 do
    local p = points[i]
    local there = higher and p.y >= level or not higher and p.y <= level
    if not there or (p.bad or 0) > 0 then break end
    at = p.x
    if p.gap then break end
  end
  return at
end

-- Lines, the best in the end first; those that end without a number behind those that have one.
local function lines_of(rows, opt, higher)
  local lines, by = {}, {}
  for _, row in ipairs(rows) do
    if type(row.seconds) == 'number' then
      local name = tostring(row[opt.by] or '')
      local line = by[name]
      if not line then
        line = { name = name, rows = {}, trials = {}, mixed = false }
        by[name] = line
        lines[#lines + 1] = line
      end
      line.rows[#line.rows + 1] = row
      line.trials[row.trial or 0] = true
      line.mixed = next(line.trials, next(line.trials)) ~= nil
    end
  end
  for _, line in ipairs(lines) do
    table.sort(line.rows, function(a, b)
      if a.seconds ~= b.seconds then return a.seconds < b.seconds end
      return (a.step or 0) < (b.step or 0)
    end)
    line.points = M.smoothed(line.rows, opt.y,
      opt.smooth or math.max(1, math.ceil(#line.rows / PARTS)))
    line.last = line.points[#line.points] and line.points[#line.points].y
    line.ended = is_finite(line.rows[#line.rows][opt.y])
  end
  for i = #lines, 1, -1 do -- a line without a single number has no place
    if not lines[i].last then table.remove(lines, i) end
  end
  table.sort(lines, function(a, b)
    if a.ended ~= b.ended then return a.ended end
    if a.last ~= b.last then return (a.last < b.last) ~= higher end
    return a.name < b.name
  end)
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

-- 'a', 'a and b', 'a, b and 3 more'.
local function named(list)
  if #list > 3 then return ('%s, %s and %d more'):format(list[1], list[2], #list - 2) end
  return #list < 2 and list[1] or table.concat(list, ', ', 1, #list - 1) .. ' and ' .. list[#list]
end

-- What is true of the lines that are shown, in the numbers that are shown.
local function finding(lines, higher, more)
  local best, ends, broken = {}, 0, {}
  for _, line in ipairs(lines) do
    if not line.ended then
      broken[#broken + 1] = line.name
    else
      ends = ends + 1
      if line.last == lines[1].last then best[#best + 1] = line.name end
    end
  end
  local out = {}
  if ends > 0 then
    out[1] = ('%s in the end: %.4g (%s).'):format(higher and 'Highest' or 'Least', lines[1].last,
      named(best))
  end
  if ends > 1 then
    -- the level is not better than where the last one ends, whatever digits are left out
    local shown, level = rounded[higher and 'down' or 'up'](lines[ends].last)
    local at, first = math.huge, {}
    for i = 1, ends do
      local when = M.reaches(lines[i].points, level, higher)
      if when and when < at then at, first = when, {} end
      if when and when == at then first[#first + 1] = lines[i].name end
    end
    if #first > 0 then
      out[#out + 1] = ('First to be at %s or %s, where the last one %sends, and to stay there: %s, '
        .. 'after %.3g s.'):format(shown, higher and 'more' or 'less', more > 0 and 'shown ' or '',
        named(first), at)
    end
  end
  if #broken > 0 then
    out[#out + 1] = ('%s end%s without a number.'):format(named(broken), #broken == 1 and 's' or '')
  end
  return table.concat(out, ' ')
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
  local higher = (opt.better or column.about(opt.y).better) == 'higher'
  local lines = lines_of(rows, opt, higher)
  local more, mixed = math.max(0, #lines - LINES), false
  for i = #lines, LINES + 1, -1 do lines[i] = nil end
  if #lines == 0 then blame.raise(who .. ': no curve has a number', 'EARG') end
  for _, line in ipairs(lines) do mixed = mixed or line.mixed end
  local text = landscape.caption(rows, opt.y, 'Each point of a line is the mean of %s over '
    .. 'neighbouring steps; time without looking at test data and without saving.')
  if mixed then text[#text + 1] = 'Steps of several trainings are in one line.' end
  if more > 0 then text[#text + 1] = ('%d more lines are not shown.'):format(more) end
  return figure.new { kind = 'training', rows = rows, opt = opt, natural = { 1080, 640 },
    title = ('%s over the time trained'):format(column.about(opt.y).label:gsub('^%l',
      string.upper)),
    subtitle = landscape.subtitle(opt, rows),
    finding = finding(lines, higher, more),
    caption = text, draw = draw { lines = lines, y = opt.y } }
end

return M

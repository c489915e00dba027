-- SPDX-License-Identifier: MIT
--
-- Slices: one column over one parameter, a line for each value of a second, a panel for each value
-- of a third; the same axes everywhere. Where time is a power of the parameter the exponent is
-- said, with its uncertainty; hair lines stand where the working set leaves a cache.

local blame = require 'ridge.blame'
local color = require 'ridge.plot.color'
local column = require 'ridge.plot.column'
local figure = require 'ridge.plot.figure'
local landscape = require 'ridge.plot.landscape'
local rows_of = require 'ridge.plot.rows'
local series = require 'ridge.plot.series'

local M = { summary = 'curves over one parameter, a line and a panel for each value of others' }

M.OPTIONS = { x = { 'string', required = true, doc = 'column across' },
  y = { 'string', required = true, doc = 'column upwards' }, by = 'a line a value',
  facet = 'a panel a value' }

local NAMES = 96

-- -- Exponents --------------------------------------------------------------------------------

-- Least squares of log y over log x with its standard error; nil below four points.
local function fit(points)
  local n, sx, sy, sxx, sxy = 0, 0, 0, 0, 0
  for _, p in ipairs(points) do
    if p.x > 0 and p.y > 0 then
      local x, y = math.log(p.x), math.log(p.y)
      n, sx, sy, sxx, sxy = n + 1, sx + x, sy + y, sxx + x * x, sxy + x * y
    end
  end
  local spread = sxx - sx * sx / math.max(n, 1)
  if n < 4 or spread <= 0 then return nil end
  local slope = (sxy - sx * sy / n) / spread
  local base, rest = (sy - slope * sx) / n, 0
  for _, p in ipairs(points) do
    if p.x > 0 and p.y > 0 then
      rest = rest + (math.log(p.y) - base - slope * math.log(p.x)) ^ 2
    end
  end
  return slope, math.sqrt(rest / (n - 2) / spread), math.sqrt(rest / (n - 2))
end

-- What a name at the end of a line says.
local function line_name(value, points)
  local slope, err, residual = fit(points)
  -- a power law that is off by more than a sixth is none
  if not slope or residual > 0.16 then return tostring(value) end
  local exponent = ('%.2f'):format(slope):gsub('^-', '−')
  return ('%s  ∝ %s ± %.2f'):format(tostring(value), exponent, 2 * err)
end

M.fit = fit

-- -- Caches -----------------------------------------------------------------------------------

local LEVELS = { { 'l1d', 'L1' }, { 'l2', 'L2' }, { 'l3', 'LLC' } }

-- Where along x the bytes of a call pass a cache's size: between two measured points.
local function crossings(points, bytes, about)
  local out = {}
  for _, level in ipairs(LEVELS) do
    local size = about[level[1]]
    for i = 2, #points do
      local a, b = points[i - 1].row[bytes], points[i].row[bytes]
      if size and a and b and a <= size and b > size then
        local share = math.log(size / a) / math.log(b / a)
        out[#out + 1] = { x = points[i - 1].x * (points[i].x / points[i - 1].x) ^ share,
          name = level[2] }
      end
    end
  end
  return out
end

-- -- Drawing ----------------------------------------------------------------------------------

local function draw_panel(panel, data, rows, t)
  local values = data.by and rows_of.distinct(rows, data.by) or { '' }
  local colors, labels = color.ordered(#values, t.name), {}
  local crossed
  for i, value in ipairs(values) do
    local line = data.by and rows_of.select(rows, { [data.by] = value }) or rows
    local points = series.points(line, data.x, data.y)
    if #points > 0 then
      crossed = crossed or data.bytes and crossings(points, data.bytes, data.about)
      for _, at in ipairs(i == #values and crossed or {}) do
        if panel.opt.x.scale:holds(at.x) then
          panel:upright(at.x, t.rule, { 2, 3 })
          panel:note(at.name, { { panel:px(at.x) + 4, panel.y + 9 },
            { panel:px(at.x) + 4, panel.y + panel.h - 9 } }, { color = t.muted })
        end
      end
      series.draw(panel, points, { color = colors[i] })
      local last = points[#points]
      labels[#labels + 1] = { x = panel:px(last.x), y = panel:py(last.y),
        text = line_name(value, points), color = t.text }
    end
  end
  if data.by or #labels > 0 then panel:ends(labels) end
end

local function draw(data)
  return function(c, t, box)
    local specs = {}
    for i, facet in ipairs(data.facets) do
      specs[i] = { title = facet.title, x = series.parameter(data.rows, data.x),
        y = series.axis(data.rows, data.y), right = NAMES + 34 }
    end
    local panels = series.grid(c, t, box, specs, #specs == 2 and 2 or nil)
    for i, facet in ipairs(data.facets) do draw_panel(panels[i], data, facet.rows, t) end
  end
end

--- Slices.
---@param rows table
---@param opt table checked options: x, y, by, facet; l1d, l2, l3 (bytes)
---@return table figure
function M.make(rows, opt)
  local who = 'plot.slices'
  rows_of.check(rows, who)
  column.require(rows, opt.x, who)
  rows_of.check_numbers(rows, opt.x, who)
  rows_of.check_numbers(rows, opt.y, who)
  local shown = {}
  for _, row in ipairs(rows) do
    if type(row[opt.x]) == 'number' then shown[#shown + 1] = row end
  end
  local data = { rows = shown, x = opt.x, y = opt.y, facets = {}, about = opt,
    by = opt.by and opt.by ~= opt.x and #rows_of.distinct(shown, opt.by) > 0 and opt.by or nil }
  local bytes = opt.y .. '_bytes'
  data.bytes = rows_of.distinct(shown, bytes)[1] and bytes or nil
  local facets = opt.facet and opt.facet ~= opt.by and rows_of.distinct(shown, opt.facet) or {}
  for _, value in ipairs(facets) do
    local part = rows_of.select(shown, { [opt.facet] = value })
    data.facets[#data.facets + 1] = { title = ('%s %s'):format(opt.facet, tostring(value)),
      rows = part }
  end
  if #facets == 0 then data.facets[1] = { title = nil, rows = shown } end
  if #series.points(shown, opt.x, opt.y) == 0 then
    blame.raise(('%s: no row was measured'):format(who), 'EARG')
  end
  local about = column.about(opt.y, rows)
  local lines = math.ceil(#data.facets / math.max(1, math.ceil(math.sqrt(#data.facets))))
  return figure.new { kind = 'slices', rows = rows, opt = opt,
    natural = { #data.facets > 1 and 1240 or 860, 300 + 330 * lines },
    title = ('%s over %s%s'):format(about.label:gsub('^%l', string.upper),
      column.about(opt.x).label, data.by and ', by ' .. column.about(data.by).label or ''),
    subtitle = landscape.subtitle(opt, rows),
    caption = landscape.caption(rows, opt.y, 'Points are medians of %s, bands their 95 %% '
      .. 'confidence intervals; ∝ is the exponent of a power law with two standard errors, where '
      .. 'one fits within a sixth; hair lines: the bytes of a call leave a cache.'),
    draw = draw(data) }
end

return M

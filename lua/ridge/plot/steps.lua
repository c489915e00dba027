-- SPDX-License-Identifier: MIT
--
-- The quantisation line: a rate over one size in steps of one, or at `probe:` values. Tiles, waves
-- and vector widths make it a saw-tooth that a sweep over powers of two cannot show.

local blame = require 'ridge.blame'
local color = require 'ridge.plot.color'
local column = require 'ridge.plot.column'
local figure = require 'ridge.plot.figure'
local landscape = require 'ridge.plot.landscape'
local rows_of = require 'ridge.plot.rows'
local scale = require 'ridge.plot.scale'
local series = require 'ridge.plot.series'

local M = { summary = 'a rate over one size, step by step: the saw-tooth of tiles and vectors' }

M.OPTIONS = { x = { 'string', required = true, doc = 'the size' },
  y = { 'string', required = true, doc = 'the rate' }, by = 'a line a value',
  tile = { 'integer', min = 2, doc = 'a hair line at each multiple; found when left out' } }

-- Of the usual tile sizes the one whose multiples stand out most from their lower neighbours.
local TILES = { 8, 16, 32, 48, 64, 96, 128 }

-- How much better a multiple is than the size one above it, on average: a tooth falls there.
local function drop_after(points, tile)
  local at, sum, n = {}, 0, 0
  for _, p in ipairs(points) do at[p.x] = p.y end
  for _, p in ipairs(points) do
    local next_one = p.x % tile == 0 and at[p.x + 1]
    if next_one then sum, n = sum + math.log(p.y / next_one), n + 1 end
  end
  return n >= 2 and sum / n or nil
end

--- The tile whose multiples are followed by the largest fall, and that fall.
---@param points table of ridge.plot.series
---@param given integer|nil the tile that is asked for
---@return integer|nil tile nil where nothing falls by more than 2 %
---@return number|nil fall 0.1: a tenth; of `given` whatever it is, nil where none was measured
---@return boolean seen was a multiple of any tile measured, and the size above it?
function M.tile(points, given)
  local counted = {}
  for _, p in ipairs(points) do -- what was disturbed decides nothing
    if p.grade ~= 'D' and p.y > 0 then counted[#counted + 1] = p end
  end
  local best, fall, seen = given, nil, false
  for _, tile in ipairs(given and { given } or TILES) do
    local drop = drop_after(counted, tile)
    seen = seen or drop ~= nil
    if drop and (given or drop > (fall or 0.02) * 1.15) then best, fall = tile, drop end
  end
  return best, fall and 1 - math.exp(-fall), seen
end

-- What is said of one line of several: which one.
local function finding(tile, fall, seen, of)
  local text
  if not seen then
    text = 'No size was measured beside the multiple of a tile below it'
  elseif not tile then
    text = 'No size of tile stands out'
  else
    local percent = math.abs(fall) * 100
    text = ('One more than a multiple of %d %s %.0f %% of the rate on average'):format(tile,
      fall < 0 and 'gains' or 'costs', percent)
  end
  return text .. (of and (' (%s).'):format(of) or '.')
end

local function draw(data)
  return function(c, t, box)
    local y = series.axis(data.rows, data.y, { log = false, zero = true })
    local values = rows_of.distinct(data.rows, data.x)
    local spec = { x = { scale = scale.fit(values, { log = false, pad = 0.02 }), kind = 'integer',
      label = column.about(data.x).label, minor = false }, y = y, right = data.by and 96 or 10 }
    local panel = series.grid(c, t, box, { spec }, 1)[1]
    local first = data.tile and math.ceil(values[1] / data.tile) * data.tile or math.huge
    for at = first, values[#values], data.tile or 1 do panel:upright(at, t.rule, { 2, 3 }) end
    local lines = data.by and rows_of.distinct(data.rows, data.by) or { '' }
    local colors, labels = color.ordered(#lines, t.name), {}
    for i, value in ipairs(lines) do
      local part = data.by and rows_of.select(data.rows, { [data.by] = value }) or data.rows
      local points = series.points(part, data.x, data.y)
      if #points > 0 then
        series.draw(panel, points, { color = data.by and colors[i] or t.sketched, radius = 2.2 })
        local last = points[#points]
        labels[#labels + 1] = { x = panel:px(last.x), y = panel:py(last.y), text = tostring(value) }
      end
    end
    if data.by then panel:ends(labels) end
  end
end

--- The quantisation line.
---@param rows table
---@param opt table checked options
---@return table figure
function M.make(rows, opt)
  local who = 'plot.steps'
  rows_of.check(rows, who)
  rows_of.check_numbers(rows, opt.x, who)
  rows_of.check_numbers(rows, opt.y, who)
  local by = opt.by and #rows_of.distinct(rows, opt.by) > 1 and opt.by or nil
  local first = by and rows_of.distinct(rows, by)[1]
  local points = series.points(by and rows_of.select(rows, { [by] = first }) or rows, opt.x, opt.y)
  if #points == 0 then blame.raise(who .. ': no row was measured', 'EARG') end
  local higher = (opt.better or column.about(opt.y, rows).better) ~= 'lower'
  local tile, fall, seen
  if higher then tile, fall, seen = M.tile(points, opt.tile) end
  local data = { rows = rows, x = opt.x, y = opt.y, by = by, tile = opt.tile or tile }
  return figure.new { kind = 'steps', rows = rows, opt = opt, natural = { 1160, 560 },
    title = ('%s at every %s'):format(column.about(opt.y, rows).label:gsub('^%l', string.upper),
      column.about(opt.x).label),
    subtitle = landscape.subtitle(opt, rows),
    finding = higher and finding(tile, fall, seen, by and ('%s %s'):format(by, tostring(first)))
      or nil,
    caption = landscape.caption(rows, opt.y, 'Points are medians of %s, bands their 95 %% '
      .. 'confidence intervals' .. (data.tile and '; hair lines stand at multiples of '
      .. data.tile or '') .. '.'), draw = draw(data) }
end

return M

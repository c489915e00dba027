-- SPDX-License-Identifier: MIT
--
-- Main effects: a small panel for each parameter, with the median over all others at each of its
-- values and the spread; which parameter matters at all, before any map.

local blame = require 'ridge.blame'
local column = require 'ridge.plot.column'
local figure = require 'ridge.plot.figure'
local landscape = require 'ridge.plot.landscape'
local rows_of = require 'ridge.plot.rows'
local scale = require 'ridge.plot.scale'
local series = require 'ridge.plot.series'

local M = { summary = 'which parameter matters: median and spread over all others' }

M.OPTIONS = { y = { 'string', required = true, doc = 'column upwards' },
  params = 'parameters, by comma' }

local MOST = 12 -- panels

local function quantile(list, share)
  local at = 1 + share * (#list - 1)
  local low = math.floor(at)
  local high = math.min(low + 1, #list)
  return list[low] + (list[high] - list[low]) * (at - low)
end

-- Median and quarters of y at each value of a parameter; what was disturbed has no say.
local function levels(rows, name, y)
  local out, lists = {}, {} -- in one pass: a parameter may have as many values as there are rows
  for _, row in ipairs(rows) do
    local value = row[name]
    if value ~= nil and rows_of.counts(row) and row[y] then
      local list = lists[value] or {}
      lists[value], list[#list + 1] = list, row[y]
    end
  end
  for _, value in ipairs(rows_of.distinct(rows, name)) do
    local list = lists[value]
    if list then
      table.sort(list)
      out[#out + 1] = { value = value, n = #list, median = quantile(list, 0.5),
        low = quantile(list, 0.25), high = quantile(list, 0.75), least = list[1],
        most = list[#list] }
    end
  end
  return out
end

--- Parameters by how far their medians lie apart, largest first.
---@param rows table
---@param params table names
---@param y string column
---@return table effects each name, levels, reach (largest over smallest median; largest less
---  smallest where there are `differences`)
---@return boolean differences is a median of one of them not above 0?
function M.effects(rows, params, y)
  local list = {}
  for i, name in ipairs(params) do list[i] = { name = name, levels = levels(rows, name, y) } end
  return M.reaches(list)
end

--- As `effects`, from the levels of each parameter.
---@param params table[] each name, levels (each value, median)
---@return table effects
---@return boolean differences
function M.reaches(params)
  local out, ratios = {}, true
  for _, each in ipairs(params) do
    local name, list = each.name, each.levels
    local least, most = math.huge, -math.huge
    for _, level in ipairs(list) do
      least, most = math.min(least, level.median), math.max(most, level.median)
    end
    if #list > 1 then
      out[#out + 1] = { name = name, levels = list, least = least, most = most }
      ratios = ratios and least > 0
    end
  end
  for _, effect in ipairs(out) do
    effect.reach = ratios and effect.most / effect.least or effect.most - effect.least
  end
  table.sort(out, function(a, b)
    if a.reach ~= b.reach then return a.reach > b.reach end
    return a.name < b.name
  end)
  return out, not ratios
end

local function categories(effect)
  local axis = { scale = scale.linear(0.5, #effect.levels + 0.5), ticks = {}, categories = {},
    minor = false }
  for i, level in ipairs(effect.levels) do
    axis.ticks[i] = i
    axis.categories[i] = type(level.value) == 'number' and ('%.6g'):format(level.value)
      or tostring(level.value)
  end
  return axis
end

local function draw(data)
  return function(c, t, box)
    local specs, seen = {}, {}
    for _, row in ipairs(data.rows) do
      if rows_of.counts(row) then seen[#seen + 1] = row end -- the others are not drawn
    end
    local y = series.axis(seen, data.y)
    for i, effect in ipairs(data.effects) do
      specs[i] = { title = (data.differences and '%s  %.3g' or '%s  %.3g×'):format(
        effect.name, effect.reach), x = categories(effect),
        y = { scale = y.scale, kind = y.kind, label = i == 1 and y.label or ' ' } }
    end
    for i, panel in ipairs(series.grid(c, t, box, specs, math.min(#specs, 3))) do
      local xs, ys = {}, {}
      for k, level in ipairs(data.effects[i].levels) do
        xs[k], ys[k] = k, level.median
        local x = panel:px(k)
        c:line(x, panel:py(level.most), x, panel:py(level.least), t.rule, 1.2)
        local top, bottom = panel:py(level.high), panel:py(level.low)
        c:rect(x - 5, top, 10, math.max(bottom - top, 1), { t.sketched[1], t.sketched[2],
          t.sketched[3], 0.28 }, 2)
      end
      panel:path(xs, ys, t.sketched)
      for k, level in ipairs(data.effects[i].levels) do
        panel:point('circle', k, level.median, nil, nil, { color = t.sketched })
      end
    end
  end
end

--- Main effects.
---@param rows table
---@param opt table checked options: y, params (names by comma; those with several values when left
---  out)
---@return table figure
function M.make(rows, opt)
  local who = 'plot.effects'
  rows_of.check(rows, who)
  rows_of.check_numbers(rows, opt.y, who)
  local params = {}
  for name in (opt.params or ''):gmatch '[^,%s]+' do
    column.require(rows, name, who)
    params[#params + 1] = name
  end
  if #params == 0 then blame.raise(who .. ': params names no parameter', 'EARG') end
  local effects, differences = M.effects(rows, params, opt.y)
  if #effects == 0 then
    blame.raise(who .. ': no parameter has several values that were measured and not of grade D',
      'EARG')
  end
  for i = #effects, MOST + 1, -1 do effects[i] = nil end
  local lines = math.ceil(#effects / 3)
  local least, times = effects[#effects], differences and '' or ' times'
  return figure.new { kind = 'effects', rows = rows, opt = opt,
    natural = { #effects > 1 and 1160 or 620, 260 + 290 * lines },
    title = ('What matters for %s'):format(column.about(opt.y, rows).label),
    subtitle = landscape.subtitle(opt, rows),
    finding = effects[1].reach == (differences and 0 or 1) and 'Nothing moves the median.'
      or ('%s moves the median by %.3g%s%s.'):format(effects[1].name, effects[1].reach, times,
      #effects > 1 and (', %s by %.3g'):format(least.name, least.reach) or ''),
    caption = landscape.caption(rows, opt.y, 'Points are medians of %s over all other parameters, '
      .. 'boxes the middle half, lines the range; sorted by '
      .. (differences and 'largest less smallest median.' or 'largest over smallest median.')),
    draw = draw { rows = rows, y = opt.y, effects = effects, differences = differences } }
end

return M

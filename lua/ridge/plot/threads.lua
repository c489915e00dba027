-- SPDX-License-Identifier: MIT
--
-- Thread scaling: how many times faster than with the fewest threads, the ideal line, Amdahl's law
-- (1967) fitted, and below the efficiency.

local blame = require 'ridge.blame'
local color = require 'ridge.plot.color'
local column = require 'ridge.plot.column'
local figure = require 'ridge.plot.figure'
local landscape = require 'ridge.plot.landscape'
local rows_of = require 'ridge.plot.rows'
local scale = require 'ridge.plot.scale'
local series = require 'ridge.plot.series'
local unit = require 'ridge.show.unit'

local M = { summary = 'speed-up over threads, with the ideal and Amdahl\'s law' }

M.OPTIONS = { x = { 'string', default = 'threads', doc = 'the number of threads' },
  y = { 'string', required = true, doc = 'phase' }, by = 'a line a value' }

-- Speed-ups of one line: over its fewest threads, with the intervals that both have within their
-- minutes.
local function scaled(points, higher, name)
  local base, out = points[1], {}
  for _, p in ipairs(points) do p.lo, p.hi = rows_of.own_interval(p.row, name) end
  for i, p in ipairs(points) do
    local over, under = base, p -- of a time
    if higher then over, under = p, base end
    out[i] = { x = p.x, y = over.y / under.y, lo = over.lo / under.hi, hi = over.hi / under.lo,
      grade = p.grade, row = p.row }
  end
  out[1].lo, out[1].hi = 1, 1
  return out, base
end

--- The share that does not run in parallel, by least squares over 1 / speed-up = s + (1 - s) / n.
---@param points table x threads, y speed-up; x of the first is the base
---@return number|nil share
function M.serial(points)
  local base, over, under = points[1].x, 0, 0
  for _, p in ipairs(points) do
    local n = p.x / base
    local a, b = 1 - 1 / n, 1 / p.y - 1 / n
    over, under = over + a * b, under + a * a
  end
  return under > 0 and math.max(0, math.min(1, over / under)) or nil
end

local function draw(data)
  return function(c, t, box)
    local values, speed, share = rows_of.distinct(data.rows, data.x), { 1 }, { 0, 1 }
    local base = values[1]
    for _, line in ipairs(data.lines) do
      for _, p in ipairs(line.points) do
        local n = p.x / line.points[1].x
        series.reach(speed, p, true)
        series.reach(share, { y = p.y / n, lo = 0, hi = p.hi / n })
      end
    end
    speed[#speed + 1] = values[#values] / base
    local x = { scale = scale.fit(values, { log = #values > 1 and 2 or false, pad = 0.05 }),
      kind = 'integer', ticks = values, minor = false }
    local below = { scale = x.scale, kind = 'integer', ticks = values, minor = false,
      label = column.about(data.x).label }
    local panels = series.grid(c, t, box, {
      { title = 'Speed-up', x = x, right = 170,
        y = { scale = scale.fit(speed, { log = 2 }), kind = 'times', label = ' ' } },
      { title = 'Efficiency', x = below, right = 170,
        y = { scale = scale.fit(share, { log = false, pad = 0.04 }), kind = 'number',
          label = ' ' } } }, 1)
    panels[1]:path(values, (function()
      local out = {}
      for i, v in ipairs(values) do out[i] = v / base end
      return out
    end)(), t.axis, 1.4, { 6, 4 })
    panels[2]:level(1, nil, nil, t.axis, { 6, 4 })
    local labels = { {}, {} }
    for i, line in ipairs(data.lines) do
      local ink = color.category(i, t.name)
      local law, steps, own = {}, {}, line.points[1].x -- the fewest of this line
      for k = 0, line.serial and 24 or -1 do
        local n = own * (values[#values] / own) ^ (k / 24)
        steps[#steps + 1], law[#law + 1] = n, 1 / (line.serial + (1 - line.serial) * own / n)
      end
      if #steps > 0 then panels[1]:path(steps, law, color.alpha(ink, 0.5), 1.3, { 2, 3 }) end
      series.draw(panels[1], line.points, { color = ink })
      local efficiency = {}
      for k, p in ipairs(line.points) do
        local n = p.x / own
        efficiency[k] = { x = p.x, y = p.y / n, lo = p.lo / n, hi = p.hi / n, grade = p.grade }
      end
      series.draw(panels[2], efficiency, { color = ink })
      local last = line.points[#line.points]
      labels[1][i] = { x = panels[1]:px(last.x), y = panels[1]:py(last.y), color = t.text,
        text = ('%s  from %s'):format(line.name, unit.format(data.kind, line.base)) }
      local e = efficiency[#efficiency]
      labels[2][i] = { x = panels[2]:px(e.x), y = panels[2]:py(e.y), color = t.text,
        text = line.serial and ('serial %.1f %%'):format(line.serial * 100) or '' }
    end
    for i = 1, 2 do panels[i]:ends(labels[i]) end
  end
end

--- Thread scaling.
---@param rows table
---@param opt table checked options
---@return table figure
function M.make(rows, opt)
  local who = 'plot.threads'
  rows_of.check(rows, who)
  column.require(rows, opt.x, who)
  rows_of.check_numbers(rows, opt.x, who)
  rows_of.check_numbers(rows, opt.y, who)
  local by = opt.by and opt.by ~= opt.x and #rows_of.distinct(rows, opt.by) > 0 and opt.by or nil
  local lines, higher = {}, (opt.better or column.about(opt.y, rows).better) == 'higher'
  for _, value in ipairs(by and rows_of.distinct(rows, by) or { '' }) do
    local part = by and rows_of.select(rows, { [by] = value }) or rows
    local points = series.points(part, opt.x, opt.y)
    if #points > 0 then
      local list, base = scaled(points, higher, opt.y)
      lines[#lines + 1] = { name = by and ('%s %s'):format(by, tostring(value)) or opt.y,
        points = list, base = base.y, serial = #list > 1 and M.serial(list) or nil }
    end
  end
  if #lines == 0 then blame.raise(who .. ': no row was measured', 'EARG') end
  local best
  for _, line in ipairs(lines) do
    for i, p in ipairs(line.points) do
      -- no ratio to what was disturbed, nor of it
      if i > 1 and p.grade ~= 'D' and line.points[1].grade ~= 'D' and (not best or p.y > best.y)
      then
        best = { y = p.y, x = p.x, name = line.name }
      end
    end
  end
  return figure.new { kind = 'threads', rows = rows, opt = opt, natural = { 980, 860 },
    title = ('%s over threads'):format(column.about(opt.y, rows).label:gsub('^%l', string.upper)),
    subtitle = landscape.subtitle(opt, rows),
    finding = best and (best.y > 1 and ('At most %.2f times faster, with %d threads (%s).'):format(
      best.y, best.x, best.name) or 'More threads are not faster.') or nil,
    caption = landscape.caption(rows, opt.y, 'Points are ratios of medians of %s to that with the '
      .. 'fewest threads, bands follow from 95 %% confidence intervals; dashes are the ideal, dots '
      .. 'Amdahl\'s law fitted.'),
    draw = draw { rows = rows, lines = lines, x = opt.x, kind = column.about(opt.y, rows).kind } }
end

return M

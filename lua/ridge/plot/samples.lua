-- SPDX-License-Identifier: MIT
--
-- Samples in the order in which they were taken: warm-up, drift, modes, throttling; the first
-- picture to open when a grade is not A.

local blame = require 'ridge.blame'
local color = require 'ridge.plot.color'
local figure = require 'ridge.plot.figure'
local landscape = require 'ridge.plot.landscape'
local rows_of = require 'ridge.plot.rows'
local scale = require 'ridge.plot.scale'
local series = require 'ridge.plot.series'

local M = { summary = 'samples in order: drift, modes, disturbances' }

M.OPTIONS = { trials = 'numbers of trials, by comma; the most spread one when left out',
  y = 'phase' }

local PANELS = 4

-- Beyond so many samples a line would hide the cloud.
local SMOOTHED = 20000

local function median(list)
  local copy = {}
  for i = 1, #list do copy[i] = list[i] end
  table.sort(copy)
  return (copy[math.ceil(#copy / 2)] + copy[math.floor(#copy / 2) + 1]) / 2
end

-- The running median of nine: what drifts shows, what is one sample does not.
local function smooth(ys)
  local out = {}
  for i = 1, #ys <= SMOOTHED and #ys or 0 do
    local near = {}
    for k = math.max(1, i - 4), math.min(#ys, i + 4) do near[#near + 1] = ys[k] end
    out[i] = median(near)
  end
  return out
end

local function usual_gap(xs)
  local gaps = {}
  for i = 2, #xs do gaps[i - 1] = xs[i] - xs[i - 1] end
  return #gaps > 0 and median(gaps) or math.huge
end

local function group(rows)
  local groups, by = {}, {}
  for _, row in ipairs(rows) do
    local trial = row.trial or 0 -- rows of a table of one's own may have none
    local g = by[trial]
    if not g then
      g = { trial = trial, point = tostring(row.point or 'trial ' .. trial), grade = row.grade,
        flags = row.flags, rows = {} }
      by[trial] = g
      groups[#groups + 1] = g
    end
    g.rows[#g.rows + 1] = row
  end
  for _, g in ipairs(groups) do
    table.sort(g.rows, function(a, b) return a.sample < b.sample end)
  end
  return groups
end

local function draw_group(panel, g, timed, t)
  local xs, ys = {}, {}
  for i, row in ipairs(g.rows) do
    xs[i], ys[i] = timed and row.at / 1e9 or row.sample, row.ns
  end
  local floor = panel.opt.y.scale
  for i = 1, #xs do
    if floor:holds(ys[i]) then
      panel.canvas:marker('circle', panel:px(xs[i]), panel:py(ys[i]),
        #xs > 2000 and 1.2 or 2.4, color.alpha(g.rows[i].disturbed and t.warn or t.sketched,
          #xs > 500 and 0.4 or 0.75))
    end
  end
  local line = {}
  for i, v in ipairs(smooth(ys)) do line[i] = math.max(math.min(v, floor.hi), floor.lo) end
  -- between two rounds other points were timed: the line stops there
  local px, py, gap = {}, {}, usual_gap(xs) * 8
  for i = 1, #line do
    if i > 1 and xs[i] - xs[i - 1] > gap then
      panel.canvas:polyline(px, py, t.axis, 1.6)
      px, py = {}, {}
    end
    px[#px + 1], py[#py + 1] = panel:px(xs[i]), panel:py(line[i])
  end
  if #px > 1 then panel.canvas:polyline(px, py, t.axis, 1.6) end
end

local function y_axis(g)
  local values = {}
  for i, row in ipairs(g.rows) do values[i] = row.ns end
  return { scale = scale.fit(values, { log = false }), kind = 'ns', label = 'time of a call' }
end

-- The point, its grade and its flags: the first few of many.
local MOST_FLAGS = 4

local function headline(g)
  local flags = {}
  for flag in (g.flags or ''):gmatch '%S+' do flags[#flags + 1] = flag end
  local more = #flags - MOST_FLAGS
  for i = #flags, MOST_FLAGS + 1, -1 do flags[i] = nil end
  return ('%s   grade %s%s%s'):format(g.point, g.grade or '?', #flags > 0
    and ', ' .. table.concat(flags, ' ') or '', more > 0 and (' and %d more'):format(more) or '')
end

local function draw(groups)
  return function(c, t, box)
    local specs, timed = {}, true
    for _, g in ipairs(groups) do
      for _, row in ipairs(g.rows) do timed = timed and row.at ~= nil end
    end
    for i, g in ipairs(groups) do
      local last = g.rows[#g.rows]
      local first = g.rows[1]
      specs[i] = { title = headline(g), y = y_axis(g),
        x = { scale = timed and scale.linear(first.at / 1e9, math.max(last.at / 1e9,
          first.at / 1e9 + 1e-9)) or scale.linear(0, #g.rows + 1), kind = 'number', minor = false,
          label = timed and 'seconds' or 'sample' } }
    end
    for i, panel in ipairs(series.grid(c, t, box, specs, 1)) do
      draw_group(panel, groups[i], timed, t)
    end
  end
end

local function spread_of(g)
  local list = {}
  for i, row in ipairs(g.rows) do list[i] = row.ns end
  table.sort(list)
  return list[math.ceil(#list * 0.95)] / median(list)
end

--- Samples in order.
---@param rows table one a sample: trial, point, sample, ns, at (ns), disturbed, grade
---@param opt table checked options
---@return table figure
function M.make(rows, opt)
  local who = 'plot.samples'
  rows_of.check(rows, who)
  for _, name in ipairs { 'ns', 'sample' } do rows_of.check_numbers(rows, name, who, true) end
  local groups = group(rows)
  local more = math.max(0, #groups - PANELS)
  for i = #groups, PANELS + 1, -1 do groups[i] = nil end
  if #groups == 0 then blame.raise(who .. ': there are no samples', 'EARG') end
  local text = { ('%d samples. Dots are samples, of another colour where the process was moved '
    .. 'or put aside meanwhile; the line is the running median of nine, broken between rounds.')
    :format(#rows) }
  if more > 0 then text[2] = ('%d more points are not shown.'):format(more) end
  return figure.new { kind = 'samples', rows = rows, opt = opt,
    natural = { 1080, 250 + 250 * #groups }, title = 'Samples in order',
    subtitle = landscape.subtitle(opt, rows),
    finding = ('The 95th percentile of %s is %.2f times its median.'):format(groups[1].point,
      spread_of(groups[1])),
    caption = text, draw = draw(groups) }
end

M.group = group

return M

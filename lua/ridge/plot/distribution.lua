-- SPDX-License-Identifier: MIT
--
-- How samples are distributed: the share that is at most so long (ECDF), with a rug of the samples;
-- a histogram on request. Modes and tails, which a mean hides.

local blame = require 'ridge.blame'
local color = require 'ridge.plot.color'
local figure = require 'ridge.plot.figure'
local landscape = require 'ridge.plot.landscape'
local rounded = require 'ridge.plot.rounded'
local rows_of = require 'ridge.plot.rows'
local samples = require 'ridge.plot.samples'
local scale = require 'ridge.plot.scale'
local series = require 'ridge.plot.series'

local M = { summary = 'how samples are distributed: ECDF with a rug, or a histogram' }

M.OPTIONS = { trials = 'numbers of trials, by comma; the most spread one when left out',
  y = 'phase', histogram = { 'boolean', default = false, doc = 'bars instead' } }

local MOST, STEPS = 8, 800

local function sorted(g)
  local list = {}
  for i, row in ipairs(g.rows) do list[i] = row.ns end
  table.sort(list)
  return list
end

-- The ECDF as steps, at most STEPS of them.
local function steps(list)
  local xs, ys, n = {}, {}, #list
  local stride = math.max(1, math.ceil(n / STEPS))
  xs[1], ys[1] = list[1], 0
  for i = 1, n, stride do
    xs[#xs + 1], ys[#ys + 1] = list[i], (i - 1) / n
    xs[#xs + 1], ys[#ys + 1] = list[i], math.min(i + stride - 1, n) / n
  end
  xs[#xs + 1], ys[#ys + 1] = list[n], 1
  return xs, ys
end

-- Counts in bins of equal ratio (Freedman and Diaconis, 1981, on logarithms).
local function bins(list)
  local n = #list
  local lo, hi = math.log(list[1]), math.log(list[n])
  local spread = math.log(list[math.ceil(n * 0.75)] / list[math.ceil(n * 0.25)])
  local width = math.max(2 * spread / n ^ (1 / 3), (hi - lo) / 120, 1e-6)
  local count, out = math.max(1, math.ceil((hi - lo) / width)), {}
  if hi > lo then width = (hi - lo) / count end
  for i = 1, count do
    out[i] = { from = math.exp(lo + (i - 1) * width), to = math.exp(lo + i * width), n = 0 }
  end
  for _, v in ipairs(list) do
    local i = math.min(count, math.floor((math.log(v) - lo) / width) + 1)
    out[i].n = out[i].n + 1
  end
  return out
end

M.bins = bins

local function draw(data)
  return function(c, t, box)
    local all, tallest = {}, 0
    for _, g in ipairs(data.groups) do
      for _, v in ipairs(g.list) do all[#all + 1] = v end
      for _, bin in ipairs(data.histogram and g.bins or {}) do
        tallest = math.max(tallest, bin.n / #g.list)
      end
    end
    local top = data.histogram and tallest * 1.06 or 1
    local panel = series.grid(c, t, box, { { right = 16,
      x = { scale = scale.fit(all, { log = 10, pad = 0.03 }), kind = 'ns',
        label = 'time of a call' },
      y = { scale = scale.linear(0, top), kind = 'number', label = data.histogram
        and 'share of the samples' or 'share of the samples that is no longer', minor = false } } },
      1)[1]
    local names = {}
    for i, g in ipairs(data.groups) do
      local ink, shape, dash = color.category(i, t.name)
      if data.histogram then
        for _, bin in ipairs(g.bins) do
          local x1, x2, y = panel:px(bin.from), panel:px(bin.to), panel:py(bin.n / #g.list)
          c:rect(x1, y, math.max(x2 - x1 - 0.6, 0.6), panel.y + panel.h - y, color.alpha(ink, 0.55))
        end
      else
        local xs, ys = steps(g.list)
        panel:path(xs, ys, ink, 2, dash)
      end
      local stride = math.max(1, math.ceil(#g.list / 2000))
      for k = 1, #g.list, stride do
        local x = panel:px(g.list[k])
        c:line(x, panel.y + panel.h - 4 - 7 * i, x, panel.y + panel.h + 1 - 7 * i,
          color.alpha(ink, 0.35), 1)
      end
      names[i] = { y = panel:py(top * (0.92 - 0.07 * i)), ink = ink, text = g.point,
        shape = shape }
    end
    for _, name in ipairs(#names > 1 and names or {}) do
      c:marker(name.shape, panel.x + 14, name.y, t.marker, name.ink, t.paper, 1)
      c:text(panel.x + 24, name.y, name.text, { size = t.size.note, color = t.text,
        valign = 'middle', halo = t.paper })
    end
  end
end

-- Half of the samples, and all but one in a hundred, as bounds that hold for the digits shown.
local function finding(g)
  local list, n = g.list, #g.list
  local median, off = list[math.ceil(n / 2)], {}
  for i, v in ipairs(list) do off[i] = math.abs(v / median - 1) end
  table.sort(off)
  local many = n >= 100
  return ('%s: half within %s %% of the median, %s at most %s times it.'):format(g.point,
    rounded.up(100 * off[math.ceil(n / 2)], 2), many and '99 of 100' or 'the longest',
    rounded.up(list[many and math.ceil(n * 0.99) or n] / median))
end

--- How samples are distributed.
---@param rows table one a sample: trial, point, sample, ns
---@param opt table checked options: histogram
---@return table figure
function M.make(rows, opt)
  local who = 'plot.distribution'
  rows_of.check(rows, who)
  for _, name in ipairs { 'ns', 'sample' } do rows_of.check_numbers(rows, name, who, true) end
  local groups = samples.group(rows)
  for i = #groups, MOST + 1, -1 do groups[i] = nil end
  for _, g in ipairs(groups) do
    g.list = sorted(g)
    if g.list[1] <= 0 then blame.raise(who .. ': a time of 0 has no logarithm', 'EARG') end
    g.bins = opt.histogram and bins(g.list) or nil
  end
  return figure.new { kind = 'distribution', rows = rows, opt = opt, natural = { 1000, 640 },
    title = #groups == 1 and 'Distribution of ' .. groups[1].point or 'Distributions of samples',
    subtitle = landscape.subtitle(opt, rows),
    finding = finding(groups[1]),
    caption = { ('%d samples. Each short line at the bottom is a sample.'):format(#rows) },
    draw = draw { groups = groups, histogram = opt.histogram } }
end

return M

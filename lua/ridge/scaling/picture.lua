-- SPDX-License-Identifier: MIT
--- Efficiency and step time over ranks: what was measured as points with their intervals, what a
--- model predicts as dashes with its band, and the ideal.

local color = require 'ridge.plot.color'
local figure = require 'ridge.plot.figure'
local scale = require 'ridge.plot.scale'
local series = require 'ridge.plot.series'

local M = {}

local DASH = { 6, 4 }

-- Dashes with their band, without a mark: nothing was measured there.
local function predicted(panel, points, ink, t)
  local xs, ys, bx, by = {}, {}, {}, {}
  for i, p in ipairs(points) do
    xs[i], ys[i] = p.x, p.y
    bx[i], by[i] = panel:px(p.x), panel:py_end(p.hi)
  end
  for i = #points, 1, -1 do
    bx[#bx + 1], by[#by + 1] = panel:px(points[i].x), panel:py_end(points[i].lo)
  end
  if #points > 1 then
    panel.canvas:polygon(bx, by, { ink[1], ink[2], ink[3], t.band * 1.8 })
    panel:path(xs, ys, ink, nil, DASH)
  end
end

local function points_of(found, how, first)
  local list = {}
  for _, line in ipairs(found.lines) do
    if line[2] == how then
      local y = line[first]
      list[#list + 1] = { x = line[1], y = y, lo = line[first + 1] or y, hi = line[first + 2] or y }
    end
  end
  return list
end

local function draw(found)
  return function(c, t, box)
    local ranks, share, time = {}, { 0, 1 }, {}
    local own, model = {}, {}
    for name, first in pairs { efficiency = 6, step = 3 } do
      own[name], model[name] = points_of(found, 'measured', first), points_of(found, 'model', first)
    end
    for _, list in ipairs { own, model } do
      for _, p in ipairs(list.efficiency) do
        ranks[#ranks + 1] = p.x
        series.reach(share, p)
      end
      for _, p in ipairs(list.step) do series.reach(time, p, true) end
    end
    table.sort(ranks)
    local x = { scale = scale.fit(ranks, { log = ranks[#ranks] > ranks[1] and 2 or false,
      pad = 0.05 }), kind = 'integer', minor = false }
    local below = { scale = x.scale, kind = 'integer', minor = false, label = 'ranks' }
    local panels = series.grid(c, t, box, {
      { title = 'Efficiency', x = x, right = 110,
        y = { scale = scale.fit(share, { log = false, pad = 0.04 }), kind = 'number',
          label = ' ' } },
      { title = 'A step, us', x = below, right = 110,
        y = { scale = scale.fit(time, { log = 10 }), kind = 'number', label = ' ' } } }, 1)
    panels[1]:level(1, nil, nil, t.axis, { 2, 3 })
    local ink, other = color.category(1, t.name), color.category(2, t.name)
    for i, name in ipairs { 'efficiency', 'step' } do
      predicted(panels[i], model[name], other, t)
      series.draw(panels[i], own[name], { color = ink, line = false })
      local labels = {}
      for _, each in ipairs { { 'model', model[name] }, { 'measured', own[name] } } do
        local last = each[2][#each[2]]
        if last then
          labels[#labels + 1] = { x = panels[i]:px(last.x), y = panels[i]:py(last.y),
            color = t.text, text = each[1] }
        end
      end
      panels[i]:ends(labels)
    end
  end
end

--- The picture.
---@param found table of ridge.scaling.table.rows
---@param facts table script, device
---@param sentences string of ridge.scaling.table.sentences
---@return table figure
function M.make(found, facts, sentences)
  local rows = {}
  for i, line in ipairs(found.lines) do
    rows[i] = {}
    for k, title in ipairs(found.titles) do rows[i][title] = line[k] end
  end
  local finding, rest = sentences:match '^([^\n]*)\n(.*)$'
  local caption = { 'Points were measured, bars are 95 % confidence intervals; dashes and their '
    .. 'band are predicted by a model, dots the ideal.' }
  for line in rest:gmatch '[^\n]+' do caption[#caption + 1] = line end
  return figure.new { kind = 'scaling', rows = rows, opt = {}, natural = { 980, 860 },
    title = ('%s over ranks'):format(facts.script), subtitle = facts.device or '',
    finding = finding, caption = caption, draw = draw(found) }
end

return M

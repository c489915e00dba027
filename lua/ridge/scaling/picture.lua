-- SPDX-License-Identifier: MIT
--- Efficiency and step time over ranks: what was measured as points with their intervals, what a
--- model predicts as dashes with its band, and the ideal.

local color = require 'ridge.plot.color'
local figure = require 'ridge.plot.figure'
local scale = require 'ridge.plot.scale'
local series = require 'ridge.plot.series'
local settings = require 'ridge.scaling.settings'
local scaling = require 'ridge.scaling.table'

local M = {}

local SIMULATED = scaling.SIMULATED
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
  local list = { how = how }
  for _, line in ipairs(found.lines) do
    local played = how == 'measured' and line[2] == SIMULATED
    if line[2] == how or played then
      if played then list.how = SIMULATED end
      local y = line[first]
      list[#list + 1] = { x = line[1], y = y, lo = line[first + 1] or y, hi = line[first + 2] or y }
    end
  end
  return list
end

-- Points of each setting by panel, and what axes have to hold.
local function gathered(list, played)
  local all = { ranks = {}, efficiency = { 0, 1 }, step = {} }
  for i, each in ipairs(list) do
    local found = scaling.rows(each.measured, each.predicted, nil, played)
    all[i] = { measured = {}, model = {}, name = settings.name(each.setting) }
    for name, first in pairs { efficiency = 6, step = 3 } do
      for _, how in ipairs { 'measured', 'model' } do
        all[i][how][name] = points_of(found, how, first)
        for _, p in ipairs(all[i][how][name]) do
          all.ranks[#all.ranks + 1] = p.x
          series.reach(all[name], p, name == 'step')
        end
      end
    end
  end
  table.sort(all.ranks)
  return all
end

-- What stands at the end of a line: which of the two it is, or of which setting.
local function ends(panel, all, name, inks, t)
  local labels = {}
  local function put(points, text, ink)
    local last = points[#points]
    if last then
      labels[#labels + 1] = { x = panel:px(last.x), y = panel:py(last.y), color = ink, text = text }
    end
  end
  if #all == 1 then
    put(all[1].model[name], 'model', t.text)
    put(all[1].measured[name], all[1].measured[name].how, t.text)
  else
    for i, each in ipairs(all) do put(each.model[name], each.name, inks[i]) end
  end
  panel:ends(labels)
end

local function draw(list, played)
  return function(c, t, box)
    local all = gathered(list, played)
    local ranks, right = all.ranks, 110
    for _, each in ipairs(all) do
      right = math.max(right, c:measure(each.name, t.size.note) + 24)
    end
    local x = { scale = scale.fit(ranks, { log = ranks[#ranks] > ranks[1] and 2 or false,
      pad = 0.05 }), kind = 'integer', minor = false }
    local below = { scale = x.scale, kind = 'integer', minor = false, label = 'ranks' }
    local panels = series.grid(c, t, box, {
      { title = 'Efficiency', x = x, right = right,
        y = { scale = scale.fit(all.efficiency, { log = false, pad = 0.04 }), kind = 'number',
          label = ' ' } },
      { title = 'A step, us', x = below, right = right,
        y = { scale = scale.fit(all.step, { log = 10 }), kind = 'number', label = ' ' } } }, 1)
    panels[1]:level(1, nil, nil, t.axis, { 2, 3 })
    for i, name in ipairs { 'efficiency', 'step' } do
      local inks = {}
      for k, each in ipairs(all) do
        local ink, shape = color.category(k, t.name)
        inks[k] = ink
        predicted(panels[i], each.model[name], #all == 1 and color.category(2, t.name) or ink, t)
        series.draw(panels[i], each.measured[name], { color = ink, line = false, shape = shape })
      end
      ends(panels[i], all, name, inks, t)
    end
  end
end

--- The picture.
---@param list table of {setting, measured, predicted}
---@param axes string[] of settings
---@param facts table script, device, simulated, played (a program played what was measured)
---@param sentences string of ridge.scaling.table.sentences
---@return table figure
function M.make(list, axes, facts, sentences)
  local found, rows = scaling.all(list, axes, nil, facts.played), {}
  for i, line in ipairs(found.lines) do
    rows[i] = {}
    for k, title in ipairs(found.titles) do rows[i][title] = line[k] end
  end
  local finding, rest = sentences:match '^([^\n]*)\n(.*)$'
  local caption = { 'Points were measured, bars are 95 % confidence intervals; dashes and their '
    .. 'band are predicted by a model, dots the ideal.' }
  for line in rest:gmatch '[^\n]+' do caption[#caption + 1] = line end
  return figure.new { kind = 'scaling', rows = rows, opt = {}, natural = { 980, 860 },
    title = ('%s over ranks%s'):format(facts.script, facts.simulated and ', SIMULATED' or ''),
    subtitle = facts.device or '', finding = finding, caption = caption,
    draw = draw(list, facts.played) }
end

return M

-- SPDX-License-Identifier: MIT
--
-- What a machine can promise: the smallest work window by window, which shows its states, and four
-- kinds of work in fresh processes, which shows what a run may differ by.

local color = require 'ridge.plot.color'
local figure = require 'ridge.plot.figure'
local landscape = require 'ridge.plot.landscape'
local rows_of = require 'ridge.plot.rows'
local scale = require 'ridge.plot.scale'
local series = require 'ridge.plot.series'

local M = { summary = 'states of the machine, and what fresh processes differ by' }

M.OPTIONS = { text = { 'string', doc = 'what is said of it in a sentence' } }

local STATES = 'windows'

local function axis(rows, name, opt)
  local values = {}
  for i, row in ipairs(rows) do values[i] = row[name] end
  return scale.fit(values, opt)
end

local function draw(data)
  return function(c, t, box)
    local x = { scale = axis(data.rows, 'at_s', { log = false, zero = true }), kind = 'number',
      label = 'seconds' }
    local y = { scale = axis(data.rows, 'ratio', { log = 10, pad = 0.04 }), kind = 'times' }
    local function spec(title, label)
      return { title = title, x = x, right = 110,
        y = { scale = y.scale, kind = y.kind, label = label } }
    end
    local panels = series.grid(c, t, box, { spec('The smallest work, window by window',
      'over its median'), spec('One process a mark', 'over its median') }, 1)
    for _, panel in ipairs(panels) do panel:level(1, nil, nil, t.rule) end
    for _, row in ipairs(data.rows) do
      if row.kind == STATES then
        c:rect(panels[1]:px(row.at_s) - 0.7, panels[1]:py(row.ratio) - 0.7, 1.4, 1.4, t.sketched)
      end
    end
    for i, kind in ipairs(data.kinds) do
      local ink, shape = color.category(i, t.name)
      for _, row in ipairs(data.rows) do
        if row.kind == kind then
          panels[2]:point(shape, row.at_s, row.ratio, nil, nil, { color = ink,
            radius = t.marker * 0.6 })
        end
      end
      local at = panels[2].y + 12 + 18 * i
      c:marker(shape, panels[2].x + panels[2].w + 16, at, t.marker, ink, t.paper, 1)
      c:text(panels[2].x + panels[2].w + 26, at, kind, { size = t.size.note, color = t.text,
        valign = 'middle' })
    end
  end
end

--- What a machine can promise.
---@param rows table kind ('windows', or a kind of work), at_s, ratio (over the median of its kind)
---@param opt table checked options
---@return table figure
function M.make(rows, opt)
  local who = 'plot.trust'
  rows_of.check(rows, who)
  rows_of.check_numbers(rows, 'ratio', who, true)
  rows_of.check_numbers(rows, 'at_s', who, true)
  local kinds, n = {}, 0
  for _, kind in ipairs(rows_of.distinct(rows, 'kind')) do
    if kind ~= STATES then kinds[#kinds + 1] = kind end
  end
  for _, row in ipairs(rows) do n = n + (row.kind == kinds[1] and 1 or 0) end
  return figure.new { kind = 'trust', rows = rows, opt = opt, natural = { 1000, 760 },
    title = 'What this machine can promise', subtitle = landscape.subtitle(opt, rows),
    finding = opt.text,
    caption = { ('%d fresh processes; what one of them measures is one mark of each kind.'):format(
      n) },
    draw = draw { rows = rows, kinds = kinds } }
end

return M

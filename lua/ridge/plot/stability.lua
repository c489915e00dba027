-- SPDX-License-Identifier: MIT
--
-- The histories of ridge.Stability (F225): norms of the gradients before and after clipping, the
-- share that was taken off, elements that were not finite or too large, and the score of each step.

local blame = require 'ridge.blame'
local color = require 'ridge.plot.color'
local figure = require 'ridge.plot.figure'
local landscape = require 'ridge.plot.landscape'
local rows_of = require 'ridge.plot.rows'
local scale = require 'ridge.plot.scale'
local series = require 'ridge.plot.series'

local M = { summary = 'clipping, what was not finite, and the score of each step of a training' }

M.OPTIONS = {}

-- What a panel draws: columns of the history and what they are called.
local PANELS = {
  { title = 'norm of the gradients', log = true,
    lines = { { 'gradient_norm', 'before' }, { 'clipped_norm', 'after clipping' } } },
  { title = 'share of the norm taken off', top = 1, lines = { { 'clipping_ratio', 'clipped' } } },
  { title = 'elements not finite, or too large', count = true,
    lines = { { 'nan', 'nan' }, { 'inf', 'inf' }, { 'overflow', 'too large' } } },
  { title = 'score of the step', top = 1, lines = { { 'score', 'score' } } },
}

local function finite(v) return type(v) == 'number' and v == v and math.abs(v) < math.huge end

--- The points of a line, cut where a step has no finite value.
---@param rows table
---@param name string column
---@return table pieces each a list of {x =, y =}
function M.pieces(rows, name)
  local pieces, piece = {}, nil
  for _, row in ipairs(rows) do
    if finite(row[name]) then
      if not piece then
        piece = {}
        pieces[#pieces + 1] = piece
      end
      piece[#piece + 1] = { x = row.step, y = row[name] }
    else
      piece = nil
    end
  end
  return pieces
end

-- The panels that have anything to show, with their points.
local function shown(rows)
  local out = {}
  for _, about in ipairs(PANELS) do
    local panel = { about = about, lines = {}, values = {} }
    for _, line in ipairs(about.lines) do
      local pieces = M.pieces(rows, line[1])
      for _, piece in ipairs(pieces) do
        for _, p in ipairs(piece) do panel.values[#panel.values + 1] = p.y end
      end
      if #pieces > 0 then panel.lines[#panel.lines + 1] = { name = line[2], pieces = pieces } end
    end
    if #panel.values > 0 then out[#out + 1] = panel end
  end
  return out
end

local function vertical(panel)
  local least, most = math.huge, -math.huge
  for _, v in ipairs(panel.values) do least, most = math.min(least, v), math.max(most, v) end
  local log = panel.about.log and least > 0 and most / least >= 8
  if most == 0 then most = 1 end -- counts of nothing stand on the axis
  return { scale = panel.about.top and scale.linear(0, panel.about.top)
    or scale.fit({ least, most }, { log = log and 10 or false, zero = not log }),
    kind = panel.about.count and 'integer' or 'number', label = panel.about.title }
end

local function draw(data)
  return function(c, t, box)
    local specs = {}
    for i, panel in ipairs(data.panels) do
      specs[i] = { right = #panel.lines > 1 and 96 or 10, y = vertical(panel),
        x = { scale = scale.linear(data.first, data.last), kind = 'integer', label = 'step',
          minor = false } }
    end
    local panels = series.grid(c, t, box, specs, 2)
    for i, panel in ipairs(data.panels) do
      for _, step in ipairs(data.left_out) do panels[i]:upright(step, t.warn, { 2, 3 }) end
      local labels = {}
      for k, line in ipairs(panel.lines) do
        local ink, shape = color.category(k, t.name)
        local last
        for _, piece in ipairs(line.pieces) do
          local xs, ys = {}, {}
          for n, p in ipairs(piece) do xs[n], ys[n] = p.x, p.y end
          last = piece[#piece]
          if #piece > 1 then
            panels[i]:path(xs, ys, ink, 1.6)
          else -- one step between others that have no value
            panels[i]:point(shape, last.x, last.y, nil, nil, { color = ink,
              radius = t.marker * 0.6 })
          end
        end
        labels[k] = { x = panels[i]:px(last.x), y = panels[i]:py(last.y), color = ink,
          text = line.name }
      end
      if #panel.lines > 1 then panels[i]:ends(labels) end
    end
  end
end

--- The histories of a training's steps.
---@param rows table watch.history of ridge.Stability: step, and what it has of gradient_norm,
---  clipped_norm, clipping_ratio, nan, inf, overflow, score, stepped
---@param opt table checked options
---@return table figure
function M.make(rows, opt)
  local who = 'plot.stability'
  rows_of.check(rows, who)
  rows_of.check_numbers(rows, 'step', who, true)
  local panels = shown(rows)
  if #panels == 0 then blame.raise(who .. ': no row has a number to draw', 'EARG') end
  local left_out, clipped, bad = {}, 0, 0
  for _, row in ipairs(rows) do
    if row.stepped == false then left_out[#left_out + 1] = row.step end
    if finite(row.clipping_ratio) and row.clipping_ratio > 0 then clipped = clipped + 1 end
    if (row.nan or 0) + (row.inf or 0) + (row.overflow or 0) > 0 then bad = bad + 1 end
  end
  local text = { 'A line ends where a step has no finite value; dotted lines: steps left out.' }
  return figure.new { kind = 'stability', rows = rows, opt = opt, natural = { 1120, 720 },
    title = 'Clipping, and what was not finite', subtitle = landscape.subtitle(opt, rows),
    finding = ('%d steps: %d clipped, %d with elements that are not finite or too large, %d left '
      .. 'out.'):format(#rows, clipped, bad, #left_out), caption = text,
    draw = draw { panels = panels, left_out = left_out, first = rows[1].step,
      last = rows[#rows].step } }
end

return M

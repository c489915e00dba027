-- SPDX-License-Identifier: MIT
--
-- A recording canvas: what a figure draws, stroke by stroke, in the order in which it is drawn.
--
-- Positions are judged by what a reader of the picture sees: the labels of the ticks say where a
-- value lies, and everything else has to agree with them. Nothing here asks a scale or a panel.

local axes = require 'ridge.plot.axes'
local canvas = require 'ridge.plot.canvas'
local theme = require 'ridge.plot.theme'

local M = {}

local Recording = {}
Recording.__index = Recording

-- Each stroke and what its arguments are called.
local STROKES = {
  rect = { 'x', 'y', 'w', 'h', 'color', 'radius' },
  frame = { 'x', 'y', 'w', 'h', 'color', 'width', 'radius', 'dash' },
  line = { 'x1', 'y1', 'x2', 'y2', 'color', 'width', 'dash' },
  polyline = { 'xs', 'ys', 'color', 'width', 'dash' },
  polygon = { 'xs', 'ys', 'color' },
  marker = { 'shape', 'x', 'y', 'r', 'fill', 'edge', 'width' },
  hatch = { 'kind', 'x', 'y', 'w', 'h', 'color', 'gap', 'width' },
  text = { 'x', 'y', 'text', 'style' },
}

local function copied(v)
  if type(v) ~= 'table' then return v end
  local out = {}
  for k, inner in pairs(v) do out[k] = inner end
  return out
end

-- Letters all half as wide as they are high (bold ones a little wider), whatever fonts are there:
-- what is laid out by them is the same on every machine.
local function even_letters(c)
  function c.measure(_, text, size, style)
    local raised = 0
    local plain = text:gsub('%^{(.-)}', function(part)
      raised = raised + select(2, part:gsub('[^\128-\191]', ''))
      return ''
    end)
    local n = select(2, plain:gsub('[^\128-\191]', '')) + 0.7 * raised
    return n * size * (style and style.bold and 0.55 or 0.5)
  end
  function c.cap_height(_, size) return 0.7 * size end
end

local function record_on(c, strokes, even)
  local clips = {}
  if even then even_letters(c) end
  for name, names in pairs(STROKES) do
    local real = c[name]
    c[name] = function(self, ...)
      local stroke = { op = name, clip = clips[#clips] }
      for i, key in ipairs(names) do stroke[key] = copied((select(i, ...))) end
      strokes[#strokes + 1] = stroke
      if not even then return real(self, ...) end
      return name == 'text' and self:measure(stroke.text, stroke.style.size, stroke.style) or nil
    end
  end
  local clipped = c.clipped
  function c.clipped(self, x, y, w, h, ...)
    clips[#clips + 1] = { x = x, y = y, w = w, h = h }
    clipped(self, x, y, w, h, ...)
    clips[#clips] = nil
  end
end

--- Draw a figure and keep its strokes.
---@param figure table
---@param opt table|nil of render; even: all letters are as wide, and nothing is painted
---@return table recording strokes, panels (x, y, w, h), theme
function M.of(figure, opt)
  local self = setmetatable({ strokes = {}, panels = {} }, Recording)
  local given = { scale = 1 }
  for name, value in pairs(opt or {}) do given[name] = value end
  local even = given.even
  given.even = nil
  self.theme = theme.get(given.theme or figure.opt.theme or 'light')
  local new, panel = canvas.new, axes.panel
  function canvas.new(...)
    local c = new(...)
    record_on(c, self.strokes, even)
    return c
  end
  function axes.panel(c, t, area, ...)
    self.panels[#self.panels + 1] = { x = area.x, y = area.y, w = area.w, h = area.h }
    return panel(c, t, area, ...)
  end
  local ok, err = pcall(figure.render, figure, given)
  canvas.new, axes.panel = new, panel
  if not ok then error(err, 0) end
  self.width, self.height = err.width, err.height
  err:close()
  return self
end

--- The strokes of a kind that a function likes.
---@param op string
---@param like function|nil
---@return table strokes
function Recording:all(op, like)
  local out = {}
  for i, stroke in ipairs(self.strokes) do
    if stroke.op == op and (not like or like(stroke)) then
      stroke.at = i
      out[#out + 1] = stroke
    end
  end
  return out
end

--- The one stroke of a kind that a function likes; another number of them is a failure.
---@param op string
---@param like function|nil
---@param what string for the message
---@return table stroke
function Recording:one(op, like, what)
  local found = self:all(op, like)
  if #found ~= 1 then error(('%d times %s, %s, instead of once'):format(#found, op, what), 2) end
  return found[1]
end

--- Are two numbers the same place, but for rounding to the grid of pixels?
---@param a number
---@param b number
---@param by number|nil how far they may lie apart, in units; default 0.02
---@return boolean
function M.near(a, b, by) return math.abs(a - b) <= (by or 0.02) end

--- Are two colours the same?
---@param a table|nil
---@param b table|nil
---@return boolean
function M.same(a, b)
  if not (a and b) then return a == b end
  for i = 1, 3 do if math.abs(a[i] - b[i]) > 1e-9 then return false end end
  return math.abs((a[4] or 1) - (b[4] or 1)) < 1e-9
end

-- Texts ---------------------------------------------------------------------------------------

local UNIT = { [''] = 1, ns = 1, ['µs'] = 1e3, ms = 1e6, s = 1e9, k = 1e3, M = 1e6, B = 1,
  KB = 1024, MB = 2 ^ 20, GB = 2 ^ 30, ['MFLOP/s'] = 1e-3, ['GFLOP/s'] = 1, ['TFLOP/s'] = 1e3,
  ['×'] = 1, ['%'] = 1 }

--- The number that a text says, in the base of its unit.
---@param text string '1.5 ms', '0.5×', '−3'
---@return number|nil
function M.number(text)
  local plain = text:gsub('−', '-'):gsub('\226\128\175', ' ')
  local digits, power, unit = plain:match '^(-?[%d.]+)×10%^{(-?%d+)} ?(.*)$'
  if not digits then digits, unit = plain:match '^(-?[%d.]+) ?(.*)$' end
  local v = tonumber(digits)
  return v and UNIT[unit] and v * UNIT[unit] * 10 ^ (power or 0) or nil
end

--- The texts that say exactly this.
---@param text string
---@return table strokes
function Recording:said(text)
  return self:all('text', function(s) return s.text == text end)
end

-- Axes ----------------------------------------------------------------------------------------

-- The labels of a panel's ticks, in the order of their values: place and value, or text.
local function labels(self, panel, side)
  local right, bottom = panel.x + panel.w, panel.y + panel.h
  local list = self:all('text', function(s)
    if side == 'x' then
      return s.style.align == 'center' and s.style.valign == 'top' and s.y > bottom
        and s.y < bottom + 16 and s.x >= panel.x - 1 and s.x <= right + 1
    end
    return s.style.align == 'right' and s.style.valign == 'middle' and s.x < panel.x
      and s.x > panel.x - 16 and s.y >= panel.y - 1 and s.y <= bottom + 1
  end)
  for i, s in ipairs(list) do
    list[i] = { place = side == 'x' and s.x or s.y, text = s.text, value = M.number(s.text) }
  end
  return list
end

Recording.labels = labels

--- Where a value lies along a side of a panel, by the labels of its ticks; they have to lie on a
--- line (or a logarithmic one), to grow to the right and upwards, and to have a line of the grid.
---@param panel table|integer
---@param side string 'x' or 'y'
---@param kind string 'log' or 'linear'
---@return function at value -> place
function Recording:axis(panel, side, kind)
  if type(panel) == 'number' then panel = self.panels[panel] end
  local list = labels(self, panel, side)
  if #list < 2 then error(('%d labels along %s'):format(#list, side), 2) end
  local function scaled(v) return kind == 'log' and math.log(v) or v end
  for _, label in ipairs(list) do
    if not label.value then error(('"%s" is no number'):format(label.text), 2) end
  end
  table.sort(list, function(a, b) return a.value < b.value end)
  local a, b = list[1], list[#list]
  local step = (b.place - a.place) / (scaled(b.value) - scaled(a.value))
  if (side == 'x') ~= (step > 0) then error(side .. ' runs the wrong way', 2) end
  local function at(v) return a.place + (scaled(v) - scaled(a.value)) * step end
  for _, label in ipairs(list) do
    if not M.near(at(label.value), label.place) then
      error(('%s says %s at %.2f, the others have it at %.2f'):format(side, label.text,
        label.place, at(label.value)), 2)
    end
    self:grid_line(panel, side, label.place)
  end
  return at
end

--- Fail unless a line of the grid runs across the whole panel at a place.
---@param panel table
---@param side string
---@param place number
function Recording:grid_line(panel, side, place)
  local right, bottom = panel.x + panel.w, panel.y + panel.h
  local found = self:all('line', function(s)
    if side == 'x' then
      return M.near(s.x1, place, 0.51) and s.x1 == s.x2 and M.near(math.min(s.y1, s.y2), panel.y)
        and M.near(math.max(s.y1, s.y2), bottom)
    end
    return M.near(s.y1, place, 0.51) and s.y1 == s.y2 and M.near(math.min(s.x1, s.x2), panel.x)
      and M.near(math.max(s.x1, s.x2), right)
  end)
  if #found == 0 then error(('no line of the grid at %s = %.2f'):format(side, place), 3) end
end

--- The marks at a place; the ground that is painted below an open one is not counted.
---@param x number
---@param y number
---@param shape string|nil
---@return table strokes
function Recording:marks(x, y, shape)
  return self:all('marker', function(s)
    return M.near(s.x, x, 0.05) and M.near(s.y, y, 0.05) and (not shape or s.shape == shape)
      and not (M.same(s.fill, self.theme.paper) and not s.edge)
  end)
end

--- The one mark at a place.
---@param x number
---@param y number
---@param shape string|nil
---@return table stroke
function Recording:mark(x, y, shape)
  local found = self:marks(x, y, shape)
  if #found ~= 1 then
    local all = {}
    for _, s in ipairs(self:all 'marker') do
      all[#all + 1] = ('%s %.1f,%.1f'):format(s.shape, s.x, s.y)
    end
    error(('%d marks at %.1f,%.1f; there are %s'):format(#found, x, y, table.concat(all, '; ')), 2)
  end
  return found[1]
end

--- Fail unless an upright line of a mark reaches from one place to another.
---@param x number
---@param y1 number
---@param y2 number
function Recording:bar(x, y1, y2)
  local found = self:all('line', function(s)
    return M.near(s.x1, x, 0.05) and M.near(s.x2, x, 0.05)
      and M.near(math.min(s.y1, s.y2), math.min(y1, y2), 0.05)
      and M.near(math.max(s.y1, s.y2), math.max(y1, y2), 0.05)
  end)
  if #found == 0 then error(('no line at %.1f from %.1f to %.1f'):format(x, y1, y2), 2) end
end

--- The line through given points, in their order; other points on the way fail.
---@param xs table places
---@param ys table places
---@return table stroke
function Recording:through(xs, ys)
  local found = self:all('polyline', function(s)
    if #s.xs ~= #xs then return false end
    for i = 1, #xs do
      if not (M.near(s.xs[i], xs[i], 0.05) and M.near(s.ys[i], ys[i], 0.05)) then return false end
    end
    return true
  end)
  if #found ~= 1 then error(('%d lines through these %d points'):format(#found, #xs), 2) end
  return found[1]
end

return M

-- SPDX-License-Identifier: MIT
--
-- A figure: a picture kind with its rows, drawn again for every size, scale and theme asked for.
--
-- The frame is the same for all kinds: on top what is shown and of which machine, commit and date,
-- then the sentence that says what was found; below a caption with statistic, interval, counts and
-- what is missing. Everything needed to read the figure alone is on it; everything needed to draw
-- it again is in the file.

local blame = require 'ridge.blame'
local guard = require 'ridge.guard'
local options = require 'ridge.options'
local output = require 'ridge.ffi.output'
local canvas = require 'ridge.plot.canvas'
local plain = require 'ridge.plain'
local png = require 'ridge.plot.png'
local record = require 'ridge.plot.record'
local theme = require 'ridge.plot.theme'

local Figure = {}
Figure.__index = Figure

local M = {}

local MARGIN = 34
-- Below this no label of the smallest legible size finds room.
local MIN_WIDTH, MIN_HEIGHT = 480, 400

local SAVE = {
  theme = { 'string', choices = { 'dark', 'light' }, doc = 'look; the default is the figure’s' },
  scale = { 'number', default = 2, doc = 'pixels a unit of 1/96 inch' },
  size = { 'table', doc = '{width, height} in units; the default is the figure’s' },
  font = { 'string', doc = 'font family; the default is the best one installed' },
}

--- Make a figure. Kinds call this; users call plot.map and plot.landscape.
---@param spec table kind, rows, opt (as given), width, height, title, subtitle, finding, caption
--- (array of sentences), draw = function(canvas, theme, box)
---@return table figure
function M.new(spec)
  for _, name in ipairs { 'title', 'subtitle', 'finding' } do
    spec[name] = spec[name] and plain.line(spec[name])
  end
  for i, sentence in ipairs(spec.caption) do spec.caption[i] = plain.line(sentence) end
  return setmetatable(spec, Figure)
end

--- The width of the figure, in units of 1/96 inch.
---@return number width
function Figure:width()
  return self.natural[1]
end

--- The height of the figure, in units of 1/96 inch.
---@return number height
function Figure:height()
  return self.natural[2]
end

--- The sentences under the figure.
---@return string text
function Figure:text()
  return table.concat(self.caption, ' ')
end

Figure.__png = function(self) return self:png() end

Figure.__tostring = function(self)
  return ("figure '%s', %d x %d: %s\n:show() draws it here, :save 'x.png' writes it"):format(
    self.title or self.kind, self.natural[1], self.natural[2], self.finding or self:text())
end

local function size_of(self, given)
  local w, h = self.natural[1], self.natural[2]
  if given then
    w, h = given[1] or given.width, given[2] or given.height
    if type(w) ~= 'number' or type(h) ~= 'number' then
      blame.raise('figure:save: size must be {width, height}', 'EARG')
    end
  end
  if not (w >= MIN_WIDTH and h >= MIN_HEIGHT) then
    blame.raise(('figure:save: %s x %s is too small to be read; the least is %d x %d')
      :format(w, h, MIN_WIDTH, MIN_HEIGHT), 'EARG')
  end
  return w, h
end

-- Title, subtitle and finding; returns where the picture begins.
local function draw_head(self, c, t, width)
  local y = MARGIN
  local room = width - 2 * MARGIN
  local function lines(text, size, gap, style)
    for _, line in ipairs(c:wrap(text, room, size, style)) do
      y = y + size * 0.75
      style.size = size
      c:text(MARGIN, y, line, style)
      y = y + size * 0.52
    end
    y = y + gap
  end
  lines(self.title, t.size.title, 5, { bold = true, color = t.ink })
  if self.subtitle ~= '' then lines(self.subtitle, t.size.subtitle, 3, { color = t.muted }) end
  if self.finding then
    lines(self.finding, t.size.subtitle, 3, { color = t.accent, bold = true })
  end
  return y + 10
end

-- The caption, at the bottom; returns where the picture ends.
local function draw_caption(self, c, t, width, height)
  local size = t.size.caption
  local lines = c:wrap(self:text(), width - 2 * MARGIN, size)
  local y = height - MARGIN * 0.8 - #lines * size * 1.42
  c:line(MARGIN, c:crisp(y), width - MARGIN, c:crisp(y), t.rule, t.hair)
  for i, line in ipairs(lines) do
    c:text(MARGIN, y + 6 + (i - 0.2) * size * 1.42, line, { size = size, color = t.muted })
  end
  return y - 14
end

--- Draw the figure on a canvas of its own.
---@param opt table|nil as for save
---@return table canvas close it when done
function Figure:render(opt)
  opt = options.check(SAVE, opt or {}, 'figure:save')
  local t = theme.get(opt.theme or self.opt.theme or 'light')
  local w, h = size_of(self, opt.size)
  local c = canvas.new { width = w, height = h, scale = opt.scale, background = t.paper,
    family = opt.font }
  local top = draw_head(self, c, t, w)
  local bottom = draw_caption(self, c, t, w, h)
  if bottom - top < 120 then
    blame.raise(('figure:save: %s x %s leaves no room for the picture between title and caption')
      :format(w, h), 'EARG')
  end
  self.draw(c, t, { x = MARGIN, y = top, w = w - 2 * MARGIN, h = bottom - top })
  c:check()
  return c
end

--- Show the figure in the terminal, or in the notebook.
-- >> sw:plot('map', { x = 'batch', y = 'width' }):show()
---@return table figure itself
function Figure:show()
  local host = package.loaded['ridge.host']
  local display = host and host.settings.display
  if display then
    display(self)
    return self
  end
  io.stdout:write(require('ridge.plot.terminal').show(self, {
    is_terminal = host ~= nil and host.is_terminal(1),
    columns = host and host.columns and host.columns() or 80 }))
  return self
end

--- Draw the figure as a PNG, with its provenance and rows in text chunks.
---@param opt table|nil theme ('light', 'dark'), scale (2), size ({width, height}), font
---@return string bytes of a file
function Figure:png(opt)
  local c = self:render(opt)
  local rgb, w, h = c:rgb()
  local texts = record.texts(self, (opt and opt.theme) or self.opt.theme or 'light')
  local bytes = png.encode(rgb, w, h, { scale = c.scale, texts = texts })
  c:close()
  return bytes
end

--- Draw the figure into a PNG file, with its provenance and rows in text chunks.
-- >> fig:save('landscape.png', { theme = 'dark', scale = 2 })
---@param path string ends in .png
---@param opt table|nil theme ('light', 'dark'), scale (2), size ({width, height}), font
---@return table figure itself
function Figure:save(path, opt)
  if type(path) ~= 'string' or not path:lower():find('%.png$') then
    blame.raise(('figure:save: figures are PNG files, so the path must end in .png, not %s')
      :format(tostring(path)), 'EARG')
  end
  output.write(path, 'figure:save', self:png(opt))
  return self
end

guard.all(Figure)

return M

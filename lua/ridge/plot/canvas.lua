-- SPDX-License-Identifier: MIT
--
-- A sheet to draw on: vector shapes, text and fast point clouds over a Cairo image.
--
-- Lengths are in units of 1/96 inch, whatever the scale: a figure of 1200 x 1000 has 2400 x 2000
-- pixels at scale 2, with the same layout. (Hint metrics are off, so a text is as wide at every
-- scale.) Colours are those of color.lua. Text may hold one kind of markup, `2^{10}` for a raised
-- part. Clouds of more points than Cairo can fill quickly are blended into the pixels here, by the
-- coverage of a disc worked out once: 100 000 points take some ten milliseconds instead of seconds.

local ffi = require 'ffi'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local guard = require 'ridge.guard'
local cairo = require 'ridge.plot.cairo'
local font = require 'ridge.plot.font'

local floor, max, min, pi = math.floor, math.max, math.min, math.pi

local Canvas = {}
Canvas.__index = Canvas

local M = {}

-- Cairo refuses images beyond 32767 pixels a side; the area keeps one figure below half a gigabyte.
local MAX_SIDE, MAX_AREA = 32767, 1.2e8

local RAISED_SIZE, RAISED_BY = 0.72, 0.38

--- Make an empty canvas.
---@param opt table width, height (units), scale (default 1), background (colour), family (font)
---@return table canvas
function M.new(opt)
  local scale = opt.scale or 1
  local w, h = floor(opt.width * scale + 0.5), floor(opt.height * scale + 0.5)
  if not (w >= 1 and h >= 1 and w <= MAX_SIDE and h <= MAX_SIDE and w * h <= MAX_AREA) then
    blame.raise(('a figure of %s x %s at scale %s would have %s x %s pixels; a side has 1 to %d,'
      .. ' the whole %d'):format(opt.width, opt.height, scale, w, h, MAX_SIDE, MAX_AREA), 'EARG')
  end
  local C = cairo.load()
  local surface = ffi.gc(C.cairo_image_surface_create(cairo.FORMAT.rgb24, w, h),
    C.cairo_surface_destroy)
  cairo.check(C.cairo_surface_status(surface), 'making a canvas')
  local cr = ffi.gc(C.cairo_create(surface), C.cairo_destroy)
  cairo.check(C.cairo_status(cr), 'making a canvas')
  C.cairo_scale(cr, scale, scale)
  local self = setmetatable({
    C = C, cr = cr, surface = surface, scale = scale, width = opt.width, height = opt.height,
    pixel_width = w, pixel_height = h, family = opt.family or font.default(),
    extents = ffi.new('cairo_text_extents_t'), matrix = ffi.new('cairo_matrix_t'),
    widths = {},
  }, Canvas)
  self.narrow = font.narrowing(self.family)
  local options = C.cairo_font_options_create()
  C.cairo_font_options_set_antialias(options, cairo.ANTIALIAS_GRAY)
  C.cairo_font_options_set_hint_style(options, cairo.HINT_STYLE_SLIGHT)
  C.cairo_font_options_set_hint_metrics(options, cairo.HINT_METRICS_OFF)
  C.cairo_set_font_options(cr, options)
  C.cairo_font_options_destroy(options)
  C.cairo_set_line_join(cr, cairo.JOIN.round)
  if opt.background then
    self:source(opt.background)
    C.cairo_paint(cr)
  end
  return self
end

--- Release the image now instead of at the next collection.
function Canvas:close()
  if not self.cr then return end
  self.C.cairo_destroy(ffi.gc(self.cr, nil))
  self.C.cairo_surface_destroy(ffi.gc(self.surface, nil))
  self.cr, self.surface = nil, nil
end

--- Raise if anything drawn so far failed (Cairo remembers its first failure).
function Canvas:check()
  cairo.check(self.C.cairo_status(self.cr), 'drawing')
end

--- Set the colour of what is drawn next.
---@param color table {r, g, b [, a]}
function Canvas:source(color)
  self.C.cairo_set_source_rgba(self.cr, color[1], color[2], color[3], color[4] or 1)
end

--- A coordinate moved so that a line of one unit covers whole pixels.
---@param v number
---@return number
function Canvas:crisp(v)
  return (floor(v * self.scale) + 0.5) / self.scale
end

--- A coordinate moved to the nearest pixel border, for filled areas.
---@param v number
---@return number
function Canvas:snap(v)
  return floor(v * self.scale + 0.5) / self.scale
end

-- Shapes --------------------------------------------------------------------------------------

local function path_rect(self, x, y, w, h, radius)
  local C, cr = self.C, self.cr
  if not radius or radius <= 0 then
    C.cairo_rectangle(cr, x, y, w, h)
    return
  end
  local r = min(radius, w / 2, h / 2)
  C.cairo_new_sub_path(cr)
  C.cairo_arc(cr, x + w - r, y + r, r, -pi / 2, 0)
  C.cairo_arc(cr, x + w - r, y + h - r, r, 0, pi / 2)
  C.cairo_arc(cr, x + r, y + h - r, r, pi / 2, pi)
  C.cairo_arc(cr, x + r, y + r, r, pi, 3 * pi / 2)
  C.cairo_close_path(cr)
end

local function pen(self, color, width, dash)
  local C, cr = self.C, self.cr
  self:source(color)
  C.cairo_set_line_width(cr, width or 1)
  if dash and #dash > 0 then
    C.cairo_set_dash(cr, ffi.new('double[?]', #dash, dash), #dash, 0)
  else
    C.cairo_set_dash(cr, nil, 0, 0)
  end
end

--- Fill a rectangle.
---@param x number left
---@param y number top
---@param w number
---@param h number
---@param color table
---@param radius number|nil of the corners
function Canvas:rect(x, y, w, h, color, radius)
  self:source(color)
  path_rect(self, x, y, w, h, radius)
  self.C.cairo_fill(self.cr)
end

--- Outline a rectangle; the stroke lies centred on the border.
---@param x number
---@param y number
---@param w number
---@param h number
---@param color table
---@param width number|nil of the line, default 1
---@param radius number|nil of the corners
---@param dash table|nil lengths on and off
function Canvas:frame(x, y, w, h, color, width, radius, dash)
  pen(self, color, width, dash)
  path_rect(self, x, y, w, h, radius)
  self.C.cairo_stroke(self.cr)
end

--- Draw a straight line.
---@param x1 number
---@param y1 number
---@param x2 number
---@param y2 number
---@param color table
---@param width number|nil default 1
---@param dash table|nil lengths on and off
function Canvas:line(x1, y1, x2, y2, color, width, dash)
  pen(self, color, width, dash)
  self.C.cairo_set_line_cap(self.cr, cairo.CAP.butt)
  self.C.cairo_move_to(self.cr, x1, y1)
  self.C.cairo_line_to(self.cr, x2, y2)
  self.C.cairo_stroke(self.cr)
end

local function path_through(self, xs, ys, n)
  local C, cr = self.C, self.cr
  C.cairo_new_path(cr)
  C.cairo_move_to(cr, xs[1], ys[1])
  for i = 2, n do C.cairo_line_to(cr, xs[i], ys[i]) end
end

--- Draw a line through points.
---@param xs table array of x
---@param ys table array of y
---@param color table
---@param width number|nil default 1
---@param dash table|nil lengths on and off
function Canvas:polyline(xs, ys, color, width, dash)
  if #xs < 2 then return end
  pen(self, color, width, dash)
  self.C.cairo_set_line_cap(self.cr, dash and #dash > 0 and cairo.CAP.butt or cairo.CAP.round)
  path_through(self, xs, ys, #xs)
  self.C.cairo_stroke(self.cr)
end

--- Fill the polygon through points.
---@param xs table array of x
---@param ys table array of y
---@param color table
function Canvas:polygon(xs, ys, color)
  self:source(color)
  path_through(self, xs, ys, #xs)
  self.C.cairo_close_path(self.cr)
  self.C.cairo_fill(self.cr)
end

--- Run a drawing function that may not leave a rectangle.
---@param x number
---@param y number
---@param w number
---@param h number
---@param draw function
---@param radius number|nil of the corners
function Canvas:clipped(x, y, w, h, draw, radius)
  local C, cr = self.C, self.cr
  C.cairo_save(cr)
  path_rect(self, x, y, w, h, radius)
  C.cairo_clip(cr)
  local ok, err = pcall(draw)
  C.cairo_restore(cr)
  if not ok then error(err, 0) end
end

-- Markers: outlines of equal area, so that no shape looks larger than another (radius 1 disc = pi).
local function regular(n, turn)
  local radius = math.sqrt(pi / (n / 2 * math.sin(2 * pi / n)))
  local xs, ys = {}, {}
  for i = 1, n do
    local a = turn + 2 * pi * (i - 1) / n
    xs[i], ys[i] = radius * math.cos(a), radius * math.sin(a)
  end
  return { xs, ys }
end

local function cross(turn)
  -- An X of five squares with side s: 5 s^2 = pi.
  local s = math.sqrt(pi / 5) / 2
  local px = { -1, 1, 1, 3, 3, 1, 1, -1, -1, -3, -3, -1 }
  local py = { -3, -3, -1, -1, 1, 1, 3, 3, 1, 1, -1, -1 }
  local xs, ys, c, n = {}, {}, math.cos(turn), math.sin(turn)
  for i = 1, 12 do
    xs[i], ys[i] = s * (px[i] * c - py[i] * n), s * (px[i] * n + py[i] * c)
  end
  return { xs, ys }
end

local OUTLINE = {
  square = regular(4, pi / 4), diamond = regular(4, 0), triangle = regular(3, -pi / 2),
  down = regular(3, pi / 2), pentagon = regular(5, -pi / 2), plus = cross(0), cross = cross(pi / 4),
}

local function path_marker(self, shape, x, y, radius)
  local C, cr = self.C, self.cr
  C.cairo_new_path(cr)
  local outline = OUTLINE[shape]
  if not outline then
    C.cairo_arc(cr, x, y, radius, 0, 2 * pi)
  else
    local xs, ys = outline[1], outline[2]
    C.cairo_move_to(cr, x + xs[1] * radius, y + ys[1] * radius)
    for i = 2, #xs do C.cairo_line_to(cr, x + xs[i] * radius, y + ys[i] * radius) end
  end
  C.cairo_close_path(cr)
end

--- Draw one marker.
---@param shape string circle, square, diamond, triangle, down, pentagon, plus, cross
---@param x number centre
---@param y number centre
---@param radius number of the disc with the same area
---@param fill table|nil colour of the inside
---@param edge table|nil colour of the outline
---@param width number|nil of the outline, default 1
function Canvas:marker(shape, x, y, radius, fill, edge, width)
  if edge and not fill then
    pen(self, edge, width)
    path_marker(self, shape, x, y, radius)
    self.C.cairo_stroke(self.cr)
    return
  end
  if edge then
    pen(self, edge, (width or 1) * 2)
    path_marker(self, shape, x, y, radius)
    self.C.cairo_stroke(self.cr)
  end
  self:source(fill)
  path_marker(self, shape, x, y, radius)
  self.C.cairo_fill(self.cr)
end

-- Hatches: what each draws per tile, in units of the tile; {x1, y1, x2, y2} runs across the area.
--- Fill a rectangle with a pattern of lines or dots.
---@param kind string rising, falling, crossed, dots, level, upright
---@param x number
---@param y number
---@param w number
---@param h number
---@param color table
---@param gap number|nil distance of the lines, default 7
---@param width number|nil of the lines, default 1
function Canvas:hatch(kind, x, y, w, h, color, gap, width)
  gap = gap or 7
  local C, cr = self.C, self.cr
  self:clipped(x, y, w, h, function()
    pen(self, color, width or 1)
    C.cairo_new_path(cr)
    -- Lines are laid on one grid of the whole sheet, so that neighbouring cells join smoothly.
    if kind == 'dots' then
      self:source(color)
      for row = floor(y / gap), floor((y + h) / gap) + 1 do
        for column = floor(x / gap), floor((x + w) / gap) + 1 do
          C.cairo_new_sub_path(cr)
          C.cairo_arc(cr, (column + row % 2 * 0.5) * gap, row * gap, 0.95 * (width or 1), 0, 2 * pi)
        end
      end
      C.cairo_fill(cr)
      return
    end
    if kind == 'rising' or kind == 'crossed' then
      for k = floor((x + y) / gap), floor((x + w + y + h) / gap) + 1 do
        C.cairo_move_to(cr, k * gap - y, y)
        C.cairo_line_to(cr, k * gap - y - h, y + h)
      end
    end
    if kind == 'falling' or kind == 'crossed' then
      for k = floor((x - y - h) / gap), floor((x + w - y) / gap) + 1 do
        C.cairo_move_to(cr, k * gap + y, y)
        C.cairo_line_to(cr, k * gap + y + h, y + h)
      end
    end
    if kind == 'level' then
      for k = floor(y / gap), floor((y + h) / gap) + 1 do
        C.cairo_move_to(cr, x, self:crisp(k * gap))
        C.cairo_line_to(cr, x + w, self:crisp(k * gap))
      end
    end
    if kind == 'upright' then
      for k = floor(x / gap), floor((x + w) / gap) + 1 do
        C.cairo_move_to(cr, self:crisp(k * gap), y)
        C.cairo_line_to(cr, self:crisp(k * gap), y + h)
      end
    end
    C.cairo_stroke(cr)
  end)
end

-- Text ----------------------------------------------------------------------------------------

local function set_font(self, size, bold, italic)
  local C, m = self.C, self.matrix
  C.cairo_select_font_face(self.cr, self.family, italic and 1 or 0, bold and 1 or 0)
  m.xx, m.yx, m.xy, m.yy, m.x0, m.y0 = size * self.narrow, 0, 0, size, 0, 0
  C.cairo_set_font_matrix(self.cr, m)
end

local function advance(self, text, size, bold, italic)
  local key = size .. (bold and 'b' or '') .. (italic and 'i' or '') .. '|' .. text
  local width = self.widths[key]
  if not width then
    set_font(self, size, bold, italic)
    self.C.cairo_text_extents(self.cr, text, self.extents)
    width = self.extents.x_advance
    self.widths[key] = width
  end
  return width
end

-- Split 'a^{b}c' into plain and raised parts.
local function parts(text)
  local out, from = {}, 1
  while true do
    local a, b, raised = text:find('%^{(.-)}', from)
    if not a then break end
    if a > from then out[#out + 1] = { text:sub(from, a - 1), false } end
    out[#out + 1] = { raised, true }
    from = b + 1
  end
  if from <= #text then out[#out + 1] = { text:sub(from), false } end
  return out
end

--- How wide a text is.
---@param text string
---@param size number of the font
---@param style table|nil {bold=, italic=}
---@return number width
function Canvas:measure(text, size, style)
  text = font.drawable(text, self.family)
  local bold, italic = style and style.bold, style and style.italic
  if not text:find('^{', 1, true) then return advance(self, text, size, bold, italic) end
  local width = 0
  for _, part in ipairs(parts(text)) do
    width = width + advance(self, part[1], part[2] and size * RAISED_SIZE or size, bold, italic)
  end
  return width
end

--- Height of a capital letter: what centring a line of text goes by.
---@param size number of the font
---@return number height
function Canvas:cap_height(size)
  local key = 'cap' .. size
  if not self.widths[key] then
    set_font(self, size)
    self.C.cairo_text_extents(self.cr, 'H', self.extents)
    self.widths[key] = -self.extents.y_bearing
  end
  return self.widths[key]
end

local ALIGN = { left = 0, center = 0.5, right = 1 }

--- Write a line of text.
---@param x number
---@param y number baseline, unless style.valign says otherwise
---@param text string UTF-8, `^{...}` raised
---@param style table size, color, bold, italic, align (left, center, right), valign (baseline,
--- middle, top: of the capitals), angle (degrees, anticlockwise), halo (colour behind the letters)
---@return number width
function Canvas:text(x, y, text, style)
  text = font.drawable(text, self.family)
  local C, cr, size = self.C, self.cr, style.size
  local width = self:measure(text, size, style)
  local dx, dy = -width * ALIGN[style.align or 'left'], 0
  if style.valign == 'middle' then dy = self:cap_height(size) / 2 end
  if style.valign == 'top' then dy = self:cap_height(size) end
  C.cairo_save(cr)
  C.cairo_translate(cr, x, y)
  if style.angle then C.cairo_rotate(cr, -style.angle * pi / 180) end
  local function write(color, ox, oy)
    self:source(color)
    local at = dx
    for _, part in ipairs(parts(text)) do
      local part_size = part[2] and size * RAISED_SIZE or size
      set_font(self, part_size, style.bold, style.italic)
      C.cairo_move_to(cr, at + ox, dy + oy - (part[2] and RAISED_BY * size or 0))
      C.cairo_show_text(cr, part[1])
      at = at + advance(self, part[1], part_size, style.bold, style.italic)
    end
  end
  if style.halo then
    for k = 0, 11 do
      write(style.halo, 1.8 * math.cos(k * pi / 6), 1.8 * math.sin(k * pi / 6))
    end
  end
  write(style.color, 0, 0)
  C.cairo_restore(cr)
  return width
end

--- Break a text into lines at spaces so that none is wider than `width`.
---@param text string
---@param width number
---@param size number
---@param style table|nil
---@return table lines
function Canvas:wrap(text, width, size, style)
  local lines = {}
  for paragraph in (text .. '\n'):gmatch('(.-)\n') do
    local line
    for word in paragraph:gmatch('[^ ]+') do
      local longer = line and line .. ' ' .. word or word
      if line and self:measure(longer, size, style) > width then
        lines[#lines + 1] = line
        line = word
      else
        line = longer
      end
    end
    lines[#lines + 1] = line
  end
  return lines
end

--- Cut a text with an ellipsis so that it is not wider than `width`.
---@param text string
---@param width number
---@param size number
---@param style table|nil
---@return string text
function Canvas:fit(text, width, size, style)
  if self:measure(text, size, style) <= width then return text end
  local cut = text
  while #cut > 0 and self:measure(cut .. '…', size, style) > width do
    cut = cut:gsub('[%z\1-\127\194-\244][\128-\191]*$', '')
  end
  return (cut:gsub(' +$', '')) .. '…'
end

-- Pixels --------------------------------------------------------------------------------------

--- The image itself: 32 bits a pixel, blue lowest.
---@return ffi.cdata* data uint32_t *
---@return integer stride pixels a row
function Canvas:pixels()
  self.C.cairo_surface_flush(self.surface)
  local stride = tonumber(self.C.cairo_image_surface_get_stride(self.surface)) / 4
  return ffi.cast('uint32_t *', self.C.cairo_image_surface_get_data(self.surface)), stride
end

--- The colour at a point, for tests.
---@param x number
---@param y number
---@return table color
function Canvas:pixel(x, y)
  local data, stride = self:pixels()
  local px = min(max(floor(x * self.scale), 0), self.pixel_width - 1)
  local py = min(max(floor(y * self.scale), 0), self.pixel_height - 1)
  local v = tonumber(data[py * stride + px])
  return { floor(v / 65536) % 256 / 255, floor(v / 256) % 256 / 255, v % 256 / 255 }
end

--- The picture as packed bytes red, green, blue, row by row: what png.lua writes.
---@return ffi.cdata* rgb uint8_t[width * height * 3]
---@return integer width
---@return integer height
function Canvas:rgb()
  self:check()
  local data, stride = self:pixels()
  local w, h = self.pixel_width, self.pixel_height
  local bytes = ffi.cast('uint8_t *', data)
  local out = ffi.new('uint8_t[?]', w * h * 3)
  local at = 0
  for y = 0, h - 1 do
    call.look 'figure'
    local from = y * stride * 4
    for _ = 1, w do
      out[at], out[at + 1], out[at + 2] = bytes[from + 2], bytes[from + 1], bytes[from]
      at, from = at + 3, from + 4
    end
  end
  return out, w, h
end

guard.all(Canvas)

return M

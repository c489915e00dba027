-- SPDX-License-Identifier: MIT
--- What strokes leave on the sheet, by its pixels; and the frame around every figure.

package.path = 'tests/lua/plot/?.lua;' .. package.path
local axes = require 'ridge.plot.axes'
local canvas = require 'ridge.plot.canvas'
local color = require 'ridge.plot.color'

describe('a colour that sRGB cannot show', function()
  it('loses chroma until it can, and neither its lightness nor its hue', function()
    for degrees = 0, 330, 30 do
      local wild, tame = color.oklch(0.7, 0.4, degrees), color.oklch(0.7, 0.02, degrees)
      local l, a, b = color.lab(wild)
      local l2, a2, b2 = color.lab(tame)
      assert.near(l2, l, 6) -- lightness is that of another space
      assert.is_true(a * a2 + b * b2 > 0.8 * math.sqrt((a * a + b * b) * (a2 * a2 + b2 * b2)))
      assert.is_true(a * a + b * b > 4 * (a2 * a2 + b2 * b2), degrees)
      -- as much as there is: a channel is at its end
      local least, most = math.min(unpack(wild)), math.max(unpack(wild))
      assert.is_true(least < 0.04 or most > 0.99, degrees)
    end
  end)
end)
local plot = require 'ridge.plot'
local recorder = require 'recorder'

local WHITE, BLACK, RED = { 1, 1, 1 }, { 0, 0, 0 }, { 1, 0, 0 }

local function sheet(opt)
  opt = opt or {}
  return canvas.new { width = opt.width or 80, height = opt.height or 60, scale = opt.scale or 1,
    background = WHITE }
end

local function inked(c, x, y) return c:pixel(x, y)[2] < 0.5 end

-- The pixels that are not the paper's: from, to and how many, in units.
local function ink(c)
  local left, top, right, bottom, n = math.huge, math.huge, -math.huge, -math.huge, 0
  for y = 0.5, c.height, 1 / c.scale do
    for x = 0.5, c.width, 1 / c.scale do
      if inked(c, x, y) then
        left, top, n = math.min(left, x - 0.5), math.min(top, y - 0.5), n + 1
        right, bottom = math.max(right, x + 0.5), math.max(bottom, y + 0.5)
      end
    end
  end
  return { left = left, top = top, right = right, bottom = bottom, n = n }
end

local function covers(c, left, top, right, bottom, by)
  local got = ink(c)
  for name, want in pairs { left = left, top = top, right = right, bottom = bottom } do
    assert.near(want, got[name], by or 0.01, name)
  end
  c:close()
  return got
end

describe('a pattern', function()
  it('goes on in the rectangle beside it', function()
    for _, kind in ipairs { 'rising', 'falling', 'crossed', 'dots', 'level', 'upright' } do
      for seam = 20, 40 do
        local whole, parts = sheet(), sheet()
        whole:hatch(kind, 3, 4, 70, 50, BLACK, 7, 2)
        parts:hatch(kind, 3, 4, seam, 50, BLACK, 7, 2)
        parts:hatch(kind, 3 + seam, 4, 70 - seam, 50, BLACK, 7, 2)
        for y = 0.5, 60 do
          for x = 0.5, 80 do
            local a, b = whole:pixel(x, y)[2], parts:pixel(x, y)[2]
            if math.abs(a - b) > 0.1 then -- rounding of coverages
              error(('%s, cut at %d: %g and %g at %g, %g'):format(kind, seam, a, b, x, y))
            end
          end
        end
        whole:close()
        parts:close()
      end
    end
  end)
end)

describe('the sheet', function()
  it('has rectangles, frames and polygons where they are put', function()
    local c = sheet()
    c:rect(10, 20, 30, 5, BLACK)
    assert.equal(150, covers(c, 10, 20, 40, 25).n)
    c = sheet()
    c:rect(10, 20, 30, 20, BLACK, 6) -- round corners
    assert.is_false(inked(c, 10.5, 20.5))
    assert.is_true(inked(c, 25, 20.5))
    covers(c, 10, 20, 40, 40)
    c = sheet()
    c:frame(10.5, 20.5, 30, 20, BLACK, 1)
    assert.is_false(inked(c, 25, 30))
    covers(c, 10, 20, 41, 41)
    c = sheet()
    c:polygon({ 10, 30, 30 }, { 10, 10, 50 }, BLACK)
    assert.is_true(inked(c, 28, 20))
    assert.is_false(inked(c, 12, 40))
    covers(c, 10, 10, 30, 50, 2)
  end)

  it('has lines from end to end, dashed where they are', function()
    local c = sheet()
    c:line(10, 20.5, 50, 20.5, BLACK)
    assert.equal(40, covers(c, 10, 20, 50, 21).n)
    c = sheet()
    c:line(10.5, 10, 10.5, 40, BLACK)
    covers(c, 10, 10, 11, 40)
    c = sheet()
    c:line(10, 20.5, 50, 20.5, BLACK, 1, { 5, 5 })
    assert.equal(20, ink(c).n)
    assert.is_true(inked(c, 12, 20.5))
    assert.is_false(inked(c, 17, 20.5))
    c:close()
    c = sheet()
    c:polyline({ 10, 40, 40 }, { 20.5, 20.5, 50 }, BLACK)
    assert.is_true(inked(c, 25, 20.5))
    assert.is_true(inked(c, 40, 35) or inked(c, 39, 35))
    assert.is_false(inked(c, 15, 45))
    covers(c, 10, 20, 41, 50, 1)
    c = sheet()
    c:polyline({ 10, 50 }, { 20.5, 20.5 }, BLACK, 1, { 5, 5 })
    assert.equal(20, ink(c).n)
    c:close()
  end)

  it('has lines with round ends, and dashes that end where they should', function()
    local c = sheet()
    c:polyline({ 20, 60 }, { 30, 30 }, BLACK, 10, { 10, 10 })
    covers(c, 20, 25, 50, 35)
    c = sheet()
    c:polyline({ 20, 60 }, { 30, 30 }, BLACK, 10, { 10, 10 }) -- what is drawn next is no dash
    c:polyline({ 20, 40, 60 }, { 30, 30, 30 }, BLACK, 10, {})
    assert.is_false(inked(c, 15.5, 25.5) or inked(c, 64.5, 34.5))
    covers(c, 15, 25, 65, 35)
  end)

  it('has marks of one size around their middle, and outlines that are hollow', function()
    for _, shape in ipairs(color.SHAPES) do
      local c = sheet()
      c:marker(shape, 40, 30, 12, BLACK)
      local got = ink(c)
      assert.near(math.pi * 144, got.n, 40, shape)
      assert.near(40, (got.left + got.right) / 2, 1, shape)
      assert.is_true(inked(c, 40, 30))
      c:close()
      c = sheet()
      c:marker(shape, 40, 30, 12, nil, BLACK, 1)
      assert.is_false(inked(c, 40, 30), shape)
      assert.is_true(ink(c).n > 30, shape)
      c:close()
    end
    local c = sheet()
    c:marker('triangle', 40, 30, 12, BLACK) -- its tip is on top
    assert.is_true(inked(c, 40, 15) and not inked(c, 50, 15) and inked(c, 50, 35))
    c:close()
    c = sheet()
    c:marker('down', 40, 30, 12, BLACK)
    assert.is_true(inked(c, 40, 45) and not inked(c, 50, 45) and inked(c, 50, 25))
    c:close()
    c = sheet()
    c:marker('circle', 40, 30, 10, RED, BLACK, 2)
    assert.is_true(c:pixel(40, 30)[1] == 1 and c:pixel(40, 41)[1] < 0.5)
    c:close()
  end)

  it('has hatches of their own kind that stay in their rectangle', function()
    local FOUND = {}
    for _, kind in ipairs { 'rising', 'falling', 'crossed', 'dots', 'level', 'upright' } do
      local c = sheet()
      c:hatch(kind, 20, 10, 40, 40, BLACK, 8, 1.6)
      local got = ink(c)
      assert.is_true(got.left >= 20 and got.right <= 60, kind)
      assert.is_true(got.top >= 10 and got.bottom <= 50, kind)
      assert.is_true(got.right - got.left > 30 and got.bottom - got.top > 30, kind)
      assert.is_true(got.n > 30 and got.n < 1200, kind)
      -- along which way do pixels follow one another?
      local function along(dx, dy)
        local n = 0
        for y = 14.5, 46 do
          for x = 24.5, 56 do
            if inked(c, x, y) and inked(c, x + 3 * dx, y + 3 * dy) then n = n + 1 end
          end
        end
        return n
      end
      FOUND[kind] = { across = along(1, 0), down = along(0, 1), rising = along(1, -1),
        falling = along(1, 1), n = got.n }
      c:close()
    end
    local function most(kind, way)
      for other, n in pairs(FOUND[kind]) do
        if other ~= way and other ~= 'n' then assert.is_true(FOUND[kind][way] > n, kind) end
      end
    end
    most('rising', 'rising')
    most('falling', 'falling')
    most('level', 'across')
    most('upright', 'down')
    assert.is_true(FOUND.crossed.n > FOUND.rising.n * 1.5)
    assert.near(FOUND.crossed.rising, FOUND.crossed.falling, FOUND.crossed.rising * 0.2)
    assert.is_true(FOUND.dots.n < FOUND.rising.n)
  end)

  it('has texts where they are aligned to', function()
    local function box(style)
      local c = sheet { width = 200, height = 80 }
      style.size, style.color = 20, BLACK
      local width = c:text(100, 40, 'HHH', style)
      local got = ink(c)
      assert.near(c:measure('HHH', 20, style), width, 1e-9)
      local cap = c:cap_height(20)
      c:close()
      return got, width, cap
    end
    local got, width, cap = box {}
    assert.is_true(width > 25 and width < 70 and cap > 10 and cap < 20)
    assert.near(100, got.left, 3)
    assert.near(100 + width, got.right, 3)
    assert.near(40, got.bottom, 1)
    assert.near(40 - cap, got.top, 1)
    got = box { align = 'right' }
    assert.near(100, got.right, 3)
    assert.near(100 - width, got.left, 3)
    got = box { align = 'center' }
    assert.near(100, (got.left + got.right) / 2, 1)
    got = box { valign = 'middle' }
    assert.near(40, (got.top + got.bottom) / 2, 1)
    got = box { valign = 'top' }
    assert.near(40, got.top, 1)
    got = box { angle = 90 } -- upwards from its anchor
    assert.near(40, got.bottom, 3)
    assert.near(40 - width, got.top, 3)
    assert.near(100, got.right, 1)
    -- raised digits are smaller and stand higher
    local c = sheet { width = 200, height = 80 }
    c:text(20, 40, 'H^{H}', { size = 20, color = BLACK })
    assert.is_true(ink(c).top < 40 - cap - 1)
    assert.is_true(c:measure('H^{H}', 20) < c:measure('HH', 20))
    c:close()
  end)

  it('cuts a text to a width with an ellipsis, down to that alone', function()
    local c = sheet()
    assert.equal('wide', c:fit('wide', c:measure('wide', 10), 10))
    assert.equal('wi…', c:fit('wide', c:measure('wi…', 10), 10))
    assert.equal('…', c:fit('wide', 0, 10))
    c:close()
  end)

  it('cuts what is drawn clipped, and only that', function()
    local c = sheet()
    c:clipped(20, 20, 10, 10, function() c:rect(0, 0, 80, 60, BLACK) end)
    covers(c, 20, 20, 30, 30)
    c = sheet()
    assert.is_false((pcall(c.clipped, c, 20, 20, 10, 10, function() error 'broken' end)))
    c:rect(0, 0, 80, 60, BLACK)
    covers(c, 0, 0, 80, 60)
  end)

  it('is the same at every scale, and gives its bytes red first', function()
    local c = sheet { scale = 2 }
    c:rect(10, 20, 30, 5, BLACK)
    assert.equal(160, c.pixel_width)
    assert.equal(120, c.pixel_height)
    assert.is_true(inked(c, 10.2, 20.2) and inked(c, 39.8, 24.8))
    assert.is_false(inked(c, 9.8, 22) or inked(c, 20, 25.2))
    assert.equal(20.25, c:crisp(20.3))
    assert.equal(20.5, c:snap(20.3))
    c:close()
    c = sheet { width = 3, height = 2 }
    c:rect(1, 1, 1, 1, { 1, 0.5, 0 })
    local bytes, w, h = c:rgb()
    assert.same({ 3, 2 }, { w, h })
    local at = (1 * 3 + 1) * 3
    assert.equal(255, bytes[at])
    assert.near(128, bytes[at + 1], 1)
    assert.equal(0, bytes[at + 2])
    assert.equal(255, bytes[0])
    c:close()
  end)
end)

describe('labels that would touch', function()
  it('are pushed apart in their order, as little as it takes', function()
    assert.same({ 10, 40 }, axes.spread({ 10, 40 }, 12, 0, 100))
    assert.same({ 34, 46 }, axes.spread({ 40, 40 }, 12, 0, 100))
    assert.same({ 46, 34 }, axes.spread({ 42, 38 }, 12, 0, 100))
    assert.same({ 0, 12, 24 }, axes.spread({ 1, 2, 3 }, 12, 0, 100))
    assert.same({ 100, 88 }, axes.spread({ 99, 98 }, 12, 0, 100))
  end)
end)

describe('the margins of a panel', function()
  it('have room for a line of text each, the title and the axes', function()
    local size = require('ridge.plot.theme').get('light').size
    local above, below = axes.margins({ size = size }, {})
    for name, opt in pairs { panel = { title = 'a' }, label = { y = { label = 'a' } } } do
      assert.is_true(axes.margins({ size = size }, opt) - above >= size[name], name)
    end
    local _, labelled = axes.margins({ size = size }, { x = { label = 'a' } })
    assert.is_true(labelled - below >= size.label)
    assert.is_true(below >= size.tick)
  end)
end)

describe('the interval of a point', function()
  it('has a cap where it reaches out of the marker by more than one unit', function()
    local theme, scale = require('ridge.plot.theme').get 'light', require 'ridge.plot.scale'
    local function caps(lo, hi) -- from the middle of a panel of one unit a number
      local found = {}
      local panel = axes.panel({ marker = function() end, line = function(_, x1, y1, x2, y2)
        if y1 == y2 then found[#found + 1] = ('%g at %g'):format(x2 - x1, y1) end
      end }, theme, { x = 0, y = 0, w = 64, h = 64 }, { x = { scale = scale.linear(0, 64) },
        y = { scale = scale.linear(0, 64) } })
      panel:point('circle', 32, 32, lo, hi, { radius = 3 })
      return table.concat(found, ', ')
    end
    assert.equal('', caps(28, 36))
    assert.equal('6 at 37', caps(27, 36))
    assert.equal('6 at 27', caps(28, 37))
    assert.equal('6 at 27, 6 at 37', caps(27, 37))
  end)
end)

describe('given ticks', function()
  it('keep apart, and the last of two that do not is left out', function()
    local theme = require('ridge.plot.theme').get 'light'
    local c = canvas.new { width = 400, height = 100, scale = 1, background = { 1, 1, 1, 1 } }
    local text = '1234567890'
    local wide = c:measure(text, theme.size.tick)
    local function shown(apart) -- labels whose ends lie that far from one another
      local scale = require 'ridge.plot.scale'
      local panel = axes.panel(c, theme, { x = 100, y = 10, w = wide + apart, h = 50 }, {
        x = { scale = scale.linear(1, 2), ticks = { 1, 2 }, categories = { text, text } },
        y = { scale = scale.linear(0, 1) } })
      return #panel:x_ticks()
    end
    assert.equal(2, shown(40))
    assert.equal(1, shown(-2))
    assert.equal(1, shown(-40))
    c:close()
  end)
end)

describe('colours of an ordered series', function()
  it('begin near the paper and end far from it, in both themes', function()
    local list = color.ordered(4, 'light')
    for i = 2, 4 do assert.is_true(color.lab(list[i]) < color.lab(list[i - 1])) end
    list = color.ordered(4, 'dark')
    for i = 2, 4 do assert.is_true(color.lab(list[i]) > color.lab(list[i - 1])) end
  end)
end)

describe('every figure', function()
  it('has title, finding, picture and caption below one another, all on the sheet', function()
    local rows = {}
    for i = 1, 4 do
      rows[i] = { width = 2 ^ i, fwd = i * 100, fwd_lo = i * 90, fwd_hi = i * 110, state = 'ok',
        grade = 'A', batch = i }
    end
    for _, size in ipairs { { 860, 630 }, { 500, 500 }, { 1600, 700 } } do
      local figure = plot.draw('threads', rows, { x = 'width', y = 'fwd', device = 'a device',
        commit = 'abc' })
      local rec = recorder.of(figure, { size = size })
      local title, about = rec:said 'Forward time over threads'[1], rec:said 'a device · abc'[1]
      local finding = rec:all('text', function(s) return s.text:find '^More threads are' end)[1]
      local rule = rec:one('line', function(s)
        return recorder.near(s.x1, 34) and recorder.near(s.x2, size[1] - 34)
          and recorder.same(s.color, rec.theme.rule)
      end, 'the rule over the caption')
      local caption = rec:all('text', function(s) return s.y > rule.y1 end)
      assert.is_true(#caption >= 1 and caption[1].text:find '^Points are' ~= nil)
      assert.is_true(caption[1].y - rec.theme.size.caption > rule.y1) -- its letters stand below
      assert.is_true(title.y < about.y and about.y < finding.y)
      for _, panel in ipairs(rec.panels) do
        assert.is_true(panel.y > finding.y and panel.y + panel.h < rule.y1)
        assert.is_true(panel.x >= 34 and panel.x + panel.w <= size[1] - 34)
      end
      for _, s in ipairs(rec:all 'text') do
        assert.is_true(s.y > 0 and s.y < size[2] - 4 and s.x >= 0 and s.x <= size[1], s.text)
        -- of ticks and axes, none lies in the caption
        if not (s.y > rule.y1) then assert.is_true(s.y < rule.y1 - 2, s.text) end
      end
      for i = 2, #caption do assert.is_true(caption[i].y > caption[i - 1].y + 10) end
    end
  end)
end)

describe('the width of a text', function()
  it('grows with its size, in no whole units', function()
    local c = sheet()
    local large = c:measure('iilljj 0.5', 200)
    for size = 7, 13 do
      assert.near(large * size / 200, c:measure('iilljj 0.5', size), 0.01 * size)
    end
  end)
end)

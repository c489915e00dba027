-- SPDX-License-Identifier: MIT
package.path = 'tests/lua/plot/?.lua;' .. package.path
local fixture = require 'fixture'
local color = require 'ridge.plot.color'
local map = require 'ridge.plot.map'
local plot = require 'ridge.plot'
local png = require 'ridge.plot.png'
local scale = require 'ridge.plot.scale'
local unit = require 'ridge.show.unit'

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return e
end

local function temporary()
  local path = os.tmpname()
  os.remove(path)
  return path .. '.png'
end

local function about(more)
  local out = {}
  for name, value in pairs(fixture.PROVENANCE) do out[name] = value end
  for name, value in pairs(more or {}) do out[name] = value end
  return out
end

describe('colours', function()
  it('rise in lightness along the magnitude ramp, in both themes', function()
    for _, theme in ipairs { 'light', 'dark' } do
      local last
      for i = 0, 40 do
        local L = color.lab(color.magnitude(i / 40, theme))
        assert.is_true(not last or L > last, ('%s at %d: %.2f after %s'):format(theme, i, L, last))
        last = L
      end
    end
  end)

  it('are at the ends of a ramp what stands there', function()
    -- OKLab from sRGB by Ottosson's matrices (2020): lightness, chroma, hue in degrees
    local function polar(c)
      local v = {}
      for i = 1, 3 do
        v[i] = c[i] <= 0.04045 and c[i] / 12.92 or ((c[i] + 0.055) / 1.055) ^ 2.4
      end
      local function cone(r, g, b) return (r * v[1] + g * v[2] + b * v[3]) ^ (1 / 3) end
      local l = cone(0.4122214708, 0.5363325363, 0.0514459929)
      local m = cone(0.2119034982, 0.6806995451, 0.1073969566)
      local s = cone(0.0883024619, 0.2817188376, 0.6299787005)
      local a = 1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s
      local b = 0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s
      return 0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s, math.sqrt(a * a + b * b),
        math.deg(math.atan2(b, a)) % 360
    end
    for _, want in ipairs {
        { 'magnitude', 'light', 0.30, 0.105, 285, 0.945, 0.095, 103 },
        { 'magnitude', 'dark', 0.345, 0.085, 285, 0.965, 0.085, 103 },
        { 'ratio', 'light', 0.40, 0.125, 255, 0.44, 0.115, 36 },
        { 'ratio', 'dark', 0.84, 0.105, 232, 0.84, 0.110, 70 } } do
      for at = 0, 1 do
        local lightness, chroma, hue = polar(color[want[1]](at, want[2]))
        local name = ('%s %s at %d'):format(want[1], want[2], at)
        assert.near(want[3 + 3 * at], lightness, 0.002, name)
        assert.near(want[4 + 3 * at], chroma, 0.01, name) -- less where sRGB has no such colour
        assert.near(want[5 + 3 * at], hue, 1, name)
      end
    end
  end)

  it('stay apart for eyes without red or green', function()
    for _, theme in ipairs { 'light', 'dark' } do
      for _, kind in ipairs { 'protan', 'deutan' } do
        for i = 1, 5 do
          for j = i + 1, 5 do
            local a = color.simulate((color.category(i, theme)), kind)
            local b = color.simulate((color.category(j, theme)), kind)
            assert.is_true(color.distance(a, b) > 8, ('%s %s %d %d: %.1f'):format(theme, kind, i, j,
              color.distance(a, b)))
          end
        end
      end
    end
  end)

  it('of categories go with shapes and dashes, no two of 64 alike', function()
    local seen = {}
    for i = 1, 64 do
      local ink, shape, dash = color.category(i, 'light')
      local hex = ('%.3f %.3f %.3f'):format(unpack(ink))
      assert.is_nil(seen[hex .. shape], i)
      assert.is_nil(seen[hex .. table.concat(dash, ' ') .. '.'], i)
      seen[hex .. shape], seen[hex .. table.concat(dash, ' ') .. '.'] = true, true
    end
  end)

  it('of ratios are neutral in the middle and differ at the ends', function()
    local _, a, b = color.lab(color.ratio(0.5, 'light'))
    assert.is_true(math.abs(a) + math.abs(b) < 12)
    assert.is_true(color.distance(color.ratio(0, 'light'), color.ratio(1, 'light')) > 60)
  end)
end)

describe('scales', function()
  it('place values and give ticks people can say', function()
    local s = scale.log(1, 100, 10)
    assert.near(0.5, s:at(10), 1e-12)
    assert.near(10, s:value(0.5), 1e-9)
    assert.same({ 0, 20, 40, 60, 80, 100 }, scale.linear(0, 100):ticks(6))
    for _, v in ipairs(scale.log(50, 700, 2):ticks(6)) do
      assert.near(0, (math.log(v) / math.log(2)) % 1, 1e-9)
    end
    assert.same({ 20480, 40960, 61440, 81920 }, scale.linear(20000, 90000):ticks(5, 1024))
  end)

  it('keep powers where as many round numbers fit', function()
    assert.same({ 8, 16 }, scale.log(8, 16, 2):ticks(3))
  end)

  it('of sizes have powers of two, whichever size it is', function()
    local series = require 'ridge.plot.series'
    for _, name in ipairs { 'num_terms', 'low_rank', 'batch', 'in_features', 'out_features',
        'threads' } do
      local rows = {}
      for i = 1, 8 do rows[i] = { [name] = 3 * 2 ^ i } end
      for _, v in ipairs(series.axis(rows, name).scale:ticks(9)) do
        assert.near(0, (math.log(v) / math.log(2)) % 1, 1e-9, name)
      end
    end
  end)

  it('are logarithmic where the range is geometric only', function()
    assert.is_nil(scale.fit { 10, 12 }.base or nil)
    assert.equal(10, scale.fit { 1, 100 }.base)
    assert.matches('logarithmic', failure(scale.fit, { -1, 5 }, { log = 10 }).message)
    assert.matches('nan', failure(scale.fit, { 0 / 0 }).message)
  end)

  it('print numbers with their unit', function()
    assert.matches('^1%.25.*ms$', unit.format('ns', 1.25e6))
    assert.matches('^98%.3.*k$', unit.format('count', 98304))
    -- rounded first: what would print as 1000 of one unit is 1 of the next
    assert.matches('^1\226\128\175ms$', unit.format('ns', 999.6e3))
    assert.matches('^999\226\128\175µs$', unit.format('ns', 999.4e3))
    assert.matches('^1\226\128\175TFLOP/s$', unit.format('gflops', 999.7))
    assert.matches('^4.*MB$', unit.format('bytes', 4 * 2 ^ 20))
  end)
end)

describe('PNG files', function()
  it('carry where they come from, and can be drawn again from themselves', function()
    local path, again = temporary(), temporary()
    plot.map(fixture.rows(), about()):save(path, { scale = 1 })
    local texts, info = png.read_texts(path)
    assert.equal(fixture.PROVENANCE.commit, texts['ridge:commit'])
    assert.equal(fixture.PROVENANCE.database, texts['ridge:database'])
    assert.equal('map', texts['ridge:figure'])
    assert.equal(1240, info.width)
    plot.replot(path):save(again, { scale = 1 })
    local a, b = io.open(path, 'rb'):read '*a', io.open(again, 'rb'):read '*a'
    os.remove(path)
    os.remove(again)
    assert.is_true(a == b, 'the figure drawn from its own file differs')
  end)

  it('hold every pixel, in rows of any length, and packing them can be interrupted', function()
    local ffi, C = require 'ffi', require 'ridge.ffi.lib'
    for _, size in ipairs { { 1, 1 }, { 3, 700 }, { 700, 301 }, { 100000, 2 } } do
      local w, h = unpack(size)
      local rgb = ffi.new('uint8_t[?]', w * h * 3)
      for i = 0, w * h * 3 - 1 do rgb[i] = (i * i / 997) % 256 end
      local packed, info = {}, nil
      for _, item in ipairs(png.chunks(png.encode(rgb, w, h), 'x.png')) do
        if item.name == 'IDAT' then packed[#packed + 1] = item.data end
        if item.name == 'IHDR' then info = item.data end
      end
      local function big(n)
        return string.char(0, math.floor(n / 65536), math.floor(n / 256) % 256, n % 256)
      end
      assert.equal(big(w) .. big(h) .. '\8\2\0\0\0', info)
      packed = table.concat(packed)
      local room = ffi.new('unsigned long[1]', (w * 3 + 1) * h)
      local raw = ffi.new('uint8_t[?]', room[0])
      assert.equal(0, ffi.load('libz.so.1').uncompress(raw, room, packed, #packed))
      assert.equal((w * 3 + 1) * h, tonumber(room[0]))
      local same = true
      for y = 0, h - 1 do
        same = same and raw[y * (w * 3 + 1)] == 0
          and ffi.string(raw + y * (w * 3 + 1) + 1, w * 3) == ffi.string(rgb + y * w * 3, w * 3)
      end
      assert.is_true(same)
      C.rg_interrupt_set()
      local ok, err = pcall(png.encode, rgb, w, h)
      C.rg_interrupt_clear()
      assert.is_false(ok)
      assert.equal('EINTR', err.code)
    end
    local sheet = require('ridge.plot.canvas').new { width = 9, height = 9 }
    C.rg_interrupt_set()
    local ok, err = pcall(sheet.rgb, sheet)
    C.rg_interrupt_clear()
    assert.equal('EINTR', not ok and err.code)
  end)

  it('that are damaged are refused', function()
    local path = temporary()
    plot.landscape(fixture.rows { dtypes = { 'f32' } }, about()):save(path, { scale = 1 })
    local file = io.open(path, 'rb')
    local bytes = file:read '*a'
    file:close()
    for _, bad in ipairs { bytes:sub(1, 5000), 'no picture', bytes:sub(1, 300) .. '\0' ..
        bytes:sub(302) } do
      local out = io.open(path, 'wb')
      out:write(bad)
      out:close()
      assert.is_string(failure(png.read_texts, path).message)
    end
    os.remove(path)
  end)

  it('are refused where they cannot be written, with the path', function()
    local f = plot.map(fixture.rows(), about())
    assert.matches('/nowhere/at/all', failure(f.save, f, '/nowhere/at/all/map.png').message)
    assert.matches('png', failure(f.save, f, 'map.jpg').message)
  end)
end)

describe('the map', function()
  -- a pixel in the middle of a cell's upper left quarter, away from number and lines
  local function pixels(rows, opt)
    local f = plot.map(rows, opt)
    local c = f:render { scale = 1 }
    local function at(x, y) return c:pixel(x, y) end
    return at, c
  end

  it('colours faster cells paler, and hatches what is missing', function()
    local rows = fixture.rows { dtypes = { 'f32' } }
    fixture.fail(rows, { layer = 'sketched', num_terms = 16, low_rank = 128 }, 'oom', 'needs 9 GB')
    local f = plot.map(rows, about())
    assert.matches('1 out of memory %(needs 9 GB%)', f:text())
    local at, c = pixels(rows, about())
    -- one facet of 760 units: corners of the cell area
    local fast, slow = at(85, 515), at(445, 215)
    local L_fast, L_slow = color.lab(fast), color.lab(slow)
    assert.is_true(L_fast > L_slow, ('%.1f against %.1f'):format(L_fast, L_slow))
    c:close()
  end)

  it('finds the place of the break-even between the cells', function()
    local categories = { 16, 32, 48, 64, 96, 128 }
    assert.equal(1, map.place(categories, 16))
    assert.equal(4, map.place(categories, 64))
    assert.near(4 + math.log(341.33 / 4 / 64) / math.log(1.5),
      map.place(categories, 341.33 / 4), 1e-3)
    assert.is_true(map.place(categories, 300) > 6)
    -- where there is one alone, a doubling is a cell
    assert.same({ 0, 1, 2 }, { map.place({ 8 }, 4), map.place({ 8 }, 8), map.place({ 8 }, 16) })
  end)

  it('needs a dense row for ratios, and known columns', function()
    local rows = {}
    for _, row in ipairs(fixture.rows()) do
      if row.layer ~= 'dense' then rows[#rows + 1] = row end
    end
    assert.matches('dense', failure(plot.map, rows, about { ratio = true }).message)
    assert.matches("'low_rnk'", failure(plot.map, rows, about { y = 'low_rnk' }).message)
    assert.matches("low_rank", failure(plot.map, rows, about { y = 'low_rnk' }).message)
    assert.matches('no rows', failure(plot.map, {}, about()).message)
    assert.matches('unknown option', failure(plot.map, rows, { colour = 'red' }).message)
    rows[1].fwd = 0 / 0
    assert.matches('finite', failure(plot.map, rows, about()).message)
  end)

  it('is drawn in both themes and sizes', function()
    local f = plot.map(fixture.rows(), about { ratio = true })
    for _, theme in ipairs { 'light', 'dark' } do
      local path = temporary()
      f:save(path, { theme = theme, scale = 2 })
      local _, info = png.read_texts(path)
      assert.equal(2480, info.width)
      os.remove(path)
    end
    assert.matches('too small', failure(f.save, f, temporary(), { size = { 100, 100 } }).message)
  end)
end)

describe('the 2x2 figure', function()
  it('says how many points beat dense, by intervals that do not touch', function()
    local rows = fixture.rows { dtypes = { 'f32' } }
    local f = plot.landscape(rows, about())
    local n = tonumber(f.finding:match('at (%d+) of 36'))
    assert.is_true(n >= 6 and n <= 10, f.finding)
    -- intervals made so wide that nothing is certain
    for _, row in ipairs(rows) do
      if row.fwd then row.fwd_lo, row.fwd_hi = row.fwd / 100, row.fwd * 100 end
    end
    assert.matches('at 0 of 36', plot.landscape(rows, about()).finding)
  end)

  it('asks for one type where there are several', function()
    assert.matches('bf16, f32', failure(plot.landscape, fixture.rows(), about()).message)
    assert.matches('f16', failure(plot.landscape, fixture.rows(),
      about { dtype = 'f16' }).message)
  end)
end)

describe('a canvas', function()
  it('says that drawing failed', function()
    local c = require('ridge.plot.canvas').new { width = 8, height = 8 }
    c:check()
    c.C.cairo_restore(c.cr) -- without a save
    assert.matches('drawing', tostring(failure(c.check, c)))
  end)
end)

-- SPDX-License-Identifier: MIT
--
-- Colour: spaces, ramps and categories, and the measures by which they are judged.
--
-- A colour is a table {r, g, b [, a]} of sRGB values from 0 to 1. The ramps are paths through
-- OKLCH (lightness, chroma, hue of Ottosson's OKLab), because equal steps there look like equal
-- steps; they are computed once, at the first use. Rules, each with a test: lightness of the
-- magnitude ramp rises strictly in CIELAB (a grey print still orders the cells; never a rainbow,
-- Moreland 2009); the ratio ramp is neutral in the middle and its two arms differ under simulated
-- protan and deutan vision; categories are those of Okabe and Ito. Sources: B. Ottosson, "A
-- perceptual color space for image processing" (2020); IEC 61966-2-1 (sRGB); CIE 15 (CIELAB, D65);
-- Machado, Oliveira, Fernandes, IEEE TVCG 15(6) 2009, matrices of severity 1; WCAG 2.1 contrast.

local blame = require 'ridge.blame'

local M = {}

local floor, max, min, pi = math.floor, math.max, math.min, math.pi
local cos, sin, sqrt = math.cos, math.sin, math.sqrt

-- Spaces --------------------------------------------------------------------------------------

--- A colour from '#rrggbb'.
---@param text string
---@param alpha number|nil 0 to 1
---@return table color {r, g, b, a}
function M.hex(text, alpha)
  local r, g, b = text:match('^#(%x%x)(%x%x)(%x%x)$')
  if not r then blame.raise('color.hex: ' .. text .. ' is not of the form #rrggbb', 'EARG') end
  return { tonumber(r, 16) / 255, tonumber(g, 16) / 255, tonumber(b, 16) / 255, alpha }
end

--- The same colour with another opacity.
---@param color table
---@param alpha number 0 to 1
---@return table color
function M.alpha(color, alpha)
  return { color[1], color[2], color[3], alpha }
end

--- A mixture in sRGB: a at t = 0, b at t = 1.
---@param a table
---@param b table
---@param t number
---@return table color
function M.mix(a, b, t)
  return { a[1] + (b[1] - a[1]) * t, a[2] + (b[2] - a[2]) * t, a[3] + (b[3] - a[3]) * t }
end

local function linear(v)
  return v <= 0.04045 and v / 12.92 or ((v + 0.055) / 1.055) ^ 2.4
end

local function encoded(v)
  if v <= 0.0031308 then return 12.92 * v end
  return 1.055 * v ^ (1 / 2.4) - 0.055
end

local function oklab_to_linear(lightness, a, b)
  local l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ^ 3
  local m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ^ 3
  local s = (lightness - 0.0894841775 * a - 1.2914855480 * b) ^ 3
  return 4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s
end

--- A colour from OKLCH. What sRGB cannot show loses chroma, never lightness.
---@param lightness number 0 to 1
---@param chroma number 0 to about 0.3
---@param degrees number hue
---@return table color
function M.oklch(lightness, chroma, degrees)
  local hue = degrees * pi / 180
  local r, g, b
  local low, high = 0, chroma
  for step = 0, 20 do
    local c = step == 0 and chroma or (low + high) / 2
    r, g, b = oklab_to_linear(lightness, c * cos(hue), c * sin(hue))
    local inside = min(r, g, b) >= -1e-4 and max(r, g, b) <= 1 + 1e-4
    if step == 0 and inside then break end
    if inside then low = c else high = c end
  end
  local function fit(v) return encoded(min(max(v, 0), 1)) end
  return { fit(r), fit(g), fit(b) }
end

--- CIELAB of a colour, white point D65.
---@param color table
---@return number L 0 to 100
---@return number a
---@return number b
function M.lab(color)
  local r, g, b = linear(color[1]), linear(color[2]), linear(color[3])
  local x = (0.4124564 * r + 0.3575761 * g + 0.1804375 * b) / 0.95047
  local y = 0.2126729 * r + 0.7151522 * g + 0.0721750 * b
  local z = (0.0193339 * r + 0.1191920 * g + 0.9503041 * b) / 1.08883
  local function f(t)
    if t > 216 / 24389 then return t ^ (1 / 3) end
    return (24389 / 27 * t + 16) / 116
  end
  local fx, fy, fz = f(x), f(y), f(z)
  return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)
end

--- Distance of two colours in CIELAB (CIE 1976); 2.3 is one just noticeable difference.
---@param p table
---@param q table
---@return number distance
function M.distance(p, q)
  local l1, a1, b1 = M.lab(p)
  local l2, a2, b2 = M.lab(q)
  return sqrt((l1 - l2) ^ 2 + (a1 - a2) ^ 2 + (b1 - b2) ^ 2)
end

local DEFICIENCY = {
  protan = { 0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216,
    -0.003882, -0.048116, 1.051998 },
  deutan = { 0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413,
    -0.011820, 0.042940, 0.968881 },
}

--- A colour as somebody without the red ('protan') or green ('deutan') cones sees it.
---@param color table
---@param kind string 'protan' or 'deutan'
---@return table color
function M.simulate(color, kind)
  local m = DEFICIENCY[kind]
  if not m then
    blame.raise(("color.simulate: '%s' is not protan or deutan"):format(tostring(kind)), 'EARG')
  end
  local r, g, b = linear(color[1]), linear(color[2]), linear(color[3])
  local function row(i)
    return encoded(min(max(m[i] * r + m[i + 1] * g + m[i + 2] * b, 0), 1))
  end
  return { row(1), row(4), row(7) }
end

local function luminance(color)
  return 0.2126 * linear(color[1]) + 0.7152 * linear(color[2]) + 0.0722 * linear(color[3])
end

--- Contrast of two colours, 1 (none) to 21; text wants 4.5.
---@param p table
---@param q table
---@return number contrast
function M.contrast(p, q)
  local a, b = luminance(p), luminance(q)
  return (max(a, b) + 0.05) / (min(a, b) + 0.05)
end

--- The more legible of two text colours on a ground.
---@param ground table
---@param dark table
---@param light table
---@return table color
function M.readable(ground, dark, light)
  return M.contrast(ground, dark) >= M.contrast(ground, light) and dark or light
end

-- Ramps ---------------------------------------------------------------------------------------

local STEPS = 256

-- Knots {lightness, chroma, hue}: deep indigo, sea blue, teal, meadow, straw. Lightness is evenly
-- spaced, so the eye's order is the order of the numbers; the hue turns once through a third of
-- the circle to help naming.
local MAGNITUDE = {
  light = {
    { 0.30, 0.105, 285 }, { 0.43, 0.115, 258 }, { 0.56, 0.100, 222 }, { 0.69, 0.105, 182 },
    { 0.82, 0.120, 140 }, { 0.945, 0.095, 103 },
  },
  dark = {
    { 0.345, 0.085, 285 }, { 0.47, 0.110, 258 }, { 0.595, 0.108, 222 }, { 0.72, 0.112, 182 },
    { 0.845, 0.130, 140 }, { 0.965, 0.085, 103 },
  },
}

-- Two arms from a neutral middle: blue below (the better side of a ratio of times), rust above.
-- The middle is near the paper in each theme, so that strength of colour is size of effect.
local RATIO = {
  light = {
    { 0.40, 0.125, 255 }, { 0.56, 0.120, 248 }, { 0.74, 0.075, 240 }, { 0.935, 0.006, 230 },
    { 0.78, 0.085, 60 }, { 0.61, 0.130, 46 }, { 0.44, 0.115, 36 },
  },
  dark = {
    { 0.84, 0.105, 232 }, { 0.68, 0.120, 243 }, { 0.49, 0.085, 250 }, { 0.31, 0.010, 250 },
    { 0.50, 0.085, 46 }, { 0.67, 0.130, 52 }, { 0.84, 0.110, 70 },
  },
}

-- Catmull-Rom through four knots.
local function cubic(p0, p1, p2, p3, t)
  return 0.5 * (2 * p1 + (p2 - p0) * t + (2 * p0 - 5 * p1 + 4 * p2 - p3) * t * t
    + (3 * p1 - p0 - 3 * p2 + p3) * t * t * t)
end

-- Along the magnitude ramp hue and chroma bend smoothly from knot to knot.
local function bent(knots, k, t)
  local n = #knots
  local p0, p1, p2, p3 = knots[max(k, 1)], knots[k + 1], knots[k + 2], knots[min(k + 3, n)]
  return M.oklch(p1[1] + (p2[1] - p1[1]) * t, max(cubic(p0[2], p1[2], p2[2], p3[2], t), 0),
    cubic(p0[3], p1[3], p2[3], p3[3], t))
end

-- Along the ratio ramp each stretch is straight in OKLab: through the grey middle no third hue.
local function straight(knots, k, t)
  local p, q = knots[k + 1], knots[k + 2]
  local function mixed(f)
    local from, to = p[2] * f(p[3] * pi / 180), q[2] * f(q[3] * pi / 180)
    return from + (to - from) * t
  end
  local a, b = mixed(cos), mixed(sin)
  return M.oklch(p[1] + (q[1] - p[1]) * t, sqrt(a * a + b * b), math.atan2(b, a) * 180 / pi)
end

local function along(knots, between)
  local out, n = {}, #knots
  for i = 0, STEPS - 1 do
    local at = i / (STEPS - 1) * (n - 1)
    local k = min(floor(at), n - 2)
    out[i + 1] = between(knots, k, at - k)
  end
  return out
end

local cache = {}

local function ramp_table(kind, theme)
  local key = kind .. theme
  if not cache[key] then
    local knots = (kind == 'ratio' and RATIO or MAGNITUDE)[theme]
    if not knots then
      blame.raise(("color: no theme '%s' (has: dark, light)"):format(tostring(theme)), 'EARG')
    end
    cache[key] = along(knots, kind == 'ratio' and straight or bent)
  end
  return cache[key]
end

local function sample(kind, theme, t)
  local ramp = ramp_table(kind, theme)
  return ramp[floor(min(max(t, 0), 1) * (STEPS - 1) + 0.5) + 1]
end

--- The magnitude ramp: dark at 0, pale at 1, in both themes.
---@param t number 0 to 1, clamped
---@param theme string 'light' or 'dark'
---@return table color
function M.magnitude(t, theme)
  return sample('magnitude', theme, t)
end

--- The ratio ramp: blue at 0, neutral at 0.5, rust at 1.
---@param t number 0 to 1, clamped
---@param theme string 'light' or 'dark'
---@return table color
function M.ratio(t, theme)
  return sample('ratio', theme, t)
end

--- Colours for an ordered series (rank 16, 32, ...): a stretch of the magnitude ramp that keeps its
--- contrast with
--- the paper, first value nearest to the paper.
---@param n integer how many
---@param theme string
---@return table colors array of n
function M.ordered(n, theme)
  local from, to = 0.80, 0.02
  if theme == 'dark' then from, to = 0.22, 1 end
  local out = {}
  for i = 1, n do
    out[i] = M.magnitude(from + (to - from) * (n == 1 and 0.5 or (i - 1) / (n - 1)), theme)
  end
  return out
end

-- Categories ----------------------------------------------------------------------------------

-- Okabe and Ito's eight, the strongest on each paper first; the neutral one is the ink of the
-- theme.
local CATEGORY = {
  light = { '#0072B2', '#D55E00', '#009E73', '#CC79A7', '#E69F00', '#56B4E9', '#000000',
    '#F0E442' },
  dark = { '#56B4E9', '#E69F00', '#009E73', '#CC79A7', '#F0E442', '#D55E00', '#FFFFFF', '#0072B2' },
}

--- Shapes and dashes that go with the categories, so that colour is never alone.
M.SHAPES = { 'circle', 'diamond', 'square', 'triangle', 'down', 'pentagon', 'cross', 'plus' }
M.DASHES = { {}, { 6, 3 }, { 2, 2.5 }, { 8, 3, 2, 3 }, { 10, 4 }, { 4, 2 }, { 1, 2 },
  { 12, 3, 3, 3 } }

--- Category number i as colour, shape and dash pattern: of each eight the colours are the same, and
--- go with other shapes and dashes, so that no two of 64 are alike.
---@param i integer from 1
---@param theme string
---@return table color
---@return string shape
---@return table dash
function M.category(i, theme)
  local at = (i - 1) % 8
  local shifted = (at + math.floor((i - 1) / 8)) % 8
  return M.hex(CATEGORY[theme][at + 1]), M.SHAPES[shifted + 1], M.DASHES[shifted + 1]
end

return M

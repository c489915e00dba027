-- SPDX-License-Identifier: MIT
--
-- The strokes of a recording as lines of text, for approval: what is drawn, where to a tenth of a
-- unit, in which colour (by its name in the theme). Long runs of one stroke, a colour bar or a
-- cloud of dots, are told by some of them and how many there are.

local M = {}

-- Ties go up, whatever the last bit of a logarithm is.
local function tenth(v)
  if v ~= v or math.abs(v) == math.huge then return tostring(v) end
  return ('%g'):format(math.floor(v * 10 + 0.5 + 1e-5) / 10)
end

local function hex(c)
  local parts = {}
  for i = 1, 3 do
    parts[i] = ('%02X'):format(math.floor(math.max(0, math.min(1, c[i])) * 255 + 0.5))
  end
  return '#' .. table.concat(parts)
end

-- Colours of a theme by name; of several names for one the first in the alphabet.
local function names_of(theme)
  local names = {}
  for name, c in pairs(theme) do
    if type(c) == 'table' and type(c[1]) == 'number' then
      local key = hex(c)
      if not names[key] or name < names[key] then names[key] = name end
    end
  end
  return names
end

local function dash_of(dash)
  return dash and #dash > 0 and ' dashes ' .. table.concat(dash, ' ') or ''
end

local SOME = 14 -- points of a long line that are told

local function points_of(xs, ys)
  local out, n = {}, #xs
  local stride = n > 2 * SOME and math.ceil(n / SOME) or 1
  for i = 1, n do
    if (i - 1) % stride == 0 or i == n then
      out[#out + 1] = tenth(xs[i]) .. ',' .. tenth(ys[i])
    end
  end
  return (stride > 1 and n .. ' points ' or '') .. table.concat(out, ' ')
end

local function width_of(width) return width and ' wide ' .. tenth(width) or '' end

local function area_of(s)
  return ('%s,%s %s x %s'):format(tenth(s.x), tenth(s.y), tenth(s.w), tenth(s.h))
end

local LINE = {}

function LINE.rect(s, ink)
  return ('%s %s%s'):format(area_of(s), ink(s.color), s.radius and ' round ' .. s.radius or '')
end

function LINE.frame(s, ink)
  return ('%s %s%s%s%s'):format(area_of(s), ink(s.color), width_of(s.width),
    s.radius and ' round ' .. s.radius or '', dash_of(s.dash))
end

function LINE.line(s, ink)
  return ('%s,%s %s,%s %s%s%s'):format(tenth(s.x1), tenth(s.y1), tenth(s.x2), tenth(s.y2),
    ink(s.color), width_of(s.width), dash_of(s.dash))
end

function LINE.polyline(s, ink)
  return ('%s %s%s%s'):format(points_of(s.xs, s.ys), ink(s.color), width_of(s.width),
    dash_of(s.dash))
end

function LINE.polygon(s, ink) return points_of(s.xs, s.ys) .. ' ' .. ink(s.color) end

function LINE.marker(s, ink)
  return ('%s %s,%s r %s%s%s%s'):format(s.shape, tenth(s.x), tenth(s.y), tenth(s.r),
    s.fill and ' ' .. ink(s.fill) or ' hollow', s.edge and ' edge ' .. ink(s.edge) or '',
    width_of(s.width))
end

function LINE.hatch(s, ink)
  return ('%s %s %s%s%s'):format(s.kind, area_of(s), ink(s.color), s.gap and ' gap ' .. s.gap or '',
    width_of(s.width))
end

function LINE.text(s, ink)
  local t = s.style
  return ('%s,%s %s%s%s%s%s%s%s%s "%s"'):format(tenth(s.x), tenth(s.y), tenth(t.size),
    t.bold and ' bold' or '', t.italic and ' italic' or '', t.align and ' ' .. t.align or '',
    t.valign and ' ' .. t.valign or '', t.angle and ' turned ' .. t.angle or '',
    ' ' .. ink(t.color), t.halo and ' on ' .. ink(t.halo) or '', s.text)
end

local RUN = 24 -- strokes of one kind in a row, of which some are told

--- A recording as text.
---@param recording table of recorder.of
---@return string text
function M.text(recording)
  local names, out, clip = names_of(recording.theme), {}, nil
  local function ink(c)
    local name = names[hex(c)] or hex(c)
    return (c[4] or 1) < 1 and ('%s %.0f%%'):format(name, c[4] * 100) or name
  end
  out[1] = ('%s x %s, %s'):format(tenth(recording.width), tenth(recording.height),
    recording.theme.name)
  local strokes = recording.strokes
  local i = 1
  while i <= #strokes do
    local last = i
    while strokes[last + 1] and strokes[last + 1].op == strokes[i].op
      and strokes[last + 1].clip == strokes[i].clip do last = last + 1 end
    local n = last - i + 1
    local stride = n > RUN and strokes[i].op ~= 'text' and math.ceil(n / 12) or 1
    if strokes[i].clip ~= clip then
      clip = strokes[i].clip
      out[#out + 1] = clip and 'only in ' .. area_of(clip) or 'anywhere'
    end
    if stride > 1 then out[#out + 1] = ('%d times %s:'):format(n, strokes[i].op) end
    for k = i, last do
      if (k - i) % stride == 0 or k == last then
        out[#out + 1] = strokes[k].op .. ' ' .. LINE[strokes[k].op](strokes[k], ink)
      end
    end
    i = last + 1
  end
  return table.concat(out, '\n') .. '\n'
end

return M

-- SPDX-License-Identifier: MIT
--- A profile as a flame graph (Gregg, 2011): a box a place in the tree, as wide as its time, on
--- what it was in. One SVG with everything in it; a pointer over a box tells its name and time.

local escape = require 'ridge.profile.escape'
local output = require 'ridge.ffi.output'
local stacks = require 'ridge.profile.stacks'
local tree = require 'ridge.profile.tree'
local unit = require 'ridge.show.unit'

local M = {}

local WIDTH, ROW, MARGIN, HEAD = 1200, 18, 10, 46
local LETTER = 6.6 -- width of one in its font, about
local THINNEST = 0.1 -- what is less wide is not drawn

-- What holds others is bluish, what computes reddish, Lua greenish; of one name always the same.
local HUES = { module = { 205, 40, 62 }, section = { 160, 35, 58 }, plan = { 265, 30, 66 },
  compound = { 225, 40, 68 }, lua = { 130, 35, 64 }, state = { 95, 30, 70 },
  all = { 0, 0, 78 } }

-- Hue, saturation and lightness in degrees and percent, as red, green and blue: SVG 1.1 has no
-- hsl(), and readers of it draw such boxes black.
local function rgb(h, s, l)
  local reach = s / 100 * math.min(l, 100 - l) / 100
  local function part(n)
    local k = (n + h / 30) % 12
    return math.floor(255 * (l / 100 - reach * math.max(-1, math.min(k - 3, 9 - k, 1))) + 0.5)
  end
  return ('#%02x%02x%02x'):format(part(0), part(8), part(4))
end

local function colour_of(node)
  local sum = 0
  for i = 1, #node.name do sum = (sum * 31 + node.name:byte(i)) % 997 end
  local hue = HUES[node.kind]
  if hue then
    return rgb(hue[1], hue[2], hue[3] + sum % 9)
  end
  return rgb(8 + sum % 42, 78, 62 + sum % 11)
end

local function time(ns) return (unit.format('ns', ns):gsub('\226\128\175', ' ')) end

local function described(node, all)
  local parts = { ('%s: %s, %.2f %%'):format(stacks.label(node), time(node.ns),
    100 * node.ns / all) }
  if node.calls > 0 and node.kind ~= 'all' then
    parts[#parts + 1] = ('%d %s'):format(node.calls, node.calls == 1 and 'call' or 'calls')
  end
  if #node.within > 0 then parts[#parts + 1] = ('%s of its own'):format(time(node.self_ns)) end
  return table.concat(parts, ', ')
end

local function depth_of(node)
  local most = 0
  for _, inner in ipairs(node.within) do most = math.max(most, depth_of(inner)) end
  return most + 1
end

-- A label cut to so many letters, whole characters.
local function fitting(label, letters)
  label = escape.utf8(label)
  local _, count = label:gsub('[^\128-\191]', '')
  if count <= letters then return label end
  local kept = {}
  for character in label:gmatch '[%z\1-\127\194-\244][\128-\191]*' do
    if #kept + 3 > letters then break end
    kept[#kept + 1] = character
  end
  return table.concat(kept) .. '..'
end

local function box(put, node, x, y, width, all)
  put(('<g><title>%s</title><rect x="%.2f" y="%d" width="%.2f" height="%d" fill="%s" rx="1.5"/>')
    :format(escape.xml(described(node, all)), x, y, width, ROW - 1, colour_of(node)))
  local letters = math.floor((width - 6) / LETTER)
  if letters >= 3 then
    put(('<text x="%.2f" y="%d">%s</text>'):format(x + 3, y + ROW - 6,
      escape.xml(fitting(stacks.label(node), letters))))
  end
  put '</g>\n'
end

--- The picture, piece by piece.
---@param p table profile
---@param put fun(text: string)
function M.draw(p, put)
  local all = math.max(1, tree.sum(p.tree))
  local depth, scale = depth_of(p.tree), (WIDTH - 2 * MARGIN) / all
  local height = HEAD + depth * ROW + 2 * MARGIN
  put(('<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" '
    .. 'width="%d" height="%d" viewBox="0 0 %d %d" font-family="monospace" font-size="11">\n'
    .. '<rect width="100%%" height="100%%" fill="#ffffff"/>\n'
    .. '<text x="%d" y="24" font-size="15" font-family="sans-serif">%s in operations and what '
    .. 'called them</text>\n'):format(WIDTH, height, WIDTH, height, MARGIN, escape.xml(time(p.ns))))
  local function visit(node, x, level)
    local width = tree.sum(node) * scale
    if width < THINNEST then return end
    box(put, node, x, HEAD + (depth - level) * ROW, width, all)
    table.sort(node.within, function(a, b)
      if a.ns ~= b.ns then return a.ns > b.ns end
      return a.name < b.name
    end)
    for _, inner in ipairs(node.within) do
      visit(inner, x, level + 1)
      x = x + tree.sum(inner) * scale
    end
  end
  visit(p.tree, MARGIN, 1)
  put '</svg>\n'
end

--- Write it.
---@param p table profile
---@param path string
function M.write(p, path)
  output.write(path, 'profile:flame', function(out)
    M.draw(p, function(text) out:write(text) end)
  end)
end

return M

-- SPDX-License-Identifier: MIT
--
-- The two looks of a figure: colours, type sizes and line weights, for paper and for dark screens.
--
-- They are two designs and not one inverted: on paper the weight lies on dark ink and thin grey
-- rules; on the dark ground lines are a little heavier and colours lighter and less saturated,
-- because bright strokes on dark look thinner and glow. No text is smaller than 9 points (12
-- units).

local blame = require 'ridge.blame'
local color = require 'ridge.plot.color'

local M = {}

local hex = color.hex

-- Type sizes in units of 1/96 inch: one modular step of about 1.2 between the levels.
local SIZE = { title = 23, subtitle = 14.5, panel = 16, label = 13.5, tick = 12.5, note = 12.5,
  caption = 12.5, value = 13 }

local THEME = {
  light = {
    name = 'light', size = SIZE, hair = 1, stroke = 2, marker = 4.6,
    paper = hex '#FFFFFF', ink = hex '#14181D', text = hex '#2A3138', muted = hex '#5B6670',
    axis = hex '#8C969F', grid = hex '#E7EAED', minor = hex '#F2F4F5', rule = hex '#D5DADE',
    blank = hex '#F4F5F7', hatch = hex '#A9B2BA', neutral = hex '#C3C8CC',
    accent = hex '#0A5F9E', warn = hex '#B3420B',
    dense = hex '#14181D', lowrank = hex '#D55E00', sketched = hex '#0072B2',
    band = 0.10,
  },
  dark = {
    name = 'dark', size = SIZE, hair = 1, stroke = 2.2, marker = 4.8,
    paper = hex '#0E1318', ink = hex '#F3F6F8', text = hex '#D7DEE4', muted = hex '#97A3AE',
    axis = hex '#5D6974', grid = hex '#1F2830', minor = hex '#172027', rule = hex '#2C3740',
    blank = hex '#161D24', hatch = hex '#51606D', neutral = hex '#4A545D',
    accent = hex '#7CC4F2', warn = hex '#F0A35E',
    dense = hex '#F3F6F8', lowrank = hex '#E69F00', sketched = hex '#56B4E9',
    band = 0.16,
  },
}

--- The theme of a name.
---@param name string 'light' or 'dark'
---@return table theme
function M.get(name)
  local theme = THEME[name]
  if not theme then
    blame.raise(("no theme '%s' (has: dark, light)"):format(tostring(name)), 'EARG')
  end
  return theme
end

return M

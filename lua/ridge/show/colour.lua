-- SPDX-License-Identifier: MIT
--- Colour for what ridge prints: names for what a thing is, sequences only where a terminal shows
--- them.

local M = {}

local CODES = {
  error = '31', number = '36', string = '32', constant = '33', key = '34', other = '35',
  dim = '2', bold = '1', bad = '31',
}

M.enabled = false

--- Whether lines of a terminal can be drawn again, over those that are there: TERM=dumb says no.
---@param is_terminal boolean whether the output is one
---@return boolean
function M.moves(is_terminal) return is_terminal and os.getenv 'TERM' ~= 'dumb' end

--- Whether colour should be on for a terminal: NO_COLOR (no-color.org) and TERM=dumb say no.
---@param is_terminal boolean whether the output is one
---@return boolean enabled
function M.wanted(is_terminal)
  local no = os.getenv 'NO_COLOR'
  return M.moves(is_terminal) and not (no and no ~= '')
end

--- The text in a colour, or as it is while colour is off.
---@param kind string what it is: 'error', 'number', 'string', 'constant', 'key', 'dim', 'bold'
---@param text string what to print
---@return string text
function M.paint(kind, text)
  if not M.enabled then return text end
  return '\27[' .. CODES[kind] .. 'm' .. text .. '\27[0m'
end

--- The text without colour.
---@param text string what may hold sequences
---@return string text
function M.strip(text)
  return (text:gsub('\27%[[%d;]*m', ''))
end

--- Columns a text takes: UTF-8 characters, colour not counted.
---@param text string one line
---@return integer columns
function M.width(text)
  local _, n = M.strip(text):gsub('[^\128-\191]', '')
  return n
end

return M

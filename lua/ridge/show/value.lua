-- SPDX-License-Identifier: MIT
--- How values of ridge's own show, once for the prompt, print and tables inside tables.
--
-- A class of values says what it looks like in its metatable, in up to four ways:
--
--   __line(value)         one line, in lists and tables
--   __box(value, width)   at the prompt and by print: at most 12 lines
--   __html(value)         where a page shows it
--   __png(value)          a picture of it
--
-- A class that has none of them shows by its __tostring, as any other.  Showing never measures.
-- What a class raises while it is shown is one note in the place of its text.

local colour = require 'ridge.show.colour'
local columns = require 'ridge.show.columns'
local plain = require 'ridge.plain'
local summary = require 'ridge.show.summary'

local M = {}

local LINES = 12 -- of a box at most

local function field(value, name)
  local meta = debug.getmetatable(value)
  return type(meta) == 'table' and rawget(meta, name) or nil
end

-- What was raised, as text: an error is any value, and its fields and __tostring may raise as well.
local function raised(message)
  if type(message) == 'table' then message = message.message or message end
  return (tostring(message):gsub('^[^:]*ridge/[%w_/]+%.lua:%d+: ', ''))
end

local function broken(value, name, message)
  local meta = debug.getmetatable(value)
  local what = type(rawget(meta, '__name')) == 'string' and rawget(meta, '__name') or type(value)
  local ok, text = pcall(raised, message)
  return colour.paint('dim', plain.line(('<%s: its %s raises: %s>'):format(what, name,
    ok and text or 'an error that has no text')))
end

local function text_of(value, name, ...)
  local ok, text = pcall(field(value, name), value, ...)
  if not ok then return broken(value, name, text) end
  if type(text) ~= 'string' then return broken(value, name, 'no text but a ' .. type(text)) end
  return text
end

--- The text of a value whose class says how it shows, without a newline at the end; nil of another.
---@param value any
---@param width integer|nil columns, the terminal's if left out
---@return string|nil text
function M.box(value, width)
  if not field(value, '__box') then return nil end
  local lines = {}
  for line in (text_of(value, '__box', width or summary.columns()) .. '\n'):gmatch '([^\n]*)\n' do
    lines[#lines + 1] = line
  end
  lines[#lines] = lines[#lines] ~= '' and lines[#lines] or nil -- a newline at the end
  local most, room = field(value, '__lines') or LINES, columns.terminal()
  if #lines > most then
    lines[most] = colour.paint('dim', ('... %d lines more'):format(#lines - most + 1))
  end
  for i = 1, math.min(#lines, most) do lines[i] = columns.cut(lines[i], room) end
  return table.concat(lines, '\n', 1, math.min(#lines, most))
end

--- The same as one line: its __line, else the first line of its box.
---@param value any
---@return string|nil text
function M.line(value)
  if field(value, '__line') then return (text_of(value, '__line'):gsub('\n.*', ' ...')) end
  local box = M.box(value)
  return box and (box:gsub('\n.*', ' ...'))
end

local ENTITIES = { ['&'] = '&amp;', ['<'] = '&lt;', ['>'] = '&gt;', ['"'] = '&quot;',
  ["'"] = '&#39;' }

--- Marks of HTML and XML in a text, written as entities.
---@param text string
---@return string
function M.entities(text) return (text:gsub('[&<>"\']', ENTITIES)) end

--- A text in a page.
---@param text any
---@return string html
function M.escape(text) return M.entities(plain.text(text)) end

--- A value in a page: its __html, else its box as it stands.
---@param value any
---@return string|nil html of a value whose class says how it shows
function M.html(value)
  if field(value, '__html') then
    local ok, html = pcall(field(value, '__html'), value)
    if ok and type(html) == 'string' then return html end
    return '<p>' .. M.escape(colour.strip(broken(value, '__html', ok and 'no text' or html)))
      .. '</p>'
  end
  local box = M.box(value)
  return box and '<pre>' .. M.escape(colour.strip(box)) .. '</pre>'
end

--- A picture of a value: a PNG.
---@param value any
---@return string|nil bytes nil where its class has no picture of it, or has nothing to draw
---@return string|nil why nil where its class has none
function M.png(value)
  local draw = field(value, '__png')
  if not draw then return nil end
  local ok, bytes = pcall(draw, value)
  if ok and type(bytes) == 'string' then return bytes end
  return nil, colour.strip(broken(value, '__png', ok and 'no picture' or bytes))
end

local WAYS = { 'line', 'box', 'html', 'png', 'lines' }

--- Give a metatable its ways of showing.
---@param meta table
---@param ways table line, box, html, png: functions of a value (box also of columns); lines: how
---  many its box has at most
---@return table metatable with __tostring, so that print agrees with the prompt
function M.ways(meta, ways)
  for _, way in ipairs(WAYS) do meta['__' .. way] = ways[way] end
  meta.__tostring = function(value) return M.box(value) end
  return meta
end

--- A class of values that show: its metatable.
---@param name string 'point'
---@param ways table as of `ways`
---@return table metatable
function M.class(name, ways) return M.ways({ __name = name }, ways) end

return M

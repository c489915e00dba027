-- SPDX-License-Identifier: MIT
--- Texts of anybody's as JSON and XML: both want UTF-8, and names may be any bytes.

local utf8 = require 'ridge.utf8'
local value = require 'ridge.show.value'

local M = {}

--- A text with the sign for what is unknown where it is not UTF-8.
---@param s string
---@return string
M.utf8 = utf8.clean

local ESCAPE = { ['"'] = '\\"', ['\\'] = '\\\\', ['\n'] = '\\n', ['\t'] = '\\t', ['\r'] = '\\r' }

--- A text as JSON, in its quotes.
---@param s string
---@return string
function M.json(s)
  return '"' .. M.utf8(s):gsub('[%z\1-\31"\\]', function(c)
    return ESCAPE[c] or ('\\u%04x'):format(c:byte())
  end) .. '"'
end

--- A text for XML, between tags or in an attribute; what no document may hold becomes a blank:
--- bytes that command, and the two characters at the end of the first plane.
---@param s string
---@return string
function M.xml(s)
  return value.entities((M.utf8(s):gsub('[%z\1-\31\127]', ' ')
    :gsub('\239\191[\190\191]', ' ')))
end

return M

-- SPDX-License-Identifier: MIT
--- Plain tables as one line of Lua and back: how a result comes out of the process that made it.

local M = {}

local function write(value, parts)
  local kind = type(value)
  if kind == 'number' then
    parts[#parts + 1] = value ~= value and '(0/0)' or value == math.huge and 'math.huge'
      or value == -math.huge and '-math.huge' or ('%.17g'):format(value)
  elseif kind == 'string' then
    parts[#parts + 1] = (('%q'):format(value):gsub('\\\n', '\\n'))
  elseif kind == 'table' then
    parts[#parts + 1] = '{'
    for key, each in pairs(value) do
      parts[#parts + 1] = '['
      write(key, parts)
      parts[#parts + 1] = ']='
      write(each, parts)
      parts[#parts + 1] = ','
    end
    parts[#parts + 1] = '}'
  else
    parts[#parts + 1] = tostring(value)
  end
end

--- A table of numbers, texts, booleans and such tables, as text without a line break.
---@param value table
---@return string text
-- >> literal.encode({ 1, nan = 0 / 0 })
function M.encode(value)
  local parts = {}
  write(value, parts)
  return (table.concat(parts):gsub('\r', '\\r'))
end

--- The table of such a text; it was written by our own child.
---@param text string
---@return table value
function M.decode(text)
  local chunk = assert(loadstring('local math = ... return ' .. text, '=literal'))
  setfenv(chunk, {})
  return chunk { huge = math.huge }
end

return M

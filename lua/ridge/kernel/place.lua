-- SPDX-License-Identifier: MIT
--- Where in a text: Jupyter counts characters, Lua bytes.

local M = {}

--- The bytes in front of a character.
---@param text string
---@param n integer characters, from 0
---@return string before
function M.before(text, n)
  local at = 0
  for _ = 1, n do
    at = text:find('[^\128-\191]', at + 1)
    if not at then return text end
  end
  local next_one = text:find('[^\128-\191]', at + 1)
  return text:sub(1, (next_one or #text + 1) - 1)
end

--- How many characters a text has.
---@param text string
---@return integer n
function M.characters(text)
  local _, n = text:gsub('[^\128-\191]', '')
  return n
end

--- The name around a place in a text; in front of an open bracket that of the function.
---@param before string what stands in front of the place
---@param after string what stands behind it
---@return string|nil name
function M.name(before, after)
  local word = (before:match '[%w_.:]*$' or '') .. (after:match '^[%w_]*' or '')
  word = word:gsub('^[.:%d]+', ''):gsub('[.:]+$', '')
  if word ~= '' then return word end
  local depth, at = 0, #before
  while at > 0 do -- the bracket that is open here
    local c = before:sub(at, at)
    if c == ')' then depth = depth + 1 end
    if c == '(' then
      if depth == 0 then
        local name = before:sub(1, at - 1):match '([%a_][%w_.:]*)%s*$'
        return name
      end
      depth = depth - 1
    end
    at = at - 1
  end
  return nil
end

return M

-- SPDX-License-Identifier: MIT
--- UTF-8 of texts that are any bytes: names of anybody's, for files whose readers want it.

local M = {}

-- How many bytes a character has that begins at a place; nil where none does.
local function length_at(s, i)
  local a, b = s:byte(i, i + 1)
  if a < 0x80 then return 1 end
  local n = a >= 0xc2 and a <= 0xdf and 2 or a >= 0xe0 and a <= 0xef and 3
    or a >= 0xf0 and a <= 0xf4 and 4 or nil
  if not n or not b then return nil end
  if a == 0xe0 and b < 0xa0 or a == 0xed and b > 0x9f or a == 0xf0 and b < 0x90
      or a == 0xf4 and b > 0x8f then -- too long, halves of pairs, beyond the last one
    return nil
  end
  for k = i + 1, i + n - 1 do
    local c = s:byte(k)
    if not c or c < 0x80 or c > 0xbf then return nil end
  end
  return n
end

--- A text with the sign for what is unknown where it is not UTF-8.
---@param s string
---@return string
function M.clean(s)
  if not s:find '[\128-\255]' then return s end
  local out, i = {}, 1
  while i <= #s do
    local n = length_at(s, i)
    out[#out + 1] = n and s:sub(i, i + n - 1) or '\239\191\189'
    i = i + (n or 1)
  end
  return table.concat(out)
end

return M

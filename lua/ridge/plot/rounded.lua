-- SPDX-License-Identifier: MIT
--
-- Numbers as bounds: a sentence that says "at most" or "at least" has to be true of the digits that
-- it shows, so they are rounded away from what was found.

local M = {}

-- What two ways of working out one number differ by is no difference.
local SLACK = 1e-12

local function written(v, digits)
  local text = ('%.' .. digits .. 'g'):format(v)
  if math.abs(v) < 1e6 and text:find 'e%+' then text = ('%.0f'):format(tonumber(text)) end
  return text, tonumber(text)
end

-- With one digit more where that does; else the last one is raised or lowered.
local function bound(v, digits, sign)
  local function holds(shown) return sign * (shown - v) >= -SLACK * math.abs(v) end
  for n = digits, digits + 1 do
    local text, shown = written(v, n)
    if holds(shown) then return text, shown end
  end
  local last = 10 ^ (math.floor(math.log10(math.abs(v))) - digits)
  return written(v + sign * last, digits + 1)
end

--- A value in few digits, so that what is said is not below it.
-- >> rounded.up(1.2346)  --> 1.235: of 1.23 it would not be true
---@param v number finite
---@param digits integer|nil significant ones, 3; one more where that suffices
---@return string text
---@return number shown
function M.up(v, digits) return bound(v, digits or 3, 1) end

--- A value in few digits, so that what is said is not above it.
---@param v number finite
---@param digits integer|nil significant ones, 3; one more where that suffices
---@return string text
---@return number shown
function M.down(v, digits) return bound(v, digits or 3, -1) end

return M

-- SPDX-License-Identifier: MIT
--- A generator of whole numbers for specs that draw their cases (Park & Miller 1988): the same for
--- a seed on every machine, and apart from the streams of ridge.

--- A function that gives a whole number from 1 to n.
---@param seed integer
---@return function random
return function(seed)
  local state = seed
  local function random(n)
    state = (state * 16807) % 2147483647
    return math.floor(state / 2147483647 * n) + 1
  end
  for _ = 1, 5 do random(2) end -- the first numbers of small seeds are small
  return random
end

-- SPDX-License-Identifier: MIT
--- Coarse points first: a sweep stopped at any moment has seen the whole of its space.
--
-- Along a parameter of numbers the two ends and the middle come first, then what halves the gaps,
-- and so on; words come all at once. A point is as fine as its finest coordinate.

local M = {}

-- The rank of each of n positions in a row: 1 for the ends and the middle, 2 for the quarters ...
local function levels(n)
  local level, found, rung, parts = {}, 0, 1, 2
  while found < n do
    for j = 0, parts do
      local i = math.floor(j * (n - 1) / parts + 0.5) + 1
      if not level[i] then level[i], found = rung, found + 1 end
    end
    rung, parts = rung + 1, parts * 2
  end
  return level
end

-- The rank of every value that a parameter takes in these points; nil where they are no numbers.
local function ranks(name, points)
  local values, seen = {}, {}
  for _, point in ipairs(points) do
    local value = point.params[name]
    if value ~= nil and type(value) ~= 'number' then return nil end
    if value and not seen[value] then seen[value], values[#values + 1] = true, value end
  end
  table.sort(values)
  local level, rank = levels(#values), {}
  for i, value in ipairs(values) do rank[value] = level[i] end
  return rank
end

--- Give each point its rung, from 1.
---@param axes table of ridge.sweep.space.axes
---@param points table each params
function M.rank(axes, points)
  for _, point in ipairs(points) do point.rung = 1 end
  for _, axis in ipairs(axes) do
    local continuous = not axis.values[1] -- drawn at random: no row to halve
    local rank = not continuous and ranks(axis.name, points)
    for _, point in ipairs(rank and points or {}) do
      local value = point.params[axis.name]
      if value then point.rung = math.max(point.rung, rank[value]) end
    end
  end
end

return M

-- SPDX-License-Identifier: MIT
--- Random points of a space: each parameter is drawn by a hash of the seed, the number of the point
--- and the parameter's name, so that more samples go on where fewer ended, on any machine.

local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'
local sha256 = require 'ridge.store.sha256'
local values = require 'ridge.sweep.values'

local M = {}

-- Draws for one wanted point after which a condition is held to be too narrow.
local PATIENCE = 200

-- A number from 0 to 1, 1 excluded.
local function share(seed, i, name)
  local a, b, c, d = sha256.digest(('%s\n%d\n%s'):format(canonical.number(seed), i, name))
    :byte(1, 4)
  return (((a * 256 + b) * 256 + c) * 256 + d) / 2 ^ 32
end

--- Is any parameter drawn from a range instead of a list?
---@param axes table
---@return boolean
function M.is_continuous(axes)
  for _, axis in ipairs(axes) do
    if values.is_random(axis.values) then return true end
  end
  return false
end

local function copy(params)
  local out = {}
  for name, value in pairs(params) do out[name] = value end
  return out
end

local function point(axes, seed, i)
  local params = {}
  for _, axis in ipairs(axes) do
    if not axis.condition or axis.condition(copy(params)) then
      local at = share(seed, i, axis.name)
      params[axis.name] = values.is_random(axis.values) and axis.values:at(at)
        or axis.values[math.floor(at * #axis.values) + 1]
    end
  end
  return params
end

--- Draw points until there are so many different ones.
---@param axes table of ridge.sweep.space.axes
---@param where function|nil keeps a point when it returns true
---@param seed integer
---@param n integer how many
---@param add function called with the parameters of each
---@return integer rejected draws that `where` refused
function M.draw(axes, where, seed, n, add)
  local seen, found, rejected = {}, 0, 0
  for i = 1, n * PATIENCE do
    local params = point(axes, seed, i)
    local json = canonical.encode(params)
    if not seen[json] then
      seen[json] = true
      if where and not where(copy(params)) then
        rejected = rejected + 1
      else
        found = found + 1
        add(params)
        if found == n then return rejected end
      end
    end
  end
  blame.raise(('sweep: %d draws gave only %d of %d different points%s'):format(n * PATIENCE, found,
    n, rejected > 0 and (', where refused %d'):format(rejected) or ''), 'EARG', 'sweep')
end

return M

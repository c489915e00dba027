-- SPDX-License-Identifier: MIT
--- Points that a search measured, in an order that nobody knew before: kept as the points of a
--- sweep, with their samples, so that everything that reads sweeps reads them.

local canonical = require 'ridge.store.canonical'
local identity = require 'ridge.store.identity'
local queue = require 'ridge.store.queue'
local space = require 'ridge.sweep.space'
local store = require 'ridge.store'

local M = {}

--- Keep what a search measured, as another generation of the sweep of that name.
---@param what table name, recipe_name, recipe (text of what was done), args (with what was found),
---  protocol, seed
---@param points table each params, and outcome: state, message, timings, metrics, grade, flags,
---  peak
---@param opt table db (the default one when nil), lab
---@return table kept name, path
function M.keep(what, points, opt)
  local lab = opt.lab or require 'ridge.sweep.lab'
  local st = store.open(opt.db or store.default_path(), 'write')
  local ok, result = pcall(function()
    local by_params, values = {}, {}
    for _, point in ipairs(points) do
      by_params[canonical.encode(point.params)] = point
      for name, value in pairs(point.params) do
        values[name] = values[name] or {}
        values[name][value] = true
      end
    end
    local grid = {}
    for name, seen in pairs(values) do
      grid[name] = {}
      for value in pairs(seen) do table.insert(grid[name], value) end
      table.sort(grid[name])
    end
    local plan = space.expand(grid, function(p) return by_params[canonical.encode(p)] ~= nil end,
      what.seed or 0)
    local ids = st:environment(lab.facts())
    local sweep = identity.ensure(st, { name = what.name, recipe_name = what.recipe_name,
      recipe = what.recipe, args = canonical.encode(what.args), space = plan.text,
      protocol = canonical.encode(what.protocol), seed = what.seed or 0, n_rejected = 0,
      rules = canonical.encode {}, trials = plan.trials }, true)
    local worker = queue.start(st, ids.machine_id)
    local items = {}
    for _, claim in ipairs(worker:claim(sweep, #plan.trials, ids.env_id)) do
      items[#items + 1] = { claim = claim,
        outcome = by_params[canonical.encode(claim.params)].outcome }
    end
    worker:record(items)
    worker:finish 'done'
    queue.close(st, sweep.id)
    return { name = sweep.name, path = st.path }
  end)
  st:close()
  if not ok then error(result, 0) end
  return result
end

return M

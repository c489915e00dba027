-- SPDX-License-Identifier: MIT
--- What a process makes of another one's recipe: it runs it as far as its sweep, and sets up the
--- points it was started for.

local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'

local M = {}

--- The sweep of an origin.
---@param origin table  name (or path) and argv; source where it is no file any more
---@return table sweep
function M.sweep_of(origin)
  local recipe = require 'ridge.cli.recipe'
  local argv, found = {}, { name = origin.name, source = origin.source }
  for i, word in ipairs(origin.argv) do argv[i] = word end
  if not origin.source then
    local reason
    found, reason = recipe.find(origin.name)
    if not found then blame.raise(reason, 'EIO') end
  end
  local override = require 'ridge.sweep.override'
  override.given = origin.override -- what the command line that started all this had changed
  return recipe.sweep_of(found, argv)
end

--- What is to be timed, in a process that was started for it.
---@param spec string  canonical JSON: origin; a, b and phases, or point and seed
---@return table[] list  see ridge.measure.fresh
function M.candidates(spec)
  local order = canonical.decode(spec)
  local ab, sw = require 'ridge.sweep.ab', M.sweep_of(order.origin)
  local lab = require('ridge.sweep.device').lab(sw.spec.device)
  if order.point then return ab.single(sw, order.point, lab, order.seed) end
  return ab.candidates(sw, order, lab, order.phases)
end

return M

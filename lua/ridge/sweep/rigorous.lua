-- SPDX-License-Identifier: MIT
--- Points measured in several fresh processes each: what protocol.processes asks for.
--
-- Each process runs the recipe as far as the sweep, sets the point up and times it alone; the
-- results of one point are joined (ridge.measure.merge).

local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'

local M = {}

--- Does a protocol ask for fresh processes?
---@param protocol table
---@return boolean
function M.is_asked(protocol) return (protocol.processes or 1) > 1 end

--- Measure prepared points.
---@param run table    spec (protocol, origin), ceilings, lab
---@param items table[]  each claim (params, seed) and point
---@param tick fun(label: string, rounds: integer)  called between processes
---@return table[] results  in the order of all points' plans
function M.results(run, items, tick)
  local spec = run.spec
  if not spec.origin then
    blame.raise(('the protocol asks for %d fresh processes a point, which run a recipe file again; '
      .. 'here say protocol = { level = %q, processes = 1 }'):format(spec.protocol.processes,
      spec.protocol.level), 'ENOSUP')
  end
  local results = {}
  for _, item in ipairs(items) do
    local source = { module = 'ridge.cli.remote', spec = canonical.encode {
      origin = spec.origin, point = item.claim.params, seed = item.claim.seed } }
    local _, own = run.lab.fresh(source, spec.protocol, run.ceilings, function(i)
      tick(item.label, i)
    end)
    for _, result in ipairs(own) do results[#results + 1] = result end
  end
  return results
end

return M

-- SPDX-License-Identifier: MIT
--- The points of a sweep, each set up and called once while every path of its products is measured:
--- nothing of it is timed as a point or stored as one. What `ridge autotune` does with a sweep.
--
-- What is found goes into the database that the sweep would use, after each point: Ctrl-C and
-- kill -9 lose at most the point under way.

local block = require 'ridge.sweep.block'
local canonical = require 'ridge.store.canonical'
local kept = require 'ridge.sweep.choices'
local point = require 'ridge.sweep.point'
local progress = require 'ridge.sweep.progress'
local ref = require 'ridge.ffi.ref'
local space = require 'ridge.sweep.space'
local store = require 'ridge.store'

local M = {}

local function copy(params)
  local out = {}
  for name, value in pairs(params) do out[name] = value end
  return out
end

-- Points and their partners, each once.
local function points_of(sw)
  local list, seen = {}, {}
  local function add(params)
    local key = canonical.encode(params)
    if not seen[key] then
      seen[key] = true
      list[#list + 1] = params
    end
  end
  for _, trial in ipairs(sw.plan.trials) do add(trial.params) end
  for i = 1, sw.spec.partner and #list or 0 do
    local ok, params = pcall(sw.spec.partner, copy(list[i]))
    if ok and type(params) == 'table' then pcall(add, params) end
  end
  return list
end

-- What is timed is run once: a plan that was captured prepares its products then.
local function call_once(plan)
  if type(plan) == 'function' then plan() else plan:run(1) end
end

local function call_point(sw, lab, params)
  local spec, m = sw.spec, point.new(params, lab, lab.live_bytes())
  lab.seed(spec.seed)
  local context = spec.setup and spec.setup(copy(params), m)
  spec.measure(copy(params), context, m)
  for _, phase in ipairs(m.phases) do
    if phase.plan ~= nil then call_once(phase.plan) end
  end
end

-- One point; the reason where it failed.
local function tune_point(run, params)
  if run.lease then run.lease:exclusive() end
  local ok, err = pcall(run.lab.scoped, function() call_point(run.sw, run.lab, params) end)
  if run.lease then run.lease:drop() end
  ref.collect()
  if ok or point.infeasible(err) then return nil end
  if block.is_interrupt(err) then error(err, 0) end
  return tostring(err):match '[^\n]*'
end

local function go(run, st)
  local points = points_of(run.sw)
  local shown = progress.new('autotune ' .. run.sw.name, { total = #points, pending = #points },
    { style = run.progress })
  if run.lease and not run.lease:try_shared() then
    shown:note 'waiting: another process times on this machine'
  end
  local found, failed = 0, {}
  for _, params in ipairs(points) do
    if run.lab.stopping() then error(block.INTERRUPT, 0) end
    shown:at(('%s · %d found'):format(space.label(params), found))
    local reason = tune_point(run, params)
    found = found + kept.keep(st, run.since)
    shown:add { reason and 'error' or 'ok' }
    if reason then failed[#failed + 1] = ('%s: %s'):format(space.label(params), reason) end
  end
  shown:finish()
  for i = 1, math.min(#failed, 3) do shown:note('autotune: ' .. failed[i]) end
  return #failed
end

--- Measure the paths of all products that the points of a sweep compute and that have not been
--- measured: tuning is on already.
---@param sw table a sweep
---@param opt table db (file), lab, since (keep what was measured from then on, microseconds since
---  1970), again (measure what is known too), progress (style)
---@return integer failed points
---@return integer known choices that were taken from the file first
function M.points(sw, opt)
  local lab = opt.lab
  local st = store.open(opt.db, 'write')
  local run = { sw = sw, lab = lab, since = opt.since, progress = opt.progress,
    lease = lab.lease() }
  local known = 0
  local ok, result = pcall(function()
    if not opt.again then known = kept.take(st).put end
    return go(run, st)
  end)
  if run.lease then run.lease:close() end
  -- also where Ctrl-C came: what was found until then stays
  local saved, reason = pcall(kept.keep, st, opt.since)
  st:close()
  if not ok then error(result, 0) end
  if not saved then error(reason, 0) end
  return result, known
end

--- Whether points of this sweep compute products on the CPU, where there is a path to choose.
---@param sw table
---@return boolean
function M.has_products(sw) return (sw.spec.device or 'cpu') == 'cpu' end

return M

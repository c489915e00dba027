-- SPDX-License-Identifier: MIT
--- Where a stored sweep ran: what its points are held against.

local canonical = require 'ridge.store.canonical'
local results = require 'ridge.store.results'
local roof = require 'ridge.measure.roof'

local M = {}

local OF_ATTEMPT = '/* where an attempt ran */ SELECT env_id FROM main.attempt WHERE id = ?'
local OF = [[/* where a trial ran */ SELECT a.env_id
  FROM main.trial t JOIN main.attempt a ON a.id = t.best_attempt WHERE t.id = ?]]
local HOST = [[/* an environment */ SELECT e.device_id, e.vars, d.kind, d.facts, m.l1d, m.l2, m.l3
  FROM main.env e JOIN main.machine m ON m.id = e.machine_id
  JOIN main.device d ON d.id = e.device_id WHERE e.id = ?]]

-- A device has one cache that all share, and ceilings of 0 threads.
local function machine_of(st, env)
  local row = env and st.db:row(HOST, env)
  if not row then return { ceilings = {}, threads = 1 } end
  local on_cpu = row.kind == 'cpu'
  local threads = on_cpu and canonical.decode(row.vars).threads or 0
  local list = {}
  for _, c in ipairs(st:ceilings(row.device_id)) do
    if c.threads == threads then list[#list + 1] = c end
  end
  local machine = on_cpu and { l1d = row.l1d, l2 = row.l2, l3 = row.l3, threads = threads }
    or { l2 = canonical.decode(row.facts).l2, threads = 1 }
  machine.ceilings = roof.by_name(list)
  return machine
end

--- Caches and ceilings of the newest point's device at its threads.
---@param st table store
---@param sweep table id
---@return table machine l1d, l2, l3 (bytes), threads, ceilings by name: what sweep.best takes
function M.machine(st, sweep)
  local newest = results.newest(st, sweep.id)
  return machine_of(st, newest and st.db:value(OF_ATTEMPT, newest))
end

--- The same of each point: one sweep may have been measured on several machines.
---@param st table store
---@return fun(trial: integer): table machine
function M.machines(st)
  local by_env = {}
  return function(trial)
    local env = st.db:value(OF, trial)
    if not env then return machine_of(st) end
    by_env[env] = by_env[env] or machine_of(st, env)
    return by_env[env]
  end
end

return M

-- SPDX-License-Identifier: MIT
--- Where a stored sweep ran: what its points are held against.

local canonical = require 'ridge.store.canonical'
local roof = require 'ridge.measure.roof'

local M = {}

local HOST = [[/* where a sweep ran */ SELECT e.device_id, e.vars, d.kind, d.facts, m.l1d, m.l2,
  m.l3
  FROM main.trial t JOIN main.attempt a ON a.id = t.best_attempt JOIN main.env e ON e.id = a.env_id
  JOIN main.machine m ON m.id = e.machine_id JOIN main.device d ON d.id = e.device_id
  WHERE t.sweep_id = ? ORDER BY a.id DESC LIMIT 1]]

--- Caches and ceilings of the newest point's device at its threads; a device has one cache that all
--- share, and ceilings of 0 threads.
---@param st table store
---@param sweep table id
---@return table machine l1d, l2, l3 (bytes), threads, ceilings by name: what sweep.best takes
function M.machine(st, sweep)
  local row = st.db:row(HOST, sweep.id)
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

return M

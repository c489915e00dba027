-- SPDX-License-Identifier: MIT
--- What makes machines alike: their hardware. Nodes of a cluster of one kind share a sweep.
--
-- A CPU and a GPU are devices of one machine: only machines by the same kind of device are unlike.

local M = {}

--- Columns that are the same on machines that are alike, as SQL over machine m and device d.
M.COLUMNS = [[m.cpu, m.sockets, m.cores, m.threads, m.isa, m.l1d, m.l2, m.l3, d.kind,
  CASE d.kind WHEN 'cpu' THEN '' ELSE d.name END]]

--- The tables that they stand in, from an environment e.
M.JOINS = [[JOIN main.machine m ON m.id = e.machine_id JOIN main.device d ON d.id = e.device_id]]

--- What is read of a machine for `key` and for words about it.
M.FACTS = [[m.id AS machine_id, m.cpu, m.sockets, m.cores, m.threads, m.isa, m.l1d, m.l2, m.l3,
  d.kind, d.name, 'm' || lower(substr(hex(m.fp), 1, 7)) AS machine]]

local KEY = { 'kind', 'cpu', 'sockets', 'cores', 'threads', 'isa', 'l1d', 'l2', 'l3' }

--- A text that is the same for machines that are alike, and for no others.
---@param row table with M.FACTS, or with those of a machine as ridge.store.machine takes them, kind
---  and name (of the device)
---@return string key
function M.key(row)
  local parts = {}
  for i, name in ipairs(KEY) do parts[i] = tostring(row[name]) end
  parts[#parts + 1] = row.kind == 'cpu' and '' or tostring(row.name)
  return table.concat(parts, '\0')
end

--- What a machine is called: its processor, or its GPU.
---@param row table kind, cpu, name
---@return string name
function M.name(row) return row.kind == 'cpu' and row.cpu or row.name end

--- Are these of unlike machines? Two by the same kind of device.
---@param list table each with kind, none like another
---@return boolean
function M.differ(list)
  local seen = {}
  for _, row in ipairs(list) do
    if seen[row.kind] then return true end
    seen[row.kind] = true
  end
  return false
end

return M

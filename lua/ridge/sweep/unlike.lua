-- SPDX-License-Identifier: MIT
--- Points of one sweep that were measured on unlike machines.
--
-- What is drawn or ranked together would show what machines differ by as if it were what points do.
-- It is refused unless asked for.
--
-- Machines are alike when their hardware is: nodes of a cluster of one kind share a sweep.

local blame = require 'ridge.blame'
local plain = require 'ridge.plain'

local M = {}

local HARDWARE = [[m.cpu, m.sockets, m.cores, m.threads, m.isa, m.l1d, m.l2, m.l3, d.kind,
  CASE d.kind WHEN 'cpu' THEN '' ELSE d.name END]]

-- Most files are of one machine, and no point of theirs is looked at.
local ANY = [[/* unlike machines */ SELECT max(n) FROM (SELECT count(*) AS n FROM (
    SELECT DISTINCT %s FROM main.env e JOIN main.machine m ON m.id = e.machine_id
    JOIN main.device d ON d.id = e.device_id) GROUP BY kind)]]

local OF = [[/* unlike machines of a sweep */ SELECT m.cpu, d.kind, d.name, m.threads,
    'm' || lower(substr(hex(min(m.fp)), 1, 7)) AS machine, count(DISTINCT m.id) AS machines,
    sum(o.n) AS points
  FROM (SELECT a.env_id, count(*) AS n FROM main.trial t
    JOIN main.attempt a ON a.id = t.best_attempt
    WHERE t.sweep_id IN (%s) AND t.role = 'point' GROUP BY a.env_id) o
  JOIN main.env e ON e.id = o.env_id JOIN main.machine m ON m.id = e.machine_id
  JOIN main.device d ON d.id = e.device_id GROUP BY %s ORDER BY points DESC, machine]]

--- Unlike machines that points of sweeps are of; none where they are alike. A CPU and a GPU are
--- devices of one.
---@param st table store
---@param sweeps table[] with id
---@return table list of cpu, kind, name (of the device), threads, machine (one of them), machines,
---  points; those with most points first
function M.kinds(st, sweeps)
  if (st.db:value(ANY:format(HARDWARE)) or 0) < 2 then return {} end
  local ids = {}
  for i, sweep in ipairs(sweeps) do ids[i] = ('%d'):format(sweep.id) end
  local rows = st.db:look(OF:format(table.concat(ids, ','), HARDWARE))
  local n, most = {}, 0
  for _, row in ipairs(rows) do
    n[row.kind] = (n[row.kind] or 0) + 1
    most = math.max(most, n[row.kind])
  end
  return most > 1 and rows or {}
end

local SHOWN = 3

--- They in words: 'Xeon, 2 threads (m1a2b3c4, 12 points) and Other CPU 7, 8 threads (...)'.
---@param kinds table of `kinds`
---@return string text
function M.text(kinds)
  local words = {}
  for i, k in ipairs(kinds) do
    if i > SHOWN then break end
    words[i] = ('%s, %s (%s%s, %s)'):format(plain.line(k.kind == 'cpu' and k.cpu or k.name),
      plain.count(k.threads or 1, 'thread'), k.machine,
      k.machines > 1 and (' and %d more'):format(k.machines - 1) or '',
      plain.count(k.points, 'point'))
  end
  if #kinds > SHOWN then words[#words + 1] = ('%d more'):format(#kinds - SHOWN) end
  local last = table.remove(words)
  return #words > 0 and table.concat(words, '; ') .. ' and ' .. last or last
end

--- Raise where points of sweeps are of unlike machines.
---@param st table store
---@param sweeps table[] with id, name
---@param who string what asks, for the message
---@param ask string how to ask for it all the same
function M.refuse(st, sweeps, who, ask)
  local kinds = M.kinds(st, sweeps)
  if #kinds == 0 then return end
  local names = {}
  for i, sweep in ipairs(sweeps) do names[i] = sweep.name end
  blame.raise(('%s: points of %s are of unlike machines: %s; %s'):format(who,
    table.concat(names, ', '), M.text(kinds), ask), 'EARG', who)
end

--- Columns that say on which machine: who names one keeps them apart, or asks for one.
M.COLUMNS = { machine = true, cpu = true, host = true }

--- Does a text name one of them?
---@param text any
---@return boolean
function M.named(text)
  for word in (type(text) == 'string' and text or ''):gmatch '[%a_][%w_]*' do
    if M.COLUMNS[word] then return true end
  end
  return false
end

return M

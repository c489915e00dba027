-- SPDX-License-Identifier: MIT
--- `ridge sweeps`: what sweeps a database has, and how far each is.

local stored = require 'ridge.cli.stored'

local M = {}

M.summary = 'the sweeps of a database, how far each is'
M.usage = 'ridge sweeps [--db FILE] [--as table|csv|json|jsonl|md]'

local SPEC = {
  about = [[
One line a sweep, the newest first: points done of all, those that failed by cause, grades, when
something last happened.

    ridge sweeps --db results/ridge.db]],
  stored.AS,
  stored.DB,
}

local DONE = { ok = true, infeasible = true, implied = true }

local function counted(rows, order)
  local parts = {}
  for _, name in ipairs(order) do
    if rows[name] and rows[name] > 0 then parts[#parts + 1] = ('%d %s'):format(rows[name], name) end
  end
  return table.concat(parts, ', ')
end

local function by_key(st, sql, id)
  local out = {}
  for _, row in ipairs(st.db:query(sql, id)) do out[row.k] = row.n end
  return out
end

local STATES = [[/* states */ SELECT state AS k, count(*) AS n FROM trial
  WHERE sweep_id = ? AND role = 'point' GROUP BY 1]]
local GRADES = [[/* grades */ SELECT a.grade AS k, count(*) AS n FROM trial t
  JOIN attempt a ON a.id = t.best_attempt
  WHERE t.sweep_id = ? AND t.role = 'point' AND a.grade IS NOT NULL GROUP BY 1]]
local LAST = [[/* last activity */ SELECT max(coalesce(a.ended, a.began)) FROM attempt a
  JOIN trial t ON t.id = a.trial_id WHERE t.sweep_id = ?]]

--- The sweeps of an open database, as rows.
---@param st table
---@return table found titles, lines
function M.list(st)
  local found = { titles = { 'sweep', 'done', 'points', 'running', 'failed', 'grades', 'last' },
    lines = {} }
  for i, sweep in ipairs(st.db:query '/* sweeps */ SELECT id, name FROM sweep ORDER BY id DESC') do
    local states, all, done = by_key(st, STATES, sweep.id), 0, 0
    for state, n in pairs(states) do
      all = all + n
      if DONE[state] then done = done + n end
    end
    local last = st.db:value(LAST, sweep.id)
    found.lines[i] = { sweep.name, done, all, states.running or 0,
      counted(states, { 'oom', 'timeout', 'error', 'crashed', 'cancelled' }),
      counted(by_key(st, GRADES, sweep.id), { 'A', 'B', 'C', 'D' }),
      last and os.date('%Y-%m-%d %H:%M', last / 1e6) or nil }
  end
  return found
end

--- Print the list.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('sweeps', SPEC, argv, 'read', function(opt, _, st)
    local found = M.list(st)
    stored.show(found, opt)
    if #found.lines == 0 then io.stderr:write('no sweeps in ', st.path, '\n') end
  end)
end

return M

-- SPDX-License-Identifier: MIT
-- Measured rows as plain Lua tables: parameters, timings and metrics flattened side by side.
--
-- A phase `fwd` gives fwd (median, ns), fwd_lo and fwd_hi (its interval), fwd_min, fwd_p25,
-- fwd_p75, fwd_p95, fwd_p99, fwd_max, fwd_mean, fwd_sd, fwd_mad, fwd_n, fwd_grade, fwd_flags and
-- fwd_first (call number one), fwd_cold (with fwd_cold_lo and _hi) where both cache modes were
-- timed. The same names are the columns of the sweep's wide view.

local canonical = require 'ridge.store.canonical'
local record = require 'ridge.store.record'
local schema = require 'ridge.store.schema'

local M = {}

local TRIALS = [[/* rows of a sweep */
  SELECT t.id AS trial, t.role, t.rep, t.state, t.tries, c.params, a.id AS attempt, a.grade,
    a.flags, a.message AS reason, a.began, t.reused, t.implied_by
  FROM main.trial t JOIN main.config c ON c.id = t.config_id
  LEFT JOIN main.attempt a ON a.id = t.best_attempt
  WHERE t.sweep_id = ? AND t.role = ? ORDER BY t.ord]]
local TIMINGS = [[/* timings of a sweep */
  SELECT g.* FROM main.timing g JOIN main.trial t ON t.best_attempt = g.attempt_id
  WHERE t.sweep_id = ? AND t.role = ? ORDER BY g.id]]
local METRICS = [[/* metrics of a sweep */
  SELECT m.* FROM main.metric m JOIN main.trial t ON t.best_attempt = m.attempt_id
  WHERE t.sweep_id = ? AND t.role = ?]]

local NAN = 0 / 0

-- ask: how the database is asked, `query` or `look`
local function read(db, ask, sweep_id, role)
  local by_attempt = {}
  local rows = ask(db, TRIALS, sweep_id, role)
  for _, row in ipairs(rows) do
    if row.attempt then by_attempt[row.attempt] = row end
    for name, value in pairs(canonical.decode(row.params)) do row[name] = value end
    row.params, row.attempt = nil, nil
  end
  for _, g in ipairs(ask(db, TIMINGS, sweep_id, role)) do
    local row = by_attempt[g.attempt_id]
    if g.cache == 'first' then
      row[g.phase .. '_first'] = g.med
    elseif row[g.phase] == nil then
      for _, pair in ipairs(schema.PHASE_COLUMNS) do row[g.phase .. pair[1]] = g[pair[2]] end
    elseif g.cache == 'cold' then
      for _, pair in ipairs(schema.COLD_COLUMNS) do row[g.phase .. pair[1]] = g[pair[2]] end
    end
  end
  for _, m in ipairs(ask(db, METRICS, sweep_id, role)) do
    by_attempt[m.attempt_id][m.name] = m.how == 'nan' and NAN or m.value
  end
  return rows
end

--- All trials of a sweep, measured or not, for somebody who waits: Ctrl-C ends it.
-- >> local rows = results.rows(st, sweep.id)
---@param st table
---@param sweep_id integer
---@param role string|nil 'point' (default) or 'anchor'
---@return table rows parameters, phases and metrics by name; trial, state, grade, flags, reason,
---  tries, role, rep, began, reused (1: measured for another sweep), implied_by (a trial)
function M.rows(st, sweep_id, role)
  return st.db:snapshot(function() return read(st.db, st.db.look, sweep_id, role or 'point') end)
end

--- The same to the end, as a run needs them that was asked to stop.
---@param st table
---@param sweep_id integer
---@param role string|nil 'point' (default) or 'anchor'
---@return table rows
function M.rows_of_run(st, sweep_id, role)
  return st.db:snapshot(function() return read(st.db, st.db.query, sweep_id, role or 'point') end)
end

--- How each name of a sweep's rows is to be read.
---@param st table
---@param sweep_id integer
---@return table better metric name to -1 (less is better), 1 or 0
function M.directions(st, sweep_id)
  local out = {}
  for _, row in ipairs(st.db:look([[/* directions */ SELECT DISTINCT m.name, m.better
      FROM main.metric m JOIN main.trial t ON t.best_attempt = m.attempt_id
      WHERE t.sweep_id = ? AND m.better IS NOT NULL]], sweep_id)) do
    out[row.name] = row.better
  end
  for _, row in ipairs(st.db:look([[/* phases */ SELECT DISTINCT g.phase FROM main.timing g
      JOIN main.trial t ON t.best_attempt = g.attempt_id WHERE t.sweep_id = ?]], sweep_id)) do
    for _, pair in ipairs(schema.PHASE_COLUMNS) do out[row.phase .. pair[1]] = -1 end
    out[row.phase .. '_first'], out[row.phase .. '_cold'] = -1, -1
  end
  return out
end

--- Names of the parameters of a sweep, sorted.
---@param st table
---@param sweep_id integer
---@return table names
function M.params(st, sweep_id)
  local out = {}
  for i, row in ipairs(st.db:look([[/* params */ SELECT DISTINCT p.name FROM main.trial t
      JOIN main.param p ON p.config_id = t.config_id WHERE t.sweep_id = ? ORDER BY 1]],
      sweep_id)) do
    out[i] = row.name
  end
  return out
end

--- The curves of a sweep's points, a row for each step.
---@param st table
---@param sweep_id integer
---@param name string
---@return table rows trial, step, seconds, value
function M.curves(st, sweep_id, name)
  return st.db:look([[/* curves */ SELECT t.id AS trial, c.step, c.t_ns / 1e9 AS seconds, c.value
    FROM main.curve c JOIN main.trial t ON t.best_attempt = c.attempt_id
    WHERE t.sweep_id = ? AND c.name = ? ORDER BY t.ord, c.step]], sweep_id, name)
end

--- The raw samples of a phase of one trial, and the calls of its warm-up.
---@param st table
---@param trial integer
---@param phase string
---@return table|nil samples { dur = ns a call, at = ns since t0, mark =, t0 =, inner =,
---  warm_calls = }
function M.samples(st, trial, phase)
  local row = st.db:row([[/* samples */ SELECT s.dur, s.at, s.mark, s.t0, g.inner, g.warm_calls
    FROM main.samples s JOIN main.timing g ON g.id = s.timing_id
    JOIN main.trial t ON t.best_attempt = g.attempt_id
    WHERE t.id = ? AND g.phase = ? AND g.cache <> 'first']], trial, phase)
  if not row then return nil end
  return { t0 = row.t0, inner = row.inner, warm_calls = row.warm_calls,
    dur = record.unpack('dur', row.dur), at = row.at and record.unpack('at', row.at),
    mark = row.mark and record.unpack('mark', row.mark) }
end

return M

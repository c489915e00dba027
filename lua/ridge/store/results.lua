-- SPDX-License-Identifier: MIT
-- Measured rows as plain Lua tables: parameters, timings and metrics flattened side by side.
--
-- A phase `fwd` gives fwd (median, ns), fwd_lo and fwd_hi (its interval), fwd_min, fwd_p25,
-- fwd_p75, fwd_p95, fwd_p99, fwd_max, fwd_mean, fwd_sd, fwd_mad, fwd_n, fwd_grade, fwd_flags and
-- fwd_first (call number one), fwd_cold (with fwd_cold_lo and _hi) where both cache modes were
-- timed. The same names are the columns of the sweep's wide view; rows also have fwd_by_pass, the
-- median of each pass as text, and pass_began, when each was taken.

local canonical = require 'ridge.store.canonical'
local pack = require 'ridge.store.pack'
local record = require 'ridge.store.record'
local schema = require 'ridge.store.schema'

local M = {}

local TRIALS = [[/* rows of a sweep */
  SELECT t.id AS trial, t.role, t.rep, ]] .. schema.STATE .. [[ AS state, t.tries, c.params,
    a.id AS attempt, a.grade, a.flags, a.message AS reason, a.began, t.reused, t.implied_by,
    t.passes, ]] .. schema.PARTNER .. [[ AS partner
  FROM main.trial t JOIN main.config c ON c.id = t.config_id
  LEFT JOIN main.attempt a ON a.id = t.best_attempt
  WHERE t.sweep_id = ? AND t.role = ? ORDER BY t.ord]]
local TIMINGS = [[/* timings of a sweep */
  SELECT g.* FROM main.timing g JOIN main.trial t ON t.best_attempt = g.attempt_id
  WHERE t.sweep_id = ? AND t.role = ? ORDER BY g.id]]
-- What a model predicts has no say in anything that is decided: `ridge query` shows it.
local METRICS = [[/* metrics of a sweep */
  SELECT m.* FROM main.metric m JOIN main.trial t ON t.best_attempt = m.attempt_id
  WHERE t.sweep_id = ? AND t.role = ? AND m.how IS NOT 'model']]

local MEDIANS = [[/* medians of passes */ SELECT a.id AS attempt, p.pass, p.began, g.phase,
  g.pass_med AS med
  FROM main.trial t JOIN main.attempt a ON a.id = t.best_attempt
  JOIN main.attempt p ON p.series = a.series AND p.outcome = 'ok'
  JOIN main.timing g ON g.attempt_id = p.id AND g.pass_med IS NOT NULL AND g.cache <> 'first'
  WHERE t.sweep_id = ? AND t.role = ? ORDER BY g.cache = 'warm', p.pass]]

local NAN = 0 / 0

-- The median of each pass as text, '12.5 13.1 12.4': what pairs of points are compared by. A pass
-- that is not there is '-'; of cold and warm caches the warm ones.
local function add_medians(db, ask, by_attempt, sweep_id, role)
  local lists = {}
  for _, m in ipairs(ask(db, MEDIANS, sweep_id, role)) do
    local key = m.attempt .. ' ' .. m.phase
    lists[key] = lists[key] or { row = by_attempt[m.attempt], name = m.phase .. '_by_pass', n = 0 }
    lists[key][m.pass], lists[key].n = m.med, math.max(lists[key].n, m.pass)
    local when = m.attempt .. ' '
    lists[when] = lists[when] or { row = by_attempt[m.attempt], name = 'pass_began', n = 0 }
    lists[when][m.pass], lists[when].n = m.began, math.max(lists[when].n, m.pass)
  end
  for _, list in pairs(lists) do
    local form = list.name == 'pass_began' and '%.16g' or '%.9g'
    for i = 1, list.n do list[i] = list[i] and form:format(list[i]) or '-' end
    list.row[list.name] = table.concat(list, ' ')
  end
end

-- A column of a timing as it is read: no end of a time's interval lies below zero.
local function seen(g, column)
  local v = g[column]
  return schema.ENDS[column] and v and math.max(v, 0) or v
end

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
      for _, pair in ipairs(schema.PHASE_COLUMNS) do row[g.phase .. pair[1]] = seen(g, pair[2]) end
    elseif g.cache == 'cold' then
      for _, pair in ipairs(schema.COLD_COLUMNS) do row[g.phase .. pair[1]] = seen(g, pair[2]) end
    end
  end
  add_medians(db, ask, by_attempt, sweep_id, role)
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
---  tries, role, rep, began, reused (1: measured for another sweep), implied_by (a trial), passes,
---  partner (the trial that was timed beside it)
function M.rows(st, sweep_id, role)
  return st.db:snapshot(function() return read(st.db, st.db.look, sweep_id, role or 'point') end)
end

--- Where and when each trial of a sweep was measured.
---@param st table
---@param sweep_id integer
---@return table origins by the number of the trial: machine, cpu, commit, host, date, sweep
function M.origins(st, sweep_id)
  local out = {}
  for _, row in ipairs(st.db:look(schema.ORIGINS, sweep_id)) do out[row.trial] = row end
  return out
end

--- Rows to the end, as a run needs them that was asked to stop.
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
---@return table better metric name to -1 (less is better), 1 or 0 (nobody said)
function M.directions(st, sweep_id)
  local out, head = {}, pack.head(st, sweep_id)
  if head then return head.directions end
  for _, row in ipairs(st.db:look([[/* directions */ SELECT m.name, max(m.better) AS better
      FROM main.metric m JOIN main.trial t ON t.best_attempt = m.attempt_id
      WHERE t.sweep_id = ? AND m.how IS NOT 'model' GROUP BY m.name]], sweep_id)) do
    out[row.name] = row.better or 0
  end
  for _, row in ipairs(st.db:look([[/* phases */ SELECT DISTINCT g.phase FROM main.timing g
      JOIN main.trial t ON t.best_attempt = g.attempt_id WHERE t.sweep_id = ?]], sweep_id)) do
    for _, pair in ipairs(schema.PHASE_COLUMNS) do out[row.phase .. pair[1]] = -1 end
    out[row.phase .. '_first'], out[row.phase .. '_cold'] = -1, -1
  end
  return out
end

--- Is a metric of a sweep a prediction?
---@param st table
---@param sweep_id integer
---@param name string
---@return boolean
function M.is_predicted(st, sweep_id, name)
  return st.db:value([[/* predicted */ SELECT count(*) FROM main.metric m
    JOIN main.trial t ON t.best_attempt = m.attempt_id
    WHERE t.sweep_id = ? AND m.name = ? AND m.how = 'model']], sweep_id, name) > 0
end

--- The attempt that was made last of those that are the best of their points.
---@param st table
---@param sweep_id integer
---@return integer|nil id
function M.newest(st, sweep_id)
  local head = pack.head(st, sweep_id)
  if head then return head.newest end
  return st.db:value([[/* newest point */ SELECT max(a.id) FROM main.trial t
    JOIN main.attempt a ON a.id = t.best_attempt WHERE t.sweep_id = ? AND a.env_id IS NOT NULL]],
    sweep_id)
end

--- What is looked at of a sweep when nobody says: the first phase that was timed, else the first
--- metric.
---@param st table
---@param sweep_id integer
---@return string name
function M.first(st, sweep_id)
  local head = pack.head(st, sweep_id)
  if head then return head.first end
  return st.db:value([[/* first phase */ SELECT g.phase FROM main.timing g
      JOIN main.trial t ON t.best_attempt = g.attempt_id WHERE t.sweep_id = ? ORDER BY g.id LIMIT 1
    ]], sweep_id) or st.db:value([[/* first metric */ SELECT m.name FROM main.metric m
      JOIN main.trial t ON t.best_attempt = m.attempt_id
      WHERE t.sweep_id = ? AND m.how IS NOT 'model' ORDER BY m.name LIMIT 1
    ]], sweep_id) or 'fwd'
end

--- Names of the parameters of a sweep, sorted.
---@param st table
---@param sweep_id integer
---@return table names
function M.params(st, sweep_id)
  local out, head = {}, pack.head(st, sweep_id)
  if head then return head.names.params end
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

local function series_of(st, trial)
  return st.db:value([[/* series of a trial */ SELECT a.series FROM main.trial t
    JOIN main.attempt a ON a.id = t.best_attempt WHERE t.id = ?]], trial)
end

--- The passes behind the result of a trial, in their order; none of one that protocol 1 measured.
---@param st table
---@param trial integer
---@return table passes as of ridge.store.record.passes
function M.passes(st, trial)
  local series = series_of(st, trial)
  return series and record.passes(st.db, series) or {}
end

-- Samples of several passes as one series; each begins at its own t0.
local function join(list)
  local out = { dur = {}, at = {}, mark = {}, t0 = list[1].t0, inner = list[1].inner,
    warm_calls = list[1].warm_calls, passes = #list > 1 and {} or nil }
  for k, s in ipairs(list) do
    for i, ns in ipairs(s.dur) do
      local n = #out.dur + 1
      out.dur[n], out.mark[n] = ns, s.mark and s.mark[i] or 0
      out.at[n] = s.at and (s.t0 or 0) - (out.t0 or 0) + s.at[i] or nil
      if out.passes then out.passes[n] = k end
    end
  end
  return out
end

--- The raw samples of a phase of one trial, of all its passes, and the calls of a warm-up.
---@param st table
---@param trial integer
---@param phase string
---@param cache string|nil 'warm' or 'cold'; the warm ones, where there are, when left out
---@return table|nil samples { dur = ns a call, at = ns since t0, mark =, t0 =, inner =,
---  warm_calls =, passes = which pass each is of, where there are several }
function M.samples(st, trial, phase, cache)
  local list = {}
  for _, pass in ipairs(M.passes(st, trial)) do
    local own = pass.timings[record.key(phase, cache)]
      or not cache and pass.timings[record.key(phase, 'cold')]
    if own and #own.dur > 0 then list[#list + 1] = own end
  end
  if #list > 0 then return join(list) end
  local row = st.db:row([[/* samples */ SELECT s.dur, s.at, s.mark, s.t0, g.inner, g.warm_calls
    FROM main.samples s JOIN main.timing g ON g.id = s.timing_id
    JOIN main.trial t ON t.best_attempt = g.attempt_id
    WHERE t.id = ?1 AND g.phase = ?2 AND g.cache <> 'first' AND (?3 IS NULL OR g.cache = ?3)
    ORDER BY g.cache = 'cold']], trial, phase, cache)
  if not row then return nil end
  return { t0 = row.t0, inner = row.inner, warm_calls = row.warm_calls,
    dur = record.unpack('dur', row.dur), at = row.at and record.unpack('at', row.at),
    mark = row.mark and record.unpack('mark', row.mark) }
end

return M

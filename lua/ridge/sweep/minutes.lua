-- SPDX-License-Identifier: MIT
--- What the minutes of this machine differ by, as far as its database has seen it.
--
-- Every timing keeps the clock that the processor ran at. Between sweeps of this machine and
-- environment that clock is what their minutes differed by, for all that a cache or arithmetic
-- decides. A few short sweeps within a quarter of an hour are too few to say it
-- (ridge.measure.minutes).

local minutes = require 'ridge.measure.minutes'
local place = require 'ridge.store.place'
local statistics = require 'ridge.measure.statistics'
local store = require 'ridge.store'

local M = {}

-- The newest sweeps, and timings of each: enough to know their clock, few enough to ask for before
-- every pass of a file with a million points.
local SWEEPS, TIMINGS = 24, 48

local NEWEST = [[/* newest sweeps */ SELECT id FROM main.sweep WHERE id <> ?1
  ORDER BY created DESC, id DESC LIMIT ?2]]

-- Of the same environment: the build may be another one, which no clock knows of.
local CLOCKS = [[/* clocks of a sweep */ SELECT a.began, g.clock_hz AS hz
  FROM (SELECT best_attempt FROM main.trial WHERE sweep_id = ?1 AND best_attempt IS NOT NULL
    LIMIT ?3) t JOIN main.attempt a ON a.id = t.best_attempt JOIN main.env e ON e.id = a.env_id
  JOIN main.env h ON h.id = ?2 JOIN main.timing g ON g.attempt_id = a.id
  WHERE g.clock_hz > 0 AND g.pass_med IS NOT NULL AND e.machine_id = h.machine_id
    AND e.device_id = h.device_id AND e.governor IS h.governor AND e.turbo IS h.turbo
    AND e.smt IS h.smt AND e.cpuset IS h.cpuset AND e.cpu_quota IS h.cpu_quota
    AND CASE WHEN json_valid(e.vars) THEN json_extract(e.vars, '$.threads') END
      IS CASE WHEN json_valid(h.vars) THEN json_extract(h.vars, '$.threads') END]]

-- The clock in a sweep: when, and its readings. Where all are one number nobody measured it.
local function clock_of(db, id, env_id)
  local times, logs, is_measured = {}, {}, false
  for i, row in ipairs(db:query(CLOCKS, id, env_id, TIMINGS)) do
    times[i], logs[i] = row.began / 1e6, math.log(row.hz)
    is_measured = is_measured or logs[i] ~= logs[1]
  end
  if #logs == 0 then return nil end
  return { at = statistics.median(times), logs = logs }, is_measured
end

--- The clock of this machine in the sweeps that are stored here.
---@param st table store
---@param env_id integer where a sweep is measured now
---@param sweep_id integer that sweep, which does not count
---@return table[]|nil clocks groups of ridge.measure.minutes.spread; nil where nobody measured it
function M.clocks(st, env_id, sweep_id)
  local out, is_measured = {}, false
  for _, sweep in ipairs(st.db:query(NEWEST, sweep_id, SWEEPS)) do
    local group, varies = clock_of(st.db, sweep.id, env_id)
    out[#out + 1] = group
    is_measured = is_measured or varies or #out > 1 and out[#out].logs[1] ~= out[1].logs[1]
  end
  return is_measured and out or nil
end

--- What the minutes of this machine differ by, from the best that is known here.
---@param st table store
---@param env_id integer
---@param sweep_id integer the sweep that is measured
---@param calibration table|nil of measure.calibration
---@return table source of ridge.measure.minutes
function M.source(st, env_id, sweep_id, calibration)
  return minutes.source(calibration, M.clocks(st, env_id, sweep_id))
end

local ENV = [[/* newest environment */ SELECT e.id FROM main.env e
  WHERE e.machine_id = ?1 AND e.device_id = ?2
    AND CASE WHEN json_valid(e.vars) THEN json_extract(e.vars, '$.threads') END = ?3
  ORDER BY e.id DESC LIMIT 1]]

--- The same for what is no sweep, as ranks that are started: by the environment of this machine
--- that was measured last at the threads in use.
---@param path string database file, which need not exist
---@param lab table|nil ridge.sweep.lab
---@return table source of ridge.measure.minutes
function M.here(path, lab)
  if not place.exists(path) then return minutes.source() end
  lab = lab or require('ridge.sweep.device').lab()
  local st = store.open(path, 'read')
  local ok, result = pcall(function()
    local facts, threads = lab.facts(), lab.threads()
    local device = st:find_device(facts.machine, facts.device)
    if not device then return minutes.source() end
    local rows = {}
    for _, row in ipairs(st:ceilings(device)) do
      if row.threads == threads then rows[#rows + 1] = row end
    end
    local env = st.db:value(ENV, st:find_machine(facts.machine), device, threads)
    return minutes.source(require('ridge.measure').calibration(rows, threads),
      env and M.clocks(st, env, 0))
  end)
  st:close()
  if not ok then error(result, 0) end
  return result
end

return M

-- SPDX-License-Identifier: MIT
--- Which points stand next to each other in a pass, and which have one more pass than all others.
--
-- Points that agree in all their numbers and differ in words only (a type, an implementation) are
-- what will be compared: they are neighbours in every pass. When every point has its passes, those
-- whose interval still decides something have more, until precision, the most passes or the budget:
-- a point whose ratio to its partner may be on either side of 1, neighbours that cannot be told
-- apart, and what may be the best.

local canonical = require 'ridge.store.canonical'
local minutes = require 'ridge.measure.minutes'
local passes = require 'ridge.measure.passes'
local pairing = require 'ridge.sweep.pairing'
local results = require 'ridge.store.results'

local M = {}

-- Beyond so many contenders the best is a matter of taste.
local CONTENDERS = 8

--- What a point has in common with those it will be compared with.
---@param params table
---@return string group
function M.group_of(params)
  local numbers = {}
  for name, value in pairs(params) do
    if type(value) == 'number' then numbers[name] = value end
  end
  return canonical.encode(numbers)
end

local PHASES = [[/* phases timed */ SELECT DISTINCT g.phase AS name FROM main.timing g
  JOIN main.trial t ON t.best_attempt = g.attempt_id
  WHERE t.sweep_id = ? AND g.cache <> 'first' ORDER BY 1]]

-- Points of one sweep met the same minutes, and more passes tell nothing of others.
local function wide(row, phase, precision)
  local med, lo, hi = row[phase], minutes.ends(row, phase)
  return med and lo and (hi - lo) / (2 * med) > precision
end

-- Does an interval of a ratio hold 1, and is it wider than what is asked for?
local function is_open(med, lo, hi, precision)
  return lo and lo <= 1 and hi >= 1 and (hi - lo) / (2 * med) > precision
end

local function near_border(rows, phase, precision, found)
  for _, row in ipairs(rows) do
    local lo, hi = row[phase .. '_ratio_lo'], row[phase .. '_ratio_hi']
    if is_open(row[phase .. '_ratio'], lo, hi, precision) then found[row.trial] = true end
  end
end

local function neighbours(rows, params, phase, precision, found)
  local groups = {}
  for _, row in ipairs(rows) do
    local own = {}
    for _, name in ipairs(params) do own[name] = row[name] end
    local key = M.group_of(own)
    groups[key] = groups[key] or {}
    table.insert(groups[key], row)
  end
  for _, group in pairs(groups) do
    for i = 1, #group do
      for k = i + 1, math.min(#group, i + CONTENDERS) do
        local ratio = pairing.ratio(group[i], group[k], phase)
        if ratio and is_open(ratio.med, ratio.lo, ratio.hi, precision) then
          found[group[i].trial], found[group[k].trial] = true, true
        end
      end
    end
  end
end

-- The highest rate, where costs are known; times of points that do different work say nothing.
local function contenders(rows, phase, precision, found)
  local best
  for _, row in ipairs(rows) do
    local rate = row[phase .. '_gflops']
    if rate and (not best or rate > best[phase .. '_gflops']) then best = row end
  end
  local _, most = minutes.ends(best or {}, phase)
  if not most then return end
  local list = {}
  local least = best[phase .. '_gflops'] * best[phase] / most
  for _, row in ipairs(rows) do
    local rate, lo = row[phase .. '_gflops'], minutes.ends(row, phase)
    if rate and lo and rate * row[phase] / lo >= least and wide(row, phase, precision) then
      list[#list + 1] = row
    end
  end
  if #list > 1 and #list <= CONTENDERS then
    for _, row in ipairs(list) do found[row.trial] = true end
  end
end

local HERE = [[/* points of an environment */ SELECT t.id AS trial FROM main.trial t
  JOIN main.attempt a ON a.id = t.best_attempt WHERE t.sweep_id = ? AND a.env_id = ?]]

-- Which points were measured where this run measures: a pass here would be joined to theirs.
local function here(run)
  if not run.env_id then return nil end
  local set = {}
  for _, row in ipairs(run.store.db:query(HERE, run.sweep.id, run.env_id)) do
    set[row.trial] = true
  end
  return set
end

--- The points that are to have one more pass now; those of another environment are not.
---@param run table  store, sweep, spec (protocol), shard, env_id
---@return integer[] trials
function M.points(run)
  local protocol, st, id = run.spec.protocol, run.store, run.sweep.id
  if protocol.passes < passes.LEAST or protocol.max_passes <= protocol.passes then return {} end
  local rows, own = {}, here(run)
  for _, row in ipairs(results.rows(st, id)) do
    if (not own or own[row.trial]) and row.state == 'ok' and row.grade ~= 'D' and row.reused == 0
      and row.passes < protocol.max_passes then
      rows[#rows + 1] = row
    end
  end
  if #rows == 0 then return {} end
  local found, params = {}, results.params(st, id)
  for _, phase in ipairs(st.db:query(PHASES, id)) do
    local name = phase.name
    near_border(rows, name, protocol.precision, found)
    neighbours(rows, params, name, protocol.precision, found)
    contenders(rows, name, protocol.precision, found)
  end
  local list = {}
  for _, row in ipairs(rows) do if found[row.trial] then list[#list + 1] = row.trial end end
  return list
end

return M

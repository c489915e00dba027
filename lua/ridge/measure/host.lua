-- SPDX-License-Identifier: MIT
--- What happened on the host between two readings of its counters.

local M = {}

-- /proc/stat counts in steps of 10 ms on each processor: with less than 50 steps a share of a few
-- per cent is only the grain of the counter
local GRAIN_NS = 1e7
local MIN_STEPS = 50

local NAN = 0 / 0

--- Shares of the time between two readings.
---@param before table  counters as rg_host_counters names them
---@param after table
---@return table delta  foreign, steal (of the processors' time), pressure (of the time), throttled
---  (periods), wall_ns; NaN where the machine does not report it, or the time was too short to tell
function M.delta(before, after)
  local wall = after.at_ns - before.at_ns
  local capacity = wall * after.n_cpus
  local delta = {
    wall_ns = wall,
    pressure = (after.pressure_ns - before.pressure_ns) / wall,
    throttled = after.n_throttled - before.n_throttled,
    foreign = NAN, steal = NAN,
  }
  if capacity >= MIN_STEPS * GRAIN_NS then
    local busy, own = after.busy_ns - before.busy_ns, after.own_ns - before.own_ns
    delta.foreign = math.max(0, busy - own) / capacity
    delta.steal = (after.steal_ns - before.steal_ns) / capacity
    -- NaN compares false, and max(0, NaN) would be a clean-looking 0
    if busy ~= busy then delta.foreign = NAN end
  end
  return delta
end

local COUNTERS = { 'at_ns', 'busy_ns', 'own_ns', 'steal_ns', 'pressure_ns', 'n_throttled' }

--- How far the counters went on between two readings, as a reading of its own that began at 0.
---@param before table
---@param after table
---@return table step
function M.step(before, after)
  local step = { n_cpus = after.n_cpus }
  for _, name in ipairs(COUNTERS) do step[name] = after[name] - before[name] end
  return step
end

--- Shares of the time over several steps, taken by one process or by several in turn: each counts
--- only itself as own.
---@param steps table[]  from step
---@return table delta   as of delta
function M.over(steps)
  local zero, sum = {}, { n_cpus = steps[1].n_cpus }
  for _, name in ipairs(COUNTERS) do
    zero[name], sum[name] = 0, 0
    for _, step in ipairs(steps) do sum[name] = sum[name] + step[name] end
  end
  return M.delta(zero, sum)
end

--- The signals that a delta lacks.
---@param delta table
---@return string[] names
function M.hidden(delta)
  local names = {}
  for _, name in ipairs{ 'foreign', 'pressure', 'steal', 'throttled' } do
    if delta[name] ~= delta[name] then names[#names + 1] = name end
  end
  return names
end

--- Is the machine quiet enough to begin?  Hidden signals do not hold anything up.
---@param delta table
---@param n_cpus number  processors counted
---@return boolean
function M.is_quiet(delta, n_cpus)
  return not (delta.foreign * n_cpus > 0.25 or delta.pressure > 0.02 or delta.steal > 0.005)
end

return M

-- SPDX-License-Identifier: MIT
--- Which part of a sweep one run does: for how long, and which shard of it.

local blame = require 'ridge.blame'

local M = {}

local UNIT = { s = 1, m = 60, h = 3600, d = 86400 }

--- Seconds of a duration.
-- >> part.seconds '1h30m'
---@param given number|string|nil seconds, or text like '90s', '15m', '2h', '1h30m'
---@param what string|nil the option it is of, for errors: 'budget'
---@return number|nil seconds
function M.seconds(given, what)
  if given == nil then return nil end
  local total = tonumber(given)
  if not total then
    total = 0
    local rest = tostring(given):gsub('([%d.]+)%s*([smhd])%s*', function(n, unit)
      total = total + (tonumber(n) or 0 / 0) * UNIT[unit]
      return ''
    end)
    if rest ~= '' or given == '' then total = 0 / 0 end
  end
  if not (total > 0 and total < math.huge) then
    what = what or 'budget'
    blame.raise(("%s: '%s' is no duration; expected seconds, '90s', '15m', '2h' or '1h30m'")
      :format(what, tostring(given)), 'EARG', what)
  end
  return total
end

-- An array job of a scheduler. Consecutive numbers have another remainder for each task; others are
-- counted from the first, by their step. Where no step fits, two tasks could do the same part and
-- nobody another: that is refused.
local function of_scheduler()
  local id = tonumber(os.getenv 'SLURM_ARRAY_TASK_ID')
  local n = tonumber(os.getenv 'SLURM_ARRAY_TASK_COUNT')
  local first = tonumber(os.getenv 'SLURM_ARRAY_TASK_MIN')
  local last = tonumber(os.getenv 'SLURM_ARRAY_TASK_MAX')
  if not (id and n and n >= 1) then return nil end
  if not (first and last) or last - first == n - 1 then return { i = id % n, n = n } end
  local i = (id - first) * (n - 1) / (last - first)
  if i ~= math.floor(i) then
    blame.raise(('the tasks %d to %d of this array job are %d in uneven steps, so %d says nothing '
      .. 'of its part; give --shard i/n'):format(first, last, n, id), 'EARG', 'shard')
  end
  return { i = i, n = n }
end

--- The shard that a run does: as it is told, else the task of an array job of Slurm.
-- >> part.shard '2/8'
---@param given string|nil 'i/n', i from 1
---@return table|nil shard i (from 0) and n; nil: everything
function M.shard(given)
  if given == nil then return of_scheduler() end
  local i, n = given:match '^(%d+)/(%d+)$'
  i, n = tonumber(i), tonumber(n)
  if not i or i < 1 or i > n or n > 1e6 then
    blame.raise(("shard: '%s' is not like 2/8, the second of eight"):format(given), 'EARG', 'shard')
  end
  return { i = i - 1, n = n }
end

return M

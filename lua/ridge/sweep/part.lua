-- SPDX-License-Identifier: MIT
--- Which part of a sweep one run does: for how long, and which shard of it.

local blame = require 'ridge.blame'
local scheduler = require 'ridge.sweep.scheduler'

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

--- The shard that a run does: as it is told, else the task of an array job of Slurm, Kubernetes,
--- PBS or Grid Engine. 'auto' is that task, or an error; 'auto/64' says how many tasks there are.
-- >> part.shard '2/8'
---@param given string|nil 'i/n', i from 1; 'auto', 'auto/n'
---@return table|nil shard i (from 0) and n; nil: everything
function M.shard(given)
  local of = (given or ''):match '^auto/(%d+)$'
  local auto = given == 'auto' or of ~= nil
  local i, n = (given or ''):match '^(%d+)/(%d+)$'
  i, n = tonumber(i), tonumber(n or of)
  if given and not auto and not (i and i >= 1 and i <= n) or n and (n < 1 or n > 1e6) then
    blame.raise(("shard: '%s' is not like 2/8, the second of eight, or auto/8, the task of an "
      .. 'array job'):format(given), 'EARG', 'shard')
  end
  if i then return { i = i - 1, n = n } end
  local task = scheduler.task()
  if task then return scheduler.shard(task, n) end
  if auto then
    blame.raise(('shard: %s: this is no task of an array job, none of %s is set'):format(given,
      table.concat(scheduler.names(), ', ')), 'EARG', 'shard')
  end
end

return M

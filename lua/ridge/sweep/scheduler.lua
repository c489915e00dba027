-- SPDX-License-Identifier: MIT
--- Which task of an array job this process is, as schedulers say it.
--
-- Slurm and Grid Engine say how many tasks there are, Kubernetes and PBS do not.

local blame = require 'ridge.blame'

local M = {}

-- A number of a scheduler; nil where there is none. Grid Engine sets all of them for every job.
local function number(name, text)
  if text == nil or text == '' or text == 'undefined' then return nil end
  if not text:find '^%d+$' then
    blame.raise(("shard: %s is '%s', which is no number of a task; give --shard i/n"):format(name,
      text), 'EARG', 'shard')
  end
  return tonumber(text)
end

-- By the name of the variable that a task is known by: its number, and where it is known the least
-- and the greatest number and how many there are.
local TABLE = {
  { name = 'SLURM_ARRAY_TASK_ID', read = function(name)
    return number(name, os.getenv 'SLURM_ARRAY_TASK_ID'),
      number('SLURM_ARRAY_TASK_MIN', os.getenv 'SLURM_ARRAY_TASK_MIN'),
      number('SLURM_ARRAY_TASK_MAX', os.getenv 'SLURM_ARRAY_TASK_MAX'),
      number('SLURM_ARRAY_TASK_COUNT', os.getenv 'SLURM_ARRAY_TASK_COUNT')
  end },
  { name = 'JOB_COMPLETION_INDEX', read = function(name)
    return number(name, os.getenv 'JOB_COMPLETION_INDEX')
  end },
  { name = 'PBS_ARRAY_INDEX', read = function(name)
    return number(name, os.getenv 'PBS_ARRAY_INDEX')
  end },
  { name = 'SGE_TASK_ID', read = function(name)
    local id = number(name, os.getenv 'SGE_TASK_ID')
    local first = number('SGE_TASK_FIRST', os.getenv 'SGE_TASK_FIRST')
    local last = number('SGE_TASK_LAST', os.getenv 'SGE_TASK_LAST')
    local step = number('SGE_TASK_STEPSIZE', os.getenv 'SGE_TASK_STEPSIZE') or 1
    if not (id and first and last and step >= 1) then return id end
    local n = math.floor((last - first) / step) + 1
    return id, first, first + (n - 1) * step, n
  end },
}

--- The variables that tasks are known by.
---@return string[] names
function M.names()
  local names = {}
  for i, each in ipairs(TABLE) do names[i] = each.name end
  return names
end

--- The task that this process is; nil: it is none of an array job.
-- >> scheduler.task()
---@return table|nil task name (of the variable), id, first, last, n (nil: nobody says it)
function M.task()
  local found
  for _, each in ipairs(TABLE) do
    local id, first, last, n = each.read(each.name)
    if id then
      if found then
        blame.raise(('shard: %s and %s are both set, so nobody knows which task this is; give '
          .. '--shard i/n'):format(found.name, each.name), 'EARG', 'shard')
      end
      found = { name = each.name, id = id, first = first, last = last,
        n = n and n >= 1 and n or nil }
    end
  end
  return found
end

-- Consecutive numbers have another remainder for each task; others are counted from the first, by
-- their step. Where no step fits, two tasks could do the same part and nobody another.
local function place(task, n)
  local first, last = task.first, task.last
  if not (first and last) or last - first == n - 1 then return task.id % n end
  local i = (task.id - first) * (n - 1) / (last - first)
  if i ~= math.floor(i) then
    blame.raise(('the tasks %d to %d of this array job are %d in uneven steps, so %d says nothing '
      .. 'of its part; give --shard i/n'):format(first, last, n, task.id), 'EARG', 'shard')
  end
  return i
end

--- The part of a task. A job of fewer tasks than there are parts does some of them again: their
--- numbers are those of the whole job.
---@param task table of `task`
---@param n integer|nil how many parts there are; nil: as the scheduler says
---@return table shard i (from 0) and n
function M.shard(task, n)
  if not n and not task.n then
    blame.raise(('%s is %d, and nothing says of how many tasks: give --shard auto/n, or 1/1 where '
      .. 'this process is to do all'):format(task.name, task.id), 'EARG', 'shard')
  end
  if n and task.n and task.n > n then
    blame.raise(('shard: the array job has %d tasks, and there are %d parts'):format(task.n, n),
      'EARG', 'shard')
  end
  if not n or task.n == n then return { i = place(task, task.n), n = task.n } end
  return { i = task.id % n, n = n }
end

return M

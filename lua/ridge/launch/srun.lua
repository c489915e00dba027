-- SPDX-License-Identifier: MIT
--- How srun is told to start ranks, inside a job of Slurm: on its nodes, within its limits.

local C = require 'ridge.ffi.lib'
local keeper = require 'ridge.launch.keeper'
local mpirun = require 'ridge.launch.mpirun'

local M = {}

M.program = 'srun'

-- A variable that says something.
local function env(name)
  local text = os.getenv(name)
  return text ~= '' and text or nil
end

-- Numbers of a job, as texts, and of what they are.
local function told()
  return {
    nodes = { env 'SLURM_JOB_NUM_NODES', 'SLURM_JOB_NUM_NODES', 'machines' },
    tasks = { env 'SLURM_NTASKS', 'SLURM_NTASKS', 'tasks' },
    of_task = { env 'SLURM_CPUS_PER_TASK', 'SLURM_CPUS_PER_TASK', 'processors' },
    of_node = { env 'SLURM_CPUS_ON_NODE', 'SLURM_CPUS_ON_NODE', 'processors' },
    copies = { env 'SLURM_STEP_NUM_TASKS', 'SLURM_STEP_NUM_TASKS', 'tasks' },
  }
end

--- The job of Slurm that this process is in; nil outside of one.
---@return table|nil job id, nodes, tasks (nil: nobody said), of_task (processors, likewise),
---  of_node (likewise), step (this process is in a step of it), copies (tasks of that step)
---@return string|nil reason why nothing is known of it: a number is none
function M.job()
  local id = env 'SLURM_JOB_ID'
  if not id then return nil end
  local job = { id = id, step = env 'SLURM_STEP_ID' ~= nil, nodes = 1, copies = 1 }
  for field, each in pairs(told()) do
    local text, name, what = each[1], each[2], each[3]
    if text then
      job[field] = text:find '^%d+$' and tonumber(text)
      if not (job[field] and job[field] >= 1) then
        return nil, ("%s is '%s', which is no number of %s; --by mpirun asks nothing of Slurm")
          :format(name, text, what)
      end
    end
  end
  return job
end

--- Why ranks cannot be started by this Slurm; nil where they can.
---@param job table of `job`
---@return string|nil reason
function M.lacks(job)
  if job.copies > 1 then
    return ('srun started %d copies of ridge launch: start one (sbatch, salloc), or the script by '
      .. 'srun --mpi=pmix ridge SCRIPT'):format(job.copies)
  end
  local pipe = io.popen 'srun --mpi=list 2>&1'
  local text = pipe and pipe:read '*a' or ''
  if pipe then pipe:close() end
  if text:find '%f[%w]pmix' then return nil end
  return ("this Slurm starts no ranks: srun --mpi=list has no pmix (Debian's "
    .. 'slurm-wlm-basic-plugins has it), and says: %s'):format((text:gsub('%s+', ' ')
    :gsub(' $', '')))
end

--- Compute threads of a rank.
---@param job table of `job`
---@param n number ranks
---@return number threads
function M.threads(job, n)
  local of_node = math.min(C.rg_processors(), job.of_node or math.huge)
  return job.of_task or math.max(1, math.floor(of_node / math.ceil(n / job.nodes)))
end

--- A line that a rank printed, behind its number; nil where it is one of srun's own.
---@param text string
---@param stream string 'out' or 'err': srun keeps them apart
---@return string|nil rank
---@return string|nil stream
---@return string|nil said
function M.line(text, stream)
  local rank, said = text:match '^ *(%d+): ?(.*)$'
  if rank then return rank, stream, said end
end

--- Options of Open MPI, as ranks find them in their environment.
---@param nodes number
---@return table env
function M.env(nodes)
  local given, own = {}, mpirun.set()
  for _, option in ipairs(mpirun.OPTIONS) do
    -- between nodes Open MPI finds their network
    if not own[option[1]] and (option[1] ~= 'btl' or nodes == 1) then
      given['OMPI_MCA_' .. option[1]] = option[2]
    end
  end
  return given
end

--- The words that start n ranks, each behind a keeper.
---@param given table n, job, programs (srun, setpriv), at (how the launcher is reached), folder,
---  rest
---@return string[] words
function M.words(given)
  local job, setpriv = given.job, given.programs.setpriv
  local list = { '/bin/sh', '-c', 'exec "$@" >&3 3>&-', 'sh', setpriv, '--pdeathsig', 'TERM',
    given.programs.srun, '--mpi=pmix', '--ntasks=' .. given.n, '--label', '--input=none',
    '--kill-on-bad-exit=1', '--cpu-bind=none', '--export=ALL', '--chdir=' .. given.folder }
  local function add(...)
    for _, word in ipairs { ... } do list[#list + 1] = word end
  end
  if job.step then add '--overlap' end -- the step that this is in holds all processors
  if job.of_task then add('--cpus-per-task=' .. job.of_task) end -- of 22.05 on srun does not ask
  add(unpack(keeper.words(given)))
  return list
end

return M

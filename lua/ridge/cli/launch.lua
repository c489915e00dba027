-- SPDX-License-Identifier: MIT
--- `ridge launch -n N script.lua args`: the same script as N processes, here or on more machines.
--
-- mpirun starts them, or srun inside a job of Slurm, each behind a keeper (ridge.launch). They are
-- tied together: mpirun gets SIGTERM when this process is gone, however it went, a keeper SIGKILL
-- when mpirun is, and a rank when its keeper is, so no process outlives them.

local C = require 'ridge.ffi.lib'
local args = require 'ridge.cli.args'
local host = require 'ridge.host'
local job = require 'ridge.launch.job'
local mpirun = require 'ridge.launch.mpirun'
local plain = require 'ridge.plain'
local process = require 'ridge.process'
local recipe = require 'ridge.cli.recipe'
local srun = require 'ridge.launch.srun'
local stored = require 'ridge.cli.stored'

local M = {}

M.summary = 'start a script as several processes that train together'
M.usage = 'ridge launch -n N [--hosts a:4,b:4] [--restarts N] script.lua [args]'

local MOST = 512 -- ranks

local SPEC = {
  { 'n', 2, 'processes (ranks); in a job of Slurm as many as its tasks', short = 'n', min = 1,
    max = MOST, integer = true },
  { 'hosts', '', 'machines and how many ranks each may have: a:4,b:4; this one when left out' },
  { 'restarts', 0, 'start again so often when a rank fails, to go on from a checkpoint', min = 0,
    max = 1e6, integer = true },
  { 'wait', 1, 'seconds before the first restart, twice as many before each other one', min = 0,
    max = 3600 },
  { 'min_ranks', 0, 'go on with fewer ranks, these at least, where a machine is lost', min = 0,
    max = 512, integer = true },
  { 'by', 'auto', 'what starts ranks; auto: srun inside a job of Slurm, else mpirun',
    choices = { 'auto', 'mpirun', 'srun' } },
  { 'backend', 'auto', "what carries messages of scripts that leave it to auto; nccl: tensors on "
    .. "GPUs go by NCCL, or that is an error", choices = { 'auto', 'mpi', 'nccl' } },
  { 'silence', 30, 'seconds after which a machine that says nothing, or a stopped rank, is lost',
    min = 2, max = 1e6 },
  about = [[
Starts the same script as N processes, which ridge.dist.init joins. What stands behind the script
are its own options. Each rank's lines begin with its number. Processors are shared out:
OMP_NUM_THREADS is set to processors / N, unless it is set. The status is that of the first rank
that failed, and 5 where ranks waited in vain for another one; then, and with Ctrl-C, all end. It
needs mpirun, Debian's openmpi-bin.

Inside a job of Slurm (sbatch, salloc) srun --mpi=pmix starts them on the nodes of the job, as many
as its tasks where -n is left out. A job that Slurm ends and requeues goes on from the checkpoint.

With --hosts ranks fill machines in that order, over ssh without questions; ridge, the script and
its folder are at the same places on each. Messages are not protected: trusted networks only.

With --restarts the same command runs again when a rank has failed behind the first step of
training. world.restart says how often that was: the script goes on from its last checkpoint by
itself. With --min-ranks a machine that is not reached any more is left out.

    ridge launch -n 2 train.lua --epochs 5
    ridge launch -n 8 --hosts a:4,b:4 --restarts 3 train.lua]],
  rest = 'SCRIPT [its options]',
}

local MOST_WAIT = 60 -- seconds between two starts

-- The words in front of the script, and the others.
local function split(argv)
  local own, i = {}, 1
  while argv[i] and argv[i]:find '^%-' do
    own[#own + 1] = argv[i]
    -- -n2 and --n=2 have their value with them
    if not argv[i]:find '=' and not argv[i]:find '^%-%w.' and argv[i] ~= '--help'
        and argv[i] ~= '-h' then
      i = i + 1
      own[#own + 1] = argv[i]
    end
    i = i + 1
  end
  return own, { unpack(argv, i) }
end

local function slots(hosts)
  local n = 0
  for _, each in ipairs(hosts) do n = n + each.slots end
  return n
end

-- What each rank finds in its environment.
local function environment(opt, n, attempt)
  local env = opt.job and srun.env(opt.job.nodes) or {}
  if opt.backend ~= 'auto' then env.RIDGE_BACKEND = opt.backend end
  env.RIDGE_RESTART, env.RIDGE_FIRST_RANKS = tostring(attempt), tostring(opt.n)
  local here = math.min(n, opt.hosts and opt.hosts[1].slots or n)
  local threads = host.settings.threads or opt.job and srun.threads(opt.job, n)
    or math.max(1, math.floor(C.rg_processors() / here))
  if host.settings.threads or not os.getenv 'OMP_NUM_THREADS' then
    env.OMP_NUM_THREADS = tostring(threads)
  end
  if opt.hosts then
    env.LUA_PATH, env.LUA_CPATH = package.path, package.cpath
  end
  return env
end

-- Leave out machines that are lost; how many ranks there can be.
local function without(opt, lost, n)
  local left = {}
  for _, each in ipairs(opt.hosts or {}) do
    if not lost[each.name] then left[#left + 1] = each end
  end
  if not opt.hosts or #left == #opt.hosts then return n end
  opt.hosts = left
  return math.min(n, slots(left))
end

-- Sleep; false where Ctrl-C came.
local function pause(seconds)
  local until_ns = tonumber(C.rg_clock_ns()) + seconds * 1e9
  while tonumber(C.rg_clock_ns()) < until_ns do
    if host.stopping() then return false end
    require('ridge.launch.line').wait({}, 50)
  end
  return true
end

local function note(...) plain.note('ridge launch: ' .. (...):format(select(2, ...)) .. '\n') end

-- One start after the other.
local function run(opt, programs, rest)
  local n, wait = opt.n, opt.wait
  for attempt = 0, opt.restarts do
    local how = job.run { by = opt.job and srun or mpirun, job = opt.job, n = n,
      hosts = opt.hosts, several = opt.hosts or opt.job and opt.job.nodes > 1,
      programs = programs, rest = rest, silence = opt.silence,
      env = environment(opt, n, attempt), folder = opt.folder }
    if how.unprinted then note('what ranks print cannot be written: %s', how.unprinted) end
    if how.status == 130 then
      io.stderr:write 'interrupted: all ranks have ended\n'
      return 130
    elseif how.status == 0 then
      return how.unprinted and 1 or 0
    end
    if attempt == opt.restarts or not how.begun then
      note('%s%s', how.reason, opt.restarts > 0 and not how.begun
        and '; no step of training had ended, so this is not started again' or '')
      return how.status
    end
    if opt.min_ranks > 0 then n = without(opt, how.lost, n) end
    if n < math.max(1, opt.min_ranks) then
      note('%s; %d ranks are left, and --min-ranks is %d', how.reason, n, opt.min_ranks)
      return how.status
    end
    note('%s; restart %d of %d, with %d ranks, in %g s', how.reason, attempt + 1, opt.restarts, n,
      wait)
    if not pause(wait) then return 130 end
    wait = math.min(MOST_WAIT, wait * 2)
  end
end

-- Who starts ranks; a reason where nobody can.
local function choose(opt, said)
  if opt.by == 'mpirun' then return nil end
  local slurm, broken = srun.job()
  if broken then return broken end
  if not slurm then
    return opt.by == 'srun' and '--by srun: this is no job of Slurm; sbatch or salloc makes one'
      or nil
  end
  if not process.find 'srun' then
    return ('this is the job %s of Slurm, and there is no srun on the PATH; --by mpirun starts '
      .. 'ranks on this machine'):format(slurm.id)
  elseif opt.hosts ~= '' then
    return ('--hosts is for ssh, and this is the job %s of Slurm, which has its own nodes; --by '
      .. 'mpirun takes ssh'):format(slurm.id)
  end
  opt.job = slurm
  if not said.n and slurm.tasks then opt.n = slurm.tasks end
  if opt.n > MOST then
    return ('the job %s of Slurm has %d tasks, and %d ranks are the most: -n says how many'):format(
      slurm.id, slurm.tasks, MOST)
  end
  return srun.lacks(slurm)
end

local function checked(opt, said)
  local why = choose(opt, said)
  if why then return why end
  if opt.min_ranks > opt.n then
    return ('--min-ranks is %d, and there are %d ranks'):format(opt.min_ranks, opt.n)
  end
  if opt.hosts == '' then
    opt.hosts = nil
    return nil
  end
  local hosts
  hosts, why = mpirun.hosts(opt.hosts)
  if not hosts then return why end
  if slots(hosts) < opt.n then
    return ('--hosts have room for %d ranks, and -n is %d'):format(slots(hosts), opt.n)
  end
  opt.hosts = hosts
end

--- Start the ranks, and follow them to their end.
---@param argv string[] options, the script, its arguments
---@return integer status that of the first rank that failed
function M.main(argv)
  if argv[1] == '--keep' then return require('ridge.launch.keeper').main { unpack(argv, 2) } end
  local own, rest = split(argv)
  local opt, why, said = args.read(SPEC, own)
  if not opt and why == 'help' then
    plain.print(args.help(SPEC, 'launch'), '\n')
    return 0
  elseif not opt then
    return stored.fail('launch', why)
  elseif not rest[1] then
    return stored.fail('launch', 'the script is missing')
  end
  why = checked(opt, said)
  if why then return stored.fail('launch', why) end
  local found, reason_of = recipe.find(rest[1])
  if not found then return stored.fail('launch', reason_of) end
  local programs = { mpirun = process.find 'mpirun', setpriv = process.find 'setpriv',
    srun = process.find 'srun' }
  if not opt.job and not programs.mpirun then
    return stored.fail('launch', "there is no mpirun on the PATH; Debian's openmpi-bin has it")
  elseif not programs.setpriv then
    return stored.fail('launch', "there is no setpriv on the PATH; Debian's util-linux has it")
  end
  opt.folder = mpirun.folder()
  return run(opt, programs, rest)
end

return M

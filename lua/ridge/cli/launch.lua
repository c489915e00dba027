-- SPDX-License-Identifier: MIT
--- `ridge launch -n N script.lua args`: the same script as N processes of this machine.
--
-- mpirun starts them. They are tied together: mpirun gets SIGTERM when this process is gone,
-- however it went, and a rank gets SIGKILL when mpirun is, so no process outlives them.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local args = require 'ridge.cli.args'
local host = require 'ridge.host'
local plain = require 'ridge.plain'
local process = require 'ridge.process'
local recipe = require 'ridge.cli.recipe'
local stored = require 'ridge.cli.stored'

local M = {}

M.summary = 'start a script as several processes that train together'
M.usage = 'ridge launch -n N script.lua [args]'

local SPEC = {
  { 'n', 2, 'processes (ranks)', short = 'n', min = 1, max = 512, integer = true },
  about = [[
Starts the same script as N processes of this machine, which ridge.dist.init joins. What stands
behind the script are its own options. Each rank's lines begin with its number. Processors are
shared out: OMP_NUM_THREADS is set to processors / N, unless it is set. The status is that of the
first rank that failed; then, and with Ctrl-C, all end. It needs mpirun, Debian's openmpi-bin.

    ridge launch -n 2 train.lua --epochs 5]],
  rest = 'SCRIPT [its options]',
}

local GRACE_NS = 5e9 -- for mpirun to end its ranks

-- What mpirun is told. On one machine ranks speak through shared memory; of another process's own
-- containers often let nobody read (ompi #4948). Who waits must not spin beside who computes.
local OPTIONS = {
  { 'btl', 'self,vader' }, { 'btl_vader_single_copy_mechanism', 'none' },
  { 'mpi_yield_when_idle', '1' },
}

ffi.cdef [[
int ridge_launch_kill(int, int) __asm__("kill");
unsigned ridge_launch_user(void) __asm__("geteuid");
]]

-- The words in front of the script, and the others.
local function split(argv)
  local own, i = {}, 1
  while argv[i] and argv[i]:find '^%-' do
    own[#own + 1] = argv[i]
    if argv[i] == '-n' or argv[i] == '--n' then
      i = i + 1
      own[#own + 1] = argv[i]
    end
    i = i + 1
  end
  return own, { unpack(argv, i) }
end

-- Which of these the user has set as Open MPI reads them.
local function given()
  return { btl = os.getenv 'OMPI_MCA_btl', mpi_yield_when_idle =
    os.getenv 'OMPI_MCA_mpi_yield_when_idle', btl_vader_single_copy_mechanism =
    os.getenv 'OMPI_MCA_btl_vader_single_copy_mechanism' }
end

local function words(n, mpirun, setpriv, rest)
  local list = { '/bin/sh', '-c', 'exec "$@" >&3 2>&3 3>&-', 'sh', setpriv, '--pdeathsig', 'TERM',
    mpirun, '-n', tostring(n), '--bind-to', 'none', '--oversubscribe', '--tag-output' }
  if ffi.C.ridge_launch_user() == 0 then list[#list + 1] = '--allow-run-as-root' end
  local own = given()
  for _, option in ipairs(OPTIONS) do
    if not own[option[1]] then
      for _, word in ipairs { '--mca', option[1], option[2] } do list[#list + 1] = word end
    end
  end
  for _, word in ipairs { setpriv, '--pdeathsig', 'KILL', process.program() } do
    list[#list + 1] = word
  end
  for _, word in ipairs(rest) do list[#list + 1] = word end
  return list
end

-- -- What they print ------------------------------------------------------------------------------

local TAG = '^%[%d+,(%d+)%]<std(%a+)>:(.*)$'

-- A line of a rank is printed, one of mpirun's own is kept: one sentence is made of its banners.
local function tell(line, own)
  local rank, stream, text = line:match(TAG)
  if not rank then
    own[#own + 1] = line
    return
  end
  text = text:gsub('%[%d+,%d+%]<std%a+>:$', '') -- behind a last line
  if text == '' and stream == 'err' then return end
  local to = stream == 'out' and io.stdout or io.stderr
  to:write(('[%s] %s\n'):format(rank, text))
  to:flush()
end

-- How the first rank that failed ended, as mpirun says it.
local function reason(own, status)
  local text = table.concat(own, '\n')
  local rank, code = text:match 'Process name: %[%[%d+,%d+%],(%d+)%]%s+Exit code:%s+(%d+)'
  if rank then return ('rank %s ended with status %s'):format(rank, code) end
  local at, signal = text:match 'process rank (%d+) with PID.-exited on signal (%d+)'
  if at then return ('rank %s was ended by signal %s'):format(at, signal) end
  rank = text:match 'due to process rank (%d+)'
  if rank then return ('rank %s ended while others were still at work'):format(rank) end
  return text:gsub('%s+$', '') .. ('\nmpirun ended with status %d'):format(status)
end

-- -- Their end ------------------------------------------------------------------------------------

-- Processes that one has started.
local function children(pid)
  local list = {}
  for _, thread in ipairs(host.directory(('/proc/%d/task'):format(pid)) or {}) do
    local file = io.open(('/proc/%d/task/%s/children'):format(pid, thread), 'rb')
    for number in (file and file:read '*a' or ''):gmatch '%d+' do
      list[#list + 1] = tonumber(number)
    end
    if file then file:close() end
  end
  return list
end

-- End all of it: by mpirun where that obeys, else by process id.
local function finish(job)
  local ranks = children(job.pid)
  job:kill(15)
  local ok, how = pcall(job.wait, job, GRACE_NS)
  if ok and not how.running then return end
  for _, pid in ipairs(ranks) do ffi.C.ridge_launch_kill(pid, 9) end
  job:kill(9)
  job:close()
end

local function follow(job, own)
  while true do
    local line = job:receive()
    if not line then break end
    tell(line, own)
  end
  if job.channel.pending ~= '' then tell(job.channel.pending, own) end
  return job:wait()
end

local function run(n, rest)
  local mpirun, setpriv = process.find 'mpirun', process.find 'setpriv'
  if not mpirun then
    return stored.fail('launch', "there is no mpirun on the PATH; Debian's openmpi-bin has it")
  elseif not setpriv then
    return stored.fail('launch', "there is no setpriv on the PATH; Debian's util-linux has it")
  end
  local threads = host.settings.threads or math.max(1, math.floor(C.rg_processors() / n))
  local env = {}
  if host.settings.threads or not os.getenv 'OMP_NUM_THREADS' then env.OMP_NUM_THREADS = threads end
  local job = process.spawn { program = words(n, mpirun, setpriv, rest), env = env,
    own_group = true }
  local own = {}
  local ok, how = pcall(follow, job, own)
  if not ok then
    host.stopped()
    finish(job)
    if type(how) == 'table' and how.code == 'EINTR' then
      io.stderr:write 'interrupted: all ranks have ended\n'
      return 130
    end
    error(how, 0)
  end
  local status = how.signal > 0 and 128 + how.signal or how.code
  if status ~= 0 then
    plain.note(('ridge launch: %s\n'):format(reason(own, status)))
  end
  return status
end

--- Start the ranks, and follow them to their end.
---@param argv string[] options, the script, its arguments
---@return integer status that of the first rank that failed
function M.main(argv)
  local own, rest = split(argv)
  local opt, why = args.read(SPEC, own)
  if not opt and why == 'help' then
    plain.print(args.help(SPEC, 'launch'), '\n')
    return 0
  elseif not opt then
    return stored.fail('launch', why)
  elseif not rest[1] then
    return stored.fail('launch', 'the script is missing')
  end
  local found, reason_of = recipe.find(rest[1])
  if not found then return stored.fail('launch', reason_of) end
  return run(opt.n, rest)
end

return M

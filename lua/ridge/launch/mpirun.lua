-- SPDX-License-Identifier: MIT
--- How mpirun is told to start ranks, on this machine or on several.

local ffi = require 'ffi'
local keeper = require 'ridge.launch.keeper'

local M = {}

M.program = 'mpirun'

-- On one machine ranks speak through shared memory; of another process's own containers often let
-- nobody read (ompi #4948). Who waits must not spin beside who computes.
M.OPTIONS = {
  { 'btl', 'self,vader' }, { 'btl_vader_single_copy_mechanism', 'none' },
  { 'mpi_yield_when_idle', '1' },
}

ffi.cdef [[
unsigned ridge_mpirun_user(void) __asm__("geteuid");
ssize_t ridge_mpirun_readlink(const char *, char *, size_t) __asm__("readlink");
]]

--- The folder that this process is in.
---@return string path
function M.folder()
  local buffer = ffi.new 'char[4096]'
  local n = tonumber(ffi.C.ridge_mpirun_readlink('/proc/self/cwd', buffer, 4095))
  return ffi.string(buffer, math.max(0, n))
end

-- Which of these the user has set as Open MPI reads them.
local function given()
  return { btl = os.getenv 'OMPI_MCA_btl', mpi_yield_when_idle =
    os.getenv 'OMPI_MCA_mpi_yield_when_idle', btl_vader_single_copy_mechanism =
    os.getenv 'OMPI_MCA_btl_vader_single_copy_mechanism' }
end

--- The machines that somebody names: 'a:4,b' as a list of {name, slots}.
---@param text string
---@return table|nil list
---@return string|nil reason
function M.hosts(text)
  local list, seen = {}, {}
  for item in (text .. ','):gmatch '([^,]*),' do
    local name, slots = item:match '^([%w%.%-_]+):?(%d*)$'
    slots = name and (slots == '' and 1 or tonumber(slots))
    if not name or slots < 1 or slots > 512 then
      return nil, ("--hosts: '%s' is no NAME or NAME:RANKS, as in a:4,b:4"):format(item)
    elseif seen[name] then
      return nil, ('--hosts: %s stands twice'):format(name)
    end
    seen[name] = true
    list[#list + 1] = { name = name, slots = slots }
  end
  return list
end

--- Which machine a rank is on: they are filled in their order.
---@param hosts table as of `hosts`
---@param rank number from 0
---@return string name
function M.host_of(hosts, rank)
  for _, host in ipairs(hosts) do
    if rank < host.slots then return host.name end
    rank = rank - host.slots
  end
  return hosts[#hosts].name
end

local TAG = '^%[%d+,(%d+)%]<std(%a+)>:(.*)$'

--- A line that a rank printed, behind its number; nil where it is one of mpirun's own.
---@param text string
---@return string|nil rank
---@return string|nil stream 'out' or 'err'
---@return string|nil said
---@return string|nil second another such line: mpirun joins some
function M.line(text)
  local rank, stream, said = text:match(TAG)
  if not rank then return nil end
  local first, second = said:match '^(.-)(%[%d+,%d+%]<std%a+>:.*)$'
  said = (first or said):gsub('%-%-%-%-%-%-%-%-%-%-%-%-+$', '') -- its banner, likewise
  return rank, stream, said, second
end

--- The words that start n ranks, each behind a keeper.
---@param job table n, hosts, env, programs (mpirun, setpriv), at (how the launcher is reached),
---  folder, rest
---@return string[] words
function M.words(job)
  local setpriv = job.programs.setpriv
  local list = { '/bin/sh', '-c', 'exec "$@" >&3 2>&3 3>&-', 'sh', setpriv, '--pdeathsig', 'TERM',
    job.programs.mpirun, '-n', tostring(job.n), '--bind-to', 'none', '--tag-output' }
  local function add(...)
    for _, word in ipairs { ... } do list[#list + 1] = word end
  end
  if ffi.C.ridge_mpirun_user() == 0 then add '--allow-run-as-root' end
  local names = {}
  if job.hosts then
    for i, host in ipairs(job.hosts) do names[i] = ('%s:%d'):format(host.name, host.slots) end
    add('--host', table.concat(names, ','), '--map-by', 'slot', '--wdir', job.folder)
  else
    add '--oversubscribe'
  end
  for name, value in pairs(job.env) do add('-x', ('%s=%s'):format(name, value)) end
  local own = given()
  for _, option in ipairs(M.OPTIONS) do
    local value = option[1] == 'btl' and job.hosts and 'self,vader,tcp' or option[2]
    if not own[option[1]] then add('--mca', option[1], value) end
  end
  add(unpack(keeper.words(job)))
  return list
end

return M

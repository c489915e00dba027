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

-- Files of the user's own that Open MPI reads. That of the whole machine is not among them:
-- Debian's names components which it leaves out, and nobody has chosen those for a job.
local function files()
  return os.getenv 'OMPI_MCA_mca_base_param_files' or os.getenv 'OMPI_MCA_mca_param_files'
    or (os.getenv 'HOME' or '') .. '/.openmpi/mca-params.conf'
end

--- Which options of Open MPI the user has set, in the environment or in a file that it reads.
---@return table set name to true
function M.set()
  local set = { btl = os.getenv 'OMPI_MCA_btl' and true,
    btl_vader_single_copy_mechanism = os.getenv 'OMPI_MCA_btl_vader_single_copy_mechanism' and true,
    mpi_yield_when_idle = os.getenv 'OMPI_MCA_mpi_yield_when_idle' and true }
  for path in files():gmatch '[^,:]+' do
    local file = io.open(path, 'rb')
    for text in (file and file:read '*a' or ''):gmatch '[^\r\n]+' do
      local name = text:match '^%s*([%w_]+)%s*='
      if name then set[name] = true end
    end
    if file then file:close() end
  end
  return set
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
  add('-x', keeper.SECRET) -- mpirun has it in its environment: all can read a command line
  local own = M.set()
  for _, option in ipairs(M.OPTIONS) do
    local value = option[1] == 'btl' and job.hosts and 'self,vader,tcp' or option[2]
    if not own[option[1]] then add('--mca', option[1], value) end
  end
  add(unpack(keeper.words(job)))
  return list
end

return M

-- SPDX-License-Identifier: MIT
--- The world: all processes of a job, of which this one is a rank.
--
-- A call of the core works on memory until it has ended, whatever becomes of the Lua that started
-- it: what is under way is held here, and behind a failure for good.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local class = require('ridge.class').class
local guard = require 'ridge.guard'
local options = require 'ridge.options'

local M = {}

-- NCCL moves what is on GPUs; all else goes by MPI, by which ranks find each other, too.
local LIBRARIES = { auto = C.RG_GROUP_AUTO, mpi = C.RG_GROUP_MPI, nccl = C.RG_GROUP_MPI,
  none = C.RG_GROUP_ALONE }

local slot = ffi.new 'rg_group *[1]'
local ticket_slot = ffi.new 'int64_t[1]'

local World = class 'dist.World'

ffi.cdef [[
long ridge_world_send(int, const void *, size_t, int) __asm__("send");
int ridge_world_parent(void) __asm__("getppid");
]]

--- Seconds that ranks may start one behind the other, whatever the timeout.
M.PATIENCE = 60

-- Did a keeper of ridge launch start this process?
local function is_kept()
  return tonumber(os.getenv 'RIDGE_LAUNCHED') == ffi.C.ridge_world_parent()
end

-- What the keeper is told, over the descriptor that it gave the rank.
local function tell(text)
  if not is_kept() then return end
  text = text:gsub('\n.*', '') .. '\n'
  ffi.C.ridge_world_send(C.RG_PROCESS_CHANNEL, text, #text, 0x4000) -- MSG_NOSIGNAL
end

-- Does the script look at ridge.stopping(), or a Trainer for it?
local looks = false

--- Is Ctrl-C looked at by who runs now? Then it decides where this rank comes to its end, and
--- collectives go on until then, behind a request to stop, too.
---@param value boolean
---@return boolean before
function M.look_for_stop(value)
  local before = looks
  looks = value
  return before
end

-- One rank that is told to stop (kill -INT) in a loop that never asks whether it is: its next
-- collective is a place where the memory of all ranks is whole, and others that wait for it there
-- are ended by the launcher, which sees its status.
local function stop_here(world, what)
  local host = package.loaded['ridge.host']
  if looks or world.size == 1 or not (host and host.stopping and host.stopping()) then return end
  blame.raise(what .. ': interrupted: this rank was told to stop, and its script does not look at '
    .. 'ridge.stopping()', 'EINTR', what)
end

-- By world, and not its fields, which are the user's to change: its group, and what is held, by
-- ticket.
local groups = setmetatable({}, { __mode = 'k' })
local held = setmetatable({}, { __mode = 'k' })

function World:init(group, backend)
  groups[self], held[self] = group, {}
  self.backend = backend
  self.rank, self.size = C.rg_group_rank(group), C.rg_group_size(group)
  self.local_rank, self.local_size = C.rg_group_local_rank(group), C.rg_group_local_size(group)
  self.library = ffi.string(C.rg_group_library(group))
  self.restart = tonumber(os.getenv 'RIDGE_RESTART') or 0
  self.first_size = tonumber(os.getenv 'RIDGE_FIRST_RANKS') or self.size
  self.step = 0
end

function World:__tostring()
  return ('dist.World(rank %d of %d, %s)'):format(self.rank, self.size,
    self.library == 'none' and 'alone' or self.library)
end
World.__tostring = guard.text(World.__tostring)

--- Where the memory of a tensor is that ranks exchange; raises where they cannot.
---@param world table
---@param what string the function the user called
---@param x Tensor
---@return number device for the fields of a call
function M.reach(world, what, x)
  local device = x._t._device
  if device == 0 then return 0 end
  local why
  if world.size > 1 and world.backend == 'mpi' then
    why = "messages are MPI's alone with backend = 'mpi'"
  elseif C.rg_group_reach(groups[world], device) ~= 0 then
    why = ffi.string(C.rg_error_message())
  end
  if why then
    blame.raise(("%s: this tensor is on %s, and ranks cannot exchange what is there: %s. "
      .. "x:to 'cpu' goes by MPI"):format(what, x.device, why), 'EDEVICE', what)
  end
  return device
end

--- Start a call: its memory is held until it has been waited for.
---@param world table
---@param what string the function the user called
---@param fields table of an rg_group_call
---@param ... any what holds the memory
---@return number ticket
function M.start(world, what, fields, ...)
  if C.rg_capturing() ~= 0 then
    blame.raise(what .. ': other processes cannot be part of a plan', 'ECAPTURE', what)
  end
  stop_here(world, what)
  fields.unit = fields.unit or 1
  call.check(C.rg_group_start(groups[world], ffi.new('rg_group_call', fields), ticket_slot), what)
  local ticket = tonumber(ticket_slot[0])
  held[world][ticket] = { ... }
  return ticket
end

--- Wait for a call, and so for those before it.
---@param world table
---@param what string the function the user called
---@param ticket number
function M.wait(world, what, ticket)
  local status = C.rg_group_wait(groups[world], ticket)
  if status == C.RG_ELATE then tell('late ' .. ffi.string(C.rg_error_message())) end
  call.check(status, what)
  held[world][ticket] = nil
end

--- Do a call: start it, and wait.
---@param world table
---@param what string the function the user called
---@param fields table of an rg_group_call
---@param ... any what holds the memory
function M.run(world, what, fields, ...)
  fields.blocks = 1
  M.wait(world, what, M.start(world, what, fields, ...))
end

--- A step of training has ended, and the next begins.
---@param world table
function M.stepped(world)
  world.step = world.step + 1
  C.rg_group_set_step(groups[world], world.step + 1)
  if world.step == 1 then tell 'begun' end
end

--- Numbers of rank 0.
---@param world table
---@param what string the function the user called
---@param list number[] of the same length everywhere
---@return number[] list
function M.first(world, what, list)
  local n = #list
  local values = ffi.new('double[?]', math.max(1, n), list)
  M.run(world, what, { kind = C.RG_GROUP_BROADCAST, dtype = C.RG_F64, count = n, ['in'] = values,
    out = values }, values)
  local out = {}
  for i = 1, n do out[i] = values[i - 1] end
  return out
end

--- Texts of all ranks.
---@param world table
---@param what string the function the user called
---@param text string
---@return string[] texts that of rank 0 is the first
function M.texts(world, what, text)
  local lengths = ffi.new('double[?]', world.size)
  local own = ffi.new('double[1]', #text)
  M.run(world, what, { kind = C.RG_GROUP_ALL_GATHER, dtype = C.RG_F64, count = 1, ['in'] = own,
    out = lengths }, own, lengths)
  local most = 1
  for r = 0, world.size - 1 do most = math.max(most, lengths[r]) end
  local mine, all = ffi.new('uint8_t[?]', most), ffi.new('uint8_t[?]', most * world.size)
  ffi.copy(mine, text, #text)
  M.run(world, what, { kind = C.RG_GROUP_ALL_GATHER, dtype = C.RG_U8, count = most, ['in'] = mine,
    out = all }, mine, all)
  local out = {}
  for r = 0, world.size - 1 do out[r + 1] = ffi.string(all + r * most, lengths[r]) end
  return out
end

--- Raise, on all ranks alike, unless they give the same lines.
---@param world table
---@param what string the function the user called
---@param lines string[] what has to be the same, in sentences: 'parameter 3 is weight, f32 [2 x 3]'
function M.agree(world, what, lines)
  if world.size == 1 then return end
  local texts = M.texts(world, what, table.concat(lines, '\n'))
  for r = 2, world.size do
    if texts[r] ~= texts[1] then
      local theirs = {}
      for line in (texts[r] .. '\n'):gmatch '([^\n]*)\n' do theirs[#theirs + 1] = line end
      local i = 0
      for line in (texts[1] .. '\n'):gmatch '([^\n]*)\n' do
        i = i + 1
        if line ~= theirs[i] then
          blame.raise(('%s: ranks differ: on rank 0 %s, and on rank %d %s'):format(what, line,
            r - 1, theirs[i] or 'there is no such line'), 'ENET', what)
        end
      end
      blame.raise(('%s: ranks differ: on rank %d %s, and on rank 0 there is nothing of the kind')
        :format(what, r - 1, theirs[i + 1]), 'ENET', what)
    end
  end
end

-- -- The one there is -----------------------------------------------------------------------------

local SPEC = {
  backend = { 'string', default = 'auto', choices = { 'auto', 'mpi', 'nccl', 'none' },
    doc = 'what carries messages; auto: MPI where a launcher started this process, and NCCL for '
      .. 'tensors on a GPU where it is there' },
  timeout = { 'number', default = 60, min = 0.001, max = 1e9,
    doc = 'seconds that a rank waits for others that do not come' },
}

local here

-- What carries messages: as it is asked for, else as ridge launch --backend said.
local function backend_of(asked)
  local said = os.getenv 'RIDGE_BACKEND'
  if asked ~= 'auto' or not said or said == '' then return asked end
  if not LIBRARIES[said] then
    blame.raise(('dist.init: RIDGE_BACKEND is %s; it is one of auto, mpi, nccl, none'):format(
      blame.show(said)), 'EARG', 'dist.init')
  end
  return said
end

-- Raise where there is no GPU, or no NCCL.
local function need_nccl()
  local libraries = ffi.new 'rg_device_libraries'
  local why
  if C.rg_device_libraries_of(1, 1, libraries) ~= 0 then
    why = ffi.string(C.rg_error_message())
  elseif libraries.comms == 0 then
    why = 'NCCL is ' .. ffi.string(libraries.comms_why)
  end
  if why then
    blame.raise("dist.init: backend = 'nccl' cannot be used: " .. why, 'ENOSUP', 'dist.init')
  end
end

--- Join the other processes of the job that a launcher (ridge launch, mpirun, srun) started;
--- without a launcher this process is rank 0 of 1, and everything works the same. Called again it
--- gives the same world.
---
--- A rank that waits longer than `timeout` for others raises an error that says which ranks have
--- not come, and to which collective; so does one that finds another rank in another collective.
--- Behind that the world is of no use: when a process ends with an error, its launcher ends the
--- others. Messages are protected by nothing: trusted networks only.
---
--- Tensors on GPUs go by NCCL, where it is there (2.14 or later): each rank has one GPU of its
--- own, `net:to('cuda:' .. world.local_rank)`. With backend = 'nccl' a missing library is an error
--- here; with 'mpi' it is not used. Tensors on the CPU go by MPI in any case.
---@param given table|nil {backend = 'auto', timeout = 60}
---@return table world rank (from 0), size, local_rank and local_size (on this machine), library,
---  backend;
---  restart (how often ridge launch has started the job again), first_size (its ranks at first),
---  step (backward passes of DataParallel that have ended)
-- >> ridge.dist.init().size
function M.init(given)
  local opts = options.check(SPEC, given, 'dist.init')
  opts.backend = backend_of(opts.backend)
  -- opening waits for all: our launcher sees who does not come and ends it, another one may not
  local joins = not here and opts.backend ~= 'none'
  if joins then tell(('joining %g'):format(opts.timeout)) end
  local st = C.rg_group_open(LIBRARIES[opts.backend], is_kept() and 0
    or math.max(M.PATIENCE, opts.timeout), slot)
  if joins then tell 'joined' end
  if st ~= 0 then call.fail(st, 'dist.init') end
  local world = here
  if not world then
    world = World(slot[0], opts.backend)
    here = world
    if world.size > 1 then io.stdout:setvbuf 'line' end -- a launcher may end this process
    if M.simulated() and world.rank == 0 then
      io.stderr:write(('ridge.dist: messages are %s: times say nothing of any network\n'):format(
        world.library))
    end
    call.check(C.rg_group_set_timeout(groups[world], opts.timeout), 'dist.init')
    M.agree(world, 'dist.init', { 'ridge is ' .. ffi.string(C.rg_build_facts()),
      ('timeout is %g'):format(opts.timeout), 'backend is ' .. opts.backend })
    if opts.backend == 'nccl' then need_nccl() end
  elseif given and given.timeout then
    call.check(C.rg_group_set_timeout(groups[world], opts.timeout), 'dist.init')
  end
  return world
end

--- Is this the world?
---@param value any
---@return boolean
function M.is(value) return type(value) == 'table' and groups[value] ~= nil end

--- Does this process send messages by a library that only plays a network (tests/dist)? Then what
--- it times is flagged SIMULATED.
---@return boolean
function M.simulated()
  local group = here and groups[here]
  return group ~= nil and M.plays(ffi.string(C.rg_group_library(group)))
end

--- The flags of rows that this process times, as a trainer and a monitor keep them.
---@return string|nil flags 'SIMULATED'
function M.flags() return M.simulated() and 'SIMULATED' or nil end

--- What is said of rows with that flag.
M.SIMULATED = 'SIMULATED: a program plays the network: these times say nothing of one'

--- Is this the name of such a library?
---@param library string
---@return boolean
function M.plays(library) return library:find '^SIMULATED' ~= nil end

--- The number of this process; 0 where nobody has joined a world.
---@return number
function M.rank() return here and here.rank or 0 end

--- Does this process say what all ranks would say alike? Rank 0 does, and a process that is alone;
--- in front of dist.init a rank knows from its launcher which one it is.
---@return boolean
function M.speaks()
  return tonumber(here and here.rank or os.getenv 'OMPI_COMM_WORLD_RANK' or os.getenv 'PMIX_RANK'
    or 0) == 0
end

--- The world, joined now where nobody has.
---@return table world
function M.here() return here or M.init() end

return M

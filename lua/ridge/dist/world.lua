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

local LIBRARIES = { auto = C.RG_GROUP_AUTO, mpi = C.RG_GROUP_MPI, none = C.RG_GROUP_ALONE }

local slot = ffi.new 'rg_group *[1]'
local ticket_slot = ffi.new 'int64_t[1]'

local World = class 'dist.World'

function World:init(group)
  self.group = group
  self.rank, self.size = C.rg_group_rank(group), C.rg_group_size(group)
  self.local_rank, self.local_size = C.rg_group_local_rank(group), C.rg_group_local_size(group)
  self.library = ffi.string(C.rg_group_library(group))
  self._held = {} -- by ticket
end

function World:__tostring()
  return ('dist.World(rank %d of %d, %s)'):format(self.rank, self.size,
    self.library == 'none' and 'alone' or self.library)
end
World.__tostring = guard.text(World.__tostring)

--- Start a call: its memory is held until it has been waited for.
---@param what string the function the user called
---@param fields table of an rg_group_call
---@param ... any what holds the memory
---@return number ticket
function World:_start(what, fields, ...)
  if C.rg_capturing() ~= 0 then
    blame.raise(what .. ': other processes cannot be part of a plan', 'ECAPTURE', what)
  end
  fields.unit = fields.unit or 1
  call.check(C.rg_group_start(self.group, ffi.new('rg_group_call', fields), ticket_slot), what)
  local ticket = tonumber(ticket_slot[0])
  self._held[ticket] = { ... }
  return ticket
end

--- Wait for a call, and so for those before it.
---@param what string the function the user called
---@param ticket number
function World:_wait(what, ticket)
  call.check(C.rg_group_wait(self.group, ticket), what)
  self._held[ticket] = nil
end

--- Do a call: start it, and wait.
---@param what string the function the user called
---@param fields table of an rg_group_call
---@param ... any what holds the memory
function World:_do(what, fields, ...)
  self:_wait(what, self:_start(what, fields, ...))
end

--- Numbers of rank 0.
---@param what string the function the user called
---@param list number[] of the same length everywhere
---@return number[] list
function World:_first(what, list)
  local n = #list
  local values = ffi.new('double[?]', math.max(1, n), list)
  self:_do(what, { kind = C.RG_GROUP_BROADCAST, dtype = C.RG_F64, count = n, ['in'] = values,
    out = values }, values)
  local out = {}
  for i = 1, n do out[i] = values[i - 1] end
  return out
end

--- Texts of all ranks.
---@param what string the function the user called
---@param text string
---@return string[] texts that of rank 0 is the first
function World:_texts(what, text)
  local lengths = ffi.new('double[?]', self.size)
  local own = ffi.new('double[1]', #text)
  self:_do(what, { kind = C.RG_GROUP_ALL_GATHER, dtype = C.RG_F64, count = 1, ['in'] = own,
    out = lengths }, own, lengths)
  local most = 1
  for r = 0, self.size - 1 do most = math.max(most, lengths[r]) end
  local mine, all = ffi.new('uint8_t[?]', most), ffi.new('uint8_t[?]', most * self.size)
  ffi.copy(mine, text, #text)
  self:_do(what, { kind = C.RG_GROUP_ALL_GATHER, dtype = C.RG_U8, count = most, ['in'] = mine,
    out = all }, mine, all)
  local out = {}
  for r = 0, self.size - 1 do out[r + 1] = ffi.string(all + r * most, lengths[r]) end
  return out
end

--- Raise, on all ranks alike, unless they give the same lines.
---@param what string the function the user called
---@param lines string[] what has to be the same, in sentences: 'parameter 3 is weight, f32 [2 x 3]'
function World:_agree(what, lines)
  if self.size == 1 then return end
  local texts = self:_texts(what, table.concat(lines, '\n'))
  for r = 2, self.size do
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
  backend = { 'string', default = 'auto', choices = { 'auto', 'mpi', 'none' },
    doc = 'what carries messages; auto: MPI where a launcher started this process' },
  timeout = { 'number', default = 60, min = 0.001, max = 1e9,
    doc = 'seconds that a rank waits for others that do not come' },
}

local world

--- Join the other processes of the job that a launcher (ridge launch, mpirun, srun) started;
--- without a launcher this process is rank 0 of 1, and everything works the same. Called again it
--- gives the same world.
---
--- A rank that waits longer than `timeout` for others raises an error that says which ranks have
--- not come, and to which collective; so does one that finds another rank in another collective.
--- Behind that the world is of no use: when a process ends with an error, its launcher ends the
--- others. Messages are protected by nothing: trusted networks only.
---@param given table|nil {backend = 'auto', timeout = 60}
---@return table world rank (from 0), size, local_rank and local_size (on this machine), library
-- >> ridge.dist.init().size
function M.init(given)
  local opts = options.check(SPEC, given, 'dist.init')
  call.check(C.rg_group_open(LIBRARIES[opts.backend], slot), 'dist.init')
  if not world then
    world = World(slot[0])
    if world.size > 1 then io.stdout:setvbuf 'line' end -- a launcher may end this process
    call.check(C.rg_group_set_timeout(world.group, opts.timeout), 'dist.init')
    world:_agree('dist.init', { 'ridge is ' .. ffi.string(C.rg_build_facts()),
      ('timeout is %g'):format(opts.timeout) })
  elseif given and given.timeout then
    call.check(C.rg_group_set_timeout(world.group, opts.timeout), 'dist.init')
  end
  return world
end

--- The world, joined now where nobody has.
---@return table world
function M.here() return world or M.init() end

return M

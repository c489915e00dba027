-- SPDX-License-Identifier: MIT
--- Leases: who may time on a machine now (docs/why/measurement.md, "Several workers, one
--- machine").
--
-- For each resource (the CPU, each GPU) there is one lock file for the whole machine, so that
-- sweeps into different databases exclude each other too. It is held shared during heavy work that
-- is not timed and exclusively while timing. A gate in front of it is taken first by everybody and
-- kept by whoever waits to be alone: those who share cannot come in one after the other for ever.
-- The kernel drops the locks with the process, however it ends.

local clock = require 'ridge.store.clock'
local lock = require 'ridge.store.lock'
local place = require 'ridge.store.place'

local M = {}

local Lease = {}
Lease.__index = Lease

--- The folder of the lock files: RIDGE_LOCKS, else /run/lock/ridge, which all users share, else
--- ridge/ in XDG_RUNTIME_DIR, else /tmp/ridge.
---@return string folder
function M.folder()
  local own = os.getenv 'RIDGE_LOCKS'
  if own and own ~= '' then return own end
  local runtime = os.getenv 'XDG_RUNTIME_DIR'
  for _, base in ipairs { '/run/lock', runtime and runtime ~= '' and runtime or '/tmp', '/tmp' } do
    local folder = base .. '/ridge'
    if place.writable(folder) or not place.exists(folder) and place.writable(base) then
      return folder
    end
  end
  return '/tmp/ridge'
end

--- The lease of a resource; nothing is taken yet.
---@param resource string 'cpu', 'gpu0', ...
---@return table lease shared, exclusive, drop, close
function M.open(resource)
  local folder = place.shared_folder(M.folder())
  local path = ('%s/%s'):format(folder, resource)
  return setmetatable({ gate = lock.open_shared(path .. '.gate'), lock = lock.open_shared(path),
    waited = 0 }, Lease)
end

local function take(self, how)
  if self.has == how then return end
  self:drop()
  local began = clock.seconds()
  self.gate:take()
  local ok, err = pcall(how == 'shared' and self.lock.share or self.lock.take, self.lock)
  self.gate:drop() -- also where Ctrl-C ended the wait: nobody else waits for us
  if not ok then error(err, 0) end
  self.has, self.waited = how, self.waited + clock.seconds() - began
end

--- Wait until nobody times.
function Lease:shared() take(self, 'shared') end

--- Wait until nobody works here, and keep everybody away.
function Lease:exclusive() take(self, 'exclusive') end

--- Give it back.
function Lease:drop()
  if self.has then self.lock:drop() end
  self.has = nil
end

--- Take it shared only if that is possible at once.
---@return boolean taken
function Lease:try_shared()
  if not self.gate:try() then return false end
  local taken = self.lock:try_share()
  self.gate:drop()
  self.has = taken and 'shared' or nil
  return taken
end

--- Give it back for good.
function Lease:close()
  self:drop()
  self.gate:close()
  self.lock:close()
end

return M

-- SPDX-License-Identifier: MIT
--- A stop-watch (F152). It waits for the devices that are open: what was asked for has been done
--- when it is read. For numbers to rely on there is ridge.measure.

local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local class = require('ridge.class').class
local guard = require 'ridge.guard'
local unit = require 'ridge.show.unit'

local M = {}

local Timer = class 'Timer'

local function now()
  call.check(C.rg_device_wait(C.RG_EVERY_DEVICE), 'timer')
  return tonumber(C.rg_clock_ns())
end

--- Begin.
-- >> t = ridge.timer()
-- >> t:seconds()
function Timer:init()
  self.began = now()
  self.lapped = self.began
end

--- Seconds since it began.
---@return number s
function Timer:seconds() return (now() - self.began) / 1e9 end

--- Seconds since the last lap, or since it began.
---@return number s
function Timer:lap()
  local at = now()
  local s = (at - self.lapped) / 1e9
  self.lapped = at
  return s
end

--- Begin anew.
---@return number s seconds until now
function Timer:restart()
  local s = self:seconds()
  self:init()
  return s
end

Timer.__tostring = guard.text(function(self) return unit.format('ns', self:seconds() * 1e9) end)

M.Timer = Timer

return M

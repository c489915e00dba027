-- SPDX-License-Identifier: MIT
--- Where the first number that is not finite comes from: the operation, the line and the module.
--- Every result is looked at, and compiled Lua is off meanwhile: it is slow.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local backward = require 'ridge.tensor.backward'
local blame = require 'ridge.blame'
local lines = require 'ridge.lines'
local state = require 'ridge.state'

local M = {}

-- Raised while the backward pass stands at a call: say where it was made.
local function explain(line)
  local message = ffi.string(C.rg_error_message())
  if line ~= nil then
    blame.raise(('backward: the gradient of the call at %s: %s'):format(ffi.string(line), message),
      'ENAN')
  end
end

-- before: was it on outside?
local ANOMALY = {}

function ANOMALY.on(entry)
  entry.before = C.rg_grad_anomaly(1)
  if entry.before ~= 0 then return end
  backward.explain = explain
  lines.TOLD.on()
end

function ANOMALY.off(entry)
  C.rg_grad_anomaly(entry.before)
  if entry.before ~= 0 then return end
  lines.TOLD.off()
  backward.explain = nil
end

--- Call a function; the first operation that makes a nan or an infinity from finite numbers,
--- forward or in the backward pass, is an error that names it and the line it was called at.
---@param f function
---@param ... any its arguments
---@return any what f returns
-- >> ridge.anomaly(function() return ridge.tensor({-1}):log() end)
function M.anomaly(f, ...)
  if not blame.callable(f) then
    blame.raise('anomaly: a function is expected, got ' .. blame.show(f))
  end
  return state.with(ANOMALY, {}, f, ...)
end

return M

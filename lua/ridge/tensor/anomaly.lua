-- SPDX-License-Identifier: MIT
--- Where the first number that is not finite comes from: the operation, the line and the module.
--- Every result is looked at, and compiled Lua is off meanwhile: it is slow.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local backward = require 'ridge.tensor.backward'
local blame = require 'ridge.blame'

local M = {}

-- Lines by number; the tape keeps the number with each call.
local lines, numbers

local function see()
  local info = debug.getinfo(2, 'Sl')
  if blame.is_own(info.source) then return end
  local where = info.short_src .. ':' .. info.currentline
  if not numbers[where] then
    lines[#lines + 1] = where
    numbers[where] = #lines
  end
  C.rg_grad_where()[0] = numbers[where]
end

-- Raised while the way back stands at a call: say where it was made.
local function explain(number)
  local message = ffi.string(C.rg_error_message())
  if lines[number] then
    blame.raise(('backward: the gradient of the call at %s: %s'):format(lines[number], message),
      'ENAN')
  end
end

local function finish(before, ok, ...)
  C.rg_grad_anomaly(before)
  if before == 0 then
    debug.sethook()
    jit.on()
    C.rg_grad_where()[0] = 0
    backward.explain = nil
  end
  if not ok then error((...), 0) end
  return ...
end

--- Call a function; the first operation that makes a nan or an infinity from finite numbers,
--- forward or on the way back, is an error that names it and the line it was called at.
---@param f function
---@param ... any its arguments
---@return any what f returns
-- >> ridge.anomaly(function() return ridge.tensor({-1}):log() end)
function M.anomaly(f, ...)
  if not blame.callable(f) then
    blame.raise('anomaly: a function is expected, got ' .. blame.show(f))
  end
  local before = C.rg_grad_anomaly(1)
  if before == 0 then
    lines, numbers = {}, {}
    backward.explain = explain
    jit.off()
    debug.sethook(see, 'l')
  end
  return finish(before, pcall(f, ...))
end

return M

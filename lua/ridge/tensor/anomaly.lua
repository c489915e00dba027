-- SPDX-License-Identifier: MIT
--- Where the first number that is not finite comes from: the operation, the line and the module.
--- Every result is looked at, and compiled Lua is off meanwhile: it is slow.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local backward = require 'ridge.tensor.backward'
local blame = require 'ridge.blame'
local state = require 'ridge.state'

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

-- Raised while the backward pass stands at a call: say where it was made.
local function explain(number)
  local message = ffi.string(C.rg_error_message())
  if lines[number] then
    blame.raise(('backward: the gradient of the call at %s: %s'):format(lines[number], message),
      'ENAN')
  end
end

-- The entry's lines and numbers; before: was it on outside?
local ANOMALY = {}

function ANOMALY.on(entry)
  entry.before = C.rg_grad_anomaly(1)
  if entry.before ~= 0 then return end
  entry.lines, entry.numbers = entry.lines or {}, entry.numbers or {}
  lines, numbers = entry.lines, entry.numbers
  backward.explain = explain
  jit.off()
  debug.sethook(see, 'l')
end

function ANOMALY.off(entry)
  C.rg_grad_anomaly(entry.before)
  if entry.before ~= 0 then return end
  if debug.gethook() == see then debug.sethook() end -- not one that Ctrl-C has set
  jit.on()
  C.rg_grad_where()[0] = 0
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

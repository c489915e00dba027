-- SPDX-License-Identifier: MIT
--- Ranges of what sums add up: of the two parts of each nn.Residual, while a net is calibrated.

local Residual = require('ridge.nn.residual').Residual
local nets = require 'ridge.quant.nets'
local observers = require 'ridge.quant.observers'
local original = require('ridge.guard').original
local ref = require 'ridge.ffi.ref'

local M = {}

local Sums = {}
Sums.__index = Sums

local function look(observer, value)
  if ref.is(value) and not observer.lost then
    -- a part with nan or inf in it has no range, and is no layer whose input has to have one
    if value:isfinite():all():item() == 1 then observer:add(value) else observer.lost = true end
  end
  return value
end

-- Let a module tell what comes in, or out.
local function watch(self, module, observer, before)
  local own = rawget(module, 'forward')
  local forward = own or original(getmetatable(module).forward)
  rawset(module, 'forward', function(m, x, ...)
    if before then look(observer, x) end
    local y = forward(m, x, ...)
    if not before then look(observer, y) end
    return y
  end)
  self.back[#self.back + 1] = function() rawset(module, 'forward', own) end
end

--- Watch the sums of a net that is a copy.
---@param net table
---@param kind string of observers
---@param opts table dtype, percentile
---@return table sums ranges(), leave()
function M.watch(net, kind, opts)
  local self = setmetatable({ parts = {}, back = {} }, Sums)
  nets.each(net, function(module, name)
    if getmetatable(module) == Residual then
      local a, b = observers.new(kind, opts, name), observers.new(kind, opts, name)
      self.parts[name] = { a, b }
      watch(self, module.around or module, a, not module.around)
      watch(self, module.inner, b, false)
    end
  end)
  return self
end

local function range_of(observer)
  if observer.lost or observer.n == 0 or observer.lo == observer.hi then return false end
  return { observer:range() }
end

--- The ranges of both parts by the names of sums; false where there is none.
---@return table
function Sums:ranges()
  local out = {}
  for name, pair in pairs(self.parts) do out[name] = { range_of(pair[1]), range_of(pair[2]) } end
  return out
end

--- Let the net be as it was.
function Sums:leave()
  for i = #self.back, 1, -1 do self.back[i]() end
end

return M

-- SPDX-License-Identifier: MIT
--- Loss scaling for small float types (Micikevicius et al., 2018): gradients that would vanish in
--- f16 are kept apart from 0 by a large factor, which is taken off before the step.

local blame = require 'ridge.blame'
local class = require('ridge.class').class
local make = require 'ridge.tensor.make'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'

local Scaler = class 'optim.GradScaler'

local SPEC = {
  scale = { 'number', default = 2 ^ 16, min = 2 ^ -100, max = 2 ^ 100, doc = 'to begin with' },
  growth = { 'number', default = 2, min = 1, max = 1e6, doc = 'after `interval` good steps' },
  backoff = { 'number', default = 0.5, min = 1e-6, max = 1, doc = 'after a step that overflowed' },
  interval = { 'integer', default = 2000, min = 1, doc = 'good steps before it grows' },
}

--- A scale that falls when gradients overflow and grows when they have not for a while.
---@param opts table|nil {scale = 2^16, growth = 2, backoff = 0.5, interval = 2000}
-- >> ridge.optim.GradScaler()
function Scaler:init(opts)
  self.options = options.check(SPEC, opts, 'optim.GradScaler')
  self.factor, self.good, self.skipped = self.options.scale, 0, 0
end

--- The loss times the scale; go back from this.
---@param loss Tensor
---@return Tensor
function Scaler:scale(loss)
  return ref.need(loss, 'optim.GradScaler') * self.factor
end

--- The optimizer's step with the scale taken off, once, and before the norm is clipped. Where a
--- gradient is not finite the step is left out and the scale falls.
---@param optimizer table
---@param opts table|nil {clip = the largest norm}
---@return boolean stepped
function Scaler:step(optimizer, opts)
  local clip = type(opts) == 'table' and opts.clip or nil
  if clip ~= nil and (type(clip) ~= 'number' or not (clip > 0)) then
    blame.raise(('optim.GradScaler: clip is a number above 0, got %s'):format(blame.show(clip)))
  end
  local norm = optimizer:grad_norm()
  if not norm then return false end
  local value = norm:item() / self.factor
  if value ~= value or value == math.huge then
    self.factor, self.good = self.factor * self.options.backoff, 0
    self.skipped = self.skipped + 1
    return false
  end
  local share = clip and math.min(1, clip / (value + 1e-6)) or 1
  optimizer:step { scale = make.full(share / self.factor, { dtype = 'f64' }) }
  self.good = self.good + 1
  if self.good >= self.options.interval then
    self.factor, self.good = self.factor * self.options.growth, 0
  end
  return true
end

function Scaler:__tostring()
  return ('optim.GradScaler(scale %g, %d steps left out)'):format(self.factor, self.skipped)
end

return Scaler

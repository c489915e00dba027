-- SPDX-License-Identifier: MIT
--- Loss scaling for small float types (Micikevicius et al., 2018): gradients that would vanish in
--- f16 are kept apart from 0 by a large factor, which is divided out before the step.
---
--- The factor and what is counted are tensors beside the gradients, and whether a step is taken is
--- decided there: the host waits for nothing, and a captured step goes on scaling at replay.
--- Reading `factor`, `good` or `skipped` waits.

local blame = require 'ridge.blame'
local class = require('ridge.class').class
local gradients = require 'ridge.optim.gradients'
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

-- What is kept as a tensor of one number: read and set as if it were one.
local NUMBERS = { 'factor', 'good', 'skipped', 'overflowed' }
local IS_NUMBER = {}
for _, name in ipairs(NUMBERS) do IS_NUMBER[name] = true end

function Scaler.__index(self, name)
  if IS_NUMBER[name] then return rawget(self, 'numbers')[name]:item() end
  return Scaler[name]
end

function Scaler.__newindex(self, name, value)
  if not IS_NUMBER[name] then return rawset(self, name, value) end
  if type(value) ~= 'number' then
    blame.raise(('optim.GradScaler: %s is a number, got %s'):format(name, blame.show(value)))
  end
  self.numbers[name]:fill_(value)
end

--- A scale that falls when gradients overflow and grows when they have not for a while.
---@param opts table|nil {scale = 2^16, growth = 2, backoff = 0.5, interval = 2000}
-- >> ridge.optim.GradScaler()
function Scaler:init(opts)
  self.options, self.numbers, self.unscaled = options.check(SPEC, opts, 'optim.GradScaler'), {}, {}
  for _, name in ipairs(NUMBERS) do
    self.numbers[name] = ref.outlive(make.full(name == 'factor' and self.options.scale or 0,
      { dtype = 'f64' }))
  end
end

-- The numbers, from now on on this device.
local function here(self, device)
  local numbers = self.numbers
  if numbers.factor.device ~= device then
    for name, x in pairs(numbers) do numbers[name] = ref.outlive(x:to(device)) end
  end
  return numbers
end

--- The loss times the scale; go back from this.
---@param loss Tensor
---@return Tensor
function Scaler:scale(loss)
  ref.need(loss, 'optim.GradScaler')
  return loss * here(self, loss.device).factor:to(loss.dtype)
end

--- Take the scale off the gradients themselves, for whoever looks at them or clips them before the
--- step; step then leaves it.
---@param optimizer table
---@return table self
function Scaler:unscale(optimizer)
  if self.unscaled[optimizer] then
    blame.raise('optim.GradScaler: the scale was taken off already, and step comes next', 'EARG')
  end
  gradients.quietly(function()
    for _, each in ipairs(gradients.list(optimizer)) do
      local factor = here(self, each.grad.device).factor
      each.grad:copy_(each.grad:to('f64') / factor)
    end
  end)
  self.unscaled[optimizer] = true
  return self
end

-- Note whether a step was left out: overflowed is 1 until the scale has fallen for it.
local function count(numbers, finite)
  local missed = -(finite - 1)
  numbers.overflowed:copy_(numbers.overflowed:maximum(missed))
  numbers.skipped:add_(missed)
end

--- Let the scale fall if a step was left out since the last time, or grow after enough good ones.
--- step does it unless it is told not to: with several optimizers, once for all of them.
---@return table self
function Scaler:update()
  local o, n = self.options, self.numbers
  gradients.quietly(function()
    local finite = -(n.overflowed - 1)
    local good = (n.good + 1) * finite
    local grows = good:ge(o.interval):to 'f64'
    local risen = grows * o.growth - (grows - 1)
    n.factor:mul_(finite * risen - (finite - 1) * o.backoff)
    n.good:copy_(good * -(grows - 1))
    n.overflowed:fill_(0)
  end)
  return self
end

local STEP = {
  clip = { 'number', min = 0, max = 1e300, doc = 'the largest norm' },
  update = { 'boolean', default = true, doc = 'and let the scale fall or grow' },
}

--- The optimizer's step with the scale taken off, once, and before the norm is clipped. Where a
--- gradient is not finite the step is left out and the scale falls. Nobody waits to know: `skipped`
--- counts the steps left out.
---@param optimizer table
---@param opts table|nil {clip = the largest norm, update = true}
---@return table self
function Scaler:step(optimizer, opts)
  opts = options.check(STEP, opts, 'optim.GradScaler')
  if opts.clip == 0 then blame.raise('optim.GradScaler: clip is a number above 0, got 0') end
  local norm = optimizer:grad_norm()
  if not norm then return self end
  gradients.quietly(function()
    local numbers = here(self, norm.device)
    local off = self.unscaled[optimizer] and 1 or numbers.factor
    local size = norm / off
    local share = opts.clip and (opts.clip / (size + 1e-6)):minimum(1) or size * 0 + 1
    -- nan and inf times 0 are nan: the optimizer leaves the step out
    optimizer:step { scale = share / off + size * 0 }
    count(numbers, (size * 0):eq(0):to 'f64')
  end)
  self.unscaled[optimizer] = nil
  return opts.update and self:update() or self
end

local STATE = {}
for _, name in ipairs(NUMBERS) do
  STATE[name] = { 'number', required = true, min = 0, doc = 'as in the scaler' }
end

--- What it remembers; reading it waits.
---@return table state numbers: factor, good, skipped, overflowed
function Scaler:state()
  local out = {}
  for _, name in ipairs(NUMBERS) do out[name] = self[name] end
  return out
end

--- Take what another one remembered.
---@param state table as `state` gives it
---@return table self
function Scaler:load_state(state)
  state = options.check(STATE, state, 'optim.GradScaler:load_state')
  for _, name in ipairs(NUMBERS) do self[name] = state[name] end
  self.unscaled = {}
  return self
end

function Scaler:__tostring()
  return ('optim.GradScaler(scale %g, %d steps left out)'):format(self.factor, self.skipped)
end

return Scaler

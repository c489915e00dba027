-- SPDX-License-Identifier: MIT
--- How sparsity grows over steps.

local blame = require 'ridge.blame'
local guard = require 'ridge.guard'
local class = require('ridge.class').class
local masks = require 'ridge.prune.masks'
local options = require 'ridge.options'

local Scheduler = class 'prune.Scheduler'

local SPEC = {
  target = { 'number', required = true, nan = true, doc = 'the share that is 0 at the end' },
  steps = { 'integer', default = 5, min = 1, max = 1e6, doc = 'how often more is pruned' },
  shape = { 'string', default = 'cubic', choices = { 'linear', 'cubic', 'exponential' },
    doc = 'how the share grows' },
  start = { 'number', default = 0, nan = true, doc = 'the share before the first step' },
}

-- The share at part t of the way, 0 .. 1.
local SHAPE = {}

function SHAPE.linear(a, b, t) return a + (b - a) * t end

-- Much at first, when much can be spared (Zhu and Gupta, 2017).
function SHAPE.cubic(a, b, t) return b + (a - b) * (1 - t) ^ 3 end

-- The same share of what is left at each step.
function SHAPE.exponential(a, b, t) return 1 - (1 - a) * ((1 - b) / (1 - a)) ^ t end

--- How sparsity grows: linear by the same each time, cubic fast at first (Zhu and Gupta, 2017),
--- exponential by the same share of what is left.
---@param opts table {target = 0.7, steps = 5, shape = 'cubic', start = 0}
-- >> return ridge.prune.Scheduler { target = 0.7, steps = 5 }:at(1)
function Scheduler:init(opts)
  local what = 'prune.Scheduler'
  opts = options.check(SPEC, opts, what)
  masks.need_share(opts.target, 'target', what)
  if not (opts.start >= 0 and opts.start < opts.target) then
    blame.raise(('%s: option start is from 0 to less than the target, %g; got %s'):format(what,
      opts.target, blame.show(opts.start)), 'EARG')
  end
  self.target, self.steps, self.shape, self.start = opts.target, opts.steps, opts.shape, opts.start
end

--- The share that is 0 behind a step.
---@param step integer 0 (the start) to steps; behind the last one it stays
---@return number
function Scheduler:at(step)
  if type(step) ~= 'number' or step % 1 ~= 0 or step < 0 then
    blame.raise('prune.Scheduler:at: a step is a whole number from 0, got ' .. blame.show(step),
      'EARG')
  end
  if step >= self.steps then return self.target end -- exactly, whatever rounding does
  return SHAPE[self.shape](self.start, self.target, step / self.steps)
end

function Scheduler:__tostring()
  local list = {}
  for i = 1, math.min(self.steps, 20) do list[i] = ('%.3f'):format(self:at(i)) end
  if self.steps > 20 then list[21] = '...' end
  return ('prune.Scheduler(%s, %d steps: %s)'):format(self.shape, self.steps,
    table.concat(list, ', '))
end

Scheduler.__tostring = guard.text(Scheduler.__tostring)

return { Scheduler = Scheduler }

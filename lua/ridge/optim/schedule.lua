-- SPDX-License-Identifier: MIT
--- Learning rates that change while training. Each schedule multiplies the rates that the groups of
--- its optimizer began with; call step() after every step, or every epoch, of the optimizer.

local blame = require 'ridge.blame'
local class = require('ridge.class').class
local options = require 'ridge.options'
local Optimizer = require 'ridge.optim.optimizer'

local M = {}

local Schedule = class 'optim.Schedule'

-- Set up: t counts the steps of the schedule, factor(t) is what rates are multiplied by.
local function begin(self, optimizer, spec, opts)
  local what = getmetatable(self).__name
  if not require('ridge.class').is_a(optimizer, Optimizer) then
    blame.raise(('%s: an optimizer is expected, got %s'):format(what, blame.show(optimizer)),
      'EARG')
  end
  self.optimizer, self.options, self.t = optimizer, options.check(spec, opts, what), 0
  return self.options
end

local function apply(self)
  self.optimizer:scale_lr(self:factor(self.t))
  return self.optimizer:lr()
end

--- Go on by one; the rate of the first group.
---@return number lr
function Schedule:step()
  self.t = self.t + 1
  return apply(self)
end

--- What the rates are multiplied by after t steps.
---@param t number
---@return number factor
function Schedule:factor(t)
  return self.f(self.options, t)
end

local STATE = {
  kind = { 'string', required = true, doc = 'the class' },
  t = { 'integer', required = true, min = 0, doc = 'steps' },
}

--- Where it stands.
---@return table state kind, t; of PlateauLR also now, best, bad
function Schedule:state()
  return { kind = getmetatable(self).__name, t = self.t }
end

-- Take a state of this kind, as its spec says.
local function load(self, spec, state)
  local kind = getmetatable(self).__name
  local what = kind .. ':load_state'
  -- before its fields: what another kind has too many or too few says nothing to whoever changed it
  if type(state) == 'table' and type(state.kind) == 'string' and state.kind ~= kind then
    blame.raise(('%s: the state is of %s'):format(what, state.kind), 'EARG')
  end
  state = options.check(spec, state, what)
  for name, value in pairs(state) do
    if name ~= 'kind' then self[name] = value end
  end
  apply(self)
  return self
end

--- Stand where another one stood; the optimizer's rates follow.
---@param state table as `state` gives it
---@return table self
function Schedule:load_state(state) return load(self, STATE, state) end

function Schedule:__tostring()
  return ('%s(after %d steps: lr %g)'):format(getmetatable(self).__name, self.t,
    self.optimizer:lr())
end

local STEPS = { 'integer', required = true, min = 1, doc = 'of the whole schedule' }

local function define(name, spec, doc, f)
  local Kind = class('optim.' .. name, Schedule)
  Kind.f, Kind.__doc = f, name .. doc
  function Kind:init(optimizer, opts)
    local o = begin(self, optimizer, spec, opts)
    if o.warmup and o.warmup > o.steps then
      blame.raise(('optim.%s: a warm-up of %d steps is no part of %d'):format(name, o.warmup,
        o.steps), 'EARG')
    end
    apply(self)
  end
  M[name] = Kind
end

--- Multiplied by `factor` after every so many steps.
define('StepLR', {
  every = { 'integer', required = true, min = 1, doc = 'steps between two changes' },
  factor = { 'number', default = 0.1, min = 0, max = 1e6 },
}, '(optimizer, {every =, factor = 0.1}): the rate multiplied by factor after every so many steps.',
function(o, t) return o.factor ^ math.floor(t / o.every) end)

--- Half a cosine from the rate to `final` of it (Loshchilov and Hutter, 2017), behind a linear
--- warm-up from `warmup_factor` of it.
define('CosineLR', {
  steps = STEPS,
  final = { 'number', default = 0, min = 0, max = 1, doc = 'share of the rate at the end' },
  warmup = { 'integer', default = 0, min = 0, doc = 'steps of warm-up, part of all' },
  warmup_factor = { 'number', default = 0.1, min = 0, max = 1, doc = 'where the warm-up begins' },
}, '(optimizer, {steps =, final = 0, warmup = 0, warmup_factor = 0.1}): half a cosine from the '
  .. 'rate to final of it, behind a linear warm-up from warmup_factor of it.', function(o, t)
  if t < o.warmup then return o.warmup_factor + (1 - o.warmup_factor) * t / o.warmup end
  local share = math.min((t - o.warmup) / math.max(o.steps - o.warmup, 1), 1)
  return o.final + (1 - o.final) * 0.5 * (1 + math.cos(math.pi * share))
end)

local function cosine(from, to, share)
  return to + (from - to) * 0.5 * (1 + math.cos(math.pi * share))
end

--- Up to the rate and down again (Smith and Topin, 2018), both as half a cosine.
define('OneCycleLR', {
  steps = STEPS,
  up = { 'number', default = 0.3, min = 0, max = 1, doc = 'share of the steps that go up' },
  divide = { 'number', default = 25, min = 1, max = 1e9, doc = 'the rate by this at the start' },
  final_divide = { 'number', default = 1e4, min = 1, max = 1e12,
    doc = 'the start by this at the end' },
}, '(optimizer, {steps =, up = 0.3, divide = 25, final_divide = 1e4}): up to the rate and down '
  .. 'again, both as half a cosine.', function(o, t)
  local first, last = o.up * o.steps - 1, o.steps - 1
  if t <= first then return cosine(1 / o.divide, 1, first > 0 and t / first or 1) end
  local share = math.min((t - first) / math.max(last - first, 1), 1)
  return cosine(1, 1 / (o.divide * o.final_divide), share)
end)

-- -- Plateau --------------------------------------------------------------------------------------

local Plateau = class('optim.PlateauLR', Schedule)
local PLATEAU = {
  factor = { 'number', default = 0.1, min = 0, max = 1 },
  patience = { 'integer', default = 10, min = 0,
    doc = 'steps without a better loss that are let pass' },
  threshold = { 'number', default = 1e-4, min = 0, max = 1,
    doc = 'share by which a loss has to be less' },
  least = { 'number', default = 0, min = 0, max = 1,
    doc = 'share of the rate it never goes below' },
}

--- Multiplied by `factor` when the loss has not fallen for a while.
---@param optimizer table
---@param opts table|nil {factor = 0.1, patience = 10, threshold = 1e-4, least = 0}
function Plateau:init(optimizer, opts)
  begin(self, optimizer, PLATEAU, opts)
  self.now, self.best, self.bad = 1, math.huge, 0
end

function Plateau:factor() return self.now end

--- It takes the loss: a trainer steps it once an epoch, with the loss of the epoch.
Plateau.takes_loss = true

local PLATEAU_STATE = {
  kind = STATE.kind, t = STATE.t,
  now = { 'number', required = true, min = 0, max = 1, doc = 'what rates are multiplied by' },
  best = { 'number', required = true, doc = 'the least loss so far' },
  bad = { 'integer', required = true, min = 0, doc = 'steps since then' },
}

function Plateau:state()
  local state = Schedule.state(self)
  state.now, state.best, state.bad = self.now, self.best, self.bad
  return state
end

function Plateau:load_state(state) return load(self, PLATEAU_STATE, state) end

--- Go on by one, with the loss there is.
---@param loss number
---@return number lr
function Plateau:step(loss)
  if type(loss) ~= 'number' then
    blame.raise(('optim.PlateauLR: step takes the loss, a number; got %s'):format(blame.show(loss)),
      'EARG')
  end
  local o, best = self.options, self.best
  self.t = self.t + 1
  -- of the size of the best one: a share of a loss below 0 would make one better that is worse
  local wanted = best == math.huge and best
    or best * (best > 0 and 1 - o.threshold or 1 + o.threshold)
  if loss < wanted then -- false for nan: it is no better loss
    self.best, self.bad = loss, 0
  else
    self.bad = self.bad + 1
  end
  if self.bad > o.patience then
    self.now, self.bad = math.max(self.now * o.factor, o.least), 0
  end
  return apply(self)
end

M.PlateauLR = Plateau

return M

-- SPDX-License-Identifier: MIT
--- Gradients that are not finite, or too large to be meant: the seven ways of the documents behind
--- ridge to deal with them, each of which does what it says.

local blame = require 'ridge.blame'
local class = require('ridge.class').class
local gradients = require 'ridge.optim.gradients'
local make = require('ridge.tensor.make').here
local ops = require 'ridge.tensor.ops'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local Running = require 'ridge.optim.running'

local Guard = class 'optim.Guard'

local KINDS = { 'detect', 'replace', 'skip', 'restore', 'gradient_zeroing', 'adaptive',
  'gradient_scaling' }

local SPEC = {
  kind = { 'string', default = 'detect', choices = KINDS, doc = 'what to do' },
  nan_replacement = { 'number', default = 0, doc = 'of a nan' },
  inf_replacement = { 'number', default = 1e6, doc = 'of an infinity, with its sign' },
  overflow_replacement = { 'number', default = 1e6, doc = 'of what is too large, with its sign' },
  overflow_threshold = { 'number', default = 1e6, min = 0, max = 1e300,
    doc = 'absolute values above it are too large' },
  every = { 'integer', default = 1, min = 1, doc = 'restore: steps between what is kept' },
}

local COUNT = { 'integer', required = true, min = 0, doc = 'elements' }
local TOTALS = { nan = COUNT, inf = COUNT, overflow = COUNT }
local STATE = {
  totals = { 'table', required = true, doc = 'elements that were found' },
  good = { 'integer', required = true, min = 0, doc = 'steps' },
  kept = { 'table', required = true, doc = 'parameters, moments and counts of each optimizer' },
}

-- Shares of bad elements at which adaptive and gradient_scaling change what they do.
local HIGH, MEDIUM = 0.1, 0.01

--- A way to deal with gradients that are not finite.
---
--- detect says so and leaves them: a step that would carry a nan or an infinity into the parameters
--- is left out, one that is merely large is taken; replace puts numbers in their place, at most the
--- largest finite one of the gradient's type; skip leaves every such step out, moments and all;
--- restore leaves it out and takes parameters and moments back to what
--- the last good step left, where that was finite; gradient_zeroing clears the tensors
--- that hold any; adaptive clears everything, replaces, or zeroes and scales, by how many there
--- are; gradient_scaling zeroes them and scales the rest by 0.1, 0.3 or 0.7.
---
--- Running statistics (batch normalisation) of the modules that the optimizer was made of, which a
--- batch made nan or infinite, go back to what they were when `apply` was called before; of the
--- first call, to what they were when a Stability was made of the optimizer, and without one there
--- is nothing to go back to.
---@param opts table|nil {kind = 'detect', nan_replacement = 0, inf_replacement = 1e6,
---  overflow_replacement = 1e6, overflow_threshold = 1e6, every = 1}
-- >> ridge.optim.Guard {kind = 'skip'}
function Guard:init(opts)
  self.options = options.check(SPEC, opts, 'optim.Guard')
  self.totals = { nan = 0, inf = 0, overflow = 0 }
  self.kept, self.good = {}, 0
end

-- -- What there is --------------------------------------------------------------------------------

-- In a half type a threshold may lie beyond the largest number, and would be an infinity itself.
local HALF = { f16 = true, bf16 = true }

-- What is nan, infinite, and finite but above the threshold: 1 where it is, else 0.
local function marks(g, most)
  local size = (HALF[g.dtype] and g:to 'f32' or g):abs()
  local infinite = size:eq(math.huge):to 'f64'
  return { nan = size:ne(size):to 'f64', inf = infinite,
    overflow = (size:gt(most):to 'f64' - infinite):maximum(0) }
end

local function look(self, list)
  local found = {}
  for _, kind in ipairs { 'nan', 'inf', 'overflow' } do
    found[kind] = gradients.count(list, function(g)
      return marks(g, self.options.overflow_threshold)[kind]
    end)
  end
  found.share = (found.nan + found.inf + found.overflow) / math.max(1, gradients.elements(list))
  return found
end

-- -- What to do -----------------------------------------------------------------------------------

local LARGEST = { f16 = 65504, bf16 = 2 ^ 127 * (2 - 2 ^ -7), f32 = 2 ^ 127 * (2 - 2 ^ -23),
  f64 = 2 ^ 1023 * (2 - 2 ^ -52) } -- finite numbers

-- Put numbers where something is marked: what stands there must not be multiplied, so each place
-- takes either its own number or one of five that stand behind them all.
local function put(g, found, nan, inf, over)
  local n, most = g.count, LARGEST[g.dtype]
  local function fits(value) return math.max(-most, math.min(most, value)) end
  inf, over = fits(inf), fits(over)
  local five = make.tensor({ fits(nan), inf, 0 - inf, over, 0 - over }, { dtype = g.dtype })
  local place = found.inf + found.overflow * 3
    + g:lt(0):to 'f64' * (found.inf + found.overflow) + n
  local bad = found.nan + found.inf + found.overflow
  local own = make.arange(0, n - 1, { dtype = 'f64' }):to(g.device)
  local index = own * (1 - bad):reshape(n) + (place * bad):reshape(n)
  g:copy_(ops.concat({ g:reshape(n), five:to(g.device) }, 1):take(index:to 'i64')
    :reshape(g.shape))
end

local function replace(list, nan, inf, over, most)
  for _, each in ipairs(list) do
    local found = marks(each.grad, most)
    if (found.nan + found.inf + found.overflow):sum():item() > 0 then
      put(each.grad, found, nan, inf, over)
    end
  end
end

local function as_given(self, list)
  local o = self.options
  replace(list, o.nan_replacement, o.inf_replacement, o.overflow_replacement,
    o.overflow_threshold)
end

local function zero_bad(self, list)
  replace(list, 0, 0, 0, self.options.overflow_threshold)
end

local function zero_all(list)
  for _, each in ipairs(list) do each.grad:fill_(0) end
end

local function scale(list, factor)
  for _, each in ipairs(list) do each.grad:mul_(factor) end
end

-- -- What is kept to go back to -------------------------------------------------------------------

-- What a step changes: parameters, moments and counts.
local function lasting(optimizer)
  local list = {}
  for _, group in ipairs(optimizer.groups) do
    for _, p in ipairs(group.params) do list[#list + 1] = p end
    for _, states in ipairs(group.states) do
      for _, x in ipairs(states) do list[#list + 1] = x end
    end
    for _, place in ipairs(group.places) do list[#list + 1] = place.count end
  end
  return list
end

-- What is kept of this optimizer; that of a loaded state belongs to the first one that it fits.
local function kept_of(self, optimizer)
  for _, kept in ipairs(self.kept) do
    if kept.optimizer == optimizer then return kept end
  end
  local list = lasting(optimizer)
  for _, kept in ipairs(self.kept) do
    local fits = not kept.optimizer and #kept.copies == #list
    for i = 1, fits and #list or 0 do
      fits = fits and kept.copies[i]:describe() == list[i]:detach():to('cpu'):describe()
    end
    if fits then
      kept.optimizer = optimizer
      for i, x in ipairs(list) do kept.copies[i] = ref.outlive(kept.copies[i]:to(x.device)) end
      return kept
    end
  end
end

local function not_finite(x) return (x * 0):ne(0) end

-- Keep all of it as it is now; where it is not finite, what was kept before is better.
local function keep(self, optimizer)
  local list, whole = lasting(optimizer), {}
  for i, x in ipairs(list) do whole[i] = { grad = x:detach() } end
  if gradients.count(whole, not_finite) > 0 then return end
  local kept = kept_of(self, optimizer)
  if kept then
    for i, x in ipairs(list) do kept.copies[i]:copy_(x) end
    return
  end
  kept = { optimizer = optimizer, copies = {} }
  for i, x in ipairs(list) do kept.copies[i] = ref.outlive(x:detach():clone()) end
  self.kept[#self.kept + 1] = kept
end

-- After each good step of the optimizer, or each so many of them, what it left is kept.
local function follow(self, optimizer)
  if kept_of(self, optimizer) == nil then keep(self, optimizer) end
  optimizer:after_step(self, function()
    if not self.passed then return end
    self.passed, self.good = false, self.good + 1
    if self.good % self.options.every == 0 then
      gradients.quietly(keep, self, optimizer)
    end
  end)
end

-- -- The seven ways -------------------------------------------------------------------------------

local WAYS = {}

function WAYS.detect(_, _, found) return 'detected', found.nan + found.inf == 0 end

function WAYS.replace(self, list)
  as_given(self, list)
  return 'replaced', true
end

function WAYS.skip() return 'skipped', false end

function WAYS.restore(self, _, _, optimizer)
  local kept = kept_of(self, optimizer)
  for i, x in ipairs(kept and lasting(optimizer) or {}) do x:copy_(kept.copies[i]) end
  return 'restored', false
end

function WAYS.gradient_zeroing(self, list)
  for _, each in ipairs(list) do
    local here = look(self, { each })
    if here.share > 0 then each.grad:fill_(0) end
  end
  return 'gradients_zeroed', true
end

function WAYS.adaptive(self, list, found)
  if found.share > HIGH then
    zero_all(list)
    return 'adaptive_zeroed_high', true
  elseif found.share > MEDIUM then
    as_given(self, list)
    return 'adaptive_replaced_medium', true
  end
  zero_bad(self, list)
  scale(list, 0.1)
  return 'adaptive_scaled_low', true
end

function WAYS.gradient_scaling(self, list, found)
  local factor = found.share > HIGH and 0.1 or found.share > MEDIUM and 0.3 or 0.7
  zero_bad(self, list)
  scale(list, factor)
  return ('scaled_%g'):format(factor), true
end

--- Look at the gradients that an optimizer is about to use, and deal with what is not finite.
---@param optimizer table
---@return table found nan_detected, inf_detected, overflow_detected, handling_action ('none' or
---  what was done), nan, inf and overflow elements now, total_nan, total_inf, total_overflow so
---  far, step (may the step be taken?)
function Guard:apply(optimizer)
  if type(optimizer) ~= 'table' or type(optimizer.groups) ~= 'table' then
    blame.raise('optim.Guard: an optimizer is expected, got ' .. blame.show(optimizer))
  end
  return gradients.quietly(function()
    Running.of(optimizer):settle()
    local list = gradients.list(optimizer)
    local found = look(self, list)
    local action, step = 'none', true
    if self.options.kind == 'restore' then follow(self, optimizer) end
    self.passed = found.share == 0
    if found.share > 0 then
      action, step = WAYS[self.options.kind](self, list, found, optimizer)
    end
    local t = self.totals
    t.nan, t.inf, t.overflow = t.nan + found.nan, t.inf + found.inf, t.overflow + found.overflow
    return { nan_detected = found.nan > 0, inf_detected = found.inf > 0,
      overflow_detected = found.overflow > 0, handling_action = action, step = step,
      nan = found.nan, inf = found.inf, overflow = found.overflow,
      total_nan = t.nan, total_inf = t.inf, total_overflow = t.overflow }
  end)
end

--- What it remembers: totals, good steps, and what is kept to go back to.
---@return table state totals {nan, inf, overflow}, good, kept: a list of lists of tensors
function Guard:state()
  local t, kept = self.totals, {}
  for i, each in ipairs(self.kept) do kept[i] = each.copies end
  return { totals = { nan = t.nan, inf = t.inf, overflow = t.overflow }, good = self.good,
    kept = kept }
end

--- Take what another one remembered.
---@param state table as `state` gives it
---@return table self
function Guard:load_state(state)
  local what = 'optim.Guard:load_state'
  state = options.check(STATE, state, what)
  local totals, kept = options.check(TOTALS, state.totals, what), {}
  for i, copies in ipairs(state.kept) do
    if type(copies) ~= 'table' then
      blame.raise(('%s: kept is lists of tensors, and holds %s'):format(what, blame.show(copies)),
        'EARG')
    end
    kept[i] = { copies = {} }
    for k, x in ipairs(copies) do
      kept[i].copies[k] = ref.outlive(ref.need(x, what):detach():to('cpu'):clone())
    end
  end
  self.totals, self.kept, self.good, self.passed = totals, kept, state.good, false
  return self
end

function Guard:__tostring()
  return ('optim.Guard(%s)'):format(self.options.kind)
end

return Guard

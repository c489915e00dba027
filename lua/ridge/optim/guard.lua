-- SPDX-License-Identifier: MIT
--- Gradients that are not finite, or too large to be meant: the seven ways of the documents behind
--- ridge to deal with them, each of which does what it says.

local blame = require 'ridge.blame'
local class = require('ridge.class').class
local gradients = require 'ridge.optim.gradients'
local make = require('ridge.tensor.make').here
local options = require 'ridge.options'

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

-- Shares of bad elements at which adaptive and gradient_scaling change what they do.
local HIGH, MEDIUM = 0.1, 0.01

--- A way to deal with gradients that are not finite.
---
--- detect says so and leaves them (the step then carries them into the parameters); replace puts
--- numbers in their place; skip leaves the step out, moments and all; restore leaves it out and
--- takes parameters and moments back to the last good step; gradient_zeroing clears the tensors
--- that hold any; adaptive clears everything, replaces, or zeroes and scales, by how many there
--- are; gradient_scaling zeroes them and scales the rest by 0.1, 0.3 or 0.7.
---@param opts table|nil {kind = 'detect', nan_replacement = 0, inf_replacement = 1e6,
---  overflow_replacement = 1e6, overflow_threshold = 1e6, every = 1}
-- >> ridge.optim.Guard {kind = 'skip'}
function Guard:init(opts)
  self.options = options.check(SPEC, opts, 'optim.Guard')
  self.totals = { nan = 0, inf = 0, overflow = 0 }
  self.good = 0
end

-- -- What there is --------------------------------------------------------------------------------

local function is_nan(g) return g:ne(g) end
local function is_inf(g) return g:abs():eq(math.huge) end

local function look(self, list)
  local most = self.options.overflow_threshold
  local nan, inf = gradients.count(list, is_nan), gradients.count(list, is_inf)
  -- infinities are above the threshold as well; a nan is above nothing
  local over = gradients.count(list, function(g) return g:abs():gt(most) end) - inf
  return { nan = nan, inf = inf, overflow = over, share = (nan + inf + over)
    / math.max(1, gradients.elements(list)) }
end

-- -- What to do -----------------------------------------------------------------------------------

-- Put a number where mask is 1: what stands there, nan or infinite, must not be multiplied.
local function put(g, mask, value)
  mask = mask:to(g.dtype)
  local list, marks = g:reshape(g.count):tolist(), mask:reshape(g.count):tolist()
  for i, m in ipairs(marks) do
    if m == 1 then list[i] = type(value) == 'function' and value(list[i]) or value end
  end
  g:copy_(make.tensor(list, { dtype = g.dtype }):reshape(g.shape))
end

local function signed(value)
  return function(x) return x < 0 and -value or value end
end

local function replace(list, nan, inf, over, most)
  for _, each in ipairs(list) do
    local g = each.grad
    local bad_nan, bad_inf = is_nan(g), is_inf(g)
    local large = g:abs():gt(most)
    if large:to('f64'):sum():item() > 0 then put(g, large, signed(over)) end
    if bad_inf:to('f64'):sum():item() > 0 then put(g, bad_inf, signed(inf)) end
    if bad_nan:to('f64'):sum():item() > 0 then put(g, bad_nan, nan) end
  end
end

local function as_given(self, list)
  local o = self.options
  -- the sign of an infinity is seen before it is replaced
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

local WAYS = {}

function WAYS.detect() return 'detected', true end

function WAYS.replace(self, list)
  as_given(self, list)
  return 'replaced', true
end

function WAYS.skip() return 'skipped', false end

function WAYS.restore(self)
  -- nothing kept: no step has passed here, and the parameters are what they were
  for _, pair in ipairs(self.kept or {}) do pair[1]:copy_(pair[2]) end
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

-- Parameters and moments as they are now.
local function keep(self, optimizer)
  local list = {}
  for _, group in ipairs(optimizer.groups) do
    for _, p in ipairs(group.params) do list[#list + 1] = p end
    for _, states in ipairs(group.states) do
      for _, x in ipairs(states) do list[#list + 1] = x end
    end
    for _, place in ipairs(group.places) do list[#list + 1] = place.count end
  end
  if not self.kept then
    self.kept = {}
    for i, x in ipairs(list) do self.kept[i] = { x, x:detach():clone() } end
    return
  end
  for i, x in ipairs(list) do self.kept[i][2]:copy_(x) end
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
    local list = gradients.list(optimizer)
    local found = look(self, list)
    local action, step = 'none', true
    if found.share > 0 then
      action, step = WAYS[self.options.kind](self, list, found)
    elseif self.options.kind == 'restore' then
      if self.good % self.options.every == 0 then keep(self, optimizer) end
      self.good = self.good + 1
    end
    local t = self.totals
    t.nan, t.inf, t.overflow = t.nan + found.nan, t.inf + found.inf, t.overflow + found.overflow
    return { nan_detected = found.nan > 0, inf_detected = found.inf > 0,
      overflow_detected = found.overflow > 0, handling_action = action, step = step,
      nan = found.nan, inf = found.inf, overflow = found.overflow,
      total_nan = t.nan, total_inf = t.inf, total_overflow = t.overflow }
  end)
end

function Guard:__tostring()
  return ('optim.Guard(%s)'):format(self.options.kind)
end

return Guard

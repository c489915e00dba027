-- SPDX-License-Identifier: MIT
--- Clipping of gradients in the seven ways of the documents behind ridge, each of which does what
--- it says.
---
--- Norms, thresholds and what is remembered of the steps before are tensors beside the gradients:
--- the host waits for nothing, and a captured step goes on clipping at replay. Reading what was
--- found waits.

local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local class = require('ridge.class').class
local gradients = require 'ridge.optim.gradients'
local make = require 'ridge.tensor.make'
local ops = require 'ridge.tensor.ops'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'

local Clip = class 'optim.Clip'

local KINDS = { 'norm', 'global_norm', 'value', 'adaptive', 'layer_wise', 'percentile',
  'exponential' }

local SPEC = {
  kind = { 'string', default = 'norm', choices = KINDS, doc = 'how' },
  max_norm = { 'number', default = 1, min = 1e-300, max = 1e300,
    doc = 'norm, layer_wise; where exponential begins' },
  max_value = { 'number', default = 1, min = 1e-300, max = 1e300, doc = 'value' },
  adaptive_threshold = { 'number', default = 0.1, min = 1e-300, max = 1e300,
    doc = 'adaptive, for the first step' },
  adaptive_factor = { 'number', default = 2, min = 1e-300, max = 1e300,
    doc = 'adaptive: times the mean of the last ten norms' },
  layer_norm_thresholds = { 'table', doc = 'layer_wise: by the name of a parameter' },
  percentile_threshold = { 'number', default = 95, min = 0, max = 100,
    doc = 'percentile of the absolute values' },
  exponential_alpha = { 'number', default = 0.9, min = 0, max = 1,
    doc = 'exponential: how much of the threshold stays' },
  exponential_min_threshold = { 'number', default = 0.1, min = 0, max = 1e300,
    doc = 'exponential: the least' },
}

local REMEMBERED = { 'any', required = true, doc = 'a tensor' }
local STATE = { norms = REMEMBERED, filled = REMEMBERED, threshold = REMEMBERED }

local NORMS = 10 -- adaptive remembers so many

--- A way to clip gradients.
---@param opts table|nil {kind = 'norm', max_norm = 1, max_value = 1, adaptive_threshold = 0.1,
---  adaptive_factor = 2, layer_norm_thresholds = {}, percentile_threshold = 95,
---  exponential_alpha = 0.9, exponential_min_threshold = 0.1}
-- >> ridge.optim.Clip {kind = 'value', max_value = 0.5}
function Clip:init(opts)
  self.options = options.check(SPEC, opts, 'optim.Clip')
  local function number(value, n) return ref.outlive(make.full(value, n, { dtype = 'f64' })) end
  self.memory = { norms = number(0, NORMS), filled = number(0, 1),
    threshold = number(self.options.max_norm, 1) }
end

-- What is remembered, from now on on this device.
local function remembered(self, device)
  local m = self.memory
  if m.norms.device ~= device then
    for name, x in pairs(m) do m[name] = ref.outlive(x:to(device)) end
  end
  return m
end

-- -- What was found -------------------------------------------------------------------------------

-- Tensors of one number by name, read as if they were numbers. Those of a plan are others at each
-- replay.
local Found = {}

function Found.__index(self, name)
  local from = rawget(self, Found)
  local x = from[name]
  if x == nil then return nil end
  local value = type(x) == 'function' and x(self) or x:item()
  if not from[Found] then rawset(self, name, value) end
  return value
end

local function found_of(tensors)
  for _, x in pairs(tensors) do
    if ref.is(x) then ref.outlive(x) end
  end
  tensors[Found] = C.rg_capturing() == 1
  return setmetatable({ [Found] = tensors }, Found)
end

-- -- Tensors of one number ------------------------------------------------------------------------

-- a where a bool holds, else b, whatever the other one is: nothing is multiplied by 0.
local function pick(holds, a, b)
  local n = a.count
  return ops.concat({ b:reshape(1, n), a:reshape(1, n) }, 1):take(holds:to('i64'):reshape(1))
    :reshape(n)
end

local function is_finite(x)
  return (x * 0):eq(0)
end

-- This number, wherever x is and whatever it is.
local function constant(x, value)
  return x:eq(x):to('f64') * 0 + value
end

local function norm_of(list)
  return gradients.norm(list):reshape(1)
end

local function scale_all(list, factor)
  for _, each in ipairs(list) do
    each.grad:mul_(factor:to(each.grad.device):to(each.grad.dtype):reshape())
  end
end

local function clamp_all(list, most)
  for _, each in ipairs(list) do
    local here = ref.is(most) and most:to(each.grad.device):to(each.grad.dtype):reshape() or most
    each.grad:copy_(each.grad:minimum(here):maximum(-here))
  end
end

-- What gradients of this norm are multiplied by; 1 where it is not finite, which nothing would
-- help: an infinity times 0 is nan, and every other gradient would be 0.
local function factor_of(norm, most)
  return pick(is_finite(norm), (most / (norm + 1e-6)):minimum(1), constant(norm, 1))
end

local function to_norm(list, norm, most)
  scale_all(list, factor_of(norm, most))
end

--- The value below which so many percent of all absolute values lie, to one part in 10^9 of the
--- largest: by halving, so that no list of all elements is made.
local function percentile(list, percent)
  local wanted = percent / 100 * gradients.elements(list)
  local high
  for _, each in ipairs(list) do
    local most = each.grad:abs():max():to('f64'):reshape(1)
    high = high and high:maximum(most:to(high.device)) or most
  end
  -- where one is nan nothing is said of the others: clamped to nan they would all be lost
  high = pick(is_finite(high), high, constant(high, math.huge))
  local low = constant(high, 0)
  for _ = 1, 30 do
    local middle = (low + high) * 0.5
    local enough = gradients.counted(list, function(g)
      return g:abs():le(middle:to(g.device):to(g.dtype):reshape())
    end):ge(wanted)
    high, low = pick(enough, middle, high), pick(enough, low, middle)
  end
  return high
end

local WAYS = {}

function WAYS.norm(self, list, norm)
  to_norm(list, norm, self.options.max_norm)
end
WAYS.global_norm = WAYS.norm -- two names of the documents for one thing

function WAYS.value(self, list)
  clamp_all(list, self.options.max_value)
end

-- The norms of the last steps say what is usual.
function WAYS.adaptive(self, list, norm, found)
  local m, o = remembered(self, norm.device), self.options
  local usual = m.norms:sum():reshape(1) / m.filled:maximum(1) * o.adaptive_factor
  local threshold = pick(m.filled:gt(0), usual, constant(norm, o.adaptive_threshold))
  local finite = is_finite(norm)
  local later = ops.concat({ m.norms:narrow(1, 2, NORMS - 1), norm }, 1)
  m.norms:copy_(pick(finite, later, m.norms))
  m.filled:copy_((m.filled + finite:to 'f64'):minimum(NORMS))
  found.adaptive_threshold = threshold
  to_norm(list, norm, threshold)
end

function WAYS.layer_wise(self, list, _, found)
  local thresholds = self.options.layer_norm_thresholds or {}
  local ratios = {}
  for i, each in ipairs(list) do
    local factor = factor_of(norm_of { each }, thresholds[each.name] or self.options.max_norm)
    scale_all({ each }, factor)
    ratios[each.name or i] = -(factor - 1)
  end
  ratios = found_of(ratios)
  found.layer_clipping_ratios = function() return ratios end
end

function WAYS.percentile(self, list, _, found)
  found.percentile_threshold = percentile(list, self.options.percentile_threshold)
  clamp_all(list, found.percentile_threshold)
end

function WAYS.exponential(self, list, norm, found)
  local m, o = remembered(self, norm.device), self.options
  local next_one = (m.threshold * o.exponential_alpha + norm * (1 - o.exponential_alpha))
    :maximum(o.exponential_min_threshold)
  m.threshold:copy_(pick(is_finite(norm), next_one, m.threshold))
  found.exp_threshold = m.threshold * 1
  to_norm(list, norm, m.threshold)
end

-- The share of the norm that was taken off; nothing was where both are infinite.
local function ratio(found)
  local norm, clipped = found.gradient_norm, found.clipped_norm
  return norm > clipped and 1 - clipped / norm or 0
end

--- Clip the gradients that an optimizer is about to use, in place. Nobody waits for it; reading a
--- number of what was found does.
---@param optimizer table
---@return table found gradient_norm before, clipped_norm after, clipping_ratio (the share of the
---  norm that was taken off, 0 to 1), and by kind adaptive_threshold, layer_clipping_ratios,
---  percentile_threshold or exp_threshold
function Clip:apply(optimizer)
  return gradients.quietly(function()
    local list = gradients.list(optimizer)
    if #list == 0 then return { gradient_norm = 0, clipped_norm = 0, clipping_ratio = 0 } end
    local norm = norm_of(list)
    local found = { gradient_norm = norm, clipping_ratio = ratio }
    WAYS[self.options.kind](self, list, norm, found)
    found.clipped_norm = norm_of(list)
    return found_of(found)
  end)
end

--- What it remembers of the steps before.
---@return table state tensors by name: norms, filled, threshold
function Clip:state()
  local m = self.memory
  return { norms = m.norms, filled = m.filled, threshold = m.threshold }
end

--- Take what another one remembered.
---@param state table as `state` gives it
---@return table self
function Clip:load_state(state)
  local what = 'optim.Clip:load_state'
  state = options.check(STATE, state, what)
  for name, x in pairs(self.memory) do
    if ref.need(state[name], what):describe() ~= x:describe() then
      blame.raise(('%s: %s is %s, and here %s'):format(what, name, state[name]:describe(),
        x:describe()), 'ESHAPE')
    end
  end
  gradients.quietly(function()
    for name, x in pairs(self.memory) do x:copy_(state[name]) end
  end)
  return self
end

function Clip:__tostring()
  return ('optim.Clip(%s)'):format(self.options.kind)
end

return Clip

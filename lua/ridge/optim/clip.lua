-- SPDX-License-Identifier: MIT
--- Clipping of gradients in the seven ways of the documents behind ridge, each of which does what
--- it says.

local class = require('ridge.class').class
local gradients = require 'ridge.optim.gradients'
local options = require 'ridge.options'

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

local NORMS = 10 -- adaptive remembers so many

--- A way to clip gradients.
---@param opts table|nil {kind = 'norm', max_norm = 1, max_value = 1, adaptive_threshold = 0.1,
---  adaptive_factor = 2, layer_norm_thresholds = {}, percentile_threshold = 95,
---  exponential_alpha = 0.9, exponential_min_threshold = 0.1}
-- >> ridge.optim.Clip {kind = 'value', max_value = 0.5}
function Clip:init(opts)
  self.options = options.check(SPEC, opts, 'optim.Clip')
  self.norms, self.threshold = {}, self.options.max_norm
end

local function norm_of(list)
  local norm = gradients.norm(list)
  return norm and norm:item() or 0
end

local function scale_all(list, factor)
  if factor < 1 then
    for _, each in ipairs(list) do each.grad:mul_(factor) end
  end
end

local function clamp_all(list, most)
  for _, each in ipairs(list) do
    each.grad:copy_(each.grad:minimum(most):maximum(-most))
  end
end

local function to_norm(list, norm, most)
  scale_all(list, math.min(1, most / (norm + 1e-6)))
end

--- The value below which so many percent of all absolute values lie, to one part in 10^9 of the
--- largest: by halving, so that no list of all elements is made.
local function percentile(list, percent)
  local n = gradients.elements(list)
  local wanted = percent / 100 * n
  local low, high = 0, 0
  for _, each in ipairs(list) do high = math.max(high, each.grad:abs():max():item()) end
  local below = function(t)
    return gradients.count(list, function(g) return g:abs():le(t) end)
  end
  for _ = 1, 30 do
    local middle = (low + high) / 2
    if below(middle) >= wanted then high = middle else low = middle end
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
  local threshold = self.options.adaptive_threshold
  if #self.norms > 0 then
    local sum = 0
    for _, n in ipairs(self.norms) do sum = sum + n end
    threshold = sum / #self.norms * self.options.adaptive_factor
  end
  if norm == norm and norm < math.huge then
    table.insert(self.norms, norm)
    if #self.norms > NORMS then table.remove(self.norms, 1) end
  end
  found.adaptive_threshold = threshold
  to_norm(list, norm, threshold)
end

function WAYS.layer_wise(self, list, _, found)
  local thresholds = self.options.layer_norm_thresholds or {}
  found.layer_clipping_ratios = {}
  for i, each in ipairs(list) do
    local norm = norm_of { each }
    local most = thresholds[each.name] or self.options.max_norm
    local factor = math.min(1, most / (norm + 1e-6))
    scale_all({ each }, factor)
    found.layer_clipping_ratios[each.name or i] = 1 - factor
  end
end

function WAYS.percentile(self, list, _, found)
  found.percentile_threshold = percentile(list, self.options.percentile_threshold)
  clamp_all(list, found.percentile_threshold)
end

function WAYS.exponential(self, list, norm, found)
  local o = self.options
  if norm == norm and norm < math.huge then
    self.threshold = math.max(o.exponential_min_threshold,
      o.exponential_alpha * self.threshold + (1 - o.exponential_alpha) * norm)
  end
  found.exp_threshold = self.threshold
  to_norm(list, norm, self.threshold)
end

--- Clip the gradients that an optimizer is about to use, in place.
---@param optimizer table
---@return table found gradient_norm before, clipped_norm after, clipping_ratio (the share of the
---  norm that was taken off, 0 to 1), and by kind adaptive_threshold, layer_clipping_ratios,
---  percentile_threshold or exp_threshold
function Clip:apply(optimizer)
  return gradients.quietly(function()
    local list = gradients.list(optimizer)
    local norm = norm_of(list)
    local found = { gradient_norm = norm, clipped_norm = norm, clipping_ratio = 0 }
    if #list == 0 then return found end
    WAYS[self.options.kind](self, list, norm, found)
    found.clipped_norm = norm_of(list)
    if norm > 0 then found.clipping_ratio = math.max(0, 1 - found.clipped_norm / norm) end
    return found
  end)
end

function Clip:__tostring()
  return ('optim.Clip(%s)'):format(self.options.kind)
end

return Clip

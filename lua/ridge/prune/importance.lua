-- SPDX-License-Identifier: MIT
--- What each output of a layer is worth: from its weights, or from data.

local batches = require 'ridge.quant.batches'
local blame = require 'ridge.blame'
local guard = require 'ridge.guard'
local class = require('ridge.class').class
local columns = require 'ridge.show.columns'
local copy = require 'ridge.nn.copy'
local in_no_grad = require('ridge.tensor.grad').no_grad
local inference = require('ridge.tensor.mode').inference
local layers = require 'ridge.prune.layers'
local loss = require 'ridge.nn.loss'
local make = require 'ridge.tensor.make'
local nets = require 'ridge.quant.nets'
local options = require 'ridge.options'
local original = require('ridge.guard').original
local random = require 'ridge.random'

local M = {}

local WHAT = 'prune.importance'

local SPEC = {
  by = { 'string', default = 'l1', choices = { 'l1', 'l2', 'random', 'activation', 'taylor' },
    doc = 'what an output is worth' },
  calibrate = { 'table', doc = 'a loader of x, and of labels for taylor; for activation, taylor' },
  batches = { 'integer', default = 100, min = 1, doc = 'of calibrate, at most' },
  loss = { 'any', doc = 'function(y, ...) of what the net gives and of the rest of a batch, for '
    .. 'taylor; cross entropy when left out' },
  seed = { 'integer', default = 1, min = 0, max = 2 ^ 53, doc = "of by = 'random'" },
}

local Importance = class 'prune.Importance'
M.Importance = Importance

function Importance:init(by, rows, seen, n)
  self.by, self.layers, self.seen, self.batches = by, rows, seen, n
end

-- Rows of a tensor, each as one number.
local function by_row(x) return x:detach():to('f64'):reshape(x:size(1), -1) end

-- -- From weights ---------------------------------------------------------------------------------

local OF_WEIGHT = {}

function OF_WEIGHT.l1(w) return by_row(w):abs():mean(2) end

function OF_WEIGHT.l2(w) return by_row(w):square():mean(2):sqrt() end

function OF_WEIGHT.random(w, generator)
  return make.rand(w:size(1), { generator = generator, dtype = 'f64' })
end

-- -- From data ------------------------------------------------------------------------------------

-- The mean magnitude of each output of a layer.
local function magnitude(row, y)
  local axis = y.ndim
  if getmetatable(row.module) == nets.Conv2d and row.module.layout ~= 'nhwc' then axis = 2 end
  local over = {}
  for i = 1, y.ndim do
    if i ~= axis then over[#over + 1] = i end
  end
  local found = y:detach():to('f64'):abs()
  return #over > 0 and found:mean(over) or found
end

local function activation(made, rows, opts, seen)
  for _, row in ipairs(rows) do
    local forward = rawget(row.module, 'forward') or original(getmetatable(row.module).forward)
    rawset(row.module, 'forward', function(self, ...)
      local y = forward(self, ...)
      local found = magnitude(row, y)
      row.sum, row.n = row.sum and row.sum + found or found, (row.n or 0) + 1
      return y
    end)
  end
  local n = 0
  for x in batches.each(opts.calibrate, opts.batches, WHAT, 'calibrate') do
    seen:add(x)
    inference(made, x)
    n = n + 1
  end
  for _, row in ipairs(rows) do
    if not row.n then
      blame.raise(('%s: %s never ran with the batches of calibrate'):format(WHAT, row.name), 'EARG')
    end
    row.score = row.sum / row.n
  end
  return n
end

-- The squared change of the loss, to first order, where an output's weights and bias become 0
-- (Molchanov et al., 2019), summed over batches.
local function taylor(made, rows, opts, seen)
  local n, of = 0, opts.loss or loss.cross_entropy
  made:freeze(false) -- a copy: what is frozen is worth as much
  for _, p in ipairs(made:parameters()) do
    if p.trainable then p.tensor:requires_grad_() end
  end
  for x, labels, more in batches.each(opts.calibrate, opts.batches, WHAT, 'calibrate') do
    if labels == nil and not opts.loss then
      blame.raise(WHAT .. ': taylor reads labels, and a batch of calibrate is x alone', 'EARG')
    end
    seen:add(x)
    for _, p in ipairs(made:parameters()) do p.tensor:zero_grad() end
    of(made(x), labels, more):backward()
    in_no_grad(function()
      for _, row in ipairs(rows) do
        if not row.weight.grad then
          blame.raise(('%s: no gradient of the loss comes to %s'):format(WHAT, row.name), 'EARG')
        end
        local change = (by_row(row.weight) * by_row(row.weight.grad)):sum(2)
        local bias = row.module.bias
        if bias and bias.grad then
          change = change + (bias:detach() * bias.grad):to 'f64'
        end
        row.score = row.score and row.score + change:square() or change:square()
      end
    end)
    n = n + 1
  end
  return n
end

local FROM_DATA = { activation = activation, taylor = taylor }

-- -- All of it ------------------------------------------------------------------------------------

local function check_finite(rows)
  for _, row in ipairs(rows) do
    if row.score:isfinite():all():item() == 0 then
      blame.raise(('%s: what %s is worth is nan or infinite'):format(WHAT, row.name), 'EARG')
    end
  end
end

--- What each output of the layers of a net is worth, for ridge.prune.shrink.
---
--- l1 and l2 are means over its weights; activation is its mean magnitude on data, and taylor how
--- much the loss would change, to first order, without it (Molchanov et al., 2019), of batches with
--- labels. Data is seen in evaluation mode. What was seen here is refused as test data later.
---@param net table module
---@param opts table|nil {by = 'l1', calibrate = loader, batches = 100, loss = function(y, labels),
---  seed = 1}
---@return table i layers {name, class, scores}, by, batches (how many were seen); print()
-- >> local net = ridge.nn.Sequential(ridge.nn.Linear(8, 4), ridge.nn.ReLU(), ridge.nn.Linear(4, 2))
-- >> return ridge.prune.importance(net, { by = 'l2' })
function M.importance(net, opts)
  opts = options.check(SPEC, opts, WHAT)
  nets.need(net, WHAT, true)
  local from = FROM_DATA[opts.by]
  if from and not opts.calibrate then
    blame.raise(('%s: %s reads data: option calibrate is missing, a loader'):format(WHAT, opts.by),
      'EARG')
  end
  if opts.loss ~= nil and not blame.callable(opts.loss) then
    blame.raise(('%s: option loss is function(y, labels), got %s'):format(WHAT,
      blame.show(opts.loss)), 'EARG')
  end
  local made, seen, n = copy.clone(net):eval(), batches.seen(), nil
  local rows = layers.taken(layers.of(made, nil, WHAT), WHAT)
  if from then
    n = from(made, rows, opts, seen)
  else
    local generator = random.generator(opts.seed)
    for _, row in ipairs(rows) do
      row.score = in_no_grad(OF_WEIGHT[opts.by], row.module.weight, generator)
    end
  end
  check_finite(rows)
  local list = {}
  for i, row in ipairs(rows) do
    list[i] = { name = row.name, class = row.class, scores = row.score:tolist() }
  end
  return Importance(opts.by, list, from and seen or nil, n)
end

--- The scores of a layer, or nil.
---@param name string
---@return number[]|nil
function Importance:of(name)
  for _, row in ipairs(self.layers) do
    if row.name == name then return row.scores end
  end
end

function Importance:__tostring()
  local cells = {}
  for i, row in ipairs(self.layers) do
    local sorted = { unpack(row.scores) }
    table.sort(sorted)
    local function at(q) return ('%.3g'):format(sorted[math.floor((#sorted - 1) * q + 1.5)]
      or sorted[#sorted]) end
    cells[i] = { row.name, row.class, tostring(#sorted), at(0), at(0.5), at(1) }
  end
  return ('importance by %s%s\n%s'):format(self.by, self.batches
    and (', %d batches'):format(self.batches) or '', columns.text({ 'layer', 'class', 'outputs',
    'least', 'median', 'most' }, cells))
end

--- Print it.
function Importance:print() print(tostring(self)) end

Importance.__tostring = guard.text(Importance.__tostring)

return M

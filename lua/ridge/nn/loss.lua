-- SPDX-License-Identifier: MIT
--- Losses: how far what a network says is from what it should say. Each is a function, and a module
--- of the same name in capitals that keeps its options.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'
local blame = require 'ridge.blame'
local class = require('ridge.class').class
local dtype = require 'ridge.tensor.dtype'
local options = require 'ridge.options'
local ranges = require 'ridge.ranges'
local schema = require 'ridge.tensor.schema'
local settings = require 'ridge.tensor.settings'
local state = require 'ridge.state'
local choose = require 'ridge.tensor.choose'
local Module = require 'ridge.nn.module'

local M = {}

local slot, need = ref.slot, ref.need

local CROSS_ENTROPY = settings.of(schema.of 'cross_entropy', {
  rules = { weight = { 'any', doc = 'a number for each class, as a tensor' } },
})
local REDUCE = CROSS_ENTROPY.spec.reduction

local function reduced(loss, opts)
  if opts.reduction == 'none' then return loss end
  return opts.reduction == 'sum' and loss:sum() or loss:mean()
end

-- Prediction and target have one shape: broadcasting here is a mistake that trains nothing.
local function both(x, y, what)
  need(x, what)
  need(y, what)
  local a, b = x._t, y._t
  local same = a._ndim == b._ndim
  for i = 0, same and a._ndim - 1 or -1 do same = same and a._shape[i] == b._shape[i] end
  if not same then
    blame.raise(('%s: the prediction is %s and the target %s; they have one shape'):format(what,
      x:describe(), y:describe()), 'ESHAPE', what)
  end
end

-- -- Classes ------------------------------------------------------------------------------------

local SPECS = {}

SPECS.cross_entropy = CROSS_ENTROPY.spec

local cross_t = ffi.typeof 'rg_cross_entropy_options'
local noting -- the entry of the innermost `with_total`: the last mean of a cross entropy in it

--- Cross entropy of scores with labels; softmax is part of it.
---@param x Tensor [... x classes], scores
---@param labels Tensor [...], whole numbers from 0
---@param opts table|nil {weight = Tensor, ignore = -100, smoothing = 0, reduction = 'mean'}
---@return Tensor loss one number, or with reduction = 'none' one for each row
-- >> ridge.nn.cross_entropy(ridge.zeros(2, 4), ridge.tensor({1, 3}, {dtype = 'i64'}))
function M.cross_entropy(x, labels, opts)
  need(x, 'cross_entropy')
  need(labels, 'cross_entropy')
  opts = options.check(SPECS.cross_entropy, opts, 'cross_entropy')
  if ranges.met then ranges.met('loss', M.cross_entropy, x, labels, opts) end
  if opts.weight ~= nil then need(opts.weight, 'cross_entropy') end
  call.settle()
  local cross = CROSS_ENTROPY.write(cross_t(), opts, 'cross_entropy')
  local weight = opts.weight ~= nil and opts.weight._t or nil
  local st = C.rg_cross_entropy(x._t, labels._t, weight, cross, slot)
  if st ~= 0 then call.again(st, C.rg_cross_entropy, x._t, labels._t, weight, cross, slot) end
  local loss = ref.wrap(slot[0])
  if noting and opts.reduction == 'mean' then
    noting.found = { loss = loss, labels = labels, weight = opts.weight, ignore = opts.ignore }
  end
  return loss
end

local NOTING = {}

function NOTING.on(entry) entry.outer, noting = noting, entry end

function NOTING.off(entry) noting, entry.outer = entry.outer, nil end

-- Call a loss. Where it is a mean of cross entropies, say what the mean divides by, the weight of
-- the labels that are not ignored (f64, []), and which those are (1 or 0, f64, as the labels):
-- means of parts make the mean of all only when each counts by this.
function M.with_total(f, output, target)
  local entry = {}
  local loss = state.with(NOTING, entry, f, output, target)
  local found = entry.found
  if not (found and ref.is(loss) and found.loss._t == loss._t) then return loss end
  local labels = found.labels:to 'i64'
  local counts = labels:ne(found.ignore):to 'f64'
  if not found.weight then return loss, counts:sum(), counts end
  local each = found.weight:detach():to('f64'):take((labels:to 'f64' * counts):to 'i64':reshape(
    labels.count)) -- of class 0 where the label is ignored
  return loss, (each * counts:reshape(labels.count)):sum(), counts
end

SPECS.bce_with_logits = {
  pos_weight = { 'any', doc = 'how much a target of 1 counts; a tensor or a number' },
  reduction = REDUCE,
}

--- Binary cross entropy of scores: -y log(sigmoid(x)) - (1 - y) log(1 - sigmoid(x)), which is
--- softplus(x) - x y, and finite for every finite score.
---@param x Tensor any shape, scores
---@param y Tensor the same shape, from 0 to 1
---@param opts table|nil {pos_weight =, reduction = 'mean'}
---@return Tensor loss
function M.bce_with_logits(x, y, opts)
  both(x, y, 'bce_with_logits')
  opts = options.check(SPECS.bce_with_logits, opts, 'bce_with_logits')
  if ranges.met then ranges.met('loss', M.bce_with_logits, x, y, opts) end
  return blame.within('bce_with_logits', function()
    if opts.pos_weight == nil then return reduced(x:softplus() - x * y, opts) end
    local count = y * (opts.pos_weight - 1) + 1
    return reduced(x * (1 - y) + count * (-x):softplus(), opts)
  end)
end

SPECS.distillation_loss = {
  temperature = { 'number', default = 4, min = 1e-6, max = 1e6, doc = 'softens both sides' },
  alpha = { 'number', default = 0.5, min = 0, max = 1, doc = 'share of the teacher' },
}

-- The logarithm of softmax along the last axis.
local function log_softmax(x)
  local shifted = x - x:detach():max(-1, true)
  return shifted - shifted:exp():sum(-1, true):log()
end

--- What a student should say (Hinton et al., Distilling the Knowledge in a Neural Network, 2015):
--- alpha T^2 KL(softmax(teacher / T) || softmax(student / T)) + (1 - alpha) cross entropy with the
--- labels. The mean over the rows; no gradient reaches the teacher.
---@param student Tensor [... x classes], scores
---@param teacher Tensor the same shape, scores
---@param labels Tensor|nil [...], whole numbers from 0; not read when alpha is 1
---@param opts table|nil {temperature = 4, alpha = 0.5}
---@return Tensor loss one number
-- >> ridge.nn.distillation_loss(ridge.zeros(1, 3), ridge.ones(1, 3), ridge.tensor({2},
-- >>   {dtype = 'i64'}))
function M.distillation_loss(student, teacher, labels, opts)
  both(student, teacher, 'distillation_loss')
  opts = options.check(SPECS.distillation_loss, opts, 'distillation_loss')
  if opts.alpha < 1 then need(labels, 'distillation_loss') end
  return blame.within('distillation_loss', function()
    local t = opts.temperature
    local soft = log_softmax(teacher:detach() * (1 / t))
    local p = soft:exp() -- what never comes adds nothing, though its logarithm is no number
    local each = choose.where(p:eq(0), p, p * (soft - log_softmax(student * (1 / t))))
    local apart = each:sum(-1):mean()
    if opts.alpha == 1 then return apart * (t * t) end
    return apart * (opts.alpha * t * t) + M.cross_entropy(student, labels) * (1 - opts.alpha)
  end)
end

-- -- Numbers ------------------------------------------------------------------------------------

SPECS.mse_loss = { reduction = REDUCE }

--- The squared difference.
---@param x Tensor
---@param y Tensor the same shape
---@param opts table|nil {reduction = 'mean'}
---@return Tensor loss
-- >> ridge.nn.mse_loss(ridge.zeros(3), ridge.ones(3))
function M.mse_loss(x, y, opts)
  both(x, y, 'mse_loss')
  opts = options.check(SPECS.mse_loss, opts, 'mse_loss')
  if ranges.met then ranges.met('loss', M.mse_loss, x, y, opts) end
  return blame.within('mse_loss', function() return reduced((x - y):square(), opts) end)
end

SPECS.l1_loss = { reduction = REDUCE }

--- The magnitude of the difference.
---@param x Tensor
---@param y Tensor the same shape
---@param opts table|nil {reduction = 'mean'}
---@return Tensor loss
function M.l1_loss(x, y, opts)
  both(x, y, 'l1_loss')
  opts = options.check(SPECS.l1_loss, opts, 'l1_loss')
  if ranges.met then ranges.met('loss', M.l1_loss, x, y, opts) end
  return blame.within('l1_loss', function() return reduced((x - y):abs(), opts) end)
end

SPECS.huber_loss = {
  delta = { 'number', default = 1, min = 1e-30, doc = 'where the parabola becomes a line' },
  reduction = REDUCE,
}

--- Half the square of small differences, and a line from delta on (Huber, 1964).
---@param x Tensor
---@param y Tensor the same shape
---@param opts table|nil {delta = 1, reduction = 'mean'}
---@return Tensor loss
function M.huber_loss(x, y, opts)
  both(x, y, 'huber_loss')
  opts = options.check(SPECS.huber_loss, opts, 'huber_loss')
  if ranges.met then ranges.met('loss', M.huber_loss, x, y, opts) end
  return blame.within('huber_loss', function()
    local far = (x - y):abs()
    local near = far:minimum(opts.delta)
    return reduced(near * (far - near * 0.5), opts)
  end)
end

-- -- Modules ------------------------------------------------------------------------------------

for name, f in pairs { CrossEntropyLoss = 'cross_entropy', BCEWithLogitsLoss = 'bce_with_logits',
                       MSELoss = 'mse_loss', L1Loss = 'l1_loss', HuberLoss = 'huber_loss' } do
  local Loss = class('nn.' .. name, Module)
  function Loss:init(opts)
    Module.init(self)
    options.check(SPECS[f], opts, 'nn.' .. name)
    self.options = {}
    for key, value in pairs(opts or {}) do self.options[key] = value end
  end
  --- Bring weights among the options to another device; types stay.
  function Loss:to(where)
    for key, value in pairs(dtype.is_device(where) and self.options or {}) do
      if ref.is(value) then
        self.options[key] = value:to(where)
        C.rg_scope_keep(self.options[key]._t)
      end
    end
    return self
  end
  function Loss:forward(x, y) return M[f](x, y, self.options) end
  Loss.__doc = ('%s(options): ridge.nn.%s with options that stay.'):format(name, f)
  M[name] = Loss
end

return M

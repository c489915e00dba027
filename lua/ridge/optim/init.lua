-- SPDX-License-Identifier: MIT
--- Optimizers under PyTorch's names. Each step is one call of the core over all parameters.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local class = require('ridge.class').class
local Optimizer = require 'ridge.optim.optimizer'
local late = require 'ridge.late'
local schema = require 'ridge.tensor.schema'
local settings = require 'ridge.tensor.settings'

local M = { Optimizer = Optimizer }

-- The options of a step's record, with the learning rate, and with betas where it has two of them.
-- more: what they are beside the record's, as ridge.tensor.settings has it.
local function settings_of(name, lr, betas, more)
  local rules = more or {}
  rules.lr = { 'number', default = lr, min = 0, max = 1e30, doc = 'learning rate' }
  rules.betas = betas and
    { 'table', default = betas, doc = 'how much moments keep: {first, second}' }
  return settings.of(schema.of(name), { rules = rules,
    as = { beta1 = false, beta2 = false, decoupled = false } })
end

-- Both shares, each in [0, 1).
local function both(given, what)
  local a, b = given[1], given[2]
  for _, v in ipairs { a or -1, b or -1 } do
    if type(v) ~= 'number' or not (v >= 0 and v < 1) then
      blame.raise(('%s: betas are two numbers in [0, 1), got %s'):format(what, blame.show(v)),
        'EARG', what)
    end
  end
  return a, b
end

-- -- Gradient descent ---------------------------------------------------------------------------

local SGD = class('optim.SGD', Optimizer)
local SGD_SETTINGS = settings_of('sgd_step', 1e-3)
SGD.spec = SGD_SETTINGS.spec
SGD.step_of = function(inputs, core) return C.rg_sgd_step(inputs, core) end

function SGD.n_states(o) return o.momentum > 0 and 1 or 0 end

function SGD.core_options(o)
  if o.nesterov and (o.momentum == 0 or o.dampening ~= 0) then
    blame.raise("optim.SGD: Nesterov's momentum wants a momentum, and no dampening", 'EARG')
  end
  return SGD_SETTINGS.write(ffi.new 'rg_sgd_options', o, 'optim.SGD')
end

--- Gradient descent, with momentum if you like.
---@param params any a module, a list of tensors, or of groups {params =, lr =, ...}
---@param opts table|nil {lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0,
---  nesterov = false}
-- >> net = ridge.nn.Linear(4, 2, {seed = 1})
-- >> ridge.optim.SGD(net, {lr = 0.1, momentum = 0.9})
function SGD:init(params, opts) Optimizer.init(self, params, opts) end

M.SGD = SGD

-- -- Adam ---------------------------------------------------------------------------------------

for name, decoupled in pairs { Adam = false, AdamW = true } do
  local what = 'optim.' .. name
  local Adam = class(what, Optimizer)
  local adam = settings_of('adam_step', 1e-3, { 0.9, 0.999 }, { weight_decay = {
    default = decoupled and 0.01 or 0,
    doc = decoupled and 'pull towards 0, beside the step' or 'added to the gradient' } })
  Adam.spec = adam.spec
  Adam.step_of = function(inputs, core) return C.rg_adam_step(inputs, core) end

  function Adam.n_states(o) return o.amsgrad and 3 or 2 end

  function Adam.core_options(o)
    local core = adam.write(ffi.new 'rg_adam_options', o, what)
    core.beta1, core.beta2 = both(o.betas, what)
    core.decoupled = decoupled and 1 or 0
    return core
  end

  Adam.__doc = ('%s(params, {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = %g, '
    .. 'amsgrad = false}): %s'):format(name, decoupled and 0.01 or 0, decoupled
    and 'Adam with weights that decay beside the step (Loshchilov and Hutter, 2019)'
    or 'Adam (Kingma and Ba, 2015)')

  --- Adam (Kingma and Ba, 2015); AdamW decays weights beside the step.
  function Adam:init(params, opts) Optimizer.init(self, params, opts) end

  M[name] = Adam
end

-- -- Lion ---------------------------------------------------------------------------------------

local Lion = class('optim.Lion', Optimizer)
local LION_SETTINGS = settings_of('lion_step', 1e-4, { 0.9, 0.99 })
Lion.spec = LION_SETTINGS.spec
Lion.step_of = function(inputs, core) return C.rg_lion_step(inputs, core) end

function Lion.n_states() return 1 end

function Lion.core_options(o)
  local core = LION_SETTINGS.write(ffi.new 'rg_lion_options', o, 'optim.Lion')
  core.beta1, core.beta2 = both(o.betas, 'optim.Lion')
  return core
end

--- Lion (Chen et al., 2023): steps of one size, by the sign of a moment.
---@param params any a module, a list of tensors, or of groups
---@param opts table|nil {lr = 1e-4, betas = {0.9, 0.99}, weight_decay = 0}
function Lion:init(params, opts) Optimizer.init(self, params, opts) end

M.Lion = Lion

-- -- What goes with them ------------------------------------------------------------------------

local LATE = {
  GradScaler = 'ridge.optim.scaler', Clip = 'ridge.optim.clip', Guard = 'ridge.optim.guard',
}
for _, name in ipairs { 'StepLR', 'CosineLR', 'OneCycleLR', 'PlateauLR' } do
  LATE[name] = { 'ridge.optim.schedule', name }
end

return late.namespace(M, LATE, 'optim')

-- SPDX-License-Identifier: MIT
--- The training pipeline of document 001 in one call (F117).

local Trainer = require('ridge.train.trainer').Trainer
local blame = require 'ridge.blame'
local options = require 'ridge.options'
local setup = require 'ridge.train.setup'

local M = {}

--- A trainer of this very model with what a level switches, and what came of it.
---@param model table a module: it is changed in place where the level changes it, never copied
---@param loader table ridge.data.Loader: gets the level's threads, where it has none
---@param optimizer table one of ridge.optim
---@param loss function|table|nil of output and target; cross entropy when left out
---@param opts table|nil {level = 'advanced'}, and the other options of ridge.Trainer
---@return table trainer trainer.model is the model; trainer:fit(loader, {epochs =}) trains it
---@return table summary level, switched (list of {name =, on = boolean, text =}: what is on, and
---  why the rest is not), config as in trainer:status()
-- >> net = ridge.nn.Linear(3, 2, {seed = 1})
-- >> loader = ridge.data.Loader({ridge.randn(8, 3), ridge.zeros(8):to 'i64'}, {batch = 4})
-- >> trainer, summary = ridge.optimize_training(net, loader, ridge.optim.Adam(net))
function M.optimize_training(model, loader, optimizer, loss, opts)
  if type(loader) ~= 'table' or type(loader.each) ~= 'function' then
    blame.raise(('optimize_training: a loader is expected, got %s'):format(blame.show(loader)),
      'EARG')
  end
  local given = options.over({ level = 'advanced' }, opts, 'optimize_training')
  given.optimizer, given.loss = optimizer, loss
  local trainer = Trainer(model, given)
  setup.fit(trainer, loader)
  return trainer, { level = trainer.options.level, switched = trainer.switched,
    config = trainer:status().config }
end

return M

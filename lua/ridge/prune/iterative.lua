-- SPDX-License-Identifier: MIT
--- Pruning in steps, with training in between.

local accuracy = require 'ridge.quant.accuracy'
local blame = require 'ridge.blame'
local class = require 'ridge.class'
local copy = require 'ridge.nn.copy'
local analyze = require('ridge.prune.analyze').analyze
local mask = require 'ridge.prune.mask'
local masks = require 'ridge.prune.masks'
local nets = require 'ridge.quant.nets'
local notes = require 'ridge.prune.notes'
local options = require 'ridge.options'
local outcome = require 'ridge.prune.outcome'
local Scheduler = require('ridge.prune.scheduler').Scheduler

local M = {}

local WHAT = 'prune.iterative'

local SPEC = {
  schedule = { 'table', required = true, doc = 'a ridge.prune.Scheduler' },
  epochs = { 'integer', default = 1, min = 0, max = 1e6, doc = 'for train, behind each step' },
  train = { 'any', required = true, doc = 'function(net, epochs): trains the net it is given' },
  test = { 'table', doc = 'a loader of (x, labels): what it cost, beside random pruning' },
  control = { 'boolean', default = true, doc = 'prune at random as well, with as much training' },
}
for name, rule in pairs(masks.SPEC) do SPEC[name] = rule end

local function check(opts)
  opts = options.check(SPEC, opts, WHAT)
  if not class.is_a(opts.schedule, Scheduler) then
    blame.raise(('%s: option schedule is a ridge.prune.Scheduler, got %s'):format(WHAT,
      blame.show(opts.schedule)), 'EARG')
  end
  outcome.need_train(opts.train, WHAT, true)
  local how = masks.how(opts, WHAT)
  if how.pattern.kind == 'n:m' then
    blame.raise(('%s: pattern %s has one sparsity, and no steps to it; prune.magnitude prunes so')
      :format(WHAT, how.pattern.name), 'EARG')
  end
  return opts, how
end

-- Zeros of the layers that were to have them.
local function zeros_of(net, list)
  local n, pruned = 0, {}
  for _, row in ipairs(list) do pruned[row.name] = not row.why end
  for _, row in ipairs(analyze(net).layers) do
    if pruned[row.layer] then n = n + row.zeros end
  end
  return n
end

local function run(net, opts, how, rows)
  local made, list = copy.clone(net), nil
  for step = 1, opts.schedule.steps do
    list = masks.layers(made, how, opts.skip, WHAT)
    masks.apply(made, list, how, opts.schedule:at(step), WHAT)
    local before = zeros_of(made, list)
    made:train()
    opts.train(made, opts.epochs)
    if zeros_of(made, list) < before then
      blame.raise(('%s: train took masks off the net: %d weights were 0, and %d are'):format(WHAT,
        before, zeros_of(made, list)), 'EARG')
    end
    mask.settle(made)
    local a = analyze(made)
    if rows then
      rows[#rows + 1] = { step = step, sparsity = a.share, zeros = a.zeros, weights = a.weights,
        text = ('step %d: %d of %d weights are 0 (%.2f %%), then %d epochs'):format(step,
          a.zeros, a.weights, 100 * a.share, opts.epochs) }
    end
  end
  if net.training then made:train() else made:eval() end -- whatever `train` left it in
  return notes.attach(made, 'iterative', list, how.pattern)
end

local function random_of(how)
  local random = {}
  for name, value in pairs(how) do random[name] = value end
  random.method = 'random'
  return random
end

--- A copy of a net that is pruned in steps, with training behind each. What is pruned stays 0 while
--- it is trained, and behind the last step as many weights are 0 as the schedule's target says.
---
--- With `test`, the report has its accuracy beside the original's and beside the same run with
--- weights pruned at random: a method that is not shown to be better than that has chosen nothing.
--- The control takes the whole time once more; control = false leaves it out.
---@param net table module, in either mode
---@param opts table {schedule = ridge.prune.Scheduler, epochs = 1, train = function(net, epochs),
---  method = 'l1', scope = 'global', pattern = 'element', skip = {'head'}, seed = 1,
---  test = loader, control = true}
---@return table m masked, as ridge.prune.magnitude makes them
---@return table report rows {step, sparsity, zeros, weights}, candidates {name, accuracy}, controls
---  {name, accuracy, verdict}, notes; print()
-- >> local schedule = ridge.prune.Scheduler { target = 0.5, steps = 2 }
-- >> local m = ridge.prune.iterative(ridge.nn.Linear(8, 4), { schedule = schedule,
-- >>   train = function(net) end })
-- >> return ridge.prune.analyze(m).share
function M.iterative(net, opts)
  nets.need(net, WHAT, true)
  local how
  opts, how = check(opts)
  local trial = copy.clone(net) -- what cannot end well does not begin
  masks.apply(trial, masks.layers(trial, how, opts.skip, WHAT), how, opts.schedule.target, WHAT)
  local report = outcome.new 'iterative'
  local made = run(net, opts, how, report.rows)
  if not opts.test then
    return made, report:note 'without option test nothing is known of what it cost'
  end
  report:judge('pruned', net, made, opts.test, WHAT)
  if not opts.control then return made, report:note 'control = false: no random pruning' end
  if how.method == 'random' then return made, report:note 'it is pruned at random itself' end
  local random = run(net, opts, random_of(how))
  report:judge('control, pruned at random', net, random, opts.test, WHAT)
  report:against('random pruning', accuracy.pair(random, made, opts.test, WHAT))
  return made, report
end

return M

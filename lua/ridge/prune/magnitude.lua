-- SPDX-License-Identifier: MIT
--- Pruning in one step: the weights that are worth least become 0 and stay so.

local blame = require 'ridge.blame'
local copy = require 'ridge.nn.copy'
local masks = require 'ridge.prune.masks'
local nets = require 'ridge.quant.nets'
local notes = require 'ridge.prune.notes'
local options = require 'ridge.options'

local M = {}

local WHAT = 'prune.magnitude'

local SPEC = { sparsity = { 'number', nan = true, doc = 'the share that becomes 0, such as 0.7' } }
for name, rule in pairs(masks.SPEC) do SPEC[name] = rule end

--- The share that a pattern prunes: of n:m it is no choice.
---@param given number|nil
---@param pattern table
---@param what string the function's name, for errors
---@return number
local function share_of(given, pattern, what)
  if pattern.kind ~= 'n:m' then
    masks.need_share(given, 'sparsity', what)
    return given
  end
  local share = 1 - pattern.n / pattern.m
  if given and math.abs(given - share) > 1e-9 then
    blame.raise(('%s: pattern %s is a sparsity of %g; got %s'):format(what, pattern.name, share,
      blame.show(given)), 'EARG')
  end
  return share
end

--- A copy of a net in which the weights that are worth least are 0, and stay 0 while it is trained:
--- each pruned weight has a mask (`layer.weight_mask`), through which it is read.
---
--- l1 and l2 are the mean of |w| and of its square over what is pruned together: one weight
--- ('element'), 16 outputs of one input ('block', as sparse products keep them), n of m inputs
--- ('2:4'), or all of an output ('row', 'filter'), whose bias and whose batch normalisation
--- directly behind it are masked as well; rows of the last layer stay. A mask alone makes nothing
--- smaller or faster: prune.compact and prune.shrink do. The net stays as it was; the copy is in
--- its mode.
---@param net table module, in either mode
---@param opts table {sparsity = 0.7, method = 'l1', scope = 'global', pattern = 'element', skip =
---  {'head'}, seed = 1}
---@return table m
-- >> local m = ridge.prune.magnitude(ridge.nn.Linear(8, 4), { sparsity = 0.5 })
-- >> return m.weight:ne(0):to('i32'):sum():item()
function M.magnitude(net, opts)
  opts = options.check(SPEC, opts, WHAT)
  nets.need(net, WHAT, true)
  local how, made = masks.how(opts, WHAT), copy.clone(net)
  local share = share_of(opts.sparsity, how.pattern, WHAT)
  local list = masks.layers(made, how, opts.skip, WHAT)
  masks.apply(made, list, how, share, WHAT)
  return notes.attach(made, 'magnitude', list, how.pattern)
end

return M

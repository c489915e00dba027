-- SPDX-License-Identifier: MIT
--- Which weights of a net are pruned: what they are worth, patterns and scope make masks here, for
--- one step and for many.

local BatchNorm = require('ridge.nn.batchnorm').BatchNorm
local Sequential = require 'ridge.nn.sequential'
local blame = require 'ridge.blame'
local in_no_grad = require('ridge.tensor.grad').no_grad
local layers = require 'ridge.prune.layers'
local make = require 'ridge.tensor.make'
local mask = require 'ridge.prune.mask'
local nets = require 'ridge.quant.nets'
local ops = require 'ridge.tensor.ops'
local parameter = require 'ridge.nn.parameter'
local pattern = require 'ridge.prune.pattern'
local random = require 'ridge.random'
local where = require('ridge.tensor.choose').where

local M = {}

M.SPEC = {
  method = { 'string', default = 'l1', choices = { 'l1', 'l2', 'random' },
    doc = 'what a unit is worth' },
  scope = { 'string', default = 'global', choices = { 'global', 'layer' },
    doc = 'the share of all layers together, or of each' },
  pattern = { 'string', default = 'element', names = { 'element', 'block', '2:4', 'row', 'filter' },
    doc = 'what is pruned together' },
  skip = { 'table', doc = 'names of layers, or of modules, that stay as they are' },
  seed = { 'integer', default = 1, min = 0, max = 2 ^ 53, doc = "of method = 'random'" },
}

--- Raise unless it is a share of weights that can go.
---@param value any
---@param name string the option
---@param what string the function's name, for errors
function M.need_share(value, name, what)
  if type(value) ~= 'number' or not (value > 0 and value < 1) then
    blame.raise(('%s: option %s is a share of the weights, more than 0 and less than 1%s; got %s')
      :format(what, name, type(value) == 'number' and value > 1 and value < 100
      and (' (%g for %g %%)'):format(value / 100, value) or '', blame.show(value)), 'EARG')
  end
end

-- -- Worth ----------------------------------------------------------------------------------------

-- What each weight is worth, [rows x columns].
local function worth_of(row, method, generator)
  if method == 'random' then
    return make.rand(row.rows, row.columns, { generator = generator }):to(row.weight.device)
  end
  local w = row.weight:detach():to('f32'):reshape(row.rows, row.columns)
  return method == 'l1' and w:abs() or w * w
end

local function check_finite(x, row, what)
  if x:isfinite():all():item() == 1 then return x end
  blame.raise(('%s: %s has weights that are nan or infinite'):format(what, row.name), 'EARG')
end

local function score_of(row, how, generator, what)
  local score
  if how.method == 'random' then -- the mean of many draws would be much the same for all
    local zeros = make.zeros(row.rows, row.columns)
    score = make.rand(pattern.score(how.pattern, zeros).count, { generator = generator })
      :to(row.weight.device)
  else
    score = check_finite(pattern.score(how.pattern, worth_of(row, how.method)), row, what)
  end
  local before = mask.of(row.module, 'weight')
  if before then -- what is pruned stays pruned: it is worth less than anything
    local there = pattern.score(how.pattern, before:to('f32'):reshape(row.rows, row.columns))
    score = where(there:gt(0), score, -1)
  end
  return score
end

-- -- Masks ----------------------------------------------------------------------------------------

-- A layer of which nothing is left ends what the net computes.
local function refuse_all(row, n, units, how, what)
  if n < units then return end
  blame.raise(('%s: all %d %s of %s would be 0; less sparsity, %sor skip'):format(what, units,
    how.pattern.kind == 'row' and 'rows' or how.pattern.kind == 'block' and 'blocks' or 'weights',
    row.name, how.scope == 'global' and "scope = 'layer' " or ''), 'EARG')
end

local function check_rest(row, keep, how, what)
  refuse_all(row, keep:logical_not():to('i64'):sum():item(), keep.count, how, what)
  return keep
end

local function sizes_of(row, how)
  return pattern.sizes(how.pattern, row.rows, row.columns, row.weight.device)
end

local function keeps_by_layer(rows, scores, how, share, what)
  local keeps = {}
  for i, row in ipairs(rows) do
    keeps[i] = check_rest(row, pattern.keep(scores[i], sizes_of(row, how), share), how, what)
  end
  return keeps
end

local function joined(list) return #list == 1 and list[1] or ops.concat(list, 1) end

local function keeps_of_all(rows, scores, how, share, what)
  local sizes, at, keeps = {}, 1, {}
  for i, row in ipairs(rows) do sizes[i] = sizes_of(row, how) end
  local keep = pattern.keep(joined(scores), joined(sizes), share)
  for i, row in ipairs(rows) do
    keeps[i] = check_rest(row, keep:narrow(1, at, scores[i].count), how, what)
    at = at + scores[i].count
  end
  return keeps
end

local function masks_of(rows, how, share, what)
  local generator, masks = random.generator(how.seed), {}
  if how.pattern.kind == 'n:m' then
    for i, row in ipairs(rows) do
      masks[i] = pattern.some_of(how.pattern, check_finite(worth_of(row, how.method, generator),
        row, what))
    end
    return masks
  end
  local scores = {}
  for i, row in ipairs(rows) do scores[i] = score_of(row, how, generator, what) end
  local keeps = (how.scope == 'layer' and keeps_by_layer or keeps_of_all)(rows, scores, how, share,
    what)
  for i, row in ipairs(rows) do
    masks[i] = pattern.mask(how.pattern, keeps[i], row.rows, row.columns)
  end
  return masks, keeps
end

-- -- Rows -----------------------------------------------------------------------------------------

-- The batch normalisation directly behind a layer in a Sequential: it would add something to what
-- is 0.
local function norms_behind(net)
  local found = {}
  nets.each(net, function(module)
    if getmetatable(module) ~= Sequential then return end
    for i = 1, #module.children - 1 do
      if getmetatable(module[i + 1]) == BatchNorm then found[module[i]] = module[i + 1] end
    end
  end)
  return found
end

local function mask_own(module, name, keep)
  local p = parameter.entry(module, name)
  if p and not mask.is_other(module, name) then
    mask.set({ { module = module, name = name } }, keep:clone())
  end
end

-- An output of which all weights are 0 is 0 only with its bias, and the normalisation behind it.
local function mask_rows(rows, keeps, net)
  local norms = norms_behind(net)
  for i, row in ipairs(rows) do
    local norm = norms[row.module]
    mask_own(row.module, 'bias', keeps[i])
    if norm and norm.n == row.rows then
      mask_own(norm, 'weight', keeps[i])
      mask_own(norm, 'bias', keeps[i])
    end
  end
end

-- -- All of it ------------------------------------------------------------------------------------

--- Options of a call, checked: the pattern by its parts.
---@param opts table
---@param what string the function's name, for errors
---@return table how method, scope, pattern, seed
function M.how(opts, what)
  return { method = opts.method, scope = opts.scope, seed = opts.seed,
    pattern = pattern.of(opts.pattern, what) }
end

--- The layers of a net that are pruned in a pattern, and those that are left, each with its reason.
---@param net table
---@param how table
---@param skip table|nil
---@param what string the function's name, for errors
---@return table[] list of all
function M.layers(net, how, skip, what)
  local list, last = layers.of(net, skip, what), nil
  for _, row in ipairs(list) do
    if not row.why then
      row.why = pattern.why_not(how.pattern, row.columns)
      last = row
    end
  end
  if how.pattern.kind == 'row' and last and last == list[#list] and #list > 1 then
    last.why = 'the last layer: its rows are what the net answers'
  end
  return list
end

--- Mask a net so that a share of the weights of these layers is 0.
---@param net table it is changed
---@param list table[] of M.layers
---@param how table
---@param share number of their weights
---@param what string the function's name, for errors
function M.apply(net, list, how, share, what)
  in_no_grad(function()
    local rows = layers.taken(list, what)
    local masks, keeps = masks_of(rows, how, share, what)
    for i, row in ipairs(rows) do
      mask.set(row.places, masks[i]:reshape(unpack(row.weight:size())))
    end
    if how.pattern.kind == 'row' then mask_rows(rows, keeps, net) end
  end)
end

return M

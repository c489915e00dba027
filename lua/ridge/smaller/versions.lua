-- SPDX-License-Identifier: MIT
--- Smaller versions of a net: narrower, pruned, in fewer bits, and all of it together.
---
--- A structure (width, pattern, sparsity) is trained once; every kind of numbers is made of it.

local blame = require 'ridge.blame'
local compact = require('ridge.prune.compact').compact
local copy = require 'ridge.nn.copy'
local dynamic = require('ridge.quant.dynamic').dynamic
local fresh = require 'ridge.prune.fresh'
local half = require('ridge.quant.half').half
local importance = require('ridge.prune.importance').importance
local iterative = require('ridge.prune.iterative').iterative
local magnitude = require('ridge.prune.magnitude').magnitude
local Scheduler = require('ridge.prune.scheduler').Scheduler
local shrink = require('ridge.prune.shrink').shrink
local static = require('ridge.quant.static').static
local weights = require('ridge.quant.weights').weights

local M = {}

local STEPS = 3 -- of iterative pruning

-- -- Structures ---------------------------------------------------------------------------------

--- All structures: the net itself, one change alone, then two at once.
---@param opts table widths, patterns, sparsities
---@return table[] list {width, pattern ('dense' of none), sparsity}
function M.structures(opts)
  local list, pruned = { { width = 1, pattern = 'dense', sparsity = 0 } }, {}
  for _, width in ipairs(opts.widths) do
    list[#list + 1] = { width = width, pattern = 'dense', sparsity = 0 }
  end
  for _, pattern in ipairs(opts.patterns) do
    local n, m = pattern:match '^(%d+):(%d+)$'
    for _, sparsity in ipairs(n and { 1 - n / m } or opts.sparsities) do
      pruned[#pruned + 1] = { width = 1, pattern = pattern, sparsity = sparsity }
    end
  end
  for _, at in ipairs(pruned) do list[#list + 1] = at end
  for _, width in ipairs(opts.widths) do
    for _, at in ipairs(pruned) do
      list[#list + 1] = { width = width, pattern = at.pattern, sparsity = at.sparsity }
    end
  end
  return list
end

--- What is changed in a structure, each by its name; two shares never have the same.
---@param at table {width, pattern, sparsity}
---@return string|nil width
---@return string|nil pruned
function M.parts(at)
  local pruned
  if at.pattern ~= 'dense' then
    pruned = at.pattern:find ':' and at.pattern
      or ('%s %.13g %%'):format(at.pattern, 100 * at.sparsity)
  end
  return at.width < 1 and ('width %.13g'):format(at.width) or nil, pruned
end

--- What a structure is called.
---@param at table {width, pattern, sparsity}
---@return string
function M.name(at)
  local width, pruned = M.parts(at)
  return width and pruned and width .. ', ' .. pruned or width or pruned or 'dense'
end

-- The narrower net; as a control its units are drawn, or it begins anew.
local function narrower(net, at, opts, control)
  local tuned = opts.train and control ~= 'start'
  local small = shrink(net, opts.input, { share = 1 - at.width, seed = opts.seed, time = false,
    control = false, train = tuned and opts.train or nil, epochs = opts.epochs,
    importance = control == 'random' and importance(net, { by = 'random', seed = opts.seed })
      or nil })
  if control == 'start' then
    local why = fresh.begin(small, opts.seed)
    if why then return nil, ('nobody knows how %s begins'):format(why) end
    opts.train(small:train(), opts.trained + opts.epochs)
    small:eval()
  end
  return small
end

local function pruned(net, at, opts, control)
  local how = { pattern = at.pattern, seed = opts.seed,
    method = control == 'random' and 'random' or 'l1' }
  if at.pattern:find ':' or not opts.train then
    how.sparsity = at.sparsity
    local made = magnitude(net, how)
    if opts.train then opts.train(made:train(), opts.epochs) end
    return made:eval()
  end
  how.schedule, how.train = Scheduler { target = at.sparsity, steps = STEPS }, opts.train
  how.epochs, how.control = opts.epochs, false
  return (iterative(net, how))
end

--- A structure, trained.
---@param net table in evaluation mode
---@param at table {width, pattern, sparsity}
---@param opts table input, train, epochs, trained, seed
---@param control string|nil 'random': what goes is drawn; 'start': the narrower net begins anew
---@return table|nil made in evaluation mode, with masks where it is pruned
---@return string|nil why there is none
function M.structure(net, at, opts, control)
  local made = net
  if at.width < 1 then
    local why
    made, why = narrower(net, at, opts, control)
    if not made then return nil, why end
  end
  if at.pattern ~= 'dense' then made = pruned(made, at, opts, control) end
  return made
end

-- -- Kinds of numbers -----------------------------------------------------------------------------

--- Kinds by their names.
M.KINDS = { 'bf16', 'f16', 'dynamic', 'static', 'w8', 'w6', 'w4', 'w3', 'w2' }

--- What a kind is called.
---@param kind string
---@return string
function M.kind_name(kind)
  return (kind == 'dynamic' or kind == 'static') and 'i8 ' .. kind
    or kind:match '^w%d$' and kind:sub(2) .. ' bits' or kind
end

-- For fewer bytes every layer is taken, for less time those that are shown to be as fast.
local function rows_of(opts) return opts.goal == 'time' and opts.input:size(1) or false end

local MAKE = {
  static = function(net, opts)
    return static(net, { calibrate = opts.calibrate, rows = rows_of(opts) })
  end,
  dynamic = function(net, opts) return dynamic(net, { rows = rows_of(opts) }) end,
  bf16 = function(net) return half(net, 'bf16') end,
  f16 = function(net) return half(net, 'f16') end,
}

local function packed(net, kind, opts)
  return weights(net, { bits = tonumber(kind:sub(2)), pad = true, rows = rows_of(opts),
    calibrate = opts.calibrate, method = opts.calibrate and 'gptq' or 'mse' })
end

local function none_taken(q)
  for _, row in ipairs(q._quant.rows) do
    if row.kind ~= 'f32' then return nil end
  end
  local first = q._quant.rows[1]
  return ('no layer: %s: %s'):format(first.name, first.why)
end

--- A structure in a kind of numbers, for running.
---@param made table of M.structure
---@param at table {width, pattern, sparsity}
---@param kind string 'f32', or of KINDS
---@param opts table input, calibrate, goal
---@return table|nil q
---@return string|nil why there is none
function M.of(made, at, kind, opts)
  if kind == 'f32' then
    if at.pattern == 'dense' then return copy.clone(made) end
    return (compact(made, { rows = opts.input:size(1) }))
  end
  local base = at.pattern == 'dense' and made or compact(made, { format = 'dense' })
  local q = (MAKE[kind] or function() return packed(base, kind, opts) end)(base, opts)
  local why = none_taken(q)
  return not why and q or nil, why
end

--- Raise unless these kinds and structures can be made.
---@param opts table
---@param what string the function's name, for errors
function M.check(opts, what)
  for _, kind in ipairs(opts.bits) do
    local known = false
    for _, name in ipairs(M.KINDS) do known = known or name == kind end
    if not known then
      blame.raise(('%s: there is no kind %s in bits; known: %s'):format(what, blame.show(kind),
        table.concat(M.KINDS, ', ')), 'EARG')
    elseif kind == 'static' and not opts.calibrate then
      blame.raise(what .. ": bits = 'static' needs option calibrate, a loader of inputs", 'EARG')
    end
  end
  local pattern = require 'ridge.prune.pattern'
  for _, name in ipairs(opts.patterns) do
    if type(name) ~= 'string' then
      blame.raise(('%s: option patterns has names, got %s'):format(what, blame.show(name)), 'EARG')
    end
    pattern.of(name, what)
  end
  local masks = require 'ridge.prune.masks'
  for _, share in ipairs(opts.sparsities) do masks.need_share(share, 'sparsities', what) end
  for _, share in ipairs(opts.widths) do masks.need_share(share, 'widths', what) end
end

return M

-- SPDX-License-Identifier: MIT
--- The layers of a net, each in every kind of whole numbers that is asked about, alone.

local apart = require 'ridge.quant.apart'
local batches = require 'ridge.quant.batches'
local blame = require 'ridge.blame'
local dynamic = require 'ridge.quant.dynamic'
local fold = require 'ridge.quant.fold'
local inference = require('ridge.tensor.mode').inference
local nets = require 'ridge.quant.nets'
local report = require 'ridge.quant.report'
local static = require 'ridge.quant.static'
local weights = require 'ridge.quant.weights'

local M = {}

--- Kinds by their names.
M.KINDS = { 'i8', 'w8', 'w6', 'w4', 'w3', 'w2' }

--- Check a list of kinds.
---@param kinds table
---@param what string the function's name, for errors
function M.check(kinds, what)
  if #kinds == 0 then blame.raise(what .. ': kinds is empty', 'EARG') end
  for _, kind in ipairs(kinds) do
    local known = false
    for _, name in ipairs(M.KINDS) do known = known or name == kind end
    if not known then
      blame.raise(('%s: there is no kind %s; known: %s'):format(what, blame.show(kind),
        table.concat(M.KINDS, ', ')), 'EARG')
    end
  end
end

local function others(layers, name)
  local list = {}
  for _, layer in ipairs(layers) do
    if layer.name ~= name and layer.name:sub(1, #name + 1) ~= name .. '.' then
      list[#list + 1] = layer.name
    end
  end
  return list
end

-- What an error says of one layer alone (its range, what comes in), and nil of all others.
local function said_of(err, name)
  local text = blame.is_error(err) and err.message:match '^quant%.%a+: (.*)$'
  if not text or text:sub(1, #name + 2) ~= name .. ': ' then return nil end
  return (text:sub(#name + 3):gsub('[:;] name it in skip$', ''))
end

-- The net with one layer in a kind.
local function alone(base, kind, skip, opts)
  if kind == 'i8' and opts.calibrate then
    return static.static(base, { calibrate = opts.calibrate, batches = opts.batches, skip = skip,
      rows = false })
  elseif kind == 'i8' then
    return dynamic.dynamic(base, { skip = skip, rows = false })
  end
  return weights.weights(base, { bits = tonumber(kind:sub(2)), skip = skip, pad = true,
    rows = false, batches = opts.batches, calibrate = opts.calibrate,
    method = opts.calibrate and 'gptq' or 'mse' })
end

-- The module of a name in a net.
local function named(net, name)
  local found = net
  nets.each(net, function(module, at) if at == name then found = module end end)
  return found
end

--- Raise where no layer can be in any kind, with what is in the way of the first.
---@param list table[] of M.of
---@param left table[] of M.of
---@param what string the function's name, for errors
function M.need_some(list, left, what)
  if #list > 0 then return end
  blame.raise(('%s: no layer can be in fewer bits%s'):format(what, left[1] and left[1].why
    and (' (%s: %s)'):format(left[1].name, left[1].why) or ''), 'EARG')
end

--- A folded copy of a net and what its layers can be.
---@param net table
---@param opts table kinds, validate, calibrate, batches
---@param what string the function's name, for errors
---@param over function|nil says that no more of them are to be made
---@param journal table|nil of ridge.quant.journal: those that it has are not made again
---@return table base the copy, which nothing was rounded of
---@return table[] list {name, class, kind, net (with that layer alone so), module, before (the
---  layer in base)}
---@return table[] left {name, class, why}: layers that no kind fits
---@return table taken names of Sequentials between whose modules nothing is moved
function M.of(net, opts, what, over, journal)
  local base = nets.copy(net)
  local taken
  for x in batches.each(opts.validate, 1, what, 'validate') do
    local axes
    taken, axes = apart.of(base, x)
    fold.fold(base, taken, axes)
    inference(base, x) -- what its products pack is there, as it is of candidates that are called
  end
  local layers, list, left = nets.layers(base), {}, {}
  for _, layer in ipairs(layers) do
    local skip, fits, why = others(layers, layer.name), false, nil
    for _, kind in ipairs(opts.kinds) do
      local key = kind .. ' ' .. layer.name
      local kept = journal and journal:net(key)
      local unfit = journal and journal.known['unfit ' .. key]
      local candidate = { name = layer.name, class = layer.class, kind = kind, module = kept,
        before = layer.module }
      if kept then
        candidate.net = M.together(base, { candidate })
        fits, list[#list + 1] = true, candidate
      elseif unfit then
        why = unfit
      elseif over and over() then
        break
      else
        local ok, q = pcall(alone, base, kind, skip, opts)
        why = not ok and (said_of(q, layer.name) or error(q, 0)) or why
        if not ok and journal then journal:put('unfit ' .. key, why) end
        for _, row in ipairs(ok and report.report(q).layers or {}) do
          if row.name == layer.name and row.kind ~= 'f32' then
            candidate.net, candidate.module = q, named(q, layer.name)
            fits, list[#list + 1] = true, candidate
            if journal then journal:put_net(key, candidate.module) end
          elseif row.name == layer.name then
            why = row.why
            if journal then journal:put('unfit ' .. key, why or 'no kind fits it') end
          end
        end
      end
    end
    if not fits then left[#left + 1] = { name = layer.name, class = layer.class, why = why } end
  end
  return base, list, left, taken
end

--- A copy of base with some layers in their kinds.
---@param base table
---@param chosen table candidate by name
---@return table made
function M.together(base, chosen)
  local made, twin = nets.copy(base)
  local map = {}
  for _, candidate in pairs(chosen) do
    -- each net has its own, because layers of one may be linked
    map[twin[candidate.before]] = candidate.module:clone()
  end
  return nets.exchange(made, map)
end

return M

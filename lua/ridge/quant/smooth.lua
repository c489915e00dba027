-- SPDX-License-Identifier: MIT
--- Range moved from activations into weights (SmoothQuant; Xiao et al., 2023): the columns of what
--- comes into a layer are made smaller where they are large, in the module before it, and the
--- layer's weights larger.

local apart = require 'ridge.quant.apart'
local batches = require 'ridge.quant.batches'
local blame = require 'ridge.blame'
local calibrate = require 'ridge.quant.calibrate'
local fold = require 'ridge.quant.fold'
local guard = require 'ridge.guard'
local in_no_grad = require('ridge.tensor.grad').no_grad
local masked = require 'ridge.nn.masked'
local nets = require 'ridge.quant.nets'
local norm = require 'ridge.nn.norm'
local options = require 'ridge.options'
local parameter = require 'ridge.nn.parameter'
local Sequential = require 'ridge.nn.sequential'

local M = {}

local WHAT = 'quant.smooth'
local TINY = 1e-5

local SPEC = {
  calibrate = { 'table', required = true, doc = 'a loader of inputs' },
  batches = { 'integer', default = 100, min = 1, doc = 'of them, at most' },
  alpha = { 'number', default = 0.5, min = 0, max = 1,
    doc = 'how much of the range moves: 0 none, 1 all' },
  skip = { 'table', doc = 'names of layers that stay as they are' },
}

local NORMS = { [norm.LayerNorm] = true, [norm.RMSNorm] = true }

-- Does an output scaled by a positive number come out of the activation scaled by it?
local LINEAR = { none = true, relu = true }

-- A module whose outputs can be divided by factors in its own parameters.
local function scalable(module)
  local kind = getmetatable(module)
  if NORMS[kind] then return module.weight ~= nil end
  return kind == nets.Linear and LINEAR[module.activation] == true
end

local function is_relu(module)
  return getmetatable(module).__name == 'nn.ReLU'
end

-- Is a weight or bias computed by something else than a mask, which cannot be multiplied?
local function is_computed(module)
  return masked.is_other(module, 'weight') or masked.is_other(module, 'bias')
end

-- Pairs of a module and the dense layer that alone reads what it gives, in Sequentials that nobody
-- takes apart. What shares its memory with another module stays: that one would change with it.
local function pairs_of(net, taken)
  local uses, shared, list = fold.uses_of(net), nets.shared(net), {}
  nets.each(net, function(s, name)
    if getmetatable(s) ~= Sequential or taken[name] then return end
    local before, prefix = nil, name == '' and '' or name .. '.'
    for at = 1, #s.children do
      local module = s[at]
      local once = uses[module] == 1
      local own = once and not shared[module] and not is_computed(module)
      if before and own and getmetatable(module) == nets.Linear then
        list[#list + 1] = { before = before.module, from = before.name, layer = module,
          name = prefix .. at }
      end
      if own and scalable(module) then
        before = { module = module, name = prefix .. at }
      elseif not (once and before and (is_relu(module) or fold.hands_on(module)
          and getmetatable(module).__name == 'nn.Dropout')) then
        before = nil
      end
    end
  end)
  return list
end

-- Write into parameters what was worked out beside them; behind a mask, which stays.
local function write(module, name, value)
  parameter.entry(module, name).tensor:copy_(value)
end

local function move(pair, most, alpha)
  in_no_grad(function()
    local w = pair.layer.weight:detach()
    local s = (most:maximum(TINY) ^ alpha / w:abs():max(1):maximum(TINY) ^ (1 - alpha))
      :maximum(TINY)
    write(pair.layer, 'weight', w * s)
    local before = pair.before
    local weight = before.weight:detach()
    write(before, 'weight', weight / (weight.ndim == 2 and s:reshape(-1, 1) or s))
    if before.bias then write(before, 'bias', before.bias:detach() / s) end
  end)
end

local Moved = { __name = 'quant.Moved' }

function Moved.__tostring(list)
  local lines = { 'quant.smooth changed the net itself:' }
  for _, each in ipairs(list) do
    lines[#lines + 1] = ('  range of what comes into %s moved into its weights, out of %s')
      :format(each.layer, each.from)
  end
  return table.concat(lines, '\n')
end
Moved.__tostring = guard.text(Moved.__tostring)

--- Move range from what comes into dense layers into their weights: factors go out of the module
--- before (a dense layer, a layer norm), in a Sequential, and into the layer's columns. What the
--- net computes stays, up to rounding; what is quantized afterwards loses less.
---
--- Unlike all others in ridge.quant this changes the net itself, and says so in what it returns.
---@param net table module in evaluation mode
---@param opts table {calibrate = loader, batches = 100, alpha = 0.5, skip = {...}}
---@return table moved list of {layer, from}: which layers, and where the range came from; it prints
-- >> local net = ridge.nn.Sequential(ridge.nn.Linear(8, 8), ridge.nn.Linear(8, 4)):eval()
-- >> local loader = ridge.data.Loader({ ridge.randn(32, 8) }, { batch = 8 })
-- >> return ridge.quant.smooth(net, { calibrate = loader, alpha = 0.5 })
function M.smooth(net, opts)
  opts = options.check(SPEC, opts, WHAT)
  nets.need(net, WHAT)
  local skipped, found, most = nets.skipped(net, opts.skip, WHAT), {}, {}
  local first, again = batches.peek(opts.calibrate, WHAT, 'calibrate')
  for _, pair in ipairs(pairs_of(net, (apart.of(net, first)))) do
    if not skipped(pair.name) then found[#found + 1] = pair end
  end
  if #found == 0 then
    blame.raise(WHAT .. ': no dense layer follows a dense layer or a norm in a Sequential, with '
      .. 'weights of their own, and range could only move from there', 'EARG')
  end
  local watched = {}
  for i, pair in ipairs(found) do watched[i] = { name = pair.name, module = pair.layer } end
  calibrate.run(net, watched, again, { what = WHAT, batches = opts.batches,
    see = function(name, x)
      local now = x:detach():reshape(-1, x:size(-1)):abs():max(1)
      most[name] = most[name] and most[name]:maximum(now) or now
    end })
  local moved = setmetatable({}, Moved)
  for _, pair in ipairs(found) do
    if not most[pair.name] or not (most[pair.name]:max():item() < math.huge) then
      blame.raise(('%s: %s: %s'):format(WHAT, pair.name, most[pair.name]
        and 'what comes in has nan or inf in it' or 'it never ran with the calibration data'),
        'EARG')
    end
  end
  for i, pair in ipairs(found) do
    move(pair, most[pair.name], opts.alpha)
    moved[i] = { layer = pair.name, from = pair.from }
  end
  return moved
end

return M

-- SPDX-License-Identifier: MIT
--- Training with rounding: weights are computed with as they will be rounded, and gradients go
--- through as if they were not (straight through; Bengio et al., 2013).

local blame = require 'ridge.blame'
local copy = require 'ridge.nn.copy'
local groups = require 'ridge.quant.groups'
local in_no_grad = require('ridge.tensor.grad').no_grad
local masked = require 'ridge.nn.masked'
local nets = require 'ridge.quant.nets'
local options = require 'ridge.options'
local packed = require 'ridge.quant.packed'
local padding = require 'ridge.quant.padding'
local parameter = require 'ridge.nn.parameter'
local report = require 'ridge.quant.report'

local M = {}

local SPEC = {
  bits = { 'integer', default = 4, choices = groups.BITS, doc = 'of a weight' },
  group = { 'integer', default = 32, choices = groups.GROUPS, doc = 'weights that share a scale' },
  minimum = { 'boolean', default = false, doc = 'a minimum beside each scale' },
  pad = { 'boolean', default = false,
    doc = 'features of zeros where groups do not divide the inputs of a layer' },
  skip = { 'table', doc = 'names of layers, or of modules, that stay as they are' },
}

-- A weight as it will be rounded.
local function rounded(w, how, pad)
  local value = groups.round(padding.behind(w:to 'f32', pad, 2), how).value
  return pad > 0 and value:narrow(2, 1, w:size(2)) or value
end

-- A mask stays: what is pruned is 0 before it is rounded, and 0 is a code.
local function round_through(module, how, pad)
  local mask = masked.off(module, 'weight')
  module:parametrize('weight', { buffers = mask and { mask = mask }, forward = function(w, held)
    if held then w = masked.forward(w, held) end
    return w + in_no_grad(function() return rounded(w:detach(), how, pad) - w:detach() end)
  end })
  rawset(module, '_rounding', { bits = how.bits, group = how.group, minimum = how.minimum,
    padding = pad })
end

local function check(layer, how, what)
  if masked.is_other(layer.module, 'weight') then
    blame.raise(('%s: the weight of %s is parametrised already: remove_parametrization makes it a '
      .. 'plain one, or name it in skip'):format(what, layer.name), 'EARG')
  elseif how.minimum and masked.of(layer.module, 'weight') then
    blame.raise(('%s: %s is pruned, and with a minimum 0 is no code: what is pruned would not '
      .. 'stay 0; minimum = false keeps it'):format(what, layer.name), 'EARG')
  end
end

--- A copy of a net to train, in training mode: the weights of dense layers are computed with as
--- they will be when they are rounded to a few bits, and gradients go through the rounding as if it
--- were not there. What is pruned stays 0. quant.convert makes the quantized net of what training
--- made of it.
---@param net table module, in either mode
---@param opts table|nil {bits = 4, group = 32, minimum = false, pad = false, skip = {'head'}}
---@return table t
-- >> local net = ridge.nn.Sequential(ridge.nn.Linear(32, 4))
-- >> return ridge.quant.prepare(net, { bits = 4 })(ridge.ones(1, 32)).requires_grad
function M.prepare(net, opts)
  local what = 'quant.prepare'
  opts = options.check(SPEC, opts, what)
  nets.need(net, what, true)
  local skipped, made, taken = nets.skipped(net, opts.skip, what), copy.clone(net), 0
  local how = { bits = opts.bits, group = opts.group, minimum = opts.minimum }
  for _, layer in ipairs(nets.layers(made)) do
    if rawget(layer.module, '_rounding') then
      blame.raise(('%s: %s is prepared already'):format(what, layer.name), 'EARG')
    end
    if getmetatable(layer.module) == nets.Linear and not layer.why and not skipped(layer.name) then
      check(layer, how, what)
      round_through(layer.module, how, padding.of(layer, opts, what))
      taken = taken + 1
    end
  end
  if taken == 0 then
    blame.raise(what .. ': no dense layer is left whose weights could be rounded', 'EARG')
  end
  return made:train()
end

-- A layer as the packed one that computes the same.
local function packed_of(module, name)
  local how = rawget(module, '_rounding')
  local trained = parameter.entry(module, 'weight').tensor:detach()
  local held = parameter.entry(module, 'weight_mask')
  if held then trained = masked.forward(trained, { mask = held.tensor }) end
  local w = padding.behind(trained:to 'f32', how.padding, 2)
  local found = groups.round(w, how)
  local why = groups.why_not(w, found, how)
  if why then blame.raise(('quant.convert: %s: %s'):format(name, why), 'EARG') end
  return packed.PackedLinear(module, found, how)
end

--- The quantized net of one that was prepared and trained: it computes what that one computes in
--- evaluation mode, with weights in codes. The trained net stays as it was.
---@param net table of quant.prepare
---@return table q
-- >> local t = ridge.quant.prepare(ridge.nn.Sequential(ridge.nn.Linear(32, 4)), { bits = 4 })
-- >> return ridge.quant.convert(t)
function M.convert(net)
  local what = 'quant.convert'
  nets.need(net, what, true)
  local made, list, map, how = nets.copy(net), {}, {}, nil
  for _, layer in ipairs(nets.layers(made)) do
    local own = rawget(layer.module, '_rounding')
    how = how or own
    list[#list + 1] = { name = layer.name, class = layer.class,
      kind = own and 'w' .. own.bits or 'f32', why = not own and 'was not prepared' or nil }
    if own then map[layer.module] = packed_of(layer.module, layer.name) end
  end
  if not how then
    blame.raise(what .. ': a net of quant.prepare is expected; none of these layers was prepared',
      'EARG')
  end
  return report.attach(nets.exchange(made, map), 'convert', list,
    { ('trained with rounding to %d bits in groups of %d'):format(how.bits, how.group) })
end

return M

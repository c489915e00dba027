-- SPDX-License-Identifier: MIT
--- A net of the same shape that was never trained: the control for what a smaller net has learned
--- before it was smaller.

local base = require 'ridge.nn.layer'
local in_no_grad = require('ridge.tensor.grad').no_grad
local nets = require 'ridge.quant.nets'
local parameter = require 'ridge.nn.parameter'

local M = {}

local function uniform(draws, x, bound)
  x:detach():copy_(draws:uniform(bound, unpack(x:size())))
end

local function fill(m, name, value)
  local p = parameter.entry(m, name)
  if p then p.tensor:detach():fill_(value) end
end

-- As the classes begin themselves (ridge.nn).
local function products(m, draws, bound)
  local w = parameter.entry(m, 'weight').tensor
  bound = bound or (w.count / math.max(w:size(1), 1)) ^ -0.5
  uniform(draws, w, bound)
  local b = parameter.entry(m, 'bias')
  if b then uniform(draws, b.tensor, bound) end
end

local function norm(m)
  fill(m, 'weight', 1)
  fill(m, 'bias', 0)
  fill(m, 'running_mean', 0)
  fill(m, 'running_var', 1)
end

local BEGIN = { ['nn.Linear'] = products, ['nn.Conv2d'] = products, ['nn.BatchNorm'] = norm,
  ['nn.LayerNorm'] = norm, ['nn.RMSNorm'] = norm, ['nn.GroupNorm'] = norm }

BEGIN['nn.Embedding'] = function(m, draws)
  local w = parameter.entry(m, 'weight').tensor
  w:detach():copy_(draws:normal(unpack(w:size())))
end

local function cells(m, draws)
  for _, cell in ipairs(m.cells) do
    products(cell.input, draws, m.hidden ^ -0.5)
    products(cell.recurrent, draws, m.hidden ^ -0.5)
  end
end

local AFTER = { ['nn.LSTM'] = cells, ['nn.GRU'] = cells }

--- Let all parameters of a net begin again.
---@param net table it is changed
---@param seed integer
---@return string|nil why a class of which nobody knows how it begins
function M.begin(net, seed)
  local draws, why = base.draws(seed), nil
  in_no_grad(function()
    nets.each(net, function(m)
      local begin = BEGIN[getmetatable(m).__name]
      if begin then
        begin(m, draws)
      elseif #m.params > 0 then
        why = getmetatable(m).__name
      end
    end)
    nets.each(net, function(m)
      local after = AFTER[getmetatable(m).__name]
      if after then after(m, draws) end
    end)
  end)
  return why
end

return M

-- SPDX-License-Identifier: MIT
--- Takes units out of the parameters of a net, and lets its modules know how large they are now.

local ffi = require 'ffi'
local in_no_grad = require('ridge.tensor.grad').no_grad
local make = require 'ridge.tensor.make'
local nets = require 'ridge.quant.nets'
local parameter = require 'ridge.nn.parameter'

local M = {}

-- Places of each parameter's axes that go: param to axis to {index = true}.
local function marked(units)
  local gone = {}
  for _, unit in ipairs(units) do
    for _, m in ipairs(unit.members) do
      gone[m.param] = gone[m.param] or {}
      gone[m.param][m.axis] = gone[m.param][m.axis] or {}
      for _, at in ipairs(m.index) do gone[m.param][m.axis][at] = true end
    end
  end
  return gone
end

local function whole_numbers(list, device)
  return make.tensor(list, { dtype = 'i64', device = device })
end

local function kept(x, axis, out)
  local list = {}
  for i = 1, x:size(axis) do
    if not out[i] then list[#list + 1] = i - 1 end
  end
  return x:index_select(axis, whole_numbers(list, x.device))
end

-- -- Modules --------------------------------------------------------------------------------------

local REFIT = {}

REFIT['nn.Linear'] = function(m, weight) m.n_out, m.n_in = weight:size(1), weight:size(2) end

REFIT['nn.Conv2d'] = function(m, weight, before)
  local groups = tonumber(m.options.groups) -- of a struct: a count in a file is a number
  if groups > 1 and before[2] == 1 then -- depthwise: with a channel its group goes
    groups = weight:size(1) * groups / before[1]
    m.options = ffi.new('rg_conv2d_options', m.options) -- a copy of a net shares it
    m.options.groups = groups
  end
  m.n_out, m.n_in = weight:size(1), weight:size(2) * groups
end

REFIT['nn.GroupNorm'] = function(m, weight, before)
  m.groups, m.n = m.groups * weight:size(1) / before[1], weight:size(1)
end

REFIT['nn.BatchNorm'] = function(m, weight) m.n = weight:size(1) end

REFIT['nn.Embedding'] = function(m, weight) m.n_out = weight:size(2) end

-- What parents know of their layers.
local PARENT = {}

PARENT['nn.MultiHeadAttention'] = function(m, was)
  local before = was[m.qkv] and was[m.qkv][1]
  if not before then return end
  m.heads = m.heads * m.qkv.n_out / before
  m.of = ffi.new('rg_heads_options', m.of)
  m.of.heads = m.heads
end

local function input_of_cells(m) m.n_in = m.cells[1].input.n_in end

PARENT['nn.LSTM'], PARENT['nn.GRU'] = input_of_cells, input_of_cells

-- -- Cutting --------------------------------------------------------------------------------------

--- Take units out of a net.
---@param net table it is changed
---@param units table[] of ridge.prune.units, of this net
function M.cut(net, units)
  in_no_grad(function()
    local was = {}
    for p, axes in pairs(marked(units)) do
      local x, before = p.tensor:detach(), p.tensor:size()
      for axis, out in pairs(axes) do x = kept(x, axis, out) end
      if x._t == p.tensor._t then x = x:clone() end
      for _, place in ipairs(p.places) do
        parameter.put(place.module, parameter.entry(place.module, place.own), x)
        if place.own == 'weight' or not was[place.module] and place.own == 'running_mean' then
          was[place.module] = before
        end
      end
    end
    for module, before in pairs(was) do
      local refit, first = REFIT[getmetatable(module).__name], parameter.entry(module, 'weight')
        or parameter.entry(module, 'running_mean')
      if refit then refit(module, first.tensor, before) end
    end
    nets.each(net, function(module)
      local parent = PARENT[getmetatable(module).__name]
      if parent then parent(module, was) end
    end)
  end)
end

--- Let units add nothing, in a net of full size: weights that multiply them become 0. It is what a
--- cut net is compared with.
---@param units table[] of this net
function M.silence(units)
  in_no_grad(function()
    for p, axes in pairs(marked(units)) do
      local own = p.places[1].own
      if axes[2] and own == 'weight' and p.tensor.ndim >= 2 then
        local factor = {}
        for i = 1, p.tensor:size(2) do factor[i] = axes[2][i] and 0 or 1 end
        local shape = { 1, #factor }
        for i = 3, p.tensor.ndim do shape[i] = 1 end
        p.tensor:mul_(make.tensor(factor, { dtype = p.tensor.dtype, device = p.tensor.device })
          :reshape(shape))
      end
    end
  end)
end

return M

-- SPDX-License-Identifier: MIT
--- Runs a net over batches with an observer before each of its layers.

local class = require('ridge.class').class
local Module = require 'ridge.nn.module'
local batches = require 'ridge.quant.batches'
local inference = require('ridge.tensor.mode').inference
local nets = require 'ridge.quant.nets'

local M = {}

-- -- Before a layer -----------------------------------------------------------------------------

local Observed = class('quant.Observed', Module)

--- A layer whose input is looked at.
---@param layer table
---@param see function of the input
function Observed:init(layer, see)
  Module.init(self)
  self.layer, self.see, self.training = layer, see, false
end

--- Look, and call the layer.
---@param x Tensor
---@param ... any what the layer takes besides
---@return any what the layer returns
function Observed:forward(x, ...)
  self.see(x)
  return self.layer(x, ...)
end

-- -- Running --------------------------------------------------------------------------------------

--- The first rows of a tensor.
---@param x Tensor
---@param n integer
---@return Tensor
local function rows_of(x, n)
  return x.ndim > 0 and x:size(1) > n and x:narrow(1, 1, n) or x
end

M.rows_of = rows_of

--- Run the batches of a loader through a net, and let somebody see what comes into its layers.
---@param net table a copy: its layers are other modules meanwhile
---@param layers table[] {name, module} of it
---@param loader table
---@param opts table what (for errors), batches, see = function(name, x), after = function(n) or nil
---@return table found n (batches), seen (rows, of ridge.quant.batches), samples (of each layer's
---  first input, by name)
function M.run(net, layers, loader, opts)
  local map, back, samples = {}, {}, {}
  for _, layer in ipairs(layers) do
    local door = Observed(layer.module, function(x)
      if not samples[layer.name] then -- one axis is a single row
        samples[layer.name] = (x.ndim > 1 and rows_of(x, opts.rows or 1) or x):detach():clone()
      end
      opts.see(layer.name, x)
    end)
    map[layer.module], back[door] = door, layer.module
  end
  local seen, n = batches.seen(), 0
  local root = nets.exchange(net, map)
  local ok, err = pcall(function()
    for x in batches.each(loader, opts.batches, opts.what, 'calibrate') do
      seen:add(x)
      inference(root, x)
      n = n + 1
      if opts.after then opts.after(n) end
    end
  end)
  if root == net then nets.exchange(net, back) end
  if not ok then error(err, 0) end
  return { n = n, seen = seen, samples = samples }
end

return M

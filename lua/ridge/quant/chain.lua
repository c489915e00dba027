-- SPDX-License-Identifier: MIT
--- Bytes that stay bytes from one layer to the next, where a Sequential hands them on.

local Sequential = require 'ridge.nn.sequential'
local fixed = require 'ridge.quant.fixed'
local fold = require 'ridge.quant.fold'
local nets = require 'ridge.quant.nets'

local M = {}

--- Link layers of a net whose bytes go nowhere but into the next one.
---@param net table
function M.link(net)
  local uses = fold.uses_of(net)
  local function once(module) return (uses[module] or 0) == 1 end
  nets.each(net, function(module)
    if getmetatable(module) ~= Sequential then return end
    local from
    for at = 1, #module.children do
      local layer = module[at]
      if layer.x_dtype then
        if from and once(layer) then fixed.chain(from, layer) end
        from = once(layer) and layer or nil
      elseif not fold.hands_on(layer) then
        from = nil
      end
    end
  end)
end

return M

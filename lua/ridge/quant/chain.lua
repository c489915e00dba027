-- SPDX-License-Identifier: MIT
--- Bytes that stay bytes from one layer to the next, where a Sequential hands them on.

local MaxPool2d = require('ridge.nn.image').MaxPool2d
local Sequential = require 'ridge.nn.sequential'
local fixed = require 'ridge.quant.fixed'
local fold = require 'ridge.quant.fold'
local nets = require 'ridge.quant.nets'
local pool = require 'ridge.quant.pool'

local M = {}

-- The layers of one Sequential; what pools between two of them pools bytes.
local function link(s, once)
  local from, pools = nil, {}
  for at = 1, #s.children do
    local module = s[at]
    if module.x_dtype then
      if from and once(module) then
        fixed.chain(from, module)
        for _, place in ipairs(pools) do s[place] = pool.MaxPool2d(s[place]) end
      end
      from, pools = once(module) and module or nil, {}
    elseif getmetatable(module) == MaxPool2d and pool.fits(module) and once(module) then
      pools[#pools + 1] = at
    elseif not fold.hands_on(module) then
      from, pools = nil, {}
    end
  end
end

--- Link layers of a net whose bytes go nowhere but into the next one.
---@param net table
---@param taken table|nil names of Sequentials that are left, of ridge.quant.apart
function M.link(net, taken)
  local uses = fold.uses_of(net)
  local function once(module) return (uses[module] or 0) == 1 end
  nets.each(net, function(module, name)
    if getmetatable(module) == Sequential and not (taken and taken[name]) then
      link(module, once)
    end
  end)
end

return M

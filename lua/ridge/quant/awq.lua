-- SPDX-License-Identifier: MIT
--- Activation-aware weights (Lin et al., 2023): columns whose inputs are large are rounded finer,
--- by a factor on the weights that inputs are divided by.

local groups = require 'ridge.quant.groups'
local in_no_grad = require('ridge.tensor.grad').no_grad

local M = {}

local STEPS = 20 -- exponents between 0 (no factor) and 1 (all of the magnitude)

-- Factors for an exponent, their middle (geometric) 1; a feature that never came has none.
local function factors(magnitude, exponent)
  local s = (magnitude / magnitude:max()):maximum(1e-4) ^ exponent
  return (s / (s:max() * s:min()):sqrt()):to 'f32'
end

--- Round a matrix for the inputs that were seen: of 20 exponents the one with the least error of
--- the layer's output.
---@param weight Tensor [n_out x n_in]
---@param moments table of ridge.quant.second_moment
---@param opts table bits, group, minimum, search
---@return table found as ridge.quant.groups.round, of the weight times `factor`, [n_in], which
---  inputs are divided by; no factor where none is better
function M.round(weight, moments, opts)
  return in_no_grad(function()
    local w = weight:detach():to 'f32'
    local magnitude = moments:magnitudes()
    local best = groups.round(w, opts)
    local least = moments:loss(best.value - w)
    for i = 1, STEPS do
      local s = factors(magnitude, i / STEPS)
      local found = groups.round(w * s, opts)
      local loss = moments:loss(found.value / s - w)
      if loss < least then
        best, least = found, loss
        best.factor = s
      end
    end
    return best
  end)
end

return M

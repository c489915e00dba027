-- SPDX-License-Identifier: MIT
--- Nets with weights in half the bytes.

local nets = require 'ridge.quant.nets'
local options = require 'ridge.options'
local report = require 'ridge.quant.report'

local M = {}

local SPEC = { dtype = { 'string', default = 'bf16', choices = { 'bf16', 'f16' } } }

--- A copy of a net with its numbers in bf16 or f16; it takes inputs of either type and of f32.
--- The net stays as it was; the copy is in evaluation mode.
---@param net table module in evaluation mode
---@param dtype string|nil 'bf16' when left out, or 'f16'
---@return table q
-- >> return ridge.quant.half(ridge.nn.Linear(8, 4):eval(), 'f16').weight.dtype
function M.half(net, dtype)
  dtype = options.check(SPEC, { dtype = dtype }, 'quant.half').dtype
  nets.need(net, 'quant.half')
  local made, rows = nets.copy(net), {}
  for _, layer in ipairs(nets.layers(net)) do
    rows[#rows + 1] = { name = layer.name, class = layer.class, kind = dtype }
  end
  return report.attach(made:to(dtype), 'half', rows)
end

return M

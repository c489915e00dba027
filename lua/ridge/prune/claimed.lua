-- SPDX-License-Identifier: MIT
--- Whether the numbers of a net keep the n:m patterns that its file says they have.

local in_no_grad = require('ridge.tensor.grad').no_grad
local mask = require 'ridge.prune.mask'
local nets = require 'ridge.quant.nets'
local notes = require 'ridge.prune.notes'
local SparseLinear = require('ridge.prune.sparse_layer').SparseLinear
local sparse = require 'ridge.tensor.sparse'

local M = {}

-- What a pruned net says of its masks: a layer that is in `why` has no such pattern, and one
-- without a mask may have been trained since.
local function wrong_mask(net)
  local about = notes.of(net)
  local n, m = (about.pattern or ''):match '^(%d+):(%d+)$'
  if not n then return nil end
  n, m = tonumber(n), tonumber(m)
  for _, layer in ipairs(nets.layers(net)) do
    local held = not about.why[layer.name] and mask.of(layer.module, 'weight')
    if held and held.ndim > 0 and not sparse.keeps(held:reshape(held:size(1), -1), n, m) then
      return layer.module, 'weight_mask', about.pattern,
        ('more than %d of %d inputs that follow each other stay'):format(n, m)
    end
  end
end

--- The first tensor of a module that does not keep a pattern, or nothing.
---@param module table
---@return table|nil module that holds it
---@return string|nil name of the tensor there
---@return string|nil pattern
---@return string|nil why
function M.broken(module)
  return in_no_grad(function()
    if getmetatable(module) == SparseLinear then
      local why = module:unlike()
      if why then return module, 'values', tostring(module.pattern), why end
    end
    if rawget(module, '_prune') then return wrong_mask(module) end
  end)
end

return M

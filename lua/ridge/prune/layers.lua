-- SPDX-License-Identifier: MIT
--- The layers of a net that can be pruned, as matrices, and why the others are left.

local blame = require 'ridge.blame'
local mask = require 'ridge.prune.mask'
local nets = require 'ridge.quant.nets'
local parameter = require 'ridge.nn.parameter'

local M = {}

local function why_not(layer, skipped)
  if skipped(layer.name) then return 'named in skip' end
  local kind = getmetatable(layer.module)
  if kind ~= nets.Linear and kind ~= nets.Conv2d then
    return ('weights of nn.Linear and nn.Conv2d are pruned, not those of %s'):format(layer.class)
  end
  if mask.is_other(layer.module, 'weight') then return 'its weight is parametrised already' end
end

--- The layers with weights, in order.
---@param net table a net that may be changed: not what the user gave
---@param skip table|nil names
---@param what string the function's name, for errors
---@return table[] rows {name, class, module, why, weight, rows, columns, places}; of a weight that
---  two layers share, the second says so in why
function M.of(net, skip, what)
  local skipped, list, known = nets.skipped(net, skip, what), {}, {}
  local places, key_of = mask.places(net)
  for _, layer in ipairs(nets.layers(net)) do
    local row = { name = layer.name, class = layer.class, module = layer.module,
      why = why_not(layer, skipped) }
    local p = parameter.entry(layer.module, 'weight')
    local key = p and key_of(p.tensor)
    if not row.why and known[key] then row.why = 'its weight is that of ' .. known[key] end
    if not row.why then
      known[key] = row.name
      row.weight, row.places = p.tensor, places[key]
      row.rows = p.tensor:size(1)
      row.columns = p.tensor.count / math.max(row.rows, 1)
    end
    list[#list + 1] = row
  end
  if #list == 0 then blame.raise(what .. ': the net has no layer with weights', 'EARG') end
  return list
end

--- Those that are not left.
---@param list table[]
---@param what string the function's name, for errors
---@return table[]
function M.taken(list, what)
  local taken = {}
  for _, row in ipairs(list) do
    if not row.why then taken[#taken + 1] = row end
  end
  if #taken == 0 then
    blame.raise(('%s: no layer is left that could be pruned (%s: %s)'):format(what, list[1].name,
      list[1].why), 'EARG')
  end
  return taken
end

return M

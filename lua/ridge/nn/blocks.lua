-- SPDX-License-Identifier: MIT
--- Blocks of a net that may each keep its input alone (recompute).

local class = require 'ridge.class'
local Sequential = require 'ridge.nn.sequential'

local M = {}

-- Modules made of others, at least two of them one behind the other, and with no such chain inside.
local function collect(model, list, seen)
  local chain = {}
  for _, c in ipairs(model.children) do
    local before = #list
    collect(c.module, list, seen)
    if #list == before and #c.module.children > 0 and not seen[c.module] then
      chain[#chain + 1] = c.module
    end
  end
  if class.is_a(model, Sequential) and #chain > 1 then
    for _, m in ipairs(chain) do
      seen[m] = true
      list[#list + 1] = m
    end
  end
  return list
end

--- The blocks of a net: modules made of others in a chain of at least two.
---@param model table module
---@return table[] modules
function M.of(model) return collect(model, {}, {}) end

--- Let each block keep its input alone, or no longer.
---@param blocks table[] modules
---@param on boolean|nil true when left out
function M.recompute(blocks, on)
  for _, m in ipairs(blocks) do
    m:recompute(on ~= false and (class.is_a(m, Sequential) and 1 or true) or false) -- one segment
  end
end

return M

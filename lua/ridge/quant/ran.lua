-- SPDX-License-Identifier: MIT
--- Which kernels a net's products of bytes really went through.

local inference = require('ridge.tensor.mode').inference
local ring = require 'ridge.ring'

local M = {}

--- Call a net, and list the kernels of its products of bytes.
---@param net table
---@param x Tensor
---@return string[] list 'scaled_linear: vnni', each once, in the order of the calls
function M.paths(net, x)
  local reader = ring.open('op', 4096)
  local ok, err = pcall(inference, net, x)
  local list, known = {}, {}
  for event in reader:each() do
    if event.name:find '^scaled_' or event.name:find '^packed_' then
      local text = ('%s: %s'):format(event.name, event.path or '?')
      if not known[text] then list[#list + 1], known[text] = text, true end
    end
  end
  reader:close()
  if not ok then error(err, 0) end
  return list
end

return M

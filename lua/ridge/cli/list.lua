-- SPDX-License-Identifier: MIT
--- `ridge list`: the recipes that `ridge run` finds.

local recipe = require 'ridge.cli.recipe'

local M = {}

M.summary = 'the recipes that can be run by name'
M.usage = 'ridge list'

--- Print name, first line and origin of each recipe.
---@return integer status
function M.main()
  local list, width = recipe.all(), 0
  for _, each in ipairs(list) do width = math.max(width, #each.name) end
  for _, each in ipairs(list) do
    io.stdout:write(('%-' .. width .. 's  %s  (%s)\n'):format(each.name, recipe.about(each),
      each.origin))
  end
  if #list == 0 then io.stdout:write 'no recipes here\n' end
  return 0
end

return M

-- SPDX-License-Identifier: MIT
--- `ridge run NAME args`: run a recipe by name.

local recipe = require 'ridge.cli.recipe'

local M = {}

M.summary = 'run a recipe by name: ridge run landscape --quick'
M.usage = 'ridge run NAME [args]'

--- Find the recipe and run it.
---@param argv string[] its name and its arguments
---@return integer status the recipe's
function M.main(argv)
  local name = table.remove(argv, 1)
  if not name then
    io.stderr:write('usage: ', M.usage, '\n')
    return 1
  end
  local found, reason = recipe.find(name)
  if not found then
    io.stderr:write('ridge run: ', reason, '\n')
    return 1
  end
  return recipe.run(found, argv)
end

return M

-- SPDX-License-Identifier: MIT
--- `ridge run NAME args`: run a recipe by name.

local args = require 'ridge.cli.args'
local recipe = require 'ridge.cli.recipe'
local stored = require 'ridge.cli.stored'
local plain = require 'ridge.plain'

local M = {}

M.summary = 'run a recipe by name: ridge run landscape --quick'
M.usage = 'ridge run NAME [args]'

local SPEC = {
  about = [[
Runs a recipe by its name; what stands behind the name are the recipe's own options.

    ridge run landscape --quick
    ridge list]],
  rest = 'NAME [options of the recipe]',
}

--- Find the recipe and run it.
---@param argv string[] its name and its arguments
---@return integer status the recipe's
function M.main(argv)
  local name = table.remove(argv, 1)
  if not name then return stored.fail('run', 'the name of a recipe is missing') end
  if name:find '^%-' then -- before the name stands nothing; behind it, what the recipe takes
    local _, reason = args.read(SPEC, { name })
    if reason ~= 'help' then return stored.fail('run', reason) end
    plain.print(args.help(SPEC, 'run'), '\n')
    return 0
  end
  local found, reason = recipe.find(name)
  if not found then return stored.fail('run', reason) end
  return recipe.run(found, argv)
end

return M

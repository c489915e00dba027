-- SPDX-License-Identifier: MIT
--- `ridge list`: the recipes that `ridge run` finds.

local recipe = require 'ridge.cli.recipe'
local stored = require 'ridge.cli.stored'
local plain = require 'ridge.plain'

local M = {}

M.summary = 'the recipes that can be run by name'
M.usage = 'ridge list'

local SPEC = { about = [[
Name, first line and origin of each recipe: those in ./recipes, in the folders of RIDGE_PATH, in the
XDG data folder, and the ones that are built in.]] }

local function print_all()
  local list, width = recipe.all(), 0
  for _, each in ipairs(list) do width = math.max(width, #each.name) end
  for _, each in ipairs(list) do
    plain.print(('%-' .. width .. 's  %s  (%s)\n'):format(each.name, recipe.about(each),
      each.origin))
  end
  if #list == 0 then plain.print 'no recipes here\n' end
end

--- Print the list.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('list', SPEC, argv, nil, print_all)
end

return M

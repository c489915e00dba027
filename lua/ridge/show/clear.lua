-- SPDX-License-Identifier: MIT
--- What a cell of a notebook has shown until now, taken away: progress in one place.

local blame = require 'ridge.blame'

local M = {}

--- Take away what this cell has shown until now; elsewhere than in a notebook it does nothing.
-- >> for i = 1, 3 do ridge.clear_output(true) print(i) end
---@param wait boolean|nil only when there is something new to show, so that nothing flickers
function M.clear_output(wait)
  if wait ~= nil and type(wait) ~= 'boolean' then
    blame.raise('clear_output: true or false is expected, got ' .. blame.show(wait), 'EARG')
  end
  local host = package.loaded['ridge.host'] -- of the program
  if host and host.settings.clear then host.settings.clear(wait == true) end
end

return M

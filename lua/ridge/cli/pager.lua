-- SPDX-License-Identifier: MIT
--- Long text goes through a pager where somebody sits at a terminal.

local host = require 'ridge.host'

local M = {}

--- Print a text: through PAGER, or less, where standard output is a terminal. PAGER= or cat prints
--- it as it is.
---@param text string
function M.show(text)
  local pager = os.getenv 'PAGER' or 'less'
  if not host.is_terminal(1) or pager == '' or pager == 'cat' then
    io.stdout:write(text)
    return
  end
  io.stdout:flush()
  host.ignore_pipes() -- a pager that was left early takes no more
  -- F: what fits on the screen is printed; R: colours; X: it stays there afterwards
  local less = os.getenv 'LESS' and '' or 'LESS=FRX '
  local pipe = io.popen(less .. 'LESSCHARSET=utf-8 ' .. pager, 'w')
  if pipe then
    pipe:write(text)
    pipe:close()
  else
    io.stdout:write(text)
  end
end

return M

-- SPDX-License-Identifier: MIT
-- What the child of backend_spec.lua runs: how many processors it may use.

local M = {}

function M.main(channel)
  channel:send(tostring(require('ridge.ffi.lib').rg_processors()))
end

return M

-- SPDX-License-Identifier: MIT
--- X

local M = {}

return M

-- SPDX-License-Identifier: MIT
-- simulated: opens the simulated GPU of tests/sim in the process of a spec, with two devices.  Each
-- file of specs is a process of its own, so no other spec sees them.  Where there is no nvcc they
-- are not built, and the spec says so with a pending test.

local ffi = require 'ffi'

ffi.cdef 'int setenv(const char *name, const char *value, int overwrite);'

local PLUGIN = 'build/libridge_gpusim.so'
local M = {}

--- Let 'cuda:0' and 'cuda:1' be simulated from here on.  Returns false where they were not built.
function M.open()
  local file = io.open(PLUGIN)
  if not file then return false end
  file:close()
  ffi.C.setenv('RIDGE_GPU', PLUGIN, 1)
  ffi.C.setenv('RG_SIM_DEVICES', '2', 1)
  return true
end

return M

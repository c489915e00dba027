-- SPDX-License-Identifier: MIT
-- simulated: opens the simulated GPU of tests/sim in the process of a spec, with two devices.  Each
-- file of specs is a process of its own, so no other spec sees them.  Where there is no nvcc they
-- are not built, and the spec says so with a pending test.

local ffi = require 'ffi'

ffi.cdef 'int setenv(const char *name, const char *value, int overwrite);'

local PLUGIN = 'build/libridge_gpusim.so'
local M = {}

--- Declare the functions of the stand-in for cublasLt, from its own header: what it writes has the
--- size that it says there.
function M.declare_blas()
  local file = assert(io.open 'tests/sim/fakeblas.h')
  local text = file:read '*a'
  file:close()
  local product = assert(text:match 'struct (rgsim_blas_product %b{};)')
  ffi.cdef('typedef struct ' .. product:gsub(';$', ' rgsim_blas_product;')
    .. 'size_t rgsim_blas_counted(int what); void rgsim_blas_last(rgsim_blas_product *out);')
end

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

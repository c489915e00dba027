-- SPDX-License-Identifier: MIT
-- counted: what the simulated GPU of this process was asked for (tests/sim/fakecuda.h), after
-- simulated.lua has opened it.

local ffi = require 'ffi'

ffi.cdef 'size_t rgsim_counted(int what);'
dofile('tests/lua/simulated.lua').declare_blas()

local WHAT = { launches = 0, captured = 1, graphs = 2, waits = 3, allocations = 4, uploads = 5,
  downloads = 6, moves = 7, idle = 8, limits = 9, peers = 10, dnn = 11, plans = 12 }
local M = {}
local library

local function plugin()
  library = library or ffi.load 'build/libridge_gpusim.so'
  return library
end

--- All counts by name, and `products`, which cublasLt was given, and `asked`: questions to its
--- heuristic.
function M.now()
  local out = { products = tonumber(plugin().rgsim_blas_counted(0)),
    asked = tonumber(plugin().rgsim_blas_counted(2)) }
  for name, number in pairs(WHAT) do out[name] = tonumber(plugin().rgsim_counted(number)) end
  return out
end

--- What f asked for, and what it returned.
function M.during(f, ...)
  local before = M.now()
  local result = f(...)
  local after = M.now()
  for name, n in pairs(before) do after[name] = after[name] - n end
  return after, result
end

--- The product that was begun last (tests/sim/fakeblas.h).
function M.last()
  local product = ffi.new 'rgsim_blas_product'
  plugin().rgsim_blas_last(product)
  return product
end

--- Its algorithm.
function M.algorithm() return M.last().algo end

return M

-- SPDX-License-Identifier: MIT
-- Products of more rows than a cache keeps: each row is what it is in a product of few rows, in
-- every bit, for each instruction set and number of threads.

local C = require 'ridge.ffi.lib'
local ridge = require 'ridge'

local LEVELS = { 'base', 'avx2', 'avx512', 'avx512_bf16', 'amx' }
local MOST = C.rg_isa()
local FEW = 61 -- AMX adds 16 rows or fewer in another order, so none are left over here

local function differs(x, y)
  return x:to('f32'):ne(y:to 'f32'):sum():item() > 0
end

describe('a product of many rows', function()
  local threads = ridge.backend.threads()
  before_each(function() ridge.backend.set_gemm 'own' end)
  after_each(function()
    ridge.backend.set_gemm 'auto'
    ridge.backend.set_isa(LEVELS[MOST + 1])
    ridge.set_num_threads(threads)
  end)

  for level = 1, MOST do
    for _, dtype in ipairs { 'f32', 'bf16' } do
      it(('has the rows of small ones: %s, %s'):format(dtype, LEVELS[level + 1]), function()
        ridge.backend.set_isa(LEVELS[level + 1])
        ridge.seed(3)
        for _, s in ipairs { { 700, 64, 2048 }, { 1115, 33, 1300 } } do
          local m, n, k = unpack(s)
          local a, b = ridge.randn(m, k):to(dtype), ridge.randn(k, n):to(dtype)
          local many
          for t = 1, 2 do
            ridge.set_num_threads(t)
            local y = a:matmul(b)
            assert.is_false(many ~= nil and differs(y, many), 'threads')
            many = y
          end
          for i = 1, m, FEW do
            local rows = math.min(FEW, m - i + 1)
            local few = a:narrow(1, i, rows):contiguous():matmul(b)
            if differs(many:narrow(1, i, rows):contiguous(), few) then
              error(('rows %d to %d of %d'):format(i, i + rows - 1, m))
            end
          end
        end
      end)
    end
  end
end)

-- SPDX-License-Identifier: MIT
-- The epilogue of a product by own kernels: a tile whose columns are all inside the result is
-- finished and stored in one pass, the last one, of fewer columns, row by row. Both give the same
-- in every bit, for each instruction set.

local C = require 'ridge.ffi.lib'
local ridge = require 'ridge'
local nn = ridge.nn

local LEVELS = { 'base', 'avx2', 'avx512', 'avx512_bf16', 'amx' }
local MOST = C.rg_isa()
local WHOLE = 96 -- columns: three tiles

-- A layer of so many columns, alike in those there are.
local function layer(n, k, opts, dtype)
  local wide = nn.Linear(k, WHOLE, { seed = 3 })
  local weight = wide.weight:detach() * 4
  weight:narrow(1, 7, 1):fill_(0 / 0) -- whole rows of the weight: columns of the result
  weight:narrow(1, 8, 1):fill_(math.huge)
  weight:narrow(1, 9, 1):fill_(-math.huge)
  local made = nn.Linear(k, n, opts):to(dtype):eval()
  made.weight = weight:narrow(1, 1, n):contiguous():to(dtype)
  if opts.bias ~= false then
    made.bias = wide.bias:detach():narrow(1, 1, n):contiguous():to(dtype)
  end
  return made
end

local function list_of(y, n) return y:narrow(2, 1, n):contiguous():to('f32'):tolist() end

-- nan is like nan, and -0 is not like 0
local function assert_alike(wanted, got, what)
  for i, row in ipairs(wanted) do
    for j, x in ipairs(row) do
      local y = got[i][j]
      if not (x ~= x and y ~= y) and (x ~= y or 1 / x ~= 1 / y) then
        error(('%s, row %d, column %d: %.9g and %.9g'):format(what, i, j, x, y), 0)
      end
    end
  end
end

describe('the epilogue of a product', function()
  before_each(function()
    ridge.seed(1)
    ridge.backend.set_gemm 'own'
  end)
  after_each(function()
    ridge.backend.set_gemm 'auto'
    ridge.backend.set_isa(LEVELS[MOST + 1])
  end)

  for level = 0, MOST do
    it('is the same in a tile and in a part of one: ' .. LEVELS[level + 1], function()
      ridge.backend.set_isa(LEVELS[level + 1])
      for _, dtype in ipairs { 'f32', 'bf16', 'f16' } do
        for _, act in ipairs { 'none', 'relu', 'relu6', 'gelu', 'tanh' } do
          for _, m in ipairs { 1, 5, 32, 47 } do
            for _, k in ipairs { 5, 64 } do
              local what = ('%s %s %d x %d'):format(dtype, act, m, k)
              local opts = { activation = act, bias = m ~= 5 }
              local x = ridge.randn(m, k):to(dtype)
              for _, n in ipairs { 32, WHOLE } do
                local whole = list_of(layer(n, k, opts, dtype)(x), n - 1)
                assert_alike(list_of(layer(n - 1, k, opts, dtype)(x), n - 1), whole, what)
                assert.is_true(whole[1][7] ~= whole[1][7], what)
              end
            end
          end
        end
      end
    end)
  end

  it('clips, and adds the bias, as the functions do', function()
    for _, dtype in ipairs { 'f32', 'bf16' } do
      local x = ridge.randn(33, 64):to(dtype)
      local plain = layer(WHOLE, 64, { bias = false }, dtype)(x)
      for _, act in ipairs { 'relu', 'relu6' } do
        local got = layer(WHOLE, 64, { bias = false, activation = act }, dtype)(x)
        assert_alike(list_of(plain[act](plain), WHOLE), list_of(got, WHOLE), dtype .. act)
      end
    end
    local with = layer(WHOLE, 64, {}, 'f32')
    local x = ridge.randn(33, 64)
    local sum = layer(WHOLE, 64, { bias = false }, 'f32')(x) + with.bias
    assert_alike(list_of(sum, WHOLE), list_of(with(x), WHOLE), 'bias')
  end)
end)

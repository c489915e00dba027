-- SPDX-License-Identifier: MIT
--- Copies that exchange two axes: element by element, for each size of an element and each
--- instruction set, with sizes around those of tiles, bands and runs, and nothing written beside
--- them.

local ridge = require 'ridge'

local WHOLE = 251 -- values that each type holds exactly

-- A matrix whose neighbours all differ, inside a larger one: where it begins, its rows' distance.
local function matrix(rows, columns, dtype)
  local place = ridge.arange(0, (rows + 2) * (columns + 3) - 1)
  local whole = (place - (place / WHOLE):floor() * WHOLE):to(dtype)
  return whole:reshape(rows + 2, columns + 3):narrow(1, 2, rows):narrow(2, 3, columns)
end

local function value(columns, r, c)
  return ((r + 1) * (columns + 3) + c + 2) % WHOLE
end

-- The matrix transposed into the middle of another one full of a value it has not.
local function check(rows, columns, dtype)
  local x = matrix(rows, columns, dtype)
  local around = ridge.full(WHOLE, columns + 2, rows + 2, { dtype = dtype })
  around:narrow(1, 2, columns):narrow(2, 2, rows):copy_(x:transpose(1, 2))
  local got, dense = around:tolist(), x:transpose(1, 2):contiguous():tolist()
  for c = -1, columns do
    for r = -1, rows do
      local inside = c >= 0 and c < columns and r >= 0 and r < rows
      local want = inside and value(columns, r, c) or WHOLE
      if got[c + 2][r + 2] ~= want or inside and dense[c + 1][r + 1] ~= want then
        error(('%s %d x %d: (%d, %d) is %s'):format(dtype, rows, columns, r, c, got[c + 2][r + 2]))
      end
    end
  end
end

for _, isa in ipairs { 'base', 'avx2', 'avx512' } do
  describe('a transposed copy, ' .. isa, function()
    local before = ridge.backend.now().isa
    after_each(function() ridge.backend.set_isa(before) end)

    for _, dtype in ipairs { 'u8', 'bf16', 'f32', 'f64' } do
      it('of ' .. dtype, function()
        if not pcall(ridge.backend.set_isa, isa) then return pending('no ' .. isa) end
        for _, rows in ipairs { 4, 7, 8, 15, 16, 17, 31, 33, 47, 65 } do
          for _, columns in ipairs { 4, 5, 8, 9, 15, 16, 19, 33 } do check(rows, columns, dtype) end
        end
        for _, columns in ipairs { 1023, 1025, 1040, 2050 } do check(17, columns, dtype) end
        check(1030, 6, dtype)
      end)
    end
  end)
end

describe('a transposed copy', function()
  it('is of each matrix of several', function()
    local x = ridge.arange(0, 3 * 21 * 34 - 1):reshape(3, 21, 34)
    local y = x:transpose(2, 3):contiguous():tolist()
    for i = 0, 2 do
      for r = 0, 20 do
        for c = 0, 33 do assert.equal((i * 21 + r) * 34 + c, y[i + 1][c + 1][r + 1]) end
      end
    end
  end)
end)

-- SPDX-License-Identifier: MIT
-- Sums of the simulated GPU whose terms are brought into an order first: whatever order threads run
-- in, their bits are the same.
local ffi = require 'ffi'
local there = dofile('tests/lua/simulated.lua').open()
local ridge = require 'ridge'

local GPU = { device = 'sim:0' }

describe('the gradient of rows taken by number', function()
  after_each(function() ffi.C.setenv('RG_SIM_ORDER', '', 1) end)

  -- more than 256 numbers are sorted; those of a row by rank where they are few, else found again
  for _, rows in ipairs { 3, 60 } do
    it('has the same bits in every order, of ' .. rows .. ' rows', function()
      if not there then return pending 'no nvcc: the simulated GPU was not built' end
      local numbers, at = {}, {}
      for i = 1, 600 do
        at[i] = i * i % 601 % rows
        numbers[i] = 10 ^ (i * 7 % 13 - 6) * (1 + i * 37 % 101 / 101)
      end
      local index = ridge.tensor(at, { dtype = 'i64' }):to(GPU.device)
      local dy = ridge.tensor(numbers):reshape(600, 1):expand(600, 8):contiguous():to(GPU.device)
      local function gradient(order)
        ffi.C.setenv('RG_SIM_ORDER', order, 1)
        local table = ridge.zeros(rows, 8, GPU):requires_grad_()
        table:index_select(1, index):mul(dy):sum():backward()
        return table.grad:to 'cpu'
      end
      local want = gradient 'fwd'
      for _, order in ipairs { 'rev', 'rand:1', 'rand:2', 'ahead:rev' } do
        assert.is_true(gradient(order):equal(want), order)
      end
    end)
  end
end)

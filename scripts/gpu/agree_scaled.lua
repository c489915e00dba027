-- SPDX-License-Identifier: MIT
-- Factors of 8 bits with scales: a part of agree.lua.

local ridge = require 'ridge'

local agree = ... -- agree.lua
local try, modes, tiny = agree.try, agree.modes, agree.opt.tiny
local DEVICE = ridge.device.best()

local SHAPES = tiny and { { 16, 32, 16 }, { 17, 40, 9 } }
  or { { 128, 128, 128 }, { 1024, 2048, 512 }, { 129, 272, 65 }, { 1, 4096, 4096 },
    { 100, 90, 33 }, { 2048, 8192, 2048 } }
local TYPES = { { 'i8', 'i8' }, { 'f8e4m3', 'f8e4m3' }, { 'f8e4m3', 'f8e5m2' },
  { 'f8e5m2', 'f8e4m3' }, { 'f8e5m2', 'f8e5m2' } }

-- Tensor cores add 8-bit floats up in fewer bits than f32 has, so that those are held to what a
-- result in bf16 shows; how far they are from f32 is told, and no test.
for _, types in ipairs(TYPES) do
  for _, s in ipairs(SHAPES) do
    local m, k, n = unpack(s)
    local whole = types[1] == 'i8'
    local spread = whole and 50 or 4
    local x = (ridge.randn(m, k) * spread):to(types[1])
    local w = (ridge.randn(n, k) * spread):to(types[2])
    local rows, columns, b = ridge.rand(m), ridge.rand(n), ridge.randn(n)
    local sums = x:to 'f64':matmul(w:to 'f64':t())
    local wanted = sums * rows:to 'f64':reshape(m, 1) * columns:to 'f64' + b:to 'f64'
    local at = ('scaled_linear %s %s %dx%dx%d'):format(types[1], types[2], m, k, n)
    local tx, tw, half = x:to(DEVICE), w:to(DEVICE), ridge.full(0.5, 1):to(DEVICE)
    local tr, tc, tb = rows:to(DEVICE), columns:to(DEVICE), b:to(DEVICE)
    local apart = tx:t():contiguous():t()
    local function by_rows(dtype, first)
      return function()
        return ridge.scaled_linear(first or tx, tw, tr, tc, { bias = tb, dtype = dtype })
      end
    end
    for vendor = 1, 0, -1 do
      modes.vendor = vendor
      local mode = (' vendor=%d'):format(vendor)
      try { name = at .. ' rows' .. mode, dtype = 'bf16', units = 4, inputs = {}, wanted = wanted,
        f = by_rows 'bf16', again = true }
      try { name = at .. ' whole' .. mode, dtype = 'bf16', units = 4, inputs = {},
        wanted = sums * 0.25, again = true,
        f = function() return ridge.scaled_linear(tx, tw, half, half, { dtype = 'bf16' }) end }
      if whole then
        try { name = at .. ' rows' .. mode, dtype = 'f32', units = 8, inputs = {}, wanted = wanted,
          f = by_rows 'f32', again = true }
        try { name = at .. ' apart' .. mode, dtype = 'f32', units = 8, inputs = {},
          wanted = wanted, f = by_rows('f32', apart), again = true }
      else
        local far = (by_rows 'f32'():to 'cpu':to 'f64' - wanted):abs():max():item()
        io.write(('# %s%s, f32: %.3g of the largest apart\n'):format(at, mode,
          far / wanted:abs():max():item()))
      end
    end
    modes.vendor = 1
  end
end

-- SPDX-License-Identifier: MIT
-- scaled_pool_spec: averages of bytes over windows so large that f32 has no number between a tie
-- and what is beside it, with padding that stands for a byte of its own; and how large they may be.

local HERE = debug.getinfo(1, 'S').source:match('^@(.*/)') or './'
local all = dofile(HERE .. 'cases.lua')
local case, tensors = all.cases.scaled_pool2d, all.tensors
local ffi = require 'ffi'
local C = tensors.C

local ESHAPE = -1
local slot = ffi.new('rg_tensor *[1]')

-- An image of one byte but for the first `more` elements, which are one larger.
local function image(rows, columns, byte, more, dtype)
  local x = tensors.empty({ 1, 1, rows, columns }, dtype)
  tensors.check(C.rg_fill_(x, byte))
  if more > 0 then -- whole rows, and a part of one
    local whole, rest = math.floor(more / columns), more % columns
    for _, part in ipairs { { 0, whole, columns }, { whole, 1, rest } } do
      if part[2] > 0 and part[3] > 0 then
        tensors.check(C.rg_narrow(x, 2, part[1], part[2], 1, slot))
        tensors.check(C.rg_narrow(tensors.hold(slot[0]), 3, 0, part[3], 1, slot))
        tensors.check(C.rg_fill_(tensors.hold(slot[0]), byte + 1))
      end
    end
  end
  return x
end

local function average(x, size, more)
  local args = { size = size, stride = size, average = true }
  for k, v in pairs(more or {}) do args[k] = v end
  tensors.check(case.call(C, { x }, args, slot))
  return tensors.read(tensors.hold(slot[0]))
end

describe('an average of bytes over a large window', function()
  after_each(tensors.release_all)

  -- 3 x 2^18 elements: half of them, one less and one more are 100.5 in f32
  it('is rounded from what it is, ties to even', function()
    local rows, columns = 768, 1024
    local half = rows * columns / 2
    for _, dtype in ipairs { 'u8', 'i8' } do
      for _, byte in ipairs { 100, 101, dtype == 'u8' and 200 or -100, dtype == 'u8' and 0 or
        -101 } do
        local even = byte % 2 == 0 and byte or byte + 1
        for _, try in ipairs { { half, even }, { half - 1, byte }, { half + 1, byte + 1 },
          { 0, byte }, { 1, byte } } do
          local y = average(image(rows, columns, byte, try[1], dtype), { rows, columns })
          assert.are.same({ 1, try[2] }, { #y, y[1] },
            ('%s: %d, and %d of them one more'):format(dtype, byte, try[1]))
        end
        tensors.release_all()
      end
    end
  end)

  it('counts what the padding stands for, or leaves it out', function()
    -- 200 x 200 elements see 120 x 200 of the image: 0.6 x 10 + 0.4 x 250
    local x = image(120, 200, 10, 0, 'u8')
    local pad = { size = { 200, 200 }, pad = { 80, 0, 0, 0 } }
    assert.are.equal(106, average(x, pad.size, { pad = pad.pad, x_zero = 250 })[1])
    assert.are.equal(6, average(x, pad.size, { pad = pad.pad })[1])
    assert.are.equal(10, average(x, pad.size, { pad = pad.pad, x_zero = 250,
      skip_pad = true })[1])
  end)

  it('is refused where its sum might not fit', function()
    local x = image(2896, 2908, 255, 0, 'u8')
    assert.are.equal(255, average(x, { 2896, 2907 })[1])
    local args = { size = { 2896, 2908 }, stride = { 1, 1 }, average = true }
    local status = case.call(C, { x }, args, slot)
    assert.are.equal('scaled_pool2d: sums of 2896 x 2908 bytes of u8 may not fit into i32; up to '
      .. '8421504 do', tensors.failure(status))
    assert.are.equal(ESHAPE, status)
    args.average = false -- nothing is summed
    tensors.check(case.call(C, { x }, args, slot))
    assert.are.equal(255, tensors.read(tensors.hold(slot[0]))[1])
    local signed = image(2896, 2908, -128, 0, 'i8')
    assert.are.equal(-128, average(signed, { 2896, 2908 })[1])
  end)
end)

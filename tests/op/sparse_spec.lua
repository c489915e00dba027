-- SPDX-License-Identifier: MIT
-- sparse_spec: products with weights most of which are 0, for few rows and for many, against whole
-- numbers in every bit, by every instruction set: rows of single values, blocks of sixteen outputs,
-- and n of each m inputs.

require 'jit.opt'.start('-sink') -- see op_spec.lua

local HERE = debug.getinfo(1, 'S').source:match('^@(.*/)') or './'
local all = dofile(HERE .. 'cases.lua')
local cases, reference, tensors = all.cases, all.reference, all.tensors
local ffi = require 'ffi'
local C = tensors.C

local MOST = C.rg_machine_facts().isa_level
local slot = ffi.new('rg_tensor *[1]')

local state = 1
local function number(n)
  state = (state * 1103515245 + 12345) % 2147483648
  return math.floor(state / 65536) % n
end

-- Whole numbers of small range: f32 adds them up without an error.
local function drawn(shape, dtype)
  local x = reference.new(shape, dtype)
  for i = 1, reference.count(shape) do
    x[i] = dtype == 'u8' and number(256) or number(31) - 15
  end
  return x
end

local function try(name, list, args, layouts)
  local wanted = cases[name].reference(list, args)[1]
  for level = 0, MOST do
    tensors.check(C.rg_set_isa(level))
    local t = {}
    for i = 1, 5 do
      t[i] = list[i] and (layouts and layouts[i] or tensors.LAYOUTS[1]).make(list[i])
    end
    tensors.check(cases[name].call(C, t, args, slot))
    local got = tensors.read(tensors.hold(slot[0]))
    assert.are.equal(#wanted, #got)
    for i = 1, #wanted do
      if got[i] ~= wanted[i] then
        error(('%d rows, level %d: element %d is %.9g, wanted %.9g'):format(list[1].shape[1],
          level, i, got[i], wanted[i]), 0)
      end
    end
  end
  tensors.release_all()
end

-- A weight of so many rows, of 0 to 9 entries each, or of as many blocks of sixteen outputs.
local function weight(rows, block, k)
  local offset, n = reference.new({ rows + 1 }, 'i32'), 0
  offset[1] = 0
  for r = 1, rows do
    n = n + number(10)
    offset[r + 1] = n
  end
  local column = reference.new({ n }, 'i32')
  for i = 1, n do column[i] = number(k) end
  return offset, column, drawn(block > 1 and { n, block } or { n }, 'f32')
end

-- Rows of x: up to four, one behind the other, and with single values sixteen side by side: a part
-- of sixteen, all of them, and some more.
local ROWS = { 1, 2, 3, 4, 5, 15, 16, 17, 32, 37 }

if tensors.DEVICE == 0 then describe('a product with weights most of which are 0', function()
  after_each(function()
    tensors.release_all()
    tensors.check(C.rg_set_isa(MOST))
  end)

  for _, block in ipairs { 1, 16 } do
    it(('takes any number of rows, %d outputs a row of the weight'):format(block), function()
      for i, m in ipairs(ROWS) do
        local rows, k = 9, 21
        local offset, column, values = weight(rows, block, k)
        local list = { drawn({ m, k }, 'f32'), offset, column, values,
          i % 2 == 0 and drawn({ rows * block }, 'f32') or nil }
        try('sparse_linear', list, { act = i % 3 == 0 and 1 or 0 })
      end
    end)

    it(('reads x where it lies, %d outputs a row of the weight'):format(block), function()
      for _, m in ipairs { 3, 37 } do
        local offset, column, values = weight(5, block, 24)
        local list = { drawn({ m, 24 }, 'f32'), offset, column, values }
        for _, layout in ipairs(tensors.LAYOUTS) do
          if layout.fits(list[1].shape) and not layout.name:find 'expand' then
            try('sparse_linear', list, {}, { layout })
          end
        end
      end
    end)
  end

  it('takes any number of rows where n of m inputs are there', function()
    for i, m in ipairs(ROWS) do
      local k = i % 2 == 0 and 48 or 41
      local list = { drawn({ m, k }, 'f32'), drawn({ 3, 6, 16 }, 'u8'), drawn({ 3, 12, 16 },
        'f32'), drawn({ 39 }, 'f32') }
      try('n_of_m_linear', list, { rows = 39, act = i % 3 == 0 and 1 or 0 })
    end
  end)

  it('reads x where it lies where n of m inputs are there', function()
    for _, k in ipairs { 32, 25 } do
      local list = { drawn({ 6, k }, 'f32'), drawn({ 2, 2, 16 }, 'u8'), drawn({ 2, 4, 16 },
        'f32') }
      for _, layout in ipairs(tensors.LAYOUTS) do
        if layout.fits(list[1].shape) and not layout.name:find 'expand' then
          try('n_of_m_linear', list, { rows = 17 }, { layout })
        end
      end
    end
  end)
end) end

-- SPDX-License-Identifier: MIT
-- packed_spec: products with weights of a few bits for x of bytes with scales, weights in strides
-- of their own, few rows and many, on every instruction set; and that packing takes nothing away.

require 'jit.opt'.start('-sink') -- see op_spec.lua

local HERE = debug.getinfo(1, 'S').source:match('^@(.*/)') or './'
local all = dofile(HERE .. 'cases.lua')
local cases, reference, tensors = all.cases, all.reference, all.tensors
local ffi = require 'ffi'
local C = tensors.C
local case = cases.packed_linear

local MOST = C.rg_machine_facts().isa_level
local slot = ffi.new('rg_tensor *[1]')
local BITS = { 2, 3, 4, 6, 8 }

local state = 1
local function number(n)
  state = (state * 1103515245 + 12345) % 2147483648
  return math.floor(state / 65536) % n
end

-- Whole numbers of small range, and powers of two: f32 adds them up without an error.
local function drawn(shape, dtype)
  local x = reference.new(shape, dtype)
  for i = 1, reference.count(shape) do
    x[i] = dtype == 'u8' and number(256) or dtype == 'i8' and number(15) - 7 or
      dtype == 'f16' and 2 ^ (number(3) - 1) or number(9) - 4
  end
  return x
end

local function run(list, args, layouts)
  local t = {}
  for i = 1, 6 do
    local x = list[i]
    t[i] = x and (layouts and layouts[i] or tensors.LAYOUTS[1]).make(x)
  end
  tensors.check(case.call(C, t, args, slot))
  return tensors.read(tensors.hold(slot[0]))
end

local function compare(wanted, got, what)
  assert.are.equal(#wanted, #got)
  for i = 1, #wanted do
    if got[i] ~= wanted[i] then
      error(('%s: element %d is %.9g, wanted %.9g'):format(what, i, got[i], wanted[i]), 0)
    end
  end
end

if tensors.DEVICE == 0 then describe('a product with weights of a few bits', function()
  after_each(function()
    tensors.release_all()
    tensors.check(C.rg_set_isa(MOST))
  end)

  for _, bits in ipairs(BITS) do
    it(('of %d takes bytes with scales, and any number of rows'):format(bits), function()
      for _, m in ipairs { 1, 2, 3, 4, 5, 20 } do
        local group = 32 * 2 ^ (m % 3)
        local n, k = 37, 640 + (m % 2 == 0 and 128 or 0)
        local list = { drawn({ m, k }, m < 3 and 'f32' or 'i8'), drawn({ n, k / 8 * bits }, 'u8'),
          drawn({ n, k / group }, 'f16'), m % 2 == 0 and drawn({ n, k / group }, 'f16') or nil,
          drawn({ n }, 'f32') }
        if m >= 3 then list[6] = drawn(m == 3 and {} or { m, 1 }, 'f32') end
        local args = { bits = bits, group = group }
        local wanted = case.reference(list, args)[1]
        for level = 0, MOST do
          tensors.check(C.rg_set_isa(level))
          compare(wanted, run(list, args), ('level %d, %d rows'):format(level, m))
        end
        tensors.release_all()
      end
    end)
  end

  -- Two products of a byte and a code of eight bits are beyond 16 bits.
  it('has the whole range of bytes beside the largest and the smallest codes', function()
    for _, bits in ipairs(BITS) do
      for _, least in ipairs { -128, 127 } do
        local list = { reference.new({ 3, 256 }, 'i8'), reference.new({ 5, 32 * bits }, 'u8'),
          reference.new({ 5, 2 }, 'f16'), nil, nil, reference.new({}, 'f32') }
        for i = 1, 3 * 256 do
          local row = math.floor((i - 1) / 256)
          list[1][i] = row == 0 and least or row == 1 and (i % 2 == 0 and least or -1 - least)
            or number(256) - 128
        end
        for i = 1, 5 * 32 * bits do list[2][i] = i <= 64 * bits and 255 or number(256) end
        for i = 1, 10 do list[3][i] = 1 end
        list[6][1] = 0.5
        local args = { bits = bits, group = 128 }
        local wanted = case.reference(list, args)[1]
        for level = 0, MOST do
          tensors.check(C.rg_set_isa(level))
          compare(wanted, run(list, args), ('%d bits, level %d'):format(bits, level))
        end
        tensors.release_all()
      end
    end
  end)

  it('takes a vector for one row, and no number', function()
    local list = { drawn({ 64 }, 'f32'), drawn({ 5, 32 }, 'u8'), drawn({ 5, 2 }, 'f16') }
    local row = { reference.new({ 1, 64 }, 'f32'), list[2], list[3] }
    for i = 1, 64 do row[1][i] = list[1][i] end
    local got = run(list, { bits = 4 })
    assert.are.same({ 5 }, got.shape)
    compare(case.reference(row, { bits = 4 })[1], got, 'a vector')
    assert.is_false((pcall(run, { drawn({}, 'f32'), list[2], list[3] }, { bits = 4 })))
  end)

  -- Scales are brought to f32 for some rows of w at a time: 1024 of them, 4 rows at least.
  it('has all scales of long rows', function()
    for _, k in ipairs { 1088, 2048, 9216 } do
      local list = { drawn({ 1, k }, 'f32'), drawn({ 37, k / 2 }, 'u8'),
        drawn({ 37, k / 32 }, 'f16'), drawn({ 37, k / 32 }, 'f16') }
      local wanted = case.reference(list, { bits = 4 })[1]
      compare(wanted, run(list, { bits = 4 }), ('%d inputs'):format(k))
      tensors.release_all()
    end
  end)

  -- More rows than four: weights are opened 512 or 1024 at a time, each time added to what was.
  it('adds up what is opened one after the other', function()
    for _, bits in ipairs { 3, 8 } do
      for _, group in ipairs { 32, 128 } do
        for _, minima in ipairs { false, true } do
          local k = 2176
          local list = { drawn({ 7, k }, 'f32'), drawn({ 35, k / 8 * bits }, 'u8'),
            drawn({ 35, k / group }, 'f16'), minima and drawn({ 35, k / group }, 'f16') or nil }
          local args = { bits = bits, group = group }
          local wanted = case.reference(list, args)[1]
          for level = 0, MOST do
            tensors.check(C.rg_set_isa(level))
            compare(wanted, run(list, args), ('%d bits, groups of %d, level %d'):format(bits,
              group, level))
          end
          for _, layout in ipairs(tensors.LAYOUTS) do -- scales that are not contiguous
            if layout.name == 'stepped' then
              compare(wanted, run(list, args, { [3] = layout, [4] = layout }), 'stepped')
            end
          end
          tensors.release_all()
        end
      end
    end
  end)

  it('reads weights, scales and minima where they lie', function()
    for m = 1, 2 do
      local list = { drawn({ m, 320 }, 'f32'), drawn({ 6, 160 }, 'u8'), drawn({ 6, 10 }, 'f16'),
        drawn({ 6, 10 }, 'f16'), drawn({ 6 }, 'f32') }
      local wanted = case.reference(list, { bits = 4 })[1]
      for _, layout in ipairs(tensors.LAYOUTS) do
        for i = 1, 5 do
          if layout.fits(list[i].shape) and not layout.name:find 'expand' then
            compare(wanted, run(list, { bits = 4 }, { [i] = layout }), layout.name .. i)
          end
        end
        tensors.release_all()
      end
    end
  end)

  it('gives back the copy of a weight with gaps', function()
    local list = { drawn({ 3, 320 }, 'f32'), drawn({ 6, 160 }, 'u8'), drawn({ 6, 10 }, 'f16'),
      drawn({ 6, 10 }, 'f16'), drawn({ 6 }, 'f32') }
    local function live() return tonumber(C.rg_memory_of(0).live_bytes) end
    for _, layout in ipairs(tensors.LAYOUTS) do
      if layout.fits(list[2].shape) and not layout.name:find 'expand' then
        local before = live()
        run(list, { bits = 4 }, { [2] = layout })
        tensors.release_all()
        assert.equal(before, live(), layout.name)
      end
    end
  end)

  it('has all codes back that were packed', function()
    local pack, unpack_bits = cases.pack_bits, cases.unpack_bits
    for _, bits in ipairs(BITS) do
      local x = reference.new({ 3, 64 }, 'u8')
      for i = 1, 192 do x[i] = number(2 ^ bits) end
      tensors.check(pack.call(C, { tensors.make(x, x.shape, 'u8') }, { bits = bits }, slot))
      local packed = tensors.hold(slot[0])
      assert.are.equal(3 * 8 * bits, tonumber(C.rg_tensor_bytes(packed)))
      tensors.check(unpack_bits.call(C, { packed }, { bits = bits }, slot))
      compare(x, tensors.read(tensors.hold(slot[0])), bits .. ' bits')
    end
    local wide = tensors.make({ unpack(drawn({ 32 }, 'u8')) }, { 32 }, 'u8')
    tensors.check(C.rg_fill_(wide, 3))
    local status = pack.call(C, { wide }, { bits = 2 }, slot)
    tensors.check(status)
    tensors.hold(slot[0])
    tensors.check(C.rg_fill_(wide, 4))
    status = pack.call(C, { wide }, { bits = 2 }, slot)
    assert.are.equal('pack_bits: code 4 at 1 does not fit into 2 bits', tensors.failure(status))
  end)
end) end

-- SPDX-License-Identifier: MIT
-- scaled_bytes_spec: products of bytes with zero points, a bias of whole numbers, results of bytes,
-- and floats quantized inside, against whole numbers in every bit, by every instruction set; and
-- that what oneDNN may use changes nothing.

require 'jit.opt'.start('-sink') -- see op_spec.lua

local HERE = debug.getinfo(1, 'S').source:match('^@(.*/)') or './'
local all = dofile(HERE .. 'cases.lua')
local case, reference, tensors = all.cases.scaled_linear, all.reference, all.tensors
local ffi = require 'ffi'
local C = tensors.C

local ESHAPE, EDTYPE, EARG = -1, -2, -4
local MOST = C.rg_machine_facts().isa_level
local slot = ffi.new('rg_tensor *[1]')

local state = 1
local function number(n)
  state = (state * 1103515245 + 12345) % 2147483648
  return math.floor(state / 65536) % n
end

-- Of a type: bytes of the whole range or one value, whole numbers, or powers of two, so that f32
-- computes without an error.
local function drawn(shape, dtype, value)
  local x = reference.new(shape, dtype)
  for i = 1, reference.count(shape) do
    x[i] = value or dtype == 'u8' and number(256) or dtype == 'i8' and number(256) - 128 or
      dtype == 'i32' and number(40001) - 20000 or 2 ^ (number(4) - 2)
  end
  return x
end

local function tensor(x) return x and tensors.make(x, x.shape, x.dtype) end

local function run(list, args, weight)
  local t = {}
  for i = 1, 6 do t[i] = tensor(list[i]) end
  if weight then C.rg_tensor_set_param(t[2], 1) end
  tensors.check(case.call(C, t, args, slot))
  return tensors.read(tensors.hold(slot[0]))
end

-- One call by every instruction set, its weight packed for the call, and kept.
local function try(list, args)
  local wanted = case.reference(list, args)[1]
  for level = 0, MOST do
    tensors.check(C.rg_set_isa(level))
    for _, weight in ipairs { false, true } do
      local got = run(list, args, weight)
      assert.are.equal(wanted.dtype, got.dtype)
      assert.are.equal(#wanted, #got)
      for i = 1, #wanted do
        if got[i] ~= wanted[i] then
          error(('level %d: element %d is %.9g, wanted %.9g'):format(level, i, got[i], wanted[i]),
            0)
        end
      end
    end
  end
  tensors.release_all()
end

if tensors.DEVICE == 0 then describe('a product of bytes', function()
  after_each(function()
    tensors.release_all()
    tensors.check(C.rg_set_isa(MOST))
  end)

  local SIZES = { { 1, 5, 3 }, { 3, 40, 70 }, { 17, 33, 64 }, { 1, 64, 200 },
    { 35, 96, 100 } }

  for _, x_type in ipairs { 'u8', 'i8' } do
    for _, zero in ipairs { 0, 3, x_type == 'u8' and 255 or -128 } do
      it(('takes x of %s with a zero point of %d'):format(x_type, zero), function()
        for i, size in ipairs(SIZES) do
          local m, n, k = unpack(size)
          local bias = i % 2 == 0 and drawn({ n }, 'i32') or drawn({ n }, 'f32')
          try({ drawn({ m, k }, x_type), drawn({ n, k }, 'i8'), drawn({ i % 2 == 0 and m or 1 },
            'f32'), drawn({ n }, 'f32'), bias }, { x_zero = zero, act = i % 2 })
        end
      end)
    end
  end

  for _, y_type in ipairs { 'u8', 'i8' } do
    it(('gives bytes of %s, ties to even, saturated'):format(y_type), function()
      for i, size in ipairs(SIZES) do
        local m, n, k = unpack(size)
        for _, x_type in ipairs { 'u8', 'i8' } do
          local list = { drawn({ m, k }, x_type), drawn({ n, k }, 'i8'),
            x_type == 'i8' and drawn({ m }, 'f32') or drawn({}, 'f32', 2 ^ -9),
            drawn({ n }, 'f32'), i % 2 == 0 and drawn({ n }, 'i32') or false,
            drawn({}, 'f32', 4) }
          try(list, { dtype = y_type, y_zero = y_type == 'u8' and 30 or -7, act = i % 2,
            x_zero = 1 })
        end
      end
    end)
  end

  -- 6 is no byte's end here: scales are large, and what is cut off would be another byte
  it('cuts off at 6 where that is the activation', function()
    for _, y_type in ipairs { 'u8', 'i8', 'f32' } do
      for _, size in ipairs { { 3, 40, 70 }, { 17, 96, 64 } } do
        local m, n, k = unpack(size)
        local y_scale = y_type ~= 'f32' and drawn({}, 'f32', 0.125) or nil
        local list = { drawn({ m, k }, 'u8'), drawn({ n, k }, 'i8'), drawn({ 1 }, 'f32', 2 ^ -9),
          drawn({ n }, 'f32', 2 ^ -3), drawn({ n }, 'f32'), y_scale }
        local args = { x_zero = 128, dtype = y_type, act = 6 }
        local wanted, cut = case.reference(list, args)[1], 0
        for i = 1, #wanted do
          if wanted[i] == (y_scale and 48 or 6) then cut = cut + 1 end
          assert.is_true(wanted[i] <= (y_scale and 48 or 6))
        end
        assert.is_true(cut > 10, cut)
        try(list, args)
      end
    end
  end)

  it('adds up as many of the largest products as it says, exactly', function()
    local k = 65793
    for _, pair in ipairs { { 255, -128 }, { 255, 127 } } do
      local list = { drawn({ 1, k }, 'u8', pair[1]), drawn({ 2, k }, 'i8', pair[2]),
        drawn({}, 'f32', 2 ^ -31), drawn({}, 'f32', 1) }
      for level = 0, MOST do
        tensors.check(C.rg_set_isa(level))
        local got = run(list, {}, true)
        assert.are.equal(reference.convert(k * pair[1] * pair[2] * 2 ^ -31, 'f32'), got[1])
        assert.are.equal(got[1], got[2])
      end
    end
  end)

  it('takes a bias up to where a sum and it may not fit into i32, on both sides', function()
    local function with(k, x_type, v)
      local bias = drawn({ 3 }, 'i32', 0)
      bias[2] = v
      local t = { tensor(drawn({ 1, k }, x_type, 1)), tensor(drawn({ 3, k }, 'i8', 1)),
        tensor(drawn({}, 'f32', 1)), tensor(drawn({}, 'f32', 2 ^ -31)), tensor(bias) }
      local status = case.call(C, t, {}, slot)
      if status ~= 0 then return tensors.failure(status) end
      return tensors.read(tensors.hold(slot[0]))[2]
    end
    for _, k in ipairs { 8, 70 } do
      local most = 2 ^ 31 - 1 - 255 * 128 * k
      for _, sign in ipairs { 1, -1 } do
        assert.are.equal(reference.convert((sign * most + k) * 2 ^ -31, 'f32'),
          with(k, 'u8', sign * most))
        assert.are.equal(('scaled_linear: the bias at 2 is %d, with which a sum of %d products may '
          .. 'not fit into i32'):format(sign * (most + 1), k), with(k, 'u8', sign * (most + 1)))
      end
    end
    -- longer sums of i8 fit by themselves, and 0 adds nothing to them
    assert.are.equal(70000 * 2 ^ -31, with(70000, 'i8', 0))
    assert.matches('the bias at 2 is 1, with which', with(70000, 'i8', 1))
  end)

  it('quantizes rows of floats as quantize_rows does it', function()
    for i, size in ipairs(SIZES) do
      local m, n, k = unpack(size)
      local x = reference.new({ m, k }, 'f32')
      -- 127 times a power of two is the largest of each row, so that scales are exact
      for j = 1, m * k do x[j] = (number(255) - 127) * (j <= k and 2 or 0.25) end
      for r = 0, m - 1 do x[r * k + 1] = -127 * (r == 0 and 2 or 0.25) end
      try({ x, drawn({ n, k }, 'i8'), false, drawn({ n }, 'f32'),
        i % 2 == 0 and drawn({ n }, 'i32') or drawn({ n }, 'f32') }, { act = i % 2 })
    end
  end)

  it('gives the bias of rows without elements', function()
    local w, scale, bias = drawn({ 3, 0 }, 'i8'), drawn({ 1 }, 'f32', 1), drawn({ 3 }, 'f32')
    for _, x in ipairs { drawn({ 200, 0 }, 'f32'), drawn({ 2, 100, 0 }, 'bf16'),
      drawn({ 200, 0 }, 'i8') } do
      local got = run({ x, w, x.dtype == 'i8' and scale, scale, bias }, {})
      assert.are.equal(600, #got)
      for i = 1, #got do assert.are.equal(bias[(i - 1) % 3 + 1], got[i]) end
    end
  end)

  it('takes floats of every type, in any strides, and says what is no number', function()
    local x = reference.new({ 2, 3 }, 'f32')
    for i, v in ipairs { 127, -63, 1, 2, 0 / 0, 1 } do x[i] = v end
    local w = drawn({ 2, 3 }, 'i8')
    for _, kind in ipairs { 'f32', 'f64', 'f16', 'bf16' } do
      x.dtype = kind
      for _, layout in ipairs(tensors.LAYOUTS) do
        if layout.fits(x.shape) and not layout.name:find 'expand' then
          local t = { layout.make(x), tensor(w), false, tensors.make({ 1 }, {}, 'f32') }
          tensors.check(case.call(C, t, {}, slot))
          local y = tensors.read(tensors.hold(slot[0]))
          for j = 0, 1 do
            assert.are.equal(127 * w[j * 3 + 1] - 63 * w[j * 3 + 2] + w[j * 3 + 3], y[j + 1])
            assert.is_true(y[j + 3] ~= y[j + 3])
          end
        end
      end
    end
  end)

  it('makes the zero point of nan, and an end of the range of infinity', function()
    local list = { drawn({ 3, 1 }, 'i8', 1), drawn({ 1, 1 }, 'i8', 1),
      tensors and reference.new({ 3 }, 'f32'), drawn({}, 'f32', 1), false, drawn({}, 'f32', 1) }
    list[3][1], list[3][2], list[3][3] = 0 / 0, math.huge, -math.huge
    local y = run(list, { dtype = 'u8', y_zero = 9 })
    assert.are.same({ 9, 255, 0 }, { y[1], y[2], y[3] })
    y = run(list, { dtype = 'i8', y_zero = 9 })
    assert.are.same({ 9, 127, -128 }, { y[1], y[2], y[3] })
  end)

  it('says what does not fit', function()
    local x, w, one = drawn({ 2, 8 }, 'u8'), drawn({ 3, 8 }, 'i8'), drawn({}, 'f32')
    local long = drawn({ 1, 65794 }, 'i8', 1)
    local f8 = reference.new({ 2, 8 }, 'f8e4m3')
    local bias = drawn({ 3 }, 'i32')
    bias[2] = 2 ^ 31 - 1
    for i = 1, 16 do f8[i] = 1 end
    for _, bad in ipairs {
      { { x, w, false, one }, {}, EARG, 'there is no x_scale, which x of u8 needs' },
      { { drawn({ 2, 8 }, 'f32'), w, one, one }, {}, EDTYPE,
        'x is f32, wanted i8, u8, f8e4m3 or f8e5m2' },
      { { drawn({ 2, 8 }, 'i32'), w, false, one }, {}, EDTYPE,
        'x is i32, wanted i8, u8, f8e4m3 or f8e5m2, or floats that are quantized by rows' },
      { { x, f8, one, one }, {}, EDTYPE, 'w is f8e4m3, wanted i8 beside u8' },
      { { x, w, one, one, bias }, {}, EARG,
        'the bias at 2 is 2147483647, with which a sum of 8 products may not fit into i32' },
      { { f8, f8, one, one, drawn({ 2 }, 'i32') }, {}, EDTYPE,
        'the bias is i32, wanted a float type beside f8e4m3' },
      { { f8, f8, one, one, false, one }, { dtype = 'i8' }, EDTYPE,
        'the result is to be i8, wanted f32, bf16 or f16 beside f8e4m3' },
      { { x, w, one, one, drawn({ 3 }, 'i8') }, {}, EDTYPE,
        'the bias is i8[3], wanted a float type or i32' },
      { { x, w, one, one }, { dtype = 'i8' }, EARG,
        'there is no y_scale, which a result of i8 needs' },
      { { x, w, one, one, false, one }, {}, EARG,
        'there is a y_scale, and the result is f32, which needs none' },
      { { x, w, one, one, false, drawn({ 3 }, 'f32') }, { dtype = 'i8' }, ESHAPE,
        'y_scale is f32[3], wanted one number' },
      { { x, w, one, one }, { x_zero = -1 }, EARG, 'x_zero is -1, wanted 0 .. 255 beside u8' },
      { { x, w, one, one, false, one }, { dtype = 'i8', y_zero = 128 }, EARG,
        'y_zero is 128, wanted -128 .. 127 beside i8' },
      { { x, w, one, one }, { y_zero = 1 }, EARG, 'y_zero is 1, wanted 0 .. 0 beside f32' },
      { { long, long, one, one }, { x_zero = 1 }, ESHAPE,
        'sums of 65794 products of i8 may not fit into i32; up to 65793 do' },
    } do
      local t = {}
      for i = 1, 6 do t[i] = tensor(bad[1][i]) end
      local status = case.call(C, t, bad[2], slot)
      assert.are.equal('scaled_linear: ' .. bad[4], tensors.failure(status))
      assert.are.equal(bad[3], status)
    end
  end)

  -- A child for each instruction set that oneDNN is held to, and for those of the loops.
  it('gives the same integers whatever oneDNN and the loops may use', function()
    local program = [[ridge.seed(1); local function bytes(t, ...) return ridge.rand(...):mul(255)
      :floor():sub(t == "i8" and 128 or 0):to(t) end; local out = {};
      local function add(y) out[#out + 1] = tostring(y:to "f64":mul(ridge.arange(1, y.count, 1,
        { dtype = "f64" }):reshape(y.shape)):sum():item()) end;
      for i, t in ipairs { "i8", "u8" } do local x, w = bytes(t, 9, 130), bytes("i8", 70, 130);
        for _, keep in ipairs { false, true } do w:set_param(keep);
          add(ridge.scaled_linear(x, w, 1, 1)); add(ridge.scaled_linear(x, w, 0.01, 0.01,
            { dtype = t, y_scale = 1, x_zero = 5 })) end;
        add(ridge.scaled_conv2d(bytes(t, 2, 8, 9, 7), bytes("i8", 6, 4, 3, 3), 1, 1,
          { groups = 2, padding = 1, x_zero = 3 })) end; print(table.concat(out, " "))]]
    local function child(environment)
      local pipe = assert(io.popen(("%s RIDGE_LUA=lua ./ridge --threads 1 -e '%s' 2>&1"):format(
        environment, program:gsub('\n%s*', ' '))))
      local text = pipe:read '*a'
      pipe:close()
      return text
    end
    local wanted = child ''
    assert.matches('^%-?%d+ .*%d\n$', wanted)
    for _, environment in ipairs { 'ONEDNN_MAX_CPU_ISA=SSE41', 'ONEDNN_MAX_CPU_ISA=AVX2',
      'ONEDNN_MAX_CPU_ISA=AVX512_CORE', 'RIDGE_ISA=base', 'RIDGE_ISA=avx2',
      'RIDGE_ISA=base ONEDNN_MAX_CPU_ISA=SSE41' } do
      assert.are.equal(wanted, child(environment), environment)
    end
  end)
end) end

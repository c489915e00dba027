-- SPDX-License-Identifier: MIT
-- scaled_spec: products of 8-bit factors with scales: each input in layouts of its own, sums at the
-- edge of what they are kept in, which way is taken, and that scales are read where kernels run.

require 'jit.opt'.start('-sink') -- see op_spec.lua

local ffi = require 'ffi'
local HERE = debug.getinfo(1, 'S').source:match('^@(.*/)') or './'
local all = dofile(HERE .. 'cases.lua')
local case, reference, tensors = all.cases.scaled_linear, all.reference, all.tensors
local C = tensors.C

local ESHAPE, EDTYPE, ENOSUP = -1, -2, -7
local UNIT = { f16 = 2 ^ -10, bf16 = 2 ^ -7, f32 = 2 ^ -23 }
local slot = ffi.new('rg_tensor *[1]')
local ON_CPU = tensors.DEVICE == 0

local state = 1
local function number(n)
  state = (state * 1103515245 + 12345) % 2147483648
  return math.floor(state / 65536) % n
end

-- Whole bytes; scales and biases in eighths.
local function input(shape, dtype)
  local x = reference.new(shape, dtype)
  for i = 1, reference.count(shape) do
    x[i] = dtype == 'i8' and number(256) - 128 or
      reference.convert((number(33) - 16) / 8, dtype)
  end
  return x
end

local function layout(name)
  for _, l in ipairs(tensors.LAYOUTS) do
    if l.name == name then return l end
  end
  error('there is no layout ' .. name)
end

local function run(t, args)
  tensors.check(case.call(C, t, args, slot))
  return tensors.hold(slot[0])
end

-- The way a call takes, from its event.
local function path_of(t, args)
  local events = tensors.events(function() run(t, args) end)
  assert.equal(1, #events)
  return events[1][2]
end

-- One call against the reference; layouts: names, contiguous where there is none.
local function try(shapes, dtypes, args, layouts)
  local list, t = {}, {}
  for i, shape in ipairs(shapes) do
    list[i] = shape and input(shape, dtypes[i] or 'f32')
    t[i] = shape and layout(layouts and layouts[i] or 'contiguous').make(list[i])
  end
  local got, wanted = tensors.read(run(t, args)), case.reference(list, args)[1]
  assert.are.equal(wanted.dtype, got.dtype)
  assert.are.equal(#wanted, #got)
  for i = 1, #wanted do
    local size = math.max(math.abs(wanted[i]), wanted.magnitude[i])
    if not (math.abs(got[i] - wanted[i]) <= 2 * UNIT[got.dtype] * size) then
      error(('element %d is %.9g, wanted %.9g'):format(i, got[i], wanted[i]), 0)
    end
  end
end

local I8 = { 'i8', 'i8' }

describe('a product of bytes with scales', function()
  after_each(function()
    tensors.release_all()
    if ON_CPU then tensors.check(C.rg_set_gemm_path 'auto') end
  end)

  local FLOATS = { { 'f8e4m3', 'f8e5m2' }, { 'f8e5m2', 'f8e4m3' }, { 'f8e4m3', 'f8e4m3' },
    { 'f8e5m2', 'f8e5m2' } }

  local ways = { 'contiguous', 'transposed', 'stepped', 'offset', 'expanded' }
  for i, name in ipairs { 'x', 'w', 'x_scale', 'w_scale', 'b' } do
    for _, way in ipairs(ways) do
      if i <= 3 or way ~= 'transposed' then
        it(('takes %s %s'):format(name, way), function()
          for _, k in ipairs { 20, 64 } do
            try({ { 3, 7, k }, { 24, k }, { 3, 7 }, { 24 }, { 24 } }, I8, { act = 1 },
              { [i] = way })
            for _, dtypes in ipairs { I8, unpack(FLOATS) } do
              try({ { 21, k }, { 24, k }, { 21, 1 }, { 24 }, { 24 } }, dtypes, { dtype = 'bf16' },
                { [i] = way })
            end
          end
        end)
      end
    end
  end

  it('takes a batch whose rows have no single distance', function()
    local x = input({ 5, 3, 16 }, 'i8')
    local base = tensors.make(x, { 3, 5, 16 }, 'i8')
    tensors.check(C.rg_transpose(base, 0, 1, slot))
    local t = { tensors.hold(slot[0]), tensors.make({ unpack(x, 1, 64) }, { 4, 16 }, 'i8'),
      tensors.make({ 1 }, {}, 'f32'), tensors.make({ 1 }, {}, 'f32') }
    local y = tensors.read(run(t, {}))
    for i = 0, 14 do
      for j = 0, 3 do
        local sum, at = 0, (i % 3 * 5 + math.floor(i / 3)) * 16
        for l = 1, 16 do sum = sum + x[at + l] * x[j * 16 + l] end
        assert.are.equal(sum, y[i * 4 + j + 1])
      end
    end
  end)

  it('adds up as many of the largest products as it says, exactly', function()
    local k = 131071
    local x, w = tensors.empty({ 1, k }, 'i8'), tensors.empty({ 3, k }, 'i8')
    local one = tensors.make({ 1 }, { 1 }, 'f32')
    for _, way in ipairs(ON_CPU and { 'auto', 'own' } or { '' }) do
      if ON_CPU then tensors.check(C.rg_set_gemm_path(way)) end
      for _, pair in ipairs { { -128, -128 }, { -128, 127 }, { 127, 127 } } do
        tensors.check(C.rg_fill_(x, pair[1]))
        tensors.check(C.rg_fill_(w, pair[2]))
        local wanted = reference.convert(k * pair[1] * pair[2], 'f32')
        assert.same({ wanted, wanted, wanted },
          { unpack(tensors.read(run({ x, w, one, one }, {}))) })
      end
    end
  end)

  it('keeps nan in a scale to what it scales', function()
    local nan = 0 / 0
    local x, w = input({ 3, 8 }, 'i8'), input({ 2, 8 }, 'i8')
    local t = { tensors.make(x, { 3, 8 }, 'i8'), tensors.make(w, { 2, 8 }, 'i8'),
      tensors.make({ 1, nan, 1 }, { 3 }, 'f32'), tensors.make({ 1, 1 }, { 2 }, 'f32') }
    for act = 0, 6 do
      local y = tensors.read(run(t, { act = act }))
      for i = 1, 6 do assert.are.equal(i == 3 or i == 4, y[i] ~= y[i], 'element ' .. i) end
    end
    t[3] = tensors.make({ 1 }, {}, 'f32')
    t[4] = tensors.make({ 1, nan }, { 2 }, 'f32')
    local y = tensors.read(run(t, { act = 1 }))
    for i = 1, 6 do assert.are.equal(i % 2 == 0, y[i] ~= y[i], 'element ' .. i) end
  end)

  -- Byte i is row i of x (all else in it is 0), and comes out as the number it stands for.
  it('takes every number of the 8-bit floats, and what is none', function()
    local bytes = ffi.new 'uint8_t[4096]'
    for i = 0, 255 do bytes[i * 16] = i end
    local one = tensors.make({ 1 }, { 1 }, 'f32')
    for _, dtypes in ipairs(FLOATS) do
      local size = ffi.new('int64_t[2]', { 256, 16 })
      tensors.check(C.rg_empty(tensors.CODES[dtypes[1]], 0, size, 2, slot))
      local x = tensors.hold(slot[0])
      tensors.check(C.rg_tensor_write(x, bytes, 4096))
      if not ON_CPU then
        tensors.check(C.rg_to_device(x, tensors.DEVICE, slot))
        x = tensors.hold(slot[0])
      end
      local numbers = tensors.read(x)
      local values = {}
      for i = 1, 16 * 16 do values[i] = 1 end
      local w = tensors.make(values, { 16, 16 }, dtypes[2])
      local y = tensors.read(run({ x, w, one, one }, {}))
      for i = 0, 255 do
        local wanted, got = numbers[i * 16 + 1], y[i * 16 + 5]
        assert.is_true(got == wanted or got ~= got and wanted ~= wanted,
          ('%s %d is %g, wanted %g'):format(dtypes[1], i, got, wanted))
      end
      -- the other way round, and a row of w that is not a number spoils its column alone
      y = tensors.read(run({ w, x, one, one }, { act = 1 }))
      for i = 0, 255 do
        local wanted, got = numbers[i * 16 + 1], y[3 * 256 + i + 1]
        assert.is_true(got == math.max(wanted, 0) or got ~= got and wanted ~= wanted, i)
      end
    end
  end)

  it('adds up more floats than bytes', function()
    local one = tensors.make({ 0.5 }, {}, 'f32')
    local x, w = tensors.empty({ 1, 131072 }, 'f8e4m3'), tensors.empty({ 2, 131072 }, 'f8e5m2')
    tensors.check(C.rg_fill_(x, 1))
    tensors.check(C.rg_fill_(w, -2))
    assert.same({ -65536, -65536 }, { unpack(tensors.read(run({ x, w, one, one }, {}))) })
  end)

  it('reads its scales when a plan is replayed', function()
    local t = { tensors.make(input({ 4, 16 }, 'i8'), { 4, 16 }, 'i8'),
      tensors.make(input({ 16, 16 }, 'i8'), { 16, 16 }, 'i8'),
      tensors.make({ 1, 2, 3, 4 }, { 4 }, 'f32'), tensors.make({ 0.5 }, {}, 'f32') }
    local plan = ffi.new 'rg_plan *[1]'
    run(t, {}) -- what a device's library does at its first call is not for a capture
    tensors.check(C.rg_capture_begin())
    local y = run(t, {})
    tensors.check(C.rg_capture_end(plan))
    local before = tensors.read(y)
    tensors.check(C.rg_mul_scalar_(t[3], 2))
    tensors.check(C.rg_fill_(t[4], 0.25))
    tensors.check(C.rg_mul_scalar_(t[1], 0))
    tensors.check(C.rg_plan_replay(plan[0], 1))
    for _, v in ipairs(tensors.read(y)) do assert.are.equal(0, v) end
    tensors.check(C.rg_add_scalar_(t[1], 1))
    tensors.check(C.rg_plan_replay(plan[0], 1))
    local after, again = tensors.read(y), tensors.read(run(t, {}))
    assert.same({ unpack(again) }, { unpack(after) })
    assert.not_same({ unpack(before) }, { unpack(after) })
    C.rg_plan_release(plan[0])
  end)

  it('reads one scale for all of 8-bit floats when a plan is replayed', function()
    local t = { tensors.make(input({ 16, 32 }, 'f8e4m3'), { 16, 32 }, 'f8e4m3'),
      tensors.make(input({ 16, 32 }, 'f8e5m2'), { 16, 32 }, 'f8e5m2'),
      tensors.make({ 1 }, { 1 }, 'f32'), tensors.make({ 1 }, {}, 'f32') }
    local plan = ffi.new 'rg_plan *[1]'
    local once = tensors.read(run(t, {}))
    tensors.check(C.rg_capture_begin())
    local y = run(t, {})
    tensors.check(C.rg_capture_end(plan))
    for i = 1, 3 do
      tensors.check(C.rg_fill_(t[3], 2 ^ i))
      tensors.check(C.rg_fill_(t[4], 2 ^ -3))
      tensors.check(C.rg_plan_replay(plan[0], 1))
      for j, v in ipairs(tensors.read(y)) do assert.are.equal(once[j] * 2 ^ (i - 3), v) end
    end
    C.rg_plan_release(plan[0])
  end)

  it('says what does not fit', function()
    local x, w = tensors.empty({ 2, 8 }, 'i8'), tensors.empty({ 3, 8 }, 'i8')
    local one, long = tensors.empty({ 1 }, 'f32'), tensors.empty({ 1, 131072 }, 'i8')
    for _, bad in ipairs {
      { { x, tensors.empty({ 3, 8 }, 'f32'), one, one }, {}, EDTYPE,
        'w is f32, wanted i8, f8e4m3 or f8e5m2' },
      { { x, tensors.empty({ 3, 8 }, 'f8e4m3'), one, one }, {}, EDTYPE,
        'x is i8 and w is f8e4m3; both are i8, or both are f8e4m3 or f8e5m2' },
      { { x, w, tensors.empty({ 3 }, 'f32'), one }, {}, ESHAPE,
        'x_scale is f32[3], wanted one number or [2]' },
      { { x, w, one, tensors.empty({ 2 }, 'f32') }, {}, ESHAPE,
        'w_scale is f32[2], wanted one number or [3]' },
      { { x, w, one, tensors.empty({ 3 }, 'bf16') }, {}, EDTYPE, 'w_scale is bf16, wanted f32' },
      { { x, w, one, one }, { dtype = 'i32' }, EDTYPE,
        'the result is to be i32, wanted f32, bf16, f16, i8 or u8' },
      { { long, long, one, one }, {}, ESHAPE,
        'sums of 131072 products of i8 may not fit into i32; up to 131071 do' },
    } do
      local status = case.call(C, bad[1], bad[2], slot)
      assert.are.equal(bad[3], status)
      assert.are.equal('scaled_linear: ' .. bad[4], tensors.failure(status))
    end
  end)

  it('has no gradient, and says so', function()
    local one, sum = tensors.make({ 2 }, {}, 'f32'), ffi.new 'rg_tensor *[1]'
    tensors.check(C.rg_require_grad(one, 1))
    local t = { tensors.make(input({ 2, 8 }, 'i8'), { 2, 8 }, 'i8'),
      tensors.make(input({ 3, 8 }, 'i8'), { 3, 8 }, 'i8'), one, tensors.make({ 1 }, {}, 'f32') }
    tensors.check(C.rg_sum(run(t, {}), nil, 0, 0, sum))
    local status = C.rg_backward(tensors.hold(sum[0]), nil, 0)
    assert.are.equal(ENOSUP, status)
    assert.are.equal('scaled_linear: has no gradient', tensors.failure(status))
  end)

  it('leaves 8-bit floats alone under autocast', function()
    local t = { tensors.make(input({ 4, 16 }, 'f8e4m3'), { 4, 16 }, 'f8e4m3'),
      tensors.make(input({ 8, 16 }, 'f8e4m3'), { 8, 16 }, 'f8e4m3'),
      tensors.make({ 1 }, {}, 'f32'), tensors.make({ 0.5 }, {}, 'f32') }
    local plain = tensors.bytes(run(t, {}))
    local before = C.rg_autocast_set(C.RG_BF16)
    local ok, cast = pcall(run, t, {})
    C.rg_autocast_set(before)
    assert.is_true(ok and tensors.bytes(cast) == plain)
  end)

  if not ON_CPU then
    local modes = C.rg_device_modes_now()
    after_each(function() modes.vendor = 1 end)

    -- A call's inputs, and the way it takes with and without the vendor's library.
    local function ways_of(shapes, layouts, dtypes)
      local t = {}
      for i, shape in ipairs(shapes) do
        t[i] = layout(layouts and layouts[i] or 'contiguous').make(
          input(shape, (dtypes or I8)[i] or 'f32'))
      end
      local by = {}
      for vendor = 1, 0, -1 do
        modes.vendor = vendor
        by[2 - vendor] = path_of(t, {})
      end
      return by
    end

    it('goes by cublasLt, by tensor cores, or plainly, as its factors lie', function()
      assert.same({ 'cublasLt', 'mma' }, ways_of { { 72, 96 }, { 144, 96 }, { 72 }, { 144 } })
      assert.same({ 'cublasLt', 'mma' }, ways_of { { 2, 3, 32 }, { 4, 32 }, { 2, 3 }, {} })
      assert.same({ 'mma', 'mma' }, ways_of { { 72, 96 }, { 41, 96 }, {}, {} })
      assert.same({ 'tiles', 'tiles' }, ways_of { { 72, 90 }, { 144, 90 }, {}, {} })
      for _, way in ipairs { 'transposed', 'stepped', 'offset', 'expanded' } do
        for i = 1, 2 do
          assert.same({ 'tiles', 'tiles' }, ways_of({ { 32, 32 }, { 32, 32 }, {}, {} },
            { [i] = way }), way)
        end
      end
      assert.same({ 'cublasLt', 'mma' }, ways_of({ { 32, 32 }, { 32, 32 }, {}, {} },
        { 'padded', 'padded' }))
    end)

    it('widens 8-bit floats where cublasLt does not take them', function()
      local WIDENED = { 'cublasLt:bf16', 'mma:bf16' }
      for i, dtypes in ipairs(FLOATS) do
        assert.same(i < 4 and { 'cublasLt', 'mma:bf16' } or WIDENED,
          ways_of({ { 64, 96 }, { 144, 96 }, { 64 }, { 144 } }, nil, dtypes))
      end
      for _, shapes in ipairs { { { 64, 96 }, { 120, 96 }, {}, {} },
        { { 64, 90 }, { 144, 90 }, {}, {} } } do
        assert.same(WIDENED, ways_of(shapes, nil, FLOATS[1]))
      end
      -- any number of rows, with one scale or one for each
      for _, rows in ipairs { 1, 17, 72 } do
        for _, scales in ipairs { {}, { rows } } do
          assert.same({ 'cublasLt', 'mma:bf16' },
            ways_of({ { rows, 96 }, { 144, 96 }, scales, { 144 } }, nil, FLOATS[1]), rows)
        end
      end
      for _, way in ipairs { 'transposed', 'stepped', 'offset', 'expanded' } do
        for i = 1, 2 do
          assert.same(WIDENED, ways_of({ { 32, 32 }, { 32, 32 }, {}, {} }, { [i] = way },
            FLOATS[2]), way)
        end
      end
      assert.same({ 'tiles', 'tiles' }, ways_of({ { 64, 8 }, { 32, 8 }, {}, {} }, nil, FLOATS[1]))
      -- a size for which the stand-in has no algorithm; a GPU's library may have one
      local by = ways_of({ { 13, 32 }, { 13, 32 }, {}, {} }, nil, FLOATS[1])
      assert.are.equal('mma:bf16', by[2])
      local simulated = (os.getenv 'RIDGE_GPU' or ''):find 'sim'
      assert.is_true(by[1] == 'mma:bf16' or by[1] == 'cublasLt:bf16' and not simulated, by[1])
    end)

    it('does its scales by itself where there is no room for their vectors', function()
      if not (os.getenv 'RIDGE_GPU' or ''):find 'sim' then return end
      ffi.cdef 'int setenv(const char *, const char *, int); int unsetenv(const char *);'
      local m = 5000 -- more than any other test has asked for
      local shapes = { { m, 16 }, { 16, 16 }, { m }, { 16 } }
      local list, t = {}, {}
      for i, shape in ipairs(shapes) do
        list[i] = input(shape, FLOATS[1][i] or 'f32')
        t[i] = layout(i == 3 and 'offset' or 'contiguous').make(list[i])
      end
      C.rg_tensor_drop(tensors.empty({ m, 16 }, 'f32')) -- the result's memory
      ffi.C.setenv('RG_SIM_OOM_AFTER', '0', 1)
      local ok, y = pcall(run, t, {})
      ffi.C.unsetenv 'RG_SIM_OOM_AFTER'
      assert.is_true(ok, tostring(y))
      local got, wanted = tensors.read(y), case.reference(list, {})[1]
      for i = 1, #wanted do
        assert.is_true(math.abs(got[i] - wanted[i]) <= 1e-5 * math.max(1, wanted.magnitude[i]))
      end
    end)

    it('is right by each of them', function()
      for vendor = 0, 1 do
        modes.vendor = vendor
        for act = 0, 6 do
          try({ { 70, 96 }, { 136, 96 }, { 70 }, { 136 }, { 136 } }, I8, { act = act })
        end
        try({ { 150, 320 }, { 264, 320 }, { 150 }, { 264 }, false }, I8, { dtype = 'bf16' })
        try({ { 3, 43, 208 }, { 131, 208 }, { 3, 43 }, { 131 }, { 131 } }, I8, {})
        try({ { 1, 16 }, { 1, 16 }, {}, {}, { 1 } }, I8, {})
        try({ { 65, 48 }, { 129, 48 }, { 65, 1 }, { 129, 1 }, { 129 } }, I8, {},
          { 'padded', 'padded' })
        try({ { 65, 50 }, { 129, 50 }, {}, { 129 }, { 129 } }, I8, {}, { 'transposed', 'stepped' })
        for _, dtypes in ipairs(FLOATS) do
          for _, dtype in ipairs { 'f32', 'bf16', 'f16' } do -- all by the library, or scales by us
            try({ { 64, 96 }, { 48, 96 }, {}, { 1 }, false }, dtypes, { dtype = dtype })
            try({ { 64, 96 }, { 48, 96 }, {}, { 48 }, { 48 } }, dtypes, { dtype = dtype, act = 1 })
            try({ { 64, 96 }, { 48, 96 }, { 64 }, {}, false }, dtypes, { dtype = dtype, act = 2 })
            -- a scale for each row of one or both, all by the library where it reads vectors
            for _, rows in ipairs { 17, 64 } do
              try({ { rows, 96 }, { 48, 96 }, { rows }, { 48 }, false }, dtypes, { dtype = dtype })
              try({ { rows, 96 }, { 48, 96 }, {}, { 48 }, false }, dtypes, { dtype = dtype })
              try({ { rows, 96 }, { 48, 96 }, { rows, 1 }, { 48 }, false }, dtypes,
                { dtype = dtype }, { nil, nil, 'stepped', 'stepped' })
            end
          end
          try({ { 70, 147 }, { 137, 147 }, { 70 }, { 137 }, { 137 } }, dtypes, { act = 1 })
          try({ { 65, 50 }, { 129, 50 }, {}, { 129 }, { 129 } }, dtypes, {},
            { 'transposed', 'stepped' })
        end
      end
    end)
    return
  end

  -- What the processor says of itself, unless the library is told to leave it out.
  local function flags()
    local file = io.open '/proc/cpuinfo'
    local text = file and file:read '*a' or ''
    if file then file:close() end
    return text
  end

  it('goes by its own product, and by oneDNN where that is exact, with the same bits', function()
    local text = flags()
    local exact = text:find 'avx512_vnni' and not os.getenv 'ONEDNN_MAX_CPU_ISA'
    for _, shapes in ipairs { { { 33, 70 }, { 41, 70 }, { 33 }, { 41 }, { 41 } },
      { { 1, 64 }, { 64, 64 }, {}, { 64 }, false }, { { 8, 3 }, { 5, 3 }, {}, {}, false } } do
      local t = {}
      for i, shape in ipairs(shapes) do
        t[i] = shape and tensors.make(input(shape, I8[i] or 'f32'), shape, I8[i] or 'f32')
      end
      tensors.check(C.rg_set_gemm_path 'own')
      local own = tensors.bytes(run(t, { act = 1 }))
      assert.matches('^own:', path_of(t, {}))
      tensors.check(C.rg_set_gemm_path 'onednn')
      assert.matches(exact and '^onednn$' or '^own:', path_of(t, {}))
      assert.is_true(own == tensors.bytes(run(t, { act = 1 })))
      tensors.check(C.rg_set_gemm_path 'auto')
      for weight = 0, 1 do -- what is no weight is not packed first
        C.rg_tensor_set_param(t[2], weight)
        assert.matches(exact and weight == 0 and '^onednn$' or '^own:', path_of(t, {}))
        assert.is_true(own == tensors.bytes(run(t, { act = 1 })))
      end
    end
  end)

  it('gives the same bits by every instruction set', function()
    local most, t = C.rg_machine_facts().isa_level, {}
    for i, shape in ipairs { { 37, 135 }, { 43, 135 }, { 37 }, { 43 }, { 43 } } do
      t[i] = tensors.make(input(shape, I8[i] or 'f32'), shape, I8[i] or 'f32')
    end
    tensors.check(C.rg_set_gemm_path 'own')
    for _, dtype in ipairs { 'f32', 'bf16' } do
      local wanted
      for level = 0, most do
        tensors.check(C.rg_set_isa(level))
        local bytes = tensors.bytes(run(t, { act = 1, dtype = dtype }))
        wanted = wanted or bytes
        tensors.check(C.rg_set_isa(most))
        assert.is_true(bytes == wanted, ('%s by level %d'):format(dtype, level))
      end
    end
  end)

  -- Elements that are not contiguous are taken 512 at a time.
  it('reads long rows with gaps', function()
    for _, k in ipairs { 512, 1030 } do
      try({ { 3, k }, { 5, k }, { 3 }, { 5 } }, I8, {}, { 'stepped' })
    end
  end)

  -- Sums that are not finished by the product are so in runs of 512.
  it('scales each run of columns by scales of its own', function()
    for _, dtypes in ipairs { I8, FLOATS[1] } do
      for _, dtype in ipairs { 'f32', 'bf16' } do
        try({ { 3, 24 }, { 1100, 24 }, { 3 }, { 1100 }, { 1100 } }, dtypes,
          { act = 1, dtype = dtype })
      end
    end
  end)

  it('multiplies one row by 8-bit floats in place, in runs', function()
    tensors.check(C.rg_set_gemm_path 'own')
    for _, dtypes in ipairs(FLOATS) do
      for _, k in ipairs { 3, 1024, 2500 } do
        local shapes = { { 1, k }, { 39, k }, {}, { 39 }, { 39 } }
        local t = {}
        for i, shape in ipairs(shapes) do
          t[i] = tensors.make(input(shape, dtypes[i] or 'f32'), shape, dtypes[i] or 'f32')
        end
        assert.are.equal('own:row', path_of(t, {}))
        try(shapes, dtypes, {})
        try(shapes, dtypes, { act = 1 }, { 'stepped' })
      end
    end
  end)

  it('multiplies 8-bit floats by the ways of products in bf16', function()
    local shapes = { { 33, 70 }, { 41, 70 }, { 33 }, { 41 }, { 41 } }
    for _, dtypes in ipairs(FLOATS) do
      local t = {}
      for i, shape in ipairs(shapes) do
        t[i] = tensors.make(input(shape, dtypes[i] or 'f32'), shape, dtypes[i] or 'f32')
      end
      for way, name in pairs { own = '^own', onednn = '^onednn', openblas = '^openblas' } do
        tensors.check(C.rg_set_gemm_path(way))
        assert.matches(name, path_of(t, {}))
        try(shapes, dtypes, { act = 1 })
      end
    end
  end)
end)

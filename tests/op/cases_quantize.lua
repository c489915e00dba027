-- SPDX-License-Identifier: MIT
-- cases_quantize: sample inputs of numbers as bytes and back; see cases.lua for what an entry is.

local ffi = require 'ffi'

local ESHAPE, EDTYPE, EAXIS, EARG = -1, -2, -3, -4

return function(M)
  local cases, reference, tensors = M.cases, M.reference, M.tensors

  ffi.cdef 'typedef struct { int32_t axis; int64_t group; int32_t dtype; } rg_test_quantize;'

  local numbers = {}
  local function run(name, n_in, dtype)
    return function(C, t, a, out)
      numbers[name] = numbers[name] or tensors.index_of(name)
      local args = ffi.new('rg_test_quantize[1]', { { a.axis or -1, a.group or 0,
        tensors.CODES[a.dtype or dtype or 'i8'] or a.dtype } })
      local list = ffi.new('const rg_tensor *[3]', { t[1], t[2] or nil, t[3] or nil })
      return C.rg_op_call(numbers[name], list, n_in, args, nil, out)
    end
  end

  -- Zero points are of the type of the bytes, and as large as any.
  local function zeros(zero, dtype)
    zero.dtype = dtype
    for i = 1, reference.count(zero.shape) do
      zero[i] = (i * 37 + 11) % 256 - (dtype == 'i8' and 128 or 0)
    end
  end

  -- x, scale and zero point by axis and group, of the result or of the input
  local SPREADS = { { { 7 }, { 1 }, false }, { { 1 }, {}, {} }, { { 2, 3 }, {}, { 1, 1 } },
    { { 2, 3 }, { 3 }, { 3 } }, { { 2, 3 }, { 3 }, {} }, { { 2, 3 }, {}, { 3 } },
    { { 2, 3 }, { 2 }, { 2 }, axis = 0 }, { { 3, 4, 5 }, { 4 }, { 4 }, axis = 1 },
    { { 2, 3 }, { 2, 1 }, { 2, 1 }, group = 3 }, { { 2, 3 }, { 2 }, { 2 }, group = 8 },
    { { 2, 3, 5 }, { 2, 3 }, false, group = 5 }, { { 4, 70 }, { 4, 3 }, { 4, 3 }, group = 32 },
    { { 4, 64 }, { 4, 2 }, false, group = 32 }, { { 70, 3 }, { 3, 3 }, { 3, 3 }, axis = 0,
    group = 30 }, { { 2, 7, 3 }, { 2, 4, 3 }, { 2, 4, 3 }, axis = 1, group = 2 },
    { { 0 }, { 1 }, false }, { { 3, 0, 2 }, { 2 }, { 2 } },
    { { 0, 3 }, { 0, 1 }, false, group = 3 },
    { { 3, 0 }, { 3, 1 }, false, group = 3 }, { { 1300 }, { 1300 }, { 1300 } },
    { { 3, 700 }, { 3, 1 }, {}, group = 700 }, { { 5, 300 }, { 5 }, { 5 }, axis = 0 } }

  local function samples(of_result)
    local list = {}
    for i, s in ipairs(SPREADS) do
      list[i] = { s[1], s[2], s[3], args = { axis = s.axis, group = s.group,
        dtype = of_result[i % #of_result + 1] } }
    end
    return list
  end

  local f, i8 = 'f32', 'i8'
  local function bad(first, result)
    return {
      { { { 2, 3 }, { 2 } }, { first, f }, {}, ESHAPE },
      { { { 2, 3 }, { 3 } }, { first, f }, { group = 3 }, ESHAPE },
      { { { 2, 3 }, { 2, 3 } }, { first, f }, {}, ESHAPE },
      { { { 2, 3 }, { 2, 2 } }, { first, f }, { group = 3 }, ESHAPE },
      { { { 2, 3 }, { 1 }, { 2 } }, { first, f, i8 }, {}, ESHAPE },
      { { { 2, 3 }, { 1 } }, { first, f }, { axis = 2 }, EAXIS },
      { { { 2, 3 }, { 1 } }, { first, f }, { group = -1 }, EARG },
      { { { 2, 3 }, { 3 } }, { first, 'f64' }, {}, EDTYPE },
      { { { 2, 3 }, { 3 } }, { first, i8 }, {}, EDTYPE },
      { { { 2, 3 }, { 3 }, { 3 } }, { first, f, 'i32' }, {}, EDTYPE },
      { { { 2, 3 }, { 3 }, { 3 } }, { first, f, 'u8' }, { dtype = result }, EDTYPE },
      { { { 2, 3 }, { 1 } }, { first, f }, { dtype = 'i32' }, EDTYPE },
      { { { 2, 3 }, { 1 } }, { first, f }, { dtype = 'f64' }, EDTYPE },
      { { { 2, 3 }, { 1 } }, { first, f }, { dtype = 77 }, EDTYPE },
    }
  end

  cases.quantize = {
    call = run('quantize', 3),
    reference = reference.quantize,
    inputs = { [2] = 'f32' },
    prepare = function(list, sample)
      if list[3] then zeros(list[3], sample.args and sample.args.dtype or 'i8') end
    end,
    samples = samples { 'i8', 'u8' },
    dtypes = tensors.FLOATS,
    ulps = 0, optional = { [3] = true },
    large = { { { 700, 300 }, { 300 } }, { { 700, 300 }, { 700 }, args = { axis = 0 } } },
    bad = bad('f32', 'i8'),
  }
  table.insert(cases.quantize.bad, { { { 2, 3 }, { 1 } }, { 'i32', f }, {}, EDTYPE })

  cases.dequantize = {
    call = run('dequantize', 3, 'f32'),
    reference = reference.dequantize,
    inputs = { [2] = 'f32' },
    prepare = function(list)
      if list[3] and list[1].dtype ~= 'i32' then zeros(list[3], list[1].dtype) end
      if list[1].dtype == 'i32' then list[3] = false end
    end,
    samples = samples { 'f32', 'bf16', 'f16' },
    dtypes = { 'i8', 'u8', 'i32' },
    ulps = 0.5, optional = { [3] = true },
    large = { { { 700, 300 }, { 300 } } },
    bad = bad('i8', 'f32'),
  }
  for _, kind in ipairs { 'f32', 'i64', 'bool' } do
    table.insert(cases.dequantize.bad, { { { 2, 3 }, { 1 } }, { kind, f }, {}, EDTYPE })
  end
  table.insert(cases.dequantize.bad, { { { 2 }, { 1 }, { 1 } }, { 'i32', f, 'i32' }, {}, EDTYPE })

  cases.quantize_rows = {
    call = run('quantize_rows', 1),
    reference = reference.quantize_rows,
    samples = { { { 7 } }, { { 1 } }, { { 2, 3 } }, { { 0 } }, { { 3, 0 } }, { { 0, 3 } },
      { { 2, 3, 5 } }, { { 4, 70 } }, { { 2, 1300 } }, { { 33, 40 } } },
    dtypes = tensors.FLOATS,
    ulps = 0, n_out = 2,
    large = { { { 700, 300 } } },
    bad = { { { {} }, { 'f32' }, {}, ESHAPE }, { { { 2 } }, { 'i32' }, {}, EDTYPE } },
  }

  -- -- A few bits ---------------------------------------------------------------------------------

  ffi.cdef [[typedef struct { int32_t bits; int64_t group; int32_t act, dtype; } rg_test_packed;
    typedef struct { int32_t bits; } rg_test_bits;]]

  local BITS = { 2, 3, 4, 6, 8 }

  local function run_bits(name)
    return function(C, t, a, out)
      numbers[name] = numbers[name] or tensors.index_of(name)
      return C.rg_op_call(numbers[name], ffi.new('const rg_tensor *[1]', { t[1] }), 1,
        ffi.new('rg_test_bits[1]', { { a.bits } }), nil, out)
    end
  end

  local function below(list, most)
    for i = 1, reference.count(list.shape) do list[i] = (i * 37 + math.floor(i / 5)) % most end
  end

  cases.pack_bits = {
    call = run_bits 'pack_bits', reference = reference.pack_bits, moves = true,
    prepare = function(list, sample) below(list[1], 2 ^ sample.args.bits) end,
    samples = {}, dtypes = { 'u8' }, ulps = 0,
    large = { { { 300, 640 }, args = { bits = 8 } } },
    bad = { { { { 2, 31 } }, { 'u8' }, { bits = 4 }, ESHAPE }, { { {} }, { 'u8' }, { bits = 4 },
      ESHAPE }, { { { 2, 32 } }, { 'i8' }, { bits = 4 }, EDTYPE },
      { { { 2, 32 } }, { 'u8' }, { bits = 5 }, EARG },
      { { { 2, 32 } }, { 'u8' }, { bits = 2 }, EARG } }, -- a code of 9
  }
  cases.unpack_bits = {
    call = run_bits 'unpack_bits', reference = reference.unpack_bits, moves = true,
    prepare = function(list) below(list[1], 256) end,
    samples = {}, dtypes = { 'u8' }, ulps = 0,
    large = { { { 300, 640 }, args = { bits = 4 } } },
    bad = { { { { 2, 8 } }, { 'u8' }, { bits = 4 }, ESHAPE }, { { {} }, { 'u8' }, { bits = 4 },
      ESHAPE }, { { { 2, 16 } }, { 'f32' }, { bits = 4 }, EDTYPE },
      { { { 2, 16 } }, { 'u8' }, { bits = 1 }, EARG } },
  }
  local packed = {}
  for i, bits in ipairs(BITS) do
    local function w(n, k) return { n, k * bits / 8 } end
    for _, shape in ipairs { { 32 }, { 3, 64 }, { 0, 32 }, { 2, 0 }, { 2, 3, 96 } } do
      local n = shape[#shape]
      shape[#shape] = n / 8 * bits
      table.insert(cases.unpack_bits.samples, { { unpack(shape) }, args = { bits = bits } })
      shape[#shape] = n
      table.insert(cases.pack_bits.samples, { shape, args = { bits = bits } })
    end
    for _, sample in ipairs {
      { { 2, 64 }, w(3, 64), { 3, 2 }, false, { 3 }, args = {} },
      { { 128 }, w(33, 128), { 33, 2 }, { 33, 2 }, false, args = { group = 64, act = i % 7 } },
      { { 2, 3, 128 }, w(35, 128), { 35, 1 }, { 35, 1 }, { 35 }, args = { group = 128,
        dtype = 'bf16' } },
      { { 17, 640 }, w(5, 640), { 5, 20 }, false, false, args = { dtype = 'f16' } },
      { { 4, 32 }, w(2, 32), { 2, 1 }, { 2, 1 }, { 2 }, args = {} } } do
      sample.args.bits = bits
      packed[#packed + 1] = sample
    end
  end
  for _, sample in ipairs { { { 0, 32 }, { 3, 16 }, { 3, 1 }, false, { 3 } },
    { { 2, 0 }, { 3, 0 }, { 3, 0 }, { 3, 0 }, { 3 } }, { { 2, 32 }, { 0, 16 }, { 0, 1 } } } do
    sample.args = { bits = 4 }
    packed[#packed + 1] = sample
  end
  local four, h = { bits = 4 }, 'f16'
  cases.packed_linear = {
    call = function(C, t, a, out)
      numbers.packed_linear = numbers.packed_linear or tensors.index_of 'packed_linear'
      local list = ffi.new('const rg_tensor *[6]')
      for i = 1, 6 do list[i - 1] = t[i] or nil end
      return C.rg_op_call(numbers.packed_linear, list, 6, ffi.new('rg_test_packed[1]', { { a.bits,
        a.group or 32, a.act or 0, tensors.CODES[a.dtype or 'f32'] or a.dtype } }), nil, out)
    end,
    reference = reference.packed_linear,
    inputs = { [2] = 'u8', [3] = 'f16', [4] = 'f16', [5] = 'f32', [6] = 'f32' },
    prepare = function(list) below(list[2], 256) end,
    samples = packed,
    dtypes = { 'f32', 'bf16', 'f16' },
    ulps = 8, optional = { [4] = true, [5] = true, [6] = true },
    large = { { { 70, 256 }, { 300, 128 }, { 300, 8 }, args = four },
      { { 2, 512 }, { 600, 256 }, { 600, 16 }, { 600, 16 }, args = four } },
    bad = { { { { 2, 33 }, { 3, 16 }, { 3, 1 } }, { f, 'u8', h }, four, ESHAPE },
      { { { 2, 32 }, { 3, 8 }, { 3, 1 } }, { f, 'u8', h }, four, ESHAPE },
      { { { 2, 32 }, { 3, 16 }, { 3, 2 } }, { f, 'u8', h }, four, ESHAPE },
      { { { 2, 32 }, { 3, 16 }, { 3, 1 }, { 3 } }, { f, 'u8', h, h }, four, ESHAPE },
      { { { 2, 32 }, { 3, 16 }, { 3, 1 }, { 3, 1 }, { 2 } }, { f, 'u8', h, h, f }, four, ESHAPE },
      { { { 2, 32 }, { 48 }, { 3, 1 } }, { f, 'u8', h }, four, ESHAPE },
      { { {}, { 3, 16 }, { 3, 1 } }, { f, 'u8', h }, four, ESHAPE },
      { { { 2, 32 }, { 3, 16 }, { 3, 1 } }, { 'f64', 'u8', h }, four, EDTYPE },
      { { { 2, 32 }, { 3, 16 }, { 3, 1 } }, { f, i8, h }, four, EDTYPE },
      { { { 2, 32 }, { 3, 16 }, { 3, 1 } }, { f, 'u8', f }, four, EDTYPE },
      { { { 2, 32 }, { 3, 16 }, { 3, 1 }, { 3, 1 } }, { f, 'u8', h, f }, four, EDTYPE },
      { { { 2, 32 }, { 3, 16 }, { 3, 1 } }, { i8, 'u8', h }, four, EARG },
      { { { 2, 32 }, { 3, 16 }, { 3, 1 }, { 3, 1 }, { 3 }, { 1 } }, { f, 'u8', h, h, f, f }, four,
        EARG },
      { { { 2, 32 }, { 3, 16 }, { 3, 1 }, { 3, 1 }, { 3 }, { 3 } }, { i8, 'u8', h, h, f, f }, four,
        ESHAPE },
      { { { 2, 32 }, { 3, 16 }, { 3, 1 }, { 3, 1 }, { 3 }, { 1 } }, { i8, 'u8', h, h, f, h }, four,
        EDTYPE },
      { { { 2, 32 }, { 3, 16 }, { 3, 1 } }, { f, 'u8', h }, { bits = 5 }, EARG },
      { { { 2, 32 }, { 3, 16 }, { 3, 2 } }, { f, 'u8', h }, { bits = 4, group = 16 }, EARG },
      { { { 2, 32 }, { 3, 16 }, { 3, 1 } }, { f, 'u8', h }, { bits = 4, act = 7 }, EARG },
      { { { 2, 32 }, { 3, 16 }, { 3, 1 } }, { f, 'u8', h }, { bits = 4, dtype = i8 }, EDTYPE } },
  }

  -- -- Sums of bytes ------------------------------------------------------------------------------

  ffi.cdef [[typedef struct { int32_t act, dtype; int64_t a_zero, b_zero, y_zero; } rg_test_add;
    typedef struct { int32_t act, dtype; } rg_test_sparse;
    typedef struct { int32_t act, dtype; int64_t rows; } rg_test_n_of_m;]]

  local function call(name, n_in, type, args_of)
    return function(C, t, a, out)
      numbers[name] = numbers[name] or tensors.index_of(name)
      local list = ffi.new('const rg_tensor *[6]')
      for i = 1, n_in do list[i - 1] = t[i] or nil end
      return C.rg_op_call(numbers[name], list, n_in, ffi.new(type .. '[1]', { args_of(a) }), nil,
        out)
    end
  end

  local u8 = 'u8'
  cases.scaled_add = {
    call = call('scaled_add', 5, 'rg_test_add', function(a)
      return { a.act or 0, tensors.CODES[a.dtype or 'f32'] or a.dtype, a.a_zero or 0,
        a.b_zero or 0, a.y_zero or 0 }
    end),
    reference = reference.scaled_add,
    inputs = { [2] = f, [4] = f, [5] = f },
    prepare = function(list, sample)
      for i = 1, 3, 2 do
        local least = list[i] and list[i].dtype == i8 and 128 or 0
        for j = 1, list[i] and reference.count(list[i].shape) or 0 do
          list[i][j] = (j * 37 + i * 11) % 256 - least
        end
      end
      for i = 2, sample.args and 5 or 4 do if list[i] and i ~= 3 then list[i][1] = i / 8 end end
    end,
    samples = { { { 2, 3 }, {}, { 2, 3 }, {}, false }, { { 7 }, { 1 }, false, false, {},
      args = { dtype = u8, y_zero = 100, a_zero = 5 } },
      { { 4, 70 }, {}, { 4, 70 }, { 1, 1 }, {}, args = { dtype = i8, b_zero = 9, act = 1,
        y_zero = -20 } },
      { { 2, 300 }, {}, { 2, 300 }, {}, {}, args = { dtype = u8, a_zero = 3, b_zero = 1 } },
      { { 2, 3, 5 }, {}, { 2, 3, 5 }, {}, false, args = { dtype = 'bf16', a_zero = 8 } },
      { { 0, 3 }, {}, { 0, 3 }, {}, {}, args = { dtype = i8 } } },
    dtypes = { i8, u8 }, mixed = { { i8, f, u8 } },
    ulps = 1, optional = { [3] = true, [4] = true, [5] = true },
    large = { { { 700, 300 }, {}, { 700, 300 }, {}, {}, args = { dtype = u8 } } },
    bad = { { { { 2, 3 }, {}, { 2 }, {} }, { i8, f, i8, f }, {}, ESHAPE },
      { { { 2 }, { 2 } }, { i8, f }, {}, ESHAPE }, { { { 2 }, {}, { 2 }, { 2 } }, { i8, f, i8, f },
        {}, ESHAPE }, { { { 2 }, {}, { 2 } }, { i8, f, i8 }, {}, EARG },
      { { { 2 }, {} }, { i8, f }, { b_zero = 1 }, EARG },
      { { { 2 }, {} }, { i8, f }, { dtype = i8 }, EARG },
      { { { 2 }, {} }, { i8, f }, { a_zero = 128 }, EARG },
      { { { 2 }, {}, { 2 }, {} }, { i8, f, u8, f }, { b_zero = -1 }, EARG },
      { { { 2 }, {} }, { i8, f }, { y_zero = 1 }, EARG }, { { { 2 }, {} }, { i8, f }, { act = 7 },
        EARG }, { { { 2 }, {} }, { f, f }, {}, EDTYPE }, { { { 2 }, {} }, { i8, h }, {}, EDTYPE },
      { { { 2 }, {}, { 2 }, {} }, { i8, f, f, f }, {}, EDTYPE },
      { { { 2 }, {} }, { i8, f }, { dtype = 'i32' }, EDTYPE } },
  }

  -- -- Mostly zeros -------------------------------------------------------------------------------

  -- Rows of 0, 1, 2 ... entries, whose columns go round.
  local function entries(list, sample)
    local offset, column, k = list[2], list[3], sample[1][#sample[1]]
    for i = 1, reference.count(offset.shape) do
      offset[i] = math.min((i - 1) * i / 2, reference.count(column.shape))
    end
    if #offset > 0 then offset[#offset] = reference.count(column.shape) end
    for i = 1, reference.count(column.shape) do column[i] = i * 7 % k end
  end
  local n, w = 'i32', 'f32'
  cases.sparse_linear = {
    call = call('sparse_linear', 5, 'rg_test_sparse', function(a)
      return { a.act or 0, tensors.CODES[a.dtype or 'f32'] or a.dtype }
    end),
    reference = reference.sparse_linear,
    inputs = { [2] = n, [3] = n, [4] = w, [5] = w },
    prepare = entries,
    -- x begins with an axis of 1, so that no layout repeats offsets
    samples = { { { 1, 2, 7 }, { 5 }, { 9 }, { 9 }, { 4 } },
      { { 1, 7 }, { 2 }, { 3 }, { 3, 16 }, false },
      { { 1, 5, 20 }, { 4 }, { 30 }, { 30, 16 }, { 48 }, args = { act = 1, dtype = 'bf16' } },
      { { 1, 2, 3, 33 }, { 8 }, { 40 }, { 40 }, false, args = { act = 2 } },
      { { 1, 64 }, { 4 }, { 50 }, { 50, 16 }, { 48 }, args = { dtype = 'f16' } },
      { { 1, 3, 5 }, { 3 }, { 0 }, { 0, 16 }, { 32 } }, { { 0, 5 }, { 3 }, { 2 }, { 2 }, { 2 } },
      { { 2, 5 }, { 1 }, { 0 }, { 0 }, false } },
    dtypes = { 'f32', 'bf16', 'f16' },
    ulps = 8, optional = { [5] = true },
    large = { { { 90, 256 }, { 61 }, { 0 }, { 0, 16 } } },
    bad = { { { { 2, 7 }, { 3 }, { 2 }, { 3 } }, { f, n, n, w }, {}, ESHAPE },
      { { { 2, 7 }, { 3 }, { 2 }, { 2, 8 } }, { f, n, n, w }, {}, ESHAPE },
      { { { 2, 7 }, { 0 }, { 0 }, { 0 } }, { f, n, n, w }, {}, ESHAPE },
      { { { 2, 7 }, { 3, 1 }, { 2 }, { 2 } }, { f, n, n, w }, {}, ESHAPE },
      { { {}, { 3 }, { 2 }, { 2 } }, { f, n, n, w }, {}, ESHAPE },
      { { { 2, 7 }, { 3 }, { 2 }, { 2 }, { 3 } }, { f, n, n, w, f }, {}, ESHAPE },
      { { { 2, 7 }, { 3 }, { 2 }, { 2 } }, { f, 'i64', n, w }, {}, EDTYPE },
      { { { 2, 7 }, { 3 }, { 2 }, { 2 } }, { f, n, f, w }, {}, EDTYPE },
      { { { 2, 7 }, { 3 }, { 2 }, { 2 } }, { f, n, n, h }, {}, EDTYPE },
      { { { 2, 7 }, { 3 }, { 2 }, { 2 } }, { 'f64', n, n, w }, {}, EDTYPE },
      { { { 2, 7 }, { 3 }, { 2 }, { 2 } }, { i8, n, n, w }, {}, EDTYPE },
      { { { 2, 7 }, { 3 }, { 2 }, { 2 } }, { f, n, n, w }, { act = 7 }, EARG },
      { { { 2, 7 }, { 3 }, { 9 }, { 9 } }, { f, n, n, w }, {}, EARG }, -- drawn offsets
      { { { 2, 7 }, { 3 }, { 2 }, { 2 } }, { f, n, n, w }, { dtype = i8 }, EDTYPE } },
  }

  -- -- n of m -------------------------------------------------------------------------------------

  local function some(rows, act, type) return { rows = rows, act = act, dtype = type } end
  cases.n_of_m_linear = {
    call = call('n_of_m_linear', 4, 'rg_test_n_of_m', function(a)
      return { a.act or 0, tensors.CODES[a.dtype or 'f32'] or a.dtype, a.rows or 3 }
    end),
    reference = reference.n_of_m_linear,
    inputs = { [2] = u8, [3] = w, [4] = w },
    prepare = function(list) -- all places of a window, in both halves
      for i = 1, reference.count(list[2].shape) do list[2][i] = (i * 37 + 11) % 256 end
    end,
    -- 2:4 and 1:4, 1:2 with two windows, 1:16 with three, 3 of 16 with one; bf16 values
    samples = { { { 1, 2, 16 }, { 1, 4, 16 }, { 1, 8, 16 }, { 3 }, args = some(3) },
      { { 1, 7 }, { 2, 2, 16 }, { 2, 4, 16 }, false, args = some(32) },
      { { 1, 5, 20 }, { 2, 8, 16 }, { 2, 16, 16 }, { 18 }, args = some(18, 1, 'bf16') },
      { { 1, 2, 3, 33 }, { 1, 2, 16 }, { 1, 3, 16 }, false, args = some(15, 2) },
      { { 1, 16 }, { 3, 2, 16 }, { 3, 3, 16 }, { 48 }, args = some(48, 0, 'f16') },
      { { 1, 9, 64 }, { 2, 4, 16 }, { 2, 8, 16 }, { 17 }, args = some(17) },
      { { 1, 3, 5 }, { 1, 0, 16 }, { 1, 0, 16 }, { 4 }, args = some(4) },
      { { 0, 5 }, { 1, 1, 16 }, { 1, 2, 16 }, { 2 }, args = some(2) },
      { { 2, 0 }, { 1, 0, 16 }, { 1, 0, 16 }, { 2 }, args = some(2) },
      { { 2, 5 }, { 0, 1, 16 }, { 0, 2, 16 }, false, args = some(0) } },
    dtypes = { 'f32', 'bf16', 'f16' },
    ulps = 8, optional = { [4] = true },
    large = { { { 70, 256 }, { 5, 64, 16 }, { 5, 128, 16 }, { 75 }, args = some(75) } },
    bad = { { { { 2, 7 }, { 1, 1, 16 }, { 2, 2, 16 } }, { f, u8, w }, {}, ESHAPE },
      { { { 2, 7 }, { 1, 1, 16 }, { 1, 2, 8 } }, { f, u8, w }, {}, ESHAPE },
      { { { 2, 7 }, { 1, 1, 16 }, { 1, 32 } }, { f, u8, w }, {}, ESHAPE },
      { { { 2, 17 }, { 1, 2, 16 }, { 1, 3, 16 } }, { f, u8, w }, {}, ESHAPE },
      { { { 2, 7 }, { 1, 2, 16 }, { 1, 2, 16 } }, { f, u8, w }, {}, ESHAPE },
      { { { 2, 7 }, { 1, 1, 15 }, { 1, 2, 16 } }, { f, u8, w }, {}, ESHAPE },
      { { { 2, 7 }, { 2, 1, 16 }, { 1, 2, 16 } }, { f, u8, w }, {}, ESHAPE },
      { { { 2, 7 }, { 16 }, { 1, 2, 16 } }, { f, u8, w }, {}, ESHAPE },
      { { { 2, 0 }, { 1, 1, 16 }, { 1, 2, 16 } }, { f, u8, w }, {}, ESHAPE },
      { { {}, { 1, 1, 16 }, { 1, 2, 16 } }, { f, u8, w }, {}, ESHAPE },
      { { { 2, 7 }, { 1, 1, 16 }, { 1, 2, 16 }, { 4 } }, { f, u8, w, f }, {}, ESHAPE },
      { { { 2, 7 }, { 2, 1, 16 }, { 2, 2, 16 } }, { f, u8, w }, { rows = 33 }, ESHAPE },
      { { { 2, 7 }, { 1, 1, 16 }, { 1, 2, 16 } }, { f, u8, w }, { rows = -1 }, EARG },
      { { { 2, 7 }, { 1, 1, 16 }, { 1, 2, 16 } }, { f, i8, w }, {}, EDTYPE },
      { { { 2, 7 }, { 1, 1, 16 }, { 1, 2, 16 } }, { f, u8, h }, {}, EDTYPE },
      { { { 2, 7 }, { 1, 1, 16 }, { 1, 2, 16 } }, { 'f64', u8, w }, {}, EDTYPE },
      { { { 2, 7 }, { 1, 1, 16 }, { 1, 2, 16 } }, { f, u8, w }, { act = 7 }, EARG },
      { { { 2, 7 }, { 1, 1, 16 }, { 1, 2, 16 } }, { f, u8, w }, { dtype = i8 }, EDTYPE } },
  }
end

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
end

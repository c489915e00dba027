-- SPDX-License-Identifier: MIT
-- cases_resample: sample inputs for another size of an axis; see cases.lua for what an entry holds.

local ffi = require 'ffi'

local EDTYPE, EAXIS, EARG = -2, -3, -4

return function(M)
  local cases, reference, tensors = M.cases, M.reference, M.tensors

  ffi.cdef [[typedef struct { int32_t axis; int64_t size; int32_t mode, coordinates, rounding,
    antialias, exclude; double scale, cubic, first, last, value; } rg_test_resample;]]

  local numbers = {}
  local function run(name)
    return function(C, t, a, out)
      numbers[name] = numbers[name] or tensors.index_of(name)
      local args = ffi.new('rg_test_resample[1]', { { a.axis, a.size, a.mode, a.coordinates or 0,
        a.rounding or 0, a.antialias and 1 or 0, a.exclude and 1 or 0, a.scale or 0,
        a.cubic or -0.75, a.first or 0, a.last or 1, a.value or 0 } })
      return C.rg_op_call(numbers[name], ffi.new('const rg_tensor *[1]', { t[1] }), 1, args, nil,
        out)
    end
  end

  -- shape, axis, and the new size; scales that do not give whole sizes
  local SIZES = { { { 5 }, 0, 8 }, { { 2, 6 }, 1, 3 }, { { 2, 7 }, 1, 4, 0.6 }, { { 4, 3 }, 0, 9 },
    { { 2, 4, 5 }, 1, 1 }, { { 2, 3, 2, 9 }, 2, 5, 2.6 }, { { 1, 1 }, 1, 4 } }
  local forward, back = {}, {}
  local function add(args)
    for _, case in ipairs(SIZES) do
      local shape, axis, size = case[1], case[2], case[3]
      local a, b, wide = { axis = axis, size = size, scale = case[4] }, {}, { unpack(shape) }
      for k, v in pairs(args) do a[k] = v end
      for k, v in pairs(a) do b[k] = v end
      b.size, wide[axis + 1] = shape[axis + 1], size
      forward[#forward + 1] = { shape, args = a }
      back[#back + 1] = { wide, args = b }
    end
  end
  for coordinates = 0, 5 do
    for mode = 0, 2 do add { mode = mode, coordinates = coordinates } end
  end
  for rounding = 1, 3 do add { mode = 0, rounding = rounding } end
  for mode = 1, 2 do
    add { mode = mode, antialias = true }
    add { mode = mode, exclude = true }
    add { mode = mode, antialias = true, exclude = true }
  end
  add { mode = 2, cubic = -0.5, coordinates = 2 }
  add { mode = 1, coordinates = 5, first = -0.3, last = 0.8, value = 1.5 }
  for _, sample in ipairs {
    { { 0, 3 }, args = { axis = 1, size = 5, mode = 1 } },
    { { 3, 2 }, args = { axis = 0, size = 0, mode = 1 } },
    { { 2, 700 }, args = { axis = 1, size = 900, mode = 1 } },
    { { 3, 1100 }, args = { axis = 0, size = 5, mode = 1 } } } do -- several blocks
    forward[#forward + 1] = sample
  end
  back[#back + 1] = { { 5, 1100 }, args = { axis = 0, size = 3, mode = 1 } }

  local function bad(size, far)
    return { { { { 2 } }, { 'f32' }, { axis = 1, size = 2, mode = 0 }, EAXIS },
      { { { 2 } }, { 'i32' }, { axis = 0, size = 2, mode = 0 }, EDTYPE },
      { { { 2 } }, { 'f32' }, { axis = 0, size = size, mode = 0 }, EARG },
      { { { 2 } }, { 'f32' }, { axis = 0, size = 2, mode = 3 }, EARG },
      { { { 2 } }, { 'f32' }, { axis = 0, size = 2, mode = 0, coordinates = 6 }, EARG },
      { { { 2 } }, { 'f32' }, { axis = 0, size = 2, mode = 0, scale = -1 }, EARG },
      far and { { { 2 } }, { 'f32' }, { axis = 0, size = 2 ^ 20, mode = 2, scale = 1e-9,
        antialias = true }, EARG } }
  end

  cases.resample = {
    call = run 'resample', reference = reference.resample,
    samples = forward, dtypes = tensors.FLOATS, ulps = 8,
    special = { 1, math.huge, 2, 0 / 0, -3, 5 },
    special_args = { axis = 0, size = 11, mode = 1, coordinates = 2 },
    large = { { { 30, 100, 90 }, args = { axis = 1, size = 150, mode = 1 } },
      { { 90, 300 }, args = { axis = 1, size = 700, mode = 2 } } },
    bad = bad(-1, true),
  }
  table.insert(cases.resample.bad, { { { 0 } }, { 'f32' }, { axis = 0, size = 2, mode = 0 }, EARG })
  cases.resample_back = {
    call = run 'resample_back', reference = reference.resample_back,
    samples = back, dtypes = tensors.FLOATS, ulps = 16,
    large = { { { 30, 150, 90 }, args = { axis = 1, size = 100, mode = 1 } } },
    bad = bad(0),
  }
end

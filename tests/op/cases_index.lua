-- SPDX-License-Identifier: MIT
-- cases_index: sample inputs for operations that find, place or order elements by position; see
-- cases.lua for what an entry holds.

local ffi = require 'ffi'

local ESHAPE, EDTYPE, EAXIS, EARG = -1, -2, -3, -4

return function(M)
  local cases, reference, tensors = M.cases, M.reference, M.tensors

  -- Kept, because a plan refuses numbers from the host, and made before anything is counted.
  local kept = {}
  local function index_of(a)
    local dtype = a.type or 'i64'
    local key = dtype .. table.concat(a.shape, ',') .. ':' .. table.concat(a.index, ',')
    if not kept[key] then kept[key] = tensors.constant(a.index, a.shape, dtype) end
    return kept[key]
  end

  -- n positions below limit, some of them several times.
  local function positions(n, limit)
    local list = {}
    for i = 1, n do list[i] = (i * i * 7 + i) % limit end
    return list
  end

  local numbers = {}
  local function run(name, inputs, args, out)
    numbers[name] = numbers[name] or tensors.index_of(name)
    local list = ffi.new('const rg_tensor *[?]', #inputs, inputs)
    return tensors.C.rg_op_call(numbers[name], list, #inputs, args, nil, out)
  end

  cases.gather = {
    call = function(_, t, a, out)
      return run('gather', { t[1], index_of(a) }, ffi.new('int32_t[1]', a.axis), out)
    end,
    reference = reference.gather, moves = true,
    samples = {
      { { 5 }, args = { axis = 0, index = { 4, 0, 0, 2 }, shape = { 4 } } },
      { { 2, 3 }, args = { axis = 1, index = { 2, 0, 1, 1, 2, 0, 0, 0 }, shape = { 2, 4 } } },
      { { 4, 3 }, args = { axis = 0, index = { 3, 1, 0, 2, 2, 2 }, shape = { 2, 3 },
        type = 'i32' } },
      { { 4, 3 }, args = { axis = -2, index = { 3, 1, 0, 2 }, shape = { 2, 2 }, type = 'u8' } },
      { { 2, 3, 4 }, args = { axis = 1, index = positions(2 * 5 * 4, 3), shape = { 2, 5, 4 } } },
      { { 2, 3, 4 }, args = { axis = 0, index = positions(3 * 4, 2), shape = { 1, 3, 4 },
        type = 'i8' } },
      { { 2, 700 }, args = { axis = 1, index = positions(2 * 1100, 700), shape = { 2, 1100 } } },
      { { 3, 600 }, args = { axis = 0, index = positions(1200, 3), shape = { 2, 600 } } },
      { { 3, 0 }, args = { axis = 0, index = {}, shape = { 2, 0 } } },
      { { 3, 2 }, args = { axis = 1, index = {}, shape = { 0, 2 } } },
      { { 0, 2 }, args = { axis = 0, index = {}, shape = { 0, 2 } } },
      { { 400, 50 }, args = { axis = 0, index = positions(20000, 400), shape = { 400, 50 } },
        only = 'f32' },
    },
    dtypes = tensors.EVERY, ulps = 0,
    large = { { { 300, 20 }, args = { axis = 0, index = positions(60000, 300),
      shape = { 3000, 20 } } } },
    bad = {
      { { { 3, 2 } }, { 'f32' }, { axis = 0, index = { 1, 3 }, shape = { 1, 2 } }, EARG },
      { { { 3, 2 } }, { 'f32' }, { axis = 0, index = { 0, -1 }, shape = { 1, 2 } }, EARG },
      { { { 0, 2 } }, { 'f32' }, { axis = 0, index = { 0, 0 }, shape = { 1, 2 } }, EARG },
      { { { 3, 2 } }, { 'f32' }, { axis = 0, index = { 0 }, shape = { 1 } }, ESHAPE },
      { { { 3, 2 } }, { 'f32' }, { axis = 0, index = { 0, 0, 0 }, shape = { 1, 3 } }, ESHAPE },
      { { { 3, 2 } }, { 'f32' }, { axis = 2, index = { 0 }, shape = { 1, 1 } }, EAXIS },
      { { { 3, 2 } }, { 'f32' }, { axis = 0, index = { 0 }, shape = { 1, 1 }, type = 'f32' },
        EDTYPE },
      { { {} }, { 'f32' }, { axis = 0, index = { 0 }, shape = {} }, EAXIS },
    },
  }

  local scattered = {}
  for reduce = 0, 4 do
    for _, sample in ipairs {
      { { 5 }, { 4 }, args = { axis = 0, index = { 4, 0, 0, 2 }, shape = { 4 } } },
      { { 2, 3 }, { 2, 4 }, args = { axis = 1, index = { 2, 0, 1, 1, 2, 0, 0, 1 },
        shape = { 2, 4 } } },
      { { 4, 3 }, { 2, 3 }, args = { axis = 0, index = { 3, 1, 0, 3, 2, 2 }, shape = { 2, 3 },
        type = 'i32' } },
      { { 4, 3 }, { 2, 2 }, args = { axis = -2, index = { 3, 1, 3, 2 }, shape = { 2, 2 },
        type = 'u8' } },
      { { 2, 3, 4 }, { 2, 2, 4 }, args = { axis = 1, index = positions(16, 3),
        shape = { 2, 2, 4 } } },
      { { 2, 3, 4 }, { 1, 3, 4 }, args = { axis = 0, index = positions(12, 2), shape = { 1, 3, 4 },
        type = 'i8' } },
      { { 2, 700 }, { 2, 600 }, args = { axis = 1, index = positions(1200, 601),
        shape = { 2, 600 } }, heavy = true },
      { { 3, 1100 }, { 2, 1100 }, args = { axis = 0, index = positions(2200, 3),
        shape = { 2, 1100 } } },
      { { 3, 0 }, { 2, 0 }, args = { axis = 0, index = {}, shape = { 2, 0 } } },
      { { 3, 2 }, { 0, 2 }, args = { axis = 1, index = {}, shape = { 0, 2 } } },
    } do
      local args = { reduce = reduce }
      for k, v in pairs(sample.args) do args[k] = v end
      local computes = reduce > 0 and { f8e4m3 = true, f8e5m2 = true } or {}
      -- products (and sums) that bytes do not hold
      if reduce == 2 or sample.heavy then computes.u8, computes.i8 = true, true end
      if not (reduce == 2 and sample.heavy) then
        scattered[#scattered + 1] = { sample[1], sample[2], args = args, except = computes }
      end
    end
  end
  local struct = ffi.typeof 'int32_t[2]'

  cases.scatter = {
    call = function(_, t, a, out)
      return run('scatter', { t[1], index_of(a), t[2] }, struct(a.axis, a.reduce or 0), out)
    end,
    reference = reference.scatter, moves = true,
    samples = scattered,
    dtypes = tensors.EVERY, ulps = 2,
    large = { { { 300, 20 }, { 3000, 20 }, args = { axis = 0, index = positions(60000, 300),
        shape = { 3000, 20 }, reduce = 1 } },
      { { 30, 2000 }, { 30, 2000 }, args = { axis = 1, index = positions(60000, 2000),
        shape = { 30, 2000 } } } },
    bad = {
      { { { 3, 2 }, { 1, 2 } }, { 'f32', 'f32' }, { axis = 0, index = { 1, 3 }, shape = { 1, 2 } },
        EARG },
      { { { 3, 2 }, { 1, 2 } }, { 'f32', 'f32' }, { axis = 0, index = { 0, -1 }, shape = { 1, 2 },
        reduce = 1 }, EARG },
      { { { 3, 2 }, { 1, 2 } }, { 'f32', 'f32' }, { axis = 0, index = { 0, 1 }, shape = { 1, 2 },
        reduce = 5 }, EARG },
      { { { 3, 2 }, { 2, 2 } }, { 'f32', 'f32' }, { axis = 0, index = { 0, 1 }, shape = { 1, 2 } },
        ESHAPE },
      { { { 3, 2 }, { 1, 3 } }, { 'f32', 'f32' }, { axis = 0, index = { 0, 1, 2 },
        shape = { 1, 3 } }, ESHAPE },
      { { { 3, 2 }, { 1, 2 } }, { 'f32', 'f16' }, { axis = 0, index = { 0, 1 }, shape = { 1, 2 } },
        EDTYPE },
      { { { 3, 2 }, { 1, 2 } }, { 'f8e4m3', 'f8e4m3' }, { axis = 0, index = { 0, 1 },
        shape = { 1, 2 }, reduce = 1 }, EDTYPE },
      { { { 3, 2 }, { 1, 2 } }, { 'f32', 'f32' }, { axis = 2, index = { 0, 1 }, shape = { 1, 2 } },
        EAXIS },
    },
  }

  -- -- Order ------------------------------------------------------------------------------------

  local NAN, INF = 0 / 0, math.huge

  cases.sort = {
    call = function(_, t, a, out)
      return run('sort', { t[1] }, struct(a.axis, a.descending and 1 or 0), out)
    end,
    n_out = 2,
    reference = reference.sort,
    samples = { { { 5 }, args = { axis = 0 } }, { { 1 }, args = { axis = -1 } },
      { { 7, 3 }, args = { axis = 0, descending = true } }, { { 3, 40 }, args = { axis = 1 } },
      { { 2, 3, 4 }, args = { axis = 1 } }, { { 0, 3 }, args = { axis = 1 } },
      { { 3, 0 }, args = { axis = 1 } }, { { 2, 90 }, args = { axis = 1 } }, -- by digits
      { { 600, 3 }, args = { axis = 0, descending = true } }, { { 1100 }, args = { axis = 0 } },
      { { 2, 1100 }, args = { axis = 1, descending = true } } },
    dtypes = tensors.ALL, ulps = 0,
    special = { 1, -0, 2, NAN, -INF, 3, INF, 0, 1, NAN, -1, -1e-41, 1e-41, -3e4 },
    special_args = { axis = 0 },
    large = { { { 500, 700 }, args = { axis = 1 } }, { { 700, 500 }, args = { axis = 0 } } },
    bad = { { { { 2 } }, { 'f32' }, { axis = 1 }, EAXIS },
      { { {} }, { 'f32' }, { axis = 0 }, EAXIS },
      { { { 2 } }, { 'f8e4m3' }, { axis = 0 }, EDTYPE } },
  }

  ffi.cdef 'typedef struct { int64_t k; int32_t axis, largest; } rg_test_topk;'
  cases.topk = {
    call = function(_, t, a, out)
      return run('topk', { t[1] }, ffi.new('rg_test_topk[1]', { { a.k, a.axis,
        a.smallest and 0 or 1 } }), out)
    end,
    n_out = 2,
    reference = reference.topk,
    samples = { { { 5 }, args = { axis = 0, k = 2 } }, { { 1 }, args = { axis = -1, k = 1 } },
      { { 7, 3 }, args = { axis = 0, k = 3, smallest = true } },
      { { 3, 40 }, args = { axis = 1, k = 1 } }, { { 3, 40 }, args = { axis = 1, k = 5 } },
      { { 2, 3, 4 }, args = { axis = 1, k = 2 } }, { { 0, 3 }, args = { axis = 1, k = 2 } },
      { { 3, 4 }, args = { axis = 1, k = 0 } }, { { 3, 4 }, args = { axis = 1, k = 4 } },
      { { 2, 1100 }, args = { axis = 1, k = 100 } },
      { { 600, 3 }, args = { axis = 0, k = 70, smallest = true } },
      { { 2, 1100 }, args = { axis = 1, k = 900 } } },
    dtypes = tensors.ALL, ulps = 0,
    special = { 1, -0, 2, NAN, -INF, 3, INF, 0, 1, NAN, -1, -1e-41, 1e-41, -3e4 },
    special_args = { axis = 0, k = 14 },
    large = { { { 500, 700 }, args = { axis = 1, k = 20 } } },
    bad = { { { { 2 } }, { 'f32' }, { axis = 1, k = 1 }, EAXIS },
      { { { 2 } }, { 'f32' }, { axis = 0, k = 3 }, EARG },
      { { { 2 } }, { 'f32' }, { axis = 0, k = -1 }, EARG },
      { { { 2 } }, { 'f8e4m3' }, { axis = 0, k = 1 }, EDTYPE } },
  }

  -- -- Padding ----------------------------------------------------------------------------------

  ffi.cdef [[typedef struct { rg_sizes low, high; int32_t mode; double value; } rg_test_pad;
    typedef struct { rg_sizes low, high; int32_t mode; rg_sizes shape; } rg_test_pad_back;]]
  local function sizes(list)
    local s = ffi.new('rg_sizes', { n = #list })
    for i, v in ipairs(list) do s.at[i - 1] = v end
    return s
  end

  local PADS = { { { 5 }, low = { 2 }, high = { 1 } }, { { 1 }, low = { 3 }, high = { 2 } },
    { { 2, 3 }, low = { 1, 0 }, high = { 0, 2 } }, { { 4, 5 }, low = { -1, 2 }, high = { 1, -3 } },
    { { 2, 3, 4 }, low = { 0, 1, 2 }, high = { 0, 2, 1 } },
    { { 2, 3, 4, 5 }, low = { 0, 0, 1, 2 }, high = { 0, 0, 3, 1 } },
    { { 3 }, low = { 7 }, high = { 5 } }, { { 3, 4 }, low = { -2, 0 }, high = { -1, 0 } },
    { { 3, 600 }, low = { 1, 40 }, high = { 1, 520 } }, { {}, low = {}, high = {} },
    { { 600, 3 }, low = { 30, 1 }, high = { 9, 2 } } }
  local function padding(size_of)
    local list = {}
    for mode = 0, 3 do
      for _, case in ipairs(PADS) do
        local args = { low = case.low, high = case.high, mode = mode, value = 2.5,
          shape = case[1] }
        list[#list + 1] = { size_of(case), args = args }
      end
    end
    return list
  end
  local function wide(case)
    local shape = {}
    for i, n in ipairs(case[1]) do shape[i] = n + case.low[i] + case.high[i] end
    return shape
  end

  cases.pad = {
    call = function(_, t, a, out)
      return run('pad', { t[1] }, ffi.new('rg_test_pad[1]', { { sizes(a.low), sizes(a.high),
        a.mode or 0, a.value or 0 } }), out)
    end,
    reference = reference.pad, moves = true,
    samples = padding(function(case) return case[1] end),
    dtypes = tensors.EVERY, ulps = 0,
    large = { { { 300, 300, 3 }, args = { low = { 3, 4, 1 }, high = { 3, 4, 1 }, mode = 1 } },
      { { 20, 300, 30 }, args = { low = { 0, 4, 1 }, high = { 0, 4, 1 } } } },
    bad = { { { { 2 } }, { 'f32' }, { low = { 1, 1 }, high = { 1, 1 } }, EARG },
      { { { 2 } }, { 'f32' }, { low = { -2 }, high = { -1 } }, EARG },
      { { { 0 } }, { 'f32' }, { low = { 1 }, high = { 0 }, mode = 2 }, EARG },
      { { { 2 } }, { 'f32' }, { low = { 1 }, high = { 0 }, mode = 4 }, EARG },
      { { { 2 } }, { 'f32' }, { low = { 2 ^ 40 }, high = { 0 } }, EARG } },
  }
  table.insert(cases.pad.samples, { { 0, 2 }, args = { low = { 1, 0 }, high = { 2, 1 } } })

  cases.pad_back = {
    call = function(_, t, a, out)
      return run('pad_back', { t[1] }, ffi.new('rg_test_pad_back[1]', { { sizes(a.low),
        sizes(a.high), a.mode or 0, sizes(a.shape) } }), out)
    end,
    reference = reference.pad_back,
    samples = padding(wide),
    dtypes = tensors.FLOATS, ulps = 4,
    large = { { { 20, 308, 32 }, args = { low = { 0, 4, 1 }, high = { 0, 4, 1 }, mode = 1,
      shape = { 20, 300, 30 } } } },
    bad = { { { { 3 } }, { 'f32' }, { low = { 1 }, high = { 1 }, shape = { 2 } }, ESHAPE },
      { { { 4 } }, { 'f32' }, { low = { 1 }, high = { 1 }, shape = { 2, 1 } }, EARG },
      { { { 4 } }, { 'f32' }, { low = { 1 }, high = { 1 }, shape = { -2 } }, EARG },
      { { { 4 } }, { 'i32' }, { low = { 1 }, high = { 1 }, shape = { 2 } }, EDTYPE } },
  }

  for _, name in ipairs { 'tril', 'triu' } do
    local samples = { { { 0, 3 }, args = { diagonal = 0 } }, { { 3, 0 }, args = { diagonal = 0 } },
      { { 2, 1100 }, args = { diagonal = 600 } }, { { 4, 4 }, args = { diagonal = 2 ^ 50 } } }
    for _, diagonal in ipairs { 0, 1, -2, 9, -9 } do
      for _, shape in ipairs { { 4, 4 }, { 2, 3, 5 }, { 5, 3 }, { 1, 1 } } do
        samples[#samples + 1] = { shape, args = { diagonal = diagonal } }
      end
    end
    cases[name] = {
      call = function(_, t, a, out)
        return run(name, { t[1] }, ffi.new('int64_t[1]', a.diagonal), out)
      end,
      reference = reference[name], moves = true,
      samples = samples, dtypes = tensors.EVERY, ulps = 0,
      large = { { { 600, 700 }, args = { diagonal = 3 } } },
      bad = { { { { 3 } }, { 'f32' }, { diagonal = 0 }, ESHAPE } },
    }
  end

  for _, name in ipairs { 'gather', 'scatter' } do
    for _, list in ipairs { cases[name].samples, cases[name].large } do
      for _, sample in ipairs(list) do index_of(sample.args) end
    end
    for _, bad in ipairs(cases[name].bad) do index_of(bad[3]) end
  end
end

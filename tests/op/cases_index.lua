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

  for _, name in ipairs { 'gather', 'scatter' } do
    for _, list in ipairs { cases[name].samples, cases[name].large } do
      for _, sample in ipairs(list) do index_of(sample.args) end
    end
    for _, bad in ipairs(cases[name].bad) do index_of(bad[3]) end
  end
end

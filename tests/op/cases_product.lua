-- SPDX-License-Identifier: MIT
-- cases_product: sample inputs for the products; see cases.lua for what an entry holds.

local ffi = require 'ffi'

local ESHAPE, EDTYPE, EARG = -1, -2, -4

return function(M, join)
  local cases, reference, tensors = M.cases, M.reference, M.tensors
  local FLOATS = tensors.FLOATS

  cases.matmul = {
    call = function(C, t, _, out) return C.rg_matmul(t[1], t[2], out) end,
    reference = reference.matmul,
    samples = { { { 2, 3 }, { 3, 4 } }, { { 1, 64 }, { 64, 64 } }, { { 3 }, { 3, 4 } },
      { { 2, 3 }, { 3 } }, { { 3 }, { 3 } }, { { 5, 2, 3 }, { 3, 4 } },
      { { 5, 2, 3 }, { 5, 3, 4 } }, { { 3 }, { 5, 3, 4 } }, { { 5, 2, 3 }, { 3 } },
      { { 2, 1, 2, 3 }, { 4, 3, 2 } }, { { 0, 3 }, { 3, 4 } }, { { 2, 0 }, { 0, 3 } },
      { { 2, 3 }, { 3, 0 } }, { { 33, 70 }, { 70, 41 } }, { { 17, 130 }, { 130, 1 } },
      -- whole panels, odd and even inner sizes: each way of packing
      { { 40, 37 }, { 37, 70 } }, { { 5, 66 }, { 66, 64 } }, { { 100, 34 }, { 34, 96 } } },
    dtypes = join(FLOATS, { 'i64', 'i32' }),
    mixed = { { 'f32', 'bf16' }, { 'f16', 'bf16' }, { 'i32', 'f32' } },
    ulps = 4, by_library = true,
    large = { { { 200, 300 }, { 300, 250 } } },
    bad = { { { { 2, 3 }, { 4, 2 } }, { 'f32', 'f32' }, {}, ESHAPE },
      { { { 2, 2, 3 }, { 3, 3, 2 } }, { 'f32', 'f32' }, {}, ESHAPE },
      { { {}, { 2, 2 } }, { 'f32', 'f32' }, {}, ESHAPE },
      { { { 2, 2 }, { 2, 2 } }, { 'bool', 'bool' }, {}, EDTYPE } },
  }

  cases.linear = {
    call = function(C, t, a, out) return C.rg_linear(t[1], t[2], t[3] or nil, a.act or 0, out) end,
    reference = reference.linear,
    samples = { { { 2, 3 }, { 4, 3 }, { 4 } }, { { 3 }, { 4, 3 }, { 4 } },
      { { 2, 3 }, { 4, 3 }, false },
      { { 5, 2, 3 }, { 4, 3 }, { 4 } }, { { 0, 3 }, { 4, 3 }, { 4 } },
      { { 33, 70 }, { 41, 70 }, { 41 } } },
    dtypes = FLOATS,
    ulps = 4, by_library = true, optional = { [3] = true },
    large = { { { 200, 300 }, { 250, 300 }, { 250 } } },
    bad = { { { { 2, 3 }, { 4, 2 } }, { 'f32', 'f32' }, {}, ESHAPE },
      { { { 2, 3 }, { 4, 3 }, { 3 } }, { 'f32', 'f32', 'f32' }, {}, ESHAPE },
      { { { 2, 3 }, { 4, 3 } }, { 'f32', 'f32' }, { act = 99 }, EARG },
      { { { 2, 3 }, { 4, 3 } }, { 'i32', 'i32' }, {}, EDTYPE } },
  }
  for act = 1, 6 do
    table.insert(cases.linear.samples, { { 6, 9 }, { 5, 9 }, { 5 }, args = { act = act } })
  end

  cases.linear_dropout = {
    call = function(C, t, a, out)
      return C.rg_linear_dropout(t[1], t[2], t[3] or nil, a.act or 0, a.p, a.generator, out)
    end,
    draws = true,
    reference = reference.linear_dropout,
    samples = { { { 2, 3 }, { 4, 3 }, { 4 }, args = { p = 0.5, act = 1, seed = 3, offset = 2 } },
      { { 3 }, { 4, 3 }, false, args = { p = 0 } },
      { { 5, 2, 3 }, { 4, 3 }, { 4 }, args = { p = 0.25, act = 2, seed = 9, offset = 1 } },
      { { 0, 3 }, { 4, 3 }, { 4 }, args = { p = 0.5 } },
      { { 33, 70 }, { 41, 70 }, { 41 }, args = { p = 0.75, act = 4, seed = 77, offset = 5 } } },
    dtypes = FLOATS, ulps = 4, by_library = true, optional = { [3] = true },
    large = { { { 200, 300 }, { 250, 300 }, { 250 }, args = { p = 0.5, act = 1 } } },
    bad = { { { { 2, 3 }, { 4, 2 } }, { 'f32', 'f32' }, { p = 0.5 }, ESHAPE },
      { { { 2, 3 }, { 4, 3 } }, { 'f32', 'f32' }, { p = 1 }, EARG },
      { { { 2, 3 }, { 4, 3 } }, { 'f32', 'f32' }, { p = -1 }, EARG } },
  }

  -- Bytes of the whole range, and a bias of the type that the arguments say.
  local function whole_range(inputs, sample)
    for i = 1, 2 do
      for j = 1, inputs[i].dtype == 'i8' and reference.count(inputs[i].shape) or 0 do
        inputs[i][j] = (j * 37 + i * 11) % 256 - 128
      end
    end
    if inputs[5] then inputs[5].dtype = sample.args and sample.args.bias or 'f32' end
  end

  cases.scaled_linear = {
    call = function(C, t, a, out)
      if not (t[6] or a.x_zero or a.y_zero) then
        return C.rg_scaled_linear(t[1], t[2], t[3] or nil, t[4], t[5] or nil, a.act or 0,
          tensors.CODES[a.dtype or 'f32'], out)
      end
      return C.rg_scaled_linear_with(t[1], t[2], t[3] or nil, t[4], t[5] or nil, t[6] or nil,
        ffi.new('rg_scaled_linear_options', { a.act or 0, tensors.CODES[a.dtype or 'f32'],
          a.x_zero or 0, a.y_zero or 0 }), out)
    end,
    reference = reference.scaled_linear,
    inputs = { [3] = 'f32', [4] = 'f32', [5] = 'f32' },
    prepare = whole_range,
    samples = { { { 2, 3 }, { 4, 3 }, {}, { 1 }, { 4 } },
      { { 2, 3 }, { 4, 3 }, { 2 }, { 4 }, false, args = { dtype = 'bf16' } },
      { { 3 }, { 4, 3 }, {}, { 4 }, { 4 }, args = { dtype = 'f16', bias = 'bf16' } },
      { { 5, 2, 3 }, { 4, 3 }, { 5, 2 }, {}, { 4 }, args = { act = 3, bias = 'f16' } },
      { { 5, 2, 3 }, { 4, 3 }, { 5, 2, 1 }, { 4, 1 }, false, args = { act = 1 } },
      { { 33, 70 }, { 41, 70 }, { 33, 1 }, { 41, 1 }, false, args = { dtype = 'bf16' } },
      { { 33, 70 }, { 41, 70 }, { 33 }, { 41 }, { 41 }, args = { act = 2 } },
      -- whole sixteens, which tensor cores take: several tiles, and a part of the last
      { { 72, 96 }, { 144, 96 }, { 72 }, { 144 }, { 144 }, args = { act = 4 } },
      { { 2, 65, 48 }, { 136, 48 }, { 2, 65 }, {}, { 136 }, args = { act = 5, dtype = 'f16' } },
      { { 16, 16 }, { 16, 16 }, { 1 }, { 1 }, { 16 }, args = { act = 1, dtype = 'bf16' } },
      { { 1, 64 }, { 32, 64 }, { 1 }, { 32 }, false },
      { { 5, 32 }, { 7, 32 }, { 5 }, { 7 }, { 7 } },
      { { 0, 3 }, { 4, 3 }, { 0 }, { 4 }, { 4 } }, { { 2, 0 }, { 4, 0 }, { 2 }, { 4 }, { 4 } },
      { { 2, 3 }, { 0, 3 }, { 2 }, { 0 }, { 0 } } },
    dtypes = { 'i8', 'f8e4m3', 'f8e5m2' },
    mixed = { { 'f8e4m3', 'f8e5m2' }, { 'f8e5m2', 'f8e4m3' } },
    ulps = 4, by_library = true, optional = { [5] = true },
    large = { { { 200, 300 }, { 250, 300 }, { 200 }, { 250 }, { 250 } } },
    bad = { { { { 2, 3 }, { 4, 2 }, {}, {} }, { 'i8', 'i8', 'f32', 'f32' }, {}, ESHAPE },
      { { { 2, 3 }, { 4, 3 }, { 3 }, {} }, { 'i8', 'i8', 'f32', 'f32' }, {}, ESHAPE },
      { { { 2, 3 }, { 4, 3 }, { 2, 2 }, {} }, { 'i8', 'i8', 'f32', 'f32' }, {}, ESHAPE },
      { { { 5, 2, 3 }, { 4, 3 }, { 10 }, {} }, { 'i8', 'i8', 'f32', 'f32' }, {}, ESHAPE },
      { { { 2, 3 }, { 4, 3 }, {}, { 2 } }, { 'i8', 'i8', 'f32', 'f32' }, {}, ESHAPE },
      { { { 2, 3 }, { 4, 3 }, {}, { 1, 4 } }, { 'i8', 'i8', 'f32', 'f32' }, {}, ESHAPE },
      { { { 2, 3 }, { 4, 3 }, {}, {}, { 3 } }, { 'i8', 'i8', 'f32', 'f32', 'f32' }, {}, ESHAPE },
      { { {}, { 4, 3 }, {}, {} }, { 'i8', 'i8', 'f32', 'f32' }, {}, ESHAPE },
      { { { 2, 3 }, { 3 }, {}, {} }, { 'i8', 'i8', 'f32', 'f32' }, {}, ESHAPE },
      { { { 1, 131072 }, { 1, 131072 }, {}, {} }, { 'i8', 'i8', 'f32', 'f32' }, {}, ESHAPE },
      { { { 2, 3 }, { 4, 3 }, {}, {} }, { 'f32', 'i8', 'f32', 'f32' }, {}, EDTYPE },
      { { { 2, 3 }, { 4, 3 }, {}, {} }, { 'i8', 'u8', 'f32', 'f32' }, {}, EDTYPE },
      { { { 2, 3 }, { 4, 3 }, {}, {} }, { 'i8', 'f8e4m3', 'f32', 'f32' }, {}, EDTYPE },
      { { { 2, 3 }, { 4, 3 }, {}, {} }, { 'f8e5m2', 'i8', 'f32', 'f32' }, {}, EDTYPE },
      { { { 2, 3 }, { 4, 3 }, {}, {} }, { 'f8e5m2', 'bf16', 'f32', 'f32' }, {}, EDTYPE },
      { { { 2, 3 }, { 4, 3 }, {}, {} }, { 'f8e5m2', 'f8e5m2', 'f8e4m3', 'f32' }, {}, EDTYPE },
      { { { 2, 3 }, { 4, 3 }, {}, {} }, { 'i8', 'i8', 'bf16', 'f32' }, {}, EDTYPE },
      { { { 2, 3 }, { 4, 3 }, {}, {} }, { 'i8', 'i8', 'f32', 'f64' }, {}, EDTYPE },
      { { { 2, 3 }, { 4, 3 }, {}, {}, { 4 } }, { 'i8', 'i8', 'f32', 'f32', 'i8' }, {}, EDTYPE },
      { { { 2, 3 }, { 4, 3 }, {}, {} }, { 'i8', 'i8', 'f32', 'f32' }, { dtype = 'i32' }, EDTYPE },
      { { { 2, 3 }, { 4, 3 }, {}, {} }, { 'i8', 'i8', 'f32', 'f32' }, { dtype = 'f64' }, EDTYPE },
      { { { 2, 3 }, { 4, 3 }, {}, {} }, { 'i8', 'i8', 'f32', 'f32' }, { act = 7 }, EARG } },
  }

  cases.lowrank_linear = {
    call = function(C, t, a, out)
      return C.rg_lowrank_linear(t[1], t[2], t[3], t[4] or nil, a.act or 0, out)
    end,
    reference = reference.lowrank_linear,
    samples = { { { 2, 6 }, { 6, 2 }, { 2, 5 }, { 5 } }, { { 6 }, { 6, 2 }, { 2, 5 }, false },
      { { 3, 2, 6 }, { 6, 3 }, { 3, 5 }, { 5 }, args = { act = 2 } },
      { { 0, 6 }, { 6, 2 }, { 2, 5 }, { 5 } }, { { 33, 70 }, { 70, 8 }, { 8, 41 }, { 41 } } },
    dtypes = FLOATS,
    ulps = 4, by_library = true, optional = { [4] = true },
    large = { { { 200, 300 }, { 300, 30 }, { 30, 250 }, { 250 } } },
    bad = { { { { 2, 3 }, { 4, 2 }, { 2, 2 } }, { 'f32', 'f32', 'f32' }, {}, ESHAPE },
      { { { 2, 3 }, { 3, 2 }, { 3, 2 } }, { 'f32', 'f32', 'f32' }, {}, ESHAPE },
      { { { 2, 3 }, { 3, 0 }, { 2, 2 } }, { 'f32', 'f32', 'f32' }, {}, ESHAPE }, -- no rank at all
      { { { 2, 3 }, { 3, 2 }, { 2, 2 } }, { 'i32', 'i32', 'i32' }, {}, EDTYPE } },
  }

  -- Terms T, rank R: left [n_in x 2TR], right [2TR x n_out].
  cases.sketched_linear = {
    call = function(C, t, a, out)
      return C.rg_sketched_linear(t[1], t[2], t[3], t[4] or nil, a.n_terms, a.act or 0, a.p or 0,
        a.generator, out)
    end,
    draws = true,
    reference = reference.sketched_linear,
    samples = { { { 2, 6 }, { 6, 8 }, { 8, 5 }, { 5 }, args = { n_terms = 2 } },
      { { 6 }, { 6, 8 }, { 8, 5 }, false, args = { n_terms = 1, act = 1 } },
      { { 3, 2, 6 }, { 6, 12 }, { 12, 5 }, { 5 },
        args = { n_terms = 3, p = 0.4, seed = 77, offset = 5 } },
      { { 4, 6 }, { 6, 8 }, { 8, 5 }, { 5 },
        args = { n_terms = 2, act = 4, p = 0.5, seed = 5, offset = 3 } },
      { { 0, 6 }, { 6, 8 }, { 8, 5 }, { 5 }, args = { n_terms = 2 } },
      { { 33, 70 }, { 70, 24 }, { 24, 41 }, { 41 },
        args = { n_terms = 3, act = 2, p = 0.25, seed = 9, offset = 1 } } },
    dtypes = FLOATS,
    ulps = 4, by_library = true, optional = { [4] = true },
    large = { { { 200, 300 }, { 300, 64 }, { 64, 250 }, { 250 }, args = { n_terms = 2 } } },
    bad = { { { { 2, 6 }, { 6, 8 }, { 6, 5 } }, { 'f32', 'f32', 'f32' }, { n_terms = 2 }, ESHAPE },
      { { { 2, 6 }, { 6, 8 }, { 8, 5 } }, { 'f32', 'f32', 'f32' }, { n_terms = 3 }, ESHAPE },
      { { { 2, 6 }, { 6, 8 }, { 8, 5 } }, { 'f32', 'f32', 'f32' }, { n_terms = 0 }, EARG },
      { { { 2, 6 }, { 6, 8 }, { 8, 5 } }, { 'f32', 'f32', 'f32' }, { n_terms = 2, p = 1 }, EARG },
      { { { 2, 6 }, { 6, 8 }, { 8, 5 } }, { 'i8', 'i8', 'i8' }, { n_terms = 2 }, EDTYPE } },
  }

  -- s1 [n_in x TR], u1_bits [TR x ceil(n_out / 8)], u2_bits [n_in x ceil(TR / 8)], s2 [TR x n_out].
  cases.expand_signs = {
    call = function(C, t, a, out)
      return C.rg_expand_signs(t[1], a.cols, a.sign, tensors.CODES[a.dtype or 'f32'], out)
    end,
    reference = reference.expand_signs,
    samples = { { { 3, 1 }, args = { cols = 8, sign = 0.5 } },
      { { 5, 2 }, args = { cols = 11, sign = 0.25, dtype = 'bf16' } },
      { { 2, 3 }, args = { cols = 17, sign = 2, dtype = 'f64' } },
      { { 0, 2 }, args = { cols = 9, sign = 1 } },
      { { 60, 40 }, args = { cols = 317, sign = 0.125 } } },
    dtypes = { 'u8' }, ulps = 0,
    large = { { { 300, 40 }, args = { cols = 317, sign = 0.125 } } },
    bad = { { { { 3, 1 } }, { 'u8' }, { cols = 9, sign = 1 }, ESHAPE },
      { { { 3, 1 } }, { 'i8' }, { cols = 8, sign = 1 }, ESHAPE },
      { { { 3, 1 } }, { 'u8' }, { cols = 8, sign = 1, dtype = 'i32' }, EDTYPE } },
  }

  cases.sketched_linear_bits = {
    call = function(C, t, a, out)
      return C.rg_sketched_linear_bits(t[1], t[2], t[3], t[4], t[5], t[6] or nil, a.n_terms,
        a.act or 0, a.p or 0, a.generator, out)
    end,
    draws = true,
    reference = reference.sketched_linear_bits,
    inputs = { [3] = 'u8', [4] = 'u8' },
    samples = { { { 2, 6 }, { 6, 8 }, { 8, 1 }, { 6, 1 }, { 8, 5 }, { 5 }, args = { n_terms = 2 } },
      { { 6 }, { 6, 9 }, { 9, 2 }, { 6, 2 }, { 9, 13 }, false, args = { n_terms = 3, act = 1 } },
      { { 3, 2, 6 }, { 6, 12 }, { 12, 1 }, { 6, 2 }, { 12, 5 }, { 5 },
        args = { n_terms = 3, p = 0.4, seed = 77, offset = 5 } },
      { { 4, 6 }, { 6, 8 }, { 8, 1 }, { 6, 1 }, { 8, 5 }, { 5 },
        args = { n_terms = 2, act = 4, p = 0.5, seed = 5, offset = 3 } },
      { { 4, 6 }, { 6, 8 }, { 8, 1 }, { 6, 1 }, { 8, 5 }, { 5 },
        args = { n_terms = 2, act = 3, p = 0.5, seed = 5, offset = 3 } },
      { { 0, 6 }, { 6, 8 }, { 8, 1 }, { 6, 1 }, { 8, 5 }, { 5 }, args = { n_terms = 2 } },
      { { 33, 70 }, { 70, 24 }, { 24, 6 }, { 70, 3 }, { 24, 41 }, { 41 },
        args = { n_terms = 3, act = 2 } },
      -- whole eights, which tensor cores take: several tiles, and a part of the last
      { { 70, 72 }, { 72, 136 }, { 136, 33 }, { 72, 17 }, { 136, 264 }, { 264 },
        args = { n_terms = 2, act = 1, p = 0.25, seed = 3, offset = 2 } },
      { { 2, 65, 40 }, { 40, 64 }, { 64, 16 }, { 40, 8 }, { 64, 128 }, false,
        args = { n_terms = 1, act = 4, p = 0.5, seed = 3, offset = 9 } },
      { { 1, 8 }, { 8, 8 }, { 8, 1 }, { 8, 1 }, { 8, 8 }, { 8 }, args = { n_terms = 8 } } },
    dtypes = FLOATS,
    ulps = 4, by_library = true, optional = { [6] = true },
    large = { { { 200, 300 }, { 300, 64 }, { 64, 32 }, { 300, 8 }, { 64, 250 }, { 250 },
      args = { n_terms = 2 } } },
    bad = { { { { 2, 6 }, { 6, 8 }, { 8, 2 }, { 6, 1 }, { 8, 5 } },
        { 'f32', 'f32', 'u8', 'u8', 'f32' },
        { n_terms = 2 }, ESHAPE },
      { { { 2, 6 }, { 6, 8 }, { 8, 1 }, { 6, 1 }, { 8, 5 } }, { 'f32', 'f32', 'i8', 'u8', 'f32' },
        { n_terms = 2 }, EDTYPE },
      { { { 2, 6 }, { 6, 8 }, { 8, 1 }, { 6, 1 }, { 8, 5 } }, { 'f32', 'f32', 'u8', 'u8', 'f32' },
        { n_terms = 0 }, EARG } },
  }

  -- Seeds with both halves of their 64 bits, which Lua's numbers hold exactly.
  local function seeded(at)
    return function(inputs, sample)
      inputs[at][1] = sample.args.of or -(2 ^ 52 + 12345)
    end
  end

  cases.sign_bits = {
    call = function(C, t, a, out) return C.rg_sign_bits(t[1], a.matrix, a.rows, a.cols, out) end,
    reference = reference.sign_bits,
    samples = { { { 1 }, args = { matrix = 1, rows = 3, cols = 1, of = 0 } },
      { {}, args = { matrix = 2, rows = 5, cols = 7 } },
      { { 1 }, args = { matrix = 1, rows = 2, cols = 8, of = 7 } },
      { { 1, 1 }, args = { matrix = 1, rows = 9, cols = 31 } },
      { { 1 }, args = { matrix = 2 ^ 31 - 1, rows = 2, cols = 33 } },
      { { 1 }, args = { matrix = 2, rows = 40, cols = 127, of = 2 ^ 33 + 1 } },
      { { 1 }, args = { matrix = 1, rows = 4, cols = 128 } },
      { { 1 }, args = { matrix = 2, rows = 33, cols = 129 } },
      { { 1 }, args = { matrix = 1, rows = 31, cols = 300 } },
      { { 1 }, args = { matrix = 1, rows = 0, cols = 9 } },
      { { 1 }, args = { matrix = 1, rows = 3, cols = 0 } } },
    prepare = seeded(1),
    dtypes = { 'i64' }, ulps = 0,
    large = { { { 1 }, args = { matrix = 1, rows = 100, cols = 1000 } } },
    bad = { { { { 2 } }, { 'i64' }, { matrix = 1, rows = 1, cols = 1 }, ESHAPE },
      { { { 1 } }, { 'i32' }, { matrix = 1, rows = 1, cols = 1 }, EDTYPE },
      { { { 1 } }, { 'i64' }, { matrix = 0, rows = 1, cols = 1 }, EARG },
      { { { 1 } }, { 'i64' }, { matrix = 1, rows = -1, cols = 1 }, EARG },
      { { { 1 } }, { 'i64' }, { matrix = 1, rows = 1, cols = 2 ^ 32 }, EARG } },
  }

  cases.sketched_linear_seed = {
    call = function(C, t, a, out)
      return C.rg_sketched_linear_seed(t[1], t[2], t[3], t[4], t[5] or nil, a.n_terms, a.act or 0,
        a.p or 0, a.generator, out)
    end,
    draws = true,
    reference = reference.sketched_linear_seed,
    inputs = { [3] = 'i64' },
    prepare = seeded(3),
    samples = { { { 2, 6 }, { 6, 8 }, { 1 }, { 8, 5 }, { 5 }, args = { n_terms = 2, of = 1 } },
      { { 6 }, { 6, 9 }, {}, { 9, 13 }, false, args = { n_terms = 3, act = 1 } },
      { { 3, 2, 6 }, { 6, 12 }, { 1 }, { 12, 1 }, { 1 },
        args = { n_terms = 3, p = 0.4, seed = 77, offset = 5 } },
      { { 4, 6 }, { 6, 8 }, { 1 }, { 8, 5 }, { 5 },
        args = { n_terms = 2, act = 4, p = 0.5, seed = 5, offset = 3 } },
      { { 0, 6 }, { 6, 8 }, { 1 }, { 8, 5 }, { 5 }, args = { n_terms = 2 } },
      { { 33, 70 }, { 70, 24 }, { 1 }, { 24, 41 }, { 41 }, args = { n_terms = 3, act = 2 } },
      { { 3, 31 }, { 31, 33 }, { 1 }, { 33, 127 }, { 127 }, args = { n_terms = 3 } },
      { { 5, 9 }, { 9, 129 }, { 1 }, { 129, 129 }, { 129 }, args = { n_terms = 1 } },
      -- whole eights, which tensor cores take: several tiles, and a part of the last
      { { 70, 72 }, { 72, 136 }, { 1 }, { 136, 264 }, { 264 },
        args = { n_terms = 2, act = 1, p = 0.25, seed = 3, offset = 2 } },
      { { 2, 65, 40 }, { 40, 64 }, { 1 }, { 64, 128 }, false,
        args = { n_terms = 1, act = 4, p = 0.5, seed = 3, offset = 9 } },
      { { 1, 8 }, { 8, 8 }, { 1 }, { 8, 8 }, { 8 }, args = { n_terms = 8 } },
      { { 7, 48 }, { 48, 16 }, { 1 }, { 16, 304 }, { 304 }, args = { n_terms = 2 } } },
    dtypes = FLOATS,
    ulps = 4, by_library = true, optional = { [5] = true },
    large = { { { 200, 300 }, { 300, 64 }, { 1 }, { 64, 250 }, { 250 }, args = { n_terms = 2 } } },
    bad = { { { { 2, 6 }, { 6, 8 }, { 2 }, { 8, 5 } }, { 'f32', 'f32', 'i64', 'f32' },
        { n_terms = 2 }, ESHAPE },
      { { { 2, 6 }, { 6, 8 }, { 1 }, { 8, 5 } }, { 'f32', 'f32', 'i32', 'f32' },
        { n_terms = 2 }, EDTYPE },
      { { { 2, 6 }, { 6, 8 }, { 1 }, { 7, 5 } }, { 'f32', 'f32', 'i64', 'f32' },
        { n_terms = 2 }, ESHAPE },
      { { { 2, 6 }, { 6, 8 }, { 1 }, { 8, 5 } }, { 'f32', 'f32', 'i64', 'f32' },
        { n_terms = 3 }, ESHAPE },
      { { { 2, 6 }, { 6, 8 }, { 1 }, { 8, 5 } }, { 'f32', 'f32', 'i64', 'f32' },
        { n_terms = 0 }, EARG } },
  }

  local three = ffi.new('rg_tensor *[3]')
  cases.svd = {
    call = function(C, t, _, out)
      for i = 0, 2 do three[i] = out[i] end
      local status = C.rg_svd(t[1], three, three + 1, three + 2)
      for i = 0, 2 do out[i] = three[i] end
      return status
    end,
    n_out = 3,
    reference = reference.svd,
    check = reference.check_svd,
    samples = { { { 3, 3 } }, { { 5, 3 } }, { { 3, 7 } }, { { 1, 1 } }, { { 40, 30 } },
      { { 35, 37 } }, { { 3, 0 } } },
    dtypes = { 'f32', 'f64' },
    ulps = 64, by_library = true,
    large = { { { 60, 50 } } },
    bad = { { { { 3 } }, { 'f32' }, {}, ESHAPE }, { { { 2, 2, 2 } }, { 'f32' }, {}, ESHAPE },
      { { { 2, 2 } }, { 'i32' }, {}, EDTYPE } },
  }
end

-- SPDX-License-Identifier: MIT
-- cases_attention: sample inputs for attention; see cases.lua for what an entry holds.  Lengths on
-- both sides of what a tile holds, masks that leave out whole tiles, parts of them and whole rows.

local ffi = require 'ffi'

local ESHAPE, EDTYPE, EARG = -1, -2, -4

return function(M)
  local cases, reference, tensors = M.cases, M.reference, M.tensors
  local FLOATS, C = tensors.FLOATS, tensors.C

  local kept = {} -- a plan refuses numbers from the host
  local function mask_of(a)
    if not a.mask then return nil end
    local key = table.concat(a.mask, ',') .. ':' .. table.concat(a.grid, ',') .. (a.type or '')
    if not kept[key] then
      kept[key] = tensors.constant(a.mask, a.grid, a.type or 'bool')
    end
    return kept[key]
  end

  local function options(a)
    return ffi.new('rg_attention_options', { a.scale or 0, a.causal and 1 or 0, a.block or 0 })
  end

  local function shapes(lead, n, m, d, e)
    local function of(rows, cols)
      local shape = { unpack(lead) }
      shape[#shape + 1], shape[#shape + 2] = rows, cols
      return shape
    end
    return of(n, d), of(m, d), of(m, e), of(n, e)
  end

  -- Two of three blocks, in no row or column the same.
  local function striped(rows, cols)
    local mask = {}
    for i = 0, rows * cols - 1 do
      mask[i + 1] = (i * 7 + math.floor(i / cols)) % 3 == 0 and 0 or 1
    end
    return mask
  end

  local list = {
    { {}, 3, 5, 4, 6 }, { { 2 }, 1, 1, 1, 1 }, { { 2, 2 }, 7, 7, 5, 5, causal = true },
    { {}, 70, 130, 8, 33 }, { {}, 130, 70, 33, 8, causal = true },
    { { 1 }, 5, 9, 3, 2, scale = -1.5 }, { {}, 0, 3, 2, 2 }, { {}, 3, 0, 2, 2 }, { {}, 3, 3, 0, 2 },
    { {}, 3, 3, 2, 0 },
    { { 0 }, 3, 3, 2, 2 },
    -- wider than the columns a block of a GPU keeps, and than the rows it keeps
    { {}, 70, 75, 132, 200, causal = true }, { {}, 66, 70, 264, 12 }, { {}, 36, 70, 9, 131 },
    -- single elements, at both sides of 32 and 64 keys
    { {}, 66, 68, 20, 68, mask = striped(66, 68), grid = { 66, 68 }, block = 1 },
    { { 2 }, 67, 131, 12, 65, mask = striped(23, 44), grid = { 23, 44 }, block = 3, causal = true },
    { {}, 40, 40, 64, 64, causal = true, real = true }, { {}, 600, 3, 2, 2 },
    { {}, 150, 140, 4, 4, mask = { 1, 0, 0, 1, 1, 0, 0, 0, 1 }, grid = { 3, 3 } },
    { {}, 20, 20, 3, 3, mask = { 1, 0, 0, 1 }, grid = { 2, 2 }, block = 10, causal = true },
    { { 2 }, 9, 7, 3, 3, mask = { 0, 0, 0, 1, 0, 1 }, grid = { 3, 2 }, block = 4 },
    -- whole eights of columns, which tensor cores take; real: the y and lse of the inputs, for
    -- weights above 1 are more than f16 holds
    { { 2 }, 70, 75, 64, 64, causal = true, halves = true, real = true },
    { {}, 33, 130, 128, 128, halves = true, real = true },
    { {}, 130, 33, 128, 96, causal = true, halves = true, real = true },
    { { 1, 3 }, 20, 20, 8, 16, causal = true, scale = -0.25, halves = true, real = true },
    { {}, 5, 70, 136, 256, halves = true, real = true },
    -- masks of blocks: whole tiles, parts of tiles, blind queries and keys that nobody sees
    { {}, 150, 140, 64, 64, mask = { 1, 0, 0, 1, 1, 0, 0, 0, 1 }, grid = { 3, 3 }, halves = true,
      real = true },
    { { 2 }, 80, 100, 16, 24, mask = { 1, 0, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
      0, 1, 0, 1, 1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1 }, grid = { 5, 7 }, block = 16, halves = true,
      real = true },
    { {}, 130, 200, 128, 128, mask = { 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0 }, grid = { 3, 4 },
      block = 50, causal = true, halves = true, real = true },
    { {}, 100, 70, 8, 8, mask = { 1, 1, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0 }, grid = { 4, 3 }, block = 31,
      halves = true, real = true },
    -- a part of a tile, then a whole one, both ways
    { {}, 128, 135, 16, 16, grid = { 8, 9 }, block = 16, halves = true, real = true, mask = {
      1, 0, 1, 0, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1,
      0, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 } },
    { {}, 20, 80, 136, 256, mask = { 0, 0, 1 }, grid = { 1, 3 }, block = 32, halves = true,
      real = true },
    { {}, 20, 30, 16, 16, mask = { 1, 0, 0, 1 }, grid = { 2, 2 }, block = 15, halves = true,
      real = true },
  }
  local samples, back = {}, {}
  for i, each in ipairs(list) do
    local q, k, v, y = shapes(unpack(each, 1, 5))
    local except = each.halves and { f32 = true, f64 = true } or nil
    samples[i] = { q, k, v, args = each, except = except }
    back[i] = { q, k, v, y, { unpack(q, 1, #q - 1) }, y, args = each, except = except }
    mask_of(each)
  end
  local ALL = { 'f32', 'f32', 'f32', 'f32', 'f32', 'f32' }
  local wide = { shapes({ 4 }, 128, 128, 16, 16) }

  cases.attention = {
    call = function(_, t, a, out)
      return C.rg_attention(t[1], t[2], t[3], mask_of(a), options(a), out)
    end,
    reference = reference.attention,
    samples = samples, dtypes = FLOATS, ulps = 8,
    mixed = { { 'f32', 'bf16', 'f16' }, { 'f64', 'f32', 'f32' } },
    large = { { wide[1], wide[2], wide[3], args = { causal = true } } },
    bad = {
      { { { 3, 4 }, { 5, 3 }, { 5, 4 } }, { 'f32', 'f32', 'f32' }, {}, ESHAPE },
      { { { 3, 4 }, { 5, 4 }, { 6, 4 } }, { 'f32', 'f32', 'f32' }, {}, ESHAPE },
      { { { 2, 3, 4 }, { 3, 5, 4 }, { 3, 5, 4 } }, { 'f32', 'f32', 'f32' }, {}, ESHAPE },
      { { { 4 }, { 4 }, { 4 } }, { 'f32', 'f32', 'f32' }, {}, ESHAPE },
      { { { 3, 4 }, { 5, 4 }, { 5, 4 } }, { 'f32', 'i32', 'f32' }, {}, EDTYPE },
      { { { 3, 4 }, { 5, 4 }, { 5, 4 } }, { 'f32', 'f32', 'f32' }, { scale = 0 / 0 }, EARG },
      { { { 3, 4 }, { 5, 4 }, { 5, 4 } }, { 'f32', 'f32', 'f32' }, { block = -1 }, EARG },
      { { { 3, 4 }, { 5, 4 }, { 5, 4 } }, { 'f32', 'f32', 'f32' },
        { mask = { 1, 1 }, grid = { 1, 2 } }, ESHAPE },
      { { { 3, 4 }, { 5, 4 }, { 5, 4 } }, { 'f32', 'f32', 'f32' },
        { mask = { 1 }, grid = { 1, 1 }, type = 'i32' }, EDTYPE },
    },
  }

  for _, bad in ipairs(cases.attention.bad) do mask_of(bad[3]) end

  -- With dropout: the draw begins at multiples of four or between them, as rows of numbers do, and
  -- lengths lie on both sides of tiles; real, as above.
  local drawn, drawn_back = {}, {}
  for i, each in ipairs {
    { {}, 3, 5, 4, 6, p = 0.3 }, { { 2, 2 }, 7, 7, 5, 5, causal = true, p = 0.5, offset = 2 },
    { {}, 70, 130, 8, 33, p = 0.25, offset = 3 }, { {}, 3, 0, 2, 2, p = 0.5 },
    { {}, 0, 3, 2, 2, p = 0.5 }, { { 2 }, 9, 7, 3, 3, p = 0 },
    { { 2 }, 66, 68, 20, 68, p = 0.75, causal = true, seed = 2 ^ 40 + 7 },
    { {}, 600, 3, 2, 2, p = 0.5 },
    { {}, 20, 20, 3, 3, mask = { 1, 0, 0, 1 }, grid = { 2, 2 }, block = 10, causal = true,
      p = 0.4, offset = 1 },
    { { 2 }, 70, 75, 64, 64, causal = true, halves = true, real = true, p = 0.3, offset = 1 },
    { { 2 }, 66, 72, 64, 64, halves = true, real = true, p = 0.5 },
    { {}, 33, 130, 128, 128, halves = true, real = true, p = 0.125, offset = 2 },
    { {}, 5, 70, 136, 256, halves = true, real = true, p = 0.5, offset = 4 },
    { {}, 150, 140, 64, 64, mask = { 1, 0, 0, 1, 1, 0, 0, 0, 1 }, grid = { 3, 3 }, halves = true,
      real = true, p = 0.3, offset = 4 },
  } do
    local q, k, v, y = shapes(unpack(each, 1, 5))
    local except = each.halves and { f32 = true, f64 = true } or nil
    each.seed, each.offset = each.seed or 5, each.offset or 0
    drawn[i] = { q, k, v, args = each, except = except }
    drawn_back[i] = { q, k, v, y, { unpack(q, 1, #q - 1) }, y, args = each, except = except }
    mask_of(each)
    M.draw_of(each)
  end

  cases.attention_dropout = {
    call = function(_, t, a, out)
      return C.rg_attention_dropout(t[1], t[2], t[3], mask_of(a), options(a), a.p, a.generator, out)
    end,
    draws = true,
    reference = reference.attention,
    samples = drawn, dtypes = FLOATS, ulps = 8,
    mixed = { { 'f32', 'bf16', 'f16' } },
    large = { { wide[1], wide[2], wide[3], args = { causal = true, p = 0.5 } } },
    bad = {
      { { { 3, 4 }, { 5, 3 }, { 5, 4 } }, { 'f32', 'f32', 'f32' }, { p = 0.5 }, ESHAPE },
      { { { 3, 4 }, { 5, 4 }, { 5, 4 } }, { 'f32', 'f32', 'f32' }, { p = 1 }, EARG },
      { { { 3, 4 }, { 5, 4 }, { 5, 4 } }, { 'f32', 'f32', 'f32' }, { p = -0.5 }, EARG },
    },
  }

  -- Any numbers do for the result and the logarithms of the sums, but for halves.
  cases.attention_back = {
    call = function(_, t, a, out)
      return C.rg_attention_back(t[6], t[1], t[2], t[3], t[4], t[5], mask_of(a), options(a), out,
        out + 1, out + 2)
    end,
    n_out = 3,
    prepare = function(inputs, sample)
      if not sample.args.real then return end
      local y, lse = reference.attention(inputs, sample.args)[1], reference.lse(inputs, sample.args)
      for i = 1, #y do inputs[4][i] = reference.convert(y[i], inputs[4].dtype) end
      for i = 1, #lse do inputs[5][i] = reference.convert(lse[i], inputs[5].dtype) end
    end,
    reference = reference.attention_back,
    samples = back, dtypes = { 'f32', 'f64' }, ulps = 8,
    mixed = { { 'bf16', 'bf16', 'bf16', 'bf16', 'f32', 'bf16' },
      { 'f16', 'f16', 'f16', 'f16', 'f32', 'f32' } },
    large = { { wide[1], wide[2], wide[3], wide[4], { 4, 128 }, wide[4],
      args = { causal = true } } },
    bad = {
      { { { 3, 4 }, { 5, 4 }, { 5, 4 }, { 3, 4 }, { 2 }, { 3, 4 } }, ALL, {}, ESHAPE },
      { { { 3, 4 }, { 5, 4 }, { 5, 4 }, { 3, 4 }, { 3 }, { 3, 5 } }, ALL, {}, ESHAPE },
      { { { 3, 4 }, { 5, 4 }, { 5, 4 }, { 2, 4 }, { 3 }, { 3, 4 } }, ALL, {}, ESHAPE },
      { { { 3, 4 }, { 5, 3 }, { 5, 4 }, { 3, 4 }, { 3 }, { 3, 4 } }, ALL, {}, ESHAPE },
      { { { 3, 4 }, { 5, 4 }, { 5, 4 }, { 3, 4 }, { 3 }, { 3, 4 } },
        { 'f32', 'f32', 'f32', 'f32', 'f64', 'f32' }, {}, ESHAPE },
    },
  }

  local wrong = tensors.constant({ 1, 2, 3 }, { 3 }, 'i64')
  local RIGHT = { { 3, 4 }, { 5, 4 }, { 5, 4 }, { 3, 4 }, { 3 }, { 3, 4 } }

  cases.attention_dropout_back = {
    call = function(_, t, a, out)
      return C.rg_attention_dropout_back(t[6], t[1], t[2], t[3], t[4], t[5],
        a.wrong and wrong or M.draw_of(a), mask_of(a), options(a), a.p, out, out + 1, out + 2)
    end,
    n_out = 3,
    prepare = cases.attention_back.prepare,
    reference = reference.attention_back,
    samples = drawn_back, dtypes = { 'f32', 'f64' }, ulps = 8,
    mixed = cases.attention_back.mixed,
    large = { { wide[1], wide[2], wide[3], wide[4], { 4, 128 }, wide[4],
      args = { causal = true, p = 0.5 } } },
    bad = {
      { { { 3, 4 }, { 5, 4 }, { 5, 4 }, { 3, 4 }, { 2 }, { 3, 4 } }, ALL, { p = 0.5 }, ESHAPE },
      { RIGHT, ALL, { p = 0.5, wrong = true }, ESHAPE },
      { RIGHT, ALL, { p = 1 }, EARG },
    },
  }
end

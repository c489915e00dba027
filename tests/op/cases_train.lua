-- SPDX-License-Identifier: MIT
-- cases_train: sample inputs for operations of training; see cases.lua for what an entry holds.

local ffi = require 'ffi'

local ESHAPE, EDTYPE, EARG = -1, -2, -4

return function(M)
  local cases, reference, tensors = M.cases, M.reference, M.tensors
  local FLOATS = tensors.FLOATS
  local C = tensors.C

  -- Kept, because a plan refuses numbers from the host, and made before anything is counted.
  local kept = {}
  local function constant(list, shape, dtype)
    local key = dtype .. table.concat(shape, ',') .. ':' .. table.concat(list, ',')
    if not kept[key] then
      local slot = ffi.new('rg_tensor *[1]')
      tensors.check(C.rg_tensor_from_doubles(ffi.new('double[?]', math.max(#list, 1), list), #list,
        tensors.CODES[dtype], ffi.new('int64_t[8]', shape), #shape, slot))
      kept[key] = slot[0]
    end
    return kept[key]
  end

  -- -- Cross entropy ------------------------------------------------------------------------------

  local function options(a)
    return ffi.new('rg_cross_entropy_options', { a.ignore or -1, a.smoothing or 0,
      a.reduction or 0, 0 })
  end

  local function labels_of(a) return constant(a.labels, a.rows, a.type or 'i64') end

  local function weight_of(a)
    return a.weight and constant(a.weight, { #a.weight }, a.weight_type or 'f32') or nil
  end

  -- Labels 0, 7, 14, ... modulo the classes.
  local function labels(n, classes)
    local list = {}
    for i = 1, n do list[i] = (i - 1) * 7 % classes end
    return list
  end

  local scores = {
    { { 3, 5 }, args = { labels = { 0, 4, 2 }, rows = { 3 } } },
    { { 7 }, args = { labels = { 6 }, rows = {}, type = 'i32' } },
    { { 2, 3, 4 }, args = { labels = { 0, 1, 2, 3, 0, 1 }, rows = { 2, 3 }, reduction = 1,
      type = 'u8' } },
    { { 4, 3 }, args = { labels = { 2, -1, 0, 1 }, rows = { 4 }, reduction = 2, type = 'i8' } },
    { { 4, 3 }, args = { labels = { 2, 1, 0, 1 }, rows = { 4 }, ignore = 1,
      weight = { 0.5, 2, 1.25 } } },
    { { 3, 4 }, args = { labels = { 3, 0, 1 }, rows = { 3 }, smoothing = 0.1,
      weight = { 1, 0.5, 2, 0 }, weight_type = 'f64' } },
    { { 2, 1100 }, args = { labels = { 1099, 600 }, rows = { 2 }, smoothing = 0.25 } },
    { { 0, 5 }, args = { labels = {}, rows = { 0 }, reduction = 1 } },
    { { 40, 10 }, args = { labels = labels(40, 10), rows = { 40 } } },
  }
  local large = { { 30000, 40 }, args = { labels = labels(30000, 40), rows = { 30000 } } }

  local function bad_list(first)
    local function arguments(more)
      local a = { labels = { 0, 1 }, rows = { 2 } }
      for k, v in pairs(more) do a[k] = v end
      return a
    end
    local list = {}
    for i, each in ipairs {
      { { { 2, 3 } }, 'f32', { labels = { 0, 1, 2 }, rows = { 3 } }, ESHAPE },
      { { {} }, 'f32', {}, ESHAPE },
      { { { 2, 3 } }, 'i32', {}, EDTYPE },
      { { { 2, 3 } }, 'f32', { type = 'f32' }, EDTYPE },
      { { { 2, 3 } }, 'f32', { labels = { 0, 3 } }, EARG },
      { { { 2, 3 } }, 'f32', { labels = { -2, 1 } }, EARG },
      { { { 2, 3 } }, 'f32', { weight = { 1, 2 } }, ESHAPE },
      { { { 2, 3 } }, 'f32', { smoothing = 1.5 }, EARG },
      { { { 2, 3 } }, 'f32', { smoothing = 0 / 0 }, EARG },
      { { { 2, 3 } }, 'f32', { reduction = 3 }, EARG },
    } do
      list[i] = first(each[1][1], each[2], arguments(each[3]), each[4])
    end
    return list
  end

  cases.cross_entropy = {
    call = function(_, t, a, out)
      return C.rg_cross_entropy(t[1], labels_of(a), weight_of(a), options(a), out)
    end,
    reference = reference.cross_entropy,
    samples = scores,
    dtypes = FLOATS, ulps = 8,
    large = { large },
    bad = bad_list(function(shape, dtype, a, status)
      return { { shape }, { dtype }, a, status }
    end),
  }

  local back = {}
  for i, sample in ipairs(scores) do
    local a = { total = 2.5 }
    for k, v in pairs(sample.args) do a[k] = v end
    back[i] = { a.reduction == 2 and a.rows or {}, sample[1], a.rows, args = a }
  end
  local large_back = { {}, large[1], large.args.rows,
    args = { labels = large.args.labels, rows = large.args.rows, total = 30000 } }

  cases.cross_entropy_back = {
    call = function(_, t, a, out)
      local wide = t[2] ~= ffi.NULL and t[2]._dtype == C.RG_F64
      local total = constant({ a.total or 1 }, { 1 }, wide and 'f64' or 'f32')
      return C.rg_cross_entropy_back(t[1], t[2], labels_of(a), t[3], total, weight_of(a),
        options(a), out)
    end,
    reference = reference.cross_entropy_back,
    samples = back,
    dtypes = { 'f32', 'f64' }, ulps = 8,
    mixed = { { 'bf16', 'bf16', 'f32' }, { 'f32', 'f16', 'f32' } },
    large = { large_back },
    bad = bad_list(function(shape, dtype, a, status)
      return { { {}, shape, a.rows }, { 'f32', dtype, 'f32' }, a, status }
    end),
  }
  cases.cross_entropy_back.bad[11] = { { { 3 }, { 2, 3 }, { 2 } }, { 'f32', 'f32', 'f32' },
    { labels = { 0, 1 }, rows = { 2 } }, ESHAPE }
  cases.cross_entropy_back.bad[12] = { { {}, { 2, 3 }, { 3 } }, { 'f32', 'f32', 'f32' },
    { labels = { 0, 1 }, rows = { 2 } }, ESHAPE }
  for _, list in ipairs { scores, { large }, back, { large_back }, } do
    for _, sample in ipairs(list) do
      labels_of(sample.args)
      weight_of(sample.args)
      for _, dtype in ipairs { 'f32', 'f64' } do
        constant({ sample.args.total or 1 }, { 1 }, dtype)
      end
    end
  end
  for _, name in ipairs { 'cross_entropy', 'cross_entropy_back' } do
    for _, bad in ipairs(cases[name].bad) do
      labels_of(bad[3])
      weight_of(bad[3])
    end
  end
end

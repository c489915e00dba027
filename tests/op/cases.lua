-- SPDX-License-Identifier: MIT
-- cases: sample inputs for every operation, one entry each.
--
-- call       (C, t, a, out): run it on tensors t with arguments a
-- reference  what it means (reference.lua)
-- samples    shapes of the inputs and arguments; false stands for an input that is left out
-- dtypes     element types all inputs are given; mixed: lists of one type for each input
-- except     element types a sample does not suit; only: the one it is tried in
-- ulps       allowed error in units in the last place of the result, 0 for exactly
-- target     the first input is written into (a function ending in _)
-- into       the form that writes into its first tensor: (C, t, a)
-- inputs     element types of inputs that keep theirs
-- prepare    (inputs, sample): change inputs that must fit each other
-- special    elements worth trying in every float type; cast_samples: to what they are converted
-- large      a sample big enough for two threads
-- bad        calls that must fail: shapes, dtypes, arguments, status
-- moves      it computes nothing
-- check      how far outputs are from what they should be, where there is no reference to compare

local ffi = require 'ffi'
local HERE = debug.getinfo(1, 'S').source:match('^@(.*/)') or './'
local reference = dofile(HERE .. 'reference.lua')
local tensors = dofile(HERE .. 'tensors.lua')

local FLOATS, INTEGERS, ALL, EVERY = tensors.FLOATS, tensors.INTEGERS, tensors.ALL, tensors.EVERY
local INF, NAN = math.huge, 0 / 0
local ESHAPE, EDTYPE, EAXIS, EARG = -1, -2, -3, -4

local M = { reference = reference, tensors = tensors }
local cases = {}
M.cases = cases

local function join(...)
  local all = {}
  for _, list in ipairs { ... } do
    for _, v in ipairs(list) do all[#all + 1] = v end
  end
  return all
end

local ARITHMETIC = join(FLOATS, INTEGERS) -- without bool

-- -- One input ------------------------------------------------------------------------------------

local SHAPES = { { {} }, { { 1 } }, { { 7 } }, { { 2, 3 } }, { { 0 } }, { { 3, 0, 2 } },
  { { 2, 3, 5 } }, { { 4, 70 } }, { { 1300 } }, { { 33, 40 } } }

local function unary(name, exact, ulps)
  cases[name] = {
    call = function(C, t, _, out) return C['rg_' .. name](t[1], out) end,
    into = function(C, t) return C['rg_' .. name .. '_'](t[1]) end,
    reference = reference[name],
    samples = SHAPES,
    dtypes = exact and ARITHMETIC or ALL,
    ulps = ulps,
    special = { 0, -0, 1, -1, INF, -INF, NAN, 0.5, -0.5, 1.5, 2.5, -2.5, 30, -30, 80, -80, 1e-30,
      1e30, -1e30, 1e-41, 0.4999999, 88, -88, -105 },
    large = { { { 1100, 1000 } } },
    bad = exact and { { { { 2 } }, { 'bool' }, {}, EDTYPE } } or {},
  }
end

for _, name in ipairs { 'neg', 'abs', 'sign', 'square', 'relu', 'floor', 'ceil', 'round' } do
  unary(name, true, 0.5)
end
unary('sqrt', false, 0.5)
unary('rsqrt', false, 1.5)
unary('reciprocal', false, 0.5)
for _, name in ipairs { 'exp', 'log', 'log1p', 'sin', 'cos', 'tanh', 'erf' } do
  unary(name, false, 4)
end
for _, name in ipairs { 'sigmoid', 'gelu', 'silu', 'softplus' } do
  unary(name, false, 8)
end
-- of several pieces of work, which all of these share
-- (of whole packs, one more than blocks of the GPU have: another block)
cases.neg.samples = join(SHAPES, { { { 20507 }, only = 'f32' }, { { 20507 }, only = 'f16' },
  { { 2052 }, only = 'f32' } })
-- e^30 and below come off the argument, whose own rounding the function magnifies
cases.sin.special = { 0, -0, 1, -1, INF, -INF, NAN, 0.5, 3, 30, -30, 1000 }
cases.cos.special = cases.sin.special
-- exp(-x) overflows below -88.7, and what would be a number below the normal range is 0
cases.silu.special = { unpack(cases.silu.special, 1, #cases.silu.special - 1) }

-- -- Two inputs ---------------------------------------------------------------------------------

local PAIRS = {
  { { 7 }, { 7 } }, { { 2, 3 }, { 2, 3 } }, { {}, {} }, { { 5 }, {} }, { {}, { 2, 2 } },
  { { 0 }, { 1 } }, { { 2, 0 }, { 2, 1 } }, { { 4, 70 }, { 70 } }, { { 4, 70 }, { 4, 1 } },
  { { 4, 1 }, { 1, 70 } }, { { 3, 1, 5 }, { 2, 1 } }, { { 2, 3, 4, 5 }, { 3, 1, 5 } },
  { { 1300 }, { 1300 } }, { { 40, 33 }, { 33 } },
}
local NUMBERS = { 2, -3, 0.5, 0, 1 }

local function binary(name, dtypes, ulps)
  local samples = join(PAIRS)
  for _, value in ipairs(NUMBERS) do
    for _, reversed in ipairs { false, true } do
      for _, shape in ipairs { { 3, 5 }, { 600 } } do
        samples[#samples + 1] = { shape, args = { value = value, reversed = reversed },
          except = value < 0 and { u8 = true } }
      end
    end
  end
  cases[name] = {
    call = function(C, t, a, out)
      if a.value then
        return C['rg_' .. name .. '_scalar'](t[1], a.value, a.reversed and 1 or 0, out)
      end
      return C['rg_' .. name](t[1], t[2], out)
    end,
    into = function(C, t, a)
      if a.value then return C['rg_' .. name .. '_scalar_'](t[1], a.value) end
      return C['rg_' .. name .. '_'](t[1], t[2])
    end,
    reference = reference[name],
    samples = samples,
    dtypes = dtypes,
    mixed = { { 'f32', 'f16' }, { 'i32', 'f32' }, { 'bf16', 'f16' }, { 'u8', 'i8' },
      { 'bool', 'i64' }, { 'f64', 'i8' }, { 'bool', 'f16' } },
    ulps = ulps,
    special = { 0, -0, 1, -1, INF, -INF, NAN, 2, 0.5, 1e30, 1e-30 },
    large = { { { 1100, 1000 }, { 1000 } }, { { 1100, 1000 }, { 1100, 1000 } } },
    bad = { { { { 2 }, { 3 } }, { 'f32', 'f32' }, {}, ESHAPE },
      { { { 2, 3 }, { 2 } }, { 'f32', 'i8' }, {}, ESHAPE } },
  }
end

for _, name in ipairs { 'add', 'mul', 'maximum', 'minimum' } do binary(name, ALL, 0.5) end
binary('sub', ARITHMETIC, 0.5)
binary('div', ALL, 0.5)
binary('pow', ALL, 4)
for _, name in ipairs { 'eq', 'ne', 'lt', 'le', 'gt', 'ge', 'logical_and', 'logical_or',
  'logical_xor' } do binary(name, ALL, 0) end
cases.add.samples = join(cases.add.samples, { { { 20507 }, { 20507 }, only = 'f32' },
  { { 5, 9001 }, { 9001 }, only = 'f16' }, { { 9001, 3 }, { 9001, 1 }, only = 'f32' },
  { { 2052 }, { 2052 }, only = 'f32' },
  { { 20507 }, args = { value = 0.5 }, only = 'f64' } }) -- of several pieces of work
table.insert(cases.sub.bad, { { { 2 }, { 2 } }, { 'bool', 'bool' }, {}, EDTYPE })
table.insert(cases.add.bad, { { { 2 } }, { 'i8' }, { value = 300 }, EARG })

-- -- Making, copying, converting ----------------------------------------------------------------

cases.fill = {
  call = function(C, t, a) return C.rg_fill_(t[1], a.value) end,
  target = true,
  reference = reference.fill,
  samples = { { {}, args = { value = 2.5 } }, { { 3, 5 }, args = { value = -1.3 } },
    { { 0 }, args = { value = 1 } }, { { 2, 700 }, args = { value = 7 } },
    { { 4 }, args = { value = 1e9 } }, { { 4 }, args = { value = NAN } },
    { { 40003 }, args = { value = 7 }, only = 'f32' } },
  dtypes = EVERY, ulps = 0, free = true,
  large = { { { 3000, 1000 }, args = { value = 3 } } },
  bad = {},
}

cases.arange = {
  call = function(C, t, a) return C.rg_arange_(t[1], a.start, a.step) end,
  target = true,
  reference = reference.arange,
  samples = { { {}, args = { start = 3, step = 1 } }, { { 3, 5 }, args = { start = 0, step = 1 } },
    { { 0 }, args = { start = 0, step = 1 } }, { { 2, 60 }, args = { start = -1, step = 0.25 } },
    { { 1100 }, args = { start = 5, step = -0.5 } },
    -- a product and a sum, rounded each
    { { 600 }, args = { start = 0.1, step = 0.7 }, only = 'f64' },
    { { 40003 }, args = { start = 0, step = 0.25 }, only = 'f32' } },
  dtypes = EVERY, ulps = 0,
  large = { { { 1100, 1000 }, args = { start = 0, step = 0.5 } } },
  bad = {},
}

local COPIES = { { {}, {} }, { { 3, 5 }, { 3, 5 } }, { { 3, 5 }, { 5 } }, { { 3, 5 }, { 3, 1 } },
  { { 0, 2 }, { 2 } }, { { 40, 50 }, { 40, 50 } }, { { 3, 40, 33 }, { 40, 33 } }, { { 4 }, {} },
  { { 2, 1100 }, { 1100 } }, { { 2, 70, 66 }, { 2, 70, 66 } },
  { { 20507 }, { 20507 }, only = 'f32' }, { { 5, 9001 }, { 9001 }, only = 'i64' } }

cases.copy = {
  call = function(C, t) return C.rg_copy_(t[1], t[2]) end,
  target = true,
  reference = reference.copy,
  samples = COPIES,
  dtypes = EVERY,
  mixed = { { 'f16', 'f32' }, { 'f32', 'bf16' }, { 'i8', 'f64' }, { 'bool', 'f32' },
    { 'u8', 'i64' }, { 'bf16', 'f16' }, { 'f64', 'bool' }, { 'f8e4m3', 'f32' },
    { 'f64', 'f8e5m2' }, { 'f8e5m2', 'f8e4m3' }, { 'f8e4m3', 'i32' }, { 'bool', 'f8e5m2' },
    { 'bf16', 'f8e4m3' } },
  ulps = 0,
  large = { { { 1000, 1100 }, { 1100 } }, { { 1000, 1100 }, { 1000, 1100 } } },
  bad = { { { { 3 }, { 2 } }, { 'f32', 'f32' }, {}, ESHAPE },
    { { { 3 }, { 2, 3 } }, { 'f32', 'f32' }, {}, ESHAPE } },
}

cases.cast = {
  call = function(C, t, a, out) return C.rg_cast(t[1], tensors.CODES[a.dtype] or 99, out) end,
  reference = reference.cast,
  samples = {},
  dtypes = EVERY, ulps = 0,
  special = { 0, -0, INF, -INF, NAN, 0.5, -0.5, 0.999, -0.999, 127, 128, -128, -129, -128.5, 255,
    256, 255.5, 65504, 65519, 65520, 1e5, 2147483647, 2147483648, -2147483648, -2147483649, 1e10,
    1e19, -1e19, 9.2e18, 1e30, 1e39, 1e300, 2049, 2051, 257, 259, 1.00390625, 1.01171875, 1e-7,
    2.98e-8, 2.99e-8, 6e-8, 1e-5, 3e-39, 1e-45, 3.4e38, 3.39e38, 448, 464, 464.5, 480, 57344,
    61439, 61440, 65536, 0x1p-10, 0x1.8p-10, 0x1p-17, 0x1.01p-17, 1.0625, 1.0626, 1.125, 1.375,
    -1.1875, 1 + 0x1p-4 + 0x1p-40, 1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-8 + 0x1p-40, 200, 200.1 },
  large = { { { 1100, 1000 }, args = { dtype = 'bf16' } },
    { { 1100, 1000 }, args = { dtype = 'i8' } } },
  bad = { { { { 2 } }, { 'f32' }, { dtype = 'none' }, EDTYPE } },
}
cases.cast.cast_samples = {}
for _, to in ipairs(EVERY) do
  table.insert(cases.cast.cast_samples, { {}, args = { dtype = to } })
  for _, shape in ipairs { {}, { 0 }, { 3, 5 }, { 2, 700 } } do
    table.insert(cases.cast.samples, { shape, args = { dtype = to } })
  end
end

cases.concat = {
  call = function(C, t, a, out)
    return C.rg_concat(ffi.new('const rg_tensor *[?]', #t, t), #t, a.axis, out)
  end,
  reference = reference.concat,
  samples = { { { 3 }, { 4 }, args = { axis = 0 } }, { { 2, 3 }, { 2, 5 }, args = { axis = 1 } },
    { { 2, 3 }, { 4, 3 }, { 1, 3 }, args = { axis = -2 } }, { { 2, 3 }, args = { axis = -1 } },
    { { 0 }, { 2 }, args = { axis = 0 } }, { { 2, 0 }, { 2, 0 }, args = { axis = 1 } },
    { { 2, 3, 40 }, { 2, 1, 40 }, args = { axis = 1 } },
    { { 3, 48 }, { 3, 16 }, { 3, 7 }, args = { axis = 1 } },
    { { 2, 37 }, { 1, 37 }, args = { axis = 0 } } },
  dtypes = EVERY,
  mixed = { { 'f16', 'f32', 'i8' }, { 'u8', 'i8', 'bool' } },
  ulps = 0,
  large = { { { 600, 1000 }, { 600, 1000 }, args = { axis = 1 } } },
  bad = { { { { 2, 3 }, { 3, 3 } }, { 'f32', 'f32' }, { axis = 1 }, ESHAPE },
    { { { 2 }, { 2, 1 } }, { 'f32', 'f32' }, { axis = 0 }, ESHAPE },
    { { { 2 }, { 2 } }, { 'f32', 'f8e4m3' }, { axis = 0 }, EDTYPE },
    { { { 2 }, { 2 } }, { 'f8e4m3', 'f8e5m2' }, { axis = 0 }, EDTYPE },
    { { { 2 } }, { 'f32' }, { axis = 1 }, EAXIS }, { { {} }, { 'f32' }, { axis = 0 }, EAXIS },
    { {}, {}, { axis = 0 }, EARG } },
}

-- -- Random numbers -----------------------------------------------------------------------------

local DRAWN = { {}, { 5 }, { 3, 4 }, { 0 }, { 2, 701 } }

-- The last are of several pieces of work, which must not begin with the same numbers.
local function drawn(args, one, other)
  local samples = {}
  for i, shape in ipairs(DRAWN) do
    local a = { seed = 12345678901 * i, offset = i == 1 and 0 or 7 ^ i }
    for k, v in pairs(args) do a[k] = v end
    samples[i] = { shape, args = a }
  end
  for _, dtype in ipairs { one, other } do
    local a = { seed = 77, offset = 5 }
    for k, v in pairs(args) do a[k] = v end
    samples[#samples + 1] = { { 20011 }, args = a, only = dtype }
  end
  return samples
end

local function draw(name, dtypes, ulps, names, args, bad)
  cases[name] = {
    call = function(C, t, a)
      return C['rg_' .. name .. '_'](t[1], a[names[1]], names[2] and a[names[2]] or a.generator,
        names[2] and a.generator or nil)
    end,
    target = true, draws = true,
    reference = reference[name],
    samples = drawn(args, dtypes[1], dtypes[2]),
    dtypes = dtypes, ulps = ulps,
    large = { { { 1100, 1000 }, args = args } },
    bad = bad,
  }
end

draw('uniform', FLOATS, 1, { 'lo', 'hi' }, { lo = -2, hi = 3 }, {
  { { { 2 } }, { 'i32' }, { lo = 0, hi = 1 }, EDTYPE },
  { { { 2 } }, { 'f32' }, { lo = 1, hi = 0 }, EARG },
    { { { 2 } }, { 'f32' }, { lo = 0, hi = INF }, EARG } })
draw('normal', FLOATS, 8, { 'mean', 'std' }, { mean = 1, std = 2 }, {
  { { { 2 } }, { 'u8' }, { mean = 0, std = 1 }, EDTYPE },
  { { { 2 } }, { 'f32' }, { mean = 0, std = -1 }, EARG },
    { { { 2 } }, { 'f32' }, { mean = 0, std = NAN }, EARG } })
draw('randint', INTEGERS, 0, { 'lo', 'hi' }, { lo = 3, hi = 100 }, {
  { { { 2 } }, { 'f32' }, { lo = 0, hi = 1 }, EDTYPE },
    { { { 2 } }, { 'i32' }, { lo = 1, hi = 1 }, EARG },
  { { { 2 } }, { 'u8' }, { lo = 0, hi = 257 }, EARG },
    { { { 2 } }, { 'i8' }, { lo = -129, hi = 0 }, EARG } })
draw('signs', FLOATS, 0, { 'scale' }, { scale = 0.3 }, {
  { { { 2 } }, { 'i8' }, { scale = 1 }, EDTYPE } })
cases.signs.call = function(C, t, a) return C.rg_signs_(t[1], a.scale, a.generator) end

cases.dropout = {
  call = function(C, t, a, out) return C.rg_dropout(t[1], a.p, a.generator, out) end,
  draws = true,
  reference = reference.dropout,
  samples = join(drawn({ p = 0.3 }, 'f32', 'f64'), drawn { p = 0 }, drawn { p = 0.9 }),
  dtypes = FLOATS, ulps = 1,
  large = { { { 1100, 1000 }, args = { p = 0.5 } } },
  bad = { { { { 2 } }, { 'i32' }, { p = 0.5 }, EDTYPE }, { { { 2 } }, { 'f32' }, { p = 1 }, EARG },
    { { { 2 } }, { 'f32' }, { p = -0.1 }, EARG }, { { { 2 } }, { 'f32' }, { p = NAN }, EARG } },
}

-- The draw that a mask is made from again; kept, because a plan refuses numbers from the host.
local draws = {}
local function draw_of(a)
  local key = a.seed .. ' ' .. a.offset
  if not draws[key] then
    draws[key] = tensors.constant({ a.seed, a.offset }, { 2 }, 'i64')
  end
  return draws[key]
end
draw_of { seed = 5, offset = 0 } -- before anything is counted
M.draw_of = draw_of

cases.dropout_back = {
  call = function(C, t, a, out) return C.rg_dropout_back(t[1], draw_of(a), a.p, out) end,
  reference = reference.dropout,
  samples = join(drawn({ p = 0.3 }, 'f32', 'f64'), drawn { p = 0 }, drawn { p = 0.9 }),
  dtypes = FLOATS, ulps = 1,
  large = { { { 1100, 1000 }, args = { p = 0.5 } } },
  bad = { { { { 2 } }, { 'i32' }, { p = 0.5 }, EDTYPE },
    { { { 2 } }, { 'f32' }, { p = 1 }, EARG } },
}

-- -- Reductions ---------------------------------------------------------------------------------

-- Every way to reduce these, with and without keeping the axes.
local REDUCED = { { { 5 }, {} }, { { 2, 3 }, {} }, { { 2, 3 }, { 0 } }, { { 2, 3 }, { -1 } },
  { { 2, 3, 4 }, { 1 } }, { { 2, 3, 4 }, { 0, 2 } }, { { 2, 3, 4 }, { 2, 1 } }, { {}, {} },
  { { 3, 600 }, { 1 } }, { { 600, 3 }, { 0 } }, { { 150, 5 }, { 0 } }, { { 0, 3 }, { 1 } },
  { { 5, 40, 7 }, { 1 } }, { { 9000 }, {} }, { { 9000, 4 }, { 0 } } }
-- Of several parts along memory.
local PARTS = { { { 131081 }, args = { axes = {} }, only = 'f32' },
  { { 2, 65543 }, args = { axes = { 1 } }, only = 'f64' } }
-- For packs: along rows, across them, of several axes, in parts.
local PACKED = { { { 3, 37 }, { 1 } }, { { 2, 528 }, { 1 } }, { { 8209 }, {} },
  { { 6, 32 }, { 0 } }, { { 300, 16 }, { 0 } }, { { 4, 6, 32 }, { 0, 2 } },
  { { 3, 40, 16 }, { 1 } } }
local OF_NOTHING = { { { 0 }, {} }, { { 3, 0 }, { 1 } }, { { 0, 3 }, { 0 } } }

local function reduced(list, args)
  local samples = {}
  for _, sample in ipairs(list) do
    for _, keep in ipairs { false, true } do
      local a = { axes = sample[2], keep = keep }
      for k, v in pairs(args or {}) do a[k] = v end
      samples[#samples + 1] = { sample[1], args = a }
    end
  end
  return samples
end

local BAD_AXES = { { { { 2, 3 } }, { 'f32' }, { axes = { 2 } }, EAXIS },
  { { { 2, 3 } }, { 'f32' }, { axes = { -3 } }, EAXIS },
  { { { 2, 3 } }, { 'f32' }, { axes = { 0, -2 } }, EAXIS } }
local BAD_NOTHING = { { { { 0 } }, { 'f32' }, { axes = {} }, EARG },
  { { { 2, 0 } }, { 'f32' }, { axes = { 1 } }, EARG } }

local function reduction(name, dtypes, ulps, samples, bad)
  cases[name] = {
    call = function(C, t, a, out)
      local axes, n = tensors.axes(a.axes or {})
      if a.p then return C.rg_norm(t[1], a.p, axes, n, a.keep and 1 or 0, out) end
      return C['rg_' .. name](t[1], axes, n, a.keep and 1 or 0, out)
    end,
    reference = reference[name],
    samples = samples,
    dtypes = dtypes, ulps = ulps,
    large = { { { 1100, 1000 }, args = { axes = {} } }, { { 1100, 1000 }, args = { axes = { 0 } } },
      { { 1100, 1000 }, args = { axes = { 1 } } } },
    bad = bad,
  }
end

local function packed(args)
  local samples = {}
  for i, sample in ipairs(PACKED) do
    samples[i] = { sample[1], args = { axes = sample[2] } }
    for k, v in pairs(args or {}) do samples[i].args[k] = v end
  end
  return samples
end

reduction('sum', ALL, 2, join(reduced(REDUCED), packed(), reduced(OF_NOTHING), PARTS), BAD_AXES)
reduction('prod', ALL, 2, join(reduced { { { 5 }, {} }, { { 2, 3 }, { 0 } }, { { 3, 12 }, { 1 } },
  { { 12, 5 }, { 0 } }, { {}, {} }, { { 8, 32 }, { 0 } } },
  { { { 2, 37 }, args = { axes = { 1 } }, except = { i64 = true, i32 = true, i8 = true,
    u8 = true } } }, reduced(OF_NOTHING)), BAD_AXES) -- what does not fit in 64 bits wraps
reduction('mean', ALL, 2, join(reduced(REDUCED), packed()), join(BAD_AXES, BAD_NOTHING))
reduction('max', ALL, 0, join(reduced(REDUCED), packed(), PARTS), join(BAD_AXES, BAD_NOTHING))
reduction('min', ALL, 0, reduced(REDUCED), join(BAD_AXES, BAD_NOTHING))
cases.max.special = { 1, NAN, 2, -INF, INF, 0, -0, NAN }
cases.min.special = cases.max.special
reduction('norm', FLOATS, 4, join(reduced(REDUCED, { p = 2 }), reduced(REDUCED, { p = 1 }),
  reduced(REDUCED, { p = INF }), reduced(REDUCED, { p = 3 }), packed { p = 2 },
  packed { p = INF }, reduced(OF_NOTHING, { p = 2 })), {
  { { { 2 } }, { 'i32' }, { p = 2 }, EDTYPE }, { { { 2 } }, { 'f32' }, { p = 0 }, EARG },
  { { { 2 } }, { 'f32' }, { p = NAN }, EARG },
  { { { 2, 3 } }, { 'f32' }, { p = 2, axes = { 2 } }, EAXIS } })
for _, sample in ipairs(cases.norm.large) do sample.args.p = 2 end
cases.norm.special, cases.norm.special_args = { 3e30, -4e30, 1e-3 }, { axes = {}, p = 2 } -- squared

for _, name in ipairs { 'argmax', 'argmin' } do
  cases[name] = {
    call = function(C, t, a, out) return C['rg_' .. name](t[1], a.axis, a.keep and 1 or 0, out) end,
    reference = reference[name],
    samples = { { { 5 }, args = { axis = 0 } }, { { 2, 3 }, args = { axis = -1 } },
      { { 2, 3 }, args = { axis = 0, keep = true } }, { { 3, 0 }, args = { axis = 0 } },
      { { 2, 3, 4 }, args = { axis = 1 } }, { { 3, 1200 }, args = { axis = 1, keep = true } },
      { { 700, 3 }, args = { axis = 0 } }, { { 3, 37 }, args = { axis = 1 } },
      { { 2, 64 }, args = { axis = 1 } }, { { 90, 3 }, args = { axis = 1 } },
      { { 3, 150 }, args = { axis = 0 } } },
    dtypes = ALL, ulps = 0,
    special = { 1, 3, NAN, 2, -INF, INF, 3, NAN },
    special_args = { axis = 0 },
    large = { { { 1100, 1000 }, args = { axis = 1 } } },
    bad = { { { { 2 } }, { 'f32' }, { axis = 1 }, EAXIS },
      { { {} }, { 'f32' }, { axis = 0 }, EAXIS },
      { { { 3, 0 } }, { 'f32' }, { axis = 1 }, EARG } },
  }
end

cases.cumsum = {
  call = function(C, t, a, out)
    local struct = ffi.new('int32_t[2]', a.axis, a.reverse and 1 or 0)
    local list = ffi.new('const rg_tensor *[1]', { t[1] })
    return C.rg_op_call(tensors.index_of 'cumsum', list, 1, struct, nil, out)
  end,
  reference = reference.cumsum,
  samples = { { { 5 }, args = { axis = 0 } }, { { 1 }, args = { axis = -1 } },
    { { 2, 3 }, args = { axis = 1, reverse = true } }, { { 3, 7 }, args = { axis = 0 } },
    { { 3, 7 }, args = { axis = 0, reverse = true } }, { { 2, 3, 4 }, args = { axis = 1 } },
    { { 0, 3 }, args = { axis = 1 } }, { { 3, 0 }, args = { axis = 1 } },
    { { 3, 5, 1 }, args = { axis = 2 } }, { { 33 }, args = { axis = 0 } },
    { { 2, 1100 }, args = { axis = 1 } }, { { 2, 1100 }, args = { axis = 1, reverse = true } },
    { { 3, 1100 }, args = { axis = 0 } }, { { 70, 40 }, args = { axis = 0, reverse = true } },
    { { 300, 64 }, args = { axis = 1 }, only = 'f32' } }, -- several pieces of work
  dtypes = ALL, ulps = 2,
  special = { 1, -0, 2, -INF, 3, INF, 1, NAN },
  special_args = { axis = 0 },
  large = { { { 1100, 1000 }, args = { axis = 1 } }, { { 1100, 1000 }, args = { axis = 0 } } },
  bad = { { { { 2 } }, { 'f32' }, { axis = 1 }, EAXIS }, { { {} }, { 'f32' }, { axis = 0 }, EAXIS },
    { { { 2 } }, { 'f8e4m3' }, { axis = 0 }, EDTYPE } },
}

cases.cumprod = {}
for key, value in pairs(cases.cumsum) do cases.cumprod[key] = value end
cases.cumprod.call = function(C, t, a, out)
  local struct = ffi.new('int32_t[2]', a.axis, a.reverse and 1 or 0)
  return C.rg_op_call(tensors.index_of 'cumprod', ffi.new('const rg_tensor *[1]', { t[1] }), 1,
    struct, nil, out)
end
cases.cumprod.reference = reference.cumprod
-- of long ones products leave what a double holds of i64, and the range of half types
cases.cumprod.samples = {}
for _, sample in ipairs(cases.cumsum.samples) do
  local few = sample[1][sample.args.axis < 0 and #sample[1] or sample.args.axis + 1] <= 5
  cases.cumprod.samples[#cases.cumprod.samples + 1] = { sample[1], args = sample.args,
    only = sample.only or not few and 'f64' or nil }
end

cases.softmax = {
  call = function(C, t, a, out) return C.rg_softmax(t[1], a.axis, out) end,
  reference = reference.softmax,
  -- rows of numbers whose exponentials are too large or too small, and some of -inf
  prepare = function(list, sample)
    for i = 1, sample.args.far and #list[1] or 0 do
      local v = list[1][i] + (i <= 100 and 800 or -800)
      list[1][i] = i % 9 == 0 and -INF or reference.convert(v, list[1].dtype)
    end
  end,
  samples = { { { 5 }, args = { axis = 0 } }, { { 1 }, args = { axis = -1 } },
    { { 2, 3 }, args = { axis = 1 } }, { { 3, 7 }, args = { axis = 0 } },
    { { 2, 3, 4 }, args = { axis = 1 } }, { { 0, 3 }, args = { axis = 1 } },
    { { 3, 0 }, args = { axis = 1 } }, { { 2, 5000 }, args = { axis = 1 } },
    { { 40, 600 }, args = { axis = 0 } }, { { 3, 5, 1 }, args = { axis = 2 } },
    { { 3, 72 }, args = { axis = 1 } }, { { 4, 72 }, args = { axis = 1, far = true } },
    { { 1, 8208 }, args = { axis = 1, far = true } },
    -- kept, not in packs, too long in f64
    { { 2, 8200 }, args = { axis = 1 } }, { { 1, 8193 }, args = { axis = 1 } },
    { { 1, 30000 }, args = { axis = 1 } },
    { { 430, 40 }, args = { axis = 1 }, only = 'f32' } }, -- several pieces of work
  dtypes = FLOATS, ulps = 16,
  special = { 1, -INF, 2, 800, 799, -1e30 },
  special_args = { axis = 0 },
  large = { { { 600, 1000 }, args = { axis = 1 } }, { { 600, 1000 }, args = { axis = 0 } } },
  bad = { { { { 2 } }, { 'i32' }, { axis = 0 }, EDTYPE },
    { { { 2 } }, { 'f32' }, { axis = 1 }, EAXIS },
    { { {} }, { 'f32' }, { axis = 0 }, EAXIS } },
}

-- Choosing, answers.
dofile(HERE .. 'cases_choice.lua')(M, unary)
dofile(HERE .. 'cases_element.lua')(M, unary, binary, join)
-- The products.
dofile(HERE .. 'cases_product.lua')(M, join)
-- Images.
dofile(HERE .. 'cases_image.lua')(M)
dofile(HERE .. 'cases_train.lua')(M)
dofile(HERE .. 'cases_attention.lua')(M)
dofile(HERE .. 'cases_index.lua')(M)
dofile(HERE .. 'cases_resample.lua')(M)
dofile(HERE .. 'cases_quantize.lua')(M)

return M

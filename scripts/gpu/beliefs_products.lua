-- SPDX-License-Identifier: MIT
-- What products by cublasLt give: a part of beliefs.lua.

local ffi = require 'ffi'
local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local ref = require 'ridge.ffi.ref'

local belief = ... -- beliefs.lua
local lt = assert(loadfile(belief.here .. 'lt.lua'))()
belief.lt = lt
local probe, failed, look = belief.probe, belief.failed, belief.look
local tiny = belief.opt.tiny
local DEVICE = ridge.device.best()
local NAN = 0 / 0

-- Rows, inner size, columns. None of the tiny ones is 13 x 13, which the stand-in refuses.
local SHAPES = tiny and { { 16, 8, 16 }, { 9, 20, 6 }, { 4, 32, 8 } }
  or { { 128, 128, 128 }, { 256, 512, 384 }, { 64, 8192, 64 }, { 1000, 264, 72 },
    { 333, 130, 257 } }
local FLOATS = { 'f32', 'f16', 'bf16' }
local PAIRS = { { 'f32', 'f32' }, { 'f16', 'f16' }, { 'bf16', 'bf16' }, { 'f16', 'f32' },
  { 'bf16', 'f32' } }

-- -- Samples --------------------------------------------------------------------------------------

local function numbers(x) return ffi.cast('double *', x._t._data) end

-- Whole numbers in f64 on the CPU, low and high included.
local function whole(low, high, ...) return ridge.randint(low, high + 1, ...):to 'f64' end

-- Matrices [count x rows x cols] as they are asked to lie, on the device; what lies between is NaN.
-- o: type, ld, step, transposed, offset (elements before the first).
local function placed(x, rows, cols, count, o)
  local ld = o.ld or (o.transposed and rows or cols)
  local lines = o.transposed and cols or rows
  local step = o.step or lines * ld
  local offset = o.offset or 0
  local flat = ridge.full(NAN, offset + step * (count - 1) + lines * ld, { dtype = 'f64' })
  local from, to = numbers(x), numbers(flat) + offset
  for c = 0, step == 0 and 0 or count - 1 do
    for i = 0, rows - 1 do
      for j = 0, cols - 1 do
        to[c * step + (o.transposed and j * ld + i or i * ld + j)] = from[(c * rows + i) * cols + j]
      end
    end
  end
  return { tensor = flat:to(o.type):to(DEVICE), offset = offset * lt.SIZE[o.type], ld = ld,
    step = step, transposed = o.transposed }
end

-- A sample: factors, what is wanted, and the product. s: m, k, n, count, factor, result, ending,
-- scale, compute; a, b: how they lie; range of factors; still ('a', 'b': one for the whole batch);
-- nan (one in the second row); bias { from, offset in elements }.
local function sample(s)
  local count, result = s.count or 1, s.result or s.factor
  local range = s.range or { -2, 2 }
  local a = whole(range[1], range[2], s.still == 'a' and 1 or count, s.m, s.k)
  local b = whole(range[1], range[2], s.still == 'b' and 1 or count, s.k, s.n)
  if s.nan then numbers(a)[s.m > 1 and s.k or 0] = NAN end
  local sum = a:matmul(b)
  local bias, at = nil, nil
  if s.bias then
    bias = whole(-8, 8, s.n) * 0.5 + s.bias.from
    at = placed(bias, 1, s.n, 1, { type = result, offset = s.bias.offset })
  end
  local y = numbers(sum)
  local relu = s.ending == lt.RELU or s.ending == lt.RELU_BIAS
  for i = 0, count * s.m * s.n - 1 do
    local v = y[i] * (s.scale or 1) + (bias and numbers(bias)[i % s.n] or 0)
    y[i] = relu and v < 0 and 0 or v
  end
  local function lie(given, still)
    local o = { type = s.factor, step = still and 0 or nil }
    for k, v in pairs(given or {}) do o[k] = v end
    return o
  end
  local c = ridge.full(NAN, count * s.m * s.n, { dtype = result, device = DEVICE })
  return { wanted = sum:to(result):to 'f64', c = c, about = s,
    product = lt.product { m = s.m, k = s.k, n = s.n, count = count, factor = s.factor,
      result = result, a = placed(a, s.m, s.k, count, lie(s.a, s.still == 'a')),
      b = placed(b, s.k, s.n, count, lie(s.b, s.still == 'b')), c = c, bias = at,
      ending = s.ending, scale = s.scale, compute = s.compute } }
end

local function name_of(s)
  return ('%s to %s, %d x %d x %d'):format(s.factor, s.result or s.factor, s.m, s.k, s.n)
end

-- Run a sample's product by an algorithm into what was NaN; the first difference, or nil.
local function differs(x, algo)
  x.c:fill_(NAN)
  lt.wait()
  local status = x.product:run(algo.algo)
  lt.wait()
  if status ~= 0 then return nil, status end
  local got = x.c:to 'cpu':to 'f64'
  local y, w = numbers(got), numbers(x.wanted)
  for i = 0, x.wanted.count - 1 do
    if y[i] ~= w[i] and not (y[i] ~= y[i] and w[i] ~= w[i]) then
      return ('element %d is %.9g, not %.9g'):format(i, y[i], w[i])
    end
  end
end

-- Every algorithm of a sample gives what is wanted; how many there are.
local function all_right(s, ask)
  local x = sample(s)
  local list, status = x.product:ask(ask)
  local n = 0
  if #list == 0 then failed('%s: no algorithm (status %d)', name_of(s), status) end
  for _, algo in ipairs(list) do
    local wrong, refused = differs(x, algo)
    if wrong then
      failed('%s, algorithm %d, scheme %d: %s', name_of(s), algo.id, algo.scheme, wrong)
    end
    if not refused then n = n + 1 end
  end
  if n == 0 then failed('%s: none of %d algorithms runs', name_of(s), #list) end
  return n, x
end

-- The same of many samples; the facts.
local function each(samples)
  local n = 0
  for _, s in ipairs(samples) do n = n + all_right(s, s.ask) end
  return ('%d products, %d runs of algorithms'):format(#samples, n)
end

-- Samples of all shapes with each of some tables of more.
local function over(shapes, ...)
  local list = { {} }
  local function times(more)
    local product = {}
    for _, x in ipairs(list) do
      for _, y in ipairs(more) do
        local z = {}
        for k, v in pairs(x) do z[k] = v end
        for k, v in pairs(y) do z[k] = v end
        product[#product + 1] = z
      end
    end
    list = product
  end
  local sizes = {}
  for i, s in ipairs(shapes) do sizes[i] = { m = s[1], k = s[2], n = s[3] } end
  times(sizes)
  for _, more in ipairs { ... } do times(more) end
  return list
end

local TYPES, HALVES_TOO = {}, {}
for i, t in ipairs(FLOATS) do TYPES[i] = { factor = t } end
for i, t in ipairs(PAIRS) do HALVES_TOO[i] = { factor = t[1], result = t[2] } end

-- -- Through ridge --------------------------------------------------------------------------------

-- f's result, which must have come by cublasLt.
local function by_library(what, f)
  local y
  local p = ridge.profile(function() y = f() end)
  for _, o in ipairs(p.operations) do
    if o.path == 'cublasLt' then return y end
  end
  failed('%s was not done by cublasLt', what)
end
belief.by_library = by_library

local function op(f, ...)
  if f(...) ~= 0 then error(ffi.string(C.rg_error_message()), 2) end
  return ref.wrap(ref.slot[0])
end

local function linear(x, w, b, act)
  return op(C.rg_linear, x._t, w._t, b and b._t or nil, act, ref.slot)
end

-- f of tensors in a type on the device gives, by cublasLt, what it gives on the CPU in f64. units:
-- of the last place of the largest; sums of n terms in f32 are n of them off at most.
local function ridge_gives(what, dtype, units, tensors, f)
  local here, there = {}, {}
  for i, x in ipairs(tensors) do
    local rounded = x:to(dtype)
    here[i], there[i] = rounded:to 'f64', rounded:to(DEVICE)
  end
  local wanted = f(unpack(here))
  local y = by_library(what, function() return f(unpack(there)) end):to 'cpu':to 'f64'
  local far = (y - wanted):abs():max():item() / math.max(1e-30, wanted:abs():max():item())
  local unit = ({ f32 = 2 ^ -23, f64 = 2 ^ -52, f16 = 2 ^ -10, bf16 = 2 ^ -7 })[dtype]
  if not (far <= units * unit) then failed('%s in %s by ridge is %.3g off', what, dtype, far) end
  return y
end

local NONE, RELU, GELU = 0, 1, 2

-- -- Probes ---------------------------------------------------------------------------------------

probe('relu-nan', function()
  local said = each(over(SHAPES, HALVES_TOO,
    { { nan = true, ending = lt.RELU },
      { nan = true, ending = lt.RELU_BIAS, bias = { from = 0 } } }))
  local x = ridge.tensor { { NAN, 1, 1, 1 }, { 1, -1, 1, -1 } }
  local y = by_library('linear with relu', function()
    local w = ridge.tensor { { 1, 0, 0, 0 }, { 0, 1, 0, 0 }, { 0, 0, 1, 0 }, { 0, 0, 0, 1 } }
    return linear(x:to(DEVICE), w:to(DEVICE), ridge.zeros(4, { device = DEVICE }), RELU)
  end):to 'cpu'
  if y:get(1, 1) == y:get(1, 1) or y:get(2, 2) ~= 0 then
    failed('by ridge: relu(nan) is %g, relu(-1) is %g', y:get(1, 1), y:get(2, 2))
  end
  return said
end)

-- Products of factors that are all one number: the largest relative distance from a value, over
-- every algorithm; how many algorithms, how many of them further than `much`.
local function constant(shapes, v, compute, value, much)
  local worst, n, rounded = 0, 0, 0
  for _, s in ipairs(shapes) do
    local m, k, cols = s[1], s[2], s[3]
    local c = ridge.zeros(m * cols, { device = DEVICE })
    local p = lt.product { m = m, k = k, n = cols, factor = 'f32', result = 'f32',
      a = ridge.full(v, m, k, { device = DEVICE }), b = ridge.full(v, k, cols, { device = DEVICE }),
      c = c, compute = compute }
    local list, status = p:ask { schemes = lt.IN_SUMS + lt.INPLACE }
    if #list == 0 then failed('%d x %d x %d: no algorithm (status %d)', m, k, cols, status) end
    for _, algo in ipairs(list) do
      c:fill_(NAN)
      lt.wait()
      if p:run(algo.algo) == 0 then
        lt.wait()
        local far = (c:to 'cpu':to 'f64' * (1 / (k * value)) - 1):abs():max():item()
        if far ~= far then failed('algorithm %d leaves NaN', algo.id) end
        worst, n = math.max(worst, far), n + 1
        if far > much then rounded = rounded + 1 end
      end
    end
  end
  return worst, n, rounded
end

-- Sums in f32 of k terms one after the other are off by k 2^-24 at most.
local THIN = tiny and { { 16, 8, 16 }, { 9, 16, 6 } }
  or { { 128, 16, 128 }, { 512, 16, 512 }, { 64, 16, 2048 } }
local DEEP = tiny and { { 8, 64, 8 } } or { { 64, 1024, 64 }, { 512, 512, 512 }, { 1000, 264, 72 } }

probe('f32-whole', function()
  local v = 1 + 2 ^ -12
  local thin, n = constant(THIN, v, lt.AS_F32, v * v, 1)
  if thin > 2 ^ -20 then failed('sums of 16 terms are %.3g off (tf32: 4.9e-4)', thin) end
  local deep, more = constant(DEEP, v, lt.AS_F32, v * v, 1)
  if deep > 2 ^ -14 then failed('sums of up to 1024 terms are %.3g off (tf32: 4.9e-4)', deep) end
  for _, s in ipairs(THIN) do
    ridge_gives('matmul', 'f32', 16, { ridge.full(v, s[1], s[2]), ridge.full(v, s[2], s[3]) },
      function(x, y) return x:matmul(y) end)
  end
  return ('%d algorithms, at most %.2g off'):format(n + more, math.max(thin, deep))
end)

probe('tf32-bits', function()
  local ten = 1 + 2 ^ -10
  local far = constant(THIN, ten, lt.AS_TF32, ten * ten, 1)
  -- tensor cores cut off what they add; factors of 9 bits would be 2^-9 off
  if far > 2 ^ -16 then failed('factors of 10 bits are rounded: %.3g off', far) end
  local v = 1 + 2 ^ -12
  local worst, n, rounded = constant(THIN, v, lt.AS_TF32, v * v, 2 ^ -16)
  if worst > 2 ^ -10 then failed('factors of 12 bits give results that are %.3g off', worst) end
  C.rg_device_modes_now().tf32 = 1
  ridge_gives('matmul with tf32', 'f32', 128, { ridge.full(ten, 16, 16), ridge.full(ten, 16, 16) },
    function(x, y) return x:matmul(y) end)
  return ('%d of %d algorithms round'):format(rounded, n)
end)

-- Factors of 8 bits: their products want 16, sums of 256 of them 24.
probe('half-to-f32', function()
  local small = {}
  for _, s in ipairs(SHAPES) do
    small[#small + 1] = { s[1], math.min(s[2], 256), s[3] }
  end
  local said = each(over(small, { { factor = 'f16', result = 'f32' },
    { factor = 'bf16', result = 'f32' } }, { { range = { 100, 255 } } }))
  for _, dtype in ipairs { 'f16', 'bf16' } do
    ridge_gives('linear with gelu', dtype, 2,
      { ridge.randn(16, 32), ridge.randn(8, 32), ridge.randn(8) },
      function(x, w, b) return linear(x, w, b, GELU) end)
  end
  return said
end)

local function with_bias(offset)
  return { { ending = lt.BIAS, bias = { from = 0, offset = offset } },
    { ending = lt.RELU_BIAS, bias = { from = 0, offset = offset } } }
end

probe('bias-type', function()
  local said = each(over(SHAPES, HALVES_TOO, with_bias(0)))
  -- a bias in f32 that no half type holds
  each(over(SHAPES, { { factor = 'f16', result = 'f32' }, { factor = 'bf16', result = 'f32' } },
    { { ending = lt.BIAS, bias = { from = 300 + 2 ^ -12 } } }))
  for _, dtype in ipairs(FLOATS) do
    ridge_gives('linear with bias and relu', dtype, dtype == 'f32' and 32 or 2,
      { ridge.randn(16, 32), ridge.randn(8, 32), ridge.randn(8) },
      function(x, w, b) return linear(x, w, b, RELU) end)
  end
  return said
end)

probe('bias-address', function()
  local list = {}
  for _, t in ipairs(PAIRS) do
    local here = over(SHAPES, { { factor = t[1], result = t[2] } },
      with_bias(16 / lt.SIZE[t[2]]))
    for _, s in ipairs(here) do list[#list + 1] = s end
  end
  return each(list)
end)

probe('alpha-bias', function()
  local said = each(over(SHAPES, HALVES_TOO, with_bias(0), { { scale = 0.5 }, { scale = -2 } }))
  local terms = 2
  ridge_gives('sketched linear with a bias', 'f32', 32,
    { ridge.randn(16, 32), ridge.randn(32, 8), ridge.randn(8, 24), ridge.randn(24) + 100 },
    function(x, v, u, b)
      return op(C.rg_sketched_linear, x._t, v._t, u._t, b._t, terms, NONE, 0, nil, ref.slot)
    end)
  return said
end)

probe('f64-endings', function()
  local said = each(over(SHAPES, { { factor = 'f64' } }))
  ridge_gives('linear', 'f64', 64, { ridge.randn(16, 32), ridge.randn(8, 32), ridge.randn(8) },
    function(x, w, b) return linear(x, w, b, NONE) end)
  local s = { m = 16, k = 32, n = 8, factor = 'f64', ending = lt.BIAS, bias = { from = 0 } }
  local list = sample(s).product:ask()
  if #list > 0 then
    look('a bias in f64 has %d algorithms: it could be taken (%s)', #list, said)
  end
  return said
end)

probe('step-0', function()
  local said = each(over(SHAPES, HALVES_TOO,
    { { count = 5, still = 'a' }, { count = 5, still = 'b' } }))
  for _, dtype in ipairs(FLOATS) do
    ridge_gives('one left factor', dtype, 16, { ridge.randn(4, 16), ridge.randn(5, 16, 8) },
      function(x, y) return x:matmul(y) end)
  end
  return said
end)

-- Lines that are longer than the matrix by an odd number, beginning anywhere.
probe('any-lines', function()
  local list = {}
  for _, s in ipairs(over(SHAPES, HALVES_TOO)) do
    for ways = 0, 3 do
      local z = {}
      for k, v in pairs(s) do z[k] = v end
      local a, b = ways % 2 == 1, ways >= 2
      z.a = { transposed = a, ld = (a and s.m or s.k) + (s.k % 2 == 0 and 3 or 4), offset = 1 }
      z.b = { transposed = b, ld = (b and s.k or s.n) + 7, offset = 3 }
      list[#list + 1] = z
    end
  end
  local said = each(list)
  for _, dtype in ipairs(FLOATS) do
    ridge_gives('narrowed factors', dtype, 16, { ridge.randn(9, 24), ridge.randn(24, 31) },
      function(x, y) return x:narrow(2, 2, 11):matmul(y:narrow(1, 3, 11):narrow(2, 4, 7)) end)
  end
  return said
end)

probe('sizes-1', function()
  local m, k, n = unpack(tiny and { 9, 20, 6 } or { 333, 520, 257 })
  local said = each(over({ { 1, k, n }, { m, k, 1 }, { m, 1, n }, { 1, k, 1 }, { 1, 1, n },
    { m, 1, 1 }, { 1, 1, 1 } }, HALVES_TOO))
  ridge_gives('a vector', 'f32', 32, { ridge.randn(32), ridge.randn(32, 8) },
    function(x, y) return x:matmul(y) end)
  return said
end)

-- All samples begin with NaN in c; here also with every scheme of adding up, in a workspace of NaN.
probe('beta-0', function()
  local room = ridge.full(NAN, 32 * 2 ^ 20 / 4, { device = DEVICE })
  lt.wait()
  local split = 0
  local samples = over(SHAPES, TYPES)
  for _, s in ipairs(samples) do
    s.ask = { schemes = s.factor == 'f32' and lt.IN_SUMS + lt.INPLACE or lt.IN_SUMS }
    local _, x = all_right(s, s.ask)
    for _, algo in ipairs(x.product:ask(s.ask)) do
      if algo.scheme == lt.INPLACE then split = split + 1 end
      x.product.at = lt.address(room)
      local wrong = differs(x, algo)
      if wrong then failed('%s, a workspace of nan: %s', name_of(s), wrong) end
    end
  end
  if split == 0 then return 'no algorithm adds in place here' end
  return ('%d products, %d algorithms add in place'):format(#samples, split)
end)

belief.sample, belief.differs, belief.over, belief.SHAPES = sample, differs, over, SHAPES
belief.TYPES, belief.name_of = TYPES, name_of

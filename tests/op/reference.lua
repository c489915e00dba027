-- SPDX-License-Identifier: MIT
-- reference: what every operation means, in plain loops over Lua numbers.
--
-- A tensor here is a table: its elements in row-major order at 1, 2, ..., `shape` (a list of sizes)
-- and `dtype`.  A function takes the inputs (a list of tensors) and the arguments (a table) and
-- returns the results.  A result may carry `magnitude`, for each element the size of what was added
-- up, by which rounding errors are judged.  Random operations read `args.seed` and `args.offset`.

local ffi = require 'ffi'

local HERE = debug.getinfo(1, 'S').source:match('^@(.*/)') or './'

local M = {}

local INF, NAN = math.huge, 0 / 0

-- LuaJIT compiles x ^ y, once it has met a y that is no whole number, as 2 ^ (y log2 x), which is
-- some units in the last place off.
ffi.cdef [[
double pow(double, double); double fmod(double, double); double atan2(double, double);
double exp2(double); double expm1(double); double log2(double);
double asinh(double); double acosh(double); double atanh(double);
]]
local pow, expm1 = ffi.C.pow, ffi.C.expm1

-- -- Tensors -------------------------------------------------------------------------------------

local RANK = { bool = 0, u8 = 1, i8 = 1, i32 = 2, i64 = 3, f16 = 4, bf16 = 4, f32 = 5, f64 = 6 }
local FLOAT = { f32 = true, f64 = true, f16 = true, bf16 = true }

--- The type two types meet at.
function M.promote(a, b)
  if a == b then return a end
  if RANK[a] == RANK[b] then return FLOAT[a] and 'f32' or 'i32' end
  return RANK[a] > RANK[b] and a or b
end

--- The number of elements of a shape.
function M.count(shape)
  local n = 1
  for _, size in ipairs(shape) do n = n * size end
  return n
end

--- A tensor without elements yet.
function M.new(shape, dtype)
  return { shape = shape, dtype = dtype }
end

--- Call f with every index (a list, from 0) of a shape, in row-major order.
local function each(shape, f)
  local index = {}
  for i = 1, #shape do index[i] = 0 end
  for _ = 1, M.count(shape) do
    f(index)
    for i = #shape, 1, -1 do
      index[i] = index[i] + 1
      if index[i] < shape[i] then break end
      index[i] = 0
    end
  end
end

-- Where the element at an index lies, from 0.
local function offset_of(shape, index)
  local offset = 0
  for i, size in ipairs(shape) do offset = offset * size + index[i] end
  return offset
end

--- The element of x at an index of a shape that x broadcasts to.
local function at(x, index)
  local offset, skip = 0, #index - #x.shape
  for i, size in ipairs(x.shape) do
    offset = offset * size + (size == 1 and 0 or index[i + skip])
  end
  return x[offset + 1]
end

--- The shape two shapes broadcast to.
local function broadcast(a, b)
  local shape, n = {}, math.max(#a, #b)
  for i = 1, n do
    local p, q = a[i - n + #a] or 1, b[i - n + #b] or 1
    shape[i] = p == 1 and q or p
  end
  return shape
end

-- -- Conversion ---------------------------------------------------------------------------------

local LOW = { i64 = -2 ^ 63, i32 = -2 ^ 31, i8 = -128, u8 = 0 }
local HIGH = { i64 = 2 ^ 63, i32 = 2 ^ 31 - 1, i8 = 127, u8 = 255 }
local BITS = { i32 = 32, i8 = 8, u8 = 8 } -- i64 is beyond what a Lua number holds

-- To the nearest number with so many significant bits and no finer than 2^least; ties to even.
-- over: what is behind the largest.
local function round_to(v, bits, least, largest, over)
  if v == 0 or v ~= v then return v end
  if v == INF or v == -INF then return v > 0 and over or -over end
  local _, e = math.frexp(v)
  local unit = 2 ^ math.max(e - bits, least)
  local q = v / unit
  local r = math.floor(q)
  local rest = q - r
  if rest > 0.5 or rest == 0.5 and r % 2 == 1 then r = r + 1 end
  v = r * unit
  if v > largest then return over end
  if v < -largest then return -over end
  return v
end

local single = ffi.new 'float[1]'

--- A number as an element of a type: floats rounded, integers truncated and saturated, nan to 0.
function M.convert(v, dtype)
  if dtype == 'f64' then return v end
  if dtype == 'f32' then
    single[0] = v
    return single[0]
  end
  if dtype == 'f16' then return round_to(v, 11, -24, 65504, INF) end
  if dtype == 'bf16' then return round_to(v, 8, -133, 0x1.fep127, INF) end
  if dtype == 'f8e4m3' then return round_to(v, 4, -9, 448, NAN) end
  if dtype == 'f8e5m2' then return round_to(v, 3, -16, 57344, INF) end
  if dtype == 'bool' then return v == 0 and 0 or 1 end
  if v ~= v then return 0 end
  v = v < 0 and math.ceil(v) or math.floor(v)
  return math.max(LOW[dtype], math.min(HIGH[dtype], v)) + 0
end

-- What is left of an integer beyond its type: it wraps around.
local function wrap(v, dtype)
  local bits = BITS[dtype]
  if not bits then return v end
  v = v % 2 ^ bits
  return dtype ~= 'u8' and v >= 2 ^ (bits - 1) and v - 2 ^ bits or v
end

-- -- Unary elementwise functions ------------------------------------------------------------------

-- Error function: below 2.5 a series of positive terms (Abramowitz and Stegun 7.1.6; Maclaurin's
-- alternates, and loses digits), above it the continued fraction of its complement.
local function erf(x)
  if x ~= x then return x end
  local a = math.abs(x)
  local y
  if a > 6.5 then
    y = 1
  elseif a < 2.5 then
    local term, sum = a, a
    for n = 1, 60 do
      term = term * (2 * a * a) / (2 * n + 1)
      sum = sum + term
    end
    local high = math.floor(a * 2 ^ 20) / 2 ^ 20 -- its square is exact
    y = 2 / math.sqrt(math.pi) * math.exp(-high * high) * math.exp(-(a - high) * (a + high)) * sum
  else
    local f = 0
    for k = 120, 1, -1 do f = k / 2 / (a + f) end
    y = 1 - math.exp(-a * a) / math.sqrt(math.pi) / (a + f)
  end
  return x < 0 and -y or y
end

-- log(1 + x) for small x too (Higham, Accuracy and Stability, 1.14.1).
local function log1p(x)
  local u = 1 + x
  if u == 1 then return x end
  return u == INF and INF or math.log(u) * x / (u - 1)
end

local function round_even(x)
  local r = math.floor(x)
  local rest = x - r
  if rest ~= rest then return x end
  return (rest > 0.5 or rest == 0.5 and r % 2 == 1) and r + 1 or r
end

local function sigmoid(x) return 1 / (1 + math.exp(-x)) end

--- The functions themselves.
M.unary = {
  neg = function(x) return -x end,
  abs = math.abs,
  sign = function(x) return x > 0 and 1 or x < 0 and -1 or x == 0 and 0 or x end,
  square = function(x) return x * x end,
  relu = function(x) return x < 0 and 0 or x end,
  floor = math.floor,
  ceil = math.ceil,
  round = round_even,
  sqrt = function(x) return x < 0 and NAN or math.sqrt(x) end,
  rsqrt = function(x) return x < 0 and NAN or 1 / math.sqrt(x) end,
  reciprocal = function(x) return 1 / x end,
  exp = math.exp,
  log = function(x) return x < 0 and NAN or math.log(x) end,
  log1p = function(x) return x < -1 and NAN or log1p(x) end,
  sin = math.sin,
  cos = math.cos,
  tanh = math.tanh,
  erf = erf,
  sigmoid = sigmoid,
  gelu = function(x) return x * (1 + erf(x / math.sqrt(2))) / 2 end,
  silu = function(x) return x * sigmoid(x) end,
  softplus = function(x) return math.max(x, 0) + log1p(math.exp(-math.abs(x))) end,
  trunc = function(x) return x < 0 and math.ceil(x) or math.floor(x) end,
  exp2 = function(x) return ffi.C.exp2(x) end,
  expm1 = function(x) return expm1(x) end,
  log2 = function(x) return x < 0 and NAN or ffi.C.log2(x) end,
  tan = math.tan, asin = math.asin, acos = math.acos, atan = math.atan, sinh = math.sinh,
  cosh = math.cosh,
  asinh = function(x) return ffi.C.asinh(x) end,
  acosh = function(x) return ffi.C.acosh(x) end,
  atanh = function(x) return ffi.C.atanh(x) end,
  selu = function(x)
    local scale, alpha = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
    return x < 0 and scale * alpha * expm1(x) or scale * x
  end,
  mish = function(x)
    local e = math.exp(-math.abs(x)) -- tanh(log(1 + e^x)), multiplied out
    if x < 0 then return x * (e * e + 2 * e) / (e * e + 2 * e + 2) end
    return x * ((1 + 2 * e) / (1 + 2 * e + 2 * e * e))
  end,
  softsign = function(x) return x / (1 + math.abs(x)) end,
  hardsigmoid = function(x) return x < -3 and 0 or x > 3 and 1 or (x + 3) / 6 end,
  hardswish = function(x) return x * (x < -3 and 0 or x > 3 and 1 or (x + 3) / 6) end,
  relu6 = function(x) return x < 0 and 0 or x > 6 and 6 or x end,
}

local EXACT = { neg = true, abs = true, sign = true, square = true, relu = true, floor = true,
  ceil = true, round = true, trunc = true, relu6 = true }

for name, f in pairs(M.unary) do
  M[name] = function(inputs)
    local x = inputs[1]
    local y = M.new(x.shape, (EXACT[name] or FLOAT[x.dtype]) and x.dtype or 'f32')
    for i = 1, M.count(x.shape) do y[i] = wrap(f(x[i]), y.dtype) end
    if name == 'gelu' then -- 1 + erf cancels for negative x
      y.magnitude = {}
      for i = 1, M.count(x.shape) do y.magnitude[i] = math.abs(x[i]) end
    end
    return { y }
  end
end

-- -- Binary elementwise functions -----------------------------------------------------------------

local function truth(condition) return condition and 1 or 0 end

local function power(x, y)
  if y == 0 or x == 1 then return 1 end
  if x ~= x or y ~= y then return NAN end
  return pow(x, y)
end

--- The functions themselves; nan ~= nan finds nan.
M.binary = {
  add = function(x, y) return x + y end,
  sub = function(x, y) return x - y end,
  mul = function(x, y) return x * y end,
  div = function(x, y) return x / y end,
  pow = power,
  maximum = function(x, y) return x ~= x and x or y ~= y and y or math.max(x, y) end,
  minimum = function(x, y) return x ~= x and x or y ~= y and y or math.min(x, y) end,
  fmod = function(x, y, whole) return whole and y == 0 and 0 or ffi.C.fmod(x, y) end,
  remainder = function(x, y, whole)
    if whole then return y == 0 and 0 or x % y end
    local r = ffi.C.fmod(x, y) -- exact, which Lua's own % is not
    return r ~= 0 and (r < 0) ~= (y < 0) and r + y or r
  end,
  -- of floats as torch.floor_divide: a quotient that is rounded up to a whole number is none
  floor_divide = function(x, y, whole)
    if y == 0 then return whole and 0 or x / y end
    local r = ffi.C.fmod(x, y)
    return round_even((x - r) / y) - truth(r ~= 0 and (r < 0) ~= (y < 0))
  end,
  trunc_divide = function(x, y, whole, dtype) -- of the quotient as it is rounded, as torch.div
    if y == 0 and whole then return 0 end
    return M.unary.trunc(whole and x / y or M.convert(x / y, dtype == 'f64' and 'f64' or 'f32'))
  end,
  atan2 = function(x, y) return ffi.C.atan2(x, y) end,
  prelu = function(x, y) return x < 0 and x * y or x end,
  elu = function(x, y) return x < 0 and y * expm1(x) or x end,
  celu = function(x, y) return x < 0 and y * expm1(x / y) or x end,
  threshold = function(x, y) return x <= y and 0 or x end,
  eq = function(x, y) return truth(x == y) end,
  ne = function(x, y) return truth(x ~= y) end,
  lt = function(x, y) return truth(x < y) end,
  le = function(x, y) return truth(x <= y) end,
  gt = function(x, y) return truth(x > y) end,
  ge = function(x, y) return truth(x >= y) end,
  logical_and = function(x, y) return truth(x ~= 0 and y ~= 0) end,
  logical_or = function(x, y) return truth(x ~= 0 or y ~= 0) end,
  logical_xor = function(x, y) return truth((x ~= 0) ~= (y ~= 0)) end,
}

local RATIO = { div = true, pow = true, atan2 = true, prelu = true, elu = true, celu = true,
  threshold = true }
local COMPARE = { eq = true, ne = true, lt = true, le = true, gt = true, ge = true,
  logical_and = true, logical_or = true, logical_xor = true }

-- The type a tensor and a number meet at: a fraction makes integers f32.
local function with_number(dtype, value, name)
  if FLOAT[dtype] then return dtype end
  if RATIO[name] then return 'f32' end
  if value ~= math.floor(value) then return COMPARE[name] and 'f64' or 'f32' end
  if COMPARE[name] then return M.convert(value, dtype) == value and dtype or 'f64' end
  return dtype == 'bool' and 'i64' or dtype
end

for name, f in pairs(M.binary) do
  -- args.value: a number in the second place, or in the first if args.reversed
  M[name] = function(inputs, args)
    local x, y = inputs[1], inputs[2]
    local dtype
    if args.value then
      dtype = with_number(x.dtype, args.value, name)
      y = { M.convert(args.value, dtype), shape = {}, dtype = dtype }
    else
      dtype = M.promote(x.dtype, y.dtype)
    end
    if RATIO[name] and not FLOAT[dtype] then dtype = 'f32' end
    if args.reversed then x, y = y, x end
    local z = M.new(broadcast(x.shape, y.shape), COMPARE[name] and 'bool' or dtype)
    each(z.shape, function(index)
      local v = f(at(x, index), at(y, index), not FLOAT[dtype], dtype)
      if dtype == 'bool' then v = truth(v ~= 0) end -- true + true is true
      z[#z + 1] = wrap(v, dtype)
    end)
    return { z }
  end
end

-- -- Making, copying, converting ----------------------------------------------------------------

--- Every element the same number.
function M.fill(inputs, args)
  local y = M.new(inputs[1].shape, inputs[1].dtype)
  for i = 1, M.count(y.shape) do y[i] = M.convert(args.value, y.dtype) end
  return { y }
end

--- start, start + step, ...
function M.arange(inputs, args)
  local y = M.new(inputs[1].shape, inputs[1].dtype)
  for i = 1, M.count(y.shape) do y[i] = M.convert(args.start + (i - 1) * args.step, y.dtype) end
  return { y }
end

--- The second input, broadcast to the first one's shape and converted to its type.
function M.copy(inputs)
  local x, y = inputs[1], inputs[2]
  local z = M.new(x.shape, x.dtype)
  each(z.shape, function(index) z[#z + 1] = M.convert(at(y, index), z.dtype) end)
  return { z }
end

function M.cast(inputs, args)
  local y = M.new(inputs[1].shape, args.dtype)
  for i = 1, M.count(y.shape) do y[i] = M.convert(inputs[1][i], y.dtype) end
  return { y }
end

--- Joined along args.axis, which counts from 0 or, negative, from the end.
function M.concat(inputs, args)
  local first = inputs[1]
  local axis = args.axis < 0 and args.axis + #first.shape + 1 or args.axis + 1
  local shape, dtype = { unpack(first.shape) }, first.dtype
  shape[axis] = 0
  for _, x in ipairs(inputs) do
    shape[axis] = shape[axis] + x.shape[axis]
    dtype = M.promote(dtype, x.dtype)
  end
  local y = M.new(shape, dtype)
  each(shape, function(index)
    local place = { unpack(index) }
    local i = 1
    while place[axis] >= inputs[i].shape[axis] do
      place[axis] = place[axis] - inputs[i].shape[axis]
      i = i + 1
    end
    y[#y + 1] = M.convert(at(inputs[i], place), dtype)
  end)
  return { y }
end

-- -- Reductions ---------------------------------------------------------------------------------

-- Call f with each index of the result and the list of elements that are reduced to it.
-- args.axes: a list from 0 or from the end, nil or empty for all; args.keep.
local function groups(x, args, f)
  local reduced, shape = {}, {}
  for _, axis in ipairs(args.axes or {}) do
    reduced[axis < 0 and axis + #x.shape + 1 or axis + 1] = true
  end
  if not next(reduced) then
    for i = 1, #x.shape do reduced[i] = true end
  end
  local outer, inner = {}, {}
  for i, size in ipairs(x.shape) do
    outer[i], inner[i] = reduced[i] and 1 or size, reduced[i] and size or 1
    if not reduced[i] or args.keep then shape[#shape + 1] = outer[i] end
  end
  local offsets = {}
  each(inner, function(index) offsets[#offsets + 1] = offset_of(x.shape, index) end)
  each(outer, function(index)
    local list, first = {}, offset_of(x.shape, index) + 1
    for i, offset in ipairs(offsets) do list[i] = x[first + offset] end
    f(list)
  end)
  return shape
end

local function reduction(f, dtype_of)
  return function(inputs, args)
    local x = inputs[1]
    local y = M.new(nil, dtype_of(x.dtype))
    y.magnitude = {}
    y.shape = groups(x, args, function(list)
      y[#y + 1], y.magnitude[#y + 1] = f(list, args)
    end)
    return { y }
  end
end

local function exact_or_i64(dtype) return FLOAT[dtype] and dtype or 'i64' end
local function exact_or_f32(dtype) return FLOAT[dtype] and dtype or 'f32' end
local function same(dtype) return dtype end

local function sum(list)
  local s, magnitude = 0, 0
  for _, v in ipairs(list) do s, magnitude = s + v, magnitude + math.abs(v) end
  return s, magnitude
end

local function extreme(better)
  return function(list)
    local best = list[1]
    for _, v in ipairs(list) do
      if best == best and (v ~= v or better(v, best)) then best = v end
    end
    return best
  end
end

M.sum = reduction(sum, exact_or_i64)
M.mean = reduction(function(list)
  local s, magnitude = sum(list)
  return s / #list, magnitude / #list
end, exact_or_f32)
M.prod = reduction(function(list)
  local p = 1
  for _, v in ipairs(list) do p = p * v end
  return p, math.abs(p) * #list
end, exact_or_i64)
M.max = reduction(extreme(function(a, b) return a > b end), same)
M.min = reduction(extreme(function(a, b) return a < b end), same)

--- (sum |x|^p)^(1/p); the largest |x| for p = infinity.
M.norm = reduction(function(list, args)
  local s, largest = 0, 0
  for _, v in ipairs(list) do
    largest = v ~= v and v or math.max(largest, math.abs(v))
  end
  if args.p == INF or largest == 0 or largest == INF or largest ~= largest then return largest end
  for _, v in ipairs(list) do s = s + pow(math.abs(v) / largest, args.p) end
  return largest * pow(s, 1 / args.p)
end, same)

-- The first position, from 0, of the best element along args.axis; nan wins.
local function position(better)
  return function(inputs, args)
    local y = M.new(nil, 'i64')
    y.shape = groups(inputs[1], { axes = { args.axis }, keep = args.keep }, function(list)
      local best = 1
      for i, v in ipairs(list) do
        local b = list[best]
        if b == b and (v ~= v or better(v, b)) then best = i end
      end
      y[#y + 1] = best - 1
    end)
    return { y }
  end
end

M.argmax = position(function(a, b) return a > b end)
M.argmin = position(function(a, b) return a < b end)

-- The largest of a row of x along an axis, and the sum of exp(x - largest). c is what the sum lost
-- by rounding (Kahan): the reference has to be better than the kernel.
local function softmax_row(x, place, axis)
  local m, s, c = -INF, 0, 0
  for i = 0, x.shape[axis] - 1 do
    place[axis] = i
    local v = at(x, place)
    m = v ~= v and v or m ~= m and m or math.max(m, v)
  end
  for i = 0, x.shape[axis] - 1 do
    place[axis] = i
    local term = math.exp(at(x, place) - m) - c
    local next_s = s + term
    c, s = (next_s - s) - term, next_s
  end
  return { m = m, s = s }
end

--- exp(x), scaled to sum to one along args.axis.
function M.softmax(inputs, args)
  local x = inputs[1]
  local axis = args.axis < 0 and args.axis + #x.shape + 1 or args.axis + 1
  local y, rows = M.new(x.shape, x.dtype), {}
  each(x.shape, function(index)
    local place = { unpack(index) }
    place[axis] = 0
    local key = table.concat(place, ',')
    local row = rows[key] or softmax_row(x, place, axis)
    rows[key] = row
    y[#y + 1] = math.exp(at(x, index) - row.m) / row.s
  end)
  return { y }
end

local function row_of(shape, from)
  local n = 1
  for i = from, #shape do n = n * shape[i] end
  return n
end

--- Rows of x by the numbers in args.index, whose shape is args.shape.
function M.take(inputs, args)
  local x = inputs[1]
  local shape, row = { unpack(args.shape) }, row_of(x.shape, 2)
  for i = 2, #x.shape do shape[#shape + 1] = x.shape[i] end
  local y = M.new(shape, x.dtype)
  for i, number in ipairs(args.index) do
    for k = 1, row do y[(i - 1) * row + k] = x[number * row + k] end
  end
  return { y }
end

--- Rows of dy added up at the numbers in args.index; a table of args.rows.
function M.take_back(inputs, args)
  local dy = inputs[1]
  local shape, row = { args.rows }, row_of(dy.shape, #args.shape + 1)
  for i = #args.shape + 1, #dy.shape do shape[#shape + 1] = dy.shape[i] end
  local dx = M.new(shape, dy.dtype)
  dx.magnitude = {}
  for i = 1, args.rows * row do dx[i], dx.magnitude[i] = 0, 0 end
  for i, number in ipairs(args.index) do
    for k = 1, row do
      local place, v = number * row + k, dy[(i - 1) * row + k]
      dx[place] = dx[place] + v
      dx.magnitude[place] = dx.magnitude[place] + math.abs(v)
    end
  end
  return { dx }
end

local TOOLS = { each = each, at = at, broadcast = broadcast, wrap = wrap }
for _, part in ipairs { 'random', 'product', 'image', 'train', 'attention', 'scan', 'choice',
    'index', 'resample', 'quantize' } do
  dofile(HERE .. 'reference_' .. part .. '.lua')(M, TOOLS)
end

return M

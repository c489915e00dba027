-- SPDX-License-Identifier: MIT
-- What is believed of products of 8-bit factors by cublasLt: a part of beliefs.lua.

local ffi = require 'ffi'
local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'

local belief = ... -- beliefs.lua
local lt = belief.lt
local probe, failed, look, missing = belief.probe, belief.failed, belief.look, belief.missing
local tiny = belief.opt.tiny
local DEVICE = 'cuda:0'

local function numbers(x) return ffi.cast('double *', x:to 'cpu':to 'f64'._t._data) end

-- y on the device against what is wanted, number by number.
local function same(y, wanted, what)
  local here, there = y:to 'cpu':to 'f64', wanted:to 'f64'
  local a, b = numbers(here), numbers(there)
  for i = 0, there.count - 1 do
    if a[i] ~= b[i] then failed('%s: element %d is %.9g, not %.9g', what, i, a[i], b[i]) end
  end
end

-- f's result and the way that scaled_linear took.
local function traced(f)
  local y, path
  for _, o in ipairs(ridge.profile(function() y = f() end).operations) do
    if o.op == 'scaled_linear' and o.device_ns then path = o.path end
  end
  return y, path
end

local function whole(most, ...) return ridge.randint(-most, most + 1, ...):to 'f64' end

local function needs_floats()
  local capability = ridge.device.facts(DEVICE).capability
  if tonumber(capability) < 8.9 then
    missing('8-bit floats are multiplied from capability 8.9 on; this is %s', capability)
  end
end

-- -- Whole numbers --------------------------------------------------------------------------------

probe('i8-shapes', function()
  local shapes = tiny and { { 16, 32, 16 }, { 1, 16, 4 }, { 17, 48, 12 } }
    or { { 128, 128, 128 }, { 1, 16, 4 }, { 1, 4096, 4096 }, { 17, 48, 12 }, { 1000, 272, 36 },
      { 333, 1040, 4 } }
  local one = ridge.ones(1, { device = DEVICE })
  for _, s in ipairs(shapes) do
    local m, k, n = unpack(s)
    local x, w = whole(127, m, k), whole(127, n, k)
    local tx, tw = x:to 'i8':to(DEVICE), w:to 'i8':to(DEVICE)
    local y, path = traced(function() return ridge.scaled_linear(tx, tw, one, one) end)
    local what = ('%d x %d x %d'):format(m, k, n)
    same(y, x:matmul(w:t()):to 'f32', what)
    if path ~= 'cublasLt' then look('%s goes by %s', what, path) end
  end
  return ('%d products'):format(#shapes)
end)

probe('i8-exact', function()
  local k = 131056 -- the most that fit, of -128 times -128, in whole sixteens
  local x = ridge.full(-128, 4, k):to 'i8':to(DEVICE)
  local one = ridge.ones(1, { device = DEVICE })
  local y, path = traced(function() return ridge.scaled_linear(x, x, one, one) end)
  same(y, ridge.full(k * 128 * 128, 4, 4, { dtype = 'f64' }), ('%d products by %s'):format(k, path))
  return ('%d products by %s'):format(k, path)
end)

-- -- 8-bit floats ---------------------------------------------------------------------------------

local PAIRS = { { 'f8e4m3', 'f8e4m3' }, { 'f8e4m3', 'f8e5m2' }, { 'f8e5m2', 'f8e4m3' } }

probe('f8-shapes', function()
  needs_floats()
  local m, k, n = 32, 64, 48
  for _, types in ipairs(PAIRS) do
    local x, w = whole(4, m, k), whole(4, n, k)
    local tx, tw = x:to(types[1]):to(DEVICE), w:to(types[2]):to(DEVICE)
    local two, half = ridge.full(2, 1):to(DEVICE), ridge.full(0.5, 1):to(DEVICE)
    for _, result in ipairs { 'f32', 'bf16', 'f16' } do
      local function f() return ridge.scaled_linear(tx, tw, two, half, { dtype = result }) end
      local what = ('%s times %s to %s'):format(types[1], types[2], result)
      local y, path = traced(f)
      same(y, x:matmul(w:t()):to(result), what)
      if path ~= 'cublasLt' then look('%s goes by %s', what, path) end
      -- scales are read when a graph is replayed
      local plan = ridge.capture(function() y = f() end)
      plan:run(2)
      two:fill_(4)
      plan:run(1)
      same(y, (x:matmul(w:t()) * 2):to(result), what .. ', other scales in a replay')
      two:fill_(2)
    end
  end
  return '3 pairs of types, 3 results, replayed'
end)

-- Straight through cublasLt, which ridge does not ask.
probe('f8-rows', function()
  needs_floats()
  local m, k, n = 17, 64, 32
  local a, b = whole(4, m, k), whole(4, n, k)
  local c = ridge.full(0 / 0, m, n, { device = DEVICE })
  local product = lt.product { m = m, k = k, n = n, factor = 'f8e4m3', result = 'f32',
    a = a:to 'f8e4m3':to(DEVICE), b = { tensor = b:to 'f8e4m3':to(DEVICE), transposed = true },
    c = c }
  local list, status = product:ask()
  if #list == 0 then return ('it has none for 17 rows (status %d)'):format(status) end
  local ran = product:run(list[1].algo)
  lt.wait()
  if ran ~= 0 then return ('17 rows do not run (status %d)'):format(ran) end
  same(c, a:matmul(b:t()), '17 rows')
  look '17 rows are taken as well: `fits` in gpu/scaled_blas.cu could ask for them'
end)

-- The largest error of sums of k products, in parts of the sum of magnitudes.
local function error_of(k)
  local m, n = 32, 32
  local x = (ridge.randn(m, k) * 16):to 'f8e4m3'
  local w = (ridge.randn(n, k) * 16):to 'f8e4m3'
  local one = ridge.ones(1, { device = DEVICE })
  local y = ridge.scaled_linear(x:to(DEVICE), w:to(DEVICE), one, one):to 'cpu':to 'f64'
  local wx, ww = x:to 'f64', w:to 'f64'
  return ((y - wx:matmul(ww:t())):abs() / wx:abs():matmul(ww:abs():t())):max():item()
end

probe('f8-sums', function()
  needs_floats()
  local BOUND = 2 ^ -20 -- sums of f32, in any order, are far below it
  local worst, at = 0, 0
  for _, k in ipairs(tiny and { 64, 256 } or { 64, 512, 2048, 8192 }) do
    local far = error_of(k)
    if far > worst then worst, at = far, k end
  end
  local facts = ('at most 2^%.1f of the magnitudes, at %d'):format(
    math.log(worst) / math.log(2), at)
  local before = C.rg_device_modes_now().vendor
  if worst > BOUND then
    C.rg_device_modes_now().vendor = 0
    local own = error_of(at)
    C.rg_device_modes_now().vendor = before
    failed('%s; widened to bf16 2^%.1f', facts, math.log(own) / math.log(2))
  end
  return facts
end)

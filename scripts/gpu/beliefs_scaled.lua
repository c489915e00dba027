-- SPDX-License-Identifier: MIT
-- What is believed of products of 8-bit factors by cublasLt: a part of beliefs.lua.

local ffi = require 'ffi'
local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'

local belief = ... -- beliefs.lua
local lt = belief.lt
local probe, failed, look, missing = belief.probe, belief.failed, belief.look, belief.missing
local tiny = belief.opt.tiny
local DEVICE = ridge.device.best()

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

probe('f8-rows', function()
  needs_floats()
  local k, n = 64, 32
  local b = whole(4, n, k)
  local tw, two = b:to 'f8e4m3':to(DEVICE), ridge.full(2, 1):to(DEVICE)
  for _, m in ipairs { 1, 2, 7, 17, 33 } do
    local a = whole(4, m, k)
    local y, path = traced(function()
      return ridge.scaled_linear(a:to 'f8e4m3':to(DEVICE), tw, two, two)
    end)
    same(y, a:matmul(b:t()) * 4, m .. ' rows')
    if path ~= 'cublasLt' then look('%d rows go by %s', m, path) end
  end
  return '1, 2, 7, 17 and 33 rows'
end)

-- Straight through cublasLt: the way of a call is the same whoever scales its sums.
probe('f8-vectors', function()
  needs_floats()
  local k, n = 64, 48
  local vectors = { 16, 17 }
  for _, m in ipairs(vectors) do
    local a, b = whole(4, m, k), whole(4, n, k)
    local one, other = whole(3, m) + 4, whole(3, n) + 4
    local wanted = a:matmul(b:t()) * one:reshape(m, 1) * other
    local scales = { one:to 'f32':to(DEVICE), other:to 'f32':to(DEVICE) }
    local ta, tb = a:to 'f8e4m3':to(DEVICE), b:to 'f8e4m3':to(DEVICE)
    for _, result in ipairs { 'f32', 'bf16', 'f16' } do
      local c = ridge.full(0 / 0, m, n, { device = DEVICE }):to(result)
      local ok, product = pcall(lt.product, { m = m, k = k, n = n, factor = 'f8e4m3',
        result = result, a = ta, b = { tensor = tb, transposed = true }, c = c,
        row_scales = scales })
      if not ok then missing('cublasLt %d: %s', lt.version(), product) end
      local what = ('%d rows to %s'):format(m, result)
      local list, status = product:ask()
      if #list == 0 then look('it has none for %s (status %d)', what, status) end
      for _, found in ipairs(list) do
        c:fill_(0 / 0)
        lt.wait()
        local ran = product:run(found.algo)
        lt.wait()
        if ran == 0 then same(c, wanted:to(result), what .. ', algorithm ' .. found.id) end
      end
    end
  end
  return '2 products, 3 results, every algorithm named'
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
  -- 2^-13.3 and 2^-12.6 on an H200, of other numbers; sums of f32 are far below 2^-20
  local BOUND, WIDENED = 2 ^ -11, 2 ^ -20
  local modes = C.rg_device_modes_now()
  local function worst_of(vendor)
    local worst, at = 0, 0
    local before = modes.vendor
    modes.vendor = vendor
    for _, k in ipairs(tiny and { 64, 256 } or { 64, 512, 2048, 8192 }) do
      local far = error_of(k)
      if far > worst then worst, at = far, k end
    end
    modes.vendor = before
    return worst, ('2^%.1f of the magnitudes, at %d'):format(math.log(worst) / math.log(2), at)
  end
  local worst, facts = worst_of(1)
  local own, own_facts = worst_of(0)
  facts = ('at most %s; widened to bf16 %s'):format(facts, own_facts)
  if worst > BOUND or own > WIDENED then failed('%s', facts) end
  return facts
end)

-- SPDX-License-Identifier: MIT
-- What is believed of cuDNN, whose engines compute the graphs that ridge builds: a part of
-- beliefs.lua.

local ffi = require 'ffi'
local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local nn = ridge.nn

local belief = ... -- beliefs.lua
local failed, look, missing = belief.failed, belief.look, belief.missing
local tiny = belief.opt.tiny
local modes = C.rg_device_modes_now()
local DEVICE = ridge.device.best()
local NAN = 0 / 0
local FLOATS, HALVES = { 'f32', 'f16', 'bf16' }, { 'f16', 'bf16' }

-- A probe that needs cuDNN.
local function probe(name, run)
  belief.probe(name, function()
    local libraries = ridge.device.libraries(DEVICE, true)
    if not libraries.cudnn then missing('cuDNN %s', libraries.why.cudnn or 'is not open') end
    return run(libraries.cudnn)
  end)
end

-- One that needs its gradients of attention, for any number of keys.
local function probe_gradients(name, run)
  probe(name, function(version)
    local major, minor = version:match '^(%d+)%.(%d+)'
    if major * 100 + minor < 916 then missing('cuDNN 9.16, this is %s', version) end
    return run(version)
  end)
end

-- f's result; every call of op in it must have been done by cuDNN.
local function by_dnn(what, op, f)
  local y
  local n = 0
  f() -- it plans what comes again
  for _, o in ipairs(ridge.profile(function() y = f() end).operations) do
    if o.op == op and o.path ~= 'cudnn' then
      failed('%s: %s went by %s: no engine was admitted, or none ran', what, op, o.path)
    end
    n = n + (o.op == op and 1 or 0)
  end
  if n == 0 then failed('%s: %s did not run', what, op) end
  return y
end

local function numbers(x) return ffi.cast('double *', x._t._data) end

local function whole(...) return ridge.randint(-2, 3, ...):to 'f64' end

-- To read: a NaN of a device may have bits that LuaJIT takes for another value than a number.
local function settled(x) return x:contiguous():reshape(x.count):tolist() end

-- The same bits, where a nan is like every other.
local function sure(what, got, wanted)
  local y, w = settled(got:to('cpu'):to 'f64'), settled(wanted)
  for i = 1, wanted.count do
    if y[i] ~= w[i] and not (y[i] ~= y[i] and w[i] ~= w[i]) then
      failed('%s: element %d is %.9g, not %.9g', what, i - 1, y[i], w[i])
    end
  end
end

local function leaf(x) return x:clone():requires_grad_() end

-- -- Convolution ----------------------------------------------------------------------------------

-- Images, channels in and out, rows, columns, side of the kernel.
local IMAGES = tiny and { { 2, 8, 16, 7, 6, 3 } }
  or { { 4, 16, 32, 28, 28, 3 }, { 2, 8, 24, 17, 19, 5 }, { 8, 64, 64, 14, 14, 1 } }

local function shaped(layout, n, c, rows, columns)
  if layout == 'nhwc' then return n, rows, columns, c end
  return n, c, rows, columns
end

-- make(shape) of images, kernels and gradients: forward, back to images, back to kernels, by cuDNN,
-- each judged by check(what, result on the device, result of the CPU in f64, terms of a sum).
local function convolutions(dtypes, make, check)
  local n = 0
  for _, s in ipairs(IMAGES) do
    local batch, c_in, c_out, rows, columns, kernel = unpack(s)
    for _, dtype in ipairs(dtypes) do
      for _, layout in ipairs { 'nchw', 'nhwc' } do
        local x = make(shaped(layout, batch, c_in, rows, columns))
        local w, dy = make(c_out, c_in, kernel, kernel),
          make(shaped(layout, batch, c_out, rows, columns))
        local function conv(y, v)
          return y:conv2d(v, { padding = (kernel - 1) / 2, layout = layout })
        end
        local function there(y) return y:to(dtype):to(DEVICE) end
        local ways = {
          conv2d = { conv, c_in * kernel ^ 2 },
          conv2d_back_data = { function(y, v, d)
            y = leaf(y)
            conv(y, v):backward(d)
            return y.grad
          end, c_out * kernel ^ 2 },
          conv2d_back_weight = { function(y, v, d)
            v = leaf(v)
            conv(y, v):backward(d)
            return v.grad
          end, batch * rows * columns },
        }
        for op, way in pairs(ways) do
          local what = ('%s %s %s %d to %d'):format(op, dtype, layout, c_in, c_out)
          local tx, tw, td = there(x), there(w), there(dy)
          local y = by_dnn(what, op, function() return way[1](tx, tw, td) end)
          check(what, y, way[1](x, w, dy), way[2], dtype)
          n = n + 1
        end
      end
    end
  end
  return ('%d convolutions'):format(n)
end

probe('dnn-sums', function()
  return convolutions(FLOATS, whole, function(what, y, wanted, _, dtype)
    sure(what, y, wanted:to(dtype):to 'f64')
  end)
end)

probe('dnn-f32-whole', function()
  local function thin(a, b, c, d) return ridge.full(1 + 2 ^ -12, a, b, c, d, { dtype = 'f64' }) end
  return convolutions({ 'f32' }, thin,
    function(what, y, wanted, terms)
      local far = (y:to 'cpu':to 'f64' / wanted - 1):abs():max():item()
      -- sums one after the other are so far off; factors rounded to 10 bits 2^-11
      if not (far <= math.max(2 ^ -20, math.min(terms * 2 ^ -24, 2 ^ -13))) then
        failed('%s is %.3g off (tf32: 4.9e-4)', what, far)
      end
    end)
end)

probe('dnn-relu-nan', function()
  local n = 0
  for _, dtype in ipairs(FLOATS) do
    for _, layout in ipairs { 'nchw', 'nhwc' } do
      local x = whole(shaped(layout, 2, 8, 7, 6))
      numbers(x)[3] = NAN
      local function made()
        return nn.Conv2d(8, 16, 3, { padding = 1, activation = 'relu', layout = layout, seed = 1 })
      end
      local here, there = made():to 'f64':eval(), made():to(dtype):to(DEVICE):eval()
      local w = whole(16, 8, 3, 3)
      local bias = ridge.randint(-3, 4, 16):to 'f64'
      ridge.no_grad(function()
        here.weight:copy_(w)
        there.weight:copy_(w:to(dtype):to(DEVICE))
        here.bias:copy_(bias)
        there.bias:copy_(bias:to(dtype):to(DEVICE))
      end)
      local what = ('relu after a convolution, %s %s'):format(dtype, layout)
      local on_device = x:to(dtype):to(DEVICE)
      sure(what, by_dnn(what, 'conv2d', function() return there(on_device) end), here(x))
      n = n + 1
    end
  end
  return ('%d convolutions'):format(n)
end)

-- Those that rg_dnn_fuses names, of sums that are large: an image passed on as it is.
probe('dnn-activations', function()
  local values = { -1e30, -1000, -100, -50, 0, 50, 100, 1000, 1e30 }
  local n = 0
  for _, dtype in ipairs { 'f32', 'bf16' } do
    for _, act in ipairs { 'relu', 'gelu' } do
      local x = ridge.zeros(1, 3, 3, 8, { dtype = 'f64' })
      for i, v in ipairs(values) do
        for c = 0, 7 do numbers(x)[8 * (i - 1) + c] = v end
      end
      x = x:to(dtype)
      local layer = nn.Conv2d(8, 8, 1, { activation = act, layout = 'nhwc', seed = 1 }):to(dtype)
      local w = ridge.zeros(8, 8, 1, 1, { dtype = 'f64' })
      for c = 0, 7 do numbers(w)[9 * c] = 1 end
      ridge.no_grad(function()
        layer.weight:copy_(w:to(dtype))
        layer.bias:fill_(0)
      end)
      local wanted = layer:eval()(x):to 'f64'
      layer:to(DEVICE)
      local there, what = x:to(DEVICE), ('%s of %s'):format(act, dtype)
      local y = by_dnn(what, 'conv2d', function() return layer(there) end):to 'cpu':to 'f64'
      local far = ((y - wanted) / (wanted:abs() + 1e-20)):abs():max():item()
      if not (far <= 2 ^ -7) then failed('%s: %.3g off', what, far) end
      n = n + 1
    end
  end
  return ('%d convolutions'):format(n)
end)

-- -- Attention ------------------------------------------------------------------------------------

local HEADS = tiny and { { 2, 9, 12, 8 }, { 2, 12, 7, 16 } }
  or { { 4, 300, 300, 64 }, { 2, 130, 257, 128 }, { 3, 257, 130, 40 } }

local function attention(q, k, v, dy, causal)
  q, k, v = leaf(q), leaf(k), leaf(v)
  local y = nn.attention(q, k, v, { causal = causal })
  y:backward(dy)
  return y:detach(), q.grad, k.grad, v.grad
end

-- Queries, keys, values and gradients of one size.
local function heads_of(s)
  local h, n, m, d = unpack(s)
  return ridge.randn(1, h, n, d), ridge.randn(1, h, m, d), ridge.randn(1, h, m, d),
    ridge.randn(1, h, n, d)
end

local function on_device(dtype, ...)
  local list = {}
  for i, x in ipairs { ... } do list[i] = x:to(dtype):to(DEVICE) end
  return unpack(list)
end

-- Numbers near, which the sums of exp(s - m) and lse between forward and back have to be for.
probe_gradients('dnn-attention', function()
  local n = 0
  for _, s in ipairs(HEADS) do
    for _, dtype in ipairs(HALVES) do
      for _, causal in ipairs { false, true } do
        local q, k, v, dy = heads_of(s)
        local tq, tk, tv, td = on_device(dtype, q, k, v, dy)
        local got
        local what = ('attention %dx%dx%dx%d %s%s'):format(s[1], s[2], s[3], s[4], dtype,
          causal and ' causal' or '')
        for _, op in ipairs { 'attention', 'attention_back' } do
          by_dnn(what, op, function() got = { attention(tq, tk, tv, td, causal) } end)
        end
        local function rounded(x) return x:to(dtype):to 'f64' end
        local wanted = { attention(rounded(q), rounded(k), rounded(v), rounded(dy), causal) }
        for i, name in ipairs { 'y', 'dq', 'dk', 'dv' } do
          local far = (got[i]:to 'cpu':to 'f64' - wanted[i]):abs():max():item()
            / wanted[i]:abs():max():item()
          if not (far <= 16 * (dtype == 'f16' and 2 ^ -11 or 2 ^ -8)) then
            failed('%s: %s is %.3g off', what, name, far)
          end
        end
        n = n + 1
      end
    end
  end
  return ('%d of them, forward and back'):format(n)
end)

-- Query i sees keys 1 to i, also where there are more keys than queries: the first query's result
-- is the first value, and keys behind the last query get no gradient at all.
probe_gradients('dnn-causal', function()
  local h, n, m, d = 2, tiny and 5 or 70, tiny and 12 or 200, tiny and 8 or 64
  for _, dtype in ipairs(HALVES) do
    local q, k, v, dy = on_device(dtype, heads_of { h, n, m, d })
    local y, _, dk, dv
    by_dnn('causal attention', 'attention_back', function()
      y, _, dk, dv = attention(q, k, v, dy, true)
    end)
    sure('the first query in ' .. dtype, y:narrow(3, 1, 1),
      v:narrow(3, 1, 1):contiguous():to 'cpu':to 'f64')
    for name, x in pairs { dk = dk, dv = dv } do
      sure(('%s of unseen keys in %s'):format(name, dtype), x:narrow(3, n + 1, m - n),
        ridge.zeros(1, h, m - n, d, { dtype = 'f64' }))
    end
  end
end)

probe('dnn-unseen-nan', function()
  local h, n, d = 2, tiny and 9 or 200, tiny and 8 or 64
  for _, dtype in ipairs(HALVES) do
    local q, k, v = heads_of { h, n, n, d }
    local spoilt = v:to 'f64'
    local last = ridge.full(NAN, 1, h, 1, d, { dtype = 'f64' })
    spoilt:narrow(3, n, 1):copy_(last)
    local tq, tk, tv, ts = on_device(dtype, q, k, v, spoilt)
    local function y_of(values)
      return by_dnn('attention', 'attention', function()
        return nn.attention(tq, tk, values, { causal = true })
      end):to 'cpu':to 'f64'
    end
    local with, without = y_of(ts), y_of(tv)
    sure('queries that do not see a nan, in ' .. dtype, with:narrow(3, 1, n - 1),
      without:narrow(3, 1, n - 1))
    sure('the query that sees it, in ' .. dtype, with:narrow(3, n, 1), last)
  end
end)

-- -- Both -----------------------------------------------------------------------------------------

probe_gradients('dnn-same-bits', function()
  local runs = tiny and 3 or 100
  modes.deterministic = 1
  for _, dtype in ipairs(FLOATS) do
    local x, w, dy = on_device(dtype, ridge.randn(4, 16, 14, 14), ridge.randn(16, 16, 3, 3),
      ridge.randn(4, 16, 14, 14))
    local function back()
      local v = leaf(w)
      x:conv2d(v, { padding = 1 }):backward(dy)
      return v.grad
    end
    local first = by_dnn('gradients of kernels', 'conv2d_back_weight', back)
    for i = 2, runs do
      if not back():equal(first) then failed('kernels in %s: run %d has other bits', dtype, i) end
    end
  end
  for _, dtype in ipairs(HALVES) do
    local q, k, v, dy = on_device(dtype, heads_of(HEADS[1]))
    local first
    by_dnn('gradients of attention', 'attention_back', function()
      first = { attention(q, k, v, dy, true) }
    end)
    for i = 2, runs do
      local again = { attention(q, k, v, dy, true) }
      for j = 1, 4 do
        if not again[j]:equal(first[j]) then
          failed('attention in %s: run %d has other bits', dtype, i)
        end
      end
    end
  end
  return ('%d runs each'):format(runs)
end)

probe('dnn-capture', function()
  for _, dtype in ipairs(HALVES) do
    local x, w = whole(2, 8, 7, 6), whole(16, 8, 3, 3)
    local tx, tw = on_device(dtype, x, w)
    local q, k, v = on_device(dtype, heads_of(HEADS[1]))
    local y, z
    local plan = ridge.capture(function()
      y = tx:conv2d(tw, { padding = 1 })
      z = nn.attention(q, k, v)
    end)
    local eager = z:to 'cpu'
    plan:run(1)
    local facts = plan:facts()
    if not facts.device_graph then failed('%s: no graph: %s', dtype, facts.why or '?') end
    -- others use the workspace, and the images are other ones
    by_dnn('attention', 'attention', function() return nn.attention(q, k, v, { causal = true }) end)
    tx:copy_((x * -1):to(dtype):to(DEVICE))
    y:fill_(NAN)
    z:fill_(NAN)
    plan:run(2)
    sure('a replayed convolution in ' .. dtype, y,
      (x * -1):conv2d(w, { padding = 1 }):to(dtype):to 'f64')
    sure('replayed attention in ' .. dtype, z, eager:to 'f64')
  end
end)

-- The first that is proposed, and the fastest of three.
probe('dnn-choice', function()
  belief.times()
  local said, most = {}, 0
  local function timed(f)
    local plan = ridge.capture(f)
    local best = math.huge
    for _ = 1, 5 do
      belief.lt.wait()
      local before = tonumber(C.rg_clock_ns())
      plan:run(20)
      belief.lt.wait()
      best = math.min(best, (tonumber(C.rg_clock_ns()) - before) / 20e3)
    end
    return best
  end
  for i, s in ipairs { { 32, 64, 56, 3 }, { 32, 256, 14, 3 }, { 32, 128, 28, 1 } } do
    local batch, c, side, kernel = unpack(s)
    -- two sizes that are nearly one: jobs of one size are tuned once in a process
    local function conv(more)
      local x, w = on_device('bf16', ridge.randn(batch + more, side, side, c),
        ridge.randn(c, c, kernel, kernel))
      return function() return x:conv2d(w, { padding = (kernel - 1) / 2, layout = 'nhwc' }) end
    end
    modes.autotune = 0
    local first = timed(conv(0)) / batch
    modes.autotune = 2
    local ratio = first / (timed(conv(1)) / (batch + 1))
    said[i] = ('%dx%dx%dx%d %.2f'):format(batch, c, side, kernel, ratio)
    most = math.max(most, ratio)
  end
  local text = 'first proposed / fastest: ' .. table.concat(said, ', ')
  if most > 1.2 then look('%s', text) end
  return text
end)

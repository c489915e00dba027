-- SPDX-License-Identifier: MIT
-- quant: what bytes, few bits and few weights gain over f32, as plans on one thread, in processor
-- time of paired rounds: medians, and the median ratio with its quartiles.
--
--     taskset -c 0 ./ridge --threads 1 scripts/peers/quant.lua [dense|packed|sparse|image]

local ffi = require 'ffi'
local ridge = require 'ridge'

ffi.cdef 'typedef struct { long s, ns; } quant_time; int clock_gettime(int, quant_time *);'
local CPU_TIME, ROUNDS = 3, 21 -- of the thread
local time = ffi.new 'quant_time'

local function now()
  ffi.C.clock_gettime(CPU_TIME, time)
  return tonumber(time.s) * 1e6 + tonumber(time.ns) / 1e3
end

local function middle(list, share)
  table.sort(list)
  return list[math.max(1, math.floor(#list * share + 0.5))]
end

-- Rows beside the first, which is what they are compared with: { name, function } each.
local function compare(what, rows)
  local plans, took, ratio = {}, {}, {}
  for i, row in ipairs(rows) do
    row[2]()
    plans[i], took[i], ratio[i] = ridge.capture(row[2]), {}, {}
    plans[i]()
  end
  local begun = now()
  plans[1]()
  local times = math.max(1, math.floor(3000 / math.max(now() - begun, 0.1)))
  for round = 1, ROUNDS do
    for i, plan in ipairs(plans) do
      local from = now()
      for _ = 1, times do plan() end
      took[i][round] = (now() - from) / times
      ratio[i][round] = took[1][round] / took[i][round]
    end
  end
  for i, row in ipairs(rows) do
    print(('%-26s %-22s %10.2f us  %5.2fx [%.2f, %.2f]'):format(what, row[1],
      middle(took[i], 0.5), middle(ratio[i], 0.5), middle(ratio[i], 0.25), middle(ratio[i], 0.75)))
  end
end

local groups = {}

function groups.dense()
  for _, size in ipairs { { 784, 128, 1 }, { 128, 128, 1 }, { 128, 10, 1 }, { 1024, 1024, 1 },
    { 784, 128, 64 }, { 2048, 1024, 256 } } do
    local n_in, n_out, b = unpack(size)
    local net = ridge.nn.Linear(n_in, n_out):eval()
    local x, bias = ridge.randn(b, n_in), ridge.randn(n_out)
    local w, w_scale = ridge.quantize_rows(ridge.randn(n_out, n_in))
    local q, x_scale = ridge.quantize_rows(x)
    local o, bytes = { bias = bias }, { bias = bias, dtype = 'i8', y_scale = 0.5 }
    w:set_param(true)
    compare(('%d -> %d, batch %d'):format(n_in, n_out, b), {
      { 'f32', function() return net(x) end },
      { 'i8', function() return ridge.scaled_linear(q, w, x_scale, w_scale, o) end },
      { 'i8 to i8', function() return ridge.scaled_linear(q, w, x_scale, w_scale, bytes) end },
      { 'f32 quantized inside', function() return ridge.scaled_linear(x, w, nil, w_scale, o) end },
      { 'by six operations', function()
        local s = x:abs():max(-1, true) / 127
        return ridge.scaled_linear((x / s):round():to 'i8', w, s, w_scale, o)
      end } })
  end
end

function groups.packed()
  local function rows(n, b, bits, group, has_min)
    local net, x = ridge.nn.Linear(n, n):eval(), ridge.randn(b, n)
    local q, x_scale = ridge.quantize_rows(x)
    local codes = (ridge.rand(n, n) * 2 ^ bits):floor():minimum(2 ^ bits - 1):to 'u8'
    local w = ridge.pack_bits(codes, { bits = bits })
    local scale = ridge.rand(n, n / group):to 'f16'
    local o = { bits = bits, group = group, min = has_min and scale or nil }
    local of_bytes = { bits = bits, group = group, min = o.min, x_scale = x_scale }
    compare(('%d x %d, batch %d'):format(n, n, b), {
      { 'f32', function() return net(x) end },
      { ('%d bits, groups of %d%s'):format(bits, group, has_min and ', min' or ''),
        function() return ridge.packed_linear(x, w, scale, o) end },
      { 'the same, x in i8', function() return ridge.packed_linear(q, w, scale, of_bytes) end } })
  end
  for _, bits in ipairs { 8, 6, 4, 3, 2 } do rows(4096, 1, bits, 32) end
  rows(4096, 1, 4, 128)
  rows(4096, 1, 4, 32, true)
  rows(1024, 1, 4, 32)
  rows(4096, 4, 4, 32)
  rows(4096, 32, 4, 32)
end

function groups.sparse()
  for _, b in ipairs { 1, 16 } do
    for _, zeros in ipairs { 0.5, 0.7, 0.85, 0.9, 0.95 } do
      local net, x = ridge.nn.Linear(2048, 1024):eval(), ridge.randn(b, 2048)
      local one = ridge.sparse(ridge.randn(1024, 2048) * ridge.rand(1024, 2048):gt(zeros):to 'f32')
      local many = ridge.sparse(ridge.randn(1024, 2048) * ridge.rand(64, 1, 2048):gt(zeros)
        :to('f32'):expand(64, 16, 2048):reshape(1024, 2048), { block = 16 })
      compare(('2048 -> 1024, batch %d'):format(b), { { 'f32', function() return net(x) end },
        { ('%g %% zeros, rows'):format(zeros * 100),
          function() return ridge.sparse_linear(x, one) end },
        { ('%g %% zeros, blocks'):format(zeros * 100),
          function() return ridge.sparse_linear(x, many) end } })
    end
  end
end

function groups.image()
  for _, size in ipairs { { 64, 64, 1, 28 }, { 64, 64, 64, 28 } } do
    local c, o, parts, side = unpack(size)
    local x = ridge.randn(1, side, side, c)
    local w = ridge.randn(o, c / parts, 3, 3)
    local q, k = ridge.quantize(x, 0.02, 128, { type = 'u8' }), ridge.quantize(w, 0.02)
    local f = { layout = 'nhwc', padding = 1, groups = parts }
    local bytes = { layout = 'nhwc', padding = 1, groups = parts, x_zero = 128, dtype = 'u8',
      y_scale = 0.5, y_zero = 128 }
    w:set_param(true)
    k:set_param(true)
    compare(('%d to %d 3x3, %d groups'):format(c, o, parts), {
      { 'f32', function() return x:conv2d(w, f) end },
      { 'u8 to u8', function() return ridge.scaled_conv2d(q, k, 0.02, 0.02, bytes) end } })
  end
  local x = ridge.randn(1, 56, 56, 64)
  local q = ridge.quantize(x, 0.02)
  local last = { layout = 'nhwc' }
  compare('56 x 56 x 64', { { 'f32, sum', function() return x + x end },
    { 'i8, sum to i8', function()
      return ridge.scaled_add(q, q, 0.02, 0.02, { dtype = 'i8', y_scale = 0.04 })
    end } })
  compare('56 x 56 x 64', { { 'f32, 2 x 2 largest', function() return x:max_pool2d(2, last) end },
    { 'i8, 2 x 2 largest', function() return ridge.scaled_pool2d(q, 2, last) end } })
  local mean = { layout = 'nhwc', average = true }
  compare('56 x 56 x 64', { { 'f32, 2 x 2 average', function() return x:avg_pool2d(2, last) end },
    { 'i8, 2 x 2 average', function() return ridge.scaled_pool2d(q, 2, mean) end } })
end

ridge.seed(1)
for _, name in ipairs(arg[1] and { arg[1] } or { 'dense', 'packed', 'sparse', 'image' }) do
  local group = groups[name] or error('there is no group ' .. name)
  group()
end

-- SPDX-License-Identifier: MIT
--- Times what a GPU is bought for: one JSON line a case, microseconds a call, median of windows in
--- which plans are replayed; scripts/gpu/torch_bench.py does the same cases.
--
--     ./ridge scripts/gpu/bench.lua [--only PREFIX,...] [--own] [--tiny]
--
-- With --tiny the sizes are such that the simulator can do them, twice, and no time is printed: to
-- test this file, not to measure.

local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local nn = ridge.nn

local lost = assert(loadfile((arg[0]:match '^(.*/)' or './') .. 'lost.lua'))()
local opt = ridge.args(lost.with {
  { 'only', '', 'case names that begin with one of these, by comma' },
  { 'tiny', false, 'sizes for the simulator' },
  { 'windows', 7, 'windows of which the median is taken', min = 1, integer = true },
  { 'seconds', 0.1, 'length of a window', min = 0 },
  { 'own', false, 'without cublasLt and cuDNN' },
})
local DEVICE, NUMBER = ridge.device.best(), 1
ridge.seed(0)
if opt.own then C.rg_device_modes_now().vendor = 0 end

-- A size, or the one for the simulator.
local function size(n, tiny) return opt.tiny and tiny or n end

-- -- Timing -----------------------------------------------------------------------------------

local function wait()
  if C.rg_device_wait(NUMBER) ~= 0 then
    error(require('ffi').string(C.rg_error_message()), 0)
  end
end

-- Nanoseconds of n replays, as the host sees them: from an idle device to an idle device. This is
-- the one place to change when a device tells the time itself.
local function elapsed(run, n)
  wait()
  local before = tonumber(C.rg_clock_ns())
  run(n)
  wait()
  return tonumber(C.rg_clock_ns()) - before
end

-- Median, least and largest microseconds a call, and calls in a window.
local function timed(run)
  elapsed(run, 3)
  local once = elapsed(run, 1)
  local n = math.max(1, math.min(20000, math.floor(opt.seconds * 1e9 / once)))
  local us = {}
  for i = 1, opt.windows do us[i] = elapsed(run, n) / n / 1e3 end
  table.sort(us)
  return us[math.floor(#us / 2) + 1], us[1], us[#us], n
end

local function wanted(name)
  if opt.only == '' then return true end
  for prefix in tostring(opt.only):gmatch '[^,]+' do
    if name:sub(1, #prefix) == prefix then return true end
  end
  return false
end

-- make() returns what is captured and replayed, then the work of one call: { flops = } or
-- { bytes = }, counted as in the peer's file.
local met = 0
local function case(name, make)
  if not wanted(name) then return end
  met = met + 1
  if not lost.wants(opt, met) then return end
  local ok, err = pcall(function()
    local f, work = make()
    local plan = ridge.capture(f)
    -- a plan that is replayed step by step says so: its time is another thing
    local function apart()
      local facts = plan:facts()
      return facts.device_graph and '' or (', "no_graph": "%s"'):format(
        (facts.why or 'nobody tried'):gsub('["\\\n]', ' '))
    end
    if opt.tiny then
      elapsed(function(times) plan:run(times) end, 2) -- the second one as a graph
      io.write(('{"case": "%s", "tiny": true%s}\n'):format(name, apart()))
      return
    end
    local us, least, most, n = timed(function(times) plan:run(times) end)
    local rate = apart()
    if work and work.flops then rate = (', "tflops": %.4g'):format(work.flops / us / 1e6) end
    if work and work.bytes then rate = (', "gb_s": %.4g'):format(work.bytes / us / 1e3) end
    io.write(('{"case": "%s", "us": %.4f, "min_us": %.4f, "max_us": %.4f, "n": %d%s}\n'):format(
      name, us, least, most, n, rate))
  end)
  C.rg_device_modes_now().tf32 = 0
  if not ok then
    io.write(('{"case": "%s", "error": "%s"}\n'):format(name, (tostring(err):gsub('["\\\n]', ' '))))
  end
  io.flush()
  if lost.why() and not lost.is_alone() then
    lost.again(met)
    lost.go_on(met + 1, { 0 })
  end
  collectgarbage()
  collectgarbage()
end

-- -- Whole steps, which say most ---------------------------------------------------------------

local function randn(dtype, ...)
  local sizes = { ... }
  sizes[#sizes + 1] = { device = DEVICE }
  return ridge.randn(unpack(sizes)):to(dtype)
end

local function step_of(net, x, y)
  local optimizer = ridge.optim.AdamW(net, { lr = 1e-3 })
  return function()
    optimizer:zero_grad()
    nn.mse_loss(net(x), y):backward()
    optimizer:step()
  end
end

case('mlp_step_f32', function()
  local net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64)):to(DEVICE):train()
  return step_of(net, randn('f32', 32, 64), randn('f32', 32, 64))
end)

case('transformer_12_step_bf16', function()
  local width, n, batch = size(768, 16), size(1024, 6), size(8, 2)
  local blocks = {}
  for i = 1, size(12, 2) do
    blocks[i] = nn.TransformerBlock(width, { heads = size(12, 2), causal = true })
  end
  local net = nn.Sequential(unpack(blocks)):to 'bf16':to(DEVICE):train()
  return step_of(net, randn('bf16', batch, n, width), randn('bf16', batch, n, width))
end)

-- -- Ceilings ---------------------------------------------------------------------------------

case('copy', function()
  local n = size(2 ^ 28, 1000)
  local x, y = randn('f32', n), ridge.zeros(n, { device = DEVICE })
  return function() y:copy_(x) end, { bytes = 8 * n }
end)

case('fill_f32', function()
  local n = size(2 ^ 28, 1000)
  local y = ridge.zeros(n, { device = DEVICE })
  return function() y:fill_(1) end, { bytes = 4 * n }
end)

case('add_f32', function()
  local n = size(2 ^ 27, 1000)
  local x, y = randn('f32', n), randn('f32', n)
  return function() return x + y end, { bytes = 12 * n }
end)

local function product(dtype)
  return function()
    local n = size(8192, 24)
    local a, b = randn(dtype, n, n), randn(dtype, n, n)
    return function() return a:matmul(b) end, { flops = 2 * n ^ 3 }
  end
end
case('product_8192_bf16', product 'bf16')
case('product_8192_f16', product 'f16')
case('product_8192_f32', product 'f32')

-- Factors of 8 bits, and a scale for each row of both, or one for each factor.
local function scaled(dtype, rows)
  return function()
    local n = size(8192, 32)
    local x, w = (randn('f32', n, n) * 8):to(dtype), (randn('f32', n, n) * 8):to(dtype)
    local one, other = randn('f32', rows and n or 1):abs(), randn('f32', rows and n or 1):abs()
    return function() return ridge.scaled_linear(x, w, one, other, { dtype = 'bf16' }) end,
      { flops = 2 * n ^ 3 }
  end
end
case('scaled_8192_i8_rows', scaled('i8', true))
case('scaled_8192_f8e4m3', scaled('f8e4m3', false))
case('scaled_8192_f8e4m3_rows', scaled('f8e4m3', true))

-- -- Layers -----------------------------------------------------------------------------------

local function linear(batch, inputs, outputs, dtype, opts)
  return function()
    local layer = nn.Linear(inputs, outputs, opts):to(dtype):to(DEVICE)
    local x = randn(dtype, batch, inputs)
    return function() return ridge.inference(layer, x) end, { flops = 2 * batch * inputs * outputs }
  end
end
case('linear_8192_bf16', linear(size(8192, 8), size(8192, 24), size(8192, 24), 'bf16'))
case('linear_gelu_8192_bf16',
  linear(size(8192, 8), size(4096, 24), size(4096, 24), 'bf16', { activation = 'gelu' }))
for _, batch in ipairs { 1, 32 } do
  for _, width in ipairs { 64, 256, 1024 } do
    case(('linear_%d_b%d_f32'):format(width, batch),
      linear(batch, size(width, 16), size(width, 16), 'f32'))
  end
end

case('bias_gelu_bf16', function()
  local n = size(8192, 16)
  local x, b = randn('bf16', n, n), randn('bf16', n)
  return function() return (x + b):gelu() end, { bytes = 4 * n * n }
end)

case('silu_mul_bf16', function()
  local n = size(8192, 16)
  local x, y = randn('bf16', n, n), randn('bf16', n, n)
  return function() return x:silu() * y end, { bytes = 6 * n * n }
end)

case('softmax_bf16', function()
  local rows, n = size(8192, 4), size(8192, 40)
  local x = randn('bf16', rows, n)
  return function() return x:softmax() end, { bytes = 4 * rows * n }
end)

case('softmax_wide_bf16', function()
  local rows, n = size(1024, 4), size(65536, 40)
  local x = randn('bf16', rows, n)
  return function() return x:softmax() end, { bytes = 4 * rows * n }
end)

local function layer_norm(back, rows, n)
  return function()
    rows, n = size(rows, 4), size(n, 40)
    local layer, x = nn.LayerNorm(n):to 'bf16':to(DEVICE), randn('bf16', rows, n)
    if not back then
      return function() return ridge.inference(layer, x) end, { bytes = 4 * rows * n }
    end
    local dy = randn('bf16', rows, n)
    layer:train()
    x:requires_grad_()
    return function()
      layer.weight:zero_grad()
      layer.bias:zero_grad()
      x:zero_grad()
      layer(x):backward(dy)
    end, { bytes = 10 * rows * n }
  end
end
case('layer_norm_bf16', layer_norm(false, 16384, 4096))
case('layer_norm_bf16_fb', layer_norm(true, 16384, 4096))
case('layer_norm_wide_bf16', layer_norm(false, 2048, 32768))
case('layer_norm_wide_bf16_fb', layer_norm(true, 2048, 32768))

case('conv_gelu_bf16', function()
  local n, channels, side = size(64, 2), size(256, 8), size(56, 6)
  local layer = nn.Conv2d(channels, channels, 1, { activation = 'gelu' }):to 'bf16':to(DEVICE)
  local x = randn('bf16', n, channels, side, side)
  return function() return ridge.inference(layer, x) end, { bytes = 4 * n * channels * side ^ 2 }
end)

local function pool(method, layout, back)
  return function()
    local n, channels, side = size(64, 2), size(64, 8), size(112, 6)
    local x = layout == 'nhwc' and randn('bf16', n, side, side, channels)
      or randn('bf16', n, channels, side, side)
    local opts = { stride = 2, padding = 1, layout = layout }
    local bytes = 2.5 * n * channels * side ^ 2 -- a quarter of a result
    if not back then return function() return x[method](x, 3, opts) end, { bytes = bytes } end
    local dy = randn('bf16', unpack(x[method](x, 3, opts).shape))
    x:requires_grad_()
    return function()
      x:zero_grad()
      x[method](x, 3, opts):backward(dy)
    end, { bytes = 2 * bytes }
  end
end
case('max_pool_bf16', pool('max_pool2d', 'nchw', false))
case('max_pool_bf16_fb', pool('max_pool2d', 'nchw', true))
case('avg_pool_bf16_fb', pool('avg_pool2d', 'nchw', true))
case('max_pool_nhwc_bf16_fb', pool('max_pool2d', 'nhwc', true))

case('cross_entropy_bf16_fb', function()
  local rows, n = size(8192, 4), size(50304, 40)
  local x = randn('bf16', rows, n):requires_grad_()
  local y = ridge.randint(0, n, rows):to(DEVICE)
  return function()
    x:zero_grad()
    nn.cross_entropy(x, y):backward()
  end, { bytes = 6 * rows * n }
end)

case('adamw_f32', function()
  local each, many = size(2 ^ 20, 100), size(64, 3)
  local params = {}
  for i = 1, many do params[i] = randn('f32', each):requires_grad_() end
  local optimizer = ridge.optim.AdamW(params, { lr = 1e-4 })
  local total
  for _, p in ipairs(params) do total = total and total + (p * p):sum() or (p * p):sum() end
  total:backward()
  return function() optimizer:step() end, { bytes = 28 * each * many }
end)

-- Causal attention over `n` positions; `opts` may name a window of positions, given as a mask of
-- blocks of 64, and tf32.
local BLOCK = 64
local function window_of(n, window)
  local side = math.ceil(n / BLOCK)
  local from, to = ridge.arange(0, side - 1), ridge.arange(0, side - 1):view(side, 1)
  return (to:ge(from) * (to - from):le(window / BLOCK)):to('bool'):to(DEVICE)
end

local function attention(dtype, opts)
  return function()
    local heads, n, d = size(16, 2), size(8192, 140), size(128, 8)
    local q, k, v = randn(dtype, 1, heads, n, d), randn(dtype, 1, heads, n, d),
      randn(dtype, 1, heads, n, d)
    local mask = opts.window and window_of(n, opts.window)
    C.rg_device_modes_now().tf32 = opts.tf32 and 1 or 0
    local scores = opts.window and heads * n * opts.window or heads * n * n / 2
    local flops = 4 * scores * d
    local how = { causal = true, mask = mask, block = mask and BLOCK }
    if not opts.back then
      return function() return nn.attention(q, k, v, how) end, { flops = flops }
    end
    local dy = randn(dtype, 1, heads, n, d)
    for _, x in ipairs { q, k, v } do x:requires_grad_() end
    return function()
      for _, x in ipairs { q, k, v } do x:zero_grad() end
      nn.attention(q, k, v, how):backward(dy)
    end, { flops = 3.5 * flops }
  end
end
for _, of in ipairs { { 'bf16_causal', 'bf16' }, { 'bf16_local', 'bf16', window = 1024 },
  { 'f32_causal', 'f32' }, { 'tf32_causal', 'f32', tf32 = true } } do
  for _, back in ipairs { '', '_fb' } do
    case('attention_' .. of[1] .. back, attention(of[2],
      { window = of.window, tf32 = of.tf32, back = back ~= '' }))
  end
end

-- The weights are dropped while training, with the projections on either side.
case('attention_bf16_dropout_fb', function()
  local batch, n, width = size(4, 2), size(2048, 20), size(2048, 16)
  local layer = nn.MultiHeadAttention(width, { heads = size(16, 2), causal = true, dropout = 0.1 })
    :to('bf16'):to(DEVICE):train()
  local x, dy = randn('bf16', batch, n, width):requires_grad_(), randn('bf16', batch, n, width)
  local parameters = layer:parameters()
  return function()
    for _, p in ipairs(parameters) do p.tensor:zero_grad() end
    x:zero_grad()
    layer(x):backward(dy)
  end
end)

-- Rows of a table by number, and the gradient of the table: bytes that move are counted once.
local function embedding(dtype)
  return function()
    local rows, width, n = size(50304, 40), size(768, 16), size(8192, 12)
    local table = randn(dtype, rows, width):requires_grad_()
    local index, dy = ridge.randint(0, rows, n):to(DEVICE), randn(dtype, n, width)
    return function()
      table:zero_grad()
      table:take(index):backward(dy)
    end, { bytes = (3 * n + rows) * width * (dtype == 'bf16' and 2 or 4) }
  end
end
case('embedding_bf16_fb', embedding 'bf16')
case('embedding_f32_fb', embedding 'f32')

local function sketched(terms, rank, dtype, form)
  return function()
    local n = size(4096, 16)
    local layer = nn.SKLinear(n, n, { num_terms = terms, low_rank = size(rank, 4), seed = 1,
      form = form, warn = false }):to(dtype):to(DEVICE)
    local x = randn(dtype, size(4096, 4), n)
    return function() return ridge.inference(layer, x) end
  end
end

for _, dtype in ipairs { 'bf16', 'f32' } do
  case('sketched_dense_' .. dtype, linear(size(4096, 4), size(4096, 16), size(4096, 16), dtype))
  for _, terms in ipairs { 1, 2, 4, 8 } do
    for _, rank in ipairs { 32, 128, 512 } do
      case(('sketched_%d_%d_%s'):format(terms, rank, dtype), sketched(terms, rank, dtype, 'stored'))
    end
  end
end
-- signs that are read as bits beside signs that are made in the kernel
for _, dtype in ipairs { 'bf16', 'f32' } do
  for _, of in ipairs { { 1, 32 }, { 2, 128 }, { 8, 512 } } do
    for _, form in ipairs { 'bits', 'seed' } do
      case(('sketched_%d_%d_%s_%s'):format(of[1], of[2], form, dtype),
        sketched(of[1], of[2], dtype, form))
    end
  end
end

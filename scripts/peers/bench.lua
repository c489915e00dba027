-- SPDX-License-Identifier: MIT
--- The same work as the peer's torch_bench.py, case by case: one JSON line each, in microseconds
--- a call (median of 11 windows).  Eager cases call ridge from Lua in a loop, as the peer is called
--- from Python; the same case replayed from a captured plan has `_plan` behind its name.
--
--     ./ridge scripts/peers/bench.lua [--threads N] [--only PREFIX,...] [--device cpu] [--plans]
--                                     [--passes] [--processor_time]
--
-- With --plans only the plans run, under the plain names: beside the peer's compiled functions, and
-- beside ONNX Runtime (onnx_bench.py).  With --passes these are plans of graphs after every pass,
-- those that round in other places too; what only runs forward has one.  Processor time is that of
-- all threads together: what a busy machine leaves comparable, with one thread.

local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local nn = ridge.nn
local nets = dofile((debug.getinfo(1, 'S').source:match '^@(.*/)' or '') .. 'nets.lua')

local opt = ridge.args {
  { 'threads', 2, 'compute threads' },
  { 'only', '', 'case names that begin with one of these, by comma' },
  { 'device', 'cpu', 'where to run' },
  { 'plans', false, 'only the plans, under the plain names of the cases' },
  { 'passes', false, 'the same after every pass over their graphs' },
  { 'processor_time', false, 'of the process, in the place of what the clock on the wall says' },
}
if opt.device ~= 'cpu' then
  error("device '" .. opt.device .. "' is not there: ridge has cpu", 0)
end
ridge.set_num_threads(opt.threads)
ridge.seed(0)

-- Versions, threads and instruction sets, in a line that readers of the others leave out.
local function facts()
  local now, list = ridge.backend.now(), {}
  local known, choices = pcall(require, 'ridge.choices') -- revisions before it: before_after.lua
  for path, version in pairs(known and choices.versions() or {}) do
    list[#list + 1] = path .. ' ' .. version
  end
  table.sort(list)
  return ('# ridge %s, %d threads, isa %s, %s%s'):format(ridge.version(), now.threads, now.isa,
    table.concat(list, ', '), opt.processor_time and ', processor time' or '')
end
print(facts())

local function wanted(name)
  if opt.only == '' then return true end
  for prefix in tostring(opt.only):gmatch('[^,]+') do
    if name:sub(1, #prefix) == prefix then return true end
  end
  return false
end

local function now()
  return opt.processor_time and os.clock() * 1e9 or tonumber(C.rg_clock_ns())
end

local function repeated(f, n)
  for _ = 1, n do f() end
end

--- Median, least and largest microseconds a call of run(n), which makes n calls.
local function timed(run, windows, target_s)
  run(3)
  local shortest = math.huge
  for _ = 1, 5 do
    local before = now()
    run(1)
    shortest = math.min(shortest, now() - before)
  end
  local n = math.max(1, math.min(20000, math.floor(target_s * 1e9 / math.max(shortest, 50))))
  run(n) -- traces and caches, as the peer's interpreter warms up in its first window
  local us = {}
  for i = 1, windows do
    local before = now()
    run(n)
    us[i] = (now() - before) / n / 1e3
  end
  table.sort(us)
  return us[math.floor(#us / 2) + 1], us[1], us[#us], n
end

-- make: gives the function that is timed; what it cannot do here is a result too.
local function report(name, make, windows, target)
  local ok, us, least, largest, n = pcall(function() return timed(make(), windows, target) end)
  if ok then
    io.write(('{"case": "%s", "us": %.4f, "min_us": %.4f, "max_us": %.4f, "n": %d}\n'):format(
      name, us, least, largest, n))
  else
    io.write(('{"case": "%s", "error": "%s"}\n'):format(name,
      (tostring(us):gsub('["\\\n]', ' '))))
  end
  io.flush()
end

-- Runs what records nothing for a backward pass. Revisions before ridge.inference recorded nothing
-- for a layer that was not in training mode, which was how one began (before_after.lua).
local has_inference, inference = pcall(function() return ridge.inference end)
if not has_inference then
  function inference(f, ...) return f(...) end
end

-- A plan of f(...): as ridge.capture makes it, or, with --passes, after every pass.
local function plan_of(f, ...)
  if not opt.passes then return ridge.capture(f, ...) end
  local names = {}
  for i, pass in ipairs(ridge.graph.passes()) do names[i] = pass.name end
  return ridge.graph(f, ...):optimize(names):plan()
end

local function runner(plan)
  return function(n) plan:run(n) end
end

--- One case, eager and as a plan.  make() returns the function; calls is how many the function
--- makes. What only runs forward does so in ridge.inference, all calls of a window in one.
local function case(name, make, windows, target, forward_only)
  windows, target = windows or 11, target or 0.05
  local function within(f, ...)
    if forward_only then return inference(f, ...) end
    return f(...)
  end
  if opt.plans or opt.passes then
    if not wanted(name) or opt.passes and not forward_only then return end
    return report(name, function() return runner(plan_of(within, make())) end, windows, target)
  end
  if wanted(name) then
    report(name, function()
      local f = make()
      return function(n) within(repeated, f, n) end
    end, windows, target)
  end
  if wanted(name .. '_plan') then
    report(name .. '_plan', function() return runner(ridge.capture(within, make())) end, windows,
      target)
  end
end

local function forward_case(name, make, windows, target) case(name, make, windows, target, true) end

case('add_64', function()
  local x, y = ridge.randn(64), ridge.randn(64)
  return function() return x + y end
end)

if wanted('add_64_chain') then
  -- 100 chained adds in one plan; the figure is for one of them
  local x, y = ridge.randn(64), ridge.randn(64)
  local plan = ridge.capture(function()
    local z = x
    for _ = 1, 100 do z = z + y end
    return z
  end)
  report('add_64_chain_plan', function()
    return function(n) plan:run(math.ceil(n / 100)) end
  end, 11, 0.02)
end

case('transpose_64', function()
  local x = ridge.randn(64, 64)
  return function() return x:transpose(1, 2):contiguous() end
end)

forward_case('linear_64_b1', function()
  local layer, x = nn.Linear(64, 64), ridge.randn(1, 64)
  return function() return layer(x) end
end)

-- Recorded for a backward pass that does not come.
case('linear_64_b1_recorded', function()
  local layer, x = nn.Linear(64, 64):train(), ridge.randn(1, 64)
  return function() return layer(x) end
end)

for _, net in ipairs(nets.cases) do
  forward_case(net[1], function()
    local module, x = net[2]():eval(), ridge.randn(unpack(net[3]))
    return function() return module(x) end
  end)
end

-- Channels last, without a bias.
for _, dtype in ipairs { 'f32', 'bf16' } do
  forward_case('conv_' .. dtype, function()
    local layer = nn.Conv2d(64, 64, 3, { padding = 1, bias = false, layout = 'nhwc' }):to(dtype)
    local x = ridge.randn(8, 56, 56, 64):to(dtype)
    return function() return layer(x) end
  end)
end

-- Static, as the peer's: bytes in (scale 0.05, zero point 64) and out (scale 1, zero point 0), a
-- scale and a bias for each channel; weights are packed once, as the peer's layer does.
forward_case('conv_int8', function()
  local layer = nn.Conv2d(64, 64, 3, { padding = 1 })
  local w_scale = layer.weight:abs():reshape(64, 576):max(2, true):reshape(64, 1, 1, 1) / 127
  local w = (layer.weight / w_scale):round():to 'i8':set_param(true)
  local x = ((ridge.randn(8, 56, 56, 64) / 0.05):round() + 64):to 'u8'
  local x_scale, y_scale = ridge.full(0.05, 1), ridge.ones(1)
  local options = { padding = 1, layout = 'nhwc', x_zero = 64, bias = layer.bias:detach(),
    dtype = 'u8', y_scale = y_scale }
  w_scale = w_scale:reshape(64):detach()
  return function() return ridge.scaled_conv2d(x, w, x_scale, w_scale, options) end
end)

forward_case('linear_f32', function()
  local layer, x = nn.Linear(2048, 1024), ridge.randn(256, 2048)
  return function() return layer(x) end
end)

forward_case('linear_bf16', function()
  local layer, x = nn.Linear(2048, 1024), ridge.randn(256, 2048)
  local function forward() return layer(x) end
  return function() return ridge.autocast('bf16', forward) end
end)

-- As users quantize: x is rounded to 8 bits at each call, each row by a scale of its own (PyTorch
-- takes one for all rows); f32 in and out.
forward_case('linear_int8', function()
  local net = ridge.quant.dynamic(nn.Sequential(nn.Linear(2048, 1024)):eval())
  local x = ridge.randn(256, 2048)
  return function() return net(x) end
end)

for _, terms in ipairs { 2, 4, 6, 8, 12, 16 } do
  for _, rank in ipairs { 16, 32, 48, 64, 96, 128 } do
    for _, dtype in ipairs { 'f32', 'bf16' } do
      forward_case(('sketched_%d_%d_%s'):format(terms, rank, dtype), function()
        local layer = nn.SKLinear(1024, 512, { num_terms = terms, low_rank = rank, seed = 1,
                                               warn = false }):to(dtype)
        local x = ridge.randn(128, 1024):to(dtype)
        return function() return layer(x) end
      end, 5, 0.02)
    end
  end
end

-- -- Training -------------------------------------------------------------------------------------

local function mlp_step(make_optimizer)
  return function()
    local net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64)):train()
    local x, y = ridge.randn(32, 64), ridge.randn(32, 64)
    local optimizer = make_optimizer(net)
    return function()
      optimizer:zero_grad()
      nn.mse_loss(net(x), y):backward()
      optimizer:step()
    end
  end
end

case('mlp_sgd_b32', mlp_step(function(net) return ridge.optim.SGD(net, { lr = 1e-3 }) end))
case('mlp_adam_b32', mlp_step(function(net) return ridge.optim.Adam(net, { lr = 1e-3 }) end))

case('lenet_sgd_b64', function()
  local net = nn.Sequential(
    nn.Conv2d(1, 6, 5, { padding = 2 }), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
    nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)):train()
  local x, y = ridge.randn(64, 1, 28, 28), ridge.randint(0, 10, 64)
  local optimizer = ridge.optim.SGD(net, { lr = 1e-2, momentum = 0.9 })
  return function()
    optimizer:zero_grad()
    nn.cross_entropy(net(x), y):backward()
    optimizer:step()
  end
end)

case('block_adamw_b8', function()
  local net = nn.TransformerBlock(256, { heads = 4, causal = true }):train()
  local x, y = ridge.randn(8, 128, 256), ridge.randn(8, 128, 256)
  local optimizer = ridge.optim.AdamW(net, { lr = 1e-3 })
  return function()
    optimizer:zero_grad()
    nn.mse_loss(net(x), y):backward()
    optimizer:step()
  end
end)

-- Forward and back, with the gradient of the input.
local function linear_fb(dtype)
  return function()
    local layer, x = nn.Linear(2048, 1024):train(), ridge.randn(256, 2048):requires_grad_()
    local dy = ridge.randn(256, 1024):to(dtype)
    return function()
      layer.weight:zero_grad()
      layer.bias:zero_grad()
      x:zero_grad()
      local y = dtype == 'f32' and layer(x) or ridge.autocast(dtype, layer, x)
      y:backward(dy)
    end
  end
end

case('linear_f32_fb', linear_fb 'f32')
case('linear_bf16_fb', linear_fb 'bf16')

local function attention(dtype, back)
  return function()
    local q, k, v, dy = unpack((function()
      local list = {}
      for i = 1, 4 do list[i] = ridge.randn(4, 8, 1024, 64):to(dtype) end
      return list
    end)())
    if not back then return function() return nn.attention(q, k, v) end end
    for _, x in ipairs { q, k, v } do x:requires_grad_() end
    return function()
      for _, x in ipairs { q, k, v } do x:zero_grad() end
      nn.attention(q, k, v):backward(dy)
    end
  end
end

for _, dtype in ipairs { 'f32', 'bf16' } do
  case('attention_' .. dtype, attention(dtype, false), 7)
  case('attention_' .. dtype .. '_fb', attention(dtype, true), 5)
end

-- SPDX-License-Identifier: MIT
--- What must agree on a device, in shapes that tile kernels care for: libraries of the device's
--- maker, ridge's own kernels and the CPU in f64; a whole training step as a plan and eager.  TAP.
--
--     ./ridge scripts/gpu/agree.lua [--tiny] [--seed N]

local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local nn = ridge.nn

local opt = ridge.args {
  { 'tiny', false, 'sizes for the simulator' },
  { 'seed', 1, 'of all numbers', integer = true },
}
local DEVICE = 'cuda:0'
local UNIT = { f32 = 2 ^ -24, f16 = 2 ^ -11, bf16 = 2 ^ -8 }
ridge.seed(opt.seed)

local count, failed = 0, 0
local function report(ok, name, why)
  count = count + 1
  if not ok then failed = failed + 1 end
  io.write(('%s %d - %s%s\n'):format(ok and 'ok' or 'not ok', count, name,
    ok and '' or ': ' .. tostring(why)))
  io.flush()
end

-- The largest distance, in units of rounding of the largest number there is; nan where one has nan
-- and the other has not.
local function distance(y, wanted, dtype)
  local here = y:to 'cpu':to 'f64'
  local scale = wanted:abs():max():item()
  return (here - wanted):abs():max():item() / (UNIT[dtype] * math.max(scale, 1e-30))
end

-- -- Libraries, own kernels, the CPU ------------------------------------------------------------

-- f(tensors on a device) against the same in f64 on the CPU, in every mode of a device.
local function agrees(name, dtype, units, inputs, f)
  local modes = C.rg_device_modes_now()
  local before = { modes.vendor, modes.deterministic }
  local wide, there = {}, {}
  for i, x in ipairs(inputs) do
    local rounded = x.dtype == 'i64' and x or x:to(dtype)
    wide[i] = x.dtype == 'i64' and x or rounded:to 'f64'
    there[i] = rounded:to(DEVICE)
  end
  local wanted = f(unpack(wide))
  for vendor = 1, 0, -1 do
    for deterministic = 0, 1 do
      modes.vendor, modes.deterministic = vendor, deterministic
      local what = ('%s %s vendor=%d deterministic=%d'):format(name, dtype, vendor, deterministic)
      local ok, far = pcall(function() return distance(f(unpack(there)), wanted, dtype) end)
      report(ok and far <= units, what, ok and ('%.3g units apart'):format(far) or far)
      if deterministic == 1 then
        local same, why = pcall(function()
          return f(unpack(there)):to 'cpu':equal(f(unpack(there)):to 'cpu')
        end)
        report(same and why, what .. ' gives the same bits again', why)
      end
    end
  end
  modes.vendor, modes.deterministic = before[1], before[2]
end

local products = opt.tiny and { { 16, 24, 8 }, { 17, 33, 9 } }
  or { { 128, 128, 128 }, { 256, 512, 1024 }, { 129, 257, 65 }, { 1, 4096, 4096 }, { 1000, 72, 8 },
    { 64, 8191, 64 }, { 2048, 2048, 2048 } }
for _, dtype in ipairs { 'f32', 'f16', 'bf16' } do
  for _, s in ipairs(products) do
    local m, k, n = unpack(s)
    local a, b = ridge.randn(m, k), ridge.randn(k, n)
    local at = ('%dx%dx%d'):format(m, k, n)
    agrees('matmul ' .. at, dtype, 8, { a, b }, function(x, y) return x:matmul(y) end)
    agrees('matmul transposed ' .. at, dtype, 8, { a:t():contiguous(), b:t():contiguous() },
      function(x, y) return x:t():matmul(y:t()) end)
    agrees('batched matmul ' .. at, dtype, 8, { ridge.randn(3, math.min(m, 300), k), b },
      function(x, y) return x:matmul(y) end)
  end
  local heads = opt.tiny and { { 2, 20, 8 } } or { { 4, 300, 64 }, { 2, 1024, 128 }, { 3, 77, 40 } }
  for _, s in ipairs(heads) do
    local list = {}
    for i = 1, 3 do list[i] = ridge.randn(1, unpack(s)) end
    for _, causal in ipairs { false, true } do
      agrees(('attention %dx%dx%d%s'):format(s[1], s[2], s[3], causal and ' causal' or ''), dtype,
        16, list, function(q, k, v) return nn.attention(q, k, v, { causal = causal }) end)
    end
  end
  local wide = opt.tiny and 40 or 4096
  agrees('softmax', dtype, 16, { ridge.randn(33, wide) }, function(x) return x:softmax() end)
end

-- -- Whole steps --------------------------------------------------------------------------------

-- Parameters after some steps, and the loss of the last.
local function trained(device, dtype, as_plan)
  ridge.seed(opt.seed)
  local width, heads = opt.tiny and 8 or 128, opt.tiny and 2 or 4
  local net = nn.Sequential(nn.TransformerBlock(width, { heads = heads, causal = true, seed = 1 }),
    nn.Linear(width, width, { seed = 2 }))
  net:to(dtype)
  net:to(device):train()
  local optimizer = ridge.optim.AdamW(net, { lr = 1e-3 })
  local x = ridge.randn(2, opt.tiny and 6 or 64, width):to(dtype):to(device)
  local y = ridge.randn(2, opt.tiny and 6 or 64, width):to(dtype):to(device)
  local function step()
    optimizer:zero_grad()
    local loss = nn.mse_loss(net(x), y)
    loss:backward()
    optimizer:step { scale = optimizer:clip(1) }
  end
  step()
  if as_plan then
    ridge.capture(step):run(7) -- capturing is a step as well
  else
    for _ = 1, 8 do step() end
  end
  return net(x):detach()
end

for _, dtype in ipairs { 'f32', 'bf16' } do
  local ok, why = pcall(function()
    local eager = trained(DEVICE, dtype, false)
    local plan = trained(DEVICE, dtype, true)
    local cpu = trained('cpu', dtype, false):to 'f64'
    local far = distance(plan, eager:to 'cpu':to 'f64', dtype)
    report(far <= 16, dtype .. ' steps as a plan and eager', ('%.3g units apart'):format(far))
    -- rounding grows from step to step, through AdamW's division by small second moments
    far = distance(eager, cpu, dtype)
    report(far <= 2000, dtype .. ' steps on the device and on the CPU',
      ('%.3g units apart'):format(far))
  end)
  if not ok then report(false, dtype .. ' steps', why) end
end

io.write(('1..%d\n'):format(count))
os.exit(failed == 0 and 0 or 1)

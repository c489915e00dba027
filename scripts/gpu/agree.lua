-- SPDX-License-Identifier: MIT
--- What must agree on a device, in shapes that tile kernels care for: each way that an operation
--- can take there (libraries of the device's vendor, ridge's own kernels, packs of elements and
--- single ones, rows in registers and longer ones) and the CPU in f64; that it took that way is
--- looked up in the trace. A whole training step as a plan and eager. TAP; at the end which ways
--- were taken, and which operations were not tried here.
--
--     ./ridge scripts/gpu/agree.lua [--tiny] [--seed N]

local ffi = require 'ffi'
local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local nn = ridge.nn

local lost = assert(loadfile((arg[0]:match '^(.*/)' or './') .. 'lost.lua'))()
local opt = ridge.args(lost.with {
  { 'tiny', false, 'sizes for the simulator' },
  { 'seed', 1, 'of all numbers', integer = true },
})
local DEVICE = ridge.device.best()
local UNIT = { f32 = 2 ^ -24, f16 = 2 ^ -11, bf16 = 2 ^ -8 }
ridge.seed(opt.seed)

local count, failed = opt.carried[1], opt.carried[2] or 0
local met = 0
local function report(ok, name, why)
  count = count + 1
  if not ok then failed = failed + 1 end
  io.write(('%s %d - %s%s\n'):format(ok and 'ok' or 'not ok', count, name,
    ok and '' or ': ' .. tostring(why)))
  io.flush()
end

-- f is one test, which reports what it finds; a device that is lost in it ends this process only.
local function one(name, f)
  met = met + 1
  if not lost.wants(opt, met) then return end
  local ok, why = xpcall(f, debug.traceback)
  local gone = lost.why()
  if not ok then report(false, name, why) end
  if gone then
    if ok then report(false, name .. ' left the device', gone) end
    if not lost.is_alone() then
      lost.again(met)
      lost.go_on(met + 1, { count, failed })
    end
  end
end

-- The largest distance, in units of rounding of the largest number there is; nan where one has nan
-- and the other has not.
local function distance(y, wanted, dtype)
  local here = y:to 'cpu':to 'f64'
  wanted = wanted:to 'f64' -- of a comparison it is not
  local scale = wanted:abs():max():item()
  return (here - wanted):abs():max():item() / (UNIT[dtype] * math.max(scale, 1e-30))
end

-- -- Ways ---------------------------------------------------------------------------------------

local modes = C.rg_device_modes_now()
local seen, ways = {}, {} -- operations that ran on the device; those with the way they took

-- f's result, and the ways that calls of an operation took while it ran.
local function watched(f, op)
  local y
  local took = {}
  for _, o in ipairs(ridge.profile(function() y = f() end).operations) do
    if o.device_ns then
      seen[o.op] = true
      ways[o.op .. ' [' .. o.path .. ']'] = true
      if o.op == op then took[#took + 1] = o.path end
    end
  end
  return y, took
end

-- w.f of tensors on the device gives what it gives in f64 on the CPU, and w.op took the way w.path
-- there (nil: any). w: name, dtype, units, inputs, op, path, f, again (the same bits once more).
local function try_now(w)
  local wide, there = {}, {}
  for i, x in ipairs(w.inputs) do
    local whole = x.dtype == 'i64'
    local rounded = whole and x or x:to(w.dtype)
    wide[i] = whole and x or rounded:to 'f64'
    there[i] = rounded:to(DEVICE)
  end
  local name = ('%s %s%s'):format(w.name, w.dtype, w.path and ' by ' .. w.path or '')
  local ok, why = pcall(function()
    if w.path == 'cudnn' then w.f(unpack(there)) end -- it plans what comes again
    local y, took = watched(function() return w.f(unpack(there)) end, w.op)
    local far = distance(y, w.wanted or w.f(unpack(wide)), w.dtype)
    if not (far <= w.units) then return ('%.3g units apart'):format(far) end
    for _, path in ipairs(w.path and took or {}) do
      if path ~= w.path then return ('%s went by %s'):format(w.op, path) end
    end
    if w.path and #took == 0 then return w.op .. ' did not run on the device' end
    if w.again and not y:to 'cpu':equal(w.f(unpack(there)):to 'cpu') then
      return 'other bits again'
    end
  end)
  report(ok and why == nil, name, why)
end

local function try(w)
  one(('%s %s'):format(w.name, w.dtype), function() try_now(w) end)
end

local helpers = { opt = opt, modes = modes, try = try, one = one, report = report,
  watched = watched,
  cudnn = ridge.device.libraries(DEVICE, true).cudnn } -- its version, or nil
for _, part in ipairs { 'products', 'scaled', 'others' } do
  assert(loadfile((arg[0]:match '^(.*/)' or './') .. 'agree_' .. part .. '.lua'))(helpers)
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
  one(dtype .. ' steps', function()
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
end

local list, left = {}, {}
for way in pairs(ways) do list[#list + 1] = way end
table.sort(list)
local facts = ffi.new 'rg_op_facts'
for i = 0, C.rg_op_count() - 1 do
  local name = C.rg_op_facts_of(i, facts) == 0 and ffi.string(facts.name)
  if name and not seen[name] then left[#left + 1] = name end
end
io.write(('# ways: %s\n# not tried here: %s\n'):format(table.concat(list, ', '),
  #left > 0 and table.concat(left, ' ') or 'none'))
io.write(('1..%d\n'):format(count))
os.exit(failed == 0 and 0 or 1)

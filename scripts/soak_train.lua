-- SPDX-License-Identifier: MIT
--- 10,000 training steps without a scope, as typed at the prompt, with a Lua heap of 100 MB beside
--- them: live bytes must stay where they were.
--
--     ./ridge scripts/soak_train.lua [STEPS]

local ridge = require 'ridge'
local nn = ridge.nn

local steps = tonumber(arg[1] or 10000)
local ballast = {}
for i = 1, 1000000 do ballast[i] = { i, tostring(i) } end

local net = nn.Sequential(nn.Linear(64, 128, { seed = 1 }), nn.ReLU(), nn.Dropout(0.1),
  nn.Linear(128, 64, { seed = 2 })):train()
local optimizer = ridge.optim.AdamW(net)
local x, y = ridge.randn(32, 64), ridge.randn(32, 64)

local function live()
  collectgarbage()
  collectgarbage()
  return ridge.memory.stats().live
end

local function step()
  optimizer:zero_grad()
  local loss = nn.mse_loss(net(x), y)
  loss:backward()
  optimizer:step { scale = optimizer:clip(1) }
end

for _ = 1, 100 do step() end
local before, heap = live(), collectgarbage 'count' / 1024
ridge.memory.reset_peak()
local began = ridge.clock()
for _ = 1, steps do step() end
local us = (ridge.clock() - began) / steps * 1e6
local peak, after = ridge.memory.stats().peak, live()
print(('%d steps of %.0f us beside a Lua heap of %.0f MB: live %d bytes before, %d after, peak %d')
  :format(steps, us, heap, before, after, peak))
assert(#ballast == 1000000)
if after ~= before then
  io.stderr:write(('%d bytes are leaked\n'):format(after - before))
  os.exit(1)
end

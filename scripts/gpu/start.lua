-- SPDX-License-Identifier: MIT
--- The first seconds with a GPU: one product by cublasLt, one attention by cuDNN, one chain that
--- NVRTC compiled, each beside the CPU. A library that is there and did not do its part fails.
--
--     ./ridge scripts/gpu/start.lua

local ridge = require 'ridge'

local DEVICE = ridge.device.best()
local libraries = ridge.device.libraries(DEVICE, true)
local why, failed = libraries.why or {}, 0

-- The way an operation took while f ran, or ''.
local function way(op, f)
  local y
  for _, o in ipairs(ridge.profile(function() y = f() end).operations) do
    if o.op == op then return y, o.path end
  end
  return y, ''
end

local function say(ok, name, ...)
  if not ok then failed = failed + 1 end
  print(('%s %s: %s'):format(ok and 'ok' or 'not ok', name, (...):format(select(2, ...))))
  io.flush()
end

local function far(y, wanted)
  return (y:to 'cpu':to 'f64' - wanted:to 'f64'):abs():max():item()
end

local function try(name, f)
  local ok, err = pcall(f)
  if not ok then say(false, name, '%s', tostring(err):match '[^\n]*') end
end

try('a product', function()
  local a, b = ridge.randn(64, 64), ridge.randn(64, 64)
  local ag, bg = a:to(DEVICE), b:to(DEVICE)
  local y, path = way('matmul', function() return ag:matmul(bg) end)
  local d = far(y, a:matmul(b))
  say(d < 1e-3 and path == 'cublasLt', 'a product', 'by %s, %.2g from the CPU', path, d)
end)

try('attention', function()
  local q = ridge.randn(1, 2, 64, 64):to 'bf16'
  local g = q:to(DEVICE)
  ridge.nn.attention(g, g, g) -- cuDNN plans what comes again
  local y, path = way('attention', function() return ridge.nn.attention(g, g, g) end)
  local d = far(y, ridge.nn.attention(q, q, q))
  say(d < 0.1 and (path == 'cudnn' or libraries.cudnn == nil) and why.cudnn == nil, 'attention',
    'by %s, %.2g from the CPU; cuDNN %s', path, d, why.cudnn or libraries.cudnn or 'is not here')
end)

try('a chain', function()
  local x = ridge.randn(1000)
  local g = x:to(DEVICE)
  local plan = ridge.capture(function() return ((g * 2 + 1):tanh() * g):exp() end)
  plan:run(3)
  local d = far(plan.results[1], ((x * 2 + 1):tanh() * x):exp())
  say(d < 1e-3 and (libraries.nvrtc == nil or why.nvrtc == nil), 'a chain',
    '%.2g from the CPU; NVRTC %s', d, why.nvrtc or libraries.nvrtc or 'is not here')
end)

os.exit(failed == 0 and 0 or 1)

-- SPDX-License-Identifier: MIT
-- Run by lost_spec on the simulated GPU with RG_SIM_FAULT=k_softmax: a line for each thing that is
-- asked of the device, `name<tab>code<tab>message`, the first of which loses it.
local ridge = require 'ridge'

local DEVICE = { device = 'sim:0' }
local x, w = ridge.randn(8, 16, DEVICE), ridge.randn(16, 16, DEVICE)
local image, kernel = ridge.randn(1, 2, 6, 6, DEVICE), ridge.randn(2, 2, 3, 3, DEVICE)
local q = ridge.randn(1, 2, 8, 8, DEVICE):to 'bf16'
local low = ridge.nn.LowRankLinear(16, 16, { rank = 4 }):to(DEVICE.device)
local event = ridge.device.event(DEVICE.device):set()
x:to 'cpu'
-- blocks of every small size for what is asked later: who lacks memory is refused before all others
local blocks = {}
for n = 16, 4096, 16 do
  for _ = 1, 3 do blocks[#blocks + 1] = ridge.empty(n, DEVICE) end
end
for _, block in ipairs(blocks) do block:release() end

local function try(name, f)
  local ok, err = pcall(f)
  local message = ok and 'it was done' or tostring(err.message or err):gsub('%s+', ' ')
  print(('%s\t%s\t%s'):format(name, ok and 'OK' or err.code, message))
end

try('loses', function()
  x:softmax()
  x:to 'cpu'
end)
try('wait', function() ridge.device.wait(DEVICE.device) end)
try('add', function() return x + x end)
try('to the device', function() return ridge.ones(3):to(DEVICE.device) end)
try('product', function() return x:matmul(w) end)
try('another product', function() return w:t():matmul(w) end)
try('conv2d', function() return image:conv2d(kernel) end)
try('attention', function() return ridge.nn.attention(q, q, q) end)
try('workspace', function() return ridge.inference(low, x) end)
try('sum', function() return w:sum():item() end)
try('event', function() event:wait() end)
try('plan', function() ridge.capture(function() return w * 2 end) end)
-- the allocator gives back what it has first
try('large', function() return ridge.empty(2 ^ 22, DEVICE) end)
try('pinned', function() return ridge.zeros(1e6, { pinned = true }) end)

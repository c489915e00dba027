-- SPDX-License-Identifier: MIT
-- net:analyze of a net on a simulated device: counts are those of the CPU, times the device's own.

local ridge = require 'ridge'
local nn = ridge.nn
local simulated = dofile 'tests/lua/simulated.lua'

if not simulated.open() then
  pending 'an analysis on a device (no simulated one was built)'
  return
end

it('an analysis on a device counts what it counts on the CPU, and times the device', function()
  local function net_of() return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)) end
  local x = ridge.randn(4, 8)
  local on_cpu = net_of():analyze(x, { rounds = 0, roof = false })
  local a = net_of():to 'sim:0':analyze(x:to 'sim:0', { rounds = 2, roof = false })
  assert.equal('sim:0', a.device)
  for _, field in ipairs { 'params', 'bytes', 'flops', 'other_flops', 'backward_flops',
    'saved_bytes' } do
    assert.equal(on_cpu[field], a[field])
  end
  assert.equal(0, a.layers[1].ms) -- Sequential asks, and the device does nothing for it
  for i = 2, 4 do assert.is_true(a.layers[i].ms > 0 and a.layers[i].backward_ms > 0) end
  assert.is_true(a.layers_ms < a.watched_ms)
  local lines = a:what_if { batch = 8, measure = true, rounds = 2 }
  assert.equal(lines[1].flops, lines[2].flops)
end)

-- SPDX-License-Identifier: MIT
-- Run by device_spec with RIDGE_GPU naming the simulated GPU: tensors, layers and plans there give
-- what they give on the CPU.
local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local memory = ridge.memory

local function check(what, ok, why)
  if not ok then print('not ok ' .. what .. ': ' .. tostring(why)) end
end

local function refused(what, words, f, ...)
  local ok, err = pcall(f, ...)
  check(what, not ok and tostring(err):find(words, 1, true), ok and 'it was allowed' or err)
end

-- what is drawn there is what is drawn here
for _, name in ipairs { 'randn', 'rand' } do
  ridge.seed(5)
  local here = ridge[name](33, 7)
  ridge.seed(5)
  local there = ridge[name](33, 7, { device = 'sim:0' })
  check(name, there.device == 'sim:0' and there:to('cpu'):equal(here), there)
end

-- there and back, in every type, with gaps too
for _, dtype in ipairs { 'f32', 'f64', 'f16', 'bf16', 'i64', 'i32', 'i8', 'u8', 'bool',
  'f8e4m3', 'f8e5m2' } do
  local x = ridge.tensor({ { 1, 0, 3 }, { 4, 5, 0 } }, { dtype = dtype })
  local there = x:to 'sim:0'
  check('to ' .. dtype, there:to('cpu'):equal(x) and there:t():to('cpu'):equal(x:t()), there)
  check('element of ' .. dtype, there:get(2, 1) == x:get(2, 1) and #there:tolist() == 2)
end

-- copies in every order of the axes, which join where they can; tiles transpose memory
for _, shape in ipairs { { 20, 3, 7 }, { 3, 7, 20 }, { 5, 3, 2, 18 }, { 17, 2, 9, 2 } } do
  local here = ridge.randn(unpack(shape))
  local there = here:to 'sim:0'
  local function go(order, n)
    if n == 0 then
      local name = 'copy of ' .. table.concat(shape, ' x ') .. ' as ' .. table.concat(order, ', ')
      local wanted = here:permute(unpack(order)):contiguous()
      check(name, there:permute(unpack(order)):contiguous():to('cpu'):equal(wanted), 'it differs')
    end
    for i = 1, n do -- one of those that are left goes behind
      order[i], order[n] = order[n], order[i]
      go(order, n - 1)
      order[i], order[n] = order[n], order[i]
    end
  end
  local axes = {}
  for i = 1, #shape do axes[i] = i end
  go(axes, #shape)
end

-- a chain of operations, eager and as a plan
local w = ridge.randn(7, 5)
local x = ridge.randn(4, 7)
local function f(a, b) return (a:matmul(b) * 0.5):tanh() + 1 end
local wanted = f(x, w)
local wg, xg = w:to 'sim:0', x:to 'sim:0'
check('a chain', f(xg, wg):to('cpu'):allclose(wanted, 1e-5, 1e-6))
local plan = ridge.capture(function() return f(xg, wg) end)
plan:run(3)
check('a plan', plan.results[1]:to('cpu'):allclose(wanted, 1e-5, 1e-6))

-- a plan that draws goes on drawing, as one graph, what the CPU draws
local C_facts = require('ffi').new 'rg_plan_facts'
local function noted(p)
  C.rg_plan_facts_of(p:handle(), C_facts)
  return C_facts.device_graph == 1
end
local some, w16 = ridge.ones(64, 33), ridge.randn(33, 16)
for name, draws in pairs {
  dropout = function(v) return v:dropout(0.3) end,
  rand = function(v) return ridge.rand(5, 7, { device = v.device }) end,
  randn = function(v) return ridge.randn(9, { device = v.device }) end,
  both = function(v) return v:dropout(0.5):matmul(w16:to(v.device)) end,
} do
  local want, got, there = {}, {}, some:to 'sim:0'
  ridge.seed(7)
  for i = 1, 4 do want[i] = draws(some):clone() end
  ridge.seed(7)
  local drawing
  if name ~= 'both' then
    drawing = ridge.capture(draws, there)
    got[1] = drawing.results[1]:to 'cpu'
    for i = 2, 4 do got[i] = drawing:run():to 'cpu' end
    check('one graph of ' .. name, noted(drawing))
  else
    for i = 1, 4 do got[i] = draws(there):to 'cpu' end
  end
  for i = 1, 4 do
    check(name .. ' drawn ' .. i, got[i]:allclose(want[i], 1e-5, 1e-5), got[i])
  end
end

-- a layer, and its gradients
local layer = ridge.nn.Linear(7, 3, { seed = 1 })
local y = layer(x)
layer:to 'sim:0'
check('a layer', layer.weight.device == 'sim:0' and layer(xg):to('cpu'):allclose(y, 1e-5, 1e-6))

-- what is refused says why
refused('two devices', 'tensors on sim:0 and on cpu', function() return xg + x end)
refused('another GPU', 'there is 1 GPU', ridge.zeros, 2, { device = 'sim:1' })
refused('moving in a plan', 'a plan stays on one device', ridge.capture, function()
  return x:to 'sim:0'
end)

-- memory is counted by device, and given back
memory.trim 'sim:0' -- what is dead goes now, not in between
local before = memory.stats('sim:0').live
local big = ridge.zeros(1000, { device = 'sim:0' })
check('memory', memory.stats('sim:0').live == before + 4000, memory.stats('sim:0').live)
big:release()
check('memory again', memory.stats('sim:0').live == before)
memory.set_limit(before + 100, 'sim:0')
refused('a limit', 'would pass the limit', ridge.zeros, 1000, { device = 'sim:0' })
memory.set_limit(0, 'sim:0')
check('print', tostring(xg):find('sim:0', 1, true), tostring(xg))
check('wait', C.rg_device_wait(1) == 0)
-- what went wrong on a device is told by waiting for all that are open
local rows = ridge.tensor({ 0, 7 }, { dtype = 'i64', device = 'sim:0' })
local taken = ridge.ones(3, 2, { device = 'sim:0' }):take(rows)
check('wait for all', taken.count == 4 and C.rg_device_wait(C.RG_EVERY_DEVICE) ~= 0)
check('once', C.rg_device_wait(C.RG_EVERY_DEVICE) == 0)
print 'done'

-- SPDX-License-Identifier: MIT
--- What is believed of CUPTI (gpu/cupti/README.md), each seen once: a line `name held: facts` or
--- `name FAILED: facts`. Exit code 1 if one FAILED, 77 where kernels cannot be had, and why.
---
---     ./ridge scripts/gpu/kernel_times.lua [--tiny]

local ridge = require 'ridge'
local kernels = require 'ridge.profile.kernels'

local opt = ridge.args { { 'tiny', false, 'sizes for the simulator, where nothing is timed' } }
local DEVICE = ridge.device.best()
local GPU = { device = DEVICE }
local size, times = opt.tiny and 32 or 2048, opt.tiny and 3 or 50

local failed = 0
local function row(name, ok, format, ...)
  if not ok then failed = failed + 1 end
  print(('%s %s: %s'):format(name, ok and 'held' or 'FAILED', format:format(...)))
end

local net = ridge.nn.Sequential(ridge.nn.Linear(size, size), ridge.nn.GELU(),
  ridge.nn.LayerNorm(size)):to(DEVICE)
local x = ridge.randn(size, size)

local function step()
  local y = net(x:to(DEVICE)):softmax()
  y:sum():to 'cpu'
end

-- Microseconds of a step, the median of some.
local clock = require('ridge.ffi.lib').rg_clock_ns
local function pace(f)
  local list = {}
  for i = 1, 15 do
    local began = clock()
    f()
    ridge.device.wait(DEVICE)
    list[i] = tonumber(clock() - began) / 1e3
  end
  table.sort(list)
  return list[8]
end

for _ = 1, 3 do step() end -- libraries choose, kernels are loaded
local plan = ridge.capture(ridge.inference, net, ridge.randn(size, size, GPU))
plan:run(3)
local before = pace(step)
local p = ridge.profile(function() for _ = 1, times do step() end end,
  { kernels = true, lines = false })
local after = pace(step)

if not p.kernels then
  print('skip: ' .. tostring(p.unavailable.cupti))
  os.exit(77, true)
end
print(p:table { by = 'kernel' })

local t = p.traced
local missing = t.dropped + t.full + t.untimed + t.unknown + t.damaged
row('whole', missing == 0, '%d records of version %d; dropped %d, behind the room %d, untimed %d, '
  .. 'unknown %d, damaged buffers %d', t.n, t.version, t.dropped, t.full, t.untimed, t.unknown,
  t.damaged)

-- Which operation each kernel is of.
local lone, by, joined = 0, {}, 0
for _, k in ipairs(p.kernels) do
  if k.op then
    joined = joined + k.calls
    if k.kind == 'kernel' then by[k.op] = (by[k.op] or 0) + k.ns end
  else
    lone = lone + k.calls
  end
end
row('joined', joined > 0 and lone == 0, '%d records have an operation, %d have none', joined, lone)

-- Kernels of a call lie inside of the time between its two events.
for _, op in ipairs(p.operations) do
  local ns = by[op.op]
  row('inside ' .. op.op, ns ~= nil and op.device_ns ~= nil
    and (opt.tiny or ns <= 1.02 * op.device_ns), '%.1f us of kernels in %.1f us between events',
    (ns or 0) / 1e3, (op.device_ns or 0) / 1e3)
end

-- Their times are on the clock of the profile.
local window, early, late = p.windows[1], 0, 0
for each in kernels.each(p) do
  if each.from_ns then
    early = math.max(early, window.from - each.from_ns)
    late = math.max(late, each.to_ns - window.to)
  end
end
row('clock', early < 1e5 and late < 1e5, 'the first begins %.1f us before the profile at most, '
  .. 'the last ends %.1f us behind it', early / 1e3, late / 1e3)

local odd = 0
for _, k in ipairs(p.kernels) do
  if k.kind == 'kernel' and not (k.occupancy and k.occupancy > 0 and k.occupancy <= 1
      and k.registers > 0) then
    odd = odd + 1
  end
end
row('occupancy', odd == 0, '%d kernels whose registers or occupancy make no sense', odd)

plan:run(3) -- graphs go on behind it
ridge.device.wait(DEVICE)
row('graphs', true, 'a graph was replayed behind the profile')
local second = ridge.profile(step, { kernels = true, lines = false })
row('again', second.kernels and #second.kernels > 0, '%s',
  second.unavailable.cupti or 'a second one')
print(('a step took %.1f us before, %.1f us behind the profile'):format(before, after))
os.exit(failed > 0 and 1 or 0, true)

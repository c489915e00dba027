-- SPDX-License-Identifier: MIT
-- What a profile costs what it looks at: an event, in replays of a plan of small steps and of an
-- operation that is called, and a training step of a network that learns digits (784-128-10,
-- batch 64), with what ridge.profile turns on and without it, in turn. Processor time of one
-- thread, so that other programs matter little.
--
--     taskset -c 0 ./ridge scripts/profile_cost.lua

local ffi = require 'ffi'
local ridge = require 'ridge'
local recording = require 'ridge.profile.recording'
local samples = require 'ridge.profile.samples'
local ring = require 'ridge.ring'

ffi.cdef 'struct cost_time { long s, ns; }; int clock_gettime(int clock, struct cost_time *t);'

local THREAD = 3 -- CLOCK_THREAD_CPUTIME_ID
local t = ffi.new 'struct cost_time'

local function cpu_ns()
  ffi.C.clock_gettime(THREAD, t)
  return tonumber(t.s) * 1e9 + tonumber(t.ns)
end

local function quartiles(list)
  table.sort(list)
  return list[math.ceil(#list / 4)], list[math.ceil(#list / 2)], list[math.ceil(3 * #list / 4)]
end

local function timed(f, n)
  local before = cpu_ns()
  for _ = 1, n do f() end
  return (cpu_ns() - before) / n
end

-- Pairs of blocks, one with and one without, which of them comes first in turn.
local function pairs_of(f, n, rounds, on, off)
  local with, without, difference, ratio = {}, {}, {}, {}
  timed(f, n)
  for k = 1, rounds do
    local a, b
    if k % 2 == 0 then b = timed(f, n) end
    on()
    a = timed(f, n)
    off()
    if k % 2 == 1 then b = timed(f, n) end
    with[k], without[k], difference[k], ratio[k] = a, b, a - b, a / b
  end
  return with, without, difference, ratio
end

ridge.backend.set_threads(1)

-- -- An event ------------------------------------------------------------------------------------

local STEPS = 200
local x = ridge.ones(1)
local plan = ridge.graph(function()
  local y = x
  for _ = 1, STEPS do y = -y end
  return y
end):plan()
local function event(kind, what, f, calls, n)
  local reader = ring.open(kind, 1024)
  reader:hear(false)
  local _, without, difference = pairs_of(f, n, 400,
    function() reader:hear(true) end, function() reader:hear(false) end)
  reader:close()
  local first, middle, last = quartiles(difference)
  local _, alone = quartiles(without)
  print(('%s takes %.1f ns, an event of it %.1f ns more (quartiles %.1f .. %.1f)')
    :format(what, alone / calls, middle / calls, first / calls, last / calls))
end

event('step', 'a step of a plan', function() plan:run(10) end, 10 * STEPS, 10)
local u, v = ridge.ones(64), ridge.ones(64)
event('op', 'x:add_(y) on 64 floats', function()
  for _ = 1, 100 do u:add_(v) end
end, 100, 20)

-- -- A training step -----------------------------------------------------------------------------

local nn = ridge.nn
local net = nn.Sequential(nn.Linear(784, 128, { seed = 1 }), nn.ReLU(),
  nn.Linear(128, 10, { seed = 2 }))
local optimizer = ridge.optim.SGD(net, { lr = 1e-3 })
local images, labels = ridge.randn(64, 784), ridge.zeros(64, { dtype = 'i64' })

local function step()
  optimizer:zero_grad()
  nn.cross_entropy(net(images), labels):backward()
  optimizer:step()
end

local hearing = { kinds = 'op step plan range copy wait', capacity = ring.fitting(48 * 2 ^ 20),
  hears = true }
local sampling = assert(samples.new())
sampling.wanted = true
for _ = 1, 200 do step() end

local function report(what, with, alone_ns, ratio)
  local _, on_ns = quartiles(with)
  local _, off_ns = quartiles(alone_ns)
  local low, half, high = quartiles(ratio)
  print(('a training step takes %.1f us, %.1f us with %s: %.2f %% more (quartiles %.2f .. %.2f %%)')
    :format(off_ns / 1e3, on_ns / 1e3, what, 100 * (half - 1), 100 * (low - 1), 100 * (high - 1)))
end

local with, without, _, ratio = pairs_of(step, 20, 400,
  function() recording.HEARING.on(hearing) end, function() recording.HEARING.off(hearing) end)
report('events', with, without, ratio)

-- The sampler of lines has compiled Lua thrown away when it begins and ends: blocks are long.
with, without, _, ratio = pairs_of(step, 1000, 12, function()
  recording.HEARING.on(hearing)
  samples.SAMPLING.on(sampling)
end, function()
  samples.SAMPLING.off(sampling)
  recording.HEARING.off(hearing)
  sampling.parts = {}
end)
report('events and lines', with, without, ratio)

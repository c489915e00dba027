-- SPDX-License-Identifier: MIT
-- A sweep for `ridge ab`: training steps of a network that learns digits (784-128-10, batch 64)
-- with nobody looking on, with ridge.profile noting events, and with the samples of Lua that it
-- takes unless told otherwise.
--
--     ./ridge ab scripts/profile_ab.lua --a profile=none --b profile=lines --margin 0.03
--     ./ridge ab scripts/profile_ab.lua --a profile=none --b profile=events --margin 0.03 \
--       -- --warm 10 --parts 3
--
-- All three run the same steps on the same tensors: two nets of the same shape differ by up to a
-- fifth on this size by where their pages lie, which is far more than what is looked for.  They
-- take turns in one process, and where sampling begins and ends LuaJIT compiles anew: so each turn
-- is one profile (or none) of many steps, of which the first ones, that compile, are not timed.
-- Events alone make LuaJIT compile nothing anew: their turns may be short (the second command), so
-- that two that are compared lie milliseconds apart, on a machine whose speed changes by seconds.
-- The time is the thread's processor time, and that of a turn the median of its parts.

local ffi = require 'ffi'
local ridge = require 'ridge'
local nn = ridge.nn

local opt = ridge.args {
  { 'warm', 150, 'steps of a turn before those that are timed', integer = true, min = 0 },
  { 'parts', 15, 'parts of a turn', integer = true, min = 1 },
  { 'steps', 10, 'steps of a part', integer = true, min = 1 },
}

ffi.cdef [[
  typedef struct { long s, ns; } profile_ab_time;
  int profile_ab_gettime(int clock, profile_ab_time *) __asm__("clock_gettime");
]]

local THREAD = 3 -- CLOCK_THREAD_CPUTIME_ID; with a timer on it that of the process stands still
                 -- between two ticks of the kernel
local now = ffi.new 'profile_ab_time'
local function cpu_ns()
  ffi.C.profile_ab_gettime(THREAD, now)
  return tonumber(now.s) * 1e9 + tonumber(now.ns)
end

local function training()
  local net = nn.Sequential(nn.Linear(784, 128, { seed = 1 }), nn.ReLU(),
    nn.Linear(128, 10, { seed = 2 }))
  local optimizer = ridge.optim.SGD(net, { lr = 1e-3 })
  local images, labels = ridge.ones(64, 784), ridge.zeros(64, { dtype = 'i64' })
  return function()
    optimizer:zero_grad()
    local loss = nn.cross_entropy(net(images), labels)
    loss:backward()
    optimizer:step()
    return loss
  end
end

local function under(profile, f)
  if profile == 'none' then return f() end
  ridge.profile(f, { lines = profile == 'lines' })
end

local step -- of this process

-- The median time of a part.
local function turn()
  for _ = 1, opt.warm do step() end
  local parts = {}
  for i = 1, opt.parts do
    local began = cpu_ns()
    for _ = 1, opt.steps do step() end
    parts[i] = cpu_ns() - began
  end
  table.sort(parts)
  return parts[math.ceil(opt.parts / 2)]
end

-- What ridge ab times as it times another program: a call is a turn.
local function candidate(profile)
  return {
    is_external = true,
    window = function(calls, windows)
      local out = {}
      for i = 1, windows do
        local ns = 0
        for _ = 1, calls do under(profile, function() ns = ns + turn() end) end
        out[i] = { begin_ns = 0, end_ns = ns, ns = ns, calls = calls, own_cpu_ns = 0 / 0,
          involuntary = 0, migrations = 0 }
      end
      return out
    end,
    results = function() -- the loss of a few steps from the start
      local from_the_start, loss = training(), nil
      under(profile, function() for _ = 1, 10 do loss = from_the_start() end end)
      return { n = 1, loss }
    end,
  }
end

return ridge.sweep 'profile_cost' {
  space = { profile = { 'none', 'events', 'lines' } },
  args = { warm = opt.warm, parts = opt.parts, steps = opt.steps },
  setup = function(p)
    ridge.set_num_threads(1)
    step = step or training()
    return candidate(p.profile)
  end,
  measure = function(_, turns, m) m:time('part', turns) end,
}

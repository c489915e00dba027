-- SPDX-License-Identifier: MIT
-- A sweep for `ridge ab`: training steps of a network that learns digits (784-128-10, batch 64)
-- with nobody looking on, with ridge.profile noting events, and with the samples of Lua that it
-- takes unless told otherwise.
--
--     ./ridge ab scripts/profile_ab.lua --a profile=none --b profile=lines --margin 0.03
--
-- A profile is one ridge.profile of all its steps, in a coroutine: it hears while that runs, and at
-- no other time. Where sampling begins and ends LuaJIT compiles anew, so a call is many steps.

local ridge = require 'ridge'
local nn = ridge.nn

local opt = ridge.args {
  { 'steps', 1000, 'steps of a call', integer = true, min = 1 },
}

local function training()
  local net = nn.Sequential(nn.Linear(784, 128, { seed = 1 }), nn.ReLU(),
    nn.Linear(128, 10, { seed = 2 }))
  local optimizer = ridge.optim.SGD(net, { lr = 1e-3 })
  local images, labels = ridge.randn(64, 784), ridge.zeros(64, { dtype = 'i64' })
  return function()
    local loss
    for _ = 1, opt.steps do
      optimizer:zero_grad()
      loss = nn.cross_entropy(net(images), labels)
      loss:backward()
      optimizer:step()
    end
    return loss
  end
end

-- The same, within a profile that never ends.
local function profiled(steps, lines)
  return coroutine.wrap(function()
    ridge.profile(function()
      while true do coroutine.yield(steps()) end
    end, { lines = lines })
  end)
end

return ridge.sweep 'profile_cost' {
  space = { profile = { 'none', 'events', 'lines' } },
  args = { steps = opt.steps },
  setup = function(p)
    ridge.set_num_threads(1)
    local steps = training()
    local f = p.profile == 'none' and steps or profiled(steps, p.profile == 'lines')
    f() -- what finds memory and compiles is no part of it
    return f
  end,
  measure = function(_, f, m) m:time('steps', f) end,
}

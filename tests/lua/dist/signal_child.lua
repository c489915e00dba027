-- SPDX-License-Identifier: MIT
--- A rank that is told to stop by itself: signal_child.lua HOW.

local ridge = require 'ridge'
local dist = ridge.dist
local world = dist.init { timeout = 60 }

local how = arg[1]
local me = world.size - 1

local function press(step)
  if world.rank == me and step == 3 then require('ridge.host').interrupt() end
end

local RUN = {}

-- A loop that never asks whether it is to stop, and would end with 0.
function RUN.plain()
  for step = 1, 60 do
    press(step)
    dist.all_reduce(ridge.ones(3))
    print('step ' .. step)
    if step > 3 then os.execute 'sleep 0.1' end
  end
end

-- The same in a backward pass, whose hooks start the collective, under the script's own pcall.
function RUN.backward()
  local net = dist.DataParallel(ridge.nn.Linear(3, 2, { seed = 1 }), { bucket_mb = 1e-6 })
  for step = 1, 60 do
    press(step)
    pcall(function() net(ridge.ones(4, 3)):sum():backward() end)
    dist.barrier()
    print('step ' .. step)
    if step > 3 then os.execute 'sleep 0.1' end
  end
end

-- One that asks, and agrees with the others where all of them end.
function RUN.asks()
  local stops
  for step = 1, 60 do
    press(step)
    dist.all_reduce(ridge.ones(3))
    stops = dist.all_reduce(ridge.full(ridge.stopping() and 1 or 0, 1), 'max'):item() == 1
    if stops then
      print('saved at step ' .. step)
      break
    end
  end
  dist.barrier()
  print 'behind'
end

-- A training, then a loop that does not ask.
function RUN.behind()
  local net = dist.DataParallel(ridge.nn.Linear(3, 2, { seed = 1 }))
  local loader = ridge.data.Loader({ ridge.ones(8, 3), ridge.zeros(8):to 'i64' },
    { batch = 2, world = world })
  ridge.Trainer(net, { lr = 0.1, world = world, log_every = 0, say = function() end })
    :fit(loader, { epochs = 1 })
  RUN.plain()
end

-- A training that is told to stop in its first epoch ends behind that epoch, on all ranks.
function RUN.first()
  local Pressed, n = ridge.nn.class 'Pressed', 0
  function Pressed:init() self.layer = self:child('layer', ridge.nn.Linear(3, 2, { seed = 1 })) end
  function Pressed:forward(x)
    n = n + 1
    press(n + 1) -- in the second step of four
    return self.layer(x)
  end
  local loader = ridge.data.Loader({ ridge.ones(24, 3), ridge.zeros(24):to 'i64' },
    { batch = 2, world = world })
  local history, why = ridge.Trainer(dist.DataParallel(Pressed()), { lr = 0.1, world = world,
    log_every = 0, say = function() end }):fit(loader, { epochs = 5 })
  dist.barrier()
  print(('ended %s %d %d'):format(why, #history, n))
end

RUN[how]()

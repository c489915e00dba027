-- SPDX-License-Identifier: MIT
--- Nets that are called in unusual ways, and ranks that come to nothing: nets_child.lua WHAT.

local ridge = require 'ridge'
local what = arg[1]

if what == 'absent' and os.getenv 'OMPI_COMM_WORLD_RANK' == '1' then return end

local dist, nn = ridge.dist, ridge.nn
if what == 'several' then nn.SKLinear(4, 4, { num_terms = 4, low_rank = 4 }) end -- said once, too

-- Under a launcher that does not see it: one that never joins, and those who wait for it.
if what == 'elsewhere' then
  while os.getenv 'OMPI_COMM_WORLD_RANK' == '1' do os.execute 'sleep 0.1' end
  require('ridge.world').PATIENCE = 1
  for _ = 1, 2 do print('waited', (tostring(select(2, pcall(dist.init, { timeout = 1 }))))) end
  os.exit(3)
end

local world = dist.init { timeout = what == 'caught' and 1.5 or 120 }
local rank, size = world.rank, world.size

local function say(...) print(table.concat({ ... }, ' ')) end

-- Rank r has r + 1 rows of them.
local X = ridge.randn({ size * (size + 1) / 2, 3 }, { generator = ridge.generator(5) })
local mine = X:narrow(1, rank * (rank + 1) / 2 + 1, rank + 1)

local function linear() return nn.Linear(3, 2, { seed = 1 }) end
local function loss(y) return y:square():sum { 2 }:mean() end

local reference = linear()
loss(reference(X)):backward()

-- How far its gradient is from that of the whole batch.
local function near(net)
  return tostring((net.weight.grad - reference.weight.grad):abs():max():item() < 1e-6)
end

local Tables = nn.class 'Tables'
function Tables:init(net) self.net = self:child('net', net) end
function Tables:forward(batch) return self.net(batch.rows.x) end

local function failure(f)
  local ok, err = pcall(f)
  return tostring(ok) .. ' ' .. tostring(err):gsub('\n.*', '')
end

local RUN = {}

-- Which rows a gradient is the mean of.
function RUN.rows()
  local net = linear()
  local all = dist.DataParallel(net)
  all:eval()
  loss(all(mine)):backward()
  say('eval', near(net))

  net = linear()
  all = dist.DataParallel(net)
  all(X:narrow(1, 1, 1)):sum():backward()
  net.weight:zero_grad()
  all:eval()
  loss(all(mine)):backward()
  say('eval behind other rows', near(net))

  net = linear()
  all = dist.DataParallel(Tables(net))
  loss(all { rows = { x = mine }, other = { 1, 'a' }, zz = X }):backward()
  say('tables', near(net))

  net = linear()
  all = dist.DataParallel(net)
  local y = all(mine)
  ridge.no_grad(function() all(X) end)
  loss(y):backward()
  say('between', near(net))

  net = linear()
  all = dist.DataParallel(net)
  say('by itself', failure(function() loss(net(mine)):backward() end))
  net.weight:zero_grad()
  loss(all(mine)):backward()
  say('behind that', near(net))
end

-- Several nets.
function RUN.several()
  local first, second = linear(), nn.Linear(2, 1, { seed = 2 })
  local a, b = dist.DataParallel(first), dist.DataParallel(second)
  local whole_a, whole_b = linear(), nn.Linear(2, 1, { seed = 2 })
  whole_b(whole_a(X)):mean():backward()
  for _ = 1, 3 do
    first.weight:zero_grad()
    second.weight:zero_grad()
    b(a(mine)):mean():backward()
  end
  say('both', tostring((first.weight.grad - whole_a.weight.grad):abs():max():item() < 1e-6
    and (second.weight.grad - whole_b.weight.grad):abs():max():item() < 1e-6))

  local net = linear()
  local older = dist.DataParallel(net)
  local newer = dist.DataParallel(net)
  loss(newer(mine)):backward()
  say('newer', near(net))
  say('older', failure(function() older(mine) end))
  ridge.no_grad(function() older(mine) end)
  say('inside', failure(function() dist.DataParallel(nn.Sequential(newer)) end))

  -- one trainer behind the other, and what is left of them is collected at another time everywhere
  local x, y = ridge.randn(20, 3), ridge.randint(0, 2, 20)
  for i = 1, 4 do
    ridge.Trainer(net, { lr = 0.1, world = world, log_every = 0, say = function() end })
      :fit(ridge.data.Loader({ x, y }, { batch = 4, seed = i, world = world }), { epochs = 1 })
    if i % size == rank then
      for _ = 1, 4 do collectgarbage() end
    end
  end
  say('trainers', tostring((dist.same(net))))

  -- one number of the last rank differs, at the end of what is not a multiple of 8 bytes
  local long = ridge.ones(2051)
  if rank == size - 1 then long:narrow(1, 2051, 1):zero_() end
  say('last', select(2, dist.same { ridge.ones(3), long }) or 'nothing')

  ridge.data.Loader({ x, y }, { batch = 30, world = world }) -- more than there are: said once

  nn.SKConv2d(1, 1, 3, { num_terms = 4, low_rank = 4 }) -- likewise
  local changed = linear()
  local optimizer = ridge.optim.SGD(changed, { lr = 0.1, momentum = 0.9 })
  changed.weight = ridge.ones(2, 3)
  loss(changed(X)):backward()
  optimizer:step() -- likewise

  -- the rows of all ranks are not those of a net that is another's now
  local norm = nn.Sequential(nn.Linear(3, 4, { seed = 1 }), nn.BatchNorm(4))
  local joined = dist.DataParallel(norm, { sync_batch_norm = true })
  local apart = dist.DataParallel(norm)
  loss(apart(X * (rank + 1))):backward()
  local alone = nn.BatchNorm(4)
  say('norms', tostring(joined.retired and (norm[2](norm[1](X)) - alone(norm[1](X))):abs():max()
    :item() < 1e-5))
end

-- The last rank has an error that it takes for none, and all end well.
function RUN.caught()
  pcall(function()
    if rank == size - 1 then error 'mine' end
    dist.barrier()
  end)
end

function RUN.absent() say 'joined' end

RUN[what]()

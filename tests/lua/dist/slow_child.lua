-- SPDX-License-Identifier: MIT
--- What ranks do over the transport that waits: slow_child.lua WHAT [FILE or folder].

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local ridge = require 'ridge'
local nn = ridge.nn

local what, hold = arg[1], arg[2]
local world = ridge.dist.init { timeout = 20 }
local RUN = {}

-- Has what a bucket sent come back?
local group = ffi.new 'rg_group *[1]'
assert(C.rg_group_open(C.RG_GROUP_AUTO, 0, group) == 0)
local function ended(bucket) return C.rg_group_ended(group[0], bucket.ticket) ~= 0 end

local function say(...) print(table.concat({ ... }, ' ')) end

-- An all-reduce of 80,000 bytes: how much longer than asked for it took, at least.
function RUN.waits()
  local alpha, beta = os.getenv('RIDGE_SLOW'):match '(.*),(.*)'
  local x = ridge.ones(20000)
  local bytes = 2 * (world.size - 1) / world.size * 80000 -- that a rank receives
  local began = C.rg_clock_ns()
  local sum = ridge.dist.all_reduce(x)
  local took = tonumber(C.rg_clock_ns() - began)
  say('waits', tostring(took >= tonumber(alpha) * 1e3 + tonumber(beta) * bytes),
    tostring(sum:sum():item() == 20000 * world.size))
end

-- A step during which nothing arrives until its last gradient is complete: what was sent by then,
-- and has not come?
local function step(overlap)
  local net = ridge.dist.DataParallel(nn.Sequential(nn.Linear(8, 8, { seed = 1 }), nn.Tanh(),
    nn.Linear(8, 8, { seed = 2 }), nn.Tanh(), nn.Linear(8, 3, { seed = 3 })),
    { bucket_mb = 0.0001, overlap = overlap })
  local x = ridge.randn(4, 8, { generator = ridge.generator(world.rank + 1) })
  net(x):square():mean():backward() -- makes the buckets
  local wanted = net.module:parameters()[1].tensor.grad:clone()
  for _, p in ipairs(net:parameters()) do p.tensor:zero_grad() end

  local Buckets = require 'ridge.dist.buckets'
  local complete, left, sent, there = Buckets.complete, 6, 0, 0
  function Buckets:complete(p, weight)
    complete(self, p, weight)
    left = left - 1
    if left > 0 then return end
    for _, bucket in ipairs(self) do
      if bucket.ticket then
        sent = sent + 1
        if ended(bucket) then there = there + 1 end
      end
    end
    assert(os.remove(hold .. '.' .. world.rank))
  end
  local out = net(x):square():mean()
  ridge.dist.barrier()
  assert(io.open(hold .. '.' .. world.rank, 'w')):close()
  out:backward()
  Buckets.complete = complete
  local same = (net.module:parameters()[1].tensor.grad - wanted):abs():max():item() == 0
  return #net:bucket_list(), sent, there, tostring(same)
end

function RUN.hides()
  say('on', step(true))
  say('off', step(false))
end

-- Does Open MPI yield where it finds nothing? Another MPI has no such variable.
function RUN.idle()
  ffi.cdef 'extern bool opal_progress_yield_when_idle;'
  local known, on = pcall(function() return ffi.C.opal_progress_yield_when_idle end)
  say('idle', known and tostring(on) or 'unknown')
end

-- A time that a rank takes over it.
function RUN.bench()
  local m = ridge.measure.point(function() return ridge.ones(8) end, { level = 'demo',
    processes = 1, passes = 1, warm_min_ns = 1e6, warm_max_ns = 1e7, budget_ns = 1e7 })
  say('bench', table.concat(m.flags, ' '))
end

-- A training on all ranks, or what another one has left: which of its rows are flagged.
function RUN.train()
  local folder, draws = hold, ridge.generator(3)
  local data = { ridge.randn(24, 8, { generator = draws }),
    ridge.randint(0, 3, 24, { generator = draws }) }
  local monitor = world.rank == 0 and ridge.monitor { tensorboard = folder } or nil
  local said = {}
  local trainer = ridge.Trainer(nn.Linear(8, 3, { seed = 1 }), { lr = 0.01, world = world,
    folder = folder, monitor = monitor, log_every = 2,
    say = function(text) said[#said + 1] = text end })
  local loader = ridge.data.Loader(data, { batch = 12 / world.size, world = world })
  local went_on = trainer:resume(loader)
  trainer:fit(loader, { epochs = went_on and 2 or 1 })
  trainer:record { mine = 1 }
  if world.rank > 0 then return end
  local function flags(rows)
    local out = {}
    for i, row in ipairs(rows) do out[i] = row.flags or '-' end
    return table.concat(out, ',')
  end
  say('history', flags(trainer.history))
  say('curve', flags(trainer.curve))
  say('metrics', flags(trainer.metrics))
  say('summary', tostring(trainer:summary().flags))
  say('monitor', flags((monitor:history())), tostring(monitor:summary().flags))
  say('value', flags((monitor:history 'training_loss')))
  for _, text in ipairs(said) do
    if text:find '^epoch' then say('said', text) end
  end
  for _, text in ipairs { trainer:report(), tostring(trainer), tostring(trainer.history),
    monitor:report() } do
    say('shown', tostring(text:find('SIMULATED', 1, true) ~= nil))
  end
  say('refused', tostring(pcall(trainer.record, trainer, { flags = 1 })),
    tostring(pcall(monitor.record, monitor, { flags = 1 })))
  monitor:close()
end

RUN[what]()

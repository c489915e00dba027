-- SPDX-License-Identifier: MIT
--- Steps of several kinds: how many bytes of gradients are copied into buckets behind the first
--- one, and have all ranks the same weights?

local ridge = require 'ridge'
local nn, dist = ridge.nn, ridge.dist
local world = dist.init { timeout = 120 }

local NETS = {
  mlp = { function()
    return nn.Sequential(nn.Linear(20, 32, { seed = 1 }), nn.ReLU(), nn.Linear(32, 5, { seed = 3 }))
  end, { 20 } },
  lenet = { function()
    return nn.Sequential(nn.Conv2d(1, 6, 3, { seed = 1 }), nn.BatchNorm(6), nn.ReLU(),
      nn.MaxPool2d(2), nn.Flatten(), nn.Linear(6 * 16, 5, { seed = 3 }))
  end, { 1, 10, 10 } },
  block = { function() return nn.TransformerBlock(16, { heads = 2, seed = 1 }) end, { 6, 16 } },
}

local function copied(net)
  local n = 0
  for _, bucket in ipairs(net:bucket_list()) do n = n + bucket.copied end
  return n
end

local KINDS = { plain = {}, bf16 = { compress = 'bf16' }, clip = {}, accumulate = {}, set = {},
  sharded = {}, uneven = { bucket_mb = 0.001 } }

local clip = ridge.optim.Clip { kind = 'norm', max_norm = 0.1 }

local function run(make, shape, kind)
  local net = dist.DataParallel(make(), { sync_batch_norm = true, compress = KINDS[kind].compress,
    bucket_mb = KINDS[kind].bucket_mb })
  local optimizer = ridge.optim.AdamW(net, { lr = 0.01 })
  if kind == 'sharded' then optimizer = dist.Sharded(optimizer) end
  local first
  for step = 1, 5 do
    for part = 1, kind == 'accumulate' and 2 or 1 do
      local rows = kind == 'uneven' and (step + world.rank) % 3 or 4
      local x = ridge.randn({ rows, unpack(shape) },
        { generator = ridge.generator(10 * step + 3 * part + world.rank) })
      local out = net(x):square()
      local loss = rows == 0 and out:sum() or out:mean()
      loss:backward()
    end
    if kind == 'clip' then clip:apply(optimizer) end
    optimizer:step()
    optimizer:zero_grad { set = kind == 'set' }
    first = first or copied(net)
  end
  return copied(net) - first, (dist.same(net))
end

for _, name in ipairs { 'mlp', 'lenet', 'block' } do
  local each = NETS[name]
  local kinds = {}
  for kind in pairs(KINDS) do kinds[#kinds + 1] = kind end
  table.sort(kinds)
  for _, kind in ipairs(kinds) do
    local n, same = run(each[1], each[2], kind)
    print(('%s %s %d %s'):format(name, kind, n, tostring(same)))
  end
end

-- The same of a trainer, whose steps may be plans and of several batches.
for _, how in ipairs { 'plain', 'compile' } do
  local inner = NETS.mlp[1]()
  local net = dist.DataParallel(inner)
  local x = ridge.randn({ 48, 20 }, { generator = ridge.generator(1) })
  local y = ridge.randint(0, 5, 48, { generator = ridge.generator(2) })
  local trainer = ridge.Trainer(net, { optimizer = ridge.optim.SGD(net, { lr = 0.05 }),
    world = world, log_every = 0, say = function() end, compile = how == 'compile', clip = 0.5,
    accumulate = 2 })
  local loader = ridge.data.Loader({ x, y }, { batch = 4, seed = 4, world = world })
  trainer:fit(loader, { epochs = 1 })
  local first = copied(net)
  trainer:fit(loader, { epochs = 4 })
  if how == 'compile' then assert(trainer:status().config.plans > 0) end
  print(('trainer %s %d %s'):format(how, copied(net) - first, tostring((dist.same(net)))))
end

-- SPDX-License-Identifier: MIT
--- Do ranks take the steps of one rank on the whole batch? A hundred steps of three nets in several
--- ways, on some numbers of ranks; all start from the same numbers and see the same rows.
---
---     ./ridge scripts/dist_steps.lua 1,2,4
---     ./ridge scripts/dist_steps.lua 1,3,5,7 105     # rows of a batch: as many for each rank
---
--- A line for each net, way and number of ranks: have all ranks the same bits at the end, and how
--- far is the furthest weight from that of one rank, absolute and by the largest weight.

local ridge = require 'ridge'
local nn = ridge.nn

local STEPS, ROWS, CLASSES = 100, 197, 5
local BATCH = 48 -- then the last batch has 5 rows: less than 8 ranks

-- -- Nets -----------------------------------------------------------------------------------------

local NETS = {}

function NETS.mlp()
  return nn.Sequential(nn.Linear(20, 32, { seed = 1 }), nn.ReLU(),
    nn.Linear(32, 32, { seed = 2 }), nn.ReLU(), nn.Linear(32, CLASSES, { seed = 3 })), { 20 }
end

function NETS.lenet()
  return nn.Sequential(nn.Conv2d(1, 6, 3, { seed = 1 }), nn.BatchNorm(6), nn.ReLU(),
    nn.MaxPool2d(2), nn.Conv2d(6, 8, 3, { seed = 2 }), nn.BatchNorm(8), nn.ReLU(), nn.Flatten(),
    nn.Linear(8 * 16, 24, { seed = 3 }), nn.ReLU(),
    nn.Linear(24, CLASSES, { seed = 4 })), { 1, 14, 14 }
end

-- The same with a batch normalisation over the 5 rows of the last batch: what rounding leaves grows
-- from step to step, so that f32 says little, and f64 shows that the steps are the same.
function NETS.few()
  local net, shape = NETS.lenet()
  return nn.Sequential(net, nn.BatchNorm(CLASSES), nn.ReLU(), nn.Linear(CLASSES, CLASSES,
    { seed = 5 })), shape
end

function NETS.block()
  local Block = nn.class 'Block'
  function Block:init()
    self.first = self:child('first', nn.LayerNorm(16))
    self.attention = self:child('attention', nn.MultiHeadAttention(16, { heads = 4, seed = 1 }))
    self.second = self:child('second', nn.LayerNorm(16))
    self.up = self:child('up', nn.Linear(16, 48, { seed = 2 }))
    self.down = self:child('down', nn.Linear(48, 16, { seed = 3 }))
    self.head = self:child('head', nn.Linear(16, CLASSES, { seed = 4 }))
  end
  function Block:forward(x)
    x = x + self.attention(self.first(x))
    x = x + self.down(self.up(self.second(x)):gelu())
    return self.head(x:mean { 2 })
  end
  return Block(), { 12, 16 }
end

-- -- Ways -----------------------------------------------------------------------------------------

local function ignoring(out, y) return nn.cross_entropy(out, y, { ignore = 2 }) end

local WAYS = {
  { 'as it is', {} }, { 'clipped', { clip = 0.05 } },
  { 'two batches a step, clipped', { accumulate = 2, clip = 0.05 } },
  { 'two batches a step, some labels ignored', { accumulate = 2, loss = ignoring } },
  { 'two batches a step, plans', { accumulate = 2, compile = true } },
  { 'products in bf16', { autocast = 'bf16' } }, { 'weights in bf16', {}, 'bf16' },
  { 'AdamW', { adam = true } }, { 'AdamW, its moments sharded', { adam = true, sharded = true } },
  { 'f64', {}, 'f64' }, { 'f64, two batches a step, labels ignored',
    { accumulate = 2, loss = ignoring }, 'f64' },
}

-- One rank's part of all trainings.
local function train(folder, batch)
  local world = ridge.dist.init { timeout = 300 }
  for _, name in ipairs { 'mlp', 'lenet', 'few', 'block' } do
    for i, way in ipairs(WAYS) do
      local net, shape = NETS[name]()
      local draws = ridge.generator(3)
      local x = ridge.randn({ ROWS, unpack(shape) }, { generator = draws })
      local y = ridge.randint(0, CLASSES, ROWS, { generator = draws })
      if way[3] then
        net:to(way[3])
        x = x:to(way[3])
      end
      local o = { world = world, log_every = 0, say = function() end }
      for key, value in pairs(way[2]) do o[key] = value end
      -- a bias in front of a normalisation has only rounding for a gradient: eps is far above that
      o.optimizer = o.adam and ridge.optim.AdamW(net, { lr = 1e-3, eps = 1e-4 })
        or ridge.optim.SGD(net, { lr = 0.02, momentum = 0.9 })
      if o.sharded then o.optimizer = ridge.dist.Sharded(o.optimizer) end
      o.adam, o.sharded = nil, nil
      local trainer = ridge.Trainer(ridge.dist.DataParallel(net, { sync_batch_norm = true,
        bucket_mb = 0.005 }), o)
      local loader = ridge.data.Loader({ x, y }, { batch = batch / world.size, seed = 4,
        world = world })
      local epochs = math.ceil(STEPS / math.ceil(loader:len() / (o.accumulate or 1)))
      trainer:fit(loader, { epochs = epochs })
      local same = ridge.dist.same(net)
      if world.rank == 0 then
        ridge.save(('%s/%s-%d-%d'):format(folder, name, i, world.size), net:state())
        print(('%s\t%d\t%d\t%s\t%.9f'):format(name, i, #trainer.curve,
          same and 'same' or 'DIFFERENT', trainer.history[#trainer.history].loss))
      end
    end
  end
end

-- -- All numbers of ranks -------------------------------------------------------------------------

local function command(text)
  local pipe = assert(io.popen(text))
  local out = pipe:read '*a'
  pipe:close()
  return out
end

local function compare(folder, list, batch)
  print(('%-6s %-41s %5s %6s  %-9s %-10s %-10s %s'):format('net', 'way', 'ranks', 'steps',
    'bits', 'furthest', 'by largest', 'last loss'))
  for _, n in ipairs(list) do
    local out = command(('./ridge launch -n %d scripts/dist_steps.lua rank %s %d'):format(n, folder,
      batch))
    for name, i, steps, bits, loss in out:gmatch '%] (%w+)\t(%d+)\t(%d+)\t(%w+)\t([^\n]+)' do
      local one = ridge.load(('%s/%s-%s-%d'):format(folder, name, i, list[1]))
      local most, largest = 0, 0
      for key, x in pairs(ridge.load(('%s/%s-%s-%d'):format(folder, name, i, n))) do
        local wanted = one[key]:to 'f64'
        most = math.max(most, (x:to 'f64' - wanted):abs():max():item())
        largest = math.max(largest, wanted:abs():max():item())
      end
      print(('%-6s %-41s %5d %6s  %-9s %-10.2g %-10.2g %s'):format(name, WAYS[tonumber(i)][1], n,
        steps, bits, most, most / largest, loss))
    end
  end
end

if arg[1] == 'rank' then
  train(arg[2], tonumber(arg[3]))
else
  local list = {}
  for n in (arg[1] or '1,2,4'):gmatch '%d+' do list[#list + 1] = tonumber(n) end
  local batch = tonumber(arg[2] or BATCH)
  for _, n in ipairs(list) do
    if batch % n ~= 0 then
      error(('%d rows are not as many for each of %d ranks'):format(batch, n), 0)
    end
  end
  local folder = command 'mktemp -d':match '[^\n]+'
  compare(folder, list, batch)
  os.execute('rm -r ' .. folder)
end

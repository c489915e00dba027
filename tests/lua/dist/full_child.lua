-- SPDX-License-Identifier: MIT
--- A training whose disk gets full between two epochs: full_child.lua FOLDER EPOCHS [FULL]. Goes on
--- from its checkpoint, fills the disk behind epoch FULL, and prints a number of the weights' bits.

local C = require 'ridge.ffi.lib'
local ridge = require 'ridge'
local nn = ridge.nn

local folder, epochs, full = arg[1], tonumber(arg[2]), tonumber(arg[3])
local world = ridge.dist.init { timeout = 20 }
local draws = ridge.generator(3)
local x = ridge.randn(53, 20, { generator = draws })
local y = ridge.randint(0, 5, 53, { generator = draws })
local net = ridge.dist.DataParallel(nn.Sequential(nn.Linear(20, 32, { seed = 1 }), nn.ReLU(),
  nn.Linear(32, 5, { seed = 3 })))
local loader = ridge.data.Loader({ x, y }, { batch = 8, seed = 4, world = world })
local trainer = ridge.Trainer(net, { optimizer = ridge.optim.AdamW(net, { lr = 0.01 }),
  loss = nn.cross_entropy, world = world, folder = folder })

trainer:resume(loader)
print('begins at epoch', trainer.epoch)
if full then
  trainer:fit(loader, { epochs = full })
  if world.rank == 0 then
    local file = assert(io.open(folder .. '/filler', 'wb'))
    file:setvbuf 'no'
    while file:write(('x'):rep(512)) do end
    file:close()
  end
  ridge.dist.barrier()
end
trainer:fit(loader, { epochs = epochs })
local sum = 0
for _, p in ipairs(net:parameters()) do
  local t = p.tensor:detach():contiguous()
  sum = (sum * 31 + tonumber(C.rg_group_digest(t._t._data, t.bytes)) % 2 ^ 40) % 2 ^ 50
end
print(('ended at epoch %d with %.0f'):format(trainer.epoch, sum))

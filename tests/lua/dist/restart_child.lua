-- SPDX-License-Identifier: MIT
--- A training that goes on from its last checkpoint: restart_child.lua FOLDER EPOCHS [STEP:RANK:HOW
--- [TIMEOUT]]. Prints a number of the weights' bits at the end. In the step that is named a rank
--- ends, in the first start: killed, stopped, or by an error.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local ridge = require 'ridge'
local nn = ridge.nn

local folder, epochs = arg[1], tonumber(arg[2])
local step_at, rank_at, how = (arg[3] or ''):match '^(%d+):(%d+):(%a+)$'
local world = ridge.dist.init { timeout = tonumber(arg[4]) or 20 }
local path = folder .. '/checkpoint.safetensors'

local draws = ridge.generator(3)
local x = ridge.randn(203, 20, { generator = draws })
local y = ridge.randint(0, 5, 203, { generator = draws })
local loader = ridge.data.Loader({ x, y }, { batch = 8, seed = 4, world = world })
local net = ridge.dist.DataParallel(nn.Sequential(nn.Linear(20, 32, { seed = 1 }), nn.ReLU(),
  nn.Linear(32, 5, { seed = 3 })))
local optimizer = ridge.optim.AdamW(net, { lr = 0.01 })

local function save(epoch, steps)
  if world.rank == 0 then
    local state = loader:state()
    local all = { at = ridge.tensor({ epoch, steps, state.seed, state.offset }, { dtype = 'f64' }) }
    for name, value in pairs(optimizer:state()) do all['o.' .. name] = value end
    for _, p in ipairs(net:parameters()) do all['p.' .. p.name] = p.tensor:detach() end
    ridge.save(folder .. '/new.safetensors', all)
    assert(os.rename(folder .. '/new.safetensors', path))
  end
  ridge.dist.barrier()
end

local function load()
  local file = io.open(path, 'rb')
  if not file then return 0, 0 end
  file:close()
  local all, state = ridge.load(path), {}
  local at = all.at
  for name, value in pairs(all) do
    if name:find '^o%.' then state[name:sub(3)] = value end
  end
  optimizer:load_state(state)
  for _, p in ipairs(net:parameters()) do p.tensor:detach():copy_(all['p.' .. p.name]) end
  loader:load_state { seed = at[3]:item(), offset = at[4]:item() }
  return at[1]:item(), at[2]:item()
end

local function fail()
  ffi.cdef 'int raise(int);'
  if how == 'killed' then ffi.C.raise(9) end
  if how == 'stopped' then ffi.C.raise(19) end
  error('no luck in this step', 0)
end

local epoch, steps = load()
if world.rank == 0 then
  print(('start %d of %d ranks at epoch %d'):format(world.restart, world.size, epoch))
end
local most = 0
while epoch < epochs do
  for a, b in loader:each() do
    steps = steps + 1
    if world.restart == 0 and steps == tonumber(step_at) and world.rank == tonumber(rank_at) then
      fail()
    end
    optimizer:zero_grad()
    nn.cross_entropy(net(a), b):backward()
    optimizer:step()
    most = math.max(most, a:size(1))
  end
  epoch = epoch + 1
  save(epoch, steps)
end
local bits = {}
for i, p in ipairs(net:parameters()) do
  local t = p.tensor:detach():contiguous()
  bits[i] = bit.tohex(tonumber(C.rg_group_digest(t._t._data, t.bytes) % 2 ^ 31))
end
if world.rank == 0 then
  print(('end after %d steps, rows of a rank %d, bits %s'):format(steps, most, table.concat(bits)))
end

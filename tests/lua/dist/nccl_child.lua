-- SPDX-License-Identifier: MIT
--- What a rank with a simulated GPU does for the tests: nccl_child.lua WHAT [FOLDER].

local ridge = require 'ridge'
local nn = ridge.nn
local dist = ridge.dist

local what, folder = arg[1], arg[2]
local SHORT = { lost = true, never = true, step = true }
local world = dist.init { timeout = SHORT[what] and 2 or 60 }
local device = ridge.device.names()[world.local_rank + 2]
local r, n = world.rank, world.size

local function say(...) print(('%s'):rep(select('#', ...), ' '):format(...)) end

local RUN = {}

-- -- Collectives ----------------------------------------------------------------------------------

local FLOATS = { 'f32', 'f64', 'f16', 'bf16' }
local WHOLE = { 'i64', 'i32', 'i8', 'u8' }

-- What a rank brings: small whole numbers, whose sums are exact in every type.
local function brought(rank, shape, signed, op)
  local draws = ridge.generator(rank + 1)
  local most = op == 'prod' and 3 or 9 -- 81 of four ranks, which i8 has
  return ridge.randint(signed and -most or 0, most, shape, { generator = draws }):to 'f64'
end

-- On the device, as the last of some work that is still to be done.
local function there(x, dtype)
  return ((x - 1):to(device) + 1):to(dtype)
end

-- Read it behind more work.
local function here(x) return ((x:to 'f64' + 1) - 1):to 'cpu' end

local function check(wanted, got, name)
  if not here(got):equal(wanted) then
    error(('%s: wanted %s, got %s'):format(name, wanted, here(got)))
  end
end

local function combine(shape, signed, op)
  local all = brought(0, shape, signed, op)
  for k = 1, n - 1 do
    local x = brought(k, shape, signed, op)
    all = op == 'max' and all:maximum(x) or op == 'min' and all:minimum(x)
      or op == 'prod' and all * x or all + x
  end
  return all
end

local function rows_of(count)
  local each, more = math.floor(count / n), count % n
  return each * r + math.min(r, more) + 1, each + (r < more and 1 or 0)
end

local function try(dtype, op, name)
  local signed = dtype ~= 'u8'
  for _, shape in ipairs { { 3, 5 }, { 4 * n, 2 }, { 2 * n + 1, 3 }, { 1 }, { 1000, 3 } } do
    local x = there(brought(r, shape, signed, op), dtype)
    local wanted = combine(shape, signed, op)
    if op == 'mean' then wanted = (wanted / n):to(dtype):to 'f64' end
    local y = dist.all_reduce(x, op)
    assert(y.device == device and y.dtype == dtype)
    x:fill_(0) -- what was started has read it
    check(wanted, y, ('%s all_reduce %s of %d'):format(dtype, name, wanted.count))
    local first, rows = rows_of(shape[1])
    local part = dist.reduce_scatter(there(brought(r, shape, signed, op), dtype), op)
    assert(part:size(1) == rows)
    if rows > 0 then
      check(wanted:narrow(1, first, rows), part, ('%s reduce_scatter %s'):format(dtype, name))
    end
  end
end

local function move(dtype)
  for root = 0, n - 1 do
    check(brought(root, { 7, 3 }), dist.broadcast(there(brought(r, { 7, 3 }), dtype), root),
      dtype .. ' broadcast')
  end
  local all = dist.all_gather(there(brought(r, { 5, 2 }), dtype))
  for k = 0, n - 1 do check(brought(k, { 5, 2 }), all[k + 1], dtype .. ' all_gather') end
end

function RUN.collectives()
  for _, dtype in ipairs(FLOATS) do
    try(dtype, 'sum', 'sum')
    for _, op in ipairs { 'max', 'min', 'prod' } do try(dtype, op, op) end
    if n == 2 or n == 4 then try(dtype, 'mean', 'mean') end
    move(dtype)
    local x = ridge.tensor { r == n - 1 and 0 / 0 or 1, -r - 1, r == 0 and -math.huge or -3, -0.5 }
    local most = here(dist.all_reduce(there(x:to 'f64', dtype), 'max'))
    assert(most[1]:item() ~= most[1]:item(), dtype .. ': the largest of nan and others is nan')
    assert(most[2]:item() == -1 and most[3]:item() == (n > 1 and -3 or -math.huge)
      and most[4]:item() == -0.5, dtype)
    local least = here(dist.all_reduce(there(-x:to 'f64', dtype), 'min'))
    assert(least[1]:item() ~= least[1]:item(), dtype .. ': the smallest of nan and others is nan')
    assert(least[2]:item() == 1 and least[3]:item() == (n > 1 and 3 or math.huge)
      and least[4]:item() == 0.5, dtype)
  end
  for _, dtype in ipairs(WHOLE) do
    try(dtype, 'sum', 'sum')
    for _, op in ipairs { 'max', 'min', 'prod' } do try(dtype, op, op) end
    move(dtype)
  end
  local flags = (ridge.tensor { r, 0, 1 }:to(device)):gt(0.5)
  assert(here(dist.all_reduce(flags, 'max')):equal(ridge.tensor { n > 1 and 1 or 0, 0, 1 }
    :to 'f64'))
  assert(here(dist.all_reduce(flags, 'min')):equal(ridge.tensor { 0, 0, 1 }:to 'f64'))
  check(brought(0, { 4, 3 }), dist.broadcast(there(brought(r, { 4, 3 }), 'f8e4m3')), 'f8')
  assert(dist.all_reduce(ridge.zeros(0):to(device)).count == 0)
  -- on the CPU they go by MPI, between those that do not
  assert(dist.all_reduce(ridge.ones(3)):sum():item() == 3 * n)
  check(ridge.full(n, 3, 2):to 'f64', dist.all_reduce(ridge.ones(2, 3):to(device):transpose(1, 2)),
    'transposed')
  assert(dist.same { ridge.full(3, 2):to(device) })
  dist.barrier()
  say('collectives', n, world.backend)
end

-- A third has no exact f16: means and shares are computed in f32, and rounded once.
function RUN.rounded()
  local x = ridge.full(1, 4000):to(device)
  for _, dtype in ipairs { 'f16', 'bf16' } do
    local mean = here(dist.all_reduce(x:to(dtype), 'mean'))
    say('rounded', dtype, (mean - 1):abs():max():item())
  end
end

-- -- Training -------------------------------------------------------------------------------------

local function mlp()
  return nn.Sequential(nn.Linear(12, 24, { seed = 1 }), nn.ReLU(),
    nn.Linear(24, 16, { seed = 2 }), nn.ReLU(), nn.Linear(16, 5, { seed = 3 }))
end

local function train(net, opts, shape)
  local draws = ridge.generator(3)
  local x, y = ridge.randn(shape, { generator = draws }),
    ridge.randint(0, 5, shape[1], { generator = draws })
  local all = dist.DataParallel(net:to(device), opts)
  local optimizer = ridge.optim.SGD(all, { lr = 0.05, momentum = 0.9 })
  if opts.sharded then optimizer = dist.Sharded(optimizer) end
  local loader = ridge.data.Loader({ x, y }, { batch = 16 / n, seed = 4, world = world })
  for _ = 1, 2 do
    for a, b in loader:each() do
      optimizer:zero_grad()
      nn.cross_entropy(all(a:to(device)), b:to(device)):backward()
      optimizer:step()
    end
  end
  return all
end

local function report(name, net)
  local same, why = dist.same(net)
  say(name, same, why or '')
  if r == 0 then net.module:to('cpu'):save(('%s/%s%d'):format(folder, name, n)) end
end

function RUN.train()
  report('mlp', train(mlp(), {}, { 101, 12 })) -- the last batch has five rows
  report('buckets', train(mlp(), { bucket_mb = 0.001 }, { 101, 12 }))
  report('behind', train(mlp(), { bucket_mb = 0.001, overlap = false }, { 101, 12 }))
end

function RUN.more()
  report('bf16', train(mlp(), { compress = 'bf16' }, { 101, 12 }))
  local norm = nn.Sequential(nn.Linear(12, 8, { seed = 1 }), nn.BatchNorm(8), nn.ReLU(),
    nn.Linear(8, 5, { seed = 2 }))
  report('norm', train(norm, { sync_batch_norm = true }, { 96, 12 }))
end

-- A rank without rows, whose gradients are nan, does not count.
function RUN.weights()
  local net = dist.DataParallel(nn.Linear(3, 2, { seed = 1 }):to(device), { bucket_mb = 1e-6 })
  local x = ridge.full(r == 0 and 0 / 0 or r, math.max(1, r), 3):to(device)
  local rows = 0
  for k = 1, n - 1 do rows = rows + k end
  if r == 0 then x = x:narrow(1, 1, 0) end
  local loss = net(x):sum() / math.max(1, r)
  if r == 0 then loss = loss + net.module.weight:sum() * (0 / 0) end
  loss:backward()
  local wanted = 0
  for k = 1, n - 1 do wanted = wanted + k * k / rows end
  local off = (here(net.module.weight.grad) - wanted):abs():max():item()
  say('weights', off < 1e-6, off)
end

-- Sharded: the steps of the optimizer alone.
function RUN.sharded()
  local a, b = mlp():to(device), mlp():to(device)
  local x = ridge.randn(6, 12, { generator = ridge.generator(r) }):to(device)
  local one, two = dist.DataParallel(a), dist.DataParallel(b)
  local plain = ridge.optim.AdamW(a, { lr = 0.01 })
  local parts = dist.Sharded(ridge.optim.AdamW(b, { lr = 0.01 }))
  for _ = 1, 3 do
    for _, pair in ipairs { { one, plain }, { two, parts } } do -- in one order on all ranks
      local net, optimizer = unpack(pair)
      optimizer:zero_grad()
      net(x):square():mean():backward()
      optimizer:step()
    end
  end
  local same = true
  for i, p in ipairs(a:parameters()) do
    same = same and here(p.tensor):equal(here(b:parameters()[i].tensor))
  end
  say('sharded', same, parts:bytes())
end

-- -- What goes wrong ------------------------------------------------------------------------------

local function failing(name, f)
  local begun = ridge.clock()
  local ok, err = pcall(f)
  say(name, ok, (tostring(err)
    :gsub('\n.*', ''):gsub('^%S+%.lua:%d+: ', '')), ridge.clock() - begun < 20)
end

local function sums(count)
  local x = ridge.ones(4):to(device)
  for _ = 1, count do x = dist.all_reduce(x) end
  return x:to('cpu'):sum():item()
end

-- RG_NCCL_LOST, RG_NCCL_GONE say who does not come any more.
function RUN.lost()
  failing('first', function() return sums(4) end)
  failing('read', function() return ridge.ones(2):to(device):to 'cpu' end)
  failing('next', function() return sums(1) end)
  local begun = ridge.clock() -- else a slower one is told of this end first
  while ridge.clock() < begun + 1 do ridge.zeros(1) end
  os.exit(3)
end

function RUN.never()
  sums(1)
  local begun = ridge.clock()
  while r == 1 and ridge.clock() < begun + 60 do ridge.zeros(1) end
  failing('never', function() return sums(1) end)
  os.exit(3)
end

function RUN.killed()
  sums(2)
  if r == 1 then
    require('ffi').cdef 'int raise(int);'
    require('ffi').C.raise(9)
  end
  sums(2)
end

function RUN.refused()
  failing('refused', function() return dist.all_reduce(ridge.ones(2):to(device)) end)
  failing('refused', function() return dist.DataParallel(nn.Linear(3, 2):to(device)) end)
  say('sum', dist.all_reduce(ridge.ones(2)):sum():item())
end

-- All on the first GPU.
function RUN.one()
  device = ridge.device.names()[2]
  failing('one', function() return sums(1) end)
  os.exit(3)
end

function RUN.differ()
  local last = r == n - 1
  failing('differ', function()
    return dist.all_reduce(ridge.ones(2):to(last and 'cpu' or device))
  end)
  os.exit(3)
end

function RUN.two()
  sums(1)
  failing('two', function()
    return dist.all_reduce(ridge.ones(2):to(ridge.device.names()[r == 0 and 3 or 2]))
  end)
end

RUN[what]()

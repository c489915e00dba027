-- SPDX-License-Identifier: MIT
--- What a rank does for the tests: child.lua WHAT [FOLDER].

local ridge = require 'ridge'
local nn = ridge.nn
local dist = ridge.dist

local what, folder = arg[1], arg[2]
local WAITS = { late = 1.5, stopped = 1.5, loops = 1.5 }
local world = dist.init { timeout = WAITS[what] or 120 }

local function say(...) print(('%s'):rep(select('#', ...), ' '):format(...)) end

-- -- Nets -----------------------------------------------------------------------------------------

local function mlp()
  return nn.Sequential(nn.Linear(20, 32, { seed = 1 }), nn.ReLU(),
    nn.Linear(32, 32, { seed = 2 }), nn.ReLU(), nn.Linear(32, 5, { seed = 3 }))
end

local function lenet()
  return nn.Sequential(nn.Conv2d(1, 6, 3, { seed = 1 }), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(6, 8, 3, { seed = 2 }), nn.ReLU(), nn.Flatten(),
    nn.Linear(8 * 4, 5, { seed = 3 }))
end

local function data(shape)
  local draws = ridge.generator(3)
  return ridge.randn(shape, { generator = draws }),
    ridge.randint(0, 5, shape[1], { generator = draws })
end

-- A net after 100 steps of 32 rows; the last of each epoch has `rows` mod 32.
local function train(net, shape, opts)
  local x, y = data(shape)
  local all = dist.DataParallel(net, opts)
  local optimizer = ridge.optim.SGD(all, { lr = 0.05, momentum = 0.9 })
  local loader = ridge.data.Loader({ x, y }, { batch = 32 / world.size, seed = 4, world = world })
  local steps, rows = 0, 0
  while steps < 100 do
    for a, b in loader:each() do
      optimizer:zero_grad()
      nn.cross_entropy(all(a), b):backward()
      optimizer:step()
      steps, rows = steps + 1, rows + a:size(1)
      if steps == 100 then break end
    end
  end
  return all, dist.all_reduce(ridge.tensor(rows)):item()
end

local function sum(net)
  local total = 0
  for _, p in ipairs(net:parameters()) do total = total + p.tensor:abs():sum():item() end
  return ('%.9g'):format(total)
end

local function report(name, net, rows)
  local same, why = dist.same(net)
  say(name, same, why or '', rows or '', sum(net))
  if world.rank == 0 then net.module:save(('%s/%s%d'):format(folder, name, world.size)) end
end

local RUN = {}

-- -- Collectives ----------------------------------------------------------------------------------

function RUN.collectives()
  local r, n = world.rank, world.size
  for _, dtype in ipairs { 'f32', 'f64', 'f16', 'bf16', 'i64', 'i32', 'i8', 'u8' } do
    local x = ridge.full(r + 1, 2, 3):to(dtype)
    local wanted = n * (n + 1) / 2
    assert(dist.all_reduce(x):sum():item() == 6 * wanted, dtype)
    assert(dist.all_reduce(x).dtype == dtype)
    assert(dist.all_reduce(x, 'max'):sum():item() == 6 * n)
    assert(dist.all_reduce(x, 'min'):sum():item() == 6)
    local product = 1
    for k = 1, n do product = product * k end
    assert(dist.all_reduce(x, 'prod')[2][3]:item() == product, dtype)
    local two = dist.all_reduce(ridge.full(2, 9):to(dtype), 'prod')
    assert(two[9]:item() == 2 ^ n, dtype)
    assert(dist.broadcast(x, n - 1):sum():item() == 6 * n)
    local all = dist.all_gather(x)
    assert(all:size(1) == n and all:size(3) == 3 and all[n]:sum():item() == 6 * n)
    local part = dist.reduce_scatter(ridge.arange(1, 5):to(dtype):view(5, 1))
    local first = math.floor(5 / n) * r + math.min(r, 5 % n) + 1
    assert(part:size(1) == math.floor(5 / n) + (r < 5 % n and 1 or 0))
    for i = 1, part:size(1) do assert(part[i]:item() == n * (first + i - 1)) end
  end
  assert(dist.all_reduce(ridge.full(r, 3), 'mean')[1]:item() == (n - 1) / 2)
  for _, op in ipairs { 'max', 'min' } do
    for odd = 0, n - 1 do -- a rank that has nan, or a zero of the other sign
      local x = dist.all_reduce(ridge.tensor { r == odd and 0 / 0 or r,
        (r == odd) == (op == 'max') and 0 or -1e-300 * 1e-300 }, op)
      assert(x[1]:item() ~= x[1]:item(), op)
      assert(1 / x[2]:item() == (n == 1 and op == 'min' and -1 or op == 'max' and 1 or -1)
        * math.huge, op)
    end
  end
  local flags = dist.all_reduce(ridge.tensor { r, 0, 1 }:gt(0.5), 'min')
  assert(flags[1]:item() == 0 and flags[2]:item() == 0 and flags[3]:item() == 1)
  local leaf = ridge.full(3, 2):requires_grad_()
  assert(not dist.all_reduce(leaf * 2, 'prod').requires_grad)
  assert(dist.all_reduce(ridge.zeros(0)).count == 0)
  assert(dist.all_reduce(ridge.randn(3, 4, { generator = ridge.generator(1) }):transpose(1, 2))
    :allclose(n * ridge.randn(3, 4, { generator = ridge.generator(1) }):transpose(1, 2)))
  local same, why = dist.same { ridge.ones(2), ridge.full(r == n - 1 and 1 or 0, 2) }
  assert(same == (n == 1) and (same or why:find 'has other numbers on rank'), why)
  dist.barrier()
  say('collectives', world.size, world.local_size)
end

-- -- Training -------------------------------------------------------------------------------------

function RUN.train()
  report('mlp', train(mlp(), { 203, 20 }))
  report('lenet', train(lenet(), { 193, 1, 10, 10 }))     -- last batches of one row
  local net, rows = train(mlp(), { 203, 20 }, { bucket_mb = 0.003, overlap = true })
  report('buckets', net, rows)
  say('lists', #net:bucket_list(), net:bucket_list()[1].parameters[1])
  report('behind', train(mlp(), { 203, 20 }, { bucket_mb = 0.003, overlap = false }))
  for _, dtype in ipairs { 'bf16', 'f16' } do
    report(dtype, train(mlp(), { 203, 20 }, { compress = dtype }))
  end
end

-- What one rank alone has a gradient of, what nobody has one of, and gradients that add up.
function RUN.parts()
  local Two = nn.class 'Two'
  function Two:init()
    self.a = self:child('a', nn.Linear(3, 2, { seed = 1 }))
    self.b = self:child('b', nn.Linear(3, 2, { seed = 2 }))
    self.c = self:child('c', nn.Linear(3, 2, { seed = 3 }))
  end
  function Two:forward(x, both) return both and self.a(x) + self.b(x) or self.a(x) end
  local net = dist.DataParallel(Two(), { bucket_mb = 0.00004 })
  for step = 0, 3 do
    if step == 1 then -- what buckets hold of the first pass is of no account
      for _, p in ipairs(net:parameters()) do p.tensor:zero_grad() end
    end
    local x = ridge.full(world.rank + step, world.rank + 1, 3)
    net(x, world.rank == world.size - 1):mean():backward()
  end
  local m = net.module
  say('parts', m.c.weight.grad == nil, m.b.weight.grad ~= nil)
  local wanted, rows = { a = 0, b = 0 }, 0
  for r = 0, world.size - 1 do
    for step = 1, 3 do
      wanted.a = wanted.a + (r + 1) * (r + step) / 2
      wanted.b = wanted.b + (r == world.size - 1 and (r + 1) * (r + step) / 2 or 0)
    end
    rows = rows + r + 1
  end
  for name, value in pairs(wanted) do
    local off = (m[name].weight.grad - value / rows):abs():max():item()
    say('parts', name, off < 1e-5, off)
  end
end

-- What is sent in fewer bits is the gradient to these bits, and not to more.
function RUN.rounded()
  local function gradient(opts)
    local net = dist.DataParallel(nn.Linear(20, 5, { seed = 1 }), opts)
    local x = ridge.randn(7, 20, { generator = ridge.generator(world.rank) })
    net(x):square():mean():backward()
    return net.module.weight.grad
  end
  local whole = gradient()
  for _, each in ipairs { { 'bf16', 8 }, { 'f16', 11 } } do
    local dtype, bits = unpack(each)
    local off = ((gradient { compress = dtype } - whole):abs():max() / whole:abs():max()):item()
    say('rounded', dtype, off < 2 ^ (1 - bits) and off > 2 ^ (-4 - bits), off)
  end
end

-- Numbers are those of rank 0 from the start, running statistics too; what dropout draws is not.
function RUN.start()
  ridge.seed(5)
  local net = nn.Sequential(nn.Linear(3, 4, { seed = world.rank + 1 }), nn.BatchNorm(4))
  local all = dist.DataParallel(net)
  say('start', dist.same(net))
  for _ = 1, 2 do all(ridge.full(world.rank + 1, 5, 3) + ridge.rand(5, 3)):sum():backward() end
  all(ridge.ones(5, 3)) -- hands out what rank 0 had until now
  say('running', dist.same(net))
  local kept = dist.all_gather(ridge.ones(64):dropout_(0.5))
  say('dropout', world.size == 1 or not kept[1]:equal(kept[2]))
end

-- -- What goes wrong ------------------------------------------------------------------------------

function RUN.raise()
  if world.rank == 1 then error 'no luck' end
  dist.barrier()
end

function RUN.status()
  if world.rank == 1 then os.exit(7) end
  dist.barrier()
end

function RUN.killed()
  dist.barrier()
  if world.rank == 1 then
    require('ffi').cdef 'int raise(int);'
    require('ffi').C.raise(9)
  end
  dist.barrier()
end

-- One that is stopped, and would go on if it were told to.
function RUN.stopped()
  dist.barrier()
  if world.rank == 2 then dist.init { timeout = 2.5 } end -- it says so later than rank 0
  if world.rank == 1 then
    require('ffi').cdef 'int raise(int);'
    require('ffi').C.raise(19)
  end
  dist.barrier()
end

-- One that is stopped when all is done.
function RUN.parted()
  dist.barrier()
  if world.rank == 1 then
    require('ffi').cdef 'int raise(int);'
    require('ffi').C.raise(19)
  end
end

-- One that is stopped twice, for a shorter time than one is lost after, which lies between.
function RUN.paused()
  local ffi = require 'ffi'
  ffi.cdef 'int raise(int); int getpid(void);'
  dist.barrier()
  for _ = 1, world.rank == 1 and 2 or 0 do
    os.execute(('(sleep 0.8; kill -CONT %d) &'):format(ffi.C.getpid()))
    ffi.C.raise(19)
    os.execute 'sleep 3.5'
  end
  dist.barrier()
  say 'both'
end

-- What Open MPI is told.
function RUN.options()
  say('options', os.getenv 'OMPI_MCA_btl', os.getenv 'OMPI_MCA_mpi_yield_when_idle',
    os.getenv 'OMPI_MCA_btl_vader_single_copy_mechanism')
end

-- What is on command lines of this job: all can read those. (Others may well show 32 hexadecimal
-- digits, as a commit's name.)
function RUN.lines()
  dist.barrier()
  local pipe = io.popen("grep -lzE '(^|/)(ridge|mpirun|orted)$' /proc/[0-9]*/cmdline 2>/dev/null"
    .. " | xargs cat 2>/dev/null | tr '\\0' '\\n'")
  local text = pipe:read '*a'
  pipe:close()
  local secret = '%f[%x]' .. ('%x'):rep(32) .. '%f[^%x]'
  say('lines', text:find 'launch\n%-%-keep' ~= nil, text:find(secret) ~= nil,
    os.getenv 'RIDGE_LAUNCH_SECRET')
  dist.barrier()
end

-- One that is in a loop behind a step of training.
function RUN.loops()
  local net = dist.DataParallel(nn.Linear(3, 2, { seed = 1 }))
  for step = 1, 3 do
    while world.rank == 1 and step == 3 do ridge.zeros(1) end
    net(ridge.ones(2, 3)):sum():backward()
  end
end

function RUN.memory()
  local ffi = require 'ffi'
  ffi.cdef 'void *malloc(size_t); void *memset(void *, int, size_t);'
  dist.barrier()
  for _ = 1, world.rank == 1 and 64 or 0 do ffi.C.memset(ffi.C.malloc(2 ^ 24), 1, 2 ^ 24) end
  dist.barrier()
end

function RUN.late()
  dist.barrier()
  local begun = ridge.clock()
  while world.rank == 1 and ridge.clock() < begun + 60 do ridge.zeros(1) end
  dist.all_reduce(ridge.ones(3), 'mean')
end

-- Refusals, one after the other: they come before anything is sent that would not fit.
function RUN.different()
  local last = world.rank == world.size - 1
  for _, f in ipairs {
    function() dist.DataParallel(nn.Linear(3, last and 4 or 2)) end,
    function() dist.DataParallel(last and mlp() or nn.Linear(3, 2)) end,
    function() dist.DataParallel(nn.Linear(3, 2), { overlap = last }) end,
    function()
      ridge.data.Loader({ ridge.ones(last and 5 or 4, 2) }, { batch = 1, world = world })
    end,
    function() dist.all_reduce(ridge.ones(last and 3 or 2)) end,
  } do
    local ok, err = pcall(f)
    say('different', ok, (tostring(err):gsub('\n.*', '')))
  end
end

function RUN.forever()
  say 'started'
  while true do dist.barrier() end
end

function RUN.all()
  RUN.collectives()
  RUN.start()
  RUN.parts()
  RUN.rounded()
  RUN.train()
end

RUN[what]()

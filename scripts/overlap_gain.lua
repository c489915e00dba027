-- SPDX-License-Identifier: MIT
--- What sending gradients during the backward pass gains over sending them behind it, beside what
--- the model of scaling says: two ranks, over messages that wait (tests/dist, SIMULATED) and over
--- those there are. Each start of the ranks has blocks of steps with overlap (A) and without (B) as
--- ABBA; its ratio B / A is one observation.
---
---     make build/tests/libridge_slow.so
---     ./ridge scripts/overlap_gain.lua --out results/kept/overlap_gain.txt

local C = require 'ridge.ffi.lib'
local ridge = require 'ridge'
local passes = require 'ridge.measure.passes'
local model = require 'ridge.scaling.model'
local network = require 'ridge.scaling.network'
local statistics = require 'ridge.measure.statistics'
local steps = require 'ridge.scaling.steps'

local nn = ridge.nn

local SELF = 'scripts/overlap_gain.lua'
local WIDTH, BATCH, BUCKET_MB, LAYERS = 512, 128, 1.1, 4
local LIBRARY = 'build/tests/libridge_slow.so'

-- -- A rank ---------------------------------------------------------------------------------------

local function training(overlap)
  local list = {}
  for i = 1, LAYERS do
    list[#list + 1] = nn.Linear(WIDTH, WIDTH, { seed = i })
    list[#list + 1] = nn.ReLU()
  end
  list[#list + 1] = nn.Linear(WIDTH, 10, { seed = 9 })
  local net = ridge.dist.DataParallel(nn.Sequential(unpack(list)), { bucket_mb = BUCKET_MB,
    overlap = overlap })
  local optimizer = ridge.optim.SGD(net, { lr = 0.01, momentum = 0.9 })
  local draws = ridge.generator(3 + ridge.dist.init().rank)
  local x = ridge.randn(BATCH, WIDTH, { generator = draws })
  local y = ridge.randint(0, 10, BATCH, { generator = draws })
  return function()
    optimizer:zero_grad()
    nn.cross_entropy(net(x), y):backward()
    optimizer:step()
  end
end

local function write(path, text)
  if ridge.dist.init().rank > 0 then return end
  local file = assert(io.open(path, 'w'))
  file:write(text)
  file:close()
end

local RANK = {}

-- A's and B's blocks, alternating ABBA: nanoseconds of a step in each.
function RANK.abba(path, n, rounds)
  local run = { A = training(true), B = training(false) }
  for _ = 1, 5 do
    run.A()
    run.B()
  end
  local lines = {}
  for _ = 1, tonumber(rounds) do
    for which in ('ABBA'):gmatch '.' do
      ridge.dist.barrier()
      local began = C.rg_clock_ns()
      for _ = 1, tonumber(n) do run[which]() end
      ridge.dist.barrier()
      lines[#lines + 1] = ('%s %.0f\n'):format(which, tonumber(C.rg_clock_ns() - began) / n)
    end
  end
  write(path, table.concat(lines))
end

-- When buckets are ready.
function RANK.timeline(path, n)
  local step, stop = training(true), {}
  local list = steps.watch(tonumber(n), stop)
  local ok, how = pcall(function() while true do step() end end)
  assert(not ok and how == stop, how)
  write(path, steps.text(list, ridge.dist.init().library))
end

-- All-reduces beside computing, one behind the other: nanoseconds of one, and by how many of them
-- what is computed meanwhile takes longer than alone.
function RANK.beside(path, bytes)
  local ffi, worlds = require 'ffi', require 'ridge.world'
  local world, group, draws = ridge.dist.init(), ffi.new 'rg_group *[1]', ridge.generator(1)
  assert(C.rg_group_open(C.RG_GROUP_AUTO, group) == 0)
  local a, b = ridge.randn(16, 256, { generator = draws }), ridge.randn(256, 64,
    { generator = draws })
  local count = math.floor(tonumber(bytes) / 4)
  local memory = ffi.new('float[?]', count)
  local function now() return tonumber(C.rg_clock_ns()) end
  local lines = {}
  for round = 1, 12 do
    ridge.dist.barrier()
    local began, n = now(), 0
    while now() - began < 2e7 do
      a:matmul(b)
      n = n + 1
    end
    local alone = (now() - began) / n
    ridge.dist.barrier()
    local took, calls = 0, 20
    began, n = now(), 0
    for _ = 1, calls do
      local times = ffi.new 'int64_t[3]'
      local ticket = worlds.start(world, SELF, { kind = C.RG_GROUP_ALL_REDUCE,
        op = C.RG_GROUP_SUM, dtype = C.RG_F32, count = count, ['in'] = memory, out = memory,
        times = times }, times, memory)
      while C.rg_group_ended(group[0], ticket) == 0 do
        a:matmul(b)
        n = n + 1
      end
      worlds.wait(world, SELF, ticket)
      took = took + tonumber(times[C.RG_GROUP_ENDED] - times[C.RG_GROUP_BEGAN])
    end
    local busy = (now() - began - n * alone) / calls
    if round > 2 then lines[#lines + 1] = ('%.0f %.0f\n'):format(took / calls, busy) end
  end
  write(path, table.concat(lines))
end

function RANK.net(path, ...) require('ridge.scaling.ranks').main { path, ... } end

if (...) == 'rank' then return RANK[select(2, ...)](select(3, ...)) end

-- -- All of it ------------------------------------------------------------------------------------

local opt = ridge.args {
  { 'starts', 7, 'of the ranks, for each network; below 5 there is no interval', integer = true },
  { 'steps', 8, 'of a block', integer = true },
  { 'rounds', 6, 'of ABBA in each start', integer = true },
  { 'out', '', 'a file for what is printed' },
}

local kept = {}
local function say(...)
  local text = (...):format(select(2, ...))
  print(text)
  kept[#kept + 1] = text
end

local function launch(n, slow, what, ...)
  local words = {}
  for i = 1, select('#', ...) do words[i] = tostring((select(i, ...))) end
  return require('ridge.cli.by_ranks').run(n, ('return assert(loadfile(%q))("rank", %q, '
    .. 'unpack(arg))\n'):format(SELF, what), words,
    { env = { OMP_NUM_THREADS = '1', RIDGE_MPI = slow and LIBRARY or os.getenv 'RIDGE_MPI',
      RIDGE_SLOW = slow } })
end

local function progress(...) io.stderr:write((...):format(select(2, ...)), '\n') end

-- One start: the ratio of steps without overlap over those with it, and both.
local function gain(slow)
  local sum, n = { A = 0, B = 0 }, 0
  for which, ns in launch(2, slow, 'abba', opt.steps, opt.rounds):gmatch '(%u) (%d+)' do
    sum[which], n = sum[which] + tonumber(ns), n + 1
  end
  return sum.B / sum.A, sum.A / n * 2, sum.B / n * 2
end

local function net_of(slow)
  local texts = {}
  for i = 1, 5 do texts[i] = launch(2, slow, 'net', 3, 4, 65536, 1048576) end
  return network.of(texts)
end

local function with(found)
  return found.lo and ('%.3f (%.3f to %.3f)'):format(found.med, found.lo, found.hi)
    or ('%.3f'):format(found.med)
end

-- A transfer of a bucket beside computing: how long it takes, and how much of a processor.
local function beside_of(slow, bytes)
  local took, busy = {}, {}
  for i = 1, 5 do
    local list = { {}, {} }
    for a, b in launch(2, slow, 'beside', bytes):gmatch '(%d+) (%-?%d+)' do
      list[1][#list[1] + 1], list[2][#list[2] + 1] = tonumber(a), math.max(0, tonumber(b))
    end
    took[i], busy[i] = statistics.median(list[1]), statistics.median(list[2])
    busy[i] = math.max(1, math.min(busy[i], took[i]))
  end
  return { took = passes.interval(took), busy = passes.interval(busy) }
end

-- The ratio that the model says, with its band: 400 draws of what goes in from its intervals.
-- found: messages that nothing is computed beside; beside: those that something is
local function predicted(one, found, beside)
  local draw, list = require('ridge.measure.random').new(7), {}
  local function ratio(a, b, took, busy, c)
    local buckets = {}
    for i, each in ipairs(one.buckets) do
      buckets[i] = { ready = each.ready * c, bytes = each.bytes }
    end
    local input = { compute = one.compute.med * c, buckets = buckets, spread = one.spread,
      processors = tonumber(C.rg_processors()), network = { alpha = took / 2, beta = 0,
        waits = math.max(0, 1 - busy / took) } }
    local on = model.step(input, 2).ns
    input.overlap, input.network = false, { alpha = a / 2, beta = b }
    return model.step(input, 2).ns / on
  end
  local function drawn(x)
    local sd = x.lo and math.log(x.hi / x.lo) / 3.92 or 0
    return x.med * math.exp(sd * draw:normal())
  end
  for i = 1, 400 do
    list[i] = ratio(drawn(found.alpha), drawn(found.beta), drawn(beside.took), drawn(beside.busy),
      drawn(one.compute) / one.compute.med)
  end
  table.sort(list)
  local med = ratio(found.alpha.med, found.beta.med, beside.took.med, beside.busy.med, 1)
  return { med = med, lo = math.min(med, list[10]), hi = math.max(med, list[391]) }
end

local file = io.open(LIBRARY)
if not file then error('make ' .. LIBRARY, 0) end
file:close()
say('Overlap of transfers with the backward pass: 2 ranks of one thread, %d linear layers of %d, '
  .. '%d rows each,', LAYERS + 1, WIDTH, BATCH)
say('buckets of %g MB; %d starts, each %d x ABBA of %d steps. %s', BUCKET_MB, opt.starts,
  opt.rounds, opt.steps, os.date '!%Y-%m-%d %H:%M')
say('SIMULATED: messages wait alpha and beta x bytes without a processor; such times say nothing '
  .. 'of any network.')
say ''
local starts = {}
for i = 1, 5 do
  progress('one rank, start %d of 5', i)
  starts[i] = { [1] = steps.read(launch(1, nil, 'timeline', 25)) }
end
local by, one = steps.together(starts, { 1 })
one.compute = by[1].step
local sizes = {}
for i, bucket in ipairs(one.buckets) do
  sizes[i] = ('%.2f MB at %.2f ms'):format(bucket.bytes / 2 ^ 20, bucket.ready / 1e6)
end
say('A step of one rank: %.2f ms; buckets: %s', by[1].step.med / 1e6, table.concat(sizes, ', '))
say ''
say('%-33s %8s %8s  %-23s %-23s %8s %6s  %s', 'messages', 'with, ms', 'without', 'gain measured',
  'gain by the model', 'transfer', 'takes', 'in its band')
local bytes = 0
for _, bucket in ipairs(one.buckets) do bytes = bytes + bucket.bytes / #one.buckets end
for _, slow in ipairs { false, '200,0.5', '200,1', '200,2', '3000,0.2' } do
  progress('%s', slow or 'without waiting')
  local found, beside = net_of(slow or nil), beside_of(slow or nil, bytes)
  local ratios, a, b = {}, 0, 0
  for i = 1, opt.starts do
    local ratio, with_ns, without_ns = gain(slow or nil)
    ratios[i], a, b = ratio, a + with_ns, b + without_ns
    progress('  start %d of %d: %.3f', i, opt.starts, ratio)
  end
  local own = passes.interval(ratios)
  local said = predicted(one, found, beside)
  say('%-33s %8.2f %8.2f  %-23s %-23s %8.2f %6.2f  %s',
    slow and ('SIMULATED, %s us + %s ns/byte'):format(slow:match '(.*),(.*)') or 'as they are',
    a / opt.starts / 1e6, b / opt.starts / 1e6, with(own), with(said), beside.took.med / 1e6,
    beside.busy.med / 1e6, own.med >= said.lo and own.med <= said.hi and 'yes'
      or (own.lo and own.hi >= said.lo and own.lo <= said.hi) and 'its interval reaches it'
      or 'NO')
end
say ''
say 'gain: time of a step without overlap over that with it. Where messages do not wait, two ranks'
say 'compute on both processors, and a transfer takes from them what it hides: there is no gain.'
say 'What goes into the model: messages that nothing is computed beside (ridge net), and a transfer'
say 'of a bucket that something else is computed beside: what it takes, and takes from computing.'
if opt.out ~= '' then
  local out = assert(io.open(opt.out, 'w'))
  out:write(table.concat(kept, '\n'), '\n')
  out:close()
end

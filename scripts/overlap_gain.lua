-- SPDX-License-Identifier: MIT
--- What sending gradients during the backward pass gains over sending them behind it, beside what
--- the model of scaling says: two ranks, over messages that wait (tests/dist, SIMULATED) and over
--- those there are. Each start of the ranks has blocks of steps with overlap (A) and without (B) as
--- ABBA; its ratio B / A is one observation.
---
---     make build/tests/libridge_slow.so
---     ./ridge scripts/overlap_gain.lua --out results/kept/overlap_gain.txt

local C = require 'ridge.ffi.lib'
local interval = require 'ridge.measure.interval'
local ridge = require 'ridge'
local passes = require 'ridge.measure.passes'
local model = require 'ridge.scaling.model'
local shared = dofile 'scripts/ranks_net.lua'
local statistics = require 'ridge.measure.statistics'

local SELF = 'scripts/overlap_gain.lua'
local WIDTH, BATCH, BUCKET_MB, LAYERS = 512, 128, 1.1, 4
local LIBRARY = 'build/tests/libridge_slow.so'

-- -- A rank ---------------------------------------------------------------------------------------

local function training(overlap)
  local rows = { shared.rows(BATCH, WIDTH, 3 + ridge.dist.init().rank) }
  return shared.training(shared.network(WIDTH, LAYERS), rows[1], rows[2], { bucket_mb = BUCKET_MB,
    overlap = overlap })
end

local function write(path, text)
  if ridge.dist.init().rank == 0 then shared.put(path, text) end
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

-- A net whose gradients stay where they are: what is computed without any message.
local function alone()
  local step, net = training(false)
  net.hold = true
  return step
end

-- What a step computes while another process does the same: each trains alone, and sends nothing,
-- not even to itself: its thread of messages would add that up beside what is done with buckets.
-- Lines: ns of computing, of it behind the backward pass, then when each bucket is ready and its
-- bytes.
function RANK.timeline(path, n)
  local rank = tonumber(os.getenv 'OMPI_COMM_WORLD_RANK' or os.getenv 'PMIX_RANK' or 0)
  ridge.dist.init { backend = 'none' }
  local step = training(false)
  local Buckets, worlds = require 'ridge.dist.buckets', require 'ridge.world'
  local complete, finish = Buckets.complete, Buckets.finish
  local function now() return tonumber(C.rg_clock_ns()) end
  local lines, began, at = {}, now(), {}
  function worlds.start() return 0 end
  function worlds.wait() end
  function Buckets:complete(p, weight)
    complete(self, p, weight)
    at[self.of[p].bucket] = now() - began
  end
  function Buckets:finish(weight)
    local back = now()
    finish(self, weight)
    local ended = now()
    local words = { ('%.0f %.0f'):format(ended - began, ended - back) }
    for _, bucket in ipairs(self) do
      words[#words + 1] = ('%.0f:%d'):format(at[bucket] or back - began, bucket.bytes)
    end
    lines[#lines + 1], began, at = table.concat(words, ' '), ended, {}
  end
  for _ = 1, tonumber(n) do step() end
  if rank > 0 then return end
  shared.put(path, table.concat(lines, '\n', 6) .. '\n')
end

-- All-reduces one behind the other, of memory as a training has: nanoseconds of one where nothing
-- is computed, of one beside the training's own computing, and by how many of them a backward pass
-- takes longer than without: that is where a training has transfers, and it leaves less of the
-- memory to others than the rest of a step.
function RANK.beside(path, bytes)
  local ffi, worlds = require 'ffi', require 'ridge.world'
  local world, step = ridge.dist.init(), alone()
  local count = math.floor(tonumber(bytes) / 4)
  local memory = {}
  for i = 1, LAYERS do memory[i] = ffi.new('float[?]', count) end
  local function now() return tonumber(C.rg_clock_ns()) end
  local function sent(calls)
    local list = {}
    for i = 1, calls do
      local own, times = memory[(i - 1) % LAYERS + 1], ffi.new 'int64_t[3]'
      list[i] = { times = times, ticket = worlds.start(world, SELF, { kind = C.RG_GROUP_ALL_REDUCE,
        op = C.RG_GROUP_WEIGHTED, dtype = C.RG_F32, count = count, weight = 1, ['in'] = own,
        out = own, times = times }, times, own) }
    end
    return list
  end
  local function took(list)
    worlds.wait(world, SELF, list[#list].ticket)
    return tonumber(list[#list].times[C.RG_GROUP_ENDED] - list[1].times[C.RG_GROUP_BEGAN]) / #list
  end
  local function steps_for(n)
    local began, back = now(), 0
    for _ = 1, n do back = back + select(2, step()) end
    return now() - began, back
  end
  for _ = 1, 5 do step() end
  local lines = {}
  for round = 1, 10 do
    ridge.dist.barrier()
    local bare = took(sent(LAYERS))
    ridge.dist.barrier()
    local lone, lone_back = steps_for(6)
    ridge.dist.barrier()
    -- as many as go on for longer than the steps, so that all of these have transfers beside them
    local list = sent(worlds.first(world, SELF, { math.max(8, math.ceil(1.5 * lone / bare)) })[1])
    local back = select(2, steps_for(6))
    local k, from, to = 0, list[1].times[C.RG_GROUP_BEGAN], 0
    for _, call in ipairs(list) do
      local ended = tonumber(call.times[C.RG_GROUP_ENDED])
      if ended > 0 then k, to = k + 1, ended end
    end
    local one = (to - tonumber(from)) / k
    took(list)
    if round > 2 then
      lines[#lines + 1] = ('%.0f %.0f %.0f\n'):format(bare, one, one * (1 - lone_back / back))
    end
  end
  write(path, table.concat(lines))
end

if (...) == 'rank' then return RANK[select(3, ...)]((select(2, ...)), select(4, ...)) end

-- -- All of it ------------------------------------------------------------------------------------

local opt = ridge.args {
  { 'starts', 7, 'of the ranks, for each network; below 5 there is no interval', integer = true },
  { 'steps', 8, 'of a block', integer = true },
  { 'rounds', 6, 'of ABBA in each start', integer = true },
  { 'inputs', 5, 'starts that say what goes into the model', integer = true, min = 2 },
  { 'slow', '', 'one transport only: 200,0.5' },
  { 'out', '', 'a file for what is printed' },
}

local say, keep = shared.report()

local function launch(n, slow, ...)
  return shared.launch(SELF, n, { ... }, { RIDGE_MPI = slow and LIBRARY or os.getenv 'RIDGE_MPI',
    RIDGE_SLOW = slow })
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

local function with(found)
  return found.lo and ('%.3f (%.3f to %.3f)'):format(found.med, found.lo, found.hi)
    or ('%.3f'):format(found.med)
end

-- Transfers of a bucket: where nothing is computed, beside the training's computing, and what each
-- takes from that; as list by start.
local function transfers_of(slow, bytes)
  local out = {}
  for i = 1, opt.inputs do
    local list = { {}, {}, {} }
    for a, b, c in launch(2, slow, 'beside', bytes):gmatch '(%d+) (%d+) (%-?%d+)' do
      for k, x in ipairs { a, b, c } do table.insert(list[k], tonumber(x)) end
    end
    local bare, took, busy = statistics.median(list[1]), statistics.median(list[2]),
      statistics.median(list[3])
    out[i] = { bare = bare, took = took, busy = math.max(0, math.min(busy, took)) }
  end
  return out
end

-- What a step computes beside another process, by start: compute, behind (what is done with buckets
-- that are there), spread, buckets.
local function timelines()
  local out = {}
  for i = 1, opt.inputs do
    progress('two alone, start %d of %d', i, opt.inputs)
    local all, behind, ready, bytes, n = {}, {}, {}, {}, 0
    for line in launch(2, nil, 'timeline', 40):gmatch '[^\n]+' do
      n = n + 1
      local a, b = line:match '^(%d+) (%d+)'
      all[n], behind[n] = tonumber(a), tonumber(b)
      local k = 0
      for at, size in line:gmatch '(%d+):(%d+)' do
        k = k + 1
        ready[k], bytes[k] = ready[k] or {}, tonumber(size)
        table.insert(ready[k], tonumber(at))
      end
    end
    local sorted = statistics.sorted(all)
    local own = { compute = statistics.median(all), behind = statistics.median(behind), bytes = 0,
      buckets = {}, spread = math.log(sorted[math.ceil(0.75 * n)] / sorted[math.ceil(0.25 * n)])
        / 1.349 }
    for _, size in ipairs(bytes) do own.bytes = own.bytes + size end
    for k, size in ipairs(bytes) do
      own.buckets[k] = { ready = math.min(statistics.median(ready[k]), own.compute - own.behind),
        bytes = size, take = own.behind * size / own.bytes }
    end
    out[i] = own
  end
  return out
end

-- The ratio that the model says of what two starts found.
local function said_of(one, transfer)
  local input = { compute = one.compute, buckets = one.buckets, spread = one.spread,
    processors = tonumber(C.rg_processors()), network = { alpha = transfer.bare / 2, beta = 0,
      beside = transfer.took / transfer.bare, waits = 1 - transfer.busy / transfer.took } }
  local on = model.step(input, 2).ns
  input.overlap = false
  local off = model.step(input, 2).ns
  return off / on, on, off
end

-- What it says of each start of computing with each of transfers: the middle, and a band that has
-- 95 % of what one more pair would say (of logarithms; both vary, and few starts are known).
local function predicted(ones, transfers)
  local sums, grand, ons, offs = { {}, {} }, {}, {}, {}
  for i, one in ipairs(ones) do
    for k, transfer in ipairs(transfers) do
      local gained, on, off = said_of(one, transfer)
      local x = math.log(gained)
      ons[#ons + 1], offs[#offs + 1] = on, off
      grand[#grand + 1] = x
      sums[1][i], sums[2][k] = (sums[1][i] or 0) + x, (sums[2][k] or 0) + x
    end
  end
  local function variance(list, n)
    local mean, sum = 0, 0
    for _, x in ipairs(list) do mean = mean + x / n / #list end
    for _, x in ipairs(list) do sum = sum + (x / n - mean) ^ 2 end
    return sum / math.max(1, #list - 1)
  end
  local sd = math.sqrt(variance(sums[1], #transfers) + variance(sums[2], #ones))
  local half = sd * math.sqrt(1 + 1 / #ones) * interval.t_factor(0.95, math.max(1, #ones - 1))
  local med = statistics.median(grand)
  return { med = math.exp(med), lo = math.exp(med - half), hi = math.exp(med + half),
    on = statistics.median(ons), off = statistics.median(offs) }
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
local ones = timelines()
local one = ones[1] -- of which it is told
local sizes = {}
for i, bucket in ipairs(one.buckets) do
  sizes[i] = ('%.2f MB at %.2f ms'):format(bucket.bytes / 2 ^ 20, bucket.ready / 1e6)
end
say('A step of one of two that train alone: %.2f ms, %.2f of it behind the backward pass; '
  .. 'buckets: %s',
  one.compute / 1e6, one.behind / 1e6, table.concat(sizes, ', '))
say ''
say('%-33s %8s %8s  %-23s %-23s %-17s %-17s  %s', 'messages', 'with, ms', 'without',
  'gain measured', 'gain by the model', 'model: with, off', 'bare, beside, busy', 'in its band')
local bytes = 0
for _, bucket in ipairs(one.buckets) do bytes = bytes + bucket.bytes / #one.buckets end
for _, slow in ipairs(opt.slow ~= '' and { opt.slow }
    or { false, '200,0.5', '200,1', '200,2', '3000,0.2' }) do
  progress('%s', slow or 'without waiting')
  local transfers = transfers_of(slow or nil, bytes)
  local ratios, a, b = {}, 0, 0
  for i = 1, opt.starts do
    local ratio, with_ns, without_ns = gain(slow or nil)
    ratios[i], a, b = ratio, a + with_ns, b + without_ns
    progress('  start %d of %d: %.3f', i, opt.starts, ratio)
  end
  local own = passes.interval(ratios)
  local said = predicted(ones, transfers)
  local mid = {}
  for _, name in ipairs { 'bare', 'took', 'busy' } do
    local list = {}
    for i, transfer in ipairs(transfers) do list[i] = transfer[name] / 1e6 end
    mid[#mid + 1] = ('%.2f'):format(statistics.median(list))
  end
  say('%-33s %8.2f %8.2f  %-23s %-23s %-17s %-17s  %s',
    slow and ('SIMULATED, %s us + %s ns/byte'):format(slow:match '(.*),(.*)') or 'as they are',
    a / opt.starts / 1e6, b / opt.starts / 1e6, with(own), with(said),
    ('%.2f %.2f'):format(said.on / 1e6, said.off / 1e6), table.concat(mid, ' '),
    own.med >= said.lo and own.med <= said.hi and 'yes'
      or (own.lo and own.hi >= said.lo and own.lo <= said.hi) and 'its interval reaches it'
      or 'NO')
end
say ''
say 'gain: time of a step without overlap over that with it. Where messages do not wait, two ranks'
say 'compute on both processors, and a transfer takes from them what it hides: there is no gain.'
say 'What goes into the model: the computing of two processes that train alone at once, and'
say 'transfers of a bucket where nothing is computed and beside that computing. The band is that of'
say 'one more start.'
keep(opt.out)

-- SPDX-License-Identifier: MIT
--- What scripts/trust_trials.lua measures: kinds of work, what one fresh process takes of them, and
--- the neighbours.
--
-- A process gets its order as a line and answers with one.  What it takes, it takes as the product
-- does: a pass through the lab of sweeps (set up anew, shifted, a partner beside it), `quick`
-- through measure.point, and the protocol of before passes through measure.block.

local host = require 'ridge.measure.host'
local lab = require 'ridge.sweep.lab'
local literal = require 'ridge.measure.literal'
local measure = require 'ridge.measure'
local native = require 'ridge.measure.native'
local random = require 'ridge.measure.random'
local ridge = require 'ridge'
local variation = require 'ridge.measure.variation'

local M = {}

-- -- Kinds of work -----------------------------------------------------------------------

-- Each makes `times` calls over `n` values, as a graph's plan: a capture makes one call of all that
-- are the same. Text, so that ab's processes can make it too.
local ADD = [[local x = r.ones(n)
  return r.graph(function()
    local y
    for _ = 1, times do y = x + 1 end
    return y
  end):plan()]]

local LINEAR = [[local x, w = r.randn(64, n):to '%s', r.randn(n, n):to '%s'
  return r.graph(function()
    local y
    for _ = 1, times do y = x:matmul(w) end
    return y
  end):plan()]]

local TRAINING = [[local nn = require 'ridge.nn'
  local net = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, 8))
  local optimizer = require('ridge.optim').SGD(net, { lr = 1e-6 })
  local x, y = r.randn(32, n), r.randn(32, 8)
  return function()
    for _ = 1, times do
      local d = net(x) - y
      local loss = (d * d):mean()
      optimizer:zero_grad()
      loss:backward()
      optimizer:step()
    end
  end]]

local ALLOCATING = [[local x = r.randn(n, n)
  return function()
    local y
    for _ = 1, times do y = ((x + 1) * 2):exp() end
    return y
  end]]

-- Floats that are read and written again, so that both together are a share of a cache.
local function floats(bytes) return math.floor(bytes / 8) end

--- The kinds, for the caches of this machine: name, threads, code, n, and what is 5 % more of it:
--- 21 calls instead of 20, or where one call is long enough, 1.05 times as many values.
---@return table[] kinds
function M.kinds()
  local m = require('ridge.ffi.lib').rg_machine_facts()
  local function bytes(x, otherwise) return tonumber(x) > 0 and tonumber(x) or otherwise end
  local l1, l2 = bytes(m.l1d_bytes, 2 ^ 15), bytes(m.l2_bytes, 2 ^ 20)
  local l3 = math.min(math.max(bytes(m.l3_bytes, 2 ^ 23) / 4, 2 * l2), 2 ^ 25)
  -- past the last level, which a guest may see whole and share with others
  local memory = floats(math.max(2 ^ 27, math.min(2 * bytes(m.l3_bytes, 2 ^ 23), 2 ^ 30)))
  local f32, bf16 = LINEAR:format('f32', 'f32'), LINEAR:format('bf16', 'bf16')
  return {
    { name = 'L1', threads = 1, code = ADD, n = floats(l1 / 2), times = 20 },
    { name = 'L2', threads = 1, code = ADD, n = floats(l2 / 2), times = 20 },
    { name = 'L3', threads = 1, code = ADD, n = floats(l3), times = 1 },
    { name = 'streaming', threads = 1, code = ADD, n = memory, times = 1 },
    { name = 'streaming 2 threads', threads = 2, code = ADD, n = memory, times = 1 },
    { name = 'linear f32 2 threads', threads = 2, code = f32, n = 384, times = 20 },
    { name = 'linear bf16', threads = 1, code = bf16, n = 256, times = 20 },
    { name = 'allocating', threads = 1, code = ALLOCATING, n = 200, times = 20 },
    { name = 'training step', threads = 1, code = TRAINING, n = 64, times = 20 },
  }
end

--- Some of the kinds, by their names; all without any.
---@param names string  comma-separated
---@return table[] kinds
function M.some(names)
  if names == '' then return M.kinds() end
  local by_name, list = {}, {}
  for _, kind in ipairs(M.kinds()) do by_name[kind.name] = kind end
  for name in names:gmatch '[^,]+' do
    list[#list + 1] = by_name[name] or error(('there is no kind %q'):format(name), 0)
  end
  return list
end

local function make(kind)
  return loadstring('local r, n, times = ... ' .. kind.code)(ridge, kind.n, 1)
end

local SETUP = [[local r = require 'ridge'
r.set_num_threads(%d)
local function make(times, n) %s end
return make(%d, %d), make(%d, %d)]]

--- What makes two candidates in another process: the same twice, or with 5 % more of it.
---@param kind table
---@param more boolean
---@return function setup  for measure.ab
function M.setup(kind, more)
  local times, n = kind.times, kind.n
  if more and times > 1 then times = times + 1 elseif more then n = math.floor(1.05 * n) end
  return loadstring(SETUP:format(kind.threads, kind.code, kind.times, kind.n, times, n))
end

-- -- What one process takes ----------------------------------------------------------------

local TAKE = {}

-- One pass of a sweep: each kind set up anew, in another order, beside a copy of itself.
function TAKE.pass(order, generator)
  local found, protocol = {}, lab.protocol { level = order.level }
  for _, kind in ipairs(generator:shuffle(M.some(order.kinds))) do
    ridge.set_num_threads(kind.threads)
    lab.shift(generator:integer(2 ^ 40))
    protocol.seed = generator:integer(2 ^ 30)
    lab.scoped(function()
      local own, copy = unpack(lab.block({ { plan = make(kind), label = 'own' },
        { plan = make(kind), label = 'copy' } }, protocol, {}, function() end))
      for _, r in ipairs { own, copy } do if r.error then error(r.error, 0) end end
      found[kind.name] = { dur = own.samples, copy = copy.samples, clock_hz = own.clock_hz,
        like = variation.kind_of(own.work) }
    end)
    require('ridge.ffi.ref').collect()
  end
  lab.shift(0)
  return found
end

-- The samples of a result, round by round, and what they alone say.
local function in_rounds(r, cost)
  local rounds, each = {}, r.n / r.rounds
  for i, ns in ipairs(r.samples) do
    local k = math.floor((i - 1) / each) + 1
    rounds[k] = rounds[k] or {}
    table.insert(rounds[k], ns)
  end
  return { rounds = rounds, med = r.med, lo = r.ci_lo, hi = r.ci_hi,
    like = variation.kind_of(cost) }
end

local function cost_of(plan) return type(plan) == 'table' and plan:facts() or nil end

-- `quick` of each kind, without what other processes differ by: that is added when it is judged.
function TAKE.quick(order, generator)
  local found = {}
  for _, kind in ipairs(generator:shuffle(M.some(order.kinds))) do
    ridge.set_num_threads(kind.threads)
    local plan = make(kind)
    local r = measure.point(plan, { level = 'quick', quiet_ns = 0 }, { between = variation.NONE })
    found[kind.name] = in_rounds(r, cost_of(plan))
  end
  return found
end

-- The protocol of before passes: rounds of all kinds shuffled together, in one process.
function TAKE.old(order)
  local found = {}
  for threads = 1, 2 do
    local points, kinds = {}, {}
    for _, kind in ipairs(M.some(order.kinds)) do
      if kind.threads == threads then
        kinds[#kinds + 1] = kind
        ridge.set_num_threads(threads)
        points[#points + 1] = { plan = make(kind), label = kind.name }
      end
    end
    for i, r in ipairs(#points > 0 and measure.block(points, { level = 'demo', quiet_ns = 0 },
        { between = variation.NONE }) or {}) do
      if r.error then error(r.error, 0) end
      found[kinds[i].name] = in_rounds(r, cost_of(points[i].plan))
    end
  end
  return found
end

-- -- Neighbours -----------------------------------------------------------------------------

--- Their names, and what they are.
M.NEIGHBOURS = { 'quiet', 'spin', 'burst', 'hog' }
M.WORDS = { quiet = 'as the machine is', spin = 'beside a process that spins',
  burst = 'beside one that works in bursts of 50 to 200 ms',
  hog = 'beside one that streams through memory' }

local LIVE = {}

local function spin_for(ns)
  local ends = native.services().now() + ns
  while native.services().now() < ends do end
end

function LIVE.spin() spin_for(1e8) end

function LIVE.burst(state)
  spin_for(5e7 + state.random:uniform() * 1.5e8)
  native.sleep(5e7 + state.random:uniform() * 1.5e8)
end

function LIVE.hog(state)
  ridge.set_num_threads(1)
  state.x = state.x or ridge.ones(2 ^ 24)
  for _ = 1, 5 do (state.x + 1):release() end
end

-- -- The process ----------------------------------------------------------------------------

--- What a fresh process runs: one order, or the life of a neighbour until its parent is gone.
---@param channel table
function M.main(channel)
  local order = literal.decode(channel:receive(9e18))
  local live, state = LIVE[order.what], { random = random.new(3) }
  while live do
    live(state)
    local _, why = channel:receive(1)
    if why == 'closed' then return end
  end
  local services = native.services()
  local before = services.counters()
  local found = TAKE[order.what](order, random.new(order.seed))
  channel:send(literal.encode { found = found,
    host = host.delta(before, services.counters()) })
end

return M

-- SPDX-License-Identifier: MIT
--- What a training step would take on n ranks: simulated, bucket by bucket.
--
-- Every rank has the same batch, so an ideal step takes what it takes on one. A bucket of gradients
-- is sent when it is complete and the one before it is there, and what is done with it then is the
-- end of the step's computing; the step ends when that has ended and its last bucket is there. A
-- transfer is slower beside computing on all processors than where ranks wait for it, and takes
-- from computing only while there is some. What comes out is no measurement.

local blame = require 'ridge.blame'
local interval = require 'ridge.measure.interval'
local options = require 'ridge.options'
local random = require 'ridge.measure.random'

local M = {}

local NETWORK = {
  algorithm = { 'string', default = 'ring', choices = { 'ring', 'tree', 'two_level' },
    doc = 'ring is what ridge does, too: 2 (n - 1) messages of 1/n' },
  alpha = { 'number', required = true, min = 0, doc = 'ns of a message' },
  beta = { 'number', required = true, min = 0, doc = 'ns of a byte' },
  local_alpha = { 'number', default = 0, min = 0, doc = 'inside of a machine, for two_level' },
  local_beta = { 'number', default = 0, min = 0 },
  waits = { 'number', default = 0, min = 0, max = 1,
    doc = 'share of a transfer that takes no processor: all where a card does it' },
  beside = { 'number', default = 1, min = 1e-3,
    doc = 'times as long a transfer takes where ranks compute on all processors meanwhile' },
}

local INPUT = {
  compute = { 'number', required = true, min = 1e-9, doc = 'ns of a step of one rank' },
  buckets = { 'list', required = true, doc = '{ready = ns since the step began, bytes =, take = ns '
    .. 'of the computing that is done when it is there (0)}' },
  network = { 'table', required = true },
  spread = { 'number', default = 0, min = 0, doc = 'standard deviation of log step time' },
  overlap = { 'boolean', default = true },
  processors = { 'integer', min = 1, doc = 'of a machine; when left out ranks share none' },
  crowding = { 'number', default = 0, min = 0,
    doc = 'share that computing takes longer by for each further rank on a machine' },
  threads = { 'integer', default = 1, min = 1, doc = 'that each rank computes with' },
  machine = { 'integer', min = 1, doc = 'ranks on a machine; all when left out' },
}

-- -- Parts ----------------------------------------------------------------------------------------

--- What an all-reduce takes.
-- >> model.all_reduce({ algorithm = 'ring', alpha = 1000, beta = 1 }, 4, 1e6)
---@param net table algorithm, alpha, beta, local_alpha, local_beta
---@param n integer ranks
---@param bytes number
---@param machine integer|nil ranks on a machine, for two_level
---@return number ns
function M.all_reduce(net, n, bytes, machine)
  if n == 1 then return 0 end
  if net.algorithm == 'tree' then
    local depth = math.ceil(math.log(n) / math.log(2) - 1e-9)
    return 2 * depth * (net.alpha + net.beta * bytes)
  elseif net.algorithm == 'two_level' then
    local inside = math.min(n, machine or n)
    local machines = math.ceil(n / inside)
    return 2 * (inside - 1) * ((net.local_alpha or 0) + (net.local_beta or 0) * bytes / inside)
      + 2 * (machines - 1) * (net.alpha + net.beta * bytes / machines)
  end
  return 2 * (n - 1) * (net.alpha + net.beta * bytes / n)
end

--- How many standard deviations the slowest of n lies above the middle (Blom's approximation).
---@param n integer
---@return number z 0 for one
function M.slowest(n) return n == 1 and 0 or interval.normal_quantile((n - 0.375) / (n + 0.25)) end

-- What a rank's computing and its transfers are stretched by, where ranks of a machine share its
-- processors. Beside it: do they compute on all of them?
local function stretch(input, n, without)
  local ranks = math.min(n, input.machine or n)
  if not input.processors then return 1, 1, false end
  local busy = ranks * input.threads / input.processors
  if without.processors then return 1, 1, busy >= 1 end
  return math.max(1, busy) * (1 + input.crowding * (ranks - 1)),
    math.max(1, ranks / input.processors), busy >= 1
end

-- When a step has ended: computing and one transfer at a time, side by side.
-- ends, back: ns of computing in all, and of those in front of what is done with buckets; beside:
-- where ranks compute on all processors, how many times as long a transfer takes meanwhile
local function course(transfers, ends, back, overlap, beside)
  local t, done, i = 0, 0, 1
  local left = transfers[1] and 1 or 0 -- share of the transfer that comes next
  local may = back -- as far as computing goes without further buckets
  while true do
    local own = transfers[i]
    if not own then return t + ends - done end
    local from = overlap and math.min(own.ready, back) or back
    if done < from then -- nothing is on its way
      t, done = t + from - done, from
    elseif own.ns <= 0 or left <= 0 then
      may, i, left = may + own.take, i + 1, 1
    elseif done >= may then -- nothing to compute
      t, left = t + left * own.ns, 0
    else
      local ns = own.ns * (beside or 1)
      local rate = beside and own.waits / own.ns or 1 -- of computing meanwhile
      local span = math.min(left * ns, rate > 0 and (may - done) / rate or math.huge)
      t, left = t + span, span == left * ns and 0 or left - span / ns
      done = span * rate >= may - done and may or done + span * rate
    end
  end
end

-- The step: without makes some of it free.
local function simulate(input, n, without)
  local net = input.network
  local shared, among, full = stretch(input, n, without)
  local slower = without.slowest and 1 or math.exp(input.spread * M.slowest(n))
  local factor = shared * slower
  local ends = input.compute * factor
  local free = { algorithm = net.algorithm, alpha = without.latency and 0 or net.alpha,
    beta = without.bandwidth and 0 or net.beta,
    local_alpha = without.latency and 0 or net.local_alpha,
    local_beta = without.bandwidth and 0 or net.local_beta }
  local takes, transfers = 0, {}
  for i, bucket in ipairs(input.buckets) do
    local whole = M.all_reduce(free, n, bucket.bytes, input.machine)
    local busy = whole * (1 - net.waits) * among
    transfers[i] = { ready = bucket.ready * factor, take = (bucket.take or 0) * factor,
      ns = busy + whole * net.waits, waits = whole * net.waits }
    takes = takes + transfers[i].take
  end
  return course(transfers, ends, ends - takes, input.overlap, full and net.beside)
end

-- -- A step ---------------------------------------------------------------------------------------

-- In this order where two cost the same.
local PARTS = { 'processors', 'bandwidth', 'latency', 'slowest' }

local function checked(input)
  local all = options.check(INPUT, input, 'scaling.model')
  all.network = options.check(NETWORK, all.network, 'scaling.model: network')
  local before = 0
  for i, bucket in ipairs(all.buckets) do
    if type(bucket) ~= 'table' or type(bucket.ready) ~= 'number' or type(bucket.bytes) ~= 'number'
        or bucket.ready < before or bucket.ready > all.compute * (1 + 1e-9) or bucket.bytes < 0
        or (bucket.take or 0) < 0 then
      blame.raise(('scaling.model: bucket %d has no time between that of the one before it and the '
        .. 'end of the step, or no bytes'):format(i), 'EARG', 'scaling.model')
    end
    before = bucket.ready
  end
  return all
end

--- What a step takes on n ranks.
---@param input table compute, buckets, network, spread, overlap, processors, threads, machine,
---  crowding
---@param n integer ranks
---@return table step ns, efficiency (of one rank's step), lost: what each of processors, bandwidth,
---  latency and slowest adds to it, ns; bound: that which adds most, 'compute' where all of them
---  are below a tenth
function M.step(input, n)
  input = checked(input)
  local ns = simulate(input, n, {})
  local lost, bound, most = {}, 'compute', 0
  for _, part in ipairs(PARTS) do
    lost[part] = ns - simulate(input, n, { [part] = true })
    if lost[part] > most then bound, most = part, lost[part] end
  end
  local efficiency = input.compute / ns
  if efficiency >= 0.9 then bound = 'compute' end
  return { ranks = n, ns = ns, efficiency = efficiency, lost = lost, bound = bound, how = 'model' }
end

-- -- Uncertainty ----------------------------------------------------------------------------------

local DRAWS = 400

-- The natural logarithm's standard deviation that an interval of 95 % has.
local function sd_of(given)
  if not (given and given.lo and given.hi and given.lo > 0) then return 0 end
  return math.log(given.hi / given.lo) / (2 * 1.959964)
end

--- A step with the band in which 95 % of it lie when what goes in is drawn from its intervals.
---@param input table as of `step`
---@param n integer ranks
---@param given table intervals of compute, alpha, beta: {lo =, hi =}; nil: it is known; misfit:
---  standard deviation of the logarithm of what the model misses a step by
---@return table step as of `step`, with lo, hi (ns), efficiency_lo and efficiency_hi
function M.band(input, n, given)
  local step = M.step(input, n)
  local own = checked(input)
  local net = own.network
  local draw = random.new(20230 + n)
  local times, shares = {}, {}
  local sd = {}
  for _, name in ipairs { 'compute', 'alpha', 'beta' } do sd[name] = sd_of(given[name]) end
  for i = 1, DRAWS do
    local factor = math.exp(sd.compute * draw:normal())
    local alpha, beta = math.exp(sd.alpha * draw:normal()), math.exp(sd.beta * draw:normal())
    local buckets = {}
    for k, b in ipairs(own.buckets) do
      buckets[k] = { ready = b.ready * factor, bytes = b.bytes, take = (b.take or 0) * factor }
    end
    local drawn = { compute = own.compute * factor, buckets = buckets, spread = own.spread,
      overlap = own.overlap, processors = own.processors, threads = own.threads,
      machine = own.machine, crowding = own.crowding, network = {
        algorithm = net.algorithm, alpha = net.alpha * alpha, beta = net.beta * beta,
        local_alpha = net.local_alpha, local_beta = net.local_beta, waits = net.waits,
        beside = net.beside } }
    times[i] = simulate(drawn, n, {}) * math.exp((given.misfit or 0) * draw:normal())
    shares[i] = drawn.compute / times[i]
  end
  table.sort(times)
  table.sort(shares)
  local low, high = math.ceil(0.025 * DRAWS), math.ceil(0.975 * DRAWS)
  step.lo, step.hi = math.min(step.ns, times[low]), math.max(step.ns, times[high])
  step.efficiency_lo = math.min(step.efficiency, shares[low])
  step.efficiency_hi = math.max(step.efficiency, shares[high])
  return step
end

--- What breaks near-linearity first: the first of steps below nine tenths.
---@param steps table of `step`, by ranks
---@return table|nil step nil: none is
function M.breaks(steps)
  for _, step in ipairs(steps) do
    if step.efficiency < 0.9 then return step end
  end
end

-- -- Ranks that share a machine -------------------------------------------------------------------

--- How much longer computing takes for each further rank on a machine, so that the model misses the
--- logarithms of measured steps by the least squares. (Eight processes with a net of 13 MB each on
--- two processors and a cache of 300 MB took 1.05, 1.18 and 1.43 of the processor time of one when
--- they were 2, 4 and 8: a line.)
---@param input table as of `step`
---@param list table steps of several ranks: {ranks, ns}
---@return number crowding
---@return number[] missed logarithms of measured over predicted, in the order of the list
function M.crowding(input, list)
  local own = checked(input)
  local function missed(k)
    local sum, all = 0, {}
    own.crowding = k
    for i, each in ipairs(list) do
      all[i] = math.log(each.ns / simulate(own, each.ranks, {}))
      sum = sum + all[i] ^ 2
    end
    return sum, all
  end
  local lo, hi = 0, 4 -- the sum has one minimum: steps grow with the number
  for _ = 1, 100 do
    local a, b = lo + (hi - lo) / 3, hi - (hi - lo) / 3
    if missed(a) <= missed(b) then hi = b else lo = a end
  end
  local k = lo < 1e-9 and 0 or lo
  local _, all = missed(k)
  return k, all
end

--- The logarithm's standard deviation of what a step of n ranks on one machine is predicted by, out
--- of steps of fewer ranks: of what those were missed by, and of the number fitted to them.
---@param missed table[] of several trainings what `crowding` gave
---@param ranks integer[] those fitted to
---@param n integer predicted
---@return number sd as wide as makes a normal band one of Student's with as many trainings
function M.misfit(missed, ranks, n)
  local sum, square, dof = 0, 0, 0
  for _, each in ipairs(missed) do
    for _, x in ipairs(each) do sum = sum + x ^ 2 end
    dof = dof + #each - 1
  end
  for _, r in ipairs(ranks) do square = square + (r - 1) ^ 2 end
  local sd = math.sqrt(sum / math.max(1, dof) * (1 + (n - 1) ^ 2 / square))
  return sd * interval.t_factor(0.95, math.max(1, dof)) / interval.normal_quantile(0.975)
end

-- -- From what was measured -----------------------------------------------------------------------

-- The middle of numbers as factors.
local function middle(list)
  local sum = 0
  for _, x in ipairs(list) do sum = sum + math.log(x) end
  return math.exp(sum / #list)
end

--- One message's alpha and one byte's beta, from all-reduces of some numbers of ranks: each of them
--- is 2 (n - 1) messages of 1/n, stretched where ranks share processors.
---@param list table of ridge.scaling.network.stored
---@param processors integer of the machine that they are of
---@return table net alpha, beta: {med, lo, hi}; simulated: one of them was
function M.hops(list, processors)
  local found = { alpha = { med = {}, lo = {}, hi = {} }, beta = { med = {}, lo = {}, hi = {} } }
  for _, each in ipairs(list) do
    local n = each.ranks
    local shared = math.max(1, n / processors)
    for name, part in pairs { alpha = 1 / (2 * (n - 1) * shared),
        beta = n / (2 * (n - 1) * shared) } do
      local own = each[name]
      for _, key in ipairs { 'med', 'lo', 'hi' } do
        table.insert(found[name][key], (own[key] or own.med) * part)
      end
    end
  end
  local out = { simulated = false }
  for _, each in ipairs(list) do out.simulated = out.simulated or each.simulated == true end
  for name, lists in pairs(found) do
    -- ranks whose middles lie outside of others' intervals say that the law is not theirs alone
    out[name] = { med = middle(lists.med),
      lo = math.min(middle(lists.lo), math.min(unpack(lists.med))),
      hi = math.max(middle(lists.hi), math.max(unpack(lists.med))) }
  end
  return out
end

return M

-- SPDX-License-Identifier: MIT
--- Calibration: the machine's ceilings, and its own noise.
--
-- The noise is what this protocol reports when nothing is there to report: identical points,
-- measured in blocks as any others.  Whatever differs between them, drifts in them or shifts beside
-- them is the machine.  It says what can be told apart here and is a margin for comparing; it moves
-- no limit of a flag or a grade (ridge.measure.flags).

local blame = require 'ridge.blame'
local block = require 'ridge.measure.block'
local interval = require 'ridge.measure.interval'
local options = require 'ridge.options'
local protocols = require 'ridge.measure.protocol'
local random = require 'ridge.measure.random'
local states = require 'ridge.state'
local statistics = require 'ridge.measure.statistics'
local told = require 'ridge.measure.told'

local M = {}

local SPEC = {
  threads = { 'integer|list', doc = 'thread counts; the current one when left out' },
  quick = { 'boolean', default = false, doc = 'shorter, and without the lower instruction sets' },
  points = { 'function', doc = 'makes identical points; products of matrices when left out' },
  ceilings = { 'boolean', default = true, doc = 'measure the ceilings' },
  kinds = { 'list', doc = "ceilings to measure, by how their names begin: { 'fma.', 'bw.l2' }" },
  noise = { 'boolean', default = true, doc = 'measure the noise' },
  seed = { 'integer', default = 1, min = 0, doc = 'of the order' },
  device = { 'string', default = 'cpu', doc = "'cpu', 'cuda:0' ...: whose ceilings and noise" },
  services = { 'table', doc = 'a made-up machine, for tests' },
  progress = { 'function', doc = 'called with a line of text now and then' },
}

-- Share of clean points that stay below the noise.
local QUANTILE = 0.975

local A_A_POINTS = 4

-- What state the machine was in, as rows beside the ceilings.
local STATE = {
  clock_hz = { name = 'clock', unit = 'Hz' },
  compute_ns = { name = 'sentinel.compute', unit = 'ns' },
  memory_ns = { name = 'sentinel.memory', unit = 'ns' },
}

-- -- Interrupts ------------------------------------------------------------------------

-- A recipe's first Ctrl-C only asks it to come to an end; nothing of a calibration is worth going
-- on for, so it ends here and now.
local function check()
  if require('ridge').stopping() then blame.raise('calibration was interrupted', 'EINTR') end
end

-- The machine, looking for that request wherever a block looks for an interrupt.
local function stoppable(services)
  return setmetatable({ check = function()
    check()
    services.check()
  end }, { __index = services })
end

-- -- Ceilings ------------------------------------------------------------------------

-- The widest instruction set is the ceiling of its type; the others keep their suffix.
local function shorten(found)
  for _, type_name in ipairs{ 'fma.f32', 'fma.f64' } do
    for _, isa in ipairs{ 'avx512', 'avx2', 'base' } do
      local entry = found[type_name .. '.' .. isa]
      if entry then
        entry.name = type_name
        break
      end
    end
  end
end

local function is_lower(name, available)
  local type_name, isa = name:match('^(fma%.f%d+)%.(%w+)$')
  if not type_name or isa == 'avx512' then return false end
  return available[type_name .. '.avx512'] or (isa == 'base' and available[type_name .. '.avx2'])
end

local function is_wanted(name, kinds)
  for _, start in ipairs(kinds or { '' }) do
    if name:sub(1, #start) == start then return true end
  end
  return false
end

-- Those the machine has and the caller wants; when quick, of each type only the widest.
local function open_ceilings(threads, opt)
  local native = require 'ridge.measure.native'
  local open, available = {}, {}
  for kind = 0, native.ceilings() - 1 do
    local wanted = is_wanted(native.ceiling_name(kind), opt.kinds)
    -- the memory of the large ones takes a second or two to touch; what is open is released by the
    -- collector
    if wanted then check() end
    local ceiling = wanted and native.ceiling(kind, threads)
    if ceiling then
      open[#open + 1] = ceiling
      available[ceiling.name] = true
    end
  end
  if not opt.quick then return open end
  local kept = {}
  for _, ceiling in ipairs(open) do
    if is_lower(ceiling.name, available) then ceiling.close() else kept[#kept + 1] = ceiling end
  end
  return kept
end

-- The clock of a device while it did its best for long: what later points are held against.
local function add_sustained(open, threads, list)
  local mhz = {}
  for _, ceiling in ipairs(open) do mhz[#mhz + 1] = ceiling.clock_mhz end
  if #mhz > 0 then
    list[#list + 1] = { name = 'device.clock', threads = threads, unit = 'Hz',
                        value = statistics.median(mhz) * 1e6 }
  end
end

local function measure_ceilings(threads, opt, list)
  local rounds, each, run_ns = 10, 3, 1e7
  if opt.quick then rounds, each, run_ns = 5, 3, 5e6 end
  local open = opt.device == 'cpu' and open_ceilings(threads, opt)
    or require('ridge.measure.device_ceiling').open(opt.device, { kinds = opt.kinds })
  local taken, order, shuffler = {}, {}, random.new(opt.seed)
  for i, ceiling in ipairs(open) do
    taken[ceiling] = {}
    order[i] = ceiling
  end
  local ok, err = pcall(function()
    for r = 1, rounds do
      for _, ceiling in ipairs(shuffler:shuffle(order)) do
        local round = {}
        for i = 1, each do
          check()
          round[i] = ceiling.run(run_ns)
        end
        taken[ceiling][r] = round
      end
    end
  end)
  local found = {}
  for _, ceiling in ipairs(open) do ceiling.close() end
  if not ok then error(err, 0) end
  for _, ceiling in ipairs(open) do
    local ci = interval.of_rounds(taken[ceiling], 0.95)
    local entry = { name = ceiling.name, threads = threads, unit = ceiling.unit,
                    value = ci.med, ci_lo = ci.lo, ci_hi = ci.hi }
    found[ceiling.name] = entry
    list[#list + 1] = entry
  end
  shorten(found)
  add_sustained(open, threads, list)
end

-- -- Noise ---------------------------------------------------------------------------

--- Identical points: products of some hundred microseconds, inside the L2 cache; on a
--- device larger ones, which keep all of it busy.
---@param n integer
---@param where string|nil  device; the CPU when left out
---@return table[] points
function M.matrix_points(n, where)
  local ridge = require 'ridge'
  local points = {}
  local generator = ridge.generator(1)   -- its own: calibrating draws from nobody else's seed
  local rows, side = 128, 512
  if where and where ~= 'cpu' then rows, side = 1024, 1024 end
  for i = 1, n do
    local x = ridge.randn(rows, side, { generator = generator, device = where })
    local w = ridge.randn(side, side, { generator = generator, device = where })
    points[i] = { plan = ridge.capture(function() return x:matmul(w) end),
                  label = 'A/A ' .. i }
  end
  return points
end

-- Largest but 2.5 %; with few values the largest.
local function upper(list)
  return statistics.quantile(statistics.sorted(list), QUANTILE)
end

local function add_pairs(results, into)
  for i = 1, #results - 1 do
    for j = i + 1, #results do
      into[#into + 1] = math.abs(math.log(results[i].med / results[j].med))
    end
  end
end

--- The noise in the results of identical points.
---@param blocks table[][]  results of measure.block
---@return table noise      by the names of ridge.measure.flags' limits, and aa
---@return table state      medians of clock_hz and of the reference work: compute_ns, memory_ns
function M.noise_of(blocks)
  local lists = { aa = {}, wide = {}, steady = {}, drift = {}, sentinel = {}, freq = {},
                  steal = {}, pressure = {} }
  local state = { clock_hz = {}, compute_ns = {}, memory_ns = {} }
  local halves = {}
  for _, results in ipairs(blocks) do
    add_pairs(results, lists.aa)
    for _, r in ipairs(results) do
      local seen = { wide = r.iqr, steady = r.warm_spread, drift = math.abs(r.drift),
                     freq = r.clock_spread, steal = r.host.steal, pressure = r.host.pressure }
      for name, value in pairs(seen) do
        if value == value then table.insert(lists[name], value) end   -- not NaN
      end
      halves[#halves + 1] = r.precision
      table.insert(state.clock_hz, r.clock_hz)
      table.insert(state.compute_ns, r.reference_work.compute_ns)
      table.insert(state.memory_ns, r.reference_work.memory_ns)
    end
  end
  local medians = {}
  for name, list in pairs(state) do medians[name] = statistics.median(list) end
  for _, kind in ipairs{ 'compute_ns', 'memory_ns' } do
    for _, ns in ipairs(state[kind]) do
      table.insert(lists.sentinel, math.abs(ns / medians[kind] - 1))
    end
  end
  local noise = {}
  for name, list in pairs(lists) do
    if #list > 0 then noise[name] = upper(list) end
  end
  -- an interval as wide as the usual one of identical points, or as the difference between them, is
  -- as precise as this machine is
  noise.precision = math.max(noise.aa, statistics.median(halves))
  return noise, medians
end

-- Other processes are no property of the machine: what they do is not its noise.
local function is_disturbed(results)
  for _, r in ipairs(results) do
    for _, flag in ipairs(r.flags) do
      if flag == 'FOREIGN' or flag == 'THROTTLE' then return true end
    end
    if r.host.cause == 'neighbour' then return true end
  end
  return false
end

local function measure_noise(threads, opt, list, say)
  local make = opt.points or M.matrix_points
  local protocol = protocols.protocol{ level = 'demo', seed = opt.seed,
                                       max_rounds = opt.quick and 10 or 20 }
  local wanted = opt.quick and 3 or 8
  local services = stoppable(opt.services or require('ridge.measure.native').services())
  local blocks, taken = {}, 0
  while #blocks < wanted and taken < 2 * wanted do
    taken = taken + 1
    protocol.seed = opt.seed + taken
    local results = block.block(make(A_A_POINTS, opt.device), protocol, { services = services })
    for _, r in ipairs(results) do
      if r.error then error(r.error, 0) end
    end
    if not is_disturbed(results) then blocks[#blocks + 1] = results end
  end
  if #blocks < math.min(2, wanted) then
    say(('other processes ran in %d of %d blocks: the noise of this machine is not known, limits '
      .. 'stay as they are'):format(taken - #blocks, taken))
    return
  end
  local noise, state = M.noise_of(blocks)
  local names = {}
  for name in pairs(noise) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    list[#list + 1] = { name = 'noise.' .. name, threads = threads, unit = '1',
                        value = noise[name] }
  end
  for name, row in pairs(STATE) do
    list[#list + 1] = { name = row.name, threads = threads, unit = row.unit, value = state[name] }
  end
end

-- -- Interface -------------------------------------------------------------------------

-- A device's rows are of no number of threads: 0.
local function each_thread_count(opt, current, f)
  if opt.device ~= 'cpu' then return f(0) end
  local counts = type(opt.threads) == 'table' and opt.threads or { opt.threads or current }
  for _, n in ipairs(counts) do f(n) end
end

local THREADS = states.exchange(function(n)
  local backend = require 'ridge.backend'
  local before = backend.threads()
  backend.set_threads(n)
  return before
end)

--- Measure the machine: ceilings and noise, about ten seconds for each thread count when quick.
---@param given table|nil  threads (a number or a list), quick, ceilings, noise, seed, progress;
---  device: its ceilings instead of the CPU's, as rows of 0 threads ('bw.l2', 'bw.dram',
---  'product.f32', ..., 'device.clock')
---@return table[] list    { name =, threads =, unit =, value =, ci_lo =, ci_hi = } of 'fma.f32',
---  'bw.l2', ..., 'noise.aa', ..., 'clock', 'sentinel.compute', 'sentinel.memory'
-- >> measure.calibrate{ quick = true }
function M.calibrate(given)
  local opt = options.check(SPEC, given, 'measure.calibrate')
  local backend = require 'ridge.backend'
  local before, list = backend.threads(), {}
  local say = opt.progress or function() end
  states.with(THREADS, { value = before }, each_thread_count, opt, before, function(threads)
    if threads > 0 then backend.set_threads(threads) end
    if opt.ceilings then
      say(threads > 0 and ('ceilings, threads = %d'):format(threads)
        or ('ceilings of %s'):format(opt.device))
      measure_ceilings(threads, opt, list)
    end
    if opt.noise then
      say(threads > 0 and ('noise, threads = %d'):format(threads)
        or ('noise of %s'):format(opt.device))
      measure_noise(threads, opt, list, say)
    end
  end)
  return told.calibration(list)
end

-- When the newest `ridge trust` was kept. One of less than a minute leaves out some rows; those
-- that an older one left under their names say nothing of the minutes that it ran.
local function trust_at(list, threads)
  local at
  for _, row in ipairs(list) do
    if type(row) == 'table' and row.threads == threads and row.name:find '^trust%.' then
      at = math.max(at or 0, row.at or 0)
    end
  end
  return at
end

--- What a block needs of a calibration: the rows of one thread count, by name.
---@param list table[]     from calibrate, or the same rows read back from a database
---@param threads integer
---@return table|nil calibration  ceilings, noise, clock_hz, reference (of the reference work),
---  trust (up, down, ... of ridge.measure.trust), device_hz (its sustained clock); nil when no row
---  is of that count
function M.calibration(list, threads)
  if type(list) ~= 'table' then
    blame.raise(('measure.calibration: rows of measure.calibrate are expected, got %s'):format(
      blame.show(list)))
  end
  local out, any, newest = { ceilings = {} }, false, trust_at(list, threads)
  for _, row in ipairs(list) do
    if type(row) == 'table' and row.threads == threads then
      any = true
      local noise, work = row.name:match('^noise%.(.+)$'), row.name:match('^sentinel%.(.+)$')
      local trust = row.name:match('^trust%.(.+)$')
      if trust then
        out.trust = out.trust or {}
        if (row.at or 0) == newest then out.trust[trust] = row.value end
      elseif noise then
        out.noise = out.noise or {}
        out.noise[noise] = row.value
      elseif work then
        out.reference = out.reference or {}
        out.reference[work .. '_ns'] = row.value
      elseif row.name == 'clock' then
        out.clock_hz = row.value
      elseif row.name == 'device.clock' then
        out.device_hz = row.value
      else
        out.ceilings[row.name] = row
      end
    end
  end
  return any and out or nil
end

return M

-- SPDX-License-Identifier: MIT
--- Does the interval of one run say what another run finds?  Eight kinds of work, on the machine as
--- it is and beside three neighbours: a process that spins, one that works in bursts of 50 to 200
--- ms, one that streams through memory.
--
--     ./ridge scripts/trust_trials.lua --runs 12 --spread 600 --ab 100 > results/kept/trust.txt
--     ./ridge scripts/trust_trials.lua --short
--
-- A run is five passes, each in a fresh process, over all kinds; or `quick` in one fresh process.
-- `one` is the share of pairs in which the 95 % interval of one run contains the median of another
-- (83 is perfect), `all` the share that contains the median of all other runs.  `old` is the same
-- samples of quick through the estimator of one process.  With --ab so many comparisons of each
-- kind of plan with itself, and with one that does 5 % more.  The long form takes hours and wants
-- the machine for itself: half an hour for each ten minutes of --spread.

local interval = require 'ridge.measure.interval'
local literal = require 'ridge.measure.literal'
local measure = require 'ridge.measure'
local native = require 'ridge.measure.native'
local passes = require 'ridge.measure.passes'
local random = require 'ridge.measure.random'
local ridge = require 'ridge'
local statistics = require 'ridge.measure.statistics'

local opt = ridge.args {
  { 'runs', 12, 'independent runs of each kind and neighbour', min = 3, integer = true },
  { 'passes', 5, 'passes of a run', min = 5, integer = true },
  { 'spread', 600, 'seconds over which the passes of a run are spread', min = 0 },
  { 'ab', 0, 'comparisons of each kind, equal and 5 % apart', min = 0, integer = true },
  { 'short', false, 'three runs of short windows, without waiting: shows that it works' },
  { 'child', '', 'pass or quick: measure once, print, end' },
}
if opt.short then opt.runs, opt.spread = 3, 0 end

-- -- Kinds of work -----------------------------------------------------------------------

local function add(n)
  return function()
    local x = ridge.randn(n)
    return ridge.capture(function() return x + 1 end)
  end
end

local function linear(rows, side, dtype)
  return function()
    local x, w = ridge.randn(rows, side), ridge.randn(side, side)
    if dtype then x, w = x:to(dtype), w:to(dtype) end
    return ridge.capture(function() return x:matmul(w) end)
  end
end

local function training_step()
  local nn = require 'ridge.nn'
  local net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
  local optimizer = require('ridge.optim').SGD(net, { lr = 1e-6 })
  local x, y = ridge.randn(32, 64), ridge.randn(32, 8)
  return function()
    local d = net(x) - y
    local loss = (d * d):mean()
    optimizer:zero_grad()
    loss:backward()
    optimizer:step()
  end
end

local function allocating()
  local x = ridge.randn(200, 200)
  return function() return ((x + 1) * 2):exp() end
end

local KINDS = {
  { 'L1', add(2000), 1 }, { 'L2', add(60000), 1 },
  { 'last cache', add(600000), 1 }, { 'streaming', add(8000000), 1 },
  { 'linear, 2 threads', linear(64, 384), 2 }, { 'allocating', allocating, 1 },
  { 'training step', training_step, 1 }, { 'linear, bf16', linear(64, 256, 'bf16'), 1 },
}

-- -- In a fresh process --------------------------------------------------------------------

local WINDOW_NS, WINDOWS = opt.short and 3e5 or 4e6, 3

local function one_pass(made)
  local windows, k = native.windows(made), 1
  local function take()
    local w = windows(k, 1, false)[1]
    return (w.end_ns - w.begin_ns) / k
  end
  while take() * k < WINDOW_NS do k = k * 2 end
  take()
  local times = {}
  for i = 1, WINDOWS do times[i] = take() end
  return statistics.median(times)
end

-- The new interval of quick, and the one that its rounds alone give.
local function one_quick(made)
  local r = measure.point(made, { level = 'quick', quiet_ns = 0 })
  local rounds, each = {}, r.n / r.rounds
  for i, ns in ipairs(r.samples) do
    local k = math.floor((i - 1) / each) + 1
    rounds[k] = rounds[k] or {}
    table.insert(rounds[k], ns)
  end
  local old = interval.of_rounds(rounds, 0.95)
  return { med = r.med, lo = r.ci_lo, hi = r.ci_hi, old_lo = old.lo, old_hi = old.hi }
end

local function child(what)
  local shift = ridge.zeros(random.new(os.time() + math.floor(native.services().now() % 1e6))
    :integer(2048))
  local found = {}
  for i, kind in ipairs(KINDS) do
    ridge.set_num_threads(kind[3])
    found[i] = (what == 'pass' and one_pass or one_quick)(kind[2]())
  end
  io.write(literal.encode(found), '\n')
  shift:release()
end

local function fresh(what)
  local pipe = io.popen(('./ridge scripts/trust_trials.lua --child %s%s'):format(what,
    opt.short and ' --short' or ''))
  local line = pipe:read '*l'
  pipe:close()
  if not line then error('a process that measures ended', 0) end
  return literal.decode((line:gsub('%s+$', '')))
end

-- -- Neighbours ------------------------------------------------------------------------------

local BURST = [[local n = require 'ridge.measure.native' local s = n.services()
  local r = require('ridge.measure.random').new(3)
  while true do
    local ends = s.now() + 5e7 + r:uniform() * 1.5e8
    while s.now() < ends do end
    n.sleep(5e7 + r:uniform() * 1.5e8)
  end]]
local HOG = [[local r = require 'ridge' r.set_num_threads(1) local x = r.zeros(16000000)
  while true do local y = x + 1 y:release() end]]

local NEIGHBOURS = {
  { 'as it is' }, { 'one spins', 'while :; do :; done' },
  { 'bursts', BURST }, { 'memory hog', HOG },
}

local function start(neighbour)
  local code = neighbour[2]
  if not code then return nil end
  local command = code:find 'require' and ("exec ./ridge -e '%s'"):format((code:gsub("'", '"')))
    or code
  local pipe = io.popen(("exec sh -c 'echo $$; exec >&-; %s'"):format((command:gsub("'", "'\\''"))))
  return pipe:read '*n', pipe
end

local function stop(pid, pipe)
  if not pid then return end
  os.execute(('kill %d'):format(pid))
  pipe:close()
end

-- -- Coverage ----------------------------------------------------------------------------------

-- Shares of runs whose interval contains the median of another, and of all others.
local function coverage(runs, lo, hi)
  local one, all, n = 0, 0, 0
  local width = {}
  for i, a in ipairs(runs) do
    local others = {}
    for j, b in ipairs(runs) do
      if i ~= j then
        n, others[#others + 1] = n + 1, b.med
        if a[lo] <= b.med and b.med <= a[hi] then one = one + 1 end
      end
    end
    local middle = statistics.median(others)
    if a[lo] <= middle and middle <= a[hi] then all = all + 1 end
    width[i] = 50 * math.log(a[hi] / a[lo])
  end
  return ('%3.0f %4.0f %6.1f'):format(100 * one / n, 100 * all / #runs, statistics.median(width))
end

local function trial(neighbour)
  local by_pass, by_quick, seconds = {}, {}, { 0, 0 }
  for i = 1, #KINDS do by_pass[i], by_quick[i] = {}, {} end
  for run = 1, opt.runs do
    local meds = {}
    for i = 1, #KINDS do meds[i] = {} end
    local function timed(slot, what)
      local began = native.services().now()
      local found = fresh(what)
      seconds[slot] = seconds[slot] + (native.services().now() - began) / 1e9 / opt.runs
      return found
    end
    for pass = 1, opt.passes do
      if ridge.stopping() then error('interrupted', 0) end
      for i, ns in ipairs(timed(1, 'pass')) do meds[i][pass] = ns end
      native.sleep(opt.spread / opt.passes * 1e9)
    end
    for i, quick in ipairs(timed(2, 'quick')) do
      by_pass[i][run], by_quick[i][run] = passes.interval(meds[i]), quick
    end
    io.stderr:write(('%s: run %d of %d\n'):format(neighbour[1], run, opt.runs))
  end
  print(('\n%s: %d runs; a run of passes takes %.1f s of measuring, one of quick %.1f s, for all '
    .. 'kinds'):format(neighbour[1], opt.runs, seconds[1], seconds[2]))
  print(('%-20s %16s %18s %18s'):format('one, all, width in %', 'passes', 'quick', 'old'))
  for i, kind in ipairs(KINDS) do
    print(('%-20s %16s %18s %18s'):format(kind[1], coverage(by_pass[i], 'lo', 'hi'),
      coverage(by_quick[i], 'lo', 'hi'), coverage(by_quick[i], 'old_lo', 'old_hi')))
  end
end

-- -- Comparisons ---------------------------------------------------------------------------------

-- A kind against itself and against one of 5 % more work; what it names has to be in its text.
local AB = {
  { 'L1', 'r.randn(2000)', 1 }, { 'L2', 'r.randn(60000)', 1 },
  { 'last cache', 'r.randn(600000)', 1 }, { 'streaming', 'r.randn(8000000)', 1 },
  { 'L1, 2 threads', 'r.randn(2000)', 2 },
}

local SETUP = [[return function()
  local r = require 'ridge'
  r.set_num_threads(%d)
  r.manual_seed(1)
  local x = %s
  local function chain(n)
    local y = x:clone()
    return r.capture(function()
      local z
      for _ = 1, n do z = y:exp() end
      return z
    end)
  end
  return chain(20), chain(%d)
end]]

local function compared(neighbour)
  print(('\n%s: comparisons of %d'):format(neighbour[1], opt.ab))
  for _, kind in ipairs(AB) do
    local wrong, found = 0, 0
    for i = 1, opt.ab do
      for _, n in ipairs { 20, 21 } do
        if ridge.stopping() then error('interrupted', 0) end
        local setup = loadstring(SETUP:format(kind[3], kind[2], n))()
        local said = measure.ab { setup = setup, seed = 1000 * i + n,
          protocol = { level = 'quick', quiet_ns = 0 } }.verdict
        if n == 20 and (said == 'faster' or said == 'slower') then wrong = wrong + 1 end
        if n == 21 and said == 'slower' then found = found + 1 end
      end
    end
    print(('%-24s A/A wrong %d, 5 %% apart found %d'):format(kind[1], wrong, found))
  end
end

-- -- All -----------------------------------------------------------------------------------------

if opt.child ~= '' then return child(opt.child) end

for _, neighbour in ipairs(NEIGHBOURS) do
  local pid, pipe = start(neighbour)
  local ok, err = pcall(function()
    trial(neighbour)
    if opt.ab > 0 then compared(neighbour) end
  end)
  stop(pid, pipe)
  if not ok then error(err, 0) end
end

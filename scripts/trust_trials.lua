-- SPDX-License-Identifier: MIT
--- Does the interval of one run say what another run finds? Nine kinds of work (L1, L2, L3,
--- streaming, two threads, f32 and bf16, allocating, a training step), quiet and beside three
--- neighbours: one that spins, one that works in bursts of 50 to 200 ms, one that streams through
--- memory.
--
--     ./ridge scripts/trust_trials.lua --estimate     # how long the rest would take, here
--     ./ridge scripts/trust_trials.lua --neighbour quiet --spread 300 --ab 3   # 25 minutes
--     # short sweeps by the trust before them, and A/A: ask --estimate first
--     ./ridge scripts/trust_trials.lua --neighbour quiet --groups 2 --runs 3 --spread 120 --ab 2
--     # quick by a trust that knows L2 and L3, and 5 % apart, in ten minutes: read `one` (80
--     # wanted) and `all` (92) of "quick after trust" beside "quick", and the last table
--     ./ridge scripts/trust_trials.lua --neighbour quiet --spread 80 --no-old --ab 2 --kinds \
--       'L1,L2,L3,streaming 2 threads'
--     ./ridge scripts/trust_trials.lua --ab 4                                  # three hours
--     ./ridge scripts/trust_trials.lua --report       # what is there so far
--
-- Every process that ended is a line in --out. Ctrl-C or kill -9 loses the one under way; the same
-- command goes on behind what is there. Lines of other options are not mixed.
--
-- A run is five passes, each of a fresh process, spread over the minutes of its group; `quick` in
-- one fresh process; and the protocol of before passes (rounds, one process). Runs of a group are
-- interleaved: in each fifth of its time every run has one pass, in random order, so that a group
-- of eight runs takes the ten minutes of one. What that shows: other processes, other layouts,
-- other states of the machine within these minutes. What it cannot show: that other minutes are
-- alike, because all runs of a group had a pass in each fifth of the same minutes, which makes them
-- more alike than runs are. So a run is held against runs of other groups only (`one`, `all`),
-- which lay in other minutes, and against its own group beside that (`same`): where `one` is
-- clearly below `same`, this machine has states that outlast a group, and no run of that length can
-- know them. The number of groups, not of runs, is how often such a state was seen.
--
-- `one` is the share of pairs in which the 95 % interval of one run contains the median of another
-- (83 is perfect: Cumming and Maillardet 2006), `all` the share that contains the median of all
-- other runs. A run in passes has the interval that a sweep has, with what its passes have not seen
-- of ten minutes; `own minutes` is the same without it. `~` is by how much a share strays, by
-- leaving out one run after the other. `same samples, old` is the estimator of before passes on
-- the samples to its left. With --ab so many comparisons of each kind with itself, and with 5 %
-- more of it.

package.path = 'scripts/?.lua;' .. package.path

local clock = require 'ridge.store.clock'
local literal = require 'ridge.measure.literal'
local measure = require 'ridge.measure'
local native = require 'ridge.measure.native'
local random = require 'ridge.measure.random'
local ridge = require 'ridge'
local tables = require 'trust.tables'
local trust = require 'ridge.measure.trust'
local work = require 'trust.work'

local SPEC = {
  { 'out', 'results/trust_trials.rows', 'what was taken, a line each', writes = 'file' },
  { 'neighbour', 'all', 'beside which', choices = { 'all', unpack(work.NEIGHBOURS) } },
  { 'groups', 3, 'groups of runs, one after the other', min = 1, integer = true },
  { 'runs', 8, 'runs of a group', min = 1, integer = true },
  { 'passes', 5, 'passes of a run', min = 5, integer = true },
  { 'spread', 600, 'seconds of a group: over them its passes are spread', min = 0 },
  { 'old', true, 'the protocol of before passes, beside' },
  { 'trust', 3, 'minutes of ridge trust for each neighbour; 0: none', min = 0 },
  { 'ab', 0, 'comparisons of each kind, equal and 5 % apart', min = 0, integer = true },
  { 'kinds', '', 'only these, by comma' },
  { 'level', 'default', 'level of the passes', choices = { 'quick', 'demo', 'default' } },
  { 'short', false, 'two kinds, two groups of three runs, no waiting: shows that it works' },
  { 'estimate', false, 'take one process of each sort and say how long all of it takes' },
  { 'report', false, 'say what was taken so far, and take nothing' },
}
local opt = ridge.args(SPEC)
if opt.short then
  opt.groups, opt.runs, opt.spread, opt.kinds, opt.trust = 2, 3, 0, 'L1,allocating', 0.02
end

-- -- What is there --------------------------------------------------------------------------

local function read(path)
  local rows, whole, file = {}, 0, io.open(path)
  local text = file and file:read '*a' or ''
  if file then file:close() end
  for line in text:gmatch '([^\n]*)\n' do   -- a torn last line has no end
    local ok, row = pcall(literal.decode, line)
    if ok and type(row) == 'table' then rows[#rows + 1] = row end
    whole = whole + #line + 1
  end
  return rows, whole < #text
end

local rows, is_torn = read(opt.out)
-- what is reported is what was taken
if opt.report and rows[1] then opt.kinds = rows[1].experiment:match 'kinds (.*)$' end

local SLOTS = opt.passes
local kinds, names = work.some(opt.kinds), {}
for i, kind in ipairs(kinds) do names[i] = kind.name end
opt.kinds = table.concat(names, ',')

local neighbours = opt.neighbour == 'all' and work.NEIGHBOURS or { opt.neighbour }

-- What rows have to agree in to be one experiment; more groups, runs or comparisons go on.
local function experiment()
  return ('passes %d, spread %g s, level %s, kinds %s'):format(opt.passes, opt.spread, opt.level,
    opt.kinds)
end

local done = {}
for _, row in ipairs(rows) do done[row.key] = true end

if opt.report then
  print(rows[1] and rows[1].experiment or 'nothing is there')
  return print(tables.text(rows, names, work.WORDS))
end
if rows[1] and rows[1].experiment ~= experiment() then
  error(('%s holds %s; this would be %s: name another --out'):format(opt.out, rows[1].experiment,
    experiment()), 0)
end

local file

local function keep(row)
  row.experiment = #rows == 0 and experiment() or nil
  rows[#rows + 1], done[row.key] = row, true
  if not file then
    file = assert(io.open(opt.out, 'a'))
    if is_torn then file:write '\n' end
  end
  file:write(literal.encode(row), '\n')
  file:flush()
end

-- -- One process --------------------------------------------------------------------------

local MOST_PADDING = 4095
local coin = random.new(math.floor(native.services().now() % 2 ^ 31) + clock.pid())

local function started(order)
  local process = require('ridge.process').spawn { module = 'trust.work', out = 2,
    env = { RIDGE_PADDING = ('x'):rep(coin:integer(MOST_PADDING + 1) - 1) } }
  process:send(literal.encode(order))
  return process
end

local function check() if ridge.stopping() then error('interrupted', 0) end end

local function fresh(what)
  check()
  local began = native.services().now()
  local process = started { what = what, kinds = opt.kinds, level = opt.level,
    seed = coin:integer(2 ^ 31) }
  local line = process:receive()
  process:close()
  check()
  if not line then error(('a process that takes %s ended'):format(what), 0) end
  local row = literal.decode(line)
  row.seconds, row.what = (native.services().now() - began) / 1e9, what
  return row
end

-- -- Progress -----------------------------------------------------------------------------

local function now() return native.services().now() / 1e9 end

local function span(s)
  return s < 90 and ('%.0f s'):format(s) or s < 5400 and ('%.0f min'):format(s / 60)
    or ('%.1f h'):format(s / 3600)
end

-- Seconds of a process by what it takes: medians of what is there.
local function cost(what)
  local list = {}
  for _, row in ipairs(rows) do
    if row.what == what and row.seconds then list[#list + 1] = row.seconds end
  end
  table.sort(list)
  return list[math.ceil(#list / 2)] or 0
end

local function key_of(neighbour, group, run, what, pass)
  return ('%s %d %d %s %d'):format(neighbour, group, run, what, pass or 0)
end

-- What a run has beside its passes, one process each.
local BESIDE = opt.old and { 'quick', 'old' } or { 'quick' }

-- The processes of a fifth of a group that are not there yet, in random order.
local function slot_of(neighbour, group, slot)
  local list = {}
  local function add(run, what, pass)
    local key = key_of(neighbour, group, run, what, pass)
    if not done[key] then
      list[#list + 1] = { key = key, run = run, what = what, pass = pass }
    end
  end
  for run = 1, opt.runs do
    add(run, 'pass', slot)
    if run % SLOTS == slot % SLOTS then
      for _, what in ipairs(BESIDE) do add(run, what) end
    end
  end
  return coin:shuffle(list)
end

local function ab_key(neighbour, i, kind, more)
  return ('%s ab %d %s %s'):format(neighbour, i, kind.name, more and 'more' or 'same')
end

-- Seconds that are left, as far as what was taken until now tells.
local function left()
  local sum, each = 0, cost 'ab'
  for _, neighbour in ipairs(neighbours) do
    if opt.trust > 0 and not done[neighbour .. ' trust'] then sum = sum + 60 * opt.trust end
    for group = 1, opt.groups do
      for slot = 1, SLOTS do
        local own, list = 0, slot_of(neighbour, group, slot)
        for _, piece in ipairs(list) do own = own + cost(piece.what) end
        sum = sum + (#list > 0 and math.max(own, opt.spread / SLOTS) or 0)
      end
    end
    for i = 1, opt.ab do
      for _, kind in ipairs(kinds) do
        for _, more in ipairs { false, true } do
          if not done[ab_key(neighbour, i, kind, more)] then sum = sum + each end
        end
      end
    end
  end
  return sum
end

local function tell(text) io.stderr:write(('%s; about %s left\n'):format(text, span(left()))) end

-- -- Taking -------------------------------------------------------------------------------

local function wait_until(at)
  while now() < at do
    check()
    native.sleep(math.min(0.2, math.max(0.001, at - now())) * 1e9)
  end
end

local function group_of(neighbour, group)
  local length = opt.spread / SLOTS
  for slot = 1, SLOTS do
    local began, list = now(), slot_of(neighbour, group, slot)
    for i, piece in ipairs(list) do
      -- spread over the slot as well, in the second half of what would be left of it
      wait_until(began + length * (i - 1) / (#list + 1))
      local row = fresh(piece.what)
      row.key, row.neighbour, row.group, row.run = piece.key, neighbour, group, piece.run
      row.pass, row.of, row.at = piece.pass, opt.passes, os.time()
      keep(row)
    end
    if #list > 0 then
      tell(('%s: group %d of %d, %d of %d passes'):format(neighbour, group, opt.groups, slot,
        SLOTS))
      wait_until(began + length)
    end
  end
end

local function trust_of(neighbour)
  local key = neighbour .. ' trust'
  if opt.trust == 0 or done[key] then return end
  io.stderr:write(('%s: what processes differ by, %g min\n'):format(neighbour, opt.trust))
  local s = trust.summary(trust.measure { minutes = opt.trust })
  check()
  local found = trust.known(s)
  keep { key = key, neighbour = neighbour, what = 'trust', found = found }
end

local function compared(neighbour, i, kind, more)
  local key = ab_key(neighbour, i, kind, more)
  if done[key] then return end
  check()
  local began = now()
  local r = measure.ab { setup = work.setup(kind, more), check = false,
    seed = 1000 * i + (more and 1 or 0), protocol = { level = 'quick', quiet_ns = 0 } }
  check()
  keep { key = key, neighbour = neighbour, what = 'ab', kind = kind.name, more = more,
    seconds = now() - began, found = { verdict = r.verdict, ratio = r.ratio, lo = r.ci_lo,
      hi = r.ci_hi, margin = r.margin, looks = r.looks } }
end

local function comparisons(neighbour)
  for i = 1, opt.ab do
    for _, kind in ipairs(kinds) do
      compared(neighbour, i, kind, false)
      compared(neighbour, i, kind, true)
    end
    tell(('%s: %d of %d comparisons of each kind'):format(neighbour, i, opt.ab))
  end
end

-- -- All ----------------------------------------------------------------------------------

local function estimate()
  local sum, scratch = {}, rows
  for _, what in ipairs { 'pass', unpack(BESIDE) } do
    local row = fresh(what)
    row.key = 'estimate ' .. what
    scratch[#scratch + 1] = row
    sum[#sum + 1] = ('%s %.1f s'):format(what, row.seconds)
  end
  if opt.ab > 0 then
    local began = now()
    measure.ab { setup = work.setup(kinds[1], true), check = false,
      protocol = { level = 'quick', quiet_ns = 0 } }
    scratch[#scratch + 1] = { what = 'ab', seconds = now() - began }
    sum[#sum + 1] = ('a comparison of %s %.1f s'):format(kinds[1].name, now() - began)
  end
  print(('%s: one process of all kinds takes %s'):format(experiment(), table.concat(sum, ', ')))
  print(('%s beside %s: about %s'):format(span(left()), table.concat(neighbours, ', '),
    os.date('!ends at %H:%M UTC', os.time() + left())))
end

local function beside(neighbour)
  local process = neighbour ~= 'quiet' and started { what = neighbour } or nil
  local ok, err = pcall(function()
    trust_of(neighbour)
    for group = 1, opt.groups do group_of(neighbour, group) end
    comparisons(neighbour)
  end)
  if process then process:close() end
  if not ok then error(err, 0) end
end

if opt.estimate then return estimate() end
local ok, err = pcall(function()
  for _, neighbour in ipairs(neighbours) do beside(neighbour) end
end)
if file then file:close() end
print(experiment())
print(tables.text(rows, names, work.WORDS))
if not ok then
  io.stderr:write(('%s; %s holds what was taken, the same command goes on\n'):format(
    tostring(err), opt.out))
  os.exit(130)
end

-- SPDX-License-Identifier: MIT
--- What this machine can promise: its states and how long they last, and by how much passes,
--- processes and layouts differ.
--
-- Fresh processes, one after the other over some minutes, each time six kinds of work: every kind
-- made twice, so that two layouts stand side by side, and every copy timed in a few windows.  In
-- between, this process watches the smallest work, window by window.  From that follows which
-- differences can be told apart here, and what another process would differ by
-- (ridge.measure.variation).

local blame = require 'ridge.blame'
local literal = require 'ridge.measure.literal'
local minutes = require 'ridge.measure.minutes'
local options = require 'ridge.options'
local passes = require 'ridge.measure.passes'
local random = require 'ridge.measure.random'
local ratio = require 'ridge.show.ratio'
local statistics = require 'ridge.measure.statistics'
local variation = require 'ridge.measure.variation'
local warmup = require 'ridge.measure.warmup'

local exp, log, sqrt = math.exp, math.log, math.sqrt

local M = {}

local SPEC = {
  minutes = { 'number', default = 3, min = 0.001, max = 600, doc = 'how long' },
  least = { 'integer', default = 12, min = 3, max = 1000, doc = 'processes at least' },
  window_ns = { 'number', default = 4e6, min = 1e4, max = 1e9, doc = 'a window' },
  seed = { 'integer', default = 1, min = 0, doc = 'of the lengths of the environment' },
  progress = { 'function', doc = 'called with a line of text now and then' },
}

--- The kinds of work, and where their data lies.
M.KINDS = variation.KINDS
M.WORDS = { small = 'x + 1, 64 floats (L1)',
            linear = 'linear, 16 x 256 x 256 (L2)',
            softmax = 'softmax, 60 x 1000', l2 = 'x + 1, 32 K floats (L2)',
            l3 = 'x + 1, 512 K floats (L3)', streaming = 'x + 1, 4 M floats (memory)' }

local COPIES, WINDOWS = 2, 3

-- x + 1: what is read and written again is 8 bytes a value.
local function added(n)
  return function(r)
    local x = r.randn(n)
    return r.capture(function() return x + 1 end)
  end
end

local MADE = {
  small = added(64), l2 = added(2 ^ 15), l3 = added(2 ^ 19), streaming = added(4000000),
  linear = function(r)
    local x, w = r.randn(16, 256), r.randn(256, 256)
    return r.capture(function() return x:matmul(w) end)
  end,
  softmax = function(r)
    local x = r.randn(60, 1000)
    return r.capture(function() return x:softmax() end)
  end,
}

-- -- One process ---------------------------------------------------------------------------

-- A function that takes one window of a plan, ns a call, behind what settles the caches.
local function taker(plan, window_ns)
  local windows = require('ridge.measure.native').windows(plan)
  local function take(calls) return windows(calls, 1, false)[1] end
  local k = warmup.size(take, window_ns)
  return function()
    warmup.settle(take, k)
    return warmup.duration(take(k)) / k
  end
end

--- One pass: every kind made twice, and the windows of both in turn, as the rounds of a block.
---@param window_ns number
---@return table found  by kind a list of copies, each a list of ns a call
function M.pass(window_ns)
  local ridge, found = require 'ridge', {}
  for _, kind in ipairs(M.KINDS) do
    local takers, times = {}, {}
    for copy = 1, COPIES do
      takers[copy], times[copy] = taker(MADE[kind](ridge), window_ns), {}
    end
    for w = 1, WINDOWS do
      for copy = 1, COPIES do times[copy][w] = takers[copy]() end
    end
    found[kind] = times
  end
  return found
end

--- What a child runs.
---@param channel table
function M.main(channel)
  local window_ns, threads = channel:receive(9e18):match '^(%S+) (%S+)$'
  require('ridge.backend').set_threads(tonumber(threads))
  channel:send(literal.encode(M.pass(tonumber(window_ns))))
end

local MOST_PADDING = 4095

local function fresh_pass(opt, number, threads)
  local padding = random.new(opt.seed + number):integer(MOST_PADDING + 1) - 1
  local process = require('ridge.process').spawn { module = 'ridge.measure.trust', out = 2,
    env = { RIDGE_PADDING = ('x'):rep(padding) } }
  local ok, line, why = pcall(function()
    process:send(('%.17g %d'):format(opt.window_ns, threads))
    return process:receive()
  end)
  process:close()
  if not ok then error(line, 0) end
  if not line then blame.raise('trust: a process that measures ended: ' .. why, 'ESYS') end
  return literal.decode(line)
end

-- -- All of them ---------------------------------------------------------------------------

--- Measure.
---@param given table|nil  minutes, least, window_ns, seed, progress
---@return table record    threads, seconds (until the last pass had ended), passes (each at_s,
---  and by kind its copies), windows (of the smallest work in one process: at_s, ns)
-- >> trust.summary(trust.measure { minutes = 0.1 })
function M.measure(given)
  local opt = options.check(SPEC, given, 'trust.measure')
  local native = require 'ridge.measure.native'
  local services, ridge = native.services(), require 'ridge'
  local threads = require('ridge.backend').threads()
  local record = { threads = threads, passes = {}, windows = {} }
  local began, say = services.now(), opt.progress or function() end
  local take = taker(MADE.small(ridge), opt.window_ns)
  local function seconds() return (services.now() - began) / 1e9 end
  local function watch(s)
    local ends = seconds() + s
    while seconds() < ends do
      services.check()
      record.windows[#record.windows + 1] = { at_s = seconds(), ns = take() }
    end
  end
  local limit = opt.minutes * 60
  while seconds() < limit or #record.passes < opt.least do
    services.check()
    if ridge.stopping() then break end
    local at, n = seconds(), #record.passes + 1
    local pass = fresh_pass(opt, n, threads)
    pass.at_s = at
    record.passes[n] = pass
    -- as long as the pass took: half of the time shows states, half processes
    watch(math.max(0.01, seconds() - at))
    record.seconds = seconds()
    if n % 20 == 0 then say(('%d processes in %.0f s of %.0f'):format(n, seconds(), limit)) end
  end
  return record
end

-- -- What it says ----------------------------------------------------------------------------

-- Of heavy tails and two states: a robust standard deviation would not see the second state, the
-- plain one sees little else.  Both are told.
local function robust_sd(list) return 1.4826 * statistics.mad(list) end

-- Half of the median width of the interval of n passes drawn from those there were.
local function half_width(logs, n, generator)
  local halves = {}
  for i = 1, 200 do
    local times = {}
    for k = 1, n do times[k] = exp(logs[generator:integer(#logs)]) end
    local found = passes.interval(times)
    halves[i] = log(found.hi / found.lo) / 2
  end
  return statistics.median(halves)
end

local COUNTS = { 5, 9, 12 }

-- How long it took; a record of an older ridge knows when its last pass began.
local function seconds_of(record)
  return record.seconds or record.passes[#record.passes].at_s
end

local function kind_of(record, kind)
  local meds, logs, layouts, windows, squares, dof = {}, {}, {}, {}, 0, 0
  local moments = {}
  for i, pass in ipairs(record.passes) do
    local all = {}
    for _, copy in ipairs(pass[kind]) do
      for _, ns in ipairs(copy) do all[#all + 1] = ns end
      local ls = {}
      for w, ns in ipairs(copy) do ls[w] = log(ns) end
      squares, dof = squares + statistics.sd(ls) ^ 2 * (#ls - 1), dof + #ls - 1
    end
    -- what a user measures is one of the copies
    meds[i], windows[i] = statistics.median(pass[kind][1]), all
    layouts[i] = log(statistics.median(pass[kind][2]) / meds[i])
  end
  local found = passes.interval(meds, { windows = windows })
  for i, ns in ipairs(meds) do
    logs[i] = log(ns / found.med)
    moments[i] = { at = record.passes[i].at_s, log = logs[i] }
  end
  local sorted, generator = statistics.sorted(logs), random.new(5)
  local groups = minutes.groups(moments, seconds_of(record))
  local near_up, near_down = minutes.near(groups)
  local out = { kind = kind, found = found, quiet = passes.quiet(windows), logs = logs,
    sd = statistics.sd(logs), robust = robust_sd(logs), layout = robust_sd(layouts) / sqrt(2),
    minutes = minutes.spread(groups, seconds_of(record)), near_up = near_up, near_down = near_down,
    within = sqrt(squares / math.max(dof, 1)), up = math.max(0, statistics.quantile(sorted, 0.975)),
    down = math.max(0, -statistics.quantile(sorted, 0.025)), alone = {}, paired = {} }
  for _, n in ipairs(COUNTS) do
    out.alone[n] = half_width(logs, n, generator)
    out.paired[n] = half_width(layouts, n, generator)
  end
  return out
end

-- States of a series of windows: the low mode and the rest, and how long each lasts.
local function states_of(windows)
  local times = {}
  for i, w in ipairs(windows) do times[i] = w.ns end
  if #times < 20 then return { n = 1 } end
  local logs = {}
  for i, ns in ipairs(times) do logs[i] = log(ns) end
  local sorted = statistics.sorted(logs)
  local removed, smaller, at = statistics.two_means(sorted)
  if removed <= 0.8 or smaller < 0.02 or at >= #sorted then return { n = 1 } end
  local border, dwell, slow = (sorted[at] + sorted[at + 1]) / 2, { {}, {} }, {}
  local since, state, n_slow = windows[1].at_s, logs[1] > border, 0
  for i, x in ipairs(logs) do
    if (x > border) ~= state then
      table.insert(dwell[state and 2 or 1], windows[i].at_s - since)
      since, state = windows[i].at_s, x > border
    end
    if x > border then
      n_slow = n_slow + 1
      slow[n_slow] = x
    end
  end
  local out = { n = 2, share_slow = n_slow / #logs,
                factor = exp(statistics.median(slow) - sorted[math.ceil(at / 2)]) }
  for i, name in ipairs { 'fast_s', 'slow_s' } do
    if #dwell[i] > 0 then
      local d = statistics.sorted(dwell[i])
      out[name] = { statistics.quantile(d, 0.5), statistics.quantile(d, 0.95) }
    end
  end
  return out
end

--- What a record says.
---@param record table   of M.measure
---@return table summary  threads, n (processes), seconds, kinds (each kind, found and quiet (of
---  ridge.measure.passes), sd, robust, layout, within, minutes (standard deviation between
---  minutes, or ninths of a record of less than ten;
---  nil where it ran less than one), up, down, near_up and near_down (how far processes lie from
---  those of the same minute), alone and paired (half-widths by
---  number of passes)), states (n, share_slow, factor, fast_s, slow_s), up, down and
---  minutes (the largest of all kinds)
function M.summary(record)
  if #record.passes < passes.LEAST then
    blame.raise(('trust: %d processes are too few to say anything; %d at least'):format(
      #record.passes, passes.LEAST), 'EARG')
  end
  local out = { threads = record.threads, n = #record.passes, kinds = {}, up = 0, down = 0,
                seconds = seconds_of(record), states = states_of(record.windows) }
  for i, kind in ipairs(M.KINDS) do
    local k = kind_of(record, kind)
    out.kinds[i] = k
    out.up, out.down = math.max(out.up, k.up), math.max(out.down, k.down)
    out.minutes = k.minutes and math.max(out.minutes or 0, k.minutes)
  end
  return out
end

--- Rows to be stored beside ceilings: trust.up, trust.down and of each kind trust.up.KIND,
--- trust.down.KIND (what measure.calibration gives to intervals), trust.sd.KIND, trust.layout.KIND,
--- trust.paired.KIND, trust.processes and trust.seconds; of a minute or more also trust.minutes and
--- trust.minutes.KIND (what the times of a short sweep are widened by), trust.near_up.KIND and
--- trust.near_down.KIND (what an interval of one process is widened by beside that).
---@param summary table
---@return table[] rows  name, threads, unit, value
function M.rows(summary)
  local rows = {}
  local function add(name, value, unit)
    rows[#rows + 1] = { name = 'trust.' .. name, threads = summary.threads, unit = unit or '1',
                        value = value }
  end
  add('up', summary.up)
  add('down', summary.down)
  add('processes', summary.n)
  add('seconds', summary.seconds, 's')
  if summary.minutes then add('minutes', summary.minutes) end
  for _, k in ipairs(summary.kinds) do
    add('up.' .. k.kind, k.up)
    add('down.' .. k.kind, k.down)
    add('sd.' .. k.kind, k.sd)
    add('layout.' .. k.kind, k.layout)
    add('paired.' .. k.kind, k.paired[COUNTS[2]])
    if k.minutes then
      add('minutes.' .. k.kind, k.minutes)
      add('near_up.' .. k.kind, k.near_up)
      add('near_down.' .. k.kind, k.near_down)
    end
  end
  return rows
end

--- The same as a calibration has them: of ridge.measure.variation and ridge.measure.minutes.
---@param summary table
---@return table trust  names without 'trust.', and their values
-- >> variation.of { trust = trust.known(trust.summary(record)) }
function M.known(summary)
  local out = {}
  for _, row in ipairs(M.rows(summary)) do out[row.name:match '^trust%.(.*)'] = row.value end
  return out
end

--- Rows of the picture: each time over the median of its kind.
---@param record table
---@return table[] rows  kind ('windows' of the smallest work, or a kind of work), at_s, ratio
function M.points(record)
  local rows, times = {}, {}
  for i, w in ipairs(record.windows) do times[i] = w.ns end
  local middle = #times > 0 and statistics.median(times)
  local stride = math.max(1, math.ceil(#times / 4000))
  for i = 1, #times, stride do
    rows[#rows + 1] = { kind = 'windows', at_s = record.windows[i].at_s, ratio = times[i] / middle }
  end
  for _, kind in ipairs(M.KINDS) do
    local meds = {}
    for i, pass in ipairs(record.passes) do meds[i] = statistics.median(pass[kind][1]) end
    local centre = statistics.median(meds)
    for i, ns in ipairs(meds) do
      rows[#rows + 1] = { kind = kind, at_s = record.passes[i].at_s, ratio = ns / centre }
    end
  end
  return rows
end

-- -- As a page ---------------------------------------------------------------------------------

-- A spread of the logarithm: '4.0 %', or 'x3' from a factor of two on.
local function spread(x)
  return x >= log(2) and ('x%.3g'):format(exp(x)) or ('%.1f %%'):format(100 * (exp(x) - 1))
end

local function state_lines(states)
  if states.n == 1 then return { 'states: one, as far as the smallest work can tell' } end
  local lines = { ('states: two; the slow one is x%.2f and holds %.0f %% of the time'):format(
    states.factor, 100 * states.share_slow) }
  for _, name in ipairs { 'fast_s', 'slow_s' } do
    local d = states[name]
    if d then
      lines[#lines + 1] = ('  a %s one lasts %.2g s (median), one in twenty %.2g s or more')
        :format(name:match '^%l+', d[1], d[2])
    end
  end
  return lines
end

--- What processes differ by, kind by kind, as one sentence.
---@param summary table
---@return string text
function M.sentence(summary)
  local parts = {}
  for i, k in ipairs(summary.kinds) do
    parts[i] = ('%s %s'):format(k.kind, ratio.range(exp(-k.down), exp(k.up)))
  end
  return '95 % of the processes agree within: ' .. table.concat(parts, ', ')
end

-- What is added to the times of a sweep that is shorter than ten minutes.
local function add_minutes(lines, summary)
  if not summary.minutes then return end
  local parts, drift = {}, variation.unseen(summary.seconds)
  for i, k in ipairs(summary.kinds) do
    parts[i] = ('%s %s'):format(k.kind, minutes.percent(k.minutes))
  end
  lines[#lines + 1] = ('Its %s differ by (95 %%): %s; times of a sweep'):format(drift > 0
    and ('pieces of %.0f s'):format(minutes.group_of(summary.seconds)) or 'minutes',
    table.concat(parts, ', '))
  lines[#lines + 1] = ('whose passes lie within less than ten%s are widened by that%s.'):format(
    drift > 0 and ' minutes' or '', drift > 0 and ' and by the drift' or '')
end

--- The page.
---@param summary table
---@return string text
function M.text(summary)
  local lines = { ('What this machine can promise: %d processes in %.0f s, %d thread%s.'):format(
    summary.n, summary.seconds, summary.threads, summary.threads == 1 and '' or 's'), '' }
  for _, line in ipairs(state_lines(summary.states)) do lines[#lines + 1] = line end
  lines[#lines + 1] = ''
  lines[#lines + 1] = ('%-38s %9s %9s %9s   %s'):format('standard deviation of', 'processes',
    'layouts', 'windows', '95 % of processes')
  for _, k in ipairs(summary.kinds) do
    lines[#lines + 1] = ('%-38s %9s %9s %9s   %s'):format(M.WORDS[k.kind], spread(k.sd),
      spread(k.layout), spread(k.within), ratio.range(exp(-k.down), exp(k.up)))
  end
  lines[#lines + 1] = ''
  lines[#lines + 1] = ('%-38s %-26s %s'):format('differences that can be told apart, with',
    '5 / 9 / 12 passes', 'side by side in each pass')
  for _, k in ipairs(summary.kinds) do
    local alone, paired = {}, {}
    for i, n in ipairs(COUNTS) do
      alone[i], paired[i] = spread(k.alone[n]), spread(k.paired[n])
    end
    lines[#lines + 1] = ('%-38s %-26s %s'):format(M.WORDS[k.kind],
      table.concat(alone, ' / '), table.concat(paired, ' / '))
  end
  lines[#lines + 1] = ''
  local between = variation.known(M.known(summary))
  lines[#lines + 1] = ('An interval of one process (quick, %%bench) is widened by what processes%s')
    :format(summary.minutes and ' and times' or '')
  lines[#lines + 1] = ('of its kind of work differ by; where the kind is not known, as of a '
    .. 'function: %s.'):format(ratio.range(exp(-between.up), exp(between.down)))
  local drift = variation.unseen(summary.seconds)
  if drift > 0 then
    lines[#lines + 1] = ('Beside it stand %s, assumed, for what changes within ten minutes: '
      .. '--minutes 10'):format(spread(drift))
    lines[#lines + 1] = 'sees that.'
  end
  add_minutes(lines, summary)
  return table.concat(lines, '\n')
end

return M

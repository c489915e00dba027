-- SPDX-License-Identifier: MIT
--- What the rows of scripts/trust_trials.lua say: coverage, its own uncertainty, width and price.

local interval = require 'ridge.measure.interval'
local minutes = require 'ridge.measure.minutes'
local passes = require 'ridge.measure.passes'
local statistics = require 'ridge.measure.statistics'
local variation = require 'ridge.measure.variation'

local M = {}

local LEVEL = 0.95

-- -- One run by several estimators -----------------------------------------------------------

local function of_rounds(rounds)
  local ci = interval.of_rounds(rounds, LEVEL)
  return { med = ci.med, lo = ci.lo, hi = ci.hi }
end

local function widened(q, between)
  local lo, hi = variation.widen(q.med, q.lo, q.hi, between)
  return { med = q.med, lo = lo, hi = hi }
end

local function by_pass(run, kind, field)
  local list = {}
  for p = 1, run.passes do list[p] = run.pass[p] and run.pass[p].found[kind][field] end
  return list
end

local function in_passes(run, kind)
  local meds = {}
  for i, dur in ipairs(by_pass(run, kind, 'dur')) do meds[i] = statistics.median(dur) end
  return #meds == run.passes and passes.interval(meds) or nil
end

-- Of each estimator the median and interval of a run, nil where the run lacks what it needs; those
-- side by side use the same samples.
local ESTIMATORS = {
  { 'passes', 'sweep in passes', function(run, kind)
    local found = in_passes(run, kind)
    if not (found and found.lo) then return found end
    local times = {}
    for p = 1, run.passes do times[p] = run.pass[p].at end
    -- rows of before have no time of theirs, and stay what they were
    if #times < run.passes then return found end
    local sd = minutes.term(run.source, by_pass(run, kind, 'like')[1], times)
    local lo, hi = minutes.widen(found.med, found.lo, found.hi, sd)
    return { med = found.med, lo = lo, hi = hi }
  end },
  { 'own', 'same, own minutes', function(run, kind) return in_passes(run, kind) end },
  { 'rounds', 'same samples, old', function(run, kind)
    local windows = by_pass(run, kind, 'dur')
    return #windows == run.passes and of_rounds(windows) or nil
  end },
  { 'old', 'old protocol (demo)', function(run, kind)
    return run.old and of_rounds(run.old.found[kind].rounds) or nil
  end },
  { 'prior', 'quick', function(run, kind)
    local q = run.quick and run.quick.found[kind]
    return q and widened(q, variation.of_kind(variation.PRIOR, q.like)) or nil
  end },
  { 'trust', 'quick after trust', function(run, kind)
    local q = run.quick and run.quick.found[kind]
    return q and run.trust and widened(q, variation.of_kind(variation.of { trust = run.trust },
      q.like)) or nil
  end },
  { 'quick', 'same samples, old', function(run, kind)
    return run.quick and of_rounds(run.quick.found[kind].rounds) or nil
  end },
}

-- -- Coverage ----------------------------------------------------------------------------------

-- Shares of runs whose interval contains the median of another one, and of all others; only runs
-- of other groups count as others, which lay in another time, or (inside) only those of its own.
local function shares(runs, inside)
  local one, n, all, n_all = 0, 0, 0, 0
  for _, a in ipairs(runs) do
    local others = {}
    for _, b in ipairs(runs) do
      if a ~= b and (a.group == b.group) == inside then others[#others + 1] = b.med end
    end
    for _, med in ipairs(others) do
      n, one = n + 1, one + (a.lo <= med and med <= a.hi and 1 or 0)
    end
    if #others > 0 then
      local middle = statistics.median(others)
      n_all, all = n_all + 1, all + (a.lo <= middle and middle <= a.hi and 1 or 0)
    end
  end
  return n > 0 and one / n or nil, n_all > 0 and all / n_all or nil
end

-- Pairs share runs, so their number says little of how well a share is known: what leaving out one
-- run after the other changes does (jackknife).
local function strays(runs, inside, which)
  local values = {}
  for i = 1, #runs do
    local rest = {}
    for k, run in ipairs(runs) do if k ~= i then rest[#rest + 1] = run end end
    values[#values + 1] = (select(which, shares(rest, inside)))
  end
  if #values < 3 then return nil end
  return statistics.sd(values) * (#values - 1) / math.sqrt(#values)
end

--- Coverage of runs by each other.
---@param runs table[]  each med, lo, hi, group
---@return table found  one, one_sd (of runs in other groups), all, all_sd, same (of runs in the
---  same group), width (half of the median width, per cent), n; nil where there are too few
function M.coverage(runs)
  local many = false
  for _, run in ipairs(runs) do many = many or run.group ~= runs[1].group end
  local found, widths = { n = #runs, apart = many }, {}
  found.one, found.all = shares(runs, not many)
  found.one_sd, found.all_sd = strays(runs, not many, 1), strays(runs, not many, 2)
  found.same = many and shares(runs, true) or nil
  for i, run in ipairs(runs) do widths[i] = 50 * math.log(run.hi / run.lo) end
  found.width = #widths > 0 and statistics.median(widths) or nil
  return found
end

-- -- Reading -----------------------------------------------------------------------------------

-- When a run was taken, and the clock in its passes; nil where its rows do not say.
local function clock_of(run)
  local times, logs = {}, {}
  for p = 1, run.passes do
    local row = run.pass[p]
    for _, found in pairs(row and row.at and row.found or {}) do
      local hz = found.clock_hz
      if hz then times[#times + 1], logs[#logs + 1] = row.at, math.log(hz) end
    end
  end
  return #logs > 0 and { at = statistics.median(times), logs = logs } or nil
end

-- What a sweep would know of the minutes of this machine: by `ridge trust`, or by the clock in the
-- runs of the groups before, as sweeps that are stored.
local function add_sources(own)
  for _, run in ipairs(own.runs) do
    local clocks = {}
    for _, other in ipairs(own.runs) do
      if other.group < run.group then clocks[#clocks + 1] = clock_of(other) end
    end
    run.source = minutes.source(run.trust and { trust = run.trust }, clocks)
  end
end

-- What `ridge trust` found, as a calibration has it; rows of before have a table of each kind.
local function trust_of(found)
  for kind, each in pairs(found.kinds or {}) do
    for name, value in pairs(each) do found[name .. '.' .. kind] = value end
  end
  return found
end

-- The rows as runs: by neighbour, a list of runs with what was taken of each.
local function runs_of(rows)
  local by_name, order, trust = {}, {}, {}
  for _, row in ipairs(rows) do
    if row.what == 'trust' then trust[row.neighbour] = trust_of(row.found) end
  end
  for _, row in ipairs(rows) do
    local own = by_name[row.neighbour]
    if not own then
      own = { neighbour = row.neighbour, runs = {}, at = {}, ab = {}, foreign = {} }
      by_name[row.neighbour], order[#order + 1] = own, own
    end
    if row.run then
      local key = row.group .. ' ' .. row.run
      local run = own.at[key]
      if not run then
        run = { group = row.group, pass = {}, passes = row.of, trust = trust[row.neighbour] }
        own.at[key], own.runs[#own.runs + 1] = run, run
      end
      if row.what == 'pass' then run.pass[row.pass] = row else run[row.what] = row end
      local foreign = row.host and row.host.foreign
      if foreign and foreign == foreign then own.foreign[#own.foreign + 1] = foreign end
    elseif row.what == 'ab' then
      own.ab[#own.ab + 1] = row
    end
  end
  for _, own in ipairs(order) do add_sources(own) end
  return order
end

-- -- Tables ------------------------------------------------------------------------------------

local function share(x, sd)
  if not x then return '     -' end
  return ('%3.0f%-3s'):format(100 * x, sd and ('~%.0f'):format(100 * sd) or '')
end

local function coverage_table(say, own, kinds, which)
  local head = { ('%-22s'):format '' }
  for _, name in ipairs(which) do
    for _, e in ipairs(ESTIMATORS) do
      if e[1] == name then head[#head + 1] = ('%-26s'):format(e[2]) end
    end
  end
  say(table.concat(head, ' '))
  say(('%-22s'):format 'in per cent' .. ((' %-6s %-6s %-4s %-7s'):format('one', 'all', 'same',
    '+-')):rep(#which))
  for _, kind in ipairs(kinds) do
    local parts = { ('%-22s'):format(kind) }
    for _, name in ipairs(which) do
      local list = {}
      for _, e in ipairs(ESTIMATORS) do
        for _, run in ipairs(e[1] == name and own.runs or {}) do
          local found = e[3](run, kind)
          if found and found.lo then
            list[#list + 1] = { med = found.med, lo = found.lo, hi = found.hi, group = run.group }
          end
        end
      end
      local c = M.coverage(list)
      parts[#parts + 1] = ('%s %s %s %-7s'):format(share(c.one, c.one_sd), share(c.all, c.all_sd),
        c.same and ('%-4.0f'):format(100 * c.same) or '-   ',
        c.width and ('%.1f'):format(c.width) or '-')
    end
    say(table.concat(parts, ' '))
  end
end

-- Copies of one plan that stood side by side: how often their ratio is said to differ from 1.
local function copies_table(say, own, kinds)
  say(('%-22s %-22s %s'):format('copies side by side', 'called different', '+- of the ratio, %'))
  for _, kind in ipairs(kinds) do
    local wrong, n, widths = 0, 0, {}
    for _, run in ipairs(own.runs) do
      local durs, copies, ratios = by_pass(run, kind, 'dur'), by_pass(run, kind, 'copy'), {}
      for p = 1, math.min(#durs, #copies) do
        local each = {}
        for w, ns in ipairs(durs[p]) do each[w] = ns / copies[p][w] end
        ratios[p] = statistics.median(each)
      end
      local found = #ratios == run.passes and passes.interval(ratios)
      if found and found.lo then
        n = n + 1
        if found.lo > 1 or found.hi < 1 then wrong = wrong + 1 end
        widths[n] = 50 * math.log(found.hi / found.lo)
      end
    end
    say(('%-22s %-22s %s'):format(kind, ('%d of %d'):format(wrong, n),
      n > 0 and ('%.1f'):format(statistics.median(widths)) or '-'))
  end
end

local function ab_table(say, own, kinds)
  if #own.ab == 0 then return end
  say ''
  say(('%-22s %-16s %-20s %-10s %s'):format('ridge ab', 'A/A wrong',
    '5 % apart found', '+-, %', 'seconds'))
  for _, kind in ipairs(kinds) do
    local wrong, same, found, more, widths, seconds = 0, 0, 0, 0, {}, {}
    for _, row in ipairs(own.ab) do
      if row.kind == kind then
        widths[#widths + 1] = 50 * math.log(row.found.hi / row.found.lo)
        seconds[#seconds + 1] = row.seconds
        local called = row.found.verdict == 'faster' or row.found.verdict == 'slower'
        if row.more then
          more, found = more + 1, found + (row.found.verdict == 'slower' and 1 or 0)
        else
          same, wrong = same + 1, wrong + (called and 1 or 0)
        end
      end
    end
    if same + more > 0 then
      say(('%-22s %-16s %-20s %-10.1f %.1f'):format(kind, ('%d of %d'):format(wrong, same),
        ('%d of %d'):format(found, more), statistics.median(widths), statistics.median(seconds)))
    end
  end
end

-- What a run takes of the machine.
local function price(say, own)
  local sums, n = {}, #own.runs
  for _, run in ipairs(own.runs) do
    for _, row in pairs(run.pass) do sums.pass = (sums.pass or 0) + row.seconds end
    for _, what in ipairs { 'quick', 'old' } do
      if run[what] then sums[what] = (sums[what] or 0) + run[what].seconds end
    end
  end
  if n == 0 then return end
  local parts = {}
  for _, each in ipairs { { 'pass', 'in passes' }, { 'old', 'by the old protocol' },
                          { 'quick', 'by quick' } } do
    if sums[each[1]] then parts[#parts + 1] = ('%.1f s %s'):format(sums[each[1]] / n, each[2]) end
  end
  say('a run of all kinds takes ' .. table.concat(parts, ', '))
end

--- What the rows say.
---@param rows table[]   of scripts/trust_trials.lua
---@param kinds string[] names of the kinds
---@param words table    neighbour to what it is
---@return string text
function M.text(rows, kinds, words)
  local lines = {}
  local function say(line) lines[#lines + 1] = (line:gsub('%s+$', '')) end
  for _, own in ipairs(runs_of(rows)) do
    local groups, n_groups = {}, 0
    for _, run in ipairs(own.runs) do
      if not groups[run.group] then groups[run.group], n_groups = true, n_groups + 1 end
    end
    say ''
    say(('%s (%s): %d runs in %d group%s%s'):format(own.neighbour, words[own.neighbour],
      #own.runs, n_groups, n_groups == 1 and '' or 's', #own.foreign > 0
      and ('; others used %.0f %% of the processors'):format(100 * statistics.median(own.foreign))
      or ''))
    if n_groups == 1 then
      say 'one group: all runs lie in the same minutes; what other minutes would say is not shown'
    end
    price(say, own)
    if #own.runs > 0 then
      say ''
      coverage_table(say, own, kinds, { 'passes', 'own', 'rounds', 'old' })
      say ''
      coverage_table(say, own, kinds, { 'prior', 'trust', 'quick' })
      say ''
      copies_table(say, own, kinds)
    end
    ab_table(say, own, kinds)
  end
  return table.concat(lines, '\n')
end

return M

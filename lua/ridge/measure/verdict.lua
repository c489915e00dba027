-- SPDX-License-Identifier: MIT
--- What blocks of two candidates say: the ratio of their times, its interval, and one of four
--- verdicts.
--
-- The interval is the hull of the signed-rank interval of all blocks and of Student's interval of
-- the estimates of the processes, so that where memory lies in one process does not count as a
-- difference.  With several looks the rank interval is that of each look's share of the error; the
-- processes are the same at every look, so their interval keeps its level.
--
-- The margin below which nothing is called is what identical candidates show: the interval of the
-- estimate of the A/A blocks, and 1 % at least.  Where that is wide, equality is not known either:
-- a verdict "equal within 40 %" would be read as equal.

local interval = require 'ridge.measure.interval'
local paired = require 'ridge.measure.paired'

local M = {}

local LEVEL = 0.95

-- Equal is at most this.
local EQUAL_CAP = 0.03

-- No answer is worth more blocks than this in a process: 10 000 slots of 2 ms are 80 s of it.
local MOST_BLOCKS = 10000

local function pooled(processes, name)
  local all = {}
  for _, process in ipairs(processes) do
    for _, d in ipairs(process[name]) do all[#all + 1] = d end
  end
  return all
end

local function hull_of(effects, estimates, looks)
  local found = paired.location(effects, 1 - (1 - LEVEL) / looks)
  local lo, hi, how = found.lo, found.hi, 'signed rank'
  if #estimates > 1 then
    local t_lo, t_hi = interval.student(estimates, LEVEL)
    lo, hi, how = math.min(lo, t_lo), math.max(hi, t_hi), 'signed rank+t'
  end
  return found.estimate, lo, hi, how, found.attained
end

local function agree_in_sign(estimates)
  for _, e in ipairs(estimates) do
    if e * estimates[1] <= 0 then return false end
  end
  return true
end

-- Blocks of a process after which the interval would decide, were it to shrink as 1 / sqrt(n).
local function needed(n, estimate, lo, hi, margin)
  local size, equal = math.abs(estimate), math.min(margin, EQUAL_CAP)
  local distance = size < equal and equal - size or size
  local half = math.max(hi - estimate, estimate - lo)
  if distance <= 0 then return MOST_BLOCKS end
  return math.max(n + 1, math.min(MOST_BLOCKS, math.ceil(n * (half / distance) ^ 2)))
end

--- Judge what was taken so far.
---@param processes table[]  of each process: effects, aa (effects of the blocks of one candidate)
---@param margin number      the least margin, 0.01
---@param looks integer      how often it will be looked at, at most
---@return table found       verdict ('faster', 'slower', 'equal', 'open'; of B against A), ratio
---  (time of B over time of A), ci_lo, ci_hi, ci_how, p, floor (of A/A), margin, aa (ratio of
---  the A/A blocks), aa_fail, blocks, procs, needed (blocks of a process, when open), log
---  (estimate, lo, hi as logarithms)
-- >> verdict.of({ { effects = d, aa = { 0.001, -0.002 } } }, 0.01, 1).verdict
function M.of(processes, margin, looks)
  local effects, aa, estimates = pooled(processes, 'effects'), pooled(processes, 'aa'), {}
  for i, process in ipairs(processes) do
    estimates[i] = paired.location(process.effects, LEVEL).estimate
  end
  local estimate, lo, hi, how, attained = hull_of(effects, estimates, looks)
  local p = math.min(1, paired.sign_flips(effects) * looks)
  local control = #aa > 0 and paired.location(aa, LEVEL)
  local floor = control and math.max(math.abs(control.lo), math.abs(control.hi)) or 0
  local aa_fail = control and control.attained and (control.lo > 0 or control.hi < 0) or false
  margin = math.max(margin, floor)
  local verdict = 'open'
  if not aa_fail and attained then
    if (lo > 0 or hi < 0) and math.abs(estimate) > margin and agree_in_sign(estimates)
        and p <= 1 - LEVEL then
      verdict = estimate > 0 and 'slower' or 'faster'
    elseif lo >= -math.min(margin, EQUAL_CAP) and hi <= math.min(margin, EQUAL_CAP) then
      verdict = 'equal'
    end
  end
  local n = #effects / #processes
  return {
    verdict = verdict, ratio = math.exp(estimate), ci_lo = math.exp(lo), ci_hi = math.exp(hi),
    ci_how = how, p = p, floor = floor, margin = margin, aa_fail = aa_fail,
    aa = control and math.exp(control.estimate) or nil, blocks = #effects, procs = #processes,
    needed = verdict == 'open' and needed(n, estimate, lo, hi, margin) or nil,
    log = { estimate = estimate, lo = lo, hi = hi },
  }
end

return M

-- SPDX-License-Identifier: MIT
--- The batch with the best throughput (F106): larger and larger ones, each measured in one block
--- with the best so far, until their intervals say that there is nothing more to gain.
--
-- A gain is shown when the intervals lie apart, and ruled out when even their far ends gain less
-- than `least`. One batch without gain may be a dip (a tile that does not come out even); two in a
-- row end the search. Where neither is shown, noise decides nothing and the search goes on.

local M = {}

-- Batches in a row that gain nothing before the search ends.
local PATIENCE = 2

--- Samples a second of a measured batch, with the interval; the faster end may be unbounded.
---@param batch integer
---@param result table of ridge.measure.block
---@return table rate value, lo, hi
function M.rate(batch, result)
  return { value = batch * 1e9 / result.med, lo = batch * 1e9 / result.ci_hi,
           hi = result.ci_lo > 0 and batch * 1e9 / result.ci_lo or math.huge }
end

--- What a rate says against the best so far.
---@param best table rate
---@param other table rate
---@param least number gain that is worth having
---@return string verdict 'gain', 'none' or 'open'
---@return number most the largest gain that the intervals allow
function M.verdict(best, other, least)
  local most = other.hi / best.lo - 1
  if other.lo > best.hi then return 'gain', most end
  return most < least and 'none' or 'open', most
end

local function percent(x) return x < math.huge and ('%+.1f %%'):format(100 * x) or 'any' end

--- The batches to try: doubling, or by a step.
---@param opt table min, max, step (nil: doubling)
---@return fun(batch: integer|nil): integer|nil next nil behind the last
function M.ladder(opt)
  return function(batch)
    if not batch then return opt.min end
    if batch >= opt.max then return nil end
    return math.min(opt.step and batch + opt.step or batch * 2, opt.max)
  end
end

--- Search.
---@param measure fun(best: integer|nil, batch: integer): table, table|nil  both in one block:
---  what the batch came to (result, or oom and message; peak) and the result of the best
---@param opt table min, max, step, budget (bytes), least (share), seconds, now (a clock)
---@return table found best (the last one whose gain was shown), highest (by the medians alone,
---  which decide nothing), unsure, stop ('no gain', 'memory', 'max', 'time'), reason, tries (each
---  batch, result, rate, peak, verdict, most; in the order tried)
function M.search(measure, opt)
  local next_batch, tries = M.ladder(opt), {}
  local best, idle, idle_most, out = nil, 0, -1, {}
  local began = opt.now and opt.now()
  local batch = next_batch(nil)
  while batch do
    local found, again = measure(best and best.batch, batch)
    found.batch = batch
    tries[#tries + 1] = found
    if found.oom or found.peak > opt.budget then
      found.verdict = found.oom and 'oom' or 'over'
      out.stop = 'memory'
      out.reason = found.oom
        and ('a batch of %d ran out of memory: %s'):format(batch, found.message)
        or ('a batch of %d needs %.4g MB, more than %.4g MB'):format(batch, found.peak / 2 ^ 20,
          opt.budget / 2 ^ 20)
      break
    end
    found.rate = M.rate(batch, found.result)
    if not best then
      found.verdict, best = 'first', found
    else
      local disturbed = found.result.grade == 'D' or again.grade == 'D'
      found.verdict, found.most = M.verdict(M.rate(best.batch, again), found.rate, opt.least)
      if disturbed then found.verdict = 'disturbed' end
      if found.verdict == 'gain' then
        best, idle, idle_most = found, 0, -1
      elseif found.verdict == 'none' then
        idle, idle_most = idle + 1, math.max(idle_most, found.most)
      end
      if idle == PATIENCE then
        out.stop = 'no gain'
        out.reason = ('batches up to %d gain at most %s over %d, and %s is the least that counts')
          :format(batch, percent(idle_most), best.batch, percent(opt.least))
        break
      end
    end
    if opt.seconds and opt.now() - began >= opt.seconds then
      out.stop, out.reason = 'time', ('%g seconds are over'):format(opt.seconds)
      break
    end
    batch = next_batch(batch)
  end
  if not out.stop then
    out.stop = 'max'
    out.reason = ('%d is the largest batch that was asked for'):format(opt.max)
  end
  local unsure, highest = 0, nil
  for _, found in ipairs(tries) do
    if found.rate and (not highest or found.rate.value > highest.rate.value) then
      highest = found
    end
    if found.verdict == 'open' or found.verdict == 'disturbed' then unsure = unsure + 1 end
  end
  out.unsure = unsure > 0
  if out.unsure then
    out.reason = ('%s; %d batches were too noisy to tell'):format(out.reason, unsure)
  end
  out.best, out.tries, out.highest = best and best.batch, tries, highest and highest.batch
  return out
end

return M

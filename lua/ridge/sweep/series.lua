-- SPDX-License-Identifier: MIT
--- The passes of a point as one result: what this pass found, joined to those before it.
--
-- A pass is one observation (ridge.measure.passes): its median, taken at another time, in another
-- layout, where possible in another process. Each pass is a row of its own with its own samples;
-- its row also carries what all passes until then come to, so that readers look at the newest only.

local device = require 'ridge.measure.device'
local flags = require 'ridge.measure.flags'
local minutes = require 'ridge.measure.minutes'
local passes = require 'ridge.measure.passes'
local record = require 'ridge.store.record'
local statistics = require 'ridge.measure.statistics'
local variation = require 'ridge.measure.variation'

local M = {}

--- Bytes that a point leaves behind in every one of its passes: less is a cache's own business, and
--- the largest point of a process fills those (64 and 320 KB in the gallery).
M.LEAK = 2 ^ 20

local SUMMED = { 'min', 'p25', 'p75', 'p95', 'p99', 'max', 'mean', 'sd', 'mad' }

local function words(text)
  local list = {}
  for word in (text or ''):gmatch '%S+' do list[#list + 1] = word end
  return list
end

-- The same timing in the passes before, in their order.
local function before(list, phase, cache)
  local out = {}
  for _, pass in ipairs(list) do
    local own = pass.timings[record.key(phase, cache)]
    if own then
      out[#out + 1] = { pass = pass.pass, process = pass.worker_id, began = pass.began, own = own }
    end
  end
  return out
end

local function count_processes(list, process)
  local seen, n = { [process] = true }, 1
  for _, each in ipairs(list) do
    if not seen[each.process] then
      seen[each.process] = true
      n = n + 1
    end
  end
  return n
end

-- Over all windows of all passes.
local function sum_up(r, windows)
  local all = {}
  for _, each in ipairs(windows) do
    for _, ns in ipairs(each) do all[#all + 1] = ns end
  end
  if #all == 0 then return end
  local s = statistics.summary(all)
  for _, name in ipairs(SUMMED) do r[name] = s[name] end
  r.n, r.iqr = #all, (s.p75 - s.p25) / s.med
end

local function ratio_of(r, list, own)
  r.pass_ratio = own
  local ratios = {}
  for _, each in ipairs(list) do ratios[#ratios + 1] = each.own.ratio end
  ratios[#ratios + 1] = own
  if #ratios == 0 then return end
  local found = passes.interval(ratios)
  r.ratio, r.ratio_lo, r.ratio_hi = found.med, found.lo, found.hi
end

-- What the passes have not seen of the minutes around them, in the interval and in that of the fast
-- state. What is timed by a device's clock is that device's: the processor's says nothing of it.
local function add_minutes(r, list, around)
  if not r.ci_lo or not around or r.clock == device.CLOCK.name then return end
  local times = { around.now_s }
  for i, each in ipairs(list) do times[i + 1] = each.began / 1e6 end
  local sd = minutes.term(around.minutes, variation.kind_of(r.work), times)
  r.sd_minutes = sd
  if not sd or sd == 0 then return end
  r.ci_lo, r.ci_hi = minutes.widen(r.med, r.ci_lo, r.ci_hi, sd)
  r.ci_how = ('%s+%s'):format(r.ci_how, around.minutes.how)
  if r.quiet_lo then
    r.quiet_lo, r.quiet_hi = minutes.widen(r.quiet, r.quiet_lo, r.quiet_hi, sd)
  end
end

--- What a pass found for one phase, joined to the passes before; changes the result.
---@param r table         of ridge.measure.block; `ratio` over its partner in this pass, if any
---@param phase string
---@param earlier table   of ridge.store.record.passes
---@param process integer worker that measured this one
---@param protocol table
---@param around table|nil  now_s (seconds since 1970, when this one was taken), minutes (of
---  ridge.measure.minutes.source)
---@return table r  med and interval of the medians of the passes, the rest over all their windows;
---  passes, procs, sd_between, sd_within, sd_minutes (part of the intervals of med and quiet; the
---  precision, the grade and when to stop do not ask for it: no number of passes makes it less),
---  quiet, ratio; of this pass pass_med, pass_ratio, pass_flags, samples
function M.join(r, phase, earlier, process, protocol, around)
  local list = before(earlier, phase, r.cache)
  local medians, windows, lists = {}, {}, {}
  for i, each in ipairs(list) do
    medians[i], windows[i], lists[i] = each.own.med, each.own.dur, words(each.own.flags)
  end
  local n = #list + 1
  medians[n], windows[n], lists[n] = r.med, r.samples or {}, r.flags or {}
  if #windows[n] == 0 then windows[n] = { r.med } end
  r.pass_med, r.pass_flags = r.med, record.flags(r.flags)
  r.passes, r.procs, r.rounds = n, count_processes(list, process), n
  local found = passes.interval(medians, { windows = windows })
  r.med, r.ci_lo, r.ci_hi, r.ci_how = found.med, found.lo, found.hi, 'passes ' .. found.method
  r.precision, r.n_eff = found.half, n
  r.sd_between, r.sd_within = found.between, found.within
  sum_up(r, windows)
  local quiet = passes.quiet(windows)
  if quiet then r.quiet, r.quiet_lo, r.quiet_hi = quiet.med, quiet.lo, quiet.hi end
  ratio_of(r, list, r.ratio)
  add_minutes(r, list, around)
  r.flags, r.grade = flags.of_passes(lists, found.half, protocol.precision)
  r.stop = found.half and found.half <= protocol.precision and 'precision' or 'passes'
  return r
end

local function is_done(pass, protocol) return pass >= protocol.passes end

--- What becomes of a point after a pass: metrics and curves that only the first pass had stay with
--- it, and it goes on until it has as many passes as every point has.
---@param outcome table  of Point:outcome
---@param claim table    of Worker:claim
---@param earlier table  of ridge.store.record.passes
---@param protocol table
function M.settle(outcome, claim, earlier, protocol)
  -- what is not timed is no better known by doing it again
  outcome.more = #outcome.timings > 0 and not is_done(claim.pass, protocol)
  if #earlier == 0 then return end
  outcome.carry = earlier[#earlier].id
end

--- Bytes that a point leaves behind in every pass; nil when it does not.
---@param earlier table  of ridge.store.record.passes
---@param left number|nil  of this pass
---@return number|nil bytes
function M.leak(earlier, left)
  local least = left
  for _, pass in ipairs(earlier) do
    least = least and pass.left_bytes and math.min(least, pass.left_bytes)
  end
  return least and #earlier > 0 and least >= M.LEAK and least or nil
end

--- Did a setup make something else than in the passes before? Its checksum says so.
---@param earlier table  of ridge.store.record.passes
---@param inputs string|nil
---@return integer|nil pass the one with which it disagrees
function M.other_inputs(earlier, inputs)
  local first = earlier[1]
  if first and inputs and first.inputs and first.inputs ~= inputs then return first.pass end
end

return M

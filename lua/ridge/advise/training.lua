-- SPDX-License-Identifier: MIT
--- Findings of training: does the loss fall, are gradients noise, does the scale of a loss fit.

local finite = require 'ridge.advise.finite'
local plain = require 'ridge.plain'
local run_of = require 'ridge.advise.run'
local say = require 'ridge.advise.say'
local statistics = require 'ridge.measure.statistics'
local subject = require 'ridge.advise.subject'
local trend = require 'ridge.measure.trend'

local M = {}

local applies, no, unknown = say.applies, say.no, say.unknown

local LOOKED_AT = 200 -- losses, evenly of all
local CHANCE = 0.05
local ROUGH = 2       -- times: so far off an estimate of one batch may be
local LOWEST = -40    -- the smallest scale that is tried, a power of 2

local function is_finite(x) return x == x and math.abs(x) < math.huge end

-- Losses, evenly thinned: finite ones, and how many are not.
local function thinned(losses)
  local list, not_finite = {}, 0
  local every = math.max(1, #losses / LOOKED_AT)
  for _, loss in ipairs(losses) do
    if not is_finite(loss) then not_finite = not_finite + 1 end
  end
  for i = 1, math.min(#losses, LOOKED_AT) do
    local loss = losses[math.ceil(i * every)]
    if is_finite(loss) then list[#list + 1] = loss end
  end
  return list, not_finite
end

-- Medians of the first and the last quarter.
local function ends_of(list)
  if #list == 0 then return 0 / 0, 0 / 0 end
  local n = math.max(1, math.floor(#list / 4))
  local first, last = {}, {}
  for i = 1, n do first[i], last[i] = list[i], list[#list - n + i] end
  return statistics.median(first), statistics.median(last)
end

local function from_to(list)
  return #list > 0 and ('%.4g to %.4g'):format(ends_of(list)) or 'none finite'
end

-- What smaller rates would have done on one batch: in words, and a list of { rate, falls }.
local function smaller_rates(run)
  local s = run.s
  if not run.trial or not s.optimizer then return '', {} end
  local parts, rates = {}, {}
  for _, part in ipairs { 10, 100 } do
    local rate = s.optimizer:lr() / part
    local ok, list = pcall(run.trial.descent, run.trial, 16, rate)
    if ok then
      local kept, lost = thinned(list)
      parts[#parts + 1] = ('at %g %s'):format(rate, lost > 0 and 'not finite' or from_to(kept))
      local first, last = ends_of(kept)
      rates[#rates + 1] = { rate = rate, falls = lost == 0 and last <= first }
    end
  end
  return #parts > 0 and '; from here on one batch, ' .. table.concat(parts, ', ') or '', rates
end

-- The probability that the first of as many losses is the smallest by chance, where it is and that
-- is small. A rate that is far too high spoils a net within a few steps: from there on nothing
-- rises, and the loss may even fall, far above where it began.
local function above_first(losses)
  for i = 2, #losses do
    if losses[i] <= losses[1] then return nil end
  end
  return 1 / #losses < CHANCE and 1 / #losses or nil
end

function M.divergence(run)
  local losses, why, own = run:losses()
  if not losses then return unknown(why, 'smaller_rate') end
  local list, not_finite = thinned(losses)
  local rate = run.s.optimizer and (' at a rate of %g'):format(run.s.optimizer:lr()) or ''
  local measured = ('%s %s%s, medians of quarters %s'):format(plain.count(#losses, 'loss'),
    own and 'of the run' or 'of as many steps on one batch', rate, from_to(list))
  if not_finite > 0 then
    local told, rates = smaller_rates(run)
    local first, last = ends_of(list)
    local cause, cures = finite.cause(run.s, rates, own and #list > 1 and last > first)
    return say.first(applies(('%s; %d of them not finite%s'):format(measured, not_finite, told),
      cause, unpack(cures)))
  end
  local p, s = trend.mann_kendall(list)
  local first, last = ends_of(list)
  if s > 0 and p < CHANCE and last > first then
    local told = smaller_rates(run)
    return say.first(applies(measured .. told,
      ('it rises beyond chance, p = %.2g'):format(p), 'smaller_rate'))
  end
  local above = above_first(losses)
  if above then
    local told = smaller_rates(run)
    return say.first(applies(('%s; the first %.4g%s'):format(measured, losses[1], told),
      ('all behind the first lie above it, by chance with p = %.2g: the first steps made it worse')
      :format(above), 'smaller_rate'))
  end
  return no(measured, s < 0 and p < CHANCE and ('it falls beyond chance, p = %.2g'):format(p)
    or 'it does not rise')
end

function M.noise(run)
  local noise, why = run:noise()
  if not noise then return unknown(why, 'larger_step') end
  local s = run.s
  local step = s.rows * (s.accumulate or 1)
  local rows = noise == math.huge and 'more rows than a batch can tell'
    or ('%.0f rows'):format(noise)
  local measured = ('the gradient noise scale is %s, estimated of 8 parts of a batch; a step has '
    .. '%d'):format(rows, step)
  if noise > ROUGH * step then
    return applies(measured, 'the noise of a step is larger than its signal', 'larger_step')
  elseif noise < step / ROUGH then
    return no(measured, 'the signal of a step is larger than its noise')
  end
  return say.open(measured, 'they are of one size, as far as an estimate of one batch can tell',
    'larger_step')
end

-- The largest power of 2, at most a scale, at which gradients are finite; nil where there is none.
local function fitting_scale(run, scale)
  local top = math.floor(math.log(scale) / math.log(2))
  local function fits(power)
    return is_finite(run.trial:gradient_norm { scale = 2 ^ power })
  end
  if not fits(LOWEST) then return nil end
  local low, high = LOWEST, top + 1 -- fits at low, not at high
  while high - low > 1 do
    local middle = math.floor((low + high) / 2)
    if fits(middle) then low = middle else high = middle end
  end
  return 2 ^ low
end

-- Where the loss itself is not known: by those that the run had.
local function scale_unseen(s)
  local _, not_finite = thinned(s.losses)
  if #s.losses == 0 or not_finite > 0 or s.autocast == 'f16' then
    return unknown(run_of.NO_LOSS, 'smaller_scale')
  end
  return no(('%d losses of the run are finite, in %s'):format(#s.losses,
    s.autocast or subject.dtype(s) or '?'), 'it needs no scale')
end

function M.loss_scale(run)
  local s = run.s
  if not run.trial then return unknown(run:why_no_trial(), 'smaller_scale') end
  if not s.loss then return scale_unseen(s) end
  local kind = s.autocast or subject.dtype(s)
  local scale = s.scaler and s.scaler.factor or 1
  local size = run.trial:gradient_norm { scale = scale }
  local skipped = s.scaler and s.scaler.skipped or 0
  local measured = ('computed in %s, with a scale of %g: gradients are %s, %d steps left out')
    :format(kind or '?', scale, is_finite(size) and 'finite' or 'not finite', skipped)
  if is_finite(size) then
    if s.autocast == 'f16' and not s.scaler then
      return applies(measured, 'small gradients vanish in f16 without a scale', 'scaler')
    end
    if skipped > 0 then
      return no(measured, 'it overflowed before, and the scale has fallen since, as it should')
    end
    return no(measured, s.scaler and 'the scale fits' or 'it needs no scale')
  end
  local is_scaled = scale > 1 or s.scaler ~= nil
  local fits = is_scaled and fitting_scale(run, scale)
  if not fits then
    local cause, cures = finite.cause(s, {})
    return say.first(applies(measured, ('%s: it is not of that; %s'):format(is_scaled
      and 'at no scale are they finite' or 'without a scale', cause), unpack(cures)))
  end
  return say.first(applies(('%s; at %g they are finite'):format(measured, fits),
    'it overflows: a smaller scale, not a larger one', 'smaller_scale'))
end

-- Rates of the run: is there a schedule?
local function scheduled(s)
  if s.schedule then return true end
  for i = 2, #(s.rates or {}) do
    if s.rates[i] ~= s.rates[1] then return true end
  end
  return false
end

function M.schedule(run)
  local s = run.s
  if not s.optimizer then return unknown('no optimizer is known', 'schedule') end
  if scheduled(s) then
    return no(s.schedule and 'a schedule steps it' or 'the rate changed while it ran',
      'there is one')
  end
  local losses, why, own = run:losses()
  if not losses or not own or #losses < 40 then
    return unknown(why or ('%d losses of the run are known: too few to say whether it has stopped '
      .. 'to fall'):format(#s.losses), 'schedule')
  end
  local half = {}
  for i = math.floor(#losses / 2) + 1, #losses do half[#half + 1] = losses[i] end
  local list, not_finite = thinned(half)
  if not_finite > 0 then
    return unknown(('of the second half %s not finite: a schedule is not what that wants')
      :format(not_finite == 1 and 'one loss is' or ('%d losses are'):format(not_finite)))
  end
  local p, sign = trend.mann_kendall(list)
  local measured = ('a constant rate of %g; medians of the second half %s'):format(s.optimizer:lr(),
    from_to(list))
  if sign < 0 and p < CHANCE then
    return no(measured, ('the loss falls on, p = %.2g'):format(p))
  end
  return applies(measured, 'the loss has stopped to fall', 'schedule')
end

return M

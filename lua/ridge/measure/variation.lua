-- SPDX-License-Identifier: MIT
--- What another run of the same point would differ by: the part of the noise that a second in one
--- process cannot see.
--
-- Where memory lies, which state the machine is in and who else runs change between processes and
-- over minutes.  An interval from one process holds it as a random effect: as known from `ridge
-- trust` on this machine, or as a stated prior before that.  Up and down are apart, because a
-- disturbed run is slower by more than a lucky one is faster.

local M = {}

--- Before `ridge trust` has run: assumed, not measured here. Twice a standard deviation of the
--- logarithm between processes: 0.12 where a cache or arithmetic is what is measured (ratios of two
--- calls on a shared guest showed 0.10 to 0.14 from process to process, docs/why/measurement.md,
--- section 4), 0.17 where memory is, or where nobody knows what a call costs: by 0.12 `quick` of
--- streaming work on two threads held another run's median in 67 % of pairs, of work that allocates
--- in 74 % (83 is perfect; results/kept/trust_quiet.txt).
local CACHED = { up = 0.24, down = 0.24, how = 'prior' }
M.PRIOR = { up = 0.34, down = 0.34, how = 'prior',
  kinds = { small = CACHED, linear = CACHED, softmax = CACHED, l2 = CACHED, l3 = CACHED } }

--- What the same process would differ by ten minutes later, which a shorter `ridge trust` cannot
--- see: twice a standard deviation of the logarithm. The median of 40 processes within five minutes
--- moved by 2 % between such groups, for all that a cache or arithmetic decides: the clock of the
--- processor does (results/kept/trust_quiet.txt).
M.DRIFT = 0.04

--- Seconds after which it has been seen, by a `ridge trust` or by the passes of a sweep.
M.SEES_DRIFT = 600

--- The drift that a run of that length cannot have seen.
---@param seconds number|nil  nil where nobody kept it
---@return number drift       of the logarithm: 0 or DRIFT
function M.unseen(seconds)
  return seconds and seconds >= M.SEES_DRIFT and 0 or M.DRIFT
end

--- Nothing: where the passes of a sweep, or a made-up machine, show it themselves.
M.NONE = { up = 0, down = 0, how = 'none' }

--- The kinds of work that `ridge trust` tells apart: they move by different factors when the
--- machine does, and on a loaded one the worst of them says nothing of the others.
M.KINDS = { 'small', 'linear', 'softmax', 'l2', 'l3', 'streaming' }

-- What stood for a kind that an older `ridge trust` did not measure.
local BEFORE = { l2 = 'softmax', l3 = 'softmax' }

-- Bytes of a call that stay in a L1, in a L2, and from which on memory is what is measured;
-- operations a byte below which moving them takes the time, and from which on arithmetic does.
local SMALL, MIDDLE, LARGE, MOVED, DENSE = 2 ^ 15, 2 ^ 20, 2 ^ 24, 0.5, 2

--- The kind that a call is like, by what it costs; nil where nobody knows that.
---@param cost table|nil     flops, bytes of one call
---@return string|nil kind   one of M.KINDS
-- >> variation.kind_of{ flops = 64, bytes = 512 } == 'small'
function M.kind_of(cost)
  local bytes, flops = cost and cost.bytes, cost and cost.flops
  if not bytes or bytes <= 0 then return nil end
  if bytes <= SMALL then return 'small' end
  flops = flops or 0
  if flops >= DENSE * bytes then return 'linear' end
  if bytes >= LARGE then return 'streaming' end
  -- of a softmax 95 % of the processes lay within a quarter where x + 1 in a L2 had two states,
  -- 2.2 times apart (results/kept/trust_zen3.txt)
  if flops >= MOVED * bytes then return 'softmax' end
  return bytes <= MIDDLE and 'l2' or 'l3'
end

--- What `ridge trust` found of a kind of work, by the name of a row without the kind.
---@param trust table   of measure.calibration
---@param name string   'up', 'minutes', ...
---@param kind string   one of M.KINDS
---@return number|nil value  of the kind that stood for it where trust is older than the kind
-- >> variation.found({ ['up.softmax'] = 0.2 }, 'up', 'l2') == 0.2
function M.found(trust, name, kind)
  local own, before = trust[name .. '.' .. kind], BEFORE[kind]
  -- of a kind that it measured nothing is another's
  if own or not before or trust['up.' .. kind] then return own end
  return trust[name .. '.' .. before]
end

-- What another process differs by, of a kind: its minutes (or ninths of a shorter trust), which a
-- measurement of a second lies in one of, on either side, as few of them were seen; and what
-- processes within such a stretch differ by.  What all of them differ by about one median says
-- less where states dwell: which of two states that median lies in is an accident of the minutes.
local function of_trust(trust, kind)
  local up, down = M.found(trust, 'near_up', kind), M.found(trust, 'near_down', kind)
  local sd = M.found(trust, 'minutes', kind)
  if not (up and down and sd) then return nil end   -- of less than a minute, or an older ridge
  return math.sqrt(up ^ 2 + (2 * sd) ^ 2), math.sqrt(down ^ 2 + (2 * sd) ^ 2)
end

--- What `ridge trust` found, as of what it saw.
---@param trust table      of measure.calibration, with up and down
---@return table between   see M.of
function M.known(trust)
  local between = { up = trust.up, down = trust.down, how = 'trust', kinds = {} }
  for _, kind in ipairs(M.KINDS) do
    local up, down = of_trust(trust, kind)
    between.up, between.down = math.max(between.up, up or 0), math.max(between.down, down or 0)
    if not up then up, down = M.found(trust, 'up', kind), M.found(trust, 'down', kind) end
    if up and down then between.kinds[kind] = { up = up, down = down, how = 'trust.' .. kind } end
  end
  return between
end

--- What `ridge trust` found, with the drift that it was too short to see.
---@param between table       up, down, how, kinds
---@param seconds number|nil  how long it ran
---@return table between      another one
function M.drifted(between, seconds)
  local drift, kinds = M.unseen(seconds), {}
  local function of(b)
    return { up = math.sqrt(b.up ^ 2 + drift ^ 2), down = math.sqrt(b.down ^ 2 + drift ^ 2),
      how = b.how }
  end
  for kind, b in pairs(between.kinds or {}) do kinds[kind] = of(b) end
  local out = of(between)
  out.kinds = kinds
  return out
end

--- What is known of a machine.
---@param calibration table|nil  of measure.calibration
---@param services table|nil     a made-up machine has none
---@return table between         up, down (of the logarithm: how far a run may lie above or below
---  the median of all runs, 95 %, with the drift that `ridge trust` was too short to see; the
---  largest of all kinds), how ('trust', 'prior', 'none'), kinds
---  (by kind up and down, where they are known)
function M.of(calibration, services)
  local trust = calibration and calibration.trust
  if trust and trust.up and trust.down then
    return M.drifted(M.known(trust), trust.seconds)
  end
  return services and M.NONE or M.PRIOR
end

--- What is known of one kind of work.
---@param between table      of M.of
---@param kind string|nil    one of M.KINDS; nil where nobody knows it, as of a function
---@return table between     of the kind; of the kind that differs most where that is not known
function M.of_kind(between, kind)
  return kind and between.kinds and between.kinds[kind] or between
end

--- What is known of calls like one.
---@param between table      of M.of
---@param cost table|nil     of one call; nil where nobody knows it, as of a function
---@return table between     as M.of_kind
function M.of_call(between, cost)
  return M.of_kind(between, M.kind_of(cost))
end

--- An interval within one process, widened to what another would say.
--
-- In squares on the logarithm, each side for itself: no end leaves the range of a time.
---@param med number
---@param lo number       0 < lo <= med
---@param hi number       at least med
---@param between table   see M.of
---@return number lo
---@return number hi
-- >> variation.widen(100, 100, 100, { up = 0.24, down = 0.24 }) --> 78.7, 127.1
function M.widen(med, lo, hi, between)
  -- a run that lies high says that the truth lies below it
  local below = math.sqrt(math.log(med / lo) ^ 2 + between.up ^ 2)
  local above = math.sqrt(math.log(hi / med) ^ 2 + between.down ^ 2)
  return med * math.exp(-below), med * math.exp(above)
end

return M

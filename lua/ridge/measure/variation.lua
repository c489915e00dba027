-- SPDX-License-Identifier: MIT
--- What another run of the same point would differ by: the part of the noise that a second in one
-- process cannot see.
--
-- Where memory lies, which state the machine is in and who else runs change between processes and
-- over minutes.  An interval from one process holds it as a random effect: as known from `ridge
-- trust` on this machine, or as a stated prior before that.  Up and down are apart, because a
-- disturbed run is slower by more than a lucky one is faster.

local M = {}

--- Before `ridge trust` has run: assumed, not measured here. A standard deviation of 0.12 of the
--- logarithm between processes, twice for 95 %; ratios of two calls on a shared guest showed 0.10
--- to 0.14 from process to process (design/measurement.md, 9).
M.PRIOR = { up = 0.24, down = 0.24, how = 'prior' }

--- Nothing: where the passes of a sweep, or a made-up machine, show it themselves.
M.NONE = { up = 0, down = 0, how = 'none' }

--- What is known of a machine.
---@param calibration table|nil  of measure.calibration
---@param services table|nil     a made-up machine has none
---@return table between         up, down (of the logarithm: how far a run may lie above or below
---  the median of all runs, 95 %), how ('trust', 'prior', 'none')
function M.of(calibration, services)
  local trust = calibration and calibration.trust
  if trust and trust.up and trust.down then
    return { up = trust.up, down = trust.down, how = 'trust' }
  end
  return services and M.NONE or M.PRIOR
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

-- SPDX-License-Identifier: MIT
-- The noise of the simulations, as the design's measurement page gives it.

local M = {}

--- Relative times of n samples in a row: drift over them, an AR(1) state of the machine, 0.3 %
--- white, spikes.
---@param r table  of ridge.measure.random
---@param n integer
---@param c table  drift, rho, sigma, spike
---@return number[]
function M.env(r, n, c)
  local out, x = {}, r:normal() * c.sigma
  for i = 1, n do
    x = c.rho * x + math.sqrt(1 - c.rho * c.rho) * c.sigma * r:normal()
    local v = c.drift * (i - 1) / (n - 1) + x + 0.003 * r:normal()
    if r:uniform() < c.spike then v = v + 0.05 + 0.2 * r:uniform() end
    out[i] = 1 + v
  end
  return out
end

return M

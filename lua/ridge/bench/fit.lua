-- SPDX-License-Identifier: MIT
--- The largest batch that fits (F104, F105, F107): doubled until one does not fit, then bisected.
--- Each is really tried; how much it needs is measured and not extrapolated.

local M = {}

local function mb(bytes) return ('%.4g MB'):format(bytes / 2 ^ 20) end

M.mb = mb

local function refusal(found, budget)
  if found.oom then return 'ran out of memory: ' .. found.message end
  return ('needs %s, more than %s'):format(mb(found.peak), mb(budget))
end

--- Search. What `try` says decides; assumed is only that more samples need no less memory.
---@param try fun(batch: integer): table  peak (bytes) of a batch that ran, or oom and message
---@param opt table min, max, budget (bytes)
---@return table found best (nil when not even the least fits), stop ('memory' or 'max'), reason (a
---  sentence), tries (each batch, peak, oom, message, fits; in the order tried)
-- >> fit.search(function(b) return { peak = 100 * b } end, { min = 1, max = 64, budget = 1000 })
function M.search(try, opt)
  local tries = {}
  local function fits(batch)
    local found = try(batch)
    found.batch = batch
    found.fits = not found.oom and found.peak <= opt.budget
    tries[#tries + 1] = found
    return found.fits, found
  end

  local good, bad, refused
  local batch = opt.min
  while true do
    local ok, found = fits(batch)
    if not ok then
      bad, refused = batch, found
      break
    end
    good = batch
    if batch == opt.max then break end
    batch = math.min(batch * 2, opt.max)
  end
  while good and bad and bad - good > 1 do
    local middle = math.floor((good + bad) / 2)
    local ok, found = fits(middle)
    if ok then good = middle else bad, refused = middle, found end
  end

  local out = { best = good, tries = tries, stop = bad and 'memory' or 'max' }
  if not bad then
    out.reason = ('%d is the largest batch that was asked for, and it fits'):format(good)
  elseif not good then
    out.reason = ('not even a batch of %d fits: it %s'):format(bad, refusal(refused, opt.budget))
  else
    out.reason = ('a batch of %d %s'):format(bad, refusal(refused, opt.budget))
  end
  return out
end

return M

-- SPDX-License-Identifier: MIT
--- What other minutes differ by (ridge.measure.minutes), as rows have it: intervals of times hold
--- it, and what holds points of one sweep against each other takes it out again.

local blame = require 'ridge.blame'

local M = {}

--- The ends of an interval without it: what the same minutes would say.
---@param med number
---@param lo number
---@param hi number
---@param sd number|nil
---@return number lo
---@return number hi
function M.own(med, lo, hi, sd)
  if not sd or not (sd > 0 and lo > 0 and med > 0 and hi < math.huge) then return lo, hi end
  local function inner(whole)
    return math.sqrt(math.max(0, math.max(0, whole) ^ 2 - (2 * sd) ^ 2))
  end
  return med * math.exp(-inner(math.log(med / lo))), med * math.exp(inner(math.log(hi / med)))
end

--- The column of a row that says what its phase has of it: the fast state has that of its phase.
---@param name string  column of a time: fwd, fwd_cold, fwd_quiet
---@return string column
function M.column(name) return (name:gsub('_quiet$', '')) .. '_between_minutes' end

local COUNTS = { gflops = 'flops', gbps = 'bytes' }

--- The phase that a name is a rate of, which is a count over its time, and that count.
---@param name string
---@return string|nil phase  nil where it is something else
---@return string|nil count
-- >> minutes.rate 'fwd_gflops' == 'fwd'
function M.rate(name)
  local phase, rate = name:match '^(.*)_(%l+)$'
  local count = COUNTS[rate]
  if count then return phase, ('%s_%s'):format(phase, count) end
end

--- The phase that a column of a row is a rate of.
---@param row table      of ridge.store.results
---@param name string
---@return string|nil phase  nil where it is something else
-- >> minutes.rate_of({ fwd = 2e6, fwd_p95 = 3e6, fwd_gflops = 4 }, 'fwd_gflops') == 'fwd'
function M.rate_of(row, name)
  local phase = M.rate(name)
  if phase and row[phase .. '_p95'] ~= nil and row[name .. '_lo'] == nil
    and type(row[phase]) == 'number' and type(row[name]) == 'number' then
    return phase
  end
end

--- The interval of a row's time, or of a rate over it, as its own sweep knows it.
---@param row table      of ridge.store.results
---@param name string    column of a time or a rate
---@param whole any      true: with what other minutes differ by, as it is stored
---@return number|nil lo nil where it has none
---@return number|nil hi
function M.ends(row, name, whole)
  local phase = M.rate_of(row, name)
  if phase then
    local lo, hi = M.ends(row, phase, whole)
    if not (lo and hi and lo > 0) then return nil end
    local count = row[name] * row[phase]
    return count / hi, count / lo
  end
  local med, lo, hi, sd = row[name], row[name .. '_lo'], row[name .. '_hi'], row[M.column(name)]
  if type(med) ~= 'number' or type(lo) ~= 'number' or type(hi) ~= 'number'
    or type(sd) ~= 'number' or whole then
    return lo, hi
  end
  return M.own(med, lo, hi, sd)
end

-- -- In words ------------------------------------------------------------------------------

local SAID = { trust = 'as ridge trust saw it',
  short = 'as ridge trust saw it in less than ten minutes, with what it was too short for',
  clock = 'as the clock moved between sweeps here',
  assumed = 'assumed' }

--- Where a term comes from, by what the row says of its interval.
---@param ci_how string|nil
---@return string|nil words
function M.said(ci_how) return SAID[(ci_how or ''):match '%+(%l+)$'] end

--- A standard deviation between minutes as what 95 % differ by: '4.1 %'.
---@param sd number
---@return string text
function M.percent(sd)
  if type(sd) ~= 'number' then blame.raise 'minutes.percent: a number is expected' end
  return ('%.1f %%'):format(100 * (math.exp(2 * sd) - 1))
end

return M

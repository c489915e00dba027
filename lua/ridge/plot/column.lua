-- SPDX-License-Identifier: MIT
--
-- What the columns of a result are called on a figure, in which unit, and which way is better.
--
-- A column that is not listed is drawn all the same, under its own name: any column may stand on
-- any axis. The interval of column `x` is in `x_lo` and `x_hi` where the rows have them.

local blame = require 'ridge.blame'
local near = require 'ridge.near'

local M = {}

local COLUMN = {
  fwd = { label = 'forward time', short = 'time', kind = 'ns', better = 'lower' },
  fwd_p95 = { label = 'forward time, 95th percentile', short = 'p95', kind = 'ns',
    better = 'lower' },
  fwd_p99 = { label = 'forward time, 99th percentile', short = 'p99', kind = 'ns',
    better = 'lower' },
  avg_time_ms = { label = 'mean forward time', short = 'time', kind = 'ms', better = 'lower' },
  peak_memory_mb = { label = 'peak memory', short = 'memory', kind = 'mb', base = 2,
    better = 'lower' },
  stored_bytes = { label = 'stored bytes', short = 'bytes', kind = 'bytes', base = 2,
    better = 'lower' },
  param_count = { label = 'trainable parameters', short = 'parameters', kind = 'count' },
  stored_count = { label = 'stored values', short = 'values', kind = 'count' },
  rel_error = { label = 'relative error of the weight', short = 'error', kind = 'number',
    better = 'lower' },
  accuracy = { label = 'accuracy', kind = 'number', better = 'higher' },
  mb = { label = 'memory held', short = 'memory', kind = 'mb', better = 'lower' },
  saved_mb = { label = 'memory saved', short = 'saved', kind = 'mb', better = 'higher' },
  ms = { label = 'time of a call', short = 'time', kind = 'ms', better = 'lower' },
  drop = { label = 'accuracy lost, as a share', short = 'lost', kind = 'number',
    better = 'lower' },
  kl = { label = 'divergence from the original (KL, nats a row)', short = 'KL', kind = 'number',
    better = 'lower' },
  gflops = { label = 'arithmetic rate', short = 'rate', kind = 'gflops', better = 'higher' },
  gbps = { label = 'memory rate', short = 'rate', kind = 'gbps', better = 'higher' },
  num_terms = { label = 'num_terms', kind = 'integer', base = 2 },
  low_rank = { label = 'low_rank', kind = 'integer', base = 2 },
  peak_bytes = { label = 'peak memory', short = 'memory', kind = 'bytes', base = 2,
    better = 'lower' },
  samples_per_s = { label = 'samples a second', short = 'rate', kind = 'count',
    better = 'higher' },
  batch = { label = 'batch', kind = 'integer', base = 2 },
  in_features = { label = 'in_features', kind = 'integer', base = 2 },
  out_features = { label = 'out_features', kind = 'integer', base = 2 },
  threads = { label = 'threads', kind = 'integer', base = 2 },
}

-- What a phase of any name brings along: `step_gflops` is read as `gflops`.
local ENDINGS = { { '_gflops', 'gflops' }, { '_gbps', 'gbps' }, { '_per_s', 'samples_per_s' } }

-- What a phase has beside its median, in words.
local PARTS = { lo = 'lower end of the interval', hi = 'upper end of the interval',
  min = 'shortest', p25 = 'lower quarter', p75 = 'upper quarter', p95 = '95th percentile',
  p99 = '99th percentile', max = 'longest', mean = 'mean', sd = 'standard deviation',
  mad = 'median deviation', first = 'very first call', cold = 'cold', quiet = 'fast state' }

--- Is a column a phase? Then rows have its quantiles, too.
---@param rows table|nil
---@param name string
---@return boolean
function M.is_phase(rows, name)
  for _, row in ipairs(rows or {}) do
    if type(row[name]) == 'number' and type(row[name .. '_p95']) == 'number' then return true end
  end
  return false
end

local function of_phase(rows, name)
  if M.is_phase(rows, name) then
    return { label = 'time of ' .. name, short = 'time', kind = 'ns', better = 'lower' }
  end
  local phase, part = name:match '^(.+)_(%w+)$'
  if phase and PARTS[part] and M.is_phase(rows, phase) then
    return { label = ('time of %s, %s'):format(phase, PARTS[part]), short = part, kind = 'ns',
      better = 'lower' }
  end
end

--- What is known about a column.
---@param name string
---@param rows table|nil where it is a column: they tell a phase of any name from a metric
---@return table column label, short, kind, base, better
function M.about(name, rows)
  local known = COLUMN[name]
  if known then
    known.short = known.short or known.label
    return known
  end
  for _, ending in ipairs(ENDINGS) do
    local phase = name:match('^(.+)' .. ending[1] .. '$')
    if phase then
      local like = COLUMN[ending[2]]
      return { label = ('%s of %s'):format(like.label, phase), short = like.short,
               kind = like.kind, better = like.better, base = like.base }
    end
  end
  return of_phase(rows, name) or { label = name, short = name, kind = 'number' }
end

--- A value as a key: every digit of a number, so that neighbours are two.
---@param value any
---@return string text
function M.exact(value)
  return type(value) == 'number' and ('%.17g'):format(value) or tostring(value)
end

--- Raise unless some row has the column; the message names the near miss and all columns.
---@param rows table array of rows
---@param name string
---@param who string function that asks, for the message
function M.require(rows, name, who)
  local names, seen = {}, {}
  for _, row in ipairs(rows) do
    if row[name] ~= nil then return end
    for key in pairs(row) do
      if not seen[key] then
        seen[key] = true
        names[#names + 1] = tostring(key)
      end
    end
  end
  table.sort(names)
  blame.raise(("%s: no row has a column '%s'%s (columns: %s)"):format(who, name,
    near.hint(name, names), table.concat(names, ', ')), 'EARG')
end

return M

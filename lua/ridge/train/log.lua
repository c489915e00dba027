-- SPDX-License-Identifier: MIT
--- What a training says while it runs, and afterwards.

local memory = require 'ridge.memory'
local proportion = require 'ridge.measure.proportion'
local worlds = require 'ridge.world'

local M = {}

local FELL = 0.01 -- of accuracy, since its best epoch: worth a word

-- The epoch with the best accuracy so far.
local function best_of(history)
  local best
  for _, row in ipairs(history) do
    if row.accuracy and (not best or row.accuracy > best.accuracy) then best = row end
  end
  return best
end

--- Give a row the interval of its accuracy (F161).
---@param row table with accuracy and accuracy_n, where it has one
function M.interval(row)
  if row.accuracy and row.accuracy_n and row.accuracy_n > 0 then
    row.accuracy_lo, row.accuracy_hi = proportion.interval(row.accuracy * row.accuracy_n,
      row.accuracy_n)
  end
end

-- How far an accuracy is below the best one, and whether that may be chance.
local function below(row, best)
  local text = ('%.4f below epoch %d'):format(best.accuracy - row.accuracy, best.epoch)
  if row.accuracy_n and best.accuracy_n then
    local lo = proportion.difference(best.accuracy * best.accuracy_n, best.accuracy_n,
      row.accuracy * row.accuracy_n, row.accuracy_n)
    if lo <= 0 then text = text .. ', which may be chance' end
  end
  return (' (%s)'):format(text)
end

--- The line of an epoch (F125).
---@param row table of the history
---@param epochs number
---@param history table
---@return string
function M.epoch(row, epochs, history)
  local text = ('epoch %d/%d  loss %.4f'):format(row.epoch, epochs, row.loss)
  if row.not_finite > 0 then
    text = text .. (' (%d batches had a loss that is not finite)'):format(row.not_finite)
  end
  if row.val_loss then text = text .. ('  test %.4f'):format(row.val_loss) end
  if row.accuracy then text = text .. ('  accuracy %.4f'):format(row.accuracy) end
  local best = row.accuracy and best_of(history)
  if best and best.accuracy - row.accuracy > FELL then
    text = text .. below(row, best)
  end
  text = text .. ('  %.1f s, %.0f rows/s, peak %.1f MB'):format(row.seconds, row.rows_per_s,
    row.peak_bytes / 2 ^ 20)
  if row.trimmed_bytes then
    text = text .. (', trimmed %.1f MB'):format(row.trimmed_bytes / 2 ^ 20)
  end
  return row.flags and text .. '  ' .. row.flags or text
end

--- The line in the middle of an epoch (F125): the mean of the losses that are read so far, so that
--- nobody waits for it.
---@param at table epoch, epochs, batch, batches (nil where a loader does not say), sum,
---  weight, seconds
---@return string
function M.batch(at)
  local flags = worlds.flags()
  return ('epoch %d/%d  batch %d%s  loss %s  %.1f s%s'):format(at.epoch, at.epochs, at.batch,
    at.batches and '/' .. at.batches or '', at.weight > 0 and ('%.4f'):format(at.sum / at.weight)
    or 'not known yet', at.seconds, flags and '  ' .. flags or '')
end

--- Steps and their times, and memory.
---@param trainer table
---@return table total_steps, total_time, average_step_time, min_step_time, max_step_time (seconds),
---  memory_mb, peak_memory_mb (of the device that the model is on); flags of any of its rows
function M.summary(trainer)
  local n, least, most = trainer.steps_before + #trainer.curve, math.huge, 0
  local last = #trainer.curve > 0 and trainer.began_s or 0
  for _, row in ipairs(trainer.curve) do
    least, most = math.min(least, row.seconds - last), math.max(most, row.seconds - last)
    last = row.seconds
  end
  local flags = worlds.flags()
  for _, row in ipairs(trainer.history) do flags = flags or row.flags end -- as it was loaded
  local stats = memory.stats(trainer.batch:place())
  return { total_steps = n, total_time = trainer.trained_s,
    average_step_time = n > 0 and trainer.trained_s / n or 0,
    min_step_time = least < math.huge and least or 0, max_step_time = most,
    memory_mb = stats.live / 2 ^ 20, peak_memory_mb = stats.peak / 2 ^ 20, flags = flags }
end

--- Summary and status as text.
---@param s table summary
---@param at table status
---@return string
function M.report(s, at)
  local lines = { ('%d steps in %d epochs, %.1f s: %.4f s a step [%.4f .. %.4f]'):format(
    s.total_steps, at.epoch, s.total_time, s.average_step_time, s.min_step_time, s.max_step_time),
    ('memory %.1f MB, at most %.1f MB'):format(s.memory_mb, s.peak_memory_mb) }
  if s.flags then lines[#lines + 1] = worlds.SIMULATED end
  local names = {}
  for name in pairs(at.config) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    lines[#lines + 1] = ('%-20s %s'):format(name, tostring(at.config[name]))
  end
  return table.concat(lines, '\n')
end

return M

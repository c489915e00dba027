-- SPDX-License-Identifier: MIT
--- Findings of memory: what a step needs of what there is, what would need less, who watches it.

local memory = require 'ridge.memory'
local plain = require 'ridge.plain'
local ref = require 'ridge.ffi.ref'
local run_of = require 'ridge.advise.run'
local say = require 'ridge.advise.say'
local unit = require 'ridge.show.unit'

local M = {}

local applies, no, unknown, open = say.applies, say.no, say.unknown, say.open
local bytes, percent = run_of.bytes, run_of.percent

local TIGHT = 0.6     -- of what is free: a step that needs more leaves little room
local SHORT = 0.8     -- and more than this may fail
local FULL = 80       -- percent of the system's memory (F10)
local CACHED = 0.5    -- of what is held
local WORTH = 64 * 2 ^ 20 -- bytes: less is not worth giving back
local LARGE = 500e6   -- parameters from which the documents recompute (F38)
local SOURCES = 0.3   -- of what is free, that data may take
local NO_ROOM = 'a pass that was tried did not fit into memory'

-- What a pass needs, what is free, its share; or why that is not known, and whether it was tried
-- and did not fit beside what a trial holds (copies of gradients and of what a pass writes).
local function need(run)
  local peak, why, short = run:peak()
  if not peak then return nil, why, short end
  local room = run:room()
  if not room then return nil, 'nobody says how much memory is free' end
  return { peak = peak, room = room, share = peak / room,
    text = ('a pass of %s needs %s above what is there, of %s that are free'):format(
      plain.count(run.s.rows or 0, 'row'), bytes(peak), bytes(room)) }
end

function M.memory(run)
  local n, why, short = need(run)
  if short then
    return applies(why, NO_ROOM, 'smaller_batch', 'accumulate', 'bf16', 'recompute')
  end
  if not n then return unknown(why, 'smaller_batch') end
  if n.share > SHORT then
    return applies(n.text, ('that is %s of it'):format(percent(n.share)), 'smaller_batch',
      'accumulate', 'bf16', 'recompute')
  end
  return no(n.text, ('that is %s of it'):format(percent(n.share)))
end

function M.splitting(run)
  local n, why, short = need(run)
  local on = run.s.trainer and run.s.trainer.options.split
  if on then return no(n and n.text or why, 'split is on: it works batches off in parts') end
  if short then return applies(why, NO_ROOM, 'split', 'smaller_batch') end
  if not n then return unknown(why, 'split') end
  if n.share > TIGHT then
    return applies(n.text, 'another batch may not fit', 'split', 'smaller_batch')
  end
  return no(n.text, 'every batch of this size fits')
end

function M.recompute(run)
  local a, why = run:analysis()
  if not a then return unknown(why, 'recompute') end
  local n, no_need = need(run)
  local lines = a:what_if { recompute = true, measure = true, rounds = 4 }
  local whole, again
  for _, line in ipairs(lines) do
    if line.how == 'measured' then
      if line.recompute then again = line else whole = line end
    end
  end
  local measured = ('%s parameters, %s kept for the backward pass'):format(
    unit.format('count', a.params), bytes(a.saved_bytes))
  if not again then return no(measured, lines.notes[1] or 'there is nothing to recompute') end
  measured = ('%s; recomputed %s, in %.2f of the time'):format(measured, bytes(again.saved_bytes),
    again.step_ms / whole.step_ms)
  local saved = a.saved_bytes - again.saved_bytes
  if a.params > LARGE then
    return applies(measured, 'it has more than 500 million parameters', 'recompute')
  end
  if not n then return open(measured, no_need, 'recompute') end
  measured = ('%s; %s'):format(measured, n.text)
  if n.share > TIGHT and saved > 0 then
    return applies(measured, ('memory is short, and %s less are kept'):format(bytes(saved)),
      'recompute')
  end
  return no(measured, n.share > TIGHT and 'it keeps no less'
    or 'memory is not short, and it takes time')
end

function M.accumulation(run)
  local s = run.s
  if not run.trial then return unknown(run:why_no_trial(), 'accumulate') end
  local n, why, short = need(run)
  if short then return applies(why, NO_ROOM, 'accumulate') end
  if not n then return unknown(why, 'accumulate') end
  local step = (s.rows or 0) * (s.accumulate or 1)
  local noise, no_noise = run:noise()
  if n.share > SHORT then
    return applies(n.text, 'parts of a batch need less at once', 'accumulate')
  end
  if not noise then return open(n.text, no_noise, 'accumulate') end
  local measured = ('%s; the gradient noise scale is %s, a step has %d'):format(n.text,
    noise == math.huge and 'more rows than a batch can tell' or ('%.0f rows'):format(noise), step)
  if noise > step and 2 * n.share > SHORT then
    return applies(measured, 'more rows in a step are wanted, and do not fit at once', 'accumulate')
  end
  return no(measured, noise > step and 'a larger batch fits at once'
    or 'a step needs no more rows than it has')
end

function M.cache(run)
  local s = memory.stats(run.s.device)
  local system = memory.system().system_percent
  local measured = ('%s live, %s cached%s'):format(bytes(s.live), bytes(s.cached),
    system and (', %.0f %% of the system in use'):format(system) or '')
  local o = run.s.trainer and run.s.trainer.options
  if o and o.trim_every then
    return no(measured, ('trim_every = %d gives it back'):format(o.trim_every))
  end
  if s.cached > WORTH and s.cached > CACHED * (s.live + s.cached) and (system or 0) > FULL then
    return applies(measured, 'the system is short of what is cached here', 'trim')
  end
  return no(measured, 'nobody else is short of it, and the next step takes it again')
end

function M.system_memory()
  local s = memory.system()
  if not s.system_percent then return unknown(s.system_why or 'the system does not say') end
  local measured = ('%.0f %% of %.1f GB in use, %.0f MB by this process'):format(s.system_percent,
    s.system_total_gb, s.process_rss_mb or 0)
  if s.system_percent > FULL then
    return applies(measured, 'that is more than 80 %', 'trim', 'alarm', 'leaks')
  end
  return no(measured, 'that is not more than 80 %')
end

function M.watched(run)
  local s = memory.stats(run.s.device)
  local measured = ('peak so far %s'):format(bytes(s.peak))
  local monitor = run.s.trainer and run.s.trainer.options.monitor
  if monitor then return no(measured, 'a monitor watches it') end
  local alarms = #memory.alarms()
  if alarms > 0 then return no(measured, ('%s set'):format(alarms == 1 and '1 alarm is'
    or alarms .. ' alarms are')) end
  return applies(measured, 'neither a monitor nor an alarm looks at it', 'watch', 'alarm')
end

function M.loading_memory(run)
  local loader = run.s.loader
  if not loader then return no('no loader was used', 'there is nothing that it holds') end
  if type(loader.sources) ~= 'table' then
    return unknown 'the loader is none of ridge.data, and does not say what it holds'
  end
  local held = 0
  for _, x in ipairs(loader.sources) do
    if ref.is(x) then held = held + x.bytes end
  end
  if held == 0 then return no('no data in memory', 'rows are read from files as they are used') end
  local room = run:room()
  local measured = ('%s of data in memory%s'):format(bytes(held),
    room and (', %s are free'):format(bytes(room)) or '')
  if not room then return open(measured, 'nobody says how much memory is free') end
  if held > SOURCES * (held + room) then
    return applies(measured, 'that is much of what there is', 'rows_of_files')
  end
  return no(measured, 'that is little of what there is')
end

return M

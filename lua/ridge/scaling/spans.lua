-- SPDX-License-Identifier: MIT
--- What each rank does in a step, and when: it computes, it waits, its messages go. Looked at from
--- outside, and put on one clock.
--
-- Ranks of one machine read one clock. Those of others have clocks of their own, and what these
-- differ by is bounded, not guessed: no rank has left a barrier before every rank has entered it.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local statistics = require 'ridge.measure.statistics'
local worlds = require 'ridge.world'

local M = {}

local WHAT = 'ridge scale'
local WARM = 3 -- steps that are left out, the first of which makes the buckets
local BARRIERS = 50 -- that bound what clocks differ by: before what is recorded, and behind it

local function now() return tonumber(C.rg_clock_ns()) end

-- -- On a rank ------------------------------------------------------------------------------------

-- Which boot of which machine this is: its clock.
local function clock_of()
  local file = io.open '/proc/sys/kernel/random/boot_id'
  local id = file and file:read '*l'
  if file then file:close() end
  return id or '-'
end

local function barriers(world, lines, word)
  for _ = 1, BARRIERS do
    local times = ffi.new 'int64_t[3]'
    worlds.run(world, WHAT, { kind = C.RG_GROUP_BARRIER, times = times }, times)
    lines[#lines + 1] = ('%s %.0f %.0f'):format(word, tonumber(times[C.RG_GROUP_BEGAN]),
      tonumber(times[C.RG_GROUP_CAME]))
  end
end

-- While steps are recorded: each call has its times, each wait, too.
local function record(spans)
  local start, wait = worlds.start, worlds.wait
  function worlds.start(world, what, fields, ...)
    local times = ffi.new 'int64_t[3]'
    fields.times = times
    spans.calls[#spans.calls + 1] = { times = times,
      bytes = tonumber(fields.count or 0)
      * tonumber(C.rg_dtype_bytes(fields.dtype or 0)) }
    return start(world, what, fields, times, ...)
  end
  function worlds.wait(world, what, ticket)
    local from = now()
    wait(world, what, ticket)
    spans.waits[#spans.waits + 1] = { from, now() }
  end
  return function() worlds.start, worlds.wait = start, wait end
end

-- All that a rank has, as lines.
local function written(spans)
  local lines = { ('rank %s'):format(clock_of()) }
  for _, line in ipairs(spans.clock) do lines[#lines + 1] = line end
  for _, step in ipairs(spans.steps) do
    lines[#lines + 1] = ('step %.0f %.0f'):format(step[1], step[2])
  end
  for _, w in ipairs(spans.waits) do lines[#lines + 1] = ('wait %.0f %.0f'):format(w[1], w[2]) end
  for _, c in ipairs(spans.calls) do
    lines[#lines + 1] = ('call %.0f %.0f %.0f %.0f'):format(tonumber(c.times[C.RG_GROUP_BEGAN]),
      tonumber(c.times[C.RG_GROUP_CAME]), tonumber(c.times[C.RG_GROUP_ENDED]), c.bytes)
  end
  return table.concat(lines, '\n')
end

--- Look on from now: each step from the end of one backward pass to that of the next.
---@param most integer steps, the first three of which are left out
---@param stop any raised behind the last of them, on all ranks alike
---@param instead table|nil bucket_mb, compress: instead of the script's own
---@return table spans what `text` takes
function M.watch(most, stop, instead)
  local Buckets = require 'ridge.dist.buckets'
  require('ridge.scaling.steps').replace(Buckets, instead)
  local finish = Buckets.finish
  local spans, n, began, over = { steps = {}, waits = {}, calls = {}, clock = {} }, 0, nil, nil
  function Buckets:finish(weight)
    finish(self, weight)
    local ended = now()
    n = n + 1
    if n < WARM then return end
    if n == WARM then
      barriers(self.world, spans.clock, 'before')
      over = record(spans)
    else
      spans.steps[#spans.steps + 1] = { began, ended }
    end
    if n == most then
      over()
      barriers(self.world, spans.clock, 'behind')
      spans.texts = worlds.texts(self.world, WHAT, written(spans))
      error(stop, 0)
    end
    began = now()
  end
  return spans
end

--- All ranks' spans as text, for `read`.
---@param spans table of `watch`
---@return string text
function M.text(spans) return table.concat(spans.texts or {}, '\n') .. '\n' end

-- -- What they say together -----------------------------------------------------------------------

local FIELDS = { before = 'clock', behind = 'clock', step = 'steps', wait = 'waits',
  call = 'calls' }

--- The ranks of a text.
---@param text string of `text`
---@return table|nil ranks by rank from 1: clock (whose it is), before and behind (barriers: began,
---  came), steps, waits, calls; nil where no step was recorded
function M.read(text)
  local ranks = {}
  for line in text:gmatch '[^\n]+' do
    local word, rest = line:match '^(%l+) (.*)$'
    if word == 'rank' then
      ranks[#ranks + 1] = { clock = rest, before = {}, behind = {}, steps = {}, waits = {},
        calls = {} }
    elseif FIELDS[word] and #ranks > 0 then
      local numbers = {}
      for x in rest:gmatch '%S+' do numbers[#numbers + 1] = tonumber(x) end
      local own = ranks[#ranks]
      table.insert(FIELDS[word] == 'clock' and own[word] or own[FIELDS[word]], numbers)
    end
  end
  if #ranks == 0 or #ranks[1].steps == 0 then return nil end
  return ranks
end

-- What a clock is ahead of the first one by, at least and at most: a barrier that one rank has left
-- every other one has entered before.
local function bounds(first, own)
  local lo, hi = -math.huge, math.huge
  for i, b in ipairs(own) do
    lo = math.max(lo, b[1] - first[i][2])
    hi = math.min(hi, b[2] - first[i][1])
  end
  return lo, hi
end

--- What to subtract from each rank's times so that they are on the first rank's clock.
---@param ranks table of `read`
---@return table offsets by rank: function(ns) that gives a time on the first rank's clock
---@return number|nil off ns by which each may be wrong, at most; nil: all read one clock
function M.aligned(ranks)
  local offsets, off = { function(t) return t end }, nil
  local first = ranks[1]
  for r = 2, #ranks do
    local own = ranks[r]
    local lo, hi = bounds(first.before, own.before)
    local low, high = bounds(first.behind, own.behind)
    local one = own.clock == first.clock and own.clock ~= '-'
    if one and lo <= 0 and hi >= 0 and low <= 0 and high >= 0 then
      offsets[r] = offsets[1]
    else
      -- clocks drift: what they differ by lies on a line between both
      local a, b = (lo + hi) / 2, (low + high) / 2
      local from, to = own.before[#own.before][1], own.behind[1][1]
      local drift = (b - a) / (to - from)
      offsets[r] = function(t) return t - (a + drift * (t - from)) end
      local long = math.max(from - own.before[1][1], own.behind[#own.behind][1] - to)
      off = math.max(off or 0, math.abs(hi - lo) / 2 + math.abs(drift) * long,
        math.abs(high - low) / 2 + math.abs(drift) * long)
    end
  end
  return offsets, off
end

-- A span as far as the window shows it: in up to three parts, of which the middle one is of the
-- rank's own step and the others are of those before and behind.
local function span(list, at, what, from, to)
  local edges = { at.window[1], at.from, at.to, at.window[2] }
  for i = 1, 3 do
    local a, b = math.max(from, edges[i]), math.min(to, edges[i + 1])
    if b > a then
      list[#list + 1] = { rank = at.rank, lane = at.lane, what = what, own = i == 2,
        from_us = (a - at.window[1]) / 1e3, to_us = (b - at.window[1]) / 1e3 }
    end
  end
end

-- What a rank's processor does: it computes where it does not wait.
local function processor(list, at, own, clock)
  local there = at.window[1]
  at.lane = 'processor'
  for _, w in ipairs(own.waits) do
    local from, to = clock(w[1]), clock(w[2])
    if to > there and from < at.window[2] then
      span(list, at, 'compute', there, from)
      span(list, at, 'wait', math.max(from, there), to)
      there = to
    end
  end
  span(list, at, 'compute', there, at.window[2])
end

local function messages(list, at, own, clock)
  at.lane = 'messages'
  for _, c in ipairs(own.calls) do
    span(list, at, 'wait', clock(c[1]), clock(c[2]))
    span(list, at, 'transfer', clock(c[2]), clock(c[3]))
  end
end

-- Of a rank's own step: shares, and how much of its transfers lies beside its computing.
local function sums(list, at)
  local sum = { compute = 0, wait = 0, transfer_us = 0, hidden_us = 0,
    from_us = (at.from - at.window[1]) / 1e3, to_us = (at.to - at.window[1]) / 1e3 }
  for _, s in ipairs(list) do
    local us = s.own and s.to_us - s.from_us or 0
    if s.lane == 'processor' then
      sum[s.what] = sum[s.what] + us / (sum.to_us - sum.from_us)
    elseif s.what == 'transfer' then
      sum.transfer_us = sum.transfer_us + us
      for _, c in ipairs(s.own and list or {}) do
        if c.what == 'compute' then
          sum.hidden_us = sum.hidden_us
            + math.max(0, math.min(s.to_us, c.to_us) - math.max(s.from_us, c.from_us))
        end
      end
    end
  end
  return sum
end

-- From where the first rank begins with each step to where the last one has ended it.
local function windows_of(ranks, clocks)
  local windows, lengths = {}, {}
  for k = 1, #ranks[1].steps do
    local from, to = math.huge, -math.huge
    for r, own in ipairs(ranks) do
      from = math.min(from, clocks[r](own.steps[k][1]))
      to = math.max(to, clocks[r](own.steps[k][2]))
    end
    windows[k], lengths[k] = { from, to }, to - from
  end
  return windows, lengths
end

--- One step of all ranks: that of middle length, from where the first rank begins with it to where
--- the last one has ended it.
---@param ranks table of `read`
---@return table found rows (rank, lane, what, own: of this step, from_us, to_us), us, steps (how
---  many there were), off_us (nil: one clock); by rank from 1: from_us, to_us of its own step,
---  compute and wait (shares of that), transfer_us, hidden_us (of them, while it computed)
function M.step(ranks)
  local clocks, off = M.aligned(ranks)
  local windows, lengths = windows_of(ranks, clocks)
  local middle, best = statistics.median(lengths), 1
  for k, ns in ipairs(lengths) do
    if math.abs(ns - middle) < math.abs(lengths[best] - middle) then best = k end
  end
  local found = { rows = {}, us = lengths[best] / 1e3, steps = #lengths,
    off_us = off and off / 1e3 }
  for r, own in ipairs(ranks) do
    local list, clock = {}, clocks[r]
    local at = { rank = r - 1, window = windows[best], from = clock(own.steps[best][1]),
      to = clock(own.steps[best][2]) }
    processor(list, at, own, clock)
    messages(list, at, own, clock)
    found[r] = sums(list, at)
    for _, row in ipairs(list) do found.rows[#found.rows + 1] = row end
  end
  return found
end

return M

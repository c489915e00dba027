-- SPDX-License-Identifier: MIT
--- Blocks of four slots, ABBA or BAAB by a coin, of two candidates that live in this process.
--
-- Whole blocks and no alternation of AB and BA, which would take what the place in a pair does to a
-- time for noise.  Every fourth block is A/A (or B/B, by a coin): the same candidate in all four
-- slots, which shows what this machine makes of nothing.
--
-- Where the candidates can be made anew, each block has new ones: two copies of the same softmax
-- differed by 2 or 8 % by where their buffers lay, with intervals of 0.5 % from many blocks of one
-- pair of copies.  So where memory lies is part of the noise that the blocks show, and an A/A block
-- holds two copies of the same candidate against each other.
--
-- A slot is the median of up to five windows in a row: on a loaded machine the scheduler takes the
-- processor away for some milliseconds now and then, which is most of a slot but one window of it.

local blame = require 'ridge.blame'
local paired = require 'ridge.measure.paired'
local random = require 'ridge.measure.random'
local ref = require 'ridge.ffi.ref'
local state = require 'ridge.state'
local statistics = require 'ridge.measure.statistics'
local warmup = require 'ridge.measure.warmup'

local M = {}

-- An A/A block after each so many A/B blocks.
local CONTROL_EVERY = 3

local MOST_WINDOWS = 5

local Slots = {}
Slots.__index = Slots

local function candidate(given, cold)
  local windows = given.window or require('ridge.measure.native').windows(given.plan)
  return { windows = windows, cold = cold,
           take = function(k) return windows(k, 1, cold)[1] end }
end

-- How many calls fill a window and how many windows a slot, by the time of a warmed-up call.
local function prepare(c, protocol, window_ns, slot_ns)
  if c.cold then
    c.inner, c.n_windows = 1, MOST_WINDOWS
    for _ = 1, 3 do c.take(1) end
    return
  end
  local _, per_call = warmup.size(c.take, window_ns)
  c.warm = warmup.run(c.take, per_call, protocol, 0.02)
  per_call = math.max(c.warm.per_call_ns, 1e-3)
  c.inner = math.max(1, math.ceil(math.max(window_ns, slot_ns / MOST_WINDOWS) / per_call))
  local n = math.ceil(slot_ns / (c.inner * per_call))
  c.n_windows = math.max(1, math.min(MOST_WINDOWS, n - (n + 1) % 2))   -- odd: a median is one
end

--- Two candidates, warmed up.
---@param a table           plan (or function), or window (see measure.block)
---@param b table
---@param protocol table    of measure.protocol
---@param slot_ns number    shortest slot
---@param services table    of ridge.measure.native
---@param make (fun(): table, table)|nil  makes both anew, for each block
---@return table slots
function M.new(a, b, protocol, slot_ns, services, make)
  local cold = protocol.cache == 'cold'
  local self = setmetatable({ services = services, make = make, candidate(a, cold),
                              candidate(b, cold) }, Slots)
  local shortest = warmup.shortest(protocol, services.clock())
  for _, c in ipairs(self) do
    services.check()
    prepare(c, protocol, shortest, slot_ns)
  end
  return self
end

-- Time of one call in a slot.  A call before it, untimed: the other candidate was here.
local function slot(c)
  if not c.cold then c.take(1) end
  local times = {}
  for i, window in ipairs(c.windows(c.inner, c.n_windows, c.cold)) do
    times[i] = warmup.duration(window) / window.calls
  end
  local ns = statistics.median(times)
  if ns <= 0 then blame.raise('ab: a slot took no time; there is nothing to time', 'EARG') end
  return ns
end

-- Garbage goes first, so that what is made finds other places free; then no collection comes.
local function collect()
  collectgarbage()
  ref.reap()
  collectgarbage 'stop'
end

-- A candidate made anew, timed as the one before it was, and warm.
local function renewed(given, like)
  local c = candidate(given, like.cold)
  c.inner, c.n_windows = like.inner, like.n_windows
  for _ = 1, 2 do c.take(c.inner) end
  return c
end

-- Bytes in front of what is made: up to two pages, so that lines and pages of it are others.
local MOST_SHIFT = 8192

local function make(self, coin)
  collect()
  self.shift = require('ridge').zeros(coin:integer(MOST_SHIFT / 4))
  local a, b = self.make()
  return { a, b }
end

-- What a block holds against each other: a and b, or one of them and itself.
local function candidates_of(self, kind, coin)
  local first, second = 1, 2
  if kind == 'aa' then
    first = coin:integer(2)
    second = first
  end
  if not self.make then return self[first], self[second] end
  local made = make(self, coin)
  local again = kind == 'aa' and make(self, coin) or made
  return renewed(made[first], self[first]), renewed(again[second], self[second])
end

local function take_block(self, kind, coin)
  local first, second = candidates_of(self, kind, coin)
  local design, times = paired.coin(coin), {}
  local is_b = paired.slots(design)
  for i = 1, 4 do times[i] = slot(is_b[i] and second or first) end
  return { kind = kind, design = design, times = times }
end

--- Take blocks: n of A/B, and one of A/A after every third of them.
---@param n integer
---@param seed integer  of the coins
---@return table[] blocks  kind ('ab', 'aa'), design ('ABBA', 'BAAB'), times (ns of a call, four)
function Slots:take(n, seed)
  local coin, blocks = random.new(seed), {}
  collectgarbage()
  ref.reap()
  state.with(state.UNCOLLECTED, {}, function()
    for i = 1, n do
      self.services.check()
      blocks[#blocks + 1] = take_block(self, 'ab', coin)
      if i % CONTROL_EVERY == 0 then blocks[#blocks + 1] = take_block(self, 'aa', coin) end
    end
  end)
  self.shift = nil
  return blocks
end

return M

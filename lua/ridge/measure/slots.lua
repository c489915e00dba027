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
-- holds two copies of the same candidate against each other.  Candidates that take long to make
-- serve several blocks, an A/A one among them, so that making costs a block no more than MAKING_NS.
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
---@param make (fun(): table, table, any)|nil  makes both anew, for each block; and what has to live
---  as long as they do
---@param made_ns number|nil  how long making takes, when that is known
---@return table slots
function M.new(a, b, protocol, slot_ns, services, make, made_ns)
  local cold = protocol.cache == 'cold'
  local self = setmetatable({ services = services, make = make, made_ns = made_ns or 0,
                              candidate(a, cold), candidate(b, cold) }, Slots)
  local shortest = warmup.shortest(protocol, services.clock())
  for _, c in ipairs(self) do
    services.check()
    prepare(c, protocol, shortest, slot_ns)
    -- what is made anew is not kept beside: of a large point there may be no room for both
    if make then c.windows, c.take = nil, nil end
  end
  return self
end

-- Time of one call in a slot, behind untimed calls: the other candidate was here. A window of many
-- calls settles within itself, and the median of a slot's windows leaves the first one out.
local function slot(c)
  if not c.cold then
    if c.inner < warmup.SETTLE_CALLS then warmup.settle(c.take, c.inner) else c.take(1) end
  end
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

-- Time to make candidates that a block may take: several blocks' slots.
local MAKING_NS = 2.5e8

local function make(self, coin)
  collect()
  self.shift = require('ridge').zeros(coin:integer(MOST_SHIFT / 4))
  local began = self.services.now and self.services.now()
  local a, b, keep = self.make()
  if began then self.made_ns = self.services.now() - began end
  return { a, b, keep = keep }
end

-- Another copy of the same; where there is no room for one, the copy itself.
local function again(self, made, coin)
  local ok, other = pcall(make, self, coin)
  if ok then return other end
  if not (blame.is_error(other) and other.code == 'ENOMEM') then error(other, 0) end
  return made
end

-- What a block holds against each other: a and b, or one of them and itself.
local function candidates_of(self, kind, coin)
  local first, second = 1, 2
  if kind == 'aa' then
    first = coin:integer(2)
    second = first
  end
  if not self.make then return self[first], self[second] end
  local is_old = self.made and self.since * MAKING_NS < self.made_ns
  if is_old then
    self.since = self.since + 1
    local made = self.made
    return renewed(made[first], self[first]), renewed(made[second], self[second])
  end
  self.made = nil
  local made = make(self, coin)
  local other = kind == 'aa' and again(self, made, coin) or made
  -- one that is cheap to make is let go with its block
  self.made, self.since = self.made_ns > MAKING_NS and made or nil, 1
  local x, y = renewed(made[first], self[first]), renewed(other[second], self[second])
  x.keep, y.keep = made.keep, other.keep
  return x, y
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
  self.shift, self.made = nil, nil
  return blocks
end

return M

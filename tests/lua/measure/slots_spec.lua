-- SPDX-License-Identifier: MIT
-- Where memory lies is part of the noise: candidates made again for each block on a made-up machine
-- on which each copy has its own speed.

local here = debug.getinfo(1, 'S').source:match('^@(.*/)')
local made_up = dofile(here .. 'machine.lua')
local paired = require 'ridge.measure.paired'
local protocols = require 'ridge.measure.protocol'
local random = require 'ridge.measure.random'
local slots = require 'ridge.measure.slots'
local verdict = require 'ridge.measure.verdict'

local PROTOCOL = protocols.protocol { level = 'quick', warm_min_ns = 1e6, warm_max_ns = 2e7 }

-- Three processes of twelve blocks; each copy of a candidate is off by 4 % (one standard
-- deviation), the second candidate is slower by a factor.
local function compare(seed, factor, again)
  local r, processes, n_made = random.new(seed), {}, 0
  for p = 1, 3 do
    local machine = made_up.new()
    local function copy(times)
      n_made = n_made + 1
      local per_call = 1e5 * times * math.exp(0.04 * r:normal())
      return { window = machine:window(per_call, function() return 0.003 * r:normal() end) }
    end
    local function make() return copy(1), copy(factor) end
    local a, b = make()
    local taken = slots.new(a, b, PROTOCOL, 2e6, machine:services(), again and make or nil)
    local process = { effects = {}, aa = {} }
    for _, block in ipairs(taken:take(12, seed * 7 + p)) do
      table.insert(block.kind == 'aa' and process.aa or process.effects,
        paired.effect(block.design, block.times))
    end
    processes[p] = process
  end
  return verdict.of(processes, 0.01, 1), n_made
end

local N = 30

local function called(factor, again)
  local n = 0
  for seed = 1, N do
    local said = compare(seed, factor, again).verdict
    if said == 'faster' or said == 'slower' then n = n + 1 end
  end
  return n
end

describe('candidates made again for each block', function()
  it('differ by chance in no more than the level says, though their copies do', function()
    -- 5 % and three standard deviations of so many draws
    assert.is_true(called(1, true) <= 0.05 * N + 3 * math.sqrt(0.05 * 0.95 * N))
  end)

  it('are not sure of one layout: the interval is as wide as layouts differ', function()
    local once, again = compare(1, 1, false), compare(1, 1, true)
    assert.is_true(again.floor > 3 * once.floor, 'A/A blocks of two copies show it')
    assert.is_true(again.floor > 0.01 and once.floor < 0.005)
  end)

  it('are found when they are far apart', function()
    assert.is_true(called(1.2, true) >= 0.8 * N)
  end)

  it('are made once for a block, twice for one of A/A', function()
    -- each process: once, 12 blocks, 4 of A/A with two makes; two copies each
    assert.equal(3 * 2 * (1 + 12 + 2 * 4), (select(2, compare(3, 1, true))))
    assert.equal(3 * 2, (select(2, compare(3, 1, false))))
  end)

  -- A process whose candidates take so long to make: how often, and what was held at once.
  local function slow(making_ns)
    local machine, n_made, n_live, most = made_up.new(), 0, 0, 0
    local function copy()
      local c = { window = machine:window(1e5, function() return 0 end), live = newproxy(true) }
      n_live = n_live + 1
      getmetatable(c.live).__gc = function() n_live = n_live - 1 end
      most = math.max(most, n_live)
      return c
    end
    local function make()
      n_made = n_made + 1
      machine.time = machine.time + making_ns
      local a, b = copy(), copy()
      return a, b, { a, b }
    end
    local a, b = make()
    local taken = slots.new(a, b, PROTOCOL, 2e6, machine:services(), make)
    a, b = nil, nil -- luacheck: ignore
    most = 0
    taken:take(12, 5)
    return n_made, most
  end

  it('serve several blocks where making takes long', function()
    assert.equal(1 + 12 + 2 * 4, (slow(1e6)))
    assert.equal(1 + 12 + 2 * 4, (slow(2.4e8)))
    local second = slow(1e9)
    assert.is_true(second >= 1 + 4 and second <= 1 + 2 * 4, second)
    assert.equal(2, (slow(1e12)))
  end)

  it('are let go before others are made', function()
    -- two of a block, and two more where A/A holds copies against each other
    local _, most = slow(1e6)
    assert.is_true(most <= 4, most)
  end)

  it('stand for themselves where there is no room for another copy', function()
    local full = setmetatable({ code = 'ENOMEM', message = 'full' },
      getmetatable(select(2, pcall(require('ridge.blame').raise, 'x'))))
    local machine, n = made_up.new(), 0
    local function make()
      n = n + 1
      if n % 6 == 0 then error(full, 0) end
      return { window = machine:window(1e5, function() return 0 end) },
        { window = machine:window(1e5, function() return 0 end) }
    end
    local a, b = make()
    -- the sixth is the other copy of the first A/A block
    assert.equal(16 - 12, #slots.new(a, b, PROTOCOL, 2e6, machine:services(), make):take(3, 5))
  end)
end)

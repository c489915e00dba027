-- SPDX-License-Identifier: MIT
-- Whether the interval of a short sweep holds what other minutes say where states of the machine
-- dwell for as long as the sweep: recorded passes of nine kinds of work, pieced together to hours,
-- by what a `ridge trust` at another time has seen of them.

local dwelling = require 'tests.lua.measure.dwelling'
local minutes = require 'ridge.measure.minutes'
local passes = require 'ridge.measure.passes'
local random = require 'ridge.measure.random'
local statistics = require 'ridge.measure.statistics'

local series, NAMES = dwelling.recorded 'tests/fixtures/dwelling.txt'
local at, timeline = dwelling.at, dwelling.timeline

local function sweep_of(r, line, from, seconds)
  local times, meds = {}, {}
  for i = 1, 5 do
    times[i] = from + seconds * (i - 1) / 4
    meds[i] = math.exp(at(r, line, times[i]))
  end
  return passes.interval(meds), times
end

-- What a `ridge trust` of so many seconds finds, a process each one and a half.
local function trust_of(r, line, from, seconds)
  local moments = dwelling.moments(r, line, from, seconds)
  local sd = minutes.spread(minutes.groups(moments, seconds), seconds)
  return { trust = { minutes = sd, seconds = seconds } }
end

-- Shares of sweeps that hold the median of one five minutes to an hour and a half later, and that
-- of all these hours; and half the median width.
local function coverage(name, seconds, trust_s, n)
  local r, one, all, widths = random.new(41), 0, 0, {}
  for i = 1, n do
    local line = timeline(r, series[name])
    local found, times = sweep_of(r, line, 600, seconds)
    local other = sweep_of(r, line, 900 + seconds + 5000 * r:uniform(), seconds)
    local known = trust_s and trust_of(r, line, 6000 * r:uniform(), trust_s)
    local lo, hi = minutes.widen(found.med, found.lo, found.hi,
      minutes.term(minutes.source(known), nil, times))
    local truth = math.exp(statistics.median(line))
    one = one + (lo <= other.med and other.med <= hi and 1 or 0)
    all = all + (lo <= truth and truth <= hi and 1 or 0)
    widths[i] = math.log(hi / lo) / 2
  end
  return 100 * one / n, 100 * all / n, 100 * statistics.median(widths)
end

-- A table of all of it, for docs/why/drift.md, with DWELLING=400 in the environment
local MANY = tonumber(os.getenv 'DWELLING' or '')

describe('a short sweep where states dwell', function()
  for _, name in ipairs(NAMES) do
    it('holds another one and the median of hours once ridge trust has run: ' .. name, function()
      for _, seconds in ipairs(MANY and { 30, 120, 300 } or { 30, 120 }) do
        for _, trust_s in ipairs { 180, 600 } do
          local one, all, width = coverage(name, seconds, trust_s, MANY or 150)
          if MANY then
            print(('%-22s %4d s, trust %3d s: %5.1f %5.1f +-%5.1f'):format(name, seconds, trust_s,
              one, all, width))
          end
          assert.is_true(one >= 80 and all >= 92, ('%d s, trust of %d s: %.1f %.1f'):format(seconds,
            trust_s, one, all))
        end
      end
    end)
  end

  it('does not by what is assumed', function()
    for _, name in ipairs { 'training step', 'L2' } do
      local one, all, width = coverage(name, 30, nil, 300)
      assert.is_true(one < 80 and all < 92, ('%s: %.1f %.1f +-%.1f'):format(name, one, all, width))
    end
    if not MANY then return end
    for _, name in ipairs(NAMES) do
      for _, seconds in ipairs { 30, 120, 300 } do
        print(('%-22s %4d s, assumed: %5.1f %5.1f +-%5.1f'):format(name, seconds,
          coverage(name, seconds, nil, MANY)))
      end
    end
  end)
end)

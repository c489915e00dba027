-- SPDX-License-Identifier: MIT
-- Whether `quick`, a second in one process, holds what other minutes say where states of the
-- machine dwell, behind a `ridge trust` at another time: recorded passes of nine kinds of work of
-- two days, pieced together to hours.

local dwelling = require 'tests.lua.measure.dwelling'
local minutes = require 'ridge.measure.minutes'
local random = require 'ridge.measure.random'
local statistics = require 'ridge.measure.statistics'
local variation = require 'ridge.measure.variation'

local DAYS = { { 'dwelling.txt', 7.5 }, { 'dwelling_later.txt', 5 } }

local LATER, NAMES = dwelling.recorded 'tests/fixtures/dwelling_later.txt'

-- What a `ridge trust` keeps of these moments; `old`: as one did that told no minutes.
local function trust_of(moments, seconds, old)
  local logs = {}
  for i, moment in ipairs(moments) do logs[i] = moment.log end
  local med, sorted = statistics.median(logs), statistics.sorted(logs)
  local trust = { seconds = seconds, up = statistics.quantile(sorted, 0.975) - med,
    down = med - statistics.quantile(sorted, 0.025) }
  if old then return trust end
  local groups = minutes.groups(moments, seconds)
  trust['minutes.linear'] = minutes.spread(groups, seconds)
  trust['near_up.linear'], trust['near_down.linear'] = minutes.near(groups)
  trust.up, trust.down = 0, 0   -- the largest of all kinds is that of this one
  return trust
end

-- Shares that hold another `quick`, five minutes to an hour and a half later, and the median of all
-- these hours; and half the median width.
local function coverage(groups, step, trust_s, n, old)
  local r, own, one, all, widths = random.new(41), groups.quick, 0, 0, {}
  for i = 1, n do
    local line = dwelling.timeline(r, groups, step)
    local known = variation.of { trust = trust_of(dwelling.moments(r, line, 6000 * r:uniform(),
      trust_s, step), trust_s, old) }
    local med, k = dwelling.at(r, line, 600, step), 2 * r:integer(#own / 2)
    local other = dwelling.at(r, line, 900 + 5000 * r:uniform(), step)
    local lo, hi = variation.widen(math.exp(med), math.exp(med - own[k - 1]),
      math.exp(med + own[k]), variation.of_kind(known, 'linear'))
    lo, hi = math.log(lo), math.log(hi)
    local truth = statistics.median(line)
    one = one + (lo <= other and other <= hi and 1 or 0)
    all = all + (lo <= truth and truth <= hi and 1 or 0)
    widths[i] = (hi - lo) / 2
  end
  return 100 * one / n, 100 * all / n, 100 * statistics.median(widths)
end

-- A table of all of it, for docs/why/drift.md, with DWELLING=400 in the environment
local MANY = tonumber(os.getenv 'DWELLING' or '')

describe('quick where states dwell', function()
  for _, day in ipairs(DAYS) do
    local series = dwelling.recorded('tests/fixtures/' .. day[1])
    for _, name in ipairs(NAMES) do
      series[name].quick = LATER[name].quick   -- kept of the later day alone
      it(('holds another one and the median of hours: %s, %s'):format(name, day[1]), function()
        for _, trust_s in ipairs { 180, 600 } do
          local one, all, width = coverage(series[name], day[2], trust_s, MANY or 200)
          if MANY then
            print(('%-22s %-18s trust %3d s: %3.0f %3.0f +-%3.0f, before %3.0f %3.0f +-%3.0f')
              :format(name, day[1], trust_s, one, all, width,
              coverage(series[name], day[2], trust_s, MANY, true)))
          end
          assert.is_true(one >= 80 and all >= 92, ('trust of %d s: %.1f %.1f'):format(trust_s, one,
            all))
        end
      end)
    end
    it('does not by what processes differ by about one median: ' .. day[1], function()
      local one = coverage(series.L1, day[2], 180, 400, true)
      assert.is_true(one < 80, one)
    end)
  end
end)

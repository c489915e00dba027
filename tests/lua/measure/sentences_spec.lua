-- SPDX-License-Identifier: MIT
--- What measuring says to what is wrong, and what it makes of a comparison in words: the sentences
--- that were approved (tests/approved/measure/sentences.txt).

local approved = dofile 'tests/lua/approved.lua'
local told = dofile 'tests/lua/told.lua'
local ab = require 'ridge.measure.ab'
local measure = require 'ridge.measure'
local passes = require 'ridge.measure.passes'

local LINES = [[
measure.ab()
measure.ab(1)
measure.ab {}
measure.ab { a = plan }
measure.ab { b = plan }
measure.ab { a = 3, b = plan }
measure.ab { a = plan, b = {} }
measure.ab { a = {}, b = plan }
measure.ab { setup = print, a = plan }
measure.ab { setup = 3 }
measure.ab { a = plan, b = plan, processes = 2 }
measure.ab { a = plan, b = plan, rigorous = true }
measure.ab { a = plan, b = plan, processes = 0 }
measure.ab { a = plan, b = plan, processes = 65 }
measure.ab { a = plan, b = plan, blocks = 5 }
measure.ab { a = plan, b = plan, blocks = 1001 }
measure.ab { a = plan, b = plan, looks = 0 }
measure.ab { a = plan, b = plan, looks = 21 }
measure.ab { a = plan, b = plan, margin = 1.5 }
measure.ab { a = plan, b = plan, slot_ns = 999 }
measure.ab { a = plan, b = plan, tolerance = -1 }
measure.ab { a = plan, b = plan, seed = -1 }
measure.ab { a = plan, b = plan, protocol = 'fast' }
measure.ab { a = plan, b = plan, tol = 1 }
measure.ab { a = plan, b = other }
measure.block()
measure.block {}
measure.block { 3 }
measure.block { plan }
measure.block { {} }
measure.block { { plan = plan, window = print } }
measure.block { { plan = plan }, { plan = plan, name = 'x' } }
measure.block { { plan = plan, cost = 3 } }
measure.block({ { plan = plan } }, 'fast')
measure.block({ { plan = plan } }, 'quick', { sevices = 1 })
measure.block { { plan = 3 } }
measure.point()
measure.point(3)
measure.calibrate { threads = 'two' }
measure.calibrate { quick = 1 }
measure.calibrate { seed = -1 }
measure.calibrate { kinds = 'fma.' }
measure.calibrate { what = 1 }
measure.calibration()
measure.calibration 'x'
measure.calibration({}, 1)
measure.fresh()
measure.fresh 'x'
measure.protocol 'fast'
measure.protocol(3)
measure.protocol { level = 'fast' }
measure.protocol { cache = 'hot' }
measure.protocol { cache = {} }
measure.protocol { cache = { 'warm', 'hot' } }
measure.protocol { version = 1 }
measure.protocol { passes = 0 }
measure.protocol { precision = -1 }
measure.protocol { rounds = 1 }
measure.flag()
measure.flag 'NONE'
measure.flag 'WIDE'
measure.flags_from_bits 'x'
measure.flags_from_bits(2 ^ 40)
passes.interval()
passes.interval {}
passes.interval { 1, 2, -1 }
passes.interval { 1, 'x' }
passes.interval({ 1, 2, 3 }, { windows = { { 1 } } })
passes.interval({ 1, 2, 3 }, { level = 2 })
passes.ratio({ 1 }, 3)
passes.ratio({ 1 }, { 0 })
-- a comparison in words
words { 'faster', 0.5, 0.4, 0.6 }
words { 'slower', 2, 1.9, 2.1, flags = { 'FOREIGN', 'LUA' } }
words { 'equal', 1, 0.99, 1.01, procs = 1 }
words { 'open', 1.02, 0.9, 1.1, needed = 77 }
words { 'open', 1.02, 0.9, 1.1, aa_fail = true, aa = 1.25, flags = { 'AA_FAIL' } }
words { 'open', 1.02, 0.9, 1.1, simulated = true, aa_fail = true, aa = 1.25 }
said { effects = { 1.25, 1.25 } }
said { effects = { 0.5, 0.5 }, processes = 2 }
said { effects = { 0.8, 1.25 }, blocks = 6, looks = 2 }
said { effects = { 1, 1 }, labels = { a = 'old', b = 'new' } }
said { effects = { 1.25, 1.25 }, simulated = true }
]]

describe('measuring', function()
  local ridge = require 'ridge'

  -- a second on two processors, of which others had 6 %
  local function step(simulated)
    return { n_cpus = 2, at_ns = 1e9, busy_ns = 3.2e8, own_ns = 2e8, steal_ns = 0, pressure_ns = 0,
      n_throttled = 0, simulated = simulated }
  end

  local function words(t)
    local found = { verdict = t[1], ratio = t[2], ci_lo = t[3], ci_hi = t[4], margin = 0.01,
      blocks = 24, procs = 2, flags = {} }
    for name, value in pairs(t) do if type(name) == 'string' then found[name] = value end end
    -- the class of a result is that of a real one
    local class = getmetatable(ab.compare({ { take = function()
      return { { kind = 'ab', design = 'ABBA', times = { 1, 1, 1, 1 } } }, step()
    end } }, 'x', { seed = 1, margin = 0.01, blocks = 6, looks = 1 },
      { services = { check = function() end }, session = { facts = {} } }))
    setmetatable(found, class)
    return tostring(found), found:short()
  end

  -- A comparison of runners whose blocks have these ratios, in turn: what was asked of them, what
  -- was said after each look, and the result.
  local function said(t)
    local lines, asked, runners = {}, {}, {}
    for i = 1, t.processes or 1 do
      local k = 0
      runners[i] = { take = function(_, name, n, seed)
        asked[#asked + 1] = ('%s %d %d'):format(name, n, seed)
        local blocks = {}
        for b = 1, n do
          k = k + 1
          local a = 100 + k % 3 / 10 -- noise of a thousandth
          local x = b % 3 == 0 and 1 or t.effects[k % 2 + 1]
          local kind = b % 3 == 0 and 'aa' or 'ab'
          blocks[b] = k % 4 < 2 and { kind = kind, design = 'ABBA', times = { a, a * x, a * x, a } }
            or { kind = kind, design = 'BAAB', times = { a * x, a, a, a * x } }
        end
        return blocks, step(t.simulated)
      end }
    end
    local found = ab.compare(runners, 'ab', { seed = 5, margin = 0.01, blocks = t.blocks,
      looks = t.looks, labels = t.labels, progress = function(text) lines[#lines + 1] = text end },
      { services = { check = function() end }, session = { facts = {} }, cache = 'warm' })
    return asked, lines, tostring(found), found:short(), { found.name, found.looks, found.a_ns,
      found.b_ns, found.labels, found.design, found.cache, found.blocks, found.procs }
  end

  it('says what was approved', function()
    local x, y = ridge.ones(4), ridge.zeros(4)
    local text = told.all(LINES, { measure = measure, passes = passes, words = words, said = said,
      plan = ridge.capture(function() return x:relu() end),
      other = ridge.capture(function() return y:relu() end) })
    approved.check('measure/sentences', text)
  end)
end)

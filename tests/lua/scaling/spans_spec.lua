-- SPDX-License-Identifier: MIT
-- What ranks do in a step, on one clock: made spans with known answers, and the picture.

local spans = require 'ridge.scaling.spans'
local timeline = require 'ridge.scaling.timeline'

-- A rank as text. ahead: function of the true time that gives what its clock is ahead by.
local function rank(clock, ahead, o)
  local lines = { 'rank ' .. clock }
  local function put(word, ...)
    local times = { ... }
    for i, t in ipairs(times) do times[i] = ('%.0f'):format(t + ahead(t)) end
    lines[#lines + 1] = word .. ' ' .. table.concat(times, ' ')
  end
  for i = 0, 9 do
    put('before', 1e6 + i * 1e5 + o.enters[i % #o.enters + 1], 1e6 + i * 1e5 + o.leaves)
  end
  for _, s in ipairs(o.steps) do put('step', unpack(s)) end
  for _, w in ipairs(o.waits or {}) do put('wait', unpack(w)) end
  for _, c in ipairs(o.calls or {}) do
    put('call', unpack(c))
    lines[#lines] = lines[#lines] .. ' 4096'
  end
  for i = 0, 9 do
    put('behind', 9e6 + i * 1e5 + o.enters[i % #o.enters + 1], 9e6 + i * 1e5 + o.leaves)
  end
  return table.concat(lines, '\n')
end

local function exact() return 0 end

local STEPS = { { 3000000, 3100000 }, { 3100000, 3300000 }, { 3300000, 3900000 } }

describe('what ranks do in a step', function()
  local function two(clock, ahead)
    return spans.read(rank('a', exact, { enters = { 0, 4000 }, leaves = 9000, steps = STEPS })
      .. '\n' .. rank(clock, ahead, { enters = { 5000, 1000 }, leaves = 8000, steps = STEPS })
      .. '\n')
  end

  it('is on one clock where ranks are of one machine', function()
    local clocks, off = spans.aligned(two('a', exact))
    assert.is_nil(off)
    assert.equal(12345, clocks[2](12345))
  end)

  it('is on the first rank\'s clock within a bound where they are not', function()
    -- the last: one boot, whose processes see two clocks
    for _, case in ipairs { { 'b', 7e9, 0 }, { 'b', -3e12, 0 }, { 'b', 2500, 0 },
        { 'b', 7e9, 1e-2 }, { 'b', 0, -3e-3 }, { 'a', 5e8, 0 } } do
      local ahead = function(t) return case[2] + case[3] * (t - 1e6) end
      local clocks, off = spans.aligned(two(case[1], ahead))
      -- 4000 to 9000 pass between where one enters and the other leaves
      assert.is_true(off > 0 and off <= 4500 + 1e6 * math.abs(case[3]), tostring(off))
      for _, t in ipairs { 2e6, 5e6, 8e6 } do
        assert.near(t, clocks[2](t + ahead(t)), off)
      end
    end
  end)

  it('is bounded by what is known less well of both ends', function()
    local slow = { before = 0, behind = 0 } -- ns that leaving the barriers takes longer
    local function text(clock, ahead)
      local lines = { 'rank ' .. clock }
      for _, word in ipairs { 'before', 'behind' } do
        for i = 0, 9 do
          local from = (word == 'before' and 1e6 or 9e6) + i * 1e5 + ahead
          lines[#lines + 1] = ('%s %.0f %.0f'):format(word, from, from + 1000 + slow[word])
        end
      end
      lines[#lines + 1] = ('step %.0f %.0f'):format(3e6 + ahead, 4e6 + ahead)
      return table.concat(lines, '\n') .. '\n'
    end
    for word in pairs(slow) do
      slow.before, slow.behind = 0, 0
      slow[word] = 60000
      local off = select(2, spans.aligned(spans.read(text('a', 0) .. text('b', 5e9))))
      assert.near(61000, off, 1, word)
    end
  end)

  it('says nothing of text without steps', function()
    assert.is_nil(spans.read '')
    assert.is_nil(spans.read 'rank a\nbefore 1 2\n')
  end)

  -- The second step, of 200 us, is that of middle length.
  local function found(clock)
    local first = { enters = { 0, 4000 }, leaves = 9000, steps = STEPS,
      waits = { { 3180000, 3300000 } }, calls = { { 3150000, 3170000, 3290000 } } }
    local other = { enters = { 5000, 1000 }, leaves = 8000, steps = { { 3000000, 3110000 },
      { 3110000, 3310000 }, { 3310000, 3900000 } }, waits = { { 3080000, 3110000 },
      { 3250000, 3310000 } }, calls = { { 3090000, 3095000, 3110000 },
      { 3170000, 3170000, 3305000 } } }
    return spans.step(spans.read(rank('a', exact, first) .. '\n' .. rank(clock or 'a',
      clock and function() return 3e10 end or exact, other)))
  end

  it('is computing, waiting and transfers, of its own step', function()
    local got = found()
    assert.equal(3, got.steps)
    assert.near(210, got.us, 1e-9)
    local lines = {}
    for i, row in ipairs(got.rows) do
      lines[i] = ('%d %s %s %g %g%s'):format(row.rank, row.lane, row.what, row.from_us, row.to_us,
        row.own and '' or ' not')
    end
    assert.same({
      '0 processor compute 0 80', '0 processor wait 80 200', '0 processor compute 200 210 not',
      '0 messages wait 50 70', '0 messages transfer 70 190',
      '1 processor wait 0 10 not', '1 processor compute 10 150', '1 processor wait 150 210',
      '1 messages transfer 0 10 not', '1 messages transfer 70 205' }, lines)
    assert.near(0.4, got[1].compute, 1e-9)
    assert.near(0.6, got[1].wait, 1e-9)
    assert.near(0.7, got[2].compute, 1e-9)
    assert.near(120, got[1].transfer_us, 1e-9) -- 70 to 190, of which it computes to 80
    assert.near(10, got[1].hidden_us, 1e-9)
    assert.near(135, got[2].transfer_us, 1e-9)
    assert.near(80, got[2].hidden_us, 1e-9)
  end)

  it('is drawn, with what its clocks are worth', function()
    local text, clocks = timeline.sentences(found())
    assert.equal('2 ranks compute for 40 to 70 % of this step; 35 % of the time of transfers lies '
      .. 'beside computing.', text)
    assert.equal('All ranks read one clock.', clocks)
    clocks = select(2, timeline.sentences(found 'b'))
    assert.matches('^Clocks of several machines .*: each rank may be off by 4.*s at most%.$',
      clocks)
    local one = { { compute = 1, wait = 0, transfer_us = 0, hidden_us = 0 } }
    text, clocks = timeline.sentences(one)
    assert.equal('1 rank computes for 100 % of this step; nothing is transferred.', text)
    assert.equal('', clocks)
    local three = {}
    for i, share in ipairs { 0.9, 0.25, 0.5 } do
      three[i] = { compute = share, wait = 0, transfer_us = 4, hidden_us = 1 }
    end
    assert.equal('3 ranks compute for 25 to 90 % of this step; 25 % of the time of transfers lies '
      .. 'beside computing.', (timeline.sentences(three)))
    local figure = timeline.make(found(), { script = 'train.lua', device = 'a machine' })
    assert.equal('\137PNG', figure:png():sub(1, 4))
    assert.matches('of middle length of 3, ', figure:text())
    local alone = { found()[1], rows = {}, us = found().us, steps = 3 } -- high enough to be saved
    assert.equal('\137PNG', timeline.make(alone, { script = 'train.lua' }):png():sub(1, 4))
  end)
end)

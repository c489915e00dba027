-- SPDX-License-Identifier: MIT
--- Numbers as people read them, and the ticks of every kind of axis: tables of them, approved.

local approved = dofile 'tests/lua/approved.lua'
local axes = require 'ridge.plot.axes'
local scale = require 'ridge.plot.scale'
local unit = require 'ridge.show.unit'

local KINDS = { 'ns', 'ms', 'bytes', 'mb', 'count', 'gflops', 'gbps', 'times', 'percent', 'integer',
  'number' }
local VALUES = { 0, 1e-7, 0.00012, 0.0123456, 0.9996, 1, 9.996, 12.5, 99.95, 512, 999.4, 999.6,
  1000, 1023.4, 1024, 4096, 123456, 999600, 1048576, 1e9, 1.5e12, 2e15, -3, -0.04, -1500 }

local function said(v) return (('%.10g'):format(v)) end

local function row(list)
  local out = {}
  for i, v in ipairs(list) do out[i] = type(v) == 'number' and said(v) or v end
  return table.concat(out, ' | ')
end

describe('numbers', function()
  it('are written as approved', function()
    local out = { row { 'value', unpack(KINDS) } }
    for _, v in ipairs(VALUES) do
      local list = { said(v) }
      for _, kind in ipairs(KINDS) do list[#list + 1] = unit.format(kind, v) end
      out[#out + 1] = row(list)
    end
    for _, v in ipairs { 0, 1 / 0, -1 / 0, 0 / 0, 1e6, 999999, 0.0001, 0.00009999, 1.005, 2.5 } do
      out[#out + 1] = ('digits 1, 2, 4 of %s: %s, %s, %s'):format(v ~= v and 'nan' or tostring(v),
        unit.number(v, 1), unit.number(v, 2), unit.number(v, 4))
    end
    for _, v in ipairs { 0, 7, 999, 1000, 12345, 123456, 1234567, 999.5, -5, -999, -1000,
        -123456 } do
      out[#out + 1] = ('grouped %s: %s'):format(said(v), unit.grouped(v))
    end
    for _, list in ipairs { { 0, 1, 2 }, { 0, 0.5, 1 }, { 0.25, 0.5 }, { 1, 1.125 },
        { -1, -0.5, 0 }, { -0.0001, 0.1 }, { 1e-7, 2e-7 }, { 100000.5, 100001 } } do
      out[#out + 1] = ('labels of %s: %s'):format(row(list), row(unit.decimals(list)))
    end
    approved.check('plot/numbers', table.concat(out, '\n'))
  end)

  it('stand at the ticks that were approved', function()
    local out = {}
    for _, range in ipairs { { 0, 1 }, { 0, 7 }, { -3, 12 }, { 95, 105 }, { 0.013, 0.017 },
        { 1, 8 }, { 3, 900 }, { 1, 1e6 }, { 2e-3, 5e7 }, { 5, 5 }, { 0, 0 }, { 64, 4096 } } do
      for _, base in ipairs { 0, 2, 10 } do
        if base == 0 or range[1] > 0 then
          local s = base == 0 and scale.linear(range[1], range[2])
            or scale.log(range[1], range[2], base)
          for _, n in ipairs { 2, 4, 9 } do
            out[#out + 1] = ('%s to %s, base %d, at most %d: %s'):format(said(range[1]),
              said(range[2]), base, n, row(s:ticks(n)))
          end
          if #s:minor() > 0 then out[#out + 1] = '  between them: ' .. row(s:minor()) end
        end
      end
    end
    for _, kind in ipairs(KINDS) do
      for _, s in ipairs { scale.linear(0, 3e6), scale.log(2, 3e5, 10) } do
        local list = {}
        local ticks, name = axes.ticks({ scale = s, kind = kind }, 5)
        for i, tick in ipairs(ticks) do list[i] = tick.text end
        out[#out + 1] = ('%s, %s: %s (%s)'):format(kind, s.base and 'log' or 'linear', row(list),
          name or 'no unit')
      end
    end
    approved.check('plot/ticks', table.concat(out, '\n'))
  end)

  it('have scales with the room that was asked for', function()
    -- lo, hi of the axis by hand: a part of the length p at each end
    local function ends(values, opt)
      local s = scale.fit(values, opt)
      return { s.base or 0, tonumber(('%.6g'):format(s.lo)), tonumber(('%.6g'):format(s.hi)) }
    end
    assert.same({ 0, 0.5, 10.5 }, ends({ 1, 10, 5 }, { log = false }))
    assert.same({ 0, 1 - 1.5, 7 + 1.5 }, ends({ 1, 7 }, { pad = 1 / 6, log = false }))
    assert.same({ 0, 0.666667, 7.33333 }, ends { 1, 7 }) -- less than a factor of 8: linear
    assert.same({ 10, 1, 8 }, ends({ 1, 8 }, { pad = 0 })) -- from 8 on logarithmic
    assert.same({ 0, 1, 7.99 }, ends({ 1, 7.99 }, { pad = 0 }))
    assert.same({ 2, 1, 8 }, ends({ 1, 8 }, { pad = 0, base = 2 }))
    assert.same({ 0, 0, 100 }, ends({ 0, 100 }, { pad = 0 })) -- no logarithm holds 0
    assert.same({ 0, 0, 8.4 }, ends({ 1, 8 }, { log = false, zero = true }))
    assert.same({ 0, -1, 0.1 }, ends({ -1, 0.1 }, { pad = 0, zero = true }))
    assert.same({ 10, 2.5, 10 }, ends({ 5 }, { log = 10 })) -- one value has room around it
    assert.same({ 0, 2.5, 7.5 }, ends({ 5 }, { log = false }))
    assert.same({ 0, -1, 1 }, ends({ 0 }))
    assert.same({ 0, -7.5, -2.5 }, ends({ -5 }))
    assert.same({ 10, 10 / 10 ^ (1 / 8), 10 * 10 ^ (9 / 8) },
      (function()
        local s = scale.fit({ 10, 100 }, { pad = 0.1 })
        return { s.base, s.lo, s.hi }
      end)())
  end)

  it('keep labels apart where they want to be, in their order', function()
    assert.same({ 10, 30 }, axes.spread({ 10, 30 }, 5, 0, 100))
    assert.same({ 8, 12 }, axes.spread({ 10, 10 }, 4, 0, 100))
    assert.same({ 12, 8 }, axes.spread({ 11, 9 }, 4, 0, 100))
    assert.same({ 0, 4 }, axes.spread({ 0, 1 }, 4, 0, 100)) -- the edge holds them
    assert.same({ 96, 100 }, axes.spread({ 99, 100 }, 4, 0, 100))
    assert.same({ 6, 10, 14, 50 }, axes.spread({ 10, 10, 10, 50 }, 4, 0, 100))
    assert.same({ 10, 14 }, axes.spread({ 10, 14 }, 4, 0, 100)) -- touching is apart
    assert.same({ 46, 50, 54 }, axes.spread({ 48, 50, 52 }, 4, 0, 100))
  end)
end)

describe('two rows', function()
  local rows = require 'ridge.plot.rows'

  it('are told apart by intervals that do not touch, and by ratios that leave out 1', function()
    local function of(v, lo, hi, more)
      local out = { fwd = v, fwd_lo = lo, fwd_hi = hi, fwd_p95 = v * 2 }
      for name, value in pairs(more or {}) do out[name] = value end
      return out
    end
    local b = of(10, 9, 11, { trial = 2 })
    for _, case in ipairs { { of(8, 7, 8.9), 'lower' }, { of(8, 7, 9), 'open' },
        { of(12, 11.1, 13), 'higher' }, { of(12, 11, 13), 'open' }, { of(1), 'open' },
        { of(1, 0.9, 1.1, { grade = 'D' }), 'open' },
        { of(1, 0.9, 1.1, { grade = 'C' }), 'lower' },
        { of(1, 0.9, 1.1, { state = 'oom' }), 'open' },
        { { fwd = 1 }, 'lower' } } do -- no time of a phase: the value itself
      assert.equal(case[2], rows.verdict(case[1], b, 'fwd'))
      local other = ({ lower = 'higher', higher = 'lower', open = 'open' })[case[2]]
      assert.equal(other, rows.verdict(b, case[1], 'fwd'))
    end
    for _, case in ipairs { { 0.9, 0.8, 0.99, 'lower' }, { 0.9, 0.8, 1, 'open' },
        { 1.1, 1.01, 1.2, 'higher' }, { 1.1, 1, 1.2, 'open' }, { 0.5, nil, nil, 'open' } } do
      local a = of(8, 1, 2, { partner = 2, fwd_ratio = case[1], fwd_ratio_lo = case[2],
        fwd_ratio_hi = case[3] })
      assert.equal(case[4], rows.verdict(a, b, 'fwd'))
      assert.equal(case[1], rows.ratio(a, b, 'fwd'))
      assert.near(1 / case[1], rows.ratio(b, a, 'fwd'), 1e-12)
      a.partner = 3 -- of another one: the values
      assert.equal(0.8, rows.ratio(a, b, 'fwd'))
    end
  end)

  it('are put in order: numbers, words, false and true', function()
    local list = {}
    for i, v in ipairs { true, 'b', 3, false, 'a', 1, 3, 'b' } do list[i] = { x = v } end
    list[#list + 1] = { y = 1 }
    assert.same({ 1, 3, 'a', 'b', false, true }, rows.distinct(list, 'x'))
    assert.is_nil(rows.common(list, 'x'))
    assert.equal(1, rows.common(list, 'y'))
    assert.is_nil(rows.common(list, 'z'))
  end)

  it('of one place are one: that in the middle, or the best', function()
    local list = { { v = 5 }, { v = 1 }, { v = 9 }, { v = 7 } }
    assert.equal(5, rows.pick(list, 'v', 'median').v) -- the lower of two
    assert.equal(1, rows.pick(list, 'v', 'best', 'lower').v)
    assert.equal(9, rows.pick(list, 'v', 'best', 'higher').v)
    list[5] = { v = 6 }
    assert.equal(6, rows.pick(list, 'v', 'median').v)
    assert.equal(3, rows.pick({ { v = 3 } }, 'w', 'median').v)
  end)
end)

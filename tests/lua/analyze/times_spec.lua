-- SPDX-License-Identifier: MIT
--- How steps of an analysis are timed, on steps whose times are told: how many rounds there are,
--- in which order, which of them count, and what becomes of their nanoseconds.

local step = require 'ridge.analyze.step'
local times = require 'ridge.analyze.times'
local watch = require 'ridge.analyze.watch'

local MS = 1e6

-- Times of a net whose plain steps take `plain[i]` ms (1/4 forward, 1/4 loss, half back; the first
-- one is that by which rounds are chosen) and whose watched ones are found as `found(i)`; behind it
-- what happened, in letters: w(atched), p(lain).
local function timed(plain, found, opt, device)
  local n_plain, n_read, order = 0, 0, {}
  local was = { step.run, watch.run, watch.read }
  local inside = false
  step.run = function()
    if inside then return end
    n_plain = n_plain + 1
    order[#order + 1] = 'p'
    local ns = plain(n_plain) * MS
    return { [0] = 1e12, 1e12 + ns / 4, 1e12 + ns / 2, 1e12 + ns }
  end
  watch.run = function(pass)
    order[#order + 1] = 'w'
    inside = true
    pass()
    inside = false
    return 'events'
  end
  watch.read = function(events)
    assert.equal('events', events)
    n_read = n_read + 1
    order[#order + 1] = 'r'
    return found(n_read)
  end
  local ok, got = pcall(times.of, { device = device or 'cpu' }, {}, opt or {})
  step.run, watch.run, watch.read = was[1], was[2], was[3]
  assert(ok, got)
  return got, table.concat(order)
end

local function of(forward, backward, loss)
  return { forward = { ns = forward * MS, device_ns = 100 * forward * MS },
    loss = { ns = (loss or 0) * MS, device_ns = 100 * (loss or 0) * MS },
    backward = { ns = backward * MS, device_ns = 100 * backward * MS } }
end

-- One layer in row 1 of each step, 1 ms forward, 1 ms of the loss, 2 ms back; the rest outside.
local function plainly()
  return { ns = { forward = 4 * MS, loss = 2 * MS, backward = 6 * MS }, outside = 9,
    rows = { of(1, 2, 1), [9] = of(3, 4, 1) } }
end

local function same(ms) return function() return ms end end

describe('rounds of an analysis', function()
  it('are as many as fit into half a second, by what one step takes, 4 to 30', function()
    local function rounds(ms, opt) return timed(same(ms), plainly, opt).rounds end
    assert.equal(25, rounds(10))
    assert.equal(10, rounds(25))
    assert.equal(11, rounds(24.9))  -- the last one may pass it
    assert.equal(30, rounds(0.001)) -- and no more
    assert.equal(30, rounds(8))
    assert.equal(4, rounds(70))     -- no less
    assert.equal(4, rounds(5000))
    assert.equal(7, rounds(5000, { rounds = 7 }))
    assert.equal(1, rounds(1, { rounds = 1 }))
  end)

  it('are chosen by the least of some steps: the first ones may be cold', function()
    -- rounds, and steps before the first watched one: those, one that wakes threads, a plain one
    local function chosen(first, opt)
      local got, order = timed(function(i) return first[i] or first[#first] end, plainly, opt)
      return { got.rounds, #order:match '^p+' - 2 }
    end
    assert.same({ 30, 5 }, chosen { 175, 74, 85, 25, 3.6 })
    assert.same({ 25, 6 }, chosen { 12, 10 })
    assert.same({ 10, 6 }, chosen { 25, 70 })
    assert.same({ 30, 1 }, chosen { 8, 0.2 })   -- there are no more
    assert.same({ 4, 3 }, chosen { 200, 190, 180, 0.2 }) -- they took half a second
    assert.same({ 4, 1 }, chosen { 600, 0.2 })
    assert.same({ 5, 1 }, chosen({ 80, 0.2 }, { rounds = 5 }))
  end)

  it('of none say nothing', function()
    local got, order = timed(same(1), plainly, { rounds = 0 })
    assert.is_nil(got)
    assert.equal('', order)
  end)

  -- The first p finds how long a step takes, each block begins with one that nobody times.
  it('go one way and the other, and are read behind two of them, of short steps behind six',
    function()
      local _, order = timed(same(5), plainly, { rounds = 5 })
      assert.equal('p' .. 'ppwwprr' .. 'ppwwprr' .. 'ppwr', order)
      _, order = timed(same(4.99), plainly, { rounds = 8 })
      assert.equal('p' .. 'ppwwppwwppwwprrrrrr' .. 'ppwwprr', order)
    end)

  it('count where they are of the faster half, each kind for itself, as means', function()
    -- plain: 40 finds how many, a step wakes threads, then what is told
    local plain = { 40, 99, 8, 30, 99, 16, 4, 99, 50 }
    local slow = { 5, 1, 2, 9, 3 }
    local got = timed(function(i) return plain[i] end, function(i)
      local k = slow[i]
      return { ns = { forward = 10 * k * MS, loss = 0, backward = 0 }, outside = 2,
        rows = { of(k, 2 * k, 10 * k), [2] = of(4 * k, 3 * k, 20 * k) } }
    end, { rounds = 5 })
    -- the three of five that were fastest: 4, 8, 16 and 1, 2, 3
    assert.near(28 / 3, got.total, 1e-9)
    assert.near(7 / 3, got.forward, 1e-9)
    assert.near(7 / 3, got.loss, 1e-9)
    assert.near(14 / 3, got.backward, 1e-9)
    -- a layer's part of the loss is forward
    assert.same({ { 22, 4 }, outside = { 48, 6 } }, got.rows)
  end)

  it('count half of an even number', function()
    local got = timed(function(i) return ({ 40, 99, 8, 30, 99, 16, 4 })[i] end, plainly,
      { rounds = 4 })
    assert.near(6, got.total, 1e-9)
  end)

  it('take a layer that a step does not have for no time in it', function()
    local got = timed(same(50), function(i)
      local found = plainly()
      found.ns.forward = ({ 3, 1, 9 })[i] * MS
      if i == 2 then found.rows[1], found.rows[3] = nil, of(5, 7) end
      return found
    end, { rounds = 3 })
    assert.same({ { 1, 1 }, [3] = { 2.5, 3.5 }, outside = { 4, 4 } }, got.rows)
  end)

  it('are those of the device where there is one, and what is left is outside', function()
    local function on(device, lacks)
      return timed(same(50), function()
        local found = plainly()
        found.ns.forward = 1000 * MS
        if lacks then found.rows[1].loss.device_ns = nil end
        return found
      end, { rounds = 1 }, device).rows
    end
    assert.same({ { 2, 2 }, outside = { 4, 4 } }, on 'cpu')
    assert.same({ { 200, 200 }, outside = { 608, 0 } }, on 'gpu') -- 1000 + 2 + 6 in all
    assert.same({ 100, 200 }, on('gpu', true)[1])                 -- the device says nothing of it
    local rows = timed(same(50), plainly, { rounds = 1 }, 'gpu').rows
    assert.same({ 0, 0 }, rows.outside) -- more than all of it
  end)
end)

describe('events of an analysis', function()
  -- A reader of events that are told: kind, name, module, begin, end.
  local function reader_of(list)
    local self, i = {}, 0
    function self.facts() return { dropped = 0 } end
    function self.close() self.closed = true end
    function self.each()
      return function()
        i = i + 1
        local e = list[i]
        return e and { kind = e[1], name = e[2], module = e[3], begin_ns = e[4], end_ns = e[5],
          shapes = '', flops = 0, bytes = 0 }
      end
    end
    return self
  end

  it('in the backward pass have the time of the tape before them', function()
    local rows = { a = { name = 'a' }, b = { name = 'b' } }
    local layers = { by_path = {}, parts = {}, at = function(_, path) return rows[path] end }
    local reader = reader_of { { 'op', 'linear', 'a', 10, 20 }, { 'op', 'relu', 'b', 30, 45 },
      { 'range', 'backward', nil, 100, 200 }, { 'op', 'act_back', 'b', 120, 130 },
      { 'op', 'add', nil, 135, 140 }, { 'op', 'matmul', 'a', 150, 160 } }
    local found = watch.read({ reader = reader, at = { [0] = 0, 50, 60, 300 } }, layers)
    assert.is_true(reader.closed)
    local function ns(row, phase) return found.rows[row][phase].ns end
    assert.same({ 10, 15 }, { ns(rows.a, 'forward'), ns(rows.b, 'forward') })
    -- b: 20 ns until it, and its own; a: 10 ns since the addition, which is nobody's
    assert.same({ 20 + 10, 10 + 10 }, { ns(rows.b, 'backward'), ns(rows.a, 'backward') })
    -- what is left of the range, the addition, and what no event covers
    assert.same({ 25, 10, 100 - 50 + 140 }, { ns(found.outside, 'forward'),
      ns(found.outside, 'loss'), ns(found.outside, 'backward') })
  end)
end)

-- SPDX-License-Identifier: MIT
--- To which layer and phase the events of a pass are counted, by events at moments that are told:
--- calls inside each other, one behind the other at the same nanosecond, outside of the pass.

local watch = require 'ridge.analyze.watch'

-- Rows of the modules a and b; what `read` finds of events { kind, name or module, from, to, ... }.
local A, B = { name = 'a' }, { name = 'b' }

local function found(events, at, roof)
  local layers = { by_path = { a = A, b = B }, parts = {}, at = function(_, module)
    return module == 'a' and A or module == 'b' and B or nil
  end }
  local reader, closed = {}, false
  function reader.facts() return { dropped = 0 } end
  function reader.close() closed = true end
  function reader.each()
    local i = 0
    return function()
      i = i + 1
      return events[i]
    end
  end
  local got = watch.read({ reader = reader, at = at or { [0] = 0, 100, 200, 300 } }, layers, roof)
  assert.is_true(closed)
  return got
end

local function range(name, from, to)
  return { kind = 'range', name = name, begin_ns = from, end_ns = to }
end

local function op(module, from, to, more)
  local e = { kind = 'op', name = 'exp', module = module, begin_ns = from, end_ns = to, flops = 2,
    bytes = 8, shapes = 'f32[2] -> f32[2]' }
  for key, value in pairs(more or {}) do e[key] = value end
  return e
end

local function ns(got, row)
  local of = got.rows[row]
  return of and { of.forward.ns, of.loss.ns, of.backward.ns } or 'none'
end

describe('the events of a pass', function()
  it('are counted to the phase that they begin in, and what no event covers to outside', function()
    local got = found { op('a', 0, 10), op('a', 100, 105), op('b', 199, 205), op('b', 205, 230) }
    assert.same({ 10, 5, 0 }, ns(got, A))
    assert.same({ 0, 6, 25 }, ns(got, B))
    assert.same({ 90, 89, 75 }, ns(got, got.outside))
    assert.same({ forward = 100, loss = 100, backward = 100 }, got.ns)
    assert.equal('f32[2]', A.out)
  end)

  it('count only what lies in the pass', function()
    local got = found({ op('a', 9, 20), op('a', 10, 20), op('b', 280, 310), op('b', 280, 311),
      { kind = 'range', name = 'a', begin_ns = 50 } }, { [0] = 10, 100, 200, 310 })
    assert.same({ 10, 0, 0 }, ns(got, A))
    assert.same({ 0, 0, 30 }, ns(got, B))
    assert.same({ 80, 100, 80 }, ns(got, got.outside))
  end)

  it('are taken off from those they stand in, once', function()
    local got = found { range('a', 0, 50), range('b', 10, 40), op('b', 15, 25), op('a', 40, 45) }
    assert.same({ 20, 0, 0 }, ns(got, A)) -- 50 less 30
    assert.same({ 30, 0, 0 }, ns(got, B))
    assert.same({ 50, 100, 100 }, ns(got, got.outside))
    assert.equal(1, got.calls[A])
    assert.equal(1, got.calls[B])
  end)

  it('that begin where another ends stand beside it', function()
    local got = found { op('a', 10, 20), op('b', 20, 30), op('a', 30, 31) }
    assert.same({ 11, 0, 0 }, ns(got, A))
    assert.same({ 10, 0, 0 }, ns(got, B))
    assert.same({ 79, 100, 100 }, ns(got, got.outside))
    -- within another one
    got = found { range('a', 0, 90), op('b', 10, 20), op('b', 20, 30) }
    assert.same({ 70, 0, 0 }, ns(got, A))
    assert.same({ 20, 0, 0 }, ns(got, B))
  end)

  it('of the backward pass have the time of the tape that is before them', function()
    local got = found { range('backward', 210, 290), op('a', 220, 230), op('b', 235, 240),
      op(nil, 250, 260) }
    assert.same({ 0, 0, 20 }, ns(got, A)) -- 10 before it
    assert.same({ 0, 0, 10 }, ns(got, B)) -- 5 before it
    assert.same({ 100, 100, 70 }, ns(got, got.outside))
  end)

  it('count what is computed, and the least time by a roof', function()
    local got = found({ op('a', 0, 10), op('a', 10, 20, { flops = 3, device_ns = 4 }),
      op('b', 20, 30) }, nil, function(event)
      if event.module == 'a' then return event.flops * 2, event.flops == 3 and 'x' or 'y' end
    end)
    local a, b = got.rows[A].forward, got.rows[B].forward
    assert.same({ 5, 16, 2, 10, 4 }, { a.flops, a.bytes, a.calls, a.least_ns, a.device_ns })
    assert.same({ x = 6, y = 4 }, a.roofs)
    assert.is_nil(a.no_roof)
    assert.same({ true, 0 }, { b.no_roof, b.least_ns })
  end)
end)

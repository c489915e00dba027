-- SPDX-License-Identifier: MIT
-- A trace of made-up events, whose every moment is known to the nanosecond: Chrome's format counts
-- microseconds.

require 'ridge'
local canonical = require 'ridge.store.canonical'
local trace = require 'ridge.profile.trace'

-- Events { name, from, to, kind = 'op', ... }; to nil: it did not end.
local function profile(list, windows, dropped)
  local events = {}
  for i, e in ipairs(list) do
    local event = { name = e[1], kind = 'op', shapes = '', path = '', parent = -1, serial = i - 1,
      begin_ns = e[2], end_ns = e[3], from_ns = e[2], to_ns = e[3] or 0 / 0, flops = 0, bytes = 0,
      device = 'cpu', stream = 0, step = -1, n_threads = 1, live_bytes = 64 }
    for name, value in pairs(e) do
      if type(name) == 'string' then event[name] = value end
    end
    events[i] = event
  end
  local copy = { n = #list }
  function copy.each()
    local i = 0
    return function()
      i = i + 1
      return events[i], i - 1
    end
  end
  return { copy = copy, dropped = dropped or 0,
    windows = windows or { { from = 0, to = 1e6, first = 0, behind = #list } } }
end

local function written(p)
  local path = os.tmpname()
  trace.write(p, path)
  local file = assert(io.open(path, 'rb'))
  local text = file:read '*a'
  file:close()
  os.remove(path)
  return canonical.decode(text)
end

-- What is there of a phase: name, ts and whatever else is asked for.
local function of(made, phase, ...)
  local list = {}
  for _, e in ipairs(made.traceEvents) do
    if e.ph == phase then
      local row = { e.name, e.ts }
      for i = 1, select('#', ...) do
        local field = select(i, ...)
        row[#row + 1] = e[field] or e.args and e.args[field]
      end
      list[#list + 1] = row
    end
  end
  return list
end

-- Two steps that count, with one between them and one before that do not.
local WINDOWS = { { from = 10000, to = 20000, first = 1, behind = 4 },
  { from = 50000, to = 60000, first = 5, behind = 7 } }
local function stepwise()
  return profile({ { 'warm', 1000, 2000 }, { 'long', 9990, nil, kind = 'range' },
    { 'exp', 11001, 13004 }, { 'late', 19000, 25000, kind = 'range' }, { 'left_out', 30000, 31000 },
    { 'sin', 49990, 50500 }, { 'cos', 52000, 53000 } }, WINDOWS)
end

describe('a trace of made-up events', function()
  it('has microseconds since its first window, of what lies in windows, cut to them', function()
    assert.same({ { 'long', 0, 10 }, { 'exp', 1.001, 2.003 }, { 'late', 9, 1 },
      { 'sin', 40, 0.5 }, { 'cos', 42, 1 } }, of(written(stepwise()), 'X', 'dur'))
    assert.equal('ns', written(stepwise()).displayTimeUnit) -- as times are shown, not as they are
  end)

  it('has one process, the host on its first track, streams of devices on their own', function()
    local made = written(profile { { 'a', 1000, 2000 },
      { 'b', 3000, 3500, device = 'gpu:0', stream = 0, device_ns = 9000, from_ns = 4000,
        to_ns = 13000 },
      { 'c', 5000, 5500, device = 'gpu:0', stream = 7, device_ns = 1000, from_ns = 14000,
        to_ns = 15000 },
      { 'd', 6000, 6500, device = 'gpu:0', stream = 0, device_ns = 1000, from_ns = 16000,
        to_ns = 17000 },
      { 'e', 7000, 7500, device = 'gpu:1', stream = 0, device_ns = 0 / 0, from_ns = 0 / 0 } })
    assert.same({ { 'a', 1, 1, 1, 1 }, { 'b', 3, 0.5, 1, 1 }, { 'b', 4, 9, 1, 2 },
      { 'c', 5, 0.5, 1, 1 }, { 'c', 14, 1, 1, 3 }, { 'd', 6, 0.5, 1, 1 }, { 'd', 16, 1, 1, 2 },
      { 'e', 7, 0.5, 1, 1 } }, of(made, 'X', 'dur', 'pid', 'tid'))
    local names = {}
    for _, e in ipairs(made.traceEvents) do
      if e.ph == 'M' then names[#names + 1] = { e.name, e.pid, e.tid or 0, e.args.name } end
    end
    assert.same({ { 'process_name', 1, 0, 'ridge' }, { 'thread_name', 1, 1, 'host' },
      { 'thread_name', 1, 2, 'gpu:0 stream 0' }, { 'thread_name', 1, 3, 'gpu:0 stream 7' } }, names)
  end)

  it('has what lives on a device when a call ends, where that has changed', function()
    local made = written(profile { { 'a', 1000, 2000, live_bytes = 100 },
      { 'b', 3000, 4000, live_bytes = 100 },
      { 'c', 5000, 6000, device = 'gpu:0', live_bytes = 100 },
      { 'failed', 6500, nil, live_bytes = 0 },
      { 'view', 6600, 6700, kind = 'view', live_bytes = 0 },
      { 'alloc', 7000, 7001, kind = 'alloc', live_bytes = 300 },
      { 'd', 8000, 9000, live_bytes = 40 } })
    assert.same({ { 'memory of cpu', 2, 100 }, { 'memory of gpu:0', 6, 100 },
      { 'memory of cpu', 7.001, 300 }, { 'memory of cpu', 9, 40 } }, of(made, 'C', 'bytes'))
    assert.equal(6, #of(made, 'X')) -- a block that was taken is no slice
  end)

  it('has arrows from the middle of a call to that of the first part of its gradient', function()
    local made = written(profile { { 'mul', 1000, 3000 }, { 'add', 4000, 6000 },
      { 'sum', 7000, 7100 },
      { 'add_back', 8000, 8500, origin = 1 }, { 'mul_back', 10000, 11000, origin = 0 },
      { 'mul_back', 12000, 13000, origin = 0 }, { 'old_back', 14000, 15000, origin = 77 } })
    assert.same({ { 'gradient', 2, 0, 1, 1 }, { 'gradient', 5, 1, 1, 1 } },
      of(made, 's', 'id', 'pid', 'tid'))
    assert.same({ { 'gradient', 8.25, 1, 1, 1, 'e' }, { 'gradient', 10.5, 0, 1, 1, 'e' } },
      of(made, 'f', 'id', 'pid', 'tid', 'bp'))
  end)

  it('has arrows with two ends alone: a gradient of what is left out, and what has its own there',
    function()
    local made = written(profile({ { 'before', 1000, 2000 }, { 'mul', 11000, 12000 },
      { 'before_back', 13000, 14000, origin = 0 }, { 'gap', 30000, 31000 },
      { 'mul_back', 32000, 33000, origin = 1 } },
      { { from = 10000, to = 20000, first = 1, behind = 3 } }))
    assert.same({}, of(made, 's'))
    assert.same({}, of(made, 'f'))
  end)

  it('has what lies across the end of another on a track beside it, with its arrows', function()
    -- a section that waits, one that others begin meanwhile and end behind it, and what is in each
    local made = written(profile { { 'one', 0, 50000, kind = 'range' },
      { 'a', 1000, 2000, parent = 0 }, { 'two', 10000, 90000, kind = 'range' },
      { 'b', 11000, 12000, parent = 2 }, { 'c', 20000, 21000, parent = 0 },
      { 'b_back', 60000, 61000, parent = 2, origin = 3 }, { 'd', 95000, 96000 },
      { 'behind', 96000, 97000 } })
    assert.same({ { 'one', 0, 1 }, { 'a', 1, 1 }, { 'two', 10, 2 }, { 'b', 11, 2 }, { 'c', 20, 1 },
      { 'b_back', 60, 2 }, { 'd', 95, 1 }, { 'behind', 96, 1 } }, of(made, 'X', 'tid'))
    assert.same({ { 'gradient', 11.5, 2 } }, of(made, 's', 'tid'))
    assert.same({ { 'gradient', 60.5, 2 } }, of(made, 'f', 'tid'))
    local names = {}
    for _, e in ipairs(made.traceEvents) do
      if e.name == 'thread_name' then names[e.tid] = e.args.name end
    end
    assert.same({ 'host', 'host, beside it 1' }, names)
  end)

  it('says how many events went, and is written where none are there', function()
    assert.equal('12', written(profile({ { 'a', 0, 1 } }, nil, 12)).otherData.dropped)
    local made = written(profile({}, {}))
    assert.equal('0', made.otherData.dropped)
    assert.same({}, of(made, 'X'))
  end)

  it('as spans are seconds of calls, copies and steps in windows, and what was left out', function()
    local p = stepwise()
    local spans, unrecorded = trace.spans(p)
    local list = {}
    for i, span in ipairs(spans) do
      list[i] = { span.name, span.begin_s * 1e9, span.end_s * 1e9 }
    end
    assert.equal(3, #list)
    for i, want in ipairs { { 'exp', 1001, 3004 }, { 'sin', 39990, 40500 },
      { 'cos', 42000, 43000 } } do
      assert.equal(want[1], list[i][1])
      assert.near(want[2], list[i][2], 1e-6)
      assert.near(want[3], list[i][3], 1e-6)
    end
    assert.near(30e-6, unrecorded, 1e-15)
  end)
end)

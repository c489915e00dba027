-- SPDX-License-Identifier: MIT
--- Tables, remarks and bottlenecks of profiles whose numbers are told: every column and unit, how
--- many rows are left, each reason on both sides of its border.

local bottlenecks = require 'ridge.profile.bottlenecks'
local measure = require 'ridge.measure.roof'
local roof = require 'ridge.profile.roof'
local text = require 'ridge.profile.text'

local MS = 1e6

-- A thin space stands before units.
local function plain(s) return (s:gsub('\226\128\175', ' '):gsub(' +\n', '\n'):gsub(' +$', '')) end

-- An entry of a list: times in ms.
local function entry(op, ms, more)
  local e = { op = op, path = '', calls = 2, ns = ms * MS, self_ns = ms * MS, flops = 0, bytes = 0,
    shapes = 'f32[2]', device = 'cpu', share = ms / 100 }
  for key, value in pairs(more or {}) do e[key] = value end
  return e
end

-- A profile of 100 ms, of which operations took 60.
local function profile(more)
  local p = { ns = 100 * MS, op_ns = 60 * MS, samples = 0, graphs = 0, steps = {}, lines = {},
    states = {}, options = { threshold = 0.05, top = 5 }, operations = {
      entry('matmul', 40, { path = 'own', flops = 8e9, bytes = 4e9 }),
      entry('exp', 15, { calls = 1, bytes = 15e6 }), entry('sum', 5, { device_ns = 2 * MS }) } }
  for key, value in pairs(more or {}) do p[key] = value end
  function p:roofs() return self.known end
  function p:bottlenecks() return self.found or {} end
  return p
end

-- Calls f with roofs under which a second computes 1e12 and moves 1e11 bytes.
local function with_roofs(f)
  local was = { measure.compute_ns, measure.memory_ns }
  measure.compute_ns = function(cost, by_name)
    assert.equal('names', by_name)
    return cost.dtype == 'f32' and cost.flops / 1e12 * 1e9 or nil
  end
  measure.memory_ns = function(cost, by_name, machine)
    assert.same({ 'names', 'machine' }, { by_name, machine })
    return cost.bytes > 0 and cost.bytes / 1e11 * 1e9 or nil
  end
  local ok, err = pcall(f, { by_name = 'names', machine = 'machine' })
  measure.compute_ns, measure.memory_ns = was[1], was[2]
  assert(ok, err)
end

describe('the table of operations', function()
  it('has time, share, rate and traffic, and what is left', function()
    assert.equal('operation        path  calls   time   share         rate   traffic\n'
      .. 'matmul           own       2  40 ms  40.0 %  200 GFLOP/s  100 GB/s\n'
      .. 'exp                        1  15 ms  15.0 %                 1 GB/s\n'
      .. 'sum                        2   2 ms   2.0 %\n'
      .. 'everything else               40 ms  40.0 %', plain(text.table(profile(), 'operation',
        'time')))
    assert.equal('operation        path  calls   time   share         rate   traffic\n'
      .. 'matmul           own       2  40 ms  40.0 %  200 GFLOP/s  100 GB/s\n'
      .. 'exp                        1  15 ms  15.0 %                 1 GB/s\n'
      .. 'everything else               40 ms  40.0 %\n(and 1 operation more)',
      plain(text.table(profile(), 'operation', 'time', 2)))
    assert.matches('and 2 operations more', text.table(profile(), 'operation', 'time', 1), 1, true)
    assert.not_matches('more', text.table(profile(), 'operation', 'time', 3))
    -- operations on several threads may take more than there is
    assert.matches('everything else +0 ns +0.0 %%',
      plain(text.table(profile { op_ns = 101 * MS }, 'operation', 'time')))
  end)

  it('has shares of the roof where they are known, and were asked for', function()
    with_roofs(function(known)
      local calls = { entry('matmul', 16, { path = 'own', flops = 8e9, bytes = 4e8 }),
        entry('matmul', 4, { path = 'other', flops = 8e9, bytes = 4e8 }),
        entry('exp', 15, { bytes = 150e6 }), entry('sum', 5, { shapes = 'i64[2]' }) }
      local function table_of(more, by)
        local p = profile { known = known, given = true, calls = calls }
        for key, value in pairs(more or {}) do p[key] = value end
        return plain(text.table(p, by or 'operation', 'time'))
      end
      assert.equal(
        'operation        path  calls   time   share         rate   traffic  of roof\n'
        .. 'matmul           own       2  40 ms  40.0 %  200 GFLOP/s  100 GB/s     50 %\n'
        .. 'exp                        1  15 ms  15.0 %                 1 GB/s     10 %\n'
        .. 'sum                        2   2 ms   2.0 %\n'
        .. 'everything else               40 ms  40.0 %', table_of())
      assert.not_matches('of roof', table_of { known = false })
      assert.not_matches('of roof', table_of { given = false })
      assert.equal(
        'operation  module  calls   time   share         rate   traffic  of roof  shapes\n'
        .. 'matmul                 2  16 ms  16.0 %  500 GFLOP/s   25 GB/s     50 %  f32[2]\n'
        .. 'exp                    2  15 ms  15.0 %                10 GB/s     10 %  f32[2]\n'
        .. 'sum                    2   5 ms   5.0 %                                  i64[2]\n'
        .. 'matmul                 2   4 ms   4.0 %    2 TFLOP/s  100 GB/s    200 %  f32[2]',
        table_of({}, 'call'))
      assert.equal('operation  module  calls   time   share         rate  traffic  shapes\n'
        .. 'matmul                 2  16 ms  16.0 %  500 GFLOP/s  25 GB/s  f32[2]\n'
        .. '(and 3 rows more)', plain(text.table(profile { calls = calls }, 'call', 'time', 1)))
    end)
  end)
end)

describe('the order of rows', function()
  it('is by what is asked, and as it was among equals', function()
    local sums = require 'ridge.profile.sums'
    local list = { { op = 'c', ns = 1, self_ns = 3, calls = 2, flops = 6, bytes = 1 },
      { name = 'a', ns = 5, self_ns = 1, calls = 2, flops = 4, bytes = 9 },
      { op = 'b', ns = 4, device_ns = 2, self_ns = 9, total_ns = 9, calls = 1, flops = 5,
        bytes = 18 } }
    for order, want in pairs { time = 'cba', total = 'bac', calls = 'cab', flops = 'cba',
        bytes = 'bac', rate = 'abc', traffic = 'abc', name = 'abc' } do
      local got = {}
      for i, e in ipairs(sums.sort({ unpack(list) }, order)) do got[i] = e.op or e.name end
      assert.equal(want, table.concat(got), order)
    end
    assert.equal('c', sums.sort({ unpack(list) })[1].op)
    -- what took no time has no rate that is infinite
    for order, cost in pairs { rate = 'flops', traffic = 'bytes' } do
      assert.equal('y', sums.sort({ { op = 'x', ns = 0, [cost] = 1 },
        { op = 'y', ns = 1, [cost] = 2 } }, order)[1].op)
    end
  end)
end)

describe('other tables', function()
  local function layer(name, ms, more)
    return entry(nil, ms, { name = name, forward_ns = 0, backward_ns = 0, lua_ns = 0,
      total_ns = 2 * ms * MS, parts = {}, module = true, self_ns = ms * MS,
      calls = more and more.calls or 2, share = ms / 100, flops = more and more.flops or 0,
      forward = 1, device_ns = more and more.device_ns }), more
  end

  it('are of layers, with what was forward, back and in Lua', function()
    local a = layer('net.a', 30, { flops = 3e9 })
    a.forward_ns, a.backward_ns, a.lua_ns = 10 * MS, 15 * MS, 5 * MS
    local p = profile { layers = { a,
      (layer('(outside)', 20, { calls = 0, device_ns = 7 * MS })) } }
    assert.equal(
      'layer      calls   time   share  forward  backward   Lua  total         rate\n'
      .. 'net.a          2  30 ms  30.0 %    10 ms     15 ms  5 ms  60 ms  100 GFLOP/s\n'
      .. '(outside)          7 ms  20.0 %                           40 ms',
      plain(text.table(p, 'layer', 'time')))
    assert.matches('and 1 layer more', text.table(p, 'layer', 'time', 1), 1, true)
    with_roofs(function(known)
      a.parts = { entry('x', 10, { flops = 5e9 }), entry('y', 10, { flops = 5e9 }) }
      p.known, p.given = known, true
      assert.matches('rate  of roof\n', text.table(p, 'layer', 'time'), 1, true)
      assert.matches('100 GFLOP/s     50 %', plain(text.table(p, 'layer', 'time')), 1, true)
    end)
  end)

  it('are of sections and of what stands between operations', function()
    local p = profile { sections = { { name = 'forward', calls = 4, ns = 20 * MS, self_ns = MS } },
      between = {} }
    assert.equal('section  calls   time   share  each   Lua\n'
      .. 'forward      4  20 ms  20.0 %  5 ms  1 ms', plain(text.table(p, 'section', 'total')))
    for i = 1, 11 do
      p.between[i] = { name = 'f.lua:' .. i, state = 'interpreted', samples = 3, ns = 5 * MS,
        self_ns = (20 - i) * MS }
    end
    local got = plain(text.table(p, 'lua', 'time'))
    assert.matches('between operations  state        samples  time  share\n'
      .. 'f.lua:1             interpreted        3  5 ms  5.0 %', got, 1, true)
    assert.matches('f.lua:10 ', got, 1, true)
    assert.matches('(and 1 line more)', got, 1, true)
    assert.matches('(and 10 lines more)', text.table(p, 'lua', 'time', 1), 1, true)
  end)
end)

describe('a profile as text', function()
  -- What stands behind the table of operations.
  local function rest(more)
    return (plain(text.text(profile(more))):gsub('^operation.-everything else[^\n]*\n?', ''))
  end

  it('has what there is, and nothing else', function()
    assert.equal('a profile that is being made', text.text { recording = true })
    assert.equal('', rest())
    assert.equal('', rest { layers = {}, sections = {}, between = {} })
    assert.equal('', rest { layers = { { name = '(outside)' } } })
    assert.matches('^it raised: a word\n%(this is what was measured until then%)\noperation ',
      text.text(profile { failed = 'a word' }))
    assert.equal('(one)\n(two)', rest { notes = { 'one', 'two' } })
    assert.equal('(1 replay of CUDA graphs went step by step for this; alone it is faster)',
      rest { graphs = 1 })
    assert.equal('(2 replays of CUDA graphs went step by step for this; alone they are faster)',
      rest { graphs = 2 })
    local function lacks(...)
      local calls = { { shapes = 'f32[2]', calls = 9 }, { shapes = '', calls = 9 } }
      for _, k in ipairs { ... } do
        calls[#calls + 1] = { shapes = '(too many shapes)', calls = k }
      end
      return rest { calls = calls }
    end
    assert.equal('', lacks())
    assert.equal('(shapes of 1 call are not told: a process remembers 8,192 combinations)',
      lacks(1))
    assert.equal('(shapes of 7 calls are not told: a process remembers 8,192 combinations)',
      lacks(3, 4))
    local gone = '(the first operations are missing: there were too many, %d %s gone)'
    assert.equal(gone:format(1, 'is'), rest { full = true, dropped = 1 })
    assert.equal(gone:format(2, 'are'), rest { full = true, dropped = 2, all_ns = 100 * MS })
    assert.equal(gone:format(2, 'are') .. '\n(this is the last 100 ms of 200 ms)',
      rest { full = true, dropped = 2, all_ns = 200 * MS })
    assert.equal('', rest { dropped = 2, all_ns = 200 * MS })
    local lua = { unavailable = { lua = 'why' }, options = { lines = true, threshold = 0.05 } }
    assert.equal('(lines of Lua: unavailable: why)', rest(lua))
    lua.options.lines = false
    assert.equal('', rest(lua))
  end)

  it('has as many rows as options say', function()
    local got = rest { options = { rows = 1, threshold = 0.05 },
      sections = { { name = 'a', calls = 1, ns = MS, self_ns = 0 },
        { name = 'b', calls = 1, ns = MS, self_ns = 0 } } }
    assert.matches('(and 2 operations more)', got, 1, true)
    assert.matches('(and 1 section more)', got, 1, true)
  end)

  it('has lines of Lua and states', function()
    local list = {}
    for i = 1, 11 do list[i] = { line = 'f.lua:' .. i, share = i / 100 } end
    local got = rest { samples = 2, lines = list, states = { N = 0.25, C = 0.5 } }
    assert.matches('^line of Lua %(2 samples%)   share\nf.lua:1                   1.0 %%\n', got)
    assert.matches('f.lua:10 +10.0 %%\nC 50.0 %%, N 25.0 %%$', got)
    assert.matches('line of Lua (1 sample)', rest { samples = 1 }, 1, true)
  end)

  it('has steps of plans, by plan where there are several', function()
    local function step(plan, n) return entry('add', 1, { plan = plan, step = n, calls = 3 }) end
    assert.equal('step  operation  module  calls  time  shapes\n'
      .. '   1  add                    3  1 ms  f32[2]\n'
      .. '   2  add                    3  1 ms  f32[2]',
      rest { steps = { step(7, 1), step(7, 2) } })
    assert.matches('\n 7.1  add .*\n 8.1  add ', rest { steps = { step(7, 1), step(8, 1) } })
    assert.matches('\n 0.1  add ', rest { steps = { step(nil, 1), step(8, 1) } })
    local list = {}
    for i = 1, 40 do list[i] = step(1, i) end
    assert.not_matches('more', rest { steps = list })
    list[41] = step(1, 41)
    assert.matches('\n  40  add [^\n]*\n%(and 1 step more%)$', rest { steps = list })
  end)

  it('has bottlenecks, where they were asked for', function()
    local found = { { what = 'net.a', kind = 'layer', ns = 40 * MS, share = 0.4, reason = 'launch',
      why = 'numbers', try = { { what = 'this', measure = 'that' } } },
      { what = 'exp', kind = 'operation', ns = 15 * MS, share = 0.15, reason = 'bandwidth',
        why = 'others', try = {} } }
    assert.equal('1. layer net.a: 40 ms, 40.0 %; bound by calling: numbers\n   try this\n'
      .. '     measured by that\n2. exp: 15 ms, 15.0 %; bound by memory: others',
      rest { found = found, given = true })
    assert.equal('', rest { found = found })
    assert.equal('no layer or operation takes more than 5.0 %', rest { given = true })
  end)
end)

describe('the roof of entries', function()
  it('is the larger of arithmetic and memory, of those that have one', function()
    with_roofs(function(known)
      local a, b = entry('a', 10, { flops = 4e9, bytes = 1e8 }),
        entry('b', 10, { flops = 1e9, bytes = 6e8 })
      assert.same({ 4 * MS, MS }, { roof.least(known, a) })
      assert.same({ 5 * MS, 7 * MS, 0.5 }, { roof.of(known, { a, b }) })
      assert.same({ 4 * MS, MS, 0.4 }, { roof.of(known, { a,
        entry('c', 90, { device = 'cuda:0', bytes = 1e9 }),
        entry('d', 90, { shapes = 'i64[2]' }) }) })
      assert.same({ 0, 0, nil }, { roof.of(known, {}) })
      assert.same({ 0, 0, nil }, { roof.of(nil, { a }) })
      assert.is_nil((roof.least(known, entry('a', 1, { calls = 0, flops = 1, bytes = 1 }))))
      -- by the first type that is computed in
      for shapes, ns in pairs { ['i64[2] f32[2] f64[2]'] = MS, ['f64[2] f32[2]'] = false,
          ['u8[2]'] = false, ['bf16[2] f32[2]'] = false, ['f16[2] f32[2]'] = false } do
        local e = entry('a', 1, { flops = 1e9, shapes = shapes })
        assert.equal(ns or nil, (roof.least(known, e)))
      end
      assert.is_nil((roof.least(known, { device = 'cpu', calls = 1, flops = 1, bytes = 0 })))
    end)
  end)
end)

describe('a bottleneck', function()
  local function layer(name, ms, parts, more)
    local e = { name = name, module = true, self_ns = ms * MS, share = ms / 100, parts = parts,
      lua_ns = 0 }
    for key, value in pairs(more or {}) do e[key] = value end
    return e
  end

  -- Found in a profile of 100 ms, a call of nothing taking 1 ms.
  local function find(more, top, known, threshold)
    local p = profile { wait_ns = 0, copy_ns = 0, layers = {}, operations = {}, calls = {},
      known = known }
    for key, value in pairs(more) do p[key] = value end
    local was = bottlenecks.call_ns
    bottlenecks.call_ns = function() return MS end
    local ok, list = pcall(bottlenecks.find, p, threshold or 0.1, top or 9)
    bottlenecks.call_ns = was
    assert(ok, list)
    local out = {}
    for i, found in ipairs(list) do
      out[i] = ('%s %s %g %s'):format(found.what, found.kind, found.ns / MS, found.reason)
      assert.near(found.ns / (100 * MS), found.share, 1e-12)
    end
    return table.concat(out, '; '), list
  end

  it('takes more than a share of the time, the most first', function()
    local ops = { entry('a', 30), entry('b', 40, { path = 'own' }), entry('c', 10) }
    assert.equal('b by own operation 40 unknown; a operation 30 unknown',
      (find { operations = ops }))
    assert.equal('b by own operation 40 unknown', (find({ operations = ops }, 1)))
    assert.equal('', (find({ operations = ops }, 9, nil, 0.4)))
    assert.equal('waiting for a device wait 11 waiting; copies between devices wait 10.5 waiting',
      (find { wait_ns = 11 * MS, copy_ns = 10.5 * MS }))
    assert.equal('', (find { wait_ns = 10 * MS, copy_ns = 10 * MS }))
  end)

  it('is a layer rather than its operations, unless another layer has much of them', function()
    local part = entry('mul', 45)
    local function of(own, op)
      return (find { layers = { layer('net.a', 50, { entry('mul', own) }) },
        operations = { entry('mul', op) }, calls = { part } })
    end
    assert.equal('net.a layer 50 unknown', of(45, 50))
    assert.equal('net.a layer 50 unknown; mul operation 50 unknown', of(44.9, 50))
    assert.equal('net.a layer 50 unknown', of(50, 50))
    -- what is of no module tells less than its operations
    assert.equal('mul operation 50 unknown', (find { operations = { entry('mul', 50) },
      layers = { layer('(section)', 50, { entry('mul', 50) }, { module = false }) } }))
    -- by its path
    assert.equal('net.a layer 50 unknown; mul by own operation 50 unknown',
      (find { layers = { layer('net.a', 50, { entry('mul', 50) }) },
        operations = { entry('mul', 50, { path = 'own' }) } }))
    -- the parts of one layer together
    assert.equal('net.a layer 50 unknown', (find { operations = { entry('mul', 50) },
      layers = { layer('net.a', 50, { entry('mul', 25), entry('mul', 25) }) } }))
  end)

  it('is what is loaded, and what lies between', function()
    local found, list = find { layers = { layer('(data_loading)', 30, {}, { module = false }),
      layer('(outside)', 40, {}, { module = false, lua_ns = 20 * MS }),
      layer('net.a', 9, {}, { lua_ns = 5 * MS }) }, wait_ns = 2 * MS }
    assert.equal('(data_loading) layer 30 data; between operations overhead 23 launch', found)
    assert.equal('30 ms went by until batches were there', plain(list[1].why))
    assert.equal('operations took 60 ms, Lua and what it calls between them this',
      plain(list[2].why))
    list = select(2, find { wait_ns = 50 * MS })
    assert.equal('the host did nothing else for 50 ms', plain(list[1].why))
    assert.equal('', (find { layers = { layer('(data_loading)', 10, {}, { module = false }) } }))
  end)

  it('is bound by calling where half of it is Lua or calls of nothing', function()
    local function of(calls, lua)
      local found, list = find { layers = { layer('net.a', 40, { entry('a', 40,
        { calls = calls }) }, { lua_ns = lua * MS }) } }
      return found:match '(%w+)$', plain(list[1].why)
    end
    assert.equal('unknown', (of(19, 0)))
    local reason, why = of(20, 0)
    assert.equal('launch', reason)
    assert.equal('0 ns between operations, and 20 calls of which each takes 1 ms when it has '
      .. 'nothing to do', why)
    assert.equal('launch', (of(10, 10)))
    assert.equal('unknown', (of(9, 10)))
    assert.equal('launch', (of(0, 20)))
    -- a call is not longer than what is left
    assert.equal('launch', (of(90, 0)))
  end)

  it('is bound by calling by the middle of what calls of nothing take', function()
    require 'ridge'
    local ring, closed = require 'ridge.ring', false
    local open = ring.open
    function ring.open()
      local i, ends = 0, { 900, 100, 107, 5000, false, 104, 9e9 }
      return { close = function() closed = true end, each = function()
        return function()
          i = i + 1
          if i <= #ends then return { begin_ns = 0, end_ns = ends[i] or nil } end
        end
      end }
    end
    local ok, ns = pcall(require('ridge.profile.bottlenecks').call_ns)
    ring.open = open
    assert.same({ true, 107, true }, { ok, ns, closed })
  end)

  it('is bound by what its roof says', function()
    with_roofs(function(known)
      local function of(flops, bytes, more)
        local parts = { entry('a', 40, { flops = flops * 4e8, bytes = bytes * 4e7 }) }
        local found, list = find({ layers = { layer('net.a', 40, parts, more) } }, 9, known)
        return found:match '(%w+)$', list[1]
      end
      assert.equal('compute', (of(50, 40)))
      assert.equal('compute', (of(50, 50)))
      assert.equal('bandwidth', (of(50, 51)))
      assert.equal('path', (of(19.9, 10)))
      local reason, found = of(20, 10)
      assert.equal('compute', reason)
      assert.near(0.2, found.of_roof, 1e-12)
      assert.equal('its arithmetic takes 8 ms at best and its bytes 4 ms: 20 % of the roof',
        plain(found.why))
      assert.is_nil(found.parts)
      assert.is_nil(found.lua_ns)
      assert.equal('no ceiling of this machine applies to it', select(2, find({ layers = {
        layer('net.a', 40, {}) } }, 9, known))[1].why)
      assert.equal('this machine has no stored ceilings', select(2, find { layers = {
        layer('net.a', 40, {}) } })[1].why)
      -- on a device by its own time
      assert.equal('net.a layer 30 unknown', (find { layers = { layer('net.a', 40, {},
        { device_ns = 30 * MS, share = 0.3 }) } }))
      assert.equal('a operation 30 unknown', (find { operations = { entry('a', 40,
        { device_ns = 30 * MS, share = 0.3 }) } }))
    end)
  end)
end)

describe('a schedule', function()
  it('is told where it did not come to its end, and only there', function()
    local ridge = require 'ridge'
    local function notes(n)
      return ridge.profile(function(p)
        for _ = 1, n do
          ridge.ones(3):exp()
          p:step()
        end
      end, { warmup = 1, active = 2, repeats = 2, lines = false, roof = 'none' }).notes
    end
    assert.same({}, notes(6))
    assert.same({}, notes(9))
    assert.same({ '3 of 4 steps were measured: it ended behind step 5' }, notes(5))
    assert.same({ '0 of 4 steps were measured: it ended behind step 1' }, notes(1))
  end)
end)

describe('a profile at the prompt', function()
  local shown = require 'ridge.profile.shown'
  local class = {}
  shown.profiles(class)

  it('is its text where that is short, else the most of it', function()
    local approved = dofile 'tests/lua/approved.lua'
    local out = {}
    local operations = {}
    for i = 1, 12 do operations[i] = entry('op' .. i, 6 - i / 4, { calls = 20 - i }) end
    for _, more in ipairs { {}, { graphs = 1 }, { operations = operations },
        { operations = operations, graphs = 2, full = true, dropped = 3, all_ns = 400 * MS,
          notes = { 'a note', 'another' } },
        { operations = operations, notes = { 'one note' }, failed = 'it broke' } } do
      local p = setmetatable(profile(more), class)
      p.calls, p.between, p.kinds = {}, {}, {}
      for _, op in ipairs(p.operations) do op.name = op.op end
      out[#out + 1] = plain(tostring(p))
      out[#out + 1] = ''
    end
    approved.check('profile/prompt', table.concat(out, '\n'))
  end)
end)

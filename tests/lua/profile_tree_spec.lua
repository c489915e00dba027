-- SPDX-License-Identifier: MIT
-- The tree of a profile on made-up events, whose times are known to the nanosecond.

local ffi = require 'ffi'
require 'ridge'
local sums = require 'ridge.profile.sums'

-- Events { name, from, to, module =, parent = (its place), kind = 'op', device_ns = }; to nil: it
-- failed.
local function profile(list, windows)
  local events = {}
  local copy = { n = #list, events = ffi.new('rg_happening[?]', #list) }
  for i, e in ipairs(list) do
    events[i] = { name = e[1], kind = e.kind or 'op', module = e.module, shapes = '', path = '',
      parent = e.parent and e.parent - 1 or -1, serial = i - 1, begin_ns = e[2], end_ns = e[3],
      from_ns = e[2], to_ns = e[3], flops = e.flops or 0, bytes = e.bytes or 0, device = 'cpu',
      stream = 0, step = -1, n_threads = 1, live_bytes = 0, device_ns = e.device_ns }
    copy.events[i - 1].begin_ns, copy.events[i - 1].end_ns = e[2], e[3] or -1
  end
  function copy.each()
    local i = 0
    return function()
      i = i + 1
      return events[i], i - 1
    end
  end
  windows = windows or { { from = 0, to = 1000, first = 0, behind = #list } }
  local ns = 0
  for _, window in ipairs(windows) do ns = ns + window.to - window.from end
  local p = sums.fill({ ns = ns }, copy, windows)
  p.layer, p.section = {}, {}
  local all = 0
  for _, each in ipairs(p.layers) do p.layer[each.name], all = each, all + each.self_ns end
  for _, each in ipairs(p.sections) do p.section[each.name] = each end
  assert.equal(ns, all) -- own times are all of the time, always
  return p
end

describe('time of a backward pass', function()
  it('before a call is that of the module whose gradient it is', function()
    local p = profile { { 'backward', 100, 300, kind = 'range' },
      { 'matmul', 130, 150, module = 'a', parent = 1 },
      { 'sum', 170, 190, module = 'b', parent = 1 },
      { 'exp', 195, 200, module = 'b', parent = 1 } }
    assert.equal(20 + 30, p.layer.a.self_ns)
    assert.equal(20 + 5 + 20 + 5, p.layer.b.self_ns)
    assert.equal(100, p.layer['(backward)'].self_ns) -- behind the last call
    assert.equal(800, p.layer['(outside)'].self_ns)
    assert.same({ 20, 25 }, { p.layer.a.backward_ns, p.layer.b.backward_ns })
    assert.same({ 0, 0 }, { p.layer.a.forward_ns, p.layer.b.forward_ns })
    assert.equal(200, p.section.backward.ns)
    assert.equal(45, p.op_ns)
  end)

  it('of a call in no module stays the pass\'s, and in another section is nobody\'s but its own',
    function()
      local p = profile { { 'backward', 100, 200, kind = 'range' }, { 'sum', 150, 160, parent = 1 },
        { 'other', 300, 400, kind = 'range' }, { 'exp', 350, 360, module = 'a', parent = 3 } }
      assert.equal(100, p.layer['(backward)'].self_ns)
      assert.equal(10, p.layer.a.self_ns)
      assert.equal(90, p.layer['(other)'].self_ns)
    end)
end)

describe('time of a section', function()
  it('that lies in two windows is what lies in them', function()
    local p = profile({ { 'long', 50, 450, kind = 'range' }, { 'exp', 60, 80, parent = 1 },
      { 'tanh', 310, 340, parent = 1 } },
      { { from = 0, to = 100, first = 0, behind = 2 },
        { from = 300, to = 400, first = 2, behind = 3 } })
    assert.equal(50 + 100, p.section.long.ns)
    assert.equal(150, p.layer['(long)'].self_ns)
    assert.equal(50, p.layer['(outside)'].self_ns)
    p = profile({ { 'long', 50, 350, kind = 'range' } }, -- and ends within the second
      { { from = 0, to = 100, first = 0, behind = 1 },
        { from = 300, to = 400, first = 1, behind = 1 } })
    assert.equal(50 + 50, p.section.long.ns)
  end)

  it('in itself is counted once, and one that did not end has what it held', function()
    local p = profile { { 's', 100, 400, kind = 'range' }, { 's', 150, 250, kind = 'range',
      parent = 1 }, { 'exp', 160, 170, parent = 2 }, { 'open', 500, nil, kind = 'range' },
      { 'exp', 510, 540, parent = 4 } }
    assert.same({ 300, 1 }, { p.section.s.ns, p.section.s.calls })
    assert.equal(30, p.section.open.ns)
    assert.equal(2, p.operations[1].calls)
    assert.equal(40, p.operations[1].self_ns)
  end)
end)

describe('a node that was not called', function()
  it('has the time of what is in it', function()
    local p = profile { { 'backward', 100, 400, kind = 'range' },
      { 'exp', 150, 180, module = 'net.a', parent = 1 },
      { 'tanh', 200, 260, module = 'net.a', parent = 1 },
      { 'neg', 210, 220, module = 'net.a', parent = 3 } }
    local found = {}
    require('ridge.profile.tree').walk(p.tree, function(node)
      found[node.name .. ' ' .. node.calls] = node.ns
    end)
    assert.same({ ['all 1'] = 1000, ['backward 1'] = 300, ['net.a 0'] = 50 + 30 + 20 + 60,
      ['exp 1'] = 30, ['tanh 1'] = 60, ['neg 1'] = 10 }, found)
  end)

  it('counts for the section that it is in, whatever stands between', function()
    local p = profile { { 's', 100, 400, kind = 'range', flops = 0, bytes = 0 },
      { 't', 110, 300, kind = 'range', parent = 1 },
      { 'exp', 150, 180, module = 'net.a', parent = 2, flops = 700, bytes = 50 },
      { 'tanh', 310, 320, parent = 1, flops = 11, bytes = 3 } }
    assert.same({ 711, 53 }, { p.section.s.flops, p.section.s.bytes })
    assert.same({ 700, 50 }, { p.section.t.flops, p.section.t.bytes })
  end)
end)

describe('time of a layer', function()
  it('in all is its own and that of the layers in it, each once', function()
    local p = profile { { 'net', 100, 400, kind = 'range', module = 'net' },
      { 'net.a', 150, 200, kind = 'range', module = 'net.a', parent = 1 },
      { 'exp', 160, 170, module = 'net.a', parent = 2 },
      { 'net.b', 200, 290, kind = 'range', module = 'net.b', parent = 1 },
      { 'net.b.c', 210, 280, kind = 'range', module = 'net.b.c', parent = 4 } }
    assert.same({ 160, 300 }, { p.layer.net.self_ns, p.layer.net.total_ns })
    assert.same({ 50, 50 }, { p.layer['net.a'].self_ns, p.layer['net.a'].total_ns })
    assert.same({ 20, 90 }, { p.layer['net.b'].self_ns, p.layer['net.b'].total_ns })
    assert.same({ 70, 70 }, { p.layer['net.b.c'].self_ns, p.layer['net.b.c'].total_ns })
  end)

  it('on a device is that of all its calls there', function()
    local p = profile { { 'exp', 100, 110, module = 'a', device_ns = 30 },
      { 'exp', 120, 130, module = 'a', device_ns = 40 }, { 'sum', 140, 150, module = 'b',
        device_ns = 5 }, { 'tanh', 160, 170, module = 'b' } }
    assert.same({ 75, 40 }, { p.device_ns, p.op_ns })
    assert.same({ 70, 5 }, { p.layer.a.device_ns, p.layer.b.device_ns })
    assert.equal(70, p.operations[1].device_ns)
    assert.equal(0.07, p.operations[1].share)
    assert.is_nil(p.operations[2].device_ns)
  end)
end)

describe('shares', function()
  it('are of all the time, of what lies between operations too', function()
    local p = profile { { 'l', 100, 400, kind = 'range', module = 'l' },
      { 'exp', 150, 250, parent = 1, module = 'l' }, { 'sin', 500, 600 } }
    assert.same({ 0.1, 0.1 }, { p.operations[1].share, p.operations[2].share })
    assert.equal(0.3, p.layer.l.share)
    assert.equal(0.7, p.layer['(outside)'].share)
  end)

  it('and rates are of own times, those of a device of its time there', function()
    local p = profile { { 'outer', 100, 300, flops = 400, bytes = 800 },
      { 'inner', 150, 250, flops = 300, bytes = 100 },
      { 'there', 400, 410, flops = 700, bytes = 350, device_ns = 70 } }
    local by = {}
    for _, each in ipairs(p.operations) do by[each.op] = each end
    assert.same({ 200, 100, 100 }, { by.outer.ns, by.outer.self_ns, by.inner.ns })
    local function near(want, got) assert.near(want, got, 1e-9) end
    near(4, by.outer.gflops) near(8, by.outer.gbps)
    near(3, by.inner.gflops) near(1, by.inner.gbps)
    near(10, by.there.gflops) near(5, by.there.gbps)
    near(0.1, by.outer.share) near(0.1, by.inner.share) near(0.07, by.there.share)
  end)
end)

describe('waits and copies', function()
  it('are sums of their own times, apart from each other and from operations', function()
    local p = profile { { 'copy', 100, 180, kind = 'copy' }, { 'wait', 120, 150, kind = 'wait' },
      { 'exp', 200, 210 }, { 'wait', 300, 307, kind = 'wait' },
      { 'copy', 400, 411, kind = 'copy' } }
    assert.same({ 30 + 7, 50 + 11, 10 }, { p.wait_ns, p.copy_ns, p.op_ns })
    assert.equal(1, #p.operations)
  end)
end)

describe('a section', function()
  it('in a module of its name is none in itself', function()
    local p = profile { { 'part', 100, 400, kind = 'range', module = 'part' },
      { 'part', 150, 250, kind = 'range', parent = 1 } }
    assert.same({ 1, 100 }, { p.section.part.calls, p.section.part.ns })
  end)
end)

describe('time of a range', function()
  it('that calls itself is that of the outermost call, and all calls are counted', function()
    local p = profile { { 'walk', 100, 400, kind = 'range' },
      { 'step', 110, 390, kind = 'range', parent = 1 },
      { 'walk', 120, 380, kind = 'range', parent = 2 },
      { 'walk', 130, 230, kind = 'range', parent = 3 },
      { 'exp', 140, 150, parent = 4 },
      { 'walk', 500, 550, kind = 'range' } }
    local by = {}
    for _, range in ipairs(p.ranges) do by[range.name] = range end
    assert.same({ 4, 350 }, { by.walk.calls, by.walk.ns })
    assert.same({ 1, 280 }, { by.step.calls, by.step.ns })
    assert.same({ 20 + 160 + 90 + 50, 20 }, { by.walk.self_ns, by.step.self_ns })
  end)
end)

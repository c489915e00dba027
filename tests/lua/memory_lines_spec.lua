-- SPDX-License-Identifier: MIT
-- Memory by the line that took it, what grew between two marks, leaks, and the curve of live bytes
-- with who made its peak.

local ridge = require 'ridge'
local lines = require 'ridge.lines'
local memory = ridge.memory
local ranges = require 'ridge.ranges'

local function here() return 'memory_lines_spec.lua:' .. debug.getinfo(2, 'l').currentline end

-- The row of a line, by the end of its name.
local function row_of(list, line, module)
  for _, row in ipairs(list) do
    if row.line:sub(-#line) == line and row.module == module then return row end
  end
end

describe('memory by line', function()
  after_each(function() memory.lines(false) end)

  it('is counted as long as it lives, while it is switched on', function()
    local before = ridge.ones(10)
    assert.is_false(memory.lines(true))
    assert.is_true(memory.lines(true))
    local x, at = ridge.ones(100), here()
    local y = ridge.ones(50) local there = here()
    memory.lines(false)
    local z = ridge.ones(70)
    local row = row_of(memory.by_line(), at)
    assert.same({ live = 400, peak = 400, blocks = 1, line = row.line }, row)
    assert.equal(200, row_of(memory.by_line(), there).live)
    for _, each in ipairs(memory.by_line()) do assert.is_not.equal(280, each.live) end
    x:release()
    assert.equal(0, row_of(memory.by_line(), at).live)
    assert.equal(400, row_of(memory.by_line(), at).peak)
    memory.reset_peak()
    assert.is_nil(row_of(memory.by_line(), at))
    memory.lines(true)
    local again
    for _ = 1, 3 do ridge.ones(200):release() again = here() end
    memory.lines(false)
    assert.same({ 0, 800, 0 }, { row_of(memory.by_line(), again).live,
      row_of(memory.by_line(), again).peak, row_of(memory.by_line(), again).blocks })
    assert.is_truthy(before and y and z)
  end)

  it('knows the module that took it', function()
    local net = ridge.nn.Sequential(ridge.nn.Linear(3, 5), ridge.nn.ReLU()):eval()
    local x = ridge.ones(2, 3)
    memory.lines(true)
    local y, at = net(x), here()
    assert.equal(40, row_of(memory.by_line(), at, '2').live)
    assert.is_truthy(y)
  end)

  it('leaves no hook, no ranges and the compiler behind', function()
    memory.lines(true)
    assert.is_false((jit.status()))
    memory.lines(false)
    assert.is_true((jit.status()))
    assert.is_false(ranges.on)
    assert.is_nil((debug.gethook()))
    local x = ridge.ones(123)
    for _, row in ipairs(memory.by_line()) do assert.is_not.equal(492, row.live) end
    assert.is_truthy(x)
  end)

  it('says what it takes', function()
    local ok, err = pcall(memory.lines)
    assert.is_false(ok)
    assert.matches('true or false is expected', tostring(err))
    assert.is_false(pcall(memory.lines, 1))
    assert.is_false(pcall(memory.by_line, 'gpu7'))
  end)

  it('is told again where something took the hook away', function()
    memory.lines(true)
    debug.sethook()
    lines.again()
    local x, at = ridge.ones(31), here()
    assert.equal(124, row_of(memory.by_line(), at).live)
    memory.lines(false)
    lines.again()
    assert.is_nil((debug.gethook()))
    assert.is_truthy(x)
  end)
end)

describe('what grew between two marks', function()
  after_each(function() memory.lines(false) end)

  it('is told by line, the most first', function()
    memory.lines(true)
    local mark = memory.mark()
    local x, at = ridge.ones(1000), here()
    local y, there = { ridge.ones(10), ridge.ones(10) }, here()
    do local _ = ridge.ones(5000) + 1 end
    local grown = mark:grew()
    assert.equal(4080, grown.bytes)
    assert.equal(2, #grown)
    assert.same({ 4000, 1, 80, 2 }, { grown[1].bytes, grown[1].blocks, grown[2].bytes,
      grown[2].blocks })
    assert.equal(grown[1], row_of(grown, at))
    assert.equal(grown[2], row_of(grown, there))
    assert.matches('4%.0 KB more on cpu than before\n *bytes +blocks +line', tostring(grown))
    x:release()
    local later = memory.mark()
    assert.equal(80, mark:grew(later).bytes)
    assert.equal(0, later:grew().bytes)
    assert.matches('as much on cpu as before', tostring(later:grew()))
    assert.equal(-80, later:grew(mark).bytes)
    assert.is_truthy(y)
  end)

  it('has a row for what was not counted by line', function()
    local mark = memory.mark()
    local x = ridge.ones(25)
    local grown = mark:grew()
    assert.same({ line = '(not counted by line)', bytes = 100, blocks = 1 }, grown[1])
    assert.is_truthy(x)
    memory.lines(true)
    mark = memory.mark()
    local counted = ridge.ones(50)
    memory.lines(false)
    local rest = { ridge.ones(70), ridge.ones(30) }
    grown = mark:grew()
    assert.same({ line = '(not counted by line)', bytes = 400, blocks = 2 }, grown[1])
    assert.same({ 200, 1 }, { grown[2].bytes, grown[2].blocks })
    assert.is_truthy(counted and rest)
    local ok, err = pcall(mark.grew, mark, 7)
    assert.is_false(ok)
    assert.matches('a mark of cpu is expected, got 7', tostring(err))
  end)
end)

describe('a hunt for leaks', function()
  it('of a function that keeps something at its first two calls are none', function()
    local kept, calls = {}, 0
    local grown = memory.leaks(function()
      calls = calls + 1
      if calls <= 2 then kept[calls] = ridge.ones(1000) end
    end, 3)
    assert.same({ 0, 5 }, { grown.bytes, calls })
    calls = 0
    grown = memory.leaks(function()
      calls = calls + 1
      if calls <= 3 then kept[2 + calls] = ridge.ones(1000) end
    end, 3)
    assert.equal(4000, grown.bytes)
    assert.equal(5, #kept)
  end)

  it('finds the line that keeps what it made, call by call', function()
    local kept, once, at = {}, nil, nil
    local grown = memory.leaks(function()
      once = once or ridge.ones(100000)
      kept[#kept + 1], at = ridge.ones(25) * 2, here()
      return ridge.ones(3000)
    end, 7)
    assert.equal(700, grown.bytes)
    assert.equal(7, grown.calls)
    assert.equal(1, #grown)
    assert.same({ 700, 7 }, { grown[1].bytes, grown[1].blocks })
    assert.equal(grown[1], row_of(grown, at))
    assert.matches('100 B a call of 7 more', tostring(grown))
  end)

  it('finds nothing in a training step', function()
    local net = ridge.nn.Linear(8, 4)
    local optimizer = ridge.optim.Adam(net)
    local grown = memory.leaks(function()
      optimizer:zero_grad()
      net(ridge.ones(2, 8)):sum():backward()
      optimizer:step()
    end, 3)
    assert.equal(0, grown.bytes, tostring(grown))
    assert.equal(0, #grown)
  end)

  it('ends with the error of the function, and counts no more', function()
    local ok, err = pcall(memory.leaks, function() error 'on purpose' end)
    assert.is_false(ok)
    assert.matches('on purpose', tostring(err))
    assert.is_nil((debug.gethook()))
    for _, n in ipairs { 0, -1, 1.5, 0 / 0, 'x' } do
      ok, err = pcall(memory.leaks, function() end, n)
      assert.is_false(ok)
      assert.matches('n is a whole number from 1', tostring(err))
    end
    assert.is_false(pcall(memory.leaks, 7))
  end)
end)

describe('the curve of live memory', function()
  it('has its peak, and who was alive then', function()
    ridge.memory.trim()
    -- large beside what specs that ran in this process before have left alive
    local k = 1000
    local first, second, third
    local before = memory.stats().live
    local t, result = memory.timeline(function(n)
      ridge.ones(n / 4):release()
      local x = ridge.ones(n) first = here()
      local y = ridge.ones(2 * n) second = here()
      y:release()
      local z = ridge.ones(n / 2) third = here()
      return z, x
    end, 1000 * k)
    assert.equal(before + 12000 * k, t.peak)
    assert.equal(before, t.before)
    assert.equal(before + 6000 * k, t.live)
    assert.equal(500 * k, result.count)
    assert.equal(8000 * k, row_of(t.at_peak, second).bytes)
    assert.equal(4000 * k, row_of(t.at_peak, first).bytes)
    assert.is_nil(row_of(t.at_peak, third))
    assert.equal(before > 0 and 3 or 2, #t.at_peak)
    local lives = {}
    for i, p in ipairs(t.points) do lives[i] = p.live - before end
    assert.same({ 0, 1000 * k, 0, 4000 * k, 12000 * k, 4000 * k, 6000 * k }, lives)
    assert.equal(0, t.lost)
    assert.matches('cpu: at most .* alive at the peak:\n', (tostring(t):gsub('\n', ' ', 1)))
    local figure = t:plot { theme = 'dark' }
    assert.matches('^At most ', figure.finding)
    assert.matches(second:gsub('%p', '%%%0'), figure.finding)
  end)

  it('begins without what was dead before', function()
    do
      local held = {}
      for i = 1, 5 do held[i] = ridge.ones(1000) end
      assert.equal(5, #held)
    end
    local t = memory.timeline(function()
      collectgarbage()
      collectgarbage()
      return ridge.ones(10)
    end)
    assert.same({ 1, 1, t.before + 40 }, { t.events, t.taken, t.live })
  end)

  it('is explained by the modules of a forward and backward pass', function()
    local net = ridge.nn.Sequential(ridge.nn.Linear(64, 64), ridge.nn.ReLU())
    local t = memory.timeline(function() net(ridge.ones(32, 64)):sum():backward() end)
    local sum, modules = 0, {}
    for _, row in ipairs(t.at_peak) do
      sum = sum + row.bytes
      modules[row.module or ''] = true
    end
    assert.equal(t.peak, sum)
    assert.is_true(modules['1'] and modules['2'])
  end)

  it('of what takes nothing is empty, and no picture', function()
    local t = memory.timeline(function() return 1 end)
    assert.equal(0, #t.points)
    assert.matches('0 blocks', tostring(t))
    local ok, err = pcall(t.plot, t)
    assert.is_false(ok)
    assert.matches('no memory was taken', tostring(err))
  end)

  it('ends with the error of the function', function()
    local ok, err = pcall(memory.timeline, function() error 'on purpose' end)
    assert.is_false(ok)
    assert.matches('on purpose', tostring(err))
    assert.is_nil((debug.gethook()))
    assert.is_false(ranges.on)
    assert.is_false(pcall(memory.timeline, 3))
  end)

  it('says how many events it has no room for', function()
    local own = require 'ridge.memory_timeline'
    local room = own.CAPACITY
    own.CAPACITY = 1000
    local t = memory.timeline(function()
      for _ = 1, 600 do ridge.empty(1):release() end
    end)
    own.CAPACITY = room
    assert.is_true(t.lost >= 200 and t.lost < 300, t.lost)
    assert.equal(1000, t.events)
    assert.matches('later events not kept', t:text())
  end)

  it('of a mark and one of another device is none', function()
    local mark, other = memory.mark(), memory.mark()
    other.number, other.device = other.number + 1, 'gpu:0'
    local ok, err = pcall(mark.grew, mark, other)
    assert.is_false(ok)
    assert.matches('mark:grew: a mark of cpu is expected, got one of gpu:0', tostring(err), 1, true)
  end)
end)

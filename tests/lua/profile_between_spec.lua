-- SPDX-License-Identifier: MIT
-- Where a profile's time goes between operations: samples of Lua in the tree of events, and the
-- tape's time in backward passes. First with events and samples that were written down here.

local ffi = require 'ffi'
local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local between = require 'ridge.profile.between'
local tree = require 'ridge.profile.tree'

local function output(code)
  local pipe = assert(io.popen(("./ridge -e '%s' 2>&1; echo \"status $?\""):format(code)))
  local text = pipe:read '*a'
  pipe:close()
  return text
end

-- A copy of events { kind, name, from, to, module =, parent = }; texts must outlive it.
local function events(list)
  local copy = { n = #list, events = ffi.new('rg_happening[?]', #list), texts = {} }
  local function text(s)
    local kept = s and ffi.new('char[?]', #s + 1, s)
    copy.texts[#copy.texts + 1] = kept
    return kept
  end
  for i, e in ipairs(list) do
    local at = copy.events[i - 1]
    at.kind, at.name, at.path = C['RG_EVENT_' .. e[1]:upper()], text(e[2]), text ''
    at.module, at.parent, at.serial = text(e.module), e.parent or -1, i - 1
    at.begin_ns, at.end_ns, at.shapes, at.origin, at.device_ns = e[3], e[4], -1, -1, 0 / 0
  end
  function copy:each()
    local i, ring = -1, require 'ridge.ring'
    return function()
      i = i + 1
      if i >= self.n then return nil end
      local at = self.events[i]
      return { kind = ring.KINDS[at.kind], name = ffi.string(at.name), path = '', shapes = '',
        module = at.module ~= nil and ffi.string(at.module) or nil, serial = i,
        parent = tonumber(at.parent), begin_ns = tonumber(at.begin_ns),
        end_ns = tonumber(at.end_ns), flops = 0, bytes = 0, live_bytes = 0, device = 'cpu' }, i
    end
  end
  return copy
end

local WINDOWS = { { from = 0, to = 1000, first = 0, behind = 100 } }

-- Samples { ns, line of text }.
local function taken(list)
  local lines, ticks = {}, ffi.new('rg_sample_tick[?]', #list)
  for i, sample in ipairs(list) do
    lines[i] = sample[2] .. '\n'
    ticks[i - 1].ns, ticks[i - 1].stack = sample[1], i - 1
  end
  return { parts = { { text = table.concat(lines), ticks = ffi.string(ticks,
    ffi.sizeof 'rg_sample_tick' * #list) } }, lost = 0, untold = 0 }
end

local function at(root, ...)
  local node = root
  for _, name in ipairs { ... } do
    local found
    for _, inner in ipairs(node.within) do found = inner.name == name and inner or found end
    node = assert(found, name)
  end
  return node
end

describe('samples', function()
  it('have shares of lines and of states', function()
    local lines, states, n = require('ridge.profile.samples').shares(taken {
      { 1, 'I a.lua:1\tf;' }, { 2, 'N a.lua:2\tg;a.lua:1\tf;' }, { 3, 'N a.lua:2\tg;a.lua:1\tf;' },
      { 4, 'G a.lua:2\tg;a.lua:3\th;' } })
    assert.same({ { line = 'a.lua:2', share = 0.75 }, { line = 'a.lua:1', share = 0.25 } }, lines)
    assert.same({ interpreted = 0.25, compiled = 0.5, collector = 0.25 }, states)
    assert.equal(4, n)
  end)

  it('are of the innermost line that is not of ridge, else of its own, else of none', function()
    local lines = require('ridge.profile.samples').shares(taken {
      { 1, 'N ridge/a.lua:1\tf;ridge/b.lua:2\tg;u.lua:3\th;v.lua:4\ti;' },
      { 2, 'N ridge/a.lua:5\tf;ridge/b.lua:6\tg;' },
      { 3, 'C @0x55\t@0x55;ridge/b.lua:7\tg;ridge/c.lua:8\tg;' }, { 4, 'C @0x55\t@0x55;' } })
    assert.same({ { line = 'C', share = 0.25 }, { line = 'ridge/a.lua:5', share = 0.25 },
      { line = 'ridge/b.lua:7', share = 0.25 }, { line = 'u.lua:3', share = 0.25 } }, lines)
  end)
end)

describe('samples in the tree', function()
  local function copy()
    return events { { 'range', 'forward', 100, 500 }, { 'op', 'matmul', 200, 300, parent = 0 },
      { 'op', 'exp', 700, 800 } }
  end

  it('of what others do while a coroutine waits are not in what it has open', function()
    local function yields()
      return events { { 'range', 'part', 100, 800 }, { 'range', '(yield)', 300, 600, parent = 0 } }
    end
    local t = tree.of(yields(), WINDOWS, 1000)
    between.join(t, yields(), WINDOWS, taken { { 200, 'I a.lua:1\tload;' },
      { 400, 'I b.lua:1\tother;' }, { 700, 'I a.lua:1\tload;' } })
    assert.equal(400, at(t.root, 'part', 'load a.lua:1', 'interpreted').self_ns)
    assert.equal(600, at(t.root, 'other b.lua:1', 'interpreted').self_ns)
    assert.equal(1, #at(t.root, 'part').within)
  end)

  it('divide what is nobody\'s own, and leave operations alone', function()
    local t = tree.of(copy(), WINDOWS, 1000)
    between.join(t, copy(), WINDOWS, taken {
      { 150, 'I a.lua:1\tload;ridge/ranges.lua:9\tcall;a.lua:9\ta.lua:0;' },
      { 250, 'N a.lua:1\tload;' }, -- in the product
      { 310, 'G a.lua:2\tparse;a.lua:1\tload;ridge/ranges.lua:9\tcall;a.lua:9\ta.lua:0;' },
      { 400, 'G a.lua:2\tparse;a.lua:1\tload;ridge/ranges.lua:9\tcall;a.lua:9\ta.lua:0;' },
      { 600, 'N a.lua:9\ta.lua:0;ridge/profile/init.lua:3\tprofile;main.lua:1\tmain.lua:0;' },
      { 5000, 'N a.lua:1\tload;' }, -- behind it all
    })
    assert.equal(100, at(t.root, 'forward', 'matmul').self_ns)
    assert.equal(100, at(t.root, 'exp').self_ns)
    assert.equal(100, at(t.root, 'forward', 'load a.lua:1', 'interpreted').self_ns)
    assert.equal(200, at(t.root, 'forward', 'load a.lua:1', 'parse a.lua:2', 'collector').self_ns)
    assert.equal(300, at(t.root, 'forward', 'load a.lua:1').ns)
    assert.equal(500, at(t.root, 'a.lua:9', 'compiled').self_ns)
    assert.equal(1000, tree.sum(t.root))
  end)

  it('are rows by line and state', function()
    local t = tree.of(copy(), WINDOWS, 1000)
    local rows = between.join(t, copy(), WINDOWS, taken { { 150, 'I a.lua:1\tload;' },
      { 600, 'I a.lua:1\tload;' }, { 650, 'C @0x55\t@0x55;' } })
    assert.equal(2, #rows)
    assert.same({ 'load a.lua:1', 'interpreted', 550, 2 },
      { rows[1].name, rows[1].state, rows[1].ns, rows[1].samples })
    assert.same({ 'C', 'C', 250, 1 },
      { rows[2].name, rows[2].state, rows[2].ns, rows[2].samples })
  end)

  it('that had no room are told', function()
    local samples = require 'ridge.profile.samples'
    assert.equal('3 samples of Lua had no room and are not here',
      samples.note { lost = 3, untold = 0 })
    assert.equal('1 sample of Lua had no room and is not here; 70000 samples of Lua came that '
      .. 'LuaJIT never mentioned and are not here', samples.note { lost = 1, untold = 70000 })
    assert.is_nil(samples.note { lost = 0, untold = 0 })
    assert.is_nil(samples.note(nil))
  end)

  it('leave whole what none came in', function()
    local t = tree.of(copy(), WINDOWS, 1000)
    assert.same({}, between.join(t, copy(), WINDOWS, taken {}))
    assert.equal(300, at(t.root, 'forward').self_ns)
    assert.same({}, between.join(t, copy(), WINDOWS, nil))
  end)
end)

describe('the tape\'s time in a backward pass', function()
  it('is that of the module whose gradient comes next', function()
    local t = tree.of(events { { 'range', 'backward', 0, 100 },
      { 'op', 'act_back', 20, 40, module = '2', parent = 0 },
      { 'op', 'matmul', 50, 60, module = '1', parent = 0 } }, WINDOWS, 100)
    assert.equal(20, at(t.root, 'backward', '2').self_ns)
    assert.equal(10, at(t.root, 'backward', '1').self_ns)
    assert.equal(40, at(t.root, 'backward').self_ns) -- behind the last of them
    assert.equal(20, at(t.root, 'backward', '2', 'act_back').self_ns)
    assert.equal(100, tree.sum(t.root))
  end)

  it('is not what a section of the user\'s has between its operations', function()
    local t = tree.of(events { { 'range', 'mine', 0, 100 },
      { 'op', 'act_back', 20, 40, module = '2', parent = 0 } }, WINDOWS, 100)
    assert.equal(80, at(t.root, 'mine').self_ns)
    assert.equal(0, at(t.root, 'mine', '2').self_ns)
  end)
end)

describe('a profile in the ridge program', function()
  it('has functions, lines and states below sections, in all it writes', function()
    local text = output [[
      local ridge = require "ridge"
      local x = ridge.randn(256, 256)
      local function grow() local t = {} for i = 1, 3e5 do t[i] = { i } end return t end
      local function add() local s = 0 for i = 1, 5e7 do s = s + i % 7 end return s end
      local p = ridge.profile(function(p)
        p:section("first", function() grow() x:matmul(x) grow() end)
        p:section("second", function() add() end)
      end, { rows = 5, lines = true })
      local folded, sum = p:folded(), 0
      for ns in folded:gmatch " (%d+)\n" do sum = sum + ns end
      print(math.abs(sum / p.ns - 1) < 1e-3, p.samples > 10)
      print(folded:find "all;first;[^\n]*grow [^\n]*" ~= nil,
        folded:find "all;second;[^\n]*add [^\n]*;compiled %d" ~= nil,
        folded:find "second;[^\n]*grow", folded:find "first;[^\n]*add ")
      local rows, states = 0, {}
      for _, row in ipairs(p.between) do
        rows, states[row.state] = rows + row.ns, true
      end
      print(rows > 0.5 * p.ns, rows + p.op_ns <= 1.001 * p.ns, states.collector, states.compiled)
      for _, each in ipairs(p.sections) do -- what samples divide stays its own
        if each.name == "second" then print(each.self_ns > 0.9 * each.ns) end
      end
      local name = os.tmpname()
      p:flame(name)
      print(io.open(name):read("*a"):find ">[^<]*grow " ~= nil)
      p:speedscope(name)
      print(io.open(name):read("*a"):find "grow " ~= nil)
      os.remove(name)
      print(p:table({ by = "lua" }):find "between operations" ~= nil,
        p:text():find "between operations" ~= nil)]]
    assert.equal('true\ttrue\ntrue\ttrue\tnil\tnil\ntrue\ttrue\ttrue\ttrue\ntrue\ntrue\n'
      .. 'true\ntrue\ttrue\nstatus 0\n', text)
  end)

  it('within another one leaves that one its samples', function()
    local text = output [[
      local ridge = require "ridge"
      local function add() local s = 0 for i = 1, 4e7 do s = s + i % 7 end return s end
      local inner
      local outer = ridge.profile(function()
        add()
        inner = ridge.profile(add, { lines = true })
        add()
      end, { lines = true })
      print(inner.samples > 5, outer.samples > 2 * inner.samples)]]
    assert.equal('true\ttrue\nstatus 0\n', text)
  end)

  -- Ticks come as signals; here they are sent, faster than any timer would.
  it('of an hour has its last samples, as of events the last ones, and says how many went',
    function()
      local text, n, lost, untold
      -- LuaJIT may lose its hook (lua/sample.c), seen once on a busy machine: it is asked again
      for _ = 1, 3 do
        text = output [[
          local ffi = require "ffi"
          ffi.cdef "int raise(int)"
          local function early() for _ = 1, 1000 do ffi.C.raise(27) end end
          local function late() for _ = 1, 131072 do ffi.C.raise(27) end end
          jit.off(early) jit.off(late)
          local p = ridge.profile(function() early() late() end, { lines = true })
          print(p.samples, p.notes[1])
          for _, row in ipairs(p.between) do
            if row.name:find "early" then print("early is there") end
            if row.name:find "late" then print("late", row.samples > 130000) end
          end
        ]]
        n = text:match '^%d+'
        lost = tonumber(text:match '(%d+) samples of Lua had no room' or 0)
        untold = tonumber(text:match '(%d+) samples of Lua came that LuaJIT never mentioned' or 0)
        assert.is_true(n + lost + untold >= 132072, text) -- none is gone without a word
        if untold == 0 then break end
      end
      assert.equal('131072', n, text)
      assert.is_true(lost >= 1000 and lost < 10000, text) -- the timer ticks too
      assert.matches('late\ttrue\n', text)
      assert.is_nil(text:find('early is there', 1, true))
    end)

  it('that raises has the samples until then', function()
    local text = output [[
      local ridge = require "ridge"
      pcall(ridge.profile, function()
        local s = 0
        for i = 1, 5e7 do s = s + i % 7 end
        error "on purpose"
      end, { lines = true })
      local p = ridge.last_profile()
      print(p.failed ~= nil, p.samples > 5, #p.between > 0)]]
    assert.equal('true\ttrue\ttrue\nstatus 0\n', text)
  end)

  it('takes names of any kind', function()
    local text = output [[
      local ridge = require "ridge"
      local f = loadstring("local s = 0 for i = 1, 5e7 do s = s + i % 7 end", "=a<b;&\"c")
      local p = ridge.profile(f, { lines = true })
      local name = os.tmpname()
      p:flame(name)
      local svg = io.open(name):read "*a"
      os.remove(name)
      print(p.samples > 5, svg:find("a<b", 1, true), svg:find("&\"c", 1, true))
      for line in p:folded():gmatch "[^\n]+" do assert(line:find "^all[^\n]* %d+$", line) end
      print "whole"]]
    assert.equal('true\tnil\tnil\nwhole\nstatus 0\n', text)
  end)

  it('has no samples where the system gives no timer, and says so', function()
    local text = output [[
      local ffi, ridge = require "ffi", require "ridge"
      ffi.cdef "int setrlimit(int what, const unsigned long *limits);"
      assert(ffi.C.setrlimit(11, ffi.new("unsigned long[2]")) == 0) -- RLIMIT_SIGPENDING
      local p = ridge.profile(function() ridge.ones(9):exp() end, { lines = true })
      print(p.samples, #p.operations, p.unavailable.lua)
      print(p:text():match "%(lines of Lua: unavailable: [^\n]*")]]
    assert.equal('0\t2\tthe system gives no timer: Resource temporarily unavailable\n'
      .. '(lines of Lua: unavailable: the system gives no timer: Resource temporarily '
      .. 'unavailable)\nstatus 0\n', text)
  end)
end)

describe('a profile in plain luajit', function()
  it('says that nobody samples', function()
    local p = ridge.profile(function() ridge.ones(9):exp() end, { lines = true })
    assert.matches('plain luajit', p.unavailable.lua)
    assert.same({}, p.between)
    assert.matches('%(lines of Lua: unavailable: ', p:text())
    p = ridge.profile(function() ridge.ones(9):exp() end)
    assert.equal('lines = false', p.unavailable.lua)
    assert.is_nil(p:text():find('unavailable', 1, true)) -- nobody asked for them
  end)

  it('prints what lies between operations behind all else', function()
    local p = ridge.profile(function() ridge.ones(9):exp() end, { lines = false })
    local before = p:text()
    p.between = { { name = 'load a.lua:1', state = 'interpreted', ns = 550, samples = 2 } }
    local text = p:text()
    assert.matches('between operations', text)
    assert.matches('load a%.lua:1', text)
    for line in before:gmatch '[^\n]+' do assert.matches(line, text, 1, true) end
  end)

  it('refuses a table of another name', function()
    local p = ridge.profile(function() ridge.ones(9):exp() end)
    local ok, err = pcall(p.table, p, { by = 'luaa' })
    assert.is_false(ok)
    assert.matches('by', tostring(err))
  end)
end)

-- SPDX-License-Identifier: MIT
-- Another program as a candidate: its own clock counts, and whatever it does wrong is said.
local ffi = require 'ffi'
local ridge = require 'ridge'
local external = require 'ridge.measure.external'
local native = require 'ridge.measure.native'
local process = require 'ridge.process'

ffi.cdef 'int ridge_external_spec_pid(void) __asm__("getpid");'

local CHILD = 'tests/lua/measure/external_child.lua'

local started = {}
local function start(ns, wrong, options)
  local given = { command = { 'luajit', CHILD, tostring(ns), wrong }, timeout = 60 }
  for name, value in pairs(options or {}) do given[name] = value end
  local child = ridge.measure.external(given)
  started[#started + 1] = child
  return child
end

local function says(pattern, f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  assert.truthy(tostring(err):find(pattern), tostring(err))
end

describe('a program that is timed from outside', function()
  after_each(function()
    for _, child in ipairs(started) do child:close() end
    started = {}
  end)

  it('says what it is, and how long its calls took by its own clock', function()
    local child = start(50000)
    assert.equal('luajit: a loop of 50000 ns', tostring(child))
    local windows = child.window(3, 4, false)
    assert.equal(4, #windows)
    for _, w in ipairs(windows) do
      assert.equal(3, w.calls)
      assert.is_true(w.ns >= 150000, tostring(w.ns))
      -- the whole order took no less than all its windows
      assert.is_true(w.end_ns - w.begin_ns >= 4 * 150000)
    end
  end)

  it('is a candidate of ab, with the check of what it computes', function()
    local x = ridge.tensor { 1, 2, 3 }
    local plan = ridge.capture(function() return x + 0 end)
    local r = ridge.measure.ab { a = plan, b = start(300000), blocks = 6, looks = 1 }
    assert.is_true(r.b_ns >= 300000)
    assert.is_true(r.ratio > 1)
    says('result 1 of b is off by 0%.27', ridge.measure.ab, { a = plan, b = start(1000, 'other') })
    says('a returns 1 results and b 0', ridge.measure.ab, { a = plan, b = start(1000, 'quiet') })
    local quiet = ridge.measure.ab { a = plan, b = start(1000, 'quiet'), check = false,
      blocks = 6, looks = 1 }
    assert.is_true(quiet.b_ns >= 1000)
  end)

  it('is a point', function()
    local p = ridge.measure.point(start(200000), { budget_ns = 2e7, warm_min_ns = 1e6,
      warm_max_ns = 1e7 })
    assert.is_true(p.min >= 200000)
  end)

  it('cannot be timed with cold caches', function()
    says('cannot be timed cold', start(1000).window, 1, 1, true)
  end)

  it('lives through the blocks of a process where candidates are made anew', function()
    local before = external.cpu_ns()
    local made = 0
    local make = external.lasting(function()
      made = made + 1
      return start(1000), start(1000, 'quiet')
    end)
    local a, b = make()
    local c, d = make()
    assert.equal(2, made)
    assert.is_true(rawequal(a, c) and rawequal(b, d) and not rawequal(a, b))
    assert.is_false(rawequal(a, start(1000))) -- outside each is its own
    a:close()
    assert.is_false(rawequal(a, (make()))) -- and one that ended is started again
    a.window = nil
    b.window(100, 20, false)
    assert.is_true(external.cpu_ns() - before > 1e6)
  end)

  it('makes candidates in the processes of setup too', function()
    local r = ridge.measure.ab { processes = 2, blocks = 6, looks = 1, setup = function()
      local here = require 'ridge'
      local x = here.tensor { 1, 2, 3 }
      return here.capture(function() return x + 0 end), here.measure.external {
        command = { 'luajit', 'tests/lua/measure/external_child.lua', '100000' } }
    end }
    assert.equal(2, r.procs)
    assert.is_true(r.b_ns >= 100000)
  end)

  it('counts as work of our own', function()
    local child = start(1e6)
    local before = native.services().counters().own_ns
    local window = child.window(200, 1, false)[1]
    local own = native.services().counters().own_ns - before
    assert.is_true(own >= 0.2 * window.ns, ('%g of %g ns'):format(own, window.ns))
    child:close() -- what it took stays counted
    assert.is_true(native.services().counters().own_ns - before >= own)
  end)

  it('is waited for until its threads rest', function()
    local child, busy = start(1000, 'spins'), start(1000, 'spins', { restless = true })
    local clock = native.services().now
    local function after(c)
      local began = clock()
      c.window(1, 1, false)
      return clock() - began
    end
    after(child) -- its first order meets code that is not compiled
    after(busy)
    local least, most = math.huge, 0
    -- one that spins and gets no processor looks as if it slept
    for _ = 1, 5 do most = math.max(most, after(child)) end
    assert.is_true(most >= 4e6, tostring(most))
    for _ = 1, 5 do
      native.sleep(3e7)
      least = math.min(least, after(busy))
    end
    assert.is_true(least < 4e6, tostring(least))
  end)

  it('took as long as its processor time, above a second too', function()
    local pid = ffi.C.ridge_external_spec_pid()
    while os.clock() < 1.2 do end
    local before = os.clock() * 1e9
    local took = external.cpu_of(pid)
    assert.is_true(before - 2e7 <= took and took <= os.clock() * 1e9 + 2e7, tostring(took))
    assert.equal(0, external.cpu_of(2 ^ 22 + 5)) -- no process has such a number
  end)

  it('is waited for no longer than until it rests, or for 50 ms', function()
    -- how often it is looked at, of a child whose threads take so much in each step of 0.2 ms
    local function looks(taken, oversleeps)
      local cpu, clock, steps = 7e9, 3e9, 0
      external.rest(function() return cpu end, function() return clock end, function(ns)
        assert.equal(2e5, ns)
        steps = steps + 1
        clock = clock + ns * (oversleeps or 1)
        cpu = cpu + (taken[steps] or taken.always)
      end)
      return steps
    end
    assert.equal(1, looks { always = 0 })
    assert.equal(1, looks { 3999 }) -- a fiftieth is 4 us
    assert.equal(2, looks { 4000, always = 0 })
    assert.equal(4, looks { 2e5, 2e5, 5000, always = 3999 })
    assert.equal(251, looks { always = 2e5 }) -- the first look behind 50 ms is the last
    assert.equal(1, looks({ always = 2e5 }, 1000))
  end)

  it('says what went wrong', function()
    says('luajit ended %(status 7%)', start, 1000, 'dies')
    says("luajit answers 'hello', wanted 'ready WORDS'", start, 1000, 'greets')
    says('luajit gave no answer within 0%.1 s and was ended', start, 1000, 'silent',
      { timeout = 0.1 })
    local windows = function(wrong) return start(1000, wrong).window(1, 2, false) end
    says('luajit ended %(status 3%)', windows, 'dies later')
    says('luajit says: no such node', windows, 'fails')
    says('says that 1 calls took 1e12 ns', windows, 'boasts')
    says('gives 0 times for 2 windows', windows, 'short')
    local closed = start(1000)
    closed:close()
    closed:close()
    says('luajit was closed', closed.window, 1, 1, false)
    says('there is no program', ridge.measure.external, { command = { 'no-such-program' } })
    says('a command is needed', ridge.measure.external, {})
    says('word 2 of the command is 3', ridge.measure.external, { command = { 'luajit', 3 } })
    says('cannot start', ridge.measure.external, { command = { './' .. CHILD } })
  end)

  it('goes on behind an error of its own', function()
    local child = start(1000, 'fails')
    says('no such node', child.window, 1, 1, false)
    assert.equal(1, child.results().n)
  end)

  it('has its results in files that are gone when they are read', function()
    local names, tmpname = {}, os.tmpname
    os.tmpname = function() -- luacheck: ignore 122
      names[#names + 1] = tmpname()
      return names[#names]
    end
    local ok, found = pcall(start(1000).results)
    os.tmpname = tmpname -- luacheck: ignore 122
    assert(ok, found)
    assert.equal(1, found.n)
    assert.equal(1, #names)
    assert.is_nil(io.open(names[1]))
    assert.is_nil(io.open(names[1] .. '.results'))
  end)

  it('that was killed is told of', function()
    local child = start(1000)
    child.process:kill(9)
    says('luajit ended %(signal 9%)', child.window, 1, 1, false)
  end)
end)

describe('a spawned process', function()
  it('is one of three kinds', function()
    says('one of module, words and program', process.spawn, {})
    says('one of module, words and program', process.spawn, { words = {}, program = { 'x' } })
  end)
end)

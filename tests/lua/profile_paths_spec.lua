-- SPDX-License-Identifier: MIT
-- Paths of modules in a profile where forward does what it likes: catches what a part of it raises,
-- calls that part again, calls what is none of its parts, itself, a coroutine; and the time of what
-- waits meanwhile.

local ridge = require 'ridge'
local ranges = require 'ridge.ranges'

local nn = ridge.nn

local Failing = nn.class 'Failing'
function Failing:init() self.inner = self:child('inner', nn.ReLU()) end
function Failing:forward(x)
  self.inner(x)
  if self.fails then
    self.fails = self.fails > 1 and self.fails - 1 or nil
    error 'on purpose'
  end
  return x:exp()
end

local Catching = nn.class 'Catching'
function Catching:init()
  self.bad = self:child('bad', Failing())
  self.good = self:child('good', nn.Tanh())
end
function Catching:forward(x)
  pcall(self.bad, x)
  return self.good(self.bad(x))
end

-- Modules of a profile's calls: path to how often.
local function paths(f)
  local p = ridge.profile(f, { lines = false })
  local n = {}
  for _, each in ipairs(p.calls) do
    n[each.module or ''] = (n[each.module or ''] or 0) + each.calls
  end
  return n, p
end

local x = ridge.ones(2, 2)

describe('a path', function()
  it('is right behind a part that raised, and whose error was caught', function()
    local net = Catching()
    net.bad.fails = 1
    local n, p = paths(function() net(x) end)
    assert.same({ ['bad.inner'] = 2, bad = 1, good = 1 }, n)
    local layers = {}
    for _, each in ipairs(p.layers) do layers[each.name] = each.calls end
    assert.equal(2, layers.bad)
    assert.equal(2, layers['bad.inner'])
    assert.equal(1, layers.good)
    -- every range that began has ended
    for event in p.copy:each() do assert.is_not_nil(event.end_ns, event.name) end
  end)

  it('is right behind an error that nobody caught', function()
    local net = nn.Sequential(nn.ReLU(), Failing())
    net.children[2].module.fails = 1
    local n, p = paths(function()
      pcall(net, x)
      x:exp()
      net(x)
    end)
    assert.same({ ['1'] = 2, ['2.inner'] = 2, ['2'] = 1, [''] = 1 }, n)
    for event in p.copy:each() do assert.is_not_nil(event.end_ns, event.name) end
    assert.is_false(ranges.is_outermost())
  end)

  it('is one of a part that takes and gives several', function()
    local Pair = nn.class 'Pair'
    function Pair:init() self.inner = self:child('inner', nn.ReLU()) end
    function Pair:forward(a, b) return self.inner(a):add(b), b:exp() end
    local Both = nn.class 'Both'
    function Both:init() self.pair = self:child('pair', Pair()) end
    function Both:forward(a, b)
      local sum, e = self.pair(a, b)
      return sum:mul(e)
    end
    local y
    local n, p = paths(function() y = Both()(x, x) end)
    assert.same({ ['pair.inner'] = 1, pair = 2, Both = 1 }, n)
    assert.near(2 * math.exp(1), y[{ 1, 1 }]:item(), 1e-5)
    for event in p.copy:each() do assert.is_not_nil(event.end_ns, event.name) end
  end)

  it('changes with parts that change places', function()
    local net, own = nn.Sequential(nn.ReLU(), Failing()), Catching()
    assert.same({ ['1'] = 1, ['2.inner'] = 1, ['2'] = 1 }, paths(function() net(x) end))
    net[1], net[2] = net[2], net[1]
    assert.same({ ['2'] = 1, ['1.inner'] = 1, ['1'] = 1 }, paths(function() net(x) end))
    assert.same({ ['bad.inner'] = 2, bad = 2, good = 1 }, paths(function() own(x) end))
    local a, b = own.children[1], own.children[2]
    a.module, b.module = b.module, a.module
    assert.same({ ['good.inner'] = 2, good = 2, bad = 1 }, paths(function() own(x) end))
  end)

  it('goes to where a part stands now, and by the shortest way', function()
    local Lending = nn.class 'Lending'
    function Lending:init()
      self.list = self:child('list', nn.Sequential(nn.ReLU(), nn.Tanh()))
      self.more = self:child('more', nn.Sequential(nn.Sequential(nn.Sigmoid())))
    end
    function Lending:forward(v)
      for i = 1, #self.list do v = self.list[i](v) end
      return self.more[1][1](v)
    end
    local net = Lending()
    local function run() return paths(function() net(x) end) end
    assert.same({ ['list.1'] = 1, ['list.2'] = 1, ['more.1.1'] = 1 }, (run()))
    local tanh = net.list[2]
    net.list[2], net.list[1] = net.list[1], tanh -- each where the other was
    net.list:add(nn.ReLU())
    assert.same({ ['list.1'] = 1, ['list.2'] = 1, ['list.3'] = 1, ['more.1.1'] = 1 }, (run()))
    local p = ridge.profile(function() net(x) end, { lines = false })
    for _, each in ipairs(p.calls) do
      if each.module == 'list.1' then assert.equal('tanh', each.op) end
    end
    net:child('own', net.more[1][1]) -- a part of the net itself from here on
    assert.same({ ['list.1'] = 1, ['list.2'] = 1, ['list.3'] = 1, own = 1 }, (run()))
    net.more[1][1] = nn.Tanh()
    assert.same({ ['list.1'] = 1, ['list.2'] = 1, ['list.3'] = 1, ['more.1.1'] = 1 }, (run()))
  end)

  it('of what is no part is that of where it is called, by its class', function()
    local Borrowing = nn.class 'Borrowing'
    function Borrowing:init() end -- luacheck: no self
    function Borrowing:forward(v) return self.lent.of(v) end -- luacheck: no self
    local net = nn.Sequential(Borrowing(), nn.Tanh())
    net.children[1].module.lent = { of = net.children[2].module }
    assert.same({ ['1.nn.Tanh'] = 1, ['2'] = 1 }, (paths(function() net(x) end)))
  end)

  it('of a module in itself is longer each time', function()
    local Again = nn.class 'Again'
    function Again:init() self.act = self:child('act', nn.Tanh()) end
    function Again:forward(v, n)
      v = self.act(v)
      return n > 1 and self(v, n - 1) or v
    end
    local net = Again()
    local n = paths(function() net(x, 3) end)
    assert.equal(3, n['act'] + n['Again.act'] + n['Again.Again.act'])
  end)

  it('of a coroutine is its own', function()
    local Yielding = nn.class 'Yielding'
    function Yielding:init() self.act = self:child('act', nn.Tanh()) end
    function Yielding:forward(v)
      coroutine.yield()
      return self.act(v)
    end
    local net, other = nn.Sequential(Yielding()), nn.Sequential(nn.ReLU())
    local n = paths(function()
      local one = coroutine.wrap(function() net(x) end)
      one()
      other(x)
      one()
    end)
    assert.same({ ['1.act'] = 1, ['1'] = 1 }, n)
  end)
end)

describe('time', function()
  local function spin(s)
    local till = ridge.clock() + s
    while ridge.clock() < till do end
  end

  local function sum_of(p)
    local ns = 0
    for _, each in ipairs(p.layers) do ns = ns + each.self_ns end
    return ns
  end

  -- busted runs in plain luajit, which nobody samples in: who does is told
  it('does not go by while sampling begins again in a coroutine that goes on', function()
    local clock = require('ridge.ffi.lib').rg_clock_ns
    local host, begun, p = package.loaded['ridge.host'], {}, nil
    package.loaded['ridge.host'] = {
      sample_start = function()
        begun[#begun + 1] = tonumber(clock())
        return true
      end,
      sample_stop = function() return '', '', 0, 0 end,
    }
    local ok, err = pcall(coroutine.wrap(function()
      local one = coroutine.wrap(function()
        p = ridge.profile(function()
          for _ = 1, 3 do
            x:exp()
            coroutine.yield()
          end
        end, { lines = true })
      end)
      for _ = 1, 4 do one() end
    end))
    package.loaded['ridge.host'] = host
    assert(ok, err)
    assert.equal(4, #p.windows)
    assert.equal(4, #begun)
    for i, window in ipairs(p.windows) do
      assert.is_true(window.from >= begun[i], ('%d begins before its samples'):format(i))
    end
  end)

  it('does not go by while the coroutine that is profiled waits', function()
    local p
    local one = coroutine.wrap(function()
      p = ridge.profile(function(q)
        q:section('part', function()
          x:exp()
          coroutine.yield()
          x:exp()
        end)
        coroutine.yield()
      end, { lines = false })
    end)
    local began, waited = ridge.clock(), 0
    for i = 1, 3 do
      one()
      local from = ridge.clock()
      if i < 3 then
        x:tanh()
        spin(0.02)
        waited = waited + ridge.clock() - from
      end
    end
    local all = ridge.clock() - began
    assert.is_true(p.ns / 1e9 < all - waited, ('%g of %g, %g waited'):format(p.ns / 1e9, all,
      waited))
    assert.equal(3, #p.windows)
    assert.equal(1, #p.operations)
    assert.equal(2, p.operations[1].calls)
    assert.is_true(p.sections[1].ns <= p.ns)
    assert.near(p.ns, sum_of(p), 1e-6 * p.ns)
  end)

  it('of a range that is open while its coroutine waits is that of what counts', function()
    local p
    local one = coroutine.wrap(function()
      p = ridge.profile(function(q)
        q:start 'part'
        x:exp()
        coroutine.yield()
        x:exp()
        q:stop()
      end, { lines = false })
    end)
    one()
    spin(0.02)
    one()
    assert.equal('part', p.ranges[1].name)
    assert.equal(1, p.ranges[1].calls)
    assert.is_true(p.ranges[1].ns <= p.ns, ('%g of %g'):format(p.ranges[1].ns, p.ns))
  end)

  -- A profile of what resumes a coroutine, which yields in what `begin` calls.
  local function waits(begin, finish)
    return ridge.profile(function(q)
      local one = coroutine.wrap(function()
        begin(q, function()
          x:exp()
          coroutine.yield()
          x:sqrt()
          coroutine.yield()
        end)
        if finish then finish(q) end
        x:neg()
      end)
      for _ = 1, 3 do
        one()
        x:tanh()
        spin(0.03)
      end
    end, { lines = false })
  end

  local function is_apart(p, name)
    local of = p.ranges[1]
    assert.same({ name, 1 }, { of.name, of.calls })
    assert.near(p.ns, sum_of(p), 1e-6 * p.ns)
    -- others have spun for 90 ms, 60 of them while it was open
    assert.is_true(of.ns < p.ns - 0.09e9, ('%g of %g'):format(of.ns, p.ns))
    local within = {}
    for line in p:folded():gmatch '[^\n]+' do
      local op = line:match ';(%l+) %d+$'
      if op then within[op] = within[op] or line:find(name, 1, true) ~= nil end
    end
    within.wait, within[name] = nil, nil
    assert.same({ exp = true, sqrt = true, tanh = false, neg = false }, within)
  end

  it('of a section, a part and a module is not that of others while their coroutine waits',
    function()
    local p = waits(function(q, f) q:section('part', f) end)
    is_apart(p, 'part')
    assert.equal(1, p.sections[1].calls)
    is_apart(waits(function(q, f)
      q:start 'part'
      f()
    end, function(q) q:stop 'part' end), 'part')
    is_apart(waits(function(_, f)
      require('ridge.ranges').section('part', f)
    end), 'part')
    local Yields = nn.class 'Yields'
    function Yields.forward(_, f) f() end
    local yields = Yields()
    is_apart(waits(function(_, f) yields(f) end), 'Yields')
  end)

  it('of a coroutine is in the section that resumed it, where it has none of its own', function()
    local p = ridge.profile(function(q)
      local one = coroutine.wrap(function()
        while true do
          x:exp()
          spin(0.02)
          coroutine.yield()
        end
      end)
      q:section('first', one)
      q:section('second', function()
        one()
        q:section('third', one)
      end)
      one()
    end, { lines = false })
    local calls, ns = {}, {}
    for _, each in ipairs(p.sections) do calls[each.name], ns[each.name] = each.calls, each.ns end
    assert.same({ first = 1, second = 1, third = 1 }, calls)
    assert.is_true(ns.second > 0.04e9 and ns.third > 0.02e9 and ns.third < ns.second - 0.02e9)
    assert.near(p.ns, sum_of(p), 1e-6 * p.ns)
    local stacks = {}
    for line in p:folded():gmatch '[^\n]+' do stacks[line:match '^(.*) %d+$'] = true end
    for _, at in ipairs { '', 'first;', 'second;', 'second;third;' } do
      assert.is_true(stacks['all;' .. at .. 'exp'], at)
    end
  end)

  it('of a section whose coroutine never goes on is what lay in it', function()
    local p = ridge.profile(function(q)
      local one = coroutine.wrap(function()
        q:section('left', function()
          x:exp()
          coroutine.yield()
        end)
      end)
      one()
      x:tanh()
      spin(0.01)
    end, { lines = false })
    assert.near(p.ns, sum_of(p), 1e-6 * p.ns)
    assert.matches('all;left;exp', p:folded())
    assert.matches('all;tanh', p:folded())
  end)

  it('of a section that goes on where others are left out is that of what counts', function()
    local p = ridge.profile(function(q)
      for i = 1, 9 do
        if i == 2 then q:start 'long' end
        x:exp()
        spin(i % 3 == 1 and 0.01 or 0.001)
        q:step()
      end
      q:stop()
    end, { wait = 1, active = 2, repeats = 3, lines = false })
    assert.equal(6, p.operations[1].calls)
    assert.equal(1, p.sections[1].calls)
    assert.near(p.ns, sum_of(p), 1e-6 * p.ns)
    local counted = 0
    for _, window in ipairs(p.windows) do counted = counted + window.to - window.from end
    assert.equal(counted, p.ns)
    assert.is_true(p.sections[1].ns <= p.ns and p.sections[1].ns > 0.9 * p.ns,
      ('%g of %g'):format(p.sections[1].ns, p.ns))
  end)
end)

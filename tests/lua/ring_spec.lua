-- SPDX-License-Identifier: MIT
-- What ridge.profile and ridge.timeline read from the ring of events: steps of plans with shapes
-- and modules, ranges, what is nested, and what an error or a coroutine leaves behind.

local ridge = require 'ridge'
local nn = ridge.nn
local ranges = require 'ridge.ranges'
local ring = require 'ridge.ring'
local state = require 'ridge.state'

it('names of calls for a profiler stay switched until they are switched back', function()
  local C = require 'ridge.ffi.lib'
  local before = C.rg_call_names(1)
  assert.equal(1, C.rg_call_names(0))
  assert.equal(0, C.rg_call_names(before))
end)

local function network()
  return nn.Sequential(nn.Linear(6, 5, { seed = 1 }), nn.Sequential(nn.ReLU(),
    nn.Linear(5, 4, { seed = 2 }))):eval()
end

-- A list of 'operation module shapes'.
local function told(list)
  local lines = {}
  for i, entry in ipairs(list) do
    lines[i] = ('%s %s %s'):format(entry.op or entry.name, entry.module or '-', entry.shapes or '-')
  end
  return lines
end

local STEPS = {
  'linear 1 f32[3,6] f32[5,6] f32[5] -> f32[3,5]',
  'relu 2.1 f32[3,5] -> f32[3,5]',
  'linear 2.2 f32[3,5] f32[4,5] f32[4] -> f32[3,4]',
  'softmax - f32[3,4] -> f32[3,4]',
}

describe('a reader', function()
  it('hears nothing while it is told so, and the others go on', function()
    local x = ridge.ones(3)
    local all, some = ring.open('op', 64), ring.open('op', 64)
    local function names(reader)
      local list = {}
      for event in reader:each() do list[#list + 1] = event.name end
      return table.concat(list, ' ')
    end
    x:exp()
    some:hear(false)
    x:neg()
    some:hear(true)
    x:abs()
    assert.same({ 'exp neg abs', 'exp abs' }, { names(all), names(some) })
    all:close()
    some:close()
  end)

  it('of steps knows in each replay what they are of and cost, and its own threads', function()
    local a, b = ridge.ones(256, 2048), ridge.ones(256)
    local plan = ridge.capture(function() return a:exp():sum(), b:neg() end)
    local threads = ridge.backend.threads()
    local reader = ring.open('step', 64)
    for n = 1, 2 do
      ridge.set_num_threads(n)
      plan:run(2)
    end
    ridge.set_num_threads(threads)
    local seen, flops = {}, {}
    for e in reader:each() do
      seen[#seen + 1] = ('%s %d: %s, %d B, %d'):format(e.name, e.step, e.shapes, e.bytes,
        e.n_threads)
      flops[#flops + 1] = e.flops
    end
    reader:close()
    local function replay(n)
      return { ('exp 0: f32[256,2048] -> f32[256,2048], 4194304 B, %d'):format(n),
        'sum 1: f32[256,2048] -> f32[], 2097156 B, 1',
        'neg 2: f32[256] -> f32[256], 2048 B, 1' }
    end
    for i, line in ipairs(seen) do
      assert.equal(replay(i > 6 and 2 or 1)[(i - 1) % 3 + 1], line)
      assert.equal(flops[(i - 1) % 3 + 1], flops[i])
    end
    assert.equal(12, #seen)
    assert.is_true(flops[1] > flops[2] and flops[2] == 256 * 2048 and flops[3] == 256)
  end)

  it('reads on, and from the beginning again, where chunks have come and gone meanwhile', function()
    local x, made = ridge.ones(3), 0
    local function make(n)
      for _ = 1, n do
        made = made + 1
        if made % 3 == 0 then x:exp() else x:neg() end
      end
    end
    local reader = ring.open('op', 700)
    local first -- serial of the first call of all
    local function check(iterate, from)
      local n = from
      for event in iterate do
        n = n + 1
        assert.equal(n % 3 == 0 and 'exp' or 'neg', event.name)
        assert.equal(first + n - 1, event.serial)
      end
      assert.equal(made, n)
    end
    make(600)
    first = reader:each()().serial
    local early = reader:each()
    for _ = 1, 300 do early() end
    check(reader:each(), 0)
    for _ = 301, 520 do early() end
    check(reader:each(), 0)
    make(100)
    check(early, 520)
    check(reader:each(), 0)
    local behind = reader:each()
    for _ = 1, 10 do behind() end -- in a chunk that goes now
    make(2000)
    local facts = reader:facts()
    assert.is_true(facts.dropped > 600)
    check(behind, facts.dropped)
    check(reader:each(), facts.dropped)
    reader:close()
  end)
end)

describe('a profile', function()
  local net, x = network(), ridge.randn(3, 6)

  it('lists the steps of a plan with shapes and modules', function()
    local plan = ridge.capture(function() return ridge.no_grad(net, x):softmax() end)
    local p = ridge.profile(function() plan:run(100) end)
    assert.same(STEPS, told(p.steps))
    for i, step in ipairs(p.steps) do
      assert.equal(i, step.step)
      assert.equal(100, step.calls)
      assert.is_true(step.ns > 0 and step.bytes > 0)
    end
    local calls = 0
    for _, op in ipairs(p.operations) do calls = calls + op.calls end
    assert.equal(400, calls)
    assert.is_false(p.full)
    assert.equal(0, p.graphs)
    local text = p:text()
    assert.matches('step +operation +module +calls +time +shapes', text)
    assert.matches('2 +relu +2.1 +100', text)
  end)

  it('of calls alone has no table of steps', function()
    local text = tostring(ridge.profile(function() return x:exp() end))
    assert.matches('\nexp ', text)
    assert.is_nil(text:find 'step')
  end)

  it('tells two plans apart, and calls from steps', function()
    local one = ridge.capture(function() return x:exp() end)
    local two = ridge.capture(function() return x:exp() end)
    local p = ridge.profile(function()
      two:run(2)
      one:run(3)
      return x:exp()
    end)
    assert.equal(2, #p.steps)
    assert.equal(3, p.steps[1].calls)
    assert.equal(2, p.steps[2].calls)
    assert.equal(3, #p.calls)
    assert.equal(6, p.operations[1].calls)
    assert.matches('%d+%.1 +exp', p:text())
  end)

  it('knows modules and ranges of calls', function()
    local p = ridge.profile(function()
      ridge.profile_range('outside', function() ridge.no_grad(net, x):softmax() end)
    end)
    local lines = told(p.calls)
    table.sort(lines)
    assert.same({ STEPS[1], STEPS[3], STEPS[2], STEPS[4] }, lines)
    local names = {}
    for _, range in ipairs(p.ranges) do names[range.name] = range.calls end
    assert.same({ outside = 1, ['nn.Sequential'] = 1, ['1'] = 1, ['2'] = 1, ['2.1'] = 1,
      ['2.2'] = 1 }, names)
  end)

  it('shows no results that only gradients read', function()
    local tracked = ridge.ones(4):requires_grad_()
    local p = ridge.profile(function() return tracked:dropout(0.5), ridge.ones(4):dropout(0.5) end)
    for _, call in ipairs(p.calls) do
      if call.op == 'dropout' then assert.equal('f32[4] -> f32[4]', call.shapes) end
    end
  end)

  it('puts the place back behind an error, and goes on', function()
    local failing = nn.class 'Failing'
    function failing.forward() error 'on purpose' end
    local whole = nn.Sequential(failing())
    local p = ridge.profile(function()
      local ok, err = pcall(whole, x)
      assert.is_false(ok)
      assert.matches('on purpose', tostring(err))
      return x:exp(), net(x)
    end)
    local first
    for _, call in ipairs(p.calls) do first = call.op == 'exp' and call or first end
    assert.is_nil(first.module)
    assert.is_false(pcall(ridge.profile, function() whole(x) end))
    assert.is_false(ranges.on)
    p = ridge.profile(function() return x:exp() end)
    assert.is_nil(p.calls[1].module)
    assert.equal(1, #p.calls)
  end)

  it('of a module that catches what a part of it raised has its time, and holds it no longer',
    function()
      local failing, catching = nn.class 'Failing', nn.class 'Catching'
      function failing.forward(_, y) return y:matmul(ridge.ones(1, 1)) end
      function catching:init() self.part = self:child('part', failing()) end
      function catching:forward(y) return pcall(self.part, y), y end
      local net_, of = catching(), setmetatable({}, { __mode = 'k' })
      of[net_.part] = true
      local reader = ring.open('range', 16)
      state.with(ranges.WANTED, {}, function()
        local ok = net_(x)
        assert.is_false(ok)
      end)
      local seen = {}
      for e in reader:each() do
        assert.is_true(e.end_ns ~= nil, e.name)
        seen[#seen + 1] = e.name
      end
      reader:close()
      assert.same({ 'Catching', 'part' }, seen)
      net_ = nil -- luacheck: ignore
      collectgarbage()
      collectgarbage()
      assert.is_nil(next(of))
    end)

  it('says where an error was as it does without one', function()
    local wrong = nn.Sequential(nn.Linear(6, 5), nn.Linear(6, 5))
    local function message(f, ...)
      local ok, err = pcall(f, ...)
      assert.is_false(ok)
      return tostring(err):gsub(':%d+:', ':')
    end
    local plain = message(function() return wrong(x) end)
    local profiled = message(function() return ridge.profile(function() return wrong(x) end) end)
    assert.equal(plain, profiled)
    assert.matches('in nn.Sequential.* > nn.Linear', profiled)
  end)

  it('inside a capture leaves the plan as it is', function()
    local inner
    local plan = ridge.capture(function()
      local y
      inner = ridge.profile(function() y = net(x):softmax() end)
      return y
    end)
    assert.equal(4, plan:facts().n_steps)
    assert.equal(4, #inner.calls)
    assert.equal(0, #inner.steps)
    local p = ridge.profile(function() plan:run() end)
    assert.same(STEPS, told(p.steps))
  end)

  it('of a training step knows the modules, of gradients too', function()
    local trained = network():train()
    local function step()
      local loss = trained(x):square():mean()
      loss:backward()
      return loss
    end
    step()
    local plan = ridge.capture(step)
    local p = ridge.profile(function() plan:run(2) end)
    local found = {}
    for _, s in ipairs(p.steps) do found[s.op .. ' ' .. (s.module or '-')] = true end
    for _, wanted in ipairs { 'linear 1', 'relu 2.1', 'linear 2.2', 'act_back 2.1', 'matmul 1',
      'matmul 2.2', 'square -' } do
      assert.is_true(found[wanted], wanted)
    end
  end)

  it('of coroutines keeps the modules of each apart', function()
    local Waits = nn.class 'Waits'
    function Waits.forward(_, a)
      coroutine.yield()
      return a:exp()
    end
    local waits = Waits()
    local p = ridge.profile(function()
      local a = coroutine.wrap(function() return waits(x) end)
      local b = coroutine.wrap(function() return waits(x):sqrt() end)
      a()
      b()
      local _ = x:tanh() -- in no module
      a()
      b()
    end)
    local modules = {}
    for _, call in ipairs(p.calls) do modules[call.op] = call.module or '-' end
    assert.same({ exp = 'Waits', sqrt = '-', tanh = '-' }, modules)
    -- and begins in no range, whatever its caller is in
    local reader = ring.open('op', 10)
    coroutine.wrap(function() return x:exp() end)()
    for event in reader:each() do assert.equal(-1, event.parent) end
    reader:close()
  end)

  it('keeps the first events of one reader while those of another go', function()
    local first = ring.open('op', 257, require('ridge.ffi.lib').RG_READ_FIRST) -- a chunk and one
    local last = ring.open('op', 10)
    for _ = 1, 3000 do x:exp() end
    local n = 0
    for _ in first:each() do n = n + 1 end
    assert.same({ 257, 3000 - 257 }, { n, first:facts().dropped })
    first:close()
    last:close()
  end)

  it('holds no module behind its call', function()
    local seen = setmetatable({}, { __mode = 'k' })
    do
      local own = network()
      seen[own] = true
      ridge.profile(function() own(x) end)
      ridge.capture(function() return own(x) end)
      own = nil -- luacheck: ignore
    end
    network()(x) -- modules remember the last ones that were called
    for _ = 1, 3 do collectgarbage() end
    assert.is_nil(next(seen))
  end)

  it('is bounded, and says what is gone', function()
    local reader = ring.open('op', 100)
    for _ = 1, 2000 do local _ = x + 1 end
    local facts, n = reader:facts(), 0
    for event in reader:each() do
      assert.equal('add', event.name)
      n = n + 1
    end
    assert.equal(2000, facts.seen)
    assert.equal(2000 - n, facts.dropped)
    assert.is_true(n >= 100 and n < 1000)
    reader:close()
    reader = ring.open('op', 100) -- what is gone are the first ones
    local _ = x * 2
    for _ = 1, 2000 do local _ = x + 1 end
    _ = x:exp()
    local first, last
    for event in reader:each() do
      first, last = first or event.name, event.name
    end
    assert.same({ 'add', 'exp' }, { first, last })
    reader:close()
    assert.equal(0, #ridge.profile(function() end).calls)
  end)

  it('knows no end of what goes on', function()
    local reader = ring.open('range', 100)
    local ends = {}
    local function look()
      for event in reader:each() do ends[#ends + 1] = event.end_ns or 'none' end
    end
    local Looking = nn.class 'Looking'
    function Looking.forward(_, a)
      look()
      return a
    end
    ranges.WANTED.on()
    Looking()(x)
    ranges.WANTED.off()
    look()
    reader:close()
    assert.equal('none', ends[1])
    assert.equal(2, #ends)
    assert.is_number(ends[2])
  end)

  it('hears memory where somebody asks', function()
    local reader = ring.open('alloc free', 10000)
    local y = ridge.ones(1000)
    y:release()
    local kinds = {}
    for event in reader:each() do -- the collector may give back others
      if event.bytes == 4000 then kinds[#kinds + 1] = event.kind end
    end
    assert.same({ 'alloc', 'free' }, kinds)
    reader:close()
  end)
end)

describe('a timeline', function()
  it('knows shapes and modules, and plans as one span', function()
    local net, x = network(), ridge.randn(3, 6)
    local plan = ridge.capture(function() return net(x) end)
    local t = ridge.timeline(function()
      net(x)
      plan:run(5)
    end)
    assert.same({ STEPS[1], STEPS[2], STEPS[3], 'plan - -' }, told(t.spans))
    assert.equal(0, t.lost)
  end)

  it('lies on streams, each with its spans and the time it was busy', function()
    local x = ridge.randn(64, 64)
    local t = ridge.timeline(function() return x:matmul(x):exp() end)
    local rows = t:streams()
    assert.equal(1, #rows)
    assert.same(t.spans, rows[1].spans)
    local busy = 0
    for _, span in ipairs(t.spans) do busy = busy + span.end_s - span.begin_s end
    assert.is_true(busy > 0)
    assert.near(busy, rows[1].busy_s, 1e-9)
  end)

  it('is drawn to scale, from the first call to the end of the last', function()
    local x = ridge.randn(64, 64)
    local t = ridge.timeline(function() return x:matmul(x):exp() end)
    assert.equal(2, #t.spans)
    t.spans[1].begin_s, t.spans[1].end_s = 10, 10.125
    t.spans[2].begin_s, t.spans[2].end_s = 10.25, 10.5
    local text = t:text(8)
    assert.matches('^timeline of 2 calls, 500%.000 ms\n', text)
    assert.truthy(text:find(' |##..####| busy 375.000 ms', 1, true), text)
  end)

  it('inside a profile that hears steps has none of them', function()
    local x = ridge.randn(3)
    local plan = ridge.capture(function() return x:exp() end)
    local t
    local p = ridge.profile(function() t = ridge.timeline(function() plan:run(2) end) end)
    assert.equal(1, #t.spans)
    assert.equal(2, p.steps[1].calls)
  end)
end)

describe('on a device', function()
  local simulated = dofile 'tests/lua/simulated.lua'
  if not simulated.open() then
    return it('is nothing here', function() pending 'no nvcc: no simulated device was built' end)
  end
  local GPU = 'sim:0'

  it('a profile replays a CUDA graph step by step, and says so', function()
    local net = nn.Sequential(nn.Linear(6, 5, { seed = 1 }), nn.Linear(5, 4, { seed = 2 })):to(GPU)
    local x = ridge.randn(3, 6):to(GPU)
    local generator = ridge.generator(7)
    local plan = ridge.capture(function()
      return ridge.no_grad(net, x):dropout(0.5, generator)
    end)
    plan:run(3)
    assert.is_true(plan:facts().device_graph)
    local was = generator:state()
    local function drawn(f) -- with the same numbers
      generator:load_state(was)
      f()
      return plan.results[1]:to('cpu'):tolist()
    end
    local as_graph = drawn(function() plan:run(2) end)
    local p
    local by_steps = drawn(function() p = ridge.profile(function() plan:run(2) end) end)
    assert.same(as_graph, by_steps)
    assert.equal(2, p.graphs)
    assert.matches('2 replays of CUDA graphs went step by step', p:text())
    p.graphs = 1
    assert.matches('1 replay of CUDA graphs went step by step', p:text())
    assert.equal(3, #p.steps)
    for i, step in ipairs(p.steps) do
      assert.equal(i < 3 and tostring(i) or nil, step.module)
      assert.is_true(step.device_ns >= 0)
      assert.equal(2, step.calls)
    end
    assert.is_true(plan:facts().device_graph)
    assert.same(as_graph, drawn(function() plan:run(2) end))
    local t = ridge.timeline(function() plan:run(2) end) -- of it a graph is one thing
    assert.equal(1, #t.spans)
    assert.equal('plan', t.spans[1].name)
    assert.equal(0, ridge.profile(function() return x:exp() end).graphs)
  end)

  it('a plan that was not a graph yet becomes one behind a profile', function()
    local x = ridge.randn(3, 6):to(GPU)
    local plan = ridge.capture(function() return x:softmax() end)
    local p = ridge.profile(function() plan:run(4) end)
    assert.equal(4, p.steps[1].calls)
    assert.equal(0, p.graphs)
    plan:run(3)
    assert.is_true(plan:facts().device_graph)
  end)

  it('waits are events of who hears them', function()
    local x = ridge.randn(3):to(GPU)
    local reader = ring.open('wait', 10)
    x:exp()
    ridge.device.wait(GPU)
    local n = 0
    for event in reader:each() do
      assert.equal(GPU, event.device)
      n = n + 1
    end
    assert.is_true(n >= 1)
    reader:close()
  end)
end)

-- SPDX-License-Identifier: MIT
-- What a profile's tables say: own and total time, layers, sections, a schedule, bottlenecks; and
-- what is kept of functions that raise, stop half-way or nest.

local ridge = require 'ridge'
local nn = ridge.nn
local ring = require 'ridge.ring'

local function network()
  return nn.Sequential(nn.Linear(64, 64, { seed = 1 }), nn.ReLU(), nn.Linear(64, 64, { seed = 2 }))
end

local function named(list, key)
  local by = {}
  for _, entry in ipairs(list) do by[entry[key or 'name']] = entry end
  return by
end

local function sum(list, field)
  local total = 0
  for _, entry in ipairs(list) do total = total + entry[field] end
  return total
end

local function training_step(net, x)
  local optimizer = ridge.optim.SGD(net, { lr = 1e-3 })
  return function()
    optimizer:zero_grad()
    net(x):square():mean():backward()
    optimizer:step()
  end
end

describe('own times', function()
  it('of layers, and of stacks, are all of the time', function()
    local step = training_step(network(), ridge.randn(32, 64))
    step()
    local p = ridge.profile(function() for _ = 1, 10 do step() end end)
    assert.is_true(math.abs(sum(p.layers, 'self_ns') / p.ns - 1) < 0.001)
    local stacks = 0
    for ns in p:folded():gmatch ' (%d+)\n' do stacks = stacks + tonumber(ns) end
    assert.is_true(math.abs(stacks / p.ns - 1) < 0.001)
    -- operations are counted once: all of them are in the layers
    local in_layers = 0
    for _, layer in ipairs(p.layers) do
      in_layers = in_layers + layer.forward_ns + layer.backward_ns
    end
    assert.equal(p.op_ns + p.copy_ns, in_layers)
    assert.equal(p.op_ns, sum(p.operations, 'self_ns'))
    assert.equal(p.op_ns, sum(p.calls, 'self_ns'))
    assert.is_true(p.op_ns < p.ns)
  end)

  it('of a convolution and of a transformer add up to what their steps take', function()
    local models = {
      { nn.Sequential(nn.Conv2d(1, 8, 3, { seed = 1 }), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(8 * 13 * 13, 10, { seed = 2 })), ridge.randn(32, 1, 28, 28) },
      { nn.TransformerBlock(64, { heads = 4 }), ridge.randn(8, 32, 64) },
    }
    for _, model in ipairs(models) do
      local step = training_step(model[1], model[2])
      local p = ridge.profile(function() step() end, { num_steps = 8, warmup = 3, active = 5 })
      local layers = 0 -- and what their gradients took
      for _, layer in ipairs(p.layers) do layers = layers + layer.self_ns end
      assert.is_true(math.abs(layers / p.ns - 1) < 0.05)
      -- most of a step is in its layers, or they would be nobody's
      local by, inside = named(p.layers), 0
      for name, layer in pairs(by) do
        if not name:find '^%(' then inside = inside + layer.self_ns end
      end
      assert.is_true(inside > 0.5 * p.ns)
    end
  end)

  it('of an operation made of several leave out what they are made of', function()
    local x = ridge.randn(16, 8, 6, 6)
    local net = nn.BatchNorm(8)
    local p = ridge.profile(function() net(x) end)
    local ranges = named(p.ranges)
    local range
    for name, entry in pairs(ranges) do if name:find 'norm' then range = entry end end
    assert.is_true(range.self_ns < range.ns)
    assert.is_true(p.op_ns <= p.ns)
  end)
end)

describe('layers', function()
  it('have calls, both passes, Lua, and the time with all that is in them', function()
    local net, x = network(), ridge.randn(32, 64)
    local p = ridge.profile(function() for _ = 1, 3 do net(x):mean():backward() end end)
    local by = named(p.layers)
    assert.equal(3, by['1'].calls)
    assert.equal(3, by['nn.Sequential'].calls)
    for _, name in ipairs { '1', '2', '3' } do
      local layer = by[name]
      assert.is_true(layer.forward_ns > 0 and layer.backward_ns > 0 and layer.lua_ns > 0)
      assert.equal(layer.self_ns, layer.forward_ns + layer.backward_ns + layer.lua_ns)
      assert.equal(layer.self_ns, layer.total_ns)
    end
    assert.near(by['nn.Sequential'].self_ns + by['1'].self_ns + by['2'].self_ns + by['3'].self_ns,
      by['nn.Sequential'].total_ns, 1)
    -- 2 a multiply-add: forward, and for weights and (of the third) inputs
    assert.equal(3 * 2 * 32 * 64 * 64, by['1'].parts[1].flops)
    assert.is_true(by['3'].flops > by['1'].flops)
  end)

  it('of a module that is used twice are one', function()
    local shared = nn.Linear(16, 16, { seed = 1 })
    local Twice = nn.class 'Twice'
    function Twice:init() self:child('shared', shared) end
    function Twice.forward(_, x) return shared(shared(x)) end
    local p = ridge.profile(function() Twice()(ridge.randn(4, 16)) end)
    assert.equal(2, named(p.layers).shared.calls)
    assert.equal(2, named(p.operations, 'op').linear.calls)
  end)
end)

describe('sections', function()
  it('are begun and ended, and nest', function()
    local x = ridge.randn(64, 64)
    local p = ridge.profile(function(p)
      p:start 'outer'
      x:exp()
      p:section('inner', function() x:matmul(x) end)
      p:stop 'outer'
      p:section('outer', function() -- in itself, for most of the time
        p:section('outer', function()
          local until_then = ridge.clock() + 0.02
          while ridge.clock() < until_then do x:sqrt() end
        end)
      end)
    end, { rows = 5 })
    local by = named(p.sections)
    assert.equal(2, by.outer.calls) -- as its time, which is divided by them
    assert.equal(1, by.inner.calls)
    assert.is_true(by.inner.ns < by.outer.ns)
    assert.is_true(by.outer.ns <= p.ns)
    assert.matches('section +calls +time', p:text())
    assert.matches('all;outer;inner;matmul %d', p:folded())
    assert.same({}, p.notes)
  end)

  it('leave the collector nothing where many come one after the other', function()
    local ranges, grown = require 'ridge.ranges', nil
    local function none() end
    local function many(n) for _ = 1, n do ranges.section('forward', none) end end
    jit.off(many) -- traces are memory, too
    ridge.profile(function()
      assert.is_true(ranges.on)
      many(10)
      collectgarbage 'stop'
      local before = collectgarbage 'count'
      many(1000)
      grown = collectgarbage 'count' - before
      collectgarbage 'restart'
    end)
    assert.is_true(grown < 24, grown .. ' KB')
  end)

  it('may be modules, as whatever is profiled may', function()
    local net, x = ridge.nn.Linear(8, 3), ridge.randn(2, 8)
    local p = ridge.profile(function(p)
      assert.same({ 2, 3 }, p:section('forward', net, x).shape)
      local ok, err = pcall(p.section, p, 'forward')
      assert.is_false(ok)
      assert.equal('profile:section: a name and a function are expected, got \'forward\' and nil',
        err.message)
    end, { rows = 5 })
    assert.equal(1, named(p.sections).forward.calls)
    assert.equal(1, named(ridge.profile(net, x).operations, 'op').linear.calls)
    assert.same({ 2, 3 }, ridge.profile_range('forward', net, x).shape)
    local Held = ridge.nn.class 'Held'
    function Held.forward() return x * 2 end
    assert.is_true(ridge.memory.peak_of(Held()) >= x.bytes)
  end)

  it('of loaders, backward passes and optimizers tell of themselves', function()
    local net = network()
    local optimizer = ridge.optim.SGD(net, { lr = 1e-3 })
    for _, workers in ipairs { 0, 1 } do
      local loader = ridge.data.Loader({ ridge.randn(64, 64) }, { batch = 16, workers = workers })
      local p = ridge.profile(function()
        for x in loader:each() do
          net(x):mean():backward()
          optimizer:step()
        end
      end)
      local by = named(p.sections)
      assert.equal(4, by.backward.calls)
      assert.equal(4, by.optimizer_step.calls)
      assert.is_true(by.data_loading.calls >= 4)
    end
  end)

  it('of the Trainer are five', function()
    local net = nn.Sequential(nn.Linear(8, 3, { seed = 1 }))
    local loader = ridge.data.Loader({ ridge.randn(32, 8), ridge.zeros(32, { dtype = 'i64' }) },
      { batch = 8 })
    local trainer = ridge.Trainer(net, { loss = nn.cross_entropy,
      optimizer = ridge.optim.SGD(net, { lr = 1e-3 }), say = function() end })
    local p = ridge.profile(function() trainer:fit(loader, { epochs = 1 }) end)
    local by = named(p.sections)
    for _, name in ipairs { 'data_loading', 'forward', 'loss_computation', 'backward',
        'optimizer_step' } do
      assert.is_truthy(by[name], name)
      assert.is_true(by[name].calls >= 4, name)
    end
  end)

  it('of the user around those that are told anyway are one call, with a mean of their time',
    function()
    local layer, x = nn.Linear(8, 4), ridge.randn(4, 8)
    local p = ridge.profile(function(q)
      for _ = 1, 3 do
        local y = layer(x):sum()
        q:start 'backward'
        y:backward()
        q:stop 'backward'
      end
    end, { lines = false })
    local by = named(p.sections)
    assert.equal(3, by.backward.calls)
    local each = require('ridge.show.unit').format('ns', by.backward.ns / 3)
    assert.matches('%%  +' .. each, p:table { by = 'section' })
  end)

  it('that are stopped in the wrong order, or not open, are mistakes', function()
    local function message(f)
      local ok, err = pcall(ridge.profile, f, { rows = 1 })
      assert.is_false(ok)
      return tostring(err)
    end
    assert.matches("'b' is the section to stop first", message(function(p)
      p:start 'a'
      p:start 'b'
      p:stop 'a'
    end))
    assert.matches('no section is open', message(function(p) p:stop() end))
    assert.matches("no section is open, so not 'a'", message(function(p) p:stop 'a' end))
    assert.matches('a name is expected', message(function(p) p:start() end))
    local p = ridge.profile(function() end, { rows = 1 })
    assert.matches('it has ended', tostring(select(2, pcall(p.start, p, 'a'))))
  end)

  it('that stay open are ended with the profile, which says so', function()
    local x = ridge.randn(8)
    local p = ridge.profile(function(p)
      p:start 'a'
      p:start 'b'
      x:exp()
    end, { rows = 1 })
    assert.same({ "'a', 'b' were open at the end" }, p.notes)
    assert.equal(1, named(p.sections).b.calls)
    assert.matches("%('a', 'b' were open at the end%)", p:text())
    -- and nothing after is in them
    local reader = ring.open('op', 10)
    x:exp()
    for event in reader:each() do assert.equal(-1, event.parent) end
    reader:close()
  end)

  it('that are ended within a module leave its place as it is', function()
    local Ends = nn.class 'Ends'
    local profile
    function Ends.forward(_, x)
      profile:stop()
      return x:exp()
    end
    local p = ridge.profile(function(p)
      profile = p
      p:start 'before'
      local y = Ends()(ridge.ones(3))
      return y:sqrt()
    end, { rows = 1 })
    local by = named(p.calls, 'op')
    assert.equal('Ends', by.exp.module)
    assert.is_nil(by.sqrt.module)
  end)
end)

describe('a schedule', function()
  local x = ridge.randn(8)

  local function steps(n)
    return function(p)
      for _ = 1, n do
        x:exp()
        p:step()
      end
    end
  end

  it('waits, warms up, measures, and does so again', function()
    local p = ridge.profile(steps(100), { wait = 10, warmup = 10, active = 20 })
    assert.equal(20, named(p.operations, 'op').exp.calls)
    p = ridge.profile(steps(100), { wait = 3, warmup = 1, active = 2, repeats = 4 })
    assert.equal(8, named(p.operations, 'op').exp.calls)
    assert.equal(4, #p.windows)
    p = ridge.profile(steps(100), { wait = 3, warmup = 1, active = 1, repeats = 0 })
    assert.equal(20, named(p.operations, 'op').exp.calls)
    assert.same({}, p.notes)
  end)

  it('calls the function so often, each a step', function()
    local seen = {}
    local p = ridge.profile(function(_, i)
      seen[#seen + 1] = i
      x:exp()
    end, { num_steps = 100, wait = 10, warmup = 10, active = 20 })
    assert.equal(100, #seen)
    assert.equal(100, seen[100])
    assert.equal(20, named(p.operations, 'op').exp.calls)
    p = ridge.profile(function(q) x:exp() q:step() end, { num_steps = 6, active = 3 })
    assert.equal(3, named(p.operations, 'op').exp.calls) -- its own step is not counted twice
    p = ridge.profile(function() x:exp() end, { num_steps = 5 })
    assert.equal(5, named(p.operations, 'op').exp.calls)
  end)

  it('has the time of the measured steps only', function()
    local function long() local until_then = ridge.clock() + 0.05
      while ridge.clock() < until_then do x:exp() end
    end
    local p = ridge.profile(function(_, i) if i <= 2 then long() else x:exp() end end,
      { num_steps = 3, wait = 1, warmup = 1, active = 1 })
    assert.equal(1, named(p.operations, 'op').exp.calls)
    assert.is_true(p.ns < 5e7)
  end)

  it('that ends before its steps says how many there were', function()
    local p = ridge.profile(steps(15), { wait = 5, warmup = 5, active = 20 })
    assert.equal(5, named(p.operations, 'op').exp.calls)
    assert.same({ '5 of 20 steps were measured: it ended behind step 15' }, p.notes)
    assert.matches('5 of 20 steps were measured', p:text())
    p = ridge.profile(steps(3), { active = 2 ^ 53, repeats = 2 ^ 53 })
    assert.matches('^3 of 81129638414606681695789005144064 steps were', p.notes[1])
    p = ridge.profile(steps(3), { wait = 5, active = 1 })
    assert.equal(0, #p.operations)
    assert.equal(0, p.ns)
    assert.matches('0 of 1 step', p:text())
    for _, by in ipairs { 'operation', 'call', 'layer', 'section', 'lua' } do -- of no time no share
      assert.is_nil(p:table({ by = by }):find('nan', 1, true))
    end
    assert.is_nil(p:text():find('nan', 1, true))
    assert.is_nil(tostring(p):find('nan', 1, true))
    p = ridge.profile(steps(3), { wait = 3, active = 2, repeats = 0 }) -- until it ends: too early
    assert.same({ '0 of 2 steps were measured: it ended behind step 3' }, p.notes)
    p = ridge.profile(steps(6), { wait = 3, active = 2, repeats = 0 })
    assert.same({}, p.notes)
  end)

  it('without active steps is a mistake', function()
    local ok, err = pcall(ridge.profile, steps(1), { wait = 5 })
    assert.is_false(ok)
    assert.matches('active is missing', tostring(err))
    ok, err = pcall(ridge.profile, steps(1), { activ = 5 })
    assert.is_false(ok)
    assert.matches('active', tostring(err))
  end)
end)

describe('what was measured is kept', function()
  local x = ridge.randn(64, 64)

  it('of a function that raises', function()
    local failure = setmetatable({}, { __tostring = function() return 'on purpose' end })
    local ok, err = pcall(ridge.profile, function()
      ridge.profile_range('part', function()
        x:matmul(x)
        error(failure)
      end)
    end)
    assert.is_false(ok)
    assert.equal(failure, err) -- as it was raised
    local p = ridge.last_profile()
    assert.equal('on purpose', p.failed)
    assert.equal(1, named(p.operations, 'op').matmul.calls)
    assert.equal(1, named(p.sections).part.calls)
    assert.matches('^it raised: on purpose\n%(this is what was measured until then%)\n',
      p:text())
    ridge.profile(function() end)
    assert.is_nil(ridge.last_profile().failed)
  end)

  it('of one that profiles itself', function()
    local inner
    local function f(depth)
      x:exp()
      if depth > 0 then
        local p = ridge.profile(function() f(depth - 1) end)
        inner = inner or p
      end
    end
    local outer = ridge.profile(function() f(3) end)
    assert.equal(4, named(outer.operations, 'op').exp.calls)
    assert.equal(1, named(inner.operations, 'op').exp.calls)
  end)

  it('of a long run as far as there is room, and it says what is gone', function()
    local p = ridge.profile(function()
      x:matmul(x)
      for _ = 1, 5000 do local _ = x + 1 end
    end, { bytes = 2 ^ 16, rows = 5 })
    assert.is_true(p.full)
    local there = sum(p.operations, 'calls')
    assert.equal(5001, there + p.dropped)
    assert.is_nil(named(p.operations, 'op').matmul)
    assert.is_true(p.copy.bytes < 2 ^ 18)
    assert.is_true(p.ns < p.all_ns) -- shares are of the time of those that are there
    assert.is_true(p.op_ns <= p.ns and p.op_ns > 0)
    assert.matches('are gone', p:text())
    assert.matches('this is the last', p:text())
  end)

  it('of a coroutine without what others do while it waits', function()
    local y, p = ridge.randn(4), nil
    local go = coroutine.wrap(function()
      p = ridge.profile(function()
        y:relu()
        coroutine.yield()
        y:relu()
      end)
    end)
    go()
    for _ = 1, 3 do x:exp() end
    go()
    assert.equal(2, named(p.operations, 'op').relu.calls)
    assert.is_nil(named(p.operations, 'op').exp)
  end)

  it('of more profiles than a ring has readers', function()
    local all = {}
    for i = 1, 40 do all[i] = ridge.profile(function() x:exp() end) end
    for i = 1, 40 do assert.equal(1, all[i].operations[1].calls) end
    for i = 1, 40 do assert.matches('exp', all[i]:folded()) end
  end)

  it('of bottlenecks asked for more often than a ring has readers, and nothing is collected',
    function()
    local p = ridge.profile(function() x:exp() end, { roof = 'none' })
    collectgarbage 'stop'
    local ok, err = pcall(function()
      for _ = 1, 30 do p:bottlenecks { threshold = 0 } end
    end)
    collectgarbage 'restart'
    assert(ok, err)
  end)

  it('of more within each other than a ring has readers, whose innermost is refused', function()
    local function nest(n)
      x:exp()
      if n > 0 then ridge.profile(nest, n - 1) end
    end
    local ok, err = pcall(ridge.profile, function() nest(30) end)
    assert.is_false(ok)
    assert.matches('tables_spec.lua:%d+: ring: 24 profiles, timelines or traces are under way',
      tostring(err))
    local p = ridge.last_profile()
    assert.matches('ring: 24 profiles', p.failed)
    local exps = named(p.operations, 'op').exp.calls
    assert.is_true(exps >= 20 and exps <= 24, exps)
    assert.equal(1, ridge.profile(function() x:exp() end).operations[1].calls)
  end)
end)

describe('tables', function()
  local x = ridge.randn(128, 128)
  local p = ridge.profile(function()
    x:matmul(x)
    for _ = 1, 5 do x:exp() end
    for _ = 1, 3 do ridge.ones(2):sqrt() end
  end)

  local function order(given)
    local names = {}
    for line in (p:table(given) .. '\n'):gmatch '([^\n]*)\n' do
      local name = line:match '^(%l+) '
      if name and name ~= 'operation' and name ~= 'everything' then names[#names + 1] = name end
    end
    return names
  end

  it('are sorted by what is asked for, and cut', function()
    assert.equal('exp', order { sort = 'calls' }[1])
    assert.equal('matmul', order { sort = 'flops' }[1])
    assert.same({ 'exp', 'fill', 'matmul', 'sqrt' }, order { sort = 'name' })
    assert.equal(2, #order { sort = 'bytes', rows = 2 })
    assert.matches('%(and 2 operations more%)', p:table { rows = 2 })
    assert.matches('matmul .* f32%[128,1', p:table { by = 'call', rows = 3, sort = 'flops' })
    local ok, err = pcall(p.table, p, { sort = 'colour' })
    assert.is_false(ok)
    assert.matches('sort', tostring(err))
  end)

  it('have what was achieved', function()
    local op = named(p.operations, 'op').matmul
    assert.near(op.flops / op.ns, op.gflops, 1e-9)
    assert.near(op.bytes / op.ns, op.gbps, 1e-9)
    assert.near(op.ns / p.ns, op.share, 1e-9)
    assert.equal('cpu', op.device)
  end)
end)

describe('bottlenecks', function()
  -- A profile whose roofs are given: 100 GFLOP/s, and 10 GB/s from anywhere.
  local function under(p, flops, bytes)
    p.roof_known = { by_name = { ['fma.f32'] = { value = flops }, ['bw.dram'] = { value = bytes } },
      machine = {} }
    return p
  end

  it('are none where nothing was called: there is nothing to call less often', function()
    local p = ridge.profile(function() return 1 + 1 end)
    for _, found in ipairs(p:bottlenecks { threshold = 0 }) do
      assert.equal('waiting for a device', found.what) -- at its end it does, whatever was called
    end
  end)

  it('are told with the reason that the numbers say', function()
    local x = ridge.randn(384, 384)
    local p = ridge.profile(function() for _ = 1, 5 do x:matmul(x) end end)
    local op = named(p.operations, 'op').matmul
    local flops, bytes = op.flops / op.ns * 1e9, op.bytes / op.ns * 1e9 -- what it did reach
    local found = under(p, 1.25 * flops, 100 * bytes):bottlenecks()[1]
    assert.equal('compute', found.reason)
    assert.near(0.8, found.of_roof, 0.01)
    assert.matches('^matmul', found.what)
    found = under(p, 100 * flops, 1.25 * bytes):bottlenecks()[1]
    assert.equal('bandwidth', found.reason)
    found = under(p, 100 * flops, 100 * bytes):bottlenecks()[1]
    assert.equal('path', found.reason)
    p.roof_known = false
    assert.equal('unknown', p:bottlenecks()[1].reason)
  end)

  it('of calls with next to nothing to do is calling', function()
    local x = ridge.ones(1)
    local p = ridge.profile(function() for _ = 1, 200 do local _ = x + 1 end end)
    for _, found in ipairs(p:bottlenecks()) do assert.equal('launch', found.reason) end
    assert.is_true(#p:bottlenecks() > 0)
  end)

  it('of a loader that is slow is waiting for data', function()
    local x = ridge.randn(8)
    local p = ridge.profile(function(p)
      p:section('data_loading', function()
        local until_then = ridge.clock() + 0.05
        while ridge.clock() < until_then do x:exp() end
      end)
      x:exp()
    end, { rows = 1 })
    local found = p:bottlenecks()[1]
    assert.equal('data', found.reason)
    assert.equal('(data_loading)', found.what)
  end)

  it('are at most so many, above a share', function()
    local x = ridge.randn(128, 128)
    local p = ridge.profile(function()
      x:matmul(x)
      x:exp()
      x:softmax()
    end)
    assert.equal(1, #p:bottlenecks { threshold = 0, top = 1 })
    assert.equal(0, #p:bottlenecks { threshold = 1 })
    local all = p:bottlenecks { threshold = 0, top = 100 }
    for i = 2, #all do assert.is_true(all[i].share <= all[i - 1].share) end
  end)

  it('name what is there', function()
    local known = named((function()
      local list = {}
      for _, try in pairs(require('ridge.profile.tries').ALL) do
        list[#list + 1] = { name = try[1] .. ' ' .. try[2] }
      end
      return list
    end)())
    for text in pairs(known) do
      for path in text:gmatch 'ridge%.([%a_.]+)' do
        local value = ridge
        for key in path:gsub('%.$', ''):gmatch '[^.]+' do value = value[key] end
        assert.is_truthy(value, path)
      end
      local recipe = text:match 'recipes/%l+%.lua'
      if recipe then assert(io.open(recipe)):close() end
      for command in text:gmatch 'ridge ([%l-]+) ' do
        assert.is_truthy(command == 'recipes' or require('ridge.cli.commands').find(command),
          command)
      end
    end
  end)
end)

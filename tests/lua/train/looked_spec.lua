-- SPDX-License-Identifier: MIT
--- What a trainer looks at while it trains, number by number: what debugging says and writes, with
--- operations and memory by hand; what is in force; the manager's numbers of the machine.

local canonical = require 'ridge.store.canonical'
local folders = dofile 'tests/lua/store/folder.lua'
local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local ridge = require 'ridge'
local nn, optim = ridge.nn, ridge.optim

local function batches(n, rows)
  local list = {}
  for i = 1, n do
    list[i] = { ridge.randn(rows, 3, { generator = ridge.generator(i) }),
      ridge.zeros(rows, { dtype = 'i64' }) }
  end
  return { each = function()
    local i = 0
    return function()
      i = i + 1
      if list[i] then return list[i][1], list[i][2] end
    end
  end }
end

local function fitted(n, epochs, opts)
  local net, said = nn.Linear(3, 2, { seed = 1 }), {}
  opts.optimizer = optim.SGD(net, { lr = 0.5 })
  opts.log_every = 0
  function opts.say(line)
    if not line:find '^epoch' and not line:find '^allocated' then said[#said + 1] = line end
  end
  local t = ridge.Trainer(net, opts)
  t:fit(batches(n, 4), { epochs = epochs })
  return t, said
end

describe('debugging', function()
  local folder

  before_each(function() folder = folders.new() end)
  after_each(function() folders.remove(folder) end)

  local function read()
    local file = assert(io.open(folder .. '/debug.json'))
    local text = file:read '*a'
    file:close()
    return canonical.decode(text)
  end

  it('profiles the second batch, tells ten operations and keeps them', function()
    local profile = require 'ridge.profile'
    local real, calls = profile.profile, {}
    finally(function() profile.profile = real end)
    local operations = {}
    for i = 1, 12 do
      operations[i] = { op = 'op' .. i, path = 'path' .. i, calls = i, ns = 13e6 - i * 1e6 }
    end
    function profile.profile(f)
      calls[#calls + 1] = f
      f()
      return { operations = operations }
    end
    local t, said = fitted(4, 2,
      { debug = { profile = true, output_dir = folder, max_iterations = 6 } })
    assert.are.equal(1, #calls)
    local lines = {}
    for i = 1, 10 do
      lines[i] = ('%-20s %6d calls  %10.3f ms'):format('op' .. i, i, 13 - i)
    end
    assert.matches('^debugging has ended after 6 batches and %d+%.%d s$', said[11])
    said[11] = nil
    assert.same(lines, said)
    local found, ten = read(), {}
    for i = 1, 10 do ten[i] = { op = 'op' .. i, path = 'path' .. i, calls = i, ms = 13 - i } end
    assert.same(ten, found.operations)
    assert.same({ 6, 0, 0, nil }, { found.batches, #found.checks, #found.memory, found.failed })
    assert.are.equal(6, t.debug.batches)
  end)

  it('checks gradients of the first batch alone, with their names', function()
    local calls = 0
    local function loss(output, labels)
      calls = calls + 1
      return nn.cross_entropy(output, labels)
    end
    local t, said = fitted(3, 1, { loss = loss,
      debug = { grad_check = true, output_dir = folder } })
    -- three batches, one for the gradients, both ends of two parameters
    assert.are.equal(3 + 1 + 2 * 2, calls)
    assert.are.equal(2, #said)
    local found = read()
    for i, name in ipairs { 'weight', 'bias' } do
      local c = found.checks[i]
      assert.are.equal(name, c.name)
      assert.is_true(math.abs(c.difference / c.gradient - 1) < 0.01)
      assert.are.equal(('gradient of %s: norm %.4g, by differences %.4g'):format(name, c.gradient,
        c.difference), said[i])
    end
    assert.are.equal(3, t.debug.batches)
  end)

  it('keeps bytes of the steps that it looks at, and says them where that is wanted', function()
    local memory = ridge.memory
    local stats, n = memory.stats, 0
    finally(function() memory.stats = stats end)
    function memory.stats(...)
      local found = stats(...)
      n = n + 1
      found.live, found.peak = 1000 + n, 2000 + n
      return found
    end
    local t, said = fitted(5, 1, { accumulate = 2, debug = { memory = true, level = 'debug',
      max_iterations = 3, output_dir = folder } })
    -- the step that the last batch is part of is looked at, and no more
    assert.are.equal(3, #t.curve)
    local rows = {}
    for i = 1, 2 do
      local row = t.curve[i]
      assert.are.equal(1000, row.peak_bytes - row.live_bytes)
      rows[i] = { step = i, live_bytes = row.live_bytes, peak_bytes = row.peak_bytes }
      assert.are.equal(('step %d  %.3f s  loss %.6g'):format(i, row.seconds, row.loss), said[i])
    end
    assert.is_nil(t.curve[3].live_bytes)
    assert.matches('^debugging has ended after 3 batches', said[3])
    assert.are.equal(3, #said)
    assert.same(rows, read().memory)
  end)

  it('writes what failed, by its sentence alone', function()
    local blame = require 'ridge.blame'
    for _, case in ipairs { { function() blame.raise('no way', 'EARG') end, 'no way' },
        { function() error('a fault', 0) end, 'a fault' } } do
      assert.is_false((pcall(fitted, 1, 1, { loss = case[1], debug = { output_dir = folder } })))
      assert.are.equal(case[2], read().failed)
    end
  end)

  it('lets no more memory be taken than its share, and gives the limit back', function()
    local limits, memory, set = {}, ridge.memory, ridge.memory.set_limit
    finally(function()
      memory.set_limit = set
      set(0)
    end)
    set(123456789)
    function memory.set_limit(bytes, device)
      limits[#limits + 1] = { bytes, device }
      return set(bytes, device)
    end
    fitted(2, 1, { debug = { memory_fraction = 0.75, max_iterations = 1 } })
    local facts = ffi.new 'rg_device_facts'
    require('ridge.ffi.call').check(C.rg_device_facts_of(0, facts))
    assert.same({ { math.floor(0.75 * tonumber(facts.memory_bytes)), 'cpu' },
      { 123456789, 'cpu' } }, limits)
  end)
end)

describe('a trainer', function()
  it('says of itself what is in force', function()
    local function status(opts)
      local t = fitted(3, 2, opts)
      local s = t:status()
      assert.same({ 2, #t.curve, t.best }, { s.epoch, s.steps, s.best })
      return s.config
    end
    local plain = { mixed_precision = false, compile_enabled = false, plans = 0, accumulate = 1,
      mini_batch_size = false, effective_batch_size = false, parts = 1, clip = false,
      stability = false, level = false }
    local function with(more)
      local out = {}
      for name, value in pairs(plain) do out[name] = value end
      for name, value in pairs(more) do out[name] = value end
      return out
    end
    assert.same(plain, status {})
    assert.same(with { clip = 0.5, accumulate = 2, mixed_precision = 'bf16', level = 'basic' },
      status { clip = 0.5, accumulate = 2, autocast = 'bf16', level = 'basic' })
    assert.same(with { compile_enabled = true, plans = 1, mini_batch_size = 4, accumulate = 3,
      effective_batch_size = 12, stability = 'Stability(optim.Guard(detect), no clipping; '
        .. '2 of 2 steps taken)' }, status { compile = true, mini_batch_size = 4,
      effective_batch_size = 12, stability = {} })
  end)

  it('counts hits over all rows where a loss says nothing of labels that count', function()
    local net = nn.Linear(3, 2, { seed = 1 })
    local t = ridge.Trainer(net, { optimizer = optim.SGD(net, { lr = 0 }), say = function() end,
      loss = function(output) return output:square():mean() end })
    local x, y = ridge.randn(7, 3), ridge.zeros(7, { dtype = 'i64' })
    local wanted = net(x)
    local hits = 7 - wanted:argmax(2):to('f64'):sum():item()
    local loss, accuracy = t:validate(ridge.data.Loader({ x, y }, { batch = 3, shuffle = false }))
    assert.near(hits / 7, accuracy, 1e-12)
    assert.near(wanted:square():mean():item(), loss, 1e-6)
  end)

  it('makes a loader of the tensors that it is given, anew where they are others', function()
    local net = nn.Linear(3, 2, { seed = 1 })
    local t = ridge.Trainer(net, { optimizer = optim.SGD(net, { lr = 0 }), say = function() end,
      shuffle = false })
    local x, y = ridge.randn(4, 3), ridge.zeros(4, { dtype = 'i64' })
    t:fit({ x, y }, { epochs = 1 })
    local made = t.loader
    t:fit({ x, y }, { epochs = 2 })
    assert.are.equal(made, t.loader)
    local other = x * 100
    t:fit({ other, y }, { epochs = 3 })
    assert.are_not.equal(made, t.loader)
    assert.near(nn.cross_entropy(net(other), y):item(), t.history[3].loss, 1e-5)
    t:fit({ other, ridge.ones(4, { dtype = 'i64' }) }, { epochs = 4 })
    assert.near(nn.cross_entropy(net(other), ridge.ones(4, { dtype = 'i64' })):item(),
      t.history[4].loss, 1e-4)
  end)
end)

describe('the manager', function()
  it('keeps a loss as it is given where it is not looked at', function()
    local net = nn.Linear(3, 2, { seed = 1 })
    local s = ridge.Stability(optim.SGD(net, { lr = 0.5 }), { loss_checking = false })
    assert.are.equal(0.5, s:step(0.5).loss)
    assert.is_nil(s:step(ridge.full(0 / 0)).loss)
    assert.is_nil(s:step().loss)
    assert.are.equal(1 / 0, s:step(1 / 0).loss)
    assert.are.equal(4, s:summary().taken)
  end)

  it('has numbers of the machine, and a mean that old states lead to', function()
    local net = nn.Linear(3, 2, { seed = 1 })
    local o = optim.SGD(net, { lr = 0.5 })
    local memory = ridge.memory
    local stats = memory.stats
    finally(function() memory.stats = stats end)
    function memory.stats() return { live = 3 * 2 ^ 20, peak = 5 * 2 ^ 20 } end
    local s = ridge.Stability(o)
    net(ridge.ones(1, 3)):sum():backward()
    local found = s:step().performance_metrics
    local facts = ffi.new 'rg_device_facts'
    require('ridge.ffi.call').check(C.rg_device_facts_of(0, facts))
    assert.is_true(found.step_ms > 0)
    found.step_ms = nil
    assert.same({ memory_mb = 3, peak_memory_mb = 5,
      memory_usage_percent = 100 * 3 * 2 ^ 20 / tonumber(facts.memory_bytes) }, found)
    local state = s:state()
    state.steps, state.taken, state.scores = 4, 3, nil
    state.history = {}
    assert.are.equal(1, s:load_state(state):summary().mean_score)
    state.history = { { score = 0.25 }, { score = 0.75 } }
    assert.are.equal(0.5, s:load_state(state):summary().mean_score)
    assert.are.equal(2, #s.history)
    state.scores = 3
    assert.are.equal(0.75, s:load_state(state):summary().mean_score)
    local short = ridge.Stability(o, { history = 1 })
    assert.same({ { score = 0.75 } }, short:load_state(state).history)
    assert.are.equal(0, #ridge.Stability(o, { history = 0 }):load_state(state).history)
  end)
end)

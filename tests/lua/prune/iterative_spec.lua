-- SPDX-License-Identifier: MIT
-- Pruning in steps: schedules beside their formulas, zeros that stay, and the control.
local ridge = require 'ridge'
local nn = ridge.nn

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

local function zeros(x) return x:eq(0):to('i64'):sum():item() end

-- Two classes of points, told apart by two of sixteen numbers.
local function data(seed, n)
  local x = ridge.randn(n, 16, { generator = ridge.generator(seed) })
  local sum = x:narrow(2, 1, 1):add(x:narrow(2, 2, 1)):reshape(n)
  return x, sum:gt(0):to 'i64'
end

local function net_of(seed)
  ridge.seed(seed)
  return nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 2))
end

local x, labels = data(1, 256)

local optimizers = {}
local function train(net, epochs)
  -- one optimizer for all rounds: its moments are those of before the last masks
  optimizers[net] = optimizers[net] or ridge.optim.Adam(net, { lr = 0.02, weight_decay = 1e-3 })
  for _ = 1, epochs do
    optimizers[net]:zero_grad()
    nn.cross_entropy(net(x), labels):backward()
    optimizers[net]:step()
  end
end

local test_x, test_labels = data(2, 400)
local test = ridge.data.Loader({ test_x, test_labels }, { batch = 100, shuffle = false })

describe('prune.Scheduler', function()
  local function list(opts)
    local s, out = ridge.prune.Scheduler(opts), {}
    for i = 0, s.steps + 1 do out[i + 1] = s:at(i) end
    return out
  end

  local function near(expected, found)
    assert.equal(#expected, #found)
    for i, v in ipairs(expected) do assert.is_true(math.abs(v - found[i]) < 1e-12, found[i]) end
  end

  it('is what its formulas say, and ends exactly at the target', function()
    near({ 0, 0.2, 0.4, 0.6, 0.8, 0.8 }, list { target = 0.8, steps = 4, shape = 'linear' })
    near({ 0, 0.8 - 0.8 * 27 / 64, 0.8 - 0.1, 0.8 - 0.8 / 64, 0.8, 0.8 },
      list { target = 0.8, steps = 4, shape = 'cubic' })
    near({ 0, 0.5, 0.75, 0.875, 0.875 }, list { target = 0.875, steps = 3,
      shape = 'exponential' })
    near({ 0.2, 0.5, 0.8, 0.8 }, list { target = 0.8, steps = 2, start = 0.2, shape = 'linear' })
    near({ 0.5, 0.75, 0.875, 0.875 }, list { target = 0.875, steps = 2, start = 0.5,
      shape = 'exponential' })
    assert.equal(0.7, ridge.prune.Scheduler { target = 0.7, steps = 3 }:at(3))
  end)

  it('refuses targets that are none', function()
    for _, bad in ipairs { 0, 1, 0 / 0, 1.5 } do
      assert.truthy(failure(ridge.prune.Scheduler, { target = bad })
        :find('more than 0 and less than 1', 1, true))
    end
    assert.truthy(failure(ridge.prune.Scheduler, { target = 0.5, start = 0.5 })
      :find('less than the target', 1, true))
    assert.truthy(failure(ridge.prune.Scheduler, { target = 0.5, steps = 0 })
      :find('steps', 1, true))
    local s = ridge.prune.Scheduler { target = 0.5 }
    assert.truthy(failure(s.at, s, 1.5):find('whole number', 1, true))
  end)
end)

describe('prune.iterative', function()
  local schedule = ridge.prune.Scheduler { target = 0.75, steps = 3, shape = 'cubic' }

  it('ends with the zeros of its target, each of which was trained around', function()
    local net = net_of(1)
    train(net, 30)
    local before, seen = net[1].weight:clone(), {}
    local m, report = ridge.prune.iterative(net, { schedule = schedule, epochs = 10,
      train = function(t, epochs)
        seen[#seen + 1] = zeros(t[1].weight) + zeros(t[3].weight)
        assert.is_true(t.training)
        train(t, epochs)
        seen[#seen + 1] = zeros(t[1].weight) + zeros(t[3].weight)
      end })
    local n = 16 * 24 + 24 * 2
    for step = 1, 3 do
      local expected = math.floor(schedule:at(step) * n + 0.5)
      assert.equal(expected, seen[2 * step - 1])
      assert.equal(expected, seen[2 * step])
      assert.equal(expected, report.rows[step].zeros)
    end
    assert.equal(0.75 * n, zeros(m[1].weight) + zeros(m[3].weight))
    assert.equal(0.75 * n, zeros(m:state()['1.weight']) + zeros(m:state()['3.weight']))
    assert.equal(0, (net[1].weight - before):abs():max():item())
    assert.truthy(tostring(report):find('nothing is known of what it cost', 1, true))
  end)

  it('trains a net that came in evaluation mode, and hands it back in its own', function()
    for _, training in ipairs { false, true } do
      local seen = {}
      local m = ridge.prune.iterative(net_of(3):train(training), { schedule = schedule,
        train = function(t)
          seen[#seen + 1] = t.training
          t:eval() -- as a test behind each epoch leaves it
        end })
      assert.same({ true, true, true }, seen)
      assert.equal(training, m.training)
    end
  end)

  it('is judged beside the original and beside random pruning with as much training', function()
    local net, rounds = net_of(2), 0
    train(net, 60)
    local m, report = ridge.prune.iterative(net:eval(), { schedule = ridge.prune.Scheduler {
      target = 0.9, steps = 2 }, epochs = 3, test = test, train = function(t, epochs)
        rounds = rounds + epochs
        train(t, epochs)
      end })
    assert.is_false(m.training)
    assert.equal(12, rounds)
    assert.equal(2, #report.candidates)
    local pruned, random = report.candidates[1].accuracy, report.candidates[2].accuracy
    assert.is_true(pruned.quantized.share > random.quantized.share + 0.1)
    assert.equal('better', report.controls[1].verdict)
    assert.equal(400, report.controls[1].accuracy.n)
    local text = tostring(report)
    assert.truthy(text:find('Beside random pruning: better', 1, true), text)
    local _, without = ridge.prune.iterative(net, { schedule = schedule, epochs = 0, test = test,
      train = train, control = false })
    assert.is_nil(without.controls)
    assert.truthy(tostring(without):find('no random pruning', 1, true))
  end)

  it('refuses what cannot end well before anything is trained', function()
    local called = false
    local function never() called = true end
    local function refused(opts)
      opts.train = opts.train or never
      return failure(ridge.prune.iterative, net_of(1), opts)
    end
    assert.truthy(refused { schedule = { target = 0.5 } }:find('a ridge.prune.Scheduler', 1, true))
    assert.truthy(refused { schedule = schedule, train = 3 }:find('function(net, epochs)', 1, true))
    assert.truthy(refused { schedule = schedule, pattern = '2:4' }:find('one sparsity', 1, true))
    assert.truthy(refused { schedule = ridge.prune.Scheduler { target = 0.999 }, scope = 'layer' }
      :find('would be 0', 1, true))
    assert.is_false(called)
    assert.truthy(refused { schedule = schedule, train = function(t)
      t[1]:remove_parametrization 'weight'
      t[1].weight = ridge.ones(24, 16)
    end }:find('took masks off', 1, true))
  end)
end)

describe('what pruning cost', function()
  it('is told to the letter', function()
    local outcome = require('ridge.prune.outcome').new 'iterative'
    outcome.rows = { { text = 'a row' }, { text = 'another' } }
    assert.equal('prune.iterative\na row\nanother', tostring(outcome))
    local function share(value) return { share = value, lo = value - 0.125, hi = value + 0.125 } end
    local function pair(p, value)
      return { n = 40, original = share(0.75), quantized = share(0.5), p = p, changed = 10,
        difference = share(value) }
    end
    outcome.candidates = { { name = 'pruned', accuracy = pair(0.25, -0.25) },
      { name = 'random', accuracy = pair(0.5, -0.5) } }
    for name, told in pairs { a = { 0.049, 0.25, 'better' }, b = { 0.049, -0.25, 'worse' },
        c = { 0.05, 0.25, 'no difference was shown' } } do
      local each = require('ridge.prune.outcome').new('x'):against(name, pair(told[1], told[2]))
      assert.same({ name, told[3] }, { each.controls[1].name, each.controls[1].verdict })
    end
    outcome:against('random pruning', pair(0.01, 0.25)):note 'a note'
    outcome.title = 'prune.x: a title'
    assert.equal('prune.x: a title\na row\nanother\n'
      .. 'Accuracy on 40 rows: original 75.00 % [62.50, 87.50]\n'
      .. '  pruned: 50.00 % [37.50, 62.50], difference -25.00 % [-37.50, -12.50], McNemar p 0.25, '
      .. 'answers changed 10\n'
      .. '  random: 50.00 % [37.50, 62.50], difference -50.00 % [-62.50, -37.50], McNemar p 0.5, '
      .. 'answers changed 10\n'
      .. 'Beside random pruning: better (+25.00 % [+12.50, +37.50], p 0.01)\na note',
      tostring(outcome))
  end)
end)

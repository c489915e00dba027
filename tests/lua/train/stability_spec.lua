-- SPDX-License-Identifier: MIT
-- Clipping in seven ways, numbers that are not finite in seven ways, and the manager over both.

local ridge = require 'ridge'
local nn, optim = ridge.nn, ridge.optim

local INF, NAN = math.huge, 0 / 0

-- Two parameters whose gradients are these numbers.
local function made(a, b, kind)
  local net = nn.class 'Two'()
  net:param('a', ridge.ones(#a))
  net:param('b', ridge.ones(#b))
  net:train()
  local optimizer = (optim[kind or 'SGD'])(net, { lr = 1 })
  local function arrive(x, y)
    optimizer:zero_grad()
    local u, v = net.a * 1, net.b * 1
    u:backward(ridge.tensor(x))
    v:backward(ridge.tensor(y))
  end
  arrive(a, b)
  return net, optimizer, arrive
end

local function near(x, y) return math.abs(x - y) <= 1e-5 * math.max(1, math.abs(y)) end

describe('the share of what is not finite', function()
  it('is high above a tenth, and medium above a hundredth', function()
    local function done(kind, n, bad)
      local list = {}
      for i = 1, n do list[i] = i <= bad and NAN or 1 end
      local _, optimizer = made({ unpack(list) }, {})
      return (optim.Guard { kind = kind }:apply(optimizer).handling_action)
    end
    for n, bad in pairs { [10] = 1, [20] = 2 } do -- a tenth
      assert.are.equal('scaled_0.3', done('gradient_scaling', n, bad))
      assert.are.equal('adaptive_replaced_medium', done('adaptive', n, bad))
    end
    assert.are.equal('scaled_0.1', done('gradient_scaling', 9, 1))
    assert.are.equal('adaptive_zeroed_high', done('adaptive', 9, 1))
    assert.are.equal('scaled_0.7', done('gradient_scaling', 100, 1))
    assert.are.equal('adaptive_scaled_low', done('adaptive', 100, 1))
    assert.are.equal('scaled_0.3', done('gradient_scaling', 99, 1))
    assert.are.equal('adaptive_replaced_medium', done('adaptive', 99, 1))
  end)
end)

describe('clipping', function()
  it('by norm brings the norm of all gradients down, or leaves it', function()
    for _, kind in ipairs { 'norm', 'global_norm' } do
      local net, optimizer = made({ 3, 0 }, { 0, 4 })
      local found = optim.Clip { kind = kind, max_norm = 1 }:apply(optimizer)
      assert.is_true(near(found.gradient_norm, 5) and near(found.clipped_norm, 1))
      assert.is_true(near(found.clipping_ratio, 0.8))
      assert.is_true(near(net.b.grad:tolist()[2], 0.8))
      found = optim.Clip { kind = kind, max_norm = 10 }:apply(optimizer)
      assert.are.equal(0, found.clipping_ratio)
    end
  end)

  it('leaves gradients of which the norm is nan, and says so', function()
    for _, kind in ipairs { 'norm', 'adaptive', 'exponential', 'layer_wise' } do
      local net, optimizer, arrive = made({ 3, NAN }, { 4 })
      local clip = optim.Clip { kind = kind, max_norm = 6, adaptive_threshold = 6 }
      local found = clip:apply(optimizer)
      assert.same({ 4 }, net.b.grad:tolist(), kind)
      assert.are.equal(3, net.a.grad:get(1))
      assert.is_true(found.gradient_norm ~= found.gradient_norm)
      arrive({ 3, 0 }, { 4 }) -- and it is not remembered
      clip:apply(optimizer)
      assert.same({ 4 }, net.b.grad:tolist(), kind)
      arrive({ INF, 0 }, { 4 })
      clip:apply(optimizer)
      arrive({ 3, 0 }, { 4 })
      clip:apply(optimizer)
      assert.is_true(near(net.b.grad:get(1), 4), kind)
    end
  end)

  it('by value clamps every element', function()
    local net, optimizer = made({ 3, -0.2 }, { -4 })
    optim.Clip { kind = 'value', max_value = 0.5 }:apply(optimizer)
    assert.is_true(net.a.grad:allclose(ridge.tensor { 0.5, -0.2 }))
    assert.same({ -0.5 }, net.b.grad:tolist())
  end)

  it('adaptively takes the threshold from the norms before', function()
    local _, optimizer, arrive = made({ 3 }, { 4 })
    local clip = optim.Clip { kind = 'adaptive' }
    assert.is_true(near(clip:apply(optimizer).adaptive_threshold, 0.1))
    arrive({ 6 }, { 8 })
    local found = clip:apply(optimizer)
    assert.is_true(near(found.adaptive_threshold, 10) and near(found.gradient_norm, 10))
    arrive({ 60 }, { 80 })
    found = clip:apply(optimizer)
    assert.is_true(near(found.adaptive_threshold, 15) and near(found.clipped_norm, 15))
  end)

  it('adaptively remembers the last ten norms, and none before', function()
    local _, optimizer, arrive = made({ 600 }, { 800 })
    local clip = optim.Clip { kind = 'adaptive' }
    clip:apply(optimizer)
    local thresholds = {}
    for i = 1, 11 do
      arrive({ 0.6 }, { 0.8 })
      thresholds[i] = clip:apply(optimizer).adaptive_threshold
    end
    assert.is_true(near(thresholds[10], 2 * (1000 + 9) / 10))
    assert.is_true(near(thresholds[11], 2)) -- of ten norms of 1
  end)

  it('by layer has a threshold for each', function()
    local net, optimizer = made({ 3, 4 }, { 0.5 })
    local found = optim.Clip { kind = 'layer_wise', max_norm = 1,
      layer_norm_thresholds = { a = 2.5 } }:apply(optimizer)
    assert.is_true(near(net.a.grad:norm():item(), 2.5))
    assert.same({ 0.5 }, net.b.grad:tolist())
    assert.is_true(near(found.layer_clipping_ratios.a, 0.5))
    assert.are.equal(0, found.layer_clipping_ratios.b)
  end)

  it('by percentile clamps at the value that so many are below', function()
    local list = {}
    for i = 1, 90 do list[i] = i * (i % 2 == 0 and 1 or -1) end
    local net, optimizer = made(list, { 91, 92, 93, 94, 95, 96, 97, 98, 99, 100 })
    local found = optim.Clip { kind = 'percentile', percentile_threshold = 95 }:apply(optimizer)
    assert.is_true(near(found.percentile_threshold, 95))
    assert.is_true(near(net.b.grad:max():item(), 95))
    assert.are.equal(-89, net.a.grad:min():item())
  end)

  it('exponentially lets the threshold follow the norm', function()
    local _, optimizer, arrive = made({ 3 }, { 4 })
    local clip = optim.Clip { kind = 'exponential', max_norm = 1 }
    assert.is_true(near(clip:apply(optimizer).exp_threshold, 0.9 + 0.5))
    arrive({ 0 }, { 0 })
    for _ = 1, 60 do clip:apply(optimizer) end
    assert.is_true(near(clip:apply(optimizer).exp_threshold, 0.1))
  end)
end)

describe('clipping', function()
  it('leaves an infinity what it is, in every way, and the other gradients too', function()
    for _, kind in ipairs { 'norm', 'global_norm', 'adaptive', 'layer_wise', 'percentile',
      'exponential' } do
      local net, optimizer = made({ INF, 1, -INF }, { 2, -3 })
      local found = optim.Clip { kind = kind, max_norm = 0.5 }:apply(optimizer)
      assert.are.equal(INF, found.gradient_norm)
      local first = net.a.grad:tolist()
      assert.same({ INF, -INF }, { first[1], first[3] }, kind)
      for _, value in ipairs(net.b.grad:tolist()) do
        assert.is_true(value ~= 0 and math.abs(value) < 4, kind)
      end
    end
    -- nan is no reason to lose the others either
    for _, kind in ipairs { 'norm', 'global_norm', 'adaptive', 'layer_wise', 'percentile',
      'exponential', 'value' } do
      local net, optimizer = made({ 0 / 0, 1 }, { 2, -3 })
      optim.Clip { kind = kind, max_norm = 0.5 }:apply(optimizer)
      local first = net.a.grad:tolist()
      assert.is_true(first[1] ~= first[1] and first[2] > 0, kind)
      for _, value in ipairs(net.b.grad:tolist()) do
        assert.is_true(value ~= 0 and math.abs(value) < 4, kind)
      end
    end
    local net, optimizer = made({ INF, 1, -INF }, { 2 })
    optim.Clip { kind = 'value', max_value = 0.5 }:apply(optimizer)
    assert.same({ 0.5, 0.5, -0.5 }, net.a.grad:tolist())
  end)
end)

describe('what is not finite', function()
  local function look(kind, opts)
    local net, optimizer = made({ 1, NAN, 2 }, { INF, -INF, 3e6, -4 }, opts and opts.with)
    local guard = optim.Guard { kind = kind }
    return net, optimizer, guard:apply(optimizer), guard
  end

  it('is counted by kind', function()
    local _, _, found = look 'detect'
    assert.are.equal('detected', found.handling_action)
    assert.is_true(found.nan_detected and found.inf_detected and found.overflow_detected)
    assert.same({ 1, 2, 1 }, { found.total_nan, found.total_inf, found.total_overflow })
    local _, optimizer = made({ 1 }, { 2 })
    local fine = optim.Guard():apply(optimizer)
    assert.are.equal('none', fine.handling_action)
    assert.is_true(fine.step)
  end)

  it('does not reach the parameters when it is only detected; what is large does', function()
    for _, case in ipairs { { NAN, false }, { INF, false }, { -INF, false }, { 3e6, true } } do
      local net, optimizer = made({ 1, case[1] }, { 2 })
      local before = net.a:tolist()
      local watch = ridge.Stability(optimizer, { clip = { max_norm = 1 } })
      local result = watch:step(0.5)
      assert.are.equal('detected', result.nan_stats.handling_action)
      assert.are.equal(case[2], result.stepped)
      local now = net.a:tolist()
      assert.are.equal(case[2], now[2] ~= before[2])
      for _, value in ipairs(now) do assert.is_true(value == value and math.abs(value) < INF) end
    end
  end)

  it('is replaced with its sign', function()
    local net, optimizer, found = look 'replace'
    assert.are.equal('replaced', found.handling_action)
    assert.same({ 1, 0, 2 }, net.a.grad:tolist())
    assert.same({ 1e6, -1e6, 1e6, -4 }, net.b.grad:tolist())
    optimizer:step()
    assert.are.equal(1, net.a:tolist()[2])
  end)

  it('leaves the step out when skipping, the moments of Adam too', function()
    local net, optimizer = made({ 1, 2 }, { 3 }, 'Adam')
    optimizer:step()
    local watch = ridge.Stability(optimizer, { guard = { kind = 'skip' } })
    net.a.grad:fill_(NAN)
    local before = optimizer:state()['1.1.1']:clone()
    local params = net.a:detach():clone()
    local result = watch:step()
    assert.is_false(result.stepped)
    assert.are.equal('skipped', result.nan_stats.handling_action)
    assert.are.equal(1, optimizer:steps())
    assert.is_true(optimizer:state()['1.1.1']:equal(before) and net.a:detach():equal(params))
  end)

  -- The numbers are small enough for every type; what each kind leaves is written by hand.
  it('is found and dealt with in every type of gradient, in all seven ways', function()
    local GIVEN = { 1, INF, -INF, NAN, -3, 2 }
    local LEFT = {
      detect = { 'detected', false, GIVEN },
      replace = { 'replaced', true, { 1, 'most', '-most', 0, -3, 2 } },
      skip = { 'skipped', false, GIVEN },
      restore = { 'restored', false, GIVEN },
      gradient_zeroing = { 'gradients_zeroed', true, { 0, 0, 0, 0, 0, 0 } },
      adaptive = { 'adaptive_zeroed_high', true, { 0, 0, 0, 0, 0, 0 } },
      gradient_scaling = { 'scaled_0.1', true, { 0.1, 0, 0, 0, -0.3, 0.2 } },
    }
    -- 1e6 as the type has it, which is an infinity in f16: there it is the largest number
    local MOST = { f16 = 65504, bf16 = 999424, f32 = 1e6, f64 = 1e6 }
    for kind, left in pairs(LEFT) do
      for dtype, most in pairs(MOST) do
        local what = kind .. ' ' .. dtype
        local p = ridge.ones(2, 3, { dtype = dtype }):requires_grad_()
        local o = optim.SGD({ p }, { lr = 1 })
        p:backward(ridge.tensor(GIVEN, { dtype = dtype }):reshape(2, 3))
        local found = optim.Guard { kind = kind }:apply(o)
        assert.same({ 1, 2, 0 }, { found.nan, found.inf, found.overflow }, what)
        assert.same({ left[1], left[2] }, { found.handling_action, found.step }, what)
        for i, g in ipairs(p.grad:reshape(6):tolist()) do
          local wanted = left[3][i]
          if wanted == 'most' then wanted = most elseif wanted == '-most' then wanted = -most end
          assert.is_true(wanted ~= wanted and g ~= g or g == wanted
            or math.abs(g - wanted) < 2e-3, ('%s: %g at %d'):format(what, g, i))
        end
      end
    end
    -- what a half type can hold, but not the threshold, is fine; above it, it is too large
    local p = ridge.ones(3, { dtype = 'f16' }):requires_grad_()
    local o = optim.SGD({ p }, { lr = 1 })
    p:backward(ridge.tensor({ 65504, -60000, 1 }, { dtype = 'f16' }))
    assert.are.equal('none', optim.Guard():apply(o).handling_action)
    local found = optim.Guard { kind = 'replace', overflow_threshold = 6e4,
      overflow_replacement = 5 }:apply(o)
    assert.same({ 0, 0, 1 }, { found.nan, found.inf, found.overflow })
    assert.same({ 5, -60000, 1 }, p.grad:tolist())
    -- a threshold between two numbers of the type, of which the upper one is too large
    p = ridge.ones(3, { dtype = 'bf16' }):requires_grad_()
    o = optim.SGD({ p }, { lr = 1 })
    p:backward(ridge.tensor({ 1000, 1004, 1008 }, { dtype = 'bf16' }))
    assert.are.equal(2, optim.Guard { overflow_threshold = 1002.5 }:apply(o).overflow)
  end)

  it('is undone by restoring: what the last good step left, parameters and moments', function()
    local net, optimizer, arrive = made({ 1, 2 }, { 3 }, 'Adam')
    local watch = ridge.Stability(optimizer, { guard = { kind = 'restore' } })
    for _ = 1, 4 do
      arrive({ 1, 2 }, { 3 })
      assert.is_true(watch:step().stepped)
    end
    local good = net.a:detach():clone()
    ridge.no_grad(function() net.a:fill_(NAN) end) -- something went wrong in between
    arrive({ NAN, 1 }, { 3 })
    local result = watch:step()
    assert.are.equal('restored', result.nan_stats.handling_action)
    assert.is_true(net.a:detach():equal(good)) -- no good step is lost
    assert.are.equal(4, optimizer:steps())
    arrive({ 1, 2 }, { 3 })
    assert.is_true(watch:step().stepped)
    -- at the first step there is nothing to undo
    local other, second = made({ NAN }, { 1 })
    assert.are.equal('restored', optim.Guard { kind = 'restore' }:apply(second).handling_action)
    assert.same({ 1 }, other.a:tolist())
  end)

  it('goes back by restoring behind a step that made parameters infinite', function()
    local net, optimizer, arrive = made({ 1 }, { 3 })
    optimizer:lr(1e38)
    local watch = ridge.Stability(optimizer, { guard = { kind = 'restore',
      overflow_threshold = 1e30 } })
    arrive({ 1e5 }, { 0 }) -- fine as a gradient, and times the rate it is more than f32 has
    assert.is_true(watch:step().stepped)
    assert.same({ -INF }, net.a:tolist())
    arrive({ NAN }, { 0 })
    watch:step()
    assert.same({ 1 }, net.a:tolist())
  end)

  it('is undone by restoring to what is kept, every so many steps, for each optimizer', function()
    local guard = optim.Guard { kind = 'restore', every = 2 }
    local one, a, arrive_a = made({ 1 }, { 0 })
    local two, b, arrive_b = made({ 1 }, { 0 })
    local function step(o) if guard:apply(o).step then o:step() end end
    step(a) -- 0
    arrive_a({ 1 }, { 0 })
    step(a) -- -1, the second one: kept
    arrive_a({ 1 }, { 0 })
    step(a) -- -2
    arrive_a({ NAN }, { 0 })
    step(a)
    assert.same({ -1 }, one.a:tolist())
    step(b)
    arrive_b({ NAN }, { 0 })
    step(b)
    assert.same({ 0 }, two.a:tolist())
    assert.same({ -1 }, one.a:tolist())
    arrive_a({ NAN }, { 0 }) -- what was kept of the one is not that of the other
    step(a)
    assert.same({ -1 }, one.a:tolist())
  end)

  it('is not kept where somebody takes a step that was to be left out', function()
    local guard = optim.Guard { kind = 'restore' }
    local net, o, arrive = made({ 1 }, { 0 })
    assert.is_true(guard:apply(o).step)
    o:step() -- 0, and kept
    arrive({ INF }, { 0 })
    assert.is_false(guard:apply(o).step)
    arrive({ 5 }, { 0 })
    o:step() -- -5, without the guard
    arrive({ NAN }, { 0 })
    guard:apply(o)
    assert.same({ 0 }, net.a:tolist())
  end)

  it('is zeroed with its tensor, or with everything, or alone and the rest scaled', function()
    local net, _, found = look 'gradient_zeroing'
    assert.are.equal('gradients_zeroed', found.handling_action)
    assert.same({ 0, 0, 0 }, net.a.grad:tolist())
    net, _, found = look 'adaptive'
    assert.are.equal('adaptive_zeroed_high', found.handling_action)
    assert.same({ 0, 0, 0, 0 }, net.b.grad:tolist())
    net, _, found = look 'gradient_scaling'
    assert.are.equal('scaled_0.1', found.handling_action)
    assert.is_true(net.a.grad:allclose(ridge.tensor { 0.1, 0, 0.2 }))
    assert.is_true(net.b.grad:allclose(ridge.tensor { 0, 0, 0, -0.4 }))
  end)

  it('is dealt with by how much there is', function()
    local function many(n, bad)
      local list = {}
      for i = 1, n do list[i] = i <= bad and NAN or 1 end
      return made(list, { 1 })
    end
    local net, optimizer = many(399, 10)
    assert.are.equal('adaptive_replaced_medium',
      optim.Guard { kind = 'adaptive' }:apply(optimizer).handling_action)
    assert.are.equal(389, net.a.grad:sum():item())
    optimizer = select(2, many(399, 5)) -- a little more than one in a hundred
    assert.are.equal('adaptive_replaced_medium',
      optim.Guard { kind = 'adaptive' }:apply(optimizer).handling_action)
    optimizer = select(2, many(399, 39)) -- and a little less than one in ten
    assert.are.equal('adaptive_replaced_medium',
      optim.Guard { kind = 'adaptive' }:apply(optimizer).handling_action)
    net, optimizer = many(399, 1)
    assert.are.equal('adaptive_scaled_low',
      optim.Guard { kind = 'adaptive' }:apply(optimizer).handling_action)
    assert.is_true(near(net.a.grad:sum():item(), 39.8))
    optimizer = select(2, many(399, 10))
    assert.are.equal('scaled_0.3',
      optim.Guard { kind = 'gradient_scaling' }:apply(optimizer).handling_action)
    optimizer = select(2, many(399, 1))
    assert.are.equal('scaled_0.7',
      optim.Guard { kind = 'gradient_scaling' }:apply(optimizer).handling_action)
  end)
end)

describe('the manager', function()
  it('restores inside the trainer, at whatever step', function()
    local x = ridge.randn(24, 3, { generator = ridge.generator(1) })
    local y = x:argmax(2)
    local function run(bad)
      local net = nn.Linear(3, 3, { seed = 1 })
      local batch = 0
      local t = ridge.Trainer(net, { optimizer = optim.SGD(net, { lr = 0.1, momentum = 0.9 }),
        stability = { guard = { kind = 'restore' }, loss_checking = false }, say = function() end,
        loss = function(o, labels)
          batch = batch + 1
          local loss = nn.cross_entropy(o, labels)
          return batch == bad and loss * INF or loss
        end })
      t:fit(ridge.data.Loader({ x, y }, { batch = 4, shuffle = false }), { epochs = 1 })
      return net, t
    end
    for bad = 1, 6 do
      local _, t = run(bad)
      local found = {}
      for i, row in ipairs(t.stability.history) do found[i] = row.stepped end
      local wanted = { true, true, true, true, true, true }
      wanted[bad] = false
      assert.same(wanted, found)
    end
    -- the last batch is bad: what the five before it left stays
    local net, t = run(6)
    local plain = nn.Linear(3, 3, { seed = 1 })
    ridge.Trainer(plain, { optimizer = optim.SGD(plain, { lr = 0.1, momentum = 0.9 }),
      say = function() end }):fit(ridge.data.Loader({ x:narrow(1, 1, 20), y:narrow(1, 1, 20) },
      { batch = 4, shuffle = false }), { epochs = 1 })
    assert.is_true(plain.weight:equal(net.weight))
    assert.are.equal(5, t.optimizer:steps())
  end)

  it('scores a step as document 001 does', function()
    local _, optimizer = made({ 3 }, { 4 })
    local watch = ridge.Stability(optimizer, { clip = { max_norm = 1 },
      guard = { kind = 'replace' } })
    local fine = watch:step(0.5)
    assert.is_true(near(fine.stability_score, 1 - 0.1 * 0.8))
    assert.are.equal(0.5, fine.loss)
    assert.is_true(fine.performance_metrics.memory_usage_percent > 0)
    assert.is_true(fine.performance_metrics.step_ms > 0)
    assert.is_true(fine.performance_metrics.step_ms < 60000)
    local _, second = made({ NAN, INF }, { 2e6 })
    local bad = ridge.Stability(second, { guard = { kind = 'replace' } }):step()
    assert.is_true(near(bad.stability_score, 0.4) and bad.stepped)
    assert.are.equal(1, #watch.history)
    -- and says what it does
    assert.equal('Stability(optim.Guard(replace), optim.Clip(norm); 1 of 1 steps taken)',
      tostring(watch))
    assert.equal('Stability(optim.Guard(replace), no clipping; 0 of 0 steps taken)',
      tostring(ridge.Stability(second, { guard = { kind = 'replace' } })))
  end)

  it('keeps the newest rows of its history, and the mean score of all', function()
    local function steps(watch, from, to)
      for i = from, to do watch:step(i % 2 == 0 and NAN or i) end
      local found = {}
      for i, row in ipairs(watch.history) do found[i] = row.step end
      return found
    end
    local _, optimizer = made({ 3 }, { 4 })
    local watch = ridge.Stability(optimizer, { history = 3 })
    assert.same({ 1, 2 }, steps(watch, 1, 2))
    assert.same({ 5, 6, 7 }, steps(watch, 3, 7))
    local mean = (4 * 1 + 3 * 0.7) / 7
    assert.is_true(near(mean, watch:summary().mean_score))
    local none = ridge.Stability(optimizer, { history = 0 })
    assert.same({}, steps(none, 1, 2))
    assert.is_true(near(0.85, none:summary().mean_score))
    -- in one that keeps fewer, and from a state of rows alone
    local fewer = ridge.Stability(optimizer, { history = 2 }):load_state(watch:state())
    assert.same({ 7, 8 }, steps(fewer, 8, 8))
    assert.is_true(near((mean * 7 + 0.7) / 8, fewer:summary().mean_score))
    local old = watch:state()
    old.scores = nil
    assert.is_true(near((1 + 0.7 + 1) / 3,
      ridge.Stability(optimizer):load_state(old):summary().mean_score))
  end)

  it('leaves the step out for a loss that is not finite', function()
    local net, optimizer = made({ 3 }, { 4 })
    local watch = ridge.Stability(optimizer)
    assert.is_false(watch:step(NAN).stepped)
    assert.same({ 1 }, net.a:tolist())
    local s = watch:summary()
    assert.same({ 1, 0 }, { s.steps, s.taken })
  end)

  it('is as it was where a state does not fit', function()
    local function watch()
      local _, optimizer = made({ 3, 0 }, { 4 })
      return ridge.Stability(optimizer, { clip = { kind = 'exponential' } })
    end
    local other, mine = watch(), watch()
    other:step()
    local before = mine.clip:state().threshold:item()
    assert.are_not.equal(before, other.clip:state().threshold:item())
    local state = other:state()
    state.guard = { totals = { nan = -1 } }
    assert.is_false((pcall(mine.load_state, mine, state)))
    assert.are.equal(before, mine.clip:state().threshold:item())
    assert.are.equal(0, mine.steps)
  end)
end)

describe('numbers by hand', function()
  it('stand where something too large was, each with its sign', function()
    local net, optimizer = made({ 2e6, -2e6, INF, -INF, NAN, 1 }, { 1 })
    optim.Guard { kind = 'replace', nan_replacement = 3, inf_replacement = 5,
      overflow_replacement = 7 }:apply(optimizer)
    assert.same({ 7, -7, 5, -5, 3, 1 }, net.a.grad:tolist())
  end)

  it('are those of the first step again behind restore: counts too', function()
    local net, optimizer, arrive = made({ 3, 1 }, { 4 }, 'Adam')
    local guard = optim.Guard { kind = 'restore', every = 2 }
    local function step(x)
      arrive({ x, 1 }, { 4 })
      local found = guard:apply(optimizer)
      if found.step then optimizer:step() end
      return found.step
    end
    assert.is_true(step(3))
    local first = net.a:tolist()
    assert.is_false(step(NAN)) -- back to before the first step, the last that was kept
    assert.same({ 1, 1 }, net.a:tolist())
    assert.is_true(step(3))
    assert.same(first, net.a:tolist()) -- Adam's correction counts from the beginning
  end)

  it('are no share taken off where the norm is infinite before and behind', function()
    for _, kind in ipairs { 'norm', 'adaptive', 'exponential', 'layer_wise', 'percentile' } do
      for _, dtype in ipairs { 'f16', 'f32' } do
        local net, optimizer = made({ 1, INF, -2 }, { 1 })
        net:to(dtype)
        local found = optim.Clip { kind = kind }:apply(optimizer)
        assert.are.equal(INF, found.gradient_norm)
        assert.are.equal(0, found.clipping_ratio, kind)
      end
    end
    local _, optimizer = made({ 1, INF }, { 0 })
    local found = optim.Clip { kind = 'value', max_value = 1 }:apply(optimizer)
    assert.are.equal(1, found.clipping_ratio)
    assert.is_true(near(found.clipped_norm, math.sqrt(2)))
  end)

  it('of a loss scale: it grows once for each so many good steps', function()
    local net, optimizer, arrive = made({ 3, 1 }, { 4 })
    net:train()
    local scaler = optim.GradScaler { scale = 2, interval = 2 }
    local found = {}
    for i = 1, 5 do
      arrive({ 3, 1 }, { 4 })
      scaler:step(optimizer)
      found[i] = scaler.factor
    end
    assert.same({ 2, 4, 4, 8, 8 }, found)
  end)
end)

describe('a scale on the loss', function()
  it('is no part of the norm that is clipped', function()
    for _, scale in ipairs { 1, 1024 } do
      local net, optimizer, arrive = made({ 3, 0 }, { 0 })
      arrive({ 3 * scale, 0 }, { 4 * scale })
      optim.GradScaler({ scale = scale }):step(optimizer, { clip = 2.5 })
      assert.is_true(near(net.a:tolist()[1], 1 - 1.5) and near(net.b:tolist()[1], 1 - 2))
    end
  end)
end)

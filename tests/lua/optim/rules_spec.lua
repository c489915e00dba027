-- SPDX-License-Identifier: MIT
--- What guards do with each kind of bad element, by hand; states of schedules and guards, there and
--- back; learning rates that are none.

local ridge = require 'ridge'
local optim = ridge.optim

local INF, NAN = math.huge, 0 / 0

local function failure(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return err.message
end

-- An optimizer over parameters of ones whose gradients are these lists.
local function with_gradients(lists, opts)
  local params = {}
  for i, list in ipairs(lists) do
    params[i] = ridge.ones(#list)
    params[i]:requires_grad_()
  end
  local o = optim.SGD(params, opts or { lr = 1 })
  local function give(of)
    o:zero_grad()
    for i, list in ipairs(of) do
      (params[i] * ridge.tensor(list)):sum():backward()
    end
  end
  give(lists)
  return o, params, give
end

local function gradients(params)
  local out = {}
  for i, p in ipairs(params) do out[i] = p.grad:tolist() end
  return out
end


local function same(want, got)
  for i, list in ipairs(want) do
    for k, v in ipairs(list) do
      local g = got[i][k]
      assert.is_true(v == g or math.abs(v - g) < 1e-5 or v ~= v and g ~= g,
        ('%d, %d: %s, not %s'):format(i, k, g, v))
    end
  end
end

describe('a guard', function()
  local BAD = { { 1, NAN, INF, -INF }, { 2e6, -3e6, 5, 0 }, { 7 } }

  it('does with each element what its kind says', function()
    local untouched = BAD
    for kind, want in pairs {
      detect = { untouched, 'detected', false }, skip = { untouched, 'skipped', false },
      replace = { { { 1, 0.5, 9, -9 }, { 8, -8, 5, 0 }, { 7 } }, 'replaced', true },
      gradient_zeroing = { { { 0, 0, 0, 0 }, { 0, 0, 0, 0 }, { 7 } }, 'gradients_zeroed', true },
      -- 5 of 9 are bad
      adaptive = { { { 0, 0, 0, 0 }, { 0, 0, 0, 0 }, { 0 } }, 'adaptive_zeroed_high', true },
      gradient_scaling = { { { 0.1, 0, 0, 0 }, { 0, 0, 0.5, 0 }, { 0.7 } }, 'scaled_0.1', true },
      restore = { untouched, 'restored', false },
    } do
      local o, params = with_gradients(BAD)
      local guard = optim.Guard { kind = kind, nan_replacement = 0.5, inf_replacement = 9,
        overflow_replacement = 8 }
      local found = guard:apply(o)
      same(want[1], gradients(params))
      assert.same({ want[2], want[3] }, { found.handling_action, found.step }, kind)
      assert.same({ 1, 2, 2, true, true, true }, { found.nan, found.inf, found.overflow,
        found.nan_detected, found.inf_detected, found.overflow_detected })
    end
  end)

  it('leaves what is good alone, and counts all that it saw', function()
    for _, kind in ipairs { 'detect', 'replace', 'skip', 'restore', 'gradient_zeroing', 'adaptive',
        'gradient_scaling' } do
      local o, params, give = with_gradients { { 1, -1e6 }, { 1e6 } } -- at the threshold
      local guard = optim.Guard { kind = kind }
      local found = guard:apply(o)
      assert.same({ 'none', true, 0, 0, 0 }, { found.handling_action, found.step, found.nan,
        found.inf, found.overflow })
      same({ { 1, -1e6 }, { 1e6 } }, gradients(params))
      give { { NAN, 1 }, { NAN } }
      guard:apply(o)
      give { { INF, 1 }, { 1 } }
      found = guard:apply(o)
      assert.same({ 2, 1, 0 }, { found.total_nan, found.total_inf, found.total_overflow }, kind)
      assert.same({ false, true, false }, { found.nan_detected, found.inf_detected,
        found.overflow_detected })
    end
  end)

  it('detects what is merely large, and lets the step be taken', function()
    local o = with_gradients { { 2e6 } }
    local found = optim.Guard():apply(o)
    assert.same({ 'detected', true, 1 }, { found.handling_action, found.step, found.overflow })
  end)

  it('scales by the share that is bad: above a tenth, above a hundredth, below', function()
    for _, case in ipairs { { 3, 20, 0.1, 0 }, { 2, 20, 0.3, 2 }, { 1, 20, 0.3, 2 },
        { 1, 100, 0.7, 0.2 }, { 1, 101, 0.7, 0.2 }, { 11, 100, 0.1, 0 }, { 10, 100, 0.3, 2 } } do
      local list = {}
      for i = 1, case[2] do list[i] = i <= case[1] and NAN or 2 end
      local o, params = with_gradients { list }
      local found = optim.Guard({ kind = 'gradient_scaling' }):apply(o)
      assert.equal(('scaled_%g'):format(case[3]), found.handling_action)
      local g = params[1].grad:tolist()
      assert.near(2 * case[3], g[#g], 1e-5)
      assert.equal(0, g[1])
      o, params = with_gradients { list }
      found = optim.Guard({ kind = 'adaptive', nan_replacement = 4 }):apply(o)
      g = params[1].grad:tolist()
      assert.near(case[4], g[#g], 1e-5)
      assert.equal(({ [0.1] = 'adaptive_zeroed_high', [0.3] = 'adaptive_replaced_medium',
        [0.7] = 'adaptive_scaled_low' })[case[3]], found.handling_action)
      assert.equal(case[3] == 0.3 and 4 or 0, g[1])
    end
  end)

  it('goes back to what every so many good steps left', function()
    for every, want in pairs { [1] = -2, [2] = -1, [3] = -2 } do
      local o, params, give = with_gradients { { 1 } }
      local guard = optim.Guard { kind = 'restore', every = every }
      local function go(g)
        give { { g } }
        if guard:apply(o).step then o:step() end
      end
      for _ = 1, 2 do go(1) end  -- 1, 0, -1
      assert.equal(2, guard:state().good)
      go(1)                      -- -2
      go(NAN)
      -- what was kept: after step 3; after step 2; after step 3, of three
      assert.equal(want, params[1]:item(), every)
      assert.equal(3, guard:state().good)
      local other = optim.Guard({ kind = 'restore' }):load_state(guard:state())
      assert.same({ { nan = 1, inf = 0, overflow = 0 }, 3, 1 }, { other:state().totals,
        other:state().good, #other:state().kept })
    end
  end)

  it('takes only a state of its own, and only optimizers', function()
    local guard = optim.Guard()
    assert.matches('an optimizer is expected, got', failure(guard.apply, guard, {}))
    assert.matches('an optimizer is expected, got', failure(guard.apply, guard, 7))
    local totals = { nan = 0, inf = 0, overflow = 0 }
    assert.matches('option good is missing', failure(guard.load_state, guard, { totals = totals,
      kept = {} }))
    assert.matches('kept is lists of tensors, and holds 7', failure(guard.load_state, guard,
      { totals = totals, kept = { 7 }, good = 1 }))
    assert.matches('option nan', failure(guard.load_state, guard, { totals = { nan = -1, inf = 0,
      overflow = 0 }, kept = {}, good = 1 }))
  end)
end)

describe('a clip', function()
  -- Gradients 3, 4 and 12: norms 5 and 12, 13 of both.
  local G = { { 3, 4 }, { 12 } }

  it('says what was there, what is left and the share that was taken off', function()
    for _, case in ipairs {
      { { kind = 'norm', max_norm = 6.5 }, { { 1.5, 2 }, { 6 } }, 6.5, 0.5 },
      { { kind = 'global_norm', max_norm = 13.1 }, G, 13, 0 },
      { { kind = 'value', max_value = 4 }, { { 3, 4 }, { 4 } }, math.sqrt(41),
        1 - math.sqrt(41) / 13 },
      { { kind = 'layer_wise', max_norm = 6 }, { { 3, 4 }, { 6 } }, math.sqrt(61),
        1 - math.sqrt(61) / 13 },
      -- the first step: 1 as given
      { { kind = 'adaptive', adaptive_threshold = 1.3 }, { { 0.3, 0.4 }, { 1.2 } }, 1.3, 0.9,
        { 'adaptive_threshold', 1.3 } },
      -- 0.9 of 13 and a tenth of the norm, which is 13 as well
      { { kind = 'exponential', max_norm = 13 }, G, 13, 0, { 'exp_threshold', 13 } },
      -- 0.5 of 1 and half of 13
      { { kind = 'exponential', exponential_alpha = 0.5 }, { { 21 / 13, 28 / 13 }, { 84 / 13 } }, 7,
        1 - 7 / 13, { 'exp_threshold', 7 } },
      { { kind = 'exponential', exponential_alpha = 1, max_norm = 1e-3,
        exponential_min_threshold = 2.6 }, { { 0.6, 0.8 }, { 2.4 } }, 2.6, 0.8,
        { 'exp_threshold', 2.6 } },
      -- two of three lie at or below 4
      { { kind = 'percentile', percentile_threshold = 60 }, { { 3, 4 }, { 4 } }, math.sqrt(41),
        1 - math.sqrt(41) / 13, { 'percentile_threshold', 4 } },
    } do
      local o, params = with_gradients(G)
      local clip = optim.Clip(case[1])
      local found = clip:apply(o)
      local kind = case[1].kind
      assert.equal(('optim.Clip(%s)'):format(kind), tostring(clip))
      for i, list in ipairs(gradients(params)) do
        for k, v in ipairs(list) do assert.near(case[2][i][k], v, 1e-4, kind) end
      end
      assert.near(13, found.gradient_norm, 1e-5)
      assert.near(case[3], found.clipped_norm, 1e-4, kind)
      assert.near(case[4], found.clipping_ratio, 1e-5, kind)
      if case[5] then assert.near(case[5][2], found[case[5][1]], 1e-4, kind) end
    end
  end)

  it('goes by the mean of the norms before, ten at most', function()
    local o, _, give = with_gradients { { 1 } }
    local clip, norms = optim.Clip { kind = 'adaptive', adaptive_factor = 3 }, {}
    for i = 1, 14 do
      give { { i } }
      local found = clip:apply(o)
      local n = math.min(10, #norms)
      local sum = 0
      for k = #norms - n + 1, #norms do sum = sum + norms[k] end
      assert.near(n > 0 and 3 * sum / n or 0.1, found.adaptive_threshold, 1e-6, i)
      norms[#norms + 1] = i
    end
    give { { INF } }
    assert.near(3 * (5 + 14) / 2, clip:apply(o).adaptive_threshold, 1e-6)
    give { { 1 } } -- and the infinite one is no norm to go by
    assert.near(3 * (5 + 14) / 2, clip:apply(o).adaptive_threshold, 1e-6)
  end)

  it('takes only a state of its own', function()
    local clip = optim.Clip()
    local state = clip:state()
    assert.equal(clip, clip:load_state(state))
    state.filled = ridge.zeros(2)
    assert.matches('^optim.Clip:load_state: filled is .*, and here ', failure(clip.load_state, clip,
      state))
    state.filled = nil
    assert.matches('option filled is missing', failure(clip.load_state, clip, state))
    local o = optim.SGD({ ridge.ones(1):requires_grad_() }, { lr = 1 })
    assert.same({ gradient_norm = 0, clipped_norm = 0, clipping_ratio = 0 }, clip:apply(o))
  end)
end)

describe('a schedule', function()
  local function optimizer() return (with_gradients({ { 1 } }, { lr = 0.5 })) end

  it('stands where another one stood', function()
    for name, opts in pairs { StepLR = { every = 2 }, CosineLR = { steps = 9, warmup = 3 },
        OneCycleLR = { steps = 9 }, PlateauLR = { patience = 1 } } do
      local one = optim[name](optimizer(), opts)
      for i = 1, 5 do one:step(i) end
      local o = optimizer()
      local two = optim[name](o, opts)
      assert.equal(two, two:load_state(one:state()))
      assert.equal(one.optimizer:lr(), o:lr(), name)
      assert.same(one:state(), two:state())
      assert.equal(5, one:state().t)
      assert.equal('optim.' .. name, one:state().kind)
      for i = 1, 3 do assert.equal(one:step(i), two:step(i)) end
      local wrong = one:state()
      wrong.kind = 'optim.Other'
      assert.matches('the state is of optim.Other', failure(two.load_state, two, wrong))
      wrong = one:state()
      wrong.t = -1
      assert.matches('option t is %-1', failure(two.load_state, two, wrong))
      assert.matches('options are a table, got 7', failure(two.load_state, two, 7))
      assert.matches(('^optim%%.%s%%(after 8 steps: lr '):format(name), tostring(one))
      assert.matches('an optimizer is expected, got 7', failure(optim[name], 7, opts))
    end
    assert.matches('step takes the loss, a number; got nil', failure(function()
      optim.PlateauLR(optimizer()):step()
    end))
  end)

  it('of a rate that is none is told', function()
    local o = optimizer()
    assert.equal(0.5, o:lr())
    for _, rate in ipairs { -1e-9, INF, NAN, 'fast', {} } do
      assert.matches('lr: a learning rate is a finite number from 0, got', failure(o.lr, o, rate))
      assert.matches('scale_lr: a factor is a finite number from 0, got',
        failure(o.scale_lr, o, rate))
    end
    assert.equal(0, o:lr(0))
    assert.equal(0.25, o:lr(0.25))
    o:scale_lr(0)
    assert.equal(0, o:lr())
    o:scale_lr(3)
    assert.equal(0.75, o:lr())
  end)
end)

-- SPDX-License-Identifier: MIT
--- Optimizers with groups, and the scaler of losses, on random steps beside plain Lua: parameters
--- without a gradient, rates that are set and multiplied, states that go to another one half way;
--- and which tensors are one parameter. What is refused, in whole sentences, as approved.

local approved = dofile 'tests/lua/approved.lua'
local seeded = dofile 'tests/lua/seeded.lua'
local told = dofile 'tests/lua/told.lua'
local ridge = require 'ridge'
local optim = ridge.optim

local random -- a function: a whole number from 1 to n

local function parameter(list)
  return ridge.tensor(list, { dtype = 'f64' }):requires_grad_()
end

local function drawn(n)
  local list = {}
  for i = 1, n do list[i] = (random(2001) - 1001) / 500 end
  return list
end

-- Gradients of a parameter, where it has none, become these numbers.
local function give(p, list)
  (p * ridge.tensor(list, { dtype = 'f64' })):sum():backward()
end

-- What each class does with one number: the formulas of its paper.
local RULES = {}

function RULES.SGD(o, s, w, g)
  g = g + o.weight_decay * w
  if o.momentum > 0 then
    s.m = s.t == 1 and g or o.momentum * (s.m or 0) + (1 - o.dampening) * g
    g = o.nesterov and g + o.momentum * s.m or s.m
  end
  return w - o.lr * g
end

local function adam(o, s, w, g)
  s.m = (s.m or 0) * o.betas[1] + (1 - o.betas[1]) * g
  s.v = (s.v or 0) * o.betas[2] + (1 - o.betas[2]) * g * g
  local v = s.v
  if o.amsgrad then
    s.most = math.max(s.most or 0, v)
    v = s.most
  end
  return w - o.lr * (s.m / (1 - o.betas[1] ^ s.t))
    / (math.sqrt(v / (1 - o.betas[2] ^ s.t)) + o.eps)
end

function RULES.Adam(o, s, w, g) return adam(o, s, w, g + o.weight_decay * w) end

function RULES.AdamW(o, s, w, g) return adam(o, s, w * (1 - o.lr * o.weight_decay), g) end

function RULES.Lion(o, s, w, g)
  local m = s.m or 0
  local c = o.betas[1] * m + (1 - o.betas[1]) * g
  s.m = o.betas[2] * m + (1 - o.betas[2]) * g
  local sign = c > 0 and 1 or c < 0 and -1 or 0
  return w * (1 - o.lr * o.weight_decay) - o.lr * sign
end

local BASE = { SGD = { weight_decay = 0, momentum = 0, dampening = 0, nesterov = false },
  Adam = { weight_decay = 0, betas = { 0.9, 0.999 }, eps = 1e-8, amsgrad = false },
  AdamW = { weight_decay = 0.01, betas = { 0.9, 0.999 }, eps = 1e-8, amsgrad = false },
  Lion = { weight_decay = 0, betas = { 0.9, 0.99 } } }

local function with(base, more)
  local out = {}
  for name, value in pairs(base) do out[name] = value end
  for name, value in pairs(more or {}) do out[name] = value end
  return out
end

-- Options that change what a step does, for a class.
local function options_of(class)
  local o = { lr = random(10) / 20, weight_decay = random(2) == 1 and 0.125 or nil }
  if class == 'SGD' then
    o.momentum = ({ 0, 0.5, 0.9 })[random(3)]
    if o.momentum > 0 and random(2) == 1 then
      o.nesterov = true
    elseif random(2) == 1 then
      o.dampening = 0.25
    end
  else
    o.betas = random(2) == 1 and { 0.5, 0.75 } or nil
    if class ~= 'Lion' then
      o.eps, o.amsgrad = random(2) == 1 and 0.01 or nil, random(2) == 1 or nil
    end
  end
  return o
end

describe('random steps of an optimizer', function()
  it('are those of its formula, group by group, also from a state half way', function()
    for seed = 1, 48 do
      random = seeded(seed)
      local class = ({ 'SGD', 'Adam', 'AdamW', 'Lion' })[seed % 4 + 1]
      local common, groups, model = options_of(class), {}, {}
      local params, wanted = {}, {}
      for g = 1, random(3) do
        local own = random(2) == 1 and { lr = random(10) / 40 } or {}
        groups[g] = with(own, { params = {} })
        model[g] = with(with(with({ lr = ({ Lion = 1e-4 })[class] or 1e-3 }, BASE[class]), common),
          own)
        model[g].base, model[g].t = model[g].lr, 0
        for i = 1, random(3) do
          local list = drawn(random(4))
          local p = parameter(list)
          groups[g].params[i] = p
          params[#params + 1] = p
          wanted[#wanted + 1] = { group = model[g], list = list, states = {} }
        end
      end
      local function make() return optim[class](groups, common) end
      local o = make()
      for step = 1, 6 do
        local scale = random(3) == 1 and 0.5 or random(5) == 1 and 0 / 0 or nil
        o:zero_grad()
        local has = {}
        for i, p in ipairs(params) do
          if random(4) > 1 then
            local list = drawn(#wanted[i].list)
            give(p, list)
            has[i] = list
          end
        end
        -- a group counts a step where one of its parameters has a gradient, and the step is taken
        local counts = {}
        for i in pairs(has) do counts[wanted[i].group] = scale == scale end
        for group in pairs(counts) do
          if counts[group] then group.t = group.t + 1 end
        end
        for i, list in pairs(has) do
          local w = wanted[i]
          for k, gradient in ipairs(list) do
            if scale == scale then
              local s = w.states[k] or {}
              w.states[k], s.t = s, w.group.t
              w.list[k] = RULES[class](w.group, s, w.list[k], gradient * (scale or 1))
            end
          end
        end
        o:step(scale and { scale = ridge.full(scale, { dtype = 'f64' }) } or nil)
        for i, p in ipairs(params) do
          for k, v in ipairs(p:tolist()) do
            assert.near(wanted[i].list[k], v, 1e-12, ('seed %d, %s, step %d, parameter %d'):format(
              seed, class, step, i))
          end
        end
        assert.equal(model[1].t, o:steps())
        local what = random(5)
        if what == 1 then
          local rate = random(10) / 30
          assert.equal(rate, o:lr(rate))
          for _, group in ipairs(model) do group.lr, group.base = rate, rate end
        elseif what == 2 then
          local factor = random(4) / 2
          o:scale_lr(factor)
          for _, group in ipairs(model) do group.lr = group.base * factor end
        elseif what == 3 then -- another one goes on
          local state = {}
          for name, x in pairs(o:state()) do state[name] = x:clone() end
          o = make()
          assert.equal(o, o:load_state(state))
        end
        assert.equal(model[1].lr, o:lr())
      end
    end
  end)

  it('leave nothing behind where no parameter has a gradient, and none that was held', function()
    local p = parameter { 1, 2, 3 }
    local o = optim.Adam({ p }, { lr = 1 })
    assert.equal(o, o:step())
    assert.equal(0, o:steps())
    assert.same({ 1, 2, 3 }, p:tolist())
    local function step()
      ridge.memory.scope(function() give(p, { 1, 1, 1 }) end)
      o:step()
      o:zero_grad()
      collectgarbage()
      collectgarbage()
      return ridge.memory.stats().live
    end
    step()
    local live = step()
    for _ = 1, 3 do assert.equal(live, step()) end
    assert.equal(5, o:steps())
  end)
end)

describe('one parameter', function()
  it('is what lies at one place, through whichever tensor', function()
    local a = ridge.ones(2)
    local function count(list) return #optim.SGD(list, { lr = 1 }).groups[1].params end
    assert.equal(1, count { a, a:detach() })
    assert.equal(2, count { a, a:clone() })
    assert.equal(2, count { ridge.zeros(0), ridge.zeros(0) })
    local ok, err = pcall(optim.SGD, { { params = a }, { params = { a:detach() } } })
    assert.is_false(ok)
    assert.matches('is in group 1 and in group 2', err.message)
  end)
end)

describe('what a clip found', function()
  it('is read anew at each replay of a plan, and else once', function()
    local p, factor = parameter { 1, 1 }, ridge.tensor({ 3, 4 }, { dtype = 'f64' })
    local o, clip = optim.SGD({ p }, { lr = 1 }), optim.Clip { max_norm = 1 }
    local found
    local function work()
      o:zero_grad { set = true };
      (p * factor):sum():backward()
      found = clip:apply(o)
      return p
    end
    work()
    assert.near(5, found.gradient_norm, 1e-9)
    local first = found
    local plan = ridge.capture(work)
    for _, size in ipairs { 1, 2, 0.1 } do
      factor:copy_(ridge.tensor({ 3 * size, 4 * size }, { dtype = 'f64' }))
      plan()
      assert.near(5 * size, found.gradient_norm, 1e-9)
      assert.near(math.min(1, 5 * size), found.clipped_norm, 1e-5)
      assert.near(math.max(0, 1 - 1 / (5 * size)), found.clipping_ratio, 1e-5)
      assert.is_nil(rawget(found, 'gradient_norm'))
    end
    assert.near(5, rawget(first, 'gradient_norm'), 1e-9)
    assert.is_nil(found.zork)
  end)
end)

describe('the largest number of a type', function()
  it('stands where a guard would put a larger one', function()
    for dtype, most in pairs { f16 = 65504, bf16 = 2 ^ 127 * (2 - 2 ^ -7),
        f32 = 2 ^ 127 * (2 - 2 ^ -23), f64 = 2 ^ 1023 * (2 - 2 ^ -52) } do
      local p = ridge.ones(5, { dtype = dtype }):requires_grad_()
      local o = optim.SGD({ p }, { lr = 1 });
      (p * ridge.tensor({ 0 / 0, 1 / 0, -1 / 0, 64, -64 }, { dtype = dtype })):sum():backward()
      local guard = optim.Guard { kind = 'replace', nan_replacement = -1.7e308,
        inf_replacement = 1.75e308, overflow_replacement = 1.7e308, overflow_threshold = 32 }
      guard:apply(o)
      local function fits(x) return math.max(-most, math.min(most, x)) end
      assert.same({ fits(-1.7e308), fits(1.75e308), fits(-1.75e308), fits(1.7e308),
        fits(-1.7e308) }, p.grad:to('f64'):tolist(), dtype)
    end
  end)
end)

describe('a scaler of losses', function()
  it('is plain arithmetic, over several optimizers', function()
    for seed = 1, 40 do
      random = seeded(seed)
      local opts = { scale = 2 ^ random(10), growth = random(3), backoff = random(4) / 4,
        interval = random(3) }
      local scaler = optim.GradScaler(opts)
      local factor, good, skipped, overflowed = opts.scale, 0, 0, 0
      local all = {}
      for i = 1, random(3) do
        local p = parameter { 1, -2 }
        all[i] = { p = p, o = optim.SGD({ p }, { lr = 0.5 }), w = { 1, -2 } }
      end
      for _ = 1, 8 do
        for i, each in ipairs(all) do
          local g, clip = drawn(2), random(2) == 1 and random(4) / 4 or nil
          if random(4) == 1 then g[random(2)] = ({ 1 / 0, 0 / 0 })[random(2)] end
          each.o:zero_grad()
          local loss = (each.p * ridge.tensor(g, { dtype = 'f64' })):sum()
          local scaled = scaler:scale(loss)
          if loss:item() == loss:item() then assert.equal(loss:item() * factor, scaled:item()) end
          scaled:backward()
          if random(3) == 1 then
            assert.equal(scaler, scaler:unscale(each.o))
            for k, v in ipairs(each.p.grad:tolist()) do
              if g[k] == g[k] then assert.near(g[k], v, 1e-12) end
            end
            assert.is_false((pcall(scaler.unscale, scaler, each.o)))
          end
          local updates = i == #all
          assert.equal(scaler, scaler:step(each.o, { clip = clip, update = updates }))
          local norm = math.sqrt(g[1] ^ 2 + g[2] ^ 2)
          if norm - norm == 0 then
            local share = clip and math.min(1, clip / (norm + 1e-6)) or 1
            for k = 1, 2 do each.w[k] = each.w[k] - 0.5 * g[k] * share end
          else
            skipped, overflowed = skipped + 1, 1
          end
          if updates then
            good = overflowed == 0 and good + 1 or 0
            if overflowed == 1 then factor = factor * opts.backoff end
            if good >= opts.interval then factor, good = factor * opts.growth, 0 end
            overflowed = 0
          end
          for k, v in ipairs(each.p:tolist()) do assert.near(each.w[k], v, 1e-9) end
          assert.same({ factor = factor, good = good, skipped = skipped, overflowed = overflowed },
            scaler:state())
        end
        if random(4) == 1 then -- another one goes on
          local other = optim.GradScaler(opts)
          scaler = other:load_state(scaler:state())
        end
      end
    end
  end)
end)

describe('what optimizers refuse', function()
  it('is what was approved', function()
    local out = {}
    local function try(name, f, ...)
      local ok, found = pcall(f, ...)
      out[#out + 1] = name .. ': ' .. (ok and told.value(found) or told.failure(found))
    end
    local a, b = ridge.ones(1), ridge.ones(2)
    local sgd = optim.SGD({ a, b }, { lr = 0.5 })
    try('Optimizer', optim.Optimizer, { a })
    for _, given in ipairs { 3, {}, { 3 }, { { 4 } }, { { params = 3 } },
        { { params = { a } }, { params = { 3 } } }, { { params = a, zork = 1 } },
        { { params = { b, a } }, { params = a } }, { ridge.zeros(1):to 'i64' } } do
      try('SGD ' .. told.value(given), optim.SGD, given)
    end
    try('SGD', optim.SGD)
    for _, opts in ipairs { { lr = -1 }, { nesterov = true }, { nesterov = true, momentum = 0.5,
        dampening = 0.5 }, { nesterov = true, momentum = 0.5 } } do
      try('SGD ' .. told.value(opts), function() return tostring(optim.SGD({ a }, opts)) end)
    end
    for _, class in ipairs { 'Adam', 'AdamW', 'Lion' } do
      for _, betas in ipairs { {}, { 0 }, { 0, 0 }, { 0, 1 }, { 1, 0 }, { -0.1, 0 }, { 'a', 0 },
          { 0, 0.999 } } do
        try(class .. ' ' .. told.value(betas), function()
          return tostring(optim[class]({ a }, { betas = betas }))
        end)
      end
    end
    for _, given in ipairs { { 1, 3 }, { 1, { scale = 3 } }, { 1, { zork = 3 } }, { 2, {}, 1 },
        { 3, {}, 1, 2 }, { 2, nil, 1 } } do
      try('step', sgd.step, sgd, unpack(given, 2, 1 + given[1]))
      try('zero_grad', sgd.zero_grad, sgd, unpack(given, 2, 1 + given[1]))
    end
    for _, value in ipairs { 'a', -1, 0 / 0, 1 / 0, 0, 2 } do
      try('lr ' .. tostring(value), sgd.lr, sgd, value)
      try('clip ' .. tostring(value), sgd.clip, sgd, value)
      try('scale_lr ' .. tostring(value), function() return sgd:scale_lr(value):lr() end)
    end
    sgd = optim.SGD({ a, b }, { lr = 0.5, momentum = 0.5 })
    for _, given in ipairs { {}, { nil, 3 }, { 'key', 3 }, { 'key' } } do
      try('after_step', function() return #{ sgd:after_step(given[1], given[2]) } end)
    end
    local names = {}
    for name, x in pairs(sgd:state()) do names[#names + 1] = name .. '=' .. x:describe() end
    table.sort(names)
    out[#out + 1] = table.concat(names, ' ')
    local function state(name, value)
      local found = with(sgd:state(), {})
      found[name] = value
      return found
    end
    for _, given in ipairs { 3, state('1.rate', 3), state('1.rate', nil), state('1.1.2', b:clone()),
        state('1.1.2', a), state('zork', a), state('1.count', ridge.ones(1)) } do
      try('state', function() return #{ sgd:load_state(given) } end)
    end
    local made = { Clip = optim.Clip(), Guard = optim.Guard(), GradScaler = optim.GradScaler(),
      StepLR = optim.StepLR(sgd, { every = 2 }), PlateauLR = optim.PlateauLR(sgd) }
    for _, name in ipairs { 'Clip', 'Guard', 'GradScaler', 'StepLR', 'PlateauLR' } do
      out[#out + 1] = tostring(made[name])
      for _, given in ipairs { 3, {}, { zork = 1 } } do
        try(name .. ' state', made[name].load_state, made[name], given)
      end
    end
    try('Clip state', made.Clip.load_state, made.Clip, with(made.Clip:state(), { norms = a }))
    try('Clip state', made.Clip.load_state, made.Clip, with(made.Clip:state(), { filled = 3 }))
    try('Guard state', made.Guard.load_state, made.Guard,
      with(made.Guard:state(), { kept = { 3 } }))
    try('Guard state', made.Guard.load_state, made.Guard,
      with(made.Guard:state(), { kept = { { 3 } } }))
    try('StepLR state', made.StepLR.load_state, made.StepLR, { kind = 'optim.CosineLR', t = 1 })
    try('Guard', made.Guard.apply, made.Guard, 3)
    try('Guard', made.Guard.apply, made.Guard, {})
    local s = made.GradScaler
    try('scaler', s.scale, s, 3)
    try('scaler', s.step, s, sgd, { clip = 0 })
    try('scaler', s.step, s, sgd, { clip = -1 })
    try('scaler', function() s.factor = 'high' end)
    for _, given in ipairs { 'low', {}, true } do
      try('plateau', made.PlateauLR.step, made.PlateauLR, given)
    end
    try('schedule', optim.StepLR, 3, { every = 1 })
    try('schedule', optim.PlateauLR, {}, {})
    for _, warmup in ipairs { 3, 4 } do
      try('warm-up', function()
        return tostring(optim.CosineLR(sgd, { steps = 3, warmup = warmup }))
      end)
    end
    approved.check('optim/refused', (table.concat(out, '\n'):gsub('_spec%.lua:%d+', '_spec.lua')))
  end)
end)

-- SPDX-License-Identifier: MIT
-- Schedules against the numbers that PyTorch 2.15 gives, and loss scaling.
local ridge = require 'ridge'
local nn, optim = ridge.nn, ridge.optim

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

local function rates(make, n)
  local optimizer = optim.SGD({ ridge.zeros(1) }, { lr = 0.1 })
  local schedule = make(optimizer)
  local list = { optimizer:lr() }
  for i = 1, n do list[i + 1] = schedule:step() end
  return list
end

local function same(wanted, found)
  assert.equal(#wanted, #found)
  for i, v in ipairs(wanted) do assert.near(v, found[i], 1e-8, 'step ' .. i) end
end

describe('a schedule', function()
  it('falls in steps', function()
    same({ 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025 }, rates(function(o)
      return optim.StepLR(o, { every = 3, factor = 0.5 })
    end, 8))
  end)

  it('falls as half a cosine, behind a warm-up (F121)', function()
    same({ 0.1, 0.096574579, 0.086819805, 0.072220754, 0.055, 0.037779246, 0.023180195, 0.013425421,
      0.01, 0.01 }, rates(function(o) return optim.CosineLR(o, { steps = 8, final = 0.1 }) end, 9))
    same({ 0.01, 0.028, 0.046, 0.064, 0.082, 0.1, 0.09045085, 0.06545085, 0.03454915, 0.00954915,
      0 }, rates(function(o) return optim.CosineLR(o, { steps = 10, warmup = 5 }) end, 10))
    local net = ridge.nn.Linear(1, 1)
    local ok, err = pcall(optim.CosineLR, optim.SGD(net, { lr = 1 }), { steps = 3, warmup = 4 })
    assert.is_false(ok)
    assert.matches('a warm%-up of 4 steps is no part of 3', err.message)
  end)

  it('goes up and down once', function()
    same({ 0.004, 0.042234111, 0.096026142, 0.097974657, 0.088447572, 0.072608705, 0.053058271,
      0.033005803, 0.015743251, 0.004104554, 4e-7 }, rates(function(o)
      return optim.OneCycleLR(o, { steps = 11 })
    end, 10))
  end)

  it('waits for the loss to stop falling, and nan is no better loss', function()
    local optimizer = optim.SGD({ ridge.zeros(1) }, { lr = 0.1 })
    local schedule, found = optim.PlateauLR(optimizer, { factor = 0.5, patience = 2 }), {}
    for i, loss in ipairs { 1, 0.9, 0.9, 0 / 0, 0.9, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6 } do
      found[i] = schedule:step(loss)
    end
    same({ 0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025, 0.0125 }, found)
  end)

  it('has a least share, and a threshold that is a share of the size of a loss', function()
    local function after(opts, losses)
      local optimizer = optim.SGD({ ridge.zeros(1) }, { lr = 1 })
      local schedule, found = optim.PlateauLR(optimizer, opts), {}
      for i, loss in ipairs(losses) do found[i] = schedule:step(loss) end
      return found
    end
    same({ 1, 0.5, 0.3, 0.3 }, after({ factor = 0.5, patience = 0, least = 0.3 }, { 1, 1, 1, 1 }))
    -- a tenth less is asked for, above 0 and below
    local tenth = { factor = 0.5, patience = 0, threshold = 0.1 }
    same({ 1, 0.5, 0.5, 0.25 }, after(tenth, { 10, 9.5, 8.5, 7.7 }))
    same({ 1, 0.5, 0.25, 0.25, 0.125 }, after(tenth, { -10, -10, -10.5, -11.5, -11 }))
    -- the whole of it: only what is below 0 would be better
    same({ 1, 0.5, 0.5 }, after({ factor = 0.5, patience = 0, threshold = 1 }, { 5, 1, -1 }))
  end)

  it('keeps the groups apart, and what it sets is what a step takes', function()
    local a, b = ridge.ones(1), ridge.ones(1)
    local optimizer = optim.SGD({ { params = a, lr = 0.5 }, { params = b, lr = 0.25 } })
    optim.StepLR(optimizer, { every = 1, factor = 0.5 }):step();
    (a + b):sum():backward()
    optimizer:step()
    assert.equal(0.75, a:item())
    assert.equal(0.875, b:item())
  end)

  it('says what is wrong', function()
    assert.matches('an optimizer is expected, got 3', message(optim.StepLR, 3, { every = 1 }))
    local optimizer = optim.SGD({ ridge.zeros(1) })
    assert.matches('steps', message(optim.CosineLR, optimizer, {}))
    assert.matches('step takes the loss', message(optim.PlateauLR(optimizer).step,
      optim.PlateauLR(optimizer)))
  end)
end)

describe('loss scaling', function()
  it('falls once for two optimizers of which one overflows, whichever comes first', function()
    for first = 1, 2 do
      local scaler, steps = optim.GradScaler { scale = 8, interval = 1 }, {}
      for i = 1, 2 do
        local a = ridge.ones(2):requires_grad_()
        local loss = (a * (i == first and math.huge or 1)):sum()
        scaler:scale(loss):backward()
        local optimizer = optim.SGD({ a }, { lr = 1 })
        scaler:step(optimizer, { update = false })
        steps[i] = optimizer:steps()
      end
      assert.are.equal(8, scaler.factor)
      scaler:update()
      assert.same({ 4, 1, 0 }, { scaler.factor, scaler.skipped, scaler.good })
      assert.same(first == 1 and { 0, 1 } or { 1, 0 }, steps)
    end
  end)

  local function setup(value)
    local a = ridge.ones(2)
    local optimizer = optim.SGD({ a }, { lr = 0.5 })
    local scaler = optim.GradScaler { scale = 8, interval = 2 }
    scaler:scale((a * value):sum()):backward()
    return a, optimizer, scaler
  end

  it('is divided out once, before the norm is clipped', function()
    local a, optimizer, scaler = setup(ridge.tensor { 3, 4 })
    assert.same({ 24, 32 }, a.grad:tolist())
    scaler:step(optimizer)
    assert.equal(0, scaler.skipped)
    assert.same({ -0.5, -1 }, a:tolist())
    a, optimizer, scaler = setup(ridge.tensor { 3, 4 })
    scaler:step(optimizer, { clip = 1 })
    assert.near(1 - 0.5 * 0.6, a:tolist()[1], 1e-5)
  end)

  it('leaves a step out that overflowed, falls, and grows again', function()
    local a, optimizer, scaler = setup(ridge.tensor { 1, 1 / 0 })
    scaler:step(optimizer)
    assert.equal(1, scaler.skipped)
    assert.same({ 1, 1 }, a:tolist())
    assert.equal(4, scaler.factor)
    assert.equal(0, optimizer:steps())
    for _ = 1, 2 do
      optimizer:zero_grad()
      scaler:scale(a:sum()):backward()
      scaler:step(optimizer)
    end
    assert.equal(8, scaler.factor)
    assert.equal('optim.GradScaler(scale 8, 1 steps left out)', tostring(scaler))
  end)

  it('keeps small gradients in f16 apart from 0', function()
    local function gradient(scaler)
      local layer, x = nn.Linear(4, 4, { seed = 1 }):train(), ridge.ones(2, 4)
      local loss = ridge.autocast('f16', layer, x):to('f16') * 2e-7 -- gradients below 6e-8 are 0
      scaler:scale(loss:sum()):backward()
      return layer.weight.grad:abs():max():item() / scaler.factor
    end
    assert.is_true(gradient(optim.GradScaler { scale = 2 ^ 12 }) > 1e-7)
  end)
end)

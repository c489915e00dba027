-- SPDX-License-Identifier: MIT
--- Gradients of leaves and captured backward passes: what the plan made or read is what a leaf has
--- when it has run, whatever was done to gradients meanwhile.

local ridge = require 'ridge'
local nn, optim = ridge.nn, ridge.optim

local function sum(x) return x and x:to('f64'):sum():item() end

-- Losses and the last weights of five steps; wrap: ridge.capture, or nothing.
local function train(wrap, step)
  ridge.seed(3)
  local first, last = nn.Linear(5, 4), nn.Linear(4, 2)
  local net = nn.Sequential(first, nn.Tanh(), last):train()
  local o = optim.AdamW(net, { lr = 0.05 })
  local got = {}
  for _, loss in ipairs(step(net, o, wrap)) do got[#got + 1] = loss end
  for _, p in ipairs { first.weight, first.bias, last.weight, last.bias } do
    got[#got + 1] = sum(p)
  end
  return got
end

local function captured(f) return ridge.capture(f) end
local function eager(f) return f end

local function same(step)
  assert.same(train(eager, step), train(captured, step))
end

describe('a captured backward pass', function()
  it('leaves its gradients where zero_grad was called outside', function()
    same(function(net, o, wrap)
      local x, losses = ridge.randn(6, 5), {}
      local pass = wrap(function()
        local loss = net(x):square():mean()
        loss:backward()
        return loss
      end)
      for i = 1, 5 do
        o:zero_grad()
        losses[i] = pass():item()
        o:step()
      end
      return losses
    end)
  end)

  it('leaves those of the batch that ran last', function()
    same(function(net, o, wrap)
      local passes, losses = {}, {}
      for k = 1, 3 do
        local x = ridge.randn(2 * k, 5)
        passes[k] = wrap(function()
          o:zero_grad()
          local loss = net(x):square():mean()
          loss:backward()
          return loss
        end)
      end
      for i, k in ipairs { 3, 1, 1, 2, 3, 2 } do
        losses[i] = passes[k]():item()
        o:step()
      end
      return losses
    end)
  end)

  it('goes on with an optimizer step that is captured apart', function()
    same(function(net, o, wrap)
      local x, losses = ridge.randn(6, 5), {}
      local function pass()
        o:zero_grad()
        local loss = net(x):square():mean()
        loss:backward()
        return loss
      end
      losses[1] = pass():item()
      local step = wrap(function() o:step() end)
      if wrap == eager then step() end -- a capture takes it, too
      for i = 2, 5 do
        losses[i] = pass():item() -- other tensors for gradients than the step was captured with
        step()
      end
      return losses
    end)
  end)

  it('adds to gradients that it found, and to none where they are gone', function()
    local w = ridge.ones(3):requires_grad_()
    ;(w * 2):sum():backward()
    assert.equal(6, sum(w.grad))
    local pass = ridge.capture(function() (w * 5):sum():backward() end)
    local first = sum(w.grad)
    pass()
    assert.equal(first + 15, sum(w.grad))
    w:zero_grad()
    assert.is_nil(w.grad)
    pass()
    assert.equal(15, sum(w.grad))
    w:zero_grad();
    (w * 2):sum():backward()
    pass()
    assert.equal(21, sum(w.grad))
    w:zero_grad { set = true }
    pass()
    assert.equal(15, sum(w.grad))
  end)

  it('has gradients of leaves that are no module\'s, and of parts', function()
    local whole = ridge.zeros(4, 6)
    local part = whole:narrow(2, 2, 3):requires_grad_()
    local pass = ridge.capture(function() (part * part + part * 3):sum():backward() end)
    pass()
    assert.equal(36, sum(part.grad))
    part:zero_grad()
    pass()
    assert.equal(36, sum(part.grad))
    assert.same({ 4, 3 }, { part.grad.shape[1], part.grad.shape[2] })
  end)

  it('lets alone what it does not compute, and what requires none any more', function()
    local net = nn.Linear(3, 2)
    local x = ridge.ones(2, 3)
    net(x):sum():backward()
    local forward = ridge.capture(function() return net(x) end)
    local before = sum(net.weight.grad)
    net.weight:zero_grad()
    forward()
    assert.is_nil(net.weight.grad)
    local pass = ridge.capture(function() net(x):sum():backward() end)
    pass()
    assert.equal(before, sum(net.weight.grad))
    net.weight:requires_grad_(false)
    pass()
    assert.is_nil(net.weight.grad)
    net.weight:requires_grad_(true)
    pass()
    assert.equal(before, sum(net.weight.grad))
  end)

  it('is the same where it is measured', function()
    local net = nn.Linear(3, 2)
    local x = ridge.ones(2, 3)
    local pass = ridge.capture(function() net(x):sum():backward() end)
    net.weight:zero_grad()
    pass:handle()
    assert.is_not_nil(net.weight.grad)
  end)
end)

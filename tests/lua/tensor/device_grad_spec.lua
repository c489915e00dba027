-- SPDX-License-Identifier: MIT
-- Gradients from device to device: a move is a function like others, and its gradient moves back.
local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local ref = require 'ridge.ffi.ref'
local simulated = dofile 'tests/lua/simulated.lua'

local GPU, OTHER = 'sim:0', 'sim:1'

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

-- Random numbers.
local function numbers(seed, ...)
  local shape = { ... }
  shape[#shape + 1] = { dtype = 'f64', generator = ridge.generator(seed) }
  return ridge.randn(unpack(shape))
end

describe('gradients from device to device', function()
  if not simulated.open() then
    return it('want simulated devices', function() pending 'no nvcc: they were not built' end)
  end

  it('go back the way the tensor came, in every float type', function()
    for _, dtype in ipairs { 'f32', 'f64', 'f16', 'bf16' } do
      local x = ridge.tensor({ { 1, 2, 3 }, { 4, 5, 6 } }, { dtype = dtype }):requires_grad_()
      local there = x:to(GPU)
      assert.is_true(there.requires_grad)
      local y = (there * there):to(OTHER) * 0.5
      y:to('cpu'):sum():backward()
      assert.equal('cpu', x.grad.device)
      assert.equal(dtype, x.grad.dtype)
      assert.is_true(x.grad:equal(x:detach()), dtype)
    end
  end)

  it('are those of one device, through views, gaps and several ways', function()
    local function f(x, w, place)
      local a = x:to(place[1]):t():matmul(w:to(place[1]))      -- a view goes over
      local b = (x:t() * 2):to(place[2]):sum(2, true)          -- with gaps
      return (a:to(place[2]):tanh() * b + x:t():to(place[2]):sum(2, true)):square():mean()
    end
    local found = {}
    for i, place in ipairs { { 'cpu', 'cpu' }, { GPU, 'cpu' }, { GPU, OTHER }, { 'cpu', OTHER } } do
      local x = numbers(1, 3, 4):requires_grad_()
      local w = numbers(2, 3, 5):requires_grad_()
      f(x, w, place):backward()
      found[i] = { x.grad, w.grad }
    end
    for i = 2, #found do
      for k = 1, 2 do assert.is_true(found[i][k]:allclose(found[1][k], 1e-12, 1e-12), i) end
    end
  end)

  it('are what finite differences say, and so are theirs', function()
    local function f(x) return ((x:to(GPU) * 3):sin():to(OTHER):square() * x:to(OTHER)):sum() end
    local function slope(x, order)
      x = x:detach():clone():requires_grad_()
      local g = ridge.grad(f(x):to 'cpu', x, { create = order == 2 })
      if order == 1 then return g end
      return ridge.grad((g * ridge.arange(1, 4, { dtype = 'f64' })):sum(), x)
    end
    local x, e = numbers(3, 4) * 0.3, 1e-5
    local first, second = slope(x, 1), slope(x, 2)
    for i = 1, 4 do
      local v = ridge.zeros(4, { dtype = 'f64' })
      v[i] = e
      local up, down = f(x + v):item(), f(x - v):item()
      assert.is_true(math.abs((up - down) / (2 * e) - first:get(i)) < 1e-6)
      local turn = (slope(x + v, 1) - slope(x - v, 1)) * ridge.arange(1, 4, { dtype = 'f64' })
      assert.is_true(math.abs(turn:sum():item() / (2 * e) - second:get(i)) < 1e-5)
    end
  end)

  it('flow through copy_ into a tensor of another device', function()
    local function f(place)
      local x = numbers(4, 2, 3):requires_grad_()
      local kept = numbers(5, 2, 3):to(place):requires_grad_()
      local y = kept * 2
      y:narrow(1, 1, 1):copy_(x:narrow(1, 2, 1)) -- over the way, into a part of y
      y = (y * y):to('cpu'):sum()
      y:backward()
      return x.grad, kept.grad:to 'cpu'
    end
    local a, b = f 'cpu'
    local c, d = f(GPU)
    assert.is_true(a:equal(c) and b:equal(d))
    assert.equal(0, c:narrow(1, 1, 1):abs():sum():item())
    assert.equal(0, d:narrow(1, 1, 1):abs():sum():item())
    local leaf = ridge.ones(2, { device = GPU }):requires_grad_()
    assert.matches('requires a gradient', failure(leaf.copy_, leaf,
      ridge.ones(2):requires_grad_() * 1))
  end)

  it('add up over several backward passes, and stop where nothing is recorded', function()
    local x = ridge.ones(3):requires_grad_()
    local there = x:to(GPU)
    for _ = 1, 2 do
      local y = (there * 2):sum()
      y:backward(nil, { retain = true })
    end
    assert.is_true(x.grad:equal(ridge.full(4, 3)))
    assert.is_false(x:detach():to(GPU).requires_grad)
    assert.is_false(ridge.no_grad(x.to, x, GPU).requires_grad)
    assert.is_false((x * 2):to('i32'):to(GPU).requires_grad)
    local pinned = ridge.ones(3, { device = GPU }):requires_grad_()
    pinned:to('cpu'):sum():backward()
    assert.equal(GPU, pinned.grad.device)
  end)

  it('flow through pinned memory', function()
    for _, device in ipairs { 'cpu', GPU } do
      local x = ridge.full(3, 4, { device = device }):requires_grad_()
      assert.equal(0, C.rg_to_device(x._t, C.RG_PINNED, ref.slot))
      local pinned = ref.wrap(ref.slot[0])
      assert.equal(0, C.rg_to_device(pinned._t, 1, ref.slot)) -- and on to the GPU
      local there = ref.wrap(ref.slot[0])
      local y = (pinned * pinned):sum() + (there * there):sum():to 'cpu'
      y:backward()
      assert.equal(device, x.grad.device)
      assert.same({ 12, 12, 12, 12 }, x.grad:tolist())
    end
  end)

  it('say which operation made the first number that is not finite', function()
    local x = ridge.zeros(2, { device = GPU }):requires_grad_()
    assert.matches('log', failure(ridge.anomaly, function() return (x:log():to 'cpu'):sum() end))
  end)

  it('refuse a gradient that a function gives on the wrong device', function()
    local x = ridge.ones(2):requires_grad_()
    local twice = ridge.Function { forward = function(_, a) return a * 2 end,
      backward = function(_, dy) return (dy * 2):to(GPU) end }
    assert.matches('gradient 1 of a function is on sim:0, its input on cpu', failure(function()
      twice(x):sum():backward()
    end))
  end)

  it('leave nothing behind, whichever allocation fails', function()
    collectgarbage()
    local function go()
      local x = ridge.ones(4):requires_grad_()
      local y = (x:to(GPU) * 2):to(OTHER):sum()
      y:backward()
      return x.grad:sum():item()
    end
    go()
    collectgarbage()
    local function standing()
      for _ = 1, 3 do ridge.memory.trim() end
      local s = ridge.grad_stats()
      return { s.calls, s.saved_bytes, ridge.memory.stats(GPU).live, ridge.memory.stats(OTHER).live,
        tonumber(C.rg_live_tensors()) }
    end
    local before = standing()
    local failed = 0
    for n = 1, 60 do
      C.rg_alloc_fail_at(n)
      local ok, what = pcall(go)
      C.rg_alloc_fail_at(0)
      if not ok then failed = failed + 1 else assert.equal(8, what) end
      assert.same(before, standing(), 'allocation ' .. n)
    end
    assert.is_true(failed > 5, failed)
  end)
end)

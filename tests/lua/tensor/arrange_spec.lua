-- SPDX-License-Identifier: MIT
--- Elements in another arrangement: in order, padded, backwards, repeated, blocks of pixels.

local ridge = require 'ridge'

local function numbers(x)
  local list = {}
  for i = 1, x.count do list[i] = x:reshape(-1):get(i) end
  return list
end

local function said(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

describe('sort and topk', function()
  it('give values and positions, nan as the largest, equal ones in their order', function()
    local x = ridge.tensor { { 2, 0 / 0, 1, 2 }, { 0, -1, 0, 5 } }
    local values, positions = x:sort()
    assert.same({ 2, 0, 3, 1, 1, 0, 2, 3 }, numbers(positions))
    assert.equal(1, values:get(1, 1))
    assert.same({ 1, 0, 3, 2, 3, 0, 2, 1 }, numbers((select(2, x:sort(2, { descending = true })))))
    assert.same({ 1, 0, 3, 0 }, numbers((select(2, x:topk(2)))))
    assert.same({ 2, 0, 1, 0 }, numbers((select(2, x:topk(2, -1, { largest = false })))))
  end)

  it('sort axes that are not the last, and hand gradients to where values stood', function()
    local x = ridge.tensor({ { 3, 1 }, { 2, 4 } }):requires_grad_()
    local values = x:sort(1)
    assert.same({ 2, 1, 3, 4 }, numbers(values))
    values:backward(ridge.tensor { { 10, 20 }, { 30, 40 } })
    assert.same({ 30, 20, 10, 40 }, numbers(x.grad))
  end)

  it('refuse more elements than there are', function()
    assert.matches('arrange_spec%.lua:%d+: topk: 3 elements of axis 1 of f32%[2%]',
      said(function() return ridge.ones(2):topk(3) end))
    assert.matches('topk: k is a whole number from 0, got 1.5',
      said(function() return ridge.ones(2):topk(1.5) end))
  end)
end)

describe('pad', function()
  local x = ridge.arange(1, 3)

  it('has four modes, and cuts by negative amounts', function()
    assert.same({ 7, 1, 2, 3, 7, 7 }, numbers(x:pad({ { 1, 2 } }, { value = 7 })))
    assert.same({ 3, 2, 1, 2, 3, 2 }, numbers(x:pad({ { 2, 1 } }, { mode = 'reflect' })))
    assert.same({ 1, 1, 2, 3, 3 }, numbers(x:pad({ 1 }, { mode = 'edge' })))
    assert.same({ 3, 1, 2, 3, 1 }, numbers(x:pad({ 1 }, { mode = 'wrap' })))
    assert.same({ 2, 3, 0 }, numbers(x:pad { { -1, 1 } }))
  end)

  it('speaks of the last axes', function()
    local y = ridge.ones(2, 2, 2):pad { { 1, 0 }, 2 }
    assert.same({ 2, 3, 6 }, y.shape)
    assert.equal(8, y:sum():item())
  end)

  it('says what amounts are', function()
    assert.matches('pad: amounts are a list', said(function() return x:pad(1) end))
    assert.matches('pad: an amount is a number or', said(function() return x:pad { { 1 } } end))
    assert.matches('pad: axis 1 of size 3 does not become one of %-1',
      said(function() return x:pad { -2 } end))
  end)
end)

describe('what is moved, repeated and reversed', function()
  local x = ridge.arange(1, 6):reshape(2, 3)

  it('is', function()
    assert.same({ 3, 1, 2, 6, 4, 5 }, numbers(x:roll(1, 2)))
    assert.same({ 4, 5, 6, 1, 2, 3 }, numbers(x:roll(-3, 1)))
    assert.same({ 1, 2, 1, 2 }, numbers(ridge.arange(1, 2):tile(2)))
    assert.same({ 2, 2, 6 }, x:tile(2, 1, 2).shape)
    assert.same({ 0, 3 }, x:tile(0, 1).shape)
    for _, name in ipairs { 'tile', 'flip' } do
      local ok, e = pcall(x[name], x, nil, 2)
      assert.same({ false, name .. ': number 1 of its arguments is nil' }, { ok, e.message })
      ok, e = pcall(x[name], x, 1, nil, 2)
      assert.same({ false, name .. ': number 2 of its arguments is nil' }, { ok, e.message })
    end
    assert.same({ 6, 5, 4, 3, 2, 1 }, numbers(x:flip(1, -1)))
  end)

  it('has gradients, also of a plan', function()
    local y = ridge.ones(2, 3):requires_grad_()
    local weight = ridge.arange(1, 12):reshape(2, 6)
    y:tile(1, 2):mul(weight):sum():backward()
    assert.same({ 1 + 4, 2 + 5, 3 + 6, 7 + 10, 8 + 11, 9 + 12 }, numbers(y.grad))
    local z
    local plan = ridge.capture(function()
      z = x:flip(2):roll(1, 2)
      return z
    end)
    z:fill_(0)
    plan:run()
    assert.same({ 1, 3, 2, 4, 6, 5 }, numbers(z))
  end)
end)

describe('blocks of pixels', function()
  it('go to channels and back', function()
    local x = ridge.arange(1, 16):reshape(1, 1, 4, 4)
    local y = x:space_to_depth(2)
    assert.same({ 1, 4, 2, 2 }, y.shape)
    assert.same({ 1, 3, 9, 11 }, numbers(y[{ 1, 1 }]))
    assert.same(numbers(x), numbers(y:depth_to_space(2)))
    local z = ridge.arange(0, 7):reshape(1, 8, 1, 1)
    assert.same({ 0, 2, 4, 6, 1, 3, 5, 7 }, numbers(z:depth_to_space(2)))
    assert.same({ 0, 1, 2, 3, 4, 5, 6, 7 }, numbers(z:depth_to_space(2, { order = 'crd' })))
    assert.matches('6 channels are no blocks of 2 x 2',
      said(function() return ridge.ones(1, 6, 1, 1):depth_to_space(2) end))
  end)
end)

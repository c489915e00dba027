-- SPDX-License-Identifier: MIT
--- Other sizes of axes by interpolation; cumulative products.

local ridge = require 'ridge'

local function numbers(x)
  local list = {}
  x = x:contiguous():reshape(-1)
  for i = 1, x.count do list[i] = x:get(i) end
  return list
end

local function near(wanted, y)
  local got = numbers(y)
  assert.equal(#wanted, #got)
  for i, v in ipairs(wanted) do
    assert.is_true(math.abs(v - got[i]) <= 1e-5, ('%d: %g, wanted %g'):format(i, got[i], v))
  end
end

local function said(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

describe('resize', function()
  local x = ridge.arange(1, 8):reshape(1, 1, 2, 4)

  -- the numbers of the examples in ONNX's operator text
  it('gives what ONNX says', function()
    near({ 1, 3 }, x:resize({ 1, 2 }, { coordinates = 'half_pixel', scales = { 0.6, 0.6 } }))
    near({ 2.6666665, 4.3333331 }, x:resize({ 1, 2 }, { mode = 'linear', scales = { 0.6, 0.6 } }))
    near({ 1, 3.142857 }, x:resize({ 1, 2 }, { mode = 'linear', coordinates = 'align_corners',
      scales = { 0.6, 0.6 } }))
    local y = ridge.arange(1, 4):reshape(1, 1, 2, 2)
    near({ 1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4 },
      y:resize({ 4, 4 }, { mode = 'linear' }))
    near({ 1, 1.3333333, 1.6666667, 2, 1.6666667, 2, 2.3333333, 2.6666667, 2.3333333, 2.6666667,
      3, 3.3333333, 3, 3.3333333, 3.6666667, 4 },
      y:resize({ 4, 4 }, { mode = 'linear', coordinates = 'align_corners' }))
    near({ 1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4 },
      y:resize({ 4, 6 }, { coordinates = 'asymmetric', rounding = 'floor' }))
  end)

  it('repeats a single element, and gives its gradient the sum', function()
    for _, mode in ipairs { 'nearest', 'linear', 'cubic' } do
      local one = ridge.full(7, 1, 1, 1):requires_grad_()
      local y = one:resize({ 4 }, { mode = mode })
      near({ 7, 7, 7, 7 }, y)
      y:sum():backward()
      near({ 4 }, one.grad)
    end
  end)

  it('goes over any axes, and through types that are not computed with', function()
    local y = ridge.arange(0, 5, { dtype = 'u8' }):reshape(3, 2)
    local z = y:resize({ 6 }, { axes = { 1 }, coordinates = 'asymmetric', rounding = 'floor' })
    assert.equal('u8', z.dtype)
    assert.same({ 0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5 }, numbers(z))
    assert.same({ 2, 5, 3 }, ridge.ones(2, 3, 4):resize({ 5, 3 }, { axes = { 2, 3 } }).shape)
    assert.same({ 0, 0 }, numbers(ridge.ones(1, 2):resize({ 2 }, { coordinates =
      'tf_crop_and_resize', crop = { { 2, 3 } } })))
  end)

  it('leaves elements without weight out, so that they may be infinite', function()
    near({ 1, 1, 3, 3 }, ridge.tensor({ 1, math.huge, 3 }):resize({ 4 },
      { coordinates = 'asymmetric', rounding = 'floor' }):narrow(1, 1, 2):tile(2)
      + ridge.tensor { 0, 0, 2, 2 })
    local y = ridge.tensor({ 1, 2, math.huge }):resize({ 5 }, { mode = 'linear', coordinates =
      'align_corners' })
    near({ 1, 1.5, 2 }, y:narrow(1, 1, 3))
    assert.equal(math.huge, y:get(5))
  end)

  it('has gradients: all weights of an element', function()
    local y = ridge.randn(1, 1, 3, 3):requires_grad_()
    y:resize({ 6, 6 }, { mode = 'linear' }):sum():backward()
    near({ 36 }, y.grad:sum())
    local z = ridge.randn(2):requires_grad_()
    z:resize({ 4 }, { coordinates = 'asymmetric', rounding = 'floor' })
      :backward(ridge.tensor { 1, 2, 3, 4 })
    near({ 3, 7 }, z.grad)
  end)

  it('says what does not fit', function()
    assert.matches('resize_spec%.lua:%d+: resize: 3 sizes for 3 axes of f32%[2%]',
      said(function() return ridge.ones(2):resize { 1, 2, 3 } end))
    assert.matches('resize: a size is a whole number from 0, got 1.5',
      said(function() return ridge.ones(2):resize { 1.5 } end))
    assert.matches('axis 1 of f32%[0%] does not become one of 3',
      said(function() return ridge.ones(0):resize { 3 } end))
    for _, each in ipairs {
      { 'scales are a list of numbers, one for each size', { scales = { 0.5 } } },
      { 'crop is a list of {first, last}, one for each size', { crop = { { 0, 1 } } } },
      { 'crop is a list of {first, last}, one for each size', { crop = { { 0, 1 }, { 0 } } } },
      { 'crop is a list of {first, last}, one for each size', { crop = { { 0, 1 }, { 'a', 1 } } } },
    } do
      local ok, err = pcall(ridge.ones(3, 3).resize, ridge.ones(3, 3), { 2, 2 }, each[2])
      assert.same({ false, 'resize: ' .. each[1], 'EARG' }, { ok, err.message, err.code })
    end
  end)
end)

describe('cumprod', function()
  it('multiplies from either end', function()
    local x = ridge.tensor { { 1, 2, 3 }, { 4, 5, 6 } }
    assert.same({ 1, 2, 6, 4, 20, 120 }, numbers(x:cumprod()))
    assert.same({ 4, 10, 18, 4, 5, 6 }, numbers(x:cumprod(1, true)))
    assert.equal('i64', x:to('i8'):cumprod().dtype)
  end)

  it('has a gradient over zeros', function()
    local function gradient(values, reverse)
      local x = ridge.tensor(values, { dtype = 'f64' }):requires_grad_()
      x:cumprod(1, reverse):sum():backward()
      return numbers(x.grad)
    end
    assert.same({ 1 + 3 + 15, 2 + 10, 6 }, gradient { 2, 3, 5 })
    assert.same({ 1, 2 * (1 + 5), 0 }, gradient { 2, 0, 5 })
    assert.same({ 1, 2 * (1 + 5), 0, 0, 0 }, gradient { 2, 0, 5, 0, 3 })
    assert.same({ 0, 2 * (1 + 5), 1 }, gradient({ 5, 0, 2 }, true))
  end)
end)

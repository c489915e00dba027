-- SPDX-License-Identifier: MIT
--- Elements by their positions: gather, scatter, index_select, and those of several axes.

local ridge = require 'ridge'

local function whole(list) return ridge.tensor(list, { dtype = 'i64' }) end

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

describe('gather', function()
  it('takes part of x where the index is smaller, and negative axes', function()
    local x = ridge.arange(1, 12):reshape(3, 4)
    assert.same({ 9, 2 }, numbers(x:gather(-2, whole { { 2, 0 } })))
    assert.same({ 4, 1, 8, 7 }, numbers(x:gather(2, whole { { 3, 0 }, { 3, 2 } })))
  end)

  it('reads an index with gaps', function()
    local x, index = ridge.arange(1, 4):reshape(2, 2), whole { { 0, 1 }, { 1, 1 } }
    assert.same({ 1, 4, 3, 4 }, numbers(x:gather(1, index:t():contiguous():t())))
    assert.same({ 1, 2 }, numbers(x:gather(1, whole { { 0 } }:expand(1, 2))))
  end)

  it('names the place of a position that is outside, at the line of the call', function()
    local text = said(function() return ridge.ones(2, 2):gather(1, whole { { 0, 2 } }) end)
    assert.matches('indexing_spec%.lua:%d+: gather: position 2 at place 2 is outside; they go '
      .. 'from 0 to 1', text)
    assert.matches('gather: there is no axis 3 in f32%[2,2%]',
      said(function() return ridge.ones(2, 2):gather(3, whole { { 0, 2 } }) end))
  end)

  it('sends the gradient to where each element was, several times too', function()
    local x = ridge.ones(1, 3):requires_grad_()
    x:gather(2, whole { { 2, 2, 0, 2 } }):sum():backward()
    assert.same({ 1, 0, 3 }, numbers(x.grad))
  end)
end)

describe('scatter', function()
  it('puts numbers, parts of longer tensors, and what stays last', function()
    local x = ridge.zeros(2, 3)
    assert.same({ 0, 0, 7, 7, 0, 0 }, numbers(x:scatter(2, whole { { 2 }, { 0 } }, 7)))
    local src = ridge.arange(1, 6):reshape(2, 3)
    assert.same({ 0, 0, 2, 0, 5, 0 },
      numbers(x:scatter(2, whole { { 2, 2 }, { 1, 1 } }, src)))
  end)

  it('adds, multiplies, takes the largest and the smallest; nan wins', function()
    local x, index = ridge.full(2, 3), whole { 0, 0, 2 }
    local src = ridge.tensor { 3, 4, -1 }
    local function of(reduce) return numbers(x:scatter(1, index, src, { reduce = reduce })) end
    assert.same({ 9, 2, 1 }, of 'add')
    assert.same({ 24, 2, -2 }, of 'mul')
    assert.same({ 4, 2, 2 }, of 'max')
    assert.same({ 2, 2, -1 }, of 'min')
    for _, reduce in ipairs { 'max', 'min' } do
      for _, dtype in ipairs { 'f32', 'f64', 'f16' } do
        for _, list in ipairs { { 0 / 0, 9, 9 }, { 9, 0 / 0, 9 } } do
          local y = x:to(dtype):scatter(1, index, ridge.tensor(list):to(dtype), { reduce = reduce })
          assert.is_true(y:get(1) ~= y:get(1), reduce .. ' ' .. dtype)
        end
      end
    end
  end)

  it('of bool adds to "any" and multiplies to "all"', function()
    local x, index = ridge.tensor({ 1, 0, 1 }, { dtype = 'bool' }), whole { 0, 0, 2, 1 }
    local src = ridge.tensor({ 1, 1, 0, 1 }, { dtype = 'bool' })
    local function of(reduce)
      return numbers(x:scatter(1, index, src, { reduce = reduce }):to 'u8')
    end
    assert.same({ 1, 1, 1 }, of 'add')
    assert.same({ 1, 0, 0 }, of 'mul')
  end)

  it('gives the gradient of one place to the last that came there', function()
    local x = ridge.ones(3):requires_grad_()
    local src = ridge.tensor({ 5, 6, 7 }):requires_grad_()
    local y = x:scatter(1, whole { 1, 1, 0 }, src)
    y:backward(ridge.tensor { 1, 2, 3 })
    assert.same({ 0, 0, 3 }, numbers(x.grad))
    assert.same({ 0, 2, 1 }, numbers(src.grad))
  end)

  it('gives the gradient of a product over factors that are 0', function()
    local function gradient(values)
      local src = ridge.tensor(values):requires_grad_()
      ridge.full(2, 2):scatter(1, whole { 0, 0 }, src, { reduce = 'mul' }):sum():backward()
      return numbers(src.grad)
    end
    assert.same({ 10, 6 }, gradient { 3, 5 })
    assert.same({ 10, 0 }, gradient { 0, 5 })
    assert.same({ 0, 0 }, gradient { 0, 0 })
  end)

  it('says which types do not fit', function()
    assert.matches('scatter: src i64%[1%] and x f32%[2%] are of different types',
      said(function() return ridge.ones(2):scatter(1, whole { 0 }, whole { 1 }) end))
  end)
end)

describe('index_select', function()
  it('takes parts of any axis, with an index of any shape', function()
    local x = ridge.arange(1, 12):reshape(2, 3, 2)
    assert.same({ 5, 6, 1, 2, 11, 12, 7, 8 }, numbers(x:index_select(2, whole { 2, 0 })))
    local y = x:index_select(-1, whole { { 1 }, { 1 }, { 0 } })
    assert.same({ 2, 3, 3, 1 }, y.shape)
    assert.same({ 2, 2, 1 }, numbers(y[{ 1, 1 }]))
    assert.same({ 3, 2 }, x:index_select(1, whole(1):reshape {}).shape)
  end)

  it('has a gradient', function()
    local x = ridge.ones(2, 3):requires_grad_()
    x:index_select(2, whole { 2, 2 }):sum():backward()
    assert.same({ 0, 0, 2, 0, 0, 2 }, numbers(x.grad))
  end)
end)

describe('gather_nd and scatter_nd', function()
  local x = ridge.arange(1, 12):reshape(2, 3, 2)

  it('take and place parts by positions of several axes', function()
    assert.same({ 11, 12, 1, 2 }, numbers(x:gather_nd(whole { { 1, 2 }, { 0, 0 } })))
    assert.same({ 12 }, numbers(x:gather_nd(whole { { 1, 2, 1 } })))
    assert.same({ 3, 4, 9, 10 }, numbers(x:gather_nd(whole { { 1 }, { 1 } }, { batch = 1 })))
    local y = ridge.zeros(2, 3, 2):scatter_nd(whole { { 1, 2 }, { 0, 0 }, { 1, 2 } },
      ridge.arange(1, 6):reshape(3, 2), { reduce = 'add' })
    assert.same({ 1 + 5, 2 + 6 }, numbers(y[{ 2, 3 }]))
    assert.same({ 3, 4 }, numbers(y[{ 1, 1 }]))
    assert.equal(21, y:sum():item())
  end)

  it('refuse positions outside their axis that would lie in another part', function()
    local text = said(function() return x:gather_nd(whole { { 0, 3 } }) end)
    assert.matches('indexing_spec%.lua:%d+: gather_nd: number %-1 at place 1 is no row', text)
    said(function() return x:scatter_nd(whole { { 0, 3 } }, ridge.ones(1, 2)) end)
    said(function() return x:gather_nd(whole { { 0 }, { 3 } }, { batch = 1 }) end)
    assert.matches('scatter_nd: src f32%[2,2%] has not a part',
      said(function() return x:scatter_nd(whole { { 0, 0 } }, ridge.ones(2, 2)) end))
  end)

  it('refuse positions that are no whole numbers', function()
    for _, dtype in ipairs { 'f32', 'f16', 'bool' } do
      local index = ridge.ones(1, 2, { dtype = dtype })
      assert.matches('gather_nd: index is ' .. dtype .. '%[1,2%], wanted whole numbers',
        said(function() return x:gather_nd(index) end))
      assert.matches('scatter_nd: index is ' .. dtype .. '%[1,2%], wanted whole numbers',
        said(function() return x:scatter_nd(index, ridge.ones(1, 2)) end))
    end
  end)

  it('take nothing of a batch of nothing', function()
    local y = ridge.zeros(0, 3, 2):gather_nd(ridge.zeros(0, 4, 1, { dtype = 'i64' }), { batch = 1 })
    assert.same({ 0, 4, 2 }, y.shape)
  end)

  it('have gradients', function()
    local a, src = ridge.ones(2, 2):requires_grad_(), ridge.ones(1, 2):requires_grad_()
    a:scatter_nd(whole { { 1 } }, src):backward(ridge.tensor { { 1, 2 }, { 3, 4 } })
    assert.same({ 1, 2, 0, 0 }, numbers(a.grad))
    assert.same({ 3, 4 }, numbers(src.grad))
    local b = ridge.ones(2, 2):requires_grad_()
    b:gather_nd(whole { { 1, 0 }, { 1, 0 } }):sum():backward()
    assert.same({ 0, 0, 2, 0 }, numbers(b.grad))
  end)
end)
